//! `host.cache.*`: a cache manager over the drive's first namespace and the disk of `[backing]`.

use super::draft::{Draft, Layer};
use super::error::SpecError;
use super::resolve_backing::BackingKind;
use super::schema::Fallback::{Flag, Whole, Word};
use super::schema::{Kind, TIME, Values, few, keys, word};
use pellucid_device::{Guarantee, Namespace};
use pellucid_host::{CacheConfig, CacheMode, Flushes, LayerConfig, RecordWrites, Replacement};
use pellucid_text::Quantity;
use strum::{EnumString, VariantNames};

const BLOCK: Kind = Kind::Unit(Quantity::Size, 512, 1 << 20);
const STREAM: Kind = Kind::Unit(Quantity::Size, 0, 1 << 40);

/// When the records of dirty blocks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Records {
    OnFlush,
    EachWrite,
    EachForced,
}

impl Records {
    fn writes(self) -> RecordWrites {
        match self {
            Records::OnFlush => RecordWrites::OnFlush,
            Records::EachWrite => RecordWrites::EachWrite { force: false },
            Records::EachForced => RecordWrites::EachWrite { force: true },
        }
    }
}

keys! {
    "host.cache.mode": word::<CacheMode>(), Word("write-back") => cache.mode,
        "Cache: a write is acknowledged when the flash has it (write-back), or when the backing store has it (write-through)";
    "host.cache.block": BLOCK, Whole(4096) => cache.block_bytes,
        "Cache on a block drive: bytes of a cached block; a solid-state cache has its own";
    "host.cache.set": Kind::Whole(1, 1 << 16), Whole(512) => cache.set_blocks,
        "Cache on a block drive: blocks of a set; a block is cached in one set only (FlashCache: 512)";
    "host.cache.records": word::<Records>(), Word("on-flush") => cache_records,
        "Cache on a block drive: when the record of a dirty block is written. on-flush: with the next flush; each-write: before each write is \
         acknowledged (FlashCache); each-forced: likewise, and record and data are forced to the media";
    "host.cache.sequential": STREAM, Whole(0) => cache.sequential_bytes,
        "Cache: what makes a sequential stream as long as this, and what follows, bypasses the cache; 0: nothing does (FlashCache's default)";
    "host.cache.dirty": Kind::Whole(1, 99), Whole(20) => cache.dirty_percent,
        "Cache: percent of dirty blocks above which blocks are written back (FlashCache: 20)";
    "host.cache.fallow": TIME, Whole(900_000_000_000) => cache.fallow,
        "Cache: dirty blocks are written back after their region had no write for this time; 0: never (FlashCache: 15 minutes)";
    "host.cache.clean_blocks": few(1), Whole(64) => cache.clean_blocks,
        "Cache: while fewer blocks than this are being written back, another run of them is begun";
    "host.cache.replacement": word::<Replacement>(), Word("clock") => cache.replacement,
        "Cache on a block drive: which clean block of a set is evicted (FlashCache: fifo)";
    "host.cache.flush_cleaned": Kind::Flag, Flag(true) => cache.flush_cleaned,
        "Cache: the backing store is flushed before what was written back counts as clean (FlashCache: false)";
    "host.cache.await_fills": Kind::Flag, Flag(false) => cache.await_fills,
        "Cache: a read that missed, and a write that goes through, are answered when the cache has its copy (FlashCache: true)";
    "host.cache.flushes": word::<Flushes>(), Word("both") => cache.flushes,
        "Cache: which drives a flush of the host reaches: both, the cache drive (flash), or none (FlashCache refuses barriers). What is not \
         reached may lose acknowledged writes at a power cut";
}

/// The cache of the description: it is the only layer, and has a disk behind it.
pub(crate) fn layer(draft: &Draft, values: &Values) -> Result<LayerConfig, SpecError> {
    if draft.layers.as_slice() != [Layer::Cache] {
        return Err(values.refuse("host.layers", "cache without other layers"));
    }
    if draft.backing_kind != BackingKind::Disk {
        return Err(values.refuse("host.layers", "cache where backing.kind = \"disk\""));
    }
    let namespaces = &draft.drive.namespaces;
    let is_durable = |namespace: &Namespace| matches!(namespace, Namespace::Cache { cache, .. } if cache.guarantee == Guarantee::WriteDirty);
    Ok(LayerConfig::Cache(CacheConfig {
        backing: namespaces.len().max(1) as u16,
        sector_bytes: draft.drive.media.geometry.sector_bytes,
        records: draft.cache_records.writes(),
        durable_commands: namespaces.first().is_some_and(is_durable),
        ..draft.cache.clone()
    }))
}
