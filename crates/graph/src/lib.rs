//! An out-of-core graph engine: PageRank, connected components, breadth-first search, shortest paths and triangles on graphs larger than the allowed
//! memory.
//!
//! ```text
//!   bytes ─► EdgeReader ─► Intake ─► Preparing ─► Grid ─► PageRank | Components | Traverse | Triangles ─► values
//!             (text)         └──────(prepare)──────┘ └ Store: segments in files, on a drive, in memory
//! ```
//! The edges of a graph lie in windows ([`grid`]) that are written once and then streamed. Only the values of vertices change, and each iteration
//! writes them anew. So a drive sees large sequential writes that die together, and erases whole blocks. Programs advance step by step: the caller
//! can show progress, stop between two steps, and resume from the store. A graph that fits into memory never touches the store.
//!
//! The method is GraphChi's parallel sliding windows, as used in the flash library's paper (section VI-C): a shard is the row of windows of one
//! interval. Values belong to vertices rather than to edges, so shards never change.
//!
//! Invariant: a result depends only on the graph and the program, not on memory, threads, or interruptions between steps.

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
