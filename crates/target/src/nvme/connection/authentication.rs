//! Authentication Send and Receive (Base 6.1, 6.2) on a queue whose host must authenticate.
//!
//! Invariants: a queue that must authenticate executes nothing else first; an I/O queue gets its
//! controller's gate when authentication succeeds, so its I/O path need not check.

use super::core::{Core, room_for};
use super::member::Role;
use crate::connection::Close;
use crate::nvme::dhchap::{MESSAGE_BYTES_MAX, Refusal};
use crate::nvme::slots::Work;
use crate::session::Port;
use pellucid_wire::nvme::auth::{AUTH_PROTOCOL, AUTH_SPECIFIC};
use pellucid_wire::nvme::{AuthArguments, FABRICS_OPCODE, FabricsType, Status, SubmissionEntry};

/// Returns the type of an authentication command; `None` for other commands.
pub(super) fn auth_command(entry: &SubmissionEntry) -> Option<FabricsType> {
    let kind = FabricsType::from_raw(entry.fabrics_type()).filter(|_| entry.opcode() == FABRICS_OPCODE);
    kind.filter(|kind| matches!(kind, FabricsType::AuthenticationSend | FabricsType::AuthenticationReceive))
}

/// Begins an Authentication Send or Receive. Returns the bytes of the message that the host sends; `None` if it receives one.
pub(super) fn start(
    core: &mut Core,
    kind: FabricsType,
    entry: &SubmissionEntry,
    port: &mut Port<'_>,
) -> Result<Option<u32>, Status> {
    if let Some(controller) = core.member.admin_of()
        && let Some((controller, _)) = core.target.borrow_mut().get(controller)
    {
        controller.heard(port.now_ns());
    }
    let arguments = AuthArguments::parse(entry);
    let understood = arguments.protocol == AUTH_PROTOCOL && arguments.specific == AUTH_SPECIFIC;
    let is_send = kind == FabricsType::AuthenticationSend;
    let too_long = is_send && arguments.length_bytes > MESSAGE_BYTES_MAX;
    if !understood || arguments.length_bytes == 0 || too_long {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    if is_send {
        return Ok(Some(arguments.length_bytes));
    }
    let index = core.slot(entry.cid(), Work::Admin(*entry))?;
    receive_message(core, index, entry, port);
    Ok(None)
}

/// Handles the complete message of an Authentication Send.
pub(super) fn send_message(core: &mut Core, index: u16, message: &[u8], port: &mut Port<'_>) {
    let Some(authentication) = core.member.authentication() else { return };
    let was_done = authentication.is_done();
    let taken = authentication.send(message);
    if was_done && core.member.must_authenticate() {
        // The host gets time to fetch the reason.
        core.member.begin_time(port.now_ns());
    }
    use_result(core);
    if let Err(refusal) = taken {
        close_refused(core, refusal, port);
    }
    core.finish(index, 0, port);
}

fn receive_message(core: &mut Core, index: u16, entry: &SubmissionEntry, port: &mut Port<'_>) {
    let room_bytes = AuthArguments::parse(entry).length_bytes;
    let Some(authentication) = core.member.authentication() else { return };
    // The length of the data pointer is checked first: a message that cannot be sent must not be
    // consumed.
    let message = room_for(entry, room_bytes)
        .and_then(|()| authentication.receive(room_bytes, &mut |bytes| port.draw_random(bytes)));
    core.slots.free(index);
    match message {
        Ok((message, refusal)) => {
            use_result(core);
            core.link.send(entry.cid(), message, port);
            if let Some(refusal) = refusal {
                close_refused(core, refusal, port);
            }
        }
        Err(status) => core.fail(entry, status, 0, port),
    }
}

/// Opens or shuts the gate between an I/O queue and the drives.
fn use_result(core: &mut Core) {
    let Role::Io { controller, .. } = core.member.role() else { return };
    let open = !core.member.must_authenticate();
    let mut target = core.target.borrow_mut();
    let gate = target.get(controller).filter(|_| open).map(|(controller, _)| &controller.gate);
    core.member.set_gate(gate);
}

/// Closes the queue; its pending output is still sent.
fn close_refused(core: &Core, refusal: Refusal, port: &mut Port<'_>) {
    if let Some(controller) = core.member.admin_of() {
        core.end_controller(controller, port);
    }
    let me = port.connection();
    port.close(me, Close::Refused(core.member.refused(refusal.reason)));
}
