//! Operations that fail: by seed and by list.
//!
//! Every purpose has its own random stream, and a probability of 0 draws nothing, so turning one kind of fault on does
//! not move the others.

use crate::{Faults, ListedFault, MediaConfig, MediaError};
use pellucid_flash::{Layout, Rng};
use std::collections::BTreeMap;

/// A failure probability and its random stream.
#[derive(Clone, Debug)]
struct Chance {
    probability: f64,
    rng: Rng,
}

impl Chance {
    fn new(probability: f64, seed: u64, purpose: &str) -> Chance {
        Chance { probability, rng: Rng::stream(seed, purpose) }
    }

    #[inline]
    fn strikes(&mut self) -> bool {
        self.rng.chance(self.probability)
    }
}

/// Planned faults.
#[derive(Clone, Debug)]
pub(crate) struct FaultPlan {
    program: Chance,
    erase: Chance,
    read: Chance,
    /// (block, superpage) -> erases of the block from which on its program fails.
    listed_programs: BTreeMap<(u32, u32), u32>,
    /// block -> number of the first erase that fails, counted from 1.
    listed_erases: BTreeMap<u32, u32>,
    /// (block, superpage) -> read attempts that fail.
    listed_reads: BTreeMap<(u32, u32), u32>,
}

impl FaultPlan {
    /// The plan of a checked `config`.
    pub(crate) fn new(config: &MediaConfig, layout: &Layout) -> FaultPlan {
        let (faults, seed) = (&config.faults, config.seed);
        let mut plan = FaultPlan {
            program: Chance::new(faults.program_fail, seed, "media.program_fail"),
            erase: Chance::new(faults.erase_fail, seed, "media.erase_fail"),
            read: Chance::new(faults.read_fail, seed, "media.read_fail"),
            listed_programs: BTreeMap::new(),
            listed_erases: BTreeMap::new(),
            listed_reads: BTreeMap::new(),
        };
        let block_id = |die: u32, block: u32| die * layout.blocks_per_die + block;
        // For two entries of one place, the harder fault holds.
        for fault in &faults.list {
            match *fault {
                ListedFault::FactoryBad { .. } => {}
                ListedFault::ProgramFail { die, block, superpage, after_erases } => {
                    let entry = plan.listed_programs.entry((block_id(die, block), superpage));
                    entry.and_modify(|n| *n = after_erases.min(*n)).or_insert(after_erases);
                }
                ListedFault::EraseFail { die, block, after_erases } => {
                    let entry = plan.listed_erases.entry(block_id(die, block));
                    entry.and_modify(|n| *n = after_erases.min(*n)).or_insert(after_erases);
                }
                ListedFault::ReadFail { die, block, superpage, attempts } => {
                    let entry = plan.listed_reads.entry((block_id(die, block), superpage));
                    entry.and_modify(|n| *n = attempts.max(*n)).or_insert(attempts);
                }
            }
        }
        plan
    }

    /// Returns whether the program of a superpage fails, its block having been erased `erases` times.
    #[inline]
    pub(crate) fn program_fails(&mut self, block: u32, superpage: u32, erases: u32) -> bool {
        let by_seed = self.program.strikes();
        if by_seed || self.listed_programs.is_empty() {
            return by_seed;
        }
        self.listed_programs.get(&(block, superpage)).is_some_and(|&from| erases >= from)
    }

    /// Returns whether an erase fails, `erases` having succeeded on the block before.
    #[inline]
    pub(crate) fn erase_fails(&mut self, block: u32, erases: u32) -> bool {
        let by_seed = self.erase.strikes();
        by_seed || self.listed_erases.get(&block).is_some_and(|&from| erases.saturating_add(1) >= from)
    }

    /// Returns whether this attempt to read a superpage is uncorrectable.
    #[inline]
    pub(crate) fn read_fails(&mut self, block: u32, superpage: u32, attempt: u32) -> bool {
        let by_seed = self.read.strikes();
        if by_seed || self.listed_reads.is_empty() {
            return by_seed;
        }
        self.listed_reads
            .get(&(block, superpage))
            .is_some_and(|&attempts| attempts == u32::MAX || attempt < attempts)
    }
}

/// Blocks that are bad from the factory, in ascending order of the seed's draws, then the list's.
pub(crate) fn factory_bad<'a>(
    faults: &'a Faults,
    layout: &'a Layout,
    seed: u64,
) -> impl Iterator<Item = u32> + 'a {
    let mut chance = Chance::new(faults.factory_bad, seed, "media.factory_bad");
    let drawn = if faults.factory_bad > 0.0 { layout.blocks } else { 0 };
    let listed = faults.list.iter().filter_map(|fault| match *fault {
        ListedFault::FactoryBad { die, block } => Some(die * layout.blocks_per_die + block),
        _ => None,
    });
    (0..drawn).filter(move |_| chance.strikes()).chain(listed)
}

/// Refuses impossible probabilities and places outside the media.
pub(crate) fn check(faults: &Faults, layout: &Layout) -> Result<(), MediaError> {
    for (key, p) in [
        ("faults.factory_bad", faults.factory_bad),
        ("faults.program_fail", faults.program_fail),
        ("faults.erase_fail", faults.erase_fail),
        ("faults.read_fail", faults.read_fail),
    ] {
        if !(0.0..=1.0).contains(&p) {
            let allowed = "a probability from 0 to 1".into();
            return Err(MediaError::Config { key, value: p.to_string(), allowed });
        }
    }
    for fault in &faults.list {
        let (die, block, superpage) = match *fault {
            ListedFault::FactoryBad { die, block } | ListedFault::EraseFail { die, block, .. } => {
                (die, block, 0)
            }
            ListedFault::ProgramFail { die, block, superpage, .. }
            | ListedFault::ReadFail { die, block, superpage, .. } => (die, block, superpage),
        };
        for (key, value, end) in [
            ("faults.list.die", die, layout.dies),
            ("faults.list.block", block, layout.blocks_per_die),
            ("faults.list.superpage", superpage, layout.superpages_per_block),
        ] {
            if value >= end {
                let allowed = format!("0 to {}", end - 1);
                return Err(MediaError::Config { key, value: value.to_string(), allowed });
            }
        }
    }
    Ok(())
}
