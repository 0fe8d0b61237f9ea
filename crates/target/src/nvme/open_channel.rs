//! Open-channel namespaces (Open-Channel SSD 2.0): geometry, chunk log, notifications, vector commands.
//!
//! Over fabrics a drive cannot follow the host's pointers, and a Linux host derives the direction of data
//! from the two low bits of the opcode. So scalar commands, and commands with one address (NLB = 0, the
//! address in the command), follow the specification. Lists and out-of-band data follow a profile of this
//! project, which the vendor area of the geometry announces (`wire`, `profile`):
//!
//! ```text
//!  91h write, NLB > 0     data = list of u64, then the sectors
//!  95h stage a list       (opcode bits 01: data to the drive) CDW10-11 a key, CDW12 entries less one, data = list of u64
//!  90h, 92h, 93h, NLB > 0 CDW10-11 the key of a staged list, which it uses up; 93h: first the sources, then the destinations
//!  91h, 92h, CDW12 bit 18 no list: NLB + 1 sectors from the address in CDW10-11 on
//!  91h, 92h, CDW12 bit 16 each sector is followed by its 16 bytes of out-of-band data, as in an extended logical block
//!  92h,      CDW12 bit 17 out-of-band data only
//! ```
//! A controller keeps [`LISTS_MAX`] lists for all of its queues. A list in the capsule of its command is
//! staged before the next command of the same queue is parsed. Fabrics have no metadata pointer; MDTS counts
//! sectors only (MEM). A read that fails for some addresses returns its data, and the error bitmap tells
//! which addresses are good.

use super::io::{Request, Special, Volume, no};
use super::subsystem::Subsystem;
use crate::operation::Operation;
use crate::session::Port;
use pellucid_device::Feedback;
use pellucid_flash::{
    ChunkGeometry, ChunkInfo, ChunkNotice, ChunkOp, Completion, Interface, Lba, Nanos, Opcode, Vector,
};
use pellucid_wire::nvme::open_channel::{
    ChunkNotification, Geometry, VectorCommand, VectorData, VectorOpcode, profile,
};
use pellucid_wire::nvme::{BROADCAST_NSID, DsmRange, GetLogPage, Status, SubmissionEntry};

/// Opcode of this project's profile: stages a list of addresses for a later vector command.
pub(super) const STAGE_OPCODE: u8 = profile::STAGE_OPCODE;
/// Maximum number of staged lists per controller.
pub(super) const LISTS_MAX: usize = 64;
/// Log page: chunk information.
pub(super) const CHUNKS: u8 = 0xCA;
/// Log page: chunk notifications.
pub(super) const NOTICES: u8 = 0xD0;
/// Number of notifications kept for the log page.
pub(super) const NOTICES_MAX: usize = 64;
/// Controller attribute MEM: transfer limits count sectors, without the out-of-band data between them.
pub(super) const CONTROLLER_ATTRIBUTES: u32 = 1 << 16;
/// PCI vendor id of drives with this interface, by which hosts recognise it.
pub(super) const VENDOR: u16 = pellucid_wire::nvme::open_channel::PCI_VENDOR_AND_DEVICE.0;
const ADDRESS_BYTES: u32 = 8;
const METADATA_BYTES: usize = Vector::METADATA_BYTES;

/// A vector command or a staged list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VectorRequest {
    /// Opcode; `None`: stage a list.
    pub opcode: Option<VectorOpcode>,
    /// Number of addresses; for a staged list, its entries.
    pub count: u32,
    /// Single address, or key of the list.
    pub address: u64,
    /// Destination of a copy with a single address.
    pub destination: u64,
    /// Content of the data.
    pub data: VectorData,
    /// The sectors are consecutive from `address` on.
    pub is_run: bool,
}

impl VectorRequest {
    /// Returns true if the host sends data.
    pub fn takes_data(&self) -> bool {
        matches!(self.opcode, None | Some(VectorOpcode::Write))
    }

    /// Returns true if the host receives data.
    pub fn gives_data(&self) -> bool {
        self.opcode == Some(VectorOpcode::Read)
    }

    /// Returns true if the command names its sectors in a list.
    fn has_list(&self) -> bool {
        self.count > 1 && !self.is_run
    }

    /// Returns true if the command needs a staged list.
    pub fn needs_list(&self) -> bool {
        self.has_list() && !self.takes_data()
    }
}

/// Parses a command whose opcode the NVM command set lacks.
pub(super) fn parse(entry: &SubmissionEntry, index: usize, volume: &Volume) -> Result<Request, Status> {
    let Interface::OpenChannel(_) = volume.set else { return Err(no(Status::INVALID_OPCODE)) };
    let (vector, bytes, metadata) = if entry.opcode() == STAGE_OPCODE {
        let count = (entry.cdw(12) & 0x7F) + 1;
        let vector = VectorRequest {
            opcode: None,
            count,
            address: entry.cdw_pair(10),
            destination: 0,
            data: VectorData::Sectors,
            is_run: false,
        };
        (vector, count * ADDRESS_BYTES, 0)
    } else {
        let command = VectorCommand::parse(entry)?;
        let vector = VectorRequest {
            opcode: Some(command.opcode),
            count: command.count,
            address: command.addresses,
            destination: command.destinations,
            data: command.data,
            is_run: command.is_run,
        };
        let (data, metadata) = command.data.bytes(volume.sector_bytes, METADATA_BYTES as u32);
        let list = if vector.has_list() { command.count * ADDRESS_BYTES } else { 0 };
        match command.opcode {
            VectorOpcode::Write => (vector, list + command.count * data, command.count * metadata),
            VectorOpcode::Read => (vector, command.count * data, command.count * metadata),
            VectorOpcode::Reset | VectorOpcode::Copy => (vector, 0, 0),
        }
    };
    if bytes > super::TRANSFER_BYTES_MAX {
        return Err(no(Status::INVALID_FIELD));
    }
    let request = Request::special(Special::Vector(vector), index);
    Ok(Request { lba: vector.address, sectors: vector.count, bytes: bytes + metadata, ..request })
}

/// Submits a vector command to the drive; `data` are the host's: a list, sectors, or both.
pub(super) fn submit(
    vector: &VectorRequest,
    volume: &Volume,
    queue: u16,
    token: u64,
    data: &mut Vec<u8>,
    port: &mut Port<'_>,
) -> Result<u32, Status> {
    let Some(opcode) = vector.opcode else { return Ok(0) };
    let count = vector.count as usize;
    let mut addresses = if vector.is_run { Vec::new() } else { vec![Lba(vector.address)] };
    let mut destinations = Vec::new();
    if vector.has_list() {
        let lists = if opcode == VectorOpcode::Copy { 2 * count } else { count };
        let list = data.as_chunks::<8>().0.get(..lists).ok_or(no(Status::INVALID_FIELD))?;
        addresses = list.iter().map(|address| Lba(u64::from_le_bytes(*address))).collect();
        destinations = addresses.split_off(count);
    } else if opcode == VectorOpcode::Copy {
        destinations.push(Lba(vector.destination));
    }
    let (sector_bytes, metadata_bytes) = vector.data.bytes(volume.sector_bytes, METADATA_BYTES as u32);
    let mut metadata = vec![0; count * metadata_bytes as usize];
    let (opcode, data) = match opcode {
        VectorOpcode::Write => {
            data.drain(..if vector.has_list() { count * ADDRESS_BYTES as usize } else { 0 });
            if vector.data == VectorData::Extended {
                let mut sectors = port.take_buffer(count * sector_bytes as usize);
                take_apart(data, &mut sectors, &mut metadata);
                std::mem::swap(data, &mut sectors);
                port.give_back(sectors);
            }
            (Opcode::Write, std::mem::take(data))
        }
        VectorOpcode::Read => (Opcode::Read, port.take_buffer(count * sector_bytes as usize)),
        VectorOpcode::Reset => (Opcode::Chunk(ChunkOp::Reset), Vec::new()),
        VectorOpcode::Copy => (Opcode::Chunk(ChunkOp::Copy), Vec::new()),
    };
    let is_scalar = addresses.is_empty() && metadata.is_empty();
    let operation = Operation::new(opcode, Lba(vector.address), count as u32, data);
    let vector = (!is_scalar).then(|| Box::new(Vector { addresses, destinations, metadata }));
    port.submit(volume.number, token, Operation { queue, vector, ..operation });
    Ok(1)
}

/// Splits extended blocks into sectors and out-of-band data.
fn take_apart(blocks: &[u8], sectors: &mut [u8], metadata: &mut [u8]) {
    let sector_bytes = (sectors.len() / (metadata.len() / METADATA_BYTES).max(1)).max(1);
    let blocks = blocks.chunks_exact(sector_bytes + METADATA_BYTES);
    let places = sectors.chunks_exact_mut(sector_bytes).zip(metadata.chunks_exact_mut(METADATA_BYTES));
    for (block, (sector, oob)) in blocks.zip(places) {
        sector.copy_from_slice(&block[..sector_bytes]);
        oob.copy_from_slice(&block[sector_bytes..]);
    }
}

/// Builds the host's data for a completed read.
pub(super) fn data_of(request: &VectorRequest, ended: &mut Completion, port: &mut Port<'_>) -> Vec<u8> {
    let data = std::mem::take(&mut ended.data);
    let metadata =
        ended.vector.as_mut().map(|vector| std::mem::take(&mut vector.metadata)).unwrap_or_default();
    match request.data {
        VectorData::Sectors => data,
        VectorData::Metadata => metadata,
        VectorData::Extended => {
            let sector_bytes = data.len() / request.count as usize;
            let mut blocks = port.take_buffer(data.len() + metadata.len());
            let parts = data.chunks_exact(sector_bytes).zip(metadata.chunks_exact(METADATA_BYTES));
            for (block, (sector, oob)) in blocks.chunks_exact_mut(sector_bytes + METADATA_BYTES).zip(parts) {
                block[..sector_bytes].copy_from_slice(sector);
                block[sector_bytes..].copy_from_slice(oob);
            }
            port.give_back(data);
            blocks
        }
    }
}

/// Executes Dataset Management with deallocation: every range must be a whole chunk, which is reset.
pub(super) fn reset_ranges(
    volume: &Volume,
    chunks: &ChunkGeometry,
    ranges: &[DsmRange],
    queue: u16,
    token: u64,
    port: &mut Port<'_>,
) -> Result<u32, Status> {
    let is_chunk = |range: &DsmRange| {
        let start = chunks.address(Lba(range.start)).is_some_and(|address| address.sector == 0);
        start && range.length_blocks == chunks.chunk_sectors
    };
    if !ranges.iter().all(is_chunk) {
        return Err(no(Status::INVALID_FIELD));
    }
    for range in ranges {
        let operation = Operation::new(Opcode::Chunk(ChunkOp::Reset), Lba(range.start), 0, Vec::new());
        port.submit(volume.number, token, Operation { queue, ..operation });
    }
    Ok(ranges.len() as u32)
}

/// Builds the answer to Geometry (E2h). Gaps in the wear index from `wear_threshold` on are notified; 0
/// disables this.
pub(super) fn geometry(chunks: &ChunkGeometry, wear_threshold: u8) -> Geometry {
    let [group_bits, unit_bits, chunk_bits, block_bits] = chunks.address_bits().map(|bits| bits as u8);
    let times = |range: [Nanos; 2]| range.map(|time| u32::try_from(time.0).unwrap_or(u32::MAX));
    Geometry {
        major: 2,
        group_bits,
        unit_bits,
        chunk_bits,
        block_bits,
        // Vector copy is supported; resetting a free chunk is not.
        capabilities: 0b01,
        wear_threshold,
        groups: chunks.groups as u16,
        units: chunks.units as u16,
        chunks: chunks.chunks,
        chunk_blocks: chunks.chunk_sectors,
        write_min: chunks.write_min_sectors,
        write_optimal: chunks.write_optimal_sectors,
        cache_units: chunks.cached_sectors,
        open_chunks_max: chunks.open_chunks_max,
        open_chunks_per_unit_max: chunks.open_chunks_per_unit_max,
        read_ns: times(chunks.read_ns),
        write_ns: times(chunks.write_ns),
        reset_ns: times(chunks.reset_ns),
        ..Default::default()
    }
    .with_profile(METADATA_BYTES as u16)
}

/// Requested part of the chunk log; zeros follow its end.
pub(super) fn chunk_log(
    namespace: usize,
    arguments: &GetLogPage,
    port: &Port<'_>,
) -> Result<Vec<u8>, Status> {
    let served = &port.namespaces()[namespace];
    let Interface::OpenChannel(chunks) = served.interface else {
        return Err(no(Status::INVALID_LOG_PAGE));
    };
    let each = ChunkInfo::BYTES as u64;
    if arguments.offset > u64::from(chunks.parallel_units()) * u64::from(chunks.chunks) * each {
        return Err(no(Status::INVALID_FIELD));
    }
    let first = u32::try_from(arguments.offset / each).map_err(|_| no(Status::INVALID_FIELD))?;
    let skip = (arguments.offset % each) as usize;
    let length = arguments.length_bytes as usize;
    let count = (skip + length).div_ceil(ChunkInfo::BYTES) as u32;
    let mut page = Vec::with_capacity(count as usize * ChunkInfo::BYTES);
    port.chunk_infos(namespace, first, count).iter().for_each(|info| info.encode(&mut page));
    page.drain(..skip.min(page.len()));
    page.resize(length, 0);
    Ok(page)
}

/// Builds the notifications of one namespace or all, oldest first, followed by an empty one.
pub(super) fn notice_log(subsystem: &Subsystem, nsid: u32) -> Vec<u8> {
    let mut page = Vec::new();
    let all = matches!(nsid, 0 | BROADCAST_NSID);
    for &(of, notice) in subsystem.notices.iter().filter(|(of, _)| all || *of == nsid) {
        page.extend(notification(of, &notice).encode());
    }
    page.resize((NOTICES_MAX + 1) * ChunkNotification::BYTES, 0);
    page
}

fn notification(nsid: u32, notice: &ChunkNotice) -> ChunkNotification {
    ChunkNotification {
        count: notice.count,
        lba: notice.lba.0,
        nsid,
        state: notice.reason as u16,
        mask: notice.scope as u8,
        blocks: u16::try_from(notice.sectors.saturating_sub(1)).unwrap_or(u16::MAX),
    }
}

/// Open-channel namespaces that a feature command addresses: one or all.
fn chosen(subsystem: &Subsystem, nsid: u32, port: &Port<'_>) -> Vec<usize> {
    let all = subsystem.nsids().filter(|&other| nsid == other || matches!(nsid, 0 | u32::MAX));
    let numbers = all.filter_map(|nsid| subsystem.namespace(nsid));
    let is_open =
        |namespace: &usize| matches!(port.namespaces()[*namespace].interface, Interface::OpenChannel(_));
    numbers.filter(is_open).collect()
}

/// Feedback setting of the first open-channel namespace addressed: the `current` one, or the initial one.
pub(super) fn feedback(subsystem: &Subsystem, nsid: u32, current: bool, port: &Port<'_>) -> Option<Feedback> {
    let namespace = *chosen(subsystem, nsid, port).first()?;
    let default = subsystem.feedback_defaults.get(&namespace).filter(|_| !current);
    default
        .copied()
        .or_else(|| port.device(namespace)?.namespace(port.namespaces()[namespace].number).feedback())
}

/// Changes the feedback of the addressed open-channel namespaces for a controller; returns true if there are
/// any.
pub(super) fn set_feedback(
    subsystem: &mut Subsystem,
    controller: u16,
    nsid: u32,
    port: &mut Port<'_>,
    change: impl Fn(&mut Feedback),
) -> bool {
    let mut any = false;
    for namespace in chosen(subsystem, nsid, port) {
        let number = port.namespaces()[namespace].number;
        let Some(device) = port.device_mut(namespace) else { continue };
        if let Some(mut feedback) = device.namespace(number).feedback() {
            subsystem.feedback_defaults.entry(namespace).or_insert(feedback);
            subsystem.feedback_setters.insert(controller);
            change(&mut feedback);
            any |= device.set_feedback(number, feedback);
        }
    }
    any
}

/// Handles a controller that is reset or gone. After the last one that changed any feedback, namespaces
/// return to their initial setting.
pub(super) fn forget_setter(subsystem: &mut Subsystem, controller: u16, port: &mut Port<'_>) {
    if !subsystem.feedback_setters.remove(&controller) || !subsystem.feedback_setters.is_empty() {
        return;
    }
    for (namespace, feedback) in std::mem::take(&mut subsystem.feedback_defaults) {
        let number = port.namespaces()[namespace].number;
        if let Some(device) = port.device_mut(namespace) {
            device.set_feedback(number, feedback);
        }
    }
}
