//! Facts: what a start knows of the chunks and lines that an earlier run left.
//!
//! Invariants: a chunk belongs to at most one line; unreadable facts are known as unreadable, so the mount never asks for them a second time.

use pellucid_flash::{ChunkInfo, ChunkState, Lba, Lpn};
use std::collections::{BTreeMap, BTreeSet};

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

/// Lines with the sequence numbers at which they were begun, and their chunks.
pub(super) type Found = BTreeMap<u32, (u64, Vec<Lba>)>;

/// Facts about the chunks and lines of a target.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    chunks: BTreeMap<u64, ChunkInfo>,
    /// Lines that were found, with their sequence numbers and chunks.
    starts: Found,
    /// Chunks whose first superpage, which may be the start of a line, is unreadable; offline chunks are
    /// included if a line may lack one.
    lost: BTreeSet<u64>,
    /// Line and newest sequence number in the signatures of each chunk that belongs to no known line.
    owners: BTreeMap<u64, (u32, u64)>,
    /// Chunks that belong to no known line and have no readable signature.
    silent: BTreeSet<u64>,
    /// Lines rebuilt from the signatures of their chunks.
    rebuilt: BTreeSet<u32>,
    /// Lines that were scanned without their first chunk, which is offline.
    blind: BTreeSet<u32>,
    /// Number of the engine's superpages in use, by line.
    used: BTreeMap<u32, u32>,
    /// Lines whose end is complete according to the write pointers.
    ended: BTreeSet<u32>,
    /// Lines without an end whose first or last superpage is unreadable or missing; they are scanned as a
    /// whole.
    torn: BTreeSet<u32>,
    /// Lines without an end that have the index of a clean stop.
    indexed: BTreeSet<u32>,
    known: BTreeMap<u32, Known>,
    map_pages: BTreeMap<u32, Vec<u8>>,
    /// Ends and indexes: number of sectors that have arrived, and content.
    records: BTreeMap<u32, (u32, Vec<u8>)>,
}

impl Facts {
    // ---- chunks

    pub fn set_chunks(&mut self, chunks: impl Iterator<Item = ChunkInfo>) {
        assert!(self.chunks.is_empty(), "chunks are reported once");
        self.chunks = chunks.map(|info| (info.start.0, info)).collect();
    }

    pub fn chunks(&self) -> impl DoubleEndedIterator<Item = &ChunkInfo> {
        self.chunks.values()
    }

    pub fn chunk(&self, lba: Lba) -> Option<&ChunkInfo> {
        self.chunks.get(&lba.0)
    }

    /// Returns the state of a chunk that was reported.
    pub fn info(&self, lba: Lba) -> ChunkInfo {
        self.chunks[&lba.0]
    }

    pub fn was_reset(&mut self, lba: Lba) {
        if let Some(info) = self.chunks.get_mut(&lba.0) {
            *info = ChunkInfo { state: ChunkState::Free, write_pointer: 0, ..*info };
        }
    }

    /// Notes `sectors` of padding written to a chunk; `closes`: its drive has closed it.
    pub fn was_padded(&mut self, lba: Lba, sectors: u32, closes: bool) {
        if let Some(info) = self.chunks.get_mut(&lba.0) {
            info.write_pointer += sectors;
            if closes || info.write_pointer == info.sectors {
                info.state = ChunkState::Closed;
            }
        }
    }

    // ---- starts of lines

    /// Returns the lines that were found.
    pub fn starts(&self) -> &Found {
        &self.starts
    }

    /// Notes a start. A failed chunk may still hold an old start of a line that now has another one.
    pub fn found_start(&mut self, line: u32, sequence: u64, chunks: Vec<Lba>) {
        let slot = self.starts.entry(line).or_insert((0, Vec::new()));
        if sequence >= slot.0 {
            *slot = (sequence, chunks);
        }
    }

    /// Notes a chunk whose first superpage is unreadable.
    pub fn lost_start(&mut self, chunk: Lba) {
        self.lost.insert(chunk.0);
    }

    /// Notes offline chunks, which may have held the start of any line that lacks one.
    pub fn lost_offline(&mut self, chunks: &[u64]) {
        self.lost.extend(chunks);
        self.silent.extend(chunks);
    }

    /// Returns the chunks whose starts are lost.
    pub fn lost(&self) -> &BTreeSet<u64> {
        &self.lost
    }

    /// Notes the line and the newest sequence number that the signatures of a chunk name; `None` if it has no readable one.
    pub fn found_owner(&mut self, chunk: Lba, owner: Option<(u32, u64)>) {
        match owner {
            Some(owner) => _ = self.owners.insert(chunk.0, owner),
            None => _ = self.silent.insert(chunk.0),
        }
    }

    /// Returns the owners that chunks without a known line name.
    pub fn owners(&self) -> &BTreeMap<u64, (u32, u64)> {
        &self.owners
    }

    /// Returns the chunks without a known line and without a readable signature.
    pub fn silent(&self) -> &BTreeSet<u64> {
        &self.silent
    }

    /// Notes lines that were put together from the signatures of their chunks.
    pub fn rebuild(&mut self, found: Found) {
        assert!(
            found.keys().all(|line| !self.starts.contains_key(line)),
            "a line is rebuilt that has a start"
        );
        self.rebuilt = found.keys().copied().collect();
        self.starts.extend(found);
    }

    /// Reports whether a line has no readable start.
    pub fn is_rebuilt(&self, line: u32) -> bool {
        self.rebuilt.contains(&line)
    }

    /// Assigns each chunk to the newest line that claims it. An obsolete start on a failed chunk claims
    /// chunks that other lines own; such lines are dropped. Returns the chunks of the remaining lines.
    pub fn settle_claims(&mut self) -> BTreeSet<u64> {
        let mut claims: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        for (&line, (sequence, chunks)) in &self.starts {
            for chunk in chunks {
                let claim = claims.entry(chunk.0).or_insert((*sequence, line));
                *claim = (*claim).max((*sequence, line));
            }
        }
        self.starts.retain(|line, (_, chunks)| {
            chunks.iter().all(|c| claims[&c.0].1 == *line && self.chunks.contains_key(&c.0))
        });
        self.owned()
    }

    /// Returns the chunks of the lines that were found.
    pub fn owned(&self) -> BTreeSet<u64> {
        self.starts.values().flat_map(|(_, chunks)| chunks.iter().map(|c| c.0)).collect()
    }

    // ---- extent and pages of lines

    pub fn set_used(&mut self, line: u32, superpages: u32) {
        self.used.insert(line, superpages);
    }

    /// Returns the number of the engine's superpages in use.
    pub fn used(&self, line: u32) -> u32 {
        self.used.get(&line).copied().unwrap_or(0)
    }

    /// Notes whether the end of a line is complete.
    pub fn set_ended(&mut self, line: u32, ended: bool) {
        if ended {
            self.ended.insert(line);
        } else {
            self.ended.remove(&line);
        }
    }

    pub fn is_ended(&self, line: u32) -> bool {
        self.ended.contains(&line)
    }

    /// Notes a line that must be scanned as a whole if it has no end.
    pub fn tear(&mut self, line: u32) {
        self.torn.insert(line);
    }

    pub fn is_torn(&self, line: u32) -> bool {
        self.torn.contains(&line)
    }

    /// Notes whether a line has an index.
    pub fn set_indexed(&mut self, line: u32, indexed: bool) {
        if indexed {
            self.indexed.insert(line);
        } else {
            self.indexed.remove(&line);
        }
    }

    pub fn is_indexed(&self, line: u32) -> bool {
        self.indexed.contains(&line)
    }

    /// Notes a line that is scanned without its first chunk.
    pub fn set_blind(&mut self, line: u32) {
        self.blind.insert(line);
    }

    pub fn blind(&self) -> &BTreeSet<u32> {
        &self.blind
    }

    pub fn know(&mut self, line: u32, known: Known) {
        self.known.insert(line, known);
    }

    /// Returns the facts about the pages of all lines.
    pub fn known(&self) -> &BTreeMap<u32, Known> {
        &self.known
    }

    /// Returns the sequence numbers and pages of a line that is being scanned.
    pub fn scanned(&mut self, line: u32, sizes: (u32, u32)) -> (&mut Vec<u64>, &mut Vec<Lpn>) {
        let known = self.known.entry(line).or_default();
        if !matches!(known, Known::Pages(..)) {
            *known = Facts::unknown_pages(sizes);
        }
        let Known::Pages(sequences, pages) = known else { unreachable!("it was made a moment ago") };
        (sequences, pages)
    }

    /// Returns the pages of a completely unreadable line, with its numbers of superpages and sectors.
    pub fn unknown_pages((superpages, sectors): (u32, u32)) -> Known {
        Known::Pages(vec![0; superpages as usize], vec![UNREADABLE; sectors as usize])
    }

    /// Takes in a piece of `piece` sectors of a line's end or index, from its sector `from` on; `None` if it is unreadable.
    /// Returns the record of `sectors` once all pieces have arrived, in any order.
    pub fn gather_record(
        &mut self,
        line: u32,
        (from, piece): (u32, u32),
        (sectors, sector_bytes): (u32, usize),
        data: Option<&[u8]>,
    ) -> Option<Vec<u8>> {
        let blank = || (0, vec![0; sectors as usize * sector_bytes]);
        let (arrived, record) = self.records.entry(line).or_insert_with(blank);
        // A missing piece makes the checksum fail.
        if let Some(data) = data {
            record[from as usize * sector_bytes..][..data.len()].copy_from_slice(data);
        }
        *arrived += piece;
        assert!(*arrived <= sectors, "a piece of a record arrives twice");
        let whole = *arrived == sectors;
        whole.then(|| self.records.remove(&line).expect("just filled").1)
    }

    /// Adds a translation page; empty if it is unreadable.
    pub fn add_map_page(&mut self, unit: u32, bytes: Vec<u8>) {
        self.map_pages.insert(unit, bytes);
    }

    /// Returns a translation page that was read; empty if it is unreadable.
    pub fn map_page(&self, unit: u32) -> Option<&Vec<u8>> {
        self.map_pages.get(&unit)
    }
}
