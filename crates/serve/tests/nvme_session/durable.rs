//! Durability without a host's flush across a power cut, and reports of drives without a cache or in
//! read-only state.

use super::world::{SECTOR, World, blocks, in_capsule};
use crate::common;
use pellucid_device::{Device, WritePolicy};
use pellucid_flash::{DieId, Lba, Opcode, Status as DriveStatus};
use pellucid_ftl::Durability;
use pellucid_host::{HostFtlConfig, LayerConfig};
use pellucid_media::{Fault, StoreKind};
use pellucid_serve::event::Event;
use pellucid_serve::{Core, Operated, Served, Time};
use pellucid_target::Drives;
use pellucid_target::Service;
use pellucid_target::connection::{ConnectionId, Route};
use pellucid_target::operation::{Keeps, Operation};
use pellucid_wire::nvme::{
    AsyncEvent, Cns, FeatureId, IdentifyController, IdentifyNamespace, IndependentNamespace, SmartLog,
    Status, SubmissionEntry,
};
use pellucid_wire::tcp::IcReq;

const PLAIN: IcReq = IcReq { alignment: 0, header_digest: false, data_digest: false, r2t_max: 0 };
/// Force Unit Access, in dword 12.
const FUA: u32 = 1 << 30;
const FLUSH: u8 = 0;
const WRITE: u8 = 1;
const READ: u8 = 2;
const WRITE_ZEROES: u8 = 8;

fn with(write: WritePolicy) -> World {
    let mut config = common::config(StoreKind::Ram);
    config.buffer.write = write;
    World::of(vec![("one".into(), Device::new(&config).expect("a good configuration"))], None)
}

fn set_feature(id: FeatureId, value: u32) -> SubmissionEntry {
    SubmissionEntry::new(0x09, 0, 0).with_cdw(10, id.raw().into()).with_cdw(11, value)
}

fn get_feature(id: FeatureId, select: u32) -> SubmissionEntry {
    SubmissionEntry::new(0x0A, 0, 0).with_cdw(10, u32::from(id.raw()) | select << 8)
}

/// Writes known bytes to the media in the first 64 sectors.
fn fill(world: &mut World, link: usize) {
    let data = vec![0xAA; 16 << 10];
    for lba in [0, 32] {
        assert!(world.ask(link, in_capsule(blocks(WRITE, lba, 32), &data), &data).status.is_success());
    }
    assert!(world.ask(link, SubmissionEntry::new(FLUSH, 0, 1), &[]).status.is_success());
}

fn read(world: &mut World, link: usize, sectors: u32) -> Vec<u8> {
    world.fetch(link, blocks(READ, 0, sectors), sectors * SECTOR as u32).expect("data")
}

fn page<const N: usize>(world: &mut World, link: usize, entry: SubmissionEntry) -> [u8; N] {
    let page = world.fetch(link, entry, N as u32).expect("a page");
    page.try_into().expect("as long as asked for")
}

fn identify(world: &mut World, link: usize, cns: Cns, nsid: u32) -> [u8; 4096] {
    page(world, link, SubmissionEntry::new(6, 0, nsid).with_cdw(10, cns.raw().into()))
}

fn smart(world: &mut World, link: usize) -> SmartLog {
    let entry = SubmissionEntry::new(2, 0, u32::MAX).with_cdw(10, 2 | (512 / 4 - 1) << 16);
    SmartLog::decode(&page(world, link, entry))
}

#[test]
fn zeros_that_are_forced_survive_a_power_cut() {
    for (write, flags, cache) in [
        (WritePolicy::WriteBack, FUA, None),
        (WritePolicy::WriteBack, 0, Some(0)),
        // The host knows that there is no cache, and does not flush.
        (WritePolicy::WriteThrough, 0, None),
    ] {
        let mut world = with(write);
        let (admin, id) = world.attach(PLAIN);
        let link = world.queue(PLAIN, id, 1);
        fill(&mut world, link);
        if let Some(on) = cache {
            let set = set_feature(FeatureId::VolatileWriteCache, on);
            assert!(world.ask(admin, set, &[]).status.is_success());
        }
        // Two whole mapping units, and half of a third.
        let zeroes = blocks(WRITE_ZEROES, 0, 20).with_cdw(12, 19 | flags);
        assert!(world.ask(link, zeroes, &[]).status.is_success());
        world.core.power_cut(0).expect("a mount");
        let data = read(&mut world, link, 64);
        let (zeros, kept) = data.split_at(20 * SECTOR);
        assert!(zeros.iter().all(|&byte| byte == 0), "{write:?}, flags {flags:x}, cache {cache:?}");
        assert!(kept.iter().all(|&byte| byte == 0xAA));
        world.tick(link, world.core.now_ns());
        assert_eq!(smart(&mut world, admin).host_write_commands, 3, "a command is counted once");
    }
}

/// Data written with the cache on are on the media once the host is told that the cache is off.
#[test]
fn a_cache_that_is_switched_off_is_empty() {
    let mut world = World::new();
    let (admin, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    let data = vec![0xCC; 8 * SECTOR];
    assert!(world.ask(link, in_capsule(blocks(WRITE, 0, 8), &data), &data).status.is_success());
    assert!(world.ask(admin, set_feature(FeatureId::VolatileWriteCache, 0), &[]).status.is_success());
    world.core.power_cut(0).expect("a mount");
    assert!(read(&mut world, link, 8) == data);
}

/// A power cut takes what hosts have set: every feature has its default again, and the host is told, for it may rely on a cache that is off.
#[test]
fn features_have_their_defaults_after_a_power_cut() {
    let mut world = World::new();
    let (admin, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    let word = |id: FeatureId, value| (id, value, Vec::new());
    let mut now = world.core.now_ns();
    let mut set = vec![
        word(FeatureId::Arbitration, 3),
        word(FeatureId::TemperatureThreshold, 300),
        word(FeatureId::TemperatureThreshold, 1 << 20 | 200),
        word(FeatureId::ErrorRecovery, 7),
        word(FeatureId::VolatileWriteCache, 0),
        word(FeatureId::WriteAtomicity, 1),
        word(FeatureId::AsyncEventConfig, 0xF),
        (FeatureId::HostBehavior, 0, vec![1; 512]),
        (FeatureId::Timestamp, 0, (1u64 << 40).to_le_bytes().to_vec()),
    ];
    let value = |world: &mut World, (id, of, data): &(FeatureId, u32, Vec<u8>)| {
        let get = get_feature(*id, 0).with_cdw(11, of & 3 << 20);
        match data.len() as u32 {
            0 => world.ask(admin, get, &[]).dw0().to_le_bytes().to_vec(),
            bytes => world.fetch(admin, get, bytes).expect("a value"),
        }
    };
    let usual: Vec<Vec<u8>> = set.iter().map(|row| value(&mut world, row)).collect();
    for (row, usual) in set.iter().zip(&usual) {
        let (id, word, data) = row;
        let entry = match data.is_empty() {
            true => set_feature(*id, *word),
            false => in_capsule(set_feature(*id, *word), data),
        };
        assert!(world.ask(admin, entry, data).status.is_success(), "{id:?}");
        assert_ne!(&value(&mut world, row), usual, "{id:?}");
    }
    let keep_alive = word(FeatureId::KeepAliveTimer, 3_600_000);
    assert!(world.ask(admin, set_feature(keep_alive.0, keep_alive.1), &[]).status.is_success());
    let event = world.command(admin, SubmissionEntry::new(0xC, 0, 0), &[]);
    assert!(!world.has_ended(admin, event));
    world.core.power_cut(0).expect("a mount");
    // A write before anything else: it may wait in the cache.
    let data = vec![0xCC; 8 * SECTOR];
    assert!(world.ask(link, in_capsule(blocks(WRITE, 0, 8), &data), &data).status.is_success());
    assert!(world.core.power_cut(0).expect("a mount").mount.undone_units > 0, "the cache is on again");
    now += 5_000_000_000;
    world.tick(admin, now);
    world.pump();
    let told = world.links[admin].host.responses.remove(&event).expect("the host is told");
    assert_eq!(told.dw0(), AsyncEvent::TransientError.encode());
    // The timestamp begins at 0 with the power, and so does its origin.
    let stamp = set.pop().expect("the last");
    let since = u64::from_le_bytes(value(&mut world, &stamp).try_into().expect("8 bytes"));
    assert!(since < 5_000, "{since} ms");
    for (row, usual) in set.iter().zip(&usual) {
        assert_eq!(&value(&mut world, row), usual, "{:?}", row.0);
    }
    assert_eq!(value(&mut world, &keep_alive), keep_alive.1.to_le_bytes(), "of the connection");
    // What a host sets afterwards holds.
    assert!(world.ask(admin, set_feature(FeatureId::VolatileWriteCache, 0), &[]).status.is_success());
    assert!(world.ask(link, in_capsule(blocks(WRITE, 0, 8), &data), &data).status.is_success());
    world.core.power_cut(0).expect("a mount");
    assert!(read(&mut world, link, 8) == data);
}

#[test]
fn a_formatted_drive_is_empty_after_a_power_cut() {
    let mut world = World::new();
    let (admin, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    fill(&mut world, link);
    let format = SubmissionEntry::new(0x80, 0, 1).with_cdw(10, 1 << 9);
    assert!(world.ask(admin, format, &[]).status.is_success());
    world.core.power_cut(0).expect("a mount");
    assert!(read(&mut world, link, 64) == vec![0; 64 * SECTOR]);
}

/// Data that a drive never promised to keep are not lost, but counted all the same.
#[test]
fn a_power_cut_counts_what_the_drive_forgets() {
    for (durability, expected) in
        [(Durability::Journal { checkpoint_every: 0 }, 0), (Durability::Volatile, 8)]
    {
        let mut config = common::config(StoreKind::Ram);
        config.ftl.durability = durability;
        let device = Device::new(&config).expect("a good configuration");
        let sectors = u64::from(device.layout().sectors_per_unit);
        let mut world = World::of(vec![("one".into(), device)], None);
        let (_, id) = world.attach(PLAIN);
        let link = world.queue(PLAIN, id, 1);
        fill(&mut world, link);
        let report = world.core.power_cut(0).expect("a mount").mount;
        let units = 64 / sectors;
        assert_eq!(units, 8, "the units that were filled");
        assert_eq!((report.lost_units, report.forgotten_units), (0, expected), "{durability:?}");
        assert_eq!(report.mapped_units + report.forgotten_units, units, "{durability:?}");
        assert_eq!(
            world.core.power_cut(0).expect("a mount").mount.forgotten_units,
            0,
            "they are forgotten once"
        );
    }
}

/// Acknowledged data that were never flushed are gone with the buffer, and counted: a drive that says nothing of it would seem to lie.
#[test]
fn a_power_cut_counts_acknowledged_data_that_it_undoes() {
    let mut world = with(WritePolicy::WriteBack);
    let (_, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    fill(&mut world, link);
    let (before, data) = (read(&mut world, link, 8), vec![0xCC; 8 * SECTOR]);
    assert!(world.ask(link, in_capsule(blocks(WRITE, 0, 8), &data), &data).status.is_success());
    let report = world.core.power_cut(0).expect("a mount").mount;
    assert_eq!(read(&mut world, link, 8), before, "the write was in the buffer alone");
    assert_eq!((report.undone_units, report.forgotten_units), (1, 0), "eight sectors are a unit here");
    assert_eq!(world.core.power_cut(0).expect("a mount").mount.undone_units, 0, "nothing was written since");
}

#[test]
fn a_cache_that_there_is_not_has_no_feature() {
    let id = FeatureId::VolatileWriteCache;
    for (write, expected) in [
        (WritePolicy::WriteBack, Status::SUCCESS),
        (WritePolicy::WriteThrough, Status::INVALID_FIELD.do_not_retry()),
    ] {
        let mut world = with(write);
        let (admin, _) = world.attach(PLAIN);
        let controller = IdentifyController::decode(&identify(&mut world, admin, Cns::Controller, 0));
        let is_there = controller.volatile_write_cache & 1 == 1;
        assert_eq!(is_there, expected.is_success());
        for select in 0..4 {
            assert_eq!(world.ask(admin, get_feature(id, select), &[]).status, expected, "select {select}");
        }
        assert_eq!(world.ask(admin, set_feature(id, 0), &[]).status, expected);
        let effects = SubmissionEntry::new(2, 0, 0).with_cdw(10, 0x12 | (1024 / 4 - 1) << 16);
        let effects: [u8; 1024] = page(&mut world, admin, effects);
        assert_eq!(effects[usize::from(id.raw()) * 4] & 1 == 1, is_there);
    }
}

/// Data of a failed program are written elsewhere; data that cannot be read are lost.
#[test]
fn smart_counts_lost_data_as_errors_and_no_failed_programs() {
    let mut world = World::new();
    let (admin, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    world.core.inject(0, Fault::FailPrograms { count: 1 }).expect("damage");
    fill(&mut world, link);
    let counters = world.core.device(0).expect("of this process").counters();
    assert_eq!((counters.program_failures, counters.uncorrectable_reads), (1, 0));
    assert_eq!(smart(&mut world, admin).media_errors, 0);
    for die in 0..4 {
        world.core.inject(0, Fault::KillDie { die: DieId(die) }).expect("damage");
    }
    // Without the power cut, the data would be read from the buffer.
    world.core.power_cut(0).expect("a mount");
    assert!(world.fetch(link, blocks(READ, 0, 8), 4096).is_err());
    assert_ne!(smart(&mut world, admin).media_errors, 0);
}

#[test]
fn a_drive_that_takes_no_writes_any_more_says_so() {
    let plain = || World::new();
    let layered = || {
        let device = common::chunks();
        let settings = HostFtlConfig { over_provisioning: 0.5, ..HostFtlConfig::default() };
        let layered = Served::with_layers(device, &[LayerConfig::HostFtl(settings)]).expect("a start");
        let mut world = World::new();
        world.core = Core::new(vec![("one".into(), layered)], Time::Instant).expect("a drive to serve");
        world
    };
    for (what, mut world) in [("drive", plain()), ("host FTL", layered())] {
        let (admin, id) = world.attach(PLAIN);
        let link = world.queue(PLAIN, id, 1);
        fill(&mut world, link);
        let attributes = |world: &mut World| {
            let namespace = IdentifyNamespace::decode(&identify(world, admin, Cns::Namespace, 1));
            let common = IndependentNamespace::decode(&identify(world, admin, Cns::IndependentNamespace, 1));
            (namespace.attributes, common.attributes)
        };
        assert_eq!(
            (attributes(&mut world), smart(&mut world, admin).critical_warning),
            ((0, 0), 0),
            "{what}"
        );
        for die in 0..4 {
            world.core.inject(0, Fault::KillDie { die: DieId(die) }).expect("damage");
        }
        let data = vec![0xBB; 16 << 10];
        let refused = Status::WRITE_PROTECTED.do_not_retry();
        let ends = (0..40).map(|n| {
            let entry = blocks(WRITE, n % 8 * 32, 32).with_cdw(12, 31 | FUA);
            world.ask(link, in_capsule(entry, &data), &data).status
        });
        assert!(ends.into_iter().any(|status| status == refused), "{what}");
        assert_eq!(attributes(&mut world), (1, 1), "{what}");
        assert_eq!(smart(&mut world, admin).critical_warning & 1 << 3, 1 << 3, "{what}");
    }
}

/// A drive that keeps nothing has nothing to flush, and reports this; chunks and protected zones are durable
/// when acknowledged.
#[test]
fn a_drive_announces_what_it_keeps() {
    let volatile = || {
        let mut config = common::config(StoreKind::Ram);
        config.ftl.durability = Durability::Volatile;
        Served::from(Device::new(&config).expect("a good configuration"))
    };
    let layered = |durability| {
        let device = common::chunks();
        let settings = HostFtlConfig { over_provisioning: 0.5, durability, ..HostFtlConfig::default() };
        Served::with_layers(device, &[LayerConfig::HostFtl(settings)]).expect("a start")
    };
    let journal = Durability::Journal { checkpoint_every: 0 };
    for (what, served, keeps, logged) in [
        ("volatile", volatile(), Keeps::Nothing, 1),
        ("host FTL", layered(journal), Keeps::Flushed, 0),
        ("volatile host FTL", layered(Durability::Volatile), Keeps::Nothing, 1),
        ("chunks", Served::from(common::chunks()), Keeps::Acknowledged, 0),
    ] {
        let mut world = World::new();
        world.core = Core::new(vec![("one".into(), served)], Time::Instant).expect("a drive to serve");
        let told = |event: &&Event| event.name() == "promises-nothing";
        assert_eq!(world.core.logbook().events().iter().filter(told).count(), logged, "{what}");
        assert_eq!(world.core.namespaces()[0].keeps, keeps, "{what}");
        let (admin, _) = world.attach(PLAIN);
        let controller = IdentifyController::decode(&identify(&mut world, admin, Cns::Controller, 0));
        assert_eq!(controller.volatile_write_cache & 1 == 1, keeps == Keeps::Flushed, "{what}");
        let common = IndependentNamespace::decode(&identify(&mut world, admin, Cns::IndependentNamespace, 1));
        assert_eq!(common.features >> 5 & 1 == 0, keeps == Keeps::Flushed, "{what}: VWCNP");
    }
}

/// A power cut undoes a trim that had already ended but was not reported yet. The client must not be told of
/// success afterwards, as it would assume that its next flush covers the trim.
#[test]
fn what_nobody_was_told_before_a_power_cut_ends_with_it() {
    let drive = Device::new(&common::config(StoreKind::Ram)).expect("a good configuration");
    let mut core = Core::new(vec![("one".into(), drive)], Time::Instant).expect("a drive to serve");
    let route = Route { connection: ConnectionId::new(1), token: 7 };
    core.submit(0, route, Operation::new(Opcode::Trim, Lba(0), 8, Vec::new()));
    core.run();
    core.power_cut(0).expect("a mount");
    let done = core.pop().expect("its end");
    assert_eq!((done.route.token, done.answer.status), (7, DriveStatus::PowerLoss));
    assert!(core.pop().is_none());
}
