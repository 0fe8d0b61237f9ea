//! Commands of the start's needs, and the pieces in which long records are read.

use super::facts::Facts;
use super::needs::Need;
use crate::ftl::core::Core;
use crate::ftl::lines::Lines;
use crate::ftl::meta;
use crate::ftl::shape::FtlShape;
use pellucid_flash::{BlockId, ChunkInfo, ChunkState, Command, Lba, Opcode, Ppa, Vector};
use std::collections::BTreeSet;

/// Makes the command of a need.
pub(super) fn command_of(core: &Core, facts: &Facts, need: Need) -> Command {
    let (lines, shape) = (&core.lines, core.lines.shape());
    let image_bytes = shape.image_bytes;
    let read = |lba: Lba, sectors: u32| {
        let data = vec![0; sectors as usize * image_bytes];
        Command::new(0, Opcode::Read, lba, sectors, data)
    };
    match need {
        Need::Reveal(lba, rows) => reveal(shape, facts.info(lba), rows),
        Need::Start(lba) => {
            let sector_bytes = u64::from(shape.geometry.sector_bytes);
            read(lba, meta::start_bytes(shape.units).div_ceil(sector_bytes) as u32)
        }
        Need::Owner(chunk) => {
            read_addresses(owner_addresses(shape, &facts.info(chunk)).collect(), Vec::new(), true)
        }
        Need::Stranger(chunk) => read_addresses(vec![chunk], vec![0; image_bytes], true),
        Need::Head(line) => read(end_sector(lines, line, 0), 1),
        Need::End(line, from) => read(end_sector(lines, line, from), piece(shape, from)),
        Need::Index(line, from) => {
            let (first, superpage) = (indexed_superpages(shape, facts, line), shape.superpage_sectors);
            // The line's start precedes the sector.
            let (_, lba) = lines.place(BlockId(line), first + from / superpage + 1);
            read(Lba(lba.0 + u64::from(from % superpage)), piece(shape, from))
        }
        Need::MapPages(first, count) => {
            let data = vec![0; count as usize * image_bytes];
            vector_read(lines, first..first + count, data, false)
        }
        Need::Edges(line) => {
            let last = (facts.used(line) - 1) * shape.layout.units_per_superpage;
            let edges = [0, last].map(|at| shape.layout.ppa(BlockId(line), at).0);
            vector_read(lines, edges, Vec::new(), true)
        }
        Need::Scan(line, from) => {
            let first = shape.layout.ppa(BlockId(line), from).0;
            vector_read(lines, first..first + piece(shape, from), Vec::new(), true)
        }
    }
}

/// Makes a write of padding behind the write pointer of a chunk.
fn reveal(shape: &FtlShape, info: ChunkInfo, rows: u32) -> Command {
    let sectors = rows * shape.superpage_sectors;
    let data = vec![0; sectors as usize * shape.image_bytes];
    // The sectors belong to no line, so they carry no signature.
    let metadata = vec![0; sectors as usize * meta::OOB_BYTES];
    let vector = Some(Box::new(Vector { metadata, ..Vector::default() }));
    let lba = Lba(info.start.0 + u64::from(info.write_pointer));
    Command { vector, ..Command::new(0, Opcode::Write, lba, sectors, data) }
}

/// Makes a read of single mapping units of the engine, with or without their out-of-band data.
fn vector_read(
    lines: &Lines,
    units: impl IntoIterator<Item = u32>,
    data: Vec<u8>,
    metadata: bool,
) -> Command {
    read_addresses(units.into_iter().map(|ppa| lines.address(Ppa(ppa))).collect(), data, metadata)
}

fn read_addresses(addresses: Vec<Lba>, data: Vec<u8>, metadata: bool) -> Command {
    let count = addresses.len();
    let metadata = if metadata { vec![0; count * meta::OOB_BYTES] } else { Vec::new() };
    let vector = Some(Box::new(Vector { addresses, metadata, ..Vector::default() }));
    Command { vector, ..Command::new(0, Opcode::Read, Lba(0), count as u32, data) }
}

/// Returns the sectors with a chunk's signatures: one of each readable row.
pub(super) fn owner_addresses(shape: &FtlShape, info: &ChunkInfo) -> impl Iterator<Item = Lba> + use<> {
    let (first, superpage) = (info.start.0, shape.superpage_sectors);
    let held = if info.state == ChunkState::Open { shape.held_rows } else { 0 };
    let rows = info.write_pointer.div_ceil(superpage).saturating_sub(held).min(Vector::ADDRESSES_MAX as u32);
    (0..rows).map(move |row| Lba(first + u64::from(row * superpage)))
}

/// Returns the address of sector `from` of a line's end.
fn end_sector(lines: &Lines, line: u32, from: u32) -> Lba {
    let shape = lines.shape();
    let superpage = shape.superpages() - shape.tail + from / shape.superpage_sectors;
    let (_, lba) = lines.place(BlockId(line), superpage);
    Lba(lba.0 + u64::from(from % shape.superpage_sectors))
}

/// Returns the number of sectors that one read covers from sector `from` of a line's data or end on: the
/// rest of its superpage.
pub(super) fn piece(shape: &FtlShape, from: u32) -> u32 {
    (shape.superpage_sectors - from % shape.superpage_sectors).min(Vector::ADDRESSES_MAX as u32)
}

/// Returns the first sector of each read that covers `sectors`.
fn pieces(shape: &FtlShape, sectors: u32) -> impl Iterator<Item = u32> + use<'_> {
    let next = |&from: &u32| Some(from + piece(shape, from));
    std::iter::successors(Some(0), next).take_while(move |&from| from < sectors)
}

/// Returns the number of superpages that a line's index describes, which precede the index; 0 if there is
/// none.
pub(super) fn indexed_superpages(shape: &FtlShape, facts: &Facts, line: u32) -> u32 {
    let used = facts.used(line);
    (1..used).rev().find(|&first| first + shape.record_superpages(first) == used).unwrap_or(0)
}

/// Returns the needs that make missing facts known; whole ends and scans are read in pieces.
pub(super) fn needs_of(core: &Core, facts: &mut Facts, missing: BTreeSet<Need>) -> Vec<Need> {
    let shape = core.lines.shape();
    let mut needs = Vec::new();
    for need in missing {
        match need {
            Need::End(line, _) => {
                let sectors = shape.tail * shape.superpage_sectors;
                needs.extend(pieces(shape, sectors).map(|from| Need::End(line, from)));
            }
            Need::Index(line, _) => {
                let superpages = facts.used(line) - indexed_superpages(shape, facts, line);
                let sectors = superpages * shape.superpage_sectors;
                needs.extend(pieces(shape, sectors).map(|from| Need::Index(line, from)));
            }
            Need::Scan(line, _) => scan(core, facts, line, &mut needs),
            // Neighbours in a superpage are read together.
            Need::MapPages(unit, _) => match needs.last_mut() {
                Some(Need::MapPages(first, count))
                    if *first + *count == unit
                        && *count < Vector::ADDRESSES_MAX as u32
                        && *first / shape.superpage_sectors == unit / shape.superpage_sectors =>
                {
                    *count += 1;
                }
                _ => needs.push(Need::MapPages(unit, 1)),
            },
            other => needs.push(other),
        }
    }
    needs
}

/// Adds a scan of every sector of a line below its chunks' write pointers.
fn scan(core: &Core, facts: &mut Facts, line: u32, needs: &mut Vec<Need>) {
    let (lines, shape) = (&core.lines, core.lines.shape());
    let sectors = shape.layout.units_per_block;
    if lacks_head(lines, facts, BlockId(line)) {
        facts.set_blind(line);
    }
    facts.know(line, Facts::unknown_pages((shape.layout.superpages_per_block, sectors)));
    let mut from = 0;
    while from < sectors {
        let piece = piece(shape, from);
        let (unit, lba) = lines.place(BlockId(line), from / shape.superpage_sectors + 1);
        let written = lines.chunk_of(BlockId(line), unit).is_some_and(|chunk| {
            let end = lba.0 - chunk.0 + u64::from(from % shape.superpage_sectors + piece);
            u64::from(facts.info(chunk).write_pointer) >= end
        });
        if written {
            needs.push(Need::Scan(line, from));
        }
        from += piece;
    }
}

/// Reports whether the chunk with the line's start is offline, so that the chunk's other content is also
/// unknown.
fn lacks_head(lines: &Lines, facts: &Facts, line: BlockId) -> bool {
    let chunk = lines.chunk_of(line, 0).and_then(|chunk| facts.chunk(chunk));
    chunk.is_some_and(|info| is_offline_head(lines.shape(), info))
}

/// Reports whether an offline chunk may have held the start of a line.
pub(super) fn is_offline_head(shape: &FtlShape, info: &ChunkInfo) -> bool {
    info.state == ChunkState::Offline && shape.unit_of(info.start).is_some_and(|(unit, _)| unit == 0)
}
