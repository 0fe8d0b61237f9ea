//! Space: the segments of the log, their live blocks, and the location of the next blocks.
//!
//! ```text
//!   free ─► reserved ─► open ─► closed ─► (nothing lives, and a checkpoint knows it) free
//!                                  └─► bad: never written again
//! ```
//! A checkpoint lists the segments that the log may use after it, the *reserve*; a mount reads only these. A freed segment joins the reserve with the
//! next checkpoint, and is written after that is durable.
//! On flash (`backend.rs`) the library owns free segments; `free` holds those it has allocated.
//!
//! Invariants: a segment has no more live blocks than written ones; exactly the first `usable` segments of the reserve are in a durable checkpoint.

use crate::layout::Layout;
use crate::types::BLOCK_BYTES;
use std::collections::VecDeque;

/// Minimum blocks of a batch with data: the header, its copy, and a block.
const BATCH_BLOCKS_MIN: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Reserved,
    Open,
    Closed,
    Bad,
    /// The segment holds checkpoints (flash).
    Checkpoint,
}

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Blocks referenced by the tree, and its nodes.
    pub live: u32,
    /// Blocks written.
    pub written: u32,
    /// Time of the last write, in seconds.
    pub age_s: u32,
    pub state: State,
}

/// Source of a write: new data, or GC copies of the cleaner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    New = 0,
    Moved = 1,
}

/// An open segment and its next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub segment: u32,
    pub next: u32,
}

/// The segments: open, free and reserved ones.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    layout: Layout,
    segments: Vec<Segment>,
    free: VecDeque<u32>,
    reserve: VecDeque<u32>,
    /// Number of segments at the front of the reserve that a durable checkpoint lists.
    usable: usize,
    /// Open segments: first those for new data, then those for GC copies.
    heads: Vec<Option<Head>>,
    /// The segment written next if queues are equally short.
    turn: usize,
    /// Blocks being read and written, by channel.
    queues: Vec<u64>,
    /// Flash blocks that the library can still hand out.
    elsewhere: u32,
}

impl Space {
    pub fn new(layout: Layout) -> Space {
        let segment = Segment { live: 0, written: 0, age_s: 0, state: State::Free };
        Space {
            layout,
            segments: vec![segment; layout.segments as usize],
            free: if layout.backend.is_flash() { VecDeque::new() } else { (0..layout.segments).collect() },
            reserve: VecDeque::new(),
            usable: 0,
            heads: vec![None; 2 * layout.lanes() as usize],
            turn: 0,
            queues: vec![0; layout.channels() as usize],
            elsewhere: 0,
        }
    }

    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns whether data have names.
    pub fn has_names(&self) -> bool {
        self.layout.backend.names().is_some()
    }

    pub fn segment(&self, segment: u32) -> &Segment {
        &self.segments[segment as usize]
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns where the log may continue after a checkpoint made now.
    pub fn reserve(&self) -> Vec<Head> {
        let unopened = self.reserve.iter().map(|&segment| Head { segment, next: 0 });
        self.heads.iter().flatten().copied().chain(unopened).collect()
    }

    /// Makes the whole reserve writable: the checkpoint that lists it is durable.
    pub fn use_reserve(&mut self) {
        self.usable = self.reserve.len();
    }

    /// Sets how many flash blocks the library can still hand out.
    pub fn set_elsewhere(&mut self, segments: u32) {
        self.elsewhere = segments;
    }

    /// Flash blocks that the library can still hand out.
    pub fn elsewhere(&self) -> u32 {
        self.elsewhere
    }

    /// Returns whether a block of the drive belongs to a segment.
    pub fn is_block(&self, address: u64) -> bool {
        address >= self.layout.start && address < self.layout.address(self.layout.segments, 0)
    }

    /// Reports whether a block of the drive may hold data.
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

    /// Moves free segments into the reserve; they are written after the next checkpoint is durable.
    pub fn refill(&mut self) {
        while self.reserve.len() < self.layout.reserve_most()
            && let Some(segment) = self.free.pop_front()
        {
            self.segments[segment as usize].state = State::Reserved;
            self.reserve.push_back(segment);
        }
    }

    /// Blocks that can be written before a checkpoint is needed.
    pub fn room(&self) -> u64 {
        let each = u64::from(self.layout.segment_blocks);
        let heads = self.heads.iter().flatten().map(|head| each - u64::from(head.next)).sum::<u64>();
        self.usable as u64 * each + heads
    }

    /// Number of empty segments.
    pub fn unused(&self) -> usize {
        self.free.len() + self.reserve.len() + self.elsewhere as usize
    }

    /// Notes the start or the end of a job on blocks.
    pub fn queue(&mut self, address: u64, blocks: u64, begins: bool) {
        if !self.is_block(address) {
            return;
        }
        let channel = self.layout.channel_of(self.layout.segment_of(address));
        let queue = &mut self.queues[channel];
        *queue = if begins { *queue + blocks } else { queue.saturating_sub(blocks) };
    }

    /// Reports whether the library should allocate a flash block, to keep enough for the next checkpoints.
    pub fn wants_segment(&self, memory_bytes: usize) -> bool {
        if self.elsewhere == 0 {
            return false;
        }
        let each = self.layout.segment_blocks as usize * BLOCK_BYTES;
        let most =
            (4 * self.layout.lanes() as usize + memory_bytes / each + 8).min(self.layout.reserve_most());
        self.free.len() + self.reserve.len() < most
    }

    /// Adds an allocated flash block. `at_once`: it need not be listed in a durable checkpoint first.
    pub fn allocated(&mut self, segment: u32, at_once: bool) {
        self.segments[segment as usize] = Segment { live: 0, written: 0, age_s: 0, state: State::Free };
        if at_once && self.usable == self.reserve.len() && self.usable < self.layout.reserve_most() {
            self.segments[segment as usize].state = State::Reserved;
            self.reserve.push_back(segment);
            self.usable += 1;
        } else {
            self.free.push_back(segment);
        }
    }

    /// Takes a flash block for checkpoints.
    pub fn take_for_checkpoints(&mut self) -> Option<u32> {
        let segment = self.free.pop_front().or_else(|| {
            let segment = self.reserve.pop_back()?;
            self.usable = self.usable.min(self.reserve.len());
            Some(segment)
        })?;
        self.segments[segment as usize].state = State::Checkpoint;
        Some(segment)
    }

    /// Notes a flash block that was given back.
    pub fn given_back(&mut self, segment: u32) {
        self.segments[segment as usize] = Segment { live: 0, written: 0, age_s: 0, state: State::Free };
        self.elsewhere += 1;
    }

    /// Location of a stream's next batch, and its maximum blocks, at least [`BATCH_BLOCKS_MIN`]. `None`: no segment is left.
    pub fn place(&mut self, stream: Stream, now_s: u32) -> Option<(u64, u32)> {
        let each = self.layout.segment_blocks;
        let (lanes, first) = (self.heads.len() / 2, stream as usize * self.heads.len() / 2);
        for at in first..first + lanes {
            if !self.has_space(at) {
                self.open(at);
            }
        }
        // If this stream has no segment, uses one of the other stream.
        let at = self.shortest(first).or_else(|| self.shortest(lanes - first))?;
        self.turn = at + 1;
        let head = self.heads[at]?;
        self.segments[head.segment as usize].age_s = now_s;
        let most = self.layout.batch_most().min(each - head.next);
        Some((self.layout.address(head.segment, head.next), most))
    }

    fn has_space(&self, at: usize) -> bool {
        self.heads[at].is_some_and(|head| head.next + BATCH_BLOCKS_MIN <= self.layout.segment_blocks)
    }

    /// The open segment of a stream in the channel with the shortest queue; of equals, the next in turn.
    fn shortest(&self, first: usize) -> Option<usize> {
        let lanes = self.heads.len() / 2;
        let in_turn = (0..lanes).map(|n| first + (self.turn + n) % lanes).filter(|&at| self.has_space(at));
        in_turn.min_by_key(|&at| {
            let segment = self.heads[at].map_or(0, |head| head.segment);
            self.queues[self.layout.channel_of(segment)]
        })
    }

    /// The segment of the usable reserve to open next: in the channel with the fewest open ones, then with the shortest queue.
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

    /// Books this many blocks of a batch at the head.
    pub fn took(&mut self, address: u64, blocks: u32) {
        let segment = self.layout.segment_of(address);
        for head in self.heads.iter_mut().flatten() {
            if head.segment == segment {
                head.next += blocks;
                self.segments[segment as usize].written = head.next;
            }
        }
    }

    /// Retires a segment from writing.
    pub fn retire(&mut self, segment: u32) {
        self.segments[segment as usize].state = State::Bad;
        for head in &mut self.heads {
            if head.is_some_and(|head| head.segment == segment) {
                *head = None;
            }
        }
    }

    /// Closes a flash block for writes from an address on. Earlier data stay, and are cleaned as usual.
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

    /// Closed segments without live data: free once a checkpoint made now is durable.
    pub fn dead(&self) -> impl Iterator<Item = u32> {
        let dead = |segment: &Segment| segment.state == State::Closed && segment.live == 0;
        (0..self.layout.segments).filter(move |&segment| dead(&self.segments[segment as usize]))
    }

    /// Moves a dead segment into the reserve of the current checkpoint, or into the free list.
    pub fn reserve_dead(&mut self, segment: u32) {
        let dead = &mut self.segments[segment as usize];
        dead.written = 0;
        if self.reserve.len() < self.layout.reserve_most() {
            dead.state = State::Reserved;
            self.reserve.push_back(segment);
        } else {
            dead.state = State::Free;
            // Reused before never-written segments, so that memory or an image file behind them need not grow.
            self.free.push_front(segment);
        }
    }

    /// Restores the segments of a checkpoint, at a mount.
    pub fn restore(&mut self, segments: &[Segment]) {
        self.segments.copy_from_slice(segments);
    }

    /// Notes whole batches of a segment after the checkpoint, up to a block.
    pub fn replayed(&mut self, segment: u32, end: u32) {
        let segment = &mut self.segments[segment as usize];
        segment.written = segment.written.max(end);
        segment.state = State::Open;
    }

    /// Notes a flash block with checkpoints.
    pub fn has_checkpoints(&mut self, segment: u32) {
        self.segments[segment as usize].state = State::Checkpoint;
    }

    /// Adopts the segments after a mount: empty ones are free, except those whose commits the next mount would also need. An open segment of
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

    /// Segments in use, which the library must keep.
    pub fn kept(&self) -> Vec<u32> {
        let holds =
            |segment: &Segment| matches!(segment.state, State::Closed | State::Bad | State::Checkpoint);
        (0..self.layout.segments).filter(|&segment| holds(&self.segments[segment as usize])).collect()
    }

    /// Checks the invariants, and panics if one is broken.
    pub fn check(&self) {
        assert!(self.usable <= self.reserve.len(), "what is usable is reserved");
        for segment in &self.segments {
            assert!(segment.live <= segment.written, "what lives was written");
        }
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
