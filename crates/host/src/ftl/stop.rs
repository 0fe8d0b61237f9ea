//! Stop: how far a clean stop has come, and the index that it writes.
//!
//! ```text
//!  ring ─► map ─► index ─► done        a command cancels the stop
//! ```

/// Number of free lines that translation pages need: one to open, and one that GC keeps.
pub(crate) const LINES_MIN: u32 = 2;

/// Progress of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Waiting until the whole ring is on the media and nothing is in flight.
    Ring,
    /// Writing translation pages, from this one on.
    Map(u32),
    /// Writing the index.
    Index,
    /// Stopped: everything is on the media and nothing is in flight.
    Done,
}

/// Stop under way, or over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    step: Option<Step>,
    /// Content of the index.
    index: Vec<u8>,
}

impl Stop {
    pub fn begin(&mut self) {
        self.step = Some(Step::Ring);
    }

    /// Cancels the stop; returns `true` if there was one.
    #[inline]
    pub fn cancel(&mut self) -> bool {
        self.step.take().is_some()
    }

    #[inline]
    pub fn is_begun(&self) -> bool {
        self.step.is_some()
    }

    pub fn is_done(&self) -> bool {
        self.step == Some(Step::Done)
    }

    #[inline]
    pub fn step(&self) -> Option<Step> {
        self.step
    }

    /// Advances to the next step, never to an earlier one.
    pub fn go_to(&mut self, step: Step) {
        let order = |step: Step| match step {
            Step::Ring => (0, 0),
            Step::Map(next) => (1, next),
            Step::Index => (2, 0),
            Step::Done => (3, 0),
        };
        let before = self.step.expect("a stop was begun");
        assert!(order(before) <= order(step), "a stop goes back from {before:?} to {step:?}");
        self.step = Some(step);
    }

    /// Sets the content of the index, which has `bytes` bytes.
    pub fn set_index(&mut self, mut index: Vec<u8>, bytes: usize) {
        assert!(index.len() <= bytes, "an index is longer than its place");
        index.resize(bytes, 0);
        self.index = index;
    }

    /// Returns the content of the index.
    pub fn index(&self) -> &[u8] {
        &self.index
    }

    /// Ends the stop. The index is dropped unless the drive has refused to take it, so that it is still to be written.
    pub fn end(&mut self, is_written: bool) {
        if is_written {
            self.index = Vec::new();
        }
        self.go_to(Step::Done);
    }
}
