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
use pellucid_wire::tcp::{DataHeader, Fatal, ReadyToTransfer, WriteTransfer};

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
    state: State,
    work: Work,
    cid: u16,
    /// Bytes of data that the command takes from the host, or gives to it.
    wanted: u32,
    /// Offset of the command's data within the capsule data.
    skip: u32,
    /// Data from the host.
    buffer: Vec<u8>,
    /// R2T that was sent.
    transfer: Option<WriteTransfer>,
    /// Number of operations in the drive.
    operations: u32,
    /// Status of the first failed operation.
    status: Status,
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

    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    #[inline]
    pub fn work(&self) -> &Work {
        &self.work
    }

    #[inline]
    pub fn cid(&self) -> u16 {
        self.cid
    }

    /// Returns the bytes that the command takes or gives.
    #[inline]
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    #[inline]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Sets the status of a command that failed, unless it had failed before.
    #[inline]
    pub fn fail(&mut self, status: Status) {
        if self.status.is_success() {
            self.status = status;
        }
    }

    /// Sets the status of a command that the host aborts.
    pub fn abort(&mut self, status: Status) {
        self.status = status;
    }

    // ---- data from the host

    /// Lets the command wait for an R2T, or for the memory budget of `wanted` bytes.
    #[inline]
    pub fn wait(&mut self, wanted: u32) {
        assert_eq!(self.state, State::Working, "a command waits that is under way");
        (self.state, self.wanted) = (State::Waiting, wanted);
    }

    /// Continues a command that waited for memory.
    #[inline]
    pub fn go_on(&mut self) {
        assert_eq!(self.state, State::Waiting, "a command goes on that has not waited");
        self.state = State::Working;
    }

    /// Receives the data of the capsule, of which the command takes `wanted` bytes from `skip` on.
    #[inline]
    pub fn receive(&mut self, wanted: u32, skip: usize, buffer: Vec<u8>) {
        assert_eq!(self.state, State::Working, "a command receives that is under way");
        (self.state, self.wanted, self.skip) = (State::Receiving, wanted, skip as u32);
        self.buffer = buffer;
    }

    /// Receives the data that the host is asked for.
    #[inline]
    pub fn receive_transfer(&mut self, request: ReadyToTransfer, buffer: Vec<u8>) {
        self.go_on();
        self.state = State::Receiving;
        self.buffer = buffer;
        self.transfer = Some(WriteTransfer::new(request));
    }

    /// Returns the buffer of the host's data.
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Notes the end of a PDU with data. Returns `None` if more are to come; otherwise whether they were asked for.
    #[inline]
    pub fn pdu_ended(&mut self, is_damaged: bool) -> Option<bool> {
        if is_damaged {
            self.fail(Status::TRANSIENT_TRANSPORT_ERROR);
        }
        match self.transfer.take() {
            Some(transfer) if transfer.remaining_bytes() > 0 => {
                self.transfer = Some(transfer);
                None
            }
            transfer => Some(transfer.is_some()),
        }
    }

    /// Begins the work on the data that have arrived; returns them.
    #[inline]
    pub fn begin(&mut self, port: &mut Port<'_>) -> Vec<u8> {
        assert_eq!(self.state, State::Receiving, "data arrive for a command that waits for none");
        self.state = State::Working;
        port.release(self.buffer.len());
        let mut data = std::mem::take(&mut self.buffer);
        if self.skip > 0 {
            data.drain(..self.skip as usize);
        }
        data.truncate(self.wanted as usize);
        data
    }

    // ---- operations

    /// Notes that `operations` were submitted.
    #[inline]
    pub fn submitted(&mut self, operations: u32) {
        assert_eq!(self.operations, 0, "a command has operations of two kinds");
        self.operations = operations;
    }

    /// Notes the end of an operation, with its status.
    #[inline]
    pub fn operation_ended(&mut self, status: Status) {
        assert!(self.operations > 0, "more operations end than were submitted");
        self.operations -= 1;
        self.fail(status);
    }

    /// Reports whether operations are in the drive.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.operations > 0
    }

    /// Keeps the host's data for a compare.
    pub fn keep(&mut self, data: Vec<u8>) {
        self.buffer = data;
    }

    /// Reports whether the stored data of the host equal `data`.
    pub fn has(&self, data: &[u8]) -> bool {
        self.buffer == data
    }

    /// Returns the buffer of the host's data for a compare, if there is one.
    pub fn give_back(&mut self, port: &mut Port<'_>) {
        port.release(self.buffer.len());
        port.give_back(std::mem::take(&mut self.buffer));
    }

    // ---- longer tasks

    /// Notes that the host has its answer.
    pub fn orphan(&mut self) {
        assert_eq!(self.state, State::Working, "a command is answered early that is not in the drive");
        self.state = State::Orphan;
    }

    /// Makes the command a shutdown, whose host has its answer.
    pub fn shut_down(&mut self) {
        self.work = Work::Shutdown;
        self.orphan();
    }

    /// Makes the command a format of the namespaces from `nsid` to `last`, of which everything before `next` is discarded.
    pub fn format(&mut self, nsid: u32, last: u32, next: u64) {
        self.work = Work::Format { nsid, last, next };
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
        let state = std::mem::replace(&mut self.slots[usize::from(index)].state, State::Free);
        assert_ne!(state, State::Free, "a command ends twice");
        self.idle.push(index);
    }

    #[inline]
    pub fn get(&mut self, index: u16) -> &mut Slot {
        &mut self.slots[usize::from(index)]
    }

    /// Number of slots in use.
    #[inline]
    pub fn in_use(&self) -> usize {
        self.slots.len() - self.idle.len()
    }

    /// Accepts the header of data for the slot that waits for them under this transfer tag.
    #[inline]
    pub fn accept(&mut self, header: &DataHeader) -> Result<(), Fatal> {
        let slot = self.slots.get_mut(usize::from(header.transfer_tag));
        let slot = slot.filter(|slot| slot.state == State::Receiving);
        match slot.and_then(|slot| slot.transfer.as_mut()) {
            Some(transfer) => transfer.accept(header).map(drop),
            None => Err(WriteTransfer::unknown_tag()),
        }
    }

    /// Finds the slot of the command with the host's identifier `cid`.
    pub fn find(&mut self, cid: u16) -> Option<u16> {
        let known = |slot: &Slot| slot.cid == cid && !matches!(slot.state, State::Free | State::Orphan);
        self.slots.iter().position(known).map(|index| index as u16)
    }
}
