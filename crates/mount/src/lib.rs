//! The log-structured file system on real files: adds FUSE, threads, clocks and files to `pellucid_fs`, which
//! has none of them.
//!
//! ```text
//!   kernel ─► Requests (a thread each) ─► Volume: lock, Fs ─► jobs ─► Carrier: a file, a block device, or a modelled drive
//!                                         └ keeper: commits and cleaning
//! ```

mod carrier;
mod convert;
mod drive;
mod image;
mod mounted;
mod requests;
mod target;
mod volume;

#[cfg(test)]
mod tests;

pub use carrier::{Begun, Carrier};
pub use convert::now;
pub use drive::{ModelledDrive, Pace};
pub use image::{Image, ImageError, Purpose};
pub use mounted::{Ender, MountError, Mounted, MountedOptions, ServeError, check_point};
pub use target::{Format, Target, TargetError};
pub use volume::Volume;
