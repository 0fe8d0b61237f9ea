//! Paths of the journal: which translation pages are written when, and with what.
//!
//! ```text
//!  checkpoint, flush_to, next_erase, arrived ─► wanted ── next_map_job ─► MapJob::Program ─► metadata ─► ended
//! ```

use super::cache_media::write_region;
use super::core::Core;
use super::programs::Settled;
use super::{lists, write};
use crate::map_writes::Content;
use crate::translation::{FlushPoint, MapJob, MapPage, ProgramId, Stream};
use pellucid_flash::{Cause, Lpn, MapReason, Ppa};

/// Bytes of an entry of a translation page.
const ENTRY_BYTES: usize = 4;

/// Records that host data were placed. Returns whether the rolling checkpoint, whose next translation pages are wanted now, or the
/// list of a block is due.
#[inline]
pub(super) fn checkpoint(core: &mut Core) -> bool {
    let due = core.pages.is_due(core.programs.sequence());
    if due {
        want_checkpoint(core);
    }
    due || has_list(core)
}

#[cold]
fn want_checkpoint(core: &mut Core) {
    for page in core.pages.take_due(core.programs.sequence()) {
        want_saved(core, page);
    }
}

#[inline]
fn has_list(core: &Core) -> bool {
    core.cache.as_ref().is_some_and(|cache| cache.lists.has_due())
}

/// Wants a translation page written for a checkpoint or a flush.
pub(super) fn want_saved(core: &mut Core, page: u32) {
    let Core { shape, table, pages, demand, .. } = core;
    let content =
        demand.as_ref().map_or(Content::Here, |demand| demand.content_of(shape, table, pages, page));
    pages.writes.want(page, Cause::Journal, MapReason::Flush, content);
}

/// Queues the translation page `lpn`, which has to leave its block: it is written anew, with those that come after it.
pub(super) fn rewrite(core: &mut Core, lpn: Lpn, cause: Cause) {
    core.pages.writes.add(lpn.0 - core.shape.user_units, cause);
}

/// The logical page of the translation page that lies at `ppa`, if one does.
pub(super) fn map_page_at(core: &Core, ppa: Ppa) -> Option<Lpn> {
    (core.shape.user_units..core.shape.pages()).map(Lpn).find(|&lpn| core.copy_of(lpn) == ppa)
}

/// Wants the translation pages written that a flush waits for, as many as may be under way; returns whether everything up to `point`
/// is on the media.
pub(super) fn flush_to(core: &mut Core, point: FlushPoint) -> bool {
    want_trimmed(core);
    core.pages.saved_before() > point.0
}

/// Wants the translation pages with trims. A page waits until the programs planned before its trims have ended, so that none of them
/// can be found above its watermark.
pub(super) fn want_trimmed(core: &mut Core) {
    while let Some(page) = core.pages.next_trimmed(|| core.programs.oldest_active().unwrap_or(u64::MAX)) {
        want_saved(core, page);
    }
}

/// Wants the translation pages from `first` on written, as many as may be under way at one time; returns the next one.
pub(super) fn save_map(core: &mut Core, first: u32) -> u32 {
    let next = core.shape.map_pages.min(first + core.pages.may_come() as u32);
    (first..next).for_each(|page| want_saved(core, page));
    next
}

/// The read of a translation page has ended. Look-ups of its entries find them until [`next_map_job`] is called.
#[cold]
pub(super) fn page_read(core: &mut Core, page: MapPage, ok: bool) {
    if let Some(demand) = &mut core.demand {
        demand.page_read(page, ok);
        core.pages.writes.was_read(page.0);
    }
}

/// Returns whether look-ups or ended programs have left work for [`next_map_job`].
#[inline]
pub(super) fn has_map_work(core: &Core) -> bool {
    core.demand.as_ref().is_some_and(|demand| demand.has_work(&core.shape, &core.pages))
}

/// The next read of a translation page, or program of a superpage of wanted ones; a partial superpage only if a caller waits, or no
/// more come.
#[inline]
pub(super) fn next_map_job(core: &mut Core) -> Option<MapJob> {
    if let Some(demand) = &mut core.demand
        && let Some(read) = demand.next_read(&core.shape, &core.table, &mut core.pages)
    {
        return Some(read);
    }
    if core.cache.is_some() {
        if has_list(core)
            && let Some(list) = lists::next_list(core)
        {
            return Some(list);
        }
        lists::go_on_saving(core);
    }
    // There is rarely one.
    if core.pages.writes.count() == 0 { None } else { plan(core) }
}

fn plan(core: &mut Core) -> Option<MapJob> {
    let per_superpage = core.shape.layout.units_per_superpage;
    if core.pages.gathers(per_superpage) {
        return None;
    }
    let batch = core.pages.writes.next_batch(per_superpage);
    let (_, cause) = core.pages.writes.wanted(*batch.first()?);
    let mut lpns = Vec::with_capacity(batch.len());
    let mut by_cause = [0; Cause::COUNT];
    for &at in &batch {
        let (page, cause) = core.pages.writes.wanted(at);
        lpns.push(core.shape.map_page_lpn(page));
        by_cause[cause as usize] += 1;
    }
    let stream = stream_of(core, &by_cause, batch.len() as u32);
    let plan = write::place(core, stream, None, &lpns);
    if let Some(demand) = &mut core.demand {
        demand.note_space(plan.is_some());
    }
    let Some(plan) = plan else { return Some(MapJob::NeedsSpace) };
    let settled = core.programs.settled();
    for (&at, &lpn) in batch.iter().zip(&lpns) {
        take_image(core, &settled, at, lpn.0 - core.shape.user_units);
    }
    Some(MapJob::Program { plan, units: batch.len() as u32, cause, by_cause })
}

/// The stream of a superpage of so many translation pages, wanted for these causes: some may use the GC reserve.
fn stream_of(core: &Core, by_cause: &[u32; Cause::COUNT], units: u32) -> Stream {
    let unhurried = by_cause[Cause::Journal as usize] + by_cause[Cause::Map as usize];
    let for_gc = unhurried < units;
    // Pages evicted from the cached table take nothing of the GC reserve.
    let awaited = by_cause[Cause::Map as usize] < units;
    let hurries = for_gc || (awaited && core.gc.has_emptied());
    if hurries { Stream::MetaMoved } else { Stream::Meta }
}

/// Takes the content of a translation page, whose write stands `at` this place, at the moment of `settled`.
fn take_image(core: &mut Core, settled: &Settled, at: usize, page: u32) {
    let mut image = std::mem::take(core.pages.writes.planned(at));
    core.pages.imaged(page, at, settled.watermark());
    if let Some(cache) = &mut core.cache {
        cache.lists.region_imaged(page);
    }
    write_image(core, settled, page, &mut image);
    *core.pages.writes.planned(at) = image;
    if let Some(demand) = &mut core.demand {
        demand.page_imaged(page);
    }
}

fn write_image(core: &mut Core, settled: &Settled, page: u32, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&settled.watermark().to_le_bytes());
    out.extend_from_slice(&u64::from(page).to_le_bytes());
    if core.cache.is_some() {
        write_region(core, settled, page, out);
    } else {
        let first = page * core.shape.entries;
        let lpns = first..(first + core.shape.entries).min(core.shape.user_units);
        let head = out.len();
        out.resize(head + ENTRY_BYTES * lpns.len(), 0);
        let (entries, _) = out[head..].as_chunks_mut::<ENTRY_BYTES>();
        for (lpn, entry) in lpns.zip(entries) {
            *entry = core.settled_copy(settled, Lpn(lpn)).0.wrapping_add(1).to_le_bytes();
        }
    }
    out.resize(core.shape.layout.unit_bytes as usize, 0);
}

/// Logical page for the spare area, and content, of a unit of a planned program of translation pages.
pub(super) fn metadata(core: &Core, id: ProgramId, position: u32) -> (Lpn, &[u8]) {
    let lpn = core.programs.unit(id, position).lpn;
    if lpn == Lpn::NONE {
        return (lpn, core.cache.as_ref().map_or(&[], |cache| cache.lists.image()));
    }
    let page = lpn.0 - core.shape.user_units;
    let mark = if core.pages.is_trimmed(page) { lpn } else { Lpn(lpn.0 + core.shape.map_pages) };
    (mark, core.pages.writes.image(page))
}
