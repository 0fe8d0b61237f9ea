//! The victim policy decides, whatever the host does: dies against media that only record, and a host that takes every superpage it can
//! get. A full victim, several victims under way, failing programs and a power cut must not make a die choose another one.

use crate::common;
use pellucid_flash::{BlockId, DieId, Layout, Lpn, Ppa, Rng};
use pellucid_ftl::{
    Damage, DieCandidate, FtlConfig, Load, Operation, PageMap, Placement, PlacementPolicy, Plan, Policies,
    Reclaim, Separation, Stream, Victim, VictimCandidate, VictimPolicy, WearLevelling,
};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

#[derive(Clone, Debug)]
struct Op {
    plan: Plan,
    lpns: Vec<Lpn>,
    /// The die from which the unit was moved.
    moved_from: Option<DieId>,
}

/// Dies that do one operation after the other, each at its own pace.
#[derive(Clone)]
struct World {
    map: PageMap,
    owner: Vec<Lpn>,
    queues: Vec<VecDeque<Op>>,
    /// Units of victims that wait for their superpage, and the stream that takes them, per die.
    moved: Vec<Vec<(Lpn, Ppa)>>,
    moved_to: Vec<Stream>,
    /// Superpages of GC copies under way, per die.
    relocating: Vec<u32>,
    /// Blocks that are being erased, in turn.
    erasing: VecDeque<BlockId>,
    fail: f64,
    superpage: usize,
    rng: Rng,
    /// Victims in the order in which they were chosen, with the time of their closing.
    victims: Vec<(BlockId, u64)>,
    /// Programs that have ended since the block's erase, per block, and the number that had been planned when the last one did.
    ended: Vec<u32>,
    closed_at: Vec<u64>,
    planned: u64,
    layout: Layout,
}

impl World {
    fn new(config: &FtlConfig, dies: u32, blocks: u32, pages: u32, superpage: u32) -> World {
        let layout = common::layout(dies, blocks, pages, superpage);
        World {
            owner: vec![Lpn::NONE; layout.units as usize],
            map: PageMap::new(config, &layout, &[]).unwrap_or_else(|e| panic!("{e}")),
            queues: vec![VecDeque::new(); dies as usize],
            moved: vec![Vec::new(); dies as usize],
            moved_to: vec![Stream::Gc; dies as usize],
            relocating: vec![0; dies as usize],
            erasing: VecDeque::new(),
            fail: 0.0,
            superpage: superpage as usize,
            rng: Rng::new(11),
            victims: Vec::new(),
            closed_at: vec![0; layout.blocks as usize],
            planned: 0,
            ended: vec![0; layout.blocks as usize],
            layout,
        }
    }

    fn submit(&mut self, plan: Plan, lpns: Vec<Lpn>, moved_from: Option<DieId>) {
        self.planned += 1;
        self.queues[plan.die.0 as usize].push_back(Op { plan, lpns, moved_from });
    }

    fn collect(&mut self, die: DieId) {
        let at = die.0 as usize;
        self.map.reap(die);
        while self.relocating[at] == 0 && self.map.wants_gc(die, Load::Busy) {
            if self.moved[at].len() == self.superpage && !self.program_moved(die) {
                break;
            }
            if self.relocating[at] > 0 {
                break;
            }
            let next = common::next_move(&mut self.map, die);
            if let Some(next) = next {
                let block = self.layout.block_of(next.from);
                if self.victims.last().is_none_or(|last| last.0 != block) {
                    self.victims.push((block, self.closed_at[block.0 as usize]));
                }
                self.moved[at].push((self.owner[next.from.0 as usize], next.from));
                self.moved_to[at] = next.to;
            }
            let ends = next.is_none() || self.map.gc_rests(die);
            let full = self.moved[at].len() == self.superpage;
            if !full && (!ends || self.moved[at].is_empty()) {
                if next.is_none() {
                    break;
                }
                continue;
            }
            if !self.program_moved(die) {
                break;
            }
        }
        if self.relocating[at] == 0 && !self.moved[at].is_empty() {
            self.program_moved(die);
        }
    }

    fn program_moved(&mut self, die: DieId) -> bool {
        let moved = &mut self.moved[die.0 as usize];
        moved.retain(|&(lpn, from)| self.map.is_current(from, Some(lpn)));
        let lpns: Vec<Lpn> = moved.iter().map(|m| m.0).collect();
        if lpns.is_empty() {
            return true;
        }
        let to = self.moved_to[die.0 as usize];
        let Some(plan) = self.map.place(to, Some(die), &lpns) else { return false };
        moved.clear();
        self.relocating[die.0 as usize] += 1;
        self.submit(plan, lpns, Some(die));
        true
    }

    /// Ends one operation: the next one of a random die, or an erase.
    fn step(&mut self) {
        let busy: Vec<usize> = (0..self.queues.len()).filter(|&die| !self.queues[die].is_empty()).collect();
        if busy.is_empty() || (!self.erasing.is_empty() && self.rng.chance(0.2)) {
            let block = self.erasing.pop_front().expect("the host waits for nothing");
            self.ended[block.0 as usize] = 0;
            self.map.ended(Operation::Erase(block), true);
        } else {
            let die = busy[self.rng.below(busy.len() as u64) as usize];
            self.end_program(die);
        }
        (0..self.queues.len() as u32).for_each(|die| self.collect(DieId(die)));
        while let Some(emptied) = self.map.next_erase() {
            if let Reclaim::Erase(block, _) = emptied {
                self.erasing.push_back(block);
            }
        }
    }

    fn end_program(&mut self, die: usize) {
        let Op { plan, lpns, moved_from } = self.queues[die].pop_front().expect("it is busy");
        let ok = !self.rng.chance(self.fail);
        for (at, &lpn) in (plan.first.0..).zip(&lpns) {
            self.owner[at as usize] = lpn;
        }
        self.map.ended(Operation::Program(plan.id), ok);
        if let Some(die) = moved_from {
            self.relocating[die.0 as usize] -= 1;
        }
        let block = self.layout.block_of(plan.first);
        self.ended[block.0 as usize] += 1;
        if self.ended[block.0 as usize] == self.layout.superpages_per_block {
            self.closed_at[block.0 as usize] = self.planned;
        }
        if !ok {
            // The data are still here: host data are written again, GC copies are found again.
            let again: Vec<Lpn> = lpns.into_iter().filter(|_| moved_from.is_none()).collect();
            if !again.is_empty() {
                self.write_units(&again);
            }
        }
    }

    fn write_units(&mut self, lpns: &[Lpn]) {
        let mut tries = 0;
        loop {
            if let Some(plan) = self.map.place(Stream::Host, None, lpns) {
                return self.submit(plan, lpns.to_vec(), None);
            }
            (0..self.queues.len() as u32).for_each(|die| self.collect(DieId(die)));
            self.step();
            tries += 1;
            assert!(tries < 1_000_000, "no room comes: {:?}", self.map.view().counters);
        }
    }

    /// Fills the drive and overwrites it at random `rounds` times.
    fn work(&mut self, rounds: u32) {
        self.fill();
        self.overwrite(0..self.map.user_units(), rounds);
    }

    fn fill(&mut self) {
        let units = self.map.user_units();
        for first in (0..units).step_by(self.superpage) {
            let lpns: Vec<Lpn> = (first..units.min(first + self.superpage as u32)).map(Lpn).collect();
            self.write_units(&lpns);
        }
    }

    /// Overwrites these pages at random, `rounds` times.
    fn overwrite(&mut self, pages: Range<u32>, rounds: u32) {
        let units = pages.len() as u32;
        for round in 0..rounds * units / self.superpage as u32 {
            let mut lpns: Vec<Lpn> = Vec::new();
            while lpns.len() < self.superpage {
                let lpn = Lpn(pages.start + self.rng.below(units.into()) as u32);
                if !lpns.contains(&lpn) {
                    lpns.push(lpn);
                }
            }
            self.write_units(&lpns);
            if round % 97 == 0 {
                self.map.check();
            }
        }
        self.map.check();
    }
}

fn config(victim: Victim, separation: Separation, gc_low_blocks: u32, over_provisioning: f64) -> FtlConfig {
    FtlConfig { victim, separation, gc_low_blocks, over_provisioning, ..common::config() }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn no_die_acts_against_its_policy() {
    for &victim in Victim::ALL {
        for separation in [Separation::Off, Separation::GcCopies, Separation::Frequency] {
            for gc_low in [1, 2, 4] {
                for (dies, superpage) in [(1, 1), (3, 1), (2, 4)] {
                    let config = config(victim, separation, gc_low, 0.4);
                    let mut world = World::new(&config, dies, 32, 16, superpage);
                    world.work(6);
                    let counters = world.map.view().counters;
                    assert!(counters.victims.iter().sum::<u64>() > 50, "{counters:?}");
                    assert_eq!(
                        counters.emergency_victims, 0,
                        "{victim}, {separation:?}, gc_low {gc_low}, {dies} dies, superpages of {superpage}"
                    );
                }
            }
        }
    }
}

/// A policy by age alone takes full blocks too, as a log does in theory; greedy takes none.
#[test]
fn only_greedy_leaves_full_blocks_alone() {
    let still = |victim| {
        let mut world = World::new(&config(victim, Separation::GcCopies, 1, 0.3), 1, 32, 16, 1);
        world.fill();
        let place = |world: &World| common::place_of(&world.map, Lpn(0));
        let before = place(&world);
        let units = world.map.user_units();
        world.overwrite(units / 2..units, 4);
        place(&world) == before
    };
    assert!(still(Victim::Greedy));
    assert!(!still(Victim::Fifo) && !still(Victim::Lru));
}

/// GC that starts sooner writes as much: its threshold is no reserve.
#[test]
fn gc_low_keeps_nothing_from_the_host() {
    let programs = |gc_low| {
        let mut world = World::new(&config(Victim::Greedy, Separation::Off, gc_low, 0.25), 1, 64, 16, 1);
        world.work(4);
        world.planned as f64
    };
    let (one, eight) = (programs(1), programs(8));
    assert!((eight / one - 1.0).abs() < 0.05, "{one} programs with 1, {eight} with 8");
}

#[test]
fn fifo_takes_blocks_in_the_order_in_which_they_were_closed() {
    for separation in [Separation::Off, Separation::GcCopies] {
        let mut world = World::new(&config(Victim::Fifo, separation, 1, 0.3), 1, 32, 16, 1);
        world.work(8);
        assert!(world.victims.len() > 200);
        assert!(world.victims.is_sorted_by_key(|victim| victim.1), "out of turn, {separation:?}");
    }
}

/// Every closed block is as good a victim as any other, so a victim is as full as the drive: (1 + OP) / OP.
#[test]
fn random_victims_are_as_full_as_the_drive() {
    let mut world = World::new(&config(Victim::Random, Separation::Off, 1, 0.28), 1, 256, 16, 1);
    world.work(4);
    let before = world.map.view().counters;
    world.work(3);
    let counters = world.map.view().counters;
    let chosen = |c: pellucid_ftl::FtlCounters| c.victims.iter().sum::<u64>();
    let victims = (chosen(counters) - chosen(before)) as f64;
    let share = (counters.victim_valid_units - before.victim_valid_units) as f64 / (16.0 * victims);
    let mean = 1.0 / 1.28;
    assert!((share - mean).abs() < 0.02, "{share} of a victim is valid, of the drive {mean}");
}

/// Programs fail, blocks are lost, and each die gets its reserve back.
#[test]
fn failing_programs_cost_the_policy_little() {
    for &victim in Victim::ALL {
        for separation in [Separation::Off, Separation::GcCopies] {
            let mut world = World::new(&config(victim, separation, 1, 1.0), 2, 64, 16, 1);
            world.fail = 0.002;
            world.work(4);
            let counters = world.map.view().counters;
            let chosen = counters.victims.iter().sum::<u64>();
            assert!(counters.grown_bad > 5, "{counters:?}");
            assert!(counters.emergency_victims * 50 <= chosen, "{victim}, {separation:?}: {counters:?}");
        }
    }
}

/// Wear levelling takes blocks of its own, and leaves the reserve alone.
#[test]
fn wear_levelling_leaves_the_reserve() {
    for gc_low in [1, 2] {
        let wear = WearLevelling { dynamic: true, static_gap: Some(2) };
        let config = FtlConfig { wear, ..config(Victim::Random, Separation::GcCopies, gc_low, 0.4) };
        let mut world = World::new(&config, 2, 32, 16, 1);
        world.work(8);
        let counters = world.map.view().counters;
        assert!(counters.victims[pellucid_flash::Cause::WearLevel as usize] > 0, "{counters:?}");
        assert_eq!(counters.emergency_victims, 0, "{counters:?}");
    }
}

/// Blocks with static data wear too, however fast the host writes the rest: upkeep has a share of the victims.
#[test]
fn wear_levelling_keeps_its_gap_under_load() {
    let spread = |static_gap, gc_low, separation| {
        let wear = WearLevelling { dynamic: true, static_gap };
        let config = FtlConfig { wear, ..config(Victim::Greedy, separation, gc_low, 0.25) };
        let mut world = World::new(&config, 2, 32, 16, 1);
        world.fill();
        world.overwrite(0..world.map.user_units() / 5, 100);
        assert_eq!(world.map.view().counters.emergency_victims, 0);
        let erases =
            |die: u32| (32 * die..32 * (die + 1)).map(|block| world.map.blocks().erases(BlockId(block)));
        (0..2).map(|die| erases(die).max().unwrap() - erases(die).min().unwrap()).max().unwrap()
    };
    for separation in [Separation::Off, Separation::GcCopies] {
        for gc_low in [1, 2, 4] {
            let (without, with) = (spread(None, gc_low, separation), spread(Some(8), gc_low, separation));
            assert!(without > 40, "{separation:?}, gc_low {gc_low}: {without} without levelling");
            // A block that is due is copied while others are erased.
            assert!(
                with <= 10,
                "{separation:?}, gc_low {gc_low}: {with} with a gap of 8, {without} without levelling"
            );
        }
    }
}

/// A block that needs a refresh gets it, however fast the host writes.
#[test]
fn a_refresh_goes_on_under_load() {
    for gc_low in [1, 2, 4] {
        let mut world = World::new(&config(Victim::Greedy, Separation::GcCopies, gc_low, 0.25), 1, 32, 16, 1);
        world.fill();
        world.overwrite(0..world.map.user_units() / 5, 10);
        let cold = Lpn(world.map.user_units() - 1);
        let place = common::place_of(&world.map, cold);
        let block = world.layout.block_of(place);
        assert!(world.map.damage(Damage::Weak(block)));
        world.overwrite(0..world.map.user_units() / 5, 1);
        assert_ne!(world.layout.block_of(common::place_of(&world.map, cold)), block, "gc_low {gc_low}");
    }
}

/// A die that copies out of a victim uses its reserve meanwhile; dies with free blocks take data, and none is left out.
#[test]
fn no_die_waits_for_the_reserves_of_all_others() {
    let mut world = World::new(&config(Victim::Greedy, Separation::Off, 1, 0.28), 8, 64, 16, 1);
    world.work(4);
    let erases = |die: u32| {
        (64 * die..64 * (die + 1)).map(|block| world.map.blocks().erases(BlockId(block))).sum::<u32>()
    };
    let dies: Vec<u32> = (0..8).map(erases).collect();
    let (least, most) = (dies.iter().min().unwrap(), dies.iter().max().unwrap());
    assert!(2 * least > *most, "erases of each die: {dies:?}");
}

/// A policy from outside: closed first, and after this many choices none.
#[derive(Clone, Debug)]
struct OutsideFifo {
    left: u32,
}

impl VictimPolicy for OutsideFifo {
    fn name(&self) -> &str {
        "outside-fifo"
    }

    fn choose(&mut self, candidates: &[VictimCandidate], now: u64) -> Option<usize> {
        assert!(candidates.is_sorted_by_key(|one| one.block));
        for one in candidates {
            assert!(one.valid <= one.units && one.cached == one.valid && !one.holds_map);
            assert!(one.closed_at <= one.touched_at && one.touched_at <= now);
        }
        self.left = self.left.checked_sub(1)?;
        (0..candidates.len()).min_by_key(|&at| candidates[at].closed_at)
    }

    fn fork(&self) -> Box<dyn VictimPolicy> {
        Box::new(self.clone())
    }
}

/// A placement from outside: the order of `way-first`, and after this many choices none.
#[derive(Clone, Debug)]
struct OutsideWayFirst {
    next: u32,
    left: u32,
}

impl PlacementPolicy for OutsideWayFirst {
    fn name(&self) -> &str {
        "outside-way-first"
    }

    fn choose(&mut self, candidates: &[DieCandidate], _page: Lpn, _now: u64) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let at = candidates.iter().position(|one| one.die.0 >= self.next).unwrap_or(0);
        self.next = candidates[at].die.0 + 1;
        Some(at)
    }

    fn fork(&self) -> Box<dyn PlacementPolicy> {
        Box::new(self.clone())
    }
}

fn outside(victim: OutsideFifo, base: FtlConfig) -> FtlConfig {
    FtlConfig { policies: Policies { victim: Some(Arc::new(victim)), ..Policies::default() }, ..base }
}

#[test]
fn a_policy_from_outside_chooses_in_place_of_the_built_in_one() {
    let base = config(Victim::Fifo, Separation::GcCopies, 1, 0.3);
    let victims = |config: &FtlConfig| {
        let mut world = World::new(config, 2, 32, 16, 1);
        world.work(4);
        (world.victims, world.planned)
    };
    let built_in = victims(&base);
    // Below it stands another built-in policy, which is not asked.
    let greedy = FtlConfig { victim: Victim::Greedy, ..base.clone() };
    assert!(victims(&outside(OutsideFifo { left: u32::MAX }, greedy.clone())) == built_in);
    assert!(victims(&greedy) != built_in);
    // Without a choice, the built-in policy chooses.
    assert!(victims(&outside(OutsideFifo { left: 0 }, base)) == built_in);
}

#[test]
fn a_policy_from_outside_is_forked_with_its_translation() {
    let base = config(Victim::Greedy, Separation::GcCopies, 1, 0.3);
    let mut world = World::new(&outside(OutsideFifo { left: 150 }, base), 1, 32, 16, 1);
    world.work(1);
    let before = world.victims.len();
    assert!((10..150).contains(&before), "{before} choices: some are left, and not all");
    let mut twin = world.clone();
    world.overwrite(0..world.map.user_units(), 6);
    assert!(world.victims.len() > 300, "the first has used up its choices");
    // So has the second, at the same choice: those of the first were not its own.
    twin.overwrite(0..twin.map.user_units(), 6);
    assert!(twin.victims == world.victims);
}

#[test]
fn a_placement_from_outside_chooses_the_dies_of_new_data() {
    let planned = |placement, outside: Option<OutsideWayFirst>| {
        let mut config = FtlConfig { placement, ..config(Victim::Greedy, Separation::GcCopies, 1, 0.4) };
        config.policies.placement = outside.map(|one| -> Arc<dyn PlacementPolicy> { Arc::new(one) });
        let mut world = World::new(&config, 3, 32, 16, 1);
        world.work(3);
        world.owner
    };
    let way_first = planned(Placement::WayFirst, None);
    let outside = OutsideWayFirst { next: 0, left: u32::MAX };
    assert_eq!(planned(Placement::Random, Some(outside.clone())), way_first);
    assert_ne!(planned(Placement::Random, None), way_first);
    let silent = OutsideWayFirst { left: 0, ..outside };
    assert_eq!(planned(Placement::WayFirst, Some(silent)), way_first, "without a choice, the built-in order");
}
