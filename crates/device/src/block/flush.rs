//! Flush and trim: what must be on the media, and what need not be any more.
//!
//! Flushes are served one after the other. A flush marks every entry that holds acknowledged data not on the media, sends
//! them there, waits until the marked ones are programmed, then until the trims before it are on the media:
//!
//! ```text
//!  waiting ─► data (marked entries left) ─► trims (metadata that translation writes) ─► done, next flush
//!                                        └► a cache that says so: with them what of its table has changed
//! ```
//! With [`Durability::Volatile`] a flush does nothing, as in the firmware that it models.

use super::BlockNamespace;
use super::buffer::{Content, Phase};
use super::superpages::SuperpageUnit;
use crate::losses::Losses;
use crate::shared::Shared;
use pellucid_flash::{Lpn, Stage, Status};
use pellucid_ftl::{Durability, FlushPoint, Located, MapJob};
use std::collections::VecDeque;

/// The flushes of a namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flushes {
    waiting: VecDeque<u32>,
    running: Option<u32>,
    /// Trims that the flush in progress waits for: those before it, and of what it waited for otherwise.
    trims: FlushPoint,
    /// Marked entries that are not programmed yet.
    entries_left: u32,
    /// All marked entries are programmed; the flush may also wait for the table of a cache.
    checkpointed: bool,
    failed: bool,
    pub(super) losses: Losses,
    /// The last marked entry is settled, and the flush has not gone on yet.
    settled: bool,
    /// GC was asked to make space for metadata and has not returned.
    pumping: bool,
}

impl Flushes {
    /// Returns whether a flush is in progress.
    pub fn waiting(&self) -> bool {
        self.running.is_some()
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

impl BlockNamespace {
    pub(crate) fn start_flush(&mut self, shared: &mut Shared, work: u32) {
        if self.config.ftl.durability == Durability::Volatile {
            return shared.ask_complete(work);
        }
        self.flushes.waiting.push_back(work);
        self.next_flush(shared);
    }

    fn next_flush(&mut self, shared: &mut Shared) {
        if self.flushes.running.is_some() {
            return;
        }
        let Some(work) = self.flushes.waiting.pop_front() else { return };
        self.flushes.running = Some(work);
        self.flushes.trims = self.translation.flush_point();
        self.flushes.checkpointed = false;
        self.flushes.failed = self.flushes.losses.concern(shared.works[work].promise());
        for entry in 0..self.buffer.count() {
            let record = &mut self.buffer[entry];
            if record.dirty != 0 && !record.dropped && !record.flushing {
                record.flushing = true;
                self.flushes.entries_left += 1;
            }
        }
        for entry in 0..self.buffer.count() {
            if self.buffer[entry].flushing {
                self.dispatch(shared, entry);
            }
        }
        self.continue_flush(shared);
    }

    /// An entry's data are on the media (or dropped by a trim).
    #[inline]
    pub(crate) fn flushed(&mut self, entry: u32) {
        if std::mem::take(&mut self.buffer[entry].flushing) {
            self.writes.behind.wake(self.buffer[entry].lpn);
            self.flushes.entries_left -= 1;
            self.flushes.settled |= self.flushes.entries_left == 0;
        }
    }

    /// An entry's data could not be stored.
    pub(crate) fn flush_failed(&mut self, entry: u32) {
        self.flushes.failed |= self.buffer[entry].flushing;
        self.flushed(entry);
    }

    /// Advances the flush in progress and the writing of metadata as far as possible. Called often, mostly with neither pending.
    #[inline]
    pub(crate) fn continue_flush(&mut self, shared: &mut Shared) {
        self.write_map(shared);
        if self.flushes.running.is_some() {
            self.go_on_with_flush(shared);
        }
    }

    fn go_on_with_flush(&mut self, shared: &mut Shared) {
        while let Some(work) = self.flushes.running {
            if self.flushes.entries_left > 0 {
                return;
            }
            let is_first = !std::mem::replace(&mut self.flushes.checkpointed, true);
            if is_first && self.is_cache() && self.translation.cache().begin_checkpoint() {
                self.flushes.trims = self.translation.flush_point();
            }
            let saved = self.translation.flush_to(self.flushes.trims);
            self.write_map(shared);
            if !saved {
                return;
            }
            self.flushes.running = None;
            let record = &mut shared.works[work];
            record.stages.add(Stage::Media, shared.now - record.mark);
            record.mark = shared.now;
            if self.flushes.failed {
                record.status = Status::WriteFault;
                self.flushes.losses.flush_fails(record.promise());
            }
            shared.ask_complete(work);
            self.next_flush(shared);
        }
    }

    /// Carries out pending metadata work of translation, as far as possible now.
    #[inline]
    pub(crate) fn write_map(&mut self, shared: &mut Shared) {
        while let Some(job) = self.translation.next_map_job() {
            let (plan, units, cause, by_cause) = match job {
                MapJob::Program { plan, units, cause, by_cause } => (plan, units, cause, by_cause),
                MapJob::Read { page, from, cause } => {
                    self.read_map(shared, page, from, cause);
                    continue;
                }
                MapJob::NeedsSpace => return self.make_space_for_map(shared),
            };
            self.superpages.enter(&plan, units);
            for position in 0..units as usize {
                self.superpages.set(plan.id, position, SuperpageUnit::Metadata);
            }
            let sectors = u64::from(shared.layout.sectors_per_unit);
            for (counter, &units) in shared.counts(self.number).programmed_sectors.iter_mut().zip(&by_cause) {
                *counter += u64::from(units) * sectors;
            }
            self.issue_program(shared, &plan, units, cause);
        }
    }

    /// GC comes back to [`BlockNamespace::write_map`] when it waits for metadata itself.
    fn make_space_for_map(&mut self, shared: &mut Shared) {
        if !std::mem::replace(&mut self.flushes.pumping, true) {
            self.pump_all(shared);
            self.flushes.pumping = false;
        }
    }

    /// The drive can write no more: flushes fail. Trims that are not on the media stay in line, so that a later flush fails
    /// too instead of promising trims that were never stored.
    pub(crate) fn fail_flushes(&mut self, shared: &mut Shared) {
        let running = self.flushes.running.take();
        let waiting = std::mem::take(&mut self.flushes.waiting);
        for work in running.into_iter().chain(waiting) {
            let record = &mut shared.works[work];
            record.stages.add(Stage::Media, shared.now - record.mark);
            record.mark = shared.now;
            record.status = Status::WriteFault;
            self.flushes.losses.flush_fails(record.promise());
            shared.ask_complete(work);
        }
    }

    /// Trim, or write zeros: whole units are unmapped, partial ones are overwritten with zeros.
    pub(crate) fn start_trim(&mut self, shared: &mut Shared, work: u32) {
        let (lba, sectors) =
            (shared.works[work].command.lba.0, u64::from(shared.works[work].command.sectors));
        let per_unit = u64::from(shared.layout.sectors_per_unit);
        let (first, end) = (lba.div_ceil(per_unit), (lba + sectors) / per_unit);
        // Held open until all parts are started.
        shared.works[work].slices_left = 1;
        if first > end {
            // Inside one unit.
            self.zero_part(shared, work, lba, sectors);
        } else {
            self.zero_part(shared, work, lba, first * per_unit - lba);
            for unit in first..end {
                self.trim_unit(shared, Lpn(unit as u32));
            }
            self.zero_part(shared, work, end * per_unit, lba + sectors - end * per_unit);
        }
        self.erase_emptied(shared);
        self.forget_outdated(shared);
        shared.works[work].slices_left -= 1;
        if shared.works[work].slices_left == 0 {
            shared.works[work].mark = shared.now;
            shared.ask_complete(work);
        }
    }

    fn zero_part(&mut self, shared: &mut Shared, work: u32, lba: u64, sectors: u64) {
        if sectors == 0 {
            return;
        }
        let lpn = Lpn((lba / u64::from(shared.layout.sectors_per_unit)) as u32);
        // Never-written data are zero already.
        if self.translation.peek(lpn) != Located::Zero || self.buffer.find(lpn).is_some() {
            self.cut(shared, work, lba, sectors as u32, true);
        }
    }

    fn trim_unit(&mut self, shared: &mut Shared, lpn: Lpn) {
        let found = self.buffer.find(lpn);
        let awaited = found.is_some_and(|entry| self.buffer[entry].flushing);
        if let Some(entry) = found {
            self.buffer.busy(entry);
            if self.buffer[entry].phase == Phase::Programming {
                // Programmed nevertheless: commands that wait for it were promised that it, or the trim, survives a power cut.
                self.buffer.unlist(entry);
            } else if !self.buffer[entry].acknowledge.is_empty() {
                // A command waits until its data are on the media. They are followed there by zeros.
                return self.zero_awaited(shared, entry);
            } else if self.buffer[entry].phase == Phase::Packed {
                self.buffer.unlist(entry);
                self.buffer[entry].dropped = true;
                self.flushed(entry);
            } else {
                self.zero(shared, entry);
                let record = &mut self.buffer[entry];
                (record.dirty, record.wanted, record.content) = (0, false, Content::Unmapped);
                record.users += 1;
                self.flushed(entry);
                self.release(shared, entry);
            }
        }
        self.translation.trim(lpn);
        shared.tap_trimmed(self.stored_at(lpn));
        self.writes.behind.wake(lpn);
        if awaited {
            // The trim stands for the data that the flush in progress waited for: without either, an older version could come back.
            self.flush_waits_for_trims();
        }
    }

    /// A page that a forced write waits for is overwritten with zeros instead of being unmapped.
    pub(crate) fn zero_awaited(&mut self, shared: &mut Shared, entry: u32) {
        self.zero(shared, entry);
        self.buffer.hold_for_write(entry);
        let record = &mut self.buffer[entry];
        (record.dirty, record.wanted, record.content) = (record.valid, true, Content::Data);
        record.users += 1;
        self.release(shared, entry);
    }

    /// The flush in progress waits for the trims so far.
    pub(super) fn flush_waits_for_trims(&mut self) {
        self.flushes.trims = self.translation.flush_point();
    }

    fn zero(&mut self, shared: &mut Shared, entry: u32) {
        self.buffer.images_mut(entry, 0, shared.layout.sectors_per_unit).fill(0);
        self.buffer[entry].valid = shared.full;
    }
}
