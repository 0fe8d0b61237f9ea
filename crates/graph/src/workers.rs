//! Workers that compute: a single thread here, several threads in the caller's implementation.
//!
//! One worker sums up all edges of a key, in order, so results do not depend on the number of threads.

/// Runs independent tasks of one computation. A task's result depends neither on the worker that runs it, nor on their number.
pub trait Workers {
    /// Number of pieces processed at the same time.
    fn count(&self) -> usize;

    /// Processes every piece.
    fn each<T: Send>(&self, pieces: Vec<T>, work: impl Fn(T) + Sync);
}

/// A single worker, the calling thread.
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
