//! The door of the drives, where time is instant: who goes in next, by bytes.
//!
//! ```text
//!   came ─ all of it fits ───────────────────────────────► drives
//!     └─ more than fits ─► a line for each connection ─► turns ─► drives
//! ```
//! A drive in instant time does everything that it was given before it answers what comes later. So it is given no more at once than
//! [`INSIDE_BYTES`], and connections take turns in filling that (deficit round robin): in each turn one gets [`TURN_BYTES`] of credit, and
//! what it has not used, because its next operation is longer, it keeps for its next turn. One that asks for little waits for a turn of
//! each other connection, however much they ask for.
//!
//! Invariants: operations of one connection go in in the order in which they came; a connection is in `turns` exactly while it has a line,
//! and no line is empty.

use crate::session::{ConnectionId, Operation};
use std::collections::{BTreeMap, VecDeque};

/// Operations are given to the drives as long as these hold fewer bytes than this.
const INSIDE_BYTES: usize = 1 << 20;
/// Credit of one turn.
const TURN_BYTES: usize = 64 << 10;
/// What an operation counts at least: one without data is work as well.
const LEAST_BYTES: usize = 4 << 10;

/// An operation at the door of its drive; it is in the ledger.
pub(super) struct Waiting {
    pub connection: ConnectionId,
    pub namespace: usize,
    pub tag: u32,
    pub operation: Operation,
}

impl Waiting {
    /// What it counts.
    #[inline]
    fn cost(&self) -> usize {
        self.operation.data.len().max(LEAST_BYTES)
    }
}

/// A connection with a line, in its place among those that take turns.
struct Turn {
    connection: ConnectionId,
    credit: usize,
}

/// All that waits for the drives.
#[derive(Default)]
pub(super) struct Door {
    /// What came since the last look, in its order.
    came: Vec<Waiting>,
    came_cost: usize,
    lines: BTreeMap<ConnectionId, VecDeque<Waiting>>,
    turns: VecDeque<Turn>,
    /// What is in the drives, of what went through here.
    inside: usize,
}

impl Door {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.came.is_empty() && self.turns.is_empty()
    }

    #[inline]
    pub fn put(&mut self, waiting: Waiting) {
        self.came_cost += waiting.cost();
        self.came.push(waiting);
    }

    /// An operation of this cost has left the drives.
    #[inline]
    pub fn left(&mut self, cost: usize) {
        self.inside -= cost;
    }

    /// What an operation counts that goes in now.
    #[inline]
    pub fn enters(&mut self, waiting: &Waiting) -> usize {
        let cost = waiting.cost();
        self.inside += cost;
        cost
    }

    /// Moves those who go in now to `next`, which is empty; `all`: everybody, however much it is.
    #[inline]
    pub fn take(&mut self, next: &mut Vec<Waiting>, all: bool) {
        if self.turns.is_empty() && (all || self.inside + self.came_cost <= INSIDE_BYTES) {
            self.came_cost = 0;
            return std::mem::swap(&mut self.came, next);
        }
        self.line_up();
        if all {
            self.turns.clear();
            return std::mem::take(&mut self.lines).into_values().for_each(|line| next.extend(line));
        }
        self.take_turns(next);
    }

    /// Puts what came into the lines.
    #[cold]
    fn line_up(&mut self) {
        self.came_cost = 0;
        for waiting in self.came.drain(..) {
            let connection = waiting.connection;
            self.lines.entry(connection).or_insert_with(|| {
                self.turns.push_back(Turn { connection, credit: 0 });
                VecDeque::new()
            });
            self.lines.entry(connection).or_default().push_back(waiting);
        }
    }

    fn take_turns(&mut self, next: &mut Vec<Waiting>) {
        let mut total = self.inside;
        while total < INSIDE_BYTES
            && let Some(Turn { connection, mut credit }) = self.turns.pop_front()
        {
            let Some(line) = self.lines.get_mut(&connection) else { continue };
            // One that was stopped because the drives were full still has the credit of that turn.
            if line.front().is_some_and(|first| first.cost() > credit) {
                credit += TURN_BYTES;
            }
            while total < INSIDE_BYTES && line.front().is_some_and(|first| first.cost() <= credit) {
                let Some(waiting) = line.pop_front() else { break };
                credit -= waiting.cost();
                total += waiting.cost();
                next.push(waiting);
            }
            match line.front().map(Waiting::cost) {
                None => drop(self.lines.remove(&connection)),
                Some(cost) if cost <= credit => self.turns.push_front(Turn { connection, credit }),
                Some(_) => self.turns.push_back(Turn { connection, credit }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::{Lba, Opcode};

    fn waiting(connection: u64, tag: u32, bytes: usize) -> Waiting {
        let operation = Operation::new(Opcode::Read, Lba(0), 0, vec![0; bytes]);
        Waiting { connection: ConnectionId::new(connection), namespace: 0, tag, operation }
    }

    /// Lets the drives do everything, again and again; the tags in the order in which they went in, and after how many bytes each.
    fn order(door: &mut Door) -> Vec<(u32, usize)> {
        let (mut found, mut before) = (Vec::new(), 0);
        while !door.is_empty() {
            let mut next = Vec::new();
            door.take(&mut next, false);
            assert!(!next.is_empty(), "somebody always goes in");
            for waiting in next {
                found.push((waiting.tag, before));
                before += waiting.operation.data.len();
                let cost = door.enters(&waiting);
                door.left(cost);
            }
        }
        found
    }

    #[test]
    fn little_goes_in_as_it_came() {
        let mut door = Door::default();
        (0..100).for_each(|tag| door.put(waiting(u64::from(tag) % 7, tag, 4096)));
        let tags: Vec<u32> = order(&mut door).into_iter().map(|(tag, _)| tag).collect();
        assert_eq!(tags, Vec::from_iter(0..100));
    }

    #[test]
    fn who_asks_for_little_waits_for_one_turn_of_the_others() {
        let mut door = Door::default();
        (0..256).for_each(|tag| door.put(waiting(u64::from(tag) % 4, tag, 1 << 20)));
        door.put(waiting(9, 1000, 4096));
        let found = order(&mut door);
        let (_, before) = found.iter().find(|(tag, _)| *tag == 1000).expect("it goes in");
        assert!(*before <= 4 << 20, "{before} bytes went before");
        assert_eq!(found.len(), 257);
    }

    #[test]
    fn bytes_are_shared_evenly_whatever_the_size_of_requests() {
        let mut door = Door::default();
        (0..64).for_each(|tag| door.put(waiting(1, tag, 1 << 20)));
        (0..16 << 10).for_each(|tag| door.put(waiting(2, 10_000 + tag, 4096)));
        let found = order(&mut door);
        let half = found.iter().filter(|(_, before)| *before < 64 << 20);
        let (all, large) =
            half.fold((0, 0), |(all, large), (tag, _)| (all + 1, large + usize::from(*tag < 10_000)));
        let (large, small) = (large << 20, (all - large) * 4096);
        assert!(large.abs_diff(small) <= 2 << 20, "{large} and {small} bytes of the first 64 MiB");
        let tags = |of: fn(u32) -> bool| found.iter().map(|(tag, _)| *tag).filter(move |&tag| of(tag));
        assert!(tags(|tag| tag < 10_000).is_sorted() && tags(|tag| tag >= 10_000).is_sorted());
    }

    #[test]
    fn a_change_of_a_drive_finds_nobody_waiting() {
        let mut door = Door::default();
        (0..64).for_each(|tag| door.put(waiting(u64::from(tag) % 4, tag, 1 << 20)));
        let mut next = Vec::new();
        door.take(&mut next, false);
        assert_eq!(next.len(), 1);
        let mut rest = Vec::new();
        door.take(&mut rest, true);
        assert_eq!((rest.len(), door.is_empty()), (63, true));
    }
}
