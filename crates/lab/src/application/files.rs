//! File servers: filebench's threads on a file system, by operations.
//!
//! ```text
//!   make files ─► warm_up operations ─► begin ─► operations ─► report
//! ```
//! Settings missing from a job follow from the size of the file system: the number of files, the memory, the length of the log.

use super::place::{Place, Wish};
use super::{SLICE, Settings, carried_out, refused};
use crate::drive::{AppDone, AppDrive, Lent, RunError, Target};
use crate::file_system::{FileServer, InPlaceServer, Placement};
use pellucid_flash::{Interface, Pauses, SimTime};
use pellucid_fs::{BLOCK_BYTES, CleanerPolicy, MountOptions};
use pellucid_report::{ApplicationReport, GcPauses, PartFigure};
use pellucid_workload::files::{FilesConfig, HostModel, Meter, Personality};
use pellucid_workload::{AppJob, Backend, Cleaner, FileCount, FileSystem, FilesApp, Job, JobError};
use std::collections::BTreeMap;

/// Minimum memory of a host that keeps files.
const MEMORY_BYTES_MIN: u64 = 4 << 20;
/// Operations per file of the set before and in the measurement, so that the log wraps around.
const WARM_UP_EACH: u64 = 24;
const MEASURED_EACH: u64 = 8;
/// Maximum size of a file system by default, so that a drive of terabytes needs neither hours nor its size in memory.
pub(super) const SIZE_BYTES_MAX: u64 = 256 << 20;
/// Minimum number of files in a set.
const FILES_MIN: u64 = 10;

/// Resolved settings of a file server.
struct Plan {
    config: FilesConfig,
    /// Size of the file system in bytes.
    bytes: u64,
    placement: Placement,
}

/// Returns the maximum size of a file system there, in bytes.
fn capacity_bytes(target: &impl Target, work: &FilesApp, place: &Place) -> u64 {
    let sectors = match place.interface {
        // Files have names; the virtual sectors are for metadata.
        Interface::Nameless(names) => names.capacity_sectors,
        other => other.capacity_sectors(),
    };
    let bytes = sectors * u64::from(target.sector_bytes());
    match place.backend {
        Backend::Function => (u128::from(bytes) * u128::from(100 - work.ops_percent) / 100) as u64,
        Backend::Block | Backend::Nameless => bytes,
    }
}

/// Returns the size of the file system in bytes, limited to the available space; by default at most [`SIZE_BYTES_MAX`].
fn bytes(work: &FilesApp, most: u64, place: &Place) -> u64 {
    match work.size {
        Some(size) => size.of(most),
        None if place.backend == Backend::Nameless => most,
        None => most.min(SIZE_BYTES_MAX),
    }
}

/// Maximum size of a segment, far above any flash block.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;
// A mount allows exactly what a job may request.
const _: () = assert!(pellucid_workload::OPEN_SEGMENTS_MAX == MountOptions::OPEN_SEGMENTS_MAX);

/// Returns the percent of the flash that the library keeps, so that the file system has only the blocks of its size.
fn kept_percent(target: &impl Target, work: &FilesApp, place: &Place, bytes: u64) -> u32 {
    let flash = place.interface.capacity_sectors() * u64::from(target.sector_bytes());
    let used = (u128::from(bytes) * 100).div_ceil(u128::from(flash.max(1))) as u32;
    work.ops_percent.max(100_u32.saturating_sub(used))
}

/// Refuses a file server for which the drive is too small.
pub(super) fn check(target: &impl Target, job: &Job, work: &FilesApp, place: &Place) -> Result<(), JobError> {
    let refuse = |key, value: String, allowed: String| Err(JobError::Value { key, value, allowed });
    if work.segment_bytes.is_some() && place.backend != Backend::Block {
        let bytes = work.segment_bytes.unwrap_or_default().to_string();
        return refuse(
            "segment",
            bytes,
            "only on a block namespace; elsewhere a segment is a flash block".into(),
        );
    }
    if job.written.has("open_segments") && place.backend != Backend::Block {
        let number = work.open_segments.to_string();
        let allowed = "only on a block namespace; on flash a segment is open in every channel";
        return refuse("open_segments", number, allowed.into());
    }
    if let Some(bytes) = work.segment_bytes.filter(|&bytes| bytes > SEGMENT_BYTES_MAX) {
        return refuse("segment", bytes.to_string(), format!("at most {SEGMENT_BYTES_MAX}"));
    }
    if job.written.has("ops") && place.backend != Backend::Function {
        let percent = format!("{}%", work.ops_percent);
        return refuse(
            "ops",
            percent,
            "only with backend = function; a drive has its own over-provisioning".into(),
        );
    }
    let most = capacity_bytes(target, work, place);
    let bytes = bytes(work, most, place);
    let kept = kept_percent(target, work, place, bytes);
    if job.written.has("ops") && job.written.has("size") && kept > work.ops_percent {
        let allowed = format!(
            "{kept}% or more with this size, as the library keeps what the file system does not take, or no size"
        );
        return refuse("ops", format!("{}%", work.ops_percent), allowed);
    }
    if job.written.has("size") && place.backend == Backend::Nameless {
        let allowed = "only on blocks or flash; beside names the file system has the whole namespace";
        return refuse("size", job.written.value_of("size").into(), allowed.into());
    }
    if bytes > most {
        return refuse(
            "size",
            bytes.to_string(),
            format!("at most {most} bytes, which the file system can have"),
        );
    }
    let config = plan(target, (job, work), place).config;
    check_room(work, &config, bytes)?;
    if u64::from(config.files) < FILES_MIN {
        let allowed = format!(
            "a file system of more than {bytes} bytes, or smaller files: it would have {} of {} bytes, at least {FILES_MIN} are needed",
            config.files, config.file_bytes
        );
        return refuse("app", work.personality.name().into(), allowed);
    }
    Ok(())
}

/// Refuses files and appends that exceed the file system, before memory is allocated for them.
fn check_room(work: &FilesApp, config: &FilesConfig, bytes: u64) -> Result<(), JobError> {
    let refuse = |key, value: u64, allowed| Err(JobError::Value { key, value: value.to_string(), allowed });
    if config.append_bytes > bytes {
        let allowed = format!("at most {bytes} bytes, which the file system has");
        return refuse("meanappendsize", config.append_bytes, allowed);
    }
    let existing = u64::from(work.personality.existing_percent());
    let most = u128::from(bytes) * 100 / u128::from(taken_bytes(config.file_bytes)) / u128::from(existing);
    match work.files {
        FileCount::Number(files) if u128::from(files) > most => {
            let allowed = format!(
                "at most {most} files of {} bytes in a file system of {bytes} bytes",
                config.file_bytes
            );
            refuse("nfiles", files.into(), allowed)
        }
        FileCount::Number(_) | FileCount::Percent(_) => Ok(()),
    }
}

/// Returns the mean bytes taken by a file: its last block is half full.
fn taken_bytes(file_bytes: u64) -> u64 {
    file_bytes.saturating_add(BLOCK_BYTES as u64 / 2)
}

/// Resolves the settings of a job; missing ones follow from the size of the file system.
fn plan(target: &impl Target, (job, work): (&Job, &FilesApp), place: &Place) -> Plan {
    let bytes = bytes(work, capacity_bytes(target, work, place), place);
    let published = FilesConfig::new(work.personality);
    let file_bytes = work.file_bytes.unwrap_or(published.file_bytes);
    let files = match work.files {
        FileCount::Number(number) => number,
        FileCount::Percent(percent) => {
            // Some files of the set do not exist.
            let taken = u128::from(taken_bytes(file_bytes));
            let existing = u128::from(work.personality.existing_percent());
            let files = u128::from(bytes) * u128::from(percent) / taken / existing;
            u32::try_from(files).unwrap_or(u32::MAX)
        }
    };
    let memory_bytes = work.memory_bytes.unwrap_or((bytes / 12).max(MEMORY_BYTES_MIN));
    let (own, kernel, usual) = (work.processor, work.kernel, HostModel::default());
    let host = HostModel {
        cores: own.cores.unwrap_or(usual.cores),
        operation: own.operation.unwrap_or(usual.operation),
        page: own.page.unwrap_or(usual.page),
        request: own.request.unwrap_or(usual.request),
        request_kib: own.request_kib.unwrap_or(usual.request_kib),
        expire: kernel.expire.unwrap_or(usual.expire),
        wakeup: kernel.wakeup.unwrap_or(usual.wakeup),
        commit: kernel.commit.unwrap_or(usual.commit),
        read_bytes: kernel.read_bytes.unwrap_or(usual.read_bytes),
        write_bytes: kernel.write_bytes.unwrap_or(usual.write_bytes),
        picks: work.picks,
        ..usual
    };
    let config = FilesConfig {
        files,
        file_bytes,
        threads: work.threads.unwrap_or(published.threads),
        page_cache_bytes: memory_bytes,
        append_bytes: work.append_bytes.unwrap_or(published.append_bytes),
        log_bytes: work.log_bytes.unwrap_or(bytes / 24),
        seed: job.seed,
        runtime: None,
        host,
        ..published
    };
    let mount = MountOptions {
        memory_bytes: memory_bytes as usize,
        cleaner: match work.cleaner {
            Cleaner::CostBenefit => CleanerPolicy::CostBenefit,
            Cleaner::Greedy => CleanerPolicy::Greedy,
        },
        open_segments: work.open_segments,
        ..MountOptions::default()
    };
    let placement = Placement {
        namespace: place.namespace,
        bytes: if place.backend == Backend::Nameless { 0 } else { bytes },
        segment_bytes: work.segment_bytes.unwrap_or(0),
        ops_percent: kept_percent(target, work, place, bytes),
        mount,
    };
    Plan { config, bytes, placement }
}

impl Plan {
    fn settings(&self, work: &FilesApp, place: &Place) -> BTreeMap<String, String> {
        let mut settings = Settings(BTreeMap::new());
        let (config, host) = (&self.config, &self.config.host);
        settings.put("filesystem", work.file_system.name());
        settings.put("backend", place.backend.name());
        settings.put("size", self.bytes);
        settings.put("nfiles", config.files);
        settings.put("meanfilesize", config.file_bytes);
        if work.personality.appends() {
            settings.put("meanappendsize", config.append_bytes);
        }
        if work.personality == Personality::Webserver {
            settings.put("log_size", config.log_bytes);
        }
        settings.put("nthreads", config.threads);
        let picks: &str = host.picks.into();
        settings.put("picks", picks);
        settings.put("page_cache", config.page_cache_bytes);
        settings.put("cores", host.cores);
        for (key, time) in [
            ("cpu_operation", host.operation),
            ("cpu_page", host.page),
            ("cpu_request", host.request),
            ("cpu_kib", host.request_kib),
        ] {
            settings.put(key, format!("{}ns", time.0));
        }
        if work.file_system == FileSystem::LogStructured {
            let cleaner: &str = work.cleaner.into();
            settings.put("cleaner", cleaner);
            if place.backend == Backend::Block {
                settings.put("open_segments", work.open_segments);
            }
        }
        if work.file_system == FileSystem::InPlace {
            settings.put("dirty_expire", format!("{}ns", host.expire.0));
            settings.put("dirty_writeback", format!("{}ns", host.wakeup.0));
            settings.put("commit", format!("{}ns", host.commit.0));
            settings.put("read_ahead", host.read_bytes);
            settings.put("max_sectors", host.write_bytes);
        }
        if place.backend == Backend::Function {
            settings.put("ops", format!("{}%", self.placement.ops_percent));
        }
        settings.0
    }
}

trait Server {
    /// Name of the part that cleans.
    const CLEANER: &'static str;
    /// Returns the operations so far, as counted by [`Server::run_until`].
    fn operations(&self) -> u64;
    /// Continues until the given number of operations has run; the error is a sentence.
    fn run_until(&mut self, operations: u64) -> Result<(), String>;
    /// Starts to count operations.
    fn begin(&mut self);
    fn now(&self) -> SimTime;
    fn meter(&self) -> &Meter;
    fn drive(&mut self) -> &mut dyn AppDrive;
    /// Returns the bytes of a segment, if there are segments.
    fn segment_bytes(&self) -> Option<u64>;
    /// Returns the bytes copied by the cleaner since [`Server::begin`], its pauses, and further counters.
    fn cleaned(&self) -> (u64, Pauses, Vec<PartFigure>);
}

impl Server for FileServer<Lent<'_>> {
    const CLEANER: &'static str = "file system";

    fn operations(&self) -> u64 {
        FileServer::operations(self)
    }

    fn run_until(&mut self, operations: u64) -> Result<(), String> {
        FileServer::run_until(self, operations)
    }

    fn begin(&mut self) {
        FileServer::begin(self);
    }

    fn now(&self) -> SimTime {
        FileServer::now(self)
    }

    fn meter(&self) -> &Meter {
        FileServer::meter(self)
    }

    fn drive(&mut self) -> &mut dyn AppDrive {
        &mut **self.drive_mut()
    }

    fn segment_bytes(&self) -> Option<u64> {
        Some(u64::from(self.fs().view().segment_blocks) * BLOCK_BYTES as u64)
    }

    fn cleaned(&self) -> (u64, Pauses, Vec<PartFigure>) {
        let (now, before) = (self.fs().counters(), self.counted_from());
        let figure = |name: &str, value| PartFigure { name: name.into(), value };
        let figures = vec![
            figure("data_blocks", now.data_blocks - before.data_blocks),
            figure("moved_blocks", now.moved_blocks - before.moved_blocks),
            figure("node_blocks", now.node_blocks - before.node_blocks),
            figure("record_blocks", now.record_blocks - before.record_blocks),
            figure("read_blocks", now.read_blocks - before.read_blocks),
            figure("commits", now.commits - before.commits),
            figure("checkpoints", now.checkpoints - before.checkpoints),
            figure("segments_cleaned", now.cleaned - before.cleaned),
            figure("write_failures", now.write_failures - before.write_failures),
        ];
        let moved = (now.moved_blocks - before.moved_blocks) * BLOCK_BYTES as u64;
        (moved, now.pauses.since(&before.pauses), figures)
    }
}

impl Server for InPlaceServer<Lent<'_>> {
    const CLEANER: &'static str = "file system";

    fn operations(&self) -> u64 {
        self.files().operations()
    }

    fn run_until(&mut self, operations: u64) -> Result<(), String> {
        InPlaceServer::run_until(self, operations)
    }

    fn begin(&mut self) {
        InPlaceServer::begin(self);
    }

    fn now(&self) -> SimTime {
        InPlaceServer::now(self)
    }

    fn meter(&self) -> &Meter {
        self.files().meter()
    }

    fn drive(&mut self) -> &mut dyn AppDrive {
        &mut **self.drive_mut()
    }

    fn segment_bytes(&self) -> Option<u64> {
        None
    }

    /// Writing in place leaves nothing to clean.
    fn cleaned(&self) -> (u64, Pauses, Vec<PartFigure>) {
        (0, Pauses::default(), Vec::new())
    }
}

pub(crate) struct Prepared {
    app: AppJob,
    work: FilesApp,
    plan: Plan,
}

pub(super) fn prepare(
    target: &impl Target,
    job: &Job,
    app: &AppJob,
    work: &FilesApp,
) -> Result<(Place, Prepared), JobError> {
    let place = Place::of(target, job, Wish::of_files(job, work))?;
    let plan = plan(target, (job, work), &place);
    Ok((place, Prepared { app: app.clone(), work: *work, plan }))
}

impl Prepared {
    pub fn carry_out(self, place: Place, drive: Lent<'_>) -> Result<AppDone, RunError> {
        let Prepared { app, work, mut plan } = self;
        plan.placement.namespace = place.namespace;
        let report = ApplicationReport {
            name: app.name().into(),
            settings: plan.settings(&work, &place),
            ..ApplicationReport::default()
        };
        let refused = |why| refused(app.name(), why);
        match work.file_system {
            FileSystem::LogStructured => {
                let server = FileServer::new(&plan.config, drive, &plan.placement).map_err(refused)?;
                serve(server, &plan, &app, report)
            }
            FileSystem::InPlace => {
                let server =
                    InPlaceServer::new(&plan.config, drive, place.namespace, plan.bytes).map_err(refused)?;
                serve(server, &plan, &app, report)
            }
        }
    }
}

/// Runs the operations of a server.
fn serve<S: Server>(
    mut server: S,
    plan: &Plan,
    app: &AppJob,
    mut report: ApplicationReport,
) -> Result<AppDone, RunError> {
    let failed = |why| RunError::Application(plan.config.personality.name(), why);
    let go_on = |server: &mut S, until: u64| -> Result<(), RunError> {
        while server.operations() < until && !server.drive().is_stopped() {
            let next = until.min(server.operations() + SLICE);
            server.run_until(next).map_err(failed)?;
        }
        Ok(())
    };
    let segment = server.segment_bytes().map(|bytes| ("segment".into(), bytes.to_string()));
    report.settings.extend(segment);
    let files = u64::from(plan.config.files);
    go_on(&mut server, app.warm_up.unwrap_or(files * WARM_UP_EACH))?;
    server.begin();
    server.drive().begin();
    let (began, first) = (server.now(), server.operations());
    let measured = app.operations.unwrap_or(files * MEASURED_EACH);
    go_on(&mut server, first.saturating_add(measured))?;
    let (end, operations) = (server.now(), server.operations() - first);
    let (copied, pauses, figures) = server.cleaned();
    let meter = server.meter().clone();
    let done = carried_out(operations, meter.refused).map_err(failed)?;
    let simulated = end.since(began);
    let rate = |count: u64| if simulated.0 == 0 { 0.0 } else { count as f64 / simulated.as_secs_f64() };
    let report = ApplicationReport {
        // An interrupt may have ended it early.
        warm_up: first,
        operations,
        operations_per_second: (simulated.0 > 0).then(|| rate(done)),
        left_out: meter.refused,
        latency: meter.latency().summary(),
        by_operation: meter.report(&plan.config, simulated).by_operation,
        written_bytes: meter.written_bytes,
        read_bytes: meter.read_bytes,
        pauses: GcPauses::new(&pauses),
        figures,
        ..report
    };
    Ok(AppDone { report, own_copies: Some((S::CLEANER, copied)), end })
}
