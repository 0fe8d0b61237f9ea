//! Data path of the storage controller: from the data that a host wrote to the bits that the cells hold, and back.
//!
//! ```text
//!  program   data ─► BCH parity per chunk ─► XOR with the scrambler's stream of the row ─► stored
//!  read      stored ─► wrong bits flipped ─► the same XOR ─► BCH decoder ─► data, or uncorrectable
//! ```
//! The order is that of Kwak et al., "COSMOS+ OpenSSD", ACM TOS 16(3), 2020, section 3.2: the code word is scrambled, its
//! parity included. A unit is stored as its data and then, where code words are stored, the parity of its chunks.
//!
//! Guarantee: a chunk with more wrong bits than the code corrects is never returned as good. The decoder miscorrects some of these to
//! another code word (`examples/ecc-throughput.rs` measures how many). The drive knows what it stored and reports such a chunk as
//! uncorrectable, as the checksum over a sector does in a real drive. Miscorrections are counted.

use crate::MediaConfig;
use crate::bit_errors::{PageState, Pattern};
use crate::config::{Cell, StoreKind};
use crate::ecc::{Bch, PageEcc};
use crate::error_source::{Cells, ErrorSource};
use crate::integrity::{EccData, cell_in_use};
use crate::scrambler::scramble_from;
use pellucid_flash::Layout;

/// The part of a unit that lies on one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// Page of the block.
    pub page: u32,
    /// Plane of the superpage.
    pub plane: u32,
    /// Byte of the page at which it starts.
    pub offset: u32,
    /// Byte of the unit at which it starts.
    pub start: u32,
}

/// Placement of units on pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitShape {
    unit_bytes: u32,
    page_bytes: u32,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    planes: u32,
    one_shot: u32,
    /// Pages of a word line.
    page_types: u32,
    pages_per_block: u32,
}

impl UnitShape {
    fn new(config: &MediaConfig, layout: &Layout) -> UnitShape {
        let geometry = &config.geometry;
        UnitShape {
            unit_bytes: layout.unit_bytes,
            page_bytes: geometry.page_bytes,
            segment_bytes: layout.unit_bytes.min(geometry.page_bytes),
            planes: if geometry.multi_plane { geometry.planes } else { 1 },
            one_shot: geometry.one_shot_pages,
            page_types: cell_in_use(config).bits(),
            pages_per_block: geometry.pages,
        }
    }

    /// The segments of a unit, in order.
    fn segments(self, superpage: u32, unit: u32) -> impl Iterator<Item = Segment> {
        (0..self.unit_bytes).step_by(self.segment_bytes as usize).map(move |start| {
            let at = u64::from(unit) * u64::from(self.unit_bytes) + u64::from(start);
            let (slot, offset) = ((at / u64::from(self.page_bytes)) as u32, at % u64::from(self.page_bytes));
            let page = superpage * self.one_shot + slot / self.planes;
            Segment { page, plane: slot % self.planes, offset: offset as u32, start }
        })
    }

    /// The row address of a segment's page, which seeds the scrambler.
    fn row(self, at: UnitPlace, segment: Segment) -> u32 {
        at.block * self.pages_per_block + segment.page
    }

    /// Location of the data that the other page of an MLC word line stores in the same cells: superpage, unit of the superpage, byte of
    /// the unit.
    pub fn partner(self, segment: Segment) -> (u32, u32, u32) {
        let page = segment.page ^ 1;
        let slot = u64::from(page % self.one_shot * self.planes + segment.plane);
        let at = slot * u64::from(self.page_bytes) + u64::from(segment.offset);
        let unit_bytes = u64::from(self.unit_bytes);
        (page / self.one_shot, (at / unit_bytes) as u32, (at % unit_bytes) as u32)
    }
}

/// A unit's place on the media, as the data path needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitPlace {
    /// Block of the die.
    pub block: u32,
    pub superpage: u32,
    /// Unit of the superpage.
    pub unit: u32,
}

/// Errors that a read finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Wrong bits in codewords that can be corrected.
    pub bits: u32,
    /// Wrong bits in the worst codeword.
    pub worst: u32,
    /// Some codeword has more wrong bits than can be corrected.
    pub lost: bool,
}

/// Encoder, decoder, scrambler, and the source of wrong bits.
#[derive(Clone, Debug)]
pub(crate) struct DataPath {
    code: Bch,
    data: EccData,
    scrambler: bool,
    cell: Cell,
    pub shape: UnitShape,
    errors: Option<ErrorSource>,
    /// Wrong bits by chunk of the unit.
    counts: Vec<u32>,
    /// One code word.
    word: Vec<u8>,
    /// Chunks with too many wrong bits that the decoder took for another code word.
    pub miscorrected: u64,
    /// Chunks that were read, by wrong bits; the last place is for more than the code corrects.
    pub chunks_by_wrong_bits: Vec<u64>,
}

impl DataPath {
    /// Creates the path of checked media; `None` where data are stored unprotected and without errors.
    pub fn new(config: &MediaConfig, layout: &Layout, code: Option<&PageEcc>) -> Option<DataPath> {
        let integrity = &config.integrity;
        let (code, ecc) = (code?.code(), integrity.ecc?);
        if !integrity.stores_code_words() && integrity.bit_errors.is_none() {
            return None;
        }
        let word_bits = (8 * code.chunk_bytes() + code.parity_bits()) as u32;
        Some(DataPath {
            data: ecc.data,
            scrambler: integrity.scrambler,
            cell: cell_in_use(config),
            shape: UnitShape::new(config, layout),
            errors: integrity.bit_errors.map(|errors| ErrorSource::new(errors, config.seed, word_bits)),
            counts: vec![0; layout.unit_bytes as usize / code.chunk_bytes()],
            word: vec![0; code.chunk_bytes() + code.parity_bytes()],
            miscorrected: 0,
            chunks_by_wrong_bits: vec![0; code.strength() + 2],
            code: code.clone(),
        })
    }

    /// Bytes of parity stored with each unit.
    pub fn stored_parity_bytes(config: &MediaConfig, layout: &Layout, code: Option<&PageEcc>) -> usize {
        match code {
            Some(code) if config.integrity.stores_code_words() => {
                layout.unit_bytes as usize / code.code().chunk_bytes() * code.code().parity_bytes()
            }
            _ => 0,
        }
    }

    /// Returns whether code words are stored.
    pub fn stores_code_words(&self) -> bool {
        self.data != EccData::Drawn
    }

    /// Returns whether bits can be wrong.
    pub fn errs(&self) -> bool {
        self.errors.is_some()
    }

    /// Returns whether the error rate depends on the stored data themselves.
    pub fn sees_patterns(&self, store: &StoreKind) -> bool {
        self.errs() && !self.scrambler && self.cell == Cell::Mlc && store.keeps_data()
    }

    /// Stores `data` of a unit as its code words.
    pub fn store(&self, at: UnitPlace, data: &[u8], stored: &mut [u8]) {
        let (target, parity) = stored.split_at_mut(data.len());
        target.copy_from_slice(data);
        let chunks = data.chunks_exact(self.code.chunk_bytes());
        for (chunk, parity) in chunks.zip(parity.chunks_exact_mut(self.code.parity_bytes())) {
            self.code.encode(chunk, parity);
        }
        self.scramble_data(at, 0, target);
        for (chunk, parity) in parity.chunks_exact_mut(self.code.parity_bytes()).enumerate() {
            self.scramble_parity(at, chunk, parity);
        }
    }

    /// Copies bytes of a stored unit, from `start` on, and unscrambles them.
    pub fn reveal(&self, at: UnitPlace, start: usize, stored: &[u8], out: &mut [u8]) {
        out.copy_from_slice(&stored[start..start + out.len()]);
        self.unscramble(at, start, out);
    }

    /// Unscrambles stored bytes of a unit, from `start` on.
    pub fn unscramble(&self, at: UnitPlace, start: usize, out: &mut [u8]) {
        if self.stores_code_words() {
            self.scramble_data(at, start, out);
        }
    }

    /// Returns whether every chunk is decoded, also to find damage to the store itself.
    pub fn always_decodes(&self) -> bool {
        self.data == EccData::Checked
    }

    /// Finds the bits of a unit that are wrong in this read. `address`: the unit's address on the media; `pattern`: the data stored on a
    /// segment and around it.
    pub fn draw(
        &mut self,
        (at, address): (UnitPlace, u32),
        state: PageState,
        attempt: u32,
        factor: f64,
        pattern: impl Fn(Segment) -> Pattern,
    ) -> Found {
        let Some(errors) = &mut self.errors else { return Found::default() };
        errors.wrong.clear();
        let chunks = self.shape.segment_bytes / self.code.chunk_bytes() as u32;
        for segment in self.shape.segments(at.superpage, at.unit) {
            let page_type = segment.page % self.shape.page_types;
            let state = PageState { page_type, pattern: pattern(segment), cell: self.cell, ..state };
            let first_chunk = segment.start / self.code.chunk_bytes() as u32;
            let cells = Cells { unit: address, erases: state.pe_cycles, first_chunk, chunks };
            errors.draw(cells, &state, attempt, factor);
        }
        if errors.wrong.is_empty() {
            self.chunks_by_wrong_bits[0] += self.counts.len() as u64;
            return Found::default();
        }
        self.counts.fill(0);
        errors.wrong.iter().for_each(|wrong| self.counts[wrong.chunk as usize] += 1);
        let most = self.code.strength() + 1;
        self.counts.iter().for_each(|&bits| self.chunks_by_wrong_bits[most.min(bits as usize)] += 1);
        let worst = self.counts.iter().copied().max().unwrap_or(0);
        Found { bits: errors.wrong.len() as u32, worst, lost: worst > self.code.strength() as u32 }
    }

    /// Returns whether the decoder has work to do for a unit with the errors `drawn`.
    pub fn must_decode(&self, drawn: Found) -> bool {
        match self.data {
            EccData::Drawn => false,
            EccData::Real => drawn.bits > 0,
            EccData::Checked => true,
        }
    }

    /// Decodes a stored unit after flipping the bits that were drawn last (`drawn` counts them). Writes the codewords that the decoder
    /// corrects to `out`, which holds the unit's bytes from `start` on as they were stored.
    pub fn decode(
        &mut self,
        at: UnitPlace,
        drawn: Found,
        start: usize,
        stored: &[u8],
        out: &mut [u8],
    ) -> Found {
        let chunk_bytes = self.code.chunk_bytes();
        let (data, parity) = stored.split_at(self.shape.unit_bytes as usize);
        let parity = parity.chunks_exact(self.code.parity_bytes());
        let mut found = Found::default();
        let mut word = std::mem::take(&mut self.word);
        for (i, (chunk, parity)) in data.chunks_exact(chunk_bytes).zip(parity).enumerate() {
            let wrong = if drawn.bits == 0 { 0 } else { self.counts[i] };
            if wrong == 0 && self.data != EccData::Checked {
                continue;
            }
            word[..chunk_bytes].copy_from_slice(chunk);
            word[chunk_bytes..].copy_from_slice(parity);
            let (read, read_parity) = word.split_at_mut(chunk_bytes);
            self.scramble_data(at, i * chunk_bytes, read);
            self.scramble_parity(at, i, read_parity);
            if wrong > 0 {
                self.flip(i as u32, read, read_parity);
            }
            match self.code.decode(read, read_parity) {
                Ok(bits) if wrong <= self.code.strength() as u32 => {
                    found.bits += bits;
                    found.worst = found.worst.max(bits);
                    put_corrected(out, start, read, i * chunk_bytes);
                }
                // More wrong bits than can be corrected, and yet a code word: not the stored one.
                Ok(_) => {
                    self.miscorrected += 1;
                    found.lost = true;
                }
                Err(_) => found.lost = true,
            }
        }
        self.word = word;
        found
    }

    /// Flips the bits of a chunk that were drawn last.
    fn flip(&self, chunk: u32, data: &mut [u8], parity: &mut [u8]) {
        let drawn = self.errors.iter().flat_map(|errors| &errors.wrong);
        for wrong in drawn.filter(|wrong| wrong.chunk == chunk) {
            let bit = wrong.bit as usize;
            let (bytes, bit) =
                if bit < 8 * data.len() { (&mut *data, bit) } else { (&mut *parity, bit - 8 * data.len()) };
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
        }
    }

    /// Scrambles bytes of a unit's data from `start` on, or undoes it.
    fn scramble_data(&self, at: UnitPlace, start: usize, bytes: &mut [u8]) {
        if !self.scrambler {
            return;
        }
        let end = start + bytes.len();
        for segment in self.shape.segments(at.superpage, at.unit) {
            let (from, to) = (segment.start as usize, (segment.start + self.shape.segment_bytes) as usize);
            let (low, high) = (from.max(start), to.min(end));
            if low < high {
                let offset = segment.offset as usize + low - from;
                scramble_from(self.shape.row(at, segment), offset, &mut bytes[low - start..high - start]);
            }
        }
    }

    /// Scrambles or unscrambles the parity of one chunk, which follows the page's data.
    fn scramble_parity(&self, at: UnitPlace, chunk: usize, parity: &mut [u8]) {
        if !self.scrambler {
            return;
        }
        let start = chunk * self.code.chunk_bytes();
        let part = start / self.shape.segment_bytes as usize;
        let segment = self.shape.segments(at.superpage, at.unit).nth(part).expect("a chunk of the unit");
        let in_page = (segment.offset as usize + start - segment.start as usize) / self.code.chunk_bytes();
        let offset = self.shape.page_bytes as usize + in_page * self.code.parity_bytes();
        scramble_from(self.shape.row(at, segment), offset, parity);
    }
}

/// Writes the bytes of a corrected codeword, which starts at `chunk_start` of the unit, into `out`, which starts at `start`.
fn put_corrected(out: &mut [u8], start: usize, chunk: &[u8], chunk_start: usize) {
    let (low, high) = (chunk_start.max(start), (chunk_start + chunk.len()).min(start + out.len()));
    if low < high {
        out[low - start..high - start].copy_from_slice(&chunk[low - chunk_start..high - chunk_start]);
    }
}
