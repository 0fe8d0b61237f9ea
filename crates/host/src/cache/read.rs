//! Reads: cached blocks come from the flash, others from the backing store; the latter are filled into the
//! cache after the answer.
//!
//! The block backend knows its cached blocks. A solid-state cache is asked: a read that finds no block ends
//! with `Absent`; if some blocks may be cached, their states are asked for. A sequential stream reads only
//! dirty blocks from a solid-state cache. A fill needs exclusive use of the read's blocks, so no write comes
//! between the read of the backing store and the fill.

use super::core::Core;
use super::fill;
use super::op::{Part, Purpose, Side, Step, is_loss};
use super::shape::Backend;
use pellucid_flash::slab::NIL;
use pellucid_flash::{CacheOp, CacheState, Command, Lba, Opcode, Status};

/// Begins a read that holds its blocks.
pub(super) fn begin(core: &mut Core, op: u32) {
    let record = core.requests.op(op);
    let (blocks, (lba, end), bypasses) = (record.blocks(), record.sectors(), record.bypasses());
    if bypasses {
        core.requests.count().bypassed(blocks.end - blocks.start);
    }
    if core.ends.is_detached() {
        return read_backing(core, op, lba, end);
    }
    match &core.shape.backend {
        Backend::Block(_) => read_slots(core, op, lba, end),
        Backend::Ssc(_) if bypasses || core.ends.is_read_only() => read_known(core, op, lba, end),
        Backend::Ssc(_) => {
            // Sectors after the last block are never cached.
            let cached = end.min(core.shape.blocks * core.shape.block_sectors);
            if lba < cached {
                read_flash(core, op, lba, cached, NIL);
            }
            if cached.max(lba) < end {
                read_backing(core, op, cached.max(lba), end);
            }
        }
    }
}

/// Reads with the block backend: runs of adjacent slots, and runs of blocks that are not cached.
fn read_slots(core: &mut Core, op: u32, lba: u64, end: u64) {
    let mut at = lba;
    while at < end {
        let first = core.blocks.touch(at / core.shape.block_sectors);
        let (from, mut next) = (at, at);
        loop {
            next = core.shape.block_end(next, end);
            if next == end {
                break;
            }
            let slot = core.blocks.touch(next / core.shape.block_sectors);
            let follows = match (first, slot) {
                (None, None) => true,
                (Some(first), Some(slot)) => {
                    u64::from(slot - first.min(slot))
                        == next / core.shape.block_sectors - from / core.shape.block_sectors
                }
                _ => false,
            };
            if !follows {
                break;
            }
        }
        match first {
            Some(slot) => read_flash(core, op, from, next, slot),
            None => read_backing(core, op, from, next),
        }
        at = next;
    }
}

/// Reads with a solid-state cache: dirty blocks from the flash, the others from the backing store, which
/// has them too.
fn read_known(core: &mut Core, op: u32, lba: u64, end: u64) {
    let mut at = lba;
    while at < end {
        let block = at / core.shape.block_sectors;
        let blocks = (end - 1) / core.shape.block_sectors + 1 - block;
        let (is_dirty, count) = core.blocks.dirty_run(block, blocks);
        let next = ((block + count) * core.shape.block_sectors).min(end);
        match is_dirty {
            true => read_flash(core, op, at, next, NIL),
            false => read_backing(core, op, at, next),
        }
        at = next;
    }
}

fn read_flash(core: &mut Core, op: u32, lba: u64, end: u64, slot: u32) {
    // A solid-state cache is read in whole blocks.
    let (from, to) = match &core.shape.backend {
        Backend::Block(_) => (lba, end),
        Backend::Ssc(_) => (
            lba / core.shape.block_sectors * core.shape.block_sectors,
            end.next_multiple_of(core.shape.block_sectors),
        ),
    };
    read(core, op, Side::Flash, from, to, slot);
}

fn read_backing(core: &mut Core, op: u32, lba: u64, end: u64) {
    let blocks =
        lba / core.shape.block_sectors..end.div_ceil(core.shape.block_sectors).min(core.shape.blocks);
    if core.blocks.may_be_lost(blocks) {
        core.requests.count().flash_read_failed();
        return core.requests.op_mut(op).fail(Status::UnrecoveredRead);
    }
    // A fill needs whole blocks.
    let (from, to) = match may_fill(core, op) {
        true => {
            let to = end.next_multiple_of(core.shape.block_sectors).min(core.shape.sectors);
            (lba / core.shape.block_sectors * core.shape.block_sectors, to)
        }
        false => (lba, end),
    };
    read(core, op, Side::Backing, from, to, NIL);
}

fn may_fill(core: &Core, op: u32) -> bool {
    !core.requests.op(op).bypasses() && !core.ends.takes_nothing_new()
}

fn read(core: &mut Core, op: u32, side: Side, from: u64, to: u64, slot: u32) {
    let wants = side == Side::Backing && may_fill(core, op);
    let record = core.requests.op_mut(op);
    let is_all = (from, to) == record.sectors();
    // The cache may need the data even if the caller does not.
    let direct = is_all && !(wants && record.command().data.is_empty());
    let data = if direct { record.take_data() } else { core.requests.buffer(to - from) };
    let (lba, purpose) = match side {
        Side::Flash => (core.shape.flash_lba(slot, from), Purpose::ReadFlash),
        Side::Backing => (Lba(from), Purpose::ReadBacking),
    };
    let sectors = (to - from) as u32;
    let part = Part { op, purpose, lba: from, sectors, slot, direct };
    core.requests.send(side, part, Command::new(0, Opcode::Read, lba, sectors, data));
}

pub(super) fn flash_read(core: &mut Core, part: Part, status: Status, first: u64, data: Vec<u8>) {
    if status == Status::Success {
        core.requests.count().hit(core.shape.blocks_of(part));
        let (block, size) = (part.lba / core.shape.block_sectors, core.shape.block_sectors);
        if part.lba.is_multiple_of(size) && u64::from(part.sectors).is_multiple_of(size) {
            core.blocks.was_read(block..block + core.shape.blocks_of(part));
        }
        if !part.direct {
            deliver(core, part, &data);
        }
    }
    core.requests.put_back(part, data);
    if status != Status::Success {
        not_from_flash(core, part, status, first);
    }
}

/// Handles a failed read from the flash.
fn not_from_flash(core: &mut Core, part: Part, status: Status, first: u64) {
    let op = part.op;
    let block = part.lba / core.shape.block_sectors;
    let blocks = core.shape.blocks_of(part);
    if status != Status::Absent {
        core.requests.count().flash_read_failed();
    }
    if core.blocks.any_dirty(block, blocks) && (status != Status::Absent || blocks == 1) {
        // Only the flash has the data. If there are several blocks, each is tried alone.
        if blocks == 1 {
            if is_loss(status) {
                core.blocks.lose(core.requests.now(), block);
            }
            let status = if status == Status::Absent { Status::UnrecoveredRead } else { status };
            return core.requests.op_mut(op).fail(status);
        }
        return read_each(core, part);
    }
    let (from, end) = wanted(core, part);
    if status == Status::Absent && blocks > 1 && first < blocks && core.requests.op(op).step() == Step::Data {
        // The cache is asked which blocks it holds.
        let part = Part { purpose: Purpose::ReadStates, ..part };
        let (lba, data) = (core.shape.flash_lba(part.slot, part.lba), core.requests.buffer(0));
        return core.requests.send(
            Side::Flash,
            part,
            Command::new(0, Opcode::Cache(CacheOp::Exists), lba, part.sectors, data),
        );
    }
    if status == Status::Absent {
        return read_backing(core, op, from, end);
    }
    // The backing store has the block too.
    core.blocks.drop_clean(block..block + blocks);
    read_backing(core, op, from, end);
}

/// Returns the sectors of a part that its command needs.
fn wanted(core: &Core, part: Part) -> (u64, u64) {
    let (lba, end) = core.requests.op(part.op).sectors();
    (part.lba.max(lba), (part.lba + u64::from(part.sectors)).min(end))
}

/// Copies the data of a part to their destination in its command.
fn deliver(core: &mut Core, part: Part, data: &[u8]) {
    core.requests.op_mut(part.op).deliver(part.lba, part.sectors, data, core.shape.image_bytes);
}

/// Reads the blocks of a part one by one.
fn read_each(core: &mut Core, part: Part) {
    let (from, end) = wanted(core, part);
    let mut at = from;
    while at < end {
        let next = core.shape.block_end(at, end);
        let block = at / core.shape.block_sectors;
        let slot = if core.shape.is_ssc() { Some(NIL) } else { core.blocks.find(block) };
        match slot {
            Some(slot) => read_flash(core, part.op, at, next, slot),
            None => read_backing(core, part.op, at, next),
        }
        at = next;
    }
}

/// Reads the blocks whose states a solid-state cache has returned. A clean block may have been evicted
/// meanwhile; it is then looked up again.
pub(super) fn states_read(core: &mut Core, part: Part, status: Status, states: Vec<u8>) {
    let (from, end) = wanted(core, part);
    if status != Status::Success || states.len() as u64 != core.shape.blocks_of(part) {
        core.requests.count().flash_read_failed();
        core.requests.give_back(states);
        // Each block is read alone, so that no further question is needed.
        return read_each(core, part);
    }
    let first = part.lba / core.shape.block_sectors;
    let mut at = from;
    while at < end {
        let is_there =
            |at: u64| states[(at / core.shape.block_sectors - first) as usize] != CacheState::Absent as u8;
        let there = is_there(at);
        let mut next = at;
        while next < end && is_there(next) == there {
            next = core.shape.block_end(next, end);
        }
        match there {
            true => read_flash(core, part.op, at, next, NIL),
            false => read_backing(core, part.op, at, next),
        }
        at = next;
    }
    core.requests.give_back(states);
}

pub(super) fn backing_read(core: &mut Core, part: Part, status: Status, data: Vec<u8>) {
    let op = part.op;
    if status != Status::Success {
        core.requests.count().backing_read_failed();
        core.requests.put_back(part, data);
        return core.requests.op_mut(op).fail(status);
    }
    core.requests.count().missed(core.shape.blocks_of(part));
    if !part.direct {
        deliver(core, part, &data);
    }
    if !may_fill(core, op) {
        return core.requests.put_back(part, data);
    }
    fill::keep(core, part, data);
}

/// Continues a read whose parts have ended.
pub(super) fn goes_on(core: &mut Core, op: u32) {
    let record = core.requests.op(op);
    if record.step() == Step::Data {
        let fills = !record.has_failed() && record.has_fills();
        if !(fills && core.shape.config.await_fills) {
            core.requests.answer(op);
        }
        if fills && !core.ends.takes_nothing_new() && core.requests.upgrade(op) {
            core.requests.op_mut(op).go_to(Step::Fill);
            fill::begin(core, op);
            if !core.requests.op(op).is_settled() {
                return;
            }
        }
    }
    core.requests.close(op);
}
