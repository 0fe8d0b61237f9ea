//! A drive with one namespace, of blocks or of chunks, that enforces the rules of flash, takes random times, loses power and fails.

use pellucid_flash::{
    ChunkAddress, ChunkGeometry, ChunkInfo, ChunkOp, ChunkState, Command, Completion, Drive, Interface, Lba,
    Nanos, Opcode, Rng, SimTime, StageTimes, Status, Vector,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Faults to inject.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    pub program: f64,
    pub erase: f64,
    pub read: f64,
    /// Probability that a read returns corrupt bytes.
    pub corrupt: f64,
    /// LUNs on which every operation fails.
    pub dead_luns: BTreeSet<u32>,
    /// True to refuse writes (block).
    pub read_only: bool,
    /// True if writes and erases fail and change nothing, as on a full disk below.
    pub full: bool,
}

#[derive(Clone, Debug)]
pub struct Flash {
    pub faults: Faults,
    pub geometry: Option<ChunkGeometry>,
    sectors: u64,
    sector_bytes: usize,
    data: BTreeMap<u64, Vec<u8>>,
    /// Out-of-band data.
    spare: BTreeMap<u64, [u8; Vector::METADATA_BYTES]>,
    /// State, sectors written, erases.
    chunks: Vec<(ChunkState, u32, u32)>,
    /// Sectors that cannot be read.
    torn: BTreeSet<u64>,
    pending: BTreeMap<(SimTime, u64), (SimTime, Command)>,
    /// End of the last write to each chunk: writes end in order.
    ends: BTreeMap<u64, SimTime>,
    done: VecDeque<Completion>,
    serial: u64,
    /// Commands executed, and failed programs.
    pub carried_out: u64,
    pub failed_programs: u64,
    /// Number of operations after which the power is off.
    pub cut_at: Option<u64>,
    rng: Rng,
}

/// The sectors of a command.
fn lbas(command: &Command) -> Vec<u64> {
    match &command.vector {
        Some(vector) if !vector.addresses.is_empty() => vector.addresses.iter().map(|lba| lba.0).collect(),
        _ => (command.lba.0..command.lba.0 + u64::from(command.sectors)).collect(),
    }
}

/// Channels, LUNs of each, chunks of each, sectors of a chunk.
pub fn geometry(groups: u32, units: u32, chunks: u32, chunk_sectors: u32) -> ChunkGeometry {
    ChunkGeometry {
        groups,
        units,
        chunks,
        chunk_sectors,
        sector_bytes: 512,
        write_min_sectors: 4,
        write_optimal_sectors: 8,
        cached_sectors: 0,
        open_chunks_max: 0,
        open_chunks_per_unit_max: 0,
        read_ns: [Nanos(50_000); 2],
        write_ns: [Nanos(500_000); 2],
        reset_ns: [Nanos(2_000_000); 2],
    }
}

impl Flash {
    pub fn blocks(sectors: u64, seed: u64) -> Flash {
        Flash {
            faults: Faults::default(),
            geometry: None,
            sectors,
            sector_bytes: 512,
            data: BTreeMap::new(),
            spare: BTreeMap::new(),
            chunks: Vec::new(),
            torn: BTreeSet::new(),
            pending: BTreeMap::new(),
            ends: BTreeMap::new(),
            done: VecDeque::new(),
            serial: 0,
            carried_out: 0,
            failed_programs: 0,
            cut_at: None,
            rng: Rng::stream(seed, "flash"),
        }
    }

    pub fn chunks(geometry: ChunkGeometry, seed: u64) -> Flash {
        let chunks = (geometry.parallel_units() * geometry.chunks) as usize;
        Flash {
            geometry: Some(geometry),
            chunks: vec![(ChunkState::Free, 0, 0); chunks],
            sector_bytes: geometry.sector_bytes as usize,
            ..Flash::blocks(geometry.address_space_sectors(), seed)
        }
    }

    /// Cuts the power: commands in flight are done completely, partly or not at all, without completions.
    pub fn power_cut(&mut self) {
        let mut lost = BTreeSet::new();
        for (_, (_, command)) in std::mem::take(&mut self.pending) {
            // Data behind a lost write of a chunk are lost, too.
            let chunk = self
                .geometry
                .and_then(|geometry| Some(geometry.chunk_number(geometry.address(command.lba)?)));
            if command.opcode == Opcode::Write && chunk.is_some_and(|chunk| lost.contains(&chunk)) {
                continue;
            }
            lost.extend(chunk);
            match (command.opcode, self.geometry) {
                (Opcode::Write, None) if self.rng.chance(0.5) => {
                    self.carry_out(command);
                }
                (Opcode::Write, Some(_)) if self.rng.chance(0.7) => {
                    let (first, count) = (command.lba.0, u64::from(command.sectors));
                    self.carry_out(command);
                    if self.rng.chance(0.5) {
                        self.torn.extend(first + self.rng.below(count)..first + count);
                    }
                }
                (Opcode::Chunk(ChunkOp::Reset), _) if self.rng.chance(0.5) => {
                    self.carry_out(command);
                }
                // An interrupted reset leaves nothing readable.
                (Opcode::Chunk(ChunkOp::Reset), Some(geometry)) => {
                    let address = geometry.address(command.lba).expect("checked");
                    let number = geometry.chunk_number(address) as usize;
                    self.chunks[number].0 = ChunkState::Closed;
                    let from = geometry.lba(ChunkAddress { sector: 0, ..address }).0;
                    self.torn.extend(from..from + u64::from(geometry.chunk_sectors));
                }
                _ => {}
            }
        }
        self.done.clear();
        self.ends.clear();
    }

    fn lun(&self, lba: Lba) -> u32 {
        let address = self.geometry.and_then(|geometry| Some((geometry, geometry.address(lba)?)));
        address.map_or(u32::MAX, |(geometry, at)| at.group * geometry.units + at.unit)
    }

    fn read(&mut self, command: &mut Command) -> Status {
        let lbas = lbas(command);
        let fails = self.rng.chance(self.faults.read);
        if let Some(vector) = &mut command.vector {
            let spares = vector.metadata.as_chunks_mut::<{ Vector::METADATA_BYTES }>().0;
            for (lba, spare) in lbas.iter().zip(spares) {
                *spare = self.spare.get(lba).copied().unwrap_or_default();
            }
        }
        let images = command.data.chunks_exact_mut(self.sector_bytes);
        for (lba, image) in lbas.iter().zip(images) {
            match self.data.get(lba) {
                Some(sector) => image.copy_from_slice(sector),
                None => image.fill(0),
            }
        }
        if fails || lbas.iter().any(|lba| self.torn.contains(lba)) {
            return Status::UnrecoveredRead;
        }
        if !command.data.is_empty() && self.rng.chance(self.faults.corrupt) {
            let at = self.rng.below(command.data.len() as u64) as usize;
            command.data[at] ^= 1 << self.rng.below(8);
        }
        Status::Success
    }

    fn write(&mut self, command: &Command) -> Status {
        if let Some(geometry) = self.geometry {
            let address = geometry.address(command.lba).expect("checked");
            let chunk = &mut self.chunks[geometry.chunk_number(address) as usize];
            if matches!(chunk.0, ChunkState::Closed | ChunkState::Offline) {
                return Status::ChunkWriteInvalid;
            }
            assert_eq!(chunk.1, address.sector, "a write that is not at the write pointer");
            assert!(command.sectors.is_multiple_of(geometry.write_min_sectors));
            if self.rng.chance(self.faults.program) {
                chunk.0 = ChunkState::Closed;
                self.failed_programs += 1;
                return Status::ChunkClosedEarly;
            }
            chunk.1 += command.sectors;
            chunk.0 = if chunk.1 == geometry.chunk_sectors { ChunkState::Closed } else { ChunkState::Open };
        } else if self.faults.read_only {
            return Status::ReadOnly;
        } else if self.rng.chance(self.faults.program) {
            return Status::WriteFault;
        }
        if let Some(vector) = &command.vector {
            let spares = vector.metadata.as_chunks::<{ Vector::METADATA_BYTES }>().0;
            self.spare.extend((command.lba.0..).zip(spares.iter().copied()));
        }
        let images = command.data.chunks_exact(self.sector_bytes);
        for (lba, image) in (command.lba.0..).zip(images) {
            self.torn.remove(&lba);
            self.data.insert(lba, image.to_vec());
        }
        Status::Success
    }

    fn reset(&mut self, lba: Lba) -> Status {
        let geometry = self.geometry.expect("chunks");
        let address = geometry.address(lba).expect("checked");
        let fails = self.rng.chance(self.faults.erase);
        let chunk = &mut self.chunks[geometry.chunk_number(address) as usize];
        if chunk.0 == ChunkState::Offline {
            return Status::ChunkOffline;
        }
        if chunk.0 == ChunkState::Free {
            return Status::ChunkInvalidReset;
        }
        *chunk = (if fails { ChunkState::Offline } else { ChunkState::Free }, 0, chunk.2 + 1);
        let from = geometry.lba(ChunkAddress { sector: 0, ..address }).0;
        for sector in from..from + u64::from(geometry.chunk_sectors) {
            self.data.remove(&sector);
            self.spare.remove(&sector);
            self.torn.remove(&sector);
        }
        if fails { Status::ChunkOffline } else { Status::Success }
    }

    fn report(&self, command: &mut Command) {
        let geometry = self.geometry.expect("chunks");
        let first = geometry.chunk_number(geometry.address(command.lba).expect("checked"));
        command.data.clear();
        for number in first..first + command.sectors {
            let (state, write_pointer, _) = self.chunks[number as usize];
            let start = geometry.lba(geometry.chunk_at(number));
            ChunkInfo { state, wear_index: 0, start, sectors: geometry.chunk_sectors, write_pointer }
                .encode(&mut command.data);
        }
    }

    fn carry_out(&mut self, mut command: Command) -> (Command, Status) {
        self.carried_out += 1;
        if self.faults.dead_luns.contains(&self.lun(command.lba)) && command.opcode != Opcode::Report {
            return (command, Status::WriteFault);
        }
        if self.faults.full && matches!(command.opcode, Opcode::Write | Opcode::Chunk(ChunkOp::Reset)) {
            return (command, Status::WriteFault);
        }
        let status = match command.opcode {
            Opcode::Read => self.read(&mut command),
            Opcode::Write => self.write(&command),
            Opcode::Chunk(ChunkOp::Reset) => self.reset(command.lba),
            Opcode::Flush => Status::Success,
            Opcode::Report => {
                self.report(&mut command);
                Status::Success
            }
            other => unreachable!("{other:?}: no engine sends it"),
        };
        (command, status)
    }
}

impl Drive for Flash {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        let interface = match self.geometry {
            Some(geometry) => Interface::OpenChannel(geometry),
            None => Interface::Block { sectors: self.sectors, handles: 1 },
        };
        (namespace == 0).then_some(interface)
    }

    fn image_bytes(&self) -> usize {
        self.sector_bytes
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        let end = command.lba.0 + u64::from(command.sectors);
        assert!(end <= self.sectors || command.opcode == Opcode::Report, "beyond the end");
        let listed = command.vector.as_ref().is_some_and(|vector| !vector.addresses.is_empty());
        assert!(!listed || command.opcode == Opcode::Read, "only reads are listed");
        if let Some(geometry) = self.geometry.filter(|_| !listed && command.opcode != Opcode::Flush) {
            let at = geometry.address(command.lba).expect("there is such a sector");
            let inside = at.sector + command.sectors <= geometry.chunk_sectors;
            assert!(inside || command.opcode == Opcode::Report, "over the end of a chunk");
        }
        self.serial += 1;
        let base = match command.opcode {
            Opcode::Read => 20_000,
            Opcode::Chunk(ChunkOp::Reset) => 1_000_000,
            _ => 200_000,
        };
        let mut due = now + Nanos(base + self.rng.below(base));
        if matches!(command.opcode, Opcode::Write | Opcode::Chunk(ChunkOp::Reset))
            && let Some(geometry) = self.geometry
        {
            let chunk = geometry.chunk_number(geometry.address(command.lba).expect("checked"));
            let end = self.ends.entry(chunk.into()).or_insert(SimTime::ZERO);
            due = due.max(*end);
            *end = due;
        }
        self.pending.insert((due, self.serial), (now, command));
    }

    fn advance(&mut self, now: SimTime) {
        while self.cut_at.is_none_or(|cut| self.carried_out < cut)
            && let Some(first) = self.pending.first_entry().filter(|first| first.key().0 <= now)
        {
            let completed = first.key().0;
            let (submitted, command) = first.remove();
            // Unreadable sectors of a list are named.
            let torn = |lba: &u64| self.torn.contains(lba);
            let listed = command.opcode == Opcode::Read && command.vector.is_some();
            let result = match listed {
                true => (0u32..).zip(&lbas(&command)).map(|(n, lba)| u64::from(torn(lba)) << n.min(63)).sum(),
                false => 0,
            };
            let (command, status) = self.carry_out(command);
            let stages = StageTimes::default();
            self.done.push_back(Completion {
                submitted,
                completed,
                stages,
                result,
                ..command.refused(completed, status)
            });
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        if self.cut_at.is_some_and(|cut| self.carried_out >= cut) {
            return None;
        }
        self.pending.first_key_value().map(|((at, _), _)| *at)
    }

    fn pop(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.pending.len()
    }

    fn completed(&self) -> usize {
        self.done.len()
    }
}
