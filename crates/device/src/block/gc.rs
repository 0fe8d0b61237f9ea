//! GC carried out: the copies that translation wants are read and programmed.
//!
//! ```text
//!  pump(die) ─► read valid units ─► still current? ─► packed per die ─► superpage full or victim read ─► program
//!                (or copyback)         no: nothing to do                                              │
//!  erase ◄── block holds nothing valid ◄── translation ◄────────────────────────────────────────────┘
//! ```
//! One read brings the valid units that one sense has put into the page registers: those of a page, of all planes that work together.
//! A die keeps at most `gc_parallel` superpages' worth of GC copies in flight, so that host requests are not starved.

use super::media_side::MediaSide;
use super::packer::SuperpagePacker;
use super::superpages::SuperpageUnit;
use super::{Purpose, erases, fixed_copies, metadata, programs};
use crate::back::operations;
use crate::back::scheduler::{FlashOp, OpKind};
use crate::firmware::Chore;
use crate::probes;
use crate::shared::Shared;
use pellucid_flash::slab::{Linked, List, NIL, Slab};
use pellucid_flash::{Cause, DieId, Layout, Lpn, Ppa};
use pellucid_ftl::{Arrival, Arrived, FtlConfig, GcJob, Isolation, Move, Soon, Stream};
use pellucid_media::ReadResult;

/// A unit being moved.
#[derive(Clone, Debug)]
pub(super) struct GcCopy {
    moved: Move,
    lpn: Lpn,
    die: u32,
    /// Next unit read by the same sense.
    next: u32,
}

impl GcCopy {
    /// The move that it carries out.
    pub fn moved(&self) -> Move {
        self.moved
    }

    /// Its page.
    pub fn lpn(&self) -> Lpn {
        self.lpn
    }

    /// The next copy that the same sense brings.
    pub fn next_of_sense(&self) -> u32 {
        self.next
    }
}

impl Default for GcCopy {
    fn default() -> GcCopy {
        let moved = Move { from: Ppa::NONE, cause: Cause::Gc, to: Stream::Gc, inside: false };
        GcCopy { moved, lpn: Lpn::NONE, die: 0, next: NIL }
    }
}

impl Linked for GcCopy {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// Copies of a die that are under way.
#[derive(Clone, Debug)]
struct DieCopies {
    moving: u32,
    /// Number of these that are being read.
    reading: u32,
    /// Copies that have been read and wait for a superpage.
    packer: SuperpagePacker,
}

/// State that GC keeps between steps.
#[derive(Clone, Debug)]
pub(crate) struct Gc {
    copies: Slab<GcCopy>,
    images: Vec<u8>,
    unit_images: usize,
    dies: Vec<DieCopies>,
    /// Copies that a die keeps in flight.
    moving_max: u32,
    /// Copies found no space.
    stalled: bool,
    /// Pages of the superpage that is being planned.
    lpns: Vec<Lpn>,
    /// Units that a die moves by itself.
    inside: Vec<Move>,
}

impl Gc {
    pub fn new(ftl: &FtlConfig, layout: &Layout, image_bytes: usize) -> Gc {
        let apart = match ftl.isolation {
            Isolation::Initial => 1,
            Isolation::Persistent => ftl.handles,
        };
        let packer = SuperpagePacker::of_gc(apart, layout.units_per_superpage);
        Gc {
            copies: Slab::default(),
            images: Vec::new(),
            unit_images: layout.sectors_per_unit as usize * image_bytes,
            dies: vec![DieCopies { moving: 0, reading: 0, packer }; layout.dies as usize],
            moving_max: ftl.gc_parallel.max(1) * layout.units_per_superpage,
            stalled: false,
            lpns: Vec::new(),
            inside: Vec::new(),
        }
    }

    /// Page and content of a copy.
    pub fn content(&self, copy: u32) -> (Lpn, &[u8]) {
        let at = copy as usize * self.unit_images;
        (self.copies[copy].lpn, &self.images[at..at + self.unit_images])
    }

    /// A unit being moved.
    #[inline]
    pub fn copy(&self, copy: u32) -> &GcCopy {
        &self.copies[copy]
    }

    /// Returns whether copies found no space since the last call.
    #[inline]
    pub fn take_stalled(&mut self) -> bool {
        std::mem::take(&mut self.stalled)
    }

    #[inline]
    fn die(&self, die: DieId) -> &DieCopies {
        &self.dies[die.0 as usize]
    }

    #[inline]
    fn die_mut(&mut self, die: DieId) -> &mut DieCopies {
        &mut self.dies[die.0 as usize]
    }

    /// Copies of a die that wait for a superpage.
    #[inline]
    fn packer(&mut self, die: DieId) -> &mut SuperpagePacker {
        &mut self.die_mut(die).packer
    }

    /// Returns whether every die has the maximum number of copies in flight, and no copy waits for a
    /// superpage.
    #[inline]
    fn has_all_in_flight(&self) -> bool {
        self.dies.iter().all(|die| die.moving >= self.moving_max && die.packer.waiting() == 0)
    }

    /// Returns whether a die may start more copies.
    #[inline]
    fn may_move(&self, die: DieId) -> bool {
        self.die(die).moving < self.moving_max
    }

    /// Units of a die are read together; gives the first.
    pub(super) fn enter(&mut self, die: DieId, moves: &[Move]) -> u32 {
        let (mut units, mut head) = (List::EMPTY, NIL);
        for &moved in moves {
            let unit = self.copies.insert(GcCopy { moved, die: die.0, ..GcCopy::default() });
            units.push_back(&mut self.copies, unit);
            head = if head == NIL { unit } else { head };
        }
        let copies = self.die_mut(die);
        copies.moving += moves.len() as u32;
        copies.reading += moves.len() as u32;
        head
    }

    pub(super) fn image_mut(&mut self, copy: u32) -> &mut [u8] {
        let at = copy as usize * self.unit_images;
        if self.images.len() < at + self.unit_images {
            self.images.resize(at + self.unit_images, 0);
        }
        &mut self.images[at..at + self.unit_images]
    }
}

/// Starts GC copies in `die`, up to the limit in flight. Called often, and mostly there is nothing to do.
#[inline]
pub(super) fn pump(side: &mut MediaSide, shared: &mut Shared, die: DieId) {
    if !has_all_in_flight(side, die) {
        start_and_pack(side, shared, die);
    }
    erases::erase_emptied(side, shared);
}

/// Returns whether `die` can neither start a copy nor program a copy already read.
#[inline]
fn has_all_in_flight(side: &MediaSide, die: DieId) -> bool {
    !side.gc.may_move(die) && side.gc.die(die).packer.waiting() == 0 && !side.translation.may_reap(die)
}

fn start_and_pack(side: &mut MediaSide, shared: &mut Shared, die: DieId) {
    side.translation.set_now(shared.now);
    if side.translation.may_reap(die) {
        side.translation.reap(die);
    }
    if side.gc.may_move(die) {
        start_copies(side, shared, die);
    }
    if side.gc.packer(die).waiting() > 0 {
        let before = side.gc.die(die).moving;
        pack_copies(side, shared, die);
        // Overwritten copies have left, and nothing under way will ask again.
        let copies = side.gc.die(die);
        if copies.moving < before && copies.reading == 0 {
            start_copies(side, shared, die);
        }
    }
}

pub(super) fn start_copies(side: &mut MediaSide, shared: &mut Shared, die: DieId) {
    let load = side.load(shared);
    side.translation.set_now(shared.now);
    let mut victims = victims(side, shared);
    while side.gc.may_move(die)
        && let Some(job) = side.translation.next_gc(die, load)
    {
        match job {
            GcJob::Move(moves) if moves[0].inside => {
                let mut inside = std::mem::take(&mut side.gc.inside);
                inside.clear();
                inside.extend_from_slice(moves);
                charge_gc(side, shared, &mut victims, inside.len());
                if !copy_inside(side, shared, die, &inside) {
                    let head = side.gc.enter(die, &inside);
                    read_copies(side, shared, die, head, inside.len() as u32);
                }
                side.gc.inside = inside;
            }
            GcJob::Move(moves) => {
                let (head, count) = (side.gc.enter(die, moves), moves.len() as u32);
                charge_gc(side, shared, &mut victims, count as usize);
                read_copies(side, shared, die, head, count);
            }
            GcJob::Copy { id, cause, sources } => {
                side.fixed.take_in(sources);
                charge_gc(side, shared, &mut victims, side.fixed.taken_in());
                fixed_copies::read_sources(side, shared, die, id, cause);
            }
        }
    }
    // A victim without valid units leaves nothing to copy.
    charge_gc(side, shared, &mut victims, 0);
}

/// Victims chosen so far; not counted if a choice costs the firmware nothing.
fn victims(side: &MediaSide, shared: &Shared) -> u64 {
    match shared.firmware.is_priced(Chore::Victim) {
        true => side.translation.view().counters.victims.iter().sum(),
        false => 0,
    }
}

/// The firmware has chosen victims, since there were `seen`, and copies so many units.
fn charge_gc(side: &MediaSide, shared: &mut Shared, seen: &mut u64, units: usize) {
    let now = victims(side, shared);
    if now > *seen {
        shared.charge(Chore::Victim, (now - *seen) as u32);
    }
    *seen = now;
    if units > 0 {
        shared.charge(Chore::Copy, units as u32);
    }
}

/// The drive has nothing to do for hosts: background GC may start.
pub(super) fn collect_while_idle(side: &mut MediaSide, shared: &mut Shared) {
    if side.ftl().gc_high_blocks > side.ftl().gc_low_blocks {
        pump_all(side, shared);
    }
}

/// Starts what GC there is to do in every die.
pub(super) fn pump_all(side: &mut MediaSide, shared: &mut Shared) {
    // Asked anew by every write that finds no space: then all dies are at work as a rule.
    if side.gc.has_all_in_flight() && !side.translation.has_emptied() && !side.translation.may_reap_any() {
        return;
    }
    for die in 0..shared.layout.dies {
        pump(side, shared, DieId(die));
    }
}

/// Reads a unit through the controller.
fn read_copy(side: &mut MediaSide, shared: &mut Shared, die: DieId, moved: Move) {
    let head = side.gc.enter(die, &[moved]);
    read_copies(side, shared, die, head, 1);
}

/// Reads the units covered by one sense: `head` and the following ones.
pub(super) fn read_copies(side: &mut MediaSide, shared: &mut Shared, die: DieId, head: u32, count: u32) {
    let Move { from: first, cause, .. } = side.gc.copies[head].moved;
    let mut at = head;
    while at != NIL {
        let unit = &side.gc.copies[at];
        if let Some(lpn) = shared.media.array().page_in_turn(unit.moved.from) {
            side.translation.prefetch(Soon::Lookup(lpn));
        }
        at = unit.next;
    }
    let owner = side.owner(Purpose::Move(head));
    let now = shared.now;
    let op = shared
        .scheduler
        .ops
        .insert_with(|| FlashOp::new(OpKind::Read, cause, owner, die.0, first, count, now));
    shared.ask_issue(op);
}

/// Copyback: moves a whole superpage inside its die without a transfer. `false`: it cannot.
fn copy_inside(side: &mut MediaSide, shared: &mut Shared, die: DieId, moves: &[Move]) -> bool {
    let Move { cause, to, .. } = moves[0];
    let mut lpns = std::mem::take(&mut side.gc.lpns);
    lpns.clear();
    for moved in moves {
        let mark = shared.media.array().page(moved.from).filter(|_| !shared.media.is_lost(moved.from));
        let lpn = mark.map(|mark| side.translation.named(mark));
        lpns.extend(lpn.filter(|&lpn| side.translation.is_current(moved.from, Some(lpn))));
    }
    let all = lpns.len() == moves.len();
    let plan = all.then(|| side.translation.place(to, Some(die), &lpns).ok()).flatten();
    if let Some(plan) = &plan {
        let count = moves.len() as u32;
        side.gc.die_mut(die).moving += count;
        side.superpages.enter(plan, count);
        for (at, (&Move { from, .. }, &lpn)) in moves.iter().zip(&lpns).enumerate() {
            side.superpages.set(plan.id, at, SuperpageUnit::Copyback { from, lpn, to });
            count_copy(side, shared, cause);
        }
        programs::issue_program(side, shared, plan, count, cause);
    }
    side.gc.lpns = lpns;
    plan.is_some()
}

pub(super) fn count_copy(side: &mut MediaSide, shared: &mut Shared, cause: Cause) {
    shared.counts(side.number()).programmed_sectors[cause as usize] +=
        u64::from(shared.layout.sectors_per_unit);
}

pub(super) fn copyback_done(
    side: &mut MediaSide,
    shared: &mut Shared,
    die: DieId,
    moved: Move,
    lpn: Lpn,
    ok: bool,
) {
    side.gc.die_mut(die).moving -= 1;
    // After a failure the data go through the controller.
    if !ok && side.translation.is_current(moved.from, Some(lpn)) {
        read_copy(side, shared, die, moved);
    }
}

/// Handles units of a victim that have arrived in the controller: `head` and the following ones.
pub(super) fn copies_arrived(side: &mut MediaSide, shared: &mut Shared, op: u32, head: u32) {
    let FlashOp { attempts, die, .. } = shared.scheduler.ops[op];
    let (mut again, mut first, mut count) = (List::EMPTY, NIL, 0);
    let (mut lost, mut at) = (false, head);
    while at != NIL {
        let unit = at;
        at = side.gc.copies[unit].next;
        match take_copy(side, shared, unit, attempts) {
            Taken::Done => {}
            Taken::Lost => lost = true,
            Taken::Again => {
                again.push_back(&mut side.gc.copies, unit);
                first = if count == 0 { unit } else { first };
                count += 1;
            }
        }
    }
    // One read, however many units it brings.
    let counters = shared.counts(side.number());
    counters.uncorrectable_reads += u64::from(lost);
    counters.corrected_reads += u64::from(count == 0 && !lost && attempts > 0);
    if count > 0 {
        let from = side.gc.copies[first].moved.from;
        let owner = side.owner(Purpose::Move(first));
        let record = &mut shared.scheduler.ops[op];
        (record.owner, record.ppa, record.units) = (owner, from, count);
        operations::retry(shared, op, from);
    } else {
        probes::observe_operation(shared, op);
        shared.scheduler.ops.release(op);
    }
    pump(side, shared, DieId(die));
}

/// Fate of a unit that was read to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// It will be copied, or need not be.
    Done,
    /// It cannot be read.
    Lost,
    /// It must be read again.
    Again,
}

/// Takes in a unit that was read.
fn take_copy(side: &mut MediaSide, shared: &mut Shared, copy: u32, attempts: u32) -> Taken {
    let GcCopy { moved, die, .. } = side.gc.copies[copy];
    let named = shared.media.array().page(moved.from);
    let mut arrival = Arrival::Outdated;
    if side.translation.is_current(moved.from, named) {
        arrival = match shared.media.read(moved.from, 0, side.gc.image_mut(copy), attempts) {
            ReadResult::Ok { corrected_bits, .. } if named.is_some() => {
                shared.counts(side.number()).corrected_bits += u64::from(corrected_bits);
                Arrival::Read
            }
            _ if operations::tries_again(shared, moved.from, attempts) => return Taken::Again,
            _ => Arrival::Unreadable,
        };
    }
    side.gc.die_mut(DieId(die)).reading -= 1;
    side.translation.set_now(shared.now);
    let mut taken = Taken::Done;
    match side.translation.arrived(&moved, named, arrival) {
        Arrived::Keep(lpn) => {
            side.gc.copies[copy].lpn = lpn;
            match moved.to {
                Stream::Merge(id) => fixed_copies::source_arrived(side, shared, id),
                _ => _ = side.gc.packer(DieId(die)).pack(moved.to, copy),
            }
            return taken;
        }
        Arrived::Metadata => metadata::write_map(side, shared),
        Arrived::Lost => taken = Taken::Lost,
        Arrived::Drop => {}
    }
    drop_copy(side, copy);
    if let Stream::Merge(id) = moved.to {
        side.fixed.drop_source(id, copy);
        fixed_copies::source_arrived(side, shared, id);
    }
    taken
}

pub(super) fn drop_copy(side: &mut MediaSide, copy: u32) {
    let die = side.gc.copies[copy].die;
    side.gc.copies.release(copy);
    side.gc.die_mut(DieId(die)).moving -= 1;
}

/// Programs GC copies of a die: whole superpages, and the rest when no further copies can fill it.
fn pack_copies(side: &mut MediaSide, shared: &mut Shared, die: DieId) {
    for queue in side.gc.packer(die).fullest_first() {
        while !side.gc.packer(die).is_empty(queue) {
            let full = side.gc.packer(die).has_superpage(queue);
            if (!full && !nothing_joins(side, die)) || gc_has_its_turns(side, shared, die) {
                break;
            }
            if !program_copies(side, shared, die, queue) {
                break;
            }
        }
    }
}

/// Returns whether a paced die has enough programs of GC copies queued to keep it busy: one at work and one waiting. Host writes and
/// erases then go in between.
fn gc_has_its_turns(side: &MediaSide, shared: &Shared, die: DieId) -> bool {
    if !side.ftl().gc_pacing {
        return false;
    }
    let DieCopies { moving, reading, packer } = side.gc.die(die);
    let programming = moving - reading - packer.waiting() as u32;
    programming > shared.layout.units_per_superpage
}

/// Returns whether no further unit will join the units waiting for a superpage: none is being read, and none will be before a
/// superpage leaves.
fn nothing_joins(side: &MediaSide, die: DieId) -> bool {
    let copies = side.gc.die(die);
    copies.reading == 0
        && (copies.packer.waiting() >= side.gc.moving_max as usize || side.translation.gc_rests(die))
}

/// Programs up to a superpage of GC copies; `false`: there is no space.
fn program_copies(side: &mut MediaSide, shared: &mut Shared, die: DieId, queue: usize) -> bool {
    let mut lpns = std::mem::take(&mut side.gc.lpns);
    lpns.clear();
    let mut at = 0;
    // Overwritten since they were read: nothing to move. Given up since: no copy may bring them back.
    while lpns.len() < shared.layout.units_per_superpage as usize {
        let Some(copy) = side.gc.packer(die).get(queue, at) else { break };
        let GcCopy { lpn, moved: Move { from, .. }, .. } = side.gc.copies[copy];
        if side.translation.is_current(from, Some(lpn)) && !shared.media.is_lost(from) {
            lpns.push(lpn);
            at += 1;
        } else {
            side.gc.packer(die).remove(queue, at);
            drop_copy(side, copy);
        }
    }
    if lpns.is_empty() {
        side.gc.lpns = lpns;
        return true;
    }
    let plan = side.translation.place(side.gc.die(die).packer.stream(queue), Some(die), &lpns);
    let count = lpns.len();
    side.gc.lpns = lpns;
    let Ok(plan) = plan else {
        side.gc.stalled = true;
        return false;
    };
    side.superpages.enter(&plan, count as u32);
    let mut cause = Cause::Gc;
    for i in 0..count {
        let copy = side.gc.packer(die).take(queue).expect("counted");
        cause = side.gc.copies[copy].moved.cause;
        count_copy(side, shared, cause);
        side.superpages.set(plan.id, i, SuperpageUnit::Moved(copy));
    }
    programs::issue_program(side, shared, &plan, count as u32, cause);
    true
}

pub(super) fn copy_programmed(
    side: &mut MediaSide,
    shared: &mut Shared,
    copy: u32,
    ok: bool,
    programmed_in: DieId,
) {
    let GcCopy { moved: Move { from, to, .. }, lpn, die, .. } = side.gc.copies[copy];
    // Translation plans fixed copies again by itself.
    if ok || matches!(to, Stream::Merge(_)) || !side.translation.is_current(from, Some(lpn)) {
        drop_copy(side, copy);
    } else {
        side.gc.copies[copy].moved.cause = Cause::Retirement;
        side.gc.packer(DieId(die)).pack(to, copy);
    }
    // A copy from another die: its own die may go on.
    if DieId(die) != programmed_in {
        pump(side, shared, DieId(die));
    }
}
