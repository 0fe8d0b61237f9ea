//! Commands from above: which are refused, and their beginning.

use super::core::Core;
use super::link::Purpose;
use super::{read, reset, write};
use pellucid_flash::{ChunkInfo, ChunkOp, Command, Lba, Opcode, Status, Vector};

/// Returns the status of a command that is refused at submission.
pub(super) fn refuse(core: &Core, command: &Command) -> Option<Status> {
    if command.namespace != 0 {
        return Some(Status::InvalidField);
    }
    let (images, oob) =
        (command.sectors as usize * core.image_bytes, command.sectors as usize * Vector::METADATA_BYTES);
    let (listed, metadata) =
        command.vector.as_ref().map_or((0, 0), |v| (v.addresses.len(), v.metadata.len()));
    let metadata_fits = metadata == 0 || metadata == oob;
    let good = match command.opcode {
        Opcode::Write => command.data.len() == images && metadata_fits && listed == 0 && command.sectors > 0,
        Opcode::Read => {
            let data = command.data.is_empty() || command.data.len() == images;
            let length =
                listed == 0 || (listed == command.sectors as usize && listed <= Vector::ADDRESSES_MAX);
            data && metadata_fits && length && command.sectors > 0
        }
        Opcode::Report | Opcode::Chunk(ChunkOp::Reset) => {
            let (chunk, _) = match core.shape.place(command.lba) {
                Some(place) => place,
                None => return Some(Status::LbaOutOfRange),
            };
            let past = u64::from(chunk) + u64::from(command.sectors) > core.shape.count().into();
            match command.opcode {
                Opcode::Report if past => return Some(Status::LbaOutOfRange),
                Opcode::Report => command.sectors > 0,
                _ => command.sectors == 0 && listed == 0,
            }
        }
        Opcode::Flush => true,
        _ => return Some(Status::InvalidOpcode),
    };
    (!good).then_some(Status::InvalidField)
}

/// Begins a command.
pub(super) fn begin(core: &mut Core, op: u32) {
    match core.ops.command(op).opcode {
        Opcode::Read => read::start_read(core, op),
        Opcode::Write => write::start_write(core, op),
        Opcode::Chunk(ChunkOp::Reset) => reset::start_reset(core, op),
        Opcode::Report => describe(core, op),
        _ => {
            let flush = Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new());
            core.send(op, Purpose::Whole, flush);
        }
    }
}

/// Returns the descriptions of the requested chunks.
fn describe(core: &mut Core, op: u32) {
    let command = core.ops.command_mut(op);
    let (first, _) = core.shape.place(command.lba).expect("checked at submission");
    command.data.clear();
    for number in first..first + command.sectors {
        let chunk = &core.chunks[number as usize];
        let info = ChunkInfo {
            state: chunk.state(),
            wear_index: 0,
            start: core.shape.chunks.lba(core.shape.chunks.chunk_at(number)),
            sectors: core.shape.chunks.chunk_sectors,
            write_pointer: chunk.written(),
        };
        info.encode(&mut command.data);
    }
    core.finish(op, Status::Success);
}
