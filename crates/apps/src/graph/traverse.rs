//! Distances from one vertex: in edges (breadth-first search), or in the sum of their weights (shortest paths).
//!
//! ```text
//!   near: vertices whose distance is below the limit and has become smaller     ─► their edges are followed, round by round
//!   far: the others that have become nearer                                     ─► near, when near is empty and the limit rises
//! ```
//! In edges, each round is one distance. By weights, the limit rises by about the weight of one edge, so that few vertices are followed more
//! than once. Of the edges on the store only those of near vertices are read, in the order of their places, with small gaps between them.
//! Distances are the smallest sums whatever the order of rounds, but sums of weights are rounded to 32 bits edge by edge.

use super::grid::{Grid, Window};
use super::prepare::Share;
use super::store::{Store, StoreError, Work};

/// Bytes that it keeps for each vertex.
pub const VERTEX_BYTES: u64 = 6;

/// What cannot be reached has this distance.
pub const UNREACHED: f32 = f32::INFINITY;

/// Edges that are read although nobody asked for them, to join two reads.
const GAP: u32 = 4096;

/// Where it is.
#[derive(Clone, Debug)]
pub struct Traverse {
    distances: Vec<f32>,
    near: Marks,
    next: Marks,
    far: Marks,
    weighted: bool,
    step: f32,
    limit: f32,
    rounds: u32,
    block_edges: u32,
    offsets: Vec<u32>,
    offsets_of: Option<usize>,
    window: Window,
}

/// Some vertices.
#[derive(Clone, Debug)]
struct Marks {
    bits: Vec<u64>,
    count: u64,
}

impl Marks {
    fn new(vertices: u32) -> Marks {
        Marks { bits: vec![0; vertices.div_ceil(64) as usize], count: 0 }
    }

    #[inline]
    fn set(&mut self, vertex: u32) {
        let (word, bit) = (vertex as usize / 64, 1 << (vertex % 64));
        self.count += u64::from(self.bits[word] & bit == 0);
        self.bits[word] |= bit;
    }

    fn clear(&mut self) {
        self.bits.fill(0);
        self.count = 0;
    }

    /// Those below `end`, from `from` on; the first of them.
    fn first(&self, from: u32, end: u32) -> Option<u32> {
        let mut at = from;
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

impl Traverse {
    /// From vertex `source`, which the graph has.
    pub fn new(grid: &Grid, source: u32, weighted: bool, block_edges: usize) -> Traverse {
        let (vertices, mean_weight) = (grid.plan.vertices, grid.plan.mean_weight);
        let mut distances = vec![UNREACHED; vertices as usize];
        distances[source as usize] = 0.0;
        let mut near = Marks::new(vertices);
        near.set(source);
        let step = if weighted && mean_weight > 0.0 { mean_weight } else { 1.0 };
        Traverse {
            distances,
            near,
            next: Marks::new(vertices),
            far: Marks::new(vertices),
            weighted,
            step,
            limit: step,
            rounds: 0,
            block_edges: block_edges.clamp(1024, 1 << 28) as u32,
            offsets: Vec::new(),
            offsets_of: None,
            window: Window::default(),
        }
    }

    /// Rounds so far.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Does the next round; `None`: all distances are there. How many rounds there are, nobody knows before.
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

    /// Nothing is near: the limit rises until something is. `false`: nothing is far either.
    fn raise(&mut self) -> bool {
        let end = self.distances.len() as u32;
        let mut nearest = UNREACHED;
        let mut at = 0;
        while let Some(vertex) = self.far.first(at, end) {
            nearest = nearest.min(self.distances[vertex as usize]);
            at = vertex + 1;
        }
        if self.far.count == 0 {
            return false;
        }
        // Beyond what 32 bits can add a step to, everything is near.
        let limit = nearest + self.step;
        self.limit = if limit > nearest { limit } else { UNREACHED };
        let far = std::mem::replace(&mut self.far, Marks::new(end));
        let mut at = 0;
        while let Some(vertex) = far.first(at, end) {
            let near = self.distances[vertex as usize] < self.limit;
            if near {
                self.near.set(vertex)
            } else {
                self.far.set(vertex)
            }
            at = vertex + 1;
        }
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
            // Near vertices whose edges are read at once.
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
            let weight = if self.weighted { weights.get(at).copied().unwrap_or(1.0) } else { 1.0 };
            let through = distance + weight;
            let known = &mut self.distances[other as usize];
            if through < *known {
                *known = through;
                let near = through < self.limit || !self.weighted;
                if near { self.next.set(other) } else { self.far.set(other) }
            }
        }
    }

    /// The distance of each vertex; [`UNREACHED`] where there is no way.
    pub fn finish(self) -> Vec<f32> {
        self.distances
    }
}
