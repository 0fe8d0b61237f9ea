//! Merges: they bring a logical block's newest copies together in one data block.
//!
//! ```text
//!  evacuate(block) ─► for each logical block with a copy there:
//!     its own log block holds all of them, each at its place ───────────► switch:  log block becomes data block, nothing is copied
//!     it holds the first ones so, and the rest can follow ──────────────► partial: the rest is copied behind them, then as above
//!     else ─────────────────────────────────────────────────────────────► full:    all are copied to a free block
//!  copy, a superpage at a time, in order:   next_gc ─► read ─► place_copy ─► program ─► ... ─► commit
//! ```
//! The three kinds are those of Kim et al. (BAST, 2002, section III) and Lee et al. (FAST, 2007, section 3). Superpages of a block can only be
//! programmed in order, so units without a copy, and those whose newest copy lies in a log block that stays, become padding.
//!
//! **The mapping table changes only when a merge commits**, that is when all its programs have ended. Until then every source stays where
//! it is and hosts read it there; a merge that fails, or is cut off, is begun anew. A copy has a higher sequence number than its
//! source, and a lower one than whatever a host writes later, so that at a mount the highest number wins. For that a superpage is
//! programmed only while no page of it is being replaced: the replacement could fail.
//!
//! A die has one merge at a time. While one superpage is programmed, the next is read.

use super::LogBlock;
use super::blocks::Role;
use super::mark::Kind;
use super::programs::Content;
use crate::translation::{Arrival, Arrived, CopyId, GcJob, Load, Move, Outdated, Plan, Stream};
use pellucid_flash::{BlockId, Cause, DieId, Lpn, Ppa};

/// The kinds of merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum MergeKind {
    /// A log block that holds everything at its place becomes the data block.
    Switch = 0,
    /// The missing rest is copied behind the content of a log block, which then becomes the data block.
    Partial = 1,
    /// Everything is copied to a free block.
    Full = 2,
}

impl MergeKind {
    /// Number of kinds, for tables indexed by kind.
    pub const COUNT: usize = 3;
    /// All kinds in the order of their numbers.
    pub const ALL: [MergeKind; MergeKind::COUNT] = [MergeKind::Switch, MergeKind::Partial, MergeKind::Full];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            MergeKind::Switch => "switch",
            MergeKind::Partial => "partial",
            MergeKind::Full => "full",
        }
    }
}

/// Counts of the merges of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCounters {
    /// Merges that have ended.
    pub merges: u64,
    /// Units copied.
    pub copied_units: u64,
    /// Units of the same superpages that hold nothing, because superpages are programmed in order.
    pub padded_units: u64,
    /// Blocks given up and erased.
    pub erases: u64,
}

/// A block whose data have to leave it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evacuation {
    pub(super) block: BlockId,
    cause: Cause,
}

impl Evacuation {
    pub(super) fn cause(&self) -> Cause {
        self.cause
    }
}

/// The copying merge of a die.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    pub(super) target: BlockId,
    /// The log block that belonged to the logical block when the merge began, and is closed.
    own: Option<BlockId>,
    lbn: u32,
    kind: MergeKind,
    cause: Cause,
    /// The next superpage, and the last.
    next: u32,
    end: u32,
    /// A superpage is being read.
    reading: bool,
    programming: u32,
    failed: bool,
}

/// Result of beginning a merge.
enum Begun {
    /// The merge copies, or had nothing to copy.
    Yes,
    /// The merge must wait until programs end, or a block is erased.
    Later,
}

impl LogBlock {
    /// Evacuates `block`: its data have to leave it, because of `cause`. Returns whether that is new.
    pub(super) fn evacuate(&mut self, block: BlockId, cause: Cause) -> bool {
        let die = self.layout.die_of_block(block);
        let waiting = &mut self.dies[die.0 as usize].evacuations;
        if waiting.iter().any(|evacuation| evacuation.block == block) {
            return false;
        }
        waiting.push_back(Evacuation { block, cause });
        self.collects(block);
        self.close_log(block);
        true
    }

    /// Continues the evacuations of `die` as far as no data are needed.
    pub(super) fn step(&mut self, die: DieId) {
        loop {
            let state = &mut self.dies[die.0 as usize];
            if state.dead || state.merge.is_some() {
                return;
            }
            let Some(&evacuation) = state.evacuations.front() else { return };
            let Evacuation { block, cause } = evacuation;
            let holds_data = match self.blocks.role(block) {
                Role::Log => true,
                // The block was a log block when this was requested.
                Role::Data(_) => self.blocks.failed(block) || cause != Cause::Gc,
                _ => false,
            };
            if !holds_data {
                self.dies[die.0 as usize].evacuations.pop_front();
                if matches!(self.blocks.role(block), Role::Data(_)) {
                    // It became a data block, and stays.
                    self.collecting.retain(|&(other, _)| other != block);
                }
                continue;
            }
            if self.blocks.in_flight(block) > 0 {
                return;
            }
            match self.lodger(die, block) {
                Some(lbn) => match self.begin_merge(die, lbn, evacuation) {
                    Begun::Yes => {}
                    Begun::Later => return,
                },
                // The remaining copies are being replaced.
                None if self.blocks.references(block) > 0 => return,
                None => {
                    self.dies[die.0 as usize].evacuations.pop_front();
                    self.give_up(block, cause, Some(MergeKind::Full));
                }
            }
        }
    }

    /// Finds a logical block whose newest copy of some page lies in `block`.
    fn lodger(&self, die: DieId, block: BlockId) -> Option<u32> {
        if self.blocks.references(block) == 0 {
            return None;
        }
        if let Role::Data(lbn) = self.blocks.role(block) {
            let current = |at: u32| self.map.get(self.lpn(lbn, at)) == self.layout.ppa(block, at);
            return (0..self.pages_of(lbn)).any(current).then_some(lbn);
        }
        let log = self.dies[die.0 as usize].logs.iter().find(|log| log.block == block)?;
        let mut pages = (0..).zip(&log.pages).filter(|&(_, &lpn)| lpn != Lpn::NONE);
        let current = pages.find(|&(at, &lpn)| self.map.get(lpn) == self.layout.ppa(block, at));
        current.map(|(_, &lpn)| self.lbn(lpn).0)
    }

    /// Gives up `block`, a data or log block: nothing in it is needed any more.
    fn give_up(&mut self, block: BlockId, cause: Cause, merge: Option<MergeKind>) {
        let die = self.layout.die_of_block(block);
        match self.blocks.role(block) {
            Role::Data(lbn) => self.set_data_block(lbn, None),
            Role::Log => self.remove_log(die, block),
            _ => {}
        }
        self.collects(block);
        self.blocks.leave(block, cause, merge);
        self.released = true;
    }

    /// Begins the merge of logical block `lbn`, after which none of its newest copies lies in the evacuated block.
    fn begin_merge(&mut self, die: DieId, lbn: u32, evacuation: Evacuation) -> Begun {
        let own = self.dies[die.0 as usize].owned(lbn);
        let own = own.map(|at| self.dies[die.0 as usize].logs[at].block);
        let data = self.data_block(lbn);
        if let Some(own) = own {
            self.close_log(own);
            if self.blocks.in_flight(own) > 0 {
                return Begun::Later;
            }
        }
        self.gather(die, lbn);
        // Both are given up, so neither may hold a copy that a program under way replaces.
        let settled = |block: &BlockId| self.blocks.references(*block) == self.gathered(die, *block);
        if !own.iter().chain(&data).all(settled) {
            return Begun::Later;
        }
        let moves_away = evacuation.cause != Cause::Gc;
        match own {
            Some(own)
                if !(moves_away && evacuation.block == own) && self.follows(die, own, evacuation.block) =>
            {
                self.begin_in_place(die, lbn, own, evacuation.cause)
            }
            _ => self.begin_full(die, lbn, evacuation.cause),
        }
    }

    /// Finds the newest copies of `lbn` that are on the media: a copy under way stays in its log block.
    fn gather(&mut self, die: DieId, lbn: u32) {
        let mut from = std::mem::take(&mut self.dies[die.0 as usize].from);
        from.clear();
        from.extend((0..self.pages_of(lbn)).map(|at| {
            let ppa = self.map.get(self.lpn(lbn, at));
            if ppa.is_some() && !self.is_under_way(ppa) { ppa } else { Ppa::NONE }
        }));
        self.dies[die.0 as usize].from = from;
    }

    /// Number of gathered copies in `block`.
    fn gathered(&self, die: DieId, block: BlockId) -> u32 {
        let from = self.dies[die.0 as usize].from.iter();
        from.filter(|ppa| ppa.is_some() && self.layout.block_of(**ppa) == block).count() as u32
    }

    /// Returns whether log block `own` can become the data block: every page that it could hold by now is in it at its place, or in a log
    /// block that stays.
    fn follows(&self, die: DieId, own: BlockId, evacuated: BlockId) -> bool {
        let state = &self.dies[die.0 as usize];
        let log = state.logs.iter().find(|log| log.block == own).expect("a log block of its die");
        let written = (log.next * self.layout.units_per_superpage) as usize;
        let stays = |block: BlockId| block != evacuated && self.blocks.role(block) == Role::Log;
        let placed = |ppa: &Ppa| {
            let block = self.layout.block_of(*ppa);
            !ppa.is_some() || block == own || stays(block)
        };
        log.in_place && !self.blocks.failed(own) && state.from.iter().take(written).all(placed)
    }

    /// Begins a merge in place: the missing pages of `lbn` are copied to its log block, which becomes the data block.
    fn begin_in_place(&mut self, die: DieId, lbn: u32, own: BlockId, cause: Cause) -> Begun {
        let state = &mut self.dies[die.0 as usize];
        let log = state.logs.iter().find(|log| log.block == own).expect("a log block of its die");
        let next = log.next;
        let written = (next * self.layout.units_per_superpage) as usize;
        let here = written.min(state.from.len());
        state.from[..here].fill(Ppa::NONE);
        let last = state.from.iter().rposition(|ppa| ppa.is_some());
        let (kind, end) = match last {
            None => (MergeKind::Switch, next),
            Some(last) => (MergeKind::Partial, last as u32 / self.layout.units_per_superpage),
        };
        self.start_merge(die, lbn, own, kind, cause, (next, end))
    }

    fn begin_full(&mut self, die: DieId, lbn: u32, cause: Cause) -> Begun {
        let last = self.dies[die.0 as usize].from.iter().rposition(|ppa| ppa.is_some());
        let Some(last) = last else { return Begun::Later };
        let none = self.blocks.free(die) <= self.metadata_reserve(die);
        self.dies[die.0 as usize].starved = none && self.blocks.returning(die) == 0;
        if none {
            return Begun::Later;
        }
        let worn = cause == Cause::WearLevel;
        let Some(target) = self.blocks.take(die, Role::Destination, worn) else { return Begun::Later };
        let end = last as u32 / self.layout.units_per_superpage;
        self.start_merge(die, lbn, target, MergeKind::Full, cause, (0, end))
    }

    fn start_merge(
        &mut self,
        die: DieId,
        lbn: u32,
        target: BlockId,
        kind: MergeKind,
        cause: Cause,
        (next, end): (u32, u32),
    ) -> Begun {
        let state = &mut self.dies[die.0 as usize];
        let own = state.owned(lbn).map(|at| state.logs[at].block);
        let (reading, programming, failed) = (false, 0, false);
        state.merge = Some(Merge { target, own, lbn, kind, cause, next, end, reading, programming, failed });
        if kind == MergeKind::Switch {
            self.commit(die);
        }
        Begun::Yes
    }

    /// Turns a log block that was filled in order into the data block at once.
    pub(super) fn switch_when_full(&mut self, block: BlockId) {
        let die = self.layout.die_of_block(block);
        let log = self.dies[die.0 as usize].logs.iter().find(|log| log.block == block);
        let full = |log: &&super::Log| log.in_place && log.next == self.layout.superpages_per_block;
        if log.filter(full).is_some() && self.blocks.in_flight(block) == 0 && !self.dies[die.0 as usize].dead
        {
            self.switch(die, block);
        }
    }

    fn switch(&mut self, die: DieId, own: BlockId) {
        let state = &self.dies[die.0 as usize];
        let log = state.logs.iter().find(|log| log.block == own).expect("a log block of its die");
        let Some(lbn) = log.owner.filter(|_| state.merge.is_none()) else { return };
        self.gather(die, lbn);
        let data = self.data_block(lbn);
        let settled = |block: &BlockId| self.blocks.references(*block) == self.gathered(die, *block);
        if data.iter().all(settled) && settled(&own) && self.follows(die, own, BlockId(u32::MAX)) {
            self.begin_in_place(die, lbn, own, Cause::Gc);
        }
    }

    /// Returns whether [`LogBlock::next_gc`] has work.
    #[inline]
    pub fn wants_gc(&self, die: DieId) -> bool {
        let state = &self.dies[die.0 as usize];
        !state.dead && (state.merge.is_some() || !state.evacuations.is_empty())
    }

    /// Continues merges that need no copy.
    pub fn reap(&mut self, die: DieId) {
        if self.may_reap(die) {
            self.step(die);
        }
    }

    /// Returns whether [`LogBlock::reap`] has something to do.
    pub fn may_reap(&self, die: DieId) -> bool {
        !self.dies[die.0 as usize].evacuations.is_empty()
    }

    /// Returns whether [`LogBlock::reap`] has something to do in any die.
    pub fn may_reap_any(&self) -> bool {
        self.dies.iter().any(|die| !die.evacuations.is_empty())
    }

    /// The next superpage to copy in `die`.
    pub fn next_gc(&mut self, die: DieId, _load: Load) -> Option<GcJob<'_>> {
        self.step(die);
        let merge = self.dies[die.0 as usize].merge.as_ref()?;
        let Merge { kind, next, end, reading, programming, failed, .. } = *merge;
        // The last superpage of a full merge asserts that all before it are good.
        let last_waits = kind == MergeKind::Full && next == end && programming > 0;
        if failed || reading || next > end || programming > 1 || last_waits || self.being_replaced(die, next)
        {
            return None;
        }
        let state = &mut self.dies[die.0 as usize];
        let merge = state.merge.as_mut().expect("looked at above");
        merge.reading = true;
        let cause = merge.cause;
        let per_superpage = self.layout.units_per_superpage as usize;
        let first = next as usize * per_superpage;
        state.sources.clear();
        state.sources.extend(
            (first..first + per_superpage).map(|at| state.from.get(at).copied().unwrap_or(Ppa::NONE)),
        );
        for (at, source) in (first..).zip(&mut state.sources) {
            if source.is_some()
                && self.map.get(Lpn(merge.lbn * self.layout.units_per_block + at as u32)) != *source
            {
                *source = Ppa::NONE;
            }
        }
        Some(GcJob::Copy { id: CopyId(die.0 * 2 + next % 2), cause, sources: &state.sources })
    }

    /// Returns whether a program under way replaces a source of superpage `superpage` of the merge, so that the source may be needed
    /// again.
    fn being_replaced(&self, die: DieId, superpage: u32) -> bool {
        let state = &self.dies[die.0 as usize];
        let Some(merge) = &state.merge else { return false };
        let per_superpage = self.layout.units_per_superpage as usize;
        let first = superpage as usize * per_superpage;
        (first..(first + per_superpage).min(state.from.len())).any(|at| {
            let (from, lpn) = (state.from[at], self.lpn(merge.lbn, at as u32));
            from.is_some()
                && self.map.get(lpn) != from
                && self.programs.host_units().any(|(_, unit)| unit.old == from)
        })
    }

    fn die_of_copy(&self, id: CopyId) -> DieId {
        DieId(id.0 / 2)
    }

    /// Records that the read of a source has ended.
    ///
    /// # Panics
    /// When the source belongs to no merge.
    pub fn arrived(&mut self, moved: &Move, _named: Option<Lpn>, arrival: Arrival) -> Arrived {
        let Stream::Merge(id) = moved.to else { panic!("{:?} is not of a merge", moved.to) };
        let die = self.die_of_copy(id);
        match (arrival, self.source_at(die, moved.from)) {
            (Arrival::Read, Some(lpn)) => Arrived::Keep(lpn),
            (Arrival::Unreadable, Some(lpn)) if self.source_lost(die, lpn, moved.from) => Arrived::Lost,
            _ => Arrived::Drop,
        }
    }

    /// Page for which the superpage that is being read takes the copy at `from`.
    fn source_at(&self, die: DieId, from: Ppa) -> Option<Lpn> {
        let state = &self.dies[die.0 as usize];
        let merge = state.merge.as_ref()?;
        let first = merge.next * self.layout.units_per_superpage;
        let of_superpage =
            state.from.iter().skip(first as usize).take(self.layout.units_per_superpage as usize);
        let at = of_superpage.into_iter().position(|&source| source == from)?;
        Some(self.lpn(merge.lbn, first + at as u32))
    }

    /// Marks a page as lost until it is written again, because the copy of `lpn` at `source` cannot be read. Returns whether it is
    /// needed.
    fn source_lost(&mut self, die: DieId, lpn: Lpn, source: Ppa) -> bool {
        let (_, at) = self.lbn(lpn);
        self.dies[die.0 as usize].from[at as usize] = Ppa::NONE;
        let current = self.map.get(lpn) == source;
        if current {
            self.map.set(lpn, Ppa::LOST);
        } else if let Some(unit) = self.programs.replacing(source) {
            unit.old = Ppa::LOST;
        } else {
            return false;
        }
        self.note_lost(lpn, source);
        self.release(source, Outdated::Replaced);
        current
    }

    /// Binds the place of a copy whose sources were read. `lpns`: the page of each position whose source is current, [`Lpn::NONE`] for
    /// the others. `None`: nothing is to be programmed; if the copy is still needed, [`LogBlock::next_gc`] returns it again.
    pub(super) fn place_copy(&mut self, id: CopyId, lpns: &[Lpn]) -> Option<Plan> {
        let die = self.die_of_copy(id);
        let merge = self.dies[die.0 as usize].merge.as_mut().filter(|merge| merge.reading)?;
        merge.reading = false;
        let (lbn, next, failed, target, kind) =
            (merge.lbn, merge.next, merge.failed, merge.target, merge.kind);
        if failed {
            self.end_failed_merge(die);
            return None;
        }
        if self.being_replaced(die, next) {
            return None;
        }
        let per_superpage = self.layout.units_per_superpage;
        let mut copied = 0;
        for (at, &lpn) in (next * per_superpage..).zip(lpns) {
            let from = self.dies[die.0 as usize].from.get(at as usize).copied().unwrap_or(Ppa::NONE);
            let keep = from.is_some() && self.map.get(self.lpn(lbn, at)) == from;
            if keep && lpn == Lpn::NONE {
                // The page was being replaced when it was read, and the replacement has failed.
                return None;
            }
            debug_assert_eq!(lpn, if keep { self.lpn(lbn, at) } else { Lpn::NONE }, "position {at}");
            if from.is_some() && !keep {
                self.dies[die.0 as usize].from[at as usize] = Ppa::NONE;
            }
            copied += u64::from(keep);
        }
        if self.ends_early(die) {
            return None;
        }
        let merge = self.dies[die.0 as usize].merge.as_mut().expect("looked at above");
        merge.next += 1;
        merge.programming += 1;
        let mark = match kind {
            MergeKind::Full => Kind::Destination { end: merge.end as u16 },
            _ => Kind::Owned,
        };
        let counters = &mut self.counters.merges[kind as usize];
        counters.copied_units += copied;
        counters.padded_units += u64::from(per_superpage) - copied;
        self.counters.copied_units += copied;
        if kind != MergeKind::Full {
            self.log_grew(die, target, lpns);
        }
        Some(self.plan_other(target, next, mark, Content::Merge, per_superpage))
    }

    /// Ends a merge that has no copy left to make and made none: it commits, or is given up if its destination would be empty. Returns
    /// whether it has ended.
    fn ends_early(&mut self, die: DieId) -> bool {
        let state = &mut self.dies[die.0 as usize];
        let Some(merge) = &state.merge else { return true };
        let (kind, target, next, programming) = (merge.kind, merge.target, merge.next, merge.programming);
        let left = &state.from[((next * self.layout.units_per_superpage) as usize).min(state.from.len())..];
        if programming > 0 || left.iter().any(|ppa| ppa.is_some()) {
            return false;
        }
        match kind {
            MergeKind::Full if next > 0 => return false,
            MergeKind::Full => {
                state.merge = None;
                self.blocks.give_back(target);
                self.step(die);
            }
            _ => self.commit(die),
        }
        true
    }

    /// Records that the program of a superpage of the merge of `die` has ended.
    pub(super) fn copy_ended(&mut self, die: DieId, ok: bool) {
        let Some(merge) = &mut self.dies[die.0 as usize].merge else { return };
        merge.programming -= 1;
        merge.failed |= !ok;
        if merge.failed {
            self.end_failed_merge(die);
        } else if merge.programming == 0 && merge.next > merge.end {
            self.commit(die);
        }
    }

    /// Fails the merge of `die`: its sources are where they were, and their evacuation still waits.
    pub(super) fn fail_merge(&mut self, die: DieId) {
        if let Some(merge) = &mut self.dies[die.0 as usize].merge {
            merge.failed = true;
            self.end_failed_merge(die);
        }
    }

    fn end_failed_merge(&mut self, die: DieId) {
        let state = &mut self.dies[die.0 as usize];
        let over = |merge: &&mut Merge| !merge.reading && merge.programming == 0;
        let Some(merge) = state.merge.as_mut().filter(over) else { return };
        let (target, kind) = (merge.target, merge.kind);
        state.merge = None;
        if kind == MergeKind::Full {
            self.blocks.leave(target, Cause::Retirement, None);
        }
    }

    /// Commits the merge of `die`: all its copies are on the media, so the table names them from now on, and their former blocks are
    /// given up.
    fn commit(&mut self, die: DieId) {
        let state = &mut self.dies[die.0 as usize];
        let Some(Merge { target, own, lbn, kind, cause, .. }) = state.merge.take() else { return };
        let from = std::mem::take(&mut state.from);
        for (at, &source) in (0..).zip(&from).filter(|(_, source)| source.is_some()) {
            self.adopt(self.lpn(lbn, at), source, self.layout.ppa(target, at));
        }
        self.dies[die.0 as usize].from = from;
        if let Some(data) = self.data_block(lbn) {
            self.give_up(data, cause, Some(kind));
        }
        match own {
            Some(own) if own == target => self.remove_log(die, own),
            Some(own) => self.give_up(own, cause, Some(kind)),
            None => {}
        }
        self.blocks.set_role(target, Role::Data(lbn));
        self.set_data_block(lbn, Some(target));
        self.counters.merges[kind as usize].merges += 1;
        self.released = true;
    }

    /// Replaces the copy of `lpn` at `source` by `copy`, which was made from it.
    fn adopt(&mut self, lpn: Lpn, source: Ppa, copy: Ppa) {
        if self.map.get(lpn) == source {
            self.map.set(lpn, copy);
        } else if let Some(unit) = self.programs.replacing(source) {
            unit.old = copy;
        } else {
            return self.outdate(copy, Outdated::Replaced);
        }
        self.blocks.refer(self.layout.block_of(copy));
        self.release(source, Outdated::Replaced);
    }
}
