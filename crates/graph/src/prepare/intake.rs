//! The intake of edges.

use super::chunk::Chunk;
use super::plan::RESIDENT_KEYS;
use super::runs::{PAIR_BYTES, Runs};
use super::sort::Buffers;
use super::{Asked, Phase, PrepareError, Preparing, Shape, edge_bytes, plan};
use crate::edges::Key;
use crate::grid::Plan;
use crate::store::{Store, Work};

/// Bytes that a program needs per vertex of the current interval.
const INTERVAL_BYTES: u64 = 20;

/// Collects the input's edges.
#[derive(Clone, Debug)]
pub struct Intake {
    asked: Asked,
    runs: Runs,
    degrees: Vec<u32>,
    edges: u64,
    vertices: u32,
    first: u32,
    /// Sum of all weights.
    weight: f64,
}

impl Intake {
    /// Starts with no edges.
    pub fn new(asked: Asked) -> Intake {
        let runs = Runs::new(asked.weighted, asked.memory_bytes / 16);
        Intake { runs, degrees: Vec::new(), edges: 0, vertices: asked.vertices, first: 0, weight: 0.0, asked }
    }

    /// Number of edges so far.
    pub fn edges(&self) -> u64 {
        self.edges
    }

    /// Sets a lower bound on the number of vertices.
    pub fn see(&mut self, vertices: u32) {
        self.vertices = self.vertices.max(vertices);
    }

    /// Sets the input's number of vertex 0.
    pub fn number_from(&mut self, first: u32) {
        self.first = first;
    }

    /// Adds edges that are as [`Asked::shape`] requires.
    pub fn push<S: Store>(&mut self, store: &mut S, chunk: Chunk) -> Result<(), PrepareError> {
        self.see(chunk.vertices);
        self.edges += chunk.len() as u64;
        if self.needs_degrees() {
            self.count(&chunk)?;
        }
        self.weight += chunk.weights.iter().map(|&weight| f64::from(weight)).sum::<f64>();
        store.spend(Work::Sort(chunk.len() as u64));
        // Assumes that the next chunk is as large as this one.
        let bytes = self.runs.chunk_bytes() + chunk.bytes();
        if bytes > (self.asked.memory_bytes.saturating_sub(4 * self.degrees.len() as u64)) / 2 {
            self.runs.spill(store)?;
        }
        self.runs.push(chunk);
        Ok(())
    }

    fn count(&mut self, chunk: &Chunk) -> Result<(), PrepareError> {
        if self.degrees.len() < self.vertices as usize {
            self.grow_degrees()?;
        }
        let degrees = self.degrees.as_mut_slice();
        match self.asked.shape {
            Shape::Simple => chunk.pairs.iter().flatten().for_each(|&end| degrees[end as usize] += 1),
            Shape::All(_) => chunk.pairs.iter().for_each(|&[_, other]| degrees[other as usize] += 1),
        }
        Ok(())
    }

    fn needs_degrees(&self) -> bool {
        self.asked.degrees || self.asked.shape == Shape::Simple
    }

    fn grow_degrees(&mut self) -> Result<(), PrepareError> {
        let (needed, allowed) = (8 * u64::from(self.vertices), self.asked.memory_bytes);
        if needed > allowed {
            return Err(PrepareError::Memory { what: "the degrees of all vertices", needed, allowed });
        }
        // Grows by some more than needed, so that not every chunk grows the vector; the needed part is half of the allowed memory.
        let more = self.vertices as usize + self.vertices as usize / 8;
        self.degrees.reserve_exact(more - self.degrees.len());
        self.degrees.resize(self.vertices as usize, 0);
        Ok(())
    }

    /// Ends the input.
    pub fn finish<S: Store>(mut self, store: &mut S) -> Result<Preparing, PrepareError> {
        if self.needs_degrees() {
            self.grow_degrees()?;
        }
        let resident = self.is_resident();
        if !resident {
            self.runs.spill(store)?;
        }
        let labels = (self.asked.shape == Shape::Simple).then(|| ranks(&self.degrees));
        if labels.is_some() {
            self.degrees = Vec::new();
        }
        let relabels = labels.is_some() && !resident;
        let phase = match (resident, relabels) {
            (true, _) => Phase::Resident,
            (false, true) => Phase::Relabel { run: 0, at: 0, of: self.runs.count() },
            (false, false) => Phase::Sort { interval: 0 },
        };
        let mut plan = self.whole();
        match phase {
            Phase::Resident if labels.is_none() => plan::cut_evenly(&mut plan),
            Phase::Sort { .. } => plan::cut_runs(&mut plan, &self.asked, &self.runs)?,
            // Intervals depend on the new numbers.
            _ => {}
        }
        let mut preparing = Preparing {
            plan,
            asked: self.asked,
            runs: self.runs,
            phase,
            degrees: self.degrees,
            labels,
            buffers: Buffers::default(),
        };
        preparing.keep_degrees(store)?;
        Ok(preparing)
    }

    /// Plan of a graph in one window.
    fn whole(&self) -> Plan {
        let Asked { shape, weighted, origin, .. } = self.asked;
        Plan {
            vertices: self.vertices,
            first: self.first,
            edges: self.edges,
            key: if let Shape::All(key) = shape { key } else { Key::From },
            weighted,
            mean_weight: if weighted { (self.weight / self.edges.max(1) as f64) as f32 } else { 1.0 },
            intervals: vec![0, self.vertices],
            chunks: vec![0, self.vertices],
            origin,
        }
    }

    /// Reports whether everything can stay in memory.
    fn is_resident(&self) -> bool {
        let asked = &self.asked;
        let values = u64::from(self.vertices) * (4 + asked.vertex_bytes) + 4 * self.degrees.len() as u64;
        let working = INTERVAL_BYTES * u64::from(self.vertices.min(RESIDENT_KEYS));
        let sorted = self.edges * (edge_bytes(asked.weighted) - PAIR_BYTES);
        self.runs.is_resident()
            && !asked.mapped
            && self.edges < u64::from(u32::MAX)
            && self.runs.chunk_bytes() + sorted + values + working <= asked.memory_bytes
    }
}

/// New numbers of the vertices, by number of edges, then by old number.
fn ranks(degrees: &[u32]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..degrees.len() as u32).collect();
    order.sort_unstable_by_key(|&vertex| (degrees[vertex as usize], vertex));
    let mut ranks = vec![0; degrees.len()];
    order.iter().zip(0..).for_each(|(&vertex, rank)| ranks[vertex as usize] = rank);
    ranks
}
