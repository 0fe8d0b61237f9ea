//! The waiting room: operations begin in issue order across all dies.
//!
//! ```text
//!  operations, in order ─► head of the room ── its die is idle ─► that die
//!                                           └─ else: it waits, and so do all behind it
//! ```
//! Jasmine's flash controller holds one command whose bank is busy, and the firmware waits until that slot is free. So banks
//! contend: two operations in a row for one bank leave the other banks idle.
//!
//! Invariant: while the room is not empty, the die of its first operation is busy.

use super::{Phase, Scheduler};
use crate::events::Events;
use pellucid_flash::SimTime;

impl Scheduler {
    /// Begins operations from the head of the room while their dies are idle.
    #[inline]
    pub(super) fn leave_room(&mut self, now: SimTime, events: &mut Events) {
        if let Some(room) = &mut self.room
            && !room.is_empty()
        {
            self.leave_room_in_order(now, events);
        }
    }

    fn leave_room_in_order(&mut self, now: SimTime, events: &mut Events) {
        while let Some(op) = self.room.as_ref().and_then(|room| room.first()) {
            let die = self.ops[op].plane;
            let d = &self.dies[die as usize];
            if d.phase != Phase::Idle || !d.rest.is_empty() {
                return;
            }
            if let Some(room) = &mut self.room {
                room.pop(&mut self.ops);
            }
            self.begin(now, die, op, events);
        }
    }
}
