//! Cuts the power at every event of a run, and checks everything afterwards.

use crate::model::{config, drive, hold_back, limit};
use crate::oracle::{Below, World};
use crate::reference::{Faults, Reference, geometry};
use pellucid_flash::Drive;
use pellucid_ftl::Durability;
use pellucid_host::{HostFtl, HostFtlConfig, Machine, Stack};

/// Cuts the power at every event of a run on the reference drive.
fn cut_everywhere(seed: u64, faults: Faults, warm: u32, events: u32) {
    let mut reference = drive(seed);
    reference.faults = faults;
    cut(seed, config(seed), reference, warm, events);
}

/// Cuts the power after each event of a run of `events`; every cut is followed by more commands and another
/// cut.
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
#[cfg_attr(quick, ignore = "slow")]
fn what_was_promised_survives_a_power_cut_at_any_event() {
    for seed in 0..6 {
        cut_everywhere(seed, Faults::default(), 600, 150);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn also_from_the_first_command_on() {
    for seed in 10..14 {
        cut_everywhere(seed, Faults::default(), 0, 150);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn also_with_failing_writes() {
    // Seed 37 cuts the power while a line is reset whose first translation page has lost its chunk.
    for seed in (20..24).chain([37]) {
        cut_everywhere(seed, Faults { write: 0.003, reset: 0.002, read: 0.0 }, 500, 100);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn also_where_the_drive_holds_sectors_back() {
    for (seed, write) in (50..58).zip([0.0, 0.003].into_iter().cycle()) {
        let (mut config, mut reference) = (config(seed), drive(seed));
        hold_back(seed, &mut config, &mut reference);
        reference.faults = Faults { write, reset: 0.0, read: 0.0 };
        cut(seed, config, reference, 20 * (seed as u32 % 4) * 10, 120);
    }
}

/// Checks that a start pads unreadable sectors, and that a line whose padding fails takes no more data.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn also_where_padding_fails() {
    for seed in [1014, 1038, 1194, 1206] {
        let (mut config, mut reference) = (config(seed), drive(seed));
        hold_back(seed, &mut config, &mut reference);
        reference.faults = Faults { write: 0.004, reset: 0.002, read: 0.0 };
        cut(seed, config, reference, 100 * (seed % 9) as u32, 60);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn also_where_the_drive_limits_open_chunks() {
    for (seed, write) in (70..78).zip([0.0, 0.003].into_iter().cycle()) {
        let (config, mut reference) = (config(seed), drive(seed));
        limit(&config, &mut reference);
        reference.faults = Faults { write, reset: 0.0, read: 0.0 };
        cut(seed, config, reference, 40 * (seed % 4) as u32, 120);
    }
    // A start fills a hole in an unopened chunk although the maximum number of others is open.
    let (seed, mut reference) = (2301, drive(2301));
    limit(&config(seed), &mut reference);
    reference.faults = Faults { write: 0.004, reset: 0.002, read: 0.0 };
    cut(seed, config(seed), reference, 600, 60);
}

/// Checks that chunks left open by power cuts are closed, so that the drive's limit suffices for life after
/// life.
#[test]
fn chunks_that_power_cuts_leave_open_do_not_use_up_the_limit() {
    for seed in 80..84 {
        let mut config = config(seed);
        config.durability = Durability::Journal { checkpoint_every: 5 };
        let mut reference = drive(seed);
        limit(&config, &mut reference);
        let mut world = World::new(&config, reference, seed);
        for _ in 0..20 {
            for _ in 0..150 {
                world.submit();
                world.step();
            }
            world.crash(&config);
        }
        let drive = &world.host.drive;
        assert!(drive.too_many_open <= 20, "seed {seed}: {}", drive.too_many_open);
        assert_eq!(world.refused, 0, "seed {seed}");
    }
}

/// Lets a run end and stops it; cuts the power at every event of the stop, and at every event of the start
/// after it. Returns `true` if the start replayed nothing.
fn stop_cut_everywhere(seed: u64, faults: Faults) -> bool {
    let mut config = config(seed);
    config.durability = Durability::Journal { checkpoint_every: 1000 };
    let mut reference = drive(seed);
    reference.faults = faults;
    let mut world = World::new(&config, reference, seed);
    for _ in 0..700 {
        while world.outstanding() < 8 && world.rng.chance(0.7) {
            world.submit();
        }
        world.step();
    }
    world.drain();
    let before = world.host.layer.ftl_counters().copied_units;
    world.host.begin_stop();
    while !world.host.layer.is_stopped() {
        let mut cut = world.clone();
        cut.crash(&config);
        cut.submit();
        cut.step();
        cut.crash(&config);
        assert!(world.step(), "seed {seed}: the stop goes on");
    }
    world.stopped();
    let moved = world.host.layer.ftl_counters().copied_units - before;
    let failed = world.host.layer.counters().write_failures;
    world.start_stepwise(&config, |mut cut| {
        cut.crash(&config);
        cut.check();
    });
    let clean = world.restart(&config);
    assert!(clean.report.map_page_reads > 0, "seed {seed}: {clean:?}");
    // A line with a failed write has holes.
    assert!(clean.padded_superpages == 0 || failed > 0, "seed {seed}: {clean:?}");
    // GC copied data meanwhile only if translation pages found no free line otherwise.
    assert!(clean.report.replay_reads == 0 || moved > 0, "seed {seed}: {clean:?}");
    // Writes after the next start are found again, regardless of the translation pages.
    for _ in 0..60 {
        world.submit();
        world.step();
    }
    world.crash(&config);
    clean.report.replay_reads == 0
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_clean_stop_replays_nothing_and_can_be_cut_at_any_event() {
    let clean = (30..38).filter(|&seed| stop_cut_everywhere(seed, Faults::default())).count();
    assert!(clean >= 6, "{clean} of 8 starts replayed nothing");
}

/// Checks the reads of a start after a clean stop: the translation pages, and a little of each line: its
/// start, its first and last superpage or the head of its end, and at most two records, one of them the
/// index. It does not read every sector of the lines with translation pages, as it must after a cut; not even
/// of a line that several lives have written.
#[test]
fn a_start_after_a_clean_stop_reads_little_but_the_translation_pages() {
    let (superpage, rows, lines) = (4, 96, 12);
    let geometry = geometry(1, 2, lines + 2, rows * superpage, superpage);
    let config = HostFtlConfig {
        over_provisioning: 1.4,
        spare_chunks: 2,
        durability: Durability::Journal { checkpoint_every: 2 },
        ..HostFtlConfig::default()
    };
    let mut world = World::new(&config, Reference::new(geometry, 60), 60);
    let mut saved = 0;
    for life in 0..6 {
        for _ in 0..800 {
            world.submit();
            world.step();
        }
        world.drain();
        let mut cut = world.clone();
        cut.crash(&config);
        world.host.stop().expect("room for the map");
        world.stopped();
        let clean = world.restart(&config);
        assert_eq!((clean.report.replay_reads, clean.padded_superpages), (0, 0), "life {life}: {clean:?}");
        // A record of 2 x 96 superpages takes 64 bytes, 8 for each superpage and 4 for each of its sectors.
        let record = (64 + 2 * u64::from(rows) * (8 + 16)).div_ceil(512).next_multiple_of(superpage.into());
        let most = clean.report.map_page_reads + u64::from(lines) * 4 + 2 * record;
        assert!(clean.sectors <= most, "life {life}: {clean:?}, more than {most}");
        saved += u32::from(cut.host.layer.mount_cost().sectors > 2 * most);
    }
    assert!(saved > 3, "only {saved} starts after a cut read more");
}

#[test]
fn a_clean_stop_with_failing_writes() {
    for seed in 40..44 {
        stop_cut_everywhere(seed, Faults { write: 0.003, reset: 0.002, read: 0.0 });
    }
}

/// Checks that a drive is mounted only with its original settings. The map places translation pages after the
/// host's pages, so another capacity does not find them. Without a journal they are ignored, and trimmed data
/// come back. With other units, lines are elsewhere.
#[test]
fn a_start_with_other_settings_is_refused() {
    let config = HostFtlConfig {
        over_provisioning: 1.4,
        spare_chunks: 2,
        durability: Durability::Journal { checkpoint_every: 2 },
        ..HostFtlConfig::default()
    };
    let mut world = World::new(&config, Reference::new(geometry(1, 2, 14, 384, 4), 60), 60);
    for _ in 0..400 {
        world.submit();
        world.step();
    }
    world.drain();
    world.host.stop().expect("room for the map");
    world.stopped();
    let same = || config.clone();
    for (other, key) in [
        (HostFtlConfig { over_provisioning: 1.3, ..same() }, "over_provisioning"),
        (HostFtlConfig { over_provisioning: 1.6, ..same() }, "over_provisioning"),
        (HostFtlConfig { spare_chunks: 3, ..same() }, "over_provisioning"),
        (HostFtlConfig { units: 1, ..same() }, "units"),
        (HostFtlConfig { durability: Durability::Volatile, ..same() }, "durability"),
    ] {
        let drive = world.host.drive.clone();
        let layer = HostFtl::new(&other, drive.interface(0), drive.image_bytes()).expect("it fits the drive");
        let refused = Stack::start(layer, drive, world.now).expect_err("another target");
        assert!(refused.contains(&format!("allowed: the host.ftl.{key} ")), "{refused}");
    }
    world.restart(&config);
}
