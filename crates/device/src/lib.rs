//! One drive: submit / advance / next_event / pop.

mod config;

pub use config::{
    Arbitration, DataBuffer, DeviceConfig, DieOrder, Firmware, HostInterface, Priorities, Scheduler,
    StepCost, WritePolicy,
};
