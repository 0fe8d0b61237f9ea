//! The function level against a plain model of each block's content, by mark; with failing flash, and with a power cut at every event.

use crate::reference::{Faults, Reference, geometry};
use pellucid_flash::{Drive, Rng, SimTime, Status};
use pellucid_host::Stack;
use pellucid_prism::{
    FlashAddress, Function, FunctionAnswer, FunctionAsk, FunctionCall, FunctionOutcome, LevelError, Mapping,
};
use std::collections::BTreeMap;

/// The application's knowledge of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    mark: u32,
    /// Pages acknowledged, and in flight.
    done: u32,
    asked: u32,
    /// True if a write has failed.
    broken: bool,
    /// Pages handed out.
    handed: u32,
}

#[derive(Clone, Debug)]
enum Asked {
    /// A block's mark, and pages.
    Write(u32, u32),
    /// Mark, first sector and sectors.
    Read(u32, u32, u32),
    Level,
}

#[derive(Clone)]
struct World {
    host: Stack<Function, Reference>,
    blocks: BTreeMap<FlashAddress, Mapped>,
    asked: BTreeMap<u64, Asked>,
    rng: Rng,
    marks: u32,
    tags: u64,
    swaps: u32,
    failures: u32,
    faults: bool,
}

fn drive(seed: u64, faults: Faults) -> Reference {
    let mut rng = Rng::stream(seed, "function drive");
    let write = 1 << rng.below(3);
    let (groups, units) = (1 + rng.below(2) as u32, 1 + rng.below(2) as u32);
    let mut drive = Reference::new(geometry(groups, units, 8 + rng.below(5) as u32, 4 * write, write), seed);
    drive.faults = faults;
    drive
}

fn image(mark: u32, sector: u32) -> Vec<u8> {
    let mut rng = Rng::stream(u64::from(mark) << 32 | u64::from(sector), "image");
    (0..64).flat_map(|_| rng.below(u64::MAX).to_le_bytes()).collect()
}

impl World {
    fn new(drive: Reference, seed: u64) -> World {
        let faults = drive.faults.write > 0.0 || drive.faults.reset > 0.0;
        let layer = Function::new(0, drive.interface(0), drive.image_bytes()).expect("an open-channel drive");
        World {
            host: Stack::start(layer, drive, SimTime::ZERO).expect("it starts"),
            blocks: BTreeMap::new(),
            asked: BTreeMap::new(),
            rng: Rng::stream(seed, "function world"),
            marks: 0,
            tags: 0,
            swaps: 0,
            failures: 0,
            faults,
        }
    }

    fn page_sectors(&self) -> u32 {
        self.host.layer.space().page_sectors()
    }

    fn ask(&mut self, asked: Asked, call: FunctionCall) {
        self.tags += 1;
        self.asked.insert(self.tags, asked);
        self.host.ask(self.host.now(), FunctionAsk { tag: self.tags, call });
    }

    fn any(&mut self, may: impl Fn(&Mapped) -> bool) -> Option<FlashAddress> {
        let some: Vec<_> = self.blocks.iter().filter(|(_, m)| may(m)).map(|(a, _)| *a).collect();
        (!some.is_empty()).then(|| some[self.rng.below(some.len() as u64) as usize])
    }

    fn act(&mut self) {
        let pages = self.host.layer.geometry().pages_each_block;
        match self.rng.below(20) {
            0..3 => self.map(),
            3..10 => {
                let Some(at) = self.any(|m| !m.broken && m.asked < m.handed) else { return };
                let Mapped { mark, asked, handed, .. } = self.blocks[&at];
                let count = 1 + self.rng.below(u64::from(handed - asked)) as u32;
                let of_page = self.page_sectors();
                let sectors = asked * of_page..(asked + count) * of_page;
                let data = sectors.flat_map(|sector| image(mark, sector)).collect();
                self.blocks.get_mut(&at).expect("mapped").asked += count;
                let address = FlashAddress { page: asked, ..at };
                self.ask(Asked::Write(mark, count), FunctionCall::Write { address, mark, data });
            }
            10..16 => {
                let Some(at) = self.any(|m| m.done > 0) else { return };
                let Mapped { mark, done, .. } = self.blocks[&at];
                let most = done * self.page_sectors();
                let first = self.rng.below(most.into()) as u32;
                let sectors = 1 + self.rng.below(u64::from(most - first)) as u32;
                let (page, sector) = (first / self.page_sectors(), first % self.page_sectors());
                let address = FlashAddress { page, ..at };
                let call = FunctionCall::Read { address, sector, sectors, data: Vec::new() };
                self.ask(Asked::Read(mark, first, sectors), call);
            }
            16..18 => {
                let Some(at) = self.any(|m| m.broken || m.asked == pages || m.mark % 7 == 0) else { return };
                if self.blocks[&at].asked == self.blocks[&at].done {
                    self.host.layer.flash_trim(at).expect("it is mapped");
                    self.blocks.remove(&at);
                }
            }
            _ => self.ask(Asked::Level, FunctionCall::LevelWear),
        }
    }

    fn map(&mut self) {
        let geometry = self.host.layer.geometry();
        let channel = self.rng.below(geometry.channel_count.into()) as u32;
        let mapping = if self.rng.chance(0.4) { Mapping::Page } else { Mapping::Block };
        let free = self.host.layer.free_blocks(channel);
        match self.host.layer.address_mapper(channel, mapping) {
            Ok(allocated) => {
                let address = allocated.address;
                assert_eq!(address.channel, channel);
                assert_eq!(allocated.free_blocks, self.host.layer.free_blocks(channel));
                let handed = if mapping == Mapping::Page { 1 } else { geometry.pages_each_block };
                if address.page > 0 {
                    let known = self.blocks.get_mut(&address.block()).expect("its first page was handed out");
                    assert_eq!(known.handed, address.page, "pages are handed out in order");
                    known.handed += 1;
                    return;
                }
                assert!(free > 0);
                self.marks += 1;
                let mapped = Mapped { mark: self.marks, done: 0, asked: 0, broken: false, handed };
                assert_eq!(self.blocks.insert(address, mapped), None, "{address} was handed out twice");
            }
            Err(error) => assert!(free == 0 && matches!(error, LevelError::NoBlock { .. }), "{error}"),
        }
    }

    fn step(&mut self) -> bool {
        let next = self.host.next_event();
        if let Some(next) = next {
            self.host.advance(next);
        }
        self.reap();
        next.is_some()
    }

    fn reap(&mut self) {
        while let Some(answer) = self.host.answer() {
            let asked = self.asked.remove(&answer.tag).expect("it was asked");
            self.ended(asked, answer);
        }
    }

    fn ended(&mut self, asked: Asked, answer: FunctionAnswer) {
        match (asked, answer.outcome) {
            (Asked::Write(mark, pages), outcome) => {
                let Some(mapped) = self.blocks.values_mut().find(|m| m.mark == mark) else {
                    panic!("a block with a write under way was given up")
                };
                match outcome {
                    FunctionOutcome::Done => mapped.done += pages,
                    FunctionOutcome::Failed(status) if self.faults => {
                        assert_ne!(status, Status::Success);
                        (mapped.broken, mapped.asked) = (true, mapped.asked - pages);
                        self.failures += 1;
                    }
                    // Submitted before another write of the block had failed.
                    FunctionOutcome::Refused(LevelError::Broken { .. }) => mapped.asked -= pages,
                    outcome => panic!("a write ended with {outcome:?}"),
                }
            }
            (Asked::Read(mark, first, sectors), FunctionOutcome::Done) => {
                let right: Vec<u8> =
                    (first..first + sectors).flat_map(|sector| image(mark, sector)).collect();
                assert!(answer.data == right, "sector {first} of mark {mark}");
            }
            (Asked::Level, FunctionOutcome::Levelled(levelled)) => {
                for [one, other] in levelled.swapped {
                    self.swaps += 1;
                    let (a, b) = (self.blocks.remove(&one), self.blocks.remove(&other));
                    self.blocks.extend(b.map(|mapped| (one, mapped)));
                    self.blocks.extend(a.map(|mapped| (other, mapped)));
                }
                assert!(levelled.variance <= f64::from(levelled.spread).powi(2));
            }
            (asked, outcome) => panic!("{asked:?} ended with {outcome:?}"),
        }
    }

    fn check(&self) {
        self.host.layer.check();
        let geometry = self.host.layer.geometry();
        let of_channel = geometry.luns_each_channel * geometry.blocks_each_lun;
        for channel in 0..geometry.channel_count {
            let mapped = self.blocks.keys().filter(|at| at.channel == channel).count() as u32;
            let reserve = (of_channel * self.host.layer.ops()).div_ceil(100);
            let free = self.host.layer.free_blocks(channel);
            let right = (of_channel - mapped).saturating_sub(reserve);
            if self.asked.values().any(|asked| matches!(asked, Asked::Level)) || self.faults {
                assert!(free <= right);
            } else {
                assert_eq!(free, right, "free blocks of channel {channel}");
            }
        }
    }

    /// Checks that every acknowledged page is readable.
    fn compare(&mut self) {
        while self.step() {}
        assert!(self.asked.is_empty(), "{:?}", self.asked);
        for (at, mapped) in self.blocks.clone().into_iter().filter(|(_, m)| m.done > 0) {
            let sectors = mapped.done * self.page_sectors();
            let call = FunctionCall::Read { address: at, sector: 0, sectors, data: Vec::new() };
            self.ask(Asked::Read(mapped.mark, 0, sectors), call);
            while self.step() {}
        }
    }

    /// Cuts the power; the application then finds its data by their marks.
    fn crash(&mut self) {
        self.host.drive.power_cut();
        let now = self.host.now();
        self.host.restart(now).expect("it starts again");
        while let Some(answer) = self.host.answer() {
            assert_eq!(answer.outcome, FunctionOutcome::Failed(Status::PowerLoss));
            assert!(self.asked.remove(&answer.tag).is_some());
        }
        assert!(self.asked.is_empty(), "{:?}", self.asked);
        let found: Vec<_> = self.host.layer.found().copied().collect();
        let mut before: BTreeMap<u32, Mapped> =
            std::mem::take(&mut self.blocks).into_values().map(|mapped| (mapped.mark, mapped)).collect();
        for found in found {
            let Some(mark) = found.mark else { continue };
            // A block given back just before may not be erased yet.
            let Some(mut mapped) = before.remove(&mark) else { continue };
            assert!(found.pages >= mapped.done, "{found:?}: {mapped:?}");
            // The end of a torn write is not extended.
            mapped.broken |= found.pages > mapped.done;
            (mapped.asked, mapped.handed) = (mapped.done, self.host.layer.geometry().pages_each_block);
            self.blocks.insert(found.address, mapped);
        }
        assert!(before.values().all(|mapped| mapped.done == 0), "lost: {before:?}");
        let ours: Vec<_> = self.blocks.keys().copied().collect();
        self.host.layer.recover(&ours).expect("they were found");
        self.host.layer.check();
    }
}

fn run(seed: u64, faults: Faults, steps: u32) -> World {
    let mut world = World::new(drive(seed, faults), seed);
    world.host.layer.set_ops(10 * (seed % 3) as u32).expect("nothing is mapped");
    for _ in 0..steps {
        while world.asked.len() < 6 && world.rng.chance(0.8) {
            world.act();
            world.reap();
            world.check();
        }
        world.step();
        world.check();
    }
    world.compare();
    world
}

#[test]
fn random_calls_match_a_plain_model() {
    let mut swaps = 0;
    for seed in 0..16 {
        let world = run(seed, Faults::default(), 1500);
        assert!(world.host.layer.counters().erases > 20, "seed {seed}: {:?}", world.host.layer.counters());
        assert_eq!(world.failures, 0);
        swaps += world.swaps;
    }
    assert!(swaps > 50, "{swaps} swaps");
}

#[test]
fn failing_flash_loses_nothing_that_was_acknowledged() {
    let (mut failures, mut retired) = (0, 0);
    for seed in 100..116 {
        let world = run(seed, Faults { write: 0.01, reset: 0.01, read: 0.0 }, 800);
        failures += world.failures;
        retired += world.host.layer.counters().retired;
    }
    assert!(failures > 20 && retired > 20, "{failures} writes failed, {retired} blocks went");
}

fn cut_everywhere(seed: u64, faults: Faults, warm: u32, events: u32) -> u32 {
    let mut world = World::new(drive(seed, faults), seed);
    let mut cuts_in_swaps = 0;
    for event in 0..warm + events {
        while world.asked.len() < 5 && world.rng.chance(0.7) {
            world.act();
            world.reap();
        }
        world.step();
        if event < warm {
            continue;
        }
        cuts_in_swaps += u32::from(world.asked.values().any(|asked| matches!(asked, Asked::Level)));
        let mut cut = world.clone();
        cut.crash();
        cut.compare();
        for _ in 0..20 {
            cut.act();
            cut.step();
        }
        cut.crash();
        cut.crash();
        cut.compare();
    }
    cuts_in_swaps
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn acknowledged_data_survive_a_power_cut_at_any_event() {
    let cuts: u32 = (0..8).map(|seed| cut_everywhere(seed, Faults::default(), 300, 150)).sum();
    assert!(cuts > 100, "{cuts} cuts while wear was levelled");
}

#[test]
fn also_with_failing_flash() {
    for seed in 20..26 {
        cut_everywhere(seed, Faults { write: 0.005, reset: 0.003, read: 0.0 }, 200, 100);
    }
}
