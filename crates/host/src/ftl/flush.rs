//! Flush, force unit access and trim: what must be on the media.
//!
//! ```text
//!  forced write, flush ─► point in the ring ─► everything before it is on the media ─┬─► forced write done
//!                                                                                    └─► flush: segments of trimmed pages ─► done
//! ```
//! The points rise, so that those who wait stand in one line. Map segments, for trims and for the rolling checkpoint, are
//! programmed in stripes of their own.

use super::HostFtl;
use pellucid_flash::{Cause, Lpn, Opcode, Ppa, Status};
use pellucid_ftl::{SegmentPlan, SegmentWrites};
use std::collections::VecDeque;

/// Flushes, forced writes, and map segments being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flushes {
    /// Who waits until the ring is on the media up to a point.
    awaiting: VecDeque<(u64, u32)>,
    /// Flushes whose data are on the media, each with the number of trims that it waits for.
    trims: VecDeque<(u64, u32)>,
    pub(super) segments: SegmentWrites,
    /// Content of the index that a stop is writing.
    pub(super) index: Vec<u8>,
}

impl Flushes {
    /// Whether somebody waits, or segments do.
    pub fn is_waiting(&self) -> bool {
        !self.awaiting.is_empty() || !self.trims.is_empty() || self.segments.any_wanted()
    }

    /// The content of a segment that is being programmed.
    pub fn image(&self, segment: u32) -> &[u8] {
        self.segments.image(segment)
    }
}

impl HostFtl {
    pub(super) fn start_flush(&mut self, request: u32) {
        self.await_sync(request);
        self.synced();
    }

    /// `request` is done when everything that is in the ring now is on the media.
    pub(super) fn await_sync(&mut self, request: u32) {
        let point = self.ring.mem;
        self.ring.flush_point = self.ring.flush_point.max(point);
        // A failed write before it may be stood for by a newer one behind it.
        self.flushes.awaiting.push_back((point, request));
    }

    /// More of the ring may be on the media.
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
                Opcode::Flush => self.flushes.trims.push_back((self.ftl.trims(), request)),
                _ => self.finish(request, Status::Success),
            }
            self.moved = true;
        }
    }

    /// The ring gives up what can be read from the media.
    fn release(&mut self) {
        if self.lines.held_rows == 0 {
            self.ring.kept = self.ring.sync;
            return;
        }
        while self.ring.kept < self.ring.sync {
            let lpn = self.ring.entry(self.ring.kept).lpn;
            // Nobody reads a version that a newer one has replaced.
            let place = match self.ring.find(lpn) == Some(self.ring.kept) {
                true => self.ftl.lookup(lpn),
                false => Ppa::NONE,
            };
            if place.is_some() && !self.lines.is_readable(place) {
                break;
            }
            self.ring.kept += 1;
            self.moved = true;
        }
        self.send_deferred();
    }

    /// Goes on with flushes whose data are on the media.
    pub(super) fn continue_flush(&mut self) {
        while let Some(&(trims, request)) = self.flushes.trims.front() {
            self.add_trimmed();
            if !self.ftl.has_saved(trims) {
                break;
            }
            self.flushes.trims.pop_front();
            self.moved = true;
            self.finish(request, Status::Success);
        }
        self.plan_segments();
    }

    /// Writes the segments with trimmed pages, as far as possible now; flushes wait for them too.
    pub(super) fn save_trims(&mut self) {
        self.add_trimmed();
        self.plan_segments();
    }

    fn add_trimmed(&mut self) {
        let before = self.flushes.segments.count();
        self.flushes.segments.add_trimmed(&mut self.ftl);
        self.moved |= self.flushes.segments.count() > before;
    }

    /// The next segments of the rolling checkpoint.
    pub(super) fn write_checkpoint_segments(&mut self) {
        self.moved = true;
        self.flushes.segments.add_checkpoint(&mut self.ftl);
        self.plan_segments();
    }

    /// Collection found a map segment in its victim: instead of moving it, it is written anew.
    pub(super) fn rewrite_segment(&mut self, lpn: Lpn, cause: Cause) {
        self.moved = true;
        self.flushes.segments.add(lpn.0 - self.ftl.user_units(), cause);
        self.plan_segments();
    }

    /// Programs the segments that are wanted, a stripe of them at a time. Without room, collection makes some; it comes back
    /// here whenever something has moved.
    #[inline]
    pub(super) fn plan_segments(&mut self) {
        // Asked whenever anything has moved, and seldom there is one.
        if self.flushes.segments.count() > 0 {
            self.plan_wanted_segments();
        }
    }

    fn plan_wanted_segments(&mut self) {
        while let SegmentPlan::Program(plan, batch) =
            self.flushes.segments.plan(&mut self.ftl, self.lines.stripe_sectors)
        {
            self.moved = true;
            let padding = u64::from(self.lines.stripe_sectors) - batch.len() as u64;
            self.counters.programmed_sectors[Cause::Padding as usize] += padding;
            for &(_, cause) in &batch {
                self.counters.programmed_sectors[cause as usize] += 1;
            }
            let segments: Vec<u32> = batch.iter().map(|&(segment, _)| segment).collect();
            let lpns = segments.iter().map(|&segment| self.ftl.segment_mark(segment));
            self.lines.note(plan.first, plan.sequence, lpns);
            self.enter_segments(&plan, &segments);
            self.begin_program(&plan);
        }
    }

    pub(super) fn segment_programmed(&mut self, segment: u32, ok: bool) {
        self.flushes.segments.ended(segment, ok);
    }

    /// Nothing can be written any more: flushes and forced writes fail. Segments with trimmed pages stay in line, so that a
    /// later flush fails too instead of promising trims that were never stored.
    pub(super) fn fail_flushes(&mut self) {
        let awaiting = std::mem::take(&mut self.flushes.awaiting);
        let trims = std::mem::take(&mut self.flushes.trims);
        for (_, request) in trims.into_iter().chain(awaiting) {
            self.finish(request, Status::WriteFault);
        }
    }

    /// Forgets a page: it reads as zeros from now on.
    pub(super) fn trim(&mut self, lpn: Lpn) {
        self.ring.trim(lpn);
        self.ftl.trim(lpn);
    }
}
