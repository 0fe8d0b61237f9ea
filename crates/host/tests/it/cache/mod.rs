//! Tests the cache manager against the known state of every sector, over crashes of the flash, of the program
//! and of both at every event, with failing drives; both backends and modes.

#![allow(clippy::print_stdout, reason = "where a test that fails was")]

mod ata;
mod read_only;
mod ssc;
mod world;

use crate::reference::Faults;
use pellucid_flash::Opcode;
use pellucid_host::{CacheConfig, CacheMode, Flushes};
use world::{Crash, Crashing, World};

/// Returns the seeds of a test; `CACHE_SEEDS=1000` runs more of them, from that number on.
pub fn seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let first: Option<u64> = option_env!("CACHE_SEEDS").and_then(|first| first.parse().ok());
    first.map_or(usual.clone(), |first| first..first + 10 * (usual.end - usual.start))
}

pub fn exercise<F: Crashing>(world: &mut World<F>, steps: u32) {
    for _ in 0..steps {
        while world.outstanding() < 8 && world.rng.chance(0.7) {
            world.submit();
        }
        if !world.step() {
            world.submit();
        }
    }
}

#[test]
fn it_matches_what_is_known_of_every_sector() {
    for seed in seeds(0..40) {
        let mut world = World::new(seed);
        exercise(&mut world, 1500);
        world.check();
        assert_eq!(world.failed, 0, "seed {seed}");
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn what_was_promised_survives_every_crash_at_any_event() {
    for seed in seeds(100..124) {
        let mut world = World::new(seed);
        exercise(&mut world, 100);
        for event in 0..90u32 {
            exercise(&mut world, 3);
            for who in Crash::ALL {
                let mut crashed = world.clone();

                println!("seed {seed}, event {event}: {who:?}");
                crashed.crash(who);
                exercise(&mut crashed, 25);
                crashed.crash(Crash::ALL[(event % 3) as usize]);
            }
        }
    }
}

/// A head that says "closed" is believed at the next start, so nothing may lie between the flush of a stop and its records.
#[test]
fn what_comes_while_it_stops_survives_every_crash() {
    for seed in seeds(300..330) {
        let mut world = World::new(seed);
        for _ in 0..4 {
            exercise(&mut world, 60);
            world.drain();
            for commands in 0..12 {
                for who in Crash::ALL {
                    let mut stopped = world.clone();
                    println!("seed {seed}, {commands} commands: {who:?}");
                    stopped.stop_under_load(commands);
                    stopped.crash(who);
                    exercise(&mut stopped, 25);
                    stopped.check();
                }
            }
        }
    }
}

#[test]
fn lives_of_crashes_and_failing_drives() {
    // Of the last, a clean command that failed took effect, and the power went within the trim of its block.
    for seed in seeds(200..260).chain([1153]) {
        let mut world = World::new(seed);
        *world.host.drive.first.faults() = Faults { write: 0.01, reset: 0.01, read: 0.01 };
        world.host.drive.second.faults = Faults { write: 0.01, reset: 0.01, read: 0.01 };
        for life in 0..12 {
            println!("seed {seed}, life {life}");
            exercise(&mut world, 120);
            let who = Crash::ALL[(seed + life) as usize % 3];
            world.crash(who);
        }
        assert!(world.failed > 0, "seed {seed}");
    }
}

/// Checks that a flush reaches the configured drives.
#[test]
fn a_flush_reaches_the_drives_that_it_is_told_of() {
    for (flushes, reached) in [(Flushes::Both, [1, 1]), (Flushes::Flash, [1, 0]), (Flushes::None, [0, 0])] {
        let (config, flash, backing) = world::shape(1);
        let sequential_bytes = 2 * u64::from(config.block_bytes);
        let config = CacheConfig { flushes, mode: CacheMode::WriteBack, sequential_bytes, ..config };
        let blocks = u64::from(config.block_bytes) / 512;
        let mut world = World::on(config, flash, backing, 1);
        // The second block continues the first, so it bypasses the cache.
        world.ask(Opcode::Write, 0, blocks, false);
        world.drain();
        world.ask(Opcode::Write, blocks, blocks, false);
        world.drain();
        let before = *world.host.layer.counters();
        assert!(before.write_hits > 0 && before.write_arounds > 0, "{before:?}");
        world.ask(Opcode::Flush, 0, 0, false);
        world.drain();
        let after = world.host.layer.counters();
        let sent = [
            after.flash_commands - before.flash_commands,
            after.backing_commands[2] - before.backing_commands[2],
        ];
        assert_eq!(sent, reached, "{flushes:?}");
    }
}
