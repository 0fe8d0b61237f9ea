//! Placement handles against a plain model: data of different handles never share a block that the host wrote, with persistent
//! isolation never any block, before and after mounts; and nothing is lost.

use crate::common;
use pellucid_flash::{BlockId, DieId, Layout, Lpn, PlacementEventKind, Ppa, Rng};
use pellucid_ftl::{
    Durability, FtlConfig, Isolation, Load, MountSource, Operation, PageMap, Reclaim, Separation, Start,
    Stream, WearLevelling,
};
use std::collections::BTreeSet;

const HANDLES: u16 = 4;

fn config(isolation: Isolation, separation: Separation) -> FtlConfig {
    FtlConfig {
        over_provisioning: 1.0,
        gc_low_blocks: 1,
        separation,
        wear: WearLevelling { dynamic: true, static_gap: Some(4) },
        durability: Durability::Journal { checkpoint_every: 1 << 40 },
        handles: HANDLES,
        isolation,
        ..common::config()
    }
}

/// A unit on the media.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Unit {
    lpn: Lpn,
    stored: u64,
    version: u64,
    /// The handle that the data were written with.
    handle: u16,
    by_host: bool,
}

/// Translation, media that only record, and the data that the host wrote.
struct World {
    map: PageMap,
    config: FtlConfig,
    layout: Layout,
    units: Vec<Option<Unit>>,
    superpages: Vec<u32>,
    erases: Vec<u32>,
    bad: BTreeSet<u32>,
    /// Version and handle of each page's newest write.
    written: Vec<(u64, u16)>,
    rng: Rng,
    program_fail: f64,
}

impl MountSource for World {
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)> {
        self.units[ppa.0 as usize].map(|unit| (unit.lpn, unit.stored))
    }

    fn used_superpages(&self, block: BlockId) -> u32 {
        self.superpages[block.0 as usize]
    }

    fn erases(&self, block: BlockId) -> u32 {
        self.erases[block.0 as usize]
    }

    fn is_bad(&self, block: BlockId) -> bool {
        self.bad.contains(&block.0)
    }

    fn map_page(&self, _: Ppa) -> Option<Vec<u8>> {
        None
    }
}

impl World {
    fn new(isolation: Isolation, separation: Separation, units_per_superpage: u32, seed: u64) -> World {
        let (layout, config) = (common::layout(2, 40, 8, units_per_superpage), config(isolation, separation));
        let map = PageMap::new(&config, &layout, &[]).expect("room enough");
        World {
            units: vec![None; layout.units as usize],
            superpages: vec![0; layout.blocks as usize],
            erases: vec![0; layout.blocks as usize],
            bad: BTreeSet::new(),
            written: vec![(0, 0); map.user_units() as usize],
            rng: Rng::new(seed),
            program_fail: 0.0,
            map,
            config,
            layout,
        }
    }

    /// Programs these pages; each comes with version, handle and a flag for host writes. `false`: it failed, or there is no space.
    fn program(&mut self, stream: Stream, die: Option<DieId>, pages: &[(Lpn, u64, u16)]) -> bool {
        let lpns: Vec<Lpn> = pages.iter().map(|page| page.0).collect();
        let Some(plan) = self.map.place(stream, die, &lpns) else { return false };
        let ok = !self.rng.chance(self.program_fail);
        let block = self.layout.block_of(plan.first);
        assert_eq!(
            self.layout.index_in_block(plan.first),
            self.superpages[block.0 as usize] * pages_of(&self.layout)
        );
        self.superpages[block.0 as usize] += 1;
        for (i, &(lpn, version, handle)) in pages.iter().enumerate().filter(|_| ok) {
            let by_host = die.is_none();
            self.units[plan.first.0 as usize + i] =
                Some(Unit { lpn, stored: plan.sequence, version, handle, by_host });
        }
        self.map.ended(Operation::Program(plan.id), ok);
        self.erase();
        ok
    }

    fn write(&mut self, lpns: &[Lpn], handle: u16) {
        let pages: Vec<(Lpn, u64, u16)> =
            lpns.iter().map(|&lpn| (lpn, self.written[lpn.0 as usize].0 + 1, handle)).collect();
        let stream = self.map.stream(lpns[0], handle);
        for attempt in 0.. {
            assert!(attempt < 100, "no room for a write with handle {handle}");
            if self.program(stream, None, &pages) {
                break;
            }
            self.collect();
        }
        for &(lpn, version, handle) in &pages {
            self.written[lpn.0 as usize] = (version, handle);
        }
        self.collect();
    }

    fn erase(&mut self) {
        while let Some(emptied) = self.map.next_erase() {
            match emptied {
                Reclaim::Erase(block, _) => {
                    let first = self.layout.ppa(block, 0).0 as usize;
                    self.units[first..first + self.layout.units_per_block as usize].fill(None);
                    self.superpages[block.0 as usize] = 0;
                    self.erases[block.0 as usize] += 1;
                    self.map.ended(Operation::Erase(block), true);
                }
                Reclaim::Retire(block) => drop(self.bad.insert(block.0)),
                Reclaim::Evict(_) => panic!("it is no cache"),
                Reclaim::AwaitsTrims => panic!("nothing is trimmed"),
            }
        }
    }

    /// Collects every die until it wants no more, a superpage of GC copies at a time.
    fn collect(&mut self) {
        for die in (0..self.layout.dies).map(DieId) {
            self.map.reap(die);
            self.erase();
            let mut pages = Vec::new();
            for _ in 0..20 * self.layout.units_per_block {
                if !self.map.wants_gc(die, Load::Busy) {
                    break;
                }
                let moved = common::next_move(&mut self.map, die);
                self.erase();
                let Some(moved) = moved else { continue };
                let unit = self.units[moved.from.0 as usize].expect("valid units are on the media");
                if self.map.is_current(moved.from, Some(unit.lpn)) {
                    pages.push((unit.lpn, unit.version, unit.handle));
                }
                let full = pages.len() as u32 == self.layout.units_per_superpage;
                if full || (!pages.is_empty() && self.map.gc_rests(die)) {
                    let done = (0..50).any(|_| self.program(moved.to, Some(die), &pages));
                    assert!(done, "no room for relocated data of {:?}", moved.to);
                    pages.clear();
                }
            }
        }
    }

    /// Checks that all data are at their places, in their newest version.
    fn check(&self) {
        self.map.check();
        for (lpn, &(version, handle)) in self.written.iter().enumerate().filter(|(_, w)| w.0 > 0) {
            let unit = self.units[common::place_of(&self.map, Lpn(lpn as u32)).0 as usize].expect("mapped");
            assert_eq!((unit.lpn.0 as usize, unit.version, unit.handle), (lpn, version, handle));
        }
    }

    /// Checks that no block holds data that its isolation keeps apart.
    fn check_apart(&self) {
        for block in 0..self.layout.blocks {
            let first = self.layout.ppa(BlockId(block), 0).0 as usize;
            let units = self.units[first..first + self.layout.units_per_block as usize].iter().flatten();
            let persistent = self.config.isolation == Isolation::Persistent;
            let handles: BTreeSet<u16> =
                units.clone().filter(|unit| persistent || unit.by_host).map(|unit| unit.handle).collect();
            assert!(handles.len() <= 1, "block {block} holds data of handles {handles:?}");
            let placed = handles.first().is_some_and(|&handle| handle > 0);
            assert!(
                !placed || persistent || units.clone().all(|unit| unit.by_host),
                "block {block} is mixed"
            );
        }
    }

    fn remount(&mut self) {
        let (map, report) =
            PageMap::start(&self.config, &self.layout, Start::Mount(self)).expect("it fitted before");
        let mapped = self.written.iter().filter(|w| w.0 > 0).count() as u64;
        assert_eq!(report.expect("a mount reports").mapped_units, mapped);
        self.map = map;
    }

    /// Each handle has a quarter of the pages: two are overwritten at random, two in turn.
    fn random_writes(&mut self, writes: u32) {
        let quarter = self.map.user_units() / u32::from(HANDLES);
        for step in 0..writes {
            let handle = self.rng.below(HANDLES.into()) as u16;
            let superpage = pages_of(&self.layout);
            let at = if handle.is_multiple_of(2) {
                self.rng.below(quarter.into()) as u32
            } else {
                step * superpage
            };
            let count = 1 + self.rng.below(superpage.into()) as u32;
            let lpns: Vec<Lpn> =
                (0..count).map(|i| Lpn(u32::from(handle) * quarter + (at + i) % quarter)).collect();
            self.write(&lpns, handle);
        }
    }
}

fn pages_of(layout: &Layout) -> u32 {
    layout.units_per_superpage
}

#[test]
fn handles_stay_apart_and_nothing_is_lost() {
    for isolation in [Isolation::Initial, Isolation::Persistent] {
        for separation in [Separation::Off, Separation::GcCopies, Separation::Frequency] {
            for superpage in [1, 3] {
                let mut world = World::new(isolation, separation, superpage, 7);
                for _ in 0..12 {
                    world.random_writes(400);
                    world.check();
                    world.check_apart();
                    world.remount();
                    world.check();
                }
                let counters = world.map.view().counters;
                assert!(
                    world.erases.iter().sum::<u32>() > 100,
                    "{isolation:?} {separation:?} {superpage}: {counters:?}"
                );
            }
        }
    }
}

#[test]
fn handles_survive_programs_that_fail() {
    for isolation in [Isolation::Initial, Isolation::Persistent] {
        for seed in 0..8 {
            let mut world = World::new(isolation, Separation::GcCopies, 2, seed);
            world.program_fail = 0.001;
            for _ in 0..6 {
                world.random_writes(300);
                world.check();
                world.remount();
                world.check();
            }
        }
    }
}

#[test]
fn a_unit_is_counted_down_and_left_early() {
    let mut world = World::new(Isolation::Initial, Separation::GcCopies, 1, 1);
    let unit = world.map.handles().unit();
    assert_eq!(unit, u64::from(world.layout.dies * world.layout.units_per_block));
    for lpn in 0..5 {
        world.write(&[Lpn(lpn)], 2);
    }
    assert_eq!(world.map.handles().remaining(2), unit - 5);
    assert_eq!(world.map.handles().remaining(1), unit);
    let blocks = |world: &World| -> BTreeSet<BlockId> {
        (0..5).map(|lpn| world.layout.block_of(common::place_of(&world.map, Lpn(lpn)))).collect()
    };
    let before = blocks(&world);
    world.map.next_unit(2);
    assert_eq!(world.map.handles().remaining(2), unit);
    let event = world.map.handles_mut().take_events().next_back().expect("left before its end");
    assert_eq!((event.kind, event.handle, event.units), (PlacementEventKind::UnitNotFull, 2, unit - 5));
    // Left untouched, a unit is not worth an event.
    world.map.next_unit(2);
    assert!(!world.map.handles().has_events());
    for lpn in 0..5 {
        world.write(&[Lpn(lpn)], 2);
    }
    assert!(blocks(&world).is_disjoint(&before), "the new unit begins in other blocks");
    for lpn in 5..unit as u32 + 2 {
        world.write(&[Lpn(lpn % 20)], 2);
    }
    assert_eq!(world.map.handles().remaining(2), unit - 2);
    let kinds: Vec<PlacementEventKind> =
        world.map.handles_mut().take_events().map(|event| event.kind).collect();
    assert_eq!(kinds, [PlacementEventKind::NextUnit]);
    world.check();
}

/// Purpose of the handles: data that are trimmed together leave whole blocks behind.
#[test]
fn a_log_beside_random_writes_is_never_moved_when_apart() {
    let moved = |apart: bool| {
        let mut world = World::new(Isolation::Initial, Separation::GcCopies, 1, 3);
        // Wear levelling would move the log.
        world.config.wear.static_gap = None;
        world.remount();
        let units = world.map.user_units();
        let (hot, log) = (units / 10, units - units / 10);
        let mut at = 0;
        for _ in 0..40 * units {
            if world.rng.chance(0.5) {
                let lpn = Lpn(world.rng.below(hot.into()) as u32);
                world.write(&[lpn], 0);
            } else {
                world.write(&[Lpn(hot + at)], u16::from(apart));
                at = (at + 1) % log;
            }
        }
        world.check();
        world.map.view().counters.victim_valid_units
    };
    let (mixed, apart) = (moved(false), moved(true));
    assert!(mixed > 300 && apart * 20 < mixed, "units in victims: mixed {mixed}, apart {apart}");
}
