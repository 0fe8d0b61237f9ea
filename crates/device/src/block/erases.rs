//! Erases of the blocks that hold nothing valid.
//!
//! ```text
//!  block holds nothing valid ─► translation lets it go ─► erase ─► free
//!                                │                 └───► retired
//!                                └ pages in it that may leave: their names are read first, and they leave the table
//! ```

use super::media_side::MediaSide;
use super::{Purpose, gc, metadata};
use crate::back::operations;
use crate::back::scheduler::{FlashOp, OpKind};
use crate::probes;
use crate::shared::Shared;
use pellucid_flash::{BlockId, Cause, DieId, Ppa};
use pellucid_ftl::{Operation, Reclaim};

/// An emptied block holds pages that may leave: their names are read.
fn read_names(side: &mut MediaSide, shared: &mut Shared, block: BlockId) {
    let last = shared.media.array().next_superpage(block).max(1) - 1;
    let ppa = shared.layout.ppa(block, last * shared.layout.units_per_superpage);
    let (owner, die) = (side.owner(Purpose::Names(block)), shared.layout.die_of(ppa).0);
    let op = FlashOp::new(OpKind::Read, Cause::Gc, owner, die, ppa, 1, shared.now);
    let op = shared.scheduler.ops.insert(op);
    shared.ask_issue(op);
}

/// The names of the pages of an emptied block are in the controller.
pub(super) fn names_arrived(side: &mut MediaSide, shared: &mut Shared, op: u32, block: BlockId) {
    probes::observe_operation(shared, op);
    shared.scheduler.ops.release(op);
    let units = (0..shared.layout.units_per_block).map(|unit| shared.layout.ppa(block, unit));
    let name = |ppa: Ppa| shared.media.array().page(ppa);
    side.translation.evicted(block, units.map(name));
    erase_emptied(side, shared);
}

/// Erases, or retires, the blocks that hold nothing valid.
#[inline]
pub(super) fn erase_emptied(side: &mut MediaSide, shared: &mut Shared) {
    if side.translation.has_emptied() {
        erase_all(side, shared);
    }
}

fn erase_all(side: &mut MediaSide, shared: &mut Shared) {
    side.translation.set_now(shared.now);
    while let Some(job) = side.translation.next_erase() {
        match job {
            Reclaim::Erase(block, cause) => issue_erase(side, shared, block, cause),
            Reclaim::Retire(block) => {
                operations::retire_block(shared, block);
                side.lose_block();
            }
            Reclaim::Evict(block) => read_names(side, shared, block),
            Reclaim::AwaitsTrims => return metadata::write_map(side, shared),
        }
    }
}

fn issue_erase(side: &mut MediaSide, shared: &mut Shared, block: BlockId, cause: Cause) {
    let die = shared.layout.die_of_block(block).0;
    let (ppa, owner) = (shared.layout.ppa(block, 0), side.owner(Purpose::Erase));
    let op = FlashOp::new(OpKind::Erase, cause, owner, die, ppa, 0, shared.now);
    let op = shared.scheduler.ops.insert(op);
    shared.ask_issue(op);
}

/// The erase of a block has ended; gives its die. Copies that found no space try again.
pub(super) fn erase_done(side: &mut MediaSide, shared: &mut Shared, op: u32) -> DieId {
    let (block, cause) =
        (shared.layout.block_of(shared.scheduler.ops[op].ppa), shared.scheduler.ops[op].cause);
    let ok = operations::end_erase(shared, side.number(), block, cause);
    operations::let_go(shared, op);
    side.translation.set_now(shared.now);
    side.translation.ended(Operation::Erase(block), ok);
    if !ok {
        side.lose_block();
    }
    if side.gc.take_stalled() {
        gc::pump_all(side, shared);
    }
    shared.layout.die_of_block(block)
}
