//! Garbage collection (GC): the valid sectors of the emptiest line go through the ring like the
//! application's; then the line is reset.
//!
//! ```text
//!  engine: next_gc ─► a vector read of many ─► out-of-band data say whose each is ─► ring ─► superpage
//!  line empty ─► reset of its chunks, when nothing reads from it any more ─► free
//! ```
//! The ring reserves a place for every sector that is being read, so GC never waits for space that only GC
//! could free.

use super::{read, resets, superpages};
use crate::ftl::core::Core;
use crate::ftl::meta;
use crate::ftl::ring::Origin;
use crate::ftl::stop::LINES_MIN;
use pellucid_flash::{Completion, DieId, Lpn, Ppa, Vector};
use pellucid_ftl::{Arrival, Arrived, GcJob, Load, Move, Reclaim};

/// Divisor of GC's share of the ring: GC reads when this part of its share is free, so that its vectors are
/// long while the rest is at work.
const BATCHES: u32 = 4;

/// The only die: to the engine, the whole target is one.
const DIE: DieId = DieId(0);

/// Starts the GC work that is due.
pub(in crate::ftl) fn start(core: &mut Core) {
    core.ftl.set_now(core.port.now());
    core.ftl.reap(DIE);
    core.collector.set_unfinished(false);
    let most = Vector::ADDRESSES_MAX as u32;
    let least = core.lines.shape().superpage_sectors.min(most);
    loop {
        let room = core.ring.size() - core.ring.held() - core.collector.reading();
        if room < least || pauses(core) || !core.ftl.wants_gc(DIE, Load::Busy) {
            break;
        }
        let share = core.rate.gc(core.ftl.blocks().free());
        let left = share.saturating_sub(core.ring.held_of_gc() + core.collector.reading());
        // A single sector that leaves the ring does not trigger a read.
        if left < (share / BATCHES).clamp(least, most) {
            break;
        }
        let count = left.min(room).min(most);
        if !read_victim(core, count) {
            core.collector.set_unfinished(true);
            break;
        }
        core.work.moved();
    }
    reset_emptied(core);
}

/// Reports whether GC pauses while a stop writes translation pages, because a start would have to replay
/// its copies. GC continues if translation pages need the space.
fn pauses(core: &Core) -> bool {
    core.stop.is_begun() && core.ftl.blocks().free() > LINES_MIN
}

/// Reads up to `count` sectors of the victim; returns `false` if none can be read now.
fn read_victim(core: &mut Core, count: u32) -> bool {
    let read = core.reads.take();
    let mut copies = core.reads[read].take_copies();
    copies.clear();
    while (copies.len() as u32) < count
        && let Some(GcJob::Move(&[moved])) = core.ftl.next_gc(DIE, Load::Busy)
    {
        let line = core.lines.line_of(moved.from);
        core.lines[line].hold();
        copies.push(moved);
    }
    let some = !copies.is_empty();
    core.collector.reserve(copies.len());
    core.reads[read].put_copies(copies);
    match some {
        true if is_held_back(core, read) => core.collector.defer(read),
        true => read::send_copies(core, read),
        false => core.reads.release(read),
    }
    some
}

/// Reports whether no further GC copies are coming that could fill a superpage.
pub(super) fn rests(core: &Core) -> bool {
    // A victim that waits for the erase of another one yields no copies before that.
    core.collector.reading() == 0 && (core.collector.is_unfinished() || !core.ftl.wants_gc(DIE, Load::Busy))
}

fn is_held_back(core: &Core, read: u32) -> bool {
    core.lines.shape().held_rows > 0
        && core.reads[read].copies().iter().any(|moved| !core.lines.is_readable(moved.from))
}

/// Sends the deferred reads whose sectors have become readable.
pub(super) fn send_deferred(core: &mut Core) {
    for read in core.collector.take_deferred() {
        match is_held_back(core, read) {
            true => core.collector.defer(read),
            false => read::send_copies(core, read),
        }
    }
}

/// Takes in the sectors of a victim that a read returned.
pub(super) fn arrived(core: &mut Core, read: u32, completion: &mut Completion) {
    let ok = read::is_readable(completion);
    let (data, vector) = (std::mem::take(&mut completion.data), completion.vector.take());
    let result = completion.result;
    let copies = core.reads[read].take_copies();
    core.collector.arrived(copies.len());
    core.ftl.set_now(core.port.now());
    let oob = vector.as_ref().map_or(&[][..], |v| &v.metadata);
    let (uuid, image_bytes) = (core.lines.shape().config.uuid, core.lines.shape().image_bytes);
    let mut of_map = false;
    for (i, moved @ &Move { from, .. }) in copies.iter().enumerate() {
        // A failed command without an error bitmap has lost all sectors.
        let read = ok || (result != 0 && result >> i & 1 == 0);
        let bytes = oob.get(i * meta::OOB_BYTES..(i + 1) * meta::OOB_BYTES).unwrap_or_default();
        let named = meta::parse_oob(bytes, uuid, core.lines.line_of(from)).map(|owner| owner.0);
        let newer = || named.is_some_and(|lpn| lpn.0 < core.ftl.user_units() && has_newer(core, lpn, from));
        let arrival = match read {
            _ if !core.ftl.is_current(from, None) || newer() => Arrival::Outdated,
            true => Arrival::Read,
            false => Arrival::Unreadable,
        };
        match core.ftl.arrived(moved, named, arrival) {
            Arrived::Keep(lpn) => {
                let image = &data[i * image_bytes..(i + 1) * image_bytes];
                core.ring.push(lpn, Origin::GcCopy(from), image);
            }
            Arrived::Metadata => of_map = true,
            Arrived::Drop => {}
            Arrived::Lost => core.counters.lost(true),
        }
    }
    if of_map {
        core.work.moved();
        superpages::write_map(core);
    }
    core.reads[read].put_copies(copies);
    core.port.put_back(data, vector);
}

/// Reports whether a newer version than the valid copy at `from` is on its way. The ring holds every such
/// version. The map, which costs a cache miss, is asked only if the newest version has been written
/// before an older one.
#[inline]
fn has_newer(core: &Core, lpn: Lpn, from: Ppa) -> bool {
    match core.ring.find(lpn) {
        // The newer version invalidates this one when its write ends.
        Some(at) if !core.ring.is_written(at) => true,
        Some(_) => !core.ftl.is_current(from, Some(lpn)),
        None => {
            debug_assert!(core.ftl.is_current(from, Some(lpn)), "page {}: a copy in no ring is newer", lpn.0);
            false
        }
    }
}

/// Resets empty lines, unless they wait until trims are stored.
fn reset_emptied(core: &mut Core) {
    core.ftl.set_now(core.port.now());
    while let Some(job) = core.ftl.next_erase() {
        match job {
            Reclaim::Erase(line, _) => resets::reset(core, line, false),
            Reclaim::Retire(line) => {
                resets::reset(core, line, true);
                core.note_wear();
            }
            Reclaim::Evict(_) => unreachable!("it is no cache"),
            Reclaim::AwaitsTrims => return superpages::write_map(core),
        }
        core.work.moved();
    }
}
