//! The connections of a server, and lists of those with work.
//!
//! ```text
//!   number of a connection   serial << 16 | slot
//!   slot ─► connection       queued:  in the list of those to be read from
//!                            touched: in the list of those to be sent on and looked after
//! ```
//! While the server polls, connections that were busy at their last read are read directly. Of these,
//! connections on Unix sockets become *hot*: they leave the system's event queue and are read in every turn,
//! so their clients wake no thread when they send or receive. (Over TCP, where the kernel's own work between
//! the two ends dominates, this made single outstanding requests slower.)
//!
//! Invariants: a connection is in `readers` exactly while `queued` is set, and in `touched` exactly while
//! `touched` is set; a slot is reused only with a new serial, so events for a removed connection reach no
//! other.

use crate::connection::Connection;
use crate::service::Operated;
use crate::socket::Stream;
use mio::{Registry, Token};
use pellucid_target::connection::ConnectionId;

/// Maximum number of connections read directly, and of hot ones.
const HOT_MAX: usize = 4;
/// A connection without input for this time is no longer hot.
const HOT_NS: u64 = 1_000_000;

/// A connection outside the event queue.
struct Hot {
    slot: usize,
    /// Time of its last input.
    read_ns: u64,
}

/// All connections of a server.
pub(super) struct Table<S: Operated> {
    slots: Vec<Option<Box<Connection<S>>>>,
    vacant: Vec<usize>,
    serial: u64,
    readers: Vec<usize>,
    touched: Vec<usize>,
    hot: Vec<Hot>,
    /// Connections that were busy at their last read, without the hot ones.
    busy: Vec<usize>,
}

impl<S: Operated> Default for Table<S> {
    fn default() -> Table<S> {
        Table {
            slots: Vec::new(),
            vacant: Vec::new(),
            serial: 0,
            readers: Vec::new(),
            touched: Vec::new(),
            hot: Vec::new(),
            busy: Vec::new(),
        }
    }
}

impl<S: Operated> Table<S> {
    /// Returns the slot and the number for a new connection; [`Table::insert`] takes them.
    pub fn next(&mut self) -> (usize, ConnectionId) {
        let slot = self.vacant.last().copied().unwrap_or(self.slots.len());
        self.serial += 1;
        (slot, ConnectionId::in_slot(self.serial, slot))
    }

    /// Puts a connection into the slot that [`Table::next`] returned.
    pub fn insert(&mut self, slot: usize, connection: Box<Connection<S>>) {
        match self.vacant.pop() {
            Some(_) => self.slots[slot] = Some(connection),
            None => self.slots.push(Some(connection)),
        }
    }

    /// Removes a connection.
    pub fn remove(&mut self, slot: usize) -> Option<Box<Connection<S>>> {
        let connection = self.slots[slot].take()?;
        self.vacant.push(slot);
        self.hot.retain(|hot| hot.slot != slot);
        self.busy.retain(|&busy| busy != slot);
        Some(connection)
    }

    /// Number of slots, including empty ones.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Connection in a slot.
    #[inline]
    pub fn get(&mut self, slot: usize) -> Option<&mut Connection<S>> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    /// Finds a connection that still exists, with its slot.
    #[inline]
    pub fn find(&mut self, id: ConnectionId) -> Option<(usize, &mut Connection<S>)> {
        let slot = id.slot();
        let connection = self.get(slot)?;
        (connection.id == id).then_some((slot, connection))
    }

    /// Queues a connection for reading.
    pub fn queue(&mut self, slot: usize) {
        if let Some(connection) = &mut self.slots[slot]
            && !connection.queued
        {
            connection.queued = true;
            self.readers.push(slot);
        }
    }

    /// Marks a connection as changed, so that it is sent to and looked after.
    #[inline]
    pub fn touch(&mut self, slot: usize) {
        if let Some(connection) = &mut self.slots[slot]
            && !connection.touched
        {
            connection.touched = true;
            self.touched.push(slot);
        }
    }

    /// Returns true if connections wait to be read.
    pub fn has_readers(&self) -> bool {
        !self.readers.is_empty()
    }

    /// Returns true if any connection is touched.
    pub fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Exchanges the list of readers for an empty one.
    pub fn take_readers(&mut self, empty: &mut Vec<usize>) {
        debug_assert!(empty.is_empty());
        std::mem::swap(&mut self.readers, empty);
        for &slot in &*empty {
            if let Some(connection) = &mut self.slots[slot] {
                connection.queued = false;
            }
        }
    }

    /// Exchanges the list of touched connections for an empty one.
    pub fn take_touched(&mut self, empty: &mut Vec<usize>) {
        debug_assert!(empty.is_empty());
        std::mem::swap(&mut self.touched, empty);
        for &slot in &*empty {
            if let Some(connection) = &mut self.slots[slot] {
                connection.touched = false;
            }
        }
    }

    /// Sets the busy connections: those that were just read.
    pub fn note_busy(&mut self, read: &[usize]) {
        let Table { busy, hot, .. } = self;
        let others = || read.iter().filter(|&&slot| hot.iter().all(|hot| hot.slot != slot)).take(HOT_MAX);
        if others().next().is_some() && !others().eq(&*busy) {
            busy.clear();
            busy.extend(others());
        }
    }

    /// Makes a connection with input hot, if possible and if there is room.
    pub fn heat(&mut self, slot: usize, now_ns: u64, registry: &Registry) {
        if let Some(hot) = self.hot.iter_mut().find(|hot| hot.slot == slot) {
            hot.read_ns = now_ns;
            if let Some(connection) = &mut self.slots[slot] {
                connection.fit_socket(true);
            }
        } else if self.hot.len() < HOT_MAX
            && let Some(connection) = &mut self.slots[slot]
            && matches!(connection.stream, Stream::Unix(_))
            && connection.stream.deregister(registry).is_ok()
        {
            self.hot.push(Hot { slot, read_ns: now_ns });
        }
    }

    /// Cools connections that had no input for a while; `all`: cools every one, because the server is going
    /// to sleep. The event queue reports the state of a returning connection at once.
    pub fn cool(&mut self, now_ns: u64, all: bool, registry: &Registry, token: impl Fn(usize) -> Token) {
        let slots = &mut self.slots;
        self.hot.retain(|&Hot { slot, read_ns }| {
            let stays = !all && now_ns < read_ns + HOT_NS;
            if !stays && let Some(connection) = &mut slots[slot] {
                connection.fit_socket(false);
                if connection.stream.register(registry, token(slot)).is_err() {
                    connection.give_up();
                }
            }
            stays
        });
    }

    /// Queues the busy connections for reading without asking for events.
    pub fn try_busy(&mut self) {
        for i in 0..self.busy.len() {
            let slot = self.busy[i];
            if let Some(connection) = &mut self.slots[slot]
                && !connection.queued
            {
                connection.readable = true;
                self.queue(slot);
            }
        }
    }

    /// Queues the hot connections for reading and sending without asking for events.
    pub fn try_hot(&mut self) {
        for i in 0..self.hot.len() {
            let slot = self.hot[i].slot;
            let Some(connection) = &mut self.slots[slot] else { continue };
            let blocked = connection.try_again();
            if !connection.queued {
                self.queue(slot);
            }
            if blocked {
                self.touch(slot);
            }
        }
    }
}
