//! Splitting a line into fields and parsing numbers, for all text formats. Works on bytes, allocates only for an error.

use super::Action;
use super::error::Problem;

/// Content of a line or binary record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// Line or record without a request.
    Nothing,
    /// A request.
    Request(Raw),
    /// A flush, followed by this request.
    FlushThen(Raw),
    /// The rest of the trace has no request.
    End,
}

/// A request whose time is in the format's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Raw {
    pub(super) ticks: u64,
    pub(super) action: Action,
    pub(super) offset_bytes: u64,
    pub(super) length_bytes: u64,
    pub(super) stream: u32,
}

/// A number and its unit in bytes.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    pub(super) count: u64,
    pub(super) unit_bytes: u64,
}

pub(super) fn sectors(count: u64) -> Bytes {
    Bytes { count, unit_bytes: 512 }
}

pub(super) fn bytes(count: u64) -> Bytes {
    Bytes { count, unit_bytes: 1 }
}

/// The longest request of any protocol: SCSI, NVMe and Linux count at most 2^32 blocks, of at most 4 KiB for such counts.
const LENGTH_MAX_BYTES: u64 = 1 << 44;

/// A request in bytes, refused if it is longer than any protocol allows, or its end does not fit 64 bits.
pub(super) fn request(
    ticks: u64,
    action: Action,
    offset: Bytes,
    length: Bytes,
    stream: u32,
) -> Result<Raw, Problem> {
    if action == Action::Flush {
        return Ok(Raw { ticks, action, offset_bytes: 0, length_bytes: 0, stream });
    }
    let offset_bytes = offset.count.checked_mul(offset.unit_bytes);
    let length_bytes = length.count.checked_mul(length.unit_bytes);
    if length_bytes.is_none_or(|bytes| bytes > LENGTH_MAX_BYTES) {
        return Err(Problem::Long {
            length: length.count,
            unit_bytes: length.unit_bytes,
            most_bytes: LENGTH_MAX_BYTES,
        });
    }
    if let (Some(offset_bytes), Some(length_bytes)) = (offset_bytes, length_bytes)
        && offset_bytes.checked_add(length_bytes).is_some()
    {
        return Ok(Raw { ticks, action, offset_bytes, length_bytes, stream });
    }
    Err(Problem::Extent {
        offset: offset.count,
        offset_unit_bytes: offset.unit_bytes,
        length: length.count,
        length_unit_bytes: length.unit_bytes,
    })
}

pub(super) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

pub(super) fn trim(mut field: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = field
        && is_blank(*first)
    {
        field = rest;
    }
    while let [rest @ .., last] = field
        && is_blank(*last)
    {
        field = rest;
    }
    field
}

/// Fields separated by commas; surrounding blanks are ignored.
pub(super) struct Commas<'a> {
    rest: Option<&'a [u8]>,
    layout: &'static str,
}

impl<'a> Commas<'a> {
    pub(super) fn new(line: &'a [u8], layout: &'static str) -> Commas<'a> {
        Commas { rest: Some(line), layout }
    }

    pub(super) fn field(&mut self, name: &'static str) -> Result<&'a [u8], Problem> {
        let Some(rest) = self.rest else { return Err(Problem::Missing { field: name, layout: self.layout }) };
        let field = match rest.iter().position(|&byte| byte == b',') {
            Some(at) => {
                self.rest = Some(&rest[at + 1..]);
                &rest[..at]
            }
            None => {
                self.rest = None;
                rest
            }
        };
        Ok(trim(field))
    }

    pub(super) fn number(&mut self, name: &'static str) -> Result<u64, Problem> {
        number(name, self.field(name)?)
    }

    pub(super) fn number_u32(&mut self, name: &'static str) -> Result<u32, Problem> {
        number_u32(name, self.field(name)?)
    }

    pub(super) fn end(&self) -> Result<(), Problem> {
        match self.rest {
            None => Ok(()),
            Some(rest) => Err(Problem::Excess { value: excerpt(rest), layout: self.layout }),
        }
    }
}

/// Fields separated by runs of blanks.
pub(super) struct Blanks<'a> {
    rest: &'a [u8],
    layout: &'static str,
}

impl<'a> Blanks<'a> {
    pub(super) fn new(line: &'a [u8], layout: &'static str) -> Blanks<'a> {
        Blanks { rest: trim(line), layout }
    }

    /// The next field; `None` at the end of the line.
    pub(super) fn optional(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|&byte| is_blank(byte)).unwrap_or(self.rest.len());
        let (field, rest) = self.rest.split_at(end);
        self.rest = trim(rest);
        Some(field)
    }

    /// Takes the last field off the end of the line.
    pub(super) fn last(&mut self, name: &'static str) -> Result<&'a [u8], Problem> {
        if self.rest.is_empty() {
            return Err(Problem::Missing { field: name, layout: self.layout });
        }
        let start = self.rest.iter().rposition(|&byte| is_blank(byte)).map_or(0, |at| at + 1);
        let (rest, field) = self.rest.split_at(start);
        self.rest = trim(rest);
        Ok(field)
    }

    pub(super) fn field(&mut self, name: &'static str) -> Result<&'a [u8], Problem> {
        self.optional().ok_or(Problem::Missing { field: name, layout: self.layout })
    }

    pub(super) fn number(&mut self, name: &'static str) -> Result<u64, Problem> {
        number(name, self.field(name)?)
    }

    pub(super) fn end(&self) -> Result<(), Problem> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Problem::Excess { value: excerpt(self.rest), layout: self.layout })
    }
}

/// Parses an unsigned decimal number.
pub(super) fn number(name: &'static str, field: &[u8]) -> Result<u64, Problem> {
    const EXPECTED: &str = "a whole number below 2^64";
    let mut value: u64 = 0;
    for &byte in field {
        let digit = byte.wrapping_sub(b'0');
        let next = value.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit)));
        value = match next {
            Some(next) if digit < 10 => next,
            _ => return Err(wrong(name, field, EXPECTED)),
        };
    }
    if field.is_empty() { Err(wrong(name, field, EXPECTED)) } else { Ok(value) }
}

pub(super) fn number_u32(name: &'static str, field: &[u8]) -> Result<u32, Problem> {
    let value = number(name, field).ok().and_then(|value| u32::try_from(value).ok());
    value.ok_or_else(|| wrong(name, field, "a whole number below 2^32"))
}

/// Parses seconds with optional decimals, in nanoseconds; decimals after the ninth are cut off.
pub(super) fn seconds_as_ns(name: &'static str, field: &[u8]) -> Result<u64, Problem> {
    let point = field.iter().position(|&byte| byte == b'.').unwrap_or(field.len());
    let (whole, decimals) = (&field[..point], field.get(point + 1..).unwrap_or_default());
    let mut ns: u64 = 0;
    let mut unit_ns: u64 = 100_000_000;
    for &byte in decimals {
        if !byte.is_ascii_digit() {
            return Err(wrong(name, field, SECONDS));
        }
        ns += u64::from(byte - b'0') * unit_ns;
        unit_ns /= 10;
    }
    let whole = number(name, whole).map_err(|_| wrong(name, field, SECONDS))?;
    let whole_ns = whole.checked_mul(1_000_000_000).and_then(|whole_ns| whole_ns.checked_add(ns));
    whole_ns.ok_or_else(|| wrong(name, field, SECONDS))
}

const SECONDS: &str = "seconds, with or without decimals, below 2^64 ns";

/// The device number `major << 20 | minor`, as the kernel packs it.
pub(super) fn device(major: u32, minor: u32) -> Option<u32> {
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

pub(super) fn wrong(field: &'static str, value: &[u8], expected: &'static str) -> Problem {
    Problem::Field { field, value: excerpt(value), expected }
}

/// The beginning of `text`, for a message.
pub(super) fn excerpt(text: &[u8]) -> String {
    const SHOWN_BYTES: usize = 80;
    let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES)]);
    if text.len() > SHOWN_BYTES { format!("{shown}...") } else { shown.into_owned() }
}
