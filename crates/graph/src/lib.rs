//! An out-of-core graph engine: PageRank, connected components, breadth-first search, shortest paths and triangles on graphs larger than
//! the memory that it may use.
//!
//! ```text
//!   bytes ─► EdgeReader ─► Intake ─► Preparing ─► Grid ─► PageRank | Components | Traverse | Triangles ─► values
//!             (text)         └──────(prepare)──────┘ └ Store: segments in files, on a drive, in memory
//! ```
//! The edges of a graph lie in windows ([`grid`]) that are written once and then streamed. Only the values of vertices change, and each
//! iteration writes them anew. A drive therefore sees large sequential writes that die together, and erases whole blocks. Programs advance step
//! by step: the caller can show progress, stop between two steps, and resume from the store. A graph that fits into memory never touches the
//! store.
//!
//! The method is GraphChi's parallel sliding windows, as the flash library's paper uses them (section VI-C): a shard is the row of windows of
//! one interval. Values are kept with the vertices rather than with the edges, so shards never change.
//!
//! Invariant: a result depends on the graph and the program alone, not on memory, threads, or an interruption between two steps.

pub mod components;
pub mod drive;
pub mod edges;
pub mod generate;
pub mod grid;
pub mod pagerank;
pub mod prepare;
pub mod program;
pub mod store;
pub mod text;
pub mod traverse;
pub mod triangles;
pub mod workers;

#[cfg(test)]
mod tests;
