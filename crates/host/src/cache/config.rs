//! What a cache manager is told, and why it cannot work so.

use pellucid_flash::Nanos;

/// What happens to writes.
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
    /// Its name in descriptions and reports.
    pub fn name(self) -> &'static str {
        match self {
            CacheMode::WriteBack => "write-back",
            CacheMode::WriteThrough => "write-through",
        }
    }
}

/// When the records of dirty blocks are written to a block drive, so that a restart finds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordWrites {
    /// With the next flush or forced write: an acknowledged write is durable when the flush after it is.
    #[default]
    OnFlush,
    /// Before each write is acknowledged, as FlashCache does. `force`: data and record are forced to the media (force unit access), so
    /// every acknowledged write is durable. Without it the drive must keep what it acknowledged when its power fails.
    EachWrite {
        /// See above.
        force: bool,
    },
}

/// Which clean block of a set makes room on a block drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Replacement {
    /// One that was not used since the clock's hand passed.
    #[default]
    Clock,
    /// The one that came first, as FlashCache does by default: blocks that came together lie side by side.
    Fifo,
}

/// Which drives a flush of the host reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Flushes {
    /// Both: what is acknowledged behind it is durable.
    #[default]
    Both,
    /// The flash alone: what went past it to the backing store may be lost with the power of that.
    Flash,
    /// None, as in FlashCache, which refuses barriers (`flashcache_map`, `-EOPNOTSUPP`), so that file systems go on without them. A power cut
    /// loses what either drive has in its write cache.
    None,
}

/// Which backing store a cache belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreIdentity {
    /// Tells it from others of the same size. It must be the same at every start.
    pub id: u64,
    /// The same for people: at most 128 bytes of it are kept.
    pub name: String,
}

/// A cache between a flash namespace and a backing store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// The namespace of the flash: a block namespace, or a solid-state cache.
    pub flash: u16,
    /// The block namespace of the backing store.
    pub backing: u16,
    /// What happens to writes.
    pub mode: CacheMode,
    /// Bytes of a sector of both drives.
    pub sector_bytes: u32,
    /// Bytes of a cached block. A solid-state cache has its own.
    pub block_bytes: u32,
    /// Block backend: blocks of a set; a block can be cached in the slots of one set only (FlashCache: 512).
    pub set_blocks: u32,
    /// Block backend: when records are written.
    pub records: RecordWrites,
    /// Block backend: which block makes room.
    pub replacement: Replacement,
    /// Solid-state cache: its commands are durable when they are acknowledged. Without this they are after a flush, and after a crash
    /// the manager evicts all clean blocks.
    pub durable_commands: bool,
    /// A stream of consecutive requests bypasses the cache once it is so long; 0: never.
    pub sequential_bytes: u64,
    /// Share of the cache that may be dirty before blocks are cleaned, in percent (FlashCache: 20).
    pub dirty_percent: u32,
    /// Dirty blocks in a region that was not written for so long are cleaned; 0: never (FlashCache: 15 minutes).
    pub fallow: Nanos,
    /// While fewer blocks are being cleaned, another run of them is begun.
    pub clean_blocks: u32,
    /// The backing store is flushed before what was copied to it counts as clean. `false`, as FlashCache: a power cut of the backing store
    /// loses cleaned blocks that it had in its write cache, flushed ones too.
    pub flush_cleaned: bool,
    /// A read that missed, and a write that goes through, are answered when the cache has its copy, as in FlashCache (`READFILL` and a write of
    /// both drives in `flashcache_io_callback`; there the two writes of a write run side by side). `false`: before.
    pub await_fills: bool,
    /// Which drives a flush reaches; a stop reaches both.
    pub flushes: Flushes,
    /// The backing store.
    pub store: StoreIdentity,
    /// A number that no earlier cache on this flash had; a new cache is marked with it.
    pub nonce: u64,
    /// Make a new cache whatever the flash holds.
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

/// Why there can be no cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// The flash cannot be a cache.
    #[error("namespace {0} cannot be a cache; allowed: a block namespace, a solid-state cache")]
    Flash(u16),
    /// The backing store is no block namespace.
    #[error("namespace {0} cannot be the backing store of a cache; allowed: a block namespace")]
    Backing(u16),
    /// A setting does not fit.
    #[error("{key} = {value}: allowed: {allowed}")]
    Setting {
        /// Its name.
        key: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        allowed: String,
    },
    /// The flash is too small.
    #[error(
        "the cache drive has {sectors} sectors; allowed: at least {least}, for the head, a record sector and {blocks} blocks"
    )]
    TooSmall {
        /// What it has.
        sectors: u64,
        /// What is needed.
        least: u64,
        /// Blocks that a cache has at least.
        blocks: u64,
    },
    /// The address space of the solid-state cache is smaller than the backing store.
    #[error(
        "the solid-state cache addresses {addresses} sectors; allowed: at least {least}, those of the backing store and one block \
         for the head"
    )]
    AddressSpace {
        /// What it has.
        addresses: u64,
        /// What is needed.
        least: u64,
    },
}
