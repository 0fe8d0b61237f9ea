//! An I/O queue: submits requests to the drives, sends completions to the host, and handles aborts.

use super::core::Core;
use super::member::Role;
use crate::nvme::io::{self, Request};
use crate::nvme::open_channel::{self, LISTS_MAX, VectorRequest};
use crate::nvme::slots::{Slot, State, Work};
use crate::nvme::{admin, cache, fdp, nameless, zns};
use crate::session::Port;
use pellucid_flash::{Completion as Ended, Status as DriveStatus};
use pellucid_wire::nvme::Status;
use std::rc::Rc;

/// Submits the operations of a request whose data have arrived.
#[inline]
pub(super) fn execute(
    core: &mut Core,
    index: u16,
    request: &Request,
    mut data: Vec<u8>,
    port: &mut Port<'_>,
) {
    let Role::Io { queue, .. } = core.member.role() else { return };
    let through = is_write_through(core, port);
    if let io::Kind::Special(io::Special::Vector(vector)) = request.kind
        && let Err(status) = use_list(core, &vector, &mut data)
    {
        core.slots.get(index).fail(status);
        port.give_back(data);
        return end(core, index, request, port);
    }
    let token = index.into();
    let submitted = io::submit(request, core.member.volumes(), queue - 1, token, &mut data, through, port);
    let slot = core.slots.get(index);
    match submitted {
        Ok(operations) => {
            slot.submitted(operations);
            if request.kind == io::Kind::Compare {
                port.expect(data.len());
                slot.keep(data);
            } else {
                port.give_back(data);
            }
        }
        Err(status) => {
            slot.fail(status);
            port.give_back(data);
        }
    }
    if !slot.is_busy() {
        end(core, index, request, port);
    }
}

/// Returns true if the host has switched the volatile write cache off, and no power cut has switched it on again.
#[inline]
fn is_write_through(core: &Core, port: &mut Port<'_>) -> bool {
    let Role::Io { controller, .. } = core.member.role() else { return false };
    if !core.member.gate().write_through.get() {
        return false;
    }
    if let Some((controller, Some(subsystem))) = core.target.borrow_mut().get(controller) {
        admin::follow_power(controller, subsystem, port);
    }
    core.member.gate().write_through.get()
}

/// Ends a command that has no operation in a drive.
fn end(core: &mut Core, index: u16, request: &Request, port: &mut Port<'_>) {
    let slot = core.slots.get(index);
    let (cid, status) = (slot.cid(), slot.status());
    if !status.is_success() {
        core.log_error(cid, status, Some(request));
    }
    core.finish(index, 0, port);
}

/// Stores a staged list of addresses, or fetches the list that a vector command names.
fn use_list(core: &Core, vector: &VectorRequest, data: &mut Vec<u8>) -> Result<(), Status> {
    let invalid = Status::INVALID_FIELD.do_not_retry();
    let mut lists = core.member.gate().lists.borrow_mut();
    if vector.opcode.is_none() {
        if lists.len() >= LISTS_MAX && !lists.contains_key(&vector.address) {
            return Err(invalid);
        }
        lists.insert(vector.address, std::mem::take(data));
    } else if vector.needs_list() {
        *data = lists.remove(&vector.address).ok_or(invalid)?;
    }
    Ok(())
}

/// Aborts the command with the host's identifier `cid`, if possible.
fn abort(core: &mut Core, cid: u16, port: &mut Port<'_>) -> bool {
    let aborted = Status::ABORT_REQUESTED.do_not_retry();
    let Some(index) = core.slots.find(cid) else { return false };
    let slot = core.slots.get(index);
    match (slot.state(), slot.work()) {
        (State::Waiting, _) => {
            slot.abort(aborted);
            core.grants.forget(index);
            core.finish(index, 0, port);
            true
        }
        // The command ends when its data have arrived.
        (State::Receiving, _) => {
            slot.abort(aborted);
            true
        }
        (State::Working, Work::Io(request)) if request.is_harmless() => {
            slot.orphan();
            core.link.respond(cid, aborted, 0, port);
            true
        }
        _ => false,
    }
}

/// Tells the controller of the queue's life, and decides on aborts.
pub(super) fn tick(core: &mut Core, id: u16, queue: u16, now_ns: u64, port: &mut Port<'_>) {
    let shared = Rc::clone(&core.target);
    let mut target = shared.borrow_mut();
    let Some((controller, _)) = target.get(id) else { return };
    if core.member.take_active() {
        controller.heard(now_ns);
    }
    controller.decide_aborts(queue, |admin, cid| {
        let aborted = abort(core, cid, port);
        port.nudge(admin);
        aborted
    });
}

/// Ends the queue after its connection is gone and has nothing left in the drives.
pub(super) fn close(core: &mut Core, id: u16, queue: u16, port: &mut Port<'_>) {
    let mut target = core.target.borrow_mut();
    // The controller may be gone before its queue.
    let Some((controller, _)) = target.get(id) else { return };
    if controller.end_queue(queue, port.connection()) {
        controller.give_up_aborts(queue, |admin| port.nudge(admin));
    }
}

/// Continues an I/O command after one of its operations has ended.
#[inline]
pub(super) fn ended(core: &mut Core, index: u16, request: Request, ended: Ended, port: &mut Port<'_>) {
    let slot = core.slots.get(index);
    let good = slot.status().is_success();
    match request.kind {
        io::Kind::Read if good => {
            let cid = slot.cid();
            core.slots.free(index);
            core.member.count(true, false);
            return core.link.send(cid, ended.data, port);
        }
        // The data are good but took effort: the status reports it, and the data are still sent.
        io::Kind::Read if ended.status == DriveStatus::HighEcc => {
            let (cid, status) = (slot.cid(), slot.status());
            core.slots.free(index);
            core.member.count(true, false);
            return core.link.send_with(cid, ended.data, status, ended.result, port);
        }
        io::Kind::Special(io::Special::Vector(vector))
            if request.gives_data() && (good || gives_part(&ended)) =>
        {
            return send_vector(core, index, &request, &vector, ended, port);
        }
        io::Kind::Special(special) if good && request.gives_data() => {
            return send_special(core, index, &request, special, ended, port);
        }
        io::Kind::Compare => {
            if good && !slot.has(&ended.data) {
                slot.fail(Status::COMPARE_FAILURE.do_not_retry());
            }
            slot.give_back(port);
        }
        _ => {}
    }
    let result = ended.result;
    port.give_back(ended.data);
    if slot.is_busy() {
        return;
    }
    let (reads, writes) = counts(slot, request.kind);
    core.member.count(reads, writes);
    let (cid, status) = (slot.cid(), slot.status());
    // A block that a cache does not hold is no error.
    if !status.is_success() && !status.is(Status::CACHE_ABSENT) {
        core.log_error(cid, status, Some(&request));
    }
    core.finish(index, result, port);
}

/// Sends what a vector read has read, if not all then a part.
fn send_vector(
    core: &mut Core,
    index: u16,
    request: &Request,
    vector: &VectorRequest,
    mut ended: Ended,
    port: &mut Port<'_>,
) {
    let slot = core.slots.get(index);
    let (cid, status) = (slot.cid(), slot.status());
    core.slots.free(index);
    core.member.count(status.is_success(), false);
    if !status.is_success() {
        core.log_error(cid, status, Some(request));
    }
    let result = ended.result;
    let data = open_channel::data_of(vector, &mut ended, port);
    core.link.send_with(cid, data, status, result, port);
}

/// Sends the answer of a command of a single command set.
fn send_special(
    core: &mut Core,
    index: u16,
    request: &Request,
    special: io::Special,
    ended: Ended,
    port: &mut Port<'_>,
) {
    let cid = core.slots.get(index).cid();
    core.slots.free(index);
    core.member.count(true, false);
    let data = match special {
        io::Special::HandleStatus => fdp::status(&ended.data, request.bytes),
        io::Special::ZoneReport { filter, partial } => {
            zns::report(&ended.data, filter, partial, request.bytes)
        }
        _ => ended.data,
    };
    let result = if matches!(special, io::Special::Cache(_)) { ended.result } else { 0 };
    core.link.send_with(cid, data, Status::SUCCESS, result, port);
}

/// Reports whether a command that has ended counts as a read, and as a write.
#[inline]
fn counts(slot: &Slot, kind: io::Kind) -> (bool, bool) {
    if !slot.status().is_success() {
        return (false, false);
    }
    match kind {
        io::Kind::Write | io::Kind::WriteZeroes | io::Kind::Special(io::Special::Append) => (false, true),
        io::Kind::Special(io::Special::Cache(opcode)) => (false, cache::takes_data(opcode)),
        io::Kind::Special(io::Special::Nameless(opcode)) => (false, nameless::takes_data(opcode)),
        io::Kind::Compare | io::Kind::Verify => (true, false),
        _ => (false, false),
    }
}

/// Returns true if a failed vector read still has data of some or all addresses. A refused read has not
/// touched its buffer, which holds old data of another connection.
fn gives_part(ended: &Ended) -> bool {
    match ended.status {
        DriveStatus::HighEcc => true,
        DriveStatus::UnrecoveredRead | DriveStatus::Unwritten => ended.result != 0,
        _ => false,
    }
}
