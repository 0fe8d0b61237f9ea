//! Workers as threads.

use pellucid_graph::workers::Workers;

/// Number of threads. They live for one block of edges, whose processing takes much longer than their start.
#[derive(Clone, Copy, Debug)]
pub struct Threads(pub usize);

impl Workers for Threads {
    fn count(&self) -> usize {
        self.0.max(1)
    }

    fn each<T: Send>(&self, mut pieces: Vec<T>, work: impl Fn(T) + Sync) {
        let Some(last) = pieces.pop() else { return };
        // Pieces are dealt to the threads in turn.
        let mut hands: Vec<Vec<T>> = (1..self.count()).map(|_| Vec::new()).collect();
        let mut own = vec![last];
        let count = hands.len() + 1;
        for (at, piece) in pieces.into_iter().enumerate() {
            match (at % count).checked_sub(1) {
                Some(hand) => hands[hand].push(piece),
                None => own.push(piece),
            }
        }
        std::thread::scope(|scope| {
            for hand in hands.into_iter().filter(|hand| !hand.is_empty()) {
                let work = &work;
                scope.spawn(move || hand.into_iter().for_each(work));
            }
            own.into_iter().for_each(&work);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_piece_is_done_once() {
        for threads in 0..5 {
            for pieces in [0, 1, 2, 3, 17] {
                let done: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
                Threads(threads).each((0..pieces).collect(), |piece: usize| {
                    done[piece].fetch_add(1, Ordering::Relaxed);
                });
                assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
        }
    }
}
