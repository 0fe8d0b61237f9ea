//! The writer of each block: one command at a time.
//!
//! ```text
//!   queue ─► continues at the buffer's end? ─ yes ─► buffer ─► whole pages ─► top piece
//!              └─ no ─► the buffer is padded and written; a new top piece, if the open one does not end before
//!                         └─► copies up to there ─► mid-page: the data before the buffer are prepended
//! ```

use super::core::Core;
use super::gc;
use super::link::{Fetch, Purpose};
use super::oob;
use super::requests::Part;
use pellucid_flash::{Command, Completion, Opcode, Status, Vector};

/// Maximum sectors of a copy or a write.
const COPY_MAX: u32 = 64;
const WRITE_MAX: u32 = 4096;

/// Result of an examination of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Something was done; examine again.
    Again,
    /// The writer waits for a command, or for a chunk.
    Waits,
    /// There is nothing to do.
    Rests,
}

/// Adds a change to a block.
pub(super) fn change(core: &mut Core, logical: u32, part: Part) {
    core.blocks.change(logical, part);
    go_on(core, logical);
}

/// Does everything possible for a block now.
pub(super) fn go_on(core: &mut Core, logical: u32) {
    while !core.blocks[logical].is_busy() {
        let drain = core.blocks[logical].is_awaited();
        let mut look = write_buffer(core, logical, drain);
        if look == Look::Rests {
            look = next_change(core, logical);
        }
        // A block that waits for a chunk can still be merged.
        if look == Look::Rests || (look == Look::Waits && !core.blocks[logical].is_busy()) {
            look = merge(core, logical);
        }
        if look != Look::Again {
            break;
        }
    }
    gc::erase_garbage(core);
}

/// Writes the whole pages of the buffer, or (`drain`) all of it.
fn write_buffer(core: &mut Core, logical: u32, drain: bool) -> Look {
    let (image, unit) = (core.shape.image(), core.shape.unit());
    let block = &core.blocks[logical];
    let (from, held) = (block.buffer.from(), block.buffer.held(image));
    if block.is_stuck() {
        return Look::Rests;
    }
    if held < unit && !(drain && held > 0) {
        return acknowledge(core, logical);
    }
    if prepare(core, logical, from) != Look::Rests {
        let block = &core.blocks[logical];
        return if block.is_busy() || block.is_starved() { Look::Waits } else { Look::Again };
    }
    let end = core.blocks[logical].buffer.end(image);
    if held < unit || (drain && !end.is_multiple_of(unit) && held < WRITE_MAX) {
        return pad(core, logical, end);
    }
    let sectors = held.min(WRITE_MAX) / unit * unit;
    let mut data = core.link.buffer();
    data.clear();
    let buffer = &core.blocks[logical].buffer;
    data.extend_from_slice(buffer.images(buffer.from(), sectors, image));
    store(core, logical, data, sectors, false);
    Look::Waits
}

/// Acknowledges the change of a buffer with less than a page; if the buffer is empty, also acknowledges the changes that wait for this.
fn acknowledge(core: &mut Core, logical: u32) -> Look {
    let block = &mut core.blocks[logical];
    if let Some(part) = block.buffer.take_taken() {
        match core.requests.command(part.request).fua && !block.buffer.is_empty() {
            true => block.await_empty(part.request),
            false => core.requests.part_done(core.now, part.request, None),
        }
        return Look::Again;
    }
    if block.buffer.is_empty() {
        for request in block.take_awaited() {
            core.requests.part_done(core.now, request, None);
        }
    }
    Look::Rests
}

/// Makes the top piece end at `to`, in mid-page by extending the buffer. `Rests`: it does.
fn prepare(core: &mut Core, logical: u32, to: u32) -> Look {
    let Some(top) = core.blocks[logical].pieces.top_for(to) else {
        // Data in the buffer may be acknowledged, so they may use the reserve.
        return match begin_piece(core, logical, false) {
            true => Look::Again,
            false => {
                gc::starve(core, logical);
                Look::Waits
            }
        };
    };
    let unit = core.shape.unit();
    match to - top.ends {
        0 => Look::Rests,
        before if before < unit => put_before(core, logical, top.ends, before),
        _ => copy(core, logical, to / unit * unit),
    }
}

/// Starts a new top piece; `false`: no chunk is available.
fn begin_piece(core: &mut Core, logical: u32, for_application: bool) -> bool {
    let Some(chunk) = core.chunks.take(for_application) else { return false };
    let covered = core.blocks.begin_piece(logical, chunk);
    gc::discard(core, logical, covered, false);
    true
}

/// Copies some of the data below the top piece to it, up to `target`.
fn copy(core: &mut Core, logical: u32, target: u32) -> Look {
    let pieces = &core.blocks[logical].pieces;
    let ends = pieces.top().expect("a copy goes to a piece").ends;
    let unit = core.shape.unit();
    let most = target.min(ends + COPY_MAX.max(unit) / unit * unit);
    match pieces.below(ends) {
        Some(piece) => fetch(core, logical, piece.chunk, ends, most.min(piece.ends) - ends, Fetch::Copy),
        None => {
            let mut data = core.link.buffer();
            data.clear();
            data.resize(core.shape.images(most - ends), 0);
            store(core, logical, data, most - ends, true);
        }
    }
    Look::Waits
}

fn put_before(core: &mut Core, logical: u32, sector: u32, sectors: u32) -> Look {
    match core.blocks[logical].pieces.below(sector) {
        Some(piece) => {
            fetch(core, logical, piece.chunk, sector, sectors, Fetch::Before);
            Look::Waits
        }
        None => {
            let zeros = vec![0; core.shape.images(sectors)];
            core.blocks[logical].buffer.put_before(&zeros, core.shape.image());
            Look::Again
        }
    }
}

/// Extends the buffer to the end of a page.
fn pad(core: &mut Core, logical: u32, end: u32) -> Look {
    let sectors = end.next_multiple_of(core.shape.unit()) - end;
    match core.blocks[logical].pieces.below(end) {
        Some(piece) => {
            fetch(core, logical, piece.chunk, end, sectors, Fetch::Behind);
            Look::Waits
        }
        None => {
            core.blocks[logical].buffer.put_zeros_behind(sectors, core.shape.image());
            Look::Again
        }
    }
}

fn fetch(core: &mut Core, logical: u32, chunk: u32, sector: u32, sectors: u32, what: Fetch) {
    let mut data = core.link.buffer();
    data.resize(core.shape.images(sectors), 0);
    core.chunks.begin_read(chunk);
    core.blocks[logical].begin_command();
    let command = Command::new(0, Opcode::Read, core.shape.lba(chunk, sector), sectors, data);
    core.link.send(Purpose::Fetch { logical, chunk, what }, command);
}

/// Handles data that the writer of a block has read.
pub(super) fn fetched(core: &mut Core, logical: u32, chunk: u32, what: Fetch, completion: &mut Completion) {
    core.chunks.end_read(chunk);
    core.blocks[logical].end_command();
    let image = core.shape.image();
    let buffer = &mut core.blocks[logical].buffer;
    if !matches!(completion.status, Status::Success | Status::HighEcc) {
        core.tally.lost_read();
        copy_fails(core, logical);
    } else {
        match what {
            Fetch::Copy => {
                let data = std::mem::take(&mut completion.data);
                let sectors = (data.len() / image) as u32;
                store(core, logical, data, sectors, true);
            }
            Fetch::Before => buffer.put_before(&completion.data, image),
            Fetch::Behind => buffer.put_behind(&completion.data),
        }
    }
    go_on(core, logical);
}

/// Writes to the end of the top piece.
fn store(core: &mut Core, logical: u32, data: Vec<u8>, sectors: u32, copy: bool) {
    let block = &mut core.blocks[logical];
    block.begin_command();
    let top = block.pieces.top().expect("a write has its piece");
    core.chunks.begin_write(top.chunk);
    let oob = oob::encode(logical, core.shape.id, top.sequence);
    let mut vector = core.link.vector();
    vector.metadata.reserve(sectors as usize * Vector::METADATA_BYTES);
    (0..sectors).for_each(|_| vector.metadata.extend_from_slice(&oob));
    let command = Command::new(0, Opcode::Write, core.shape.lba(top.chunk, top.ends), sectors, data);
    core.link.send(Purpose::Store { logical, copy }, Command { vector: Some(vector), ..command });
}

/// Handles the end of a write of a block.
pub(super) fn stored(core: &mut Core, logical: u32, copy: bool, completion: &mut Completion) {
    let image = core.shape.image();
    let sectors = (completion.data.len() / image) as u32;
    let block = &mut core.blocks[logical];
    core.chunks.end_write(block.pieces.top().expect("a write has its piece").chunk);
    block.end_command();
    if completion.status == Status::Success {
        let covered = block.pieces.grow(sectors, core.shape.length());
        if !copy {
            block.buffer.written(sectors, image);
        }
        core.tally.programmed(sectors, copy);
        core.health.written();
        gc::discard(core, logical, covered, false);
    } else {
        core.tally.write_failure();
        block.pieces.close_top();
        if core.health.write_failed() {
            block.stick();
            fail_changes(core, logical);
        }
    }
    go_on(core, logical);
}

/// Makes the next change of a block, into the buffer.
fn next_change(core: &mut Core, logical: u32) -> Look {
    let block = &core.blocks[logical];
    let Some(part) = block.next_change() else { return Look::Rests };
    if block.is_stuck() {
        fail_changes(core, logical);
        return Look::Rests;
    }
    let zeros = core.requests.command(part.request).opcode != Opcode::Write;
    let image = core.shape.image();
    let held = block.buffer.held(image);
    if held > 0 && block.buffer.end(image) != part.first {
        return write_buffer(core, logical, true);
    }
    if zeros && is_whole(core, logical, part) {
        return match held {
            0 => trim(core, logical, part),
            _ => write_buffer(core, logical, true),
        };
    }
    if zeros && held == 0 && block.pieces.reach() <= part.first {
        core.blocks[logical].take_change();
        core.requests.part_done(core.now, part.request, None);
        return Look::Again;
    }
    // A chunk must be available before the data are taken in.
    if held == 0 && block.pieces.top_for(part.first).is_none() && !begin_piece(core, logical, true) {
        gc::starve(core, logical);
        return Look::Waits;
    }
    let block = &mut core.blocks[logical];
    let images = (!zeros).then(|| core.requests.images(part, image));
    block.buffer.take_in(part, images, image);
    block.take_change();
    Look::Again
}

fn is_whole(core: &Core, logical: u32, part: Part) -> bool {
    let length = u64::from(core.shape.length());
    let left = core.shape.sectors - u64::from(logical) * length;
    part.first == 0 && u64::from(part.sectors) == length.min(left)
}

/// Trims a whole block.
fn trim(core: &mut Core, logical: u32, part: Part) -> Look {
    let block = &mut core.blocks[logical];
    block.take_change();
    let pieces = block.trim();
    gc::discard(core, logical, pieces, true);
    core.requests.part_done(core.now, part.request, None);
    Look::Again
}

/// Copies the rest of a block that is being merged.
fn merge(core: &mut Core, logical: u32) -> Look {
    if !core.blocks.is_merging(logical) {
        return Look::Rests;
    }
    let block = &core.blocks[logical];
    let top = block.pieces.top().filter(|_| block.pieces.count() > 1 && block.can_be_merged());
    match top {
        Some(_) if !block.buffer.is_empty() => write_buffer(core, logical, true),
        Some(top) if top.open => {
            let reach = block.pieces.reach();
            copy(core, logical, reach)
        }
        Some(_) if begin_piece(core, logical, false) => Look::Again,
        _ => {
            gc::merged(core);
            Look::Rests
        }
    }
}

/// Fails the block: data to copy cannot be read.
fn copy_fails(core: &mut Core, logical: u32) {
    let image = core.shape.image();
    let block = &mut core.blocks[logical];
    block.cannot_be_copied();
    if block.buffer.is_empty() {
        return;
    }
    match block.buffer.drop_all(image) {
        // Nothing in the buffer was acknowledged.
        Some(part) => core.requests.part_done(core.now, part.request, Some(Status::WriteFault)),
        None => {
            block.stick();
            fail_changes(core, logical);
        }
    }
}

/// Fails everything that waits for a block that cannot be written.
pub(super) fn fail_changes(core: &mut Core, logical: u32) {
    for request in core.blocks[logical].give_up_changes(core.shape.image()) {
        core.requests.part_done(core.now, request, Some(Status::WriteFault));
    }
}
