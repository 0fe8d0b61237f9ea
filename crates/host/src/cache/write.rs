//! Writes.
//!
//! ```text
//!  block is       write-back                                 write-through, bypass, a full or failed flash
//!  dirty          flash, dirty                               flash, dirty
//!  clean, absent  flash, dirty                               drop the clean copy ─► backing store ─► (write-through: fill)
//!  a part of it   fetch the block, put the part in ─► flash  as above, without a fill
//!  lost           all of it: backing store, by force ─► clean     the same
//! ```
//! A lost block is never overwritten in its place: a flash whose mapping unit is larger than a block would have to read the rest of the
//! unit first. As nothing can be read of the older copy, rule 1 of the [module above](super) is not broken: a crash before the flash has
//! noted the new state finds the block lost still, or with its new data.
//!
//! If the flash refuses a block, it takes the path of the right column, unless it is dirty. If a cache full
//! of dirty blocks cannot even overwrite one, the write waits for cleaning.

use super::core::{Core, Effect, Next};
use super::op::{Kind, Part, Purpose, Side, Step};
use super::{CacheMode, RecordWrites, fill};
use pellucid_flash::slab::NIL;
use pellucid_flash::{CacheOp, Command, Lba, Opcode, Status, copy_images};
use std::ops::Range;

/// Path of a run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Writes to the flash: the slot of the first block, and whether it is dirty already.
    Flash(u32, bool),
    /// Writes a part of a block.
    Part,
    /// Writes to the backing store.
    Around,
    /// Writes a whole lost block to the backing store, which ends the loss.
    Replace,
}

/// Begins a write that holds its blocks.
pub(super) fn begin(core: &mut Core, op: u32) {
    core.requests.touch_runs(op);
    let record = core.requests.op(op);
    let (blocks, (lba, last)) = (record.blocks(), record.sectors());
    if record.bypasses() {
        core.requests.count().bypassed(blocks.end - blocks.start);
    }
    let mut run: Option<(Way, u64)> = None;
    for block in blocks {
        let from = (block * core.shape.block_sectors).max(lba);
        let way = way(core, op, block, from, last);
        run = match run {
            Some((before, start)) if joins(core, before, start, way, block) => Some((before, start)),
            Some((before, start)) => {
                send_run(core, op, before, start, from);
                Some((way, from))
            }
            None => Some((way, from)),
        };
    }
    let (way, start) = run.expect("a write has a block");
    send_run(core, op, way, start, last);
}

/// Chooses the path of a block of a write, which covers the sectors from `from` to before `last`.
fn way(core: &mut Core, op: u32, block: u64, from: u64, last: u64) -> Way {
    let is_dirty = core.blocks.is_dirty(block);
    let around = core.requests.op(op).bypasses()
        || core.shape.config.mode == CacheMode::WriteThrough
        || core.ends.takes_nothing_new();
    if block >= core.shape.blocks || (around && !is_dirty) {
        return Way::Around;
    }
    let is_whole = from == block * core.shape.block_sectors && last >= from + core.shape.block_sectors;
    if !is_whole {
        return Way::Part;
    }
    if core.blocks.any_lost(block..block + 1) && !core.requests.is_cleaned(block) {
        return Way::Replace;
    }
    match take_slot(core, block) {
        Some(slot) => Way::Flash(slot, is_dirty),
        None => Way::Around,
    }
}

/// Returns a slot for a block; `None` if its set has none.
pub(super) fn take_slot(core: &mut Core, block: u64) -> Option<u32> {
    let requests = &core.requests;
    let slot = core.blocks.take(block, |other| requests.is_taken(other));
    if slot.is_none() {
        core.requests.count().found_full();
        core.emit(Effect::Full(core.blocks.dirty_count()));
    }
    slot
}

/// Reports whether `block` with path `way` extends the run that begins at sector `start`.
fn joins(core: &Core, run: Way, start: u64, way: Way, block: u64) -> bool {
    match (run, way) {
        (Way::Around, Way::Around) => block != core.shape.blocks,
        (Way::Replace, Way::Replace) => true,
        (Way::Flash(NIL, was), Way::Flash(_, is)) => was == is,
        (Way::Flash(first, was), Way::Flash(slot, is)) => {
            was == is && u64::from(first) + block - start / core.shape.block_sectors == u64::from(slot)
        }
        _ => false,
    }
}

/// Returns the data of the sectors `from` to before `to` of a write, and whether they are the command's own
/// buffer, which is used if they are the whole command.
fn data_of(core: &mut Core, op: u32, from: u64, to: u64) -> (Vec<u8>, bool) {
    let (lba, end) = core.requests.op(op).sectors();
    if (from, to) == (lba, end) {
        return (core.requests.op_mut(op).take_data(), true);
    }
    let mut data = core.requests.buffer(to - from);
    let image = core.shape.image_bytes;
    let source = (from - lba) as usize * image..(to - lba) as usize * image;
    copy_images(&mut data, &core.requests.op(op).command().data[source]);
    (data, false)
}

fn send_run(core: &mut Core, op: u32, way: Way, from: u64, to: u64) {
    let part = Part { op, lba: from, sectors: (to - from) as u32, slot: NIL, ..Part::default() };
    match way {
        Way::Part => fetch(core, part),
        Way::Flash(slot, is_dirty) => {
            let (data, direct) = data_of(core, op, from, to);
            write_flash(core, Part { slot, direct, ..part }, is_dirty, data);
        }
        Way::Around => {
            let (data, direct) = data_of(core, op, from, to);
            go_around(core, Part { direct, ..part }, false, data);
        }
        Way::Replace => {
            let (data, direct) = data_of(core, op, from, to);
            let part = Part { purpose: Purpose::ReplaceLost, direct, ..part };
            let command = Command::new(0, Opcode::Write, Lba(from), part.sectors, data);
            core.requests.send(Side::Backing, part, Command { fua: true, ..command });
        }
    }
}

// ---- to the flash

fn write_flash(core: &mut Core, part: Part, is_dirty: bool, data: Vec<u8>) {
    let lba = core.shape.flash_lba(part.slot, part.lba);
    let (opcode, fua) = match (core.shape.is_ssc(), core.shape.config.records) {
        (true, _) => (Opcode::Cache(CacheOp::WriteDirty), false),
        (_, RecordWrites::EachWrite { force }) => (Opcode::Write, force),
        (_, RecordWrites::OnFlush) => (Opcode::Write, false),
    };
    core.blocks.rewritten(core.shape.blocks_in(part));
    let part = Part { purpose: Purpose::WriteFlash(is_dirty), ..part };
    let command = Command::new(0, opcode, lba, part.sectors, data);
    core.requests.send(Side::Flash, part, Command { fua, ..command });
}

pub(super) fn flash_written(core: &mut Core, part: Part, was_dirty: bool, status: Status, data: Vec<u8>) {
    core.emit(Effect::FlashChanged);
    if status == Status::Success {
        let blocks = core.shape.blocks_in(part);
        core.requests.count().wrote(blocks.end - blocks.start);
        let safe = matches!(core.shape.config.records, RecordWrites::EachWrite { .. });
        let new = core.blocks.dirtied(core.requests.now(), blocks, part.slot, safe);
        core.requests.count().dirtied(new);
        core.emit(Effect::Dirtied);
        return core.requests.put_back(part, data);
    }
    match status {
        Status::CacheFull => {
            core.requests.count().found_full();
            core.emit(Effect::Full(core.blocks.dirty_count()));
        }
        _ => core.requests.count().flash_write_failed(),
    }
    core.ends.write_failed(status);
    if !was_dirty {
        return go_around(core, part, status != Status::CacheFull, data);
    }
    if status == Status::CacheFull {
        // The write waits for cleaning.
        return core.requests.park(part, data);
    }
    core.requests.put_back(part, data);
    core.requests.op_mut(part.op).fail(status);
}

/// Writes once more what has waited for cleaned blocks.
pub(super) fn retry(core: &mut Core, part: Part, data: Vec<u8>) {
    write_flash(core, part, true, data);
}

/// Fails a write that has waited for cleaned blocks, as none will be cleaned soon.
pub(super) fn give_up(core: &mut Core, part: Part, data: Vec<u8>) {
    core.requests.put_back(part, data);
    core.requests.op_mut(part.op).fail(Status::WriteFault);
}

// ---- around it

/// Writes to the backing store; a solid-state cache evicts its blocks first. `after_failure`: it may hold
/// newer data than the manager knows.
fn go_around(core: &mut Core, part: Part, after_failure: bool, data: Vec<u8>) {
    let blocks = core.shape.blocks_in(part);
    if core.shape.is_ssc() && !blocks.is_empty() && !core.ends.is_detached() {
        let (first, count) = core.shape.sectors_of(blocks);
        let evict = Command::new(0, Opcode::Cache(CacheOp::Evict), Lba(first), count, Vec::new());
        let part = Part { purpose: Purpose::Evict(after_failure), ..part };
        core.requests.op_mut(part.op).put_aside(part.lba, data);
        return core.requests.send(Side::Flash, part, evict);
    }
    core.blocks.drop_clean(blocks);
    write_backing(core, part, data);
}

pub(super) fn evicted(core: &mut Core, part: Part, after_failure: bool, status: Status) {
    let data = core.requests.op_mut(part.op).take_aside(part.lba);
    if status == Status::Success {
        return write_backing(core, part, data);
    }
    core.requests.count().flash_write_failed();
    if after_failure {
        // The block may be dirty on the flash, or an older clean copy may be there.
        for block in core.shape.blocks_in(part) {
            core.blocks.found_dirty(core.requests.now(), block);
            core.blocks.doubt(core.requests.now(), block);
        }
    }
    core.requests.put_back(part, data);
    core.requests.op_mut(part.op).fail(status);
}

/// Notes blocks newly written to the backing store. It is called once they are written, because a flush
/// that began before may not cover them.
pub(super) fn backing_has_newer(core: &mut Core, blocks: Range<u64>) {
    core.emit(Effect::BackingChanged);
    if core.shape.keeps_clean() {
        core.blocks.newer_below(core.requests.now(), blocks);
    }
}

fn write_backing(core: &mut Core, part: Part, data: Vec<u8>) {
    let fua = core.shape.is_forced();
    let part = Part { purpose: Purpose::WriteBacking, ..part };
    let command = Command::new(0, Opcode::Write, Lba(part.lba), part.sectors, data);
    core.requests.send(Side::Backing, part, Command { fua, ..command });
}

pub(super) fn backing_written(core: &mut Core, part: Part, status: Status, data: Vec<u8>) {
    let op = part.op;
    let blocks = core.shape.blocks_in(part);
    if core.shape.is_forced() && status == Status::Success {
        core.emit(Effect::BackingChanged);
    } else {
        backing_has_newer(core, blocks.clone());
    }
    core.requests.count().went_around(blocks.end - blocks.start);
    if status != Status::Success {
        core.requests.count().backing_write_failed();
        core.requests.put_back(part, data);
        return core.requests.op_mut(op).fail(status);
    }
    let fills = core.shape.config.mode == CacheMode::WriteThrough
        && !core.requests.op(op).bypasses()
        && !core.ends.takes_nothing_new();
    if !fills {
        return core.requests.put_back(part, data);
    }
    fill::keep(core, part, data);
}

// ---- in place of lost blocks

/// Handles the end of a write of lost blocks to the backing store, which has them durably.
pub(super) fn replaced(core: &mut Core, part: Part, status: Status, data: Vec<u8>) {
    core.emit(Effect::BackingChanged);
    core.requests.put_back(part, data);
    let blocks = core.shape.blocks_in(part);
    core.requests.count().went_around(blocks.end - blocks.start);
    if status != Status::Success {
        core.requests.count().backing_write_failed();
        return core.requests.op_mut(part.op).fail(status);
    }
    if core.shape.is_ssc() {
        let part = Part { purpose: Purpose::EvictReplaced, direct: false, ..part };
        let evict = Command::new(0, Opcode::Cache(CacheOp::Evict), Lba(part.lba), part.sectors, Vec::new());
        return core.requests.send(Side::Flash, part, evict);
    }
    blocks.for_each(|block| core.blocks.trimmed(block));
    if core.shape.records_each_write() {
        // A write is promised with its records; these ones come with a commit.
        core.requests.op_mut(part.op).force();
    }
    core.emit(Effect::RecordsWanted);
}

/// Handles the end of an eviction of lost blocks that were replaced. They are lost still if it failed, and so is the write.
pub(super) fn replaced_evicted(core: &mut Core, part: Part, status: Status) {
    if status == Status::Success {
        core.emit(Effect::FlashChanged);
        return core.shape.blocks_in(part).for_each(|block| core.blocks.trimmed(block));
    }
    core.requests.count().flash_write_failed();
    core.requests.op_mut(part.op).fail(status);
}

// ---- a part of a block

/// Reads the block that a partial write changes.
pub(super) fn fetch(core: &mut Core, part: Part) {
    core.requests.count().wrote_part();
    let block = part.lba / core.shape.block_sectors;
    let slot = if core.shape.is_ssc() { Some(NIL) } else { core.blocks.touch(block) };
    let buffer = core.requests.buffer(core.shape.block_sectors);
    let (side, purpose, lba) = match slot {
        Some(slot) => {
            (Side::Flash, Purpose::FetchFlash, core.shape.flash_lba(slot, block * core.shape.block_sectors))
        }
        None => (Side::Backing, Purpose::FetchBacking, Lba(block * core.shape.block_sectors)),
    };
    let part = Part { purpose, ..part };
    core.requests.send(
        side,
        part,
        Command::new(0, Opcode::Read, lba, core.shape.block_sectors as u32, buffer),
    );
}

pub(super) fn fetched(core: &mut Core, part: Part, status: Status, mut data: Vec<u8>) {
    let block = part.lba / core.shape.block_sectors;
    let is_dirty = core.blocks.is_dirty(block);
    let first = block * core.shape.block_sectors;
    if status != Status::Success {
        match part.purpose {
            _ if status == Status::Absent => {}
            Purpose::FetchFlash => core.requests.count().flash_read_failed(),
            _ => core.requests.count().backing_read_failed(),
        }
        if is_dirty || part.purpose == Purpose::FetchBacking {
            core.requests.give_back(data);
            let status = if status == Status::Absent { Status::UnrecoveredRead } else { status };
            return core.requests.op_mut(part.op).fail(status);
        }
        let part = Part { purpose: Purpose::FetchBacking, ..part };
        return core.requests.send(
            Side::Backing,
            part,
            Command::new(0, Opcode::Read, Lba(first), core.shape.block_sectors as u32, data),
        );
    }
    let image = core.shape.image_bytes;
    let (at, bytes) = ((part.lba - first) as usize * image, part.sectors as usize * image);
    let command = core.requests.op(part.op).command();
    let from = (part.lba - command.lba.0) as usize * image;
    match command.data.get(from..from + bytes) {
        Some(source) => copy_images(&mut data[at..at + bytes], source),
        // Writes of zeros transfer no data.
        None => data[at..at + bytes].fill(0),
    }
    let part = Part { lba: first, sectors: core.shape.block_sectors as u32, ..part };
    match take_slot(core, block) {
        Some(slot) => write_flash(core, Part { slot, ..part }, is_dirty, data),
        None => go_around(core, part, false, data),
    }
}

// ---- on the way

/// Continues a write whose parts have ended.
pub(super) fn goes_on(core: &mut Core, op: u32) -> Next {
    let record = core.requests.op(op);
    let (step, failed, kind) = (record.step(), record.has_failed(), record.kind());
    match step {
        Step::Data if core.shape.records_each_write() => {
            core.requests.op_mut(op).go_to(Step::Mark);
            return Next::Records;
        }
        Step::Data | Step::Mark if !failed && record.command().fua => {
            core.requests.op_mut(op).go_to(Step::Flush);
            return Next::Commit;
        }
        Step::Data | Step::Mark | Step::Flush => {
            let fills = !failed && kind == Kind::Write;
            if !(fills && core.shape.config.await_fills) {
                core.requests.answer(op);
            }
            core.requests.op_mut(op).go_to(Step::Fill);
            if fills {
                fill::begin(core, op);
            }
            if core.requests.op(op).is_settled() {
                core.requests.close(op);
            }
        }
        _ => core.requests.close(op),
    }
    Next::Nothing
}
