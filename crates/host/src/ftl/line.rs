//! Lines: one chunk from every parallel unit of the target, written and erased together.
//!
//! To the translation engine a line is a block, and the whole target is one die. The superpages of a line
//! rotate over the parallel units:
//!
//! ```text
//!            unit 0     unit 1     unit 2
//!   row 0   [ start ]  [ data 0 ] [ data 1 ]      start: identity of this line, written before anything else in it
//!   row 1   [ data 2 ] [ data 3 ] [ data 4 ]      end:   the logical page of every sector, written after all data
//!   row 2   [ data 5 ] [ data 6 ] [  end   ]
//! ```
//! When the line is erased, a failed chunk is replaced by a spare of its parallel unit; a chunk with a write
//! under way at a power loss is reset like the others. Invariants: every good chunk is in exactly one line or
//! one list of spares; a line is reset only when nothing is being read from it or written to it.

use super::config::{HostFtlConfig, HostFtlError};
use super::meta;
use pellucid_flash::{BlockId, ChunkAddress, ChunkGeometry, Divisor, Layout, Lba, Lpn, Ppa, Split};
use pellucid_ftl::Separation;
use std::ops::Range;

/// Marker for a missing chunk; a line without all its chunks is unusable.
const NONE: u64 = u64::MAX;

/// State of a line beyond the engine's block state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// The write of the start has ended, well or not.
    pub opened: bool,
    /// The line was begun since the last erase.
    pub begun: bool,
    /// Sequence number at which the line was begun.
    pub sequence: u64,
    /// The start could not be written, so the line takes no data.
    pub closed: bool,
    /// Number of data superpages that are planned and have not ended.
    pub in_flight: u32,
    /// Number of data superpages that were written successfully.
    pub written: u32,
    /// Number of sectors being read from the line and of metadata writes to it; the line must not be reset
    /// before they end.
    pub holds: u32,
    /// Parallel units where a write failed. Their chunks take no more data, and the line gets no end.
    pub broken: Vec<u32>,
    /// Chunks that replace broken ones at the next erase: spares, or the same chunks.
    pub replacements: Vec<(u32, Lba)>,
    /// The reset waits for the end of all holds.
    pub erase_waits: bool,
    /// Number of chunk resets under way.
    pub resets: u32,
    /// The chunks become spares after their reset.
    pub retiring: bool,
    /// Content of the line's end, gathered while the line is open.
    pub end: Option<Box<End>>,
    /// Number of superpages of the end that are being written.
    pub ending: u32,
    /// Superpages written to the chunk of each parallel unit, if the drive holds sectors back or limits open
    /// chunks; otherwise empty.
    pub rows: Vec<u32>,
    /// The padding of the chunks of a line without an end ([`Lines::sealing_rows`]) has been planned.
    pub sealed: bool,
}

/// Content of the end of a line.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// Sequence number of each data superpage.
    pub sequences: Vec<u64>,
    /// Logical page of each sector; [`Lpn::NONE`] for padding.
    pub pages: Vec<Lpn>,
}

/// Returns the number of open chunks per parallel unit that the layer needs: data, translation pages, the
/// line being finished, and GC copies if they have their own lines.
pub(crate) fn open_chunks(separation: Separation) -> u32 {
    3 + u32::from(separation != Separation::Off)
}

/// All lines of a target.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    pub geometry: ChunkGeometry,
    /// The drive's parallel units in superpage order: consecutive ones are in different groups, as in pblk.
    order: Vec<u32>,
    /// Number of parallel units.
    pub units: u32,
    /// Range of the target's chunks in each parallel unit.
    range: Range<u32>,
    by_units: Divisor,
    /// Sectors in one write.
    pub superpage_sectors: u32,
    /// Number of writes that fill a chunk.
    pub rows: u32,
    /// Number of superpages that hold a line's end.
    pub tail: u32,
    /// Number of writes after a sector of an open chunk before it can be read (`mw_cunits`).
    pub held_rows: u32,
    /// Maximum number of open chunks per parallel unit, if the drive limits them.
    open_max: Option<u32>,
    /// First sector of each chunk, line by line.
    chunks: Vec<u64>,
    spares: Vec<Vec<u64>>,
    lines: Vec<Line>,
    layout: Layout,
}

/// Orders parallel units so that neighbours are in different groups, which share no resources.
fn rotation(geometry: &ChunkGeometry, range: Range<u32>) -> Vec<u32> {
    let mut order: Vec<u32> = range.collect();
    order.sort_by_key(|number| (number % geometry.units, number / geometry.units));
    order
}

/// Returns the range of the target's chunks in each parallel unit.
fn chunk_range(config: &HostFtlConfig, geometry: &ChunkGeometry) -> Result<Range<u32>, HostFtlError> {
    let HostFtlConfig { first_chunk: first, chunks, .. } = *config;
    let refuse = |key, value: u32, allowed| Err(HostFtlError::Setting { key, value: value.into(), allowed });
    if first >= geometry.chunks {
        return refuse("host.ftl.first_chunk", first, format!("0 to {}", geometry.chunks - 1));
    }
    let left = geometry.chunks - first;
    if chunks > left {
        return refuse(
            "host.ftl.chunks",
            chunks,
            format!("1 to {left}, for each unit has {}", geometry.chunks),
        );
    }
    Ok(first..first + if chunks == 0 { left } else { chunks })
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
    pub fn new(config: &HostFtlConfig, geometry: &ChunkGeometry) -> Result<Lines, HostFtlError> {
        let refuse = |key, value: u64, allowed: String| HostFtlError::Setting { key, value, allowed };
        let all = geometry.parallel_units();
        if config.first_unit >= all {
            let allowed = format!("0 to {}", all - 1);
            return Err(refuse("host.ftl.first_unit", config.first_unit.into(), allowed));
        }
        let units = if config.units == 0 { all - config.first_unit } else { config.units };
        if units > all - config.first_unit {
            let allowed = format!("1 to {}, for the drive has {all}", all - config.first_unit);
            return Err(refuse("host.ftl.units", units.into(), allowed));
        }
        let superpage = geometry.write_optimal_sectors * config.write_units.max(1);
        if superpage == 0 || !geometry.chunk_sectors.is_multiple_of(superpage) {
            let allowed = format!(
                "a divisor of the {} best writes of a chunk",
                geometry.chunk_sectors / superpage.max(1)
            );
            return Err(refuse("host.ftl.write_units", config.write_units.into(), allowed));
        }
        if geometry.cached_sectors > 0 && config.write_units > 1 {
            let allowed = "1 on a drive that holds sectors back (mw_cunits): half a write could not be read after a power cut";
            return Err(refuse("host.ftl.write_units", config.write_units.into(), allowed.into()));
        }
        if geometry.cached_sectors > 0 && config.separation != Separation::Off {
            // GC copies are rare: the sectors that the drive holds back of their open line would fill the
            // ring, and block further writes.
            let allowed = "0 with host.ftl.separation = \"gc-copies\": what is held back of two open lines would fill the buffer";
            return Err(refuse("drive.namespace.cached", geometry.cached_sectors.into(), allowed.into()));
        }
        let open = open_chunks(config.separation);
        let limits = [
            ("drive.namespace.open_per_unit_max", geometry.open_chunks_per_unit_max, open),
            ("drive.namespace.open_max", geometry.open_chunks_max, open.saturating_mul(units)),
        ];
        if let Some(&(key, limit, least)) =
            limits.iter().find(|&&(_, limit, least)| 0 < limit && limit < least)
        {
            let allowed = format!(
                "0, or at least {least}: of each unit those of data, map, GC copies if apart, and the line being finished"
            );
            return Err(refuse(key, limit.into(), allowed));
        }
        let range = chunk_range(config, geometry)?;
        let chunks = range.len() as u32;
        if u64::from(config.spare_chunks) + 4 > chunks.into() {
            let allowed = format!("0 to {}: 4 lines at least", chunks.saturating_sub(4));
            return Err(refuse("host.ftl.spare_chunks", config.spare_chunks.into(), allowed));
        }
        let rows = geometry.chunk_sectors / superpage;
        let superpage_bytes = u64::from(superpage) * u64::from(geometry.sector_bytes);
        if meta::start_bytes(units) > superpage_bytes {
            let allowed = format!("fewer: the start of a line must fit into {superpage_bytes} bytes");
            return Err(refuse("host.ftl.units", units.into(), allowed));
        }
        // A line that is too long gets no end, because searching for one would not pay.
        let total = u64::from(rows) * u64::from(units);
        let total = if total * u64::from(superpage) < u64::from(u32::MAX) { total as u32 } else { 0 };
        let tail = (1..total).find(|&tail| {
            let data = total - 1 - tail;
            meta::end_bytes(data, data * superpage) <= u64::from(tail) * superpage_bytes
        });
        let data = tail.map_or(0, |tail| total - 1 - tail);
        let lines = chunks - config.spare_chunks;
        let sectors = u64::from(lines) * u64::from(data) * u64::from(superpage);
        if data == 0 || sectors >= u64::from(u32::MAX) {
            let allowed = "a range whose lines hold data, below 2^32 sectors in all".into();
            return Err(refuse("host.ftl.units", units.into(), allowed));
        }
        let layout = Layout {
            channels: 1,
            dies_per_channel: 1,
            dies: 1,
            blocks_per_die: lines,
            blocks: lines,
            superpages_per_block: data,
            units_per_superpage: superpage,
            units_per_block: data * superpage,
            units: sectors as u32,
            sectors_per_unit: 1,
            sector_bytes: geometry.sector_bytes,
            unit_bytes: geometry.sector_bytes,
            spare_bytes_per_unit: meta::OOB_BYTES as u32,
            pages_per_unit: 1,
            split: Split::new(data * superpage, superpage, lines, 1),
        };
        Ok(Lines {
            geometry: *geometry,
            order: rotation(geometry, config.first_unit..config.first_unit + units),
            units,
            range,
            by_units: Divisor::new(units),
            superpage_sectors: superpage,
            rows,
            tail: tail.unwrap_or(0),
            held_rows: geometry.cached_sectors.div_ceil(superpage),
            open_max: limits.iter().any(|&(_, limit, _)| limit > 0).then_some(open),
            chunks: vec![NONE; (lines * units) as usize],
            spares: vec![Vec::new(); units as usize],
            lines: vec![Line::default(); lines as usize],
            layout,
        })
    }

    /// Returns the target's layout for the translation engine.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the superpages of a record that describes the first `superpages` of a line.
    pub fn record_superpages(&self, superpages: u32) -> u32 {
        let superpage_bytes = u64::from(self.superpage_sectors) * u64::from(self.geometry.sector_bytes);
        meta::end_bytes(superpages, superpages * self.superpage_sectors).div_ceil(superpage_bytes) as u32
    }

    /// Returns the superpages of a line, including its start and end.
    pub fn superpages(&self) -> u32 {
        self.rows * self.units
    }

    /// Returns the number of chunks from the target's first to its last in the drive's order, including those
    /// of others.
    pub fn span(&self) -> u32 {
        (self.units - 1) * self.geometry.chunks + self.range.len() as u32
    }

    /// Returns the target's first chunk in the drive's order.
    pub fn first_chunk(&self) -> Lba {
        let number = self.order.iter().copied().min().unwrap_or(0);
        let (group, unit) = (number / self.geometry.units, number % self.geometry.units);
        self.geometry.lba(ChunkAddress { group, unit, chunk: self.range.start, sector: 0 })
    }

    /// Returns the parallel unit and the number of the chunk that begins at `lba`.
    pub fn unit_of(&self, lba: Lba) -> Option<(u32, u32)> {
        let address = self.geometry.address(lba).filter(|address| self.range.contains(&address.chunk))?;
        let number = address.group * self.geometry.units + address.unit;
        let unit = self.order.iter().position(|&n| n == number)?;
        Some((unit as u32, address.chunk))
    }

    /// Returns the first sector of the line's chunk in `unit`; `None` if it has none.
    pub fn chunk_of(&self, line: BlockId, unit: u32) -> Option<Lba> {
        let base = self.chunks[(line.0 * self.units + unit) as usize];
        (base != NONE).then_some(Lba(base))
    }

    /// Sets the line's chunk in `unit`.
    pub fn set_chunk(&mut self, line: BlockId, unit: u32, chunk: Option<Lba>) {
        self.chunks[(line.0 * self.units + unit) as usize] = chunk.map_or(NONE, |lba| lba.0);
    }

    /// Reports whether the line has all its chunks.
    pub fn is_whole(&self, line: BlockId) -> bool {
        (0..self.units).all(|unit| self.chunk_of(line, unit).is_some())
    }

    /// Adds a reset chunk to the spares.
    pub fn add_spare(&mut self, unit: u32, chunk: Lba) {
        self.spares[unit as usize].push(chunk.0);
    }

    /// Removes and returns a spare of `unit`.
    pub fn take_spare(&mut self, unit: u32) -> Option<Lba> {
        self.spares[unit as usize].pop().map(Lba)
    }

    /// Returns the parallel unit and first sector of a superpage, counted with the line's start and end.
    pub fn place(&self, line: BlockId, superpage: u32) -> (u32, Lba) {
        let (row, unit) = self.by_units.div_rem(superpage);
        let base = self.chunks[(line.0 * self.units + unit) as usize];
        (unit, Lba(base + u64::from(row * self.superpage_sectors)))
    }

    /// Returns the drive address of a mapping unit of the engine.
    #[inline]
    pub fn address(&self, ppa: Ppa) -> Lba {
        let (line, index) = self.layout.split.units_per_block.div_rem(ppa.0);
        let (superpage, sector) = self.layout.split.units_per_superpage.div_rem(index);
        // Superpage 0 of a line is its start.
        let (row, unit) = self.by_units.div_rem(superpage + 1);
        let base = self.chunks[(line * self.units + unit) as usize];
        Lba(base + u64::from(row * self.superpage_sectors + sector))
    }

    /// Reports whether the drive can return the data at `ppa`: enough was written after it in its chunk, or
    /// the chunk is closed.
    pub fn is_readable(&self, ppa: Ppa) -> bool {
        let line = self.line_of(ppa);
        let record = &self.lines[line.0 as usize];
        let superpage = self.superpage_of(ppa);
        let (row, unit) = self.by_units.div_rem(superpage);
        record.rows.get(unit as usize).is_none_or(|&rows| rows == self.rows || row + self.held_rows < rows)
    }

    /// Returns the number of padding superpages after the last write to each chunk of an abandoned line. They
    /// make the earlier sectors readable, or fill the chunk if the drive would otherwise count it as open. 0
    /// leaves the chunks as they are.
    pub fn sealing_rows(&self) -> u32 {
        if self.open_max.is_some() { self.rows } else { self.held_rows }
    }

    /// Reports whether a write that opens a chunk of `unit` has to wait for the end of another chunk.
    pub fn is_full(&self, unit: u32) -> bool {
        self.open_max.is_some_and(|most| {
            let is_open =
                |line: &&Line| line.rows.get(unit as usize).is_some_and(|rows| (1..self.rows).contains(rows));
            self.lines.iter().filter(is_open).count() as u32 >= most
        })
    }

    /// Reports whether the drive limits open chunks.
    pub fn is_limited(&self) -> bool {
        self.open_max.is_some()
    }

    /// Returns the line that holds `ppa`.
    #[inline]
    pub fn line_of(&self, ppa: Ppa) -> BlockId {
        self.layout.block_of(ppa)
    }

    /// Returns the superpage that holds `ppa`, counted with the line's start.
    #[inline]
    pub fn superpage_of(&self, ppa: Ppa) -> u32 {
        self.layout.superpage_of(ppa) + 1
    }

    /// Notes a planned superpage of data for the line's end.
    pub fn note(&mut self, first: Ppa, sequence: u64, pages: impl Iterator<Item = Lpn>) {
        let (line, at) = (self.line_of(first), self.layout.superpage_of(first) as usize);
        let (superpages, units) =
            (self.layout.superpages_per_block as usize, self.layout.units_per_block as usize);
        let end = self.lines[line.0 as usize].end.get_or_insert_with(|| {
            Box::new(End { sequences: vec![0; superpages], pages: vec![Lpn::NONE; units] })
        });
        end.sequences[at] = sequence;
        let from = at * self.superpage_sectors as usize;
        for (slot, page) in end.pages[from..].iter_mut().zip(pages) {
            *slot = page;
        }
    }

    /// Returns the bytes of memory in use.
    pub fn memory_bytes(&self) -> u64 {
        let ends = self.lines.iter().filter(|l| l.end.is_some()).count() as u64;
        let end_bytes =
            u64::from(self.layout.units_per_block) * 4 + u64::from(self.layout.superpages_per_block) * 8;
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
