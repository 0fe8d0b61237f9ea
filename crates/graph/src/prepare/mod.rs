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
//! | `runs` | chunks in memory and in the store; where the edges of some keys lie |
//! | `intake` | counts degrees, and decides what stays in memory |
//! | `plan` | cuts the graph so that each part fits |
//! | `sort` | windows of the pieces of runs |
//! | `resident` | the one window of a graph that stays in memory |
//!
//! Memory: chunks take at most half of the limit, beside the degrees; a window is sorted in as many passes as it takes. A graph stays
//! in memory when its edges, sorted and unsorted, fit there beside the program's data for each vertex.
//!
//! Edges of one key are in the order in which they came, so results do not depend on memory or threads. Duplicates and loops stay, but in
//! a [`Shape::Simple`] graph.

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
    /// All of them, found by this end.
    All(Key),
    /// Each edge once, without direction and loops: from the end with fewer edges to the other. Vertices are numbered anew by
    /// their number of edges.
    Simple,
}

/// Needs of a program.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Edges that are kept.
    pub shape: Shape,
    /// True if edges keep their weights; not those of a simple graph.
    pub weighted: bool,
    /// True if out-degrees are needed.
    pub degrees: bool,
    /// Bytes of memory that everything may take together.
    pub memory_bytes: u64,
    /// Bytes that the program keeps in memory for each vertex, if it can.
    pub vertex_bytes: u64,
    /// True if it can also work with the values of some vertices in memory at a time.
    pub chunked: bool,
    /// Vertices there are at least.
    pub vertices: u32,
    /// True if everything is one window in the store, as a caller that maps it into memory needs it.
    pub mapped: bool,
    /// See [`Plan::origin`].
    pub origin: u64,
}

impl Asked {
    /// Edges that are sorted at a time.
    fn fit(&self) -> usize {
        (self.memory_bytes / 4 / edge_bytes(self.weighted)).max(1 << 8) as usize
    }
}

/// Why a graph was not prepared.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// The store has not done what it should.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// More edges than one window can have.
    #[error("{edges} edges in one window; allowed: at most 4,294,967,294")]
    Window {
        /// Edges of the window.
        edges: u64,
    },
    /// Data that have to be in memory do not fit.
    #[error("{what} need at least {needed} bytes of memory; the limit is {allowed}")]
    Memory {
        /// Data that do not fit.
        what: &'static str,
        /// Bytes of memory to allow.
        needed: u64,
        /// Bytes that are allowed.
        allowed: u64,
    },
}

/// Bytes that an edge takes unsorted and sorted.
fn edge_bytes(weighted: bool) -> u64 {
    if weighted { 20 } else { 12 }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Everything is in memory.
    Resident,
    /// Edges get the new numbers of their ends, from edge `at` of the next run on; `run` of `of` runs are done.
    Relabel {
        run: usize,
        at: usize,
        of: usize,
    },
    /// Windows are made.
    Sort {
        interval: usize,
    },
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
    asked: Asked,
    plan: Plan,
    runs: Runs,
    phase: Phase,
    degrees: Vec<u32>,
    labels: Option<Vec<u32>>,
    buffers: sort::Buffers,
}

impl Preparing {
    /// Does the next step; `None`: there is none.
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
                // How many intervals follow, the new numbers will tell.
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

    /// The graph, when there is no further step.
    ///
    /// # Panics
    /// When steps are left.
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

    /// Degrees go to the store, unless everything stays in memory.
    fn keep_degrees<S: Store>(&mut self, store: &mut S) -> Result<(), StoreError> {
        if self.asked.degrees && !matches!(self.phase, Phase::Resident) {
            let degrees = std::mem::take(&mut self.degrees);
            store.create(Segment::Degrees)?;
            append_words(store, Segment::Degrees, &degrees)?;
            store.seal(Segment::Degrees)?;
        }
        Ok(())
    }

    /// All windows are there.
    fn end<S: Store>(&mut self, store: &mut S) -> Result<(), StoreError> {
        self.buffers = sort::Buffers::default();
        let count = self.runs.count();
        store.replace(Segment::Plan, &self.plan.encode())?;
        self.runs.remove(store, count)
    }
}
