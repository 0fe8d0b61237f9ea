//! A served drive shows its figures: on the control socket, and on a board, whether the server is awake or
//! asleep.

use crate::common::{Client, drive, pattern, serve};
use pellucid_media::StoreKind;
use pellucid_monitor::{Board, Figures};
use pellucid_serve::{Core, Options, Server, Time};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(600);

#[test]
fn figures_of_a_served_drive_count_what_hosts_did() {
    let served = serve("figures", vec![("one".into(), drive(StoreKind::Ram))], Time::Paced { dilation: 1.0 });
    let watch =
        || -> Figures { serde_json::from_str(&served.control(r#"{"do":"watch"}"#)).expect("figures") };
    let before = watch();
    assert!(before.drives[0].watched.is_some(), "the first look begins to watch");
    let mut client = Client::tcp(&served, "one");
    client.write(0, &pattern(1, 64 << 10));
    client.flush();
    client.read(0, 64 << 10);
    let after = watch();
    let watched = after.drives[0].watched.as_ref().expect("watched");
    for command in ["read", "write", "flush"] {
        let (now, then) =
            (&watched.commands[command], &before.drives[0].watched.as_ref().unwrap().commands[command]);
        assert_eq!(now.latency.total() - then.latency.total(), 1, "{command}");
    }
    assert_eq!(after.drives[0].host_written_bytes, 64 << 10);
    let serving = after.serving.as_ref().expect("it is a server");
    let nbd = serving.protocols.iter().find(|p| p.name == "nbd").expect("nbd is listened for");
    assert_eq!((nbd.connections, nbd.connected, nbd.commands), (1, 1, 3));
    assert!(nbd.received_bytes > 64 << 10 && nbd.sent_bytes > 64 << 10, "{nbd:?}");
    assert_eq!(serving.lateness.bins.total(), 3);
    assert!(serving.lateness.p50_ns <= serving.lateness.p99_ns);
    let status = served.control(r#"{"do":"status"}"#);
    assert!(
        !status.contains("snapshot") && status.contains("\"drives\":["),
        "what monitors show is asked with watch"
    );
}

#[test]
fn a_server_that_sleeps_wakes_to_show_itself() {
    let board = Board::default();
    let shown = board.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let core = Core::new(vec![("one".into(), drive(StoreKind::Ram))], Time::Instant).unwrap();
        let mut server = Server::new(core, Options::default(), Box::new(|_| ())).unwrap();
        server.show_on(&shown);
        tell.send(server.stopper()).unwrap();
        server.run().map(drop).unwrap();
    });
    let stopper = told.recv().unwrap();
    // Without connections and without the wake-up it would sleep for ever.
    let began = Instant::now();
    for _ in 0..3 {
        let view = board.look(Duration::ZERO, LONG).expect("a view");
        assert!(view.drives[0].1.probes.is_some());
    }
    assert!(began.elapsed() < LONG, "the server does not wake up");
    stopper.stop();
    thread.join().unwrap();
}
