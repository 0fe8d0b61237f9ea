//! I/O commands: from a submission entry to operations of a drive, and from their ends to a status (NVM 3.2).
//!
//! ```text
//!   read, verify, write zeroes, flush    1 operation (a broadcast flush: 1 for each namespace)
//!   write, FUA                           1 operation
//!   FUA read                             flush, then read
//!   compare                              read, then bytes against bytes
//!   dataset management, deallocate       1 trim for each range
//! ```
//! Nothing here allocates, but for what a host asks for once in a while.

use super::TRANSFER_BYTES_MAX;
use crate::session::{Operation, Port};
use pellucid_flash::{Lba, Opcode};
use pellucid_wire::nvme::{BROADCAST_NSID, DsmRange, NvmOpcode, Status, SubmissionEntry};

/// What the I/O path knows about a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    /// The server's number of it.
    pub number: usize,
    pub sectors: u64,
    pub sector_bytes: u32,
    /// A write may be acknowledged before it is durable.
    pub write_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    /// The flush in front of a FUA read.
    FlushedRead,
    Write,
    Compare,
    Verify,
    WriteZeroes,
    Flush,
    /// Ranges of a dataset management command.
    Deallocate(u16),
}

impl Kind {
    /// The command that it comes from.
    pub fn opcode(self) -> NvmOpcode {
        match self {
            Kind::Read | Kind::FlushedRead => NvmOpcode::Read,
            Kind::Write => NvmOpcode::Write,
            Kind::Compare => NvmOpcode::Compare,
            Kind::Verify => NvmOpcode::Verify,
            Kind::WriteZeroes => NvmOpcode::WriteZeroes,
            Kind::Flush => NvmOpcode::Flush,
            Kind::Deallocate(_) => NvmOpcode::DatasetManagement,
        }
    }
}

/// An I/O command that makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub kind: Kind,
    /// Index among the connection's volumes; `usize::MAX` for all of them (flush).
    pub volume: usize,
    pub fua: bool,
    pub lba: u64,
    pub sectors: u32,
    /// Data to or from the host.
    pub bytes: u32,
}

impl Request {
    /// Whether the host sends data with it.
    #[inline]
    pub fn takes_data(&self) -> bool {
        matches!(self.kind, Kind::Write | Kind::Compare | Kind::Deallocate(_))
    }

    /// Whether the host gets data back.
    #[inline]
    pub fn gives_data(&self) -> bool {
        matches!(self.kind, Kind::Read | Kind::FlushedRead)
    }

    /// Whether it changes nothing, so that it can be abandoned half-way.
    pub fn is_harmless(&self) -> bool {
        matches!(self.kind, Kind::Read | Kind::FlushedRead | Kind::Compare | Kind::Verify)
    }
}

/// A status that repeating the command does not change.
const fn no(status: Status) -> Status {
    status.do_not_retry()
}

/// Understands a command. `Ok(None)`: there is nothing to do.
#[inline]
pub(super) fn parse(entry: &SubmissionEntry, volumes: &[Volume]) -> Result<Option<Request>, Status> {
    let opcode = NvmOpcode::from_raw(entry.opcode()).ok_or(no(Status::INVALID_OPCODE))?;
    if entry.fuse() != 0 {
        return Err(no(Status::INVALID_FIELD));
    }
    match opcode {
        NvmOpcode::Read => blocks(entry, volumes, Kind::Read).map(Some),
        NvmOpcode::Write => blocks(entry, volumes, Kind::Write).map(Some),
        NvmOpcode::Compare => blocks(entry, volumes, Kind::Compare).map(Some),
        NvmOpcode::Verify => blocks(entry, volumes, Kind::Verify).map(Some),
        NvmOpcode::WriteZeroes => blocks(entry, volumes, Kind::WriteZeroes).map(Some),
        NvmOpcode::Flush => flush(entry, volumes).map(Some),
        NvmOpcode::DatasetManagement => deallocate(entry, volumes),
        _ => Err(no(Status::INVALID_OPCODE)),
    }
}

#[inline]
fn volume_of<'a>(entry: &SubmissionEntry, volumes: &'a [Volume]) -> Result<(usize, &'a Volume), Status> {
    let index = (entry.nsid() as usize).wrapping_sub(1);
    volumes.get(index).map(|volume| (index, volume)).ok_or(no(Status::INVALID_NAMESPACE))
}

#[inline]
fn blocks(entry: &SubmissionEntry, volumes: &[Volume], kind: Kind) -> Result<Request, Status> {
    let (index, volume) = volume_of(entry, volumes)?;
    let range = entry.lba_range();
    if range.protection() != 0 || range.directive_type() != 0 {
        return Err(no(Status::INVALID_FIELD));
    }
    let bytes = match kind {
        Kind::Read | Kind::Write | Kind::Compare => range.count.saturating_mul(volume.sector_bytes),
        _ => 0,
    };
    if bytes > TRANSFER_BYTES_MAX {
        return Err(no(Status::INVALID_FIELD));
    }
    if range.end().is_none_or(|end| end > volume.sectors) {
        return Err(no(Status::LBA_OUT_OF_RANGE));
    }
    let fua = range.force_unit_access();
    let kind = match kind {
        Kind::Read if fua && volume.write_back => Kind::FlushedRead,
        kind => kind,
    };
    Ok(Request { kind, volume: index, fua, lba: range.start, sectors: range.count, bytes })
}

fn flush(entry: &SubmissionEntry, volumes: &[Volume]) -> Result<Request, Status> {
    let volume = match entry.nsid() {
        BROADCAST_NSID => usize::MAX,
        _ => volume_of(entry, volumes)?.0,
    };
    Ok(Request { kind: Kind::Flush, volume, fua: false, lba: 0, sectors: 0, bytes: 0 })
}

fn deallocate(entry: &SubmissionEntry, volumes: &[Volume]) -> Result<Option<Request>, Status> {
    let (volume, _) = volume_of(entry, volumes)?;
    if entry.cdw(11) & DsmRange::ATTRIBUTE_DEALLOCATE == 0 {
        // The other attributes are hints.
        return Ok(None);
    }
    let ranges = (entry.cdw(10) & 0xFF) + 1;
    let bytes = ranges * DsmRange::BYTES as u32;
    let kind = Kind::Deallocate(ranges as u16);
    Ok(Some(Request { kind, volume, fua: false, lba: 0, sectors: 0, bytes }))
}

/// Hands a request to the drive; `data` are the host's. Returns the number of operations.
///
/// # Errors
/// A range of a dataset management command lies outside; then nothing is submitted.
#[inline]
pub(super) fn submit(
    request: &Request,
    volumes: &[Volume],
    queue: u16,
    token: u64,
    data: &mut Vec<u8>,
    write_through: bool,
    port: &mut Port<'_>,
) -> Result<u32, Status> {
    let &Request { kind, volume: index, fua, lba, sectors, bytes } = request;
    let lba = Lba(lba);
    let Some(volume) = volumes.get(index) else {
        for volume in volumes {
            port.submit(volume.number, token, plain(queue, Opcode::Flush));
        }
        return Ok(volumes.len() as u32);
    };
    let (opcode, data) = match kind {
        Kind::Read | Kind::Compare => (Opcode::Read, port.take_buffer(bytes as usize)),
        Kind::Verify => (Opcode::Read, Vec::new()),
        Kind::Write => (Opcode::Write, std::mem::take(data)),
        Kind::WriteZeroes => (Opcode::WriteZeroes, Vec::new()),
        Kind::Flush | Kind::FlushedRead => {
            port.submit(volume.number, token, plain(queue, Opcode::Flush));
            return Ok(1);
        }
        Kind::Deallocate(ranges) => return trim(volume, queue, token, ranges, data, port),
    };
    let fua = opcode != Opcode::Read && (fua || write_through);
    port.submit(volume.number, token, Operation { queue, opcode, fua, lba, sectors, data });
    Ok(1)
}

fn plain(queue: u16, opcode: Opcode) -> Operation {
    Operation { queue, opcode, fua: false, lba: Lba(0), sectors: 0, data: Vec::new() }
}

fn trim(
    volume: &Volume,
    queue: u16,
    token: u64,
    ranges: u16,
    data: &[u8],
    port: &mut Port<'_>,
) -> Result<u32, Status> {
    let list = || {
        data.chunks_exact(DsmRange::BYTES)
            .filter_map(|bytes| bytes.first_chunk())
            .map(DsmRange::decode)
            .take(ranges.into())
    };
    for range in list() {
        let end = range.start.checked_add(range.length_blocks.into());
        if end.is_none_or(|end| end > volume.sectors) {
            return Err(no(Status::LBA_OUT_OF_RANGE));
        }
    }
    let mut parts = 0;
    for range in list().filter(|range| range.length_blocks > 0) {
        let operation =
            Operation { lba: Lba(range.start), sectors: range.length_blocks, ..plain(queue, Opcode::Trim) };
        port.submit(volume.number, token, operation);
        parts += 1;
    }
    Ok(parts)
}

/// What a host is told about the end of an operation.
#[inline]
pub(super) fn status(status: pellucid_flash::Status, opcode: Opcode) -> Status {
    use pellucid_flash::Status as Drive;
    match status {
        Drive::Success => Status::SUCCESS,
        Drive::LbaOutOfRange => no(Status::LBA_OUT_OF_RANGE),
        Drive::InvalidField => no(Status::INVALID_FIELD),
        Drive::UnrecoveredRead if opcode == Opcode::Read => no(Status::UNRECOVERED_READ_ERROR),
        // A write that had to read the rest of its mapping unit.
        Drive::UnrecoveredRead | Drive::WriteFault => no(Status::WRITE_FAULT),
        Drive::ReadOnly => no(Status::WRITE_PROTECTED),
        Drive::PowerLoss => Status::POWER_LOSS_ABORT,
        Drive::InvalidOpcode => no(Status::INVALID_OPCODE),
        Drive::ZoneBoundary => no(Status::ZONE_BOUNDARY),
        Drive::ZoneFull => no(Status::ZONE_FULL),
        Drive::ZoneReadOnly => no(Status::ZONE_READ_ONLY),
        Drive::ZoneOffline => no(Status::ZONE_OFFLINE),
        Drive::ZoneInvalidWrite => no(Status::ZONE_INVALID_WRITE),
        Drive::TooManyActiveZones => no(Status::ZONE_TOO_MANY_ACTIVE),
        Drive::TooManyOpenZones => no(Status::ZONE_TOO_MANY_OPEN),
        Drive::ZoneInvalidTransition => no(Status::ZONE_INVALID_TRANSITION),
        // 280h has two names: Write Fault of NVMe, and what a write to a closed or offline chunk ends with.
        Drive::ChunkWriteInvalid => no(Status::WRITE_FAULT),
        Drive::Unwritten => no(Status::DEALLOCATED_BLOCK),
        Drive::ChunkOffline => no(Status::OC_OFFLINE_CHUNK),
        Drive::ChunkInvalidReset => no(Status::OC_INVALID_RESET),
        Drive::HighEcc => no(Status::OC_HIGH_ECC),
        Drive::ChunkWriteFailed => no(Status::OC_WRITE_FAIL_NEXT_UNIT),
        Drive::ChunkClosedEarly => no(Status::OC_CHUNK_EARLY_CLOSE),
        Drive::ChunkOutOfOrder => no(Status::OC_OUT_OF_ORDER),
    }
}
