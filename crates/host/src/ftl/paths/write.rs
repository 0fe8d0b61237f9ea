//! Writes: into the ring, and from it superpage by superpage.
//!
//! ```text
//!  waiting ─► admit (ring has room, rate limiter agrees) ─► acknowledged, unless forced
//!                │
//!  ring.submit ─►│ a superpage's worth ─► engine plans ─► queue of its parallel unit ─► program_ended ─► ring.sync
//!                └ less, and a command waits: padded          failed: planned again, or a newer version stands for it
//! ```
//! If GC copies have their own lines, each kind has its own superpages. Superpages are planned strictly in
//! the engine's order, and the next one only after the last could be sent. So other parallel units may idle
//! while its unit is busy: pblk does the same (Cosmos+ section 7.5, Fig. 38).

use super::{flush, gc, resets, superpages};
use crate::ftl::core::Core;
use crate::ftl::programs::{Content, Gathered};
use crate::ftl::ring::{Entry, Kind, Origin, Queue};
use crate::ftl::units::Job;
use pellucid_flash::{BlockId, Cause, Status};
use pellucid_ftl::{Operation, Plan, ProgramId, Soon, Stream};

/// Distance, in sectors of the ring, at which a map entry is prefetched before it is planned: large enough to
/// hide the memory latency, and small enough for the entry to stay in the cache.
const LOOK_AHEAD: u64 = 4;

/// Takes sectors of waiting writes into the ring while it has space.
pub(in crate::ftl) fn admit(core: &mut Core) {
    let image_bytes = core.lines.shape().image_bytes;
    // Sectors being read for GC already have reserved places.
    while core.ring.held() + core.collector.reading() < core.ring.size() {
        let Core { ring, requests, collector, work, rate, ftl, .. } = &mut *core;
        let Some(record) = requests.first_waiting() else { return };
        let limit = rate.user(ftl.blocks().free());
        if ring.held_of_user() >= limit {
            return;
        }
        let mut taken = 0;
        for (lpn, image) in record.rest(image_bytes) {
            let full = ring.held() + collector.reading() >= ring.size();
            if full || ring.held_of_user() >= limit {
                break;
            }
            ring.push(lpn, Origin::User, image);
            taken += 1;
        }
        if taken > 0 {
            work.passed();
        }
        if !record.took(taken) {
            return;
        }
        let forced = record.command().fua;
        let request = requests.next_waiting().expect("a write waits");
        match forced {
            true => flush::wait_for_sync(core, request),
            false => core.finish(request, Status::Success),
        }
    }
}

/// Plans superpages from the ring while the next one can be sent.
#[inline]
pub(in crate::ftl) fn fill(core: &mut Core) {
    let (kinds, mut idle) = (core.ring.kinds(), 0);
    while idle < kinds {
        let kind = core.programs.next_turn(kinds);
        idle = if has_superpage(core, kind) && plan_data(core, kind) { 0 } else { idle + 1 };
    }
}

/// Reports whether a superpage of a kind can be written now.
#[inline]
fn has_superpage(core: &Core, kind: Kind) -> bool {
    let waiting = core.programs.again(kind).len() as u32 + core.ring.queue(kind).count;
    core.programs.may_plan(kind)
        && waiting > 0
        && (waiting >= core.lines.shape().superpage_sectors || must_pad(core, kind))
}

/// Reports whether an incomplete superpage must be padded: a command waits for it, and no further sectors
/// are coming.
fn must_pad(core: &Core, kind: Kind) -> bool {
    let Queue { next, count } = core.ring.queue(kind);
    let before = (count > 0 && core.ring.is_awaited(next))
        || core.programs.again(kind).iter().any(|&at| core.ring.is_awaited(at));
    // Flushes do not wait for GC copies, but the victim and a stop do.
    let awaited = match kind {
        0 => before,
        _ => (before && core.stop.is_begun()) || gc::rests(core),
    };
    let stuck = !core.programs.is_writing()
        && core.collector.reading() == 0
        && (core.requests.has_waiting() || flush::is_awaited(core));
    awaited || stuck
}

/// Plans one superpage of a kind; returns `false` if there is no space.
fn plan_data(core: &mut Core, kind: Kind) -> bool {
    let mut gathered = core.programs.take_gathered();
    let (again, left) = gather(core, kind, &mut gathered);
    let free = core.ftl.blocks().free();
    let own = core.ring.kinds() > 1 && kind == 0;
    let plan = match gathered.lpns.is_empty() {
        true => None,
        // The rate limiter has reserved space for everything in the ring.
        false => own
            .then(|| core.ftl.place(Stream::Host, None, &gathered.lpns))
            .flatten()
            .or_else(|| core.ftl.place(Stream::Gc, None, &gathered.lpns)),
    };
    let planned = plan.is_some() || gathered.lpns.is_empty();
    let mut dropped = false;
    if planned {
        let taken = core.ring.submitted(kind, left) as usize + again;
        assert!(taken >= gathered.positions.len(), "a superpage holds more sectors than were taken");
        dropped = taken > gathered.positions.len();
        core.programs.planned_again(kind, again);
        // Dropped sectors free space in the ring, and an opened line uses some.
        core.work.passed();
        core.work.note(dropped || core.ftl.blocks().free() != free);
    }
    if let Some(plan) = plan {
        enter_data(core, kind, &plan, &gathered, again);
    }
    core.programs.put_gathered(gathered);
    if planned {
        prefetch_next(core);
        // Dropped sectors count as stored; planned ones change nothing yet if there is one kind and
        // nothing is held back.
        if dropped || core.ring.kinds() > 1 || core.lines.shape().held_rows > 0 {
            flush::synced(core);
        }
    }
    planned
}

/// Gathers the sectors of a superpage: first sectors whose write has failed, then sectors of the ring. Returns the number of the former and
/// the rest of the latter.
#[inline]
fn gather(core: &mut Core, kind: Kind, gathered: &mut Gathered) -> (usize, Queue) {
    let superpage = core.lines.shape().superpage_sectors as usize;
    let mut again = 0;
    while gathered.positions.len() < superpage
        && let Some(&at) = core.programs.again(kind).get(again)
    {
        again += 1;
        gather_one(core, at, gathered);
    }
    let mut queue = core.ring.queue(kind);
    while gathered.positions.len() < superpage
        && let Some(at) = core.ring.take(kind, &mut queue)
    {
        gather_one(core, at, gathered);
    }
    (again, queue)
}

/// Adds the sector at `at` of the ring to a superpage, unless it is superfluous.
#[inline]
fn gather_one(core: &mut Core, at: u64, gathered: &mut Gathered) {
    let entry = core.ring.entry(at);
    if let Origin::GcCopy(from) = entry.origin
        && (!core.ftl.is_current(from, Some(entry.lpn)) || core.ring.find(entry.lpn) != Some(at))
    {
        // The sector was overwritten meanwhile; the newer version's write invalidates the copy in the
        // victim.
        return core.ring.written(at);
    }
    gathered.positions.push(at);
    gathered.lpns.push(entry.lpn);
}

/// Enters a planned superpage of data, of which the first `again` sectors were planned before.
#[inline]
fn enter_data(core: &mut Core, kind: Kind, plan: &Plan, gathered: &Gathered, again: usize) {
    let Gathered { positions, lpns } = gathered;
    core.programs.begin_data(kind, plan.id);
    core.programs.enter(plan, positions.iter().map(|&at| Content::Entry(at)));
    core.lines.note(plan.first, plan.sequence, lpns.iter().copied());
    let padding = core.lines.shape().superpage_sectors as usize - positions.len();
    core.counters.programmed(Cause::Padding, padding as u64);
    for (i, (&at, lpn)) in positions.iter().zip(lpns).enumerate() {
        let Entry { origin, trimmed, .. } = *core.ring.entry(at);
        count_planned(core, origin, i < again);
        // A newer version later in the superpage already has its place in the map, and reaches the
        // media together with this one.
        if trimmed && !lpns[i + 1..].contains(lpn) {
            core.ftl.trim(*lpn);
            core.work.moved();
        }
    }
    let (unit, line) = superpages::begin(core, plan);
    if core.units.waits_for(unit, Job::Data(plan.id, line)) {
        core.programs.wait(kind, unit);
    }
    if core.ftl.checkpoint() {
        core.work.moved();
        superpages::write_map(core);
    }
}

/// Counts a planned sector; `again` if its write has failed before.
#[inline]
fn count_planned(core: &mut Core, origin: Origin, again: bool) {
    let cause = match origin {
        _ if again => Cause::Retirement,
        Origin::User => Cause::Host,
        Origin::GcCopy(_) => {
            core.ftl.count_copied(1);
            Cause::Gc
        }
    };
    core.counters.programmed(cause, 1);
}

/// Prefetches the map entries of the next sectors again: they waited in the ring so long that the cache
/// has evicted them.
#[inline]
fn prefetch_next(core: &Core) {
    let superpage = u64::from(core.lines.shape().superpage_sectors);
    let from = core.ring.submit() + LOOK_AHEAD.max(superpage);
    for at in from..(from + superpage).min(core.ring.mem()) {
        core.ftl.prefetch(Soon::Lookup(core.ring.entry(at).lpn));
    }
}

/// Handles the end of a program.
pub(super) fn program_ended(core: &mut Core, id: ProgramId, line: BlockId, ok: bool) {
    core.work.moved();
    let ended = core.programs.end(id);
    core.ftl.ended(Operation::Program(id), ok);
    core.lines[line].program_ended(ok);
    if !ok && core.lines[line].is_replaced() {
        core.ftl.forgive(line);
    }
    for &content in &ended {
        match content {
            Content::Entry(at) if ok => core.ring.written(at),
            Content::Entry(at) => {
                if core.ring.failed(at) {
                    core.programs.plan_again(core.ring.kind_at(at), at);
                }
            }
            // The engine plans a failed translation page again. Without an index, the next start reads
            // the sectors of the line.
            Content::Metadata(_) | Content::Index(_) => {}
        }
    }
    core.programs.put_ended(ended);
    if !ok {
        core.note_wear();
    }
    flush::synced(core);
    resets::finish_if_broken(core, line);
    resets::write_end_if_due(core, line);
    resets::seal_if_due(core, line);
}
