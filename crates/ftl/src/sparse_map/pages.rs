//! Pages held by a cache, and their state apart from their addresses.
//!
//! Invariants: a page that is promised has a slot; a marked page that left with an emptied block counts in its region until the block is
//! erased; a block is evicted once.

use super::lists::Lists;
use crate::mapping_table::MappingTable;
use crate::page_map::core::Shape;
use crate::page_map::table::Found;
use crate::setup_error::SetupError;
use crate::sparse::SparseTable;
use pellucid_flash::{BlockId, CacheState, Lpn, Ppa};
use std::collections::BTreeMap;

/// Pages of a cache: the table of those that it holds of a large address space, and that of its translation pages.
#[derive(Clone, Debug)]
pub struct CachePages {
    /// Pages that the host can address. Translation pages are numbered from here.
    address_pages: u32,
    map_pages: MappingTable,
    sparse: SparseTable,
    /// Dirty pages whose writes were admitted and have not brought their data.
    promised: u32,
    /// Emptied blocks whose clean pages are being evicted.
    evicting: Vec<BlockId>,
    /// Regions of marked pages that left with an emptied block, until it is erased.
    leaving: Vec<(BlockId, u32)>,
    /// Pages that left with an emptied block and whose translation page still names the copy there: a power cut brings it back until the
    /// block is erased.
    left: BTreeMap<Lpn, BlockId>,
    /// Clean units that were dropped to make space.
    evicted_units: u64,
    lists: Lists,
    /// Copies that a mount has found so far.
    found: Vec<Found>,
}

impl CachePages {
    /// Creates an empty cache.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub(super) fn new(shape: &Shape) -> Result<CachePages, SetupError> {
        let (address, slots) = (shape.user_units, shape.entries / 2);
        Ok(CachePages {
            address_pages: address,
            map_pages: MappingTable::new(shape.map_pages)?,
            sparse: SparseTable::new(address, shape.held.into(), slots, &shape.layout, !shape.is_volatile()),
            promised: 0,
            evicting: Vec::new(),
            leaving: Vec::new(),
            left: BTreeMap::new(),
            evicted_units: 0,
            lists: Lists::new(&shape.config, shape.map_pages, &shape.layout),
            found: Vec::new(),
        })
    }

    /// The table of the pages that are held.
    #[inline]
    pub(super) fn sparse(&self) -> &SparseTable {
        &self.sparse
    }

    /// Lists and regions to be written.
    #[inline]
    pub(super) fn lists(&self) -> &Lists {
        &self.lists
    }

    #[inline]
    pub(super) fn lists_mut(&mut self) -> &mut Lists {
        &mut self.lists
    }

    /// Returns whether the host addresses `lpn`; if not, it is a translation page.
    #[inline]
    pub(super) fn is_hosts(&self, lpn: Lpn) -> bool {
        lpn.0 < self.address_pages
    }

    /// The newest copy of `lpn`.
    #[inline]
    pub(super) fn copy_of(&self, lpn: Lpn) -> Ppa {
        if self.is_hosts(lpn) {
            self.sparse.get(lpn)
        } else {
            self.map_pages.get(Lpn(lpn.0 - self.address_pages))
        }
    }

    /// Points `lpn` to a copy, or to none.
    #[inline]
    pub(super) fn point(&mut self, lpn: Lpn, ppa: Ppa) {
        match self.is_hosts(lpn) {
            true => _ = self.sparse.replace(lpn, ppa),
            false => self.map_pages.set(Lpn(lpn.0 - self.address_pages), ppa),
        }
    }

    /// Pages that have a slot, and all translation pages, with their places.
    pub(super) fn places(&self) -> impl Iterator<Item = (Lpn, Ppa)> + '_ {
        let held = self.sparse.iter().map(|slot| (slot.lpn(), slot.ppa()));
        held.chain(self.map_pages.all().map(|(page, ppa)| (Lpn(self.address_pages + page.0), ppa)))
    }

    /// Bytes of memory.
    pub(super) fn table_bytes(&self) -> u64 {
        self.map_pages.memory_bytes() + self.sparse.memory_bytes()
    }
}

/// Writes of the host.
impl CachePages {
    /// Pages that are dirty, or will be.
    pub(super) fn dirty_or_promised(&self) -> u32 {
        self.sparse.dirty() + self.promised
    }

    /// Gives a page a slot until it is unpinned; `false`: its region is full.
    pub(super) fn pin(&mut self, lpn: Lpn) -> bool {
        self.sparse.pin(lpn)
    }

    /// Unpins a page.
    pub(super) fn unpin(&mut self, lpn: Lpn) {
        self.sparse.unpin(lpn);
    }

    /// Records that dirty data of a pinned page will come: a mount may find it dirty from now on.
    pub(super) fn promise(&mut self, lpn: Lpn) {
        self.promised += 1;
        self.sparse.mark(lpn);
    }

    /// Records that the data of a promised page have come, or will not.
    pub(super) fn end_promise(&mut self) {
        self.promised -= 1;
    }

    /// Sets the state of a page that has a slot.
    pub(super) fn set_state(&mut self, lpn: Lpn, state: CacheState) {
        self.sparse.set_state(lpn, state);
    }

    /// Marks the translation page of `region` on the media as out of date.
    #[inline]
    pub(super) fn region_changed(&mut self, region: u32) {
        self.lists.region_changed(region);
    }
}

/// Eviction.
impl CachePages {
    /// Clean units that were dropped to make space.
    pub(super) fn evicted_units(&self) -> u64 {
        self.evicted_units
    }

    pub(super) fn set_evicted_units(&mut self, units: u64) {
        self.evicted_units = units;
    }

    /// Drops a clean page.
    pub(super) fn drop_page(&mut self, lpn: Lpn) {
        self.evicted_units += 1;
        self.region_changed(self.sparse.region(lpn));
        self.point(lpn, Ppa::NONE);
    }

    /// The first of the `emptied` blocks that holds clean units, whose eviction begins now.
    pub(super) fn begin_eviction(&mut self, emptied: &[BlockId]) -> Option<BlockId> {
        let holds_clean = |&b: &BlockId| self.sparse.present()[b.0 as usize] > 0;
        let next = emptied.iter().copied().filter(holds_clean).find(|b| !self.evicting.contains(b));
        self.evicting.extend(next);
        next
    }

    /// Returns whether the eviction of `block` has not ended.
    pub(super) fn is_evicting(&self, block: BlockId) -> bool {
        self.evicting.contains(&block)
    }

    pub(super) fn end_eviction(&mut self, block: BlockId) {
        self.evicting.retain(|&b| b != block);
    }

    /// Records that a marked page of `region` was dropped, and that a mount does not find it once `block` is erased.
    pub(super) fn leaves_with_block(&mut self, region: u32, block: BlockId) {
        if let Some(marks) = self.sparse.marks_mut() {
            marks.leaves_with_block(region);
            self.leaving.push((block, region));
        }
    }

    /// Records that a page was dropped whose copy in `block` a mount finds until the block is erased.
    pub(super) fn left_with_block(&mut self, lpn: Lpn, block: BlockId) {
        self.left.insert(lpn, block);
    }

    /// Returns whether a mount may find a copy of a dropped page in a block that is to be erased, or is being erased.
    pub(super) fn may_return(&self, lpn: Lpn) -> bool {
        self.left.contains_key(&lpn)
    }

    /// Records that the content of `block` is no longer on the media.
    pub(super) fn erased(&mut self, block: BlockId) {
        self.left.retain(|_, of| *of != block);
        if let Some(marks) = self.sparse.marks_mut() {
            let left = self.leaving.extract_if(.., |&mut (of, _)| of == block);
            left.for_each(|(_, region)| marks.erased(region));
        }
    }
}

/// Translation pages and mount.
impl CachePages {
    /// Records the number of the next program.
    #[inline]
    pub(super) fn set_sequence(&mut self, sequence: u64) {
        if let Some(marks) = self.sparse.marks_mut() {
            marks.set_sequence(sequence);
        }
    }

    /// Records that the content of the translation page of `region` was taken: it reflects every program below `watermark`.
    pub(super) fn region_imaged(&mut self, region: u32, watermark: u64) {
        self.lists.region_imaged(region);
        if let Some(marks) = self.sparse.marks_mut() {
            marks.imaged(region, watermark);
        }
    }

    /// Records that the last imaged translation page of `region` is on the media.
    pub(super) fn region_saved(&mut self, region: u32) {
        if let Some(marks) = self.sparse.marks_mut() {
            marks.saved(region);
        }
    }

    /// Notes copies that a mount has found.
    pub(super) fn note_found(&mut self, copies: impl IntoIterator<Item = Found>) {
        self.found.extend(copies);
    }

    /// Takes the copies that a mount has found.
    pub(super) fn take_found(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.found)
    }

    /// Gives a page that a mount has found its slot; `false`: its region is full.
    pub(super) fn restore(&mut self, Found { lpn, ppa, dirty, .. }: Found) -> bool {
        let fits = self.sparse.has_slot_for(lpn);
        if fits {
            self.sparse.replace(lpn, ppa);
            self.sparse.set_state(lpn, if dirty { CacheState::Dirty } else { CacheState::Clean });
            if dirty {
                self.sparse.mark(lpn);
            }
        }
        fits
    }
}
