//! A common interface to all programs: requirements, steps and results.
//!
//! ```text
//!   Program ─► asked ─► Intake ─► ... ─► Grid ─► Computing::new ─► step ... step ─► values, which differ in kind
//! ```

use crate::components::{self, Components};
use crate::edges::Key;
use crate::grid::Grid;
use crate::pagerank::{self, PageRank, PageRankConfig};
use crate::prepare::{Asked, Shape, Share};
use crate::store::{Store, StoreError};
use crate::traverse::{Distance, Traverse};
use crate::triangles::{self, Triangles};
use crate::workers::Workers;
use thiserror::Error;

/// Program to run.
#[derive(Clone, Debug, PartialEq)]
pub enum Program {
    /// PageRank of each vertex.
    PageRank(PageRankConfig),
    /// Connected components; each is named by its smallest vertex.
    Components,
    /// Distances from a vertex, in edges.
    Bfs(u32),
    /// Distances from a vertex, as sums of weights.
    Sssp(u32),
    /// Number of triangles.
    Triangles,
}

impl Program {
    /// Reports whether the program uses weights.
    pub fn is_weighted(&self) -> bool {
        matches!(self, Program::Sssp(_))
    }

    /// Names that [`Program::column`] returns.
    pub const COLUMNS: [&str; 3] = ["rank", "component", "distance"];

    /// Returns the name of the result column and whether its values are integers; `None` if the program writes no rows.
    pub fn column(&self) -> Option<(&'static str, bool)> {
        match self {
            Program::PageRank(_) => Some(("rank", false)),
            Program::Components => Some(("component", true)),
            Program::Bfs(_) => Some(("distance", true)),
            Program::Sssp(_) => Some(("distance", false)),
            Program::Triangles => None,
        }
    }

    /// Returns the program's requirements for this much memory, in bytes.
    pub fn asked(&self, memory_bytes: u64) -> Asked {
        let (shape, vertex_bytes) = match self {
            Program::PageRank(_) => (Shape::All(Key::To), pagerank::VERTEX_BYTES),
            Program::Components => (Shape::All(Key::From), components::VERTEX_BYTES),
            Program::Bfs(_) => (Shape::All(Key::From), u32::VERTEX_BYTES),
            Program::Sssp(_) => (Shape::All(Key::From), f64::VERTEX_BYTES),
            Program::Triangles => (Shape::Simple, triangles::VERTEX_BYTES),
        };
        Asked {
            shape,
            weighted: self.is_weighted(),
            degrees: matches!(self, Program::PageRank(_)),
            memory_bytes,
            vertex_bytes,
            chunked: matches!(self, Program::PageRank(_)),
            vertices: 0,
            mapped: false,
            origin: 0,
        }
    }
}

/// The source vertex is not in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("vertex {source_vertex} is not in the graph, which has {vertices}, from {first} on")]
pub struct SourceError {
    /// Source vertex that the caller asked for.
    pub source_vertex: u32,
    /// Number of vertices in the graph.
    pub vertices: u32,
    /// Number of vertex 0 in the input.
    pub first: u32,
}

/// Reason why a computation cannot begin.
#[derive(Debug, Error)]
pub enum BeginError {
    /// The source vertex is not in the graph.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A running program.
#[derive(Clone, Debug)]
pub enum Computing {
    /// PageRank.
    PageRank(PageRank),
    /// Connected components.
    Components(Components),
    /// Distances in edges.
    Bfs(Traverse<u32>),
    /// Distances by weights.
    Sssp(Traverse<f64>),
    /// Triangles.
    Triangles(Triangles),
}

impl Computing {
    /// Prepares the first step; PageRank continues after the last iteration in the store.
    ///
    /// # Errors
    /// The source vertex is not in the graph, or the store could not be read.
    pub fn new<S: Store>(
        program: &Program,
        grid: &Grid,
        store: &mut S,
        block_edges: usize,
    ) -> Result<Computing, BeginError> {
        let source = |source_vertex: u32| {
            let (vertices, first) = (grid.plan.vertices, grid.plan.first);
            let source = source_vertex.checked_sub(first).filter(|&source| source < vertices);
            source.ok_or(SourceError { source_vertex, vertices, first })
        };
        Ok(match program {
            Program::PageRank(config) => {
                Computing::PageRank(PageRank::new(grid, store, config.clone(), block_edges)?)
            }
            Program::Components => Computing::Components(Components::new(grid, block_edges)),
            Program::Bfs(from) => Computing::Bfs(Traverse::new(grid, source(*from)?, block_edges)),
            Program::Sssp(from) => Computing::Sssp(Traverse::new(grid, source(*from)?, block_edges)),
            Program::Triangles => Computing::Triangles(Triangles::new()),
        })
    }

    /// Does the next step; `None`: the values are complete.
    ///
    /// # Errors
    /// The store could not be read or written.
    pub fn step<S: Store>(
        &mut self,
        grid: &Grid,
        store: &mut S,
        workers: &impl Workers,
    ) -> Result<Option<Share>, StoreError> {
        match self {
            Computing::PageRank(rank) => rank.step(grid, store, workers),
            Computing::Components(components) => components.step(grid, store),
            Computing::Bfs(traverse) => traverse.step(grid, store),
            Computing::Sssp(traverse) => traverse.step(grid, store),
            Computing::Triangles(triangles) => triangles.step(grid, store, workers),
        }
    }

    /// Number of complete iterations or rounds; 1 for single-pass programs.
    pub fn rounds(&self) -> u32 {
        match self {
            Computing::PageRank(rank) => rank.iteration(),
            Computing::Bfs(traverse) => traverse.rounds(),
            Computing::Sssp(traverse) => traverse.rounds(),
            Computing::Components(_) | Computing::Triangles(_) => 1,
        }
    }
}
