//! Applications as work: run in virtual time on any target, and measured like jobs.
//!
//! ```text
//!   alone          Job (app = ...) ─► Prepared ─► application on a Meter ─► warm-up ─► measurement ─► Measured, with an ApplicationReport
//!   beside others  Job (app = ...) ─► Prepared ─► application on a Seat (drive/tenants.rs) ─────────► Measured, with one of each
//! ```
//! An application on a target, or beside other jobs, has a seat; it works in the same way.

mod desktop;
mod files;
mod graph;
mod kv;
mod place;

use crate::drive::{
    self, AppDone, FlashUse, JobName, Lent, Measured, Meter, Onlooker, Places, RunError, Seat, Target, Tenant,
};
use pellucid_device::Device;
use pellucid_flash::Drive;
use pellucid_kv::KvConfig;
use pellucid_report::RequestSink;
use pellucid_workload::{AppJob, AppWork, Backend, FileSystem, GraphEngine, Job, JobError};
use place::{Place, Wish};
use std::collections::BTreeMap;

/// Number of operations between two checks for a stop by the user.
const SLICE: u64 = 1 << 10;

/// Returns whether these jobs read back their own writes, so that the drive must store data.
pub fn needs_data(jobs: &[Job]) -> bool {
    jobs.iter().filter_map(|job| job.app.as_ref()).any(AppJob::needs_data)
}

/// Refuses an application that the target does not support.
pub(crate) fn check(
    target: &impl Target,
    job: &Job,
    app: &AppJob,
    config: &KvConfig,
) -> Result<(), JobError> {
    match &app.work {
        AppWork::Files(work) => {
            files::check(target, job, work, &Place::of(target, job, Wish::of_files(job, work))?)
        }
        AppWork::Graph(work) => graph::check(target, job, work),
        AppWork::Desktop(work) => desktop::check(target, job, work),
        AppWork::Kv(work) => kv::check(target, job, work, config),
    }
}

/// Returns the bytes of all namespaces of a drive.
pub(crate) fn capacity_bytes(drive: &Device) -> u64 {
    let interfaces = (0..drive.namespaces()).filter_map(|number| Drive::interface(drive, number));
    let sectors: u64 = interfaces.map(|interface| interface.capacity_sectors()).sum();
    sectors * u64::from(drive.layout().sector_bytes)
}

/// Returns the maximum bytes of data that an application stores if it has `all` of the space: once the log of its file system has wrapped, all of it
/// holds data.
pub(crate) fn data_bytes(all: u64, app: &AppJob) -> u64 {
    match &app.work {
        AppWork::Files(work) => work.size.map_or(all.min(files::SIZE_BYTES_MAX), |size| size.of(all)),
        AppWork::Kv(work) => kv::data_bytes(all, app, work),
        AppWork::Graph(work) => graph::data_bytes(all, work),
        // It reads back no data.
        AppWork::Desktop(_) => 0,
    }
}

/// Returns the size of an in-place file system on a drive of the given size, if the application uses one.
pub(crate) fn in_place_bytes(app: &AppJob, drive_bytes: u64) -> Option<u64> {
    match &app.work {
        AppWork::Files(work) if work.file_system == FileSystem::InPlace => {
            Some(work.size.map_or(drive_bytes.min(files::SIZE_BYTES_MAX), |size| size.of(drive_bytes)))
        }
        AppWork::Files(_) | AppWork::Kv(_) | AppWork::Graph(_) | AppWork::Desktop(_) => None,
    }
}

/// A prepared application: its place on the drive, and the state of its kind.
pub(crate) struct Prepared {
    place: Place,
    work: Work,
}

/// State by kind of application.
enum Work {
    Files(Box<files::Prepared>),
    Kv(Box<kv::Prepared>),
    Graph(Box<graph::Prepared>),
    Desktop(Box<desktop::Prepared>),
}

/// Prepares an application for a target. `config` has the settings of a key-value cache.
pub(crate) fn prepare(
    target: &impl Target,
    (job, app): (&Job, &AppJob),
    config: &KvConfig,
) -> Result<Prepared, JobError> {
    let (place, work) = match &app.work {
        AppWork::Files(work) => {
            let (place, own) = files::prepare(target, job, app, work)?;
            (place, Work::Files(own.into()))
        }
        AppWork::Kv(work) => {
            let (place, own) = kv::prepare(target, (job, app, work), config)?;
            (place, Work::Kv(own.into()))
        }
        AppWork::Graph(work) => {
            let (place, own) = graph::prepare(target, job, work)?;
            (place, Work::Graph(own.into()))
        }
        AppWork::Desktop(work) => {
            let (place, own) = desktop::prepare(target, job, work)?;
            (place, Work::Desktop(own.into()))
        }
    };
    Ok(Prepared { place, work })
}

impl Prepared {
    fn namespace(&self) -> u16 {
        self.place.namespace
    }

    /// Changes the number of its namespace.
    fn move_to(&mut self, namespace: u16) {
        self.place.namespace = namespace;
    }

    /// Runs the application on a drive at rest.
    fn carry_out(self, drive: Lent<'_>) -> Result<AppDone, RunError> {
        let place = self.place;
        match self.work {
            Work::Files(work) => work.carry_out(place, drive),
            Work::Kv(work) => work.carry_out(place, drive),
            Work::Graph(work) => work.carry_out(place, drive),
            Work::Desktop(work) => work.carry_out(place, drive),
        }
    }
}

/// Runs an application alone on a target at rest, and measures it. `config` has the settings of a key-value cache.
pub(crate) fn measure<T: Target>(
    target: &mut T,
    (job, app): (&Job, &AppJob),
    config: &KvConfig,
    logs: Vec<Box<dyn RequestSink>>,
    onlooker: &mut dyn Onlooker,
) -> Result<Measured, RunError> {
    let prepared = prepare(target, (job, app), config).map_err(RunError::Job)?;
    let sector_bytes = u64::from(target.sector_bytes());
    let mut meter = Meter::new(target, logs, onlooker);
    let mut done = prepared.carry_out(&mut meter)?;
    done.report.job.clone_from(&job.name);
    let mut measured = meter.finish(done.end)?;
    let flash = FlashUse::of(&measured, sector_bytes);
    measured.applications = vec![done.on_flash(&flash, sector_bytes)];
    Ok(measured)
}

/// Makes an application ready to work beside others.
pub(crate) fn tenant(mut prepared: Prepared, job: &Job) -> Tenant {
    let name = JobName { name: job.name.clone(), group: 0, instances: 1, namespace: prepared.namespace() };
    prepared.move_to(0);
    let work = move |mut seat: Seat| {
        let done = prepared.carry_out(&mut seat)?;
        Ok(AppDone { end: seat.to_drive(done.end), ..done })
    };
    Tenant { name, work: Box::new(work) }
}

/// Refuses applications and jobs that cannot work side by side.
pub(crate) fn check_beside(target: &impl Target, jobs: &[Job], config: &KvConfig) -> Result<(), JobError> {
    let mut own = Vec::new();
    for job in jobs {
        if let Some(app) = &job.app {
            own.push((job, prepare(target, (job, app), config)?.namespace()));
        }
    }
    if own.is_empty() || jobs.len() == 1 {
        return Ok(());
    }
    drive::check_beside(&Places::of(target), &own, jobs)
}

/// Returns whether an application works on logical blocks; others work on flash or names.
pub(crate) fn needs_blocks(app: &AppJob, config: &KvConfig) -> bool {
    match &app.work {
        AppWork::Files(work) => {
            work.file_system == FileSystem::InPlace || work.backend == Some(Backend::Block)
        }
        AppWork::Kv(_) => kv::backend(config) == Backend::Block,
        AppWork::Graph(work) => work.engine == GraphEngine::Original,
        AppWork::Desktop(_) => true,
    }
}

/// Describes an application in one line.
pub fn summary(app: &AppJob) -> String {
    match &app.work {
        AppWork::Kv(work) => format!("{}, {} clients", app.name(), work.clients),
        AppWork::Graph(work) => format!("{}, engine {}", app.name(), work.engine.name()),
        AppWork::Desktop(work) => format!("{} on {}", app.name(), work.volume.name()),
        AppWork::Files(work) => {
            let backend =
                work.backend.map_or(String::new(), |backend| format!(", backend {}", backend.name()));
            format!("{}, filesystem {}{backend}", app.name(), work.file_system.name())
        }
    }
}

/// Returns the error that an application cannot start on its drive. A sentence without allowed values reports a failure.
fn refused(app: &'static str, why: String) -> RunError {
    match why.contains("allowed: ") {
        true => RunError::Refused(app, why),
        false => RunError::Application(app, why),
    }
}

/// Returns the number of executed operations, without skipped ones.
///
/// # Errors
/// All were skipped: a sentence.
fn carried_out(operations: u64, left_out: u64) -> Result<u64, String> {
    match operations.saturating_sub(left_out) {
        0 if operations > 0 => Err(format!(
            "all {operations} operations of the measurement were left out, for want of files or room; allowed: fewer or smaller files, \
             shorter appends, or a larger drive"
        )),
        done => Ok(done),
    }
}

/// Collects the resolved settings.
struct Settings(BTreeMap<String, String>);

impl Settings {
    fn put(&mut self, key: &str, value: impl ToString) {
        self.0.insert(key.into(), value.to_string());
    }
}
