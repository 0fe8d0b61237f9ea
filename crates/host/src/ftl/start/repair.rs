//! Repair of the chunks that an earlier run left: their assignment to lines, the extent of each line, and the
//! padding of its holes.
//!
//! ```text
//!  starts of lines ─► claims: the newest line has a chunk ─┬─ has it ──► measured: ended, torn, or padded where there are holes
//!                                                          └─ none ────► reset (orphan), later one of a free line or a spare
//! ```
//! Invariants: a chunk belongs to at most one line; a line that continues has no hole below its last written
//! superpage.

use super::facts::{Facts, Known, UNREADABLE};
use super::lost;
use crate::ftl::core::Core;
use crate::ftl::line::End;
use crate::ftl::paths::{jobs, resets};
use crate::ftl::units::Job;
use pellucid_flash::{BlockId, ChunkInfo, ChunkState, Lba, Lpn};
use std::ops::Range;

/// Returns the chunks that belong to no line.
pub(super) fn orphans(facts: &mut Facts) -> Vec<Lba> {
    let owned = facts.settle_claims();
    let orphans = facts.chunks().filter(|info| lost::is_in_use(info) && !owned.contains(&info.start.0));
    orphans.map(|info| info.start).collect()
}

/// Gives the known lines their chunks, and pads holes. Returns the number of padding writes.
pub(super) fn measure_all(core: &mut Core, facts: &mut Facts) -> u32 {
    let found: Vec<u32> = facts.starts().keys().copied().collect();
    let mut padded = 0;
    for line in found {
        let (sequence, chunks) = facts.starts()[&line].clone();
        for (unit, chunk) in (0..).zip(&chunks) {
            core.lines.set_chunk(BlockId(line), unit, *chunk);
        }
        let infos: Vec<ChunkInfo> = chunks.iter().map(|&chunk| facts.info(chunk)).collect();
        let rows = counted_rows(core, &infos);
        core.lines[BlockId(line)].found(sequence, rows);
        padded += measure(core, facts, BlockId(line), &infos);
    }
    padded
}

/// Returns the superpages written to each chunk of a line, if they are counted.
fn counted_rows(core: &Core, infos: &[ChunkInfo]) -> Vec<u32> {
    let shape = core.lines.shape();
    if shape.sealing_rows() == 0 {
        return Vec::new();
    }
    // All sectors of a closed chunk are readable.
    let written = infos.iter().map(|info| match info.state {
        ChunkState::Free | ChunkState::Open => info.write_pointer / shape.superpage_sectors,
        _ => shape.rows,
    });
    written.collect()
}

/// Measures the extent of a line by the write pointers of its chunks, and pads the superpages that a
/// crash left out. Returns the number of padding writes.
fn measure(core: &mut Core, facts: &mut Facts, line: BlockId, infos: &[ChunkInfo]) -> u32 {
    let shape = core.lines.shape();
    let (units, superpage, held) = (shape.units, shape.superpage_sectors, shape.held_rows);
    let data = shape.layout.superpages_per_block;
    let reach = |(unit, info): (u32, &ChunkInfo)| match info.write_pointer.div_ceil(superpage) {
        0 => 0,
        rows => (rows - 1) * units + unit + 1,
    };
    let reached = (0..).zip(infos).map(reach).max().unwrap_or(0);
    let rows = |unit: u32| infos[unit as usize].write_pointer.div_ceil(superpage);
    let (tail, all) = (shape.tail, shape.superpages());
    if (all - tail..all).all(|at| rows(at % units) > at / units) {
        facts.set_ended(line.0, true);
    }
    let rows_below = |unit: u32| (reached + units - 1 - unit) / units;
    let holes = (0..).zip(infos).filter(|(unit, _)| rows(*unit) < rows_below(*unit));
    let holes: Vec<(u32, ChunkInfo)> = holes.map(|(unit, info)| (unit, *info)).collect();
    // A chunk that takes no more writes, for any reason, ends the line.
    let chunk_sectors = shape.geometry.chunk_sectors;
    let stuck = |info: &ChunkInfo| {
        let short = info.write_pointer < chunk_sectors;
        !info.write_pointer.is_multiple_of(superpage)
            || (short && !matches!(info.state, ChunkState::Free | ChunkState::Open))
            || info.state == ChunkState::Offline
    };
    // A rebuilt line has no readable start; it is read, but takes no more writes.
    let stuck = infos.iter().any(stuck) || facts.is_rebuilt(line.0);
    let mut count = 0;
    if reached > data || stuck {
        facts.set_used(line.0, data);
        // A full line without an end, because an earlier run began it, counts like one that is not full.
        if stuck || !holes.is_empty() || held > 0 {
            facts.tear(line.0);
        }
        let open = (0..).zip(infos).filter(|(_, info)| {
            info.state == ChunkState::Open && info.write_pointer.is_multiple_of(superpage)
        });
        for (unit, info) in open {
            let row = info.write_pointer / superpage;
            count += pad(core, line, unit, row..row + held);
        }
        return count;
    }
    for (unit, info) in holes {
        count += pad(core, line, unit, info.write_pointer / superpage..rows_below(unit));
    }
    let padded = if reached > 0 { (reached + held * units).min(all) } else { 0 };
    if padded > reached {
        facts.tear(line.0);
        for unit in 0..units {
            count += pad(core, line, unit, rows_below(unit)..rows_below(unit) + held);
        }
    }
    facts.set_used(line.0, padded.saturating_sub(1).min(data));
    count
}

/// Writes padding to the given rows of a line's chunk, up to the chunk's end. Returns the number of writes.
fn pad(core: &mut Core, line: BlockId, unit: u32, rows: Range<u32>) -> u32 {
    let units = core.lines.shape().units;
    let rows = rows.start..rows.end.min(core.lines.shape().rows);
    for row in rows.clone() {
        jobs::enqueue(core, unit, Job::Pad(line, row * units + unit));
    }
    rows.len() as u32
}

/// Assigns free chunks to unused lines; the remaining ones are spares.
pub(super) fn assign_chunks(core: &mut Core, facts: &Facts) {
    let (units, lines) = (core.lines.shape().units, core.lines.shape().lines());
    let mut free: Vec<Vec<Lba>> = vec![Vec::new(); units as usize];
    let owned = facts.owned();
    for info in facts.chunks().rev().filter(|info| info.state == ChunkState::Free) {
        let place = core.lines.shape().unit_of(info.start);
        if let Some((unit, _)) = place.filter(|_| !owned.contains(&info.start.0)) {
            free[unit as usize].push(info.start);
        }
    }
    for line in (0..lines).filter(|line| !facts.starts().contains_key(line)) {
        if free.iter().any(Vec::is_empty) {
            break;
        }
        for (unit, chunks) in (0..).zip(&mut free) {
            core.lines.set_chunk(BlockId(line), unit, chunks.pop().expect("each unit has a free chunk"));
        }
    }
    for (unit, chunks) in (0..).zip(free) {
        chunks.into_iter().for_each(|chunk| core.lines.add_spare(unit, chunk));
    }
}

/// Closes the lines whose padding failed.
pub(super) fn end_broken(core: &Core, facts: &mut Facts) {
    let data = core.lines.shape().layout.superpages_per_block;
    let lines: Vec<u32> = facts.starts().keys().copied().collect();
    for line in lines.into_iter().filter(|&line| core.lines[BlockId(line)].has_broken()) {
        facts.set_used(line, data);
        facts.tear(line);
    }
}

/// Finishes the partly written lines of an earlier run, except the one of each kind that continues.
pub(super) fn finish_closed(core: &mut Core, facts: &Facts) {
    for line in facts.starts().keys().map(|&line| BlockId(line)) {
        if core.ftl.blocks().takes_data(line) {
            continue;
        }
        match core.lines.shape().is_limited() {
            true => resets::seal(core, line),
            false => resets::seal_if_due(core, line),
        }
        for unit in 0..core.lines.shape().units {
            let chunk = core.lines.chunk_of(line, unit);
            if chunk.is_some_and(|lba| facts.info(lba).state == ChunkState::Open) {
                resets::finish_chunk(core, line, unit);
            }
        }
    }
}

/// Restores the content of the end for continued lines whose pages are all known, so that they get an end
/// like any other.
pub(super) fn go_on_with_lines(core: &mut Core, facts: &Facts) {
    for (&line, known) in facts.known() {
        let Known::Pages(sequences, pages) = known else { continue };
        let line_id = BlockId(line);
        let broken = core.lines[line_id].has_broken();
        if broken || !core.ftl.blocks().takes_data(line_id) || sequences[0] == 0 {
            continue;
        }
        let readable = |&page: &Lpn| if page == UNREADABLE { Lpn::NONE } else { page };
        let end = End { sequences: sequences.clone(), pages: pages.iter().map(readable).collect() };
        core.lines[line_id].go_on(facts.used(line), end);
    }
}
