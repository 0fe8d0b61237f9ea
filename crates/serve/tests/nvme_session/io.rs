//! Data transfers compared with a plain copy: through R2T, in capsules, with digests, in pieces; and the
//! exact statuses of refusals.

use super::world::{HOST, NQN, SECTOR, World, blocks, in_capsule};
use pellucid_target::Drives;
use pellucid_wire::nvme::{Connect, DsmRange, SglDescriptor, Status, SubmissionEntry};
use pellucid_wire::tcp::IcReq;
use proptest::prelude::*;

const WRITE: u8 = 1;
const READ: u8 = 2;
const COMPARE: u8 = 5;
const ZEROES: u8 = 8;
const DSM: u8 = 9;
const VERIFY: u8 = 0xC;

fn digests(on: bool) -> IcReq {
    IcReq { alignment: if on { 3 } else { 0 }, header_digest: on, data_digest: on, r2t_max: 0 }
}

fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n * 7 + seed * 131 + (n >> 9) * 13) as u8).collect()
}

fn dsm(ranges: &[(u64, u32)]) -> (SubmissionEntry, Vec<u8>) {
    let data: Vec<u8> = ranges
        .iter()
        .flat_map(|&(start, length_blocks)| DsmRange { attributes: 0, length_blocks, start }.encode())
        .collect();
    let entry = SubmissionEntry::new(DSM, 0, 1).with_cdw(10, ranges.len() as u32 - 1).with_cdw(11, 4);
    (in_capsule(entry, &data), data)
}

#[test]
fn commands_of_all_kinds_match_a_plain_copy() {
    for digest in [false, true] {
        for pieces in [vec![usize::MAX], vec![1, 7, 100, 5000], vec![72, 24, 4096]] {
            let mut world = World::new();
            world.pieces = pieces;
            let (_, id) = world.attach(digests(digest));
            let link = world.queue(digests(digest), id, 1);
            let mut copy = vec![0u8; 600 * SECTOR];
            for n in 0..60usize {
                let lba = n * 37 % 500;
                let sectors = 1 + n * 11 % 90;
                let range = lba * SECTOR..(lba + sectors) * SECTOR;
                let (entry, data) = (blocks(WRITE, lba as u64, sectors as u32), pattern(n, range.len()));
                let status = match n % 6 {
                    0 | 1 if range.len() <= 16 << 10 => {
                        let entry = if n % 2 == 0 {
                            entry
                        } else {
                            entry.with_cdw(12, (sectors as u32 - 1) | 1 << 30)
                        };
                        world.ask(link, in_capsule(entry, &data), &data).status
                    }
                    0..=3 => world.write_r2t(link, entry, &data, 4096 + n * 100),
                    4 => world.ask(link, blocks(ZEROES, lba as u64, sectors as u32), &[]).status,
                    _ => {
                        let (entry, list) = dsm(&[(lba as u64, 1), (lba as u64 + 1, sectors as u32 - 1)]);
                        world.ask(link, entry, &list).status
                    }
                };
                assert!(status.is_success(), "{n}: {status:?}");
                copy[range.clone()].copy_from_slice(&if n % 6 < 4 { data } else { vec![0; range.len()] });
                let fua = if n % 5 == 0 { 1 << 30 } else { 0 };
                let entry = blocks(READ, lba as u64, sectors as u32).with_cdw(12, (sectors as u32 - 1) | fua);
                let read = world.fetch(link, entry, range.len() as u32).expect("a read");
                assert!(read == copy[range], "{n}: other data");
            }
            for start in (0..600).step_by(100) {
                let read = world.fetch(link, blocks(READ, start, 100), 100 * SECTOR as u32).expect("a read");
                assert!(read == copy[start as usize * SECTOR..][..100 * SECTOR]);
            }
            assert!(world.ask(link, SubmissionEntry::new(0, 0, 1), &[]).status.is_success(), "flush");
            assert!(world.ask(link, SubmissionEntry::new(0, 0, u32::MAX), &[]).status.is_success());
        }
    }
}

#[test]
fn a_read_ends_without_a_response_only_where_flow_control_is_off() {
    for disabled in [false, true] {
        let mut world = World::new();
        let (_, id) = world.attach(digests(false));
        let link = world.dial(digests(false));
        let attributes = if disabled { 1 << 2 } else { 0 };
        let connect = Connect { queue_id: 1, queue_entries: 8, attributes, keep_alive_ms: 0 };
        let connected = world.connect(link, &connect, NQN, HOST, id);
        assert_eq!(connected.sq_head, if disabled { 0xFFFF } else { 1 });
        for n in 0..20u16 {
            let entry = blocks(READ, 0, 8).with_sgl(SglDescriptor::transport(8 * SECTOR as u32));
            let end = world.ask(link, entry, &[]);
            assert!(end.status.is_success());
            assert_eq!(world.links[link].host.data.remove(&end.cid).map(|data| data.len()), Some(8 * SECTOR));
            assert_eq!(end.sq_head, if disabled { 0 } else { (n + 2) % 8 }, "every end moves the head on");
        }
        assert_eq!(world.links[link].host.flagged, if disabled { 20 } else { 0 });
    }
}

#[test]
fn compare_and_verify() {
    let mut world = World::new();
    let (admin, id) = world.attach(digests(false));
    let link = world.queue(digests(false), id, 1);
    let data = pattern(3, 8 * SECTOR);
    assert!(world.ask(link, in_capsule(blocks(WRITE, 8, 8), &data), &data).status.is_success());
    assert!(world.ask(link, in_capsule(blocks(COMPARE, 8, 8), &data), &data).status.is_success());
    assert!(world.write_r2t(link, blocks(COMPARE, 8, 8), &data, 1 << 20).is_success());
    let mut other = data.clone();
    other[8 * SECTOR - 1] ^= 1;
    let status = world.ask(link, in_capsule(blocks(COMPARE, 8, 8), &other), &other).status;
    assert_eq!(status, Status::COMPARE_FAILURE.do_not_retry());
    assert!(world.ask(link, blocks(VERIFY, 8, 8), &[]).status.is_success());
    // The error log has the failure with its address.
    let entry = SubmissionEntry::new(2, 0, 0).with_cdw(10, 1 | 15 << 16);
    let log = world.fetch(admin, entry, 64).expect("the error log");
    assert_eq!(log[..8], 1u64.to_le_bytes());
    assert_eq!(log[8..10], 1u16.to_le_bytes());
    assert_eq!(u16::from_le_bytes([log[12], log[13]]) >> 1, status.raw());
    assert_eq!(log[16..28], [8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
}

#[test]
fn interleaved_transfers_find_their_commands() {
    let mut world = World::new();
    world.pieces = vec![3000, 20, 1 << 20];
    let (_, id) = world.attach(digests(true));
    let link = world.queue(digests(true), id, 1);
    let data: Vec<Vec<u8>> = (0..3).map(|n| pattern(n, 40 * SECTOR)).collect();
    let cids: Vec<u16> = (0..3u64)
        .map(|n| {
            let entry = blocks(WRITE, n * 40, 40).with_sgl(SglDescriptor::transport(40 * SECTOR as u32));
            world.command(link, entry, &[])
        })
        .collect();
    let r2ts: Vec<_> = cids.iter().map(|&cid| world.r2t(link, cid)).collect();
    // Interleaved data, the last command's first, with a read and an in-capsule write in between.
    for half in 0..2 {
        for n in (0..3).rev() {
            let at = half * 20 * SECTOR;
            let bytes = world.h2c(link, &r2ts[n], at, &data[n][at..at + 20 * SECTOR], half == 1);
            world.bytes(link, &bytes);
            let small = pattern(n + 9, SECTOR);
            assert!(world.ask(link, in_capsule(blocks(WRITE, 200, 1), &small), &small).status.is_success());
            let read = world.fetch(link, blocks(READ, 200, 1), SECTOR as u32).expect("a read");
            assert_eq!(read, small);
        }
    }
    for (n, cid) in cids.into_iter().enumerate() {
        assert!(world.end(link, cid).status.is_success());
        let read = world.fetch(link, blocks(READ, n as u64 * 40, 40), 40 * SECTOR as u32).expect("a read");
        assert!(read == data[n]);
    }
}

#[test]
fn data_that_were_asked_for_stay_bounded() {
    let mut world = World::new();
    let (_, id) = world.attach(digests(false));
    let link = world.queue(digests(false), id, 1);
    let entry = blocks(WRITE, 0, 512).with_sgl(SglDescriptor::transport(256 << 10));
    let cids: Vec<u16> = (0..10).map(|_| world.command(link, entry, &[])).collect();
    assert_eq!(world.links[link].host.r2ts.len(), 4, "1 MiB at a time");
    let data = pattern(1, 256 << 10);
    for &cid in &cids {
        let r2t = world.r2t(link, cid);
        let bytes = world.h2c(link, &r2t, 0, &data, true);
        world.bytes(link, &bytes);
        assert!(world.end(link, cid).status.is_success());
    }
}

#[test]
fn refusals_have_the_status_of_the_specification() {
    let mut world = World::new();
    let (_, id) = world.attach(digests(false));
    let link = world.queue(digests(false), id, 1);
    let sectors = world.core.namespaces()[0].sectors;
    let data = vec![0; SECTOR];
    let transport = |entry: SubmissionEntry, bytes| entry.with_sgl(SglDescriptor::transport(bytes));
    let cases = [
        ("past the end", transport(blocks(READ, sectors, 1), 512), Status::LBA_OUT_OF_RANGE),
        ("over the end", transport(blocks(READ, sectors - 1, 2), 1024), Status::LBA_OUT_OF_RANGE),
        ("over 2^64", transport(blocks(READ, u64::MAX, 2), 1024), Status::LBA_OUT_OF_RANGE),
        ("zeroes past the end", blocks(ZEROES, sectors, 1), Status::LBA_OUT_OF_RANGE),
        ("over MDTS", transport(blocks(READ, 0, 513), 513 * 512), Status::INVALID_FIELD),
        ("namespace 0", SubmissionEntry::new(0, 0, 0), Status::INVALID_NAMESPACE),
        ("namespace 2", SubmissionEntry::new(0, 0, 2), Status::INVALID_NAMESPACE),
        ("opcode", SubmissionEntry::new(0x7E, 0, 1), Status::INVALID_OPCODE),
        ("short SGL", transport(blocks(READ, 0, 2), 512), Status::SGL_DATA_LENGTH_INVALID),
        ("read in the capsule", in_capsule(blocks(READ, 0, 1), &data), Status::SGL_TYPE_INVALID),
        ("protection", transport(blocks(READ, 0, 1).with_cdw(12, 1 << 29), 512), Status::INVALID_FIELD),
    ];
    for (what, entry, status) in cases {
        assert_eq!(world.ask(link, entry, &[]).status, status.do_not_retry(), "{what}");
    }
    let mut fused = transport(blocks(READ, 0, 1), 512);
    fused.0[1] |= 1;
    assert_eq!(world.ask(link, fused, &[]).status, Status::INVALID_FIELD.do_not_retry());
    let mut prp = transport(blocks(READ, 0, 1), 512);
    prp.0[1] = 0;
    assert_eq!(world.ask(link, prp, &[]).status, Status::INVALID_FIELD.do_not_retry());
    // Data of a refused command are skipped, and the next command is parsed.
    let status = world.ask(link, in_capsule(blocks(WRITE, sectors, 1), &data), &data).status;
    assert_eq!(status, Status::LBA_OUT_OF_RANGE.do_not_retry());
    let beyond = blocks(WRITE, 0, 1).with_sgl(SglDescriptor::in_capsule(8, 512));
    assert_eq!(world.ask(link, beyond, &data).status, Status::SGL_OFFSET_INVALID.do_not_retry());
    let (entry, list) = dsm(&[(0, 8), (sectors - 1, 2)]);
    assert_eq!(world.ask(link, entry, &list).status, Status::LBA_OUT_OF_RANGE.do_not_retry());
    assert!(world.fetch(link, blocks(READ, 0, 1), 512).is_ok());
}

#[test]
fn in_capsule_data_may_stand_behind_an_offset() {
    let mut world = World::new();
    let (_, id) = world.attach(digests(false));
    let link = world.queue(digests(false), id, 1);
    let data = pattern(5, SECTOR);
    let padded = [vec![0xEE; 40], data.clone(), vec![0xEE; 4]].concat();
    let entry = blocks(WRITE, 3, 1).with_sgl(SglDescriptor::in_capsule(40, SECTOR as u32));
    assert!(world.ask(link, entry, &padded).status.is_success());
    assert_eq!(world.fetch(link, blocks(READ, 3, 1), 512), Ok(data));
}

#[test]
fn a_wrong_data_digest_fails_the_command_and_nothing_else() {
    let mut world = World::new();
    let (_, id) = world.attach(digests(true));
    let link = world.queue(digests(true), id, 1);
    let data = pattern(1, SECTOR);
    assert!(world.ask(link, in_capsule(blocks(WRITE, 0, 1), &data), &data).status.is_success());
    let mut entry = in_capsule(blocks(WRITE, 0, 1), &data);
    entry.0[2..4].copy_from_slice(&900u16.to_le_bytes());
    let mut bytes = world.capsule(link, &entry, &pattern(2, SECTOR));
    *bytes.last_mut().expect("bytes") ^= 1;
    world.bytes(link, &bytes);
    assert_eq!(world.end(link, 900).status, Status::TRANSIENT_TRANSPORT_ERROR);
    assert_eq!(world.fetch(link, blocks(READ, 0, 1), 512), Ok(data));
}

#[test]
fn a_reset_loses_nothing_and_closes_the_queues() {
    let mut world = World::new();
    let (admin, id) = world.attach(digests(false));
    let link = world.queue(digests(false), id, 1);
    let data = pattern(1, 4096);
    assert!(world.ask(link, in_capsule(blocks(WRITE, 16, 8), &data), &data).status.is_success());
    assert!(world.set_cc(admin, 0x0046_0000).status.is_success());
    assert!(world.links[link].closed.is_some());
    assert_eq!(world.property(admin, 0x1C), 0);
    assert!(world.set_cc(admin, super::world::CC_ENABLE).status.is_success());
    let link = world.queue(digests(false), id, 1);
    assert_eq!(world.fetch(link, blocks(READ, 16, 8), 4096), Ok(data));
    // Shutdown: flushes, then reports completion; the queues refuse commands.
    assert!(world.set_cc(admin, super::world::CC_ENABLE | 1 << 14).status.is_success());
    world.pump();
    assert_eq!(world.property(admin, 0x1C) >> 2 & 3, 2);
    let refused = world.fetch(link, blocks(READ, 16, 8), 4096);
    assert_eq!(refused, Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()));
}

#[test]
fn many_commands_at_once_all_end() {
    let mut world = World::new();
    let (_, id) = world.attach(digests(false));
    let link = world.queue(digests(false), id, 1);
    let mut stream = Vec::new();
    for cid in 0..100u16 {
        let mut entry = blocks(READ, u64::from(cid) * 8, 8).with_sgl(SglDescriptor::transport(4096));
        entry.0[2..4].copy_from_slice(&cid.to_le_bytes());
        stream.extend(world.capsule(link, &entry, &[]));
    }
    world.bytes(link, &stream);
    for cid in 0..100 {
        assert!(world.end(link, cid).status.is_success());
        assert_eq!(world.links[link].host.data.remove(&cid), Some(vec![0; 4096]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn random_work_matches_a_plain_copy(
        digest in any::<bool>(),
        pieces in proptest::collection::vec(1usize..9000, 1..6),
        work in proptest::collection::vec((0u8..6, 0usize..400, 1usize..100, 500usize..60_000), 1..40),
    ) {
        let mut world = World::new();
        world.pieces = pieces;
        let (_, id) = world.attach(digests(digest));
        let links = [world.queue(digests(digest), id, 1), world.queue(digests(!digest), id, 2)];
        let mut copy = vec![0u8; 500 * SECTOR];
        for (n, (kind, lba, sectors, piece)) in work.into_iter().enumerate() {
            let link = links[n % 2];
            let range = lba * SECTOR..(lba + sectors) * SECTOR;
            let data = pattern(n, range.len());
            let (lba, count) = (lba as u64, sectors as u32);
            match kind {
                0 | 1 => {
                    prop_assert!(world.write_r2t(link, blocks(WRITE, lba, count), &data, piece).is_success());
                    copy[range].copy_from_slice(&data);
                }
                2 => {
                    let entry = in_capsule(blocks(WRITE, lba, 1), &data[..SECTOR]);
                    prop_assert!(world.ask(link, entry, &data[..SECTOR]).status.is_success());
                    copy[range.start..range.start + SECTOR].copy_from_slice(&data[..SECTOR]);
                }
                3 => {
                    prop_assert!(world.ask(link, blocks(ZEROES, lba, count), &[]).status.is_success());
                    copy[range].fill(0);
                }
                _ => {
                    let read = world.fetch(link, blocks(READ, lba, count), range.len() as u32);
                    prop_assert!(read.expect("a read") == copy[range]);
                }
            }
        }
    }
}

/// A batch of reads and writes returns first all data and then all responses, whose head pointers never run
/// backwards.
#[test]
fn responses_follow_the_data_that_are_sent_with_them() {
    let mut world = World::new();
    let (_, id) = world.attach(digests(false));
    let link = world.queue(digests(false), id, 1);
    let data = pattern(3, 4096);
    assert!(world.ask(link, in_capsule(blocks(WRITE, 0, 8), &data), &data).status.is_success());
    world.links[link].host.heads.clear();
    let mut capsules = Vec::new();
    for cid in 100..130u16 {
        let (mut entry, data) = match cid % 5 {
            0 => (in_capsule(blocks(WRITE, u64::from(cid) * 8, 8), &data), &data[..]),
            _ => (blocks(READ, 0, 8).with_sgl(SglDescriptor::transport(4096)), &[][..]),
        };
        entry.0[2..4].copy_from_slice(&cid.to_le_bytes());
        capsules.extend(world.capsule(link, &entry, data));
    }
    world.bytes(link, &capsules);
    let host = &mut world.links[link].host;
    assert_eq!((host.responses.len(), host.late_data), (30, 0));
    assert!(host.heads.is_sorted(), "{:?}", host.heads);
    assert!((100..130).filter(|cid| cid % 5 != 0).all(|cid| host.data.remove(&cid) == Some(data.clone())));
}
