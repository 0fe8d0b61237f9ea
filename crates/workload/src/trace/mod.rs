//! Block traces: reading them in every common layout, fitting them to a drive.
//!
//! ```text
//! file -> Source (gzip, zstd, plain) -> decoder of one format -> clock -> TraceReader -> Shaped -> driver
//! ```
//!
//! Reading is a stream: memory does not grow with the trace (except for fio's table of file names and the extent map of [`AddressPolicy::Compact`]).
//! A trace is read strictly: the first malformed line ends the reading with an error that names file, line, value and expectation.
//!
//! # Formats
//!
//! | name | one request | time | address, length | stream |
//! |---|---|---|---|---|
//! | `msr` | `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime` | 100 ns | bytes | DiskNumber |
//! | `alibaba` | `device_id,opcode,offset,length,timestamp` | us | bytes | device_id |
//! | `tencent` | `Timestamp,Offset,Size,IOType,VolumeID`; **0 = read, 1 = write** | s | 512 B | VolumeID |
//! | `fiu` | `ts pid process lba size op major minor md5` | ns | 512 B | `major << 20 \| minor` |
//! | `spc` | `ASU,LBA,Size,Opcode,Timestamp[,...]` | s, decimals | [`ReadOptions::spc_lba_bytes`], bytes | ASU |
//! | `fio-v2` | `filename action offset length`, after `fio version 2 iolog` | us, from `wait` | bytes | see below |
//! | `fio-v3` | `timestamp filename action offset length`, after `fio version 3 iolog` | us | bytes | see below |
//! | `blkparse` | `maj,min cpu seq s.ns pid action rwbs sector + count [process]` | ns | 512 B | `major << 20 \| minor` |
//! | `blktrace` | 48-byte records, version 7, either byte order | ns | 512 B, bytes | device number |
//! | `mqsim` | `time device lba sectors type`, blanks; **0 = write, 1 = read** | ns | 512 B | device |
//!
//! | `systor` | `Timestamp,Response,IOType,LUN,Offset,Size` | s, decimals | bytes | LUN |
//! | `vscsi` | records of 32 or 40 bytes, versions 1 and 2 | us | 512 B, bytes | 0 |
//! | `csv` | given columns, or named in the first line | as given | as given | as given |
//!
//! MQSim's and Tencent's lines both have five whole numbers, with opposite meanings of 0 and 1. Commas mean Tencent, blanks mean MQSim; commas *and*
//! blanks are ambiguous, and the format must be named.
//!
//! # Rules
//!
//! * Times count from the first record. Real traces are slightly out of order (several CPUs log into one file): a time earlier than the previous
//!   record's is replaced by it, and counted in [`ReadStats::backwards`]. Order is kept.
//! * Text formats except fio's and blkparse's may begin with lines that start with `#`, and with a header line. If the names are
//!   those of the format, they also define the order of its columns, with others in between (such as a spreadsheet's index); a
//!   header of no known format is refused unless the format is named.
//! * Blank lines are skipped, and so is the byte-order mark of UTF-8 before the first line. A line holds at most 64 KiB.
//! * fio: `wait` advances the time, also by less than the 100 us that fio itself ignores. The stream is the number of
//!   the file in order of appearance; a file named `stream.N` is stream N. `sync` and `datasync` are
//!   flushes.
//! * blkparse and blktrace log a request several times; one [`BlockEvent`] is chosen. A write with a preceding flush becomes two records. Commands
//!   passed through to the device are skipped. The per-processor files of blktrace must be merged first (`blkparse -d`).
//! * A `Read`, `Write` or `Trim` may have length 0 if the trace says so; [`Shaped`] drops those.

mod blank;
mod blkparse;
mod blktrace;
mod columns;
mod comma;
mod error;
mod field;
mod fio;
mod foreign;
pub mod kv;
mod read_first;
mod reader;
mod recognise;
mod shape;
mod source;
mod vscsi;

use std::fmt;
use std::str::FromStr;

use pellucid_flash::{Opcode, SimTime};

pub use columns::{Columns, ColumnsError};
pub use error::{Position, Problem, TraceError, UnknownFormat};
pub use read_first::{SectorSet, read_first};
pub use reader::{ReadStats, TraceReader};
pub use shape::{AddressPolicy, Reopen, ShapeStats, Shaped, Shaping};
pub use source::{decompressed_within, zstd_window_bytes};

/// Operation of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read `length_bytes` at `offset_bytes`.
    Read,
    /// Write `length_bytes` at `offset_bytes`.
    Write,
    /// Discard `length_bytes` at `offset_bytes`.
    Trim,
    /// Make earlier writes durable; offset and length are 0.
    Flush,
}

impl From<Action> for Opcode {
    fn from(action: Action) -> Opcode {
        match action {
            Action::Read => Opcode::Read,
            Action::Write => Opcode::Write,
            Action::Trim => Opcode::Trim,
            Action::Flush => Opcode::Flush,
        }
    }
}

/// One request of a trace.
///
/// `offset_bytes + length_bytes` does not exceed `u64::MAX`. Times never decrease from one record to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Arrival, in nanoseconds since the first record of the trace.
    pub at: SimTime,
    /// Operation.
    pub action: Action,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub length_bytes: u64,
    /// Device, ASU or volume number, as in the trace.
    pub stream: u32,
}

/// The layout of a trace; see the table in the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Format {
    /// MSR Cambridge.
    Msr,
    /// Alibaba block traces of 2020.
    Alibaba,
    /// Tencent cloud block storage.
    Tencent,
    /// Florida International University (FIU) "IODedup".
    Fiu,
    /// Storage Performance Council, as in the UMass repository.
    Spc,
    /// fio's I/O log, version 2.
    FioV2,
    /// fio's I/O log, version 3.
    FioV3,
    /// Text of `blkparse` in its default output format.
    Blkparse,
    /// Binary records of `blktrace`.
    Blktrace,
    /// MQSim, close to DiskSim's ASCII layout.
    Mqsim,
    /// SYSTOR '17, of a virtual desktop infrastructure.
    Systor,
    /// VMware's virtual SCSI tracer, as CloudPhysics published its records.
    Vscsi,
    /// A table with given columns ([`ReadOptions::columns`]).
    Csv,
}

impl Format {
    /// All formats.
    pub const ALL: &'static [Format] = <Format as strum::VariantArray>::VARIANTS;

    /// The name by which the format is chosen.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        let known = Format::ALL.iter().copied().find(|format| format.name() == name);
        known.ok_or_else(|| UnknownFormat { name: name.to_owned() })
    }
}

/// Event that counts as the request, among those that the block layer logs for it (blkparse, blktrace).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockEvent {
    /// `Q`: as requested by the application or file system, before merging.
    Queue,
    /// `D`: as issued to the device, after merging and scheduling.
    Issue,
    /// `C`: as completed; the time is the completion's.
    Complete,
}

/// Options for reading a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// The layout; `None`: recognised from the content.
    pub format: Option<Format>,
    /// The columns of [`Format::Csv`], which requires them.
    pub columns: Option<Columns>,
    /// SPC: bytes per unit of the LBA field, at least 1. Most published traces use 512.
    pub spc_lba_bytes: u64,
    /// blkparse and blktrace: the event to use. `None`: the first of `Q`, `D`, `C` in the first 256 KiB.
    pub block_event: Option<BlockEvent>,
}

/// A format that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The name is unknown.
    #[error(transparent)]
    Unknown(#[from] UnknownFormat),
    /// Malformed columns.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
}

impl ReadOptions {
    /// Options for `format`: the name of a format, or `csv:` and columns.
    ///
    /// # Errors
    /// The format is unknown, or the columns are malformed.
    pub fn named(format: &str) -> Result<ReadOptions, FormatError> {
        let (name, columns) = match format.split_once(':') {
            Some(("csv", columns)) => ("csv", Some(columns)),
            _ if format == "csv" => ("csv", Some("")),
            _ => (format, None),
        };
        let columns = columns.map(str::parse).transpose()?;
        Ok(ReadOptions { format: Some(name.parse()?), columns, ..ReadOptions::default() })
    }
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions { format: None, columns: None, spc_lba_bytes: 512, block_event: None }
    }
}
