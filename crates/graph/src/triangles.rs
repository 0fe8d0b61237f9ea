//! Triangles: three vertices, each pair joined by an edge in either direction.
//!
//! A [`Simple`](super::prepare::Shape::Simple) graph keeps each edge at the end with fewer edges, in order. So each triangle is found once, at its
//! vertex with the fewest edges: two of its neighbours, one of which is a neighbour of the other.
//!
//! ```text
//!   for each interval A            in memory
//!     for each interval B >= A     in memory, beside it
//!       u in A, its neighbour v in B: how many neighbours have both?
//! ```

use super::grid::{Grid, Window};
use super::prepare::Share;
use super::store::{Store, StoreError, Work};
use super::workers::Workers;
use std::ops::Range;

/// Bytes kept per vertex, for new numbers.
pub const VERTEX_BYTES: u64 = 4;

/// State of the computation.
#[derive(Clone, Debug)]
pub struct Triangles {
    at: (usize, usize),
    done: u64,
    count: u64,
    one: Window,
    other: Window,
}

impl Triangles {
    /// Starts a count at zero.
    pub fn new() -> Triangles {
        Triangles { at: (0, 0), done: 0, count: 0, one: Window::default(), other: Window::default() }
    }

    /// Number of triangles so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Processes the next pair of intervals; `None`: all are counted.
    pub fn step<S: Store>(
        &mut self,
        grid: &Grid,
        store: &mut S,
        workers: &impl Workers,
    ) -> Result<Option<Share>, StoreError> {
        let intervals = grid.plan.interval_count();
        let (a, b) = self.at;
        if a == intervals {
            return Ok(None);
        }
        let (keys, others) = (grid.plan.interval(a), grid.plan.interval(b));
        self.count += if let Some(window) = &grid.resident {
            store.spend(Work::Follow(window.others.len() as u64));
            common(window, keys, window, others, workers)
        } else {
            if a == b {
                read(grid, store, a, &mut self.one)?;
            }
            if a != b {
                read(grid, store, b, &mut self.other)?;
            }
            let other = if a == b { &self.one } else { &self.other };
            store.spend(Work::Follow(self.one.others.len() as u64 + other.others.len() as u64));
            common(&self.one, keys, other, others, workers)
        };
        self.done += 1;
        self.at = if b + 1 == intervals { (a + 1, a + 1) } else { (a, b + 1) };
        let of = (intervals * (intervals + 1) / 2) as u64;
        Ok(Some(Share { done: self.done, of }))
    }
}

impl Default for Triangles {
    fn default() -> Triangles {
        Triangles::new()
    }
}

fn read<S: Store>(
    grid: &Grid,
    store: &mut S,
    interval: usize,
    window: &mut Window,
) -> Result<(), StoreError> {
    let mut offsets = std::mem::take(&mut window.offsets);
    grid.read_offsets(store, interval, 0, &mut offsets)?;
    let total = offsets[offsets.len() - 1];
    grid.read_edges(store, (interval, 0), 0..total, window)?;
    window.offsets = offsets;
    Ok(())
}

/// Counts pairs of neighbours of a key of `one`, the first of them a key of `other`, that are neighbours of each other.
fn common(one: &Window, keys: Range<u32>, other: &Window, others: Range<u32>, workers: &impl Workers) -> u64 {
    const KEYS: usize = 4096;
    let keys = keys.len();
    let mut counts = vec![0; keys.div_ceil(KEYS)];
    let share = counts.len().div_ceil(4 * workers.count()).max(1);
    let pieces = counts.chunks_mut(share).enumerate().collect();
    let list = |window: &Window, key: usize| window.offsets[key] as usize..window.offsets[key + 1] as usize;
    workers.each(pieces, |(piece, counts): (usize, &mut [u64])| {
        for (part, count) in counts.iter_mut().enumerate() {
            let from = (piece * share + part) * KEYS;
            for key in from..(from + KEYS).min(keys) {
                let near = &one.others[list(one, key)];
                let begin = near.partition_point(|&v| v < others.start);
                for at in begin..near.len() {
                    if near[at] >= others.end {
                        break;
                    }
                    let theirs = &other.others[list(other, (near[at] - others.start) as usize)];
                    *count += both(&near[at + 1..], theirs);
                }
            }
        }
    });
    counts.iter().sum()
}

/// Size of the intersection of two ordered lists.
fn both(mut one: &[u32], mut other: &[u32]) -> u64 {
    let mut count = 0;
    while let (Some(a), Some(b)) = (one.first(), other.first()) {
        count += u64::from(a == b);
        let (next, after) = (usize::from(a <= b), usize::from(b <= a));
        one = &one[next..];
        other = &other[after..];
    }
    count
}
