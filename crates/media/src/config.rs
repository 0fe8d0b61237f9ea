//! Description of the media: shape, cells, times, endurance, faults, and which data are stored.

use crate::integrity::Integrity;
use pellucid_flash::{Geometry, Nanos};
use std::path::PathBuf;

/// Bits per cell as manufactured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Cell {
    /// One bit.
    Slc,
    /// Two bits: LSB and MSB pages.
    Mlc,
    /// Three bits: LSB, CSB and MSB pages.
    Tlc,
    /// Four bits.
    Qlc,
}

impl Cell {
    /// Bits per cell, which is also the number of page types.
    pub fn bits(self) -> u32 {
        match self {
            Cell::Slc => 1,
            Cell::Mlc => 2,
            Cell::Tlc => 3,
            Cell::Qlc => 4,
        }
    }
}

/// Array and bus times.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Sense time per page type (LSB first); as many entries as the mode in use has page types.
    pub read_ns: Vec<Nanos>,
    /// Program time per page type. With one-shot programming the single entry is the time of the whole word line.
    pub program_ns: Vec<Nanos>,
    /// Erase time.
    pub erase_ns: Nanos,
    /// Spread of real dies: each die's array times are scaled by a fixed factor of `1 +- die_spread`; the dies'
    /// factors are spaced evenly, in random order. 0 means none.
    pub die_spread: f64,
    /// Spread of operations: each single operation's array time is scaled by a factor from `1 +- op_spread`. 0 means none.
    pub op_spread: f64,
    /// In addition, each operation's time deviates by up to this much either way, uniformly, whatever its length. At most the shortest of
    /// the times above.
    pub op_deviation_ns: Nanos,
    /// Spread of word-line layers and blocks.
    pub variation: Variation,
    /// Channel transfer rate in bytes per second, for data and spare bytes.
    pub channel_bytes_per_second: u64,
    /// Channel time of the command and address cycles of one operation. 0 schedules no event.
    pub command_ns: Nanos,
    /// Channel time of one status check (0: completion is known without asking).
    pub status_ns: Nanos,
    /// Time to suspend a program for a read; `None`: the part can suspend neither a program nor an erase.
    pub suspend_ns: Option<Nanos>,
    /// Time to suspend an erase, which first has to leave a pulse of a higher voltage.
    pub suspend_erase_ns: Nanos,
    /// Time to resume either.
    pub resume_ns: Nanos,
}

/// Process variation: some parts of a die are faster or slower for its whole life. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Variation {
    /// Spread of word-line layers: read and program times are scaled by a factor that rises evenly from `1 - layer` in the first
    /// superpage of a block to `1 + layer` in the last.
    pub layer: f64,
    /// Spread of blocks: all array times of a block are scaled by a factor of its own from `1 +- block`.
    pub block: f64,
}

/// Blocks at the start of each die that are used with one bit per cell. They do not wear out. They hold fewer superpages than other
/// blocks, by the factor of the other cells' bits; the pages of a superpage are programmed one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlcBlocks {
    /// Number of these blocks per die.
    pub blocks: u32,
    /// Sense time of a page.
    pub read_ns: Nanos,
    /// Program time of a page (of all planes).
    pub program_ns: Nanos,
}

/// A fault that the description lists by place: die, block of the die and superpage of the block as in
/// [`pellucid_flash::Layout`].
#[allow(missing_docs, reason = "the fields are explained with each variant")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedFault {
    /// The block is bad from the factory.
    FactoryBad { die: u32, block: u32 },
    /// The program of this superpage fails (once the block has been erased `after_erases` times or more).
    ProgramFail { die: u32, block: u32, superpage: u32, after_erases: u32 },
    /// Erases of this block fail from its `after_erases`-th on.
    EraseFail { die: u32, block: u32, after_erases: u32 },
    /// Reads of this superpage are uncorrectable for the first `attempts` attempts (`u32::MAX`: for ever).
    ReadFail { die: u32, block: u32, superpage: u32, attempts: u32 },
}

/// Faults by seed (probabilities) and by list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Probability that a block is bad from the factory.
    pub factory_bad: f64,
    /// Probability that one program operation fails.
    pub program_fail: f64,
    /// Probability that one erase fails (the block is then bad).
    pub erase_fail: f64,
    /// Probability that one read attempt is uncorrectable.
    pub read_fail: f64,
    /// Faults by place.
    pub list: Vec<ListedFault>,
}

/// Kind of store: which part of the data is kept, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// A 4-byte stamp per sector, which still proves that the right version of the right sector comes back.
    None,
    /// Nothing per sector: reads come back as zeros. For runs that look at no data, whose memory then does not grow with sectors.
    Unstamped,
    /// All bytes, in memory, for blocks that have been written.
    Ram,
    /// All bytes, in a file that survives the process.
    File(PathBuf),
}

/// Space allocation of an image file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Space {
    /// Space is taken as it is written; a full disk is an error for the host.
    #[default]
    Sparse,
    /// The full size is reserved when the file is opened; if that fails, the file is refused.
    Reserve,
}

/// Kind of failure that flushed data survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum SyncTo {
    /// The end of this process, however it ends.
    #[default]
    Process,
    /// The end of the machine: a flush waits for the disk.
    Machine,
}

/// How a store keeps data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Space reservation (file store only).
    pub space: Space,
    /// Durability of a flush (file store only).
    pub sync: SyncTo,
    /// Bytes of memory that data may take (`Ram`); `None`: as much as the media hold. At the bound hosts cannot write.
    pub ram_max: Option<u64>,
}

impl StoreKind {
    /// Returns whether the bytes themselves are kept.
    pub fn keeps_data(&self) -> bool {
        matches!(self, StoreKind::Ram | StoreKind::File(_))
    }
}

/// The media of one drive.
#[derive(Clone, Debug, PartialEq)]
pub struct MediaConfig {
    /// Shape.
    pub geometry: Geometry,
    /// Cell type as manufactured.
    pub cell: Cell,
    /// True if only the LSB pages are used (SLC mode of MLC, TLC, QLC). `geometry.pages` then counts only these.
    pub slc_mode: bool,
    /// True if each plane of a die reads pages of its own choice, at times of its own (ONFI: independent plane reads); else planes of a
    /// die are read together.
    pub independent_plane_reads: bool,
    /// Blocks used with one bit per cell (an SLC cache). With one-shot programming of all pages of a word line only.
    pub slc_blocks: Option<SlcBlocks>,
    /// Times.
    pub timing: Timing,
    /// Erases that a block survives; beyond them every program or erase fails. `None`: unlimited.
    pub endurance: Option<u32>,
    /// Faults.
    pub faults: Faults,
    /// Kind of store.
    pub store: StoreKind,
    /// Storage options.
    pub keep: Keep,
    /// Bytes of the spare area that belong to the host, for each sector; 0 where no host sees the spare area.
    pub metadata_bytes: u32,
    /// Bytes of the save area ([`crate::Media::save_write`]), which keeps what a drive may not lose with its power; 0: none.
    pub save_bytes: u64,
    /// Data protection.
    pub integrity: Integrity,
    /// Seed of all media randomness.
    pub seed: u64,
}
