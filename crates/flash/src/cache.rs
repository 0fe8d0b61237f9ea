//! A solid-state cache (SSC): the parts of a cache namespace, and the guarantees of its commands.
//!
//! A cache namespace holds blocks of a larger backing store under their addresses there. A cached block is *clean* (the backing
//! store has the same data) or *dirty* (only the cache has them).
//!
//! | command | what it does |
//! |---|---|
//! | `Read` | returns the data, or ends with `Absent` and transfers nothing if any block of it is not cached |
//! | `WriteClean` | caches data that the backing store has, too: the block becomes clean |
//! | `WriteDirty` | caches data that only the cache has: the block becomes dirty |
//! | `Evict` | the blocks become absent, dirty ones too |
//! | `Clean` | dirty blocks become clean: the backing store has them now |
//! | `Exists` | tells the state of blocks, and where the next dirty one is |
//! | `Flush` | makes everything acknowledged before it durable |
//!
//! The promises:
//!
//! - A dirty block stays, with its newest data, until the host overwrites, cleans or evicts it.
//! - A clean block may become absent at any time without notice (*silent eviction*). Until then reads return its newest data.
//! - An overwritten or evicted version never reappears; this holds across power cuts once the overwrite or the eviction is
//!   durable.
//! - Acknowledged commands are durable at once or with the next flush, depending on the drive's durability mode.

use crate::Effect;

/// Command that only a cache has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheOp {
    /// Write blocks that the backing store has, too; they become clean.
    WriteClean,
    /// Write blocks that only the cache has; they become dirty.
    WriteDirty,
    /// Make blocks absent, dirty ones too. [`Completion::result`](crate::Completion::result) is how many were there.
    Evict,
    /// The backing store has these blocks now: dirty ones become clean. [`Completion::result`](crate::Completion::result) is how many were
    /// dirty.
    Clean,
    /// The state of each block, a byte ([`CacheState`]) for each in the completion's `data`. [`Completion::result`](crate::Completion::result)
    /// is the first sector of the first dirty block at or behind `lba`, anywhere in the address space, or [`CacheGeometry::NO_DIRTY`].
    /// `sectors` may be 0: then only that is told.
    Exists,
}

impl CacheOp {
    /// Returns the effect of the command.
    #[inline]
    pub fn effect(self) -> Effect {
        match self {
            CacheOp::WriteClean | CacheOp::WriteDirty => Effect::Writes,
            CacheOp::Evict | CacheOp::Clean => Effect::Erases,
            CacheOp::Exists => Effect::Asks,
        }
    }
}

/// Shape of a cache namespace. Commands address blocks: `lba` and `sectors` are multiples of `unit_sectors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheGeometry {
    /// Sectors of the sparse address space: those of the largest backing store.
    pub address_sectors: u64,
    /// Sectors of a cached block.
    pub unit_sectors: u32,
    /// Blocks that can be cached at the same time, at most.
    pub units: u64,
}

/// State of a block, as `Exists` returns it: one byte for each block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CacheState {
    /// Block that is not cached.
    #[default]
    Absent = 0,
    /// Cached; the backing store has the same data.
    Clean = 1,
    /// Cached; only the cache has the data.
    Dirty = 2,
}

impl CacheState {
    /// From the byte of an answer; `None` for a byte that means nothing.
    pub fn from_raw(raw: u8) -> Option<CacheState> {
        [CacheState::Absent, CacheState::Clean, CacheState::Dirty]
            .into_iter()
            .find(|state| *state as u8 == raw)
    }
}

impl CacheGeometry {
    /// [`Completion::result`](crate::Completion::result) of an `Exists` behind whose first block there is no dirty one.
    pub const NO_DIRTY: u64 = u64::MAX;
}
