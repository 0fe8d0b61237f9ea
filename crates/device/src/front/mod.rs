//! The host side of a drive: queues, commands and the slices that they are cut into, and the host link.

pub(crate) mod commands;
pub(crate) mod host_interface;
pub(crate) mod notices;
mod path;
