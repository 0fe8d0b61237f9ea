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
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`CacheShape`](shape::CacheShape) | configuration, sizes of the drives | never changes |
//! | [`Requests`](requests::Requests) | operations, locks on blocks, commands under way, buffers, counters | an operation is closed once all its parts have ended |
//! | [`Blocks`](blocks::Blocks) | slots, and the dirty, doubtful and unflushed blocks | a block is dirty if and only if its slot is; a doubtful block is dirty |
//! | [`Ends`](ends::Ends) | stop, detach, degraded, read only | the head is written once all records are |
//! | [`Cleaner`] | choice of blocks to clean, runs under way, pauses | the blocks of its runs add up |
//! | [`Commits`] | the flush under way, and the operations that wait for it | one commit at a time |
//! | [`Records`] | record sectors to write, and who waits for them | a sector is written for all that wait for it |
//! | [`CacheStart`] | the head, what the flash holds, commands that wait | the cache runs once the start has ended its commands |
//!
//! Only an object itself writes its fields; the fields of the shape are constants that all may read. The first four objects form the
//! [`Core`], which the paths of requests use (`read.rs`, `write.rs`, `fill.rs`, `trim.rs`). Paths are functions without state: they change
//! the core through its methods, and return [effects](core::Effect) for the cleaner and the commits. The [`CacheManager`] only routes:
//! completions to paths, and effects to objects (`routes.rs`).
//!
//! A read passes `mod.rs`, `routes.rs`, `requests.rs`, `read.rs` and `blocks`, and `fill.rs` if it missed; a write passes `write.rs` instead,
//! and later `clean.rs`.
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
//!    after the flush of the data (`commit.rs`, `records.rs`). A record on the media before its data would name older data
//!    in the slot.
//! 3. **A block becomes clean** when the backing store has it and has been flushed. A write between the copy
//!    and that moment keeps it dirty (`clean.rs`).
//! 4. **A slot is used for another block** only when no record on the flash calls it dirty (`blocks/slots.rs`).
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
//! An unreadable clean block is read from the backing store. An unreadable dirty block is *lost*: an error, and stays
//! dirty until it is written or trimmed whole, or a detach gives it up. If the flash refuses a write, the block is written to the backing store, unless it is dirty on the
//! flash: then the write fails, because of rule 1. An error of the backing store is an error of the command;
//! blocks that cannot be cleaned stay dirty, and cleaning is tried again later. A block whose state the flash
//! cannot tell counts as dirty. All errors are counted ([`Machine::figures`]).
//!
//! A known cache whose flash takes no write at the start is *read only* (`ends.rs`): its blocks are read
//! and written back, and new data are refused.

mod blocks;
mod build;
mod clean;
mod commit;
mod config;
mod core;
mod counters;
mod ends;
mod fill;
mod head;
mod locks;
mod op;
mod read;
mod records;
mod requests;
mod routes;
mod shape;
mod start;
mod streams;
mod trim;
mod write;

pub use config::{CacheConfig, CacheError, CacheMode, Flushes, RecordWrites, Replacement, StoreIdentity};
pub use counters::CacheCounters;

use crate::{Layer, Machine};
use clean::Cleaner;
use commit::Commits;
use core::Core;
use pellucid_flash::{Command, Completion, Figure, Interface, Lba, SimTime, Status};
use records::Records;
use shape::CacheShape;
use start::CacheStart;
use std::ops::Range;

/// Most ranges of lost blocks in a message.
const LOST_SHOWN: usize = 8;

/// Cache layer. Clone it together with the drives below to fork the simulation.
#[derive(Clone, Debug)]
pub struct CacheManager {
    core: Core,
    cleaner: Cleaner,
    commits: Commits,
    records: Records,
    start: CacheStart,
}

impl CacheManager {
    /// Creates the layer for a flash namespace and a backing store, described by `flash` and `backing`.
    pub fn new(
        config: &CacheConfig,
        flash: Option<Interface>,
        backing: Option<Interface>,
        image_bytes: usize,
    ) -> Result<CacheManager, CacheError> {
        Ok(CacheManager::begin_life(build::shape(config, flash, backing, image_bytes)?, false))
    }

    /// Begins to use the drives. `again`: an earlier life of the manager has seen all writes to the backing store.
    fn begin_life(shape: CacheShape, again: bool) -> CacheManager {
        let cleaner = Cleaner::new(shape.capacity_blocks(), shape.config.dirty_percent);
        let mut core = Core::new(shape);
        let start = CacheStart::begin(&mut core, again);
        CacheManager { core, cleaner, commits: Commits::default(), records: Records::default(), start }
    }

    /// Goes on as a detached cache: all commands go to the backing store.
    fn detached_life(shape: CacheShape) -> CacheManager {
        let cleaner = Cleaner::new(shape.capacity_blocks(), shape.config.dirty_percent);
        let mut core = Core::new(shape);
        core.ends.stay_detached();
        let start = CacheStart::of_detached();
        CacheManager { core, cleaner, commits: Commits::default(), records: Records::default(), start }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &CacheConfig {
        &self.core.shape.config
    }

    /// Returns the number of blocks that the flash can hold.
    pub fn capacity_blocks(&self) -> u64 {
        self.core.shape.capacity_blocks()
    }

    /// Returns the number of dirty blocks.
    pub fn dirty_blocks(&self) -> u64 {
        self.core.blocks.dirty_count()
    }

    /// Returns the counters.
    pub fn counters(&self) -> &CacheCounters {
        self.core.requests.counters()
    }

    /// Reports whether only the flash has the newest data of this sector.
    pub fn is_dirty(&self, lba: Lba) -> bool {
        self.core.blocks.is_dirty(lba.0 / self.core.shape.block_sectors)
    }

    /// Returns the bytes of host memory that grow with the cache: the state of cached and of dirty blocks.
    /// Records of commands under way and their buffers are not counted.
    pub fn memory_bytes(&self) -> u64 {
        self.core.blocks.memory_bytes() + self.core.requests.memory_bytes()
    }

    /// Reports whether the start refused the configuration, for instance another store; `false` if a drive
    /// failed.
    pub fn is_refused(&self) -> bool {
        self.start.is_refused()
    }

    /// Begins to write back all dirty blocks, to put the cache out of use; commands are served meanwhile. `give_up`: dirty blocks that
    /// the flash cannot read are dropped, so the older data of the backing store count again; else the detach fails because of them.
    /// [`CacheManager::detached`] returns the result.
    pub fn detach(&mut self, give_up: bool) {
        self.core.ends.detach(give_up);
    }

    /// Returns the bytes of the backing store whose newest data have been found lost since the last call, in whole blocks; the first 1024.
    pub fn take_lost(&mut self) -> Vec<Range<u64>> {
        let blocks = self.core.blocks.take_untold();
        blocks.into_iter().map(|block| self.core.shape.bytes_of(block..block + 1)).collect()
    }

    /// Reports whether all commands go to the backing store.
    #[inline]
    pub fn is_detached(&self) -> bool {
        self.core.ends.is_detached()
    }

    /// Returns the result of [`CacheManager::detach`]; `None` while it is under way.
    pub fn detached(&self) -> Option<Result<(), String>> {
        let detached = self.core.ends.detached()?;
        Some(detached.map_err(|why| self.with_what_is_dirty(why)))
    }

    fn with_what_is_dirty(&self, why: &str) -> String {
        let Core { blocks, shape, .. } = &self.core;
        let Some(first) = blocks.next_dirty(0) else { return why.to_owned() };
        let at = shape.bytes_of(first..first + 1).start;
        let dirty = format!("{why}; {} blocks are dirty still, the first at byte {at}", blocks.dirty_count());
        let (mut lost, mut from) = (Vec::new(), 0);
        while let Some(run) = blocks.next_lost(from).filter(|_| lost.len() < LOST_SHOWN) {
            from = run.end;
            let bytes = shape.bytes_of(run);
            lost.push(format!("{}-{}", bytes.start, bytes.end - 1));
        }
        if lost.is_empty() {
            return dirty;
        }
        let more = if blocks.next_lost(from).is_some() { " and more" } else { "" };
        let (count, lost) = (blocks.lost_count(), lost.join(", "));
        format!(
            "{dirty}; {count} are lost (bytes {lost}{more}) until they are written or trimmed whole, or given up (--give-up-lost)"
        )
    }

    /// Checks the invariants; panics if one is broken.
    pub fn check(&self) {
        self.core.blocks.check();
        self.core.requests.check();
    }
}

impl Machine for CacheManager {
    type Ask = Command;
    type Answer = Completion;

    #[inline]
    fn namespaces(&self) -> &[u16] {
        self.core.requests.namespaces()
    }

    #[inline]
    fn submit(&mut self, now: SimTime, command: Command) {
        self.core.requests.set_now(now);
        let refused = self.core.shape.refuse(&command);
        let blocks = self.core.shape.blocks_of_command(&command);
        let op = self.core.requests.open(command, blocks);
        match refused {
            Some(status) => self.core.requests.refuse(op, status),
            None if self.start.is_running() => {
                self.enter(op);
                self.pump();
            }
            None if self.failure().is_some() => self.core.requests.refuse(op, Status::ReadOnly),
            None => {
                self.start.wait(op);
                self.reopen();
            }
        }
    }

    #[inline]
    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.core.requests.set_now(now);
        self.ended(completion);
        self.pump();
    }

    fn advance(&mut self, now: SimTime) {
        self.core.requests.set_now(now);
        self.pump();
    }

    #[inline]
    fn next_event(&self) -> Option<SimTime> {
        self.cleaner.next_event()
    }

    #[inline]
    fn next_command(&mut self) -> Option<Command> {
        self.core.requests.next_command()
    }

    #[inline]
    fn pop(&mut self) -> Option<Completion> {
        self.core.requests.pop()
    }

    #[inline]
    fn answered(&self) -> usize {
        self.core.requests.answered()
    }

    fn failure(&self) -> Option<String> {
        self.start.failure()
    }

    fn is_ready(&self) -> bool {
        self.start.is_running()
    }

    fn stop(&mut self, now: SimTime) {
        self.core.requests.set_now(now);
        if self.start.is_running() && self.core.ends.stop() {
            self.cleaner.rest();
        }
        self.pump();
    }

    fn is_stopped(&self) -> bool {
        self.core.ends.is_stopped()
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        if !self.core.shape.keeps_content() && !self.core.shape.is_ssc() {
            return Err("the cache drive keeps stamps instead of data, so records cannot come back; allowed: media.store ram, file".into());
        }
        self.core.requests.set_now(now);
        self.start_again();
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        counters::figures(&self.core, self.cleaner.limit(), self.memory_bytes())
    }
}

impl Layer for CacheManager {
    fn interface(&self) -> Interface {
        Interface::Block { sectors: self.core.shape.sectors, handles: 1 }
    }

    fn is_read_only(&self) -> bool {
        self.core.ends.is_read_only()
    }

    fn start_notice(&self) -> Option<&'static str> {
        self.start.notice()
    }

    fn start_figures(&self) -> Vec<Figure> {
        let found = self.start.found();
        vec![
            Figure::count("found_clean_blocks", "Clean blocks that the last start found.", found.0),
            Figure::count("found_dirty_blocks", "Dirty blocks that the last start found.", found.1),
            Figure::count("read_only", "1: the cache takes no writes.", self.core.ends.is_read_only().into()),
            Figure::count(
                "unreadable_records",
                "Sectors of records that could not be read: what they called dirty is lost.",
                self.core.blocks.unreadable(),
            ),
        ]
    }
}
