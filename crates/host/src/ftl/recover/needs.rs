//! Needs of the start: the reads it sends, the facts it learns from them, and its answers to the engine's
//! mount.
//!
//! ```text
//!  mount asks (Source) ─► not known: missing ─► needs ─► commands, READS_AT_ONCE at a time ─► learn ─► asked again
//! ```
//! Invariants: each need is sent once, and again only after a failure; unreadable facts are known as
//! unreadable, so the mount never asks for them a second time.

use super::Start;
use crate::ftl::{HostFtl, HostFtlError, TAG_START, meta};
use pellucid_flash::{
    BlockId, ChunkState, Command, Completion, Layout, Lba, Lpn, Opcode, Ppa, Status, Vector,
};
use pellucid_ftl::{Durability, MountSource};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Marker for the page of an unreadable sector.
pub(super) const UNREADABLE: Lpn = Lpn(u32::MAX - 1);

/// Known facts about the pages of a line.
#[derive(Clone, Debug, Default)]
pub(super) enum Known {
    #[default]
    Nothing,
    /// Page and sequence number of the first sector, and of the first sector of the last superpage used.
    Range([(Lpn, u64); 2]),
    /// Sequence number of each superpage (0: unreadable) and page of each sector.
    Pages(Vec<u64>, Vec<Lpn>),
}

/// Fact that the start needs from the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// Write of this many padding superpages, after which the start of a chunk is readable.
    Reveal(Lba, u32),
    /// Start of the line that has this first chunk.
    Start(Lba),
    /// Out-of-band data of the first rows of a chunk that belongs to no known line.
    Owner(Lba),
    /// Head of a line's end.
    Head(u32),
    /// Whole end of a line, from this sector on.
    End(u32, u32),
    /// Out-of-band data of the first and the last used superpage of a line without an end.
    Edges(u32),
    /// Index in the last used superpages of a line without an end, from this sector on.
    Index(u32, u32),
    /// Out-of-band data of a line, from this mapping unit of the engine on.
    Scan(u32, u32),
    /// Translation pages: the first mapping unit, and their number.
    MapPages(u32, u32),
}

/// Source of facts for the engine's mount.
pub(super) struct Source<'a> {
    /// Number of the application's pages; higher ones are translation pages.
    pub user_units: u32,
    pub(super) layout: &'a Layout,
    pub(super) start: &'a Start,
    pub(super) bad: &'a BTreeSet<u32>,
    pub(super) missing: RefCell<BTreeSet<Need>>,
}

impl Source<'_> {
    fn miss(&self, need: Need) {
        self.missing.borrow_mut().insert(need);
    }

    /// Returns the read that makes the pages of a line known.
    fn pages(&self, line: u32) -> Need {
        match () {
            () if self.start.ended.contains(&line) => Need::End(line, 0),
            () if self.start.indexed.contains(&line) => Need::Index(line, 0),
            () => Need::Scan(line, 0),
        }
    }
}

impl MountSource for Source<'_> {
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)> {
        let block = self.layout.block_of(ppa);
        let line = block.0;
        let (index, superpage) = (self.layout.index_in_block(ppa), self.layout.superpage_of(ppa));
        match self.start.known.get(&line).unwrap_or(&Known::Nothing) {
            Known::Pages(sequences, pages) => {
                let page = pages[index as usize];
                (page != UNREADABLE && sequences[superpage as usize] > 0)
                    .then_some((page, sequences[superpage as usize]))
            }
            Known::Range([first, _]) if index == 0 => Some(*first),
            Known::Range([_, last])
                if index + self.layout.units_per_superpage
                    == self.used_superpages(block) * self.layout.units_per_superpage =>
            {
                Some(*last)
            }
            // Missing translation pages leave the extent of the replay open, so data are asked for last.
            Known::Range([(first, _), _])
                if (*first == Lpn::NONE || first.0 < self.user_units)
                    && !self.missing.borrow().is_empty() =>
            {
                None
            }
            // A head does not name the pages of the last superpage; if there is a third sector to ask for,
            // the replay finds them.
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

    fn used_superpages(&self, block: BlockId) -> u32 {
        self.start.used.get(&block.0).copied().unwrap_or(0)
    }

    fn erases(&self, _: BlockId) -> u32 {
        0
    }

    fn is_bad(&self, block: BlockId) -> bool {
        self.bad.contains(&block.0)
    }

    fn map_page(&self, ppa: Ppa) -> Option<Vec<u8>> {
        let found = self.start.map_pages.get(&ppa.0);
        // While pages of lines are missing, this copy may be outdated or absent.
        let known = self.missing.borrow().iter().all(|need| matches!(need, Need::MapPages(..)));
        if found.is_none() && known {
            self.miss(Need::MapPages(ppa.0, 1));
        }
        found.filter(|bytes| !bytes.is_empty()).cloned()
    }
}

/// Maximum number of the start's reads with the drive.
const READS_AT_ONCE: u32 = 256;

impl HostFtl {
    /// Sends reads, up to the maximum number under way.
    pub(super) fn send_needs(&mut self, start: &mut Start) {
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

    pub(super) fn need_command(&self, start: &Start, need: Need) -> Command {
        let sector_bytes = u64::from(self.sector_bytes());
        let read = |lba: Lba, sectors: u32| {
            let data = vec![0; sectors as usize * self.image_bytes];
            Command::new(0, Opcode::Read, lba, sectors, data)
        };
        match need {
            Need::Reveal(lba, rows) => {
                let (sectors, at) = (rows * self.lines.superpage_sectors, start.chunks[&lba.0].write_pointer);
                let data = vec![0; sectors as usize * self.image_bytes];
                // The sectors belong to no line, so they carry no signature.
                let metadata = vec![0; sectors as usize * meta::OOB_BYTES];
                let vector = Some(Box::new(Vector { metadata, ..Vector::default() }));
                let lba = Lba(lba.0 + u64::from(at));
                Command { vector, ..Command::new(0, Opcode::Write, lba, sectors, data) }
            }
            Need::Start(lba) => read(lba, meta::start_bytes(self.lines.units).div_ceil(sector_bytes) as u32),
            Need::Owner(chunk) => {
                self.read_addresses(self.owner_addresses(&start.chunks[&chunk.0]).collect(), Vec::new(), true)
            }
            Need::Head(line) => read(self.end_sector(line, 0), 1),
            Need::End(line, from) => read(self.end_sector(line, from), self.piece(from)),
            Need::Index(line, from) => {
                let (first, superpage) = (self.indexed_superpages(start, line), self.lines.superpage_sectors);
                // The line's start precedes the sector.
                let (_, lba) = self.lines.place(BlockId(line), first + from / superpage + 1);
                read(Lba(lba.0 + u64::from(from % superpage)), self.piece(from))
            }
            Need::MapPages(first, count) => {
                let data = vec![0; count as usize * self.image_bytes];
                self.vector_read(first..first + count, data, false)
            }
            Need::Edges(line) => {
                let layout = self.lines.layout();
                let last = (start.used[&line] - 1) * layout.units_per_superpage;
                let edges = [0, last].map(|at| layout.ppa(BlockId(line), at).0);
                self.vector_read(edges, Vec::new(), true)
            }
            Need::Scan(line, from) => {
                let first = self.lines.layout().ppa(BlockId(line), from).0;
                self.vector_read(first..first + self.piece(from), Vec::new(), true)
            }
        }
    }

    /// Makes a read of single mapping units of the engine, with or without their out-of-band data.
    fn vector_read(&self, units: impl IntoIterator<Item = u32>, data: Vec<u8>, metadata: bool) -> Command {
        let addresses = units.into_iter().map(|ppa| self.lines.address(Ppa(ppa))).collect();
        self.read_addresses(addresses, data, metadata)
    }

    fn read_addresses(&self, addresses: Vec<Lba>, data: Vec<u8>, metadata: bool) -> Command {
        let count = addresses.len();
        let metadata = if metadata { vec![0; count * meta::OOB_BYTES] } else { Vec::new() };
        let vector = Some(Box::new(Vector { addresses, metadata, ..Vector::default() }));
        Command { vector, ..Command::new(0, Opcode::Read, Lba(0), count as u32, data) }
    }

    /// Returns the address of sector `from` of a line's end.
    fn end_sector(&self, line: u32, from: u32) -> Lba {
        let superpage = self.lines.superpages() - self.lines.tail + from / self.lines.superpage_sectors;
        let (_, lba) = self.lines.place(BlockId(line), superpage);
        Lba(lba.0 + u64::from(from % self.lines.superpage_sectors))
    }

    /// Returns the number of sectors that one read covers from sector `from` of a line's data or end on: the
    /// rest of its superpage.
    fn piece(&self, from: u32) -> u32 {
        (self.lines.superpage_sectors - from % self.lines.superpage_sectors).min(Vector::ADDRESSES_MAX as u32)
    }

    /// Returns the first sector of each read that covers `sectors`.
    fn pieces(&self, sectors: u32) -> impl Iterator<Item = u32> + use<'_> {
        let next = |&from: &u32| Some(from + self.piece(from));
        std::iter::successors(Some(0), next).take_while(move |&from| from < sectors)
    }

    /// Returns the number of superpages that a line's index describes, which precede the index; 0 if there is
    /// none.
    fn indexed_superpages(&self, start: &Start, line: u32) -> u32 {
        let used = start.used[&line];
        (1..used).rev().find(|&first| first + self.lines.record_superpages(first) == used).unwrap_or(0)
    }

    /// Takes in a piece of a line's end or index, from its sector `from` on; `None` if it is unreadable.
    /// Returns the record of `sectors` once all pieces have arrived, in any order.
    fn gather_record(
        &self,
        start: &mut Start,
        line: u32,
        from: u32,
        sectors: u32,
        data: Option<&[u8]>,
    ) -> Option<Vec<u8>> {
        let bytes = self.sector_bytes() as usize;
        let blank = || (0, vec![0; sectors as usize * bytes]);
        let (arrived, record) = start.records.entry(line).or_insert_with(blank);
        // A missing piece makes the checksum fail.
        if let Some(data) = data {
            record[from as usize * bytes..][..data.len()].copy_from_slice(data);
        }
        *arrived += self.piece(from);
        let whole = *arrived == sectors;
        whole.then(|| start.records.remove(&line).expect("just filled").1)
    }

    /// Returns the reason that a line's start cannot come from a layer configured like this one; its line
    /// must then be neither used nor reset.
    fn differs(&self, was: &meta::Header) -> Option<String> {
        let (sectors, units) = (self.ftl.user_units(), self.lines.units);
        let [what, is, key] = match was {
            _ if was.count != units => [
                format!("{} parallel units", was.count),
                format!("has {units}"),
                "units or host.zone_log.width".into(),
            ],
            _ if was.sectors != 0 && was.sectors != sectors => {
                [format!("{} sectors", was.sectors), format!("has {sectors}"), "over_provisioning".into()]
            }
            // Flushed trims would be undone.
            _ if was.journal && self.engine.durability == Durability::Volatile => {
                ["a journal".into(), "has none".into(), "durability".into()]
            }
            _ => return None,
        };
        Some(format!(
            "a host FTL of {what} is on the drive, and this one {is}; allowed: the host.ftl.{key} that it was made with, or a drive without it"
        ))
    }

    pub(super) fn learn(&mut self, start: &mut Start, need: Need, completion: &Completion) {
        let layout = self.lines.layout();
        let (superpages, sectors) = (layout.superpages_per_block, layout.units_per_block);
        let ok = matches!(completion.status, Status::Success | Status::HighEcc);
        let uuid = self.config.uuid;
        let data = if ok { &completion.data[..] } else { &[] };
        match need {
            Need::Reveal(lba, rows) => {
                self.mount.padded_superpages += u64::from(rows);
                if let Some(info) = start.chunks.get_mut(&lba.0) {
                    info.write_pointer += rows * self.lines.superpage_sectors;
                    // If the write failed, the chunk is closed and readable, or its write pointer is after
                    // the superpage all the same.
                    if !(ok || completion.status == Status::ChunkWriteFailed)
                        || info.write_pointer == info.sectors
                    {
                        info.state = ChunkState::Closed;
                    }
                }
            }
            Need::Start(lba) if !ok => _ = start.lost.insert(lba.0),
            Need::Owner(chunk) => self.learn_owner(start, chunk, completion),
            Need::Start(lba) => {
                if let Some(sentence) =
                    meta::parse_start_header(data, uuid).and_then(|was| self.differs(&was))
                {
                    self.failure = Some(HostFtlError::Drive(sentence));
                    return;
                }
                let found = meta::parse_start(data, uuid, self.lines.units);
                let Some((header, chunks)) = found.filter(|(h, c)| h.line.0 < layout.blocks && c[0] == lba)
                else {
                    return;
                };
                // A failed chunk may still hold an old start of a line that now has another one.
                let slot = start.starts.entry(header.line.0).or_insert((0, Vec::new()));
                if header.first >= slot.0 {
                    *slot = (header.first, chunks);
                }
            }
            Need::Head(line) => {
                match meta::parse_end_header(data, uuid, BlockId(line), superpages, sectors) {
                    Some(h) => {
                        start
                            .known
                            .insert(line, Known::Range([(h.first_page, h.first), (Lpn::NONE, h.last)]));
                    }
                    None => {
                        start.ended.remove(&line);
                    }
                }
            }
            Need::End(line, from) => {
                let length = self.lines.tail * self.lines.superpage_sectors;
                let Some(bytes) = self.gather_record(start, line, from, length, ok.then_some(data)) else {
                    return;
                };
                match meta::parse_end(&bytes, uuid, BlockId(line), superpages, sectors) {
                    Some(end) => {
                        start.known.insert(line, Known::Pages(end.sequences, end.pages));
                    }
                    None => {
                        start.ended.remove(&line);
                    }
                }
            }
            Need::Index(line, from) => {
                let (first, superpage) = (self.indexed_superpages(start, line), self.lines.superpage_sectors);
                let length = (start.used[&line] - first) * superpage;
                let Some(bytes) = self.gather_record(start, line, from, length, ok.then_some(data)) else {
                    return;
                };
                match meta::parse_end(&bytes, uuid, BlockId(line), first, first * superpage) {
                    Some(mut index) => {
                        index.sequences.resize(superpages as usize, 0);
                        index.pages.resize(sectors as usize, UNREADABLE);
                        start.known.insert(line, Known::Pages(index.sequences, index.pages));
                    }
                    None => {
                        start.indexed.remove(&line);
                    }
                }
            }
            Need::MapPages(first, count) => {
                let image = self.image_bytes;
                for i in 0..count {
                    let good = ok || (completion.result != 0 && completion.result >> i & 1 == 0);
                    let place = i as usize * image..(i as usize + 1) * image;
                    let bytes = completion.data.get(place).filter(|_| good).unwrap_or_default();
                    start.map_pages.insert(first + i, bytes.to_vec());
                }
            }
            Need::Edges(line) => {
                let oob = completion.vector.as_ref().map_or(&[][..], |vector| &vector.metadata);
                let edge = |at: usize| {
                    // The format is that of a scan.
                    let bytes = oob.get(at..at + meta::OOB_BYTES)?;
                    // Padding has no sequence number.
                    meta::parse_oob(bytes, uuid, BlockId(line)).filter(|&(_, sequence)| sequence > 0)
                };
                match (edge(0), edge(meta::OOB_BYTES)) {
                    (Some(first), Some(last)) => {
                        start.known.insert(line, Known::Range([first, last]));
                        // An interrupted stop leaves only a part of an index.
                        if last.0 == meta::INDEX && self.indexed_superpages(start, line) > 0 {
                            start.indexed.insert(line);
                        }
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
                    *known = Known::Pages(vec![0; superpages as usize], vec![UNREADABLE; sectors as usize]);
                }
                let (Known::Pages(sequences, pages), Some(vector)) = (known, &completion.vector) else {
                    return;
                };
                let mut mute = false;
                for i in 0..count {
                    // A failed sector may still have its signature. Its page then counts as unreadable,
                    // because an older copy would be wrong.
                    let at = i as usize * meta::OOB_BYTES;
                    let oob = vector.metadata.get(at..at + meta::OOB_BYTES).unwrap_or_default();
                    if let Some((page, sequence)) = meta::parse_oob(oob, uuid, BlockId(line)) {
                        pages[(from + i) as usize] = page;
                        sequences[((from + i) / self.lines.superpage_sectors) as usize] = sequence;
                    } else {
                        let failed = !ok && (completion.result == 0 || completion.result >> i & 1 != 0);
                        // A superpage torn by a crash also fails without a signature; a zone has none below
                        // its write pointer.
                        mute |= failed && self.config.finish_chunks;
                    }
                }
                if mute {
                    let sentence = format!(
                        "what line {line} holds cannot be read from sector {from} of it on, and an older copy could be taken for the newest"
                    );
                    self.failure = Some(HostFtlError::Drive(sentence));
                }
            }
        }
    }

    /// Queues the missing reads; whole ends and scans are read in pieces.
    pub(super) fn read_missing(&mut self, start: &mut Start, missing: BTreeSet<Need>) {
        start.needs.clear();
        start.next = 0;
        for need in missing {
            match need {
                Need::End(line, _) => {
                    let sectors = self.lines.tail * self.lines.superpage_sectors;
                    start.needs.extend(self.pieces(sectors).map(|from| Need::End(line, from)));
                }
                Need::Index(line, _) => {
                    let superpages = start.used[&line] - self.indexed_superpages(start, line);
                    let sectors = superpages * self.lines.superpage_sectors;
                    start.needs.extend(self.pieces(sectors).map(|from| Need::Index(line, from)));
                }
                Need::Scan(line, _) => self.scan(start, line),
                // Neighbours in a superpage are read together.
                Need::MapPages(unit, _) => match start.needs.last_mut() {
                    Some(Need::MapPages(first, count))
                        if *first + *count == unit
                            && *count < Vector::ADDRESSES_MAX as u32
                            && *first / self.lines.superpage_sectors
                                == unit / self.lines.superpage_sectors =>
                    {
                        *count += 1;
                    }
                    _ => start.needs.push(Need::MapPages(unit, 1)),
                },
                other => start.needs.push(other),
            }
        }
        self.send_needs(start);
    }

    /// Queues a scan of every sector of a line below its chunks' write pointers.
    fn scan(&self, start: &mut Start, line: u32) {
        let layout = self.lines.layout();
        if self.lacks_head(start, BlockId(line)) {
            start.blind.insert(line);
        }
        let pages = vec![UNREADABLE; layout.units_per_block as usize];
        start.known.insert(line, Known::Pages(vec![0; layout.superpages_per_block as usize], pages));
        let mut from = 0;
        while from < layout.units_per_block {
            let piece = self.piece(from);
            let (unit, lba) = self.lines.place(BlockId(line), from / self.lines.superpage_sectors + 1);
            let written = self.lines.chunk_of(BlockId(line), unit).is_some_and(|chunk| {
                let end = lba.0 - chunk.0 + u64::from(from % self.lines.superpage_sectors + piece);
                start.chunks[&chunk.0].write_pointer as u64 >= end
            });
            if written {
                start.needs.push(Need::Scan(line, from));
            }
            from += piece;
        }
    }
}
