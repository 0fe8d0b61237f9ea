//! Effect of silent eviction on a whole run, against a block drive of the same media.

use crate::config::{Shape, config};
use pellucid_device::{Device, DeviceConfig, Namespace};
use pellucid_flash::{CacheOp, Cause, Command, Drive, Interface, Lba, Opcode, Rng, SimTime, Status};
use pellucid_ftl::Eviction;

/// Cost of a run: erases, and units that GC copied.
#[derive(Clone, Copy, Debug)]
struct Cost {
    erases: u64,
    copied: u64,
    evicted: u64,
}

/// Random writes of a block each, eight at a time: first one of every block of the span, then `count` more.
fn cost(config: &DeviceConfig, opcode: Opcode, span: u64, count: u64) -> Cost {
    let mut drive = Device::new(config).unwrap_or_else(|e| panic!("{e}"));
    let unit = drive.layout().sectors_per_unit;
    let bytes = unit as usize * drive.image_bytes();
    let mut rng = Rng::new(3);
    let mut now = SimTime::ZERO;
    let mut before = (0, 0, 0);
    for at in 0..span + count {
        let block = if at < span { at } else { rng.below(span) };
        let lba = Lba(block * u64::from(unit));
        drive.submit(now, Command::new(1, opcode, lba, unit, vec![1; bytes]));
        while drive.outstanding() - drive.completed() >= 8 {
            now = drive.next_event().expect("commands are under way");
            drive.advance(now);
        }
        while let Some(done) = drive.pop() {
            assert_eq!(done.status, Status::Success);
        }
        if at + 1 == span {
            before = sums(&drive);
        }
    }
    drive.check();
    let after = sums(&drive);
    Cost { erases: after.0 - before.0, copied: after.1 - before.1, evicted: after.2 - before.2 }
}

fn sums(drive: &Device) -> (u64, u64, u64) {
    let ftl = drive.ftl_counters();
    (drive.counters().erases[Cause::Gc as usize], ftl.copied_units, ftl.evicted_units)
}

fn shape() -> Shape {
    Shape { blocks: 64, over_provisioning: 0.15, checkpoint_every: 0, ..Shape::small() }
}

/// Makes a block drive of the same media.
fn block_drive(cache: &DeviceConfig) -> DeviceConfig {
    let mut config = cache.clone();
    config.namespaces = vec![Namespace::Block { blocks: 0..config.media.geometry.blocks }];
    config
}

fn units(config: &DeviceConfig) -> u64 {
    let drive = Device::new(config).unwrap_or_else(|e| panic!("{e}"));
    match drive.interface(0) {
        Some(Interface::Cache(geometry)) => geometry.units,
        other => panic!("{other:?}"),
    }
}

/// A read cache that misses: every miss brings a clean block. On a block drive it overwrites one of the blocks that it has.
#[test]
fn clean_data_cost_no_copies() {
    let cache = config(&shape());
    let (units, count) = (units(&cache), 30_000);
    let silent = cost(&cache, Opcode::Cache(CacheOp::WriteClean), 8 * units, count);
    let block = cost(&block_drive(&cache), Opcode::Write, units, count);
    assert_eq!(silent.copied, 0, "{silent:?}");
    assert!(silent.evicted > count / 2, "{silent:?}");
    assert!(silent.erases * 2 < block.erases, "{silent:?}, block drive {block:?}");
}

/// With dirty data alone there is nothing to evict: a cache is a block drive of as many blocks.
#[test]
fn dirty_data_cost_what_they_cost_a_page_map() {
    let cache = config(&shape());
    let (span, count) = (units(&cache) * 9 / 10, 30_000);
    let dirty = cost(&cache, Opcode::Cache(CacheOp::WriteDirty), span, count);
    let block = cost(&block_drive(&cache), Opcode::Write, span, count);
    assert_eq!(dirty.evicted, 0, "{dirty:?}");
    let difference = dirty.copied.abs_diff(block.copied);
    assert!(difference * 20 < block.copied, "{dirty:?}, block drive {block:?}");
}

/// Result of a read cache with a cold and a hot set of dirty blocks under one choice of blocks for copies.
#[derive(Clone, Copy, Debug)]
struct Mixed {
    cost: Cost,
    hits: u64,
    reads: u64,
}

/// Dirty blocks that stay as they are fill 0.45 of the cache; 0.1 of it is overwritten again and again; all else takes what reads miss.
fn mixed(eviction: Eviction) -> Mixed {
    let config = config(&Shape { eviction, ..shape() });
    let units = units(&config);
    let mut drive = Device::new(&config).unwrap_or_else(|e| panic!("{e}"));
    let unit = drive.layout().sectors_per_unit;
    let bytes = unit as usize * drive.image_bytes();
    let mut rng = Rng::new(5);
    let (cold, hot, clean) = (units * 45 / 100, units / 10, units);
    let mut ask = |opcode, block: u64| {
        let now = drive.now();
        drive.submit(now, Command::new(1, opcode, Lba(block * u64::from(unit)), unit, vec![1; bytes]));
        loop {
            if let Some(done) = drive.pop() {
                return (done.status, sums(&drive));
            }
            let next = drive.next_event().expect("a command ends");
            drive.advance(next);
        }
    };
    // The cold set comes in between the hot one, so that both lie in the same blocks at first.
    for at in 0..cold {
        assert_eq!(ask(Opcode::Cache(CacheOp::WriteDirty), at).0, Status::Success);
        assert_eq!(ask(Opcode::Cache(CacheOp::WriteDirty), cold + at % hot).0, Status::Success);
    }
    let mut before = None;
    let (mut hits, mut reads, mut sums) = (0, 0, (0, 0, 0));
    for at in 0..60_000u64 {
        if at == 20_000 {
            (before, hits, reads) = (Some(sums), 0, 0);
        }
        sums = if rng.chance(0.5) {
            let (status, sums) = ask(Opcode::Cache(CacheOp::WriteDirty), cold + rng.below(hot));
            assert_eq!(status, Status::Success);
            sums
        } else {
            let block = cold + hot + rng.below(clean);
            reads += 1;
            match ask(Opcode::Read, block) {
                (Status::Success, sums) => {
                    hits += 1;
                    sums
                }
                (Status::Absent, _) => ask(Opcode::Cache(CacheOp::WriteClean), block).1,
                other => panic!("{other:?}"),
            }
        };
    }
    let before = before.expect("it was measured");
    let cost = Cost { erases: sums.0 - before.0, copied: sums.1 - before.1, evicted: sums.2 - before.2 };
    Mixed { cost, hits, reads }
}

/// The two differ in where copies go, and so in what a run costs: with SE-Util cold dirty blocks come together and are left alone.
#[test]
fn copies_in_blocks_of_their_own_are_copied_less() {
    let [util, merge] = [Eviction::SeUtil, Eviction::SeMerge].map(mixed);
    assert!(util.cost.copied * 10 < merge.cost.copied * 9, "{util:?}, {merge:?}");
    assert!(util.cost.erases < merge.cost.erases, "{util:?}, {merge:?}");
    // Fewer copies leave more space for clean blocks: among equally many reads more are hits.
    assert_eq!(util.reads, merge.reads);
    assert!(util.hits > merge.hits, "{util:?}, {merge:?}");
}
