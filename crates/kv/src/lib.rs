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
//! | file | job |
//! |---|---|
//! | `ask.rs`, `config.rs`, `statistics.rs` | requests and answers, settings, counters |
//! | `item.rs`, `classes.rs` | the layout of an item in a slot; sizes of slots |
//! | `index.rs` | the place of each item |
//! | `slabs.rs` | contents of each slab; write buffers |
//! | `requests.rs`, `get.rs`, `store.rs` | requests, one by one |
//! | `fill.rs` | slabs on their way to flash; reads |
//! | `evict.rs`, `watermarks.rs` | victims; how much flash stays free |
//! | `retry.rs` | when flash that has failed is tried again |
//! | `restart.rs`, `snapshot.rs` | start and stop |
//! | `engine/` | the storage engines |
//! | `system.rs` | the cache on a drive |
//!
//! Invariants: an index entry names the newest version of its key, or there is no entry; the item it names is in a write buffer or on flash that
//! is not erased; an item is recognised by key, version and checksum, so damaged or foreign data are a miss.

mod ask;
mod check;
mod classes;
mod config;
mod engine;
mod evict;
mod fill;
mod get;
mod index;
mod item;
mod requests;
mod restart;
mod retry;
mod slabs;
mod snapshot;
mod statistics;
mod store;
mod system;
mod watermarks;

pub use ask::{Answer, Ask, Get, Item, Key, Mode, Outcome, Store, What};
pub use config::{EngineKind, Keep, KvConfig, KvCosts, OverProvisioning, Victim};
pub use statistics::{ClassStatistics, KvStatistics};
pub use system::{System, build, build_by};

use classes::{Class, SLAB_HEADER};
use engine::{Engine, Io, Shape};
use evict::Eviction;
use fill::Read;
use index::{Entry, Index};
use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Completion, Drive, Figure, Nanos, Opcode, SimTime};
use pellucid_host::{Machine, Steps};
use requests::{Locks, Request};
use restart::{Passage, Phase};
use retry::Retry;
use slabs::{Buffers, SlabRecord};
use std::collections::VecDeque;
use watermarks::Watermarks;

/// Bytes of value buffers that are kept, and the largest of them.
const VALUES_BYTES_MAX: usize = 16 << 20;
const VALUE_BYTES_MAX: usize = 64 << 10;
/// How long a value is need not be known more exactly than this: looking it up would cost more.
const SHORT_BYTES_MAX: u32 = 4 << 10;

/// Work of the host's processor that is not done yet.
#[derive(Clone, Debug)]
enum Step {
    Asked(Ask),
    Send(Command),
    Ended(Completion),
}

/// The cache. Clone it, with the drive below, to fork its future.
#[derive(Clone, Debug)]
pub struct Kv {
    config: KvConfig,
    namespaces: [u16; 1],
    shape: Shape,
    phase: Phase,
    now: SimTime,
    time_s: u32,
    /// The newest version given to an item.
    cas: u64,
    /// Counts orders and accesses of slabs.
    ticks: u64,
    /// When a flush that was asked for is due; 0: none.
    flush_at_s: u32,
    classes: Vec<Class>,
    /// The longest slot that has held an item since the cache was empty.
    longest_bytes: u32,
    index: Index,
    slabs: Vec<SlabRecord>,
    vacant: Vec<u32>,
    buffers: Buffers,
    /// Slabs that wait for the engine.
    full: VecDeque<u32>,
    engine: Engine,
    io: Io,
    requests: Slab<Request>,
    locks: Locks,
    /// Requests that wait for a write buffer, in order.
    waiting: VecDeque<u32>,
    /// Requests that are being read for, and those that wait for a core while all of them are held by these.
    reading: u32,
    held: VecDeque<Ask>,
    reads: Slab<Read>,
    evictions: Vec<Eviction>,
    /// Slabs that leave as soon as no request reads them.
    leaving: u32,
    /// Bytes of slots of larger classes that items left unused, since a slab was last closed for want of write buffers.
    lent_bytes: u64,
    /// The last slab that was closed had slots left, for want of write buffers.
    closed_early: bool,
    /// No slab has been filled since the last look for obsolete ones.
    surveyed: bool,
    watermarks: Watermarks,
    /// No slab can be written now.
    dead: bool,
    retry: Retry,
    /// Why it cannot start.
    failed: Option<&'static str>,
    passage: Passage,
    /// Commands with the drive.
    outstanding: u32,
    steps: Steps<Step>,
    /// Commands whose cost has been paid.
    paid: VecDeque<Command>,
    values: Vec<Vec<u8>>,
    /// Bytes of these.
    values_bytes: usize,
    scratch: Vec<u8>,
    answers: VecDeque<Answer>,
    statistics: KvStatistics,
}

impl Kv {
    /// A cache on `drive`. It has to be started there: [`build`].
    ///
    /// The error is a sentence.
    pub fn new(config: &KvConfig, drive: &impl Drive) -> Result<Kv, String> {
        config.check()?;
        let slab_least =
            (SLAB_HEADER + item::bytes_of(Key::BYTES_MAX, config.item_max_bytes as usize)) as u32;
        let engine = Engine::new(config, drive, slab_least)?;
        Kv::with_engine(config.clone(), engine)
    }

    fn with_engine(config: KvConfig, engine: Engine) -> Result<Kv, String> {
        let shape = engine.shape();
        let buffers = (config.memory_bytes / u64::from(shape.slab_bytes)).clamp(4, 1 << 16) as u32;
        if shape.slabs < 4 {
            return Err(format!(
                "the flash has room for {} slabs of {}; allowed: 4 or more, by a larger drive or kv.capacity, or a smaller kv.slab or kv.item_max",
                shape.slabs,
                config::size(shape.slab_bytes.into())
            ));
        }
        let numbers = shape.slabs.saturating_add(buffers).min(Entry::SLABS_MAX);
        let items = u64::from(shape.slabs) * u64::from(shape.slab_bytes) / 512;
        Ok(Kv {
            namespaces: [engine.namespace()],
            phase: Phase::Starting,
            now: SimTime::ZERO,
            time_s: 0,
            cas: 0,
            ticks: 0,
            flush_at_s: 0,
            classes: classes::classes(&config, shape.slab_bytes),
            longest_bytes: 0,
            index: Index::new(items),
            slabs: vec![SlabRecord::default(); numbers as usize],
            vacant: (0..numbers).rev().collect(),
            buffers: Buffers::new(buffers, shape.slab_bytes as usize),
            full: VecDeque::new(),
            io: Io::default(),
            requests: Slab::default(),
            locks: Locks::default(),
            waiting: VecDeque::new(),
            reading: 0,
            held: VecDeque::new(),
            reads: Slab::default(),
            evictions: Vec::new(),
            leaving: 0,
            lent_bytes: 0,
            closed_early: false,
            surveyed: false,
            watermarks: Watermarks::new(&config, &shape),
            dead: false,
            retry: Retry::default(),
            failed: None,
            passage: Passage::default(),
            outstanding: 0,
            steps: Steps::new(config.costs.cores),
            paid: VecDeque::new(),
            values: Vec::new(),
            values_bytes: 0,
            scratch: Vec::new(),
            answers: VecDeque::new(),
            statistics: KvStatistics::default(),
            shape,
            engine,
            config,
        })
    }

    /// An empty buffer for the value of a store.
    pub fn buffer(&mut self) -> Vec<u8> {
        let value = self.values.pop().unwrap_or_default();
        self.values_bytes -= value.capacity();
        value
    }

    /// Takes back the buffer of an answer's value.
    pub fn give_back(&mut self, mut value: Vec<u8>) {
        let bytes = value.capacity();
        if (1..=VALUE_BYTES_MAX).contains(&bytes) && self.values_bytes + bytes <= VALUES_BYTES_MAX {
            value.clear();
            self.values_bytes += bytes;
            self.values.push(value);
        }
    }

    /// The largest value that fits with a key of this length.
    pub fn value_max(&self, key_bytes: usize) -> usize {
        let slot = self.classes.last().map_or(0, |class| class.slot_bytes as usize);
        slot.saturating_sub(item::bytes_of(key_bytes, 0)).min(self.config.item_max_bytes as usize)
    }

    /// Has the processor ask for the memory that a request for this key needs first.
    #[inline]
    pub fn prefetch(&self, key: &Key) {
        self.index.prefetch(item::hash(self.config.seed, key.as_bytes()));
    }

    /// The most bytes that the value of this key has now: as many as its slot, or, where all slots are short, as the longest.
    #[inline]
    pub fn value_bytes_max(&self, key: &Key) -> usize {
        if self.longest_bytes <= SHORT_BYTES_MAX {
            return self.longest_bytes as usize;
        }
        let hash = item::hash(self.config.seed, key.as_bytes());
        let Some(at) = self.index.find(hash) else { return 0 };
        let slab = &self.slabs[self.index.get(at).place().slab as usize];
        self.classes[usize::from(slab.class)].slot_bytes as usize
    }

    /// Returns true if nothing can be stored now. Parts that failed are tried again later.
    pub fn is_read_only(&self) -> bool {
        self.dead
    }

    /// Returns the counters.
    pub fn statistics(&self) -> KvStatistics {
        let engine = self.engine.counters();
        let tops: usize = self.slabs.iter().map(|slab| slab.tops.capacity() * size_of::<u32>()).sum();
        let records = self.slabs.capacity() * size_of::<SlabRecord>();
        KvStatistics {
            erases: engine.erases,
            failures: engine.failures,
            retired_blocks: engine.retired,
            resting_parts: engine.resting,
            takes_stores: !self.dead,
            flash_written_bytes: self.io.written_bytes,
            flash_read_bytes: self.io.read_bytes,
            items: self.index.len(),
            item_bytes: self
                .classes
                .iter()
                .map(|class| class.statistics.items * u64::from(class.slot_bytes))
                .sum(),
            index_bytes: self.index.bytes() + (tops + records) as u64,
            slabs: self.slabs.iter().filter(|slab| !slab.tops.is_empty()).count() as u64,
            slab_bytes: self.shape.slab_bytes.into(),
            slabs_total: self.shape.slabs.into(),
            slabs_free: self.engine.free().into(),
            watermarks: self.watermarks.marks().map(u64::from),
            ..self.statistics.clone()
        }
    }

    /// Bytes of write buffers with which every slab class has one. With less, items of several classes share slabs, and take more flash.
    pub fn memory_for_each_class_bytes(&self) -> u64 {
        self.classes.len() as u64 * self.engine.shape().slab_bytes as u64
    }

    /// Returns the counters of each slab class.
    pub fn classes(&self) -> Vec<ClassStatistics> {
        let mut list: Vec<_> = self.classes.iter().map(|class| class.statistics).collect();
        for slab in self.slabs.iter().filter(|slab| !slab.tops.is_empty()) {
            list[usize::from(slab.class)].slabs += 1;
        }
        list
    }

    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    fn answer(&mut self, tag: u32, outcome: Outcome) {
        self.answers.push_back(Answer { tag, at: self.now, outcome });
    }

    /// A request has been looked at by the processor.
    fn asked(&mut self, ask: Ask) {
        if self.cores_are_held() {
            return self.held.push_back(ask);
        }
        match self.phase {
            Phase::Running => self.take(ask),
            _ => self.asked_early(ask),
        }
    }

    fn cores_are_held(&self) -> bool {
        self.config.costs.reads_block && self.reading >= self.config.costs.cores
    }

    /// A request has been read for: what waited for its core goes on.
    fn core_is_free(&mut self) {
        self.reading -= 1;
        while !self.cores_are_held()
            && let Some(ask) = self.held.pop_front()
        {
            self.asked(ask);
        }
    }

    /// A completion has been looked at by the processor.
    fn ended(&mut self, completion: &mut Completion) {
        self.engine.complete(&mut self.io, completion);
        self.happened();
    }

    /// Something happened below: what follows from it.
    fn happened(&mut self) {
        self.run_events();
        self.go_on();
        if self.phase != Phase::Running {
            self.pass();
        }
    }

    #[inline]
    fn set_now(&mut self, now: SimTime) {
        (self.now, self.io.now) = (now, now);
    }

    /// The next command. After a stop only reads go on.
    fn produce(&mut self) -> Option<Command> {
        loop {
            let stopped = self.phase == Phase::Stopped;
            let command = self.engine.next_command(&mut self.io, &self.buffers, stopped);
            if command.is_some() || self.io.events.is_empty() {
                return command;
            }
            // A level has answered at once.
            self.happened();
        }
    }

    fn moved_cost(&self, bytes: usize) -> Nanos {
        Nanos(self.config.costs.kib_ns.0 * bytes as u64 / 1024)
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
        if self.config.costs == KvCosts::FREE {
            return self.asked(ask);
        }
        let moved = if let What::Store(store) = &ask.what { store.value.len() } else { 0 };
        let cost = self.config.costs.ask_ns + self.moved_cost(moved);
        if let Some(Step::Asked(ask)) = self.steps.give(now, cost, Step::Asked(ask)) {
            self.asked(ask);
        }
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.set_now(now);
        self.outstanding -= 1;
        if self.config.costs == KvCosts::FREE {
            return self.ended(completion);
        }
        let moved = if completion.opcode == Opcode::Read { completion.data.len() } else { 0 };
        let cost = self.config.costs.completion_ns + self.moved_cost(moved);
        if let Some(Step::Ended(mut ended)) = self.steps.give(now, cost, Step::Ended(completion.take())) {
            self.ended(&mut ended);
        }
    }

    fn advance(&mut self, now: SimTime) {
        self.set_now(now);
        while let Some((_, step)) = self.steps.due(now) {
            match step {
                Step::Asked(ask) => self.asked(ask),
                Step::Send(command) => self.paid.push_back(command),
                Step::Ended(mut completion) => self.ended(&mut completion),
            }
        }
        self.engine.advance(&mut self.io);
        if !self.io.events.is_empty() || self.phase != Phase::Running {
            self.happened();
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        match (self.steps.next_event(), self.engine.next_event()) {
            (Some(step), Some(level)) => Some(step.min(level)),
            (step, level) => step.or(level),
        }
    }

    fn next_command(&mut self) -> Option<Command> {
        if self.config.costs == KvCosts::FREE {
            let command = self.produce()?;
            self.outstanding += 1;
            return Some(command);
        }
        loop {
            if let Some(command) = self.paid.pop_front() {
                return Some(command);
            }
            let command = self.produce()?;
            self.outstanding += 1;
            let moved = if command.opcode == Opcode::Write { command.data.len() } else { 0 };
            let cost = self.config.costs.command_ns + self.moved_cost(moved);
            if let Some(Step::Send(command)) = self.steps.give(self.now, cost, Step::Send(command)) {
                return Some(command);
            }
        }
    }

    fn pop(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    fn answered(&self) -> usize {
        self.answers.len()
    }

    fn failure(&self) -> Option<String> {
        self.failed.map(String::from).or_else(|| self.engine.failure())
    }

    fn is_ready(&self) -> bool {
        self.phase == Phase::Running
    }

    fn stop(&mut self, now: SimTime) {
        self.set_now(now);
        self.begin_stop();
    }

    fn is_stopped(&self) -> bool {
        self.phase == Phase::Stopped && self.outstanding == 0
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        self.set_now(now);
        self.begin_again()
    }

    fn figures(&self) -> Vec<Figure> {
        statistics::figures(&self.statistics(), self.engine.figures())
    }
}
