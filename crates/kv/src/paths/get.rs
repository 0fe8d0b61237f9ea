//! Gets, and other requests that change only the index: touch, delete, flush_all.

use super::items;
use crate::index::At;
use crate::item::{HEADER, Head};
use crate::objects::Core;
use crate::requests::Flow;
use crate::{Get, Item, Key, KvStatistics, Outcome};

/// Answers a get as far as possible.
pub(crate) fn get(core: &mut Core, get: Get, key: &Key, hash: u64) -> Flow {
    let Some(at) = core.index.find(hash) else {
        return missed(core, get, key, hash, |counts| &mut counts.misses_absent);
    };
    let entry = *core.index.get(at);
    if entry.is_expired(core.clock.time_s()) {
        core.counters.count(|counts| &mut counts.expired);
        items::remove(core, at);
        return missed(core, get, key, hash, |counts| &mut counts.misses_expired);
    }
    let place = entry.place();
    let head = items::in_memory(core, place).map(Head::trusted);
    if let (Some(head), Some(slot)) = (head, items::in_memory(core, place))
        && head.key(slot) != key.as_bytes()
    {
        return missed(core, get, key, hash, |counts| &mut counts.misses_collided);
    }
    let mut item = accessed(core, get, at);
    let Some(head) = head else {
        let whole = core.slabs.class_of(place.slab).slot_bytes as usize;
        let bytes = if get.without_value { HEADER + key.as_bytes().len() } else { whole };
        return Flow::Read { place, cas: entry.cas, bytes, item };
    };
    item.binary = head.binary;
    if get.without_value {
        (item.flags, item.size) = (head.flags, head.value_bytes);
    } else {
        let mut value = core.answers.buffer();
        value.extend_from_slice(head.value(items::in_memory(core, place).expect("it is there")));
        (item.flags, item.size, item.value) = (head.flags, head.value_bytes, value);
    }
    hit(core, place.slab, true);
    Flow::Done(Outcome::Item(item))
}

/// Handles a miss.
fn missed(
    core: &mut Core,
    get: Get,
    key: &Key,
    hash: u64,
    reason: fn(&mut KvStatistics) -> &mut u64,
) -> Flow {
    if let Some(expires_s) = get.vivify {
        match items::put(core, key, hash, &[], 0, expires_s) {
            Ok(cas) => {
                if let Some(at) = core.index.find(hash) {
                    core.index.get_mut(at).win();
                }
                core.counters.count(|counts| &mut counts.gets);
                core.counters.count(reason);
                let binary = key.is_binary();
                return Flow::Done(Outcome::Item(Item {
                    cas,
                    expires_s,
                    binary,
                    won: true,
                    ..Item::default()
                }));
            }
            // The client is told to fill the item anyway, and so is the next one.
            Err(Flow::Wait | Flow::Done(_) | Flow::Read { .. }) => {}
        }
    }
    core.counters.count(|counts| &mut counts.gets);
    core.counters.count(reason);
    Flow::Done(Outcome::Miss)
}

/// Looks up a requested item in the index, and applies the changes to its entry.
fn accessed(core: &mut Core, get: Get, at: At) -> Item {
    let (time_s, tick) = (core.clock.time_s(), core.clock.tick());
    let entry = core.index.get_mut(at);
    let left = entry.expires_s().saturating_sub(time_s);
    let soon = entry.expires_s() != 0 && get.recache_s.is_some_and(|limit| left < limit);
    let mut item = Item {
        idle_s: entry.idle_s(time_s),
        fetched: entry.is_fetched(),
        stale: entry.is_stale(),
        taken: entry.is_won(),
        ..Item::default()
    };
    if !item.taken && (item.stale || soon) {
        entry.win();
        item.won = true;
    }
    let first = entry.hits() == 0;
    entry.access(time_s);
    if let Some(expires_s) = get.touch {
        entry.live_until(expires_s);
    }
    item.expires_s = entry.expires_s();
    let (slab, cas) = (entry.place().slab, entry.cas);
    core.slabs.accessed(slab, tick, first);
    if get.touch.is_some() {
        core.slabs.lives_until(slab, item.expires_s);
    }
    item.cas = core.clock.version(cas);
    item
}

/// Fills in the fields that only the stored item has.
pub(crate) fn fill_item(core: &mut Core, item: &mut Item, head: &Head, slot: &[u8], whole: bool) {
    (item.flags, item.size, item.binary) = (head.flags, head.value_bytes, head.binary);
    if whole {
        item.value = core.answers.buffer();
        item.value.extend_from_slice(head.value(slot));
    }
}

/// Counts a hit.
pub(crate) fn hit(core: &mut Core, slab: u32, in_memory: bool) {
    core.counters.count(|counts| &mut counts.gets);
    core.counters.count(|counts| &mut counts.hits);
    core.counters.add(|counts| &mut counts.hits_in_memory, u64::from(in_memory));
    core.slabs.count_hit(slab);
}

/// Sets an item's expiry.
pub(crate) fn touch(core: &mut Core, hash: u64, expires_s: u32) -> Outcome {
    let Some(at) = items::live(core, hash) else { return Outcome::NotFound };
    accessed(core, Get { touch: Some(expires_s), ..Get::default() }, at);
    core.counters.count(|counts| &mut counts.touches);
    Outcome::Touched
}

/// Deletes an item, or marks it stale.
pub(crate) fn delete(
    core: &mut Core,
    key: &Key,
    hash: u64,
    cas: Option<u64>,
    invalidate: Option<Option<u32>>,
    emptied: Option<u32>,
) -> Flow {
    let Some(mut at) = items::live(core, hash) else { return Flow::Done(Outcome::NotFound) };
    let entry = *core.index.get(at);
    if cas.is_some_and(|wanted| wanted != core.clock.version(entry.cas)) {
        return Flow::Done(Outcome::Exists);
    }
    if let Some(expires_s) = emptied {
        if let Err(flow) = items::put(core, key, hash, &[], 0, expires_s) {
            return flow;
        }
        // The item may have expired already.
        match core.index.find(hash) {
            Some(new) => at = new,
            None => return Flow::Done(Outcome::Deleted),
        }
    }
    core.counters.count(|counts| &mut counts.deletes);
    match invalidate {
        None if emptied.is_some() => {}
        None => items::remove(core, at),
        Some(expiry) => {
            let entry = core.index.get_mut(at);
            entry.make_stale();
            if let Some(expires_s) = expiry {
                entry.live_until(expires_s);
                let slab = entry.place().slab;
                core.slabs.lives_until(slab, expires_s);
            }
        }
    }
    Flow::Done(Outcome::Deleted)
}

/// Drops all items, now or later.
pub(crate) fn flush_all(core: &mut Core, at_s: u32) -> Outcome {
    core.counters.count(|counts| &mut counts.flushes);
    if core.clock.flush_at(at_s) {
        drop_all(core);
    }
    Outcome::Done
}

/// Drops all items now.
pub(crate) fn drop_all(core: &mut Core) {
    core.index.clear();
    for number in core.slabs.drop_items() {
        items::leave(core, number);
    }
}
