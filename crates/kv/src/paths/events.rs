//! Handling of events from clients and from the drive.

use super::{evict, items, request, restart};
use crate::Ask;
use crate::flash::{Ended, Happened, Purpose};
use crate::objects::Core;
use crate::slabs::State;

/// Handles a request after the processor has processed it.
pub(crate) fn asked(core: &mut Core, ask: Ask) {
    if cores_are_held(core) {
        return core.requests.hold(ask);
    }
    match core.passage.is_running() {
        true => request::take(core, ask),
        false => restart::asked_early(core, ask),
    }
}

fn cores_are_held(core: &Core) -> bool {
    core.config.costs.reads_block && core.requests.reading() >= core.config.costs.cores
}

/// Continues work that waited for the core of a completed read.
fn core_is_free(core: &mut Core) {
    core.requests.read_ended();
    while !cores_are_held(core)
        && let Some(ask) = core.requests.next_held()
    {
        asked(core, ask);
    }
}

/// Handles everything that has happened below.
pub(crate) fn happened(core: &mut Core) {
    while let Some(happened) = core.flash.next_happened() {
        match happened {
            Happened::Read(ended) => read_ended(core, ended),
            Happened::Written { slab, good } => written(core, slab, good),
            Happened::Wiped { good } => restart::wiped(core, good),
            Happened::Flushed => restart::flushed(core),
        }
    }
    request::go_on(core);
    if !core.passage.is_running() {
        restart::pass(core);
    }
}

fn read_ended(core: &mut Core, ended: Ended) {
    let (purpose, slab, bytes) = (ended.purpose, ended.slab, ended.bytes());
    match purpose {
        Purpose::Request(request) => {
            request::request_read(core, request, bytes);
            core_is_free(core);
        }
        Purpose::Copies(first, end) => evict::copies_read(core, slab, first..end, bytes),
        Purpose::Peek => restart::peeked(core, slab, bytes),
        Purpose::Load(from) => restart::loaded(core, slab, from, bytes),
    }
    core.flash.put_back(ended);
    if !matches!(purpose, Purpose::Peek) {
        core.slabs.read_ended(slab);
        items::leave_if_unread(core, slab);
    }
}

fn written(core: &mut Core, number: u32, good: bool) {
    items::look_for_rest(core);
    match (good, core.slabs.get(number).state) {
        // Written again, elsewhere.
        (false, _) => core.slabs.write_failed(number),
        (true, State::Snapshot) => {
            items::give_up_buffer(core, number);
            restart::part_written(core);
        }
        (true, _) => {
            let empty = core.slabs.was_written(number);
            items::give_up_buffer(core, number);
            core.counters.count(|counts| &mut counts.slabs_written);
            core.evictions.slab_written(core.clock.now(), core.counters.get().set_bytes);
            if empty {
                items::leave(core, number);
            }
        }
    }
}
