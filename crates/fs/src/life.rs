//! Life of a file system: its phase, and its mount options.
//!
//! ```text
//!   mounting ─┬─► ready ─┬─► unmounting ─► unmounted
//!             │          └─► read-only  ─► unmounted
//!             ├─► read-only
//!             └─► failed
//! ```
//! Changes are accepted while it is ready, and written until it is unmounted. A drive that refuses writes ends both.

use crate::options::MountOptions;
use crate::stop::Stop;
use crate::types::Errno;
use crate::view::FsState;

#[derive(Clone, Debug)]
enum Phase {
    Mounting,
    Ready,
    ReadOnly,
    Unmounting,
    Unmounted,
    Failed(String),
}

/// Phase of a file system, with its options.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    phase: Phase,
    options: MountOptions,
}

impl Life {
    /// A file system being mounted.
    pub fn mounting(options: MountOptions) -> Life {
        Life { phase: Phase::Mounting, options }
    }

    /// A new file system.
    pub fn ready(options: MountOptions) -> Life {
        Life { phase: Phase::Ready, options }
    }

    pub fn options(&self) -> &MountOptions {
        &self.options
    }

    /// Memory limit in blocks.
    pub fn frames(&self) -> usize {
        self.options.frames()
    }

    pub fn state(&self) -> FsState {
        match &self.phase {
            Phase::Mounting => FsState::Mounting,
            Phase::Ready => FsState::Ready,
            Phase::ReadOnly | Phase::Unmounting => FsState::ReadOnly,
            Phase::Unmounted => FsState::Unmounted,
            Phase::Failed(why) => FsState::Failed(why.clone()),
        }
    }

    pub fn is_mounting(&self) -> bool {
        matches!(self.phase, Phase::Mounting)
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    pub fn is_unmounting(&self) -> bool {
        matches!(self.phase, Phase::Unmounting)
    }

    /// Reports whether writes are still possible.
    pub fn writes(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Unmounting)
    }

    /// Checks that changes are accepted.
    pub fn writable(&self) -> Result<(), Stop> {
        match self.phase {
            Phase::Ready => Ok(()),
            Phase::Mounting => Err(Stop::Room),
            _ => Err(Errno::ReadOnly.into()),
        }
    }

    /// Forbids changes after the mount, because metadata that they would need are unreadable.
    pub fn forbid_changes(&mut self) {
        self.options.read_only = true;
    }

    /// Completes the mount. `sound`: no durable data are damaged. Returns whether the file system is
    /// writable.
    pub fn mounted(&mut self, sound: bool) -> bool {
        let ready = !self.options.read_only && (sound || self.options.repair);
        self.phase = if ready { Phase::Ready } else { Phase::ReadOnly };
        ready
    }

    /// Ends the mount in failure, with a sentence of the reason.
    pub fn failed(&mut self, why: String) {
        self.phase = Phase::Failed(why);
    }

    /// Accepts no changes from now on.
    pub fn degrade(&mut self) {
        self.phase = match self.phase {
            Phase::Ready => Phase::ReadOnly,
            Phase::Unmounting => Phase::Unmounted,
            _ => return,
        };
    }

    /// Starts to unmount, or ends at once if nothing must be written first.
    pub fn unmount(&mut self) {
        match self.phase {
            Phase::Ready => self.phase = Phase::Unmounting,
            Phase::ReadOnly | Phase::Mounting => self.phase = Phase::Unmounted,
            _ => {}
        }
    }

    /// Ends the use, after everything is durable.
    pub fn unmounted(&mut self) {
        self.phase = Phase::Unmounted;
    }
}
