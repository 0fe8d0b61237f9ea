//! The pages of a cache as the mapping table of a page map.

use super::pages::CachePages;
use super::{evict, media};
use crate::cached::{mark_of, page_of_mark};
use crate::page_map::core::{Core, Shape};
use crate::page_map::programs::Settled;
use crate::page_map::table::{Found, Table};
use crate::setup_error::SetupError;
use crate::sparse::SparseTable;
use crate::translation::{MapJob, Reclaim};
use crate::valid_units::ValidUnits;
use crate::{Durability, FtlConfig, Policies, VictimPolicy};
use pellucid_flash::{BlockId, CacheState, Lpn, Ppa};
use std::sync::Arc;

impl Table for CachePages {
    /// Clean ones.
    const DROPS_COPIES: bool = true;

    fn numbering(config: &FtlConfig, held: u64, entries_per_page: u32) -> (u64, u64) {
        let cache = config.cache.as_ref().expect("a description of the cache");
        let map_pages = match config.durability {
            Durability::Volatile => 0,
            // An entry names its page, too.
            Durability::Journal { .. } => SparseTable::regions_for(held, entries_per_page / 2).into(),
        };
        (cache.address_units.into(), map_pages)
    }

    fn create(shape: &Shape) -> Result<CachePages, SetupError> {
        CachePages::new(shape)
    }

    fn victim_policy(policies: &Policies) -> &Option<Arc<dyn VictimPolicy>> {
        &policies.eviction
    }

    #[inline]
    fn get(&self, lpn: Lpn) -> Ppa {
        self.copy_of(lpn)
    }

    #[inline]
    fn set(&mut self, lpn: Lpn, ppa: Ppa) {
        self.point(lpn, ppa);
    }

    fn supersede(&mut self, valid: &mut ValidUnits, lpn: Lpn, ppa: Ppa, moved: bool) -> (Ppa, bool) {
        let old = self.copy_of(lpn);
        let needed = match self.is_hosts(lpn) {
            // Newer data in the buffer may be in another state.
            true if moved => old.is_some() && valid.has(old),
            true => self.sparse().state(lpn) == CacheState::Dirty,
            false => true,
        };
        if needed {
            valid.add(ppa);
        }
        self.point(lpn, ppa);
        (if old.is_some() { old } else { Ppa::NONE }, needed)
    }

    #[inline]
    fn prefetch(&self, lpn: Lpn) {
        if self.is_hosts(lpn) {
            self.sparse().prefetch(lpn);
        }
    }

    fn placed(&self) -> impl Iterator<Item = (Lpn, Ppa)> + '_ {
        self.places()
    }

    fn untouched_until(&self, _lpn: Lpn) -> Option<Lpn> {
        None
    }

    fn memory_bytes(&self) -> u64 {
        self.table_bytes()
    }

    fn parts(&self, _shape: &Shape) -> u32 {
        self.sparse().regions()
    }

    #[inline]
    fn part_of(&self, _shape: &Shape, lpn: Lpn) -> u32 {
        self.sparse().region(lpn)
    }

    fn pages_of(&self, _shape: &Shape, part: u32) -> Vec<Lpn> {
        self.sparse().of_region(part).map(|slot| slot.lpn()).collect()
    }

    #[inline]
    fn mark(shape: &Shape, lpn: Lpn, dirty: bool) -> Lpn {
        mark_of(lpn, dirty && shape.is_hosts(lpn))
    }

    #[inline]
    fn named(mark: Lpn) -> Lpn {
        page_of_mark(mark)
    }

    fn write_part(core: &mut Core<CachePages>, settled: &Settled, part: u32, out: &mut Vec<u8>) {
        media::write_region(core, settled, part, out);
    }

    fn part_saved(&mut self, part: u32) {
        self.region_saved(part);
    }

    #[inline]
    fn has_job(&self) -> bool {
        self.lists().has_due()
    }

    fn next_job(core: &mut Core<CachePages>) -> Option<MapJob> {
        let list = media::next_list(core);
        if list.is_none() {
            media::go_on_saving(core);
        }
        list
    }

    fn list_image(&self) -> &[u8] {
        self.lists().image()
    }

    fn numbered(&mut self, next: u64) {
        self.set_sequence(next);
    }

    fn needs_list(&mut self, block: BlockId) {
        self.lists_mut().note_full(block);
    }

    /// The translation page of its region on the media is out of date.
    #[inline]
    fn program_ended(core: &mut Core<CachePages>, lpn: Lpn) {
        if core.shape.is_hosts(lpn) {
            let region = core.page_of(lpn);
            core.table.region_changed(region);
        }
    }

    fn copy_is_back(core: &mut Core<CachePages>, lpn: Lpn, old: Ppa) {
        evict::cleaned_meanwhile(core, lpn, old);
    }

    #[inline]
    fn kept(&self) -> Option<&[u32]> {
        Some(self.sparse().present())
    }

    fn before_erase(core: &mut Core<CachePages>) -> Option<Reclaim> {
        evict::evict_emptied(core)
    }

    fn held_blocks(core: &Core<CachePages>) -> Vec<BlockId> {
        evict::held_blocks(core)
    }

    fn block_left(&mut self, block: BlockId) {
        self.erased(block);
    }

    fn load_part(core: &mut Core<CachePages>, _part: u32, entries: &[u32], counts: impl Fn(Ppa) -> bool) {
        media::load_region(core, entries, counts);
    }

    fn found(core: &mut Core<CachePages>, copy: Found, _is_newer: impl Fn(Ppa) -> bool) {
        core.table.note_found([copy]);
    }

    fn keep_found(core: &mut Core<CachePages>) -> u64 {
        media::restore_copies(core)
    }

    /// A clean page is absent then; the data of others are lost.
    fn doubt(&mut self, lpn: Lpn) {
        let clean = self.sparse().state(lpn) == CacheState::Clean;
        self.point(lpn, if clean { Ppa::NONE } else { Ppa::LOST });
    }

    fn needs_copy(&self, shape: &Shape, lpn: Lpn) -> bool {
        !shape.is_hosts(lpn) || self.sparse().state(lpn) == CacheState::Dirty
    }

    fn dropped_units(&self) -> u64 {
        self.evicted_units()
    }

    fn set_dropped_units(&mut self, units: u64) {
        self.set_evicted_units(units);
    }

    fn check(core: &Core<CachePages>) {
        let sparse = core.table.sparse();
        sparse.check();
        for slot in sparse.iter().filter(|slot| slot.ppa().is_some() && !slot.is_pinned()) {
            assert_eq!(
                core.valid.has(slot.ppa()),
                slot.state() == CacheState::Dirty,
                "what is kept of {slot:?}"
            );
        }
    }
}
