//! The memcached protocol, at the server's end: text commands and meta commands.
//!
//! ```text
//!   Line ─┬─ a command ─────────────────────────────────────────► Line
//!         ├─ get: Key, Key, ... (GetEnd) ───────────────────────► Line
//!         └─ set, ms: Store ─► Data, Data, ... ─► DataEnd ──────► Line
//! ```
//! Commands, answers and error lines are those of memcached 1.6.18 (its `doc/protocol.txt` and its behaviour). Deviations: a `get` line
//! longer than [`LINE_BYTES_MAX`] is answered key by key, so that an error late in it follows the values before it; client flags above 32
//! bits are refused instead of cut; times are not cut to 32 bits; a key that is not found is shown as the client sent it.
//!
//! Invariant: the fragmentation of the input changes only how data are split.

mod answer;
mod decoder;
mod meta;
mod text;

pub use answer::{ErrorLine, MetaAnswer, Shown, answer_number, answer_value_head};
pub use decoder::{DecodeError, Decoder};
pub use meta::{Flags, MetaFlag};

/// Longest key, as it stands in the command.
pub const KEY_BYTES_MAX: usize = 250;
/// Longest line, except of a `get`.
pub const LINE_BYTES_MAX: usize = 16 << 10;
/// Longest value that can be announced.
pub const VALUE_BYTES_MAX: u64 = i32::MAX as u64 - 2;
/// An expiry up to this many seconds is relative; a larger one is Unix time.
pub const RELATIVE_SECONDS_MAX: i64 = 60 * 60 * 24 * 30;

/// Variant of a `get`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetKind {
    /// True if answers show the items' versions: `gets`, `gats`.
    pub cas: bool,
    /// New expiry of the items: `gat`, `gats`.
    pub touch: Option<i64>,
}

/// Condition and position of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMode {
    /// Unconditional.
    #[default]
    Set,
    /// Only if the key is absent.
    Add,
    /// Only if the key is present.
    Replace,
    /// After the present value.
    Append,
    /// Before the present value.
    Prepend,
}

/// Head of a command with data: `set` and its variants, `ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// The key, verbatim.
    pub key: &'a [u8],
    /// Condition and position.
    pub mode: StoreMode,
    /// The client's flags.
    pub flags: u32,
    /// Expiry, verbatim.
    pub expiry: i64,
    /// Required version of the item.
    pub cas: Option<u64>,
    /// Bytes of the value, at most [`VALUE_BYTES_MAX`].
    pub length: u64,
    /// Form of the answer.
    pub style: Style<'a>,
    /// `ms` with I: if `cas` is older than the item, store anyway and mark the item stale.
    pub invalidate: bool,
    /// `ms` with N: append and prepend create a missing item, with this expiry.
    pub vivify: Option<i64>,
}

/// Form of the answer to a command that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style<'a> {
    /// A word.
    Text {
        /// True: no answer.
        noreply: bool,
    },
    /// Answer of a meta command with these flags.
    Meta(Flags<'a>),
}

/// `incr`, `decr`, `ma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    /// The key, verbatim.
    pub key: &'a [u8],
    /// Amount.
    pub delta: u64,
    /// True to subtract.
    pub decrement: bool,
    /// Value and expiry of a new item, if the key is absent.
    pub initial: Option<(u64, i64)>,
    /// New expiry of a present item.
    pub touch: Option<i64>,
    /// Required version of the item.
    pub cas: Option<u64>,
    /// Form of the answer.
    pub style: Style<'a>,
}

/// `delete`, `md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The key, verbatim.
    pub key: &'a [u8],
    /// Required version of the item.
    pub cas: Option<u64>,
    /// Instead of removing the item, mark it stale, optionally with a new expiry.
    pub invalidate: Option<Option<i64>>,
    /// Remove only the value, and set this expiry.
    pub emptied: Option<i64>,
    /// Form of the answer.
    pub style: Style<'a>,
}

/// `mg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaGet<'a> {
    /// The key, verbatim.
    pub key: &'a [u8],
    /// A new expiry.
    pub touch: Option<i64>,
    /// Create a missing item, with this expiry.
    pub vivify: Option<i64>,
    /// Tell one client to refill the item when fewer seconds are left.
    pub recache: Option<i64>,
    /// Flags, which define the answer.
    pub flags: Flags<'a>,
}

/// Message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A key of a `get`, `gets`, `gat` or `gats`.
    Key {
        /// Variant.
        kind: GetKind,
        /// The key.
        key: &'a [u8],
        /// True for the last key, whose answer is followed by `END`.
        last: bool,
    },
    /// The end of a `get` whose last key could not be marked as the last.
    GetEnd,
    /// Head of a store; data follow.
    Store(Store<'a>),
    /// The next bytes of the value.
    Data(&'a [u8]),
    /// The value is complete.
    DataEnd {
        /// True if a line end follows the value, as required.
        good: bool,
    },
    /// See [`Arithmetic`].
    Arithmetic(Arithmetic<'a>),
    /// See [`Delete`].
    Delete(Delete<'a>),
    /// `touch`.
    Touch {
        /// The key.
        key: &'a [u8],
        /// The new expiry.
        expiry: i64,
        /// True: no answer.
        noreply: bool,
    },
    /// See [`MetaGet`].
    MetaGet(MetaGet<'a>),
    /// `me`.
    MetaDebug {
        /// The key, verbatim.
        key: &'a [u8],
        /// The key is base64.
        base64: bool,
    },
    /// `mn`.
    MetaNoop,
    /// `flush_all`; without a delay, `delay` is 0.
    FlushAll {
        /// In this many seconds, or at this Unix time.
        delay: i64,
        /// True: no answer.
        noreply: bool,
    },
    /// `stats`, with its arguments.
    Stats(&'a [u8]),
    /// `verbosity`, which changes nothing.
    Verbosity {
        /// True: no answer.
        noreply: bool,
    },
    /// `version`.
    Version,
    /// `quit`.
    Quit,
    /// A rejected command.
    Refused {
        /// Error line to send.
        error: ErrorLine,
        /// True: no answer.
        noreply: bool,
        /// Bytes of data, and a line end, that follow and are dropped without events.
        dropped: Option<u64>,
    },
}

/// Converts an expiry to absolute seconds of a clock that reads `now_s`; 0: never; 1: already expired.
pub fn expires_s(expiry: i64, now_s: u32) -> u32 {
    let at = match expiry {
        0 => return 0,
        ..0 => 1,
        1..=RELATIVE_SECONDS_MAX => i64::from(now_s) + expiry,
        _ => expiry,
    };
    at.clamp(1, u32::MAX.into()) as u32
}
