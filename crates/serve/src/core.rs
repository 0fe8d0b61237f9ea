//! Drives in service: state and steps that a server of drives adds to the [engine](crate::engine).
//!
//! ```text
//!  submit ─► steps ─► engine: submission batch ─► prefetch, record, count ─► drive ─► pop: record ─► next step, or done
//! ```
//! This file holds the path of an operation. Submodules hold the rest: which drives are accepted ([`offer`]),
//! operations of several steps ([`steps`]), figures for monitors ([`figures`]), injected faults ([`damage`]),
//! and targets that are created and removed ([`targets`]).
//!
//! Invariant: before anything but an operation changes a drive, all waiting operations are submitted to it
//! ([`Core::submit_waiting`]). Planned faults are the exception: they strike between two operations.

mod damage;
mod figures;
mod layers;
mod offer;
mod plan;
mod service;
mod status;
mod steps;
mod targets;

use crate::core::plan::Plan;
use crate::drive::Served;
use crate::engine::{Answered, Engine, Entry, Lead, Submission, Time};
use crate::event::Event;
use crate::logbook::Logbook;
use crate::remote::Remote;
use crate::service::Done;
use pellucid_device::Device;
use pellucid_flash::{Command, Completion, Held, Histogram, Lba, Notice, Opcode, SimTime};
use pellucid_monitor::Board;
use pellucid_target::Hub;
use pellucid_target::Service;
use pellucid_target::budget::large_part;
use pellucid_target::connection::{ConnectionId, Route};
use pellucid_target::operation::{Keeps, Namespace, Operation};
use std::collections::VecDeque;
use steps::Steps;
use targets::TargetBook;

pub use offer::Refusal;
pub use targets::KeepTargets;

/// Notices kept for hosts that have not asked yet; beyond this number the oldest are dropped.
const NOTICES_MAX: usize = 1 << 16;

/// An operation as it reached a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time, in the drive's time.
    pub at: SimTime,
    /// Namespace of the operation.
    pub namespace: usize,
    /// Submission queue.
    pub queue: u16,
    /// Opcode of the operation.
    pub opcode: Opcode,
    /// Force unit access.
    pub fua: bool,
    /// First sector.
    pub lba: Lba,
    /// Number of sectors.
    pub sectors: u32,
    /// Bytes per sector.
    pub sector_bytes: u32,
}

/// Observes the operations that enter the drives and their completions.
pub trait Observer {
    /// Reports that an operation arrives. `data` are the bytes of a write.
    fn arrived(&mut self, arrival: &Arrival, data: &[u8]);
    /// Reports that an operation has ended.
    fn completed(&mut self, _namespace: usize, _completion: &Completion) {}
    /// Returns, once, the reason why the observer has stopped recording.
    fn failed(&mut self) -> Option<String> {
        None
    }
    /// Finishes after the server has stopped.
    ///
    /// # Errors
    /// Returns the I/O error that kept the observer from storing its records.
    fn finished(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Operations {
    /// Operations submitted so far.
    had: u64,
    /// Number of the operation with which the next planned fault strikes.
    strike: u64,
}

/// The drives, and all state about them that does not depend on sockets.
pub struct Core {
    namespaces: Vec<Namespace>,
    /// Names of the drives.
    names: Vec<String>,
    engine: Engine<Served>,
    /// Operation counters of each namespace.
    operations: Vec<Operations>,
    plan: Plan,
    steps: Steps,
    observer: Option<Box<dyn Observer>>,
    /// State that its connections share.
    hub: Hub,
    logbook: Logbook,
    board: Option<Board>,
    /// Notices that no host has taken yet, each with its namespace.
    untold: VecDeque<(usize, Notice)>,
    /// At least one drive runs in wall time.
    in_wall_time: bool,
    book: TargetBook,
    /// The layers are being stopped.
    resting: bool,
    /// Drives whose layers could not be stopped, each with the reason.
    unstopped: Vec<String>,
    /// Control connections that wait for the cache on a drive to be detached.
    detaching: Vec<(ConnectionId, usize)>,
    /// Control connections that wait for the cluster buffer on a drive to be empty.
    pausing: Vec<(ConnectionId, usize)>,
}

impl Core {
    /// Takes named drives into service.
    ///
    /// # Errors
    /// Refuses drives that cannot be served.
    pub fn new<D: Into<Served>>(drives: Vec<(String, D)>, time: Time) -> Result<Core, Refusal> {
        let drives: Vec<(String, Served)> =
            drives.into_iter().map(|(name, drive)| (name, drive.into())).collect();
        let namespaces = offer::namespaces(&drives)?;
        offer::check_time(time)?;
        let (names, devices): (Vec<String>, Vec<Served>) = drives.into_iter().unzip();
        let mut events = Vec::new();
        for (name, served) in names.iter().zip(&devices) {
            let (drive, device) = (name.clone(), served.device());
            events
                .extend(device.map(|device| Event::Store { drive: drive.clone(), extent: device.extent() }));
            let notices = served.start_notices();
            events.extend(notices.map(|why| Event::LayerNotice { drive: drive.clone(), why }));
            let figures = served.start_figures();
            match device.and_then(Device::last_mount) {
                _ if !figures.is_empty() => events.push(Event::LayerMounted { drive, figures }),
                Some((report, _)) => events.push(Event::Mounted { drive, report }),
                None => {}
            }
        }
        let volatile = namespaces.iter().filter(|n| n.keeps == Keeps::Nothing);
        events.extend(volatile.map(|n| Event::PromisesNothing { namespace: n.name.clone() }));
        Ok(Core {
            hub: Hub::default(),
            logbook: Logbook { events, ..Logbook::default() },
            in_wall_time: devices.iter().any(Served::is_in_wall_time),
            operations: namespaces.iter().map(|_| Operations { had: 0, strike: u64::MAX }).collect(),
            plan: Plan::default(),
            namespaces,
            names,
            engine: Engine::new(devices, time),
            steps: Steps::default(),
            observer: None,
            board: None,
            untold: VecDeque::new(),
            book: TargetBook::default(),
            resting: false,
            unstopped: Vec::new(),
            detaching: Vec::new(),
            pausing: Vec::new(),
        })
    }

    /// Sets the observer of all later operations.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// Hands out completions ahead of their time by the lead (paced only). The lead offsets the cost of the
    /// path between host and drive outside this process, so the host sees the modelled latency. A command
    /// whose modelled latency is shorter than that path is completed at once.
    pub fn lead(&mut self, lead: Lead) {
        self.engine.set_lead(lead);
    }

    /// Estimated cost of the path from the host to the drive and back; 0 when time is instant.
    pub(crate) fn lead_ns(&self) -> u64 {
        self.engine.lead_ns()
    }

    /// Measured cost of handing out a completion; 0 when time is instant.
    pub(crate) fn hand_out_ns(&self) -> u64 {
        self.engine.hand_out_ns()
    }

    /// The namespaces, in the order of their numbers.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// The drive behind a namespace; `None` if it is remote or a file.
    pub fn device(&self, namespace: usize) -> Option<&Device> {
        self.engine.backends()[self.namespaces[namespace].drive].device()
    }

    /// Mutable access to the drive behind a namespace; `None` if it is remote or a file.
    pub(crate) fn device_mut(&mut self, namespace: usize) -> Option<&mut Device> {
        self.submit_waiting();
        self.engine.backends_mut()[self.namespaces[namespace].drive].device_mut()
    }

    /// The drive behind a namespace, for damage between two operations, or the reason why there is none.
    pub(crate) fn device_here(&mut self, namespace: usize) -> Result<&mut Device, String> {
        const REMOTE: &str = "the drive is remote, or a file; allowed: a modelled drive, or the control socket of the remote drive's server";
        let drive = self.namespaces[namespace].drive;
        self.engine.backends_mut()[drive].device_mut().ok_or_else(|| REMOTE.to_owned())
    }

    /// Connection state of a remote drive; `None` if the drive is local.
    pub(crate) fn remote_state(&self, namespace: usize) -> Option<&'static str> {
        self.engine.backends()[self.namespaces[namespace].drive].remote().map(Remote::state)
    }

    /// Returns true if a namespace takes no writes.
    pub(crate) fn is_read_only(&self, namespace: usize) -> bool {
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.engine.backends()[drive].is_read_only(number)
    }

    /// See [`pellucid_target::session::Port::pop_notice`].
    pub(crate) fn pop_notice(&mut self, namespaces: &[usize]) -> Option<(usize, Notice)> {
        for (drive, served) in self.engine.backends_mut().iter_mut().enumerate() {
            while let Some((number, notice)) = served.pop_notice() {
                let is_its = |n: &Namespace| n.drive == drive && n.number == number;
                let Some(namespace) = self.namespaces.iter().position(is_its) else { continue };
                if self.untold.len() == NOTICES_MAX {
                    self.untold.pop_front();
                }
                self.untold.push_back((namespace, notice));
            }
        }
        let at = self.untold.iter().position(|(namespace, _)| namespaces.contains(namespace))?;
        self.untold.remove(at)
    }

    /// Time mode of the drives.
    pub fn time(&self) -> Time {
        self.engine.time()
    }

    /// Lateness of completions, in wall nanoseconds; empty unless paced.
    pub fn lateness_ns(&self) -> &Histogram<4> {
        self.engine.lateness_ns()
    }

    /// Submits an operation to a drive.
    ///
    /// # Panics
    /// Panics if the namespace does not exist.
    pub fn submit(&mut self, namespace: usize, route: Route, operation: Operation) {
        let bytes = operation.data.len();
        self.hub.budget.hold_large(large_part(bytes));
        let tag = self.engine.begin(Entry { route, namespace, bytes, inside: 0 });
        let step = self.steps.begin(&self.namespaces[namespace], tag, operation);
        self.take_step(namespace, tag, step);
    }

    #[inline]
    fn take_step(&mut self, namespace: usize, tag: u32, step: Operation) {
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        let Operation { queue, opcode, fua, lba, sectors, data, handle, vector } = step;
        let queue = queue % self.engine.backends()[drive].queues();
        let bytes = data.len();
        let command = Command::new(tag.into(), opcode, lba, sectors, data);
        let command = Command { queue, fua, handle, vector, namespace: number, ..command };
        if let Some(submission) = self.engine.offer(drive, tag, bytes, command) {
            self.enter(submission);
        }
    }

    /// Submits all waiting operations, because a drive is about to be changed.
    pub(crate) fn submit_waiting(&mut self) {
        self.enter_batch(true);
    }

    /// Submits to the drives the operations whose turn it is, or, with `all`, every operation of the
    /// submission batch.
    fn enter_batch(&mut self, all: bool) {
        if !self.engine.has_waiting() {
            return;
        }
        self.engine.choose(all);
        self.prefetch();
        while let Some(submission) = self.engine.next_chosen() {
            self.enter(submission);
        }
    }

    /// Prefetches the memory that the reads of a batch will need: first the mapping entries, then the data.
    fn prefetch(&self) {
        if self.engine.chosen().len() < 2 {
            return;
        }
        let reads = || {
            self.engine.chosen().filter(|submission| submission.ask.opcode == Opcode::Read).filter_map(
                |submission| {
                    let device = self.engine.backends()[submission.backend].to_prefetch()?;
                    Some((device, submission.ask.namespace, submission.ask.lba))
                },
            )
        };
        reads().for_each(|(device, number, lba)| device.prefetch(number, lba));
        reads().for_each(|(device, number, lba)| device.prefetch_read(number, lba));
    }

    #[inline]
    fn enter(&mut self, submission: Submission<Command>) {
        let at = self.engine.arrives(submission.backend);
        let namespace = self.engine.entry(submission.tag).namespace;
        if let Some(observer) = &mut self.observer {
            let Command { queue, opcode, fua, lba, sectors, ref data, .. } = submission.ask;
            let sector_bytes = self.namespaces[namespace].sector_bytes;
            let arrival = Arrival { at, namespace, queue, opcode, fua, lba, sectors, sector_bytes };
            observer.arrived(&arrival, if opcode == Opcode::Write { data } else { &[] });
        }
        self.engine.enter(at, submission);
        let count = &mut self.operations[namespace];
        count.had += 1;
        if count.had == count.strike {
            let had = count.had;
            self.strike(Some(namespace), had);
        }
    }

    /// Runs the drives' due work. Returns true if more can be done at once.
    pub fn run(&mut self) -> bool {
        if self.in_wall_time {
            self.run_in_wall_time();
        }
        self.enter_batch(false);
        self.engine.advance()
    }

    /// Runs the due work of the drives in wall time, and exchanges data with remote ones.
    fn run_in_wall_time(&mut self) {
        let now = SimTime(self.now_ns());
        for drive in self.engine.backends_mut().iter_mut().filter(|drive| drive.is_in_wall_time()) {
            drive.turn(now);
            self.logbook.events.append(&mut drive.take_events());
        }
    }

    /// Returns the next completed operation.
    #[inline]
    pub fn pop(&mut self) -> Option<Done<Completion>> {
        loop {
            let Answered { tag, at, answer: mut completion } = self.engine.take()?;
            let namespace = self.engine.entry(tag).namespace;
            if let Some(observer) = &mut self.observer {
                observer.completed(namespace, &completion);
            }
            match self.steps.go_on(tag, &mut completion) {
                Some(step) => self.take_step(namespace, tag, step),
                None => {
                    let Entry { route, bytes, .. } = self.engine.end(tag, at);
                    self.hub.budget.release_large(large_part(bytes));
                    return Some(Done { route, bytes, answer: completion });
                }
            }
        }
    }

    /// See [`pellucid_target::session::Port::held`].
    pub(crate) fn held(&self, namespace: usize, lba: Lba, sectors: u64, looks_max: u64) -> Held {
        let Namespace { drive, number, sector_bytes, unit_bytes, .. } = self.namespaces[namespace];
        let device = &self.engine.backends()[drive];
        let per_unit = u64::from(unit_bytes / sector_bytes);
        let end = (lba.0 + sectors).div_ceil(per_unit);
        let mut all = device.held(number, lba.0 / per_unit);
        while all.until < end && all.looks < looks_max {
            let next = device.held(number, all.until);
            all.looks += next.looks;
            if next.holds != all.holds {
                break;
            }
            all.until = next.until;
        }
        Held { until: all.until.min(end).saturating_mul(per_unit).min(lba.0 + sectors), ..all }
    }

    /// The modelled drives of this process in their present state.
    pub fn into_devices(self) -> Vec<Device> {
        self.engine.into_backends().into_iter().filter_map(Served::into_device).collect()
    }
}
