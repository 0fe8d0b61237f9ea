//! Collection carried out: relocations read and programmed, empty blocks erased, and power cuts.
//!
//! ```text
//!  pump(die) ─► read valid units ─► still current? ─► packed per die ─► stripe full or victim read ─► program
//!                (or copyback)         no: nothing to do                                              │
//!  erase ◄── block holds nothing valid ◄── translation ◄────────────────────────────────────────────┘
//! ```
//! One read brings the valid units that one sense has put into the page registers: those of a page, of all planes that work together.
//! A die keeps at most `gc_parallel` stripes' worth of relocations in flight, so that host requests are not starved.

use crate::device::{Device, StripeUnit};
use crate::firmware::Task;
use crate::operation_packer::OperationPacker;
use crate::scheduler::{Client, FlashOp, OpKind};
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
pub(crate) struct Collect {
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

impl Collect {
    pub fn new(ftl: &FtlConfig, layout: &Layout, image_bytes: usize) -> Collect {
        let apart = match ftl.isolation {
            Isolation::Initial => 1,
            Isolation::Persistent => ftl.handles,
        };
        let packer = OperationPacker::of_collection(apart, layout.units_per_stripe);
        Collect {
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

impl Device {
    /// Starts relocations in `die`, as many as may be in flight. Asked often, and most often there is nothing to do.
    #[inline]
    pub(crate) fn pump(&mut self, die: DieId) {
        self.ftl.reap(die);
        if self.collect.moving[die.0 as usize] < self.collect.moving_max {
            self.relocate(die);
        }
        if self.collect.packer(die).waiting() > 0 {
            let before = self.collect.moving[die.0 as usize];
            self.pack_relocated(die);
            // What was overwritten has left, and nothing under way will ask again.
            let fewer = self.collect.moving[die.0 as usize] < before;
            if fewer && self.collect.reading[die.0 as usize] == 0 {
                self.relocate(die);
            }
        }
        self.erase_emptied();
    }

    fn relocate(&mut self, die: DieId) {
        let idle = self.active == 0;
        let limit = self.collect.moving_max;
        while self.collect.moving[die.0 as usize] < limit && self.ftl.wants_collection(die, idle) {
            let Some(relocation) = self.ftl.next_relocation(die, idle) else { break };
            if !self.try_copyback(die, &relocation) {
                self.read_for_relocation(die, relocation);
            }
        }
    }

    /// The drive has nothing to do for hosts: background collection may start.
    pub(crate) fn collect_while_idle(&mut self) {
        if self.config.ftl.gc_high_blocks > self.config.ftl.gc_low_blocks && self.has_block_namespace() {
            self.pump_all();
        }
    }

    /// Starts what collection there is to do in every die.
    pub(crate) fn pump_all(&mut self) {
        for die in 0..self.layout.dies {
            self.pump(DieId(die));
        }
    }

    /// Reads a unit, and what else the same sense brings of those that move.
    fn read_for_relocation(&mut self, die: DieId, relocation: pellucid_ftl::Relocation) {
        let (first, cause, sense) = (relocation.from, relocation.cause, self.direct.sense);
        let begin = first.0 - sense.remainder(first.0);
        let meta = self.ftl.holds_segments(self.layout.block_of(first));
        let (mut units, mut head, mut count) = (List::EMPTY, NIL, 0);
        let mut next = Some(relocation);
        while let Some(pellucid_ftl::Relocation { from, cause, stream }) = next {
            if let Some(lpn) = self.media.page_in_turn(from) {
                self.ftl.touch(lpn);
            }
            let record = Relocation { from, lpn: Lpn::NONE, die: die.0, stream, cause, meta, next: NIL };
            let unit = self.collect.relocations.insert(record);
            units.push_back(&mut self.collect.relocations, unit);
            head = if count == 0 { unit } else { head };
            count += 1;
            next = self.ftl.next_relocation_in(die, Ppa(begin)..Ppa(begin + sense.get()));
        }
        self.collect.moving[die.0 as usize] += count;
        self.collect.reading[die.0 as usize] += count;
        self.collect.segments_reading += if meta { count } else { 0 };
        let op = FlashOp::new(OpKind::Read, cause, Client::Relocation(head), die.0, first, count, self.now);
        let op = self.scheduler.ops.insert(op);
        self.ask(Task::Issue(op));
    }

    /// Moves a unit inside its die without a transfer, where a unit is a whole stripe.
    fn try_copyback(&mut self, die: DieId, relocation: &pellucid_ftl::Relocation) -> bool {
        let pellucid_ftl::Relocation { from, cause, stream } = *relocation;
        if !self.config.ftl.copyback || self.layout.units_per_stripe != 1 || !self.ftl.has_room(die, stream) {
            return false;
        }
        let Some(lpn) = self.media.page(from) else { return false };
        let current = self.ftl.is_current(lpn, from) && !self.media.is_condemned(from);
        if lpn.0 >= self.ftl.user_units() || !current {
            return false;
        }
        let Some(plan) = self.ftl.plan_program(stream, Some(die), &[lpn]) else { return false };
        self.collect.moving[die.0 as usize] += 1;
        self.reserve(&plan, 1);
        self.set_unit(plan.id, 0, StripeUnit::Copyback { from, lpn });
        self.count_relocated(cause, 1);
        self.issue_program(&plan, 1, cause);
        true
    }

    fn count_relocated(&mut self, cause: Cause, units: u32) {
        self.ftl.count_relocated(units);
        self.counters.programmed_sectors[cause as usize] += u64::from(units * self.layout.sectors_per_unit);
    }

    pub(crate) fn copyback_done(&mut self, die: DieId, from: Ppa, lpn: Lpn, ok: bool) {
        self.collect.moving[die.0 as usize] -= 1;
        // After a failure the data go through the controller.
        if !ok && self.ftl.is_current(lpn, from) {
            let cause = Cause::Retirement;
            let stream = self.ftl.relocation_stream(self.layout.block_of(from), cause);
            self.read_for_relocation(die, pellucid_ftl::Relocation { from, cause, stream });
        }
    }

    /// Units of a victim are in the controller: `head` and those behind it.
    pub(crate) fn relocations_arrived(&mut self, op: u32, head: u32) {
        let FlashOp { attempts, die, .. } = self.scheduler.ops[op];
        let (mut again, mut first, mut count) = (List::EMPTY, NIL, 0);
        let mut at = head;
        while at != NIL {
            let unit = at;
            at = self.collect.relocations[unit].next;
            if !self.take_relocation(unit, attempts) {
                again.push_back(&mut self.collect.relocations, unit);
                first = if count == 0 { unit } else { first };
                count += 1;
            }
        }
        if count > 0 {
            let from = self.collect.relocations[first].from;
            let record = &mut self.scheduler.ops[op];
            (record.client, record.ppa, record.units) = (Client::Relocation(first), from, count);
            self.retry(op, from);
        } else {
            self.tap_operation(op);
            self.scheduler.ops.release(op);
        }
        self.pump(DieId(die));
    }

    /// Takes in a unit that was read; `false`: it must be read again.
    fn take_relocation(&mut self, relocation: u32, attempts: u32) -> bool {
        let Relocation { from, die, cause, stream, meta, .. } = self.collect.relocations[relocation];
        let page = self.media.page(from).map(|mark| self.ftl.page_of_mark(mark));
        // Without a spare area it is unreadable, or overwritten and already being erased while it was decoded.
        let current = match page {
            Some(lpn) => self.ftl.is_current(lpn, from),
            None => self.ftl.is_valid(from),
        };
        let (mut keep, mut segment) = (false, meta);
        if current {
            let result = self.media.read(from, 0, self.collect.image_mut(relocation), attempts);
            match (result, page) {
                (ReadResult::Ok { corrected_bits, .. }, Some(lpn)) => {
                    self.corrected(corrected_bits, attempts);
                    self.collect.relocations[relocation].lpn = lpn;
                    keep = lpn.0 < self.ftl.user_units();
                    if !keep {
                        segment = true;
                        self.rewrite_segment(lpn, cause);
                    }
                }
                _ if self.tries_again(from, attempts) => return false,
                _ => match page.or_else(|| self.ftl.segment_at(from)) {
                    // What it says is in memory.
                    Some(lpn) if lpn.0 >= self.ftl.user_units() => {
                        segment = true;
                        self.rewrite_segment(lpn, cause);
                    }
                    _ => {
                        self.counters.uncorrectable_reads += 1;
                        self.ftl.relocation_lost(from);
                    }
                },
            }
        }
        self.collect.reading[die as usize] -= 1;
        self.collect.segments_reading -= u32::from(meta);
        if segment {
            self.plan_segments();
        }
        if keep {
            self.collect.packer(DieId(die)).pack(stream, relocation);
        } else {
            self.drop_relocation(relocation);
        }
        true
    }

    fn drop_relocation(&mut self, relocation: u32) {
        let die = self.collect.relocations[relocation].die;
        self.collect.relocations.release(relocation);
        self.collect.moving[die as usize] -= 1;
    }

    /// Programs relocated units of a die: whole stripes, and the rest when nothing can come to fill it.
    fn pack_relocated(&mut self, die: DieId) {
        for queue in self.collect.packer(die).fullest_first() {
            while !self.collect.packer(die).is_empty(queue) {
                let full = self.collect.packer(die).has_stripe(queue);
                if (!full && !self.nothing_joins(die)) || self.collection_has_its_turns(die) {
                    break;
                }
                if !self.program_relocated(die, queue) {
                    break;
                }
            }
        }
    }

    /// Whether a die that is paced has as many programs of relocated units before it as keep it busy: one at work and one that waits.
    /// What the host may write then goes in between, and so do erases.
    fn collection_has_its_turns(&self, die: DieId) -> bool {
        if !self.config.ftl.gc_pacing {
            return false;
        }
        let at = die.0 as usize;
        let read = self.collect.moving[at] - self.collect.reading[at];
        let programming = read - self.collect.packers[at].waiting() as u32;
        programming > self.layout.units_per_stripe
    }

    /// Whether no unit will come to what waits for a stripe: none is being read, and none will be before a stripe leaves.
    fn nothing_joins(&self, die: DieId) -> bool {
        let at = die.0 as usize;
        self.collect.reading[at] == 0
            && (self.collect.packers[at].waiting() >= self.collect.moving_max as usize
                || self.ftl.victim_exhausted(die))
    }

    /// Programs up to a stripe of relocated units; `false`: there is no room.
    fn program_relocated(&mut self, die: DieId, queue: usize) -> bool {
        let mut lpns = std::mem::take(&mut self.collect.lpns);
        lpns.clear();
        let mut at = 0;
        // Overwritten since they were read: nothing to move. Given up since: no copy may bring them back.
        while lpns.len() < self.layout.units_per_stripe as usize {
            let Some(relocation) = self.collect.packer(die).get(queue, at) else { break };
            let Relocation { lpn, from, .. } = self.collect.relocations[relocation];
            if self.ftl.is_current(lpn, from) && !self.media.is_condemned(from) {
                lpns.push(lpn);
                at += 1;
            } else {
                self.collect.packer(die).remove(queue, at);
                self.drop_relocation(relocation);
            }
        }
        if lpns.is_empty() {
            self.collect.lpns = lpns;
            return true;
        }
        let plan =
            self.ftl.plan_program(self.collect.packers[die.0 as usize].stream(queue), Some(die), &lpns);
        let count = lpns.len();
        self.collect.lpns = lpns;
        let Some(plan) = plan else {
            self.collect.stalled = true;
            return false;
        };
        self.reserve(&plan, count as u32);
        let mut cause = Cause::Collection;
        for i in 0..count {
            let relocation = self.collect.packer(die).take(queue).expect("counted");
            cause = self.collect.relocations[relocation].cause;
            self.count_relocated(cause, 1);
            self.set_unit(plan.id, i, StripeUnit::Relocation(relocation));
        }
        self.issue_program(&plan, count as u32, cause);
        true
    }

    pub(crate) fn relocation_programmed(&mut self, relocation: u32, ok: bool, programmed_in: DieId) {
        let Relocation { from, lpn, die, stream, .. } = self.collect.relocations[relocation];
        if ok || !self.ftl.is_current(lpn, from) {
            self.drop_relocation(relocation);
        } else {
            self.collect.relocations[relocation].cause = Cause::Retirement;
            self.collect.packer(DieId(die)).pack(stream, relocation);
        }
        // A guest from another die: its own die may go on.
        if DieId(die) != programmed_in {
            self.pump(DieId(die));
        }
    }

    /// Erases, or retires, the blocks that hold nothing valid.
    #[inline]
    pub(crate) fn erase_emptied(&mut self) {
        // Seldom there is one.
        if self.ftl.has_emptied() {
            self.erase_all_emptied();
        }
    }

    fn erase_all_emptied(&mut self) {
        while let Some(emptied) = self.ftl.pop_emptied() {
            match emptied {
                Emptied::Erase(block, cause) => {
                    let die = self.layout.die_of_block(block).0;
                    let ppa = self.layout.ppa(block, 0);
                    let op = FlashOp::new(OpKind::Erase, cause, Client::Erase, die, ppa, 0, self.now);
                    let op = self.scheduler.ops.insert(op);
                    self.ask(Task::Issue(op));
                }
                Emptied::Retire(block) => {
                    self.retire_block(block);
                    self.read_only |= self.ftl.worn_out();
                }
            }
        }
        if self.ftl.erases_wait_for_trims() {
            self.save_trims();
            self.plan_segments();
        }
    }

    /// The erase of a block has ended.
    pub(crate) fn erase_done(&mut self, op: u32) {
        let (block, cause) = (self.layout.block_of(self.scheduler.ops[op].ppa), self.scheduler.ops[op].cause);
        let ok = self.end_erase(block, cause);
        self.let_go(op);
        self.ftl.erase_ended(block, ok);
        self.read_only |= !ok && self.ftl.worn_out();
        if std::mem::take(&mut self.collect.stalled) {
            self.pump_all();
        }
        self.resume_stalled();
        self.pump(self.layout.die_of_block(block));
        self.continue_flush();
    }
}
