//! The blocks of an application: free, mapped, waiting for their erase, or held back by the reserve.
//!
//! ```text
//!            address_mapper            flash_trim               erase begins              erased
//!   Free ──────────────────► Mapped ──────────────► Trimmed ───────────────► Erasing ─────────────► Free
//!     │                        ▲  ▲                    │ address_mapper          │ failed
//!     │ start: holds data      │  │ recover            └─► Mapped, written to    └──► Bad
//!     └─────────────► Found ───┘  └── Held: wear levelling copies to it              when it is erased
//! ```
//! A block's data have a *content* number from their first write until they are trimmed; see `mark.rs`.
//!
//! Invariants: the pool lists exactly the blocks in state `Free`; a block waits in its LUN's erase queue, or is being erased there, if and only if it
//! is `Trimmed` or `Erasing`, or was mapped before its erase (`cleaning`); the counts of a channel match its blocks.

use super::erase_queue::EraseQueue;
use super::link::Op;
use crate::SsdGeometry;
use pellucid_flash::slab::{List, Slab};
use pellucid_flash::{BlockId, DieId};
use pellucid_ftl::Pool;

/// State of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Erased, in the pool.
    #[default]
    Free,
    /// Mapped by the application.
    Mapped,
    /// Holding data from before the start.
    Found,
    /// Used by wear levelling.
    Held,
    /// Given back by the application.
    Trimmed,
    /// Being erased.
    Erasing,
    /// Its erase has failed; it is retried on request.
    Spoiled,
    /// Retired.
    Bad,
}

/// A block.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    state: State,
    /// Sectors on the flash.
    written: u32,
    /// Sectors on the flash or in flight, where the next write begins.
    taken: u32,
    /// Writes that wait for the one in flight, or for the erase.
    waiting: List,
    writing: bool,
    /// Reads in flight.
    readers: u32,
    /// True if something was sent to it since its last erase.
    dirty: bool,
    /// True if the block was mapped while it waited for its erase.
    cleaning: bool,
    /// True if a write has failed, so no more are accepted.
    broken: bool,
    /// True if its erase failed after it was mapped: it is retired when it is given back.
    lost: bool,
    /// True if it received rarely written data, so that wear levelling skips it.
    rested: bool,
    content: u32,
    copy: u8,
}

impl Block {
    pub fn state(&self) -> State {
        self.state
    }

    /// Sectors on the flash.
    pub fn written(&self) -> u32 {
        self.written
    }

    /// Sectors on the flash or in flight, where the next write begins.
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// Reports whether a write to the block has failed, so that it accepts no more.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Reports whether the block was mapped and still waits for its erase.
    pub fn is_cleaning(&self) -> bool {
        self.cleaning
    }

    /// Reports whether wear levelling skips it.
    pub fn is_rested(&self) -> bool {
        self.rested
    }

    /// Numbers of its content and of the copy.
    pub fn content(&self) -> (u32, u8) {
        (self.content, self.copy)
    }

    /// Sets the numbers of its content and of the copy.
    pub fn set_content(&mut self, content: u32, copy: u8) {
        (self.content, self.copy) = (content, copy);
    }

    /// Makes wear levelling skip it.
    pub fn rest(&mut self) {
        self.rested = true;
    }

    /// Records the state found at a start: number of sectors, and whether the block accepts no more.
    pub fn found(&mut self, sectors: u32, broken: bool) {
        (self.written, self.taken) = (sectors, sectors);
        (self.dirty, self.broken) = (true, broken);
    }

    /// Reports whether no read is in flight.
    pub fn is_unread(&self) -> bool {
        self.readers == 0
    }

    /// Notes the start of a read.
    pub fn begin_read(&mut self) {
        self.readers += 1;
    }

    /// Notes the end of a read.
    pub fn end_read(&mut self) {
        self.readers -= 1;
    }

    /// Takes the next sectors for a write; returns the first.
    pub fn take(&mut self, sectors: u32) -> u32 {
        let first = self.taken;
        self.taken += sectors;
        first
    }

    /// Queues a write.
    pub fn push_write(&mut self, ops: &mut Slab<Op>, op: u32) {
        self.waiting.push_back(ops, op);
    }

    /// Starts the next waiting write, if it may be sent now.
    pub fn next_write(&mut self, ops: &mut Slab<Op>) -> Option<u32> {
        if self.writing || self.cleaning {
            return None;
        }
        let op = self.waiting.pop(ops)?;
        self.begin_write();
        Some(op)
    }

    /// Notes the start of a write.
    pub fn begin_write(&mut self) {
        assert!(!self.writing, "a block has one write at a time");
        (self.writing, self.dirty) = (true, true);
    }

    /// Notes the end of a write of `sectors`; 0: it failed.
    pub fn end_write(&mut self, sectors: u32) {
        self.writing = false;
        self.written += sectors;
    }

    /// Refuses further writes, and returns one waiting write per call, until none is left.
    pub fn break_off(&mut self, ops: &mut Slab<Op>) -> Option<u32> {
        (self.broken, self.taken) = (true, self.written);
        self.waiting.pop(ops)
    }

    /// Notes a successful erase.
    pub fn erased(&mut self) {
        self.dirty = false;
    }

    /// Notes the end of the erase during which it was mapped. `false`: there was none.
    pub fn end_cleaning(&mut self) -> bool {
        std::mem::take(&mut self.cleaning)
    }

    /// Notes that its erase failed after it was mapped: it is retired when it is given back.
    pub fn lose(&mut self) {
        self.lost = true;
    }

    /// Reports whether its erase may start; `any`: even if no write of the application waits for it.
    fn can_be_erased(&self, any: bool) -> bool {
        self.readers == 0 && !self.writing && (any || self.cleaning)
    }
}

/// Fate of a returned block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenBack {
    /// It already waits for its erase.
    Waits,
    /// It waits for its erase from now on.
    Queued,
    /// It is retired.
    Retired,
    /// It is free.
    Free,
}

/// State of each LUN.
#[derive(Clone, Debug, Default)]
struct Lun {
    erases: EraseQueue,
    /// The block from which pages are handed out, and its next page.
    open: Option<(u32, u32)>,
}

/// Counts per channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    good: u32,
    /// Blocks that are mapped, or found and not claimed yet.
    mapped: u32,
    held: u32,
}

/// All blocks of an application.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    geometry: SsdGeometry,
    pool: Pool,
    luns: Vec<Lun>,
    blocks: Vec<Block>,
    counts: Vec<Counts>,
    /// The LUN whose turn it is, by channel.
    turns: Vec<u32>,
    /// Percentage of the good blocks of each channel that stays free.
    ops: u32,
    /// Blocks whose erase has failed.
    spoiled: Vec<u32>,
    /// Number of the next content.
    next_content: u32,
}

impl Blocks {
    /// All blocks count as used until the start has examined them.
    pub fn new(geometry: SsdGeometry) -> Blocks {
        let blocks = vec![Block { state: State::Found, ..Block::default() }; geometry.blocks() as usize];
        let of_channel = geometry.luns_each_channel * geometry.blocks_each_lun;
        let counts = Counts { good: of_channel, mapped: of_channel, held: 0 };
        Blocks {
            pool: Pool::new(&geometry.layout(), 0..geometry.blocks_each_lun),
            luns: vec![Lun::default(); geometry.luns() as usize],
            blocks,
            counts: vec![counts; geometry.channel_count as usize],
            turns: vec![0; geometry.channel_count as usize],
            ops: 0,
            spoiled: Vec::new(),
            next_content: 1,
            geometry,
        }
    }

    pub fn lun_of(&self, block: u32) -> u32 {
        block / self.geometry.blocks_each_lun
    }

    /// Erase count of a block.
    pub fn erases(&self, block: u32) -> u32 {
        self.pool.erases(BlockId(block))
    }

    /// Sets the erase count of a block.
    pub fn set_erases(&mut self, block: u32, erases: u32) {
        self.pool.set_erases(BlockId(block), erases);
    }

    /// Percentage of the good blocks of each channel that stays free.
    pub fn ops(&self) -> u32 {
        self.ops
    }

    /// Sets the percentage of the good blocks of each channel that stays free.
    pub fn set_ops(&mut self, percent: u32) {
        self.ops = percent;
    }

    /// Assigns a new content number to a block that is about to be written.
    pub fn begin_content(&mut self, block: u32) {
        let content = self.next_content;
        self.next_content = content.wrapping_add(1);
        self[block].content = content;
    }

    /// Notes a content number that was found.
    pub fn found_content(&mut self, content: u32) {
        self.next_content = self.next_content.max(content.wrapping_add(1));
    }

    pub fn numbers(&self) -> std::ops::Range<u32> {
        0..self.blocks.len() as u32
    }

    fn channel_of(&self, block: u32) -> usize {
        (self.lun_of(block) / self.geometry.luns_each_channel) as usize
    }

    fn tally(&mut self, block: u32, by: i32) {
        let (channel, state) = (self.channel_of(block), self.blocks[block as usize].state);
        let counts = &mut self.counts[channel];
        let add = |count: &mut u32, yes: bool| *count = count.wrapping_add_signed(if yes { by } else { 0 });
        add(&mut counts.good, !matches!(state, State::Spoiled | State::Bad));
        add(&mut counts.mapped, matches!(state, State::Mapped | State::Found));
        add(&mut counts.held, state == State::Held);
    }

    /// Changes a block's state; the pool follows.
    pub fn set_state(&mut self, block: u32, state: State) {
        let before = self[block].state;
        self.tally(block, -1);
        self[block].state = state;
        self.tally(block, 1);
        match (before, state) {
            _ if before == state => {}
            (_, State::Bad) => self.pool.retire(BlockId(block)),
            (_, State::Free) => self.pool.give(BlockId(block)),
            (State::Free, _) if self.pool.is_free(BlockId(block)) => self.pool.take_this(BlockId(block)),
            _ => {}
        }
    }

    /// Number of a channel's blocks that stay free.
    fn reserve(&self, counts: Counts, percent: u32) -> u32 {
        (u64::from(counts.good) * u64::from(percent)).div_ceil(100) as u32
    }

    /// Number of blocks that the application can map: free ones, and those that are or will be erased, less the reserve.
    pub fn available(&self, channel: u32) -> u32 {
        let counts = self.counts[channel as usize];
        let kept = self.reserve(counts, self.ops).max(counts.held);
        counts.good.saturating_sub(counts.mapped).saturating_sub(kept)
    }

    /// Number of blocks that must be given back for a reserve of this percentage; 0: none.
    pub fn too_many_for(&self, percent: u32) -> u32 {
        let over = |c: &Counts| c.mapped.saturating_sub(c.good - self.reserve(*c, percent));
        self.counts.iter().map(over).sum()
    }

    /// LUNs of a channel, starting with the one whose turn it is.
    fn luns_in_turn(&mut self, channel: u32) -> impl DoubleEndedIterator<Item = u32> + Clone + use<> {
        let (luns, turn) = (self.geometry.luns_each_channel, &mut self.turns[channel as usize]);
        let first = *turn;
        *turn = (first + 1) % luns;
        (first..first + luns).map(move |lun| channel * luns + lun % luns)
    }

    /// Maps a block of a channel for the application: an erased block of the LUN that has most of them, otherwise one that is still to be erased,
    /// whose writes wait for the erase.
    pub fn map(&mut self, channel: u32) -> Option<u32> {
        if self.available(channel) == 0 {
            return None;
        }
        let luns = self.luns_in_turn(channel);
        let free = |blocks: &Blocks, lun: u32| blocks.pool.free_count(DieId(lun));
        // Of equals, the first.
        let best = luns.clone().rev().max_by_key(|&lun| free(self, lun)).filter(|&lun| free(self, lun) > 0);
        match best {
            Some(lun) => self.map_in(lun),
            None => { luns }.find_map(|lun| self.map_uncleaned(lun)),
        }
    }

    /// Maps an erased block of one LUN.
    fn map_in(&mut self, lun: u32) -> Option<u32> {
        let block = self.pool.take(DieId(lun))?.0;
        self.set_state(block, State::Mapped);
        Some(block)
    }

    fn map_uncleaned(&mut self, lun: u32) -> Option<u32> {
        let mut waiting = self.luns[lun as usize].erases.blocks();
        let block = waiting.find(|&block| !self[block].cleaning)?;
        drop(waiting);
        self.set_state(block, State::Mapped);
        self[block].cleaning = true;
        self.begin_anew(block);
        Some(block)
    }

    /// Hands out the next page of an open block of a channel, LUN by LUN; opens blocks as needed.
    pub fn map_page(&mut self, channel: u32) -> Option<(u32, u32)> {
        let pages = self.geometry.pages_each_block;
        for lun in self.luns_in_turn(channel) {
            if self.luns[lun as usize].open.is_none() && self.available(channel) > 0 {
                self.luns[lun as usize].open = self.map_in(lun).map(|block| (block, 0));
            }
            let open = &mut self.luns[lun as usize].open;
            if let Some((block, page)) = *open {
                *open = (page + 1 < pages).then_some((block, page + 1));
                return Some((block, page));
            }
        }
        // No LUN has an erased block.
        let block = self.map(channel)?;
        let lun = self.lun_of(block) as usize;
        self.luns[lun].open = (1 < pages).then_some((block, 1));
        Some((block, 0))
    }

    /// Stops handing out pages of a block.
    pub fn close(&mut self, block: u32) {
        let lun = self.lun_of(block) as usize;
        self.luns[lun].open.take_if(|(open, _)| *open == block);
    }

    /// Drops a block's content.
    pub fn begin_anew(&mut self, block: u32) {
        let block = &mut self[block];
        (block.written, block.taken, block.content, block.copy) = (0, 0, 0, 0);
        (block.broken, block.rested) = (false, false);
    }

    // ---- erases

    fn erase_queue(&mut self, block: u32) -> &mut EraseQueue {
        let lun = self.lun_of(block) as usize;
        &mut self.luns[lun].erases
    }

    /// Notes the start of an application's command to a block.
    pub fn begin_on(&mut self, block: u32) {
        self.erase_queue(block).begin_command();
    }

    /// Notes the end of an application's command to a block.
    pub fn end_on(&mut self, block: u32) {
        self.erase_queue(block).end_command();
    }

    /// Starts the next erase of a LUN, if it may start now.
    pub fn next_erase(&mut self, lun: u32) -> Option<u32> {
        let free = self.pool.free_count(DieId(lun));
        let may = |block: u32, any: bool| self[block].can_be_erased(any);
        let at = self.luns[lun as usize].erases.choose(free, may)?;
        let block = self.luns[lun as usize].erases.begin(at);
        if !self[block].cleaning {
            self.set_state(block, State::Erasing);
        }
        Some(block)
    }

    /// Notes the end of a block's erase.
    pub fn end_erase(&mut self, block: u32) {
        self.erase_queue(block).end(block);
    }

    /// Releases a block that the application no longer needs.
    pub fn give_back(&mut self, block: u32) -> GivenBack {
        self.begin_anew(block);
        if self[block].end_cleaning() {
            // It was mapped before its erase, and already waits.
            let erasing = self.erase_queue(block).is_erasing(block);
            self.set_state(block, if erasing { State::Erasing } else { State::Trimmed });
            GivenBack::Waits
        } else if self[block].lost {
            self.set_state(block, State::Bad);
            GivenBack::Retired
        } else if self[block].dirty {
            self.trim(block);
            GivenBack::Queued
        } else {
            self.set_state(block, State::Free);
            GivenBack::Free
        }
    }

    /// Queues a block for its erase.
    fn trim(&mut self, block: u32) {
        self.set_state(block, State::Trimmed);
        self.erase_queue(block).push(block);
    }

    /// Notes a failed erase, to be retried on request.
    pub fn spoil(&mut self, block: u32) {
        self.begin_anew(block);
        self.set_state(block, State::Spoiled);
        self.spoiled.push(block);
    }

    /// Number of blocks whose erase has failed.
    pub fn spoiled(&self) -> u32 {
        self.spoiled.len() as u32
    }

    /// Queues the blocks with failed erases again, and returns them.
    pub fn try_again(&mut self) -> Vec<u32> {
        let spoiled = std::mem::take(&mut self.spoiled);
        spoiled.iter().for_each(|&block| self.trim(block));
        spoiled
    }

    /// Retires a block.
    pub fn retire(&mut self, block: u32) {
        self.begin_anew(block);
        self.set_state(block, State::Bad);
    }

    /// Takes the most worn free block of the LUN that has most of them, for wear levelling.
    pub fn take_spare(&mut self) -> Option<u32> {
        let luns = (0..self.geometry.luns()).map(DieId);
        let most = luns.max_by_key(|&lun| self.pool.free_count(lun))?;
        let spare = self.pool.take_most_worn(most)?.0;
        self.set_state(spare, State::Held);
        Some(spare)
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        (self.blocks.len() * size_of::<Block>() + self.luns.len() * size_of::<Lun>()) as u64
            + self.pool.memory_bytes()
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        self.pool.check();
        let mut counts = vec![Counts::default(); self.counts.len()];
        for (number, block) in (0..).zip(&self.blocks) {
            let state = block.state;
            let of = &mut counts[self.channel_of(number)];
            of.good += u32::from(!matches!(state, State::Spoiled | State::Bad));
            of.mapped += u32::from(matches!(state, State::Mapped | State::Found));
            of.held += u32::from(state == State::Held);
            assert_eq!(self.pool.is_free(BlockId(number)), state == State::Free, "block {number}: {block:?}");
            assert_eq!(self.pool.is_bad(BlockId(number)), state == State::Bad, "block {number}: {block:?}");
            let lun = &self.luns[self.lun_of(number) as usize];
            let listed = lun.erases.blocks().filter(|&listed| listed == number).count();
            let waits = block.cleaning || matches!(state, State::Trimmed | State::Erasing);
            assert_eq!(listed, usize::from(waits), "block {number}: {block:?}");
            assert!(block.written <= block.taken && (block.taken == 0 || state != State::Free), "{block:?}");
        }
        assert_eq!(counts, self.counts, "counts of the channels");
    }
}

impl std::ops::Index<u32> for Blocks {
    type Output = Block;
    #[inline]
    fn index(&self, block: u32) -> &Block {
        &self.blocks[block as usize]
    }
}

impl std::ops::IndexMut<u32> for Blocks {
    #[inline]
    fn index_mut(&mut self, block: u32) -> &mut Block {
        &mut self.blocks[block as usize]
    }
}
