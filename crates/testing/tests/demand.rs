//! A map in flash behind a cached table (`ftl.map = "demand"`): nothing is lost, and the table costs what its size says.

use pellucid_flash::MapReason;
use pellucid_testing::swarm;
use pellucid_testing::swarm::{Swarm, tiny};

/// Several translation pages: 1 KiB hold 252 entries.
const DEMAND: [&str; 4] =
    ["ftl.map=demand", "media.channels=1", "media.unit_size=1024", "ftl.over_provisioning=1.3"];

/// Cuts a clone of the drive at every event of a short history, which reads or writes translation pages for every reason.
fn cut_everywhere(sets: &[&str], seed: u64, commands: u32, depth: u32) -> u32 {
    let (swarm, cuts) = Swarm::cut_at_every_event(&[&DEMAND, sets].concat(), seed, commands, depth);
    let map = swarm.device.ftl_counters().map;
    for reason in MapReason::ALL {
        let happened = map.reads[reason as usize] + map.writes[reason as usize];
        assert!(happened > 0, "no translation page was read or written for {reason:?}: {map:?}");
    }
    cuts
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_cached_table_survives_a_cut_at_every_event() {
    for (seed, sets) in (21..).zip([
        ["media.blocks=16", "ftl.map_cache=64", "buffer.write=write-back", "buffer.entries=8"],
        ["media.blocks=16", "ftl.map_cache=800", "buffer.write=write-through", "buffer.entries=16"],
    ]) {
        let cuts = cut_everywhere(&sets, seed, 500, 6);
        assert!(cuts > 500, "{cuts} cuts");
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn random_drives_with_cached_tables_never_return_a_wrong_sector() {
    let run = |&seed: &u64| {
        let cache = ["ftl.map_cache=16", "ftl.map_cache=100", "ftl.map_cache=4000"][seed as usize % 3];
        let overrides = ["ftl.map=demand", cache, "ftl.handles=1"];
        swarm::run_harder_seed_with(seed, &overrides, 1000)
    };
    let ran = (0..60).filter(run).count();
    assert!(ran > 40, "{ran} drives were not refused");
}

/// Data for several streams, none of which has a superpage's worth: more are sent out to make room in the buffer, and the look-ups of those
/// may be all that is left to do.
#[test]
fn what_makes_room_in_the_buffer_is_looked_up() {
    let sets = ["media.planes=2", "ftl.handles=4", "ftl.map_cache=16", "buffer.entries=16"];
    let sets: Vec<String> = DEMAND.iter().chain(&sets).map(ToString::to_string).collect();
    for seed in 0..20 {
        let mut swarm = Swarm::new(&tiny(&sets), seed);
        for _ in 0..1000 {
            swarm.submit();
            while swarm.in_flight() > 0 {
                assert!(swarm.step(), "a command in flight and nothing happens");
            }
            swarm.check_alive();
        }
    }
}
