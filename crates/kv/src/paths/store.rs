//! Stores and arithmetic: conditions, and new values.

use super::items;
use crate::index::{At, Place};
use crate::item::Head;
use crate::objects::Core;
use crate::requests::{Flow, Found};
use crate::{Ask, Item, Key, Mode, Outcome, Store, What};

/// The digits of a number, as memcached stores it.
struct Digits {
    bytes: [u8; 20],
    from: usize,
}

impl Digits {
    fn of(mut number: u64) -> Digits {
        let mut digits = Digits { bytes: [b'0'; 20], from: 20 };
        loop {
            digits.from -= 1;
            digits.bytes[digits.from] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return digits;
            }
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

/// Parses a value as a number; trailing spaces are allowed.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii_end();
    if digits.is_empty() || digits.len() > 20 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Where to find the old item of a request.
enum Old<'a> {
    Here(&'a [u8]),
    Unread(Place),
}

/// Finds the old item.
fn old<'a>(core: &'a Core, at: At, found: Option<Found<'a>>) -> Old<'a> {
    let entry = core.index.get(at);
    let place = entry.place();
    match (items::in_memory(core, place), found) {
        (Some(slot), _) => Old::Here(slot),
        (None, Some(found)) if found.place == place && found.cas == entry.cas => Old::Here(found.slot),
        _ => Old::Unread(place),
    }
}

/// Requests a read of the whole item at `place`.
fn read_first(core: &Core, at: At, place: Place) -> Flow {
    let bytes = core.slabs.class_of(place.slab).slot_bytes as usize;
    Flow::Read { place, cas: core.index.get(at).cas, bytes, item: Item::default() }
}

/// Checks the condition of a store.
fn refused(core: &Core, store: &Store, at: Option<At>) -> Option<Outcome> {
    let version = at.map(|at| core.clock.version(core.index.get(at).cas));
    match (store.cas, version) {
        (Some(_), None) => return Some(Outcome::NotFound),
        (Some(wanted), Some(version)) if wanted != version => {
            let older = store.invalidate && wanted < version;
            return (!older).then_some(Outcome::Exists);
        }
        _ => {}
    }
    let refused = match store.mode {
        Mode::Set => false,
        Mode::Add => at.is_some(),
        Mode::Replace => at.is_none(),
        Mode::Append | Mode::Prepend => at.is_none() && store.vivify.is_none(),
    };
    refused.then_some(Outcome::NotStored)
}

/// Stores an item if its condition holds.
pub(crate) fn store(core: &mut Core, key: &Key, store: &mut Store, hash: u64, found: Option<Found>) -> Flow {
    let at = items::live(core, hash);
    if let Some(outcome) = refused(core, store, at) {
        core.counters.count(|counts| &mut counts.sets_refused);
        return Flow::Done(outcome);
    }
    let stale = store.invalidate
        && at.is_some_and(|at| {
            let version = core.clock.version(core.index.get(at).cas);
            store.cas.is_some_and(|wanted| wanted != version)
        });
    let stored = match (store.mode, at) {
        (Mode::Append | Mode::Prepend, Some(at)) => join(core, key, store, hash, (at, found)),
        (Mode::Append | Mode::Prepend, None) => {
            items::put(core, key, hash, &store.value, store.flags, store.vivify.unwrap_or(0))
        }
        // Otherwise the stale item would live as long as the new value was meant to.
        (_, Some(at)) if stale => {
            let expires_s = core.index.get(at).expires_s();
            items::put(core, key, hash, &store.value, store.flags, expires_s)
        }
        _ => items::put(core, key, hash, &store.value, store.flags, store.expires_s),
    };
    match stored {
        Ok(cas) => {
            if stale && let Some(at) = core.index.find(hash) {
                core.index.get_mut(at).make_stale();
            }
            Flow::Done(Outcome::Stored { cas })
        }
        Err(flow) => flow,
    }
}

/// Stores an old value with a new one before or behind it.
fn join(
    core: &mut Core,
    key: &Key,
    store: &Store,
    hash: u64,
    (at, found): (At, Option<Found>),
) -> Result<u64, Flow> {
    let mut joined = core.answers.take_scratch();
    let stored = match old(core, at, found) {
        Old::Unread(place) => Err(read_first(core, at, place)),
        Old::Here(slot) => {
            let head = Head::trusted(slot);
            let (flags, expires_s) = (head.flags, core.index.get(at).expires_s());
            let named = key.clone().named(head.binary);
            let parts = match store.mode {
                Mode::Append => [head.value(slot), &store.value],
                _ => [&store.value, head.value(slot)],
            };
            parts.iter().for_each(|part| joined.extend_from_slice(part));
            // As in memcached, the present item stays.
            match items::class_of(core, key, joined.len()) {
                None => Err(Flow::Done(Outcome::NotStored)),
                Some(_) => items::put(core, &named, hash, &joined, flags, expires_s),
            }
        }
    };
    core.answers.give_scratch(joined);
    stored
}

/// Adds to a number, or subtracts from it.
pub(crate) fn arithmetic(core: &mut Core, ask: &Ask, hash: u64, found: Option<Found>) -> Flow {
    let What::Arithmetic { delta, decrement, initial, touch, cas } = ask.what else {
        unreachable!("it is arithmetic")
    };
    let at = items::live(core, hash);
    let (value, flags, expires_s, binary) = match (at, initial) {
        (None, None) => return Flow::Done(Outcome::NotFound),
        (None, Some((value, expires_s))) => (value, 0, expires_s, ask.key.is_binary()),
        (Some(at), _) => {
            let entry = *core.index.get(at);
            if cas.is_some_and(|wanted| wanted != core.clock.version(entry.cas)) {
                return Flow::Done(Outcome::Exists);
            }
            let slot = match old(core, at, found) {
                Old::Unread(place) => return read_first(core, at, place),
                Old::Here(slot) => slot,
            };
            let head = Head::trusted(slot);
            let Some(old) = number(head.value(slot)) else { return Flow::Done(Outcome::NotNumber) };
            let value = if decrement { old.saturating_sub(delta) } else { old.wrapping_add(delta) };
            (value, head.flags, touch.unwrap_or(entry.expires_s()), head.binary)
        }
    };
    let named = ask.key.clone().named(binary);
    match items::put(core, &named, hash, Digits::of(value).as_bytes(), flags, expires_s) {
        Ok(cas) => {
            core.counters.count(|counts| &mut counts.arithmetic);
            Flow::Done(Outcome::Number { value, cas, expires_s, created: at.is_none() })
        }
        Err(flow) => flow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_and_nothing_else() {
        for (text, value) in [("0", 0), ("18446744073709551615", u64::MAX), ("12  ", 12), ("007", 7)] {
            assert_eq!(number(text.as_bytes()), Some(value));
        }
        for text in ["", " ", "-1", "+1", "1 2", "x", "18446744073709551616", "1.0"] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
        for value in [0, 7, 10, u64::MAX] {
            assert_eq!(Digits::of(value).as_bytes(), value.to_string().as_bytes());
        }
    }
}
