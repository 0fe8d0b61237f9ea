//! Drives in service: what a server of drives has beside the [engine](crate::engine).
//!
//! ```text
//!  submit ─► steps ─► engine: submission batch ─► prefetch, record, count ─► drive ─► pop: record ─► next step, or done
//! ```
//! Here stands the path of an operation. Beside it: which drives are taken ([`offer`]), operations that take several steps ([`steps`]),
//! what is shown ([`figures`]), what is broken ([`damage`]), targets that come and go ([`targets`]).
//!
//! Invariant: before a drive is changed by anything but an operation, all operations that wait go in ([`Core::submit_waiting`]). Planned
//! faults are the exception: they come between two operations.

mod caches;
mod damage;
mod figures;
mod offer;
mod service;
mod steps;
mod targets;

use crate::budget::large_part;
use crate::drive::Served;
use crate::engine::{Answered, Engine, Entry, Lead, Route, Submission, Time};
use crate::event::Event;
use crate::hub::Hub;
use crate::plan::Plan;
use crate::remote::Remote;
use crate::service::{Done, Service};
use crate::session::{ConnectionId, Keeps, Namespace, Operation};
use pellucid_device::Device;
use pellucid_flash::{ChunkInfo, Command, Completion, Held, Histogram, Lba, Notice, Opcode, SimTime};
use pellucid_monitor::Board;
use std::collections::VecDeque;
use steps::Steps;
use targets::TargetBook;

pub use offer::Refusal;
pub use targets::KeepTargets;

/// Notices that are kept for hosts that have not asked yet; the oldest are lost.
const NOTICES_MAX: usize = 1 << 16;

/// An operation as it reached a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, in the drive's time.
    pub at: SimTime,
    /// Which drive.
    pub namespace: usize,
    /// Submission queue.
    pub queue: u16,
    /// What to do.
    pub opcode: Opcode,
    /// Force unit access.
    pub fua: bool,
    /// First sector.
    pub lba: Lba,
    /// Number of sectors.
    pub sectors: u32,
    /// Bytes of a sector.
    pub sector_bytes: u32,
}

/// Watches what goes into the drives and what comes out.
pub trait Observer {
    /// An operation arrives. `data` are the bytes of a write.
    fn arrived(&mut self, arrival: &Arrival, data: &[u8]);
    /// An operation has ended.
    fn completed(&mut self, _namespace: usize, _completion: &Completion) {}
    /// Why it sees no more, told once, when that begins.
    fn failed(&mut self) -> Option<String> {
        None
    }
    /// The server has stopped.
    ///
    /// # Errors
    /// What kept the observer from keeping what it saw.
    fn finished(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Operations {
    /// Submitted so far.
    had: u64,
    /// With this one a planned fault comes.
    strike: u64,
}

/// The drives and everything about them that does not depend on sockets.
pub struct Core {
    namespaces: Vec<Namespace>,
    /// Names of the drives.
    names: Vec<String>,
    engine: Engine<Served>,
    /// Of each namespace.
    operations: Vec<Operations>,
    plan: Plan,
    steps: Steps,
    observer: Option<Box<dyn Observer>>,
    /// Kept by the reactor and its connections.
    pub(crate) hub: Hub,
    board: Option<Board>,
    /// Notices of namespaces that were not taken.
    untold: VecDeque<(usize, Notice)>,
    /// There are drives in wall time.
    in_wall_time: bool,
    book: TargetBook,
    /// Layers are being stopped.
    resting: bool,
    /// Drives whose layers could not be stopped, each with the reason.
    unstopped: Vec<String>,
    /// Connections that wait until a drive, a cache, is detached.
    detaching: Vec<(ConnectionId, usize)>,
}

impl Core {
    /// Takes drives, each with its name, into service.
    ///
    /// # Errors
    /// Drives that cannot be served.
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
            hub: Hub { events, ..Hub::default() },
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
        })
    }

    /// From now on `observer` sees every operation.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// From now on completions are handed out so much more before their time (paced only), because that is what the way from
    /// the host to the drive and back costs outside of this process: what the host sees is then the modelled latency. What is modelled
    /// as quicker than the way is done at once.
    pub fn lead(&mut self, lead: Lead) {
        self.engine.set_lead(lead);
    }

    /// What is taken for the way from the host to the drive and back; 0 when time is instant.
    pub(crate) fn lead_ns(&self) -> u64 {
        self.engine.lead_ns()
    }

    /// What handing a completion out costs here, as measured; 0 when time is instant.
    pub(crate) fn hand_out_ns(&self) -> u64 {
        self.engine.hand_out_ns()
    }

    /// The namespaces, in the order of their numbers.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// The drive behind a namespace; `None`: it is remote, or a file.
    pub fn device(&self, namespace: usize) -> Option<&Device> {
        self.engine.backends()[self.namespaces[namespace].drive].device()
    }

    /// The drive behind a namespace, to be set up; `None`: it is remote.
    pub(crate) fn device_mut(&mut self, namespace: usize) -> Option<&mut Device> {
        self.submit_waiting();
        self.engine.backends_mut()[self.namespaces[namespace].drive].device_mut()
    }

    /// The same, to be damaged between two operations; or why not.
    pub(crate) fn device_here(&mut self, namespace: usize) -> Result<&mut Device, String> {
        const REMOTE: &str = "the drive is remote, or a file; allowed: a modelled drive, or the control socket of the remote drive's server";
        let drive = self.namespaces[namespace].drive;
        self.engine.backends_mut()[drive].device_mut().ok_or_else(|| REMOTE.to_owned())
    }

    /// What a report says of `count` chunks of an open-channel namespace from number `first` on; of a remote drive nothing.
    pub(crate) fn chunk_infos(&self, namespace: usize, first: u32, count: u32) -> Vec<ChunkInfo> {
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.engine.backends()[drive].chunk_infos(number, first, count)
    }

    /// Moves of a nameless namespace that are not acknowledged; of a remote drive none are known.
    pub(crate) fn moves(&self, namespace: usize) -> Vec<(Lba, Lba)> {
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.engine.backends()[drive].moves(number)
    }

    /// How a remote drive is connected; `None`: it is of this process.
    pub(crate) fn remote_state(&self, namespace: usize) -> Option<&'static str> {
        self.engine.backends()[self.namespaces[namespace].drive].remote().map(Remote::state)
    }

    /// Whether a namespace takes no writes.
    pub(crate) fn is_read_only(&self, namespace: usize) -> bool {
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.engine.backends()[drive].is_read_only(number)
    }

    /// See [`crate::session::Port::pop_notice`].
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

    /// How time goes.
    pub fn time(&self) -> Time {
        self.engine.time()
    }

    /// How late completions were handed out, in wall nanoseconds; empty unless paced.
    pub fn lateness_ns(&self) -> &Histogram<4> {
        self.engine.lateness_ns()
    }

    /// Hands an operation to a drive.
    ///
    /// # Panics
    /// When there is no such namespace.
    pub fn submit(&mut self, namespace: usize, route: Route, operation: Operation) {
        let bytes = operation.data.len();
        self.hub.budget.large += large_part(bytes);
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

    /// Gives the drives all that waits, because one is about to be changed.
    pub(crate) fn submit_waiting(&mut self) {
        self.enter_batch(true);
    }

    /// Gives the drives the submission batch: those whose turn it is; `all`: all of them.
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

    /// Has the processor ask for the memory that the reads of a batch will need: where their data lie, then the data.
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

    /// Lets the drives do what is due. Returns whether more can be done at once.
    pub fn run(&mut self) -> bool {
        if self.in_wall_time {
            self.run_in_wall_time();
        }
        self.enter_batch(false);
        self.engine.advance()
    }

    /// Lets the drives in wall time do what is due, and exchanges data with those that are remote.
    fn run_in_wall_time(&mut self) {
        let now = SimTime(self.now_ns());
        for drive in self.engine.backends_mut().iter_mut().filter(|drive| drive.is_in_wall_time()) {
            drive.turn(now);
            self.hub.events.append(&mut drive.take_events());
        }
    }

    /// The next operation that has ended.
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
                    self.hub.budget.large -= large_part(bytes);
                    return Some(Done { route, bytes, answer: completion });
                }
            }
        }
    }

    /// See [`crate::session::Port::held`].
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

    /// The drives of this process as they are now.
    pub fn into_devices(self) -> Vec<Device> {
        self.engine.into_backends().into_iter().filter_map(Served::into_device).collect()
    }
}
