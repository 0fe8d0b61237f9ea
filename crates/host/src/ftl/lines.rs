//! Lines: one chunk from every parallel unit of the target, written and erased together.
//!
//! The superpages of a line rotate over the parallel units:
//!
//! ```text
//!            unit 0     unit 1     unit 2
//!   row 0   [ start ]  [ data 0 ] [ data 1 ]      start: identity of this line, written before anything else in it
//!   row 1   [ data 2 ] [ data 3 ] [ data 4 ]      end:   the logical page of every sector, written after all data
//!   row 2   [ data 5 ] [ data 6 ] [  end   ]
//! ```
//! When the line is erased, a failed chunk is replaced by a spare of its parallel unit; a chunk with a write
//! under way at a power loss is reset like the others. Invariant: every good chunk is in exactly one line or
//! one list of spares.

use super::line::Line;
use super::shape::FtlShape;
use pellucid_flash::{BlockId, Lba, Lpn, Ppa};

/// Marker for a missing chunk; a line without all its chunks is unusable.
const NONE: u64 = u64::MAX;

/// All lines of a target.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    shape: FtlShape,
    /// First sector of each chunk, line by line.
    chunks: Vec<u64>,
    spares: Vec<Vec<u64>>,
    lines: Vec<Line>,
}

impl std::ops::Index<BlockId> for Lines {
    type Output = Line;
    #[inline]
    fn index(&self, line: BlockId) -> &Line {
        &self.lines[line.0 as usize]
    }
}

impl std::ops::IndexMut<BlockId> for Lines {
    #[inline]
    fn index_mut(&mut self, line: BlockId) -> &mut Line {
        &mut self.lines[line.0 as usize]
    }
}

impl Lines {
    /// Creates the lines of a target, without chunks.
    pub fn new(shape: FtlShape) -> Lines {
        let lines = shape.lines();
        Lines {
            chunks: vec![NONE; (lines * shape.units) as usize],
            spares: vec![Vec::new(); shape.units as usize],
            lines: vec![Line::default(); lines as usize],
            shape,
        }
    }

    /// Returns the shape of the target.
    #[inline]
    pub fn shape(&self) -> &FtlShape {
        &self.shape
    }

    // ---- chunks

    fn place_of_chunk(&self, line: BlockId, unit: u32) -> usize {
        (line.0 * self.shape.units + unit) as usize
    }

    /// Returns the first sector of the line's chunk in `unit`; `None` if it has none.
    pub fn chunk_of(&self, line: BlockId, unit: u32) -> Option<Lba> {
        let base = self.chunks[self.place_of_chunk(line, unit)];
        (base != NONE).then_some(Lba(base))
    }

    /// Gives a line without a chunk in `unit` this one.
    pub fn set_chunk(&mut self, line: BlockId, unit: u32, chunk: Lba) {
        let at = self.place_of_chunk(line, unit);
        assert_eq!(self.chunks[at], NONE, "a line has two chunks of one parallel unit");
        assert_ne!(chunk.0, NONE, "a chunk lies outside the drive");
        self.chunks[at] = chunk.0;
    }

    /// Puts `next` into the place of the line's chunk in `unit`, which goes out of service.
    pub fn replace_chunk(&mut self, line: BlockId, unit: u32, next: Option<Lba>) {
        let at = self.place_of_chunk(line, unit);
        assert_ne!(next, Some(Lba(self.chunks[at])), "a chunk replaces itself");
        assert_ne!(next, Some(Lba(NONE)), "a chunk lies outside the drive");
        self.chunks[at] = next.map_or(NONE, |lba| lba.0);
    }

    /// Makes the chunks of a line, which are reset, spares.
    pub fn dissolve(&mut self, line: BlockId) {
        for unit in 0..self.shape.units {
            let at = self.place_of_chunk(line, unit);
            let chunk = std::mem::replace(&mut self.chunks[at], NONE);
            if chunk != NONE {
                self.spares[unit as usize].push(chunk);
            }
        }
    }

    /// Reports whether the line has all its chunks.
    pub fn is_whole(&self, line: BlockId) -> bool {
        (0..self.shape.units).all(|unit| self.chunk_of(line, unit).is_some())
    }

    /// Adds a reset chunk to the spares.
    pub fn add_spare(&mut self, unit: u32, chunk: Lba) {
        self.spares[unit as usize].push(chunk.0);
    }

    /// Removes and returns a spare of `unit`.
    pub fn take_spare(&mut self, unit: u32) -> Option<Lba> {
        self.spares[unit as usize].pop().map(Lba)
    }

    // ---- addresses

    /// Returns the parallel unit and first sector of a superpage, counted with the line's start and end.
    pub fn place(&self, line: BlockId, superpage: u32) -> (u32, Lba) {
        let (row, unit) = self.shape.row_and_unit(superpage);
        let base = self.chunks[self.place_of_chunk(line, unit)];
        (unit, Lba(base + u64::from(row * self.shape.superpage_sectors)))
    }

    /// Returns the drive address of a mapping unit of the engine.
    #[inline]
    pub fn address(&self, ppa: Ppa) -> Lba {
        let (line, index) = self.shape.layout.split.units_per_block.div_rem(ppa.0);
        let (superpage, sector) = self.shape.layout.split.units_per_superpage.div_rem(index);
        // Superpage 0 of a line is its start.
        let (row, unit) = self.shape.row_and_unit(superpage + 1);
        let base = self.chunks[(line * self.shape.units + unit) as usize];
        Lba(base + u64::from(row * self.shape.superpage_sectors + sector))
    }

    /// Returns the line that holds `ppa`.
    #[inline]
    pub fn line_of(&self, ppa: Ppa) -> BlockId {
        self.shape.line_of(ppa)
    }

    /// Reports whether the drive can return the data at `ppa`: enough was written after it in its chunk, or
    /// the chunk is closed.
    pub fn is_readable(&self, ppa: Ppa) -> bool {
        let (row, unit) = self.shape.row_and_unit(self.shape.superpage_of(ppa));
        let rows = self[self.line_of(ppa)].rows(unit);
        rows.is_none_or(|rows| rows == self.shape.rows || row + self.shape.held_rows < rows)
    }

    /// Reports whether a write that opens a chunk of `unit` has to wait for the end of another chunk.
    pub fn is_full(&self, unit: u32) -> bool {
        self.shape.open_max.is_some_and(|most| {
            let is_open =
                |line: &&Line| line.rows(unit).is_some_and(|rows| (1..self.shape.rows).contains(&rows));
            self.lines.iter().filter(is_open).count() as u32 >= most
        })
    }

    /// Notes a planned superpage of data for the line's end.
    pub fn note(&mut self, first: Ppa, sequence: u64, pages: impl Iterator<Item = Lpn>) {
        let layout = &self.shape.layout;
        let (line, at) = (layout.block_of(first), layout.superpage_of(first) as usize);
        let sizes = (layout.superpages_per_block as usize, layout.units_per_superpage as usize);
        self.lines[line.0 as usize].note(at, sequence, pages, sizes);
    }

    // ---- checks

    /// Returns the bytes of memory in use.
    pub fn memory_bytes(&self) -> u64 {
        let layout = &self.shape.layout;
        let ends = self.lines.iter().filter(|line| line.end().is_some()).count() as u64;
        let end_bytes = u64::from(layout.units_per_block) * 4 + u64::from(layout.superpages_per_block) * 8;
        (self.chunks.len() * 8 + self.lines.len() * size_of::<Line>()) as u64
            + self.spares.iter().map(|s| s.capacity() as u64 * 8).sum::<u64>()
            + ends * end_bytes
    }

    /// Checks that no chunk is used twice; panics otherwise.
    pub fn check(&self) {
        let mut seen = std::collections::BTreeSet::new();
        let used = self.chunks.iter().filter(|&&c| c != NONE);
        for &chunk in used.chain(self.spares.iter().flatten()) {
            assert!(seen.insert(chunk), "the chunk at sector {chunk} has two places");
        }
    }
}
