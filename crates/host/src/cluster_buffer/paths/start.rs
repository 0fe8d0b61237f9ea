//! Start of a buffer with a journal: its commands go to the drive, and requests that arrive meanwhile wait for its end.

use crate::cluster_buffer::core::Core;
use crate::cluster_buffer::journal::Effect;
use crate::cluster_buffer::port::Purpose;
use pellucid_flash::slab::NIL;
use pellucid_flash::{Completion, Nanos, Status};

/// Begins the start, if it has not begun.
pub(in crate::cluster_buffer) fn begin(core: &mut Core) -> Vec<u32> {
    let effect = core.its_journal().begin_start();
    carry_out(core, effect)
}

/// Continues the start after one of its commands. Returns the requests that begin now.
pub(in crate::cluster_buffer) fn go_on(core: &mut Core, completion: Completion) -> Vec<u32> {
    let effect = core.its_journal().start_goes_on(completion);
    carry_out(core, effect)
}

fn carry_out(core: &mut Core, effect: Effect) -> Vec<u32> {
    match effect {
        Effect::Nothing => {}
        Effect::Send(command) => core.port.send(NIL, Purpose::Start, Nanos::ZERO, command),
        Effect::Ready => return core.its_journal().take_early(),
        Effect::Failed => {
            for op in core.its_journal().take_early() {
                core.finish(op, Status::ReadOnly);
            }
        }
    }
    Vec::new()
}

/// Holds a request back until the end of the start; returns `true` if it does, or has refused it.
#[inline]
pub(in crate::cluster_buffer) fn holds(core: &mut Core, op: u32) -> bool {
    let Some(journal) = &mut core.journal else { return false };
    if journal.is_ready() {
        return false;
    }
    if journal.failure().is_some() {
        core.finish(op, Status::ReadOnly);
    } else {
        journal.wait(op);
    }
    true
}
