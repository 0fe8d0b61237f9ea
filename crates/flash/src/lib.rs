//! The vocabulary that every room of Pellucid shares: simulated time, addresses, geometry, commands and completions,
//! the typed reason of every flash operation, and seeded random streams.
//!
//! This crate depends on nothing and has no effects. Addresses and units are newtypes; a unit stands last in a name
//! (`erase_ns`, `capacity_bytes`).

mod address;
mod command;
mod geometry;
mod reason;
mod rng;
mod stage;
mod time;

pub use address::{BlockId, DieId, Lba, Lpn, Ppa};
pub use command::{Command, Completion, Opcode, Status, Tag};
pub use geometry::{Geometry, GeometryError, Layout};
pub use reason::Cause;
pub use rng::Rng;
pub use stage::{Stage, StageTimes};
pub use time::{Nanos, SimTime};
