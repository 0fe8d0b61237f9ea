//! The NBD server over real loopback sockets.

use crate::common::{
    self, Client, SECTOR, Served, Transport, config, drive, pattern, read_some, scratch, serve,
    serve_observed,
};
use pellucid_device::{Device, DeviceConfig, Namespace};
use pellucid_flash::Rng;
use pellucid_ftl::Victim;
use pellucid_media::{BitErrors, Ecc, EccData, Integrity, StoreKind};
use pellucid_serve::{Core, Operated, Options, Refusal, Time};
use pellucid_target::Output;
use pellucid_target::connection::ConnectionId;
use pellucid_target::nbd::NbdSession;
use pellucid_target::session::{Load, Port, Session};
use pellucid_wire::nbd::{
    ClientHandshake, ClientHandshakeEvent, Command, Info, InfoRequest, MetaContextRequest, OptionKind,
    OptionReply, Request, allocation, command_flag, encode_client_flags, encode_option, transmission_flag,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const NOT_PERMITTED: u32 = 1;
const IO: u32 = 5;
const INVALID: u32 = 22;
const NO_SPACE: u32 = 28;

#[test]
fn every_command_does_what_it_says() {
    let served = serve("commands", vec![("one".into(), drive(StoreKind::Ram))], Time::Instant);
    let mut client = Client::tcp(&served, "one");
    assert!(client.flags & transmission_flag::CAN_MULTI_CONN != 0);
    let data = pattern(1, 64 << 10);
    assert_eq!(client.read(8192, 4096), vec![0; 4096], "never written");
    client.write(4096, &data);
    assert_eq!(client.read(4096, data.len() as u32), data);
    client.flush();
    let fua = client.ask(Command::Write, command_flag::FUA, 1 << 20, 512, &data[..512]);
    assert_eq!(fua.error, 0);
    for (command, at) in [(Command::Trim, 8192u64), (Command::WriteZeroes, 16384 + 512)] {
        let reply = client.ask(command, command_flag::FUA, at, 4096, &[]);
        assert_eq!(reply.error, 0, "{command:?}");
        assert_eq!(client.read(at, 4096), vec![0; 4096], "{command:?}");
    }
    assert_eq!(client.read(4096, 4096), data[..4096]);
    assert_eq!(client.read(16384, 512), data[16384 - 4096..][..512], "before the zeros");
    // Sectors that share a mapping unit with the zeros.
    assert_eq!(client.read(16384 + 512 + 4096, 512), data[16384 + 512..][..512], "behind the zeros");
    client.leave();
    served.stop().into_iter().for_each(|device| device.check());
}

#[test]
fn block_status_tells_holes_from_data() {
    let served = serve("status", vec![("one".into(), drive(StoreKind::Ram))], Time::Instant);
    let mut client = Client::tcp(&served, "");
    client.write(16 << 10, &pattern(2, 8 << 10));
    let status = |client: &mut Client, flags| {
        let reply = client.ask(Command::BlockStatus, flags, 0, 64 << 10, &[]);
        assert_eq!(reply.error, 0);
        reply.extents.iter().map(|e| (e.length_bytes, e.flags)).collect::<Vec<_>>()
    };
    let hole = allocation::HOLE | allocation::ZERO;
    let expected = [(16 << 10, hole), (8 << 10, 0), (40 << 10, hole)];
    assert_eq!(status(&mut client, 0), expected, "in the buffer");
    client.flush();
    assert_eq!(status(&mut client, 0), expected, "on the media");
    assert_eq!(status(&mut client, command_flag::REQ_ONE), expected[..1]);
    assert_eq!(client.ask(Command::Trim, 0, 16 << 10, 8 << 10, &[]).error, 0);
    assert_eq!(status(&mut client, 0), [(64 << 10, hole)]);
}

/// A session can be limited to simple replies; it then refuses requests that need structured ones.
#[test]
fn simple_replies_instead_of_structured_ones() {
    const SIMPLE: [u8; 4] = 0x6744_6698u32.to_be_bytes();
    const STRUCTURED: [u8; 4] = 0x668E_33EFu32.to_be_bytes();
    let mut core = Core::new(vec![("one".into(), drive(StoreKind::Ram))], Time::Instant).expect("a drive");
    for (simple, magic, refused) in [(false, STRUCTURED, 0), (true, SIMPLE, 2)] {
        let session = NbdSession::default();
        let mut session = if simple { session.with_simple_replies() } else { session };
        let (mut load, mut output) = (Load::default(), Output::default());
        let mut port = Port::new(core.face(), ConnectionId::new(1), &mut load, &mut output);
        let mut input = encode_client_flags(true).to_vec();
        encode_option(OptionKind::StructuredReply, &[], &mut input);
        let contexts = MetaContextRequest::encode("one", &["base:allocation"]);
        encode_option(OptionKind::SetMetaContext, &contexts, &mut input);
        encode_option(OptionKind::Go, &InfoRequest::encode("one", &[]), &mut input);
        session.opened(&mut port);
        session.receive(&mut &input[..], &mut port).expect("a good handshake");
        let (mut handshake, answers) = (ClientHandshake::default(), output.take_all());
        let (mut rest, mut errors, mut export) = (&answers[..], 0, None);
        while let Some(event) = handshake.decode(&mut rest).expect("good answers") {
            match event {
                ClientHandshakeEvent::Reply { reply: OptionReply::Error { .. }, .. } => errors += 1,
                ClientHandshakeEvent::Reply {
                    reply: OptionReply::Info(Info::Export { flags, .. }), ..
                } => {
                    export = Some(flags & transmission_flag::SEND_DF == 0);
                }
                _ => {}
            }
        }
        assert_eq!((errors, export), (refused, Some(simple)));
        let command = Command::Read.raw();
        let read = Request { flags: 0, command, cookie: 5, offset_bytes: 0, length_bytes: 512 };
        let mut port = Port::new(core.face(), ConnectionId::new(1), &mut load, &mut output);
        session.receive(&mut &read.encode()[..], &mut port).expect("a good request");
        while core.run() {}
        let done = core.pop().expect("the read has ended");
        let mut port = Port::new(core.face(), ConnectionId::new(1), &mut load, &mut output);
        session.completed(done.route.token, done.answer, &mut port);
        assert_eq!(output.take_all()[..4], magic);
    }
}

#[test]
fn impossible_requests_are_refused_and_the_connection_goes_on() {
    let served = serve("refused", vec![("one".into(), drive(StoreKind::Ram))], Time::Instant);
    for structured in [true, false] {
        let stream = TcpStream::connect(served.nbd).expect("the server listens");
        let mut client = Client::begin(Box::new(stream), "one", structured);
        let end = client.size_bytes;
        assert_eq!(client.ask(Command::Read, 0, end, 512, &[]).error, INVALID);
        assert_eq!(client.ask(Command::Read, 0, u64::MAX, 512, &[]).error, INVALID);
        assert_eq!(client.ask(Command::Read, 0, 1, 512, &[]).error, INVALID, "not a sector");
        assert_eq!(client.ask(Command::Write, 0, end - 512, 1024, &[7; 1024]).error, NO_SPACE);
        assert_eq!(client.ask(Command::Write, 0, 0, 100, &[7; 100]).error, INVALID, "payload is skipped");
        assert_eq!(client.ask(Command::Cache, 0, 0, 512, &[]).error, INVALID, "not offered");
        let nothing = client.ask(Command::Read, 0, 0, 0, &[]);
        assert_eq!(
            (nothing.error, nothing.structured),
            (0, structured),
            "nothing to read, in the form of reads"
        );
        let trim = client.ask(Command::Trim, 0, 0, 512, &[]);
        assert_eq!((trim.error, trim.structured), (0, false), "what brings no data has the short form");
        client.write(end - 512, &[9; 512]);
        assert_eq!(client.read(end - 512, 512), [9; 512]);
    }
}

/// Clients of a server over both kinds of sockets, with the expected data.
struct Readers {
    clients: Vec<Client>,
    rng: Rng,
    data: Vec<u8>,
}

impl Readers {
    const READ: u32 = 128 << 10;

    fn of(served: &Served) -> Readers {
        let tcp = (0..3).map(|_| Client::tcp(served, "one"));
        let unix = (0..3).map(|_| {
            let stream = UnixStream::connect(&served.unix).expect("it listens");
            stream.set_read_timeout(Some(Duration::from_secs(600))).expect("a socket option");
            Client::begin(Box::new(stream), "one", true)
        });
        let mut clients: Vec<Client> = tcp.chain(unix).collect();
        let data = pattern(6, 1 << 20);
        clients[0].write(0, &data);
        Readers { clients, rng: Rng::new(5), data }
    }

    /// Makes some clients request little or much, and waits for the answers.
    fn round(&mut self) {
        let Readers { clients, rng, data } = self;
        let many = rng.below(8) == 0;
        let places: Vec<u64> =
            (0..if many { 40 } else { 1 }).map(|_| rng.below(7) * u64::from(Self::READ)).collect();
        let busy: Vec<usize> = (0..clients.len()).filter(|_| rng.below(2) == 0).collect();
        let length = if many { Self::READ } else { 4096 };
        let mut sent = BTreeMap::new();
        for &at in &busy {
            for &place in &places {
                sent.insert((at, clients[at].send(Command::Read, 0, place, length, &[])), place as usize);
            }
        }
        for &at in &busy {
            for _ in &places {
                let reply = clients[at].reply(|_| length);
                let place = sent.remove(&(at, reply.cookie)).expect("an answer to something asked");
                assert!(reply.error == 0 && reply.data == data[place..place + length as usize]);
            }
        }
    }

    /// Requests nothing for up to 750 us.
    fn pause(&mut self) {
        let pause = Duration::from_micros(self.rng.below(4) * 250);
        let began = Instant::now();
        while began.elapsed() < pause {
            std::hint::spin_loop();
        }
    }
}

/// While a server polls, busy connections are not in its event queue. With more of them than are read
/// directly, answers larger than a socket's buffer, and pauses around the time of falling asleep, no
/// connection may be forgotten. The server has no tick that would find a forgotten one.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn connections_that_are_busy_now_and_idle_then_lose_nothing() {
    let serve = |name: &str, poll| {
        let drives = vec![("one".into(), drive(StoreKind::Ram))];
        serve_observed(
            name,
            drives,
            Time::Instant,
            None,
            Options { poll, tick: Duration::from_secs(86_400), ..Options::default() },
        )
    };
    let servers = [serve("hot", Duration::from_micros(300)), serve("cool", Duration::ZERO)];
    let mut readers = servers.each_ref().map(Readers::of);
    for _ in 0..300 {
        for readers in &mut readers {
            readers.round();
            readers.pause();
        }
    }
    readers.into_iter().flat_map(|readers| readers.clients).for_each(Client::leave);
}

#[test]
fn exports_are_listed_and_kept_apart() {
    let drives = vec![("one".into(), drive(StoreKind::Ram)), ("two".into(), drive(StoreKind::Ram))];
    let served = serve("exports", drives, Time::Instant);
    let mut stream = UnixStream::connect(&served.unix).expect("the server listens");
    let mut out = encode_client_flags(true).to_vec();
    encode_option(OptionKind::List, &[], &mut out);
    encode_option(OptionKind::StartTls, &[], &mut out);
    encode_option(OptionKind::Abort, &[], &mut out);
    stream.write_all(&out).expect("the server takes options");
    let (mut names, mut refused, mut left) = (Vec::new(), 0, false);
    let (mut handshake, mut input) = (ClientHandshake::default(), Vec::new());
    while !left {
        read_some(&mut stream as &mut dyn Transport, &mut input);
        let mut rest = &input[..];
        while let Some(event) = handshake.decode(&mut rest).expect("good replies") {
            match event {
                ClientHandshakeEvent::Reply { reply: OptionReply::Server { name, .. }, .. } => {
                    names.push(name.to_string())
                }
                ClientHandshakeEvent::Reply { reply: OptionReply::Error { .. }, .. } => refused += 1,
                ClientHandshakeEvent::Reply { option, .. } => left = option == OptionKind::Abort.raw(),
                _ => {}
            }
        }
        input = rest.to_vec();
    }
    assert_eq!((names, refused), (vec!["one".to_string(), "two".into()], 1));
    let mut one = Client::begin(Box::new(UnixStream::connect(&served.unix).expect("listens")), "one", true);
    let mut two = Client::tcp(&served, "two");
    one.write(0, &[1; 4096]);
    assert_eq!(two.read(0, 4096), [0; 4096]);
    // A second connection to the drive sees the writes that the first was answered.
    let mut again = Client::tcp(&served, "one");
    assert_eq!(again.read(0, 4096), [1; 4096]);
}

#[test]
fn drives_without_data_are_refused() {
    let refusal = |drives| Core::new(drives, Time::Instant).err();
    let stamps = refusal(vec![("bare".into(), drive(StoreKind::None))]);
    assert_eq!(stamps, Some(Refusal::Stamps { name: "bare".into() }));
    assert!(stamps.expect("refused").to_string().contains("store"));
    assert_eq!(refusal(vec![]), Some(Refusal::NoDrive));
    let twice = vec![("a".into(), drive(StoreKind::Ram)), ("a".into(), drive(StoreKind::Ram))];
    assert_eq!(refusal(twice), Some(Refusal::SameName { name: "a".into() }));
    let never = Core::new(vec![("a".into(), drive(StoreKind::Ram))], Time::Paced { dilation: 0.0 });
    assert!(never.is_err_and(|refusal| refusal.to_string().contains("above 0")));
}

const ROUNDS: u32 = 600;

/// Random commands of one connection, concurrent if they do not overlap, compared with a plain copy.
#[test]
fn random_commands_never_bring_wrong_data() {
    for (name, time) in [("random-i", Time::Instant), ("random-p", Time::Paced { dilation: 0.05 })] {
        let served = serve(name, vec![("one".into(), drive(StoreKind::Ram))], time);
        let mut client = Client::tcp(&served, "one");
        let size = client.size_bytes as usize;
        let mut copy = vec![0u8; size];
        let mut rng = Rng::new(11);
        let mut cuts = 0;
        for round in 0..ROUNDS {
            // Each command of a round has its own slot of the drive.
            let slots = 16;
            let slot_sectors = size / SECTOR / slots;
            let mut reads = Vec::new();
            let mut outstanding = 0;
            for slot in 0..slots {
                let most = if rng.chance(0.1) { 200 } else { 16 };
                let sectors = 1 + rng.below(most) as usize;
                let at = slot * slot_sectors + rng.below((slot_sectors - sectors) as u64) as usize;
                let range = at * SECTOR..(at + sectors) * SECTOR;
                let (offset, length) = ((range.start) as u64, range.len() as u32);
                outstanding += 1;
                match rng.below(10) {
                    0..4 => {
                        let data = pattern(rng.next_u64(), range.len());
                        let fua = if rng.chance(0.1) { command_flag::FUA } else { 0 };
                        client.send(Command::Write, fua, offset, length, &data);
                        copy[range].copy_from_slice(&data);
                    }
                    4..8 => {
                        reads.push((client.send(Command::Read, 0, offset, length, &[]), range));
                    }
                    8 => {
                        let kind = if rng.chance(0.5) { Command::Trim } else { Command::WriteZeroes };
                        client.send(kind, 0, offset, length, &[]);
                        copy[range].fill(0);
                    }
                    _ => {
                        client.send(Command::Flush, 0, 0, 0, &[]);
                    }
                }
            }
            for _ in 0..outstanding {
                let reply = client.reply(|_| 0);
                let status = || served.control(r#"{"do":"status"}"#);
                assert_eq!(reply.error, 0, "{name}, round {round}, {cuts} cuts: {reply:?} {}", status());
                if let Some((_, range)) = reads.iter().find(|(cookie, _)| *cookie == reply.cookie) {
                    assert_eq!(reply.data, copy[range.clone()], "round {round}, bytes {range:?}");
                }
            }
            if rng.chance(0.02) {
                cuts += 1;
                client.flush();
                assert!(served.control(r#"{"do":"power-cut"}"#).contains("\"ok\":true"));
            }
        }
        assert!(cuts > 0, "this seed cuts the power");
        for offset in (0..size).step_by(64 << 10) {
            let length = (size - offset).min(64 << 10);
            assert_eq!(client.read(offset as u64, length as u32), copy[offset..offset + length]);
        }
        client.leave();
        served.stop().into_iter().for_each(|device| device.check());
    }
}

/// With another capacity, translation pages would count as data and not be found, so trimmed data would
/// reappear.
#[test]
fn a_drive_in_a_file_stays_the_drive_that_it_was() {
    let file = scratch("claimed").join("image");
    let _ = std::fs::remove_file(&file);
    let described = config(StoreKind::File(file));
    let served =
        serve("claimed", vec![("one".into(), Device::new(&described).expect("a drive"))], Time::Instant);
    let mut client = Client::tcp(&served, "one");
    client.write(0, &pattern(5, 1 << 20));
    client.flush();
    assert_eq!(client.ask(Command::Trim, 0, 0, 64 << 10, &[]).error, 0);
    client.flush();
    drop(served.stop());

    type Change = fn(&mut DeviceConfig);
    let others: [(&str, Change); 3] = [
        ("ftl.over_provisioning", |other| other.ftl.over_provisioning = 0.5),
        ("ftl.capacity", |other| other.ftl.capacity_bytes = Some(4 << 20)),
        ("drive.namespace", |other| {
            other.ftl.capacity_bytes = Some(drive(StoreKind::Ram).capacity_bytes());
            other.namespaces = vec![Namespace::Block { blocks: 0..31 }];
        }),
    ];
    for (key, change) in others {
        let mut other = described.clone();
        change(&mut other);
        let refused = Device::new(&other).expect_err("another drive").to_string();
        assert!(refused.contains(key) && refused.contains("the data were written with"), "{refused}");
    }

    // Internal settings may change.
    let mut tuned = described.clone();
    (tuned.ftl.victim, tuned.buffer.entries) = (Victim::Fifo, tuned.buffer.entries + 1);
    let served =
        serve("claimed", vec![("one".into(), Device::new(&tuned).expect("the drive"))], Time::Instant);
    let mut client = Client::tcp(&served, "one");
    assert_eq!(client.read(0, 64 << 10), vec![0; 64 << 10]);
    assert_eq!(client.read(64 << 10, 64 << 10), pattern(5, 1 << 20)[64 << 10..128 << 10]);
    drop(served.stop());
}

#[test]
fn flushed_data_survive_power_cuts_and_the_end_of_the_server() {
    let file = scratch("durable").join("image");
    let _ = std::fs::remove_file(&file);
    let store = || StoreKind::File(file.clone());
    let (first, second) = (pattern(3, 1 << 20), pattern(4, 256 << 10));
    {
        let served = serve("durable", vec![("one".into(), drive(store()))], Time::Instant);
        let mut client = Client::tcp(&served, "one");
        client.write(0, &first);
        client.flush();
        // Unflushed data may be lost, but a sector is never torn.
        client.write(512 << 10, &second);
        let answer = served.control(r#"{"do":"power-cut","drive":"one"}"#);
        assert!(answer.contains("\"ok\":true"), "{answer}");
        assert_eq!(client.read(0, 512 << 10), first[..512 << 10]);
        let found = client.read(512 << 10, 256 << 10);
        for (sector, bytes) in found.chunks(SECTOR).enumerate() {
            let at = sector * SECTOR;
            let old = &first[(512 << 10) + at..][..SECTOR];
            assert!(bytes == &second[at..at + SECTOR] || bytes == old, "sector {sector} is neither");
        }
        let reply = client.ask(Command::Write, command_flag::FUA, 2 << 20, 4096, &second[..4096]);
        assert_eq!(reply.error, 0);
        let answer = served.control(r#"{"do":"power-cut"}"#);
        assert!(answer.contains("\"ok\":true"), "{answer}");
        assert_eq!(client.read(2 << 20, 4096), second[..4096], "FUA");
        client.write(3 << 20, &second[..4096]);
        // The drive is dropped with its server: a graceful end flushes.
        drop(served.stop());
    }
    let served = serve("durable", vec![("one".into(), drive(store()))], Time::Instant);
    let mut client = Client::tcp(&served, "one");
    assert_eq!(client.read(0, 512 << 10), first[..512 << 10]);
    assert_eq!(client.read(2 << 20, 4096), second[..4096]);
    assert_eq!(client.read(3 << 20, 4096), second[..4096]);
}

#[test]
fn a_power_cut_ends_what_is_under_way_with_an_error() {
    // So slow that nothing completes before the cut.
    let served = serve("cut", vec![("one".into(), drive(StoreKind::Ram))], Time::Paced { dilation: 1e6 });
    let mut client = Client::tcp(&served, "one");
    for i in 0..8 {
        client.send(Command::Read, 0, i * 4096, 4096, &[]);
    }
    // The server has received the requests when it counts them.
    let all = || served.control(r#"{"do":"status"}"#).contains("\"outstanding\":8");
    common::eventually("eight requests are under way", all);
    let answer = served.control(r#"{"do":"power-cut"}"#);
    assert!(answer.contains("\"commands_lost\":8"), "{answer}");
    for _ in 0..8 {
        assert_eq!(client.reply(|_| 0).error, IO);
    }
}

#[test]
fn the_control_socket_explains_what_it_refuses() {
    let mut config = config(StoreKind::Ram);
    // A failed program costs a block; this leaves spare blocks for a few dozen failures.
    config.ftl.over_provisioning = 0.8;
    let drive = Device::new(&config).expect("a good configuration");
    let served = serve("control", vec![("one".into(), drive)], Time::Instant);
    for (line, part) in [
        ("garbage", "not JSON"),
        ("{}", "allowed: status"),
        (r#"{"do":"power-cut","drive":"two"}"#, "allowed: one"),
        (r#"{"do":"faults","program_fail":2}"#, "probability"),
        (r#"{"do":"faults","read_fail":"x"}"#, "allowed: a number"),
    ] {
        let answer = served.control(line);
        assert!(answer.contains("\"ok\":false") && answer.contains(part), "{line}: {answer}");
    }
    let answer = served.control(r#"{"do":"faults","program_fail":0.05}"#);
    assert!(answer.contains("\"ok\":true"), "{answer}");
    let mut client = Client::tcp(&served, "one");
    let data = pattern(5, 1 << 20);
    client.write(0, &data);
    client.flush();
    assert_eq!(client.read(0, 1 << 20), data, "failed programs are repeated elsewhere");
    let device = &served.stop()[0];
    assert!(device.counters().program_failures > 0, "faults were injected");
}

#[test]
fn damage_is_done_on_command() {
    let mut config = config(StoreKind::Ram);
    // Enough spare capacity to continue without one of four dies.
    config.ftl.over_provisioning = 0.8;
    let drive = Device::new(&config).expect("a good configuration");
    let served = serve("damage", vec![("one".into(), drive)], Time::Instant);
    for (line, part) in [
        (r#"{"do":"damage"}"#, "allowed: slow-die"),
        (r#"{"do":"damage","what":"kill-die"}"#, "die: missing; allowed"),
        (r#"{"do":"damage","what":"kill-die","die":4}"#, "die"),
        (r#"{"do":"damage","what":"slow-die","die":0,"factor":"x"}"#, "factor"),
        (r#"{"do":"damage","what":"slow-die","die":0,"factor":0}"#, "factor"),
        (
            r#"{"do":"damage","what":"kill-die","die":0,"factor":2}"#,
            "factor: unknown to kill-die; allowed: die",
        ),
        (r#"{"do":"damage","what":"wear-out","count":2}"#, "count: unknown to wear-out; allowed: nothing"),
    ] {
        let answer = served.control(line);
        assert!(answer.contains("\"ok\":false") && answer.contains(part), "{line}: {answer}");
    }
    let done = |line: &str| {
        let answer = served.control(line);
        assert!(answer.contains("\"ok\":true"), "{line}: {answer}");
    };
    let mut client = Client::tcp(&served, "one");
    let data = pattern(6, 1 << 20);
    done(r#"{"do":"damage","what":"fail-programs","count":3}"#);
    client.write(0, &data);
    client.flush();
    assert_eq!(client.read(0, 1 << 20), data, "failed programs are repeated elsewhere");
    done(r#"{"do":"damage","what":"kill-die","die":1}"#);
    let errors: Vec<u32> =
        (0..256).map(|page| client.ask(Command::Read, 0, page * 4096, 4096, &[]).error).collect();
    let lost = errors.iter().filter(|&&error| error == IO).count();
    assert!((32..=96).contains(&lost), "{lost} of 256 pages on one of four dies");
    assert!(errors.iter().all(|error| [0, IO].contains(error)), "{errors:?}");
    client.write(0, &data);
    client.flush();
    assert_eq!(client.read(0, 1 << 20), data, "the rest of the drive goes on");
    done(r#"{"do":"damage","what":"wear-out"}"#);
    let refused = client.ask(Command::Write, 0, 0, 4096, &data[..4096]);
    assert_eq!(refused.error, NOT_PERMITTED);
    assert_eq!(client.read(0, 1 << 20), data, "it can be read");
    client.leave();
    let again = Client::tcp(&served, "one");
    assert!(again.flags & transmission_flag::READ_ONLY != 0, "a new client is told");
    again.leave();
    let device = &served.stop()[0];
    assert!(device.counters().program_failures >= 3);
    device.check();
}

#[test]
fn erases_fail_and_bits_err_on_command() {
    let mut config = config(StoreKind::Ram);
    config.ftl.over_provisioning = 0.8;
    config.media.geometry.spare_bytes = 256;
    config.buffer.retain = false;
    config.media.integrity = Integrity {
        ecc: Some(Ecc { chunk_bytes: 512, correctable: 4, data: EccData::Real }),
        scrambler: true,
        bit_errors: Some(BitErrors { factor: 1.0, retry_factor: 0.5, retry_floor: 0.1 }),
        retry: None,
        cycles: 0,
    };
    let drive = Device::new(&config).expect("a good configuration");
    let served = serve("errors", vec![("one".into(), drive)], Time::Instant);
    let done = |line: &str| {
        let answer = served.control(line);
        assert!(answer.contains("\"ok\":true"), "{line}: {answer}");
    };
    let mut client = Client::tcp(&served, "one");
    let data = pattern(6, 1 << 20);
    done(r#"{"do":"damage","what":"fail-erases","count":2}"#);
    for _ in 0..12 {
        client.write(0, &data);
        client.flush();
    }
    assert_eq!(client.read(0, 1 << 20), data, "blocks that cannot be erased hold nothing that is needed");
    // The raw bit error rate of a fresh block is so low that losing a page takes a million times the rate.
    let lost = |client: &mut Client| {
        let errors = (0..256).map(|page| client.ask(Command::Read, 0, page * 4096, 4096, &[]).error);
        errors.filter(|&error| error == IO).count()
    };
    assert_eq!(lost(&mut client), 0);
    done(r#"{"do":"damage","what":"bit-errors","factor":1e6,"die":2}"#);
    let on_one = lost(&mut client);
    assert!((32..=96).contains(&on_one), "{on_one} of 256 pages on one of four dies");
    done(r#"{"do":"damage","what":"bit-errors","factor":1e6}"#);
    assert!(lost(&mut client) > 250);
    done(r#"{"do":"damage","what":"bit-errors","factor":1}"#);
    client.write(0, &data);
    client.flush();
    assert_eq!(client.read(0, 1 << 20), data, "what is written anew can be read");
    client.leave();
    let device = &served.stop()[0];
    assert_eq!(device.counters().erase_failures, 2);
    assert!(device.bad_blocks().1 >= 2);
    device.check();
}

#[test]
fn sockets_come_and_go_with_the_server() {
    use std::os::unix::fs::PermissionsExt;
    let served = serve("sockets", vec![("one".into(), drive(StoreKind::Ram))], Time::Instant);
    let paths = [served.unix.clone(), served.control.clone()];
    for path in &paths {
        let mode = std::fs::metadata(path).expect("the socket is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
    drop(served);
    assert!(paths.iter().all(|path| !path.exists()), "sockets are removed");
    // A socket left by a killed server is no obstacle; a regular file is.
    drop(std::os::unix::net::UnixListener::bind(&paths[0]).expect("a socket without a server"));
    std::fs::write(scratch("sockets").join("file"), "precious").expect("a file");
    drop(serve("sockets", vec![("one".into(), drive(StoreKind::Ram))], Time::Instant));
    for (text, part) in [("nowhere", "allowed"), ("unix:", "no path"), ("127.0.0.1:99999", "allowed")] {
        let refused = text.parse::<pellucid_serve::Address>().expect_err(text).to_string();
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!("10809".parse::<pellucid_serve::Address>().expect("a port").to_string(), "127.0.0.1:10809");
}
