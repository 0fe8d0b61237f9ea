//! One controller: its properties, queues, events, errors and keep-alive time (Base 3).
//!
//! ```text
//!   Connect(queue 0) ─► disabled ─CC.EN=1─► ready ─CC.SHN─► shutting down ─flushed─► shut down
//!                          ▲                  │                                          │
//!                          └──────── CC.EN=0: I/O queues are closed, events forgotten ───┘ (ready until they have ended)
//!   admin connection lost, or keep-alive time over: the controller is gone
//! ```

use super::features::Features;
use super::{ASYNC_EVENTS_MAX, ERROR_ENTRIES_MAX, QUEUE_ENTRIES_MAX};
use crate::session::ConnectionId;
use pellucid_wire::nvme::{
    AsyncEvent, Capabilities, ControllerConfig, ControllerStatus, ErrorLogEntry, Property, PropertyGet,
    PropertySet, ShutdownNotice, ShutdownState, Status, Version,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Longest time until a controller is ready, in units of 500 ms (CAP.TO, and CRTO.CRWMT, which must agree).
const READY_500MS: u8 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of the subsystem with this index.
    Io(usize),
    Discovery,
}

/// What the I/O queues must know of the controller, command for command.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Enabled, and not shut down.
    pub ready: Cell<bool>,
    /// The volatile write cache is switched off: every write is a FUA write.
    pub write_through: Cell<bool>,
    /// Staged lists of addresses, by their keys: a host may send the list and the command on different queues.
    pub lists: RefCell<BTreeMap<u64, Vec<u8>>>,
}

/// An abort whose command belongs to an I/O queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abort {
    pub queue: u16,
    pub cid: u16,
    /// The abort command itself.
    pub abort_cid: u16,
    /// Whether the command was aborted; `None` until its queue has said so.
    pub outcome: Option<bool>,
}

#[derive(Debug)]
pub(super) struct Controller {
    pub id: u16,
    pub kind: Kind,
    pub host_nqn: String,
    pub host_id: [u8; 16],
    pub admin: ConnectionId,
    pub queues: BTreeMap<u16, ConnectionId>,
    /// Those of queues that resets have closed; what came by them may be under way still.
    pub ending: Vec<ConnectionId>,
    pub gate: Rc<Gate>,
    pub features: Features,
    config: ControllerConfig,
    status: ControllerStatus,
    /// When the host was last heard of.
    pub active_ns: u64,
    pub aborts: Vec<Abort>,
    /// Requests that wait for an event, and events that wait for a request.
    requests: VecDeque<u16>,
    events: VecDeque<AsyncEvent>,
    /// Events whose log page has not been read since.
    masked: Vec<AsyncEvent>,
    /// Critical warnings of the SMART log at the last look.
    pub warnings: u8,
    /// Those of them that the host has been told of by an event.
    warnings_told: u8,
    /// When the next look is due.
    pub health_due_ns: u64,
    errors: VecDeque<ErrorLogEntry>,
    error_count: u64,
    /// A frozen persistent event log, while a host reads it.
    pub event_log: Option<Vec<u8>>,
    /// The subsystem has zoned namespaces, so that hosts may select all command sets.
    pub zoned: bool,
    /// Chunk notices of the subsystem that the host has been told of.
    pub notices_told: u64,
    /// Moves of nameless namespaces that its host was told of; at first none, so that a host learns of those that it missed.
    pub moves_told: u64,
    /// Changed zones of the subsystem that the host has been told of.
    pub zones_told: u64,
    /// Those that it has read of, by namespace.
    pub zones_read: BTreeMap<u32, u64>,
}

/// What a Property Set asks the connection to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    Enabled,
    /// Close the I/O queues.
    Reset,
    /// Flush, then say [`Controller::shut_down`].
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
            zones_read: BTreeMap::new(),
        }
    }

    pub fn is_ready(&self) -> bool {
        self.status.ready && self.status.shutdown == ShutdownState::Normal
    }

    /// Whether the host has not been heard of for the time that it set itself.
    pub fn is_expired(&self, now_ns: u64) -> bool {
        let limit_ns = u64::from(self.features.keep_alive_ms) * 1_000_000;
        limit_ns > 0 && now_ns.saturating_sub(self.active_ns) > limit_ns
    }

    /// The value of a property. Tools ask for all there could be and expect just this status where there is none.
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
            // A reset ends when nothing from before it can change the drives any more (Base 3.7.2).
            Property::Status => {
                let ready = self.status.ready || !self.ending.is_empty();
                Ok(ControllerStatus { ready, ..self.status }.encode().into())
            }
            // CRWMT, the time with media; there is no readiness without.
            Property::ReadyTimeouts => Ok(READY_500MS.into()),
            Property::SubsystemReset => Err(Status::INVALID_FIELD),
        }
    }

    /// Writes a property; only CC can be written.
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

    /// Everything has been flushed for a shutdown.
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

    /// Takes an asynchronous event request; it is answered by [`Controller::next_event`].
    pub fn request_event(&mut self, cid: u16) -> Result<(), Status> {
        if self.requests.len() >= ASYNC_EVENTS_MAX {
            return Err(Status::ASYNC_EVENT_LIMIT_EXCEEDED.do_not_retry());
        }
        self.requests.push_back(cid);
        Ok(())
    }

    /// Forgets the request `cid`; says whether it was there.
    pub fn abort_event_request(&mut self, cid: u16) -> bool {
        let at = self.requests.iter().position(|&request| request == cid);
        at.is_some_and(|at| self.requests.remove(at).is_some())
    }

    /// Something happened that the host may want to know, unless it knows already.
    pub fn raise(&mut self, event: AsyncEvent) {
        if !self.masked.contains(&event) {
            self.masked.push(event);
            self.events.push_back(event);
        }
    }

    /// The health of the drives is looked at with the next tick.
    pub fn look_at_health(&mut self) {
        self.health_due_ns = 0;
    }

    /// The critical warnings that the host wants events of and has not been told of; from now on it has.
    pub fn warnings_to_tell(&mut self) -> u8 {
        let told = self.warnings_told & self.warnings;
        let wanted = self.warnings & self.features.async_events.smart_warnings() & !told;
        self.warnings_told = told | wanted;
        wanted
    }

    /// The next event and the request that it answers.
    pub fn next_event(&mut self) -> Option<(u16, AsyncEvent)> {
        let event = *self.events.front()?;
        let cid = self.requests.pop_front()?;
        self.events.pop_front();
        Some((cid, event))
    }

    /// The log page that an event names has been read: the event may come again.
    pub fn log_read(&mut self, log_id: u8) {
        self.masked.retain(|event| (event.encode() >> 16) as u8 != log_id);
    }

    /// Notes a command that failed.
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
