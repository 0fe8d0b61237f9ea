//! Checkpoints on the drive: two places of a few chunks each, written in turn.
//!
//! A checkpoint is divided into pages, each with a header. The pages are written to idle chunks of a place, in any order; when all are on
//! the media, a final page without payload follows: the seal. The next checkpoint is appended if the place has space left, otherwise it
//! goes to the other place, which is erased first. So the place of the newest complete checkpoint is never being erased.
//!
//! ```text
//!   page:  0 magic  8 number  16 page u32  20 pages u32 (with the seal)  24 payload bytes u32  28 checksum u32 (of all else)   payload
//! ```
//! The seal distinguishes a checkpoint that a power cut left unfinished, which was never reported to the host, from a finished one with a
//! page that cannot be read. In the first case the checkpoint before it is the state. In the second case it is not: blocks that it needs
//! may be erased, and names in it may have been reused.

use pellucid_flash::{ChunkInfo, ChunkOp, ChunkState, Command, Completion, Lba, Opcode, Status};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a page before its payload.
pub(super) const HEADER_BYTES: usize = 32;
const MAGIC: u64 = u64::from_le_bytes(*b"PNAMELS2");

/// A chunk for checkpoints.
#[derive(Clone, Debug)]
struct Chunk {
    first: Lba,
    /// Sectors written.
    written: u32,
    busy: bool,
    /// The chunk accepts no more data until it is erased.
    closed: bool,
    dead: bool,
    /// The page that is being written.
    page: u32,
}

/// Pages of a checkpoint that was found.
#[derive(Clone, Debug, Default)]
struct Found {
    place: usize,
    pages: u32,
    payloads: BTreeMap<u32, Vec<u8>>,
}

impl Found {
    fn is_sealed(&self) -> bool {
        self.payloads.contains_key(&(self.pages - 1))
    }

    /// Pages with a payload that were not found.
    fn unreadable(&self) -> u32 {
        self.pages - 1 - self.payloads.range(..self.pages - 1).count() as u32
    }
}

/// A checkpoint that is being written.
#[derive(Clone, Debug)]
struct Running {
    bytes: Vec<u8>,
    pages: u32,
    waiting: VecDeque<u32>,
    /// Pages that are not on the media.
    left: u32,
}

/// Result of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Saved,
    Failed,
}

/// Writer of checkpoints.
#[derive(Clone, Debug)]
pub(super) struct Saver {
    places: [Vec<Chunk>; 2],
    page_sectors: u32,
    chunk_sectors: u32,
    page_bytes: usize,
    image_bytes: usize,
    current: usize,
    /// The place of the newest complete checkpoint.
    newest: Option<usize>,
    number: u64,
    running: Option<Running>,
    /// The newest complete checkpoint, if the drive keeps stamps instead of data and could not return it.
    kept: Option<Vec<u8>>,
    found: BTreeMap<u64, Found>,
    /// Pages written since the beginning.
    pages_written: u64,
    saved: u64,
}

impl Saver {
    /// Creates a writer. `images`: bytes of a sector, and the bytes that the drive keeps of it.
    pub fn new(
        places: [Vec<Lba>; 2],
        page_sectors: u32,
        chunk_sectors: u32,
        images: (usize, usize),
    ) -> Saver {
        let chunk = |first| Chunk { first, written: 0, busy: false, closed: false, dead: false, page: 0 };
        Saver {
            places: places.map(|place| place.into_iter().map(chunk).collect()),
            page_sectors,
            chunk_sectors,
            page_bytes: page_sectors as usize * images.0,
            image_bytes: images.1,
            current: 0,
            newest: None,
            number: 0,
            running: None,
            kept: None,
            found: BTreeMap::new(),
            pages_written: 0,
            saved: 0,
        }
    }

    /// Returns whether the drive keeps data.
    pub fn keeps_data(&self) -> bool {
        self.page_sectors as usize * self.image_bytes == self.page_bytes
    }

    /// Takes the newest checkpoint, if the drive keeps stamps only, to hand it on to a restart.
    pub fn take_kept(&mut self) -> Option<Vec<u8>> {
        self.kept.take()
    }

    pub fn keep(&mut self, kept: Option<Vec<u8>>) {
        self.kept = kept;
    }

    /// Pages and checkpoints written since the beginning.
    pub fn written(&self) -> (u64, u64) {
        (self.pages_written, self.saved)
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Sets the state of each chunk from a report.
    pub fn found_chunks(&mut self, report: impl Fn(Lba) -> ChunkInfo) {
        for chunk in self.places.iter_mut().flatten() {
            let info = report(chunk.first);
            chunk.written = info.write_pointer;
            (chunk.closed, chunk.dead) =
                (info.state == ChunkState::Closed, info.state == ChunkState::Offline);
        }
    }

    /// Pages that a start has to read: place and first sector of each.
    pub fn written_pages(&self) -> Vec<(usize, Lba)> {
        let chunks =
            self.places.iter().enumerate().flat_map(|(place, chunks)| chunks.iter().map(move |c| (place, c)));
        let chunks = chunks.filter(|(_, chunk)| !chunk.dead);
        let pages = |(place, chunk): (usize, &Chunk)| {
            let count = chunk.written / self.page_sectors;
            let first = chunk.first.0;
            (0..count)
                .map(move |page| (place, Lba(first + u64::from(page * self.page_sectors))))
                .collect::<Vec<_>>()
        };
        chunks.flat_map(pages).collect()
    }

    /// Accepts a page that a start has read; foreign pages are skipped.
    pub fn found_page(&mut self, place: usize, data: &[u8]) {
        let word =
            |at: usize| data.get(at..at + 4).map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes")));
        let long =
            |at: usize| data.get(at..at + 8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes")));
        let fields = (long(0), long(8), word(16), word(20), word(24), word(28));
        let (Some(MAGIC), Some(number), Some(page), Some(pages), Some(bytes), Some(sum)) = fields else {
            return;
        };
        let Some(payload) = data.get(HEADER_BYTES..HEADER_BYTES + bytes as usize) else { return };
        if checksum(&data[..28], payload) == sum && page < pages {
            let found = self.found.entry(number).or_default();
            (found.place, found.pages) = (place, pages);
            found.payloads.insert(page, payload.to_vec());
        }
    }

    /// The newest complete checkpoint that was found; the next one is written behind it, or to the other place. The error is a sentence:
    /// a newer finished checkpoint cannot be read.
    pub fn newest(&mut self) -> Result<Option<Vec<u8>>, String> {
        let found = std::mem::take(&mut self.found);
        self.number = found.keys().next_back().copied().unwrap_or(0);
        let newest = found.iter().rev().find(|(_, found)| found.unreadable() == 0);
        let newer = found.range(newest.map_or(0, |(number, _)| number + 1)..);
        if let Some((_, damaged)) = newer.rev().find(|(_, found)| found.is_sealed()) {
            return Err(format!(
                "nameless writes: {} of {} pages of the newest checkpoint cannot be read, and an older one is not the state of the drive",
                damaged.unreadable(),
                damaged.pages - 1
            ));
        }
        let (place, bytes) = match (newest, self.kept.clone()) {
            (Some((_, found)), _) => (found.place, found.payloads.values().flatten().copied().collect()),
            (None, Some(kept)) => (self.current, kept),
            (None, None) => return Ok(None),
        };
        (self.current, self.newest) = (place, Some(place));
        Ok(Some(bytes))
    }

    /// Begins to write a checkpoint. `false`: it fits in no place.
    #[must_use]
    pub fn begin(&mut self, bytes: Vec<u8>) -> bool {
        let other = 1 - self.current;
        if self.room(self.current, false) >= self.pages_of(&bytes) {
            self.run(bytes);
            return true;
        }
        self.newest != Some(other) && self.begin_at(other, bytes)
    }

    /// Begins a checkpoint at `place`, which is erased first; `false`: it does not fit.
    fn begin_at(&mut self, place: usize, bytes: Vec<u8>) -> bool {
        let fits = self.room(place, true) >= self.pages_of(&bytes);
        if fits {
            self.current = place;
            self.run(bytes);
        }
        fits
    }

    fn run(&mut self, bytes: Vec<u8>) {
        let pages = self.pages_of(&bytes);
        self.number += 1;
        self.running = Some(Running { bytes, pages, waiting: (0..pages).collect(), left: pages });
    }

    /// Pages of a checkpoint, with the seal.
    fn pages_of(&self, bytes: &[u8]) -> u32 {
        bytes.len().div_ceil(self.page_bytes - HEADER_BYTES).max(1) as u32 + 1
    }

    /// Pages that a place can take, `erased` or as it is.
    fn room(&self, place: usize, erased: bool) -> u32 {
        let able = self.places[place].iter().filter(|chunk| !chunk.dead);
        let rest = |chunk: &Chunk| match (erased, chunk.closed) {
            (true, _) => self.chunk_sectors,
            (false, true) => 0,
            (false, false) => self.chunk_sectors - chunk.written,
        };
        able.map(|chunk| rest(chunk) / self.page_sectors).sum()
    }

    /// The next command for the drive, and the chunk that it is for.
    pub fn next_command(&mut self) -> Option<(u32, Command)> {
        let place = self.current;
        let fresh = self.newest != Some(place);
        let running = self.running.as_mut()?;
        let first = running.left == running.pages && running.waiting.len() as u32 == running.pages;
        // A place that does not hold the newest checkpoint is erased before the first page.
        if first && fresh {
            let used = |chunk: &Chunk| !chunk.dead && (chunk.written > 0 || chunk.closed);
            if let Some(at) = self.places[place].iter().position(|chunk| used(chunk) && !chunk.busy) {
                let chunk = &mut self.places[place][at];
                chunk.busy = true;
                return Some((
                    at as u32,
                    Command::new(0, Opcode::Chunk(ChunkOp::Reset), chunk.first, 0, Vec::new()),
                ));
            }
            if self.places[place].iter().any(used) {
                return None;
            }
        }
        if running.waiting.front() == Some(&(running.pages - 1)) && running.left > 1 {
            return None;
        }
        let (sectors, full) = (self.page_sectors, self.chunk_sectors);
        let able =
            |chunk: &Chunk| !chunk.dead && !chunk.closed && !chunk.busy && chunk.written + sectors <= full;
        let least = self.places[place]
            .iter()
            .enumerate()
            .filter(|(_, chunk)| able(chunk))
            .min_by_key(|(_, c)| c.written);
        let at = least.map(|(at, _)| at)?;
        let page = running.waiting.pop_front()?;
        let data = self.page(page);
        let chunk = &mut self.places[place][at];
        (chunk.busy, chunk.page) = (true, page);
        let lba = Lba(chunk.first.0 + u64::from(chunk.written));
        Some((at as u32, Command::new(0, Opcode::Write, lba, sectors, data)))
    }

    fn page(&self, page: u32) -> Vec<u8> {
        let mut data = vec![0; self.page_sectors as usize * self.image_bytes];
        let running = self.running.as_ref().expect("a checkpoint under way");
        if self.keeps_data() {
            let most = self.page_bytes - HEADER_BYTES;
            let payload = running.bytes.chunks(most).nth(page as usize).unwrap_or_default();
            data[..8].copy_from_slice(&MAGIC.to_le_bytes());
            data[8..16].copy_from_slice(&self.number.to_le_bytes());
            for (at, word) in [(16, page), (20, running.pages), (24, payload.len() as u32)] {
                data[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
            let sum = checksum(&data[..28], payload);
            data[28..32].copy_from_slice(&sum.to_le_bytes());
            data[HEADER_BYTES..HEADER_BYTES + payload.len()].copy_from_slice(payload);
        }
        data
    }

    /// Ends a command for chunk `at`. Returns the result of the checkpoint, if it ended too.
    pub fn ended(&mut self, at: u32, completion: &Completion) -> Option<End> {
        let ok = completion.status == Status::Success;
        let (place, sectors) = (self.current, self.page_sectors);
        let chunk = &mut self.places[place][at as usize];
        chunk.busy = false;
        if completion.opcode == Opcode::Chunk(ChunkOp::Reset) {
            (chunk.written, chunk.closed, chunk.dead) = (0, false, !ok);
            return self.end_if_stuck();
        }
        let page = chunk.page;
        chunk.written += sectors;
        let running = self.running.as_mut()?;
        if !ok {
            chunk.dead = true;
            running.waiting.push_front(page);
            return self.end_if_stuck();
        }
        running.left -= 1;
        self.pages_written += 1;
        if running.left > 0 {
            // A page that failed before may be left without space.
            return self.end_if_stuck();
        }
        self.newest = Some(place);
        self.saved += 1;
        let bytes = self.running.take().map(|running| running.bytes);
        self.kept = bytes.filter(|_| !self.keeps_data());
        Some(End::Saved)
    }

    /// Returns whether the waiting pages do not fit in the current place.
    fn is_stuck(&self) -> bool {
        let busy = self.places[self.current].iter().any(|chunk| chunk.busy);
        let waiting = self.running.as_ref().map_or(0, |running| running.waiting.len() as u32);
        !busy && waiting > self.room(self.current, false)
    }

    /// Restarts the checkpoint at the other place, if the waiting pages have no space here and the other place does not hold the newest
    /// one.
    fn end_if_stuck(&mut self) -> Option<End> {
        if !self.is_stuck() {
            return None;
        }
        let running = self.running.take().expect("pages that wait are of one");
        let again = self.newest == Some(self.current) && self.begin_at(1 - self.current, running.bytes);
        (!again).then_some(End::Failed)
    }

    pub fn memory_bytes(&self) -> u64 {
        let running = self.running.as_ref().map_or(0, |running| running.bytes.len());
        let chunks: usize = self.places.iter().map(|place| place.len() * size_of::<Chunk>()).sum();
        (running + self.kept.as_ref().map_or(0, Vec::len) + chunks) as u64
    }
}

fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(header), payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::{SimTime, StageTimes};

    const SECTOR: usize = 64;

    fn saver() -> Saver {
        Saver::new([vec![Lba(0), Lba(100)], vec![Lba(200), Lba(300)]], 1, 6, (SECTOR, SECTOR))
    }

    /// The pages of a checkpoint, in the order in which they reach the media.
    fn save(saver: &mut Saver, bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
        save_with(saver, bytes, |_| Status::Success)
    }

    /// Saves a checkpoint where the write of page n ends with `status(n)`; returns its pages.
    fn save_with(saver: &mut Saver, bytes: &[u8], status: impl Fn(usize) -> Status) -> Vec<(usize, Vec<u8>)> {
        assert!(saver.begin(bytes.to_vec()));
        let mut pages = Vec::new();
        let mut writes = 0;
        loop {
            let asked: Vec<_> = std::iter::from_fn(|| saver.next_command()).collect();
            assert!(!asked.is_empty(), "the checkpoint waits for nothing");
            for (at, command) in asked {
                let mut ends = Status::Success;
                if command.opcode == Opcode::Write {
                    (ends, writes) = (status(writes), writes + 1);
                    if ends == Status::Success {
                        pages.push((saver.current, command.data.clone()));
                    }
                }
                let ended = command.ended(ends, SimTime::ZERO, SimTime::ZERO, StageTimes::ZERO);
                if let Some(end) = saver.ended(at, &ended) {
                    assert_eq!(end, End::Saved);
                    return pages;
                }
            }
        }
    }

    /// Pages of the newer of two checkpoints are missing, in all combinations.
    #[test]
    fn an_older_checkpoint_is_taken_only_where_the_newer_was_not_finished() {
        let mut writer = saver();
        let (older, newer) = (vec![1; 70], vec![2; 90]);
        let (first, second) = (save(&mut writer, &older), save(&mut writer, &newer));
        assert_eq!((first.len(), second.len()), (4, 4), "three pages and the seal");
        for mask in 0..16u32 {
            let mut reader = saver();
            let there = second.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, page)| page);
            for (place, data) in first.iter().chain(there) {
                reader.found_page(*place, data);
            }
            let found = reader.newest();
            match (mask & 7 == 7, mask & 8 == 8) {
                (true, _) => assert_eq!(found, Ok(Some(newer.clone())), "{mask:04b}"),
                (false, false) => assert_eq!(found, Ok(Some(older.clone())), "{mask:04b}"),
                (false, true) => {
                    let missing = 3 - (mask & 7).count_ones();
                    let sentence = found.expect_err("it was finished");
                    assert!(sentence.contains(&format!("{missing} of 3 pages")), "{sentence}");
                }
            }
        }
    }

    /// Remains of an older checkpoint do not hide a complete one: a place is erased chunk by chunk.
    #[test]
    fn what_is_left_of_an_erased_checkpoint_is_passed_by() {
        let mut writer = saver();
        let (first, second) = (save(&mut writer, &[1; 70]), save(&mut writer, &[2; 90]));
        let mut reader = saver();
        for (place, data) in first[2..].iter().chain(&second) {
            reader.found_page(*place, data);
        }
        assert_eq!(reader.newest(), Ok(Some(vec![2; 90])));
    }

    /// A write fails in the last space of a place, while another one is under way or not: the checkpoint goes to the other place.
    #[test]
    fn a_place_without_room_for_a_page_again_is_left() {
        for failing in 0..2 {
            let mut writer = saver();
            for version in 1..=2 {
                save(&mut writer, &[version; 70]);
            }
            assert_eq!(
                (writer.current, writer.room(0, false)),
                (0, 4),
                "room for one more, if nothing fails"
            );
            let pages = save_with(&mut writer, &[3; 70], |write| {
                if write == failing { Status::WriteFault } else { Status::Success }
            });
            let mut reader = saver();
            pages.iter().for_each(|(place, data)| reader.found_page(*place, data));
            assert_eq!((reader.newest(), writer.newest), (Ok(Some(vec![3; 70])), Some(1)));
        }
    }
}
