//! Data behind names: on a drive of nameless writes only metadata have addresses of the file system's choice.
//!
//! ```text
//!   dirty pages ─► nameless writes ─► names ─► extents ─► flush ─► the commit, in the log ─► flush ─► names that it dropped are freed
//!   a move told ─► extents ─► a record in the log ─► flush ─► acknowledged
//! ```
//! The log, with nodes and entries, lies in the virtual address space of the drive; the drive places data blocks, and the extent of
//! an inode has their names. Invariants:
//!
//! - A commit goes to the log when the data that it names are durable, so a mount never finds a name without data. While the pages of a commit
//!   are being named, nothing makes a page dirty.
//! - A name is freed when a commit that drops it is durable, and a move is acknowledged when its record is. The record replaces the old name of a
//!   file's block by the new one. It applies to the durable state, whatever has changed in memory meanwhile, so moves are acknowledged even
//!   while the drive makes nameless writes wait.
//! - A mount asks the drive for the present name of every name, and frees the names that no file has.
//!
//! The owner of a name (`owners.rs`) is known in memory only: a mount reads all extents.

mod frees;
mod moves;
mod naming;
mod owners;

pub(crate) use frees::Frees;
pub(crate) use moves::Moves;
pub(crate) use naming::Naming;
pub(crate) use owners::{Owner, Owners, runs};

/// Names, and what is on its way to become one or to end as one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub owners: Owners,
    pub naming: Naming,
    pub moves: Moves,
    pub frees: Frees,
}

impl Names {
    /// Names that the drive counts, or is about to.
    pub fn taken(&self) -> u64 {
        self.owners.len() + (self.frees.len() + self.naming.len()) as u64
    }

    /// Returns whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.frees.is_idle() && self.naming.is_idle() && self.moves.is_idle()
    }

    /// Returns whether names or moves were asked by a job.
    pub fn is_asked(&self, id: u64) -> bool {
        self.naming.is_asked(id) || self.moves.is_asked(id)
    }

    /// Returns whether names still to be acknowledged or freed may release space.
    pub fn acknowledges(&self) -> bool {
        self.moves.acknowledges() || self.frees.is_under_way()
    }

    /// Everything up to a batch is durable.
    pub fn durable(&mut self, through: u64) {
        self.moves.durable(through);
        self.frees.durable(through);
    }

    /// Returns whether a flush is wanted, when all batches up to `through` are written: of data, or (in a log without a hole) of records.
    pub fn wants_flush(&self, through: u64, hole: bool) -> bool {
        self.naming.wants_flush()
            || (!hole && (self.moves.wants_flush(through) || self.frees.wants_flush(through)))
    }
}
