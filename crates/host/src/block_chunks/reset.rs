//! Resets of chunks: the next generation of the table, then a trim of the data.

use super::core::Core;
use super::link::Purpose;
use super::table::{self, Header};
use pellucid_flash::{Command, Lba, Opcode, Status};

/// Begins a reset.
pub(super) fn start_reset(core: &mut Core, op: u32) {
    let (number, _) = core.shape.place(core.ops.command(op).lba).expect("checked at submission");
    if let Err(status) = core.chunk_mut(number).begin_reset() {
        return core.finish(op, status);
    }
    if core.config.force_writes {
        return reset_goes_on(core, op, Purpose::ResetFlush, Status::Success);
    }
    // Copies of the data elsewhere must be on the media before the originals go.
    core.send(op, Purpose::ResetFlush, Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
}

/// A step of a reset has ended.
pub(super) fn reset_goes_on(core: &mut Core, op: u32, done: Purpose, status: Status) {
    let (number, _) = core.shape.place(core.ops.command(op).lba).expect("checked at submission");
    let chunk = &mut core.chunks[number as usize];
    match (done, status) {
        (Purpose::ResetFlush, Status::Success) => {
            let (epoch, generation) = (core.tables.epoch(), chunk.next_generation());
            let header = Header { epoch, generation, chunk: number, writes: 0 };
            let mut image = Vec::new();
            table::seal(&mut image, header, core.shape.chunks.sector_bytes as usize);
            image.resize(core.image_bytes, 0);
            core.tables.count_write();
            let at = core.shape.table(core.shape.table_of(number, 0));
            let save = Command::new(0, Opcode::Write, at, 1, image);
            core.send(op, Purpose::ResetTable, Command { fua: true, ..save });
        }
        (Purpose::ResetFlush, _) => {
            chunk.give_reset_up();
            core.finish(op, Status::ChunkInvalidReset);
        }
        (Purpose::ResetTable, Status::Success) => {
            let (first, sectors) = (core.shape.data(number, 0), core.shape.chunks.chunk_sectors);
            core.send(op, Purpose::ResetTrim, Command::new(0, Opcode::Trim, first, sectors, Vec::new()));
        }
        (Purpose::ResetTable, status) => {
            chunk.take_generation_back();
            core.finish(op, status);
        }
        // The trim is a hint: the chunk is free even if it fails.
        _ => {
            chunk.end_reset();
            core.finish(op, Status::Success);
        }
    }
}
