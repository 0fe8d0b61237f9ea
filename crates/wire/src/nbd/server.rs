//! The server's end of the handshake.
//!
//! ```text
//!   ClientFlags --> OptionHeader --> OptionBody --> event --+
//!                        ^   \ too long                     |
//!                        |    `-----> Skip -----> refusal --+   until GO or EXPORT_NAME is accepted: the caller
//!                        +----------------------------------+   goes on with a RequestDecoder on the same input
//! ```

use super::gather::{Fields, Fixed, fill, take};
use super::{
    NbdError, OPTION_BYTES_MAX, OPTION_SKIP_MAX, OptionKind, OptionRequest, ReplyError, handshake_flag, magic,
};

/// The greeting: fixed newstyle; the 124 zeros after EXPORT_NAME may be omitted.
pub fn encode_greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&magic::GREETING.to_be_bytes());
    bytes[8..16].copy_from_slice(&magic::OPTION.to_be_bytes());
    let flags = (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES) as u16;
    bytes[16..].copy_from_slice(&flags.to_be_bytes());
    bytes
}

/// Appends the answer to an accepted EXPORT_NAME.
pub fn encode_export_name_reply(size_bytes: u64, flags: u16, no_zeroes: bool, out: &mut Vec<u8>) {
    out.extend(size_bytes.to_be_bytes());
    out.extend(flags.to_be_bytes());
    if !no_zeroes {
        out.extend([0; 124]);
    }
}

/// An option that the decoder itself refuses; the caller sends the error reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionRefusal {
    /// The raw option.
    pub option: u32,
    /// The error to answer with.
    pub error: ReplyError,
}

/// Message of a client during the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerHandshakeEvent<'a> {
    /// The client's flags.
    ClientFlags {
        /// True if the client knows fixed newstyle: it understands replies to options.
        fixed: bool,
        /// True to omit the zeros after EXPORT_NAME.
        no_zeroes: bool,
    },
    /// An option.
    Option(OptionRequest<'a>),
    /// An option to be refused.
    Refused(OptionRefusal),
}

#[derive(Clone, Copy, Debug)]
enum State {
    ClientFlags,
    Header,
    Body { option: u32, length: u32 },
    Skip { option: u32, left: u32, error: ReplyError },
    Failed(NbdError),
}

/// Decoder of the handshake at the server's end.
#[derive(Clone, Debug)]
pub struct ServerHandshake {
    state: State,
    flags: Fixed<4>,
    header: Fixed<16>,
    body: Vec<u8>,
}

impl Default for ServerHandshake {
    fn default() -> Self {
        Self { state: State::ClientFlags, flags: Fixed::new(), header: Fixed::new(), body: Vec::new() }
    }
}

impl ServerHandshake {
    /// State after STARTTLS: options continue inside TLS, the client's flags remain.
    pub fn after_tls() -> Self {
        Self { state: State::Header, ..Self::default() }
    }

    /// Takes bytes off the front of `input` up to the next event; `None` when it is used up.
    ///
    /// # Errors
    /// Error that ends the connection; every later call returns it again.
    pub fn decode(&mut self, input: &mut &[u8]) -> Result<Option<ServerHandshakeEvent<'_>>, NbdError> {
        match self.advance(input) {
            Ok(Some(Step::Flags { fixed, no_zeroes })) => {
                Ok(Some(ServerHandshakeEvent::ClientFlags { fixed, no_zeroes }))
            }
            Ok(Some(Step::Refused(refusal))) => Ok(Some(ServerHandshakeEvent::Refused(refusal))),
            Ok(Some(Step::Body(option))) => self.option(option).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(self.fail(error)),
        }
    }

    fn fail(&mut self, error: NbdError) -> NbdError {
        self.state = State::Failed(error);
        error
    }

    fn advance(&mut self, input: &mut &[u8]) -> Result<Option<Step>, NbdError> {
        loop {
            match self.state {
                State::Failed(error) => return Err(error),
                State::ClientFlags => {
                    let Some(raw) = self.flags.next(input) else { return Ok(None) };
                    self.state = State::Header;
                    return parse_flags(u32::from_be_bytes(raw)).map(Some);
                }
                State::Header => {
                    let Some(raw) = self.header.next(input) else { return Ok(None) };
                    self.state = parse_header(&raw)?;
                    self.body.clear();
                }
                State::Body { option, length } => {
                    if !fill(&mut self.body, length as usize, input) {
                        return Ok(None);
                    }
                    self.state = State::Header;
                    return Ok(Some(Step::Body(option)));
                }
                State::Skip { option, left, error } => {
                    let left = left - take(input, left as usize).len() as u32;
                    self.state = State::Skip { option, left, error };
                    if left > 0 {
                        return Ok(None);
                    }
                    self.state = State::Header;
                    return Ok(Some(Step::Refused(OptionRefusal { option, error })));
                }
            }
        }
    }

    fn option(&mut self, option: u32) -> Result<ServerHandshakeEvent<'_>, NbdError> {
        let kind = OptionKind::from_raw(option);
        let parsed = match kind {
            Some(kind) => OptionRequest::parse(kind, &self.body),
            None => Err(ReplyError::Unsupported),
        };
        match parsed {
            Ok(request) => Ok(ServerHandshakeEvent::Option(request)),
            Err(_) if kind == Some(OptionKind::ExportName) => {
                self.state = State::Failed(NbdError::ExportName);
                Err(NbdError::ExportName)
            }
            Err(error) => Ok(ServerHandshakeEvent::Refused(OptionRefusal { option, error })),
        }
    }
}

enum Step {
    Flags { fixed: bool, no_zeroes: bool },
    Body(u32),
    Refused(OptionRefusal),
}

fn parse_flags(flags: u32) -> Result<Step, NbdError> {
    if flags & !(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES) != 0 {
        return Err(NbdError::ClientFlags(flags));
    }
    Ok(Step::Flags {
        fixed: flags & handshake_flag::FIXED_NEWSTYLE != 0,
        no_zeroes: flags & handshake_flag::NO_ZEROES != 0,
    })
}

fn parse_header(raw: &[u8; 16]) -> Result<State, NbdError> {
    let mut fields = Fields(raw);
    let (Some(value), Some(option), Some(length)) = (fields.u64(), fields.u32(), fields.u32()) else {
        return Err(NbdError::Malformed("option"));
    };
    if value != magic::OPTION {
        return Err(NbdError::Magic { what: "option", value });
    }
    if length > OPTION_SKIP_MAX {
        let (length_bytes, max_bytes) = (u64::from(length), u64::from(OPTION_SKIP_MAX));
        return Err(NbdError::TooLong { what: "option", length_bytes, max_bytes });
    }
    let kind = OptionKind::from_raw(option);
    if length <= OPTION_BYTES_MAX {
        return Ok(State::Body { option, length });
    }
    if kind == Some(OptionKind::ExportName) {
        return Err(NbdError::ExportName);
    }
    let unknown = kind.is_none_or(|kind| kind == OptionKind::ExtendedHeaders);
    let error = if unknown { ReplyError::Unsupported } else { ReplyError::TooBig };
    Ok(State::Skip { option, left: length, error })
}
