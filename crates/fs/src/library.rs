//! Flash blocks that the flash library hands out, and takes back.

use super::Fs;
use super::backend::FoundSegment;
use super::jobs::{Job, JobId};
use super::mount::Phase;
use super::types::Time;
use std::collections::BTreeMap;

/// Requests to the flash library.
#[derive(Clone, Debug, Default)]
pub(super) struct Library {
    /// Flash blocks that held data at the mount.
    pub found: BTreeMap<u32, FoundSegment>,
    /// A flash block is being handed out.
    allocates: Option<u64>,
    /// The library has still to be told which blocks the file system keeps.
    pub tells: bool,
    pub keeps: Option<u64>,
}

impl Fs {
    /// Returns whether a flash block shall be handed out before anything is written.
    pub(super) fn wants_segment(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Unmounting)
            && self.log.wants_segment(self.options.memory_bytes)
    }

    pub(super) fn next_library_job(&mut self) -> Option<Job> {
        if !self.log.layout.backend.is_flash() || self.library.keeps.is_some() {
            return None;
        }
        if std::mem::take(&mut self.library.tells) {
            let id = self.new_id();
            self.library.keeps = Some(id);
            return Some(Job::Keep { id: JobId(id), segments: self.log.kept() });
        }
        if self.library.allocates.is_some() || !self.wants_segment() {
            return None;
        }
        let id = self.new_id();
        self.library.allocates = Some(id);
        Some(Job::Allocate { id: JobId(id) })
    }

    /// [`Job::Allocate`] was carried out: a flash block was handed out, if there was one, and this many are left.
    pub fn allocated(&mut self, now: Time, id: JobId, segment: Option<u32>, left: u32) {
        self.now = now;
        if self.library.allocates.take_if(|allocates| *allocates == id.0).is_none() {
            return;
        }
        self.log.elsewhere = left;
        let Some(segment) = segment.filter(|&segment| segment < self.log.layout.segments) else {
            self.log.elsewhere = 0;
            return;
        };
        // While only a checkpoint makes anything durable, no mount looks for what is written before it.
        let at_once = self.commits.hole && !self.checkpointing.is_built();
        self.log.allocated(segment, at_once);
    }
}
