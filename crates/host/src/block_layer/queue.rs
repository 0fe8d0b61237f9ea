//! The request queue: what waits, what may join it, and what goes next.
//!
//! ```text
//!  command ─┬─ ends where a request begins (front), or begins where one ends (back), same kind, not too large ─► joins it
//!           └─ else: a request of its own ─► the elevator: noop (order of arrival), deadline (one way over the addresses)
//! ```
//! The deadline elevator serves one direction, reads or writes, in batches that go up the addresses and begin anew at the lowest. A
//! direction whose oldest request has waited too long begins its batch with that one; reads go before writes, but not more than
//! [`WRITES_STARVED`] batches in turn.
//!
//! Invariants: a request that waits is in both indices of its address, and in the order of its direction; it has parts, without a gap
//! between them; no request is larger than the largest.

use pellucid_flash::slab::{Linked, List, NIL, Slab};
use pellucid_flash::{Command, Nanos, Opcode, SimTime};
use std::collections::{BTreeSet, VecDeque};

/// Batches of reads that may go before writes.
const WRITES_STARVED: u32 = 2;
/// Requests of a batch.
const BATCH: u32 = 16;

/// In which order requests go to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Elevator {
    /// In the order of arrival.
    Noop,
    /// Up the addresses in batches, reads first, and none for longer than its deadline.
    Deadline,
}

/// What the commands of one request have in common; two commands that differ in it are never merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub opcode: Opcode,
    pub handle: u16,
    pub queue: u16,
}

impl Kind {
    /// Kind of a command that may be merged: reads, writes, and a cache's two kinds of writes, but none that is forced (FUA) or a vector.
    pub fn of(command: &Command) -> Option<Kind> {
        let data = matches!(
            command.opcode,
            Opcode::Read
                | Opcode::Write
                | Opcode::WriteClean
                | Opcode::WriteDirty
                | Opcode::NamelessWrite
                | Opcode::PhysicalRead
        );
        let plain = command.vector.is_none() || command.opcode == Opcode::NamelessWrite;
        let merges = data && plain && !command.fua && command.sectors > 0;
        merges.then_some(Kind { opcode: command.opcode, handle: command.handle, queue: command.queue })
    }

    pub fn is_write(self) -> bool {
        !matches!(self.opcode, Opcode::Read | Opcode::PhysicalRead)
    }
}

/// A command of the application, or a piece of one that is larger than the largest request.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub origin: u32,
    pub kind: Option<Kind>,
    pub lba: u64,
    pub sectors: u32,
    /// Where its sectors begin in the data of its command.
    pub data_at: u32,
    next: u32,
}

impl Linked for Part {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Part {
    /// All of a command.
    pub fn whole(origin: u32, command: &Command) -> Part {
        let (kind, lba, sectors) = (Kind::of(command), command.lba.0, command.sectors);
        Part { origin, kind, lba, sectors, data_at: 0, next: NIL }
    }

    /// Its place in the data of its command.
    pub fn bytes(&self, image_bytes: usize) -> std::ops::Range<usize> {
        let start = self.data_at as usize * image_bytes;
        start..start + self.sectors as usize * image_bytes
    }

    /// Its first `sectors` sectors, and the rest.
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

/// One command for the drive: commands of the application side by side.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    /// `None`: nothing joins it.
    pub kind: Option<Kind>,
    pub lba: u64,
    pub sectors: u32,
    /// In the order of their addresses.
    pub parts: List,
    pub count: u32,
    /// Of its first command.
    pub arrived: SimTime,
    /// A number of its own while it waits; 0: it does not.
    order: u64,
}

impl Request {
    pub fn end(&self) -> u64 {
        self.lba + u64::from(self.sectors)
    }
}

/// Requests of one direction that wait.
#[derive(Clone, Debug, Default)]
struct Waiting {
    by_start: BTreeSet<(u64, u32)>,
    by_end: BTreeSet<(u64, u32)>,
    /// In the order of arrival, with those that have gone until they come to the front.
    order: VecDeque<(u64, u32)>,
    /// Where the last one dispatched ended.
    head: u64,
}

/// What waits for the drive.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    elevator: Elevator,
    largest: u32,
    /// The largest write to a nameless namespace: a flash page.
    page: Option<u32>,
    expire: [Nanos; 2],
    pub requests: Slab<Request>,
    /// Reads, writes. With noop both are in the first.
    waiting: [Waiting; 2],
    orders: u64,
    /// Of the batch under way: its direction, and requests left.
    batch: (usize, u32),
    starved: u32,
    pub len: usize,
}

impl Queue {
    pub fn new(elevator: Elevator, largest: u32, page: Option<u32>, expire: [Nanos; 2]) -> Queue {
        Queue {
            elevator,
            largest,
            page,
            expire,
            requests: Slab::default(),
            waiting: Default::default(),
            orders: 0,
            batch: (0, 0),
            starved: 0,
            len: 0,
        }
    }

    /// Sectors of the largest request of a kind that merging makes.
    pub fn largest(&self, kind: Kind) -> u32 {
        self.page.filter(|_| kind.is_write()).map_or(self.largest, |page| page.min(self.largest))
    }

    fn side(&self, kind: Option<Kind>) -> usize {
        match self.elevator {
            Elevator::Noop => 0,
            Elevator::Deadline => usize::from(kind.is_some_and(Kind::is_write)),
        }
    }

    /// Lets a command join a request that waits; `false`: none takes it.
    pub fn merge(&mut self, parts: &mut Slab<Part>, part: u32) -> bool {
        let Part { kind, lba, sectors, .. } = parts[part];
        let Some(kind) = kind else { return false };
        let side = self.side(Some(kind));
        let largest = self.largest(kind);
        let fits = |request: &Request| {
            request.kind == Some(kind) && request.sectors.saturating_add(sectors) <= largest
        };
        let ends = self.waiting[side].by_end.range((lba, 0)..=(lba, u32::MAX));
        let back = ends.map(|&(_, at)| at).find(|&at| fits(&self.requests[at]));
        if let Some(at) = back {
            self.waiting[side].by_end.remove(&(lba, at));
            let request = &mut self.requests[at];
            request.parts.push_back(parts, part);
            (request.sectors, request.count) = (request.sectors + sectors, request.count + 1);
            self.waiting[side].by_end.insert((self.requests[at].end(), at));
            return true;
        }
        let end = lba + u64::from(sectors);
        let starts = self.waiting[side].by_start.range((end, 0)..=(end, u32::MAX));
        let front = starts.map(|&(_, at)| at).find(|&at| fits(&self.requests[at]));
        let Some(at) = front else { return false };
        self.waiting[side].by_start.remove(&(end, at));
        let request = &mut self.requests[at];
        request.parts.push_front(parts, part);
        (request.lba, request.sectors, request.count) = (lba, request.sectors + sectors, request.count + 1);
        self.waiting[side].by_start.insert((lba, at));
        true
    }

    /// A request of one command, which does not wait yet.
    pub fn request_of(&mut self, parts: &mut Slab<Part>, part: u32, now: SimTime, alone: bool) -> u32 {
        let Part { kind, lba, sectors, .. } = parts[part];
        let kind = kind.filter(|_| !alone);
        let mut list = List::EMPTY;
        list.push_back(parts, part);
        self.requests.insert(Request { kind, lba, sectors, parts: list, count: 1, arrived: now, order: 0 })
    }

    /// A request waits from now on.
    pub fn push(&mut self, at: u32) {
        self.orders += 1;
        self.requests[at].order = self.orders;
        let request = &self.requests[at];
        let side = self.side(request.kind);
        let waiting = &mut self.waiting[side];
        waiting.by_start.insert((request.lba, at));
        waiting.by_end.insert((request.end(), at));
        waiting.order.push_back((self.orders, at));
        self.len += 1;
    }

    /// The next request for the drive.
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

    /// The next one up the addresses.
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

    /// Everything that waits leaves.
    pub fn clear(&mut self) {
        self.waiting = Default::default();
        self.requests.clear();
        (self.len, self.batch, self.starved) = (0, (0, 0), 0);
    }

    pub fn memory_bytes(&self) -> u64 {
        // A key in each of two indices.
        self.requests.memory_bytes() + 2 * self.len as u64 * size_of::<(u64, u32)>() as u64
    }

    /// Walks everything that waits and panics where it breaks an invariant.
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
            Bench { queue: Queue::new(elevator, largest, None, expire), parts: Slab::default() }
        }

        /// `true`: it joined a request.
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
            command(Opcode::WriteClean, 32, 8),
            command(Opcode::WriteDirty, 32, 8),
            Command { handle: 1, ..write(32) },
            Command { queue: 1, ..write(32) },
        ];
        for other in others {
            assert!(!bench.enter(0, other.clone()), "{other:?}");
        }
        assert!(bench.enter(0, command(Opcode::WriteDirty, 40, 8)), "of one kind again");
        assert!(bench.enter(0, write(32)));
        let popped: Vec<_> = std::iter::from_fn(|| bench.pop(0)).collect();
        assert_eq!(popped, [(0, 24), (24, 16), (32, 8), (32, 8), (32, 16), (32, 8), (32, 8)]);
        for alone in [
            Command { fua: true, ..write(0) },
            Command { vector: Some(Box::default()), ..write(0) },
            command(Opcode::Flush, 0, 0),
            command(Opcode::Trim, 0, 8),
            command(Opcode::WriteZeroes, 0, 8),
            command(Opcode::Evict, 0, 8),
            command(Opcode::Clean, 0, 8),
            command(Opcode::Exists, 0, 8),
        ] {
            assert_eq!(Kind::of(&alone), None, "{alone:?}");
        }
    }

    /// Up the addresses from where the last request ended, and from the lowest again.
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

    /// Reads go first, but a write waits for two batches of them at most; and an expired request is next.
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
