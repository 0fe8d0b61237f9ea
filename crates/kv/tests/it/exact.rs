//! Results that can be computed, and items that eviction must not touch.

use crate::flash::Flash;
use pellucid_flash::{Rng, SimTime};
use pellucid_kv::{
    Ask, EngineKind, Get, Keep, Key, KvConfig, Outcome, OverProvisioning, Store, System, Victim, What, build,
};

fn cache(sectors: u64) -> System<Flash> {
    let config = KvConfig {
        slab_bytes: 64 << 10,
        memory_bytes: 8 * (64 << 10),
        item_max_bytes: 1000,
        over_provisioning: OverProvisioning::Fixed(0.0),
        victim: Victim::Fifo,
        keep: Keep::Nothing,
        ..KvConfig::new(EngineKind::Original)
    };
    build(Flash::blocks(sectors, 1), &config, SimTime::ZERO).expect("a cache")
}

/// Sends one request and waits for its answer.
fn call(system: &mut System<Flash>, number: u64, what: What) -> Outcome {
    let key = Key::new(format!("key-{number:08}").as_bytes()).expect("a key");
    system.ask(system.now(), Ask { tag: 1, time_s: 1, key, what });
    loop {
        if let Some(answer) = system.answer() {
            return answer.outcome;
        }
        let next = system.next_event().expect("something goes on");
        system.advance(next);
    }
}

fn set(system: &mut System<Flash>, number: u64) {
    let store = Store { value: number.to_string().into_bytes().repeat(8), ..Store::default() };
    let stored = call(system, number, What::Store(store));
    assert!(matches!(stored, Outcome::Stored { .. }), "{stored:?}");
}

fn is_there(system: &mut System<Flash>, number: u64) -> bool {
    match call(system, number, What::Get(Get::default())) {
        Outcome::Item(item) => item.value == number.to_string().into_bytes().repeat(8),
        _ => false,
    }
}

/// Claim B4: a FIFO cache of S slots under uniform random overwrites of K keys holds 1 - e^(-S/K) of them.
#[test]
fn a_fifo_cache_holds_the_share_of_keys_that_theory_says() {
    for (keys, sectors) in [(20_000u64, 4_000), (60_000, 10_000)] {
        let mut system = cache(sectors);
        let mut rng = Rng::new(keys);
        for _ in 0..keys * 4 {
            let number = 10_000_000 + rng.below(keys);
            set(&mut system, number);
        }
        system.kv().check();
        let classes = system.classes();
        let class = classes.iter().max_by_key(|class| class.sets).expect("one");
        // The open slab is half full on average.
        let slots = (class.slabs as f64 - 0.5) * f64::from(class.slots_per_slab);
        let expected = 1.0 - (-slots / keys as f64).exp();
        let found = class.items as f64 / keys as f64;
        assert!((found - expected).abs() < 0.01, "{keys} keys in {slots} slots: {found}, theory {expected}");
        // Gets must match the index; while they run, full slabs are written, and others are evicted for them.
        let sample = 4000;
        let hits = (0..sample).filter(|_| is_there(&mut system, 10_000_000 + rng.below(keys))).count();
        let held = system.statistics().items as f64 / keys as f64;
        let share = hits as f64 / f64::from(sample);
        assert!(
            (held - 0.02..found + 0.02).contains(&share),
            "{share} of gets hit, {held} to {found} is held"
        );
        assert!(system.statistics().evicted > 0);
    }
}

/// The old copy of an item is evicted with its slab; the item itself stays.
#[test]
fn evicting_a_stale_copy_leaves_the_live_one() {
    let mut system = cache(2_000);
    set(&mut system, 10_000_000);
    let mut number = 10_000_001;
    while system.statistics().slabs_written < 2 {
        set(&mut system, number);
        number += 1;
    }
    // Its first copy is in the slab that is evicted first.
    set(&mut system, 10_000_000);
    while system.statistics().slabs_evicted == 0 {
        set(&mut system, number);
        number += 1;
    }
    assert!(!is_there(&mut system, 10_000_001), "what was written with it is gone");
    assert!(is_there(&mut system, 10_000_000));
}
