//! Single requests, in memory and on flash.

use crate::flash::{Faults, Flash};
use pellucid_flash::{Nanos, Rng, SimTime};
use pellucid_kv::{
    Ask, EngineKind, Get, Item, Key, KvConfig, Mode, Outcome, OverProvisioning, Store, System, What, build,
};
use std::ops::Range;

struct Cache {
    system: System<Flash>,
    time_s: u32,
}

impl Cache {
    fn new(engine: EngineKind) -> Cache {
        let config = KvConfig {
            slab_bytes: if engine.owns_blocks() { 0 } else { 16 << 10 },
            memory_bytes: 0,
            item_max_bytes: 8 << 10,
            ..KvConfig::new(engine)
        };
        let system = build(crate::model::flash(engine, 2), &config, SimTime::ZERO).expect("a cache");
        Cache { system, time_s: 1000 }
    }

    fn ask(&mut self, name: &str, what: What) -> Outcome {
        let outcome = self.ask_quickly(name, what);
        self.system.kv().check();
        outcome
    }

    /// Like [`Cache::ask`], without checking invariants.
    fn ask_quickly(&mut self, name: &str, what: What) -> Outcome {
        let key = Key::new(name.as_bytes()).expect("a key");
        self.system.ask(self.system.now(), Ask { tag: 7, time_s: self.time_s, key, what });
        loop {
            if let Some(answer) = self.system.answer() {
                assert_eq!(answer.tag, 7);
                return answer.outcome;
            }
            let next = self.system.next_event().expect("something goes on");
            self.system.advance(next);
        }
    }

    fn store(&mut self, name: &str, mode: Mode, value: &str) -> Outcome {
        self.ask(name, What::Store(Store { mode, value: value.into(), flags: 3, ..Store::default() }))
    }

    fn set_until(&mut self, name: &str, expires_s: u32) {
        let store = Store { expires_s, value: b"v".to_vec(), ..Store::default() };
        assert!(matches!(self.ask(name, What::Store(store)), Outcome::Stored { .. }));
    }

    fn get(&mut self, name: &str) -> Option<Item> {
        self.get_by(name, Get::default())
    }

    fn get_by(&mut self, name: &str, get: Get) -> Option<Item> {
        match self.ask(name, What::Get(get)) {
            Outcome::Item(item) => Some(item),
            Outcome::Miss => None,
            other => panic!("{other:?}"),
        }
    }

    fn value(&mut self, name: &str) -> Option<String> {
        self.get(name).map(|item| String::from_utf8(item.value).expect("text"))
    }

    /// Stores enough to push earlier items to flash.
    fn push_out(&mut self) {
        let before = self.system.statistics().slabs_written;
        let mut number = 0;
        while self.system.statistics().slabs_written < before + 3 {
            self.store(&format!("filler-{number}"), Mode::Set, &"f".repeat(40 + number % 60));
            number += 1;
        }
    }
}

/// Runs once with everything in memory, and once with the stored items on flash.
fn both(run: impl Fn(&mut Cache, &dyn Fn(&mut Cache))) {
    for engine in EngineKind::ALL {
        run(&mut Cache::new(engine), &|_| {});
        run(&mut Cache::new(engine), &Cache::push_out);
    }
}

fn stored(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Stored { cas } => *cas,
        other => panic!("{other:?}"),
    }
}

#[test]
fn stores_have_their_conditions() {
    both(|cache, away| {
        assert_eq!(cache.store("a", Mode::Replace, "x"), Outcome::NotStored);
        assert_eq!(cache.store("a", Mode::Append, "x"), Outcome::NotStored);
        let first = stored(&cache.store("a", Mode::Add, "one"));
        away(cache);
        assert_eq!(cache.store("a", Mode::Add, "two"), Outcome::NotStored);
        let item = cache.get("a").expect("there");
        assert_eq!((item.cas, item.flags, &item.value[..]), (first, 3, &b"one"[..]));
        let second = stored(&cache.store("a", Mode::Append, " more"));
        away(cache);
        stored(&cache.store("a", Mode::Prepend, "once "));
        assert_eq!(cache.value("a").as_deref(), Some("once one more"));
        let cas = |cas| What::Store(Store { cas: Some(cas), value: b"new".to_vec(), ..Store::default() });
        assert_eq!(cache.ask("a", cas(second)), Outcome::Exists);
        assert_eq!(cache.ask("b", cas(second)), Outcome::NotFound);
        let now = cache.get("a").expect("there").cas;
        away(cache);
        stored(&cache.ask("a", cas(now)));
        assert_eq!(cache.value("a").as_deref(), Some("new"));
        assert_eq!(
            cache.ask("a", What::Delete { cas: Some(now), invalidate: None, emptied: None }),
            Outcome::Exists
        );
        assert_eq!(
            cache.ask("a", What::Delete { cas: None, invalidate: None, emptied: None }),
            Outcome::Deleted
        );
        assert_eq!(
            cache.ask("a", What::Delete { cas: None, invalidate: None, emptied: None }),
            Outcome::NotFound
        );
        assert_eq!(cache.value("a"), None);
    });
}

#[test]
fn numbers_count_up_and_down() {
    both(|cache, away| {
        let by =
            |delta, decrement| What::Arithmetic { delta, decrement, initial: None, touch: None, cas: None };
        assert_eq!(cache.ask("n", by(1, false)), Outcome::NotFound);
        cache.store("n", Mode::Set, "18446744073709551615");
        away(cache);
        for (delta, decrement, expected) in [(2, false, 1), (9, false, 10), (3, true, 7), (99, true, 0)] {
            let Outcome::Number { value, .. } = cache.ask("n", by(delta, decrement)) else {
                panic!("a number")
            };
            assert_eq!(value, expected);
            away(cache);
        }
        assert_eq!(cache.value("n").as_deref(), Some("0"));
        cache.store("n", Mode::Set, "none");
        away(cache);
        assert_eq!(cache.ask("n", by(1, false)), Outcome::NotNumber);
    });
}

#[test]
fn items_expire_and_are_touched_and_flushed() {
    both(|cache, away| {
        cache.set_until("short", 1010);
        cache.set_until("long", 1010);
        cache.set_until("past", 1000);
        away(cache);
        assert_eq!(cache.ask("long", What::Touch { expires_s: 1100 }), Outcome::Touched);
        assert_eq!(cache.ask("none", What::Touch { expires_s: 1100 }), Outcome::NotFound);
        assert!(cache.get("past").is_none(), "an expiry in the past is at once");
        assert!(cache.get("short").is_some());
        cache.time_s = 1010;
        assert!(cache.get("short").is_none());
        assert_eq!(cache.get("long").expect("touched").expires_s, 1100);
        assert_eq!(cache.ask("x", What::FlushAll { at_s: 1020 }), Outcome::Done);
        cache.set_until("between", 0);
        assert!(cache.get("long").is_some());
        cache.time_s = 1020;
        assert!(cache.get("long").is_none() && cache.get("between").is_none());
        cache.set_until("after", 0);
        assert!(cache.get("after").is_some());
        assert_eq!(cache.ask("x", What::FlushAll { at_s: 0 }), Outcome::Done);
        assert!(cache.get("after").is_none());
    });
}

#[test]
fn one_caller_is_told_to_fill_an_item_anew() {
    both(|cache, away| {
        let vivify = Get { vivify: Some(1030), ..Get::default() };
        let item = cache.get_by("v", vivify).expect("made");
        assert!(item.won && item.value.is_empty());
        away(cache);
        let item = cache.get_by("v", vivify).expect("there");
        assert!(!item.won && item.taken);
        cache.set_until("r", 1020);
        away(cache);
        let soon = Get { recache_s: Some(30), ..Get::default() };
        assert!(cache.get_by("r", soon).expect("there").won);
        let second = cache.get_by("r", soon).expect("there");
        assert!(!second.won && second.taken);
        cache.set_until("s", 0);
        away(cache);
        assert_eq!(
            cache.ask("s", What::Delete { cas: None, invalidate: Some(None), emptied: None }),
            Outcome::Deleted
        );
        let [first, second] = [cache.get("s").expect("stale"), cache.get("s").expect("stale")];
        assert!(first.stale && first.won && second.stale && second.taken);
        cache.set_until("s", 0);
        let fresh = cache.get("s").expect("fresh");
        assert!(!fresh.stale && !fresh.taken && !fresh.fetched);
        assert!(cache.get("s").expect("fresh").fetched);
    });
}

#[test]
fn large_items_span_sectors_and_blocks_and_too_large_ones_are_refused() {
    both(|cache, away| {
        let big = "b".repeat(8 << 10);
        stored(&cache.store("big", Mode::Set, &big));
        away(cache);
        assert_eq!(cache.value("big").as_deref(), Some(&big[..]));
        let size = cache.get_by("big", Get { without_value: true, ..Get::default() }).expect("there");
        assert_eq!((size.size, size.value.len()), (8 << 10, 0));
        assert_eq!(cache.store("big", Mode::Set, &"b".repeat((8 << 10) + 1)), Outcome::TooLarge);
        assert_eq!(cache.value("big"), None, "what was there is not the newest");
    });
}

#[test]
fn a_wrong_configuration_is_refused_in_a_sentence() {
    let refused = |config: &KvConfig, flash: Flash| match build(flash, config, SimTime::ZERO) {
        Ok(_) => panic!("it was taken"),
        Err(why) => why,
    };
    let config = KvConfig::new(EngineKind::Original);
    assert_eq!(
        refused(&KvConfig { growth_factor: 1.0, ..config.clone() }, Flash::blocks(9, 1)),
        "kv.growth_factor = 1: allowed: 1.01 to 4"
    );
    assert_eq!(
        refused(&KvConfig::new(EngineKind::Direct), Flash::blocks(9, 1)),
        "engine \"direct\" needs an open-channel namespace, and the drive has none, or a host FTL stands on it; allowed: such a drive, \
         for the latter with --set host.layers=[]"
    );
    assert_eq!(
        refused(&config, Flash::blocks(900, 1)),
        "the flash has room for 0 slabs of 1088KiB; allowed: 4 or more, by a larger drive or kv.capacity, or a smaller kv.slab or kv.item_max"
    );
}

/// With fewer write buffers than slab classes, slabs are closed before they are full. Eviction ends all the same: it does not rewrite items into
/// slabs that hold as little.
#[test]
fn eviction_ends_where_write_buffers_are_few() {
    for engine in EngineKind::ALL {
        let mut cache = Cache::new(engine);
        let mut rng = Rng::new(4);
        for _ in 0..4000 {
            let length = [10, 100, 300, 1000, 3000, 6000, 8000][rng.below(7) as usize];
            let outcome = cache.store(&format!("k{}", rng.below(400)), Mode::Set, &"v".repeat(length));
            assert!(matches!(outcome, Outcome::Stored { .. }), "{outcome:?}");
            let mut events = 0;
            while let Some(next) = cache.system.next_event() {
                cache.system.advance(next);
                events += 1;
                assert!(events < 20_000, "{engine:?}: it goes on and on");
            }
        }
        let statistics = cache.system.statistics();
        assert!(statistics.items > 0 && statistics.slabs_evicted > 0, "{statistics:?}");
        // Nothing is in flight, so every victim has ended.
        assert_eq!(statistics.pauses.count(), statistics.slabs_evicted, "{engine:?}");
    }
}

/// After a power cut a cache on any engine restarts empty, and accepts requests.
#[test]
fn a_cache_starts_again_after_a_power_cut() {
    for engine in EngineKind::ALL {
        let mut cache = Cache::new(engine);
        stored(&cache.store("a", Mode::Set, "before"));
        cache.push_out();
        let (now, before) = (cache.system.now(), cache.system.statistics());
        let cut = cache.system.power_cut(|flash| {
            flash.power_cut();
            Ok(((), now))
        });
        assert_eq!(cut, Ok(()), "{engine:?}");
        assert_eq!(cache.value("a"), None, "{engine:?}");
        stored(&cache.store("a", Mode::Set, "after"));
        cache.push_out();
        assert_eq!(cache.value("a").as_deref(), Some("after"), "{engine:?}");
        // Counts continue: they start when the cache is made.
        let statistics = cache.system.statistics();
        assert!(statistics.sets > before.sets, "{engine:?}: {} after {}", statistics.sets, before.sets);
        assert!(statistics.flash_written_bytes > before.flash_written_bytes, "{engine:?}");
    }
}

#[test]
fn what_the_flash_has_not_is_refused() {
    let refused =
        |config: &KvConfig| build(Flash::blocks(4000, 1), config, SimTime::ZERO).expect_err("too much");
    let config =
        KvConfig { slab_bytes: 16 << 10, item_max_bytes: 8 << 10, ..KvConfig::new(EngineKind::Original) };
    let more = refused(&KvConfig { capacity_bytes: 1 << 40, ..config.clone() });
    assert!(more.starts_with("kv.capacity = 1TiB: allowed: 0 (all there is) to "), "{more}");
    let more = refused(&KvConfig { memory_bytes: 500 << 30, ..config.clone() });
    assert!(more.starts_with("kv.memory = 500GiB: allowed: up to 64MiB, for "), "{more}");
}

/// An append that would become too large leaves the item unchanged, as in memcached. With fewer buffers than slab classes, an append that has read
/// its item waits until a slab of another class has been written. It does not read again meanwhile: a drive that answers reads at once would never
/// get to the write.
#[test]
fn an_append_reads_its_item_once_however_long_it_waits() {
    let mut waited = 0;
    for engine in EngineKind::ALL {
        let mut cache = Cache::new(engine);
        let sizes: Vec<usize> = (0..12).map(|step| (40.0 * 1.5_f64.powi(step)) as usize).collect();
        let set = |cache: &mut Cache, at: usize| {
            stored(&cache.store(&format!("k{at}"), Mode::Set, &"v".repeat(sizes[at])));
        };
        (0..sizes.len()).for_each(|at| set(&mut cache, at));
        cache.push_out();
        for at in 0..sizes.len() {
            // Open slabs of other classes hold all buffers.
            (0..sizes.len()).filter(|other| other.abs_diff(at) > 2).for_each(|other| set(&mut cache, other));
            let before = cache.system.statistics();
            match cache.store(&format!("k{at}"), Mode::Append, "more") {
                Outcome::Stored { .. } | Outcome::NotStored => {}
                other => panic!("{engine:?}: {other:?}"),
            }
            let after = cache.system.statistics();
            let reads = after.flash_read_bytes - before.flash_read_bytes;
            assert!(reads <= 3 * 8192, "{engine:?}: an append of {} bytes read {reads}", sizes[at]);
            waited += after.waits - before.waits;
        }
    }
    assert!(waited > 0, "no append had to wait");
}

#[test]
fn an_append_that_makes_an_item_too_large_changes_nothing() {
    both(|cache, push_out| {
        let value = "v".repeat(8000);
        stored(&cache.store("a", Mode::Set, &value));
        push_out(cache);
        for mode in [Mode::Append, Mode::Prepend] {
            assert_eq!(cache.store("a", mode, &"w".repeat(400)), Outcome::NotStored);
        }
        assert_eq!(cache.value("a"), Some(value.clone()));
        stored(&cache.store("a", Mode::Append, "x"));
        assert_eq!(cache.value("a"), Some(value + "x"));
    });
}

impl Cache {
    /// Stores values under `count` keys from `from` on, one every `step`; returns the number of refusals and the last one.
    fn stores(&mut self, from: usize, count: usize, step: Nanos) -> (usize, usize) {
        let (mut refused, mut last) = (0, 0);
        for number in from..from + count {
            let value = format!("{number}:{}", "x".repeat(3000));
            let store = Store { value: value.into_bytes(), ..Store::default() };
            match self.ask_quickly(&format!("key-{number}"), What::Store(store)) {
                Outcome::Stored { .. } => {}
                Outcome::Failed(_) => (refused, last) = (refused + 1, number - from + 1),
                other => panic!("{number}: {other:?}"),
            }
            self.system.advance(self.system.now() + step);
        }
        self.system.kv().check();
        (refused, last)
    }

    /// Number of these keys that are present. None may have another value.
    fn finds(&mut self, keys: Range<usize>) -> usize {
        let is_there = |number: &usize| {
            let get = What::Get(Get::default());
            match self.ask_quickly(&format!("key-{number}"), get) {
                Outcome::Item(item) => {
                    assert!(
                        item.value.starts_with(format!("{number}:").as_bytes()),
                        "another value of {number}"
                    );
                    true
                }
                _ => false,
            }
        };
        keys.filter(is_there).count()
    }
}

/// A cache of 8 write buffers on some megabytes of flash.
fn on_larger_flash(engine: EngineKind) -> Cache {
    let (config, flash) = larger(engine);
    Cache { system: build(flash, &config, SimTime::ZERO).expect("a cache"), time_s: 1000 }
}

fn larger(engine: EngineKind) -> (KvConfig, Flash) {
    let config = KvConfig {
        slab_bytes: 32 << 10,
        memory_bytes: 256 << 10,
        item_max_bytes: 8 << 10,
        ..KvConfig::new(engine)
    };
    let flash = match engine {
        EngineKind::Original => Flash::blocks(16_384, 3),
        _ => Flash::chunks(crate::flash::geometry(2, 4, 64, 32), 3),
    };
    (config, flash)
}

const STEP: Nanos = Nanos(1_000_000);

/// After a temporary fault of the flash, stores are accepted again without a restart.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn stores_are_taken_again_after_a_short_trouble() {
    let all = |program| Faults { program, ..Faults::default() };
    let troubles = [
        ("every program fails", all(1.0)),
        ("half of the programs fail", all(0.5)),
        ("1 % of the programs fail", all(0.01)),
        ("the disk below is full", Faults { full: true, ..Faults::default() }),
        ("no writes are taken", Faults { read_only: true, ..all(1.0) }),
    ];
    for engine in EngineKind::ALL {
        for (name, faults) in &troubles {
            // If time stands still between stores, refused ones trigger the retry.
            for step in [STEP, Nanos(0)] {
                let mut cache = on_larger_flash(engine);
                assert_eq!(cache.stores(0, 300, step), (0, 0), "{engine:?}");
                cache.system.drive_mut().faults = faults.clone();
                let (refused, _) = cache.stores(300, 800, step);
                let found = cache.system.statistics();
                if name != &troubles[1].0 && name != &troubles[2].0 {
                    assert!(
                        refused > 100 && !found.takes_stores && found.resting_parts > 0,
                        "{engine:?}, {name}: {refused}, {found:?}"
                    );
                }
                cache.system.drive_mut().faults = Faults::default();
                let (refused, last) = cache.stores(2000, 1500, step);
                // The longest rest, if other parts have accepted the stores meanwhile.
                let now = cache.system.now();
                cache.system.advance(now + Nanos(3_000_000_000));
                assert_eq!(cache.stores(3500, 100, step), (0, 0), "{engine:?}, {name}");
                let found = cache.system.statistics();
                assert!(
                    last < 300,
                    "{engine:?}, {name}, {step:?}: {refused} refused, {last} the last: {found:?}"
                );
                assert!(found.takes_stores && found.resting_parts == 0, "{engine:?}, {name}: {found:?}");
                assert_eq!(found.retired_blocks, 0, "{engine:?}, {name}: nothing is bad");
                assert!(cache.finds(3400..3500) > 90, "{engine:?}, {name}");
                cache.finds(0..3400);
            }
        }
    }
}

/// Blocks fail for good, until the range has too few of them: the cache shrinks and takes stores on what is left.
#[test]
fn a_cache_on_the_policy_level_shrinks_with_its_flash() {
    for step in [STEP, Nanos(0)] {
        let mut cache = on_larger_flash(EngineKind::Policy);
        let before = cache.system.statistics();
        let mut from = 0;
        cache.system.drive_mut().faults = Faults { program: 0.1, erase: 1.0, ..Faults::default() };
        while cache.system.statistics().slabs_total == before.slabs_total && from < 100_000 {
            cache.stores(from, 100, step);
            from += 100;
        }
        cache.system.drive_mut().faults = Faults::default();
        cache.stores(from, 1500, step);
        let now = cache.system.now();
        cache.system.advance(now + Nanos(3_000_000_000));
        let (refused, _) = cache.stores(from + 1500, 1500, step);
        let after = cache.system.statistics();
        assert!(refused == 0 && after.takes_stores, "{step:?}: {refused} refused, {after:?}");
        assert!(after.slabs_total > 0 && after.slabs_total < before.slabs_total, "{before:?} -> {after:?}");
        assert!(cache.finds(from + 2900..from + 3000) > 90, "{step:?}");
        cache.finds(0..from + 2900);
    }
}

/// A permanently failed part of the flash is reported, and the rest continues.
#[test]
fn a_dead_part_of_the_flash_rests_and_is_named() {
    for engine in [EngineKind::Function, EngineKind::Raw, EngineKind::Direct] {
        let mut cache = on_larger_flash(engine);
        cache.stores(0, 300, STEP);
        cache.system.drive_mut().faults.dead_luns = [1].into();
        let (refused, _) = cache.stores(300, 4000, STEP);
        let found = cache.system.statistics();
        assert!(
            refused < 100 && found.resting_parts > 0 && found.takes_stores,
            "{engine:?}: {refused}, {found:?}"
        );
        let figures = cache.system.figures();
        let figure = |name| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
        assert_eq!(figure("kv_resting_parts"), Some(found.resting_parts));
        assert_eq!(figure("kv_takes_stores"), Some(1));
        cache.finds(0..4300);
    }
}

/// With fewer write buffers than slab classes, items share slabs: flash holds nearly as many as with one buffer per class.
#[test]
fn few_write_buffers_cost_little_flash() {
    for engine in EngineKind::ALL {
        let held = |memory_bytes: u64| {
            let config = KvConfig {
                slab_bytes: 64 << 10,
                memory_bytes,
                item_max_bytes: 32 << 10,
                ..KvConfig::new(engine)
            };
            let flash = match engine {
                EngineKind::Original => Flash::blocks(32_768, 3),
                _ => Flash::chunks(crate::flash::geometry(2, 2, 64, 128), 3),
            };
            let system = build(flash, &config, SimTime::ZERO).expect("a cache");
            let buffers = system.kv().memory_for_each_class_bytes() / (64 << 10);
            assert!(buffers > 20, "{buffers} classes");
            let (mut cache, mut rng) = (Cache { system, time_s: 1000 }, Rng::new(5));
            for number in 0..4000 {
                let value = "v".repeat(50 + rng.below(2950) as usize);
                let store = Store { value: value.into_bytes(), ..Store::default() };
                stored(&cache.ask_quickly(&format!("key-{number}"), What::Store(store)));
            }
            cache.system.kv().check();
            cache.system.statistics().items
        };
        let (few, many) = (held(8 * (64 << 10)), held(64 * (64 << 10)));
        assert!(
            many > 3900 && few * 10 > many * 8,
            "{engine:?}: {few} items with few buffers, {many} with many"
        );
    }
}

/// A failed program costs no block that can be erased: the drive reports bad blocks.
#[test]
fn failed_programs_cost_no_block_that_can_be_erased() {
    for engine in [EngineKind::Raw, EngineKind::Direct] {
        let config = KvConfig {
            slab_bytes: 32 << 10,
            memory_bytes: 256 << 10,
            item_max_bytes: 8 << 10,
            ..KvConfig::new(engine)
        };
        let flash = Flash::chunks(crate::flash::geometry(2, 4, 32, 32), 3);
        let system = build(flash, &config, SimTime::ZERO).expect("a cache");
        let mut cache = Cache { system, time_s: 1000 };
        let value = "x".repeat(7000);
        let stores = |cache: &mut Cache, count: usize| {
            for number in 0..count {
                let outcome = cache.store(&format!("key-{number}"), Mode::Set, &value);
                assert!(matches!(outcome, Outcome::Stored { .. }), "{engine:?}, {number}: {outcome:?}");
            }
        };
        stores(&mut cache, 100);
        cache.system.drive_mut().faults.program = 0.2;
        for _ in 0..20 {
            if cache.system.statistics().failures < 20 {
                stores(&mut cache, 50);
            }
        }
        cache.system.drive_mut().faults.program = 0.0;
        stores(&mut cache, 300);
        let found = cache.system.statistics();
        let failed = cache.system.drive_mut().failed_programs;
        assert!(failed >= 20 && found.failures <= failed, "{engine:?}: {failed} failed: {found:?}");
        assert_eq!((found.retired_blocks, found.resting_parts), (0, 0), "{engine:?}: {found:?}");
        assert!((0..300).filter(|number| cache.get(&format!("key-{number}")).is_some()).count() > 30);
    }
}

/// A stop closes slabs that are not full, and writes a snapshot. If the flash has space for both, no item is evicted for them.
#[test]
fn a_clean_stop_drops_no_item_for_which_there_is_room() {
    for engine in EngineKind::ALL {
        let (config, flash) = larger(engine);
        let over_provisioning = OverProvisioning::Fixed(0.25);
        let config = KvConfig { warm_restart: true, over_provisioning, ..config };
        let mut cache =
            Cache { system: build(flash, &config, SimTime::ZERO).expect("a cache"), time_s: 1000 };
        cache.stores(0, 6000, STEP);
        let now = cache.system.now();
        cache.system.advance(now + Nanos(3_000_000_000));
        let before = cache.system.statistics();
        assert!(
            before.slabs_evicted > 0 && before.slabs_free >= 2,
            "{engine:?}: it is at its watermarks: {before:?}"
        );
        cache.system.stop().expect("a clean stop");
        let now = cache.system.now();
        let again = build(cache.system.into_drive(), &config, now).expect("a cache");
        assert_eq!(again.statistics().items, before.items, "{engine:?}");
    }
}
