//! Paths of the journal: choose when to write which translation pages, and their contents.
//!
//! ```text
//!  checkpoint, flush_to, next_erase, arrived ─► wanted ── next_map_job ─► MapJob::Program ─► metadata ─► ended
//! ```

use super::core::Core;
use super::programs::Settled;
use super::table::Table;
use super::write;
use crate::map_writes::Content;
use crate::translation::{FlushPoint, MapJob, MapPage, ProgramId, Stream};
use pellucid_flash::{Cause, Lpn, MapReason, Ppa};

/// Records that host data were placed. Returns whether the rolling checkpoint, whose next translation pages are wanted now, or the
/// list of a block is due.
#[inline]
pub(crate) fn checkpoint<T: Table>(core: &mut Core<T>) -> bool {
    let due = core.pages.is_due(core.programs.sequence());
    if due {
        want_checkpoint(core);
    }
    due || core.table.has_job()
}

#[cold]
fn want_checkpoint<T: Table>(core: &mut Core<T>) {
    for page in core.pages.take_due(core.programs.sequence()) {
        want_saved(core, page);
    }
}

/// Wants a translation page written for a checkpoint or a flush.
pub(crate) fn want_saved<T: Table>(core: &mut Core<T>, page: u32) {
    let Core { shape, table, pages, demand, .. } = core;
    let content =
        demand.as_ref().map_or(Content::Here, |demand| demand.content_of(shape, table, pages, page));
    pages.writes.want(page, Cause::Journal, MapReason::Flush, content);
}

/// Queues the translation page `lpn`, which must leave its block, to be rewritten together with the following ones.
pub(crate) fn rewrite<T: Table>(core: &mut Core<T>, lpn: Lpn, cause: Cause) {
    core.pages.writes.add(lpn.0 - core.shape.user_units, cause);
}

/// The logical page of the translation page that lies at `ppa`, if one does.
pub(crate) fn map_page_at<T: Table>(core: &Core<T>, ppa: Ppa) -> Option<Lpn> {
    (core.shape.user_units..core.shape.pages()).map(Lpn).find(|&lpn| core.copy_of(lpn) == ppa)
}

/// Requests writes of the translation pages for which a flush waits, as many as may be in flight; returns whether everything up to
/// `point` is on the media.
pub(crate) fn flush_to<T: Table>(core: &mut Core<T>, point: FlushPoint) -> bool {
    want_trimmed(core);
    core.pages.saved_before() > point.0
}

/// Wants the translation pages with trims. A page waits until the programs planned before its trims have ended, so that none of them
/// can be found above its watermark.
pub(crate) fn want_trimmed<T: Table>(core: &mut Core<T>) {
    while let Some(page) = core.pages.next_trimmed(|| core.programs.oldest_active().unwrap_or(u64::MAX)) {
        want_saved(core, page);
    }
}

/// Requests writes of the translation pages from `first` on, as many as may be in flight at once; returns the next
/// one.
pub(crate) fn save_map<T: Table>(core: &mut Core<T>, first: u32) -> u32 {
    let next = core.shape.map_pages.min(first + core.pages.may_come() as u32);
    (first..next).for_each(|page| want_saved(core, page));
    next
}

/// The read of a translation page has ended. Look-ups of its entries find them until [`next_map_job`] is called.
#[cold]
pub(crate) fn page_read<T: Table>(core: &mut Core<T>, page: MapPage, ok: bool) {
    if let Some(demand) = &mut core.demand {
        demand.page_read(page, ok);
        core.pages.writes.was_read(page.0);
    }
}

/// Returns whether look-ups or ended programs have left work for [`next_map_job`].
#[inline]
pub(crate) fn has_map_work<T: Table>(core: &Core<T>) -> bool {
    core.demand.as_ref().is_some_and(|demand| demand.has_work(&core.shape, &core.pages))
}

/// Returns the next read of a translation page, or program of a superpage of requested ones; a partial superpage only if a caller
/// waits or no more will follow.
#[inline]
pub(crate) fn next_map_job<T: Table>(core: &mut Core<T>) -> Option<MapJob> {
    if let Some(demand) = &mut core.demand
        && let Some(read) = demand.next_read(&core.shape, &core.table, &mut core.pages)
    {
        return Some(read);
    }
    if let Some(job) = T::next_job(core) {
        return Some(job);
    }
    // There is rarely one.
    if core.pages.writes.count() == 0 { None } else { plan(core) }
}

fn plan<T: Table>(core: &mut Core<T>) -> Option<MapJob> {
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
fn stream_of<T: Table>(core: &Core<T>, by_cause: &[u32; Cause::COUNT], units: u32) -> Stream {
    let unhurried = by_cause[Cause::Journal as usize] + by_cause[Cause::Map as usize];
    let for_gc = unhurried < units;
    // Pages evicted from the cached table take nothing of the GC reserve.
    let awaited = by_cause[Cause::Map as usize] < units;
    let hurries = for_gc || (awaited && !core.gc.emptied().is_empty());
    if hurries { Stream::MetaMoved } else { Stream::Meta }
}

/// Takes the content of a translation page, whose write is at position `at`, as of `settled`.
fn take_image<T: Table>(core: &mut Core<T>, settled: &Settled, at: usize, page: u32) {
    let mut image = std::mem::take(core.pages.writes.planned(at));
    core.pages.imaged(page, at, settled.watermark());
    write_image(core, settled, page, &mut image);
    *core.pages.writes.planned(at) = image;
    if let Some(demand) = &mut core.demand {
        demand.page_imaged(page);
    }
}

fn write_image<T: Table>(core: &mut Core<T>, settled: &Settled, page: u32, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&settled.watermark().to_le_bytes());
    out.extend_from_slice(&u64::from(page).to_le_bytes());
    T::write_part(core, settled, page, out);
    out.resize(core.shape.layout.unit_bytes as usize, 0);
}

/// Logical page for the spare area, and content, of a unit of a planned program of translation pages.
pub(crate) fn metadata<T: Table>(core: &Core<T>, id: ProgramId, position: u32) -> (Lpn, &[u8]) {
    let lpn = core.programs.unit(id, position).lpn;
    if lpn == Lpn::NONE {
        return (lpn, core.table.list_image());
    }
    let page = lpn.0 - core.shape.user_units;
    let mark = if core.pages.is_trimmed(page) { lpn } else { Lpn(lpn.0 + core.shape.map_pages) };
    (mark, core.pages.writes.image(page))
}
