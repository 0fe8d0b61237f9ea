//! Options and their replies (NBD "Option types", "Option reply types"): contents, both ways.

use super::gather::Fields;
use super::magic;
use crate::layout::wire_enum;

wire_enum! {
    /// Options that a client may ask for.
    pub enum OptionKind: u32 {
        /// Choose an export and begin, the old way.
        ExportName = 1,
        /// End the connection.
        Abort = 2,
        /// List exports.
        List = 3,
        /// Switch to TLS.
        StartTls = 5,
        /// Ask about an export.
        Info = 6,
        /// Choose an export and begin.
        Go = 7,
        /// Answer with structured replies.
        StructuredReply = 8,
        /// List the metadata contexts of an export.
        ListMetaContext = 9,
        /// Choose metadata contexts.
        SetMetaContext = 10,
        /// Requests and replies with 64-bit lengths; refused here.
        ExtendedHeaders = 11,
    }
}

wire_enum! {
    /// Error replies to an option.
    pub enum ReplyError: u32 {
        /// Not supported.
        Unsupported = 0x8000_0001,
        /// Forbidden by policy.
        Policy = 0x8000_0002,
        /// Invalid request.
        Invalid = 0x8000_0003,
        /// Not supported on this platform.
        Platform = 0x8000_0004,
        /// TLS must come first.
        TlsRequired = 0x8000_0005,
        /// No such export.
        Unknown = 0x8000_0006,
        /// The server shuts down.
        Shutdown = 0x8000_0007,
        /// The client must ask for block sizes.
        BlockSizeRequired = 0x8000_0008,
        /// Request too large.
        TooBig = 0x8000_0009,
        /// Extended headers must come first.
        ExtendedHeadersRequired = 0x8000_000A,
    }
}

wire_enum! {
    /// Information types of INFO and GO.
    pub enum InfoKind: u16 {
        /// Size and flags; always sent.
        Export = 0,
        /// Canonical name.
        Name = 1,
        /// Description.
        Description = 2,
        /// Block sizes.
        BlockSize = 3,
    }
}

/// An option with its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionRequest<'a> {
    /// Begin with this export, or close.
    ExportName(&'a str),
    /// The client leaves; an ACK is optional courtesy.
    Abort,
    /// Send one SERVER reply for each export.
    List,
    /// TLS handshake after the ACK.
    StartTls,
    /// Describe an export.
    Info(InfoRequest<'a>),
    /// Describe an export and begin.
    Go(InfoRequest<'a>),
    /// Structured replies from now on.
    StructuredReply,
    /// List contexts.
    ListMetaContext(MetaContextRequest<'a>),
    /// Choose contexts; replaces an earlier choice.
    SetMetaContext(MetaContextRequest<'a>),
}

impl OptionRequest<'_> {
    /// Returns the kind of the option.
    pub fn kind(&self) -> OptionKind {
        match self {
            Self::ExportName(_) => OptionKind::ExportName,
            Self::Abort => OptionKind::Abort,
            Self::List => OptionKind::List,
            Self::StartTls => OptionKind::StartTls,
            Self::Info(_) => OptionKind::Info,
            Self::Go(_) => OptionKind::Go,
            Self::StructuredReply => OptionKind::StructuredReply,
            Self::ListMetaContext(_) => OptionKind::ListMetaContext,
            Self::SetMetaContext(_) => OptionKind::SetMetaContext,
        }
    }
}

/// Content of INFO and GO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    /// The export; empty for the default one.
    pub name: &'a str,
    kinds: &'a [u8],
}

impl InfoRequest<'_> {
    /// Information types asked for, raw.
    pub fn kinds(&self) -> impl Iterator<Item = u16> + '_ {
        self.kinds.chunks_exact(2).map(|raw| u16::from_be_bytes([raw[0], raw[1]]))
    }

    /// Reports whether an information type is requested.
    pub fn wants(&self, kind: InfoKind) -> bool {
        self.kinds().any(|raw| raw == kind.raw())
    }

    /// Content of the option, for a client; `name` is at most 4,096 bytes.
    pub fn encode(name: &str, kinds: &[InfoKind]) -> Vec<u8> {
        let mut data = Vec::new();
        put_counted(&mut data, name);
        data.extend((kinds.len() as u16).to_be_bytes());
        kinds.iter().for_each(|kind| data.extend(kind.raw().to_be_bytes()));
        data
    }
}

/// Content of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaContextRequest<'a> {
    /// The export.
    pub name: &'a str,
    /// Number of queries.
    pub count: u32,
    queries: &'a [u8],
}

impl<'a> MetaContextRequest<'a> {
    /// The queries, such as `base:allocation`.
    pub fn queries(&self) -> impl Iterator<Item = &'a str> + 'a {
        let mut fields = Fields(self.queries);
        std::iter::from_fn(move || fields.counted_text())
    }

    /// Content of the option, for a client.
    pub fn encode(name: &str, queries: &[&str]) -> Vec<u8> {
        let mut data = Vec::new();
        put_counted(&mut data, name);
        data.extend((queries.len() as u32).to_be_bytes());
        queries.iter().for_each(|query| put_counted(&mut data, query));
        data
    }
}

impl<'a> OptionRequest<'a> {
    /// Parses the content of an option. Unexpected content, or content of the wrong length, is invalid.
    pub(super) fn parse(kind: OptionKind, data: &'a [u8]) -> Result<Self, ReplyError> {
        let empty = |request| if data.is_empty() { Ok(request) } else { Err(ReplyError::Invalid) };
        match kind {
            OptionKind::ExportName => {
                Fields(data).text(data.len()).map(Self::ExportName).ok_or(ReplyError::Invalid)
            }
            // The data of an ABORT are irrelevant.
            OptionKind::Abort => Ok(Self::Abort),
            OptionKind::List => empty(Self::List),
            OptionKind::StartTls => empty(Self::StartTls),
            OptionKind::StructuredReply => empty(Self::StructuredReply),
            OptionKind::Info => parse_info(data).map(Self::Info).ok_or(ReplyError::Invalid),
            OptionKind::Go => parse_info(data).map(Self::Go).ok_or(ReplyError::Invalid),
            OptionKind::ListMetaContext => {
                parse_meta(data).map(Self::ListMetaContext).ok_or(ReplyError::Invalid)
            }
            OptionKind::SetMetaContext => {
                parse_meta(data).map(Self::SetMetaContext).ok_or(ReplyError::Invalid)
            }
            OptionKind::ExtendedHeaders => Err(ReplyError::Unsupported),
        }
    }
}

fn parse_info(data: &[u8]) -> Option<InfoRequest<'_>> {
    let mut fields = Fields(data);
    let name = fields.counted_text()?;
    let count = fields.u16()?;
    let kinds = fields.bytes(usize::from(count) * 2)?;
    fields.is_empty().then_some(InfoRequest { name, kinds })
}

fn parse_meta(data: &[u8]) -> Option<MetaContextRequest<'_>> {
    let mut fields = Fields(data);
    let name = fields.counted_text()?;
    let count = fields.u32()?;
    let queries = fields.0;
    // Each query takes at least four bytes, so a false count ends early.
    for _ in 0..count {
        fields.counted_text()?;
    }
    fields.is_empty().then_some(MetaContextRequest { name, count, queries })
}

/// A piece of information in an INFO reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Info<'a> {
    /// Size and flags.
    Export {
        /// Size of the export.
        size_bytes: u64,
        /// Bits of [`super::transmission_flag`].
        flags: u16,
    },
    /// Canonical name.
    Name(&'a str),
    /// Description.
    Description(&'a str),
    /// Block sizes.
    BlockSize {
        /// Requests are multiples of this.
        minimum_bytes: u32,
        /// Preferred multiple of requests.
        preferred_bytes: u32,
        /// Longest payload.
        maximum_bytes: u32,
    },
}

/// A reply to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionReply<'a> {
    /// Done.
    Ack,
    /// An export.
    Server {
        /// Its name.
        name: &'a str,
        /// Free text.
        details: &'a str,
    },
    /// Information on an export.
    Info(Info<'a>),
    /// A metadata context.
    MetaContext {
        /// Number that block status will use; 0 in the answer to LIST.
        id: u32,
        /// Name.
        name: &'a str,
    },
    /// Refused.
    Error {
        /// Reason.
        error: ReplyError,
        /// Message for people.
        message: &'a str,
    },
    /// A reply type or information type unknown to this side.
    Other(u32),
}

const REPLY_ACK: u32 = 1;
const REPLY_SERVER: u32 = 2;
const REPLY_INFO: u32 = 3;
const REPLY_META_CONTEXT: u32 = 4;

impl<'a> OptionReply<'a> {
    /// Appends the reply to `out`. `option` is the raw option that is answered; strings are at most 4,096 bytes.
    pub fn encode(&self, option: u32, out: &mut Vec<u8>) {
        out.extend(magic::OPTION_REPLY.to_be_bytes());
        out.extend(option.to_be_bytes());
        out.extend(self.kind().to_be_bytes());
        let length_at = out.len();
        out.extend([0; 4]);
        match *self {
            Self::Ack | Self::Other(_) => {}
            Self::Server { name, details } => {
                put_counted(out, name);
                out.extend(details.bytes());
            }
            Self::Info(info) => put_info(out, &info),
            Self::MetaContext { id, name } => {
                out.extend(id.to_be_bytes());
                out.extend(name.bytes());
            }
            Self::Error { message, .. } => out.extend(message.bytes()),
        }
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn kind(&self) -> u32 {
        match self {
            Self::Ack => REPLY_ACK,
            Self::Server { .. } => REPLY_SERVER,
            Self::Info(_) => REPLY_INFO,
            Self::MetaContext { .. } => REPLY_META_CONTEXT,
            Self::Error { error, .. } => error.raw(),
            Self::Other(raw) => *raw,
        }
    }

    /// Parses the content of a reply; `None` if it does not match its type.
    pub(super) fn parse(kind: u32, data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(data);
        match kind {
            REPLY_ACK => data.is_empty().then_some(Self::Ack),
            REPLY_SERVER => {
                let name = fields.counted_text()?;
                Some(Self::Server { name, details: fields.text(fields.0.len())? })
            }
            REPLY_INFO => parse_info_reply(fields),
            REPLY_META_CONTEXT => {
                let id = fields.u32()?;
                Some(Self::MetaContext { id, name: fields.text(fields.0.len())? })
            }
            _ => match ReplyError::from_raw(kind) {
                Some(error) => Some(Self::Error { error, message: fields.text(data.len())? }),
                None => Some(Self::Other(kind)),
            },
        }
    }
}

fn parse_info_reply(mut fields: Fields<'_>) -> Option<OptionReply<'_>> {
    let info = match InfoKind::from_raw(fields.u16()?) {
        Some(InfoKind::Export) => Info::Export { size_bytes: fields.u64()?, flags: fields.u16()? },
        Some(InfoKind::Name) => Info::Name(fields.text(fields.0.len())?),
        Some(InfoKind::Description) => Info::Description(fields.text(fields.0.len())?),
        Some(InfoKind::BlockSize) => Info::BlockSize {
            minimum_bytes: fields.u32()?,
            preferred_bytes: fields.u32()?,
            maximum_bytes: fields.u32()?,
        },
        None => return Some(OptionReply::Other(REPLY_INFO)),
    };
    fields.is_empty().then_some(OptionReply::Info(info))
}

fn put_info(out: &mut Vec<u8>, info: &Info<'_>) {
    let kind = match info {
        Info::Export { .. } => InfoKind::Export,
        Info::Name(_) => InfoKind::Name,
        Info::Description(_) => InfoKind::Description,
        Info::BlockSize { .. } => InfoKind::BlockSize,
    };
    out.extend(kind.raw().to_be_bytes());
    match *info {
        Info::Export { size_bytes, flags } => {
            out.extend(size_bytes.to_be_bytes());
            out.extend(flags.to_be_bytes());
        }
        Info::Name(text) | Info::Description(text) => out.extend(text.bytes()),
        Info::BlockSize { minimum_bytes, preferred_bytes, maximum_bytes } => {
            for size in [minimum_bytes, preferred_bytes, maximum_bytes] {
                out.extend(size.to_be_bytes());
            }
        }
    }
}

fn put_counted(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_be_bytes());
    out.extend(text.bytes());
}
