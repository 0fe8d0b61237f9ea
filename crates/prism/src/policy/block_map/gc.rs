//! GC: merging blocks to free chunks, and erases.
//!
//! ```text
//!   a block needs a chunk ─► more than RESERVE free? ─ yes ─► the LUN with most of them
//!                               └─ no ─► it waits; GC merges a block ─► its older pieces are garbage ─► erased ─► free ─► retried
//! ```
//! The reserve is for blocks whose top piece has failed, so that their buffers can be written and merges can continue.

use super::chunks::Garbage;
use super::core::Core;
use super::link::Purpose;
use super::pieces::Piece;
use super::write;
use crate::policy::Gc;
use pellucid_flash::{ChunkOp, Command, Opcode, SimTime, Status};

/// Makes a block wait for a free chunk.
pub(super) fn starve(core: &mut Core, logical: u32) {
    core.blocks.starve(logical);
    make_space(core);
}

/// Merges a block, unless chunks will become free by themselves.
fn make_space(core: &mut Core) {
    if core.blocks.merges() || core.chunks.frees_itself() {
        return;
    }
    let Some(victim) = victim(core) else { return };
    core.blocks.begin_merge(victim, core.now);
    core.tally.merge();
    write::go_on(core, victim);
}

/// Chooses the block to merge.
fn victim(core: &Core) -> Option<u32> {
    // A merge needs a top piece that it can continue, or a chunk for another one.
    let chunk_is_free = core.chunks.free() > 0;
    let blocks = (0..).zip(core.blocks.iter()).filter_map(|(number, block)| {
        let (top, count) = (block.pieces.top()?, block.pieces.count());
        let mergeable = count > 1 && block.can_be_merged() && (top.open || chunk_is_free);
        // A closed top piece is copied, too.
        let copies = block.pieces.reach() - if top.open { top.ends } else { 0 };
        let freed = (count - 1) as u64 * u64::from(core.shape.length());
        mergeable.then_some((number, top, copies, freed, block.touched()))
    });
    let victim = match core.shape.gc {
        Gc::Greedy => blocks.min_by_key(|&(number, _, copies, ..)| (copies, number)),
        Gc::Fifo => blocks.min_by_key(|&(_, top, ..)| top.sequence),
        Gc::Lru => blocks.min_by_key(|&(number, .., touched)| (touched, number)),
        Gc::CostBenefit => blocks.max_by_key(|&(number, _, copies, freed, _)| {
            let age = u128::from(core.blocks.age(number) + 1);
            // Integers keep it exact and repeatable.
            (((age * u128::from(freed)) << 16) / u128::from(copies + 1), u32::MAX - number)
        }),
    };
    victim.map(|(number, ..)| number)
}

/// Handles the end of a block's merge, successful or not.
pub(super) fn merged(core: &mut Core) {
    if let Some(since) = core.blocks.end_merge() {
        core.tally.pause(since, core.now);
    }
    erase_garbage(core);
    if core.blocks.any_starved() {
        make_space(core);
    }
}

/// Discards pieces of a block; `trimmed`: because the whole block was trimmed.
pub(super) fn discard(core: &mut Core, logical: u32, pieces: Vec<Piece>, trimmed: bool) {
    for Piece { chunk, sequence, .. } in pieces {
        core.chunks.discard(Garbage { chunk, logical, sequence, trimmed });
    }
}

/// Starts all possible erases.
pub(super) fn erase_garbage(core: &mut Core) {
    for garbage in core.chunks.begin_erases() {
        let lba = core.shape.lba(garbage.chunk, 0);
        let command = Command::new(0, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new());
        core.link.send(Purpose::Erase(garbage), command);
    }
}

/// Handles the end of an erase.
pub(super) fn erased(core: &mut Core, garbage: Garbage, status: Status) {
    core.tally.erase();
    for request in core.chunks.erased(garbage, status) {
        core.requests.part_done(core.now, request, None);
    }
    erase_garbage(core);
    feed(core);
}

/// Resumes blocks that wait for a chunk.
fn feed(core: &mut Core) {
    for logical in core.blocks.take_starved() {
        core.blocks.feed(logical);
        write::go_on(core, logical);
    }
}

/// Retries what was given up after failures: erases, and blocks that could not be written.
pub(super) fn try_again(core: &mut Core, now: SimTime) {
    core.now = now;
    core.health.try_again();
    core.chunks.try_again();
    for logical in 0..core.blocks.count() {
        if core.blocks[logical].try_again() {
            write::go_on(core, logical);
        }
    }
    erase_garbage(core);
    feed(core);
}

/// Fails waiting work if nothing is in progress and a block waits for a chunk, because none will become free. Buffered data stay there and can be
/// read.
pub(super) fn give_up_if_stuck(core: &mut Core) {
    if !core.blocks.any_starved() || !core.link.is_idle() {
        return;
    }
    make_space(core);
    if !core.link.is_idle() {
        return;
    }
    core.health.give_up();
    for logical in core.blocks.take_starved() {
        core.blocks.feed(logical);
        core.blocks[logical].stick();
        write::fail_changes(core, logical);
    }
}
