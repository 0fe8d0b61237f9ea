//! Translation pages on their way to the media: requested, and being programmed.
//!
//! ```text
//!  add ─► wanted ── planned with others, their content taken then ─► planned ─┬─ ended well ─► gone
//!            ▲                                                                │
//!            └────────────────────────────── failed ──────────────────────────┘
//! ```
//! With a map in flash, a page of which not all entries are in memory is read before it is planned ([`MapWrites::next_read`]).
//!
//! Invariants: a page stands at most once among the wanted and at most once among the planned. Two versions of one page
//! are never in flight together.

use pellucid_flash::{Cause, MapReason};

/// A translation page on its way to the media.
#[derive(Clone, Debug)]
struct MapWrite {
    page: u32,
    image: Vec<u8>,
    planned: bool,
    cause: Cause,
    reason: MapReason,
    content: Content,
}

/// Availability of the previous content of a translation page in the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Here,
    /// The page has to be read first.
    Missing,
    /// The page is being read.
    Coming,
}

/// Urgency of a write: GC waits for it, a flush may; nothing waits for pages evicted from the cached table.
fn urgency(cause: Cause) -> u32 {
    match cause {
        Cause::Map => 0,
        Cause::Journal => 1,
        _ => 2,
    }
}

/// The translation pages on their way, in the order in which they were asked for as far as none has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct MapWrites {
    writes: Vec<MapWrite>,
    /// Images of finished pages, for reuse.
    images: Vec<Vec<u8>>,
    /// Pages that left the cached table since the last plan.
    left: u32,
}

impl MapWrites {
    /// Pages on their way.
    #[inline]
    pub fn count(&self) -> usize {
        self.writes.len()
    }

    /// Returns whether any translation pages wait for their program.
    pub fn any_wanted(&self) -> bool {
        self.writes.iter().any(|w| !w.planned)
    }

    /// Returns whether less than a superpage waits for its program, and no flush or checkpoint has asked for it.
    pub fn can_wait(&self, per_superpage: u32) -> bool {
        let wanted = || self.writes.iter().filter(|w| !w.planned);
        wanted().count() < per_superpage as usize && wanted().all(|w| w.cause != Cause::Journal)
    }

    /// Returns whether less than a superpage waits for its program, no flush or checkpoint waits for it, and no superpage's worth has
    /// arrived since the last program. (Arrivals may concern pages that are wanted already.)
    pub fn gathers(&self, per_superpage: u32) -> bool {
        let wanted = || self.writes.iter().filter(|w| !w.planned);
        self.left < per_superpage
            && wanted().count() < per_superpage as usize
            && wanted().all(|w| w.cause == Cause::Map)
    }

    /// Returns whether the content of a page is in the controller, as it is on its way to the media.
    pub fn holds(&self, page: u32) -> bool {
        self.writes.iter().any(|w| w.page == page && (w.planned || w.content == Content::Here))
    }

    /// The next page that has to be read before it can be written, and why it is written. Report [`MapWrites::was_read`].
    pub fn next_read(&mut self) -> Option<(u32, MapReason)> {
        let write = self.writes.iter_mut().find(|w| w.content == Content::Missing)?;
        write.content = Content::Coming;
        Some((write.page, write.reason))
    }

    /// Records that a page has been read.
    pub fn was_read(&mut self, page: u32) {
        self.writes.iter_mut().filter(|w| w.page == page).for_each(|w| w.content = Content::Here);
    }

    /// Wants a page written that left the cached table.
    pub fn add_left(&mut self, page: u32, reason: MapReason, content: Content) {
        self.left += 1;
        self.want(page, Cause::Map, reason, content);
    }

    /// Wants a page written whose content is in the controller.
    pub fn add(&mut self, page: u32, cause: Cause) {
        let reason = if cause == Cause::Journal { MapReason::Flush } else { MapReason::Gc };
        self.want(page, cause, reason, Content::Here);
    }

    /// Wants a page written. A page that is wanted already will carry the newest content anyway.
    pub fn want(&mut self, page: u32, cause: Cause, reason: MapReason, content: Content) {
        match self.writes.iter_mut().find(|w| w.page == page && !w.planned) {
            Some(write) => {
                if urgency(cause) >= urgency(write.cause) {
                    write.cause = cause;
                }
                if content == Content::Here {
                    write.content = content;
                }
            }
            None => {
                let image = self.images.pop().unwrap_or_default();
                self.writes.push(MapWrite { page, image, planned: false, cause, reason, content });
            }
        }
    }

    /// The next superpage of wanted pages, at most `per_superpage` of them, as numbers for the calls below.
    pub fn next_batch(&self, per_superpage: u32) -> Vec<usize> {
        let running = |page| self.writes.iter().any(|w| w.page == page && w.planned);
        let ready = |write: &MapWrite| !write.planned && write.content == Content::Here;
        let may = |at: &usize| ready(&self.writes[*at]) && !running(self.writes[*at].page);
        // Writes that GC waits for come first: a superpage without one must leave the GC reserve, and only GC makes space beside it. Writes
        // that nothing waits for come last.
        let of = |urgent: u32| {
            (0..self.writes.len()).filter(move |at| may(at) && urgency(self.writes[*at].cause) == urgent)
        };
        of(2).chain(of(1)).chain(of(0)).take(per_superpage as usize).collect()
    }

    /// Page and cause of a write.
    pub fn wanted(&self, at: usize) -> (u32, Cause) {
        (self.writes[at].page, self.writes[at].cause)
    }

    /// Reason for which a write is wanted.
    pub fn reason(&self, at: usize) -> MapReason {
        self.writes[at].reason
    }

    /// Marks a write as planned; returns the memory for its content.
    pub fn planned(&mut self, at: usize) -> &mut Vec<u8> {
        self.left = 0;
        self.writes[at].planned = true;
        &mut self.writes[at].image
    }

    /// The content of a page that is being programmed.
    pub fn image(&self, page: u32) -> &[u8] {
        let write = self.writes.iter().find(|w| w.page == page && w.planned);
        &write.expect("a program of a translation page without its content").image
    }

    /// Ends the program of a page; a failed page is wanted again, together with requests that came meanwhile.
    pub fn ended(&mut self, page: u32, ok: bool) {
        let at = self.writes.iter().position(|w| w.page == page && w.planned);
        let at = at.expect("a program of a translation page ended that was not planned");
        if !ok && !self.is_wanted(page) {
            self.writes[at].planned = false;
            return;
        }
        let MapWrite { image, cause, reason, .. } = self.writes.swap_remove(at);
        self.images.push(image);
        if !ok {
            self.want(page, cause, reason, Content::Here);
        }
    }

    fn is_wanted(&self, page: u32) -> bool {
        self.writes.iter().any(|w| w.page == page && !w.planned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behind a superpage that finds no space without the GC reserve, GC would wait for ever.
    #[test]
    fn pages_that_gc_waits_for_go_ahead_of_checkpoints_and_evictions() {
        let mut writes = MapWrites::default();
        writes.add_left(1, MapReason::Eviction, Content::Here);
        (2..6).for_each(|page| writes.add(page, Cause::Journal));
        (6..9).for_each(|page| writes.add(page, Cause::Gc));
        let batch: Vec<u32> = writes.next_batch(4).into_iter().map(|at| writes.wanted(at).0).collect();
        assert_eq!(batch, [6, 7, 8, 2]);
        let all: Vec<u32> = writes.next_batch(16).into_iter().map(|at| writes.wanted(at).0).collect();
        assert_eq!(all, [6, 7, 8, 2, 3, 4, 5, 1]);
    }

    #[test]
    fn a_failed_page_that_was_asked_for_meanwhile_is_wanted_once() {
        for again in [false, true] {
            let mut writes = MapWrites::default();
            writes.add(3, Cause::Gc);
            writes.add(5, Cause::Journal);
            for at in writes.next_batch(4) {
                writes.planned(at).push(at as u8);
            }
            if again {
                writes.add_left(3, MapReason::Eviction, Content::Here);
            }
            assert!(writes.next_batch(4).is_empty(), "two versions of one page are never in flight together");
            writes.ended(3, false);
            writes.ended(5, true);
            let wanted: Vec<(u32, Cause)> =
                writes.next_batch(4).into_iter().map(|at| writes.wanted(at)).collect();
            assert_eq!(wanted, [(3, Cause::Gc)], "with what GC waits for");
            writes.next_batch(4).into_iter().for_each(|at| writes.planned(at).clear());
            writes.ended(3, true);
            assert_eq!(writes.count(), 0);
        }
    }
}
