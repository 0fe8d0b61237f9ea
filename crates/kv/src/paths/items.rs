//! Items: their slots, their index entries, and the slabs that come and go with them.

use crate::classes::SLAB_HEADER;
use crate::flash::Purpose;
use crate::index::{At, Entry, Place};
use crate::item::{self, Head};
use crate::objects::Core;
use crate::requests::Flow;
use crate::slabs::{Lent, State};
use crate::{Key, Outcome};
use pellucid_flash::slab::NIL;

const READ_ONLY: &str = "the flash takes no writes now";

/// The entry of `hash`, unless it has expired.
pub(crate) fn live(core: &mut Core, hash: u64) -> Option<At> {
    let at = core.index.find(hash)?;
    if core.index.get(at).is_expired(core.clock.time_s()) {
        core.counters.count(|counts| &mut counts.expired);
        remove(core, at);
        return None;
    }
    Some(at)
}

/// The smallest class whose slots fit an item; `None`: it is too large.
pub(crate) fn class_of(core: &Core, key: &Key, value_bytes: usize) -> Option<usize> {
    let class = core.slabs.classes().smallest(item::bytes_of(key.as_bytes().len(), value_bytes))?;
    (value_bytes <= core.config.item_max_bytes as usize).then_some(class)
}

/// An item in a write buffer, from its slot on; `None`: it is on flash.
#[inline]
pub(crate) fn in_memory(core: &Core, place: Place) -> Option<&[u8]> {
    let slab = core.slabs.get(place.slab);
    let class = core.slabs.classes().get(usize::from(slab.class));
    (slab.buffer != NIL).then(|| &core.buffers.get(slab.buffer)[class.offset(place.slot)..])
}

/// The place of an item if it can be overwritten: its slab is open and has the right class.
fn rewritable(core: &Core, at: At, class: usize) -> Option<Place> {
    let place = core.index.get(at).place();
    let slab = core.slabs.get(place.slab);
    (slab.state == State::Open && usize::from(slab.class) == class).then_some(place)
}

/// Returns a slot for an item of a class with `hash`: of that class, or of a larger one if buffers are short. `None`: no write buffer is free.
/// `again`: for a rewritten item, which may take the last buffer.
pub(crate) fn slot(core: &mut Core, class: usize, hash: u64, again: bool) -> Option<Place> {
    let slab = match core.slabs.classes().get(class).open {
        NIL => open(core, class, again)?,
        slab => slab,
    };
    Some(core.slabs.take_slot(slab, hash))
}

/// Opens a slab of a class, or lends one of a larger class. `None`: no write buffer is free.
fn open(core: &mut Core, class: usize, again: bool) -> Option<u32> {
    // The last buffers are reserved for rewritten items, because these free space.
    let kept = match again {
        true => 0,
        false if core.config.engine.owns_blocks() => 1,
        false => core.evictions.count().max(1),
    };
    if core.buffers.vacant() <= kept || core.slabs.next_vacant().is_none() {
        return match core.slabs.lend(class, core.buffers.count() - core.buffers.vacant()) {
            Lent::Slab(slab) => Some(slab),
            Lent::Close(slab) => {
                close(core, slab);
                None
            }
            Lent::Nothing => None,
        };
    }
    let buffer = core.buffers.take()?;
    core.buffers.get_mut(buffer)[..SLAB_HEADER].fill(0);
    Some(core.slabs.open(class, buffer))
}

/// Closes a slab, which then waits for the engine.
pub(crate) fn close(core: &mut Core, number: u32) {
    core.slabs.close(number, core.clock.tick());
}

/// Writes to a slot in a write buffer.
pub(crate) fn encode(core: &mut Core, place: Place, write: impl FnOnce(&mut [u8])) {
    let class = core.slabs.class_of(place.slab);
    let (from, bytes) = (class.offset(place.slot), class.slot_bytes as usize);
    let buffer = core.slabs.get(place.slab).buffer;
    write(&mut core.buffers.get_mut(buffer)[from..from + bytes]);
}

/// Stores an item, replacing the present one. If it cannot be stored, the present one is removed, so that it does not pass for the newest; it stays
/// if the caller only has to wait.
pub(crate) fn put(
    core: &mut Core,
    key: &Key,
    hash: u64,
    value: &[u8],
    flags: u32,
    expires_s: u32,
) -> Result<u64, Flow> {
    let bytes = item::bytes_of(key.as_bytes().len(), value.len());
    let class = class_of(core, key, value.len());
    let outcome = match class {
        None => Some(Outcome::TooLarge),
        Some(_) if core.health.is_dead() => Some(Outcome::Failed(READ_ONLY)),
        Some(_) => None,
    };
    if core.health.is_dead() {
        core.health.refused();
    }
    let at = core.index.find(hash);
    let gone = expires_s != 0 && expires_s <= core.clock.time_s();
    if (gone || outcome.is_some())
        && let Some(at) = at
    {
        remove(core, at);
    }
    let class = match (outcome, class) {
        (None, Some(class)) => class,
        (outcome, _) => return Err(Flow::Done(outcome.unwrap_or(Outcome::TooLarge))),
    };
    let cas = if gone {
        core.clock.new_version()
    } else {
        let place = match at.and_then(|at| rewritable(core, at, class)) {
            Some(place) => place,
            None => slot(core, class, hash, false).ok_or(Flow::Wait)?,
        };
        let (cas, stored_s) = (core.clock.new_version(), core.clock.time_s());
        let head = Head { flags, cas, expires_s, stored_s, binary: key.is_binary(), ..Head::default() };
        encode(core, place, |slot| item::encode(slot, &head, key.as_bytes(), value));
        point(core, Entry::new(hash, place, cas, expires_s, stored_s));
        cas
    };
    core.counters.count(|counts| &mut counts.sets);
    core.counters.add(|counts| &mut counts.set_bytes, (bytes - item::HEADER) as u64);
    core.slabs.count_set(class);
    Ok(cas)
}

/// Points the index to an item in a write buffer; the old item is obsolete. A slab without a free slot is ready to be written.
pub(crate) fn point(core: &mut Core, entry: Entry) {
    if core.slabs.add(&entry) {
        close(core, entry.place().slab);
    }
    if let Some(old) = core.index.put(entry) {
        obsolete(core, &old);
    }
}

/// Removes an item from the index.
pub(crate) fn remove(core: &mut Core, at: At) {
    let entry = core.index.remove(at);
    obsolete(core, &entry);
}

/// Handles an obsolete item.
fn obsolete(core: &mut Core, entry: &Entry) {
    if core.slabs.remove(entry) {
        leave(core, entry.place().slab);
    }
}

/// Counts an item as lost: it is unreadable, or its slot holds something else.
pub(crate) fn damaged(core: &mut Core, hash: u64, place: Place, cas: u32) {
    if let Some(at) = core.index.find(hash) {
        let entry = core.index.get(at);
        if entry.place() == place && entry.cas == cas {
            core.counters.count(|counts| &mut counts.lost);
            remove(core, at);
        }
    }
}

/// Lets a stored slab leave, of which nothing more is needed.
pub(crate) fn leave(core: &mut Core, number: u32) {
    core.slabs.leave(number);
    leave_if_unread(core, number);
}

pub(crate) fn leave_if_unread(core: &mut Core, number: u32) {
    if core.slabs.has_left(number) {
        core.flash.release(number);
        vacate(core, number);
    }
}

/// Frees the number of a slab.
pub(crate) fn vacate(core: &mut Core, number: u32) {
    let vacated = core.slabs.vacate(number);
    core.counters.add(|counts| &mut counts.reclaimed, vacated.slots);
    if let Some(since) = vacated.evicted {
        core.counters.pause(since, core.clock.now());
    }
}

pub(crate) fn give_up_buffer(core: &mut Core, number: u32) {
    core.buffers.release(core.slabs.take_buffer(number));
}

/// Reads the item at `place`, or its first `bytes`.
pub(crate) fn read_item(core: &mut Core, place: Place, bytes: usize, purpose: Purpose) {
    let from = core.slabs.class_of(place.slab).offset(place.slot);
    read(core, place.slab, from, bytes, purpose);
}

/// Reads bytes of a slab, which is not released before the read ends.
pub(crate) fn read(core: &mut Core, slab: u32, from: usize, bytes: usize, purpose: Purpose) {
    core.slabs.read_begins(slab);
    core.flash.read(slab, from, bytes, purpose);
}

/// Checks whether parts of the flash rest.
pub(crate) fn look_for_rest(core: &mut Core) {
    core.health.look(core.flash.engine().is_resting(), core.clock.now());
}
