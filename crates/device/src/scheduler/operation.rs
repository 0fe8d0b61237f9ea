//! One flash operation: what it does, for whom, and where its time went.

use pellucid_flash::slab::{Linked, NIL};
use pellucid_flash::{Cause, Ppa, SimTime, Stage, StageTimes};

/// What a flash operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    Read,
    Program,
    Erase,
    /// Sense and program inside the die, without a transfer.
    Copyback,
}

/// Whom the end of an operation concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// A data-buffer entry that is being filled.
    Fill(u32),
    /// Relocations that one sense brings: the first of them.
    Relocation(u32),
    /// A planned program.
    Program(u32),
    /// A block that is being erased.
    Erase,
    /// A slice of a command that addresses the media.
    Direct(u32),
    /// A buffered stripe of a zoned namespace, on its way to its zone.
    Stage { namespace: u16, slot: u32 },
    /// One on its way to the staging log.
    Log { namespace: u16, slot: u32 },
    /// A block of the staging log that is being erased.
    LogErase { namespace: u16 },
    /// The chunk that is being written anew.
    Refresh,
}

/// One flash operation.
#[derive(Clone, Debug)]
pub(crate) struct FlashOp {
    pub kind: OpKind,
    pub cause: Cause,
    pub client: Client,
    pub die: u32,
    /// Where the scheduler has it: its die; with independent plane reads, the plane that it reads, or the die's first one.
    pub(super) plane: u32,
    /// First unit concerned; of an erase, the block's first unit.
    pub ppa: Ppa,
    /// Units that cross the channel.
    pub units: u32,
    /// Pages that have crossed it, of the transfer under way.
    pub pages: u32,
    /// It shared the first sense of another operation, which stands for both where operations are counted.
    pub part: bool,
    /// In which it began, of a read (see `forgetting.rs`).
    pub epoch: u8,
    /// Failed attempts so far (reads).
    pub attempts: u32,
    /// How often it was suspended (programs and erases).
    pub suspensions: u32,
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
        FlashOp::new(OpKind::Read, Cause::Host, Client::Erase, 0, Ppa::NONE, 0, SimTime::ZERO)
    }
}

impl FlashOp {
    #[inline]
    pub fn new(
        kind: OpKind,
        cause: Cause,
        client: Client,
        die: u32,
        ppa: Ppa,
        units: u32,
        now: SimTime,
    ) -> FlashOp {
        let stages = StageTimes::default();
        FlashOp {
            kind,
            cause,
            client,
            die,
            plane: 0,
            ppa,
            units,
            pages: 0,
            part: false,
            epoch: 0,
            attempts: 0,
            suspensions: 0,
            mark: now,
            stages,
            next: NIL,
        }
    }

    /// What goes on by itself of a read that has brought units of several clients.
    pub fn part_for(&self, client: Client, ppa: Ppa) -> FlashOp {
        FlashOp { client, ppa, part: true, ..self.clone() }
    }

    /// Books the time since the last transition to `stage`; after a failed read everything counts as retry.
    #[inline]
    pub fn book(&mut self, stage: Stage, now: SimTime) {
        let stage = if self.attempts > 0 { Stage::Retry } else { stage };
        self.stages.add(stage, now - self.mark);
        self.mark = now;
    }
}
