//! GC carried out: the copies that translation wants are read and programmed, empty blocks erased.
//!
//! ```text
//!  pump(die) ─► read valid units ─► still current? ─► packed per die ─► superpage full or victim read ─► program
//!                (or copyback)         no: nothing to do                                              │
//!  erase ◄── block holds nothing valid ◄── translation ◄────────────────────────────────────────────┘
//! ```
//! One read brings the valid units that one sense has put into the page registers: those of a page, of all planes that work together.
//! A die keeps at most `gc_parallel` superpages' worth of GC copies in flight, so that host requests are not starved.

use super::fixed_copies::FixedCopies;
use super::packer::SuperpagePacker;
use super::superpages::SuperpageUnit;
use super::{BlockNamespace, Purpose};
use crate::back::scheduler::{FlashOp, OpKind};
use crate::shared::Shared;
use pellucid_flash::slab::{Linked, List, NIL, Slab};
use pellucid_flash::{BlockId, Cause, DieId, Layout, Lpn, Ppa};
use pellucid_ftl::{Arrival, Arrived, FtlConfig, GcJob, Isolation, Move, Operation, Reclaim, Soon, Stream};
use pellucid_media::ReadResult;

/// A unit being moved.
#[derive(Clone, Debug)]
pub(super) struct GcCopy {
    pub(super) moved: Move,
    pub(super) lpn: Lpn,
    pub(super) die: u32,
    /// The next one that the same sense brings.
    pub(super) next: u32,
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
    pub(super) copies: Slab<GcCopy>,
    pub(super) fixed: FixedCopies,
    images: Vec<u8>,
    unit_images: usize,
    dies: Vec<DieCopies>,
    /// Copies that a die keeps in flight.
    moving_max: u32,
    /// Copies found no space.
    stalled: bool,
    pub(super) lpns: Vec<Lpn>,
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
            fixed: FixedCopies::default(),
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

    /// Returns whether every die has as many copies in flight as it may, and none that waits for a superpage.
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

impl BlockNamespace {
    /// Starts GC copies in `die`, as many as may be in flight. Asked often, and most often there is nothing to do.
    #[inline]
    pub(crate) fn pump(&mut self, shared: &mut Shared, die: DieId) {
        if !self.has_all_in_flight(die) {
            self.start_and_pack(shared, die);
        }
        self.erase_emptied(shared);
    }

    /// Returns whether `die` can neither start a copy nor program one that was read.
    #[inline]
    fn has_all_in_flight(&self, die: DieId) -> bool {
        !self.gc.may_move(die) && self.gc.die(die).packer.waiting() == 0 && !self.translation.may_reap(die)
    }

    fn start_and_pack(&mut self, shared: &mut Shared, die: DieId) {
        self.translation.set_now(shared.now);
        if self.translation.may_reap(die) {
            self.translation.reap(die);
        }
        if self.gc.may_move(die) {
            self.start_copies(shared, die);
        }
        if self.gc.packer(die).waiting() > 0 {
            let before = self.gc.die(die).moving;
            self.pack_copies(shared, die);
            // Overwritten copies have left, and nothing under way will ask again.
            let copies = self.gc.die(die);
            if copies.moving < before && copies.reading == 0 {
                self.start_copies(shared, die);
            }
        }
    }

    pub(super) fn start_copies(&mut self, shared: &mut Shared, die: DieId) {
        let load = self.load(shared);
        self.translation.set_now(shared.now);
        while self.gc.may_move(die)
            && let Some(job) = self.translation.next_gc(die, load)
        {
            match job {
                GcJob::Move(moves) if moves[0].inside => {
                    let mut inside = std::mem::take(&mut self.gc.inside);
                    inside.clear();
                    inside.extend_from_slice(moves);
                    if !self.copy_inside(shared, die, &inside) {
                        let head = self.gc.enter(die, &inside);
                        self.read_copies(shared, die, head, inside.len() as u32);
                    }
                    self.gc.inside = inside;
                }
                GcJob::Move(moves) => {
                    let (head, count) = (self.gc.enter(die, moves), moves.len() as u32);
                    self.read_copies(shared, die, head, count);
                }
                GcJob::Copy { id, cause, sources } => {
                    self.gc.fixed.take_in(sources);
                    self.read_sources(shared, die, id, cause);
                }
            }
        }
    }

    /// The drive has nothing to do for hosts: background GC may start.
    pub(crate) fn collect_while_idle(&mut self, shared: &mut Shared) {
        if self.config.ftl.gc_high_blocks > self.config.ftl.gc_low_blocks {
            self.pump_all(shared);
        }
    }

    /// Starts what GC there is to do in every die.
    pub(crate) fn pump_all(&mut self, shared: &mut Shared) {
        // Asked anew by every write that finds no space: then all dies are at work as a rule.
        if self.gc.has_all_in_flight() && !self.translation.has_emptied() && !self.translation.may_reap_any()
        {
            return;
        }
        for die in 0..shared.layout.dies {
            self.pump(shared, DieId(die));
        }
    }

    /// Reads a unit through the controller.
    fn read_copy(&mut self, shared: &mut Shared, die: DieId, moved: Move) {
        let head = self.gc.enter(die, &[moved]);
        self.read_copies(shared, die, head, 1);
    }

    /// Reads what one sense brings: `head` and those behind it.
    pub(super) fn read_copies(&mut self, shared: &mut Shared, die: DieId, head: u32, count: u32) {
        let Move { from: first, cause, .. } = self.gc.copies[head].moved;
        let mut at = head;
        while at != NIL {
            let unit = &self.gc.copies[at];
            if let Some(lpn) = shared.media.page_in_turn(unit.moved.from) {
                self.translation.prefetch(Soon::Lookup(lpn));
            }
            at = unit.next;
        }
        let owner = self.owner(Purpose::Move(head));
        let now = shared.now;
        let op = shared
            .scheduler
            .ops
            .insert_with(|| FlashOp::new(OpKind::Read, cause, owner, die.0, first, count, now));
        shared.ask_issue(op);
    }

    /// Copyback: moves a whole superpage inside its die without a transfer. `false`: it cannot.
    fn copy_inside(&mut self, shared: &mut Shared, die: DieId, moves: &[Move]) -> bool {
        let Move { cause, to, .. } = moves[0];
        let mut lpns = std::mem::take(&mut self.gc.lpns);
        lpns.clear();
        for moved in moves {
            let mark = shared.media.page(moved.from).filter(|_| !shared.media.is_lost(moved.from));
            let lpn = mark.map(|mark| self.translation.named(mark));
            lpns.extend(lpn.filter(|&lpn| self.translation.is_current(moved.from, Some(lpn))));
        }
        let all = lpns.len() == moves.len();
        let plan = all.then(|| self.translation.place(to, Some(die), &lpns).ok()).flatten();
        if let Some(plan) = &plan {
            let count = moves.len() as u32;
            self.gc.die_mut(die).moving += count;
            self.superpages.enter(plan, count);
            for (at, (&Move { from, .. }, &lpn)) in moves.iter().zip(&lpns).enumerate() {
                self.superpages.set(plan.id, at, SuperpageUnit::Copyback { from, lpn, to });
                self.count_copy(shared, cause);
            }
            self.issue_program(shared, plan, count, cause);
        }
        self.gc.lpns = lpns;
        plan.is_some()
    }

    pub(super) fn count_copy(&mut self, shared: &mut Shared, cause: Cause) {
        shared.counts(self.number).programmed_sectors[cause as usize] +=
            u64::from(shared.layout.sectors_per_unit);
    }

    pub(crate) fn copyback_done(&mut self, shared: &mut Shared, die: DieId, moved: Move, lpn: Lpn, ok: bool) {
        self.gc.die_mut(die).moving -= 1;
        // After a failure the data go through the controller.
        if !ok && self.translation.is_current(moved.from, Some(lpn)) {
            self.read_copy(shared, die, moved);
        }
    }

    /// Units of a victim are in the controller: `head` and those behind it.
    pub(crate) fn copies_arrived(&mut self, shared: &mut Shared, op: u32, head: u32) {
        let FlashOp { attempts, die, .. } = shared.scheduler.ops[op];
        let (mut again, mut first, mut count) = (List::EMPTY, NIL, 0);
        let mut at = head;
        while at != NIL {
            let unit = at;
            at = self.gc.copies[unit].next;
            if !self.take_copy(shared, unit, attempts) {
                again.push_back(&mut self.gc.copies, unit);
                first = if count == 0 { unit } else { first };
                count += 1;
            }
        }
        if count > 0 {
            let from = self.gc.copies[first].moved.from;
            let owner = self.owner(Purpose::Move(first));
            let record = &mut shared.scheduler.ops[op];
            (record.owner, record.ppa, record.units) = (owner, from, count);
            shared.retry(op, from);
        } else {
            shared.tap_operation(op);
            shared.scheduler.ops.release(op);
        }
        self.pump(shared, DieId(die));
    }

    /// Takes in a unit that was read; `false`: it must be read again.
    fn take_copy(&mut self, shared: &mut Shared, copy: u32, attempts: u32) -> bool {
        let GcCopy { moved, die, .. } = self.gc.copies[copy];
        let named = shared.media.page(moved.from);
        let mut arrival = Arrival::Outdated;
        if self.translation.is_current(moved.from, named) {
            arrival = match shared.media.read(moved.from, 0, self.gc.image_mut(copy), attempts) {
                ReadResult::Ok { corrected_bits, .. } if named.is_some() => {
                    shared.corrected(self.number, corrected_bits, attempts);
                    Arrival::Read
                }
                _ if shared.tries_again(moved.from, attempts) => return false,
                _ => Arrival::Unreadable,
            };
        }
        self.gc.die_mut(DieId(die)).reading -= 1;
        self.translation.set_now(shared.now);
        match self.translation.arrived(&moved, named, arrival) {
            Arrived::Keep(lpn) => {
                self.gc.copies[copy].lpn = lpn;
                match moved.to {
                    Stream::Merge(id) => self.source_arrived(shared, id),
                    _ => _ = self.gc.packer(DieId(die)).pack(moved.to, copy),
                }
                return true;
            }
            Arrived::Metadata => self.write_map(shared),
            Arrived::Lost => shared.counts(self.number).uncorrectable_reads += 1,
            Arrived::Drop => {}
        }
        self.drop_copy(copy);
        if let Stream::Merge(id) = moved.to {
            self.gc.fixed.drop_source(id, copy);
            self.source_arrived(shared, id);
        }
        true
    }

    pub(super) fn drop_copy(&mut self, copy: u32) {
        let die = self.gc.copies[copy].die;
        self.gc.copies.release(copy);
        self.gc.die_mut(DieId(die)).moving -= 1;
    }

    /// Programs GC copies of a die: whole superpages, and the rest when nothing can come to fill it.
    fn pack_copies(&mut self, shared: &mut Shared, die: DieId) {
        for queue in self.gc.packer(die).fullest_first() {
            while !self.gc.packer(die).is_empty(queue) {
                let full = self.gc.packer(die).has_superpage(queue);
                if (!full && !self.nothing_joins(die)) || self.gc_has_its_turns(shared, die) {
                    break;
                }
                if !self.program_copies(shared, die, queue) {
                    break;
                }
            }
        }
    }

    /// Returns whether a paced die has enough programs of GC copies queued to keep it busy: one at work and one waiting. Host writes and
    /// erases then go in between.
    fn gc_has_its_turns(&self, shared: &Shared, die: DieId) -> bool {
        if !self.config.ftl.gc_pacing {
            return false;
        }
        let DieCopies { moving, reading, packer } = self.gc.die(die);
        let programming = moving - reading - packer.waiting() as u32;
        programming > shared.layout.units_per_superpage
    }

    /// Returns whether no further unit will join those that wait for a superpage: none is being read, and none will be before a superpage
    /// leaves.
    fn nothing_joins(&self, die: DieId) -> bool {
        let copies = self.gc.die(die);
        copies.reading == 0
            && (copies.packer.waiting() >= self.gc.moving_max as usize || self.translation.gc_rests(die))
    }

    /// Programs up to a superpage of GC copies; `false`: there is no space.
    fn program_copies(&mut self, shared: &mut Shared, die: DieId, queue: usize) -> bool {
        let mut lpns = std::mem::take(&mut self.gc.lpns);
        lpns.clear();
        let mut at = 0;
        // Overwritten since they were read: nothing to move. Given up since: no copy may bring them back.
        while lpns.len() < shared.layout.units_per_superpage as usize {
            let Some(copy) = self.gc.packer(die).get(queue, at) else { break };
            let GcCopy { lpn, moved: Move { from, .. }, .. } = self.gc.copies[copy];
            if self.translation.is_current(from, Some(lpn)) && !shared.media.is_lost(from) {
                lpns.push(lpn);
                at += 1;
            } else {
                self.gc.packer(die).remove(queue, at);
                self.drop_copy(copy);
            }
        }
        if lpns.is_empty() {
            self.gc.lpns = lpns;
            return true;
        }
        let plan = self.translation.place(self.gc.die(die).packer.stream(queue), Some(die), &lpns);
        let count = lpns.len();
        self.gc.lpns = lpns;
        let Ok(plan) = plan else {
            self.gc.stalled = true;
            return false;
        };
        self.superpages.enter(&plan, count as u32);
        let mut cause = Cause::Gc;
        for i in 0..count {
            let copy = self.gc.packer(die).take(queue).expect("counted");
            cause = self.gc.copies[copy].moved.cause;
            self.count_copy(shared, cause);
            self.superpages.set(plan.id, i, SuperpageUnit::Moved(copy));
        }
        self.issue_program(shared, &plan, count as u32, cause);
        true
    }

    pub(crate) fn copy_programmed(&mut self, shared: &mut Shared, copy: u32, ok: bool, programmed_in: DieId) {
        let GcCopy { moved: Move { from, to, .. }, lpn, die, .. } = self.gc.copies[copy];
        // Translation plans fixed copies again by itself.
        if ok || matches!(to, Stream::Merge(_)) || !self.translation.is_current(from, Some(lpn)) {
            self.drop_copy(copy);
        } else {
            self.gc.copies[copy].moved.cause = Cause::Retirement;
            self.gc.packer(DieId(die)).pack(to, copy);
        }
        // A copy from another die: its own die may go on.
        if DieId(die) != programmed_in {
            self.pump(shared, DieId(die));
        }
    }

    /// Erases, or retires, the blocks that hold nothing valid.
    #[inline]
    pub(crate) fn erase_emptied(&mut self, shared: &mut Shared) {
        if self.translation.has_emptied() {
            self.erase_all(shared);
        }
    }

    fn erase_all(&mut self, shared: &mut Shared) {
        self.translation.set_now(shared.now);
        while let Some(job) = self.translation.next_erase() {
            match job {
                Reclaim::Erase(block, cause) => self.issue_erase(shared, block, cause),
                Reclaim::Retire(block) => {
                    shared.retire_block(block);
                    self.read_only |= self.is_worn_out();
                }
                Reclaim::Evict(block) => self.read_names(shared, block),
                Reclaim::AwaitsTrims => return self.write_map(shared),
            }
        }
    }

    fn issue_erase(&mut self, shared: &mut Shared, block: BlockId, cause: Cause) {
        let die = shared.layout.die_of_block(block).0;
        let (ppa, owner) = (shared.layout.ppa(block, 0), self.owner(Purpose::Erase));
        let op = FlashOp::new(OpKind::Erase, cause, owner, die, ppa, 0, shared.now);
        let op = shared.scheduler.ops.insert(op);
        shared.ask_issue(op);
    }

    /// The erase of a block has ended.
    pub(crate) fn erase_done(&mut self, shared: &mut Shared, op: u32) {
        let (block, cause) =
            (shared.layout.block_of(shared.scheduler.ops[op].ppa), shared.scheduler.ops[op].cause);
        let ok = shared.end_erase(self.number, block, cause);
        shared.let_go(op);
        self.translation.set_now(shared.now);
        self.translation.ended(Operation::Erase(block), ok);
        self.read_only |= !ok && self.is_worn_out();
        if std::mem::take(&mut self.gc.stalled) {
            self.pump_all(shared);
        }
        self.resume_stalled(shared);
        self.pump(shared, shared.layout.die_of_block(block));
        self.continue_flush(shared);
    }
}
