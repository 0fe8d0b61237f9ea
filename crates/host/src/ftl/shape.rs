//! Shape of a target: its range of parallel units and chunks, the parts of a line, and the rules of the drive.
//!
//! To the translation engine a line is a block, and the whole target is one die. A line begins with a superpage that names it (its start), and
//! ends with those that list its pages (its end, the *tail*). The shape never changes, so all may read it.

use super::config::{HostFtlConfig, HostFtlError};
use super::meta;
use pellucid_flash::{BlockId, ChunkAddress, ChunkGeometry, Divisor, Layout, Lba, Ppa, Split};
use pellucid_ftl::Separation;
use std::ops::Range;

/// Returns the number of open chunks per parallel unit that the layer needs: data, translation pages, the
/// line being finished, and GC copies if they have their own lines.
pub(crate) fn open_chunks(separation: Separation) -> u32 {
    3 + u32::from(separation != Separation::Off)
}

/// Sizes and rules of a target.
#[derive(Clone, Debug)]
pub(crate) struct FtlShape {
    pub config: HostFtlConfig,
    /// Bytes that the drive keeps of a sector: all, or a stamp.
    pub image_bytes: usize,
    pub geometry: ChunkGeometry,
    /// Number of parallel units.
    pub units: u32,
    /// Sectors in one write.
    pub superpage_sectors: u32,
    /// Number of writes that fill a chunk.
    pub rows: u32,
    /// Number of superpages that hold a line's end.
    pub tail: u32,
    /// Number of writes after a sector of an open chunk before it can be read (`mw_cunits`).
    pub held_rows: u32,
    /// Maximum number of open chunks per parallel unit, if the drive limits them.
    pub open_max: Option<u32>,
    /// Layout for the translation engine.
    pub layout: Layout,
    /// The drive's parallel units in superpage order: consecutive ones are in different groups, as in pblk.
    order: Vec<u32>,
    /// Range of the target's chunks in each parallel unit.
    range: Range<u32>,
    by_units: Divisor,
}

fn refuse<T>(key: &'static str, value: impl Into<u64>, allowed: String) -> Result<T, HostFtlError> {
    Err(HostFtlError::Setting { key, value: value.into(), allowed })
}

/// Orders parallel units so that neighbours are in different groups, which share no resources.
fn rotation(geometry: &ChunkGeometry, range: Range<u32>) -> Vec<u32> {
    let mut order: Vec<u32> = range.collect();
    order.sort_by_key(|number| (number % geometry.units, number / geometry.units));
    order
}

/// Returns the number of the target's parallel units.
fn unit_count(config: &HostFtlConfig, geometry: &ChunkGeometry) -> Result<u32, HostFtlError> {
    let all = geometry.parallel_units();
    if config.first_unit >= all {
        return refuse("host.ftl.first_unit", config.first_unit, format!("0 to {}", all - 1));
    }
    let left = all - config.first_unit;
    let units = if config.units == 0 { left } else { config.units };
    if units > left {
        return refuse("host.ftl.units", units, format!("1 to {left}, for the drive has {all}"));
    }
    Ok(units)
}

/// Returns the number of sectors in a write.
fn superpage_size(config: &HostFtlConfig, geometry: &ChunkGeometry) -> Result<u32, HostFtlError> {
    let superpage = geometry.write_optimal_sectors * config.write_units.max(1);
    if superpage == 0 || !geometry.chunk_sectors.is_multiple_of(superpage) {
        let writes = geometry.chunk_sectors / superpage.max(1);
        let allowed = format!("a divisor of the {writes} best writes of a chunk");
        return refuse("host.ftl.write_units", config.write_units, allowed);
    }
    if geometry.cached_sectors > 0 && config.write_units > 1 {
        let allowed = "1 on a drive that holds sectors back (mw_cunits): half a write could not be read after a power cut";
        return refuse("host.ftl.write_units", config.write_units, allowed.into());
    }
    if geometry.cached_sectors > 0 && config.separation != Separation::Off {
        // GC copies are rare: the sectors that the drive holds back of their open line would fill the
        // ring, and block further writes.
        let allowed = "0 with host.ftl.separation = \"gc-copies\": what is held back of two open lines would fill the buffer";
        return refuse("drive.namespace.cached", geometry.cached_sectors, allowed.into());
    }
    Ok(superpage)
}

/// Returns the maximum number of open chunks per parallel unit, if the drive limits them.
fn open_limit(
    config: &HostFtlConfig,
    geometry: &ChunkGeometry,
    units: u32,
) -> Result<Option<u32>, HostFtlError> {
    let open = open_chunks(config.separation);
    let limits = [
        ("drive.namespace.open_per_unit_max", geometry.open_chunks_per_unit_max, open),
        ("drive.namespace.open_max", geometry.open_chunks_max, open.saturating_mul(units)),
    ];
    if let Some(&(key, limit, least)) = limits.iter().find(|&&(_, limit, least)| 0 < limit && limit < least) {
        let allowed = format!(
            "0, or at least {least}: of each unit those of data, map, GC copies if apart, and the line being finished"
        );
        return refuse(key, limit, allowed);
    }
    Ok(limits.iter().any(|&(_, limit, _)| limit > 0).then_some(open))
}

/// Returns the range of the target's chunks in each parallel unit.
fn chunk_range(config: &HostFtlConfig, geometry: &ChunkGeometry) -> Result<Range<u32>, HostFtlError> {
    let HostFtlConfig { first_chunk: first, chunks, spare_chunks, .. } = *config;
    if first >= geometry.chunks {
        return refuse("host.ftl.first_chunk", first, format!("0 to {}", geometry.chunks - 1));
    }
    let left = geometry.chunks - first;
    if chunks > left {
        let allowed = format!("1 to {left}, for each unit has {}", geometry.chunks);
        return refuse("host.ftl.chunks", chunks, allowed);
    }
    let range = first..first + if chunks == 0 { left } else { chunks };
    let chunks = range.len() as u32;
    if u64::from(spare_chunks) + 4 > chunks.into() {
        let allowed = format!("0 to {}: 4 lines at least", chunks.saturating_sub(4));
        return refuse("host.ftl.spare_chunks", spare_chunks, allowed);
    }
    Ok(range)
}

/// Returns the number of superpages of a line's data, and of its end; 0 of data if a line cannot hold any.
fn parts_of_line(total: u64, superpage: u32, superpage_bytes: u64) -> (u32, u32) {
    // A line that is too long gets no end, because searching for one would not pay.
    let total = if total * u64::from(superpage) < u64::from(u32::MAX) { total as u32 } else { 0 };
    let tail = (1..total).find(|&tail| {
        let data = total - 1 - tail;
        meta::end_bytes(data, data * superpage) <= u64::from(tail) * superpage_bytes
    });
    (tail.map_or(0, |tail| total - 1 - tail), tail.unwrap_or(0))
}

/// Returns the layout of `lines` lines with `data` superpages of data each: one die, whose blocks are the lines.
fn layout_of(lines: u32, data: u32, superpage: u32, sector_bytes: u32) -> Layout {
    Layout {
        channels: 1,
        dies_per_channel: 1,
        dies: 1,
        blocks_per_die: lines,
        blocks: lines,
        superpages_per_block: data,
        units_per_superpage: superpage,
        units_per_block: data * superpage,
        units: lines * data * superpage,
        sectors_per_unit: 1,
        sector_bytes,
        unit_bytes: sector_bytes,
        spare_bytes_per_unit: meta::OOB_BYTES as u32,
        pages_per_unit: 1,
        split: Split::new(data * superpage, superpage, lines, 1),
    }
}

impl FtlShape {
    /// Cuts a target out of a drive.
    pub fn new(
        config: &HostFtlConfig,
        geometry: &ChunkGeometry,
        image_bytes: usize,
    ) -> Result<FtlShape, HostFtlError> {
        let units = unit_count(config, geometry)?;
        let superpage = superpage_size(config, geometry)?;
        let open_max = open_limit(config, geometry, units)?;
        let range = chunk_range(config, geometry)?;
        let rows = geometry.chunk_sectors / superpage;
        let superpage_bytes = u64::from(superpage) * u64::from(geometry.sector_bytes);
        if meta::start_bytes(units) > superpage_bytes {
            let allowed = format!("fewer: the start of a line must fit into {superpage_bytes} bytes");
            return refuse("host.ftl.units", units, allowed);
        }
        let (data, tail) = parts_of_line(u64::from(rows) * u64::from(units), superpage, superpage_bytes);
        let lines = range.len() as u32 - config.spare_chunks;
        let sectors = u64::from(lines) * u64::from(data) * u64::from(superpage);
        if data == 0 || sectors >= u64::from(u32::MAX) {
            let allowed = "a range whose lines hold data, below 2^32 sectors in all".into();
            return refuse("host.ftl.units", units, allowed);
        }
        Ok(FtlShape {
            config: config.clone(),
            image_bytes,
            geometry: *geometry,
            units,
            superpage_sectors: superpage,
            rows,
            tail,
            held_rows: geometry.cached_sectors.div_ceil(superpage),
            open_max,
            layout: layout_of(lines, data, superpage, geometry.sector_bytes),
            order: rotation(geometry, config.first_unit..config.first_unit + units),
            range,
            by_units: Divisor::new(units),
        })
    }

    /// Reports whether the drive keeps data, and not only stamps of them.
    pub fn keeps_content(&self) -> bool {
        self.image_bytes == self.geometry.sector_bytes as usize
    }

    /// Returns the number of lines, with those that lack chunks.
    pub fn lines(&self) -> u32 {
        self.layout.blocks
    }

    /// Returns the superpages of a line, including its start and end.
    pub fn superpages(&self) -> u32 {
        self.rows * self.units
    }

    /// Returns the superpages of a record that describes the first `superpages` of a line.
    pub fn record_superpages(&self, superpages: u32) -> u32 {
        let superpage_bytes = u64::from(self.superpage_sectors) * u64::from(self.geometry.sector_bytes);
        meta::end_bytes(superpages, superpages * self.superpage_sectors).div_ceil(superpage_bytes) as u32
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

    /// Returns the row and the parallel unit of a superpage, counted with the line's start and end.
    #[inline]
    pub fn row_and_unit(&self, superpage: u32) -> (u32, u32) {
        self.by_units.div_rem(superpage)
    }

    /// Returns the number of padding superpages after the last write to each chunk of an abandoned line. They
    /// make the earlier sectors readable, or fill the chunk if the drive would otherwise count it as open. 0
    /// leaves the chunks as they are.
    pub fn sealing_rows(&self) -> u32 {
        if self.is_limited() { self.rows } else { self.held_rows }
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
}
