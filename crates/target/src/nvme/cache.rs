//! Commands specific to cache namespaces.

use super::io::{Request, Special, Volume, no};
use crate::operation::Operation;
use crate::session::Port;
use pellucid_flash::{CacheGeometry, CacheOp, Lba, Opcode};
use pellucid_wire::nvme::cache::{CACHE_NAMESPACE, CacheCommand, CacheIdentity, CacheOpcode};
use pellucid_wire::nvme::{Status, SubmissionEntry};

/// Parses a command whose opcode the NVM command set lacks.
pub(super) fn parse(
    entry: &SubmissionEntry,
    index: usize,
    volume: &Volume,
    cache: &CacheGeometry,
) -> Result<Request, Status> {
    let command = CacheCommand::parse(entry).ok_or(no(Status::INVALID_OPCODE))?;
    let bytes = match command.opcode {
        CacheOpcode::WriteClean | CacheOpcode::WriteDirty => {
            command.sectors.saturating_mul(volume.sector_bytes)
        }
        CacheOpcode::Exists => command.sectors / cache.unit_sectors,
        CacheOpcode::Evict | CacheOpcode::Clean => 0,
    };
    if bytes > super::TRANSFER_BYTES_MAX {
        return Err(no(Status::INVALID_FIELD));
    }
    let end = command.first.checked_add(command.sectors.into());
    if end.is_none_or(|end| end > volume.sectors) {
        return Err(no(Status::LBA_OUT_OF_RANGE));
    }
    Ok(Request {
        fua: command.force,
        lba: command.first,
        sectors: command.sectors,
        bytes,
        ..Request::special(Special::Cache(command.opcode), index)
    })
}

/// Returns true if the host sends data with the command.
pub(super) fn takes_data(opcode: CacheOpcode) -> bool {
    matches!(opcode, CacheOpcode::WriteClean | CacheOpcode::WriteDirty)
}

/// Submits a command to the drive.
pub(super) fn submit(
    request: &Request,
    opcode: CacheOpcode,
    volume: &Volume,
    queue: u16,
    token: u64,
    data: Vec<u8>,
    port: &mut Port<'_>,
) {
    let opcode = match opcode {
        CacheOpcode::WriteClean => Opcode::Cache(CacheOp::WriteClean),
        CacheOpcode::WriteDirty => Opcode::Cache(CacheOp::WriteDirty),
        CacheOpcode::Evict => Opcode::Cache(CacheOp::Evict),
        CacheOpcode::Clean => Opcode::Cache(CacheOp::Clean),
        CacheOpcode::Exists => Opcode::Cache(CacheOp::Exists),
    };
    let operation = Operation::new(opcode, Lba(request.lba), request.sectors, data);
    port.submit(volume.number, token, Operation { queue, fua: request.fua, ..operation });
}

/// Vendor area of Identify Namespace.
pub(super) fn identity(cache: &CacheGeometry) -> [u8; CacheIdentity::BYTES] {
    let CacheGeometry { unit_sectors, units, .. } = *cache;
    CacheIdentity { kind: CACHE_NAMESPACE, unit_sectors, units }.encode()
}
