//! The layers of a drive in service, where they are changed in use.

use super::Bottom;
use pellucid_flash::SimTime;
use pellucid_host::{ClusterBuffer, Machine, Tower};
use std::ops::Range;

/// Layers, to be changed.
pub(crate) struct Layers<'a> {
    tower: &'a mut Tower<Bottom>,
}

impl<'a> Layers<'a> {
    /// The layers of a tower.
    pub(super) fn of(tower: &'a mut Tower<Bottom>) -> Layers<'a> {
        Layers { tower }
    }

    /// Begins to empty the uppermost cluster buffer, which later writes bypass; returns false if there is none.
    pub fn pause(self) -> bool {
        change_buffer(self.tower, ClusterBuffer::pause)
    }

    /// Has the uppermost cluster buffer take writes again; returns false if there is none.
    pub fn resume(self) -> bool {
        change_buffer(self.tower, |buffer, _| buffer.resume())
    }

    /// Takes the bytes of a cache whose newest data have been found lost since the last call.
    pub fn take_lost(self) -> Vec<Range<u64>> {
        let cache = self.tower.stack_mut().and_then(|stack| stack.layer.cache_mut());
        cache.map_or_else(Vec::new, |cache| cache.take_lost())
    }

    /// Begins to write everything back from a cache, but, with `give_up_lost`, what the flash cannot read; returns false if the drive is
    /// not a cache.
    pub fn begin_detach(self, give_up_lost: bool) -> bool {
        let Some(stack) = self.tower.stack_mut() else { return false };
        let Some(cache) = stack.layer.cache_mut() else { return false };
        cache.detach(give_up_lost);
        // Lets the cache continue at once.
        let now = stack.now();
        stack.act_on_drive(now, |_| ());
        stack.layer.advance(now);
        stack.act_on_drive(now, |_| ());
        true
    }
}

/// Changes the uppermost cluster buffer of a tower; returns false if there is none.
fn change_buffer(tower: &mut Tower<Bottom>, change: impl FnOnce(&mut ClusterBuffer, SimTime)) -> bool {
    let Some(stack) = tower.stack_mut() else { return false };
    let now = stack.now();
    let Some(buffer) = stack.layer.cluster_buffer_mut() else {
        return change_buffer(&mut stack.drive, change);
    };
    change(buffer, now);
    // Sends what the buffer has to say to the drive.
    stack.act_on_drive(now, |_| ());
    true
}
