//! One controller: its properties, queues, events, errors and keep-alive timer (Base 3).
//!
//! ```text
//!   Connect(queue 0) ─► disabled ─CC.EN=1─► ready ─CC.SHN─► shutting down ─flushed─► shut down
//!                          ▲                  │                                          │
//!                          └──────── CC.EN=0: I/O queues are closed, events forgotten ───┘ (ready until they have ended)
//!   admin connection lost, or keep-alive time over: the controller is gone
//! ```

use super::features::Features;
use super::{ABORTS_MAX, ASYNC_EVENTS_MAX, ERROR_ENTRIES_MAX, QUEUE_ENTRIES_MAX};
use crate::connection::ConnectionId;
use pellucid_wire::nvme::{
    AsyncEvent, Capabilities, ControllerConfig, ControllerStatus, ErrorLogEntry, Property, PropertyGet,
    PropertySet, ShutdownNotice, ShutdownState, Status, Version,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Interval of health checks of the drives.
const HEALTH_NS: u64 = 5_000_000_000;
/// Maximum time until a controller is ready, in units of 500 ms (CAP.TO and CRTO.CRWMT, which must agree).
const READY_500MS: u8 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// I/O controller of the subsystem with this index.
    Io(usize),
    Discovery,
}

/// State of the controller that the I/O queues check for every command.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Enabled and not shut down.
    pub ready: Cell<bool>,
    /// The volatile write cache is off: every write is a FUA write.
    pub write_through: Cell<bool>,
    /// Staged lists of addresses by key: a host may send the list and the command on different queues.
    pub lists: RefCell<BTreeMap<u64, Vec<u8>>>,
}

/// An abort whose command belongs to an I/O queue.
#[derive(Clone, Copy, Debug)]
struct Abort {
    queue: u16,
    cid: u16,
    /// Identifier of the abort command itself.
    abort_cid: u16,
    /// Outcome: true if the command was aborted; `None` until its queue has decided.
    outcome: Option<bool>,
}

#[derive(Debug)]
pub(super) struct Controller {
    pub id: u16,
    pub kind: Kind,
    pub host_nqn: String,
    pub host_id: [u8; 16],
    pub admin: ConnectionId,
    queues: BTreeMap<u16, ConnectionId>,
    /// Connections of queues that resets have closed; their commands may still be in flight.
    ending: Vec<ConnectionId>,
    pub gate: Rc<Gate>,
    pub features: Features,
    config: ControllerConfig,
    status: ControllerStatus,
    /// Time when the host was last heard.
    active_ns: u64,
    aborts: Vec<Abort>,
    /// Event requests that wait for an event; `events` wait for a request.
    requests: VecDeque<u16>,
    events: VecDeque<AsyncEvent>,
    /// Events whose log page has not been read since.
    masked: Vec<AsyncEvent>,
    /// Critical warnings of the SMART log at the last check.
    pub warnings: u8,
    /// Warnings that an event has already reported to the host.
    warnings_told: u8,
    /// Time of the next check.
    health_due_ns: u64,
    errors: VecDeque<ErrorLogEntry>,
    error_count: u64,
    /// Frozen persistent event log, while a host reads it.
    pub event_log: Option<Vec<u8>>,
    /// The subsystem has zoned namespaces, so hosts may select all command sets.
    pub zoned: bool,
    /// Chunk notices of the subsystem that the host has been told of.
    pub notices_told: u64,
    /// Moves of nameless namespaces that the host has been told of; initially 0, so a host learns of moves
    /// that it missed.
    pub moves_told: u64,
    /// Changed zones of the subsystem that the host has been told of.
    pub zones_told: u64,
    /// Power cuts of the subsystem's drives, up to the last that the controller has followed.
    power_cuts: u64,
    /// Changed zones that the host has read, by namespace.
    pub zones_read: BTreeMap<u32, u64>,
}

/// Action that a Property Set requires of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    Enabled,
    /// Close the I/O queues.
    Reset,
    /// Flush, then call [`Controller::shut_down`].
    Shutdown,
}

impl Controller {
    pub fn new(
        id: u16,
        kind: Kind,
        host: (String, [u8; 16]),
        admin: ConnectionId,
        now_ns: u64,
    ) -> Controller {
        Controller {
            id,
            kind,
            host_nqn: host.0,
            host_id: host.1,
            admin,
            queues: BTreeMap::new(),
            ending: Vec::new(),
            gate: Rc::default(),
            features: Features::default(),
            config: ControllerConfig(0),
            status: ControllerStatus { ready: false, fatal: false, shutdown: ShutdownState::Normal },
            active_ns: now_ns,
            aborts: Vec::new(),
            requests: VecDeque::new(),
            events: VecDeque::new(),
            masked: Vec::new(),
            warnings: 0,
            warnings_told: 0,
            health_due_ns: 0,
            errors: VecDeque::new(),
            error_count: 0,
            event_log: None,
            zoned: false,
            notices_told: 0,
            moves_told: 0,
            zones_told: 0,
            power_cuts: 0,
            zones_read: BTreeMap::new(),
        }
    }

    pub fn is_ready(&self) -> bool {
        self.status.ready && self.status.shutdown == ShutdownState::Normal
    }

    /// Returns true if the host's keep-alive time has expired.
    pub fn is_expired(&self, now_ns: u64) -> bool {
        let limit_ns = u64::from(self.features.keep_alive_ms) * 1_000_000;
        limit_ns > 0 && now_ns.saturating_sub(self.active_ns) > limit_ns
    }

    /// Sets the time after which a silent host counts as lost.
    pub fn set_keep_alive(&mut self, ms: u32) {
        self.features.keep_alive_ms = ms;
    }

    /// Begins to watch a subsystem, which may have zoned namespaces: earlier notices are no news for the host.
    pub fn begin_watch(&mut self, zoned: bool, notices: u64, zone_changes: u64, power_cuts: u64) {
        (self.zoned, self.notices_told, self.zones_told) = (zoned, notices, zone_changes);
        self.power_cuts = power_cuts;
    }

    /// Follows the power cuts of the drives, of which there have been `cuts`; returns true if there was one since the last call. The
    /// connection survives, but everything that hosts have set is lost: features have their defaults again. An event notifies the host,
    /// because it may have relied on a value, such as a disabled cache.
    pub fn follow_power(&mut self, cuts: u64, now_ns: u64) -> bool {
        if std::mem::replace(&mut self.power_cuts, cuts) == cuts {
            return false;
        }
        self.features = self.features.after_power_cut(now_ns);
        self.gate.write_through.set(false);
        self.gate.lists.borrow_mut().clear();
        self.event_log = None;
        self.look_at_health();
        if self.is_ready() {
            self.raise(AsyncEvent::TransientError);
        }
        true
    }

    /// Notes that the host was heard.
    pub fn heard(&mut self, now_ns: u64) {
        self.active_ns = now_ns;
    }

    // ---- I/O queues

    /// Adds an I/O queue.
    pub fn add_queue(&mut self, queue: u16, connection: ConnectionId) {
        let before = self.queues.insert(queue, connection);
        assert!(before.is_none(), "two connections carry queue {queue}");
    }

    /// Returns the connection of an I/O queue.
    pub fn queue(&self, queue: u16) -> Option<ConnectionId> {
        self.queues.get(&queue).copied()
    }

    /// Returns the number of I/O queues.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// Closes all I/O queues, whose commands may still be in flight; returns their connections.
    pub fn close_queues(&mut self) -> Vec<ConnectionId> {
        let closed: Vec<ConnectionId> = std::mem::take(&mut self.queues).into_values().collect();
        self.ending.extend(&closed);
        closed
    }

    /// Notes that a connection of a queue is gone; returns `true` if the queue was in use until now.
    pub fn end_queue(&mut self, queue: u16, connection: ConnectionId) -> bool {
        self.ending.retain(|&ending| ending != connection);
        let is_its = self.queues.get(&queue) == Some(&connection);
        if is_its {
            self.queues.remove(&queue);
        }
        is_its
    }

    // ---- aborts of commands of I/O queues

    /// Asks a queue to abort the command `cid`; returns `false` if as many aborts wait as may.
    pub fn ask_abort(&mut self, queue: u16, cid: u16, abort_cid: u16) -> bool {
        let has_room = self.aborts.len() < ABORTS_MAX;
        if has_room {
            self.aborts.push(Abort { queue, cid, abort_cid, outcome: None });
        }
        has_room
    }

    /// Decides on the aborts of a queue; `abort` is told the admin connection and the command.
    pub fn decide_aborts(&mut self, queue: u16, mut abort: impl FnMut(ConnectionId, u16) -> bool) {
        for asked in self.aborts.iter_mut().filter(|a| a.queue == queue && a.outcome.is_none()) {
            asked.outcome = Some(abort(self.admin, asked.cid));
        }
    }

    /// Drops the aborts of a closed queue; calls `tell` with the admin connection of each.
    pub fn give_up_aborts(&mut self, queue: u16, mut tell: impl FnMut(ConnectionId)) {
        for asked in self.aborts.iter_mut().filter(|a| a.queue == queue) {
            asked.outcome.get_or_insert(false);
            tell(self.admin);
        }
    }

    /// Removes the decided aborts; returns the identifier of each abort command, and whether its command was aborted.
    pub fn take_decided_aborts(&mut self) -> Vec<(u16, bool)> {
        let decided = self.aborts.extract_if(.., |abort| abort.outcome.is_some());
        decided.filter_map(|abort| Some((abort.abort_cid, abort.outcome?))).collect()
    }

    // ---- properties

    /// Reads a property. Tools read every possible property and expect exactly this status for a missing one.
    pub fn property(&self, get: &PropertyGet) -> Result<u64, Status> {
        let property = Property::from_raw(get.offset).ok_or(Status::INVALID_FIELD)?;
        if property.is_8_bytes() != get.is_8_bytes {
            return Err(Status::INVALID_FIELD);
        }
        match property {
            Property::Capabilities => Ok(Capabilities {
                queue_entries_max: QUEUE_ENTRIES_MAX,
                timeout_500ms: READY_500MS,
                subsystem_reset: false,
                other_command_sets: self.zoned,
            }
            .encode()),
            Property::Version => Ok(Version::V2_1.encode().into()),
            Property::Configuration => Ok(self.config.0.into()),
            // A reset ends when no earlier command can change the drives any more (Base 3.7.2).
            Property::Status => {
                let ready = self.status.ready || !self.ending.is_empty();
                Ok(ControllerStatus { ready, ..self.status }.encode().into())
            }
            // CRWMT, the time with media; there is no readiness without media.
            Property::ReadyTimeouts => Ok(READY_500MS.into()),
            Property::SubsystemReset => Err(Status::INVALID_FIELD),
        }
    }

    /// Writes a property; only CC is writable.
    pub fn set_property(&mut self, set: &PropertySet) -> Result<Change, Status> {
        let invalid = Status::INVALID_FIELD.do_not_retry();
        if set.is_8_bytes || Property::from_raw(set.offset) != Some(Property::Configuration) {
            return Err(invalid);
        }
        let new = ControllerConfig(set.value as u32);
        let notice = new.shutdown().ok_or(invalid)?;
        if new.enabled() && !self.config.enabled() {
            let sizes = (new.submission_entry_shift(), new.completion_entry_shift());
            let accepted = (new.command_set() == 0 || (new.command_set() == 6 && self.zoned))
                && new.arbitration() == 0
                && new.page_bytes() == 4096;
            // A discovery controller has no I/O queues, so a host may leave their entry sizes at zero.
            if !accepted || (sizes != (6, 4) && self.kind != Kind::Discovery) {
                return Err(invalid);
            }
        }
        let was = std::mem::replace(&mut self.config, new);
        if was.enabled() && !new.enabled() {
            self.reset();
            return Ok(Change::Reset);
        }
        if notice != ShutdownNotice::None && self.status.shutdown == ShutdownState::Normal {
            self.status.shutdown = ShutdownState::InProgress;
            self.gate.ready.set(false);
            return Ok(Change::Shutdown);
        }
        if new.enabled() && !was.enabled() {
            self.status = ControllerStatus { ready: true, fatal: false, shutdown: ShutdownState::Normal };
            self.gate.ready.set(true);
            return Ok(Change::Enabled);
        }
        Ok(Change::Nothing)
    }

    /// Completes a shutdown after everything is flushed.
    pub fn shut_down(&mut self) {
        if self.status.shutdown == ShutdownState::InProgress {
            self.status.shutdown = ShutdownState::Complete;
        }
    }

    fn reset(&mut self) {
        self.status = ControllerStatus { ready: false, fatal: false, shutdown: ShutdownState::Normal };
        self.gate.ready.set(false);
        self.gate.write_through.set(false);
        self.gate.lists.borrow_mut().clear();
        self.features = Features::default().with_keep_alive(self.features.keep_alive_ms);
        self.requests.clear();
        self.events.clear();
        self.masked.clear();
        self.aborts.clear();
        (self.warnings, self.warnings_told) = (0, 0);
        self.look_at_health();
        self.event_log = None;
    }

    /// Queues an asynchronous event request; [`Controller::next_event`] answers it.
    pub fn request_event(&mut self, cid: u16) -> Result<(), Status> {
        if self.requests.len() >= ASYNC_EVENTS_MAX {
            return Err(Status::ASYNC_EVENT_LIMIT_EXCEEDED.do_not_retry());
        }
        self.requests.push_back(cid);
        Ok(())
    }

    /// Removes the event request `cid`; returns true if it existed.
    pub fn abort_event_request(&mut self, cid: u16) -> bool {
        let at = self.requests.iter().position(|&request| request == cid);
        at.is_some_and(|at| self.requests.remove(at).is_some())
    }

    /// Raises an event, unless the host already has it.
    pub fn raise(&mut self, event: AsyncEvent) {
        if !self.masked.contains(&event) {
            self.masked.push(event);
            self.events.push_back(event);
        }
    }

    /// Reports whether a health check is due; the next one is due some time later then.
    pub fn takes_health_check(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns >= self.health_due_ns;
        if is_due {
            self.health_due_ns = now_ns + HEALTH_NS;
        }
        is_due
    }

    /// Schedules a health check with the next tick.
    pub fn look_at_health(&mut self) {
        self.health_due_ns = 0;
    }

    /// Critical warnings that the host wants events for and has not been told of; marks them as told.
    pub fn warnings_to_tell(&mut self) -> u8 {
        let told = self.warnings_told & self.warnings;
        let wanted = self.warnings & self.features.async_events.smart_warnings() & !told;
        self.warnings_told = told | wanted;
        wanted
    }

    /// Returns the next event and the request that it answers.
    pub fn next_event(&mut self) -> Option<(u16, AsyncEvent)> {
        let event = *self.events.front()?;
        let cid = self.requests.pop_front()?;
        self.events.pop_front();
        Some((cid, event))
    }

    /// Unmasks the events of a log page that was read: they may occur again.
    pub fn log_read(&mut self, log_id: u8) {
        self.masked.retain(|event| (event.encode() >> 16) as u8 != log_id);
    }

    /// Records a failed command.
    pub fn error(&mut self, mut entry: ErrorLogEntry) {
        self.error_count += 1;
        entry.count = self.error_count;
        if self.errors.len() == ERROR_ENTRIES_MAX {
            self.errors.pop_back();
        }
        self.errors.push_front(entry);
    }

    /// Failed commands, newest first.
    pub fn errors(&self) -> impl Iterator<Item = &ErrorLogEntry> {
        self.errors.iter()
    }
}
