//! From edges as they come to windows ordered by key.
//!
//! ```text
//!   Intake:     edges ─► chunks in memory ──(more than fit)──► Segment::Raw
//!   Preparing:  chunks ─► one window, which stays in memory
//!               Raw ─► buckets, one for each interval ─► windows, each sorted by counting ─► Plan
//! ```
//! Memory: while edges come, at most three quarters of what is allowed; a bucket is sorted in as many passes as it takes. A graph stays in
//! memory when its edges, sorted and unsorted, fit there with what the program keeps for each vertex.
//!
//! Edges of one key are in the order in which they came, so results do not depend on memory or threads. Duplicates and loops stay, but in
//! a [`Shape::Simple`] graph.

use super::edges::{Edge, Histogram, Key};
use super::grid::{Grid, Plan, Window, append_words, read_words};
use super::store::{Segment, Store, StoreError, Work};
use std::ops::Range;
use thiserror::Error;

/// What is kept of the edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All of them, found by this end.
    All(Key),
    /// As if they had no direction, each once, without loops: from the end with fewer edges to the other. Vertices are numbered anew by
    /// their number of edges.
    Simple,
}

/// What a program needs.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What is kept of the edges.
    pub shape: Shape,
    /// Whether edges keep their weights.
    pub weighted: bool,
    /// Whether out-degrees are needed.
    pub degrees: bool,
    /// Bytes of memory that everything may take together.
    pub memory_bytes: u64,
    /// Bytes that the program keeps in memory for each vertex, if it can.
    pub vertex_bytes: u64,
    /// Whether it can also work with the values of some vertices in memory at a time.
    pub chunked: bool,
    /// Vertices there are at least.
    pub vertices: u32,
    /// Whether everything is one window in the store, for whoever maps it into memory.
    pub mapped: bool,
    /// See [`Plan::origin`].
    pub origin: u64,
}

/// Why a graph was not prepared.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// The store has not done what it should.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// More edges than one window can have.
    #[error("{edges} edges in one window; allowed: 4,294,967,294")]
    Window {
        /// Edges of the window.
        edges: u64,
    },
    /// What has to be in memory does not fit.
    #[error("{what} need {needed} bytes of memory at least; allowed are {allowed}")]
    Memory {
        /// What does not fit.
        what: &'static str,
        /// Bytes of memory to allow.
        needed: u64,
        /// Bytes that are allowed.
        allowed: u64,
    },
}

/// Keys of an interval of a graph in memory.
const RESIDENT_KEYS: u32 = 1 << 18;

/// Edges in memory.
#[derive(Clone, Debug, Default)]
struct Chunk {
    from: Vec<u32>,
    to: Vec<u32>,
    weights: Vec<f32>,
}

/// Takes edges in.
#[derive(Clone, Debug)]
pub struct Intake {
    asked: Asked,
    chunk_edges: usize,
    chunks: Vec<Chunk>,
    spilled: bool,
    histogram: Histogram,
    degrees: Vec<u32>,
    edges: u64,
    vertices: u32,
    bytes: Vec<u8>,
}

impl Intake {
    /// Ready for edges.
    pub fn new(asked: Asked) -> Intake {
        let chunk_edges = (asked.memory_bytes / 512).clamp(1 << 8, 1 << 20) as usize;
        Intake {
            chunk_edges,
            chunks: Vec::new(),
            spilled: false,
            histogram: Histogram::default(),
            degrees: Vec::new(),
            edges: 0,
            vertices: asked.vertices,
            bytes: Vec::new(),
            asked,
        }
    }

    /// Edges so far.
    pub fn edges(&self) -> u64 {
        self.edges
    }

    /// There are so many vertices at least.
    pub fn see(&mut self, vertices: u32) {
        self.vertices = self.vertices.max(vertices);
    }

    /// Takes edges.
    pub fn push<S: Store>(&mut self, store: &mut S, edges: &[Edge]) -> Result<(), PrepareError> {
        for &edge in edges {
            if self.asked.shape == Shape::Simple && edge.from == edge.to {
                self.vertices = self.vertices.max(edge.from + 1);
                continue;
            }
            if self.chunks.last().is_none_or(|chunk| chunk.from.len() == self.chunk_edges) {
                self.next_chunk(store)?;
            }
            self.vertices = self.vertices.max(edge.from.max(edge.to) + 1);
            self.histogram.note(match self.asked.shape {
                Shape::All(Key::To) => edge.to,
                Shape::All(Key::From) | Shape::Simple => edge.from,
            });
            if self.needs_degrees() {
                self.count(edge)?;
            }
            let chunk = self.chunks.last_mut().expect("one was made");
            chunk.from.push(edge.from);
            chunk.to.push(edge.to);
            if self.asked.weighted {
                chunk.weights.push(edge.weight);
            }
            self.edges += 1;
        }
        Ok(())
    }

    #[inline]
    fn count(&mut self, edge: Edge) -> Result<(), PrepareError> {
        if self.degrees.len() < self.vertices as usize {
            self.grow_degrees()?;
        }
        self.degrees[edge.from as usize] += 1;
        if self.asked.shape == Shape::Simple {
            self.degrees[edge.to as usize] += 1;
        }
        Ok(())
    }

    fn needs_degrees(&self) -> bool {
        self.asked.degrees || self.asked.shape == Shape::Simple
    }

    fn check_degrees(&self) -> Result<(), PrepareError> {
        let needed = 8 * u64::from(self.vertices);
        let allowed = self.asked.memory_bytes;
        if needed > allowed {
            return Err(PrepareError::Memory { what: "the degrees of all vertices", needed, allowed });
        }
        Ok(())
    }

    #[cold]
    fn grow_degrees(&mut self) -> Result<(), PrepareError> {
        self.check_degrees()?;
        let allowed = self.asked.memory_bytes;
        let room = (self.vertices as usize).max(2 * self.degrees.len()).min((allowed / 8) as usize);
        self.degrees.resize(room, 0);
        Ok(())
    }

    fn next_chunk<S: Store>(&mut self, store: &mut S) -> Result<(), PrepareError> {
        let more = self.edges + self.chunk_edges as u64;
        let degrees = 4 * self.degrees.len() as u64;
        if !self.spilled && more * self.resident_bytes() + degrees > self.asked.memory_bytes / 4 * 3 {
            self.spilled = true;
            store.create(Segment::Raw)?;
        }
        if self.spilled {
            self.spill(store)?;
        }
        let room = self.chunk_edges;
        let weights = if self.asked.weighted { room } else { 0 };
        self.chunks.push(Chunk {
            from: Vec::with_capacity(room),
            to: Vec::with_capacity(room),
            weights: Vec::with_capacity(weights),
        });
        Ok(())
    }

    /// Bytes that an edge takes unsorted and sorted.
    fn resident_bytes(&self) -> u64 {
        if self.asked.weighted { 20 } else { 12 }
    }

    fn spill<S: Store>(&mut self, store: &mut S) -> Result<(), StoreError> {
        for chunk in std::mem::take(&mut self.chunks) {
            let mut weights = chunk.weights.iter();
            self.bytes.clear();
            for (from, to) in chunk.from.iter().zip(&chunk.to) {
                put_edge(&mut self.bytes, *from, *to, weights.next().copied());
            }
            store.append(Segment::Raw, &self.bytes)?;
        }
        Ok(())
    }

    /// All edges are here.
    pub fn finish<S: Store>(mut self, store: &mut S) -> Result<Preparing, PrepareError> {
        let vertices = u64::from(self.vertices);
        if self.needs_degrees() {
            self.check_degrees()?;
            self.degrees.resize(self.vertices as usize, 0);
        }
        let asked = &self.asked;
        let fixed = vertices * (4 + asked.vertex_bytes) + 4 * self.degrees.len() as u64;
        let resident = !self.spilled
            && !asked.mapped
            && self.edges * self.resident_bytes() + fixed <= asked.memory_bytes
            && self.edges < u64::from(u32::MAX);
        if !resident && !self.spilled {
            self.spilled = true;
            store.create(Segment::Raw)?;
        }
        if self.spilled {
            self.spill(store)?;
            store.seal(Segment::Raw)?;
        }
        let labels = (self.asked.shape == Shape::Simple).then(|| ranks(&self.degrees));
        let plan = self.plan(resident, labels.is_some())?;
        let buckets = plan.interval_count();
        Ok(Preparing {
            plan,
            weighted: self.asked.weighted,
            simple: self.asked.shape == Shape::Simple,
            memory_bytes: self.asked.memory_bytes,
            chunks: self.chunks,
            labels,
            degrees: self.degrees,
            keep_degrees: self.asked.degrees,
            phase: if resident { Phase::Resident } else { Phase::Distribute { at: 0 } },
            buckets: vec![Vec::new(); if resident { 0 } else { buckets }],
            input: self.edges,
            edges: 0,
        })
    }

    /// Cuts the graph so that each part fits.
    fn plan(&self, resident: bool, relabelled: bool) -> Result<Plan, PrepareError> {
        let asked = &self.asked;
        let key = match asked.shape {
            Shape::All(key) => key,
            Shape::Simple => Key::From,
        };
        let (vertices, memory) = (self.vertices, asked.memory_bytes);
        let whole = vec![0, vertices];
        let mut plan = Plan {
            vertices,
            edges: self.edges,
            key,
            weighted: asked.weighted,
            intervals: whole.clone(),
            chunks: whole,
            origin: asked.origin,
        };
        if resident && !relabelled {
            plan.intervals = even(vertices, u64::from(vertices.div_ceil(RESIDENT_KEYS)));
        }
        if resident || asked.mapped {
            return Ok(plan);
        }
        let state = u64::from(vertices) * asked.vertex_bytes;
        let whole_state = state <= memory / 2;
        if !whole_state && !asked.chunked {
            let what = "the values of all vertices";
            return Err(PrepareError::Memory { what, needed: 2 * state, allowed: memory });
        }
        let width = u32::try_from(memory / 8 / 20).unwrap_or(u32::MAX).max(1);
        let edges = (memory / 4 / self.resident_bytes()).max(1);
        plan.intervals = match relabelled {
            // Numbered by degree, vertices with many edges are last: their lists point upwards, so are short. Cut by vertices alone.
            true => even(vertices, (self.edges / edges + 1).max(u64::from(vertices / width) + 1)),
            false => self.histogram.cut(vertices, edges, width),
        };
        if !whole_state {
            plan.chunks = join(&plan.intervals, (memory / 4 / 8).max(1));
        }
        let (windows, buffers) =
            (plan.interval_count() * plan.chunk_count(), plan.interval_count() as u64 * 512);
        if windows > 1 << 16 || buffers > memory / 4 {
            let needed = memory * (windows as u64 / (1 << 15)).max(buffers * 8 / memory).max(2);
            return Err(PrepareError::Memory { what: "windows of a useful size", needed, allowed: memory });
        }
        Ok(plan)
    }
}

fn even(vertices: u32, count: u64) -> Vec<u32> {
    let count = count.min(u64::from(vertices.max(1)));
    (0..=count).map(|at| (u64::from(vertices) * at / count) as u32).collect()
}

/// Chunks of whole intervals, of at most `width` vertices where intervals are not wider.
fn join(intervals: &[u32], width: u64) -> Vec<u32> {
    let mut begins = vec![0];
    for pair in intervals.windows(2) {
        let begin = begins[begins.len() - 1];
        if pair[0] > begin && u64::from(pair[1] - begin) > width {
            begins.push(pair[0]);
        }
    }
    begins.push(intervals[intervals.len() - 1]);
    begins
}

/// New numbers by number of edges, then by old number.
fn ranks(degrees: &[u32]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..degrees.len() as u32).collect();
    order.sort_unstable_by_key(|&vertex| (degrees[vertex as usize], vertex));
    let mut ranks = vec![0; degrees.len()];
    order.iter().zip(0..).for_each(|(&vertex, rank)| ranks[vertex as usize] = rank);
    ranks
}

fn put_edge(bytes: &mut Vec<u8>, from: u32, to: u32, weight: Option<f32>) {
    bytes.extend(from.to_le_bytes());
    bytes.extend(to.to_le_bytes());
    if let Some(weight) = weight {
        bytes.extend(weight.to_le_bytes());
    }
}

#[derive(Clone, Debug)]
enum Phase {
    Resident,
    Distribute { at: u64 },
    Sort { interval: usize },
    Done,
}

/// How far something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Steps done.
    pub done: u64,
    /// Steps in all.
    pub of: u64,
}

/// Makes windows of the edges, a step at a time.
#[derive(Clone, Debug)]
pub struct Preparing {
    plan: Plan,
    weighted: bool,
    simple: bool,
    memory_bytes: u64,
    chunks: Vec<Chunk>,
    labels: Option<Vec<u32>>,
    degrees: Vec<u32>,
    keep_degrees: bool,
    phase: Phase,
    buckets: Vec<Vec<u8>>,
    /// Edges taken in.
    input: u64,
    /// Edges in windows so far.
    edges: u64,
}

/// Edges distributed in one step.
const STEP_EDGES: u64 = 1 << 20;

impl Preparing {
    /// Does the next step; `None`: there is none.
    pub fn step<S: Store>(&mut self, store: &mut S) -> Result<Option<Share>, PrepareError> {
        let steps = self.input.div_ceil(STEP_EDGES);
        let of = steps + self.plan.interval_count() as u64;
        match self.phase {
            Phase::Resident | Phase::Done => Ok(None),
            Phase::Distribute { at } => {
                self.distribute(store, at)?;
                let next = at + STEP_EDGES;
                self.phase = match next < self.input {
                    true => Phase::Distribute { at: next },
                    false => {
                        self.distributed(store)?;
                        Phase::Sort { interval: 0 }
                    }
                };
                Ok(Some(Share { done: next.min(self.input).div_ceil(STEP_EDGES), of }))
            }
            Phase::Sort { interval } => {
                for chunk in 0..self.plan.chunk_count() {
                    self.sort_bucket(store, interval, chunk)?;
                }
                store.remove(Segment::Bucket(interval as u32))?;
                let next = interval + 1;
                self.phase = Phase::Sort { interval: next };
                if next == self.plan.interval_count() {
                    self.end(store)?;
                    self.phase = Phase::Done;
                }
                Ok(Some(Share { done: steps + next as u64, of }))
            }
        }
    }

    /// The graph, when there is no further step. The numbers that vertices had are `labels[old] = new` of a [`Shape::Simple`] graph.
    ///
    /// # Panics
    /// When steps are left.
    pub fn finish<S: Store>(mut self, store: &mut S) -> (Grid, Option<Vec<u32>>) {
        let resident = match self.phase {
            Phase::Resident => Some(self.sort_resident(store)),
            Phase::Done => None,
            _ => panic!("there are steps left"),
        };
        let degrees = (self.keep_degrees && resident.is_some()).then(|| std::mem::take(&mut self.degrees));
        (Grid { plan: self.plan, resident, degrees }, self.labels)
    }

    /// The key and the other end of an edge.
    #[inline]
    fn ends(&self, from: u32, to: u32) -> (u32, u32) {
        match (&self.labels, self.plan.key) {
            (Some(labels), _) => {
                let (a, b) = (labels[from as usize], labels[to as usize]);
                (a.min(b), a.max(b))
            }
            (None, Key::From) => (from, to),
            (None, Key::To) => (to, from),
        }
    }

    // ---- in memory

    fn sort_resident<S: Store>(&mut self, store: &mut S) -> Window {
        let mut offsets = vec![0_u32; self.plan.vertices as usize + 1];
        let chunks = std::mem::take(&mut self.chunks);
        let each = |act: &mut dyn FnMut(u32, u32, f32)| {
            for chunk in &chunks {
                for at in 0..chunk.from.len() {
                    let (key, other) = self.ends(chunk.from[at], chunk.to[at]);
                    act(key, other, chunk.weights.get(at).copied().unwrap_or(1.0));
                }
            }
        };
        let window = if self.labels.is_none() && !self.weighted {
            sort_plain(&chunks, self.plan.key, offsets)
        } else {
            each(&mut |key, _, _| offsets[key as usize] += 1);
            let total = sums(&mut offsets) as usize;
            let mut window = Window { offsets, others: vec![0; total], weights: Vec::new() };
            window.weights.resize(if self.weighted { total } else { 0 }, 0.0);
            let Window { offsets, others, weights } = &mut window;
            each(&mut |key, other, weight| place(offsets, others, weights, key as usize, other, weight));
            shift_back(offsets);
            window
        };
        drop(chunks);
        let mut window = window;
        if self.simple {
            make_simple(&mut window);
        }
        store.spend(Work::Sort(self.input));
        self.plan.edges = window.others.len() as u64;
        window
    }

    // ---- by buckets

    fn record(&self) -> usize {
        if self.weighted { 12 } else { 8 }
    }

    fn distribute<S: Store>(&mut self, store: &mut S, at: u64) -> Result<(), StoreError> {
        let record = self.record();
        let edges = (self.input - at).min(STEP_EDGES);
        let piece = (self.memory_bytes / 8 / record as u64).clamp(1 << 10, 1 << 17);
        let buffer = (self.memory_bytes / 4 / self.buckets.len() as u64).clamp(512, 1 << 20) as usize;
        let (mut bytes, mut done) = (Vec::new(), 0);
        while done < edges {
            let count = (edges - done).min(piece);
            bytes.resize(count as usize * record, 0);
            store.read(Segment::Raw, (at + done) * record as u64, &mut bytes)?;
            for edge in bytes.chunks_exact(record) {
                let (from, to, weight) = get_edge(edge);
                let (key, other) = self.ends(from, to);
                let bucket = self.plan.intervals.partition_point(|&begin| begin <= key) - 1;
                put_edge(&mut self.buckets[bucket], key, other, weight);
                if self.buckets[bucket].len() + record > buffer {
                    append_bucket(store, bucket, &mut self.buckets[bucket])?;
                }
            }
            done += count;
        }
        store.spend(Work::Sort(edges / 2));
        Ok(())
    }

    fn distributed<S: Store>(&mut self, store: &mut S) -> Result<(), StoreError> {
        for (bucket, mut bytes) in std::mem::take(&mut self.buckets).into_iter().enumerate() {
            append_bucket(store, bucket, &mut bytes)?;
            store.seal(Segment::Bucket(bucket as u32))?;
        }
        store.remove(Segment::Raw)?;
        if self.keep_degrees {
            let degrees = std::mem::take(&mut self.degrees);
            store.create(Segment::Degrees)?;
            append_words(store, Segment::Degrees, &degrees, &mut Vec::new(), u32::to_le_bytes)?;
            store.seal(Segment::Degrees)?;
        }
        Ok(())
    }

    /// Sorts the part of a bucket that belongs to one window, by counting: as many keys at a time as fit.
    fn sort_bucket<S: Store>(
        &mut self,
        store: &mut S,
        interval: usize,
        chunk: usize,
    ) -> Result<(), PrepareError> {
        let keys = self.plan.interval(interval);
        let others = self.plan.chunk(chunk);
        let bucket = Bucket { segment: Segment::Bucket(interval as u32), record: self.record(), others };
        let mut offsets = vec![0_u32; keys.len() + 1];
        let edges = store.bytes(bucket.segment).unwrap_or(0) / bucket.record as u64;
        if edges >= u64::from(u32::MAX) {
            return Err(PrepareError::Window { edges });
        }
        bucket.each(store, |key, _, _| offsets[(key - keys.start) as usize] += 1)?;
        let total = sums(&mut offsets);
        let (i, j) = (interval as u32, chunk as u32);
        let (name, weights) = (Segment::Others(i, j), Segment::Weights(i, j));
        store.create(name)?;
        if self.weighted {
            store.create(weights)?;
        }
        let fit = (self.memory_bytes / 4 / if self.weighted { 8 } else { 4 }).clamp(1 << 10, 1 << 31) as u32;
        let mut counts = vec![0_u32; keys.len() + 1];
        let (mut from, mut bytes) = (0, Vec::new());
        while from < keys.len() {
            let most = offsets[from].saturating_add(fit);
            let to = (offsets.partition_point(|&at| at <= most) - 1).clamp(from + 1, keys.len());
            let part = keys.start + from as u32..keys.start + to as u32;
            let window = self.sort_part(store, &bucket, part, &offsets[from..=to])?;
            append_words(store, name, &window.others, &mut bytes, u32::to_le_bytes)?;
            if self.weighted {
                append_words(store, weights, &window.weights, &mut bytes, f32::to_le_bytes)?;
            }
            for (at, pair) in window.offsets.windows(2).enumerate() {
                counts[from + at] = pair[1] - pair[0];
            }
            self.edges += window.others.len() as u64;
            from = to;
        }
        sums(&mut counts);
        let offsets = Segment::Offsets(i, j);
        store.create(offsets)?;
        append_words(store, offsets, &counts, &mut bytes, u32::to_le_bytes)?;
        store.seal(offsets)?;
        store.seal(name)?;
        if self.weighted {
            store.seal(weights)?;
        }
        store.spend(Work::Sort(u64::from(total)));
        Ok(())
    }

    fn sort_part<S: Store>(
        &self,
        store: &mut S,
        bucket: &Bucket,
        keys: Range<u32>,
        offsets: &[u32],
    ) -> Result<Window, StoreError> {
        let base = offsets[0];
        let mut window =
            Window { offsets: offsets.iter().map(|at| at - base).collect(), ..Window::default() };
        let total = window.offsets[keys.len()] as usize;
        window.others.resize(total, 0);
        window.weights.resize(if self.weighted { total } else { 0 }, 0.0);
        let Window { offsets, others, weights } = &mut window;
        bucket.each(store, |key, other, weight| {
            if keys.contains(&key) {
                place(offsets, others, weights, (key - keys.start) as usize, other, weight);
            }
        })?;
        shift_back(offsets);
        if self.simple {
            make_simple(&mut window);
        }
        Ok(window)
    }

    fn end<S: Store>(&mut self, store: &mut S) -> Result<(), StoreError> {
        self.plan.edges = self.edges;
        store.replace(Segment::Plan, &self.plan.encode())
    }
}

/// Edges of one interval, of which those with other ends in `others` are wanted.
struct Bucket {
    segment: Segment,
    record: usize,
    others: Range<u32>,
}

impl Bucket {
    fn each<S: Store>(&self, store: &mut S, mut act: impl FnMut(u32, u32, f32)) -> Result<(), StoreError> {
        let piece = (1 << 16) * self.record as u64;
        let total = store.bytes(self.segment).unwrap_or(0);
        let (mut at, mut bytes) = (0, Vec::new());
        store.will_read(self.segment, 0, piece.min(total));
        while at < total {
            let count = piece.min(total - at);
            if total > at + count {
                store.will_read(self.segment, at + count, piece.min(total - at - count));
            }
            bytes.resize(count as usize, 0);
            store.read(self.segment, at, &mut bytes)?;
            for edge in bytes.chunks_exact(self.record) {
                let (key, other, weight) = get_edge(edge);
                if self.others.contains(&other) {
                    act(key, other, weight.unwrap_or(1.0));
                }
            }
            at += count;
        }
        Ok(())
    }
}

fn append_bucket<S: Store>(store: &mut S, bucket: usize, bytes: &mut Vec<u8>) -> Result<(), StoreError> {
    let segment = Segment::Bucket(bucket as u32);
    if store.bytes(segment).is_none() {
        store.create(segment)?;
    }
    store.append(segment, bytes)?;
    bytes.clear();
    Ok(())
}

fn get_edge(record: &[u8]) -> (u32, u32, Option<f32>) {
    let word = |at: usize| [record[at], record[at + 1], record[at + 2], record[at + 3]];
    let weight = (record.len() == 12).then(|| f32::from_le_bytes(word(8)));
    (u32::from_le_bytes(word(0)), u32::from_le_bytes(word(4)), weight)
}

/// Sorts edges without weights: the loops that decide how fast a graph in memory is prepared.
fn sort_plain(chunks: &[Chunk], key: Key, mut offsets: Vec<u32>) -> Window {
    for chunk in chunks {
        let keys = if key == Key::From { &chunk.from } else { &chunk.to };
        keys.iter().for_each(|&key| offsets[key as usize] += 1);
    }
    let total = sums(&mut offsets) as usize;
    let mut others = vec![0; total];
    for chunk in chunks {
        let (keys, ends) = if key == Key::From { (&chunk.from, &chunk.to) } else { (&chunk.to, &chunk.from) };
        for (&key, &other) in keys.iter().zip(ends) {
            let at = &mut offsets[key as usize];
            others[*at as usize] = other;
            *at += 1;
        }
    }
    shift_back(&mut offsets);
    Window { offsets, others, weights: Vec::new() }
}

/// Counts become the sums of what is before them; returns the sum of all.
fn sums(counts: &mut [u32]) -> u32 {
    let mut sum = 0;
    for count in counts.iter_mut() {
        (*count, sum) = (sum, sum + *count);
    }
    sum
}

#[inline]
fn place(offsets: &mut [u32], others: &mut [u32], weights: &mut [f32], key: usize, other: u32, weight: f32) {
    let at = offsets[key] as usize;
    others[at] = other;
    if let Some(place) = weights.get_mut(at) {
        *place = weight;
    }
    offsets[key] += 1;
}

/// After all edges are placed, each offset is that of the next key.
fn shift_back(offsets: &mut [u32]) {
    let keys = offsets.len() - 1;
    offsets.copy_within(0..keys, 1);
    offsets[0] = 0;
}

/// Orders the edges of each key, and keeps each once.
fn make_simple(window: &mut Window) {
    let (mut end, mut begin) = (0, 0);
    for key in 1..window.offsets.len() {
        let list = begin..window.offsets[key] as usize;
        begin = list.end;
        window.others[list.clone()].sort_unstable();
        let mut last = None;
        for at in list {
            let other = window.others[at];
            if last != Some(other) {
                window.others[end] = other;
                end += 1;
            }
            last = Some(other);
        }
        window.offsets[key] = end as u32;
    }
    window.others.truncate(end);
}

/// A graph that was prepared before; `None`: there is none in the store, or not this one.
pub fn reopen<S: Store>(store: &mut S, origin: u64) -> Result<Option<Grid>, StoreError> {
    let Some(bytes) = store.bytes(Segment::Plan) else { return Ok(None) };
    let mut record = vec![0; bytes as usize];
    store.read(Segment::Plan, 0, &mut record)?;
    let plan = Plan::decode(&record).filter(|plan| plan.origin == origin);
    Ok(plan.map(|plan| Grid { plan, resident: None, degrees: None }))
}

/// Keeps the numbers that vertices got, for whoever resumes.
pub fn keep_labels<S: Store>(store: &mut S, labels: &[u32]) -> Result<(), StoreError> {
    store.create(Segment::Degrees)?;
    append_words(store, Segment::Degrees, labels, &mut Vec::new(), u32::to_le_bytes)?;
    store.seal(Segment::Degrees)
}

/// The numbers that vertices got.
pub fn read_labels<S: Store>(store: &mut S, vertices: u32) -> Result<Vec<u32>, StoreError> {
    let (mut labels, mut bytes) = (Vec::new(), Vec::new());
    read_words(store, Segment::Degrees, 0, vertices as usize, &mut bytes, &mut labels, u32::from_le_bytes)?;
    Ok(labels)
}
