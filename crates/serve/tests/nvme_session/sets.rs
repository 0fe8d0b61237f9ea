//! Command sets beside NVM: namespace 1 has placement handles, namespace 2 is open-channel; both are on one
//! drive.

mod groups;

use super::world::{CC_ENABLE, HOST, NQN, SECTOR, World, blocks, in_capsule};
use crate::common;
use pellucid_device::Device;
use pellucid_flash::{DieId, Interface};
use pellucid_ftl::Management;
use pellucid_host::{HostFtlConfig, Target, TargetKind, Targets};
use pellucid_media::{Fault, ListedFault, StoreKind};
use pellucid_serve::{Core, Time};
use pellucid_target::Drives;
use pellucid_target::Service;
use pellucid_target::connection::Close;
use pellucid_wire::nvme::fdp::{
    Configuration, ConfigurationsHeader, Event, EventsHeader, HandleStatus, HandleStatusHeader, Statistics,
};
use pellucid_wire::nvme::open_channel::{ChunkDescriptor, ChunkNotification, Geometry};
use pellucid_wire::nvme::{
    Connect, DYNAMIC_CONTROLLER, DsmRange, IdentifyController, IdentifyNamespace, IndependentNamespace,
    SglDescriptor, SmartLog, Status, SubmissionEntry,
};
use pellucid_wire::tcp::IcReq;
use std::collections::BTreeMap;

const PLAIN: IcReq = IcReq { alignment: 0, header_digest: false, data_digest: false, r2t_max: 0 };
const WRITE: u8 = 1;
const READ: u8 = 2;
const DSM: u8 = 9;
const RECEIVE: u8 = 0x12;
const SEND: u8 = 0x1D;

struct Sets {
    world: World,
    admin: usize,
    io: usize,
}

fn sets() -> Sets {
    failing_sets(Vec::new())
}

fn failing_sets(faults: Vec<ListedFault>) -> Sets {
    sets_on(common::drive_of_sets_with(faults, Management::Host))
}

fn sets_on(drive: Device) -> Sets {
    let mut world = World::of(vec![("sets".into(), drive)], None);
    let (admin, id) = world.attach(PLAIN);
    let io = world.queue(PLAIN, id, 1);
    Sets { world, admin, io }
}

impl Sets {
    fn identify(&mut self, cns: u32, nsid: u32) -> Box<[u8; 4096]> {
        let entry = SubmissionEntry::new(6, 0, nsid).with_cdw(10, cns);
        self.world.fetch(self.admin, entry, 4096).expect("identify").try_into().expect("4096 bytes")
    }

    /// Reads a log page; `id` has its specific parameter in the high bits, `group` is the upper half of dword
    /// 11.
    fn log(&mut self, id: u32, nsid: u32, group: u32, offset: u64, bytes: u32) -> Result<Vec<u8>, Status> {
        let entry = SubmissionEntry::new(2, 0, nsid)
            .with_cdw(10, id | (bytes / 4 - 1) << 16)
            .with_cdw(11, group << 16)
            .with_cdw_pair(12, offset);
        self.world.fetch(self.admin, entry, bytes)
    }

    fn feature(&mut self, set: bool, id: u32, nsid: u32, cdw11: u32) -> (Status, u64) {
        let entry =
            SubmissionEntry::new(if set { 9 } else { 10 }, 0, nsid).with_cdw(10, id).with_cdw(11, cdw11);
        let ended = self.world.ask(self.admin, entry, &[]);
        (ended.status, ended.result)
    }

    /// Writes blocks of namespace 1 with the placement directive.
    fn place(&mut self, lba: u64, handle: u32) -> Status {
        let data = [handle as u8 + 1; 8 * SECTOR];
        let entry = blocks(WRITE, lba, 8).with_cdw(12, 7 | 2 << 20).with_cdw(13, handle << 16);
        self.world.ask(self.io, in_capsule(entry, &data), &data).status
    }

    fn remaining(&mut self) -> Vec<u64> {
        let entry = SubmissionEntry::new(RECEIVE, 0, 1).with_cdw(10, 1).with_cdw(11, 4096 / 4 - 1);
        let page = self.world.fetch(self.io, entry, 4096).expect("handle status");
        let header = HandleStatusHeader::decode(page.first_chunk().expect("a header"));
        let list = page[HandleStatusHeader::BYTES..].as_chunks::<{ HandleStatus::BYTES }>().0;
        let list = list.iter().take(header.handles.into()).map(HandleStatus::decode);
        list.enumerate()
            .map(|(n, status)| {
                assert_eq!((usize::from(status.placement), usize::from(status.handle)), (n, n));
                status.writable_blocks
            })
            .collect()
    }

    fn chunk(&mut self, number: u64) -> ChunkDescriptor {
        let page = self.log(0xCA, 2, 0, number * 32, 32).expect("chunk log");
        ChunkDescriptor::decode(page.first_chunk().expect("32 bytes"))
    }

    /// Sends an open-channel command without data.
    fn plain(&mut self, entry: SubmissionEntry) -> (Status, u64) {
        let ended = self.world.ask(self.io, entry, &[]);
        (ended.status, ended.result)
    }
}

fn no(status: Status) -> Status {
    status.do_not_retry()
}

fn of_two(mut entry: SubmissionEntry) -> SubmissionEntry {
    entry.0[4..8].copy_from_slice(&2u32.to_le_bytes());
    entry
}

fn count_of(geometry: &Geometry) -> u64 {
    u64::from(geometry.groups) * u64::from(geometry.units) * u64::from(geometry.chunks)
}

#[test]
fn a_host_learns_what_the_namespaces_are() {
    let mut sets = sets();
    let controller = IdentifyController::decode(&sets.identify(1, 0));
    assert_eq!((controller.vendor_id, controller.endurance_group_max, controller.namespaces), (0x1D1D, 1, 2));
    assert_eq!(controller.attributes & (1 << 4 | 1 << 19), 1 << 4 | 1 << 19);
    let placed = IdentifyNamespace::decode(&sets.identify(0, 1));
    assert_eq!((placed.endurance_group, placed.vendor[0]), (1, 0));
    let chunks = IdentifyNamespace::decode(&sets.identify(0, 2));
    assert_eq!((chunks.endurance_group, chunks.vendor[0]), (0, 1));
    for (nsid, group) in [(1, 1), (2, 0)] {
        let independent = IndependentNamespace::decode(&sets.identify(8, nsid));
        assert_eq!((independent.features & 1 << 4, independent.endurance_group), (0, group), "rotational");
        let cached = sets.world.core.namespaces()[nsid as usize - 1].keeps.has_cache();
        assert_eq!(independent.features >> 5 & 1 == 0, cached, "VWCNP");
    }
    let geometry = SubmissionEntry::new(0xE2, 0, 2);
    let page = sets.world.fetch(sets.admin, geometry, 4096).expect("geometry");
    let geometry = Geometry::decode(page.first_chunk().expect("4096 bytes"));
    let bits = geometry.group_bits + geometry.unit_bits + geometry.chunk_bits + geometry.block_bits;
    assert_eq!((geometry.major, geometry.write_min), (2, 8));
    assert_eq!(geometry.capabilities, 0b01, "vector copy; no reset of a free chunk");
    let beyond = count_of(&geometry) * 32;
    assert!(sets.log(0xCA, 2, 0, beyond, 32).is_ok());
    assert_eq!(sets.log(0xCA, 2, 0, beyond + 4, 32), Err(no(Status::INVALID_FIELD)));
    assert_eq!(chunks.size_blocks, 1 << bits);
    assert_eq!(chunks.capacity_blocks, count_of(&geometry) * u64::from(geometry.chunk_blocks));
    let other = SubmissionEntry::new(0xE2, 0, 1).with_sgl(SglDescriptor::transport(4096));
    assert_eq!(sets.world.ask(sets.admin, other, &[]).status, no(Status::INVALID_OPCODE));
}

#[test]
fn writes_are_placed_and_counted() {
    let mut sets = sets();
    let full = sets.remaining();
    assert_eq!(full.len(), 3);
    let before = full[1];
    assert!(sets.place(0, 1).is_success() && sets.place(8, 1).is_success() && sets.place(16, 2).is_success());
    assert!(sets.place(24, 3).is_success(), "there are three handles; this goes to the first");
    assert!(sets.world.ask(sets.io, SubmissionEntry::new(0, 0, 1), &[]).status.is_success(), "flush");
    assert_eq!(sets.remaining(), [before - 8, before - 16, before - 8]);
    let update = 1u16.to_le_bytes();
    let send = SubmissionEntry::new(SEND, 0, 1).with_cdw(10, 1);
    assert!(sets.world.ask(sets.io, in_capsule(send, &update), &update).status.is_success());
    assert_eq!(sets.remaining(), [before - 8, before, before - 8]);
    let wrong = [1u16, 3].map(u16::to_le_bytes).concat();
    let send = SubmissionEntry::new(SEND, 0, 1).with_cdw(10, 1 | 1 << 16);
    assert_eq!(sets.world.ask(sets.io, in_capsule(send, &wrong), &wrong).status, no(Status::INVALID_FIELD));
    let read = sets.world.fetch(sets.io, blocks(READ, 16, 8), 8 * SECTOR as u32).expect("a read");
    assert!(read.iter().all(|&byte| byte == 3));
    // The directive is not valid for other namespaces.
    let receive = SubmissionEntry::new(RECEIVE, 0, 2).with_cdw(10, 1).with_sgl(SglDescriptor::transport(4));
    assert_eq!(sets.plain(receive).0, no(Status::FDP_DISABLED));
}

#[test]
fn placement_logs_and_features() {
    let mut sets = sets();
    let page = sets.log(0x20, 0, 1, 0, 128).expect("configurations");
    let header = ConfigurationsHeader::decode(page.first_chunk().expect("a header"));
    let configuration = Configuration::decode(page[16..].first_chunk().expect("one"));
    assert_eq!((header.configurations, header.log_bytes), (0, 16 + 64 + 16));
    assert_eq!(
        (configuration.handles, configuration.groups, configuration.attributes),
        (3, 1, 1 << 7 | 1 << 4)
    );
    let cached = IdentifyController::decode(&sets.identify(1, 0)).volatile_write_cache & 1;
    assert_eq!(cached, 1, "as the configuration says");
    assert_eq!(page[80], 1, "initially isolated");
    assert_eq!(&sets.log(0x21, 0, 1, 0, 32).expect("usage")[..2], [3, 0]);
    assert_eq!(sets.log(0x22, 0, 2, 0, 64), Err(no(Status::FDP_DISABLED)), "an open-channel namespace");
    assert_eq!(sets.log(0x22, 0, 3, 0, 64), Err(no(Status::INVALID_FIELD)), "no such group");
    assert!(sets.place(0, 1).is_success());
    assert!(sets.world.ask(sets.io, SubmissionEntry::new(0, 0, 1), &[]).status.is_success(), "flush");
    let statistics = sets.log(0x22, 0, 1, 0, 64).expect("statistics");
    let statistics = Statistics::decode(statistics.first_chunk().expect("64 bytes"));
    assert_eq!(statistics.host_bytes, 8 * SECTOR as u128);
    // The drive has two namespaces but counts once.
    let smart = sets.log(2, 0, 0, 0, 512).expect("SMART");
    let cuts = sets.world.core.device(0).expect("of this process").counters().power_cuts;
    let smart = SmartLog::decode(smart.first_chunk().expect("512 bytes"));
    assert_eq!((smart.data_units_written, smart.unsafe_shutdowns), (1, cuts.into()));
    assert!(statistics.media_bytes >= statistics.host_bytes);
    // Writes and resets outside the group's namespace do not count.
    let (chunk, data) = (sets.chunk(1).start, [1; 8 * SECTOR]);
    let write = in_capsule(of_two(blocks(WRITE, chunk, 8)), &data);
    assert!(sets.world.ask(sets.io, write, &data).status.is_success());
    assert_eq!(sets.plain(SubmissionEntry::new(0x90, 0, 2).with_cdw_pair(10, chunk)).0, Status::SUCCESS);
    let page = sets.log(0x22, 0, 1, 0, 64).expect("statistics");
    assert_eq!(Statistics::decode(page.first_chunk().expect("64 bytes")), statistics);
    assert_eq!(sets.feature(false, 0x1D, 0, 1), (Status::SUCCESS, 1));
    assert_eq!(sets.feature(true, 0x1D, 0, 1).0, no(Status::COMMAND_SEQUENCE_ERROR));
    assert_eq!(sets.feature(false, 0x1D | 3 << 8, 0, 1), (Status::SUCCESS, 0), "cannot be changed");
    assert_eq!(sets.feature(false, 0x1E | 3 << 8, 1, 0), (Status::SUCCESS, 0b110));
    // Only enabled events are kept when they occur: at first none, then nonexistent handles.
    assert!(sets.place(8, 9).is_success());
    let count = |page: &[u8]| EventsHeader::decode(page.first_chunk().expect("64 bytes")).events;
    assert_eq!(count(&sets.log(0x23 | 1 << 8, 0, 1, 0, 128).expect("events")), 0);
    let enable = SubmissionEntry::new(9, 0, 1).with_cdw(10, 0x1E).with_cdw(11, 1 << 16).with_cdw(12, 1);
    assert!(sets.world.ask(sets.admin, in_capsule(enable, &[3]), &[3]).status.is_success());
    assert_eq!(count(&sets.log(0x23 | 1 << 8, 0, 1, 0, 128).expect("events")), 0, "it was not enabled then");
    assert!(sets.place(8, 9).is_success());
    let page = sets.log(0x23 | 1 << 8, 0, 1, 0, 128).expect("events");
    let event = Event::decode(page[64..].first_chunk().expect("one"));
    assert_eq!((count(&page), event.kind, event.placement, event.nsid), (1, 3, 9, 1));
    assert_eq!(event.handle, 0, "where the data went");
    assert_eq!(count(&sets.log(0x23, 0, 1, 0, 128).expect("those of the drive")), 0);
    // The feature returns the number of kinds, and whether each is enabled.
    let get = SubmissionEntry::new(10, 0, 1).with_cdw(10, 0x1E).with_cdw(11, 255 << 16);
    let cid = sets.world.command(sets.admin, get.with_sgl(SglDescriptor::transport(510)), &[]);
    let count = sets.world.end(sets.admin, cid).dw0() as usize;
    let list = sets.world.links[sets.admin].host.data.remove(&cid).expect("a list");
    assert_eq!((count > 3, list.len()), (true, 2 * count));
    let enabled: Vec<u8> = list.chunks_exact(2).filter(|kind| kind[1] & 1 == 1).map(|kind| kind[0]).collect();
    assert_eq!(enabled, [3]);
    // The list is limited by the request and by the room; and the handle must exist.
    for (noet, room, wanted) in [(2, 510, 4), (255, 6, 6)] {
        let get = get.with_cdw(11, noet << 16).with_sgl(SglDescriptor::transport(room));
        let cid = sets.world.command(sets.admin, get, &[]);
        assert_eq!(sets.world.end(sets.admin, cid).dw0() as usize, count);
        assert_eq!(sets.world.links[sets.admin].host.data.remove(&cid).expect("a list").len(), wanted);
    }
    assert_eq!(sets.feature(false, 0x1E, 1, 0), (Status::SUCCESS, count as u64), "none is asked for");
    assert_eq!(sets.feature(false, 0x1E, 1, 3).0, no(Status::INVALID_FIELD), "no such handle");
}

#[test]
fn chunks_are_written_read_copied_and_reset() {
    let mut sets = sets();
    let start = sets.chunk(1).start;
    assert_eq!((sets.chunk(1).state, sets.chunk(1).write_pointer), (1, 0));
    let data: Vec<u8> = (0..8 * SECTOR).map(|n| (n / SECTOR + 1) as u8).collect();
    // Scalar write, in order.
    let write = of_two(blocks(WRITE, start, 8));
    assert!(sets.world.ask(sets.io, in_capsule(write, &data), &data).status.is_success());
    assert_eq!((sets.chunk(1).state, sets.chunk(1).write_pointer), (4, 8));
    let again = sets.world.ask(sets.io, in_capsule(write, &data), &data).status;
    assert!(again.is(Status::OC_OUT_OF_ORDER), "{again:?}");
    // A vector write with its list before the data.
    let addresses: Vec<u64> = (start + 8..start + 16).collect();
    let list: Vec<u8> = addresses.iter().flat_map(|a| a.to_le_bytes()).collect();
    let both = [list.clone(), data.clone()].concat();
    let vector = SubmissionEntry::new(0x91, 0, 2).with_cdw(12, 7);
    assert!(sets.world.ask(sets.io, in_capsule(vector, &both), &both).status.is_success());
    assert_eq!(sets.chunk(1).write_pointer, 16);
    // One address in the command.
    let one = SubmissionEntry::new(0x92, 0, 2).with_cdw_pair(10, start + 3);
    assert_eq!(sets.world.fetch(sets.io, one, SECTOR as u32).expect("a read"), vec![4; SECTOR]);
    // A staged list, which is consumed.
    let stage = SubmissionEntry::new(0x95, 0, 2).with_cdw_pair(10, 77).with_cdw(12, 7);
    assert!(sets.world.ask(sets.io, in_capsule(stage, &list), &list).status.is_success());
    let listed = SubmissionEntry::new(0x92, 0, 2).with_cdw_pair(10, 77).with_cdw(12, 7);
    let read = sets.world.fetch(sets.io, listed, 8 * SECTOR as u32).expect("a vector read");
    assert!(read == data);
    let gone = listed.with_sgl(SglDescriptor::transport(8 * SECTOR as u32));
    assert_eq!(sets.plain(gone).0, no(Status::INVALID_FIELD));
    // Copy to another chunk, from a list of sources and destinations.
    let target = sets.chunk(3).start;
    let both: Vec<u8> =
        addresses.iter().copied().chain(target..target + 8).flat_map(u64::to_le_bytes).collect();
    let stage = SubmissionEntry::new(0x95, 0, 2).with_cdw_pair(10, 5).with_cdw(12, 15);
    assert!(sets.world.ask(sets.io, in_capsule(stage, &both), &both).status.is_success());
    let copy = SubmissionEntry::new(0x93, 0, 2).with_cdw_pair(10, 5).with_cdw(12, 7);
    assert_eq!(sets.plain(copy), (Status::SUCCESS, 0));
    let read = sets.world.fetch(sets.io, of_two(blocks(READ, target, 8)), 8 * SECTOR as u32);
    assert!(read.expect("a read") == data);
    // Resets: by vector, and by Dataset Management, which needs whole chunks.
    assert_eq!(sets.plain(SubmissionEntry::new(0x90, 0, 2).with_cdw_pair(10, start)).0, Status::SUCCESS);
    assert_eq!((sets.chunk(1).state, sets.chunk(1).write_pointer), (1, 0));
    for (length, wanted) in [(7, no(Status::INVALID_FIELD)), (sets.chunk(3).blocks as u32, Status::SUCCESS)] {
        let range = DsmRange { attributes: 0, length_blocks: length, start: target }.encode();
        let dsm = SubmissionEntry::new(DSM, 0, 2).with_cdw(11, 4);
        assert_eq!(sets.world.ask(sets.io, in_capsule(dsm, &range), &range).status, wanted);
    }
    assert_eq!(sets.chunk(3).state, 1);
}

/// Profile commands: a run with out-of-band data, out-of-band data alone by a list, and a list of which a
/// part fails.
#[test]
fn out_of_band_data_travel_behind_their_sectors() {
    const EXTENDED: u32 = 1 << 16;
    const METADATA_ONLY: u32 = 1 << 17;
    const RUN: u32 = 1 << 18;
    const BLOCK: usize = SECTOR + 16;
    let mut sets = sets();
    let page = SubmissionEntry::new(0xE2, 0, 2);
    let geometry = sets.world.fetch(sets.admin, page, 4096).expect("a geometry");
    let geometry = Geometry::decode(geometry.first_chunk().expect("4096 bytes"));
    assert_eq!(geometry.profile_metadata_bytes(), Some(16));
    let start = sets.chunk(2).start;
    let blocks: Vec<u8> =
        (0..8 * BLOCK).map(|n| (n / BLOCK * 2 + usize::from(n % BLOCK >= SECTOR)) as u8).collect();
    let run = |opcode: u8| {
        SubmissionEntry::new(opcode, 0, 2).with_cdw_pair(10, start).with_cdw(12, 7 | EXTENDED | RUN)
    };
    assert!(sets.world.ask(sets.io, in_capsule(run(0x91), &blocks), &blocks).status.is_success());
    assert_eq!(sets.chunk(2).write_pointer, 8);
    assert!(sets.world.fetch(sets.io, run(0x92), 8 * BLOCK as u32).expect("a read") == blocks);
    // Without out-of-band data the sectors read as plain sectors.
    let plain = of_two(super::world::blocks(READ, start, 8));
    let sectors = sets.world.fetch(sets.io, plain, 8 * SECTOR as u32).expect("a read");
    assert!(sectors.chunks(SECTOR).zip(0..).all(|(sector, n)| sector == [2 * n; SECTOR]));
    // Out-of-band data alone, in reverse order; then with one address that was never written.
    let read = |sets: &mut Sets, addresses: &[u64], flag: u32, each: usize| {
        let list: Vec<u8> = addresses.iter().flat_map(|a| a.to_le_bytes()).collect();
        let count = addresses.len() as u32;
        let stage = SubmissionEntry::new(0x95, 0, 2).with_cdw_pair(10, 1).with_cdw(12, count - 1);
        assert!(sets.world.ask(sets.io, in_capsule(stage, &list), &list).status.is_success());
        let read = SubmissionEntry::new(0x92, 0, 2).with_cdw_pair(10, 1).with_cdw(12, (count - 1) | flag);
        sets.world.fetch_part(sets.io, read, count * each as u32)
    };
    let backwards: Vec<u64> = (start..start + 8).rev().collect();
    let (ended, metadata) = read(&mut sets, &backwards, METADATA_ONLY, 16);
    assert!(ended.status.is_success());
    assert!(metadata.chunks(16).zip((0..8u8).rev()).all(|(oob, n)| oob == [2 * n + 1; 16]), "{metadata:?}");
    assert_eq!(sets.feature(true, 5, 2, 1 << 16).0, Status::SUCCESS);
    let (ended, found) = read(&mut sets, &[start, start + 9, start + 1], EXTENDED, BLOCK);
    assert!(ended.status.is(Status::DEALLOCATED_BLOCK), "{:?}", ended.status);
    assert_eq!(ended.result, 0b010, "the address that failed");
    assert!(found[..BLOCK] == blocks[..BLOCK] && found[2 * BLOCK..] == blocks[BLOCK..2 * BLOCK]);
}

/// A lost sector raises an event, and the log names it, whether the host or the drive manages the media.
#[test]
fn a_host_is_told_of_chunks_that_it_did_not_ask_about() {
    const ASYNC_EVENT_REQUEST: u8 = 0x0C;
    for management in [Management::Host, Management::Shared { spare_blocks: 2 }] {
        let mut sets = sets_on(common::drive_of_sets_with(Vec::new(), management));
        let start = sets.chunk(1).start;
        let data = [7; 8 * SECTOR];
        let write = of_two(blocks(WRITE, start, 8));
        assert!(sets.world.ask(sets.io, in_capsule(write, &data), &data).status.is_success());
        let request = sets.world.command(sets.admin, SubmissionEntry::new(ASYNC_EVENT_REQUEST, 0, 0), &[]);
        sets.world.tick(sets.admin, 1);
        sets.world.pump();
        assert!(!sets.world.has_ended(sets.admin, request), "nothing has happened yet");
        sets.world.core.inject(1, Fault::KillDie { die: DieId(0) }).expect("such a die");
        let lost = sets.world.fetch(sets.io, of_two(blocks(READ, start, 8)), 8 * SECTOR as u32);
        assert!(lost.is_err_and(|status| status.is(Status::UNRECOVERED_READ_ERROR)));
        sets.world.tick(sets.admin, 2);
        sets.world.pump();
        let event = sets.world.end(sets.admin, request);
        assert_eq!((event.status, event.result >> 16 & 0xFF), (Status::SUCCESS, 0xD0), "the log to look at");
        let log = sets.log(0xD0, 2, 0, 0, 128).expect("a log");
        let [first, second] = [&log[..64], &log[64..]]
            .map(|entry| ChunkNotification::decode(entry.first_chunk().expect("64 bytes")));
        assert_eq!((first.count, first.nsid, first.lba, first.state), (1, 2, start, 1 << 3));
        assert_eq!(second.count, 0, "no other");
        assert_eq!(sets.log(0xD0, u32::MAX, 0, 0, 128), Ok(log), "of all namespaces");
        assert_eq!(sets.log(0xD0, 1, 0, 0, 128), Ok(vec![0; 128]), "of the other one");
    }
}

#[test]
fn unwritten_blocks_are_zeros_or_an_error() {
    let mut sets = sets();
    let start = sets.chunk(0).start;
    let read = of_two(blocks(READ, start, 8));
    assert_eq!(sets.world.fetch(sets.io, read, 4096).expect("predefined data"), vec![0; 4096]);
    assert_eq!(sets.feature(true, 5, 1, 1 << 16).0, no(Status::INVALID_FIELD), "not for blocks");
    assert_eq!(sets.feature(true, 5, 2, 1 << 16).0, Status::SUCCESS);
    assert_eq!(sets.feature(false, 5, 2, 0), (Status::SUCCESS, 1 << 16));
    let ended = sets.world.fetch(sets.io, read, 4096);
    assert!(ended.is_err_and(|status| status.is(Status::DEALLOCATED_BLOCK)));
    assert_eq!(sets.feature(true, 0xCA, 2, 0b10).0, Status::SUCCESS);
    assert_eq!(sets.feature(false, 0xCA, 2, 0), (Status::SUCCESS, 0b10));
    for select in [1 << 8, 2 << 8] {
        assert_eq!(
            sets.feature(false, 5 | select, 2, 0),
            (Status::SUCCESS, 0),
            "the default is as described"
        );
        assert_eq!(sets.feature(false, 0xCA | select, 2, 0), (Status::SUCCESS, 0));
    }
}

/// A host's setting for a namespace lasts until every controller that has set it is reset or gone.
#[test]
fn feedback_is_as_described_after_a_reset_and_after_the_last_host() {
    let mut sets = sets();
    let get = |id: u32| SubmissionEntry::new(10, 0, 2).with_cdw(10, id);
    let set = |id: u32, value: u32| SubmissionEntry::new(9, 0, 2).with_cdw(10, id).with_cdw(11, value);
    let reset = |sets: &mut Sets| {
        assert!(sets.world.set_cc(sets.admin, CC_ENABLE & !1).status.is_success());
        assert!(sets.world.set_cc(sets.admin, CC_ENABLE).status.is_success());
    };
    for (id, value) in [(5, 1 << 16), (0xCA, 0b11)] {
        assert!(sets.world.ask(sets.admin, set(id, value), &[]).status.is_success());
        reset(&mut sets);
        assert_eq!(sets.world.ask(sets.admin, get(id), &[]).dw0(), 0);
        let (other, _) = sets.world.attach(PLAIN);
        for admin in [sets.admin, other] {
            assert!(sets.world.ask(admin, set(id, value), &[]).status.is_success());
        }
        reset(&mut sets);
        assert_eq!(sets.world.ask(sets.admin, get(id), &[]).dw0(), value, "the other one still has it so");
        sets.world.close(other, Close::Finished);
        assert_eq!(sets.world.ask(sets.admin, get(id), &[]).dw0(), 0, "it is gone");
    }
}

/// Features of namespaces: what unwritten blocks read as, and what is told of chunks. Which events of handles are kept stays: one of them
/// tells of the reset itself.
#[test]
fn features_of_namespaces_have_their_defaults_after_a_power_cut() {
    let mut sets = sets();
    let values = |sets: &mut Sets| {
        let (dulbe, feedback) = (sets.feature(false, 5, 2, 0), sets.feature(false, 0xCA, 2, 0));
        let get = SubmissionEntry::new(10, 0, 1).with_cdw(10, 0x1E).with_cdw(11, 255 << 16);
        (dulbe, feedback, sets.world.fetch_part(sets.admin, get, 510).1)
    };
    let usual = values(&mut sets);
    for _ in 0..2 {
        assert!(sets.feature(true, 5, 2, 1 << 16).0.is_success());
        assert!(sets.feature(true, 0xCA, 2, 0b11).0.is_success());
        let enable = SubmissionEntry::new(9, 0, 1).with_cdw(10, 0x1E).with_cdw(11, 1 << 16).with_cdw(12, 1);
        assert!(sets.world.ask(sets.admin, in_capsule(enable, &[3]), &[3]).status.is_success());
        let set = values(&mut sets);
        assert!(set.0 != usual.0 && set.1 != usual.1 && set.2 != usual.2, "{set:?}");
        sets.world.core.power_cut(0).expect("a mount");
        let after = values(&mut sets);
        assert_eq!((after.0, after.1, after.2), (usual.0, usual.1, set.2));
        let disable = SubmissionEntry::new(9, 0, 1).with_cdw(10, 0x1E).with_cdw(11, 1 << 16);
        assert!(sets.world.ask(sets.admin, in_capsule(disable, &[3]), &[3]).status.is_success());
    }
}

/// The drive raises an event, and the log has the details. Data that took effort to read are returned with a
/// status.
#[test]
fn hosts_are_told_of_chunks_that_are_hard_to_read() {
    // The first chunk of the namespace is block 16: its first page needs a retry, its second cannot be read.
    let fail = |superpage, attempts| ListedFault::ReadFail { die: 0, block: 16, superpage, attempts };
    let mut sets = failing_sets(vec![fail(0, 1), fail(1, u32::MAX)]);
    let start = sets.chunk(0).start;
    let data: Vec<u8> = (0..16 * SECTOR).map(|n| (n / SECTOR + 1) as u8).collect();
    let write = of_two(blocks(WRITE, start, 16));
    assert!(sets.world.ask(sets.io, in_capsule(write, &data), &data).status.is_success());
    let notices = |sets: &mut Sets| {
        let page = sets.log(0xD0, 2, 0, 0, 256).expect("notification log");
        let entries =
            page.as_chunks::<{ ChunkNotification::BYTES }>().0.iter().map(ChunkNotification::decode);
        entries.take_while(|notice| notice.count > 0).map(|n| (n.lba, n.state, n.nsid)).collect::<Vec<_>>()
    };
    assert_eq!(notices(&mut sets), []);
    let event = sets.world.command(sets.admin, SubmissionEntry::new(0x0C, 0, 0), &[]);
    let told = |sets: &mut Sets, event| {
        sets.world.tick(sets.admin, sets.world.core.now_ns());
        sets.world.pump();
        sets.world.links[sets.admin].host.responses.remove(&event).map(|ended| ended.dw0())
    };
    assert_eq!(told(&mut sets, event), None);
    // Unless requested, effort causes no status.
    let read = of_two(blocks(READ, start, 8));
    assert!(sets.world.fetch(sets.io, read, 4096).expect("good data") == data[..4096]);
    assert_eq!(told(&mut sets, event), Some(7 | 0xD0 << 16), "a vendor's event, and the log to look at");
    assert_eq!(notices(&mut sets), [(start, 1 << 1, 2)]);
    assert_eq!(sets.feature(true, 0xCA, 2, 0b01).0, Status::SUCCESS);
    let cid = sets.world.command(sets.io, read.with_sgl(SglDescriptor::transport(4096)), &[]);
    let ended = sets.world.end(sets.io, cid);
    assert!(ended.status.is(Status::OC_HIGH_ECC), "{:?}", ended.status);
    assert!(sets.world.links[sets.io].host.data.remove(&cid).expect("data all the same") == data[..4096]);
    let one = SubmissionEntry::new(0x92, 0, 2).with_cdw_pair(10, start + 2);
    let cid = sets.world.command(sets.io, one.with_sgl(SglDescriptor::transport(SECTOR as u32)), &[]);
    let ended = sets.world.end(sets.io, cid);
    assert_eq!((ended.status.is(Status::OC_HIGH_ECC), ended.result), (true, 1), "the bit of the address");
    assert_eq!(sets.world.links[sets.io].host.data.remove(&cid), Some(vec![3; SECTOR]));
    // A lost sector is an error without data, and raises another event once the log has been read.
    let event = sets.world.command(sets.admin, SubmissionEntry::new(0x0C, 0, 0), &[]);
    assert!(told(&mut sets, event).is_some());
    assert_eq!(notices(&mut sets).len(), 3);
    let lost = sets.world.fetch(sets.io, of_two(blocks(READ, start + 8, 8)), 4096);
    assert!(lost.is_err_and(|status| status.is(Status::UNRECOVERED_READ_ERROR)));
    let event = sets.world.command(sets.admin, SubmissionEntry::new(0x0C, 0, 0), &[]);
    assert!(told(&mut sets, event).is_some());
    assert_eq!(notices(&mut sets)[3], (start + 8, 1 << 3, 2));
}

#[test]
fn commands_of_another_set_are_refused() {
    let mut sets = sets();
    for (opcode, nsid) in [(0x90, 1), (0x95, 1), (0x79, 1), (0x7A, 2), (0x7D, 2), (0x88, 1)] {
        let ended =
            sets.plain(SubmissionEntry::new(opcode, 0, nsid).with_sgl(SglDescriptor::transport(4096)));
        assert_eq!(ended.0, no(Status::INVALID_OPCODE), "{opcode:x}h to {nsid}");
    }
    let zeroes = sets.plain(of_two(blocks(8, 0, 8)));
    assert_eq!(zeroes.0, no(Status::INVALID_OPCODE));
}

#[test]
fn a_format_of_all_namespaces_forgets_blocks_and_chunks() {
    let mut sets = sets();
    assert!(sets.place(0, 1).is_success());
    let data = [7; 8 * SECTOR];
    for chunk in [1, 5] {
        let write = of_two(blocks(WRITE, sets.chunk(chunk).start, 8));
        assert!(sets.world.ask(sets.io, in_capsule(write, &data), &data).status.is_success());
    }
    let cid = sets.world.command(sets.admin, SubmissionEntry::new(0x80, 0, u32::MAX), &[]);
    sets.world.pump();
    assert_eq!(sets.world.end(sets.admin, cid).status, Status::SUCCESS);
    let read = sets.world.fetch(sets.io, blocks(READ, 0, 8), 8 * SECTOR as u32);
    assert_eq!(read, Ok(vec![0; 8 * SECTOR]));
    for chunk in [1, 5] {
        assert_eq!((sets.chunk(chunk).state, sets.chunk(chunk).write_pointer), (1, 0));
    }
}

#[test]
fn commands_and_features_are_announced_where_they_are() {
    let mut sets = sets();
    let controller = IdentifyController::decode(&sets.identify(1, 0));
    assert_eq!(controller.nvm_commands, 0b1101_1101);
    assert_eq!(controller.log_attributes & (1 | 1 << 5), 0, "no SMART per namespace, no log 13h");
    let deallocation = [1, 2].map(|nsid| IdentifyNamespace::decode(&sets.identify(0, nsid)).deallocation);
    assert_eq!(deallocation, [1 | 1 << 3, 1], "chunks have no Write Zeroes");
    let page = sets.log(5, 0, 0, 0, 4096).expect("effects");
    assert_eq!(page[4 * 0xE2], 1, "Geometry");
    let io = |opcode: usize| page[1024 + 4 * opcode];
    assert_eq!([0x90, 0x91, 0x92, 0x93, 0x95].map(io), [3, 3, 1, 3, 1]);
    assert_eq!([8, 9, 0x12, 0x1D, 0x79, 0x94].map(io), [3, 3, 1, 1, 0, 0]);
    // Log 12h lists the supported features, each with its scope.
    let page = sets.log(0x12, 0, 0, 0, 1024).expect("features");
    for id in 0..=255u32 {
        let effect = page[4 * id as usize..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let asked = sets.feature(false, id | 3 << 8, 1, 1).0;
        assert_eq!(effect & 1 == 1, asked.is_success(), "feature {id:02X}h: {asked:?}");
        assert_eq!((effect >> 20).count_ones(), effect & 1, "feature {id:02X}h: one scope");
        let namespaced = sets.feature(false, id | 3 << 8, 1, 1).1 >> 1 & 1;
        assert!(namespaced == 0 || effect >> 20 & 1 == 1, "feature {id:02X}h: {effect:X}h");
    }
}

/// Feedback is set for all chunks of a drive, so a target on some of them must not announce it.
#[test]
fn a_raw_target_announces_what_can_be_set() {
    let mut core = Core::new(vec![("chunks".into(), common::chunks())], Time::Instant).expect("a drive");
    let Interface::OpenChannel(geometry) = core.namespaces()[0].interface else { panic!("chunks") };
    let mut targets = Targets::default();
    targets.create(&geometry, Target::new("log".into(), TargetKind::Raw, 0..2)).expect("room");
    core.keep_targets("chunks", HostFtlConfig::default(), &targets, Box::new(|_| Ok(()))).expect("a start");
    let mut world = World::on(core, None, BTreeMap::new());
    let (admin, id) = world.attach(PLAIN);
    let io = world.queue(PLAIN, id, 1);
    let mut sets = Sets { world, admin, io };
    for (nsid, announced) in [(1, true), (2, false)] {
        let features = IdentifyNamespace::decode(&sets.identify(0, nsid)).features;
        assert_eq!(features & 1 << 2 != 0, announced, "namespace {nsid}: {features:X}h");
        assert_eq!(sets.feature(true, 5, nsid, 1 << 16).0.is_success(), announced, "namespace {nsid}");
        assert_eq!(sets.feature(false, 0xCA, nsid, 0).0.is_success(), announced, "namespace {nsid}");
    }
}

#[test]
fn chunks_alone_have_no_write_zeroes() {
    let mut config = common::config(StoreKind::Ram);
    config.media.metadata_bytes = 16;
    config.media.geometry.spare_bytes = 256;
    let all = 0..config.media.geometry.blocks;
    config.namespaces = vec![common::chunk_namespace(all, Management::Host)];
    let mut sets = sets_on(Device::new(&config).expect("a good configuration"));
    assert_eq!(IdentifyController::decode(&sets.identify(1, 0)).nvm_commands, 0b1101_0101);
    let page = sets.log(5, 0, 0, 0, 4096).expect("effects");
    assert_eq!([8, 9, 0x12, 0x91].map(|opcode: usize| page[1024 + 4 * opcode]), [0, 3, 0, 3]);
}

/// Two hosts that each keep a map of the same chunks or zones would overwrite each other's data.
#[test]
fn chunks_and_zones_have_one_host_at_a_time() {
    let other = "nqn.2014-08.org.example:other";
    let admin_connect = Connect { queue_id: 0, queue_entries: 32, attributes: 0, keep_alive_ms: 5000 };
    let connects = |world: &mut World, host| {
        let link = world.dial(PLAIN);
        world.connect(link, &admin_connect, NQN, host, DYNAMIC_CONTROLLER).status
    };
    let core = Core::new(vec![("chunks".into(), common::chunks())], Time::Instant).expect("a drive");
    let mut world = World::on(core, None, BTreeMap::new());
    let (first, _) = world.attach(PLAIN);
    let busy = Status::CONNECT_CONTROLLER_BUSY.do_not_retry();
    assert_eq!(connects(&mut world, other), busy);
    // It comes back before its old connection is known to be dead.
    let (again, _) = world.attach(PLAIN);
    world.close(first, Close::Finished);
    world.pump();
    assert_eq!(connects(&mut world, other), busy);
    world.close(again, Close::Finished);
    world.pump();
    let between = world.dial(PLAIN);
    assert!(world.connect(between, &admin_connect, NQN, other, DYNAMIC_CONTROLLER).status.is_success());
    // What the first host knows of the chunks is old now, though nobody is there.
    world.close(between, Close::Finished);
    world.pump();
    assert_eq!(connects(&mut world, HOST), Status::CONNECT_INVALID_HOST.do_not_retry());
    // A host that shuts its controller down begins anew when it comes again.
    let core = Core::new(vec![("chunks".into(), common::chunks())], Time::Instant).expect("a drive");
    let mut world = World::on(core, None, BTreeMap::new());
    let (first, _) = world.attach(PLAIN);
    assert!(world.set_cc(first, CC_ENABLE | 1 << 14).status.is_success());
    world.pump();
    world.close(first, Close::Finished);
    world.pump();
    let between = world.dial(PLAIN);
    assert!(world.connect(between, &admin_connect, NQN, other, DYNAMIC_CONTROLLER).status.is_success());
    world.close(between, Close::Finished);
    world.pump();
    assert_eq!(connects(&mut world, HOST), Status::SUCCESS);
    // A host FTL may be above zones.
    let core = Core::new(vec![("zones".into(), common::drive_of_zones())], Time::Instant);
    let mut world = World::on(core.expect("a drive"), None, BTreeMap::new());
    world.attach(PLAIN);
    assert_eq!(connects(&mut world, other), busy);
    // Sectors may be shared.
    let mut world = World::new();
    world.attach(PLAIN);
    assert_eq!(connects(&mut world, other), Status::SUCCESS);
}
