//! Ends of lines: chunks that accept no more data, the padding and end records written after them, and resets.
//!
//! ```text
//!  all data on the media ─► end written ─┐
//!  a chunk failed ─► finished, sealed ───┴─► empty ─► asked to be reset ─► nothing holds it ─► its chunks are reset ─► free, or retired
//! ```

use super::jobs;
use crate::ftl::core::Core;
use crate::ftl::line::Broken;
use crate::ftl::port::TAG_FINISH;
use crate::ftl::units::Job;
use pellucid_flash::{BlockId, Command, Opcode, Status, ZoneAction, ZoneOp};
use pellucid_ftl::Operation;

/// Handles a failed write: its chunk accepts no more data until the line is erased, and is then replaced
/// by a spare. After a power loss, or if the drive has too many open chunks, the chunk is reused
/// instead; its reset shows whether it is still good.
pub(super) fn chunk_failed(core: &mut Core, line: BlockId, unit: u32, status: Status) {
    core.counters.write_failed();
    let all = core.lines.shape().rows;
    let untouched = core.lines[line].rows(unit) == Some(0);
    // Either the drive has closed the chunk and all of it is readable, or the write pointer is after
    // the failed superpage.
    let behind = matches!(status, Status::ChunkWriteFailed | Status::PowerLoss);
    if core.lines[line].failed(unit, behind, all) {
        let stands_in = match status {
            Status::PowerLoss => core.lines.chunk_of(line, unit),
            Status::ChunkWriteInvalid if untouched => core.lines.chunk_of(line, unit),
            _ => core.lines.take_spare(unit),
        };
        core.lines[line].replace(unit, stands_in);
        finish_chunk(core, line, unit);
    }
}

/// Tells the drive that a chunk gets no more data, although it is not full. The chunk is not reset
/// before the drive has answered. The command does not queue behind the jobs of its parallel unit,
/// because these may themselves wait for space in the drive.
pub(in crate::ftl) fn finish_chunk(core: &mut Core, line: BlockId, unit: u32) {
    if core.lines.shape().config.finish_chunks
        && let Some(lba) = core.lines.chunk_of(line, unit)
    {
        core.lines[line].hold();
        core.counters.sent_command();
        let tag = TAG_FINISH | u64::from(line.0);
        core.port.send(Command::new(
            tag,
            Opcode::Zone(ZoneOp::Change(ZoneAction::Finish)),
            lba,
            0,
            Vec::new(),
        ));
    }
}

/// Finishes the remaining chunks of a line with broken ones, once all its data are written.
#[inline]
pub(super) fn finish_if_broken(core: &mut Core, line: BlockId) {
    let record = &core.lines[line];
    if record.has_broken() && !record.is_in_flight() {
        finish_others(core, line);
    }
}

#[cold]
fn finish_others(core: &mut Core, line: BlockId) {
    for unit in 0..core.lines.shape().units {
        if !core.lines[line].is_broken(unit) {
            finish_chunk(core, line, unit);
        }
    }
}

/// Writes the end of a line once all its data are on the media.
#[inline]
pub(super) fn write_end_if_due(core: &mut Core, line: BlockId) {
    let shape = core.lines.shape();
    let (data, tail) = (shape.layout.superpages_per_block, shape.tail);
    if !core.lines[line].begin_end(data, tail) {
        return;
    }
    let first = core.lines.shape().superpages() - tail;
    for part in 0..tail {
        let (unit, _) = core.lines.place(line, first + part);
        jobs::enqueue(core, unit, Job::End(line, part));
    }
}

/// Seals a line that gets no end, if the drive holds sectors back or limits open chunks. Such a line
/// either has a failed chunk and accepts no more data, or is full and was begun by an earlier run.
#[inline]
pub(in crate::ftl) fn seal_if_due(core: &mut Core, line: BlockId) {
    let shape = core.lines.shape();
    if core.lines[line].wants_seal(shape.layout.superpages_per_block, shape.units) {
        seal(core, line);
    }
}

/// Pads the chunks of an abandoned line: [`FtlShape::sealing_rows`](crate::ftl::shape::FtlShape::sealing_rows).
pub(in crate::ftl) fn seal(core: &mut Core, line: BlockId) {
    let shape = core.lines.shape();
    let (units, all, padding) = (shape.units, shape.rows, shape.sealing_rows());
    core.lines[line].seal();
    for unit in 0..units {
        let rows = core.lines[line].rows(unit).expect("the fill of chunks is counted");
        if rows == 0 {
            continue;
        }
        for row in rows..all.min(rows + padding) {
            core.lines[line].hold();
            jobs::enqueue(core, unit, Job::Pad(line, row * units + unit));
        }
    }
}

/// Handles the end of a part of a line's end.
pub(super) fn end_written(core: &mut Core, line: BlockId) {
    core.lines[line].part_of_end_written();
    // Sealing comes before the release of the hold, because its padding also holds the line.
    seal_if_due(core, line);
    if core.lines[line].release_end() {
        reset_if_due(core, line);
    }
}

/// Releases a hold of a line, which may be the last one before its reset.
#[inline]
pub(in crate::ftl) fn release(core: &mut Core, line: BlockId) {
    if core.lines[line].release() {
        reset_if_due(core, line);
    }
}

/// Asks for the reset of a line; its chunks are reset once nothing uses them.
pub(super) fn reset(core: &mut Core, line: BlockId, retiring: bool) {
    core.lines[line].ask_reset(retiring);
    reset_if_due(core, line);
}

#[inline]
fn reset_if_due(core: &mut Core, line: BlockId) {
    let units = core.lines.shape().units;
    if let Some(broken) = core.lines[line].begin_reset(units + 1) {
        begin_reset(core, line, &broken);
    }
}

fn begin_reset(core: &mut Core, line: BlockId, broken: &Broken) {
    core.counters.erased_line();
    for unit in 0..core.lines.shape().units {
        let own = core.lines.chunk_of(line, unit);
        let next = broken.next_chunk(unit, own);
        if next == own {
            jobs::enqueue(core, unit, Job::Reset(line));
        } else {
            core.lines.replace_chunk(line, unit, next);
            let done = core.lines[line].part_reset();
            assert_eq!(done, None, "a line is reset before its last chunk");
        }
    }
    chunk_reset(core, line);
}

/// Handles the end of the reset of a chunk.
pub(super) fn reset_ended(core: &mut Core, line: BlockId, unit: u32, ok: bool) {
    if !ok {
        core.counters.reset_failed();
        let spare = core.lines.take_spare(unit);
        core.lines.replace_chunk(line, unit, spare);
    }
    chunk_reset(core, line);
}

/// Notes one completed part of a line's reset. After the last one the line is free, or retired.
fn chunk_reset(core: &mut Core, line: BlockId) {
    let Some(retiring) = core.lines[line].part_reset() else { return };
    core.work.moved();
    let whole = core.lines.is_whole(line);
    if retiring || !whole {
        core.lines.dissolve(line);
    }
    if !retiring {
        core.ftl.set_now(core.port.now());
        core.ftl.ended(Operation::Erase(line), whole);
    }
    core.note_wear();
    if core.lines.shape().is_limited() {
        // The line's chunks are no longer open.
        jobs::kick_all(core);
    }
}
