//! The write path.
//!
//! ```text
//!  slice ─► entry ─► DMA from host ─► dirty ──(write-back)──► acknowledged
//!                                        │ wanted: write-through, FUA, flush, room needed, too much dirty
//!                                        ▼
//!             all sectors here? no ─► fill (read-modify-write) ─► packed ─► superpage full, or padded ─► planned
//!                                                                     ─► program ─► acknowledged (write-through)
//! ```
//! Units are gathered until a superpage is full. A partial superpage is padded only when a command waits for it and nothing that
//! could fill it is on its way: [`crate::block::write_waits`]. Writes that fail: [`crate::block::write_failures`].

use super::buffer::Phase;
use super::core::Core;
use super::map_reads::Then;
use super::{behind, map_reads, programs, read, starved, tenancy, write_waits};
use crate::config::WritePolicy;
use crate::firmware::{Chore, Task};
use crate::front::commands::{Place, Route, Slice};
use crate::probes;
use crate::shared::Shared;
use pellucid_flash::slab::NIL;
use pellucid_flash::{Cause, Lpn, Opcode, Stage, Status, copy_images};
use pellucid_ftl::Located;

/// Cuts sectors of a command into slices, one for each mapping unit, and starts them.
#[inline]
pub(super) fn cut(core: &mut Core, shared: &mut Shared, work: u32, lba: u64, sectors: u32, zero: bool) {
    let per_unit = shared.layout.sectors_per_unit;
    let record = &mut shared.works[work];
    let (mut unit, mut first) = shared.layout.unit_of(lba);
    let count = if first + sectors <= per_unit { 1 } else { shared.layout.units_of(first + sectors) };
    record.slices_left += count;
    record.dmas_left += count;
    let write = record.command.opcode != Opcode::Read;
    let through = write && (record.command.fua || core.config().buffer.write == WritePolicy::WriteThrough);
    let (stages, start) = (record.stages, record.command.lba.0);
    core.queue.expect(if write { count } else { 0 });
    let mut done = 0;
    while done < sectors {
        let here = (per_unit - first).min(sectors - done);
        let slice = shared.slices.insert_with(|| Slice {
            work,
            lpn: Lpn(unit),
            number: 0,
            first,
            sectors: here,
            data_at: (lba - start) as u32 + done,
            zero,
            unbegun: false,
            through,
            moved: false,
            primary: false,
            delivered: false,
            route: Route::Page,
            place: Place::None,
            mark: shared.now,
            stages,
            next: NIL,
        });
        done += here;
        (unit, first) = (unit + 1, 0);
        ask_slice(core, shared, slice);
    }
}

/// Asks the firmware to look at a slice.
#[inline(always)]
fn ask_slice(core: &mut Core, shared: &mut Shared, slice: u32) {
    if shared.grants(Task::Slice(slice)) {
        slice_known(core, shared, slice);
    }
}

/// Asks the firmware to have the data of a slice moved.
#[inline(always)]
pub(super) fn ask_dma(core: &mut Core, shared: &mut Shared, slice: u32) {
    shared.charge(Chore::Depend, 1);
    if shared.grants(Task::Dma(slice)) {
        start_dma(core, shared, slice);
    }
}

/// The firmware has looked at a slice.
#[inline]
pub(super) fn slice_known(core: &mut Core, shared: &mut Shared, slice: u32) {
    shared.slices[slice].book(Stage::Firmware, shared.now);
    shared.charge(Chore::Lookup, 1);
    read::place(core, shared, slice, false);
}

/// The firmware has the data of a slice moved.
#[inline]
pub(super) fn start_dma(core: &mut Core, shared: &mut Shared, slice: u32) {
    if shared.start_dma(slice) {
        read::dma_done(core, shared, slice);
    }
}

/// As [`super::read::place`], for a write.
pub(super) fn place_write(core: &mut Core, shared: &mut Shared, slice: u32, in_turn: bool) {
    let record = &shared.slices[slice];
    let (lpn, mask) = (record.lpn, record.mask());
    if core.side.is_read_only() {
        return refuse_accepted(core, shared, slice);
    }
    let found = core.buffer.find(lpn);
    let awaited = |entry: u32| core.buffer[entry].is_awaited(mask);
    let apart = core.config().buffer.fifo;
    let joins_not = |entry: u32| {
        apart && core.buffer.is_of_write(entry) && core.buffer[entry].phase() != Phase::Programming
    };
    if found.is_some_and(|entry| awaited(entry) || joins_not(entry)) || core.behind.holds(lpn) {
        behind::fall_behind(core, shared, slice);
        if let Some(entry) = found.filter(|_| apart) {
            behind::hurry(core, shared, entry);
        }
        return;
    }
    let entry = match found {
        Some(entry) if core.buffer[entry].phase() != Phase::Programming => {
            if !core.buffer.takes_write(entry) {
                return starved::starve(core, shared, slice, true);
            }
            entry
        }
        // A new entry: for a page that is not here, or beside one whose data are being programmed.
        _ => {
            let waits = !in_turn && !starved::is_line_empty(core, true);
            if waits || core.buffer.writes_are_full() || !starved::make_vacancy(core, shared) {
                return starved::starve(core, shared, slice, true);
            }
            shared.charge(Chore::Entry, 1);
            take_beside(core, lpn, found.is_some())
        }
    };
    core.buffer.busy(entry);
    read::book_placed(core, shared, slice, entry, in_turn);
    if core.buffer[entry].phase() == Phase::Packed {
        unpack(core, entry);
    }
    core.buffer.hold_for_write(entry);
    shared.counts(core.side.number()).buffer_write_hits += u64::from(found.is_some());
    core.buffer[entry].users_mut().hold();
    ask_dma(core, shared, slice);
}

/// Takes a vacant entry for a page. `was_found`: the page had one whose data are being programmed.
fn take_beside(core: &mut Core, lpn: Lpn, was_found: bool) -> u32 {
    // Making room may have moved the page's old entry out.
    let old = if was_found { core.buffer.find(lpn) } else { None };
    if let Some(old) = old {
        core.buffer.unlist(old);
    }
    let entry = core.buffer.take(lpn).expect("a vacancy was made");
    match old {
        // Missing sectors are read behind the program.
        Some(old) if core.config().buffer.fifo => core.buffer[entry].follow(old),
        Some(old) => core.buffer.copy(old, entry),
        None => {}
    }
    entry
}

/// A write that was accepted before the drive knew that it can store no more is refused.
#[cold]
fn refuse_accepted(core: &mut Core, shared: &mut Shared, slice: u32) {
    core.queue.expect_less(1);
    let record = &mut shared.slices[slice];
    record.book(Stage::Buffer, shared.now);
    tenancy::give_up(core, record.lpn, shared.works[record.work].command.opcode);
    shared.slice_done(slice, Status::ReadOnly);
}

/// Puts the data of a write slice into the buffer.
#[inline]
pub(super) fn store(core: &mut Core, shared: &mut Shared, slice: u32) {
    let s = &shared.slices[slice];
    let (entry, mask, work) = (s.place.entry(), s.mask(), s.work);
    if mask != shared.full {
        read::bring(core, shared, entry);
    }
    let s = &shared.slices[slice];
    let (command, submitted) = (&shared.works[s.work].command, shared.works[s.work].submitted);
    let images = core.buffer.images_mut(entry, s.first, s.sectors);
    if s.zero {
        images.fill(0);
    } else {
        let start = s.data_at as usize * shared.image_bytes;
        copy_images(images, &command.data[start..start + images.len()]);
    }
    let handle = match command.opcode {
        // A trim of part of a page does not say where the rest belongs.
        Opcode::Trim if core.buffer[entry].sectors().dirty() != 0 => core.buffer[entry].handle(),
        Opcode::Trim => core.side.translation.owner(core.buffer[entry].lpn()),
        _ => command.handle,
    };
    let opcode = command.opcode;
    let record = &mut core.buffer[entry];
    record.store(mask, submitted, handle);
    let place = core.side.stored_at(core.buffer[entry].lpn());
    probes::observe_stored(shared, place, work);
    tenancy::stored(core, entry, opcode);
}

/// The firmware knows that the data of a write slice are in the buffer.
#[inline]
pub(super) fn write_arrived(core: &mut Core, shared: &mut Shared, slice: u32) {
    core.queue.arrive();
    let record = &shared.slices[slice];
    let entry = record.place.entry();
    if record.through {
        let held = &mut core.buffer[entry];
        held.want();
        held.waiters_mut().await_program(&mut shared.slices, slice);
        core.queue.await_program();
    } else {
        shared.slice_done(slice, Status::Success);
    }
    read::release(core, shared, entry);
    if core.config().buffer.write == WritePolicy::WriteBack {
        dispatch_above(core, shared, core.config().buffer.dirty_high);
    }
    write_waits::pad_overdue(core, shared);
}

/// Decides the next step of an entry after work on it has ended.
#[inline]
pub(super) fn settle(core: &mut Core, shared: &mut Shared, entry: u32) {
    let record = &core.buffer[entry];
    let leaves = record.sectors().dirty() != 0 && record.is_wanted();
    if record.is_occupied() || (record.users().any() && !leaves) {
        return;
    }
    if leaves {
        return dispatch(core, shared, entry);
    }
    // A clean entry goes to the slices that wait for one: kept as the most recently used, it would let all older ones be written first.
    let stays = record.sectors().dirty() != 0 || (core.config().buffer.retain && core.starved.is_empty());
    let stays = stays && record.is_listed();
    // Trimmed before it left: no program lets writes go on that wait behind it.
    core.behind.wake(record.lpn());
    match stays {
        true => core.buffer.idle(entry),
        false => core.buffer.vacate(entry),
    }
    starved::feed_starved(core, shared);
}

/// Sends an entry to the media as soon as nothing else is done with it.
pub(super) fn dispatch(core: &mut Core, shared: &mut Shared, entry: u32) {
    core.buffer.busy(entry);
    let record = &mut core.buffer[entry];
    record.want();
    if record.is_occupied() {
        return;
    }
    if record.sectors().valid() != shared.full {
        core.queue.begin_fill();
        read::start_fill(core, shared, entry, Cause::ReadModifyWrite, NIL);
        return;
    }
    pack(core, shared, entry);
}

/// Write-back: dispatches the least recently used dirty entries until no more than a share of the buffer is dirty.
fn dispatch_above(core: &mut Core, shared: &mut Shared, share: f64) {
    let limit = (share * f64::from(core.buffer.write_limit())) as u32;
    while core.buffer.dirty_idle() > limit {
        let Some(entry) = core.buffer.oldest_dirty() else { return };
        dispatch(core, shared, entry);
    }
}

#[inline]
pub(super) fn pack(core: &mut Core, shared: &mut Shared, entry: u32) {
    // The overwritten unit becomes invalid, so its address must be known.
    match core.side.translation.lookup(core.buffer[entry].lpn()) {
        Located::NeedsMap(page) => map_reads::await_map(core, shared, entry, page, Then::Leave),
        _ => pack_known(core, shared, entry),
    }
}

/// As [`pack`], when what it overwrites is known.
#[inline]
pub(super) fn pack_known(core: &mut Core, shared: &mut Shared, entry: u32) {
    core.buffer[entry].pack(core.queue.arrived());
    let record = &core.buffer[entry];
    let stream = core.side.translation.stream(record.lpn(), record.handle());
    let queue = core.queue.pack(stream, entry);
    programs::program_packed(core, shared, queue, false);
}

/// New data come for an entry that waits for a superpage: it goes back in line when they are here.
fn unpack(core: &mut Core, entry: u32) {
    core.queue.unpack(entry);
    core.buffer[entry].rest();
}
