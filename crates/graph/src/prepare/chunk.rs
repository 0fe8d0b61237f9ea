//! Edges, roughly sorted: by ranges of their keys.
//!
//! ```text
//!   key, other end      ranges of 2^shift keys        begins
//!   │ 3 9 │ 0 7 │ 12 1 │ ... ─► │ 3 9 │ 0 7 │ ... │ 12 1 │ ...      0, 2, 3, ...
//! ```
//! Within a range, edges keep the input's order.

use super::Shape;
use crate::edges::{Edges, Key};
use std::ops::Range;

/// Start of each range of keys in edges that are sorted by ranges.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Index {
    /// A range has 2^shift keys.
    pub shift: u32,
    /// Start of each range's edges, then the number of edges.
    pub begins: Vec<u32>,
}

impl Index {
    /// The edges of these keys, whose bounds are bounds of ranges, or beyond the last.
    pub fn slice(&self, keys: &Range<u32>) -> Range<usize> {
        let at = |key: u32| {
            let range = (u64::from(key) + (1 << self.shift) - 1) >> self.shift;
            self.begins[(range as usize).min(self.begins.len() - 1)] as usize
        };
        at(keys.start)..at(keys.end)
    }

    /// Widens ranges to 2^shift keys.
    pub fn widen(&mut self, shift: u32) {
        let ranges = self.begins.len() - 1;
        let step = 1_usize << (shift - self.shift);
        let mut begins: Vec<u32> = (0..ranges).step_by(step).map(|range| self.begins[range]).collect();
        begins.push(self.begins[ranges]);
        (self.begins, self.shift) = (begins, shift);
    }
}

/// Edges in memory, sorted by ranges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chunk {
    pub(super) index: Index,
    /// Key and other end of each edge.
    pub(super) pairs: Vec<[u32; 2]>,
    pub(super) weights: Vec<f32>,
    /// Largest vertex plus one, dropped loops included.
    pub(super) vertices: u32,
}

/// Number of ranges of a chunk: few enough that their ends stay in the processor's cache, with enough edges each.
const RANGES: Range<usize> = 256..4096;
const EDGES_OF_A_RANGE: usize = 16;

impl Chunk {
    /// Collects edges as `shape` requires: a simple graph has no loops.
    pub fn new(edges: &Edges, shape: Shape) -> Chunk {
        let by_end = shape == Shape::All(Key::To);
        let pair = |&(from, to): &(u32, u32)| if by_end { [to, from] } else { [from, to] };
        let pairs = edges.ends.iter().map(pair);
        match shape {
            Shape::All(_) => sort(pairs, &edges.weights),
            Shape::Simple => {
                let loops = edges.ends.iter().filter(|(from, to)| from == to).map(|(from, _)| from + 1);
                let mut chunk = sort(pairs.filter(|[from, to]| from != to), &[]);
                chunk.vertices = chunk.vertices.max(loops.max().unwrap_or(0));
                chunk
            }
        }
    }

    /// Edges of a simple graph, at the end with the smaller label.
    pub(super) fn relabelled(pairs: &[[u32; 2]], labels: &[u32]) -> Chunk {
        let label = |&[a, b]: &[u32; 2]| {
            let (a, b) = (labels[a as usize], labels[b as usize]);
            [a.min(b), a.max(b)]
        };
        sort(pairs.iter().map(label), &[])
    }

    /// Number of edges.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Reports whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> u64 {
        (8 * self.pairs.len() + 4 * (self.weights.len() + self.index.begins.len())) as u64
    }
}

/// Counting sort.
fn sort(pairs: impl Iterator<Item = [u32; 2]> + Clone, weights: &[f32]) -> Chunk {
    let (mut count, mut key_max, mut end_max) = (0, 0, 0);
    for [key, other] in pairs.clone() {
        (count, key_max, end_max) = (count + 1, key_max.max(key), end_max.max(other));
    }
    if count == 0 {
        return Chunk { index: Index { shift: 0, begins: vec![0] }, ..Chunk::default() };
    }
    let ranges = (count / EDGES_OF_A_RANGE).next_power_of_two().clamp(RANGES.start, RANGES.end);
    let shift = (u32::BITS - key_max.leading_zeros()).saturating_sub(ranges.ilog2());
    let mut begins = vec![0_u32; (key_max >> shift) as usize + 2];
    for [key, _] in pairs.clone() {
        begins[(key >> shift) as usize + 1] += 1;
    }
    for range in 1..begins.len() {
        begins[range] += begins[range - 1];
    }
    let mut next = begins.clone();
    let mut sorted = vec![[0; 2]; count];
    let mut sorted_weights = vec![0.0; weights.len()];
    for (at, pair) in pairs.enumerate() {
        let place = &mut next[(pair[0] >> shift) as usize];
        sorted[*place as usize] = pair;
        if let Some(&weight) = weights.get(at) {
            sorted_weights[*place as usize] = weight;
        }
        *place += 1;
    }
    let vertices = key_max.max(end_max) + 1;
    Chunk { index: Index { shift, begins }, pairs: sorted, weights: sorted_weights, vertices }
}
