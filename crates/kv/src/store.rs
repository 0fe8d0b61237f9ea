//! Stores and arithmetic: conditions, the new item, and the slot that it gets.

use super::index::{At, Entry, Place};
use super::item::{self, Head};
use super::requests::{Flow, Found};
use super::slabs::State;
use super::{Ask, Item, Key, Kv, Mode, Outcome, Store, What};
use pellucid_flash::slab::NIL;

const READ_ONLY: &str = "the flash takes no writes now";

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

/// The number that a value says; spaces behind it are allowed.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii_end();
    if digits.is_empty() || digits.len() > 20 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Where the old item of a request can be had.
enum Old<'a> {
    Here(&'a [u8]),
    Unread(Place),
}

impl Kv {
    /// The old item, from its slot on.
    fn old<'a>(&'a self, at: At, found: Option<Found<'a>>) -> Old<'a> {
        let entry = self.index.get(at);
        let place = entry.place();
        match (self.in_memory(place), found) {
            (Some(slot), _) => Old::Here(slot),
            (None, Some(found)) if found.place == place && found.cas == entry.cas => Old::Here(found.slot),
            _ => Old::Unread(place),
        }
    }

    /// The whole item at `place` has to be read.
    fn read_first(&self, at: At, place: Place) -> Flow {
        let class = self.slabs[place.slab as usize].class;
        let bytes = self.classes[usize::from(class)].slot_bytes as usize;
        Flow::Read { place, cas: self.index.get(at).cas, bytes, item: Item::default() }
    }

    /// Checks the condition of a store.
    fn refused(&self, store: &Store, at: Option<At>) -> Option<Outcome> {
        let version = at.map(|at| self.version(self.index.get(at).cas));
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

    pub(super) fn store(&mut self, key: &Key, store: &mut Store, hash: u64, found: Option<Found>) -> Flow {
        let at = self.live(hash);
        if let Some(outcome) = self.refused(store, at) {
            self.statistics.sets_refused += 1;
            return Flow::Done(outcome);
        }
        let stale = store.invalidate
            && at.is_some_and(|at| {
                let version = self.version(self.index.get(at).cas);
                store.cas.is_some_and(|wanted| wanted != version)
            });
        let stored = match (store.mode, at) {
            (Mode::Append | Mode::Prepend, Some(at)) => {
                let mut joined = std::mem::take(&mut self.scratch);
                joined.clear();
                let old = match self.old(at, found) {
                    Old::Unread(place) => {
                        self.scratch = joined;
                        return self.read_first(at, place);
                    }
                    Old::Here(slot) => (Head::trusted(slot), slot),
                };
                let (flags, expires_s) = (old.0.flags, self.index.get(at).expires_s);
                let named = key.clone().named(old.0.binary);
                let parts = match store.mode {
                    Mode::Append => [old.0.value(old.1), &store.value],
                    _ => [&store.value, old.0.value(old.1)],
                };
                parts.iter().for_each(|part| joined.extend_from_slice(part));
                // As memcached: what is there stays.
                if self.class_of(key, joined.len()).is_none() {
                    self.scratch = joined;
                    return Flow::Done(Outcome::NotStored);
                }
                let stored = self.put(&named, hash, &joined, flags, expires_s);
                self.scratch = joined;
                stored
            }
            (Mode::Append | Mode::Prepend, None) => {
                self.put(key, hash, &store.value, store.flags, store.vivify.unwrap_or(0))
            }
            // Otherwise what is stale would live on for as long as the new value was to live.
            (_, Some(at)) if stale => {
                let expires_s = self.index.get(at).expires_s;
                self.put(key, hash, &store.value, store.flags, expires_s)
            }
            _ => self.put(key, hash, &store.value, store.flags, store.expires_s),
        };
        match stored {
            Ok(cas) => {
                if stale && let Some(at) = self.index.find(hash) {
                    self.index.get_mut(at).make_stale();
                }
                Flow::Done(Outcome::Stored { cas })
            }
            Err(flow) => flow,
        }
    }

    pub(super) fn arithmetic(&mut self, ask: &Ask, hash: u64, found: Option<Found>) -> Flow {
        let What::Arithmetic { delta, decrement, initial, touch, cas } = ask.what else {
            unreachable!("it is arithmetic")
        };
        let at = self.live(hash);
        let (value, flags, expires_s, binary) = match (at, initial) {
            (None, None) => return Flow::Done(Outcome::NotFound),
            (None, Some((value, expires_s))) => (value, 0, expires_s, ask.key.is_binary()),
            (Some(at), _) => {
                let entry = *self.index.get(at);
                if cas.is_some_and(|wanted| wanted != self.version(entry.cas)) {
                    return Flow::Done(Outcome::Exists);
                }
                let slot = match self.old(at, found) {
                    Old::Unread(place) => return self.read_first(at, place),
                    Old::Here(slot) => slot,
                };
                let head = Head::trusted(slot);
                let Some(old) = number(head.value(slot)) else { return Flow::Done(Outcome::NotNumber) };
                let value = if decrement { old.saturating_sub(delta) } else { old.wrapping_add(delta) };
                (value, head.flags, touch.unwrap_or(entry.expires_s), head.binary)
            }
        };
        let named = ask.key.clone().named(binary);
        match self.put(&named, hash, Digits::of(value).as_bytes(), flags, expires_s) {
            Ok(cas) => {
                self.statistics.arithmetic += 1;
                Flow::Done(Outcome::Number { value, cas, expires_s, created: at.is_none() })
            }
            Err(flow) => flow,
        }
    }

    /// Stores an item in place of what is there. Where it cannot be stored, what was there is gone, so that it is not taken for the
    /// newest; not where the caller only has to wait.
    pub(super) fn put(
        &mut self,
        key: &Key,
        hash: u64,
        value: &[u8],
        flags: u32,
        expires_s: u32,
    ) -> Result<u64, Flow> {
        let bytes = item::bytes_of(key.as_bytes().len(), value.len());
        let class = self.class_of(key, value.len());
        let outcome = match class {
            None => Some(Outcome::TooLarge),
            Some(_) if self.dead => Some(Outcome::Failed(READ_ONLY)),
            Some(_) => None,
        };
        if self.dead {
            self.retry.refused();
        }
        let at = self.index.find(hash);
        let gone = expires_s != 0 && expires_s <= self.time_s;
        if (gone || outcome.is_some())
            && let Some(at) = at
        {
            self.remove(at);
        }
        let class = match (outcome, class) {
            (None, Some(class)) => class,
            (outcome, _) => return Err(Flow::Done(outcome.unwrap_or(Outcome::TooLarge))),
        };
        if !gone {
            let place = match at.and_then(|at| self.rewritable(at, class)) {
                Some(place) => place,
                None => self.slot(class, hash, false).ok_or(Flow::Wait)?,
            };
            self.cas += 1;
            let head = Head {
                flags,
                cas: self.cas,
                expires_s,
                stored_s: self.time_s,
                binary: key.is_binary(),
                ..Head::default()
            };
            self.encode(place, |slot| item::encode(slot, &head, key.as_bytes(), value));
            self.point(Entry::new(hash, place, self.cas, expires_s, self.time_s));
        } else {
            self.cas += 1;
        }
        self.statistics.sets += 1;
        self.statistics.set_bytes += (bytes - item::HEADER) as u64;
        self.classes[class].statistics.sets += 1;
        Ok(self.cas)
    }

    /// The smallest class whose slots take an item; `None`: it is too large.
    fn class_of(&self, key: &Key, value_bytes: usize) -> Option<usize> {
        let bytes = item::bytes_of(key.as_bytes().len(), value_bytes);
        let class = self.classes.partition_point(|class| (class.slot_bytes as usize) < bytes);
        (class < self.classes.len() && value_bytes <= self.config.item_max_bytes as usize).then_some(class)
    }

    /// The place of an item if it can be written over: its slab is still being filled, and has the right class.
    fn rewritable(&self, at: At, class: usize) -> Option<Place> {
        let place = self.index.get(at).place();
        let slab = &self.slabs[place.slab as usize];
        (slab.state == State::Open && usize::from(slab.class) == class).then_some(place)
    }

    /// A slot for an item of a class with `hash`: of that class, or of a larger one where buffers are short. `None`: no write buffer is free.
    /// `again`: for an item that is written again, which may take the last buffer.
    pub(super) fn slot(&mut self, class: usize, hash: u64, again: bool) -> Option<Place> {
        let slab = match self.classes[class].open {
            NIL => self.open(class, again)?,
            slab => slab,
        };
        let tops = &mut self.slabs[slab as usize].tops;
        let place = Place { slab, slot: tops.len() as u32 };
        tops.push((hash >> 32) as u32);
        Some(place)
    }

    /// Writes to a slot in a write buffer.
    pub(super) fn encode(&mut self, place: Place, write: impl FnOnce(&mut [u8])) {
        let slab = &self.slabs[place.slab as usize];
        let class = &self.classes[usize::from(slab.class)];
        let (from, bytes) = (class.offset(place.slot), class.slot_bytes as usize);
        write(&mut self.buffers.get_mut(slab.buffer)[from..from + bytes]);
    }

    /// Lets the index point to an item that lies in a write buffer; what it pointed to before is obsolete. A slab without a free slot is
    /// ready to be written.
    pub(super) fn point(&mut self, entry: Entry) {
        let place = entry.place();
        let slab = &mut self.slabs[place.slab as usize];
        slab.valid += 1;
        slab.hot += u32::from(entry.hits() > 0);
        slab.lives_until(entry.expires_s);
        let class = &mut self.classes[usize::from(slab.class)];
        class.statistics.items += 1;
        self.longest_bytes = self.longest_bytes.max(class.slot_bytes);
        if slab.tops.len() as u32 == class.slots && slab.state == State::Open {
            self.close(place.slab);
        }
        if let Some(old) = self.index.put(entry) {
            self.obsolete(&old);
        }
    }

    /// Takes an item out of the index.
    pub(super) fn remove(&mut self, at: At) {
        let entry = self.index.remove(at);
        self.obsolete(&entry);
    }

    /// An item is obsolete.
    fn obsolete(&mut self, entry: &Entry) {
        let number = entry.place().slab;
        let slab = &mut self.slabs[number as usize];
        slab.valid -= 1;
        slab.hot -= u32::from(entry.hits() > 0);
        let class = usize::from(slab.class);
        let empty = slab.valid == 0 && slab.state == State::Stored;
        self.classes[class].statistics.items -= 1;
        if empty {
            self.leave(number);
        }
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
