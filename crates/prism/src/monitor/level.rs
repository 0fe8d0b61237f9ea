//! Global wear levelling: two LUNs change places while they are used.

use super::Monitor;
use pellucid_flash::{Command, Completion, Drive};
use pellucid_host::ChunkView;

/// Where the two LUNs are.
#[derive(Clone, Debug, Default)]
pub(super) struct Leveller {
    /// Swaps that have ended.
    pub swaps: u64,
}

impl Leveller {
    /// Whether a chunk of a LUN is being filled.
    pub fn uses(&self, _lun: u32, _chunk: u32) -> bool {
        false
    }

    /// Whether a command has to wait until a block that it changes has been moved.
    pub fn holds(&self, _app: u16, _view: &ChunkView, _command: &Command) -> bool {
        false
    }

    pub fn note_erase(&mut self, _lun: u32) {}

    pub fn forget(&mut self) {}
}

impl<D: Drive> Monitor<D> {
    pub(super) fn level(&mut self) {}
    pub(super) fn level_ended(&mut self, _completion: Completion) {}
    pub(super) fn swapped(&mut self) {}
}
