//! Writes and appends of zones: from the rules to the slot of a superpage, its program, and the writes that are acknowledged with it.

use super::zone_actions;
use super::zone_log;
use crate::back::operations;
use crate::back::scheduler::{FlashOp, OpKind, Owner};
use crate::direct::DirectPath;
use crate::direct::zone_buffer::Purpose;
use crate::direct::zone_buffer::{Slot, ZoneNamespace};
use crate::front::commands::{Place, Route, Slice};
use crate::probes;
use crate::shared::Shared;
use crate::timeline::Stored;
use pellucid_flash::slab::{List, NIL};
use pellucid_flash::{Cause, Command, Lpn, Nanos, Opcode, Ppa, Stage, Status, ZoneOp};
use pellucid_ftl::LOG;
use pellucid_media::Outcome;

pub(super) fn zone_write(zoned: &mut ZoneNamespace, shared: &mut Shared, work: u32) {
    let Command { opcode, lba, sectors, .. } = shared.works[work].command;
    let (zone, first) = match zoned.zones.accept(lba, sectors, opcode == Opcode::Zone(ZoneOp::Append)) {
        Ok(at) => at,
        Err(status) => return shared.works[work].merge_status(status, 0),
    };
    let start = zoned.zones.info(zone).start.0;
    let superpage = zoned.zones.superpage_sectors();
    let mut done = 0;
    while done < sectors {
        let at = first + done;
        let here = (superpage - at % superpage).min(sectors - done);
        zoned.runs[zone as usize].inbound += 1;
        zoned.direct_slice(
            shared,
            work,
            Route::Stage,
            (Place::Superpage(at / superpage), at % superpage),
            (done, here),
            zone,
        );
        done += here;
    }
    if opcode == Opcode::Zone(ZoneOp::Append) {
        shared.works[work].result = start + u64::from(first);
    }
}

/// A slice gets its slot, or waits for one; `in_turn`: it has waited.
pub(super) fn stage(zoned: &mut ZoneNamespace, shared: &mut Shared, slice: u32, in_turn: bool) {
    let (zone, superpage, first) = {
        let s = &shared.slices[slice];
        (s.number, s.place.superpage(), s.first)
    };
    if (!in_turn && !zoned.starved.is_empty()) || (first == 0 && zoned.is_full()) {
        let mut starved = zoned.starved;
        match in_turn {
            true => starved.push_front(&mut shared.slices, slice),
            false => starved.push_back(&mut shared.slices, slice),
        }
        zoned.starved = starved;
        return;
    }
    if first == 0 {
        let slot = zoned.take(zone, superpage);
        zoned.runs[zone as usize].tail = slot;
    }
    let slot = zoned.runs[zone as usize].tail;
    debug_assert_eq!((zoned.stage[slot].zone, zoned.stage[slot].superpage), (zone, superpage));
    zoned.stage[slot].coming += shared.slices[slice].sectors;
    let record = &mut shared.slices[slice];
    record.place = Place::Slot(slot);
    record.stages.stall(shared.now - record.mark);
    record.book(Stage::Buffer, shared.now);
    zoned.ask_dma(shared, slice);
}

/// A slot became vacant: waiting writes go on in their order.
pub(super) fn feed_stage(zoned: &mut ZoneNamespace, shared: &mut Shared) {
    loop {
        if zoned.starved.is_empty() || zoned.is_full() {
            return;
        }
        let mut starved = zoned.starved;
        let slice = starved.pop(&mut shared.slices).expect("not empty");
        zoned.starved = starved;
        stage(zoned, shared, slice, true);
    }
}

/// The data of a slice are in the controller.
pub(super) fn staged(zoned: &mut ZoneNamespace, shared: &mut Shared, slice: u32) {
    let (work, slot, zone, first, sectors, data_at) = {
        let s = &shared.slices[slice];
        (s.work, s.place.slot(), s.number, s.first, s.sectors, s.data_at)
    };
    let (fua, submitted) = (shared.works[work].command.fua, shared.works[work].submitted);
    let image = shared.image_bytes;
    let data = &shared.works[work].command.data[data_at as usize * image..][..sectors as usize * image];
    zoned.stage.images_mut(slot)[first as usize * image..][..sectors as usize * image].copy_from_slice(data);
    probes::observe_stored(shared, stored_at(zoned, slot), work);
    let superpage = zoned.zones.superpage_sectors();
    let record = &mut zoned.stage[slot];
    record.arrived += sectors;
    record.written_at = record.written_at.max(submitted);
    record.coming -= sectors;
    let full = record.arrived == superpage;
    zoned.runs[zone as usize].inbound -= 1;
    let through = fua || shared.config.buffer.write == crate::config::WritePolicy::WriteThrough;
    // Protected, the buffer is as good as the media.
    if zoned.protected {
        let number = record.superpage;
        let status =
            if zoned.keep(slot, &mut shared.media) { zoned.kept(zone, number) } else { Status::WriteFault };
        shared.slice_done(slice, status);
    } else if through {
        // It may come to wait with the slot of a superpage in front of its own.
        shared.slices[slice].place = Place::Superpage(record.superpage);
        let mut list = record.acknowledge;
        list.push_back(&mut shared.slices, slice);
        zoned.stage[slot].acknowledge = list;
    } else {
        shared.slice_done(slice, Status::Success);
    }
    if full {
        let run = &mut zoned.runs[zone as usize];
        // The next superpage may have a slot already.
        run.tail = if run.tail == slot { NIL } else { run.tail };
        program_stage(zoned, shared, slot);
    } else if !zoned.stage[slot].acknowledge.is_empty() {
        zone_log::log(zoned, shared, slot);
    }
    zone_actions::zone_quiet(zoned, shared, zone);
}

/// Returns where the data of a slot wait to be programmed, for observers of the drive.
fn stored_at(zoned: &ZoneNamespace, slot: u32) -> Stored {
    (zoned.number, slot.into())
}

/// Plans the program of a slot.
pub(super) fn program_stage(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32) {
    let (zone, superpage) = (zoned.stage[slot].zone, zoned.stage[slot].superpage);
    if !std::mem::replace(&mut zoned.stage[slot].programming, true) {
        zoned.runs[zone as usize].programs += 1;
    }
    match zoned.zones.place(zone, superpage) {
        Some(first) => issue_stage(zoned, shared, Purpose::Stage(slot), first, Cause::Host),
        None => {
            probes::observe_trimmed(shared, stored_at(zoned, slot));
            lose_stage(zoned, shared, slot);
        }
    }
}

pub(super) fn issue_stage(
    zoned: &mut ZoneNamespace,
    shared: &mut Shared,
    purpose: Purpose,
    first: Ppa,
    cause: Cause,
) {
    let die = shared.layout.die_of(first).0;
    let kind = if purpose == Purpose::LogErase { OpKind::Erase } else { OpKind::Program };
    let owner = Owner { namespace: zoned.number, token: purpose.token() };
    let op = FlashOp::new(kind, cause, owner, die, first, shared.layout.units_per_superpage, shared.now);
    let op = shared.scheduler.ops.insert(op);
    if probes::is_observed(shared)
        && let Purpose::Stage(slot) | Purpose::Log(slot) = purpose
    {
        // Logged data are written to their own place later.
        probes::observe_programs(shared, op, stored_at(zoned, slot), purpose == Purpose::Log(slot));
    }
    shared.ask_issue(op);
}

/// The array starts on a slot's superpage, unless its block has failed since it was planned.
pub(super) fn stage_begins(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32, first: Ppa) -> Nanos {
    let arrived = zoned.stage[slot].arrived;
    slot_begins(zoned, shared, slot, first, None, arrived)
}

pub(super) fn log_begins(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32, first: Ppa) -> Nanos {
    let record = &mut zoned.stage[slot];
    let sectors = record.arrived;
    record.logging = Some(sectors);
    slot_begins(zoned, shared, slot, first, Some(LOG), sectors)
}

fn slot_begins(
    zoned: &mut ZoneNamespace,
    shared: &mut Shared,
    slot: u32,
    first: Ppa,
    lpn: Option<Lpn>,
    sectors: u32,
) -> Nanos {
    if zoned.zones.is_failed(shared.layout.block_of(first)) {
        zoned.stage[slot].skipped = true;
        return Nanos::ZERO;
    }
    let sequence = zoned.zones.next_sequence();
    shared
        .media
        .program_begin(first, sequence)
        .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
    let (lpn, mark) = (lpn.unwrap_or(Lpn(zoned.stage[slot].zone)), zoned.mark(slot, sectors));
    zoned.put(slot, lpn, mark, first, &mut shared.media, &shared.layout);
    shared.media.program_ns(first)
}

/// Ends the operation of a slot; whether its superpage is on the media, and the stages of the operation.
pub(super) fn slot_ended(
    zoned: &mut ZoneNamespace,
    shared: &mut Shared,
    op: u32,
    slot: u32,
    cause: Cause,
) -> (bool, pellucid_flash::StageTimes) {
    let (first, stages) = (shared.scheduler.ops[op].ppa, shared.scheduler.ops[op].stages);
    let skipped = std::mem::take(&mut zoned.stage[slot].skipped);
    let ok = !skipped && shared.media.program_end(first) == Outcome::Ok;
    if !skipped {
        let data = if zoned.stage[slot].is_data() { zoned.stage[slot].arrived } else { 0 };
        let superpage = zoned.zones.superpage_sectors();
        shared.counts(zoned.number).media_operations += 1;
        shared.counts(zoned.number).programs[cause as usize] += 1;
        shared.counts(zoned.number).programmed_sectors[cause as usize] += u64::from(data);
        shared.counts(zoned.number).programmed_sectors[Cause::Padding as usize] +=
            u64::from(superpage - data);
        shared.counts(zoned.number).program_failures += u64::from(!ok);
        if !ok {
            operations::retire_block(shared, shared.layout.block_of(first));
        }
    }
    operations::let_go(shared, op);
    (ok, stages)
}

/// The program of a slot has ended.
pub(super) fn stage_ended(zoned: &mut ZoneNamespace, shared: &mut Shared, op: u32, slot: u32) {
    let block = shared.layout.block_of(shared.scheduler.ops[op].ppa);
    let (ok, stages) = slot_ended(zoned, shared, op, slot, Cause::Host);
    let (zone, superpage) = (zoned.stage[slot].zone, zoned.stage[slot].superpage);
    if !ok {
        zoned.zones.program_failed(zone, superpage, block);
        return program_stage(zoned, shared, slot);
    }
    zoned.runs[zone as usize].programs -= 1;
    zoned.stage[slot].programming = false;
    let finish = zoned.stage[slot].finish;
    match zoned.programmed_before(zone, superpage) {
        // Once programmed it would come back after a power cut: not before everything in front of it.
        Some(earlier) => {
            let list = zoned.stage[slot].acknowledge.take();
            hand_on(zoned, shared, list, earlier);
        }
        None => acknowledge_stage(zoned, shared, slot, Some(&stages), Status::Success),
    }
    if finish {
        zoned.zones.finish_end(zone);
        zone_actions::end_action(zoned, shared, zone, Status::Success);
    }
    let awaited = zone_log::end_flushing(zoned, shared, slot);
    retire_slot(zoned, shared, slot);
    if awaited {
        zone_log::flush_part(zoned, shared);
    }
    zone_log::log_waiting(zoned, shared, zone);
    zone_actions::zone_quiet(zoned, shared, zone);
}

/// Hands the slices of `list`, which waited for a later slot, on to the slot `to`: to its log program under way, if that covers all of
/// its sectors.
pub(super) fn hand_on(zoned: &mut ZoneNamespace, shared: &mut Shared, mut list: List, to: u32) {
    let record = &zoned.stage[to];
    let logged = record.stranded && record.logging.is_some_and(|n| n == 0 || n == record.arrived);
    let mut waiting = if logged { record.with_log } else { record.acknowledge };
    while let Some(slice) = list.pop(&mut shared.slices) {
        waiting.push_back(&mut shared.slices, slice);
    }
    let record = &mut zoned.stage[to];
    *(if logged { &mut record.with_log } else { &mut record.acknowledge }) = waiting;
}

/// Completes the slices that wait for a slot's program.
pub(super) fn acknowledge_stage(
    zoned: &mut ZoneNamespace,
    shared: &mut Shared,
    slot: u32,
    stages: Option<&pellucid_flash::StageTimes>,
    status: Status,
) {
    let list = zoned.stage[slot].acknowledge.take();
    acknowledge_list(zoned, shared, list, stages, status);
}

/// Ends waiting slices with `status`, or with a fault if a superpage before their own is lost.
pub(super) fn acknowledge_list(
    zoned: &mut ZoneNamespace,
    shared: &mut Shared,
    mut list: List,
    stages: Option<&pellucid_flash::StageTimes>,
    status: Status,
) {
    while let Some(slice) = list.pop(&mut shared.slices) {
        match stages {
            Some(stages) => shared.slices[slice].add_stages(stages, shared.now),
            None => shared.slices[slice].book(Stage::Buffer, shared.now),
        }
        let Slice { work, number: zone, place, .. } = shared.slices[slice];
        let kept = zoned.kept(zone, place.superpage());
        shared.works[work].merge_status(status, 0);
        shared.works[work].merge_status(kept, 0);
        shared.slice_done(slice, Status::Success);
    }
}

/// A slot whose superpage is on the media is given back, if its log program has ended too.
pub(super) fn retire_slot(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32) {
    let record = &mut zoned.stage[slot];
    record.wants_log = false;
    if record.logging.is_some() {
        record.leaving = true;
        return;
    }
    zoned.vacate(slot, &mut shared.media);
    zone_log::reap_log(zoned, shared);
    feed_stage(zoned, shared);
}

/// The media let a zone down, of which the log keeps a record.
pub(super) fn fail_zone(zoned: &mut ZoneNamespace, shared: &mut Shared, zone: u32) {
    zoned.zones.fail(zone);
    let state = zoned.zones.state(zone);
    if let Some(slot) = zoned.pronounce(zone, state) {
        zone_log::log(zoned, shared, slot);
    }
}

/// No block is left for a slot's superpage: the zone is read-only from now on, and the superpage stays in the log.
fn lose_stage(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32) {
    let (zone, arrived) = (zoned.stage[slot].zone, zoned.stage[slot].arrived);
    zoned.runs[zone as usize].programs -= 1;
    let record = &mut zoned.stage[slot];
    (record.programming, record.finish) = (false, false);
    // A flush that waited for the program now waits for the log entry; it no longer waits for an empty slot.
    let awaited = record.flushing != 0;
    record.flushing = record.flushing.min(arrived);
    let run = &mut zoned.runs[zone as usize];
    run.tail = if run.tail == slot { NIL } else { run.tail };
    let action = run.action;
    fail_zone(zoned, shared, zone);
    // Data in the log, or on their way there, may have been promised.
    let record = &zoned.stage[slot];
    let in_log = record.logged > 0 || record.logging.is_some();
    let keeps = arrived > 0 && (in_log || zoned.log_may_keep_more());
    if action != NIL {
        zone_actions::end_action(zoned, shared, zone, Status::WriteFault);
    }
    if keeps {
        zoned.strand(slot);
        zone_log::log(zoned, shared, slot);
        // It is not one of those any more that will become vacant.
        feed_stage(zoned, shared);
    } else {
        drop_stage(zoned, shared, slot);
    }
    if awaited && arrived == 0 {
        zone_log::flush_part(zoned, shared);
    }
    zone_log::log_waiting(zoned, shared, zone);
    zone_actions::zone_quiet(zoned, shared, zone);
}

/// Drops a slot for which neither its zone nor the log has space.
pub(super) fn drop_stage(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32) {
    let silent = acknowledged_in(zoned, shared, slot);
    acknowledge_stage(zoned, shared, slot, None, Status::WriteFault);
    let awaited = zone_log::fail_flush(zoned, shared, slot);
    if silent {
        zoned.flush.losses().note(zoned.stage[slot].written_at);
    }
    let Slot { zone, superpage, .. } = zoned.stage[slot];
    let run = &mut zoned.runs[zone as usize];
    run.hole = run.hole.min(superpage);
    if std::mem::take(&mut zoned.stage[slot].stranded) {
        zoned.runs[zoned.stage[slot].zone as usize].stranded -= 1;
    }
    retire_slot(zoned, shared, slot);
    if awaited {
        zone_log::flush_part(zoned, shared);
    }
    lose_waiting(zoned, shared, zone);
}

/// Fails the log writes that wait behind a lost superpage of a zone: they would come back without the data before them.
fn lose_waiting(zoned: &mut ZoneNamespace, shared: &mut Shared, zone: u32) {
    let tail = zoned.runs[zone as usize].tail;
    if tail != NIL && std::mem::take(&mut zoned.stage[tail].wants_log) {
        zone_log::lose_log(zoned, shared, tail);
    }
}

/// Returns whether a slot holds sectors whose writes have been acknowledged. Writes of later superpages may wait with it; they say nothing of
/// its own.
fn acknowledged_in(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32) -> bool {
    let Slot { superpage, arrived, acknowledge: waiting, .. } = zoned.stage[slot];
    let mut unacknowledged = 0;
    waiting.for_each(&mut shared.slices, |slice| {
        unacknowledged += if slice.place.superpage() == superpage { slice.sectors } else { 0 };
    });
    arrived > unacknowledged
}
