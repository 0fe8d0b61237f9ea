//! One TCP connection, which carries one queue: receives PDUs, executes commands, sends PDUs (NVMe/TCP
//! transport 3).
//!
//! ```text
//!   ICReq ─► Unconnected ─Connect─► Admin | Io
//!   CapsuleCmd ─► slot ─┬─ no data, or in the capsule ──────────────► execute ─► C2HData, CapsuleResp
//!                       ├─ R2T (when granted) ─► H2CData ... last ──► execute
//!                       └─ much to be read (within budget) ─────────► execute
//! ```
//! Other capsules may arrive between an R2T and its data: the transfer tag leads the data to their slot.
//!
//! This file handles the PDUs; `connect`, `authentication`, `admin_queue`, `format` and `io_queue` handle the
//! commands of the queues.
//!
//! Invariants: while `incoming` is not `None`, the decoder is inside the data of one PDU; the buffers of
//! slots with a transfer sum up to `granted_bytes`; after an error the session is no longer used.

mod admin_queue;
mod authentication;
mod connect;
mod format;
mod io_queue;

use super::admin::{self};
use super::controller::Gate;
use super::dhchap::Authentication;
use super::io::{self, Request, Volume};
use super::slots::{Slots, State, Work};
use super::tls_key::Peer;
use super::{
    AUTHENTICATION_TIMEOUT_NS, CONNECT_TIMEOUT_NS, GRANTED_BYTES_MAX, SharedTarget, TRANSFER_BYTES_MAX,
};
use crate::connection::Close;
use crate::session::{Port, Session};
use authentication::auth_command;
use pellucid_flash::Completion as Ended;
use pellucid_wire::nvme::{
    Completion, ConnectData, DataPointer, ErrorLogEntry, FABRICS_OPCODE, FabricsType, Status, SubmissionEntry,
};
use pellucid_wire::tcp::{
    ADMIN_IN_CAPSULE_BYTES, CapsuleCommand, DataCheck, DataDigest, DataHeader, Decoder, Encoder, Event,
    Fatal, HEADER_BYTES_MAX, IcReq, Offer, Pdu, ReadyToTransfer, TERM_BYTES_MAX, Terms, WriteTransfer,
    encode_ic_resp,
};
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Unconnected,
    Admin { controller: u16 },
    Io { controller: u16, queue: u16 },
}

/// Destination of the data of the current PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Incoming {
    None,
    /// Drop the data: their command was refused.
    Discard,
    /// Store the data in the buffer of a slot, from `start` to `end`.
    Slot {
        index: u16,
        start: usize,
        end: usize,
    },
}

/// The state of one connection; the owner of the socket drives it.
#[derive(Debug)]
pub struct Connection {
    target: SharedTarget,
    local: SocketAddr,
    decoder: Decoder,
    encoder: Encoder,
    role: Role,
    slots: Slots,
    incoming: Incoming,
    /// Slots that wait for an R2T, or for the memory budget of a read.
    waiting: VecDeque<u16>,
    granted_bytes: usize,
    queue_entries: u16,
    sq_head: u16,
    flow_control: bool,
    volumes: Vec<Volume>,
    /// Index of their subsystem.
    subsystem: usize,
    gate: Rc<Gate>,
    /// Authentication state; `None`: the host need not authenticate.
    authentication: Option<Box<Authentication>>,
    /// Identity that the host has proved through TLS, once it has; `None`: in the clear any host may connect.
    peer: Option<Rc<OnceCell<Peer>>>,
    /// Commands arrived since the last tick.
    active: bool,
    reads: u64,
    writes: u64,
    /// Time when the connection was opened, or lost its authentication.
    opened_ns: u64,
}

impl Connection {
    /// Creates the session of a host's connection to the address `local`.
    pub fn new(target: &SharedTarget, local: SocketAddr) -> Connection {
        let offer = Offer {
            header_digest: true,
            data_digest: true,
            alignment: 0,
            h2c_data_max: TRANSFER_BYTES_MAX,
            in_capsule_max: ADMIN_IN_CAPSULE_BYTES,
        };
        Connection {
            target: Rc::clone(target),
            local,
            decoder: Decoder::controller(offer),
            encoder: Encoder::controller(&Terms::default()),
            role: Role::Unconnected,
            slots: Slots::default(),
            incoming: Incoming::None,
            waiting: VecDeque::new(),
            granted_bytes: 0,
            queue_entries: 2,
            sq_head: 0,
            flow_control: true,
            volumes: Vec::new(),
            subsystem: 0,
            gate: Rc::default(),
            authentication: None,
            peer: None,
            active: false,
            reads: 0,
            writes: 0,
            opened_ns: 0,
        }
    }

    /// Creates a session through TLS: only `peer` may use it, which is known when the first byte arrives.
    pub fn secured(target: &SharedTarget, local: SocketAddr, peer: Rc<OnceCell<Peer>>) -> Connection {
        Connection { peer: Some(peer), ..Connection::new(target, local) }
    }

    /// Handles one event of the decoder.
    #[inline]
    fn event(&mut self, event: Event<'_>, port: &mut Port<'_>) -> Result<(), Close> {
        match event {
            Event::Pdu(Pdu::Command(capsule)) => self.command(&capsule, port),
            Event::Pdu(Pdu::H2cData(header)) => self.host_data(&header, port),
            Event::Pdu(Pdu::IcReq(request)) => self.set_up(&request, port),
            Event::Pdu(Pdu::TermReq(term)) => Err(Close::Refused(format!(
                "the host ended the connection: fatal error status {:02X}h, information {:X}h",
                term.status, term.information
            ))),
            // The decoder passes no other PDU to a controller.
            Event::Pdu(_) => Ok(()),
            Event::Data { offset_bytes, bytes } => {
                if let Incoming::Slot { index, start, .. } = self.incoming {
                    port.came(bytes.len());
                    let at = start + offset_bytes as usize;
                    self.slots.get(index).buffer[at..at + bytes.len()].copy_from_slice(bytes);
                }
                Ok(())
            }
            Event::End(check) => {
                if let Incoming::Slot { index, .. } = std::mem::replace(&mut self.incoming, Incoming::None) {
                    self.data_end(index, check, port);
                }
                Ok(())
            }
        }
    }

    fn set_up(&mut self, _request: &IcReq, port: &mut Port<'_>) -> Result<(), Close> {
        let (Some(terms), Some(response)) = (self.decoder.terms(), self.decoder.ic_resp()) else {
            return Ok(());
        };
        self.encoder = Encoder::controller(terms);
        port.output().head(&encode_ic_resp(&response));
        Ok(())
    }

    /// Reports a fatal error to the host and ends the connection.
    #[cold]
    fn fatal(&mut self, fatal: &Fatal, port: &mut Port<'_>) -> Close {
        let mut out = [0; TERM_BYTES_MAX];
        let length = self.decoder.term_req(fatal, &mut out);
        port.output().behind(&out[..length]);
        Close::Refused(fatal.to_string())
    }

    /// Handles a command whose in-capsule data have not arrived yet.
    #[inline]
    fn command(&mut self, capsule: &CapsuleCommand, port: &mut Port<'_>) -> Result<(), Close> {
        self.active = true;
        self.sq_head += 1;
        if self.sq_head == self.queue_entries {
            self.sq_head = 0;
        }
        // Aborted commands may still be in the drive, so a host can have a few more than its queue holds.
        if self.slots.in_use() >= usize::from(self.queue_entries) * 2 {
            let entries = self.queue_entries;
            return Err(Close::Refused(format!(
                "more commands outstanding than a queue of {entries} entries holds"
            )));
        }
        if capsule.data_bytes > 0 {
            self.incoming = Incoming::Discard;
        }
        let started = match self.role {
            Role::Io { .. } => self.start_io(capsule, port),
            _ => self.start_admin(capsule, port),
        };
        if let Err(status) = started {
            self.fail(&capsule.entry, status, 0, port);
        }
        Ok(())
    }

    fn start_admin(&mut self, capsule: &CapsuleCommand, port: &mut Port<'_>) -> Result<(), Status> {
        let entry = &capsule.entry;
        if self.authentication.is_some() {
            match auth_command(entry) {
                Some(kind) => return self.start_authentication(kind, capsule, port),
                None if self.must_authenticate() => {
                    return Err(Status::AUTHENTICATION_REQUIRED.do_not_retry());
                }
                None => {}
            }
        }
        let is_connect = entry.opcode() == FABRICS_OPCODE
            && FabricsType::from_raw(entry.fabrics_type()) == Some(FabricsType::Connect);
        let bytes = match self.role {
            Role::Unconnected if !is_connect => return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
            Role::Unconnected => ConnectData::BYTES as u32,
            _ => admin::data_bytes(entry),
        };
        if bytes > 0 {
            return self.take_data(capsule, Work::Admin(*entry), bytes, port);
        }
        let index = self.slot(entry.cid(), Work::Admin(*entry))?;
        self.execute_admin(index, entry, &[], port);
        Ok(())
    }

    fn slot(&mut self, cid: u16, work: Work) -> Result<u16, Status> {
        self.slots.take(cid, work).ok_or(Status::INTERNAL_ERROR)
    }

    /// Prepares to receive the `bytes` of data that the command needs, in its capsule or by an R2T.
    fn take_data(
        &mut self,
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
        let index = self.slot(entry.cid(), work)?;
        let slot = self.slots.get(index);
        slot.wanted = bytes;
        match pointer {
            DataPointer::InCapsule { .. } => {
                slot.state = State::Receiving;
                slot.skip = range.start as u32;
                port.expect(capsule.data_bytes as usize);
                slot.buffer = port.take_buffer(capsule.data_bytes as usize);
                self.incoming = Incoming::Slot { index, start: 0, end: capsule.data_bytes as usize };
            }
            DataPointer::Transport { .. } => {
                slot.state = State::Waiting;
                self.waiting.push_back(index);
                self.grant(port);
            }
        }
        Ok(())
    }

    /// Requests data and begins reads, as far as the memory budget allows.
    pub(super) fn grant(&mut self, port: &mut Port<'_>) {
        while let Some(&index) = self.waiting.front() {
            let slot = self.slots.get(index);
            let length_bytes = slot.wanted;
            if let Work::Io(request) = slot.work
                && !request.takes_data()
            {
                if !port.has_budget(length_bytes as usize) {
                    return;
                }
                slot.state = State::Working;
                self.waiting.pop_front();
                self.execute_io(index, &request, Vec::new(), port);
                continue;
            }
            let granted = self.granted_bytes + length_bytes as usize;
            let is_own = self.granted_bytes == 0 || granted <= GRANTED_BYTES_MAX;
            if !is_own || !port.has_budget(length_bytes as usize) {
                return;
            }
            port.expect(length_bytes as usize);
            let request =
                ReadyToTransfer { cid: slot.cid, transfer_tag: index, offset_bytes: 0, length_bytes };
            slot.state = State::Receiving;
            slot.buffer = port.take_buffer(length_bytes as usize);
            slot.transfer = Some(WriteTransfer::new(request));
            self.granted_bytes = granted;
            self.waiting.pop_front();
            let mut out = [0; HEADER_BYTES_MAX];
            let length = self.encoder.r2t(&request, &mut out);
            port.output().head(&out[..length]);
        }
    }

    /// Handles the header of an H2CData PDU.
    fn host_data(&mut self, header: &DataHeader, port: &mut Port<'_>) -> Result<(), Close> {
        let accepted = match self.slots.receiving(header.transfer_tag).and_then(|slot| slot.transfer.as_mut())
        {
            Some(transfer) => transfer.accept(header),
            None => Err(WriteTransfer::unknown_tag()),
        };
        if let Err(fatal) = accepted {
            return Err(self.fatal(&fatal, port));
        }
        let start = header.offset_bytes as usize;
        let end = start + header.length_bytes as usize;
        self.incoming = Incoming::Slot { index: header.transfer_tag, start, end };
        Ok(())
    }

    /// Handles the end of a PDU's data.
    fn data_end(&mut self, index: u16, check: DataCheck, port: &mut Port<'_>) {
        let slot = self.slots.get(index);
        if check == DataCheck::Mismatch && slot.status.is_success() {
            slot.status = Status::TRANSIENT_TRANSPORT_ERROR;
        }
        match slot.transfer.take() {
            Some(transfer) if transfer.remaining_bytes() > 0 => {
                slot.transfer = Some(transfer);
                return;
            }
            Some(_) => self.granted_bytes -= slot.wanted as usize,
            None => {}
        }
        port.release(slot.buffer.len());
        let mut data = std::mem::take(&mut slot.buffer);
        if slot.skip > 0 {
            data.drain(..slot.skip as usize);
        }
        data.truncate(slot.wanted as usize);
        slot.state = State::Working;
        let (status, cid) = (slot.status, slot.cid);
        if !status.is_success() {
            port.give_back(data);
            self.log_error(cid, status, None);
            self.finish(index, 0, port);
        } else {
            match slot.work {
                Work::Io(request) => self.execute_io(index, &request, data, port),
                Work::Admin(entry) => {
                    if auth_command(&entry).is_some() {
                        self.send_message(index, &data, port);
                    } else {
                        self.execute_admin(index, &entry, &data, port);
                    }
                    port.give_back(data);
                }
                // These commands take no data.
                Work::Format { .. } | Work::Shutdown => {}
            }
        }
        if !self.waiting.is_empty() {
            self.grant(port);
        }
    }

    /// Ends the command of a slot with the slot's status.
    #[inline]
    fn finish(&mut self, index: u16, result: u64, port: &mut Port<'_>) {
        let slot = self.slots.get(index);
        let (cid, status) = (slot.cid, slot.status);
        self.slots.free(index);
        self.respond(cid, status, result, port);
    }

    /// Sends a response capsule. Capsules follow the data sent in the same turn: a host then reads many
    /// capsules at once, completes as many commands, and can send as many new ones together. All capsules do
    /// so, so their head pointers never run backwards.
    #[inline]
    fn respond(&mut self, cid: u16, status: Status, result: u64, port: &mut Port<'_>) {
        let sq_head = if self.flow_control { self.sq_head } else { 0 };
        let completion = Completion { result, sq_head, cid, status, ..Completion::default() };
        let mut out = [0; HEADER_BYTES_MAX];
        let length = self.encoder.response(&completion, &mut out);
        port.output().behind(&out[..length]);
    }

    /// Sends a command's data and its completion. The SUCCESS flag of the data replaces a response capsule
    /// only if the host has disabled flow control of the submission queue, as the flag carries no head
    /// pointer (TCP 3.3.2).
    #[inline]
    fn send(&mut self, cid: u16, data: Vec<u8>, port: &mut Port<'_>) {
        self.send_with(cid, data, Status::SUCCESS, 0, port);
    }

    /// Sends data like `send`, for a command that may have failed in part: `result` tells which part.
    #[inline]
    fn send_with(&mut self, cid: u16, data: Vec<u8>, status: Status, result: u64, port: &mut Port<'_>) {
        let success = !self.flow_control && status.is_success() && result == 0;
        let header =
            DataHeader { cid, length_bytes: data.len() as u32, last: true, success, ..DataHeader::default() };
        let mut out = [0; HEADER_BYTES_MAX];
        let length = self.encoder.c2h_data(&header, &mut out);
        port.output().head(&out[..length]);
        if self.encoder.data_digest() {
            let mut digest = DataDigest::default();
            digest.update(&data);
            port.output().data(data);
            port.output().head(&digest.bytes());
        } else {
            port.output().data(data);
        }
        if !success {
            self.respond(cid, status, result, port);
        }
    }

    /// Refuses a command.
    #[cold]
    fn fail(&mut self, entry: &SubmissionEntry, status: Status, result: u64, port: &mut Port<'_>) {
        self.note_error(entry.cid(), status, entry.opcode(), entry.nsid(), 0);
        self.respond(entry.cid(), status, result, port);
    }

    #[cold]
    fn log_error(&mut self, cid: u16, status: Status, request: Option<&Request>) {
        let (nsid, lba) = request.map_or((0, 0), |r| (r.volume.wrapping_add(1) as u32, r.lba));
        self.note_error(cid, status, request.map_or(0, |r| r.kind.opcode()), nsid, lba);
    }

    /// Adds an entry to the error log.
    fn note_error(&mut self, cid: u16, status: Status, opcode: u8, nsid: u32, lba: u64) {
        let (id, queue_id) = match self.role {
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
            subsystem.errors += 1;
        }
    }

    /// Part of a slot's buffer for the remaining data of the current PDU.
    fn landing_range(&self) -> Option<(u16, Range<usize>)> {
        let Incoming::Slot { index, end, .. } = self.incoming else { return None };
        let left = self.decoder.data_remaining_bytes() as usize;
        (left > 0).then_some((index, end - left..end))
    }

    /// Decodes until the input is used up or no new command should start.
    fn decode(&mut self, input: &mut &[u8], port: &mut Port<'_>) -> Result<(), Close> {
        loop {
            if self.incoming == Incoming::None && port.congested() {
                return Ok(());
            }
            match self.decoder.decode(input) {
                Ok(Some(event)) => self.event(event, port)?,
                Ok(None) => return Ok(()),
                Err(fatal) => return Err(self.fatal(&fatal, port)),
            }
        }
    }
}

impl Session for Connection {
    fn opened(&mut self, port: &mut Port<'_>) {
        self.opened_ns = port.now_ns();
    }

    fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_>) -> Result<(), Close> {
        let result = self.decode(input, port);
        self.ended(result, port)
    }

    fn landing(&mut self) -> Option<&mut [u8]> {
        let (index, range) = self.landing_range()?;
        self.slots.get(index).buffer.get_mut(range)
    }

    fn landed(&mut self, bytes: usize, port: &mut Port<'_>) -> Result<(), Close> {
        let Some((index, range)) = self.landing_range() else { return Ok(()) };
        port.came(bytes);
        // The bytes are already in place; the decoder only counts and digests them.
        let mut landed = &self.slots.get(index).buffer[range.start..range.start + bytes];
        let result = match self.decoder.decode(&mut landed) {
            Ok(_) => self.decode(&mut &[][..], port),
            Err(fatal) => Err(self.fatal(&fatal, port)),
        };
        self.ended(result, port)
    }

    fn has_turn(&mut self, port: &mut Port<'_>) -> Result<(), Close> {
        self.grant(port);
        Ok(())
    }

    fn completed(&mut self, token: u64, ended: Ended, port: &mut Port<'_>) {
        let index = token as u16;
        let slot = self.slots.get(index);
        slot.operations -= 1;
        if slot.status.is_success() {
            slot.status = io::status(ended.status, ended.opcode);
        }
        match (slot.state, &slot.work) {
            (State::Working, &Work::Io(request)) => self.io_ended(index, request, ended, port),
            (State::Working, Work::Format { .. }) => self.continue_format(index, port),
            (_, work) => {
                let (shutdown, answered) = (matches!(work, Work::Shutdown), slot.state == State::Orphan);
                port.give_back(ended.data);
                if slot.operations > 0 {
                    return;
                }
                slot.give_back(port);
                match self.role {
                    Role::Admin { controller } if shutdown => self.end_shutdown(index, controller),
                    _ if answered => self.slots.free(index),
                    _ => self.finish(index, 0, port),
                }
            }
        }
    }

    fn tick(&mut self, now_ns: u64, port: &mut Port<'_>) -> Result<(), Close> {
        let result = match self.role {
            Role::Unconnected if now_ns.saturating_sub(self.opened_ns) > CONNECT_TIMEOUT_NS => {
                Err(Close::Refused("no Connect came".to_owned()))
            }
            Role::Unconnected => Ok(()),
            _ if self.must_authenticate()
                && now_ns.saturating_sub(self.opened_ns) > AUTHENTICATION_TIMEOUT_NS =>
            {
                Err(Close::Refused(self.refused("not done in time")))
            }
            Role::Admin { controller } => self.tick_admin(controller, now_ns, port),
            Role::Io { controller, queue } => {
                self.tick_io(controller, queue, now_ns, port);
                Ok(())
            }
        };
        self.ended(result, port)
    }

    fn closed(&mut self, port: &mut Port<'_>) {
        match self.role {
            Role::Unconnected => {}
            Role::Admin { controller } => self.end_controller(controller, port),
            Role::Io { controller, queue } => self.end_queue(controller, queue, port),
        }
    }
}

/// Data pointer of a command that moves data.
#[inline]
fn pointer_of(entry: &SubmissionEntry) -> Result<DataPointer, Status> {
    if !matches!(entry.psdt(), 1 | 2) {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    entry.sgl().pointer()
}

/// Checks that the host takes `bytes` of data.
#[inline]
fn room_for(entry: &SubmissionEntry, bytes: u32) -> Result<(), Status> {
    match pointer_of(entry)? {
        DataPointer::Transport { length_bytes } if length_bytes >= bytes => Ok(()),
        DataPointer::Transport { .. } => Err(Status::SGL_DATA_LENGTH_INVALID.do_not_retry()),
        DataPointer::InCapsule { .. } => Err(Status::SGL_TYPE_INVALID.do_not_retry()),
    }
}
