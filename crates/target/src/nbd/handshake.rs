//! NBD before transmission: options and their replies.

use super::{PAYLOAD_BYTES_MAX, refused};
use crate::connection::Close;
use crate::operation::{Keeps, Namespace};
use crate::session::Port;
use pellucid_flash::Interface;
use pellucid_wire::nbd::{
    Export, Info, InfoKind, InfoRequest, MetaContextRequest, OptionKind, OptionReply, OptionRequest,
    ReplyError, ServerHandshake, ServerHandshakeEvent, encode_export_name_reply, transmission_flag,
};

/// The only metadata context: it tells which ranges hold data.
const ALLOCATION: &str = "base:allocation";
/// Id of the context in block status.
pub(super) const ALLOCATION_ID: u32 = 1;
/// Options that a client may send before it chooses an export; real clients send about ten.
const OPTIONS_MAX: u32 = 1024;
/// Options answered in one turn of the server.
const OPTIONS_IN_TURN: u32 = 64;
/// Preferred request size when the drive's mapping unit is smaller (NBD "Block sizes": at least 4 KiB is usual).
const PREFERRED_BYTES_MIN: u32 = 4096;

/// A chosen export.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    pub namespace: usize,
    /// Bytes per sector, a power of two.
    pub sector_bytes: u32,
    pub export: Export,
}

/// Next step after some input.
pub(super) enum Step {
    /// More input is needed.
    More,
    /// Transmission begins with the rest of the input.
    Begin(Chosen),
    /// A TLS handshake begins with the rest of the input.
    StartTls,
}

/// The state of a handshake.
#[derive(Default)]
pub(super) struct Handshake {
    decoder: ServerHandshake,
    no_zeroes: bool,
    structured: bool,
    /// Do not offer structured replies.
    simple_only: bool,
    /// Namespace whose allocation context was selected; choosing another export drops the selection.
    context: Option<usize>,
    /// Answer nothing before the client starts TLS.
    tls_required: bool,
    /// Number of options received.
    options: u32,
}

impl Handshake {
    pub(super) fn with_tls_required(self) -> Handshake {
        Handshake { tls_required: true, ..self }
    }

    pub(super) fn with_simple_replies(self) -> Handshake {
        Handshake { simple_only: true, ..self }
    }

    pub(super) fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_>) -> Result<Step, Close> {
        // The decoder lends the option, while the answer needs the other fields.
        let Handshake { decoder, no_zeroes, structured, simple_only, context, tls_required, options } = self;
        let before = *options;
        let mut answers = Answers { no_zeroes, structured, simple_only: *simple_only, context, port };
        while *options < before + OPTIONS_IN_TURN
            && !answers.port.congested()
            && let Some(event) = decoder.decode(input).map_err(refused)?
        {
            if !matches!(event, ServerHandshakeEvent::ClientFlags { .. }) {
                *options += 1;
                if *options > OPTIONS_MAX {
                    return Err(Close::Refused(format!(
                        "more than {OPTIONS_MAX} options and no export chosen"
                    )));
                }
            }
            match event {
                ServerHandshakeEvent::ClientFlags { fixed: false, .. } => {
                    return Err(Close::Refused("client without fixed newstyle".into()));
                }
                ServerHandshakeEvent::ClientFlags { no_zeroes, .. } => *answers.no_zeroes = no_zeroes,
                ServerHandshakeEvent::Refused(refusal) => answers.refuse(refusal.option, refusal.error, ""),
                ServerHandshakeEvent::Option(option) if *tls_required => match option {
                    OptionRequest::StartTls => {
                        answers.reply(OptionKind::StartTls, &OptionReply::Ack);
                        *tls_required = false;
                        return Ok(Step::StartTls);
                    }
                    OptionRequest::Abort => {
                        answers.option(&option)?;
                    }
                    // This option has no error reply.
                    OptionRequest::ExportName(_) => {
                        return Err(Close::Refused("an export was chosen without TLS".into()));
                    }
                    _ => answers.refuse(option.kind().raw(), ReplyError::TlsRequired, "TLS comes first"),
                },
                ServerHandshakeEvent::Option(option) => {
                    if let Some(chosen) = answers.option(&option)? {
                        return Ok(Step::Begin(chosen));
                    }
                }
            }
        }
        Ok(Step::More)
    }
}

struct Answers<'h, 'p, 'c> {
    no_zeroes: &'h mut bool,
    structured: &'h mut bool,
    simple_only: bool,
    context: &'h mut Option<usize>,
    port: &'p mut Port<'c>,
}

impl Answers<'_, '_, '_> {
    fn option(&mut self, option: &OptionRequest<'_>) -> Result<Option<Chosen>, Close> {
        match option {
            OptionRequest::ExportName(name) => {
                let Some(namespace) = self.find(name) else {
                    return Err(Close::Refused(format!("export {name:?}: unknown")));
                };
                let chosen = self.chosen(namespace);
                let Export { size_bytes, flags, .. } = chosen.export;
                let no_zeroes = *self.no_zeroes;
                self.port.output().encode(|out| encode_export_name_reply(size_bytes, flags, no_zeroes, out));
                return Ok(Some(chosen));
            }
            OptionRequest::Abort => {
                self.reply(OptionKind::Abort, &OptionReply::Ack);
                return Err(Close::Finished);
            }
            OptionRequest::List => self.list(),
            OptionRequest::StartTls => {
                self.refuse(OptionKind::StartTls.raw(), ReplyError::Unsupported, "no TLS here");
            }
            OptionRequest::Info(request) => drop(self.info(OptionKind::Info, request)),
            OptionRequest::Go(request) => return Ok(self.info(OptionKind::Go, request)),
            OptionRequest::StructuredReply if self.simple_only => {
                let why = "simple replies only";
                self.refuse(OptionKind::StructuredReply.raw(), ReplyError::Unsupported, why);
            }
            OptionRequest::StructuredReply => {
                *self.structured = true;
                self.reply(OptionKind::StructuredReply, &OptionReply::Ack);
            }
            OptionRequest::ListMetaContext(request) => self.contexts(OptionKind::ListMetaContext, request),
            OptionRequest::SetMetaContext(request) => self.contexts(OptionKind::SetMetaContext, request),
        }
        Ok(None)
    }

    fn reply(&mut self, option: OptionKind, reply: &OptionReply<'_>) {
        self.port.output().encode(|out| reply.encode(option.raw(), out));
    }

    fn refuse(&mut self, option: u32, error: ReplyError, message: &str) {
        let reply = OptionReply::Error { error, message };
        self.port.output().encode(|out| reply.encode(option, out));
    }

    /// Finds the namespace of a name; the empty name means the first.
    fn find(&self, name: &str) -> Option<usize> {
        let namespaces = self.port.namespaces();
        let is_block = |n: &Namespace| matches!(n.interface, Interface::Block { .. });
        namespaces.iter().position(|n| !n.gone && is_block(n) && (name.is_empty() || n.name == name))
    }

    fn chosen(&self, namespace: usize) -> Chosen {
        let (size_bytes, sector_bytes, keeps) = {
            let namespace = &self.port.namespaces()[namespace];
            (namespace.bytes(), namespace.sector_bytes, namespace.keeps)
        };
        let mut flags = transmission_flag::HAS_FLAGS
            | transmission_flag::SEND_TRIM
            | transmission_flag::SEND_WRITE_ZEROES
            | transmission_flag::SEND_FAST_ZERO
            | transmission_flag::CAN_MULTI_CONN;
        // Flush is offered even without a cache: a discard needs a flush to be durable.
        if keeps != Keeps::Nothing {
            flags |= transmission_flag::SEND_FLUSH | transmission_flag::SEND_FUA;
        }
        if *self.structured {
            flags |= transmission_flag::SEND_DF;
        }
        if self.port.is_read_only(namespace) {
            flags |= transmission_flag::READ_ONLY;
        }
        let contexts = *self.context == Some(namespace);
        let export = Export { size_bytes, flags, structured: *self.structured, contexts };
        Chosen { namespace, sector_bytes, export }
    }

    fn list(&mut self) {
        let names: Vec<String> = self
            .port
            .namespaces()
            .iter()
            .filter(|n| !n.gone && matches!(n.interface, Interface::Block { .. }))
            .map(|n| n.name.clone())
            .collect();
        for name in &names {
            self.reply(OptionKind::List, &OptionReply::Server { name, details: "" });
        }
        self.reply(OptionKind::List, &OptionReply::Ack);
    }

    fn info(&mut self, option: OptionKind, request: &InfoRequest<'_>) -> Option<Chosen> {
        let Some(namespace) = self.find(request.name) else {
            self.refuse(option.raw(), ReplyError::Unknown, "no such export");
            return None;
        };
        let chosen = self.chosen(namespace);
        let Export { size_bytes, flags, .. } = chosen.export;
        let Namespace { name, sector_bytes, unit_bytes, .. } = self.port.namespaces()[namespace].clone();
        self.reply(option, &OptionReply::Info(Info::Export { size_bytes, flags }));
        if request.wants(InfoKind::Name) {
            self.reply(option, &OptionReply::Info(Info::Name(&name)));
        }
        // Sent even unasked: a client that understands it must not send requests that would be refused.
        let sizes = Info::BlockSize {
            minimum_bytes: sector_bytes,
            // Clients disconnect unless this is a power of two (NBD "Block sizes"); a mapping unit may be
            // another multiple of sectors.
            preferred_bytes: (1 << unit_bytes.trailing_zeros()).max(PREFERRED_BYTES_MIN),
            maximum_bytes: PAYLOAD_BYTES_MAX,
        };
        self.reply(option, &OptionReply::Info(sizes));
        self.reply(option, &OptionReply::Ack);
        Some(chosen)
    }

    fn contexts(&mut self, option: OptionKind, request: &MetaContextRequest<'_>) {
        let set = option == OptionKind::SetMetaContext;
        if set {
            *self.context = None;
            if !*self.structured {
                return self.refuse(option.raw(), ReplyError::Invalid, "structured replies come first");
            }
        }
        let Some(namespace) = self.find(request.name) else {
            return self.refuse(option.raw(), ReplyError::Unknown, "no such export");
        };
        // For listing, no query or `base:` means all contexts.
        let asks = |query: &str| query == ALLOCATION || (!set && query == "base:");
        if request.queries().any(asks) || (!set && request.count == 0) {
            let id = if set { ALLOCATION_ID } else { 0 };
            self.reply(option, &OptionReply::MetaContext { id, name: ALLOCATION });
            if set {
                *self.context = Some(namespace);
            }
        }
        self.reply(option, &OptionReply::Ack);
    }
}
