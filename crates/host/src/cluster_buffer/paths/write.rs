//! Writes into the buffer, in order, as space becomes available.

use super::{bypass, flush};
use crate::cluster_buffer::core::Core;
use crate::cluster_buffer::table::State;
use pellucid_flash::{Command, Opcode, Status};

/// Reports whether a new command goes into the buffer. With a journal, a forced write is a write and a
/// flush.
#[inline]
pub(in crate::cluster_buffer) fn is_for_buffer(core: &Core, command: &Command) -> bool {
    command.opcode == Opcode::Write
        && (!command.fua || core.journal.is_some())
        && !core.ends.is_paused()
        && !core.setup.passes_by(command)
}

/// Continues waiting commands, in order.
#[inline]
pub(in crate::cluster_buffer) fn admit(core: &mut Core) {
    while let Some(op) = core.requests.first_waiting() {
        let through = if core.requests.is_buffered(op) { fill(core, op) } else { bypass::start(core, op) };
        if !through {
            return;
        }
        core.requests.first_goes_on();
    }
}

/// Copies as much of a write into the buffer as fits. Returns whether the write has ended.
fn fill(core: &mut Core, op: u32) -> bool {
    if core.is_passed_by(op) {
        return false;
    }
    let (now, stamp, image_bytes) = (core.port.now(), core.clock.last(), core.setup.image_bytes);
    if core.table.held() == 0 {
        core.timer.first_came(now);
    }
    let mut done = core.requests.done(op);
    let command = core.requests.command(op);
    let (at, left, fua) = (command.lba.0 + u64::from(done), command.sectors - done, command.fua);
    for (number, first, count) in core.setup.shape.split(at, left) {
        let images = &command.data[done as usize * image_bytes..][..count as usize * image_bytes];
        let put = core.table.put(number, first, images, stamp, now);
        done += put;
        if put < count {
            break;
        }
    }
    if core.requests.set_done(op, done) {
        match fua {
            true => flush::join(core, op),
            false => core.finish(op, Status::Success),
        }
        return true;
    }
    if can_make_space(core) {
        return false;
    }
    if core.table.failed() > 0 && core.requests.tries(op) {
        core.table.retry_one();
        return false;
    }
    core.finish(op, Status::WriteFault);
    true
}

/// Reports whether a cluster is being evicted, or can be evicted now or later.
fn can_make_space(core: &Core) -> bool {
    core.table.used().any(|(_, cluster)| matches!(cluster.state, State::Resident | State::Evicting))
}
