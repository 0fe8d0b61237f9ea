//! Writing: full slabs go to flash.

use super::items;
use crate::objects::Core;
use crate::slabs::State;
use crate::snapshot::PART_HEADER;

/// Starts writing waiting slabs, as many as the engine accepts.
pub(crate) fn start_writes(core: &mut Core) {
    while let Some(number) = core.slabs.next_full() {
        let slab = core.slabs.get(number);
        if slab.valid == 0 && slab.state == State::Full {
            // Everything in it already is obsolete.
            core.slabs.take_full();
            items::give_up_buffer(core, number);
            items::vacate(core, number);
            continue;
        }
        if !core.flash.engine().is_ready() {
            return;
        }
        let (forced, buffer) = (slab.state == State::Snapshot, slab.buffer);
        core.slabs.take_full();
        if !forced {
            core.slabs.writes(number);
        }
        core.flash.write(number, buffer, forced);
        if forced {
            part_placed(core, number, buffer);
        }
    }
}

/// Sets the places of a snapshot's part, which are stored in it.
fn part_placed(core: &mut Core, number: u32, buffer: u32) {
    let part = core.passage.part_placed(number, core.flash.engine().places(number));
    let header = part.encode(core.config.seed, &core.shape);
    core.buffers.get_mut(buffer)[..PART_HEADER].copy_from_slice(&header);
}
