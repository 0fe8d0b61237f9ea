//! Writes of chunks, and the tables that count them.

use super::core::Core;
use super::link::Purpose;
use super::table::{self, HEADER_BYTES, Header};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Completion, Opcode, Status, Vector};

/// Begins a write.
pub(super) fn start_write(core: &mut Core, op: u32) {
    let command = core.ops.command(op);
    let (sectors, fua) = (command.sectors, command.fua || core.config.force_writes);
    let Some((number, first)) = core.shape.place(command.lba) else {
        return core.finish(op, Status::LbaOutOfRange);
    };
    let chunk = &mut core.chunks[number as usize];
    if let Err(status) = chunk.begin_write(&core.shape, op, first, sectors) {
        return core.finish(op, status);
    }
    let data = std::mem::take(&mut core.ops.command_mut(op).data);
    let write = Command::new(0, Opcode::Write, core.shape.data(number, first), sectors, data);
    core.send(op, Purpose::Data, Command { fua, ..write });
}

/// Handles the end of a data write.
pub(super) fn data_ended(core: &mut Core, op: u32, completion: Completion) {
    let command = core.ops.command_mut(op);
    command.data = completion.data;
    let (number, first) = core.shape.place(command.lba).expect("checked when it began");
    let ok = completion.status == Status::Success;
    if !core.chunk_mut(number).data_ended(op, ok) {
        return core.finish(op, Status::ChunkWriteFailed);
    }
    if !ok {
        close(core, number, first);
    }
    save(core, number);
}

/// Closes a chunk after a failed write that begins at `first`.
fn close(core: &mut Core, number: u32, first: u32) {
    for op in core.chunk_mut(number).close(first) {
        core.finish(op, Status::ChunkClosedEarly);
    }
}

/// Counts the writes in the table whose data and whose predecessors' data are on the drive. It writes one
/// table sector at a time, because a later sector must not be on the media before an earlier one.
fn save(core: &mut Core, number: u32) {
    if !core.chunk(number).can_save() {
        return;
    }
    let first = core.chunk(number).written() / core.shape.chunks.write_min_sectors;
    let mut table = core.chunk_mut(number).take_table();
    let (write, fua) = fill_table(core, number, first, &mut table);
    let per_sector = core.shape.per_sector;
    let writes = write - first / per_sector * per_sector;
    let (epoch, generation) = (core.tables.epoch(), core.chunk(number).generation());
    let header = Header { epoch, generation, chunk: number, writes };
    table::seal(&mut table, header, core.shape.chunks.sector_bytes as usize);
    let saving = write * core.shape.chunks.write_min_sectors;
    let mut image = core.link.buffer();
    image.clear();
    if core.tables.keep_content() {
        image.extend_from_slice(&table);
    } else {
        keep_stamps(core, number, saving);
    }
    image.resize(core.image_bytes, 0);
    if writes == per_sector {
        table.clear();
    }
    core.chunk_mut(number).begin_save(table, saving);
    core.tables.count_write();
    let at = core.shape.table(core.shape.table_of(number, first));
    let save = Command::new(0, Opcode::Write, at, 1, image);
    core.link.send(NIL, Purpose::Table(number), Command { fua, ..save });
}

/// Adds the out-of-band data of the writes that can be counted, from write `first` on, to a table sector. Returns the write behind the last of
/// them, and whether one forces unit access.
fn fill_table(core: &Core, number: u32, first: u32, table: &mut Vec<u8>) -> (u32, bool) {
    let (write_sectors, per_sector) = (core.shape.chunks.write_min_sectors, core.shape.per_sector);
    let entry = write_sectors as usize * Vector::METADATA_BYTES;
    let full = (first / per_sector + 1) * per_sector;
    let begins = HEADER_BYTES + (first % per_sector) as usize * entry;
    table.truncate(begins);
    table.resize(begins, 0);
    let (mut fua, mut write) = (core.config.force_writes, first);
    for (op, end) in core.chunk(number).on_drive() {
        if write == full {
            break;
        }
        let command = core.ops.command(op);
        fua |= command.fua;
        let begin = (end - command.sectors) / write_sectors;
        let oob = command.vector.as_ref().map_or(&[][..], |vector| &vector.metadata);
        // A write that crosses a full table sector continues in the next one.
        while write < full && write < end / write_sectors {
            let at = (write - begin) as usize * entry;
            match oob.get(at..at + entry) {
                Some(oob) => table.extend_from_slice(oob),
                None => table.resize(table.len() + entry, 0),
            }
            write += 1;
        }
    }
    (write, fua)
}

/// Keeps the out-of-band data of counted writes up to sector `saving`, if the drive keeps stamps.
fn keep_stamps(core: &mut Core, number: u32, saving: u32) {
    let all = core.shape.chunks.chunk_sectors;
    for (op, end) in core.chunks[number as usize].on_drive() {
        let command = core.ops.command(op);
        let (first, sectors) = (end - command.sectors, command.sectors);
        if first >= saving {
            break;
        }
        let oob = command.vector.as_ref().map(|vector| &vector.metadata[..]);
        core.tables.keep_stamps(number, all, first, sectors, oob.filter(|oob| !oob.is_empty()));
    }
}

/// The write of a table has ended.
pub(super) fn table_ended(core: &mut Core, number: u32, completion: Completion) {
    core.link.give_back(completion.data);
    let ok = completion.status == Status::Success;
    let chunk = &mut core.chunks[number as usize];
    chunk.end_save(&core.shape, ok);
    if !ok {
        let first = chunk.written();
        return close(core, number, first);
    }
    while let Some(op) = core.chunk_mut(number).next_counted() {
        core.finish(op, Status::Success);
    }
    save(core, number);
}
