//! Gets, and the other requests that change only the index: touch, delete, flush_all.

use super::index::{At, Place};
use super::item::{HEADER, Head};
use super::requests::Flow;
use super::slabs::State;
use super::{Get, Item, Key, Kv, Outcome};
use pellucid_flash::slab::NIL;

impl Kv {
    /// The entry of `hash`, unless it has expired.
    pub(super) fn live(&mut self, hash: u64) -> Option<At> {
        let at = self.index.find(hash)?;
        if self.index.get(at).is_expired(self.time_s) {
            self.statistics.expired += 1;
            self.remove(at);
            return None;
        }
        Some(at)
    }

    /// The whole version of an entry: the newest with its lower half.
    pub(super) fn version(&self, cas: u32) -> u64 {
        self.cas - u64::from((self.cas as u32).wrapping_sub(cas))
    }

    /// The item of an entry, from its slot on, where it lies in a write buffer.
    #[inline]
    pub(super) fn in_memory(&self, place: Place) -> Option<&[u8]> {
        let slab = &self.slabs[place.slab as usize];
        let class = &self.classes[usize::from(slab.class)];
        (slab.buffer != NIL).then(|| &self.buffers.get(slab.buffer)[class.offset(place.slot)..])
    }

    pub(super) fn get(&mut self, get: Get, key: &Key, hash: u64) -> Flow {
        let Some(at) = self.index.find(hash) else {
            return self.missed(get, key, hash, |counts| &mut counts.misses_absent);
        };
        let entry = *self.index.get(at);
        if entry.is_expired(self.time_s) {
            self.statistics.expired += 1;
            self.remove(at);
            return self.missed(get, key, hash, |counts| &mut counts.misses_expired);
        }
        let place = entry.place();
        let head = self.in_memory(place).map(Head::trusted);
        if let (Some(head), Some(slot)) = (head, self.in_memory(place))
            && head.key(slot) != key.as_bytes()
        {
            return self.missed(get, key, hash, |counts| &mut counts.misses_collided);
        }
        let mut item = self.accessed(get, at);
        let Some(head) = head else {
            let whole = self.classes[usize::from(self.slabs[place.slab as usize].class)].slot_bytes as usize;
            let bytes = if get.without_value { HEADER + key.as_bytes().len() } else { whole };
            return Flow::Read { place, cas: entry.cas, bytes, item };
        };
        item.binary = head.binary;
        if get.without_value {
            (item.flags, item.size) = (head.flags, head.value_bytes);
        } else {
            let mut value = self.buffer();
            value.extend_from_slice(head.value(self.in_memory(place).expect("it is there")));
            (item.flags, item.size, item.value) = (head.flags, head.value_bytes, value);
        }
        self.hit(place.slab, true);
        Flow::Done(Outcome::Item(item))
    }

    /// A get found nothing.
    fn missed(
        &mut self,
        get: Get,
        key: &Key,
        hash: u64,
        reason: fn(&mut super::KvStatistics) -> &mut u64,
    ) -> Flow {
        if let Some(expires_s) = get.vivify {
            match self.put(key, hash, &[], 0, expires_s) {
                Ok(cas) => {
                    if let Some(at) = self.index.find(hash) {
                        self.index.get_mut(at).win();
                    }
                    self.statistics.gets += 1;
                    *reason(&mut self.statistics) += 1;
                    let binary = key.is_binary();
                    return Flow::Done(Outcome::Item(Item {
                        cas,
                        expires_s,
                        binary,
                        won: true,
                        ..Item::default()
                    }));
                }
                // It is told to fill the item all the same, and so is the next one.
                Err(Flow::Wait | Flow::Done(_) | Flow::Read { .. }) => {}
            }
        }
        self.statistics.gets += 1;
        *reason(&mut self.statistics) += 1;
        Flow::Done(Outcome::Miss)
    }

    /// An item is asked for: what the index says of it, and what changes in it.
    fn accessed(&mut self, get: Get, at: At) -> Item {
        let (time_s, tick) = (self.time_s, self.tick());
        let entry = self.index.get_mut(at);
        let left = entry.expires_s.saturating_sub(time_s);
        let soon = entry.expires_s != 0 && get.recache_s.is_some_and(|limit| left < limit);
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
            entry.expires_s = expires_s;
        }
        item.expires_s = entry.expires_s;
        let (slab, cas) = (entry.place().slab as usize, entry.cas);
        self.slabs[slab].hot += u32::from(first);
        self.slabs[slab].accessed = tick;
        if get.touch.is_some() {
            self.slabs[slab].lives_until(item.expires_s);
        }
        item.cas = self.version(cas);
        item
    }

    /// Fills in the fields that only the item itself has.
    pub(super) fn fill_item(&mut self, item: &mut Item, head: &Head, slot: &[u8], whole: bool) {
        (item.flags, item.size, item.binary) = (head.flags, head.value_bytes, head.binary);
        if whole {
            item.value = self.buffer();
            item.value.extend_from_slice(head.value(slot));
        }
    }

    /// Counts a hit.
    pub(super) fn hit(&mut self, slab: u32, in_memory: bool) {
        self.statistics.gets += 1;
        self.statistics.hits += 1;
        self.statistics.hits_in_memory += u64::from(in_memory);
        let class = usize::from(self.slabs[slab as usize].class);
        self.classes[class].statistics.hits += 1;
    }

    /// Counts an item as lost: it cannot be read, or something else lies there.
    pub(super) fn damaged(&mut self, hash: u64, place: Place, cas: u32) {
        if let Some(at) = self.index.find(hash) {
            let entry = self.index.get(at);
            if entry.place() == place && entry.cas == cas {
                self.statistics.lost += 1;
                self.remove(at);
            }
        }
    }

    pub(super) fn touch(&mut self, hash: u64, expires_s: u32) -> Outcome {
        let Some(at) = self.live(hash) else { return Outcome::NotFound };
        self.accessed(Get { touch: Some(expires_s), ..Get::default() }, at);
        self.statistics.touches += 1;
        Outcome::Touched
    }

    pub(super) fn delete(
        &mut self,
        key: &Key,
        hash: u64,
        cas: Option<u64>,
        invalidate: Option<Option<u32>>,
        emptied: Option<u32>,
    ) -> Flow {
        let Some(mut at) = self.live(hash) else { return Flow::Done(Outcome::NotFound) };
        let entry = *self.index.get(at);
        if cas.is_some_and(|wanted| wanted != self.version(entry.cas)) {
            return Flow::Done(Outcome::Exists);
        }
        if let Some(expires_s) = emptied {
            if let Err(flow) = self.put(key, hash, &[], 0, expires_s) {
                return flow;
            }
            // It may have expired already.
            match self.index.find(hash) {
                Some(new) => at = new,
                None => return Flow::Done(Outcome::Deleted),
            }
        }
        self.statistics.deletes += 1;
        match invalidate {
            None if emptied.is_some() => {}
            None => self.remove(at),
            Some(expiry) => {
                let entry = self.index.get_mut(at);
                entry.make_stale();
                if let Some(expires_s) = expiry {
                    entry.expires_s = expires_s;
                    let slab = entry.place().slab as usize;
                    self.slabs[slab].lives_until(expires_s);
                }
            }
        }
        Flow::Done(Outcome::Deleted)
    }

    pub(super) fn flush_all(&mut self, at_s: u32) -> Outcome {
        self.statistics.flushes += 1;
        if at_s > self.time_s {
            self.flush_at_s = at_s;
        } else {
            self.flush_at_s = 0;
            self.drop_all();
        }
        Outcome::Done
    }

    /// Every item is gone.
    pub(super) fn drop_all(&mut self) {
        self.index.clear();
        self.longest_bytes = 0;
        self.classes.iter_mut().for_each(|class| class.statistics.items = 0);
        for number in 0..self.slabs.len() as u32 {
            let slab = &mut self.slabs[number as usize];
            (slab.valid, slab.hot) = (0, 0);
            match slab.state {
                State::Open => slab.tops.clear(),
                State::Stored => self.leave(number),
                _ => {}
            }
        }
    }
}
