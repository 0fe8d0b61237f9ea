//! Acknowledged data that were lost, and the flushes that have to say so.
//!
//! A flush covers the writes that were complete when it was *submitted*; when it begins, later writes may also be in the buffer. So
//! after a loss every flush fails until one that covers the lost data has failed, as do flushes submitted before the host could know
//! of that failure:
//!
//! ```text
//!  write ─── complete                                    [fails: it waits for the data; it does not promise them]
//!     flush 1 ─────────────────── fails
//!                     │ data lost │
//!                  flush 2 ────────────── fails            [promises the data: now the host knows]
//!                              flush 3 ────────── fails    [submitted before flush 2 was complete]
//!                                            flush 4 ─── ends well
//! ```

use pellucid_flash::SimTime;

/// Promise of one flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    pub submitted: SimTime,
    /// Whatever was submitted before this was complete when the flush was submitted.
    pub settled: SimTime,
}

/// Losses that the next flushes must report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Submission of the newest write that was lost, as long as the host does not know.
    untold: Option<SimTime>,
    /// Submission of the last flush that told of a loss.
    told_by: Option<SimTime>,
}

impl Losses {
    /// Acknowledged data are lost; the newest of them were submitted at `written`.
    pub fn note(&mut self, written: SimTime) {
        self.untold = self.untold.max(Some(written));
    }

    /// Returns whether a flush that begins fails.
    pub fn concern(&self, flush: Promise) -> bool {
        self.untold.is_some() || self.told_by.is_some_and(|teller| flush.settled <= teller)
    }

    /// A flush fails, for whatever reason.
    pub fn flush_fails(&mut self, flush: Promise) {
        if self.untold.is_some_and(|written| written < flush.settled) {
            (self.untold, self.told_by) = (None, self.told_by.max(Some(flush.submitted)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flush submitted at `submitted`, when everything was complete that had been submitted before `settled`.
    fn flush(submitted: u64, settled: u64) -> Promise {
        Promise { submitted: SimTime(submitted), settled: SimTime(settled) }
    }

    /// Runs a flush from beginning to end while nothing is lost; whether it fails.
    fn run(losses: &mut Losses, flush: Promise) -> bool {
        let fails = losses.concern(flush);
        if fails {
            losses.flush_fails(flush);
        }
        fails
    }

    #[test]
    fn a_loss_is_told_once_by_a_flush_that_promises_the_data() {
        let mut losses = Losses::default();
        assert!(!run(&mut losses, flush(5, 6)));
        losses.note(SimTime(10));
        assert!(run(&mut losses, flush(20, 21)));
        assert!(!run(&mut losses, flush(30, 31)));
    }

    #[test]
    fn the_flush_in_progress_tells_it() {
        let mut losses = Losses::default();
        losses.note(SimTime(10));
        losses.flush_fails(flush(20, 21));
        assert!(!run(&mut losses, flush(30, 31)), "the host knew");
    }

    #[test]
    fn a_flush_that_does_not_promise_the_data_tells_nothing() {
        let mut losses = Losses::default();
        losses.note(SimTime(10));
        // Submitted when the write, or one before it, was not complete.
        assert!(run(&mut losses, flush(20, 10)));
        assert!(run(&mut losses, flush(21, 9)));
        assert!(run(&mut losses, flush(22, 11)));
        assert!(!run(&mut losses, flush(30, 31)));
    }

    #[test]
    fn flushes_beside_the_one_that_tells_it_fail_too() {
        let mut losses = Losses::default();
        losses.note(SimTime(10));
        losses.flush_fails(flush(20, 21));
        // Submitted before that one was complete.
        assert!(run(&mut losses, flush(22, 20)));
        assert!(!run(&mut losses, flush(30, 23)), "what failed beside it told nothing new");
    }

    #[test]
    fn the_newest_of_several_losses_counts() {
        let mut losses = Losses::default();
        losses.note(SimTime(10));
        losses.note(SimTime(5));
        assert!(run(&mut losses, flush(20, 8)), "it promises one of the two");
        assert!(run(&mut losses, flush(21, 22)));
        losses.note(SimTime(30));
        assert!(run(&mut losses, flush(40, 41)), "another loss");
        assert!(!run(&mut losses, flush(50, 51)));
    }
}
