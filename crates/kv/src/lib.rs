//! A key-value cache on flash, in the manner of fatcache and DIDACache, with memcached's semantics.
//!
//! ```text
//!   ask ─► index ─┬─ in a write buffer ───────────────────────────────────────► answer
//!                 └─ on flash ─► one read of the sectors that hold the item ──► answer, if key, version and checksum agree
//!
//!   store ─► open slab of its class (memory) ─► full ─► engine ─► stored ─► evicted: items worth keeping are written again
//! ```
//! A store is answered when the item is in a write buffer, and waits only when no buffer is free. A get waits for a store only if both have
//! the same key. Requests to one key are ordered: a request that takes several steps (incrementing a number on flash, a store that waits) locks its
//! key, and later requests to that key queue behind it.
//!
//! Invariants: an index entry names the newest version of its key, or there is no entry; the item it names is in a write buffer or on flash that is
//! not erased; an item is recognised by key, version and checksum, so damaged or foreign data are a miss.
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | `Clock` | the drive's time, the items' time, the newest version, the number of orders | versions and orders only grow |
//! | `Index` | the place of each item | no gap between home and entry |
//! | `Slabs`, with `Classes` | content and state of each slab, slot sizes, slabs that wait for the engine | `valid` and `hot` count the entries of the index |
//! | `Buffers` | write buffers | a buffer belongs to one slab |
//! | `Flash` | the engine, its commands, reads of several commands | a read ends once |
//! | `Requests` | requests that wait, the order of requests to one key | a locked key has one active request |
//! | `Evictions` | victims that are read, watermarks | a victim ends with its last read |
//! | `Health` | whether flash takes writes, when failed parts are retried | a part rests before it is retried |
//! | `Passage` | the phase, the snapshot that is read or written | all work in progress is counted |
//! | `Answers` | answers, buffers for values | the buffers kept stay below a bound |
//! | `Counters` | counters that only grow | |
//! | `Processor` | costs on the host's processor, commands that wait for it | commands with the drive are counted |
//!
//! Only an object itself writes its fields. A method changes its own object and returns the effects on others: a slab without items, a slab to close,
//! a read that has ended. The `Core` holds all objects except the last. *Paths* (`paths/`) are functions over it that apply the returned effects.
//! [`Kv`] only wires: events go through the processor to a path.
//!
//! A get passes `paths/events.rs`, `paths/request.rs`, `paths/get.rs`, `index.rs`, and `flash.rs` if its item is on flash; a store `paths/store.rs` and
//! `paths/items.rs` instead, and its slab later `paths/write.rs` and `paths/evict.rs`.
//!
//! Files use only earlier files in this order: values (`ask.rs`, `config.rs`, `item.rs`, `classes.rs`, `snapshot.rs`), objects and `engine/`,
//! `objects.rs`, paths, [`Kv`], [`System`]. The files of `engine/` share the types of `engine/mod.rs`, which selects the engine: that import cycle
//! stays.

mod answers;
mod ask;
mod classes;
mod clock;
mod config;
mod engine;
mod evictions;
mod flash;
mod health;
mod index;
mod item;
mod objects;
mod passage;
mod paths;
mod processor;
mod requests;
mod slabs;
mod snapshot;
mod statistics;
mod system;
mod watermarks;

pub use ask::{Answer, Ask, Get, Item, Key, Mode, Outcome, Store, What};
pub use config::{EngineKind, Keep, KvConfig, KvCosts, OverProvisioning, Victim};
pub use statistics::{ClassStatistics, KvStatistics};
pub use system::{System, build, build_by};

use classes::SLAB_HEADER;
use engine::Engine;
use objects::Core;
use passage::Phase;
use paths::{check, events, restart};
use pellucid_flash::{Command, Completion, Drive, Figure, SimTime};
use pellucid_host::Machine;
use processor::{Processor, Step};

/// Slots up to this size count as the longest: looking up their length would cost more.
const SHORT_BYTES_MAX: u32 = 4 << 10;

/// The cache. Clone it, with the drive below, to fork its future.
#[derive(Clone, Debug)]
pub struct Kv {
    core: Core,
    processor: Processor,
    namespaces: [u16; 1],
}

impl Kv {
    /// A cache on `drive`, still to be started there: [`build`].
    ///
    /// The error is a sentence.
    pub fn new(config: &KvConfig, drive: &impl Drive) -> Result<Kv, String> {
        config.check()?;
        let slab_least =
            (SLAB_HEADER + item::bytes_of(Key::BYTES_MAX, config.item_max_bytes as usize)) as u32;
        Kv::with_engine(config.clone(), Engine::new(config, drive, slab_least)?)
    }

    fn with_engine(config: KvConfig, engine: Engine) -> Result<Kv, String> {
        let (namespaces, processor) = ([engine.namespace()], Processor::new(config.costs));
        Ok(Kv { core: Core::new(config, engine)?, processor, namespaces })
    }

    /// Returns an empty buffer for the value of a store.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.core.answers.buffer()
    }

    /// Takes back the buffer of an answer's value.
    pub fn give_back(&mut self, value: Vec<u8>) {
        self.core.answers.give_back(value);
    }

    /// The largest value that fits beside a key of this length.
    pub fn value_max(&self, key_bytes: usize) -> usize {
        let slot = self.core.slabs.classes().all().last().map_or(0, |class| class.slot_bytes as usize);
        slot.saturating_sub(item::bytes_of(key_bytes, 0)).min(self.core.config.item_max_bytes as usize)
    }

    /// Prefetches the memory that a request for this key needs first.
    #[inline]
    pub fn prefetch(&self, key: &Key) {
        self.core.index.prefetch(item::hash(self.core.config.seed, key.as_bytes()));
    }

    /// Upper bound on the present value of this key: the size of its slot or, if all slots are short, of the longest.
    #[inline]
    pub fn value_bytes_max(&self, key: &Key) -> usize {
        let longest = self.core.slabs.classes().longest_bytes();
        if longest <= SHORT_BYTES_MAX {
            return longest as usize;
        }
        let hash = item::hash(self.core.config.seed, key.as_bytes());
        let Some(at) = self.core.index.find(hash) else { return 0 };
        self.core.slabs.class_of(self.core.index.get(at).place().slab).slot_bytes as usize
    }

    /// Returns true if nothing can be stored now. Failed parts are retried later.
    pub fn is_read_only(&self) -> bool {
        self.core.health.is_dead()
    }

    /// Returns the counters.
    pub fn statistics(&self) -> KvStatistics {
        let Core { slabs, flash, index, health, shape, .. } = &self.core;
        let engine = flash.counters();
        let [flash_written_bytes, flash_read_bytes] = flash.bytes();
        let item_bytes = |class: &classes::Class| class.statistics.items * u64::from(class.slot_bytes);
        KvStatistics {
            erases: engine.erases,
            failures: engine.failures,
            retired_blocks: engine.retired,
            resting_parts: engine.resting,
            takes_stores: !health.is_dead(),
            flash_written_bytes,
            flash_read_bytes,
            items: index.len(),
            item_bytes: slabs.classes().all().iter().map(item_bytes).sum(),
            index_bytes: index.bytes() + slabs.bytes(),
            slabs: slabs.records().iter().filter(|slab| !slab.tops.is_empty()).count() as u64,
            slab_bytes: shape.slab_bytes.into(),
            slabs_total: flash.engine().slabs().into(),
            slabs_free: flash.engine().free().into(),
            watermarks: self.core.evictions.marks().map(u64::from),
            ..self.core.counters.get().clone()
        }
    }

    /// Bytes of write buffers that give every slab class its own. With less, items of several classes share slabs and use more flash.
    pub fn memory_for_each_class_bytes(&self) -> u64 {
        self.core.slabs.classes().all().len() as u64 * u64::from(self.core.shape.slab_bytes)
    }

    /// Returns the counters of each slab class.
    pub fn classes(&self) -> Vec<ClassStatistics> {
        let slabs = &self.core.slabs;
        let mut list: Vec<_> = slabs.classes().all().iter().map(|class| class.statistics).collect();
        for slab in slabs.records().iter().filter(|slab| !slab.tops.is_empty()) {
            list[usize::from(slab.class)].slabs += 1;
        }
        list
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        check::check(&self.core);
    }

    #[inline]
    fn set_now(&mut self, now: SimTime) {
        self.core.clock.set(now);
        self.core.flash.set_now(now);
    }

    /// Handles a completion after the processor has processed it.
    fn ended(&mut self, completion: &mut Completion) {
        self.core.flash.complete(completion);
        events::happened(&mut self.core);
    }

    /// The next command; after a stop, only reads.
    fn produce(&mut self) -> Option<Command> {
        loop {
            let stopped = self.core.passage.phase() == Phase::Stopped;
            let command = self.core.flash.next_command(&self.core.buffers, stopped);
            if command.is_some() {
                self.processor.command_made();
                return command;
            }
            if !self.core.flash.has_happened() {
                return None;
            }
            // A level has answered immediately.
            events::happened(&mut self.core);
        }
    }

    /// Restarts after a power loss: everything in memory is lost, and open requests are answered as failed.
    fn begin_again(&mut self) -> Result<(), String> {
        const LOST: Outcome = Outcome::Failed("power was lost");
        let engine = self.core.flash.fresh_engine(self.core.clock.now());
        let fresh = Kv::with_engine(self.core.config.clone(), engine)?;
        let Kv { core: old, mut processor, .. } = std::mem::replace(self, fresh);
        self.set_now(old.clock.now());
        self.core.clock = old.clock.again();
        self.core.answers = old.answers.kept();
        self.core.counters = old.counters;
        self.core.flash.count_on(&old.flash);
        for ask in old.requests.asks().chain(old.passage.early()).chain(old.requests.held()) {
            self.core.answer(ask.tag, LOST);
        }
        while let Some(step) = processor.due(SimTime::MAX) {
            if let Step::Asked(ask) = step {
                self.core.answer(ask.tag, LOST);
            }
        }
        Ok(())
    }
}

impl Machine for Kv {
    type Ask = Ask;
    type Answer = Answer;

    fn namespaces(&self) -> &[u16] {
        &self.namespaces
    }

    fn submit(&mut self, now: SimTime, ask: Ask) {
        self.set_now(now);
        if self.processor.is_free() {
            return events::asked(&mut self.core, ask);
        }
        let moved = if let What::Store(store) = &ask.what { store.value.len() } else { 0 };
        if let Some(ask) = self.processor.ask(now, ask, moved) {
            events::asked(&mut self.core, ask);
        }
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.set_now(now);
        self.processor.command_ended();
        if self.processor.is_free() {
            return self.ended(completion);
        }
        if let Some(mut ended) = self.processor.complete(now, completion.take()) {
            self.ended(&mut ended);
        }
    }

    fn advance(&mut self, now: SimTime) {
        self.set_now(now);
        while let Some(step) = self.processor.due(now) {
            match step {
                Step::Asked(ask) => events::asked(&mut self.core, ask),
                Step::Ended(mut completion) => self.ended(&mut completion),
                Step::Send(_) => unreachable!("the processor keeps commands"),
            }
        }
        self.core.flash.advance();
        if self.core.flash.has_happened() || !self.core.passage.is_running() {
            events::happened(&mut self.core);
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        match (self.processor.next_event(), self.core.flash.engine().next_event()) {
            (Some(step), Some(level)) => Some(step.min(level)),
            (step, level) => step.or(level),
        }
    }

    fn next_command(&mut self) -> Option<Command> {
        if self.processor.is_free() {
            return self.produce();
        }
        loop {
            if let Some(command) = self.processor.next_sent() {
                return Some(command);
            }
            let command = self.produce()?;
            if let Some(command) = self.processor.send(self.core.clock.now(), command) {
                return Some(command);
            }
        }
    }

    fn pop(&mut self) -> Option<Answer> {
        self.core.answers.pop()
    }

    fn answered(&self) -> usize {
        self.core.answers.len()
    }

    fn failure(&self) -> Option<String> {
        self.core.health.failure().map(String::from).or_else(|| self.core.flash.engine().failure())
    }

    fn is_ready(&self) -> bool {
        self.core.passage.is_running()
    }

    fn stop(&mut self, now: SimTime) {
        self.set_now(now);
        restart::begin_stop(&mut self.core);
    }

    fn is_stopped(&self) -> bool {
        self.core.passage.phase() == Phase::Stopped && self.processor.is_idle()
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        self.set_now(now);
        self.begin_again()
    }

    fn figures(&self) -> Vec<Figure> {
        statistics::figures(&self.statistics(), self.core.flash.figures())
    }
}
