//! I/O commands: translates submission entries to drive operations, and their completions to statuses (NVM
//! 3.2).
//!
//! ```text
//!   read, verify, write zeroes, flush    1 operation (a broadcast flush: 1 for each namespace)
//!   write                                1 operation; what FUA takes beside it is the server's affair
//!   compare                              read, then bytes against bytes
//!   dataset management, deallocate       1 trim for each range; of chunks, 1 reset
//! ```
//! Nothing here allocates, except for rare requests of hosts. Commands of a single command set have their own
//! file (`fdp`, `zns`, `open_channel`) and pass here as a [`Special`].

use super::open_channel::VectorRequest;
use super::{TRANSFER_BYTES_MAX, cache, fdp, nameless, open_channel, zns};
use crate::operation::{Keeps, Operation};
use crate::session::Port;
use pellucid_flash::{Effect, Interface, Lba, Opcode, ZoneAction};
use pellucid_wire::nvme::cache::CacheOpcode;
use pellucid_wire::nvme::nameless::NamelessOpcode;
use pellucid_wire::nvme::zns::ReportFilter;
use pellucid_wire::nvme::{BROADCAST_NSID, DsmRange, NvmOpcode, Status, SubmissionEntry};

/// Properties of a namespace that the I/O path needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    /// Number of the namespace in the server.
    pub number: usize,
    pub sectors: u64,
    pub sector_bytes: u32,
    /// Data kept across a power cut.
    pub keeps: Keeps,
    pub set: Interface,
}

impl Volume {
    /// Number of placement handles; 1 without placement.
    #[inline]
    pub fn handles(&self) -> u16 {
        self.set.handles()
    }
}

/// Commands of a single command set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    /// I/O Management Receive: status of the placement handles.
    HandleStatus,
    /// I/O Management Send: reclaim unit handle update.
    HandleUpdate,
    ZoneSend(ZoneAction),
    ZoneReport {
        filter: ReportFilter,
        partial: bool,
    },
    Append,
    /// Command of a cache namespace.
    Cache(CacheOpcode),
    /// Command of a nameless namespace.
    Nameless(NamelessOpcode),
    Vector(VectorRequest),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Compare,
    Verify,
    WriteZeroes,
    Flush,
    /// Deallocate the ranges of a Dataset Management command.
    Deallocate(u16),
    Special(Special),
}

impl Kind {
    /// Opcode of the command.
    pub fn opcode(self) -> u8 {
        let opcode = match self {
            Kind::Read => NvmOpcode::Read,
            Kind::Write => NvmOpcode::Write,
            Kind::Compare => NvmOpcode::Compare,
            Kind::Verify => NvmOpcode::Verify,
            Kind::WriteZeroes => NvmOpcode::WriteZeroes,
            Kind::Flush => NvmOpcode::Flush,
            Kind::Deallocate(_) => NvmOpcode::DatasetManagement,
            Kind::Special(Special::HandleStatus) => NvmOpcode::IoManagementReceive,
            Kind::Special(Special::HandleUpdate) => NvmOpcode::IoManagementSend,
            Kind::Special(Special::ZoneSend(_)) => NvmOpcode::ZoneManagementSend,
            Kind::Special(Special::ZoneReport { .. }) => NvmOpcode::ZoneManagementReceive,
            Kind::Special(Special::Append) => NvmOpcode::ZoneAppend,
            Kind::Special(Special::Cache(opcode)) => return opcode.raw(),
            Kind::Special(Special::Nameless(opcode)) => return opcode.raw(),
            Kind::Special(Special::Vector(vector)) => {
                return vector.opcode.map_or(open_channel::STAGE_OPCODE, |opcode| opcode.raw());
            }
        };
        opcode.raw()
    }
}

/// A valid I/O command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub kind: Kind,
    /// Index among the connection's volumes; `usize::MAX` for all of them (flush).
    pub volume: usize,
    pub fua: bool,
    pub lba: u64,
    pub sectors: u32,
    /// Bytes of data to or from the host.
    pub bytes: u32,
    /// Placement handle of a write.
    pub handle: u16,
}

impl Request {
    /// Creates a request for a command of a single command set, to be filled in.
    pub fn special(special: Special, volume: usize) -> Request {
        Request { kind: Kind::Special(special), volume, fua: false, lba: 0, sectors: 0, bytes: 0, handle: 0 }
    }

    /// Returns true if the host sends data.
    #[inline]
    pub fn takes_data(&self) -> bool {
        match self.kind {
            Kind::Write | Kind::Compare | Kind::Deallocate(_) => true,
            Kind::Special(Special::HandleUpdate | Special::Append) => true,
            Kind::Special(Special::Cache(opcode)) => cache::takes_data(opcode),
            Kind::Special(Special::Nameless(opcode)) => nameless::takes_data(opcode),
            Kind::Special(Special::Vector(vector)) => vector.takes_data(),
            _ => false,
        }
    }

    /// Returns true if the host receives data.
    #[inline]
    pub fn gives_data(&self) -> bool {
        match self.kind {
            Kind::Read => true,
            Kind::Special(Special::HandleStatus | Special::ZoneReport { .. }) => true,
            // Without blocks the command returns only a result.
            Kind::Special(Special::Cache(opcode)) => opcode == CacheOpcode::Exists && self.bytes > 0,
            Kind::Special(Special::Nameless(opcode)) => nameless::gives_data(opcode),
            Kind::Special(Special::Vector(vector)) => vector.gives_data(),
            _ => false,
        }
    }

    /// Returns true if the command changes nothing, so it can be abandoned half-way.
    pub fn is_harmless(&self) -> bool {
        matches!(self.kind, Kind::Read | Kind::Compare | Kind::Verify)
            || (self.gives_data() && matches!(self.kind, Kind::Special(_)))
    }
}

/// Marks a status as final: a retry would not help.
pub(super) const fn no(status: Status) -> Status {
    status.do_not_retry()
}

/// Parses a command. `Ok(None)`: there is nothing to do.
#[inline]
pub(super) fn parse(entry: &SubmissionEntry, volumes: &[Volume]) -> Result<Option<Request>, Status> {
    if entry.fuse() != 0 {
        return Err(no(Status::INVALID_FIELD));
    }
    let Some(opcode) = NvmOpcode::from_raw(entry.opcode()) else {
        // An opcode of no namespace is unknown, whatever the namespace.
        let Ok((index, volume)) = volume_of(entry, volumes) else { return Err(no(Status::INVALID_OPCODE)) };
        return match &volume.set {
            Interface::Cache(geometry) => cache::parse(entry, index, volume, geometry),
            Interface::Nameless(geometry) => nameless::parse(entry, index, volume, geometry),
            _ => open_channel::parse(entry, index, volume),
        }
        .map(Some);
    };
    match opcode {
        NvmOpcode::Read => blocks(entry, volumes, Kind::Read).map(Some),
        NvmOpcode::Write => blocks(entry, volumes, Kind::Write).map(Some),
        NvmOpcode::Compare => blocks(entry, volumes, Kind::Compare).map(Some),
        NvmOpcode::Verify => blocks(entry, volumes, Kind::Verify).map(Some),
        NvmOpcode::WriteZeroes => blocks(entry, volumes, Kind::WriteZeroes).map(Some),
        NvmOpcode::Flush => flush(entry, volumes).map(Some),
        NvmOpcode::DatasetManagement => deallocate(entry, volumes),
        NvmOpcode::IoManagementReceive | NvmOpcode::IoManagementSend => {
            let (index, _) = volume_of(entry, volumes)?;
            fdp::parse(entry, index, volumes, opcode == NvmOpcode::IoManagementReceive).map(Some)
        }
        NvmOpcode::ZoneManagementSend | NvmOpcode::ZoneManagementReceive | NvmOpcode::ZoneAppend => {
            let (index, _) = volume_of(entry, volumes)?;
            zns::parse(entry, opcode, index, volumes).map(Some)
        }
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
    if range.protection() != 0 {
        return Err(no(Status::INVALID_FIELD));
    }
    let handle = fdp::handle_of(entry, volume, kind)?;
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
    Ok(Request { kind, volume: index, fua, lba: range.start, sectors: range.count, bytes, handle })
}

fn flush(entry: &SubmissionEntry, volumes: &[Volume]) -> Result<Request, Status> {
    let volume = match entry.nsid() {
        BROADCAST_NSID => usize::MAX,
        _ => volume_of(entry, volumes)?.0,
    };
    Ok(Request { kind: Kind::Flush, volume, fua: false, lba: 0, sectors: 0, bytes: 0, handle: 0 })
}

fn deallocate(entry: &SubmissionEntry, volumes: &[Volume]) -> Result<Option<Request>, Status> {
    let (volume, on) = volume_of(entry, volumes)?;
    if matches!(on.set, Interface::Zoned(_) | Interface::Cache(_)) {
        return Err(no(Status::INVALID_OPCODE));
    }
    if entry.cdw(11) & DsmRange::ATTRIBUTE_DEALLOCATE == 0 {
        // The other attributes are only hints.
        return Ok(None);
    }
    let ranges = (entry.cdw(10) & 0xFF) + 1;
    let bytes = ranges * DsmRange::BYTES as u32;
    let kind = Kind::Deallocate(ranges as u16);
    Ok(Some(Request { kind, volume, fua: false, lba: 0, sectors: 0, bytes, handle: 0 }))
}

/// Submits a request to the drive; `data` are the host's. Returns the number of operations.
///
/// # Errors
/// Fails if a range of a Dataset Management command is out of range; nothing is submitted then.
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
    let &Request { kind, volume: index, fua, lba, sectors, bytes, handle } = request;
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
        Kind::Flush => {
            port.submit(volume.number, token, plain(queue, Opcode::Flush));
            return Ok(1);
        }
        Kind::Deallocate(ranges) => return trim(volume, queue, token, ranges, data, port),
        Kind::Special(Special::HandleUpdate) => return fdp::update(volume, queue, token, data, port),
        Kind::Special(Special::Vector(vector)) => {
            return open_channel::submit(&vector, volume, queue, token, data, port);
        }
        Kind::Special(Special::Nameless(opcode)) => {
            let forced = Request { fua: fua || (write_through && sectors == 1), ..*request };
            nameless::submit(&forced, opcode, volume, (queue, token), data, port);
            return Ok(1);
        }
        Kind::Special(Special::HandleStatus) => (Opcode::Report, Vec::new()),
        Kind::Special(Special::Cache(opcode)) => {
            let data = if cache::takes_data(opcode) { std::mem::take(data) } else { Vec::new() };
            let forced = Request { fua: fua || (write_through && cache::takes_data(opcode)), ..*request };
            cache::submit(&forced, opcode, volume, queue, token, data, port);
            return Ok(1);
        }
        Kind::Special(special) => {
            let data = if special == Special::Append { std::mem::take(data) } else { Vec::new() };
            let forced = Request { fua: fua || (write_through && special == Special::Append), ..*request };
            zns::submit(&forced, special, volume, queue, token, data, port);
            return Ok(1);
        }
    };
    let fua = fua || (write_through && opcode != Opcode::Read);
    let operation = Operation::new(opcode, lba, sectors, data);
    port.submit(volume.number, token, Operation { queue, fua, handle, ..operation });
    Ok(1)
}

fn plain(queue: u16, opcode: Opcode) -> Operation {
    Operation { queue, ..Operation::new(opcode, Lba(0), 0, Vec::new()) }
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
    if let Interface::OpenChannel(chunks) = &volume.set {
        let ranges: Vec<DsmRange> = list().collect();
        return open_channel::reset_ranges(volume, chunks, &ranges, queue, token, port);
    }
    for range in list() {
        let end = range.start.checked_add(range.length_blocks.into());
        if end.is_none_or(|end| end > volume.sectors) {
            return Err(no(Status::LBA_OUT_OF_RANGE));
        }
    }
    let mut operations = 0;
    for range in list().filter(|range| range.length_blocks > 0) {
        let operation =
            Operation { lba: Lba(range.start), sectors: range.length_blocks, ..plain(queue, Opcode::Trim) };
        port.submit(volume.number, token, operation);
        operations += 1;
    }
    Ok(operations)
}

/// NVMe status for the status of an operation.
#[inline]
pub fn status(status: pellucid_flash::Status, opcode: Opcode) -> Status {
    use pellucid_flash::Status as Drive;
    match status {
        Drive::Success => Status::SUCCESS,
        Drive::LbaOutOfRange => no(Status::LBA_OUT_OF_RANGE),
        Drive::InvalidField => no(Status::INVALID_FIELD),
        Drive::UnrecoveredRead if opcode.effect() == Effect::Reads => no(Status::UNRECOVERED_READ_ERROR),
        // A partial write failed to read the rest of its mapping unit.
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
        // Status 280h has two names: NVMe's Write Fault, and the error of a write to a closed or offline
        // chunk.
        Drive::ChunkWriteInvalid => no(Status::WRITE_FAULT),
        Drive::Unwritten => no(Status::DEALLOCATED_BLOCK),
        Drive::ChunkOffline => no(Status::OC_OFFLINE_CHUNK),
        Drive::ChunkInvalidReset => no(Status::OC_INVALID_RESET),
        Drive::HighEcc => no(Status::OC_HIGH_ECC),
        Drive::ChunkWriteFailed => no(Status::OC_WRITE_FAIL_NEXT_UNIT),
        Drive::ChunkClosedEarly => no(Status::OC_CHUNK_EARLY_CLOSE),
        Drive::ChunkOutOfOrder => no(Status::OC_OUT_OF_ORDER),
        Drive::Absent => no(Status::CACHE_ABSENT),
        Drive::CacheFull => no(Status::CACHE_FULL),
        Drive::CapacityExceeded => no(Status::CAPACITY_EXCEEDED),
    }
}
