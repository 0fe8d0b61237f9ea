//! The drives, their time, and whose operation is whose.
//!
//! Paced: an arrival is stamped `max(wall, drive)` ([`Pacer`] has the clocks). Instant: wall time plays no part; while operations are in
//! a drive it jumps from event to event.
//!
//! Invariants: a drive is never told a time before one it was told already; a tag of the drive is the number of the route
//! that its completion takes, and is in use from submit to completion.

mod targets;

use crate::control;
use crate::drive::{Layered, Served};
use crate::pacer::{Pacer, Time};
use crate::plan::{Plan, PlannedFault};
use crate::pool::Pool;
use crate::remote::{Remote, TOKENS};
use crate::session::{Close, ConnectionId, Namespace, Operation};
use hdrhistogram::Histogram;
use mio::{Poll, Token, Waker};
use pellucid_device::Device;
use pellucid_flash::{ChunkInfo, ChunkNotice, Command, Completion, Interface, Lba, Opcode, SimTime};
use pellucid_ftl::MountReport;
use pellucid_host::MountCost;
use pellucid_media::{Fault, Faults};
use pellucid_monitor::{Board, Figures, LayerSide, Protocol, Serving, View};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use targets::TargetBook;

pub use targets::KeepTargets;

/// Events that a drive may run before the sockets are looked at again.
const EVENTS_MAX: u32 = 4096;
/// Half of what is outstanding is sent at once, so that the host has something to do while the drive goes on; but no fewer
/// than this, for the sake of few system calls,
const PART_MIN: usize = 32;
/// and no more than this.
const PART_MAX: usize = 64;

/// Chunk notices that are kept for who has not asked yet; older ones are forgotten.
const CHUNK_NOTICES_MAX: usize = 1024;

/// Why drives cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no drive.
    NoDrive,
    /// The drive keeps stamps instead of data.
    Stamps {
        /// The drive.
        name: String,
    },
    /// Two drives have one name.
    SameName {
        /// The name.
        name: String,
    },
    /// A dilation that is not a number above 0.
    Dilation {
        /// The value.
        value: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoDrive => f.write_str("drives: none given; allowed: at least 1"),
            Refusal::Stamps { name } => write!(
                f,
                "{name}: drive.media.store = \"none\" keeps no data, so a host would read garbage; allowed: \"ram\", \
                 \"file\""
            ),
            Refusal::SameName { name } => write!(f, "{name}: two drives of this name; names must differ"),
            Refusal::Dilation { value } => write!(f, "dilation {value}; allowed: a number above 0"),
        }
    }
}

impl std::error::Error for Refusal {}

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
struct Pending {
    route: Route,
    namespace: usize,
    bytes: usize,
}

#[derive(Clone, Copy)]
struct Operations {
    /// Submitted so far.
    had: u64,
    /// With this one a planned fault comes.
    strike: u64,
}

/// How many completions of so many outstanding operations are sent together.
#[inline]
fn part_of(outstanding: usize) -> usize {
    if outstanding < 2 * PART_MIN { outstanding } else { (outstanding / 2).min(PART_MAX) }
}

/// Host sectors of a namespace; of chunks, those of the sparse address space.
fn sectors_of(interface: &Interface) -> u64 {
    match interface {
        Interface::Block { sectors, .. } => *sectors,
        Interface::Zoned(zones) => u64::from(zones.zones) * zones.zone_sectors,
        Interface::OpenChannel(chunks) => chunks.address_space_sectors(),
    }
}

/// The namespaces of a drive. A drive that has one gives it its own name; of several, each has its number behind that.
fn namespaces_of(drive: usize, name: &str, served: &Served) -> Vec<Namespace> {
    let [sector_bytes, unit_bytes, stripe_bytes] = served.sizes();
    let interfaces = served.interfaces();
    let named = |number: u16| {
        if interfaces.len() == 1 { name.to_string() } else { format!("{name}.{}", number + 1) }
    };
    let namespace = |&(number, interface): &(u16, Interface)| Namespace {
        name: named(number),
        drive,
        number,
        interface,
        sectors: sectors_of(&interface),
        sector_bytes,
        unit_bytes,
        stripe_bytes,
        write_back: served.has_write_cache(),
        target: None,
        gone: false,
    };
    interfaces.iter().map(namespace).collect()
}

/// What the start of a layer found, as a line of the log.
fn mount_notice(name: &str, cost: MountCost) -> String {
    let MountCost { reads, sectors, padded_stripes, time, report, .. } = cost;
    format!(
        "event=mounted drive={name:?} segments={} replayed={} mapped={} reads={reads} sectors={sectors} \
         padded={padded_stripes} took_us={}",
        report.segment_reads,
        report.replay_reads,
        report.mapped_units,
        time.0 / 1_000
    )
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
    pending: Vec<Pending>,
    idle_tags: Vec<u32>,
    observer: Option<Box<dyn Observer>>,
    bytes_in_drives: usize,
    /// Bytes in the outputs of all connections; kept by the reactor.
    pub(crate) bytes_in_outputs: usize,
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
        if drives.is_empty() {
            return Err(Refusal::NoDrive);
        }
        if let Time::Paced { dilation } = time
            && !(dilation.is_finite() && dilation > 0.0)
        {
            return Err(Refusal::Dilation { value: dilation.to_string() });
        }
        let mut namespaces: Vec<Namespace> = Vec::new();
        for (name, device) in &drives {
            if device.image_bytes() != device.sizes()[0] as usize {
                return Err(Refusal::Stamps { name: name.clone() });
            }
            let of_drive =
                namespaces_of(namespaces.iter().map(|n| n.drive + 1).max().unwrap_or(0), name, device);
            let taken = |name: &str| namespaces.iter().any(|n| n.name == name);
            if let Some(same) = of_drive.iter().find(|n| taken(&n.name)) {
                return Err(Refusal::SameName { name: same.name.clone() });
            }
            namespaces.extend(of_drive);
        }
        let (names, devices): (Vec<String>, Vec<Served>) = drives.into_iter().unzip();
        let started = names.iter().zip(&devices);
        let started = started.filter_map(|(name, drive)| Some(mount_notice(name, drive.mount_cost()?)));
        Ok(Core {
            remotes: devices.iter().any(Served::is_remote),
            operations: namespaces.iter().map(|_| Operations { had: 0, strike: u64::MAX }).collect(),
            plan: Plan::default(),
            notices: started.collect(),
            namespaces,
            names,
            devices,
            pacer: Pacer::new(time),
            pending: Vec::new(),
            idle_tags: Vec::new(),
            observer: None,
            bytes_in_drives: 0,
            bytes_in_outputs: 0,
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
    pub fn lead(&mut self, lead: Duration) {
        self.pacer.set_lead(lead);
    }

    /// From now on the drives are watched.
    pub fn watch(&mut self) {
        let devices = self.devices.iter_mut().filter_map(Served::device_mut);
        devices.filter(|device| !device.is_watched()).for_each(Device::watch);
    }

    /// From now on the drives are watched, and shown on `board` to who asks there.
    pub fn show_on(&mut self, board: Board) {
        self.watch();
        self.board = Some(board);
    }

    /// Shows everything as it is now, if somebody asks.
    #[inline]
    pub(crate) fn show(&self) {
        if let Some(board) = self.board.as_ref().filter(|board| board.wanted()) {
            board.publish(self.view());
        }
    }

    /// Everything as it is now, in the form that is sent.
    pub fn figures(&self) -> Figures {
        Figures::from(&self.view())
    }

    #[cold]
    fn view(&self) -> View {
        let mut lateness_ns = pellucid_device::Histogram::default();
        for late in self.pacer.lateness_ns.iter_recorded() {
            lateness_ns.record(late.value_iterated_to(), late.count_at_value());
        }
        let drives = self.names.iter().zip(&self.devices);
        let drives = drives.filter_map(|(name, drive)| Some((name.clone(), drive.device()?.snapshot())));
        View {
            wall: Duration::from_nanos(self.now_ns()),
            drives: drives.collect(),
            serving: Some(Serving {
                protocols: self.protocols.clone(),
                layers: self.layers(),
                held_bytes: self.bytes_held() as u64,
                lateness_ns,
            }),
            work: None,
        }
    }

    /// What the host's side of every layer knows.
    fn layers(&self) -> Vec<LayerSide> {
        let side = |namespace: &Namespace| {
            let (figures, remote) = self.devices[namespace.drive].layer_figures(namespace.number)?;
            let bytes = |sectors: u64| sectors * u64::from(figures.sector_bytes);
            let counters = &figures.counters;
            Some(LayerSide {
                name: namespace.name.clone(),
                remote,
                capacity_bytes: bytes(figures.capacity_sectors),
                read_bytes: bytes(counters.read_sectors),
                written_bytes: bytes(counters.written_sectors),
                buffer_read_bytes: bytes(counters.buffer_read_hits),
                programmed_bytes: counters.programmed_sectors.map(bytes),
                commands: counters.commands,
                erased_lines: counters.erased_lines,
                free_lines: figures.lines.0.into(),
                lines: figures.lines.1.into(),
                write_failures: counters.write_failures,
                lost_reads: counters.lost_reads,
                memory_bytes: figures.memory_bytes,
            })
        };
        self.namespaces.iter().filter(|namespace| !namespace.gone).filter_map(side).collect()
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
        self.devices[self.namespaces[namespace].drive].is_read_only()
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

    /// The server stops: nobody waits for remote drives that are away.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
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

    /// Bytes of data in drives and outputs.
    pub(crate) fn bytes_held(&self) -> usize {
        self.bytes_in_drives + self.bytes_in_outputs
    }

    /// Operations in the drives.
    pub fn outstanding(&self) -> usize {
        self.pending.len() - self.idle_tags.len()
    }

    /// All that was taken since [`Core::run`] has been sent, as far as the sockets took it.
    #[inline]
    pub(crate) fn handed_out(&mut self) {
        self.pacer.handed_out();
    }

    /// Hands an operation to a drive.
    ///
    /// # Panics
    /// When there is no such namespace.
    pub fn submit(&mut self, namespace: usize, route: Route, operation: Operation) {
        let Namespace { drive, number, sector_bytes, .. } = self.namespaces[namespace];
        let now = match self.devices[drive].on_remote() {
            None => self.pacer.arrival_now(),
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
        let pending = Pending { route, namespace, bytes: data.len() };
        self.bytes_in_drives += data.len();
        let tag = match self.idle_tags.pop() {
            Some(tag) => {
                self.pending[tag as usize] = pending;
                tag
            }
            None => {
                self.pending.push(pending);
                self.pending.len() as u32 - 1
            }
        };
        let command = Command::new(tag.into(), opcode, lba, sectors, data);
        device.submit(at, Command { queue, fua, handle, vector, namespace: number, ..command });
        let count = &mut self.operations[namespace];
        count.had += 1;
        if count.had == count.strike {
            let had = count.had;
            self.strike(Some(namespace), had);
        }
    }

    /// Plans a fault.
    ///
    /// # Errors
    /// A drive that is not there, or damage that cannot be done to it.
    pub fn plan(&mut self, fault: PlannedFault) -> Result<(), String> {
        let namespace = control::named(fault.drive.as_deref(), &self.namespaces)?;
        fault.action.check(namespace, self)?;
        self.plan.add(fault, namespace, self.operations[namespace].had);
        self.operations[namespace].strike = self.plan.next_operation(namespace);
        Ok(())
    }

    /// Wall time of the next fault that is planned for a time, on the clock of [`Core::now_ns`].
    pub(crate) fn next_fault_ns(&self) -> Option<u64> {
        let at = self.plan.next_ns();
        (at < u64::MAX).then_some(at)
    }

    /// Lets planned faults happen: those of a drive with an operation, or those whose time has come.
    #[cold]
    pub(crate) fn strike(&mut self, namespace: Option<usize>, now: u64) {
        while let Some((drive, fault)) = self.plan.take(namespace, now) {
            let name = &self.namespaces[drive].name;
            let had = self.operations[drive].had;
            let mut notice = format!("event=fault drive={name:?} fault={:?} operations={had}", fault.text);
            match fault.action.carry_out(drive, self) {
                Ok(answer) => notice += &format!(" answer={:?}", answer.to_string()),
                Err(error) => notice += &format!(" error={error:?}"),
            }
            self.notices.push(notice);
        }
        for (namespace, count) in self.operations.iter_mut().enumerate() {
            count.strike = self.plan.next_operation(namespace);
        }
    }

    /// Lets the drives do what is due. Returns whether more can be done at once.
    pub fn run(&mut self) -> bool {
        if self.remotes {
            self.run_remotes();
        }
        match self.pacer.time {
            Time::Paced { .. } => {
                let now = self.pacer.look();
                for device in self.devices.iter_mut().filter(|device| !device.is_remote()) {
                    // No further than its events go: with a lead, what arrives would be stamped late.
                    while let Some(at) = device.next_event().filter(|&at| at <= now) {
                        device.advance(at);
                    }
                }
                false
            }
            Time::Instant => {
                let mut more = false;
                for device in self.devices.iter_mut().filter(|device| !device.is_remote()) {
                    let part = part_of(device.outstanding_commands());
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
            (false, Time::Paced { .. }) => device.next_event().map(|at| self.pacer.due_ns(at)),
            (false, Time::Instant) => None,
        };
        self.devices.iter().filter_map(due).min()
    }

    /// The next operation that has ended.
    #[inline]
    pub fn pop(&mut self) -> Option<Done> {
        let completion = self.devices.iter_mut().find_map(Served::pop)?;
        let Pending { route, namespace, bytes } = self.pending[completion.tag as usize];
        if let Some(observer) = &mut self.observer {
            observer.completed(namespace, &completion);
        }
        self.pacer.took(completion.completed);
        self.idle_tags.push(completion.tag as u32);
        self.bytes_in_drives -= bytes;
        Some(Done { route, bytes, completion })
    }

    /// Cuts the power of a drive and switches it on again.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub fn power_cut(&mut self, namespace: usize) -> Result<MountReport, String> {
        let now = self.pacer.drive_now();
        let device = &mut self.devices[self.namespaces[namespace].drive];
        if !device.is_remote() && now > device.now() {
            device.advance(now);
        }
        device.power_cut()
    }

    /// From now on operations of the media fail by these chances.
    ///
    /// # Errors
    /// A value that is no probability, or a place that is not there.
    pub fn set_faults(&mut self, namespace: usize, faults: Faults) -> Result<(), String> {
        self.device_here(namespace)?.set_faults(faults).map_err(|error| error.to_string())
    }

    /// Does damage to a drive, now.
    ///
    /// # Errors
    /// A die that is not there, or a factor out of range; nothing has happened then.
    pub fn inject(&mut self, namespace: usize, fault: Fault) -> Result<(), String> {
        let now = self.pacer.drive_now();
        let device = self.device_here(namespace)?;
        device.inject(now.max(device.now()), fault).map_err(|error| error.to_string())
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
            if let Some(Err(why)) = drive.layered().map(Layered::begin_rest) {
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
