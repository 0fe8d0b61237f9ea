//! A page-mapped log without time, a reference for the drive's victim policies: the rules of `tools/victim_policies.py`.
//!
//! One die. Pages go to an open block of the host or, if `separated`, of garbage collection (GC) for its copies. The last free block is reserved for
//! GC: the host writes until it would need that block. Then a victim is chosen, its valid pages are copied, and its block is freed before the next
//! victim is chosen. A full block is a valid victim if the policy says so. Nothing here is shared with the translation under test.

use pellucid_flash::Rng;
use pellucid_ftl::Victim;

const NONE: u32 = u32::MAX;

/// The log.
pub(super) struct PlainLog {
    victim: Victim,
    separated: bool,
    pages: u32,
    /// Location of each logical page.
    place: Vec<u32>,
    owner: Vec<u32>,
    blocks: Vec<Block>,
    free: Vec<u32>,
    closed: Vec<u32>,
    /// Open blocks of the host and of GC: block and next page.
    open: [Option<(u32, u32)>; 2],
    pub programs: u64,
    rng: Rng,
}

#[derive(Clone, Copy, Default)]
struct Block {
    valid: u32,
    closed_at: u64,
    touched_at: u64,
}

impl PlainLog {
    /// An empty log of `blocks` of `pages` for `user` logical pages.
    pub fn new(victim: Victim, blocks: u32, pages: u32, user: u32, separated: bool, rng: Rng) -> PlainLog {
        PlainLog {
            victim,
            separated,
            pages,
            place: vec![NONE; user as usize],
            owner: vec![NONE; (blocks * pages) as usize],
            blocks: vec![Block::default(); blocks as usize],
            free: (0..blocks).rev().collect(),
            closed: Vec::new(),
            open: [None; 2],
            programs: 0,
            rng,
        }
    }

    /// The host writes a page.
    pub fn write(&mut self, page: u32) {
        while !self.has_room() {
            self.collect();
        }
        self.program(page, 0);
    }

    fn has_room(&self) -> bool {
        match self.open[0] {
            Some(_) => self.separated || !self.free.is_empty(),
            None => self.free.len() > 1,
        }
    }

    fn collect(&mut self) {
        let at = self.choose();
        let block = self.closed.swap_remove(at);
        for place in block * self.pages..(block + 1) * self.pages {
            let page = self.owner[place as usize];
            if page != NONE && self.place[page as usize] == place {
                self.program(page, usize::from(self.separated));
            }
        }
        self.free.insert(0, block);
    }

    /// Chooses a victim; returns its index among the closed blocks.
    fn choose(&mut self) -> usize {
        let count = self.closed.len() as u64;
        let block = |at: usize| self.blocks[self.closed[at] as usize];
        match self.victim {
            Victim::Greedy => least(count, |at| block(at).valid),
            Victim::Fifo => least(count, |at| block(at).closed_at),
            Victim::Lru => least(count, |at| block(at).touched_at),
            Victim::CostBenefit => {
                let benefit = |at: usize| {
                    let Block { valid, closed_at, .. } = block(at);
                    let age = (self.programs - closed_at + 1) as f64;
                    age * f64::from(self.pages - valid) / (2.0 * f64::from(valid) + 1e-9)
                };
                (0..count as usize).max_by(|&a, &b| benefit(a).total_cmp(&benefit(b))).expect("closed blocks")
            }
            Victim::Random => self.rng.below(count) as usize,
            Victim::DChoices(d) => {
                let picks: Vec<usize> = (0..d).map(|_| self.rng.below(count) as usize).collect();
                let valid = |at: usize| self.blocks[self.closed[at] as usize].valid;
                picks.into_iter().min_by_key(|&at| valid(at)).expect("d is at least 1")
            }
        }
    }

    fn program(&mut self, page: u32, stream: usize) {
        let (block, at) =
            self.open[stream].unwrap_or_else(|| (self.free.pop().expect("the host leaves a block"), 0));
        let old = self.place[page as usize];
        if old != NONE {
            let block = &mut self.blocks[(old / self.pages) as usize];
            block.valid -= 1;
            block.touched_at = self.programs;
        }
        let place = block * self.pages + at;
        (self.place[page as usize], self.owner[place as usize]) = (place, page);
        self.programs += 1;
        let record = &mut self.blocks[block as usize];
        record.valid += 1;
        self.open[stream] = Some((block, at + 1)).filter(|open| open.1 < self.pages);
        if self.open[stream].is_none() {
            (record.closed_at, record.touched_at) = (self.programs, self.programs);
            self.closed.push(block);
        }
    }
}

fn least<K: Ord>(count: u64, key: impl Fn(usize) -> K) -> usize {
    (0..count as usize).min_by_key(|&at| key(at)).expect("closed blocks")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sequential host writes leave empty blocks behind, which policies by valid pages or age find.
    #[test]
    fn a_log_written_in_turn_copies_nothing() {
        for victim in [Victim::Greedy, Victim::Fifo, Victim::CostBenefit] {
            let mut log = PlainLog::new(victim, 16, 8, 96, false, Rng::new(1));
            (0..10).for_each(|_| (0..96).for_each(|page| log.write(page)));
            assert_eq!(log.programs, 960, "{victim}");
        }
    }
}
