//! The drives, their time, and whose operation is whose.
//!
//! Paced: an arrival is stamped `max(wall, drive)` ([`Pacer`] has the clocks). Instant: wall time plays no part; while operations are in
//! a drive it jumps from event to event. What sessions submit waits at the door until the drives run, so that what reads that came
//! together will need of the memory is asked for together:
//!
//! ```text
//!   submit ─ instant ─► at the door ─ run, in turns; or whoever changes a drive ─► drive ─► pop
//!     └───── paced, or remote ─────────────────────────────────────────────────────►─┘
//! ```
//!
//! Here stands the way of an operation. Beside it: who goes in when ([`door`]), which drives are taken ([`offer`]), whose operation is
//! whose ([`ledger`]), what is
//! forgotten piece by piece ([`forgetting`]), what is shown ([`figures`]), what is broken ([`damage`]), targets that come and go
//! ([`targets`]), how many answers go together ([`parts`]).
//!
//! Invariants: a drive is never told a time before one it was told already; operations enter a drive in the order in which they were
//! submitted, as far as they are of one connection; nobody changes a drive in any other way while some wait at its door.

mod damage;
mod door;
mod figures;
mod forgetting;
mod ledger;
mod offer;
mod parts;
mod targets;

use crate::drive::{Layered, Served};
use crate::pacer::{Lead, Pacer, Time};
use crate::plan::Plan;
use crate::pool::Pool;
use crate::remote::{Remote, TOKENS};
use crate::room::Room;
use crate::session::{Close, ConnectionId, Keeps, Namespace, Operation};
use door::{Door, Waiting};
use forgetting::Forgetting;
use hdrhistogram::Histogram;
use ledger::{Ledger, Pending};
use mio::{Poll, Token, Waker};
use parts::Parts;
use pellucid_device::Device;
use pellucid_flash::{ChunkInfo, ChunkNotice, Command, Completion, Lba, Opcode, SimTime};
use pellucid_host::MountCost;
use pellucid_media::{Extent, StoreNotice};
use pellucid_monitor::{Board, Protocol};
use std::collections::VecDeque;
use std::sync::Arc;
use targets::TargetBook;

pub use offer::Refusal;
pub(crate) use parts::PART_MAX;
pub use targets::KeepTargets;

/// Events that a drive may run before the sockets are looked at again.
const EVENTS_MAX: u32 = 4096;

/// Chunk notices that are kept for who has not asked yet; older ones are forgotten.
const CHUNK_NOTICES_MAX: usize = 1024;

/// Where a completion goes: to this connection's session, with its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The connection.
    pub connection: ConnectionId,
    /// The session's own name for the operation.
    pub token: u64,
}

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

/// An operation that has ended.
pub struct Done {
    /// Where its completion goes.
    pub route: Route,
    /// Bytes of data it was submitted with.
    pub bytes: usize,
    /// The completion.
    pub completion: Completion,
}

#[derive(Clone, Copy)]
struct Operations {
    /// Submitted so far.
    had: u64,
    /// With this one a planned fault comes.
    strike: u64,
}

/// What the start of a layer found, as a line of the log.
fn mount_notice(name: &str, cost: MountCost) -> String {
    let MountCost { reads, sectors, padded_stripes, time, report, .. } = cost;
    format!(
        "event=mounted drive={name:?} segments={} replayed={} mapped={} lost={} reads={reads} sectors={sectors} \
         padded={padded_stripes} took_us={}",
        report.segment_reads,
        report.replay_reads,
        report.mapped_units,
        report.lost_units,
        time.0 / 1_000
    )
}

/// A namespace that promises nothing, as a line of the log.
fn forgetful_notice(name: &str) -> String {
    format!(
        "event=promises-nothing namespace={name:?} why=\"durability = volatile: hosts are told of no flush and no forced writes; \
         a power cut and a restart may undo whatever was written\""
    )
}

/// What a drive can come to take of this machine, as a line of the log.
fn extent_notice(name: &str, extent: Extent) -> String {
    let Extent { memory_max, reserved, file_max } = extent;
    let mut line = format!("event=store drive={name:?} memory_max_bytes={memory_max}");
    if file_max > 0 {
        line += &format!(" file_max_bytes={file_max} file_reserved_bytes={reserved}");
    }
    line
}

/// What happened to a store, as a line of the log.
fn store_notice(name: &str, notice: &StoreNotice) -> String {
    let event = match notice {
        StoreNotice::Damaged { .. } => "store-damaged",
        StoreNotice::Refused { .. } => "store-refused",
        StoreNotice::Recovered { .. } => "store-recovered",
    };
    format!("event={event} drive={name:?} why={:?}", notice.to_string())
}

/// The drives and everything about them that does not depend on sockets.
pub struct Core {
    namespaces: Vec<Namespace>,
    /// Names of the drives.
    names: Vec<String>,
    devices: Vec<Served>,
    pacer: Pacer,
    /// Of each drive.
    operations: Vec<Operations>,
    plan: Plan,
    ledger: Ledger,
    forgetting: Forgetting,
    /// Empty unless time is instant.
    door: Door,
    /// What had ended when a power cut came, and nobody had been told.
    untold: VecDeque<Completion>,
    /// Those who go in at once; empty in between.
    next_in: Vec<Waiting>,
    parts: Parts,
    observer: Option<Box<dyn Observer>>,
    /// When something last came from a connection that is not one of control; kept by the reactor.
    pub(crate) heard_ns: u64,
    /// When the time that answers to control requests may take is free again.
    pub(crate) control_free_ns: u64,
    /// Bytes in the outputs of all connections; kept by the reactor.
    pub(crate) bytes_in_outputs: usize,
    pub(crate) room: Room,
    pub(crate) pool: Pool,
    pub(crate) nudged: Vec<ConnectionId>,
    pub(crate) closing: Vec<(ConnectionId, Close)>,
    /// Lines for the log.
    pub(crate) notices: Vec<String>,
    pub(crate) stopping: bool,
    /// Connections that are open; kept by the reactor.
    pub(crate) connections: usize,
    /// Each protocol that is listened for; kept by the reactor and its connections.
    pub(crate) protocols: Vec<Protocol>,
    board: Option<Board>,
    /// What open-channel namespaces have told and nobody has taken.
    chunk_notices: VecDeque<(usize, ChunkNotice)>,
    /// There are remote drives.
    remotes: bool,
    book: TargetBook,
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
        let started = names.iter().zip(&devices);
        let started = started.flat_map(|(name, drive)| {
            let device = drive.device();
            let mounted = match drive.mount_cost() {
                Some(cost) => Some(mount_notice(name, cost)),
                None => device.and_then(|device| Some(damage::remount_notice(name, device.last_mount()?.0))),
            };
            device.map(|device| extent_notice(name, device.extent())).into_iter().chain(mounted)
        });
        let forgetful =
            namespaces.iter().filter(|n| n.keeps == Keeps::Nothing).map(|n| forgetful_notice(&n.name));
        Ok(Core {
            notices: started.chain(forgetful).collect(),
            remotes: devices.iter().any(Served::is_remote),
            operations: namespaces.iter().map(|_| Operations { had: 0, strike: u64::MAX }).collect(),
            plan: Plan::default(),
            namespaces,
            names,
            devices,
            pacer: Pacer::new(time),
            ledger: Ledger::default(),
            forgetting: Forgetting::default(),
            door: Door::default(),
            untold: VecDeque::new(),
            next_in: Vec::new(),
            parts: Parts::default(),
            observer: None,
            heard_ns: 0,
            control_free_ns: 0,
            bytes_in_outputs: 0,
            room: Room::default(),
            pool: Pool::default(),
            nudged: Vec::new(),
            closing: Vec::new(),
            stopping: false,
            connections: 0,
            protocols: Vec::new(),
            board: None,
            chunk_notices: VecDeque::new(),
            book: TargetBook::default(),
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
        self.pacer.set_lead(lead);
    }

    /// What is taken for the way from the host to the drive and back; 0 when time is instant.
    pub(crate) fn lead_ns(&self) -> u64 {
        self.pacer.lead_ns()
    }

    /// What handing a completion out costs here, as measured; 0 when time is instant.
    pub(crate) fn hand_out_ns(&self) -> u64 {
        self.pacer.cost_ns()
    }

    /// The namespaces, in the order of their numbers.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// The drive behind a namespace; `None`: it is remote.
    pub fn device(&self, namespace: usize) -> Option<&Device> {
        self.devices[self.namespaces[namespace].drive].device()
    }

    /// The drive behind a namespace, to be set up; `None`: it is remote.
    pub(crate) fn device_mut(&mut self, namespace: usize) -> Option<&mut Device> {
        self.let_in();
        self.devices[self.namespaces[namespace].drive].device_mut()
    }

    /// The same, or why not.
    pub(crate) fn device_here(&mut self, namespace: usize) -> Result<&mut Device, String> {
        const REMOTE: &str = "the drive is remote; allowed: to ask whoever serves it";
        self.device_mut(namespace).ok_or_else(|| REMOTE.to_owned())
    }

    /// What a report says of `count` chunks of an open-channel namespace from number `first` on; of a remote drive nothing.
    pub(crate) fn chunk_infos(&self, namespace: usize, first: u32, count: u32) -> Vec<ChunkInfo> {
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.devices[drive].chunk_infos(number, first, count)
    }

    /// How a remote drive is connected; `None`: it is of this process.
    pub(crate) fn remote_state(&self, namespace: usize) -> Option<&'static str> {
        self.devices[self.namespaces[namespace].drive].remote().map(Remote::state)
    }

    /// Whether a namespace takes no writes.
    pub(crate) fn is_read_only(&self, namespace: usize) -> bool {
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.devices[drive].is_read_only(number)
    }

    /// Lets the remote drives wake `poll`: each has as many tokens as [`TOKENS`](crate::remote::TOKENS) says, from `first` on.
    pub(crate) fn attach(&mut self, poll: &Poll, first: Token, waker: &Arc<Waker>) -> std::io::Result<()> {
        for (at, drive) in self.devices.iter_mut().enumerate() {
            if let Some(layered) = drive.on_remote() {
                layered.attach(poll, Token(first.0 + at * TOKENS), waker)?;
            }
        }
        Ok(())
    }

    /// Something happened on a socket of a remote drive; `token` counts from the first of [`Core::attach`].
    pub(crate) fn remote_ready(&mut self, token: usize) {
        if let Some(layered) = self.devices.get_mut(token / TOKENS).and_then(Served::on_remote) {
            layered.ready(token % TOKENS);
        }
    }

    /// The server stops: nobody waits for modelled time, or for remote drives that are away.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
        self.pacer.time = Time::Instant;
        self.devices.iter_mut().filter_map(Served::on_remote).for_each(Layered::stop);
    }

    /// See [`crate::session::Port::pop_notice`].
    pub(crate) fn pop_notice(&mut self, namespaces: &[usize]) -> Option<(usize, ChunkNotice)> {
        for (drive, served) in self.devices.iter_mut().enumerate() {
            while let Some((number, notice)) = served.pop_notice() {
                let is_its = |n: &Namespace| n.drive == drive && n.number == number;
                let Some(namespace) = self.namespaces.iter().position(is_its) else { continue };
                if self.chunk_notices.len() == CHUNK_NOTICES_MAX {
                    self.chunk_notices.pop_front();
                }
                self.chunk_notices.push_back((namespace, notice));
            }
        }
        let at = self.chunk_notices.iter().position(|(namespace, _)| namespaces.contains(namespace))?;
        self.chunk_notices.remove(at)
    }

    /// How time goes.
    pub fn time(&self) -> Time {
        self.pacer.time
    }

    /// Wall time since the start.
    pub fn now_ns(&self) -> u64 {
        self.pacer.now_ns()
    }

    /// How late completions were handed out, in wall nanoseconds; empty unless paced.
    pub fn lateness_ns(&self) -> &Histogram<u64> {
        &self.pacer.lateness_ns
    }

    /// Bytes of data that come in, are in drives, or are to be sent.
    #[inline]
    pub(crate) fn bytes_held(&self) -> usize {
        self.room.incoming + self.ledger.bytes() + self.bytes_in_outputs
    }

    /// What the stores of the drives, and the observer, have to say goes to the notices.
    pub(crate) fn note_stores(&mut self) {
        for (name, drive) in self.names.iter().zip(&mut self.devices) {
            while let Some(notice) = drive.device_mut().and_then(Device::store_notice) {
                self.notices.push(store_notice(name, &notice));
            }
        }
        if let Some(why) = self.observer.as_mut().and_then(|observer| observer.failed()) {
            self.notices.push(format!("event=record-failed why={why:?}"));
        }
    }

    /// Operations in the drives.
    pub fn outstanding(&self) -> usize {
        self.ledger.outstanding()
    }

    /// All that was taken since [`Core::run`] has been sent, as far as the sockets took it.
    #[inline]
    pub(crate) fn handed_out(&mut self) {
        self.pacer.handed_out(self.ledger.outstanding());
    }

    /// Hands an operation to a drive.
    ///
    /// # Panics
    /// When there is no such namespace.
    pub fn submit(&mut self, namespace: usize, route: Route, operation: Operation) {
        let tag = self.ledger.enter(Pending { route, namespace, bytes: operation.data.len(), inside: 0 });
        let operation = self.forgetting.begin(&self.namespaces[namespace], tag, operation);
        self.hand_over(namespace, tag, operation);
    }

    #[inline]
    fn hand_over(&mut self, namespace: usize, tag: u32, operation: Operation) {
        let drive = self.namespaces[namespace].drive;
        if self.pacer.time == Time::Instant && !self.devices[drive].is_remote() {
            let connection = self.ledger.of(tag).route.connection;
            self.door.put(Waiting { connection, namespace, tag, operation });
        } else {
            self.enter(namespace, tag, operation);
        }
    }

    /// Whether an operation waits at the door of a drive.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.door.is_empty()
    }

    /// Lets in all that waits at the door, because a drive is about to be changed.
    pub(crate) fn let_in(&mut self) {
        self.let_in_next(true);
    }

    /// Lets in those whose turn it is; `all`: everybody.
    fn let_in_next(&mut self, all: bool) {
        if self.door.is_empty() {
            return;
        }
        let mut next = std::mem::take(&mut self.next_in);
        self.door.take(&mut next, all);
        if next.len() > 1 {
            self.announce(&next);
        }
        for waiting in next.drain(..) {
            let cost = self.door.enters(&waiting);
            let Waiting { namespace, tag, operation, .. } = waiting;
            self.ledger.enters(tag, cost);
            self.enter(namespace, tag, operation);
        }
        self.next_in = next;
    }

    /// Has the processor ask for the memory that these reads will need: where their data lie, then the data.
    fn announce(&self, next: &[Waiting]) {
        let reads = || {
            next.iter().filter(|waiting| waiting.operation.opcode == Opcode::Read).filter_map(|waiting| {
                let Namespace { drive, number, .. } = self.namespaces[waiting.namespace];
                Some((self.devices[drive].to_announce()?, number, waiting.operation.lba))
            })
        };
        reads().for_each(|(device, _, lba)| device.announce(lba));
        reads().for_each(|(device, number, lba)| device.announce_read(number, lba));
    }

    #[inline]
    fn enter(&mut self, namespace: usize, tag: u32, operation: Operation) {
        let Namespace { drive, number, sector_bytes, .. } = self.namespaces[namespace];
        let now = match self.devices[drive].on_remote() {
            None => self.pacer.arrives(),
            Some(_) => SimTime(self.now_ns()),
        };
        let device = &mut self.devices[drive];
        let at = now.max(device.now());
        let Operation { queue, opcode, fua, lba, sectors, data, handle, vector } = operation;
        let queue = queue % device.queues();
        if let Some(observer) = &mut self.observer {
            let arrival = Arrival { at, namespace, queue, opcode, fua, lba, sectors, sector_bytes };
            let written: &[u8] = if opcode == Opcode::Write { &data } else { &[] };
            observer.arrived(&arrival, written);
        }
        let command = Command::new(tag.into(), opcode, lba, sectors, data);
        device.submit(at, Command { queue, fua, handle, vector, namespace: number, ..command });
        let count = &mut self.operations[namespace];
        count.had += 1;
        if count.had == count.strike {
            let had = count.had;
            self.strike(Some(namespace), had);
        }
    }

    /// Lets the drives do what is due. Returns whether more can be done at once.
    pub fn run(&mut self) -> bool {
        if self.remotes {
            self.run_remotes();
        }
        match self.pacer.time {
            Time::Paced { .. } => {
                let look = self.pacer.look();
                for device in self.devices.iter_mut().filter(|device| !device.is_remote()) {
                    // No further than its events go: what arrives cannot be stamped before what the drive has done.
                    while let Some(at) = device.next_event()
                        && at <= look.until(device.outstanding_commands() > 0)
                    {
                        device.advance(at);
                    }
                }
                false
            }
            Time::Instant => {
                self.let_in_next(false);
                let part = self.parts.next(self.ledger.outstanding());
                let mut more = self.has_waiting();
                for device in self.devices.iter_mut().filter(|device| !device.is_remote()) {
                    for _ in 0..EVENTS_MAX {
                        let Some(at) = device.next_event().filter(|_| device.outstanding_commands() > 0)
                        else {
                            break;
                        };
                        device.advance(at);
                        if device.completed() >= part {
                            break;
                        }
                    }
                    more |= device.outstanding_commands() > 0;
                }
                more
            }
        }
    }

    /// Exchanges data with the remote drives; their time is wall time.
    #[cold]
    fn run_remotes(&mut self) {
        let now = SimTime(self.now_ns());
        for layered in self.devices.iter_mut().filter_map(Served::on_remote) {
            layered.turn(now);
            self.notices.append(&mut layered.take_notices());
        }
    }

    /// Instant: runs a little of what the drives do by themselves while nobody waits. Returns whether there is more.
    pub fn run_background(&mut self) -> bool {
        if self.pacer.time != Time::Instant {
            return false;
        }
        let mut more = false;
        for device in self.devices.iter_mut().filter(|device| !device.is_remote()) {
            for _ in 0..EVENTS_MAX / 16 {
                let Some(at) = device.next_event() else { break };
                device.advance(at);
            }
            more |= device.next_event().is_some();
        }
        more
    }

    /// Wall time, on the clock of [`Core::now_ns`], at which a drive next does something; `None`: not by itself.
    pub fn next_due_ns(&self) -> Option<u64> {
        let due = |device: &Served| match (device.is_remote(), self.pacer.time) {
            (true, _) => device.next_event().map(|at| at.0),
            (false, Time::Paced { .. }) => {
                device.next_event().map(|at| self.pacer.due_ns(at, device.outstanding_commands() > 0))
            }
            (false, Time::Instant) => None,
        };
        self.devices.iter().filter_map(due).min()
    }

    /// The next operation that has ended.
    #[inline]
    pub fn pop(&mut self) -> Option<Done> {
        let completion = loop {
            let untold = self.untold.pop_front();
            let completion = untold.or_else(|| self.devices.iter_mut().find_map(Served::pop))?;
            let tag = completion.tag as u32;
            let cost = self.ledger.leaves(tag);
            self.door.left(cost);
            if let Some(observer) = &mut self.observer {
                observer.completed(self.ledger.of(tag).namespace, &completion);
            }
            let Some(piece) = self.forgetting.go_on(tag, completion.status) else { break completion };
            self.hand_over(self.ledger.of(tag).namespace, tag, piece);
        };
        let Pending { route, bytes, .. } = self.ledger.leave(completion.tag as u32);
        self.pacer.took(completion.completed);
        Some(Done { route, bytes, completion })
    }

    /// See [`crate::session::Port::allocated`].
    pub(crate) fn allocated(&self, namespace: usize, lba: Lba, sectors: u64) -> (bool, u64) {
        let Namespace { drive, number, sector_bytes, unit_bytes, .. } = self.namespaces[namespace];
        let device = &self.devices[drive];
        let per_unit = u64::from(unit_bytes / sector_bytes);
        let holds = |unit: u64| u32::try_from(unit).is_ok_and(|unit| device.is_mapped(number, unit));
        let first = lba.0 / per_unit;
        let end = (lba.0 + sectors).div_ceil(per_unit);
        let answer = holds(first);
        let differs = (first + 1..end).find(|&unit| holds(unit) != answer);
        let length = differs.map_or(sectors, |unit| unit * per_unit - lba.0);
        (answer, length)
    }

    /// Layers bring to their drives what lets their next start find everything, which [`Core::is_at_rest`] says has ended.
    pub(crate) fn begin_rest(&mut self) {
        for (name, drive) in self.names.iter().zip(&mut self.devices) {
            if let Err(why) = drive.begin_rest() {
                self.notices.push(format!("event=stop-failed drive={name:?} why={why:?}"));
            }
        }
    }

    /// Whether no layer is being stopped any more. One that could not be is found as after a power cut.
    pub(crate) fn is_at_rest(&mut self) -> bool {
        let mut all = true;
        for (name, drive) in self.names.iter().zip(&mut self.devices) {
            match drive.layered().map_or(Some(Ok(())), Layered::rested) {
                None => all = false,
                Some(Ok(())) => {}
                Some(Err(why)) => self.notices.push(format!("event=stop-failed drive={name:?} why={why:?}")),
            }
        }
        all
    }

    /// Makes file stores durable and tells the observer that all is over.
    ///
    /// # Errors
    /// What a store or the observer says.
    pub fn finish(&mut self) -> Result<(), String> {
        let observed = self.observer.as_mut().map_or(Ok(()), |observer| observer.finished());
        for (device, name) in self.devices.iter_mut().zip(&self.names) {
            device.sync().map_err(|error| format!("{name}: {error}"))?;
        }
        observed.map_err(|error| format!("recording: {error}"))
    }

    /// The drives of this process as they are now.
    pub fn into_devices(self) -> Vec<Device> {
        self.devices.into_iter().filter_map(Served::into_device).collect()
    }
}
