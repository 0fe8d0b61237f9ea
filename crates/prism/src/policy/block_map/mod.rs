//! A block-mapped range: a logical block is as long as a chunk, and lies in one chunk where it was written in order.
//!
//! ```text
//!   logical block   0 ............ s ............ e            pieces, the newest first; a sector is in the newest that reaches it
//!   buffer                              [ ]                    the end of what was written, too short for a write
//!   top piece       [ written in order ▓▓▓ ]                   grows while writes come in order
//!   older piece     [ ............... rest .......... ]        read behind the end of the top piece
//! ```
//! - A write that continues the last one goes straight to the top piece.
//! - Any other write begins a new top piece. Data before it are copied, data behind it stay in place. So a block that is rewritten from its
//!   beginning costs no copies, and a write in mid-block copies the block up to it.
//! - A piece that newer ones cover is erased in the background. When chunks run short, GC merges a block that has several pieces: it copies
//!   the rest to the top piece. The policy ([`Gc`]) chooses the block.
//!
//! | file | job |
//! |---|---|
//! | `requests.rs`, `read.rs` | commands of the application; where their sectors lie |
//! | `write.rs` | the writer of each block: buffer, copies, padding, failures |
//! | `space.rs` | free chunks, erases, choice of the block that is merged |
//! | `start.rs` | which chunks hold what |
//!
//! **Durability.** A write is acknowledged when all of it is on the flash, except the last sectors that do not fill a write (`ws_min`). A flush
//! writes these, padded with the data below. Writes that end in mid-page and flushes between them cost a copy of the block each.
//! A trim of a whole block is kept by a flush, which waits for the erases; a trim of less writes zeros.
//!
//! Beside each sector stand the logical block, the range, and a number that grows with each piece; a start builds the map from these. It takes
//! the readable beginning of a piece: a crash tears only the end, of writes that were not acknowledged.
//!
//! Invariants: pieces of a block are ordered by number and each reaches further than all newer ones; the buffer begins where the top piece
//! ends, or a copy is on its way there; a chunk is erased when nothing reads it, and after all older ones of its block.

mod read;
mod requests;
mod space;
mod start;
mod write;

use super::Gc;
use crate::Space;
use pellucid_flash::slab::Slab;
use pellucid_flash::{
    ChunkAddress, Command, Completion, Figure, Held, Interface, Lba, Pauses, SimTime, StageTimes, Status,
    Vector,
};
use pellucid_ftl::Pool;
use pellucid_host::{Layer, Machine};
use read::Place;
use std::collections::VecDeque;
use std::ops::Range;

/// How often a read that fails is sent again.
const READ_RETRIES: u32 = 2;

/// A chunk that holds the beginning of a logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    chunk: u32,
    /// Sectors that can be read from it.
    ends: u32,
    /// True if the piece takes more writes.
    open: bool,
    sequence: u64,
}

/// Part of an application's command in one logical block.
#[derive(Clone, Copy, Debug)]
struct Part {
    request: u32,
    /// First sector of the block.
    first: u32,
    sectors: u32,
    /// Where its data are in the request's; in sectors.
    at: u32,
}

/// A logical block.
#[derive(Clone, Debug, Default)]
struct Logical {
    /// The newest first.
    pieces: Vec<Piece>,
    /// Changes that have yet to be made.
    queue: VecDeque<Part>,
    /// Images of sectors from `from` on that are not on the flash.
    buffer: Vec<u8>,
    from: u32,
    /// The change whose data are at the end of the buffer, and not acknowledged.
    taken: Option<Part>,
    /// A command of its writer is with the drive.
    busy: bool,
    /// True if the block waits for a free chunk.
    starved: bool,
    /// True if the block is being merged.
    merging: bool,
    /// Data to copy cannot be read, so the buffer cannot be written.
    stuck: bool,
    /// True if the block cannot be merged, for lack of readable data.
    lame: bool,
    /// Flushes and writes with force unit access that wait until the buffer is empty.
    awaited: Vec<u32>,
    /// Moment of its last change.
    touched: u64,
}

/// State of each chunk.
#[derive(Clone, Debug, Default)]
struct Chunk {
    readers: u32,
    /// Flushes that wait for its erase.
    awaited: Vec<u32>,
}

/// A chunk that is to be erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Garbage {
    chunk: u32,
    logical: u32,
    sequence: u64,
    /// True if the block was trimmed: flushes wait for the erase.
    trimmed: bool,
}

/// A command of the application.
#[derive(Clone, Debug, Default)]
struct Request {
    command: Option<Command>,
    submitted: SimTime,
    /// Number of commands that it waits for.
    left: u32,
    status: Option<Status>,
    stages: StageTimes,
    unmapped: u32,
}

/// Purpose of a command to the drive.
#[derive(Clone, Copy, Debug, Default)]
enum Purpose {
    #[default]
    Idle,
    Start,
    /// Sectors of a request, of this chunk, to this place.
    Read {
        request: u32,
        chunk: u32,
        at: u32,
    },
    /// The writer of a block reads what it needs, from this chunk.
    Fetch {
        logical: u32,
        chunk: u32,
        what: Fetch,
    },
    /// The writer of a block writes: copies, or its buffer.
    Store {
        logical: u32,
        copy: bool,
    },
    Erase(Garbage),
}

/// Use that the writer of a block makes of data it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetch {
    /// Writes it to the top piece.
    Copy,
    /// Puts it before the buffer, which begins in mid-page.
    Before,
    /// Puts it behind the buffer, which ends in mid-page.
    Behind,
}

/// A command with the drive.
#[derive(Clone, Copy, Debug, Default)]
struct Op {
    purpose: Purpose,
    lba: Lba,
    sectors: u32,
    /// How often it was tried before.
    tries: u32,
}

/// Counters since the start; sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BlockMapCounters {
    pub read: u64,
    pub written: u64,
    pub programmed: u64,
    pub copied: u64,
    pub erases: u64,
    pub merges: u64,
    pub pauses: Pauses,
    pub write_failures: u64,
    pub lost_reads: u64,
}

/// A block-mapped range. Its commands have tags below 2^32.
#[derive(Clone, Debug)]
pub(crate) struct BlockMap {
    space: Space,
    rows: Range<u32>,
    sectors: u64,
    gc: Gc,
    id: u32,
    now: SimTime,
    /// The chunks: those of its rows, of every LUN.
    pool: Pool,
    chunks: Vec<Chunk>,
    garbage: Vec<Garbage>,
    /// Chunks whose erase has failed.
    spoiled: Vec<Garbage>,
    /// Erases under way in each LUN.
    erasing: Vec<bool>,
    /// Writes under way in each LUN.
    writing: Vec<u32>,
    logical: Vec<Logical>,
    /// Blocks that wait for a free chunk.
    starved: VecDeque<u32>,
    /// The block that is being merged, and since when.
    merging: Option<(u32, SimTime)>,
    sequence: u64,
    clock: u64,
    turn: u32,
    read_only: bool,
    failures_in_a_row: u32,
    start: Option<Box<start::Start>>,
    failure: Option<String>,
    early: VecDeque<u32>,
    requests: Slab<Request>,
    ops: Slab<Op>,
    images: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "the box is what commands carry")]
    vectors: Vec<Box<Vector>>,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
    counters: BlockMapCounters,
}

impl BlockMap {
    /// A range of `sectors` on `rows` of chunks; `id` names it beside its data. The error is a sentence.
    pub fn new(space: Space, rows: Range<u32>, sectors: u64, gc: Gc, id: u32) -> Result<BlockMap, String> {
        let geometry = &space.chunks;
        if geometry.cached_sectors > 0 {
            return Err(
                "the drive holds sectors back (mw_cunits); a block-mapped range reads what it wrote".into()
            );
        }
        if geometry.open_chunks_max > 0 || geometry.open_chunks_per_unit_max > 0 {
            return Err(
                "the drive limits open chunks; every block of a block-mapped range may be open".into()
            );
        }
        let luns = space.geometry().luns();
        let all = u64::from(luns) * rows.len() as u64;
        let blocks = sectors.div_ceil(geometry.chunk_sectors.into());
        let needed = blocks + u64::from(space::RESERVE) + 2;
        if needed > all {
            return Err(format!("{} rows have {all} chunks, and {blocks} blocks take {needed}", rows.len()));
        }
        let layout = space.geometry().layout();
        let mut map = BlockMap {
            pool: Pool::new(&layout, rows.clone()),
            chunks: vec![Chunk::default(); space.geometry().blocks() as usize],
            erasing: vec![false; luns as usize],
            writing: vec![0; luns as usize],
            logical: vec![Logical::default(); blocks as usize],
            space,
            rows,
            sectors,
            gc,
            id,
            now: SimTime::ZERO,
            garbage: Vec::new(),
            spoiled: Vec::new(),
            starved: VecDeque::new(),
            merging: None,
            sequence: 1,
            clock: 0,
            turn: 0,
            read_only: false,
            failures_in_a_row: 0,
            start: Some(Box::default()),
            failure: None,
            early: VecDeque::new(),
            requests: Slab::default(),
            ops: Slab::default(),
            images: Vec::new(),
            vectors: Vec::new(),
            down: VecDeque::new(),
            up: VecDeque::new(),
            counters: BlockMapCounters::default(),
        };
        map.ask_for_chunks();
        Ok(map)
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        let buffers: usize = self.logical.iter().map(|l| l.buffer.capacity()).sum();
        let records = self.logical.len() * size_of::<Logical>() + self.chunks.len() * size_of::<Chunk>();
        (buffers + records) as u64 + self.pool.memory_bytes() + self.requests.memory_bytes()
    }

    /// Walks every invariant and panics where one is broken.
    pub fn check(&self) {
        if self.start.is_some() {
            return;
        }
        self.pool.check();
        let mut held: Vec<u32> =
            self.garbage.iter().chain(&self.spoiled).map(|garbage| garbage.chunk).collect();
        for (number, logical) in self.logical.iter().enumerate() {
            for pair in logical.pieces.windows(2) {
                assert!(
                    pair[0].sequence > pair[1].sequence && pair[0].ends < pair[1].ends,
                    "block {number}: {pair:?}"
                );
            }
            held.extend(logical.pieces.iter().map(|piece| piece.chunk));
            assert!(logical.taken.is_none() || !logical.buffer.is_empty(), "block {number}");
        }
        held.extend(self.erased_now().map(|garbage| garbage.chunk));
        held.sort_unstable();
        assert!(held.windows(2).all(|pair| pair[0] != pair[1]), "a chunk has two places: {held:?}");
        for block in self.pool.all() {
            let free = self.pool.is_free(block) || self.pool.is_bad(block);
            assert_eq!(free, held.binary_search(&block.0).is_err(), "chunk {}", block.0);
        }
    }

    /// A sector of a chunk.
    fn lba(&self, chunk: u32, sector: u32) -> Lba {
        let ChunkAddress { group, unit, chunk, .. } = self.space.chunks.chunk_at(chunk);
        self.space.chunks.lba(ChunkAddress { group, unit, chunk, sector })
    }

    fn lun_of(&self, chunk: u32) -> usize {
        (chunk / self.space.chunks.chunks) as usize
    }

    /// Sectors of a logical block.
    fn length(&self) -> u32 {
        self.space.chunks.chunk_sectors
    }

    fn image(&self) -> usize {
        self.space.image_bytes
    }

    /// Sectors of a write.
    fn unit(&self) -> u32 {
        self.space.page_sectors()
    }

    fn send(&mut self, purpose: Purpose, command: Command) {
        self.send_again(purpose, 0, command);
    }

    fn send_again(&mut self, purpose: Purpose, tries: u32, command: Command) {
        let Command { lba, sectors, .. } = command;
        let op = self.ops.insert(Op { purpose, lba, sectors, tries });
        self.down.push_back(Command { tag: op.into(), namespace: self.space.namespace, ..command });
    }

    /// Chunks that are being erased.
    fn erased_now(&self) -> impl Iterator<Item = Garbage> {
        self.ops.iter().filter_map(|op| match op.purpose {
            Purpose::Erase(garbage) => Some(garbage),
            _ => None,
        })
    }

    /// Takes back the buffers of a command.
    fn put_back(&mut self, completion: &mut Completion) {
        let data = std::mem::take(&mut completion.data);
        if data.capacity() > 0 {
            self.images.push(data);
        }
        if let Some(mut vector) = completion.vector.take() {
            vector.addresses.clear();
            vector.metadata.clear();
            self.vectors.push(vector);
        }
    }
}

/// Logical blocks that this many chunks can hold.
pub(super) fn most_blocks(chunks: u64, over_provisioning: f64) -> u64 {
    let by_share = (chunks as f64 / (1.0 + over_provisioning)) as u64;
    by_share.min(chunks.saturating_sub(u64::from(space::RESERVE) + 2))
}

impl Machine for BlockMap {
    type Ask = Command;
    type Answer = Completion;

    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.space.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.now = now;
        if let Some(status) = self.refuse(&command) {
            return self.up.push_back(command.refused(now, status));
        }
        let request = self.requests.take();
        let record = &mut self.requests[request];
        *record = Request { command: Some(command), submitted: now, ..Request::default() };
        match self.start {
            Some(_) => self.early.push_back(request),
            None => self.arrived(request),
        }
        self.give_up_if_stuck();
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        let number = completion.tag as u32;
        let op = std::mem::take(&mut self.ops[number]);
        self.ops.release(number);
        match op.purpose {
            _ if self.tries_again(op, completion) => {}
            Purpose::Read { .. } => self.read_ended(op.purpose, completion),
            Purpose::Fetch { logical, chunk, what } => self.fetched(logical, chunk, what, completion),
            Purpose::Store { logical, copy } => self.stored(logical, copy, completion),
            Purpose::Erase(garbage) => self.erased(garbage, completion.status),
            Purpose::Start => self.start_ended(completion),
            Purpose::Idle => unreachable!("a completion of no command"),
        }
        self.put_back(completion);
        self.give_up_if_stuck();
    }

    fn advance(&mut self, now: SimTime) {
        self.now = now;
    }

    fn next_event(&self) -> Option<SimTime> {
        (!self.down.is_empty()).then_some(self.now)
    }

    fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    fn answered(&self) -> usize {
        self.up.len()
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    fn is_ready(&self) -> bool {
        self.start.is_none()
    }

    fn figures(&self) -> Vec<Figure> {
        let BlockMapCounters {
            read,
            written,
            programmed,
            copied,
            erases,
            merges,
            pauses,
            write_failures,
            lost_reads,
        } = self.counters;
        let bytes = |sectors: u64| sectors * u64::from(self.space.chunks.sector_bytes);
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
        Interface::Block { sectors: self.sectors, handles: 1 }
    }

    fn is_read_only(&self) -> bool {
        self.read_only || self.failure.is_some()
    }

    fn holding(&self, lba: Lba) -> Held {
        let length = u64::from(self.length());
        let (logical, sector) = ((lba.0 / length) as u32, (lba.0 % length) as u32);
        let holds = self.start.is_some() || self.locate(logical, sector, 1).0 != Place::Nowhere;
        Held { holds, until: lba.0 + 1, looks: 1 }
    }
}
