//! Reads of chunks: the runs of drive sectors to read, and the destination of each sector.

use super::core::Core;
use super::link::{Purpose, Want};
use super::table::{self, HEADER_BYTES, Sector};
use pellucid_flash::{Command, Completion, Lba, Opcode, Status, Vector};

/// Maximum sectors of a run.
const RUN_SECTORS: u64 = 256;

/// Returns the address of the `i`-th sector of a command.
fn address(command: &Command, i: u32) -> Lba {
    match &command.vector {
        Some(vector) if !vector.addresses.is_empty() => vector.addresses[i as usize],
        _ => Lba(command.lba.0 + u64::from(i)),
    }
}

/// Begins a read.
pub(super) fn start_read(core: &mut Core, op: u32) {
    let mut wants = std::mem::take(&mut core.wants);
    wants.clear();
    let inside = find_wants(core, op, &mut wants);
    if !inside || wants.is_empty() {
        core.wants = wants;
        let status = if inside { Status::Success } else { Status::LbaOutOfRange };
        return core.finish(op, status);
    }
    let command = core.ops.command_mut(op);
    let first = wants[0].lba;
    let direct = wants.len() == command.sectors as usize
        && (0..)
            .zip(&wants)
            .all(|(at, want)| !want.oob && want.at == at && want.lba == first + u64::from(at));
    if direct {
        // The read omits the data; only its status matters.
        let (sectors, data) = (command.sectors, std::mem::take(&mut command.data));
        core.send(op, Purpose::Direct, Command::new(0, Opcode::Read, Lba(first), sectors, data));
    } else {
        wants.sort_unstable();
        let mut rest = &wants[..];
        while let Some(first) = rest.first() {
            let joins =
                |pair: &[Want]| pair[1].lba - pair[0].lba <= 1 && pair[1].lba - first.lba < RUN_SECTORS;
            let count = 1 + rest.windows(2).take_while(|pair| joins(pair)).count();
            send_run(core, op, &rest[..count]);
            rest = &rest[count..];
        }
    }
    core.wants = wants;
}

/// Lists the drive sectors that a read needs, and fills all others with zeros. Returns `false` if an
/// address is out of range.
fn find_wants(core: &mut Core, op: u32, wants: &mut Vec<Want>) -> bool {
    let (keeps, image) = (core.tables.keep_content(), core.image_bytes);
    let (shape, chunks) = (&core.shape, &core.chunks);
    let command = core.ops.command_mut(op);
    let data = !command.data.is_empty();
    let mut metadata = command.vector.as_mut().map_or_else(Vec::new, |v| std::mem::take(&mut v.metadata));
    metadata.fill(0);
    let oob = !metadata.is_empty();
    let mut inside = true;
    for at in 0..command.sectors {
        let Some((number, sector)) = shape.place(address(command, at)) else {
            inside = false;
            break;
        };
        if sector >= chunks[number as usize].written() {
            if data {
                command.data[at as usize * image..][..image].fill(0);
            }
            continue;
        }
        if data || !oob {
            wants.push(Want { lba: shape.data(number, sector).0, oob: false, at });
        }
        if oob && keeps {
            let write = sector / shape.chunks.write_min_sectors;
            let lba = shape.table(shape.table_of(number, write)).0;
            wants.push(Want { lba, oob: true, at });
        } else if oob {
            metadata[at as usize * Vector::METADATA_BYTES..][..Vector::METADATA_BYTES]
                .copy_from_slice(core.tables.stamp(number, sector));
        }
    }
    if let Some(vector) = &mut command.vector {
        vector.metadata = metadata;
    }
    inside
}

fn send_run(core: &mut Core, op: u32, wants: &[Want]) {
    core.ops.begin_part(op);
    core.link.send_run(op, wants, core.image_bytes);
}

/// A run has been read, or not.
pub(super) fn run_ended(core: &mut Core, part: u32, op: u32, completion: Completion) {
    let (wants, image) = (core.link.take_wants(part), core.image_bytes);
    let (first, last) = (wants[0].lba, wants[wants.len() - 1].lba);
    if completion.status == Status::Success {
        for &want in &wants {
            let image = &completion.data[(want.lba - first) as usize * image..][..image];
            if !deliver(core, op, want, image) {
                core.ops.fail(op, want.at, Status::UnrecoveredRead);
            }
        }
    } else if first == last {
        wants.iter().for_each(|want| core.ops.fail(op, want.at, completion.status));
    } else {
        // The run is read again sector by sector, so that a bad sector fails alone.
        wants.chunk_by(|a, b| a.lba == b.lba).for_each(|wants| send_run(core, op, wants));
    }
    core.link.give_back(completion.data);
    core.link.end_run(part, wants);
    if let Some(status) = core.ops.end_part(op) {
        core.finish(op, status);
    }
}

/// Copies a sector of the drive to its destination; returns `false` if it is not the expected table
/// sector.
fn deliver(core: &mut Core, op: u32, want: Want, image: &[u8]) -> bool {
    let command = core.ops.command_mut(op);
    let lba = address(command, want.at);
    if !want.oob {
        if !command.data.is_empty() {
            command.data[want.at as usize * image.len()..][..image.len()].copy_from_slice(image);
        }
        return true;
    }
    let Some((number, sector)) = core.shape.place(lba) else { return false };
    let in_table = sector % (core.shape.chunks.write_min_sectors * core.shape.per_sector);
    let from = HEADER_BYTES + in_table as usize * Vector::METADATA_BYTES;
    let (epoch, generation) = (core.tables.epoch(), core.chunks[number as usize].generation());
    let good = match table::parse(image, number, epoch) {
        Sector::Table(header) => (header.epoch, header.generation) == (epoch, generation),
        Sector::Other | Sector::Damaged => false,
    };
    if let (true, Some(vector)) = (good, &mut command.vector) {
        vector.metadata[want.at as usize * Vector::METADATA_BYTES..][..Vector::METADATA_BYTES]
            .copy_from_slice(&image[from..][..Vector::METADATA_BYTES]);
    }
    good
}
