//! Files of the set: existence, lengths, and the choice of the next one.
//!
//! Invariant: an open file is busy, and not picked.

use crate::files::Picks;
use pellucid_flash::Rng;

/// A file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct File {
    bytes: u64,
    /// Size after a whole write.
    wanted_bytes: u64,
    exists: bool,
    busy: bool,
    /// Transaction of the last change.
    transaction: u64,
}

impl File {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Size after a whole write.
    pub fn wanted_bytes(&self) -> u64 {
        self.wanted_bytes
    }

    /// Transaction of the last change.
    pub fn transaction(&self) -> u64 {
        self.transaction
    }
}

/// Files of the set.
#[derive(Clone, Debug)]
pub(super) struct FileSet {
    files: Vec<File>,
    /// Positions of the shared rotations over existing and over missing files.
    rotor: u32,
    free_rotor: u32,
}

impl FileSet {
    /// Creates a set with files of these sizes, none of which exists yet.
    pub fn new(wanted_bytes: impl Iterator<Item = u64>) -> FileSet {
        let files = wanted_bytes.map(|wanted_bytes| File { wanted_bytes, ..File::default() });
        FileSet { files: files.collect(), rotor: 0, free_rotor: 0 }
    }

    /// Number of files.
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// A file.
    pub fn get(&self, file: u32) -> File {
        self.files[file as usize]
    }

    /// Makes a file exist with its intended size.
    pub fn fill(&mut self, file: u32) {
        let file = &mut self.files[file as usize];
        (file.exists, file.bytes) = (true, file.wanted_bytes);
    }

    /// Makes a file exist, empty.
    pub fn create(&mut self, file: u32) {
        let file = &mut self.files[file as usize];
        (file.exists, file.bytes) = (true, 0);
    }

    /// Removes a file.
    pub fn delete(&mut self, file: u32) {
        self.files[file as usize].exists = false;
    }

    /// Opens a file for a thread.
    pub fn open(&mut self, file: u32) {
        self.files[file as usize].busy = true;
    }

    /// Closes a thread's file.
    pub fn close(&mut self, file: u32) {
        self.files[file as usize].busy = false;
    }

    /// Sets the size of a file.
    pub fn set_bytes(&mut self, file: u32, bytes: u64) {
        self.files[file as usize].bytes = bytes;
    }

    /// Notes the transaction that changes a file.
    pub fn changed_by(&mut self, file: u32, transaction: u64) {
        self.files[file as usize].transaction = transaction;
    }

    /// Picks one of the first `count` files that exists or is missing, and that no thread has open, unless they are `shared`. `rotor`: the thread's
    /// own.
    pub fn pick(
        &mut self,
        count: u32,
        exists: bool,
        (picks, shared): (Picks, bool),
        rng: &mut Rng,
        own: &mut u32,
    ) -> Option<u32> {
        let rotor = match (picks, exists) {
            (Picks::Random, _) => &mut (rng.below(count.into()) as u32),
            (_, false) => &mut self.free_rotor,
            (Picks::Together, true) => &mut self.rotor,
            (Picks::Apart, true) => own,
        };
        let (from, files) = (*rotor, &self.files);
        let is_one = |&file: &u32| {
            let state = &files[file as usize];
            state.exists == exists && !state.busy
        };
        let found = (from..count).chain(0..from).find(|file| shared || is_one(file))?;
        *rotor = (found + 1) % count;
        Some(found)
    }
}
