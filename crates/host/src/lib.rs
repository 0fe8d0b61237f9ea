//! Layers above the line, between an application and a drive.
//!
//! A layer is a state machine without I/O: to its user it looks like a drive; below, it issues commands to
//! another drive and receives their completions ([`Layer`]). [`Stack`] pumps a layer over any
//! [`Drive`](pellucid_flash::Drive), and is a drive itself. So the same layer runs in virtual time, behind a
//! server, and in front of a drive on another machine; and it can be cloned together with the drive below.
//!
//! [`HostFtl`] makes a block drive of an open-channel one, with the translation engine of the drives (`ftl`)
//! run by the host. [`Shared`] puts several of them on ranges of one drive's parallel units, beside
//! applications' raw ranges, while the drive is in use. [`ZoneChunks`] makes an open-channel drive of a zoned
//! one, so that `HostFtl` above it is a log on zones; [`BlockChunks`] makes one of a plain block drive: a
//! file, or a block device. [`ClusterBuffer`] gathers small writes into large ones in front of any block
//! drive, [`CacheManager`] is a flash cache in front of a slower backing store, [`BlockLayer`] is the
//! request queue of a host above any of these, and [`Ata`] a disk interface below them.

mod ata;
mod block_chunks;
mod block_layer;
mod cache;
mod chunk_layers;
mod cluster_buffer;
mod cpu;
mod ftl;
mod layer;
mod machine;
mod metadata;
mod nameless;
mod pair;
mod probe;
mod settings;
mod shared;
mod stack;
mod subsystem;
mod tower;
mod view;
mod zones;

pub use ata::{Ata, AtaConfig, Carry, MissReply, NameReply, Upcalls};
pub use block_chunks::{BlockChunks, BlockChunksConfig, BlockChunksError};
pub use block_layer::{BlockLayer, BlockLayerConfig, BlockLayerCounters, Elevator, Join};
pub use cache::{
    CacheConfig, CacheCounters, CacheError, CacheManager, CacheMode, Flushes, RecordWrites, Replacement,
    StoreIdentity,
};
pub use chunk_layers::chunk_layers;
pub use cluster_buffer::{
    ClusterBuffer, ClusterBufferConfig, ClusterBufferCounters, ClusterBufferError, FlushPolicy,
    JournalConfig, JournalHead, JournalUse, TableMemory,
};
pub use cpu::{Cpu, CpuCosts, Steps};
pub use ftl::{HostCounters, HostFtl, HostFtlConfig, HostFtlError, HostHoldings, MountCost};
pub use layer::Layer;
pub use machine::{Machine, TAG_PASSING};
pub use metadata::{Metadata, MetadataError, find_metadata};
pub use nameless::{NamelessFile, NamelessFtl, NamelessFtlConfig};
pub use pair::Pair;
pub use pellucid_ftl::{NamelessConfig, NamelessFtlCounters};
pub use probe::{Probe, ProbeConfig, ProbeError, ProbePoint, probe};
pub use settings::{HostSettings, LayerName};
pub use shared::{Shared, SharedError, TargetEvent, TargetState};
pub use stack::Stack;
pub use subsystem::{Target, TargetError, TargetKind, Targets, is_name};
pub use tower::{AnyLayer, LayerConfig, Tower};
pub use view::ChunkView;
pub use zones::{ZoneChunks, ZoneChunksConfig, ZoneChunksCounters, ZoneChunksError};
