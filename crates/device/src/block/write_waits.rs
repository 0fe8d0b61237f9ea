//! What waits on the write path, and for how long.
//!
//! ```text
//!  entries in a partial superpage ── a command waits for them, and nothing comes that could fill it ─► padded
//!                              └─ so much has come that did not fill it ────────────────────────► padded
//!  a write over sectors that a command waits for ── their program is planned ─► an entry of its own
//!  a superpage that found no space ─ a block was erased, or GC went on ─► planned
//! ```
//! A command waits: a flush, a forced write (FUA), any write with write-through, a write behind an entry that takes no more. The first two
//! waits are bounded: later writes cannot extend them.

use super::BlockNamespace;
use super::buffer::Phase;
use crate::shared::Shared;
use pellucid_flash::Lpn;

impl BlockNamespace {
    /// A write waits until sectors that another command waits for have left.
    pub(crate) fn fall_behind(&mut self, shared: &mut Shared, slice: u32) {
        // As one that waits for an entry, it adds nothing to a superpage.
        self.writes.inbound -= 1;
        self.writes.behind.push_back(&mut shared.slices, slice);
    }

    /// First in, first out: a write waits until `entry` has gone, which may have been in use when it was its turn to leave.
    pub(crate) fn hurry(&mut self, shared: &mut Shared, entry: u32) {
        let record = &mut self.buffer[entry];
        record.wanted = true;
        if record.dirty != 0 && record.phase == Phase::Resting {
            self.dispatch(shared, entry);
        }
    }

    /// Whether a write of `lpn` waits already, so that others do not go ahead of it.
    pub(crate) fn has_one_behind(&mut self, shared: &mut Shared, lpn: Lpn) -> bool {
        let mut found = false;
        self.writes.behind.for_each(&mut shared.slices, |slice| found |= slice.lpn == lpn);
        found
    }

    /// Writes that waited behind others go on, as far as they can; `false`: none could.
    #[inline]
    pub(crate) fn let_behind_go_on(&mut self, shared: &mut Shared) -> bool {
        if !std::mem::take(&mut self.writes.behind_go_on) || self.writes.behind.is_empty() {
            return false;
        }
        let mut waiting = self.writes.behind.take();
        while let Some(slice) = waiting.pop(&mut shared.slices) {
            self.writes.inbound += 1;
            self.place(shared, slice, false);
        }
        true
    }

    /// Pads partial superpages if a command waits and nothing is on its way to fill them.
    #[inline]
    pub(crate) fn pad_if_awaited(&mut self, shared: &mut Shared) {
        if self.writes.packer.waiting() == 0 || self.more_comes() {
            return;
        }
        // What was dispatched for space has gone to different queues, none of which holds a superpage: more follow.
        if self.starved_count > 0 && self.writes.programming() == 0 {
            self.dispatch_for_space(shared);
        }
        // Slices that wait for an entry get one when a program ends, if any is running.
        let starved =
            self.starved_count > 0 && self.buffer.dirty_idle() == 0 && self.writes.programming() == 0;
        let awaited =
            self.writes.awaited > 0 || starved || self.flushes.waiting() || !self.writes.behind.is_empty();
        if !awaited || self.more_comes() {
            return;
        }
        for queue in self.writes.packer.queues() {
            self.program_packed(shared, queue, true);
        }
    }

    /// What comes does not end, and does not fill the superpage, as it goes to other pages of the buffer or to other streams: those who
    /// wait for the superpage wait no longer than for as many writes as the buffer has entries.
    pub(crate) fn pad_overdue(&mut self, shared: &mut Shared) {
        let awaited = self.writes.awaited > 0 || self.flushes.waiting() || !self.writes.behind.is_empty();
        if self.writes.packer.waiting() == 0 || !awaited || self.waits_for_space() {
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

    /// Whether superpages may fill by themselves, or could not be planned.
    #[inline]
    fn more_comes(&self) -> bool {
        let writes = &self.writes;
        writes.inbound > 0 || writes.filling > 0 || self.waits_for_space() || writes.packer.is_all_stalled()
    }

    /// Whether superpages could not be planned; not those of log blocks, each of which waits for itself.
    #[inline]
    fn waits_for_space(&self) -> bool {
        self.writes.stalled && !self.writes.packer.is_of_logs()
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
