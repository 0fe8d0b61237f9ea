//! Cost of the cluster buffer itself: `cargo run --release -p pellucid-testing --example cluster-buffer-cost [WORKLOAD [REQUESTS]]`.
//!
//! Requests go one by one to the buffer, on a drive that answers at once and looks at no data. So what is measured is the layer, the pump
//! under it, and the copies of data; the drive alone is measured beside it. Under `valgrind --tool=callgrind` with a workload and two
//! numbers of requests, the difference counts the instructions of a request.

#![allow(clippy::print_stdout, reason = "an example prints")]

use pellucid_flash::{Command, Completion, Drive, Interface, Lba, Opcode, Rng, SimTime, StageTimes, Status};
use pellucid_host::{ClusterBuffer, ClusterBufferConfig, Stack};
use std::collections::VecDeque;
use std::time::Instant;

/// 8 GB, as a stick.
const SECTORS: u64 = 16 << 20;
const SECTOR_BYTES: usize = 512;
/// Sectors of the requests that the target of 1.5 us is about: 4 KiB.
const SMALL: u32 = 8;

/// Ends every command at once.
struct Nothing {
    now: SimTime,
    ended: VecDeque<Completion>,
}

impl Drive for Nothing {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        (namespace == 0).then_some(Interface::Block { sectors: SECTORS, handles: 1 })
    }

    fn image_bytes(&self) -> usize {
        SECTOR_BYTES
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.ended.push_back(command.ended(Status::Success, now, now, StageTimes::default()));
    }

    fn advance(&mut self, now: SimTime) {
        self.now = now;
    }

    fn next_event(&self) -> Option<SimTime> {
        None
    }

    fn pop(&mut self) -> Option<Completion> {
        self.ended.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.ended.len()
    }

    fn completed(&self) -> usize {
        self.ended.len()
    }
}

/// One workload.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    what: &'static str,
    opcode: Opcode,
    sectors: u32,
    /// Sectors from the start of the drive that requests go to.
    region: u64,
    in_order: bool,
}

const WORKLOADS: [Workload; 5] = [
    Workload {
        name: "hit",
        what: "writes of 4 KiB to what the buffer holds",
        opcode: Opcode::Write,
        sectors: SMALL,
        region: 16 << 11,
        in_order: false,
    },
    Workload {
        name: "stream",
        what: "writes of 4 KiB in order, with the evictions of full clusters",
        opcode: Opcode::Write,
        sectors: SMALL,
        region: SECTORS,
        in_order: true,
    },
    Workload {
        name: "covered",
        what: "reads of 4 KiB that the buffer holds",
        opcode: Opcode::Read,
        sectors: SMALL,
        region: 16 << 11,
        in_order: false,
    },
    Workload {
        name: "read",
        what: "reads of 4 KiB that it does not hold, beside a full buffer",
        opcode: Opcode::Read,
        sectors: SMALL,
        region: SECTORS,
        in_order: false,
    },
    Workload {
        name: "scattered",
        what: "writes of 4 KiB anywhere: each evicts and pads a cluster of 1 MiB",
        opcode: Opcode::Write,
        sectors: SMALL,
        region: SECTORS,
        in_order: false,
    },
];

fn nothing() -> Nothing {
    Nothing { now: SimTime::ZERO, ended: VecDeque::new() }
}

/// Asks this many times; returns nanoseconds a request.
fn ask(drive: &mut impl Drive, work: &Workload, requests: u64) -> f64 {
    let mut rng = Rng::stream(1, work.name);
    let mut data = vec![7; work.sectors as usize * SECTOR_BYTES];
    let places = work.region / u64::from(work.sectors);
    let began = Instant::now();
    for at in 0..requests {
        let place = if work.in_order { at % places } else { rng.below(places) };
        // Time goes on, and the buffer is never idle for long.
        let now = SimTime(at * 1000);
        let lba = Lba(place * u64::from(work.sectors));
        drive.submit(now, Command::new(0, work.opcode, lba, work.sectors, std::mem::take(&mut data)));
        data = drive.pop().unwrap_or_else(|| panic!("request {at} has no answer")).data;
    }
    began.elapsed().as_nanos() as f64 / requests as f64
}

fn main() {
    let mut words = std::env::args().skip(1);
    let only = words.next();
    let requests = words.next().and_then(|word| word.parse().ok());
    for work in WORKLOADS.iter().filter(|work| only.as_deref().is_none_or(|only| only == work.name)) {
        let requests = requests.unwrap_or(if work.name == "scattered" { 5_000 } else { 1_000_000 });
        let config = ClusterBufferConfig::default();
        let drive = nothing();
        let layer = ClusterBuffer::new(&config, drive.interface(0), SECTOR_BYTES);
        let layer = layer.unwrap_or_else(|e| panic!("{e}"));
        let mut host = Stack::start(layer, drive, SimTime::ZERO).unwrap_or_else(|e| panic!("{e}"));
        // A buffer that holds the first 16 MiB.
        let fill = Workload { in_order: true, opcode: Opcode::Write, region: 16 << 11, ..*work };
        ask(&mut host, &fill, (16 << 11) / u64::from(work.sectors));
        let with = ask(&mut host, work, requests);
        let without = ask(&mut nothing(), work, requests);
        println!(
            "{:<10} {:>9.1} ns a request, {:>5.1} without the buffer: {}",
            work.name, with, without, work.what
        );
        let (bytes, told) = (host.layer.memory_bytes(), config.size_bytes);
        assert!(bytes.abs_diff(told) <= told / 50, "{bytes} bytes of memory, configured: {told}");
    }
}
