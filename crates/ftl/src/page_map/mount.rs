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
//! The spare area of a translation page says whether any of its pages were trimmed. If so, and the page itself is unreadable, copies
//! programmed after it are valid; older ones are lost ([`Ppa::LOST`]), and the translation page is rewritten accordingly.

use super::copies::keep_until_saved;
use super::core::Core;
use super::table::{Found, Table};
use super::{reclaim_units, split_sequence};
use crate::Isolation;
use crate::block_manager::OpenBlock;
use crate::mount::{BLOCK_SEQUENCES, MountReport, MountSource};
use crate::translation::Stream;
use crate::translation_pages::parse;
use pellucid_flash::{BlockId, BlockStream, Lpn, Ppa};
use std::collections::BTreeMap;

/// Gap after numbers that cannot be read in torn superpages. A drive in use has fewer programs planned than this, so numbers behind the
/// gap are above all of them.
const SEQUENCE_GAP: u64 = 1 << 20;

/// A block that holds something, and the numbers of its programs.
struct BlockRange {
    block: BlockId,
    superpages: u32,
    first: u64,
    last: u64,
    meta: bool,
    owner: u16,
}

/// A mount under way.
struct Mount<'a, T, S> {
    core: &'a mut Core<T>,
    source: &'a S,
    ranges: Vec<BlockRange>,
    report: MountReport,
    /// Reads of each die.
    reads: Vec<u64>,
    /// Watermark of each translation page; 0: every copy that is found counts.
    watermarks: Vec<u64>,
    /// Translation pages with trimmed pages that cannot be read, and the sequence numbers with which they were written.
    unreadable: Vec<(u32, u64)>,
}

/// Rebuilds the state of `core`, which was made without the bad blocks, from the media; `keep`: keeps their contents.
pub(super) fn rebuild<T: Table>(core: &mut Core<T>, source: &impl MountSource, keep: bool) -> MountReport {
    let layout = core.shape.layout.clone();
    for block in (0..layout.blocks).map(BlockId) {
        core.blocks.set_erases(block, source.erases(block));
    }
    let (report, reads) = (MountReport::default(), vec![0; layout.dies as usize]);
    let (ranges, watermarks, unreadable) = Default::default();
    let mut mount = Mount { core, source, ranges, report, reads, watermarks, unreadable };
    mount.read_headers();
    let sequence = mount.ranges.iter().map(|range| range.last).max().unwrap_or(0) + SEQUENCE_GAP;
    mount.core.go_on_from(sequence);
    if keep {
        mount.load_map_pages();
        mount.replay();
        mount.report.lost_units = T::keep_found(mount.core);
        mount.report.lost_units += mount.give_up_doubtful();
    }
    mount.restore_blocks(sequence);
    mount.finish()
}

/// Reserves one more free block per die after a power cut. Each cut tears the superpages that are being programmed, so the block kept
/// free for a victim may no longer hold all of it, and power may be cut again before GC has repaired that.
pub(super) fn expect_power_cuts<T: Table>(core: &mut Core<T>) {
    let good = core.shape.layout.blocks - core.blocks.bad_count();
    if !core.shape.is_too_large_for(good, core.blocks.live_dies()) {
        core.gc.reserve_for_cut();
    }
}

impl<T: Table, S: MountSource> Mount<'_, T, S> {
    fn count_reads(&mut self, block: BlockId, reads: u64) {
        self.reads[self.core.shape.layout.die_of_block(block).0 as usize] += reads;
    }

    fn unit(&self, block: BlockId, superpage: u32, unit: u32) -> Ppa {
        let layout = &self.core.shape.layout;
        layout.ppa(block, superpage * layout.units_per_superpage + unit)
    }

    /// Logical page and sequence number of a unit.
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)> {
        self.source.spare(ppa).map(|(lpn, stored)| (lpn, split_sequence(stored).0))
    }

    /// Units of the superpages that a block has used.
    fn units_of(&self, range: &BlockRange) -> impl Iterator<Item = Ppa> + use<T, S> {
        let layout = &self.core.shape.layout;
        let first = layout.ppa(range.block, 0).0;
        (first..first + range.superpages * layout.units_per_superpage).map(Ppa)
    }

    fn read_headers(&mut self) {
        for block in (0..self.core.shape.layout.blocks).map(BlockId) {
            if !self.source.is_bad(block) && self.source.used_superpages(block) > 0 {
                self.count_reads(block, 2);
                self.report.header_reads += 2;
                self.ranges.push(self.range(block));
            }
        }
    }

    fn range(&self, block: BlockId) -> BlockRange {
        let shape = &self.core.shape;
        let superpages = self.source.used_superpages(block);
        let readable = |s: &u32| self.source.spare(self.unit(block, *s, 0));
        // Torn and failed superpages have no readable spare area; their neighbours bound the range.
        let first = (0..superpages).find_map(|s| readable(&s));
        let last = (0..superpages).rev().find_map(|s| readable(&s));
        // The description has fewer handles than the media were written with: those blocks belong to no handle.
        let owner = first.map_or(0, |(_, stored)| split_sequence(stored).1);
        let owner = if owner < shape.config.handles { owner } else { 0 };
        let is_map = |mark: Lpn| mark != Lpn::NONE && !shape.is_hosts(T::named(mark));
        BlockRange {
            block,
            superpages,
            first: first.map_or(u64::MAX, |s| split_sequence(s.1).0),
            last: last.map_or(0, |s| split_sequence(s.1).0),
            meta: first.is_some_and(|(mark, _)| is_map(mark)),
            owner,
        }
    }

    /// Place, number and mark of the newest copy of each translation page.
    fn newest_map_pages(&mut self) -> Vec<(Ppa, u64, Lpn)> {
        let mut newest = vec![(Ppa::NONE, 0u64, Lpn::NONE); self.core.shape.map_pages as usize];
        let ranges = std::mem::take(&mut self.ranges);
        for range in ranges.iter().filter(|r| r.meta) {
            for ppa in self.units_of(range) {
                self.count_reads(range.block, 1);
                if let Some((mark, sequence)) = self.spare(ppa)
                    && mark != Lpn::NONE
                    && let Some(slot) =
                        newest.get_mut((self.core.named(mark).0 - self.core.shape.user_units) as usize)
                    && sequence >= slot.1
                {
                    *slot = (ppa, sequence, mark);
                }
            }
        }
        self.ranges = ranges;
        newest
    }

    fn load_map_pages(&mut self) {
        let newest = self.newest_map_pages();
        let first_of: BTreeMap<BlockId, u64> = self.ranges.iter().map(|r| (r.block, r.first)).collect();
        // A volatile drive writes no translation pages; then everything is replayed.
        let count = self.core.table.parts(&self.core.shape);
        self.watermarks = vec![0; count as usize];
        for (page, (ppa, written, mark)) in (0..).zip(newest).filter(|(_, newest)| newest.0.is_some()) {
            self.report.map_page_reads += 1;
            let lpn = self.core.shape.map_page_lpn(page);
            self.core.table.set(lpn, ppa);
            let trimmed = mark == lpn;
            if trimmed {
                self.core.pages.set_trimmed(page);
            }
            match self.source.map_page(ppa).and_then(|bytes| parse(&bytes, page)) {
                Some((watermark, entries)) => self.load_map_page(page, watermark, &entries, &first_of),
                None => self.unreadable.extend(trimmed.then_some((page, written))),
            }
        }
    }

    fn load_map_page(
        &mut self,
        page: u32,
        watermark: u64,
        entries: &[u32],
        first_of: &BTreeMap<BlockId, u64>,
    ) {
        let core = &mut *self.core;
        self.watermarks[page as usize] = watermark;
        core.pages.set_watermark(page, watermark);
        let layout = core.shape.layout.clone();
        let begun = |ppa| first_of.get(&layout.block_of(ppa));
        let counts = |ppa| ppa == Ppa::LOST || begun(ppa).is_some_and(|&first| first < watermark);
        T::load_part(core, page, entries, counts);
    }

    /// Takes the copies that are newer than the translation pages of their pages.
    fn replay(&mut self) {
        let lowest = self.watermarks.iter().copied().min().unwrap_or(0);
        let ranges = std::mem::take(&mut self.ranges);
        for range in ranges.iter().filter(|r| !r.meta && r.last >= lowest) {
            let list = self.unit(range.block, self.core.shape.layout.superpages_per_block - 1, 0);
            let is_readable = self.source.spare(list).is_some();
            let count = match self.core.shape.ends_with_list(range.superpages) && is_readable {
                true => 1,
                false => u64::from(range.superpages * self.core.shape.layout.units_per_superpage),
            };
            self.count_reads(range.block, count);
            self.report.replay_reads += count;
            for ppa in self.units_of(range) {
                self.replay_unit(ppa);
            }
        }
        self.ranges = ranges;
    }

    fn replay_unit(&mut self, ppa: Ppa) {
        let Some((mark, sequence)) = self.spare(ppa) else { return };
        let lpn = T::named(mark);
        if !self.core.shape.is_hosts(lpn) || sequence < self.watermarks[self.core.page_of(lpn) as usize] {
            return;
        }
        let source = self.source;
        // Equal numbers: one superpage holds the page twice, and the later unit is the newer copy.
        let is_newer = |known| source.spare(known).is_none_or(|(_, s)| split_sequence(s).0 <= sequence);
        T::found(self.core, Found { lpn, sequence, ppa, dirty: mark != lpn }, is_newer);
    }

    /// Gives up pages of unreadable translation pages: a copy older than its translation page may have been trimmed before that was written,
    /// or not. It is not erased before the new translation page says that the page is lost. Returns how many there are.
    fn give_up_doubtful(&mut self) -> u64 {
        let mut lost = 0;
        for (page, written) in std::mem::take(&mut self.unreadable) {
            let shape = &self.core.shape;
            self.core.pages.dirty(page, self.core.programs.sequence());
            for lpn in self.core.table.pages_of(shape, page) {
                let known = self.core.copy_of(lpn);
                if known.is_some() && self.spare(known).is_none_or(|(_, sequence)| sequence < written) {
                    self.core.table.doubt(lpn);
                    keep_until_saved(self.core, known);
                    lost += 1;
                }
            }
        }
        lost
    }

    /// Restores the blocks; programs continue with number `next`.
    fn restore_blocks(&mut self, next: u64) {
        let core = &mut *self.core;
        let mut valid = vec![0u32; core.shape.layout.blocks as usize];
        let is_needed = |&(lpn, ppa): &(Lpn, Ppa)| ppa.is_some() && core.table.needs_copy(&core.shape, lpn);
        let needed = core.table.placed().filter(is_needed);
        let needed: Vec<Ppa> = needed.map(|placed| placed.1).collect();
        for ppa in needed {
            core.valid.add(ppa);
            valid[core.shape.layout.block_of(ppa).0 as usize] += 1;
        }
        // The block with the most free superpages goes to GC, which must be able to finish what the power cut interrupted.
        let mut emptiest: Vec<&BlockRange> = self.ranges.iter().collect();
        emptiest.sort_by_key(|r| r.superpages);
        for range in emptiest {
            restore_block(core, range, valid[range.block.0 as usize], next);
        }
    }

    fn finish(mut self) -> MountReport {
        let core = self.core;
        reclaim_units::restore(core);
        if let Some(demand) = &mut core.demand {
            demand.mount(&core.shape, &core.table, self.source);
        }
        let mapped = core.table.placed().filter(|&(lpn, ppa)| core.shape.is_hosts(lpn) && ppa.is_some());
        self.report.mapped_units = mapped.count() as u64;
        self.report.busiest_die_reads = self.reads.into_iter().max().unwrap_or(0);
        self.report
    }
}

/// Restores a block with so many valid units; programs continue with number `next`.
fn restore_block<T: Table>(core: &mut Core<T>, range: &BlockRange, valid: u32, next: u64) {
    let in_cache = core.blocks.slc().has(range.block);
    // Where all superpages are torn, the numbers they began with are not known to be below the next ones: programs
    // may have been cut off since the last mount without a single one that ended.
    let partial = range.superpages < core.shape.superpages_of_kind(in_cache, range.meta)
        && range.first != u64::MAX
        && next.saturating_sub(range.first) < BLOCK_SEQUENCES;
    let apart = core.shape.config.isolation == Isolation::Persistent;
    let streams: &[Stream] = match range.owner {
        _ if in_cache => &[Stream::Cached],
        _ if range.meta => &[Stream::Meta],
        0 => &[Stream::Gc, Stream::Host, Stream::HostCold],
        handle if apart => &[Stream::PlacedGc(handle), Stream::Placed(handle)],
        handle => &[Stream::Placed(handle)],
    };
    // The spare area does not tell host data from GC copies.
    let likely = match range.owner {
        _ if in_cache => BlockStream::Cache,
        _ if range.meta => BlockStream::Map,
        0 => BlockStream::Host,
        handle => BlockStream::Handle(handle),
    };
    core.blocks.set_kind(range.block, range.meta, range.owner, likely);
    let open = partial && streams.iter().any(|&stream| reopen(core, range, stream));
    core.blocks.restore(range.block, valid, open, range.last + 1);
}

/// Lets a block take data of `stream` behind its last superpage, if no other block is open for it.
fn reopen<T: Table>(core: &mut Core<T>, range: &BlockRange, stream: Stream) -> bool {
    let place = core.shape.config.shared(stream).place();
    core.blocks.reopen(place, OpenBlock { block: range.block, superpage: range.superpages })
}
