//! One flash operation: its kind, its owner, and its time by stage.

use pellucid_flash::slab::{Linked, NIL};
use pellucid_flash::{Cause, Ppa, SimTime, Stage, StageTimes};

/// Kind of a flash operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    Read,
    Program,
    Erase,
    /// Sense and program inside the die, without a transfer.
    Copyback,
}

/// Owner of an operation, and its purpose. The scheduler does not look inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Namespace that is notified of the operation's start and end.
    pub namespace: u16,
    pub token: Token,
}

/// Tag of a flash operation in its namespace: one of eight kinds, and an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(u32);

impl Token {
    #[inline]
    pub fn new(kind: u32, index: u32) -> Token {
        debug_assert!(kind < 8 && index < 1 << 29);
        Token(kind << 29 | index)
    }

    /// Kind and index.
    #[inline]
    pub fn parts(self) -> (u32, u32) {
        (self.0 >> 29, self.0 & ((1 << 29) - 1))
    }
}

/// One flash operation.
#[derive(Clone, Debug)]
pub(crate) struct FlashOp {
    pub kind: OpKind,
    pub cause: Cause,
    pub owner: Owner,
    pub die: u32,
    /// Where the scheduler has it: its die; with independent plane reads, the plane that it reads, or the die's first one.
    pub(super) plane: u32,
    /// First unit concerned; of an erase, the block's first unit.
    pub ppa: Ppa,
    /// Units that cross the channel.
    pub units: u32,
    /// Sectors that cross it where less than a mapping unit does; 0: whole units.
    pub sectors: u32,
    /// Pages that have crossed it, of the transfer under way.
    pub pages: u32,
    /// Flag: shares the first sense of another operation, which counts for both in operation counts.
    pub part: bool,
    /// In which it began, of a read (see `block/discards.rs`).
    pub epoch: u8,
    /// Failed attempts so far (reads).
    pub attempts: u32,
    /// How often it was suspended (programs and erases).
    pub suspensions: u32,
    /// When the operation was made; the times of its stages sum to the time from then to `mark`.
    pub since: SimTime,
    /// Since when the operation is in its present stage.
    pub mark: SimTime,
    pub stages: StageTimes,
    pub(super) next: u32,
}

impl Linked for FlashOp {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Default for FlashOp {
    fn default() -> FlashOp {
        let owner = Owner { namespace: 0, token: Token(0) };
        FlashOp::new(OpKind::Read, Cause::Host, owner, 0, Ppa::NONE, 0, SimTime::ZERO)
    }
}

impl FlashOp {
    #[inline]
    pub fn new(
        kind: OpKind,
        cause: Cause,
        owner: Owner,
        die: u32,
        ppa: Ppa,
        units: u32,
        now: SimTime,
    ) -> FlashOp {
        FlashOp {
            kind,
            cause,
            owner,
            die,
            plane: 0,
            ppa,
            units,
            sectors: 0,
            pages: 0,
            part: false,
            epoch: 0,
            attempts: 0,
            suspensions: 0,
            since: now,
            mark: now,
            stages: StageTimes::ZERO,
            next: NIL,
        }
    }

    /// Makes the operation that continues for one owner after a read has brought units for several.
    pub fn part_for(&self, owner: Owner, ppa: Ppa) -> FlashOp {
        FlashOp { owner, ppa, part: true, ..self.clone() }
    }

    /// Books the time since the last transition to `stage`; after a failed read everything counts as retry.
    #[inline]
    pub fn book(&mut self, stage: Stage, now: SimTime) {
        let stage = if self.attempts > 0 { Stage::Retry } else { stage };
        self.stages.add(stage, now - self.mark);
        self.mark = now;
    }
}
