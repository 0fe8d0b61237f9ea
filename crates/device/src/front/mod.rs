//! The host side of a drive: queues, commands and the slices that they are cut into, and the host link.

pub(crate) mod commands;
mod dma;
pub(crate) mod host_interface;
mod path;
