//! Commands of the application: checks, and their start.

use super::core::Core;
use super::requests::Part;
use super::{read, write};
use pellucid_flash::{Command, Opcode, Status};

/// Reason why a command cannot be accepted.
pub(super) fn refuse(core: &Core, command: &Command) -> Option<Status> {
    let carries = match command.opcode {
        Opcode::Write => true,
        Opcode::Read => !command.data.is_empty(),
        Opcode::Flush => return None,
        Opcode::Trim | Opcode::WriteZeroes => false,
        _ => return Some(Status::InvalidOpcode),
    };
    if core.health.failure().is_some() {
        return Some(Status::ReadOnly);
    }
    let bytes = core.shape.images(command.sectors);
    if command.sectors == 0 || command.vector.is_some() || (carries && command.data.len() != bytes) {
        return Some(Status::InvalidField);
    }
    let end = command.lba.0.checked_add(command.sectors.into());
    if end.is_none_or(|end| end > core.shape.sectors) {
        return Some(Status::LbaOutOfRange);
    }
    // A trim frees chunks.
    let writes = matches!(command.opcode, Opcode::Write | Opcode::WriteZeroes);
    (core.health.refuses_writes() && writes).then_some(Status::ReadOnly)
}

/// Starts a request.
pub(super) fn begin(core: &mut Core, request: u32) {
    let command = core.requests.command(request);
    let (opcode, lba, sectors) = (command.opcode, command.lba.0, command.sectors);
    // Held open until all parts are known.
    core.requests.awaits(request);
    match opcode {
        Opcode::Flush => flush(core, request),
        _ => {
            let (length, mut at) = (u64::from(core.shape.length()), 0);
            while at < sectors {
                let (logical, first) = ((lba + u64::from(at)) / length, (lba + u64::from(at)) % length);
                let count = (length - first).min(u64::from(sectors - at)) as u32;
                let part = Part { request, first: first as u32, sectors: count, at };
                core.requests.awaits(request);
                match opcode {
                    Opcode::Read => read::read(core, logical as u32, part),
                    _ => write::change(core, logical as u32, part),
                }
                at += count;
            }
        }
    }
    core.requests.part_done(core.now, request, None);
}

fn flush(core: &mut Core, request: u32) {
    let waits = |&number: &u32| !core.blocks[number].buffer.is_empty();
    let blocks: Vec<u32> = (0..core.blocks.count()).filter(waits).collect();
    for &number in &blocks {
        match core.blocks[number].is_stuck() {
            // Its buffer can never be written.
            true => core.requests.fail(request, Status::WriteFault),
            false => {
                core.requests.awaits(request);
                core.blocks[number].await_empty(request);
            }
        }
    }
    for _ in 0..core.chunks.await_trims(request) {
        core.requests.awaits(request);
    }
    blocks.into_iter().for_each(|number| write::go_on(core, number));
}
