//! An out-of-core graph engine: PageRank, connected components, breadth-first search, shortest paths and triangles on graphs larger than
//! the memory that it is allowed.
//!
//! ```text
//!   bytes ─► EdgeReader ─► Intake ─► Preparing ─► Grid ─► PageRank | Components | Traverse | Triangles ─► values
//!             (text)         └──────(prepare)──────┘ └ Store: segments on files, on a drive, in memory
//! ```
//! The edges of a graph lie in windows ([`grid`]) that are written once and then streamed; what changes are values of vertices, which
//! are written anew for each iteration. Programs go on step by step, so that the caller can show how far they are, stop between two steps,
//! and start again from the store. A graph that fits into memory never touches the store.
//!
//! After GraphChi's parallel sliding windows (as the flash library's paper has them, section VI-C): a shard is the row of windows of one
//! interval. Values are kept with the vertices rather than with the edges, so that shards never change.

pub mod components;
pub mod drive;
pub mod edges;
pub mod grid;
pub mod pagerank;
pub mod prepare;
pub mod store;
pub mod text;
pub mod traverse;
pub mod triangles;
pub mod workers;

#[cfg(test)]
mod tests;
