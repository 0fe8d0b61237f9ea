//! A user's work on a netbook: requests to a disk, one at a time, with the host's own work before each.
//!
//! ```text
//!   warm-up (of ATTO) ─► begin ─► work ─► the last answer ─► drain: layers write what they hold ─► report
//! ```
//! The work's time ends with its last answer, as measured with a stop-watch; erases and programs count to the end of the drain, which idle time would
//! bring.

use super::Settings;
use super::place::{Place, Wish};
use crate::drive::{AppDone, Lent, RunError, SILENCE_MAX, Target};
use pellucid_flash::{Command, Completion, Lba, Nanos, Opcode, SimTime, Status};
use pellucid_report::{ApplicationReport, LatencyRecorder, OperationReport, PartFigure, PhaseReport};
use pellucid_workload::desktop::{DesktopWork, DiskRequest, SECTOR_BYTES, SECTORS_MIN, script};
use pellucid_workload::{Backend, DesktopApp, Job, JobError};
use std::collections::BTreeMap;

/// Names of the counters of writes by size, each from its size to below the next.
const WRITES_BY_SIZE: [&str; 9] = [
    "writes_of_512",
    "writes_from_1k",
    "writes_from_2k",
    "writes_from_4k",
    "writes_from_8k",
    "writes_from_16k",
    "writes_from_32k",
    "writes_from_64k",
    "writes_from_128k",
];

fn place(target: &impl Target, job: &Job, work: &DesktopApp) -> Result<Place, JobError> {
    let name = work.work.name();
    let wish = Wish { backend: Some(Backend::Block), by: ("app", name) };
    let place = Place::of(target, job, wish)?;
    let refuse = |allowed: String| Err(JobError::Value { key: "app", value: name.into(), allowed });
    if target.sector_bytes() != SECTOR_BYTES {
        return refuse(format!("with media.sector_size = {SECTOR_BYTES}, as Windows XP has it"));
    }
    let sectors = place.interface.capacity_sectors();
    if !(SECTORS_MIN..=u32::MAX.into()).contains(&sectors) {
        return refuse(format!(
            "on a volume of {SECTORS_MIN} to {} sectors, which this one with {sectors} is not",
            u32::MAX
        ));
    }
    Ok(place)
}

/// Refuses a drive too small for the volume.
pub(super) fn check(target: &impl Target, job: &Job, work: &DesktopApp) -> Result<(), JobError> {
    place(target, job, work).map(drop)
}

fn settings(work: &DesktopApp) -> BTreeMap<String, String> {
    let mut settings = Settings(BTreeMap::new());
    settings.put("volume", work.volume.name());
    settings.put("host_time", format!("{}ns", work.host().0));
    match work.work {
        DesktopWork::AttoRead(transfers) | DesktopWork::AttoWrite(transfers) => {
            settings.put("bs", transfers.sectors * SECTOR_BYTES);
        }
        DesktopWork::OfficeRemove { others } => {
            settings.put("others", format!("{others}%"));
            settings.put("part", work.part);
        }
        _ => settings.put("part", work.part),
    }
    settings.0
}

struct Host<'a> {
    drive: Lent<'a>,
    namespace: u16,
    now: SimTime,
    buffer: Vec<u8>,
    completed: u64,
}

impl Host<'_> {
    /// Works for a while, submits a request, and waits for the answer.
    fn ask(&mut self, think: Nanos, request: DiskRequest) -> Result<Nanos, RunError> {
        let DiskRequest { write, lba, sectors } = request;
        self.now += think;
        self.drive.advance(self.now);
        let mut data = std::mem::take(&mut self.buffer);
        data.resize(sectors as usize * self.drive.image_bytes(), 0);
        let opcode = if write { Opcode::Write } else { Opcode::Read };
        let command = Command::new(0, opcode, Lba(lba), sectors, data);
        let asked = self.now;
        self.drive.submit(asked, Command { namespace: self.namespace, ..command });
        loop {
            if let Some(ended) = self.drive.pop() {
                self.now = self.now.max(ended.completed);
                return self.answered(ended, request, asked);
            }
            let next = self.drive.next_event().filter(|next| next.since(asked) <= SILENCE_MAX);
            let Some(next) = next else {
                return Err(RunError::Silent { outstanding: 1, completed: self.completed });
            };
            self.now = self.drive.advance_to_completion(next, SimTime(u64::MAX));
        }
    }

    /// Takes an answer; returns its latency.
    fn answered(
        &mut self,
        ended: Completion,
        request: DiskRequest,
        asked: SimTime,
    ) -> Result<Nanos, RunError> {
        self.completed += 1;
        self.buffer = ended.data;
        if !matches!(ended.status, Status::Success | Status::HighEcc) {
            let DiskRequest { write, lba, sectors } = request;
            let what = if write { "write" } else { "read" };
            let why = format!("a {what} of {sectors} sectors at sector {lba} ended with {:?}", ended.status);
            return Err(RunError::Application("a user's work", why));
        }
        Ok(self.now.since(asked))
    }
}

#[derive(Default)]
struct Meter {
    all: LatencyRecorder,
    /// Latencies of reads, and of writes.
    kinds: [LatencyRecorder; 2],
    bytes: [u64; 2],
    writes_by_size: [u64; WRITES_BY_SIZE.len()],
}

impl Meter {
    fn count(&mut self, request: DiskRequest, took: Nanos) {
        let DiskRequest { write, sectors, .. } = request;
        self.all.record(took);
        self.kinds[usize::from(write)].record(took);
        self.bytes[usize::from(write)] += u64::from(sectors) * u64::from(SECTOR_BYTES);
        if write {
            let class = (sectors.max(1).ilog2() as usize).min(WRITES_BY_SIZE.len() - 1);
            self.writes_by_size[class] += 1;
        }
    }

    /// Returns what the requests fill in of a report: `operations` in so many seconds.
    fn reported(&self, operations: u64, seconds: f64) -> ApplicationReport {
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let kinds = ["read", "write"].into_iter().zip(&self.kinds).map(|(name, recorder)| {
            let latency = recorder.summary();
            OperationReport { operation: name.into(), per_second: rate(latency.count), latency }
        });
        let sizes = WRITES_BY_SIZE.into_iter().zip(self.writes_by_size);
        ApplicationReport {
            operations,
            operations_per_second: (seconds > 0.0).then(|| rate(operations)),
            latency: self.all.summary(),
            by_operation: kinds.filter(|kind| kind.latency.count > 0).collect(),
            read_bytes: self.bytes[0],
            written_bytes: self.bytes[1],
            figures: sizes.map(|(name, value)| PartFigure { name: name.into(), value }).collect(),
            ..ApplicationReport::default()
        }
    }
}

pub(crate) struct Prepared {
    work: DesktopApp,
    seed: u64,
}

pub(super) fn prepare(
    target: &impl Target,
    job: &Job,
    work: &DesktopApp,
) -> Result<(Place, Prepared), JobError> {
    Ok((place(target, job, work)?, Prepared { work: *work, seed: job.seed }))
}

impl Prepared {
    pub fn carry_out(self, place: Place, drive: Lent<'_>) -> Result<AppDone, RunError> {
        let Prepared { work, seed } = self;
        let Place { namespace, interface, .. } = place;
        let script = script(work.work, work.volume, interface.capacity_sectors(), work.part, seed);
        let think = Nanos(work.host().0 / script.requests.len().max(1) as u64);
        let now = drive.now();
        let mut host = Host { drive, namespace, now, buffer: Vec::new(), completed: 0 };
        let (warm_up, measured) = script.requests.split_at(script.warm_up);
        for &request in warm_up {
            host.ask(think, request)?;
        }
        host.drive.begin();
        let (began, mut meter) = (host.now, Meter::default());
        let mut asked = 0;
        for &request in measured {
            // An interrupt may end it early.
            if host.drive.is_stopped() {
                break;
            }
            let took = host.ask(think, request)?;
            meter.count(request, took);
            asked += 1;
        }
        let ended = host.now;
        host.drive.drain().map_err(RunError::Host)?;
        let end = host.drive.now().max(ended);
        let seconds = ended.since(began).as_secs_f64();
        let operations = if asked == measured.len() { script.operations } else { asked as u64 };
        let phase = |name: &str, seconds: f64, busy_seconds: f64| PhaseReport {
            phase: name.into(),
            seconds,
            busy_seconds,
        };
        let busy = Nanos(think.0 * asked as u64).as_secs_f64();
        let report = ApplicationReport {
            name: work.work.name().into(),
            settings: settings(&work),
            warm_up: warm_up.len() as u64,
            phases: vec![phase("work", seconds, busy), phase("drain", end.since(ended).as_secs_f64(), 0.0)],
            ..meter.reported(operations, seconds)
        };
        Ok(AppDone { report, own_copies: None, end })
    }
}
