//! A nameless namespace: its commands and refusals, and moves that a host learns of by event and log page,
//! even after it reconnects.

use super::world::{SECTOR, World, blocks, in_capsule};
use crate::common;
use pellucid_device::{Device, Namespace};
use pellucid_flash::Rng;
use pellucid_ftl::NamelessConfig;
use pellucid_media::StoreKind;
use pellucid_target::Drives;
use pellucid_target::Service;
use pellucid_target::connection::Close;
use pellucid_target::operation::Keeps;
use pellucid_wire::nvme::nameless::{
    MOVES, MoveEntry, MovesHeader, NAMELESS_NAMESPACE, NamelessCommand, NamelessIdentity, NamelessOpcode,
};
use pellucid_wire::nvme::{AsyncEvent, IdentifyNamespace, Status, SubmissionEntry};
use pellucid_wire::tcp::IcReq;
use std::collections::BTreeMap;

const PLAIN: IcReq = IcReq { alignment: 0, header_digest: false, data_digest: false, r2t_max: 0 };
/// Sectors of an object: a flash page.
const PAGE: u32 = 8;

struct Nameless {
    world: World,
    admin: usize,
    io: usize,
    rng: Rng,
    /// Name and version of each object.
    objects: BTreeMap<u64, (u64, u8)>,
}

fn nameless() -> Nameless {
    let mut config = common::config(StoreKind::Ram);
    config.media.geometry.blocks = 10;
    let ftl = NamelessConfig { over_provisioning: 1.0, virtual_share: 0.1, ..NamelessConfig::default() };
    config.namespaces = vec![Namespace::Nameless { blocks: 0..10, ftl }];
    let drive = Device::new(&config).expect("a good configuration");
    let mut world = World::of(vec![("nameless".into(), drive)], None);
    let (admin, id) = world.attach(PLAIN);
    let io = world.queue(PLAIN, id, 1);
    Nameless { world, admin, io, rng: Rng::stream(1, "objects"), objects: BTreeMap::new() }
}

fn command(opcode: NamelessOpcode, first: u64, sectors: u32) -> SubmissionEntry {
    NamelessCommand { opcode, first, sectors, force: false }.entry(0, 1)
}

fn no(status: Status) -> Status {
    status.do_not_retry()
}

impl Nameless {
    fn plain(&mut self, opcode: NamelessOpcode, first: u64, sectors: u32) -> (Status, u64) {
        let ended = self.world.ask(self.io, command(opcode, first, sectors), &[]);
        (ended.status, ended.result)
    }

    fn write(&mut self, version: u8) -> (Status, u64) {
        let data = [version; PAGE as usize * SECTOR];
        let entry = in_capsule(command(NamelessOpcode::Write, 0, PAGE), &data);
        let ended = self.world.ask(self.io, entry, &data);
        (ended.status, ended.result)
    }

    fn read(&mut self, name: u64) -> Result<Vec<u8>, Status> {
        self.world.fetch(self.io, command(NamelessOpcode::Read, name, PAGE), PAGE * SECTOR as u32)
    }

    fn moves(&mut self) -> Vec<MoveEntry> {
        let bytes = MovesHeader::BYTES as u32 + 4096 * MoveEntry::BYTES as u32;
        let dwords = bytes / 4 - 1;
        let entry = SubmissionEntry::new(2, 0, 1)
            .with_cdw(10, u32::from(MOVES) | (dwords & 0xFFFF) << 16)
            .with_cdw(11, dwords >> 16);
        let page = self.world.fetch(self.admin, entry, bytes).expect("the log of moves");
        let header = MovesHeader::decode(page.first_chunk().expect("a header"));
        let list = page[MovesHeader::BYTES..].as_chunks::<{ MoveEntry::BYTES }>().0;
        list.iter().take(header.count as usize).map(MoveEntry::decode).collect()
    }

    /// Rewrites objects and frees their old names until sectors have moved.
    fn churn(&mut self) -> Vec<MoveEntry> {
        for round in 0..20_000u32 {
            let (object, version) = (self.rng.below(200), self.rng.below(255) as u8 + 1);
            let (status, name) = self.write(version);
            assert!(status.is_success(), "{status:?}");
            if let Some((old, _)) = self.objects.insert(object, (name, version)) {
                assert_eq!(self.plain(NamelessOpcode::Free, old, PAGE), (Status::SUCCESS, PAGE.into()));
            }
            let moves = if round % 16 == 0 { self.moves() } else { Vec::new() };
            if !moves.is_empty() {
                return moves;
            }
        }
        panic!("nothing was moved");
    }

    fn take(&mut self, moves: &[MoveEntry]) {
        for entry in moves {
            for (name, _) in self.objects.values_mut().filter(|(name, _)| *name == entry.old) {
                *name = entry.new;
            }
        }
    }

    /// Event that a waiting request received.
    fn told(&mut self, event: u16) -> Option<AsyncEvent> {
        let now = self.world.core.now_ns();
        self.world.tick(self.admin, now);
        self.world.pump();
        AsyncEvent::decode(self.world.end(self.admin, event).dw0())
    }

    fn look(&mut self) {
        for (name, version) in self.objects.clone().into_values() {
            assert!(self.read(name).expect("an object").iter().all(|&byte| byte == version), "name {name}");
        }
    }
}

#[test]
fn a_host_learns_what_it_is() {
    let mut drive = nameless();
    let entry = SubmissionEntry::new(6, 0, 1).with_cdw(10, 0);
    let page: Box<[u8; 4096]> =
        drive.world.fetch(drive.admin, entry, 4096).expect("identify").try_into().expect("4096 bytes");
    let namespace = IdentifyNamespace::decode(&page);
    let identity = NamelessIdentity::decode(namespace.vendor.first_chunk().expect("the vendor area"));
    assert_eq!((identity.kind, identity.page_sectors), (NAMELESS_NAMESPACE, PAGE));
    assert!(identity.capacity > 1600 && identity.names > identity.capacity + namespace.size_blocks);
    assert_eq!(drive.world.core.namespaces()[0].keeps, Keeps::Flushed);
    // Virtual sectors work like sectors of any namespace.
    let data = [7; 8 * SECTOR];
    let written = drive.world.ask(drive.io, in_capsule(blocks(1, 16, 8), &data), &data);
    assert!(written.status.is_success());
    assert_eq!(drive.world.fetch(drive.io, blocks(2, 16, 8), 8 * SECTOR as u32), Ok(data.to_vec()));
}

#[test]
fn wrong_commands_change_nothing() {
    let mut drive = nameless();
    let long = [0; 9 * SECTOR];
    let entry = in_capsule(command(NamelessOpcode::Write, 0, 9), &long);
    assert_eq!(drive.world.ask(drive.io, entry, &long).status, no(Status::INVALID_FIELD), "more than a page");
    let forced = NamelessCommand { opcode: NamelessOpcode::Write, first: 0, sectors: 2, force: true };
    let entry = in_capsule(forced.entry(0, 1), &long[..2 * SECTOR]);
    let status = drive.world.ask(drive.io, entry, &long[..2 * SECTOR]).status;
    assert_eq!(status, no(Status::INVALID_FIELD), "forced, of two sectors");
    for opcode in [NamelessOpcode::Free, NamelessOpcode::Acknowledge] {
        assert_eq!(drive.plain(opcode, 1 << 40, 1).0, no(Status::LBA_OUT_OF_RANGE));
        assert_eq!(drive.plain(opcode, u64::MAX, 1).0, no(Status::LBA_OUT_OF_RANGE));
    }
    assert_eq!(drive.plain(NamelessOpcode::Free, 3, 1).0, no(Status::DEALLOCATED_BLOCK), "no such name");
    assert_eq!(drive.plain(NamelessOpcode::Acknowledge, 3, 1), (Status::SUCCESS, 0));
    assert_eq!(drive.read(3), Err(no(Status::DEALLOCATED_BLOCK)));
    let (status, name) = drive.write(9);
    assert!(status.is_success());
    let names = drive.world.fetch(drive.io, command(NamelessOpcode::Names, name, 1), 8).expect("names");
    assert_eq!(names, name.to_le_bytes());
    assert_eq!(drive.plain(NamelessOpcode::Free, name, PAGE), (Status::SUCCESS, PAGE.into()));
    let names = drive.world.fetch(drive.io, command(NamelessOpcode::Names, name, 1), 8).expect("names");
    assert_eq!(names, [0xFF; 8]);
}

#[test]
fn moves_are_told_and_acknowledged() {
    let mut drive = nameless();
    let event = drive.world.command(drive.admin, SubmissionEntry::new(0x0C, 0, 0), &[]);
    for _ in 0..12 {
        let moves = drive.churn();
        // Both the old and the new names resolve.
        drive.look();
        drive.take(&moves);
        drive.look();
        for entry in &moves {
            assert_eq!(drive.plain(NamelessOpcode::Acknowledge, entry.old, 1), (Status::SUCCESS, 1));
        }
        assert_eq!(drive.moves(), Vec::new());
        drive.look();
    }
    assert_eq!(drive.told(event), Some(AsyncEvent::Moved));
}

#[test]
fn a_host_that_comes_back_learns_what_it_missed() {
    let mut drive = nameless();
    let before = drive.churn();
    drive.world.close(drive.io, Close::Finished);
    drive.world.close(drive.admin, Close::Finished);
    let (admin, id) = drive.world.attach(PLAIN);
    (drive.admin, drive.io) = (admin, drive.world.queue(PLAIN, id, 1));
    drive.look();
    let event = drive.world.command(drive.admin, SubmissionEntry::new(0x0C, 0, 0), &[]);
    drive.plain(NamelessOpcode::Acknowledge, 0, 1);
    assert_eq!(drive.told(event), Some(AsyncEvent::Moved));
    let moves = drive.moves();
    let first = before.iter().filter(|entry| entry.old != 0);
    first.for_each(|entry| assert!(moves.contains(entry), "{entry:?}"));
    drive.take(&moves);
    drive.look();
}
