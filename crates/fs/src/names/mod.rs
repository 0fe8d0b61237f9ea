//! Named data: on a drive of nameless writes, only metadata have addresses chosen by the file system.
//!
//! ```text
//!   dirty pages ─► nameless writes ─► names ─► extents ─► flush ─► the commit, in the log ─► flush ─► names that it dropped are freed
//!   a move told ─► extents ─► a record in the log ─► flush ─► acknowledged
//! ```
//! The log, with nodes and entries, lies in the virtual address space of the drive; the drive places data blocks, and the extents of an inode hold
//! their names. Invariants:
//!
//! - A commit is logged after the data that it names are durable, so a mount never finds a name without data. While the pages of a commit are being
//!   named, no page becomes dirty.
//! - A name is freed when a commit that drops it is durable, and a move is acknowledged when its record is. The record replaces the old name of a
//!   file's block by the new one. It applies to the durable state, independent of changes in memory since, so moves are acknowledged even while the
//!   drive makes nameless writes wait.
//! - A mount asks the drive for the present name of every name, and frees names that no file has.
//!
//! The owner of a name (`owners.rs`) is known only in memory: a mount reads all extents.

mod frees;
mod moves;
mod naming;
mod owners;

pub(crate) use frees::Frees;
pub(crate) use moves::Moves;
pub(crate) use naming::Naming;
pub(crate) use owners::{Owner, Owners, runs};

/// All names, including those being given or freed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub owners: Owners,
    pub naming: Naming,
    pub moves: Moves,
    pub frees: Frees,
}

impl Names {
    /// Number of names that the drive counts, or is about to.
    pub fn taken(&self) -> u64 {
        self.owners.len() + (self.frees.len() + self.naming.len()) as u64
    }

    /// Returns whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.frees.is_idle() && self.naming.is_idle() && self.moves.is_idle()
    }

    /// Reports whether a job asked for names or moves.
    pub fn is_asked(&self, id: u64) -> bool {
        self.naming.is_asked(id) || self.moves.is_asked(id)
    }

    /// Reports whether pending acknowledgements or frees may release space.
    pub fn acknowledges(&self) -> bool {
        self.moves.acknowledges() || self.frees.is_under_way()
    }

    /// Notes that everything up to a batch is durable.
    pub fn durable(&mut self, through: u64) {
        self.moves.durable(through);
        self.frees.durable(through);
    }

    /// Reports whether a flush is wanted if all batches up to `through` are written: for data, or (in a log without a hole) for records.
    pub fn wants_flush(&self, through: u64, hole: bool) -> bool {
        self.naming.wants_flush()
            || (!hole && (self.moves.wants_flush(through) || self.frees.wants_flush(through)))
    }
}
