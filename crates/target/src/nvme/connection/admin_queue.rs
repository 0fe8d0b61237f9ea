//! The admin queue: carries out the results of [`admin`], and its longer tasks: shutdown, events, keep-alive.
//! Format has its own module, `format`.

use super::core::{Core, room_for};
use super::{connect, format};
use crate::connection::Close;
use crate::nvme::admin::{self, Reply};
use crate::nvme::controller::Kind;
use crate::nvme::{Target, logs};
use crate::operation::Operation;
use crate::session::Port;
use pellucid_wire::nvme::{AdminOpcode, Status, SubmissionEntry};

/// Executes an admin command, or the Connect of a connection that is no queue yet.
pub(super) fn execute(
    core: &mut Core,
    index: u16,
    entry: &SubmissionEntry,
    data: &[u8],
    port: &mut Port<'_>,
) {
    let Some(id) = core.member.admin_of() else {
        return connect::execute(core, index, entry, data, port);
    };
    let reply = reply_to(core, id, entry, data, port).and_then(|reply| match reply {
        Reply::Data(data, result) => room_for(entry, data.len() as u32).map(|()| Reply::Data(data, result)),
        reply => Ok(reply),
    });
    match reply {
        Ok(Reply::Done(result)) => core.finish(index, result, port),
        Ok(Reply::Data(data, result)) => {
            core.slots.free(index);
            core.link.send_with(entry.cid(), data, Status::SUCCESS, result, port);
        }
        Ok(Reply::Later) => {
            core.slots.free(index);
            send_events(core, id, port);
        }
        Ok(Reply::AbortedRequest(cid)) => {
            core.link.respond(cid, Status::ABORT_REQUESTED.do_not_retry(), 0, port);
            core.finish(index, 0, port);
        }
        Ok(Reply::Reset) => {
            close_queues(core, id, port);
            core.finish(index, 0, port);
        }
        Ok(Reply::Shutdown) => {
            core.link.respond(entry.cid(), Status::SUCCESS, 0, port);
            start_shutdown(core, index, id, port);
        }
        Ok(Reply::Flush) => flush_all(core, index, port),
        Ok(Reply::Format { first, last }) => {
            core.slots.get(index).format(first, last, 0);
            format::go_on(core, index, port);
        }
        Err(status) => {
            core.slots.free(index);
            core.fail(entry, status, 0, port);
        }
    }
}

fn reply_to(
    core: &mut Core,
    id: u16,
    entry: &SubmissionEntry,
    data: &[u8],
    port: &mut Port<'_>,
) -> Result<Reply, Status> {
    let mut target = core.target.borrow_mut();
    target.follow_targets(port);
    let Target { controllers, subsystems, followed, .. } = &mut *target;
    let controller = controllers.get_mut(&id).ok_or(Status::INTERNAL_ERROR)?;
    controller.heard(port.now_ns());
    match controller.kind {
        Kind::Discovery if entry.opcode() == AdminOpcode::GetLogPage.raw() => {
            let offered = logs::Offered {
                subsystems,
                local: core.member.local(),
                secured: core.member.peer().is_some(),
                generation: *followed,
            };
            admin::discovery_log(controller, &offered, entry).map(Reply::of)
        }
        Kind::Discovery => admin::execute(controller, None, entry, data, port),
        Kind::Io(subsystem) => {
            let mut subsystem = subsystems.get_mut(subsystem);
            if let Some(subsystem) = subsystem.as_deref_mut() {
                admin::follow_power(controller, subsystem, port);
                admin::take_processor_time(subsystem, entry, port);
            }
            admin::execute(controller, subsystem, entry, data, port)
        }
    }
}

fn close_queues(core: &Core, id: u16, port: &mut Port<'_>) {
    if let Some((controller, _)) = core.target.borrow_mut().get(id) {
        for connection in controller.close_queues() {
            port.close(connection, Close::Finished);
        }
    }
}

fn start_shutdown(core: &mut Core, index: u16, id: u16, port: &mut Port<'_>) {
    core.slots.get(index).shut_down();
    flush_all(core, index, port);
    if core.member.volumes().is_empty() {
        end_shutdown(core, index, id);
    }
}

/// Flushes the drives; the completions continue the command.
fn flush_all(core: &mut Core, index: u16, port: &mut Port<'_>) {
    let volumes = core.member.volumes();
    core.slots.get(index).submitted(volumes.len() as u32);
    for volume in volumes {
        port.submit(volume.number, index.into(), Operation::flush());
    }
}

/// Ends a shutdown whose drives are flushed.
pub(super) fn end_shutdown(core: &mut Core, index: u16, id: u16) {
    core.slots.free(index);
    if let Some((controller, subsystem)) = core.target.borrow_mut().get(id) {
        controller.shut_down();
        if let Some(subsystem) = subsystem {
            subsystem.hosts.leave(&(controller.host_nqn.clone(), controller.host_id));
        }
    }
}

/// Answers event requests for which events have occurred.
fn send_events(core: &Core, id: u16, port: &mut Port<'_>) {
    loop {
        let next = core.target.borrow_mut().get(id).and_then(|(controller, _)| controller.next_event());
        let Some((cid, event)) = next else { return };
        core.link.respond(cid, Status::SUCCESS, event.encode().into(), port);
    }
}

/// Looks after a controller: its host's life sign, notices, health and aborts.
pub(super) fn tick(core: &Core, id: u16, now_ns: u64, port: &mut Port<'_>) -> Result<(), Close> {
    let authenticates = core.member.must_authenticate();
    let answered = {
        let mut target = core.target.borrow_mut();
        target.follow_targets(port);
        let Some((controller, subsystem)) = target.get(id) else { return Ok(()) };
        // A host that computes with a large group sends nothing meanwhile; authentication has its own
        // time limit.
        if !authenticates && controller.is_expired(now_ns) {
            let (ms, host) = (controller.features.keep_alive_ms, &controller.host_nqn);
            return Err(Close::Refused(format!("controller {id} of {host}: not heard of for {ms} ms")));
        }
        if controller.is_ready()
            && let Some(subsystem) = subsystem
        {
            admin::follow_power(controller, subsystem, port);
            admin::watch_notices(controller, subsystem, port);
            if controller.takes_health_check(now_ns) {
                admin::watch_health(controller, subsystem, port);
            }
        }
        controller.take_decided_aborts()
    };
    for (cid, outcome) in answered {
        core.link.respond(cid, Status::SUCCESS, if outcome { 0 } else { admin::NOT_ABORTED }, port);
    }
    send_events(core, id, port);
    Ok(())
}
