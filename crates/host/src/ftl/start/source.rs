//! Source of facts for the engine's mount.
//!
//! ```text
//!  mount asks ─► not known: missing ─► needs ─► commands ─► facts ─► asked again
//! ```

use super::facts::{Facts, Known, UNREADABLE};
use super::needs::Need;
use pellucid_flash::{BlockId, Layout, Lpn, Ppa};
use pellucid_ftl::MountSource;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Known facts, as the engine asks for them, and those that it misses.
pub(super) struct Source<'a> {
    /// Number of the application's pages; higher ones are translation pages.
    user_units: u32,
    layout: &'a Layout,
    facts: &'a Facts,
    bad: &'a BTreeSet<u32>,
    missing: RefCell<BTreeSet<Need>>,
}

impl<'a> Source<'a> {
    pub fn new(user_units: u32, layout: &'a Layout, facts: &'a Facts, bad: &'a BTreeSet<u32>) -> Source<'a> {
        Source { user_units, layout, facts, bad, missing: RefCell::default() }
    }

    /// Returns the facts that the mount has missed.
    pub fn into_missing(self) -> BTreeSet<Need> {
        self.missing.into_inner()
    }

    fn miss(&self, need: Need) {
        self.missing.borrow_mut().insert(need);
    }

    /// Returns the read that makes the pages of a line known.
    fn pages(&self, line: u32) -> Need {
        match () {
            () if self.facts.is_ended(line) => Need::End(line, 0),
            () if self.facts.is_indexed(line) => Need::Index(line, 0),
            () => Need::Scan(line, 0),
        }
    }
}

impl MountSource for Source<'_> {
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)> {
        let block = self.layout.block_of(ppa);
        let line = block.0;
        let (index, superpage) = (self.layout.index_in_block(ppa), self.layout.superpage_of(ppa));
        match self.facts.known().get(&line).unwrap_or(&Known::Nothing) {
            Known::Pages(sequences, pages) => {
                let page = pages[index as usize];
                (page != UNREADABLE && sequences[superpage as usize] > 0)
                    .then_some((page, sequences[superpage as usize]))
            }
            Known::Range([first, _]) if index == 0 => Some(*first),
            Known::Range([_, last])
                if index + self.layout.units_per_superpage
                    == self.used_superpages(block) * self.layout.units_per_superpage =>
            {
                Some(*last)
            }
            // Missing translation pages leave the extent of the replay open, so data are asked for last.
            Known::Range([(first, _), _])
                if (*first == Lpn::NONE || first.0 < self.user_units)
                    && !self.missing.borrow().is_empty() =>
            {
                None
            }
            // A head does not name the pages of the last superpage; if there is a third sector to ask for,
            // the replay finds them.
            Known::Nothing if self.facts.is_ended(line) && self.layout.units_per_block > 2 => {
                self.miss(Need::Head(line));
                None
            }
            Known::Nothing if !self.facts.is_ended(line) && !self.facts.is_torn(line) => {
                self.miss(Need::Edges(line));
                None
            }
            _ => {
                self.miss(self.pages(line));
                None
            }
        }
    }

    fn used_superpages(&self, block: BlockId) -> u32 {
        self.facts.used(block.0)
    }

    fn erases(&self, _: BlockId) -> u32 {
        0
    }

    fn is_bad(&self, block: BlockId) -> bool {
        self.bad.contains(&block.0)
    }

    fn map_page(&self, ppa: Ppa) -> Option<Vec<u8>> {
        let found = self.facts.map_page(ppa.0);
        // While pages of lines are missing, this copy may be outdated or absent.
        let known = self.missing.borrow().iter().all(|need| matches!(need, Need::MapPages(..)));
        if found.is_none() && known {
            self.miss(Need::MapPages(ppa.0, 1));
        }
        found.filter(|bytes| !bytes.is_empty()).cloned()
    }
}
