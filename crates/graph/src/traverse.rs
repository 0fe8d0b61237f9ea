//! Distances from one vertex: in edges (breadth-first search), or in the sum of their weights (shortest paths).
//!
//! ```text
//!   near: vertices whose distance is below the limit and has become smaller     ─► their edges are followed, round by round
//!   far: the others that have become nearer                                     ─► near, when near is empty and the limit rises
//! ```
//! In edges, each round is one distance. By weights, the limit rises by about the weight of one edge, so that few vertices are followed more than
//! once. Only the edges of near vertices are read, in storage order, across small gaps. Distances are minimal in any order of rounds; sums of weights
//! are rounded to 64 bits edge by edge.

use super::grid::{Grid, Window};
use super::prepare::Share;
use super::store::{Store, StoreError, Work};
use std::ops::Range;

/// Distance of a vertex.
pub trait Distance: Copy + PartialOrd {
    /// Bytes that a program with such distances keeps per vertex.
    const VERTEX_BYTES: u64;
    /// Distance of the source vertex.
    const START: Self;
    /// Distance of unreachable vertices.
    const UNREACHED: Self;

    /// Adds an edge of this weight.
    fn and(self, weight: f32) -> Self;

    /// The limit below which vertices are near when the nearest is at `self`.
    fn limit(self, step: f32) -> Self;
}

/// Counts edges and ignores weights.
impl Distance for u32 {
    const VERTEX_BYTES: u64 = 6;
    const START: u32 = 0;
    const UNREACHED: u32 = u32::MAX;

    #[inline]
    fn and(self, _weight: f32) -> u32 {
        self + 1
    }

    // Each round is exactly one distance.
    fn limit(self, _step: f32) -> u32 {
        u32::MAX
    }
}

/// Sum of weights.
impl Distance for f64 {
    const VERTEX_BYTES: u64 = 10;
    const START: f64 = 0.0;
    const UNREACHED: f64 = f64::INFINITY;

    #[inline]
    fn and(self, weight: f32) -> f64 {
        self + f64::from(weight)
    }

    fn limit(self, step: f32) -> f64 {
        // If the step vanishes in 64 bits, everything is near.
        Some(self + f64::from(step)).filter(|&limit| limit > self).unwrap_or(f64::INFINITY)
    }
}

/// Maximum number of unneeded edges that are read to join two reads.
const GAP: u32 = 4096;

/// State of the computation.
#[derive(Clone, Debug)]
pub struct Traverse<D> {
    distances: Vec<D>,
    near: Marks,
    next: Marks,
    far: Marks,
    step: f32,
    limit: D,
    rounds: u32,
    block_edges: u32,
    offsets: Vec<u32>,
    offsets_of: Option<usize>,
    window: Window,
}

/// Set of vertices. A few neighbouring vertices cost only their number, because a long path has as many rounds as vertices.
#[derive(Clone, Debug)]
struct Marks {
    bits: Vec<u64>,
    count: u64,
    /// Range of words that contains all marks.
    words: Range<usize>,
}

impl Marks {
    fn new(vertices: u32) -> Marks {
        Marks { bits: vec![0; vertices.div_ceil(64) as usize], count: 0, words: 0..0 }
    }

    #[inline]
    fn set(&mut self, vertex: u32) {
        let (word, bit) = (vertex as usize / 64, 1 << (vertex % 64));
        self.words = match self.count {
            0 => word..word + 1,
            _ => self.words.start.min(word)..self.words.end.max(word + 1),
        };
        self.count += u64::from(self.bits[word] & bit == 0);
        self.bits[word] |= bit;
    }

    fn clear(&mut self) {
        self.bits[std::mem::take(&mut self.words)].fill(0);
        self.count = 0;
    }

    /// Returns the first marked vertex below `end`, from `from` on.
    fn first(&self, from: u32, end: u32) -> Option<u32> {
        let first = |word: usize| u32::try_from(64 * word as u64).unwrap_or(u32::MAX);
        let (mut at, end) = (from.max(first(self.words.start)), end.min(first(self.words.end)));
        while at < end {
            let word = self.bits[at as usize / 64] >> (at % 64);
            if word != 0 {
                let vertex = at + word.trailing_zeros();
                return (vertex < end).then_some(vertex);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

impl<D: Distance> Traverse<D> {
    /// Starts from vertex `source`, which must be in the graph.
    pub fn new(grid: &Grid, source: u32, block_edges: usize) -> Traverse<D> {
        let (vertices, mean_weight) = (grid.plan.vertices, grid.plan.mean_weight);
        let mut distances = vec![D::UNREACHED; vertices as usize];
        distances[source as usize] = D::START;
        let mut near = Marks::new(vertices);
        near.set(source);
        let step = if mean_weight > 0.0 { mean_weight } else { 1.0 };
        Traverse {
            distances,
            near,
            next: Marks::new(vertices),
            far: Marks::new(vertices),
            step,
            limit: D::START.limit(step),
            rounds: 0,
            block_edges: block_edges.clamp(1024, 1 << 28) as u32,
            offsets: Vec::new(),
            offsets_of: None,
            window: Window::default(),
        }
    }

    /// Number of rounds so far.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Does the next round; `None`: all distances are final. The number of rounds is unknown in advance.
    pub fn step<S: Store>(&mut self, grid: &Grid, store: &mut S) -> Result<Option<Share>, StoreError> {
        if self.near.count == 0 && !self.raise() {
            return Ok(None);
        }
        for interval in 0..grid.plan.interval_count() {
            let keys = grid.plan.interval(interval);
            if self.near.first(keys.start, keys.end).is_some() {
                self.follow(grid, store, interval)?;
            }
        }
        self.near.clear();
        std::mem::swap(&mut self.near, &mut self.next);
        self.rounds += 1;
        let done = u64::from(self.rounds);
        Ok(Some(Share { done, of: done + 1 }))
    }

    /// Raises the limit until a vertex is near; `false`: no vertex is far.
    fn raise(&mut self) -> bool {
        let end = self.distances.len() as u32;
        let mut nearest = D::UNREACHED;
        let mut at = 0;
        while let Some(vertex) = self.far.first(at, end) {
            let distance = self.distances[vertex as usize];
            nearest = if distance < nearest { distance } else { nearest };
            at = vertex + 1;
        }
        if self.far.count == 0 {
            return false;
        }
        self.limit = nearest.limit(self.step);
        // `next` is empty between two rounds.
        std::mem::swap(&mut self.far, &mut self.next);
        let mut at = 0;
        while let Some(vertex) = self.next.first(at, end) {
            let near = self.distances[vertex as usize] < self.limit;
            if near {
                self.near.set(vertex)
            } else {
                self.far.set(vertex)
            }
            at = vertex + 1;
        }
        self.next.clear();
        true
    }

    /// Follows the edges of the near vertices of one interval.
    fn follow<S: Store>(&mut self, grid: &Grid, store: &mut S, interval: usize) -> Result<(), StoreError> {
        let keys = grid.plan.interval(interval);
        if let Some(window) = &grid.resident {
            let mut at = keys.start;
            while let Some(vertex) = self.near.first(at, keys.end) {
                let edges =
                    window.offsets[vertex as usize] as usize..window.offsets[vertex as usize + 1] as usize;
                let weights = window.weights.get(edges.clone()).unwrap_or(&[]);
                store.spend(Work::Follow(edges.len() as u64));
                self.relax(vertex, &window.others[edges], weights);
                at = vertex + 1;
            }
            return Ok(());
        }
        if self.offsets_of != Some(interval) {
            grid.read_offsets(store, interval, 0, &mut self.offsets)?;
            self.offsets_of = Some(interval);
        }
        let offset = |offsets: &[u32], vertex: u32| offsets[(vertex - keys.start) as usize];
        let mut window = std::mem::take(&mut self.window);
        let mut at = keys.start;
        while let Some(first) = self.near.first(at, keys.end) {
            // Finds near vertices whose edges are read together.
            let begin = offset(&self.offsets, first);
            let mut last = first;
            while let Some(vertex) = self.near.first(last + 1, keys.end) {
                let gap = offset(&self.offsets, vertex) - offset(&self.offsets, last + 1);
                if gap > GAP || offset(&self.offsets, vertex + 1) - begin > self.block_edges {
                    break;
                }
                last = vertex;
            }
            let end = offset(&self.offsets, last + 1);
            // One vertex may have more edges than a block.
            let mut from = begin;
            while from < end {
                let to = end.min(from.saturating_add(self.block_edges));
                grid.read_edges(store, (interval, 0), from..to, &mut window)?;
                let mut vertex = Some(first);
                while let Some(near) = vertex.filter(|&near| near <= last) {
                    let list = offset(&self.offsets, near).clamp(from, to)
                        ..offset(&self.offsets, near + 1).clamp(from, to);
                    let list = (list.start - from) as usize..(list.end - from) as usize;
                    let weights = window.weights.get(list.clone()).unwrap_or(&[]);
                    self.relax(near, &window.others[list], weights);
                    vertex = self.near.first(near + 1, keys.end);
                }
                store.spend(Work::Follow(u64::from(to - from)));
                from = to;
            }
            at = last + 1;
        }
        self.window = window;
        Ok(())
    }

    fn relax(&mut self, vertex: u32, others: &[u32], weights: &[f32]) {
        let distance = self.distances[vertex as usize];
        for (at, &other) in others.iter().enumerate() {
            let through = distance.and(weights.get(at).copied().unwrap_or(1.0));
            let known = &mut self.distances[other as usize];
            if through < *known {
                *known = through;
                let near = through < self.limit;
                if near { self.next.set(other) } else { self.far.set(other) }
            }
        }
    }

    /// The distance of each vertex, or [`Distance::UNREACHED`].
    pub fn finish(self) -> Vec<D> {
        self.distances
    }
}
