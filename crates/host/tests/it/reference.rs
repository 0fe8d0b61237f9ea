//! Reference drive: an open-channel namespace in a few simple data structures, with every rule checked.
//!
//! It panics when a host breaks a rule that a drive would enforce, because a host FTL must never do that: a
//! write off the write pointer, a second write in flight to a chunk, a read of a sector that was never
//! written or that the drive holds back, or a reset of a chunk that is being read.

use pellucid_flash::{
    ChunkAddress, ChunkGeometry, ChunkInfo, ChunkOp, ChunkState, Command, Completion, Drive, Interface, Lba,
    Nanos, Opcode, Rng, SimTime, Stage, StageTimes, Status, Vector,
};
use std::collections::{BTreeMap, VecDeque};

/// Probabilities of failures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A write fails; its chunk is closed, and goes offline with the next reset.
    pub write: f64,
    /// A reset fails; its chunk goes offline.
    pub reset: f64,
    /// A read fails once.
    pub read: f64,
}

#[derive(Clone, Debug)]
enum Sector {
    Good(Vec<u8>, Vec<u8>),
    /// Only the out-of-band data are readable.
    Spoilt(Vec<u8>),
    Torn,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    state: ChunkState,
    failed: bool,
    sectors: Vec<Sector>,
}

#[derive(Clone, Debug)]
struct Pending {
    command: Command,
    submitted: SimTime,
}

#[derive(Clone, Debug)]
pub struct Reference {
    pub geometry: ChunkGeometry,
    image_bytes: usize,
    chunks: Vec<Chunk>,
    pending: BTreeMap<(SimTime, u64), Pending>,
    busy: Vec<SimTime>,
    writing: Vec<bool>,
    serial: u64,
    rng: Rng,
    pub faults: Faults,
    /// Chunks whose writes and resets all fail.
    dying: std::ops::Range<u32>,
    now: SimTime,
    done: VecDeque<Completion>,
    /// Number of commands by kind: reads, writes, resets.
    pub commands: [u64; 3],
    /// Chunks that were sent a reset.
    pub resets: Vec<u32>,
    /// Number of writes that would have exceeded the open chunks.
    pub too_many_open: u64,
    /// Logical page whose writes are refused, as by a drive whose store is full.
    pub refused_page: Option<u32>,
    pub refused: u64,
}

/// Reports whether the first sector of a write belongs to this logical page.
fn begins_with(command: &Command, page: u32) -> bool {
    command.vector.as_ref().is_some_and(|vector| vector.metadata.starts_with(&page.to_le_bytes()))
}

pub fn geometry(groups: u32, units: u32, chunks: u32, chunk_sectors: u32, write: u32) -> ChunkGeometry {
    ChunkGeometry {
        groups,
        units,
        chunks,
        chunk_sectors,
        sector_bytes: 512,
        write_min_sectors: write,
        write_optimal_sectors: write,
        cached_sectors: 0,
        open_chunks_max: 0,
        open_chunks_per_unit_max: 0,
        read_ns: [Nanos(10); 2],
        write_ns: [Nanos(100); 2],
        reset_ns: [Nanos(300); 2],
    }
}

impl Reference {
    pub fn new(geometry: ChunkGeometry, seed: u64) -> Reference {
        let units = geometry.parallel_units();
        Reference {
            geometry,
            image_bytes: geometry.sector_bytes as usize,
            chunks: vec![Chunk::default(); (units * geometry.chunks) as usize],
            pending: BTreeMap::new(),
            busy: vec![SimTime::ZERO; units as usize],
            writing: vec![false; (units * geometry.chunks) as usize],
            serial: 0,
            rng: Rng::stream(seed, "reference"),
            faults: Faults::default(),
            dying: 0..0,
            now: SimTime::ZERO,
            done: VecDeque::new(),
            commands: [0; 3],
            resets: Vec::new(),
            too_many_open: 0,
            refused_page: None,
            refused: 0,
        }
    }

    /// Makes every write and reset of these chunks fail from now on.
    #[allow(dead_code, reason = "the tests of the flash library use it")]
    pub fn kill(&mut self, chunks: std::ops::Range<u32>) {
        self.dying = chunks;
    }

    /// Retires a chunk before the drive is used.
    pub fn retire(&mut self, number: u32) {
        self.chunks[number as usize].state = ChunkState::Offline;
    }

    /// Returns the chunks that are not free.
    pub fn used(&self) -> Vec<u32> {
        let chunks = (0..).zip(&self.chunks);
        chunks.filter(|(_, chunk)| chunk.state != ChunkState::Free).map(|(number, _)| number).collect()
    }

    fn address(&self, lba: Lba) -> ChunkAddress {
        self.geometry.address(lba).unwrap_or_else(|| panic!("sector {} does not exist", lba.0))
    }

    fn chunk(&mut self, lba: Lba) -> &mut Chunk {
        let number = self.geometry.chunk_number(self.address(lba));
        &mut self.chunks[number as usize]
    }

    fn unit(&self, lba: Lba) -> usize {
        let address = self.address(lba);
        (address.group * self.geometry.units + address.unit) as usize
    }

    fn addresses(command: &Command) -> Vec<Lba> {
        match &command.vector {
            Some(vector) if !vector.addresses.is_empty() => vector.addresses.clone(),
            _ => (0..u64::from(command.sectors.max(1))).map(|i| Lba(command.lba.0 + i)).collect(),
        }
    }

    /// Makes sectors unreadable whose out-of-band data name a page from `first` on. Returns their number.
    pub fn tear_pages(&mut self, first: u32) -> usize {
        self.harm_pages(first, |_| Sector::Torn)
    }

    /// Makes the data of such sectors unreadable, but keeps their out-of-band data. Returns their number.
    pub fn spoil_pages(&mut self, first: u32) -> usize {
        self.harm_pages(first, |oob| Sector::Spoilt(oob.to_vec()))
    }

    fn harm_pages(&mut self, first: u32, harmed: impl Fn(&[u8]) -> Sector) -> usize {
        let mut count = 0;
        for sector in self.chunks.iter_mut().flat_map(|chunk| &mut chunk.sectors) {
            let Sector::Good(_, oob) = sector else { continue };
            let page = u32::from_le_bytes(oob[..4].try_into().expect("4 bytes"));
            if page >= first && page < u32::MAX - 2 {
                (*sector, count) = (harmed(oob), count + 1);
            }
        }
        count
    }

    /// Reports whether a write that opens a chunk would exceed the limit of open chunks.
    fn is_full(&self, lba: Lba) -> bool {
        let of_unit = self.geometry.chunk_number(self.address(lba)) / self.geometry.chunks;
        let chunks = (0..).zip(&self.chunks).filter(|(_, chunk)| chunk.state == ChunkState::Open);
        let (mut all, mut here) = (0, 0);
        for (number, _) in chunks {
            (all, here) = (all + 1, here + u32::from(number / self.geometry.chunks == of_unit));
        }
        let over = |limit: u32, open: u32| limit > 0 && open >= limit;
        over(self.geometry.open_chunks_max, all) || over(self.geometry.open_chunks_per_unit_max, here)
    }

    /// Cuts the power: writes and resets under way are carried out completely, partly or not at all.
    pub fn power_cut(&mut self) {
        for (_, Pending { command, .. }) in std::mem::take(&mut self.pending) {
            let how = self.rng.below(3);
            match command.opcode {
                Opcode::Write if how > 0 => self.write(&command, how == 1),
                Opcode::Chunk(ChunkOp::Reset) if how > 0 => {
                    let chunk = self.chunk(command.lba);
                    match how {
                        1 => chunk.sectors.iter_mut().for_each(|s| *s = Sector::Torn),
                        _ => *chunk = Chunk { failed: chunk.failed, ..Chunk::default() },
                    }
                }
                _ => {}
            }
        }
        self.busy.fill(self.now);
        self.writing.fill(false);
        self.done.clear();
    }

    fn write(&mut self, command: &Command, torn: bool) {
        let (image, full) = (self.image_bytes, self.geometry.chunk_sectors as usize);
        // Missing out-of-band data are zeros.
        let mut metadata = command.vector.as_ref().map_or_else(Vec::new, |vector| vector.metadata.clone());
        metadata.resize(command.sectors as usize * Vector::METADATA_BYTES, 0);
        let sectors: Vec<Sector> = (0..command.sectors as usize)
            .map(|i| match torn {
                true => Sector::Torn,
                false => Sector::Good(
                    command.data[i * image..][..image].to_vec(),
                    metadata[i * Vector::METADATA_BYTES..][..Vector::METADATA_BYTES].to_vec(),
                ),
            })
            .collect();
        let chunk = self.chunk(command.lba);
        chunk.sectors.extend(sectors);
        chunk.state = if chunk.sectors.len() == full { ChunkState::Closed } else { ChunkState::Open };
    }

    fn carry_out(&mut self, pending: Pending) {
        let Pending { mut command, submitted } = pending;
        let (mut status, mut result) = (Status::Success, 0);
        match command.opcode {
            Opcode::Write => {
                let number = self.geometry.chunk_number(self.address(command.lba));
                self.writing[number as usize] = false;
                let opens = self.chunks[number as usize].state == ChunkState::Free;
                if opens && self.is_full(command.lba) {
                    self.too_many_open += 1;
                    status = Status::ChunkWriteInvalid;
                } else if self.refused_page.is_some_and(|page| begins_with(&command, page)) {
                    status = Status::WriteFault;
                    self.refused += 1;
                } else if self.dying.contains(&number) || self.rng.chance(self.faults.write) {
                    // The chunk is closed, or the next write goes after the failed one.
                    let closed = self.rng.chance(0.5);
                    status = if closed { Status::ChunkClosedEarly } else { Status::ChunkWriteFailed };
                    self.write(&command, true);
                    let chunk = self.chunk(command.lba);
                    chunk.failed = true;
                    if closed {
                        chunk.state = ChunkState::Closed;
                    }
                } else {
                    self.write(&command, false);
                }
            }
            Opcode::Chunk(ChunkOp::Reset) => {
                let number = self.geometry.chunk_number(self.address(command.lba));
                self.writing[number as usize] = false;
                let fails = self.dying.contains(&number) || self.rng.chance(self.faults.reset);
                let chunk = self.chunk(command.lba);
                match chunk.state {
                    ChunkState::Offline => status = Status::ChunkOffline,
                    ChunkState::Free => status = Status::ChunkInvalidReset,
                    _ if fails || chunk.failed => {
                        chunk.state = ChunkState::Offline;
                        status = Status::ChunkInvalidReset;
                    }
                    _ => *chunk = Chunk::default(),
                }
                if status == Status::ChunkInvalidReset && self.chunk(command.lba).state == ChunkState::Offline
                {
                    status = Status::ChunkOffline;
                }
            }
            Opcode::Report => {
                let first = self.geometry.chunk_number(self.address(command.lba));
                command.data.clear();
                for number in first..first + command.sectors {
                    let chunk = &self.chunks[number as usize];
                    let info = ChunkInfo {
                        state: chunk.state,
                        wear_index: 0,
                        start: self.geometry.lba(self.geometry.chunk_at(number)),
                        sectors: self.geometry.chunk_sectors,
                        write_pointer: chunk.sectors.len() as u32,
                    };
                    info.encode(&mut command.data);
                }
            }
            Opcode::Read => {
                let fails = self.rng.chance(self.faults.read);
                let image = self.image_bytes;
                for (i, lba) in Self::addresses(&command).into_iter().enumerate() {
                    let at = self.address(lba).sector as usize;
                    let number = self.geometry.chunk_number(self.address(lba));
                    let chunk = &self.chunks[number as usize];
                    let sector = chunk.sectors.get(at);
                    let held = if chunk.state == ChunkState::Open { self.geometry.cached_sectors } else { 0 };
                    let hidden = held > 0 && at + held as usize >= chunk.sectors.len();
                    assert!(!hidden, "sector {} is held back", lba.0);
                    let sector = sector.unwrap_or_else(|| panic!("sector {} was never written", lba.0));
                    match sector {
                        Sector::Good(data, oob) if !fails => {
                            if !command.data.is_empty() {
                                command.data[i * image..][..image].copy_from_slice(data);
                            }
                            copy_oob(&mut command, i, oob);
                        }
                        Sector::Spoilt(oob) if !fails => {
                            copy_oob(&mut command, i, oob);
                            (status, result) = (Status::UnrecoveredRead, result | 1u64 << i);
                        }
                        _ => (status, result) = (Status::UnrecoveredRead, result | 1u64 << i),
                    }
                }
            }
            other => panic!("a host FTL has no use for {other:?}"),
        }
        let mut stages = StageTimes::default();
        stages.add(Stage::Media, self.now - submitted);
        self.done.push_back(Completion {
            tag: command.tag,
            opcode: command.opcode,
            status,
            submitted,
            completed: self.now,
            stages,
            data: command.data,
            result,
            unmapped: 0,
            vector: command.vector,
        });
    }

    fn check_rules(&mut self, command: &Command) {
        let (lba, sectors) = (command.lba, command.sectors);
        match command.opcode {
            Opcode::Write => {
                let at = self.address(lba).sector;
                let number = self.geometry.chunk_number(self.address(lba));
                let writing = std::mem::replace(&mut self.writing[number as usize], true);
                assert!(!writing, "two writes at once in chunk {number}");
                assert!(
                    sectors.is_multiple_of(self.geometry.write_min_sectors),
                    "write of {sectors} sectors"
                );
                let chunk = self.chunk(lba);
                assert!(
                    matches!(chunk.state, ChunkState::Free | ChunkState::Open),
                    "write to {:?}",
                    chunk.state
                );
                assert_eq!(at as usize, chunk.sectors.len(), "write off the write pointer");
                assert_eq!(command.data.len(), sectors as usize * self.image_bytes);
            }
            Opcode::Chunk(ChunkOp::Reset) => {
                let number = self.geometry.chunk_number(self.address(lba));
                let writing = std::mem::replace(&mut self.writing[number as usize], true);
                assert!(!writing, "a reset beside a write in chunk {number}");
                self.resets.push(number);
                for other in self.pending.values().filter(|p| p.command.opcode == Opcode::Read) {
                    for lba in Self::addresses(&other.command) {
                        let read = self.geometry.chunk_number(self.address(lba));
                        assert_ne!(read, number, "reset of a chunk that is being read");
                    }
                }
            }
            _ => {}
        }
    }
}

/// Copies the out-of-band data of sector `i` into a read that wants them.
fn copy_oob(command: &mut Command, i: usize, oob: &[u8]) {
    if let Some(vector) = &mut command.vector
        && !vector.metadata.is_empty()
    {
        vector.metadata[i * oob.len()..][..oob.len()].copy_from_slice(oob);
    }
}

impl Drive for Reference {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        (namespace == 0).then_some(Interface::OpenChannel(self.geometry))
    }

    fn image_bytes(&self) -> usize {
        self.image_bytes
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.advance(now);
        self.check_rules(&command);
        let (ns, kind) = match command.opcode {
            Opcode::Read => (self.geometry.read_ns[0], 0),
            Opcode::Write => (self.geometry.write_ns[0], 1),
            Opcode::Chunk(ChunkOp::Reset) => (self.geometry.reset_ns[0], 2),
            _ => (Nanos(5), 0),
        };
        self.commands[kind] += 1;
        let unit = self.unit(Self::addresses(&command)[0]);
        // Random durations make commands of different units overtake each other.
        let done = self.busy[unit].max(now) + Nanos(ns.0 + self.rng.below(ns.0));
        self.busy[unit] = done;
        self.serial += 1;
        self.pending.insert((done, self.serial), Pending { command, submitted: now });
    }

    fn advance(&mut self, now: SimTime) {
        while let Some((&(at, serial), _)) = self.pending.first_key_value().filter(|((at, _), _)| *at <= now)
        {
            let Some(pending) = self.pending.remove(&(at, serial)) else { break };
            self.now = at;
            self.carry_out(pending);
        }
        self.now = now;
    }

    fn next_event(&self) -> Option<SimTime> {
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
