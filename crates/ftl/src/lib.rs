//! Translation: maps logical pages to addresses, and chooses where the next page is written and which block is
//! emptied next.
//!
//! Pure state and decisions: this crate holds no data, reads no clock and does no I/O. The drive runs it below the
//! interface; a host FTL runs the same engine above an open-channel drive.

mod block_manager;
mod cached;
mod cached_pages;
mod checkpoint_pace;
mod chunk_refresh;
mod chunks;
mod config;
mod counters;
mod demand;
mod die_set;
mod gc;
mod handles;
mod log_block;
mod map_writes;
mod mapping_table;
mod mount;
mod nameless;
mod nameless_machine;
mod outdated;
mod pace;
mod page_map;
mod policy;
mod pool;
mod setup_error;
mod spare;
mod sparse;
mod sparse_map;
mod temperature;
mod translation;
mod translation_pages;
mod turned_away;
mod upkeep;
mod valid_units;
mod victim;
mod victims;
mod zone_config;
mod zone_mark;
mod zone_mount;
mod zones;

pub use cached::Cached;
pub use cached_pages::CachedPages;
pub use chunk_refresh::ChunkMove;
pub use chunks::{ChunkConfig, ChunkPlan, ChunkReset, Chunks, Management, WriteFailure};
pub use config::{
    CacheMap, Checkpoint, Durability, DurabilitySettings, Eviction, FtlConfig, HANDLES_MAX, Isolation, Map,
    MapKind, MapLog, MapSettings, Placement, Separation, SlcCache, SlcCacheSettings, Survives, Victim,
    WearLevelling,
};
pub use counters::FtlCounters;
pub use demand::{CachedTable, MAP_ENTRY_BYTES};
pub use handles::{HandleEvent, Handles};
pub use log_block::merge::{MergeCounters, MergeKind};
pub use log_block::{LogBlock, LogBlockCache};
pub use mount::{MountReport, MountSource};
pub use nameless::{Content, FoundChunk, Name, Nameless, NamelessConfig, NamelessCounters, Taker};
pub use nameless_machine::{NamelessFtlCounters, NamelessMachine, Sending};
pub(crate) use page_map::next_stream;
pub use page_map::{Blocks, MapCounters, MapProgress, PageMap};
pub use policy::{DieCandidate, PlacementPolicy, Policies, VictimCandidate, VictimPolicy};
pub use pool::Pool;
pub use setup_error::SetupError;
pub use sparse_map::{SparseMap, SparseMapCache};
pub use translation::{
    Arrival, Arrived, CacheUse, Caller, CopyId, Damage, FlushPoint, Full, GcJob, Load, Located, MapJob,
    MapPage, Move, Operation, Outdated, Plan, ProgramId, Reclaim, Soon, Start, Stream, Translation, View,
};
pub use zone_mount::{LOG, SavedSuperpage, Staged, StagedIn, Verdict, ZoneMount};
pub use zones::{Mark, ZoneConfig, ZoneWork, Zones};
