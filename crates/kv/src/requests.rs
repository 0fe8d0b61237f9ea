//! Requests in progress: those that wait, and the order of requests to one key.
//!
//! A request of several steps locks its key; later requests to that key queue behind it. Others wait for a write buffer, or for a core.

use crate::index::Place;
use crate::{Ask, Item, Outcome};
use pellucid_flash::slab::Slab;
use std::collections::VecDeque;

/// A request that could not be answered at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// True if the request is unanswered.
    pub live: bool,
    pub ask: Ask,
    pub hash: u64,
    /// The item that it reads.
    pub place: Place,
    /// Lower half of that item's version.
    pub cas: u32,
    /// For a get: the item's fields known without reading it.
    pub item: Item,
    /// The item that was read, from its slot on, while the request waits for a buffer; else empty. Reading it again each time would leave a drive
    /// that answers reads at once no time for the write that frees a buffer.
    pub slot: Vec<u8>,
}

/// Progress of a request.
#[derive(Debug)]
pub(crate) enum Flow {
    Done(Outcome),
    /// The item must be read first; a get passes on what it knows already.
    Read {
        place: Place,
        cas: u32,
        bytes: usize,
        item: Item,
    },
    /// No write buffer is free.
    Wait,
}

/// An item read for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub place: Place,
    pub cas: u32,
    /// Content of the slot from its first byte on, checked.
    pub slot: &'a [u8],
}

/// Keys locked by a request of several steps, and the requests queued behind it. There are few at any time.
#[derive(Clone, Debug, Default)]
struct Locks {
    hashes: Vec<u64>,
    queues: Vec<VecDeque<u32>>,
}

impl Locks {
    #[inline]
    fn at(&self, hash: u64) -> Option<usize> {
        self.hashes.iter().position(|&locked| locked == hash)
    }

    #[inline]
    fn holds(&self, hash: u64) -> bool {
        self.at(hash).is_some()
    }

    fn lock(&mut self, hash: u64) {
        self.hashes.push(hash);
        // Unused queues are behind those in use.
        if self.queues.len() < self.hashes.len() {
            self.queues.push(VecDeque::new());
        }
    }

    fn queue(&mut self, hash: u64, request: u32) {
        let at = self.at(hash).expect("it is locked");
        self.queues[at].push_back(request);
    }

    /// The next request behind the lock; without one, the lock is released.
    fn next(&mut self, hash: u64) -> Option<u32> {
        let at = self.at(hash).expect("it is locked");
        let next = self.queues[at].pop_front();
        if next.is_none() {
            self.hashes.swap_remove(at);
            self.queues.swap(at, self.hashes.len());
        }
        next
    }

    fn check(&self) {
        assert!(self.queues[self.hashes.len()..].iter().all(|queue| queue.is_empty()));
    }
}

/// Requests in progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    records: Slab<Request>,
    locks: Locks,
    /// Requests that wait for a write buffer, in order.
    waiting: VecDeque<u32>,
    /// Number of requests with reads in flight, and requests that wait for a core while these hold all of them.
    reading: u32,
    held: VecDeque<Ask>,
}

impl Requests {
    /// Adds a request that could not be answered at once.
    pub fn add(&mut self, ask: Ask, hash: u64) -> u32 {
        self.records.insert(Request { live: true, ask, hash, ..Request::default() })
    }

    #[inline]
    pub fn get(&self, request: u32) -> &Request {
        &self.records[request]
    }

    /// Unanswered requests, including those that wait for a core.
    pub fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.records.iter().filter(|request| request.live).map(|request| &request.ask)
    }

    /// Number of unanswered requests, not counting those that wait for a core.
    pub fn count(&self) -> usize {
        self.records.in_use()
    }

    /// Takes the content of a request in order to continue it.
    pub fn take_ask(&mut self, request: u32) -> Ask {
        std::mem::take(&mut self.records[request].ask)
    }

    /// Puts back the content of a request that must wait.
    pub fn give_ask(&mut self, request: u32, ask: Ask) {
        self.records[request].ask = ask;
    }

    /// Takes the item read for a request.
    pub fn take_slot(&mut self, request: u32) -> Vec<u8> {
        std::mem::take(&mut self.records[request].slot)
    }

    /// Keeps the item read for a request until a write buffer is free.
    pub fn keep_slot(&mut self, request: u32, slot: Vec<u8>) {
        self.records[request].slot = slot;
    }

    /// Takes the known fields of a get's item.
    pub fn take_item(&mut self, request: u32) -> Item {
        std::mem::take(&mut self.records[request].item)
    }

    /// Removes an answered request.
    pub fn remove(&mut self, request: u32) {
        self.records[request].live = false;
        self.records.release(request);
    }

    // ---- the order of requests to one key

    /// Reports whether a hash is locked.
    #[inline]
    pub fn is_locked(&self, hash: u64) -> bool {
        self.locks.holds(hash)
    }

    pub fn lock(&mut self, hash: u64) {
        self.locks.lock(hash);
    }

    /// Queues a request behind the lock of its key.
    pub fn queue(&mut self, hash: u64, request: u32) {
        self.locks.queue(hash, request);
    }

    /// The next request behind the lock; without one, the lock is released.
    pub fn next_locked(&mut self, hash: u64) -> Option<u32> {
        self.locks.next(hash)
    }

    // ---- requests that wait for write buffers

    #[inline]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Queues a request for a write buffer; with `first`, before all others.
    pub fn wait(&mut self, request: u32, first: bool) {
        match first {
            true => self.waiting.push_front(request),
            false => self.waiting.push_back(request),
        }
    }

    pub fn next_waiting(&mut self) -> Option<u32> {
        self.waiting.pop_front()
    }

    // ---- requests that hold a core while they read

    /// Notes that the item of a request is being read.
    pub fn read_begins(&mut self, request: u32, place: Place, cas: u32, item: Item) {
        let record = &mut self.records[request];
        (record.place, record.cas, record.item) = (place, cas, item);
        self.reading += 1;
    }

    pub fn read_ended(&mut self) {
        self.reading -= 1;
    }

    /// Number of requests with reads in flight.
    #[inline]
    pub fn reading(&self) -> u32 {
        self.reading
    }

    /// Queues a request for a core.
    pub fn hold(&mut self, ask: Ask) {
        self.held.push_back(ask);
    }

    pub fn next_held(&mut self) -> Option<Ask> {
        self.held.pop_front()
    }

    /// Requests that wait for a core.
    pub fn held(&self) -> impl Iterator<Item = &Ask> {
        self.held.iter()
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        self.locks.check();
    }
}
