//! Replies of the transmission phase (NBD "Simple reply message", "Structured reply chunk message"): the server's
//! encoders and the client's decoder.
//!
//! ```text
//!   Header --> Simple event --> (the client calls expect_data for a READ) Data, End --> Header
//!          \-> Chunk event  --> (OFFSET_DATA) Data, End ----------------------------> Header
//! ```

use super::gather::{Fields, Fixed, fill, take};
use super::{CHUNK_BYTES_MAX, Errno, NbdError, magic};
use crate::layout::wire_enum;

wire_enum! {
    /// Chunk types (NBD "Structured reply types").
    pub enum ChunkKind: u16 {
        /// Nothing; ends a reply.
        None = 0,
        /// Data at an offset.
        OffsetData = 1,
        /// Zeros at an offset.
        OffsetHole = 2,
        /// Block status.
        BlockStatus = 5,
        /// Error.
        Error = 0x8001,
        /// Error at an offset.
        ErrorOffset = 0x8002,
    }
}

const CHUNK_DONE: u16 = 1;

/// An extent of block status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length; not 0.
    pub length_bytes: u32,
    /// Bits of the context, such as [`super::allocation`].
    pub flags: u32,
}

/// A simple reply; data of a READ follow it if there is no error.
#[inline]
pub fn encode_simple_reply(cookie: u64, error: Option<Errno>) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&magic::SIMPLE_REPLY.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.map_or(0, Errno::raw).to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

#[inline]
fn put_chunk(bytes: &mut [u8], done: bool, kind: ChunkKind, cookie: u64, length: u32) {
    let flags = if done { CHUNK_DONE } else { 0 };
    bytes[..4].copy_from_slice(&magic::CHUNK.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.raw().to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..20].copy_from_slice(&length.to_be_bytes());
}

/// A chunk without content, which always ends a reply.
#[inline]
pub fn encode_none(cookie: u64) -> [u8; 20] {
    let mut bytes = [0; 20];
    put_chunk(&mut bytes, true, ChunkKind::None, cookie, 0);
    bytes
}

/// Head of a data chunk; `length_bytes` of data (at most 2^32 - 9) follow.
#[inline]
pub fn encode_offset_data(cookie: u64, done: bool, offset_bytes: u64, length_bytes: u32) -> [u8; 28] {
    let mut bytes = [0; 28];
    put_chunk(&mut bytes, done, ChunkKind::OffsetData, cookie, length_bytes + 8);
    bytes[20..].copy_from_slice(&offset_bytes.to_be_bytes());
    bytes
}

/// A hole chunk: `length_bytes` (not 0) of zeros.
pub fn encode_offset_hole(cookie: u64, done: bool, offset_bytes: u64, length_bytes: u32) -> [u8; 32] {
    let mut bytes = [0; 32];
    put_chunk(&mut bytes, done, ChunkKind::OffsetHole, cookie, 12);
    bytes[20..28].copy_from_slice(&offset_bytes.to_be_bytes());
    bytes[28..].copy_from_slice(&length_bytes.to_be_bytes());
    bytes
}

/// Appends a block status chunk for one context.
pub fn encode_block_status(cookie: u64, done: bool, context_id: u32, extents: &[Extent], out: &mut Vec<u8>) {
    let mut head = [0; 20];
    put_chunk(&mut head, done, ChunkKind::BlockStatus, cookie, 4 + 8 * extents.len() as u32);
    out.extend(head);
    out.extend(context_id.to_be_bytes());
    for extent in extents {
        out.extend(extent.length_bytes.to_be_bytes());
        out.extend(extent.flags.to_be_bytes());
    }
}

/// Appends an error chunk, with the offset of the error if there is one. The message is cut at 4,096 bytes.
pub fn encode_error_chunk(
    cookie: u64,
    done: bool,
    error: Errno,
    at: Option<u64>,
    message: &str,
    out: &mut Vec<u8>,
) {
    let message = cut(message, super::STRING_BYTES_MAX);
    let kind = if at.is_some() { ChunkKind::ErrorOffset } else { ChunkKind::Error };
    let length = 6 + message.len() + if at.is_some() { 8 } else { 0 };
    let mut head = [0; 20];
    put_chunk(&mut head, done, kind, cookie, length as u32);
    out.extend(head);
    out.extend(error.raw().to_be_bytes());
    out.extend((message.len() as u16).to_be_bytes());
    out.extend(message.bytes());
    out.extend(at.iter().flat_map(|offset| offset.to_be_bytes()));
}

/// The longest prefix of `text` of at most `most` bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

/// Content of a structured reply chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// Nothing.
    None,
    /// Data follow as events.
    OffsetData {
        /// Absolute offset in the export.
        offset_bytes: u64,
        /// Length.
        length_bytes: u32,
    },
    /// Zeros.
    OffsetHole {
        /// Absolute offset in the export.
        offset_bytes: u64,
        /// Length.
        length_bytes: u32,
    },
    /// Block status; see [`Chunk::extents`].
    BlockStatus {
        /// The context.
        context_id: u32,
        /// Encoded extents, 8 bytes each.
        extents: &'a [u8],
    },
    /// Error.
    Error {
        /// Raw error value.
        error: u32,
        /// Offset of the error, if given.
        at: Option<u64>,
        /// Message for people.
        message: &'a str,
    },
}

impl Chunk<'_> {
    /// The extents of block status; none for another chunk.
    pub fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        let bytes = if let Self::BlockStatus { extents, .. } = self { extents } else { &[][..] };
        let mut fields = Fields(bytes);
        std::iter::from_fn(move || Some(Extent { length_bytes: fields.u32()?, flags: fields.u32()? }))
    }
}

/// Message of a server during transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyEvent<'a> {
    /// A simple reply. If it answers a READ without error, call [`ReplyDecoder::expect_data`] before going on.
    Simple {
        /// Cookie of the request.
        cookie: u64,
        /// Raw error value, 0 for success.
        error: u32,
    },
    /// A chunk of a structured reply.
    Chunk {
        /// Cookie of the request.
        cookie: u64,
        /// The reply ends with this chunk.
        done: bool,
        /// Content.
        chunk: Chunk<'a>,
    },
    /// The next data; never empty.
    Data {
        /// Offset in the data of this reply or chunk.
        offset_bytes: u32,
        /// A part of the caller's input.
        bytes: &'a [u8],
    },
    /// The data are complete.
    End,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// First 16 bytes: a whole simple reply, or the head of a chunk without its length.
    Header,
    ChunkLength {
        cookie: u64,
        done: bool,
        kind: ChunkKind,
    },
    ChunkBody {
        cookie: u64,
        done: bool,
        kind: ChunkKind,
        length: u32,
        data: u32,
    },
    Data {
        offset: u32,
        total: u32,
    },
    Failed(NbdError),
}

/// Decoder of replies at the client's end.
#[derive(Clone, Debug)]
pub struct ReplyDecoder {
    state: State,
    header: Fixed<16>,
    length: Fixed<4>,
    body: Vec<u8>,
    data_max_bytes: u32,
}

impl ReplyDecoder {
    /// A decoder that takes data chunks up to the given length.
    pub fn new(data_max_bytes: u32) -> Self {
        let (header, length) = (Fixed::new(), Fixed::new());
        Self { state: State::Header, header, length, body: Vec::new(), data_max_bytes }
    }

    /// Expects this much data after the simple reply just decoded; ignored within another message.
    pub fn expect_data(&mut self, length_bytes: u32) {
        if matches!(self.state, State::Header) && length_bytes > 0 {
            self.state = State::Data { offset: 0, total: length_bytes };
        }
    }

    /// Takes bytes off the front of `input` up to the next event; `None` when it is used up. An `End` can come
    /// without further input, so call until `None`.
    ///
    /// # Errors
    /// Error that ends the connection; every later call returns it again.
    pub fn decode<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<ReplyEvent<'a>>, NbdError> {
        loop {
            match self.state {
                State::Failed(error) => return Err(error),
                State::Header => {
                    let Some(raw) = self.header.next(input) else { return Ok(None) };
                    match parse_header(&raw) {
                        Ok(Head::Simple { cookie, error }) => {
                            return Ok(Some(ReplyEvent::Simple { cookie, error }));
                        }
                        Ok(Head::Chunk(state)) => self.state = state,
                        Err(error) => self.state = State::Failed(error),
                    }
                }
                State::ChunkLength { cookie, done, kind } => {
                    let Some(raw) = self.length.next(input) else { return Ok(None) };
                    self.body.clear();
                    self.state = self
                        .chunk_body(cookie, done, kind, u32::from_be_bytes(raw))
                        .unwrap_or_else(State::Failed);
                }
                State::ChunkBody { cookie, done, kind, length, data } => {
                    if !fill(&mut self.body, length as usize, input) {
                        return Ok(None);
                    }
                    self.state =
                        if data > 0 { State::Data { offset: 0, total: data } } else { State::Header };
                    let Some(chunk) = parse_chunk(kind, &self.body, data) else {
                        let error = NbdError::Malformed("structured reply chunk");
                        self.state = State::Failed(error);
                        return Err(error);
                    };
                    return Ok(Some(ReplyEvent::Chunk { cookie, done, chunk }));
                }
                State::Data { offset, total } if offset < total => {
                    let bytes = take(input, (total - offset) as usize);
                    self.state = State::Data { offset: offset + bytes.len() as u32, total };
                    return Ok(
                        (!bytes.is_empty()).then_some(ReplyEvent::Data { offset_bytes: offset, bytes })
                    );
                }
                State::Data { .. } => {
                    self.state = State::Header;
                    return Ok(Some(ReplyEvent::End));
                }
            }
        }
    }

    /// Splits the length of a chunk into a gathered part and data that pass through.
    fn chunk_body(&self, cookie: u64, done: bool, kind: ChunkKind, length: u32) -> Result<State, NbdError> {
        let (what, length, data, max) = match kind {
            ChunkKind::OffsetData => {
                ("data chunk", length.min(8), length.saturating_sub(8), self.data_max_bytes)
            }
            _ => ("chunk", length, 0, CHUNK_BYTES_MAX),
        };
        if length.max(data) > max.max(8) {
            let (length_bytes, max_bytes) = (u64::from(length.max(data)), u64::from(max));
            return Err(NbdError::TooLong { what, length_bytes, max_bytes });
        }
        Ok(State::ChunkBody { cookie, done, kind, length, data })
    }
}

enum Head {
    Simple { cookie: u64, error: u32 },
    Chunk(State),
}

fn parse_header(raw: &[u8; 16]) -> Result<Head, NbdError> {
    let mut fields = Fields(raw);
    let malformed = NbdError::Malformed("reply");
    let value = fields.u32().ok_or(malformed)?;
    match value {
        magic::SIMPLE_REPLY => {
            let error = fields.u32().ok_or(malformed)?;
            Ok(Head::Simple { error, cookie: fields.u64().ok_or(malformed)? })
        }
        magic::CHUNK => {
            let flags = fields.u16().ok_or(malformed)?;
            let kind = fields.u16().and_then(ChunkKind::from_raw).ok_or(malformed)?;
            let cookie = fields.u64().ok_or(malformed)?;
            Ok(Head::Chunk(State::ChunkLength { cookie, done: flags & CHUNK_DONE != 0, kind }))
        }
        _ => Err(NbdError::Magic { what: "reply", value: u64::from(value) }),
    }
}

fn parse_chunk(kind: ChunkKind, body: &[u8], data: u32) -> Option<Chunk<'_>> {
    let mut fields = Fields(body);
    let chunk = match kind {
        ChunkKind::None => Chunk::None,
        // A data chunk without data violates the protocol.
        ChunkKind::OffsetData if data == 0 => return None,
        ChunkKind::OffsetData => Chunk::OffsetData { offset_bytes: fields.u64()?, length_bytes: data },
        ChunkKind::OffsetHole => {
            Chunk::OffsetHole { offset_bytes: fields.u64()?, length_bytes: fields.u32()? }
        }
        ChunkKind::BlockStatus => {
            let context_id = fields.u32()?;
            let extents = fields.bytes(fields.0.len())?;
            (!extents.is_empty() && extents.len() % 8 == 0)
                .then_some(Chunk::BlockStatus { context_id, extents })?
        }
        ChunkKind::Error | ChunkKind::ErrorOffset => {
            let error = fields.u32().filter(|&error| error != 0)?;
            let length = fields.u16()?;
            let message = fields.text(usize::from(length))?;
            let at = if kind == ChunkKind::ErrorOffset { Some(fields.u64()?) } else { None };
            Chunk::Error { error, at, message }
        }
    };
    fields.is_empty().then_some(chunk)
}
