//! A cache in memory, which models the requests without flash. Requests take effect when submitted and are
//! answered after a random time, so answers arrive in any order.

use pellucid_flash::{Rng, SimTime};
use pellucid_kv::{Answer, Ask, Get, Item, Key, KvStatistics, Mode, Outcome, Store, What};
use pellucid_serve::kv::Cache;
use pellucid_serve::{Answered, Backend};
use std::collections::BTreeMap;

#[derive(Clone, Default)]
struct Entry {
    item: Item,
    used_s: u32,
    stored_s: u32,
    /// A client was told to refill the entry.
    token: bool,
}

pub struct MapCache {
    now: SimTime,
    rng: Rng,
    /// Maximum delay of an answer.
    delay_max: u64,
    entries: BTreeMap<Vec<u8>, Entry>,
    version: u64,
    /// Time of a scheduled flush.
    flush_s: u32,
    waiting: BTreeMap<(SimTime, u64), Answer>,
    serial: u64,
    ready: std::collections::VecDeque<Answer>,
    statistics: KvStatistics,
    buffers: i64,
}

impl MapCache {
    pub fn new(seed: u64, delay_max: u64) -> MapCache {
        MapCache {
            now: SimTime::ZERO,
            rng: Rng::new(seed),
            delay_max,
            entries: BTreeMap::new(),
            version: 0,
            flush_s: 0,
            waiting: BTreeMap::new(),
            serial: 0,
            ready: std::collections::VecDeque::new(),
            statistics: KvStatistics::default(),
            buffers: 0,
        }
    }

    /// Number of buffers handed out and not returned.
    pub fn buffers_out(&self) -> i64 {
        self.buffers
    }

    fn live(&mut self, key: &[u8], now_s: u32) -> Option<&mut Entry> {
        let entry = self.entries.get(key)?;
        let gone = entry.item.expires_s != 0 && entry.item.expires_s <= now_s;
        let flushed = self.flush_s != 0 && self.flush_s <= now_s && entry.stored_s < self.flush_s;
        if gone || flushed {
            self.entries.remove(key);
        }
        self.entries.get_mut(key)
    }

    fn act(&mut self, ask: Ask) -> Outcome {
        let (now_s, key) = (ask.time_s, ask.key.as_bytes().to_vec());
        self.version += 1;
        let version = self.version;
        match ask.what {
            What::FlushAll { at_s: 0 } => {
                self.entries.clear();
                Outcome::Done
            }
            What::FlushAll { at_s } => {
                self.flush_s = at_s;
                Outcome::Done
            }
            What::Get(get) => self.get(&key, get, now_s),
            What::Touch { expires_s } => match self.live(&key, now_s) {
                Some(entry) => {
                    entry.item.expires_s = expires_s;
                    Outcome::Touched
                }
                None => Outcome::NotFound,
            },
            What::Delete { cas, invalidate, emptied } => match self.live(&key, now_s) {
                None => Outcome::NotFound,
                Some(entry) if cas.is_some_and(|cas| cas != entry.item.cas) => Outcome::Exists,
                Some(entry) => {
                    if let Some(expires_s) = emptied {
                        let binary = ask.key.is_binary();
                        entry.item = Item { cas: version, expires_s, binary, ..Item::default() };
                    }
                    match invalidate {
                        Some(expiry) => {
                            (entry.item.stale, entry.token, entry.item.cas) = (true, false, version);
                            entry.item.expires_s = expiry.unwrap_or(entry.item.expires_s);
                        }
                        None if emptied.is_some() => {}
                        None => drop(self.entries.remove(&key)),
                    }
                    Outcome::Deleted
                }
            },
            What::Arithmetic { delta, decrement, initial, touch, cas } => {
                let Some(entry) = self.live(&key, now_s) else {
                    let Some((value, expires_s)) = initial else { return Outcome::NotFound };
                    let item = Item {
                        value: value.to_string().into_bytes(),
                        cas: version,
                        expires_s,
                        ..Item::default()
                    };
                    self.entries.insert(key, Entry { item, used_s: now_s, stored_s: now_s, token: false });
                    return Outcome::Number { value, cas: version, expires_s, created: true };
                };
                if cas.is_some_and(|cas| cas != entry.item.cas) {
                    return Outcome::Exists;
                }
                let text = std::str::from_utf8(&entry.item.value).unwrap_or("x").trim();
                let Ok(value) = text.parse::<u64>() else { return Outcome::NotNumber };
                let value = if decrement { value.saturating_sub(delta) } else { value.wrapping_add(delta) };
                entry.item.value = value.to_string().into_bytes();
                entry.item.cas = version;
                entry.item.expires_s = touch.unwrap_or(entry.item.expires_s);
                let expires_s = entry.item.expires_s;
                Outcome::Number { value, cas: version, expires_s, created: false }
            }
            What::Store(store) => self.store(key, store, now_s),
        }
    }

    fn get(&mut self, key: &[u8], get: Get, now_s: u32) -> Outcome {
        let version = self.version;
        let Some(entry) = self.live(key, now_s) else {
            let Some(expires_s) = get.vivify else { return Outcome::Miss };
            let item = Item { cas: version, expires_s, ..Item::default() };
            let entry = Entry { item: item.clone(), used_s: now_s, stored_s: now_s, token: true };
            self.entries.insert(key.to_vec(), entry);
            return Outcome::Item(Item { won: true, ..item });
        };
        if let Some(expires_s) = get.touch {
            entry.item.expires_s = expires_s;
        }
        let mut item = entry.item.clone();
        item.size = item.value.len() as u32;
        // Requests of different connections may not arrive in the order of their times.
        item.idle_s = now_s.saturating_sub(entry.used_s);
        item.taken = entry.token;
        let left = item.expires_s.saturating_sub(now_s);
        let recache = item.expires_s != 0 && get.recache_s.is_some_and(|seconds| left < seconds);
        if !entry.token && (item.stale || recache) {
            (entry.token, item.won) = (true, true);
        }
        (entry.item.fetched, entry.used_s) = (true, now_s);
        if get.without_value {
            item.value = Vec::new();
        }
        Outcome::Item(item)
    }

    fn store(&mut self, key: Vec<u8>, store: Store, now_s: u32) -> Outcome {
        self.buffers -= 1;
        let version = self.version;
        let Store { mode, flags, expires_s, cas, invalidate, vivify, value } = store;
        let mut item = Item { flags, cas: version, expires_s, value, ..Item::default() };
        match (self.live(&key, now_s), mode) {
            (None, _) if cas.is_some() => return Outcome::NotFound,
            (Some(old), _) if cas.is_some_and(|cas| cas != old.item.cas) => {
                let older = cas.is_some_and(|cas| cas < old.item.cas);
                if !(invalidate && older) {
                    return Outcome::Exists;
                }
                item.stale = true;
            }
            (Some(_), Mode::Add) | (None, Mode::Replace) => return Outcome::NotStored,
            (None, Mode::Append | Mode::Prepend) => match vivify {
                Some(expiry) => item.expires_s = expiry,
                None => return Outcome::NotStored,
            },
            (Some(old), Mode::Append | Mode::Prepend) => {
                let (first, second) = match mode {
                    Mode::Append => (&old.item.value, &item.value),
                    _ => (&item.value, &old.item.value),
                };
                let value = [&first[..], &second[..]].concat();
                item = Item { cas: version, value, ..old.item.clone() };
            }
            _ => {}
        }
        self.entries.insert(key, Entry { item, used_s: now_s, stored_s: now_s, token: false });
        Outcome::Stored { cas: version }
    }
}

impl Backend for MapCache {
    type Ask = Ask;
    type Answer = Answer;

    fn now(&self) -> SimTime {
        self.now
    }

    fn submit(&mut self, at: SimTime, tag: u32, ask: Ask) {
        assert!(at >= self.now, "time never runs backwards");
        self.now = at;
        let at = SimTime(at.0 + self.rng.below(self.delay_max + 1));
        let outcome = self.act(ask);
        self.buffers += i64::from(matches!(outcome, Outcome::Item(_)));
        self.serial += 1;
        self.waiting.insert((at, self.serial), Answer { tag, at, outcome });
    }

    fn next_event(&self) -> Option<SimTime> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    fn advance(&mut self, now: SimTime) {
        self.now = self.now.max(now);
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            self.ready.push_back(first.remove());
        }
    }

    fn outstanding(&self) -> usize {
        self.waiting.len()
    }

    fn completed(&self) -> usize {
        self.ready.len()
    }

    fn pop(&mut self) -> Option<Answered<Answer>> {
        let answer = self.ready.pop_front()?;
        Some(Answered { tag: answer.tag, at: answer.at, answer })
    }
}

impl Cache for MapCache {
    fn buffer(&mut self) -> Vec<u8> {
        self.buffers += 1;
        Vec::new()
    }

    fn give_back(&mut self, _: Vec<u8>) {
        self.buffers -= 1;
    }

    fn value_bytes_max(&self, key: &Key) -> usize {
        self.entries.get(key.as_bytes()).map_or(0, |entry| entry.item.value.len())
    }

    fn statistics(&self) -> KvStatistics {
        KvStatistics { items: self.entries.len() as u64, ..self.statistics.clone() }
    }
}
