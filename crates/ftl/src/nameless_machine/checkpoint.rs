//! Occasions for checkpoints: a flush, blocks that wait to be erased, and a stop.

use super::saver::End;
use super::{NamelessMachine, TAG_SAVE};
use pellucid_flash::{Completion, Migration, Status};

/// Requests that wait for a checkpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct Flushes {
    waiting: Vec<u32>,
    /// Requests that the checkpoint under way covers.
    covered: Vec<u32>,
    /// Some change is not in the newest checkpoint.
    dirty: bool,
}

impl Flushes {
    /// Queues a request that waits for all earlier changes.
    pub fn wait(&mut self, request: u32) {
        self.waiting.push(request);
    }

    /// Records a change that a checkpoint has to include.
    pub fn changed(&mut self) {
        self.dirty = true;
    }
}

impl NamelessMachine {
    /// Returns whether everything is in the newest checkpoint.
    pub(super) fn is_saved(&self) -> bool {
        !self.flushes.dirty && !self.saver.is_running() && self.outstanding == 0
    }

    pub(super) fn continue_checkpoint(&mut self) {
        if !self.saver.is_running() {
            self.begin_checkpoint();
        }
        while let Some((at, mut command)) = self.saver.next_command() {
            command.tag = TAG_SAVE | u64::from(at);
            self.send(command);
        }
    }

    fn begin_checkpoint(&mut self) {
        if !self.flushes.dirty || self.read_only {
            let done = std::mem::take(&mut self.flushes.waiting);
            self.end_flushes(done, self.flushes.dirty.then_some(Status::WriteFault));
        }
        let for_space = self.config.migration == Migration::Acknowledged
            && self.engine.waits_for_checkpoint()
            && (self.engine.is_short() || self.writes.is_waiting());
        let for_stop = self.stopping && self.flushes.dirty && self.outstanding == 0;
        if self.read_only || !(for_space || for_stop || !self.flushes.waiting.is_empty()) {
            return;
        }
        let bytes = self.engine.checkpoint();
        self.flushes.dirty = false;
        self.flushes.covered = std::mem::take(&mut self.flushes.waiting);
        if !self.saver.begin(bytes) {
            self.checkpoint_failed();
        }
    }

    pub(super) fn save_ended(&mut self, at: u32, completion: &Completion) {
        match self.saver.ended(at, completion) {
            Some(End::Saved) => {
                self.engine.checkpoint_saved();
                let done = std::mem::take(&mut self.flushes.covered);
                self.end_flushes(done, None);
            }
            Some(End::Failed) => self.checkpoint_failed(),
            None => {}
        }
        self.moved = true;
    }

    /// Refuses writes from now on and fails all waiting requests: nothing can be promised any more.
    fn checkpoint_failed(&mut self) {
        self.engine.checkpoint_failed();
        self.read_only = true;
        (self.flushes.dirty, self.moved) = (true, true);
        let covered = std::mem::take(&mut self.flushes.covered);
        let waiting = std::mem::take(&mut self.flushes.waiting);
        self.end_flushes(covered, Some(Status::WriteFault));
        self.end_flushes(waiting, Some(Status::WriteFault));
    }

    fn end_flushes(&mut self, requests: Vec<u32>, status: Option<Status>) {
        for request in requests {
            self.requests[request].status = status;
            self.finish(request);
        }
    }
}
