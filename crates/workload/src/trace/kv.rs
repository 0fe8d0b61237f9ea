//! Key-value traces: requests of clients to a cache, one per line.
//!
//! | name | one request |
//! |---|---|
//! | `twitter` | `timestamp,anonymized key,key size,value size,client id,operation,TTL`; no header (github.com/twitter/cache-trace) |
//! | `cachelib` | columns named by a header line, of which `key`, `op` and `size` are required: `key,op,size,op_count,key_size` (2022), `op_time,key,key_size,op,op_count,size,cache_hits,ttl[,...]` (later); without a header the first of these, with or without `ttl` (CacheBench's `KVReplayGenerator`) |
//!
//! Plain, gzip and zstd, like block traces, and equally strict: the first malformed line ends the reading with an error that names it.
//!
//! # Rules
//!
//! * A key is padded with `0`s to the length given in the trace. It has at most 250 bytes, memcached's limit; the last 16 bytes of a
//!   longer key are replaced by a hash of the whole. An anonymized key may contain commas, so `twitter` counts its other fields from
//!   the end.
//! * Blanks and control characters, which memcached's protocols do not allow in a key, become `_`.
//! * `op_count` requests form a sequence: each is answered before the next. `GET_LEASE` and `SET_LEASE` are gets and sets.
//! * `cas` is a set: the trace does not name the version. `incr` and `decr` are by 1.
//! * A get has the size of the value that the traced cache returned, or 0 if there was none or it is unknown.
//! * A missing time is 0; a time earlier than the previous one is replaced by it.

use super::error::{Position, Problem, TraceError};
use super::field::{Commas, excerpt, number, wrong};
use super::foreign;
use super::source::Source;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

/// The longest key of memcached.
pub const KEY_BYTES_MAX: usize = 250;

/// Operation of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Return the value.
    #[default]
    Get,
    /// Store it.
    Set,
    /// Store it if there is none.
    Add,
    /// Store it if there is one.
    Replace,
    /// Append it to the present one.
    Append,
    /// Prepend it to the present one.
    Prepend,
    /// Remove it.
    Delete,
    /// Add 1 to the number.
    Increment,
    /// Subtract 1 from it.
    Decrement,
}

/// One request of a trace, reused for the next, so that reading allocates nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvRecord {
    /// Seconds since the first record.
    pub at_s: u32,
    /// Operation.
    pub operation: Operation,
    /// The key, from 1 to 250 bytes.
    pub key: Vec<u8>,
    /// Bytes of the value; 0 for a get with unknown value.
    pub value_bytes: u32,
    /// Seconds until the value expires; 0: never.
    pub ttl_s: u32,
}

/// The layout of a key-value trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum KvFormat {
    /// Twitter's cache trace of 2020.
    Twitter,
    /// CacheLib's key-value CSV.
    CacheLib,
}

impl KvFormat {
    /// All formats.
    pub const ALL: [KvFormat; 2] = [KvFormat::Twitter, KvFormat::CacheLib];

    /// The name by which the format is chosen.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for KvFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An unknown format name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown key-value trace format {0:?}; allowed: twitter, cachelib")]
pub struct UnknownKvFormat(String);

impl FromStr for KvFormat {
    type Err = UnknownKvFormat;

    fn from_str(name: &str) -> Result<KvFormat, UnknownKvFormat> {
        let known = KvFormat::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| UnknownKvFormat(name.to_owned()))
    }
}

/// Reads a key-value trace; ends after the first error.
pub struct KvReader {
    name: String,
    source: Source,
    layout: Layout,
    lines_read: u64,
    times: Times,
}

impl KvReader {
    /// Opens a trace file; without a format, it is recognised from the first line.
    pub fn open(path: impl AsRef<Path>, format: Option<KvFormat>) -> Result<KvReader, TraceError> {
        let name = path.as_ref().display().to_string();
        let file = File::open(path).map_err(|error| TraceError::new(&name, Position::Whole, error.into()))?;
        KvReader::from_read(&name, file, format)
    }

    /// Reads a trace from any input; `name` stands for the file in messages.
    pub fn from_read(
        name: &str,
        input: impl Read + Send + 'static,
        format: Option<KvFormat>,
    ) -> Result<KvReader, TraceError> {
        let whole = |problem| TraceError::new(name, Position::Whole, problem);
        let mut source = Source::new(Box::new(input)).map_err(|error| whole(error.into()))?;
        let (head, _) = source.peek();
        let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
        let layout = match foreign::kind(head) {
            Some(kind) => Err(Problem::Foreign(kind)),
            None => Layout::of(first, format).map_err(|problem| match problem {
                Problem::UnrecognisedKeys(_) => {
                    foreign::kind_or_binary(head).map_or(problem, Problem::Foreign)
                }
                problem => problem,
            }),
        };
        let layout = layout.map_err(|problem| {
            // An unreadable file has no recognised format.
            whole(source.take_failure().map_or(problem, Problem::Io))
        })?;
        let mut reader =
            KvReader { name: name.into(), source, layout, lines_read: 0, times: Times::default() };
        if matches!(reader.layout, Layout::CacheLib(Columns { header: true, .. })) {
            reader.line(&mut KvRecord::default()).map_err(|problem| reader.error(problem))?;
        }
        Ok(reader)
    }

    /// The given or recognised format.
    pub fn format(&self) -> KvFormat {
        match self.layout {
            Layout::Twitter => KvFormat::Twitter,
            Layout::CacheLib(_) => KvFormat::CacheLib,
        }
    }

    /// Reads the next record into `record`, and returns the number of such requests in sequence; 0 at the end of the trace.
    pub fn next_into(&mut self, record: &mut KvRecord) -> Result<u64, TraceError> {
        self.line(record).map_err(|problem| self.error(problem))
    }

    fn error(&self, problem: Problem) -> TraceError {
        TraceError::new(&self.name, Position::Line(self.lines_read.max(1)), problem)
    }

    /// Reads the next non-blank line, and returns how many requests it stands for; a header is read once, and counts as one.
    fn line(&mut self, record: &mut KvRecord) -> Result<u64, Problem> {
        loop {
            self.lines_read += 1;
            let Some(line) = self.source.line()? else { return Ok(0) };
            if line.trim_ascii().is_empty() {
                continue;
            }
            if let Layout::CacheLib(columns) = &mut self.layout
                && std::mem::take(&mut columns.header)
            {
                return Ok(1);
            }
            let (at, count) = match &self.layout {
                Layout::Twitter => (twitter(line, record)?, 1),
                Layout::CacheLib(columns) => columns.record(line, record)?,
            };
            record.at_s = self.times.since_first(at)?;
            return Ok(count);
        }
    }
}

/// Seconds since the first record, never decreasing.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    first: Option<u64>,
    latest: u64,
}

impl Times {
    fn since_first(&mut self, at: u64) -> Result<u32, Problem> {
        let first = *self.first.get_or_insert(at);
        self.latest = self.latest.max(at);
        let since = self.latest - first;
        u32::try_from(since).map_err(|_| Problem::TooLate { ticks: at, tick_ns: 1_000_000_000 })
    }
}

enum Layout {
    Twitter,
    CacheLib(Columns),
}

impl Layout {
    fn of(first: &[u8], format: Option<KvFormat>) -> Result<Layout, Problem> {
        let named = || Columns::named(first);
        match format {
            Some(KvFormat::Twitter) => Ok(Layout::Twitter),
            Some(KvFormat::CacheLib) => named().map(|c| Layout::CacheLib(c.unwrap_or(Columns::DEFAULT))),
            // An empty trace matches any format, and has no requests.
            None if first.is_empty() => Ok(Layout::Twitter),
            None => {
                // Before the check of column names, which could also be keys.
                let mut scratch = KvRecord::default();
                if twitter(first, &mut scratch).is_ok() {
                    return Ok(Layout::Twitter);
                }
                if let Some(columns) = named()? {
                    return Ok(Layout::CacheLib(columns));
                }
                if Columns::DEFAULT.record(first, &mut scratch).is_ok() {
                    return Ok(Layout::CacheLib(Columns::DEFAULT));
                }
                Err(Problem::UnrecognisedKeys(excerpt(first)))
            }
        }
    }
}

const TWITTER: &str = "timestamp,key,key size,value size,client id,operation,TTL";

fn twitter(line: &[u8], record: &mut KvRecord) -> Result<u64, Problem> {
    const FIELDS: [&str; 7] = ["timestamp", "key", "key size", "value size", "client id", "operation", "TTL"];
    let commas = line.iter().filter(|&&byte| byte == b',').count();
    if let Some(&field) = FIELDS.get(commas + 1) {
        return Err(Problem::Missing { field, layout: TWITTER });
    }
    // The key, which may contain commas, is between the first field and the last five.
    let mut fields = line.rsplitn(6, |&byte| byte == b',').map(<[u8]>::trim_ascii);
    let last: [&[u8]; 5] = std::array::from_fn(|_| fields.next().unwrap_or_default());
    let [ttl, operation, _client, value_bytes, key_bytes] = last;
    let mut first = fields.next().unwrap_or_default().splitn(2, |&byte| byte == b',');
    let (time, key) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    record.operation = match operation {
        b"get" | b"gets" => Operation::Get,
        b"set" | b"cas" => Operation::Set,
        b"add" => Operation::Add,
        b"replace" => Operation::Replace,
        b"append" => Operation::Append,
        b"prepend" => Operation::Prepend,
        b"delete" => Operation::Delete,
        b"incr" => Operation::Increment,
        b"decr" => Operation::Decrement,
        other => {
            let allowed = "get, gets, set, add, replace, cas, append, prepend, delete, incr or decr";
            return Err(wrong("operation", other, allowed));
        }
    };
    set_key(record, key, number("key size", key_bytes)?)?;
    record.value_bytes = small("value size", value_bytes)?;
    record.ttl_s = small("TTL", ttl)?;
    number("timestamp", time.trim_ascii())
}

/// Positions of the columns of a CacheLib trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    /// True if a header line comes first and has not been read.
    header: bool,
    key: usize,
    op: usize,
    size: usize,
    op_count: Option<usize>,
    key_size: Option<usize>,
    ttl: Option<usize>,
    op_time: Option<usize>,
}

const CACHELIB: &str = "a header line that names the columns key, op and size, and their values";

impl Columns {
    /// CacheBench's order, without a header.
    const DEFAULT: Columns = Columns {
        header: false,
        key: 0,
        op: 1,
        size: 2,
        op_count: Some(3),
        key_size: Some(4),
        ttl: Some(5),
        op_time: None,
    };

    /// The columns named in `line`, if it is a header.
    fn named(line: &[u8]) -> Result<Option<Columns>, Problem> {
        let find = |name: &str| {
            line.split(|&byte| byte == b',').position(|field| field.trim_ascii() == name.as_bytes())
        };
        if ["key", "op", "size"].into_iter().all(|name| find(name).is_none()) {
            return Ok(None);
        }
        let required = |name| find(name).ok_or(Problem::Missing { field: name, layout: CACHELIB });
        Ok(Some(Columns {
            header: true,
            key: required("key")?,
            op: required("op")?,
            size: required("size")?,
            op_count: find("op_count"),
            key_size: find("key_size"),
            ttl: find("ttl"),
            op_time: find("op_time"),
        }))
    }

    /// Decodes a line; returns its time and how many requests it stands for.
    fn record(&self, line: &[u8], record: &mut KvRecord) -> Result<(u64, u64), Problem> {
        let mut fields = Commas::new(line, CACHELIB);
        let [mut key, mut op, mut size] = [None::<&[u8]>; 3];
        let (mut op_count, mut key_size, mut ttl, mut op_time) = (1, 0, 0, 0);
        let optional = |name, field: &[u8]| if field.is_empty() { Ok(0) } else { number(name, field) };
        for at in 0.. {
            // A line may have fewer fields than the header: the last ones are optional.
            let Ok(field) = fields.field("") else { break };
            let here = Some(at);
            match at {
                _ if at == self.key => key = Some(field),
                _ if at == self.op => op = Some(field),
                _ if at == self.size => size = Some(field),
                _ if here == self.op_count => op_count = number("op_count", field)?,
                _ if here == self.key_size => key_size = number("key_size", field)?,
                _ if here == self.ttl => ttl = optional("ttl", field)?,
                _ if here == self.op_time => op_time = number("op_time", field)?,
                _ => {}
            }
        }
        let missing = |field| Problem::Missing { field, layout: CACHELIB };
        record.operation = match op.ok_or_else(|| missing("op"))? {
            b"GET" | b"GET_LEASE" => Operation::Get,
            b"SET" | b"SET_LEASE" => Operation::Set,
            b"DELETE" => Operation::Delete,
            other => return Err(wrong("op", other, "GET, GET_LEASE, SET, SET_LEASE or DELETE")),
        };
        record.value_bytes = small("size", size.ok_or_else(|| missing("size"))?)?;
        record.ttl_s = ttl.min(u64::from(u32::MAX)) as u32;
        set_key(record, key.ok_or_else(|| missing("key"))?, key_size)?;
        if op_count == 0 {
            return Err(wrong("op_count", b"0", "1 or more"));
        }
        Ok((op_time, op_count))
    }
}

fn small(name: &'static str, field: &[u8]) -> Result<u32, Problem> {
    let value = number(name, field)?;
    u32::try_from(value).map_err(|_| wrong(name, field, "a whole number below 2^32"))
}

/// Pads or hashes `key` to its original length; see the rules above.
fn set_key(record: &mut KvRecord, key: &[u8], bytes: u64) -> Result<(), Problem> {
    let key = key.trim_ascii();
    if key.is_empty() {
        return Err(wrong("key", key, "at least one byte"));
    }
    record.key.clear();
    let shown = key.iter().take(KEY_BYTES_MAX);
    record.key.extend(shown.map(|&byte| if byte <= b' ' || byte == 0x7f { b'_' } else { byte }));
    if key.len() > KEY_BYTES_MAX {
        let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        record.key.truncate(KEY_BYTES_MAX - 16);
        record.key.extend_from_slice(format!("{hash:016x}").as_bytes());
    }
    let bytes = bytes.min(KEY_BYTES_MAX as u64) as usize;
    if bytes > record.key.len() {
        record.key.resize(bytes, b'0');
    }
    Ok(())
}
