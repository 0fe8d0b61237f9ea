//! Files with something still to free, and files held open.
//!
//! ```text
//!   unlinked ─► to remove ─► (released by all who hold it) ─► removed step by step ─► gone
//!   cut      ─► to cut    ─► blocks beyond the end freed step by step ─► whole
//! ```
//! The catalog has both lists, too (`Key::orphan`), so that a mount finds them again; this is the copy in memory.

use crate::types::Ino;
use std::collections::{BTreeMap, BTreeSet};

/// The next thing to free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freeing {
    /// Unlinked file that is not open.
    File(Ino),
    /// Blocks beyond the end of a file.
    Blocks(Ino),
}

/// Files with something still to free, and held files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orphans {
    /// Number of holds of each file.
    held: BTreeMap<Ino, u32>,
    /// Files without a name.
    unnamed: BTreeSet<Ino>,
    /// Files with blocks beyond their end.
    cut: BTreeSet<Ino>,
}

impl Orphans {
    /// Holds a file: it stays, even without a name, until it is released as often.
    pub fn hold(&mut self, ino: Ino) {
        *self.held.entry(ino).or_default() += 1;
    }

    /// Releases a file; true: it is no longer open.
    pub fn release(&mut self, ino: Ino) -> bool {
        let Some(count) = self.held.get_mut(&ino) else { return false };
        *count -= 1;
        let last = *count == 0;
        if last {
            self.held.remove(&ino);
        }
        last
    }

    /// Notes that a file has lost its last name.
    pub fn add_unnamed(&mut self, ino: Ino) {
        self.unnamed.insert(ino);
    }

    /// Notes that a file has blocks beyond its end.
    pub fn add_cut(&mut self, ino: Ino) {
        self.cut.insert(ino);
    }

    /// Returns whether a file has blocks beyond its end.
    pub fn is_cut(&self, ino: Ino) -> bool {
        self.cut.contains(&ino)
    }

    /// Notes that a file has no blocks beyond its end.
    pub fn cut_ended(&mut self, ino: Ino) {
        self.cut.remove(&ino);
    }

    /// Notes that a file is removed.
    pub fn gone(&mut self, ino: Ino) {
        self.unnamed.remove(&ino);
        self.cut.remove(&ino);
    }

    /// Returns the next thing that can be freed: files first.
    pub fn next(&self) -> Option<Freeing> {
        let file = self.unnamed.iter().find(|ino| !self.held.contains_key(ino)).copied();
        file.map(Freeing::File).or_else(|| self.cut.first().copied().map(Freeing::Blocks))
    }

    /// Number of files with something to free, now or after their release.
    pub fn count(&self) -> usize {
        self.unnamed.len() + self.cut.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_file_stays_until_its_last_release() {
        let mut orphans = Orphans::default();
        assert_eq!((orphans.next(), orphans.release(Ino(3))), (None, false));
        orphans.hold(Ino(3));
        orphans.hold(Ino(3));
        orphans.add_unnamed(Ino(3));
        orphans.add_cut(Ino(7));
        assert_eq!((orphans.next(), orphans.count()), (Some(Freeing::Blocks(Ino(7))), 2));
        assert!(!orphans.release(Ino(3)));
        assert_eq!(orphans.next(), Some(Freeing::Blocks(Ino(7))));
        assert!(orphans.release(Ino(3)));
        assert_eq!(orphans.next(), Some(Freeing::File(Ino(3))));
        orphans.gone(Ino(3));
        assert!(orphans.is_cut(Ino(7)));
        orphans.cut_ended(Ino(7));
        assert_eq!((orphans.next(), orphans.count()), (None, 0));
    }
}
