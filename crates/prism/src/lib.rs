//! The flash library: an application links it and owns its flash.
//!
//! ```text
//!   raw       pages and blocks        function  blocks mapped, erased, levelled       policy  sectors, in any order
//!   ───────────────────────── one open-channel namespace for each application ─────────────────────────
//!                                     flash monitor: which application has which LUN
//!   ───────────────────────────────────────── Drive ─────────────────────────────────────────
//!                an open-channel drive, or chunks made of zones or of a plain block drive
//! ```
//! The terms are those of Prism-SSD (Shen et al., IEEE TPDS 2020, section IV): a *channel* is a group of the open-channel namespace,
//! a *LUN* a parallel unit, a *block* a chunk, a *page* the smallest write (`ws_min`). Each level is a state machine without
//! I/O over a [`Drive`](pellucid_flash::Drive), so all of them run in virtual time, behind a socket, and blocking
//! ([`blocking::Flash`]).
//!
//! | level | pages are mapped by | GC is done by | wear is levelled by |
//! |---|---|---|---|
//! | [`Raw`] | application | application | application |
//! | [`Function`] | application | application decides, library erases | library, on request |
//! | [`Policy`] | library | library, by a chosen policy | library |

mod address;
pub mod blocking;
mod error;
mod function;
mod geometry;
pub mod levels;
mod monitor;
mod policy;
mod raw;

pub use address::FlashAddress;
pub use error::LevelError;
pub use function::{
    Allocated, Found, Function, FunctionAnswer, FunctionAsk, FunctionCall, FunctionCounters, FunctionOutcome,
    Levelled, Mapping,
};
pub use geometry::{Space, SsdGeometry};
pub use monitor::{
    Allocation, AppId, ApplicationInfo, LunWear, Monitor, MonitorConfig, MonitorError, Request, Statistics,
};
pub use policy::{Gc, Policy, PolicyConfig, PolicyError, RANGES_MAX};
pub use raw::Raw;
