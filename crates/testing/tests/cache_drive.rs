//! The cache manager on the modelled solid-state cache: against what is known of every sector, over crashes of the drive, of the program and
//! of both, in both modes and with both guarantees. The world is that of the manager's own tests, where a reference drive caches.

#![allow(clippy::print_stdout, reason = "where a test that fails was")]
#![allow(dead_code, reason = "other parts of what is shared are for other tests")]

#[path = "../../host/tests/it/block_reference.rs"]
mod block_reference;
#[path = "../../host/tests/it/reference.rs"]
mod reference;
#[path = "../../host/tests/it/cache/ssc.rs"]
mod ssc;
#[path = "../../host/tests/it/cache/world.rs"]
mod world;

use block_reference::BlockReference;
use pellucid_device::Device;
use pellucid_flash::{Command, Completion, Drive, Interface, Nanos, Opcode, SimTime};
use pellucid_host::{CacheConfig, CacheMode, Layer, StoreIdentity};
use reference::Faults;
use world::{Crash, Crashing, World};

/// Small, so that a thousand writes fill it.
const DRIVE: &str = r#"
[drive.media]
channels = 2
ways = 2
blocks = 16
pages = 8
page_size = "8KiB"
sector_size = 512
unit_size = "4KiB"
cell = "slc"
store = "ram"
[drive.media.timing]
read = "50us"
program = "200us"
erase = "2ms"
channel_rate = "200MB/s"
[drive.ftl]
durability = "journal"
[drive.buffer]
entries = 32
"#;

/// A modelled drive. It has no faults to be set.
#[derive(Clone)]
struct Modelled {
    device: Device,
    faults: Faults,
}

impl Crashing for Modelled {
    fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    fn cut(&mut self) {
        self.device.power_cut().expect("its own media");
        // What the cut interrupted ends for nobody.
        while self.device.pop().is_some() {}
    }

    fn abandon(&mut self) {
        // What it has begun it ends.
        while self.device.outstanding() > 0 {
            let next = self.device.next_event().expect("commands under way");
            Drive::advance(&mut self.device, next);
            while self.device.pop().is_some() {}
        }
        while self.device.pop().is_some() {}
    }
}

impl Drive for Modelled {
    fn namespaces(&self) -> u16 {
        1
    }
    fn interface(&self, namespace: u16) -> Option<Interface> {
        Drive::interface(&self.device, namespace)
    }
    fn image_bytes(&self) -> usize {
        Drive::image_bytes(&self.device)
    }
    fn submit(&mut self, now: SimTime, command: Command) {
        Drive::submit(&mut self.device, now, command);
    }
    fn advance(&mut self, now: SimTime) {
        Drive::advance(&mut self.device, now);
    }
    fn next_event(&self) -> Option<SimTime> {
        Drive::next_event(&self.device)
    }
    fn pop(&mut self) -> Option<Completion> {
        Drive::pop(&mut self.device)
    }
    fn outstanding(&self) -> usize {
        Drive::outstanding(&self.device)
    }
    fn completed(&self) -> usize {
        Drive::completed(&self.device)
    }
}

/// Settings of a map that a cache may have.
type MapSettings = &'static [&'static str];
const PAGE: MapSettings = &["drive.ftl.over_provisioning=0.5"];
const FAST: MapSettings =
    &["drive.ftl.map=fast", "drive.ftl.log_blocks=2", "drive.ftl.over_provisioning=1.0"];
const BAST: MapSettings =
    &["drive.ftl.map=bast", "drive.ftl.log_blocks=2", "drive.ftl.over_provisioning=1.0"];

fn world(mode: CacheMode, guarantee: &str, eviction: &str, map: MapSettings, seed: u64) -> World<Modelled> {
    let namespace = format!(
        "drive.namespace=[{{ interface = \"cache\", address_space = \"8MiB\", eviction = \"{eviction}\", guarantee = \"{guarantee}\" }}]"
    );
    let settings: Vec<String> = map.iter().map(|&setting| setting.into()).chain([namespace]).collect();
    let spec = pellucid_spec::from_str(DRIVE, "a small cache", &settings).expect("a drive");
    let device = Device::new(&spec.drive).expect("room");
    let config = CacheConfig {
        mode,
        sector_bytes: 512,
        durable_commands: guarantee == "write-dirty",
        dirty_percent: 60,
        fallow: Nanos(3_000_000),
        clean_blocks: 8,
        sequential_bytes: 512 * 24,
        store: StoreIdentity { id: 7, name: "the store".into() },
        ..CacheConfig::default()
    };
    // Larger than the cache, so that blocks leave.
    let backing = BlockReference::new(8 * 1000 + 3, seed ^ 1);
    World::on(config, Modelled { device, faults: Faults::default() }, backing, seed)
}

fn exercise(world: &mut World<Modelled>, steps: u32) {
    for _ in 0..steps {
        while world.outstanding() < 8 && world.rng.chance(0.7) {
            world.submit();
        }
        if !world.step() {
            world.submit();
        }
    }
}

fn lives(guarantee: &str, map: MapSettings) {
    let mut evicted = 0;
    for (seed, (mode, eviction)) in (0..).zip([
        (CacheMode::WriteBack, "se-util"),
        (CacheMode::WriteBack, "se-merge"),
        (CacheMode::WriteThrough, "se-util"),
        (CacheMode::WriteThrough, "se-merge"),
    ]) {
        let mut world = world(mode, guarantee, eviction, map, seed);
        for life in 0..12 {
            println!("{guarantee}, {}, {eviction}, life {life}", mode.name());
            exercise(&mut world, 2_000);
            let mut forked = world.clone();
            forked.crash(Crash::ALL[(life + 1) % 3]);
            exercise(&mut forked, 50);
            world.crash(Crash::ALL[life % 3]);
        }
        evicted += world.host.drive.first.device.ftl_counters().evicted_units;
    }
    assert!(evicted > 0, "clean blocks were evicted silently");
}

#[test]
fn flushed_data_survive_crashes() {
    lives("flush", PAGE);
}

#[test]
fn commands_that_are_durable_survive_crashes() {
    lives("write-dirty", PAGE);
}

#[test]
fn log_blocks_survive_crashes() {
    lives("flush", FAST);
    lives("write-dirty", BAST);
}

/// A block of each erase unit, so that as many as may be hold dirty blocks, and some were cleaned: after a crash these are dirty again, more than
/// the cache may hold. It takes writes all the same, as the manager cleans first.
#[test]
fn a_cache_full_of_dirty_erase_units_takes_writes_after_a_crash() {
    for map in [FAST, BAST] {
        for eviction in ["se-util", "se-merge"] {
            for who in Crash::ALL {
                println!("{map:?}, {eviction}, {who:?}");
                let mut world = world(CacheMode::WriteBack, "flush", eviction, map, 1);
                let before = world.host.layer.counters().full;
                for unit in 0..60 {
                    world.ask(Opcode::Write, unit * 16 * 8, 8, false);
                    world.drain();
                }
                world.ask(Opcode::Flush, 0, 0, false);
                world.drain();
                assert!(world.host.layer.counters().full > before, "it was full of dirty blocks");
                world.crash(who);
                assert!(!world.host.layer.is_read_only());
                let failed = world.failed;
                for unit in 0..60 {
                    world.ask(Opcode::Write, unit * 16 * 8, 8, false);
                }
                world.drain();
                assert_eq!(world.failed, failed, "it takes writes");
                world.check();
            }
        }
    }
}
