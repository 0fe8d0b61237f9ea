//! Real time is throttled virtual time.

use crate::common::{self, Client, config, drive, pattern, serve, serve_observed};
use pellucid_device::Device;
use pellucid_flash::{Command, Completion, Lba, Opcode, Rng, SimTime, Status};
use pellucid_media::StoreKind;
use pellucid_serve::Operated;
use pellucid_serve::{Arrival, Core, FioTrace, Lead, Observer, Options, Time};
use pellucid_target::Drives;
use pellucid_target::Service;
use pellucid_target::connection::{ConnectionId, Route};
use pellucid_target::operation::Operation;
use pellucid_wire::nbd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Seen {
    arrivals: Vec<(Arrival, Vec<u8>)>,
    completions: Vec<Completion>,
}

struct Recorder(Arc<Mutex<Seen>>);

impl Observer for Recorder {
    fn arrived(&mut self, arrival: &Arrival, data: &[u8]) {
        self.0.lock().expect("no panic elsewhere").arrivals.push((*arrival, data.to_vec()));
    }

    fn completed(&mut self, _namespace: usize, completion: &Completion) {
        self.0.lock().expect("no panic elsewhere").completions.push(completion.clone());
    }
}

/// Sends random requests, `depth` at a time.
fn load(mut client: Client, seed: u64, rounds: u32, depth: u32) {
    let mut rng = Rng::new(seed);
    let sectors = client.size_bytes / 512;
    for _ in 0..rounds {
        for _ in 0..depth {
            let length = 1 + rng.below(24) as u32;
            let at = rng.below(sectors - u64::from(length)) * 512;
            let bytes = length * 512;
            match rng.below(20) {
                0 => client.send(nbd::Command::Flush, 0, 0, 0, &[]),
                1 => client.send(nbd::Command::Trim, 0, at, bytes, &[]),
                2..11 => {
                    client.send(nbd::Command::Write, 0, at, bytes, &pattern(rng.next_u64(), bytes as usize))
                }
                _ => client.send(nbd::Command::Read, 0, at, bytes, &[]),
            };
        }
        for _ in 0..depth {
            assert_eq!(client.reply(|_| 0).error, 0);
        }
    }
    client.leave();
}

#[test]
fn recorded_arrivals_give_the_same_completions_in_virtual_time() {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let recorder = Some(Box::new(Recorder(seen.clone())) as _);
    let drives = vec![("one".into(), drive(StoreKind::Ram))];
    let time = Time::Paced { dilation: 1.0 };
    let served = serve_observed("replay", drives, time, recorder, Options::default());
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let client = Client::tcp(&served, "one");
            scope.spawn(move || load(client, thread, 60, 12));
        }
    });
    let mut live = served.stop();
    let live = live.pop().expect("one drive");
    let seen = std::mem::take(&mut *seen.lock().expect("the server has ended"));
    assert!(seen.arrivals.len() > 3 * 60 * 12, "with the flush at the end");

    let mut again = Device::new(&config(StoreKind::Ram)).expect("a good configuration");
    for (tag, (arrival, data)) in seen.arrivals.into_iter().enumerate() {
        let Arrival { at, queue, opcode, fua, lba, sectors, .. } = arrival;
        let data = if opcode == Opcode::Read { vec![0; sectors as usize * 512] } else { data };
        again.submit(at, Command { queue, fua, ..Command::new(tag as u64, opcode, lba, sectors, data) });
    }
    while again.outstanding_commands() > 0 {
        let next = again.next_event().expect("something is under way");
        again.advance(next);
    }
    for (count, expected) in seen.completions.iter().enumerate() {
        let mut found = again.pop().expect("as many completions");
        // The server reuses tags; and a read's buffer need not be returned as it was taken.
        found.tag = expected.tag;
        assert_eq!(found, *expected, "completion {count}");
    }
    assert!(again.pop().is_none(), "no completion more");
    // The live drive has run on until it was stopped.
    again.advance(live.now());
    assert_eq!(again.counters(), live.counters());
}

#[test]
fn modelled_latency_is_kept() {
    let served = serve("kept", vec![("one".into(), drive(StoreKind::Ram))], Time::Paced { dilation: 2.0 });
    let mut client = Client::tcp(&served, "one");
    let data = pattern(1, 2 << 20);
    client.write(0, &data);
    client.flush();
    for unit in 0..64u64 {
        let began = Instant::now();
        assert_eq!(client.read(unit * 4096, 4096), data[unit as usize * 4096..][..4096]);
        // A sense takes 50 us, less 4 % of spread, and everything takes twice as long.
        assert!(began.elapsed() >= Duration::from_micros(96), "unit {unit}: {:?}", began.elapsed());
    }
    let status: serde_json::Value =
        serde_json::from_str(&served.control(r#"{"do":"status"}"#)).expect("JSON");
    let lateness = &status["lateness_ns"];
    assert!(lateness["count"].as_u64() > Some(65), "{lateness}");
    assert_eq!(status["lead_ns"], 0, "none was asked for");
    assert!(lateness["p50"].as_u64() > Some(0) && lateness["p99"].as_u64() >= lateness["p50"].as_u64());
}

/// A lead does not shorten the modelled latency; completions are handed out early, by at most the lead.
#[test]
fn a_lead_hands_completions_out_early() {
    let lead = Duration::from_secs(5);
    let mut config = config(StoreKind::Ram);
    config.buffer.dirty_high = 0.0;
    let drive = Device::new(&config).expect("a good configuration");
    let mut core = Core::new(vec![("one".into(), drive)], Time::Paced { dilation: 1.0 }).expect("served");
    core.lead(Lead::Fixed(lead));
    let route = Route { connection: ConnectionId::new(1), token: 7 };
    let mut ahead = SimTime::ZERO;
    for unit in 0..20 {
        let write = Operation::new(Opcode::Write, Lba(8 * unit), 8, vec![3; 4096]);
        // Every other write is acknowledged in the buffer: the drive has much to do after that.
        let fua = unit % 2 == 0;
        core.submit(0, route, Operation { fua, ..write });
        let arrived_ns = core.now_ns();
        core.run();
        let now_ns = core.now_ns();
        let done = core.pop().expect("everything takes less than the lead");
        assert_eq!((done.route, done.answer.status), (route, Status::Success));
        let latency = done.answer.completed - done.answer.submitted;
        assert!(!fua || latency.0 >= 100_000, "a program takes its time: {latency:?}");
        assert!(done.answer.completed.0 <= now_ns + lead.as_nanos() as u64);
        // No command waits for work after a completion, so the next command does not find the drive further
        // ahead.
        assert!(done.answer.submitted <= SimTime(arrived_ns).max(ahead), "stamped late");
        ahead = done.answer.completed;
        core.run();
    }
}

#[test]
fn a_recording_is_a_trace_of_fio() {
    let file = common::scratch("trace").join("trace.log");
    let out = std::fs::File::create(&file).expect("a temporary file");
    let drives = vec![("one".into(), drive(StoreKind::Ram)), ("two".into(), drive(StoreKind::Ram))];
    let trace = Some(Box::new(FioTrace::new(out)) as _);
    let served = serve_observed("trace", drives, Time::Paced { dilation: 1.0 }, trace, Options::default());
    let (mut one, mut two) = (Client::tcp(&served, "one"), Client::tcp(&served, "two"));
    one.write(8192, &[1; 1024]);
    two.read(512, 512);
    assert_eq!(one.ask(nbd::Command::WriteZeroes, 0, 4096, 4096, &[]).error, 0);
    drop((one, two, served));
    let text = std::fs::read_to_string(&file).expect("the trace is there");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("fio version 3 iolog"));
    let (mut words, mut previous) = (Vec::new(), 0u64);
    for line in lines {
        let (time, rest) = line.split_once(' ').expect("time first");
        let time = time.parse().expect("microseconds");
        assert!(time >= previous, "time runs forward");
        previous = time;
        words.push(rest);
    }
    assert_eq!(
        words,
        [
            "stream.0 add",
            "stream.0 open",
            "stream.0 write 8192 1024",
            "stream.1 add",
            "stream.1 open",
            "stream.1 read 512 512",
            "stream.0 trim 4096 4096",
            // The server flushes at its end.
            "stream.0 sync 0 0",
            "stream.1 sync 0 0",
            "stream.0 close",
            "stream.1 close",
        ]
    );
}

/// Operations in flight at a stop are answered and flushed at once, without waiting for modelled time,
/// because service managers kill a server that takes long to stop.
#[test]
fn a_server_that_stops_waits_for_no_modelled_time() {
    // A program takes 200 s.
    let time = Time::Paced { dilation: 1e6 };
    let served = serve("stops", vec![("one".into(), drive(StoreKind::Ram))], time);
    let mut client = Client::tcp(&served, "one");
    let data = pattern(9, 64 << 10);
    let cookie = client.send(nbd::Command::Write, nbd::command_flag::FUA, 0, 64 << 10, &data);
    let status = || served.control(r#"{"do":"status"}"#);
    common::eventually("the write is in the drive", || status().contains("\"outstanding\":1"));
    served.stopper.stop();
    let reply = client.reply(|_| 0);
    assert_eq!((reply.cookie, reply.error), (cookie, 0));
    let told = Instant::now();
    drop(client);
    served.stop();
    assert!(told.elapsed() < Duration::from_secs(600), "{:?}", told.elapsed());
}
