//! A block-mapped range: a logical block is as long as a chunk, and occupies a single chunk if it was written in order.
//!
//! ```text
//!   logical block   0 ............ s ............ e            pieces, newest first; a sector is in the newest piece that reaches it
//!   buffer                              [ ]                    the end of what was written, too short for a write
//!   top piece       [ written in order ▓▓▓ ]                   grows while writes come in order
//!   older piece     [ ............... rest .......... ]        read after the end of the top piece
//! ```
//! - A write that continues the last one goes straight to the top piece.
//! - Any other write starts a new top piece. Data before it are copied, data after it stay in place. So a block that is rewritten from its beginning
//!   costs no copies, and a write in mid-block copies the block up to it.
//! - A piece covered by newer ones is erased in the background. When chunks run short, GC merges a block with several pieces: it copies the rest to
//!   the top piece. The policy ([`Gc`]) chooses the block.
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`Shape`](core::Shape) | the range, its rows and its policy | never changes |
//! | [`Chunks`](chunks::Chunks) | free chunks, readers, garbage, erases in flight | a chunk has one role; older chunks of a block are erased first |
//! | [`Blocks`](blocks::Blocks) | logical blocks, those that wait for a chunk, the merge in progress | one block is merged at a time |
//! | [`Pieces`](pieces::Pieces), of a block | its chunks | newest first, each reaching further than all newer ones |
//! | [`Buffer`](buffer::Buffer), of a block | sectors too few for a write | contiguous; an unacknowledged change is at the end |
//! | [`Requests`](requests::Requests) | commands of the application, completions | a request ends with its last part, and with the first error |
//! | [`Link`](link::Link) | commands with the drive, spare buffers | a command has one record, under its tag |
//! | [`Health`](health::Health) | consecutive failures | too many of them refuse writes |
//! | [`Tally`](tally::Tally) | counts | they only grow |
//! | [`Start`](start::Start) | content found on the flash, requests that arrived meanwhile | dropped at the end of the start |
//!
//! Only an object itself writes its fields. All except the start form the [`Core`]. Paths are functions without state: commands of the application
//! (`commands`, `read`), the writer of each block (`write`), merges and erases (`gc`).
//!
//! **Durability.** A write is acknowledged when all of it is on the flash, except the last sectors that do not fill a write (`ws_min`). A flush
//! writes these, padded with the data below. Alternating flushes and writes that end in mid-page cost a copy of the block each. A flush makes the
//! trim of a whole block durable by waiting for the erases; a partial trim writes zeros.
//!
//! The metadata of each sector are the logical block, the range, and a number that ascends with each piece; a start builds the map from these. It
//! uses the readable beginning of a piece: a crash tears only the end, which consists of unacknowledged writes.
//!
//! Invariant between objects: the buffer of a block begins at the end of its top piece, or a copy is filling the gap.

mod blocks;
mod buffer;
mod chunks;
mod commands;
mod core;
mod gc;
mod health;
mod link;
mod oob;
mod pieces;
mod read;
mod requests;
mod start;
mod tally;
mod write;

use self::core::{Core, Shape};
use super::Gc;
use crate::Space;
use blocks::Place;
use link::Purpose;
use pellucid_flash::{Command, Completion, Figure, Held, Interface, Lba, SimTime};
use pellucid_host::{Layer, Machine};
use start::Start;
use std::ops::Range;
use tally::Counters;

/// Chunks that a full range needs beside those of its blocks and the reserve.
const CHUNKS_BESIDE: u32 = 2;

/// A block-mapped range. Its commands have tags below 2^32.
#[derive(Clone, Debug)]
pub(crate) struct BlockMap {
    core: Core,
    /// `None` after the start.
    start: Option<Box<Start>>,
}

impl BlockMap {
    /// A range of `sectors` on `rows` of chunks; `id` identifies it in its metadata. The error is a sentence.
    pub fn new(space: Space, rows: Range<u32>, sectors: u64, gc: Gc, id: u32) -> Result<BlockMap, String> {
        let mut core = Core::new(Shape { space, rows, sectors, gc, id })?;
        let start = Start::new(&mut core);
        Ok(BlockMap { core, start: Some(Box::new(start)) })
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        self.core.memory_bytes()
    }

    /// Checks every invariant, and panics if one is broken.
    pub fn check(&self) {
        if self.start.is_none() {
            self.core.check();
        }
    }

    /// Number of chunks whose erase has failed, which wait for [`BlockMap::try_again`].
    pub fn resting_chunks(&self) -> u64 {
        self.core.chunks.resting()
    }

    /// Returns whether writes are refused because too many chunks are bad: no chunk will become free, and those that are left are
    /// fewer than a full range needs.
    pub fn lacks_chunks(&self) -> bool {
        let needed = self.core.blocks.count() + chunks::RESERVE + CHUNKS_BESIDE;
        self.core.health.lacks_chunks() && self.core.chunks.good() < needed
    }

    /// Retries what was given up after failures: erases, and blocks that could not be written.
    pub fn try_again(&mut self, now: SimTime) {
        gc::try_again(&mut self.core, now);
    }

    /// Handles the end of a command of the start.
    fn start_ended(&mut self, completion: &mut Completion) {
        let Some(start) = &mut self.start else { return };
        if start.ended(&mut self.core, completion)
            && let Some(start) = self.start.take()
        {
            start.end(&mut self.core);
        }
    }
}

/// Maximum number of logical blocks for this many chunks.
pub(super) fn most_blocks(chunks: u64, over_provisioning: f64) -> u64 {
    let by_share = (chunks as f64 / (1.0 + over_provisioning)) as u64;
    by_share.min(chunks.saturating_sub(u64::from(chunks::RESERVE + CHUNKS_BESIDE)))
}

impl Machine for BlockMap {
    type Ask = Command;
    type Answer = Completion;

    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.core.shape.space.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        let core = &mut self.core;
        core.now = now;
        if let Some(status) = commands::refuse(core, &command) {
            return core.requests.refuse(now, command, status);
        }
        let request = core.requests.take(now, command);
        match &mut self.start {
            Some(start) => start.keep(request),
            None => commands::begin(core, request),
        }
        gc::give_up_if_stuck(core);
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        let core = &mut self.core;
        core.now = now;
        let op = core.link.ended(completion.tag as u32);
        match op.purpose {
            _ if read::tries_again(core, op, completion) => {}
            Purpose::Read { request, chunk, at } => read::ended(core, request, chunk, at, completion),
            Purpose::Fetch { logical, chunk, what } => write::fetched(core, logical, chunk, what, completion),
            Purpose::Store { logical, copy } => write::stored(core, logical, copy, completion),
            Purpose::Erase(garbage) => gc::erased(core, garbage, completion.status),
            Purpose::Start => self.start_ended(completion),
            Purpose::Idle => unreachable!("a completion of no command"),
        }
        self.core.link.put_back(completion);
        gc::give_up_if_stuck(&mut self.core);
    }

    fn advance(&mut self, now: SimTime) {
        self.core.now = now;
    }

    fn next_event(&self) -> Option<SimTime> {
        self.core.link.has_command().then_some(self.core.now)
    }

    fn next_command(&mut self) -> Option<Command> {
        self.core.link.next_command()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.core.requests.pop()
    }

    fn answered(&self) -> usize {
        self.core.requests.answered()
    }

    fn failure(&self) -> Option<String> {
        self.core.health.failure().cloned()
    }

    fn is_ready(&self) -> bool {
        self.start.is_none()
    }

    fn figures(&self) -> Vec<Figure> {
        let Counters { programmed, copied, erases, merges, pauses, write_failures, lost_reads } =
            self.core.tally.counts();
        let (read, written) = self.core.requests.sectors();
        let bytes = |sectors: u64| sectors * u64::from(self.core.shape.space.chunks.sector_bytes);
        let mut figures = vec![
            Figure::bytes("read_bytes", "Bytes that applications read.", bytes(read)),
            Figure::bytes("written_bytes", "Bytes that applications wrote.", bytes(written)),
            Figure::bytes(
                "block_map_programmed_bytes",
                "Bytes that block-mapped ranges wrote.",
                bytes(programmed),
            ),
            Figure::bytes("block_map_copied_bytes", "Bytes of these that were copied.", bytes(copied)),
            Figure::count("block_map_erases", "Chunks of block-mapped ranges that were erased.", erases),
            Figure::count("block_map_merges", "Blocks that GC merged.", merges),
            Figure::count("write_failures", "Writes that the drive failed.", write_failures),
            Figure::count("lost_sectors", "Reads that failed.", lost_reads),
            Figure::bytes("memory_bytes", "Bytes of host memory for map and buffer.", self.memory_bytes())
                .gauge(),
        ];
        figures.extend(pauses.figures([
            "gc_pauses",
            "gc_pause_sum_ns",
            "gc_pause_p50_ns",
            "gc_pause_p99_ns",
            "gc_pause_max_ns",
        ]));
        figures
    }
}

impl Layer for BlockMap {
    fn interface(&self) -> Interface {
        Interface::Block { sectors: self.core.shape.sectors, handles: 1 }
    }

    fn is_read_only(&self) -> bool {
        self.core.health.refuses_writes() || self.core.health.failure().is_some()
    }

    fn holding(&self, lba: Lba) -> Held {
        let length = u64::from(self.core.shape.length());
        let (logical, sector) = ((lba.0 / length) as u32, (lba.0 % length) as u32);
        let place = || self.core.blocks[logical].locate(sector, 1, self.core.shape.image()).0;
        Held { holds: self.start.is_some() || place() != Place::Nowhere, until: lba.0 + 1, looks: 1 }
    }
}
