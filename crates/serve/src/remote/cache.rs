//! A remote cache namespace: its commands in NVMe.
//!
//! After a lost connection, the host cannot tell which acknowledged data a cache has lost. So the cache is
//! lost permanently, and its cache manager restarts, as after a power cut.

use super::command::Work;
use super::connect::Link;
use super::queue::Payload;
use pellucid_flash::{CacheGeometry, CacheOp, ChunkGeometry, Command, Nanos, Opcode, Status};
use pellucid_wire::nvme::cache::{CacheCommand, CacheOpcode};
use pellucid_wire::nvme::{NvmOpcode, SubmissionEntry};

/// Placeholder extents: a cache has none that could be compared after a reconnect.
pub(super) fn extents(sector_bytes: u32) -> ChunkGeometry {
    ChunkGeometry {
        groups: 1,
        units: 1,
        chunks: 0,
        chunk_sectors: 1,
        sector_bytes,
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

/// Returns the status of an invalid command.
pub(super) fn refuse(command: &Command, cache: &CacheGeometry, sector_bytes: u32) -> Option<Status> {
    let Command { opcode, lba, sectors, data, namespace, vector, .. } = command;
    let bytes = *sectors as usize * sector_bytes as usize;
    let sound = match opcode {
        Opcode::Cache(CacheOp::WriteClean | CacheOp::WriteDirty) => *sectors > 0 && data.len() == bytes,
        Opcode::Read => *sectors > 0 && (data.is_empty() || data.len() == bytes),
        Opcode::Cache(CacheOp::Evict | CacheOp::Clean) => *sectors > 0,
        Opcode::Flush | Opcode::Cache(CacheOp::Exists) => true,
        _ => return Some(Status::InvalidOpcode),
    };
    let unit = cache.unit_sectors;
    let whole = lba.0.is_multiple_of(unit.into()) && sectors.is_multiple_of(unit);
    let end = lba.0.checked_add(u64::from(*sectors));
    match end {
        _ if *namespace != 0 || vector.is_some() || !sound || !whole => Some(Status::InvalidField),
        Some(end) if end <= cache.address_sectors => None,
        _ => Some(Status::LbaOutOfRange),
    }
}

/// Sends the next part of a command.
pub(super) fn send(link: &mut Link, queue: usize, work: &mut Work, at: u32, cache: &CacheGeometry) {
    let sector_bytes = link.identity.geometry.sector_bytes;
    let (nsid, token) = (link.identity.nsid, u64::from(at));
    let whole = |sectors: u32| (sectors - sectors % cache.unit_sectors).max(cache.unit_sectors);
    let moved = whole((link.identity.data_max / sector_bytes).min(CacheCommand::SECTORS_MAX));
    let named = whole(CacheCommand::SECTORS_MAX);
    let left = work.total() - work.done;
    let own = |opcode, work: &Work| {
        let command =
            CacheCommand { opcode, first: work.first().0, sectors: work.part, force: work.command.fua };
        command.entry(0, nsid)
    };
    let (entry, payload) = match work.command.opcode {
        Opcode::Flush => {
            work.part = 1;
            (SubmissionEntry::new(NvmOpcode::Flush.raw(), 0, nsid), Payload::In(Vec::new()))
        }
        Opcode::Read => {
            work.part = left.min(moved);
            let entry = SubmissionEntry::new(NvmOpcode::Read.raw(), 0, nsid)
                .with_cdw_pair(10, work.first().0)
                .with_cdw(12, work.part - 1);
            (entry, Payload::In(vec![0; (work.part * sector_bytes) as usize]))
        }
        opcode @ Opcode::Cache(CacheOp::WriteClean | CacheOp::WriteDirty) => {
            work.part = left.min(moved);
            let opcode = if opcode == Opcode::Cache(CacheOp::WriteDirty) {
                CacheOpcode::WriteDirty
            } else {
                CacheOpcode::WriteClean
            };
            (own(opcode, work), Payload::Out(work.blocks(sector_bytes as usize)))
        }
        opcode @ Opcode::Cache(CacheOp::Evict | CacheOp::Clean) => {
            work.part = left.min(named);
            let opcode =
                if opcode == Opcode::Cache(CacheOp::Evict) { CacheOpcode::Evict } else { CacheOpcode::Clean };
            (own(opcode, work), Payload::In(Vec::new()))
        }
        _ => {
            work.part = left.min(named);
            let states = (work.part / cache.unit_sectors) as usize;
            (own(CacheOpcode::Exists, work), Payload::In(vec![0; states]))
        }
    };
    link.io[queue].start(token, entry, payload);
}

/// Takes the data and result of a completed part. Returns true if the rest of the command must be sent.
pub(super) fn ended(
    work: &mut Work,
    met: Status,
    result: u64,
    data: &[u8],
    cache: &CacheGeometry,
    sector_bytes: usize,
) -> bool {
    if met != Status::Success {
        // The result is for the whole command, not for the part.
        let before = u64::from(work.done / cache.unit_sectors);
        work.result = if met == Status::Absent { before + result } else { 0 };
        return false;
    }
    match work.command.opcode {
        Opcode::Read => work.take_blocks(data, sector_bytes),
        Opcode::Cache(CacheOp::Evict | CacheOp::Clean) => work.result += result,
        Opcode::Cache(CacheOp::Exists) => {
            if work.done == 0 {
                work.command.data.clear();
                work.result = result;
            }
            work.command.data.extend_from_slice(data);
        }
        _ => {}
    }
    true
}
