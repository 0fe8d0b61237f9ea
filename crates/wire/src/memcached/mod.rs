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
//! Invariant: how the input is cut into pieces changes nothing but where data are cut.

mod answer;
mod decoder;
mod meta;
mod text;

pub use answer::{ErrorLine, MetaAnswer, Shown, answer_number, answer_value_head};
pub use decoder::{DecodeError, Decoder};
pub use meta::{Flags, MetaFlag};

/// The longest key, as it stands in the command.
pub const KEY_BYTES_MAX: usize = 250;
/// The longest line, except of a `get`.
pub const LINE_BYTES_MAX: usize = 16 << 10;
/// The longest value that can be announced.
pub const VALUE_BYTES_MAX: u64 = i32::MAX as u64 - 2;
/// An expiry up to this many seconds counts from now; a greater one is Unix time.
pub const RELATIVE_SECONDS_MAX: i64 = 60 * 60 * 24 * 30;

/// How a `get` is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetKind {
    /// The answers show the version of items: `gets`, `gats`.
    pub cas: bool,
    /// Items get this expiry: `gat`, `gats`.
    pub touch: Option<i64>,
}

/// When a value is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMode {
    /// Always.
    #[default]
    Set,
    /// Where nothing is there.
    Add,
    /// Where something is there.
    Replace,
    /// Behind what is there.
    Append,
    /// Before what is there.
    Prepend,
}

/// The head of a command with data: `set` and its kin, `ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// The key as it came.
    pub key: &'a [u8],
    /// When it is stored.
    pub mode: StoreMode,
    /// The client's flags.
    pub flags: u32,
    /// Expiry as it came.
    pub expiry: i64,
    /// Only if the item has this version.
    pub cas: Option<u64>,
    /// Bytes of the value, at most [`VALUE_BYTES_MAX`].
    pub length: u64,
    /// How it is answered.
    pub style: Style<'a>,
    /// `ms` with I: where `cas` is older than the item, store all the same and mark the item stale.
    pub invalidate: bool,
    /// `ms` with N: append and prepend make an item with this expiry.
    pub vivify: Option<i64>,
}

/// How a command that changes something is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style<'a> {
    /// With a word.
    Text {
        /// No answer is wanted.
        noreply: bool,
    },
    /// Answer of a meta command with these flags.
    Meta(Flags<'a>),
}

/// `incr`, `decr`, `ma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    /// The key as it came.
    pub key: &'a [u8],
    /// By how much.
    pub delta: u64,
    /// Subtract.
    pub decrement: bool,
    /// Value and expiry of a new item where there is none.
    pub initial: Option<(u64, i64)>,
    /// A new expiry for an item that is there.
    pub touch: Option<i64>,
    /// Only if the item has this version.
    pub cas: Option<u64>,
    /// How it is answered.
    pub style: Style<'a>,
}

/// `delete`, `md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The key as it came.
    pub key: &'a [u8],
    /// Only if the item has this version.
    pub cas: Option<u64>,
    /// Mark the item stale, perhaps with a new expiry, instead of removing it.
    pub invalidate: Option<Option<i64>>,
    /// Remove only the value, and set this expiry.
    pub emptied: Option<i64>,
    /// How it is answered.
    pub style: Style<'a>,
}

/// `mg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaGet<'a> {
    /// The key as it came.
    pub key: &'a [u8],
    /// A new expiry.
    pub touch: Option<i64>,
    /// Make an item with this expiry where there is none.
    pub vivify: Option<i64>,
    /// One client is told to fill it anew when fewer seconds are left.
    pub recache: Option<i64>,
    /// How it is answered.
    pub flags: Flags<'a>,
}

/// Message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A key of a `get`, `gets`, `gat` or `gats`.
    Key {
        /// How they are answered.
        kind: GetKind,
        /// The key.
        key: &'a [u8],
        /// The last one: its answer is followed by `END`.
        last: bool,
    },
    /// The end of a `get` whose last key was not known to be the last.
    GetEnd,
    /// Data follow.
    Store(Store<'a>),
    /// The next bytes of the value.
    Data(&'a [u8]),
    /// The value is complete; `good`: a line end follows it, as it must.
    DataEnd {
        /// See above.
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
        /// No answer is wanted.
        noreply: bool,
    },
    /// See [`MetaGet`].
    MetaGet(MetaGet<'a>),
    /// `me`.
    MetaDebug {
        /// The key as it came.
        key: &'a [u8],
        /// The key is base64.
        base64: bool,
    },
    /// `mn`.
    MetaNoop,
    /// `flush_all`; without `delay` now.
    FlushAll {
        /// In this many seconds, or at this Unix time.
        delay: i64,
        /// No answer is wanted.
        noreply: bool,
    },
    /// `stats`, with its arguments.
    Stats(&'a [u8]),
    /// `verbosity`, which changes nothing.
    Verbosity {
        /// No answer is wanted.
        noreply: bool,
    },
    /// `version`.
    Version,
    /// `quit`.
    Quit,
    /// A command that makes no sense.
    Refused {
        /// Error to answer.
        error: ErrorLine,
        /// The error is not reported.
        noreply: bool,
        /// Bytes of data, and a line end, that follow and are dropped without events.
        dropped: Option<u64>,
    },
}

/// An expiry as it came, in absolute seconds of a clock that is at `now_s`; 0: never. What has passed already is 1.
pub fn expires_s(expiry: i64, now_s: u32) -> u32 {
    let at = match expiry {
        0 => return 0,
        ..0 => 1,
        1..=RELATIVE_SECONDS_MAX => i64::from(now_s) + expiry,
        _ => expiry,
    };
    at.clamp(1, u32::MAX.into()) as u32
}
