//! A zoned namespace: its commands, and its zones as the state that settles commands after a reconnect.
//!
//! After a lost connection a zone works like a chunk: it has a write pointer, and restarts with a reset. So
//! commands to zones follow the code of chunks ([`command`](super::command)); this module translates them to
//! NVMe.

use super::command::Work;
use super::connect::Link;
use super::place;
use super::queue::Payload;
use pellucid_flash::{
    ChunkGeometry, ChunkInfo, ChunkState, Command, Nanos, Opcode, Status, ZoneAction, ZoneGeometry, ZoneInfo,
    ZoneOp, ZoneState,
};
use pellucid_wire::nvme::{NvmOpcode, SubmissionEntry};

/// Length of a zone report's header.
pub(super) const HEADER_BYTES: usize = 64;
/// Flag of a partial report: the header counts only the returned zones.
const PARTIAL: u32 = 1 << 16;
const FORCE_UNIT_ACCESS: u32 = 1 << 30;

/// Zones as extents of sectors: the chunks of one parallel unit with consecutive sectors.
pub(super) fn extents(zones: &ZoneGeometry) -> ChunkGeometry {
    ChunkGeometry {
        groups: 1,
        units: 1,
        chunks: zones.zones,
        chunk_sectors: zones.zone_sectors as u32,
        sector_bytes: zones.sector_bytes,
        write_min_sectors: 1,
        write_optimal_sectors: 1,
        cached_sectors: 0,
        open_chunks_max: 0,
        open_chunks_per_unit_max: 0,
        read_ns: [Nanos::ZERO; 2],
        write_ns: [Nanos::ZERO; 2],
        reset_ns: [Nanos::ZERO; 2],
    }
}

/// State of a zone as an extent. A zone without a write pointer counts as fully written.
fn extent(zone: &ZoneInfo) -> ChunkInfo {
    let state = match zone.state {
        ZoneState::Empty => ChunkState::Free,
        ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen | ZoneState::Closed => ChunkState::Open,
        ZoneState::ReadOnly | ZoneState::Full => ChunkState::Closed,
        ZoneState::Offline => ChunkState::Offline,
    };
    let write_pointer = match state {
        ChunkState::Free => 0,
        ChunkState::Open => zone.write_pointer.0.saturating_sub(zone.start.0),
        _ => zone.capacity_sectors,
    };
    ChunkInfo {
        state,
        wear_index: 0,
        start: zone.start,
        sectors: zone.capacity_sectors as u32,
        write_pointer: write_pointer as u32,
    }
}

/// Parses a report into zones and their extents; returns `None` if it is malformed.
pub(super) fn parse(page: &[u8]) -> Option<(Vec<ZoneInfo>, Vec<ChunkInfo>)> {
    let zones: Vec<ZoneInfo> =
        page.get(HEADER_BYTES..)?.as_chunks().0.iter().map(ZoneInfo::decode).collect::<Option<_>>()?;
    let extents = zones.iter().map(extent).collect();
    Some((zones, extents))
}

/// Builds the command for a report of `zones` zones, beginning with the zone at `start`.
pub(super) fn report(nsid: u32, start: u64, zones: u32) -> (SubmissionEntry, usize) {
    let bytes = HEADER_BYTES + zones as usize * ZoneInfo::BYTES;
    let entry = SubmissionEntry::new(NvmOpcode::ZoneManagementReceive.raw(), 0, nsid)
        .with_cdw_pair(10, start)
        .with_cdw(12, (bytes / 4) as u32 - 1)
        .with_cdw(13, PARTIAL);
    (entry, bytes)
}

/// Returns the status of an invalid command.
pub(super) fn refuse(command: &Command, geometry: &ChunkGeometry) -> Option<Status> {
    let Command { opcode, sectors, data, namespace, vector, .. } = command;
    let bytes = *sectors as usize * geometry.sector_bytes as usize;
    let sound = match opcode {
        Opcode::Write => *sectors > 0 && data.len() == bytes,
        Opcode::Read => *sectors > 0 && (data.is_empty() || data.len() == bytes),
        Opcode::Flush => true,
        Opcode::Report => *sectors > 0,
        // Only actions on one zone: an action on all zones could not be settled.
        Opcode::Zone(ZoneOp::Change(action)) => (*action as u8) < ZoneAction::CloseAll as u8,
        // Nor could the address of an append be known.
        _ => return Some(Status::InvalidOpcode),
    };
    (*namespace != 0 || vector.is_some() || !sound).then_some(Status::InvalidField)
}

/// Sends the next part of a command.
pub(super) fn send(link: &mut Link, queue: usize, work: &mut Work, at: u32, geometry: &ChunkGeometry) {
    let (nsid, token) = (link.identity.nsid, u64::from(at));
    let sectors_max = (link.identity.data_max / geometry.sector_bytes).min(1 << 16);
    let sector_bytes = geometry.sector_bytes as usize;
    let range = |opcode: NvmOpcode, work: &Work, flags: u32| {
        SubmissionEntry::new(opcode.raw(), 0, nsid)
            .with_cdw_pair(10, work.first().0)
            .with_cdw(12, (work.part - 1) | flags)
    };
    let left = work.total() - work.done;
    let (entry, payload) = match work.command.opcode {
        Opcode::Write if !work.verifying => {
            work.part = left.min(sectors_max);
            let flags = if work.command.fua { FORCE_UNIT_ACCESS } else { 0 };
            (range(NvmOpcode::Write, work, flags), Payload::Out(work.blocks(sector_bytes)))
        }
        Opcode::Read | Opcode::Write => {
            if !work.verifying {
                work.part = left.min(sectors_max);
            }
            let blocks = vec![0; work.part as usize * sector_bytes];
            (range(NvmOpcode::Read, work, 0), Payload::In(blocks))
        }
        Opcode::Report => {
            let most = (link.identity.data_max as usize - HEADER_BYTES) / ZoneInfo::BYTES;
            work.part = left.min(most as u32);
            let zone = place(geometry, work.command.lba).map_or(u32::MAX, |(zone, _)| zone);
            let start = u64::from(zone.saturating_add(work.done)) * u64::from(geometry.chunk_sectors);
            let (entry, bytes) = report(nsid, start, work.part);
            (entry, Payload::In(vec![0; bytes]))
        }
        Opcode::Zone(ZoneOp::Change(action)) => {
            work.part = 1;
            let entry = SubmissionEntry::new(NvmOpcode::ZoneManagementSend.raw(), 0, nsid)
                .with_cdw_pair(10, work.command.lba.0)
                .with_cdw(13, u32::from(action as u8));
            (entry, Payload::In(Vec::new()))
        }
        _ => {
            work.part = 1;
            (SubmissionEntry::new(NvmOpcode::Flush.raw(), 0, nsid), Payload::In(Vec::new()))
        }
    };
    link.io[queue].start(token, entry, payload);
}
