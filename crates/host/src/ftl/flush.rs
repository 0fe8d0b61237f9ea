//! Flush, force unit access and trim: what must be on the media.
//!
//! ```text
//!  forced write, flush ─► point in the ring ─► everything before it is on the media ─┬─► forced write done
//!                                                                                    └─► flush: segments of trimmed pages ─► done
//! ```
//! The points rise, so that those who wait stand in one line. Map segments, for trims and for the rolling checkpoint, are
//! programmed in stripes of their own.

use super::HostFtl;
use pellucid_flash::{Cause, Lpn, Opcode, Status};
use pellucid_ftl::{SegmentWork, Stream};
use std::collections::VecDeque;

/// Map segments that are on their way to the media at one time.
const SEGMENTS_AT_ONCE: usize = 512;

/// A map segment on its way to the media.
#[derive(Clone, Debug)]
struct SegmentWrite {
    segment: u32,
    image: Vec<u8>,
    /// A flush waits for it.
    flushed: bool,
    planned: bool,
    cause: Cause,
}

/// Flushes, forced writes, and map segments being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flushes {
    /// Who waits until the ring is on the media up to a point.
    awaiting: VecDeque<(u64, u32)>,
    /// Flushes whose data are on the media, and whose trims may not be.
    trims: VecDeque<u32>,
    segments: Vec<SegmentWrite>,
    /// Images that are used again.
    images: Vec<Vec<u8>>,
}

impl Flushes {
    /// Whether somebody waits, or segments do.
    pub fn is_waiting(&self) -> bool {
        !self.awaiting.is_empty() || !self.trims.is_empty() || self.segments.iter().any(|s| !s.planned)
    }

    /// The content of a segment that is being programmed.
    pub fn image(&self, segment: u32) -> &[u8] {
        let write = self.segments.iter().find(|w| w.segment == segment && w.planned);
        &write.expect("a segment program without its content").image
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
        while let Some(&(point, request)) = self.flushes.awaiting.front() {
            if point > self.ring.sync {
                return;
            }
            self.flushes.awaiting.pop_front();
            let command = self.requests[request].command.as_ref().expect("a request has its command");
            match command.opcode {
                Opcode::Flush => self.flushes.trims.push_back(request),
                _ => self.finish(request, Status::Success),
            }
            self.moved = true;
        }
    }

    /// Goes on with flushes whose data are on the media.
    pub(super) fn continue_flush(&mut self) {
        while let Some(&request) = self.flushes.trims.front() {
            if self.flushes.segments.len() >= SEGMENTS_AT_ONCE {
                break;
            }
            match self.ftl.next_flush_segment() {
                SegmentWork::Wait => break,
                SegmentWork::Write(segment) => self.add_segment(segment, true, Cause::Journal),
                SegmentWork::None if self.flushes.segments.iter().any(|s| s.flushed) => break,
                SegmentWork::None => {
                    self.flushes.trims.pop_front();
                    self.moved = true;
                    self.finish(request, Status::Success);
                }
            }
        }
        self.plan_segments();
    }

    /// Writes the segments with trimmed pages, as far as possible now; flushes wait for them too.
    pub(super) fn save_trims(&mut self) {
        while self.flushes.segments.len() < SEGMENTS_AT_ONCE
            && let SegmentWork::Write(segment) = self.ftl.next_flush_segment()
        {
            self.add_segment(segment, true, Cause::Journal);
        }
        self.plan_segments();
    }

    /// The next segments of the rolling checkpoint.
    pub(super) fn write_checkpoint_segments(&mut self) {
        for segment in self.ftl.next_checkpoint_segments() {
            self.add_segment(segment, false, Cause::Journal);
        }
        self.plan_segments();
    }

    /// Collection found a map segment in its victim: instead of moving it, it is written anew.
    pub(super) fn rewrite_segment(&mut self, lpn: Lpn, cause: Cause) {
        self.add_segment(lpn.0 - self.ftl.user_units(), false, cause);
        self.plan_segments();
    }

    fn add_segment(&mut self, segment: u32, flushed: bool, cause: Cause) {
        self.moved = true;
        // One that waits for room will carry the newest content anyway.
        match self.flushes.segments.iter_mut().find(|w| w.segment == segment && !w.planned) {
            Some(write) => {
                write.flushed |= flushed;
                if cause != Cause::Journal {
                    write.cause = cause;
                }
            }
            None => {
                let image = self.flushes.images.pop().unwrap_or_default();
                self.flushes.segments.push(SegmentWrite { segment, image, flushed, planned: false, cause });
            }
        }
    }

    /// Programs the segments that have not been planned, a stripe of them at a time. Two versions of one segment are never
    /// in flight together.
    pub(super) fn plan_segments(&mut self) {
        loop {
            let writes = &self.flushes.segments;
            if writes.iter().all(|w| w.planned) {
                return;
            }
            let running = |segment| writes.iter().any(|w| w.segment == segment && w.planned);
            let batch: Vec<usize> = (0..writes.len())
                .filter(|&i| !writes[i].planned && !running(writes[i].segment))
                .take(self.lines.stripe_sectors as usize)
                .collect();
            if batch.is_empty() {
                return;
            }
            let segments: Vec<u32> = batch.iter().map(|&i| writes[i].segment).collect();
            let lpns: Vec<Lpn> = segments.iter().map(|&s| self.ftl.segment_lpn(s)).collect();
            let moved = batch.iter().any(|&i| writes[i].cause != Cause::Journal);
            let stream =
                if moved || self.ftl.erases_wait_for_trims() { Stream::MetaMoved } else { Stream::Meta };
            let settled = self.ftl.settled();
            for &at in &batch {
                let write = &mut self.flushes.segments[at];
                self.ftl.segment_image(&settled, write.segment, &mut write.image);
            }
            // Without room, collection makes some; it comes back here whenever something has moved.
            let Some(plan) = self.ftl.plan_program(stream, None, &lpns) else { return };
            self.moved = true;
            let padding = u64::from(self.lines.stripe_sectors) - batch.len() as u64;
            self.counters.programmed_sectors[Cause::Padding as usize] += padding;
            for &at in &batch {
                self.flushes.segments[at].planned = true;
                let cause = self.flushes.segments[at].cause;
                self.counters.programmed_sectors[cause as usize] += 1;
            }
            self.lines.note(plan.first, plan.sequence, lpns.iter().copied());
            self.enter_segments(&plan, &segments);
            self.begin_program(&plan);
        }
    }

    pub(super) fn segment_programmed(&mut self, segment: u32, ok: bool) {
        let at = self.flushes.segments.iter().position(|w| w.segment == segment && w.planned);
        let at = at.expect("a segment program ended that was not planned");
        if ok {
            let write = self.flushes.segments.swap_remove(at);
            self.flushes.images.push(write.image);
        } else {
            self.flushes.segments[at].planned = false;
        }
    }

    /// Nothing can be written any more: flushes and forced writes fail. Segments with trimmed pages stay in line, so that a
    /// later flush fails too instead of promising trims that were never stored.
    pub(super) fn fail_flushes(&mut self) {
        let awaiting = std::mem::take(&mut self.flushes.awaiting).into_iter().map(|(_, request)| request);
        let trims = std::mem::take(&mut self.flushes.trims);
        for request in trims.into_iter().chain(awaiting) {
            self.finish(request, Status::WriteFault);
        }
    }

    /// Forgets a page: it reads as zeros from now on.
    pub(super) fn trim(&mut self, lpn: Lpn) {
        self.ring.trim(lpn);
        self.ftl.trim(lpn);
    }
}
