//! Trims: parts of dirty blocks are zeroed, clean copies are dropped, the backing store is trimmed, and dirty blocks are
//! dropped once that is durable (rule 6 of the [module above](super)).

use super::core::{Core, Effect, Next};
use super::op::{Part, Purpose, Side, Step};
use super::write::{backing_has_newer, fetch};
use pellucid_flash::slab::NIL;
use pellucid_flash::{CacheOp, Command, Lba, Opcode, Status};
use std::ops::Range;

/// Begins a trim: parts of dirty blocks are zeroed, clean copies are dropped, and the backing store is
/// trimmed.
pub(super) fn begin(core: &mut Core, op: u32) {
    let (from, to) = range_below(core, op);
    let (lba, last) = core.requests.op(op).sectors();
    let part = Part { op, slot: NIL, ..Part::default() };
    if lba < from {
        fetch(core, Part { lba, sectors: (from.min(last) - lba) as u32, ..part });
    }
    if to < last && to >= from {
        fetch(core, Part { lba: to, sectors: (last - to) as u32, ..part });
    }
    if from >= to {
        return;
    }
    let Range { start: first, end } = core.requests.op(op).blocks();
    let (first, end) = (
        (from / core.shape.block_sectors).max(first),
        to.div_ceil(core.shape.block_sectors).min(end).min(core.shape.blocks),
    );
    evict(core, op, first, end, false);
    evict_doubtful(core, op, first, end);
}

/// Drops the doubtful blocks of a range, which only a solid-state cache has.
fn evict_doubtful(core: &mut Core, op: u32, first: u64, end: u64) {
    let mut at = first;
    while let Some(block) = core.blocks.next_doubtful(at).filter(|&block| block < end) {
        at = block + 1;
        if !core.ends.is_detached() {
            let (lba, sectors) = (block * core.shape.block_sectors, core.shape.block_sectors as u32);
            let part = Part { op, purpose: Purpose::TrimEvict, lba, sectors, ..Part::default() };
            core.requests.send(
                Side::Flash,
                part,
                Command::new(0, Opcode::Cache(CacheOp::Evict), Lba(lba), sectors, Vec::new()),
            );
        }
    }
}

/// Returns the sectors of a trim for the backing store, without parts of dirty blocks.
fn range_below(core: &Core, op: u32) -> (u64, u64) {
    let (lba, last) = core.requests.op(op).sectors();
    let size = core.shape.block_sectors;
    let is_part =
        |block: u64| (lba > block * size || last < (block + 1) * size) && core.blocks.is_dirty(block);
    let (first, end) = (lba / size, (last - 1) / size);
    let from = if is_part(first) { (first + 1) * size } else { lba };
    let to = if is_part(end) { (end * size).max(from) } else { last };
    (from, to)
}

/// Drops the dirty blocks of a range, or all others, as `dirty` says.
fn evict(core: &mut Core, op: u32, first: u64, end: u64, dirty: bool) {
    let mut at = first;
    while at < end {
        let (is_dirty, count) = core.blocks.dirty_run(at, end - at);
        if is_dirty == dirty {
            drop_blocks(core, op, at..at + count);
        }
        at += count;
    }
}

/// Drops blocks: at once from a block drive, or by an eviction from a solid-state cache.
fn drop_blocks(core: &mut Core, op: u32, mut blocks: Range<u64>) {
    if !core.shape.is_ssc() {
        return blocks.by_ref().for_each(|block| core.blocks.trimmed(block));
    }
    if !core.ends.is_detached() {
        let (lba, sectors) = core.shape.sectors_of(blocks);
        let part = Part { op, purpose: Purpose::TrimEvict, lba, sectors, ..Part::default() };
        let evict = Command::new(0, Opcode::Cache(CacheOp::Evict), Lba(lba), sectors, Vec::new());
        core.requests.send(Side::Flash, part, evict);
    }
}

/// Handles the end of a part of a trim.
pub(super) fn ended(core: &mut Core, part: Part, status: Status) {
    if part.purpose == Purpose::TrimBacking {
        backing_has_newer(core, core.shape.blocks_in(part));
    }
    match part.purpose {
        Purpose::TrimEvict if status == Status::Success => {
            core.emit(Effect::FlashChanged);
            core.shape.blocks_in(part).for_each(|block| core.blocks.trimmed(block));
        }
        Purpose::TrimEvict => core.requests.count().flash_write_failed(),
        _ if status != Status::Success => core.requests.count().backing_write_failed(),
        _ => {}
    }
    if status != Status::Success {
        core.requests.op_mut(part.op).fail(status);
    }
}

/// Continues a trim whose parts have ended.
pub(super) fn goes_on(core: &mut Core, op: u32) -> Next {
    let record = core.requests.op(op);
    let step = record.step();
    if record.has_failed() || step == Step::Fill {
        core.requests.close(op);
        return Next::Nothing;
    }
    let (opcode, fua) = (record.command().opcode, record.command().fua);
    let (from, to) = range_below(core, op);
    let whole =
        from.div_ceil(core.shape.block_sectors)..(to / core.shape.block_sectors).min(core.shape.blocks);
    let part = Part { op, lba: from, sectors: 0, slot: NIL, ..Part::default() };
    match step {
        Step::Data if from < to => {
            core.requests.op_mut(op).go_to(Step::Backing);
            let part = Part { purpose: Purpose::TrimBacking, sectors: (to - from) as u32, ..part };
            let command = Command::new(0, opcode, Lba(from), part.sectors, Vec::new());
            core.requests.send(Side::Backing, part, command);
        }
        Step::Backing
            if whole.start < whole.end && core.blocks.any_dirty(whole.start, whole.end - whole.start) =>
        {
            core.requests.op_mut(op).go_to(Step::Flush);
            core.requests.send_flush(Side::Backing, Part { purpose: Purpose::TrimFlush, ..part });
        }
        Step::Flush => {
            core.requests.op_mut(op).go_to(Step::Mark);
            evict(core, op, whole.start, whole.end, true);
            if core.requests.op(op).is_settled() {
                return goes_on(core, op);
            }
        }
        _ if fua => {
            core.requests.op_mut(op).go_to(Step::Fill);
            return Next::Commit;
        }
        _ => core.requests.close(op),
    }
    Next::Nothing
}
