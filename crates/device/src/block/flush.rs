//! Flush: acknowledged data go to the media.
//!
//! Flushes are served one after the other. A flush marks every entry that holds acknowledged data not on the media, sends
//! them there, waits until the marked ones are programmed, then until the trims before it are on the media:
//!
//! ```text
//!  waiting ─► data (marked entries left) ─► trims (metadata that translation writes) ─► done, next flush
//!                                        └► a cache that says so: with them what of its table has changed
//! ```
//! With [`Durability::Volatile`] a flush does nothing, as in the firmware that it models.

use super::core::Core;
use super::{metadata, write};
use crate::losses::Losses;
use crate::shared::Shared;
use pellucid_flash::{SimTime, Stage, Status};
use pellucid_ftl::{Durability, FlushPoint};
use std::collections::VecDeque;

/// The flushes of a namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flushes {
    waiting: VecDeque<u32>,
    running: Option<u32>,
    /// Trims for which the current flush waits: those before it, and those of the work that it waited
    /// for.
    trims: FlushPoint,
    /// Marked entries that are not programmed yet.
    entries_left: u32,
    /// All marked entries are programmed; the flush may also wait for the table of a cache.
    checkpointed: bool,
    failed: bool,
    losses: Losses,
    /// The last marked entry is settled, and the flush has not gone on yet.
    settled: bool,
}

impl Flushes {
    /// Returns whether a flush is in progress.
    pub fn waiting(&self) -> bool {
        self.running.is_some()
    }

    /// Acknowledged data written at this time are lost.
    pub fn note_loss(&mut self, written_at: SimTime) {
        self.losses.note(written_at);
    }

    /// Returns whether [`Flushes::take_settled`] has something to take.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Returns whether the flush in progress must be checked because a trim or a failed read settled an entry that it waited for; clears
    /// the mark.
    #[inline]
    pub fn take_settled(&mut self) -> bool {
        std::mem::take(&mut self.settled) && self.running.is_some()
    }
}

pub(super) fn start_flush(core: &mut Core, shared: &mut Shared, work: u32) {
    if core.side.ftl().durability == Durability::Volatile {
        return shared.ask_complete(work);
    }
    core.flushes.waiting.push_back(work);
    next_flush(core, shared);
}

fn next_flush(core: &mut Core, shared: &mut Shared) {
    if core.flushes.running.is_some() {
        return;
    }
    let Some(work) = core.flushes.waiting.pop_front() else { return };
    core.flushes.running = Some(work);
    core.flushes.trims = core.side.translation.flush_point();
    core.flushes.checkpointed = false;
    core.flushes.failed = core.flushes.losses.concern(shared.works[work].promise());
    for entry in 0..core.buffer.count() {
        let record = &mut core.buffer[entry];
        if record.begin_flush() {
            core.flushes.entries_left += 1;
        }
    }
    for entry in 0..core.buffer.count() {
        if core.buffer[entry].is_flushing() {
            write::dispatch(core, shared, entry);
        }
    }
    continue_flush(core, shared);
}

/// An entry's data are on the media (or dropped by a trim).
#[inline]
pub(super) fn flushed(core: &mut Core, entry: u32) {
    if core.buffer[entry].end_flush() {
        core.behind.wake(core.buffer[entry].lpn());
        core.flushes.entries_left -= 1;
        core.flushes.settled |= core.flushes.entries_left == 0;
    }
}

/// An entry's data could not be stored.
pub(super) fn flush_failed(core: &mut Core, entry: u32) {
    core.flushes.failed |= core.buffer[entry].is_flushing();
    flushed(core, entry);
}

/// Advances the flush in progress and the writing of metadata as far as possible. Called often, mostly with neither pending.
#[inline]
pub(super) fn continue_flush(core: &mut Core, shared: &mut Shared) {
    metadata::write_map(&mut core.side, shared);
    if core.flushes.running.is_some() {
        go_on_with_flush(core, shared);
    }
}

fn go_on_with_flush(core: &mut Core, shared: &mut Shared) {
    while let Some(work) = core.flushes.running {
        if core.flushes.entries_left > 0 {
            return;
        }
        let is_first = !std::mem::replace(&mut core.flushes.checkpointed, true);
        if is_first && core.side.translation.begin_checkpoint() {
            core.flushes.trims = core.side.translation.flush_point();
        }
        let saved = core.side.translation.flush_to(core.flushes.trims);
        metadata::write_map(&mut core.side, shared);
        if !saved {
            return;
        }
        core.flushes.running = None;
        let record = &mut shared.works[work];
        record.stages.add(Stage::Media, shared.now - record.mark);
        record.mark = shared.now;
        if core.flushes.failed {
            record.status = Status::WriteFault;
            core.flushes.losses.flush_fails(record.promise());
        }
        shared.ask_complete(work);
        next_flush(core, shared);
    }
}

/// The drive can write no more: flushes fail. Trims that are not on the media stay in line, so that a later flush fails
/// too instead of promising trims that were never stored.
pub(super) fn fail_flushes(core: &mut Core, shared: &mut Shared) {
    let running = core.flushes.running.take();
    let waiting = std::mem::take(&mut core.flushes.waiting);
    for work in running.into_iter().chain(waiting) {
        let record = &mut shared.works[work];
        record.stages.add(Stage::Media, shared.now - record.mark);
        record.mark = shared.now;
        record.status = Status::WriteFault;
        core.flushes.losses.flush_fails(record.promise());
        shared.ask_complete(work);
    }
}

/// The flush in progress waits for the trims so far.
pub(super) fn flush_waits_for_trims(core: &mut Core) {
    core.flushes.trims = core.side.translation.flush_point();
}
