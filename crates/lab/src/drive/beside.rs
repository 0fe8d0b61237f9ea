//! A run of applications beside jobs or other applications: schedules them, and measures each one's use of the drive.
//!
//! ```text
//!   applications prepare and warm up ─► all are ready: jobs start, everything counts ─► each ends by itself
//! ```
//! At the same time, jobs come before applications. An application's use of flash is that of its target or its namespace; if it has the whole drive,
//! beside jobs that only read, it is the drive's.

use super::tenants::Step;
use super::{
    AppDone, FlashUse, Measured, Next, Place, Places, Run, RunError, Source, Target, TargetPlace, source,
};
use pellucid_device::Device;
use pellucid_flash::{Cause, Command, Completion, Drive, SimTime};
use pellucid_report::ApplicationReport;
use pellucid_workload::{Job, JobError};

/// Sectors programmed by cause.
type Programmed = [u64; Cause::COUNT];

/// Use so far of the part of a drive that an application has.
#[derive(Clone, Copy, Debug)]
struct PartUse {
    layer: Option<&'static str>,
    /// `None`: only the application's own commands program there.
    programmed: Option<Programmed>,
    erases: u64,
}

impl PartUse {
    /// Returns the use of a namespace; `None` if it is the whole drive.
    fn of(target: &impl Target, namespace: u16) -> Option<PartUse> {
        let device = target.flash()?;
        if let Some(place) = target.targets().into_iter().find(|place| place.namespace == namespace) {
            let host = target.host_of(namespace);
            return Some(PartUse {
                layer: host.map(|host| host.layer),
                programmed: host.map(|host| host.counters.programmed_sectors),
                erases: erases(device, &place),
            });
        }
        // Layers are over the whole drive.
        let own = target.host().is_none() && device.namespaces() > 1;
        own.then(|| {
            let counters = device.namespace(namespace).counters();
            let erases = counters.erases.iter().sum();
            PartUse { layer: None, programmed: Some(counters.programmed_sectors), erases }
        })
    }
}

/// Returns the erases of the blocks of a target.
fn erases(device: &Device, place: &TargetPlace) -> u64 {
    let map = device.block_map();
    let each = map.blocks_per_die as usize;
    let of = |die: u32| map.blocks.iter().skip(die as usize * each).take(each);
    place.units.clone().flat_map(of).map(|block| u64::from(block.erases)).sum()
}

/// Use of the drive by applications.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// By application, at the beginning of the measurement.
    before: Vec<Option<PartUse>>,
    /// True if an application has worked for long without the drive, so that the user should be asked.
    pub asks: bool,
    /// Applications that have ended.
    ended: Vec<(u32, AppDone)>,
}

impl<T: Target> Run<'_, T> {
    /// Records the applications' use before the measurement.
    pub(super) fn begin_shares(&mut self) {
        if let Source::Beside(beside) = &self.source {
            let of = |name: &super::JobName| PartUse::of(self.device, name.namespace);
            self.shares.before = beside.tenants.names().map(of).collect();
        }
    }

    /// Ends the run at the user's request; returns false if applications must finish first.
    #[cold]
    pub(super) fn stops_at_once(&mut self) -> bool {
        match &mut self.source {
            Source::Beside(beside) => {
                beside.tenants.stop();
                beside.tenants.is_over()
            }
            _ => true,
        }
    }

    /// Submits the requests of jobs and applications for `now`; returns when the next are due without a completion.
    pub(super) fn submit_beside(&mut self, now: SimTime) -> Result<Option<SimTime>, RunError> {
        loop {
            self.complete_all()?;
            let (next_event, idle) = (self.device.next_event(), self.in_flight.len() == self.idle_tags.len());
            let Source::Beside(beside) = &mut self.source else {
                unreachable!("the caller has looked");
            };
            while let Some((namespace, notice)) = self.device.pop_notice() {
                beside.tenants.notify(namespace, notice);
            }
            let mut release = None;
            if beside.tenants.lets_jobs_go_on() {
                match beside.jobs.next(now) {
                    Next::Now(request) => {
                        self.submit(now, &request);
                        continue;
                    }
                    Next::Raw(request) => {
                        self.submit_raw(now, *request);
                        continue;
                    }
                    Next::Endless(job) => {
                        return Err(RunError::Endless { job, requests: source::STANDSTILL_REQUESTS });
                    }
                    Next::At(time) => release = Some(time),
                    Next::Blocked | Next::End => {}
                }
            }
            match beside.tenants.next(now, next_event, release, idle) {
                Step::Submit(at, command) => self.submit_tenant(now, at, *command),
                Step::Begin => self.measure_from(now),
                Step::Ask => {
                    self.shares.asks = true;
                    return Ok(Some(now));
                }
                Step::Left(at, result) => self.leave(at, (*result)?),
                Step::At(time) => return Ok(Some(release.map_or(time, |release| release.min(time)))),
                Step::Blocked | Step::End => return Ok(release),
            }
        }
    }

    fn submit_tenant(&mut self, now: SimTime, at: u32, command: Command) {
        let tag = self.idle_tag();
        let slot = &mut self.in_flight[tag as usize];
        (slot.lba, slot.sectors, slot.fua) = (command.lba, command.sectors, command.fua);
        slot.tenant = Some((at, command.tag));
        self.submitted += 1;
        self.device.submit(now, Command { tag: tag.into(), ..command });
    }

    /// Handles the completion of an application's command.
    pub(super) fn complete_tenant(&mut self, completion: &mut Completion) -> Result<(), RunError> {
        let tag = completion.tag as u32;
        let slot = &mut self.in_flight[tag as usize];
        let (lba, sectors) = (slot.lba, slot.sectors);
        let (at, own) = slot.tenant.take().expect("a command of an application");
        let first = self.source.jobs().map_or(0, |jobs| jobs.results().len() as u32);
        let counts = !self.warming && completion.submitted >= self.measured_from;
        if counts {
            self.count(completion, lba, sectors, first + at, first + at + 1)?;
        }
        if let Source::Beside(beside) = &mut self.source {
            let sectors = if counts { sectors } else { 0 };
            beside.tenants.completed(at, Completion { tag: own, ..completion.take() }, sectors);
        }
        self.idle_tags.push(tag);
        Ok(())
    }

    /// Handles the end of an application.
    fn leave(&mut self, at: u32, mut done: AppDone) {
        let Source::Beside(beside) = &self.source else { return };
        let Some(name) = beside.tenants.names().nth(at as usize) else { return };
        let target = self.device.targets().into_iter().find(|place| place.namespace == name.namespace);
        done.report.job.clone_from(&name.name);
        done.report.target = target.map(|place| place.name);
        self.shares.ended.push((at, done));
    }

    /// Returns the reports of all applications, in the order of the description. Use of their parts of the drive counts to the end of the run.
    pub(super) fn applications(&mut self, measured: &Measured) -> Vec<ApplicationReport> {
        let sector_bytes = self.device.sector_bytes().into();
        let mut ended = std::mem::take(&mut self.shares.ended);
        ended.sort_by_key(|(at, _)| *at);
        let report = |(at, done): (u32, AppDone)| {
            let flash = self.share(at).unwrap_or_else(|| FlashUse::of(measured, sector_bytes));
            done.on_flash(&flash, sector_bytes)
        };
        ended.into_iter().map(report).collect()
    }

    /// Returns the use of an application's part of the drive; `None` if it is the whole drive.
    fn share(&self, at: u32) -> Option<FlashUse> {
        let Source::Beside(beside) = &self.source else { return None };
        let namespace = beside.tenants.names().nth(at as usize)?.namespace;
        let before = self.shares.before.get(at as usize).copied().flatten()?;
        let now = PartUse::of(self.device, namespace)?;
        let by_commands = || {
            let (written, copied) = beside.tenants.written_and_copied(at);
            let mut own = [0; Cause::COUNT];
            (own[Cause::Host as usize], own[Cause::Gc as usize]) = (written, copied);
            own
        };
        let counted = now.programmed.zip(before.programmed);
        let programmed = counted.map(|(now, before)| std::array::from_fn(|at| now[at] - before[at]));
        let sector_bytes = self.device.sector_bytes().into();
        let programmed = programmed.unwrap_or_else(by_commands);
        Some(FlashUse::of_part(now.layer, programmed, now.erases - before.erases, sector_bytes))
    }
}

/// Refuses jobs that cannot work beside an application: jobs that write to its namespace, and jobs that wait for one another.
pub(crate) fn check(places: &Places, own: &[(&Job, u16)], jobs: &[Job]) -> Result<(), JobError> {
    let refuse =
        |key, value: &str, allowed: String| Err(JobError::Value { key, value: value.into(), allowed });
    for (at, (job, namespace)) in own.iter().enumerate() {
        if let Some((other, _)) = own[..at].iter().find(|(_, theirs)| theirs == namespace) {
            let app = job.app.as_ref().map_or("", |app| app.name());
            let allowed = format!("on a target or namespace of its own: job {} has this one", other.name);
            return refuse("app", app, allowed);
        }
    }
    for job in jobs.iter().filter(|job| job.app.is_none()) {
        let rw = job.pattern_name();
        if let Some(set) = job.file_set() {
            let allowed = "app = the same beside an application; threads of rw work alone".into();
            return refuse("rw", set.personality.name(), allowed);
        }
        if job.stonewall || job.wait_for.is_some() {
            let (key, value) = match &job.wait_for {
                Some(name) => ("wait_for", name.as_str()),
                None => ("stonewall", "1"),
            };
            let allowed = "none beside an application: all begin together, once applications have warmed up";
            return refuse(key, value, allowed.into());
        }
        let number = match places.place(job)? {
            Place::Block(block) => block.number,
            Place::Raw(number) => number,
        };
        let reads = match &job.raw {
            Some(_) => rw.ends_with("read"),
            None => job.pattern.directions().iter().all(|way| *way == pellucid_workload::Direction::Read),
        };
        let Some((owner, _)) = own.iter().find(|(_, theirs)| *theirs == number).filter(|_| !reads) else {
            continue;
        };
        let allowed =
            format!("reads, or another target or namespace: its data there belong to job {}", owner.name);
        return refuse("rw", rw, allowed);
    }
    Ok(())
}
