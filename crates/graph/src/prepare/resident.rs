//! The single window of a graph that stays in memory: workers share the sorting of chunks, part by part.

use super::chunk::Chunk;
use super::plan::cut;
use super::runs::Runs;
use super::sort::{keep_once, shift_back, sums};
use super::{Asked, Shape};
use crate::grid::{Plan, Window};
use crate::store::{Store, Work};
use crate::workers::Workers;
use std::ops::Range;

/// Edges of a part, few enough that the placed edges stay in the processor's cache.
const PART_EDGES: u64 = 1 << 17;

/// Part of one worker: the edges of some keys.
struct Part<'a> {
    keys: Range<u32>,
    /// Number of edges with smaller keys.
    base: u32,
    offsets: &'a mut [u32],
    others: &'a mut [u32],
    weights: &'a mut [f32],
    kept: &'a mut u32,
}

/// Makes the window of all chunks. `labels`: new numbers of the vertices, if they are renumbered.
pub(super) fn sort_resident<S: Store>(
    (asked, plan): (&Asked, &mut Plan),
    runs: &mut Runs,
    labels: Option<&[u32]>,
    store: &mut S,
    workers: &impl Workers,
) -> Window {
    if let Some(labels) = labels {
        workers.each(runs.chunks().iter_mut().collect(), |chunk: &mut Chunk| {
            *chunk = Chunk::relabelled(&chunk.pairs, labels);
        });
    }
    let begins = cut(runs, 0..plan.vertices, PART_EDGES, u32::MAX);
    let chunks = std::mem::take(runs.chunks());
    let edges: usize = chunks.iter().map(Chunk::len).sum();
    let weighted = asked.weighted;
    let mut window = Window {
        offsets: vec![0; plan.vertices as usize + 1],
        others: vec![0; edges],
        weights: vec![0.0; if weighted { edges } else { 0 }],
    };
    let mut kept = vec![0; begins.len() - 1];
    let mut parts = Vec::with_capacity(kept.len());
    let Window { offsets, others, weights } = &mut window;
    let (mut offsets, mut others, mut weights) = (&mut offsets[..], &mut others[..], &mut weights[..]);
    let mut base = 0;
    for (pair, kept) in begins.windows(2).zip(&mut kept) {
        let keys = pair[0]..pair[1];
        let count: usize = chunks.iter().map(|chunk| chunk.index.slice(&keys).len()).sum();
        let (own_offsets, own_others, own_weights);
        (own_offsets, offsets) = offsets.split_at_mut(keys.len());
        (own_others, others) = others.split_at_mut(count);
        (own_weights, weights) = weights.split_at_mut(if weighted { count } else { 0 });
        let (offsets, others, weights) = (own_offsets, own_others, own_weights);
        parts.push(Part { keys, base, offsets, others, weights, kept });
        base += count as u32;
    }
    let simple = asked.shape == Shape::Simple;
    let bounds: Vec<(u32, usize)> = parts.iter().map(|part| (part.base, part.keys.len())).collect();
    workers.each(parts, |part| sort_part(&chunks, part, simple));
    drop(chunks);
    window.offsets[plan.vertices as usize] = base;
    if simple {
        close_gaps(&mut window, &bounds, &kept);
    }
    store.spend(Work::Sort(edges as u64));
    plan.edges = window.others.len() as u64;
    window
}

fn sort_part(chunks: &[Chunk], part: Part<'_>, simple: bool) {
    let Part { keys, base, offsets, others, weights, kept } = part;
    let slices = || chunks.iter().map(|chunk| (chunk, chunk.index.slice(&keys)));
    for (chunk, slice) in slices() {
        chunk.pairs[slice].iter().for_each(|[key, _]| offsets[(key - keys.start) as usize] += 1);
    }
    sums(offsets, 0);
    for (chunk, slice) in slices() {
        let pairs = &chunk.pairs[slice.clone()];
        match weights.is_empty() {
            true => {
                for &[key, other] in pairs {
                    let at = &mut offsets[(key - keys.start) as usize];
                    others[*at as usize] = other;
                    *at += 1;
                }
            }
            false => {
                for (&[key, other], &weight) in pairs.iter().zip(&chunk.weights[slice]) {
                    let at = &mut offsets[(key - keys.start) as usize];
                    (others[*at as usize], weights[*at as usize]) = (other, weight);
                    *at += 1;
                }
            }
        }
    }
    *kept = others.len() as u32;
    if simple {
        // `ends` holds the end of each list, not its start.
        let mut ends = vec![0];
        ends.extend_from_slice(offsets);
        *kept = keep_once(&mut ends, others) as u32;
        offsets.copy_from_slice(&ends[1..]);
    }
    if !offsets.is_empty() {
        shift_back(offsets, 0);
    }
    offsets.iter_mut().for_each(|at| *at += base);
}

/// Moves parts together after edges were dropped. `bounds`: number of edges before each part, and its keys.
fn close_gaps(window: &mut Window, bounds: &[(u32, usize)], kept: &[u32]) {
    let (mut end, mut key) = (0, 0);
    for (&(base, keys), &kept) in bounds.iter().zip(kept) {
        let from = base as usize;
        window.others.copy_within(from..from + kept as usize, end as usize);
        window.offsets[key..key + keys].iter_mut().for_each(|at| *at -= base - end);
        (end, key) = (end + kept, key + keys);
    }
    window.offsets[key] = end;
    window.others.truncate(end as usize);
}
