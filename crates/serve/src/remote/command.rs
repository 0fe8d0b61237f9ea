//! Commands in flight: translates a layer's command to NVMe, part by part, and handles the outcome.
//!
//! ```text
//!  waiting ─► part sent ─┬─ more parts ─► waiting
//!     ▲                  ├─ last part, or a write that failed ─► finished
//!     └── settled ◄──────┴─ connection lost: in doubt
//! ```
//! A part is as much as one NVMe command can move. Reads and writes are vector commands of the profile
//! (`wire`, `profile`), as these carry out-of-band data and error bitmaps.

use super::connect::{Link, chunks_entry, parse_chunks};
use super::queue::{Ended, Payload};
use super::{KEEP_ALIVE_TOKEN, Remote, STAGE_TOKEN, State, TRIES_MAX, cache, place, zones};
use pellucid_flash::{
    ChunkGeometry, ChunkInfo, ChunkOp, ChunkState, Command, Lba, Opcode, SimTime, Status, Vector, ZoneAction,
    ZoneOp,
};
use pellucid_wire::nvme::open_channel::{VectorCommand, VectorData, VectorOpcode, profile};
use pellucid_wire::nvme::{NvmOpcode, Status as NvmeStatus, SubmissionEntry};

const ADDRESS_BYTES: usize = 8;

/// A command in flight, or an idle entry.
pub(super) struct Work {
    pub command: Command,
    busy: bool,
    submitted: SimTime,
    /// Sequence number of the command.
    pub order: u64,
    /// Completed sectors (for a reset or a report: chunks).
    pub done: u32,
    /// Sectors of the part sent last.
    pub part: u32,
    sent: bool,
    /// A part may or may not have been executed.
    pub in_doubt: bool,
    /// The part was already sent on a lost connection.
    resent: bool,
    /// The part reads back data that may have been written.
    pub verifying: bool,
    tries: u32,
    /// Worst status of a read so far.
    status: Status,
    /// Bitmap of failed addresses.
    pub result: u64,
}

impl Work {
    fn new(command: Command, submitted: SimTime, order: u64) -> Work {
        Work {
            command,
            busy: true,
            submitted,
            order,
            done: 0,
            part: 0,
            sent: false,
            in_doubt: false,
            resent: false,
            verifying: false,
            tries: 0,
            status: Status::Success,
            result: 0,
        }
    }

    pub fn is_busy(&self) -> bool {
        self.busy
    }

    pub fn is_sent(&self) -> bool {
        self.busy && self.sent
    }

    /// Marks a part as sent.
    pub fn send(&mut self) {
        self.sent = true;
    }

    /// Marks the part as in doubt after the connection was lost.
    pub fn interrupted(&mut self) {
        (self.sent, self.in_doubt) = (false, true);
    }

    /// Takes out the command with its submission time.
    pub fn end(&mut self) -> Option<(Command, SimTime)> {
        let nothing = Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new());
        std::mem::take(&mut self.busy)
            .then(|| (std::mem::replace(&mut self.command, nothing), self.submitted))
    }

    /// Total number of sectors or chunks of the command.
    pub fn total(&self) -> u32 {
        match (self.command.opcode, &self.command.vector) {
            (Opcode::Flush | Opcode::Zone(ZoneOp::Change(_)), _) => 1,
            (Opcode::Chunk(ChunkOp::Reset), Some(vector)) => vector.addresses.len() as u32,
            (Opcode::Chunk(ChunkOp::Reset), None) => 1,
            _ => self.command.sectors,
        }
    }

    /// Addresses from `done` on, if the command has a list.
    fn addresses(&self) -> Option<&[Lba]> {
        let list = self.command.vector.as_ref().map(|vector| &vector.addresses[..])?;
        (!list.is_empty()).then(|| &list[self.done as usize..])
    }

    /// First address from `done` on.
    pub fn first(&self) -> Lba {
        match self.addresses() {
            Some(list) => list[0],
            None => Lba(self.command.lba.0 + u64::from(self.done)),
        }
    }

    /// Content of the command's data.
    fn data_kind(&self) -> VectorData {
        let metadata = self.command.vector.as_ref().is_some_and(|vector| !vector.metadata.is_empty());
        match (metadata, self.command.data.is_empty()) {
            (true, true) => VectorData::Metadata,
            (true, false) => VectorData::Extended,
            (false, _) => VectorData::Sectors,
        }
    }

    /// Chunks of a reset.
    pub fn chunks<'a>(&'a self, geometry: &'a ChunkGeometry) -> impl Iterator<Item = u32> + 'a {
        let list = self.command.vector.as_ref().map_or(&[][..], |vector| &vector.addresses[..]);
        let one = list.is_empty().then_some(self.command.lba);
        list.iter().copied().chain(one).filter_map(|lba| place(geometry, lba)).map(|(chunk, _)| chunk)
    }

    /// Blocks of the current part in wire format.
    pub fn blocks(&self, sector_bytes: usize) -> Vec<u8> {
        let (from, to) = (self.done as usize, (self.done + self.part) as usize);
        let data = &self.command.data[from * sector_bytes..to * sector_bytes];
        let Some(vector) = self.command.vector.as_ref().filter(|vector| !vector.metadata.is_empty()) else {
            return data.to_vec();
        };
        let oob = &vector.metadata[from * Vector::METADATA_BYTES..to * Vector::METADATA_BYTES];
        let mut blocks = Vec::with_capacity(data.len() + oob.len());
        for (sector, oob) in data.chunks_exact(sector_bytes).zip(oob.chunks_exact(Vector::METADATA_BYTES)) {
            blocks.extend_from_slice(sector);
            blocks.extend_from_slice(oob);
        }
        blocks
    }

    /// Stores the blocks of a part that was read.
    pub fn take_blocks(&mut self, blocks: &[u8], sector_bytes: usize) {
        let kind = self.data_kind();
        let Command { data, vector, .. } = &mut self.command;
        let (each, oob) = kind.bytes(sector_bytes as u32, Vector::METADATA_BYTES as u32);
        let (each, oob) = (each as usize, oob as usize);
        for (block, at) in blocks.chunks_exact(each + oob).zip(self.done as usize..) {
            if let Some(place) = data.get_mut(at * sector_bytes..(at + 1) * sector_bytes) {
                place.copy_from_slice(&block[..each]);
            }
            if let Some(place) = vector.as_mut().and_then(|v| v.metadata.get_mut(at * oob..(at + 1) * oob)) {
                place.copy_from_slice(&block[each..]);
            }
        }
    }
}

/// Returns the status of an invalid command.
pub(super) fn refuse(command: &Command, geometry: &ChunkGeometry) -> Option<Status> {
    let Command { opcode, sectors, data, namespace, vector, .. } = command;
    let count = *sectors as usize;
    let nothing = Vector::default();
    let vector = vector.as_deref().unwrap_or(&nothing);
    let has_list = !vector.addresses.is_empty();
    let bytes = count * geometry.sector_bytes as usize;
    let metadata = vector.metadata.len();
    let carries = match opcode {
        Opcode::Write => data.len() == bytes,
        Opcode::Read => data.is_empty() || data.len() == bytes,
        Opcode::Chunk(ChunkOp::Copy) => has_list && vector.destinations.len() == count,
        Opcode::Flush | Opcode::Chunk(ChunkOp::Reset) | Opcode::Report => true,
        _ => return Some(Status::InvalidOpcode),
    };
    let listed = !has_list || *opcode == Opcode::Chunk(ChunkOp::Reset) || vector.addresses.len() == count;
    let sized = match opcode {
        Opcode::Flush | Opcode::Chunk(ChunkOp::Reset) => true,
        _ => count > 0 && (metadata == 0 || metadata == count * Vector::METADATA_BYTES),
    };
    let short = vector.addresses.len() <= Vector::ADDRESSES_MAX;
    (*namespace != 0 || !carries || !listed || !sized || !short).then_some(Status::InvalidField)
}

impl Remote {
    /// Adds a command; returns its index.
    pub(super) fn begin(&mut self, command: Command) -> u32 {
        self.order += 1;
        let work = Work::new(command, self.now, self.order);
        match self.idle.pop() {
            Some(at) => {
                self.works[at as usize] = work;
                at
            }
            None => {
                self.works.push(work);
                self.works.len() as u32 - 1
            }
        }
    }

    /// Sends parts of waiting commands, as many as the queues take.
    pub(super) fn start_waiting(&mut self) {
        while let (State::Up(link), Some(&at)) = (&mut self.state, self.waiting.front()) {
            // A list of addresses takes a command of its own.
            let queue = link.roomiest();
            if link.io[queue].room() < 2 || link.admin.room() < 2 {
                return;
            }
            self.waiting.pop_front();
            let (work, geometry) = (&mut self.works[at as usize], &self.identity.geometry);
            if matches!(
                work.command.opcode,
                Opcode::Chunk(ChunkOp::Reset) | Opcode::Zone(ZoneOp::Change(ZoneAction::Reset))
            ) {
                // The outcome of the reset may never be known.
                work.chunks(geometry).for_each(|chunk| self.written[chunk as usize] = 0);
            }
            match (&self.identity.zones, &self.identity.cache) {
                (Some(_), _) => {
                    work.send();
                    zones::send(link, queue, work, at, geometry);
                }
                (_, Some(cache)) => {
                    work.send();
                    cache::send(link, queue, work, at, cache);
                }
                _ => send(link, queue, work, at, geometry),
            }
        }
    }

    /// Handles a completed command of the connection. Returns the reason if the connection can no longer be
    /// trusted.
    pub(super) fn part_ended(&mut self, ended: Ended) -> Option<String> {
        let Ended { token, status, mut result, data, filled } = ended;
        if matches!(token, KEEP_ALIVE_TOKEN | STAGE_TOKEN) {
            let what = if token == STAGE_TOKEN { "list of addresses" } else { "keep alive" };
            return (!status.is_success()).then(|| format!("{what}: {status}"));
        }
        let at = token as u32;
        let work = &mut self.works[at as usize];
        work.sent = false;
        let opcode = work.command.opcode;
        let mut met = drive_status(status, opcode, self.identity.zones.is_some());
        // Data that have not arrived are invalid.
        if opcode == Opcode::Read && self.identity.cache.is_some() && filled < data.len() {
            met = met.filter(|met| *met != Status::Success);
        } else if opcode == Opcode::Read && filled < data.len() {
            met = met.filter(|met| !matches!(met, Status::Success | Status::HighEcc));
            result = u64::MAX;
        }
        let Some(met) = met else {
            work.tries += 1;
            if work.tries > TRIES_MAX {
                self.finish(at, Status::WriteFault);
                return None;
            }
            work.interrupted();
            self.waiting.push_back(at);
            return Some(status.to_string());
        };
        self.part_answered(at, met, result, data, filled);
        None
    }

    /// The drive has answered a part with `met`; nothing is in doubt.
    fn part_answered(&mut self, at: u32, met: Status, result: u64, data: Vec<u8>, filled: usize) {
        let work = &mut self.works[at as usize];
        let sector_bytes = self.identity.geometry.sector_bytes as usize;
        if let Some(geometry) = &self.identity.cache {
            return match cache::ended(work, met, result, &data[..filled], geometry, sector_bytes) {
                true => self.part_done(at),
                false => self.finish(at, met),
            };
        }
        if work.verifying {
            let same = matches!(met, Status::Success | Status::HighEcc) && data == work.blocks(sector_bytes);
            return match same {
                true => self.part_done(at),
                // The write is torn: the layer writes elsewhere. The chunk itself may still be good.
                false => self.finish(at, Status::PowerLoss),
            };
        }
        let opcode = work.command.opcode;
        match opcode {
            Opcode::Report if self.identity.zones.is_some() => match zones::parse(&data[..filled]) {
                Some(_) => work.command.data.extend_from_slice(&data[zones::HEADER_BYTES..filled]),
                None => return self.finish(at, Status::WriteFault),
            },
            Opcode::Report if parse_chunks(&data).is_some() => work.command.data.extend_from_slice(&data),
            Opcode::Report => return self.finish(at, Status::WriteFault),
            Opcode::Read => work.take_blocks(&data, sector_bytes),
            _ => {}
        }
        if met != Status::Success {
            work.result |= result.checked_shl(work.done).unwrap_or(0);
            match opcode {
                Opcode::Read if work.status == Status::Success || met != Status::HighEcc => work.status = met,
                Opcode::Read => {}
                // The first transmission may have been executed before the second.
                Opcode::Write if work.resent => {
                    work.verifying = true;
                    return self.waiting.push_front(at);
                }
                _ => return self.finish(at, met),
            }
        }
        self.part_done(at);
    }

    /// Completes a part and records the sectors that the drive has acknowledged.
    fn part_done(&mut self, at: u32) {
        let geometry = &self.identity.geometry;
        let work = &mut self.works[at as usize];
        let mut note = |lba: Lba| {
            if let Some((chunk, sector)) = place(geometry, lba) {
                let written = &mut self.written[chunk as usize];
                *written = (*written).max(sector + 1);
            }
        };
        let part = work.part as usize;
        match (work.command.opcode, work.addresses()) {
            (Opcode::Write, Some(list)) => list[..part].iter().for_each(|&lba| note(lba)),
            (Opcode::Write, None) => note(Lba(work.first().0 + u64::from(work.part) - 1)),
            (Opcode::Chunk(ChunkOp::Copy), _) => {
                let list = work.command.vector.as_ref().map_or(&[][..], |vector| &vector.destinations);
                list[work.done as usize..][..part].iter().for_each(|&lba| note(lba));
            }
            _ => {}
        }
        work.done += work.part;
        (work.part, work.tries, work.resent, work.verifying) = (0, 0, false, false);
        match work.done < work.total() {
            true => self.waiting.push_front(at),
            false => {
                let status = work.status;
                self.finish(at, status);
            }
        }
    }

    /// Settles a command after a reconnect: `chunks` show the outcome of its part.
    pub(super) fn settle(&mut self, at: u32, chunks: &[ChunkInfo]) {
        let geometry = &self.identity.geometry;
        let work = &mut self.works[at as usize];
        let was_in_doubt = std::mem::take(&mut work.in_doubt);
        work.verifying = false;
        if was_in_doubt && matches!(work.command.opcode, Opcode::Write | Opcode::Chunk(ChunkOp::Copy)) {
            let target = (work.command.opcode == Opcode::Write && work.addresses().is_none())
                .then(|| place(geometry, work.first()))
                .flatten();
            let Some((chunk, first)) = target else { return self.finish(at, Status::WriteFault) };
            let ChunkInfo { state, write_pointer, .. } = chunks[chunk as usize];
            let in_use = matches!(state, ChunkState::Open | ChunkState::Closed);
            if write_pointer == first && matches!(state, ChunkState::Free | ChunkState::Open) {
                work.resent = true;
            } else if in_use && write_pointer >= first + work.part {
                work.verifying = true;
            } else {
                return self.finish(at, Status::PowerLoss);
            }
        }
        self.waiting.push_back(at);
    }
}

/// Sends the next part of a command.
fn send(link: &mut Link, queue: usize, work: &mut Work, at: u32, geometry: &ChunkGeometry) {
    let (nsid, token) = (link.identity.nsid, u64::from(at));
    let left = work.total() - work.done;
    work.send();
    if work.verifying {
        let (each, oob) = work.data_kind().bytes(geometry.sector_bytes, Vector::METADATA_BYTES as u32);
        let command = VectorCommand { count: work.part, is_run: true, ..vector(VectorOpcode::Read, work) };
        let blocks = vec![0; (work.part * (each + oob)) as usize];
        return link.io[queue].start(token, command.entry(0, nsid), Payload::In(blocks));
    }
    let sectors_max = (link.identity.data_max / geometry.sector_bytes).min(Vector::ADDRESSES_MAX as u32);
    match work.command.opcode {
        Opcode::Flush => {
            work.part = 1;
            let entry = SubmissionEntry::new(NvmOpcode::Flush.raw(), 0, nsid);
            link.io[queue].start(token, entry, Payload::In(Vec::new()));
        }
        Opcode::Report => {
            work.part = left.min(link.identity.data_max / ChunkInfo::BYTES as u32);
            let first = place(geometry, work.command.lba).map_or(u32::MAX, |(chunk, _)| chunk);
            let entry = chunks_entry(nsid, first.saturating_add(work.done), work.part);
            let page = vec![0; work.part as usize * ChunkInfo::BYTES];
            link.admin.start(token, entry, Payload::In(page));
        }
        Opcode::Chunk(ChunkOp::Reset) => {
            work.part = 1;
            let entry = vector(VectorOpcode::Reset, work).entry(0, nsid);
            link.io[queue].start(token, entry, Payload::In(Vec::new()));
        }
        Opcode::Chunk(ChunkOp::Copy) => {
            work.part = left.min(Vector::ADDRESSES_MAX as u32);
            let done = work.done as usize;
            let to = work.command.vector.as_ref().map_or(&[][..], |vector| &vector.destinations[done..]);
            let command = VectorCommand { destinations: to[0].0, ..vector(VectorOpcode::Copy, work) };
            let list =
                [&work.addresses().unwrap_or(&[])[..work.part as usize], &to[..work.part as usize]].concat();
            let command = staged(link, queue, command, &list, work.part, token);
            link.io[queue].start(token, command.entry(0, nsid), Payload::In(Vec::new()));
        }
        Opcode::Write => {
            // Every part is a multiple of the minimum write; drives whose limit is below that were refused.
            let most = sectors_max - sectors_max % geometry.write_min_sectors;
            work.part = left.min(most);
            let mut payload = Vec::new();
            if let Some(list) = work.addresses().filter(|_| work.part > 1) {
                put_list(&mut payload, &list[..work.part as usize]);
            }
            payload.extend(work.blocks(geometry.sector_bytes as usize));
            link.io[queue].start(
                token,
                vector(VectorOpcode::Write, work).entry(0, nsid),
                Payload::Out(payload),
            );
        }
        _ => {
            work.part = left.min(sectors_max);
            let (each, oob) = work.data_kind().bytes(geometry.sector_bytes, Vector::METADATA_BYTES as u32);
            let mut command = vector(VectorOpcode::Read, work);
            if let Some(list) = work.addresses() {
                command = staged(link, queue, command, &list[..work.part as usize], work.part, token);
            }
            let blocks = vec![0; (work.part * (each + oob)) as usize];
            link.io[queue].start(token, command.entry(0, nsid), Payload::In(blocks));
        }
    }
}

/// Builds the part as a vector command: a run, or one address.
fn vector(opcode: VectorOpcode, work: &Work) -> VectorCommand {
    let moves_data = matches!(opcode, VectorOpcode::Read | VectorOpcode::Write);
    VectorCommand {
        opcode,
        count: work.part.max(1),
        addresses: work.first().0,
        destinations: 0,
        limited_retry: false,
        data: if moves_data { work.data_kind() } else { VectorData::Sectors },
        is_run: moves_data && work.addresses().is_none(),
    }
}

/// Sends a list ahead of the command that uses it. The list is in its capsule, so it is there when the
/// command is parsed.
fn staged(
    link: &mut Link,
    queue: usize,
    command: VectorCommand,
    list: &[Lba],
    count: u32,
    key: u64,
) -> VectorCommand {
    if count == 1 {
        return command;
    }
    let mut bytes = Vec::with_capacity(list.len() * ADDRESS_BYTES);
    put_list(&mut bytes, list);
    debug_assert!(link.io[queue].fits_capsule(bytes.len()));
    let stage = SubmissionEntry::new(profile::STAGE_OPCODE, 0, link.identity.nsid)
        .with_cdw_pair(10, key)
        .with_cdw(12, list.len() as u32 - 1);
    link.io[queue].start(STAGE_TOKEN, stage, Payload::Out(bytes));
    VectorCommand { addresses: key, ..command }
}

fn put_list(bytes: &mut Vec<u8>, list: &[Lba]) {
    bytes.extend(list.iter().flat_map(|lba| lba.0.to_le_bytes()));
}

/// Status for the layer; `None` if the command may be sent again after a reconnect.
fn drive_status(status: NvmeStatus, opcode: Opcode, is_zoned: bool) -> Option<Status> {
    const TABLE: [(NvmeStatus, Status); 22] = [
        (NvmeStatus::SUCCESS, Status::Success),
        (NvmeStatus::OC_HIGH_ECC, Status::HighEcc),
        (NvmeStatus::OC_OFFLINE_CHUNK, Status::ChunkOffline),
        (NvmeStatus::OC_INVALID_RESET, Status::ChunkInvalidReset),
        (NvmeStatus::OC_WRITE_FAIL_NEXT_UNIT, Status::ChunkWriteFailed),
        (NvmeStatus::OC_CHUNK_EARLY_CLOSE, Status::ChunkClosedEarly),
        (NvmeStatus::OC_OUT_OF_ORDER, Status::ChunkOutOfOrder),
        (NvmeStatus::DEALLOCATED_BLOCK, Status::Unwritten),
        (NvmeStatus::LBA_OUT_OF_RANGE, Status::LbaOutOfRange),
        (NvmeStatus::INVALID_FIELD, Status::InvalidField),
        (NvmeStatus::INVALID_OPCODE, Status::InvalidOpcode),
        (NvmeStatus::WRITE_PROTECTED, Status::ReadOnly),
        (NvmeStatus::CACHE_ABSENT, Status::Absent),
        (NvmeStatus::CACHE_FULL, Status::CacheFull),
        (NvmeStatus::ZONE_BOUNDARY, Status::ZoneBoundary),
        (NvmeStatus::ZONE_FULL, Status::ZoneFull),
        (NvmeStatus::ZONE_READ_ONLY, Status::ZoneReadOnly),
        (NvmeStatus::ZONE_OFFLINE, Status::ZoneOffline),
        (NvmeStatus::ZONE_INVALID_WRITE, Status::ZoneInvalidWrite),
        (NvmeStatus::ZONE_TOO_MANY_ACTIVE, Status::TooManyActiveZones),
        (NvmeStatus::ZONE_TOO_MANY_OPEN, Status::TooManyOpenZones),
        (NvmeStatus::ZONE_INVALID_TRANSITION, Status::ZoneInvalidTransition),
    ];
    if let Some(&(_, met)) = TABLE.iter().find(|(known, _)| status.is(*known)) {
        return Some(met);
    }
    if status.is(NvmeStatus::POWER_LOSS_ABORT) || !status.is_final() {
        return None;
    }
    Some(match opcode {
        Opcode::Read => Status::UnrecoveredRead,
        // Status 280h is the error of a write to a chunk that takes none.
        Opcode::Write if !is_zoned && status.is(NvmeStatus::WRITE_FAULT) => Status::ChunkWriteInvalid,
        _ => Status::WriteFault,
    })
}
