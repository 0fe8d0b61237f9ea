//! Fills: whole blocks that the backing store has are copied to the flash, after the answer of the read or the write
//! that had their data, or before it (`await_fills`).

use super::core::Core;
use super::op::{Part, Purpose, Side};
use super::write::take_slot;
use pellucid_flash::slab::NIL;
use pellucid_flash::{CacheOp, Command, Opcode, Status, copy_images};

/// Keeps the data of a part for a fill; a command gets its buffer back.
pub(super) fn keep(core: &mut Core, part: Part, data: Vec<u8>) {
    let mut copy = data;
    if part.direct {
        let mut whole = core.requests.buffer(part.sectors.into());
        whole.copy_from_slice(&copy);
        std::mem::swap(&mut whole, &mut copy);
        core.requests.put_back(part, whole);
    }
    core.requests.op_mut(part.op).keep_fill(part.lba, copy);
}

/// Fills whole blocks that the backing store has and the cache lacks.
pub(super) fn begin(core: &mut Core, op: u32) {
    if !core.requests.op(op).has_fills() {
        return;
    }
    let mut fills = core.requests.op_mut(op).take_fills();
    for (lba, data) in fills.drain(..) {
        let sectors = (data.len() / core.shape.image_bytes) as u64;
        let blocks = lba.div_ceil(core.shape.block_sectors)
            ..((lba + sectors) / core.shape.block_sectors).min(core.shape.blocks);
        let mut at = blocks.start;
        while at < blocks.end {
            at = fill_run(core, op, at, blocks.end, lba, &data);
        }
        core.requests.give_back(data);
    }
    core.requests.op_mut(op).put_fills(fills);
}

/// Fills a run of blocks from `block` on; returns its end.
fn fill_run(core: &mut Core, op: u32, block: u64, end: u64, lba: u64, data: &[u8]) -> u64 {
    if !core.blocks.may_fill(block) {
        return block + 1;
    }
    let Some(slot) = take_slot(core, block) else { return block + 1 };
    let mut next = block + 1;
    while next < end && core.blocks.may_fill(next) {
        match take_slot(core, next) {
            Some(other) if slot == NIL || u64::from(other) == u64::from(slot) + next - block => next += 1,
            // The block already has a slot, and finds it again.
            _ => break,
        }
    }
    let sectors = (next - block) * core.shape.block_sectors;
    let mut buffer = core.requests.buffer(sectors);
    let from = (block * core.shape.block_sectors - lba) as usize * core.shape.image_bytes;
    let bytes = buffer.len();
    copy_images(&mut buffer, &data[from..from + bytes]);
    let opcode = if slot == NIL { Opcode::Cache(CacheOp::WriteClean) } else { Opcode::Write };
    let lba = block * core.shape.block_sectors;
    let part = Part { op, purpose: Purpose::Fill, lba, sectors: sectors as u32, slot, direct: false };
    let to = core.shape.flash_lba(slot, lba);
    core.requests.send(Side::Flash, part, Command::new(0, opcode, to, sectors as u32, buffer));
    next
}

pub(super) fn filled(core: &mut Core, part: Part, status: Status, data: Vec<u8>) {
    core.requests.give_back(data);
    let blocks = core.shape.blocks_in(part);
    if status == Status::Success {
        core.requests.count().filled(blocks.end - blocks.start);
    } else {
        if status != Status::CacheFull {
            core.requests.count().flash_write_failed();
        }
        core.ends.write_failed(status);
    }
    core.blocks.filled(blocks, part.slot, status == Status::Success);
}
