//! The virtual-time driver: it keeps a drive supplied with requests, jumps from event to event, and measures.
//!
//! ```text
//!  source ─► submit ─► device ─► completion ─► recorder, series, log, oracle
//!    ▲                   │ next_event
//!    └── now := min(next event, next release of the source); from there on to the next completion
//! ```
//! Order at the same time: due events run first, then arrivals, jobs taking turns.

mod ageing;
mod app_drive;
mod beside;
mod fill;
mod flow;
mod measure;
mod meter;
mod namespaces;
mod oracle;
mod places;
mod precondition;
mod raw;
mod seat;
mod source;
mod steady;
mod target;
mod targets;
mod tenants;
mod timeline;

pub use ageing::{Ageing, Pass, STEADY_SHARE, Stopped, passes_max};
pub use app_drive::{AppDone, AppDrive, FlashUse, Lent};
pub(crate) use beside::check as check_beside;
pub use fill::{precondition_sectors_stack, precondition_stack, precondition_targets};
pub use measure::{Measured, report};
pub use meter::Meter;
pub use namespaces::{BlockNamespace, NamespaceUse};
pub use oracle::{Mismatch, ORACLE_BYTES_PER_SECTOR, Oracle, Promise, fill_images, stamp, version_of};
pub(crate) use places::target_named;
pub use places::{Place, Places};
pub use precondition::{precondition, precondition_sectors};
pub use raw::{RawSpaces, fill_raw_alone};
pub use seat::Seat;
use source::Ended;
pub use source::{Beside, FileWork, JobName, Jobs, Next, Request, Source, Trace};
pub use target::{Bottom, HostUse, Target, TimedDrive, put_on};
pub use targets::{TargetPlace, put_targets_on};
pub use tenants::{Tenant, Tenants, Work};
pub use timeline::TimelinePart;

use pellucid_device::{Counters, Device, DeviceError, FirmwareModule, NoRoom, Timeline};
use pellucid_film::{Clock, Recorder};
use pellucid_flash::{
    Cause, Command, Completion, Effect, Figure, Lba, Nanos, Opcode, SimTime, Status, Tag, ZoneOp,
};
use pellucid_ftl::FtlCounters;
use pellucid_report::{RequestRecorder, RequestSink, Sample, TimeSeries};
use pellucid_spec::SteadySpec;
use pellucid_workload::JobError;
use pellucid_workload::trace::TraceError;
use raw::RawRequest;
use std::ops::ControlFlow;
use steady::Steadiness;

/// Driver rounds between two looks: a few milliseconds of real time.
const LOOK_ROUNDS: u32 = 1 << 11;
/// Maximum simulated time between two looks while a drive is busy without completions: one whose flash fails may continue for hours.
const LOOK_TIME: Nanos = Nanos::from_secs(1);

/// Simulated time after which requests that none of the drive's events ends will never end. No flash operation takes as long, with all its retries; a
/// host layer that repeats a request does so for ever.
pub(crate) const SILENCE_MAX: Nanos = Nanos::from_secs(86_400);

/// Simulated time within which a drive comes to rest after a run.
const REST_MAX: Nanos = Nanos::from_secs(86_400);

const NEVER: SimTime = SimTime(u64::MAX);

/// Why a run failed, or cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The drive cannot be made.
    #[error("{0}")]
    Device(DeviceError),
    /// A job does not suit the drive.
    #[error("{0}")]
    Job(JobError),
    /// The trace is malformed or does not suit the drive.
    #[error("{0}")]
    Trace(TraceError),
    /// The drive could not be filled.
    #[error("{0}")]
    Precondition(NoRoom),
    /// Nothing can be filled: there is neither a block namespace nor a layer of the host.
    #[error(
        "precondition.fill: the drive has no block namespace; allowed: 0, a drive with one, or with [host] layers \
                 above an open-channel or zoned namespace"
    )]
    NoBlock,
    /// Nothing can be overwritten: there is neither a block namespace nor a block target.
    #[error(
        "precondition.overwrite: chunks and zones are filled, not overwritten; allowed: 0 (--precondition fill or none), or a block \
                 target or namespace beside them"
    )]
    NoOverwrite,
    /// Only `runtime` ends a job, on a drive that takes no time: this many requests completed while the clock stood still.
    #[error("job {}: {requests} requests took no simulated time, so that runtime would never be over; allowed: \
                 number_ios, io_size or rate_iops beside runtime, or a drive that takes time for them", .job + 1)]
    Endless {
        /// Index of the job.
        job: u32,
        /// Number of requests.
        requests: u64,
    },
    /// A job, given by its index, waits for an event that cannot happen.
    #[error("job {}: the jobs that it waits for do not end; allowed: wait_for and stonewall after jobs that do", .0 + 1)]
    Waits(usize),
    /// The layers cannot be put on the drive; a sentence.
    #[error("{0}")]
    Layers(String),
    /// The layers above the drive cannot continue; a sentence.
    #[error("{0}")]
    Host(String),
    /// Requests will never complete.
    #[error(
        "the drive does not answer: {outstanding} requests are outstanding, {completed} have ended, and no more end, not even within a day \
         of simulated time; it waits for space or for something of its host that cannot come, or its flash takes hours, so that nothing of the \
         run is a result"
    )]
    Silent {
        /// Requests outstanding.
        outstanding: usize,
        /// Requests completed.
        completed: u64,
    },
    /// A sector was read with wrong data.
    #[error("verification failed: {0}")]
    Mismatch(Mismatch),
    /// A job found no chunks or zones to work on; its name, and the reason.
    #[error("job {0}: {1}")]
    Idle(String, String),
    /// No request was measured.
    #[error(
        "nothing was measured: {submitted} requests were done{}; allowed: work with at least one request, after any ramp_time",
        if *.submitted > 0 { ", all before the measurement began" } else { "" }
    )]
    NoRequest {
        /// Requests executed all the same.
        submitted: u64,
    },
    /// The onlooker stopped the work before a request was measured.
    #[error("stopped while the drive was prepared")]
    Stopped,
    /// An application cannot continue: its name, and the reason, a sentence.
    #[error("{0}: {1}")]
    Application(&'static str, String),
    /// An application cannot start as requested: its name, and what is allowed, a sentence.
    #[error("app = {0}: {1}")]
    Refused(&'static str, String),
    /// The request log could not be written.
    #[error("request log: {0}")]
    Log(std::io::Error),
}

#[derive(Clone, Debug, Default)]
struct InFlight {
    owner: u32,
    namespace: BlockNamespace,
    lba: Lba,
    sectors: u32,
    fua: bool,
    promise: Promise,
    covered: Vec<(u64, u32)>,
    /// The request's application, and its tag there.
    tenant: Option<(u32, Tag)>,
}

/// A run: a drive, the work on it, and the measurements.
pub struct Run<'a, T: Target = Device> {
    /// The drive, or layers on it; after the run in its final state.
    pub device: &'a mut T,
    source: Source,
    start: SimTime,
    /// The start, or the end of `ramp_time`.
    measured_from: SimTime,
    before: Counters,
    ftl_before: FtlCounters,
    namespaces_before: Vec<NamespaceUse>,
    wrong_bits_before: Vec<u64>,
    host_before: Option<HostUse>,
    /// Host FTL by target; `None` for a raw one.
    targets_before: Vec<Option<HostUse>>,
    figures_before: Vec<(&'static str, Vec<Figure>)>,
    busy_before: (Vec<u64>, Vec<u64>, [u64; 2], [u64; FirmwareModule::COUNT]),
    /// By job as written; one for a trace.
    recorders: Vec<RequestRecorder>,
    /// True until the statistics of a job count.
    warming: bool,
    series: TimeSeries,
    /// Part of the run of which a timeline is recorded.
    timeline: Option<TimelinePart>,
    /// True if a film is recorded.
    films: bool,
    /// When the film's next frame is due.
    film_due: SimTime,
    /// Rounds, if the run ends once steady.
    steady: Option<Steadiness>,
    logs: Vec<Box<dyn RequestSink>>,
    oracle: Option<Oracle>,
    /// By tag.
    in_flight: Vec<InFlight>,
    idle_tags: Vec<u32>,
    pool: Vec<Vec<u8>>,
    /// Bytes of a sector image, and of a sector.
    image_bytes: usize,
    sector_bytes: u64,
    version: u32,
    last_completion: SimTime,
    /// Time of the last completion, or since when nothing is in flight.
    silent_since: SimTime,
    submitted: u64,
    /// Bytes of successful writes that count.
    written_bytes: u64,
    /// Reads whose data the oracle found right, with those of `ramp_time`.
    verified_reads: u64,
    /// Use of the drive by applications beside other work.
    shares: beside::Shares,
}

/// Observes a run.
pub trait Onlooker {
    /// Returns whether the drive's probes should be on; called once, before the first request.
    fn watches(&self) -> bool {
        false
    }

    /// Returns a log of its own, which receives every request that counts (none of `ramp_time`); called once, before the first request.
    fn log(&mut self) -> Option<Box<dyn RequestSink>> {
        None
    }

    /// Returns a film, which receives the drive's blocks when its clock requires: during preconditioning or during the measurement.
    fn film(&mut self) -> Option<&mut Recorder> {
        None
    }

    /// Returns the part of the run of which a drive of flash records a timeline; called once, before the first request.
    fn timeline(&mut self) -> Option<TimelinePart> {
        None
    }

    /// Receives the requested timeline after the run.
    fn keep_timeline(&mut self, _timeline: Timeline) {}

    /// Called now and then during preconditioning, with the bytes written so far, and the total if known. A break ends the work with
    /// [`RunError::Stopped`].
    fn prepare(&mut self, _written_bytes: u64, _total_bytes: Option<u64>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Called now and then, with the drive of flash if there is one. A break ends the run; its result is what has completed by then.
    fn look(&mut self, device: Option<&Device>, progress: Progress) -> ControlFlow<()>;
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Onlooker for Unwatched {
    fn look(&mut self, _device: Option<&Device>, _progress: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Progress of preconditioning, which an onlooker is told now and then.
pub(crate) struct Prepared<'a> {
    onlooker: &'a mut dyn Onlooker,
    written_bytes: u64,
    total_bytes: Option<u64>,
    told_bytes: u64,
    /// Written bytes at which the film's next frame is due; never without a film of this clock.
    film_due: u64,
}

impl<'a> Prepared<'a> {
    /// Bytes written between two reports to an onlooker.
    const STEP_BYTES: u64 = 64 << 20;

    fn new(onlooker: &'a mut dyn Onlooker, total_bytes: Option<u64>) -> Prepared<'a> {
        let film = onlooker.film().filter(|film| film.clock() == Clock::WrittenBytes);
        let film_due = film.map_or(u64::MAX, |film| film.due());
        Prepared { onlooker, written_bytes: 0, total_bytes, told_bytes: 0, film_due }
    }

    /// Announces that this many bytes are written next to this drive.
    #[inline]
    fn add(&mut self, bytes: u64, device: Option<&Device>) -> Result<(), RunError> {
        if self.written_bytes >= self.film_due {
            self.film(device);
        }
        self.written_bytes += bytes;
        if self.written_bytes - self.told_bytes < Prepared::STEP_BYTES {
            return Ok(());
        }
        self.told_bytes = self.written_bytes;
        match self.onlooker.prepare(self.written_bytes, self.total_bytes) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(RunError::Stopped),
        }
    }

    /// Adds a frame to the film, if there is one.
    #[cold]
    fn film(&mut self, device: Option<&Device>) {
        if self.film_due != u64::MAX
            && let (Some(film), Some(device)) = (self.onlooker.film(), device)
        {
            film.record(self.written_bytes, &device.block_map());
            self.film_due = film.due();
        }
    }
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Requests completed.
    pub requests: u64,
    /// Simulated time since the start of the run.
    pub simulated: SimTime,
}

impl<'a, T: Target> Run<'a, T> {
    /// Prepares a run. An oracle checks every read. Each of `logs` receives every request that counts.
    pub fn new(
        device: &'a mut T,
        source: Source,
        oracle: Option<Oracle>,
        logs: Vec<Box<dyn RequestSink>>,
    ) -> Run<'a, T> {
        let start = device.now();
        let before = counters(device);
        let ftl_before = ftl_counters(device);
        let namespaces_before = NamespaceUse::all(device);
        let host_before = device.host();
        let targets_before = host_of_targets(device);
        let device_figures = device.figures();
        let first = sample(device, start);
        let given = if device.reshapes_writes() { 0 } else { first.host_written_bytes };
        let series = TimeSeries::new(start, Sample { host_written_bytes: given, ..first });
        let busy_before = busy(device);
        let wrong_bits_before = wrong_bits(device);
        let (results, warming) = match &source {
            Source::Jobs(jobs) => (jobs.results().len(), true),
            Source::Trace(_) => (1, false),
            Source::Files(_) | Source::Application => (1, true),
            Source::Beside(beside) => (beside.jobs.results().len() + beside.tenants.count(), true),
        };
        Run {
            image_bytes: device.image_bytes(),
            sector_bytes: device.sector_bytes().into(),
            device,
            source,
            start,
            measured_from: start,
            ftl_before,
            namespaces_before,
            wrong_bits_before,
            before,
            host_before,
            targets_before,
            figures_before: device_figures,
            busy_before,
            recorders: vec![RequestRecorder::new(); results],
            warming,
            series,
            timeline: None,
            films: false,
            film_due: NEVER,
            steady: None,
            logs,
            oracle,
            in_flight: Vec::new(),
            idle_tags: Vec::new(),
            pool: Vec::new(),
            version: 0,
            last_completion: start,
            silent_since: start,
            submitted: 0,
            written_bytes: 0,
            verified_reads: 0,
            shares: beside::Shares::default(),
        }
    }

    /// Ends the run once it is steady.
    pub fn until_steady(mut self, spec: Option<&SteadySpec>) -> Run<'a, T> {
        self.steady = spec.map(|spec| Steadiness::new(spec, self.start));
        self
    }

    /// Runs until the last request has completed, or until `onlooker` stops it; the measurement ends there. Then the drive comes to rest.
    pub fn run(mut self, onlooker: &mut dyn Onlooker) -> Result<Measured, RunError> {
        self.begin(onlooker);
        match self.work(onlooker) {
            Ok((now, stopped)) => self.end(now, stopped, onlooker),
            // What will never end is not waited for once more.
            Err(silent @ RunError::Silent { .. }) => Err(silent),
            Err(error) => {
                self.drop_outstanding();
                Err(error)
            }
        }
    }

    /// Runs until the work is over. Returns when that was, and whether the onlooker stopped it.
    fn work(&mut self, onlooker: &mut dyn Onlooker) -> Result<(SimTime, bool), RunError> {
        let mut now = self.start;
        let (mut rounds, mut stopped) = (0u32, false);
        loop {
            if self.in_flight.len() == self.idle_tags.len() {
                self.silent_since = now;
            }
            let release = self.submit_all(now)?;
            if release.is_none() && self.in_flight.len() == self.idle_tags.len() && self.source.is_over() {
                if let Some(job) = self.source.jobs().and_then(Jobs::waiting).filter(|_| !stopped) {
                    return Err(RunError::Waits(job));
                }
                break;
            }
            let next = match (self.device.next_event(), release) {
                (Some(event), Some(release)) => event.min(release),
                (Some(event), None) => event,
                (None, Some(release)) => release,
                (None, None) => return Err(self.silent()),
            };
            let mut warmed = self.warmed_at();
            if let Some(at) = warmed.take_if(|at| next >= *at) {
                self.measure_from(at);
            }
            if next >= self.sample_due() {
                self.sample_until(next, onlooker.film());
            }
            // Before a completion, only these need the driver.
            let wanted = release.unwrap_or(NEVER).min(warmed.unwrap_or(NEVER));
            let limit = self.sample_due().min(next + LOOK_TIME).min(wanted);
            now = self.device.advance_to_completion(next, limit);
            while let Some(completion) = self.device.pop().as_mut() {
                self.silent_since = now;
                self.complete(completion)?;
            }
            if now.since(self.silent_since) > SILENCE_MAX && self.in_flight.len() > self.idle_tags.len() {
                return Err(self.silent());
            }
            if self.steady.as_ref().is_some_and(Steadiness::is_reached) {
                break;
            }
            rounds = rounds.wrapping_add(1);
            let asked = std::mem::take(&mut self.shares.asks);
            if rounds.is_multiple_of(LOOK_ROUNDS) || now.since(next).0 >= LOOK_TIME.0 / 2 || asked {
                stopped |= onlooker.look(self.device.flash(), self.progress(now)).is_break();
                if stopped && self.stops_at_once() {
                    break;
                }
            }
        }
        Ok((now, stopped))
    }

    /// Waits for requests that a run leaves behind when it ends before its work, and drops their completions: the next run of this drive
    /// would take them for its own.
    fn drop_outstanding(&mut self) {
        let mut left = self.in_flight.len() - self.idle_tags.len();
        let latest = self.device.now() + REST_MAX;
        while left > 0 {
            left -= std::iter::from_fn(|| self.device.pop()).count().min(left);
            match self.device.next_event().filter(|&next| left > 0 && next <= latest) {
                Some(next) => self.device.advance(next),
                None => return,
            }
        }
    }

    /// Turns on probes and recording as the onlooker requests.
    fn begin(&mut self, onlooker: &mut dyn Onlooker) {
        if onlooker.watches()
            && let Some(device) = self.device.flash_mut()
        {
            device.watch();
        }
        self.timeline = onlooker.timeline();
        if !self.warming {
            self.begin_timeline();
        }
        self.films = self.device.flash().is_some()
            && onlooker.film().is_some_and(|film| film.clock() == Clock::SimulatedNs);
        if self.films && !self.warming {
            self.film_due = self.measured_from;
        }
    }

    /// Ends the work at `now`, at the end or because it was `stopped`, and returns the measurements.
    fn end(mut self, now: SimTime, stopped: bool, onlooker: &mut dyn Onlooker) -> Result<Measured, RunError> {
        if let Some((job, why)) = self.source.jobs().and_then(Jobs::idle_raw) {
            return Err(RunError::Idle(job, why));
        }
        if self.warming {
            // All of it was warm-up.
            self.measure_from(self.device.now());
        }
        let idle = self.recorders.iter().all(|recorder| recorder.requests() == 0);
        if !stopped && idle && !matches!(self.source, Source::Beside(_)) {
            return Err(RunError::NoRequest { submitted: self.submitted });
        }
        // A run stopped in a pause, or whose job finds nothing after one, has measured the pause too.
        let end = self.last_completion.max(self.measured_from).max(now);
        self.sample(end);
        if let Some(film) = onlooker.film().filter(|_| self.films) {
            self.film(end, film);
        }
        if let Some(timeline) = self.device.flash_mut().and_then(Device::take_timeline) {
            onlooker.keep_timeline(timeline);
        }
        Measured::take(self, end, onlooker)
    }

    fn progress(&self, now: SimTime) -> Progress {
        let requests = self.recorders.iter().map(RequestRecorder::requests).sum();
        Progress { requests, simulated: SimTime(now.since(self.start).0) }
    }

    /// Returns the error of requests that never complete.
    #[cold]
    fn silent(&self) -> RunError {
        let outstanding = self.in_flight.len() - self.idle_tags.len();
        RunError::Silent { outstanding, completed: self.submitted - outstanding as u64 }
    }

    /// Before the measurement, returns when it begins, if known.
    #[inline]
    fn warmed_at(&self) -> Option<SimTime> {
        match &self.source {
            Source::Jobs(jobs) if self.warming => Some(jobs.measures_from()),
            Source::Files(files) if self.warming => Some(files.measures_from()),
            _ => None,
        }
    }

    /// Begins the measurement at `at`, before which nothing more happens: everything counted so far was warm-up.
    fn measure_from(&mut self, at: SimTime) {
        self.device.advance(at);
        self.warming = false;
        self.measured_from = at;
        self.steady.iter_mut().for_each(|steady| steady.begin(at));
        self.before = counters(self.device);
        self.ftl_before = ftl_counters(self.device);
        self.figures_before = self.device.figures();
        self.namespaces_before = NamespaceUse::all(self.device);
        self.wrong_bits_before = wrong_bits(self.device);
        self.host_before = self.device.host();
        self.targets_before = host_of_targets(self.device);
        self.busy_before = busy(self.device);
        self.begin_timeline();
        self.begin_shares();
        self.series = TimeSeries::new(at, self.sampled(at));
        if self.films {
            self.film_due = at;
        }
    }

    /// Starts recording if a timeline is requested.
    fn begin_timeline(&mut self) {
        if let (Some(part), Some(device)) = (self.timeline, self.device.flash_mut()) {
            part.begin(device);
        }
    }

    /// Returns when counters or blocks are to be sampled next.
    #[inline]
    fn sample_due(&self) -> SimTime {
        self.series.sample_due().min(self.film_due)
    }

    /// Returns the counters at `at`; the written bytes are those of requests if layers make other writes from them.
    fn sampled(&self, at: SimTime) -> Sample {
        let sample = sample(self.device, at);
        match self.device.reshapes_writes() {
            true => Sample { host_written_bytes: self.written_bytes, ..sample },
            false => sample,
        }
    }

    /// Adds the blocks at `at` to the film.
    fn film(&mut self, at: SimTime, film: &mut Recorder) {
        if let Some(device) = self.device.flash() {
            let mut map = device.block_map();
            if let Some(host) = self.device.host() {
                // A host FTL above chunks or zones chooses the victims and writes the copies.
                let (written, programmed) = measure::whole_stack(&device.counters(), Some(&host));
                let sector = u64::from(device.layout().sector_bytes);
                map.host_written_bytes = written * sector;
                map.programmed_bytes = programmed.iter().sum::<u64>() * sector;
                (map.victims, map.copied_units) = (host.ftl.gc_victims(), host.ftl.copied_units);
            }
            if self.device.reshapes_writes() {
                map.host_written_bytes = self.written_bytes;
            }
            film.record(at.since(self.measured_from).0, &map);
            self.film_due = SimTime(self.measured_from.0.saturating_add(film.due()));
        }
    }

    /// Samples the counters at the end of every interval up to `next`, before which no event happens: dies and channels continue what they have
    /// begun. A silence of any length has few intervals, since they grow with it.
    #[cold]
    fn sample_until(&mut self, next: SimTime, mut film: Option<&mut Recorder>) {
        loop {
            let due = self.sample_due();
            if due > next || due == NEVER {
                return;
            }
            if self.series.sample_due() == due {
                self.sample(due);
            }
            if let Some(film) = film.as_deref_mut().filter(|_| self.film_due == due) {
                self.film(due, film);
            }
        }
    }

    fn sample(&mut self, at: SimTime) {
        let sample = self.sampled(at);
        self.series.sample(at, sample);
    }

    /// Submits the source's requests for `now`; returns when the next are due without a completion.
    #[inline]
    fn submit_all(&mut self, now: SimTime) -> Result<Option<SimTime>, RunError> {
        loop {
            let next = match &mut self.source {
                Source::Jobs(jobs) => jobs.next(now),
                Source::Trace(trace) => trace.next(now).map_err(RunError::Trace)?,
                Source::Files(files) => files.next(now),
                Source::Application => unreachable!("an application submits by itself"),
                Source::Beside(_) => return self.submit_beside(now),
            };
            match next {
                Next::Now(request) => {
                    if self.warming && self.warmed_at().is_some_and(|at| now >= at) {
                        self.measure_from(now);
                    }
                    self.submit(now, &request);
                    if let Source::Jobs(jobs) = &self.source
                        && let Some(lba) = jobs.ahead(request.owner)
                    {
                        self.device.prefetch(request.namespace.number, lba);
                    }
                    self.complete_all()?;
                }
                Next::Raw(request) => {
                    if self.warmed_at().is_some_and(|at| now >= at) {
                        self.measure_from(now);
                    }
                    self.submit_raw(now, *request);
                    self.complete_all()?;
                }
                Next::At(time) => return Ok(Some(time)),
                Next::Endless(job) => {
                    return Err(RunError::Endless { job, requests: source::STANDSTILL_REQUESTS });
                }
                Next::Blocked | Next::End => return Ok(None),
            }
        }
    }

    /// Takes the completions that are ready: refused commands complete at once.
    #[inline]
    fn complete_all(&mut self) -> Result<(), RunError> {
        while let Some(completion) = self.device.pop().as_mut() {
            self.complete(completion)?;
        }
        Ok(())
    }

    /// Returns an unused tag.
    #[inline]
    fn idle_tag(&mut self) -> u32 {
        self.idle_tags.pop().unwrap_or_else(|| {
            self.in_flight.push(InFlight::default());
            self.in_flight.len() as u32 - 1
        })
    }

    /// Submits a command on chunks or zones.
    #[cold]
    fn submit_raw(&mut self, now: SimTime, mut request: RawRequest) {
        let tag = self.idle_tag();
        let lba = request.runs.first().map_or(Lba(0), |(lba, _)| *lba);
        let slot = &mut self.in_flight[tag as usize];
        (slot.owner, slot.lba, slot.sectors, slot.fua) = (request.owner, lba, request.sectors, false);
        slot.namespace = BlockNamespace { number: request.namespace, ..BlockNamespace::default() };
        if let Some(jobs) = self.source.jobs_mut() {
            jobs.submitted_raw(tag as usize, &mut request);
        }
        let mut data = self.pool.pop().unwrap_or_default();
        data.clear();
        if matches!(request.opcode, Opcode::Write | Opcode::Zone(ZoneOp::Append)) {
            self.version = (self.version + 1) & 0x7fff_ffff;
            let image_bytes = self.image_bytes;
            for &(lba, sectors) in &request.runs {
                let from = data.len();
                data.resize(from + sectors as usize * image_bytes, 0);
                fill_images(&mut data[from..], image_bytes, lba, self.version);
            }
        }
        self.submitted += 1;
        self.device.submit(now, request.command(tag.into(), lba, data));
    }

    // Of the two callers, plain jobs are the hot one.
    #[inline(always)]
    fn submit(&mut self, now: SimTime, request: &Request) {
        let &Request { opcode, namespace, lba, sectors, fua, queue, handle, owner } = request;
        let stamped = namespace.stamped(lba);
        let tag = self.idle_tag();
        let slot = &mut self.in_flight[tag as usize];
        (slot.owner, slot.namespace, slot.lba) = (owner, namespace, lba);
        (slot.sectors, slot.fua) = (sectors, fua);
        let image_bytes = self.image_bytes;
        let mut data = self.pool.pop().unwrap_or_default();
        match opcode {
            Opcode::Write => {
                self.version = (self.version + 1) & 0x7fff_ffff;
                let version = match &mut self.oracle {
                    Some(oracle) => oracle.submit_change(opcode, stamped, sectors),
                    None => self.version,
                };
                data.resize(sectors as usize * image_bytes, 0);
                fill_images(&mut data, image_bytes, stamped, version);
            }
            Opcode::Read => match &self.oracle {
                Some(oracle) => {
                    oracle.submit_read(stamped, sectors, &mut slot.promise);
                    data.resize(sectors as usize * image_bytes, 0);
                }
                None => data.clear(),
            },
            Opcode::Trim | Opcode::WriteZeroes => {
                if let Some(oracle) = &mut self.oracle {
                    oracle.submit_change(opcode, stamped, sectors);
                }
                data.clear();
            }
            Opcode::Zone(_)
            | Opcode::Chunk(_)
            | Opcode::Report
            | Opcode::NextUnit
            | Opcode::Cache(_)
            | Opcode::Nameless(_) => {
                unreachable!("workloads and traces are of block commands")
            }
            Opcode::Flush => {
                if let Some(oracle) = &mut self.oracle {
                    slot.covered = oracle.submit_flush(namespace.numbered());
                }
                data.clear();
            }
        }
        self.submitted += 1;
        self.device.submit(
            now,
            Command {
                tag: tag.into(),
                queue,
                opcode,
                fua,
                lba,
                sectors,
                data,
                namespace: namespace.number,
                handle,
                vector: None,
            },
        );
    }

    #[inline]
    fn complete(&mut self, completion: &mut Completion) -> Result<(), RunError> {
        let tag = completion.tag as usize;
        let (owner, lba, sectors) = {
            let slot = &self.in_flight[tag];
            (slot.owner, slot.lba, slot.sectors)
        };
        self.last_completion = completion.completed;
        let (counted, result) = match &mut self.source {
            Source::Jobs(jobs) => ended(jobs, owner, completion),
            Source::Trace(trace) => {
                trace.completed();
                (true, 0)
            }
            Source::Files(files) => {
                files.completed(owner, completion.completed);
                (completion.submitted >= files.measures_from(), 0)
            }
            Source::Application => unreachable!("an application takes its completions by itself"),
            Source::Beside(_) if self.in_flight[tag].tenant.is_some() => {
                return self.complete_tenant(completion);
            }
            Source::Beside(beside) => ended(&mut beside.jobs, owner, completion),
        };
        if counted {
            let name = if matches!(self.source, Source::Trace(_)) { owner } else { result + 1 };
            self.count(completion, lba, sectors, result, name)?;
        }
        if self.oracle.is_some() {
            self.verify(tag, completion)?;
        }
        self.idle_tags.push(tag as u32);
        self.pool.push(std::mem::take(&mut completion.data));
        Ok(())
    }

    /// Counts a measured completion; `name` identifies its job in logs.
    #[inline(always)]
    fn count(
        &mut self,
        completion: &Completion,
        lba: Lba,
        sectors: u32,
        result: u32,
        name: u32,
    ) -> Result<(), RunError> {
        let bytes = u64::from(sectors) * self.sector_bytes;
        self.recorders[result as usize].record(completion, bytes);
        let effect = completion.opcode.effect();
        let (write, read) = (effect == Effect::Writes, effect == Effect::Reads);
        if completion.status == Status::Success && (write || read) {
            let latency = completion.completed - completion.submitted;
            let stall = completion.stages.stalled();
            self.series.complete(completion.completed, write, bytes, latency, stall);
            self.written_bytes += if write { bytes } else { 0 };
            if let Some(steady) = &mut self.steady {
                steady.complete(completion.completed, bytes, latency);
            }
        }
        for log in &mut self.logs {
            log.write(lba, sectors, name, completion).map_err(RunError::Log)?;
        }
        Ok(())
    }

    fn verify(&mut self, tag: usize, completion: &Completion) -> Result<(), RunError> {
        let Some(oracle) = &mut self.oracle else { return Ok(()) };
        let slot = &self.in_flight[tag];
        let ok = completion.status == Status::Success;
        let stamped = slot.namespace.stamped(slot.lba);
        match completion.opcode {
            Opcode::Read if ok => {
                oracle
                    .check_read(stamped, self.image_bytes, &completion.data, &slot.promise)
                    .map_err(RunError::Mismatch)?;
                self.verified_reads += 1;
            }
            Opcode::Read => {}
            Opcode::Flush if ok => {
                let covered = std::mem::take(&mut self.in_flight[tag].covered);
                oracle.complete_flush(&covered);
            }
            Opcode::Flush => {}
            _ => oracle.complete_change(stamped, slot.sectors, ok, slot.fua),
        }
        Ok(())
    }
}

/// Tells the jobs that a request has ended; returns whether it counts, and the index of its result.
#[inline]
fn ended(jobs: &mut Jobs, owner: u32, completion: &Completion) -> (bool, u32) {
    let Ended { counts_from, result, is_raw } = jobs.completed(owner, completion.completed);
    if is_raw {
        let ok = completion.status == Status::Success;
        jobs.completed_raw(owner, completion.tag as usize, completion.completed, ok);
    }
    (completion.submitted >= counts_from, result)
}

/// Lets the drive come to rest after `end`, unless the onlooker does not want to wait; `at_end`: the progress then.
fn rest<T: Target>(target: &mut T, end: SimTime, at_end: Progress, onlooker: &mut dyn Onlooker) {
    // Waiting to fold an SLC cache in idle time does not delay the rest.
    let rests = |target: &T| target.flash().is_some_and(Device::waits_to_fold);
    // Layers that wake up by the clock never come to rest: a day is enough for the others.
    let latest = end + REST_MAX;
    let mut rounds = 0u32;
    while let Some(next) = target.next_event().filter(|&next| next <= latest && !rests(target)) {
        target.advance(next);
        rounds = rounds.wrapping_add(1);
        let simulated = SimTime(at_end.simulated.0 + next.since(end).0);
        if rounds.is_multiple_of(LOOK_ROUNDS)
            && onlooker.look(target.flash(), Progress { simulated, ..at_end }).is_break()
        {
            return;
        }
    }
}

fn counters(target: &impl Target) -> Counters {
    target.flash().map_or_else(Counters::default, Device::counters)
}

fn ftl_counters(target: &impl Target) -> FtlCounters {
    target.flash().map_or_else(FtlCounters::default, Device::ftl_counters)
}

/// Returns the work of the host FTL of each target.
fn host_of_targets(target: &impl Target) -> Vec<Option<HostUse>> {
    target.targets().iter().map(|place| target.host_of(place.namespace)).collect()
}

fn wrong_bits(target: &impl Target) -> Vec<u64> {
    target.flash().map_or_else(Vec::new, |device| device.chunks_by_wrong_bits().to_vec())
}

fn busy(target: &impl Target) -> (Vec<u64>, Vec<u64>, [u64; 2], [u64; FirmwareModule::COUNT]) {
    let Some(device) = target.flash() else {
        return (Vec::new(), Vec::new(), [0; 2], [0; FirmwareModule::COUNT]);
    };
    (
        device.busy().channels().iter().map(|n| n.0).collect(),
        device.busy().dies().iter().map(|n| n.0).collect(),
        device.busy().link().map(|n| n.0),
        device.busy().firmware_by_module().map(|n| n.0),
    )
}

/// Returns the counters of the time series at a time before which no event happens: work in progress continues until then.
fn sample(target: &impl Target, at: SimTime) -> Sample {
    let Some(device) = target.flash() else { return Sample::default() };
    let counters = device.counters();
    let sector = u64::from(device.layout().sector_bytes);
    let host_use = target.host();
    let (written, sectors) = measure::whole_stack(&counters, host_use.as_ref());
    let ftl = host_use.as_ref().map_or_else(|| device.ftl_counters(), |host| host.ftl);
    let units_per_block =
        host_use.as_ref().map_or(device.layout().units_per_block, |host| host.units_per_block);
    let victims = ftl.gc_victims();
    let (blocks, used) = device.cache_use(device.block_namespaces());
    let cache = (blocks > 0).then_some(used);
    let host = sectors[Cause::Host as usize];
    let programmed: u64 = sectors.iter().sum();
    Sample {
        host_written_bytes: written * sector,
        programmed_host_bytes: host * sector,
        programmed_other_bytes: (programmed - host) * sector,
        free_blocks: device.free_blocks().into(),
        cache_used_blocks: cache.map(u64::from),
        victims,
        victim_units: victims * u64::from(units_per_block),
        victim_valid_units: ftl.victim_valid_units,
        channel_busy_ns: device.busy_at(at).channels().iter().map(|busy| busy.0).collect(),
        die_busy_ns: device.busy_at(at).dies().iter().map(|busy| busy.0).collect(),
    }
}
