//! Waits on the write path, and their bounds.
//!
//! ```text
//!  entries in a partial superpage ── a command waits for them, and nothing comes that could fill it ─► padded
//!                              └─ so much has come that did not fill it ────────────────────────► padded
//!  a superpage that found no space ─ a block was erased, or GC went on ─► planned
//! ```
//! A command waits: a flush, a forced write (FUA), any write with write-through, a write behind an entry that takes no more
//! ([`super::behind`]). Both waits are bounded: later writes cannot extend them.

use super::BlockNamespace;
use crate::shared::Shared;

impl BlockNamespace {
    /// Pads partial superpages if a command waits and nothing is on its way to fill them.
    #[inline]
    pub(crate) fn pad_if_awaited(&mut self, shared: &mut Shared) {
        if self.writes.packer.waiting() == 0 || self.writes.more_comes() {
            return;
        }
        // Entries dispatched for space went to different queues, none of which holds a superpage: dispatch more.
        if !self.starved.is_line_empty() && self.writes.programming() == 0 {
            self.dispatch_for_space(shared);
        }
        // Slices that wait for an entry get one when a program ends, if any is running.
        let starved =
            !self.starved.is_line_empty() && self.buffer.dirty_idle() == 0 && self.writes.programming() == 0;
        let awaited =
            self.writes.awaited > 0 || starved || self.flushes.waiting() || !self.writes.behind.is_empty();
        if !awaited || self.writes.more_comes() {
            return;
        }
        for queue in self.writes.packer.queues() {
            self.program_packed(shared, queue, true);
        }
    }

    /// Pads partial superpages that a command has awaited for as many writes as the buffer has entries. Steady writes to other pages of the
    /// buffer or to other streams never fill them, so the wait would not end.
    pub(crate) fn pad_overdue(&mut self, shared: &mut Shared) {
        let awaited = self.writes.awaited > 0 || self.flushes.waiting() || !self.writes.behind.is_empty();
        if self.writes.packer.waiting() == 0 || !awaited || self.writes.waits_for_space() {
            return;
        }
        let patience = u64::from(self.buffer.write_limit());
        for queue in self.writes.packer.queues() {
            let first = self.writes.packer.get(queue, 0);
            if first.is_some_and(|entry| self.writes.arrived - self.buffer[entry].packed_at > patience) {
                self.program_packed(shared, queue, true);
            }
        }
    }

    /// Resumes writes that waited for GC, if GC has released space since the last call. Returns whether it has.
    #[inline]
    pub(crate) fn let_in(&mut self, shared: &mut Shared) -> bool {
        let released = self.translation.take_released();
        if released {
            self.resume_stalled(shared);
        }
        released
    }

    /// Resumes writes that waited for space: blocks were erased, or GC went on.
    pub(crate) fn resume_stalled(&mut self, shared: &mut Shared) {
        if std::mem::take(&mut self.writes.stalled) {
            self.writes.packer.resume();
            for queue in self.writes.packer.queues() {
                self.program_packed(shared, queue, false);
            }
        }
    }
}
