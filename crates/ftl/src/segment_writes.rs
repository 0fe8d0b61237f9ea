//! Map segments on their way to the media: which are wanted, and which are being programmed.
//!
//! Whoever runs the engine, drive or host, programs what [`SegmentWrites::plan`] hands out and reports the end:
//!
//! ```text
//!  add ─► wanted ── plan (a stripe of them, their content taken now) ─► planned ─┬─ ended well ─► gone
//!            ▲                                                                   │
//!            └──────────────────────────────── failed ───────────────────────────┘
//! ```
//! Invariants: a segment stands at most once among the wanted and at most once among the planned. Two versions of one segment
//! are never in flight together.

use crate::journal::SegmentWork;
use crate::page_map::PageMap;
use crate::translation::{Plan, Stream};
use pellucid_flash::{Cause, Lpn};

/// Segments that are on their way at one time: after a trim of the whole drive there may be very many.
const AT_ONCE: usize = 512;

/// A segment on its way to the media.
#[derive(Clone, Debug)]
struct SegmentWrite {
    segment: u32,
    image: Vec<u8>,
    planned: bool,
    cause: Cause,
}

/// The segments on their way, in the order in which they were asked for as far as none has ended.
#[derive(Clone, Debug, Default)]
pub struct SegmentWrites {
    writes: Vec<SegmentWrite>,
    /// Images of segments that have ended, used again.
    images: Vec<Vec<u8>>,
}

/// What [`SegmentWrites::plan`] found.
#[derive(Debug)]
pub enum SegmentPlan {
    /// Nothing can be programmed now.
    None,
    /// Something could, but there is no room: collection has to make some first.
    NoRoom,
    /// Program these segments, each with its cause, at the places that follow each other from the plan's first.
    Program(Plan, Vec<(u32, Cause)>),
}

impl SegmentWrites {
    /// Segments on their way.
    pub fn count(&self) -> usize {
        self.writes.len()
    }

    /// Whether some wait for their program.
    pub fn any_wanted(&self) -> bool {
        self.writes.iter().any(|w| !w.planned)
    }

    /// Whether what waits for its program is less than a stripe, and collection alone has asked for it.
    pub fn can_wait(&self, per_stripe: u32) -> bool {
        let wanted = || self.writes.iter().filter(|w| !w.planned);
        wanted().count() < per_stripe as usize && wanted().all(|w| w.cause != Cause::Journal)
    }

    /// The content of a segment that is being programmed.
    pub fn image(&self, segment: u32) -> &[u8] {
        let write = self.writes.iter().find(|w| w.segment == segment && w.planned);
        &write.expect("a segment program without its content").image
    }

    /// Wants a segment written. One that is wanted already will carry the newest content anyway.
    pub fn add(&mut self, segment: u32, cause: Cause) {
        match self.writes.iter_mut().find(|w| w.segment == segment && !w.planned) {
            Some(write) if cause != Cause::Journal => write.cause = cause,
            Some(_) => {}
            None => {
                let image = self.images.pop().unwrap_or_default();
                self.writes.push(SegmentWrite { segment, image, planned: false, cause });
            }
        }
    }

    /// Wants the next segments of the rolling checkpoint; call when [`PageMap::checkpoint_due`].
    pub fn add_checkpoint(&mut self, map: &mut PageMap) {
        for segment in map.next_checkpoint_segments() {
            self.add(segment, Cause::Journal);
        }
    }

    /// Wants the segments with trimmed pages, as many as may be on their way.
    pub fn add_trimmed(&mut self, map: &mut PageMap) {
        while self.writes.len() < AT_ONCE
            && let SegmentWork::Write(segment) = map.next_flush_segment()
        {
            self.add(segment, Cause::Journal);
        }
    }

    /// The next stripe of wanted segments, at most `per_stripe` of them, each with its content as of now.
    pub fn plan(&mut self, map: &mut PageMap, per_stripe: u32) -> SegmentPlan {
        let running = |segment| self.writes.iter().any(|w| w.segment == segment && w.planned);
        let batch: Vec<usize> = (0..self.writes.len())
            .filter(|&at| !self.writes[at].planned && !running(self.writes[at].segment))
            .take(per_stripe as usize)
            .collect();
        if batch.is_empty() {
            return SegmentPlan::None;
        }
        let lpns: Vec<Lpn> = batch.iter().map(|&at| map.segment_lpn(self.writes[at].segment)).collect();
        let moved = batch.iter().any(|&at| self.writes[at].cause != Cause::Journal);
        let stream = if moved || map.erases_wait_for_trims() { Stream::MetaMoved } else { Stream::Meta };
        let settled = map.settled();
        for &at in &batch {
            let write = &mut self.writes[at];
            map.segment_image(&settled, write.segment, &mut write.image);
        }
        let Some(plan) = map.plan_program(stream, None, &lpns) else { return SegmentPlan::NoRoom };
        let planned = batch.into_iter().map(|at| {
            let write = &mut self.writes[at];
            write.planned = true;
            (write.segment, write.cause)
        });
        SegmentPlan::Program(plan, planned.collect())
    }

    /// The program of a segment has ended; a failed one is wanted again.
    pub fn ended(&mut self, segment: u32, ok: bool) {
        let at = self.writes.iter().position(|w| w.segment == segment && w.planned);
        let at = at.expect("a segment program ended that was not planned");
        if ok {
            let write = self.writes.swap_remove(at);
            self.images.push(write.image);
        } else {
            self.writes[at].planned = false;
        }
    }
}
