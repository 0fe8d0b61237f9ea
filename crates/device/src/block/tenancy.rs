//! The pages that a namespace holds, and the consequences for its read and write paths.
//!
//! ```text
//!  every page:      never written ─► reads as zeros            a write that fails: a newer entry of the page takes over
//!  admitted pages:  not admitted, or dropped ─► reads as absent
//!                   admitted: pinned ─► stored ─► on the media, or given up: unpinned, and may be dropped again
//! ```
//! Invariant: with [`Tenancy::Admitted`] the translation holds one pin for each entry whose newest data it lacks.

use super::core::Core;
use super::read;
use crate::shared::Shared;
use pellucid_flash::{CacheOp, CacheState, Lpn, Opcode, Status};
use pellucid_ftl::CachedPages;

/// Which pages a namespace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tenancy {
    /// All of its address space; a page that was never written reads as zeros.
    Every,
    /// Pages whose writes the translation has admitted, until it drops them; others read as absent. Writes bring whole pages.
    Admitted,
}

/// The pages that were admitted.
fn pages(core: &mut Core) -> CachedPages<'_> {
    core.side.translation.cache().expect("the translation of admitted pages is a cache's")
}

/// A page that was to be read lies nowhere.
#[inline]
pub(super) fn blank(core: &mut Core, shared: &mut Shared, entry: u32, op: Option<u32>) {
    match core.tenancy() {
        Tenancy::Every => read::fill_zeros(core, shared, entry, op),
        Tenancy::Admitted => absent(core, shared, entry, op),
    }
}

fn absent(core: &mut Core, shared: &mut Shared, entry: u32, op: Option<u32>) {
    shared.counts(core.side.number()).cache_misses += 1;
    read::end_fill(core, shared, entry, Status::Absent, op);
}

/// The copy of the page of `entry` cannot be read. `true`: the page may leave, so that it is absent from now on, and the fill has ended.
pub(super) fn drop_unreadable(core: &mut Core, shared: &mut Shared, entry: u32, op: u32) -> bool {
    let lpn = core.buffer[entry].lpn();
    let leaves = core.tenancy() == Tenancy::Admitted
        && pages(core).state_of(lpn) == CacheState::Clean
        && pages(core).drop_if_unpinned(lpn);
    if leaves {
        absent(core, shared, entry, Some(op));
    }
    leaves
}

/// A write of a page ends without its data.
pub(super) fn give_up(core: &mut Core, lpn: Lpn, opcode: Opcode) {
    if core.tenancy() == Tenancy::Admitted {
        let mut pages = pages(core);
        pages.stored(lpn, opcode == Opcode::Cache(CacheOp::WriteDirty), false);
        pages.unpin(lpn);
    }
}

/// The data of a write are in an entry.
#[inline]
pub(super) fn stored(core: &mut Core, entry: u32, opcode: Opcode) {
    if core.tenancy() == Tenancy::Admitted {
        stored_admitted(core, entry, opcode == Opcode::Cache(CacheOp::WriteDirty));
    }
}

fn stored_admitted(core: &mut Core, entry: u32, dirty: bool) {
    let lpn = core.buffer[entry].lpn();
    core.buffer[entry].admitted_mut().set_dirty(dirty);
    pages(core).stored(lpn, dirty, true);
    // One pin of an entry is enough.
    if core.buffer[entry].admitted_mut().pin() {
        pages(core).unpin(lpn);
    }
}

/// The data of an entry are on the media, or no longer needed there.
#[inline]
pub(super) fn unpin(core: &mut Core, entry: u32) {
    if core.buffer[entry].admitted_mut().unpin() {
        let lpn = core.buffer[entry].lpn();
        pages(core).unpin(lpn);
    }
}

/// Returns whether the newer entry of a page takes over the waiters of `entry`, whose program failed. An admitted page may have left while
/// the newer entry still waits for its own data; that entry takes over nothing.
pub(super) fn takes_over(core: &Core, shared: &Shared, newer: u32, entry: u32) -> bool {
    let held = &core.buffer[newer];
    core.tenancy() == Tenancy::Every || held.follows() == entry || held.sectors().valid() == shared.full
}
