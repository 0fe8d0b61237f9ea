//! Orders of events that real-time service causes in the drive itself: many concurrent commands, a drive that
//! continues after they have ended, and power cuts at such moments.

use crate::common::{ask_control, config, drive, drive_of_zones, pattern, scratch};
use pellucid_device::Device;
use pellucid_flash::{Command, Drive, Lba, Nanos, Opcode, Rng, SimTime, Status};
use pellucid_media::{Faults, StoreKind};
use pellucid_serve::event::Event;
use pellucid_serve::{
    Address, Arrival, Attachment, CONTROL, Core, Observer, Operated, Options, Server, Time, in_process,
};
use pellucid_target::Drives;
use pellucid_target::connection::{ConnectionId, Route};
use pellucid_target::control::ControlSession;
use pellucid_target::operation::Operation;
use pellucid_target::session::Port;
use std::cell::RefCell;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const SLOTS: u64 = 16;

fn command(rng: &mut Rng, slot: u64, slot_sectors: u64) -> Command {
    let most = if rng.chance(0.1) { 200 } else { 16 };
    let sectors = 1 + rng.below(most);
    let at = slot * slot_sectors + rng.below(slot_sectors - sectors);
    let bytes = sectors as usize * 512;
    let (opcode, data) = match rng.below(10) {
        0..4 => (Opcode::Write, pattern(1, bytes)),
        4..8 => (Opcode::Read, vec![0; bytes]),
        8 => (Opcode::Trim, Vec::new()),
        _ => (Opcode::Flush, Vec::new()),
    };
    let fua = opcode == Opcode::Write && rng.chance(0.1);
    let (lba, sectors) = if opcode == Opcode::Flush { (0, 0) } else { (at, sectors as u32) };
    Command { fua, ..Command::new(slot, opcode, Lba(lba), sectors, data) }
}

fn finish(device: &mut Device, what: &str) {
    while device.outstanding_commands() > 0 {
        let next = device.next_event().expect("something is under way");
        device.advance(next);
    }
    while let Some(completion) = device.pop() {
        assert_eq!(completion.status, Status::Success, "{what}: {:?}", completion.opcode);
    }
}

fn run_on(device: &mut Device, events: u64) {
    for _ in 0..events {
        let Some(next) = device.next_event() else { return };
        device.advance(next);
    }
}

/// Without media faults every command succeeds. Seed 275: a trim removes the last page that a flush waits
/// for.
#[test]
fn a_healthy_drive_fulfils_every_command() {
    for seed in [1, 2, 3, 275] {
        let mut device = drive(StoreKind::Ram);
        let mut rng = Rng::new(seed);
        let slot_sectors = device.namespace(0).capacity_sectors() / SLOTS;
        for round in 0..250 {
            let what = format!("seed {seed}, round {round}");
            for slot in 0..SLOTS {
                let command = command(&mut rng, slot, slot_sectors);
                device.submit(device.now(), command);
            }
            finish(&mut device, &what);
            let events = rng.below(600);
            run_on(&mut device, events);
            if rng.chance(0.02) {
                let events = rng.below(100);
                run_on(&mut device, events);
                device.power_cut().expect("it can be mounted");
            }
        }
        assert!(!device.is_read_only(), "seed {seed}");
        device.check();
    }
}

/// Decoding takes longer than overwriting the page, erasing its block, and programming it again: by then the
/// old place holds other data.
#[test]
fn slow_decoding_never_brings_the_data_of_another_page() {
    for retain in [false, true] {
        let mut config = config(StoreKind::Ram);
        config.scheduler.decode_ns = Nanos::from_ms(100);
        config.buffer.retain = retain;
        config.buffer.entries = 32;
        config.media.timing.program_ns = vec![Nanos::from_us(1)];
        config.media.timing.erase_ns = Nanos::from_us(1);
        let mut device = Device::new(&config).expect("a good configuration");
        let pages = device.namespace(0).capacity_sectors() / 8;
        // All bytes of a page identify it.
        let write = |device: &mut Device, page: u64| {
            let data = vec![(page % 251) as u8; 4096];
            device.submit(device.now(), Command::new(0, Opcode::Write, Lba(page * 8), 8, data));
        };
        let turn = |device: &mut Device, reads: &mut Vec<u64>| {
            let next = device.next_event().expect("something is under way");
            device.advance(next);
            while let Some(completion) = device.pop() {
                assert_eq!(completion.status, Status::Success);
                if completion.opcode == Opcode::Read {
                    let page = completion.tag;
                    assert!(completion.data.iter().all(|&byte| u64::from(byte) == page % 251), "page {page}");
                    reads.retain(|&read| read != page);
                }
            }
        };
        for page in 0..pages {
            write(&mut device, page);
            while device.outstanding_commands() > 0 {
                turn(&mut device, &mut Vec::new());
            }
        }
        // Random overwrites make GC copy pages that are being decoded for a host.
        let mut rng = Rng::new(3);
        let mut reads = Vec::new();
        for _ in 0..600_000 {
            if device.outstanding_commands() < 32 {
                let page = rng.below(pages);
                if reads.len() < 16 && !reads.contains(&page) {
                    let data = vec![0; 4096];
                    device.submit(device.now(), Command::new(page, Opcode::Read, Lba(page * 8), 8, data));
                    reads.push(page);
                } else {
                    write(&mut device, page);
                }
            }
            turn(&mut device, &mut reads);
        }
        assert!(device.counters().read_retries > 0, "reads found their page moved");
        device.check();
    }
}

/// Planned damage works as specified: impossible damage is refused, other damage happens with its operation.
#[test]
fn damage_can_be_planned() {
    let mut roomy = config(StoreKind::Ram);
    roomy.ftl.over_provisioning = 0.8;
    let device = Device::new(&roomy).expect("a good configuration");
    let mut core = Core::new(vec![("one".into(), device)], Time::Instant).expect("it can be served");
    let refusal = |core: &mut Core, text: &str| core.plan(text.parse().expect(text)).expect_err(text);
    assert_eq!(refusal(&mut core, "kill-die=4@1ops"), "die = 4: allowed: 0 to 3");
    let sentence = refusal(&mut core, "slow-die=0x0@1ops");
    assert_eq!(sentence, "slow_die = 0: allowed: a factor from 0.001 to 1,000,000");
    let sentence = refusal(&mut core, "bit-errors=5@1ops");
    assert!(sentence.contains("drive.media.bit_errors.enabled = true"), "{sentence}");
    assert_eq!(refusal(&mut core, "wear-out@1ops:drive=two"), "drive: \"two\"; allowed: one");
    for text in [
        "fail-programs=3@10ops",
        "fail-erases=2@10ops",
        "slow-die=1x50@500ops",
        "kill-die=1@600ops",
        "wear-out@900ops",
    ] {
        core.plan(text.parse().expect(text)).expect(text);
    }
    let write = |core: &mut Core, token: u64| {
        let operation = Operation::new(Opcode::Write, Lba(token % 200 * 8), 8, pattern(token, 4096));
        core.submit(0, Route { connection: ConnectionId::new(0), token }, operation);
        loop {
            core.run();
            match core.pop() {
                Some(done) => break done.answer.status,
                None => continue,
            }
        }
    };
    for token in 1..900 {
        assert_eq!(write(&mut core, token), Status::Success, "operation {token}");
        let device = core.device(0).expect("it is here");
        let killed = device.media().failures().is_dead(pellucid_flash::DieId(1));
        assert_eq!((killed, device.is_read_only()), (token >= 600, false), "operation {token}");
    }
    let counters = core.device(0).expect("it is here").counters();
    assert!(counters.program_failures >= 3, "{}", counters.program_failures);
    // Write 900 is accepted before the drive runs out of blocks, and no write follows it.
    write(&mut core, 900);
    assert_eq!(write(&mut core, 901), Status::ReadOnly);
}

struct Arrivals(Rc<RefCell<Vec<u64>>>);

impl Observer for Arrivals {
    fn arrived(&mut self, arrival: &Arrival, _data: &[u8]) {
        self.0.borrow_mut().push(arrival.lba.0);
    }
}

/// Operations wait in the submission batch until the drive runs, but before any other change of the drive
/// they enter it in order of submission.
#[test]
fn what_waits_goes_in_before_a_change() {
    let device = Device::new(&config(StoreKind::Ram)).expect("a good configuration");
    let mut core = Core::new(vec![("one".into(), device)], Time::Instant).expect("it can be served");
    let arrivals = Rc::new(RefCell::new(Vec::new()));
    core.observe(Box::new(Arrivals(arrivals.clone())));
    let submit = |core: &mut Core, opcode: Opcode, token: u64| {
        let operation = Operation::new(opcode, Lba(token * 8), 8, pattern(token, 4096));
        core.submit(0, Route { connection: ConnectionId::new(0), token }, operation);
    };
    let ended = |core: &mut Core| {
        while core.run() {}
        std::iter::from_fn(|| core.pop()).map(|done| done.answer.status).collect::<Vec<Status>>()
    };
    for token in 0..8 {
        submit(&mut core, if token % 2 == 0 { Opcode::Write } else { Opcode::Read }, token);
    }
    assert_eq!((core.outstanding(), arrivals.borrow().len()), (8, 0));
    assert_eq!(ended(&mut core), [Status::Success; 8]);

    for token in 8..12 {
        submit(&mut core, Opcode::Write, token);
    }
    core.power_cut(0).expect("it can be mounted");
    assert_eq!(ended(&mut core), [Status::PowerLoss; 4]);
    assert_eq!(*arrivals.borrow(), (0..12).map(|token| token * 8).collect::<Vec<u64>>());
}

/// A drive discards one piece of a long range at a time, and runs requests that arrive meanwhile before the
/// next piece.
#[test]
fn a_long_discard_holds_nobody_up() {
    const PIECE: u64 = 1 << 15;
    let mut config = config(StoreKind::Ram);
    (config.media.geometry.blocks, config.media.geometry.unit_bytes) = (256, 512);
    let device = Device::new(&config).expect("a good configuration");
    let mut core = Core::new(vec![("one".into(), device)], Time::Instant).expect("it can be served");
    let arrivals = Rc::new(RefCell::new(Vec::new()));
    core.observe(Box::new(Arrivals(arrivals.clone())));
    let sectors = core.namespaces()[0].sectors;
    let pieces = sectors.div_ceil(PIECE);
    assert!(pieces > 2 && !sectors.is_multiple_of(PIECE), "{sectors} sectors");
    let submit = |core: &mut Core, token, opcode, lba, sectors: u64| {
        let data = if opcode == Opcode::Write { vec![7; sectors as usize * 512] } else { Vec::new() };
        let operation = Operation::new(opcode, Lba(lba), sectors as u32, data);
        core.submit(0, Route { connection: ConnectionId::new(0), token }, operation);
    };
    let next = |core: &mut Core| {
        while core.outstanding() > 0 {
            core.run();
            if let Some(done) = core.pop() {
                return (done.route.token, done.answer.status);
            }
        }
        panic!("nothing is under way")
    };
    submit(&mut core, 1, Opcode::Write, sectors - 8, 8);
    assert_eq!(next(&mut core), (1, Status::Success));
    for opcode in [Opcode::Trim, Opcode::WriteZeroes] {
        arrivals.borrow_mut().clear();
        submit(&mut core, 2, opcode, 0, sectors);
        core.run();
        assert!(core.pop().is_none(), "a piece is no end");
        submit(&mut core, 3, Opcode::Read, 0, 8);
        assert_eq!(next(&mut core), (3, Status::Success));
        assert_eq!(next(&mut core), (2, Status::Success));
        let mut expected: Vec<u64> = (0..pieces).map(|piece| piece * PIECE).collect();
        expected.insert(2, 0);
        assert_eq!(*arrivals.borrow(), expected, "{opcode:?}");
        assert_eq!(core.outstanding(), 0);
        assert!(
            !core
                .device(0)
                .expect("of this process")
                .namespace(0)
                .is_mapped(pellucid_flash::Lpn(sectors as u32 - 1))
        );
    }
    // A discard past the end changes nothing.
    submit(&mut core, 1, Opcode::Write, 0, 8);
    assert_eq!(next(&mut core), (1, Status::Success));
    submit(&mut core, 4, Opcode::Trim, 0, sectors + 1);
    assert_eq!(next(&mut core), (4, Status::LbaOutOfRange));
    assert!(core.device(0).expect("of this process").namespace(0).is_mapped(pellucid_flash::Lpn(0)));
    // After a power cut the rest is not discarded, and the operation has failed.
    submit(&mut core, 5, Opcode::Trim, 0, sectors);
    core.run();
    assert!(core.pop().is_none());
    core.power_cut(0).expect("a mount");
    assert_eq!(next(&mut core), (5, Status::PowerLoss));
    assert_eq!(core.outstanding(), 0);
}

/// Every program fails, so a superpage finally finds no block. The rest of the write, which waits for it to
/// be logged, fails too.
#[test]
fn a_forced_write_behind_a_superpage_that_is_lost_fails() {
    for sectors in [8, 12, 20] {
        let mut device = drive_of_zones();
        let faults = Faults { program_fail: 1.0, ..device.config().media.faults.clone() };
        device.set_faults(faults).expect("a chance");
        let data = pattern(1, sectors as usize * 512);
        let write = Command::new(1, Opcode::Write, Lba(0), sectors, data);
        device.submit(device.now(), Command { fua: true, ..write });
        device.submit(device.now(), Command::new(2, Opcode::Flush, Lba(0), 0, Vec::new()));
        while device.outstanding_commands() > 0 {
            let next = device.next_event().expect("something is under way");
            device.advance(next);
        }
        let mut ended: Vec<(u64, Status)> =
            std::iter::from_fn(|| device.pop()).map(|done| (done.tag, done.status)).collect();
        ended.sort_by_key(|(tag, _)| *tag);
        assert_eq!(ended.len(), 2);
        assert_eq!(ended[0], (1, Status::WriteFault), "{sectors} sectors: {ended:?}");
        device.check();
    }
}

/// One end of a socket whose datagrams are requests: token, `W` or `R`, sector, and the data of a write.
/// Answers hold the token, the success, and the data of a read. `E` ends a request that was never asked for.
struct Datagrams {
    socket: UnixDatagram,
    under_way: usize,
    answers: Vec<Vec<u8>>,
    stopping: bool,
}

impl Attachment for Datagrams {
    fn protocol(&self) -> &'static str {
        "datagrams"
    }

    fn namespace(&self) -> usize {
        0
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.socket.as_raw_fd()]
    }

    fn take(&mut self, port: &mut Port<'_>) {
        let mut datagram = [0; 1024];
        while let Ok(bytes) = self.socket.recv(&mut datagram) {
            let [token, what, sector, written @ ..] = &datagram[..bytes] else { panic!("a request") };
            if *what == b'E' {
                self.under_way -= 1;
                continue;
            }
            let mut data = port.take_buffer(512);
            let opcode = if *what == b'W' { Opcode::Write } else { Opcode::Read };
            if opcode == Opcode::Write {
                data.copy_from_slice(written);
            }
            let operation = Operation::new(opcode, Lba((*sector).into()), 1, data);
            self.under_way += 1;
            port.submit(0, (*token).into(), operation);
        }
    }

    fn completed(&mut self, token: u64, completion: pellucid_flash::Completion, port: &mut Port<'_>) {
        self.under_way -= 1;
        let head = [token as u8, u8::from(completion.status == Status::Success)];
        let read = if completion.opcode == Opcode::Read { &completion.data[..] } else { &[] };
        self.answers.push([&head, read].concat());
        port.give_back(completion.data);
    }

    fn send(&mut self, _port: &mut Port<'_>) {
        for answer in self.answers.drain(..) {
            self.socket.send(&answer).expect("somebody listens");
        }
    }

    fn stop(&mut self, _port: &mut Port<'_>) {
        self.stopping = true;
    }

    fn has_ended(&self) -> bool {
        self.stopping && self.under_way == 0 && self.answers.is_empty()
    }
}

/// An attachment is served beside stream sockets, and its outstanding requests are answered when the server
/// stops.
#[test]
fn an_attachment_is_served() {
    let (here, there) = UnixDatagram::pair().expect("two ends");
    there.set_nonblocking(true).expect("a socket option");
    let (tell, told) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let core = Core::new(vec![("one".into(), drive(StoreKind::Ram))], Time::Paced { dilation: 1.0 });
        let mut server =
            Server::new(core.expect("a drive"), Options::default(), Box::new(|_| {})).expect("a queue");
        let attachment = Datagrams { socket: there, under_way: 0, answers: Vec::new(), stopping: false };
        server.attach(Box::new(attachment)).expect("something to wait for");
        tell.send(server.stopper()).expect("somebody listens");
        server.run().expect("a good end").into_devices()
    });
    let stopper = told.recv().expect("the server starts");
    let mut answer = [0; 1024];
    for sector in 0..32u8 {
        here.send(&[&[sector, b'W', sector][..], &[sector; 512]].concat()).expect("a request");
        assert_eq!(here.recv(&mut answer).expect("an answer"), 2);
        assert_eq!(answer[..2], [sector, 1]);
    }
    for sector in 0..32 {
        here.send(&[sector, b'R', sector]).expect("a request");
    }
    let mut seen = [false; 32];
    for _ in 0..32 {
        assert_eq!(here.recv(&mut answer).expect("an answer"), 514);
        let [token, good, ref data @ ..] = answer;
        assert!(good == 1 && data[..512] == [token; 512], "{token}");
        assert!(!std::mem::replace(&mut seen[usize::from(token)], true), "{token}: once");
    }
    stopper.stop();
    let devices = server.join().expect("the server does not panic");
    assert_eq!(devices[0].outstanding_commands(), 0);
}

/// A server that cannot end says what it waits for, again and again.
#[test]
fn a_slow_stop_is_logged() {
    let (here, there) = UnixDatagram::pair().expect("two ends");
    there.set_nonblocking(true).expect("a socket option");
    let ((tell, told), (write, lines)) = (mpsc::channel(), mpsc::channel());
    let server = std::thread::spawn(move || {
        let core = Core::new(vec![("one".into(), drive(StoreKind::Ram))], Time::Instant).expect("a drive");
        let options = Options {
            tick: Duration::from_millis(1),
            slow_stop: Duration::from_millis(5),
            ..Options::default()
        };
        let log = move |event: &Event| write.send(event.to_string()).expect("somebody listens");
        let mut server = Server::new(core, options, Box::new(log)).expect("a queue");
        let attachment = Datagrams { socket: there, under_way: 1, answers: Vec::new(), stopping: false };
        server.attach(Box::new(attachment)).expect("something to wait for");
        tell.send(server.stopper()).expect("somebody listens");
        server.run().map(drop).expect("a good end");
    });
    told.recv().expect("the server starts").stop();
    let still = "event=still-stopping seconds=0 connections=0 drives=\"\"";
    let stopping = "event=stopping reason=asked connections=0";
    assert!(lines.iter().any(|line| line == stopping));
    for _ in 0..2 {
        assert_eq!(lines.recv().expect("a line"), still);
    }
    here.send(&[0, b'E', 0]).expect("the last request");
    server.join().expect("the server does not panic");
    assert_eq!(lines.iter().last().as_deref(), Some("event=stopped"));
}

/// A user within the process is told of a power cut before the answer to the cut is sent, and gets nothing more.
#[test]
fn a_user_within_the_process_learns_of_a_power_cut_first() {
    let path = scratch("local").join("control");
    let listened = path.clone();
    let (tell, told) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let drives = vec![("one".into(), drive(StoreKind::Ram))];
        let core = Core::new(drives, Time::Instant).expect("a drive");
        let (end, local) = in_process(0, &core).expect("two ends");
        let mut server = Server::new(core, Options::default(), Box::new(|_| {})).expect("a queue");
        server.attach(Box::new(end)).expect("something to wait for");
        let stopper = server.stopper();
        let accept = Box::new(move |_, _| Ok(Box::new(ControlSession::new(stopper.for_control())) as _));
        server.listen(&Address::Unix(listened), CONTROL, accept).expect("a Unix socket");
        tell.send((local, server.stopper())).expect("somebody listens");
        server.run().expect("a good end");
    });
    let (mut local, stopper) = told.recv().expect("the server starts");
    let is_gone = Arc::new(AtomicBool::new(false));
    let told_so = Arc::clone(&is_gone);
    local.call(move |gone| {
        told_so.fetch_or(gone, Ordering::AcqRel);
    });
    assert!(ask_control(&path, r#"{"do":"status"}"#).contains("true"));
    assert!(!is_gone.load(Ordering::Acquire));
    assert!(ask_control(&path, r#"{"do":"power-cut"}"#).contains("mapped_units"));
    assert!(is_gone.load(Ordering::Acquire));
    local.submit(SimTime::ZERO, Command::new(1, Opcode::Read, Lba(0), 1, vec![0; 512]));
    assert_eq!(local.pop().map(|ended| ended.status), Some(Status::PowerLoss));
    local.close();
    stopper.stop();
    server.join().expect("the server does not panic");
}

/// One connection with one request at a time competes with 64 connections of 32 requests each, all of which
/// ask again at once. Before its request, the server answers at most as many others as are in the drive at
/// once, plus one turn.
#[test]
fn one_request_at_a_time_waits_for_few_of_the_others() {
    const ONE: u64 = 100;
    let mut core = Core::new(vec![("one".into(), drive(StoreKind::Ram))], Time::Instant).expect("a drive");
    let sectors = core.namespaces()[0].sectors;
    let read = |core: &mut Core, route: Route, n: u64| {
        core.submit(0, route, Operation::new(Opcode::Read, Lba(n * 56 % (sectors - 8)), 8, vec![0; 4096]));
    };
    let route = |connection, token| Route { connection: ConnectionId::new(connection), token };
    (0..64 * 32).for_each(|n| read(&mut core, route(1 + n % 64, n), n));
    read(&mut core, route(ONE, 0), 0);
    let (mut before, mut waits, mut answered) = (0, Vec::new(), 0);
    while waits.len() < 100 {
        core.run();
        while let Some(done) = core.pop() {
            assert_eq!(done.answer.status, Status::Success);
            answered += 1;
            if done.route.connection == ConnectionId::new(ONE) {
                waits.push(std::mem::take(&mut before));
            } else {
                before += 1;
            }
            read(&mut core, done.route, answered);
        }
    }
    let most = waits[1..].iter().max().expect("many");
    assert!(*most <= 256 + 16 + 96, "{most} of the others were answered first");
}
