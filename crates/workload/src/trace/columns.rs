//! Text tables whose columns are given by the caller (`csv:time=Timestamp,op=Type,...`) or named in the first line.
//!
//! Fields are separated by commas, otherwise semicolons, tabs or blanks, whichever the first line has. A field may be in double quotes, without a
//! separator inside. Times may have decimals, like any number exported by a spreadsheet.

use super::field::{Bytes, Decoded, excerpt, is_blank, number, request, trim, wrong};
use super::{Action, Format, Problem};
use std::fmt;
use std::str::FromStr;

/// Syntax of columns, for messages.
pub(super) const SYNTAX: &str = "csv:time=NAME,op=NAME,offset=NAME,size=NAME,unit=us, perhaps with stream=NAME, offset_unit=512, \
                                 size_unit=512, read=CODE, write=CODE; NAME as in the first line, or the column's number from 1; \
                                 unit (of the time): s, ms, us, 100ns, ns; offset_unit and size_unit in bytes";
const UNITS: [(&str, u64); 5] =
    [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("100ns", 100), ("ns", 1)];
/// The fields of a request, in the order of [`Columns::of_fields`].
const FIELDS: [&str; 5] = ["time", "op", "offset", "size", "stream"];

/// A column, by name or number.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    Name(String),
    /// Index, from 0.
    Number(usize),
}

impl Column {
    /// Parses a name or a number from 1; `None`: a smaller number.
    fn read(text: &str) -> Option<Column> {
        match text.parse::<i64>() {
            Ok(number @ 1..) => Some(Column::Number(number as usize - 1)),
            Ok(_) => None,
            Err(_) => Some(Column::Name(text.to_owned())),
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Column::Name(name) => f.write_str(name),
            Column::Number(number) => write!(f, "{}", number + 1),
        }
    }
}

/// The columns of a table of requests, and the units of its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    time: Column,
    op: Column,
    offset: Column,
    size: Column,
    stream: Option<Column>,
    unit_ns: u64,
    offset_unit_bytes: u64,
    size_unit_bytes: u64,
    /// Codes of the operations, if not the usual words.
    read: Option<String>,
    write: Option<String>,
    /// True if lines without an operation are skipped instead of malformed.
    may_lack_op: bool,
}

/// Malformed columns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}: {problem}; allowed: {SYNTAX}")]
pub struct ColumnsError {
    text: String,
    problem: String,
}

impl FromStr for Columns {
    type Err = ColumnsError;

    /// Parses the text after `csv:`.
    fn from_str(text: &str) -> Result<Columns, ColumnsError> {
        let refuse = |problem: String| ColumnsError { text: format!("csv:{text}"), problem };
        let mut given: Vec<(&str, &str)> = Vec::new();
        for part in text.split(',') {
            let pair = part.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            match pair.filter(|(_, value)| !value.is_empty()) {
                Some((key, _)) if given.iter().any(|(other, _)| *other == key) => {
                    return Err(refuse(format!("{key} is given twice")));
                }
                Some(pair) => given.push(pair),
                None => return Err(refuse(format!("{part:?} is no KEY=VALUE"))),
            }
        }
        let mut take = |key: &str| {
            let at = given.iter().position(|(other, _)| *other == key)?;
            Some(given.swap_remove(at).1)
        };
        let mut needed = |key: &str| take(key).ok_or_else(|| refuse(format!("{key} is missing")));
        let read = |key: &str, text: &str| {
            Column::read(text)
                .ok_or_else(|| refuse(format!("{key} is {text}, and columns are counted from 1")))
        };
        let mut column = |key: &str| read(key, needed(key)?);
        let [time, op, offset, size] = [column("time")?, column("op")?, column("offset")?, column("size")?];
        let unit = needed("unit")?;
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let unit_ns = known.ok_or_else(|| refuse(format!("unit is {unit:?}")))?.1;
        let bytes = |key: &str, text: Option<&str>| match text.map(str::parse) {
            None => Ok(1),
            Some(Ok(bytes @ 1..)) => Ok(bytes),
            Some(_) => Err(refuse(format!("{key} is {:?}", text.unwrap_or_default()))),
        };
        let columns = Columns {
            time,
            op,
            offset,
            size,
            stream: take("stream").map(|text| read("stream", text)).transpose()?,
            unit_ns,
            offset_unit_bytes: bytes("offset_unit", take("offset_unit"))?,
            size_unit_bytes: bytes("size_unit", take("size_unit"))?,
            read: take("read").map(str::to_owned),
            write: take("write").map(str::to_owned),
            may_lack_op: false,
        };
        match given.first() {
            None => Ok(columns),
            Some((key, _)) => Err(refuse(format!("{key} is unknown"))),
        }
    }
}

impl Columns {
    /// The columns of a known format by their published names; `None`: its lines have no names.
    pub(super) fn of(format: Format, spc_lba_bytes: u64) -> Option<Columns> {
        let (names, unit_ns, bytes, codes) = match format {
            Format::Msr => (["Timestamp", "Type", "Offset", "Size", "DiskNumber"], 100, [1, 1], None),
            Format::Alibaba => {
                (["timestamp", "opcode", "offset", "length", "device_id"], 1_000, [1, 1], None)
            }
            Format::Tencent => {
                let names = ["Timestamp", "IOType", "Offset", "Size", "VolumeID"];
                (names, 1_000_000_000, [512, 512], Some(("0", "1")))
            }
            Format::Spc => {
                let names = ["Timestamp", "Opcode", "LBA", "Size", "ASU"];
                (names, 1_000_000_000, [spc_lba_bytes, 1], None)
            }
            Format::Systor => (["Timestamp", "IOType", "Offset", "Size", "LUN"], 1_000_000_000, [1, 1], None),
            Format::Mqsim => (["time", "type", "lba", "sectors", "device"], 1, [512, 512], Some(("1", "0"))),
            _ => return None,
        };
        let [time, op, offset, size, stream] = names.map(|name| Column::Name(name.to_owned()));
        Some(Columns {
            time,
            op,
            offset,
            size,
            stream: Some(stream),
            unit_ns,
            offset_unit_bytes: bytes[0],
            size_unit_bytes: bytes[1],
            read: codes.map(|(read, _)| read.to_owned()),
            write: codes.map(|(_, write)| write.to_owned()),
            may_lack_op: format == Format::Systor,
        })
    }

    fn of_fields(&self) -> [Option<&Column>; 5] {
        [Some(&self.time), Some(&self.op), Some(&self.offset), Some(&self.size), self.stream.as_ref()]
    }

    fn by_name(&self) -> bool {
        self.of_fields().into_iter().flatten().any(|column| matches!(column, Column::Name(_)))
    }

    /// Reports whether a line of names has all of these columns.
    pub(super) fn are_in(&self, line: &[u8]) -> bool {
        self.places(line).is_ok()
    }

    /// The position of each column in lines below this header. Case does not matter.
    fn places(&self, line: &[u8]) -> Result<Places, Problem> {
        let separator = Separator::of(line);
        let mut numbers = [None; 5];
        for (column, number) in self.of_fields().into_iter().zip(&mut numbers) {
            let is = |name: &str, field: &[u8]| field.eq_ignore_ascii_case(name.as_bytes());
            *number = match column {
                None => None,
                Some(Column::Number(number)) => Some(*number),
                Some(Column::Name(name)) => {
                    let found = separator.fields(line).position(|field| is(name, field));
                    let missing = || Problem::NoColumn { name: name.clone(), line: excerpt(line) };
                    Some(found.ok_or_else(missing)?)
                }
            };
        }
        Ok(Places { separator, numbers })
    }

    fn action(&self, field: &[u8]) -> Result<Action, Problem> {
        let is_code = |code: &Option<String>| code.as_ref().is_some_and(|code| code.as_bytes() == field);
        if is_code(&self.read) {
            return Ok(Action::Read);
        }
        if is_code(&self.write) {
            return Ok(Action::Write);
        }
        let words: [(&[&str], Action); 4] = [
            (&["r", "read"], Action::Read),
            (&["w", "write"], Action::Write),
            (&["d", "discard", "trim", "unmap"], Action::Trim),
            (&["f", "flush", "sync"], Action::Flush),
        ];
        let is = |word: &&str| field.eq_ignore_ascii_case(word.as_bytes());
        let known = words.iter().find(|(words, _)| words.iter().any(&is));
        known.map(|(_, action)| *action).ok_or_else(|| {
            wrong(
                "op",
                field,
                "R, W, read, write, trim, discard or flush; other codes by read=CODE and write=CODE",
            )
        })
    }
}

/// Separator of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Byte(u8),
    Blanks,
}

impl Separator {
    fn of(line: &[u8]) -> Separator {
        let found = [b',', b';', b'\t'].into_iter().find(|byte| line.contains(byte));
        found.map_or(Separator::Blanks, Separator::Byte)
    }

    /// The fields of a line, without surrounding blanks and quotes.
    fn fields(self, line: &[u8]) -> impl Iterator<Item = &[u8]> {
        let between = move |byte: &u8| match self {
            Separator::Byte(separator) => *byte == separator,
            Separator::Blanks => is_blank(*byte),
        };
        let blanks = self == Separator::Blanks;
        let fields = if blanks { trim(line) } else { line }.split(between).map(bare);
        fields.filter(move |field| !blanks || !field.is_empty())
    }
}

fn bare(field: &[u8]) -> &[u8] {
    match trim(field) {
        [b'"', inner @ .., b'"'] => trim(inner),
        field => field,
    }
}

/// Reports whether a line is a header: several fields, none of which begins like a number.
pub(super) fn is_names(line: &[u8]) -> bool {
    let is_number = |field: &[u8]| match field {
        [b'+' | b'-' | b'.', rest @ ..] => rest.first().is_some_and(u8::is_ascii_digit),
        [first, ..] => first.is_ascii_digit(),
        [] => false,
    };
    let separator = Separator::of(line);
    let named = separator.fields(line).filter(|field| field.first().is_some_and(u8::is_ascii_alphabetic));
    named.count() > 1 && !separator.fields(line).any(is_number)
}

/// Positions of a request's fields in a line.
#[derive(Clone, Copy, Debug)]
struct Places {
    separator: Separator,
    numbers: [Option<usize>; 5],
}

/// The decoder of a table. Ticks are nanoseconds.
pub(super) struct Table {
    columns: Columns,
    /// `None` before the header.
    places: Option<Places>,
}

impl Table {
    /// A table whose first line is still to come.
    pub(super) fn new(columns: Columns) -> Table {
        Table { columns, places: None }
    }

    /// A table below this header; `None`: it names other columns.
    pub(super) fn below(columns: Columns, names: &[u8]) -> Option<Table> {
        let places = columns.places(names).ok()?;
        Some(Table { columns, places: Some(places) })
    }

    pub(super) fn decode(&mut self, line: &[u8]) -> Result<Decoded, Problem> {
        let Some(places) = self.places else {
            // If a column name is missing, the first line may be a request.
            self.places = Some(self.columns.places(line)?);
            return if self.columns.by_name() || is_names(line) {
                Ok(Decoded::Nothing)
            } else {
                self.decode(line)
            };
        };
        let mut found: [Option<&[u8]>; 5] = [None; 5];
        for (at, field) in places.separator.fields(line).enumerate() {
            for (place, found) in places.numbers.iter().zip(&mut found) {
                if *place == Some(at) {
                    *found = Some(field);
                }
            }
        }
        let field = |index: usize| {
            let missing = Problem::Missing { field: FIELDS[index], layout: "the columns of the first line" };
            found[index].ok_or(missing)
        };
        let op = field(1)?;
        if op.is_empty() && self.columns.may_lack_op {
            return Ok(Decoded::Nothing);
        }
        let action = self.columns.action(op)?;
        let ticks = scaled("time", field(0)?, self.columns.unit_ns)?;
        let (offset, size) = match action {
            Action::Flush => (0, 0),
            _ => (whole("offset", field(2)?)?, whole("size", field(3)?)?),
        };
        let stream = match places.numbers[4] {
            None => 0,
            Some(_) => {
                let stream = field(4)?;
                let number = whole("stream", stream).ok().and_then(|number| u32::try_from(number).ok());
                number.ok_or_else(|| wrong("stream", stream, "a whole number below 2^32"))?
            }
        };
        let Columns { offset_unit_bytes, size_unit_bytes, .. } = self.columns;
        let offset = Bytes { count: offset, unit_bytes: offset_unit_bytes };
        let size = Bytes { count: size, unit_bytes: size_unit_bytes };
        request(ticks, action, offset, size, stream).map(Decoded::Request)
    }
}

/// Parses a whole number; table programs also write it with zeros after a point.
fn whole(name: &'static str, field: &[u8]) -> Result<u64, Problem> {
    let refuse = || wrong(name, field, "a whole number below 2^64");
    let (digits, decimals) = split_at_point(field);
    if decimals.iter().any(|&digit| digit != b'0') {
        return Err(refuse());
    }
    number(name, digits).map_err(|_| refuse())
}

/// Parses a number of units, with optional decimals, in nanoseconds; finer digits are cut off.
fn scaled(name: &'static str, field: &[u8], unit_ns: u64) -> Result<u64, Problem> {
    let refuse = || wrong(name, field, "a number from 0, with or without decimals, below 2^64 ns");
    let (digits, decimals) = split_at_point(field);
    let mut ns = u128::from(number(name, digits).map_err(|_| refuse())?) * u128::from(unit_ns);
    let mut digit_ns = unit_ns;
    for &digit in decimals {
        if !digit.is_ascii_digit() {
            return Err(refuse());
        }
        digit_ns /= 10;
        ns += u128::from(digit - b'0') * u128::from(digit_ns);
    }
    u64::try_from(ns).map_err(|_| refuse())
}

fn split_at_point(field: &[u8]) -> (&[u8], &[u8]) {
    let point = field.iter().position(|&byte| byte == b'.').unwrap_or(field.len());
    (&field[..point], field.get(point + 1..).unwrap_or_default())
}
