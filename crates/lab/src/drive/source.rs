//! Sources of requests: jobs, a trace, or threads that work on files.

use super::namespaces::BlockNamespace;
use pellucid_flash::{Lba, Nanos, Opcode, SimTime};
use pellucid_report::FilesReport;
use pellucid_workload::files::{BLOCK_BYTES, BlockRequest, Files, FilesConfig, FilesNext, RequestKind};
use pellucid_workload::trace::{Shaped, TraceError};
use pellucid_workload::{Generator, Handles, Io, IoLimit, Job, JobError, Rate};

/// A request that wants to be submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Operation.
    pub opcode: Opcode,
    /// Where.
    pub namespace: BlockNamespace,
    /// First sector.
    pub lba: Lba,
    /// Sectors.
    pub sectors: u32,
    /// Force unit access.
    pub fua: bool,
    /// Submission queue.
    pub queue: u16,
    /// Placement handle of a write.
    pub handle: u16,
    /// Job or stream of the request; comes back with the completion.
    pub owner: u32,
}

/// Answer of a source when it is asked for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Submit this now.
    Now(Request),
    /// No request before this moment.
    At(SimTime),
    /// No request before a completion.
    Blocked,
    /// No further request.
    End,
    /// Requests without end: only `runtime` ends this job, and [`STANDSTILL_REQUESTS`] of them took no time.
    Endless(u32),
}

/// Requests of a job at one moment that are taken for a clock that stands still. More than any data buffer takes in before
/// it has to wait for the media.
pub const STANDSTILL_REQUESTS: u64 = 1 << 21;

/// One job at work.
struct Worker {
    job: Job,
    namespace: BlockNamespace,
    generator: Generator,
    handles: Handles,
    started: bool,
    ended: bool,
    final_flush_sent: bool,
    in_flight: u32,
    /// Drawn ahead, for a job whose requests have no release times: so the drive can be told what will come.
    ahead: Option<Io>,
    draws_ahead: bool,
    /// True if only `runtime` ends the job.
    only_timed: bool,
    /// Statistics count what it submits from this moment on; [`SimTime::MAX`] before it starts.
    counts_from: SimTime,
    /// Index of its result.
    result: u32,
    /// When it last submitted something, and how much at that moment.
    at_once: (SimTime, u64),
}

/// A job as it was written: its clones together are one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName {
    /// Its name.
    pub name: String,
    /// The number of its group; a job with `stonewall` or `new_group` begins another one.
    pub group: u32,
    /// Clones.
    pub instances: u32,
}

/// The namespace that a job works on: the one that it names, or the first.
fn namespace_of(job: &Job, namespaces: &[BlockNamespace]) -> Result<BlockNamespace, JobError> {
    let Some(number) = job.namespace else { return Ok(namespaces.first().copied().unwrap_or_default()) };
    let found = namespaces.iter().find(|namespace| namespace.number == number);
    found.copied().ok_or_else(|| {
        let numbers: Vec<String> = namespaces.iter().map(|namespace| namespace.number.to_string()).collect();
        let allowed = match numbers.is_empty() {
            true => "none: the drive has no block namespace".into(),
            false => format!("{}: block namespaces of the drive", numbers.join(", ")),
        };
        JobError::Value { key: "namespace", value: number.to_string(), allowed }
    })
}

/// Several jobs side by side; a job with `stonewall` starts when all before it have ended, one with `wait_for` when the
/// job of that name has.
pub struct Jobs {
    workers: Vec<Worker>,
    turn: usize,
    /// One for each job as it was written, clones together.
    results: Vec<JobName>,
    /// The earliest moment at which what a job that has started submits counts.
    measures_from: SimTime,
    /// Every job has as much in flight as it may have: nothing before a completion.
    full: bool,
}

impl Jobs {
    /// Checks that a job suits a drive with such namespaces.
    pub fn check(job: &Job, namespaces: &[BlockNamespace], sector_bytes: u32) -> Result<(), JobError> {
        let namespace = namespace_of(job, namespaces)?;
        Generator::new(job, namespace.sectors * u64::from(sector_bytes), sector_bytes)?;
        Handles::new(job, namespace.handles).map(drop)
    }

    /// Puts jobs on a drive with such namespaces.
    pub fn new(jobs: &[Job], namespaces: &[BlockNamespace], sector_bytes: u32) -> Result<Jobs, JobError> {
        let mut results: Vec<JobName> = Vec::new();
        let mut worker = |job: &Job| {
            match results.last_mut().filter(|_| job.clone_index > 0) {
                Some(same) => same.instances += 1,
                None => {
                    let begins = u32::from(job.stonewall || job.new_group);
                    let group = results.last().map_or(0, |before| before.group + begins);
                    // Reports tell jobs of one name apart by a number.
                    let same = jobs.iter().filter(|one| one.clone_index == 0 && one.name == job.name);
                    let earlier = same.take_while(|one| one.stream < job.stream).count();
                    let name = if earlier == 0 {
                        job.name.clone()
                    } else {
                        format!("{} ({})", job.name, earlier + 1)
                    };
                    results.push(JobName { name, group, instances: 1 });
                }
            }
            let namespace = namespace_of(job, namespaces)?;
            Ok(Worker {
                generator: Generator::new(job, namespace.sectors * u64::from(sector_bytes), sector_bytes)?,
                handles: Handles::new(job, namespace.handles)?,
                job: job.clone(),
                namespace,
                started: false,
                ended: false,
                final_flush_sent: false,
                in_flight: 0,
                ahead: None,
                draws_ahead: job.think.is_none() && job.rate.iter().all(|r| *r == Rate::Unlimited),
                only_timed: job.runtime.is_some() && job.number_ios.is_none() && job.limit == IoLimit::None,
                counts_from: SimTime::MAX,
                result: results.len() as u32 - 1,
                at_once: (SimTime::ZERO, 0),
            })
        };
        let workers = jobs.iter().map(&mut worker).collect::<Result<_, JobError>>()?;
        Ok(Jobs { workers, turn: 0, results, measures_from: SimTime::MAX, full: false })
    }

    fn may_start(&self, at: usize) -> bool {
        let job = &self.workers[at].job;
        let before = !job.stonewall || self.workers[..at].iter().all(|w| w.ended && w.in_flight == 0);
        let awaited = job.wait_for.as_ref().is_none_or(|name| {
            self.workers.iter().filter(|w| w.job.name == *name).all(|w| w.ended && w.in_flight == 0)
        });
        before && awaited
    }

    /// The next request at `now`, jobs taking turns.
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
                    // Of one job that need not be asked again.
                    let Worker { in_flight, job, .. } = &self.workers[at];
                    self.full = count == 1 && *in_flight >= job.iodepth;
                    return Next::Now(request);
                }
                Next::At(time) => soonest = Some(soonest.map_or(time, |s| s.min(time))),
                Next::Blocked => blocked = true,
                Next::Endless(job) => return Next::Endless(job),
                // Those that were asked before may have waited for it.
                Next::End if !before => (soonest, blocked, left) = (None, false, count),
                Next::End => {}
            }
        }
        match soonest {
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
        match worker.draw() {
            Some(io) => {
                worker.in_flight += 1;
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

    /// A job that has not begun.
    pub fn waiting(&self) -> Option<usize> {
        self.workers.iter().position(|worker| !worker.started)
    }

    /// The request of job `owner` that comes after the one just given, if it is known already.
    #[inline]
    pub fn ahead(&self, owner: u32) -> Option<Lba> {
        self.workers[owner as usize].ahead.map(|io| io.lba)
    }

    /// A request of job `owner` completed.
    #[inline]
    pub fn completed(&mut self, owner: u32, now: SimTime) {
        self.full = false;
        let worker = &mut self.workers[owner as usize];
        worker.in_flight -= 1;
        worker.generator.completed(now);
    }

    /// Statistics of `owner` count what it submits from this moment on.
    #[inline]
    pub fn counts_from(&self, owner: u32) -> SimTime {
        self.workers[owner as usize].counts_from
    }

    /// Returns the index of the [results](Jobs::results) for `owner`.
    #[inline]
    pub fn result_of(&self, owner: u32) -> u32 {
        self.workers[owner as usize].result
    }

    /// The jobs as they were written.
    pub fn results(&self) -> &[JobName] {
        &self.results
    }

    /// When the statistics of a result begin: with the first of its clones that starts. `None`: none has started.
    pub fn began(&self, result: u32) -> Option<SimTime> {
        let of = self.workers.iter().filter(|worker| worker.result == result && worker.started);
        of.map(|worker| worker.counts_from).min()
    }

    /// Measuring begins at this moment: when the statistics of the first job count. [`SimTime::MAX`] before any job has started.
    pub fn measures_from(&self) -> SimTime {
        self.measures_from
    }
}

impl Worker {
    /// Counts a request at `now`.
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

/// A trace: each request at its time, or as fast as `depth` requests in flight allow.
pub struct Trace {
    shaped: Shaped,
    namespace: BlockNamespace,
    depth: Option<u32>,
    in_flight: u32,
    start: Option<SimTime>,
    queues: u16,
    /// The record to come, and how many of its sectors were submitted.
    pending: Option<(pellucid_workload::trace::Record, u64)>,
    sector_bytes: u64,
    ended: bool,
    sectors_max: u32,
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
            // Larger requests are cut, as a host's block layer would.
            sectors_max: (1 << 20) / sector_bytes,
        }
    }

    /// The next request at `now`.
    pub fn next(&mut self, now: SimTime) -> Result<Next, TraceError> {
        if self.ended {
            return Ok(Next::End);
        }
        if self.depth.is_some_and(|d| self.in_flight >= d) {
            return Ok(Next::Blocked);
        }
        let (record, done) = match self.pending.take() {
            Some(pending) => pending,
            None => match self.shaped.next() {
                Some(record) => (record?, 0),
                None => {
                    self.ended = true;
                    return Ok(Next::End);
                }
            },
        };
        let start = *self.start.get_or_insert(now);
        let due = SimTime(start.0 + record.at.0);
        if self.depth.is_none() && due > now {
            self.pending = Some((record, done));
            return Ok(Next::At(due));
        }
        let opcode: Opcode = record.action.into();
        let sectors = record.length_bytes / self.sector_bytes;
        let here = (sectors - done).min(self.sectors_max.into()) as u32;
        if done + u64::from(here) < sectors {
            self.pending = Some((record, done + u64::from(here)));
        }
        self.in_flight += 1;
        Ok(Next::Now(Request {
            opcode,
            namespace: self.namespace,
            lba: Lba(if opcode == Opcode::Flush {
                0
            } else {
                record.offset_bytes / self.sector_bytes + done
            }),
            sectors: if opcode == Opcode::Flush { 0 } else { here },
            fua: false,
            queue: (record.stream % u32::from(self.queues)) as u16,
            handle: 0,
            owner: record.stream,
        }))
    }

    /// A request completed.
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
    /// Sectors of a block of the file system.
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

    /// The next request at `now`.
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

    /// A request has ended.
    pub fn completed(&mut self, token: u32, now: SimTime) {
        self.files.completed(token, now);
    }

    /// Measuring begins at this moment.
    pub fn measures_from(&self) -> SimTime {
        self.files.measures_from()
    }

    /// Reports the figures of the threads.
    pub fn report(&self, end: SimTime) -> FilesReport {
        self.files.report(end)
    }
}

/// Where the requests of a run come from.
pub enum Source {
    /// Synthetic jobs.
    Jobs(Jobs),
    /// A trace.
    Trace(Box<Trace>),
    /// Threads of a file server.
    Files(Box<FileWork>),
}
