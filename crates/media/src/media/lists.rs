//! Units that are listed by address until their block is erased.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Units that are given up. Invariant: none is of an erased block.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenUp {
    units: BTreeSet<u32>,
}

impl GivenUp {
    /// Gives a unit up; `false`: it was.
    pub fn add(&mut self, unit: u32) -> bool {
        self.units.insert(unit)
    }

    /// Returns whether a unit is given up.
    #[inline]
    pub fn has(&self, unit: u32) -> bool {
        !self.units.is_empty() && self.units.contains(&unit)
    }

    /// Forgets the units of a block that is erased.
    pub fn erase(&mut self, units: Range<u32>) {
        while let Some(&unit) = self.units.range(units.clone()).next() {
            self.units.remove(&unit);
        }
    }
}

/// Translation pages, if the store keeps only stamps. Invariant: none belongs to an erased block.
#[derive(Clone, Debug, Default)]
pub(super) struct TranslationPages {
    pages: BTreeMap<u32, Box<[u8]>>,
}

impl TranslationPages {
    /// Keeps the content of a unit.
    pub fn put(&mut self, unit: u32, bytes: Box<[u8]>) {
        self.pages.insert(unit, bytes);
    }

    /// The content of a unit.
    pub fn get(&self, unit: u32) -> Option<&[u8]> {
        self.pages.get(&unit).map(|bytes| &bytes[..])
    }

    /// Number of pages.
    pub fn count(&self) -> u32 {
        self.pages.len() as u32
    }

    /// The pages, by address.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.pages.iter().map(|(&unit, bytes)| (unit, &bytes[..]))
    }

    /// Forgets the pages of a block that is erased.
    pub fn erase(&mut self, units: Range<u32>) {
        while let Some((&unit, _)) = self.pages.range(units.clone()).next() {
            self.pages.remove(&unit);
        }
    }
}
