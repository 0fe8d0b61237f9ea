//! A clean end: the whole map goes to the media, so that the next start reads it and replays nothing.
//!
//! ```text
//!  stop ─► the ring is on the media ─► every map segment is written once more ─► at rest: stopped
//! ```
//! No mark says "clean", so none can be stale. A segment carries its watermark: every program with a lower number is in it.
//! After a stop no line of data was written above the lowest watermark, so a start looks at none. Whatever is written
//! later has higher numbers and is replayed; a segment that cannot be read has no watermark, and everything is replayed. A stop
//! that a power cut ends leaves what a cut at that moment leaves.
//!
//! With a volatile contract there are no segments: a stop brings the data to the media, and the next start reads the lines' ends.

use super::HostFtl;
use pellucid_flash::Cause;

/// Segments that a stop has on their way at one time; more would only be more memory.
const AT_ONCE: usize = 128;

/// Free lines that segments need: one to open, and one that collection keeps.
const FREE_MIN: u32 = 2;

/// How far a stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Waits until all of the ring is on the media and nothing is under way.
    Ring,
    /// The next segment to be written.
    Segments(u32),
    /// Everything is on the media and nothing is under way.
    Done,
}

impl HostFtl {
    /// Comes to rest.
    pub(super) fn begin_stop(&mut self) {
        self.stop = Some(Stop::Ring);
        self.moved = true;
    }

    /// Whether collection rests. What it moved while segments are written would have to be replayed; where segments need the
    /// room it does so all the same.
    pub(super) fn rests(&self) -> bool {
        self.stop.is_some() && self.ftl.free_blocks() > FREE_MIN
    }

    /// Goes on with a stop.
    pub(super) fn continue_stop(&mut self) {
        match self.stop {
            Some(Stop::Ring) => {
                let all = self.ring.mem;
                if self.ring.sync < all {
                    self.moved |= self.ring.flush_point < all;
                    self.ring.flush_point = all;
                } else if self.outstanding == 0 {
                    self.stop = Some(Stop::Segments(0));
                    self.moved = true;
                }
            }
            Some(Stop::Segments(next)) => {
                let count = self.ftl.segments();
                let room = AT_ONCE.saturating_sub(self.flushes.segments.count()) as u32;
                let upto = count.min(next + room);
                for segment in next..upto {
                    self.flushes.segments.add(segment, false, Cause::Journal);
                }
                self.stop = Some(Stop::Segments(upto));
                if upto > next {
                    self.moved = true;
                    self.plan_segments();
                }
                if upto == count && self.flushes.segments.count() == 0 && self.outstanding == 0 {
                    self.stop = Some(Stop::Done);
                }
            }
            _ => {}
        }
    }
}
