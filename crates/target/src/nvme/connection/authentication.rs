//! Authentication Send and Receive (Base 6.1, 6.2) on a queue whose host must authenticate.
//!
//! Invariants: a queue that has to authenticate executes nothing else before; an I/O queue gets its
//! controller's gate when it succeeds, so its I/O path need not check.

use super::{Connection, Role, room_for};
use crate::connection::Close;
use crate::nvme::dhchap::{MESSAGE_BYTES_MAX, Refusal};
use crate::nvme::slots::Work;
use crate::session::Port;
use pellucid_wire::nvme::auth::{AUTH_PROTOCOL, AUTH_SPECIFIC};
use pellucid_wire::nvme::{AuthArguments, FABRICS_OPCODE, FabricsType, Status, SubmissionEntry};
use pellucid_wire::tcp::CapsuleCommand;
use std::rc::Rc;

/// Returns the type of an authentication command; `None` for other commands.
pub(super) fn auth_command(entry: &SubmissionEntry) -> Option<FabricsType> {
    let kind = FabricsType::from_raw(entry.fabrics_type()).filter(|_| entry.opcode() == FABRICS_OPCODE);
    kind.filter(|kind| matches!(kind, FabricsType::AuthenticationSend | FabricsType::AuthenticationReceive))
}

impl Connection {
    /// Returns true if the queue is not authenticated, or no longer.
    pub(super) fn must_authenticate(&self) -> bool {
        self.authentication.as_ref().is_some_and(|authentication| !authentication.is_done())
    }

    /// Handles a command on an I/O queue that is not usable, or one that is no I/O command.
    #[cold]
    pub(super) fn start_outside_io(
        &mut self,
        capsule: &CapsuleCommand,
        port: &mut Port<'_>,
    ) -> Result<(), Status> {
        match auth_command(&capsule.entry) {
            Some(kind) if self.authentication.is_some() => self.start_authentication(kind, capsule, port),
            _ if self.must_authenticate() => Err(Status::AUTHENTICATION_REQUIRED.do_not_retry()),
            _ => Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
        }
    }

    /// Begins an Authentication Send or Receive.
    pub(super) fn start_authentication(
        &mut self,
        kind: FabricsType,
        capsule: &CapsuleCommand,
        port: &mut Port<'_>,
    ) -> Result<(), Status> {
        if let Role::Admin { controller } = self.role
            && let Some((controller, _)) = self.target.borrow_mut().get(controller)
        {
            controller.active_ns = port.now_ns();
        }
        let entry = &capsule.entry;
        let arguments = AuthArguments::parse(entry);
        let understood = arguments.protocol == AUTH_PROTOCOL && arguments.specific == AUTH_SPECIFIC;
        let is_send = kind == FabricsType::AuthenticationSend;
        let too_long = is_send && arguments.length_bytes > MESSAGE_BYTES_MAX;
        if !understood || arguments.length_bytes == 0 || too_long {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        if is_send {
            return self.take_data(capsule, Work::Admin(*entry), arguments.length_bytes, port);
        }
        let index = self.slot(entry.cid(), Work::Admin(*entry))?;
        self.receive_message(index, entry, port);
        Ok(())
    }

    /// Handles the complete message of an Authentication Send.
    pub(super) fn send_message(&mut self, index: u16, message: &[u8], port: &mut Port<'_>) {
        let Some(authentication) = &mut self.authentication else { return };
        let was_done = authentication.is_done();
        let taken = authentication.send(message);
        if was_done && self.must_authenticate() {
            // The host gets time to fetch the reason.
            self.opened_ns = port.now_ns();
        }
        self.use_result();
        if let Err(refusal) = taken {
            self.close_refused(refusal, port);
        }
        self.finish(index, 0, port);
    }

    fn receive_message(&mut self, index: u16, entry: &SubmissionEntry, port: &mut Port<'_>) {
        let room_bytes = AuthArguments::parse(entry).length_bytes;
        let Some(authentication) = &mut self.authentication else { return };
        // The length of the data pointer is checked first: a message that cannot be sent must not be
        // consumed.
        let message = room_for(entry, room_bytes)
            .and_then(|()| authentication.receive(room_bytes, &mut |bytes| port.draw_random(bytes)));
        self.slots.free(index);
        match message {
            Ok((message, refusal)) => {
                self.use_result();
                self.send(entry.cid(), message, port);
                if let Some(refusal) = refusal {
                    self.close_refused(refusal, port);
                }
            }
            Err(status) => self.fail(entry, status, 0, port),
        }
    }

    /// Opens or shuts the gate between an I/O queue and the drives.
    fn use_result(&mut self) {
        let Role::Io { controller, .. } = self.role else { return };
        self.gate = match self.target.borrow_mut().get(controller) {
            Some((controller, _)) if !self.must_authenticate() => Rc::clone(&controller.gate),
            _ => Rc::default(),
        };
    }

    /// Closes the queue; its pending output is still sent.
    fn close_refused(&mut self, refusal: Refusal, port: &mut Port<'_>) {
        if let Role::Admin { controller } = self.role {
            self.end_controller(controller, port);
        }
        let me = port.connection();
        port.close(me, Close::Refused(self.refused(refusal.reason)));
    }

    /// Log text for a refused authentication: host, subsystem and reason.
    pub(super) fn refused(&self, reason: &str) -> String {
        let (host, subsystem) = self.authentication.as_ref().map_or(("", ""), |a| a.names());
        format!("authentication of host {host} to {subsystem}: {reason}")
    }
}
