//! Cache namespaces: the six commands one by one, random commands beside a model, and the power cut at every event.

mod commands;
mod config;
mod effect;
mod swarm;

use config::{Shape, config};
use pellucid_device::Guarantee;
use pellucid_ftl::Eviction;
use swarm::Swarm;

#[test]
fn random_commands_agree_with_the_model() {
    let mut evicted = 0;
    for seed in 0..12 {
        let shape = Shape::random(seed);
        let mut swarm = Swarm::new(&config(&shape), shape.span, shape.dirty_share, seed);
        for round in 0..3_000u32 {
            swarm.submit();
            while swarm.in_flight() > 12 {
                assert!(swarm.step(), "seed {seed}");
            }
            if round % 97 == 0 {
                swarm.device.check();
            }
            if round % 601 == 600 {
                swarm.power_cut();
                swarm.look();
            }
        }
        swarm.drain();
        swarm.device.check();
        evicted += swarm.device.ftl_counters().evicted_units;
        let [hits, misses, _] = swarm.counts;
        assert!(hits > 50 && misses > 50, "seed {seed}: {:?}", swarm.counts);
    }
    assert!(evicted > 5_000, "{evicted} units evicted");
}

#[test]
fn the_power_may_be_cut_at_every_event() {
    for (guarantee, eviction) in [
        (Guarantee::Flush, Eviction::SeUtil),
        (Guarantee::WriteDirty, Eviction::SeUtil),
        (Guarantee::Flush, Eviction::SeMerge),
    ] {
        let shape = Shape { guarantee, eviction, ..Shape::small() };
        let mut swarm = Swarm::new(&config(&shape), shape.span, 40, 5);
        let mut cuts = 0;
        for _ in 0..900 {
            swarm.submit();
            while swarm.in_flight() > 6 {
                assert!(swarm.step());
                if cuts % 3 == 0 {
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
        assert!(cuts > 900, "{cuts} events");
        assert!(swarm.device.ftl_counters().evicted_units > 100, "{:?}", swarm.device.ftl_counters());
    }
}
