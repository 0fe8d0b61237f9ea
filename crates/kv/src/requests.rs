//! Requests: which run at once, which wait, and the order of requests to one key.

use super::fill::Purpose;
use super::index::Place;
use super::{Ask, Item, Kv, Outcome, What, item};

/// A request that could not be answered at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    /// True if it waits for something.
    pub live: bool,
    pub ask: Ask,
    pub hash: u64,
    /// The item that it reads.
    pub place: Place,
    /// The lower half of that item's version.
    pub cas: u32,
    /// A get: what is known of the item without reading it.
    pub item: Item,
    /// The item that was read, from its slot on, while the request waits for a buffer; else empty. Were it read again each time, a drive that
    /// answers reads at once would leave no time for the write that frees a buffer.
    pub slot: Vec<u8>,
}

/// How far a request came.
#[derive(Debug)]
pub(super) enum Flow {
    Done(Outcome),
    /// The item has to be read first; a get gives what it knows already.
    Read {
        place: Place,
        cas: u32,
        bytes: usize,
        item: Item,
    },
    /// No write buffer is free.
    Wait,
}

/// An item that was read for a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    pub place: Place,
    pub cas: u32,
    /// From the slot's first byte on, checked.
    pub slot: &'a [u8],
}

/// Keys with a request that takes several steps, and the requests that wait behind it. Few at any time.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    hashes: Vec<u64>,
    queues: Vec<std::collections::VecDeque<u32>>,
}

impl Locks {
    #[inline]
    fn at(&self, hash: u64) -> Option<usize> {
        self.hashes.iter().position(|&locked| locked == hash)
    }

    #[inline]
    pub fn holds(&self, hash: u64) -> bool {
        self.at(hash).is_some()
    }

    fn lock(&mut self, hash: u64) {
        self.hashes.push(hash);
        // Queues that are not in use stand behind those that are.
        if self.queues.len() < self.hashes.len() {
            self.queues.push(std::collections::VecDeque::new());
        }
    }

    fn queue(&mut self, hash: u64, request: u32) {
        let at = self.at(hash).expect("it is locked");
        self.queues[at].push_back(request);
    }

    /// The next request behind the lock; without one, the lock is gone.
    fn next(&mut self, hash: u64) -> Option<u32> {
        let at = self.at(hash).expect("it is locked");
        let next = self.queues[at].pop_front();
        if next.is_none() {
            self.hashes.swap_remove(at);
            self.queues.swap(at, self.hashes.len());
        }
        next
    }

    pub fn check(&self) {
        assert!(self.queues[self.hashes.len()..].iter().all(|queue| queue.is_empty()));
    }
}

impl Kv {
    /// Time passes for items.
    fn set_time(&mut self, time_s: u32) {
        self.time_s = self.time_s.max(time_s);
        if self.cas == 0 {
            // No version of before a crash is given again.
            self.cas = u64::from(time_s) << 24;
        }
        if self.flush_at_s != 0 && self.flush_at_s <= self.time_s {
            self.flush_at_s = 0;
            self.drop_all();
        }
    }

    /// Takes a request.
    pub(super) fn take(&mut self, mut ask: Ask) {
        self.set_time(ask.time_s);
        if self.retry.is_armed() {
            self.try_again();
        }
        let hash = item::hash(self.config.seed, ask.key.as_bytes());
        if matches!(ask.what, What::FlushAll { .. }) {
            if !self.waiting.is_empty() {
                // What was asked for before is stored before.
                let request = self.requests.insert(Request { live: true, ask, hash, ..Request::default() });
                return self.waiting.push_back(request);
            }
        } else if self.locks.holds(hash) {
            let request = self.requests.insert(Request { live: true, ask, hash, ..Request::default() });
            return self.locks.queue(hash, request);
        }
        match self.attempt(&mut ask, hash, None) {
            Flow::Done(outcome) => self.answer(ask.tag, outcome),
            flow => {
                let locks = !matches!(ask.what, What::Get(_));
                let request = self.requests.insert(Request { live: true, ask, hash, ..Request::default() });
                if locks {
                    self.locks.lock(hash);
                }
                self.suspend(request, flow, false);
            }
        }
        self.go_on();
    }

    /// Does what a request asks, as far as it goes. `found`: what it has read.
    fn attempt(&mut self, ask: &mut Ask, hash: u64, found: Option<Found>) -> Flow {
        match &mut ask.what {
            What::Get(get) => self.get(*get, &ask.key, hash),
            What::Touch { expires_s } => Flow::Done(self.touch(hash, *expires_s)),
            What::Delete { cas, invalidate, emptied } => {
                self.delete(&ask.key, hash, *cas, *invalidate, *emptied)
            }
            What::Arithmetic { .. } => self.arithmetic(ask, hash, found),
            What::FlushAll { at_s } => Flow::Done(self.flush_all(*at_s)),
            What::Store(store) => {
                let flow = self.store(&ask.key, store, hash, found);
                if matches!(flow, Flow::Done(_)) {
                    let value = std::mem::take(&mut store.value);
                    self.give_back(value);
                }
                flow
            }
        }
    }

    /// A request has to wait, for a buffer or for flash. `first`: before others that wait.
    fn suspend(&mut self, request: u32, flow: Flow, first: bool) {
        match flow {
            Flow::Done(_) => unreachable!("it has been answered"),
            Flow::Wait if first => self.waiting.push_front(request),
            Flow::Wait => {
                self.statistics.waits += 1;
                self.waiting.push_back(request);
            }
            Flow::Read { place, cas, bytes, item } => {
                let record = &mut self.requests[request];
                (record.place, record.cas, record.item) = (place, cas, item);
                self.reading += 1;
                self.read_item(place, bytes, Purpose::Request(request));
            }
        }
    }

    /// Goes on with a request that waited. `false`: it waits for a buffer still.
    fn resume(&mut self, request: u32, found: Option<Found>, first: bool) -> bool {
        let Request { hash, place, cas, .. } = self.requests[request];
        let mut ask = std::mem::take(&mut self.requests[request].ask);
        let mut kept = std::mem::take(&mut self.requests[request].slot);
        let before = (!kept.is_empty()).then_some(Found { place, cas, slot: &kept });
        let flow = self.attempt(&mut ask, hash, found.or(before));
        if let Flow::Done(outcome) = flow {
            let locked = !matches!(ask.what, What::Get(_) | What::FlushAll { .. });
            self.answer(ask.tag, outcome);
            self.drop_request(request);
            if locked {
                self.unlock(hash);
            }
            return true;
        }
        let waits = matches!(flow, Flow::Wait);
        if let (true, Some(found)) = (waits, found) {
            kept.clear();
            kept.extend_from_slice(found.slot);
        }
        let record = &mut self.requests[request];
        record.ask = ask;
        if waits {
            record.slot = kept;
        }
        self.suspend(request, flow, first);
        !waits
    }

    /// A request has ended that held a lock: those behind it go on, as far as the next one that takes several steps.
    fn unlock(&mut self, hash: u64) {
        while let Some(request) = self.locks.next(hash) {
            let mut ask = std::mem::take(&mut self.requests[request].ask);
            match self.attempt(&mut ask, hash, None) {
                Flow::Done(outcome) => {
                    self.answer(ask.tag, outcome);
                    self.drop_request(request);
                }
                flow => {
                    let holds = !matches!(ask.what, What::Get(_));
                    self.requests[request].ask = ask;
                    self.suspend(request, flow, false);
                    if holds {
                        return;
                    }
                }
            }
        }
    }

    /// Lets requests go on that wait for buffers.
    pub(super) fn run_waiting(&mut self) {
        while let Some(request) = self.waiting.pop_front() {
            if !self.resume(request, None, true) {
                return;
            }
        }
    }

    /// The item of a request has been read; `None`: it could not be.
    pub(super) fn request_read(&mut self, request: u32, slot: Option<&[u8]>) {
        let Request { place, cas, hash, .. } = self.requests[request];
        let whole = !matches!(self.requests[request].ask.what, What::Get(get) if get.without_value);
        let good = slot.and_then(|slot| {
            let head = item::Head::decode(slot).filter(|head| head.cas as u32 == cas)?;
            (!whole || head.checked_value(slot).is_some()).then_some((slot, head))
        });
        let Some((slot, head)) = good else {
            self.damaged(hash, place, cas);
            if let What::Get(_) = self.requests[request].ask.what {
                self.statistics.misses_damaged += 1;
                self.end_get(request, Outcome::Miss);
            } else {
                self.resume(request, None, false);
            }
            return;
        };
        match self.requests[request].ask.what {
            What::Get(get) => {
                if head.key(slot) != self.requests[request].ask.key.as_bytes() {
                    self.statistics.misses_collided += 1;
                    return self.end_get(request, Outcome::Miss);
                }
                let mut item = std::mem::take(&mut self.requests[request].item);
                self.fill_item(&mut item, &head, slot, !get.without_value);
                self.hit(place.slab, false);
                self.end_get(request, Outcome::Item(item));
            }
            _ => {
                self.resume(request, Some(Found { place, cas, slot }), false);
            }
        }
    }

    /// A get that read flash has ended.
    fn end_get(&mut self, request: u32, outcome: Outcome) {
        self.statistics.gets += u64::from(outcome == Outcome::Miss);
        self.answer(self.requests[request].ask.tag, outcome);
        self.drop_request(request);
    }

    fn drop_request(&mut self, request: u32) {
        self.requests[request].live = false;
        self.requests.release(request);
    }
}
