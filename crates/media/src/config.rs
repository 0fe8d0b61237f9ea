//! Description of the media: shape, cells, times, endurance, faults, and which data are stored.

use crate::integrity::Integrity;
use pellucid_flash::{Geometry, Nanos};
use pellucid_setting::{Kind, Setting, Settings, Typed, Word, share};
use std::path::PathBuf;

/// Bits per cell as manufactured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
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

/// Pages of a word line that are used, as a description says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum CellMode {
    /// All.
    Native,
    /// The LSB pages.
    Slc,
}

impl From<CellMode> for bool {
    /// Returns [`MediaConfig::slc_mode`].
    fn from(mode: CellMode) -> bool {
        mode == CellMode::Slc
    }
}

/// Below 1, so that a scaled time stays above zero.
const SPREAD: Kind = share(0.0, 0.99);

/// Array and bus times.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct Timing {
    /// Sense time of each page type, LSB first: 1 time for slc, 2 for mlc, 3 for tlc, 4 for qlc.
    ///
    /// As many entries as the mode in use has page types.
    #[setting()]
    pub read_ns: Vec<Nanos>,
    /// Program time of each page type, LSB first; with one_shot_pages: one time, of the word line.
    #[setting()]
    pub program_ns: Vec<Nanos>,
    /// Erase time.
    #[setting()]
    pub erase_ns: Nanos,
    /// Spread of array times between dies: a factor of 1 +- this.
    ///
    /// The dies' factors are fixed, and spaced evenly in random order. 0 means none.
    #[setting(kind = SPREAD, default = 0.0)]
    pub die_spread: f64,
    /// Spread of array times between operations.
    ///
    /// Each operation's time is scaled by a factor from `1 +- op_spread`. 0 means none.
    #[setting(kind = SPREAD, default = 0.0)]
    pub op_spread: f64,
    /// Additional deviation of each array operation, up or down, independent of its length.
    ///
    /// Uniform; at most the shortest of the times above.
    #[setting(default = 0)]
    pub op_deviation_ns: Nanos,
    /// Spread of word-line layers and blocks.
    #[setting(beside = "variation", table)]
    pub variation: Variation,
    /// Channel transfer rate, for data and spare.
    #[setting(key = "channel_rate", kind = rate_from(1))]
    pub channel_bytes_per_second: u64,
    /// Channel time of the command and address cycles of an operation.
    ///
    /// 0 schedules no event.
    #[setting(default = 0)]
    pub command_ns: Nanos,
    /// Channel time of one status check.
    ///
    /// 0: completion is known without asking.
    #[setting(default = 0)]
    pub status_ns: Nanos,
    /// Time to suspend a program.
    ///
    /// `None`: the part can suspend neither a program nor an erase.
    #[setting(or = "never")]
    pub suspend_ns: Option<Nanos>,
    /// Time to suspend an erase.
    ///
    /// It first has to leave a pulse of a higher voltage.
    #[setting(kind = Nanos::KIND, or = "same", made = Nanos::ZERO)]
    pub suspend_erase_ns: Nanos,
    /// Time to resume a program or an erase.
    #[setting(default = 0)]
    pub resume_ns: Nanos,
}

/// Process variation: some parts of a die are faster or slower for its whole life. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Settings)]
pub struct Variation {
    /// Spread of read and program times between word-line layers: a factor from 1 - this in a block's first superpage to 1 + this in its last.
    #[setting(kind = SPREAD, default = 0.0)]
    pub layer: f64,
    /// Spread of array times between blocks: a factor of 1 +- this for each.
    #[setting(kind = SPREAD, default = 0.0)]
    pub block: f64,
}

/// Blocks at the start of each die that are used with one bit per cell. They do not wear out. They hold fewer superpages than other
/// blocks, by the factor of the other cells' bits; the pages of a superpage are programmed one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Settings)]
pub struct SlcBlocks {
    /// Number of these blocks per die.
    #[setting(skip)]
    pub blocks: u32,
    /// Sense time of a page in a block of the SLC cache (ftl.slc_cache.blocks).
    #[setting(key = "slc_read", default = 0)]
    pub read_ns: Nanos,
    /// Program time of a page in a block of the SLC cache, of all planes.
    #[setting(key = "slc_program", default = 0)]
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
#[derive(Clone, Debug, Default, PartialEq, Settings)]
pub struct Faults {
    /// Probability that a block is bad from the factory.
    #[setting(kind = SHARE, default = 0.0)]
    pub factory_bad: f64,
    /// Probability that a program fails.
    #[setting(kind = SHARE, default = 0.0)]
    pub program_fail: f64,
    /// Probability that an erase fails.
    ///
    /// The block is then bad.
    #[setting(kind = SHARE, default = 0.0)]
    pub erase_fail: f64,
    /// Probability that a read attempt is uncorrectable.
    #[setting(kind = SHARE, default = 0.0)]
    pub read_fail: f64,
    /// Faults by place.
    #[setting(kind = Kind::Tables, default = [], about = "Faults by place: [[drive.media.faults.list]]", made = Vec::new())]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Space {
    /// Space is taken as it is written; a full disk is an error for the host.
    #[default]
    Sparse,
    /// The full size is reserved when the file is opened; if that fails, the file is refused.
    Reserve,
}

/// Kind of failure that flushed data survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum SyncTo {
    /// The end of this process, however it ends.
    #[default]
    Process,
    /// The end of the machine: a flush waits for the disk.
    Machine,
}

/// How a store keeps data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Settings)]
pub struct Keep {
    /// Space of the media file: allocated as it is written (sparse), or at once (reserve).
    #[setting(default = "sparse")]
    pub space: Space,
    /// Event that flushed data in the media file survive: the end of the process, or a crash of the machine.
    #[setting(default = "process")]
    pub sync: SyncTo,
    /// Largest memory for data with store = "ram"; writes beyond it fail.
    ///
    /// `None`: as much as the media hold.
    #[setting(kind = size_from(1), or = "unlimited")]
    pub ram_max: Option<u64>,
}

/// A store as a description names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreName {
    /// [`StoreKind::None`].
    None,
    /// [`StoreKind::Ram`].
    Ram,
    /// The file of [`StoreSettings::path`].
    File,
    /// This file.
    FileAt(PathBuf),
}

impl Setting for StoreName {
    const KIND: Kind = Kind::WordOrText(&["none", "ram", "file"], "file");

    fn take(typed: &Typed) -> Self {
        match String::take(typed).as_str() {
            "none" => StoreName::None,
            "ram" => StoreName::Ram,
            "file" => StoreName::File,
            named => {
                StoreName::FileAt(named.strip_prefix("file:").expect("the kind's only other form").into())
            }
        }
    }
}

/// Keys that decide on the store together.
#[derive(Clone, Debug, PartialEq, Eq, Settings)]
pub struct StoreSettings {
    /// Data that are stored. none: a stamp that says which write each sector came from; ram, file: all bytes.
    #[setting(default = "none")]
    pub store: StoreName,
    /// Path of the file of store = "file".
    #[setting(default = "")]
    pub path: Option<PathBuf>,
}

impl StoreSettings {
    /// Returns the store; `None`: its file has no path.
    pub fn kind(self) -> Option<StoreKind> {
        match self.store {
            StoreName::None => Some(StoreKind::None),
            StoreName::Ram => Some(StoreKind::Ram),
            StoreName::FileAt(path) => Some(StoreKind::File(path)),
            StoreName::File => self.path.map(StoreKind::File),
        }
    }
}

impl StoreKind {
    /// Returns whether the bytes themselves are kept.
    pub fn keeps_data(&self) -> bool {
        matches!(self, StoreKind::Ram | StoreKind::File(_))
    }
}

/// The media of one drive.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct MediaConfig {
    /// Shape.
    #[setting(flatten)]
    pub geometry: Geometry,
    /// Cells as manufactured.
    #[setting()]
    pub cell: Cell,
    /// "slc": only the LSB pages are used.
    ///
    /// True in SLC mode of MLC, TLC and QLC. `geometry.pages` then counts only these.
    #[setting(key = "mode", default = "native", via = CellMode)]
    pub slc_mode: bool,
    /// Each plane of a die reads independently (ONFI); programs and erases take the whole die.
    ///
    /// Else planes of a die are read together.
    #[setting(default = false)]
    pub independent_plane_reads: bool,
    /// Erases that a block survives.
    ///
    /// Beyond them every program or erase fails. `None`: unlimited.
    #[setting(kind = count(1), or = "unlimited")]
    pub endurance: Option<u32>,
    /// Kind of store.
    #[setting(flatten, via = StoreSettings, made = StoreKind::None)]
    pub store: StoreKind,
    /// Storage options.
    #[setting(flatten)]
    pub keep: Keep,
    /// Seed of all random choices of the media.
    #[setting(default = 1)]
    pub seed: u64,
    /// Times.
    #[setting(table)]
    pub timing: Timing,
    /// Blocks used with one bit per cell (an SLC cache). With one-shot programming of all pages of a word line only.
    #[setting(key = "timing", table, via = SlcBlocks, by = Some)]
    pub slc_blocks: Option<SlcBlocks>,
    /// Faults.
    #[setting(table)]
    pub faults: Faults,
    /// Data protection.
    #[setting(flatten)]
    pub integrity: Integrity,
    /// Bytes of the spare area that belong to the host, for each sector; 0 where no host sees the spare area.
    #[setting(skip)]
    pub metadata_bytes: u32,
    /// Bytes of the save area ([`crate::Store::save_write`]), which keeps what a drive may not lose with its power; 0: none.
    #[setting(skip)]
    pub save_bytes: u64,
}
