//! Core of a connection: the objects that the paths use, and how commands end.

use super::grants::Grants;
use super::intake::Intake;
use super::link::Link;
use super::member::{Member, Role};
use crate::connection::Close;
use crate::nvme::SharedTarget;
use crate::nvme::io::Request;
use crate::nvme::slots::{Slots, Work};
use crate::session::Port;
use pellucid_wire::nvme::{DataPointer, ErrorLogEntry, Status, SubmissionEntry};

/// Objects of a connection.
#[derive(Debug)]
pub(super) struct Core {
    pub target: SharedTarget,
    pub intake: Intake,
    pub link: Link,
    pub member: Member,
    pub slots: Slots,
    pub grants: Grants,
}

impl Core {
    /// Takes a slot for a command.
    #[inline]
    pub fn slot(&mut self, cid: u16, work: Work) -> Result<u16, Status> {
        self.slots.take(cid, work).ok_or(Status::INTERNAL_ERROR)
    }

    /// Ends the command of a slot with the slot's status.
    #[inline]
    pub fn finish(&mut self, index: u16, result: u64, port: &mut Port<'_>) {
        let slot = self.slots.get(index);
        let (cid, status) = (slot.cid(), slot.status());
        self.slots.free(index);
        self.link.respond(cid, status, result, port);
    }

    /// Refuses a command.
    #[cold]
    pub fn fail(&mut self, entry: &SubmissionEntry, status: Status, result: u64, port: &mut Port<'_>) {
        self.note_error(entry.cid(), status, entry.opcode(), entry.nsid(), 0);
        self.link.respond(entry.cid(), status, result, port);
    }

    #[cold]
    pub fn log_error(&mut self, cid: u16, status: Status, request: Option<&Request>) {
        let (nsid, lba) = request.map_or((0, 0), |r| (r.volume.wrapping_add(1) as u32, r.lba));
        self.note_error(cid, status, request.map_or(0, |r| r.kind.opcode()), nsid, lba);
    }

    /// Adds an entry to the error log.
    pub fn note_error(&mut self, cid: u16, status: Status, opcode: u8, nsid: u32, lba: u64) {
        let (id, queue_id) = match self.member.role() {
            Role::Unconnected => return,
            Role::Admin { controller } => (controller, 0),
            Role::Io { controller, queue } => (controller, queue),
        };
        let mut target = self.target.borrow_mut();
        let Some((controller, subsystem)) = target.get(id) else { return };
        controller.error(ErrorLogEntry {
            queue_id,
            cid,
            status_and_phase: status.raw() << 1,
            parameter_location: 0xFFFF,
            lba,
            nsid,
            transport_type: 3,
            opcode,
            version: 1,
            ..ErrorLogEntry::default()
        });
        if let Some(subsystem) = subsystem {
            subsystem.count_error();
        }
    }

    /// Ends a controller: closes its queues.
    pub fn end_controller(&self, id: u16, port: &mut Port<'_>) {
        for connection in self.target.borrow_mut().remove(id, port) {
            port.close(connection, Close::Finished);
        }
    }
}

/// Data pointer of a command that moves data.
#[inline]
pub(super) fn pointer_of(entry: &SubmissionEntry) -> Result<DataPointer, Status> {
    if !matches!(entry.psdt(), 1 | 2) {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    entry.sgl().pointer()
}

/// Checks that the host takes `bytes` of data.
#[inline]
pub(super) fn room_for(entry: &SubmissionEntry, bytes: u32) -> Result<(), Status> {
    match pointer_of(entry)? {
        DataPointer::Transport { length_bytes } if length_bytes >= bytes => Ok(()),
        DataPointer::Transport { .. } => Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry()),
        DataPointer::InCapsule { .. } => Err(Status::SGL_TYPE_INVALID.do_not_retry()),
    }
}
