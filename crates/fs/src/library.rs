//! Requests to the flash library: allocated flash blocks, and those that the file system keeps after a mount.

use crate::backend::{Content, FoundSegment};
use std::collections::BTreeMap;

/// Requests to the flash library.
#[derive(Clone, Debug, Default)]
pub(crate) struct Library {
    /// Flash blocks that held data at the mount.
    found: BTreeMap<u32, FoundSegment>,
    /// The allocation in flight.
    allocates: Option<u64>,
    /// True if the library still has to be told which blocks are kept.
    tells: bool,
    keeps: Option<u64>,
}

impl Library {
    /// The library of flash whose blocks `found` hold data.
    pub fn with(found: &[FoundSegment]) -> Library {
        Library { found: found.iter().map(|found| (found.segment, *found)).collect(), ..Library::default() }
    }

    /// Blocks written to a flash block before the mount.
    pub fn written(&self, segment: u32) -> u32 {
        self.found.get(&segment).map_or(0, |found| found.blocks)
    }

    /// Flash blocks with checkpoints of earlier mounts.
    pub fn checkpoints(&self) -> Vec<u32> {
        let old = self.found.values().filter(|found| found.content == Some(Content::Checkpoint));
        old.map(|found| found.segment).collect()
    }

    /// Requests that the library be told which flash blocks are kept.
    pub fn want_told(&mut self) {
        self.tells = true;
    }

    /// Returns whether the library is currently being told which blocks are kept; no other calls
    /// are allowed meanwhile.
    pub fn is_being_told(&self) -> bool {
        self.keeps.is_some()
    }

    /// Returns whether the library must be told now, and clears the flag.
    pub fn take_told(&mut self) -> bool {
        std::mem::take(&mut self.tells)
    }

    /// Notes that a job tells the library which blocks are kept.
    pub fn telling(&mut self, id: u64) {
        self.keeps = Some(id);
    }

    /// Handles the end of a job. Returns whether it told the library which blocks are kept.
    pub fn told(&mut self, id: u64) -> bool {
        self.keeps.take_if(|keeps| *keeps == id).is_some()
    }

    pub fn is_allocating(&self) -> bool {
        self.allocates.is_some()
    }

    /// Notes the job of an allocation.
    pub fn allocating(&mut self, id: u64) {
        self.allocates = Some(id);
    }

    /// Handles the end of a job. Returns whether it was an allocation.
    pub fn allocated(&mut self, id: u64) -> bool {
        self.allocates.take_if(|allocates| *allocates == id).is_some()
    }
}
