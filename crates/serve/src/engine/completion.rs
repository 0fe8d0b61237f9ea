//! The completion batch: number of answers that go out together in instant time.
//!
//! ```text
//!  backend│ makes A │ makes B │ makes A' │ makes B' │      A, B: halves of what the hosts keep outstanding
//!  hosts            │ take A, ask again  │ take B, ask again │
//! ```
//! If one batch held all answers, backend and hosts would take turns waiting for each other; if answers went
//! out singly, each would cost a system call at both ends.
//!
//! Invariant: `depth` is at least the number outstanding, and decays slowly towards it.

/// Minimum number of answers worth a system call.
const BATCH_MIN: usize = 8;
/// Batches beyond this size save nothing more.
const HALF_MAX: usize = 64;
/// Largest batch; a larger one would be split.
const BATCH_MAX: usize = pellucid_target::output::BATCH_MAX;
const _: () = assert!(BATCH_MAX == HALF_MAX * 3 / 2);
/// Units of `depth` per request.
const SCALE: usize = 1 << 16;

/// Tracks the number of requests that hosts keep outstanding.
#[derive(Default)]
pub(super) struct CompletionBatch {
    /// Recent maximum of outstanding requests, in `1/SCALE` of a request.
    depth: usize,
}

impl CompletionBatch {
    /// Size of the next batch when `outstanding` requests are outstanding: equal batches, each as near as
    /// possible to half of the number that hosts keep outstanding.
    #[inline]
    pub fn next(&mut self, outstanding: usize) -> usize {
        // A difference decays by more than half in `SCALE` calls, about a second of a busy server.
        let depth = (self.depth - self.depth / SCALE).max(outstanding * SCALE);
        self.depth = depth;
        let half = depth.div_ceil(2 * SCALE).clamp(BATCH_MIN, HALF_MAX);
        let batches = ((outstanding + half / 2) / half).max(1);
        outstanding.div_ceil(batches).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hosts_keep_outstanding_is_answered_in_halves() {
        let mut batch = CompletionBatch::default();
        assert_eq!(batch.next(32), 16);
        assert_eq!(batch.next(16), 16);
        assert_eq!(batch.next(100), 50);
        assert_eq!(batch.next(50), 50);
        assert_eq!(batch.next(1_000), 63, "16 batches, the last of which is hardly smaller than the others");
    }

    #[test]
    fn a_batch_is_not_cut_for_the_sake_of_a_few() {
        let mut batch = CompletionBatch::default();
        batch.next(128);
        assert_eq!([64, 95, 96, 100].map(|outstanding| batch.next(outstanding)), [64, 95, 48, 50]);
    }

    #[test]
    fn few_are_answered_together() {
        let mut batch = CompletionBatch::default();
        assert_eq!([0, 1, 8, 11, 12, 16].map(|outstanding| batch.next(outstanding)), [1, 1, 8, 11, 6, 8]);
    }

    #[test]
    fn hosts_that_ask_for_less_are_answered_in_smaller_batches_after_a_while() {
        let mut batch = CompletionBatch::default();
        batch.next(128);
        assert_eq!(batch.next(32), 32);
        let after = |calls, batch: &mut CompletionBatch| (0..calls).map(|_| batch.next(32)).last();
        assert_eq!(after(SCALE / 4, &mut batch), Some(32));
        assert_eq!(after(8 * SCALE, &mut batch), Some(16));
    }
}
