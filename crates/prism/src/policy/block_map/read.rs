//! Reads: from chunks, from the buffer, and of unwritten sectors.

use super::blocks::Place;
use super::core::Core;
use super::gc;
use super::link::{Op, Purpose};
use super::requests::Part;
use pellucid_flash::{Command, Completion, Opcode, Status};

/// Number of retries of a failed read.
pub(super) const READ_RETRIES: u32 = 2;

/// Reads a part of a request, in a logical block.
pub(super) fn read(core: &mut Core, logical: u32, part: Part) {
    let (image, request) = (core.shape.image(), part.request);
    let mut done = 0;
    while done < part.sectors {
        let (at, sector) = (part.at + done, part.first + done);
        let block = &core.blocks[logical];
        let (place, count) = block.locate(sector, part.sectors - done, image);
        match place {
            Place::Chunk(chunk) => read_chunk(core, request, chunk, sector, at, count),
            Place::Buffer => {
                core.requests.give(request, at as usize * image, block.buffer.images(sector, count, image));
            }
            Place::Nowhere => {
                let (byte, bytes) = (core.shape.images(at), core.shape.images(count));
                core.requests.give_nothing(request, count, byte, bytes);
            }
        }
        done += count;
    }
    core.requests.part_done(core.now, request, None);
}

fn read_chunk(core: &mut Core, request: u32, chunk: u32, sector: u32, at: u32, sectors: u32) {
    core.requests.awaits(request);
    let wanted = core.requests.wants_data(request);
    let mut data = if wanted { core.link.buffer() } else { Vec::new() };
    data.resize(if wanted { core.shape.images(sectors) } else { 0 }, 0);
    core.chunks.begin_read(chunk);
    let command = Command::new(0, Opcode::Read, core.shape.lba(chunk, sector), sectors, data);
    core.link.send(Purpose::Read { request, chunk, at }, command);
}

/// Handles sectors read for a request from a chunk, to this place in its data.
pub(super) fn ended(core: &mut Core, request: u32, chunk: u32, at: u32, completion: &mut Completion) {
    core.chunks.end_read(chunk);
    let ok = matches!(completion.status, Status::Success | Status::HighEcc);
    match ok {
        true => core.requests.give(request, core.shape.images(at), &completion.data),
        false => core.tally.lost_read(),
    }
    core.requests.set_stages(request, completion.stages);
    core.requests.part_done(core.now, request, (!ok).then_some(Status::UnrecoveredRead));
    gc::erase_garbage(core);
}

/// Retries a failed read if allowed; returns whether it does.
pub(super) fn tries_again(core: &mut Core, op: Op, completion: &mut Completion) -> bool {
    let reads = matches!(op.purpose, Purpose::Read { .. } | Purpose::Fetch { .. });
    let again = reads && completion.status == Status::UnrecoveredRead && op.tries < READ_RETRIES;
    if again {
        let data = std::mem::take(&mut completion.data);
        let command = Command::new(0, Opcode::Read, op.lba, op.sectors, data);
        core.link.send_again(op.purpose, op.tries + 1, command);
    }
    again
}
