//! Sources of requests: jobs, a trace, threads that work on files, or jobs beside applications.

use super::flow::{Flows, Member};
use super::namespaces::BlockNamespace;
use super::places::{Place, Places};
use super::raw::{Draw, RawRequest, RawSpace, RawSpaces, RawWorker};
use super::tenants::Tenants;
use pellucid_flash::{Interface, Lba, Nanos, Opcode, SimTime};
use pellucid_report::FilesReport;
use pellucid_workload::files::{BLOCK_BYTES, BlockRequest, Files, FilesConfig, FilesNext, RequestKind};
use pellucid_workload::trace::{Shaped, TraceError};
use pellucid_workload::{BlockSize, Generator, Handles, Io, IoLimit, Job, JobError, Rate};

/// A request to submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Operation.
    pub opcode: Opcode,
    /// Namespace.
    pub namespace: BlockNamespace,
    /// First sector.
    pub lba: Lba,
    /// Number of sectors.
    pub sectors: u32,
    /// Force unit access.
    pub fua: bool,
    /// Submission queue.
    pub queue: u16,
    /// Placement handle of a write.
    pub handle: u16,
    /// Job or stream of the request, returned with its completion.
    pub owner: u32,
}

/// Answer of a source that is asked for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Submit this now.
    Now(Request),
    /// Submit this command for chunks or zones now.
    Raw(Box<RawRequest>),
    /// No request before this time.
    At(SimTime),
    /// No request before a completion.
    Blocked,
    /// No further request.
    End,
    /// Endless requests: only `runtime` ends this job, and [`STANDSTILL_REQUESTS`] of them took no time.
    Endless(u32),
}

/// Number of a job's requests at one time from which the clock is taken to stand still: more than any data buffer accepts before it has to wait for
/// the media.
pub const STANDSTILL_REQUESTS: u64 = 1 << 21;

/// A job at work.
struct Worker {
    job: Job,
    namespace: BlockNamespace,
    generator: Generator,
    handles: Handles,
    started: bool,
    ended: bool,
    final_flush_sent: bool,
    in_flight: u32,
    /// Drawn ahead, for a job whose requests have no release times, so that the drive can be told what follows.
    ahead: Option<Io>,
    draws_ahead: bool,
    /// True if only `runtime` ends the job.
    only_timed: bool,
    /// Statistics count requests submitted from this time on; [`SimTime::MAX`] before the job starts.
    counts_from: SimTime,
    /// Index of its result.
    result: u32,
    /// Time of its last submissions, and their number.
    at_once: (SimTime, u64),
    /// Progress of a job on chunks or zones.
    raw: Option<Box<RawWorker>>,
    /// Membership in a group of `flow`, while it runs.
    flow: Option<Member>,
}

/// A job as written: its clones share one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName {
    /// Name of the job.
    pub name: String,
    /// Number of its group; a job with `stonewall` or `new_group` begins another one.
    pub group: u32,
    /// Number of clones.
    pub instances: u32,
    /// Namespace that they work on.
    pub namespace: u16,
}

/// The part of a raw job for its generator: sizes, times and numbers of its I/Os. The raw worker finds places, and ends the job when there are none.
fn timed(job: &Job, interface: &Interface, sector_bytes: u32) -> Job {
    let extent_sectors = match interface {
        Interface::OpenChannel(chunks) => u64::from(chunks.chunk_sectors),
        Interface::Zoned(zones) => zones.capacity_sectors,
        other => unreachable!("a raw job on a namespace of {}", other.name()),
    };
    let mut job = job.clone();
    if job.limit == IoLimit::Region {
        job.limit = IoLimit::None;
    }
    // A chunk or zone is reset as a whole.
    job.block[2] = BlockSize::Fixed(extent_sectors * u64::from(sector_bytes));
    job
}

/// Effect of a request's end on the statistics of its job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// Statistics count requests submitted from this time on.
    pub counts_from: SimTime,
    /// Index among the [results](Jobs::results).
    pub result: u32,
    /// True if the job works on chunks or zones.
    pub is_raw: bool,
}

/// Several jobs side by side; a job with `stonewall` starts when all before it have ended, one with `wait_for` when the job of that name has.
pub struct Jobs {
    workers: Vec<Worker>,
    turn: usize,
    /// One per job as written, clones together.
    results: Vec<JobName>,
    /// The earliest time from which the submissions of a started job count.
    measures_from: SimTime,
    /// True if no job may submit before a completion.
    full: bool,
    /// Chunks and zones that jobs address.
    spaces: RawSpaces,
    flows: Flows,
}

impl Jobs {
    /// Checks that a job suits a drive with these places.
    pub fn check(job: &Job, places: &Places, sector_bytes: u32) -> Result<(), JobError> {
        match places.place(job)? {
            Place::Block(namespace) => {
                Generator::new(job, namespace.sectors * u64::from(sector_bytes), sector_bytes)?;
                Handles::new(job, namespace.handles).map(drop)
            }
            Place::Raw(number) => {
                let interface = places.raw.iter().find(|(own, _)| *own == number).map(|(_, shape)| *shape);
                let interface = interface.expect("a place of a job is one of the drive");
                let raw = job.raw.as_ref().expect("only a raw job is on chunks or zones");
                let space = RawSpace::new(number, interface, &[]);
                RawWorker::new(job, raw, 0, &space)?;
                let capacity = interface.capacity_sectors() * u64::from(sector_bytes);
                Generator::new(&timed(job, &interface, sector_bytes), capacity, sector_bytes).map(drop)
            }
        }
    }

    /// Makes jobs on a drive with these places; `spaces`: the state of the chunks and zones that they address.
    pub fn new(
        jobs: &[Job],
        places: &Places,
        mut spaces: RawSpaces,
        sector_bytes: u32,
    ) -> Result<Jobs, JobError> {
        let mut results: Vec<JobName> = Vec::new();
        let mut workers = Vec::with_capacity(jobs.len());
        for job in jobs {
            let worker = Worker::new(job, places, &mut spaces, sector_bytes)?;
            name_result(&mut results, jobs, job, worker.namespace.number);
            workers.push(Worker { result: results.len() as u32 - 1, ..worker });
        }
        check_open(&workers, &spaces)?;
        let (measures_from, flows) = (SimTime::MAX, Flows::default());
        Ok(Jobs { workers, turn: 0, results, measures_from, full: false, spaces, flows })
    }

    fn may_start(&self, at: usize) -> bool {
        let job = &self.workers[at].job;
        let before = !job.stonewall || self.workers[..at].iter().all(|w| w.ended && w.in_flight == 0);
        let awaited = job.wait_for.as_ref().is_none_or(|name| {
            self.workers.iter().filter(|w| w.job.name == *name).all(|w| w.ended && w.in_flight == 0)
        });
        before && awaited
    }

    /// Returns the next request at `now`, jobs taking turns.
    #[inline]
    pub fn next(&mut self, now: SimTime) -> Next {
        if self.full { Next::Blocked } else { self.ask_all(now) }
    }

    fn ask_all(&mut self, now: SimTime) -> Next {
        let count = self.workers.len();
        let mut soonest: Option<SimTime> = None;
        let mut blocked = false;
        let mut left = count;
        while left > 0 {
            let at = self.turn;
            self.turn = if at + 1 == count { 0 } else { at + 1 };
            left -= 1;
            let before = self.workers[at].ended;
            match self.next_of(at, now) {
                Next::Now(request) => {
                    // A single job that need not be asked again.
                    let Worker { in_flight, job, .. } = &self.workers[at];
                    self.full = count == 1 && *in_flight >= job.iodepth;
                    return Next::Now(request);
                }
                Next::Raw(request) => return Next::Raw(request),
                Next::At(time) => soonest = Some(soonest.map_or(time, |s| s.min(time))),
                Next::Blocked => blocked = true,
                Next::Endless(job) => return Next::Endless(job),
                // Jobs asked earlier may have waited for it.
                Next::End if !before => {
                    self.leave(at);
                    (soonest, blocked, left) = (None, false, count);
                }
                Next::End => {}
            }
        }
        match soonest {
            // The remaining waits are no requests, so they are not measured.
            Some(_) if self.workers.iter().all(Worker::is_over) => Next::Blocked,
            Some(time) => Next::At(time),
            None if blocked => {
                let full = |w: &Worker| w.started && !w.ended && w.in_flight >= w.job.iodepth;
                self.full = self.workers.iter().all(full);
                Next::Blocked
            }
            None => Next::End,
        }
    }

    #[inline]
    fn next_of(&mut self, at: usize, now: SimTime) -> Next {
        if !self.workers[at].started {
            if !self.may_start(at) {
                return Next::Blocked;
            }
            let worker = &mut self.workers[at];
            worker.started = true;
            worker.generator.start(now);
            worker.flow = worker.job.flow.map(|flow| self.flows.join(flow));
            if let Some(raw) = &mut worker.raw {
                raw.start(self.spaces.get(raw.space));
            }
            let Job { start_delay, ramp_time, .. } = worker.job;
            let begins = now.0.saturating_add(start_delay.0);
            worker.counts_from = SimTime(begins.saturating_add(ramp_time.0));
            let from = if ramp_time == Nanos::ZERO { now } else { worker.counts_from };
            self.measures_from = self.measures_from.min(from);
        }
        let worker = &mut self.workers[at];
        if worker.ended {
            return Next::End;
        }
        if worker.in_flight >= worker.job.iodepth {
            return Next::Blocked;
        }
        if now >= worker.generator.deadline() {
            return worker.end(at);
        }
        let release = worker.generator.earliest();
        if release > now {
            return Next::At(release.min(worker.generator.deadline()));
        }
        if worker.only_timed && worker.stands_still(now) {
            return Next::Endless(at as u32);
        }
        if worker.flow.is_some_and(|member| self.flows.is_ahead(&member)) {
            return Next::Blocked;
        }
        if worker.raw.is_some() {
            return self.next_raw(at);
        }
        match worker.draw() {
            Some(io) => {
                worker.in_flight += 1;
                if let Some(member) = &mut worker.flow {
                    self.flows.count(member);
                }
                Next::Now(Request {
                    opcode: io.op,
                    namespace: worker.namespace,
                    lba: io.lba,
                    sectors: io.sectors,
                    fua: worker.job.fua && io.op == Opcode::Write,
                    queue: worker.job.queue,
                    handle: if io.op == Opcode::Write { worker.handles.choose_next() } else { 0 },
                    owner: at as u32,
                })
            }
            None => {
                // The generator has sent its last flush itself.
                worker.final_flush_sent = true;
                worker.end(at)
            }
        }
    }

    /// Returns the next command of a job on chunks or zones.
    fn next_raw(&mut self, at: usize) -> Next {
        let worker = &mut self.workers[at];
        let raw = worker.raw.as_mut().expect("the caller has looked");
        let Some(io) = worker.ahead.take().or_else(|| worker.generator.next()) else {
            return worker.end(at);
        };
        let mut request = match raw.draw(io.sectors, self.spaces.get_mut(raw.space)) {
            Draw::Io(request) => {
                if let Some(member) = &mut worker.flow {
                    self.flows.count(member);
                }
                request
            }
            Draw::Before(request) => {
                worker.ahead = Some(io);
                request
            }
            Draw::Blocked => {
                worker.ahead = Some(io);
                return Next::Blocked;
            }
            Draw::End => return worker.end(at),
        };
        worker.in_flight += 1;
        (request.owner, request.queue) = (at as u32, worker.job.queue);
        Next::Raw(request)
    }

    /// Ends a job.
    #[cold]
    fn leave(&mut self, at: usize) {
        let worker = &mut self.workers[at];
        if let Some(member) = worker.flow.take() {
            self.flows.leave(member);
        }
        if let Some(raw) = &mut worker.raw {
            let space = self.spaces.get_mut(raw.space);
            raw.end(space);
            if raw.writes() {
                space.remove_writer();
            }
        }
    }

    /// Notes that a command on chunks or zones was submitted under this tag.
    pub fn submitted_raw(&mut self, tag: usize, request: &mut RawRequest) {
        let raw = self.workers[request.owner as usize].raw.as_ref();
        let space = raw.expect("a raw request is of a raw job").space;
        self.spaces.submitted(tag, space, request);
    }

    /// Handles the end of such a command.
    pub fn completed_raw(&mut self, owner: u32, tag: usize, now: SimTime, ok: bool) {
        let makes_room = self.spaces.ended(tag, ok);
        self.full = false;
        let worker = &mut self.workers[owner as usize];
        worker.in_flight -= 1;
        if !makes_room {
            worker.generator.completed(now);
        }
    }

    /// Returns a job on chunks or zones that ended without a command, and the reason; `None`: each submitted one.
    pub fn idle_raw(&self) -> Option<(String, String)> {
        let idle =
            |worker: &&Worker| worker.ended && worker.raw.as_ref().is_some_and(|raw| raw.commands == 0);
        let worker = self.workers.iter().find(idle)?;
        let raw = worker.raw.as_ref()?;
        Some((
            self.results[worker.result as usize].name.clone(),
            raw.found_nothing(self.spaces.get(raw.space)),
        ))
    }

    /// Returns a sentence about each job on chunks or zones that ended before its number or its time was over.
    pub fn ended_early(&self) -> Vec<String> {
        let one = |worker: &Worker| {
            let why = worker.raw.as_ref()?.ended_early(worker.job.number_ios)?;
            Some(format!("job {} {why}", self.results[worker.result as usize].name))
        };
        let mut all: Vec<String> = self.workers.iter().filter_map(one).collect();
        // Clones may say the same.
        all.dedup();
        all
    }

    /// Returns a job that has not begun.
    pub fn waiting(&self) -> Option<usize> {
        self.workers.iter().position(|worker| !worker.started)
    }

    /// Returns the address of the next request of job `owner`, if already drawn.
    #[inline]
    pub fn ahead(&self, owner: u32) -> Option<Lba> {
        self.workers[owner as usize].ahead.map(|io| io.lba)
    }

    /// Handles the completion of a request of job `owner`. One on chunks or zones also goes to [`Jobs::completed_raw`].
    #[inline]
    pub(super) fn completed(&mut self, owner: u32, now: SimTime) -> Ended {
        let worker = &mut self.workers[owner as usize];
        let is_raw = worker.raw.is_some();
        if !is_raw {
            self.full = false;
            worker.in_flight -= 1;
            worker.generator.completed(now);
        }
        Ended { counts_from: worker.counts_from, result: worker.result, is_raw }
    }

    /// Returns the jobs as written.
    pub fn results(&self) -> &[JobName] {
        &self.results
    }

    /// Returns when the statistics of a result begin: with the first of its clones to start. `None`: none has started.
    pub fn began(&self, result: u32) -> Option<SimTime> {
        let of = self.workers.iter().filter(|worker| worker.result == result && worker.started);
        of.map(|worker| worker.counts_from).min()
    }

    /// Returns when measuring begins: when the statistics of the first job count. [`SimTime::MAX`] before any job has started.
    pub fn measures_from(&self) -> SimTime {
        self.measures_from
    }
}

/// Adds a job to the results; a clone shares the result before it.
fn name_result(results: &mut Vec<JobName>, jobs: &[Job], job: &Job, namespace: u16) {
    if let Some(same) = results.last_mut().filter(|_| job.clone_index > 0) {
        same.instances += 1;
        return;
    }
    let begins = u32::from(job.stonewall || job.new_group);
    let group = results.last().map_or(0, |before| before.group + begins);
    // Reports number the jobs of one name.
    let same = jobs.iter().filter(|one| one.clone_index == 0 && one.name == job.name);
    let earlier = same.take_while(|one| one.stream < job.stream).count();
    let name = if earlier == 0 { job.name.clone() } else { format!("{} ({})", job.name, earlier + 1) };
    results.push(JobName { name, group, instances: 1, namespace });
}

impl Worker {
    /// Makes the worker of a job at its place.
    fn new(
        job: &Job,
        places: &Places,
        spaces: &mut RawSpaces,
        sector_bytes: u32,
    ) -> Result<Worker, JobError> {
        let (namespace, raw) = match places.place(job)? {
            Place::Block(namespace) => (namespace, None),
            Place::Raw(number) => {
                let space = spaces.find(number).expect("the spaces of all raw jobs are known");
                let raw = job.raw.as_ref().expect("only a raw job is on chunks or zones");
                let worker = RawWorker::new(job, raw, space, spaces.get(space))?;
                if worker.writes() {
                    spaces.get_mut(space).add_writer();
                }
                (BlockNamespace { number, handles: 1, ..BlockNamespace::default() }, Some(worker))
            }
        };
        let generator = match &raw {
            None => Generator::new(job, namespace.sectors * u64::from(sector_bytes), sector_bytes)?,
            Some(worker) => {
                let interface = spaces.get(worker.space).interface();
                let capacity = interface.capacity_sectors() * u64::from(sector_bytes);
                Generator::new(&timed(job, interface, sector_bytes), capacity, sector_bytes)?
            }
        };
        Ok(Worker {
            generator,
            handles: Handles::new(job, namespace.handles)?,
            job: job.clone(),
            namespace,
            started: false,
            ended: false,
            final_flush_sent: false,
            in_flight: 0,
            ahead: None,
            draws_ahead: raw.is_none()
                && job.flow.is_none()
                && job.think.is_none()
                && job.rate.iter().all(|r| *r == Rate::Unlimited),
            only_timed: job.runtime.is_some() && job.number_ios.is_none() && job.limit == IoLimit::None,
            counts_from: SimTime::MAX,
            result: 0,
            at_once: (SimTime::ZERO, 0),
            raw: raw.map(Box::new),
            flow: None,
        })
    }

    /// Returns whether the job has submitted its last request; a pause may still precede its end. A pause until a completion is over with that
    /// completion, and then so is this answer.
    fn is_over(&self) -> bool {
        let past_deadline = self.generator.earliest() >= self.generator.deadline();
        let flushes = self.job.flush_at_end && !self.final_flush_sent;
        let nothing_drawn = self.ahead.is_none() && self.generator.is_over();
        self.started && (self.ended || nothing_drawn || past_deadline && !flushes)
    }

    /// Counts a request at `now`; returns whether the clock stands still.
    #[inline]
    fn stands_still(&mut self, now: SimTime) -> bool {
        if self.at_once.0 != now {
            self.at_once = (now, 0);
        }
        self.at_once.1 += 1;
        self.at_once.1 > STANDSTILL_REQUESTS
    }

    #[inline]
    fn draw(&mut self) -> Option<Io> {
        let io = self.ahead.take().or_else(|| self.generator.next());
        if self.draws_ahead && io.is_some() {
            self.ahead = self.generator.next();
        }
        io
    }

    fn end(&mut self, at: usize) -> Next {
        if self.job.flush_at_end && !self.final_flush_sent {
            self.final_flush_sent = true;
            self.in_flight += 1;
            return Next::Now(Request {
                opcode: Opcode::Flush,
                namespace: self.namespace,
                lba: Lba(0),
                sectors: 0,
                fua: false,
                queue: self.job.queue,
                handle: 0,
                owner: at as u32,
            });
        }
        self.ended = true;
        Next::End
    }
}

/// Checks that the drive allows the chunks or zones that all jobs together have open.
fn check_open(workers: &[Worker], spaces: &RawSpaces) -> Result<(), JobError> {
    for (at, worker) in workers.iter().enumerate() {
        let Some(raw) = worker.raw.as_ref().filter(|raw| raw.writes()) else { continue };
        let (allowed, key) = match spaces.get(raw.space).interface() {
            Interface::OpenChannel(chunks) => (chunks.open_chunks_max, "units"),
            Interface::Zoned(zones) => (zones.open_max, "open_zones"),
            _ => continue,
        };
        let same = workers[..=at].iter().filter_map(|other| other.raw.as_ref());
        let open: u32 = same.filter(|other| other.space == raw.space).map(|other| other.open_max()).sum();
        if allowed > 0 && open > allowed {
            let allowed =
                format!("at most {allowed} of all jobs together: the drive allows no more to be open");
            return Err(JobError::Value { key, value: open.to_string(), allowed });
        }
    }
    Ok(())
}

/// A trace: each request at its time, or as fast as `depth` requests in flight allow.
pub struct Trace {
    shaped: Shaped,
    namespace: BlockNamespace,
    depth: Option<u32>,
    in_flight: u32,
    start: Option<SimTime>,
    queues: u16,
    /// The next record.
    pending: Option<pellucid_workload::trace::Record>,
    sector_bytes: u64,
    ended: bool,
}

impl Trace {
    /// Replays `shaped` into a namespace. `depth`: closed loop.
    pub fn new(
        shaped: Shaped,
        namespace: BlockNamespace,
        depth: Option<u32>,
        sector_bytes: u32,
        queues: u16,
    ) -> Trace {
        Trace {
            shaped,
            namespace,
            depth,
            in_flight: 0,
            start: None,
            queues,
            pending: None,
            sector_bytes: sector_bytes.into(),
            ended: false,
        }
    }

    /// Returns the next request at `now`.
    pub fn next(&mut self, now: SimTime) -> Result<Next, TraceError> {
        if self.ended {
            return Ok(Next::End);
        }
        if self.depth.is_some_and(|d| self.in_flight >= d) {
            return Ok(Next::Blocked);
        }
        let record = match self.pending.take() {
            Some(pending) => pending,
            None => match self.shaped.next() {
                Some(record) => record?,
                None => {
                    self.ended = true;
                    return Ok(Next::End);
                }
            },
        };
        let start = *self.start.get_or_insert(now);
        let due = SimTime(start.0 + record.at.0);
        if self.depth.is_none() && due > now {
            self.pending = Some(record);
            return Ok(Next::At(due));
        }
        let opcode: Opcode = record.action.into();
        let (lba, sectors) = match opcode {
            Opcode::Flush => (0, 0),
            _ => (record.offset_bytes / self.sector_bytes, record.length_bytes / self.sector_bytes),
        };
        self.in_flight += 1;
        Ok(Next::Now(Request {
            opcode,
            namespace: self.namespace,
            lba: Lba(lba),
            sectors: sectors as u32,
            fua: false,
            queue: (record.stream % u32::from(self.queues)) as u16,
            handle: 0,
            owner: record.stream,
        }))
    }

    /// Handles a completion.
    pub fn completed(&mut self) {
        self.in_flight -= 1;
    }

    /// Returns the statistics of reading and shaping.
    pub fn shaped(&self) -> &Shaped {
        &self.shaped
    }
}

/// A file set whose threads work on a namespace.
pub struct FileWork {
    files: Files,
    namespace: BlockNamespace,
    /// Sectors per block of the file system.
    sectors: u32,
    queue: u16,
}

impl FileWork {
    /// Puts the threads of a job on a namespace. The error is a sentence.
    pub fn new(
        config: &FilesConfig,
        namespace: BlockNamespace,
        sector_bytes: u32,
        queue: u16,
    ) -> Result<FileWork, String> {
        let capacity = namespace.sectors * u64::from(sector_bytes);
        let sectors = (BLOCK_BYTES / u64::from(sector_bytes)) as u32;
        if sectors == 0 {
            return Err(format!("sectors of {sector_bytes} B; allowed: at most {BLOCK_BYTES} B"));
        }
        Ok(FileWork { files: Files::new(config, capacity)?, namespace, sectors, queue })
    }

    /// Returns the next request at `now`.
    pub fn next(&mut self, now: SimTime) -> Next {
        let BlockRequest { token, kind, extent } = match self.files.next(now) {
            FilesNext::Now(request) => request,
            FilesNext::At(at) => return Next::At(at),
            FilesNext::Blocked => return Next::Blocked,
            FilesNext::End => return Next::End,
        };
        let opcode = match kind {
            RequestKind::Read => Opcode::Read,
            RequestKind::Write => Opcode::Write,
            RequestKind::Flush => Opcode::Flush,
        };
        Next::Now(Request {
            opcode,
            namespace: self.namespace,
            lba: Lba(u64::from(extent.block) * u64::from(self.sectors)),
            sectors: extent.count * self.sectors,
            fua: false,
            queue: self.queue,
            handle: 0,
            owner: token,
        })
    }

    /// Handles a completion.
    pub fn completed(&mut self, token: u32, now: SimTime) {
        self.files.completed(token, now);
    }

    /// Begins the measurement.
    pub fn measures_from(&self) -> SimTime {
        self.files.measures_from()
    }

    /// Returns the figures of the threads.
    pub fn report(&self, end: SimTime) -> FilesReport {
        self.files.report(end)
    }
}

/// Origin of the requests of a run.
pub enum Source {
    /// Synthetic jobs.
    Jobs(Jobs),
    /// A trace.
    Trace(Box<Trace>),
    /// Threads of a file server.
    Files(Box<FileWork>),
    /// A single application, which submits by itself ([`Meter`](super::Meter)).
    Application,
    /// Applications, with or without synthetic jobs.
    Beside(Box<Beside>),
}

/// Jobs and applications that work side by side.
pub struct Beside {
    /// The jobs; may be empty.
    pub jobs: Jobs,
    /// The applications.
    pub tenants: Tenants,
}

impl Source {
    /// Returns the jobs, if there are any.
    pub(super) fn jobs(&self) -> Option<&Jobs> {
        match self {
            Source::Jobs(jobs) => Some(jobs),
            Source::Beside(beside) => Some(&beside.jobs),
            Source::Trace(_) | Source::Files(_) | Source::Application => None,
        }
    }

    #[inline]
    pub(super) fn jobs_mut(&mut self) -> Option<&mut Jobs> {
        match self {
            Source::Jobs(jobs) => Some(jobs),
            Source::Beside(beside) => Some(&mut beside.jobs),
            Source::Trace(_) | Source::Files(_) | Source::Application => None,
        }
    }

    /// Returns the jobs as written, applications last; empty for a trace, for files and for a single application.
    pub(super) fn names(&self) -> Vec<&JobName> {
        match self {
            Source::Jobs(jobs) => jobs.results().iter().collect(),
            Source::Beside(beside) => beside.jobs.results().iter().chain(beside.tenants.names()).collect(),
            Source::Trace(_) | Source::Files(_) | Source::Application => Vec::new(),
        }
    }

    /// Returns whether the source is exhausted, provided that nothing is in flight or due.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Source::Beside(beside) => beside.tenants.is_over(),
            _ => true,
        }
    }
}
