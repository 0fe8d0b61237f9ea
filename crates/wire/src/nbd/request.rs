//! Requests of the transmission phase (NBD "Request message"): the server's decoder, the client's encoder, and the
//! check of a request against its export.
//!
//! ```text
//!   Header --> Request event --> (WRITE with data) Data events --> End event --> Header
//! ```

use super::gather::{Fields, Fixed, take};
use super::{Errno, NbdError, magic, transmission_flag};
use crate::layout::wire_enum;

wire_enum! {
    /// Commands (NBD "Request types").
    pub enum Command: u16 {
        /// Read.
        Read = 0,
        /// Write; its payload follows.
        Write = 1,
        /// Disconnect; not answered.
        Disconnect = 2,
        /// Flush.
        Flush = 3,
        /// Trim: the content may be lost.
        Trim = 4,
        /// Read ahead.
        Cache = 5,
        /// Write zeros.
        WriteZeroes = 6,
        /// Block status in the chosen metadata contexts.
        BlockStatus = 7,
        /// Resize; not served.
        Resize = 8,
    }
}

/// Flags of a request (NBD "Command flags").
pub mod command_flag {
    /// On stable media before the reply.
    pub const FUA: u16 = 1 << 0;
    /// WRITE_ZEROES: allocate.
    pub const NO_HOLE: u16 = 1 << 1;
    /// READ: in one piece.
    pub const DF: u16 = 1 << 2;
    /// BLOCK_STATUS: one extent only.
    pub const REQ_ONE: u16 = 1 << 3;
    /// WRITE_ZEROES: fail if it is not fast.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// A request, not yet checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Request {
    /// Bits of [`command_flag`].
    pub flags: u16,
    /// Raw command.
    pub command: u16,
    /// The client's name for this request; returned in the reply.
    pub cookie: u64,
    /// Start of the range.
    pub offset_bytes: u64,
    /// Length of the range.
    pub length_bytes: u32,
}

/// Properties of an export, and the features that this connection agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    /// Size.
    pub size_bytes: u64,
    /// Bits of [`transmission_flag`].
    pub flags: u16,
    /// Structured replies were agreed on.
    pub structured: bool,
    /// At least one metadata context was chosen.
    pub contexts: bool,
}

impl Request {
    /// Encoded length.
    pub const BYTES: usize = 28;

    /// The message, without payload.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&magic::REQUEST.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset_bytes.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length_bytes.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, NbdError> {
        let mut fields = Fields(bytes);
        let value = fields.u32().unwrap_or(0);
        if value != magic::REQUEST {
            return Err(NbdError::Magic { what: "request", value: u64::from(value) });
        }
        let (Some(flags), Some(command), Some(cookie), Some(offset_bytes), Some(length_bytes)) =
            (fields.u16(), fields.u16(), fields.u64(), fields.u64(), fields.u32())
        else {
            return Err(NbdError::Malformed("request"));
        };
        Ok(Self { flags, command, cookie, offset_bytes, length_bytes })
    }

    /// Returns whether force unit access is asked for.
    pub fn force_unit_access(&self) -> bool {
        self.flags & command_flag::FUA != 0
    }

    /// The typed command, if the export serves it with these flags on this range.
    ///
    /// # Errors
    /// The error to answer with: `NotPermitted` for a change of a read-only export, `NoSpace` for a write past the
    /// end, `Invalid` for the rest (NBD "Request types").
    pub fn check(&self, export: &Export) -> Result<Command, Errno> {
        let command = Command::from_raw(self.command).ok_or(Errno::Invalid)?;
        let has = |flag: u16| export.flags & flag != 0;
        let served = match command {
            Command::Read | Command::Write | Command::Disconnect => true,
            Command::Flush => has(transmission_flag::SEND_FLUSH),
            Command::Trim => has(transmission_flag::SEND_TRIM),
            Command::Cache => has(transmission_flag::SEND_CACHE),
            Command::WriteZeroes => has(transmission_flag::SEND_WRITE_ZEROES),
            Command::BlockStatus => export.structured && export.contexts,
            Command::Resize => false,
        };
        if !served || self.flags & !allowed_flags(command, export) != 0 {
            return Err(Errno::Invalid);
        }
        let changes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes);
        if changes && has(transmission_flag::READ_ONLY) {
            return Err(Errno::NotPermitted);
        }
        if matches!(command, Command::Flush | Command::Disconnect) {
            return Ok(command);
        }
        if command == Command::BlockStatus && self.length_bytes == 0 {
            return Err(Errno::Invalid);
        }
        match self.offset_bytes.checked_add(u64::from(self.length_bytes)) {
            Some(end) if end <= export.size_bytes => Ok(command),
            _ if matches!(command, Command::Write | Command::WriteZeroes) => Err(Errno::NoSpace),
            _ => Err(Errno::Invalid),
        }
    }
}

/// FUA is allowed with any command once offered; each other flag belongs to one command.
fn allowed_flags(command: Command, export: &Export) -> u16 {
    let offered = |offer: u16, flag: u16| if export.flags & offer != 0 { flag } else { 0 };
    let fua = offered(transmission_flag::SEND_FUA, command_flag::FUA);
    fua | match command {
        Command::Read if export.structured => offered(transmission_flag::SEND_DF, command_flag::DF),
        Command::WriteZeroes => {
            command_flag::NO_HOLE | offered(transmission_flag::SEND_FAST_ZERO, command_flag::FAST_ZERO)
        }
        Command::BlockStatus => command_flag::REQ_ONE,
        _ => 0,
    }
}

/// Message of a client during transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEvent<'a> {
    /// A request; a WRITE of more than 0 bytes is followed by `Data` and `End`.
    Request(Request),
    /// The next payload of the WRITE; never empty.
    Data {
        /// Offset in the payload.
        offset_bytes: u32,
        /// A part of the caller's input.
        bytes: &'a [u8],
    },
    /// The payload is complete.
    End,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Header,
    Payload { offset: u32, total: u32 },
    Failed(NbdError),
}

/// Decoder of requests at the server's end.
#[derive(Clone, Debug)]
pub struct RequestDecoder {
    state: State,
    header: Fixed<{ Request::BYTES }>,
    payload_max_bytes: u32,
}

impl RequestDecoder {
    /// A decoder that takes payloads up to the given length; a longer one ends the connection.
    pub fn new(payload_max_bytes: u32) -> Self {
        Self { state: State::Header, header: Fixed::new(), payload_max_bytes }
    }

    /// Payload still to come: a caller may read that many bytes straight into their destination, and pass the destination as input.
    pub fn payload_remaining_bytes(&self) -> u32 {
        match self.state {
            State::Payload { offset, total } => total - offset,
            _ => 0,
        }
    }

    /// Takes bytes off the front of `input` up to the next event; `None` when it is used up. An `End` can come
    /// without further input, so call until `None`.
    ///
    /// # Errors
    /// Error that ends the connection; every later call returns it again.
    #[inline]
    pub fn decode<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<RequestEvent<'a>>, NbdError> {
        match &mut self.state {
            State::Header => {
                let Some(raw) = self.header.next(input) else { return Ok(None) };
                match self.begin(&raw) {
                    Ok(request) => Ok(Some(RequestEvent::Request(request))),
                    Err(error) => {
                        self.state = State::Failed(error);
                        Err(error)
                    }
                }
            }
            State::Payload { offset, total } if *offset < *total => {
                let offset_bytes = *offset;
                let bytes = take(input, (*total - *offset) as usize);
                *offset += bytes.len() as u32;
                Ok((!bytes.is_empty()).then_some(RequestEvent::Data { offset_bytes, bytes }))
            }
            State::Payload { .. } => {
                self.state = State::Header;
                Ok(Some(RequestEvent::End))
            }
            State::Failed(error) => Err(*error),
        }
    }

    fn begin(&mut self, raw: &[u8; Request::BYTES]) -> Result<Request, NbdError> {
        let request = Request::decode(raw)?;
        if request.command == Command::Write.raw() && request.length_bytes > 0 {
            if request.length_bytes > self.payload_max_bytes {
                return Err(NbdError::TooLong {
                    what: "payload of a write",
                    length_bytes: u64::from(request.length_bytes),
                    max_bytes: u64::from(self.payload_max_bytes),
                });
            }
            self.state = State::Payload { offset: 0, total: request.length_bytes };
        }
        Ok(request)
    }
}
