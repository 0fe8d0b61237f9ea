//! The cache manager: a flash cache in front of a slower backing store.
//!
//! ```text
//!   asks ─► locks ─► read, write, trim ──► flash: slots of a block drive, or a solid-state cache
//!                          │       ▲           │
//!                          ▼       └─ fills    │ cleaner: dirty blocks, in the order of the backing store
//!                    backing store ◄───────────┘
//! ```
//! A *block* is what is cached. It is *dirty* where only the flash has its newest data, *clean* where the backing store has them too.
//! The manager looks like a block drive of the backing store's size.
//!
//! # What is durable when
//!
//! A power cut of the flash, of this host, or of both must lose no write that was flushed or forced, and a read must never go back and
//! forth between two versions. These rules bring that about; each names the crash that would break it.
//!
//! 1. **The dirty copy counts.** A dirty block is read from the flash, and a write to it goes to the flash, whatever else is decided. So a
//!    write never reaches the backing store past an older dirty copy, which a restart would bring back.
//! 2. **A flush** makes the data of writes durable on both drives, and then what says that they are dirty: the commands of a solid-state
//!    cache carry that themselves, for a block drive the *records* are written, by force, behind the flush of the data (`commit.rs`). A
//!    record that came before its data would name what lay in the slot before.
//! 3. **A block becomes clean** when the backing store has it behind a flush. A write that comes between the copy and that moment keeps it
//!    dirty (`clean.rs`).
//! 4. **A slot is used for another block** only when no record on the flash calls it dirty (`slots.rs`).
//! 5. **A clean copy is dropped before newer data reach the backing store** past it (`write.rs`). With a solid-state cache whose commands
//!    are durable, clean copies outlive a crash, so the eviction is awaited first; and a clean copy is made only of what the backing store
//!    has behind a flush or by force, or a crash of the store would leave it older than the copy. Everywhere else clean copies count only
//!    after a stop in order, and a start after a crash drops them.
//! 6. **Trimmed dirty blocks** are dropped when the trim is durable on the backing store: before, what an older flush promised would be
//!    gone with the power.
//! 7. **Nobody reads while versions differ**: a write, a fill and a trim have their blocks for themselves (`locks.rs`).
//!
//! | crash of | what is there afterwards |
//! |---|---|
//! | this program | as both, but drives keep what they acknowledged |
//! | the flash, or both | dirty blocks as of the last flush or later; clean ones after a stop in order, or with durable commands; the manager starts again |
//!
//! # Errors
//!
//! A clean block that cannot be read is read from the backing store. A dirty one that cannot be read is an error, and stays dirty. A block that
//! the flash does not take is written to the backing store, unless it is dirty there: then the write fails, because of rule 1. What the backing store
//! refuses is an error of the command; blocks that cannot be cleaned stay dirty, and cleaning is tried again later. What the flash cannot say
//! counts as dirty. All this is counted ([`Machine::figures`]).

mod block_map;
mod clean;
mod commit;
mod config;
mod counters;
mod ends;
mod head;
mod locks;
mod read;
mod slots;
mod start;
mod streams;
mod write;

pub use config::{CacheConfig, CacheError, CacheMode, RecordWrites, Replacement, StoreIdentity};
pub use counters::CacheCounters;

use crate::{Layer, Machine};
use block_map::BlockMap;
use clean::Cleaner;
use commit::{Commit, Records};
use ends::Ending;
use locks::{Held, Hold, Locks};
use pellucid_flash::slab::{NIL, Slab};
use pellucid_flash::{
    CacheGeometry, Command, Completion, Figure, Interface, Lba, Nanos, Opcode, SimTime, Stage, StageTimes,
    Status,
};
use slots::{Layout, Slots};
use start::Start;
use std::collections::VecDeque;
use streams::Streams;

/// What caches.
#[derive(Clone, Debug)]
enum Backend {
    /// A block drive, its slots managed here.
    Block(Slots),
    /// A solid-state cache.
    Ssc(CacheGeometry),
}

/// What an operation does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Read,
    Write,
    /// Also zeros that are written without being transferred.
    Trim,
    Flush,
    /// Dirty blocks go to the backing store.
    Clean,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// Reads, or what is to be written goes to where it belongs.
    #[default]
    Data,
    /// Cleaning: the copy goes to the backing store. A trim does.
    Backing,
    /// The backing store is flushed. A forced write waits for a commit.
    Flush,
    /// Records are written; what was copied becomes clean; what was trimmed is dropped.
    Mark,
    /// It was answered, and the cache gets a copy.
    Fill,
}

/// An operation under way: a command from above, or cleaning.
#[derive(Clone, Debug, Default)]
struct Op {
    kind: Kind,
    step: Step,
    command: Option<Command>,
    submitted: SimTime,
    /// Blocks that it touches, from the first on, before the end.
    first: u64,
    end: u64,
    /// Parts that have not ended.
    left: u32,
    status: Option<Status>,
    stages: StageTimes,
    /// It goes past the cache.
    bypass: bool,
    /// What the cache gets when the answer is given: first sector, and data.
    fills: Vec<(u64, Vec<u8>)>,
    /// Data that wait for an eviction: first sector, and data.
    aside: Vec<(u64, Vec<u8>)>,
    /// Cleaning: blocks, from the first on, that were written meanwhile.
    touched: u64,
}

/// What a command to a drive is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Purpose {
    #[default]
    ReadFlash,
    ReadBacking,
    /// What is cached of a read that did not find all.
    ReadStates,
    /// The block that a part of it is written to.
    FetchFlash,
    FetchBacking,
    /// Data that become dirty; `true`: their blocks are dirty.
    WriteFlash(bool),
    WriteBacking,
    /// Before newer data go to the backing store; `true`: a write to the flash has failed.
    Evict(bool),
    Fill,
    TrimBacking,
    TrimFlush,
    TrimEvict,
    CleanRead,
    CleanWrite,
    CleanFlush,
    CleanMark,
    FlushFlash,
    FlushBacking,
    Record,
    Head,
    Start,
    Sweep,
}

/// A command to a drive: sectors of the backing store, and what is done with them.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    op: u32,
    purpose: Purpose,
    lba: u64,
    sectors: u32,
    /// Block backend: the slot of its first block; a record sector.
    slot: u32,
    /// Its buffer is that of the command from above.
    direct: bool,
}

/// The two drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Flash,
    Backing,
}

/// The layer. Clone it, with the drives below, to fork its future.
#[derive(Clone, Debug)]
pub struct CacheManager {
    config: CacheConfig,
    namespaces: [u16; 2],
    backend: Backend,
    image_bytes: usize,
    /// Sectors of the flash, and of the backing store.
    flash_sectors: u64,
    sectors: u64,
    block_sectors: u64,
    /// Blocks that can be cached; a rest behind them cannot.
    blocks: u64,
    now: SimTime,
    locks: Locks,
    granted: VecDeque<u32>,
    dirty: BlockMap,
    /// Blocks of which the backing store has newer data than behind its last flush; kept where rule 5 needs it.
    unflushed: [BlockMap; 2],
    streams: Streams,
    ops: Slab<Op>,
    parts: Slab<Part>,
    buffers: Vec<Vec<u8>>,
    cleaner: Cleaner,
    commit: Commit,
    records: Records,
    start: Start,
    ending: Ending,
    /// The flash takes no more.
    degraded: bool,
    /// Writes to the flash that make blocks dirty and have not ended.
    dirtying: u32,
    counters: CacheCounters,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
}

impl CacheManager {
    /// The layer for a flash namespace and a backing store, as `flash` and `backing` describe them.
    pub fn new(
        config: &CacheConfig,
        flash: Option<Interface>,
        backing: Option<Interface>,
        image_bytes: usize,
    ) -> Result<CacheManager, CacheError> {
        CacheManager::build(config, flash, backing, image_bytes, false)
    }

    /// `again`: the manager has seen all that was written to the backing store, and starts again.
    fn build(
        config: &CacheConfig,
        flash: Option<Interface>,
        backing: Option<Interface>,
        image_bytes: usize,
        again: bool,
    ) -> Result<CacheManager, CacheError> {
        let Some(Interface::Block { sectors, .. }) = backing else {
            return Err(CacheError::Backing(config.backing));
        };
        let setting = |key, value: u32, allowed: &str| CacheError::Setting {
            key,
            value: value.into(),
            allowed: allowed.to_owned(),
        };
        let sector = config.sector_bytes;
        if sector < 512 || (image_bytes != 4 && image_bytes != sector as usize) {
            let allowed = format!("the drives' {image_bytes}");
            return Err(setting("sector_bytes", sector, &allowed));
        }
        if !(1..=99).contains(&config.dirty_percent) {
            return Err(setting("dirty_percent", config.dirty_percent, "1 to 99"));
        }
        if config.clean_blocks == 0 || config.set_blocks == 0 || config.set_blocks > 1 << 16 {
            return Err(setting(
                "clean_blocks, set_blocks",
                config.clean_blocks,
                "at least 1; sets of 1 to 65536",
            ));
        }
        let (backend, block_sectors) = match flash {
            Some(Interface::Cache(geometry)) => {
                let unit = u64::from(geometry.unit_sectors);
                let least = sectors.next_multiple_of(unit) + unit;
                if geometry.address_sectors / unit * unit < least {
                    return Err(CacheError::AddressSpace { addresses: geometry.address_sectors, least });
                }
                (Backend::Ssc(geometry), unit)
            }
            Some(Interface::Block { sectors: of_flash, .. }) => {
                if config.block_bytes < sector || !config.block_bytes.is_multiple_of(sector) {
                    let allowed = format!("a multiple of a sector of {sector}");
                    return Err(setting("block_bytes", config.block_bytes, &allowed));
                }
                let layout = Layout::new(config, of_flash)?;
                let most = Slots::blocks_max(&layout);
                if sectors / layout.block_sectors > most {
                    return Err(setting(
                        "block_bytes",
                        config.block_bytes,
                        "larger blocks for a store so large",
                    ));
                }
                let block_sectors = layout.block_sectors;
                (Backend::Block(Slots::new(layout, config.replacement)), block_sectors)
            }
            _ => return Err(CacheError::Flash(config.flash)),
        };
        let blocks = sectors / block_sectors;
        let flash_sectors = flash.as_ref().map_or(0, Interface::capacity_sectors);
        let mut layer = CacheManager {
            namespaces: [config.flash, config.backing],
            backend,
            image_bytes,
            flash_sectors,
            sectors,
            block_sectors,
            blocks,
            now: SimTime::ZERO,
            locks: Locks::default(),
            granted: VecDeque::new(),
            dirty: BlockMap::new(blocks),
            unflushed: [BlockMap::new(blocks), BlockMap::new(blocks)],
            streams: Streams::new(config.sequential_bytes / u64::from(sector)),
            ops: Slab::default(),
            parts: Slab::default(),
            buffers: Vec::new(),
            cleaner: Cleaner::default(),
            commit: Commit::default(),
            records: Records::default(),
            start: Start::default(),
            ending: Ending::default(),
            degraded: false,
            dirtying: 0,
            counters: CacheCounters::default(),
            down: VecDeque::new(),
            up: VecDeque::new(),
            config: config.clone(),
        };
        layer.cleaner.set_threshold(layer.capacity_blocks(), config.dirty_percent);
        layer.begin_start(again);
        Ok(layer)
    }

    /// What it was told.
    pub fn config(&self) -> &CacheConfig {
        &self.config
    }

    /// Blocks that the flash can hold.
    pub fn capacity_blocks(&self) -> u64 {
        match &self.backend {
            Backend::Block(slots) => slots.layout.slots().into(),
            Backend::Ssc(geometry) => geometry.units,
        }
    }

    /// Blocks that only the flash has.
    pub fn dirty_blocks(&self) -> u64 {
        self.dirty.count()
    }

    /// What it has done.
    pub fn counters(&self) -> &CacheCounters {
        &self.counters
    }

    /// Whether only the flash has the newest data of this sector.
    pub fn is_dirty(&self, lba: Lba) -> bool {
        self.dirty.contains(lba.0 / self.block_sectors)
    }

    /// Bytes of host memory that grow with the cache: what is known of cached and of dirty blocks. Records of commands under way and their
    /// buffers are not counted.
    pub fn memory_bytes(&self) -> u64 {
        let slots = match &self.backend {
            Backend::Block(slots) => slots.memory_bytes(),
            Backend::Ssc(_) => 0,
        };
        let maps = self.unflushed.iter().map(BlockMap::memory_bytes).sum::<u64>();
        slots + self.dirty.memory_bytes() + maps + self.locks.memory_bytes()
    }

    fn keeps_content(&self) -> bool {
        self.image_bytes == self.config.sector_bytes as usize
    }

    /// Whether clean copies in the flash outlive a crash of this host.
    fn keeps_clean(&self) -> bool {
        matches!(self.backend, Backend::Ssc(_)) && self.config.durable_commands
    }

    /// Panics where an invariant is broken.
    pub fn check(&self) {
        if let Backend::Block(slots) = &self.backend {
            slots.check(|block| self.dirty.contains(block));
        }
        if self.ops.in_use() == 0 {
            assert!(self.locks.is_empty(), "nobody holds anything");
            assert_eq!(self.dirtying, 0, "nobody writes");
        }
    }

    // ---- commands from above

    /// Why a command is refused before anything is done.
    #[inline]
    fn refuse(&self, command: &Command) -> Option<Status> {
        if command.namespace != 0 {
            return Some(Status::InvalidField);
        }
        let images = command.sectors as usize * self.image_bytes;
        let sound = match command.opcode {
            Opcode::Flush => return None,
            Opcode::Read => command.data.is_empty() || command.data.len() == images,
            Opcode::Write => command.data.len() == images,
            Opcode::Trim | Opcode::WriteZeroes => true,
            _ => return Some(Status::InvalidOpcode),
        };
        match command.lba.0.checked_add(command.sectors.into()) {
            _ if !sound || command.sectors == 0 || command.vector.is_some() => Some(Status::InvalidField),
            Some(end) if end <= self.sectors => None,
            _ => Some(Status::LbaOutOfRange),
        }
    }

    /// A record for a command.
    #[inline]
    fn open(&mut self, command: Command) -> u32 {
        let kind = match command.opcode {
            Opcode::Read => Kind::Read,
            Opcode::Write => Kind::Write,
            Opcode::Flush => Kind::Flush,
            _ => Kind::Trim,
        };
        let at = self.ops.take();
        let end = command.lba.0 + u64::from(command.sectors);
        let (first, end) = (command.lba.0 / self.block_sectors, end.div_ceil(self.block_sectors));
        let op = &mut self.ops[at];
        (op.kind, op.step, op.first, op.end) = (kind, Step::Data, first, end);
        (op.submitted, op.left, op.status, op.bypass, op.touched) = (self.now, 0, None, false, 0);
        op.stages = StageTimes::ZERO;
        op.command = Some(command);
        at
    }

    /// Begins a command, or has it wait for its blocks.
    #[inline]
    fn enter(&mut self, op: u32) {
        let Op { kind, first, end, ref command, .. } = self.ops[op];
        let command = command.as_ref().expect("a command under way");
        let hold = match kind {
            Kind::Flush => return self.commit.wait(op),
            Kind::Read => Hold::Read,
            Kind::Write => Hold::Write,
            Kind::Trim | Kind::Clean => Hold::Whole,
        };
        if kind != Kind::Trim {
            self.ops[op].bypass = self.streams.note(command.lba, command.sectors);
        }
        if self.locks.take(Held { first, end, hold, op }) {
            self.begin(op);
        }
    }

    #[inline]
    fn begin(&mut self, op: u32) {
        match self.ops[op].kind {
            Kind::Read => self.begin_read(op),
            Kind::Write => self.begin_write(op),
            _ => self.begin_trim(op),
        }
        self.went_on(op);
    }

    /// Something of `op` has ended, or begun: where nothing is under way, it goes on.
    #[inline]
    fn went_on(&mut self, op: u32) {
        if self.ops[op].left > 0 {
            return;
        }
        match self.ops[op].kind {
            Kind::Read => self.read_goes_on(op),
            Kind::Write => self.write_goes_on(op),
            Kind::Trim => self.trim_goes_on(op),
            Kind::Clean => self.clean_goes_on(op),
            Kind::Flush => unreachable!("a flush has no parts"),
        }
    }

    /// Answers a command, whose blocks it may keep.
    #[inline]
    fn answer(&mut self, op: u32) {
        let record = &mut self.ops[op];
        let command = record.command.take().expect("a command under way");
        let status = record.status.unwrap_or(Status::Success);
        let mut stages = record.stages;
        let total = self.now - record.submitted;
        // The last part may have been begun for another command.
        if stages.total() > total {
            stages = StageTimes::ZERO;
        }
        stages.add(Stage::Host, Nanos(total.0 - stages.total().0));
        self.counters.failed += u64::from(status != Status::Success);
        self.up.push_back(command.ended(status, record.submitted, self.now, stages));
    }

    /// `op` gives its blocks back and is no more.
    #[inline]
    fn close(&mut self, op: u32) {
        for (_, buffer) in self.ops[op].fills.drain(..) {
            self.buffers.push(buffer);
        }
        self.locks.release(op, &mut self.granted);
        self.ops.release(op);
    }

    /// Refuses a command, or ends one that never had blocks.
    fn end(&mut self, op: u32, status: Status) {
        self.ops[op].status = Some(status);
        self.answer(op);
        self.ops.release(op);
    }

    #[inline]
    fn fail(&mut self, op: u32, status: Status) {
        self.ops[op].status.get_or_insert(status);
    }

    fn command(&self, op: u32) -> &Command {
        self.ops[op].command.as_ref().expect("a command under way")
    }

    // ---- commands to the drives

    /// Sends `command` to a drive for `part`.
    #[inline]
    fn send(&mut self, side: Side, part: Part, command: Command) {
        if part.op != NIL {
            self.ops[part.op].left += 1;
        }
        self.counters.sent(side == Side::Flash, &command);
        let tag = self.parts.insert(part);
        let namespace = self.namespaces[usize::from(side == Side::Backing)];
        self.down.push_back(Command { tag: tag.into(), namespace, ..command });
    }

    fn buffer(&mut self, sectors: u64) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.resize(sectors as usize * self.image_bytes, 0);
        buffer
    }

    fn give_back(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 {
            self.buffers.push(buffer);
        }
    }

    /// Where the sector `lba` of the backing store lies on the flash.
    #[inline]
    fn flash_lba(&self, slot: u32, lba: u64) -> Lba {
        match &self.backend {
            Backend::Block(slots) => Lba(slots.layout.slot_lba(slot) + lba % self.block_sectors),
            Backend::Ssc(_) => Lba(lba),
        }
    }

    fn ended(&mut self, completion: &mut Completion) {
        let at = completion.tag as u32;
        let part = self.parts[at];
        self.parts.release(at);
        let (op, status) = (part.op, completion.status);
        if op != NIL {
            self.ops[op].left -= 1;
            self.ops[op].stages = completion.stages;
        }
        let data = std::mem::take(&mut completion.data);
        match part.purpose {
            Purpose::ReadFlash => self.flash_read(part, status, completion.result, data),
            Purpose::ReadBacking => self.backing_read(part, status, data),
            Purpose::ReadStates => self.states_read(part, status, data),
            Purpose::FetchFlash | Purpose::FetchBacking => self.fetched(part, status, data),
            Purpose::WriteFlash(was_dirty) => self.flash_written(part, was_dirty, status, data),
            Purpose::WriteBacking => self.backing_written(part, status, data),
            Purpose::Evict(after_failure) => self.evicted(part, after_failure, status),
            Purpose::Fill => self.filled(part, status, data),
            Purpose::TrimBacking | Purpose::TrimFlush | Purpose::TrimEvict => self.trimmed(part, status),
            Purpose::CleanRead | Purpose::CleanWrite | Purpose::CleanMark => self.copied(part, status, data),
            Purpose::CleanFlush => self.copies_flushed(status),
            Purpose::FlushFlash | Purpose::FlushBacking => self.flushed(part.purpose, status),
            Purpose::Record => self.record_written(part, status, data),
            Purpose::Head => self.head_written(part, status, data),
            Purpose::Start => self.start_goes_on(part, status, completion.result, data),
            Purpose::Sweep => self.swept(status),
        }
        if op != NIL {
            self.went_on(op);
        }
    }

    /// Everything that follows from what has happened, until nothing does.
    #[inline]
    fn pump(&mut self) {
        loop {
            while let Some(op) = self.granted.pop_front() {
                self.begin(op);
            }
            self.pump_cleaner();
            self.pump_commit();
            self.pump_records();
            self.pump_ending();
            if self.granted.is_empty() {
                return;
            }
        }
    }
}

impl Machine for CacheManager {
    type Ask = Command;
    type Answer = Completion;

    #[inline]
    fn namespaces(&self) -> &[u16] {
        &self.namespaces
    }

    #[inline]
    fn submit(&mut self, now: SimTime, command: Command) {
        self.now = now;
        let refused = self.refuse(&command);
        let op = self.open(command);
        match refused {
            Some(status) => self.end(op, status),
            None if self.start.is_running() => {
                self.enter(op);
                self.pump();
            }
            None if self.failure().is_some() => self.end(op, Status::ReadOnly),
            None => self.wait_for_start(op),
        }
    }

    #[inline]
    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        self.ended(completion);
        self.pump();
    }

    fn advance(&mut self, now: SimTime) {
        self.now = now;
        self.pump();
    }

    #[inline]
    fn next_event(&self) -> Option<SimTime> {
        self.cleaner.next_event()
    }

    #[inline]
    fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    #[inline]
    fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    #[inline]
    fn answered(&self) -> usize {
        self.up.len()
    }

    fn failure(&self) -> Option<String> {
        self.start.failure()
    }

    fn is_ready(&self) -> bool {
        self.start.is_ready()
    }

    fn stop(&mut self, now: SimTime) {
        self.now = now;
        self.begin_stop();
        self.pump();
    }

    fn is_stopped(&self) -> bool {
        self.ending.is_stopped()
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        self.start_again(now)
    }

    fn figures(&self) -> Vec<Figure> {
        self.all_figures()
    }
}

impl Layer for CacheManager {
    fn interface(&self) -> Interface {
        Interface::Block { sectors: self.sectors, handles: 1 }
    }

    fn start_figures(&self) -> Vec<Figure> {
        let found = self.start.found();
        vec![
            Figure::count("found_clean_blocks", "Clean blocks that the last start found.", found.0),
            Figure::count("found_dirty_blocks", "Dirty blocks that the last start found.", found.1),
        ]
    }
}
