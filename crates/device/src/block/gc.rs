//! Collection carried out: relocations read and programmed, empty blocks erased, and power cuts.
//!
//! ```text
//!  pump(die) ─► read valid units ─► still current? ─► packed per die ─► stripe full or victim read ─► program
//!                (or copyback)         no: nothing to do                                              │
//!  erase ◄── block holds nothing valid ◄── translation ◄────────────────────────────────────────────┘
//! ```
//! One read brings the valid units that one sense has put into the page registers: those of a page, of all planes that work together.
//! A die keeps at most `gc_parallel` stripes' worth of relocations in flight, so that host requests are not starved.

use super::packer::OperationPacker;
use super::write::SuperpageUnit;
use super::{BlockNamespace, Purpose};
use crate::back::scheduler::{FlashOp, OpKind};
use crate::shared::Shared;
use pellucid_flash::slab::{Linked, List, NIL, Slab};
use pellucid_flash::{Cause, DieId, Layout, Lpn, Ppa};
use pellucid_ftl::{Emptied, FtlConfig, Isolation, Stream};
use pellucid_media::ReadResult;

/// A unit being moved.
#[derive(Clone, Debug)]
struct Relocation {
    from: Ppa,
    lpn: Lpn,
    die: u32,
    stream: Stream,
    cause: Cause,
    /// Its block holds map segments.
    meta: bool,
    /// The next one that the same sense brings.
    next: u32,
}

impl Default for Relocation {
    fn default() -> Relocation {
        let (from, lpn, stream, cause) = (Ppa::NONE, Lpn::NONE, Stream::Collected, Cause::Collection);
        Relocation { from, lpn, die: 0, stream, cause, meta: false, next: NIL }
    }
}

impl Linked for Relocation {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// What collection keeps between steps.
#[derive(Clone, Debug)]
pub(crate) struct Gc {
    relocations: Slab<Relocation>,
    images: Vec<u8>,
    unit_images: usize,
    /// Per die: read and waiting for a stripe.
    packers: Vec<OperationPacker>,
    /// Per die: relocations under way.
    moving: Vec<u32>,
    /// Per die: of these, those that are being read.
    reading: Vec<u32>,
    /// Units of blocks of map segments that are being read.
    segments_reading: u32,
    /// Relocations that a die keeps in flight.
    moving_max: u32,
    /// Dies whose relocated data found no room.
    stalled: bool,
    lpns: Vec<Lpn>,
}

impl Gc {
    pub fn new(ftl: &FtlConfig, layout: &Layout, image_bytes: usize) -> Gc {
        let apart = match ftl.isolation {
            Isolation::Initial => 1,
            Isolation::Persistent => ftl.handles,
        };
        let packer = OperationPacker::of_collection(apart, layout.units_per_stripe);
        Gc {
            relocations: Slab::default(),
            images: Vec::new(),
            unit_images: layout.sectors_per_unit as usize * image_bytes,
            packers: vec![packer; layout.dies as usize],
            moving: vec![0; layout.dies as usize],
            reading: vec![0; layout.dies as usize],
            segments_reading: 0,
            moving_max: ftl.gc_parallel.max(1) * layout.units_per_stripe,
            stalled: false,
            lpns: Vec::new(),
        }
    }

    /// Whether map segments are being read that are to be written anew, so that more will come to those that are here.
    pub fn more_segments_come(&self) -> bool {
        self.segments_reading > 0
    }

    /// Page and content of a relocation.
    pub fn content(&self, relocation: u32) -> (Lpn, &[u8]) {
        let at = relocation as usize * self.unit_images;
        (self.relocations[relocation].lpn, &self.images[at..at + self.unit_images])
    }

    /// Relocations of a die that wait for a stripe.
    #[inline]
    fn packer(&mut self, die: DieId) -> &mut OperationPacker {
        &mut self.packers[die.0 as usize]
    }

    fn image_mut(&mut self, relocation: u32) -> &mut [u8] {
        let at = relocation as usize * self.unit_images;
        if self.images.len() < at + self.unit_images {
            self.images.resize(at + self.unit_images, 0);
        }
        &mut self.images[at..at + self.unit_images]
    }
}

impl BlockNamespace {
    /// Starts relocations in `die`, as many as may be in flight. Asked often, and most often there is nothing to do.
    #[inline]
    pub(crate) fn pump(&mut self, shared: &mut Shared, die: DieId) {
        self.translation.reap(die);
        if self.gc.moving[die.0 as usize] < self.gc.moving_max {
            self.relocate(shared, die);
        }
        if self.gc.packer(die).waiting() > 0 {
            let before = self.gc.moving[die.0 as usize];
            self.pack_relocated(shared, die);
            // What was overwritten has left, and nothing under way will ask again.
            let fewer = self.gc.moving[die.0 as usize] < before;
            if fewer && self.gc.reading[die.0 as usize] == 0 {
                self.relocate(shared, die);
            }
        }
        self.erase_emptied(shared);
    }

    fn relocate(&mut self, shared: &mut Shared, die: DieId) {
        let idle = shared.active == 0;
        let limit = self.gc.moving_max;
        while self.gc.moving[die.0 as usize] < limit && self.translation.wants_collection(die, idle) {
            let Some(relocation) = self.translation.next_relocation(die, idle) else { break };
            if !self.try_copyback(shared, die, &relocation) {
                self.read_for_relocation(shared, die, relocation);
            }
        }
    }

    /// The drive has nothing to do for hosts: background collection may start.
    pub(crate) fn collect_while_idle(&mut self, shared: &mut Shared) {
        if self.config.ftl.gc_high_blocks > self.config.ftl.gc_low_blocks {
            self.pump_all(shared);
        }
    }

    /// Starts what collection there is to do in every die.
    pub(crate) fn pump_all(&mut self, shared: &mut Shared) {
        for die in 0..shared.layout.dies {
            self.pump(shared, DieId(die));
        }
    }

    /// Reads a unit, and what else the same sense brings of those that move.
    fn read_for_relocation(&mut self, shared: &mut Shared, die: DieId, relocation: pellucid_ftl::Relocation) {
        let (first, cause, sense) = (relocation.from, relocation.cause, shared.sense);
        let begin = first.0 - sense.remainder(first.0);
        let meta = self.translation.holds_segments(shared.layout.block_of(first));
        let (mut units, mut head, mut count) = (List::EMPTY, NIL, 0);
        let mut next = Some(relocation);
        while let Some(pellucid_ftl::Relocation { from, cause, stream }) = next {
            if let Some(lpn) = shared.media.page_in_turn(from) {
                self.translation.touch(lpn);
            }
            let record = Relocation { from, lpn: Lpn::NONE, die: die.0, stream, cause, meta, next: NIL };
            let unit = self.gc.relocations.insert(record);
            units.push_back(&mut self.gc.relocations, unit);
            head = if count == 0 { unit } else { head };
            count += 1;
            next = self.translation.next_relocation_in(die, Ppa(begin)..Ppa(begin + sense.get()));
        }
        self.gc.moving[die.0 as usize] += count;
        self.gc.reading[die.0 as usize] += count;
        self.gc.segments_reading += if meta { count } else { 0 };
        let owner = self.owner(Purpose::Move(head));
        let op = FlashOp::new(OpKind::Read, cause, owner, die.0, first, count, shared.now);
        let op = shared.scheduler.ops.insert(op);
        shared.ask_issue(op);
    }

    /// Moves a unit inside its die without a transfer, where a unit is a whole stripe.
    fn try_copyback(
        &mut self,
        shared: &mut Shared,
        die: DieId,
        relocation: &pellucid_ftl::Relocation,
    ) -> bool {
        let pellucid_ftl::Relocation { from, cause, stream } = *relocation;
        if !self.config.ftl.copyback
            || shared.layout.units_per_stripe != 1
            || !self.translation.has_room(die, stream)
        {
            return false;
        }
        let Some(lpn) = shared.media.page(from) else { return false };
        let current = self.translation.is_current(lpn, from) && !shared.media.is_condemned(from);
        if lpn.0 >= self.translation.user_units() || !current {
            return false;
        }
        let Some(plan) = self.translation.plan_program(stream, Some(die), &[lpn]) else { return false };
        self.gc.moving[die.0 as usize] += 1;
        self.reserve(shared, &plan, 1);
        self.set_unit(shared, plan.id, 0, SuperpageUnit::Copyback { from, lpn });
        self.count_relocated(shared, cause, 1);
        self.issue_program(shared, &plan, 1, cause);
        true
    }

    fn count_relocated(&mut self, shared: &mut Shared, cause: Cause, units: u32) {
        self.translation.count_relocated(units);
        shared.counts(self.number).programmed_sectors[cause as usize] +=
            u64::from(units * shared.layout.sectors_per_unit);
    }

    pub(crate) fn copyback_done(&mut self, shared: &mut Shared, die: DieId, from: Ppa, lpn: Lpn, ok: bool) {
        self.gc.moving[die.0 as usize] -= 1;
        // After a failure the data go through the controller.
        if !ok && self.translation.is_current(lpn, from) {
            let cause = Cause::Retirement;
            let stream = self.translation.relocation_stream(shared.layout.block_of(from), cause);
            self.read_for_relocation(shared, die, pellucid_ftl::Relocation { from, cause, stream });
        }
    }

    /// Units of a victim are in the controller: `head` and those behind it.
    pub(crate) fn relocations_arrived(&mut self, shared: &mut Shared, op: u32, head: u32) {
        let FlashOp { attempts, die, .. } = shared.scheduler.ops[op];
        let (mut again, mut first, mut count) = (List::EMPTY, NIL, 0);
        let mut at = head;
        while at != NIL {
            let unit = at;
            at = self.gc.relocations[unit].next;
            if !self.take_relocation(shared, unit, attempts) {
                again.push_back(&mut self.gc.relocations, unit);
                first = if count == 0 { unit } else { first };
                count += 1;
            }
        }
        if count > 0 {
            let from = self.gc.relocations[first].from;
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
    fn take_relocation(&mut self, shared: &mut Shared, relocation: u32, attempts: u32) -> bool {
        let Relocation { from, die, cause, stream, meta, .. } = self.gc.relocations[relocation];
        let page = shared.media.page(from).map(|mark| self.translation.page_of_mark(mark));
        // Without a spare area it is unreadable, or overwritten and already being erased while it was decoded.
        let current = match page {
            Some(lpn) => self.translation.is_current(lpn, from),
            None => self.translation.is_valid(from),
        };
        let (mut keep, mut segment) = (false, meta);
        if current {
            let result = shared.media.read(from, 0, self.gc.image_mut(relocation), attempts);
            match (result, page) {
                (ReadResult::Ok { corrected_bits, .. }, Some(lpn)) => {
                    shared.corrected(self.number, corrected_bits, attempts);
                    self.gc.relocations[relocation].lpn = lpn;
                    keep = lpn.0 < self.translation.user_units();
                    if !keep {
                        segment = true;
                        self.rewrite_segment(lpn, cause);
                    }
                }
                _ if shared.tries_again(from, attempts) => return false,
                _ => match page.or_else(|| self.translation.segment_at(from)) {
                    // What it says is in memory.
                    Some(lpn) if lpn.0 >= self.translation.user_units() => {
                        segment = true;
                        self.rewrite_segment(lpn, cause);
                    }
                    _ => {
                        shared.counts(self.number).uncorrectable_reads += 1;
                        self.translation.relocation_lost(from);
                    }
                },
            }
        }
        self.gc.reading[die as usize] -= 1;
        self.gc.segments_reading -= u32::from(meta);
        if segment {
            self.plan_segments(shared);
        }
        if keep {
            self.gc.packer(DieId(die)).pack(stream, relocation);
        } else {
            self.drop_relocation(relocation);
        }
        true
    }

    fn drop_relocation(&mut self, relocation: u32) {
        let die = self.gc.relocations[relocation].die;
        self.gc.relocations.release(relocation);
        self.gc.moving[die as usize] -= 1;
    }

    /// Programs relocated units of a die: whole stripes, and the rest when nothing can come to fill it.
    fn pack_relocated(&mut self, shared: &mut Shared, die: DieId) {
        for queue in self.gc.packer(die).fullest_first() {
            while !self.gc.packer(die).is_empty(queue) {
                let full = self.gc.packer(die).has_stripe(queue);
                if (!full && !self.nothing_joins(die)) || self.collection_has_its_turns(shared, die) {
                    break;
                }
                if !self.program_relocated(shared, die, queue) {
                    break;
                }
            }
        }
    }

    /// Whether a die that is paced has as many programs of relocated units before it as keep it busy: one at work and one that waits.
    /// What the host may write then goes in between, and so do erases.
    fn collection_has_its_turns(&self, shared: &Shared, die: DieId) -> bool {
        if !self.config.ftl.gc_pacing {
            return false;
        }
        let at = die.0 as usize;
        let read = self.gc.moving[at] - self.gc.reading[at];
        let programming = read - self.gc.packers[at].waiting() as u32;
        programming > shared.layout.units_per_stripe
    }

    /// Whether no unit will come to what waits for a stripe: none is being read, and none will be before a stripe leaves.
    fn nothing_joins(&self, die: DieId) -> bool {
        let at = die.0 as usize;
        self.gc.reading[at] == 0
            && (self.gc.packers[at].waiting() >= self.gc.moving_max as usize
                || self.translation.victim_exhausted(die))
    }

    /// Programs up to a stripe of relocated units; `false`: there is no room.
    fn program_relocated(&mut self, shared: &mut Shared, die: DieId, queue: usize) -> bool {
        let mut lpns = std::mem::take(&mut self.gc.lpns);
        lpns.clear();
        let mut at = 0;
        // Overwritten since they were read: nothing to move. Given up since: no copy may bring them back.
        while lpns.len() < shared.layout.units_per_stripe as usize {
            let Some(relocation) = self.gc.packer(die).get(queue, at) else { break };
            let Relocation { lpn, from, .. } = self.gc.relocations[relocation];
            if self.translation.is_current(lpn, from) && !shared.media.is_condemned(from) {
                lpns.push(lpn);
                at += 1;
            } else {
                self.gc.packer(die).remove(queue, at);
                self.drop_relocation(relocation);
            }
        }
        if lpns.is_empty() {
            self.gc.lpns = lpns;
            return true;
        }
        let plan =
            self.translation.plan_program(self.gc.packers[die.0 as usize].stream(queue), Some(die), &lpns);
        let count = lpns.len();
        self.gc.lpns = lpns;
        let Some(plan) = plan else {
            self.gc.stalled = true;
            return false;
        };
        self.reserve(shared, &plan, count as u32);
        let mut cause = Cause::Collection;
        for i in 0..count {
            let relocation = self.gc.packer(die).take(queue).expect("counted");
            cause = self.gc.relocations[relocation].cause;
            self.count_relocated(shared, cause, 1);
            self.set_unit(shared, plan.id, i, SuperpageUnit::Moved(relocation));
        }
        self.issue_program(shared, &plan, count as u32, cause);
        true
    }

    pub(crate) fn relocation_programmed(
        &mut self,
        shared: &mut Shared,
        relocation: u32,
        ok: bool,
        programmed_in: DieId,
    ) {
        let Relocation { from, lpn, die, stream, .. } = self.gc.relocations[relocation];
        if ok || !self.translation.is_current(lpn, from) {
            self.drop_relocation(relocation);
        } else {
            self.gc.relocations[relocation].cause = Cause::Retirement;
            self.gc.packer(DieId(die)).pack(stream, relocation);
        }
        // A guest from another die: its own die may go on.
        if DieId(die) != programmed_in {
            self.pump(shared, DieId(die));
        }
    }

    /// Erases, or retires, the blocks that hold nothing valid.
    #[inline]
    pub(crate) fn erase_emptied(&mut self, shared: &mut Shared) {
        // Seldom there is one.
        if self.translation.has_emptied() {
            self.erase_all_emptied(shared);
        }
    }

    fn erase_all_emptied(&mut self, shared: &mut Shared) {
        while let Some(emptied) = self.translation.pop_emptied() {
            match emptied {
                Emptied::Erase(block, cause) => {
                    let die = shared.layout.die_of_block(block).0;
                    let ppa = shared.layout.ppa(block, 0);
                    let owner = self.owner(Purpose::Erase);
                    let op = FlashOp::new(OpKind::Erase, cause, owner, die, ppa, 0, shared.now);
                    let op = shared.scheduler.ops.insert(op);
                    shared.ask_issue(op);
                }
                Emptied::Retire(block) => {
                    shared.retire_block(block);
                    self.read_only |= self.translation.worn_out();
                }
            }
        }
        if self.translation.erases_wait_for_trims() {
            self.save_trims(shared);
            self.plan_segments(shared);
        }
    }

    /// The erase of a block has ended.
    pub(crate) fn erase_done(&mut self, shared: &mut Shared, op: u32) {
        let (block, cause) =
            (shared.layout.block_of(shared.scheduler.ops[op].ppa), shared.scheduler.ops[op].cause);
        let ok = shared.end_erase(self.number, block, cause);
        shared.let_go(op);
        self.translation.erase_ended(block, ok);
        self.read_only |= !ok && self.translation.worn_out();
        if std::mem::take(&mut self.gc.stalled) {
            self.pump_all(shared);
        }
        self.resume_stalled(shared);
        self.pump(shared, shared.layout.die_of_block(block));
        self.continue_flush(shared);
    }
}
