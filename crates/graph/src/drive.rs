//! Segments on a drive in virtual time: the engine on flash.
//!
//! ```text
//!   two areas of a block namespace:  shards (written once) │ results (written anew for each iteration)
//!   a segment: extents of one area, in order; an extent is as large as what the flash erases at a time
//!   append ─► a write of `io_bytes` when that many are there     will_read ─► reads ahead     read ─► waits for them
//! ```
//! Processor and drive work in parallel: computing takes simulated time ([`Store::spend`]) while commands proceed. The engine waits for a write if
//! too many commands are in flight, and in [`Store::replace`].
//!
//! Invariants: a piece is read only after it was sealed and its write has ended, because a drive does not order commands in flight; extents of a
//! removed segment are free once nothing reads them.

use super::store::{Segment, Store, StoreError, Work, absent, short};
use pellucid_flash::{Command, Completion, Drive, Interface, Lba, Nanos, Opcode, SimTime, Status, Tag};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Costs on the host's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Submitting a command.
    pub command: Nanos,
    /// Handling its completion.
    pub completion: Nanos,
    /// Copying 1,024 bytes between program and drive.
    pub kib: Nanos,
    /// Sorting 1,000 edges into their windows.
    pub sort: Nanos,
    /// Following 1,000 edges.
    pub follow: Nanos,
    /// Giving 1,000 vertices a value.
    pub apply: Nanos,
}

/// Layout of segments on a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveStoreConfig {
    /// The block namespace.
    pub namespace: u16,
    /// Bytes of the area for shards; results get the rest.
    pub shard_bytes: u64,
    /// Bytes of an extent.
    pub extent_bytes: u64,
    /// Bytes of a command.
    pub io_bytes: u64,
    /// Maximum number of commands in flight.
    pub depth: usize,
    /// Maximum number of pieces in memory, read or being read; exceeded only by reads in flight.
    pub pieces: usize,
    /// True if the drive is told about removed data.
    pub trims: bool,
    /// Costs on the host's processor.
    pub costs: Costs,
}

/// Traffic of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Busy time of the processor.
    pub busy: Nanos,
}

#[derive(Clone, Debug)]
struct Area {
    first: Lba,
    free: VecDeque<u32>,
}

#[derive(Clone, Debug, Default)]
struct Held {
    extents: Vec<u32>,
    /// Bytes submitted to the drive.
    sent: u64,
    tail: Vec<u8>,
}

/// A piece of a segment, being read or in memory.
#[derive(Clone, Debug)]
struct Piece {
    segment: Segment,
    at: u64,
    tag: Tag,
    data: Option<Result<Vec<u8>, Status>>,
}

/// Segments on a drive, which must keep data.
#[derive(Clone, Debug)]
pub struct DriveStore<D> {
    /// The drive. No other caller submits to it.
    pub drive: D,
    config: DriveStoreConfig,
    sector_bytes: u64,
    now: SimTime,
    areas: [Area; 2],
    segments: BTreeMap<Segment, Held>,
    pieces: VecDeque<Piece>,
    tags: Tag,
    /// Writes in flight: segment, and offset in it.
    writes: BTreeMap<Tag, (Segment, u64)>,
    under_way: usize,
    failed: Option<Status>,
    moved: Moved,
}

impl<D: Drive> DriveStore<D> {
    /// An empty store on a drive whose time is `now`; existing data are ignored. The error is a sentence.
    pub fn new(drive: D, config: DriveStoreConfig, now: SimTime) -> Result<DriveStore<D>, String> {
        let Some(Interface::Block { sectors, .. }) = drive.interface(config.namespace) else {
            return Err(format!("namespace {} is no block namespace", config.namespace));
        };
        let sector_bytes = drive.image_bytes() as u64;
        let extent = config.extent_bytes;
        if extent == 0
            || !extent.is_multiple_of(config.io_bytes)
            || !config.io_bytes.is_multiple_of(sector_bytes)
        {
            return Err(format!(
                "extents of {extent} bytes and commands of {}; allowed: whole commands of whole sectors ({sector_bytes} bytes)",
                config.io_bytes
            ));
        }
        let extents = |bytes: u64| (0..(bytes / extent) as u32).collect::<VecDeque<u32>>();
        let all = sectors * sector_bytes;
        let Some(results) = all.checked_sub(config.shard_bytes) else {
            return Err(format!("{} bytes of shards on a drive of {all}", config.shard_bytes));
        };
        let areas = [
            Area { first: Lba(0), free: extents(config.shard_bytes) },
            Area { first: Lba(config.shard_bytes / sector_bytes), free: extents(results) },
        ];
        Ok(DriveStore {
            drive,
            config,
            sector_bytes,
            now,
            areas,
            segments: BTreeMap::new(),
            pieces: VecDeque::new(),
            tags: 0,
            writes: BTreeMap::new(),
            under_way: 0,
            failed: None,
            moved: Moved::default(),
        })
    }

    /// Simulated time.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Returns the traffic so far.
    pub fn moved(&self) -> Moved {
        self.moved
    }

    /// Keeps the processor busy for `time`.
    pub fn busy(&mut self, time: Nanos) {
        self.moved.busy += time;
        self.now += time;
    }

    fn moving(&self, bytes: u64) -> Nanos {
        Nanos(self.config.costs.kib.0 * bytes.div_ceil(1024))
    }

    /// Waits for all commands in flight.
    fn rest(&mut self) {
        while self.under_way > 0 {
            self.wait();
        }
    }

    fn area(&mut self, segment: Segment) -> &mut Area {
        &mut self.areas[usize::from(!segment.is_shard())]
    }

    fn lba(&self, segment: Segment, at: u64) -> Lba {
        let held = &self.segments[&segment];
        let extent = held.extents[(at / self.config.extent_bytes) as usize];
        let area = &self.areas[usize::from(!segment.is_shard())];
        let bytes = u64::from(extent) * self.config.extent_bytes + at % self.config.extent_bytes;
        Lba(area.first.0 + bytes / self.sector_bytes)
    }

    fn submit(&mut self, opcode: Opcode, lba: Lba, sectors: u32, data: Vec<u8>) -> Tag {
        while self.under_way >= self.config.depth {
            self.wait();
        }
        self.busy(self.config.costs.command);
        self.tags += 1;
        let mut command = Command::new(self.tags, opcode, lba, sectors, data);
        command.namespace = self.config.namespace;
        self.drive.advance(self.now);
        self.drive.submit(self.now, command);
        self.under_way += 1;
        self.tags
    }

    /// Handles completions; waits for one if there is none.
    fn wait(&mut self) {
        self.drive.advance(self.now);
        loop {
            if let Some(completion) = self.drive.pop() {
                return self.complete(completion);
            }
            let next = self.drive.next_event().expect("a command under way ends");
            self.now = self.now.max(next);
            self.drive.advance(self.now);
        }
    }

    fn complete(&mut self, completion: Completion) {
        self.under_way -= 1;
        self.writes.remove(&completion.tag);
        let bytes = completion.data.len() as u64;
        self.busy(self.config.costs.completion + self.moving(bytes));
        match self.pieces.iter_mut().find(|piece| piece.tag == completion.tag) {
            Some(piece) => {
                self.moved.read_bytes += bytes;
                piece.data = Some(match completion.status {
                    Status::Success => Ok(completion.data),
                    status => Err(status),
                });
            }
            None if completion.status != Status::Success => self.failed = Some(completion.status),
            None => {}
        }
    }

    fn write(&mut self, segment: Segment, mut data: Vec<u8>) -> Result<(), StoreError> {
        let at = self.segments[&segment].sent;
        if at.is_multiple_of(self.config.extent_bytes) {
            let Some(extent) = self.area(segment).free.pop_front() else {
                return Err(StoreError::Full { segment, why: "the area has no extent left".into() });
            };
            self.held(segment)?.extents.push(extent);
        }
        self.held(segment)?.sent += data.len() as u64;
        self.moved.written_bytes += data.len() as u64;
        data.resize(data.len().next_multiple_of(self.sector_bytes as usize), 0);
        let sectors = (data.len() as u64 / self.sector_bytes) as u32;
        let lba = self.lba(segment, at);
        let tag = self.submit(Opcode::Write, lba, sectors, data);
        self.writes.insert(tag, (segment, at));
        match self.failed.take() {
            Some(status) => {
                Err(StoreError::Failed { segment, why: format!("the drive ended a write with {status:?}") })
            }
            None => Ok(()),
        }
    }

    fn held(&mut self, segment: Segment) -> Result<&mut Held, StoreError> {
        self.segments.get_mut(&segment).ok_or_else(|| absent(segment))
    }

    /// The pieces that cover these bytes.
    fn pieces_of(&self, at: u64, bytes: u64) -> impl Iterator<Item = u64> + use<D> {
        let io = self.config.io_bytes;
        (at / io..(at + bytes).div_ceil(io)).map(move |piece| piece * io)
    }

    fn piece(&self, segment: Segment, at: u64) -> Option<usize> {
        self.pieces.iter().position(|piece| piece.segment == segment && piece.at == at)
    }

    /// Starts reading a piece.
    fn fetch(&mut self, segment: Segment, at: u64) {
        let bytes = (self.segments[&segment].sent - at).min(self.config.io_bytes);
        let sectors = bytes.div_ceil(self.sector_bytes) as u32;
        let lba = self.lba(segment, at);
        let data = vec![0; (u64::from(sectors) * self.sector_bytes) as usize];
        // While this waits for a free slot or a completion, the completion of the piece itself may arrive.
        let is_written = |store: &Self| !store.writes.values().any(|&write| write == (segment, at));
        while self.under_way >= self.config.depth || !is_written(self) {
            self.wait();
        }
        self.pieces.push_back(Piece { segment, at, tag: self.tags + 1, data: None });
        self.submit(Opcode::Read, lba, sectors, data);
        // Evicts the least recently used piece first.
        while self.pieces.len() > self.config.pieces && self.pieces[0].data.is_some() {
            self.pieces.pop_front();
        }
    }

    fn forget(&mut self, segment: Segment) {
        while self.pieces.iter().any(|piece| piece.segment == segment && piece.data.is_none()) {
            self.wait();
        }
        self.pieces.retain(|piece| piece.segment != segment);
    }
}

impl<D: Drive> Store for DriveStore<D> {
    fn create(&mut self, segment: Segment) -> Result<(), StoreError> {
        self.remove(segment)?;
        self.segments.insert(segment, Held::default());
        Ok(())
    }

    fn append(&mut self, segment: Segment, data: &[u8]) -> Result<(), StoreError> {
        self.busy(self.moving(data.len() as u64));
        let io = self.config.io_bytes as usize;
        let held = self.held(segment)?;
        held.tail.extend_from_slice(data);
        let mut tail = std::mem::take(&mut held.tail);
        let whole = tail.len() / io * io;
        let rest = tail.split_off(whole);
        self.held(segment)?.tail = rest;
        for part in tail.chunks(io) {
            self.write(segment, part.to_vec())?;
        }
        Ok(())
    }

    fn seal(&mut self, segment: Segment) -> Result<(), StoreError> {
        let tail = std::mem::take(&mut self.held(segment)?.tail);
        if tail.is_empty() { Ok(()) } else { self.write(segment, tail) }
    }

    fn bytes(&self, segment: Segment) -> Option<u64> {
        self.segments.get(&segment).map(|held| held.sent + held.tail.len() as u64)
    }

    fn read(&mut self, segment: Segment, at: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let wanted: Range<u64> = at..at + into.len() as u64;
        let bytes = self.held(segment)?.sent;
        if wanted.end > bytes {
            return Err(short(segment, bytes, wanted.end));
        }
        for piece_at in self.pieces_of(at, into.len() as u64) {
            let piece = match self.piece(segment, piece_at) {
                Some(piece) => piece,
                None => {
                    // Reads are submitted at once, up to the depth.
                    self.will_read(segment, piece_at, wanted.end - piece_at);
                    if self.piece(segment, piece_at).is_none() {
                        self.fetch(segment, piece_at);
                    }
                    self.piece(segment, piece_at).expect("it is fetched")
                }
            };
            let tag = self.pieces[piece].tag;
            while self.pieces.iter().any(|piece| piece.tag == tag && piece.data.is_none()) {
                self.wait();
            }
            let piece =
                self.pieces.iter().find(|piece| piece.tag == tag).expect("it is kept while it is read");
            match piece.data.as_ref().expect("it has come") {
                Ok(data) => {
                    let from = wanted.start.max(piece_at);
                    let to = wanted.end.min(piece_at + self.config.io_bytes);
                    into[(from - at) as usize..(to - at) as usize]
                        .copy_from_slice(&data[(from - piece_at) as usize..(to - piece_at) as usize]);
                }
                Err(status) => {
                    let why = format!("the drive ended a read with {status:?}");
                    return Err(StoreError::Failed { segment, why });
                }
            }
        }
        Ok(())
    }

    fn will_read(&mut self, segment: Segment, at: u64, bytes: u64) {
        let Some(held) = self.segments.get(&segment) else { return };
        let end = (at + bytes).min(held.sent);
        for piece_at in self.pieces_of(at, end.saturating_sub(at)) {
            let pending = self.pieces.iter().filter(|piece| piece.data.is_none()).count();
            if pending >= self.config.depth.min(self.config.pieces) {
                return;
            }
            if self.piece(segment, piece_at).is_none() {
                self.fetch(segment, piece_at);
            }
        }
    }

    fn remove(&mut self, segment: Segment) -> Result<(), StoreError> {
        self.forget(segment);
        let Some(held) = self.segments.remove(&segment) else { return Ok(()) };
        // The next owner of these extents must write after these writes and trims.
        self.rest();
        let sectors = (self.config.extent_bytes / self.sector_bytes) as u32;
        for extent in held.extents {
            if self.config.trims {
                let first = self.area(segment).first.0 + u64::from(extent) * u64::from(sectors);
                self.submit(Opcode::Trim, Lba(first), sectors, Vec::new());
            }
            self.area(segment).free.push_back(extent);
        }
        self.rest();
        Ok(())
    }

    fn replace(&mut self, segment: Segment, data: &[u8]) -> Result<(), StoreError> {
        self.rest();
        let old = self.segments.remove(&segment);
        self.pieces.retain(|piece| piece.segment != segment);
        self.segments.insert(segment, Held::default());
        self.append(segment, data)?;
        self.seal(segment)?;
        self.submit(Opcode::Flush, Lba(0), 0, Vec::new());
        self.rest();
        if let Some(old) = old {
            self.area(segment).free.extend(old.extents);
        }
        match self.failed.take() {
            Some(status) => {
                Err(StoreError::Failed { segment, why: format!("the drive ended it with {status:?}") })
            }
            None => Ok(()),
        }
    }

    fn spend(&mut self, work: Work) {
        let costs = self.config.costs;
        let (count, each) = match work {
            Work::Sort(edges) => (edges, costs.sort),
            Work::Follow(edges) => (edges, costs.follow),
            Work::Apply(vertices) => (vertices, costs.apply),
        };
        self.busy(Nanos(each.0 * count / 1000));
    }
}
