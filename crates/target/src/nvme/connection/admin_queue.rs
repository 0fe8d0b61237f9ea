//! The admin queue: carries out the results of [`admin`], and its longer tasks: shutdown, events, keep-alive.
//! Format has its own module, `format`.

use super::{Connection, Role, room_for};
use crate::connection::Close;
use crate::nvme::admin::{self, Reply};
use crate::nvme::controller::Kind;
use crate::nvme::slots::{State, Work};
use crate::nvme::{Target, logs};
use crate::operation::Operation;
use crate::session::Port;
use pellucid_wire::nvme::{AdminOpcode, Status, SubmissionEntry};

/// Interval of health checks of the drives.
const HEALTH_NS: u64 = 5_000_000_000;

impl Connection {
    pub(super) fn execute_admin(
        &mut self,
        index: u16,
        entry: &SubmissionEntry,
        data: &[u8],
        port: &mut Port<'_>,
    ) {
        let Role::Admin { controller: id } = self.role else {
            return self.execute_connect(index, entry, data, port);
        };
        let reply = self.admin_reply(id, entry, data, port).and_then(|reply| match reply {
            Reply::Data(data, result) => {
                room_for(entry, data.len() as u32).map(|()| Reply::Data(data, result))
            }
            reply => Ok(reply),
        });
        match reply {
            Ok(Reply::Done(result)) => self.finish(index, result, port),
            Ok(Reply::Data(data, result)) => {
                self.slots.free(index);
                self.send_with(entry.cid(), data, Status::SUCCESS, result, port);
            }
            Ok(Reply::Later) => {
                self.slots.free(index);
                self.send_events(id, port);
            }
            Ok(Reply::AbortedRequest(cid)) => {
                self.respond(cid, Status::ABORT_REQUESTED.do_not_retry(), 0, port);
                self.finish(index, 0, port);
            }
            Ok(Reply::Reset) => {
                self.close_queues(id, port);
                self.finish(index, 0, port);
            }
            Ok(Reply::Shutdown) => {
                self.respond(entry.cid(), Status::SUCCESS, 0, port);
                self.start_shutdown(index, id, port);
            }
            Ok(Reply::Flush) => self.flush_all(index, port),
            Ok(Reply::Format { first, last }) => {
                self.slots.get(index).work = Work::Format { nsid: first, last, next: 0 };
                self.continue_format(index, port);
            }
            Err(status) => {
                self.slots.free(index);
                self.fail(entry, status, 0, port);
            }
        }
    }

    pub(super) fn admin_reply(
        &mut self,
        id: u16,
        entry: &SubmissionEntry,
        data: &[u8],
        port: &mut Port<'_>,
    ) -> Result<Reply, Status> {
        let mut target = self.target.borrow_mut();
        target.follow_targets(port);
        let Target { controllers, subsystems, followed, .. } = &mut *target;
        let controller = controllers.get_mut(&id).ok_or(Status::INTERNAL_ERROR)?;
        controller.active_ns = port.now_ns();
        match controller.kind {
            Kind::Discovery if entry.opcode() == AdminOpcode::GetLogPage.raw() => {
                let offered = logs::Offered {
                    subsystems,
                    local: self.local,
                    secured: self.peer.is_some(),
                    generation: *followed,
                };
                admin::discovery_log(controller, &offered, entry).map(Reply::of)
            }
            Kind::Discovery => admin::execute(controller, None, entry, data, port),
            Kind::Io(subsystem) => {
                admin::execute(controller, subsystems.get_mut(subsystem), entry, data, port)
            }
        }
    }

    pub(super) fn close_queues(&mut self, id: u16, port: &mut Port<'_>) {
        let mut target = self.target.borrow_mut();
        if let Some((controller, _)) = target.get(id) {
            for connection in std::mem::take(&mut controller.queues).into_values() {
                controller.ending.push(connection);
                port.close(connection, Close::Finished);
            }
        }
    }

    /// Passes on the result of a connection. If an admin queue fails, its controller ends at once, not only
    /// when the host has closed the connection too: by then the host may have sent its outstanding commands
    /// on another path.
    pub(super) fn ended(&self, result: Result<(), Close>, port: &mut Port<'_>) -> Result<(), Close> {
        if let (Err(_), Role::Admin { controller }) = (&result, self.role) {
            self.end_controller(controller, port);
        }
        result
    }

    pub(super) fn end_controller(&self, id: u16, port: &mut Port<'_>) {
        for connection in self.target.borrow_mut().remove(id, port) {
            port.close(connection, Close::Finished);
        }
    }

    pub(super) fn start_shutdown(&mut self, index: u16, id: u16, port: &mut Port<'_>) {
        let slot = self.slots.get(index);
        slot.work = Work::Shutdown;
        slot.state = State::Orphan;
        self.flush_all(index, port);
        if self.volumes.is_empty() {
            self.end_shutdown(index, id);
        }
    }

    /// Flushes the drives; the completions continue the command.
    fn flush_all(&mut self, index: u16, port: &mut Port<'_>) {
        self.slots.get(index).operations = self.volumes.len() as u32;
        for volume in &self.volumes {
            port.submit(volume.number, index.into(), Operation::flush());
        }
    }

    pub(super) fn end_shutdown(&mut self, index: u16, id: u16) {
        self.slots.free(index);
        if let Some((controller, _)) = self.target.borrow_mut().get(id) {
            controller.shut_down();
        }
    }

    /// Answers event requests for which events have occurred.
    pub(super) fn send_events(&mut self, id: u16, port: &mut Port<'_>) {
        loop {
            let next = self.target.borrow_mut().get(id).and_then(|(controller, _)| controller.next_event());
            let Some((cid, event)) = next else { return };
            self.respond(cid, Status::SUCCESS, event.encode().into(), port);
        }
    }

    pub(super) fn tick_admin(&mut self, id: u16, now_ns: u64, port: &mut Port<'_>) -> Result<(), Close> {
        let authenticates = self.must_authenticate();
        let mut answered = Vec::new();
        {
            let mut target = self.target.borrow_mut();
            target.follow_targets(port);
            let Some((controller, subsystem)) = target.get(id) else { return Ok(()) };
            // A host that computes with a large group sends nothing meanwhile; authentication has its own
            // time limit.
            if !authenticates && controller.is_expired(now_ns) {
                let (ms, host) = (controller.features.keep_alive_ms, &controller.host_nqn);
                return Err(Close::Refused(format!("controller {id} of {host}: not heard of for {ms} ms")));
            }
            let mut subsystem = subsystem;
            if controller.is_ready()
                && let Some(subsystem) = subsystem.as_deref_mut()
            {
                admin::watch_notices(controller, subsystem, port);
            }
            if controller.is_ready()
                && now_ns >= controller.health_due_ns
                && let Some(subsystem) = subsystem
            {
                controller.health_due_ns = now_ns + HEALTH_NS;
                admin::watch_health(controller, subsystem, port);
            }
            controller.aborts.retain(|abort| {
                answered.extend(abort.outcome.map(|outcome| (abort.abort_cid, outcome)));
                abort.outcome.is_none()
            });
        }
        for (cid, outcome) in answered {
            self.respond(cid, Status::SUCCESS, if outcome { 0 } else { admin::NOT_ABORTED }, port);
        }
        self.send_events(id, port);
        Ok(())
    }
}
