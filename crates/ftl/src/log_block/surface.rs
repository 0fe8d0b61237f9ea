//! Calls of [`crate::Translation`] that concern other translations only: log blocks move whole superpages to fixed places, and have
//! neither placement handles nor an SLC cache.

use super::LogBlock;
use crate::handles::Handles;
use crate::translation::{CacheUse, Caller, MapPage};
use pellucid_flash::{DieId, Lpn, Ppa};

impl LogBlock {
    /// Sets the caller to work for from now on.
    pub fn serve(&mut self, caller: Caller) {
        self.names_outdated = caller.takes_outdated;
    }

    /// Returns whether the copy at `from`, whose spare area names this page, is still needed. Without a spare area it is unreadable, or
    /// replaced and erased.
    #[inline]
    pub fn is_current(&self, from: Ppa, named: Option<Lpn>) -> bool {
        named.is_none_or(|lpn| lpn.0 < self.user_units && self.map.get(lpn) == from)
    }

    /// Nothing moves unit by unit in this translation.
    #[inline]
    pub fn gc_rests(&self, _die: DieId) -> bool {
        true
    }

    /// Nothing is written to shorten a mount, which reads all spare areas.
    #[inline]
    pub fn checkpoint(&mut self) -> bool {
        false
    }

    /// All of the map is in memory, so no translation page is read.
    pub fn map_page_read(&mut self, _page: MapPage, _ok: bool) {}

    /// Returns whether [`LogBlock::next_map_job`] may have work.
    #[inline]
    pub fn has_map_work(&self) -> bool {
        self.map_jobs
    }

    /// The placement handles: one.
    pub fn handles(&self) -> &Handles {
        &self.handles
    }

    /// The placement handles, for taking their events.
    pub fn handles_mut(&mut self) -> &mut Handles {
        &mut self.handles
    }

    /// The placement handle in whose blocks `lpn` lies: none.
    pub fn owner(&self, _lpn: Lpn) -> u16 {
        0
    }

    /// Handle 0 has no reclaim unit of its own.
    pub fn next_unit(&mut self, _handle: u16) {}

    /// There is no SLC cache.
    pub fn pass_cache(&mut self, _past: bool) {}

    /// Use of the SLC cache: there is none.
    pub fn cache_use(&self) -> CacheUse {
        CacheUse::default()
    }
}
