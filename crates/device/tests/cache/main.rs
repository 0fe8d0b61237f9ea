//! Cache namespaces: the six commands one by one, random commands beside a model, and the power cut at every event.

#![allow(
    clippy::disallowed_methods,
    reason = "the seeds of a swarm are told by the environment, and all of them run though one fails"
)]

mod commands;
mod config;
mod effect;
mod log;
mod swarm;

use config::{Shape, config};
use pellucid_device::{Device, Guarantee};
use pellucid_ftl::{Eviction, Map};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use swarm::Swarm;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|v| v.parse().ok())
}

/// `PELLUCID_SEED=N cargo test -p pellucid-device --test cache swarm` repeats one seed; `PELLUCID_FIRST` and `PELLUCID_SEEDS` set the range
/// that is tried (the latter is its end).
fn seeds(usual: u64) -> Range<u64> {
    match number("PELLUCID_SEED") {
        Some(seed) => seed..seed + 1,
        None => number("PELLUCID_FIRST").unwrap_or(0)..number("PELLUCID_SEEDS").unwrap_or(usual),
    }
}

/// Results that the commands of one seed met.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    evicted: u64,
    hits: u64,
    misses: u64,
    refused: u64,
    cuts: u64,
}

/// Random commands to a cache, whose power is cut now and then at whatever event it has come to.
fn run(shape: &Shape) -> Met {
    let seed = shape.seed;
    let mut swarm = Swarm::new(&config(shape), shape.span, shape.dirty_share, seed);
    swarm.seldom_flushed = shape.is_crowded();
    swarm.cleans_when_full = shape.map.log_blocks().is_some();
    let mut cuts = 0;
    for round in 0..3_000u32 {
        swarm.submit();
        while swarm.in_flight() > 12 {
            assert!(swarm.step());
            if swarm.cut_now() {
                cuts += 1;
                swarm.power_cut();
                swarm.look();
            }
        }
        if round % 97 == 0 {
            swarm.device.check();
        }
    }
    swarm.drain();
    swarm.device.check();
    swarm.look();
    let [hits, misses, refused] = swarm.counts;
    Met { evicted: swarm.device.ftl_counters().evicted_units, hits, misses, refused, cuts }
}

/// Runs all seeds, so that one bug does not hide another, and sums what they met.
fn run_all(seeds: Range<u64>, shape_of: fn(u64) -> Shape) -> Met {
    let (mut failed, mut all) = (Vec::new(), Met::default());
    // Bad blocks that the seed draws may leave too little space, which is refused.
    let is_possible = |seed: &u64| Device::new(&config(&shape_of(*seed))).is_ok();
    let count = seeds.end - seeds.start;
    let possible: Vec<u64> = seeds.filter(is_possible).collect();
    assert!(
        possible.len() as u64 >= count - count / 10,
        "only {} of {count} caches are possible",
        possible.len()
    );
    for seed in possible {
        match catch_unwind(AssertUnwindSafe(|| run(&shape_of(seed)))) {
            Ok(met) => {
                all.evicted += met.evicted;
                all.hits += met.hits;
                all.misses += met.misses;
                all.refused += met.refused;
                all.cuts += met.cuts;
            }
            Err(_) => failed.push(seed),
        }
    }
    if let Some(&seed) = failed.first() {
        let shape = shape_of(seed);
        panic!("seeds {failed:?} failed; repeat the first with PELLUCID_SEED={seed}; cache: {shape:?}");
    }
    all
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_swarm_of_caches_is_never_stale_and_keeps_what_is_dirty() {
    let seeds = seeds(24);
    let all = run_all(seeds.clone(), Shape::random);
    // Expected of the usual seeds; one seed alone may not meet every case.
    let Met { evicted, hits, misses, refused, cuts } = all;
    let enough = evicted > 5_000 && hits > 1_000 && misses > 1_000 && refused > 100 && cuts > 50;
    assert!(enough || seeds.end - seeds.start < 24, "{all:?}");
}

/// Seeds that have found bugs. 8000650: after a mount a block counted as older than the last copy in it, whose eviction was then not recorded.
/// 9000692: GC took victims while the translation pages that their erases wait for had a superpage left, and then the last free block.
/// The others: a page that had left with a block came back, because the power was cut before the erase, with a newer write acknowledged.
#[test]
fn caches_that_found_bugs_stay_clean() {
    for seed in [8_000_261, 8_000_650, 8_000_698, 8_002_010, 9_000_692] {
        run_all(seed..seed + 1, Shape::random);
    }
}

/// Like [`a_swarm_of_caches_is_never_stale_and_keeps_what_is_dirty`], with log blocks of all kinds.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_swarm_of_caches_with_log_blocks_is_never_stale() {
    let seeds = seeds(24);
    let all = run_all(seeds.clone(), Shape::hybrid);
    let Met { evicted, hits, misses, refused, cuts } = all;
    let enough = evicted > 400 && hits > 1_000 && misses > 1_000 && refused > 100 && cuts > 50;
    assert!(enough || seeds.end - seeds.start < 24, "{all:?}");
}

/// Like [`a_swarm_of_failing_caches_is_never_stale`], with log blocks.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_swarm_of_failing_caches_with_log_blocks_is_never_stale() {
    let fails = |&seed: &u64| catch_unwind(AssertUnwindSafe(|| run(&Shape::failing_hybrid(seed)))).is_err();
    let failed: Vec<u64> = seeds(100).filter(fails).collect();
    assert_eq!(failed, [0; 0], "repeat one with PELLUCID_SEED");
}

/// Programs, erases and reads fail, and in the end there is nowhere left to write: what is read is never stale, and every command ends.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_swarm_of_failing_caches_is_never_stale() {
    let fails = |&seed: &u64| catch_unwind(AssertUnwindSafe(|| run(&Shape::failing(seed)))).is_err();
    let failed: Vec<u64> = seeds(400).filter(fails).collect();
    assert_eq!(failed, [0; 0], "repeat one with PELLUCID_SEED");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn the_power_may_be_cut_at_every_event() {
    for (guarantee, eviction, shape) in [
        (Guarantee::Flush, Eviction::SeUtil, Shape::small()),
        (Guarantee::WriteDirty, Eviction::SeUtil, Shape::small()),
        (Guarantee::Flush, Eviction::SeMerge, Shape::small()),
        (Guarantee::WriteDirty, Eviction::SeUtil, Shape::crowded()),
        (Guarantee::Flush, Eviction::SeUtil, Shape::crowded()),
    ] {
        let shape = Shape { guarantee, eviction, ..shape };
        let mut swarm = Swarm::new(&config(&shape), shape.span, 40, 5);
        swarm.seldom_flushed = shape.is_crowded();
        let cuts = cut_at_events(&mut swarm, 900, 3);
        assert!(cuts > 900, "{cuts} events");
        assert!(swarm.device.ftl_counters().evicted_units > 100, "{:?}", swarm.device.ftl_counters());
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn the_power_of_a_cache_with_log_blocks_may_be_cut_at_every_event() {
    for (guarantee, eviction, shape) in [
        (Guarantee::Flush, Eviction::SeUtil, Shape::small_hybrid(Map::Fast { log_blocks: 2 })),
        (Guarantee::WriteDirty, Eviction::SeMerge, Shape::small_hybrid(Map::Fast { log_blocks: 4 })),
        (Guarantee::WriteDirty, Eviction::SeUtil, Shape::small_hybrid(Map::Bast { log_blocks: 3 })),
        (Guarantee::Flush, Eviction::SeMerge, Shape::small_hybrid(Map::Bast { log_blocks: 4 })),
    ] {
        let shape = Shape { guarantee, eviction, ..shape };
        // How much such a cache evicts differs from seed to seed: 0 to 45 units of the first shape. This one has some of each.
        let mut swarm = Swarm::new(&config(&shape), shape.span, shape.dirty_share, 12);
        swarm.cleans_when_full = true;
        let cuts = cut_at_events(&mut swarm, 900, 5);
        assert!(cuts > 900, "{cuts} events");
        assert!(
            swarm.device.ftl_counters().evicted_units > 10,
            "{shape:?}: {:?}",
            swarm.device.ftl_counters()
        );
    }
}

/// Submits so many commands, and cuts the power of a copy at one of `every` events, and once more soon after; returns the number of events.
fn cut_at_events(swarm: &mut Swarm, commands: u32, every: u32) -> u32 {
    let mut cuts = 0;
    for _ in 0..commands {
        swarm.submit();
        while swarm.in_flight() > 6 {
            assert!(swarm.step());
            if cuts % every == 0 {
                let mut other = swarm.clone();
                other.power_cut();
                other.look();
                (0..6).for_each(|_| other.submit());
                (0..9).for_each(|_| _ = other.step());
                other.power_cut();
                other.look();
            }
            cuts += 1;
        }
    }
    swarm.drain();
    cuts
}
