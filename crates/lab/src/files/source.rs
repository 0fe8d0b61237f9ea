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

use super::layout::{Extent, Layout, LayoutError};
use super::page_cache::PageCache;
use super::personality::{Operation, Personality};
use super::report::{FilesReport, Meter};
use super::{BLOCK_BYTES, FilesConfig, Gamma};
use pellucid_flash::{Nanos, Rng, SimTime};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

/// Stands for metadata among files.
const METADATA: u32 = u32::MAX;

/// A request for the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// Comes back with [`Files::completed`].
    pub token: u32,
    /// What to do with these blocks.
    pub kind: RequestKind,
    /// Which; none of a flush.
    pub extent: Extent,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Reads blocks.
    Read,
    /// Writes blocks.
    Write,
    /// Makes what was written durable.
    Flush,
}

/// What the threads have to say when they are asked for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesNext {
    /// Submit this now.
    Now(BlockRequest),
    /// Nothing before this moment.
    At(SimTime),
    /// Nothing before a completion.
    Blocked,
    /// The time is over.
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

/// Which pages a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// They are in memory.
    Read,
    /// Nothing of them is on its way to the drive.
    Written,
    /// Nothing of them is on its way at all.
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
    /// Which operation of the loop.
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
    /// What a whole write makes of it.
    wanted_bytes: u64,
    exists: bool,
    busy: bool,
    /// It waits for its turn to be written back.
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
    free_rotor: u32,
    scratch: Vec<Extent>,
    meter: Meter,
    #[cfg(test)]
    pub(super) newest: BTreeMap<u32, u32>,
}

impl Files {
    /// A file set on a drive of so many bytes. The error is a sentence.
    pub fn new(config: &FilesConfig, capacity_bytes: u64) -> Result<Files, String> {
        let personality = config.personality;
        let blocks = u32::try_from(capacity_bytes / BLOCK_BYTES).unwrap_or(u32::MAX);
        let mut rng = Rng::stream(config.seed, "files");
        // The log of a webserver is one file more.
        let all = config.files + 1;
        let full = |_: LayoutError| {
            let mib = |bytes: u64| bytes >> 20;
            format!(
                "{} files of {} KiB need about {} MiB; allowed: fewer or smaller files, or more than {} MiB of drive",
                config.files,
                config.file_bytes >> 10,
                mib(u64::from(config.files) * config.file_bytes * 5 / 4) + 64,
                mib(capacity_bytes)
            )
        };
        let mut layout = Layout::new(blocks, all, personality.directory_width()).map_err(full)?;
        let gamma = Gamma::with_mean(config.file_bytes as f64, personality.shape());
        let mut files: Vec<FileState> = (0..all)
            .map(|_| FileState { wanted_bytes: gamma.draw(&mut rng).max(1.0) as u64, ..FileState::default() })
            .collect();
        let mut extents = Vec::new();
        let mut exists: Vec<u32> =
            (0..config.files).filter(|_| rng.below(100) < personality.existing_percent().into()).collect();
        exists.push(config.files);
        // Allocated in random order, as filebench populates a set.
        for at in (1..exists.len()).rev() {
            exists.swap(at, rng.below(at as u64 + 1) as usize);
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
            free_rotor: 0,
            scratch: Vec::new(),
            meter: Meter::new(),
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

    /// What the threads saw, of a measurement that ended at `end`.
    pub fn report(&self, end: SimTime) -> FilesReport {
        self.meter.report(&self.config, end.min(self.deadline()).since(self.measures_from()))
    }

    /// Operations that count so far.
    pub fn operations(&self) -> u64 {
        self.meter.operations()
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
            if now >= self.deadline() {
                return FilesNext::End;
            }
            if let Some(thread) = self.woken.pop_front() {
                self.work(thread);
                continue;
            }
            match self.due.peek().map(|Reverse((at, ..))| *at) {
                Some(at) if at > now => return FilesNext::At(at.min(self.deadline())),
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

    fn operation(&self, thread: u32) -> Operation {
        self.config.personality.operations()[self.threads[thread as usize].at]
    }

    fn pages_copied(&self, thread: u32, operation: Operation) -> u64 {
        let file =
            self.threads[thread as usize].file.map(|file| self.files[file as usize]).unwrap_or_default();
        match operation {
            Operation::ReadWhole => file.bytes.div_ceil(BLOCK_BYTES),
            Operation::WriteWhole => file.wanted_bytes.div_ceil(BLOCK_BYTES),
            Operation::Append | Operation::AppendLog => self.config.append_bytes / 2 / BLOCK_BYTES,
            _ => 0,
        }
    }

    /// An operation goes on as far as it can.
    fn work(&mut self, thread: u32) {
        if self.threads[thread as usize].step == Step::First && !self.prepare(thread) {
            return;
        }
        if !self.has_waited(thread) {
            return;
        }
        if self.operation(thread) == Operation::Fsync {
            return self.sync(thread);
        }
        self.effect(thread);
        self.end(thread);
    }

    /// The operation has ended; the thread goes on with its next.
    fn end(&mut self, thread: u32) {
        let operation = self.operation(thread);
        let (from, until) = (self.measures_from(), self.deadline());
        let count = self.config.personality.operations().len();
        let record = &mut self.threads[thread as usize];
        if record.began >= from && self.now <= until {
            self.meter.record(operation, self.now - record.began);
        }
        record.at = (record.at + 1) % count;
        self.schedule(self.now, Event::Begin(thread));
    }

    fn is_crowded(&self) -> bool {
        f64::from(self.cache.unwritten()) > self.config.host.dirty_share * f64::from(self.cache.capacity())
    }

    /// Chooses the file of an operation and asks for the blocks that it needs. False: not now.
    fn prepare(&mut self, thread: u32) -> bool {
        let operation = self.operation(thread);
        let writes = matches!(operation, Operation::WriteWhole | Operation::Append | Operation::AppendLog);
        if writes && self.is_crowded() {
            self.throttled.push(thread);
            self.write_back();
            return false;
        }
        if writes && self.waits_for_blocks(thread, operation) {
            return false;
        }
        let file = match operation {
            Operation::Create => self.pick(thread, false),
            Operation::Open | Operation::Delete | Operation::Stat => self.pick(thread, true),
            Operation::AppendLog => Some(self.config.files),
            _ => self.threads[thread as usize].file,
        };
        let Some(file) = file else {
            self.meter.refused += 1;
            self.end(thread);
            return false;
        };
        if matches!(operation, Operation::Create | Operation::Open | Operation::Delete) {
            self.files[file as usize].busy = true;
            self.threads[thread as usize].file = Some(file);
        }
        let mut blocks = std::mem::take(&mut self.threads[thread as usize].blocks);
        blocks.clear();
        let until = self.needs(operation, file, &mut blocks);
        let reading = until == Until::Read && operation == Operation::ReadWhole && self.is_measured();
        if reading {
            self.meter.read_pages += blocks.len() as u64;
            self.meter.hit_pages += blocks.iter().filter(|&&block| self.cache.has(block)).count() as u64;
        }
        if until == Until::Read {
            self.read_missing(&blocks);
        }
        let record = &mut self.threads[thread as usize];
        (record.blocks, record.looked, record.until, record.step) = (blocks, 0, until, Step::Ready);
        true
    }

    /// Whether a write finds no blocks while freed ones wait for their transaction: as ext4 it waits for that, too.
    fn waits_for_blocks(&mut self, thread: u32, operation: Operation) -> bool {
        let file = match operation {
            Operation::AppendLog => self.config.files,
            _ => self.threads[thread as usize].file.unwrap_or(self.config.files),
        };
        let bytes = match operation {
            Operation::WriteWhole => self.files[file as usize].wanted_bytes,
            _ => self.files[file as usize].bytes + self.config.append_bytes,
        };
        let wanted = bytes.div_ceil(BLOCK_BYTES);
        let more = wanted.saturating_sub(self.layout.blocks_of(file).into());
        if more <= self.layout.free_blocks() || self.layout.freed() == 0 {
            return false;
        }
        self.journal.waiting.push((thread, self.journal.number));
        self.start_commit();
        true
    }

    fn is_measured(&self) -> bool {
        self.now >= self.measures_from() && self.now < self.deadline()
    }

    /// Blocks that an operation needs before its effect, and how.
    fn needs(&self, operation: Operation, file: u32, blocks: &mut Vec<u32>) -> Until {
        let layout = &self.layout;
        let extents = layout.extents(file).iter();
        let own = extents.flat_map(|extent| extent.block..extent.block + extent.count);
        match operation {
            Operation::Open | Operation::Stat => {
                blocks.extend([layout.entry_block(file), layout.inode_block(file)]);
                Until::Read
            }
            Operation::Create => {
                blocks.extend([
                    layout.entry_block(file),
                    layout.inode_block(file),
                    layout.inode_bitmap(file),
                ]);
                Until::Read
            }
            Operation::ReadWhole => {
                blocks.extend(own);
                Until::Read
            }
            Operation::Append | Operation::AppendLog => {
                let partial = !self.files[file as usize].bytes.is_multiple_of(BLOCK_BYTES);
                blocks.extend(own.last().filter(|_| partial));
                Until::Read
            }
            Operation::Delete => {
                blocks.extend(own);
                Until::Still
            }
            Operation::Fsync => {
                blocks.extend(own);
                Until::Written
            }
            Operation::WriteWhole | Operation::Close => Until::Read,
        }
    }

    /// A file that exists, or does not, and that no thread has open.
    fn pick(&mut self, thread: u32, exists: bool) -> Option<u32> {
        let files = self.config.files;
        let from = match (self.config.host.rotation, exists) {
            (false, _) => self.rng.below(files.into()) as u32,
            (true, true) => self.threads[thread as usize].rotor,
            (true, false) => self.free_rotor,
        };
        let is_one = |&file: &u32| {
            let state = &self.files[file as usize];
            state.exists == exists && !state.busy
        };
        // A webserver's files are read only, by any number of threads.
        let shared = self.config.personality == Personality::Webserver;
        let found = (from..files).chain(0..from).find(|file| shared || is_one(file))?;
        let next = (found + 1) % files;
        match exists {
            true => self.threads[thread as usize].rotor = next,
            false => self.free_rotor = next,
        }
        Some(found)
    }

    /// Reads those of these blocks that are not in memory, contiguous ones together.
    fn read_missing(&mut self, blocks: &[u32]) {
        let most = (self.config.host.read_bytes / BLOCK_BYTES).max(1) as u32;
        let mut run = Extent { block: 0, count: 0 };
        for &block in blocks {
            if self.cache.has(block) {
                self.cache.touch(block);
                continue;
            }
            self.cache.begin_read(block);
            if run.count > 0 && block == run.block + run.count && run.count < most {
                run.count += 1;
                continue;
            }
            self.request(Purpose::Read, RequestKind::Read, run);
            run = Extent { block, count: 1 };
        }
        self.request(Purpose::Read, RequestKind::Read, run);
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

    /// Whether what a thread waits for has come; else it is woken.
    fn has_waited(&mut self, thread: u32) -> bool {
        let record = &mut self.threads[thread as usize];
        while let Some(&block) = record.blocks.get(record.looked) {
            let waits = match record.until {
                Until::Read => self.cache.is_reading(block),
                Until::Written => self.cache.is_writing(block),
                Until::Still => self.cache.is_reading(block) || self.cache.is_writing(block),
            };
            if waits {
                self.waiters.entry(block).or_default().push(thread);
                return false;
            }
            record.looked += 1;
        }
        true
    }

    /// A metadata block is changed by the running transaction.
    fn change(&mut self, block: u32) {
        self.journal.running.insert(block);
        self.write_page(block);
        self.metadata.insert(block);
        if !std::mem::replace(&mut self.metadata_listed, true) {
            self.order.push_back(METADATA);
        }
    }

    fn write_page(&mut self, block: u32) {
        self.version += 1;
        self.cache.write(block, self.version, self.now);
        #[cfg(test)]
        self.newest.insert(block, self.version);
    }

    /// What an operation does once its blocks are at hand.
    fn effect(&mut self, thread: u32) {
        let operation = self.operation(thread);
        let file = match operation {
            Operation::AppendLog => self.config.files,
            _ => self.threads[thread as usize].file.unwrap_or(0),
        };
        match operation {
            Operation::Create => {
                self.files[file as usize].exists = true;
                self.files[file as usize].bytes = 0;
                self.change(self.layout.inode_bitmap(file));
                self.change(self.layout.entry_block(file));
                self.change_inode(file);
            }
            Operation::WriteWhole => {
                let wanted = self.files[file as usize].wanted_bytes;
                self.extend(file, wanted);
                self.written(wanted);
            }
            Operation::Append | Operation::AppendLog => {
                let bytes = 1 + self.rng.below(self.config.append_bytes);
                let size = self.files[file as usize].bytes + bytes;
                self.extend(file, size);
                self.written(bytes);
                if operation == Operation::AppendLog && size > self.config.log_bytes {
                    // A log is rotated some time; what it held is dropped.
                    self.empty(file);
                }
            }
            Operation::ReadWhole if self.is_measured() => {
                self.meter.read_bytes += self.files[file as usize].bytes;
            }
            Operation::Delete => {
                self.empty(file);
                self.files[file as usize].exists = false;
                self.change(self.layout.inode_bitmap(file));
                self.change(self.layout.entry_block(file));
                self.close(thread);
            }
            Operation::Close => self.close(thread),
            Operation::ReadWhole | Operation::Open | Operation::Stat | Operation::Fsync => {}
        }
        self.write_back();
    }

    fn written(&mut self, bytes: u64) {
        if self.is_measured() {
            self.meter.written_bytes += bytes;
        }
    }

    fn close(&mut self, thread: u32) {
        if let Some(file) = self.threads[thread as usize].file.take() {
            self.files[file as usize].busy = false;
        }
    }

    fn change_inode(&mut self, file: u32) {
        self.files[file as usize].transaction = self.journal.number;
        self.change(self.layout.inode_block(file));
    }

    /// A file comes to have `bytes` bytes: its last page and all new ones are written.
    fn extend(&mut self, file: u32, bytes: u64) {
        let before = self.files[file as usize].bytes;
        let (have, want) = (self.layout.blocks_of(file), bytes.div_ceil(BLOCK_BYTES) as u32);
        let last = self.layout.extents(file).last().map(|extent| extent.block + extent.count - 1);
        let mut new = std::mem::take(&mut self.scratch);
        if self.layout.grow(file, want.saturating_sub(have), &mut new).is_err() {
            self.meter.refused += 1;
            self.scratch = new;
            return;
        }
        if !std::mem::replace(&mut self.files[file as usize].listed, true) {
            self.order.push_back(file);
        }
        if let Some(last) = last.filter(|_| !before.is_multiple_of(BLOCK_BYTES)) {
            self.write_page(last);
        }
        for extent in &new {
            for block in extent.block..extent.block + extent.count {
                self.write_page(block);
            }
            self.change(self.layout.block_bitmap(extent.block));
        }
        self.scratch = new;
        self.files[file as usize].bytes = bytes;
        self.change_inode(file);
    }

    /// A file loses its blocks. None of them is under way.
    fn empty(&mut self, file: u32) {
        let mut freed = std::mem::take(&mut self.scratch);
        // The last pages of a log may be on their way: they stay with it.
        let blocks = self.layout.extents(file).iter().flat_map(|e| e.block..e.block + e.count);
        let moving = |block: u32| self.cache.is_reading(block) || self.cache.is_writing(block);
        if blocks.into_iter().any(moving) {
            self.scratch = freed;
            return;
        }
        self.layout.free(file, &mut freed);
        for extent in &freed {
            for block in extent.block..extent.block + extent.count {
                self.cache.forget(block);
                #[cfg(test)]
                self.newest.remove(&block);
            }
            self.change(self.layout.block_bitmap(extent.block));
        }
        self.scratch = freed;
        self.files[file as usize].bytes = 0;
        self.change_inode(file);
    }

    /// Writes dirty pages while too much memory is dirty, and those that are old.
    fn write_back(&mut self) {
        let background = self.config.host.background_share * f64::from(self.cache.capacity());
        let mut looks = self.order.len();
        while self.writes < self.config.host.requests {
            while self.aged.front().is_some_and(|&block| !self.may_write(block)) {
                self.aged.pop_front();
            }
            let run = match self.aged.pop_front() {
                Some(block) => Some(Extent { block, count: u32::MAX }),
                None if f64::from(self.cache.unwritten()) > background => {
                    let Some(&owner) = self.order.front() else { return };
                    self.dirty_run(owner)
                }
                None => return,
            };
            match run {
                Some(run) => self.write_run(run),
                None if looks == 0 => return,
                None => {
                    looks -= 1;
                    self.pass_on();
                }
            }
        }
    }

    /// The first block of a file, or of metadata, that can be written, and those of it behind that.
    fn dirty_run(&self, owner: u32) -> Option<Extent> {
        if owner == METADATA {
            let block = *self.metadata.iter().find(|&&block| self.may_write(block))?;
            return Some(Extent { block, count: u32::MAX });
        }
        self.layout.extents(owner).iter().find_map(|extent| {
            let end = extent.block + extent.count;
            let block = (extent.block..end).find(|&block| self.may_write(block))?;
            Some(Extent { block, count: end - block })
        })
    }

    /// Nothing of the first in the order can be written now: it leaves, or waits behind the others for pages that are on their way.
    fn pass_on(&mut self) {
        let Some(owner) = self.order.pop_front() else { return };
        let is_dirty = |extent: &Extent| {
            (extent.block..extent.block + extent.count).any(|block| self.cache.is_dirty(block))
        };
        let waits = match owner {
            METADATA => !self.metadata.is_empty(),
            file => self.layout.extents(file).iter().any(is_dirty),
        };
        match owner {
            _ if waits => self.order.push_back(owner),
            METADATA => self.metadata_listed = false,
            file => self.files[file as usize].listed = false,
        }
    }

    fn may_write(&self, block: u32) -> bool {
        self.cache.is_dirty(block) && !self.cache.is_writing(block) && !self.cache.is_reading(block)
    }

    /// Writes the first page of `run` and the dirty ones of it behind that without a gap.
    fn write_run(&mut self, run: Extent) {
        let first = run.block;
        let most = run.count.min((self.config.host.write_bytes / BLOCK_BYTES).max(1) as u32);
        let mut count = 0;
        while count < most && self.cache.has(first + count) && self.may_write(first + count) {
            self.cache.begin_write(first + count);
            self.metadata.remove(&(first + count));
            count += 1;
        }
        self.writes += 1;
        self.request(Purpose::Page, RequestKind::Write, Extent { block: first, count });
    }

    /// Fsync: no page of the file is on its way. Writes those that are dirty and waits again; then the journal commits.
    fn sync(&mut self, thread: u32) {
        let Some(file) = self.threads[thread as usize].file else { return self.end(thread) };
        if self.threads[thread as usize].step == Step::Committing {
            return self.end(thread);
        }
        let mut blocks = std::mem::take(&mut self.threads[thread as usize].blocks);
        let mut dirty = false;
        for (at, &block) in blocks.iter().enumerate() {
            if self.may_write(block) {
                let follows = |(&next, step): (&u32, u32)| next == block + step;
                let count = blocks[at..].iter().zip(0..).take_while(|&pair| follows(pair)).count() as u32;
                self.write_run(Extent { block, count });
                dirty = true;
            }
        }
        blocks.clear();
        if dirty {
            self.needs(Operation::Fsync, file, &mut blocks);
        }
        let record = &mut self.threads[thread as usize];
        (record.blocks, record.looked) = (blocks, 0);
        if dirty {
            // Woken by the writes.
            self.has_waited(thread);
            return;
        }
        record.step = Step::Committing;
        let transaction = self.files[file as usize].transaction;
        if transaction <= self.journal.done {
            return self.end(thread);
        }
        self.journal.waiting.push((thread, transaction));
        if self.journal.state == Commit::Idle {
            self.start_commit();
        }
    }

    /// The running transaction goes to the journal, if there is one and none is on its way.
    fn start_commit(&mut self) {
        if self.journal.state != Commit::Idle || self.journal.running.is_empty() {
            return;
        }
        // A descriptor in front of the blocks.
        let left = self.journal.running.len() as u32 + 1;
        self.journal.running.clear();
        self.journal.freed = self.layout.freed();
        self.journal.number += 1;
        self.journal.state = Commit::Blocks;
        self.write_journal(left);
    }

    fn write_journal(&mut self, mut left: u32) {
        let most = (self.config.host.write_bytes / BLOCK_BYTES).max(1) as u32;
        while left > 0 {
            let Extent { block, count } = self.journal.extent;
            let here = left.min(most).min(count - self.journal.head);
            let extent = Extent { block: block + self.journal.head, count: here };
            self.journal.head = (self.journal.head + here) % count;
            self.journal.outstanding += 1;
            self.request(Purpose::Journal, RequestKind::Write, extent);
            left -= here;
        }
    }

    fn journal_ended(&mut self) {
        self.journal.outstanding -= 1;
        if self.journal.outstanding > 0 {
            return;
        }
        match self.journal.state {
            Commit::Blocks | Commit::Mark => {
                let next = if self.journal.state == Commit::Blocks { Commit::Before } else { Commit::Behind };
                self.journal.state = next;
                self.journal.outstanding = 1;
                self.request(Purpose::Journal, RequestKind::Flush, Extent { block: 0, count: 0 });
            }
            Commit::Before => {
                self.journal.state = Commit::Mark;
                self.write_journal(1);
            }
            Commit::Behind => {
                self.journal.state = Commit::Idle;
                self.journal.done = self.journal.number - 1;
                self.layout.reuse(std::mem::take(&mut self.journal.freed));
                self.meter.commits += u64::from(self.is_measured());
                let done = self.journal.done;
                let woken = &mut self.woken;
                self.journal.waiting.retain(|&(thread, transaction)| {
                    if transaction <= done {
                        woken.push_back(thread);
                    }
                    transaction > done
                });
                if !self.journal.waiting.is_empty() {
                    self.start_commit();
                }
            }
            Commit::Idle => unreachable!("a request of no commit"),
        }
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
