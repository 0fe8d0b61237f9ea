//! The interface between protocols and the server: sessions, ports, operations and namespaces.
//!
//! ```text
//!  socket ─► Session::receive ─► Port::submit ─► drive
//!  socket ◄─ Port::output     ◄─ Session::completed ◄─┘
//! ```
//! A [`Session`] is the sans-io state of one connection: it reads no clock and owns no socket. All sessions
//! run on the thread that owns the drives, so sessions of one controller may share state through an
//! `Rc<RefCell<..>>` that the accept closure passes to each of them.
//!
//! Invariants: every submitted operation is answered by exactly one [`Session::completed`], never from inside
//! [`Port::submit`], unless the connection is gone; after [`Session::closed`] a session is not called again.

use crate::budget::{OWN_BYTES, TOTAL_BYTES_MAX, large_part, share_of};
use crate::connection::{Close, ConnectionId, Route};
use crate::hub::Hub;
use crate::operation::{Namespace, Operation};
use crate::output::Output;
use crate::pool::Pool;
use crate::service::{Answer, CutReport, Drives, Service};
use pellucid_device::Device;
use pellucid_flash::{ChunkInfo, Held, Lba, Notice};

/// Commands in the drives at which a connection is [congested](Port::congested).
pub const COMMANDS_MAX: u32 = 2048;
/// Bytes of data that one connection may request in one call, before the others have their turn.
pub const AT_ONCE_BYTES: usize = 1 << 20;
/// Minimum that a request counts towards [`AT_ONCE_BYTES`], as even one without data is work.
const AT_ONCE_MIN: usize = 4 << 10;
/// Bytes of data in the drives and in the output at which a connection is congested.
pub const BYTES_MAX: usize = 16 << 20;

/// The protocol state of one connection to a service, by default to drives.
pub trait Session<S: Service + ?Sized = dyn Drives> {
    /// Begins the session. A protocol whose server speaks first writes its greeting to the output.
    fn opened(&mut self, _port: &mut Port<'_, S>) {}

    /// Takes bytes off the front of `input`. It takes all of them, unless [`Port::congested`] forbids new
    /// commands: then it returns early, and is called again with the rest when commands have completed. It
    /// may also return early after much work, so that others have their turn, and is called again with the
    /// rest afterwards.
    ///
    /// # Errors
    /// Returns the reason if the connection must end.
    fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_, S>) -> Result<(), Close>;

    /// Buffer for the next bytes of an expected payload, so that they are read directly from the socket into
    /// place. It must be the missing part, and must not be empty.
    fn landing(&mut self) -> Option<&mut [u8]> {
        None
    }

    /// Handles `bytes` that were read into the front of [`Session::landing`]. Not called otherwise.
    ///
    /// # Errors
    /// Returns the reason if the connection must end.
    fn landed(&mut self, _bytes: usize, _port: &mut Port<'_, S>) -> Result<(), Close> {
        Ok(())
    }

    /// Returns true if the session can use more input now. It must return false while it waits for memory
    /// budget ([`Port::has_budget`]).
    fn wants_input(&self) -> bool {
        true
    }

    /// Continues after the memory budget that the session waited for is available: until this returns,
    /// [`Port::has_budget`] is true once.
    fn has_turn(&mut self, _port: &mut Port<'_, S>) -> Result<(), Close> {
        Ok(())
    }

    /// Handles the answer to the request submitted under `token`. The session must send a buffer in the
    /// answer, such as [`Completion::data`](pellucid_flash::Completion::data), with [`Output::data`], or
    /// return it with [`Port::give_back`].
    fn completed(&mut self, token: u64, answer: Answer<S>, port: &mut Port<'_, S>);

    /// Runs periodic work, about ten times a second and soon after [`Port::nudge`]. `now_ns` is wall time
    /// since the server started.
    ///
    /// # Errors
    /// Returns the reason if the connection must end, for example because its keep-alive time is over.
    fn tick(&mut self, _now_ns: u64, _port: &mut Port<'_, S>) -> Result<(), Close> {
        Ok(())
    }

    /// Returns true if the session keeps input that it has taken but not processed, as a layer over a
    /// congested session may. [`Session::receive`] is then called again even without new input.
    fn has_more(&self) -> bool {
        false
    }

    /// Ends the session after its connection is gone, whichever end closed it, and none of its operations is
    /// in the drives.
    fn closed(&mut self, _port: &mut Port<'_, S>) {}
}

/// Load of a connection on the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of submitted operations that have not completed.
    pub commands: u32,
    /// Bytes of data of these operations.
    pub bytes: usize,
    /// Bytes of data, expected or received, of operations that have not been submitted.
    pub incoming: usize,
    /// Bytes received since the last tick.
    pub moved: u64,
    /// Bytes of large requests being received.
    incoming_large: usize,
    /// Bytes requested through this [`Port`].
    at_once: usize,
    /// Bytes of the next answer, for which there was no room ([`Port::has_room`]); 0 if there was.
    wanted: usize,
    /// The connection waits for memory budget.
    waits: bool,
    /// The connection has waited for budget, and its turn has come.
    turn: bool,
}

impl Load {
    /// Counts a request with `bytes` of data as answered.
    #[inline]
    pub fn answered(&mut self, bytes: usize) {
        self.commands -= 1;
        self.bytes -= bytes;
    }

    /// Gives the connection its turn to take memory budget, until it is taken back.
    pub fn give_turn(&mut self) {
        (self.waits, self.turn) = (false, true);
    }

    /// Takes back a turn that was not used.
    pub fn take_turn(&mut self) {
        self.turn = false;
    }

    /// Releases the budget of data that were still to arrive.
    pub fn give_up_incoming(&mut self, hub: &mut Hub) {
        let (incoming, large) =
            (std::mem::take(&mut self.incoming), std::mem::take(&mut self.incoming_large));
        hub.budget.release(incoming, large);
    }
}

/// A session's access to the server: its output, the service, buffers, and other connections.
pub struct Port<'a, S: Service + ?Sized = dyn Drives> {
    service: &'a mut S,
    connection: ConnectionId,
    load: &'a mut Load,
    output: &'a mut Output,
    /// Pending bytes that are not in `output` but in a layer.
    beyond: usize,
}

impl<'a, S: Service + ?Sized> Port<'a, S> {
    /// Creates a port for `connection`.
    pub fn new(
        service: &'a mut S,
        connection: ConnectionId,
        load: &'a mut Load,
        output: &'a mut Output,
    ) -> Port<'a, S> {
        load.at_once = 0;
        Port { service, connection, load, output, beyond: 0 }
    }

    /// Connection of the session.
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Output to the peer.
    pub fn output(&mut self) -> &mut Output {
        self.output
    }

    /// Returns true if the connection has so much in flight, or has requested so much in one call, that it
    /// should start no new work now. It is never congested while it has nothing in the drives and nothing to
    /// send.
    pub fn congested(&self) -> bool {
        let bytes = self.load.bytes + self.output.bytes() + self.beyond;
        self.load.commands >= COMMANDS_MAX
            || self.load.at_once >= AT_ONCE_BYTES
            || bytes >= BYTES_MAX
            || (bytes > 0 && self.service.bytes_held() + OWN_BYTES > TOTAL_BYTES_MAX)
            || (self.load.wanted > 0 && !self.fits(self.load.wanted))
    }

    /// Returns true if the connection may hold an answer of `bytes` in addition to those it already holds;
    /// otherwise it is congested until it may. A connection that holds nothing always may. Others are limited
    /// to a [share](share_of) of the free budget, so a peer that reads no answers fills only its own share.
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

    /// Returns true if there is memory budget for a request with `bytes` of data, which must then begin at
    /// once. If not, the connection waits, and [`Session::has_turn`] is called when there is. A small request
    /// is admitted if no other data are arriving, as [`Port::congested`] was checked before.
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

    /// Charges `bytes` of expected data to the memory budget.
    #[inline]
    pub fn expect(&mut self, bytes: usize) {
        self.load.incoming += bytes;
        self.load.incoming_large += large_part(bytes);
        self.service.hub_mut().budget.expect(bytes);
    }

    /// Counts `bytes` of expected data as received.
    #[inline]
    pub fn came(&mut self, bytes: usize) {
        self.load.moved += bytes as u64;
    }

    /// Releases the budget of expected data that were submitted or dropped.
    #[inline]
    pub fn release(&mut self, bytes: usize) {
        self.load.incoming -= bytes;
        self.load.incoming_large -= large_part(bytes);
        self.service.hub_mut().budget.release(bytes, large_part(bytes));
    }

    /// Load of the connection.
    pub fn load(&self) -> Load {
        *self.load
    }

    /// Takes a buffer of `length` bytes with unspecified (but initialised) content. Memory of a large buffer
    /// is not touched before it is written to.
    pub fn take_buffer(&mut self, length: usize) -> Vec<u8> {
        self.service.hub_mut().pool.take(length)
    }

    /// Returns a buffer for reuse.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        self.service.hub_mut().pool.give_back(buffer);
    }

    /// Wall time in nanoseconds since the server started; the clock of [`Session::tick`].
    pub fn now_ns(&self) -> u64 {
        self.service.now_ns()
    }

    /// Fills `bytes` with randomness for keys; returns false if the system has none.
    pub fn draw_random(&mut self, bytes: &mut [u8]) -> bool {
        self.service.draw_random(bytes)
    }

    /// Schedules [`Session::tick`] of another connection (or this one), so that it can send something.
    pub fn nudge(&mut self, connection: ConnectionId) {
        self.service.hub_mut().nudge(connection);
    }

    /// Ends another connection (or this one) after its pending output is sent.
    pub fn close(&mut self, connection: ConnectionId, why: Close) {
        self.service.hub_mut().close(connection, why);
    }

    /// Creates the port of a layer between a session and its socket, with another output.
    pub fn with_output<'b>(&'b mut self, output: &'b mut Output) -> Port<'b, S> {
        let beyond = self.beyond + self.output.bytes();
        Port { service: self.service, connection: self.connection, load: self.load, output, beyond }
    }

    /// The output, and the pool of buffers.
    pub fn output_and_pool(&mut self) -> (&mut Output, &mut Pool) {
        (self.output, &mut self.service.hub_mut().pool)
    }

    /// The service.
    pub fn service(&mut self) -> &mut S {
        self.service
    }

    /// Counts a request with `bytes` of data, just before it is submitted; the service answers it to this
    /// connection.
    #[inline]
    pub fn submits(&mut self, bytes: usize) {
        self.load.commands += 1;
        self.load.bytes += bytes;
        self.load.at_once += bytes.max(AT_ONCE_MIN);
    }

    /// Returns true if the server is shutting down: new work should be refused.
    pub fn stopping(&self) -> bool {
        self.service.hub().is_stopping()
    }
}

/// Calls for sessions of drives.
impl Port<'_> {
    /// Submits an operation to a drive. [`Session::completed`] reports its end under `token`, which the
    /// session chooses. An invalid operation (range, length, buffer) is answered like any other, with its
    /// status.
    ///
    /// # Panics
    /// Panics if the namespace does not exist.
    pub fn submit(&mut self, namespace: usize, token: u64, operation: Operation) {
        self.submits(operation.data.len());
        self.service.submit(namespace, Route { connection: self.connection, token }, operation);
    }

    /// Namespaces by number. NVMe's namespace identifiers are these numbers plus 1.
    pub fn namespaces(&self) -> &[Namespace] {
        self.service.namespaces()
    }

    /// Holds a namespace for this connection: while the connection lives, a target is not removed.
    pub fn hold(&mut self, namespace: usize) {
        self.service.attach_to(self.connection, namespace);
    }

    /// Number of changes to the set of targets so far.
    pub fn target_changes(&self) -> u64 {
        self.service.target_changes()
    }

    /// Reports `count` chunks of an open-channel namespace from number `first` on.
    pub fn chunk_infos(&self, namespace: usize, first: u32, count: u32) -> Vec<ChunkInfo> {
        self.service.chunk_infos(namespace, first, count)
    }

    /// Unacknowledged moves of a nameless namespace: old name and new name.
    pub fn moves(&self, namespace: usize) -> Vec<(Lba, Lba)> {
        self.service.moves(namespace)
    }

    /// Returns the next unsolicited notice of one of these namespaces, with the namespace.
    pub fn pop_notice(&mut self, namespaces: &[usize]) -> Option<(usize, Notice)> {
        self.service.pop_notice(namespaces)
    }

    /// The firmware of the drive behind a namespace handles an admin command; see [`Drives::handle_admin`].
    pub fn handle_admin(&mut self, namespace: usize) {
        self.service.handle_admin(namespace);
    }

    /// Mutable access to the drive behind a namespace; `None` if it is remote.
    pub fn device_mut(&mut self, namespace: usize) -> Option<&mut Device> {
        self.service.device_mut(namespace)
    }

    /// The drive behind a namespace, with counters, wear and configuration; `None` if it is remote.
    pub fn device(&self, namespace: usize) -> Option<&Device> {
        self.service.device(namespace)
    }

    /// Returns true if a namespace takes no writes.
    pub fn is_read_only(&self, namespace: usize) -> bool {
        self.service.is_read_only(namespace)
    }

    /// Reports whether the mapping unit of `lba` holds data on the media or in the buffer, and up to which of
    /// `sectors` the answer is equal. About `looks_max` lookups limit the search; the answer covers at least
    /// `lba`.
    pub fn held(&self, namespace: usize, lba: Lba, sectors: u64, looks_max: u64) -> Held {
        self.service.held(namespace, lba, sectors, looks_max)
    }

    /// Cuts the power of the drive behind a namespace and restores it. Its operations, of all connections,
    /// end with [`pellucid_flash::Status::PowerLoss`].
    ///
    /// # Errors
    /// Fails if the drive cannot be mounted again, or is remote.
    pub fn power_cut(&mut self, namespace: usize) -> Result<CutReport, String> {
        self.service.power_cut(namespace)
    }
}
