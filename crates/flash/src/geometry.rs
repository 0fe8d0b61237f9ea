//! The shape of the media, as the data sheet gives it ([`Geometry`]) and as translation sees it ([`Layout`]).
//!
//! ```text
//! drive > channel > way (chip enable) > die > block > superpage > unit > sector
//!                                        |      |       |       |
//!                    works by itself ----+      |       |       +-- mapping unit: what the map points to
//!                    erased together -----------+       +---------- programmed together
//! ```
//! A *superpage* is the data of one program operation: one page; with multi-plane operation, the same page of every plane; with
//! one-shot programming, every page of a word line (TLC: three). Both multiply. So neither translation nor scheduling knows
//! about planes: they are a property of the superpage. (With independent plane reads, only the scheduler does.)

use crate::{BlockId, DieId, Divisor, Ppa};
use pellucid_setting::{Kind, Settings, size};

/// Far above what any geometry allows, and small enough for 32 bits.
const SIZE: Kind = size(0, 1 << 30);

/// The media's shape as a data sheet gives it. All counts are per parent.
#[derive(Clone, Debug, PartialEq, Eq, Settings)]
pub struct Geometry {
    /// Channels: independent buses between controller and media.
    #[setting(kind = whole(1, Geometry::CHANNELS_MAX as u64))]
    pub channels: u32,
    /// Ways per channel: chip enables that share the bus.
    #[setting(kind = whole(1, Geometry::WAYS_MAX as u64))]
    pub ways: u32,
    /// Dies per way, which operate independently.
    #[setting(kind = whole(1, Geometry::DIES_MAX as u64), default = 1)]
    pub dies: u32,
    /// Planes per die.
    #[setting(kind = whole(1, Geometry::PLANES_MAX as u64), default = 1)]
    pub planes: u32,
    /// Blocks per plane.
    #[setting(kind = whole(1, Geometry::BLOCKS_MAX as u64))]
    pub blocks: u32,
    /// Pages per block, in the mode used.
    ///
    /// An MLC block in SLC mode has half of its pages.
    #[setting(kind = whole(1, Geometry::PAGES_MAX as u64))]
    pub pages: u32,
    /// Data bytes of one page.
    #[setting(key = "page_size", kind = SIZE)]
    pub page_bytes: u32,
    /// Spare (out-of-band) bytes of one page, transferred with its data.
    #[setting(key = "spare_size", kind = SIZE, default = 0)]
    pub spare_bytes: u32,
    /// Host sector (logical block).
    #[setting(key = "sector_size", kind = SIZE, default = "4KiB")]
    pub sector_bytes: u32,
    /// Mapping unit: what one entry of the mapping table covers.
    ///
    /// A whole number of sectors; divides the superpage.
    #[setting(key = "unit_size", kind = SIZE, default = "4KiB")]
    pub unit_bytes: u32,
    /// Planes of a die always operate together.
    #[setting(default = false)]
    pub multi_plane: bool,
    /// Pages of a word line that one program writes.
    ///
    /// 1, or 3 for one-shot TLC.
    #[setting(kind = whole(1, Geometry::ONE_SHOT_PAGES_MAX as u64), default = 1)]
    pub one_shot_pages: u32,
}

/// The shape that translation and scheduling use, derived from a [`Geometry`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Channels.
    pub channels: u32,
    /// Dies on each channel (ways x dies per way).
    pub dies_per_channel: u32,
    /// Dies in all.
    pub dies: u32,
    /// Erase units per die.
    pub blocks_per_die: u32,
    /// Erase units in all.
    pub blocks: u32,
    /// Program units per erase unit.
    pub superpages_per_block: u32,
    /// Mapping units per program unit.
    pub units_per_superpage: u32,
    /// Mapping units per erase unit.
    pub units_per_block: u32,
    /// Mapping units in all.
    pub units: u32,
    /// Host sectors per mapping unit (at most 64).
    pub sectors_per_unit: u32,
    /// Host sector bytes.
    pub sector_bytes: u32,
    /// Mapping-unit bytes.
    pub unit_bytes: u32,
    /// Spare bytes that travel with one mapping unit.
    pub spare_bytes_per_unit: u32,
    /// Pages (of one plane) that one mapping unit touches; 1 unless a unit is larger than a page.
    pub pages_per_unit: u32,
    /// How addresses are taken apart; of the counts above.
    pub split: Split,
}

/// The divisors of a [`Layout`]: addresses are taken apart for every operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Mapping units per block.
    pub units_per_block: Divisor,
    /// Mapping units per superpage.
    pub units_per_superpage: Divisor,
    /// Blocks per die; 1 where there are none.
    pub blocks_per_die: Divisor,
    /// Sectors per mapping unit.
    pub sectors_per_unit: Divisor,
}

impl Split {
    /// For these counts.
    pub const fn new(
        units_per_block: u32,
        units_per_superpage: u32,
        blocks_per_die: u32,
        sectors_per_unit: u32,
    ) -> Split {
        let blocks = if blocks_per_die == 0 { 1 } else { blocks_per_die };
        Split {
            units_per_block: Divisor::new(units_per_block),
            units_per_superpage: Divisor::new(units_per_superpage),
            blocks_per_die: Divisor::new(blocks),
            sectors_per_unit: Divisor::new(sectors_per_unit),
        }
    }
}

/// Why a geometry is refused: the key, its value and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} = {}: {}", .key, .value, .allowed)]
pub struct GeometryError {
    /// The offending key, as in the TOML description.
    pub key: &'static str,
    /// Rejected value.
    pub value: u64,
    /// Allowed values.
    pub allowed: String,
}

impl Geometry {
    /// The most channels.
    pub const CHANNELS_MAX: u32 = 256;
    /// The most ways of a channel: its dies, ways x dies, are a bit each.
    pub const WAYS_MAX: u32 = 64;
    /// The most dies of a way.
    pub const DIES_MAX: u32 = 16;
    /// The most planes of a die.
    pub const PLANES_MAX: u32 = 16;
    /// The most blocks of a plane.
    pub const BLOCKS_MAX: u32 = 1 << 20;
    /// The most pages of a block.
    pub const PAGES_MAX: u32 = 1 << 16;
    /// The most pages that one program writes: a word line of QLC.
    pub const ONE_SHOT_PAGES_MAX: u32 = 4;

    /// Checks each field, and what one program writes.
    fn check(&self) -> Result<(), GeometryError> {
        for (key, value, max) in [
            ("channels", self.channels, Geometry::CHANNELS_MAX),
            ("ways", self.ways, Geometry::WAYS_MAX),
            ("dies", self.dies, Geometry::DIES_MAX),
            ("planes", self.planes, Geometry::PLANES_MAX),
            ("blocks", self.blocks, Geometry::BLOCKS_MAX),
            ("pages", self.pages, Geometry::PAGES_MAX),
        ] {
            if value == 0 || value > max {
                return refuse(key, value.into(), &format!("allowed: 1 to {max}"));
            }
        }
        if self.blocks < 4 {
            return refuse(
                "blocks",
                self.blocks.into(),
                "allowed: at least 4 per plane, so that GC can work",
            );
        }
        if self.ways * self.dies > Geometry::WAYS_MAX {
            return refuse("ways", self.ways.into(), "allowed: ways x dies at most 64 on a channel");
        }
        if !self.sector_bytes.is_power_of_two() || !(512..=65_536).contains(&self.sector_bytes) {
            return refuse(
                "sector_bytes",
                self.sector_bytes.into(),
                "allowed: a power of two from 512 to 65536",
            );
        }
        if self.page_bytes == 0 || !self.page_bytes.is_multiple_of(512) || self.page_bytes > 1 << 20 {
            return refuse("page_bytes", self.page_bytes.into(), "allowed: a multiple of 512 up to 1 MiB");
        }
        if self.one_shot_pages == 0
            || self.one_shot_pages > Geometry::ONE_SHOT_PAGES_MAX
            || !self.pages.is_multiple_of(self.one_shot_pages)
        {
            return refuse("one_shot_pages", self.one_shot_pages.into(), "allowed: 1 to 4, dividing pages");
        }
        let unit = self.unit_bytes;
        if unit == 0 || !unit.is_multiple_of(self.sector_bytes) || unit / self.sector_bytes > 64 {
            return refuse("unit_bytes", unit.into(), "allowed: 1 to 64 whole sectors (sector_bytes)");
        }
        let superpage_bytes = self.superpage_bytes();
        if !superpage_bytes.is_multiple_of(unit.into()) || superpage_bytes / u64::from(unit) > 256 {
            return refuse(
                "unit_bytes",
                unit.into(),
                "allowed: a divisor of what one program writes (page_bytes x planes if multi_plane x one_shot_pages), at most 256 to a program",
            );
        }
        if !(unit.is_multiple_of(self.page_bytes) || self.page_bytes.is_multiple_of(unit)) {
            return refuse("unit_bytes", unit.into(), "allowed: a divisor or a multiple of page_bytes");
        }
        Ok(())
    }

    /// Bytes that one program writes.
    fn superpage_bytes(&self) -> u64 {
        let planes = if self.multi_plane { self.planes } else { 1 };
        u64::from(self.page_bytes) * u64::from(planes * self.one_shot_pages)
    }

    /// Checks the shape and derives the [`Layout`].
    pub fn layout(&self) -> Result<Layout, GeometryError> {
        self.check()?;
        let unit = self.unit_bytes;
        let dies_per_channel = self.ways * self.dies;
        let dies = self.channels * dies_per_channel;
        let blocks_per_die = self.blocks * if self.multi_plane { 1 } else { self.planes };
        let units_per_superpage = (self.superpage_bytes() / u64::from(unit)) as u32;
        let superpages_per_block = self.pages / self.one_shot_pages;
        let units_per_block = units_per_superpage * superpages_per_block;
        let blocks = u64::from(dies) * u64::from(blocks_per_die);
        let units = blocks * u64::from(units_per_block);
        if units >= u64::from(u32::MAX) {
            return refuse(
                "unit_bytes",
                unit.into(),
                "allowed: fewer than 2^32 - 1 mapping units in the drive; use a larger unit_bytes or a smaller drive",
            );
        }
        Ok(Layout {
            channels: self.channels,
            dies_per_channel,
            dies,
            blocks_per_die,
            blocks: blocks as u32,
            superpages_per_block,
            units_per_superpage,
            units_per_block,
            units: units as u32,
            sectors_per_unit: unit / self.sector_bytes,
            sector_bytes: self.sector_bytes,
            unit_bytes: unit,
            spare_bytes_per_unit: (u64::from(self.spare_bytes) * u64::from(unit) / u64::from(self.page_bytes))
                as u32,
            pages_per_unit: unit.div_ceil(self.page_bytes),
            split: Split::new(units_per_block, units_per_superpage, blocks_per_die, unit / self.sector_bytes),
        })
    }
}

fn refuse<T>(key: &'static str, value: u64, allowed: &str) -> Result<T, GeometryError> {
    Err(GeometryError { key, value, allowed: allowed.into() })
}

impl Layout {
    /// Returns this layout with another number of blocks in each die, perhaps none.
    pub fn with_blocks_per_die(&self, blocks_per_die: u32) -> Layout {
        let blocks = self.dies * blocks_per_die;
        Layout {
            blocks_per_die,
            blocks,
            units: blocks * self.units_per_block,
            split: Split::new(
                self.units_per_block,
                self.units_per_superpage,
                blocks_per_die,
                self.sectors_per_unit,
            ),
            ..self.clone()
        }
    }

    /// The block that holds `ppa`.
    #[inline]
    pub fn block_of(&self, ppa: Ppa) -> BlockId {
        BlockId(self.split.units_per_block.quotient(ppa.0))
    }

    /// The position of `ppa` inside its block, in mapping units.
    #[inline]
    pub fn index_in_block(&self, ppa: Ppa) -> u32 {
        self.split.units_per_block.remainder(ppa.0)
    }

    /// The superpage of its block that holds `ppa`.
    #[inline]
    pub fn superpage_of(&self, ppa: Ppa) -> u32 {
        self.split.units_per_superpage.quotient(self.index_in_block(ppa))
    }

    /// The die that holds `block`.
    #[inline]
    pub fn die_of_block(&self, block: BlockId) -> DieId {
        DieId(self.split.blocks_per_die.quotient(block.0))
    }

    /// The die that holds `ppa`.
    #[inline]
    pub fn die_of(&self, ppa: Ppa) -> DieId {
        self.die_of_block(self.block_of(ppa))
    }

    /// The mapping unit that holds a sector of the drive, and the sector's place in it.
    #[inline]
    pub fn unit_of(&self, sector: u64) -> (u32, u32) {
        match u32::try_from(sector) {
            Ok(sector) => self.split.sectors_per_unit.div_rem(sector),
            Err(_) => {
                let per_unit = u64::from(self.sectors_per_unit);
                ((sector / per_unit) as u32, (sector % per_unit) as u32)
            }
        }
    }

    /// The mapping units that `sectors` sectors from the beginning of one on take.
    #[inline]
    pub fn units_of(&self, sectors: u32) -> u32 {
        self.split.sectors_per_unit.quotient(sectors + self.sectors_per_unit - 1)
    }

    /// The channel of `die`.
    #[inline]
    pub fn channel_of(&self, die: DieId) -> u32 {
        die.0 / self.dies_per_channel
    }

    /// The address of unit `index` of `block`.
    #[inline]
    pub fn ppa(&self, block: BlockId, index: u32) -> Ppa {
        Ppa(block.0 * self.units_per_block + index)
    }

    /// The first block of `die`.
    #[inline]
    pub fn first_block(&self, die: DieId) -> BlockId {
        BlockId(die.0 * self.blocks_per_die)
    }

    /// Bytes of the whole media, without spare.
    pub fn media_bytes(&self) -> u64 {
        u64::from(self.units) * u64::from(self.unit_bytes)
    }
}
