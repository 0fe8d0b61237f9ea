//! Shape of a cache: its configuration, the sizes of its drives, and values derived from these. None changes
//! while the cache runs.

use super::blocks::Layout;
use super::head::HEAD_BYTES;
use super::op::Part;
use super::{CacheConfig, CacheMode, RecordWrites};
use pellucid_flash::{CacheGeometry, Command, Lba, Opcode, Status};
use std::ops::Range;

/// Kind of cache.
#[derive(Clone, Debug)]
pub(super) enum Backend {
    /// A block drive, whose slots are managed here.
    Block(Layout),
    /// A solid-state cache.
    Ssc(CacheGeometry),
}

/// Constants of a cache; they are read everywhere, and written nowhere.
#[derive(Clone, Debug)]
pub(super) struct CacheShape {
    pub config: CacheConfig,
    pub backend: Backend,
    /// Bytes of a sector as the drives keep it: all of them, or those of a stamp.
    pub image_bytes: usize,
    /// Sectors of the flash.
    pub flash_sectors: u64,
    /// Sectors of the backing store.
    pub sectors: u64,
    pub block_sectors: u64,
    /// Number of blocks that can be cached; a partial block at the end cannot.
    pub blocks: u64,
}

impl CacheShape {
    #[inline]
    pub fn is_ssc(&self) -> bool {
        matches!(self.backend, Backend::Ssc(_))
    }

    /// Returns the layout of a block drive.
    #[inline]
    pub fn layout(&self) -> Option<&Layout> {
        match &self.backend {
            Backend::Block(layout) => Some(layout),
            Backend::Ssc(_) => None,
        }
    }

    /// Returns the number of blocks that the flash can hold.
    pub fn capacity_blocks(&self) -> u64 {
        match &self.backend {
            Backend::Block(layout) => layout.slots().into(),
            Backend::Ssc(geometry) => geometry.units,
        }
    }

    /// Reports whether the drives keep data, not stamps.
    pub fn keeps_content(&self) -> bool {
        self.image_bytes == self.config.sector_bytes as usize
    }

    /// Reports whether clean copies in the flash outlive a crash of this host.
    pub fn keeps_clean(&self) -> bool {
        self.is_ssc() && self.config.durable_commands
    }

    /// Reports whether writes to the backing store are forced, because their clean copies outlive a crash.
    pub fn is_forced(&self) -> bool {
        self.keeps_clean() && self.config.mode == CacheMode::WriteThrough
    }

    /// Reports whether records are written before each write is acknowledged.
    pub fn records_each_write(&self) -> bool {
        !self.is_ssc() && matches!(self.config.records, RecordWrites::EachWrite { .. })
    }

    /// Returns the status of a command that is refused at submission.
    #[inline]
    pub fn refuse(&self, command: &Command) -> Option<Status> {
        if command.namespace != 0 {
            return Some(Status::InvalidField);
        }
        let images = command.sectors as usize * self.image_bytes;
        let sound = match command.opcode {
            Opcode::Flush => return None,
            Opcode::Read => command.data.is_empty() || command.data.len() == images,
            Opcode::Write => command.data.len() == images,
            Opcode::Trim | Opcode::WriteZeroes => true,
            _ => return Some(Status::InvalidOpcode),
        };
        match command.lba.0.checked_add(command.sectors.into()) {
            _ if !sound || command.sectors == 0 || command.vector.is_some() => Some(Status::InvalidField),
            Some(end) if end <= self.sectors => None,
            _ => Some(Status::LbaOutOfRange),
        }
    }

    // ---- blocks and their places

    /// Returns the blocks of a command, also those that it covers in part.
    #[inline]
    pub fn blocks_of_command(&self, command: &Command) -> Range<u64> {
        let end = command.lba.0 + u64::from(command.sectors);
        command.lba.0 / self.block_sectors..end.div_ceil(self.block_sectors)
    }

    /// Returns the number of blocks of a part.
    pub fn blocks_of(&self, part: Part) -> u64 {
        let end = part.lba + u64::from(part.sectors);
        end.div_ceil(self.block_sectors) - part.lba / self.block_sectors
    }

    /// Returns the blocks of a part that can be cached.
    pub fn blocks_in(&self, part: Part) -> Range<u64> {
        let end = (part.lba + u64::from(part.sectors)).div_ceil(self.block_sectors);
        part.lba / self.block_sectors..end.min(self.blocks)
    }

    /// Returns the end of the block of sector `lba`, at most `end`.
    #[inline]
    pub fn block_end(&self, lba: u64, end: u64) -> u64 {
        ((lba / self.block_sectors + 1) * self.block_sectors).min(end)
    }

    /// Returns the first sector of a run of blocks, and its length in sectors.
    pub fn sectors_of(&self, blocks: Range<u64>) -> (u64, u32) {
        (blocks.start * self.block_sectors, ((blocks.end - blocks.start) * self.block_sectors) as u32)
    }

    /// Returns the bytes of the backing store that these blocks have.
    pub fn bytes_of(&self, blocks: Range<u64>) -> Range<u64> {
        let block_bytes = self.block_sectors * u64::from(self.config.sector_bytes);
        let end = (blocks.end * block_bytes).min(self.sectors * u64::from(self.config.sector_bytes));
        blocks.start * block_bytes..end
    }

    /// Returns the flash address of sector `lba` of the backing store.
    #[inline]
    pub fn flash_lba(&self, slot: u32, lba: u64) -> Lba {
        match &self.backend {
            Backend::Block(layout) => Lba(layout.slot_lba(slot) + lba % self.block_sectors),
            Backend::Ssc(_) => Lba(lba),
        }
    }

    // ---- the head and its copy

    /// Returns the address of the head; a solid-state cache has it in its last block.
    pub fn head_place(&self) -> Lba {
        match &self.backend {
            Backend::Block(_) => Lba(0),
            Backend::Ssc(geometry) => {
                let unit = u64::from(geometry.unit_sectors);
                Lba((geometry.address_sectors / unit - 1) * unit)
            }
        }
    }

    /// Returns the address of the copy, if there is space for one. It is far from the head, because
    /// neighbouring sectors are often lost together. A solid-state cache has it in its last block but one.
    pub fn copy_place(&self) -> Option<Lba> {
        match &self.backend {
            Backend::Block(_) => Some(Lba(self.flash_sectors - u64::from(self.head_sectors()))),
            Backend::Ssc(geometry) => {
                let unit = u64::from(geometry.unit_sectors);
                let copy = self.head_place().0 - unit;
                (copy >= self.sectors).then_some(Lba(copy))
            }
        }
    }

    /// Solid-state cache: returns the first sector of the head and its copy, which lie at the end.
    pub fn heads_from(&self) -> u64 {
        self.copy_place().unwrap_or_else(|| self.head_place()).0
    }

    pub fn head_sectors(&self) -> u32 {
        match &self.backend {
            Backend::Block(_) => HEAD_BYTES.div_ceil(self.config.sector_bytes as usize) as u32,
            Backend::Ssc(geometry) => geometry.unit_sectors,
        }
    }
}
