//! Errors of a trace: file, place, value, and expectation.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::io;

use super::Format;

/// Maximum number of streams that a message names.
const STREAMS_NAMED: usize = 32;

/// Position in the (decompressed) trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The trace as a whole.
    Whole,
    /// A line, counted from 1.
    Line(u64),
    /// A byte, counted from 0; for binary formats.
    Byte(u64),
}

/// Kind of an error.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file could not be opened, read or decompressed.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
    /// No format matches the first line (an excerpt; empty if the trace has no line).
    #[error("{}, one of: {}", excerpt(.0), list(Format::ALL))]
    Unrecognised(String),
    /// The file has an unsupported compression, or is neither text nor a trace.
    #[error(
        "it is {0}, which is not supported; allowed: an uncompressed trace, or one compressed with gzip or zstd"
    )]
    Foreign(&'static str),
    /// The header names the columns of no format.
    #[error(
        "no known format has columns like {0:?}; allowed: the name of a format, whose order of columns is then taken, or the \
         columns: {syntax}", syntax = super::columns::SYNTAX
    )]
    UnknownNames(String),
    /// The first line nearly matches these formats: each with the reason why it does not.
    #[error("{}; allowed: a line without the mistake, or the name of another format, one of: {}", nearly(.0), list(Format::ALL))]
    Nearly(Vec<(Format, String)>),
    /// The header lacks a column.
    #[error("no column is called {name:?}; allowed: one of the first line, which is {line:?}")]
    NoColumn {
        /// The name.
        name: String,
        /// The header, or its beginning.
        line: String,
    },
    /// The trace holds no request.
    #[error("no request in the trace (format {format}), whose {skipped} lines or records hold other data; expected at least one{}", needs(*format))]
    Nothing {
        /// The format it was read as.
        format: Format,
        /// Lines or binary records.
        skipped: u64,
    },
    /// No key-value format matches the first line (an excerpt; empty if the trace has no line).
    #[error(
        "no key-value trace has a first line like {0:?}; allowed: twitter \
         (timestamp,key,key size,value size,client id,operation,TTL), or cachelib (a header with key, op and size)"
    )]
    UnrecognisedKeys(String),
    /// Several formats match the first lines.
    #[error("the first lines fit several formats, with different meanings; name the one, of: {}", list(.0))]
    Ambiguous(Vec<Format>),
    /// A field is malformed.
    #[error("{field} is {value:?}; expected {expected}")]
    Field {
        /// Name of the field in the format's layout.
        field: &'static str,
        /// Value in the trace.
        value: String,
        /// Allowed values.
        expected: &'static str,
    },
    /// The line ends too early.
    #[error("the line ends before {field}; expected {layout}")]
    Missing {
        /// The first missing field.
        field: &'static str,
        /// The whole layout.
        layout: &'static str,
    },
    /// The line continues after its last field.
    #[error("the line continues with {value:?} after its last field; expected {layout}")]
    Excess {
        /// Text that follows.
        value: String,
        /// The whole layout.
        layout: &'static str,
    },
    /// A line longer than this.
    #[error("the line is too long; expected at most {limit_bytes} bytes")]
    LongLine {
        /// Maximum length.
        limit_bytes: usize,
    },
    /// The request ends beyond byte 2^64.
    #[error(
        "the request (offset {offset} x {offset_unit_bytes} B, length {length} x {length_unit_bytes} B) \
         is out of range; expected an end below byte 2^64"
    )]
    Extent {
        /// Address in the format's unit.
        offset: u64,
        /// The address's unit.
        offset_unit_bytes: u64,
        /// Length in the format's unit.
        length: u64,
        /// The length's unit.
        length_unit_bytes: u64,
    },
    /// The request is longer than any protocol allows.
    #[error(
        "the length {length} x {unit_bytes} B is out of range; expected at most {most_bytes} B in one request (16 TiB, 2^32 blocks of 4 KiB)"
    )]
    Long {
        /// Length in the format's unit.
        length: u64,
        /// The length's unit.
        unit_bytes: u64,
        /// The longest allowed.
        most_bytes: u64,
    },
    /// The record comes 2^64 ns (584 years) or more after the first one.
    #[error("the time {ticks} x {tick_ns} ns is too late; expected less than 2^64 ns after the first record")]
    TooLate {
        /// Its time in the format's unit.
        ticks: u64,
        /// Length of a tick in nanoseconds.
        tick_ns: u64,
    },
    /// The trace ends inside a binary record.
    #[error("the trace ends inside a record; expected {expected_bytes} bytes, found {found_bytes}")]
    Truncated {
        /// Expected length of the record.
        expected_bytes: usize,
        /// Remaining bytes.
        found_bytes: usize,
    },
    /// The request lies beyond the end of the drive, and [`super::AddressPolicy::Refuse`] was chosen.
    #[error(
        "the request (offset {offset_bytes} B, length {length_bytes} B) ends beyond the drive's \
         {capacity_bytes} B; allowed: a larger drive, or folded or compacted addresses"
    )]
    Beyond {
        /// First byte of the request.
        offset_bytes: u64,
        /// Its length.
        length_bytes: u64,
        /// The drive's capacity.
        capacity_bytes: u64,
    },
    /// No record belongs to the requested stream.
    #[error("stream {stream} is not in the trace; allowed: {}", streams(.found))]
    NoStream {
        /// Requested stream.
        stream: u32,
        /// Streams of the trace.
        found: BTreeSet<u32>,
    },
    /// The distinct extents of the trace do not fit into the drive ([`super::AddressPolicy::Compact`]).
    #[error(
        "the extents of {extent_bytes} B that the trace touches exceed the drive's {capacity_bytes} B; \
         allowed: a larger drive, fewer records, or folded addresses"
    )]
    Full {
        /// The drive's capacity.
        capacity_bytes: u64,
        /// The size of an extent.
        extent_bytes: u64,
    },
    /// A time scaled beyond the end of simulated time.
    #[error("the time {at_ns} ns x {factor} is too late; expected less than 2^62 ns after the first record")]
    Scaled {
        /// Unscaled time since the first record.
        at_ns: u64,
        /// The scale.
        factor: f64,
    },
    /// An option is not usable.
    #[error("{key} is {value}; allowed: {allowed}")]
    Setting {
        /// The option's name.
        key: &'static str,
        /// Its value.
        value: String,
        /// Allowed values.
        allowed: &'static str,
    },
}

fn list(formats: &[Format]) -> String {
    formats.iter().map(Format::to_string).collect::<Vec<_>>().join(", ")
}

fn excerpt(line: &str) -> String {
    match line {
        "" => "no line from which to recognise the format; name it".into(),
        line => format!("no known format has a first line like {line:?}; name the format"),
    }
}

fn nearly(formats: &[(Format, String)]) -> String {
    formats
        .iter()
        .map(|(format, problem)| format!("the first line, read as {format}: {problem}"))
        .collect::<Vec<_>>()
        .join("; ")
}

/// Describes what makes a request, if not every line does.
fn needs(format: Format) -> &'static str {
    match format {
        Format::Blkparse | Format::Blktrace => ": an event Q, D or C with sectors",
        _ => "",
    }
}

fn streams(found: &BTreeSet<u32>) -> String {
    let named: Vec<String> = found.iter().take(STREAMS_NAMED).map(u32::to_string).collect();
    match found.len().saturating_sub(STREAMS_NAMED) {
        0 => named.join(", "),
        more => format!("{}, and {more} more", named.join(", ")),
    }
}

#[derive(Debug)]
struct Details {
    name: String,
    position: Position,
    problem: Problem,
}

/// Reason why a trace could not be read further.
#[derive(Debug)]
pub struct TraceError(Box<Details>);

impl TraceError {
    pub(super) fn new(name: &str, position: Position, problem: Problem) -> TraceError {
        TraceError(Box::new(Details { name: name.to_owned(), position, problem }))
    }

    /// The file, or the name given to the reader.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Position of the error.
    pub fn position(&self) -> Position {
        self.0.position
    }

    /// Returns the kind of the error.
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { name, position, problem } = &*self.0;
        match position {
            Position::Whole => write!(f, "{name}: {problem}"),
            Position::Line(line) => write!(f, "{name}: line {line}: {problem}"),
            Position::Byte(byte) => write!(f, "{name}: byte {byte}: {problem}"),
        }
    }
}

// Implemented by hand: the source is the I/O error inside the problem, as the message already has the problem's text.
impl Error for TraceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0.problem {
            Problem::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// An unknown format name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown trace format {name:?}; allowed: {}", list(Format::ALL))]
pub struct UnknownFormat {
    /// The name.
    pub name: String,
}
