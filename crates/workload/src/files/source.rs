//! The threads at work, in virtual time: from operations to block requests.
//!
//! ```text
//!  next(now) ─► due threads ─► operation ─► pages present? ─ no ─► read request ─► wait
//!                                 │ yes
//!                                 ├─ dirty pages ─► write-back: above a share of memory, or by age ─► write request
//!                                 └─ fsync ─► pages of the file ─► journal ─► flush ─► commit block ─► flush
//!  completed(token) ─► pages ─► threads that waited
//! ```
//! Order at one moment: completions, then threads in the order in which they became due. A block has one request under way at a time, so
//! a drive that reorders cannot make it old.

mod journal;
mod operate;
mod write_back;

use super::layout::{Extent, Layout, LayoutError};
use super::page_cache::PageCache;
use super::report::Meter;
use super::{BLOCK_BYTES, FilesConfig};
use pellucid_flash::{Nanos, Rng, SimTime};
use pellucid_report::FilesReport;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

/// Stands for metadata among files.
const METADATA: u32 = u32::MAX;

/// A request for the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// Comes back with [`Files::completed`].
    pub token: u32,
    /// Kind of access to these blocks.
    pub kind: RequestKind,
    /// Blocks; none for a flush.
    pub extent: Extent,
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Reads blocks.
    Read,
    /// Writes blocks.
    Write,
    /// Makes what was written durable.
    Flush,
}

/// Answer of the threads when they are asked for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesNext {
    /// Submit this now.
    Now(BlockRequest),
    /// No request before this moment.
    At(SimTime),
    /// No request before a completion.
    Blocked,
    /// The time is over, or there were as many operations as [`Files::pause_at`] says.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A thread begins its next operation.
    Begin(u32),
    /// Its processor time is over.
    Execute(u32),
    /// The processor has built this request.
    Submit(u32),
    /// The flusher looks at the age of dirty pages.
    Age,
    /// The journal commits.
    Commit,
}

/// Condition of pages that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// The pages are in memory.
    Read,
    /// No page is on its way to the drive.
    Written,
    /// No page is on its way at all.
    Still,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Before its first effect.
    First,
    /// Its pages are at hand.
    Ready,
    /// Its commit is awaited.
    Committing,
}

#[derive(Clone, Debug)]
struct Thread {
    /// Number of the operation in the loop.
    at: usize,
    began: SimTime,
    step: Step,
    file: Option<u32>,
    rotor: u32,
    /// Blocks that it waits for, from `looked` on.
    blocks: Vec<u32>,
    looked: usize,
    until: Until,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Read,
    Page,
    Journal,
}

/// How far a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commit {
    Idle,
    /// Metadata go to the journal.
    Blocks,
    /// The flush before the commit block.
    Before,
    /// The commit block.
    Mark,
    /// The flush behind it.
    Behind,
}

#[derive(Clone, Debug)]
struct Journal {
    extent: Extent,
    head: u32,
    /// Metadata blocks of the running transaction, and its number.
    running: BTreeSet<u32>,
    number: u64,
    /// Transactions that are durable.
    done: u64,
    state: Commit,
    outstanding: u32,
    waiting: Vec<(u32, u64)>,
    /// Extents that transactions have freed up to the one that is being written.
    freed: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct FileState {
    bytes: u64,
    /// Size that a whole write gives it.
    wanted_bytes: u64,
    exists: bool,
    busy: bool,
    /// True if the file waits for its turn to be written back.
    listed: bool,
    /// The transaction that changed it last.
    transaction: u64,
}

/// A file set and its threads at work.
#[derive(Clone, Debug)]
pub struct Files {
    config: FilesConfig,
    layout: Layout,
    cache: PageCache,
    files: Vec<FileState>,
    threads: Vec<Thread>,
    journal: Journal,
    rng: Rng,
    now: SimTime,
    start: Option<SimTime>,
    due: BinaryHeap<Reverse<(SimTime, u64, Event)>>,
    made: u64,
    cores: Vec<SimTime>,
    woken: VecDeque<u32>,
    /// By block: threads that look again when its request ends.
    waiters: BTreeMap<u32, Vec<u32>>,
    throttled: Vec<u32>,
    ready: VecDeque<BlockRequest>,
    pending: Vec<(Purpose, RequestKind, Extent)>,
    idle_tokens: Vec<u32>,
    /// Write-back: pages to be written for their age; files in the order in which they became dirty, [`METADATA`] among them; its blocks.
    aged: VecDeque<u32>,
    order: VecDeque<u32>,
    metadata: BTreeSet<u32>,
    metadata_listed: bool,
    writes: u32,
    version: u32,
    /// Where the rotation that threads share stands, of files that exist and of those that do not.
    rotor: u32,
    free_rotor: u32,
    scratch: Vec<Extent>,
    meter: Meter,
    /// Operations after which there are no more for now.
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
        // The log of a webserver is one file more.
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
        let mut files: Vec<FileState> = (0..all)
            .map(|_| FileState { wanted_bytes: sizes.draw(&mut rng), ..FileState::default() })
            .collect();
        let mut extents = Vec::new();
        let mut exists: Vec<u32> =
            (0..config.files).filter(|_| rng.below(100) < personality.existing_percent().into()).collect();
        exists.push(config.files);
        // Allocated in random order, as filebench populates a set.
        for at in (1..exists.len()).rev() {
            exists.swap(at, rng.below(at as u64 + 1) as usize);
        }
        let needed: u64 =
            exists.iter().map(|&file| files[file as usize].wanted_bytes.div_ceil(BLOCK_BYTES)).sum();
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
            let state = &mut files[file as usize];
            (state.exists, state.bytes) = (true, state.wanted_bytes);
            let count = state.bytes.div_ceil(BLOCK_BYTES) as u32;
            layout.grow(file, count, &mut extents).map_err(full)?;
        }
        files[config.files as usize].busy = true;
        let thread = |rng: &mut Rng| Thread {
            at: 0,
            began: SimTime::ZERO,
            step: Step::First,
            file: None,
            rotor: rng.below(config.files.into()) as u32,
            blocks: Vec::new(),
            looked: 0,
            until: Until::Read,
        };
        let threads = (0..config.threads).map(|_| thread(&mut rng)).collect();
        let pages = (config.page_cache_bytes / BLOCK_BYTES).clamp(64, 1 << 30) as u32;
        let extent = layout.journal();
        Ok(Files {
            cache: PageCache::new(pages, blocks),
            journal: Journal {
                extent,
                head: 0,
                running: BTreeSet::new(),
                number: 1,
                done: 0,
                state: Commit::Idle,
                outstanding: 0,
                waiting: Vec::new(),
                freed: 0,
            },
            layout,
            files,
            threads,
            rng,
            now: SimTime::ZERO,
            start: None,
            due: BinaryHeap::new(),
            made: 0,
            cores: vec![SimTime::ZERO; config.host.cores.max(1) as usize],
            woken: VecDeque::new(),
            waiters: BTreeMap::new(),
            throttled: Vec::new(),
            ready: VecDeque::new(),
            pending: Vec::new(),
            idle_tokens: Vec::new(),
            aged: VecDeque::new(),
            order: VecDeque::new(),
            metadata: BTreeSet::new(),
            metadata_listed: false,
            writes: 0,
            version: 0,
            rotor: 0,
            free_rotor: 0,
            scratch: Vec::new(),
            meter: Meter::new(),
            pause_at: u64::MAX,
            #[cfg(test)]
            newest: BTreeMap::new(),
            config: config.clone(),
        })
    }

    /// Its description.
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

    /// From this moment on operations count; [`SimTime::MAX`] before the first request.
    pub fn measures_from(&self) -> SimTime {
        self.start.map_or(SimTime::MAX, |start| start + self.config.ramp)
    }

    /// No operation begins from this moment on.
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

    /// Lets operations count from now on.
    pub fn begin(&mut self) {
        self.meter = Meter::new();
    }

    /// The figures of its threads.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Operations that count so far, those that were left out among them.
    pub fn operations(&self) -> u64 {
        self.meter.operations() + self.meter.refused
    }

    /// No operation ends once this many count, until more are allowed. What happens then is as if there had been no pause.
    pub fn pause_at(&mut self, operations: u64) {
        self.pause_at = operations;
    }

    /// The next request at `now`.
    pub fn next(&mut self, now: SimTime) -> FilesNext {
        self.now = self.now.max(now);
        if self.start.is_none() {
            self.start = Some(now);
            for thread in 0..self.threads.len() as u32 {
                self.schedule(now, Event::Begin(thread));
            }
            self.schedule(now + self.config.host.wakeup, Event::Age);
            self.schedule(now + self.config.host.commit, Event::Commit);
        }
        loop {
            if let Some(request) = self.ready.pop_front() {
                return FilesNext::Now(request);
            }
            if now >= self.deadline() || self.operations() >= self.pause_at {
                return FilesNext::End;
            }
            if let Some(thread) = self.woken.pop_front() {
                self.work(thread);
                continue;
            }
            match self.due.peek().map(|Reverse((at, ..))| *at) {
                // Only requests under way may lead to others until then.
                Some(at) if at > now && at >= self.deadline() => {
                    let under_way = self.pending.len() > self.idle_tokens.len();
                    return if under_way { FilesNext::Blocked } else { FilesNext::End };
                }
                Some(at) if at > now => return FilesNext::At(at),
                Some(_) => {
                    if let Some(Reverse((_, _, event))) = self.due.pop() {
                        self.run(event);
                    }
                }
                None => return FilesNext::Blocked,
            }
        }
    }

    /// A request has ended.
    pub fn completed(&mut self, token: u32, now: SimTime) {
        self.now = self.now.max(now);
        self.idle_tokens.push(token);
        let (purpose, kind, extent) = self.pending[token as usize];
        if purpose == Purpose::Journal {
            return self.journal_ended();
        }
        for block in extent.block..extent.block + extent.count {
            match kind {
                RequestKind::Read => self.cache.end_read(block),
                _ => self.cache.end_write(block),
            }
            if let Some(threads) = self.waiters.remove(&block) {
                self.woken.extend(threads);
            }
        }
        if kind == RequestKind::Write {
            self.writes -= 1;
            self.write_back();
            if !self.is_crowded() {
                self.woken.extend(self.throttled.drain(..));
            }
        }
    }

    fn schedule(&mut self, at: SimTime, event: Event) {
        self.made += 1;
        self.due.push(Reverse((at, self.made, event)));
    }

    fn run(&mut self, event: Event) {
        match event {
            Event::Begin(thread) => {
                let operation = self.operation(thread);
                let host = self.config.host;
                let pages = self.pages_copied(thread, operation);
                let time = Nanos(host.operation.0 + host.page.0 * pages);
                let executes = self.computes(time);
                let record = &mut self.threads[thread as usize];
                (record.began, record.step) = (self.now, Step::First);
                self.schedule(executes, Event::Execute(thread));
            }
            Event::Execute(thread) => self.work(thread),
            Event::Submit(token) => {
                let (_, kind, extent) = self.pending[token as usize];
                self.ready.push_back(BlockRequest { token, kind, extent });
            }
            Event::Age => {
                let before = SimTime(self.now.0.saturating_sub(self.config.host.expire.0));
                if self.now.0 > self.config.host.expire.0 && self.aged.is_empty() {
                    let cache = &self.cache;
                    let old = |block: &&u32| cache.dirtied(**block).is_some_and(|at| at <= before);
                    self.aged = cache.dirty().iter().filter(old).copied().collect();
                }
                self.write_back();
                self.schedule(self.now + self.config.host.wakeup, Event::Age);
            }
            Event::Commit => {
                self.start_commit();
                self.schedule(self.now + self.config.host.commit, Event::Commit);
            }
        }
    }

    fn request(&mut self, purpose: Purpose, kind: RequestKind, extent: Extent) {
        if extent.count == 0 && kind != RequestKind::Flush {
            return;
        }
        let token = self.idle_tokens.pop().unwrap_or_else(|| {
            self.pending.push((purpose, kind, extent));
            self.pending.len() as u32 - 1
        });
        self.pending[token as usize] = (purpose, kind, extent);
        let host = &self.config.host;
        let kib = u64::from(extent.count) * (BLOCK_BYTES >> 10);
        let time = Nanos(host.request.0 + host.request_kib.0 * kib);
        if time == Nanos::ZERO {
            self.ready.push_back(BlockRequest { token, kind, extent });
        } else {
            let submits = self.computes(time);
            self.schedule(submits, Event::Submit(token));
        }
    }

    /// A core is busy for so long; until when.
    fn computes(&mut self, time: Nanos) -> SimTime {
        let core = self.cores.iter_mut().min().expect("there is a core");
        *core = self.now.max(*core) + time;
        *core
    }

    /// Walks the invariants of file system and page cache.
    ///
    /// # Panics
    /// Where one is broken.
    pub fn check(&self) {
        self.layout.check();
        self.cache.check();
    }
}
