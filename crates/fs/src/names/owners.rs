//! The owner of each name: runs of names that belong to runs of blocks of a file.
//!
//! An operation may take a name from a block and give it back repeatedly: owners change when it is done. Invariant: between operations a name has at
//! most one owner.

use crate::key::EXTENT_BLOCKS_MAX;
use crate::types::Ino;
use std::collections::BTreeMap;

/// A block of a file.
pub(crate) type Owner = (Ino, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    count: u64,
    ino: Ino,
    /// Block of the first name.
    block: u64,
}

/// A map from names to blocks of files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners {
    /// By first name.
    runs: BTreeMap<u64, Run>,
    names: u64,
    /// True after the mount.
    is_used: bool,
    /// Changes of owners in the current operation: the balance of gifts and takes per name.
    delta: BTreeMap<u64, (i32, Owner)>,
}

impl Owners {
    /// Number of names that belong to a file.
    pub fn len(&self) -> u64 {
        self.names
    }

    /// Starts counting changes, after a mount or format.
    pub fn begin_use(&mut self) {
        self.is_used = true;
    }

    /// Notes that an extent gives a name to a block, or takes it away.
    pub fn note(&mut self, name: u64, owner: Owner, lives: bool) {
        let (count, of) = self.delta.entry(name).or_insert((0, owner));
        *count += if lives { 1 } else { -1 };
        if lives {
            *of = owner;
        }
    }

    /// Applies the ownership changes of a completed operation, up to the first name that loses its last owner. Returns that name and its
    /// previous owner.
    #[inline]
    pub fn next_ended(&mut self) -> Option<(u64, Option<Owner>)> {
        if self.delta.is_empty() { None } else { self.next_change_that_ends() }
    }

    fn next_change_that_ends(&mut self) -> Option<(u64, Option<Owner>)> {
        if !self.is_used {
            // A mount reads them after everything is applied.
            self.delta.clear();
        }
        while let Some((name, (count, owner))) = self.delta.pop_first() {
            let before = if count == 0 { None } else { self.remove(name) };
            match count {
                0 => {}
                1.. => self.insert(name, owner),
                _ => return Some((name, before)),
            }
        }
        None
    }

    fn run_of(&self, name: u64) -> Option<(u64, Run)> {
        let (&first, &run) = self.runs.range(..=name).next_back()?;
        (name - first < run.count).then_some((first, run))
    }

    pub fn get(&self, name: u64) -> Option<Owner> {
        let (first, run) = self.run_of(name)?;
        Some((run.ino, run.block + (name - first)))
    }

    /// Gives an unowned name to a block.
    pub fn insert(&mut self, name: u64, (ino, block): Owner) {
        debug_assert_eq!(self.get(name), None, "a name has one owner");
        self.names += 1;
        let mut run = Run { count: 1, ino, block };
        let mut first = name;
        if let Some(next) = self.runs.get(&(name + 1)).copied()
            && next.ino == ino
            && next.block == block + 1
        {
            self.runs.remove(&(name + 1));
            run.count += next.count;
        }
        let before = name.checked_sub(1).and_then(|before| self.run_of(before));
        if let Some((start, before)) = before
            && before.ino == ino
            && before.block + before.count == block
        {
            first = start;
            run = Run { count: before.count + run.count, ..before };
        }
        self.runs.insert(first, run);
    }

    /// Takes a name from its block.
    pub fn remove(&mut self, name: u64) -> Option<Owner> {
        let (first, run) = self.run_of(name)?;
        let before = name - first;
        let behind = run.count - before - 1;
        match before {
            0 => _ = self.runs.remove(&first),
            _ => _ = self.runs.insert(first, Run { count: before, ..run }),
        }
        if behind > 0 {
            let rest = Run { count: behind, block: run.block + before + 1, ..run };
            self.runs.insert(name + 1, rest);
        }
        self.names -= 1;
        Some((run.ino, run.block + before))
    }
}

/// Joins consecutive blocks of a file whose names are also consecutive, up to the size of an extent.
pub(crate) fn runs(blocks: impl Iterator<Item = (Owner, u64)>) -> Vec<(Owner, u64, u64)> {
    let mut runs: Vec<(Owner, u64, u64)> = Vec::new();
    for ((ino, block), name) in blocks {
        match runs.last_mut() {
            Some(((of, first), start, count))
                if *of == ino
                    && *first + *count == block
                    && *start + *count == name
                    && *count < EXTENT_BLOCKS_MAX =>
            {
                *count += 1;
            }
            _ => runs.push(((ino, block), name, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;
    use std::collections::btree_map::Entry;

    #[test]
    fn it_does_what_a_map_does() {
        let (mut owners, mut map, mut rng) = (Owners::default(), BTreeMap::new(), Rng::new(3));
        for _ in 0..50_000 {
            let name = rng.below(40);
            if rng.chance(0.5) {
                assert_eq!(owners.remove(name), map.remove(&name));
            } else if let Entry::Vacant(vacant) = map.entry(name) {
                // Mostly in the order of writes: consecutive blocks have consecutive names.
                let owner = (Ino(1 + rng.below(2)), if rng.chance(0.8) { name + 7 } else { rng.below(9) });
                owners.insert(name, owner);
                vacant.insert(owner);
            }
            let other = rng.below(41);
            assert_eq!(owners.get(other), map.get(&other).copied());
            assert_eq!(owners.len(), map.len() as u64);
        }
        assert!(owners.runs.len() < map.len(), "runs were joined");
    }
}
