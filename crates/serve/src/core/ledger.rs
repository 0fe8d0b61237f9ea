//! Whose operation is whose.
//!
//! Invariants: a tag is in use from [`Ledger::enter`] to [`Ledger::leave`], and is the drive's name for the operation in between; `bytes`
//! is the sum of the data of all that are in use. Tags are used again, so that there are never more than operations at one time.

use super::Route;

/// An operation in a drive.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub route: Route,
    pub namespace: usize,
    /// Of the data it was submitted with.
    pub bytes: usize,
    /// What it counts at the [door](super::door) while it is inside; 0: it is not, or went past it.
    pub inside: usize,
}

/// The operations in the drives.
#[derive(Default)]
pub(super) struct Ledger {
    pending: Vec<Pending>,
    idle: Vec<u32>,
    bytes: usize,
}

impl Ledger {
    /// Takes an operation in and gives it its tag.
    #[inline]
    pub fn enter(&mut self, pending: Pending) -> u32 {
        self.bytes += pending.bytes;
        match self.idle.pop() {
            Some(tag) => {
                self.pending[tag as usize] = pending;
                tag
            }
            None => {
                self.pending.push(pending);
                self.pending.len() as u32 - 1
            }
        }
    }

    /// The operation of a tag.
    #[inline]
    pub fn of(&self, tag: u32) -> &Pending {
        &self.pending[tag as usize]
    }

    /// The operation of a tag goes into its drive through the door, where it counts so much.
    #[inline]
    pub fn enters(&mut self, tag: u32, cost: usize) {
        self.pending[tag as usize].inside = cost;
    }

    /// It has come out of the drive; what it counted.
    #[inline]
    pub fn leaves(&mut self, tag: u32) -> usize {
        std::mem::take(&mut self.pending[tag as usize].inside)
    }

    /// The operation of a tag has ended.
    #[inline]
    pub fn leave(&mut self, tag: u32) -> Pending {
        let pending = self.pending[tag as usize];
        self.idle.push(tag);
        self.bytes -= pending.bytes;
        pending
    }

    /// Operations in the drives.
    pub fn outstanding(&self) -> usize {
        self.pending.len() - self.idle.len()
    }

    /// Bytes of their data.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
