//! The cache against a plain map: random requests, many at a time, on flash that works, fails and loses power.
//!
//! At any moment a get answers the newest value of its key, or a miss. Requests to one key are executed in order, so the model knows the effect of
//! each at once, provided that the key is still there.

use crate::flash::{Faults, Flash, geometry};
use crate::trace::fold_debug;
use pellucid_flash::{Nanos, Rng, SimTime};
use pellucid_kv::{
    Answer, Ask, EngineKind, Get, Keep, Key, KvConfig, KvCosts, Mode, Outcome, OverProvisioning, Store,
    System, Victim, What, build,
};
use std::collections::BTreeMap;

/// A value that contains its key and number, so that foreign or old ones are detected.
fn value(key: u64, number: u64, bytes: usize) -> Vec<u8> {
    let mut value = format!("{key} {number} ").into_bytes();
    let mut rng = Rng::new(key << 32 | number);
    value.resize_with(bytes.max(value.len()), || rng.next_u64() as u8);
    value
}

/// Possible state of a key: absent, or this value.
#[derive(Clone, Debug, Default)]
struct Known {
    value: Option<Vec<u8>>,
    flags: u32,
    expires_s: u32,
    cas: u64,
}

pub struct Model {
    pub system: System<Flash>,
    rng: Rng,
    known: BTreeMap<u64, Known>,
    /// By tag: the key, the time and the request.
    asked: BTreeMap<u32, (u64, u32, What)>,
    tag: u32,
    time_s: u32,
    number: u64,
    keys: u64,
    value_max: u64,
    pub hits: u64,
    pub misses: u64,
    pub steps: u64,
}

pub fn config(engine: EngineKind, rng: &mut Rng) -> KvConfig {
    let victims = [Victim::Fifo, Victim::Lru, Victim::MostObsolete, Victim::TwoModes];
    let keeps = [Keep::Nothing, Keep::Hot, Keep::Valid];
    let dynamic = engine.owns_blocks() && rng.chance(0.5);
    KvConfig {
        slab_bytes: if engine.owns_blocks() { 0 } else { 16 << 10 },
        memory_bytes: (4 + rng.below(12)) * (16 << 10),
        item_max_bytes: 12 << 10,
        over_provisioning: if dynamic { OverProvisioning::Dynamic } else { OverProvisioning::Fixed(0.25) },
        victim: victims[rng.below(4) as usize],
        keep: keeps[rng.below(3) as usize],
        slot_min_bytes: 64,
        growth_factor: 1.3 + rng.unit_f64(),
        ..KvConfig::new(engine)
    }
}

/// Flash for an engine: about half a megabyte.
pub fn flash(engine: EngineKind, seed: u64) -> Flash {
    match engine {
        EngineKind::Original => Flash::blocks(2000, seed),
        // Slabs of one chunk, or of several.
        _ => Flash::chunks(geometry(2, 2, 20, if seed.is_multiple_of(2) { 32 } else { 16 }), seed),
    }
}

impl Model {
    pub fn new(flash: Flash, config: &KvConfig, seed: u64) -> Model {
        let mut rng = Rng::stream(seed, "model");
        Model {
            system: build(flash, config, SimTime::ZERO).unwrap_or_else(|why| panic!("seed {seed}: {why}")),
            known: BTreeMap::new(),
            asked: BTreeMap::new(),
            tag: 0,
            time_s: 100,
            number: 0,
            keys: 20 + rng.below(400),
            value_max: 1 + rng.below(4000),
            rng,
            hits: 0,
            misses: 0,
            steps: 0,
        }
    }

    fn what(&mut self, key: u64) -> What {
        self.number += 1;
        let known = self.known.entry(key).or_default().clone();
        let bytes = self.rng.below(self.value_max) as usize;
        let mut fresh = value(key, self.number, bytes);
        if self.rng.chance(0.1) {
            fresh = self.number.to_string().into_bytes();
        }
        let expires_s = if self.rng.chance(0.15) { self.time_s + 1 + self.rng.below(5) as u32 } else { 0 };
        let cas = self.rng.chance(0.1).then_some(if self.rng.chance(0.7) { known.cas } else { 1 });
        let store = |mode| {
            What::Store(Store { mode, flags: 7, expires_s, cas, value: fresh.clone(), ..Store::default() })
        };
        match self.rng.below(100) {
            0..45 => What::Get(Get {
                touch: self.rng.chance(0.1).then_some(expires_s),
                without_value: self.rng.chance(0.1),
                ..Get::default()
            }),
            45..80 => store(Mode::Set),
            80..83 => store(Mode::Add),
            83..85 => store(Mode::Replace),
            85..87 => store(Mode::Append),
            87..88 => store(Mode::Prepend),
            88..92 => What::Arithmetic {
                delta: self.rng.below(100),
                decrement: self.rng.chance(0.5),
                initial: self.rng.chance(0.5).then_some((5, expires_s)),
                touch: None,
                cas: None,
            },
            92..97 => What::Delete { cas, invalidate: None, emptied: None },
            97..98 => What::Touch { expires_s },
            _ if self.rng.chance(0.1) => What::FlushAll { at_s: 0 },
            _ => What::Get(Get::default()),
        }
    }

    /// Sends a random request. Keys with a request in flight get only gets, whose answer is known at once.
    pub fn ask(&mut self) {
        let key = self.rng.below(self.keys);
        if self.asked.values().any(|(other, ..)| *other == key) {
            return;
        }
        let what = self.what(key);
        if matches!(what, What::FlushAll { .. }) && !self.asked.is_empty() {
            return;
        }
        self.tag += 1;
        self.asked.insert(self.tag, (key, self.time_s, what.clone()));
        let name = Key::new(format!("key-{key:05}").as_bytes()).expect("a key");
        let now = self.system.now() + Nanos(self.rng.below(20_000));
        self.system.ask(now, Ask { tag: self.tag, time_s: self.time_s, key: name, what });
    }

    fn judge(&mut self, answer: Answer) {
        fold_debug(&answer);
        let (key, time_s, what) = self.asked.remove(&answer.tag).expect("it was asked, and not answered");
        let known = self.known.get_mut(&key).expect("it was asked");
        if known.expires_s != 0 && known.expires_s <= time_s {
            known.value = None;
        }
        match (what, answer.outcome) {
            (What::Get(get), Outcome::Item(item)) => {
                let wanted = known.value.as_ref().unwrap_or_else(|| panic!("key {key} is there again"));
                assert_eq!(item.size as usize, wanted.len(), "key {key}");
                assert!(get.without_value || item.value == *wanted, "key {key}: an old or foreign value");
                assert_eq!((item.flags, item.cas), (known.flags, known.cas), "key {key}");
                if let Some(expires_s) = get.touch {
                    known.expires_s = expires_s;
                }
                assert_eq!(item.expires_s, known.expires_s);
                self.hits += 1;
                self.system.kv_mut().give_back(item.value);
            }
            // An unreadable item may have been rewritten elsewhere, so it is not gone for good.
            (What::Get(_), Outcome::Miss) => self.misses += 1,
            (What::Touch { expires_s }, Outcome::Touched) => {
                assert!(known.value.is_some());
                known.expires_s = expires_s;
            }
            (What::Store(store), Outcome::Stored { cas }) => {
                assert!(cas > known.cas);
                assert!(
                    store.cas.is_none_or(|wanted| wanted == known.cas && known.value.is_some()),
                    "key {key}"
                );
                let (value, flags, expires_s) = match (store.mode, known.value.take()) {
                    (Mode::Append, Some(old)) => ([old, store.value].concat(), known.flags, known.expires_s),
                    (Mode::Prepend, Some(old)) => ([store.value, old].concat(), known.flags, known.expires_s),
                    (Mode::Append | Mode::Prepend | Mode::Replace, None) => {
                        panic!("key {key} is there again")
                    }
                    _ => (store.value, store.flags, store.expires_s),
                };
                *known = Known { value: Some(value), flags, expires_s, cas };
            }
            (What::Store(store), Outcome::NotStored) if store.mode == Mode::Add => {
                assert!(known.value.is_some())
            }
            (What::Store(store), Outcome::NotStored) => {
                assert!(store.mode != Mode::Set);
                known.value = None;
            }
            (What::Store(Store { cas, .. }) | What::Delete { cas, .. }, Outcome::Exists) => {
                assert!(known.value.is_some() && cas.is_some_and(|wanted| wanted != known.cas));
            }
            (What::Store(_) | What::Arithmetic { .. }, Outcome::Failed(_)) => known.value = None,
            (What::Store(store), Outcome::TooLarge) => {
                assert!(matches!(store.mode, Mode::Append | Mode::Prepend));
                known.value = None;
            }
            (What::Arithmetic { delta, decrement, initial, .. }, Outcome::Number { value, cas, .. }) => {
                let old = known
                    .value
                    .as_ref()
                    .and_then(|value| std::str::from_utf8(value).ok()?.parse::<u64>().ok());
                let next = old.map(|old| if decrement { old.saturating_sub(delta) } else { old + delta });
                match (next, initial) {
                    (Some(next), _) if next == value => {}
                    (_, Some((first, expires_s))) if first == value => {
                        (known.flags, known.expires_s) = (0, expires_s)
                    }
                    _ => panic!("key {key}: {old:?} became {value}"),
                }
                (known.value, known.cas) = (Some(value.to_string().into_bytes()), cas);
            }
            (What::Arithmetic { .. }, Outcome::NotNumber) => assert!(known.value.is_some()),
            (What::Delete { .. }, Outcome::Deleted) => {
                assert!(known.value.is_some(), "key {key} is there again");
                known.value = None;
            }
            (_, Outcome::NotFound) => known.value = None,
            (What::FlushAll { .. }, Outcome::Done) => {
                self.known.values_mut().for_each(|known| known.value = None)
            }
            (_, outcome) => panic!("key {key}: answered {outcome:?}"),
        }
    }

    /// Advances to the next event.
    pub fn step(&mut self) {
        self.steps += 1;
        for _ in 0..self.rng.below(4) {
            self.ask();
        }
        if self.rng.chance(0.02) {
            self.time_s += 1;
        }
        if let Some(next) = self.system.next_event() {
            self.system.advance(next);
        }
        self.take_answers();
    }

    fn take_answers(&mut self) {
        while let Some(answer) = self.system.answer() {
            self.judge(answer);
        }
    }

    /// Advances until nothing is in flight.
    pub fn settle(&mut self) {
        self.take_answers();
        for turn in 0.. {
            let Some(next) = self.system.next_event() else { break };
            assert!(turn < 100_000, "it never rests: {:?}", self.system.statistics());
            self.system.advance(next);
            self.take_answers();
        }
        let left: Vec<_> = self.asked.iter().map(|(tag, (key, ..))| (tag, key)).collect();
        assert!(left.is_empty(), "no answer came to (tag, key) {left:?}");
    }

    /// Reads every key.
    pub fn read_all(&mut self) -> u64 {
        let before = self.hits;
        for key in 0..self.keys {
            self.known.entry(key).or_default();
            self.tag += 1;
            let what = What::Get(Get::default());
            self.asked.insert(self.tag, (key, self.time_s, what.clone()));
            let name = Key::new(format!("key-{key:05}").as_bytes()).expect("a key");
            let now = self.system.now();
            self.system.ask(now, Ask { tag: self.tag, time_s: self.time_s, key: name, what });
            self.settle();
        }
        self.hits - before
    }

    /// Stops and restarts.
    pub fn restart(self, config: &KvConfig) -> Model {
        let Model { mut system, .. } = self;
        system.stop().unwrap_or_else(|why| panic!("{why}"));
        let now = system.now();
        let system = build(system.into_drive(), config, now).unwrap_or_else(|why| panic!("{why}"));
        Model { system, ..self }
    }

    /// Cuts the power; the results of requests in flight are unknown.
    pub fn cut(self, config: &KvConfig) -> Model {
        let Model { system, .. } = self;
        let now = system.now();
        let mut drive = system.into_drive();
        drive.power_cut();
        let system = build(drive, config, now).unwrap_or_else(|why| panic!("{why}"));
        // A restart takes at least a second.
        Model { system, asked: BTreeMap::new(), time_s: self.time_s + 1, ..self }
    }
}

pub const ENGINES: [EngineKind; 5] = EngineKind::ALL;

/// Set `KV_SEED` to run a single seed.
fn seeds(count: u64) -> std::ops::Range<u64> {
    match option_env!("KV_SEED").and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    }
}

/// Runs all seeds; a failure names its seed.
fn each_seed(count: u64, run: impl Fn(EngineKind, u64) + std::panic::RefUnwindSafe) {
    for seed in seeds(count) {
        for engine in ENGINES {
            let done = std::panic::catch_unwind(|| run(engine, seed));
            assert!(done.is_ok(), "engine {}, KV_SEED={seed}", engine.name());
        }
    }
}

pub fn work(engine: EngineKind, seed: u64, costs: KvCosts) -> Model {
    let config = KvConfig { costs, ..config(engine, &mut Rng::new(seed)) };
    let mut model = Model::new(flash(engine, seed), &config, seed);
    for _ in 0..3000 {
        model.step();
        model.system.kv().check();
    }
    model.settle();
    model.system.kv().check();
    assert!(model.hits > 100, "{} hits", model.hits);
    model
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn gets_answer_the_newest_value_or_miss() {
    each_seed(12, |engine, seed| _ = work(engine, seed, KvCosts::FREE));
}

pub fn failing_flash(engine: EngineKind, seed: u64) -> Model {
    let mut rng = Rng::stream(seed, "faults");
    let config = config(engine, &mut Rng::new(seed));
    let mut model = Model::new(flash(engine, seed), &config, seed);
    for step in 0..3000 {
        if step == 500 {
            model.system.act_on_drive(model.system.now(), |flash| {
                flash.faults = Faults {
                    program: 0.02 * rng.unit_f64(),
                    erase: 0.01 * rng.unit_f64(),
                    read: 0.05 * rng.unit_f64(),
                    corrupt: 0.05 * rng.unit_f64(),
                    ..Faults::default()
                };
            });
        }
        if step == 1500 && rng.chance(0.5) {
            model.system.act_on_drive(model.system.now(), |flash| flash.faults.dead_luns = [1].into());
        }
        if step == 2500 && rng.chance(0.3) {
            model.system.act_on_drive(model.system.now(), |flash| flash.faults.read_only = true);
        }
        model.step();
        model.system.kv().check();
    }
    model.settle();
    model
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn failing_flash_costs_items_and_never_gives_a_wrong_value() {
    each_seed(12, |engine, seed| _ = failing_flash(engine, seed));
}

pub fn restarts(engine: EngineKind, seed: u64) -> Model {
    let mut rng = Rng::stream(seed, "restarts");
    let config = KvConfig { warm_restart: true, ..config(engine, &mut Rng::new(seed)) };
    let mut model = Model::new(flash(engine, seed), &config, seed);
    let mut kept = 0;
    for _ in 0..12 {
        for _ in 0..rng.below(400) {
            model.step();
            model.system.kv().check();
        }
        if rng.chance(0.5) {
            model.settle();
            let before = model.system.statistics();
            model = model.restart(&config);
            let after = model.system.statistics();
            // The snapshot may need slabs.
            assert!(after.items <= before.items);
            kept += after.items;
        } else {
            model = model.cut(&config);
        }
        model.system.kv().check();
        model.read_all();
    }
    assert!(kept > 0);
    model
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_clean_stop_keeps_everything_and_a_crash_nothing_old() {
    each_seed(12, |engine, seed| _ = restarts(engine, seed));
}

/// A stop is interrupted after each of its media operations: the next start finds everything, or nothing.
#[test]
fn a_stop_that_is_cut_off_anywhere_leaves_nothing_old() {
    for engine in ENGINES {
        let config = KvConfig { warm_restart: true, ..config(engine, &mut Rng::new(3)) };
        let (mut warm, mut cold) = (0, 0);
        for cut in 0..400 {
            let mut model = Model::new(flash(engine, 3), &config, 3);
            for _ in 0..150 {
                model.step();
            }
            model.settle();
            let held = model.system.statistics().items;
            let now = model.system.now();
            model.system.act_on_drive(now, |flash| flash.cut_at = Some(flash.carried_out + cut));
            let stopped = model.system.stop().is_ok();
            let now = model.system.now();
            model.system.act_on_drive(now, |flash| flash.cut_at = None);
            model = model.cut(&config);
            let found = model.system.statistics().items;
            // The last write may be on flash although it was not completed.
            assert!(found <= held && (found > 0 || !stopped), "engine {}, cut {cut}: {found}", engine.name());
            model.system.kv().check();
            model.read_all();
            cold += u32::from(found == 0);
            warm += u32::from(found > 0);
            if stopped {
                break;
            }
        }
        assert!(warm > 0 && cold > 1, "engine {}: {cold} cold starts, {warm} warm", engine.name());
    }
}
