//! Writes that fail: a program that must be repeated, old content that cannot be read, a drive without space.

use super::BlockNamespace;
use super::buffer::Phase;
use crate::front::commands::Work;
use crate::shared::Shared;
use pellucid_flash::{StageTimes, Status};
use pellucid_ftl::Located;

impl BlockNamespace {
    /// The program of an entry failed. If it is still the page's newest version it is programmed again; else the newer one
    /// takes over what waits for it.
    pub(super) fn program_again(&mut self, shared: &mut Shared, entry: u32, stages: &StageTimes) {
        let (list, now) = (self.buffer[entry].acknowledge, shared.now);
        list.for_each(&mut shared.slices, |slice| slice.add_stages(stages, now));
        if self.buffer[entry].listed {
            self.buffer[entry].again = true;
            self.pack(shared, entry);
            return;
        }
        let dirty = std::mem::take(&mut self.buffer[entry].dirty);
        self.buffer[entry].users += 1;
        let (lpn, written_at) = (self.buffer[entry].lpn, self.buffer[entry].written_at);
        // The page of a cache may have been evicted while the newer entry still waits for data of its own: that entry takes over nothing.
        let takes_over = |newer: &u32| {
            let held = &self.buffer[*newer];
            !self.is_cache() || held.follows == entry || held.valid == shared.full
        };
        let newer = self.buffer.find(lpn).filter(takes_over);
        if newer.is_none() && self.buffer[entry].flushing {
            // The flush in progress waited for these data; now it waits for the trim that made the page absent. (The trim found a newer
            // entry, for which the flush did not wait.)
            self.flush_waits_for_trims();
        }
        match newer {
            Some(newer) => {
                // It began as a copy of this one, so it carries these sectors, or newer ones; or after a trim of the
                // page, and a fill brings zeros for those that it lacks.
                self.buffer.busy(newer);
                self.buffer.hold_for_write(newer);
                if self.buffer[newer].follows == entry {
                    let lacks = self.buffer[entry].valid & !self.buffer[newer].valid;
                    self.buffer.copy_sectors(entry, newer, lacks);
                    if lacks != 0 {
                        self.buffer[newer].is_state_dirty = self.buffer[entry].is_state_dirty;
                    }
                }
                let held = &mut self.buffer[newer];
                held.dirty |= dirty;
                held.written_at = held.written_at.max(written_at);
                let mut waiting = self.buffer[entry].acknowledge.take();
                let mut list = self.buffer[newer].acknowledge;
                while let Some(slice) = waiting.pop(&mut shared.slices) {
                    list.push_back(&mut shared.slices, slice);
                }
                self.buffer[newer].acknowledge = list;
                if self.buffer[entry].flushing && !self.buffer[newer].flushing {
                    (self.buffer[newer].flushing, self.buffer[entry].flushing) = (true, false);
                }
                self.dispatch(shared, newer);
            }
            // Trimmed, but a power cut may still bring back what is older than the data that a command waits for.
            None if self.is_cache() => self.acknowledge(shared, entry, None, Status::WriteFault),
            None if !self.buffer[entry].acknowledge.is_empty()
                && !matches!(self.translation.peek(lpn), Located::At(_)) =>
            {
                self.buffer.list(entry);
                self.buffer[entry].again = true;
                self.zero_awaited(shared, entry);
                return self.release(shared, entry);
            }
            // The newer one is on the media, or no command waits.
            None => self.acknowledge(shared, entry, None, Status::Success),
        }
        self.flushed(entry);
        self.unpin(entry);
        self.release(shared, entry);
    }

    /// The old content of an entry that must be written cannot be read, so its new sectors cannot be stored either.
    pub(crate) fn lose(&mut self, shared: &mut Shared, entry: u32) {
        debug_assert!(!self.is_cache(), "the blocks of a cache are written whole");
        self.buffer.busy(entry);
        let waiting = self.buffer[entry].acknowledge;
        let mut told = 0;
        waiting.for_each(&mut shared.slices, |slice| told |= slice.mask());
        let record = &mut self.buffer[entry];
        // Sectors for which no write waits were acknowledged.
        let acknowledged = record.dirty & !told != 0 && !record.dropped;
        (record.dirty, record.wanted) = (0, false);
        if acknowledged {
            self.flushes.losses.note(record.written_at);
        }
        record.valid = 0;
        self.acknowledge(shared, entry, None, Status::WriteFault);
        self.flush_failed(entry);
    }

    /// As [`BlockNamespace::give_up_writing`], if commands of the namespace wait.
    pub fn give_up_if_stuck(&mut self, shared: &mut Shared) -> bool {
        let own = |work: &Work| work.fetched && work.command.namespace == self.number;
        if shared.works.iter().any(own) {
            self.give_up_writing(shared);
            // Reads that go on now may have to be looked up.
            self.write_map(shared);
        }
        false
    }

    /// Makes the namespace read-only when commands wait and nothing can happen any more: no space is left, and none can be reclaimed. Data
    /// in the buffer stay there and can be read.
    pub(crate) fn give_up_writing(&mut self, shared: &mut Shared) {
        self.read_only = true;
        self.writes.stalled = false;
        for queue in self.writes.packer.queues() {
            // These only: slices that get an entry below may pack others.
            for entry in self.writes.packer.take_all(queue) {
                self.writes.leaving -= 1;
                let record = &mut self.buffer[entry];
                (record.phase, record.wanted) = (Phase::Resting, false);
                // Trimmed, or replaced by a newer one: no read will find it.
                record.dirty &= if record.listed { u64::MAX } else { 0 };
                record.users += 1;
                self.acknowledge(shared, entry, None, Status::WriteFault);
                self.flush_failed(entry);
                if !self.buffer[entry].listed {
                    self.unpin(entry);
                }
                self.release(shared, entry);
            }
        }
        // Reads go on one after the other, whatever the buffer cannot get rid of; writes are refused in their turn.
        if !self.starved.is_line_empty() && !self.make_vacancy() {
            self.buffer.grow();
        }
        self.feed_starved(shared);
        self.fail_flushes(shared);
        self.writes.behind.wake_all();
        self.let_behind_go_on(shared);
    }
}
