//! A map in flash on one die under random writes: translation pages that GC waits for find space ahead of those that only a checkpoint or an
//! eviction wants, so the drive never runs out of blocks while it has spare ones.

#[expect(dead_code, reason = "most is of caches")]
#[path = "../cache/config.rs"]
mod config;

use config::{Shape, config};
use pellucid_device::{Device, Namespace};
use pellucid_flash::{Command, Lba, Opcode, Rng, SimTime, Status};
use pellucid_ftl::Map;

/// Sectors of a mapping unit.
const SECTORS: u32 = 2;

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn random_writes_never_run_out_of_blocks_with_a_third_of_the_map_cached() {
    let base = Shape {
        unit_bytes: 1024,
        blocks: 128,
        over_provisioning: 0.2,
        checkpoint_every: 0,
        ..Shape::small()
    };
    let mut config = config(&base);
    config.media.geometry.pages = 64;
    config.buffer.entries = 1024;
    config.ftl.map = Map::Demand { cache_bytes: 64 << 10 };
    config.ftl.gc_parallel = 1;
    config.namespaces = vec![Namespace::Block { blocks: 0..base.blocks }];
    let mut device = Device::new(&config).unwrap_or_else(|error| panic!("{error}"));
    let units = device.namespace(0).capacity_sectors() / u64::from(SECTORS);
    let (mut rng, mut now) = (Rng::stream(1, "random writes"), SimTime::ZERO);
    for n in 0..6 * units {
        let unit = if n < units { n } else { rng.below(units) };
        let data = vec![0; SECTORS as usize * device.image_bytes()];
        let write = Command::new(n, Opcode::Write, Lba(unit * u64::from(SECTORS)), SECTORS, data);
        device.submit(now, write);
        let done = loop {
            if let Some(done) = device.pop() {
                break done;
            }
            now = device.next_event().expect("a write ends");
            device.advance(now);
        };
        assert_eq!(done.status, Status::Success, "write {n} on {units} units");
    }
    device.check();
}
