//! The start of the layer: which chunks there are, and what a former life has left on them.
//!
//! ```text
//!  report ─► (starts that the drive holds back are padded) ─► all free: new lines, ready
//!     └────► starts of lines read ─► chunks of no line reset; holes that a crash has left in a line padded
//!                └─► mount: the engine asks; what it misses is read, and it is asked again ─► ready
//! ```
//! The engine's mount pulls what it needs to know. It is run against what is known already; what it asks for and is not known
//! is noted, read from the drive, and the mount run again: first with the range of each line (the head of its end), then with
//! the map segments, then with the logical pages of the lines that were written since. For a line without a valid end they come
//! from the out-of-band data of its sectors.

use super::units::Job;
use super::{HostFtl, HostFtlError, LineId, TAG_NUMBER, TAG_START, meta};
use pellucid_flash::{
    BlockId, ChunkInfo, ChunkState, Command, Completion, Layout, Lba, Lpn, Nanos, Opcode, Ppa, SimTime,
    Status, Vector,
};
use pellucid_ftl::{MountReport, MountSource, PageMap};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What the last start cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountCost {
    /// Reads sent to the drive.
    pub reads: u64,
    /// Sectors of these.
    pub sectors: u64,
    /// Stripes of padding written into lines that a crash had left with holes.
    pub padded_stripes: u64,
    /// Chunks reset because no line has them.
    pub orphans: u64,
    /// Simulated time from the first command until ready.
    pub time: Nanos,
    /// What the engine did.
    pub report: MountReport,
}

/// A sector that cannot be read.
const UNREADABLE: Lpn = Lpn(u32::MAX - 1);

/// What is known of the pages of a line.
#[derive(Clone, Debug, Default)]
enum Known {
    #[default]
    Nothing,
    /// Page and sequence number of the first sector, and of the first sector of the last stripe used.
    Range([(Lpn, u64); 2]),
    /// Sequence number of each stripe (0: unreadable) and page of each sector.
    Pages(Vec<u64>, Vec<Lpn>),
}

/// Something to be read from the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// Not a read: a write of so many stripes of padding, from which on the start of a chunk can be read.
    Reveal(Lba, u32),
    /// The start of the line whose first chunk this is.
    Start(Lba),
    /// Head of a line's end.
    Head(u32),
    /// The whole of it, from this sector on.
    End(u32, u32),
    /// Out-of-band data of the first and the last stripe used of a line without an end.
    Edges(u32),
    /// Out-of-band data of a line, from this unit of the engine on.
    Scan(u32, u32),
    /// Map segments: so many units from the first.
    Segments(u32, u32),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    New,
    Report,
    Reveal,
    Starts,
    Repair,
    Mount,
}

/// The start under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    phase: Phase,
    began: SimTime,
    chunks: BTreeMap<u64, ChunkInfo>,
    /// Lines found: sequence number and chunks.
    starts: BTreeMap<u32, (u64, Vec<Lba>)>,
    /// Used stripes of the engine in each found line.
    used: BTreeMap<u32, u32>,
    /// Lines whose end is complete as far as the write pointers say.
    ended: BTreeSet<u32>,
    /// Lines without an end whose first or last stripe cannot be read, or is not there: all of it is asked for.
    torn: BTreeSet<u32>,
    known: BTreeMap<u32, Known>,
    segments: BTreeMap<u32, Vec<u8>>,
    /// Reads under way or to come, by tag.
    needs: Vec<Need>,
    next: usize,
    /// How often each that failed was tried again.
    attempts: BTreeMap<Need, u32>,
    under_way: u32,
    /// Ends read so far.
    ends: BTreeMap<u32, Vec<u8>>,
    orphans: Vec<Lba>,
}

/// Reads of the start that the drive has at a time.
const READS_AT_ONCE: u32 = 256;

impl Start {
    pub fn is_new(&self) -> bool {
        self.phase == Phase::New
    }
}

/// What the engine's mount is told.
struct Source<'a> {
    layout: &'a Layout,
    start: &'a Start,
    bad: &'a BTreeSet<u32>,
    missing: RefCell<BTreeSet<Need>>,
}

impl Source<'_> {
    fn miss(&self, need: Need) {
        self.missing.borrow_mut().insert(need);
    }

    /// What to read to know the pages of a line.
    fn pages(&self, line: u32) -> Need {
        if self.start.ended.contains(&line) { Need::End(line, 0) } else { Need::Scan(line, 0) }
    }
}

impl MountSource for Source<'_> {
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)> {
        let block = self.layout.block_of(ppa);
        let line = block.0;
        let (index, stripe) = (self.layout.index_in_block(ppa), self.layout.stripe_of(ppa));
        match self.start.known.get(&line).unwrap_or(&Known::Nothing) {
            Known::Pages(sequences, pages) => {
                let page = pages[index as usize];
                (page != UNREADABLE && sequences[stripe as usize] > 0)
                    .then_some((page, sequences[stripe as usize]))
            }
            Known::Range([first, _]) if index == 0 => Some(*first),
            Known::Range([_, last])
                if index + self.layout.units_per_stripe
                    == self.used_stripes(block) * self.layout.units_per_stripe =>
            {
                Some(*last)
            }
            // A head does not say whose the last stripe is; with a third sector to ask for, the replay finds out.
            Known::Nothing if self.start.ended.contains(&line) && self.layout.units_per_block > 2 => {
                self.miss(Need::Head(line));
                None
            }
            Known::Nothing if !self.start.ended.contains(&line) && !self.start.torn.contains(&line) => {
                self.miss(Need::Edges(line));
                None
            }
            _ => {
                self.miss(self.pages(line));
                None
            }
        }
    }

    fn used_stripes(&self, block: BlockId) -> u32 {
        self.start.used.get(&block.0).copied().unwrap_or(0)
    }

    fn erases(&self, _: BlockId) -> u32 {
        0
    }

    fn is_bad(&self, block: BlockId) -> bool {
        self.bad.contains(&block.0)
    }

    fn segment(&self, ppa: Ppa) -> Option<Vec<u8>> {
        let found = self.start.segments.get(&ppa.0);
        if found.is_none() {
            self.miss(Need::Segments(ppa.0, 1));
        }
        found.filter(|bytes| !bytes.is_empty()).cloned()
    }
}

impl HostFtl {
    /// Goes on with the start.
    pub(super) fn continue_start(&mut self) {
        let Some(mut start) = self.starting.take() else { return };
        if start.phase == Phase::New {
            start.phase = Phase::Report;
            start.began = self.now;
            start.under_way = 1;
            let count = self.lines.units * self.lines.geometry.chunks;
            let first = self.lines.first_chunk();
            self.starting = Some(start);
            return self.send(Command::new(TAG_START, Opcode::Report, first, count, Vec::new()));
        }
        self.send_needs(&mut start);
        let done = start.under_way == 0 && self.failure.is_none();
        if !done {
            self.starting = Some(start);
            return;
        }
        self.moved = true;
        match start.phase {
            Phase::New | Phase::Report => self.reveal_starts(&mut start),
            Phase::Reveal => self.begin_starts(&mut start),
            Phase::Starts => self.begin_repair(&mut start),
            Phase::Repair | Phase::Mount => {
                if self.try_mount(&mut start) {
                    return self.ready(&start);
                }
            }
        }
        self.starting = Some(start);
    }

    /// A command of the start has ended.
    pub(super) fn start_ended(&mut self, completion: Completion) {
        let Some(mut start) = self.starting.take() else { return };
        start.under_way -= 1;
        if completion.opcode == Opcode::Report {
            self.reported(&mut start, &completion);
        } else if completion.opcode == Opcode::Reset {
            let lba = start.orphans[(completion.tag & TAG_NUMBER) as usize];
            if completion.status == Status::Success
                && let Some(info) = start.chunks.get_mut(&lba.0)
            {
                *info = ChunkInfo { state: ChunkState::Free, write_pointer: 0, ..*info };
            }
        } else {
            let need = start.needs[(completion.tag & TAG_NUMBER) as usize];
            let failed = !matches!(completion.status, Status::Success | Status::HighEcc);
            let attempts = start.attempts.entry(need).or_default();
            if failed && completion.opcode == Opcode::Read && *attempts < self.config.read_retries {
                // What cannot be learnt is lost, so it is tried as often as what applications read.
                *attempts += 1;
                start.under_way += 1;
                let command = self.need_command(&start, need);
                self.starting = Some(start);
                return self.send(Command { tag: completion.tag, ..command });
            }
            self.learn(&mut start, need, completion);
        }
        self.starting = Some(start);
    }

    fn reported(&mut self, start: &mut Start, completion: &Completion) {
        let infos = completion.data.chunks_exact(ChunkInfo::BYTES);
        let infos: Option<Vec<ChunkInfo>> =
            infos.map(|bytes| ChunkInfo::decode(bytes.try_into().expect("exact chunks"))).collect();
        let wanted = (self.lines.units * self.lines.geometry.chunks) as usize;
        match infos.filter(|infos| completion.status == Status::Success && infos.len() == wanted) {
            Some(infos) => start.chunks = infos.into_iter().map(|info| (info.start.0, info)).collect(),
            None => {
                let sentence = format!("the drive did not report its chunks: {:?}", completion.status);
                self.failure = Some(HostFtlError::Drive(sentence));
            }
        }
    }

    /// Where the drive holds sectors back, the start of a line that was only just begun cannot be read yet.
    fn reveal_starts(&mut self, start: &mut Start) {
        start.phase = Phase::Reveal;
        let in_use = |info: &ChunkInfo| matches!(info.state, ChunkState::Open | ChunkState::Closed);
        if start.chunks.values().any(in_use) && !self.keeps_content() {
            let sentence = "the drive keeps stamps instead of data (store = \"none\"), so that the host's records on it are \
                            lost; a host FTL can be mounted again with store = \"ram\" or \"file\"";
            self.failure = Some(HostFtlError::Drive(sentence.into()));
            return;
        }
        let (held, stripe) = (self.lines.held_rows, self.lines.stripe_sectors);
        let hidden = start.chunks.values().filter(|info| {
            info.state == ChunkState::Open
                && info.write_pointer.is_multiple_of(stripe)
                && info.write_pointer / stripe <= held
                && self.lines.unit_of(info.start).is_some_and(|(unit, _)| unit == 0)
        });
        start.needs = hidden
            .map(|info| {
                Need::Reveal(info.start, held.min(self.lines.rows - 1) + 1 - info.write_pointer / stripe)
            })
            .collect();
        start.next = 0;
        self.send_needs(start);
    }

    fn begin_starts(&mut self, start: &mut Start) {
        start.phase = Phase::Starts;
        let in_use = |info: &ChunkInfo| matches!(info.state, ChunkState::Open | ChunkState::Closed);
        let first = start
            .chunks
            .values()
            .filter(|info| in_use(info) && self.lines.unit_of(info.start).is_some_and(|(unit, _)| unit == 0));
        start.needs = first.map(|info| Need::Start(info.start)).collect();
        start.next = 0;
        self.send_needs(start);
    }

    /// Sends reads, as many as may be under way.
    fn send_needs(&mut self, start: &mut Start) {
        while start.next < start.needs.len() && start.under_way < READS_AT_ONCE {
            let at = start.next;
            start.next += 1;
            start.under_way += 1;
            let command = self.need_command(start, start.needs[at]);
            if command.opcode == Opcode::Read {
                self.mount.reads += 1;
                self.mount.sectors += u64::from(command.sectors);
            }
            self.send(Command { tag: TAG_START | at as u64, ..command });
        }
    }

    fn need_command(&self, start: &Start, need: Need) -> Command {
        let sector_bytes = u64::from(self.sector_bytes());
        let read = |lba: Lba, sectors: u32| {
            let data = vec![0; sectors as usize * self.image_bytes];
            Command::new(0, Opcode::Read, lba, sectors, data)
        };
        match need {
            Need::Reveal(lba, rows) => {
                let (sectors, at) = (rows * self.lines.stripe_sectors, start.chunks[&lba.0].write_pointer);
                let data = vec![0; sectors as usize * self.image_bytes];
                // Nobody's sectors: they carry no signature.
                let metadata = vec![0; sectors as usize * meta::OOB_BYTES];
                let vector = Some(Box::new(Vector { metadata, ..Vector::default() }));
                let lba = Lba(lba.0 + u64::from(at));
                Command { vector, ..Command::new(0, Opcode::Write, lba, sectors, data) }
            }
            Need::Start(lba) => read(lba, meta::start_bytes(self.lines.units).div_ceil(sector_bytes) as u32),
            Need::Head(line) => read(self.end_sector(line, 0), 1),
            Need::End(line, from) => read(self.end_sector(line, from), self.piece(from)),
            Need::Segments(first, count) => {
                let data = vec![0; count as usize * self.image_bytes];
                self.vector_read(first..first + count, data, false)
            }
            Need::Edges(line) => {
                let layout = self.lines.layout();
                let last = (start.used[&line] - 1) * layout.units_per_stripe;
                let edges = [0, last].map(|at| layout.ppa(BlockId(line), at).0);
                self.vector_read(edges, Vec::new(), true)
            }
            Need::Scan(line, from) => {
                let first = self.lines.layout().ppa(BlockId(line), from).0;
                self.vector_read(first..first + self.piece(from), Vec::new(), true)
            }
        }
    }

    /// A read of single units of the engine, with or without their out-of-band data.
    fn vector_read(&self, units: impl IntoIterator<Item = u32>, data: Vec<u8>, metadata: bool) -> Command {
        let addresses: Vec<Lba> = units.into_iter().map(|ppa| self.lines.address(Ppa(ppa))).collect();
        let count = addresses.len();
        let metadata = if metadata { vec![0; count * meta::OOB_BYTES] } else { Vec::new() };
        let vector = Some(Box::new(Vector { addresses, metadata, ..Vector::default() }));
        Command { vector, ..Command::new(0, Opcode::Read, Lba(0), count as u32, data) }
    }

    /// Where sector `from` of a line's end lies.
    fn end_sector(&self, line: u32, from: u32) -> Lba {
        let stripe = self.lines.stripes() - self.lines.tail + from / self.lines.stripe_sectors;
        let (_, lba) = self.lines.place(BlockId(line), stripe);
        Lba(lba.0 + u64::from(from % self.lines.stripe_sectors))
    }

    /// Sectors of a line that are read together from sector `from` of its data, or its end, on: those of a stripe.
    fn piece(&self, from: u32) -> u32 {
        (self.lines.stripe_sectors - from % self.lines.stripe_sectors).min(Vector::ADDRESSES_MAX as u32)
    }

    fn learn(&mut self, start: &mut Start, need: Need, completion: Completion) {
        let layout = self.lines.layout();
        let (stripes, sectors) = (layout.stripes_per_block, layout.units_per_block);
        let ok = matches!(completion.status, Status::Success | Status::HighEcc);
        let uuid = self.config.uuid;
        let data = if ok { &completion.data[..] } else { &[] };
        match need {
            Need::Reveal(lba, rows) => {
                self.mount.padded_stripes += u64::from(rows);
                if let Some(info) = start.chunks.get_mut(&lba.0) {
                    info.write_pointer += rows * self.lines.stripe_sectors;
                    // Where it failed the chunk is closed and can be read, or the write pointer is behind it all the same.
                    if !(ok || completion.status == Status::ChunkWriteFailed)
                        || info.write_pointer == info.sectors
                    {
                        info.state = ChunkState::Closed;
                    }
                }
            }
            Need::Start(lba) => {
                let found = meta::parse_start(data, uuid, self.lines.units);
                let Some((header, chunks)) = found.filter(|(h, c)| h.line.0 < layout.blocks && c[0] == lba)
                else {
                    return;
                };
                // A chunk that failed may still hold the start of a line that has another one since.
                let slot = start.starts.entry(header.line.0).or_insert((0, Vec::new()));
                if header.first >= slot.0 {
                    *slot = (header.first, chunks);
                }
            }
            Need::Head(line) => match meta::parse_end_header(data, uuid, BlockId(line), stripes, sectors) {
                Some(h) => {
                    start.known.insert(line, Known::Range([(h.first_page, h.first), (Lpn::NONE, h.last)]));
                }
                None => {
                    start.ended.remove(&line);
                }
            },
            Need::End(line, _) => {
                let bytes = start.ends.entry(line).or_default();
                bytes.extend_from_slice(data);
                let whole = self.lines.tail * self.lines.stripe_sectors * self.sector_bytes();
                if !ok {
                    start.ended.remove(&line);
                } else if bytes.len() == whole as usize {
                    match meta::parse_end(bytes, uuid, BlockId(line), stripes, sectors) {
                        Some(end) => {
                            start.known.insert(line, Known::Pages(end.sequences, end.pages));
                        }
                        None => {
                            start.ended.remove(&line);
                        }
                    }
                    start.ends.remove(&line);
                }
            }
            Need::Segments(first, count) => {
                let image = self.image_bytes;
                for i in 0..count {
                    let good = ok || (completion.result != 0 && completion.result >> i & 1 == 0);
                    let place = i as usize * image..(i as usize + 1) * image;
                    let bytes = completion.data.get(place).filter(|_| good).unwrap_or_default();
                    start.segments.insert(first + i, bytes.to_vec());
                }
            }
            Need::Edges(line) => {
                let oob = completion.vector.as_ref().map_or(&[][..], |vector| &vector.metadata);
                let edge = |at: usize| {
                    let bytes = oob.get(at..at + meta::OOB_BYTES).filter(|_| ok)?;
                    // Padding has no number.
                    meta::parse_oob(bytes, uuid, BlockId(line)).filter(|&(_, sequence)| sequence > 0)
                };
                match (edge(0), edge(meta::OOB_BYTES)) {
                    (Some(first), Some(last)) => {
                        start.known.insert(line, Known::Range([first, last]));
                    }
                    _ => {
                        start.torn.insert(line);
                    }
                }
            }
            Need::Scan(line, from) => {
                let count = self.piece(from);
                let known = start.known.entry(line).or_default();
                if !matches!(known, Known::Pages(..)) {
                    *known = Known::Pages(vec![0; stripes as usize], vec![UNREADABLE; sectors as usize]);
                }
                let (Known::Pages(sequences, pages), Some(vector)) = (known, &completion.vector) else {
                    return;
                };
                for i in 0..count {
                    let good = ok || (completion.result != 0 && completion.result >> i & 1 == 0);
                    let at = i as usize * meta::OOB_BYTES;
                    let oob = vector.metadata.get(at..at + meta::OOB_BYTES).unwrap_or_default();
                    if let Some((page, sequence)) = meta::parse_oob(oob, uuid, BlockId(line)).filter(|_| good)
                    {
                        pages[(from + i) as usize] = page;
                        sequences[((from + i) / self.lines.stripe_sectors) as usize] = sequence;
                    }
                }
            }
        }
    }

    /// Lines that are known now get their chunks; what belongs to none is reset, and holes are padded.
    fn begin_repair(&mut self, start: &mut Start) {
        start.phase = Phase::Repair;
        let mut claims: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        for (&line, (sequence, chunks)) in &start.starts {
            for chunk in chunks {
                let claim = claims.entry(chunk.0).or_insert((*sequence, line));
                *claim = (*claim).max((*sequence, line));
            }
        }
        // The start of a line that is long gone, on a chunk that failed: its other chunks have other owners.
        start.starts.retain(|line, (_, chunks)| {
            chunks.iter().all(|c| claims[&c.0].1 == *line && start.chunks.contains_key(&c.0))
        });
        let owned: BTreeSet<u64> =
            start.starts.values().flat_map(|(_, chunks)| chunks.iter().map(|c| c.0)).collect();
        start.orphans = start
            .chunks
            .values()
            .filter(|info| matches!(info.state, ChunkState::Open | ChunkState::Closed))
            .filter(|info| !owned.contains(&info.start.0))
            .map(|info| info.start)
            .collect();
        for (at, &lba) in start.orphans.iter().enumerate() {
            start.under_way += 1;
            self.mount.orphans += 1;
            self.send(Command::new(TAG_START | at as u64, Opcode::Reset, lba, 0, Vec::new()));
        }
        let found: Vec<u32> = start.starts.keys().copied().collect();
        for line in found {
            let (sequence, chunks) = start.starts[&line].clone();
            for (unit, chunk) in (0..).zip(&chunks) {
                self.lines.set_chunk(BlockId(line), unit, Some(*chunk));
            }
            let record = &mut self.lines[BlockId(line)];
            (record.begun, record.opened, record.sequence) = (true, true, sequence);
            self.measure(start, BlockId(line), &chunks);
        }
    }

    /// How far a line was written, from the write pointers of its chunks; stripes that a crash has left out are padded.
    fn measure(&mut self, start: &mut Start, line: LineId, chunks: &[Lba]) {
        let (units, stripe) = (self.lines.units, self.lines.stripe_sectors);
        let data = self.lines.layout().stripes_per_block;
        let infos: Vec<ChunkInfo> = chunks.iter().map(|c| start.chunks[&c.0]).collect();
        let reach = |(unit, info): (u32, &ChunkInfo)| match info.write_pointer.div_ceil(stripe) {
            0 => 0,
            rows => (rows - 1) * units + unit + 1,
        };
        let reached = (0..).zip(&infos).map(reach).max().unwrap_or(0);
        if reached == self.lines.stripes() {
            start.ended.insert(line.0);
        }
        let rows_below = |unit: u32| (reached + units - 1 - unit) / units;
        let holes =
            (0..).zip(&infos).filter(|(unit, info)| info.write_pointer.div_ceil(stripe) < rows_below(*unit));
        let holes: Vec<(u32, ChunkInfo)> = holes.map(|(unit, info)| (unit, *info)).collect();
        // A chunk that cannot be written on, for whatever reason, ends the line.
        if self.lines.held_rows > 0 {
            // A closed chunk gives all that it holds.
            let rows = infos.iter().map(|info| match info.state {
                ChunkState::Free | ChunkState::Open => info.write_pointer / stripe,
                _ => self.lines.rows,
            });
            self.lines[line].rows = rows.collect();
        }
        let stuck = |info: &ChunkInfo| {
            let short = info.write_pointer < self.lines.geometry.chunk_sectors;
            !info.write_pointer.is_multiple_of(stripe)
                || (short && !matches!(info.state, ChunkState::Free | ChunkState::Open))
                || info.state == ChunkState::Offline
        };
        if reached > data || infos.iter().any(stuck) {
            start.used.insert(line.0, data);
            start.torn.insert(line.0);
            let open = (0..).zip(&infos).filter(|(_, info)| {
                info.state == ChunkState::Open && info.write_pointer.is_multiple_of(stripe)
            });
            for (unit, info) in open {
                let row = info.write_pointer / stripe;
                self.pad(start, line, unit, row..row + self.lines.held_rows);
            }
            return;
        }
        for (unit, info) in holes {
            self.pad(start, line, unit, info.write_pointer / stripe..rows_below(unit));
        }
        let held = self.lines.held_rows;
        let padded = if reached > 0 { (reached + held * units).min(self.lines.stripes()) } else { 0 };
        if padded > reached {
            start.torn.insert(line.0);
            (0..units)
                .for_each(|unit| self.pad(start, line, unit, rows_below(unit)..rows_below(unit) + held));
        }
        start.used.insert(line.0, padded.saturating_sub(1).min(data));
    }

    /// Writes padding to some stripes of a line's chunk, as far as it goes.
    fn pad(&mut self, start: &mut Start, line: LineId, unit: u32, rows: Range<u32>) {
        for row in rows.start..rows.end.min(self.lines.rows) {
            start.under_way += 1;
            self.mount.padded_stripes += 1;
            self.enqueue(unit, Job::Pad(line, row * self.lines.units + unit));
        }
    }

    /// A stripe of padding has been written, or not.
    pub(super) fn pad_ended(&mut self) {
        if let Some(start) = &mut self.starting {
            start.under_way -= 1;
        }
    }

    /// Runs the engine's mount against what is known; `true`: it missed nothing.
    fn try_mount(&mut self, start: &mut Start) -> bool {
        if start.phase == Phase::Repair {
            start.phase = Phase::Mount;
            self.assign_chunks(start);
        }
        let layout = self.lines.layout().clone();
        let bad: BTreeSet<u32> = (0..layout.blocks).filter(|&b| !self.lines.is_whole(BlockId(b))).collect();
        let result = if start.starts.is_empty() {
            let bad: Vec<BlockId> = bad.iter().map(|&b| BlockId(b)).collect();
            PageMap::new(&self.engine, &layout, &bad).map(|map| (map, MountReport::default()))
        } else {
            let source = Source { layout: &layout, start, bad: &bad, missing: RefCell::default() };
            // Kept also where the contract is volatile: the host has not forgotten on purpose.
            let result = PageMap::restore(&self.engine, &layout, &source);
            let missing = source.missing.into_inner();
            if !missing.is_empty() {
                self.read_missing(start, missing);
                return false;
            }
            result
        };
        match result {
            Ok((map, report)) => {
                self.ftl = map;
                self.mount.report = report;
                true
            }
            Err(error) => {
                self.failure = Some(HostFtlError::Room(error));
                false
            }
        }
    }

    /// Whole ends and scans are read in pieces.
    fn read_missing(&mut self, start: &mut Start, missing: BTreeSet<Need>) {
        start.needs.clear();
        start.next = 0;
        for need in missing {
            match need {
                Need::End(line, _) => {
                    let sectors = self.lines.tail * self.lines.stripe_sectors;
                    let mut from = 0;
                    while from < sectors {
                        start.needs.push(Need::End(line, from));
                        from += self.piece(from);
                    }
                }
                Need::Scan(line, _) => self.scan(start, line),
                // Neighbours in a stripe are read together.
                Need::Segments(unit, _) => match start.needs.last_mut() {
                    Some(Need::Segments(first, count))
                        if *first + *count == unit
                            && *count < Vector::ADDRESSES_MAX as u32
                            && *first / self.lines.stripe_sectors == unit / self.lines.stripe_sectors =>
                    {
                        *count += 1;
                    }
                    _ => start.needs.push(Need::Segments(unit, 1)),
                },
                other => start.needs.push(other),
            }
        }
        self.send_needs(start);
    }

    /// Every sector of a line that its chunks' write pointers cover.
    fn scan(&self, start: &mut Start, line: u32) {
        let layout = self.lines.layout();
        let pages = vec![UNREADABLE; layout.units_per_block as usize];
        start.known.insert(line, Known::Pages(vec![0; layout.stripes_per_block as usize], pages));
        let mut from = 0;
        while from < layout.units_per_block {
            let piece = self.piece(from);
            let (unit, lba) = self.lines.place(BlockId(line), from / self.lines.stripe_sectors + 1);
            let written = self.lines.chunk_of(BlockId(line), unit).is_some_and(|chunk| {
                let end = lba.0 - chunk.0 + u64::from(from % self.lines.stripe_sectors + piece);
                start.chunks[&chunk.0].write_pointer as u64 >= end
            });
            if written {
                start.needs.push(Need::Scan(line, from));
            }
            from += piece;
        }
    }

    /// Free chunks make up the lines that are not in use; what is left over is spare.
    fn assign_chunks(&mut self, start: &Start) {
        let mut free: Vec<Vec<Lba>> = vec![Vec::new(); self.lines.units as usize];
        let owned: BTreeSet<u64> =
            start.starts.values().flat_map(|(_, chunks)| chunks.iter().map(|c| c.0)).collect();
        for info in start.chunks.values().rev().filter(|info| info.state == ChunkState::Free) {
            if let Some((unit, _)) = self.lines.unit_of(info.start).filter(|_| !owned.contains(&info.start.0))
            {
                free[unit as usize].push(info.start);
            }
        }
        for line in (0..self.lines.layout().blocks).filter(|line| !start.starts.contains_key(line)) {
            if free.iter().any(Vec::is_empty) {
                break;
            }
            for (unit, chunks) in (0..).zip(&mut free) {
                self.lines.set_chunk(BlockId(line), unit, chunks.pop());
            }
        }
        for (unit, chunks) in (0..).zip(free) {
            chunks.into_iter().for_each(|chunk| self.lines.add_spare(unit, chunk));
        }
    }

    fn ready(&mut self, start: &Start) {
        self.mount.time = self.now - start.began;
        self.read_only = self.ftl.worn_out();
        self.starting = None;
        self.moved = true;
        self.finish_closed(start);
        while let Some(request) = self.early.pop_front() {
            self.arrived(request);
        }
    }

    /// Of the lines that a former life has left partly written one of a kind goes on; the others do not.
    fn finish_closed(&mut self, start: &Start) {
        for line in start.starts.keys().map(|&line| BlockId(line)) {
            if self.ftl.takes_data(line) {
                continue;
            }
            for unit in 0..self.lines.units {
                let chunk = self.lines.chunk_of(line, unit);
                if chunk.is_some_and(|lba| start.chunks[&lba.0].state == ChunkState::Open) {
                    self.finish_chunk(line, unit);
                }
            }
        }
    }

    /// The drive has lost its power, or is to be found anew: commands under way end with [`Status::PowerLoss`], and the layer
    /// starts again from what is on the drive. What only the ring held is lost.
    pub fn restart(mut self, now: SimTime) -> Result<HostFtl, HostFtlError> {
        self.restarted(now)
    }

    /// See [`HostFtl::restart`]; what is left of `self` is of no use.
    pub(super) fn restarted(&mut self, now: SimTime) -> Result<HostFtl, HostFtlError> {
        let interface = pellucid_flash::Interface::OpenChannel(self.lines.geometry);
        let mut fresh = HostFtl::new(&self.config, Some(interface), self.image_bytes)?;
        (fresh.now, fresh.counters) = (now, self.counters);
        fresh.up = std::mem::take(&mut self.up);
        for record in self.requests.iter_mut() {
            let Some(command) = record.command.take() else { continue };
            let mut stages = pellucid_flash::StageTimes::default();
            stages.add(pellucid_flash::Stage::Host, now - record.submitted);
            fresh.up.push_back(Completion {
                tag: command.tag,
                opcode: command.opcode,
                status: Status::PowerLoss,
                submitted: record.submitted,
                completed: now,
                stages,
                data: command.data,
                result: 0,
                vector: command.vector,
            });
        }
        Ok(fresh)
    }
}
