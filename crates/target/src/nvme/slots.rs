//! Outstanding commands of one connection. The number of a slot is the token of its operations and the
//! transfer tag of its R2T.
//!
//! ```text
//!           in-capsule data                  all operations ended
//!   free ──────────────────► receiving ─► working ─────────────────────────────► free
//!     │ R2T    grant ▲  │                    │ aborted: answered at once
//!     └──► waiting ──┘  └─ aborted ─► free   └────► orphan ── all ended ───────► free
//! ```
//! Invariants: a slot is free exactly if it is in `idle`; a waiting slot is in the connection's waiting
//! queue.

use super::io::Request;
use crate::session::Port;
use pellucid_wire::nvme::{Status, SubmissionEntry};
use pellucid_wire::tcp::WriteTransfer;

/// A parsed command.
#[derive(Debug)]
pub(super) enum Work {
    /// An I/O command.
    Io(Request),
    /// An admin or fabrics command.
    Admin(SubmissionEntry),
    /// Format of the namespaces from `nsid` to `last`; blocks, or chunks, from `next` on are still to be
    /// discarded.
    Format { nsid: u32, last: u32, next: u64 },
    /// Shutdown: the drives are being flushed.
    Shutdown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The slot has no command.
    Free,
    /// The command waits for an R2T, or for the memory budget of a read.
    Waiting,
    /// Data arrive from the host.
    Receiving,
    /// The command is in the drive, or waits for something else.
    Working,
    /// Like `Working`, but the host already has its answer.
    Orphan,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub state: State,
    pub work: Work,
    pub cid: u16,
    /// Bytes of data that the command takes from the host.
    pub wanted: u32,
    /// Offset of the command's data within the capsule data.
    pub skip: u32,
    /// Data from the host.
    pub buffer: Vec<u8>,
    /// R2T that was sent.
    pub transfer: Option<WriteTransfer>,
    /// Number of operations in the drive.
    pub operations: u32,
    /// Status of the first failed operation.
    pub status: Status,
}

impl Slot {
    fn new(cid: u16, work: Work) -> Slot {
        Slot {
            state: State::Working,
            work,
            cid,
            wanted: 0,
            skip: 0,
            buffer: Vec::new(),
            transfer: None,
            operations: 0,
            status: Status::SUCCESS,
        }
    }

    /// Returns the buffer of the host's data for a compare, if there is one.
    pub fn give_back(&mut self, port: &mut Port<'_>) {
        port.release(self.buffer.len());
        port.give_back(std::mem::take(&mut self.buffer));
    }
}

/// All slots of a connection.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    idle: Vec<u16>,
}

impl Slots {
    /// Takes a slot for a command, in state `Working`; returns `None` if all 65,536 are in use.
    #[inline]
    pub fn take(&mut self, cid: u16, work: Work) -> Option<u16> {
        if let Some(index) = self.idle.pop() {
            self.slots[usize::from(index)] = Slot::new(cid, work);
            return Some(index);
        }
        let index = u16::try_from(self.slots.len()).ok()?;
        self.slots.push(Slot::new(cid, work));
        Some(index)
    }

    #[inline]
    pub fn free(&mut self, index: u16) {
        self.slots[usize::from(index)].state = State::Free;
        self.idle.push(index);
    }

    #[inline]
    pub fn get(&mut self, index: u16) -> &mut Slot {
        &mut self.slots[usize::from(index)]
    }

    /// Identifier of a slot's command, as assigned by the host.
    pub fn cid(&self, index: u16) -> u16 {
        self.slots[usize::from(index)].cid
    }

    /// Number of slots in use.
    #[inline]
    pub fn in_use(&self) -> usize {
        self.slots.len() - self.idle.len()
    }

    /// Finds the slot that waits for data under this transfer tag.
    #[inline]
    pub fn receiving(&mut self, tag: u16) -> Option<&mut Slot> {
        self.slots
            .get_mut(usize::from(tag))
            .filter(|slot| slot.state == State::Receiving && slot.transfer.is_some())
    }

    /// Finds the slot of the command with the host's identifier `cid`.
    pub fn find(&mut self, cid: u16) -> Option<u16> {
        let known = |slot: &Slot| slot.cid == cid && !matches!(slot.state, State::Free | State::Orphan);
        self.slots.iter().position(known).map(|index| index as u16)
    }
}
