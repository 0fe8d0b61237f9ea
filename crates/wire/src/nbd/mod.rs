//! NBD, fixed newstyle, with structured replies. Source: the NBD protocol document of the NetworkBlockDevice project
//! ("NBD", doc/proto.md). All integers are big-endian.
//!
//! ```text
//!   client                                   server
//!     | <------------------------------ greeting |
//!     | flags ---------------------------------> |
//!     | option ------------------------------->  |  LIST, STRUCTURED_REPLY, SET_META_CONTEXT, INFO, ...
//!     | <-------------------- replies, then ACK  |
//!     | GO or EXPORT_NAME -------------------->  |
//!     | <---------- information, ACK (or sizes)  |
//!     |~~~~~~~~~~~~~~ transmission ~~~~~~~~~~~~~~|
//!     | request [payload] -------------------->  |  many at once, answered in any order
//!     | <---- simple reply [data], or chunks     |
//!     | DISC --------------------------------->  |
//! ```
//!
//! Handshake messages are rare and small: they are gathered in one bounded buffer. Payloads of transmission are never
//! buffered. Extended headers are refused (`NBD_REP_ERR_UNSUP`).

mod client;
mod gather;
mod option;
mod reply;
mod request;
mod server;

pub use client::{ClientHandshake, ClientHandshakeEvent, encode_client_flags, encode_option};
pub use option::{
    Info, InfoKind, InfoRequest, MetaContextRequest, OptionKind, OptionReply, OptionRequest, ReplyError,
};
pub use reply::{
    Chunk, ChunkKind, Extent, ReplyDecoder, ReplyEvent, encode_block_status, encode_error_chunk, encode_none,
    encode_offset_data, encode_offset_hole, encode_simple_reply,
};
pub use request::{Command, Export, Request, RequestDecoder, RequestEvent, command_flag};
pub use server::{
    OptionRefusal, ServerHandshake, ServerHandshakeEvent, encode_export_name_reply, encode_greeting,
};

use crate::layout::wire_enum;

/// Longest string of the protocol, in bytes (NBD "Values, string lengths").
pub const STRING_BYTES_MAX: usize = 4096;

/// Longest option or option reply that is buffered; a longer option is skipped and rejected as too big.
pub const OPTION_BYTES_MAX: u32 = 16 << 10;

/// An option longer than this ends the connection.
pub const OPTION_SKIP_MAX: u32 = 1 << 20;

/// Longest structured reply chunk, without data, that a client accepts.
pub const CHUNK_BYTES_MAX: u32 = 64 << 10;

/// Flags of an export, sent with its size (NBD "Transmission flags").
pub mod transmission_flag {
    /// The field is valid; always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// No writes.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is served.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA is served.
    pub const SEND_FUA: u16 = 1 << 3;
    /// TRIM is served.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is served.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The DF flag of READ is served.
    pub const SEND_DF: u16 = 1 << 7;
    /// Connections share one cache: a flush on one covers writes answered on all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is served.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// The FAST_ZERO flag is served.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Bits of the context `base:allocation` in block status (NBD "The base: namespace").
pub mod allocation {
    /// Not allocated.
    pub const HOLE: u32 = 1 << 0;
    /// Reads as zeros.
    pub const ZERO: u32 = 1 << 1;
}

wire_enum! {
    /// Error values of replies (NBD "Error values").
    pub enum Errno: u32 {
        /// Operation not permitted: a write to a read-only export.
        NotPermitted = 1,
        /// Input or output error.
        Io = 5,
        /// Out of memory.
        NoMemory = 12,
        /// Invalid argument.
        Invalid = 22,
        /// No space left; also returned for a write past the end.
        NoSpace = 28,
        /// Value too large: a DF read that does not fit one chunk.
        Overflow = 75,
        /// Not supported: FAST_ZERO that would not be fast.
        NotSupported = 95,
        /// The server shuts down.
        Shutdown = 108,
    }
}

/// Reason why a connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NbdError {
    /// A message begins with the wrong magic number.
    #[error("{what}: wrong magic number {value:#x}")]
    Magic {
        /// Wrong field.
        what: &'static str,
        /// Received value.
        value: u64,
    },
    /// The client set handshake flags that the server did not offer.
    #[error("client flags {0:#x}: only bits 0 and 1 are allowed")]
    ClientFlags(u32),
    /// A length exceeds its limit.
    #[error("{what}: {length_bytes} bytes announced, at most {max_bytes} allowed")]
    TooLong {
        /// Thing that has the length.
        what: &'static str,
        /// Announced length.
        length_bytes: u64,
        /// Largest length allowed.
        max_bytes: u64,
    },
    /// EXPORT_NAME with a name that is not UTF-8; the option cannot report an error.
    #[error("export name: must be UTF-8 of at most 4096 bytes")]
    ExportName,
    /// A reply whose content does not match its type.
    #[error("{0}: malformed")]
    Malformed(&'static str),
}

/// Magic numbers (NBD "Newstyle negotiation" and "Transmission phase").
mod magic {
    pub const GREETING: u64 = u64::from_be_bytes(*b"NBDMAGIC");
    pub const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
    pub const OPTION_REPLY: u64 = 0x0003_E889_0455_65A9;
    pub const REQUEST: u32 = 0x2560_9513;
    pub const SIMPLE_REPLY: u32 = 0x6744_6698;
    pub const CHUNK: u32 = 0x668E_33EF;
}

/// Handshake flags, of server and client alike.
mod handshake_flag {
    pub const FIXED_NEWSTYLE: u32 = 1 << 0;
    pub const NO_ZEROES: u32 = 1 << 1;
}
