//! The client's end of the handshake: greeting, then replies to options, or the answer to EXPORT_NAME.

use super::gather::{Fields, Fixed, fill};
use super::{NbdError, OPTION_BYTES_MAX, OptionKind, OptionReply, handshake_flag, magic};

/// The client's flags: fixed newstyle, and whether the zeros after EXPORT_NAME may be omitted.
pub fn encode_client_flags(no_zeroes: bool) -> [u8; 4] {
    let zeroes = if no_zeroes { handshake_flag::NO_ZEROES } else { 0 };
    (handshake_flag::FIXED_NEWSTYLE | zeroes).to_be_bytes()
}

/// Appends an option with its content.
pub fn encode_option(option: OptionKind, data: &[u8], out: &mut Vec<u8>) {
    out.extend(magic::OPTION.to_be_bytes());
    out.extend(option.raw().to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

/// Message of a server during the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientHandshakeEvent<'a> {
    /// The greeting.
    Greeting {
        /// True if the server can omit the zeros after EXPORT_NAME.
        no_zeroes: bool,
    },
    /// A reply to an option.
    Reply {
        /// The raw option it answers.
        option: u32,
        /// The reply.
        reply: OptionReply<'a>,
    },
    /// The answer to EXPORT_NAME; transmission begins.
    Export {
        /// Size of the export.
        size_bytes: u64,
        /// Bits of [`super::transmission_flag`].
        flags: u16,
    },
}

#[derive(Clone, Copy, Debug)]
enum State {
    Greeting,
    ReplyHeader,
    ReplyBody { option: u32, kind: u32, length: u32 },
    Export { length: usize },
    Failed(NbdError),
}

/// Decoder of the handshake at the client's end.
#[derive(Clone, Debug)]
pub struct ClientHandshake {
    state: State,
    greeting: Fixed<18>,
    header: Fixed<20>,
    body: Vec<u8>,
}

impl Default for ClientHandshake {
    fn default() -> Self {
        Self { state: State::Greeting, greeting: Fixed::new(), header: Fixed::new(), body: Vec::new() }
    }
}

impl ClientHandshake {
    /// Expects the answer to EXPORT_NAME, which has no reply header, only sizes and (unless agreed otherwise) zeros.
    pub fn expect_export(&mut self, no_zeroes: bool) {
        self.body.clear();
        self.state = State::Export { length: if no_zeroes { 10 } else { 134 } };
    }

    /// Takes bytes off the front of `input` up to the next event; `None` when it is used up.
    ///
    /// # Errors
    /// Error that ends the connection; every later call returns it again.
    pub fn decode(&mut self, input: &mut &[u8]) -> Result<Option<ClientHandshakeEvent<'_>>, NbdError> {
        loop {
            match self.state {
                State::Failed(error) => return Err(error),
                State::Greeting => {
                    let Some(raw) = self.greeting.next(input) else { return Ok(None) };
                    self.state = State::ReplyHeader;
                    return parse_greeting(&raw)
                        .map(Some)
                        .inspect_err(|&error| self.state = State::Failed(error));
                }
                State::ReplyHeader => {
                    let Some(raw) = self.header.next(input) else { return Ok(None) };
                    self.state = parse_reply_header(&raw).unwrap_or_else(State::Failed);
                    self.body.clear();
                }
                State::ReplyBody { option, kind, length } => {
                    if !fill(&mut self.body, length as usize, input) {
                        return Ok(None);
                    }
                    self.state = State::ReplyHeader;
                    let Some(reply) = OptionReply::parse(kind, &self.body) else {
                        let error = NbdError::Malformed("option reply");
                        self.state = State::Failed(error);
                        return Err(error);
                    };
                    return Ok(Some(ClientHandshakeEvent::Reply { option, reply }));
                }
                State::Export { length } => {
                    if !fill(&mut self.body, length, input) {
                        return Ok(None);
                    }
                    self.state = State::ReplyHeader;
                    let mut fields = Fields(&self.body);
                    let (Some(size_bytes), Some(flags)) = (fields.u64(), fields.u16()) else {
                        return Err(NbdError::Malformed("export"));
                    };
                    return Ok(Some(ClientHandshakeEvent::Export { size_bytes, flags }));
                }
            }
        }
    }
}

fn parse_greeting(raw: &[u8; 18]) -> Result<ClientHandshakeEvent<'static>, NbdError> {
    let mut fields = Fields(raw);
    for expected in [magic::GREETING, magic::OPTION] {
        let value = fields.u64().unwrap_or(0);
        if value != expected {
            return Err(NbdError::Magic { what: "greeting", value });
        }
    }
    let flags = u32::from(fields.u16().unwrap_or(0));
    if flags & handshake_flag::FIXED_NEWSTYLE == 0 {
        return Err(NbdError::Malformed("greeting without fixed newstyle"));
    }
    Ok(ClientHandshakeEvent::Greeting { no_zeroes: flags & handshake_flag::NO_ZEROES != 0 })
}

fn parse_reply_header(raw: &[u8; 20]) -> Result<State, NbdError> {
    let mut fields = Fields(raw);
    let value = fields.u64().unwrap_or(0);
    if value != magic::OPTION_REPLY {
        return Err(NbdError::Magic { what: "option reply", value });
    }
    let (Some(option), Some(kind), Some(length)) = (fields.u32(), fields.u32(), fields.u32()) else {
        return Err(NbdError::Malformed("option reply"));
    };
    if length > OPTION_BYTES_MAX {
        let (length_bytes, max_bytes) = (u64::from(length), u64::from(OPTION_BYTES_MAX));
        return Err(NbdError::TooLong { what: "option reply", length_bytes, max_bytes });
    }
    Ok(State::ReplyBody { option, kind, length })
}
