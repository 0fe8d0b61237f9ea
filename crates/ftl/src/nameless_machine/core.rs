//! Core of the machine: the objects that its paths use.

use super::NamelessFtlCounters;
use super::checkpoint::Flushes;
use super::collect::Victim;
use super::link::Link;
use super::read::Reads;
use super::requests::Requests;
use super::saver::Saver;
use super::shape::Shape;
use super::write::Writes;
use crate::{Name, Nameless, NamelessConfig};
use pellucid_flash::{BlockId, NamelessGeometry, Ppa, SimTime};

/// Health of the machine: it may refuse writes, or not work at all.
#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    read_only: bool,
    failure: Option<String>,
}

impl Health {
    /// Returns whether writes are refused.
    pub fn refuses_writes(&self) -> bool {
        self.read_only
    }

    /// Refuses writes from now on.
    pub fn refuse_writes(&mut self) {
        self.read_only = true;
    }

    /// Reason why the machine cannot work at all.
    pub fn failure(&self) -> Option<&String> {
        self.failure.as_ref()
    }

    /// Ends the machine's work.
    pub fn fail(&mut self, why: impl Into<String>) {
        self.failure = Some(why.into());
    }
}

/// Progress since all paths were gone through.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    made: bool,
}

impl Progress {
    /// Something has happened.
    pub fn note(&mut self) {
        self.made = true;
    }

    /// Returns whether something has happened.
    pub fn is_made(&self) -> bool {
        self.made
    }

    /// Returns whether something has happened, and forgets it.
    pub fn take(&mut self) -> bool {
        std::mem::take(&mut self.made)
    }
}

/// Counts of the machine. Invariant: they only grow.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    counts: NamelessFtlCounters,
}

impl Tally {
    /// Counts so far, without those of the engine and of checkpoints.
    pub fn counts(&self) -> NamelessFtlCounters {
        self.counts
    }

    /// A page with so many sectors of the application gets its place.
    pub fn page(&mut self, sectors: usize) {
        self.counts.pages += 1;
        self.counts.page_sectors += sectors as u64;
    }

    /// A page of copies is made.
    pub fn copy_page(&mut self) {
        self.counts.copy_pages += 1;
    }

    /// A write has failed.
    pub fn write_failure(&mut self) {
        self.counts.write_failures += 1;
    }

    /// A victim that was chosen at `since` has ended.
    pub fn pause(&mut self, since: SimTime, now: SimTime) {
        self.counts.pauses.record(now.since(since), now);
    }
}

/// Since when the names of each block are given out: its last erase, or the end of the moves of what it held.
#[derive(Clone, Debug)]
pub(super) struct Issue {
    since: Vec<SimTime>,
}

impl Issue {
    fn new(blocks: u32) -> Issue {
        Issue { since: vec![SimTime::ZERO; blocks as usize] }
    }

    /// The names of a block are given out anew.
    pub fn renew(&mut self, block: BlockId, now: SimTime) {
        self.since[block.0 as usize] = now;
    }

    /// Returns whether a command submitted at `submitted` means what a name of the block named before: its host cannot know the present
    /// owner of the name.
    pub fn is_after(&self, block: BlockId, submitted: SimTime) -> bool {
        let since = self.since[block.0 as usize];
        since > SimTime::ZERO && submitted <= since
    }
}

/// Objects that the paths use. Each has private fields and keeps its own invariants.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub config: NamelessConfig,
    pub shape: Shape,
    pub image_bytes: usize,
    pub now: SimTime,
    pub engine: Nameless,
    pub saver: Saver,
    pub requests: Requests,
    pub writes: Writes,
    pub reads: Reads,
    pub issue: Issue,
    /// The victim of garbage collection.
    pub victim: Option<Victim>,
    pub flushes: Flushes,
    pub link: Link,
    pub health: Health,
    pub progress: Progress,
    /// No more commands follow.
    pub stopping: bool,
    pub tally: Tally,
}

impl Core {
    /// Creates the state before the start. The error is a sentence.
    pub fn new(
        config: &NamelessConfig,
        shape: Shape,
        namespace: u16,
        image_bytes: usize,
    ) -> Result<Core, String> {
        let geometry = &shape.geometry;
        let images = (geometry.sector_bytes as usize, image_bytes);
        let places = [shape.place(0), shape.place(1)];
        Ok(Core {
            config: config.clone(),
            image_bytes,
            now: SimTime::ZERO,
            engine: Nameless::new(config, &shape.layout)?,
            saver: Saver::new(places, geometry.write_min_sectors, geometry.chunk_sectors, images),
            requests: Requests::default(),
            writes: Writes::new(shape.layout.dies),
            reads: Reads::default(),
            issue: Issue::new(shape.layout.blocks),
            victim: None,
            flushes: Flushes::default(),
            link: Link::new(namespace),
            health: Health::default(),
            progress: Progress::default(),
            stopping: false,
            tally: Tally::default(),
            shape,
        })
    }

    /// Returns whether a name was given out again after a command was submitted.
    pub fn issues_later(&self, name: Ppa, submitted: SimTime) -> bool {
        self.issue.is_after(self.shape.layout.block_of(name), submitted)
    }

    /// Looks up a name for a command submitted at `submitted`. The name in a late command may be that of another sector by now.
    pub fn name(&self, name: Ppa, submitted: SimTime) -> Name {
        if self.issues_later(name, submitted) { Name::Unknown } else { self.engine.name(name) }
    }

    /// Geometry of the nameless namespace.
    pub fn geometry(&self) -> NamelessGeometry {
        NamelessGeometry {
            capacity_sectors: self.engine.capacity().into(),
            virtual_sectors: self.engine.virtual_units().into(),
            name_sectors: self.shape.layout.units.into(),
            page_sectors: self.shape.layout.units_per_superpage,
            sector_bytes: self.shape.layout.sector_bytes,
        }
    }

    /// Bytes of memory for tables and buffers.
    pub fn memory_bytes(&self) -> u64 {
        self.engine.memory_bytes()
            + self.saver.memory_bytes()
            + self.requests.memory_bytes()
            + self.reads.memory_bytes()
            + self.writes.memory_bytes()
            + self.link.memory_bytes()
    }
}
