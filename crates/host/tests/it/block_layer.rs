//! Tests the block layer over the reference block drive, which completes out of order, fails at random, and
//! loses its cache with the power.

use crate::block_reference::BlockReference;
use crate::reference::Faults;
use pellucid_flash::{Command, Completion, Drive, Lba, Nanos, Opcode, Rng, SimTime, Status};
use pellucid_host::{BlockLayer, BlockLayerConfig, CpuCosts, Elevator, Join, Stack};
use std::collections::BTreeMap;

const SECTOR: usize = 512;
const SECTORS: u64 = 400;

fn config() -> BlockLayerConfig {
    BlockLayerConfig {
        namespace: 0,
        elevator: Elevator::Deadline,
        requests: 16,
        depth: 4,
        largest: 32,
        plug: 4,
        join: Join::Newest,
        plug_ns: Nanos(200),
        read_expire: Nanos(500),
        write_expire: Nanos(5_000),
        cpu: CpuCosts::FREE,
    }
}

/// Layer with the possible values of each sector: those of writes since the last certain flush, the newest
/// last.
struct Bench {
    stack: Stack<BlockLayer, BlockReference>,
    rng: Rng,
    may: Vec<Vec<u32>>,
    /// True if the newest write of the sector was acknowledged, so that reads return it.
    sure: Vec<bool>,
    busy: Vec<bool>,
    outstanding: BTreeMap<u64, (Command, u32, SimTime)>,
    tag: u64,
    version: u32,
    answered: u64,
    failed: u64,
}

fn images(version: u32, sectors: u32) -> Vec<u8> {
    version.to_le_bytes().repeat(sectors as usize * SECTOR / 4)
}

impl Bench {
    fn new(config: &BlockLayerConfig, faults: Faults, seed: u64) -> Bench {
        let mut drive = BlockReference::new(SECTORS, seed);
        drive.faults = faults;
        let layer = BlockLayer::new(config, drive.interface(0), SECTOR).expect("a block namespace");
        let stack = Stack::start(layer, drive, SimTime::ZERO).expect("it starts");
        Bench {
            stack,
            rng: Rng::stream(seed, "block layer"),
            may: vec![vec![0]; SECTORS as usize],
            sure: vec![true; SECTORS as usize],
            busy: vec![false; SECTORS as usize],
            outstanding: BTreeMap::new(),
            tag: 0,
            version: 0,
            answered: 0,
            failed: 0,
        }
    }

    fn now(&self) -> SimTime {
        self.stack.now()
    }

    /// Submits a random command, often adjacent to the previous one, so that requests can be merged.
    fn submit(&mut self) {
        let most = if self.rng.chance(0.1) { 50 } else { 6 };
        let sectors = 1 + self.rng.below(most) as u32;
        let near = self.outstanding.values().next_back().map(|(command, ..)| command.clone());
        let lba = match near {
            Some(near) if self.rng.chance(0.4) => near.lba.0 + u64::from(near.sectors),
            Some(near) if self.rng.chance(0.4) => near.lba.0.saturating_sub(u64::from(sectors)),
            _ => self.rng.below(SECTORS),
        };
        let range = lba as usize..(lba + u64::from(sectors)).min(SECTORS) as usize;
        if range.is_empty() || self.busy[range.clone()].iter().any(|&busy| busy) {
            return;
        }
        let sectors = range.len() as u32;
        self.version += 1;
        let chance = self.rng.below(20);
        let (opcode, data) = match chance {
            0..=9 => (Opcode::Write, images(self.version, sectors)),
            10 => (Opcode::Trim, Vec::new()),
            11 => (Opcode::Read, Vec::new()),
            _ => (Opcode::Read, vec![0; sectors as usize * SECTOR]),
        };
        self.busy[range.clone()].fill(true);
        if opcode != Opcode::Read {
            let value = if opcode == Opcode::Trim { 0 } else { self.version };
            range.clone().for_each(|at| self.may[at].push(value));
            self.sure[range].fill(false);
        }
        let fua = opcode == Opcode::Write && self.rng.chance(0.1);
        self.give(Command { fua, ..Command::new(0, opcode, Lba(lba), sectors, data) });
    }

    fn give(&mut self, command: Command) {
        self.tag += 1;
        let command = Command { tag: self.tag, ..command };
        let now = self.now();
        let bare = Command { data: Vec::new(), ..command.clone() };
        self.outstanding.insert(self.tag, (bare, self.version, now));
        self.stack.ask(now, command);
        self.look();
    }

    fn look(&mut self) {
        while let Some(completion) = self.stack.answer() {
            self.answer(completion);
        }
        self.stack.layer.check();
    }

    fn answer(&mut self, completion: Completion) {
        let (command, version, submitted) =
            self.outstanding.remove(&completion.tag).expect("answered once, and asked before");
        assert_eq!((completion.opcode, completion.submitted), (command.opcode, submitted));
        assert_eq!(completion.stages.total(), completion.completed.since(submitted), "{completion:?}");
        self.answered += 1;
        self.failed += u64::from(completion.status != Status::Success);
        let range = command.lba.0 as usize..command.lba.0 as usize + command.sectors as usize;
        self.busy[range.clone()].fill(false);
        let good = completion.status == Status::Success;
        match command.opcode {
            Opcode::Read if good => {
                for (at, image) in range.clone().zip(completion.data.chunks_exact(SECTOR)) {
                    let value = u32::from_le_bytes(image[..4].try_into().expect("four bytes"));
                    assert_eq!(image, images(value, 1), "sector {at}");
                    let newest = *self.may[at].last().expect("a value");
                    assert!(self.may[at].contains(&value), "sector {at}: {value} of {:?}", self.may[at]);
                    assert!(!self.sure[at] || value == newest, "sector {at}: {value}, not {newest}");
                }
            }
            Opcode::Write if good => {
                assert_eq!(completion.data, images(version, command.sectors), "its buffer comes back");
                self.sure[range].fill(true);
            }
            Opcode::Trim if good => self.sure[range].fill(true),
            _ => {}
        }
    }

    fn step(&mut self) {
        if let Some(next) = self.stack.next_event() {
            self.stack.advance(next);
            self.look();
        }
    }

    fn drain(&mut self) {
        let mut steps = 0;
        while !self.outstanding.is_empty() {
            self.step();
            steps += 1;
            assert!(steps < 100_000, "{} commands are never answered", self.outstanding.len());
        }
    }

    /// Flushes with nothing else under way, so that the covered writes are certain.
    fn flush(&mut self) {
        self.drain();
        self.give(Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
        self.drain();
        for (may, sure) in self.may.iter_mut().zip(&self.sure) {
            let newest = *may.last().expect("a value");
            if *sure {
                *may = vec![newest];
            }
        }
    }

    fn cut(&mut self) {
        let lost = self.outstanding.len() as u64;
        let (answered, failed) = (self.answered, self.failed);
        self.stack.drive.cut();
        self.stack.restart(self.now()).expect("it starts again");
        self.look();
        assert!(self.outstanding.is_empty(), "never answered: {:?}", self.outstanding);
        assert_eq!((self.answered - answered, self.failed - failed), (lost, lost));
        self.sure.fill(false);
        let faults = std::mem::take(&mut self.stack.drive.faults);
        for lba in 0..SECTORS {
            self.give(Command::new(0, Opcode::Read, Lba(lba), 1, vec![0; SECTOR]));
        }
        self.drain();
        self.stack.drive.faults = faults;
    }
}

fn some(rng: &mut Rng) -> BlockLayerConfig {
    let cpu = CpuCosts {
        cores: 2,
        submit_ns: Nanos(3),
        sector_ns: Nanos::ZERO,
        command_ns: Nanos(7),
        completion_ns: Nanos(5),
    };
    BlockLayerConfig {
        elevator: if rng.chance(0.5) { Elevator::Noop } else { Elevator::Deadline },
        requests: 1 + rng.below(20) as u32,
        depth: 1 + rng.below(6) as u32,
        largest: 1 + rng.below(40) as u32,
        plug: rng.below(6) as u32,
        cpu: if rng.chance(0.5) { cpu } else { CpuCosts::FREE },
        ..config()
    }
}

#[test]
fn it_is_a_drive_like_the_one_below() {
    let (mut split, mut merged, mut failed) = (0, 0, 0);
    for seed in 0..60 {
        let mut rng = Rng::stream(seed, "which");
        let faults = match seed % 3 {
            0 => Faults::default(),
            _ => Faults { write: 0.05, read: 0.05, ..Faults::default() },
        };
        let mut bench = Bench::new(&some(&mut rng), faults, seed);
        for _ in 0..600 {
            match rng.below(40) {
                0 => bench.flush(),
                1 if seed % 2 == 0 => bench.cut(),
                2..=12 => bench.step(),
                _ => bench.submit(),
            }
        }
        bench.drain();
        let counters = bench.stack.layer.counters();
        assert!(counters.requests <= counters.command_sectors + counters.split * 40, "{counters:?}");
        (split, failed) = (split + counters.split, failed + bench.failed);
        merged += u64::from(counters.requests < counters.commands);
    }
    assert!(split > 20 && failed > 20 && merged > 20, "{split} {failed} {merged}: nothing of it happened");
}

/// Checks that four neighbours make one command, and that the drive holds no more commands than it takes.
#[test]
fn neighbours_become_one_command() {
    let mut bench = Bench::new(&BlockLayerConfig { plug: 8, ..config() }, Faults::default(), 1);
    for at in [1, 0, 2, 3, 5, 4, 6, 7] {
        bench.give(Command::new(0, Opcode::Read, Lba(at * 8), 8, vec![0; 8 * SECTOR]));
    }
    // Two requests are too few to unplug the queue; only time does.
    bench.drain();
    let counters = bench.stack.layer.counters();
    assert_eq!((counters.commands, counters.command_sectors), (8, 64));
    assert_eq!((counters.requests, counters.request_sectors), (2, 64));
    assert!(bench.now() >= SimTime(config().plug_ns.0), "it waited for more");
}

/// Checks that only the command that fails alone gets an error.
#[test]
fn a_merged_request_that_fails_is_sent_again_in_parts() {
    let faults = Faults { read: 1.0, ..Faults::default() };
    let mut bench = Bench::new(&config(), faults, 1);
    for at in 0..3 {
        bench.give(Command::new(0, Opcode::Read, Lba(at), 1, vec![0; SECTOR]));
    }
    bench.drain();
    let counters = bench.stack.layer.counters();
    assert_eq!((counters.split, bench.failed, bench.answered), (1, 3, 3));
}

#[test]
fn what_is_no_namespace_of_sectors_is_refused() {
    let refused = |interface| BlockLayer::new(&config(), interface, SECTOR).err();
    assert_eq!(refused(None).as_deref(), Some("the drive has no namespace 0"));
}

/// Checks that a command larger than the largest request is split, and answered once with all its data.
#[test]
fn a_large_command_is_cut() {
    let mut bench = Bench::new(&BlockLayerConfig { plug: 0, ..config() }, Faults::default(), 1);
    bench.give(Command::new(0, Opcode::Read, Lba(8), 100, vec![1; 100 * SECTOR]));
    bench.drain();
    let counters = bench.stack.layer.counters();
    assert_eq!((counters.commands, counters.requests, counters.request_sectors), (1, 4, 100));
    assert_eq!(bench.answered, 1);
}
