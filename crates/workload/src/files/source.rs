//! The threads in virtual time: from operations to block requests.
//!
//! ```text
//!  next(now) ─► due threads ─► operation ─► pages present? ─ no ─► read request ─► wait
//!                                 │ yes
//!                                 ├─ dirty pages ─► write-back: above a share of memory, or by age ─► write request
//!                                 └─ fsync ─► pages of the file ─► journal ─► flush ─► commit block ─► flush
//!  completed(token) ─► pages ─► threads that waited
//! ```
//! Order at one moment: completions, then threads in the order in which they became due. A block has at most one request in flight, so a drive that
//! reorders cannot leave an old version.
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`FileSet`] | files, and positions of rotations | an open file is not picked |
//! | [`Layout`], [`PageCache`] | blocks of files; pages in memory | see there |
//! | [`Thread`] | an operation, and what it waits for | it waits for blocks in order |
//! | [`Journal`] | the running transaction, the commit in progress | one commit at a time |
//! | [`WriteBack`] | pages that wait to be written | a file is queued once |
//! | [`Waits`] | threads that wait or are woken | a thread waits for one thing |
//! | [`Requests`] | requests for the drive | a token names one request |
//! | [`Schedule`] | events to come, cores | events run in order |
//!
//! Only an object itself writes its fields. Paths are functions without state: `operate`, `write_back`, `journal`. [`Files`] wires them.

mod file_set;
mod journal;
mod operate;
mod requests;
mod schedule;
mod waits;
mod write_back;

use super::layout::{Extent, Layout, LayoutError};
use super::page_cache::PageCache;
use super::report::Meter;
use super::{BLOCK_BYTES, FilesConfig};
use file_set::FileSet;
use journal::Journal;
use operate::Thread;
use pellucid_flash::{Nanos, Rng, SimTime};
use pellucid_report::FilesReport;
use requests::{Purpose, Requests};
use schedule::{Event, Schedule};
#[cfg(test)]
use std::collections::BTreeMap;
use waits::Waits;
use write_back::WriteBack;

/// A request to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// Identifies the request in [`Files::completed`].
    pub token: u32,
    /// Kind of the request.
    pub kind: RequestKind,
    /// Blocks; empty for a flush.
    pub extent: Extent,
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Reads blocks.
    Read,
    /// Writes blocks.
    Write,
    /// Makes earlier writes durable.
    Flush,
}

/// Answer to a query for the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesNext {
    /// A request to submit now.
    Now(BlockRequest),
    /// No request before this moment.
    At(SimTime),
    /// No request before a completion.
    Blocked,
    /// The time is over, or the number of operations in [`Files::pause_at`] is reached.
    End,
}

/// A file set with its running threads.
#[derive(Clone, Debug)]
pub struct Files {
    config: FilesConfig,
    layout: Layout,
    cache: PageCache,
    set: FileSet,
    threads: Vec<Thread>,
    journal: Journal,
    write_back: WriteBack,
    waits: Waits,
    requests: Requests,
    schedule: Schedule,
    rng: Rng,
    now: SimTime,
    start: Option<SimTime>,
    /// Reusable memory for lists of operations.
    scratch: Vec<Extent>,
    meter: Meter,
    /// Number of operations at which the source pauses.
    pause_at: u64,
    #[cfg(test)]
    pub(super) newest: BTreeMap<u32, u32>,
}

impl Files {
    /// A file set on a drive of this many bytes. The error is a sentence.
    pub fn new(config: &FilesConfig, capacity_bytes: u64) -> Result<Files, String> {
        let personality = config.personality;
        let blocks = u32::try_from(capacity_bytes / BLOCK_BYTES).unwrap_or(u32::MAX);
        let mut rng = Rng::stream(config.seed, "files");
        // The log of a webserver is an additional file.
        let all = config.files + 1;
        let directories = |_: LayoutError| {
            format!(
                "the inodes and directories of {} files, up to {} in each, do not fit into groups of 128 MiB of {} MiB; allowed: fewer files, \
                 or a larger drive",
                config.files,
                personality.directory_width().min(config.files),
                capacity_bytes >> 20
            )
        };
        let mut layout = Layout::new(blocks, all, personality.directory_width()).map_err(directories)?;
        let sizes = personality.sizes(config.file_bytes);
        let mut set = FileSet::new((0..all).map(|_| sizes.draw(&mut rng)));
        populate(config, &mut set, &mut layout, &mut rng)?;
        set.open(config.files);
        let thread = |_| Thread::new(rng.below(config.files.into()) as u32);
        let threads = (0..config.threads).map(thread).collect();
        let pages = (config.page_cache_bytes / BLOCK_BYTES).clamp(64, 1 << 30) as u32;
        Ok(Files {
            cache: PageCache::new(pages, blocks),
            journal: Journal::new(layout.journal()),
            write_back: WriteBack::new(set.count()),
            layout,
            set,
            threads,
            waits: Waits::default(),
            requests: Requests::default(),
            schedule: Schedule::new(config.host.cores),
            rng,
            now: SimTime::ZERO,
            start: None,
            scratch: Vec::new(),
            meter: Meter::new(),
            pause_at: u64::MAX,
            #[cfg(test)]
            newest: BTreeMap::new(),
            config: config.clone(),
        })
    }

    /// Its configuration.
    pub fn config(&self) -> &FilesConfig {
        &self.config
    }

    /// The file system.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The page cache.
    pub fn page_cache(&self) -> &PageCache {
        &self.cache
    }

    /// Time from which operations count; [`SimTime::MAX`] before the first request.
    pub fn measures_from(&self) -> SimTime {
        self.start.map_or(SimTime::MAX, |start| start + self.config.ramp)
    }

    /// Time after which no operation starts.
    pub fn deadline(&self) -> SimTime {
        match (self.start, self.config.runtime) {
            (Some(_), Some(runtime)) => self.measures_from() + runtime,
            _ => SimTime::MAX,
        }
    }

    /// Reports the figures of a measurement that ended at `end`.
    pub fn report(&self, end: SimTime) -> FilesReport {
        self.meter.report(&self.config, end.min(self.deadline()).since(self.measures_from()))
    }

    /// Starts counting operations now.
    pub fn begin(&mut self) {
        self.meter = Meter::new();
    }

    /// Measurements of its threads.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Operations counted so far, including skipped ones.
    pub fn operations(&self) -> u64 {
        self.meter.operations() + self.meter.refused
    }

    /// Pauses at this number of counted operations, until a larger one is set. A pause does not affect the results.
    pub fn pause_at(&mut self, operations: u64) {
        self.pause_at = operations;
    }

    /// The next request at `now`.
    pub fn next(&mut self, now: SimTime) -> FilesNext {
        self.now = self.now.max(now);
        if self.start.is_none() {
            self.start = Some(now);
            for thread in 0..self.threads.len() as u32 {
                self.schedule.add(now, Event::Begin(thread));
            }
            self.schedule.add(now + self.config.host.wakeup, Event::Age);
            self.schedule.add(now + self.config.host.commit, Event::Commit);
        }
        loop {
            if let Some(request) = self.requests.next_ready() {
                return FilesNext::Now(request);
            }
            if now >= self.deadline() || self.operations() >= self.pause_at {
                return FilesNext::End;
            }
            if let Some(thread) = self.waits.next_woken() {
                operate::work(self, thread);
                continue;
            }
            match self.schedule.next_at() {
                // Only requests in flight may lead to others until then.
                Some(at) if at > now && at >= self.deadline() => {
                    return if self.requests.are_under_way() { FilesNext::Blocked } else { FilesNext::End };
                }
                Some(at) if at > now => return FilesNext::At(at),
                Some(_) => {
                    if let Some(event) = self.schedule.take() {
                        self.run(event);
                    }
                }
                None => return FilesNext::Blocked,
            }
        }
    }

    /// Handles the end of a request.
    pub fn completed(&mut self, token: u32, now: SimTime) {
        self.now = self.now.max(now);
        let (purpose, kind, extent) = self.requests.ended(token);
        if purpose == Purpose::Journal {
            return journal::journal_ended(self);
        }
        for block in extent.block..extent.block + extent.count {
            match kind {
                RequestKind::Read => self.cache.end_read(block),
                _ => self.cache.end_write(block),
            }
            self.waits.block_ended(block);
        }
        if kind == RequestKind::Write {
            self.write_back.end_write();
            write_back::write_back(self);
            if !operate::is_crowded(self) {
                self.waits.release_throttled();
            }
        }
    }

    fn is_measured(&self) -> bool {
        self.now >= self.measures_from() && self.now < self.deadline()
    }

    fn run(&mut self, event: Event) {
        match event {
            Event::Begin(thread) => operate::begin(self, thread),
            Event::Execute(thread) => operate::work(self, thread),
            Event::Submit(token) => self.requests.submit(token),
            Event::Age => {
                let before = SimTime(self.now.0.saturating_sub(self.config.host.expire.0));
                if self.now.0 > self.config.host.expire.0 && !self.write_back.has_aged() {
                    let cache = &self.cache;
                    let old = |block: &u32| cache.dirtied(*block).is_some_and(|at| at <= before);
                    self.write_back.set_aged(cache.dirty().iter().copied().filter(old));
                }
                write_back::write_back(self);
                self.schedule.add(self.now + self.config.host.wakeup, Event::Age);
            }
            Event::Commit => {
                journal::start_commit(self);
                self.schedule.add(self.now + self.config.host.commit, Event::Commit);
            }
        }
    }

    /// Makes a request; it is submitted after its processor time.
    fn request(&mut self, purpose: Purpose, kind: RequestKind, extent: Extent) {
        if extent.count == 0 && kind != RequestKind::Flush {
            return;
        }
        let token = self.requests.make(purpose, kind, extent);
        let host = &self.config.host;
        let kib = u64::from(extent.count) * (BLOCK_BYTES >> 10);
        let time = Nanos(host.request.0 + host.request_kib.0 * kib);
        if time == Nanos::ZERO {
            self.requests.submit(token);
        } else {
            let submits = self.schedule.compute(self.now, time);
            self.schedule.add(submits, Event::Submit(token));
        }
    }

    /// Checks the invariants of file system and page cache.
    ///
    /// # Panics
    /// If one is broken.
    pub fn check(&self) {
        self.layout.check();
        self.cache.check();
    }
}

/// Creates the initial files with their blocks, in random order. The error is a sentence.
fn populate(
    config: &FilesConfig,
    set: &mut FileSet,
    layout: &mut Layout,
    rng: &mut Rng,
) -> Result<(), String> {
    let mut extents = Vec::new();
    let mut exists: Vec<u32> =
        (0..config.files).filter(|_| rng.below(100) < config.personality.existing_percent().into()).collect();
    exists.push(config.files);
    // Random order, as filebench populates a set.
    for at in (1..exists.len()).rev() {
        exists.swap(at, rng.below(at as u64 + 1) as usize);
    }
    let needed: u64 = exists.iter().map(|&file| set.get(file).wanted_bytes().div_ceil(BLOCK_BYTES)).sum();
    let free = layout.free_blocks();
    let full = |_: LayoutError| {
        let mib = |blocks: u64| blocks / ((1 << 20) / BLOCK_BYTES);
        format!(
            "{} files of {} KiB need about {} MiB; allowed: fewer or smaller files, or a drive with more room for them than {} MiB",
            config.files,
            config.file_bytes >> 10,
            mib(needed).max(mib(free) + 1),
            mib(free)
        )
    };
    if needed > free {
        return Err(full(LayoutError));
    }
    for &file in &exists {
        set.fill(file);
        let count = set.get(file).bytes().div_ceil(BLOCK_BYTES) as u32;
        layout.grow(file, count, &mut extents).map_err(full)?;
    }
    Ok(())
}
