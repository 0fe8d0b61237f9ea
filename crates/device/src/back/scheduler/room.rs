//! The waiting room: dies take operations in the order of all of them.
//!
//! ```text
//!  operations, in order ─► first of the room ── its die is idle ─► that die
//!                                            └─ else: it waits, and all behind it
//! ```
//! Jasmine's flash controller has one place for a command that its bank cannot take yet, and the firmware waits until that place is
//! free. So banks contend: two operations in a row for one bank leave the others without work.
//!
//! Invariant: while the room is not empty, the die of its first operation works.

use super::{Phase, Scheduler};
use crate::events::Events;
use pellucid_flash::SimTime;

impl Scheduler {
    /// Operations leave the room as long as the die of the first one is idle.
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
