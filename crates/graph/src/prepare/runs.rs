//! Chunks in memory, and runs in the store: each run joins as many chunks as fit.
//!
//! The edges of consecutive keys are one piece of each run, so they can be read without the rest.

use super::chunk::{Chunk, Index};
use crate::store::{Segment, Store, StoreError};
use std::ops::Range;

/// Edges in input order, sorted by ranges of keys only.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    chunks: Vec<Chunk>,
    chunk_bytes: u64,
    runs: Vec<(u32, Index)>,
    next: u32,
    weighted: bool,
    /// Memory limit of the runs' indices, in bytes.
    index_bytes: u64,
}

/// Bytes of an edge in a chunk or a run, without its weight.
pub(super) const PAIR_BYTES: u64 = 8;
/// Minimum number of ranges of a run that has enough keys.
const RANGES_MIN: usize = 64;
/// Bytes written at a time.
const WRITE_BYTES: usize = 1 << 18;

impl Runs {
    pub fn new(weighted: bool, index_bytes: u64) -> Runs {
        Runs { weighted, index_bytes, ..Runs::default() }
    }

    /// Bytes of the chunks.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// Reports whether everything is in memory.
    pub fn is_resident(&self) -> bool {
        self.runs.is_empty()
    }

    /// The chunks.
    pub fn chunks(&mut self) -> &mut Vec<Chunk> {
        &mut self.chunks
    }

    /// Number of runs in the store.
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    /// Number of edges of a run.
    pub fn edges_of(&self, run: usize) -> usize {
        *self.runs[run].1.begins.last().expect("the number of edges is last") as usize
    }

    pub fn push(&mut self, chunk: Chunk) {
        self.chunk_bytes += chunk.bytes();
        self.chunks.push(chunk);
    }

    /// Writes the chunks to the store as a run.
    pub fn spill<S: Store>(&mut self, store: &mut S) -> Result<(), StoreError> {
        let Some(shift) = self.chunks.iter().map(|chunk| chunk.index.shift).max() else { return Ok(()) };
        let ranges = self.chunks.iter().map(|c| (c.index.begins.len() as u64 - 1) << c.index.shift).max();
        let ranges = (ranges.unwrap_or(0).div_ceil(1 << shift)) as usize;
        let run = self.next;
        let mut begins = Vec::with_capacity(ranges + 1);
        let mut bytes = Vec::with_capacity(WRITE_BYTES);
        let mut edges = 0;
        store.create(Segment::Run(run))?;
        for range in 0..ranges {
            begins.push(edges as u32);
            for chunk in &self.chunks {
                let slice = chunk.index.slice(&keys(range, shift));
                edges += slice.len();
                write(store, Segment::Run(run), &mut bytes, bytemuck::cast_slice(&chunk.pairs[slice]))?;
            }
        }
        begins.push(edges as u32);
        end(store, Segment::Run(run), &mut bytes)?;
        if self.weighted {
            store.create(Segment::RunWeights(run))?;
            for range in 0..ranges {
                for chunk in &self.chunks {
                    let part = &chunk.weights[chunk.index.slice(&keys(range, shift))];
                    write(store, Segment::RunWeights(run), &mut bytes, bytemuck::cast_slice(part))?;
                }
            }
            end(store, Segment::RunWeights(run), &mut bytes)?;
        }
        self.runs.push((run, Index { shift, begins }));
        self.next += 1;
        self.chunks.clear();
        self.chunk_bytes = 0;
        self.narrow();
        Ok(())
    }

    /// Coarsens indices until they fit their limit.
    fn narrow(&mut self) {
        let mut shift = self.runs.iter().map(|(_, index)| index.shift).max().unwrap_or(0);
        while self.runs.iter().map(|(_, index)| 4 * index.begins.len() as u64).sum::<u64>() > self.index_bytes
        {
            self.runs.iter_mut().for_each(|(_, index)| index.widen(shift));
            if self.runs.iter().all(|(_, index)| index.begins.len() <= RANGES_MIN) {
                return;
            }
            shift += 1;
        }
    }

    fn indices(&self) -> impl Iterator<Item = &Index> {
        self.runs.iter().map(|(_, index)| index).chain(self.chunks.iter().map(|chunk| &chunk.index))
    }

    /// Number of edges in each range of keys, and the width of a range as a power of two.
    pub fn histogram(&self) -> (Vec<u64>, u32) {
        let shift = self.indices().map(|index| index.shift).max().unwrap_or(0);
        let mut counts = Vec::new();
        for index in self.indices() {
            for (range, pair) in index.begins.windows(2).enumerate() {
                let at = range >> (shift - index.shift);
                counts.resize(counts.len().max(at + 1), 0);
                counts[at] += u64::from(pair[1] - pair[0]);
            }
        }
        (counts, shift)
    }

    /// Location of the edges of these keys: runs, and positions in them.
    pub fn pieces(&self, keys: &Range<u32>) -> Vec<(u32, Range<usize>)> {
        let pieces = self.runs.iter().map(|(run, index)| (*run, index.slice(keys)));
        pieces.filter(|(_, slice)| !slice.is_empty()).collect()
    }

    /// Reads edges of a run; appends to `pairs` and `weights`.
    pub fn read<S: Store>(
        &self,
        store: &mut S,
        run: u32,
        edges: Range<usize>,
        pairs: &mut Vec<[u32; 2]>,
        weights: &mut Vec<f32>,
    ) -> Result<(), StoreError> {
        let held = pairs.len();
        pairs.resize(held + edges.len(), [0; 2]);
        let into = bytemuck::cast_slice_mut(&mut pairs[held..]);
        store.read(Segment::Run(run), PAIR_BYTES * edges.start as u64, into)?;
        if self.weighted {
            weights.resize(held + edges.len(), 0.0);
            let into = bytemuck::cast_slice_mut(&mut weights[held..]);
            store.read(Segment::RunWeights(run), 4 * edges.start as u64, into)?;
        }
        Ok(())
    }

    /// Prefetches these edges of a run.
    pub fn will_read<S: Store>(&self, store: &mut S, run: u32, edges: Range<usize>) {
        let (from, count) = (edges.start as u64, edges.len() as u64);
        store.will_read(Segment::Run(run), PAIR_BYTES * from, PAIR_BYTES * count);
        if self.weighted {
            store.will_read(Segment::RunWeights(run), 4 * from, 4 * count);
        }
    }

    /// Number in the segment name of a run.
    pub fn name(&self, run: usize) -> u32 {
        self.runs[run].0
    }

    /// Removes the first `count` runs.
    pub fn remove<S: Store>(&mut self, store: &mut S, count: usize) -> Result<(), StoreError> {
        for (run, _) in self.runs.drain(..count) {
            store.remove(Segment::Run(run))?;
            if self.weighted {
                store.remove(Segment::RunWeights(run))?;
            }
        }
        Ok(())
    }
}

/// Keys of a range. The end of the last range may exceed 32 bits.
fn keys(range: usize, shift: u32) -> Range<u32> {
    let at = |range: usize| u32::try_from((range as u64) << shift).unwrap_or(u32::MAX);
    at(range)..at(range + 1)
}

fn write<S: Store>(
    store: &mut S,
    segment: Segment,
    bytes: &mut Vec<u8>,
    part: &[u8],
) -> Result<(), StoreError> {
    bytes.extend_from_slice(part);
    if bytes.len() >= WRITE_BYTES {
        store.append(segment, bytes)?;
        bytes.clear();
    }
    Ok(())
}

fn end<S: Store>(store: &mut S, segment: Segment, bytes: &mut Vec<u8>) -> Result<(), StoreError> {
    store.append(segment, bytes)?;
    bytes.clear();
    store.seal(segment)
}
