//! Life of a file system: its phase, and how it was mounted.
//!
//! ```text
//!   mounting ─┬─► ready ─┬─► unmounting ─► unmounted
//!             │          └─► read-only  ─► unmounted
//!             ├─► read-only
//!             └─► failed
//! ```
//! Changes are taken while it is ready, and written until it is unmounted. A drive that takes no writes ends both.

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
    /// A file system that is being mounted.
    pub fn mounting(options: MountOptions) -> Life {
        Life { phase: Phase::Mounting, options }
    }

    /// A file system that was just made.
    pub fn ready(options: MountOptions) -> Life {
        Life { phase: Phase::Ready, options }
    }

    pub fn options(&self) -> &MountOptions {
        &self.options
    }

    /// Blocks that memory may hold.
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

    /// Returns whether something may still be written.
    pub fn writes(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Unmounting)
    }

    /// Checks that changes are taken.
    pub fn writable(&self) -> Result<(), Stop> {
        match self.phase {
            Phase::Ready => Ok(()),
            Phase::Mounting => Err(Stop::Room),
            _ => Err(Errno::ReadOnly.into()),
        }
    }

    /// Forbids changes once the mount is over: metadata that they would need cannot be read.
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

    /// Ends the mount without a file system; a sentence says why.
    pub fn failed(&mut self, why: String) {
        self.phase = Phase::Failed(why);
    }

    /// Takes no changes from now on.
    pub fn degrade(&mut self) {
        self.phase = match self.phase {
            Phase::Ready => Phase::ReadOnly,
            Phase::Unmounting => Phase::Unmounted,
            _ => return,
        };
    }

    /// Begins to unmount, or ends at once if nothing must be written first.
    pub fn unmount(&mut self) {
        match self.phase {
            Phase::Ready => self.phase = Phase::Unmounting,
            Phase::ReadOnly | Phase::Mounting => self.phase = Phase::Unmounted,
            _ => {}
        }
    }

    /// Ends the use: all is durable.
    pub fn unmounted(&mut self) {
        self.phase = Phase::Unmounted;
    }
}
