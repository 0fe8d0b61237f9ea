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
//! 7. **No read while versions differ**: a write, a fill and a trim have their blocks for themselves (`locks.rs`).
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
//!
//! A known cache whose flash takes no write at the start is *read only* (`read_only.rs`): what it holds is read and written back, and new data
//! are refused.

mod block_map;
mod build;
mod clean;
mod commit;
mod config;
mod counters;
mod ends;
mod format;
mod head;
mod locks;
mod ops;
mod read;
mod read_only;
mod slots;
mod start;
mod streams;
mod whose;
mod write;

pub use config::{CacheConfig, CacheError, CacheMode, Flushes, RecordWrites, Replacement, StoreIdentity};
pub use counters::CacheCounters;

use crate::{Layer, Machine};
use block_map::BlockMap;
use clean::Cleaner;
use commit::{Commit, Records};
use ends::Ending;
use locks::Locks;
use ops::{Kind, Op, Part, Purpose, Side, Step};
use pellucid_flash::slab::Slab;
use pellucid_flash::{CacheGeometry, Command, Completion, Figure, Interface, Lba, SimTime, Status};
use slots::Slots;
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
    /// It took no write at the start.
    read_only: bool,
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

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn start_figures(&self) -> Vec<Figure> {
        let found = self.start.found();
        vec![
            Figure::count("found_clean_blocks", "Clean blocks that the last start found.", found.0),
            Figure::count("found_dirty_blocks", "Dirty blocks that the last start found.", found.1),
            Figure::count("read_only", "1: the cache takes no writes.", self.read_only.into()),
            Figure::count(
                "unreadable_records",
                "Sectors of records that could not be read: what they called dirty is lost.",
                self.unreadable_records(),
            ),
        ]
    }
}
