//! The map of virtual units: a table in leaves, of which only those exist in which something was written.

use pellucid_flash::{Lpn, Ppa};

/// Entries of a leaf.
const LEAF: u32 = 1024;

#[derive(Clone, Debug)]
pub(super) struct Virtuals {
    leaves: Vec<Option<Box<[Ppa]>>>,
}

impl Virtuals {
    pub fn new(units: u32) -> Virtuals {
        Virtuals { leaves: vec![None; units.div_ceil(LEAF) as usize] }
    }

    /// Where a virtual unit lies; [`Ppa::NONE`]: nowhere, [`Ppa::LOST`]: its data are lost.
    pub fn get(&self, lpn: Lpn) -> Ppa {
        let leaf = &self.leaves[(lpn.0 / LEAF) as usize];
        leaf.as_ref().map_or(Ppa::NONE, |leaf| leaf[(lpn.0 % LEAF) as usize])
    }

    /// Sets where it lies; where it lay.
    pub fn set(&mut self, lpn: Lpn, ppa: Ppa) -> Ppa {
        let leaf = &mut self.leaves[(lpn.0 / LEAF) as usize];
        if leaf.is_none() && ppa == Ppa::NONE {
            return Ppa::NONE;
        }
        let leaf = leaf.get_or_insert_with(|| vec![Ppa::NONE; LEAF as usize].into());
        std::mem::replace(&mut leaf[(lpn.0 % LEAF) as usize], ppa)
    }

    /// Every virtual unit that was written.
    pub fn iter(&self) -> impl Iterator<Item = (Lpn, Ppa)> + '_ {
        let leaves = (0..).zip(&self.leaves).filter_map(|(at, leaf)| Some((at, leaf.as_ref()?)));
        let entries = leaves.flat_map(|(at, leaf)| (at * LEAF..).map(Lpn).zip(leaf.iter().copied()));
        entries.filter(|(_, ppa)| *ppa != Ppa::NONE)
    }

    pub fn memory_bytes(&self) -> u64 {
        let leaves = self.leaves.iter().flatten().count() as u64;
        leaves * u64::from(LEAF) * size_of::<Ppa>() as u64
            + (self.leaves.len() * size_of::<Option<Box<[Ppa]>>>()) as u64
    }
}
