//! Reads: the drive first, then the sectors in the buffer replace its data (the paper's deferred checking).

use super::{bypass, evict};
use crate::cluster_buffer::core::Core;
use crate::cluster_buffer::port::Purpose;
use pellucid_flash::{Command, Completion, Lba, Nanos, Opcode, Status};

#[inline]
pub(in crate::cluster_buffer) fn start(core: &mut Core, op: u32) {
    let Command { lba, sectors, .. } = *core.requests.command(op);
    if core.table.covers(lba.0, sectors) {
        core.counters.covered();
        core.overlay(op);
        return core.finish(op, Status::Success);
    }
    let data = core.requests.take_data(op);
    core.requests.begin_read(op, core.clock.last());
    core.port.send(op, Purpose::Read, Nanos::ZERO, Command::new(0, Opcode::Read, lba, sectors, data));
}

/// Handles the end of a read of the drive.
pub(in crate::cluster_buffer) fn ended(core: &mut Core, op: u32, mut completion: Completion) {
    core.take_data(op, &mut completion);
    if completion.status == Status::Success {
        let replaced = core.overlay(op);
        return end(core, op, Status::Success, completion.unmapped.saturating_sub(replaced));
    }
    // The buffer may hold the sectors that the drive cannot read.
    let Command { lba, sectors, .. } = *core.requests.command(op);
    if core.table.covers(lba.0, sectors) {
        core.overlay(op);
        return end(core, op, Status::Success, 0);
    }
    if !read_missing(core, op) {
        end(core, op, completion.status, 0);
    }
}

/// Reads the sectors that the buffer lacks, part by part. Returns `false` if it lacks all.
fn read_missing(core: &mut Core, op: u32) -> bool {
    let Command { lba, sectors, .. } = *core.requests.command(op);
    let mut runs = Vec::new();
    for (number, first, count) in core.setup.shape.split(lba.0, sectors) {
        let base = (number * u64::from(core.setup.shape.cluster_sectors) + u64::from(first) - lba.0) as u32;
        let Some(slot) = core.table.slot(number) else {
            runs.push((base, count));
            continue;
        };
        let mut from = first;
        while let Some((at, run)) = core.table.run(slot, from, first + count, false) {
            runs.push((base + at - first, run));
            from = at + run;
        }
    }
    if runs.iter().map(|&(_, count)| count).sum::<u32>() == sectors {
        return false;
    }
    core.requests.split_read(op, runs.len());
    for (at, count) in runs {
        let buffer = core.port.buffer(count as usize);
        let read = Command::new(0, Opcode::Read, Lba(lba.0 + u64::from(at)), count, buffer);
        core.port.send(op, Purpose::Missing(at), Nanos::ZERO, read);
    }
    true
}

/// Handles the end of a read of sectors that the buffer lacks.
pub(in crate::cluster_buffer) fn missing_ended(core: &mut Core, op: u32, at: u32, completion: Completion) {
    let failure = (completion.status != Status::Success).then_some(completion.status);
    let data = &mut core.requests.command_mut(op).data;
    if failure.is_none() && !data.is_empty() {
        let from = at as usize * core.setup.image_bytes;
        data[from..][..completion.data.len()].copy_from_slice(&completion.data);
    }
    core.port.give_back(completion.data);
    if let Some(status) = core.requests.part_read(op, failure) {
        core.overlay(op);
        end(core, op, status, 0);
    }
}

fn end(core: &mut Core, op: u32, status: Status, unmapped: u32) {
    core.requests.end_read(op);
    core.finish_unmapped(op, status, unmapped);
    bypass::settle(core);
    evict::leave_settled(core);
}
