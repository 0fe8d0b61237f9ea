//! A server, as the system around it sees it.

use crate::common::{Folder, Serving, eventually};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Without file descriptors nobody can be accepted, and the system does not say when somebody can: that is asked for again and again,
/// and logged once.
#[test]
fn a_server_without_descriptors_says_so_once() {
    let folder = Folder::with_drive();
    let script = "ulimit -n 24; exec \"$0\" serve tiny.toml --set media.store=ram --nbd unix:nbd";
    let _server = Serving::new(&folder, script);
    let count = |event: &str| std::fs::read_to_string(folder.path("log")).unwrap().matches(event).count();
    eventually("the server listens", || folder.path("nbd").exists());
    let mut clients = Vec::new();
    eventually("descriptors run out", || {
        clients.push(UnixStream::connect(folder.path("nbd")).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        count("event=accept-failed") > 0
    });
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((count("event=accept-failed"), count("event=accepting-again")), (1, 0));
    drop(clients);
    eventually("somebody is accepted", || count("event=accepting-again protocol=nbd") > 0);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((count("event=accept-failed protocol=nbd"), count("event=accepting-again")), (1, 1));
}

/// A preset that forgets keeps what is flushed as soon as it is served; the drive that was asked to forget says in its log that it does.
#[test]
fn a_served_drive_that_promises_nothing_says_so() {
    for (more, expected) in [("", 0), ("--set ftl.durability=volatile", 1)] {
        let folder = Folder::new();
        let script = format!(
            "exec \"$0\" serve cosmos-plus --set media.store=file:kept.img --set media.space=sparse --set media.blocks=32 \
             --set ftl.over_provisioning=0.4 --nbd unix:nbd --control control {more}"
        );
        let _server = Serving::new(&folder, &script);
        eventually("the server listens", || folder.path("control").exists());
        let count = |event: &str| std::fs::read_to_string(folder.path("log")).unwrap().matches(event).count();
        // What was found at the start is told with the first thing that happens.
        let _client = UnixStream::connect(folder.path("nbd")).unwrap();
        eventually("the client is logged", || count("event=connected") > 0);
        assert_eq!(count("event=promises-nothing"), expected, "{more}");
    }
}
