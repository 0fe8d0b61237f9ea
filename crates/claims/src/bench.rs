//! The bench for claims: builds drives from presets and runs them on all allowed threads.
//!
//! Invariant: each point has its own drive and seed, and results are in the order of the points; so results do not depend on threads.

use super::flashfire::FireStudy;
use super::latency::LatencyStudy;
use super::pblk::PblkStudy;
use super::prism::{ServerStudy, SizeStudy};
use super::solid_state_cache::CacheStudy;
use super::throughput::ThroughputStudy;
use pellucid_lab::drive::{RunError, Target, Unwatched};
use pellucid_lab::experiment;
use pellucid_lab::experiment::{ExperimentError, execute_on, parse_job, prepare};
use pellucid_lab::kv::KvError;
use pellucid_report::{Direction, Report};
use pellucid_spec::{Spec, SpecError, Use};
use pellucid_workload::Job;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Mapping units (16 KiB) of every Cosmos+ drive here: 64 GiB of media, for any number of ways. The paper's 1 TiB would only cost memory: no
/// experiment writes more than a part of 64 GiB, and a page map is as fast at any size.
const MEDIA_UNITS: u32 = 1 << 22;
/// [`Bench::fill`] of full-length measurements: 3.6 GiB, more than 200 times the data buffer.
const FILL: f64 = 1.0 / 16.0;
/// Region that reads cover, in MiB.
const READ_MIB: u32 = 3 << 10;

/// Written before a measurement of writes, as in the paper's runs: more than the data buffer holds, so that every further write waits for a program.
const WARM_UP: &str = "rw=write,bs=128k,iodepth=16,number_ios=256";
/// Start of measured writes, behind the warm-up.
pub(super) const BEHIND_WARM_UP: &str = "offset=64m";

/// Reason why a claim could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// The description is refused, for example because of a wrong override.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The experiment failed.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// An override of a key that defines the experiment.
    #[error("--set {set}: this experiment sets the key itself, to {own}; allowed: other keys{instead}")]
    Owned {
        /// The override.
        set: String,
        /// The experiment's own value.
        own: String,
        /// How to set it instead.
        instead: &'static str,
    },
    /// An override that has no effect on any drive of the claim.
    #[error("--set {set}: has no effect on a drive of this claim; allowed: with {with}")]
    NoEffect {
        /// The override.
        set: String,
        /// Condition that gives the key an effect.
        with: &'static str,
    },
    /// A cache failed.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// A program on a drive failed.
    #[error("{0}")]
    Program(String),
}

impl From<RunError> for ReproduceError {
    fn from(error: RunError) -> Self {
        ReproduceError::Experiment(error.into())
    }
}

/// Cell mode of the Cosmos+ flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Slc,
    Mlc,
    /// 3D TLC, programmed in one shot.
    Tlc,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Slc => "SLC",
            Mode::Mlc => "MLC",
            Mode::Tlc => "3D TLC",
        }
    }

    fn preset(self) -> &'static str {
        match self {
            Mode::Slc => "cosmos-plus-slc",
            Mode::Mlc => "cosmos-plus",
            Mode::Tlc => "cosmos-plus-tlc",
        }
    }

    /// Pages of a block, as in the preset.
    fn pages(self) -> u32 {
        match self {
            Mode::Slc => 128,
            Mode::Mlc => 256,
            Mode::Tlc => 768,
        }
    }
}

/// Direction of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Read,
    Write,
}

impl Flow {
    pub const BOTH: [Flow; 2] = [Flow::Read, Flow::Write];

    pub fn name(self) -> &'static str {
        match self {
            Flow::Read => "read",
            Flow::Write => "write",
        }
    }

    /// The part of a report for this direction.
    pub fn of(self, report: &Report) -> &Direction {
        match self {
            Flow::Read => &report.directions.read,
            Flow::Write => &report.directions.write,
        }
    }
}

/// One drive of the Cosmos+ measurements.
#[derive(Clone, Debug)]
pub(super) struct Cosmos {
    pub mode: Mode,
    pub channels: u32,
    pub ways: u32,
    /// Further overrides.
    pub sets: Vec<String>,
}

impl Cosmos {
    pub fn new(mode: Mode, channels: u32, ways: u32) -> Cosmos {
        Cosmos { mode, channels, ways, sets: Vec::new() }
    }

    pub fn set(mut self, set: impl Into<String>) -> Cosmos {
        self.sets.push(set.into());
        self
    }
}

/// Runs claims.
#[derive(Debug)]
pub struct Bench {
    threads: usize,
    seed: u64,
    sets: Vec<String>,
    /// For each of `sets` that met a drive: `None` if it had an effect on one, else the condition it lacks.
    effects: Mutex<BTreeMap<String, Option<&'static str>>>,
    /// Overrides that take precedence over those of the experiment: smaller drives and wrong models of the tests.
    last: Vec<String>,
    /// Factor by which every measurement is shorter; 1 outside tests.
    shorter: u32,
    /// True to vary settings that papers do not give when a number exceeds its limit; not in tests, which compare single numbers.
    varies: bool,
    /// Prefixes of the names of the points to measure; empty: all. Tests of one check measure only its points.
    only: &'static [&'static str],
    throughput: OnceLock<ThroughputStudy>,
    latency: OnceLock<LatencyStudy>,
    pblk: OnceLock<PblkStudy>,
    sizes: OnceLock<SizeStudy>,
    server: OnceLock<ServerStudy>,
    caches: [OnceLock<CacheStudy>; 3],
    fire: OnceLock<FireStudy>,
}

impl Bench {
    /// A bench with this many threads (at least one). `sets`: overrides (`KEY=VALUE`) for every drive; an experiment refuses overrides of the keys
    /// that define it.
    pub fn new(threads: usize, seed: u64, sets: Vec<String>) -> Bench {
        let (throughput, latency, pblk) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (sizes, server) = (OnceLock::new(), OnceLock::new());
        let (caches, fire) = (<[OnceLock<CacheStudy>; 3]>::default(), OnceLock::new());
        let (last, shorter, varies, only) = (Vec::new(), 1, true, &[][..]);
        Bench {
            threads: threads.max(1),
            seed,
            sets,
            effects: Mutex::default(),
            last,
            shorter,
            varies,
            only,
            throughput,
            latency,
            pblk,
            sizes,
            server,
            caches,
            fire,
        }
    }

    /// A bench for tests: measurements are `shorter` by this factor, and `last` overrides everything else.
    #[cfg(test)]
    pub(super) fn of_test(shorter: u32, last: Vec<String>) -> Bench {
        Bench { last, shorter, varies: false, ..Bench::new(2, 1, Vec::new()) }
    }

    /// Restricts the bench to points whose names begin with one of `only`; empty: all points.
    #[cfg(test)]
    pub(super) fn of_points(self, only: &'static [&'static str]) -> Bench {
        Bench { only, ..self }
    }

    /// Factor by which measurements are shorter.
    pub(super) fn shorter(&self) -> u32 {
        self.shorter
    }

    /// Reports whether settings that a paper does not give are varied.
    pub(super) fn varies(&self) -> bool {
        self.varies
    }

    /// A job in fio's words with at most this many requests.
    pub(super) fn job(&self, words: &str, requests: u32) -> String {
        format!("{words},number_ios={}", (requests / self.shorter).max(1))
    }

    /// The share of the capacity that is written sequentially before reads: more than any measurement reads.
    pub(super) fn fill(&self) -> f64 {
        FILL / f64::from(self.shorter)
    }

    /// Seed of work and media.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The study behind Figs. 21 and 22, run once.
    pub(super) fn throughput(&self) -> Result<&ThroughputStudy, ReproduceError> {
        once(&self.throughput, || ThroughputStudy::run(self))
    }

    /// The study behind Table 7 and Fig. 24, run once.
    pub(super) fn latency(&self) -> Result<&LatencyStudy, ReproduceError> {
        once(&self.latency, || LatencyStudy::run(self))
    }

    /// The study behind Figs. 33 to 35, run once.
    pub(super) fn pblk(&self) -> Result<&PblkStudy, ReproduceError> {
        once(&self.pblk, || PblkStudy::run(self))
    }

    /// The study behind Figs. 4 and 5 of Prism-SSD, run once.
    pub(super) fn sizes(&self) -> Result<&SizeStudy, ReproduceError> {
        once(&self.sizes, || SizeStudy::run(self))
    }

    /// The study behind Figs. 6 and 7 of Prism-SSD, run once.
    pub(super) fn server(&self) -> Result<&ServerStudy, ReproduceError> {
        once(&self.server, || ServerStudy::run(self))
    }

    /// The study of personality `set` in Fig. 7 of "Getting Real"; the file server is run once.
    pub(super) fn caches(&self, set: usize) -> Result<&CacheStudy, ReproduceError> {
        once(&self.caches[set], || CacheStudy::run(self, set))
    }

    /// The study behind Figs. 15 to 19 of FlashFire, run once.
    pub(super) fn fire(&self) -> Result<&FireStudy, ReproduceError> {
        once(&self.fire, || FireStudy::run(self))
    }

    /// Runs `work` on each of the `points`, on all threads; results are in the order of the points.
    pub(super) fn map<P: Sync, R: Send>(
        &self,
        points: &[P],
        work: impl Fn(&P) -> Result<R, ReproduceError> + Sync,
    ) -> Result<Vec<R>, ReproduceError> {
        let next = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<Result<R, ReproduceError>>>> =
            points.iter().map(|_| Mutex::new(None)).collect();
        let take = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(point) = points.get(at) else { break };
                let result = work(point);
                if let Ok(mut slot) = results[at].lock() {
                    *slot = Some(result);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.min(points.len()) {
                scope.spawn(take);
            }
            take();
        });
        let done = results.into_iter().filter_map(|slot| slot.into_inner().ok().flatten());
        done.collect()
    }

    /// Measures points as [`Bench::map`] does, for a study whose checks each use a few of them. A point that a test leaves out becomes `absent`,
    /// which no check may take for a measurement. The debug format of a point is its name.
    pub(super) fn map_or<P: Sync + Debug, R: Clone + Send + Sync>(
        &self,
        points: &[P],
        absent: R,
        work: impl Fn(&P) -> Result<R, ReproduceError> + Sync,
    ) -> Result<Vec<R>, ReproduceError> {
        self.map(points, |point| if self.measures(point) { work(point) } else { Ok(absent.clone()) })
    }

    fn measures(&self, point: &impl Debug) -> bool {
        self.only.is_empty() || {
            let name = format!("{point:?}");
            self.only.iter().any(|start| name.starts_with(start))
        }
    }

    /// The caller's overrides, followed by an experiment's `own`, followed by those of a test.
    ///
    /// # Errors
    /// The caller has set a key that the experiment sets.
    fn sets_with(&self, own: &[String]) -> Result<Vec<String>, ReproduceError> {
        let seeds = ["run.seed", "media.seed", "ftl.seed"].map(|key| format!("{key}={}", self.seed));
        for (owned, instead) in
            own.iter().map(|set| (set, "")).chain(seeds.iter().map(|set| (set, ", or --seed")))
        {
            let (key, value) = parts(owned);
            if let Some(set) = self.sets.iter().find(|set| parts(set).0 == key) {
                return Err(ReproduceError::Owned { set: set.clone(), own: value.into(), instead });
            }
        }
        Ok(self.sets.iter().chain(&seeds).chain(own).chain(&self.last).cloned().collect())
    }

    /// Resolves a preset with the overrides of the caller and the experiment.
    pub(super) fn preset(&self, name: &str, own: &[String]) -> Result<Spec, ReproduceError> {
        self.noted(pellucid_spec::load(name, &self.sets_with(own)?)?, Use::Work)
    }

    /// Resolves a claim's own drive description, as [`Bench::preset`] does; `name` appears in messages.
    pub(super) fn drive(&self, text: &str, name: &str, own: &[String]) -> Result<Spec, ReproduceError> {
        self.noted(pellucid_spec::from_str(text, name, &self.sets_with(own)?)?, Use::Work)
    }

    /// Resolves a description as [`Bench::drive`] does, for a drive under a key-value cache.
    pub(super) fn cache(&self, text: &str, name: &str, own: &[String]) -> Result<Spec, ReproduceError> {
        self.noted(pellucid_spec::from_str(text, name, &self.sets_with(own)?)?, Use::Kv)
    }

    /// Records which of the caller's overrides have an effect on a drive.
    fn noted(&self, spec: Spec, used: Use) -> Result<Spec, ReproduceError> {
        let mut effects = self.effects.lock().unwrap_or_else(PoisonError::into_inner);
        for set in &self.sets {
            let with =
                [Use::Claim, used].into_iter().find_map(|used| spec.set_without_effect(parts(set).0, used));
            match (with, effects.get(set)) {
                (Some(_), Some(None)) => {}
                _ => drop(effects.insert(set.clone(), with)),
            }
        }
        drop(effects);
        Ok(spec)
    }

    /// Refuses an override that has had no effect on any drive.
    ///
    /// # Errors
    /// The first such override.
    pub fn check_effects(&self) -> Result<(), ReproduceError> {
        let effects = self.effects.lock().unwrap_or_else(PoisonError::into_inner);
        let idle =
            self.sets.iter().find_map(|set| effects.get(set).copied().flatten().map(|with| (set, with)));
        idle.map_or(Ok(()), |(set, with)| Err(ReproduceError::NoEffect { set: set.clone(), with }))
    }

    /// The description of a Cosmos+ drive; the share `fill` of its capacity holds sequential data.
    pub(super) fn cosmos(&self, drive: &Cosmos, fill: f64) -> Result<Spec, ReproduceError> {
        let (channels, ways) = (drive.channels, drive.ways);
        let blocks = MEDIA_UNITS / (channels * ways * drive.mode.pages());
        let mut own = vec![
            format!("media.channels={channels}"),
            format!("media.ways={ways}"),
            format!("media.blocks={blocks}"),
            format!("precondition.fill={fill:?}"),
        ];
        own.extend_from_slice(&drive.sets);
        self.preset(drive.mode.preset(), &own)
    }

    /// Reads from a drive filled by [`Bench::fill`]. `job` in fio's words, without `rw`.
    pub(super) fn read(&self, drive: &Cosmos, rw: &str, job: &str) -> Result<Report, ReproduceError> {
        let spec = self.cosmos(drive, self.fill())?;
        let mut device = prepare(&spec, None)?;
        measure(&mut device, &spec, &format!("rw={rw},size={}m,{job}", READ_MIB / self.shorter))
    }

    /// Writes to a drive whose buffer is full, at addresses of which `fill` were written before.
    pub(super) fn write(
        &self,
        drive: &Cosmos,
        fill: f64,
        rw: &str,
        job: &str,
    ) -> Result<Report, ReproduceError> {
        let spec = self.cosmos(drive, fill)?;
        let mut device = prepare(&spec, None)?;
        measure(&mut device, &spec, WARM_UP)?;
        measure(&mut device, &spec, &format!("rw={rw},{BEHIND_WARM_UP},{job}"))
    }

    /// Sequential reads or writes.
    pub(super) fn sequential(&self, drive: &Cosmos, flow: Flow, job: &str) -> Result<Report, ReproduceError> {
        match flow {
            Flow::Read => self.read(drive, "read", job),
            Flow::Write => self.write(drive, 0.0, "write", job),
        }
    }
}

/// The key of an override, without an optional `drive.`, and its value.
fn parts(set: &str) -> (&str, &str) {
    let (key, value) = set.split_once('=').unwrap_or((set, ""));
    let key = key.trim();
    (key.strip_prefix("drive.").unwrap_or(key), value.trim())
}

/// `get_or_init` for fallible work.
pub(super) fn once<T>(
    cell: &OnceLock<T>,
    make: impl FnOnce() -> Result<T, ReproduceError>,
) -> Result<&T, ReproduceError> {
    match cell.get() {
        Some(value) => Ok(value),
        None => {
            let value = make()?;
            Ok(cell.get_or_init(|| value))
        }
    }
}

/// Runs a job on an idle drive.
pub(super) fn measure(device: &mut impl Target, spec: &Spec, job: &str) -> Result<Report, ReproduceError> {
    // Real time does not matter here.
    Ok(execute_on(device, spec, &jobs(spec, job)?, None, &|| 0.0, &mut Unwatched)?)
}

fn jobs(spec: &Spec, job: &str) -> Result<Vec<Job>, ReproduceError> {
    let spec = Spec { jobs: vec![parse_job(job, "the claim's job")], ..spec.clone() };
    Ok(experiment::jobs(&spec)?)
}
