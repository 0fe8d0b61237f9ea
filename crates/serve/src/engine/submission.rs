//! The submission batch, for instant time: chooses by bytes which requests enter the backends next.
//!
//! ```text
//!   came ─ all of it fits ─────────────────────────────────► backends
//!     └─ more than fits ─► a queue for each connection ─► turns ─► backends
//! ```
//! A backend in instant time completes everything it was given before it answers later requests. So backends
//! hold at most [`INSIDE_BYTES`] at once, and connections take turns in filling them (start-time fair
//! queueing). A connection with a queue has a *start*: the bytes that a connection without pauses would have
//! had, in whole turns. The connection with the smallest start has its turn: at most [`TURN_BYTES`], so that
//! its answers go out together; then its start advances by the bytes it had. A connection that returns after
//! a pause starts at the current turn, before all others there. So a connection with few requests waits for
//! at most one turn of one other connection, however many there are and however much they request, and never
//! gets more than its share.
//!
//! Invariants: requests of one connection enter in order of arrival; a connection is in `turns` exactly while
//! it has a queue, and no queue is empty.

use pellucid_target::connection::ConnectionId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Limit of the bytes in the backends: requests enter while the backends hold fewer.
const INSIDE_BYTES: usize = 1 << 20;
/// A turn ends with the request that reaches this many bytes.
const TURN_BYTES: usize = 64 << 10;
/// Minimum cost of a request: even one without data is work.
const COST_MIN: usize = 4 << 10;

/// A request on its way into its backend; it is in the in-flight table.
pub(crate) struct Submission<A> {
    connection: ConnectionId,
    /// Backend of the request.
    pub backend: usize,
    /// Tag in the in-flight table.
    pub tag: u32,
    /// Cost charged while the request is in its backend.
    cost: usize,
    /// The request itself.
    pub ask: A,
}

impl<A> Submission<A> {
    /// Creates a submission for a request with `bytes` of data.
    #[inline]
    pub fn new(connection: ConnectionId, backend: usize, tag: u32, bytes: usize, ask: A) -> Submission<A> {
        Submission { connection, backend, tag, cost: bytes.max(COST_MIN), ask }
    }
}

/// Position of a connection in the turns: the smallest is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    start: u64,
    /// The connection has not just returned from a pause.
    stayed: bool,
    connection: ConnectionId,
    /// Cost used so far in an unfinished turn.
    had: usize,
}

/// All requests that wait for the backends.
pub(super) struct SubmissionBatch<A> {
    /// Requests since the last choice, in order of arrival.
    came: Vec<Submission<A>>,
    came_cost: usize,
    queues: BTreeMap<ConnectionId, VecDeque<Submission<A>>>,
    turns: BTreeSet<Turn>,
    /// Start of the last turn.
    now: u64,
    /// Start, and cost used in an unfinished turn, of connections without a queue that are still ahead of
    /// others.
    ahead: BTreeMap<ConnectionId, (u64, usize)>,
    /// Total cost in the backends, of requests that passed through this batch.
    inside: usize,
}

impl<A> Default for SubmissionBatch<A> {
    fn default() -> SubmissionBatch<A> {
        SubmissionBatch {
            came: Vec::new(),
            came_cost: 0,
            queues: BTreeMap::new(),
            turns: BTreeSet::new(),
            now: 0,
            ahead: BTreeMap::new(),
            inside: 0,
        }
    }
}

impl<A> SubmissionBatch<A> {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.came.is_empty() && self.turns.is_empty()
    }

    #[inline]
    pub fn put(&mut self, submission: Submission<A>) {
        self.came_cost += submission.cost;
        self.came.push(submission);
    }

    /// Subtracts the cost of a request that has left the backends.
    #[inline]
    pub fn leaves(&mut self, cost: usize) {
        self.inside -= cost;
    }

    /// Charges a request that enters its backend; returns its cost.
    #[inline]
    pub fn enters(&mut self, submission: &Submission<A>) -> usize {
        self.inside += submission.cost;
        submission.cost
    }

    /// Moves the requests whose turn it is to `next`, which is empty; `all` moves every request.
    #[inline]
    pub fn take(&mut self, next: &mut Vec<Submission<A>>, all: bool) {
        debug_assert!(next.is_empty());
        if self.turns.is_empty() && (all || self.inside + self.came_cost <= INSIDE_BYTES) {
            self.came_cost = 0;
            return std::mem::swap(&mut self.came, next);
        }
        self.line_up();
        if all {
            self.turns.clear();
            return std::mem::take(&mut self.queues).into_values().for_each(|queue| next.extend(queue));
        }
        self.take_turns(next);
    }

    /// Puts new requests into the queues.
    #[cold]
    fn line_up(&mut self) {
        self.came_cost = 0;
        if self.turns.is_empty() {
            self.now = 0;
            self.ahead.clear();
        }
        self.ahead.retain(|_, (start, _)| *start >= self.now);
        for submission in self.came.drain(..) {
            let connection = submission.connection;
            let queue = self.queues.entry(connection).or_insert_with(|| {
                let (start, had) = self.ahead.remove(&connection).unwrap_or((self.now, 0));
                self.turns.insert(Turn { start, stayed: false, connection, had });
                VecDeque::new()
            });
            queue.push_back(submission);
        }
    }

    fn take_turns(&mut self, next: &mut Vec<Submission<A>>) {
        let mut total = self.inside;
        while total < INSIDE_BYTES
            && let Some(Turn { mut start, connection, mut had, .. }) = self.turns.pop_first()
        {
            let Some(queue) = self.queues.get_mut(&connection) else { continue };
            while total < INSIDE_BYTES && had < TURN_BYTES {
                let Some(submission) = queue.pop_front() else { break };
                had += submission.cost;
                total += submission.cost;
                next.push(submission);
            }
            self.now = start;
            if had >= TURN_BYTES {
                start += std::mem::take(&mut had) as u64;
            }
            if queue.is_empty() {
                self.queues.remove(&connection);
                self.ahead.insert(connection, (start, had));
            } else {
                self.turns.insert(Turn { start, stayed: true, connection, had });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(connection: u64, tag: u32, bytes: usize) -> Submission<usize> {
        Submission::new(ConnectionId::new(connection), 0, tag, bytes, bytes)
    }

    /// Completes everything in the backends again and again; returns the tags in order of entry, each with
    /// the bytes before it.
    fn order(batch: &mut SubmissionBatch<usize>) -> Vec<(u32, usize)> {
        let (mut found, mut before) = (Vec::new(), 0);
        while !batch.is_empty() {
            let mut next = Vec::new();
            batch.take(&mut next, false);
            assert!(!next.is_empty(), "somebody always goes in");
            for submission in next {
                found.push((submission.tag, before));
                before += submission.ask;
                let cost = batch.enters(&submission);
                batch.leaves(cost);
            }
        }
        found
    }

    #[test]
    fn little_goes_in_as_it_came() {
        let mut batch = SubmissionBatch::default();
        (0..100).for_each(|tag| batch.put(request(u64::from(tag) % 7, tag, 4096)));
        let tags: Vec<u32> = order(&mut batch).into_iter().map(|(tag, _)| tag).collect();
        assert_eq!(tags, Vec::from_iter(0..100));
    }

    #[test]
    fn a_connection_that_asks_for_little_waits_for_one_turn_of_the_others() {
        let mut batch = SubmissionBatch::default();
        (0..256).for_each(|tag| batch.put(request(u64::from(tag) % 4, tag, 1 << 20)));
        batch.put(request(9, 1000, 4096));
        let found = order(&mut batch);
        let (_, before) = found.iter().find(|(tag, _)| *tag == 1000).expect("it goes in");
        assert!(*before <= 4 << 20, "{before} bytes went before");
        assert_eq!(found.len(), 257);
    }

    /// One connection with one request at a time competes with 64 connections of 32 requests each, all of
    /// which ask again at once. At most one turn of another connection precedes its request.
    #[test]
    fn one_request_at_a_time_is_next_whatever_the_others_ask_for() {
        const ONE: u32 = 1_000_000;
        let mut batch = SubmissionBatch::default();
        (0..64 * 32).for_each(|tag| batch.put(request(u64::from(tag / 32) + 1, tag, 4096)));
        batch.put(request(100, ONE, 4096));
        let (mut inside, mut others, mut waits, mut rounds) = (VecDeque::new(), vec![0; 64], Vec::new(), 0);
        let mut before = 0;
        while waits.len() < 200 {
            let mut next = Vec::new();
            batch.take(&mut next, false);
            for submission in next {
                let cost = batch.enters(&submission);
                match submission.tag {
                    ONE => waits.push(std::mem::take(&mut before)),
                    _ => before += 1,
                }
                inside.push_back((submission.tag, cost));
            }
            // A batch of answers goes out, and each host asks again.
            for (tag, cost) in inside.drain(..inside.len().min(63)) {
                batch.leaves(cost);
                if tag == ONE {
                    before = 0;
                    batch.put(request(100, ONE, 4096));
                } else {
                    others[tag as usize / 32] += 1;
                    batch.put(request(u64::from(tag / 32) + 1, tag, 4096));
                }
            }
            rounds += 1;
            assert!(rounds < 20_000, "it is served");
        }
        let most = waits[1..].iter().max();
        assert!(most.is_some_and(|&most| most <= 16), "{most:?} requests went in before it");
        let (least, most) = (others.iter().min(), others.iter().max());
        assert!(least.zip(most).is_some_and(|(least, most)| most - least <= 32), "{others:?}: equal shares");
    }

    /// A connection that pauses after each request gets no more than its share, however large its requests
    /// are.
    #[test]
    fn pauses_bring_no_more_than_a_share() {
        let mut batch = SubmissionBatch::default();
        (0..64 << 10).for_each(|tag| batch.put(request(1 + u64::from(tag) % 3, tag, 4096)));
        let (mut large, mut all) = (0, 0);
        batch.put(request(100, 1 << 30, 1 << 20));
        while all < 128 << 20 {
            let mut next = Vec::new();
            batch.take(&mut next, false);
            for submission in next {
                all += submission.ask;
                if submission.tag == 1 << 30 {
                    large += submission.ask;
                    batch.put(request(100, 1 << 30, 1 << 20));
                }
                let cost = batch.enters(&submission);
                batch.leaves(cost);
            }
        }
        assert!(large.abs_diff(all / 4) <= 2 << 20, "{large} of {all} bytes, of a quarter");
    }

    #[test]
    fn bytes_are_shared_evenly_whatever_the_size_of_requests() {
        let mut batch = SubmissionBatch::default();
        (0..64).for_each(|tag| batch.put(request(1, tag, 1 << 20)));
        (0..16 << 10).for_each(|tag| batch.put(request(2, 10_000 + tag, 4096)));
        let found = order(&mut batch);
        let half = found.iter().filter(|(_, before)| *before < 64 << 20);
        let (all, large) =
            half.fold((0, 0), |(all, large), (tag, _)| (all + 1, large + usize::from(*tag < 10_000)));
        let (large, small) = (large << 20, (all - large) * 4096);
        assert!(large.abs_diff(small) <= 2 << 20, "{large} and {small} bytes of the first 64 MiB");
        let tags = |of: fn(u32) -> bool| found.iter().map(|(tag, _)| *tag).filter(move |&tag| of(tag));
        assert!(tags(|tag| tag < 10_000).is_sorted() && tags(|tag| tag >= 10_000).is_sorted());
    }

    #[test]
    fn a_change_of_a_backend_finds_nobody_waiting() {
        let mut batch = SubmissionBatch::default();
        (0..64).for_each(|tag| batch.put(request(u64::from(tag) % 4, tag, 1 << 20)));
        let mut next = Vec::new();
        batch.take(&mut next, false);
        assert_eq!(next.len(), 1);
        let mut rest = Vec::new();
        batch.take(&mut rest, true);
        assert_eq!((rest.len(), batch.is_empty()), (63, true));
    }
}
