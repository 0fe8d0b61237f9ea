//! The workers that compute: one processor here, threads where the caller has them.
//!
//! One worker adds up all edges of a key, in their order, so no result depends on the number of threads.

/// Runs independent tasks of one computation. A task's result depends neither on the worker that runs it, nor on their number.
pub trait Workers {
    /// How many pieces run at the same time.
    fn count(&self) -> usize;

    /// Does every piece.
    fn each<T: Send>(&self, pieces: Vec<T>, work: impl Fn(T) + Sync);
}

/// One processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Workers for Alone {
    fn count(&self) -> usize {
        1
    }

    fn each<T: Send>(&self, pieces: Vec<T>, work: impl Fn(T) + Sync) {
        pieces.into_iter().for_each(work);
    }
}
