//! Requests to the cache, and its answers.

use pellucid_flash::SimTime;
use std::fmt;

/// A key: 1 to [`Key::BYTES_MAX`] bytes. Short ones are stored inline, because requests are moved often: with room for the longest key in each, these
/// moves took a tenth of a request's cost.
#[derive(Clone)]
pub struct Key(Bytes);

#[derive(Clone)]
enum Bytes {
    Short { length: u8, bytes: [u8; SHORT_BYTES_MAX] },
    Long(Box<[u8]>, bool),
}

/// Longest inline key; with its length and the enum tag it fills a cache line.
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
    /// The empty key, which no request has.
    fn default() -> Key {
        Key(Bytes::Short { length: 0, bytes: [0; SHORT_BYTES_MAX] })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.as_bytes().escape_ascii())
    }
}

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// The caller's tag; returned with the answer.
    pub tag: u32,
    /// Seconds on the clock of expiry: wall seconds in a server, simulated ones in virtual time. Above 0.
    pub time_s: u32,
    /// The key; ignored by [`What::FlushAll`].
    pub key: Key,
    /// Operation.
    pub what: What,
}

/// Operation on a key.
///
/// Expiry is in absolute seconds of [`Ask::time_s`]; 0: never. A past expiry makes the item disappear at once.
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
    /// Adds to, or subtracts from, a decimal number. Answers [`Outcome::Number`], `NotFound`, `NotNumber`, `Exists`, `NotStored` or `Failed`.
    Arithmetic {
        /// Amount; an increment wraps around at 64 bits, a decrement stops at 0.
        delta: u64,
        /// True to subtract.
        decrement: bool,
        /// Value and expiry of a new item if there is none.
        initial: Option<(u64, u32)>,
        /// New expiry of an existing item.
        touch: Option<u32>,
        /// Required version of the item.
        cas: Option<u64>,
    },
    /// Answers [`Outcome::Deleted`], `NotFound` or `Exists`.
    Delete {
        /// Required version of the item.
        cas: Option<u64>,
        /// Instead of removing the item, mark it stale; `Some(Some(expiry))` also sets its expiry.
        invalidate: Option<Option<u32>>,
        /// Instead of removing the item, drop its value and flags, and set this expiry. May be [`Outcome::Failed`].
        emptied: Option<u32>,
    },
    /// Drops everything stored earlier. Answers [`Outcome::Done`].
    FlushAll {
        /// Time; if in the future, everything stored before that time is dropped then. 0: now.
        at_s: u32,
    },
}

impl Default for What {
    fn default() -> What {
        What::Get(Get::default())
    }
}

/// Options of a get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Get {
    /// New expiry on a hit.
    pub touch: Option<u32>,
    /// Omit the value: the answer has everything else, and less is read from flash.
    pub without_value: bool,
    /// On a miss, create an empty item with this expiry and tell the caller to fill it (`won`).
    pub vivify: Option<u32>,
    /// Tell the first caller to refill the item (`won`) if it expires in fewer than this many seconds.
    pub recache_s: Option<u32>,
}

/// Condition and position of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
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

/// Options of a store.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// Condition and position.
    pub mode: Mode,
    /// The client's flags; append and prepend keep the present ones.
    pub flags: u32,
    /// Expiry; append and prepend keep the present one.
    pub expires_s: u32,
    /// Required version of the item.
    pub cas: Option<u64>,
    /// If `cas` is older than the item: store anyway, mark the item stale, and keep its expiry.
    pub invalidate: bool,
    /// Append and prepend create a missing item, with this expiry.
    pub vivify: Option<u32>,
    /// The value, in a buffer of [`Kv::buffer`](crate::Kv::buffer), so that nothing is allocated.
    pub value: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Tag of the request.
    pub tag: u32,
    /// Time of the answer.
    pub at: SimTime,
    /// Result.
    pub outcome: Outcome,
}

/// Result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A hit.
    Item(Item),
    /// A get found no item.
    Miss,
    /// The item was stored.
    Stored {
        /// Its version.
        cas: u64,
    },
    /// The condition of an add or a replace does not hold.
    NotStored,
    /// The item has another version.
    Exists,
    /// There is no such item.
    NotFound,
    /// The item's expiry was set.
    Touched,
    /// The item was removed or marked stale.
    Deleted,
    /// The number was changed.
    Number {
        /// New value.
        value: u64,
        /// Version.
        cas: u64,
        /// Expiry.
        expires_s: u32,
        /// True if the item was missing and was created.
        created: bool,
    },
    /// The value is not a number.
    NotNumber,
    /// The item is larger than a slab, or than `item_max_bytes`.
    TooLarge,
    /// The flush is done or scheduled.
    Done,
    /// The flash cannot execute the request; the text of memcached's `SERVER_ERROR`.
    Failed(&'static str),
}

/// An item that a get found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// The client's flags.
    pub flags: u32,
    /// Version.
    pub cas: u64,
    /// Expiry.
    pub expires_s: u32,
    /// The value; empty if omitted. Return it with [`Kv::give_back`](crate::Kv::give_back).
    pub value: Vec<u8>,
    /// Bytes of the value.
    pub size: u32,
    /// Seconds since the last access, at most 6 days.
    pub idle_s: u32,
    /// True if it was accessed before.
    pub fetched: bool,
    /// True if its key was given in base64 when it was stored.
    pub binary: bool,
    /// True if it is stale.
    pub stale: bool,
    /// True if this caller must refill the item.
    pub won: bool,
    /// True if another client was told to refill it.
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
