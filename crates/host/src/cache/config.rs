//! Configuration of a cache manager, and its errors.

use pellucid_flash::Nanos;
use pellucid_setting::{Settings, Word};

/// Write policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum CacheMode {
    /// A write is acknowledged when the flash has it; the backing store gets it later.
    #[default]
    WriteBack,
    /// A write is acknowledged when the backing store has it; the cache keeps a clean copy.
    WriteThrough,
}

impl CacheMode {
    /// Returns the mode's name in descriptions and reports.
    pub fn name(self) -> &'static str {
        match self {
            CacheMode::WriteBack => "write-back",
            CacheMode::WriteThrough => "write-through",
        }
    }
}

/// Time at which the records of dirty blocks are written to a block drive, so that a restart finds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordWrites {
    /// Records are written with the next flush or forced write: an acknowledged write is durable once a later
    /// flush is.
    #[default]
    OnFlush,
    /// Records are written before each write is acknowledged, as FlashCache does. With `force`, data and
    /// record are forced to the media (force unit access), so every acknowledged write is durable. Without
    /// it, the drive must keep acknowledged writes over a power failure.
    EachWrite {
        /// Data and records are written with force unit access.
        force: bool,
    },
}

/// When the records of dirty blocks are written, as a description names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Records {
    /// [`RecordWrites::OnFlush`].
    OnFlush,
    /// [`RecordWrites::EachWrite`].
    EachWrite,
    /// [`RecordWrites::EachWrite`] with force unit access.
    EachForced,
}

impl From<Records> for RecordWrites {
    fn from(records: Records) -> RecordWrites {
        match records {
            Records::OnFlush => RecordWrites::OnFlush,
            Records::EachWrite => RecordWrites::EachWrite { force: false },
            Records::EachForced => RecordWrites::EachWrite { force: true },
        }
    }
}

/// Replacement policy for the clean blocks of a set on a block drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Replacement {
    /// Evicts a block that was not used since the clock hand passed.
    #[default]
    Clock,
    /// Evicts the oldest block, as FlashCache does by default: blocks cached together lie side by side.
    Fifo,
}

/// Drives that a flush of the host reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Flushes {
    /// Both drives: writes acknowledged before the flush are durable.
    #[default]
    Both,
    /// The flash alone: writes that bypassed it may be lost with the backing store's power.
    Flash,
    /// Neither drive, as in FlashCache, which refuses barriers (`flashcache_map`, `-EOPNOTSUPP`), so that
    /// file systems go on without them. A power cut loses the write cache of either drive.
    None,
}

/// Identity of the backing store that a cache belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreIdentity {
    /// Number that distinguishes stores of equal size. It must be identical at every start.
    pub id: u64,
    /// Name of the store for people; at most 128 bytes of it are kept.
    pub name: String,
}

/// Configuration of a cache between a flash namespace and a backing store.
#[derive(Clone, Debug, PartialEq, Eq, Settings)]
pub struct CacheConfig {
    /// Namespace of the flash: a block namespace, or a solid-state cache.
    #[setting(skip)]
    pub flash: u16,
    /// Block namespace of the backing store.
    #[setting(skip = 1)]
    pub backing: u16,
    /// Bytes of a sector of both drives.
    #[setting(skip = 4096)]
    pub sector_bytes: u32,
    /// Cache: a write is acknowledged when it is in flash (write-back), or on the backing store (write-through).
    #[setting(default = "write-back")]
    pub mode: CacheMode,
    /// Cache on a block drive: size of a cached block; a solid-state cache has its own.
    #[setting(kind = size(512, 1 << 20), default = 4096)]
    pub block_bytes: u32,
    /// Cache: blocks of a set (FlashCache: 512). On a block drive a block is cached only in its set. Dirty neighbours within a set are
    /// written back together.
    #[setting(key = "set", kind = whole(1, 1 << 16), default = 512)]
    pub set_blocks: u32,
    /// Cache on a block drive: time at which the record of a dirty block is written. on-flush: the next flush; each-write: before each
    /// write is acknowledged (FlashCache); each-forced: as each-write, with record and data forced to the media.
    #[setting(default = "on-flush", via = Records)]
    pub records: RecordWrites,
    /// Cache: length from which the rest of a sequential stream bypasses the cache; 0: never (FlashCache's default).
    #[setting(kind = size(0, 1 << 40), default = 0)]
    pub sequential_bytes: u64,
    /// Cache: percent of dirty blocks above which blocks are written back (FlashCache: 20).
    #[setting(key = "dirty", kind = whole(1, 99), default = 20)]
    pub dirty_percent: u32,
    /// Cache: time without a write to a region after which its dirty blocks are written back; 0: never (FlashCache: 15 minutes).
    #[setting(default = 900_000_000_000)]
    pub fallow: Nanos,
    /// Cache: write-backs under way below which the next dirty block and its dirty neighbours are written back (FlashCache: 4).
    #[setting(kind = few(1), default = 64)]
    pub clean_blocks: u32,
    /// Cache on a block drive: choice of the clean block of a set that is evicted (FlashCache: fifo).
    #[setting(default = "clock")]
    pub replacement: Replacement,
    /// Cache: the backing store is flushed before blocks that were written back count as clean (FlashCache: false).
    ///
    /// `false`: a power cut of the backing store loses cleaned blocks in its write cache, even flushed ones.
    #[setting(default = true)]
    pub flush_cleaned: bool,
    /// Cache: read misses and written-through writes are answered only when their copy is in the cache (FlashCache: true).
    ///
    /// FlashCache: `READFILL`, and a write of both drives in `flashcache_io_callback`; there both drives are written in parallel.
    #[setting(default = false)]
    pub await_fills: bool,
    /// Cache: drives that a flush of the host reaches: both, the cache drive (flash), or none (FlashCache refuses barriers). At a power
    /// cut, the others may lose acknowledged writes.
    ///
    /// A stop reaches both.
    #[setting(default = "both")]
    pub flushes: Flushes,
    /// Solid-state cache: its commands are durable when they are acknowledged. Otherwise they are durable
    /// after a flush, and the manager evicts all clean blocks after a crash.
    #[setting(skip)]
    pub durable_commands: bool,
    /// Identity of the backing store.
    #[setting(skip)]
    pub store: StoreIdentity,
    /// Number that no earlier cache on this flash had; it marks a new cache.
    #[setting(skip = 1)]
    pub nonce: u64,
    /// Make a new cache even if the flash holds data.
    #[setting(skip)]
    pub format: bool,
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig::usual()
    }
}

/// Reason that a cache cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// The flash cannot be a cache.
    #[error("namespace {0} cannot be a cache; allowed: a block namespace, a solid-state cache")]
    Flash(u16),
    /// The backing store is not a block namespace.
    #[error("namespace {0} cannot be the backing store of a cache; allowed: a block namespace")]
    Backing(u16),
    /// A setting is out of range.
    #[error("{key} = {value}: allowed: {allowed}")]
    Setting {
        /// Key of the setting.
        key: &'static str,
        /// Value of the setting.
        value: u64,
        /// Allowed values.
        allowed: String,
    },
    /// The flash is too small.
    #[error(
        "the cache drive has {sectors} sectors; allowed: at least {least}, for the head, a record sector and {blocks} blocks"
    )]
    TooSmall {
        /// Sectors of the flash.
        sectors: u64,
        /// Minimum sectors.
        least: u64,
        /// Minimum number of blocks in a cache.
        blocks: u64,
    },
    /// The address space of the solid-state cache is smaller than the backing store.
    #[error(
        "the solid-state cache addresses {addresses} sectors; allowed: at least {least}, those of the backing store and one block \
         for the head"
    )]
    AddressSpace {
        /// Addressable sectors of the solid-state cache.
        addresses: u64,
        /// Minimum sectors.
        least: u64,
    },
}
