//! Flushes, forced writes (FUA) and trims: the data that must be on the media.
//!
//! ```text
//!  forced write, flush ─► point in the ring ─► everything before it is on the media ─┬─► forced write done
//!                                                                                    └─► flush: trims are on the media ─► done
//! ```
//! The points only rise, so waiting flushes form one queue. Translation pages are programmed in their own
//! superpages.

use super::HostFtl;
use super::write::Content;
use pellucid_flash::{Cause, Lpn, Opcode, Status};
use pellucid_ftl::{FlushPoint, Located, MapJob};
use std::collections::VecDeque;

/// Waiting flushes and forced writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flushes {
    /// Requests that wait until the ring is on the media up to a point.
    awaiting: VecDeque<(u64, u32)>,
    /// Flushes whose data are on the media, each with the point of the trims that it waits for.
    trims: VecDeque<(FlushPoint, u32)>,
    /// Content of the index that a stop writes.
    pub(super) index: Vec<u8>,
}

impl Flushes {
    /// Reports whether a request waits.
    pub fn is_waiting(&self) -> bool {
        !self.awaiting.is_empty() || !self.trims.is_empty()
    }
}

impl HostFtl {
    pub(super) fn start_flush(&mut self, request: u32) {
        self.await_sync(request);
        self.synced();
    }

    /// Completes `request` when all sectors now in the ring are on the media.
    pub(super) fn await_sync(&mut self, request: u32) {
        let point = self.ring.mem;
        self.ring.flush_point = self.ring.flush_point.max(point);
        // A newer version, at a later position, may replace an earlier failed write.
        self.flushes.awaiting.push_back((point, request));
    }

    /// Advances the ring after a write, and completes the requests that waited for it.
    pub(super) fn synced(&mut self) {
        if self.ring.settle() {
            self.moved = true;
        }
        self.release();
        while let Some(&(point, request)) = self.flushes.awaiting.front() {
            if point > self.ring.safe {
                return;
            }
            self.flushes.awaiting.pop_front();
            let command = self.requests[request].command.as_ref().expect("a request has its command");
            match command.opcode {
                Opcode::Flush => self.flushes.trims.push_back((self.ftl.flush_point(), request)),
                _ => self.finish(request, Status::Success),
            }
            self.moved = true;
        }
    }

    /// Releases the sectors of the ring that are readable on the media.
    fn release(&mut self) {
        if self.lines.held_rows == 0 {
            self.ring.kept = self.ring.sync;
            return;
        }
        while self.ring.kept < self.ring.sync {
            let lpn = self.ring.entry(self.ring.kept).lpn;
            // No command reads a version that a newer one has replaced.
            if self.ring.find(lpn) == Some(self.ring.kept)
                && let Located::At(place) = self.ftl.peek(lpn)
                && !self.lines.is_readable(place)
            {
                break;
            }
            self.ring.kept += 1;
            self.moved = true;
        }
        self.send_deferred();
    }

    /// Continues the flushes whose data are on the media.
    pub(super) fn continue_flush(&mut self) {
        while let Some(&(point, request)) = self.flushes.trims.front() {
            let wanted = self.ftl.map_progress().wanted;
            let saved = self.ftl.flush_to(point);
            // A waiting request may now be the reason to pad a superpage.
            self.moved |= !wanted && self.ftl.map_progress().wanted;
            if !saved {
                break;
            }
            self.flushes.trims.pop_front();
            self.moved = true;
            self.finish(request, Status::Success);
        }
        self.write_map();
    }

    /// Reports whether a command or a translation page waits for the media.
    pub(super) fn is_awaited(&self) -> bool {
        self.flushes.is_waiting() || self.ftl.map_progress().wanted
    }

    /// Programs the translation pages that are due. If there is no space, GC reclaims some; this runs again
    /// after each change.
    pub(super) fn write_map(&mut self) {
        while let Some(job) = self.ftl.next_map_job() {
            let MapJob::Program { plan, units, by_cause, .. } = job else { return };
            self.moved = true;
            let padding = u64::from(self.lines.superpage_sectors - units);
            self.counters.programmed_sectors[Cause::Padding as usize] += padding;
            for (counter, &units) in self.counters.programmed_sectors.iter_mut().zip(&by_cause) {
                *counter += u64::from(units);
            }
            let marks = (0..units).map(|position| self.ftl.metadata(plan.id, position).0);
            self.lines.note(plan.first, plan.sequence, marks);
            self.programs.enter(&plan, (0..units).map(Content::Metadata));
            self.begin_program(&plan);
        }
    }

    /// Fails flushes and forced writes when writing is no longer possible. Translation pages with trims stay
    /// queued, so a later flush fails too and does not promise trims that were never stored.
    pub(super) fn fail_flushes(&mut self) {
        let awaiting = std::mem::take(&mut self.flushes.awaiting);
        let trims = std::mem::take(&mut self.flushes.trims);
        let trims = trims.into_iter().map(|(_, request)| request);
        for request in trims.chain(awaiting.into_iter().map(|(_, request)| request)) {
            self.finish(request, Status::WriteFault);
        }
    }

    /// Trims a page: it reads as zeros from now on.
    pub(super) fn trim(&mut self, lpn: Lpn) {
        self.ring.trim(lpn);
        self.ftl.trim(lpn);
    }
}
