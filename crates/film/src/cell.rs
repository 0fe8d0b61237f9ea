//! Cells: blocks, or groups of blocks, reduced to what is shown.

use pellucid_flash::{BlockMap, BlockStream, BlockUse, BlockView};
use serde::Serialize;

/// Maximum number of cells of a drive; on larger drives a cell is several blocks.
pub const CELLS_MAX: u32 = 1 << 16;

/// Highest level of valid data: all units of the cell are valid.
pub(crate) const LEVEL_MAX: u32 = 15;

/// Shape of a drive's cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Grid {
    /// Channels.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Blocks of each die.
    pub blocks_per_die: u32,
    /// Mapping units of a block.
    pub units_per_block: u32,
    /// Blocks of a cell; the last cell of a die may have fewer.
    pub blocks_per_cell: u32,
    /// Cells of each die.
    pub cells_per_die: u32,
}

impl Grid {
    /// The shape for a drive's blocks.
    pub fn of(map: &BlockMap) -> Grid {
        let dies = (map.channels * map.dies_per_channel).max(1);
        let per_die = (CELLS_MAX / dies).max(1);
        let blocks_per_cell = map.blocks_per_die.div_ceil(per_die).max(1);
        Grid {
            channels: map.channels,
            dies_per_channel: map.dies_per_channel,
            blocks_per_die: map.blocks_per_die,
            units_per_block: map.units_per_block,
            blocks_per_cell,
            cells_per_die: map.blocks_per_die.div_ceil(blocks_per_cell),
        }
    }

    /// Number of cells.
    pub fn cells(&self) -> u32 {
        self.channels * self.dies_per_channel * self.cells_per_die
    }

    /// Reduces blocks to cells.
    pub(crate) fn reduce(&self, blocks: &[BlockView]) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(self.cells() as usize);
        for die in blocks.chunks(self.blocks_per_die.max(1) as usize) {
            let groups = die.chunks(self.blocks_per_cell as usize);
            cells.extend(groups.map(|group| Cell::of(group, self.units_per_block)));
        }
        cells
    }
}

/// Displayed state of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Level of valid data: 0 without any, [`LEVEL_MAX`] if all is valid.
    pub level: u8,
    pub usage: u8,
    pub stream: u8,
    pub erases: u32,
}

impl Cell {
    fn of(group: &[BlockView], units_per_block: u32) -> Cell {
        let units: u64 = group.iter().map(|view| u64::from(view.units)).sum();
        let whole = u64::from(units_per_block) * group.len() as u64;
        let level = match units {
            0 => 0,
            _ if units >= whole => LEVEL_MAX,
            _ => 1 + (units * u64::from(LEVEL_MAX - 1) / whole) as u32,
        };
        let shown = group.iter().max_by_key(|view| view.usage).copied().unwrap_or_default();
        // A free block beside one with data has no stream to show.
        let stream = group.iter().find(|view| view.stream != BlockStream::None).map(|view| view.stream);
        Cell {
            level: level as u8,
            usage: shown.usage as u8,
            stream: stream.unwrap_or_default().code(),
            erases: group.iter().map(|view| view.erases).fold(0, u32::saturating_add),
        }
    }

    pub fn usage(self) -> BlockUse {
        BlockUse::ALL[usize::from(self.usage)]
    }
}
