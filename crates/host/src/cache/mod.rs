//! Cache manager: a flash cache in front of a slower backing store.
//!
//! ```text
//!   asks ─► locks ─► read, write, trim ──► flash: slots of a block drive, or a solid-state cache
//!                          │       ▲           │
//!                          ▼       └─ fills    │ cleaner: dirty blocks, in the order of the backing store
//!                    backing store ◄───────────┘
//! ```
//! A *block* is the unit of caching. It is *dirty* if only the flash has its newest data, and *clean* if the
//! backing store has them too. The manager looks like a block drive of the backing store's size.
//!
//! # Durability
//!
//! A power cut of the flash, of this host, or of both must lose no write that was flushed or forced, and
//! reads must never alternate between two versions. The following rules ensure this; each names the crash
//! that would break it.
//!
//! 1. **The dirty copy is valid.** A dirty block is read from the flash, and a write to it goes to the flash,
//!    in every mode. So a write never reaches the backing store past an older dirty copy, which a restart
//!    would bring back.
//! 2. **A flush** first makes the data of writes durable on both drives, and then their dirty state. The
//!    commands of a solid-state cache carry that state; for a block drive, the *records* are written by force
//!    after the flush of the data (`commit.rs`). A record on the media before its data would name older data
//!    in the slot.
//! 3. **A block becomes clean** when the backing store has it and has been flushed. A write between the copy
//!    and that moment keeps it dirty (`clean.rs`).
//! 4. **A slot is used for another block** only when no record on the flash calls it dirty (`slots.rs`).
//! 5. **A clean copy is dropped before newer data reach the backing store** past it (`write.rs`). Clean
//!    copies outlive a crash in a solid-state cache with durable commands. There, the write waits for the
//!    eviction, and a clean copy is made only of data that the backing store has flushed or written by force;
//!    otherwise a crash of the store would leave it older than the copy. Everywhere else clean copies are
//!    valid only after an orderly stop, and a start after a crash drops them.
//! 6. **Trimmed dirty blocks** are dropped once the trim is durable on the backing store; dropped earlier, a
//!    power cut would lose data that an older flush had made durable. *Doubtful* ones, which a failed command
//!    may have left clean on the flash, are dropped before: the backing store has their data, and the flash
//!    may give up a clean copy at any time, so that a read would see the old data, and a later one the trim.
//! 7. **No read while versions differ**: a write, a fill and a trim have exclusive use of their blocks
//!    (`locks.rs`).
//!
//! | crash of | state afterwards |
//! |---|---|
//! | this program | as for both, but the drives keep their acknowledged writes |
//! | the flash, or both | dirty blocks as of the last flush or later; clean ones after an orderly stop, or with durable commands; the manager starts again |
//!
//! # Errors
//!
//! An unreadable clean block is read from the backing store. An unreadable dirty block is an error, and stays
//! dirty. If the flash refuses a write, the block is written to the backing store, unless it is dirty on the
//! flash: then the write fails, because of rule 1. An error of the backing store is an error of the command;
//! blocks that cannot be cleaned stay dirty, and cleaning is tried again later. A block whose state the flash
//! cannot tell counts as dirty. All errors are counted ([`Machine::figures`]).
//!
//! A known cache whose flash takes no write at the start is *read only* (`read_only.rs`): its blocks are read
//! and written back, and new data are refused.

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

/// Kind of cache.
#[derive(Clone, Debug)]
enum Backend {
    /// A block drive, whose slots are managed here.
    Block(Slots),
    /// A solid-state cache.
    Ssc(CacheGeometry),
}

/// Cache layer. Clone it together with the drives below to fork the simulation.
#[derive(Clone, Debug)]
pub struct CacheManager {
    config: CacheConfig,
    namespaces: [u16; 2],
    backend: Backend,
    image_bytes: usize,
    /// Sectors of the flash.
    flash_sectors: u64,
    sectors: u64,
    block_sectors: u64,
    /// Number of blocks that can be cached; a partial block at the end cannot.
    blocks: u64,
    now: SimTime,
    locks: Locks,
    granted: VecDeque<u32>,
    dirty: BlockMap,
    /// Dirty blocks of which the flash may hold a clean copy: a command that would have told failed, and may have taken effect. The
    /// backing store has what was promised of them.
    doubtful: BlockMap,
    /// Blocks that were written to the backing store since its last flush; kept for rule 5.
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
    /// The flash has stopped taking writes.
    degraded: bool,
    /// The flash took no write at the start.
    read_only: bool,
    /// Number of writes under way that make blocks dirty on the flash.
    dirtying: u32,
    counters: CacheCounters,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
}

impl CacheManager {
    /// Creates the layer for a flash namespace and a backing store, described by `flash` and `backing`.
    pub fn new(
        config: &CacheConfig,
        flash: Option<Interface>,
        backing: Option<Interface>,
        image_bytes: usize,
    ) -> Result<CacheManager, CacheError> {
        CacheManager::build(config, flash, backing, image_bytes, false)
    }

    /// Returns the configuration.
    pub fn config(&self) -> &CacheConfig {
        &self.config
    }

    /// Returns the number of blocks that the flash can hold.
    pub fn capacity_blocks(&self) -> u64 {
        match &self.backend {
            Backend::Block(slots) => slots.layout.slots().into(),
            Backend::Ssc(geometry) => geometry.units,
        }
    }

    /// Returns the number of dirty blocks.
    pub fn dirty_blocks(&self) -> u64 {
        self.dirty.count()
    }

    /// Returns the counters.
    pub fn counters(&self) -> &CacheCounters {
        &self.counters
    }

    /// Reports whether only the flash has the newest data of this sector.
    pub fn is_dirty(&self, lba: Lba) -> bool {
        self.dirty.contains(lba.0 / self.block_sectors)
    }

    /// Returns the bytes of host memory that grow with the cache: the state of cached and of dirty blocks.
    /// Records of commands under way and their buffers are not counted.
    pub fn memory_bytes(&self) -> u64 {
        let slots = match &self.backend {
            Backend::Block(slots) => slots.memory_bytes(),
            Backend::Ssc(_) => 0,
        };
        let maps = self.unflushed.iter().chain([&self.doubtful]).map(BlockMap::memory_bytes).sum::<u64>();
        slots + self.dirty.memory_bytes() + maps + self.locks.memory_bytes()
    }

    fn keeps_content(&self) -> bool {
        self.image_bytes == self.config.sector_bytes as usize
    }

    /// Reports whether clean copies in the flash outlive a crash of this host.
    fn keeps_clean(&self) -> bool {
        matches!(self.backend, Backend::Ssc(_)) && self.config.durable_commands
    }

    /// Checks the invariants; panics if one is broken.
    pub fn check(&self) {
        if let Backend::Block(slots) = &self.backend {
            slots.check(|block| self.dirty.contains(block));
        }
        if self.ops.in_use() == 0 {
            assert!(self.locks.is_empty(), "nobody holds anything");
            assert_eq!(self.dirtying, 0, "nobody writes");
        }
    }

    /// Runs all consequences of what has happened, until none is left.
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

    fn start_notice(&self) -> Option<&'static str> {
        self.start.notice
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
