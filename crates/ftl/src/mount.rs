//! Mount: rebuilds the map from the media.
//!
//! 1. *headers*: the first and the last programmed superpage of every block (its range of sequence numbers);
//! 2. *translation pages*: the newest copy of each, from the blocks that hold them;
//! 3. *replay*: the spare areas of the blocks that were written at or after the lowest watermark, newest copy wins;
//! 4. *blocks*: valid units counted, partly written blocks opened again behind their last superpage.
//!
//! An entry of a translation page is trusted if its block was begun before the translation page's watermark; otherwise the block was
//! erased since, and the page has a newer copy (found by the replay) or was trimmed.
//!
//! The spare area of a translation page says whether any of its pages were trimmed. If so, and it cannot be read, copies programmed after
//! it count; older ones are lost ([`Ppa::LOST`]), and the translation page is written anew with that.

use crate::block_manager::OpenBlock;
use crate::page_map::{Found, PageMap, SetupError, split_sequence};
use crate::translation::{Start, Stream};
use crate::translation_pages::parse;
use crate::{Durability, FtlConfig, Isolation};
use pellucid_flash::{BlockId, BlockStream, Layout, Lpn, Ppa};

/// Media access that a mount needs; the caller of translation implements it.
pub trait MountSource {
    /// Logical page and what [`Plan::sequence`](crate::Plan::sequence) gave in the spare area of a unit; `None` if it is erased or unreadable.
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)>;
    /// Superpages used (programmed, torn or failed) since the block's last erase; all of them if it must be erased first.
    fn used_superpages(&self, block: BlockId) -> u32;
    /// The sequence number with which the block's first superpage was begun, also where nothing of it can be read; 0: unknown.
    fn begun(&self, _block: BlockId) -> u64 {
        0
    }
    /// Erases so far.
    fn erases(&self, block: BlockId) -> u32;
    /// Returns whether the block is retired.
    fn is_bad(&self, block: BlockId) -> bool;
    /// All bytes of a unit that holds a translation page; `None` if unreadable.
    fn map_page(&self, ppa: Ppa) -> Option<Vec<u8>>;
}

/// Result of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountReport {
    /// Spare areas read to find each block's range.
    pub header_reads: u64,
    /// Translation pages read.
    pub map_page_reads: u64,
    /// Spare areas replayed, or lists of full blocks that stand for theirs.
    pub replay_reads: u64,
    /// The most reads that one die had to do; dies work in parallel.
    pub busiest_die_reads: u64,
    /// Pages found.
    pub mapped_units: u64,
    /// Pages lost with translation pages that cannot be read.
    pub lost_units: u64,
    /// Pages that held data before a power cut, on a drive that keeps none ([`Durability::Volatile`](crate::Durability::Volatile)).
    pub forgotten_units: u64,
    /// Pages whose newest acknowledged data only a volatile buffer held at a power cut: what they held before is back.
    pub undone_units: u64,
}

/// Gap after numbers that cannot be read in torn superpages. A drive in use has fewer programs planned than this, so numbers behind the
/// gap are above all of them.
const SEQUENCE_GAP: u64 = 1 << 20;
/// Age, in sequence numbers, beyond which a block is not written on: the numbers of its superpages count from its first, in 32 bits, and
/// as many again may be given until it is full.
pub(crate) const BLOCK_SEQUENCES: u64 = 1 << 31;

/// Content of the newest copies of the translation pages.
struct Loaded {
    /// Watermark of each translation page; 0: every copy that is found counts.
    watermarks: Vec<u64>,
    /// Translation pages with trimmed pages that cannot be read, and the sequence numbers with which they were written.
    unreadable: Vec<(u32, u64)>,
    /// Entries of the translation pages (cache).
    found: Vec<Found>,
}

struct BlockRange {
    block: BlockId,
    superpages: u32,
    first: u64,
    last: u64,
    meta: bool,
    owner: u16,
}

/// Logical page and sequence number of a unit.
fn spare(source: &impl MountSource, ppa: Ppa) -> Option<(Lpn, u64)> {
    source.spare(ppa).map(|(lpn, stored)| (lpn, split_sequence(stored).0))
}

impl PageMap {
    /// Starts translation on these media; also returns the report of a mount.
    pub(crate) fn start<S: MountSource>(
        config: &FtlConfig,
        layout: &Layout,
        from: Start<'_, S>,
    ) -> Result<(PageMap, Option<MountReport>), SetupError> {
        match from {
            Start::Empty { bad, erases } => {
                let mut map = PageMap::new(config, layout, bad)?;
                (0..layout.blocks).for_each(|block| map.blocks.set_erases(BlockId(block), erases));
                Ok((map, None))
            }
            Start::Mount(source) => {
                PageMap::mount(config, layout, source).map(|(map, report)| (map, Some(report)))
            }
            Start::Restore(source) => {
                PageMap::restore(config, layout, source).map(|(map, report)| (map, Some(report)))
            }
        }
    }

    /// Rebuilds translation from the media. With [`Durability::Volatile`] the drive starts empty: blocks that hold
    /// anything are emptied and erased by GC.
    pub fn mount(
        config: &FtlConfig,
        layout: &Layout,
        source: &impl MountSource,
    ) -> Result<(PageMap, MountReport), SetupError> {
        let keep = config.durability != Durability::Volatile;
        let (mut map, report) = PageMap::rebuild(config, layout, source, keep)?;
        if keep {
            map.expect_power_cuts();
        }
        Ok((map, report))
    }

    /// As [`PageMap::mount`], but for media that were saved on purpose: what they hold is kept with
    /// [`Durability::Volatile`] too. Such a drive has no record of trimmed pages, so their last copy comes back if it has
    /// not been erased.
    pub fn restore(
        config: &FtlConfig,
        layout: &Layout,
        source: &impl MountSource,
    ) -> Result<(PageMap, MountReport), SetupError> {
        PageMap::rebuild(config, layout, source, true)
    }

    fn rebuild(
        config: &FtlConfig,
        layout: &Layout,
        source: &impl MountSource,
        keep: bool,
    ) -> Result<(PageMap, MountReport), SetupError> {
        let blocks = || (0..layout.blocks).map(BlockId);
        let bad: Vec<BlockId> = blocks().filter(|&b| source.is_bad(b)).collect();
        let mut map = PageMap::new_worn(config, layout, &bad)?;
        let mut report = MountReport::default();
        let mut reads = vec![0u64; layout.dies as usize];
        for block in blocks() {
            map.blocks.set_erases(block, source.erases(block));
        }
        let ranges: Vec<BlockRange> = blocks()
            .filter(|&b| !source.is_bad(b) && source.used_superpages(b) > 0)
            .map(|b| {
                reads[layout.die_of_block(b).0 as usize] += 2;
                report.header_reads += 2;
                map.range(b, source)
            })
            .collect();
        let sequence = ranges.iter().map(|r| r.last).max().unwrap_or(0) + SEQUENCE_GAP;
        map.set_sequence(sequence);
        if keep {
            let mut loaded = map.load_map_pages(&ranges, source, &mut report, &mut reads);
            map.replay(&ranges, &mut loaded, source, &mut report, &mut reads);
            report.lost_units = map.restore_copies(loaded.found);
            report.lost_units += map.give_up_doubtful(&loaded.unreadable, source);
        }
        map.restore_blocks(&ranges, sequence);
        map.restore_handles();
        map.mount_map_cache(source);
        let user_units = map.user_units;
        let mapped = map.table.placed().filter(|(lpn, ppa)| lpn.0 < user_units && ppa.is_some());
        report.mapped_units = mapped.count() as u64;
        report.busiest_die_reads = reads.into_iter().max().unwrap_or(0);
        Ok((map, report))
    }

    /// Reserves one more free block per die after a power cut. Each cut tears the superpages that are being programmed, so the block kept
    /// free for a victim may no longer hold all of it, and power may be cut again before GC has repaired that.
    fn expect_power_cuts(&mut self) {
        let good = self.layout.blocks - self.blocks.bad_count();
        let most =
            self.config.units_max(&self.layout, good, self.blocks.live_dies(), self.config.working_blocks());
        self.gc.cut_reserve = u32::from(self.held_units() <= most);
    }

    fn unit_of_superpage(&self, block: BlockId, superpage: u32, unit: u32) -> Ppa {
        self.layout.ppa(block, superpage * self.layout.units_per_superpage + unit)
    }

    fn range(&self, block: BlockId, source: &impl MountSource) -> BlockRange {
        let superpages = source.used_superpages(block);
        let readable = |s: &u32| source.spare(self.unit_of_superpage(block, *s, 0));
        // Torn and failed superpages have no readable spare area; their neighbours bound the range.
        let first = (0..superpages).find_map(|s| readable(&s));
        let last = (0..superpages).rev().find_map(|s| readable(&s));
        // The description has fewer handles than the media were written with: those blocks belong to no handle.
        let owner = first.map_or(0, |(_, stored)| split_sequence(stored).1);
        let owner = if owner < self.config.handles { owner } else { 0 };
        let meta =
            first.is_some_and(|(lpn, _)| lpn != Lpn::NONE && self.without_state(lpn).0 >= self.user_units);
        BlockRange {
            block,
            superpages,
            first: first.map_or(u64::MAX, |s| split_sequence(s.1).0),
            last: last.map_or(0, |s| split_sequence(s.1).0),
            meta,
            owner,
        }
    }

    fn load_map_pages(
        &mut self,
        ranges: &[BlockRange],
        source: &impl MountSource,
        report: &mut MountReport,
        reads: &mut [u64],
    ) -> Loaded {
        let count = self.table.pages() - self.user_units;
        let mut newest = vec![(Ppa::NONE, 0u64, Lpn::NONE); count as usize];
        for range in ranges.iter().filter(|r| r.meta) {
            for unit in 0..range.superpages * self.layout.units_per_superpage {
                let ppa = self.layout.ppa(range.block, unit);
                reads[self.layout.die_of(ppa).0 as usize] += 1;
                if let Some((mark, sequence)) = spare(source, ppa)
                    && mark != Lpn::NONE
                    && let Some(slot) = newest.get_mut((self.named(mark).0 - self.user_units) as usize)
                    && sequence >= slot.1
                {
                    *slot = (ppa, sequence, mark);
                }
            }
        }
        let first_of: std::collections::BTreeMap<BlockId, u64> =
            ranges.iter().map(|r| (r.block, r.first)).collect();
        // A volatile drive writes no translation pages; then everything is replayed.
        let count = match self.table.sparse() {
            None => self.user_units.div_ceil(self.pages.entries),
            Some(sparse) => sparse.regions(),
        };
        let mut watermarks = vec![0; count as usize];
        let (mut unreadable, mut found) = (Vec::new(), Vec::new());
        for (page, &(ppa, written, mark)) in newest.iter().enumerate().filter(|(_, n)| n.0.is_some()) {
            report.map_page_reads += 1;
            self.table.set(self.map_page_lpn(page as u32), ppa);
            let trimmed = mark == self.map_page_lpn(page as u32);
            if trimmed {
                self.pages.set_trimmed(page as u32);
            }
            let bytes = source.map_page(ppa);
            let Some((watermark, entries)) = bytes.and_then(|b| parse(&b, page as u32)) else {
                unreadable.extend(trimmed.then_some((page as u32, written)));
                continue;
            };
            watermarks[page] = watermark;
            self.pages.set_watermark(page as u32, watermark);
            let layout = self.layout.clone();
            let begun = |ppa| first_of.get(&layout.block_of(ppa));
            let counts = |ppa| ppa == Ppa::LOST || begun(ppa).is_some_and(|&first| first < watermark);
            if self.table.sparse().is_some() {
                found.extend(self.found_in_region(&entries, counts));
                continue;
            }
            let first_lpn = page as u32 * self.pages.entries;
            for (lpn, entry) in (first_lpn..self.user_units).zip(entries).filter(|&(_, e)| e != 0) {
                let ppa = Ppa(entry - 1);
                if counts(ppa) {
                    self.table.set(Lpn(lpn), ppa);
                }
            }
        }
        Loaded { watermarks, unreadable, found }
    }

    /// Gives up pages of unreadable translation pages: a copy older than its translation page may have been trimmed before that was written,
    /// or not. It is not erased before the new translation page says that the page is lost. Returns how many there are.
    fn give_up_doubtful(&mut self, unreadable: &[(u32, u64)], source: &impl MountSource) -> u64 {
        let mut lost = 0;
        for &(page, written) in unreadable {
            self.pages.dirty(page, self.sequence);
            let first = page * self.pages.entries;
            let lpns: Vec<Lpn> = match self.table.sparse() {
                None => (first..(first + self.pages.entries).min(self.user_units)).map(Lpn).collect(),
                Some(sparse) => sparse.of_region(page).map(|slot| slot.lpn()).collect(),
            };
            for lpn in lpns {
                let known = self.copy_of(lpn);
                if known.is_some() && spare(source, known).is_none_or(|(_, sequence)| sequence < written) {
                    self.doubt(lpn);
                    self.keep_until_saved(known);
                    lost += 1;
                }
            }
        }
        lost
    }

    fn replay(
        &mut self,
        ranges: &[BlockRange],
        Loaded { watermarks, found, .. }: &mut Loaded,
        source: &impl MountSource,
        report: &mut MountReport,
        reads: &mut [u64],
    ) {
        let is_cache = self.table.sparse().is_some();
        let lowest = watermarks.iter().copied().min().unwrap_or(0);
        for range in ranges.iter().filter(|r| !r.meta && r.last >= lowest) {
            let list = self.unit_of_superpage(range.block, self.layout.superpages_per_block - 1, 0);
            let count = self.replay_reads(range.superpages, source.spare(list).is_some());
            reads[self.layout.die_of_block(range.block).0 as usize] += count;
            report.replay_reads += count;
            for unit in 0..range.superpages * self.layout.units_per_superpage {
                let ppa = self.layout.ppa(range.block, unit);
                let Some((mark, sequence)) = spare(source, ppa) else { continue };
                let lpn = self.without_state(mark);
                if lpn.0 >= self.user_units || sequence < watermarks[self.page_of(lpn) as usize] {
                    continue;
                }
                if is_cache {
                    found.push(Found { lpn, sequence, ppa, dirty: mark != lpn });
                    continue;
                }
                let known = self.copy_of(lpn);
                // Equal numbers: one superpage holds the page twice, and the later unit is the newer copy.
                let newer = !known.is_some() || spare(source, known).is_none_or(|(_, s)| s <= sequence);
                if newer {
                    self.table.set(lpn, ppa);
                }
            }
        }
    }

    /// Restores the blocks; programs continue with number `next`.
    fn restore_blocks(&mut self, ranges: &[BlockRange], next: u64) {
        let mut valid = vec![0u32; self.layout.blocks as usize];
        let needed: Vec<Ppa> =
            self.table.placed().filter(|&(lpn, ppa)| self.is_needed(lpn, ppa)).map(|p| p.1).collect();
        for ppa in needed {
            self.table.set_valid(ppa);
            valid[self.layout.block_of(ppa).0 as usize] += 1;
        }
        // The block with the most free superpages goes to GC, which must be able to finish what the power cut interrupted.
        let mut emptiest: Vec<&BlockRange> = ranges.iter().collect();
        emptiest.sort_by_key(|r| r.superpages);
        for range in emptiest {
            // Where all superpages are torn, the numbers they began with are not known to be below the next ones: programs
            // may have been cut off since the last mount without a single one that ended.
            let whole = self.superpages_of_kind(self.blocks.is_cache(range.block), range.meta);
            let partial = range.superpages < whole
                && range.first != u64::MAX
                && next.saturating_sub(range.first) < BLOCK_SEQUENCES;
            let apart = self.config.isolation == Isolation::Persistent;
            let streams: &[Stream] = match range.owner {
                _ if self.blocks.is_cache(range.block) => &[Stream::Cached],
                _ if range.meta => &[Stream::Meta],
                0 => &[Stream::Gc, Stream::Host, Stream::HostCold],
                handle if apart => &[Stream::PlacedGc(handle), Stream::Placed(handle)],
                handle => &[Stream::Placed(handle)],
            };
            // The spare area does not tell host data from GC copies.
            let likely = match range.owner {
                _ if self.blocks.is_cache(range.block) => BlockStream::Cache,
                _ if range.meta => BlockStream::Map,
                0 => BlockStream::Host,
                handle => BlockStream::Handle(handle),
            };
            self.blocks.set_kind(range.block, range.meta, range.owner, likely);
            let open = partial && streams.iter().any(|&s| self.reopen(range.block, s, range.superpages));
            self.blocks.restore(range.block, valid[range.block.0 as usize], open, range.last);
        }
    }

    /// Lets `block` take data of `stream` from `superpage` on, if no other block is open for it.
    fn reopen(&mut self, block: BlockId, stream: Stream, superpage: u32) -> bool {
        self.blocks.reopen(self.config.shared(stream).place(), OpenBlock { block, superpage })
    }
}
