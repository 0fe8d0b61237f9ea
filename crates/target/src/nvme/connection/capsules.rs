//! Capsules: commands that arrive, and the data that they take.
//!
//! ```text
//!   CapsuleCmd ─► slot ─┬─ no data, or in the capsule ──────────────► execute
//!                       ├─ R2T (when granted) ─► H2CData ... last ──► execute
//!                       └─ much to be read (within budget) ─────────► execute
//! ```
//! Other capsules may arrive between an R2T and its data: the transfer tag leads the data to their slot.

use super::authentication::{self, auth_command};
use super::core::{Core, pointer_of, room_for};
use super::member::Role;
use super::{admin_queue, io_queue};
use crate::connection::Close;
use crate::nvme::admin;
use crate::nvme::io;
use crate::nvme::slots::Work;
use crate::session::Port;
use pellucid_wire::nvme::{ConnectData, DataPointer, FABRICS_OPCODE, FabricsType, Status, SubmissionEntry};
use pellucid_wire::tcp::{CapsuleCommand, DataCheck, DataHeader, ReadyToTransfer};

/// Handles a command whose in-capsule data have not arrived yet.
#[inline]
pub(super) fn command(core: &mut Core, capsule: &CapsuleCommand, port: &mut Port<'_>) -> Result<(), Close> {
    core.member.came();
    core.link.came();
    // Aborted commands may still be in the drive, so a host can have a few more than its queue holds.
    let entries = core.link.queue_entries();
    if core.slots.in_use() >= usize::from(entries) * 2 {
        return Err(Close::Refused(format!(
            "more commands outstanding than a queue of {entries} entries holds"
        )));
    }
    if capsule.data_bytes > 0 {
        core.intake.discard();
    }
    let started = match core.member.role() {
        Role::Io { .. } => start_io(core, capsule, port),
        _ => start_admin(core, capsule, port),
    };
    if let Err(status) = started {
        core.fail(&capsule.entry, status, 0, port);
    }
    Ok(())
}

#[inline]
fn start_io(core: &mut Core, capsule: &CapsuleCommand, port: &mut Port<'_>) -> Result<(), Status> {
    let entry = &capsule.entry;
    if !core.member.gate().ready.get() || entry.opcode() == FABRICS_OPCODE {
        return start_outside_io(core, capsule, port);
    }
    let Some(request) = io::parse(entry, core.member.volumes())? else {
        core.link.respond(entry.cid(), Status::SUCCESS, 0, port);
        return Ok(());
    };
    if request.takes_data() {
        return take_data(core, capsule, Work::Io(request), request.bytes, port);
    }
    if request.gives_data() {
        room_for(entry, request.bytes)?;
    }
    let index = core.slot(entry.cid(), Work::Io(request))?;
    if request.gives_data() && !port.has_budget(request.bytes as usize) {
        core.slots.get(index).wait(request.bytes);
        core.grants.wait(index);
        return Ok(());
    }
    io_queue::execute(core, index, &request, Vec::new(), port);
    Ok(())
}

/// Handles a command on an I/O queue that is not usable, or one that is no I/O command.
#[cold]
fn start_outside_io(core: &mut Core, capsule: &CapsuleCommand, port: &mut Port<'_>) -> Result<(), Status> {
    match auth_command(&capsule.entry) {
        Some(kind) if core.member.authenticates() => start_authentication(core, kind, capsule, port),
        _ if core.member.must_authenticate() => Err(Status::AUTHENTICATION_REQUIRED.do_not_retry()),
        _ => Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
    }
}

fn start_authentication(
    core: &mut Core,
    kind: FabricsType,
    capsule: &CapsuleCommand,
    port: &mut Port<'_>,
) -> Result<(), Status> {
    match authentication::start(core, kind, &capsule.entry, port)? {
        Some(bytes) => take_data(core, capsule, Work::Admin(capsule.entry), bytes, port),
        None => Ok(()),
    }
}

fn start_admin(core: &mut Core, capsule: &CapsuleCommand, port: &mut Port<'_>) -> Result<(), Status> {
    let entry = &capsule.entry;
    if core.member.authenticates() {
        match auth_command(entry) {
            Some(kind) => return start_authentication(core, kind, capsule, port),
            None if core.member.must_authenticate() => {
                return Err(Status::AUTHENTICATION_REQUIRED.do_not_retry());
            }
            None => {}
        }
    }
    let bytes = match core.member.role() {
        Role::Unconnected if !is_connect(entry) => return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
        Role::Unconnected => ConnectData::BYTES as u32,
        _ => admin::data_bytes(entry),
    };
    if bytes > 0 {
        return take_data(core, capsule, Work::Admin(*entry), bytes, port);
    }
    let index = core.slot(entry.cid(), Work::Admin(*entry))?;
    admin_queue::execute(core, index, entry, &[], port);
    Ok(())
}

fn is_connect(entry: &SubmissionEntry) -> bool {
    entry.opcode() == FABRICS_OPCODE
        && FabricsType::from_raw(entry.fabrics_type()) == Some(FabricsType::Connect)
}

/// Prepares to receive the `bytes` of data that the command needs, in its capsule or by an R2T.
fn take_data(
    core: &mut Core,
    capsule: &CapsuleCommand,
    work: Work,
    bytes: u32,
    port: &mut Port<'_>,
) -> Result<(), Status> {
    let entry = &capsule.entry;
    let pointer = pointer_of(entry)?;
    if pointer.length_bytes() < bytes {
        return Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry());
    }
    let range = pointer.range_in_capsule(capsule.data_bytes)?;
    let index = core.slot(entry.cid(), work)?;
    match pointer {
        DataPointer::InCapsule { .. } => {
            let length = capsule.data_bytes as usize;
            port.expect(length);
            core.slots.get(index).receive(bytes, range.start, port.take_buffer(length));
            core.intake.lead_to(index, 0, length);
        }
        DataPointer::Transport { .. } => {
            core.slots.get(index).wait(bytes);
            core.grants.wait(index);
            grant(core, port);
        }
    }
    Ok(())
}

/// Requests data and begins reads, as far as the memory budget allows.
pub(super) fn grant(core: &mut Core, port: &mut Port<'_>) {
    while let Some(index) = core.grants.first() {
        let slot = core.slots.get(index);
        let length_bytes = slot.wanted();
        if let &Work::Io(request) = slot.work()
            && !request.takes_data()
        {
            if !port.has_budget(length_bytes as usize) {
                return;
            }
            slot.go_on();
            core.grants.first_goes_on();
            io_queue::execute(core, index, &request, Vec::new(), port);
            continue;
        }
        if !core.grants.has_room(length_bytes) || !port.has_budget(length_bytes as usize) {
            return;
        }
        port.expect(length_bytes as usize);
        let request = ReadyToTransfer { cid: slot.cid(), transfer_tag: index, offset_bytes: 0, length_bytes };
        slot.receive_transfer(request, port.take_buffer(length_bytes as usize));
        core.grants.grant(length_bytes);
        core.grants.first_goes_on();
        core.link.ask(&request, port);
    }
}

/// Handles the header of an H2CData PDU.
pub(super) fn host_data(core: &mut Core, header: &DataHeader, port: &mut Port<'_>) -> Result<(), Close> {
    if let Err(fatal) = core.slots.accept(header) {
        return Err(core.intake.fatal(&fatal, port));
    }
    core.intake.lead_to(header.transfer_tag, header.offset_bytes as usize, header.length_bytes as usize);
    Ok(())
}

/// Handles the end of a PDU's data.
pub(super) fn data_end(core: &mut Core, index: u16, check: DataCheck, port: &mut Port<'_>) {
    let slot = core.slots.get(index);
    let Some(was_asked) = slot.pdu_ended(check == DataCheck::Mismatch) else { return };
    if was_asked {
        core.grants.arrived(slot.wanted());
    }
    let data = slot.begin(port);
    let (status, cid) = (slot.status(), slot.cid());
    if !status.is_success() {
        port.give_back(data);
        core.log_error(cid, status, None);
        core.finish(index, 0, port);
    } else {
        match *slot.work() {
            Work::Io(request) => io_queue::execute(core, index, &request, data, port),
            Work::Admin(entry) => {
                if auth_command(&entry).is_some() {
                    authentication::send_message(core, index, &data, port);
                } else {
                    admin_queue::execute(core, index, &entry, &data, port);
                }
                port.give_back(data);
            }
            // These commands take no data.
            Work::Format { .. } | Work::Shutdown => {}
        }
    }
    if core.grants.is_waiting() {
        grant(core, port);
    }
}
