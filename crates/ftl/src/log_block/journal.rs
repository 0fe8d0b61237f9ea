//! Journal of trimmed and lost pages: the only part of the map that cannot be rebuilt from data programs alone.
//!
//! The pages of a die are cut into *trim pages* of one mapping unit each. A trim page is metadata on the media; its content is
//!
//! ```text
//! offset 0   8 bytes  watermark: every program with a lower sequence number is reflected in the states
//!        8   8 bytes  number of the trim page (a check)
//!       16   2 bits for each page: 0: its newest copy counts; 1: trimmed; 2: lost
//! ```
//! Copies of a trimmed or lost page do not count if their sequence number is below the watermark. The spare area of trim page t names
//! logical page `user_units + t`.
//!
//! Each die has a few blocks of its own for its trim pages, so that they never wait for a merge. When the last of these blocks is taken,
//! the current content of the emptiest one is rewritten. A trim page with new trims is written when a flush or an erase waits for it: a
//! block with a copy that only an unsaved trim made invalid is not erased, as a power cut would bring back an even older copy. The page
//! is written once the programs that were planned before the trim have ended, so that none of them is found above the watermark.

use super::LogBlock;
use super::blocks::Role;
use super::mark::Kind;
use super::programs::Content;
use crate::translation::{FlushPoint, MapJob, ProgramId};
use pellucid_flash::{BlockId, Cause, DieId, Layout, Lpn, Ppa};
use std::collections::VecDeque;

/// Bytes before the states.
const HEADER_BYTES: usize = 16;
const STATES_PER_BYTE: u32 = 4;

/// State of a page according to the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageState {
    Kept,
    Trimmed,
    Lost,
}

/// A trim page with trims that are not on the media.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    page: u32,
    /// Number of the first of these trims.
    first_trim: u64,
    /// Sequence number at the last one.
    sequence: u64,
}

/// Metadata programmed next, or now, in a die.
#[derive(Clone, Debug, Default)]
struct Batch {
    /// Trim pages of the die. Those with trims are `Some`; the others are only written elsewhere.
    pages: Vec<(u32, Option<Dirty>)>,
    program: Option<ProgramId>,
    images: Vec<u8>,
}

/// The trim pages of a die.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    /// Place of each trim page.
    places: Vec<Ppa>,
    /// Trim pages with unsaved trims, in the order of their first trims.
    dirty: VecDeque<Dirty>,
    batch: Batch,
    /// Blocks in use, and the next superpage of the last one, if it takes more.
    pub(super) blocks: Vec<BlockId>,
    next: Option<u32>,
    /// Blocks that are being given up.
    pub(super) emptying: Vec<(BlockId, Cause)>,
}

/// Sizes of the journal of one die.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalSizes {
    /// Logical pages of a trim page.
    pub(super) covers: u32,
    /// Trim pages of a die.
    pub(super) pages: u32,
    /// Blocks of a die for the trim pages.
    pub(super) blocks: u32,
}

impl JournalSizes {
    /// Computes the sizes for dies of this many logical blocks. At least one block is free to be written on, and half of the others'
    /// space suffices for all trim pages.
    pub fn new(layout: &Layout, logical_blocks: u32) -> JournalSizes {
        let covers = (layout.unit_bytes - HEADER_BYTES as u32) * STATES_PER_BYTE;
        let pages = (u64::from(logical_blocks) * u64::from(layout.units_per_block)).div_ceil(covers.into());
        let superpages = pages.div_ceil(layout.units_per_superpage.into());
        let blocks = (2 * superpages).div_ceil(layout.superpages_per_block.into()) + 1;
        JournalSizes { covers, pages: pages as u32, blocks: blocks as u32 }
    }
}

impl Journal {
    pub fn new(pages: u32) -> Journal {
        Journal {
            places: vec![Ppa::NONE; pages as usize],
            dirty: VecDeque::new(),
            batch: Batch::default(),
            blocks: Vec::new(),
            next: None,
            emptying: Vec::new(),
        }
    }

    /// Sets, at a mount, the place of trim page `page`.
    pub fn set_place(&mut self, page: u32, place: Ppa) {
        self.places[page as usize] = place;
    }

    /// Continues, at a mount, the last block with this superpage.
    pub fn reopen(&mut self, next: Option<u32>) {
        self.next = next;
    }

    /// Number below which all trims are on the media.
    pub fn saved_before(&self) -> u64 {
        let batch = self.batch.pages.iter().filter_map(|(_, dirty)| *dirty);
        batch.chain(self.dirty.front().copied()).map(|dirty| dirty.first_trim).min().unwrap_or(u64::MAX)
    }

    fn note(&mut self, page: u32, trim: u64, sequence: u64) {
        match self.dirty.iter_mut().find(|dirty| dirty.page == page) {
            Some(dirty) => dirty.sequence = sequence,
            None => self.dirty.push_back(Dirty { page, first_trim: trim, sequence }),
        }
    }

    /// Blocks in use, and the most that may be.
    pub fn blocks_in_use(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Places of the trim pages that are on the media.
    pub fn on_media(&self) -> impl Iterator<Item = Ppa> {
        self.places.iter().copied().filter(|place| place.is_some())
    }
}

impl LogBlock {
    /// Discards a page. Its old copy is invalid at once, but its block is not erased before the trim is on the media.
    pub fn trim(&mut self, lpn: Lpn) {
        let old = self.map.get(lpn);
        if old != Ppa::NONE {
            self.map.set(lpn, Ppa::NONE);
            self.note_trim(lpn);
            self.keep_until_saved(old);
            self.release(old, crate::translation::Outdated::Trimmed);
        }
    }

    /// Records that the copy of `lpn` at `ppa` cannot be read: a mount must not find an older one.
    pub(super) fn note_lost(&mut self, lpn: Lpn, ppa: Ppa) {
        self.note_trim(lpn);
        self.keep_until_saved(ppa);
    }

    pub(super) fn note_trim(&mut self, lpn: Lpn) {
        self.trims += 1;
        if let Some(sizes) = self.journal {
            let (die, at) = self.number_in_die(lpn);
            self.dies[die.0 as usize].journal.note(at / sizes.covers, self.trims, self.sequence);
            self.map_jobs = true;
        }
    }

    /// Die of a page, and its number among the pages of that die.
    fn number_in_die(&self, lpn: Lpn) -> (DieId, u32) {
        let (lbn, at) = self.lbn(lpn);
        (self.die_of_lbn(lbn), lbn / self.layout.dies * self.layout.units_per_block + at)
    }

    /// Trims that a flush waits for beside data: those so far.
    pub fn flush_point(&self) -> FlushPoint {
        FlushPoint(self.trims)
    }

    /// Returns whether everything before `point` is on the media. If not, [`LogBlock::next_map_job`] returns the metadata to write.
    pub fn flush_to(&mut self, point: FlushPoint) -> bool {
        self.save_to = self.save_to.max(point.0);
        self.map_jobs = true;
        self.saved_before() > point.0
    }

    fn saved_before(&self) -> u64 {
        self.dies.iter().map(|die| die.journal.saved_before()).min().unwrap_or(u64::MAX)
    }

    /// Returns the next metadata to be programmed. Called after every change.
    pub fn next_map_job(&mut self) -> Option<MapJob> {
        if !std::mem::take(&mut self.map_jobs) || self.journal.is_none() {
            return None;
        }
        let job = (0..self.layout.dies).map(DieId).find_map(|die| self.metadata_job(die));
        self.map_jobs = job.is_some();
        job
    }

    fn metadata_job(&mut self, die: DieId) -> Option<MapJob> {
        if self.dies[die.0 as usize].dead || self.dies[die.0 as usize].journal.batch.program.is_some() {
            return None;
        }
        self.empty_a_block(die);
        let cause = self.choose_batch(die)?;
        let batch = &self.dies[die.0 as usize].journal.batch;
        let last = batch.pages.iter().filter_map(|(_, dirty)| dirty.map(|dirty| dirty.sequence)).max();
        if last.is_some_and(|sequence| self.oldest_program(die) < sequence) {
            return None;
        }
        let units = batch.pages.len() as u32;
        let (block, superpage) = self.metadata_superpage(die)?;
        self.write_images(die);
        let plan = self.plan_other(block, superpage, Kind::Metadata, Content::Metadata, units);
        self.dies[die.0 as usize].journal.batch.program = Some(plan.id);
        let mut by_cause = [0; Cause::COUNT];
        by_cause[cause as usize] = units;
        Some(MapJob::Program { plan, units, cause, by_cause })
    }

    /// Chooses trim pages for the next program: those of a block that is given up, or those with trims that a flush waits for.
    fn choose_batch(&mut self, die: DieId) -> Option<Cause> {
        let save_to = self.save_to;
        let per_superpage = self.layout.units_per_superpage as usize;
        let layout = &self.layout;
        let journal = &mut self.dies[die.0 as usize].journal;
        let waiting = journal.batch.pages.iter().any(|(_, dirty)| dirty.is_some());
        if waiting {
            return Some(Cause::Journal);
        }
        journal.batch.pages.clear();
        for &(block, cause) in &journal.emptying {
            let lies_there = |&(_, place): &(u32, &Ppa)| place.is_some() && layout.block_of(*place) == block;
            let pages = (0..).zip(&journal.places).filter(lies_there);
            journal.batch.pages.extend(pages.take(per_superpage).map(|(page, _)| (page, None)));
            if !journal.batch.pages.is_empty() {
                return Some(cause);
            }
        }
        while journal.batch.pages.len() < per_superpage
            && let Some(&dirty) = journal.dirty.front()
            && (dirty.first_trim <= save_to || !journal.batch.pages.is_empty())
        {
            journal.dirty.pop_front();
            journal.batch.pages.push((dirty.page, Some(dirty)));
        }
        (!journal.batch.pages.is_empty()).then_some(Cause::Journal)
    }

    /// Place of the next superpage of metadata; `None`: there is no block.
    fn metadata_superpage(&mut self, die: DieId) -> Option<(BlockId, u32)> {
        if self.dies[die.0 as usize].journal.next.is_none() {
            let block = self.blocks.take(die, Role::Metadata, false)?;
            let journal = &mut self.dies[die.0 as usize].journal;
            journal.blocks.push(block);
            journal.next = Some(0);
        }
        let superpages = self.layout.superpages_per_block;
        let journal = &mut self.dies[die.0 as usize].journal;
        let (&block, next) = (journal.blocks.last()?, journal.next?);
        journal.next = Some(next + 1).filter(|&next| next < superpages);
        Some((block, next))
    }

    /// Gives up the emptiest block when all allowed blocks are in use; gives up blocks that hold nothing in any case.
    fn empty_a_block(&mut self, die: DieId) {
        let Some(sizes) = self.journal else { return };
        let journal = &self.dies[die.0 as usize].journal;
        let open = journal.next.and(journal.blocks.last());
        let full: Vec<BlockId> =
            journal.blocks.iter().filter(|&block| Some(block) != open).copied().collect();
        for &block in &full {
            if self.blocks.references(block) == 0 && self.blocks.in_flight(block) == 0 {
                let journal = &mut self.dies[die.0 as usize].journal;
                let emptying = journal.emptying.iter().position(|&(other, _)| other == block);
                let cause = emptying.map_or(Cause::Journal, |at| journal.emptying.remove(at).1);
                journal.blocks.retain(|&other| other != block);
                self.blocks.leave(block, cause, None);
                self.released = true;
            }
        }
        let journal = &self.dies[die.0 as usize].journal;
        if journal.blocks_in_use() >= sizes.blocks && journal.emptying.is_empty() {
            let settled = full.iter().filter(|&&block| {
                self.blocks.role(block) == Role::Metadata && self.blocks.in_flight(block) == 0
            });
            if let Some(&block) = settled.min_by_key(|&&block| self.blocks.references(block)) {
                self.dies[die.0 as usize].journal.emptying.push((block, Cause::Journal));
            }
        }
    }

    /// Gives up `block`: metadata have to leave it.
    pub(super) fn give_up_metadata(&mut self, die: DieId, block: BlockId) {
        self.empty_metadata(die, block, Cause::Retirement);
    }

    pub(super) fn empty_metadata(&mut self, die: DieId, block: BlockId, cause: Cause) -> bool {
        let journal = &mut self.dies[die.0 as usize].journal;
        if journal.blocks.last() == Some(&block) {
            journal.next = None;
        }
        let news = journal.emptying.iter().all(|&(other, _)| other != block);
        if news {
            journal.emptying.push((block, cause));
            self.map_jobs = true;
        }
        news
    }

    fn write_images(&mut self, die: DieId) {
        let mut batch = std::mem::take(&mut self.dies[die.0 as usize].journal.batch);
        let unit = self.layout.unit_bytes as usize;
        batch.images.clear();
        batch.images.resize(batch.pages.len() * unit, 0);
        let watermark = self.oldest_program(die);
        for (&(page, _), image) in batch.pages.iter().zip(batch.images.chunks_exact_mut(unit)) {
            self.write_image(die, page, watermark, image);
        }
        self.dies[die.0 as usize].journal.batch = batch;
    }

    fn write_image(&self, die: DieId, page: u32, watermark: u64, image: &mut [u8]) {
        image[0..8].copy_from_slice(&watermark.to_le_bytes());
        image[8..16].copy_from_slice(&u64::from(self.trim_page(die, page)).to_le_bytes());
        for (at, lpn) in self.pages_of_trim_page(die, page) {
            let state = match self.map.get(lpn) {
                ppa if ppa.is_some() => self.readable(ppa),
                ppa => ppa,
            };
            let bits = match state {
                Ppa::NONE => 1,
                Ppa::LOST => 2,
                _ => 0,
            };
            image[HEADER_BYTES + (at / STATES_PER_BYTE) as usize] |= bits << (2 * (at % STATES_PER_BYTE));
        }
    }

    /// Number of trim page `page` of `die` among those of the drive.
    pub(super) fn trim_page(&self, die: DieId, page: u32) -> u32 {
        die.0 * self.journal.map_or(0, |sizes| sizes.pages) + page
    }

    /// Trim pages of the drive.
    pub(super) fn trim_pages(&self) -> u32 {
        self.layout.dies * self.journal.map_or(0, |sizes| sizes.pages)
    }

    /// The logical pages of a trim page, with their positions.
    pub(super) fn pages_of_trim_page(
        &self,
        die: DieId,
        page: u32,
    ) -> impl Iterator<Item = (u32, Lpn)> + use<> {
        let covers = self.journal.map_or(0, |sizes| sizes.covers);
        let (first, dies, split) = (page * covers, self.layout.dies, self.layout.split.units_per_block);
        let user = self.user_units;
        let blocks = user.div_ceil(split.get());
        (0..covers)
            .map_while(move |at| {
                let (local, unit) = split.div_rem(first + at);
                let lbn = local * dies + die.0;
                (lbn < blocks).then(|| (at, Lpn(lbn * split.get() + unit)))
            })
            .filter(move |(_, lpn)| lpn.0 < user)
    }

    /// Logical page for the spare area, and content, of a unit of a planned metadata program.
    ///
    /// # Panics
    /// When no such program is planned.
    pub fn metadata(&self, id: ProgramId, position: u32) -> (Lpn, &[u8]) {
        let journal = |die: &&super::Die| die.journal.batch.program == Some(id);
        let die = self.dies.iter().position(|die| journal(&die)).expect("a metadata program that is planned");
        let batch = &self.dies[die].journal.batch;
        let unit = self.layout.unit_bytes as usize;
        let page = self.trim_page(DieId(die as u32), batch.pages[position as usize].0);
        (Lpn(self.user_units + page), &batch.images[position as usize * unit..][..unit])
    }

    /// Records that the program of the batch of `die` has ended.
    pub(super) fn metadata_ended(&mut self, die: DieId, first: Ppa, ok: bool) {
        let mut batch = std::mem::take(&mut self.dies[die.0 as usize].journal.batch);
        batch.program = None;
        for (at, &(page, dirty)) in (0..).zip(&batch.pages) {
            if ok {
                let place = Ppa(first.0 + at);
                let old =
                    std::mem::replace(&mut self.dies[die.0 as usize].journal.places[page as usize], place);
                self.blocks.refer(self.layout.block_of(place));
                self.release(old, crate::translation::Outdated::Replaced);
            } else if let Some(again) = dirty {
                self.dies[die.0 as usize].journal.write_again(again);
            }
        }
        batch.pages.clear();
        self.dies[die.0 as usize].journal.batch = batch;
        if ok {
            self.empty_a_block(die);
        }
    }
}

impl Journal {
    /// Queues the trims of `again` once more after their program has failed.
    fn write_again(&mut self, again: Dirty) {
        let newer =
            self.dirty.iter().position(|dirty| dirty.page == again.page).map(|at| self.dirty.remove(at));
        let sequence = newer.flatten().map_or(again.sequence, |newer| newer.sequence);
        self.dirty.push_front(Dirty { sequence, ..again });
    }
}

/// Parses a trim page: watermark, and the states of its pages. `None`: the page is not the expected one.
pub(super) fn parse(bytes: &[u8], page: u32) -> Option<(u64, impl Fn(u32) -> PageState)> {
    let watermark = u64::from_le_bytes(bytes.get(0..8)?.try_into().ok()?);
    let number = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    let state = move |at: u32| {
        let byte = bytes[HEADER_BYTES + (at / STATES_PER_BYTE) as usize];
        match byte >> (2 * (at % STATES_PER_BYTE)) & 3 {
            0 => PageState::Kept,
            1 => PageState::Trimmed,
            _ => PageState::Lost,
        }
    };
    (number == u64::from(page)).then_some((watermark, state))
}
