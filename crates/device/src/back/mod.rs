//! The flash side of a drive: which operation runs when, and what its beginning and end mean for the media.

mod damage;
mod operations;
pub(crate) mod scheduler;
