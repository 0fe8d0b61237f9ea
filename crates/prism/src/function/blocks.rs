//! The blocks of an application: free, mapped, waiting for their erase, and left by the reserve.
//!
//! ```text
//!            address_mapper            flash_trim               erase begins              erased
//!   Free ──────────────────► Mapped ──────────────► Trimmed ───────────────► Erasing ─────────────► Free
//!     │                        ▲  ▲                    │ address_mapper          │ failed
//!     │ start: holds data      │  │ recover            └─► Mapped, written to    └──► Bad
//!     └─────────────► Found ───┘  └── Held: wear levelling copies to it              when it is erased
//! ```
//! Invariants: the pool lists exactly the blocks in state `Free`; a block waits in its LUN's erase queue, or is the one being erased
//! there, if and only if it is `Trimmed` or `Erasing`, or was mapped before its erase (`cleaning`); the counts of a channel are those of
//! its blocks.

use crate::SsdGeometry;
use pellucid_flash::slab::List;
use pellucid_flash::{BlockId, DieId};
use pellucid_ftl::Pool;
use std::collections::VecDeque;

/// Where a block stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Erased, in the pool.
    #[default]
    Free,
    /// The application's.
    Mapped,
    /// A former life of the application has left data in it.
    Found,
    /// Wear levelling uses it.
    Held,
    /// The application has given it back.
    Trimmed,
    /// Its erase is under way.
    Erasing,
    /// Its erase has failed; it is tried again when that is asked for.
    Spoiled,
    /// Out of use.
    Bad,
}

/// A block.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub state: State,
    /// Sectors on the flash.
    pub written: u32,
    /// Sectors on the flash and on their way to it: where the next write begins.
    pub taken: u32,
    /// Writes that wait for the one under way, or for the erase.
    pub waiting: List,
    pub writing: bool,
    /// Reads under way.
    pub readers: u32,
    /// Something was sent to it since its last erase.
    pub dirty: bool,
    /// True if the block was mapped while it waited for its erase.
    pub cleaning: bool,
    /// A write has failed; it takes no more.
    pub broken: bool,
    /// Its erase has failed after it was mapped: it goes out of use when it is given back.
    pub lost: bool,
    /// Data that are seldom written were put here, so that it rests.
    pub rested: bool,
    pub content: u32,
    pub copy: u8,
}

/// State of each LUN.
#[derive(Clone, Debug, Default)]
pub(super) struct Lun {
    /// Blocks that wait for their erase, the oldest first.
    pub erases: VecDeque<u32>,
    pub erasing: Option<u32>,
    /// Commands of the application under way.
    pub busy: u32,
    /// Commands of the application that went before the erase that waits.
    pub passed: u32,
    /// The block that pages are handed out of, and the next of them.
    pub open: Option<(u32, u32)>,
}

/// Counts of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    good: u32,
    /// Mapped, or found and not claimed yet.
    mapped: u32,
    held: u32,
}

/// All blocks of an application.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    pub geometry: SsdGeometry,
    pub pool: Pool,
    pub luns: Vec<Lun>,
    blocks: Vec<Block>,
    counts: Vec<Counts>,
    /// The LUN of each channel whose turn it is.
    turns: Vec<u32>,
    /// Percent of the good blocks of each channel that stay free.
    pub ops: u32,
}

impl Blocks {
    /// All blocks in use until the start knows better.
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
            geometry,
        }
    }

    pub fn lun_of(&self, block: u32) -> u32 {
        block / self.geometry.blocks_each_lun
    }

    pub fn erases(&self, block: u32) -> u32 {
        self.pool.erases(BlockId(block))
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

    /// Moves a block to another state; the pool follows.
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

    /// Blocks of a channel that stay free.
    fn reserve(&self, counts: Counts, percent: u32) -> u32 {
        (u64::from(counts.good) * u64::from(percent)).div_ceil(100) as u32
    }

    /// Blocks of a channel that the application can map: free ones, and those that are or will be erased, less the reserve.
    pub fn available(&self, channel: u32) -> u32 {
        let counts = self.counts[channel as usize];
        let kept = self.reserve(counts, self.ops).max(counts.held);
        counts.good.saturating_sub(counts.mapped).saturating_sub(kept)
    }

    /// Blocks that would have to be given back for a reserve of this many percent; 0: it can be had.
    pub fn too_many_for(&self, percent: u32) -> u32 {
        let over = |c: &Counts| c.mapped.saturating_sub(c.good - self.reserve(*c, percent));
        self.counts.iter().map(over).sum()
    }

    /// LUNs of a channel, from the one whose turn it is.
    fn luns_in_turn(&mut self, channel: u32) -> impl DoubleEndedIterator<Item = u32> + Clone + use<> {
        let (luns, turn) = (self.geometry.luns_each_channel, &mut self.turns[channel as usize]);
        let first = *turn;
        *turn = (first + 1) % luns;
        (first..first + luns).map(move |lun| channel * luns + lun % luns)
    }

    /// Takes a block of a channel for the application: an erased one of the LUN that has most of them, else one whose erase is to come,
    /// with which its writes wait.
    pub fn map(&mut self, channel: u32) -> Option<u32> {
        if self.available(channel) == 0 {
            return None;
        }
        let luns = self.luns_in_turn(channel);
        let free = |blocks: &Blocks, lun: u32| blocks.pool.free_count(DieId(lun));
        // Of equals the first.
        let best = luns.clone().rev().max_by_key(|&lun| free(self, lun)).filter(|&lun| free(self, lun) > 0);
        match best {
            Some(lun) => self.map_in(lun),
            None => { luns }.find_map(|lun| self.map_uncleaned(lun)),
        }
    }

    /// Maps a block of one LUN, erased ones only.
    fn map_in(&mut self, lun: u32) -> Option<u32> {
        let block = self.pool.take(DieId(lun))?.0;
        self.set_state(block, State::Mapped);
        Some(block)
    }

    fn map_uncleaned(&mut self, lun: u32) -> Option<u32> {
        let Lun { erases, erasing, .. } = &self.luns[lun as usize];
        let mut waiting = erases.iter().chain(erasing).copied();
        let block = waiting.find(|&block| !self[block].cleaning)?;
        self.set_state(block, State::Mapped);
        self[block].cleaning = true;
        self.begin_anew(block);
        Some(block)
    }

    /// Takes the next page of an open block of a channel, LUN by LUN; blocks are opened as they are needed.
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
        // No LUN has an erased one.
        let block = self.map(channel)?;
        let lun = self.lun_of(block) as usize;
        self.luns[lun].open = (1 < pages).then_some((block, 1));
        Some((block, 0))
    }

    /// No more pages of a block are handed out.
    pub fn close(&mut self, block: u32) {
        let lun = self.lun_of(block) as usize;
        self.luns[lun].open.take_if(|(open, _)| *open == block);
    }

    /// A block's content is no longer of use.
    pub fn begin_anew(&mut self, block: u32) {
        let block = &mut self[block];
        (block.written, block.taken, block.content, block.copy) = (0, 0, 0, 0);
        (block.broken, block.rested) = (false, false);
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        (self.blocks.len() * size_of::<Block>() + self.luns.len() * size_of::<Lun>()) as u64
            + self.pool.memory_bytes()
    }

    /// Panics where an invariant is broken.
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
            let listed = lun.erases.iter().chain(&lun.erasing).filter(|&&b| b == number).count();
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
