//! Start and stop.
//!
//! ```text
//!   starting ─► scanning ─► loading ─► wiping ─► running ─► draining ─► flushing ─► saving ─► stopped
//!                   └─ no snapshot ───────▲          ▲ ask      │           │          │         │
//!                                         │          └──────────┴───────────┘          │         │
//!                                         └── ask ─────────────────────────────────────┴─────────┘
//! ```
//! A clean stop writes every slab and then a snapshot of index and slabs, in slabs of its own. A start takes the newest whole snapshot and
//! makes all snapshots unreadable *before* it answers anything. So a snapshot either matches the cache exactly, or does not exist: after a
//! crash the cache is empty, and no older version, deleted or expired item ever comes back. A start makes snapshots unreadable even with
//! `warm_restart` off.

use super::fill::Purpose;
use super::index::Index;
use super::slabs::{SlabRecord, State};
use super::snapshot::{self, PART_HEADER, Part};
use super::{Ask, Kv, Outcome, Step};
use pellucid_flash::SimTime;
use pellucid_flash::slab::NIL;
use std::collections::VecDeque;

/// Reads at a time.
const READS_MAX: usize = 64;
const LOAD_BYTES: u32 = 256 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The engine looks at the flash.
    Starting,
    /// Places are looked at for snapshots.
    Scanning,
    /// A snapshot is read.
    Loading,
    /// Snapshots are made unreadable.
    Wiping,
    Running,
    /// Everything in memory goes to flash.
    Draining,
    /// Earlier writes become durable.
    Flushing,
    /// A snapshot is written.
    Saving,
    Stopped,
}

/// State that only a start or a stop needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Passage {
    /// Requests that came too early.
    early: VecDeque<Ask>,
    places: Vec<u32>,
    parts: Vec<Part>,
    /// Slabs that hold parts; of the snapshot that is read, those in order first.
    slabs: Vec<u32>,
    /// Bytes to be read, by part and from where on.
    pieces: Vec<(u32, u32)>,
    left: usize,
    image: Vec<u8>,
    lost: bool,
    next_part: u32,
    generation: u64,
}

impl Kv {
    /// A request before the cache runs, or after it was told to stop.
    pub(super) fn asked_early(&mut self, ask: Ask) {
        self.passage.early.push_back(ask);
        match self.phase {
            Phase::Draining | Phase::Flushing => self.run(),
            Phase::Stopped => self.wipe(),
            _ => {}
        }
    }

    fn run(&mut self) {
        self.phase = Phase::Running;
        while self.phase == Phase::Running
            && let Some(ask) = self.passage.early.pop_front()
        {
            self.take(ask);
        }
        self.go_on();
    }

    /// Does what a start or a stop can do now.
    pub(super) fn pass(&mut self) {
        match self.phase {
            Phase::Starting if self.engine.is_started() => {
                self.passage.places = self.engine.candidates();
                self.phase = Phase::Scanning;
                self.scan();
            }
            Phase::Draining => self.drain(),
            Phase::Saving => self.give_up_saving(),
            _ => {}
        }
    }

    fn scan(&mut self) {
        while self.passage.left < READS_MAX
            && let Some(place) = self.passage.places.pop()
        {
            self.passage.left += 1;
            self.peek(place);
        }
        if self.passage.left == 0 {
            self.load();
        }
    }

    /// The first sector of a place has been read.
    pub(super) fn peeked(&mut self, place: u32, sector: Option<&[u8]>) {
        self.passage.left -= 1;
        let part = sector.and_then(|sector| Part::decode(self.config.seed, &self.shape, sector));
        self.passage.parts.extend(part.filter(|part| part.places[0] == place));
        self.scan();
    }

    /// All parts have been found: the newest whole snapshot is read.
    fn load(&mut self) {
        let mut parts = std::mem::take(&mut self.passage.parts);
        parts.sort_by_key(|part| (std::cmp::Reverse(part.generation), part.part));
        self.passage.generation = parts.first().map_or(0, |part| part.generation);
        let whole = self.config.warm_restart && snapshot::is_whole(&parts);
        let newest = if whole { parts[0].parts } else { 0 };
        for part in parts {
            let Some(number) = self.vacant.pop() else { break };
            if !self.engine.adopt(number, &part.places) {
                self.vacant.push(number);
                self.passage.lost = true;
                continue;
            }
            self.slabs[number as usize].state = State::Snapshot;
            if part.generation == self.passage.generation && part.part < newest {
                let from = (0..part.bytes).step_by(LOAD_BYTES as usize);
                self.passage.pieces.extend(from.map(|from| (number, from)));
                self.passage.image.resize(self.passage.image.len() + part.bytes as usize, 0);
            }
            self.passage.slabs.push(number);
            self.passage.parts.push(part);
        }
        self.phase = Phase::Loading;
        self.load_more();
    }

    fn load_more(&mut self) {
        while self.passage.left < READS_MAX
            && let Some((slab, from)) = self.passage.pieces.pop()
        {
            self.passage.left += 1;
            let at = self.passage.slabs.iter().position(|&other| other == slab).expect("it was adopted");
            let bytes = (self.passage.parts[at].bytes - from).min(LOAD_BYTES) as usize;
            self.read(slab, PART_HEADER + from as usize, bytes, Purpose::Load(from));
        }
        if self.passage.left == 0 {
            self.restore();
            self.engine.begin();
            self.wipe();
        }
    }

    /// A piece of a snapshot has been read.
    pub(super) fn loaded(&mut self, slab: u32, from: u32, bytes: Option<&[u8]>) {
        let at = self.passage.slabs.iter().position(|&other| other == slab).expect("it was adopted");
        let before: u32 = self.passage.parts[..at].iter().map(|part| part.bytes).sum();
        let to = (before + from) as usize;
        let count = (self.passage.parts[at].bytes - from).min(LOAD_BYTES) as usize;
        match bytes.and_then(|bytes| bytes.get(..count)) {
            Some(bytes) => self.passage.image[to..to + count].copy_from_slice(bytes),
            None => self.passage.lost = true,
        }
        self.passage.left -= 1;
        self.load_more();
    }

    /// Takes over what the snapshot says; where it is damaged, the cache is empty.
    fn restore(&mut self) {
        let image = std::mem::take(&mut self.passage.image);
        let lost = std::mem::take(&mut self.passage.lost);
        if image.is_empty() || lost || !snapshot::is_sound(&self.passage.parts, &image) {
            return;
        }
        if self.read_snapshot(&image).is_none() {
            self.empty();
        }
    }

    /// Forgets all items, before anything is on its way.
    fn empty(&mut self) {
        self.index = Index::new(u64::from(self.shape.slabs) * u64::from(self.shape.slab_bytes) / 512);
        let held = |slab: &SlabRecord| slab.state == State::Stored;
        for number in 0..self.slabs.len() as u32 {
            if held(&self.slabs[number as usize]) {
                self.engine.release(number);
                self.slabs[number as usize] = SlabRecord::default();
                self.vacant.push(number);
            }
        }
        self.classes.iter_mut().for_each(|class| class.statistics.items = 0);
        self.longest_bytes = 0;
    }

    /// Makes all snapshots unreadable, then runs.
    fn wipe(&mut self) {
        self.phase = Phase::Wiping;
        self.passage.parts.clear();
        self.passage.left = self.passage.slabs.len();
        for at in 0..self.passage.slabs.len() {
            self.engine.wipe(&mut self.io, self.passage.slabs[at]);
        }
        if self.passage.left == 0 {
            self.run();
        }
    }

    pub(super) fn wiped(&mut self, good: bool) {
        self.passage.left -= 1;
        if !good {
            self.failed = Some("the drive takes no writes: the snapshot on it cannot be made unreadable");
        }
        if self.passage.left == 0 {
            for number in std::mem::take(&mut self.passage.slabs) {
                self.slabs[number as usize].state = State::Free;
                self.vacant.push(number);
            }
            self.run();
        }
    }

    pub(super) fn begin_stop(&mut self) {
        if self.phase != Phase::Running {
            return;
        }
        if !self.config.warm_restart {
            self.phase = Phase::Stopped;
            return;
        }
        self.phase = Phase::Draining;
        self.drain();
    }

    /// Brings everything to flash, and makes room for the snapshot.
    fn drain(&mut self) {
        if self.dead {
            return self.run();
        }
        let busy = self.requests.in_use() > 0 || !self.evictions.is_empty() || self.leaving > 0;
        if busy {
            return;
        }
        for class in 0..self.classes.len() {
            match self.classes[class].open {
                NIL => {}
                slab => self.close(slab),
            }
        }
        self.start_writes();
        if self.buffers.vacant() < self.buffers.count() {
            return self.make_room();
        }
        let parts = self.snapshot_parts();
        while self.engine.free() + self.leaving < parts {
            if !self.evict_one() {
                return self.run();
            }
        }
        if self.leaving == 0 {
            self.phase = Phase::Flushing;
            self.engine.flush(&mut self.io);
        }
    }

    pub(super) fn flushed(&mut self) {
        if self.phase != Phase::Flushing {
            return;
        }
        self.phase = Phase::Saving;
        self.passage.generation += 1;
        self.passage.image = self.write_snapshot();
        self.passage.next_part = 0;
        self.save();
    }

    /// Writes parts of the snapshot as long as there are write buffers.
    fn save(&mut self) {
        let each = self.shape.slab_bytes as usize - PART_HEADER;
        let parts = self.passage.image.len().div_ceil(each) as u32;
        while self.passage.next_part < parts
            && let Some(buffer) = self.buffers.take()
        {
            let number = self.vacant.pop().expect("a number for each buffer");
            let from = self.passage.next_part as usize * each;
            let payload = &self.passage.image[from..self.passage.image.len().min(from + each)];
            self.buffers.get_mut(buffer)[PART_HEADER..][..payload.len()].copy_from_slice(payload);
            let part = Part::new(self.passage.generation, self.passage.next_part, parts, payload);
            let slab = &mut self.slabs[number as usize];
            (slab.state, slab.buffer) = (State::Snapshot, buffer);
            self.passage.parts.push(part);
            self.passage.slabs.push(number);
            self.passage.next_part += 1;
            self.passage.left += 1;
            self.full.push_back(number);
        }
        self.start_writes();
    }

    /// Ends a stop for which flash has no place any more, as its writes fail.
    fn give_up_saving(&mut self) {
        let stuck = self.full.len() == self.passage.left && self.engine.free() == 0;
        if !stuck && !self.engine.is_read_only() {
            return;
        }
        for number in std::mem::take(&mut self.full) {
            self.give_up_buffer(number);
            self.slabs[number as usize].state = State::Free;
            self.vacant.push(number);
            self.passage.slabs.retain(|&slab| slab != number);
        }
        self.wipe();
    }

    /// A part of a snapshot has been given its place: it says so itself.
    pub(super) fn part_placed(&mut self, number: u32) {
        let at = self.passage.slabs.iter().position(|&slab| slab == number).expect("it is a part");
        let part = &mut self.passage.parts[at];
        part.places.clear();
        part.places.extend_from_slice(self.engine.places(number));
        let header = part.encode(self.config.seed, &self.shape);
        let buffer = self.slabs[number as usize].buffer;
        self.buffers.get_mut(buffer)[..PART_HEADER].copy_from_slice(&header);
    }

    pub(super) fn part_written(&mut self) {
        self.passage.left -= 1;
        self.save();
        if self.passage.left == 0 {
            self.passage.image = Vec::new();
            self.passage.parts.clear();
            self.phase = Phase::Stopped;
            if !self.passage.early.is_empty() {
                self.wipe();
            }
        }
    }

    /// Power was lost below: everything in memory is gone, and what was asked is answered as failed.
    pub(super) fn begin_again(&mut self) -> Result<(), String> {
        const LOST: Outcome = Outcome::Failed("power was lost");
        let engine = self.engine.fresh(self.now);
        let fresh = Kv::with_engine(self.config.clone(), engine)?;
        let old = std::mem::replace(self, fresh);
        self.set_now(old.now);
        self.time_s = old.time_s;
        self.answers = old.answers;
        for request in old.requests.iter().filter(|request| request.live) {
            self.answer(request.ask.tag, LOST);
        }
        for ask in old.passage.early.iter().chain(&old.held) {
            self.answer(ask.tag, LOST);
        }
        let mut steps = old.steps;
        while let Some((_, step)) = steps.due(SimTime::MAX) {
            if let Step::Asked(ask) = step {
                self.answer(ask.tag, LOST);
            }
        }
        Ok(())
    }
}
