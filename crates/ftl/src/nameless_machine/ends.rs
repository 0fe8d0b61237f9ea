//! Ends of requests, and moves that are told.

use super::core::Core;
use super::requests::After;
use pellucid_flash::{StageTimes, Status};

/// Ends one of a request's commands to the drive, or one of its own steps.
pub(super) fn part_ended(core: &mut Core, request: u32, status: Status, stages: &StageTimes) {
    match core.requests.part_ended(request, status, stages) {
        After::Waits => {}
        After::Ends => finish(core, request),
        After::IsForced => core.flushes.wait(request),
    }
}

/// Takes the engine's moves.
pub(super) fn take_moves(core: &mut Core) {
    while let Some((old, new)) = core.engine.next_move() {
        if core.requests.tell_move(old, new) {
            core.engine.acknowledge(old);
        }
    }
}

/// Completes the application's command.
pub(super) fn finish(core: &mut Core, request: u32) {
    for name in core.requests.unwritten(request) {
        core.engine.free(name);
    }
    core.requests.end(request, core.now);
}

/// Completes the application's command with this status, or as it is.
pub(super) fn finish_with(core: &mut Core, request: u32, status: Option<Status>) {
    core.requests.set_status(request, status);
    finish(core, request);
}
