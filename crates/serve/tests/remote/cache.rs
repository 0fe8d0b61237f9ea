//! A cache of another server through its vendor commands: every command, its result and statuses, and a warm
//! cache.

use super::{remote_config, serve};
use crate::common::config;
use pellucid_device::{CacheConfig, Device, Guarantee, Namespace};
use pellucid_flash::{
    CacheOp, CacheState, Command, Completion, Drive, Interface, Lba, Opcode, SimTime, Status,
};
use pellucid_ftl::{Checkpoint, Eviction, MapLog};
use pellucid_media::StoreKind;
use pellucid_serve::{Remote, Time};
use std::time::{Duration, Instant};

const UNIT: u32 = 8;
const BYTES: usize = 4096;

fn cache() -> Device {
    let mut config = config(StoreKind::Ram);
    let cache = CacheConfig {
        address_sectors: 1 << 31,
        eviction: Eviction::SeUtil,
        guarantee: Guarantee::WriteDirty,
        log: MapLog::SpareArea,
        checkpoint: Checkpoint::Rolling,
    };
    config.namespaces = vec![Namespace::Cache { blocks: 0..config.media.geometry.blocks, cache }];
    Device::new(&config).expect("a good configuration")
}

/// A host with one command at a time.
struct Host {
    remote: Remote,
    start: Instant,
}

impl Host {
    fn run(&mut self, opcode: Opcode, block: u64, blocks: u32, data: Vec<u8>) -> Completion {
        let now = |start: Instant| SimTime(start.elapsed().as_nanos() as u64);
        let command = Command::new(7, opcode, Lba(block * u64::from(UNIT)), blocks * UNIT, data);
        self.remote.submit(now(self.start), command);
        let end = Instant::now() + Duration::from_secs(600);
        loop {
            self.remote.advance(now(self.start));
            if let Some(completion) = self.remote.pop() {
                return completion;
            }
            assert!(Instant::now() < end, "{opcode:?} is not answered");
            std::thread::yield_now();
        }
    }

    fn read(&mut self, block: u64, blocks: u32) -> Completion {
        self.run(Opcode::Read, block, blocks, vec![0; blocks as usize * BYTES])
    }
}

fn blocks(seed: u8, count: usize) -> Vec<u8> {
    (0..count * BYTES).map(|at| seed ^ (at / BYTES) as u8).collect()
}

#[test]
fn a_cache_is_used_through_the_socket() {
    let server = serve("remote-cache", 0, Time::Instant, || cache().into());
    let remote = Remote::connect(remote_config(server.nvme)).expect("a cache");
    let Some(Interface::Cache(geometry)) = Drive::interface(&remote, 0) else { panic!("a cache") };
    assert_eq!((geometry.address_sectors, geometry.unit_sectors), (1 << 31, UNIT));
    assert!(geometry.units > 1000, "{geometry:?}");
    let mut host = Host { remote, start: Instant::now() };

    let far = (1 << 27) + 12_345;
    let miss = host.read(far, 2);
    assert_eq!((miss.status, miss.result), (Status::Absent, 0));
    assert_eq!(host.run(Opcode::Cache(CacheOp::WriteDirty), far, 3, blocks(1, 3)).status, Status::Success);
    assert_eq!(host.run(Opcode::Cache(CacheOp::WriteClean), 5, 400, blocks(2, 400)).status, Status::Success);
    assert_eq!(host.read(far, 3).data, blocks(1, 3));
    // Longer than one command of the protocol can move.
    assert_eq!(host.read(5, 400).data, blocks(2, 400));
    let partly = host.read(far + 1, 4);
    assert_eq!((partly.status, partly.result), (Status::Absent, 2), "the third of the four");

    let exists = host.run(Opcode::Cache(CacheOp::Exists), far, 4, Vec::new());
    assert_eq!((exists.status, exists.result), (Status::Success, far * u64::from(UNIT)));
    let states = exists.data.iter().map(|&raw| CacheState::from_raw(raw).expect("a state"));
    let expected = [CacheState::Dirty, CacheState::Dirty, CacheState::Dirty, CacheState::Absent];
    assert_eq!(states.collect::<Vec<_>>(), expected);
    let cleaned = host.run(Opcode::Cache(CacheOp::Clean), far, 2, Vec::new());
    assert_eq!((cleaned.status, cleaned.result), (Status::Success, 2));
    let next = host.run(Opcode::Cache(CacheOp::Exists), 0, 0, Vec::new());
    assert_eq!((next.result, next.data.len()), ((far + 2) * u64::from(UNIT), 0), "the only dirty one");
    let evicted = host.run(Opcode::Cache(CacheOp::Evict), far, 4, Vec::new());
    assert_eq!((evicted.status, evicted.result), (Status::Success, 3));
    assert_eq!(host.read(far, 1).status, Status::Absent);
    assert_eq!(
        host.run(Opcode::Cache(CacheOp::Exists), 0, 0, Vec::new()).result,
        pellucid_flash::CacheGeometry::NO_DIRTY
    );

    assert_eq!(host.run(Opcode::Write, 0, 1, blocks(0, 1)).status, Status::InvalidOpcode);
    assert_eq!(host.read(1 << 28, 1).status, Status::LbaOutOfRange);
    assert_eq!(host.run(Opcode::Flush, 0, 0, Vec::new()).status, Status::Success);

    // Another host finds the cache warm.
    let remote = Remote::connect(remote_config(server.nvme)).expect("a cache");
    let mut host = Host { remote, start: Instant::now() };
    assert_eq!(host.read(5, 400).data, blocks(2, 400));
}
