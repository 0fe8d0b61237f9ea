//! Preparation: from edges in any order to windows ordered by key.
//!
//! ```text
//!   Edges ─► Chunk (sorted by ranges of keys) ─► Intake: chunks in memory ──(more than fit)──► runs in the store
//!   Preparing:  chunks ─► one window, which stays in memory            (resident)
//!               runs ─► windows, interval by interval ─► Plan          (sort)
//! ```
//! | file | job |
//! |---|---|
//! | `chunk` | edges in memory, sorted by ranges |
//! | `runs` | chunks in memory and in the store; positions of the edges of given keys |
//! | `intake` | counts degrees, and decides what stays in memory |
//! | `plan` | cuts the graph so that each part fits |
//! | `sort` | windows of the pieces of runs |
//! | `resident` | the one window of a graph that stays in memory |
//!
//! Memory: chunks take at most half of the limit, besides the degrees; a window is sorted in as many passes as needed. A graph stays in memory if its
//! edges, sorted and unsorted, fit there together with the program's data per vertex.
//!
//! Edges of a key keep the input's order, so results do not depend on memory or threads. Duplicates and loops stay, except in a [`Shape::Simple`]
//! graph.

mod chunk;
mod intake;
mod plan;
mod resident;
mod runs;
mod sort;

pub use chunk::Chunk;
pub use intake::Intake;

use super::edges::Key;
use super::grid::{Grid, Plan, append_words};
use super::store::{Segment, Store, StoreError};
use super::workers::Workers;
use runs::Runs;
use thiserror::Error;

/// Edges that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All edges, grouped by this end.
    All(Key),
    /// Each edge once, without direction and loops, from the end with fewer edges to the other. Vertices are renumbered by number of edges.
    Simple,
}

/// Requirements of a program.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Edges that are kept.
    pub shape: Shape,
    /// True if edges keep their weights; ignored for a simple graph.
    pub weighted: bool,
    /// True if out-degrees are needed.
    pub degrees: bool,
    /// Total memory limit in bytes.
    pub memory_bytes: u64,
    /// Bytes per vertex that the program keeps in memory if it can.
    pub vertex_bytes: u64,
    /// True if the program can also work with the values of a part of the vertices in memory.
    pub chunked: bool,
    /// Lower bound on the number of vertices.
    pub vertices: u32,
    /// True if everything is one window in the store, for a caller that maps it into memory.
    pub mapped: bool,
    /// Fingerprint for [`Plan::origin`].
    pub origin: u64,
}

impl Asked {
    /// Number of edges that are sorted at a time.
    fn fit(&self) -> usize {
        (self.memory_bytes / 4 / edge_bytes(self.weighted)).max(1 << 8) as usize
    }
}

/// Reason why a graph was not prepared.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// More edges than one window can hold.
    #[error("{edges} edges in one window; allowed: at most 4,294,967,294")]
    Window {
        /// Edges of the window.
        edges: u64,
    },
    /// Data that must be in memory do not fit.
    #[error("{what} need at least {needed} bytes of memory; the limit is {allowed}")]
    Memory {
        /// Data that do not fit.
        what: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes allowed.
        allowed: u64,
    },
}

/// Bytes of an edge, unsorted and sorted.
fn edge_bytes(weighted: bool) -> u64 {
    if weighted { 20 } else { 12 }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Everything is in memory.
    Resident,
    /// Renumbering the ends of edges: the next is edge `at` of the next run; `run` of `of` runs are done.
    Relabel {
        run: usize,
        at: usize,
        of: usize,
    },
    /// Making windows.
    Sort {
        interval: usize,
    },
    Done,
}

/// Progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Steps done.
    pub done: u64,
    /// Steps in all.
    pub of: u64,
}

/// Turns edges into windows, one step at a time.
#[derive(Clone, Debug)]
pub struct Preparing {
    asked: Asked,
    plan: Plan,
    runs: Runs,
    phase: Phase,
    degrees: Vec<u32>,
    labels: Option<Vec<u32>>,
    buffers: sort::Buffers,
}

impl Preparing {
    /// Does the next step; `None`: all are done.
    pub fn step<S: Store>(&mut self, store: &mut S) -> Result<Option<Share>, PrepareError> {
        match self.phase {
            Phase::Resident | Phase::Done => Ok(None),
            Phase::Relabel { run, at, of } => {
                let labels = self.labels.as_deref().expect("a simple graph has labels");
                let next = sort::relabel(
                    &mut self.runs,
                    &self.asked,
                    labels,
                    &mut self.buffers,
                    store,
                    (run, of, at),
                )?;
                self.phase = match next {
                    Some(at) => Phase::Relabel { run, at, of },
                    None if run + 1 < of => Phase::Relabel { run: run + 1, at: 0, of },
                    None => {
                        self.runs.spill(store)?;
                        self.labels = None;
                        plan::cut_runs(&mut self.plan, &self.asked, &self.runs)?;
                        Phase::Sort { interval: 0 }
                    }
                };
                // The number of intervals is known only after renumbering.
                Ok(Some(Share { done: run as u64, of: 2 * of as u64 }))
            }
            Phase::Sort { interval } => {
                sort::sort_interval(
                    (&self.asked, &mut self.plan),
                    &self.runs,
                    &mut self.buffers,
                    store,
                    interval,
                )?;
                let (next, of) = (interval + 1, self.plan.interval_count());
                self.phase = Phase::Sort { interval: next };
                if next == of {
                    self.end(store)?;
                    self.phase = Phase::Done;
                }
                Ok(Some(Share { done: next as u64, of: of as u64 }))
            }
        }
    }

    /// Returns the graph after the last step.
    ///
    /// # Panics
    /// If steps are left.
    pub fn finish<S: Store>(mut self, store: &mut S, workers: &impl Workers) -> Grid {
        let resident = match self.phase {
            Phase::Resident => Some(resident::sort_resident(
                (&self.asked, &mut self.plan),
                &mut self.runs,
                self.labels.as_deref(),
                store,
                workers,
            )),
            Phase::Done => None,
            _ => panic!("there are steps left"),
        };
        let degrees = (self.asked.degrees && resident.is_some()).then_some(self.degrees);
        Grid { plan: self.plan, resident, degrees }
    }

    /// Writes the degrees to the store, unless everything stays in memory.
    fn keep_degrees<S: Store>(&mut self, store: &mut S) -> Result<(), StoreError> {
        if self.asked.degrees && !matches!(self.phase, Phase::Resident) {
            let degrees = std::mem::take(&mut self.degrees);
            store.create(Segment::Degrees)?;
            append_words(store, Segment::Degrees, &degrees)?;
            store.seal(Segment::Degrees)?;
        }
        Ok(())
    }

    /// Ends the preparation; all windows exist.
    fn end<S: Store>(&mut self, store: &mut S) -> Result<(), StoreError> {
        self.buffers = sort::Buffers::default();
        let count = self.runs.count();
        store.replace(Segment::Plan, &self.plan.encode())?;
        self.runs.remove(store, count)
    }
}
