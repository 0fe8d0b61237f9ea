//! The log: segments, their live blocks, and the place of the next blocks.
//!
//! ```text
//!   block 0      superblock
//!   then         places for two checkpoints, written in turn, with two copies each
//!   then         the sync record (`record.rs`)
//!   last block   copy of the superblock
//!   between      segments:   free ─► reserved ─► open ─► closed ─► (nothing lives, and a checkpoint knows it) free
//!                                                              └─► bad: never written again
//! ```
//! A checkpoint lists the segments that the log may use behind it, the *reserve*; a mount reads these and no others. A segment that
//! became free joins the reserve with the next checkpoint, and is written when that is durable.
//! On flash (`backend.rs`) the library owns free segments: `free` has the ones that it has handed out.

use super::backend::{Backend, FlashShape, NamesShape};
use super::block::SharedBlock;
use super::types::BLOCK_BYTES;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Segments that a mount may have to read.
const RESERVE_MAX: usize = 128;
/// A stream keeps a segment open in each channel, while a channel has this many segments for each.
const SEGMENTS_A_LANE: u32 = 16;
/// Bytes of a checkpoint before its tables.
pub(super) const CHECKPOINT_HEADER: usize = 256;
/// Bytes of a segment in a checkpoint's table, and of an entry of its reserve.
pub(super) const USAGE_BYTES: usize = 12;
pub(super) const RESERVE_BYTES: usize = 8;
/// Most segments, so that the table of a checkpoint stays small.
pub(super) const SEGMENTS_MAX: u64 = 1 << 16;
/// Fewest segments.
pub(super) const SEGMENTS_MIN: u64 = 24;
/// Least blocks of a segment: in smaller ones headers take so much that cleaning gains nothing.
pub(super) const SEGMENT_BLOCKS_MIN: u32 = 16;
pub(super) const SEGMENT_BLOCKS: u32 = 256;
/// Copies of a checkpoint.
pub(super) const COPIES: u64 = 2;
/// Copies of two checkpoints.
const PLACES: u64 = 2 * COPIES;
/// Fewest blocks of a batch with a block of data: the header and its copy stand around it.
const BATCH_BLOCKS_MIN: u32 = 3;

/// Where things lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub backend: Backend,
    pub blocks: u64,
    pub segment_blocks: u32,
    pub segments: u32,
    /// Segments that were usable when the file system was made: the others are broken.
    pub capacity: u32,
    /// Blocks of a copy of a checkpoint.
    pub place_blocks: u32,
    /// Block of the first segment.
    pub start: u64,
    /// The last block has a copy of the superblock: not on flash, and not in version 2.
    pub has_copy: bool,
}

impl Layout {
    /// A file system on so many blocks, as it is made today.
    pub fn new(blocks: u64, segment_blocks: u32) -> Layout {
        Layout::on_blocks(blocks, segment_blocks, true)
    }

    /// A file system on so many blocks, with or without a copy of its superblock.
    pub fn on_blocks(blocks: u64, segment_blocks: u32, has_copy: bool) -> Layout {
        let each = u64::from(segment_blocks);
        let most = (blocks / each).min(SEGMENTS_MAX);
        let table = CHECKPOINT_HEADER + most as usize * USAGE_BYTES + (RESERVE_MAX + 2) * RESERVE_BYTES;
        let place_blocks = table.div_ceil(BLOCK_BYTES) as u32;
        let record = 1 + PLACES * u64::from(place_blocks);
        let start = (record + 1).div_ceil(each) * each;
        let last = blocks.saturating_sub(u64::from(has_copy));
        let segments = (last.saturating_sub(start) / each).min(SEGMENTS_MAX) as u32;
        let (backend, capacity) = (Backend::Block, segments);
        Layout { backend, blocks, segment_blocks, segments, capacity, place_blocks, start, has_copy }
    }

    /// These blocks as virtual ones, beside names.
    pub fn with_names(self, shape: NamesShape) -> Layout {
        Layout { backend: Backend::Nameless(shape), ..self }
    }

    /// The blocks with the superblock; on flash it lies before each copy of a checkpoint instead.
    pub fn superblocks(&self) -> impl Iterator<Item = u64> + use<> {
        let copy = self.has_copy.then(|| self.blocks - 1);
        (!self.backend.is_flash()).then_some(0).into_iter().chain(copy)
    }

    /// Returns whether an address is a name: these stand behind the virtual blocks.
    pub fn is_name(&self, address: u64) -> bool {
        address >= self.blocks && self.backend.names().is_some()
    }

    /// Flash, of which `capacity` flash blocks can be used.
    pub fn on_flash(shape: FlashShape, capacity: u32) -> Layout {
        let segments = shape.flash_blocks();
        let heads = RESERVE_MAX + 2 * shape.channels as usize;
        let table = CHECKPOINT_HEADER + segments as usize * USAGE_BYTES + heads * RESERVE_BYTES;
        let place_blocks = 1 + table.div_ceil(BLOCK_BYTES) as u32;
        Layout {
            backend: Backend::Function(shape),
            blocks: u64::from(segments) * u64::from(shape.segment_blocks),
            segment_blocks: shape.segment_blocks,
            segments,
            capacity,
            place_blocks: place_blocks.next_multiple_of(shape.page_blocks),
            // No block has the address 0.
            start: shape.segment_blocks.into(),
            has_copy: false,
        }
    }

    /// Blocks of a picture: on flash the superblock stands before it.
    pub fn picture_blocks(&self) -> u32 {
        self.place_blocks - u32::from(self.backend.is_flash())
    }

    /// Open segments of each stream.
    pub fn lanes(&self) -> u32 {
        match self.backend {
            Backend::Block | Backend::Nameless(_) => 1,
            Backend::Function(shape) => shape.channels.min(self.capacity / (2 * SEGMENTS_A_LANE)).max(1),
        }
    }

    fn channels(&self) -> u32 {
        match self.backend {
            Backend::Block | Backend::Nameless(_) => 1,
            Backend::Function(shape) => shape.channels,
        }
    }

    pub fn channel_of(&self, segment: u32) -> usize {
        match self.backend {
            Backend::Block | Backend::Nameless(_) => 0,
            Backend::Function(shape) => (segment / shape.flash_blocks_each) as usize,
        }
    }

    /// Blocks that a batch of this many takes.
    pub fn padded(&self, blocks: u32) -> u32 {
        blocks.next_multiple_of(self.backend.page_blocks())
    }

    /// Where a copy of a checkpoint lies. The two copies of one are apart.
    pub fn place(&self, number: u64, copy: u64) -> u64 {
        1 + (number % 2 + 2 * copy) * u64::from(self.place_blocks)
    }

    /// Blocks of all copies of a checkpoint on flash, where they lie behind each other.
    pub fn places_blocks(&self) -> u32 {
        COPIES as u32 * self.place_blocks
    }

    /// Where the sync record lies; flash has none.
    pub fn record(&self) -> Option<u64> {
        (!self.backend.is_flash()).then(|| 1 + PLACES * u64::from(self.place_blocks))
    }

    pub fn address(&self, segment: u32, block: u32) -> u64 {
        self.start + u64::from(segment) * u64::from(self.segment_blocks) + u64::from(block)
    }

    pub fn segment_of(&self, address: u64) -> u32 {
        ((address - self.start) / u64::from(self.segment_blocks)) as u32
    }

    /// Segments that files do not get: what the cleaner and checkpoints work with.
    pub fn spare(&self) -> u32 {
        // Headers take more of small segments, and cleaning one gains less.
        let spare = (self.capacity / 16).max(10 + 64 / self.segment_blocks);
        match self.backend {
            Backend::Block | Backend::Nameless(_) => spare,
            // Open segments, and the checkpoint's.
            Backend::Function(_) => spare + 2 * self.lanes() + 2,
        }
    }

    /// Blocks that only the cleaner may take, so that it cleans several segments for each checkpoint, which frees them. A checkpoint
    /// lists at most [`RESERVE_MAX`] segments to write to next, and most of those are for others.
    pub fn for_cleaner(&self) -> u64 {
        let segments = (self.capacity / 64).clamp(3, RESERVE_MAX as u32 / 4);
        u64::from(segments) * u64::from(self.segment_blocks)
    }

    /// Blocks of a batch at most, with its headers, where it is not the segment that ends it.
    pub fn batch_blocks(&self) -> u32 {
        self.segment_blocks.min(100).min(self.backend.batch_blocks())
    }

    /// Blocks that files and their metadata may take. In a segment headers and their copies take two blocks in a hundred, or in a batch,
    /// and two at least; on flash the end of a commit is filled up to a page.
    pub fn usable(&self) -> u64 {
        let each = self.segment_blocks
            - 2 * self.segment_blocks.div_ceil(self.backend.batch_blocks().min(100))
            - self.backend.page_blocks();
        u64::from(self.capacity - self.spare()) * u64::from(each)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Reserved,
    Open,
    Closed,
    Bad,
    /// The segment has checkpoints (flash).
    Checkpoint,
}

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Blocks that the tree names, and its nodes.
    pub live: u32,
    /// Blocks written.
    pub written: u32,
    /// When it was written last, in seconds.
    pub age_s: u32,
    pub state: State,
}

/// Source of a write: new data, or what the cleaner moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    New = 0,
    Moved = 1,
}

/// An open segment and its next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub segment: u32,
    pub next: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Log {
    pub layout: Layout,
    pub segments: Vec<Segment>,
    pub free: VecDeque<u32>,
    pub reserve: VecDeque<u32>,
    /// Segments of the reserve that a durable checkpoint lists: the first ones.
    pub usable: usize,
    /// Open segments: those of new data, then those of what the cleaner moves.
    pub heads: Vec<Option<Head>>,
    /// The one that is written next, where queues are equally short.
    turn: usize,
    /// Blocks that are being read and written, by channel.
    queues: Vec<u64>,
    /// Flash blocks that the library can still hand out.
    pub elsewhere: u32,
    /// Number of the next batch.
    pub seq: u64,
    /// Number of this mount.
    pub epoch: u64,
    /// Batches that are not on the media yet.
    pub unwritten: BTreeSet<u64>,
    /// Blocks whose write failed, until they lie elsewhere.
    lost: BTreeMap<u64, SharedBlock>,
}

impl Log {
    pub fn new(layout: Layout) -> Log {
        let segment = Segment { live: 0, written: 0, age_s: 0, state: State::Free };
        Log {
            layout,
            segments: vec![segment; layout.segments as usize],
            free: if layout.backend.is_flash() { VecDeque::new() } else { (0..layout.segments).collect() },
            reserve: VecDeque::new(),
            usable: 0,
            heads: vec![None; 2 * layout.lanes() as usize],
            turn: 0,
            queues: vec![0; layout.channels() as usize],
            elsewhere: 0,
            seq: 1,
            epoch: 1,
            unwritten: BTreeSet::new(),
            lost: BTreeMap::new(),
        }
    }

    /// Returns whether a block of the drive belongs to a segment.
    pub fn is_block(&self, address: u64) -> bool {
        address >= self.layout.start && address < self.layout.address(self.layout.segments, 0)
    }

    /// Returns whether a block of the drive can have data.
    pub fn holds_data(&self, address: u64) -> bool {
        match self.layout.backend.names() {
            Some(shape) => self.layout.is_name(address) && address - self.layout.blocks < shape.names,
            None => self.is_block(address),
        }
    }

    pub fn add_live(&mut self, address: u64, count: u64) {
        for_each_segment(&self.layout, address, count, |segment, blocks| {
            self.segments[segment as usize].live += blocks;
        });
    }

    pub fn sub_live(&mut self, address: u64, count: u64) {
        for_each_segment(&self.layout, address, count, |segment, blocks| {
            let live = &mut self.segments[segment as usize].live;
            debug_assert!(*live >= blocks, "a block dies once");
            *live = live.saturating_sub(blocks);
        });
    }

    /// Puts free segments into the reserve; they are written when the next checkpoint is durable.
    pub fn refill(&mut self) {
        while self.reserve.len() < RESERVE_MAX
            && let Some(segment) = self.free.pop_front()
        {
            self.segments[segment as usize].state = State::Reserved;
            self.reserve.push_back(segment);
        }
    }

    /// Blocks that can be written before a checkpoint makes more writable.
    pub fn room(&self) -> u64 {
        let each = u64::from(self.layout.segment_blocks);
        let heads = self.heads.iter().flatten().map(|head| each - u64::from(head.next)).sum::<u64>();
        self.usable as u64 * each + heads
    }

    /// Segments that hold nothing.
    pub fn unused(&self) -> usize {
        self.free.len() + self.reserve.len() + self.elsewhere as usize
    }

    /// A job for blocks begins, or ends.
    pub fn queue(&mut self, address: u64, blocks: u64, begins: bool) {
        if !self.is_block(address) {
            return;
        }
        let channel = self.layout.channel_of(self.layout.segment_of(address));
        let queue = &mut self.queues[channel];
        *queue = if begins { *queue + blocks } else { queue.saturating_sub(blocks) };
    }

    /// Returns whether the library shall hand out a flash block: this many are kept for the next checkpoints.
    pub fn wants_segment(&self, memory_bytes: usize) -> bool {
        if self.elsewhere == 0 {
            return false;
        }
        let each = self.layout.segment_blocks as usize * BLOCK_BYTES;
        let most = (4 * self.layout.lanes() as usize + memory_bytes / each + 8).min(RESERVE_MAX);
        self.free.len() + self.reserve.len() < most
    }

    /// The library has handed out a flash block. `at_once`: no durable checkpoint has to list it.
    pub fn allocated(&mut self, segment: u32, at_once: bool) {
        self.segments[segment as usize] = Segment { live: 0, written: 0, age_s: 0, state: State::Free };
        if at_once && self.usable == self.reserve.len() && self.usable < RESERVE_MAX {
            self.segments[segment as usize].state = State::Reserved;
            self.reserve.push_back(segment);
            self.usable += 1;
        } else {
            self.free.push_back(segment);
        }
    }

    /// A flash block for checkpoints.
    pub fn take_for_checkpoints(&mut self) -> Option<u32> {
        let segment = self.free.pop_front().or_else(|| {
            let segment = self.reserve.pop_back()?;
            self.usable = self.usable.min(self.reserve.len());
            Some(segment)
        })?;
        self.segments[segment as usize].state = State::Checkpoint;
        Some(segment)
    }

    /// A flash block was given back.
    pub fn given_back(&mut self, segment: u32) {
        self.segments[segment as usize] = Segment { live: 0, written: 0, age_s: 0, state: State::Free };
        self.elsewhere += 1;
    }

    /// Where the next batch of a stream goes, and how many blocks it may have: [`BATCH_BLOCKS_MIN`] at least. `None`: no segment is left.
    pub fn place(&mut self, stream: Stream, now_s: u32) -> Option<(u64, u32)> {
        let each = self.layout.segment_blocks;
        let (lanes, first) = (self.heads.len() / 2, stream as usize * self.heads.len() / 2);
        for at in first..first + lanes {
            if !self.has_space(at) {
                self.open(at);
            }
        }
        // The other stream's segment is better than none.
        let at = self.shortest(first).or_else(|| self.shortest(lanes - first))?;
        self.turn = at + 1;
        let head = self.heads[at]?;
        self.segments[head.segment as usize].age_s = now_s;
        let most = self.layout.backend.batch_blocks().min(each - head.next);
        Some((self.layout.address(head.segment, head.next), most))
    }

    fn has_space(&self, at: usize) -> bool {
        self.heads[at].is_some_and(|head| head.next + BATCH_BLOCKS_MIN <= self.layout.segment_blocks)
    }

    /// The open segment of a stream whose channel has the shortest queue; of equals the next in turn.
    fn shortest(&self, first: usize) -> Option<usize> {
        let lanes = self.heads.len() / 2;
        let in_turn = (0..lanes).map(|n| first + (self.turn + n) % lanes).filter(|&at| self.has_space(at));
        in_turn.min_by_key(|&at| {
            let segment = self.heads[at].map_or(0, |head| head.segment);
            self.queues[self.layout.channel_of(segment)]
        })
    }

    /// The segment of the usable reserve that is opened next: in the channel with the fewest open ones, then the shortest queue.
    fn next_reserved(&self) -> usize {
        if !self.layout.backend.is_flash() {
            return 0;
        }
        let busy = |&at: &usize| {
            let channel = self.layout.channel_of(self.reserve[at]);
            let open = self.heads.iter().flatten().filter(|h| self.layout.channel_of(h.segment) == channel);
            (open.count(), self.queues[channel])
        };
        (0..self.usable).min_by_key(busy).unwrap_or(0)
    }

    fn open(&mut self, at: usize) -> bool {
        if self.usable == 0 {
            return false;
        }
        let Some(segment) = self.reserve.remove(self.next_reserved()) else { return false };
        self.usable -= 1;
        if let Some(old) = self.heads[at].replace(Head { segment, next: 0 }) {
            self.close(old.segment);
        }
        let opened = &mut self.segments[segment as usize];
        debug_assert_eq!(opened.live, 0);
        (opened.state, opened.written) = (State::Open, 0);
        true
    }

    fn close(&mut self, segment: u32) {
        let segment = &mut self.segments[segment as usize];
        if segment.state == State::Open {
            segment.state = State::Closed;
        }
    }

    /// Books that a batch took this many blocks at the head.
    pub fn took(&mut self, address: u64, blocks: u32) {
        let segment = self.layout.segment_of(address);
        for head in self.heads.iter_mut().flatten() {
            if head.segment == segment {
                head.next += blocks;
                self.segments[segment as usize].written = head.next;
            }
        }
    }

    /// A segment is written no more.
    pub fn retire(&mut self, segment: u32) {
        self.segments[segment as usize].state = State::Bad;
        for head in &mut self.heads {
            if head.is_some_and(|head| head.segment == segment) {
                *head = None;
            }
        }
    }

    /// A flash block takes no more from an address on. What was written before stays, and is cleaned like any other.
    pub fn break_off(&mut self, address: u64) {
        let segment = self.layout.segment_of(address);
        let block = (address - self.layout.address(segment, 0)) as u32;
        let broken = &mut self.segments[segment as usize];
        broken.written = broken.written.min(block);
        broken.state = State::Closed;
        for head in &mut self.heads {
            head.take_if(|head| head.segment == segment);
        }
    }

    /// Closed segments in which nothing lives: free, once a checkpoint that is made now is durable.
    pub fn dead(&self) -> impl Iterator<Item = u32> {
        let dead = |segment: &Segment| segment.state == State::Closed && segment.live == 0;
        (0..self.layout.segments).filter(move |&segment| dead(&self.segments[segment as usize]))
    }

    /// A dead segment joins the reserve of the checkpoint that is being made, or else those of the next.
    pub fn reserve_dead(&mut self, segment: u32) {
        let dead = &mut self.segments[segment as usize];
        dead.written = 0;
        if self.reserve.len() < RESERVE_MAX {
            dead.state = State::Reserved;
            self.reserve.push_back(segment);
        } else {
            dead.state = State::Free;
            // It is used again before what was never written: memory or an image file behind it need not grow.
            self.free.push_front(segment);
        }
    }

    /// Adopts the segments after a mount: empty ones are free, except those whose commits the next mount would need, too. An open segment of
    /// `reserve` was written after the checkpoint.
    pub fn adopt(&mut self, reserve: &[Head]) {
        self.free.clear();
        self.reserve.clear();
        self.heads.fill(None);
        let is_flash = self.layout.backend.is_flash();
        for head in reserve.iter().filter(|head| head.next > 0) {
            let segment = &mut self.segments[head.segment as usize];
            segment.written = segment.written.max(head.next);
            if segment.state != State::Bad {
                segment.state = State::Open;
            }
        }
        for number in 0..self.layout.segments {
            let segment = &mut self.segments[number as usize];
            match segment.state {
                State::Bad | State::Checkpoint => {}
                State::Open => segment.state = State::Closed,
                _ if segment.live == 0 && is_flash => (segment.state, segment.written) = (State::Free, 0),
                _ if segment.live == 0 => {
                    (segment.state, segment.written) = (State::Free, 0);
                    self.free.push_back(number);
                }
                _ => segment.state = State::Closed,
            }
        }
        self.refill();
        self.usable = self.reserve.len();
    }

    /// Segments that hold something: what the library must keep.
    pub fn kept(&self) -> Vec<u32> {
        let holds =
            |segment: &Segment| matches!(segment.state, State::Closed | State::Bad | State::Checkpoint);
        (0..self.layout.segments).filter(|&segment| holds(&self.segments[segment as usize])).collect()
    }

    /// The newest batch before which everything is written.
    pub fn written_through(&self) -> u64 {
        self.unwritten.first().map_or(self.seq - 1, |first| first - 1)
    }

    /// Keeps a block whose write failed.
    pub fn keep(&mut self, address: u64, block: SharedBlock) {
        self.lost.insert(address, block);
    }

    pub fn lost(&self, address: u64) -> Option<SharedBlock> {
        self.lost.get(&address).cloned()
    }

    pub fn has_lost(&self, address: u64) -> bool {
        self.lost.contains_key(&address)
    }

    pub fn forget_lost(&mut self) {
        self.lost.clear();
    }
}

fn for_each_segment(layout: &Layout, mut address: u64, mut count: u64, mut each: impl FnMut(u32, u32)) {
    while count > 0 {
        let segment = layout.segment_of(address);
        let blocks = count.min(layout.address(segment + 1, 0) - address);
        each(segment, blocks as u32);
        (address, count) = (address + blocks, count - blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reserve of the cleaner has to be among the segments that a checkpoint lists, or a large file system waits for it for ever.
    #[test]
    fn the_cleaner_leaves_space_to_others_however_large_the_volume() {
        for blocks in (12..38).map(|bits| 1_u64 << bits) {
            let layout = Layout::new(blocks, 256);
            let listed = RESERVE_MAX as u64 * u64::from(layout.segment_blocks);
            assert!(layout.for_cleaner() <= listed / 2, "{blocks} blocks");
        }
    }
}
