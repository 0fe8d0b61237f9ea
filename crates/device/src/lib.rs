//! One drive: submit / advance / next_event / pop.
//!
//! [`Device`] is sans-io: time is an argument, data enter with [`Device::submit`] and leave with [`Device::pop`]; in between,
//! [`Device::advance`] runs due events, and [`Device::next_event`] returns the time of the next. It reads no clock, starts no
//! thread, and can be cloned at any moment.

mod back;
mod block;
mod build;
mod busy;
mod claim;
mod config;
mod counters;
mod device;
mod direct;
mod disk;
mod error;
mod events;
mod firmware;
mod front;
mod losses;
mod memory;
mod namespace_view;
mod namespaces;
mod port;
mod probes;
mod router;
mod shared;
mod timeline;
mod views;

pub use block::placement::PlacementStatistics;
pub use block::precondition::{Filler, NoRoom};
pub use busy::Busy;
pub use claim::keeps_data;
pub use config::{
    Arbitration, ArbitrationSettings, CacheConfig, Completes, DataBuffer, DeviceConfig, DieOrder, Feedback,
    Firmware, FirmwareModel, Guarantee, HostInterface, ModuleCosts, Namespace, Priorities, Scheduler, Solver,
    StepCost, Turns, WritePolicy,
};
pub use counters::Counters;
pub use device::Device;
pub use direct::zone_save::save_bytes;
pub use disk::{Disk, DiskConfig, DiskCounters, DiskFault, DiskStore};
pub use error::DeviceError;
pub use firmware::FirmwareModule;
pub use memory::{ControllerMemory, Memory, MemoryConfig, MemoryShortage, Structure};
pub use namespace_view::NamespaceView;
pub use probes::{ChannelView, CommandKind, OperationKind, Part, Probes, Snapshot, WayProbes, WayView};
pub use timeline::{
    Activity, Timeline, TimelineCommand, TimelineOperation, TimelineSpan, TimelineWindow, Track,
};
