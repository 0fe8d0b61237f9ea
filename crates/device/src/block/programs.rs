//! Programs: from the entries of a queue to a planned superpage, to the media, and back to the commands that wait.
//!
//! ```text
//!  queue has a superpage ─► placed ─► entries programming ─► die queue ─► begins: data go to the media ─► ends
//!      │ no space: stalled                                                                                 │
//!      ◄── failed: packed again ◄────────── acknowledged, clean, given to slices that wait ◄───────────────┘
//! ```
//! GC copies and metadata share the operation and its end.

use super::core::Core;
use super::media_side::MediaSide;
use super::superpages::SuperpageUnit;
use super::{
    Purpose, discards, erases, flush, gc, metadata, read, starved, tenancy, write_failures, write_waits,
};
use crate::back::operations;
use crate::back::scheduler::{FlashOp, OpKind};
use crate::firmware::Chore;
use crate::probes;
use crate::shared::Shared;
use pellucid_flash::{Cause, Lpn, Nanos, Ppa, Stage, StageTimes, Status};
use pellucid_ftl::{Full, Move, Operation, Plan, ProgramId, Soon};
use pellucid_media::Outcome;

/// Plans full superpages of a queue of the packer (and the rest, if `pad`).
pub(super) fn program_packed(core: &mut Core, shared: &mut Shared, queue: usize, pad: bool) {
    while core.queue.has_superpage(queue, pad) {
        let Core { queue: packed, buffer, side, .. } = core;
        let page = |entry: u32| if buffer[entry].is_dropped() { Lpn::NONE } else { buffer[entry].lpn() };
        let (stream, lpns) = packed.next_superpage(queue, page);
        let count = lpns.len();
        let overwritten = overwritten(side, shared, lpns);
        let plan = match side.translation.place(stream, None, lpns) {
            Ok(plan) => plan,
            Err(Full { die }) => {
                packed.stall(queue);
                // A drive that was just switched on may have to collect before it can take anything.
                return match die {
                    Some(die) => gc::pump(side, shared, die),
                    None => gc::pump_all(side, shared),
                };
            }
        };
        charge_overwritten(shared, overwritten);
        core.side.superpages.enter(&plan, count as u32);
        for i in 0..count {
            let entry = core.queue.take(queue);
            enter_program(core, shared, &plan, i, entry);
        }
        issue_entries(core, shared, &plan, count as u32);
        if core.side.translation.checkpoint() {
            metadata::write_map(&mut core.side, shared);
        }
    }
}

/// Units of a superpage with an older copy; not counted if an invalidation costs the firmware nothing.
#[inline]
fn overwritten(side: &MediaSide, shared: &Shared, lpns: &[Lpn]) -> u32 {
    match shared.firmware.is_priced(Chore::Invalidate) {
        true => lpns.iter().filter(|&&lpn| side.locate(lpn).is_some()).count() as u32,
        false => 0,
    }
}

/// The firmware invalidates so many older copies.
#[inline]
pub(super) fn charge_overwritten(shared: &mut Shared, units: u32) {
    if units > 0 {
        shared.charge(Chore::Invalidate, units);
    }
}

#[inline]
fn enter_program(core: &mut Core, shared: &mut Shared, plan: &Plan, position: usize, entry: u32) {
    core.side.superpages.set(plan.id, position, SuperpageUnit::Entry(entry));
    core.behind.wake(core.buffer[entry].lpn());
    let record = &mut core.buffer[entry];
    record.program();
    let sectors = shared.layout.sectors_per_unit;
    let fresh = if record.is_dropped() { 0 } else { record.sectors().dirty().count_ones() };
    let new = if record.is_again() { Cause::Retirement } else { Cause::Host };
    let rest = if record.is_dropped() { Cause::Padding } else { Cause::ReadModifyWrite };
    let programmed = &mut shared.counts(core.side.number()).programmed_sectors;
    programmed[new as usize] += u64::from(fresh);
    programmed[rest as usize] += u64::from(sectors - fresh);
    // Slices that wait for the acknowledgement have waited for the superpage until now.
    let (list, now) = (record.waiters().for_program(), shared.now);
    list.for_each(&mut shared.slices, |slice| slice.book(Stage::Buffer, now));
}

/// Queues the flash operation of a planned program of entries.
#[inline]
fn issue_entries(core: &mut Core, shared: &mut Shared, plan: &Plan, count: u32) {
    let op = make_program(&core.side, shared, plan, count, Cause::Host);
    if core.config().buffer.fifo
        && shared.layout.units_per_superpage == 1
        && let [SuperpageUnit::Entry(entry)] = core.side.superpages.units(plan.id)
    {
        let blank = core.buffer[*entry].sectors().blank().count_ones();
        shared.scheduler.ops[op].sectors = shared.layout.sectors_per_unit - blank;
    }
    if probes::is_observed(shared) {
        tell_programmed(core, shared, op, plan.id);
    }
    shared.ask_issue(op);
    // Room was used, so GC may be due.
    gc::pump(&mut core.side, shared, plan.die);
}

/// Queues the flash operation of a planned program that writes no entries.
#[inline]
pub(super) fn issue_program(
    side: &mut MediaSide,
    shared: &mut Shared,
    plan: &Plan,
    count: u32,
    cause: Cause,
) {
    let op = make_program(side, shared, plan, count, cause);
    shared.ask_issue(op);
    // Room was used, so GC may be due. GC pumps by itself.
    if matches!(cause, Cause::Host | Cause::Journal | Cause::Map) {
        gc::pump(side, shared, plan.die);
    }
}

/// Makes the flash operation of a planned program, and counts it.
#[inline]
fn make_program(side: &MediaSide, shared: &mut Shared, plan: &Plan, count: u32, cause: Cause) -> u32 {
    let padding = (shared.layout.units_per_superpage - count) * shared.layout.sectors_per_unit;
    let counters = shared.counts(side.number());
    counters.programmed_sectors[Cause::Padding as usize] += u64::from(padding);
    counters.programs[cause as usize] += 1;
    shared.charge(Chore::Allocate, count);
    let kind = match side.superpages.units(plan.id)[0] {
        SuperpageUnit::Copyback { .. } => OpKind::Copyback,
        _ => OpKind::Program,
    };
    let owner = side.owner(Purpose::Program(plan.id));
    let now = shared.now;
    let ops = &mut shared.scheduler.ops;
    ops.insert_with(|| FlashOp::new(kind, cause, owner, plan.die.0, plan.first, count, now))
}

/// Reports the data that an operation programs to observers of the drive.
#[cold]
fn tell_programmed(core: &Core, shared: &mut Shared, op: u32, id: ProgramId) {
    for &unit in core.side.superpages.units(id) {
        if let SuperpageUnit::Entry(entry) = unit {
            probes::observe_programs(shared, op, core.side.stored_at(core.buffer[entry].lpn()), false);
        }
    }
}

/// The data of a program are in the die: the media take them. Returns for how long the array works.
#[inline]
pub(super) fn begin_program(core: &mut Core, shared: &mut Shared, id: ProgramId, first: Ppa) -> Nanos {
    core.side.translation.prefetch(Soon::End(id));
    let sequence = core.side.superpages.sequence(id);
    shared
        .media
        .program_begin(first, sequence)
        .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
    let sectors = shared.layout.sectors_per_unit;
    let units = core.side.superpages.units(id);
    let mut time = shared.media.program_of_units_ns(first, units.len() as u32);
    for (i, &unit) in (0..).zip(units) {
        let ppa = Ppa(first.0 + i);
        match unit {
            SuperpageUnit::Hole => {}
            SuperpageUnit::Entry(entry) if core.buffer[entry].is_dropped() => {}
            SuperpageUnit::Entry(entry) => {
                let mark = core
                    .side
                    .translation
                    .mark(core.buffer[entry].lpn(), core.buffer[entry].admitted().is_dirty());
                shared.media.put_unit(ppa, mark, core.buffer.images(entry, 0, sectors));
                bring_waiting_near(core, shared, entry);
            }
            SuperpageUnit::Moved(r) => {
                let (lpn, images) = core.side.gc.content(r);
                shared.media.put_unit(ppa, core.side.translation.mark_of_copy(lpn), images);
            }
            SuperpageUnit::Metadata => {
                let (mark, content) = core.side.translation.metadata(id, i);
                shared.media.put_translation_page(ppa, mark, content);
            }
            SuperpageUnit::Copyback { from, .. } => {
                // One sense brings all of them.
                time += if i == 0 { shared.media.read_ns(from) } else { Nanos::ZERO };
                shared.media.copy_unit(from, ppa);
            }
        }
    }
    time
}

/// Prefetches the command that waits for the entry whose program begins. It was last read before the operation waited for its
/// die, and is needed as soon as the program ends.
#[inline]
fn bring_waiting_near(core: &Core, shared: &Shared, entry: u32) {
    if let Some(slice) = core.buffer[entry].waiters().for_program().first() {
        prefetch_index::prefetch_index(shared.works.records(), shared.slices[slice].work as usize);
    }
}

/// A program has ended: its units and the commands that wait for them go on.
pub(super) fn program_done(core: &mut Core, shared: &mut Shared, op: u32, id: ProgramId) {
    let (first, stages, copyback) = {
        let record = &shared.scheduler.ops[op];
        (record.ppa, record.stages, record.kind == OpKind::Copyback)
    };
    let ok = shared.media.program_end(first) == Outcome::Ok;
    let counters = shared.counts(core.side.number());
    counters.media_operations += 1;
    counters.program_failures += u64::from(!ok);
    counters.copybacks += u64::from(copyback && ok);
    operations::let_go(shared, op);
    let die = shared.layout.die_of(first);
    // The calls below may plan the next program under the same number.
    let count = core.side.superpages.end(id);
    core.side.translation.set_now(shared.now);
    core.side.translation.ended(Operation::Program(id), ok);
    discards::forget_outdated(&mut core.side, shared);
    for at in 0..count {
        match core.side.superpages.ended(at) {
            SuperpageUnit::Entry(entry) => entry_programmed(core, shared, entry, ok, &stages),
            SuperpageUnit::Moved(r) => gc::copy_programmed(&mut core.side, shared, r, ok, die),
            SuperpageUnit::Metadata => metadata::write_map(&mut core.side, shared),
            SuperpageUnit::Hole => {}
            SuperpageUnit::Copyback { from, lpn, to } => {
                let again = Move { from, cause: Cause::Retirement, to, inside: false };
                gc::copyback_done(&mut core.side, shared, die, again, lpn, ok);
            }
        }
    }
    if !ok {
        core.side.lose_block();
    }
    erases::erase_emptied(&mut core.side, shared);
    // Before GC goes on, so that they take turns.
    write_waits::let_in(core, shared);
    gc::pump(&mut core.side, shared, die);
    flush::continue_flush(core, shared);
}

#[inline]
fn entry_programmed(core: &mut Core, shared: &mut Shared, entry: u32, ok: bool, stages: &StageTimes) {
    core.buffer[entry].rest();
    core.queue.end_leaving();
    if !ok && !core.buffer[entry].is_dropped() {
        return write_failures::program_again(core, shared, entry, stages);
    }
    let record = &mut core.buffer[entry];
    record.programmed();
    record.users_mut().hold();
    acknowledge(core, shared, entry, Some(stages), Status::Success);
    flush::flushed(core, entry);
    tenancy::unpin(core, entry);
    if core.starved.is_line_empty() || !starved::let_evictor_lead(core, shared, entry, stages) {
        core.starved.note_cleaned(stages);
    }
    read::release(core, shared, entry);
}

/// Completes the slices that waited for the entry's program.
#[inline]
pub(super) fn acknowledge(
    core: &mut Core,
    shared: &mut Shared,
    entry: u32,
    stages: Option<&StageTimes>,
    status: Status,
) {
    let mut list = core.buffer[entry].waiters_mut().take_for_program();
    if !list.is_empty() {
        core.behind.wake(core.buffer[entry].lpn());
    }
    while let Some(slice) = list.pop(&mut shared.slices) {
        let record = &mut shared.slices[slice];
        match stages {
            Some(stages) => record.add_stages(stages, shared.now),
            None => record.book(Stage::Buffer, shared.now),
        }
        core.queue.end_wait();
        shared.slice_done(slice, status);
    }
}

/// Resumes work that waited for space after the end of an erase.
pub(super) fn erase_done(core: &mut Core, shared: &mut Shared, op: u32) {
    let die = erases::erase_done(&mut core.side, shared, op);
    write_waits::resume_stalled(core, shared);
    gc::pump(&mut core.side, shared, die);
    flush::continue_flush(core, shared);
}
