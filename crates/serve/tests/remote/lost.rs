//! Cut connections, lost answers, and power cuts: no acknowledged data are lost.

use super::{BLOCK, Model, Running, host, host_as, host_on_zones, remote_config, serve, zoned};
use crate::common::{chunk_config, chunks, eventually};
use pellucid_device::Device;
use pellucid_flash::Nanos;
use pellucid_serve::{Remote, RemoteConfig, Time};
use pellucid_wire::nbd::Command;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Flag of an NBD write that ends once its data are durable (FUA).
const FORCED: u16 = 1;

/// Forwards connections, and cuts them.
struct Proxy {
    address: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    /// Drop the drive's answers.
    deaf: Arc<AtomicBool>,
    /// Close new connections.
    refuse: Arc<AtomicBool>,
}

impl Proxy {
    fn new(to: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let streams = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&streams);
        let deaf = Arc::new(AtomicBool::new(false));
        let hears_nothing = Arc::clone(&deaf);
        let refuse = Arc::new(AtomicBool::new(false));
        let refuses = Arc::clone(&refuse);
        // The thread ends with the process, waiting for connections that never come.
        std::thread::spawn(move || {
            for host in listener.incoming().flatten().filter(|_| !refuses.load(Ordering::SeqCst)) {
                let Ok(drive) = TcpStream::connect(to) else { continue };
                [&host, &drive]
                    .into_iter()
                    .for_each(|stream| stream.set_nodelay(true).expect("a socket option"));
                let ends = || [&host, &drive].map(|stream| stream.try_clone().expect("another handle"));
                all.lock().expect("streams").extend(ends());
                let [from_host, from_drive] = ends();
                let deaf = Arc::clone(&hears_nothing);
                std::thread::spawn(move || pass(from_host, drive, &AtomicBool::new(false)));
                std::thread::spawn(move || pass(from_drive, host, &deaf));
            }
        });
        Proxy { address, streams, deaf, refuse }
    }

    fn cut(&self) {
        for stream in self.streams.lock().expect("streams").drain(..) {
            // The stream may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, deaf: &AtomicBool) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !deaf.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Writes while `disturb` is called now and then, each time after the connection is restored; nothing may be
/// lost.
fn undisturbed(host: &Running, times: usize, mut disturb: impl FnMut()) {
    let mut client = host.client();
    let (mut model, mut rng) = (Model::default(), pellucid_flash::Rng::new(2));
    for time in 0..times {
        for n in 0..150 {
            model.write(&mut client, &mut rng);
            if n == 40 + time {
                disturb();
            }
        }
        client.flush();
        host.wait_for("event=remote-back", time + 1);
    }
    model.check(&mut client);
    client.leave();
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_cut_connection_loses_nothing() {
    let drive = serve("remote-cut", 0, Time::Paced { dilation: 1.0 }, || chunks().into());
    let proxy = Proxy::new(drive.nvme);
    let host = host("remote-cut-host", proxy.address, false);
    undisturbed(&host, 8, || proxy.cut());
    assert_eq!(host.logged("event=remote-lost"), 8);
    host.stop();
}

/// Like chunks, zones have write pointers, which settle commands in flight.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_cut_connection_to_a_zoned_drive_loses_nothing() {
    let drive = serve("remote-zones", 0, Time::Paced { dilation: 1.0 }, || zoned().into());
    let proxy = Proxy::new(drive.nvme);
    let host = host_on_zones("remote-zones-host", proxy.address);
    undisturbed(&host, 8, || proxy.cut());
    assert_eq!(host.logged("event=remote-lost"), 8);
    assert_eq!(host.logged("event=remote-gone"), 0);
    host.stop();
}

/// A host that misses the completion of a reset does not know whether it was executed. Until the chunk is
/// written again, the drive owes none of its data.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_reset_whose_end_was_not_heard_is_no_loss() {
    let drive = serve("remote-reset", 0, Time::Paced { dilation: 1.0 }, || {
        let mut config = chunk_config();
        // Resets are in flight most of the time.
        config.media.timing.erase_ns = Nanos::from_ms(3);
        Device::new(&config).expect("a good configuration").into()
    });
    let proxy = Proxy::new(drive.nvme);
    let host = host("remote-reset-host", proxy.address, false);
    let mut client = host.client();
    let (mut model, mut rng) = (Model::default(), pellucid_flash::Rng::new(4));
    // GC runs continuously once everything has been written twice.
    (0..2 * client.size_bytes / BLOCK as u64).for_each(|_| model.write(&mut client, &mut rng));
    for round in 0..12 {
        (0..37).for_each(|_| model.write(&mut client, &mut rng));
        proxy.deaf.store(true, Ordering::SeqCst);
        while !drive.control(r#"{"do":"status"}"#).contains("\"outstanding\":0,") {
            std::thread::yield_now();
        }
        // Twice, as the drive's data are compared with the owed data when the host is back.
        for time in 1..=2 {
            proxy.cut();
            proxy.deaf.store(false, Ordering::SeqCst);
            host.wait_for("event=remote-back", 2 * round + time);
        }
    }
    client.flush();
    model.check(&mut client);
    client.leave();
    host.stop();
}

/// Another host that uses the drive while this one is away: what this one knows of the media is old, so its commands end with an error at
/// once, those that wait and those that come; none waits for the end of the process.
#[test]
fn commands_of_a_host_whose_place_another_has_taken_fail_at_once() {
    let drive = serve("remote-superseded", 0, Time::Paced { dilation: 1.0 }, || chunks().into());
    let proxy = Proxy::new(drive.nvme);
    for is_gone_again in [false, true] {
        let name = format!("nqn.2014-08.org.example:first-{is_gone_again}");
        let first = host_as(
            "remote-superseded-first",
            RemoteConfig { host_nqn: name, ..remote_config(proxy.address) },
        );
        let mut client = first.client();
        client.write(0, &[1; BLOCK]);
        client.flush();
        proxy.refuse.store(true, Ordering::SeqCst);
        proxy.cut();
        first.wait_for("event=remote-lost", 1);
        client.send(Command::Write, FORCED, 0, BLOCK as u32, &[2; BLOCK]);
        let name = format!("nqn.2014-08.org.example:other-{is_gone_again}");
        let config = RemoteConfig { host_nqn: name, ..remote_config(drive.nvme) };
        let mut other = None;
        eventually("the drive knows that the first host's connection has gone", || {
            other = Remote::connect(config.clone()).ok();
            other.is_some()
        });
        let held = other.filter(|_| !is_gone_again);
        proxy.refuse.store(false, Ordering::SeqCst);
        assert_ne!(client.reply(|_| 0).error, 0, "the write that waited");
        let later = client.ask(Command::Write, FORCED, BLOCK as u64, BLOCK as u32, &[3; BLOCK]);
        assert_ne!(later.error, 0, "a write that comes later");
        first.wait_for("event=remote-gone", 1);
        // What it had flushed may be another host's by now.
        let read = client.ask(Command::Read, 0, 0, BLOCK as u32, &[]);
        assert_ne!(read.error, 0, "a read of what it knows");
        assert!(first.logged("another host") > 0, "the log says why");
        let status = first.control(r#"{"do":"status"}"#);
        assert!(status.contains("\"remote_lost\":\"") && status.contains("another host"), "{status}");
        drop(held);
        client.leave();
        drop(first);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn power_cuts_of_the_remote_drive_lose_nothing() {
    let drive = serve("remote-power", 0, Time::Paced { dilation: 1.0 }, || chunks().into());
    let host = host("remote-power-host", drive.nvme, false);
    let before = host.figures()["serving"]["layers"][0].clone();
    let mut client = host.client();
    let (mut model, mut rng) = (Model::default(), pellucid_flash::Rng::new(3));
    for _ in 0..8 {
        for n in 0..150 {
            model.write(&mut client, &mut rng);
            if n == 70 {
                let answer = drive.control(r#"{"do":"power-cut"}"#);
                assert!(answer.contains("\"ok\":true"), "{answer}");
            }
        }
        client.flush();
    }
    model.check(&mut client);
    assert!(host.logged("event=remote-lost") > 0, "commands were under way when the power went");
    let layer = &host.figures()["serving"]["layers"][0];
    assert!(layer["write_failures"].as_u64() > Some(0), "superpages were torn: {layer}");
    assert_eq!(
        layer["lines"], before["lines"],
        "a chunk that was being written when the power went is as good as before: {layer}"
    );
    client.leave();
    host.stop();
}
