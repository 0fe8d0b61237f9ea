//! Waits on the write path, and their bounds.
//!
//! ```text
//!  entries in a partial superpage ── a command waits for them, and nothing comes that could fill it ─► padded
//!                              └─ so much has come that did not fill it ────────────────────────► padded
//!  a superpage that found no space ─ a block was erased, or GC went on ─► planned
//! ```
//! A command waits: a flush, a forced write (FUA), any write with write-through, a write behind an entry that takes no more
//! ([`super::behind`]). Both waits are bounded: later writes cannot extend them.

use super::core::Core;
use super::{programs, starved};
use crate::shared::Shared;

/// Pads partial superpages if a command waits and nothing is on its way to fill them.
#[inline]
pub(super) fn pad_if_awaited(core: &mut Core, shared: &mut Shared) {
    if core.queue.packed() == 0 || core.queue.more_comes() {
        return;
    }
    // Entries dispatched for space went to different queues, none of which holds a superpage: dispatch more.
    if !core.starved.is_line_empty() && core.queue.programming() == 0 {
        starved::dispatch_for_space(core, shared);
    }
    // Slices that wait for an entry get one when a program ends, if any is running.
    let starved =
        !core.starved.is_line_empty() && core.buffer.dirty_idle() == 0 && core.queue.programming() == 0;
    let awaited = starved || core.awaits_programs();
    if !awaited || core.queue.more_comes() {
        return;
    }
    for queue in core.queue.queues() {
        programs::program_packed(core, shared, queue, true);
    }
}

/// Pads partial superpages that a command has awaited for as many writes as the buffer has entries. Steady writes to other pages of the
/// buffer or to other streams never fill them, so the wait would not end.
pub(super) fn pad_overdue(core: &mut Core, shared: &mut Shared) {
    if core.queue.packed() == 0 || !core.awaits_programs() || core.queue.waits_for_space() {
        return;
    }
    let patience = u64::from(core.buffer.write_limit());
    for queue in core.queue.queues() {
        let first = core.queue.first(queue);
        if first.is_some_and(|entry| core.queue.arrived() - core.buffer[entry].packed_at() > patience) {
            programs::program_packed(core, shared, queue, true);
        }
    }
}

/// Resumes writes that waited for GC, if GC has released space since the last call. Returns whether it has.
#[inline]
pub(super) fn let_in(core: &mut Core, shared: &mut Shared) -> bool {
    let released = core.side.translation.take_released();
    if released {
        resume_stalled(core, shared);
    }
    released
}

/// Resumes writes that waited for space: blocks were erased, or GC went on.
pub(super) fn resume_stalled(core: &mut Core, shared: &mut Shared) {
    if core.queue.resume() {
        for queue in core.queue.queues() {
            programs::program_packed(core, shared, queue, false);
        }
    }
}
