//! Logical blocks: pieces, buffer and changes of each, and those that wait for chunks.
//!
//! Invariants: a block is busy while exactly one command of its writer is with the drive; a block waits for a chunk if and only if it is starved; one
//! block is merged at a time; numbers of pieces ascend.

use super::buffer::Buffer;
use super::pieces::{Piece, Pieces};
use super::requests::Part;
use pellucid_flash::SimTime;
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

/// Location of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Chunk(u32),
    Buffer,
    Nowhere,
}

/// A logical block.
#[derive(Clone, Debug, Default)]
pub(super) struct Logical {
    pub pieces: Pieces,
    pub buffer: Buffer,
    /// Changes still to be made.
    queue: VecDeque<Part>,
    /// True if a command of its writer is with the drive.
    busy: bool,
    /// True if the block waits for a free chunk.
    starved: bool,
    /// True if data to copy are unreadable, so the buffer cannot be written.
    stuck: bool,
    /// True if the block cannot be merged, for lack of readable data.
    lame: bool,
    /// Requests (flushes, and writes with force unit access) that wait until the buffer is empty.
    awaited: Vec<u32>,
    /// Clock value of its last change.
    touched: u64,
}

impl Logical {
    /// Address of a sector, and the number of contiguous sectors starting there, at most `most`.
    pub fn locate(&self, sector: u32, most: u32, image: usize) -> (Place, u32) {
        let (from, held) = (self.buffer.from(), self.buffer.held(image));
        let mut limit = sector + most;
        if held > 0 && sector < from + held {
            if sector >= from {
                return (Place::Buffer, (from + held).min(limit) - sector);
            }
            limit = limit.min(from);
        }
        match self.pieces.find(sector) {
            Some(piece) => (Place::Chunk(piece.chunk), piece.ends.min(limit) - sector),
            None => (Place::Nowhere, limit - sector),
        }
    }

    /// The next change.
    pub fn next_change(&self) -> Option<Part> {
        self.queue.front().copied()
    }

    /// Takes the next change.
    pub fn take_change(&mut self) -> Option<Part> {
        self.queue.pop_front()
    }

    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Notes a command of the writer to the drive.
    pub fn begin_command(&mut self) {
        assert!(!self.busy, "a block has one command at a time");
        self.busy = true;
    }

    /// Notes the end of the writer's command.
    pub fn end_command(&mut self) {
        assert!(self.busy, "a command that was sent");
        self.busy = false;
    }

    pub fn is_starved(&self) -> bool {
        self.starved
    }

    pub fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// Marks the buffer as unwritable.
    pub fn stick(&mut self) {
        self.stuck = true;
    }

    /// Retries writing the buffer; `false`: nothing was stuck.
    pub fn try_again(&mut self) -> bool {
        std::mem::take(&mut self.stuck)
    }

    /// Marks data below the top piece as unreadable.
    pub fn cannot_be_copied(&mut self) {
        self.lame = true;
    }

    /// Reports whether its pieces may be merged.
    pub fn can_be_merged(&self) -> bool {
        !self.lame && !self.stuck
    }

    /// Clock value of its last change.
    pub fn touched(&self) -> u64 {
        self.touched
    }

    /// Reports whether anything waits until the buffer is empty.
    pub fn is_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Makes a request wait until the buffer is empty.
    pub fn await_empty(&mut self, request: u32) {
        self.awaited.push(request);
    }

    /// Takes the requests that wait until the buffer is empty.
    pub fn take_awaited(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.awaited)
    }

    /// Trims the block; returns its pieces, which are no longer needed.
    pub fn trim(&mut self) -> Vec<Piece> {
        self.lame = false;
        self.pieces.take()
    }

    /// Takes the requests that wait for the block, and drops the data of unacknowledged changes.
    pub fn give_up_changes(&mut self, image: usize) -> Vec<u32> {
        let taken = self.buffer.drop_taken(image).into_iter();
        let changes = taken.chain(self.queue.drain(..)).map(|part| part.request);
        let mut requests: Vec<u32> = changes.collect();
        requests.append(&mut self.awaited);
        requests
    }
}

/// Logical blocks of a range.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    blocks: Vec<Logical>,
    /// Blocks that wait for a free chunk, in order of arrival.
    starved: VecDeque<u32>,
    /// The block being merged, and the start of the merge.
    merging: Option<(u32, SimTime)>,
    /// Number of the next piece.
    sequence: u64,
    /// Number of changes so far.
    clock: u64,
}

impl Index<u32> for Blocks {
    type Output = Logical;

    #[inline]
    fn index(&self, number: u32) -> &Logical {
        &self.blocks[number as usize]
    }
}

impl IndexMut<u32> for Blocks {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut Logical {
        &mut self.blocks[number as usize]
    }
}

impl Blocks {
    /// Creates this many empty blocks.
    pub fn new(count: usize) -> Blocks {
        Blocks {
            blocks: vec![Logical::default(); count],
            starved: VecDeque::new(),
            merging: None,
            sequence: 1,
            clock: 0,
        }
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        let buffers: usize = self.blocks.iter().map(|block| block.buffer.memory_bytes()).sum();
        (buffers + self.blocks.len() * size_of::<Logical>()) as u64
    }

    /// Checks the invariants, and panics if one is broken.
    pub fn check(&self) {
        for (number, block) in self.blocks.iter().enumerate() {
            block.pieces.check(number);
            block.buffer.check(number);
        }
        let starved = self.blocks.iter().filter(|block| block.starved).count();
        assert_eq!(starved, self.starved.len(), "blocks that wait for a chunk");
    }

    /// Number of blocks.
    pub fn count(&self) -> u32 {
        self.blocks.len() as u32
    }

    pub fn iter(&self) -> impl Iterator<Item = &Logical> {
        self.blocks.iter()
    }

    /// Queues a change of a block.
    pub fn change(&mut self, number: u32, part: Part) {
        self.clock += 1;
        let clock = self.clock;
        let block = &mut self[number];
        block.touched = clock;
        block.queue.push_back(part);
    }

    /// Number of changes made since the block was changed.
    pub fn age(&self, number: u32) -> u64 {
        self.clock - self[number].touched
    }

    /// Starts a top piece of a block. Returns pieces that are no longer needed.
    pub fn begin_piece(&mut self, number: u32, chunk: u32) -> Vec<Piece> {
        let sequence = self.sequence;
        self.sequence += 1;
        self[number].pieces.begin(chunk, sequence)
    }

    /// Adds a piece found on the flash.
    pub fn found(&mut self, number: u32, piece: Piece) {
        self.sequence = self.sequence.max(piece.sequence + 1);
        self[number].pieces.found(piece);
    }

    /// Makes a block wait for a free chunk.
    pub fn starve(&mut self, number: u32) {
        if !std::mem::replace(&mut self[number].starved, true) {
            self.starved.push_back(number);
        }
    }

    /// Reports whether a block waits for a free chunk.
    pub fn any_starved(&self) -> bool {
        !self.starved.is_empty()
    }

    /// Takes the blocks that wait for a chunk; [`Blocks::feed`] follows for each.
    pub fn take_starved(&mut self) -> VecDeque<u32> {
        std::mem::take(&mut self.starved)
    }

    /// Ends a block's wait for a chunk.
    pub fn feed(&mut self, number: u32) {
        self[number].starved = false;
    }

    /// Starts merging a block.
    pub fn begin_merge(&mut self, number: u32, now: SimTime) {
        assert!(self.merging.is_none(), "one block is merged at a time");
        self.merging = Some((number, now));
    }

    /// Returns whether a block is being merged.
    pub fn merges(&self) -> bool {
        self.merging.is_some()
    }

    /// Returns whether this block is being merged.
    pub fn is_merging(&self, number: u32) -> bool {
        self.merging.is_some_and(|(merging, _)| merging == number)
    }

    /// Ends the merge; returns its start.
    pub fn end_merge(&mut self) -> Option<SimTime> {
        self.merging.take().map(|(_, since)| since)
    }
}
