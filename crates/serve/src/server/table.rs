//! The connections of a server, and which of them something is to be done for.
//!
//! ```text
//!   number of a connection   serial << 16 | slot
//!   slot ─► connection       queued:  in the list of those to be read from
//!                            touched: in the list of those to be sent on and looked after
//! ```
//! While the server polls, connections that were busy when they were last read from are read from directly. Those on Unix sockets are
//! *hot* then: they are not in the system's event queue, and are read from in every turn. Their clients wake no thread when they send or take.
//! (Over TCP, where the kernel's own work between two ends is most of it, one request at a time became slower by it.)
//!
//! Invariants: a connection is in `readers` exactly while `queued`, and in `touched` exactly while `touched` is set; a slot is
//! given to another connection only with another serial, so what was meant for one that is gone reaches no other.

use crate::connection::Connection;
use crate::service::Service;
use crate::session::ConnectionId;
use crate::socket::Stream;
use mio::{Registry, Token};

/// Bits of a connection's number that say where it is kept.
pub(crate) const SLOT_BITS: u32 = 16;
/// As many connections are read from directly, and as many are hot.
const HOT_MAX: usize = 4;
/// One that has brought nothing for so long is hot no more.
const HOT_NS: u64 = 1_000_000;

/// A connection outside of the event queue.
struct Hot {
    slot: usize,
    /// When it last brought something.
    read_ns: u64,
}

/// All connections.
pub(super) struct Table<S: Service> {
    slots: Vec<Option<Box<Connection<S>>>>,
    vacant: Vec<usize>,
    serial: u64,
    readers: Vec<usize>,
    touched: Vec<usize>,
    hot: Vec<Hot>,
    /// Those that were busy when they were last read from, without the hot ones.
    busy: Vec<usize>,
}

impl<S: Service> Default for Table<S> {
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

impl<S: Service> Table<S> {
    /// The slot and the number for a new connection; nothing is taken until [`Table::insert`].
    pub fn next(&mut self) -> (usize, ConnectionId) {
        let slot = self.vacant.last().copied().unwrap_or(self.slots.len());
        self.serial += 1;
        (slot, ConnectionId(self.serial << SLOT_BITS | slot as u64))
    }

    /// Puts a connection into the slot that [`Table::next`] gave.
    pub fn insert(&mut self, slot: usize, connection: Box<Connection<S>>) {
        match self.vacant.pop() {
            Some(_) => self.slots[slot] = Some(connection),
            None => self.slots.push(Some(connection)),
        }
    }

    /// Takes a connection out.
    pub fn remove(&mut self, slot: usize) -> Option<Box<Connection<S>>> {
        let connection = self.slots[slot].take()?;
        self.vacant.push(slot);
        self.hot.retain(|hot| hot.slot != slot);
        self.busy.retain(|&busy| busy != slot);
        Some(connection)
    }

    /// Slots that there are, empty ones included.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The connection in a slot.
    #[inline]
    pub fn get(&mut self, slot: usize) -> Option<&mut Connection<S>> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    /// A connection that is still there, and its slot.
    #[inline]
    pub fn find(&mut self, id: ConnectionId) -> Option<(usize, &mut Connection<S>)> {
        let slot = (id.0 & ((1 << SLOT_BITS) - 1)) as usize;
        let connection = self.get(slot)?;
        (connection.id == id).then_some((slot, connection))
    }

    /// It is to be read from.
    pub fn queue(&mut self, slot: usize) {
        if let Some(connection) = &mut self.slots[slot]
            && !connection.queued
        {
            connection.queued = true;
            self.readers.push(slot);
        }
    }

    /// Something happened to it.
    #[inline]
    pub fn touch(&mut self, slot: usize) {
        if let Some(connection) = &mut self.slots[slot]
            && !connection.touched
        {
            connection.touched = true;
            self.touched.push(slot);
        }
    }

    /// Whether some are to be read from.
    pub fn has_readers(&self) -> bool {
        !self.readers.is_empty()
    }

    /// Whether something happened to some.
    pub fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Exchanges the list of those to be read from with an empty one.
    pub fn take_readers(&mut self, empty: &mut Vec<usize>) {
        debug_assert!(empty.is_empty());
        std::mem::swap(&mut self.readers, empty);
        for &slot in &*empty {
            if let Some(connection) = &mut self.slots[slot] {
                connection.queued = false;
            }
        }
    }

    /// The same of those to which something happened.
    pub fn take_touched(&mut self, empty: &mut Vec<usize>) {
        debug_assert!(empty.is_empty());
        std::mem::swap(&mut self.touched, empty);
        for &slot in &*empty {
            if let Some(connection) = &mut self.slots[slot] {
                connection.touched = false;
            }
        }
    }

    /// Those are the busy ones from now on.
    pub fn note_busy(&mut self, read: &[usize]) {
        let Table { busy, hot, .. } = self;
        let others = || read.iter().filter(|&&slot| hot.iter().all(|hot| hot.slot != slot)).take(HOT_MAX);
        if others().next().is_some() && !others().eq(&*busy) {
            busy.clear();
            busy.extend(others());
        }
    }

    /// A connection has brought something: it is hot, if it can be and there is room.
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

    /// Those that have brought nothing for a while are hot no more; `all`: none is, because the server is going to sleep. The event queue
    /// tells at once what is with one that comes back into it.
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

    /// Has the busy ones read from without asking whether there is something.
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

    /// Has the hot ones read from, and sent on, without asking whether they can be.
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
