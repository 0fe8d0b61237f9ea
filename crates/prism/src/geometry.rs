//! Geometry of an application's flash, and the only conversion between its addresses and those of the port.

use crate::{FlashAddress, LevelError};
use pellucid_flash::{ChunkAddress, ChunkGeometry, Interface, Layout, Lba, Split};
use std::fmt;

/// `SSD_geometry` of the paper (its figure 3), as shown by every level.
///
/// A page is the minimum write, `ws_min` of the open-channel namespace. All channels have the same number of LUNs, each with the same number of
/// blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SsdGeometry {
    /// Channels.
    pub channel_count: u32,
    /// LUNs of each channel.
    pub luns_each_channel: u32,
    /// Blocks of each LUN.
    pub blocks_each_lun: u32,
    /// Pages of each block.
    pub pages_each_block: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
}

impl SsdGeometry {
    /// Returns the geometry of an open-channel namespace.
    pub const fn of(chunks: &ChunkGeometry) -> SsdGeometry {
        SsdGeometry {
            channel_count: chunks.groups,
            luns_each_channel: chunks.units,
            blocks_each_lun: chunks.chunks,
            pages_each_block: chunks.chunk_sectors / chunks.write_min_sectors,
            page_bytes: chunks.write_min_sectors * chunks.sector_bytes,
        }
    }

    /// Number of LUNs.
    pub const fn luns(&self) -> u32 {
        self.channel_count * self.luns_each_channel
    }

    /// Number of blocks.
    pub const fn blocks(&self) -> u32 {
        self.luns() * self.blocks_each_lun
    }

    /// Bytes of a block.
    pub const fn block_bytes(&self) -> u64 {
        self.pages_each_block as u64 * self.page_bytes as u64
    }

    /// Total bytes.
    pub const fn bytes(&self) -> u64 {
        self.blocks() as u64 * self.block_bytes()
    }

    /// Returns the layout for a [`Pool`](pellucid_ftl::Pool) of the blocks: a LUN is a die, and a block has its number.
    pub(crate) fn layout(&self) -> Layout {
        let SsdGeometry { channel_count, luns_each_channel, blocks_each_lun, pages_each_block, page_bytes } =
            *self;
        Layout {
            channels: channel_count,
            dies_per_channel: luns_each_channel,
            dies: self.luns(),
            blocks_per_die: blocks_each_lun,
            blocks: self.blocks(),
            superpages_per_block: pages_each_block,
            units_per_superpage: 1,
            units_per_block: pages_each_block,
            units: self.blocks().saturating_mul(pages_each_block),
            sectors_per_unit: 1,
            sector_bytes: page_bytes,
            unit_bytes: page_bytes,
            spare_bytes_per_unit: 0,
            pages_per_unit: 1,
            split: Split::new(pages_each_block, 1, blocks_each_lun, 1),
        }
    }

    /// Reports whether the page exists.
    pub const fn contains(&self, address: FlashAddress) -> bool {
        address.channel < self.channel_count
            && address.lun < self.luns_each_channel
            && address.block < self.blocks_each_lun
            && address.page < self.pages_each_block
    }

    /// The number of a block, counted over channels, LUNs and blocks. The address must be [in](Self::contains) the geometry.
    pub const fn block_number(&self, address: FlashAddress) -> u32 {
        (address.channel * self.luns_each_channel + address.lun) * self.blocks_each_lun + address.block
    }

    /// The block with this number.
    pub const fn block_at(&self, number: u32) -> FlashAddress {
        let lun = number / self.blocks_each_lun;
        FlashAddress {
            channel: lun / self.luns_each_channel,
            lun: lun % self.luns_each_channel,
            block: number % self.blocks_each_lun,
            page: 0,
        }
    }
}

impl fmt::Display for SsdGeometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SsdGeometry { channel_count, luns_each_channel, blocks_each_lun, pages_each_block, page_bytes } =
            self;
        write!(
            f,
            "{channel_count} channels of {luns_each_channel} LUNs of {blocks_each_lun} blocks of {pages_each_block} pages of {page_bytes} bytes"
        )
    }
}

/// An application's flash: its open-channel namespace, and the conversion between its addresses and those of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The namespace.
    pub namespace: u16,
    /// Shape reported by the port.
    pub chunks: ChunkGeometry,
    /// Bytes of a sector image, see [`Command`](pellucid_flash::Command).
    pub image_bytes: usize,
}

impl Space {
    /// The flash of a namespace of a drive with sector images of `image_bytes`.
    pub fn new(
        namespace: u16,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<Space, LevelError> {
        match interface {
            Some(Interface::OpenChannel(chunks)) => Ok(Space { namespace, chunks, image_bytes }),
            _ => Err(LevelError::NotFlash(namespace)),
        }
    }

    /// `Get_SSD_Geometry`.
    pub const fn geometry(&self) -> SsdGeometry {
        SsdGeometry::of(&self.chunks)
    }

    /// Sectors of a page.
    pub const fn page_sectors(&self) -> u32 {
        self.chunks.write_min_sectors
    }

    /// Bytes of the images of a page.
    pub const fn page_image_bytes(&self) -> usize {
        self.page_sectors() as usize * self.image_bytes
    }

    /// The first sector of a page.
    pub fn lba(&self, address: FlashAddress) -> Result<Lba, LevelError> {
        let geometry = self.geometry();
        if !geometry.contains(address) {
            return Err(LevelError::OutOfRange { address, geometry });
        }
        let FlashAddress { channel: group, lun: unit, block: chunk, page } = address;
        Ok(self.chunks.lba(ChunkAddress { group, unit, chunk, sector: page * self.page_sectors() }))
    }

    /// The page that holds a sector; `None`: the sector does not exist.
    pub fn address(&self, lba: Lba) -> Option<FlashAddress> {
        let ChunkAddress { group, unit, chunk, sector } = self.chunks.address(lba)?;
        Some(FlashAddress { channel: group, lun: unit, block: chunk, page: sector / self.page_sectors() })
    }

    /// The first sector of `pages` pages of one block.
    pub fn run(&self, address: FlashAddress, pages: u32) -> Result<Lba, LevelError> {
        let lba = self.lba(address)?;
        let left = self.geometry().pages_each_block - address.page;
        match (1..=left).contains(&pages) {
            true => Ok(lba),
            false => Err(LevelError::Pages { address, pages, left }),
        }
    }
}
