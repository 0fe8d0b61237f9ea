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
