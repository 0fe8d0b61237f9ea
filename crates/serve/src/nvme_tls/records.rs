//! Records of TLS under NVMe/TCP, which OpenSSL handles.
//!
//! ```text
//!  input ─► Pipe::input ─► SslStream ─► received
//!  output ◄─ Pipe::output ◄─ SslStream ◄─ plain, gathered into records
//! ```
//! The maintained OpenSSL binding supports pre-shared keys with SHA-256 only, so the server refuses SHA-384
//! keys at start.
//!
//! Invariants: between two calls `Pipe::input` is empty unless the connection has failed; the host's identity
//! is known before its first byte of plain text is passed on.

use openssl::error::ErrorStack;
use openssl::ex_data::Index;
use openssl::ssl::{
    ErrorCode, Ssl, SslContext, SslContextBuilder, SslMethod, SslOptions, SslRef, SslSessionCacheMode,
    SslStream, SslVersion,
};
use pellucid_target::Output;
use pellucid_target::Pool;
use pellucid_target::connection::Close;
use pellucid_target::nvme::{KeyHash, Peer, TlsKeys};
use pellucid_target::tls::{Engine, refused};
use std::cell::OnceCell;
use std::io::{self, IoSlice, Read, Write};
use std::rc::Rc;

/// Cipher suite that every host supports (TCP transport 3.6.1.4).
const CIPHER_SUITE: &str = "TLS_AES_128_GCM_SHA256";
/// Maximum plain text of one record (RFC 8446 section 5.1).
const RECORD_BYTES_MAX: usize = 16 << 10;
/// Maximum input processed at once, which also limits the plain text received at once.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Characters of an unknown identity shown in the log.
const SHOWN_MAX: usize = 512;

/// Result of looking up the identity that a host sent.
#[derive(Clone, Debug)]
enum Claim {
    /// A key of this host was found; the end of the handshake proves whether the host knows it.
    Known(Peer),
    /// No key has this identity.
    Unknown(String),
}

/// TLS offer of a server to NVMe hosts. Cheap to clone.
#[derive(Clone)]
pub struct TlsOffer {
    context: SslContext,
    claim: Index<Ssl, Claim>,
}

impl TlsOffer {
    /// Creates an offer for the hosts that have one of these keys.
    ///
    /// # Errors
    /// Returns one sentence if a key is unusable here or OpenSSL fails.
    pub fn new(keys: TlsKeys) -> Result<TlsOffer, String> {
        if let Some(host) = keys.hosts().find(|(_, key)| key.hash() != KeyHash::Sha256).map(|(host, _)| host)
        {
            return Err(format!(
                "{host}: a key of 48 bytes (SHA-384); allowed: 32 bytes (SHA-256), which every NVMe/TCP host with TLS has"
            ));
        }
        let make = || -> Result<TlsOffer, ErrorStack> {
            let claim = Ssl::new_ex_index()?;
            let mut builder = SslContext::builder(SslMethod::tls_server())?;
            restrict(&mut builder)?;
            builder.set_psk_server_callback(move |ssl, identity, room| {
                Ok(choose(&keys, identity.unwrap_or_default(), ssl, claim, room))
            });
            Ok(TlsOffer { context: builder.build(), claim })
        };
        make().map_err(|error| format!("OpenSSL: {error}"))
    }

    /// Begins the records of a new connection; `peer` is set when the host has proved its identity.
    pub(super) fn begin(&self, peer: Rc<OnceCell<Peer>>) -> Result<Records, Close> {
        let mut ssl = Ssl::new(&self.context).map_err(refused)?;
        ssl.set_accept_state();
        let stream = SslStream::new(ssl, Pipe::default()).map_err(refused)?;
        let scratch = vec![0; RECORD_BYTES_MAX].into();
        Ok(Records { stream, claim: self.claim, peer, scratch, failed: false })
    }
}

/// Restricts OpenSSL to TLS 1.3 and one suite without resumption: every connection begins with the key.
pub(super) fn restrict(builder: &mut SslContextBuilder) -> Result<(), ErrorStack> {
    builder.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    builder.set_ciphersuites(CIPHER_SUITE)?;
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    builder.set_options(SslOptions::NO_TICKET);
    builder.set_num_tickets(0)
}

/// Copies the key of an identity into `room`; returns its length, or 0 if there is none.
fn choose(
    keys: &TlsKeys,
    identity: &[u8],
    ssl: &mut SslRef,
    claim: Index<Ssl, Claim>,
    room: &mut [u8],
) -> usize {
    let Some((peer, key)) = keys.find(identity) else {
        let shown = String::from_utf8_lossy(&identity[..identity.len().min(SHOWN_MAX)]).into_owned();
        ssl.set_ex_data(claim, Claim::Unknown(shown));
        return 0;
    };
    let Some(place) = room.get_mut(..key.len()) else { return 0 };
    place.copy_from_slice(&key);
    ssl.set_ex_data(claim, Claim::Known(peer));
    key.len()
}

/// Records of one connection.
pub(super) struct Records {
    stream: SslStream<Pipe>,
    claim: Index<Ssl, Claim>,
    peer: Rc<OnceCell<Peer>>,
    /// Plain text of a record, incoming or outgoing.
    scratch: Box<[u8]>,
    failed: bool,
}

impl Records {
    /// Reason why the connection ends. OpenSSL itself would report certificates if no key was found.
    fn refusal(&mut self, error: &openssl::ssl::Error) -> Close {
        self.failed = true;
        if self.peer.get().is_some() {
            return refused(error);
        }
        match self.stream.ssl().ex_data(self.claim) {
            Some(Claim::Known(peer)) => refused(format_args!("host {} has another key: {error}", peer.host)),
            Some(Claim::Unknown(identity)) => {
                refused(format_args!("no key here for the identity {identity:?}"))
            }
            None => refused(format_args!("no key was offered, in TLS 1.3 with {CIPHER_SUITE}: {error}")),
        }
    }

    /// Stores the host's identity once it is proved.
    fn note_peer(&mut self) {
        if self.peer.get().is_none()
            && self.stream.ssl().is_init_finished()
            && let Some(Claim::Known(peer)) = self.stream.ssl().ex_data(self.claim)
        {
            let _ = self.peer.set(peer.clone());
        }
    }
}

impl Engine for Records {
    fn decrypt(&mut self, input: &mut &[u8], received: &mut Vec<u8>) -> Result<bool, Close> {
        let (part, rest) = input.split_at(input.len().min(INPUT_BYTES_MAX));
        self.stream.get_mut().input.extend_from_slice(part);
        *input = rest;
        let closed = loop {
            match self.stream.ssl_read(&mut self.scratch) {
                Ok(count) => received.extend_from_slice(&self.scratch[..count]),
                Err(error) => match error.code() {
                    ErrorCode::WANT_READ => break false,
                    ErrorCode::ZERO_RETURN => break true,
                    _ => return Err(self.refusal(&error)),
                },
            }
        };
        self.note_peer();
        Ok(closed)
    }

    fn encrypt(&mut self, plain: &mut Output, out: &mut Output, pool: &mut Pool) {
        if !self.failed && !plain.is_empty() {
            let mut writer = Writer { stream: &mut self.stream, scratch: &mut self.scratch };
            self.failed |= plain.write_to(&mut writer, pool).is_err();
        }
        if self.failed {
            plain.discard(pool);
        }
        let pipe = self.stream.get_mut();
        out.encode(|out| out.append(&mut pipe.output));
    }
}

/// Turns plain text into as few records as possible.
struct Writer<'a> {
    stream: &'a mut SslStream<Pipe>,
    scratch: &'a mut [u8],
}

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The pipe takes all data, so this never blocks.
        self.stream.ssl_write(bytes).map_err(io::Error::other)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut count = 0;
        for slice in slices {
            let part = slice.len().min(self.scratch.len() - count);
            self.scratch[count..count + part].copy_from_slice(&slice[..part]);
            count += part;
        }
        self.stream.ssl_write(&self.scratch[..count]).map_err(io::Error::other)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Socket as OpenSSL sees it: received input and pending output.
#[derive(Default)]
struct Pipe {
    input: Vec<u8>,
    taken: usize,
    output: Vec<u8>,
}

impl Read for Pipe {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.input.len() - self.taken);
        if count == 0 {
            self.input.clear();
            self.taken = 0;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        bytes[..count].copy_from_slice(&self.input[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
