//! Each command by itself: what it answers, and what it refuses.

use crate::config::{Shape, config};
use pellucid_device::{Device, DeviceConfig, Guarantee};
use pellucid_flash::{
    CacheGeometry, CacheOp, CacheState, Command, Completion, Drive, Interface, Lba, Opcode, SimTime, Status,
};
use pellucid_media::ListedFault;

/// A cache and a host with one command at a time.
pub struct Bench {
    pub drive: Device,
    now: SimTime,
    unit: u32,
}

impl Bench {
    pub fn new(shape: &Shape) -> Bench {
        Bench::of(&config(shape))
    }

    pub fn of(config: &DeviceConfig) -> Bench {
        let drive = Device::new(config).unwrap_or_else(|e| panic!("{e}"));
        let Some(Interface::Cache(CacheGeometry { unit_sectors: unit, .. })) = drive.interface(0) else {
            panic!("a cache")
        };
        Bench { drive, now: SimTime::ZERO, unit }
    }

    pub fn send(&mut self, command: Command) -> Completion {
        self.drive.submit(self.now, command);
        loop {
            if let Some(completion) = self.drive.pop() {
                assert_eq!(completion.stages.total(), completion.completed - completion.submitted);
                self.drive.check();
                return completion;
            }
            self.now = self.drive.next_event().expect("a command ends");
            self.drive.advance(self.now);
        }
    }

    pub fn run(&mut self, opcode: Opcode, block: u64, blocks: u32, seed: u8) -> Completion {
        let bytes = (blocks * self.unit) as usize * self.drive.image_bytes();
        let data = match opcode {
            Opcode::Cache(CacheOp::WriteClean | CacheOp::WriteDirty) | Opcode::Read => {
                vec![seed; bytes]
            }
            _ => Vec::new(),
        };
        let lba = Lba(block * u64::from(self.unit));
        self.send(Command::new(1, opcode, lba, blocks * self.unit, data))
    }

    /// Writes a dirty block, and has it on the media.
    fn force(&mut self, block: u64, seed: u8) -> Status {
        let data = vec![seed; self.unit as usize * self.drive.image_bytes()];
        let lba = Lba(block * u64::from(self.unit));
        let write = Command::new(1, Opcode::Cache(CacheOp::WriteDirty), lba, self.unit, data);
        self.send(Command { fua: true, ..write }).status
    }

    fn reads(&mut self, block: u64) -> Option<u8> {
        let read = self.run(Opcode::Read, block, 1, 0xAA);
        match read.status {
            Status::Absent => None,
            Status::Success => Some(read.data[0]),
            other => panic!("{other:?}"),
        }
    }

    fn states(&mut self, block: u64, blocks: u32) -> (Vec<CacheState>, u64) {
        let exists = self.run(Opcode::Cache(CacheOp::Exists), block, blocks, 0);
        assert_eq!(exists.status, Status::Success);
        let states = exists.data.iter().map(|&raw| CacheState::from_raw(raw).expect("a state")).collect();
        (states, exists.result)
    }
}

#[test]
fn each_command_does_what_it_says() {
    use CacheState::{Absent, Clean, Dirty};
    for guarantee in [Guarantee::Flush, Guarantee::WriteDirty] {
        let mut bench = Bench::new(&Shape { guarantee, keeps_data: true, ..Shape::small() });
        let unit = u64::from(bench.unit);
        let far = 250_000;
        assert_eq!(bench.reads(far), None);
        for (opcode, blocks, seed) in
            [(Opcode::Cache(CacheOp::WriteClean), 4, 1), (Opcode::Cache(CacheOp::WriteDirty), 2, 2)]
        {
            assert_eq!(bench.run(opcode, far, blocks, seed).status, Status::Success);
        }
        assert_eq!(bench.states(far - 1, 6), (vec![Absent, Dirty, Dirty, Clean, Clean, Absent], far * unit));
        assert_eq!([far, far + 1, far + 2].map(|block| bench.reads(block)), [Some(2), Some(2), Some(1)]);
        let partly = bench.run(Opcode::Read, far + 2, 4, 0);
        assert_eq!((partly.status, partly.result), (Status::Absent, 2), "the third block");
        // Clean, and dirty again.
        assert_eq!(bench.run(Opcode::Cache(CacheOp::Clean), far, 3, 0).result, 2, "those that were dirty");
        assert_eq!(bench.states(far, 2), (vec![Clean, Clean], CacheGeometry::NO_DIRTY));
        assert_eq!(bench.reads(far), Some(2));
        assert_eq!(bench.run(Opcode::Cache(CacheOp::WriteDirty), far + 3, 1, 3).status, Status::Success);
        assert_eq!(bench.states(0, 0), (vec![], (far + 3) * unit));
        assert_eq!(bench.run(Opcode::Cache(CacheOp::Evict), far, 8, 0).result, 4, "those that were there");
        assert_eq!(bench.states(far, 4), (vec![Absent; 4], CacheGeometry::NO_DIRTY));
        assert_eq!(bench.reads(far + 3), None);
        assert_eq!(bench.run(Opcode::Flush, 0, 0, 0).status, Status::Success);
        bench.drive.power_cut().unwrap();
        assert_eq!(bench.reads(far + 3), None, "evicted for good");
    }
}

#[test]
fn a_cache_is_warm_after_a_power_cut() {
    for guarantee in [Guarantee::Flush, Guarantee::WriteDirty] {
        let mut bench = Bench::new(&Shape { guarantee, keeps_data: true, ..Shape::small() });
        for block in 0..40u8 {
            let opcode = if block % 2 == 0 {
                Opcode::Cache(CacheOp::WriteDirty)
            } else {
                Opcode::Cache(CacheOp::WriteClean)
            };
            bench.run(opcode, 1000 * u64::from(block), 1, block);
        }
        bench.run(Opcode::Flush, 0, 0, 0);
        bench.run(Opcode::Cache(CacheOp::WriteDirty), 77, 1, 99);
        bench.drive.power_cut().unwrap();
        for block in 0..40u8 {
            let at = 1000 * u64::from(block);
            assert_eq!(bench.reads(at), Some(block), "{guarantee:?}");
            let state = if block % 2 == 0 { CacheState::Dirty } else { CacheState::Clean };
            assert_eq!(bench.states(at, 1).0, [state]);
        }
        let expected = if guarantee == Guarantee::WriteDirty { Some(99) } else { None };
        assert_eq!(bench.reads(77), expected, "written without a flush");
    }
}

#[test]
fn a_cache_full_of_dirty_blocks_refuses() {
    let mut bench = Bench::new(&Shape { keeps_data: true, ..Shape::small() });
    let Some(Interface::Cache(geometry)) = bench.drive.interface(0) else { panic!("a cache") };
    let mut written = 0;
    while bench.run(Opcode::Cache(CacheOp::WriteDirty), 3 * written, 1, written as u8).status
        == Status::Success
    {
        written += 1;
        assert!(written <= geometry.units, "more than it holds");
    }
    assert!(written * 10 >= geometry.units * 9, "{written} of {}", geometry.units);
    let refused = bench.run(Opcode::Cache(CacheOp::WriteDirty), 1, 2, 1);
    assert_eq!(refused.status, Status::CacheFull);
    assert_eq!(bench.states(1, 2).0, [CacheState::Absent; 2], "nothing of it was taken");
    for block in 0..written {
        assert_eq!(bench.reads(3 * block), Some(block as u8));
    }
    // One that is there can be overwritten; a clean one makes space.
    assert_eq!(bench.run(Opcode::Cache(CacheOp::WriteDirty), 0, 1, 200).status, Status::Success);
    assert_eq!(bench.run(Opcode::Cache(CacheOp::Clean), 0, 3 * 60, 0).result, 60);
    for block in 0..40 {
        assert_eq!(
            bench.run(Opcode::Cache(CacheOp::WriteDirty), 100_000 + block, 1, 7).status,
            Status::Success
        );
    }
    for block in 60..written {
        assert_eq!(bench.reads(3 * block), Some(block as u8), "a dirty block was evicted");
    }
}

/// A crowded region: what was cleaned and evicted since its translation page was written comes back dirty with the power, and more pages want
/// slots than there are. Those that are dirty must have them.
#[test]
fn dirty_blocks_of_a_crowded_region_survive() {
    for guarantee in [Guarantee::WriteDirty, Guarantee::Flush] {
        let mut bench = Bench::new(&Shape { guarantee, keeps_data: true, ..Shape::crowded() });
        let mut dirty = std::collections::BTreeSet::new();
        let mut write = |bench: &mut Bench, blocks: std::ops::Range<u64>| {
            for block in blocks {
                for tries in 0.. {
                    match bench.force(7 * block, block as u8) {
                        Status::Success => break,
                        Status::CacheFull => assert!(tries < 2, "block {block} is refused again"),
                        other => panic!("{other:?}"),
                    }
                    bench.run(Opcode::Flush, 0, 0, 0);
                }
                dirty.insert(block);
            }
        };
        write(&mut bench, 0..90);
        // These are dirty on the media for good, and clean in memory.
        bench.run(Opcode::Cache(CacheOp::Clean), 7 * 40, 7 * 50, 0);
        write(&mut bench, 90..140);
        dirty.retain(|block| !(40..90).contains(block));
        bench.drive.power_cut().unwrap();
        bench.drive.check();
        for block in dirty {
            assert_eq!(bench.reads(7 * block), Some(block as u8), "{guarantee:?}: block {block} was dirty");
        }
    }
}

/// The program of an evicted block fails while a new write of that block waits for its data: it has nothing to take over.
#[test]
fn a_program_that_fails_leaves_a_later_write_alone() {
    let shape = Shape {
        keeps_data: true,
        link_bytes_per_second: 1_000_000,
        over_provisioning: 2.0,
        ..Shape::small()
    };
    let mut config = config(&shape);
    config.media.faults.list =
        vec![ListedFault::ProgramFail { die: 0, block: 0, superpage: 0, after_erases: 0 }];
    let mut bench = Bench::of(&config);
    assert_eq!(bench.run(Opcode::Cache(CacheOp::WriteDirty), 5, 1, 1).status, Status::Success);
    let begun = bench.now;
    let whole = vec![2; bench.unit as usize * bench.drive.image_bytes()];
    let lba = Lba(5 * u64::from(bench.unit));
    bench.drive.submit(begun, Command::new(2, Opcode::Flush, Lba(0), 0, Vec::new()));
    while bench.drive.counters().programs.iter().sum::<u64>() == 0 {
        bench.now = bench.drive.next_event().expect("a program is planned");
        bench.drive.advance(bench.now);
    }
    bench
        .drive
        .submit(bench.now, Command::new(3, Opcode::Cache(CacheOp::Evict), lba, bench.unit, Vec::new()));
    bench
        .drive
        .submit(bench.now, Command::new(4, Opcode::Cache(CacheOp::WriteDirty), lba, bench.unit, whole));
    let mut ended = Vec::new();
    while ended.len() < 3 {
        bench.now = bench.drive.next_event().expect("commands end");
        bench.drive.advance(bench.now);
        bench.drive.check();
        while let Some(completion) = bench.drive.pop() {
            ended.push((completion.tag, completion.status, bench.drive.counters().program_failures));
        }
    }
    assert!(ended.contains(&(4, Status::Success, 1)), "the write ends behind the failure: {ended:?}");
    assert_eq!(bench.reads(5), Some(2));
    assert_eq!(bench.force(9, 9), Status::Success);
    bench.drive.power_cut().unwrap();
    assert_ne!(bench.reads(5), Some(1), "it was evicted before the flush ended");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut bench = Bench::new(&Shape::small());
    let (unit, image) = (bench.unit, bench.drive.image_bytes());
    let Some(Interface::Cache(geometry)) = bench.drive.interface(0) else { panic!("a cache") };
    let mut status = |opcode, lba, sectors: u32, bytes: usize| {
        bench.send(Command::new(1, opcode, Lba(lba), sectors, vec![0; bytes])).status
    };
    let whole = unit as usize * image;
    assert_eq!(status(Opcode::Write, 0, unit, whole), Status::InvalidOpcode);
    assert_eq!(status(Opcode::Trim, 0, unit, 0), Status::InvalidOpcode);
    assert_eq!(
        status(Opcode::Cache(CacheOp::WriteDirty), 1, unit, whole),
        Status::InvalidField,
        "not at a block"
    );
    assert_eq!(
        status(Opcode::Cache(CacheOp::WriteDirty), 0, unit / 2, whole / 2),
        Status::InvalidField,
        "part of a block"
    );
    assert_eq!(
        status(Opcode::Cache(CacheOp::WriteClean), 0, unit, whole - 1),
        Status::InvalidField,
        "too few data"
    );
    assert_eq!(status(Opcode::Read, 3, unit, 0), Status::InvalidField);
    assert_eq!(status(Opcode::Cache(CacheOp::Evict), 0, 0, 0), Status::InvalidField);
    assert_eq!(status(Opcode::Cache(CacheOp::Clean), 0, 0, 0), Status::InvalidField);
    let end = geometry.address_sectors;
    assert_eq!(
        status(Opcode::Cache(CacheOp::Exists), end - u64::from(unit), 2 * unit, 0),
        Status::LbaOutOfRange
    );
    assert_eq!(
        status(Opcode::Cache(CacheOp::Evict), u64::MAX - u64::from(unit) + 1, unit, 0),
        Status::LbaOutOfRange
    );
}
