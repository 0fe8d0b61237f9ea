//! Copies that are no longer needed, until the caller takes them: no later read goes there.

use crate::translation::Outdated;
use pellucid_flash::Ppa;

/// Invalidated copies not taken by the caller yet. Invariant: empty, unless the caller takes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutdatedCopies {
    copies: Vec<(Ppa, Outdated)>,
    taken: bool,
}

impl OutdatedCopies {
    /// Sets whether the caller takes the copies.
    pub fn set_taken(&mut self, taken: bool) {
        self.taken = taken;
    }

    /// Notes a copy that has become invalid for this reason.
    #[inline]
    pub fn note(&mut self, ppa: Ppa, why: Outdated) {
        if self.taken {
            self.copies.push((ppa, why));
        }
    }

    /// Takes the copies since the last call.
    #[inline]
    pub fn take(&mut self) -> Option<std::vec::Drain<'_, (Ppa, Outdated)>> {
        if self.copies.is_empty() { None } else { Some(self.copies.drain(..)) }
    }
}
