//! An experiment: a resolved description, carried out.
//!
//! ```text
//!  Spec ─► Device::new ─► jobs suit it? ─► precondition ─► Run ─► Report
//!            (or a prepared drive, forked)
//! ```

use crate::application;
use crate::drive::{
    self, Ageing, Beside, BlockNamespace, FileWork, Jobs, ORACLE_BYTES_PER_SECTOR, Onlooker, Oracle,
    Place as JobPlace, Places, RawSpaces, Run, RunError, Source, Target, Tenants, Trace, Unwatched,
};
use crate::steadiness;
use pellucid_device::{Device, DeviceConfig, Disk, DiskConfig, DiskStore};
use pellucid_host::{LayerConfig, Pair, TargetKind, Tower};
use pellucid_media::StoreKind;
use pellucid_output::{OutputError, OutputFile};
use pellucid_report::{HostCost, Report, RequestLog, RequestSink, Workload};
use pellucid_spec::{BackingKind, Fill, Medium, Origin, Overwrite, Place, RawJob, RawPair, Spec};
use pellucid_text::format::binary_bytes;
use pellucid_workload::trace::{ReadOptions, SectorSet, Shaped, Shaping, TraceReader, read_first};
use pellucid_workload::{AppJob, Dialect, Job, JobBuilder, JobError, check_flows, check_wait, expand};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// Why an experiment failed.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// Neither a job nor a trace is given.
    #[error("nothing to do: give a [[job]], a trace ([run] trace), or workload options")]
    NoWork,
    /// A job of the description is not allowed.
    #[error("{place}: {error}")]
    Job {
        /// Position of the job.
        place: String,
        /// Why the job is refused.
        error: JobError,
    },
    /// Preconditioning by a trace was requested, and there are only jobs.
    #[error(
        "precondition trace: there is no trace, only jobs; allowed: none, fill or steady, or a trace to replay"
    )]
    NoTrace,
    /// `run.verify` with jobs on chunks or zones.
    #[error("run.verify: allowed: false with rw = {pattern}; only sectors of block namespaces are checked")]
    Verify {
        /// Pattern of such a job.
        pattern: &'static str,
    },
    /// A key of `[run]` does not apply to an application.
    #[error("{key}: allowed with app = {app}: {allowed}")]
    Application {
        /// The key.
        key: &'static str,
        /// The application.
        app: &'static str,
        /// Allowed value, with the reason.
        allowed: &'static str,
    },
    /// An application cannot start as requested.
    #[error("{place}: app = {app}: {why}")]
    Refused {
        /// Position of `app`.
        place: String,
        /// The application.
        app: &'static str,
        /// Sentence with what is allowed.
        why: String,
    },
    /// An application would write more data than this machine can hold.
    #[error(
        "app = {app}: its data will take {} of memory, of which the machine has {} available; allowed: a smaller size, fewer keys or edges, or \
         a smaller drive (media.blocks)",
        binary_bytes(*.needed as f64),
        binary_bytes(*.available as f64)
    )]
    Memory {
        /// The application.
        app: &'static str,
        /// Bytes required.
        needed: u64,
        /// Bytes available.
        available: u64,
    },
    /// A target for an application has no application.
    #[error(
        "target {target}: kind: allowed: application where one job with app works on it, and no other; raw or block for other jobs"
    )]
    ForApplication {
        /// The target.
        target: String,
    },
    /// A target was to be filled, though its application writes everything on it.
    #[error("target {target}: fill: allowed: 0 with app = {app}, which writes its own data to the flash")]
    FilledFlash {
        /// The target.
        target: String,
        /// The application.
        app: &'static str,
    },
    /// `run.format` names no trace format.
    #[error("run.format: {0}")]
    Format(String),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An output could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Returns the jobs of a description.
pub fn jobs(spec: &Spec) -> Result<Vec<Job>, ExperimentError> {
    let mut jobs = Vec::new();
    for (raw, number) in spec.jobs.iter().zip(1..) {
        let mut builder = JobBuilder::new(Dialect::Native);
        builder.set("name", &format!("job{number}")).map_err(|error| refused(&raw.place, error))?;
        builder.begin_at(raw.place.to_string());
        builder.set("randseed", &spec.run.seed.to_string()).map_err(|error| refused(&raw.place, error))?;
        for pair in &raw.pairs {
            let place = &pair.origin.place;
            builder
                .set_at(&place.to_string(), &pair.key, &pair.value)
                .map_err(|error| refused(place, error))?;
        }
        let job = builder.build().map_err(|error| refused(place_of(raw, &error), error))?;
        check_wait(&jobs, &job).map_err(|error| refused(place_of(raw, &error), error))?;
        jobs.push(job);
    }
    check_flows(&jobs).map_err(|(at, error)| refused(place_of(&spec.jobs[at], &error), error))?;
    Ok(expand(jobs))
}

/// Returns where the key of an error was written last, otherwise where the job begins.
fn place_of<'a>(raw: &'a RawJob, error: &JobError) -> &'a Place {
    let Some(key) = error.key() else { return &raw.place };
    let own = raw.pairs.iter().rev().find(|pair| pair.key.replace('-', "_") == key);
    own.map_or(&raw.place, |pair| &pair.origin.place)
}

/// Sets one key in every job of a description, as `--KEY VALUE` does; adds a job if there is none.
pub fn set_in_jobs(spec: &mut Spec, key: &str, value: &str) {
    let pair = option_pair(&key.replace('_', "-"), key, value);
    if spec.jobs.is_empty() {
        spec.jobs.push(RawJob { place: pair.origin.place.clone(), pairs: Vec::new() });
    }
    for job in &mut spec.jobs {
        job.pairs.push(pair.clone());
    }
}

/// Makes a job from text such as `rw=randrw,bs=4k,16k,iodepth=8`: keys separated by commas; a part without `=` continues the value before it.
/// `option` is the text's position in messages.
pub fn parse_job(text: &str, option: &str) -> RawJob {
    let mut pairs: Vec<RawPair> = Vec::new();
    for part in text.split(',') {
        match (part.split_once('='), pairs.last_mut()) {
            (Some((key, value)), _) => pairs.push(option_pair(option, key.trim(), value)),
            (None, Some(last)) => {
                last.value.push(',');
                last.value.push_str(part);
            }
            (None, None) => pairs.push(option_pair(option, part.trim(), "")),
        }
    }
    RawJob { place: Place::Option { name: option.into() }, pairs }
}

fn option_pair(option: &str, key: &str, value: &str) -> RawPair {
    let origin = Origin { place: Place::Option { name: option.into() }, comment: None };
    RawPair { key: key.into(), value: value.into(), origin }
}

fn refused(place: &Place, error: JobError) -> ExperimentError {
    ExperimentError::Job { place: place.to_string(), error }
}

/// Makes the drive of a description and preconditions it.
pub fn prepare(spec: &Spec, mut oracle: Option<&mut Oracle>) -> Result<Device, RunError> {
    let mut device = Device::new(&spec.drive).map_err(RunError::Device)?;
    drive::precondition(&mut device, &spec.precondition, oracle.take(), &mut Unwatched)?;
    Ok(device)
}

/// A preconditioned drive.
pub struct Aged {
    /// The drive.
    pub device: Device,
    /// Addressable bytes of the drive, or of the layers on it.
    pub capacity_bytes: u64,
    /// Overwriting of each filled namespace.
    pub ageing: Vec<Ageing>,
}

/// Makes the drive of a description and preconditions it, through its layers if it has any. The layers are then stopped, so that everything is on the
/// drive.
pub fn age(spec: &Spec, onlooker: &mut dyn Onlooker) -> Result<Aged, RunError> {
    let mut device = Device::new(&spec.drive).map_err(RunError::Device)?;
    if spec.host.is_empty() {
        let capacity_bytes = device.capacity_bytes();
        let ageing = drive::precondition(&mut device, &spec.precondition, None, onlooker)?;
        return Ok(Aged { device, capacity_bytes, ageing });
    }
    let mut stack = stack(spec, device)?;
    let ageing = drive::precondition_stack(&mut stack, &spec.precondition, None, onlooker)?;
    stack.stop().map_err(RunError::Host)?;
    let capacity_bytes = stack.capacity_bytes();
    Ok(Aged { device: stack.into_bottom(), capacity_bytes, ageing: vec![ageing] })
}

/// Puts the layers or the targets of a description on a drive.
pub fn stack(spec: &Spec, device: Device) -> Result<Tower<Device>, RunError> {
    if !spec.targets.is_empty() {
        return drive::put_targets_on(&spec.targets, &spec.host_ftl, device);
    }
    drive::put_on(&spec.host, device).map_err(RunError::Layers)
}

/// Returns an oracle for a drive of this size, if the description requests one; `in_use`: earlier runs have written to the drive.
fn oracle(spec: &Spec, target: &impl Target, in_use: bool) -> Option<Oracle> {
    let sectors = target.block_namespaces().iter().map(|namespace| namespace.sectors).sum();
    let make = if in_use { Oracle::of_unknown } else { Oracle::new };
    spec.run.verify.then(|| make(sectors))
}

/// Executes a description from the beginning. `jobs` is the work, unless the description names a trace.
pub fn execute(
    spec: &Spec,
    jobs: &[Job],
    clock: &dyn Fn() -> f64,
    onlooker: &mut dyn Onlooker,
) -> Result<(Device, Report), ExperimentError> {
    // Checked before the drive is filled.
    let log = claim_log(spec)?;
    check_memory(spec, jobs)?;
    let in_use = matches!(&spec.drive.media.store, StoreKind::File(path) if path.exists());
    let mut device = Device::new(&config(spec, jobs)).map_err(RunError::Device)?;
    check_verify(spec, jobs)?;
    if !spec.targets.is_empty() {
        return execute_on_targets(spec, device, in_use, jobs, log, clock, onlooker);
    }
    if !spec.host.is_empty() {
        let is_filled = spec.precondition.overwrite == Overwrite::Capacities(0.0);
        let below = if is_filled { LayerConfig::is_filled_below } else { LayerConfig::keeps_addresses };
        if spec.host.iter().all(below) {
            return execute_below(spec, device, in_use, jobs, log, clock, onlooker);
        }
        let mut stack = stack(spec, device)?;
        check_jobs(&stack, spec, jobs)?;
        let spec = &*filled_for_files(spec, jobs, &stack);
        let mut oracle = oracle(spec, &stack, in_use);
        if let Some(sectors) = wanted(&stack, spec)? {
            drive::precondition_sectors_stack(&mut stack, &sectors, oracle.as_mut(), onlooker)?;
        }
        drive::precondition_stack(&mut stack, &spec.precondition, oracle.as_mut(), onlooker)?;
        let report = measure(&mut stack, spec, jobs, oracle, log, clock, onlooker)?;
        return Ok((bottom_of(stack, spec), report));
    }
    check_jobs(&device, spec, jobs)?;
    check_overwrite(spec, &device)?;
    let spec = &*filled_for_files(spec, jobs, &device);
    let mut oracle = oracle(spec, &device, in_use);
    precondition_by_trace(&mut device, spec, oracle.as_mut(), onlooker)?;
    precondition_plain(&mut device, spec, jobs, oracle.as_mut(), onlooker)?;
    let report = measure(&mut device, spec, jobs, oracle, log, clock, onlooker)?;
    Ok((device, report))
}

/// Like [`execute`], for layers below which the drive can be preconditioned directly.
fn execute_below(
    spec: &Spec,
    mut device: Device,
    in_use: bool,
    jobs: &[Job],
    log: Option<OutputFile>,
    clock: &dyn Fn() -> f64,
    onlooker: &mut dyn Onlooker,
) -> Result<(Device, Report), ExperimentError> {
    check_jobs(&device, spec, jobs)?;
    let spec = &*filled_for_files(spec, jobs, &device);
    let mut oracle = oracle(spec, &device, in_use);
    precondition_by_trace(&mut device, spec, oracle.as_mut(), onlooker)?;
    drive::precondition(&mut device, &spec.precondition, oracle.as_mut(), onlooker)?;
    let mut stack = stack(spec, device)?;
    let report = measure(&mut stack, spec, jobs, oracle, log, clock, onlooker)?;
    Ok((stack.into_bottom(), report))
}

/// Executes a description with targets on its drive.
fn execute_on_targets(
    spec: &Spec,
    device: Device,
    in_use: bool,
    jobs: &[Job],
    log: Option<OutputFile>,
    clock: &dyn Fn() -> f64,
    onlooker: &mut dyn Onlooker,
) -> Result<(Device, Report), ExperimentError> {
    let spec = &*settled(spec, jobs)?;
    let mut tower = stack(spec, device)?;
    check_jobs(&tower, spec, jobs)?;
    check_overwrite(spec, &tower)?;
    let spec = &*filled_targets(spec, jobs, &tower);
    let mut oracle = oracle(spec, &tower, in_use);
    if let Some(sectors) = wanted(&tower, spec)? {
        drive::precondition_sectors_stack(&mut tower, &sectors, oracle.as_mut(), onlooker)?;
    }
    let (targets, what) = (&spec.targets, &spec.precondition);
    drive::precondition_targets(&mut tower, targets, what, oracle.as_mut(), onlooker)?;
    let report = measure(&mut tower, spec, jobs, oracle, log, clock, onlooker)?;
    Ok((bottom_of(tower, spec), report))
}

/// Returns the drive below everything else. Media in a file remain as an image that may be started from again; a drive that cannot write its map is
/// then found as after a power cut.
fn bottom_of(mut tower: Tower<Device>, spec: &Spec) -> Device {
    if matches!(spec.drive.media.store, StoreKind::File { .. }) {
        let _ = tower.stop();
    }
    tower.into_bottom()
}

/// Refuses to verify chunks and zones that jobs address, as the oracle does not cover them.
fn check_verify(spec: &Spec, jobs: &[Job]) -> Result<(), ExperimentError> {
    match jobs.iter().find(|job| job.raw.is_some()) {
        Some(job) if spec.run.verify && spec.run.trace.is_none() => {
            Err(ExperimentError::Verify { pattern: job.pattern_name() })
        }
        _ => Ok(()),
    }
}

/// Preconditions a drive without layers: its block namespaces, and those of chunks or zones that jobs address.
fn precondition_plain(
    device: &mut Device,
    spec: &Spec,
    jobs: &[Job],
    oracle: Option<&mut Oracle>,
    onlooker: &mut dyn Onlooker,
) -> Result<(), ExperimentError> {
    let raw = Places::of(device).used_raw(&without_applications(jobs)).map_err(RunError::Job)?;
    // An application on flash writes everything it needs there.
    let asked = !jobs.iter().any(|job| job.app.is_some()) || spec.precondition.fill != Fill::Share(0.0);
    if device.block_namespaces().next().is_some() || raw.is_empty() && asked {
        drive::precondition(device, &spec.precondition, oracle, onlooker)?;
    }
    for namespace in raw {
        drive::fill_raw_alone(device, namespace, spec.precondition.fill.share(), onlooker)?;
    }
    Ok(())
}

/// Executes a description from the beginning, on a flash drive, a disk, or both. Returns the flash drive, unless layers use it together with a disk.
pub fn execute_described(
    spec: &Spec,
    jobs: &[Job],
    clock: &dyn Fn() -> f64,
    onlooker: &mut dyn Onlooker,
) -> Result<(Option<Device>, Report), ExperimentError> {
    if spec.medium == Medium::Disk {
        return Ok((None, execute_on_disk(spec, jobs, clock, onlooker)?));
    }
    if spec.backing.kind == BackingKind::Disk {
        return Ok((None, execute_with_backing(spec, jobs, clock, onlooker)?));
    }
    let (device, report) = execute(spec, jobs, clock, onlooker)?;
    Ok((Some(device), report))
}

/// Returns whether the description leaves the fill to the default.
fn is_fill_by_default(spec: &Spec) -> bool {
    let entry = spec.provenance.get("precondition.fill");
    entry.is_none_or(|entry| entry.origin.place == Place::Default)
}

/// Returns the description with a fresh drive filled as far as its in-place file system extends, because a file server's files exist from the
/// beginning, on the media too; any other description unchanged.
fn filled_for_files<'a>(spec: &'a Spec, jobs: &[Job], target: &impl Target) -> Cow<'a, Spec> {
    let capacity_bytes = target.capacity_bytes();
    let apps = jobs.iter().filter(|_| spec.run.trace.is_none()).filter_map(|job| job.app.as_ref());
    let bytes = apps.filter_map(|app| application::in_place_bytes(app, capacity_bytes)).max();
    let Some(bytes) =
        bytes.filter(|_| is_fill_by_default(spec) && spec.precondition.fill == Fill::Share(0.0))
    else {
        return Cow::Borrowed(spec);
    };
    let mut spec = spec.clone();
    let one = target.block_namespaces().len() == 1;
    let percent = (100.0 * bytes as f64 / target.capacity_bytes().max(1) as f64).ceil();
    spec.precondition.fill = Fill::Share(if one { percent.min(100.0) / 100.0 } else { 1.0 });
    Cow::Owned(spec)
}

/// Makes a replay first write the sectors that its trace reads before writing, unless the description states the fill.
pub fn fill_for_replay(spec: &mut Spec) {
    if spec.run.trace.is_some() && is_fill_by_default(spec) {
        spec.precondition.fill = Fill::Trace;
    }
}

/// Executes a description on its disk, below its layers if it has any.
pub fn execute_on_disk(
    spec: &Spec,
    jobs: &[Job],
    clock: &dyn Fn() -> f64,
    onlooker: &mut dyn Onlooker,
) -> Result<Report, ExperimentError> {
    let log = claim_log(spec)?;
    let mut disk = disk(spec, jobs)?;
    if spec.host.is_empty() {
        check_jobs(&disk, spec, jobs)?;
        let oracle = oracle(spec, &disk, false);
        return measure(&mut disk, spec, jobs, oracle, log, clock, onlooker);
    }
    let mut stack = drive::put_on(&spec.host, disk).map_err(RunError::Layers)?;
    check_jobs(&stack, spec, jobs)?;
    let oracle = oracle(spec, &stack, false);
    measure(&mut stack, spec, jobs, oracle, log, clock, onlooker)
}

/// Executes a description with a backing store: its layers use the flash drive and the disk.
pub fn execute_with_backing(
    spec: &Spec,
    jobs: &[Job],
    clock: &dyn Fn() -> f64,
    onlooker: &mut dyn Onlooker,
) -> Result<Report, ExperimentError> {
    let log = claim_log(spec)?;
    check_memory(spec, jobs)?;
    let mut tower = with_backing(spec, jobs, onlooker)?;
    check_jobs(&tower, spec, jobs)?;
    let oracle = oracle(spec, &tower, false);
    measure(&mut tower, spec, jobs, oracle, log, clock, onlooker)
}

/// Builds the flash drive and the disk of a description, below its layers. The drive is preconditioned directly, before the layers start: its
/// contents come from earlier work and mean nothing to the layers. A disk is not preconditioned, because its times do not depend on its contents.
fn with_backing(
    spec: &Spec,
    jobs: &[Job],
    onlooker: &mut dyn Onlooker,
) -> Result<Tower<Pair<Device, Disk>>, RunError> {
    let mut device = Device::new(&config(spec, jobs)).map_err(RunError::Device)?;
    drive::precondition(&mut device, &spec.precondition, None, onlooker)?;
    let now = device.now();
    let pair = Pair::new(device, disk(spec, jobs)?, now).map_err(RunError::Layers)?;
    drive::put_on(&spec.host, pair).map_err(RunError::Layers)
}

/// Builds the disk of a description. It stores the same data per sector as the flash drive beside it.
fn disk(spec: &Spec, jobs: &[Job]) -> Result<Disk, RunError> {
    let drive = config(spec, jobs);
    let store = match drive.media.store {
        StoreKind::None => DiskStore::Stamps,
        StoreKind::Unstamped => DiskStore::Nothing,
        StoreKind::Ram | StoreKind::File(_) => DiskStore::Ram,
    };
    Disk::new(&DiskConfig { store, ..spec.backing.disk.clone() }).map_err(RunError::Layers)
}

/// If the description requests it, writes the sectors that its trace reads before writing, unless they already have data.
pub fn precondition_by_trace(
    device: &mut Device,
    spec: &Spec,
    oracle: Option<&mut Oracle>,
    onlooker: &mut dyn Onlooker,
) -> Result<(), ExperimentError> {
    if let Some(sectors) = wanted(device, spec)? {
        drive::precondition_sectors(device, &sectors, oracle, onlooker)?;
    }
    Ok(())
}

/// Collects the sectors that the trace reads before writing, if preconditioning needs them: a first pass over the trace.
fn wanted(target: &impl Target, spec: &Spec) -> Result<Option<SectorSet>, ExperimentError> {
    match (spec.precondition.fill, &spec.run.trace) {
        (Fill::Share(_), _) => Ok(None),
        (Fill::Trace, None) => Err(ExperimentError::NoTrace),
        (Fill::Trace, Some(path)) => {
            let (trace, _) = open_trace(target, spec, path)?;
            let sectors = read_first(trace, target.sector_bytes());
            Ok(Some(sectors.map_err(RunError::Trace)?))
        }
    }
}

/// Returns the configuration that a run needs: without stamps if nothing reads them (host layers store their own records on the media), with data if
/// an application reads back its writes.
fn config(spec: &Spec, jobs: &[Job]) -> DeviceConfig {
    let mut config = spec.drive.clone();
    if config.media.store == StoreKind::None && application::needs_data(jobs) {
        config.media.store = StoreKind::Ram;
    }
    if config.media.store == StoreKind::None && !spec.run.verify && !spec.has_host() {
        config.media.store = StoreKind::Unstamped;
    }
    config
}

/// Executes the work of a description on a drive at rest. `clock` gives seconds of real time.
pub fn execute_on(
    device: &mut impl Target,
    spec: &Spec,
    jobs: &[Job],
    oracle: Option<Oracle>,
    clock: &dyn Fn() -> f64,
    onlooker: &mut dyn Onlooker,
) -> Result<Report, ExperimentError> {
    measure(device, spec, jobs, oracle, claim_log(spec)?, clock, onlooker)
}

fn measure(
    device: &mut impl Target,
    spec: &Spec,
    jobs: &[Job],
    oracle: Option<Oracle>,
    mut file: Option<OutputFile>,
    clock: &dyn Fn() -> f64,
    onlooker: &mut dyn Onlooker,
) -> Result<Report, ExperimentError> {
    let apps = applications_of(spec, jobs)?;
    let log = file.as_ref().map(log_on).transpose()?;
    let logs = log.into_iter().chain(onlooker.log()).collect();
    let began = clock();
    let (measured, summary) = match apps[..] {
        [app] if jobs.len() == 1 && device.targets().is_empty() => {
            check_jobs(device, spec, jobs)?;
            (application::measure(device, app, &spec.kv, logs, onlooker), jobs_summary(jobs))
        }
        [] => {
            let (source, summary) = source(device, spec, jobs)?;
            let run = Run::new(device, source, oracle, logs).until_steady(spec.run.steady.as_ref());
            (run.run(onlooker), summary)
        }
        _ => {
            check_jobs(device, spec, jobs)?;
            let source = beside(device, spec, jobs)?;
            (Run::new(device, source, None, logs).run(onlooker), jobs_summary(jobs))
        }
    };
    let measured = measured.map_err(|error| match (error, &file) {
        (RunError::Log(error), Some(file)) => ExperimentError::Output(file.failed(error)),
        (RunError::Job(error), _) => placed(jobs, error),
        (RunError::Refused(app, why), _) => match place_of_app(jobs, app) {
            Some(place) => ExperimentError::Refused { place: place.into(), app, why },
            None => RunError::Refused(app, why).into(),
        },
        (error, _) => error.into(),
    })?;
    file.as_mut().map_or(Ok(()), OutputFile::commit)?;
    let cost = HostCost::new(measured.requests.requests, clock() - began, peak_memory_bytes());
    let seeds = seeds(spec, jobs);
    let workload = Workload {
        summary,
        command_line: String::new(),
        precondition: precondition_words(spec, device, jobs),
    };
    let fill = spec.precondition.fill;
    let mut report = drive::report(device, measured, &spec.drive_name, workload, seeds, Some(cost), fill);
    report.warnings.extend(steadiness::warning(spec, jobs, &report));
    Ok(report)
}

/// Returns where the application of this name was written.
fn place_of_app<'a>(jobs: &'a [Job], name: &str) -> Option<&'a str> {
    let found = jobs.iter().find(|job| job.app.as_ref().is_some_and(|app| app.name() == name))?;
    found.written.place_of("app")
}

/// Returns the jobs that are not applications.
fn without_applications(jobs: &[Job]) -> Vec<Job> {
    jobs.iter().filter(|job| job.app.is_none()).cloned().collect()
}

/// Returns the applications among the jobs of a description, if they are the work.
fn applications_of<'a>(spec: &Spec, jobs: &'a [Job]) -> Result<Vec<(&'a Job, &'a AppJob)>, ExperimentError> {
    if spec.run.trace.is_some() {
        return Ok(Vec::new());
    }
    let found: Vec<_> = jobs.iter().filter_map(|job| Some((job, job.app.as_ref()?))).collect();
    let Some((_, app)) = found.first() else { return Ok(found) };
    let alone = |key, allowed| Err(ExperimentError::Application { key, app: app.name(), allowed });
    if spec.run.verify {
        return alone("run.verify", "false: the application knows by itself what it wrote");
    }
    if spec.run.steady.is_some() {
        return alone("run.steady_state", "off: its operations end it");
    }
    Ok(found)
}

/// Makes a source of applications and the jobs beside them.
fn beside(device: &mut impl Target, spec: &Spec, jobs: &[Job]) -> Result<Source, ExperimentError> {
    let others = without_applications(jobs);
    let places = Places::of(device);
    let raw = places.used_raw(&others).map_err(RunError::Job)?;
    let spaces = RawSpaces::survey(device, &raw)?;
    let others = Jobs::new(&others, &places, spaces, device.sector_bytes()).map_err(RunError::Job)?;
    let mut tenants = Vec::new();
    for (job, app) in applications_of(spec, jobs)? {
        let prepared = application::prepare(device, (job, app), &spec.kv).map_err(RunError::Job)?;
        tenants.push(application::tenant(prepared, job));
    }
    let tenants = Tenants::new(tenants, device)?;
    Ok(Source::Beside(Box::new(Beside { jobs: others, tenants })))
}

/// Returns the description with each target set up for its application, and with the space of in-place file systems there filled.
///
/// # Errors
/// A target for an application has none, or other jobs.
fn settled<'a>(spec: &'a Spec, jobs: &[Job]) -> Result<Cow<'a, Spec>, ExperimentError> {
    if spec.run.trace.is_some() || !spec.targets.iter().any(|one| one.for_application) {
        return Ok(Cow::Borrowed(spec));
    }
    let mut spec = spec.clone();
    for described in spec.targets.iter_mut().filter(|one| one.for_application) {
        let name = described.target.name.clone();
        let own = jobs.iter().filter(|job| job.target.as_ref() == Some(&name));
        let [job] = own.collect::<Vec<_>>()[..] else {
            return Err(ExperimentError::ForApplication { target: name });
        };
        let Some(app) = &job.app else { return Err(ExperimentError::ForApplication { target: name }) };
        if application::needs_blocks(app, &spec.kv) {
            described.target.kind = TargetKind::Block;
        } else if described.fill.is_some_and(|share| share > 0.0) {
            return Err(ExperimentError::FilledFlash { target: name, app: app.name() });
        } else {
            // The application writes everything it needs.
            described.fill = Some(0.0);
        }
    }
    Ok(Cow::Owned(spec))
}

/// Returns the description with targets filled as far as their in-place file systems extend: the files exist from the beginning.
fn filled_targets<'a>(spec: &'a Spec, jobs: &[Job], tower: &impl Target) -> Cow<'a, Spec> {
    if !is_fill_by_default(spec) || spec.run.trace.is_some() {
        return Cow::Borrowed(spec);
    }
    let mut filled = Cow::Borrowed(spec);
    for place in tower.targets() {
        let own = jobs.iter().filter(|job| job.target.as_ref() == Some(&place.name));
        let Some(app) = own.filter_map(|job| job.app.as_ref()).next() else { continue };
        let sectors = tower.interface(place.namespace).map_or(0, |shape| shape.capacity_sectors());
        let all = sectors * u64::from(tower.sector_bytes());
        let Some(bytes) = application::in_place_bytes(app, all) else { continue };
        let one = filled.to_mut().targets.iter_mut().find(|one| one.target.name == place.name);
        if let Some(one) = one.filter(|one| one.fill.is_none()) {
            one.fill = Some((100.0 * bytes as f64 / all.max(1) as f64).ceil().min(100.0) / 100.0);
        }
    }
    filled
}

/// Refuses applications whose data exceed this machine's memory, before the drive that stores the data is made.
fn check_memory(spec: &Spec, jobs: &[Job]) -> Result<(), ExperimentError> {
    let apps = applications_of(spec, jobs)?;
    let Some((_, first)) = apps.iter().find(|(_, app)| app.needs_data()) else { return Ok(()) };
    let mut config = config(spec, jobs);
    if config.media.store != StoreKind::Ram || spec.medium == Medium::Disk {
        return Ok(());
    }
    config.media.store = StoreKind::Unstamped;
    let drive = Device::new(&config).map_err(RunError::Device)?;
    let all = application::capacity_bytes(&drive);
    let room = |job: &Job| {
        let named = spec.targets.iter().find(|one| Some(&one.target.name) == job.target.as_ref());
        named.map_or(all, |one| all / u64::from(drive.layout().dies) * one.target.units.len() as u64)
    };
    let needed: u64 = apps
        .iter()
        .filter(|(_, app)| app.needs_data())
        .map(|(job, app)| application::data_bytes(room(job), app))
        .fold(0, u64::saturating_add);
    match available_memory_bytes().filter(|&available| available < needed) {
        Some(available) => Err(ExperimentError::Memory { app: first.name(), needed, available }),
        None => Ok(()),
    }
}

/// Places the error of a key at that key in the first job that has it.
fn placed(jobs: &[Job], error: JobError) -> ExperimentError {
    let Some(key) = error.key() else { return RunError::Job(error).into() };
    let written = |job: &&Job| job.written.has(key) || job.written.place_of(key).is_some();
    let place = jobs.iter().filter(written).max_by_key(|job| job.written.has(key));
    match place.and_then(|job| job.written.place_of(key)) {
        Some(place) => ExperimentError::Job { place: place.into(), error },
        None => RunError::Job(error).into(),
    }
}

/// Describes the state of the drive before the run.
fn precondition_words(spec: &Spec, drive: &impl Target, jobs: &[Job]) -> String {
    let raw = spec.targets.iter().any(|one| one.target.kind == TargetKind::Raw);
    let overwritten = spec.precondition.overwrite != Overwrite::Capacities(0.0);
    if overwritten && spec.targets.is_empty() && jobs.iter().any(|job| job.raw.is_some()) {
        return format!("{}; chunks and zones filled, not overwritten", spec.precondition.words());
    }
    if spec.targets.iter().all(|one| one.fill.is_none()) && !(raw && overwritten) {
        return spec.precondition.words();
    }
    // Targets with the same preconditioning share an entry.
    let mut all: Vec<(Vec<String>, String)> = Vec::new();
    for target in drive.targets() {
        let described = spec.targets.iter().find(|one| one.target.name == target.name);
        let own = described.and_then(|one| one.fill).map(Fill::Share);
        let mut what = spec.precondition.clone();
        what.fill = own.unwrap_or(what.fill);
        if target.kind == TargetKind::Raw {
            what.overwrite = Overwrite::Capacities(0.0);
        }
        let words = what.words();
        match all.iter_mut().find(|(_, others)| *others == words) {
            _ if words == "none" => {}
            Some((names, _)) => names.push(target.name),
            None => all.push((vec![target.name], words)),
        }
    }
    let each = all.into_iter().map(|(names, words)| format!("{} {words}", names.join(", ")));
    match each.collect::<Vec<_>>().join("; ") {
        nothing if nothing.is_empty() => "none".into(),
        words => words,
    }
}

/// Refuses overwrites if everything is raw: chunks and zones are only filled.
fn check_overwrite(spec: &Spec, drive: &impl Target) -> Result<(), RunError> {
    let overwritten = spec.precondition.overwrite != Overwrite::Capacities(0.0);
    if overwritten && drive.block_namespaces().is_empty() && !drive.raw_namespaces().is_empty() {
        return Err(RunError::NoOverwrite);
    }
    Ok(())
}

/// Returns the seeds of the run, numbered where jobs have different ones.
fn seeds(spec: &Spec, jobs: &[Job]) -> BTreeMap<String, u64> {
    let mut seeds = BTreeMap::from([
        ("media".to_string(), spec.drive.media.seed),
        ("ftl".to_string(), spec.drive.ftl.seed),
        ("precondition".to_string(), spec.precondition.seed),
    ]);
    let first = jobs.first().map_or(spec.run.seed, |job| job.seed);
    if jobs.iter().all(|job| job.seed == first) {
        seeds.insert("workload".to_string(), first);
        return seeds;
    }
    seeds.extend(jobs.iter().enumerate().map(|(at, job)| (format!("job {}", at + 1), job.seed)));
    seeds
}

fn source(device: &mut impl Target, spec: &Spec, jobs: &[Job]) -> Result<(Source, String), ExperimentError> {
    let sector_bytes = device.sector_bytes();
    let Some(path) = &spec.run.trace else {
        if jobs.is_empty() {
            return Err(ExperimentError::NoWork);
        }
        check_jobs(device, spec, jobs)?;
        if let Some(work) = file_work(device, jobs)? {
            return Ok((Source::Files(Box::new(work)), jobs_summary(jobs)));
        }
        let places = Places::of(device);
        let raw = places.used_raw(jobs).map_err(RunError::Job)?;
        let spaces = RawSpaces::survey(device, &raw)?;
        let source = Jobs::new(jobs, &places, spaces, sector_bytes).map_err(RunError::Job)?;
        return Ok((Source::Jobs(source), jobs_summary(jobs)));
    };
    let (shaped, summary) = open_trace(device, spec, path)?;
    let queues = device.queues();
    let trace = Trace::new(shaped, traced(device), spec.run.closed_loop, sector_bytes, queues);
    Ok((Source::Trace(Box::new(trace)), summary))
}

/// Returns the namespace that a trace is replayed into: the first.
fn traced(target: &impl Target) -> BlockNamespace {
    target.block_namespaces().first().copied().unwrap_or_default()
}

/// Returns the trace of a description, shaped for the drive, and its name with its format.
fn open_trace(target: &impl Target, spec: &Spec, path: &Path) -> Result<(Shaped, String), ExperimentError> {
    let sector_bytes = target.sector_bytes();
    let options = read_options(spec)?;
    let name = path.display().to_string();
    let held_by = spec.run.trace_copy.clone().unwrap_or(path.into());
    let reopen = move || TraceReader::open_copy(&name, &held_by, &options);
    let reader = reopen().map_err(RunError::Trace)?;
    let mut shaping = Shaping::new(traced(target).sectors * u64::from(sector_bytes), sector_bytes);
    shaping.time_scale = spec.run.time_scale;
    shaping.addresses = spec.run.address;
    shaping.stream = spec.run.stream;
    shaping.limit = spec.run.limit;
    let summary = format!("{} ({})", path.display(), reader.format());
    let shaped = reader.shaped(shaping).map_err(RunError::Trace)?;
    match spec.run.repeat {
        1 => Ok((shaped, summary)),
        times => Ok((shaped.repeated(times, Box::new(reopen)), format!("{summary}, {times} times"))),
    }
}

/// Returns the options for reading the trace of a description.
pub fn read_options(spec: &Spec) -> Result<ReadOptions, ExperimentError> {
    let named = spec.run.format.as_deref().map(ReadOptions::named).transpose();
    Ok(named.map_err(|error| ExperimentError::Format(error.to_string()))?.unwrap_or_default())
}

/// Refuses jobs that do not suit the drive, with the position of the key; checks none if the work is a trace.
fn check_jobs(target: &impl Target, spec: &Spec, jobs: &[Job]) -> Result<(), ExperimentError> {
    if spec.run.trace.is_some() {
        return Ok(());
    }
    let queues = target.queues();
    let places = Places::of(target);
    let in_bytes = |job: &Job| job.app.is_none() && job.raw.is_none();
    if target.capacity_bytes() == 0 && !spec.host.is_empty() && jobs.iter().any(in_bytes) {
        return Err(RunError::Layers(no_block_drive(target.interface(0))).into());
    }
    for job in jobs {
        let suits = match (&job.app, job.queue < queues) {
            (Some(app), _) => application::check(target, job, app, &spec.kv),
            (None, true) => Jobs::check(job, &places, target.sector_bytes()),
            (None, false) => {
                let allowed = format!("0 to {}", queues - 1);
                Err(JobError::Value { key: "queue", value: job.queue.to_string(), allowed })
            }
        };
        suits.map_err(|error| placed(std::slice::from_ref(job), error))?;
    }
    application::check_beside(target, jobs, &spec.kv).map_err(|error| placed(jobs, error))
}

/// Returns the message that layers offer no block drive.
fn no_block_drive(offered: Option<pellucid_flash::Interface>) -> String {
    let offered = offered.map_or("none", |interface| interface.name());
    format!(
        "host.layers: the uppermost layer offers a namespace of the kind {offered}, and no block drive to run a workload on; allowed: a layer above it that \
         makes one (cache, host-ftl, nameless-file), or a drive with a block namespace"
    )
}

/// Returns the threads of a file-server job, which must be the only job.
fn file_work(target: &impl Target, jobs: &[Job]) -> Result<Option<FileWork>, ExperimentError> {
    let Some(job) = jobs.iter().find(|job| job.files.is_some()) else { return Ok(None) };
    let Some(config) = job.file_set() else { return Ok(None) };
    let refuse = |key, value: &str, allowed: String| {
        Err(RunError::Job(JobError::Value { key, value: value.into(), allowed }).into())
    };
    let name = config.personality.name();
    if jobs.len() > 1 {
        return refuse("rw", name, "a job alone, where threads work on files".into());
    }
    let namespace = match Places::of(target).place(job).map_err(RunError::Job)? {
        JobPlace::Block(namespace) => namespace,
        JobPlace::Raw(_) => unreachable!("a job on files is no job on chunks"),
    };
    match FileWork::new(&config, namespace, target.sector_bytes(), job.queue) {
        Ok(work) => Ok(Some(work)),
        Err(sentence) => refuse("rw", name, sentence),
    }
}

/// Describes the jobs in one line.
pub fn jobs_summary(jobs: &[Job]) -> String {
    if let [job] = jobs
        && let Some(set) = job.file_set()
    {
        return format!(
            "{}, {} files of {} KiB, {} threads, page cache of {} MiB",
            set.personality.name(),
            set.files,
            set.file_bytes >> 10,
            set.threads,
            set.page_cache_bytes >> 20
        );
    }
    if let [job] = jobs
        && let Some(app) = &job.app
    {
        return application::summary(app);
    }
    let one = |job: &Job| {
        let target = job.target.as_ref().map_or(String::new(), |name| format!(" on {name}"));
        if let Some(app) = &job.app {
            return format!("{}{target}", application::summary(app));
        }
        format!("{} bs={} iodepth={}{target}", job.pattern_name(), job.block_words(), job.iodepth)
    };
    match jobs {
        [job] => one(job),
        [first, ..] => format!("{} jobs, the first {}", jobs.len(), one(first)),
        [] => String::new(),
    }
}

fn claim_log(spec: &Spec) -> Result<Option<OutputFile>, ExperimentError> {
    Ok(spec.run.log.as_deref().map(OutputFile::create).transpose()?)
}

fn log_on(file: &OutputFile) -> Result<Box<dyn RequestSink>, ExperimentError> {
    let log = RequestLog::new(file.writer()?).map_err(|error| file.failed(error))?;
    Ok(Box::new(log))
}

/// Returns the process's peak resident memory so far, if the system provides it.
pub fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

/// Returns the memory that preconditioning and the oracle of a description will need, to within a mebibyte; the reads of a trace are not known in
/// advance.
pub fn memory_bytes(spec: &Spec) -> Result<u64, RunError> {
    let share = spec.precondition.fill.share();
    if share == 0.0 {
        return Ok(0);
    }
    let device = Device::new(&config(spec, &[])).map_err(RunError::Device)?;
    let layout = device.layout();
    let beside = device.memory_bytes().into_iter().filter(|(part, _)| *part != "media");
    let tables: u64 = beside.map(|(_, bytes)| bytes).sum();
    // Overwriting reaches all blocks; so may a host layer when it fills the drive.
    let once = spec.precondition.overwrite == Overwrite::Capacities(0.0) && !spec.has_host();
    let filled = (device.capacity_bytes() as f64 * share) as u64;
    let blocks = match once {
        true => (filled / u64::from(layout.unit_bytes)).div_ceil(layout.units_per_block.into()),
        false => u64::from(layout.blocks),
    };
    let media =
        device.media().store().extent().memory_max as f64 * (blocks as f64 / f64::from(layout.blocks));
    let sectors = filled / u64::from(layout.sector_bytes);
    let oracle = if spec.run.verify { sectors * ORACLE_BYTES_PER_SECTOR } else { 0 };
    Ok(tables + media as u64 + oracle)
}

/// Returns the free memory of this machine, if known.
pub fn available_memory_bytes() -> Option<u64> {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let free = line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024;
    // A container may have less.
    let group = "/sys/fs/cgroup";
    match (number(&format!("{group}/memory.max")), number(&format!("{group}/memory.current"))) {
        (Some(most), Some(used)) => Some(free.min(most.saturating_sub(used))),
        _ => Some(free),
    }
}
