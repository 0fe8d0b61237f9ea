//! Flash side of a drive: schedules operations, and applies their start and end to the media.

pub(crate) mod operations;
pub(crate) mod scheduler;
