//! Flushes, forced writes (FUA) and trims: the data that must be on the media.
//!
//! Translation pages are programmed in their own superpages.

use super::{gc, superpages};
use crate::ftl::core::Core;
use pellucid_flash::{Lpn, Opcode, Status};
use pellucid_ftl::Located;

/// Starts a flush of the application.
pub(in crate::ftl) fn start(core: &mut Core, request: u32) {
    wait_for_sync(core, request);
    synced(core);
}

/// Completes `request` when all sectors now in the ring are on the media.
pub(super) fn wait_for_sync(core: &mut Core, request: u32) {
    core.ring.flush_all();
    // A newer version, at a later position, may replace an earlier failed write.
    core.flushes.wait(core.ring.mem(), request);
}

/// Advances the ring after a write, and completes the requests that waited for it.
#[inline]
pub(super) fn synced(core: &mut Core) {
    let settled = core.ring.settle();
    core.work.note(settled);
    release(core);
    while let Some(point) = core.flushes.next_point() {
        if !core.ring.is_safe(point) {
            return;
        }
        let request = core.flushes.next().expect("a request waits for the point");
        match core.requests.command(request).opcode {
            Opcode::Flush => core.flushes.wait_for_trims(core.ftl.flush_point(), request),
            _ => core.finish(request, Status::Success),
        }
        core.work.moved();
    }
}

/// Releases the sectors of the ring that are readable on the media.
#[inline]
fn release(core: &mut Core) {
    if core.lines.shape().held_rows == 0 {
        return core.ring.release_synced();
    }
    while let Some((lpn, is_newest)) = core.ring.first_kept() {
        // No command reads a version that a newer one has replaced.
        if is_newest
            && let Located::At(place) = core.ftl.peek(lpn)
            && !core.lines.is_readable(place)
        {
            break;
        }
        core.ring.release_first();
        core.work.moved();
    }
    gc::send_deferred(core);
}

/// Continues the flushes whose data are on the media.
#[inline]
pub(in crate::ftl) fn go_on(core: &mut Core) {
    while let Some(point) = core.flushes.next_trims() {
        let wanted = core.ftl.map_progress().wanted;
        let saved = core.ftl.flush_to(point);
        // A waiting request may now be the reason to pad a superpage.
        core.work.note(!wanted && core.ftl.map_progress().wanted);
        if !saved {
            break;
        }
        let request = core.flushes.next_flush().expect("a flush waits for the point");
        core.work.moved();
        core.finish(request, Status::Success);
    }
    superpages::write_map(core);
}

/// Reports whether a command or a translation page waits for the media.
pub(in crate::ftl) fn is_awaited(core: &Core) -> bool {
    core.flushes.is_waiting() || core.ftl.map_progress().wanted
}

/// Fails flushes and forced writes when writing is no longer possible. Translation pages with trims stay
/// queued, so a later flush fails too and does not promise trims that were never stored.
pub(in crate::ftl) fn fail_all(core: &mut Core) {
    for request in core.flushes.take_all() {
        core.finish(request, Status::WriteFault);
    }
}

/// Trims a page: it reads as zeros from now on.
pub(in crate::ftl) fn trim(core: &mut Core, lpn: Lpn) {
    core.ring.trim(lpn);
    core.ftl.trim(lpn);
}
