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
//! Each die reserves a few blocks for its trim pages, so that these never wait for a merge. When the last of these blocks is taken, the
//! current contents of the emptiest one are rewritten. A trim page with new trims is written when a flush or an erase waits for it: a
//! block with a copy that only an unsaved trim has invalidated must not be erased, because a power cut would restore an even older copy.
//! The page is written once the programs planned before the trim have ended, so that a mount finds none of them above the watermark.

use super::blocks::Role;
use super::core::Core;
use super::mark::Kind;
use super::programs::Content;
use super::write::plan_other;
use crate::translation::{FlushPoint, MapJob, Outdated, ProgramId};
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
    blocks: Vec<BlockId>,
    next: Option<u32>,
    /// Blocks that are being given up.
    emptying: Vec<(BlockId, Cause)>,
}

/// Sizes of the journal of one die.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalSizes {
    /// Logical pages of a trim page.
    pub covers: u32,
    /// Trim pages of a die.
    pub pages: u32,
    /// Blocks of a die for the trim pages.
    pub blocks: u32,
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

    /// Number below which all trims are on the media.
    pub fn saved_before(&self) -> u64 {
        let batch = self.batch.pages.iter().filter_map(|(_, dirty)| *dirty);
        batch.chain(self.dirty.front().copied()).map(|dirty| dirty.first_trim).min().unwrap_or(u64::MAX)
    }

    /// Returns whether trims of trim page `page` are not on the media.
    fn has_unsaved(&self, page: u32) -> bool {
        let batch = self.batch.pages.iter().filter_map(|(_, dirty)| *dirty);
        batch.chain(self.dirty.iter().copied()).any(|dirty| dirty.page == page)
    }

    fn note(&mut self, page: u32, trim: u64, sequence: u64) {
        match self.dirty.iter_mut().find(|dirty| dirty.page == page) {
            Some(dirty) => dirty.sequence = sequence,
            None => self.dirty.push_back(Dirty { page, first_trim: trim, sequence }),
        }
    }

    /// Number of blocks in use.
    pub fn blocks_in_use(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Places of the trim pages that are on the media.
    pub fn on_media(&self) -> impl Iterator<Item = Ppa> {
        self.places.iter().copied().filter(|place| place.is_some())
    }

    /// Blocks in use.
    pub fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// Adds, at a mount, a block in use; `next`: its next superpage, if it takes more.
    pub fn keep_block(&mut self, block: BlockId, next: Option<u32>) {
        self.blocks.push(block);
        self.next = next;
    }

    /// Returns whether a program of trim pages is under way.
    fn is_programming(&self) -> bool {
        self.batch.program.is_some()
    }

    /// Queues the trims of `again` once more after their program has failed.
    fn write_again(&mut self, again: Dirty) {
        let newer =
            self.dirty.iter().position(|dirty| dirty.page == again.page).map(|at| self.dirty.remove(at));
        let sequence = newer.flatten().map_or(again.sequence, |newer| newer.sequence);
        self.dirty.push_front(Dirty { sequence, ..again });
    }

    /// Chooses at most `most` trim pages for the next program: pages of a block being released, or pages with trims up to `save_to`, for
    /// which a flush waits.
    fn choose_batch(&mut self, most: usize, save_to: u64, layout: &Layout) -> Option<Cause> {
        let waiting = self.batch.pages.iter().any(|(_, dirty)| dirty.is_some());
        if waiting {
            return Some(Cause::Journal);
        }
        self.batch.pages.clear();
        for &(block, cause) in &self.emptying {
            let lies_there = |&(_, place): &(u32, &Ppa)| place.is_some() && layout.block_of(*place) == block;
            let pages = (0..).zip(&self.places).filter(lies_there);
            self.batch.pages.extend(pages.take(most).map(|(page, _)| (page, None)));
            if !self.batch.pages.is_empty() {
                return Some(cause);
            }
        }
        while self.batch.pages.len() < most
            && let Some(&dirty) = self.dirty.front()
            && (dirty.first_trim <= save_to || !self.batch.pages.is_empty())
        {
            self.dirty.pop_front();
            self.batch.pages.push((dirty.page, Some(dirty)));
        }
        (!self.batch.pages.is_empty()).then_some(Cause::Journal)
    }

    /// Takes the next superpage of the last block, which has `superpages` of them; `None`: a block must be
    /// [added](Journal::keep_block) first.
    fn take_superpage(&mut self, superpages: u32) -> Option<(BlockId, u32)> {
        let (next, &block) = (self.next?, self.blocks.last()?);
        self.next = Some(next + 1).filter(|&next| next < superpages);
        Some((block, next))
    }

    /// Blocks that take no more.
    fn full_blocks(&self) -> Vec<BlockId> {
        let open = self.next.and(self.blocks.last());
        self.blocks.iter().filter(|&block| Some(block) != open).copied().collect()
    }

    /// Releases `block`, which is empty; returns the reason.
    fn leave_block(&mut self, block: BlockId) -> Cause {
        let emptying = self.emptying.iter().position(|&(other, _)| other == block);
        let cause = emptying.map_or(Cause::Journal, |at| self.emptying.remove(at).1);
        self.blocks.retain(|&other| other != block);
        cause
    }

    /// Begins to empty `block`; `false`: that has begun.
    fn begin_emptying(&mut self, block: BlockId, cause: Cause) -> bool {
        let news = self.emptying.iter().all(|&(other, _)| other != block);
        if news {
            self.emptying.push((block, cause));
        }
        news
    }
}

/// Records that the copy of `lpn` at `ppa` cannot be read: a mount must not find an older one.
pub(super) fn note_lost(core: &mut Core, lpn: Lpn, ppa: Ppa) {
    note_trim(core, lpn);
    core.keep_until_saved(ppa);
}

/// Discards a page. Its old copy is invalid at once, but its block is not erased before the trim is on the media.
pub(super) fn trim(core: &mut Core, lpn: Lpn) {
    let old = core.map.get(lpn);
    if old != Ppa::NONE {
        core.map.set(lpn, Ppa::NONE);
        note_trim(core, lpn);
        core.keep_until_saved(old);
        core.release(old, Outdated::Trimmed);
    }
}

/// Records that `lpn` was trimmed, or lost.
pub(super) fn note_trim(core: &mut Core, lpn: Lpn) {
    let trim = core.tally.count_trim();
    if let Some(sizes) = core.shape.journal {
        let (die, at) = core.shape.number_in_die(lpn);
        let sequence = core.programs.sequence();
        core.die_mut(die).journal.note(at / sizes.covers, trim, sequence);
        core.tally.set_map_jobs(true);
    }
}

/// Returns whether a trim of `lpn`, or of a page whose trims are written with it, is not on the media.
pub(super) fn is_unsaved(core: &Core, lpn: Lpn) -> bool {
    let Some(sizes) = core.shape.journal else { return false };
    let (die, at) = core.shape.number_in_die(lpn);
    core.die(die).journal.has_unsaved(at / sizes.covers)
}

/// Returns whether everything before `point` is on the media. If not, [`next_map_job`] returns the metadata to write.
pub(super) fn flush_to(core: &mut Core, point: FlushPoint) -> bool {
    core.tally.want_saved(point.0);
    let saved = core.dies.iter().map(|die| die.journal.saved_before()).min();
    saved.unwrap_or(u64::MAX) > point.0
}

/// Returns the next metadata to be programmed. Called after every change.
pub(super) fn next_map_job(core: &mut Core) -> Option<MapJob> {
    if !core.tally.has_map_jobs() {
        return None;
    }
    core.tally.set_map_jobs(false);
    core.shape.journal?;
    let job = (0..core.shape.layout.dies).map(DieId).find_map(|die| metadata_job(core, die));
    core.tally.set_map_jobs(job.is_some());
    job
}

fn metadata_job(core: &mut Core, die: DieId) -> Option<MapJob> {
    if core.die(die).is_dead() || core.die(die).journal.is_programming() {
        return None;
    }
    empty_a_block(core, die);
    let most = core.shape.layout.units_per_superpage as usize;
    let save_to = core.tally.save_to();
    let journal = &mut core.dies[die.0 as usize].journal;
    let cause = journal.choose_batch(most, save_to, &core.shape.layout)?;
    let pages = &journal.batch.pages;
    let last = pages.iter().filter_map(|(_, dirty)| dirty.map(|dirty| dirty.sequence)).max();
    let units = pages.len() as u32;
    if last.is_some_and(|sequence| core.oldest_program(die) < sequence) {
        return None;
    }
    let (block, superpage) = take_superpage(core, die)?;
    write_images(core, die);
    let plan = plan_other(core, block, superpage, Kind::Metadata, Content::Metadata, units);
    core.die_mut(die).journal.batch.program = Some(plan.id);
    let mut by_cause = [0; Cause::COUNT];
    by_cause[cause as usize] = units;
    Some(MapJob::Program { plan, units, cause, by_cause })
}

/// Place of the next superpage of metadata; `None`: there is no block.
fn take_superpage(core: &mut Core, die: DieId) -> Option<(BlockId, u32)> {
    let superpages = core.shape.layout.superpages_per_block;
    if let Some(taken) = core.die_mut(die).journal.take_superpage(superpages) {
        return Some(taken);
    }
    let block = core.blocks.take(die, Role::Metadata, false)?;
    let journal = &mut core.die_mut(die).journal;
    journal.keep_block(block, Some(0));
    journal.take_superpage(superpages)
}

/// Releases the emptiest block when all allowed blocks are in use; always releases empty blocks.
fn empty_a_block(core: &mut Core, die: DieId) {
    let Some(sizes) = core.shape.journal else { return };
    let full = core.die(die).journal.full_blocks();
    for &block in &full {
        if core.blocks.references(block) == 0 && core.blocks.in_flight(block) == 0 {
            let cause = core.die_mut(die).journal.leave_block(block);
            core.blocks.leave(block, cause, None);
            core.tally.release();
        }
    }
    let Core { dies, blocks, .. } = core;
    let journal = &mut dies[die.0 as usize].journal;
    if journal.blocks_in_use() >= sizes.blocks && journal.emptying.is_empty() {
        let settled =
            |block: &&BlockId| blocks.role(**block) == Role::Metadata && blocks.in_flight(**block) == 0;
        let emptiest = full.iter().filter(settled).min_by_key(|&&block| blocks.references(block));
        if let Some(&block) = emptiest {
            journal.begin_emptying(block, Cause::Journal);
        }
    }
}

/// Empties `block`: metadata have to leave it. Returns whether that is new.
pub(super) fn empty_block(core: &mut Core, die: DieId, block: BlockId, cause: Cause) -> bool {
    let journal = &mut core.die_mut(die).journal;
    if journal.blocks.last() == Some(&block) {
        journal.next = None;
    }
    let news = journal.begin_emptying(block, cause);
    if news {
        core.tally.set_map_jobs(true);
    }
    news
}

fn write_images(core: &mut Core, die: DieId) {
    let mut batch = std::mem::take(&mut core.die_mut(die).journal.batch);
    let unit = core.shape.layout.unit_bytes as usize;
    batch.images.clear();
    batch.images.resize(batch.pages.len() * unit, 0);
    let watermark = core.oldest_program(die);
    for (&(page, _), image) in batch.pages.iter().zip(batch.images.chunks_exact_mut(unit)) {
        write_image(core, die, page, watermark, image);
    }
    core.die_mut(die).journal.batch = batch;
}

fn write_image(core: &Core, die: DieId, page: u32, watermark: u64, image: &mut [u8]) {
    image[0..8].copy_from_slice(&watermark.to_le_bytes());
    image[8..16].copy_from_slice(&u64::from(core.shape.trim_page(die, page)).to_le_bytes());
    for (at, lpn) in core.shape.pages_of_trim_page(die, page) {
        let state = match core.map.get(lpn) {
            ppa if ppa.is_some() => core.readable(ppa),
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

/// Logical page for the spare area, and content, of a unit of a planned metadata program.
///
/// # Panics
/// When no such program is planned.
pub(super) fn metadata(core: &Core, id: ProgramId, position: u32) -> (Lpn, &[u8]) {
    let die = core.dies.iter().position(|die| die.journal.batch.program == Some(id));
    let die = die.expect("a metadata program that is planned");
    let batch = &core.dies[die].journal.batch;
    let unit = core.shape.layout.unit_bytes as usize;
    let page = core.shape.trim_page(DieId(die as u32), batch.pages[position as usize].0);
    (Lpn(core.shape.user_units + page), &batch.images[position as usize * unit..][..unit])
}

/// The program of the batch of `die` has ended.
pub(super) fn metadata_ended(core: &mut Core, die: DieId, first: Ppa, ok: bool) {
    let mut batch = std::mem::take(&mut core.die_mut(die).journal.batch);
    batch.program = None;
    for (place, &(page, dirty)) in (first.0..).map(Ppa).zip(&batch.pages) {
        if ok {
            let places = &mut core.die_mut(die).journal.places;
            let old = std::mem::replace(&mut places[page as usize], place);
            core.blocks.refer(core.shape.layout.block_of(place));
            core.release(old, Outdated::Replaced);
        } else if let Some(again) = dirty {
            core.die_mut(die).journal.write_again(again);
        }
    }
    batch.pages.clear();
    core.die_mut(die).journal.batch = batch;
    if ok {
        empty_a_block(core, die);
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
