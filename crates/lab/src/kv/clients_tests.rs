use super::*;
use pellucid_kv::Item;
use pellucid_workload::kv::laws::{KeySize, Popularity, ValueSize};
use pellucid_workload::kv::{DatabaseConfig, Workload, WorkloadConfig};
use pellucid_workload::trace::kv::KvReader;
use std::collections::{BTreeMap, VecDeque};

const SERVICE: Nanos = Nanos(1000);

/// A cache in memory that keeps the first keys stored, up to its capacity, and serves one request after the other.
struct Plain {
    held: BTreeMap<Vec<u8>, Vec<u8>>,
    capacity: usize,
    now: SimTime,
    free: SimTime,
    answers: VecDeque<Answer>,
    /// True to return values of another key.
    wrong: bool,
    /// Number of requests that it still answers.
    patience: u64,
}

fn plain(capacity: usize) -> Plain {
    let (held, answers) = (BTreeMap::new(), VecDeque::new());
    let (now, free, wrong) = (SimTime::ZERO, SimTime::ZERO, false);
    Plain { held, capacity, now, free, answers, wrong, patience: u64::MAX }
}

impl Cache for Plain {
    fn buffer(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn give_back(&mut self, _: Vec<u8>) {}

    fn ask(&mut self, now: SimTime, ask: Ask) {
        let key = ask.key.as_bytes().to_vec();
        let outcome = match ask.what {
            What::Get(_) if self.wrong => Outcome::Item(Item { value: vec![1; 16], ..Item::default() }),
            What::Get(_) => match self.held.get(&key) {
                Some(value) => Outcome::Item(Item { value: value.clone(), ..Item::default() }),
                None => Outcome::Miss,
            },
            What::Store(store) => {
                if self.held.len() < self.capacity || self.held.contains_key(&key) {
                    self.held.insert(key, store.value);
                }
                Outcome::Stored { cas: 1 }
            }
            _ => Outcome::NotFound,
        };
        if self.patience > 0 {
            self.patience -= 1;
            self.free = self.free.max(now) + SERVICE;
            self.answers.push_back(Answer { tag: ask.tag, at: self.free, outcome });
        }
    }

    fn answer(&mut self) -> Option<Answer> {
        let due = self.answers.front().is_some_and(|answer| answer.at <= self.now);
        if due { self.answers.pop_front() } else { None }
    }

    fn advance(&mut self, now: SimTime) {
        self.now = now;
    }

    fn next_event(&self) -> Option<SimTime> {
        self.answers.front().map(|answer| answer.at)
    }
}

fn workload(set_share: f64) -> Workload {
    let config = WorkloadConfig {
        keys: 1000,
        popularity: Popularity::Uniform,
        key_size: KeySize::Etc,
        value_size: ValueSize::EtcTail { max: 4096 },
        set_share,
        seed: 1,
    };
    Workload::new(config).unwrap()
}

fn clients(count: u32, think: u64, on_miss: OnMiss) -> Clients {
    Clients::new(ClientsConfig { count, think: Nanos(think), on_miss, seed: 1 }, SimTime::ZERO)
}

/// One server of 1 us: a single client with 3 us of its own gets 1 / 4 us; sixteen get all of it, and wait 16 us less their own 3.
#[test]
fn throughput_and_latency_are_those_of_a_closed_queue() {
    for (count, interval_ns, latency_ns) in [(1, 4000.0, 1000.0), (4, 1000.0, 1000.0), (16, 1000.0, 13_000.0)]
    {
        let summary =
            clients(count, 3000, OnMiss::Nothing).run(&mut plain(1000), &mut workload(1.0), 20_000).unwrap();
        assert_eq!(summary.requests, 20_000);
        assert!((summary.requests_per_second * interval_ns / 1e9 - 1.0).abs() < 0.01, "{count}: {summary:?}");
        let mean = summary.operations.store.mean_ns.unwrap();
        assert!((mean / latency_ns - 1.0).abs() < 0.01, "{count}: {mean}");
    }
}

#[test]
fn a_miss_is_fetched_and_stored_once() {
    let database = DatabaseConfig { servers: 4, fixed: Nanos(50_000), variable: Nanos::ZERO };
    let mut cache = plain(1000);
    let mut clients = clients(1, 0, OnMiss::Query(database));
    let mut workload = workload(0.0);
    let summary = clients.run(&mut cache, &mut workload, 50_000).unwrap();
    let operations = &summary.operations;
    // Each of 1000 keys misses once: one client never asks twice at the same time.
    assert_eq!([operations.miss.count, operations.fill.count, operations.query.count], [1000; 3]);
    assert_eq!(operations.hit.count, 49_000);
    assert_eq!((summary.requests, summary.hit_ratio), (50_000, Some(0.98)));
    assert_eq!((summary.wrong_values, summary.failed), (0, 0));
    // A get, a query and a fill.
    assert_eq!(operations.request.max_ns, Some(52_000));
    // They continue where they stopped, without misses.
    let more = clients.run(&mut cache, &mut workload, 1000).unwrap();
    assert_eq!((more.requests, more.hit_ratio), (1000, Some(1.0)));
}

#[test]
fn half_of_the_keys_hit_where_half_fit() {
    let summary = clients(8, 0, OnMiss::Store).run(&mut plain(500), &mut workload(0.0), 50_000).unwrap();
    // 500 keys come in first and stay. Four standard errors: 0.009, and a warm-up of about 700 requests.
    assert!((summary.hit_ratio.unwrap() - 0.5).abs() < 0.02, "{summary:?}");
    assert!(
        summary.operations.fill.count > 0 && summary.operations.query.count == 0,
        "there is no database: {summary:?}"
    );
    assert_eq!(
        clients(8, 0, OnMiss::Nothing).run(&mut plain(500), &mut workload(0.0), 100).unwrap().hit_ratio,
        Some(0.0)
    );
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let variable = DatabaseConfig { servers: 2, fixed: Nanos(10), variable: Nanos(5_000) };
    let run = |seed| {
        let config = ClientsConfig { count: 7, think: Nanos(10), on_miss: OnMiss::Query(variable), seed };
        Clients::new(config, SimTime::ZERO).run(&mut plain(300), &mut workload(0.1), 20_000).unwrap()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// CacheLib's count: one set, and eight gets, of which one misses, however many clients ask.
#[test]
fn requests_of_a_trace_to_one_key_follow_one_another() {
    const TRACE: &str =
        "key,op,size,op_count,key_size\n1,SET,82,1,40\n1,GET,0,3,40\n2,GET,104,1,64\n2,GET,104,4,64\n";
    for count in [1, 2, 16] {
        for limit in [9, 100] {
            let mut trace = KvReader::from_read("t", TRACE.as_bytes(), None).unwrap();
            let summary = clients(count, 10, OnMiss::Store).run(&mut plain(10), &mut trace, limit).unwrap();
            let operations = &summary.operations;
            assert_eq!(
                (summary.requests, operations.hit.count, operations.miss.count),
                (9, 7, 1),
                "{count} clients"
            );
            assert_eq!((operations.store.count, operations.fill.count), (1, 1));
        }
    }
    // Ended within the requests of one line, and continued.
    let mut trace = KvReader::from_read("t", TRACE.as_bytes(), None).unwrap();
    let (mut clients, mut cache) = (clients(16, 10, OnMiss::Store), plain(10));
    let hits: Vec<u64> =
        (0..3).map(|_| clients.run(&mut cache, &mut trace, 3).unwrap().operations.hit.count).collect();
    assert_eq!(hits.iter().sum::<u64>(), 7, "{hits:?}");
}

#[test]
fn a_wrong_value_and_a_silent_cache_are_found() {
    let mut wrong = Plain { wrong: true, ..plain(10) };
    let summary = clients(2, 0, OnMiss::Nothing).run(&mut wrong, &mut workload(0.0), 100).unwrap();
    assert_eq!(summary.wrong_values, 100);
    let mut silent = Plain { patience: 50, ..plain(10) };
    let error = clients(2, 0, OnMiss::Nothing).run(&mut silent, &mut workload(0.0), 100);
    assert!(matches!(error, Err(KvRunError::Stuck)), "{error:?}");
}

#[test]
fn values_follow_from_their_keys() {
    let mut value = Vec::new();
    for bytes in [0, 1, 7, 8, 9, 1000] {
        pattern(&mut value, b"a key", bytes);
        assert_eq!(value.len(), bytes as usize);
        assert!(is_of(&value, b"a key"));
        assert_eq!(is_of(&value, b"b key"), bytes == 0);
    }
}
