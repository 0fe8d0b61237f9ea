//! Commands that bypass the buffer: forced writes, trims, writes of zeros, writes into ranges that do, and all
//! writes while the buffer is paused.

use super::{flush, group};
use crate::cluster_buffer::core::Core;
use crate::cluster_buffer::port::Purpose;
use crate::cluster_buffer::table::State;
use pellucid_flash::{Command, Completion, Nanos, Opcode, Status};

/// Sends a command past the buffer. Returns `false` if it has to wait.
pub(super) fn start(core: &mut Core, op: u32) -> bool {
    let (first, last) = core.requests.clusters(op);
    let evicts = |slot: u32| {
        let cluster = core.table.cluster(slot);
        cluster.state == State::Evicting && (first..=last).contains(&cluster.number)
    };
    let pinned = |number: u64| {
        let slot = core.table.slot(number);
        slot.is_some_and(|slot| core.is_pinned(core.table.cluster(slot)))
    };
    if core.is_passed_by(op)
        || (core.journal.is_some() && (first..=last).any(pinned))
        || core.evictions.slots().any(evicts)
    {
        return false;
    }
    core.counters.passed_by();
    core.bypasses.begin(op, first, last);
    let data = core.requests.take_data(op);
    let Command { opcode, lba, sectors, fua, .. } = *core.requests.command(op);
    let down = Command { fua, ..Command::new(0, opcode, lba, sectors, data) };
    core.port.send(op, Purpose::Bypass, Nanos::ZERO, down);
    true
}

/// Handles the end of a command with the drive.
pub(in crate::cluster_buffer) fn ended(core: &mut Core, op: u32, mut completion: Completion) {
    core.take_data(op, &mut completion);
    if completion.status == Status::Success {
        let moment = core.clock.tick();
        core.bypasses.done(op, moment);
        return settle(core);
    }
    core.bypasses.fail(op);
    after(core, op, completion.status);
}

/// Ends the bypasses that the drive completed, once no read that may return older data is under way;
/// until then the buffer keeps its copies.
pub(super) fn settle(core: &mut Core) {
    while let Some(op) = {
        let requests = &core.requests;
        core.bypasses.next_settled(|moment, first, last| requests.is_read_since_before(moment, first, last))
    } {
        let Command { lba, sectors, .. } = *core.requests.command(op);
        core.table.drop_range(lba.0, sectors);
        let (first, last) = core.requests.clusters(op);
        group::take_out(core, first, last);
        after(core, op, Status::Success);
    }
}

fn after(core: &mut Core, op: u32, status: Status) {
    core.timer.wake();
    core.find_age();
    let Command { opcode, fua, .. } = *core.requests.command(op);
    let (first, last) = core.requests.clusters(op);
    let needs_record = core
        .journal
        .as_ref()
        .is_some_and(|journal| fua || (opcode == Opcode::Write && journal.brings_back(first, last)));
    if status == Status::Success && needs_record {
        // The journal may bring back older data until a flush has recorded the change.
        return flush::join(core, op);
    }
    core.finish(op, status);
}
