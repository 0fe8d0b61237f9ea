//! NBD after the handshake: turns requests into operations and completions into replies.
//!
//! NO_HOLE needs no action: flash remaps every write anyway, and the drive always reserves its full capacity.

use super::handshake::{ALLOCATION_ID, Chosen};
use super::{PAYLOAD_BYTES_MAX, refused};
use crate::connection::Close;
use crate::operation::Operation;
use crate::session::Port;
use pellucid_flash::{Completion, Lba, Opcode, Status};
use pellucid_wire::nbd::{
    Command, Errno, Export, Extent, Request, RequestDecoder, RequestEvent, allocation, command_flag,
    encode_block_status, encode_error_chunk, encode_none, encode_offset_data, encode_simple_reply,
};

/// Maximum number of extents in one reply to block status; a client asks again for the rest.
const EXTENTS_MAX: usize = 1024;

/// Maximum number of lookups of mapping units for block status in one turn, as they are done at once. A
/// longer reply is cut, as the protocol allows, and later requests wait for the next turn. One lookup may
/// cover many units.
const LOOKS_MAX: u64 = 1 << 16;

/// A write whose payload is being received.
struct Incoming {
    request: Request,
    /// Payload; empty for a refused request, whose payload is dropped.
    buffer: Vec<u8>,
    received: usize,
    refused: Option<Errno>,
}

/// A request in the drive.
#[derive(Clone, Copy, Default)]
struct InDrive {
    cookie: u64,
    offset_bytes: u64,
    read: bool,
}

/// The state of transmission.
pub(super) struct Transmission {
    chosen: Chosen,
    sector_shift: u32,
    decoder: RequestDecoder,
    incoming: Option<Incoming>,
    /// Request that waits for memory budget; no input is taken before it.
    waiting: Option<Request>,
    in_drive: Vec<InDrive>,
    idle: Vec<u32>,
    /// Lookups for block status in this turn.
    looks: u64,
}

impl Transmission {
    pub(super) fn new(chosen: Chosen) -> Transmission {
        Transmission {
            chosen,
            sector_shift: chosen.sector_bytes.trailing_zeros(),
            decoder: RequestDecoder::new(PAYLOAD_BYTES_MAX),
            incoming: None,
            waiting: None,
            in_drive: Vec::new(),
            idle: Vec::new(),
            looks: 0,
        }
    }

    pub(super) fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_>) -> Result<(), Close> {
        self.looks = 0;
        loop {
            let enough = self.looks >= LOOKS_MAX;
            if self.incoming.is_none() && (input.is_empty() || enough || self.waits() || port.congested()) {
                return Ok(());
            }
            match self.decoder.decode(input).map_err(refused)? {
                None => return Ok(()),
                Some(RequestEvent::Request(request)) => self.begin(request, port)?,
                Some(RequestEvent::Data { offset_bytes, bytes }) => {
                    if let Some(incoming) = self.incoming.as_mut().filter(|i| i.refused.is_none()) {
                        port.came(bytes.len());
                        let at = offset_bytes as usize;
                        incoming.buffer[at..at + bytes.len()].copy_from_slice(bytes);
                        incoming.received = at + bytes.len();
                    }
                }
                Some(RequestEvent::End) => self.write(port),
            }
        }
    }

    pub(super) fn landing(&mut self) -> Option<&mut [u8]> {
        let incoming = self.incoming.as_mut()?;
        let missing = &mut incoming.buffer[incoming.received..];
        (!missing.is_empty()).then_some(missing)
    }

    pub(super) fn landed(&mut self, bytes: usize, port: &mut Port<'_>) -> Result<(), Close> {
        let Some(incoming) = &mut self.incoming else { return Ok(()) };
        let mut landed = &incoming.buffer[incoming.received..incoming.received + bytes];
        let mut ended = false;
        while let Some(event) = self.decoder.decode(&mut landed).map_err(refused)? {
            ended = event == RequestEvent::End;
            if ended {
                break;
            }
        }
        incoming.received += bytes;
        port.came(bytes);
        if ended {
            self.write(port);
        }
        Ok(())
    }

    /// Returns true if a request waits for memory budget.
    pub(super) fn waits(&self) -> bool {
        self.waiting.is_some()
    }

    /// Continues the waiting request, as its memory budget is available.
    pub(super) fn has_turn(&mut self, port: &mut Port<'_>) -> Result<(), Close> {
        self.waiting.take().map_or(Ok(()), |request| self.begin(request, port))
    }

    fn begin(&mut self, request: Request, port: &mut Port<'_>) -> Result<(), Close> {
        let checked = self.check(&request);
        if matches!(checked, Ok(Command::Read | Command::Write))
            && !port.has_budget(request.length_bytes as usize)
        {
            self.waiting = Some(request);
            return Ok(());
        }
        if request.command == Command::Write.raw() && request.length_bytes > 0 {
            let refused = checked.err();
            let length = if refused.is_none() { request.length_bytes as usize } else { 0 };
            port.expect(length);
            let buffer = port.take_buffer(length);
            self.incoming = Some(Incoming { request, buffer, received: 0, refused });
            return Ok(());
        }
        let length = request.length_bytes;
        match checked {
            Err(error) => self.fail(request.cookie, error, port),
            Ok(Command::Disconnect) => return Err(Close::Finished),
            Ok(Command::Flush) => self.submit(&request, Opcode::Flush, Vec::new(), port),
            Ok(Command::BlockStatus) => self.block_status(&request, port),
            // Nothing to read, write or discard.
            Ok(Command::Read) if length == 0 && self.chosen.export.structured => {
                port.output().head(&encode_none(request.cookie));
            }
            Ok(_) if length == 0 => self.succeed(request.cookie, port),
            Ok(Command::Read) => {
                let buffer = port.take_buffer(length as usize);
                self.submit(&request, Opcode::Read, buffer, port);
            }
            Ok(Command::Trim) => self.submit(&request, Opcode::Trim, Vec::new(), port),
            Ok(Command::WriteZeroes) => self.submit(&request, Opcode::WriteZeroes, Vec::new(), port),
            Ok(Command::Write | Command::Cache | Command::Resize) => {
                self.fail(request.cookie, Errno::Invalid, port);
            }
        }
        Ok(())
    }

    /// Checks a request against the protocol, and for whole sectors, as announced.
    fn check(&self, request: &Request) -> Result<Command, Errno> {
        let command = request.check(&self.chosen.export)?;
        let mask = (1u64 << self.sector_shift) - 1;
        let placed = !matches!(command, Command::Flush | Command::Disconnect);
        if placed && (request.offset_bytes | u64::from(request.length_bytes)) & mask != 0 {
            return Err(Errno::Invalid);
        }
        if command == Command::Read && request.length_bytes > PAYLOAD_BYTES_MAX {
            return Err(Errno::Overflow);
        }
        Ok(command)
    }

    /// Submits a write whose payload is complete.
    fn write(&mut self, port: &mut Port<'_>) {
        let Some(Incoming { request, buffer, refused, .. }) = self.incoming.take() else { return };
        port.release(buffer.len());
        match refused {
            Some(error) => self.fail(request.cookie, error, port),
            None => self.submit(&request, Opcode::Write, buffer, port),
        }
    }

    fn submit(&mut self, request: &Request, opcode: Opcode, data: Vec<u8>, port: &mut Port<'_>) {
        let in_drive = InDrive {
            cookie: request.cookie,
            offset_bytes: request.offset_bytes,
            read: opcode == Opcode::Read,
        };
        let placed = opcode != Opcode::Flush;
        let lba = Lba(if placed { request.offset_bytes >> self.sector_shift } else { 0 });
        let sectors = if placed { request.length_bytes >> self.sector_shift } else { 0 };
        let fua = request.force_unit_access() && opcode != Opcode::Flush;
        let operation = Operation { fua, ..Operation::new(opcode, lba, sectors, data) };
        let token = self.store(in_drive);
        port.submit(self.chosen.namespace, token, operation);
    }

    fn store(&mut self, in_drive: InDrive) -> u64 {
        match self.idle.pop() {
            Some(at) => {
                self.in_drive[at as usize] = in_drive;
                at.into()
            }
            None => {
                self.in_drive.push(in_drive);
                self.in_drive.len() as u64 - 1
            }
        }
    }

    pub(super) fn completed(&mut self, token: u64, completion: Completion, port: &mut Port<'_>) {
        let InDrive { cookie, offset_bytes, read } = self.in_drive[token as usize];
        self.idle.push(token as u32);
        match errno(completion.status) {
            Some(error) => {
                port.give_back(completion.data);
                self.fail(cookie, error, port);
            }
            None if read => {
                let length = completion.data.len() as u32;
                let output = port.output();
                if self.chosen.export.structured {
                    output.head(&encode_offset_data(cookie, true, offset_bytes, length));
                } else {
                    output.head(&encode_simple_reply(cookie, None));
                }
                output.data(completion.data);
            }
            None => {
                port.give_back(completion.data);
                self.succeed(cookie, port);
            }
        }
    }

    /// Sends a simple reply. Structured replies are required only for reads and block status; clients read a
    /// simple reply with one system call fewer (NBD protocol, "Structured reply chunk message").
    fn succeed(&self, cookie: u64, port: &mut Port<'_>) {
        port.output().head(&encode_simple_reply(cookie, None));
    }

    fn fail(&self, cookie: u64, error: Errno, port: &mut Port<'_>) {
        match self.chosen.export.structured {
            true => port.output().encode(|out| encode_error_chunk(cookie, true, error, None, "", out)),
            false => port.output().head(&encode_simple_reply(cookie, Some(error))),
        }
    }

    fn block_status(&mut self, request: &Request, port: &mut Port<'_>) {
        let Export { structured, .. } = self.chosen.export;
        debug_assert!(structured, "checked with the request");
        let most = if request.flags & command_flag::REQ_ONE != 0 { 1 } else { EXTENTS_MAX };
        let mut left = u64::from(request.length_bytes) >> self.sector_shift;
        let mut at = request.offset_bytes >> self.sector_shift;
        let mut looks = 0;
        let mut extents = Vec::new();
        while left > 0 && extents.len() < most && looks < LOOKS_MAX {
            let held = port.held(self.chosen.namespace, Lba(at), left, LOOKS_MAX - looks);
            let flags = if held.holds { 0 } else { allocation::HOLE | allocation::ZERO };
            let sectors = held.until - at;
            extents.push(Extent { length_bytes: (sectors << self.sector_shift) as u32, flags });
            (at, left) = (at + sectors, left - sectors);
            looks += held.looks;
        }
        self.looks += looks;
        let cookie = request.cookie;
        port.output().encode(|out| encode_block_status(cookie, true, ALLOCATION_ID, &extents, out));
    }
}

/// NBD error for the status of an operation; `None`: success.
pub fn errno(status: Status) -> Option<Errno> {
    match status {
        Status::Success => None,
        Status::LbaOutOfRange | Status::InvalidField => Some(Errno::Invalid),
        Status::ReadOnly => Some(Errno::NotPermitted),
        Status::InvalidOpcode => Some(Errno::NotSupported),
        Status::UnrecoveredRead | Status::WriteFault | Status::PowerLoss => Some(Errno::Io),
        // Statuses of interfaces that NBD does not export.
        _ => Some(Errno::Io),
    }
}
