//! The flash side of a drive: which operation runs when, and what its beginning and end mean for the media.

pub(crate) mod operations;
pub(crate) mod scheduler;
