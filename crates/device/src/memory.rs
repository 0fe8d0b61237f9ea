//! The controller's memory: its size, and the use of each structure.
//!
//! [`ControllerMemory`] ([`crate::Device::controller_memory`]) is the only sum: reports show it, and [`MemoryConfig::shortage`] holds it against the sizes of the memories.
//! Sizes are those of the model's own structures when all of the drive has been written, but for a page map whose entries have a
//! described size, and for nameless writes, whose tables grow with the sectors that the host keeps by logical address.

use pellucid_setting::{Settings, Word};
use std::fmt;

/// Structure in the controller's memory.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantNames, Word,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Structure {
    /// The mapping table, or what of it is cached.
    MappingTable,
    /// State of each block.
    BlockTables,
    /// Tables of open-channel, zoned and nameless namespaces.
    ChunkTables,
    /// The data buffer.
    DataBuffer,
}

impl Structure {
    /// All structures.
    pub const ALL: [Structure; 4] =
        [Structure::MappingTable, Structure::BlockTables, Structure::ChunkTables, Structure::DataBuffer];

    /// Name in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Structure::MappingTable => "mapping table",
            Structure::BlockTables => "block tables",
            Structure::ChunkTables => "chunk tables",
            Structure::DataBuffer => "data buffer",
        }
    }
}

/// Memories of the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Settings)]
pub struct MemoryConfig {
    /// DRAM of the controller.
    ///
    /// A drive is refused whose tables and data buffer do not fit, but for those that lie in SRAM.
    #[setting(kind = size_from(1), or = "unlimited")]
    pub dram_bytes: Option<u64>,
    /// SRAM of the controller.
    ///
    /// A drive is refused if the structures of `in_sram` do not fit.
    #[setting(kind = size_from(1), or = "unlimited")]
    pub sram_bytes: Option<u64>,
    /// Structures in SRAM instead of DRAM.
    #[setting(default = [])]
    pub in_sram: Vec<Structure>,
    /// Page map: bytes of the table for each mapping unit of the flash; own: as many as the model's table has.
    ///
    /// The model's table has 4 bytes for each logical page, and a bit for each unit of the flash. Firmware that keeps the way back, too,
    /// has more.
    #[setting(kind = size(1, 64), or = "own")]
    pub map_unit_bytes: Option<u32>,
}

/// One of the two memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The large one.
    Dram,
    /// The small one.
    Sram,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Memory::Dram { "DRAM" } else { "SRAM" })
    }
}

/// Structures that do not fit a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryShortage {
    /// The memory.
    pub memory: Memory,
    /// Structures that lie in it, with their bytes.
    pub parts: Vec<(Structure, u64)>,
}

impl MemoryShortage {
    /// Bytes that the structures take together.
    pub fn needed_bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes).sum()
    }
}

impl fmt::Display for MemoryShortage {
    /// Writes the sum in bytes: "mapping table 12 + data buffer 8 = 20 bytes".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> =
            self.parts.iter().map(|(structure, bytes)| format!("{} {bytes}", structure.name())).collect();
        let sum = if parts.len() > 1 { format!(" = {}", self.needed_bytes()) } else { String::new() };
        write!(f, "{}{sum} bytes", parts.join(" + "))
    }
}

impl MemoryConfig {
    /// Returns the memory that `used` does not fit; `None`: it fits both.
    pub fn shortage(&self, used: &ControllerMemory) -> Option<MemoryShortage> {
        let lies_in = |structure| if self.in_sram.contains(&structure) { Memory::Sram } else { Memory::Dram };
        [(Memory::Dram, self.dram_bytes), (Memory::Sram, self.sram_bytes)].into_iter().find_map(
            |(memory, limit)| {
                let here = Structure::ALL.into_iter().filter(|&structure| lies_in(structure) == memory);
                let parts = here.map(|structure| (structure, used.of(structure)));
                let parts = parts.filter(|&(_, bytes)| bytes > 0).collect();
                let shortage = MemoryShortage { memory, parts };
                (shortage.needed_bytes() > limit?).then_some(shortage)
            },
        )
    }
}

/// Bytes that each structure of a drive takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerMemory {
    bytes: [u64; Structure::ALL.len()],
}

impl ControllerMemory {
    /// Bytes of one structure.
    pub fn of(&self, structure: Structure) -> u64 {
        self.bytes[structure as usize]
    }

    /// Sets the bytes of one structure.
    pub(crate) fn set(&mut self, structure: Structure, bytes: u64) {
        self.bytes[structure as usize] = bytes;
    }
}
