//! Configuration of a cache manager, and its errors.

use pellucid_flash::Nanos;

/// Write policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
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

/// Replacement policy for the clean blocks of a set on a block drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Replacement {
    /// Evicts a block that was not used since the clock hand passed.
    #[default]
    Clock,
    /// Evicts the oldest block, as FlashCache does by default: blocks cached together lie side by side.
    Fifo,
}

/// Drives that a flush of the host reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Namespace of the flash: a block namespace, or a solid-state cache.
    pub flash: u16,
    /// Block namespace of the backing store.
    pub backing: u16,
    /// Write policy.
    pub mode: CacheMode,
    /// Bytes of a sector of both drives.
    pub sector_bytes: u32,
    /// Bytes of a cached block. A solid-state cache has its own block size.
    pub block_bytes: u32,
    /// Block backend: blocks in a set; a block can be cached only in the slots of one set (FlashCache: 512).
    pub set_blocks: u32,
    /// Block backend: time at which records are written.
    pub records: RecordWrites,
    /// Block backend: replacement policy.
    pub replacement: Replacement,
    /// Solid-state cache: its commands are durable when they are acknowledged. Otherwise they are durable
    /// after a flush, and the manager evicts all clean blocks after a crash.
    pub durable_commands: bool,
    /// Length from which a stream of consecutive requests bypasses the cache; 0 turns this off.
    pub sequential_bytes: u64,
    /// Share of the cache that may be dirty before cleaning begins, in percent (FlashCache: 20).
    pub dirty_percent: u32,
    /// Time without writes after which the dirty blocks of a region are cleaned; 0 turns this off
    /// (FlashCache: 15 minutes).
    pub fallow: Nanos,
    /// Number of blocks under cleaning below which another run begins.
    pub clean_blocks: u32,
    /// Flush the backing store before copied blocks count as clean. `false`, as in FlashCache: a power cut of
    /// the backing store loses cleaned blocks in its write cache, even flushed ones.
    pub flush_cleaned: bool,
    /// Answer a read miss, and a write-through write, only after the cache has its copy, as in FlashCache
    /// (`READFILL`, and a write of both drives in `flashcache_io_callback`; there both drives are written in
    /// parallel). `false`: answer before.
    pub await_fills: bool,
    /// Drives that a flush reaches; a stop reaches both.
    pub flushes: Flushes,
    /// Identity of the backing store.
    pub store: StoreIdentity,
    /// Number that no earlier cache on this flash had; it marks a new cache.
    pub nonce: u64,
    /// Make a new cache even if the flash holds data.
    pub format: bool,
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig {
            flash: 0,
            backing: 1,
            mode: CacheMode::WriteBack,
            sector_bytes: 4096,
            block_bytes: 4096,
            set_blocks: 512,
            records: RecordWrites::OnFlush,
            replacement: Replacement::Clock,
            durable_commands: false,
            sequential_bytes: 0,
            dirty_percent: 20,
            fallow: Nanos::from_secs(15 * 60),
            clean_blocks: 64,
            flush_cleaned: true,
            await_fills: false,
            flushes: Flushes::Both,
            store: StoreIdentity::default(),
            nonce: 1,
            format: false,
        }
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
