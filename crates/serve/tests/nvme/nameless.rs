//! A nameless drive through real sockets: names, acknowledged moves, a host that was away, and a server that
//! was stopped.

use super::{Queue, Served, attach, serve};
use crate::common::{self, SECTOR};
use pellucid_device::{Device, Namespace};
use pellucid_flash::Rng;
use pellucid_ftl::NamelessConfig;
use pellucid_media::StoreKind;
use pellucid_serve::Time;
use pellucid_wire::nvme::nameless::{MOVES, MoveEntry, MovesHeader, NamelessCommand, NamelessOpcode};
use pellucid_wire::nvme::{AsyncEvent, Completion, SglDescriptor, SubmissionEntry};
use std::collections::BTreeMap;

/// Sectors of an object: a flash page.
const PAGE: u32 = 8;
const BYTES: usize = PAGE as usize * SECTOR;

fn drive() -> Device {
    let mut config = common::config(StoreKind::Ram);
    config.media.geometry.blocks = 10;
    let ftl = NamelessConfig { over_provisioning: 1.0, virtual_share: 0.1, ..NamelessConfig::default() };
    config.namespaces = vec![Namespace::Nameless { blocks: 0..10, ftl }];
    Device::new(&config).expect("a good configuration")
}

/// A host's records: name and version of each object.
struct Host {
    admin: Queue,
    io: Queue,
    rng: Rng,
    objects: BTreeMap<u64, (u64, u8)>,
}

impl Host {
    fn attach(&mut self, served: &Served) {
        (self.admin, self.io) = attach(served);
    }

    fn ask(&mut self, opcode: NamelessOpcode, first: u64, sectors: u32) -> Completion {
        let cid = self.io.send(NamelessCommand { opcode, first, sectors, force: false }.entry(0, 1), &[]);
        self.io.end(cid)
    }

    fn write(&mut self, version: u8) -> u64 {
        let command =
            NamelessCommand { opcode: NamelessOpcode::Write, first: 0, sectors: PAGE, force: false };
        let entry = command.entry(0, 1).with_sgl(SglDescriptor::in_capsule(0, BYTES as u32));
        let cid = self.io.send(entry, &[version; BYTES]);
        let ended = self.io.end(cid);
        assert!(ended.status.is_success(), "{:?}", ended.status);
        ended.result
    }

    /// Rewrites objects and frees their old names until sectors have moved.
    fn churn(&mut self) -> Vec<MoveEntry> {
        for round in 0..20_000u32 {
            let (object, version) = (self.rng.below(200), self.rng.below(255) as u8 + 1);
            let name = self.write(version);
            if let Some((old, _)) = self.objects.insert(object, (name, version)) {
                assert!(self.ask(NamelessOpcode::Free, old, PAGE).status.is_success());
            }
            let moves = if round % 16 == 0 { self.moves() } else { Vec::new() };
            if !moves.is_empty() {
                return moves;
            }
        }
        panic!("nothing was moved");
    }

    fn moves(&mut self) -> Vec<MoveEntry> {
        let bytes = (MovesHeader::BYTES + 4096 * MoveEntry::BYTES) as u32;
        let dwords = bytes / 4 - 1;
        let entry = SubmissionEntry::new(2, 0, 1)
            .with_cdw(10, u32::from(MOVES) | (dwords & 0xFFFF) << 16)
            .with_cdw(11, dwords >> 16)
            .with_sgl(SglDescriptor::transport(bytes));
        let cid = self.admin.send(entry, &[]);
        assert!(self.admin.end(cid).status.is_success());
        let page = self.admin.data.remove(&cid).expect("a log page");
        let header = MovesHeader::decode(page.first_chunk().expect("a header"));
        let list = page[MovesHeader::BYTES..].as_chunks::<{ MoveEntry::BYTES }>().0;
        list.iter().take(header.count as usize).map(MoveEntry::decode).collect()
    }

    /// Stores the new names and acknowledges them.
    fn follow(&mut self, moves: &[MoveEntry]) {
        for entry in moves {
            for (name, _) in self.objects.values_mut().filter(|(name, _)| *name == entry.old) {
                *name = entry.new;
            }
            assert!(self.ask(NamelessOpcode::Acknowledge, entry.old, 1).status.is_success());
        }
    }

    fn look(&mut self) {
        for (name, version) in self.objects.clone().into_values() {
            let command =
                NamelessCommand { opcode: NamelessOpcode::Read, first: name, sectors: PAGE, force: false };
            let entry = command.entry(0, 1).with_sgl(SglDescriptor::transport(BYTES as u32));
            let cid = self.io.send(entry, &[]);
            assert!(self.io.end(cid).status.is_success(), "name {name}");
            assert!(self.io.data.remove(&cid).expect("data") == [version; BYTES], "name {name}");
        }
    }
}

#[test]
fn a_host_and_a_server_come_back_and_every_name_resolves() {
    let served = serve(drive(), Time::Instant);
    let (admin, io) = attach(&served);
    let mut host = Host { admin, io, rng: Rng::stream(7, "objects"), objects: BTreeMap::new() };
    for _ in 0..4 {
        let moves = host.churn();
        host.look();
        host.follow(&moves);
        host.look();
    }
    // The host leaves without acknowledging and is told again; the event answers the waiting request.
    let missed = host.churn();
    host.attach(&served);
    let event = host.admin.send(SubmissionEntry::new(0x0C, 0, 0), &[]);
    host.look();
    let told = host.moves();
    assert!(missed.iter().all(|entry| told.contains(entry)), "{missed:?} in {told:?}");
    host.follow(&told);
    host.churn();
    assert_eq!(AsyncEvent::decode(host.admin.end(event).dw0()), Some(AsyncEvent::Moved));
    // The server stops with unacknowledged moves.
    let flush = host.io.send(SubmissionEntry::new(0, 0, 1), &[]);
    assert!(host.io.end(flush).status.is_success());
    served.stopper.stop();
    let mut device = served.thread.join().expect("no panic").remove(0);
    device.power_cut().expect("it mounts");
    let served = serve(device, Time::Instant);
    host.attach(&served);
    host.look();
    let told = host.moves();
    host.follow(&told);
    host.look();
    served.stopper.stop();
    served.thread.join().expect("no panic");
}
