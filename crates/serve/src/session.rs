//! What a protocol sees of the server, and the server of a protocol.
//!
//! ```text
//!  socket ─► Session::receive ─► Port::submit ─► drive
//!  socket ◄─ Port::output     ◄─ Session::completed ◄─┘
//! ```
//! A [`Session`] is the sans-io state of one connection: it reads no clock and owns no socket. All sessions run on the one
//! thread that owns the drives, so sessions of one controller may share state through an `Rc<RefCell<..>>` that the accepting
//! closure hands to each of them.
//!
//! Invariants: every submitted operation is answered by exactly one [`Session::completed`], never from inside
//! [`Port::submit`], unless the connection is gone; after [`Session::closed`] a session is called no more.

use crate::budget::{OWN_BYTES, large_part, share_of};
use crate::core::Core;
use crate::engine::Route;
use crate::event::Event;
use crate::output::Output;
use crate::pool::Pool;
use crate::service::{Answer, Service};
use pellucid_device::Device;
use pellucid_flash::{ChunkInfo, Held, Interface, Lba, Notice, Opcode, Vector};
use pellucid_ftl::MountReport;

/// Commands that one connection may have in the drives before it is [congested](Port::congested).
pub const COMMANDS_MAX: u32 = 2048;
/// Bytes of data that one connection may ask for at once: with these the others have their turn.
pub const AT_ONCE_BYTES: usize = 1 << 20;
/// What a request counts of these at least: one without data is work as well.
const AT_ONCE_MIN: usize = 4 << 10;
/// Bytes of data that one connection may hold, in the drives and in its output, before it is congested.
pub const BYTES_MAX: usize = 16 << 20;
/// Bytes of data that all connections together may hold: coming in, in the drives and to be sent (and twice 16 KiB each).
pub const TOTAL_BYTES_MAX: usize = 256 << 20;

/// What the qualified name of a drive over NVMe begins with; that of the drive follows. Targets are named so that theirs fits, too.
pub const NQN_PREFIX: &str = "nqn.2026-01.org.pellucid:";

/// Names a connection for as long as the server runs; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(crate) u64);

impl ConnectionId {
    /// For tests of a session without a server.
    pub fn new(number: u64) -> ConnectionId {
        ConnectionId(number << crate::server::SLOT_BITS)
    }

    /// The id of attachment number `at`, which is no connection. Connections have a serial number above 0.
    pub(crate) fn of_attachment(at: usize) -> ConnectionId {
        ConnectionId(at as u64 + 1)
    }

    /// Which attachment it names; `None`: a connection, or the server itself.
    pub(crate) fn attachment(self) -> Option<usize> {
        let is_one = self.0 >> crate::server::SLOT_BITS == 0;
        is_one.then_some(usize::try_from(self.0).ok()?.checked_sub(1)?)
    }
}

impl std::fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (self.0 >> crate::server::SLOT_BITS).fmt(f)
    }
}

/// Why a connection ends. What is already in its output is still sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Close {
    /// The peer took its leave. Operations in the drives are still answered.
    Finished,
    /// The peer broke the protocol or was refused; the text goes to the log.
    Refused(String),
}

/// The protocol state of one connection to a service; without another, to drives.
pub trait Session<S: Service = Core> {
    /// The connection is there. A protocol whose server speaks first puts its greeting into the output.
    fn opened(&mut self, _port: &mut Port<'_, S>) {}

    /// Takes bytes off the front of `input`. It takes all of them, unless [`Port::congested`] says that no new command
    /// should start: then it returns early, and is called again with the rest when commands have completed. It may also return early
    /// after much work, so that others have their turn, and is called again with the rest after that.
    ///
    /// # Errors
    /// When the connection must end.
    fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_, S>) -> Result<(), Close>;

    /// Where the next bytes of a payload belong, if one is expected, so that they can be read from the socket straight to
    /// their place. Must be the part that is still missing and never empty.
    fn landing(&mut self) -> Option<&mut [u8]> {
        None
    }

    /// `bytes` bytes have been read into the front of [`Session::landing`]. Not called otherwise.
    ///
    /// # Errors
    /// When the connection must end.
    fn landed(&mut self, _bytes: usize, _port: &mut Port<'_, S>) -> Result<(), Close> {
        Ok(())
    }

    /// Whether more input is of use now. Not while the session waits for memory budget ([`Port::has_budget`]) before it can go on.
    fn wants_input(&self) -> bool {
        true
    }

    /// There is the memory budget that the session asked for, and its turn has come; until it returns [`Port::has_budget`] is true once.
    fn has_turn(&mut self, _port: &mut Port<'_, S>) -> Result<(), Close> {
        Ok(())
    }

    /// What was submitted under `token` has been answered. A buffer in the answer, as [`Completion::data`](pellucid_flash::Completion::data), is the session's to send
    /// ([`Output::data`]) or to give back ([`Port::give_back`]).
    fn completed(&mut self, token: u64, answer: Answer<S>, port: &mut Port<'_, S>);

    /// Called about ten times a second, and soon after [`Port::nudge`]. `now_ns` is wall time since the server started.
    ///
    /// # Errors
    /// When the connection must end, for one because its keep-alive time is over.
    fn tick(&mut self, _now_ns: u64, _port: &mut Port<'_, S>) -> Result<(), Close> {
        Ok(())
    }

    /// Whether it keeps input that it has taken off and not worked on, as a layer may whose own session is congested.
    /// [`Session::receive`] is then called again, though nothing has come.
    fn has_more(&self) -> bool {
        false
    }

    /// The connection is gone, whichever end closed it, and nothing that it submitted is in the drives any more.
    fn closed(&mut self, _port: &mut Port<'_, S>) {}
}

/// A command of a host, as [`pellucid_flash::Command`] without its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Submission queue of the drive; taken modulo the number of queues that the drive has.
    pub queue: u16,
    /// What to do.
    pub opcode: Opcode,
    /// Force unit access.
    pub fua: bool,
    /// First sector.
    pub lba: Lba,
    /// Number of sectors; 0 only for a flush.
    pub sectors: u32,
    /// `sectors * sector_bytes` bytes for a read (to be filled; from [`Port::take_buffer`]) and a write; else empty.
    pub data: Vec<u8>,
    /// Placement handle of a write, where the namespace has several.
    pub handle: u16,
    /// Addresses of an open-channel vector command.
    pub vector: Option<Box<Vector>>,
}

impl Operation {
    /// An operation in queue 0 that is neither forced to the media nor placed.
    pub fn new(opcode: Opcode, lba: Lba, sectors: u32, data: Vec<u8>) -> Operation {
        Operation { queue: 0, opcode, fua: false, lba, sectors, data, handle: 0, vector: None }
    }

    /// A flush.
    pub fn flush() -> Operation {
        Operation::new(Opcode::Flush, Lba(0), 0, Vec::new())
    }
}

/// What a namespace still has after its drive has lost its power, and so what hosts are told about caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Every write that was acknowledged, and what was discarded before a flush: there is no volatile cache.
    Acknowledged,
    /// What was flushed or forced: there is a volatile cache.
    Flushed,
    /// Nothing that hosts are promised: there is nothing to flush to.
    Nothing,
}

impl Keeps {
    /// Whether a write may be acknowledged before it is durable, and a flush makes it so.
    #[inline]
    pub fn has_cache(self) -> bool {
        self == Keeps::Flushed
    }

    /// The word for it in answers.
    pub fn name(self) -> &'static str {
        match self {
            Keeps::Acknowledged => "acknowledged",
            Keeps::Flushed => "flushed",
            Keeps::Nothing => "nothing",
        }
    }
}

/// What does not change about a namespace while it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its name: the NBD export.
    pub name: String,
    /// The drive that it is a namespace of, in the order in which the server has them.
    pub drive: usize,
    /// Its number among the namespaces of that drive.
    pub number: u16,
    /// What it is.
    pub interface: Interface,
    /// Host sectors; of chunks, those of the sparse address space.
    pub sectors: u64,
    /// Bytes of a host sector.
    pub sector_bytes: u32,
    /// Bytes of a mapping unit: requests aligned to it are served best.
    pub unit_bytes: u32,
    /// Bytes that are written to the media at once.
    pub superpage_bytes: u32,
    /// What it has after a power cut.
    pub keeps: Keeps,
    /// It is a target of this name on some of the drive's parallel units.
    pub target: Option<String>,
    /// It is not there yet, or not any more: no connection may begin to use it.
    pub gone: bool,
}

impl Namespace {
    /// Placement handles; 1 where there is no placement.
    pub fn handles(&self) -> u16 {
        self.interface.handles()
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.sectors * u64::from(self.sector_bytes)
    }
}

/// What a connection has in the drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Operations submitted and not completed.
    pub commands: u32,
    /// Bytes of their data.
    pub bytes: usize,
    /// Bytes of data that are to come in, or have, for operations that have not been submitted.
    pub incoming: usize,
    /// Bytes of these that have come since the last tick.
    pub moved: u64,
    /// Bytes of large requests that come in.
    pub(crate) incoming_large: usize,
    /// Bytes asked for through this [`Port`].
    pub(crate) at_once: usize,
    /// Bytes of the next answer, for which there was no room ([`Port::has_room`]); 0: there was.
    pub(crate) wanted: usize,
    /// It waits for memory budget.
    pub(crate) waits: bool,
    /// It has waited, and its turn has come.
    pub(crate) turn: bool,
}

/// A session's way to the server: its output, what is served, buffers, and other connections.
pub struct Port<'a, S: Service = Core> {
    service: &'a mut S,
    connection: ConnectionId,
    load: &'a mut Load,
    output: &'a mut Output,
    /// Bytes to be sent that are not in `output`: a layer has them.
    beyond: usize,
}

impl<'a, S: Service> Port<'a, S> {
    /// A port for `connection`.
    pub fn new(
        service: &'a mut S,
        connection: ConnectionId,
        load: &'a mut Load,
        output: &'a mut Output,
    ) -> Port<'a, S> {
        load.at_once = 0;
        Port { service, connection, load, output, beyond: 0 }
    }

    /// The connection that the session belongs to.
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// What is to be sent to the peer.
    pub fn output(&mut self) -> &mut Output {
        self.output
    }

    /// Whether the connection has so much under way, or has asked for so much in one call, that it should start nothing new now. It is
    /// never congested while it has nothing in the drives and nothing to send.
    pub fn congested(&self) -> bool {
        let bytes = self.load.bytes + self.output.bytes() + self.beyond;
        self.load.commands >= COMMANDS_MAX
            || self.load.at_once >= AT_ONCE_BYTES
            || bytes >= BYTES_MAX
            || (bytes > 0 && self.service.bytes_held() + OWN_BYTES > TOTAL_BYTES_MAX)
            || (self.load.wanted > 0 && !self.fits(self.load.wanted))
    }

    /// Whether the connection may hold an answer of so many bytes, beside those that it holds. If not, it is congested until it may. One
    /// that holds nothing always may; the others have the [share](share_of) of what is free, so a peer that takes no answers
    /// fills its own share and no other's.
    #[inline]
    pub fn has_room(&mut self, bytes: usize) -> bool {
        let fits = self.fits(bytes);
        self.load.wanted = if fits { 0 } else { bytes };
        fits
    }

    fn fits(&self, bytes: usize) -> bool {
        let holds = self.load.bytes + self.load.incoming + self.output.bytes() + self.beyond;
        holds == 0 || holds + bytes <= share_of(self.service.bytes_held())
    }

    /// Whether there is memory budget for a request with so many bytes of data, which begins at once then. If not, the connection waits
    /// from now on, and [`Session::has_turn`] is called when there is. A small request is admitted if nothing else comes in:
    /// [`Port::congested`] has been asked before.
    #[inline]
    pub fn has_budget(&mut self, bytes: usize) -> bool {
        (bytes <= OWN_BYTES && self.load.incoming == 0) || self.has_common_budget(bytes)
    }

    fn admits(&mut self, bytes: usize) -> bool {
        let held = self.service.bytes_held();
        self.service.hub_mut().budget.admits(held, bytes, self.load.turn)
    }

    fn has_common_budget(&mut self, bytes: usize) -> bool {
        if self.admits(bytes) {
            self.load.turn = false;
            return true;
        }
        if !std::mem::replace(&mut self.load.waits, true) {
            self.service.hub_mut().budget.wait(self.connection, bytes);
        }
        false
    }

    /// Data of so many bytes will come in; they are held from now on.
    #[inline]
    pub fn expect(&mut self, bytes: usize) {
        self.load.incoming += bytes;
        self.service.hub_mut().budget.incoming += bytes;
        self.load.incoming_large += large_part(bytes);
        self.service.hub_mut().budget.large += large_part(bytes);
    }

    /// So many bytes of them have come.
    #[inline]
    pub fn came(&mut self, bytes: usize) {
        self.load.moved += bytes as u64;
    }

    /// Data that were expected are held here no more: they are submitted, or given back.
    #[inline]
    pub fn release(&mut self, bytes: usize) {
        self.load.incoming -= bytes;
        self.service.hub_mut().budget.incoming -= bytes;
        self.load.incoming_large -= large_part(bytes);
        self.service.hub_mut().budget.large -= large_part(bytes);
    }

    /// What the connection has in the drives.
    pub fn load(&self) -> Load {
        *self.load
    }

    /// A buffer of `length` bytes, whose content is unspecified (but never uninitialised). Memory of a large one is not
    /// touched before it is written to.
    pub fn take_buffer(&mut self, length: usize) -> Vec<u8> {
        self.service.hub_mut().pool.take(length)
    }

    /// Gives a buffer back for later use.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        self.service.hub_mut().pool.give_back(buffer);
    }

    /// Wall time since the server started, in nanoseconds; the clock of [`Session::tick`].
    pub fn now_ns(&self) -> u64 {
        self.service.now_ns()
    }

    /// Tells the log.
    pub fn log(&mut self, event: Event) {
        self.service.hub_mut().events.push(event);
    }

    /// Has [`Session::tick`] of another connection (or this one) called soon, so that it can send something.
    pub fn nudge(&mut self, connection: ConnectionId) {
        self.service.hub_mut().nudged.push(connection);
    }

    /// Ends another connection (or this one), after what is in its output has been sent.
    pub fn close(&mut self, connection: ConnectionId, why: Close) {
        self.service.hub_mut().closing.push((connection, why));
    }

    /// The same port with another output, for a layer between a session and its socket.
    pub(crate) fn with_output<'b>(&'b mut self, output: &'b mut Output) -> Port<'b, S> {
        let beyond = self.beyond + self.output.bytes();
        Port { service: self.service, connection: self.connection, load: self.load, output, beyond }
    }

    /// The output, and buffers for later use.
    pub(crate) fn output_and_pool(&mut self) -> (&mut Output, &mut Pool) {
        (self.output, &mut self.service.hub_mut().pool)
    }

    /// What is served.
    pub fn service(&mut self) -> &mut S {
        self.service
    }

    /// A request with `bytes` bytes of data is about to be submitted to the service, which answers it to this connection.
    #[inline]
    pub(crate) fn submits(&mut self, bytes: usize) {
        self.load.commands += 1;
        self.load.bytes += bytes;
        self.load.at_once += bytes.max(AT_ONCE_MIN);
    }

    /// Whether the server is shutting down: new work should be refused.
    pub fn stopping(&self) -> bool {
        self.service.hub().stopping
    }
}

/// What a session of drives asks.
impl Port<'_> {
    /// Hands an operation to a drive. Its end comes as [`Session::completed`] with `token`, which is the session's own
    /// affair. An operation that makes no sense (range, length, buffer) is answered like any other, with its status.
    ///
    /// # Panics
    /// When there is no such namespace.
    pub fn submit(&mut self, namespace: usize, token: u64, operation: Operation) {
        self.submits(operation.data.len());
        self.service.submit(namespace, Route { connection: self.connection, token }, operation);
    }

    /// The namespaces; the number of one is its place here. NVMe's namespace identifiers are these plus 1.
    pub fn namespaces(&self) -> &[Namespace] {
        self.service.namespaces()
    }

    /// This connection uses a namespace from now on: as long as it lives, a target is not taken away.
    pub fn hold(&mut self, namespace: usize) {
        self.service.attach_to(self.connection, namespace);
    }

    /// Counts changes of what targets there are among the namespaces.
    pub(crate) fn target_changes(&self) -> u64 {
        self.service.target_changes()
    }

    /// What a report says of `count` chunks of an open-channel namespace from number `first` on.
    pub fn chunk_infos(&self, namespace: usize, first: u32, count: u32) -> Vec<ChunkInfo> {
        self.service.chunk_infos(namespace, first, count)
    }

    /// Moves of a nameless namespace that are not acknowledged: old name and new one.
    pub fn moves(&self, namespace: usize) -> Vec<(Lba, Lba)> {
        self.service.moves(namespace)
    }

    /// The next thing that one of these namespaces tells without being asked, with the namespace.
    pub fn pop_notice(&mut self, namespaces: &[usize]) -> Option<(usize, Notice)> {
        self.service.pop_notice(namespaces)
    }

    /// The drive behind a namespace, to be set up; `None`: it is remote.
    pub fn device_mut(&mut self, namespace: usize) -> Option<&mut Device> {
        self.service.device_mut(namespace)
    }

    /// The drive behind a namespace: counters, wear, configuration; `None`: it is remote.
    pub fn device(&self, namespace: usize) -> Option<&Device> {
        self.service.device(namespace)
    }

    /// Whether a namespace takes no writes.
    pub fn is_read_only(&self, namespace: usize) -> bool {
        self.service.is_read_only(namespace)
    }

    /// Whether the mapping unit of `lba` holds data on the media or in the buffer, and up to which of `sectors` the answer is the same, as
    /// far as some `looks_max` looks tell; behind `lba` at least.
    pub fn held(&self, namespace: usize, lba: Lba, sectors: u64, looks_max: u64) -> Held {
        self.service.held(namespace, lba, sectors, looks_max)
    }

    /// Cuts the power of the drive behind a namespace and switches it on again. Operations in it end with
    /// [`pellucid_flash::Status::PowerLoss`], of all connections.
    ///
    /// # Errors
    /// When the drive cannot be mounted any more, or is remote.
    pub fn power_cut(&mut self, namespace: usize) -> Result<MountReport, String> {
        self.service.power_cut(namespace)
    }
}
