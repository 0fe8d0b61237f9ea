//! The graph engine on real files: threads, clocks and files around `pellucid_graph`, which has none.
//!
//! ```text
//!   input (bytes, or columns of Parquet) ─► Job ─► Output: rows to a file, the largest to the screen
//!                                            ├ FileStore: a directory, where not everything fits into memory
//!                                            └ Threads
//! ```

mod allocator;
mod files;
mod input;
mod job;
mod mapped;
mod output;
mod sums;
mod tables;
mod threads;

pub use allocator::keep_little;
pub use files::FileStore;
pub use input::{Input, InputError, Wanted};
pub use job::{Config, Job, JobError, Outcome, Phase, Storage};
pub use output::{Complete, Output, OutputError, Row, RowFormat, Target, is_result};
pub use pellucid_graph::program::Program;
pub use threads::Threads;

/// Memory of a run that is not counted: the code, the stacks of threads, and memory that the allocator keeps.
pub const OWN_BYTES: u64 = 16 << 20;
