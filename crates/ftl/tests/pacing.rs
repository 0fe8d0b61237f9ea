//! `gc_pacing` against media that only record: a die turns host superpages away only for a while, in which GC moves no more than their
//! share; waiting callers are notified; nothing is lost.

use crate::common;
use pellucid_flash::{DieId, Lpn, Rng};
use pellucid_ftl::{
    FtlConfig, Load, Move, Operation, PageMap, Plan, ProgramId, Reclaim, Separation, Stream, Victim,
};
use std::collections::VecDeque;

const SUPERPAGE: u32 = 4;

fn config(gc_pacing: bool, separation: Separation, victim: Victim) -> FtlConfig {
    FtlConfig { gc_pacing, separation, victim, ..common::config() }
}

/// A die that does one operation after the other, in the order of their plans, and a host that always has a superpage to write. One
/// superpage of GC copies is under way at a time.
struct Die {
    map: PageMap,
    owner: Vec<Lpn>,
    queue: VecDeque<(Plan, Vec<Lpn>)>,
    /// Units of the victim that wait for their superpage.
    moved: Vec<Move>,
    relocating: Option<ProgramId>,
    rng: Rng,
    seen: Seen,
}

/// Progress as the host sees it, in superpages.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    written: u32,
    relocated: u32,
    /// Superpages of GC copies since the last one that the host wrote; `longest`: the most there have been.
    since: u32,
    longest: u32,
}

const DIE: DieId = DieId(0);

impl Die {
    fn new(config: &FtlConfig, blocks: u32) -> Die {
        let layout = common::layout(1, blocks, 64, SUPERPAGE);
        Die {
            owner: vec![Lpn::NONE; layout.units as usize],
            map: PageMap::new(config, &layout, &[]).expect("room enough"),
            queue: VecDeque::new(),
            moved: Vec::new(),
            relocating: None,
            rng: Rng::new(7),
            seen: Seen::default(),
        }
    }

    fn try_write(&mut self, lpns: &[Lpn]) -> bool {
        let Some(plan) = self.map.place(Stream::Host, None, lpns) else { return false };
        self.queue.push_back((plan, lpns.to_vec()));
        self.seen = Seen { written: self.seen.written + 1, since: 0, ..self.seen };
        true
    }

    fn collect(&mut self) {
        while self.relocating.is_none() && self.map.wants_gc(DIE, Load::Busy) {
            let next = common::next_move(&mut self.map, DIE);
            self.moved.extend(next);
            let ends = next.is_none() || self.map.gc_rests(DIE);
            if self.moved.len() == SUPERPAGE as usize || (ends && !self.moved.is_empty()) {
                let lpns: Vec<Lpn> = {
                    let owner = |r: Move| (self.owner[r.from.0 as usize], r.from);
                    let moved = self.moved.drain(..).map(owner);
                    moved
                        .map(|(lpn, from)| if self.map.is_current(from, Some(lpn)) { lpn } else { Lpn::NONE })
                        .collect()
                };
                let plan = self.map.place(Stream::Gc, Some(DIE), &lpns).expect("kept for it");
                self.relocating = Some(plan.id);
                self.queue.push_back((plan, lpns));
                let since = self.seen.since + 1;
                let longest = self.seen.longest.max(since);
                self.seen = Seen { relocated: self.seen.relocated + 1, since, longest, ..self.seen };
            } else if next.is_none() {
                return;
            }
        }
    }

    /// Ends the next operation. Returns whether the host is told that there may be space.
    fn step(&mut self) -> bool {
        let (plan, lpns) = self.queue.pop_front().expect("the host waits for something");
        for (at, &lpn) in (plan.first.0..).zip(&lpns) {
            self.owner[at as usize] = lpn;
        }
        self.relocating.take_if(|id| *id == plan.id);
        self.map.ended(Operation::Program(plan.id), true);
        let mut erased = false;
        while let Some(emptied) = self.map.next_erase() {
            let Reclaim::Erase(block, _) = emptied else { panic!("nothing has failed") };
            self.map.ended(Operation::Erase(block), true);
            erased = true;
        }
        self.map.take_released() || erased
    }

    /// Writes a superpage, when there is space.
    fn write(&mut self, first: u32) {
        let lpns: Vec<Lpn> = (first..first + SUPERPAGE).map(Lpn).collect();
        while !self.try_write(&lpns) {
            self.collect();
            while !self.step() {
                let room = self.map.clone().place(Stream::Host, None, &lpns);
                assert!(room.is_none(), "there is room, and nobody says so");
                self.collect();
            }
        }
        self.collect();
        if self.queue.len() > 4 {
            self.step();
        }
    }

    /// Fills the drive and overwrites it twice at random; then overwrites it twice more, and returns the result of that.
    fn work(mut self) -> Seen {
        let superpages = self.map.user_units() / SUPERPAGE;
        (0..superpages).for_each(|number| self.write(number * SUPERPAGE));
        for number in 0..4 * superpages {
            if number == 2 * superpages {
                self.map.check();
                self.seen = Seen::default();
            }
            let first = self.rng.below(superpages.into()) as u32 * SUPERPAGE;
            self.write(first);
        }
        self.map.check();
        self.seen
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn the_host_writes_while_a_block_is_collected() {
    for (separation, victim) in [
        (Separation::GcCopies, Victim::Greedy),
        (Separation::Off, Victim::Greedy),
        (Separation::GcCopies, Victim::Fifo),
        (Separation::GcCopies, Victim::CostBenefit),
    ] {
        let seen = |pacing, blocks| Die::new(&config(pacing, separation, victim), blocks).work();
        let (stops, paced) = (seen(false, 128), seen(true, 128));
        let message = format!("{separation:?}, {victim:?}: {stops:?}, paced {paced:?}");
        assert!(stops.longest >= 20 && paced.longest <= 6, "{message}");
        // A block or so more is free on average, of 43 to spare.
        assert!(paced.relocated <= stops.relocated * 106 / 100, "{message}");
    }
}

#[test]
fn the_host_gets_on_with_any_watermark_and_separation() {
    for gc_low_blocks in [1, 2, 3] {
        for separation in [Separation::Off, Separation::GcCopies, Separation::Frequency] {
            for victim in [Victim::Greedy, Victim::Fifo, Victim::Lru, Victim::Random, Victim::DChoices(3)] {
                let config = FtlConfig { gc_low_blocks, ..config(true, separation, victim) };
                assert!(Die::new(&config, 32).work().relocated > 0);
            }
        }
    }
}
