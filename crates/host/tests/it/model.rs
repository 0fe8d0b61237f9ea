//! Runs random commands against the plain map, with every invariant checked after each step.

use crate::oracle::{Below, World, start};
use crate::reference::{Faults, Reference, geometry};
use pellucid_flash::{
    ChunkGeometry, Command, Completion, Drive, Interface, Lba, Nanos, Opcode, Rng, SimTime,
};
use pellucid_ftl::{Durability, Separation, Victim};
use pellucid_host::{CpuCosts, HostFtl, HostFtlConfig};

pub fn config(seed: u64) -> HostFtlConfig {
    let mut rng = Rng::stream(seed, "config");
    let victims = [Victim::Greedy, Victim::Fifo, Victim::CostBenefit, Victim::Random, Victim::Lru];
    let cost = Nanos(rng.below(2) * (1 + rng.below(40)));
    HostFtlConfig {
        over_provisioning: 1.4,
        buffer_sectors: 8 << rng.below(3),
        spare_chunks: 2,
        victim: victims[rng.below(5) as usize],
        separation: if seed % 3 == 2 { Separation::GcCopies } else { Separation::Off },
        durability: match rng.below(3) {
            0 => Durability::Volatile,
            1 => Durability::Journal { checkpoint_every: 0 },
            _ => Durability::Journal { checkpoint_every: 7 },
        },
        cpu: CpuCosts {
            cores: 1 + rng.below(3) as u32,
            submit_ns: cost,
            sector_ns: Nanos(cost.0 / 4),
            command_ns: cost,
            completion_ns: cost,
        },
        ..HostFtlConfig::default()
    }
}

pub fn drive(seed: u64) -> Reference {
    let mut rng = Rng::stream(seed, "drive");
    let write = 1 << rng.below(3);
    let rows = 4 + rng.below(5) as u32;
    let units = 2 + rng.below(3) as u32;
    let chunks = 18 + rng.below(6) as u32;
    Reference::new(geometry(1 + rng.below(2) as u32, units, chunks, rows * write, write), seed)
}

/// Makes the drive hold back one to three writes of each open chunk, and gives the host a buffer for them.
pub fn hold_back(seed: u64, config: &mut HostFtlConfig, reference: &mut Reference) {
    let geometry = &mut reference.geometry;
    geometry.cached_sectors = geometry.write_min_sectors * (1 + seed as u32 % 3);
    config.buffer_sectors = 0;
    config.separation = Separation::Off;
    config.over_provisioning = 2.5;
}

fn run(seed: u64, faults: Faults, steps: u32) -> World {
    run_on(&config(seed), drive(seed), seed, faults, steps)
}

fn run_on(config: &HostFtlConfig, mut reference: Reference, seed: u64, faults: Faults, steps: u32) -> World {
    reference.faults = faults;
    // Some chunks are bad from the factory.
    reference.retire(3);
    reference.retire(reference.geometry.chunks + 5);
    exercise(World::new(config, reference, seed), steps)
}

/// Runs random commands until `steps` are over and GC has reclaimed some lines; then compares every sector.
pub fn exercise<D: Below>(mut world: World<D>, steps: u32) -> World<D> {
    for step in 0..40_000 {
        if step > steps && world.host.layer.counters().erased_lines > 3 {
            break;
        }
        let depth = 1 + world.rng.below(24) as usize;
        while world.outstanding() < depth && world.rng.chance(0.8) {
            world.submit();
        }
        world.step();
        world.check();
    }
    world.drain();
    world.check();
    world.compare();
    world
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn random_commands_match_a_plain_map() {
    for seed in 0..24 {
        let world = run(seed, Faults::default(), 1500);
        assert_eq!((world.lost, world.refused), (0, 0), "seed {seed}");
        assert!(world.host.layer.counters().erased_lines > 3, "seed {seed} never collected");
    }
}

/// Checks a target on some chunks of each parallel unit, as many as a separate drive has; the other chunks
/// stay unchanged.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_range_of_chunks_is_like_a_drive_of_its_own() {
    for seed in 40..52 {
        let mut wide = drive(seed);
        let chunks = wide.geometry.chunks;
        let (before, behind) = (1 + seed as u32 % 5, seed as u32 % 3);
        wide = Reference::new(ChunkGeometry { chunks: before + chunks + behind, ..wide.geometry }, seed);
        let config = HostFtlConfig { first_chunk: before, chunks, ..config(seed) };
        let mut world = exercise(World::new(&config, wide, seed), 1000);
        assert_eq!((world.lost, world.refused), (0, 0), "seed {seed}");
        let free = |chunk: &u32| (before..before + chunks).contains(&(chunk % (before + chunks + behind)));
        assert!(world.host.drive.used().iter().all(free), "seed {seed}: {:?}", world.host.drive.used());
        if config.durability != Durability::Volatile {
            world.crash(&config);
        }
    }
    let refused = |first_chunk, chunks| {
        let config = HostFtlConfig { first_chunk, chunks, ..HostFtlConfig::default() };
        let layer = HostFtl::new(&config, drive(1).interface(0), 512);
        layer.expect_err("outside").to_string()
    };
    let has = drive(1).geometry.chunks;
    let allowed = format!("host.ftl.first_chunk = {has}: allowed: 0 to {}", has - 1);
    assert_eq!(refused(has, 0), allowed);
    let allowed = format!("host.ftl.chunks = {has}: allowed: 1 to {}, for each unit has {has}", has - 1);
    assert_eq!(refused(1, has), allowed);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn failed_writes_and_resets_lose_nothing() {
    let faults = Faults { write: 0.004, reset: 0.002, read: 0.02 };
    let mut failures = 0;
    for seed in 100..124 {
        let world = run(seed, faults, 1200);
        failures += world.host.layer.counters().write_failures;
        assert!(world.host.layer.counters().read_retries > 0);
    }
    assert!(failures > 20, "{failures} writes failed");
}

#[test]
fn the_same_seed_gives_the_same_run_and_a_clone_the_same_future() {
    let mut first = run(7, Faults::default(), 300);
    let second = run(7, Faults::default(), 300);
    assert_eq!((first.now, first.host.layer.counters()), (second.now, second.host.layer.counters()));
    let mut fork = first.clone();
    for world in [&mut first, &mut fork] {
        for _ in 0..200 {
            world.submit();
            world.step();
        }
        world.drain();
    }
    assert_eq!((first.now, first.host.layer.counters()), (fork.now, fork.host.layer.counters()));
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn sectors_that_the_drive_holds_back_come_from_the_ring() {
    for (seed, write) in (200..224).zip([0.0, 0.004].into_iter().cycle()) {
        let (mut config, mut reference) = (config(seed), drive(seed));
        hold_back(seed, &mut config, &mut reference);
        let world = run_on(&config, reference, seed, Faults { write, reset: write / 2.0, read: 0.0 }, 1200);
        assert_eq!(world.lost, 0, "seed {seed}");
        assert!(write > 0.0 || world.refused == 0, "seed {seed} stores nothing any more");
        assert!(write > 0.0 || world.host.layer.counters().erased_lines > 3, "seed {seed} never collected");
    }
}

/// Checks a superpage that holds a page twice, with a trim in between: the trim applies only to the older
/// version.
#[test]
fn a_trim_between_two_versions_in_one_superpage_spares_the_newer() {
    let superpage = 4;
    for cached in [0, superpage] {
        let mut geometry = geometry(1, 2, 20, 8 * superpage, superpage);
        geometry.cached_sectors = cached;
        let config = HostFtlConfig { over_provisioning: 2.5, ..HostFtlConfig::default() };
        let mut host = start(&config, Reference::new(geometry, 1), SimTime::ZERO);
        let mut run = |opcode, lba, fill: u8| {
            let bytes = if opcode == Opcode::Trim { 0 } else { host.image_bytes() };
            host.submit(host.now(), Command::new(0, opcode, Lba(lba), 1, vec![fill; bytes]));
            loop {
                if let Some(Completion { data, .. }) = host.pop() {
                    return data;
                }
                let next = host.next_event().expect("the command ends");
                host.advance(next);
            }
        };
        run(Opcode::Write, 5, 1);
        run(Opcode::Trim, 5, 0);
        for lba in [5, 6, 7] {
            run(Opcode::Write, lba, 2);
        }
        assert_eq!(run(Opcode::Read, 5, 0)[0], 2, "from the ring");
        // The writes exceed the ring.
        (8..80).for_each(|lba| drop(run(Opcode::Write, lba, 3)));
        assert_eq!(run(Opcode::Read, 5, 0)[0], 2, "from the media, {cached} sectors held back");
    }
}

/// Checks that a flush waits for earlier trims, and not for those that arrive meanwhile.
#[test]
fn trims_that_go_on_do_not_keep_a_flush_waiting() {
    let cpu = CpuCosts { submit_ns: Nanos(20), ..CpuCosts::FREE };
    let durability = Durability::Journal { checkpoint_every: 1 << 40 };
    let config = HostFtlConfig { over_provisioning: 1.4, durability, cpu, ..HostFtlConfig::default() };
    // Several programs are under way at any time.
    let geometry = ChunkGeometry { write_ns: [Nanos(2_000); 2], ..geometry(1, 4, 40, 8 * 4, 4) };
    let mut host = start(&config, Reference::new(geometry, 1), SimTime::ZERO);
    let (mut flushed, mut rng) = (None, Rng::new(5));
    for n in 0..4_000u64 {
        let bytes = host.image_bytes();
        let mut submit = |opcode, bytes| {
            host.submit(host.now(), Command::new(n, opcode, Lba(rng.below(64)), 1, vec![1; bytes]));
        };
        (0..4).for_each(|_| submit(Opcode::Write, bytes));
        (0..4).for_each(|_| submit(Opcode::Trim, 0));
        if n == 1_000 {
            host.submit(host.now(), Command::new(u64::MAX, Opcode::Flush, Lba(0), 0, Vec::new()));
        }
        host.advance(SimTime(host.now().0 + 160));
        while let Some(completion) = host.pop() {
            if completion.tag == u64::MAX {
                flushed = Some(n);
            }
        }
    }
    assert!(flushed.is_some_and(|n| n < 2_000), "the flush of round 1000 ended in round {flushed:?}");
}

/// Limits the drive's open chunks to the minimum that a host FTL needs.
pub fn limit(config: &HostFtlConfig, reference: &mut Reference) {
    let geometry = &mut reference.geometry;
    let most = 3 + u32::from(config.separation != Separation::Off);
    geometry.open_chunks_per_unit_max = most;
    geometry.open_chunks_max = most * geometry.parallel_units();
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn no_more_chunks_are_open_than_the_drive_allows() {
    for (seed, write) in (300..324).zip([0.0, 0.004].into_iter().cycle()) {
        let config = HostFtlConfig { over_provisioning: 2.5, ..config(seed) };
        let mut reference = drive(seed);
        limit(&config, &mut reference);
        let world = run_on(&config, reference, seed, Faults { write, reset: write / 2.0, read: 0.0 }, 1500);
        assert_eq!(world.host.drive.too_many_open, 0, "seed {seed}");
        assert!(write > 0.0 || world.refused == 0, "seed {seed} stores nothing any more");
    }
}

#[test]
fn limits_of_open_chunks_that_are_too_low_are_refused_by_their_key() {
    let config = HostFtlConfig { over_provisioning: 1.4, ..HostFtlConfig::default() };
    let apart = HostFtlConfig { separation: Separation::GcCopies, ..config.clone() };
    for (config, per_unit, all, refused) in [
        (&config, 2, 0, "drive.namespace.open_per_unit_max = 2: allowed: 0, or at least 3: "),
        (&apart, 3, 0, "drive.namespace.open_per_unit_max = 3: allowed: 0, or at least 4: "),
        (&config, 0, 11, "drive.namespace.open_max = 11: allowed: 0, or at least 12: "),
    ] {
        let mut geometry = geometry(1, 4, 20, 32, 4);
        (geometry.open_chunks_per_unit_max, geometry.open_chunks_max) = (per_unit, all);
        let reference = Reference::new(geometry, 1);
        let error = HostFtl::new(config, reference.interface(0), 512).expect_err("too low").to_string();
        assert!(error.starts_with(refused), "{error}");
    }
}

/// Checks that absurdly large numbers in a description are refused, and not used in calculations.
#[test]
fn numbers_out_of_all_proportion_are_refused() {
    let config = HostFtlConfig::default();
    for (config, geometry, key) in [
        (
            HostFtlConfig { spare_chunks: u32::MAX, ..config.clone() },
            geometry(1, 4, 20, 32, 4),
            "host.ftl.spare_chunks",
        ),
        (config.clone(), geometry(8, 16, 8, 1 << 26, 4), "host.ftl.units"),
    ] {
        let error = HostFtl::new(&config, Some(Interface::OpenChannel(geometry)), 512).expect_err("absurd");
        assert!(error.to_string().starts_with(key), "{error}");
    }
}

/// Checks that the content of translation pages is in memory: a page that GC cannot read is written again,
/// and its line stays in service.
#[test]
fn segments_that_cannot_be_read_cost_nothing() {
    let mut retried = 0;
    for seed in 400..406 {
        let durability = Durability::Journal { checkpoint_every: 1 << 40 };
        let config = HostFtlConfig { durability, ..config(seed) };
        let mut world = exercise(World::new(&config, drive(seed), seed), 300);
        let (lines, first) = (world.host.layer.free_lines().1, world.host.layer.capacity_sectors() as u32);
        assert!(world.host.drive.tear_pages(first) > 0);
        let collected = world.host.layer.counters().erased_lines;
        world.trims = false;
        let deadline = world.now.0 + 10_000_000;
        while world.host.layer.counters().erased_lines < collected + 60 && world.now.0 < deadline {
            while world.outstanding() < 8 {
                world.submit();
            }
            world.step();
        }
        retried += world.host.layer.counters().read_retries;
        world.drain();
        world.compare();
        assert_eq!((world.host.layer.counters().lost_reads, world.lost), (0, 0), "seed {seed}");
        assert_eq!(world.host.layer.free_lines().1, lines, "seed {seed}");
        world.host.stop().expect("room for the map");
        world.stopped();
        world.restart(&config);
    }
    assert!(retried > 0, "no translation page was read");
}

/// Checks that a start with unreadable translation pages never undoes a trim; nor do later starts, after
/// other translation pages were written.
#[test]
fn trims_in_translation_pages_that_a_start_cannot_read_stay() {
    let (mut lost, mut again) = (0, 0);
    for seed in 500..512 {
        let durability = Durability::Journal { checkpoint_every: 4 };
        let config = HostFtlConfig { durability, ..config(seed) };
        let mut world = exercise(World::new(&config, drive(seed), seed), 300);
        world.host.stop().expect("room for the map");
        world.stopped();
        assert!(world.host.drive.spoil_pages(world.host.layer.capacity_sectors() as u32) > 0);
        lost += world.restart(&config).report.lost_units;
        let before = world.lost;
        for _ in 0..200 {
            world.submit();
            world.step();
        }
        world.drain();
        world.check();
        world.compare();
        world.host.stop().expect("room for the map");
        world.stopped();
        assert_eq!(
            world.restart(&config).report.lost_units,
            0,
            "seed {seed}: the new translation pages can be read"
        );
        again += world.lost - before;
    }
    assert!(lost > 0 && again > 0, "{lost} sectors, {again} reads");
}

/// Checks that an index which the drive has refused at a stop is still there when the drive takes it later.
#[test]
fn an_index_that_the_drive_refuses_is_written_once_it_takes_writes_again() {
    const INDEX: u32 = u32::MAX - 2;
    let mut refused = 0;
    for seed in 500..512 {
        let durability = Durability::Journal { checkpoint_every: 1000 };
        let config = HostFtlConfig { durability, ..config(seed) };
        let mut world = exercise(World::new(&config, drive(seed), seed), 200);
        world.host.drive.refused_page = Some(INDEX);
        world.host.stop().expect("all data are on the media");
        refused += world.host.drive.refused;
        world.host.drive.refused_page = None;
        for _ in 0..40 {
            world.submit();
            world.step();
        }
        world.drain();
        world.check();
        world.compare();
        world.host.stop().expect("room for the map");
        world.stopped();
        assert_eq!(world.restart(&config).report.replay_reads, 0, "seed {seed}");
        world.compare();
    }
    assert!(refused > 0, "no index was refused");
}
