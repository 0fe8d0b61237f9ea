//! Windows from pieces of runs: read once, counting sort.
//!
//! ```text
//!   an interval ─► parts that fit, each cut at ranges ─► its edges of all runs, in memory ─► one window for each chunk of other ends
//! ```
//! A part that does not fit is one range of keys; its edges are read again for each group of keys that fits.

use super::chunk::Chunk;
use super::plan::cut;
use super::runs::Runs;
use super::{Asked, PrepareError, Shape};
use crate::grid::Plan;
use crate::store::{Segment, Store, StoreError, Work};
use std::ops::Range;

/// Memory for sorting.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers {
    pairs: Vec<[u32; 2]>,
    weights: Vec<f32>,
    offsets: Vec<u32>,
    others: Vec<u32>,
    other_weights: Vec<f32>,
}

/// Edges of some keys, in pieces that fit.
struct Pieces<'a> {
    runs: &'a Runs,
    keys: Range<u32>,
    pieces: Vec<(u32, Range<usize>)>,
    total: usize,
    fit: usize,
}

impl Pieces<'_> {
    /// Passes all edges to `each`, in order. Edges that fit at once are read once.
    fn each<S: Store>(
        &self,
        store: &mut S,
        pairs: &mut Vec<[u32; 2]>,
        weights: &mut Vec<f32>,
        mut each: impl FnMut(&mut S, &[[u32; 2]], &[f32]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.total <= self.fit && pairs.len() == self.total {
            return each(store, pairs, weights);
        }
        pairs.clear();
        weights.clear();
        for (run, edges) in &self.pieces {
            let mut at = edges.start;
            while at < edges.end {
                let end = edges.end.min(at + self.fit - pairs.len());
                self.runs.read(store, *run, at..end, pairs, weights)?;
                at = end;
                if pairs.len() == self.fit && self.total > self.fit {
                    each(store, pairs, weights)?;
                    pairs.clear();
                    weights.clear();
                }
            }
        }
        each(store, pairs, weights)?;
        if self.total > self.fit {
            pairs.clear();
            weights.clear();
        }
        Ok(())
    }
}

/// A window being written; its edges have their other ends in `ends`.
struct Target {
    offsets: Segment,
    others: Segment,
    weights: Segment,
    ends: Range<u32>,
    simple: bool,
    weighted: bool,
    edges: u64,
}

impl Target {
    fn segments(&self) -> impl Iterator<Item = Segment> + use<> {
        [self.offsets, self.others, self.weights].into_iter().take(if self.weighted { 3 } else { 2 })
    }

    /// Sorts the edges of the keys of `pieces`, and appends them.
    fn sort<S: Store>(
        &mut self,
        store: &mut S,
        pieces: &Pieces<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), PrepareError> {
        let Buffers { pairs, weights, offsets, .. } = buffers;
        let keys = pieces.keys.clone();
        offsets.clear();
        offsets.resize(keys.len() + 1, 0);
        pieces.each(store, pairs, weights, |_, pairs, _| {
            for [key, _] in pairs.iter().filter(|[_, other]| self.ends.contains(other)) {
                offsets[(key - keys.start) as usize] += 1;
            }
            Ok(())
        })?;
        sums(offsets, 0);
        if self.edges + u64::from(offsets[keys.len()]) >= u64::from(u32::MAX) {
            return Err(PrepareError::Window { edges: self.edges + u64::from(offsets[keys.len()]) });
        }
        let mut from = 0;
        while from < keys.len() {
            let offsets = &mut buffers.offsets;
            let most = offsets[from].saturating_add(pieces.fit as u32);
            let to = (offsets.partition_point(|&at| at <= most) - 1).clamp(from + 1, keys.len());
            match (offsets[to] - offsets[from]) as usize {
                count if count > pieces.fit && !self.simple => {
                    self.copy(store, pieces, from, count, buffers)?
                }
                _ => self.place(store, pieces, from..to, buffers)?,
            }
            from = to;
        }
        Ok(())
    }

    /// Copies a key with more edges than fit; its edges already are in order.
    fn copy<S: Store>(
        &mut self,
        store: &mut S,
        pieces: &Pieces<'_>,
        key: usize,
        count: usize,
        buffers: &mut Buffers,
    ) -> Result<(), StoreError> {
        let Buffers { pairs, weights, others, other_weights, .. } = buffers;
        let wanted = pieces.keys.start + key as u32;
        store.append(self.offsets, bytemuck::bytes_of(&(self.edges as u32)))?;
        pieces.each(store, pairs, weights, |store, pairs, weights| {
            others.clear();
            other_weights.clear();
            for (at, &[key, other]) in pairs.iter().enumerate() {
                if key == wanted && self.ends.contains(&other) {
                    others.push(other);
                    other_weights.extend(weights.get(at));
                }
            }
            self.write(store, others, other_weights)
        })?;
        self.edges += count as u64;
        Ok(())
    }

    /// Places each edge of some keys whose edges fit.
    fn place<S: Store>(
        &mut self,
        store: &mut S,
        pieces: &Pieces<'_>,
        keys: Range<usize>,
        buffers: &mut Buffers,
    ) -> Result<(), StoreError> {
        let Buffers { pairs, weights, offsets, others, other_weights } = buffers;
        let part = &mut offsets[keys.start..=keys.end];
        let (base, after) = (part[0], part[keys.len()]);
        part.iter_mut().for_each(|at| *at -= base);
        let count = (after - base) as usize;
        others.clear();
        others.resize(count, 0);
        other_weights.clear();
        other_weights.resize(if self.weighted { count } else { 0 }, 0.0);
        let first = pieces.keys.start + keys.start as u32;
        let wanted = first..first + keys.len() as u32;
        pieces.each(store, pairs, weights, |_, pairs, weights| {
            for (at, &[key, other]) in pairs.iter().enumerate() {
                if wanted.contains(&key) && self.ends.contains(&other) {
                    let place = &mut part[(key - first) as usize];
                    others[*place as usize] = other;
                    if let Some(&weight) = weights.get(at) {
                        other_weights[*place as usize] = weight;
                    }
                    *place += 1;
                }
            }
            Ok(())
        })?;
        shift_back(part, 0);
        if self.simple {
            let kept = keep_once(part, others);
            others.truncate(kept);
        }
        part.iter_mut().for_each(|at| *at += self.edges as u32);
        store.append(self.offsets, bytemuck::cast_slice(&part[..keys.len()]))?;
        part[keys.len()] = after;
        self.write(store, others, other_weights)?;
        self.edges += others.len() as u64;
        Ok(())
    }

    fn write<S: Store>(&self, store: &mut S, others: &[u32], weights: &[f32]) -> Result<(), StoreError> {
        store.append(self.others, bytemuck::cast_slice(others))?;
        if self.weighted {
            store.append(self.weights, bytemuck::cast_slice(weights))?;
        }
        Ok(())
    }
}

/// Renumbers the ends of edges of run `run` of `of`, starting at edge `at`. Returns where to continue.
pub(super) fn relabel<S: Store>(
    runs: &mut Runs,
    asked: &Asked,
    labels: &[u32],
    buffers: &mut Buffers,
    store: &mut S,
    (run, of, at): (usize, usize, usize),
) -> Result<Option<usize>, StoreError> {
    let edges = runs.edges_of(run);
    let end = edges.min(at + asked.fit() / 4 + 1);
    let Buffers { pairs, weights, .. } = buffers;
    pairs.clear();
    runs.read(store, runs.name(run), at..end, pairs, weights)?;
    let chunk = Chunk::relabelled(pairs, labels);
    store.spend(Work::Sort(chunk.len() as u64));
    let room = asked.memory_bytes.saturating_sub(4 * labels.len() as u64) / 4;
    if runs.chunk_bytes() + chunk.bytes() > room {
        runs.spill(store)?;
    }
    runs.push(chunk);
    if end < edges {
        return Ok(Some(end));
    }
    if run + 1 == of {
        runs.spill(store)?;
        runs.remove(store, of)?;
    }
    Ok(None)
}

/// Prefetches an interval's edges.
fn will_sort<S: Store>(runs: &Runs, plan: &Plan, store: &mut S, interval: usize) {
    if interval < plan.interval_count() {
        for (run, edges) in runs.pieces(&plan.interval(interval)) {
            runs.will_read(store, run, edges);
        }
    }
}

/// Makes the windows of an interval.
pub(super) fn sort_interval<S: Store>(
    (asked, plan): (&Asked, &mut Plan),
    runs: &Runs,
    buffers: &mut Buffers,
    store: &mut S,
    interval: usize,
) -> Result<(), PrepareError> {
    let (i, weighted, fit) = (interval as u32, asked.weighted, asked.fit());
    let target = |j: u32| Target {
        offsets: Segment::Offsets(i, j),
        others: Segment::Others(i, j),
        weights: Segment::Weights(i, j),
        ends: plan.chunk(j as usize),
        simple: asked.shape == Shape::Simple,
        weighted,
        edges: 0,
    };
    let mut targets: Vec<Target> = (0..plan.chunk_count() as u32).map(target).collect();
    for segment in targets.iter().flat_map(Target::segments) {
        store.create(segment)?;
    }
    if interval == 0 {
        will_sort(runs, plan, store, 0);
    }
    // Reads the next interval while this one is sorted.
    will_sort(runs, plan, store, interval + 1);
    let begins = cut(runs, plan.interval(interval), fit as u64, u32::MAX);
    for keys in begins.windows(2).map(|pair| pair[0]..pair[1]) {
        let pieces = runs.pieces(&keys);
        let total = pieces.iter().map(|(_, edges)| edges.len()).sum();
        let pieces = Pieces { runs, keys, pieces, total, fit };
        buffers.pairs.clear();
        buffers.weights.clear();
        for target in &mut targets {
            target.sort(store, &pieces, buffers)?;
        }
        store.spend(Work::Sort(total as u64));
    }
    for target in &targets {
        store.append(target.offsets, bytemuck::bytes_of(&(target.edges as u32)))?;
        target.segments().try_for_each(|segment| store.seal(segment))?;
    }
    if interval == 0 {
        plan.edges = 0;
    }
    plan.edges += targets.iter().map(|target| target.edges).sum::<u64>();
    Ok(())
}

/// Turns counts into running sums that start at `base`; returns the last sum.
pub(super) fn sums(counts: &mut [u32], base: u32) -> u32 {
    let mut sum = base;
    for count in counts.iter_mut() {
        (*count, sum) = (sum, sum + *count);
    }
    sum
}

/// After all edges are placed, each offset is that of the next key; moves them back.
pub(super) fn shift_back(offsets: &mut [u32], base: u32) {
    let keys = offsets.len() - 1;
    offsets.copy_within(0..keys, 1);
    offsets[0] = base;
}

/// Sorts and deduplicates the edges of each key in a part of a window, whose offsets count from 0, and moves them to the front. Returns their number.
pub(super) fn keep_once(offsets: &mut [u32], others: &mut [u32]) -> usize {
    let (mut end, mut begin) = (0, 0);
    for next in &mut offsets[1..] {
        let list = begin..*next as usize;
        begin = list.end;
        others[list.clone()].sort_unstable();
        let mut last = None;
        for at in list {
            let other = others[at];
            if last != Some(other) {
                others[end] = other;
                end += 1;
            }
            last = Some(other);
        }
        *next = end as u32;
    }
    end
}
