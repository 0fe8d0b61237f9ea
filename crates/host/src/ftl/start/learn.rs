//! Facts that completions of the start's reads tell.

use super::ask;
use super::facts::{Facts, Known, UNREADABLE};
use super::needs::Need;
use crate::ftl::HostFtlError;
use crate::ftl::core::Core;
use crate::ftl::meta;
use crate::ftl::shape::FtlShape;
use pellucid_flash::{BlockId, Completion, Lba, Lpn, Status};
use pellucid_ftl::Durability;

/// Reports whether a command of the start was carried out.
pub(super) fn is_good(completion: &Completion) -> bool {
    matches!(completion.status, Status::Success | Status::HighEcc)
}

/// Processes the result of a need's command.
///
/// # Errors
/// The error says why the layer cannot start on this drive.
pub(super) fn learn(
    core: &Core,
    facts: &mut Facts,
    need: Need,
    completion: &Completion,
) -> Result<(), HostFtlError> {
    let shape = core.lines.shape();
    let ok = is_good(completion);
    match need {
        Need::Reveal(lba, rows) => {
            // If the write failed, the chunk is closed and readable, or its write pointer is after
            // the superpage all the same.
            let closes = !(ok || completion.status == Status::ChunkWriteFailed);
            facts.was_padded(lba, rows * shape.superpage_sectors, closes);
        }
        Need::Start(lba) if !ok => facts.lost_start(lba),
        Need::Start(lba) => return learn_start(core, facts, lba, &completion.data),
        Need::Owner(chunk) => facts.found_owner(chunk, owner_of(shape, completion)),
        Need::Stranger(chunk) if ok => return check_stranger(shape, chunk, completion),
        // Torn by a crash, as that of a line which was being begun may be.
        Need::Stranger(_) => {}
        Need::Head(line) => learn_head(shape, facts, line, if ok { &completion.data } else { &[] }),
        Need::End(line, from) => learn_end(shape, facts, line, from, completion),
        Need::Index(line, from) => learn_index(shape, facts, line, from, completion),
        Need::MapPages(first, count) => {
            let image = shape.image_bytes;
            for i in 0..count {
                let good = ok || (completion.result != 0 && completion.result >> i & 1 == 0);
                let place = i as usize * image..(i as usize + 1) * image;
                let bytes = completion.data.get(place).filter(|_| good).unwrap_or_default();
                facts.add_map_page(first + i, bytes.to_vec());
            }
        }
        Need::Edges(line) => learn_edges(shape, facts, line, completion),
        Need::Scan(line, from) => return learn_scan(shape, facts, line, from, completion),
    }
    Ok(())
}

fn learn_start(core: &Core, facts: &mut Facts, lba: Lba, data: &[u8]) -> Result<(), HostFtlError> {
    let shape = core.lines.shape();
    let uuid = shape.config.uuid;
    let header = meta::parse_start_header(data, uuid);
    if let Some(sentence) = header.and_then(|was| differs(core, &was)) {
        return Err(HostFtlError::Drive(sentence));
    }
    let found = meta::parse_start(data, uuid, shape.units);
    if let Some((header, chunks)) = found.filter(|(h, c)| h.line.0 < shape.lines() && c[0] == lba) {
        facts.found_start(header.line.0, header.first, chunks);
    }
    Ok(())
}

/// Returns the reason that a line's start cannot come from a layer configured like this one; its line
/// must then be neither used nor reset.
fn differs(core: &Core, was: &meta::Header) -> Option<String> {
    let (sectors, shape) = (core.ftl.user_units(), core.lines.shape());
    let [what, is, key] = match was {
        _ if was.count != shape.units => [
            format!("{} parallel units", was.count),
            format!("has {}", shape.units),
            "units or host.zone_log.width".into(),
        ],
        _ if was.sectors != 0 && was.sectors != sectors => {
            [format!("{} sectors", was.sectors), format!("has {sectors}"), "over_provisioning".into()]
        }
        // Flushed trims would be undone.
        _ if was.journal && shape.config.durability == Durability::Volatile => {
            ["a journal".into(), "has none".into(), "durability".into()]
        }
        _ => return None,
    };
    Some(format!(
        "a host FTL of {what} is on the drive, and this one {is}; allowed: the host.ftl.{key} that it was made with, or a drive without it"
    ))
}

/// Refuses a chunk of a layer with the same uuid at other parallel units: it belongs to no line here, and would be reset. Line headers are
/// in the first parallel unit, which holds nothing else.
fn check_stranger(shape: &FtlShape, chunk: Lba, completion: &Completion) -> Result<(), HostFtlError> {
    let uuid = shape.config.uuid;
    let is_first = shape.unit_of(chunk).is_some_and(|(unit, _)| unit == 0);
    let is_start = meta::parse_start_header(&completion.data, uuid).is_some();
    let is_elsewhere = match is_first {
        true => !is_start && owner_of(shape, completion).is_some(),
        false => is_start,
    };
    if !is_elsewhere {
        return Ok(());
    }
    Err(HostFtlError::Drive(format!(
        "a host FTL at other parallel units is on the drive, in the chunk at sector {}; allowed: the host.ftl.first_unit and host.ftl.units that \
         it was made with, or a drive without it",
        chunk.0
    )))
}

/// Returns the line and the newest sequence number that a chunk's signatures name, if they are readable.
fn owner_of(shape: &FtlShape, completion: &Completion) -> Option<(u32, u64)> {
    let oob = completion.vector.as_ref().map_or(&[][..], |vector| &vector.metadata);
    let signed = oob.chunks_exact(meta::OOB_BYTES).filter_map(|bytes| {
        (0..shape.lines()).find_map(|line| {
            let (_, sequence) = meta::parse_oob(bytes, shape.config.uuid, BlockId(line))?;
            Some((line, sequence))
        })
    });
    signed.reduce(|one, other| (one.0, one.1.max(other.1)))
}

fn learn_head(shape: &FtlShape, facts: &mut Facts, line: u32, data: &[u8]) {
    let (superpages, sectors) = (shape.layout.superpages_per_block, shape.layout.units_per_block);
    match meta::parse_end_header(data, shape.config.uuid, BlockId(line), superpages, sectors) {
        Some(h) => facts.know(line, Known::Range([(h.first_page, h.first), (Lpn::NONE, h.last)])),
        None => facts.set_ended(line, false),
    }
}

/// Returns a line's end or index of `sectors` once all its pieces have arrived.
fn gather(
    shape: &FtlShape,
    facts: &mut Facts,
    line: u32,
    from: u32,
    sectors: u32,
    completion: &Completion,
) -> Option<Vec<u8>> {
    let data = is_good(completion).then_some(&completion.data[..]);
    let sector_bytes = shape.geometry.sector_bytes as usize;
    facts.gather_record(line, (from, ask::piece(shape, from)), (sectors, sector_bytes), data)
}

fn learn_end(shape: &FtlShape, facts: &mut Facts, line: u32, from: u32, completion: &Completion) {
    let (superpages, sectors) = (shape.layout.superpages_per_block, shape.layout.units_per_block);
    let length = shape.tail * shape.superpage_sectors;
    let Some(bytes) = gather(shape, facts, line, from, length, completion) else { return };
    match meta::parse_end(&bytes, shape.config.uuid, BlockId(line), superpages, sectors) {
        Some(end) => facts.know(line, Known::Pages(end.sequences, end.pages)),
        None => facts.set_ended(line, false),
    }
}

fn learn_index(shape: &FtlShape, facts: &mut Facts, line: u32, from: u32, completion: &Completion) {
    let (first, superpage) = (ask::indexed_superpages(shape, facts, line), shape.superpage_sectors);
    let length = (facts.used(line) - first) * superpage;
    let Some(bytes) = gather(shape, facts, line, from, length, completion) else { return };
    match meta::parse_end(&bytes, shape.config.uuid, BlockId(line), first, first * superpage) {
        Some(mut index) => {
            index.sequences.resize(shape.layout.superpages_per_block as usize, 0);
            index.pages.resize(shape.layout.units_per_block as usize, UNREADABLE);
            facts.know(line, Known::Pages(index.sequences, index.pages));
        }
        None => facts.set_indexed(line, false),
    }
}

fn learn_edges(shape: &FtlShape, facts: &mut Facts, line: u32, completion: &Completion) {
    let oob = completion.vector.as_ref().map_or(&[][..], |vector| &vector.metadata);
    let edge = |at: usize| {
        // The format is that of a scan.
        let bytes = oob.get(at..at + meta::OOB_BYTES)?;
        // Padding has no sequence number.
        meta::parse_oob(bytes, shape.config.uuid, BlockId(line)).filter(|&(_, sequence)| sequence > 0)
    };
    let (Some(first), Some(last)) = (edge(0), edge(meta::OOB_BYTES)) else { return facts.tear(line) };
    facts.know(line, Known::Range([first, last]));
    // An interrupted stop leaves only a part of an index.
    if last.0 == meta::INDEX && ask::indexed_superpages(shape, facts, line) > 0 {
        facts.set_indexed(line, true);
    }
}

fn learn_scan(
    shape: &FtlShape,
    facts: &mut Facts,
    line: u32,
    from: u32,
    completion: &Completion,
) -> Result<(), HostFtlError> {
    let ok = is_good(completion);
    let sizes = (shape.layout.superpages_per_block, shape.layout.units_per_block);
    let (sequences, pages) = facts.scanned(line, sizes);
    let Some(vector) = &completion.vector else { return Ok(()) };
    let mut mute = false;
    for i in 0..ask::piece(shape, from) {
        // A failed sector may still have its signature. Its page then counts as unreadable,
        // because an older copy would be wrong.
        let at = i as usize * meta::OOB_BYTES;
        let oob = vector.metadata.get(at..at + meta::OOB_BYTES).unwrap_or_default();
        if let Some((page, sequence)) = meta::parse_oob(oob, shape.config.uuid, BlockId(line)) {
            pages[(from + i) as usize] = page;
            sequences[((from + i) / shape.superpage_sectors) as usize] = sequence;
        } else {
            let failed = !ok && (completion.result == 0 || completion.result >> i & 1 != 0);
            // A superpage torn by a crash also fails without a signature; a zone has none below
            // its write pointer.
            mute |= failed && shape.config.finish_chunks;
        }
    }
    match mute {
        true => Err(HostFtlError::Drive(format!(
            "what line {line} holds cannot be read from sector {from} of it on, and an older copy could be taken for the newest"
        ))),
        false => Ok(()),
    }
}
