//! One TCP connection, which carries one queue: receives PDUs, executes commands, sends PDUs (NVMe/TCP
//! transport 3).
//!
//! ```text
//!   ICReq ─► Unconnected ─Connect─► Admin | Io
//!   CapsuleCmd ─► slot ─► its data, if it takes any ─► execute ─► C2HData, CapsuleResp
//! ```
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`Intake`](intake::Intake) | decoder, destination of the data that arrive | a destination only inside the data of one PDU |
//! | [`Link`](link::Link) | encoder, head of the submission queue | every capsule counts once |
//! | [`Member`](member::Member) | role, volumes, gate, authentication, activity | a connection becomes a queue once |
//! | [`Slots`](super::slots::Slots) | commands outstanding, and the state of each | a slot is free exactly if it is idle |
//! | [`Grants`](grants::Grants) | commands that wait for memory, bytes that were asked for | the buffers of transfers sum up to the bytes granted |
//! | [`Target`](super::Target), shared | controllers and subsystems | |
//!
//! Each object alone writes its fields. They make the [`Core`]. *Paths* are functions over it without state: `capsules` (commands that arrive),
//! and for the commands of the queues `connect`, `authentication`, `admin_queue`, `format` and `io_queue`. The [`Connection`] only routes.
//!
//! Invariant: after an error the session is no longer used.

mod admin_queue;
mod authentication;
mod capsules;
mod connect;
mod core;
mod format;
mod grants;
mod intake;
mod io_queue;
mod link;
mod member;

use super::SharedTarget;
use super::io;
use super::slots::{Slots, State, Work};
use super::tls_key::Peer;
use crate::connection::Close;
use crate::session::{Port, Session};
use core::Core;
use grants::Grants;
use intake::Intake;
use link::Link;
use member::{Member, Role};
use pellucid_flash::Completion as Ended;
use pellucid_wire::tcp::{Event, Pdu};
use std::cell::OnceCell;
use std::net::SocketAddr;
use std::rc::Rc;

/// The state of one connection; the owner of the socket drives it.
#[derive(Debug)]
pub struct Connection {
    core: Core,
}

impl Connection {
    /// Creates the session of a host's connection to the address `local`.
    pub fn new(target: &SharedTarget, local: SocketAddr) -> Connection {
        Connection::of(target, Member::new(local, None))
    }

    /// Creates a session through TLS: only `peer` may use it, which is known when the first byte arrives.
    pub fn secured(target: &SharedTarget, local: SocketAddr, peer: Rc<OnceCell<Peer>>) -> Connection {
        Connection::of(target, Member::new(local, Some(peer)))
    }

    fn of(target: &SharedTarget, member: Member) -> Connection {
        let core = Core {
            target: Rc::clone(target),
            intake: Intake::new(),
            link: Link::new(),
            member,
            slots: Slots::default(),
            grants: Grants::default(),
        };
        Connection { core }
    }

    /// Handles one event of the decoder.
    #[inline]
    fn event(&mut self, event: Event<'_>, port: &mut Port<'_>) -> Result<(), Close> {
        let core = &mut self.core;
        match event {
            Event::Pdu(Pdu::Command(capsule)) => return capsules::command(core, &capsule, port),
            Event::Pdu(Pdu::H2cData(header)) => return capsules::host_data(core, &header, port),
            Event::Pdu(Pdu::IcReq(_)) => {
                if let Some((terms, response)) = core.intake.terms() {
                    core.link.set_up(terms, &response, port);
                }
            }
            Event::Pdu(Pdu::TermReq(term)) => {
                return Err(Close::Refused(format!(
                    "the host ended the connection: fatal error status {:02X}h, information {:X}h",
                    term.status, term.information
                )));
            }
            // The decoder passes no other PDU to a controller.
            Event::Pdu(_) => {}
            Event::Data { offset_bytes, bytes } => {
                if let Some((index, start)) = core.intake.destination() {
                    port.came(bytes.len());
                    let at = start + offset_bytes as usize;
                    core.slots.get(index).buffer_mut()[at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
            Event::End(check) => {
                if let Some(index) = core.intake.end() {
                    capsules::data_end(core, index, check, port);
                }
            }
        }
        Ok(())
    }

    /// Decodes until the input is used up or no new command should start.
    fn decode(&mut self, input: &mut &[u8], port: &mut Port<'_>) -> Result<(), Close> {
        loop {
            if self.core.intake.is_between() && port.congested() {
                return Ok(());
            }
            match self.core.intake.decode(input) {
                Ok(Some(event)) => self.event(event, port)?,
                Ok(None) => return Ok(()),
                Err(fatal) => return Err(self.core.intake.fatal(&fatal, port)),
            }
        }
    }

    /// Passes on the result of a connection. If an admin queue fails, its controller ends at once, not only
    /// when the host has closed the connection too: by then the host may have sent its outstanding commands
    /// on another path.
    fn ended(&self, result: Result<(), Close>, port: &mut Port<'_>) -> Result<(), Close> {
        if let (Err(_), Some(controller)) = (&result, self.core.member.admin_of()) {
            self.core.end_controller(controller, port);
        }
        result
    }
}

impl Session for Connection {
    fn opened(&mut self, port: &mut Port<'_>) {
        self.core.member.begin_time(port.now_ns());
    }

    fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_>) -> Result<(), Close> {
        let result = self.decode(input, port);
        self.ended(result, port)
    }

    fn landing(&mut self) -> Option<&mut [u8]> {
        let (index, range) = self.core.intake.landing()?;
        self.core.slots.get(index).buffer_mut().get_mut(range)
    }

    fn landed(&mut self, bytes: usize, port: &mut Port<'_>) -> Result<(), Close> {
        let core = &mut self.core;
        let Some((index, range)) = core.intake.landing() else { return Ok(()) };
        port.came(bytes);
        // The bytes are already in place; the decoder only counts and digests them.
        let mut landed = &core.slots.get(index).buffer_mut()[range.start..range.start + bytes];
        let result = match core.intake.decode(&mut landed) {
            Ok(_) => self.decode(&mut &[][..], port),
            Err(fatal) => Err(core.intake.fatal(&fatal, port)),
        };
        self.ended(result, port)
    }

    fn has_turn(&mut self, port: &mut Port<'_>) -> Result<(), Close> {
        capsules::grant(&mut self.core, port);
        Ok(())
    }

    fn completed(&mut self, token: u64, ended: Ended, port: &mut Port<'_>) {
        let (core, index) = (&mut self.core, token as u16);
        let slot = core.slots.get(index);
        slot.operation_ended(io::status(ended.status, ended.opcode));
        match (slot.state(), slot.work()) {
            (State::Working, &Work::Io(request)) => io_queue::ended(core, index, request, ended, port),
            (State::Working, Work::Format { .. }) => format::go_on(core, index, port),
            (state, work) => {
                let (shutdown, answered) = (matches!(work, Work::Shutdown), state == State::Orphan);
                port.give_back(ended.data);
                if slot.is_busy() {
                    return;
                }
                slot.give_back(port);
                match core.member.admin_of() {
                    Some(controller) if shutdown => admin_queue::end_shutdown(core, index, controller),
                    _ if answered => core.slots.free(index),
                    _ => core.finish(index, 0, port),
                }
            }
        }
    }

    fn tick(&mut self, now_ns: u64, port: &mut Port<'_>) -> Result<(), Close> {
        let core = &mut self.core;
        let result = match core.member.role() {
            Role::Unconnected if core.member.is_late_to_connect(now_ns) => {
                Err(Close::Refused("no Connect came".to_owned()))
            }
            Role::Unconnected => Ok(()),
            _ if core.member.is_late_to_authenticate(now_ns) => {
                Err(Close::Refused(core.member.refused("not done in time")))
            }
            Role::Admin { controller } => admin_queue::tick(core, controller, now_ns, port),
            Role::Io { controller, queue } => {
                io_queue::tick(core, controller, queue, now_ns, port);
                Ok(())
            }
        };
        self.ended(result, port)
    }

    fn closed(&mut self, port: &mut Port<'_>) {
        match self.core.member.role() {
            Role::Unconnected => {}
            Role::Admin { controller } => self.core.end_controller(controller, port),
            Role::Io { controller, queue } => io_queue::close(&mut self.core, controller, queue, port),
        }
    }
}
