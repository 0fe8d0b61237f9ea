//! The policy level against a plain map of sectors, with failing flash, and with a power cut at every event.

use crate::oracle::{Subject, World};
use crate::reference::{Faults, Reference, geometry};
use pellucid_flash::{Drive, Rng, SimTime};
use pellucid_host::{HostFtlConfig, Machine, Stack};
use pellucid_prism::{Gc, Mapping, Policy, PolicyConfig, PolicyError};
use std::ops::Range;

/// A range: mapping, GC, sectors, over-provisioning.
type Wanted = (Mapping, Gc, Range<u64>, f64);

#[derive(Clone, Debug)]
pub struct Config {
    policy: PolicyConfig,
    ranges: Vec<Wanted>,
}

fn open<D: Drive>(config: &PolicyConfig, drive: D, now: SimTime) -> Result<Stack<Policy, D>, String> {
    let layer = Policy::new(0, drive.interface(0), drive.image_bytes(), config).expect("it is flash");
    Stack::start(layer, drive, now)
}

fn configure<D: Drive>(host: &mut Stack<Policy, D>, wanted: &Wanted) -> Result<(), PolicyError> {
    let (mapping, gc, sectors, over_provisioning) = wanted.clone();
    host.layer.ftl_ioctl(mapping, gc, sectors.start * 512..sectors.end * 512, over_provisioning)?;
    assert!(host.run_until(|layer| layer.is_ready() || layer.failure().is_some(), |_, next| next));
    Ok(())
}

impl Subject for Policy {
    type Config = Config;

    fn start<D: Drive>(config: &Config, drive: D, now: SimTime) -> Stack<Policy, D> {
        let mut host = open(&config.policy, drive, now).expect("it starts");
        for wanted in &config.ranges {
            configure(&mut host, wanted).expect("the range fits");
        }
        host
    }

    fn check(&self) {
        Policy::check(self);
    }
}

fn drive(seed: u64, faults: Faults) -> Reference {
    let mut rng = Rng::stream(seed, "policy drive");
    let write = 1 << rng.below(3);
    let (groups, units) = (1 + rng.below(2) as u32, 2 + rng.below(2) as u32);
    let mut drive =
        Reference::new(geometry(groups, units, 72, (4 + rng.below(4) as u32) * write, write), seed);
    drive.faults = faults;
    drive
}

fn gc(rng: &mut Rng) -> Gc {
    Gc::ALL[rng.below(4) as usize]
}

/// Two adjacent ranges of pages.
fn pages(seed: u64) -> Config {
    let mut rng = Rng::stream(seed, "policy config");
    let split = 30 + rng.below(60);
    let end = split + 40 + rng.below(60);
    let host_ftl = HostFtlConfig { buffer_sectors: 16, spare_chunks: 2, ..HostFtlConfig::default() };
    let ranges =
        vec![(Mapping::Page, gc(&mut rng), 0..split, 1.0), (Mapping::Page, gc(&mut rng), split..end, 0.5)];
    Config { policy: PolicyConfig { format: false, host_ftl }, ranges }
}

/// Two ranges of blocks; the second one has hardly more chunks than blocks.
fn blocks(seed: u64) -> Config {
    let mut config = pages(seed);
    for (mapping, ..) in &mut config.ranges {
        *mapping = Mapping::Block;
    }
    config.ranges[1].3 = 0.0;
    config
}

/// One range of each.
fn both(seed: u64) -> Config {
    let mut config = pages(seed);
    config.ranges[seed as usize % 2].0 = Mapping::Block;
    config
}

fn exercise(config: &Config, seed: u64, faults: Faults, steps: u32) -> World<Reference, Policy> {
    let mut world: World<Reference, Policy> = World::of(config, drive(seed, faults), seed);
    for _ in 0..steps {
        let depth = 1 + world.rng.below(16) as usize;
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

/// The layer's counter with this name.
pub fn figure(layer: &Policy, name: &str) -> u64 {
    layer.figures().iter().filter(|figure| figure.name == name).map(|figure| figure.value).sum()
}

/// Returns figures of all runs.
fn matches_a_plain_map<const N: usize>(config: impl Fn(u64) -> Config, names: [&str; N]) -> [u64; N] {
    let mut sums = [0; N];
    for seed in 0..12 {
        let world = exercise(&config(seed), seed, Faults::default(), 2500);
        assert_eq!((world.lost, world.refused), (0, 0), "seed {seed}");
        (0..N).for_each(|i| sums[i] += figure(&world.host.layer, names[i]));
    }
    sums
}

fn loses_nothing_on_failing_flash(config: impl Fn(u64) -> Config) {
    let mut failures = 0;
    for seed in 100..112 {
        let world = exercise(&config(seed), seed, Faults { write: 0.003, reset: 0.002, read: 0.01 }, 1500);
        failures += figure(&world.host.layer, "write_failures");
    }
    assert!(failures > 20, "{failures} writes failed");
}

fn survives_cuts(config: impl Fn(u64) -> Config, seeds: Range<u64>, faults: Faults, warm: u32, events: u32) {
    for seed in seeds {
        let config = config(seed);
        let mut world: World<Reference, Policy> = World::of(&config, drive(seed, faults), seed);
        for event in 0..warm + events {
            while world.outstanding() < 6 && world.rng.chance(0.7) {
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
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn ranges_of_pages_match_a_plain_map() {
    let [lines] = matches_a_plain_map(pages, ["erased_lines"]);
    assert!(lines > 100, "{lines} lines were erased");
}

#[test]
fn ranges_of_pages_lose_nothing_on_failing_flash() {
    loses_nothing_on_failing_flash(pages);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn ranges_of_pages_survive_a_power_cut_at_any_event() {
    survives_cuts(pages, 20..24, Faults::default(), 600, 80);
    survives_cuts(pages, 24..26, Faults::default(), 0, 80);
}

#[test]
fn ranges_of_blocks_match_a_plain_map() {
    let names =
        ["block_map_merges", "block_map_erases", "block_map_copied_bytes", "block_map_programmed_bytes"];
    let [merges, erases, copied, programmed] = matches_a_plain_map(blocks, names);
    assert!(merges > 500 && erases > 4000, "{merges} merges, {erases} erases");
    assert!(0 < copied && copied < programmed, "{copied} of {programmed} bytes were copies");
}

#[test]
fn ranges_of_blocks_lose_nothing_on_failing_flash() {
    loses_nothing_on_failing_flash(blocks);
}

/// On flash where so many writes fail that no chunk is left, also after a start, writes are refused, and no work loops for ever.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn ranges_of_blocks_end_when_no_chunk_is_left() {
    let mut refused = 0;
    for seed in 0..40 {
        let config = blocks(seed);
        let faults = Faults { write: 0.05, reset: 0.02, read: 0.002 };
        let mut world = exercise(&config, seed, faults, 1500);
        for _ in 0..2 {
            world.crash(&config);
            for _ in 0..300 {
                world.submit();
                world.step();
            }
            world.drain();
            world.check();
        }
        refused += world.refused;
    }
    assert!(refused > 0, "all drives took writes to the end");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn ranges_of_blocks_survive_a_power_cut_at_any_event() {
    survives_cuts(blocks, 30..36, Faults::default(), 300, 100);
    survives_cuts(blocks, 36..38, Faults::default(), 0, 100);
    survives_cuts(blocks, 40..44, Faults { write: 0.003, reset: 0.002, read: 0.0 }, 300, 80);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn ranges_of_both_kinds_share_the_flash() {
    let [lines, erases] = matches_a_plain_map(both, ["erased_lines", "block_map_erases"]);
    assert!(lines > 50 && erases > 1000, "{lines} lines, {erases} blocks");
    survives_cuts(both, 50..54, Faults::default(), 300, 60);
}

/// The record is written while ranges are configured: after a cut at any event, a start finds the ranges before it, or one more.
#[test]
fn ranges_survive_a_power_cut_while_they_are_configured() {
    for seed in 0..6 {
        let config = pages(seed);
        let mut drive = drive(seed, Faults::default());
        // The homes fill up and are erased in turn.
        for round in 0..40 {
            let mut host = open(&config.policy, drive, SimTime::ZERO).expect("it starts");
            let known = host.layer.remembered_ranges().count();
            assert!(known >= usize::from(round > 0), "seed {seed}, round {round}: {known} ranges");
            let at = 10_000 * (round + 1);
            let (mapping, _, sectors, share) = config.ranges[0].clone();
            let other = (mapping, Gc::Fifo, sectors.start + at..sectors.end + at, share);
            let wanted = if round == 0 { &config.ranges[0] } else { &other };
            let before = host.clone();
            let result = configure(&mut host, wanted);
            if result.is_ok() {
                let mut cut = before;
                let (mapping, gc, sectors, share) = wanted.clone();
                cut.layer
                    .ftl_ioctl(mapping, gc, sectors.start * 512..sectors.end * 512, share)
                    .expect("as before");
                while !cut.layer.is_ready() {
                    let next = cut.next_event().expect("it goes on");
                    cut.advance(next);
                    let mut drive = cut.drive.clone();
                    drive.power_cut();
                    let again = open(&config.policy, drive, cut.now()).expect("it starts");
                    let found = again.layer.remembered_ranges().count();
                    assert!((known..=known + 1).contains(&found), "{found} of {known}");
                }
            }
            drive = host.drive;
            drive.power_cut();
        }
    }
}

#[test]
fn ranges_that_differ_are_refused_until_a_format() {
    let config = pages(3);
    let mut host = open(&config.policy, drive(3, Faults::default()), SimTime::ZERO).expect("it starts");
    let (mapping, gc, sectors, share) = config.ranges[0].clone();
    configure(&mut host, &config.ranges[0]).expect("it fits");
    let sentence = |host: &mut Stack<Policy, Reference>, wanted: Wanted| {
        configure(host, &wanted).expect_err("it differs").to_string()
    };
    let end = sectors.end * 512;
    assert_eq!(
        sentence(&mut host, config.ranges[0].clone()),
        format!("range 0 to {end}: it overlaps one that is configured")
    );
    assert_eq!(
        sentence(&mut host, (mapping, gc, 5..5, share)),
        "range 2560 to 2560: allowed: multiples of the 512 bytes of a sector, the first below the second"
    );
    assert!(sentence(&mut host, (mapping, gc, 1000..1 << 30, share)).contains("does not fit"));
    assert!(sentence(&mut host, (mapping, gc, 1000..1010, f64::NAN)).contains("allowed: 0 to 100"));
    let drive = host.drive;
    let mut host = open(&config.policy, drive, SimTime::ZERO).expect("it starts again");
    assert_eq!(
        sentence(&mut host, (mapping, gc, 0..sectors.end + 1, share)),
        format!(
            "range 0 to {}: the flash holds data of the range 0 to {end}, mapped by Page, over-provisioning 1; allowed: this range, or a format",
            end + 512
        )
    );
    configure(&mut host, &(mapping, Gc::Fifo, sectors, share)).expect("another GC is allowed");
    let drive = host.drive;
    let format = PolicyConfig { format: true, ..config.policy };
    let mut host = open(&format, drive, SimTime::ZERO).expect("it is formatted");
    assert_eq!(host.layer.remembered_ranges().count(), 0);
    let room = host.layer.room_for(Mapping::Page, 0.3);
    configure(&mut host, &(Mapping::Page, Gc::Lru, 0..room / 512, 0.3)).expect("it fits");
    assert!(room > 0 && host.layer.room_for(Mapping::Page, 0.3) == 0);

    // Foreign data.
    let mut drive = drive_with_foreign_data();
    let refused = open(&PolicyConfig::default(), drive.clone(), SimTime::ZERO).unwrap_err();
    assert!(refused.contains("formatted first"), "{refused}");
    drive = open(&format, drive, SimTime::ZERO).expect("it is formatted").drive;
    assert!(open(&PolicyConfig::default(), drive, SimTime::ZERO).is_ok());
}

fn drive_with_foreign_data() -> Reference {
    let mut world: World = World::new(
        &HostFtlConfig { over_provisioning: 1.4, ..HostFtlConfig::default() },
        drive(4, Faults::default()),
        4,
    );
    (0..200).for_each(|_| world.submit());
    world.drain();
    let mut drive = world.host.drive;
    // Nothing of the host FTL is in flight any more.
    drive.power_cut();
    drive
}
