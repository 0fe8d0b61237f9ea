//! Clients of a key-value cache, with requests from published distributions or from a trace.
//!
//! ```text
//!   set keys once, in order (not of a trace) ─► warm_up requests ─► begin ─► operations ─► report
//! ```
//! The cache stands on the drive as `[kv]` says; `pellucid kv replay` replays traces on the same cache with the same clients.

use super::place::{Place, Wish};
use super::{Settings, refused};
use crate::drive::{AppDone, Lent, RunError, Target};
use crate::kv::{CacheWork, Clients, ClientsConfig, KvRunError, KvSummary};
use pellucid_kv::{EngineKind, KvConfig, build};
use pellucid_report::{ApplicationReport, OperationReport, PartFigure};
use pellucid_workload::kv::laws::{KeySize, Popularity, ValueSize};
use pellucid_workload::kv::{OnMiss, Requests, Workload, WorkloadConfig};
use pellucid_workload::trace::TraceError;
use pellucid_workload::trace::kv::{KvReader, KvRecord};
use pellucid_workload::{AppJob, Backend, Job, JobError, KvApp};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Minimum number of keys.
const KEYS_MIN: u64 = 10;
/// A key has up to 250 bytes, as in memcached, and an item a header.
const KEY_AND_HEADER_BYTES: u64 = 320;
/// Name of the application, as in `app`.
const KV: &str = "kv";
/// Number of keys whose sizes are averaged.
const SAMPLED: u64 = 10_000;

/// Returns the place of a cache: blocks for the original engine, flash for the others.
fn place(target: &impl Target, job: &Job, config: &KvConfig) -> Result<Place, JobError> {
    let backend = backend(config);
    let found = Place::of(target, job, Wish { backend: Some(backend), by: ("app", KV) });
    // Without targets the cache takes the first namespace by itself.
    match found {
        Ok(place) if place.namespace == 0 || !target.targets().is_empty() => Ok(place),
        Err(error) if job.target.is_some() => Err(error),
        _ => {
            let allowed = format!(
                "with kv.engine = \"original\" on a block namespace or target, with policy, function, raw or direct on an open-channel one \
                 without layers or a raw target; kv.engine is \"{}\"",
                config.engine.name()
            );
            Err(JobError::Value { key: "app", value: KV.into(), allowed })
        }
    }
}

/// Returns the interface that an engine needs.
pub(super) fn backend(config: &KvConfig) -> Backend {
    if matches!(config.engine, EngineKind::Original) { Backend::Block } else { Backend::Function }
}

/// Refuses a drive that the engine cannot use.
pub(super) fn check(
    target: &impl Target,
    job: &Job,
    work: &KvApp,
    config: &KvConfig,
) -> Result<(), JobError> {
    place(target, job, config)?;
    open(work)
}

/// Refuses a trace that cannot be read.
fn open(work: &KvApp) -> Result<(), JobError> {
    let Some(path) = &work.trace else { return Ok(()) };
    let refused = |error: TraceError| JobError::Value {
        key: "requests",
        value: format!("file:{}", path.display()),
        allowed: format!("a trace of key-value requests: {error}"),
    };
    KvReader::open(path, None).map(drop).map_err(refused)
}

/// Returns the maximum bytes that the cache stores on a drive of the given size: the whole drive, or the data that all requests could set.
pub(super) fn data_bytes(drive_bytes: u64, app: &AppJob, work: &KvApp) -> u64 {
    let (Some(keys), None) = (work.keys, &work.trace) else { return drive_bytes };
    let value = match work.value_size {
        ValueSize::Fixed(bytes) => bytes,
        ValueSize::Etc { max } | ValueSize::EtcTail { max } => max,
    };
    let load = work.load.unwrap_or(keys);
    let requests =
        load.saturating_add(app.warm_up.unwrap_or(keys)).saturating_add(app.operations.unwrap_or(keys));
    drive_bytes.min(requests.saturating_mul(u64::from(value) + KEY_AND_HEADER_BYTES))
}

/// Requests until the user stops the run.
struct UntilStopped<R> {
    requests: R,
    stopped: Rc<Cell<bool>>,
}

impl<R: Requests> Requests for UntilStopped<R> {
    fn next_into(&mut self, record: &mut KvRecord) -> Result<u64, TraceError> {
        if self.stopped.get() { Ok(0) } else { self.requests.next_into(record) }
    }

    fn are_ordered_by_key(&self) -> bool {
        self.requests.are_ordered_by_key()
    }
}

/// Returns the requests, and the number of keys.
fn requests(bytes: u64, job: &Job, work: &KvApp) -> Result<(Workload, u64), RunError> {
    let config = WorkloadConfig {
        keys: KEYS_MIN,
        popularity: work.popularity,
        key_size: KeySize::Etc,
        value_size: work.value_size,
        set_share: work.set_share,
        seed: job.seed,
    };
    let refused = |allowed: String| {
        RunError::Job(JobError::Value { key: "popularity", value: popularity(work.popularity), allowed })
    };
    let keys = match work.keys {
        Some(keys) => keys,
        None => {
            let mean = Workload::new(config).map_err(refused)?.mean_bytes(SAMPLED);
            ((bytes / 2) as f64 / mean).max(KEYS_MIN as f64) as u64
        }
    };
    let made = Workload::new(WorkloadConfig { keys, ..config }).map_err(refused)?;
    Ok((made.loading(0..work.load.unwrap_or(keys)), keys))
}

/// Returns the distribution as the key states it.
fn popularity(law: Popularity) -> String {
    match law {
        Popularity::Uniform => "uniform".into(),
        Popularity::Zipf(theta) => format!("zipf:{theta}"),
        Popularity::Normal(share) => format!("normal:{}%", 100.0 * share),
        Popularity::Pareto { scale, shape } => format!("pareto:{scale}:{shape}"),
    }
}

/// Source and number of requests.
struct Plan<R> {
    requests: R,
    /// Number of keys, and of those set once before the warm-up; `None` for a trace, which has its own.
    keys: Option<(u64, u64)>,
    warm_up: u64,
    operations: u64,
}

fn settings(work: &KvApp, config: &KvConfig, keys: Option<(u64, u64)>) -> BTreeMap<String, String> {
    let mut settings = Settings(BTreeMap::new());
    settings.put("kv.engine", config.engine.name());
    settings.put("clients", work.clients);
    settings.put("think", format!("{}ns", work.think.0));
    settings.put("on_miss", work.on_miss.name());
    if let OnMiss::Query(database) = work.on_miss {
        settings.put("database_queries", database.servers);
        settings.put("database_fixed", format!("{}ns", database.fixed.0));
        settings.put("database_variable", format!("{}ns", database.variable.0));
    }
    match (keys, &work.trace) {
        (Some((keys, load)), _) => {
            settings.put("nkeys", keys);
            settings.put("load", load);
            settings.put("set_share", format!("{}%", 100.0 * work.set_share));
            settings.put("popularity", popularity(work.popularity));
            match work.value_size {
                ValueSize::Fixed(bytes) => settings.put("value_size", bytes),
                ValueSize::Etc { .. } => settings.put("value_size", "etc"),
                ValueSize::EtcTail { .. } => settings.put("value_size", "etc-tail"),
            }
        }
        (None, Some(path)) => settings.put("requests", format!("file:{}", path.display())),
        (None, None) => {}
    }
    settings.0
}

pub(crate) struct Prepared {
    job: Job,
    app: AppJob,
    work: KvApp,
    config: KvConfig,
    sector_bytes: u64,
}

pub(super) fn prepare(
    target: &impl Target,
    (job, app, work): (&Job, &AppJob, &KvApp),
    config: &KvConfig,
) -> Result<(Place, Prepared), JobError> {
    let prepared = Prepared {
        job: job.clone(),
        app: app.clone(),
        work: work.clone(),
        config: config.clone(),
        sector_bytes: target.sector_bytes().into(),
    };
    Ok((place(target, job, config)?, prepared))
}

impl Prepared {
    pub fn carry_out(self, place: Place, drive: Lent<'_>) -> Result<AppDone, RunError> {
        let Prepared { job, app, work, config, sector_bytes } = &self;
        if let Some(path) = &work.trace {
            let requests = KvReader::open(path, None).map_err(RunError::Trace)?;
            let (warm_up, operations) = (app.warm_up.unwrap_or(0), app.operations.unwrap_or(u64::MAX));
            let plan = Plan { requests, keys: None, warm_up, operations };
            return work_on(drive, (job, app, work), config, plan);
        }
        let all = place.interface.capacity_sectors() * sector_bytes;
        let bytes = if config.capacity_bytes == 0 { all } else { config.capacity_bytes.min(all) };
        let (requests, keys) = requests(bytes, job, work)?;
        let (warm_up, operations) = (app.warm_up.unwrap_or(keys), app.operations.unwrap_or(keys));
        let plan = Plan { requests, keys: Some((keys, work.load.unwrap_or(keys))), warm_up, operations };
        work_on(drive, (job, app, work), config, plan)
    }
}

/// Makes clients send their requests.
fn work_on<R: Requests>(
    drive: Lent<'_>,
    (job, app, work): (&Job, &AppJob, &KvApp),
    config: &KvConfig,
    plan: Plan<R>,
) -> Result<AppDone, RunError> {
    let failed = |why| RunError::Application(app.name(), why);
    let now = drive.now();
    let stopped = drive.stopped();
    let mut requests = UntilStopped { requests: plan.requests, stopped: stopped.clone() };
    let mut cache = build(drive, config, now)
        .map_err(|why| refused(app.name(), format!("kv.engine = {}: {why}", config.engine.name())))?;
    let KvApp { clients: count, think, on_miss, .. } = *work;
    let clients = ClientsConfig { count, think, on_miss, seed: job.seed };
    let mut clients = Clients::new(clients, cache.now());
    let mut run = |cache: &mut _, count| -> Result<KvSummary, RunError> {
        let summary = clients.run(cache, &mut requests, count).map_err(|why| match why {
            KvRunError::Trace(error) => RunError::Trace(error),
            KvRunError::Stuck => failed(why.to_string()),
        })?;
        match summary.wrong_values {
            0 => Ok(summary),
            wrong => {
                Err(failed(format!("{wrong} gets returned a value that was never stored under their key")))
            }
        }
    };
    // An interrupt may end it early.
    let before_measuring = plan.keys.map_or(0, |(_, load)| load).saturating_add(plan.warm_up);
    let warmed_up = if before_measuring > 0 { run(&mut cache, before_measuring)?.requests } else { 0 };
    cache.drive_mut().begin();
    let before = cache.statistics();
    let summary = run(&mut cache, plan.operations)?;
    if let (0, false, Some(path)) = (summary.requests, stopped.get(), &work.trace) {
        let why = format!(
            "{} has no request behind the warm-up; allowed: a longer trace, or a shorter warm_up",
            path.display()
        );
        return Err(RunError::Refused(app.name(), why));
    }
    if let (Some(asked), false, Some(path)) = (app.operations, stopped.get(), &work.trace)
        && summary.requests < asked
    {
        let why = format!(
            "operations = {asked}: {} has {} requests behind the warm-up; allowed: as many, or no operations for all of them",
            path.display(),
            summary.requests
        );
        return Err(RunError::Refused(app.name(), why));
    }
    let end = clients.now();
    let work_done = CacheWork::new(&cache.statistics(), &before);
    let own_copies = Some(("cache", work_done.copied_bytes));
    let report = ApplicationReport {
        name: app.name().into(),
        settings: settings(work, config, plan.keys),
        warm_up: warmed_up,
        ..reported(summary, work_done)
    };
    Ok(AppDone { report, own_copies, end })
}

/// Returns the report of the clients' and the cache's counters.
fn reported(summary: KvSummary, cache: CacheWork) -> ApplicationReport {
    let operations = summary.operations;
    let kinds = [
        ("hit", &operations.hit),
        ("miss", &operations.miss),
        ("store", &operations.store),
        ("fill", &operations.fill),
        ("query", &operations.query),
        // Deletes, increments and decrements of a trace.
        ("other", &operations.other),
    ];
    let kinds = kinds.into_iter().filter(|(_, latency)| latency.count > 0);
    let rate = |count: u64| if summary.seconds > 0.0 { count as f64 / summary.seconds } else { 0.0 };
    let figure = |name: &str, value| PartFigure { name: name.into(), value };
    ApplicationReport {
        operations: summary.requests,
        operations_per_second: (summary.seconds > 0.0).then(|| rate(summary.requests - summary.failed)),
        left_out: summary.failed,
        by_operation: kinds
            .map(|(name, latency)| OperationReport {
                operation: name.into(),
                per_second: rate(latency.count),
                latency: *latency,
            })
            .collect(),
        written_bytes: cache.set_bytes,
        figures: vec![
            figure("hits", operations.hit.count),
            figure("misses", operations.miss.count),
            figure("sets", cache.sets),
            figure("copied_items", cache.copied),
            figure("evicted_items", cache.evicted),
            figure("slabs_written", cache.slabs_written),
            figure("slabs_evicted", cache.slabs_evicted),
            figure("flash_written_bytes", cache.written_bytes),
            figure("flash_read_bytes", cache.read_bytes),
            figure("waits", cache.waits),
            figure("items", cache.items),
            figure("item_bytes", cache.item_bytes),
            figure("index_bytes", cache.index_bytes),
        ],
        latency: operations.request,
        pauses: cache.gc_pauses,
        ..ApplicationReport::default()
    }
}
