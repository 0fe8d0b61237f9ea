//! A prepared graph: windows of edges, indexed by one of their ends.
//!
//! ```text
//!                 other ends: chunk 0      chunk 1
//!   keys  interval 0   window (0,0)     window (0,1)      a window: edges ordered by key,
//!         interval 1   window (1,0)     window (1,1)      and where those of each key begin
//! ```
//! Memory holds the data of one interval's keys and the values of one chunk of other ends at a time; the edges are streamed in blocks. A graph that
//! fits into memory entirely is one window that stays there.
//!
//! Invariants: intervals and chunks each cover all vertices without gaps; each chunk consists of whole intervals; windows never change.

use super::edges::Key;
use super::store::{Segment, Store, StoreError};
use bytemuck::Pod;
use std::ops::Range;

/// Shape of a graph and its partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Number of vertices.
    pub vertices: u32,
    /// Number that the input gives vertex 0: formats count from 0 or from 1.
    pub first: u32,
    /// Edges in the windows.
    pub edges: u64,
    /// End that is the key.
    pub key: Key,
    /// True if edges have weights.
    pub weighted: bool,
    /// Mean weight; 1 if unweighted.
    pub mean_weight: f32,
    /// Start of each interval of keys, then the number of vertices.
    pub intervals: Vec<u32>,
    /// Start of each chunk of other ends, then the number of vertices.
    pub chunks: Vec<u32>,
    /// Fingerprint of the input and the options; a resumed run checks it.
    pub origin: u64,
}

const MAGIC: &[u8; 8] = b"pelgrph3";

impl Plan {
    /// The keys of interval `interval`.
    pub fn interval(&self, interval: usize) -> Range<u32> {
        self.intervals[interval]..self.intervals[interval + 1]
    }

    /// The other ends of chunk `chunk`.
    pub fn chunk(&self, chunk: usize) -> Range<u32> {
        self.chunks[chunk]..self.chunks[chunk + 1]
    }

    /// Number of intervals.
    pub fn interval_count(&self) -> usize {
        self.intervals.len() - 1
    }

    /// Number of chunks.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len() - 1
    }

    /// The intervals of chunk `chunk`.
    pub fn intervals_of(&self, chunk: usize) -> Range<usize> {
        let chunk = self.chunk(chunk);
        let at = |vertex: u32| self.intervals.partition_point(|&begin| begin < vertex);
        at(chunk.start)..at(chunk.end)
    }

    /// Encodes the plan, little-endian, followed by a checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.vertices.to_le_bytes());
        bytes.extend(self.first.to_le_bytes());
        bytes.extend(self.edges.to_le_bytes());
        bytes.extend(self.origin.to_le_bytes());
        bytes.push(u8::from(self.key == Key::From));
        bytes.push(u8::from(self.weighted));
        bytes.extend(self.mean_weight.to_le_bytes());
        for begins in [&self.intervals, &self.chunks] {
            bytes.extend((begins.len() as u32).to_le_bytes());
            begins.iter().for_each(|begin| bytes.extend(begin.to_le_bytes()));
        }
        let sum = crc32c::crc32c(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// Decodes a plan; `None`: the bytes are not a plan.
    pub fn decode(bytes: &[u8]) -> Option<Plan> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        if crc32c::crc32c(body).to_le_bytes() != sum {
            return None;
        }
        let mut rest = body.strip_prefix(MAGIC)?;
        let vertices = u32::from_le_bytes(take(&mut rest)?);
        let first = u32::from_le_bytes(take(&mut rest)?);
        let edges = u64::from_le_bytes(take(&mut rest)?);
        let origin = u64::from_le_bytes(take(&mut rest)?);
        let [key, weighted] = take(&mut rest)?;
        let mean_weight = f32::from_le_bytes(take(&mut rest)?);
        let mut begins = || {
            let count = u32::from_le_bytes(take(&mut rest)?) as usize;
            (0..count).map(|_| take(&mut rest).map(u32::from_le_bytes)).collect::<Option<Vec<_>>>()
        };
        let (intervals, chunks) = (begins()?, begins()?);
        let key = if key == 1 { Key::From } else { Key::To };
        let weighted = weighted == 1;
        Some(Plan { vertices, first, edges, key, weighted, mean_weight, intervals, chunks, origin })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk()?;
    *bytes = tail;
    Some(*head)
}

/// One window in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// Number of edges with smaller keys, for each key; the total last.
    pub offsets: Vec<u32>,
    /// Other ends, ordered by key.
    pub others: Vec<u32>,
    /// Weights of the edges; empty if unweighted.
    pub weights: Vec<f32>,
}

/// A part of a window in memory: consecutive edges, and their keys.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// Key of `offsets[0]`.
    pub first: u32,
    /// Start of each key's edges in the window, and end of the last key's. The first and the last key may have edges outside this block.
    pub offsets: &'a [u32],
    /// Position of `others[0]` in the window.
    pub begin: u32,
    /// Other ends.
    pub others: &'a [u32],
    /// Weights; empty if unweighted.
    pub weights: &'a [f32],
}

impl<'a> Block<'a> {
    /// The edges of key number `at` in this block, as positions in `others`.
    #[inline]
    pub fn edges(&self, at: usize) -> Range<usize> {
        let end = self.begin + self.others.len() as u32;
        let from = self.offsets[at].clamp(self.begin, end);
        let to = self.offsets[at + 1].clamp(self.begin, end);
        (from - self.begin) as usize..(to - self.begin) as usize
    }

    /// Number of keys.
    pub fn keys(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Splits it into at most `count` blocks of whole keys with roughly equal numbers of edges.
    pub fn split(&self, count: usize) -> Vec<Block<'a>> {
        let mut parts = Vec::with_capacity(count);
        let mut from = 0;
        for part in 1..=count {
            let edge = self.begin as usize + self.others.len() * part / count;
            let to = match part == count {
                true => self.keys(),
                false => self.offsets.partition_point(|&at| (at as usize) < edge).clamp(from, self.keys()),
            };
            if to > from {
                let begin = self.edges(from).start;
                let end = self.edges(to - 1).end;
                let weights = self.weights.get(begin..end).unwrap_or(&[]);
                parts.push(Block {
                    first: self.first + from as u32,
                    offsets: &self.offsets[from..=to],
                    begin: self.begin + begin as u32,
                    others: &self.others[begin..end],
                    weights,
                });
            }
            from = to;
        }
        parts
    }
}

/// Memory for reading a window.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    /// Edges read at a time.
    block_edges: usize,
    window: Window,
}

impl Buffers {
    /// Buffers for blocks of `block_edges` edges.
    pub fn new(block_edges: usize) -> Buffers {
        Buffers { block_edges: block_edges.max(1024), ..Buffers::default() }
    }

    /// Edges read at a time.
    pub fn block_edges(&self) -> usize {
        self.block_edges
    }
}

/// A prepared graph.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Plan of the graph.
    pub plan: Plan,
    /// The whole graph, if it fits into memory.
    pub resident: Option<Window>,
    /// Out-degree of each vertex, if kept in memory.
    pub degrees: Option<Vec<u32>>,
}

impl Grid {
    /// Passes each block of a window to `each`, in order.
    pub fn scan<S: Store, E: From<StoreError>>(
        &self,
        store: &mut S,
        interval: usize,
        chunk: usize,
        buffers: &mut Buffers,
        mut each: impl FnMut(&mut S, Block<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let keys = self.plan.interval(interval);
        if let Some(window) = &self.resident {
            let offsets = &window.offsets[keys.start as usize..=keys.end as usize];
            let edges = offsets[0] as usize..offsets[keys.len()] as usize;
            let weights = window.weights.get(edges.clone()).unwrap_or(&[]);
            let others = &window.others[edges];
            return each(store, Block { first: keys.start, offsets, begin: offsets[0], others, weights });
        }
        let Buffers { block_edges, window } = buffers;
        self.read_offsets(store, interval, chunk, &mut window.offsets)?;
        let total = window.offsets[window.offsets.len() - 1] as usize;
        let (name, weights) = self.names(interval, chunk);
        let ahead = |store: &mut S, from: usize| {
            let edges = total.saturating_sub(from).min(*block_edges) as u64;
            if edges > 0 {
                store.will_read(name, 4 * from as u64, 4 * edges);
                if self.plan.weighted {
                    store.will_read(weights, 4 * from as u64, 4 * edges);
                }
            }
        };
        ahead(store, 0);
        let mut from = 0;
        while from < total {
            let edges = (total - from).min(*block_edges);
            ahead(store, from + edges);
            read_words(store, name, from, edges, &mut window.others)?;
            if self.plan.weighted {
                read_words(store, weights, from, edges, &mut window.weights)?;
            }
            // From the last key that starts before the block to the first that starts behind it.
            let begin = from as u32;
            let low = window.offsets.partition_point(|&at| at <= begin) - 1;
            let high = window.offsets.partition_point(|&at| (at as usize) < from + edges);
            let block = Block {
                first: keys.start + low as u32,
                offsets: &window.offsets[low..=high],
                begin,
                others: &window.others,
                weights: &window.weights,
            };
            each(store, block)?;
            from += edges;
        }
        Ok(())
    }

    /// Prefetches the offsets of a window and its first block of edges.
    pub fn will_scan<S: Store>(&self, store: &mut S, interval: usize, chunk: usize, buffers: &Buffers) {
        if self.resident.is_none() && interval < self.plan.interval_count() {
            let offsets = Segment::Offsets(interval as u32, chunk as u32);
            store.will_read(offsets, 0, 4 * (self.plan.interval(interval).len() as u64 + 1));
            let (others, weights) = self.names(interval, chunk);
            for name in [others, weights].into_iter().take(if self.plan.weighted { 2 } else { 1 }) {
                let bytes = store.bytes(name).unwrap_or(0).min(4 * buffers.block_edges as u64);
                store.will_read(name, 0, bytes);
            }
        }
    }

    /// Reads edges of a window, starting at edge `from`.
    pub fn read_edges<S: Store>(
        &self,
        store: &mut S,
        (interval, chunk): (usize, usize),
        edges: Range<u32>,
        window: &mut Window,
    ) -> Result<(), StoreError> {
        let (name, weights) = self.names(interval, chunk);
        let (from, count) = (edges.start as usize, edges.len());
        read_words(store, name, from, count, &mut window.others)?;
        if self.plan.weighted {
            read_words(store, weights, from, count, &mut window.weights)?;
        }
        Ok(())
    }

    /// Reads the offsets of a window.
    pub fn read_offsets<S: Store>(
        &self,
        store: &mut S,
        interval: usize,
        chunk: usize,
        offsets: &mut Vec<u32>,
    ) -> Result<(), StoreError> {
        let segment = Segment::Offsets(interval as u32, chunk as u32);
        let keys = self.plan.interval(interval);
        read_words(store, segment, 0, keys.len() + 1, offsets)?;
        let (others, _) = self.names(interval, chunk);
        let edges = store.bytes(others).unwrap_or(0) / 4;
        if !offsets.is_sorted() || u64::from(offsets[keys.len()]) != edges {
            // The edges may be what is damaged.
            store.read(others, 0, &mut [])?;
            return Err(StoreError::Damaged { segment, why: "it does not fit its edges".into() });
        }
        Ok(())
    }

    /// Returns the out-degrees of these vertices.
    pub fn degrees<S: Store>(
        &self,
        store: &mut S,
        vertices: Range<u32>,
        into: &mut Vec<u32>,
    ) -> Result<(), StoreError> {
        match &self.degrees {
            Some(degrees) => {
                into.clear();
                into.extend_from_slice(&degrees[vertices.start as usize..vertices.end as usize]);
                Ok(())
            }
            None => {
                let (from, count) = (vertices.start as usize, vertices.len());
                read_words(store, Segment::Degrees, from, count, into)
            }
        }
    }

    fn names(&self, interval: usize, chunk: usize) -> (Segment, Segment) {
        let (interval, chunk) = (interval as u32, chunk as u32);
        (Segment::Others(interval, chunk), Segment::Weights(interval, chunk))
    }
}

/// Reads `count` four-byte words, starting at word `from`.
pub fn read_words<S: Store, T: Pod>(
    store: &mut S,
    segment: Segment,
    from: usize,
    count: usize,
    into: &mut Vec<T>,
) -> Result<(), StoreError> {
    into.resize(count, T::zeroed());
    store.read(segment, 4 * from as u64, bytemuck::cast_slice_mut(into))
}

/// Appends four-byte words.
pub fn append_words<S: Store, T: Pod>(
    store: &mut S,
    segment: Segment,
    words: &[T],
) -> Result<(), StoreError> {
    words.chunks(1 << 18).try_for_each(|part| store.append(segment, bytemuck::cast_slice(part)))
}

/// Reopens a prepared graph; `None`: the store has none, or another one.
pub fn reopen<S: Store>(store: &mut S, origin: u64) -> Result<Option<Grid>, StoreError> {
    let Some(bytes) = store.bytes(Segment::Plan) else { return Ok(None) };
    let mut record = vec![0; bytes as usize];
    store.read(Segment::Plan, 0, &mut record)?;
    let plan = Plan::decode(&record).filter(|plan| plan.origin == origin);
    Ok(plan.map(|plan| Grid { plan, resident: None, degrees: None }))
}
