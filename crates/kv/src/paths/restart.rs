//! Start and stop.
//!
//! A clean stop writes every slab and then, in separate slabs, a snapshot of index and slabs. A start loads the newest complete snapshot and makes
//! all snapshots unreadable *before* it answers any request, even without `warm_restart`. So a snapshot either matches the cache exactly or does not
//! exist: after a crash the cache is empty, and no older version, deleted or expired item ever reappears.

use super::{evict, items, request, saving, write};
use crate::Ask;
use crate::flash::Purpose;
use crate::index::Index;
use crate::objects::Core;
use crate::passage::{Phase, Piece};
use crate::snapshot::{PART_HEADER, Part};
use pellucid_flash::slab::NIL;

/// Handles a request before the cache runs, or after a stop has begun.
pub(crate) fn asked_early(core: &mut Core, ask: Ask) {
    core.passage.keep(ask);
    match core.passage.phase() {
        Phase::Draining | Phase::Flushing => run(core),
        Phase::Stopped => wipe(core),
        _ => {}
    }
}

fn run(core: &mut Core) {
    core.passage.enter(Phase::Running);
    while core.passage.is_running()
        && let Some(ask) = core.passage.next_early()
    {
        request::take(core, ask);
    }
    request::go_on(core);
}

/// Does the next steps of a start or a stop.
pub(crate) fn pass(core: &mut Core) {
    match core.passage.phase() {
        Phase::Starting if core.flash.engine().is_started() => {
            core.passage.begin_scan(core.flash.engine().candidates());
            scan(core);
        }
        Phase::Draining => drain(core),
        Phase::Saving => give_up_saving(core),
        _ => {}
    }
}

// ---- start

fn scan(core: &mut Core) {
    while let Some(place) = core.passage.next_place() {
        core.flash.peek(place);
    }
    if core.passage.is_idle() {
        load(core);
    }
}

/// Handles the first sector of a place.
pub(crate) fn peeked(core: &mut Core, place: u32, sector: Option<&[u8]>) {
    core.passage.ended();
    let part = sector.and_then(|sector| Part::decode(core.config.seed, &core.shape, sector));
    if let Some(part) = part.filter(|part| part.places[0] == place) {
        core.passage.found(part);
    }
    scan(core);
}

/// Ends the search, and starts reading the newest complete snapshot.
fn load(core: &mut Core) {
    let (parts, newest) = core.passage.begin_load(core.config.warm_restart);
    for part in parts {
        let Some(number) = core.slabs.next_vacant() else { break };
        if !core.flash.adopt(number, &part.places) {
            core.passage.lose();
            continue;
        }
        let number = core.slabs.take_for_snapshot(NIL);
        core.passage.adopted(part, number, newest);
    }
    load_more(core);
}

fn load_more(core: &mut Core) {
    while let Some(Piece { slab, from, bytes }) = core.passage.next_piece() {
        items::read(core, slab, PART_HEADER + from as usize, bytes as usize, Purpose::Load(from));
    }
    if core.passage.is_idle() {
        // If the snapshot is damaged, the cache is empty.
        if let Some(image) = core.passage.take_image()
            && saving::read_snapshot(core, &image).is_none()
        {
            empty(core);
        }
        core.flash.begin();
        wipe(core);
    }
}

/// Handles a piece of a snapshot.
pub(crate) fn loaded(core: &mut Core, slab: u32, from: u32, bytes: Option<&[u8]>) {
    core.passage.loaded(slab, from, bytes);
    load_more(core);
}

/// Drops all items, before any command is in flight.
fn empty(core: &mut Core) {
    core.index = Index::new(core.shape.items());
    for number in core.slabs.forget_stored() {
        core.flash.release(number);
    }
}

/// Makes all snapshots unreadable, then enters the running phase.
fn wipe(core: &mut Core) {
    for slab in core.passage.begin_wipe() {
        core.flash.wipe(slab);
    }
    if core.passage.is_idle() {
        run(core);
    }
}

/// Handles the end of a wipe of a snapshot's slab.
pub(crate) fn wiped(core: &mut Core, good: bool) {
    core.passage.ended();
    if !good {
        core.health.fail("the drive takes no writes: the snapshot on it cannot be made unreadable");
    }
    if core.passage.is_idle() {
        for number in core.passage.take_slabs() {
            core.slabs.free_from_snapshot(number);
        }
        run(core);
    }
}

// ---- stop

/// Starts a stop.
pub(crate) fn begin_stop(core: &mut Core) {
    if !core.passage.is_running() {
        return;
    }
    if !core.config.warm_restart {
        return core.passage.enter(Phase::Stopped);
    }
    core.passage.enter(Phase::Draining);
    drain(core);
}

/// Writes everything to flash, and frees slabs for the snapshot.
fn drain(core: &mut Core) {
    if core.health.is_dead() {
        return run(core);
    }
    if core.requests.count() > 0 || core.evictions.count() > 0 || core.slabs.leaving() > 0 {
        return;
    }
    for class in 0..core.slabs.classes().all().len() {
        match core.slabs.classes().get(class).open {
            NIL => {}
            slab => items::close(core, slab),
        }
    }
    write::start_writes(core);
    if core.buffers.vacant() < core.buffers.count() {
        return evict::make_room(core);
    }
    let parts = saving::snapshot_parts(core);
    while core.flash.engine().free() + core.slabs.leaving() < parts {
        if !evict::evict_one(core) {
            return run(core);
        }
    }
    if core.slabs.leaving() == 0 {
        core.passage.enter(Phase::Flushing);
        core.flash.flush();
    }
}

/// Handles the end of a flush.
pub(crate) fn flushed(core: &mut Core) {
    if core.passage.phase() == Phase::Flushing {
        let image = saving::write_snapshot(core);
        core.passage.begin_save(image);
        save(core);
    }
}

/// Writes parts of the snapshot as long as write buffers are free.
fn save(core: &mut Core) {
    let each = core.shape.slab_bytes as usize - PART_HEADER;
    while let Some(payload) = core.passage.next_payload(each)
        && let Some(buffer) = core.buffers.take()
    {
        core.buffers.get_mut(buffer)[PART_HEADER..][..payload.len()].copy_from_slice(payload);
        let number = core.slabs.take_for_snapshot(buffer);
        core.passage.part_made(number, each);
    }
    write::start_writes(core);
}

/// Ends a stop without a snapshot, because the flash's writes fail.
fn give_up_saving(core: &mut Core) {
    let stuck = core.slabs.waiting() == core.passage.saving() && core.flash.engine().free() == 0;
    if !stuck && !core.flash.engine().is_read_only() {
        return;
    }
    for number in core.slabs.take_all_full() {
        items::give_up_buffer(core, number);
        core.slabs.free_from_snapshot(number);
        core.passage.forget(number);
    }
    wipe(core);
}

/// Handles the end of a part's write.
pub(crate) fn part_written(core: &mut Core) {
    core.passage.ended();
    save(core);
    if core.passage.is_idle() && core.passage.saved() {
        wipe(core);
    }
}
