//! Occasions for checkpoints: a flush, blocks that wait to be erased, and a stop.

use super::core::Core;
use super::ends;
use super::link::TAG_SAVE;
use super::saver::End;
use pellucid_flash::{Completion, Migration, Status};

/// Requests that wait for a checkpoint. Invariant: a request waits for the current checkpoint or the next.
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

    fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A checkpoint of everything so far begins.
    fn begin(&mut self) {
        assert!(self.covered.is_empty(), "one checkpoint at a time");
        self.dirty = false;
        self.covered = std::mem::take(&mut self.waiting);
    }

    fn take_covered(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.covered)
    }

    fn take_waiting(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.waiting)
    }
}

/// Returns whether everything is in the newest checkpoint.
pub(super) fn is_saved(core: &Core) -> bool {
    !core.flushes.dirty && !core.saver.is_running() && core.link.is_idle()
}

/// Begins a checkpoint if one is due, and continues the current one.
pub(super) fn continue_checkpoint(core: &mut Core) {
    if !core.saver.is_running() {
        begin_checkpoint(core);
    }
    while let Some((at, mut command)) = core.saver.next_command() {
        command.tag = TAG_SAVE | u64::from(at);
        core.link.send(command);
    }
}

fn begin_checkpoint(core: &mut Core) {
    let (dirty, refuses) = (core.flushes.dirty, core.health.refuses_writes());
    if !dirty || refuses {
        let done = core.flushes.take_waiting();
        end_flushes(core, done, dirty.then_some(Status::WriteFault));
    }
    let for_space = core.config.migration == Migration::Acknowledged
        && core.engine.waits_for_checkpoint()
        && (core.engine.is_short() || core.writes.is_waiting());
    let for_stop = core.stopping && core.flushes.dirty && core.link.is_idle();
    if refuses || !(for_space || for_stop || core.flushes.is_waited_for()) {
        return;
    }
    let bytes = core.engine.checkpoint();
    core.flushes.begin();
    if !core.saver.begin(bytes) {
        checkpoint_failed(core);
    }
}

/// A command of the checkpoint has ended.
pub(super) fn save_ended(core: &mut Core, at: u32, completion: &Completion) {
    match core.saver.ended(at, completion) {
        Some(End::Saved) => {
            core.engine.checkpoint_saved();
            let done = core.flushes.take_covered();
            end_flushes(core, done, None);
        }
        Some(End::Failed) => checkpoint_failed(core),
        None => {}
    }
    core.progress.note();
}

/// Refuses writes from now on and fails all waiting requests, because durability can no longer be
/// guaranteed.
fn checkpoint_failed(core: &mut Core) {
    core.engine.checkpoint_failed();
    core.health.refuse_writes();
    core.flushes.changed();
    core.progress.note();
    let covered = core.flushes.take_covered();
    let waiting = core.flushes.take_waiting();
    end_flushes(core, covered, Some(Status::WriteFault));
    end_flushes(core, waiting, Some(Status::WriteFault));
}

fn end_flushes(core: &mut Core, requests: Vec<u32>, status: Option<Status>) {
    for request in requests {
        ends::finish_with(core, request, status);
    }
}
