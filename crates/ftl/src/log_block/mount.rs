//! Mount: rebuilds the state of log-block translation from the media.
//!
//! 1. every spare area is read: for each block its kind, and which pages it holds;
//! 2. destinations of full merges that are not complete are given up: all their sources are on the media;
//! 3. the newest copy of each trim page says which pages were trimmed or lost, and before which number;
//! 4. of the copies of a page that count, the one with the highest number is the newest;
//! 5. roles: of the blocks of a logical block that hold a newest copy, the one that was begun last is its log block, unless it holds all
//!    of them at their places; the one before is its data block. What does not fit is a log block that is evacuated.
//!
//! If a trim page cannot be read, pages whose copies are all older than it are lost: they may have been trimmed.

use super::Scheme;
use super::blocks::Role;
use super::core::Core;
use super::journal::{self, PageState};
use super::logs::Log;
use super::mark::{self, Kind};
use super::{cache, merge};
use crate::mount::{MountReport, MountSource};
use pellucid_flash::{BlockId, Cause, DieId, Lpn, Ppa};
use std::collections::BTreeMap;

/// Torn superpages carry numbers that cannot be read. A drive in use has fewer programs planned than this.
const SEQUENCE_GAP: u64 = 1 << 20;

/// Content of a block according to its spare areas.
struct Found {
    block: BlockId,
    used: u32,
    kind: Option<Kind>,
    /// Number of the first superpage that can be read.
    first: u64,
    /// Page and number of each unit that can be read, by its index.
    units: Vec<(u32, Lpn, u64)>,
    /// Indices of these whose page was dirty, in order (a cache).
    dirty: Vec<u32>,
}

/// Content of the trim pages.
#[derive(Default)]
struct Trims {
    /// Pages that are trimmed or lost, and the number below which their copies do not count.
    states: BTreeMap<Lpn, (PageState, u64)>,
    /// Trim pages that cannot be read, and their own numbers.
    unreadable: Vec<(DieId, u32, u64)>,
}

/// Rebuilds the state of `core`, which was made without the bad blocks, from the media; `keep`: what they hold is kept.
pub(super) fn rebuild(core: &mut Core, source: &impl MountSource, keep: bool) -> MountReport {
    let layout = core.shape.layout.clone();
    let blocks = || (0..layout.blocks).map(BlockId);
    let mut report = MountReport::default();
    let mut reads = vec![0u64; layout.dies as usize];
    blocks().for_each(|block| core.blocks.set_erases(block, source.erases(block)));
    let mut found = Vec::new();
    for block in blocks().filter(|&b| !source.is_bad(b) && source.used_superpages(b) > 0) {
        let block = scan(core, block, source);
        let read = u64::from(block.used * layout.units_per_superpage);
        report.header_reads += 1;
        report.replay_reads += read - 1;
        reads[layout.die_of_block(block.block).0 as usize] += read;
        found.push(block);
    }
    let next = found.iter().flat_map(|f| &f.units).map(|&(_, _, sequence)| sequence).max().unwrap_or(0);
    core.programs.go_on_from(next + SEQUENCE_GAP);
    let (kept, given_up): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|block| keep && counts(core, block));
    for block in given_up {
        core.blocks.take_this(block.block, Role::Leaving);
        core.blocks.leave(block.block, Cause::Gc, None);
    }
    if keep {
        let trims = load_trims(core, &kept, source, &mut report, &mut reads);
        let newest = find_newest(core, &kept, &trims);
        report.lost_units = give_up_doubtful(core, &trims, &newest);
        count_references(core);
        assign_roles(core, kept);
    }
    report.mapped_units = core.map.mapped().filter(|(_, ppa)| ppa.is_some()).count() as u64;
    report.busiest_die_reads = reads.into_iter().max().unwrap_or(0);
    core.tally.set_map_jobs(true);
    core.tally.release();
    (0..layout.dies).for_each(|die| merge::step(core, DieId(die)));
    report
}

fn scan(core: &Core, block: BlockId, source: &impl MountSource) -> Found {
    let used = source.used_superpages(block);
    let (units, dirty) = (Vec::new(), Vec::new());
    let mut found = Found { block, used, kind: None, first: u64::MAX, units, dirty };
    for unit in 0..used * core.shape.layout.units_per_superpage {
        let Some((spare, stored)) = source.spare(core.shape.layout.ppa(block, unit)) else { continue };
        let Some((kind, sequence)) = mark::split(stored) else { continue };
        if found.kind.is_none() {
            (found.kind, found.first) = (Some(kind), sequence);
        }
        let lpn = cache::named(core, spare);
        found.units.push((unit, lpn, sequence));
        found.dirty.extend((lpn != spare).then_some(unit));
    }
    found
}

/// Returns whether the content of a block counts: a destination does only when its last superpage is there.
fn counts(core: &Core, found: &Found) -> bool {
    match found.kind {
        None => false,
        Some(Kind::Destination { end }) => {
            let last = u32::from(end) * core.shape.layout.units_per_superpage;
            found.units.iter().any(|&(unit, ..)| unit == last)
        }
        Some(_) => true,
    }
}

fn load_trims(
    core: &mut Core,
    found: &[Found],
    source: &impl MountSource,
    report: &mut MountReport,
    reads: &mut [u64],
) -> Trims {
    let mut newest: BTreeMap<u32, (Ppa, u64)> = BTreeMap::new();
    for block in found.iter().filter(|found| found.kind == Some(Kind::Metadata)) {
        for &(unit, lpn, sequence) in &block.units {
            let page = lpn.0.wrapping_sub(core.shape.user_units);
            let known = newest.get(&page).map_or(0, |known| known.1);
            if lpn != Lpn::NONE
                && page < core.shape.layout.dies * core.shape.trim_pages_per_die()
                && sequence >= known
            {
                newest.insert(page, (core.shape.layout.ppa(block.block, unit), sequence));
            }
        }
    }
    let mut trims = Trims::default();
    // A map that is made of all at once costs a fraction of one that takes them one by one; the last of a page counts in both.
    let mut states = Vec::new();
    let per_die = core.shape.trim_pages_per_die().max(1);
    for (number, (ppa, written)) in newest {
        let (die, page) = (DieId(number / per_die), number % per_die);
        report.map_page_reads += 1;
        reads[die.0 as usize] += 1;
        core.die_mut(die).journal.set_place(page, ppa);
        let bytes = source.map_page(ppa).unwrap_or_default();
        match journal::parse(&bytes, number) {
            Some((watermark, state)) => {
                let pages = core.shape.pages_of_trim_page(die, page);
                let marked = pages.map(|(at, lpn)| (lpn, (state(at), watermark)));
                states.extend(marked.filter(|(_, (state, _))| *state != PageState::Kept));
            }
            None => trims.unreadable.push((die, page, written)),
        }
    }
    trims.states = states.into_iter().collect();
    trims
}

/// Points the table to the newest copies that count; returns their numbers.
fn find_newest(core: &mut Core, found: &[Found], trims: &Trims) -> Vec<u64> {
    let mut newest = vec![0; core.shape.user_units as usize];
    for block in found.iter().filter(|found| found.kind != Some(Kind::Metadata)) {
        let user_units = core.shape.user_units;
        for &(unit, lpn, sequence) in block.units.iter().filter(|unit| unit.1.0 < user_units) {
            let counts = trims.states.get(&lpn).is_none_or(|&(_, before)| sequence >= before);
            // Equal numbers: one superpage holds the page twice, and the later unit is the newer copy.
            let known = &mut newest[lpn.0 as usize];
            let right_die =
                core.shape.layout.die_of_block(block.block) == core.shape.die_of_lbn(core.shape.lbn(lpn).0);
            if counts && right_die && sequence >= *known {
                *known = sequence;
                core.map.set(lpn, core.shape.layout.ppa(block.block, unit));
                cache::found(core, lpn, block.dirty.binary_search(&unit).is_ok());
            }
        }
    }
    for (&lpn, _) in trims.states.iter().filter(|(_, (state, _))| *state == PageState::Lost) {
        if core.map.get(lpn) == Ppa::NONE {
            core.map.set(lpn, Ppa::LOST);
            cache::found(core, lpn, true);
        }
    }
    newest
}

/// Gives up pages of unreadable trim pages: a copy older than its trim page may have been trimmed before that was written, or not. It
/// is not erased before the new trim page says that the page is lost. Returns the number of these pages.
fn give_up_doubtful(core: &mut Core, trims: &Trims, newest: &[u64]) -> u64 {
    let mut lost = 0;
    for &(die, page, written) in &trims.unreadable {
        for (_, lpn) in core.shape.pages_of_trim_page(die, page) {
            let known = core.map.get(lpn);
            if known.is_some() && newest[lpn.0 as usize] < written {
                let instead = cache::unreadable(core, lpn);
                core.map.set(lpn, instead);
                journal::note_lost(core, lpn, known);
                lost += u64::from(instead == Ppa::LOST);
            }
        }
    }
    lost
}

fn count_references(core: &mut Core) {
    for (_, ppa) in core.map.mapped().filter(|(_, ppa)| ppa.is_some()) {
        core.blocks.refer(core.shape.layout.block_of(ppa));
    }
    let places: Vec<Ppa> = core.dies.iter().flat_map(|die| die.journal.on_media()).collect();
    places.into_iter().for_each(|place| core.blocks.refer(core.shape.layout.block_of(place)));
}

fn assign_roles(core: &mut Core, mut found: Vec<Found>) {
    found.sort_by_key(|found| found.first);
    let mut of_one: BTreeMap<u32, Vec<Found>> = BTreeMap::new();
    for block in found {
        match block.kind {
            Some(Kind::Metadata) if core.shape.journal.is_some() => keep_metadata(core, &block),
            _ if core.blocks.references(block.block) == 0 => {
                core.blocks.take_this(block.block, Role::Leaving);
                core.blocks.leave(block.block, Cause::Gc, None);
            }
            Some(Kind::Owned | Kind::Destination { .. }) => {
                let page = block.units.iter().find(|unit| unit.1.0 < core.shape.user_units);
                let lbn = page.map_or(0, |&(_, lpn, _)| core.shape.lbn(lpn).0);
                of_one.entry(lbn).or_default().push(block);
            }
            _ => keep_log(core, block, None),
        }
    }
    for (lbn, blocks) in of_one {
        assign_blocks_of(core, lbn, blocks);
    }
    core.dies.iter_mut().for_each(|die| die.logs.sort());
}

/// Assigns roles to the blocks of one logical block that hold a newest copy, in the order in which they were begun.
fn assign_blocks_of(core: &mut Core, lbn: u32, mut blocks: Vec<Found>) {
    let die = core.shape.die_of_lbn(lbn);
    let Some(last) = blocks.pop() else { return };
    let others_hold = !blocks.is_empty();
    let sequential = core.die(die).logs.all().iter().any(|log| log.owner().is_some());
    let is_log = last.kind == Some(Kind::Owned)
        && (others_hold || !is_in_place(core, lbn, &last))
        && (core.shape.scheme == Scheme::Bast || !sequential);
    if is_log {
        keep_log(core, last, Some(lbn));
    } else {
        blocks.push(last);
    }
    if let Some(data) = blocks.pop_if(|data| is_in_place(core, lbn, data)) {
        core.blocks.take_this(data.block, Role::Data(lbn));
        core.set_data_block(lbn, Some(data.block));
    }
    blocks.into_iter().for_each(|block| keep_log(core, block, None));
}

/// Returns whether every newest copy in a block lies at its place in logical block `lbn`.
fn is_in_place(core: &Core, lbn: u32, found: &Found) -> bool {
    found.units.iter().all(|&(unit, lpn, _)| {
        let newest =
            lpn.0 < core.shape.user_units && core.map.get(lpn) == core.shape.layout.ppa(found.block, unit);
        !newest || lpn == core.shape.lpn(lbn, unit)
    })
}

/// Continues a log block where it was; evacuates one that does not fit the policy.
fn keep_log(core: &mut Core, found: Found, owner: Option<u32>) {
    core.blocks.take_this(found.block, Role::Log);
    let shape = &core.shape;
    let mut pages = vec![Lpn::NONE; (found.used * shape.layout.units_per_superpage) as usize];
    for &(unit, lpn, _) in found.units.iter().filter(|unit| unit.1.0 < shape.user_units) {
        // A page of another logical block is not listed, so that no check attributes it to this one.
        pages[unit as usize] = lpn;
    }
    let fits = owner.is_some() || (shape.scheme == Scheme::Fast && found.kind == Some(Kind::Random));
    let used = (found.first, found.units.last().map_or(found.first, |unit| unit.2));
    let log = Log::found(shape, found.block, owner, fits, used, pages);
    core.die_of_mut(found.block).logs.keep(log);
    if !fits {
        merge::evacuate(core, found.block, Cause::Retirement);
    }
}

fn keep_metadata(core: &mut Core, found: &Found) {
    core.blocks.take_this(found.block, Role::Metadata);
    let superpages = core.shape.layout.superpages_per_block;
    // The blocks come in the order in which they were begun.
    let next = (found.used < superpages).then_some(found.used);
    core.die_of_mut(found.block).journal.keep_block(found.block, next);
}
