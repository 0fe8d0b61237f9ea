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

    /// Where the operation of a tag goes.
    pub fn namespace(&self, tag: u32) -> usize {
        self.pending[tag as usize].namespace
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
