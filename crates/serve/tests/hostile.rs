//! Peers that break the protocol, stall, or come in crowds: they are turned away or bounded, without effect
//! on others.

use crate::common::{self, Client, SECTOR, Served, config, drive, pattern, read_some, serve, serve_observed};
use pellucid_device::Device;
use pellucid_flash::Rng;
use pellucid_media::StoreKind;
use pellucid_serve::{Core, Operated, Options, Time};
use pellucid_target::Output;
use pellucid_target::budget::TOTAL_BYTES_MAX;
use pellucid_target::connection::{Close, ConnectionId};
use pellucid_target::nbd::NbdSession;
use pellucid_target::session::{BYTES_MAX, Load, Port, Session};
use pellucid_wire::nbd::{Command, OptionKind, Request, encode_client_flags, encode_option};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const OVERFLOW: u32 = 75;

fn served(name: &str) -> Served {
    serve(name, vec![("one".into(), drive(StoreKind::Ram))], Time::Instant)
}

fn connect(served: &Served) -> TcpStream {
    let stream = TcpStream::connect(served.nbd).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(600))).expect("a TCP option");
    stream
}

/// Returns true if the peer closes, in any way, within the time limit.
fn ends(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(e) => {
                return !matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            }
        }
    }
}

fn number(status: &str, key: &str) -> u64 {
    let value: serde_json::Value = serde_json::from_str(status).expect("JSON");
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {status}"))
}

/// Waits until a number of the status is `wanted`.
fn settles(served: &Served, key: &str, wanted: u64) {
    let found = || number(&served.control(r#"{"do":"status"}"#), key);
    common::eventually(&format!("{key} is {wanted}"), || found() == wanted);
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let served = served("garbage");
    let mut good = Client::tcp(&served, "one");
    let mut rng = Rng::new(5);
    for round in 0..40 {
        let mut stream = connect(&served);
        let mut bytes = pattern(rng.next_u64(), 8 + rng.below(4096) as usize);
        match round % 4 {
            // At once; in place of an option; in place of a request.
            0 => {}
            1 => bytes.splice(0..0, encode_client_flags(true)).for_each(drop),
            _ => {
                let mut options = encode_client_flags(true).to_vec();
                encode_option(OptionKind::ExportName, b"one", &mut options);
                bytes.splice(0..0, options).for_each(drop);
            }
        }
        // The server may close before it has received everything.
        let _ = stream.write_all(&bytes);
        if round % 8 < 4 {
            let _ = stream.shutdown(Shutdown::Write);
        }
        assert!(ends(&mut stream), "round {round}");
        good.write(0, &[round as u8; 4096]);
        assert_eq!(good.read(0, 4096), [round as u8; 4096]);
    }
}

#[test]
fn too_long_is_refused() {
    let served = served("long");
    let mut client = Client::tcp(&served, "one");
    assert_eq!(client.ask(Command::Read, 0, 0, 2 << 20, &[]).error, 0);
    client.send(Command::Write, 0, 0, (32 << 20) + SECTOR as u32, &[]);
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    assert!(rest.is_empty(), "a payload above the limit ends the connection unanswered");
    let mut stream = connect(&served);
    let mut option = encode_client_flags(true).to_vec();
    encode_option(OptionKind::Info, &[], &mut option);
    let length = option.len();
    option[length - 4..].copy_from_slice(&u32::MAX.to_be_bytes());
    stream.write_all(&option).expect("the server takes options");
    assert!(ends(&mut stream), "an option of 4 GiB");
}

#[test]
fn a_read_above_the_limit_is_an_error() {
    // A drive of more than 32 MiB that stays nearly empty.
    let mut config = config(StoreKind::Ram);
    config.media.geometry.blocks = 512;
    let device = Device::new(&config).expect("a good configuration");
    let served = serve("read-limit", vec![("one".into(), device)], Time::Instant);
    let mut client = Client::tcp(&served, "one");
    assert_eq!(client.ask(Command::Read, 0, 0, (32 << 20) + 512, &[]).error, OVERFLOW);
    assert_eq!(client.read(0, 32 << 20), vec![0; 32 << 20]);
}

#[test]
fn one_byte_at_a_time_is_served_like_any_other() {
    let served = served("slow");
    let mut fast = Client::tcp(&served, "one");
    let mut slow = connect(&served);
    slow.set_nodelay(true).expect("a TCP option");
    let mut bytes = encode_client_flags(true).to_vec();
    encode_option(OptionKind::ExportName, b"one", &mut bytes);
    let data = pattern(9, 1024);
    let write = Request { flags: 0, command: 1, cookie: 77, offset_bytes: 4096, length_bytes: 1024 };
    bytes.extend(write.encode());
    bytes.extend(&data);
    for byte in bytes {
        slow.write_all(&[byte]).expect("the server takes a byte");
        if byte % 16 == 0 {
            fast.write(0, &[byte; 512]);
        }
    }
    let mut input = Vec::new();
    // Greeting, export, simple reply.
    while input.len() < 18 + 10 + 16 {
        read_some(&mut slow, &mut input);
    }
    assert_eq!(input[28 + 4..28 + 8], [0; 4], "success");
    assert_eq!(fast.read(4096, 1024), data);
}

#[test]
fn two_hundred_connections_and_no_more_than_allowed() {
    let options = Options { connections_max: 201, ..Options::default() };
    let drives = vec![("one".into(), drive(StoreKind::Ram))];
    let served = serve_observed("crowd", drives, Time::Instant, None, options);
    let mut clients: Vec<Client> = (0..200).map(|_| Client::tcp(&served, "one")).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        client.send(Command::Write, 0, i as u64 * 4096, 4096, &[i as u8; 4096]);
    }
    for client in &mut clients {
        assert_eq!(client.reply(|_| 0).error, 0);
    }
    for (i, client) in clients.iter_mut().enumerate() {
        let other = (i * 7 + 3) % 200;
        assert_eq!(client.read(other as u64 * 4096, 4096), [other as u8; 4096]);
    }
    let _last = connect(&served);
    let mut one_more = connect(&served);
    assert!(ends(&mut one_more), "connection 202");
    drop(clients);
    drop(_last);
    settles(&served, "connections", 1);
}

#[test]
fn a_peer_that_never_reads_is_bounded_and_alone() {
    let served = served("deaf");
    let mut other = Client::tcp(&served, "one");
    let mut deaf = connect(&served);
    let mut bytes = encode_client_flags(true).to_vec();
    encode_option(OptionKind::ExportName, b"one", &mut bytes);
    for cookie in 0..20_000 {
        let read = Request { flags: 0, command: 0, cookie, offset_bytes: 0, length_bytes: 1 << 20 };
        bytes.extend(read.encode());
    }
    deaf.set_nonblocking(true).expect("a TCP option");
    // Writes as much as the socket takes; the requests amount to 20 GiB.
    let mut sent = 0;
    for _ in 0..200 {
        match deaf.write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
        other.write(8192, &[3; 512]);
        let held = number(&served.control(r#"{"do":"status"}"#), "bytes_held");
        assert!(held <= (BYTES_MAX + (2 << 20)) as u64, "{held} bytes held");
    }
    assert!(sent > 28 * 100, "the test must ask for more than is allowed");
    drop(deaf);
    settles(&served, "connections", 2);
    settles(&served, "bytes_held", 0);
}

/// So many peers never read that they fill the whole budget for answers. Others then get one answer at a
/// time, and their full share again once these peers are gone.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn peers_that_never_read_do_not_keep_the_room_of_others() {
    let served = served("deaf-crowd");
    let mut other = Client::tcp(&served, "one");
    let mut bytes = encode_client_flags(true).to_vec();
    encode_option(OptionKind::ExportName, b"one", &mut bytes);
    for cookie in 0..30 {
        let read = Request { flags: 0, command: 0, cookie, offset_bytes: 0, length_bytes: 1 << 20 };
        bytes.extend(read.encode());
    }
    // A peer that reads slowly but steadily stays.
    let mut slow = UnixStream::connect(&served.unix).expect("it listens");
    slow.write_all(&bytes).expect("it takes requests");
    slow.set_read_timeout(Some(Duration::from_secs(600))).expect("a socket option");
    let deaf: Vec<UnixStream> = (0..TOTAL_BYTES_MAX / BYTES_MAX)
        .map(|_| {
            let mut stream = UnixStream::connect(&served.unix).expect("it listens");
            stream.write_all(&bytes).expect("it takes requests");
            stream
        })
        .collect();
    let held = || number(&served.control(r#"{"do":"status"}"#), "bytes_held") as usize;
    // No further answer of this size fits.
    common::eventually("all room is taken", || held() > TOTAL_BYTES_MAX - (1 << 20));
    let mut taken = vec![0; 64 << 10];
    common::eventually("there is room again", || {
        slow.read_exact(&mut taken).expect("answers");
        other.write(8192, &[3; 512]);
        std::thread::sleep(Duration::from_millis(100));
        let held = held();
        assert!(
            held <= TOTAL_BYTES_MAX + (18 << 14),
            "{held} bytes are held, more than all may and their own"
        );
        held < TOTAL_BYTES_MAX / 4 * 3
    });
    // No more peers are disconnected than necessary, and none that takes its answers.
    let left = number(&served.control(r#"{"do":"status"}"#), "connections") as usize;
    assert!((3 + deaf.len() / 2..3 + deaf.len()).contains(&left), "{left} connections");
    for _ in 0..20 {
        slow.read_exact(&mut taken).expect("answers");
    }
}

/// Peers begin large writes and then send no more: as many as find budget, and more that wait for it. Small
/// and medium requests of others complete meanwhile, without disconnecting any peer.
#[test]
fn large_writes_that_stop_half_way_hold_up_no_smaller_requests() {
    let mut config = config(StoreKind::Ram);
    config.media.geometry.blocks = 256;
    let device = Device::new(&config).expect("a drive of 64 MiB");
    let served = serve("half-sent", vec![("one".into(), device)], Time::Instant);
    let status = |key| number(&served.control(r#"{"do":"status"}"#), key) as usize;
    let strangers: Vec<Client> = (0..20)
        .map(|_| {
            let mut stranger = Client::tcp(&served, "one");
            stranger.send(Command::Write, 0, 0, 32 << 20, &[1; 1000]);
            stranger
        })
        .collect();
    let large = |held: usize| held / (32 << 20);
    common::eventually("all budget of large requests is taken", || large(status("bytes_held")) == 4);
    let connections = status("connections");
    let mut other = Client::tcp(&served, "one");
    for round in 0..10u8 {
        for bytes in [4 << 10, 64 << 10, 1 << 20] {
            other.write(0, &vec![round; bytes]);
            assert!(other.read(0, bytes as u32) == vec![round; bytes]);
        }
    }
    assert_eq!(status("connections"), connections + 1, "none of them had to go first");
    drop(strangers);
    settles(&served, "connections", 2);
    settles(&served, "bytes_held", 0);
}

#[test]
fn peers_that_vanish_leave_nothing_behind() {
    let served = served("vanish");
    let mut other = Client::tcp(&served, "one");
    for round in 0..100u64 {
        let mut client = Client::tcp(&served, "one");
        for i in 0..round % 8 {
            client.send(Command::Read, 0, i << 16, 64 << 10, &[]);
        }
        // A write whose payload never arrives completely.
        client.send(Command::Write, 0, 0, 1 << 20, &[1; 1000]);
        drop(client);
        other.write(4096, &round.to_le_bytes().repeat(64));
        assert_eq!(other.read(4096, 512), round.to_le_bytes().repeat(64));
    }
    settles(&served, "connections", 2);
    settles(&served, "bytes_held", 0);
    assert_eq!(other.read(0, 4096), [0; 4096], "half a write is none");
}

#[test]
fn who_says_nothing_is_shown_the_door() {
    let mut core =
        Core::new(vec![("one".into(), drive(StoreKind::Ram))], Time::Instant).expect("a good drive");
    let (mut load, mut output, mut session) = (Load::default(), Output::default(), NbdSession::default());
    let mut port = Port::new(core.face(), ConnectionId::new(1), &mut load, &mut output);
    session.opened(&mut port);
    assert_eq!(port.output().take_all().len(), 18, "the greeting");
    let now = port.now_ns();
    assert_eq!(session.tick(now + 9_000_000_000, &mut port), Ok(()));
    let late = session.tick(now + 11_000_000_000, &mut port);
    assert!(matches!(late, Err(Close::Refused(why)) if why.contains("10 s")));
    // In transmission a peer may stay silent for ever.
    let mut bytes = encode_client_flags(true).to_vec();
    encode_option(OptionKind::ExportName, b"one", &mut bytes);
    session.receive(&mut &bytes[..], &mut port).expect("a good handshake");
    assert_eq!(session.tick(now + 3_600_000_000_000, &mut port), Ok(()));
}
