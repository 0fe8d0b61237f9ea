//! The interface of a mapping table, as the paths of a page map use it.
//!
//! The usual table has an entry for each page ([`MappingTable`]). Another kind may hold only some pages, drop dispensable copies, and write
//! its own metadata; it then implements the calls that do nothing here.

use super::core::{Core, Shape};
use super::programs::Settled;
use crate::mapping_table::MappingTable;
use crate::setup_error::SetupError;
use crate::translation::{MapJob, Reclaim};
use crate::valid_units::ValidUnits;
use crate::{Durability, FtlConfig, Policies, VictimPolicy};
use pellucid_flash::{BlockId, Lpn, Ppa};
use std::sync::Arc;

/// Bytes of an entry of a translation page.
const ENTRY_BYTES: usize = 4;

/// A copy that a mount has found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub lpn: Lpn,
    /// Number of its program; 0: a translation page names it.
    pub sequence: u64,
    pub ppa: Ppa,
    /// Its spare area, or entry, has the mark of a dirty page.
    pub dirty: bool,
}

/// Mapping table of a page map: the address of each page.
pub trait Table: Clone + std::fmt::Debug {
    /// Some copies of the host's pages are not needed, and are kept until their blocks are erased.
    const DROPS_COPIES: bool;

    /// Pages that the host can address, and translation pages, of a map that holds `held` pages.
    fn numbering(config: &FtlConfig, held: u64, entries_per_page: u32) -> (u64, u64);

    /// Creates an empty table.
    ///
    /// # Errors
    /// The system has no memory for it.
    fn create(shape: &Shape) -> Result<Self, SetupError>;

    /// The policy from outside that chooses victims.
    fn victim_policy(policies: &Policies) -> &Option<Arc<dyn VictimPolicy>>;

    // ---- entries

    /// The newest copy of `lpn`; [`Ppa::NONE`]: it has none; [`Ppa::LOST`].
    fn get(&self, lpn: Lpn) -> Ppa;

    /// Points `lpn` to a copy, to none, or to [`Ppa::LOST`].
    fn set(&mut self, lpn: Lpn, ppa: Ppa);

    /// Points `lpn` to a new copy; returns the old one, and whether the new one is needed: it is valid then. `moved`: GC has copied the old
    /// one.
    fn supersede(&mut self, valid: &mut ValidUnits, lpn: Lpn, ppa: Ppa, moved: bool) -> (Ppa, bool);

    /// Prefetches the entry of `lpn`, if there is one.
    fn prefetch(&self, lpn: Lpn);

    /// Entries of the pages that have a copy or may have one.
    fn placed(&self) -> impl Iterator<Item = (Lpn, Ppa)> + '_;

    /// End of the range of pages from `lpn` on that are known to have never been written; `None`: nothing is known.
    fn untouched_until(&self, lpn: Lpn) -> Option<Lpn>;

    /// Bytes of memory when every page has been written.
    fn memory_bytes(&self) -> u64;

    // ---- translation pages and spare areas

    /// Parts of the table, each of which a translation page can hold.
    fn parts(&self, shape: &Shape) -> u32;

    /// The part with the entry of `lpn`.
    fn part_of(&self, shape: &Shape, lpn: Lpn) -> u32;

    /// The pages whose entries are in `part`.
    fn pages_of(&self, shape: &Shape, part: u32) -> Vec<Lpn>;

    /// Entry for the spare area of a copy of `lpn`, whose data arrived `dirty` or not.
    #[inline]
    fn mark(_shape: &Shape, lpn: Lpn, _dirty: bool) -> Lpn {
        lpn
    }

    /// Page that such an entry names.
    #[inline]
    fn named(mark: Lpn) -> Lpn {
        mark
    }

    /// Appends the content of the translation page of `part` at the moment of `settled`.
    fn write_part(core: &mut Core<Self>, settled: &Settled, part: u32, out: &mut Vec<u8>);

    /// Records that the translation page of `part` is on the media as it was last written.
    #[inline]
    fn part_saved(&mut self, _part: u32) {}

    /// Returns whether the table has its own metadata to program.
    #[inline]
    fn has_job(&self) -> bool {
        false
    }

    /// The next program of such metadata.
    #[inline]
    fn next_job(_core: &mut Core<Self>) -> Option<MapJob> {
        None
    }

    /// The content of a unit of the list at the end of a block.
    fn list_image(&self) -> &[u8] {
        &[]
    }

    // ---- programs and erases

    /// Records the number of the next program.
    #[inline]
    fn numbered(&mut self, _next: u64) {}

    /// Records that the last data superpage of `block` is planned, after which its list is written.
    fn needs_list(&mut self, block: BlockId) {
        panic!("block {} ends with a list, and its table has none", block.0);
    }

    /// Records that a program of `lpn` has ended well.
    #[inline]
    fn program_ended(_core: &mut Core<Self>, _lpn: Lpn) {}

    /// Records that `lpn` lies at `old` again, as the program of its successor has failed.
    fn copy_is_back(_core: &mut Core<Self>, _lpn: Lpn, _old: Ppa) {}

    /// Copies in each block, needed or not; `None`: none is kept that is not needed.
    #[inline]
    fn kept(&self) -> Option<&[u32]> {
        None
    }

    /// The work to do before the next erase, if any.
    #[inline]
    fn before_erase(_core: &mut Core<Self>) -> Option<Reclaim> {
        None
    }

    /// Emptied blocks that have to wait.
    #[inline]
    fn held_blocks(_core: &Core<Self>) -> Vec<BlockId> {
        Vec::new()
    }

    /// Records that the content of `block` is no longer on the media.
    #[inline]
    fn block_left(&mut self, _block: BlockId) {}

    // ---- mount

    /// Takes the content of the translation page of `part`, as far as it `counts`.
    fn load_part(core: &mut Core<Self>, part: u32, entries: &[u32], counts: impl Fn(Ppa) -> bool);

    /// Adopts a copy newer than the translation page of its page. `is_newer`: it is newer than the copy found before.
    fn found(core: &mut Core<Self>, copy: Found, is_newer: impl Fn(Ppa) -> bool);

    /// Decides which of the copies found are kept. Returns the number of pages that are lost.
    fn keep_found(_core: &mut Core<Self>) -> u64 {
        0
    }

    /// Handles a page that may have been trimmed or not.
    fn doubt(&mut self, lpn: Lpn) {
        self.set(lpn, Ppa::LOST);
    }

    /// Returns whether the copy of `lpn` is needed.
    fn needs_copy(&self, _shape: &Shape, _lpn: Lpn) -> bool {
        true
    }

    // ---- figures

    /// Copies that were dropped to make space.
    fn dropped_units(&self) -> u64 {
        0
    }

    /// Sets their number: to zero, or to that from before a power cut.
    fn set_dropped_units(&mut self, _units: u64) {}

    /// Walks the invariants of the table, and panics where one is broken. Cost: the whole table.
    fn check(_core: &Core<Self>) {}
}

/// All pages of a drive, an entry each; every copy is needed.
impl Table for MappingTable {
    const DROPS_COPIES: bool = false;

    fn numbering(config: &FtlConfig, held: u64, entries_per_page: u32) -> (u64, u64) {
        assert!(config.cache.is_none(), "a map of all pages is no cache");
        let map_pages = match config.durability {
            Durability::Volatile => 0,
            Durability::Journal { .. } => held.div_ceil(entries_per_page.into()),
        };
        (held, map_pages)
    }

    fn create(shape: &Shape) -> Result<MappingTable, SetupError> {
        MappingTable::new(shape.pages())
    }

    fn victim_policy(policies: &Policies) -> &Option<Arc<dyn VictimPolicy>> {
        &policies.victim
    }

    #[inline]
    fn get(&self, lpn: Lpn) -> Ppa {
        self.get(lpn)
    }

    #[inline]
    fn set(&mut self, lpn: Lpn, ppa: Ppa) {
        self.set(lpn, ppa);
    }

    #[inline]
    fn supersede(&mut self, valid: &mut ValidUnits, lpn: Lpn, ppa: Ppa, _moved: bool) -> (Ppa, bool) {
        valid.add(ppa);
        (self.replace(lpn, ppa), true)
    }

    #[inline]
    fn prefetch(&self, lpn: Lpn) {
        self.prefetch(lpn);
    }

    fn placed(&self) -> impl Iterator<Item = (Lpn, Ppa)> + '_ {
        self.all()
    }

    fn untouched_until(&self, lpn: Lpn) -> Option<Lpn> {
        self.untouched_until(lpn)
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes()
    }

    fn parts(&self, shape: &Shape) -> u32 {
        shape.user_units.div_ceil(shape.entries)
    }

    #[inline]
    fn part_of(&self, shape: &Shape, lpn: Lpn) -> u32 {
        lpn.0 / shape.entries
    }

    fn pages_of(&self, shape: &Shape, part: u32) -> Vec<Lpn> {
        let first = part * shape.entries;
        (first..(first + shape.entries).min(shape.user_units)).map(Lpn).collect()
    }

    fn write_part(core: &mut Core<MappingTable>, settled: &Settled, part: u32, out: &mut Vec<u8>) {
        let first = part * core.shape.entries;
        let lpns = first..(first + core.shape.entries).min(core.shape.user_units);
        let head = out.len();
        out.resize(head + ENTRY_BYTES * lpns.len(), 0);
        let (entries, _) = out[head..].as_chunks_mut::<ENTRY_BYTES>();
        for (lpn, entry) in lpns.zip(entries) {
            *entry = core.settled_copy(settled, Lpn(lpn)).0.wrapping_add(1).to_le_bytes();
        }
    }

    fn load_part(core: &mut Core<MappingTable>, part: u32, entries: &[u32], counts: impl Fn(Ppa) -> bool) {
        let first = part * core.shape.entries;
        for (lpn, entry) in (first..core.shape.user_units).zip(entries).filter(|&(_, &entry)| entry != 0) {
            let ppa = Ppa(entry - 1);
            if counts(ppa) {
                core.table.set(Lpn(lpn), ppa);
            }
        }
    }

    fn found(core: &mut Core<MappingTable>, copy: Found, is_newer: impl Fn(Ppa) -> bool) {
        let known = core.copy_of(copy.lpn);
        if !known.is_some() || is_newer(known) {
            core.table.set(copy.lpn, copy.ppa);
        }
    }
}
