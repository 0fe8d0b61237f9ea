//! One run of one program: from an input to rows.
//!
//! ```text
//!   a work directory with this graph ──────────────┐
//!   else: read ─► prepare ─► (Plan is there) ──────┴─► compute ─► write rows ─► file named ─► work directory removed
//! ```
//! The work directory is removed once the file of results has its name, so a full disk or a kill before that
//! costs only the rows.
//!
//! A run that is killed while it reads or prepares begins anew. A run that is killed later resumes: PageRank
//! after the last complete iteration, the other programs from the prepared graph. A graph that fits into
//! memory leaves no work directory, so it begins anew. A damaged work directory is emptied.

use crate::input::{Input, InputError, Wanted};
use crate::output::{Output, OutputError, Row};
use crate::{FileStore, Threads, mapped};
use pellucid_graph::components;
use pellucid_graph::grid::{Grid, reopen};
use pellucid_graph::prepare::{Asked, Intake, PrepareError, Share};
use pellucid_graph::program::{BeginError, Computing, Program, SourceError};
use pellucid_graph::store::{Memory, Segment, Store, StoreError};
use pellucid_graph::traverse::{Distance, Traverse};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;
use thiserror::Error;

/// Mechanism that moves edges between the disk and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// The engine reads windows.
    Windows,
    /// The system pages one mapped window.
    Mapped,
}

/// Configuration of a run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Program to run.
    pub program: Program,
    /// Memory for the program's data, in bytes.
    pub memory_bytes: u64,
    /// Number of computing threads.
    pub threads: usize,
    /// Mechanism that moves edges.
    pub storage: Storage,
    /// Work directory, for data that do not fit into memory.
    pub work: PathBuf,
    /// The work directory stays after the run.
    pub keep: bool,
    /// Fingerprint of the input and the options. A work directory with another fingerprint is replaced.
    pub origin: u64,
}

/// Reason that a run ended without a result.
#[derive(Debug, Error)]
pub enum JobError {
    /// The input could not be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The graph could not be prepared.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The work directory could not be used.
    #[error("{0}")]
    Work(String),
    /// A segment in the work directory could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The results could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A segment in the work directory is damaged.
    #[error("{}: {why}; the kept data are removed, and the next run starts from the beginning", .work.display())]
    Damaged {
        /// The work directory.
        work: PathBuf,
        /// Damaged segment, and its damage.
        why: StoreError,
    },
    /// The input has no vertices.
    #[error("it has no edges, so there is nothing to compute")]
    Empty,
    /// The source vertex is not in the graph.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The caller cancelled the run.
    #[error("interrupted")]
    Interrupted,
}

impl From<BeginError> for JobError {
    fn from(error: BeginError) -> JobError {
        match error {
            BeginError::Source(error) => error.into(),
            BeginError::Store(error) => error.into(),
        }
    }
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading the input; the number counts edges read so far.
    Read(u64),
    /// Ordering the edges.
    Prepare(Share),
    /// Computing values; the number counts complete iterations or rounds.
    Compute(Share, u32),
}

/// Result and cost of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Number of vertices.
    pub vertices: u32,
    /// Number of edges that are kept.
    pub edges: u64,
    /// The graph was in memory throughout.
    pub in_memory: bool,
    /// Number of intervals and chunks.
    pub windows: (usize, usize),
    /// The graph was prepared by an earlier run.
    pub reopened: bool,
    /// Number of iterations or rounds.
    pub iterations: u32,
    /// Sum of the changes in PageRank's last iteration.
    pub change: Option<f64>,
    /// Damaged iterations of an earlier run were discarded and computed anew.
    pub dropped: bool,
    /// Number of components, reachable vertices or triangles.
    pub count: Option<u64>,
    /// Seconds of reading, preparing and computing.
    pub seconds: [f64; 3],
    /// Bytes written to the work directory and read from it.
    pub moved_bytes: (u64, u64),
}

/// Callback for each phase; it can cancel the run.
type Look<'a> = &'a mut dyn FnMut(Phase) -> ControlFlow<()>;

/// A run.
#[derive(Debug)]
pub struct Job {
    config: Config,
    store: Option<FileStore>,
    outcome: Outcome,
}

impl Job {
    /// Creates a run, and opens its work directory if that exists.
    pub fn new(config: Config) -> Result<Job, JobError> {
        let mut job = Job { config, store: None, outcome: Outcome::default() };
        if job.config.work.exists() {
            job.store = Some(job.open()?);
        }
        Ok(job)
    }

    fn open(&self) -> Result<FileStore, JobError> {
        FileStore::open(&self.config.work).map_err(JobError::Work)
    }

    /// Runs the program. Returns the result and either the largest values of vertices or the largest
    /// components, named by their smallest vertices. `input` is opened only if the work directory does not
    /// hold the graph.
    pub fn run(
        mut self,
        input: impl FnOnce(Wanted) -> Result<Input, InputError>,
        mut output: Output,
        look: Look<'_>,
    ) -> Result<(Outcome, Vec<(u32, f64)>), JobError> {
        let result = self.work(input, &mut output, look);
        let result = result.and_then(|outcome| Ok((outcome, output.finish()?)));
        let result = result.map_err(|error| self.with_place(error));
        match &mut self.store {
            // The prepared graph stays for the next run.
            Some(store) if result.is_err() => {
                let damaged = matches!(result, Err(JobError::Damaged { .. }));
                let useless = damaged || matches!(result, Err(JobError::Empty));
                if useless || store.bytes(Segment::Plan).is_none() {
                    // A directory to keep stays, without the damaged segments.
                    store
                        .clear(!(damaged && self.config.keep))
                        .map_err(|error| JobError::Work(error.to_string()))
                        .and(result)
                } else {
                    result
                }
            }
            Some(store) if !self.config.keep => {
                store.clear(true).map_err(|error| JobError::Work(error.to_string()))?;
                result
            }
            _ => result,
        }
    }

    /// Adds the work directory to an error about damage.
    fn with_place(&self, error: JobError) -> JobError {
        match error {
            JobError::Store(why @ StoreError::Damaged { .. })
            | JobError::Prepare(PrepareError::Store(why @ StoreError::Damaged { .. })) => {
                JobError::Damaged { work: self.config.work.clone(), why }
            }
            error => error,
        }
    }

    fn work(
        &mut self,
        input: impl FnOnce(Wanted) -> Result<Input, InputError>,
        output: &mut Output,
        look: Look<'_>,
    ) -> Result<Outcome, JobError> {
        let grid = match self.reopened()? {
            Some(grid) => grid,
            None => self.prepare(input, look)?,
        };
        if grid.plan.vertices == 0 {
            return Err(JobError::Empty);
        }
        output.number_from(grid.plan.first);
        self.outcome.vertices = grid.plan.vertices;
        self.outcome.edges = grid.plan.edges;
        self.outcome.in_memory = grid.resident.is_some();
        self.outcome.windows = (grid.plan.interval_count(), grid.plan.chunk_count());
        let began = Instant::now();
        match &mut self.store {
            Some(store) => compute(&self.config, &grid, store, output, look, &mut self.outcome)?,
            None => {
                compute_in(&self.config, &grid, &mut Memory::default(), output, look, &mut self.outcome)?;
            }
        }
        self.outcome.seconds[2] = began.elapsed().as_secs_f64();
        self.outcome.moved_bytes = self.store.as_ref().map_or((0, 0), FileStore::moved_bytes);
        Ok(self.outcome.clone())
    }

    fn reopened(&mut self) -> Result<Option<Grid>, JobError> {
        let Some(store) = &mut self.store else { return Ok(None) };
        let found = reopen(store, self.config.origin)?;
        match &found {
            Some(_) => self.outcome.reopened = true,
            None => store.clear(false).map_err(|error| JobError::Work(error.to_string()))?,
        }
        Ok(found)
    }

    /// Reads and orders the edges.
    fn prepare(
        &mut self,
        input: impl FnOnce(Wanted) -> Result<Input, InputError>,
        look: Look<'_>,
    ) -> Result<Grid, JobError> {
        let began = Instant::now();
        let asked = Asked {
            mapped: self.config.storage == Storage::Mapped,
            origin: self.config.origin,
            ..self.config.program.asked(self.config.memory_bytes)
        };
        let mut input = input(Wanted {
            shape: asked.shape,
            weighted: asked.weighted,
            threads: self.config.threads,
            memory_bytes: self.config.memory_bytes / 8,
        })?;
        let mut intake = Intake::new(asked);
        // The number of edges is unknown in advance, so the directory is created with the first segment that
        // does not fit.
        let mut store = Late { config: &self.config, store: &mut self.store };
        intake.number_from(input.first());
        while let Some(chunk) = input.take()? {
            intake.see(input.vertices());
            intake.push(&mut store, chunk)?;
            if look(Phase::Read(intake.edges())).is_break() {
                return Err(JobError::Interrupted);
            }
        }
        drop(input);
        self.outcome.seconds[0] = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let mut preparing = intake.finish(&mut store)?;
        while let Some(share) = preparing.step(&mut store)? {
            if look(Phase::Prepare(share)).is_break() {
                return Err(JobError::Interrupted);
            }
        }
        let grid = preparing.finish(&mut store, &Threads(self.config.threads));
        self.outcome.seconds[1] = began.elapsed().as_secs_f64();
        Ok(grid)
    }
}

fn compute(
    config: &Config,
    grid: &Grid,
    store: &mut FileStore,
    output: &mut Output,
    look: Look<'_>,
    outcome: &mut Outcome,
) -> Result<(), JobError> {
    let (Storage::Mapped, Program::PageRank(rank)) = (config.storage, &config.program) else {
        return compute_in(config, grid, store, output, look, outcome);
    };
    let mut stopped = false;
    let of = u64::from(rank.iterations);
    let (ranks, iterations, change) = mapped::ranks(grid, store, rank, Threads(config.threads), |at| {
        stopped |= look(Phase::Compute(Share { done: u64::from(at), of }, at)).is_break();
    })?;
    if stopped {
        return Err(JobError::Interrupted);
    }
    for (vertex, rank) in (0..).zip(ranks) {
        output.row(vertex, Row::Real(rank))?;
    }
    (outcome.iterations, outcome.change) = (iterations, Some(change));
    Ok(())
}

fn compute_in<S: Store>(
    config: &Config,
    grid: &Grid,
    store: &mut S,
    output: &mut Output,
    look: Look<'_>,
    outcome: &mut Outcome,
) -> Result<(), JobError> {
    let workers = Threads(config.threads);
    // Each edge of a block takes a word and its bytes, one block ahead.
    let block_edges = (config.memory_bytes / 128).clamp(1 << 10, 1 << 20) as usize;
    let mut see = |share, rounds| match look(Phase::Compute(share, rounds)) {
        ControlFlow::Break(()) => Err(JobError::Interrupted),
        ControlFlow::Continue(()) => Ok(()),
    };
    let mut computing = Computing::new(&config.program, grid, store, block_edges)?;
    while let Some(share) = computing.step(grid, store, &workers)? {
        see(share, computing.rounds())?;
    }
    match computing {
        Computing::PageRank(mut rank) => {
            (outcome.iterations, outcome.change) = (rank.iteration(), Some(rank.last_change()));
            outcome.dropped = rank.has_dropped();
            rank.ranks(grid, store, |first, ranks| {
                for (vertex, &rank) in (first..).zip(ranks) {
                    output.row(vertex, Row::Real(rank))?;
                }
                Ok::<_, JobError>(())
            })
        }
        Computing::Components(components) => {
            let labels = components.finish();
            outcome.count =
                Some((0..).zip(&labels).filter(|(vertex, label)| *vertex == **label).count() as u64);
            for (vertex, &label) in (0..).zip(&labels) {
                output.write(vertex, Row::Whole(grid.plan.first + label))?;
            }
            for (vertex, size) in (0..).zip(components::sizes(labels)).filter(|&(_, size)| size > 0) {
                output.rank(vertex, size.into());
            }
            Ok(())
        }
        Computing::Bfs(traverse) => rows(&distances(traverse, outcome), Row::Whole, output),
        Computing::Sssp(traverse) => rows(&distances(traverse, outcome), Row::Real, output),
        Computing::Triangles(triangles) => {
            outcome.count = Some(triangles.count());
            Ok(())
        }
    }
}

/// Takes the distance of each vertex, and counts those that can be reached.
fn distances<D: Distance>(traverse: Traverse<D>, outcome: &mut Outcome) -> Vec<D> {
    outcome.iterations = traverse.rounds();
    let distances = traverse.finish();
    outcome.count = Some(distances.iter().filter(|&&distance| distance < D::UNREACHED).count() as u64);
    distances
}

fn rows<D: Distance>(distances: &[D], row: impl Fn(D) -> Row, output: &mut Output) -> Result<(), JobError> {
    for (vertex, &distance) in (0..).zip(distances) {
        let reached = distance < D::UNREACHED;
        output.row(vertex, if reached { row(distance) } else { Row::None })?;
    }
    Ok(())
}

/// Work directory that is created with its first segment.
struct Late<'a> {
    config: &'a Config,
    store: &'a mut Option<FileStore>,
}

impl Late<'_> {
    fn get(&mut self, segment: Segment) -> Result<&mut FileStore, StoreError> {
        if self.store.is_none() {
            let opened = FileStore::open(&self.config.work);
            *self.store = Some(opened.map_err(|why| StoreError::Failed { segment, why })?);
        }
        Ok(self.store.as_mut().expect("it was opened"))
    }
}

impl Store for Late<'_> {
    fn create(&mut self, segment: Segment) -> Result<(), StoreError> {
        self.get(segment)?.create(segment)
    }
    fn append(&mut self, segment: Segment, data: &[u8]) -> Result<(), StoreError> {
        self.get(segment)?.append(segment, data)
    }
    fn seal(&mut self, segment: Segment) -> Result<(), StoreError> {
        self.get(segment)?.seal(segment)
    }
    fn bytes(&self, segment: Segment) -> Option<u64> {
        self.store.as_ref()?.bytes(segment)
    }
    fn read(&mut self, segment: Segment, at: u64, into: &mut [u8]) -> Result<(), StoreError> {
        self.get(segment)?.read(segment, at, into)
    }
    fn will_read(&mut self, segment: Segment, at: u64, bytes: u64) {
        if let Some(store) = self.store.as_mut() {
            store.will_read(segment, at, bytes);
        }
    }
    fn remove(&mut self, segment: Segment) -> Result<(), StoreError> {
        self.get(segment)?.remove(segment)
    }
    fn replace(&mut self, segment: Segment, data: &[u8]) -> Result<(), StoreError> {
        self.get(segment)?.replace(segment, data)
    }
}
