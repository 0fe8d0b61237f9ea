//! Applications as work: carried out in virtual time on whatever a description has, and measured as jobs are.
//!
//! ```text
//!   Job (app = ...) ─► place ─► application on a Tap ─► warm-up ─► measurement ─► Measured, with an ApplicationReport
//! ```
//! An application is the only job of its run.

mod desktop;
mod files;
mod graph;
mod kv;
mod place;

use crate::drive::{HostUse, Measured, Onlooker, RunError, Target};
use pellucid_device::Device;
use pellucid_flash::{Cause, Drive};
use pellucid_kv::KvConfig;
use pellucid_report::{Copies, RequestSink};
use pellucid_workload::{AppJob, AppWork, FileSystem, Job, JobError};
use place::{Place, Wish};
use std::collections::BTreeMap;

/// Operations between two looks at whether the user has ended the run.
const SLICE: u64 = 1 << 10;

/// Reports whether the work of these jobs reads back what it wrote, so that the drive has to keep data.
pub fn needs_data(jobs: &[Job]) -> bool {
    jobs.iter().filter_map(|job| job.app.as_ref()).any(AppJob::needs_data)
}

/// The application among jobs.
///
/// # Errors
/// It is not alone.
pub(crate) fn of(jobs: &[Job]) -> Result<Option<(&Job, &AppJob)>, JobError> {
    let Some(found) = jobs.iter().find_map(|job| Some((job, job.app.as_ref()?))) else { return Ok(None) };
    if jobs.len() == 1 {
        return Ok(Some(found));
    }
    let allowed = "an application alone, without other jobs".into();
    Err(JobError::Value { key: "app", value: found.1.name().into(), allowed })
}

/// Refuses an application that the target cannot carry.
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
        AppWork::Kv(work) => kv::check(target, app, work, config),
    }
}

/// Bytes of data that an application comes to keep on a drive, at most: as the log of its file system comes round, all of that holds data.
pub(crate) fn data_bytes(drive: &Device, app: &AppJob) -> u64 {
    let interfaces = (0..drive.namespaces()).filter_map(|number| Drive::interface(drive, number));
    let sectors: u64 = interfaces.map(|interface| interface.capacity_sectors()).sum();
    match &app.work {
        AppWork::Files(work) => {
            let all = sectors * u64::from(drive.layout().sector_bytes);
            work.size.map_or(all.min(files::SIZE_BYTES_MAX), |size| size.of(all))
        }
        AppWork::Kv(work) => kv::data_bytes(sectors * u64::from(drive.layout().sector_bytes), app, work),
        AppWork::Graph(work) => graph::data_bytes(sectors * u64::from(drive.layout().sector_bytes), work),
        // It looks at no data.
        AppWork::Desktop(_) => 0,
    }
}

/// Bytes of a file system that writes in place, on a drive of so many; `None`: the application is another one.
pub(crate) fn in_place_bytes(app: &AppJob, drive_bytes: u64) -> Option<u64> {
    match &app.work {
        AppWork::Files(work) if work.file_system == FileSystem::InPlace => {
            Some(work.size.map_or(drive_bytes.min(files::SIZE_BYTES_MAX), |size| size.of(drive_bytes)))
        }
        AppWork::Files(_) | AppWork::Kv(_) | AppWork::Graph(_) | AppWork::Desktop(_) => None,
    }
}

/// Carries out an application on a target that is at rest, and measures it. `config`: settings of a key-value cache.
pub(crate) fn measure<T: Target>(
    target: &mut T,
    (job, app): (&Job, &AppJob),
    config: &KvConfig,
    logs: Vec<Box<dyn RequestSink>>,
    onlooker: &mut dyn Onlooker,
) -> Result<Measured, RunError> {
    match &app.work {
        AppWork::Files(work) => {
            let place = Place::of(target, job, Wish::of_files(job, work)).map_err(RunError::Job)?;
            files::measure(target, (job, app, work), &place, logs, onlooker)
        }
        AppWork::Kv(work) => kv::measure(target, (job, app, work), config, logs, onlooker),
        AppWork::Graph(work) => graph::measure(target, (job, work), logs, onlooker),
        AppWork::Desktop(work) => desktop::measure(target, (job, work), logs, onlooker),
    }
}

/// An application in one line.
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

/// An application that cannot begin on its drive, and why. A sentence that does not say what is allowed tells of a failure.
fn refused(app: &'static str, why: String) -> RunError {
    match why.contains("allowed: ") {
        true => RunError::Refused(app, why),
        false => RunError::Application(app, why),
    }
}

/// Operations that were carried out, those that were left out taken away.
///
/// # Errors
/// All were left out: a sentence.
fn carried_out(operations: u64, left_out: u64) -> Result<u64, String> {
    match operations.saturating_sub(left_out) {
        0 if operations > 0 => Err(format!(
            "all {operations} operations of the measurement were left out, for want of files or room; allowed: fewer or smaller files, \
             shorter appends, or a larger drive"
        )),
        done => Ok(done),
    }
}

/// Puts down what became of the settings.
struct Settings(BTreeMap<String, String>);

impl Settings {
    fn put(&mut self, key: &str, value: impl ToString) {
        self.0.insert(key.into(), value.to_string());
    }
}

/// Copies by part: what the application copied by itself, if it copies at all, then the host's layers, then the drive.
fn copies(own: Option<(&str, u64)>, measured: &Measured, sector_bytes: u64) -> Vec<Copies> {
    let sectors = |sectors: &[u64; Cause::COUNT]| sectors[Cause::Gc as usize] * sector_bytes;
    let layers = measured.host.map(|HostUse { layer, counters, .. }| Copies {
        by: layer.into(),
        bytes: sectors(&counters.programmed_sectors),
    });
    let drive = Copies { by: "drive".into(), bytes: sectors(&measured.counters.programmed_sectors) };
    let own = own.map(|(by, bytes)| Copies { by: by.into(), bytes });
    // Parts without causes of their own: a cluster buffer completes clusters, the split FTL of nameless writes collects.
    let counted = measured.figures.iter().filter_map(|part| {
        let bytes = match part.part.as_str() {
            "cluster-buffer" => part.get("padding_bytes")?,
            "nameless-ftl" => part.get("nameless_copied_sectors")? * sector_bytes,
            _ => return None,
        };
        Some(Copies { by: part.part.clone(), bytes })
    });
    own.into_iter().chain(layers).chain(counted).chain([drive]).collect()
}
