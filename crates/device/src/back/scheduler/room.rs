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

use super::die::Die;
use super::operation::FlashOp;
use pellucid_flash::slab::{List, Slab};

/// Operations that wait for their dies in the order of all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(List);

impl Room {
    /// Appends an operation behind all others.
    #[inline]
    pub fn push(&mut self, ops: &mut Slab<FlashOp>, op: u32) {
        self.0.push_back(ops, op);
    }

    /// Takes the first operation if its die is idle and nothing waits there.
    #[inline]
    pub fn pop(&mut self, ops: &mut Slab<FlashOp>, dies: &[Die]) -> Option<u32> {
        let die = &dies[ops[self.0.first()?].plane as usize];
        if !die.is_idle() || die.first_waiting().is_some() {
            return None;
        }
        self.0.pop(ops)
    }
}
