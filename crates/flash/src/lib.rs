//! The vocabulary that every room of Pellucid shares: simulated time, addresses, geometry, commands and completions,
//! the typed reason of every flash operation, seeded random streams, and a hash.
//!
//! This crate has no dependencies and no side effects. Addresses and units are newtypes; a unit is the last part of
//! a name (`erase_ns`, `capacity_bytes`).

mod address;
mod block_map;
mod block_view;
mod cache;
mod chunk;
mod command;
mod divide;
mod figure;
mod fnv;
mod geometry;
mod histogram;
mod nameless;
mod notice;
mod pauses;
mod placement;
mod port;
mod reason;
mod rng;
pub mod slab;
mod stage;
mod time;
mod zone;

pub use address::{BlockId, DieId, Lba, Lpn, Ppa};
pub use block_map::BlockMap;
pub use block_view::{BlockStream, BlockUse, BlockView};
pub use cache::{CacheGeometry, CacheOp, CacheState};
pub use chunk::{
    ChunkAddress, ChunkGeometry, ChunkInfo, ChunkNotice, ChunkOp, ChunkReason, ChunkScope, ChunkState,
};
pub use command::{Command, Completion, Effect, Opcode, Status, Tag, Vector, append_images, copy_images};
pub use divide::Divisor;
pub use figure::{Figure, FigureKind, Unit};
pub use fnv::{FNV_BASIS, fnv1a};
pub use geometry::{Geometry, GeometryError, Layout, Split};
pub use histogram::Histogram;
pub use nameless::{Migration, NamelessGeometry, NamelessOp};
pub use notice::Notice;
pub use pauses::Pauses;
pub use placement::{HandleInfo, PlacementEvent, PlacementEventKind, PlacementGeometry};
pub use port::{Drive, Held, Interface};
pub use reason::{Cause, MapReason};
pub use rng::Rng;
pub use stage::{Stage, StageTimes, add_each};
pub use time::{Nanos, SimTime};
pub use zone::{ZoneAction, ZoneGeometry, ZoneInfo, ZoneOp, ZoneState};
