//! Peers that break the protocol, deliberately or at random.

use super::world::{HOST, NQN, SECTOR, World, blocks, in_capsule};
use crate::common;
use pellucid_flash::{ChunkAddress, Drive, Interface};
use pellucid_host::{HostFtlConfig, Target as Range, TargetKind, Targets};
use pellucid_serve::{Core, Operated, Time};
use pellucid_target::Drives;
use pellucid_target::budget::TOTAL_BYTES_MAX;
use pellucid_target::connection::Close;
use pellucid_wire::nvme::{
    Connect, ConnectData, DYNAMIC_CONTROLLER, SglDescriptor, Status, SubmissionEntry, nqn,
};
use pellucid_wire::tcp::{IcReq, encode_ic_req};
use proptest::prelude::*;

const PLAIN: IcReq = IcReq { alignment: 0, header_digest: false, data_digest: false, r2t_max: 0 };

fn fatal(world: &World, link: usize) -> (u16, u32) {
    assert!(matches!(world.links[link].closed, Some(Close::Refused(_))));
    let term = world.links[link].host.term.expect("a C2HTermReq");
    (term.status, term.information)
}

#[test]
fn violations_end_the_connection_with_their_status() {
    let mut world = World::new();
    let (_, id) = world.attach(PLAIN);
    let entry = blocks(1, 0, 64).with_sgl(SglDescriptor::transport(64 * SECTOR as u32));
    // (offset, length, last, tag difference), expected status and information.
    let cases = [
        ((4096, 4096, false, 0), (4, 0)),
        ((0, 64 * SECTOR + 4, true, 0), (4, 0)),
        ((0, 4096, true, 0), (1, 1)),
        ((0, 64 * SECTOR, false, 0), (1, 1)),
        ((0, 4096, false, 9), (1, 10)),
    ];
    for (queue, ((offset, length, last, tag), expected)) in cases.into_iter().enumerate() {
        let link = world.queue(PLAIN, id, 1 + queue as u16 % 4);
        let cid = world.command(link, entry, &[]);
        let mut r2t = world.r2t(link, cid);
        r2t.transfer_tag += tag;
        let bytes = world.h2c(link, &r2t, offset, &vec![0; length], last);
        world.bytes(link, &bytes);
        assert_eq!(fatal(&world, link), expected, "{offset} {length} {last} {tag}");
    }
    let link = world.dial(PLAIN);
    world.bytes(link, &encode_ic_req(&PLAIN));
    assert_eq!(fatal(&world, link), (2, 0), "a second ICReq");
    let link = world.open(PLAIN);
    world.bytes(link, &[4, 0, 72, 0, 72, 0, 0, 0]);
    assert_eq!(fatal(&world, link), (2, 0), "a command before ICReq");
    let digests = IcReq { header_digest: true, ..PLAIN };
    let link = world.dial(digests);
    let mut bytes = world.capsule(link, &SubmissionEntry::new(0x18, 1, 0), &[]);
    bytes[20] ^= 1;
    world.bytes(link, &bytes);
    assert_eq!(fatal(&world, link).0, 3, "header digest");
    let link = world.queue(PLAIN, id, 1);
    let data = vec![0; 16 * 1024 + 512];
    let bytes = world.capsule(link, &in_capsule(blocks(1, 0, 33), &data), &data);
    world.bytes(link, &bytes);
    assert_eq!(fatal(&world, link), (1, 4), "more in the capsule than IOCCSZ allows");
}

/// Two Connects are sent before the data of either: the first turns the connection into a queue, which it
/// remains.
#[test]
fn a_connection_becomes_one_queue_only() {
    let mut world = World::new();
    let (admin, id) = world.attach(PLAIN);
    let link = world.dial(PLAIN);
    let connect = |queue_id| Connect { queue_id, queue_entries: 32, attributes: 0, keep_alive_ms: 0 };
    let cids = [1, 0].map(|queue_id| {
        let entry = connect(queue_id).entry(0).with_sgl(SglDescriptor::transport(ConnectData::BYTES as u32));
        world.command(link, entry, &[])
    });
    for (cid, controller_id) in cids.into_iter().zip([id, DYNAMIC_CONTROLLER]) {
        let names = (nqn(NQN).expect("a name"), nqn(HOST).expect("a name"));
        let data = ConnectData { host_id: [7; 16], controller_id, subsystem_nqn: names.0, host_nqn: names.1 };
        let r2t = world.r2t(link, cid);
        let bytes = world.h2c(link, &r2t, 0, &data.encode(), true);
        world.bytes(link, &bytes);
    }
    assert!(world.end(link, cids[0]).status.is_success());
    assert_eq!(world.end(link, cids[1]).status, Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
    assert_eq!(world.target.borrow().controllers().map(|c| (c.0, c.3)).collect::<Vec<_>>(), [(id, 0)]);
    assert!(world.links[admin].closed.is_none());
}

/// A vector read that is refused as a whole returns an error bitmap and no data, as its buffer holds old data
/// of another connection.
#[test]
fn a_refused_read_brings_nobody_elses_data() {
    let device = common::chunks();
    let Some(Interface::OpenChannel(geometry)) = Drive::interface(&device, 0) else { panic!("chunks") };
    let mut targets = Targets::default();
    let range = Range::new("log".into(), TargetKind::Raw, 1..3);
    targets.create(&geometry, range).expect("room");
    let mut core = Core::new(vec![("one".into(), device)], Time::Instant).expect("a drive to serve");
    let keep = Box::new(|_: &Targets| Ok(()));
    core.keep_targets("one", HostFtlConfig::default(), &targets, keep).expect("targets");
    let mut world = World::new();
    world.core = core;
    let (_, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    let start =
        |unit: u32| geometry.lba(ChunkAddress { group: unit / 2, unit: unit % 2, chunk: 0, sector: 0 });
    let secret = vec![0x5E; 8 * SECTOR];
    let write = in_capsule(blocks(1, start(0).0, 8), &secret);
    assert!(world.ask(link, write, &secret).status.is_success());
    let list: Vec<u8> = (0..8).flat_map(|n| (start(1).0 + n).to_le_bytes()).collect();
    let stage = SubmissionEntry::new(0x95, 0, 1).with_cdw_pair(10, 77).with_cdw(12, 7);
    assert!(world.ask(link, in_capsule(stage, &list), &list).status.is_success());
    let read = SubmissionEntry::new(0x92, 0, 1).with_cdw_pair(10, 77).with_cdw(12, 7);
    let cid = world.command(link, read.with_sgl(SglDescriptor::transport(8 * SECTOR as u32)), &[]);
    assert_eq!(world.end(link, cid).status, Status::LBA_OUT_OF_RANGE.do_not_retry());
    assert!(world.links[link].host.data.remove(&cid).is_none());
}

#[test]
fn more_commands_than_the_queue_holds_end_the_connection() {
    let mut world = World::new();
    let (_, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    let entry = blocks(1, 0, 512).with_sgl(SglDescriptor::transport(256 << 10));
    for _ in 0..400 {
        if world.links[link].closed.is_some() {
            return;
        }
        world.command(link, entry, &[]);
    }
    panic!("400 commands in a queue of 128");
}

#[test]
fn what_all_connections_are_asked_for_is_bounded_and_given_back() {
    let mut world = World::new();
    let entry = blocks(1, 0, 512).with_sgl(SglDescriptor::transport(256 << 10));
    let mut links = Vec::new();
    let mut asked = 0;
    for _ in 0..80 {
        let (_, id) = world.attach(PLAIN);
        for queue in 1..=4 {
            let link = world.queue(PLAIN, id, queue);
            for _ in 0..4 {
                world.command(link, entry, &[]);
            }
            asked += world.links[link].host.r2ts.len();
            links.push(link);
        }
    }
    // 256 MiB, the limit for all connections together.
    assert_eq!(asked, TOTAL_BYTES_MAX / (256 << 10));
    links.into_iter().for_each(|link| world.close(link, Close::Finished));
    let (_, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    for _ in 0..4 {
        world.command(link, entry, &[]);
    }
    assert_eq!(world.links[link].host.r2ts.len(), 4);
}

#[test]
fn a_connection_lost_in_the_middle_leaves_nothing_behind() {
    let mut world = World::new();
    let (_, id) = world.attach(PLAIN);
    let data = vec![3; 16 << 10];
    for round in 0..20 {
        let link = world.queue(PLAIN, id, 1);
        let bytes = world.capsule(link, &in_capsule(blocks(1, 0, 32), &data), &data);
        world.bytes(link, &bytes[..bytes.len() - 1 - round * 100]);
        world.close(link, Close::Finished);
        world.pump();
    }
    let link = world.queue(PLAIN, id, 1);
    assert_eq!(world.fetch(link, blocks(2, 0, 8), 4096), Ok(vec![0; 4096]), "no half write");
    assert_eq!(world.core.outstanding(), 0);
}

/// Builds a stream of commands of every kind, valid or not, for one connection.
fn commands(world: &World, link: usize, choices: &[(u8, u32, u64, u32)]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (n, &(opcode, nsid, cdw10, cdw12)) in choices.iter().enumerate() {
        let data = vec![n as u8; (cdw12 % 3 * 512) as usize];
        let entry = SubmissionEntry::new(opcode, n as u16, nsid).with_cdw_pair(10, cdw10).with_cdw(12, cdw12);
        let entry = match (n % 3, data.is_empty()) {
            (_, false) => in_capsule(entry, &data),
            (0, _) => entry.with_sgl(SglDescriptor::transport(cdw12)),
            _ => entry.with_sgl(SglDescriptor::transport(4096)),
        };
        stream.extend(world.capsule(link, &entry, &data));
    }
    stream
}

/// Commands for open-channel, zoned and placement namespaces, most of which a drive could execute.
fn direct_command() -> impl Strategy<Value = (u8, u32, u64, u32, u32, usize)> {
    let opcode = prop_oneof![
        prop::sample::select(vec![
            1u8, 1, 1, 2, 9, 0x90, 0x91, 0x91, 0x92, 0x93, 0x95, 0x79, 0x79, 0x7D, 0x7D
        ]),
        prop::sample::select(vec![0u8, 5, 8, 0x0C, 0x12, 0x1D, 0x7A]),
        any::<u8>(),
    ];
    // Starts of chunks and zones, nearby write pointers, and arbitrary addresses.
    let starts = (0u64..12, 0u64..5).prop_map(|(number, superpage)| number * 128 + superpage * 8);
    let address = prop_oneof![starts, 0u64..4096, any::<u64>()];
    let count = prop_oneof![Just(7u32), Just(15), 0u32..64, any::<u32>()];
    let action = prop_oneof![1u32..6, (1u32..6).prop_map(|action| action | 1 << 8), any::<u32>()];
    (opcode, prop_oneof![1u32..3, 0u32..5], address, count, action, 0usize..17)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// For any commands to chunks and zones, each command ends, the drive's invariants hold, and other hosts
    /// are served.
    #[test]
    fn any_commands_to_chunks_and_zones_end(
        zoned in any::<bool>(),
        choices in proptest::collection::vec(direct_command(), 1..60),
    ) {
        let drive = if zoned { common::drive_of_zones() } else { common::drive_of_sets() };
        let mut world = World::of(vec![("one".into(), drive)], None);
        let (_, id) = world.attach(PLAIN);
        let link = world.queue(PLAIN, id, 1);
        world.forgiving(link);
        for (opcode, nsid, address, count, action, sectors) in choices {
            let data: Vec<u8> = address.to_le_bytes().repeat(sectors * SECTOR / 8);
            let entry = SubmissionEntry::new(opcode, 0, nsid)
                .with_cdw_pair(10, address)
                .with_cdw(12, count)
                .with_cdw(13, action);
            let entry = match data.is_empty() {
                true => entry.with_sgl(SglDescriptor::transport((count % 64 + 1) * SECTOR as u32)),
                false => in_capsule(entry, &data),
            };
            world.command(link, entry, &data);
            if world.links[link].closed.is_some() {
                break;
            }
        }
        world.pump();
        prop_assert_eq!(world.core.outstanding(), 0);
        world.core.device(0).expect("it is here").check();
        let (_, other) = world.attach(PLAIN);
        let link = world.queue(PLAIN, other, 1);
        let read = world.fetch(link, blocks(2, 0, 8), 4096);
        prop_assert!(read.is_ok() || zoned, "{read:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_commands_and_any_flipped_bytes_are_survived(
        admin_queue in any::<bool>(),
        choices in proptest::collection::vec(
            (prop_oneof![0u8..0x20, any::<u8>(), Just(0x7F), Just(0x80)], prop_oneof![0u32..3, any::<u32>()],
             prop_oneof![0u64..64, any::<u64>(), (0u64..256).prop_map(|id| id | 127 << 16)],
             prop_oneof![0u32..40, any::<u32>()]), 1..30),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        pieces in proptest::collection::vec(1usize..3000, 1..5),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut world = World::new();
        let (admin, id) = world.attach(PLAIN);
        let io = world.queue(PLAIN, id, 1);
        let link = if admin_queue { admin } else { io };
        let mut stream = commands(&world, link, &choices);
        for (index, value) in flips {
            let at = index.index(stream.len());
            stream[at] = value;
        }
        stream.extend(noise);
        world.pieces = pieces;
        world.forgiving(link);
        world.bytes(link, &stream);
        world.pump();
        prop_assert_eq!(world.core.outstanding(), 0);
        // Another host is still served.
        let (_, other) = world.attach(PLAIN);
        let link = world.queue(PLAIN, other, 1);
        prop_assert!(world.fetch(link, blocks(2, 0, 8), 4096).is_ok());
    }
}
