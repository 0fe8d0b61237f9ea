//! Power cut at every event of a run, and everything looked at afterwards.

use crate::model::{config, drive};
use crate::oracle::{Below, World};
use crate::reference::Faults;
use pellucid_ftl::Durability;
use pellucid_host::HostFtlConfig;

/// A run on the reference drive, cut everywhere.
fn cut_everywhere(seed: u64, faults: Faults, warm: u32, events: u32) {
    let mut reference = drive(seed);
    reference.faults = faults;
    cut(seed, config(seed), reference, warm, events);
}

/// Cuts the power after each event of a run of `events`; every cut is followed by some more commands and another cut.
pub fn cut<D: Below>(seed: u64, mut config: HostFtlConfig, drive: D, warm: u32, events: u32) {
    if config.durability == Durability::Volatile {
        config.durability = Durability::Journal { checkpoint_every: 5 };
    }
    let mut world = World::new(&config, drive, seed);
    for event in 0..warm + events {
        while world.outstanding() < 8 && world.rng.chance(0.7) {
            world.submit();
        }
        world.step();
        if event < warm {
            continue;
        }
        let mut cut = world.clone();
        cut.crash(&config);
        for _ in 0..20 {
            cut.submit();
            cut.step();
        }
        cut.check();
        cut.crash(&config);
        cut.crash(&config);
    }
}

#[test]
fn what_was_promised_survives_a_power_cut_at_any_event() {
    for seed in 0..6 {
        cut_everywhere(seed, Faults::default(), 600, 150);
    }
}

#[test]
fn also_from_the_first_command_on() {
    for seed in 10..14 {
        cut_everywhere(seed, Faults::default(), 0, 150);
    }
}

#[test]
fn also_with_failing_writes() {
    for seed in 20..24 {
        cut_everywhere(seed, Faults { write: 0.003, reset: 0.002, read: 0.0 }, 500, 100);
    }
}
