//! Victims under way: their data are being moved, or they wait for their erase.
//!
//! Invariants: a block is a victim of its die at most once; `coming` counts the victims that will become free blocks.

use crate::translation::Stream;
use pellucid_flash::{BlockId, DieId, SimTime};

/// A victim under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub block: BlockId,
    /// Valid units when it was chosen.
    pub valid: u32,
    /// Valid units whose programs elsewhere are planned, or that cannot be copied.
    pub planned: u32,
    /// The stream whose open block takes them.
    pub stream: Stream,
    /// The victim will come back as a free block.
    pub back: bool,
    /// When it was chosen; `None`: its end is no pause of GC.
    pub since: Option<SimTime>,
}

impl Outgoing {
    pub fn new(block: BlockId, valid: u32, stream: Stream, back: bool) -> Outgoing {
        Outgoing { block, valid, planned: 0, stream, back, since: None }
    }
}

/// Victims under way of one die.
#[derive(Clone, Debug, Default)]
struct OfDie {
    victims: Vec<Outgoing>,
    /// Number of these that will come back as free blocks.
    coming: u32,
}

/// Victims under way of all dies.
#[derive(Clone, Debug)]
pub(crate) struct Victims {
    dies: Vec<OfDie>,
    /// Victims of all dies that will come back as free blocks.
    coming: u32,
}

impl Victims {
    /// Creates the state of a drive without victims.
    pub fn new(dies: u32) -> Victims {
        Victims { dies: vec![OfDie::default(); dies as usize], coming: 0 }
    }

    /// The victims of `die`.
    #[inline]
    pub fn of(&self, die: DieId) -> &[Outgoing] {
        &self.dies[die.0 as usize].victims
    }

    /// Victims of `die` that will come back as free blocks.
    #[inline]
    pub fn coming_back(&self, die: DieId) -> u32 {
        self.dies[die.0 as usize].coming
    }

    /// Victims of all dies that will come back as free blocks.
    #[inline]
    pub fn all_coming_back(&self) -> u32 {
        self.coming
    }

    /// Adds a victim of `die`.
    pub fn add(&mut self, die: DieId, victim: Outgoing) {
        let gc = &mut self.dies[die.0 as usize];
        debug_assert!(gc.victims.iter().all(|other| other.block != victim.block), "a victim twice");
        gc.coming += u32::from(victim.back);
        self.coming += u32::from(victim.back);
        gc.victims.push(victim);
    }

    /// Removes a victim of `die`, if `block` is one.
    pub fn end(&mut self, die: DieId, block: BlockId) -> Option<Outgoing> {
        let gc = &mut self.dies[die.0 as usize];
        let at = gc.victims.iter().position(|victim| victim.block == block)?;
        let victim = gc.victims.swap_remove(at);
        gc.coming -= u32::from(victim.back);
        self.coming -= u32::from(victim.back);
        Some(victim)
    }

    /// Records that the program of a copy that replaces one in `block`, a victim of `die`, was planned, or has ended.
    #[inline]
    pub fn note_moving(&mut self, die: DieId, block: BlockId, planned: bool) {
        let mut victims = self.dies[die.0 as usize].victims.iter_mut();
        if let Some(victim) = victims.find(|victim| victim.block == block) {
            victim.planned = if planned { victim.planned + 1 } else { victim.planned.saturating_sub(1) };
        }
    }

    /// Panics if the counts of victims that will become free blocks are wrong.
    pub fn check(&self) {
        for (die, gc) in self.dies.iter().enumerate() {
            let coming = gc.victims.iter().filter(|victim| victim.back).count();
            assert_eq!(gc.coming as usize, coming, "victims of die {die} that will come back");
        }
        let coming = self.dies.iter().map(|gc| gc.coming).sum::<u32>();
        assert_eq!(self.coming, coming, "victims that will come back");
    }
}
