//! Drives in service: state and steps that a server of drives adds to the [engine](crate::engine).
//!
//! ```text
//!  submit ─► steps ─► engine: submission batch ─► prefetch, record, count ─► drive ─► pop: record ─► next step, or done
//! ```
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`Desk`] | engine, hub of the connections, log, board | as in every service |
//! | [`Register`] | names, namespaces, operations of each | each namespace has its counter |
//! | [`Steps`] | steps of operations that are left | a tag has a rest exactly while its operation has further steps |
//! | [`Plan`] | planned faults | equal requests meet equal faults |
//! | [`Notices`] | what no host has been told yet | |
//! | [`TargetBook`] | holders of namespaces, connections that wait for targets, how targets are kept | a target that is held is not removed |
//! | [`Waits`] | connections that wait for a layer | each outcome is told once |
//! | [`Rest`] | the end: what could not be stopped | |
//!
//! Only an object itself writes its fields. The [`Core`] wires them: this file has the path of an operation, `service.rs` the calls of
//! sessions and of the server. The rest are functions over it: acceptance of drives ([`offer`]), figures for monitors ([`figures`]),
//! injected faults ([`damage`]), targets that are created and removed ([`targets`]), layers ([`layers`]) and the control socket
//! ([`status`]).
//!
//! Invariant: before anything but an operation changes a drive, all waiting operations are submitted to it
//! (`Core::submit_waiting`). Planned faults are the exception: they strike between two operations.

mod apps;
mod damage;
mod figures;
mod layers;
mod notices;
mod offer;
mod plan;
mod register;
mod rest;
mod service;
mod status;
mod steps;
mod targets;
mod waits;

use crate::drive::Served;
use crate::engine::{Entry, Lead, Submission, Time};
use crate::event::Event;
use crate::remote::Remote;
use crate::service::Desk;
use notices::Notices;
use pellucid_device::Device;
use pellucid_flash::{Command, Completion, Figure, Histogram, Lba, Opcode, SimTime};
use pellucid_host::{HostFtlConfig, Targets};
use pellucid_media::{Fault, Faults};
use pellucid_monitor::Figures;
use pellucid_target::budget::large_part;
use pellucid_target::connection::{ConnectionId, Route};
use pellucid_target::operation::{Keeps, Namespace, Operation};
use pellucid_target::request::{HostFault, PlannedFault};
use plan::Plan;
use register::Register;
use rest::Rest;
use steps::Steps;
use targets::TargetBook;
use waits::Waits;

pub use offer::Refusal;
pub use targets::KeepTargets;

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

/// The drives, and all state about them that does not depend on sockets.
pub struct Core {
    desk: Desk<Served>,
    register: Register,
    plan: Plan,
    steps: Steps,
    observer: Option<Box<dyn Observer>>,
    notices: Notices,
    book: TargetBook,
    /// Control connections that wait for the cache on a drive to be detached.
    detaching: Waits,
    /// Control connections that wait for the cluster buffer on a drive to be empty.
    pausing: Waits,
    rest: Rest,
    /// At least one drive runs in wall time.
    in_wall_time: bool,
    /// Programs of this process that work on the drives, by name.
    users: Vec<(String, UserFigures)>,
}

/// Returns the figures of a user of a drive; called by the server's thread, so it must not block.
pub type UserFigures = Box<dyn Fn() -> Vec<Figure> + Send>;

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
        let in_wall_time = devices.iter().any(Served::is_in_wall_time);
        let mut book = TargetBook::default();
        if devices.iter().any(|served| served.bottom().apps().is_some()) {
            book.changed_once();
        }
        let mut desk = Desk::new(devices, time);
        desk.logbook.events = events;
        Ok(Core {
            desk,
            register: Register::new(namespaces, names),
            plan: Plan::default(),
            steps: Steps::default(),
            observer: None,
            notices: Notices::default(),
            book,
            detaching: Waits::default(),
            pausing: Waits::default(),
            rest: Rest::default(),
            in_wall_time,
            users: Vec::new(),
        })
    }

    /// Returns whether a drive is divided among applications, each with its own subsystem.
    pub fn is_divided(&self, drive: usize) -> bool {
        self.desk.engine.backends().get(drive).is_some_and(|served| served.bottom().apps().is_some())
    }

    /// Sets the observer of all later operations.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// Hands out completions ahead of their time by the lead (paced only). The lead offsets the cost of the
    /// path between host and drive outside this process, so the host sees the modelled latency. A command
    /// whose modelled latency is shorter than that path is completed at once.
    pub fn lead(&mut self, lead: Lead) {
        self.desk.engine.set_lead(lead);
    }

    /// Estimated cost of the path from the host to the drive and back; 0 when time is instant.
    pub(crate) fn lead_ns(&self) -> u64 {
        self.desk.engine.lead_ns()
    }

    /// Measured cost of handing out a completion; 0 when time is instant.
    pub(crate) fn hand_out_ns(&self) -> u64 {
        self.desk.engine.hand_out_ns()
    }

    /// Time mode of the drives.
    pub fn time(&self) -> Time {
        self.desk.engine.time()
    }

    /// Lateness of completions, in wall nanoseconds; empty unless paced.
    pub fn lateness_ns(&self) -> &Histogram<4> {
        self.desk.engine.lateness_ns()
    }

    /// Present figures, in the form in which they are sent.
    pub fn figures(&self) -> Figures {
        Figures::from(&figures::view(self))
    }

    /// Connection state of a remote drive; `None` if the drive is local.
    pub(crate) fn remote_state(&self, namespace: usize) -> Option<&'static str> {
        self.served(namespace).bottom().remote().map(Remote::state)
    }

    /// Reason why a remote drive is lost for good, if it is.
    pub(crate) fn remote_loss(&self, namespace: usize) -> Option<&str> {
        self.served(namespace).bottom().remote().and_then(Remote::loss)
    }

    /// Sets how a drive's targets are created (`settings` for their host FTLs) and stored, and creates the
    /// existing ones, waiting in simulated time until they have started.
    ///
    /// # Errors
    /// Returns one sentence if there is no drive of this name, or if a target cannot be created.
    pub fn keep_targets(
        &mut self,
        drive: &str,
        settings: HostFtlConfig,
        targets: &Targets,
        keep: KeepTargets,
    ) -> Result<(), String> {
        targets::keep_all(self, drive, settings, targets, keep)
    }

    /// Marks a namespace as used by a connection, until [`Operated::release`](crate::Operated::release).
    pub(crate) fn hold(&mut self, connection: ConnectionId, namespace: usize) {
        self.book.hold(connection, namespace);
    }

    /// Plans a fault.
    ///
    /// # Errors
    /// Fails if the drive does not exist, or cannot be damaged in this way.
    pub fn plan(&mut self, fault: PlannedFault) -> Result<(), String> {
        damage::plan(self, fault)
    }

    /// Publishes the figures of a user of a drive in this process, under this name, beside those of layers.
    pub fn show_user(&mut self, name: String, figures: UserFigures) {
        self.users.push((name, figures));
    }

    /// Sets the failure probabilities of media operations.
    ///
    /// # Errors
    /// Fails for a value that is no probability, or for a location that does not exist.
    pub fn set_faults(&mut self, namespace: usize, faults: Faults) -> Result<(), String> {
        damage::set_faults(self, namespace, faults)
    }

    /// Damages a drive now.
    ///
    /// # Errors
    /// Fails, without any effect, if the die does not exist or a factor is out of range.
    pub fn inject(&mut self, namespace: usize, fault: Fault) -> Result<(), String> {
        damage::inject(self, namespace, fault)
    }

    /// Faults that the hosts of a namespace see, each with the number of commands it has hit.
    pub fn host_faults(&self, namespace: usize) -> Vec<(HostFault, u64)> {
        self.served(namespace).host_faults(self.register.get(namespace).number)
    }

    /// Drives whose layers could not be stopped in order, each with the reason: their data in memory are
    /// lost.
    pub fn unstopped(&self) -> &[String] {
        self.rest.unstopped()
    }

    /// The modelled drives of this process in their present state.
    pub fn into_devices(self) -> Vec<Device> {
        self.desk.engine.into_backends().into_iter().filter_map(Served::into_device).collect()
    }

    // ---- drives

    /// The drive behind a namespace.
    fn served(&self, namespace: usize) -> &Served {
        &self.desk.engine.backends()[self.register.get(namespace).drive]
    }

    /// Mutable access to a drive.
    fn drive_mut(&mut self, drive: usize) -> &mut Served {
        &mut self.desk.engine.backends_mut()[drive]
    }

    /// Logs an event.
    fn log(&mut self, event: Event) {
        self.desk.logbook.events.push(event);
    }

    // ---- path of an operation

    /// Begins an operation with its first step.
    #[inline]
    fn begin(&mut self, namespace: usize, route: Route, operation: Operation) {
        let bytes = operation.data.len();
        self.desk.hub.budget.hold_large(large_part(bytes));
        let tag = self.desk.engine.begin(Entry { route, namespace, bytes, inside: 0 });
        let step = self.steps.begin(self.register.get(namespace), tag, operation);
        self.take_step(namespace, tag, step);
    }

    #[inline]
    fn take_step(&mut self, namespace: usize, tag: u32, step: Operation) {
        let &Namespace { drive, number, .. } = self.register.get(namespace);
        let Operation { queue, opcode, fua, lba, sectors, data, handle, vector } = step;
        let queue = queue % self.desk.engine.backends()[drive].queues();
        let bytes = data.len();
        let command = Command::new(tag.into(), opcode, lba, sectors, data);
        let command = Command { queue, fua, handle, vector, namespace: number, ..command };
        if let Some(submission) = self.desk.engine.offer(drive, tag, bytes, command) {
            self.enter(submission);
        }
    }

    /// Submits all waiting operations, because a drive is about to be changed.
    fn submit_waiting(&mut self) {
        self.enter_batch(true);
    }

    /// Submits to the drives the operations whose turn it is, or, with `all`, every operation of the
    /// submission batch.
    fn enter_batch(&mut self, all: bool) {
        if !self.desk.engine.has_waiting() {
            return;
        }
        self.desk.engine.choose(all);
        self.prefetch();
        while let Some(submission) = self.desk.engine.next_chosen() {
            self.enter(submission);
        }
    }

    /// Prefetches the memory that the reads of a batch will need: first the mapping entries, then the data.
    fn prefetch(&self) {
        let engine = &self.desk.engine;
        if engine.chosen().len() < 2 {
            return;
        }
        let reads = || {
            engine.chosen().filter(|submission| submission.ask.opcode == Opcode::Read).filter_map(
                |submission| {
                    let device = engine.backends()[submission.backend].to_prefetch()?;
                    Some((device, submission.ask.namespace, submission.ask.lba))
                },
            )
        };
        reads().for_each(|(device, number, lba)| device.namespace(number).prefetch(lba));
        reads().for_each(|(device, number, lba)| device.namespace(number).prefetch_read(lba));
    }

    #[inline]
    fn enter(&mut self, submission: Submission<Command>) {
        let at = self.desk.engine.arrives(submission.backend);
        let namespace = self.desk.engine.entry(submission.tag).namespace;
        if let Some(observer) = &mut self.observer {
            let Command { queue, opcode, fua, lba, sectors, ref data, .. } = submission.ask;
            let sector_bytes = self.register.get(namespace).sector_bytes;
            let arrival = Arrival { at, namespace, queue, opcode, fua, lba, sectors, sector_bytes };
            observer.arrived(&arrival, if opcode == Opcode::Write { data } else { &[] });
        }
        self.desk.engine.enter(at, submission);
        if let Some(number) = self.register.count(namespace) {
            damage::strike(self, Some(namespace), number);
        }
    }

    /// Runs the due work of the drives in wall time, and exchanges data with remote ones.
    fn run_in_wall_time(&mut self) {
        let now = SimTime(self.desk.engine.now_ns());
        let in_wall_time = |(_, drive): &(usize, &mut Served)| drive.is_in_wall_time();
        for (number, drive) in self.desk.engine.backends_mut().iter_mut().enumerate().filter(in_wall_time) {
            drive.turn(now);
            let events = &mut self.desk.logbook.events;
            events.append(&mut drive.bottom_mut().take_events());
            events.extend(drive.layers_mut().take_lost().into_iter().map(|lost| Event::CacheLost {
                drive: self.register.name(number).to_owned(),
                offset: lost.start,
                bytes: lost.end - lost.start,
            }));
        }
    }
}
