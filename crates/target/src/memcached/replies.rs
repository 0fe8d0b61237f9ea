//! The outstanding requests of one connection, and their answers.
//!
//! ```text
//!   slots  │ get, waits │ set, ready │ get, ready │ text │      answers go out in the order of requests
//!   texts  │ key        │            │ key        │ text │      what an answer repeats of its request
//! ```
//! Invariant: `texts` holds the texts of all slots, in order; the first slot, if any, is waiting.

use crate::output::Output;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pellucid_kv::{Item, Outcome};
use pellucid_wire::memcached::{ErrorLine, Flags, MetaAnswer, Shown, answer_number, answer_value_head};
use std::borrow::Cow;
use std::collections::VecDeque;

/// Values up to this length are copied into the output: sending them as separate entries would cost the
/// system more.
const COPIED_BYTES_MAX: usize = 8 << 10;

/// Kind of a request, as far as the answer depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The answer is already known: it is the text.
    Text,
    /// One key of a get. The text is the key.
    Get {
        /// The client asks for the version of the item (`gets`).
        cas: bool,
        /// It is the last key of the command.
        last: bool,
        /// The item gets a new expiry (`gat`).
        touch: bool,
    },
    /// `set` and its variants.
    Store {
        /// Only if the item has a given version (`cas`).
        cas: bool,
    },
    /// `incr`, `decr`.
    Arithmetic {
        /// It is a `decr`.
        decrement: bool,
    },
    /// `delete`.
    Delete,
    /// A refused `set` removes the item that it was to replace. No client requested this, and none gets an
    /// answer.
    Forget,
    /// `touch`.
    Touch,
    /// `flush_all`.
    FlushAll,
    /// `mg`. The text of a meta command is its key followed by its flags.
    MetaGet {
        /// The item gets a new expiry (flag T).
        touch: bool,
    },
    /// `ms`.
    MetaStore {
        /// Only if the item has a given version (flag C).
        cas: bool,
    },
    /// `md`.
    MetaDelete {
        /// The item stays, marked stale (flag I).
        invalidate: bool,
    },
    /// `ma`.
    MetaArithmetic {
        /// It counts down (flag M).
        decrement: bool,
    },
    /// `me`.
    MetaDebug,
}

impl Kind {
    /// Returns true for a read.
    pub fn is_get(self) -> bool {
        matches!(self, Kind::Get { .. } | Kind::MetaGet { .. } | Kind::MetaDebug)
    }

    /// Returns true for a meta command.
    pub fn is_meta(self) -> bool {
        use Kind::{MetaArithmetic, MetaDebug, MetaDelete, MetaGet, MetaStore};
        matches!(
            self,
            MetaGet { .. } | MetaStore { .. } | MetaDelete { .. } | MetaArithmetic { .. } | MetaDebug
        )
    }
}

/// A request.
#[derive(Debug)]
struct Slot {
    kind: Kind,
    /// The client wants no answer.
    noreply: bool,
    key_bytes: u16,
    /// Bytes of the text after the key.
    rest_bytes: u32,
    /// Arrival time.
    began_ns: u64,
    outcome: Option<Outcome>,
    /// Bytes of a value that waits for earlier answers.
    parked: usize,
}

/// The outstanding requests of one connection.
#[derive(Default)]
pub(super) struct Replies {
    slots: VecDeque<Slot>,
    /// Number of the first slot.
    first: u64,
    texts: Vec<u8>,
    /// Bytes at the front of `texts` that are no longer needed.
    used: usize,
}

/// A request that is finally answered.
pub struct Ended {
    /// Kind of the request.
    pub kind: Kind,
    /// Wall time of its arrival.
    pub began_ns: u64,
    /// Bytes of budget that its answer held while it waited.
    pub parked: usize,
    /// Buffer of its value, to be returned.
    pub buffer: Option<Vec<u8>>,
}

impl Replies {
    /// Number of outstanding requests.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Adds a request; returns its number.
    pub fn begin(&mut self, kind: Kind, noreply: bool, now_ns: u64, key: &[u8], rest: &[u8]) -> u64 {
        self.texts.extend_from_slice(key);
        self.texts.extend_from_slice(rest);
        let (key_bytes, rest_bytes) = (key.len() as u16, rest.len() as u32);
        self.slots.push_back(Slot {
            kind,
            noreply,
            key_bytes,
            rest_bytes,
            began_ns: now_ns,
            outcome: None,
            parked: 0,
        });
        self.first + self.slots.len() as u64 - 1
    }

    /// Answers with a text, in its turn.
    pub fn say(&mut self, text: &[u8], out: &mut Output) {
        match self.slots.is_empty() {
            true => out.head(text),
            false => {
                let at = self.begin(Kind::Text, false, 0, &[], text) - self.first;
                self.slots[at as usize].outcome = Some(Outcome::Done);
            }
        }
    }

    /// Replaces the answer of the last request by a text.
    pub fn amend_last(&mut self, text: &[u8]) {
        let Some(slot) = self.slots.back_mut() else { return };
        self.texts.truncate(self.texts.len() - usize::from(slot.key_bytes) - slot.rest_bytes as usize);
        self.texts.extend_from_slice(text);
        (slot.kind, slot.key_bytes, slot.rest_bytes) = (Kind::Text, 0, text.len() as u32);
        slot.outcome = Some(Outcome::Done);
    }

    /// Kind of a request.
    pub fn kind(&self, number: u64) -> Kind {
        self.slots[(number - self.first) as usize].kind
    }

    /// Sets the outcome of a request. Returns the bytes of its value if the value must wait for earlier
    /// answers, else 0.
    #[inline]
    pub fn complete(&mut self, number: u64, outcome: Outcome) -> usize {
        let waits = match &outcome {
            Outcome::Item(item) if number > self.first => item.value.len(),
            _ => 0,
        };
        let slot = &mut self.slots[(number - self.first) as usize];
        (slot.outcome, slot.parked) = (Some(outcome), waits);
        waits
    }

    /// Answers the first request, if its outcome is known.
    pub fn answer_next(&mut self, now_s: u32, out: &mut Output) -> Option<Ended> {
        let outcome = self.slots.front_mut()?.outcome.take()?;
        let Slot { kind, noreply, key_bytes, rest_bytes, began_ns, parked, .. } = self.slots.pop_front()?;
        self.first += 1;
        let (key_end, end) =
            (self.used + usize::from(key_bytes), self.used + usize::from(key_bytes) + rest_bytes as usize);
        let (key, rest) = (&self.texts[self.used..key_end], &self.texts[key_end..end]);
        let buffer = match kind {
            _ if noreply => value_of(outcome),
            Kind::Text => {
                out.head(rest);
                None
            }
            Kind::Get { cas, last, .. } => {
                let buffer = get(key, cas, outcome, out);
                if last {
                    out.head(b"END\r\n");
                }
                buffer
            }
            Kind::MetaGet { .. }
            | Kind::MetaStore { .. }
            | Kind::MetaDelete { .. }
            | Kind::MetaArithmetic { .. } => meta(kind, key, Flags::of(rest), outcome, now_s, out),
            Kind::MetaDebug => debug(key, Flags::of(rest).base64, outcome, now_s, out),
            Kind::Store { .. }
            | Kind::Arithmetic { .. }
            | Kind::Delete
            | Kind::Forget
            | Kind::Touch
            | Kind::FlushAll => {
                word(&outcome, out);
                None
            }
        };
        self.used = end;
        self.settle();
        Some(Ended { kind, began_ns, parked, buffer })
    }

    fn settle(&mut self) {
        if self.used == self.texts.len() {
            self.texts.clear();
            self.used = 0;
        } else if self.used > 4096 && self.used > self.texts.len() / 2 {
            self.texts.drain(..self.used);
            self.used = 0;
        }
    }

    /// Releases memory that an idle connection does not need.
    pub fn rest(&mut self) {
        if self.slots.is_empty() {
            self.slots.shrink_to(0);
            self.texts.shrink_to(0);
        }
    }

    /// Drops all requests; returns the buffers of values that were not sent.
    pub fn drain(&mut self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.texts.clear();
        self.used = 0;
        self.first += self.slots.len() as u64;
        self.slots.drain(..).filter_map(|slot| value_of(slot.outcome?))
    }
}

fn value_of(outcome: Outcome) -> Option<Vec<u8>> {
    if let Outcome::Item(item) = outcome { Some(item.value) } else { None }
}

/// Sends a value and its line end; returns the buffer if it was copied.
#[inline]
fn send_value(value: Vec<u8>, out: &mut Output) -> Option<Vec<u8>> {
    if value.len() <= COPIED_BYTES_MAX {
        out.encode(|out| {
            out.extend_from_slice(&value);
            out.extend_from_slice(b"\r\n");
        });
        return Some(value);
    }
    out.data(value);
    out.head(b"\r\n");
    None
}

/// Answers a get. A read that failed on flash counts as a miss.
#[inline]
fn get(key: &[u8], cas: bool, outcome: Outcome, out: &mut Output) -> Option<Vec<u8>> {
    let Outcome::Item(Item { flags, cas: version, value, .. }) = outcome else { return None };
    out.encode(|out| answer_value_head(key, flags, value.len(), cas.then_some(version), out));
    send_value(value, out)
}

/// Answers a text command that changes an item.
fn word(outcome: &Outcome, out: &mut Output) {
    let text: &[u8] = match outcome {
        Outcome::Stored { .. } => b"STORED\r\n",
        Outcome::NotStored => b"NOT_STORED\r\n",
        Outcome::Exists => b"EXISTS\r\n",
        Outcome::NotFound | Outcome::Miss => b"NOT_FOUND\r\n",
        Outcome::Touched => b"TOUCHED\r\n",
        Outcome::Deleted => b"DELETED\r\n",
        Outcome::Done | Outcome::Item(_) => b"OK\r\n",
        Outcome::Number { value, .. } => {
            return out.encode(|out| {
                answer_number(*value, out);
                out.extend_from_slice(b"\r\n");
            });
        }
        Outcome::NotNumber => ErrorLine::NotNumber.line(),
        Outcome::TooLarge => ErrorLine::TooLarge.line(),
        Outcome::Failed(why) => return fail(why, out),
    };
    out.head(text);
}

fn fail(why: &str, out: &mut Output) {
    out.encode(|out| {
        out.extend_from_slice(b"SERVER_ERROR ");
        out.extend_from_slice(why.as_bytes());
        out.extend_from_slice(b"\r\n");
    });
}

/// Seconds until expiry; `None`: never.
fn left_s(expires_s: u32, now_s: u32) -> Option<u32> {
    (expires_s > 0).then(|| expires_s.saturating_sub(now_s))
}

/// Answers a meta command. Returns a value whose memory can be used again.
fn meta(
    kind: Kind,
    key: &[u8],
    flags: Flags<'_>,
    outcome: Outcome,
    now_s: u32,
    out: &mut Output,
) -> Option<Vec<u8>> {
    let line = |code: &'static [u8], length, shown| MetaAnswer {
        code,
        length,
        key,
        base64: flags.base64,
        flags,
        shown,
    };
    // A quiet client gets no answer for an expected outcome.
    let (code, expected): (&[u8], bool) = match outcome {
        Outcome::Item(item) => return meta_item(key, flags, item, now_s, out),
        Outcome::Number { value, cas, expires_s, created } => {
            // As in memcached, a creation is always reported.
            if !flags.quiet || created {
                let mut digits = Vec::with_capacity(20);
                answer_number(value, &mut digits);
                let shown = Shown { cas, left_s: left_s(expires_s, now_s), ..Shown::default() };
                let length = flags.value.then_some(digits.len());
                out.encode(|out| line(b"HD", length, Some(shown)).encode(out));
                if flags.value {
                    digits.extend_from_slice(b"\r\n");
                    out.head(&digits);
                }
            }
            return None;
        }
        Outcome::Stored { cas } => {
            if !flags.quiet {
                let shown = Shown { cas, ..Shown::default() };
                out.encode(|out| line(b"HD", None, Some(shown)).encode(out));
            }
            return None;
        }
        Outcome::Miss => (b"EN", true),
        Outcome::Touched | Outcome::Deleted | Outcome::Done => (b"HD", true),
        Outcome::NotStored => (b"NS", false),
        Outcome::Exists => (b"EX", false),
        Outcome::NotFound | Outcome::Failed(_) if matches!(kind, Kind::MetaGet { .. }) => (b"EN", true),
        Outcome::NotFound => (b"NF", false),
        Outcome::NotNumber => {
            out.head(ErrorLine::NotNumber.line());
            return None;
        }
        Outcome::TooLarge => {
            out.head(ErrorLine::TooLarge.line());
            return None;
        }
        Outcome::Failed(why) => {
            fail(why, out);
            return None;
        }
    };
    if !(flags.quiet && expected) {
        out.encode(|out| line(code, None, None).encode(out));
    }
    None
}

/// Answers a meta get that has found an item. As [`meta`].
fn meta_item(key: &[u8], flags: Flags<'_>, item: Item, now_s: u32, out: &mut Output) -> Option<Vec<u8>> {
    let Item { flags: client, cas, expires_s, value, size, idle_s, fetched, binary, stale, won, taken } =
        item;
    let left_s = left_s(expires_s, now_s);
    let shown = Shown { cas, flags: client, left_s, idle_s, fetched, size, stale, won, taken };
    let length = flags.value.then_some(value.len());
    let key = shown_key(key, flags.base64, binary);
    let line = MetaAnswer { code: b"HD", length, key: &key, base64: binary, flags, shown: Some(shown) };
    out.encode(|out| line.encode(out));
    if flags.value { send_value(value, out) } else { Some(value) }
}

/// Key of an item, shown in base64 if it is `binary`, in whatever form the request had it.
fn shown_key(key: &[u8], base64: bool, binary: bool) -> Cow<'_, [u8]> {
    match (base64, binary) {
        (false, true) => BASE64_STANDARD.encode(key).into_bytes().into(),
        // The key was decoded on arrival.
        (true, false) => BASE64_STANDARD.decode(key).map_or(key.into(), Cow::from),
        _ => key.into(),
    }
}

fn debug(key: &[u8], base64: bool, outcome: Outcome, now_s: u32, out: &mut Output) -> Option<Vec<u8>> {
    let Outcome::Item(Item { cas, expires_s, value, size, idle_s, fetched, binary, .. }) = outcome else {
        out.head(b"EN\r\n");
        return None;
    };
    let expiry = left_s(expires_s, now_s).map_or("-1".into(), |left| left.to_string());
    let fetched = if fetched { "yes" } else { "no" };
    out.head(b"ME ");
    out.head(&shown_key(key, base64, binary));
    let rest = format!(" exp={expiry} la={idle_s} cas={cas} fetch={fetched} cls=1 size={size}\r\n");
    out.head(rest.as_bytes());
    Some(value)
}
