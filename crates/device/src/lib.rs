//! One drive: submit / advance / next_event / pop.
//!
//! [`Device`] is sans-io: time is an argument, data go in with [`Device::submit`] and come out of [`Device::pop`]; between the two,
//! [`Device::advance`] runs what is due, and [`Device::next_event`] says when that is. It reads no clock, starts no
//! thread, and can be cloned at any moment.

mod buffer;
mod build;
mod chunk_path;
mod chunk_refresh;
mod claim;
mod collect_path;
mod command_path;
mod config;
mod damage;
mod device;
mod direct_path;
mod events;
mod firmware;
mod firmware_loop;
mod flush_path;
mod fold;
mod forgetting;
mod host_interface;
mod manage;
mod monitor;
mod operation_end;
mod operation_packer;
mod placement;
mod port;
mod power;
mod precondition;
mod read_path;
mod scheduler;
mod spaces;
mod taps;
mod views;
mod work;
mod write_path;
mod write_waits;
mod zone_actions;
mod zone_log;
mod zone_path;
mod zone_save;
mod zone_stage;

pub use build::DeviceError;
pub use config::{
    Arbitration, Completes, DataBuffer, DeviceConfig, DieOrder, Feedback, Firmware, FirmwareModel,
    HostInterface, Namespace, Priorities, Scheduler, Solver, StepCost, WritePolicy,
};
pub use device::Device;
pub use firmware::FirmwareModule;
pub use monitor::Counters;
pub use placement::PlacementStatistics;
pub use precondition::{Filler, NoRoom};
pub use taps::{
    ChannelView, Coarse, CommandKind, Histogram, OperationKind, Part, Snapshot, Taps, WayTaps, WayView,
};
pub use zone_save::save_bytes;
