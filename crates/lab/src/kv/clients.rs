//! Clients of a cache: a closed loop in virtual time.
//!
//! ```text
//!  client   ─ think ─► request ─► answer ────────────────────────────────► think ...
//!                          get misses └► database query ─► fill (a set) ─┘
//! ```
//! Each client has one request at a time, in the order in which the requests come. After a miss, the client stores the database's answer before it
//! continues, as in a look-aside cache. Requests of a trace for the same key are sequential: a client whose key is in use by another client waits for
//! it, as in a replayer that gives each key to one thread.
//!
//! Order at the same time: the cache's events run before those of clients; clients act in the order in which they became ready. The outcome is a
//! function of requests, configuration and the cache.
//!
//! A value is a pattern that follows from its key, so a hit with a wrong value is found without storing values.

use super::database::Database;
use super::report::{Kind, KvSummary, Meter};
use pellucid_flash::{Drive, Nanos, SimTime};
use pellucid_kv::{Answer, Ask, Get, Key, Mode, Outcome, Store, System, What};
use pellucid_workload::kv::{OnMiss, Requests};
use pellucid_workload::trace::TraceError;
use pellucid_workload::trace::kv::{KvRecord, Operation};
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// A cache, as clients see it.
pub trait Cache {
    /// Returns an empty buffer for a value.
    fn buffer(&mut self) -> Vec<u8>;
    /// Takes a buffer back.
    fn give_back(&mut self, value: Vec<u8>);
    /// Submits a request at `now`.
    fn ask(&mut self, now: SimTime, ask: Ask);
    /// Returns the next answer.
    fn answer(&mut self) -> Option<Answer>;
    /// Runs everything due by `now`.
    fn advance(&mut self, now: SimTime);
    /// Returns when something happens next by itself.
    fn next_event(&self) -> Option<SimTime>;
}

impl<D: Drive> Cache for System<D> {
    fn buffer(&mut self) -> Vec<u8> {
        self.kv_mut().buffer()
    }

    fn give_back(&mut self, value: Vec<u8>) {
        self.kv_mut().give_back(value);
    }

    fn ask(&mut self, now: SimTime, ask: Ask) {
        System::ask(self, now, ask);
    }

    fn answer(&mut self) -> Option<Answer> {
        System::answer(self)
    }

    fn advance(&mut self, now: SimTime) {
        System::advance(self, now);
    }

    fn next_event(&self) -> Option<SimTime> {
        System::next_event(self)
    }
}

/// Configuration of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientsConfig {
    /// Number of clients, at least 1.
    pub count: u32,
    /// Time between an answer and the next request: the client's work and the network, both ways.
    pub think: Nanos,
    /// Reaction to a miss.
    pub on_miss: OnMiss,
    /// Seed of the database.
    pub seed: u64,
}

/// Why clients stopped.
#[derive(Debug, thiserror::Error)]
pub enum KvRunError {
    /// The requests could not be read to the end.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The cache does not answer, and nothing more will happen.
    #[error("the cache does not answer")]
    Stuck,
}

/// Event that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Its turn to ask.
    Turn,
    /// Another client that uses its key.
    Key,
    /// The answer to its request.
    Answer,
    /// The database.
    Query,
    /// The answer to the set after a database query.
    Fill,
}

#[derive(Clone, Debug)]
struct Client {
    waits: Waits,
    record: KvRecord,
    /// How often it still repeats its record.
    left: u64,
    /// Since when it waits, and when its request began.
    since: SimTime,
    began: SimTime,
}

/// Active clients; the next run continues where they stopped.
#[derive(Clone, Debug)]
pub struct Clients {
    config: ClientsConfig,
    database: Option<Database>,
    clients: Vec<Client>,
    /// Spontaneous actions of clients: time, order, client.
    due: BinaryHeap<Reverse<(SimTime, u64, u32)>>,
    made: u64,
    now: SimTime,
    /// If requests are ordered by key: hashes of the keys in use by clients, and the clients waiting for each, in order.
    keys: BTreeMap<[u8; 8], VecDeque<u32>>,
    /// True if values were changed in place, so that they are no longer patterns.
    edited: bool,
}

impl Clients {
    /// Makes clients that begin at `now`.
    pub fn new(config: ClientsConfig, now: SimTime) -> Clients {
        let client =
            Client { waits: Waits::Turn, record: KvRecord::default(), left: 0, since: now, began: now };
        let database = match config.on_miss {
            OnMiss::Query(database) => Some(Database::new(database, config.seed)),
            OnMiss::Nothing | OnMiss::Store => None,
        };
        let clients = vec![client; config.count.max(1) as usize];
        let (due, keys) = (BinaryHeap::new(), BTreeMap::new());
        Clients { config, database, clients, due, made: 0, now, keys, edited: false }
    }

    /// Runs this many requests, or all there are, to their answers.
    ///
    /// # Errors
    /// The requests cannot be read; or the cache owes an answer and has nothing to do.
    pub fn run(
        &mut self,
        cache: &mut impl Cache,
        requests: &mut impl Requests,
        count: u64,
    ) -> Result<KvSummary, KvRunError> {
        let mut meter = Meter::new(self.now);
        let mut left = count;
        for client in 0..self.clients.len() as u32 {
            self.wake(client, self.now);
        }
        let mut working = 0;
        loop {
            // Several answers may come at one time.
            while let Some(answer) = cache.answer() {
                self.answered(cache, answer, &mut meter);
                working -= 1;
            }
            let own = self.due.peek().map(|Reverse((at, ..))| *at);
            let next = match (own, cache.next_event()) {
                (Some(own), Some(cache)) => own.min(cache),
                (own, cache) => match own.or(cache) {
                    Some(next) => next,
                    None if working > 0 => return Err(KvRunError::Stuck),
                    None => break,
                },
            };
            if own.is_none() && working == 0 {
                // Background work of the cache is no request.
                break;
            }
            self.now = self.now.max(next);
            cache.advance(self.now);
            if cache_has_priority(own, self.now) {
                continue;
            }
            if let Some(Reverse((_, _, client))) = self.due.pop() {
                let asks = self.is_ready(requests, client, &mut left, &mut meter)?;
                if asks {
                    self.act(cache, client);
                }
                working += u32::from(asks);
            }
        }
        Ok(meter.summary(self.now))
    }

    /// Returns the simulated time.
    pub fn now(&self) -> SimTime {
        self.now
    }

    fn wake(&mut self, client: u32, at: SimTime) {
        self.made += 1;
        self.due.push(Reverse((at, self.made, client)));
    }

    /// Returns true if a client that is due has something to ask, and takes its next request.
    fn is_ready(
        &mut self,
        requests: &mut impl Requests,
        at: u32,
        left: &mut u64,
        meter: &mut Meter,
    ) -> Result<bool, KvRunError> {
        let now = self.now;
        let client = &mut self.clients[at as usize];
        match client.waits {
            Waits::Turn if *left == 0 => return Ok(false),
            Waits::Turn => {
                if client.left == 0 {
                    client.left = requests.next_into(&mut client.record)?;
                    if client.left == 0 {
                        return Ok(false);
                    }
                    if requests.are_ordered_by_key() && !self.takes_key(at) {
                        return Ok(false);
                    }
                }
                let client = &mut self.clients[at as usize];
                (client.left, *left) = (client.left - 1, *left - 1);
                client.began = now;
                client.waits = Waits::Answer;
            }
            // The client that uses the key wakes it.
            Waits::Key => return Ok(false),
            Waits::Query => {
                // Without a database the value is available at once.
                if self.database.is_some() {
                    meter.record(Kind::Query, client.since, now);
                }
                client.waits = Waits::Fill;
            }
            Waits::Answer | Waits::Fill => unreachable!("a client that waits for the cache is not due"),
        }
        Ok(true)
    }

    /// Takes the key of a client's record; returns `false` if the client waits because another uses it.
    fn takes_key(&mut self, at: u32) -> bool {
        let client = &mut self.clients[at as usize];
        match self.keys.entry(word(&client.record.key)) {
            Entry::Vacant(key) => {
                key.insert(VecDeque::new());
                true
            }
            Entry::Occupied(mut key) => {
                key.get_mut().push_back(at);
                client.waits = Waits::Key;
                false
            }
        }
    }

    /// Handles a client that has ended all requests of its record: the next client that waits for its key continues.
    fn leaves_key(&mut self, at: u32) {
        if let Entry::Occupied(mut key) = self.keys.entry(word(&self.clients[at as usize].record.key)) {
            match key.get_mut().pop_front() {
                Some(next) => {
                    self.clients[next as usize].waits = Waits::Turn;
                    self.wake(next, self.now);
                }
                None => drop(key.remove()),
            }
        }
    }

    /// Sends a client's request to the cache.
    fn act(&mut self, cache: &mut impl Cache, at: u32) {
        let now = self.now;
        let client = &mut self.clients[at as usize];
        client.since = now;
        self.edited |= !matches!(
            client.record.operation,
            Operation::Get | Operation::Set | Operation::Add | Operation::Replace | Operation::Delete
        );
        let fill = client.waits == Waits::Fill;
        let operation = if fill { Operation::Set } else { client.record.operation };
        let value = if stores(operation) { cache.buffer() } else { Vec::new() };
        let ask = ask(operation, value, at, &client.record, now);
        cache.ask(now, ask);
    }

    fn answered(&mut self, cache: &mut impl Cache, answer: Answer, meter: &mut Meter) {
        let at = answer.tag;
        // The answer's time is the cache's; the client gets it no earlier than now.
        let now = self.now.max(answer.at);
        let client = &mut self.clients[at as usize];
        let (record, since) = (&client.record, client.since);
        let kind = match (&answer.outcome, client.waits, record.operation) {
            (_, Waits::Fill, _) => Kind::Fill,
            (Outcome::Item(_), ..) => Kind::Hit,
            (Outcome::Miss, ..) => Kind::Miss,
            (_, _, Operation::Delete | Operation::Increment | Operation::Decrement) => Kind::Other,
            _ => Kind::Store,
        };
        meter.record(kind, since, now);
        match answer.outcome {
            Outcome::Item(item) => {
                meter.wrong_values += u64::from(!self.edited && !is_of(&item.value, &record.key));
                cache.give_back(item.value);
            }
            Outcome::Failed(_) | Outcome::TooLarge => meter.failed += 1,
            _ => {}
        }
        let known = record.value_bytes > 0;
        match (kind, self.config.on_miss) {
            (Kind::Miss, OnMiss::Store) if known => {
                (client.waits, client.since) = (Waits::Query, now);
                self.wake(at, now);
            }
            (Kind::Miss, OnMiss::Query(_)) => {
                (client.waits, client.since) = (Waits::Query, now);
                let end = self.database.as_mut().map_or(now, |database| database.query(now));
                self.wake(at, end);
            }
            _ => {
                meter.record(Kind::Request, client.began, now);
                client.waits = Waits::Turn;
                let ended = client.left == 0;
                self.wake(at, now + self.config.think);
                if ended && !self.keys.is_empty() {
                    self.leaves_key(at);
                }
            }
        }
    }
}

/// Returns `true` if no event of the clients is due before the cache's.
fn cache_has_priority(own: Option<SimTime>, now: SimTime) -> bool {
    own.is_none_or(|own| own > now)
}

/// Returns whether a request has a value.
fn stores(operation: Operation) -> bool {
    use Operation::{Add, Append, Prepend, Replace, Set};
    matches!(operation, Set | Add | Replace | Append | Prepend)
}

/// Makes a request for the key of a record: the record's operation, or the set that follows its miss. `value` is empty.
fn ask(operation: Operation, mut value: Vec<u8>, tag: u32, record: &KvRecord, now: SimTime) -> Ask {
    // Generated requests have no time of their own. Second 0 is reserved.
    let time_s = record.at_s.max((now.0 / 1_000_000_000) as u32).saturating_add(1);
    let key = Key::new(&record.key).unwrap_or_default();
    let expires_s = if record.ttl_s == 0 { 0 } else { time_s.saturating_add(record.ttl_s) };
    let mut store = |mode| {
        pattern(&mut value, &record.key, record.value_bytes);
        let value = std::mem::take(&mut value);
        What::Store(Store { mode, expires_s, value, ..Store::default() })
    };
    let count = |decrement| What::Arithmetic { delta: 1, decrement, initial: None, touch: None, cas: None };
    let what = match operation {
        Operation::Get => What::Get(Get::default()),
        Operation::Set => store(Mode::Set),
        Operation::Add => store(Mode::Add),
        Operation::Replace => store(Mode::Replace),
        Operation::Append => store(Mode::Append),
        Operation::Prepend => store(Mode::Prepend),
        Operation::Delete => What::Delete { cas: None, invalidate: None, emptied: None },
        Operation::Increment => count(false),
        Operation::Decrement => count(true),
    };
    Ask { tag, time_s, key, what }
}

fn word(key: &[u8]) -> [u8; 8] {
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.to_le_bytes()
}

/// Fills in the value of a key: its hash, repeated.
fn pattern(value: &mut Vec<u8>, key: &[u8], bytes: u32) {
    let word = word(key);
    value.clear();
    let bytes = bytes as usize;
    value.extend(std::iter::repeat_n(word, bytes.div_ceil(word.len())).flatten());
    value.truncate(bytes);
}

fn is_of(value: &[u8], key: &[u8]) -> bool {
    let word = word(key);
    value.chunks(word.len()).all(|part| part == &word[..part.len()])
}

#[cfg(test)]
#[path = "clients_tests.rs"]
mod tests;
