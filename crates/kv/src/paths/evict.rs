//! Eviction, which is also garbage collection for engines that own their blocks.
//!
//! ```text
//!   free slabs   ── high ──  enough
//!                            two modes: the slab with most obsolete items, if that is worth it; what is valid, or hot, is written again
//!                ── low ───
//!                            the slab that was asked for longest ago; what is hot is written again
//!                ── none, or no write buffer ──  the same, and nothing is written again; without blocks of its own it waits for one
//! ```
//! An item is kept only if the index entry of its key names this very slot: a stale copy says nothing about the live item.

use super::items;
use crate::evictions::Eviction;
use crate::flash::Purpose;
use crate::index::{Entry, Place};
use crate::item::Head;
use crate::objects::Core;
use crate::passage::Phase;
use crate::slabs::SlabRecord;
use crate::{Keep, Victim};
use std::ops::Range;

/// Maximum number of victims whose items are rewritten at a time, reads of each, and bytes of a read.
const EVICTIONS_MAX: usize = 4;
const READS_MAX: u32 = 4;
const READ_BYTES: u32 = 128 << 10;

/// Starts evictions as long as too few slabs are free.
pub(crate) fn make_room(core: &mut Core) {
    core.health.set_dead(core.flash.engine().is_read_only());
    if matches!(core.passage.phase(), Phase::Running | Phase::Draining) {
        evict_more(core);
    }
    if core.health.is_dead() {
        items::look_for_rest(core);
    }
}

fn evict_more(core: &mut Core) {
    while !core.health.is_dead() {
        let coming = core.evictions.count() as u32 + core.slabs.leaving();
        let free = core.flash.engine().free() + coming;
        let [low, high] = core.evictions.marks();
        // A stop evicts only what it needs to write the content of memory.
        let (low, enough) = match core.passage.phase() {
            Phase::Draining => (true, core.slabs.waiting() as u32),
            _ => (free < low, high),
        };
        if free >= enough || core.evictions.count() >= evictions_max(core) {
            return;
        }
        let Some((victim, keep)) = victim(core, low) else {
            // No slab is in flight, and no space can be had.
            let stuck = free == 0 && core.slabs.waiting() > 0;
            core.health.set_dead(stuck && !core.slabs.is_writing());
            return;
        };
        evict(core, victim, keep);
    }
}

/// Number of victims whose items are rewritten at a time. Without its own blocks, the cache rewrites all valid items, so it must read as many victims
/// at a time as it writes slabs.
fn evictions_max(core: &Core) -> usize {
    match core.config.engine.owns_blocks() {
        true => EVICTIONS_MAX,
        false => EVICTIONS_MAX.max(core.shape.servers as usize),
    }
}

/// The next victim, and which of its items are kept. `low`: free slabs are below the low watermark.
fn victim(core: &mut Core, low: bool) -> Option<(u32, Keep)> {
    let space = core.config.victim == Victim::TwoModes && !low;
    // With enough free slabs, a search of all slabs pays only if one has been filled since the last.
    if !low && (!space || core.slabs.survey()) {
        return None;
    }
    if let Some((number, _)) = core.slabs.stored().find(|(_, slab)| slab.expires_s <= core.clock.time_s()) {
        return Some((number, Keep::Nothing));
    }
    let stored = core.slabs.stored();
    let most_obsolete =
        || stored.clone().max_by_key(|(_, slab)| (obsolete_bytes(core, slab), u64::MAX - slab.order));
    let least_recent = || stored.clone().min_by_key(|(_, slab)| (slab.accessed, slab.order));
    let found = match core.config.victim {
        Victim::Fifo => stored.clone().min_by_key(|(_, slab)| slab.order),
        Victim::MostObsolete => most_obsolete().filter(|(_, slab)| gains(core, slab)).or_else(least_recent),
        Victim::TwoModes if space => most_obsolete()
            .filter(|(_, slab)| obsolete_bytes(core, slab) * 2 >= u64::from(core.shape.slab_bytes)),
        Victim::Lru | Victim::TwoModes => least_recent(),
    };
    let (number, slab) = found?;
    let by_space = space || core.config.victim == Victim::MostObsolete;
    Some((number, kept_of_victim(core, slab, by_space)?))
}

fn obsolete_bytes(core: &Core, slab: &SlabRecord) -> u64 {
    let class = core.slabs.classes().get(usize::from(slab.class));
    u64::from(class.slots - slab.valid) * u64::from(class.slot_bytes)
}

/// Reports whether clearly less is rewritten than freed.
fn gains(core: &Core, slab: &SlabRecord) -> bool {
    obsolete_bytes(core, slab) * 4 >= u64::from(core.shape.slab_bytes)
}

/// Items of a victim that are kept; `None`: it must wait. `by_space`: it was chosen for its obsolete items.
fn kept_of_victim(core: &Core, slab: &SlabRecord, by_space: bool) -> Option<Keep> {
    let owns = core.config.engine.owns_blocks();
    Some(match core.config.keep {
        // A stop closes slabs as they are.
        _ if !core.passage.is_running() => Keep::Nothing,
        // Items rewritten into slabs that are closed early use as much flash as is freed: eviction would never end.
        _ if core.slabs.was_closed_early() => Keep::Nothing,
        // Rewritten items need buffers, but must not take those of waiting stores, or slabs would be closed half empty.
        _ if owns
            && (core.flash.engine().free() == 0
                || core.requests.waiting() > 0
                || core.buffers.vacant() < 2) =>
        {
            Keep::Nothing
        }
        // Without its own blocks, the cache drops nothing under load: stores wait for the copies.
        _ if !owns && core.buffers.vacant() <= core.evictions.count() => {
            if core.evictions.count() > 0 || core.slabs.is_writing() {
                return None;
            }
            Keep::Nothing
        }
        Keep::Valid if !by_space || !gains(core, slab) => Keep::Hot,
        keep => keep,
    })
}

/// Evicts a stored slab.
fn evict(core: &mut Core, number: u32, keep: Keep) {
    core.counters.count(|counts| &mut counts.slabs_evicted);
    core.slabs.evict(number, core.clock.now());
    if keep == Keep::Nothing || (keep == Keep::Hot && core.slabs.get(number).hot == 0) {
        return drop_rest(core, number);
    }
    let at = core.evictions.add(number, keep);
    copy_more(core, at);
}

/// Evicts the least recently used slab completely. `false`: there is none.
pub(crate) fn evict_one(core: &mut Core) -> bool {
    let oldest = core.slabs.stored().min_by_key(|(_, slab)| (slab.accessed, slab.order));
    let Some((number, _)) = oldest else { return false };
    evict(core, number, Keep::Nothing);
    true
}

/// Drops the items that are still valid in a slab, and releases the slab.
fn drop_rest(core: &mut Core, number: u32) {
    for slot in 0..core.slabs.get(number).tops.len() as u32 {
        if core.slabs.get(number).valid == 0 {
            break;
        }
        let place = Place { slab: number, slot };
        let top = core.slabs.get(number).tops[slot as usize];
        let Some(at) = core.index.find_at(top, place) else { continue };
        if core.index.get(at).is_expired(core.clock.time_s()) {
            core.counters.count(|counts| &mut counts.expired);
        } else {
            core.counters.count(|counts| &mut counts.evicted);
            core.slabs.count_evicted(number);
        }
        items::remove(core, at);
    }
    items::leave(core, number);
}

/// The entry of the item in a slot, if it is to be kept.
fn kept(core: &Core, place: Place, keep: Keep) -> Option<Entry> {
    let top = core.slabs.get(place.slab).tops[place.slot as usize];
    let entry = *core.index.get(core.index.find_at(top, place)?);
    let wanted = keep == Keep::Valid || entry.hits() > 0;
    (wanted && !entry.is_expired(core.clock.time_s())).then_some(entry)
}

/// Continues reading a victim; at its end, releases it.
fn copy_more(core: &mut Core, at: usize) {
    let Eviction { slab, keep, mut next, mut reads } = core.evictions.get(at);
    let slots = core.slabs.get(slab).tops.len() as u32;
    let class = core.slabs.class_of(slab);
    let (slot_bytes, run_max) = (class.slot_bytes, (READ_BYTES / class.slot_bytes).max(1));
    // Slots between two kept ones are read along if they are no larger than a sector.
    let near = (core.shape.sector_bytes / slot_bytes).max(1);
    while reads < READS_MAX && next < slots {
        let wanted = |slot: &u32| kept(core, Place { slab, slot: *slot }, keep).is_some();
        let Some(first) = (next..slots).find(wanted) else {
            next = slots;
            break;
        };
        let limit = (first + run_max).min(slots);
        let mut end = first + 1;
        while let Some(more) = (end..limit.min(end + near)).find(wanted) {
            end = more + 1;
        }
        (next, reads) = (end, reads + 1);
        let bytes = ((end - first) * slot_bytes) as usize;
        items::read_item(core, Place { slab, slot: first }, bytes, Purpose::Copies(first, end));
    }
    core.evictions.went_on(at, next, reads);
    if reads == 0 {
        core.evictions.remove(at);
        drop_rest(core, slab);
    }
}

/// Handles items read from a victim; `None`: the read failed.
pub(crate) fn copies_read(core: &mut Core, slab: u32, slots: Range<u32>, bytes: Option<&[u8]>) {
    let keep = core.evictions.get(core.evictions.position(slab)).keep;
    let class = usize::from(core.slabs.get(slab).class);
    let slot_bytes = core.slabs.classes().get(class).slot_bytes as usize;
    for slot in slots.clone() {
        let place = Place { slab, slot };
        let Some(entry) = kept(core, place, keep) else { continue };
        let item = bytes.map(|bytes| &bytes[(slot - slots.start) as usize * slot_bytes..]);
        let good = item.and_then(|item| {
            let head = Head::decode(item).filter(|head| head.cas as u32 == entry.cas)?;
            head.checked_value(item).map(|_| &item[..head.bytes()])
        });
        match good {
            Some(item) => write_again(core, class, entry, item),
            None => items::damaged(core, entry.hash, place, entry.cas),
        }
    }
    let at = core.evictions.position(slab);
    core.evictions.read_ended(at);
    copy_more(core, at);
}

/// Rewrites an item. Without space for it, it is dropped with its slab.
fn write_again(core: &mut Core, class: usize, mut entry: Entry, item: &[u8]) {
    let Some(place) = items::slot(core, class, entry.hash, true) else { return };
    items::encode(core, place, |slot| slot[..item.len()].copy_from_slice(item));
    core.counters.count(|counts| &mut counts.copied);
    core.counters.add(|counts| &mut counts.copied_bytes, item.len() as u64);
    entry.moved(place);
    items::point(core, entry);
}
