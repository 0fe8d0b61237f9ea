//! The read path, and that of everything that needs a unit from the media.
//!
//! ```text
//!  slice ─► entry listed? ── all sectors here ─────────────────────────────► DMA to host ─► done
//!              │ no: take a vacant entry (or wait for one)                       ▲
//!              └─► fill: never written ─► zeros ──────────────────────────────┤
//!                        else flash read ─► failed? again, elsewhere if moved ───┘
//! ```
//! A page whose data GC moves is read where it lies still: its new place may be programmed long after. (With
//! `order = "fifo"` nothing goes ahead of that program, and the new place is read.)
//!
//! One sense brings all units of a command that lie in the page, of all planes that work together: as long as it has not begun, the next
//! units of the command join it. Their data cross the channel with it; from then on each goes its own way, and is read again alone.
//!
//! An entry that stays behind a read holds its data only once something needs them here: until then they lie on the media, where a later read
//! finds them (`Content::OnMedia`).
//!
//! Slices that arrive during a fill join it. A fill brings only the sectors that the entry lacks, so it does not undo a write that
//! arrives meanwhile.

use super::buffer::Content;
use super::core::Core;
use super::map_reads::Then;
use super::{Purpose, damage, map_reads, starved, tenancy, write, write_failures};
use crate::back::operations;
use crate::back::scheduler::{FlashOp, OpKind};
use crate::config::DieOrder;
use crate::firmware::Chore;
use crate::front::commands::{Place, Slice};
use crate::probes;
use crate::shared::Shared;
use pellucid_flash::slab::NIL;
use pellucid_flash::{Cause, Lpn, Opcode, Ppa, Stage, Status};
use pellucid_ftl::Located;
use pellucid_media::ReadResult;

/// State that the read path keeps between steps.
#[derive(Clone, Debug)]
pub(super) struct Senses {
    /// The last host read whose sense has not begun, and its command: other units of that command at the same address join
    /// it.
    gathering: (u32, u32),
    /// Data of a unit, some of whose sectors an entry takes.
    scratch: Vec<u8>,
}

impl Default for Senses {
    fn default() -> Senses {
        Senses { gathering: (NIL, NIL), scratch: Vec::new() }
    }
}

impl Senses {
    /// Allows other units of the command within the area read by `op` to join it.
    #[inline]
    fn gather(&mut self, op: u32, work: u32) {
        self.gathering = (op, work);
    }

    /// The read of the command that others may join.
    #[inline]
    fn gathering(&self, work: u32) -> Option<u32> {
        let (op, command) = self.gathering;
        (op != NIL && command == work).then_some(op)
    }

    /// Closes a read for joining, because its sense begins.
    #[inline]
    pub fn begin(&mut self, op: u32) {
        if self.gathering.0 == op {
            self.gathering.0 = NIL;
        }
    }
}

/// Finds or makes the entry for a slice and lets it go on; `in_turn`: it has waited for an entry and may take one.
#[inline]
pub(super) fn place(core: &mut Core, shared: &mut Shared, slice: u32, in_turn: bool) {
    let record = &shared.slices[slice];
    match shared.works[record.work].command.opcode {
        Opcode::Read => place_read(core, shared, slice, in_turn),
        _ => write::place_write(core, shared, slice, in_turn),
    }
}

/// As [`place`], for a read.
fn place_read(core: &mut Core, shared: &mut Shared, slice: u32, in_turn: bool) {
    let lpn = shared.slices[slice].lpn;
    let entry = match core.buffer.find(lpn) {
        Some(entry) => {
            core.buffer.busy(entry);
            entry
        }
        None if (!in_turn && !starved::is_line_empty(core, false))
            || !starved::make_vacancy(core, shared) =>
        {
            return starved::starve(core, shared, slice, false);
        }
        None => {
            shared.charge(Chore::Entry, 1);
            core.buffer.take(lpn).expect("a vacancy was made")
        }
    };
    book_placed(core, shared, slice, entry, in_turn);
    let record = &mut shared.slices[slice];
    let held = &core.buffer[entry];
    if held.sectors().has(record.mask())
        && (held.content() != Content::OnMedia || deliver_from_media(core, shared, slice, entry))
    {
        shared.counts(core.side.number()).buffer_read_hits += 1;
        return serve(core, shared, slice, entry);
    }
    let record = &mut shared.slices[slice];
    let held = &mut core.buffer[entry];
    record.primary = !held.is_filling();
    let (starts, work) = (record.primary, record.work);
    held.waiters_mut().await_fill(&mut shared.slices, slice);
    if starts {
        start_fill(core, shared, entry, Cause::Host, work);
    }
}

/// The slice has its entry; `waited`: it waited for one until now.
#[inline]
pub(super) fn book_placed(core: &mut Core, shared: &mut Shared, slice: u32, entry: u32, waited: bool) {
    let apart = starved::waits_apart(core, shared.is_write(slice));
    let record = &mut shared.slices[slice];
    record.place = Place::Entry(entry);
    if waited {
        record.stages.stall(shared.now - record.mark);
    }
    match waited && !apart {
        true => record.book_from(core.starved.cleaning(), shared.now),
        false => record.book(Stage::Buffer, shared.now),
    }
}

/// The data of a read slice are in its entry, or pass through it: they go to the host.
#[inline]
fn serve(core: &mut Core, shared: &mut Shared, slice: u32, entry: u32) {
    let held = &mut core.buffer[entry];
    held.users_mut().hold_for_read();
    write::ask_dma(core, shared, slice);
}

/// Brings the sectors that `entry` lacks. `work`: the command that reads them, if it is one.
#[inline]
pub(super) fn start_fill(core: &mut Core, shared: &mut Shared, entry: u32, cause: Cause, work: u32) {
    let held = &mut core.buffer[entry];
    held.begin_fill(cause == Cause::ReadModifyWrite);
    shared.charge(Chore::Translate, 1);
    let located = core.side.translation.lookup(held.lpn());
    fill_from(core, shared, entry, located, cause, work);
}

/// As [`start_fill`], for a page that lies there.
#[inline]
pub(super) fn fill_from(
    core: &mut Core,
    shared: &mut Shared,
    entry: u32,
    located: Located,
    cause: Cause,
    work: u32,
) {
    let newest = match located {
        Located::At(ppa) => ppa,
        Located::Zero => return tenancy::blank(core, shared, entry, None),
        Located::Lost => return end_fill(core, shared, entry, Status::UnrecoveredRead, None),
        Located::NeedsMap(page) => {
            return map_reads::await_map(core, shared, entry, page, Then::Fill(cause, work));
        }
    };
    let hurries = cause == Cause::Host && shared.config.scheduler.order == DieOrder::ReadFirst;
    let ppa = match hurries {
        true => Some(core.side.translation.readable(newest)).filter(|ppa| ppa.is_some()).unwrap_or(newest),
        false => newest,
    };
    shared.media.array().prefetch(ppa);
    if shared.sense.get() > 1 && work != NIL && joins(core, shared, entry, work, ppa) {
        return;
    }
    let die = shared.layout.die_of(ppa).0;
    let (owner, now) = (core.side.owner(Purpose::Fill(entry)), shared.now);
    let ops = &mut shared.scheduler.ops;
    let op = ops.insert_with(|| FlashOp::new(OpKind::Read, cause, owner, die, ppa, 1, now));
    ops[op].epoch = core.side.discards.read_begins();
    if core.config().buffer.fifo && cause == Cause::ReadModifyWrite {
        ops[op].sectors = (shared.full & !core.buffer[entry].sectors().valid()).count_ones();
    }
    core.senses.gather(op, work);
    shared.ask_issue(op);
}

/// Returns whether the sense that the command waits for anyhow also brings the unit at `ppa`; `entry` is then filled by it.
fn joins(core: &mut Core, shared: &mut Shared, entry: u32, work: u32, ppa: Ppa) -> bool {
    let Some(op) = core.senses.gathering(work) else { return false };
    let (record, sense) = (&mut shared.scheduler.ops[op], shared.sense);
    let Purpose::Fill(head) = Purpose::of(record.owner.token) else { return false };
    if sense.quotient(record.ppa.0) != sense.quotient(ppa.0) {
        return false;
    }
    record.units += 1;
    core.buffer.fill_beside(head, entry, ppa);
    true
}

/// The data that one sense brought are here: each unit but the first has an operation of its own from now on.
pub(super) fn part_fills(core: &mut Core, shared: &mut Shared, op: u32, head: u32) {
    shared.scheduler.ops[op].units = 1;
    let mut at = core.buffer[head].take_beside();
    while at != NIL {
        let entry = at;
        at = core.buffer[entry].take_beside();
        let (owner, ppa) = (core.side.owner(Purpose::Fill(entry)), core.buffer[entry].source());
        let mut part = shared.scheduler.ops[op].part_for(owner, ppa);
        part.epoch = core.side.discards.read_begins();
        let part = shared.scheduler.ops.insert(part);
        probes::observe_part(shared, op, part);
        fill_arrived(core, shared, part, entry);
    }
}

#[inline]
pub(super) fn fill_arrived(core: &mut Core, shared: &mut Shared, op: u32, entry: u32) {
    let FlashOp { ppa, attempts, .. } = shared.scheduler.ops[op];
    let now_at = match core.side.translation.peek(core.buffer[entry].lpn()) {
        Located::At(now_at) => now_at,
        // The program that followed what was lost has failed.
        Located::Lost => return end_fill(core, shared, entry, Status::UnrecoveredRead, Some(op)),
        // Trimmed, or dropped, while the read was under way.
        _ => return tenancy::blank(core, shared, entry, Some(op)),
    };
    if now_at != ppa && names_another(core, shared, ppa, entry) {
        // It moved while the data were being decoded, and its old place serves another page by now.
        return operations::retry(shared, op, now_at);
    }
    let passes = passes_by(core, entry);
    let result = match core.buffer[entry].sectors().valid() {
        0 if passes => read_through(core, shared, ppa, entry, attempts),
        0 => {
            let sectors = shared.layout.sectors_per_unit;
            shared.media.read(ppa, 0, core.buffer.images_mut(entry, 0, sectors), attempts)
        }
        valid => read_rest(core, shared, ppa, entry, (attempts, valid)),
    };
    match result {
        ReadResult::Ok { corrected_bits, worst_chunk_bits } => {
            let stays = if core.config().buffer.retain { shared.full } else { 0 };
            match passes {
                true => core.buffer[entry].fill_past(stays),
                false => core.buffer[entry].fill(shared.full),
            }
            operations::corrected(shared, core.side.number(), corrected_bits, attempts);
            end_fill(core, shared, entry, Status::Success, Some(op));
            if worst_chunk_bits > 0 {
                damage::refresh_if_due(&mut core.side, shared, ppa, worst_chunk_bits);
            }
        }
        ReadResult::Uncorrectable if operations::tries_again(shared, ppa, attempts) => {
            operations::retry(shared, op, now_at)
        }
        // A copy was on its way elsewhere.
        ReadResult::Uncorrectable if now_at != ppa => operations::retry(shared, op, now_at),
        ReadResult::Uncorrectable => {
            shared.counts(core.side.number()).uncorrectable_reads += 1;
            let awaits_rest = core.buffer[entry].awaits_the_rest(shared.full);
            let leaves = tenancy::drop_unreadable(core, shared, entry, op);
            if !leaves {
                end_fill(core, shared, entry, Status::UnrecoveredRead, Some(op));
            }
            damage::unreadable(&mut core.side, shared, ppa, leaves || awaits_rest);
        }
        ReadResult::Erased if now_at != ppa => operations::retry(shared, op, now_at),
        ReadResult::Erased => panic!("the map points to erased unit {}", ppa.0),
    }
}

/// Reads a unit into the sectors of the entry that are not here yet.
fn read_rest(
    core: &mut Core,
    shared: &mut Shared,
    ppa: Ppa,
    entry: u32,
    (attempts, valid): (u32, u64),
) -> ReadResult {
    let sectors = shared.layout.sectors_per_unit;
    let mut scratch = std::mem::take(&mut core.senses.scratch);
    scratch.resize(sectors as usize * shared.image_bytes, 0);
    let result = shared.media.read(ppa, 0, &mut scratch, attempts);
    if matches!(result, ReadResult::Ok { .. }) {
        for sector in (0..sectors).filter(|s| valid >> s & 1 == 0) {
            let at = sector as usize * shared.image_bytes;
            core.buffer.images_mut(entry, sector, 1).copy_from_slice(&scratch[at..at + shared.image_bytes]);
        }
    }
    core.senses.scratch = scratch;
    result
}

/// Returns whether the content of a fill bypasses the memory of the buffer: only the waiting hosts need it now, so the data go straight to
/// them. An entry that is kept says where its data lie.
#[inline]
fn passes_by(core: &Core, entry: u32) -> bool {
    let record = &core.buffer[entry];
    record.sectors().valid() == 0 && !record.is_wanted()
}

/// Where the data of a page can be read, if they can be at all.
fn whereabouts(core: &Core, shared: &Shared, lpn: Lpn) -> Option<Ppa> {
    let Located::At(newest) = core.side.translation.peek(lpn) else { return None };
    let at = Some(core.side.translation.readable(newest)).filter(|ppa| ppa.is_some()).unwrap_or(newest);
    shared.media.array().is_programmed(at).then_some(at)
}

/// Delivers data of an entry that are only on the media to the host of a slice. `false`: they can no longer be read there, so they no
/// longer count as present.
fn deliver_from_media(core: &mut Core, shared: &mut Shared, slice: u32, entry: u32) -> bool {
    let Slice { work, first, sectors, data_at, .. } = shared.slices[slice];
    if !shared.works[work].command.data.is_empty() {
        let at = whereabouts(core, shared, core.buffer[entry].lpn());
        let start = data_at as usize * shared.image_bytes;
        let out = &mut shared.works[work].command.data[start..start + sectors as usize * shared.image_bytes];
        if !at.is_some_and(|at| shared.media.read_more(at, first, out)) {
            core.buffer[entry].bring(false);
            return false;
        }
    }
    shared.slices[slice].delivered = true;
    true
}

/// Loads data of an entry that are only on the media, because they are about to change. Data that can no longer be read there no longer
/// count as present.
pub(super) fn bring(core: &mut Core, shared: &mut Shared, entry: u32) {
    if core.buffer[entry].content() != Content::OnMedia {
        return;
    }
    let at = whereabouts(core, shared, core.buffer[entry].lpn());
    let images = core.buffer.images_mut(entry, 0, shared.layout.sectors_per_unit);
    let is_good = at.is_some_and(|at| shared.media.read_more(at, 0, images));
    core.buffer[entry].bring(is_good);
}

/// Reads a unit into the memory of the hosts that wait for it; without a copy in the buffer.
fn read_through(core: &mut Core, shared: &mut Shared, ppa: Ppa, entry: u32, attempts: u32) -> ReadResult {
    let (waiting, works) = (core.buffer[entry].waiters().for_fill(), &mut shared.works);
    let (media, image_bytes) = (&mut shared.media, shared.image_bytes);
    let mut result = None;
    waiting.for_each(&mut shared.slices, |slice| {
        let data = &mut works[slice.work].command.data;
        let start = slice.data_at as usize * image_bytes;
        let out = match data.is_empty() {
            true => &mut [][..],
            false => &mut data[start..start + slice.sectors as usize * image_bytes],
        };
        // The chances of a read that fails are drawn once: it is one read.
        match result {
            None => result = Some(media.read(ppa, slice.first, out, attempts)),
            Some(ReadResult::Ok { .. }) if !media.read_more(ppa, slice.first, out) => {
                result = Some(ReadResult::Uncorrectable);
            }
            Some(_) => {}
        }
        slice.delivered = matches!(result, Some(ReadResult::Ok { .. }));
    });
    result.unwrap_or_else(|| media.read(ppa, 0, &mut [], attempts))
}

/// Fills with zeros what a never-written or trimmed page lacks.
pub(super) fn fill_zeros(core: &mut Core, shared: &mut Shared, entry: u32, op: Option<u32>) {
    let valid = core.buffer[entry].sectors().valid();
    for sector in (0..shared.layout.sectors_per_unit).filter(|s| valid >> s & 1 == 0) {
        core.buffer.images_mut(entry, sector, 1).fill(0);
    }
    let held = &mut core.buffer[entry];
    held.fill_blank(shared.full);
    end_fill(core, shared, entry, Status::Success, op);
}

/// Returns whether the unit at `ppa` is not known to hold the page of `entry`.
#[inline]
fn names_another(core: &Core, shared: &Shared, ppa: Ppa, entry: u32) -> bool {
    let spare = shared.media.array().spare(ppa);
    spare.is_none_or(|spare| core.side.translation.named(spare.lpn) != core.buffer[entry].lpn())
}

/// The fill has ended: slices that wait for it go on, or fail.
#[inline]
pub(super) fn end_fill(core: &mut Core, shared: &mut Shared, entry: u32, status: Status, op: Option<u32>) {
    let held = &mut core.buffer[entry];
    if held.end_fill() {
        core.queue.end_fill();
    }
    // Held, so that nothing that follows from a slice gives the entry away before the end.
    held.users_mut().hold();
    let mut waiting = held.waiters_mut().take_for_fill();
    if let Some(op) = op {
        probes::observe_operation(shared, op);
        if probes::is_observed(shared) {
            let completes = shared.scheduler.ops[op].cause == Cause::ReadModifyWrite;
            let place = completes.then(|| core.side.stored_at(core.buffer[entry].lpn()));
            probes::observe_served(shared, op, waiting, place);
        }
        core.side.discards.read_ended(shared.scheduler.ops[op].epoch);
    }
    while let Some(slice) = waiting.pop(&mut shared.slices) {
        let record = &mut shared.slices[slice];
        match op {
            // One that joined a sense later than it was asked for has waited for less.
            Some(op) if record.primary => record.add_operation(&shared.scheduler.ops[op], shared.now),
            _ => record.book(Stage::Buffer, shared.now),
        }
        let mask = record.mask();
        let held = &core.buffer[entry];
        if held.content() == Content::Hollow || held.sectors().has(mask) {
            match shared.moves_at_once(slice) {
                true => delivered(core, shared, slice),
                false => serve(core, shared, slice, entry),
            }
        } else {
            if status == Status::Absent {
                shared.note_absent(slice);
            }
            shared.slice_done(slice, status);
        }
    }
    if let Some(op) = op {
        shared.scheduler.ops.release(op);
    }
    // A write that brought all of the page meanwhile needs nothing of what could not be read.
    if status != Status::Success && core.buffer[entry].awaits_the_rest(shared.full) {
        write_failures::lose(core, shared, entry);
    }
    release(core, shared, entry);
}

/// One user less.
#[inline]
pub(super) fn release(core: &mut Core, shared: &mut Shared, entry: u32) {
    core.buffer[entry].users_mut().let_go();
    write::settle(core, shared, entry);
}

/// Marks the data of a slice as delivered, to the buffer or to the host, unless they already were. A self-completing controller
/// completes afterwards, so the data of its completions are counted here.
#[inline]
fn move_data(core: &mut Core, shared: &mut Shared, slice: u32) {
    let record = &mut shared.slices[slice];
    if std::mem::replace(&mut record.moved, true) {
        return;
    }
    let work = &mut shared.works[record.work];
    if work.command.opcode != Opcode::Read {
        return write::store(core, shared, slice);
    }
    let unmapped = core.buffer[record.place.entry()].content() == Content::Unmapped;
    work.unmapped += if unmapped { record.sectors } else { 0 };
    let data = &mut work.command.data;
    if !data.is_empty() && !record.delivered {
        let start = record.data_at as usize * shared.image_bytes;
        let images = core.buffer.images(record.place.entry(), record.first, record.sectors);
        // A trim may have come while the link worked, and a write since: old, new and zeros are right answers then.
        data[start..start + images.len()].copy_from_slice(images);
    }
}

/// The host has, or has given, the data of a slice.
#[inline]
pub(super) fn dma_done(core: &mut Core, shared: &mut Shared, slice: u32) {
    let record = &shared.slices[slice];
    let (work, entry) = (record.work, record.place.entry());
    move_data(core, shared, slice);
    if shared.works[work].command.opcode != Opcode::Read {
        return write::write_arrived(core, shared, slice);
    }
    shared.slice_done(slice, Status::Success);
    core.buffer[entry].users_mut().end_read();
    release(core, shared, entry);
}

/// The host has the data of a read slice, which took no time.
#[inline]
fn delivered(core: &mut Core, shared: &mut Shared, slice: u32) {
    move_data(core, shared, slice);
    shared.slice_done(slice, Status::Success);
}

/// The controller has moved the data of a slice; with the last one of its command it completes that by itself.
pub(super) fn link_done(core: &mut Core, shared: &mut Shared, slice: u32) {
    let Slice { work, through, stages, .. } = shared.slices[slice];
    if through {
        return;
    }
    move_data(core, shared, slice);
    let record = &mut shared.works[work];
    record.dmas_left -= 1;
    if record.dmas_left == 0 && record.status == Status::Success {
        record.stages = stages;
        shared.complete(work);
        shared.fetched.complete_early();
    }
}
