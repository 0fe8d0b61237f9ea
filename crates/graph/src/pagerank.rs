//! PageRank: the probability of finding, at each vertex, a walk that follows edges and occasionally restarts at a random vertex.
//!
//! ```text
//!   rank(v) = (1 - d) / V + d (sum over edges u -> v of rank(u) / outdegree(u) + rank of vertices without successors / V)
//! ```
//! Duplicate edges and loops count. Ranks sum to 1. For each vertex the program keeps its *share*, the value it passes along each of its edges: rank
//! / outdegree, or its rank if no edge leaves it.
//!
//! One step processes one interval of one iteration. Shares of the previous iteration are read and those of the next are written, so the result
//! depends neither on the order of intervals nor on threads: each vertex sums up its edges in the order of its window.

use super::grid::{Block, Buffers, Grid, append_words, read_words};
use super::prepare::Share;
use super::store::{Segment, Store, StoreError, Work};
use super::workers::Workers;
use std::ops::Range;

/// Settings of PageRank.
#[derive(Clone, Debug, PartialEq)]
pub struct PageRankConfig {
    /// Probability that the walk follows an edge.
    pub damping: f64,
    /// Maximum number of iterations.
    pub iterations: u32,
    /// Ends when the sum of all changes falls below this.
    pub tolerance: f64,
}

/// State of the computation.
#[derive(Clone, Debug)]
pub struct PageRank {
    config: PageRankConfig,
    /// Shares of the previous iteration: of all vertices, or of one chunk.
    shares: Vec<f32>,
    /// Shares of this iteration, if all fit into memory.
    next: Vec<f32>,
    whole: bool,
    /// True if each iteration is kept in the store.
    kept: bool,
    /// True if iterations in the store were damaged and dropped.
    dropped: bool,
    iteration: u32,
    interval: usize,
    /// Rank of the vertices without successors, in the previous iteration and in this one.
    dangling: [f64; 2],
    change: f64,
    last_change: f64,
    /// Change in the second-to-last complete iteration.
    earlier_change: f64,
    /// Checksum of this iteration's shares in the store.
    sum: u32,
    buffers: Buffers,
    sums: Vec<f64>,
    words: Words,
}

/// Record of an iteration.
#[derive(Clone, Copy, Debug)]
struct Complete {
    iteration: u32,
    dangling: f64,
    last_change: f64,
    earlier_change: f64,
}

#[derive(Clone, Debug, Default)]
struct Words {
    degrees: Vec<u32>,
    old: Vec<f32>,
    new: Vec<f32>,
}

/// Bytes kept per vertex if all fit.
pub const VERTEX_BYTES: u64 = 8;

const STATE_BYTES: usize = 40;

impl PageRank {
    /// Prepares the first iteration, or the one after the last complete iteration in the store.
    pub fn new<S: Store>(
        grid: &Grid,
        store: &mut S,
        config: PageRankConfig,
        block_edges: usize,
    ) -> Result<PageRank, StoreError> {
        let mut rank = PageRank {
            config,
            shares: Vec::new(),
            next: Vec::new(),
            whole: grid.plan.chunk_count() == 1,
            kept: grid.resident.is_none(),
            dropped: false,
            iteration: 0,
            interval: 0,
            dangling: [0.0; 2],
            change: f64::INFINITY,
            last_change: f64::INFINITY,
            earlier_change: f64::INFINITY,
            sum: 0,
            buffers: Buffers::new(block_edges),
            sums: Vec::new(),
            words: Words::default(),
        };
        let resumed = rank.kept && rank.resume(grid, store)?;
        if rank.whole {
            rank.next = vec![0.0; grid.plan.vertices as usize];
        }
        match (resumed, rank.whole) {
            (true, true) => rank.load(grid, store, 0)?,
            (false, _) => rank.begin(grid, store)?,
            (true, false) => {}
        }
        rank.change = 0.0;
        Ok(rank)
    }

    /// Number of complete iterations.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// Reports whether stored iterations were damaged, so that all are computed anew.
    pub fn has_dropped(&self) -> bool {
        self.dropped
    }

    /// Sum of all changes in the last complete iteration.
    pub fn last_change(&self) -> f64 {
        self.last_change
    }

    /// Resumes from the last complete iteration. Returns `false` if there is none, it is damaged, or the requested run ends earlier. Changes shrink,
    /// so if the second-to-last one exceeds the tolerance, all earlier ones do.
    fn resume<S: Store>(&mut self, grid: &Grid, store: &mut S) -> Result<bool, StoreError> {
        if store.bytes(Segment::State).is_none() {
            return Ok(false);
        }
        let found = match self.last_complete(grid, store) {
            // After a power cut, records of iterations may exist without their values.
            Ok(None) | Err(StoreError::Damaged { .. }) => {
                self.dropped = true;
                return Ok(false);
            }
            Ok(Some(found)) => found,
            Err(error) => return Err(error),
        };
        if found.iteration > self.config.iterations || found.earlier_change < self.config.tolerance {
            return Ok(false);
        }
        self.iteration = found.iteration;
        self.dangling[0] = found.dangling;
        self.last_change = found.last_change;
        self.earlier_change = found.earlier_change;
        Ok(true)
    }

    /// Reads the record of the last complete iteration and checks its values; `None`: they are damaged.
    fn last_complete<S: Store>(
        &mut self,
        grid: &Grid,
        store: &mut S,
    ) -> Result<Option<Complete>, StoreError> {
        if store.bytes(Segment::State) != Some(STATE_BYTES as u64) {
            return Ok(None);
        }
        let mut record = [0; STATE_BYTES];
        store.read(Segment::State, 0, &mut record)?;
        let (body, sum) = record.split_at(STATE_BYTES - 4);
        if crc32c::crc32c(body).to_le_bytes() != sum {
            return Ok(None);
        }
        let long = |at: usize| std::array::from_fn(|byte| body[at + byte]);
        let iteration = u64::from_le_bytes(long(0)) as u32;
        let mut values = 0;
        for interval in 0..grid.plan.interval_count() {
            let segment = Segment::Values(interval as u32, iteration % 2 == 1);
            if store.bytes(segment) != Some(4 * grid.plan.interval(interval).len() as u64) {
                return Ok(None);
            }
            read_values(store, grid, interval, iteration % 2 == 1, &mut self.words.old)?;
            values = crc32c::crc32c_append(values, bytemuck::cast_slice(&self.words.old));
        }
        let [dangling, last_change, earlier_change] = [8, 16, 24].map(|at| f64::from_le_bytes(long(at)));
        let complete = Complete { iteration, dangling, last_change, earlier_change };
        Ok((values.to_le_bytes() == body[32..]).then_some(complete))
    }

    /// Initialises the shares: equal ranks.
    fn begin<S: Store>(&mut self, grid: &Grid, store: &mut S) -> Result<(), StoreError> {
        let vertices = grid.plan.vertices;
        let rank = 1.0 / f64::from(vertices.max(1));
        self.shares = Vec::with_capacity(if self.whole { vertices as usize } else { 0 });
        for interval in 0..grid.plan.interval_count() {
            let from = grid.plan.interval(interval).start;
            let ahead = u64::from(vertices - from).min(self.buffers.block_edges() as u64);
            if self.kept {
                store.will_read(Segment::Degrees, 4 * u64::from(from), 4 * ahead);
            }
            let Words { degrees, new, .. } = &mut self.words;
            grid.degrees(store, grid.plan.interval(interval), degrees)?;
            new.clear();
            for &degree in degrees.iter() {
                new.push((rank / f64::from(degree.max(1))) as f32);
                self.dangling[0] += if degree == 0 { rank } else { 0.0 };
            }
            if self.whole {
                self.shares.extend_from_slice(new);
            } else {
                keep(store, interval, false, new)?;
            }
        }
        Ok(())
    }

    /// Reads the shares of a chunk.
    fn load<S: Store>(&mut self, grid: &Grid, store: &mut S, chunk: usize) -> Result<(), StoreError> {
        let odd = self.iteration % 2 == 1;
        self.shares.clear();
        for interval in grid.plan.intervals_of(chunk) {
            let Words { old, .. } = &mut self.words;
            read_values(store, grid, interval, odd, old)?;
            self.shares.extend_from_slice(old);
        }
        Ok(())
    }

    /// Processes the next interval; `None`: the ranks are final.
    pub fn step<S: Store>(
        &mut self,
        grid: &Grid,
        store: &mut S,
        workers: &impl Workers,
    ) -> Result<Option<Share>, StoreError> {
        if self.is_done() || grid.plan.vertices == 0 {
            return Ok(None);
        }
        let keys = grid.plan.interval(self.interval);
        self.sums.clear();
        self.sums.resize(keys.len(), 0.0);
        for chunk in 0..grid.plan.chunk_count() {
            if !self.whole {
                self.load(grid, store, chunk)?;
            }
            let base = grid.plan.chunk(chunk).start;
            if chunk + 1 == grid.plan.chunk_count() {
                // Reads ahead during this computation.
                self.will_read(grid, store, keys.clone());
            }
            let PageRank { sums, shares, buffers, .. } = self;
            grid.scan(store, self.interval, chunk, buffers, |store, block| {
                gather(block, keys.start, base, shares, sums, workers);
                store.spend(Work::Follow(block.others.len() as u64));
                Ok::<_, StoreError>(())
            })?;
        }
        self.apply(grid, store, keys)?;
        self.interval += 1;
        if self.interval == grid.plan.interval_count() {
            self.end_iteration(grid, store)?;
        }
        let intervals = grid.plan.interval_count() as u64;
        let done = u64::from(self.iteration) * intervals + self.interval as u64;
        Ok(Some(Share { done, of: u64::from(self.config.iterations) * intervals }))
    }

    /// Prefetches the degrees of these keys, and the first window of the next interval.
    fn will_read<S: Store>(&self, grid: &Grid, store: &mut S, keys: Range<u32>) {
        if self.kept {
            store.will_read(Segment::Degrees, 4 * u64::from(keys.start), 4 * keys.len() as u64);
            grid.will_scan(store, (self.interval + 1) % grid.plan.interval_count(), 0, &self.buffers);
        }
    }

    fn is_done(&self) -> bool {
        self.interval == 0
            && (self.iteration >= self.config.iterations || self.last_change < self.config.tolerance)
    }

    /// Computes the ranks of one interval from the sums of its vertices.
    fn apply<S: Store>(&mut self, grid: &Grid, store: &mut S, keys: Range<u32>) -> Result<(), StoreError> {
        let vertices = f64::from(grid.plan.vertices);
        let damping = self.config.damping;
        let base = (1.0 - damping) / vertices + damping * self.dangling[0] / vertices;
        let Words { degrees, old, new } = &mut self.words;
        grid.degrees(store, keys.clone(), degrees)?;
        let old: &[f32] = if self.whole {
            &self.shares[keys.start as usize..keys.end as usize]
        } else {
            read_values(store, grid, self.interval, self.iteration % 2 == 1, old)?;
            old
        };
        new.clear();
        for ((&sum, &degree), &old) in self.sums.iter().zip(degrees.iter()).zip(old) {
            let out = f64::from(degree.max(1));
            let rank = base + damping * sum;
            self.change += (rank - f64::from(old) * out).abs();
            self.dangling[1] += if degree == 0 { rank } else { 0.0 };
            new.push((rank / out) as f32);
        }
        store.spend(Work::Apply(keys.len() as u64));
        if self.whole {
            self.next[keys.start as usize..keys.end as usize].copy_from_slice(new);
        }
        if self.kept {
            keep(store, self.interval, self.iteration.is_multiple_of(2), new)?;
            self.sum = crc32c::crc32c_append(self.sum, bytemuck::cast_slice(new));
        }
        Ok(())
    }

    fn end_iteration<S: Store>(&mut self, grid: &Grid, store: &mut S) -> Result<(), StoreError> {
        std::mem::swap(&mut self.shares, &mut self.next);
        if !self.whole {
            self.shares.clear();
        }
        self.dangling = [self.dangling[1], 0.0];
        self.earlier_change = self.last_change;
        (self.last_change, self.change) = (self.change, 0.0);
        self.iteration += 1;
        self.interval = 0;
        if self.kept {
            let mut record = u64::from(self.iteration).to_le_bytes().to_vec();
            record.extend(self.dangling[0].to_le_bytes());
            record.extend(self.last_change.to_le_bytes());
            record.extend(self.earlier_change.to_le_bytes());
            record.extend(std::mem::take(&mut self.sum).to_le_bytes());
            let sum = crc32c::crc32c(&record);
            record.extend(sum.to_le_bytes());
            store.replace(Segment::State, &record)?;
            let odd = self.iteration.is_multiple_of(2);
            for interval in 0..grid.plan.interval_count() {
                store.remove(Segment::Values(interval as u32, odd))?;
            }
        }
        Ok(())
    }

    /// Passes the ranks of all vertices to `each`, interval by interval, as first vertex and ranks.
    pub fn ranks<S: Store, E: From<StoreError>>(
        &mut self,
        grid: &Grid,
        store: &mut S,
        mut each: impl FnMut(u32, &[f64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut ranks = Vec::new();
        for interval in 0..grid.plan.interval_count() {
            let keys = grid.plan.interval(interval);
            let Words { degrees, old, .. } = &mut self.words;
            grid.degrees(store, keys.clone(), degrees)?;
            let shares: &[f32] = if self.whole {
                &self.shares[keys.start as usize..keys.end as usize]
            } else {
                read_values(store, grid, interval, self.iteration % 2 == 1, old)?;
                old
            };
            ranks.clear();
            ranks
                .extend(shares.iter().zip(degrees.iter()).map(|(&s, &d)| f64::from(s) * f64::from(d.max(1))));
            each(keys.start, &ranks)?;
        }
        Ok(())
    }
}

/// Adds the shares that the keys of a block receive to their sums. `first` is the key of `sums[0]`, `base` the other end of `shares[0]`.
pub fn gather(
    block: Block<'_>,
    first: u32,
    base: u32,
    shares: &[f32],
    sums: &mut [f64],
    workers: &impl Workers,
) {
    let parts = block.split(workers.count());
    let mut rest = &mut sums[(block.first - first) as usize..];
    let mut at = block.first;
    let mut pieces = Vec::with_capacity(parts.len());
    for part in parts {
        let (_, tail) = rest.split_at_mut((part.first - at) as usize);
        let (own, tail) = tail.split_at_mut(part.keys());
        (rest, at) = (tail, part.first + part.keys() as u32);
        pieces.push((part, own));
    }
    workers.each(pieces, |(part, sums)| {
        for (key, sum) in sums.iter_mut().enumerate() {
            let mut total = *sum;
            for &other in &part.others[part.edges(key)] {
                total += f64::from(shares[(other - base) as usize]);
            }
            *sum = total;
        }
    });
}

fn keep<S: Store>(store: &mut S, interval: usize, odd: bool, values: &[f32]) -> Result<(), StoreError> {
    let segment = Segment::Values(interval as u32, odd);
    store.create(segment)?;
    append_words(store, segment, values)?;
    store.seal(segment)
}

fn read_values<S: Store>(
    store: &mut S,
    grid: &Grid,
    interval: usize,
    odd: bool,
    into: &mut Vec<f32>,
) -> Result<(), StoreError> {
    let count = grid.plan.interval(interval).len();
    let segment = Segment::Values(interval as u32, odd);
    read_words(store, segment, 0, count, into)
}
