//! Paths of placement handles: blocks and reclaim units.

use super::core::Core;
use super::place;
use super::table::Table;
use crate::translation::Stream;
use crate::{Isolation, Separation};
use pellucid_flash::{DieId, Lpn};

/// Placement handle of the block that holds `lpn`; 0 if none.
pub(super) fn owner<T: Table>(core: &Core<T>, lpn: Lpn) -> u16 {
    let ppa = core.copy_of(lpn);
    if ppa.is_some() { core.blocks.record(core.shape.layout.block_of(ppa)).owner() } else { 0 }
}

/// RUH update: lets `handle` refer to a new reclaim unit; its open blocks are closed as they are.
pub(super) fn next_unit<T: Table>(core: &mut Core<T>, handle: u16) {
    if !core.handles.leave_unit(handle) {
        return;
    }
    let streams = match handle {
        0 => [Stream::Host, Stream::HostCold],
        _ => [Stream::Placed(handle); 2],
    };
    for die in (0..core.shape.layout.dies).map(DieId) {
        // What GC shares is not taken from it where it has no other block.
        let mixed = core.shape.config.separation == Separation::Off;
        if !mixed || core.blocks.free_count(die) > 1 {
            streams.into_iter().for_each(|stream| place::close_open(core, die, stream));
        }
    }
}

/// Sets, at a mount, the remaining size of each handle's reclaim unit from its open blocks.
pub(super) fn restore<T: Table>(core: &mut Core<T>) {
    if core.shape.config.handles < 2 {
        return;
    }
    for handle in 0..core.shape.config.handles {
        let stream = if handle == 0 { Stream::Host } else { Stream::Placed(handle) };
        let open = |die| core.space().open_block(DieId(die), stream);
        let superpages: u64 =
            (0..core.shape.layout.dies).filter_map(open).map(|open| u64::from(open.superpage)).sum();
        core.handles.restore(handle, superpages);
    }
}

/// Panics unless blocks hold what belongs into them.
pub(super) fn check<T: Table>(core: &Core<T>) {
    core.handles.check();
    for (block, stream) in place::open_blocks(core) {
        let owner = core.blocks.record(block).owner();
        assert_eq!(owner, stream.owner(), "owner of block {}, open for {stream:?}", block.0);
        let collected = matches!(stream, Stream::PlacedGc(_));
        assert!(!collected || core.shape.config.isolation == Isolation::Persistent, "{stream:?}");
    }
}
