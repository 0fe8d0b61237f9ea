//! Request queue: waiting requests, merging, and the choice of the next request.
//!
//! ```text
//!  command ─┬─ ends where a request begins (front), or begins where one ends (back), same kind, not too large ─► joins it
//!           └─ else: a request of its own ─► the elevator: noop (order of arrival), deadline (one way over the addresses)
//! ```
//! The deadline elevator serves one direction, reads or writes, in batches of ascending addresses, and starts
//! again at the lowest. A batch begins at the oldest request of its direction if that has waited too long.
//! Reads go before writes, but at most [`WRITES_STARVED`] batches in a row.
//!
//! Invariants: a waiting request is in both address indices, and in the arrival order of its direction; it
//! has parts, without gaps between them; no request exceeds the largest size.

use pellucid_flash::slab::{Linked, List, NIL, Slab};
use pellucid_flash::{CacheOp, Command, Effect, NamelessOp, Nanos, Opcode, SimTime};
use pellucid_setting::Word;
use std::collections::{BTreeSet, VecDeque};

/// Maximum number of read batches in a row while writes wait.
const WRITES_STARVED: u32 = 2;
/// Requests in a batch.
const BATCH: u32 = 16;

/// Order in which requests go to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Elevator {
    /// Order of arrival.
    Noop,
    /// Ascending addresses in batches, reads first; a request that has waited past its deadline goes next.
    Deadline,
}

/// Waiting request that a write to a nameless namespace joins, if it is adjacent to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Join {
    /// The newest that is not full, so that requests are as full as they can be.
    Newest,
    /// The request of the last merge until it goes to the drive, full or not (Linux 2.6.33: `last_merge`). Adjacent writes still merge.
    LastMerge,
}

/// Properties that the commands of one request share; commands that differ in one of them are never merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub opcode: Opcode,
    pub handle: u16,
    pub queue: u16,
}

impl Kind {
    /// Returns the kind of a command that may be merged: reads, writes, and a cache's two kinds of writes,
    /// unless they are forced (FUA) or vectors.
    pub fn of(command: &Command) -> Option<Kind> {
        let data = matches!(
            command.opcode,
            Opcode::Read
                | Opcode::Write
                | Opcode::Cache(CacheOp::WriteClean | CacheOp::WriteDirty)
                | Opcode::Nameless(NamelessOp::Write | NamelessOp::Read)
        );
        let plain = command.vector.is_none() || command.opcode == Opcode::Nameless(NamelessOp::Write);
        let merges = data && plain && !command.fua && command.sectors > 0;
        merges.then_some(Kind { opcode: command.opcode, handle: command.handle, queue: command.queue })
    }

    pub fn is_write(self) -> bool {
        self.opcode.effect() != Effect::Reads
    }
}

/// Command of the application, or part of one that is larger than the largest request.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub origin: u32,
    pub kind: Option<Kind>,
    pub lba: u64,
    pub sectors: u32,
    /// Offset of the part in the data of its command, in sectors.
    pub data_at: u32,
    next: u32,
}

impl Linked for Part {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Part {
    /// Returns a whole command as one part.
    pub fn whole(origin: u32, command: &Command) -> Part {
        let (kind, lba, sectors) = (Kind::of(command), command.lba.0, command.sectors);
        Part { origin, kind, lba, sectors, data_at: 0, next: NIL }
    }

    /// Returns the part's byte range in the data of its command.
    pub fn bytes(&self, image_bytes: usize) -> std::ops::Range<usize> {
        let start = self.data_at as usize * image_bytes;
        start..start + self.sectors as usize * image_bytes
    }

    /// Splits off the first `sectors` sectors; returns them and the rest.
    pub fn cut(&self, sectors: u32) -> (Part, Part) {
        let rest = Part {
            lba: self.lba + u64::from(sectors),
            sectors: self.sectors - sectors,
            data_at: self.data_at + sectors,
            ..self.clone()
        };
        (Part { sectors, ..self.clone() }, rest)
    }
}

/// Command for the drive: one command of the application, or several adjacent ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    /// Kind of the commands; `None` if no command may join.
    pub kind: Option<Kind>,
    pub lba: u64,
    pub sectors: u32,
    /// Parts in the order of their addresses.
    pub parts: List,
    pub count: u32,
    /// Arrival of the first command.
    pub arrived: SimTime,
    /// Serial number while the request waits; 0 otherwise.
    order: u64,
}

impl Request {
    pub fn end(&self) -> u64 {
        self.lba + u64::from(self.sectors)
    }
}

/// Waiting requests of one direction.
#[derive(Clone, Debug, Default)]
struct Waiting {
    by_start: BTreeSet<(u64, u32)>,
    by_end: BTreeSet<(u64, u32)>,
    /// Requests in order of arrival; dispatched ones stay until they reach the front.
    order: VecDeque<(u64, u32)>,
    /// End address of the last dispatched request.
    head: u64,
}

/// Request queue.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    elevator: Elevator,
    largest: u32,
    /// Largest write to a nameless namespace: a flash page.
    page: Option<u32>,
    /// Request of the last merge, with [`Join::LastMerge`]; it waits.
    last: Option<u32>,
    joins_last: bool,
    expire: [Nanos; 2],
    pub requests: Slab<Request>,
    /// Waiting reads and waiting writes; the noop elevator keeps both in the first.
    waiting: [Waiting; 2],
    orders: u64,
    /// Direction of the batch under way, and the number of requests left in it.
    batch: (usize, u32),
    starved: u32,
    pub len: usize,
}

impl Queue {
    pub fn new(elevator: Elevator, largest: u32, page: Option<u32>, join: Join, expire: [Nanos; 2]) -> Queue {
        Queue {
            elevator,
            largest,
            page,
            last: None,
            joins_last: page.is_some() && join == Join::LastMerge,
            expire,
            requests: Slab::default(),
            waiting: Default::default(),
            orders: 0,
            batch: (0, 0),
            starved: 0,
            len: 0,
        }
    }

    /// Returns the maximum sectors of a merged request of the given kind.
    pub fn largest(&self, kind: Kind) -> u32 {
        self.page.filter(|_| kind.is_write()).map_or(self.largest, |page| page.min(self.largest))
    }

    fn side(&self, kind: Option<Kind>) -> usize {
        match self.elevator {
            Elevator::Noop => 0,
            Elevator::Deadline => usize::from(kind.is_some_and(Kind::is_write)),
        }
    }

    /// Merges a command into a waiting request; returns `false` if none accepts it.
    pub fn merge(&mut self, parts: &mut Slab<Part>, part: u32) -> bool {
        let Part { kind: Some(kind), sectors, .. } = parts[part] else { return false };
        let largest = self.largest(kind);
        let fits = |request: &Request| {
            request.kind == Some(kind) && request.sectors.saturating_add(sectors) <= largest
        };
        let last = self.last.filter(|&at| kind.is_write() && fits(&self.requests[at]));
        if let Some(at) = last {
            // Its place is the caller's affair: it counts as adjacent from here on.
            parts[part].lba = self.requests[at].end();
        }
        let joined = self.merge_adjacent(parts, part, fits);
        if self.joins_last && kind.is_write() && joined.is_some() {
            self.last = joined;
        }
        joined.is_some()
    }

    /// Merges a command into the request that ends where it begins, or begins where it ends. Returns the request.
    fn merge_adjacent(
        &mut self,
        parts: &mut Slab<Part>,
        part: u32,
        fits: impl Fn(&Request) -> bool,
    ) -> Option<u32> {
        let Part { kind, lba, sectors, .. } = parts[part];
        let side = self.side(kind);
        let ends = self.waiting[side].by_end.range((lba, 0)..=(lba, u32::MAX));
        let back = ends.map(|&(_, at)| at).find(|&at| fits(&self.requests[at]));
        if let Some(at) = back {
            self.waiting[side].by_end.remove(&(lba, at));
            let request = &mut self.requests[at];
            request.parts.push_back(parts, part);
            (request.sectors, request.count) = (request.sectors + sectors, request.count + 1);
            self.waiting[side].by_end.insert((self.requests[at].end(), at));
            return Some(at);
        }
        let end = lba + u64::from(sectors);
        let starts = self.waiting[side].by_start.range((end, 0)..=(end, u32::MAX));
        let front = starts.map(|&(_, at)| at).find(|&at| fits(&self.requests[at]));
        let at = front?;
        self.waiting[side].by_start.remove(&(end, at));
        let request = &mut self.requests[at];
        request.parts.push_front(parts, part);
        (request.lba, request.sectors, request.count) = (lba, request.sectors + sectors, request.count + 1);
        self.waiting[side].by_start.insert((lba, at));
        Some(at)
    }

    /// Creates a request of one command; it does not wait yet.
    pub fn request_of(&mut self, parts: &mut Slab<Part>, part: u32, now: SimTime, alone: bool) -> u32 {
        let Part { kind, lba, sectors, .. } = parts[part];
        let kind = kind.filter(|_| !alone);
        let mut list = List::EMPTY;
        list.push_back(parts, part);
        self.requests.insert(Request { kind, lba, sectors, parts: list, count: 1, arrived: now, order: 0 })
    }

    /// Adds a request to the waiting ones.
    pub fn push(&mut self, at: u32) {
        self.orders += 1;
        self.requests[at].order = self.orders;
        let request = &self.requests[at];
        if self.joins_last && self.last.is_none() && request.kind.is_some_and(Kind::is_write) {
            self.last = Some(at);
        }
        let side = self.side(request.kind);
        let waiting = &mut self.waiting[side];
        waiting.by_start.insert((request.lba, at));
        waiting.by_end.insert((request.end(), at));
        waiting.order.push_back((self.orders, at));
        self.len += 1;
    }

    /// Removes and returns the next request for the drive.
    pub fn pop(&mut self, now: SimTime) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let (side, at) = match self.elevator {
            Elevator::Noop => (0, self.oldest(0)?),
            Elevator::Deadline => self.next_by_deadline(now)?,
        };
        let request = &mut self.requests[at];
        request.order = 0;
        let (start, end) = (request.lba, request.end());
        let waiting = &mut self.waiting[side];
        waiting.by_start.remove(&(start, at));
        waiting.by_end.remove(&(end, at));
        waiting.head = end;
        self.len -= 1;
        self.last = self.last.filter(|&last| last != at);
        Some(at)
    }

    fn next_by_deadline(&mut self, now: SimTime) -> Option<(usize, u32)> {
        let (side, left) = self.batch;
        if left > 0
            && let Some(at) = self.above(side)
        {
            self.batch.1 = left - 1;
            return Some((side, at));
        }
        let [reads, writes] = [0, 1].map(|side| !self.waiting[side].by_start.is_empty());
        let side = usize::from(!reads || (writes && self.starved >= WRITES_STARVED));
        self.starved = if side == 0 && writes { self.starved + 1 } else { 0 };
        self.batch = (side, BATCH - 1);
        let oldest = self.oldest(side)?;
        if now.since(self.requests[oldest].arrived) >= self.expire[side] {
            return Some((side, oldest));
        }
        let lowest = || self.waiting[side].by_start.first().map(|&(_, at)| at);
        Some((side, self.above(side).or_else(lowest)?))
    }

    /// Returns the request at the next higher address.
    fn above(&self, side: usize) -> Option<u32> {
        let waiting = &self.waiting[side];
        waiting.by_start.range((waiting.head, 0)..).next().map(|&(_, at)| at)
    }

    fn oldest(&mut self, side: usize) -> Option<u32> {
        let order = &mut self.waiting[side].order;
        while let Some(&(number, at)) = order.front() {
            if self.requests[at].order == number {
                return Some(at);
            }
            order.pop_front();
        }
        None
    }

    /// Removes all waiting requests.
    pub fn clear(&mut self) {
        self.waiting = Default::default();
        self.requests.clear();
        (self.len, self.batch, self.starved, self.last) = (0, (0, 0), 0, None);
    }

    pub fn memory_bytes(&self) -> u64 {
        // Each waiting request has a key in two indices.
        self.requests.memory_bytes() + 2 * self.len as u64 * size_of::<(u64, u32)>() as u64
    }

    /// Checks all waiting requests; panics if an invariant is broken.
    pub fn check(&self, parts: &Slab<Part>) {
        let mut found = 0;
        for waiting in &self.waiting {
            assert_eq!(waiting.by_start.len(), waiting.by_end.len(), "both indices");
            for &(start, at) in &waiting.by_start {
                let request = &self.requests[at];
                found += 1;
                assert!(request.lba == start && request.order > 0, "request {at} waits: {request:?}");
                assert!(waiting.by_end.contains(&(request.end(), at)), "request {at} by its end");
                assert!(waiting.order.contains(&(request.order, at)), "request {at} by its arrival");
                assert!(request.sectors <= self.largest, "request {at}: too large");
                let (mut end, mut count, mut part) = (start, 0, request.parts.first().unwrap_or(NIL));
                while count < request.count {
                    let Part { kind, lba, sectors, next, .. } = parts[part];
                    assert_eq!(lba, end, "request {at}: a gap");
                    assert!(request.count == 1 || kind == request.kind, "request {at}: another kind");
                    (end, count, part) = (end + u64::from(sectors), count + 1, next);
                }
                assert_eq!((end, part), (request.end(), NIL), "request {at}: its parts");
            }
        }
        assert_eq!(found, self.len, "requests that wait");
        assert!(self.last.is_none_or(|at| self.requests[at].order > 0), "the last merge waits");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Lba;

    const NEVER: [Nanos; 2] = [Nanos::from_secs(1_000); 2];

    struct Bench {
        queue: Queue,
        parts: Slab<Part>,
    }

    impl Bench {
        fn new(elevator: Elevator, largest: u32, expire: [Nanos; 2]) -> Bench {
            Bench { queue: Queue::new(elevator, largest, None, Join::Newest, expire), parts: Slab::default() }
        }

        /// The queue of a nameless namespace with flash pages of `page` sectors.
        fn nameless(page: u32) -> Bench {
            let queue = Queue::new(Elevator::Noop, 512, Some(page), Join::LastMerge, NEVER);
            Bench { queue, parts: Slab::default() }
        }

        /// Enters a command; returns `true` if it joined a request.
        fn enter(&mut self, at: u64, command: Command) -> bool {
            let now = SimTime(at);
            let part = self.parts.insert(Part::whole(0, &command));
            let joined = self.queue.merge(&mut self.parts, part);
            if !joined {
                let request = self.queue.request_of(&mut self.parts, part, now, false);
                self.queue.push(request);
            }
            self.queue.check(&self.parts);
            joined
        }

        fn pop(&mut self, at: u64) -> Option<(u64, u32)> {
            let request = self.queue.pop(SimTime(at))?;
            self.queue.check(&self.parts);
            let record = &self.queue.requests[request];
            let found = (record.lba, record.sectors);
            self.queue.requests.release(request);
            Some(found)
        }
    }

    fn command(opcode: Opcode, lba: u64, sectors: u32) -> Command {
        Command::new(0, opcode, Lba(lba), sectors, Vec::new())
    }

    #[test]
    fn neighbours_of_one_kind_are_merged_and_no_others() {
        let mut bench = Bench::new(Elevator::Noop, 24, NEVER);
        let write = |lba| command(Opcode::Write, lba, 8);
        assert!(!bench.enter(0, write(8)));
        assert!(bench.enter(0, write(16)), "behind it");
        assert!(bench.enter(0, write(0)), "in front of it");
        assert!(!bench.enter(0, write(24)), "too large");
        let others = [
            command(Opcode::Read, 32, 8),
            command(Opcode::Cache(CacheOp::WriteClean), 32, 8),
            command(Opcode::Cache(CacheOp::WriteDirty), 32, 8),
            Command { handle: 1, ..write(32) },
            Command { queue: 1, ..write(32) },
        ];
        for other in others {
            assert!(!bench.enter(0, other.clone()), "{other:?}");
        }
        assert!(bench.enter(0, command(Opcode::Cache(CacheOp::WriteDirty), 40, 8)), "of one kind again");
        assert!(bench.enter(0, write(32)));
        let popped: Vec<_> = std::iter::from_fn(|| bench.pop(0)).collect();
        assert_eq!(popped, [(0, 24), (24, 16), (32, 8), (32, 8), (32, 16), (32, 8), (32, 8)]);
        for alone in [
            Command { fua: true, ..write(0) },
            Command { vector: Some(Box::default()), ..write(0) },
            command(Opcode::Flush, 0, 0),
            command(Opcode::Trim, 0, 8),
            command(Opcode::WriteZeroes, 0, 8),
            command(Opcode::Cache(CacheOp::Evict), 0, 8),
            command(Opcode::Cache(CacheOp::Clean), 0, 8),
            command(Opcode::Cache(CacheOp::Exists), 0, 8),
        ] {
            assert_eq!(Kind::of(&alone), None, "{alone:?}");
        }
    }

    /// A full request of the last merge stays the one that strangers are offered until it goes to the drive; neighbours merge all the same.
    #[test]
    fn strangers_join_the_last_merge_alone() {
        let mut bench = Bench::nameless(24);
        let write = |lba| command(Opcode::Nameless(NamelessOp::Write), lba, 8);
        assert!(!bench.enter(0, write(800)));
        assert!(bench.enter(0, write(160)) && bench.enter(0, write(480)), "strangers, until it is full");
        assert!(!bench.enter(0, write(640)) && !bench.enter(0, write(320)), "it is full, and waits");
        assert!(bench.enter(0, write(328)), "a neighbour");
        assert!(bench.enter(0, write(40)), "that was the last merge");
        assert!(!bench.enter(0, write(1_000)), "it is full");
        let popped: Vec<u32> = (0..2).filter_map(|_| bench.pop(0)).map(|(_, sectors)| sectors).collect();
        assert_eq!(popped, [24, 8]);
        assert!(!bench.enter(0, write(2_000)), "the last merge still waits");
        assert_eq!(bench.pop(0), Some((320, 24)));
        assert!(!bench.enter(0, write(3_000)), "none was the last; this one is");
        assert!(bench.enter(0, write(5_000)));
    }

    /// Addresses ascend from the end of the last request, and start again at the lowest.
    #[test]
    fn deadline_goes_up_the_addresses() {
        let mut bench = Bench::new(Elevator::Deadline, 8, NEVER);
        for lba in [500, 100, 300] {
            bench.enter(0, command(Opcode::Write, lba, 8));
        }
        assert_eq!(bench.pop(0), Some((100, 8)));
        bench.enter(0, command(Opcode::Write, 50, 8));
        bench.enter(0, command(Opcode::Write, 200, 8));
        let popped: Vec<_> = std::iter::from_fn(|| bench.pop(0)).map(|(lba, _)| lba).collect();
        assert_eq!(popped, [200, 300, 500, 50]);
    }

    /// Reads go first, but a write waits for at most two batches of them; an expired request goes next.
    #[test]
    fn nothing_starves() {
        let mut bench = Bench::new(Elevator::Deadline, 8, NEVER);
        bench.enter(0, command(Opcode::Write, 0, 8));
        for at in 0..100 {
            bench.enter(0, command(Opcode::Read, 1_000 + 16 * at, 8));
        }
        let writes: Vec<usize> = (0..101).filter(|_| bench.pop(0).is_some_and(|(lba, _)| lba == 0)).collect();
        assert_eq!(writes, [2 * BATCH as usize]);
        let mut bench = Bench::new(Elevator::Deadline, 8, [Nanos(1_000); 2]);
        bench.enter(0, command(Opcode::Read, 900, 8));
        for at in 0..40 {
            bench.enter(500, command(Opcode::Read, 8 * at * 2, 8));
        }
        assert_eq!(bench.pop(999), Some((0, 8)));
        let left: Vec<u64> = (1..18).filter_map(|_| bench.pop(1_000)).map(|(lba, _)| lba).collect();
        assert_eq!(
            left.iter().position(|&lba| lba == 900),
            Some(15),
            "the first of the next batch: {left:?}"
        );
    }
}
