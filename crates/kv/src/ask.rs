//! Requests to the cache, and its answers.

use pellucid_flash::SimTime;
use std::fmt;

/// A key: 1 to [`Key::BYTES_MAX`] bytes. Short ones are kept in place, because requests are moved often: with room for the longest key in each,
/// these moves were a tenth of what a request costs.
#[derive(Clone)]
pub struct Key(Bytes);

#[derive(Clone)]
enum Bytes {
    Short { length: u8, bytes: [u8; SHORT_BYTES_MAX] },
    Long(Box<[u8]>, bool),
}

/// A key of a cache line, with its length and which of the two it is.
const SHORT_BYTES_MAX: usize = 62;
/// Bit of the length: the key is binary.
const BINARY: u8 = 1 << 7;

impl Key {
    /// The longest key: memcached's limit.
    pub const BYTES_MAX: usize = 250;

    /// Creates a key of these bytes; `None` if there are none or too many.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Key> {
        if bytes.is_empty() || bytes.len() > Key::BYTES_MAX {
            return None;
        }
        if bytes.len() > SHORT_BYTES_MAX {
            return Some(Key(Bytes::Long(bytes.into(), false)));
        }
        let mut short = [0; SHORT_BYTES_MAX];
        short[..bytes.len()].copy_from_slice(bytes);
        Some(Key(Bytes::Short { length: bytes.len() as u8, bytes: short }))
    }

    /// Marks the key as named in base64, so that an item stored under it is shown in base64 ([`Item::binary`]).
    #[must_use]
    pub fn named(mut self, binary: bool) -> Key {
        match &mut self.0 {
            Bytes::Short { length, .. } => *length = *length & !BINARY | if binary { BINARY } else { 0 },
            Bytes::Long(_, is_binary) => *is_binary = binary,
        }
        self
    }

    /// Returns true if a client named the key in base64.
    #[inline]
    pub fn is_binary(&self) -> bool {
        match &self.0 {
            Bytes::Short { length, .. } => length & BINARY != 0,
            Bytes::Long(_, binary) => *binary,
        }
    }

    /// Its bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short { length, bytes } => &bytes[..usize::from(length & !BINARY)],
            Bytes::Long(bytes, _) => bytes,
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Key {}

impl Default for Key {
    /// No key: of no bytes.
    fn default() -> Key {
        Key(Bytes::Short { length: 0, bytes: [0; SHORT_BYTES_MAX] })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.as_bytes().escape_ascii())
    }
}

/// One request.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// The caller's name for it; comes back with the answer.
    pub tag: u32,
    /// Seconds of the clock that expiry is counted in: wall seconds from a server, simulated ones in virtual time. Above 0.
    pub time_s: u32,
    /// The key; of no meaning with [`What::FlushAll`].
    pub key: Key,
    /// Request.
    pub what: What,
}

/// Operation on a key.
///
/// Expiry is in absolute seconds of the clock of [`Ask::time_s`]; 0: never. An expiry that has passed already makes the item gone at once.
#[derive(Clone, Debug)]
pub enum What {
    /// Answers [`Outcome::Item`] or [`Outcome::Miss`].
    Get(Get),
    /// Sets a new expiry without reading the item. Answers [`Outcome::Touched`] or [`Outcome::NotFound`].
    Touch {
        /// The new expiry.
        expires_s: u32,
    },
    /// Answers [`Outcome::Stored`], `NotStored`, `Exists`, `NotFound` (with a `cas`), `TooLarge` or `Failed`.
    Store(Store),
    /// Adds to, or subtracts from, a number in decimal digits. Answers [`Outcome::Number`], `NotFound`, `NotNumber`, `Exists`,
    /// `NotStored` or `Failed`.
    Arithmetic {
        /// By how much; an increment wraps around at 64 bits, a decrement ends at 0.
        delta: u64,
        /// Subtract.
        decrement: bool,
        /// Value and expiry of a new item if there is none.
        initial: Option<(u64, u32)>,
        /// A new expiry for an item that is there.
        touch: Option<u32>,
        /// Only if the item has this version.
        cas: Option<u64>,
    },
    /// Answers [`Outcome::Deleted`], `NotFound` or `Exists`.
    Delete {
        /// Only if the item has this version.
        cas: Option<u64>,
        /// Instead of removing it, mark the item stale; `Some(Some(expiry))` sets its expiry, too.
        invalidate: Option<Option<u32>>,
        /// Instead of removing it, leave an item without value and flags, with this expiry. May be [`Outcome::Failed`].
        emptied: Option<u32>,
    },
    /// Everything stored before is gone. Answers [`Outcome::Done`].
    FlushAll {
        /// When; in the future: everything stored before that moment goes at that moment. 0: now.
        at_s: u32,
    },
}

impl Default for What {
    fn default() -> What {
        What::Get(Get::default())
    }
}

/// The details of a get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Get {
    /// A new expiry on a hit.
    pub touch: Option<u32>,
    /// Leave the value out: the answer says everything else, and less is read from flash.
    pub without_value: bool,
    /// On a miss, make an empty item with this expiry and tell the caller to fill it (`won`).
    pub vivify: Option<u32>,
    /// Tell the first caller to refill the item (`won`) if fewer than this many seconds of its life are left.
    pub recache_s: Option<u32>,
}

/// How a value is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Whatever is there.
    #[default]
    Set,
    /// Only if there is no item.
    Add,
    /// Only where something is there.
    Replace,
    /// Behind the value that is there.
    Append,
    /// Before the value that is there.
    Prepend,
}

/// The details of a store.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// How.
    pub mode: Mode,
    /// The client's flags; append and prepend keep those that are there.
    pub flags: u32,
    /// Expiry; append and prepend keep the one that is there.
    pub expires_s: u32,
    /// Only if the item has this version.
    pub cas: Option<u64>,
    /// If `cas` is older than the item: store anyway, mark the item stale, and keep its expiry.
    pub invalidate: bool,
    /// Append and prepend: make an item with this expiry if there is none.
    pub vivify: Option<u32>,
    /// The value. From [`Kv::buffer`](crate::Kv::buffer), so that nothing is allocated.
    pub value: Vec<u8>,
}

/// One answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The name of the request.
    pub tag: u32,
    /// When it was answered.
    pub at: SimTime,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A hit.
    Item(Item),
    /// A get found nothing.
    Miss,
    /// Stored, as this version.
    Stored {
        /// The version.
        cas: u64,
    },
    /// The condition of an add or a replace does not hold.
    NotStored,
    /// The item has another version.
    Exists,
    /// There is no such item.
    NotFound,
    /// The item has its new expiry.
    Touched,
    /// The item is gone, or marked stale.
    Deleted,
    /// The number after the change.
    Number {
        /// The number.
        value: u64,
        /// The version.
        cas: u64,
        /// Expiry.
        expires_s: u32,
        /// There was no such item: it was made.
        created: bool,
    },
    /// The value is no number.
    NotNumber,
    /// The item is larger than a slab, or than `item_max_bytes`.
    TooLarge,
    /// A flush is done, or planned.
    Done,
    /// The flash cannot do it; the text of memcached's `SERVER_ERROR`.
    Failed(&'static str),
}

/// An item as a get finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// The client's flags.
    pub flags: u32,
    /// Version.
    pub cas: u64,
    /// Expiry.
    pub expires_s: u32,
    /// The value; empty where it was not wanted. Give it back with [`Kv::give_back`](crate::Kv::give_back).
    pub value: Vec<u8>,
    /// Bytes of the value.
    pub size: u32,
    /// Seconds since it was last asked for; counted up to 6 days.
    pub idle_s: u32,
    /// True if it was asked for before.
    pub fetched: bool,
    /// Its key was named in base64 when it was stored.
    pub binary: bool,
    /// It is marked stale.
    pub stale: bool,
    /// Flag: this caller must refill the item.
    pub won: bool,
    /// Another client was told to fill it anew.
    pub taken: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_bytes_however_long_it_is() {
        let text = [b'k'; Key::BYTES_MAX + 1];
        for length in [1, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 1, Key::BYTES_MAX] {
            let key = Key::new(&text[..length]).expect("an allowed length");
            assert_eq!((key.as_bytes(), &key.clone()), (&text[..length], &key));
            let binary = key.clone().named(true);
            assert_eq!((binary.as_bytes(), &binary, binary.is_binary()), (&text[..length], &key, true));
            assert!(!binary.named(false).is_binary() && !key.is_binary());
            assert_ne!(Some(key), Key::new(&text[..length - 1]));
        }
        assert!(Key::new(&text).is_none() && Key::new(&[]).is_none());
        assert_eq!(size_of::<Key>(), 64);
    }
}
