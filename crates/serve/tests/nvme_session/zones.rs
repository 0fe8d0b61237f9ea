//! A zoned namespace: its commands, and reports of zones that fail.

use super::world::{SECTOR, World, in_capsule};
use crate::common;
use pellucid_flash::{DieId, Interface};
use pellucid_media::Fault;
use pellucid_target::Drives;
use pellucid_target::Service;
use pellucid_wire::nvme::zns::{ZoneReportHeader, ZonedNamespace};
use pellucid_wire::nvme::{IdentifyController, Status, SubmissionEntry};
use pellucid_wire::tcp::IcReq;

const PLAIN: IcReq = IcReq { alignment: 0, header_digest: false, data_digest: false, r2t_max: 0 };
const ZONES: u64 = 4;
/// Writable sectors of a zone: two blocks of 16 pages of 8 sectors.
const CAPACITY: u64 = 256;

const CLOSE: u32 = 1;
const FINISH: u32 = 2;
const OPEN: u32 = 3;
const RESET: u32 = 4;
const OFFLINE: u32 = 5;
const SELECT_ALL: u32 = 1 << 8;
const RANDOM_WRITE_AREA: u32 = 1 << 9;

const EMPTY: u8 = 1;
const IMPLICITLY_OPEN: u8 = 2;
const EXPLICITLY_OPEN: u8 = 3;
const CLOSED: u8 = 4;
const READ_ONLY: u8 = 13;
const FULL: u8 = 14;
const OFF: u8 = 15;

struct Zoned {
    world: World,
    admin: usize,
    io: usize,
    /// Sectors between the starts of adjacent zones.
    size: u64,
}

fn zoned() -> Zoned {
    let mut world = World::of(vec![("zones".into(), common::drive_of_zones())], None);
    let (admin, id) = world.attach(PLAIN);
    let io = world.queue(PLAIN, id, 1);
    let entry = SubmissionEntry::new(6, 0, 1).with_cdw(10, 5).with_cdw(11, 2 << 24);
    let page = world.fetch(admin, entry, 4096).expect("identify");
    let described = ZonedNamespace::decode(page.first_chunk().expect("4096 bytes"));
    assert_eq!((described.active_max, described.open_max), (3, 2), "0-based");
    assert_eq!(described.capabilities, 0, "reads do not cross zones");
    assert_eq!(described.formats[0].extension_64b, 0, "no zone descriptor extensions");
    Zoned { world, admin, io, size: described.formats[0].zone_blocks }
}

fn no(status: Status) -> Status {
    status.do_not_retry()
}

impl Zoned {
    fn write(&mut self, opcode: u8, lba: u64, sectors: u32) -> (Status, u64) {
        let data = vec![lba as u8 ^ 0x5a; sectors as usize * SECTOR];
        let entry = SubmissionEntry::new(opcode, 0, 1).with_cdw_pair(10, lba).with_cdw(12, sectors - 1);
        let ended = self.world.ask(self.io, in_capsule(entry, &data), &data);
        (ended.status, ended.result)
    }

    fn send(&mut self, zone: u64, action: u32) -> Status {
        let entry = SubmissionEntry::new(0x79, 0, 1).with_cdw_pair(10, zone * self.size).with_cdw(13, action);
        self.world.ask(self.io, entry, &[]).status
    }

    /// Reads state, capacity, start and write pointer of every listed zone.
    fn report(
        &mut self,
        from: u64,
        filter: u32,
        partial: bool,
        room: u32,
    ) -> (u64, Vec<(u8, u64, u64, u64)>) {
        let bytes = 64 * (room + 1);
        let entry = SubmissionEntry::new(0x7A, 0, 1)
            .with_cdw_pair(10, from)
            .with_cdw(12, bytes / 4 - 1)
            .with_cdw(13, filter << 8 | u32::from(partial) << 16);
        let page = self.world.fetch(self.io, entry, bytes).expect("a report");
        let header = ZoneReportHeader::decode(page.first_chunk().expect("a header"));
        let word = |zone: &[u8], at: usize| u64::from_le_bytes(zone[at..at + 8].try_into().expect("8 bytes"));
        let zones = page[64..].chunks_exact(64).filter(|zone| zone[0] == 2);
        let zones = zones.map(|z| (z[1] >> 4, word(z, 8), word(z, 16), word(z, 24)));
        (header.zones, zones.collect())
    }

    fn state(&mut self, zone: u64) -> u8 {
        self.report(zone * self.size, 0, true, 1).1[0].0
    }

    fn changed(&mut self, retain: bool) -> Vec<u64> {
        let entry = SubmissionEntry::new(2, 0, 1).with_cdw(10, 0xBF | 1023 << 16 | u32::from(retain) << 15);
        let page = self.world.fetch(self.admin, entry, 4096).expect("the changed zone list");
        let count = u16::from_le_bytes([page[0], page[1]]);
        let starts = page[8..].as_chunks::<8>().0.iter().take(count.into());
        starts.map(|start| u64::from_le_bytes(*start)).collect()
    }

    fn await_event(&mut self) -> u16 {
        self.world.command(self.admin, SubmissionEntry::new(0x0C, 0, 0), &[])
    }

    fn told(&mut self, event: u16) -> Option<u32> {
        let now = self.world.core.now_ns();
        self.world.tick(self.admin, now);
        self.world.pump();
        self.world.links[self.admin].host.responses.remove(&event).map(|ended| ended.dw0())
    }
}

#[test]
fn zones_are_written_appended_managed_and_reported() {
    let mut zoned = zoned();
    let size = zoned.size;
    assert_eq!(zoned.write(1, 0, 8).0, Status::SUCCESS);
    assert!(zoned.write(1, 0, 8).0.is(Status::ZONE_INVALID_WRITE), "not at the write pointer");
    assert_eq!(zoned.write(0x7D, 0, 4), (Status::SUCCESS, 8), "an append says where");
    assert!(zoned.write(0x7D, 1, 4).0.is(Status::INVALID_FIELD), "an append names the zone's start");
    assert!(zoned.write(0x7D, 0, 17).0.is(Status::INVALID_FIELD), "longer than allowed");
    assert_eq!(zoned.send(1, OPEN), Status::SUCCESS);
    assert_eq!(zoned.send(2, CLOSE), no(Status::ZONE_INVALID_TRANSITION), "an empty one");
    assert_eq!(zoned.send(2, FINISH), Status::SUCCESS);
    let (count, zones) = zoned.report(0, 0, false, 8);
    let expected = [
        (IMPLICITLY_OPEN, CAPACITY, 0, 12),
        (EXPLICITLY_OPEN, CAPACITY, size, size),
        (FULL, CAPACITY, 2 * size, u64::MAX),
        (EMPTY, CAPACITY, 3 * size, 3 * size),
    ];
    assert_eq!(count, ZONES);
    for (zone, expected) in zones.iter().zip(expected) {
        // The write pointer of a full zone is undefined.
        let pointer = if expected.3 == u64::MAX { zone.3 } else { expected.3 };
        assert_eq!(*zone, (expected.0, expected.1, expected.2, pointer));
    }
    // Filters, partial reports, and room for fewer zones than there are.
    assert_eq!(zoned.report(0, 1, false, 8).1.len(), 1, "the empty one");
    assert_eq!((zoned.report(0, 0, false, 2).0, zoned.report(0, 0, true, 2).0), (4, 2));
    assert_eq!(zoned.report(2 * size + 5, 0, true, 8).0, 2, "from the zone that holds the block");
    let beyond = SubmissionEntry::new(0x7A, 0, 1).with_cdw_pair(10, ZONES * size).with_cdw(12, 63);
    assert_eq!(zoned.world.fetch(zoned.io, beyond, 256), Err(no(Status::LBA_OUT_OF_RANGE)));
    assert_eq!(zoned.send(0, CLOSE), Status::SUCCESS);
    assert_eq!((zoned.state(0), zoned.send(0, RESET), zoned.state(0)), (CLOSED, Status::SUCCESS, EMPTY));
    assert_eq!(zoned.send(0, OFFLINE), no(Status::ZONE_INVALID_TRANSITION));
    assert_eq!(zoned.send(0, 0x10), no(Status::INVALID_FIELD), "there are no zone extensions");
    let extended = SubmissionEntry::new(0x7A, 0, 1).with_cdw(12, 63).with_cdw(13, 1);
    assert_eq!(zoned.world.fetch(zoned.io, extended, 256), Err(no(Status::INVALID_FIELD)));
    let before = zoned.state(0);
    assert_eq!(
        zoned.send(0, OPEN | RANDOM_WRITE_AREA),
        no(Status::ZONE_INVALID_OPERATION),
        "nor write areas"
    );
    assert_eq!(zoned.state(0), before, "nothing has changed");
    assert_eq!(zoned.send(0, 0x11), no(Status::INVALID_FIELD), "that could be flushed");
}

#[test]
fn actions_on_all_zones_concern_those_that_they_can() {
    let mut zoned = zoned();
    let size = zoned.size;
    for (action, ends) in [
        (CLOSE, [CLOSED, CLOSED, FULL, EMPTY]),
        (OPEN, [EXPLICITLY_OPEN, IMPLICITLY_OPEN, FULL, EMPTY]),
        (FINISH, [FULL, FULL, FULL, EMPTY]),
        (OFFLINE, [CLOSED, IMPLICITLY_OPEN, FULL, EMPTY]),
        (RESET, [EMPTY; 4]),
    ] {
        assert_eq!(zoned.write(1, 0, 8).0, Status::SUCCESS);
        assert_eq!(zoned.send(0, CLOSE), Status::SUCCESS);
        assert_eq!(zoned.write(1, size, 8).0, Status::SUCCESS);
        assert_eq!(zoned.send(2, FINISH), Status::SUCCESS);
        assert_eq!(zoned.send(3, action | SELECT_ALL), Status::SUCCESS);
        let states: Vec<u8> = zoned.report(0, 0, false, 8).1.iter().map(|zone| zone.0).collect();
        assert_eq!(states, ends, "action {action} on all");
        assert_eq!(zoned.send(3, RESET | SELECT_ALL), Status::SUCCESS);
    }
}

/// ZASL is a power of two of 4 KiB; 0 means the maximum transfer of any command.
#[test]
fn an_append_may_be_as_long_as_is_announced() {
    let mut zoned = zoned();
    let Interface::Zoned(geometry) = zoned.world.core.namespaces()[0].interface else { panic!("zones") };
    let page = SubmissionEntry::new(6, 0, 0).with_cdw(10, 6).with_cdw(11, 2 << 24);
    let page = zoned.world.fetch(zoned.admin, page, 4096).expect("identify");
    assert_eq!((geometry.append_max_sectors, page[0]), (16, 1), "16 sectors of 512 bytes");
    assert_eq!(zoned.write(0x7D, 0, 16).0, Status::SUCCESS);
    assert_eq!(zoned.write(0x7D, 0, 17).0, no(Status::INVALID_FIELD));
}

#[test]
fn limits_are_kept_and_reads_are_zeros_behind_the_pointer() {
    let mut zoned = zoned();
    let size = zoned.size;
    for zone in 0..3 {
        assert_eq!(zoned.send(zone, OPEN), Status::SUCCESS);
    }
    assert!(zoned.send(3, OPEN).is(Status::ZONE_TOO_MANY_OPEN));
    assert!(zoned.write(1, 3 * size, 8).0.is(Status::ZONE_TOO_MANY_OPEN));
    assert_eq!(zoned.send(0, RESET), Status::SUCCESS);
    assert_eq!(zoned.write(1, 3 * size, 8).0, Status::SUCCESS);
    let read = SubmissionEntry::new(2, 0, 1).with_cdw_pair(10, 3 * size).with_cdw(12, 15);
    let data = zoned.world.fetch(zoned.io, read, 16 * SECTOR as u32).expect("across the pointer");
    let (written, rest) = data.split_at(8 * SECTOR);
    assert!(written.iter().all(|&byte| byte == (3 * size) as u8 ^ 0x5a) && rest.iter().all(|&b| b == 0));
    let over = zoned.write(1, 2 * size + CAPACITY - 4, 8).0;
    assert!(over.is(Status::ZONE_BOUNDARY) || over.is(Status::ZONE_INVALID_WRITE), "{over:?}");
}

/// A failed zone raises one event for the host that requested events, and appears in a list that is read
/// once.
#[test]
fn a_host_is_told_of_zones_that_fail() {
    let mut zoned = zoned();
    let size = zoned.size;
    let page = zoned.world.fetch(zoned.admin, SubmissionEntry::new(6, 0, 0).with_cdw(10, 1), 4096);
    let identified = IdentifyController::decode(page.expect("identify").first_chunk().expect("4096 bytes"));
    assert_eq!(identified.async_events, 1 << 27, "it can tell");
    assert_eq!(zoned.write(1, size, 16).0, Status::SUCCESS);
    assert_eq!(zoned.world.ask(zoned.io, SubmissionEntry::new(0, 0, 1), &[]).status, Status::SUCCESS);
    let event = zoned.await_event();
    for die in 0..4 {
        zoned.world.core.inject(0, Fault::KillDie { die: DieId(die) }).expect("there are four");
    }
    // Without a request no event is sent, but the list has the zone.
    let (status, _) = zoned.write(1, size + 16, 16);
    let flushed = zoned.world.ask(zoned.io, SubmissionEntry::new(0, 0, 1), &[]).status;
    assert!(!status.is_success() || !flushed.is_success(), "{status:?} {flushed:?}");
    assert_eq!(zoned.told(event), None);
    assert_eq!(zoned.state(1), READ_ONLY, "it holds something");
    assert_eq!((zoned.changed(true), zoned.changed(false)), (vec![size], vec![size]));
    assert!(zoned.changed(false).is_empty());
    let enable = SubmissionEntry::new(9, 0, 0).with_cdw(10, 0x0B).with_cdw(11, 1 << 27);
    assert!(zoned.world.ask(zoned.admin, enable, &[]).status.is_success());
    assert_eq!(zoned.told(event), Some(2 | 0xEF << 8 | 0xBF << 16), "the first one, late");
    let event = zoned.await_event();
    // Data in the buffer may be acknowledged before the media fail; then only the event tells.
    zoned.write(1, 3 * size, 16);
    zoned.world.ask(zoned.io, SubmissionEntry::new(0, 0, 1), &[]);
    // The event is raised again only after its log page has been read.
    assert_eq!(zoned.told(event), None);
    assert_eq!(zoned.changed(false), [3 * size]);
    zoned.write(1, 0, 16);
    zoned.world.ask(zoned.io, SubmissionEntry::new(0, 0, 1), &[]);
    assert_eq!(zoned.told(event), Some(2 | 0xEF << 8 | 0xBF << 16));
    assert_eq!(zoned.changed(false), [0]);
    assert!([READ_ONLY, OFF].contains(&zoned.state(3)));
    // The offline state of a zone must be recorded, but no die can take a record any more.
    assert_eq!((zoned.send(1, OFFLINE), zoned.state(1)), (no(Status::WRITE_FAULT), READ_ONLY));
    assert!(zoned.changed(false).is_empty(), "nothing has changed");
    for nsid in [0, 2, u32::MAX] {
        let list = SubmissionEntry::new(2, 0, nsid).with_cdw(10, 0xBF | 1023 << 16);
        let refused = zoned.world.fetch(zoned.admin, list, 4096);
        assert_eq!(refused, Err(no(Status::INVALID_NAMESPACE)), "namespace {nsid:X}h");
    }
}

#[test]
fn a_format_resets_every_zone() {
    let mut zoned = zoned();
    for zone in [0, 2] {
        assert_eq!(zoned.write(1, zone * zoned.size, 8).0, Status::SUCCESS);
    }
    let cid = zoned.world.command(zoned.admin, SubmissionEntry::new(0x80, 0, 1), &[]);
    zoned.world.pump();
    assert_eq!(zoned.world.end(zoned.admin, cid).status, Status::SUCCESS);
    for zone in 0..ZONES {
        assert_eq!(zoned.state(zone), EMPTY);
    }
}

/// Zones announce neither Write Zeroes nor Dataset Management, which end as unknown.
#[test]
fn zones_announce_the_commands_that_they_have() {
    let mut zoned = zoned();
    let mut page = |entry: SubmissionEntry| zoned.world.fetch(zoned.admin, entry, 4096).expect("a page");
    let controller = page(SubmissionEntry::new(6, 0, 0).with_cdw(10, 1));
    let controller = IdentifyController::decode(controller.first_chunk().expect("4096 bytes"));
    assert_eq!(controller.nvm_commands, 0b1101_0001);
    let namespace = page(SubmissionEntry::new(6, 0, 1));
    assert_eq!(namespace[33], 1, "DLFEAT");
    for set in [0, 2] {
        let log = page(SubmissionEntry::new(2, 0, 0).with_cdw(10, 5 | 1023 << 16).with_cdw(14, set << 24));
        assert_eq!([8, 9].map(|opcode: usize| log[1024 + 4 * opcode]), [0, 0]);
        assert_eq!(log[4 * 0x80] & 1, 1, "Format NVM");
    }
    let zeroes = SubmissionEntry::new(8, 0, 1).with_cdw(12, 7);
    assert_eq!(zoned.world.ask(zoned.io, zeroes, &[]).status, no(Status::INVALID_OPCODE));
    let range = [0; 16];
    let deallocate = in_capsule(SubmissionEntry::new(9, 0, 1).with_cdw(11, 4), &range);
    let ended = zoned.world.ask(zoned.io, deallocate, &range).status;
    assert_eq!(ended, no(Status::INVALID_OPCODE));
}

/// With several command sets there is a feature that selects a combination of them; only one exists (CNS
/// 1Ch).
#[test]
fn the_one_combination_of_command_sets_can_be_chosen() {
    let mut zoned = zoned();
    let page = zoned.world.fetch(zoned.admin, SubmissionEntry::new(6, 0, 0).with_cdw(10, 0x1C), 4096);
    assert_eq!(page.expect("combinations")[..9], [0b101, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut ask = |opcode, value| {
        let ended = zoned.world.ask(
            zoned.admin,
            SubmissionEntry::new(opcode, 0, 0).with_cdw(10, 0x19).with_cdw(11, value),
            &[],
        );
        (ended.status, ended.result)
    };
    assert_eq!(ask(0x0A, 0), (Status::SUCCESS, 0));
    assert_eq!(ask(0x09, 0), (Status::SUCCESS, 0));
    assert_eq!(ask(0x09, 1).0, no(Status::COMMAND_SET_COMBINATION_REJECTED));
}
