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
//! **The mapping table changes only when a merge commits**, that is, when all its programs have ended. Until then every source stays in
//! place and hosts read it there; a failed or interrupted merge starts again. A copy has a higher sequence number than its source, and a
//! lower one than any later host write, so that the highest number wins at a mount. To ensure this, a superpage is programmed only while
//! none of its pages is being replaced, because the replacement could fail.
//!
//! A die has one merge at a time. While one superpage is programmed, the next is read.

use super::blocks::Role;
use super::core::Core;
use super::mark::Kind;
use super::merges::{Aim, Evacuation, Merge};
use super::programs::Content;
use super::write::plan_other;
use super::{cache, journal};
use crate::translation::{Arrival, Arrived, CopyId, GcJob, Move, Outdated, Plan, Reclaim, Stream};
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

/// Result of beginning a merge.
enum Begun {
    /// The merge copies, or had nothing to copy.
    Yes,
    /// The merge must wait until programs end, or a block is erased.
    Later,
}

/// Evacuates `block`: its data have to leave it, because of `cause`. Returns whether that is new.
pub(super) fn evacuate(core: &mut Core, block: BlockId, cause: Cause) -> bool {
    let state = core.die_of_mut(block);
    let new = state.merges.evacuate(block, cause);
    if new {
        state.logs.close(block);
        core.tally.collects(block);
    }
    new
}

/// Continues the evacuations of `die` as far as no data are needed.
pub(super) fn step(core: &mut Core, die: DieId) {
    while !core.die(die).is_dead()
        && core.die(die).merges.current().is_none()
        && let Some(evacuation) = core.die(die).merges.next_evacuation()
    {
        let Evacuation { block, cause } = evacuation;
        if !holds_data(core, evacuation) {
            core.die_mut(die).merges.end_evacuation();
            if matches!(core.blocks.role(block), Role::Data(_)) {
                // It became a data block, and stays.
                core.tally.stays(block);
            }
            continue;
        }
        if core.blocks.in_flight(block) > 0 {
            return;
        }
        match lodger(core, die, block) {
            Some(lbn) => match begin_merge(core, die, lbn, evacuation) {
                Begun::Yes => {}
                Begun::Later => return,
            },
            // The remaining copies are being replaced.
            None if core.blocks.references(block) > 0 => return,
            None => {
                core.die_mut(die).merges.end_evacuation();
                give_up(core, block, cause, Some(MergeKind::Full));
            }
        }
    }
}

/// Returns whether an evacuated block holds data that have to leave it.
fn holds_data(core: &Core, Evacuation { block, cause }: Evacuation) -> bool {
    match core.blocks.role(block) {
        Role::Log => true,
        // The block was a log block when this was requested.
        Role::Data(_) => core.blocks.failed(block) || cause != Cause::Gc,
        _ => false,
    }
}

/// Finds a logical block whose newest copy of some page lies in `block`.
fn lodger(core: &Core, die: DieId, block: BlockId) -> Option<u32> {
    let (shape, map) = (&core.shape, &core.map);
    if core.blocks.references(block) == 0 {
        return None;
    }
    if let Role::Data(lbn) = core.blocks.role(block) {
        let current = |at: u32| map.get(shape.lpn(lbn, at)) == shape.layout.ppa(block, at);
        return (0..shape.pages_of(lbn)).any(current).then_some(lbn);
    }
    let log = core.die(die).logs.of_block(block)?;
    let mut pages = (0..).zip(log.pages()).filter(|&(_, &lpn)| lpn != Lpn::NONE);
    let current = pages.find(|&(at, &lpn)| map.get(lpn) == shape.layout.ppa(block, at));
    current.map(|(_, &lpn)| shape.lbn(lpn).0)
}

/// Releases `block`, a data or log block whose contents are no longer needed.
pub(super) fn give_up(core: &mut Core, block: BlockId, cause: Cause, merge: Option<MergeKind>) {
    match core.blocks.role(block) {
        Role::Data(lbn) => core.set_data_block(lbn, None),
        Role::Log => core.die_of_mut(block).logs.remove(block),
        _ => {}
    }
    core.tally.collects(block);
    core.blocks.leave(block, cause, merge);
    core.tally.release();
}

/// Begins the merge of logical block `lbn`, after which the evacuated block has none of its newest copies.
fn begin_merge(core: &mut Core, die: DieId, lbn: u32, evacuation: Evacuation) -> Begun {
    let own = own_log(core, die, lbn);
    let data = core.data_block(lbn);
    if let Some(own) = own {
        core.die_mut(die).logs.close(own);
        if core.blocks.in_flight(own) > 0 {
            return Begun::Later;
        }
    }
    gather(core, die, lbn);
    // Both are given up, so neither may hold a copy that a program under way replaces.
    if !own.iter().chain(&data).all(|&block| is_settled(core, die, block)) {
        return Begun::Later;
    }
    let moves_away = evacuation.cause != Cause::Gc;
    match own {
        Some(own)
            if !(moves_away && evacuation.block == own) && follows(core, die, own, evacuation.block) =>
        {
            begin_in_place(core, die, lbn, own, evacuation.cause)
        }
        _ => begin_full(core, die, lbn, evacuation.cause),
    }
}

/// The log block of logical block `lbn` alone.
fn own_log(core: &Core, die: DieId, lbn: u32) -> Option<BlockId> {
    let logs = &core.die(die).logs;
    logs.owned(lbn).map(|at| logs.at(at).block())
}

/// Finds the newest copies of `lbn` that are on the media: a copy under way stays in its log block.
fn gather(core: &mut Core, die: DieId, lbn: u32) {
    let mut merges = std::mem::take(&mut core.die_mut(die).merges);
    merges.gather((0..core.shape.pages_of(lbn)).map(|at| {
        let ppa = core.map.get(core.shape.lpn(lbn, at));
        if ppa.is_some() && !core.is_under_way(ppa) { ppa } else { Ppa::NONE }
    }));
    core.die_mut(die).merges = merges;
}

/// Returns whether all that refers to `block` is its gathered copies.
fn is_settled(core: &Core, die: DieId, block: BlockId) -> bool {
    let lies_there = |ppa: &&Ppa| ppa.is_some() && core.shape.layout.block_of(**ppa) == block;
    let gathered = core.die(die).merges.from().iter().filter(lies_there).count() as u32;
    core.blocks.references(block) == gathered
}

/// Returns whether log block `own` can become the data block: every page that it could hold by now is in it at its place, or in a log
/// block that stays.
fn follows(core: &Core, die: DieId, own: BlockId, evacuated: BlockId) -> bool {
    let state = core.die(die);
    let log = state.logs.of_block(own).expect("a log block of its die");
    let written = (log.next() * core.shape.layout.units_per_superpage) as usize;
    let stays = |block: BlockId| block != evacuated && core.blocks.role(block) == Role::Log;
    let placed = |ppa: &Ppa| {
        let block = core.shape.layout.block_of(*ppa);
        !ppa.is_some() || block == own || stays(block)
    };
    let from = state.merges.from().iter();
    log.is_in_place() && !core.blocks.failed(own) && from.take(written).all(placed)
}

/// Begins a merge in place: the missing pages of `lbn` are copied to its log block, which becomes the data block.
fn begin_in_place(core: &mut Core, die: DieId, lbn: u32, own: BlockId, cause: Cause) -> Begun {
    let per_superpage = core.shape.layout.units_per_superpage;
    let state = core.die_mut(die);
    let next = state.logs.of_block(own).expect("a log block of its die").next();
    let here = ((next * per_superpage) as usize).min(state.merges.from().len());
    state.merges.leave_out(0..here);
    let (kind, end) = match state.merges.last_source() {
        None => (MergeKind::Switch, next),
        Some(last) => (MergeKind::Partial, last / per_superpage),
    };
    start_merge(core, die, (lbn, kind, cause), own, (next, end))
}

fn begin_full(core: &mut Core, die: DieId, lbn: u32, cause: Cause) -> Begun {
    let Some(last) = core.die(die).merges.last_source() else { return Begun::Later };
    let none = core.blocks.free(die) <= core.metadata_reserve(die);
    if none {
        cache::make_room_if_full(core, die);
    }
    // A cache that has no room now gets some when its host cleans.
    let starved = none && core.blocks.returning(die) == 0 && core.cache.is_none();
    core.die_mut(die).merges.set_starved(starved);
    if none {
        return Begun::Later;
    }
    let worn = cause == Cause::WearLevel;
    let Some(target) = core.blocks.take(die, Role::Destination, worn) else { return Begun::Later };
    let end = last / core.shape.layout.units_per_superpage;
    start_merge(core, die, (lbn, MergeKind::Full, cause), target, (0, end))
}

fn start_merge(
    core: &mut Core,
    die: DieId,
    (lbn, kind, cause): (u32, MergeKind, Cause),
    target: BlockId,
    superpages: (u32, u32),
) -> Begun {
    let aim = Aim { lbn, kind, cause, own: own_log(core, die, lbn) };
    core.die_mut(die).merges.begin(Merge::new(target, aim, superpages));
    if kind == MergeKind::Switch {
        commit(core, die);
    }
    Begun::Yes
}

/// Turns a log block that was filled in order into the data block at once.
pub(super) fn switch_when_full(core: &mut Core, block: BlockId) {
    let die = core.shape.layout.die_of_block(block);
    let state = core.die(die);
    let log = state.logs.of_block(block).filter(|log| log.is_in_place() && log.is_full(&core.shape));
    let Some(lbn) = log.and_then(|log| log.owner()) else { return };
    if core.blocks.in_flight(block) > 0 || state.is_dead() || state.merges.current().is_some() {
        return;
    }
    gather(core, die, lbn);
    let data = core.data_block(lbn);
    let settled = |&block: &BlockId| is_settled(core, die, block);
    if data.iter().all(settled) && settled(&block) && follows(core, die, block, BlockId(u32::MAX)) {
        begin_in_place(core, die, lbn, block, Cause::Gc);
    }
}

/// The next superpage to copy in `die`.
pub(super) fn next_gc(core: &mut Core, die: DieId) -> Option<GcJob<'_>> {
    step(core, die);
    let merge = core.die(die).merges.current()?;
    let (next, Aim { lbn, cause, .. }) = (merge.next(), merge.aim());
    if !merge.can_read() || being_replaced(core, die, next) {
        return None;
    }
    let Core { shape, map, dies, .. } = core;
    let merges = &mut dies[die.0 as usize].merges;
    merges.current_mut().expect("looked at above").begin_read();
    let per_superpage = shape.layout.units_per_superpage;
    let first = next * per_superpage;
    merges.read_sources(first..first + per_superpage, |at, source| map.get(shape.lpn(lbn, at)) == source);
    Some(GcJob::Copy { id: CopyId(die.0 * 2 + next % 2), cause, sources: merges.sources() })
}

/// Returns whether a program under way replaces a source of superpage `superpage` of the merge, so that the source may be needed
/// again.
fn being_replaced(core: &Core, die: DieId, superpage: u32) -> bool {
    let merges = &core.die(die).merges;
    let Some(merge) = merges.current() else { return false };
    let per_superpage = core.shape.layout.units_per_superpage;
    let first = superpage * per_superpage;
    (first..first + per_superpage).any(|at| {
        let (from, lpn) = (merges.source(at), core.shape.lpn(merge.aim().lbn, at));
        from.is_some()
            && core.map.get(lpn) != from
            && core.programs.host_units().any(|(_, unit)| unit.old == from)
    })
}

fn die_of_copy(id: CopyId) -> DieId {
    DieId(id.0 / 2)
}

/// The read of a source has ended.
///
/// # Panics
/// When the source belongs to no merge.
pub(super) fn arrived(core: &mut Core, moved: &Move, arrival: Arrival) -> Arrived {
    let Stream::Merge(id) = moved.to else { panic!("{:?} is not of a merge", moved.to) };
    let die = die_of_copy(id);
    match (arrival, source_at(core, die, moved.from)) {
        (Arrival::Read, Some(lpn)) => Arrived::Keep(lpn),
        (Arrival::Unreadable, Some(lpn)) if source_lost(core, die, lpn, moved.from) => Arrived::Lost,
        _ => Arrived::Drop,
    }
}

/// Page for which the superpage that is being read takes the copy at `from`.
fn source_at(core: &Core, die: DieId, from: Ppa) -> Option<Lpn> {
    let merges = &core.die(die).merges;
    let merge = merges.current()?;
    let first = merge.next() * core.shape.layout.units_per_superpage;
    let mut pages = first..first + core.shape.layout.units_per_superpage;
    let at = pages.find(|&at| (at as usize) < merges.from().len() && merges.source(at) == from)?;
    Some(core.shape.lpn(merge.aim().lbn, at))
}

/// Marks a page as lost until it is written again, because the copy of `lpn` at `source` cannot be read; a clean page of a cache is
/// absent instead. Returns whether data were lost that are needed.
fn source_lost(core: &mut Core, die: DieId, lpn: Lpn, source: Ppa) -> bool {
    let at = core.shape.lbn(lpn).1 as usize;
    core.die_mut(die).merges.leave_out(at..at + 1);
    let mut is_lost = false;
    if core.map.get(lpn) == source {
        let instead = cache::unreadable(core, lpn);
        core.map.set(lpn, instead);
        is_lost = instead == Ppa::LOST;
    } else if !core.programs.replace_instead(source, Ppa::LOST) {
        return false;
    }
    journal::note_lost(core, lpn, source);
    core.release(source, Outdated::Replaced);
    is_lost
}

/// Binds the place of a copy whose sources were read. `lpns`: the page of each position whose source is current, [`Lpn::NONE`] for
/// the others. `None`: nothing is to be programmed; if the copy is still needed, [`next_gc`] returns it again.
pub(super) fn place_copy(core: &mut Core, id: CopyId, lpns: &[Lpn]) -> Option<Plan> {
    let die = die_of_copy(id);
    let merge = core.die_mut(die).merges.current_mut()?;
    if !merge.end_read() {
        return None;
    }
    let (target, next, end, Aim { lbn, kind, .. }) = (merge.target(), merge.next(), merge.end(), merge.aim());
    if merge.has_failed() {
        end_failed_merge(core, die);
        return None;
    }
    if being_replaced(core, die, next) {
        return None;
    }
    let copied = keep_current(core, die, lbn, next, lpns)?;
    if ends_early(core, die) {
        return None;
    }
    core.die_mut(die).merges.current_mut().expect("looked at above").begin_program();
    let mark = match kind {
        MergeKind::Full => Kind::Destination { end: end as u16 },
        _ => Kind::Owned,
    };
    let per_superpage = core.shape.layout.units_per_superpage;
    core.tally.count_copied(kind, copied, u64::from(per_superpage) - copied);
    if kind != MergeKind::Full {
        core.dies[die.0 as usize].logs.grew(&core.shape, target, lpns);
    }
    Some(plan_other(core, target, next, mark, Content::Merge, per_superpage))
}

/// Leaves the sources of superpage `next` out that are no longer current; returns how many are. `None`: data are missing of one that is
/// current again.
fn keep_current(core: &mut Core, die: DieId, lbn: u32, next: u32, lpns: &[Lpn]) -> Option<u64> {
    let first = next * core.shape.layout.units_per_superpage;
    let mut copied = 0;
    for (at, &lpn) in (first..).zip(lpns) {
        let from = core.die(die).merges.source(at);
        let page = core.shape.lpn(lbn, at);
        let keep = from.is_some() && core.map.get(page) == from;
        if keep && lpn == Lpn::NONE {
            // The page was being replaced when it was read, and the replacement has failed.
            return None;
        }
        debug_assert_eq!(lpn, if keep { page } else { Lpn::NONE }, "position {at}");
        if from.is_some() && !keep {
            core.die_mut(die).merges.leave_out(at as usize..at as usize + 1);
        }
        copied += u64::from(keep);
    }
    Some(copied)
}

/// Ends a merge that has no copy left to make and made none: it commits, or is given up if its destination would be empty. Returns
/// whether it has ended.
fn ends_early(core: &mut Core, die: DieId) -> bool {
    let per_superpage = core.shape.layout.units_per_superpage;
    let merges = &mut core.die_mut(die).merges;
    let Some(merge) = merges.current() else { return true };
    let (kind, target, next) = (merge.aim().kind, merge.target(), merge.next());
    let has_left = merges.last_source().is_some_and(|last| last >= next * per_superpage);
    if merge.is_programming() || has_left {
        return false;
    }
    match kind {
        MergeKind::Full if next > 0 => return false,
        MergeKind::Full => {
            merges.take();
            core.blocks.give_back(target);
            step(core, die);
        }
        _ => commit(core, die),
    }
    true
}

/// The program of a superpage of the merge of `die` has ended.
pub(super) fn copy_ended(core: &mut Core, die: DieId, ok: bool) {
    let Some(merge) = core.die_mut(die).merges.current_mut() else { return };
    merge.end_program(ok);
    if merge.has_failed() {
        end_failed_merge(core, die);
    } else if merge.is_complete() {
        commit(core, die);
    }
}

/// Fails the merge of `die`: its sources are where they were, and their evacuation still waits.
pub(super) fn fail_merge(core: &mut Core, die: DieId) {
    if let Some(merge) = core.die_mut(die).merges.current_mut() {
        merge.fail();
        end_failed_merge(core, die);
    }
}

fn end_failed_merge(core: &mut Core, die: DieId) {
    let merges = &mut core.die_mut(die).merges;
    if merges.current().is_some_and(Merge::is_at_rest)
        && let Some(merge) = merges.take()
        && merge.aim().kind == MergeKind::Full
    {
        core.blocks.leave(merge.target(), Cause::Retirement, None);
    }
}

/// Commits the merge of `die`: all its copies are on the media, so the table names them from now on, and their former blocks are
/// given up.
fn commit(core: &mut Core, die: DieId) {
    let Some(merge) = core.die_mut(die).merges.take() else { return };
    let (target, Aim { lbn, kind, cause, own }) = (merge.target(), merge.aim());
    for at in 0..core.die(die).merges.from().len() as u32 {
        let source = core.die(die).merges.source(at);
        if source.is_some() {
            adopt(core, core.shape.lpn(lbn, at), source, core.shape.layout.ppa(target, at));
        }
    }
    if let Some(data) = core.data_block(lbn) {
        give_up(core, data, cause, Some(kind));
    }
    match own {
        Some(own) if own == target => core.die_mut(die).logs.remove(own),
        Some(own) => give_up(core, own, cause, Some(kind)),
        None => {}
    }
    core.blocks.set_role(target, Role::Data(lbn));
    core.set_data_block(lbn, Some(target));
    core.tally.count_merge(kind);
    core.tally.release();
    cache::keep_log_region(core, die, lbn);
}

/// Replaces the copy of `lpn` at `source` by `copy`, which was made from it.
fn adopt(core: &mut Core, lpn: Lpn, source: Ppa, copy: Ppa) {
    if core.map.get(lpn) == source {
        core.map.set(lpn, copy);
    } else if !core.programs.replace_instead(source, copy) {
        return core.outdated.note(copy, Outdated::Replaced);
    }
    core.blocks.refer(core.shape.layout.block_of(copy));
    core.release(source, Outdated::Replaced);
}

/// The next block to be erased, or retired.
pub(super) fn next_erase(core: &mut Core) -> Option<Reclaim> {
    let mut awaits_trims = false;
    let waiting = core.blocks.leaving().iter().position(|&block| {
        let state = core.die_of(block);
        let saved = core.blocks.last_trim(block) < state.journal.saved_before();
        awaits_trims |= !saved && !state.is_dead();
        saved || state.is_dead()
    });
    if let Some(at) = waiting {
        let block = core.blocks.leaving()[at];
        if core.blocks.failed(block) {
            core.tally.count_grown_bad();
            core.tally.collected(block);
            return Some(Reclaim::Retire(core.blocks.retire_leaving(at)));
        }
        let (block, cause, merge) = core.blocks.erase(at);
        core.tally.count_erase(cause, merge);
        return Some(Reclaim::Erase(block, cause));
    }
    if !awaits_trims {
        return None;
    }
    core.tally.want_saved(core.tally.trims());
    Some(Reclaim::AwaitsTrims)
}

/// The erase of a block has ended. If it failed, the block is retired.
pub(super) fn erase_ended(core: &mut Core, block: BlockId, ok: bool) {
    let die = core.shape.layout.die_of_block(block);
    core.blocks.erased(block, ok);
    core.tally.collected(block);
    if !ok {
        core.tally.count_grown_bad();
    }
    core.tally.release();
    core.tally.set_map_jobs(true);
    super::damage::level_wear(core, die);
    step(core, die);
}
