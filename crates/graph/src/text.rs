//! Edge lists: bytes to edges.
//!
//! | format | a line, or a record |
//! |---|---|
//! | `text` (SNAP) | `from to` or `from to weight`, separated by spaces, tabs or commas; `#` or `%` begins a comment |
//! | `matrix-market` | coordinate format: a banner, comments, a line of three sizes, then `row column [value]` counted from 1; case, blanks and the number of `%` before the banner do not matter |
//! | `binary` | two unsigned 32-bit numbers, little-endian |
//!
//! Vertices are integers from 0 to 4,294,967,294. A malformed line ends the reading; the error has its number. Edges count vertices from 0:
//! [`EdgeFormat::first`] is the file's number of vertex 0.

use super::edges::{Edge, Edges, VERTEX_MAX};
use thiserror::Error;

/// Format of an edge list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeFormat {
    /// Lines of two or three numbers.
    Text,
    /// Matrix Market's coordinate format.
    MatrixMarket,
    /// Pairs of 32-bit numbers.
    Binary,
}

impl EdgeFormat {
    /// Recognises the format of an edge list from its first bytes: a Matrix Market banner, in any spelling, before the first line that is not a
    /// comment. Binary lists cannot be recognised.
    pub fn recognise(first: &[u8]) -> EdgeFormat {
        let lines = first.split(|&byte| byte == b'\n').map(plain);
        let mut remarks = lines.take_while(|line| line.is_empty() || matches!(line[0], b'#' | b'%'));
        if remarks.any(|line| banner_of(line).is_some()) {
            EdgeFormat::MatrixMarket
        } else {
            EdgeFormat::Text
        }
    }

    /// The format's number of the first vertex.
    pub fn first(self) -> u32 {
        u32::from(self == EdgeFormat::MatrixMarket)
    }
}

/// Reason why a line or record is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place} {number}: {why}")]
pub struct EdgeError {
    /// "line" or "record".
    pub place: &'static str,
    /// Number of the line or record, counted from 1.
    pub number: u64,
    /// Description of the error, with the allowed values.
    pub why: String,
}

/// First word of a Matrix Market file, after one `%` or two.
const BANNER: &str = "matrixmarket";

/// Longest line, so that a file without lines is detected early.
const LINE_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Matrix {
    /// The next line is the banner.
    Banner,
    /// The next line that is not a comment has the sizes.
    Sizes { pattern: bool, both: bool },
    /// Entries follow.
    Entries { pattern: bool, both: bool, vertices: u64, left: u64 },
}

/// Reads edges from bytes in pieces.
#[derive(Clone, Debug)]
pub struct EdgeReader {
    format: EdgeFormat,
    matrix: Matrix,
    number: u64,
    rest: Vec<u8>,
    weighted: bool,
}

impl EdgeReader {
    /// Starts at the beginning of an edge list. `weighted`: a third number must be a weight; otherwise it is ignored.
    pub fn new(format: EdgeFormat, weighted: bool) -> EdgeReader {
        EdgeReader { format, matrix: Matrix::Banner, number: 0, rest: Vec::new(), weighted }
    }

    /// Number of vertices that the list declares; 0 if it declares none.
    pub fn vertices(&self) -> u32 {
        match self.matrix {
            Matrix::Entries { vertices, .. } => vertices as u32,
            _ => 0,
        }
    }

    /// Number of lines or records so far.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Parses the next bytes; appends to `edges`.
    pub fn feed(&mut self, mut bytes: &[u8], edges: &mut Edges) -> Result<(), EdgeError> {
        if self.format == EdgeFormat::Binary {
            return self.feed_binary(bytes, edges);
        }
        if !self.rest.is_empty() {
            let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
                self.rest.extend_from_slice(bytes);
                return self.check_length(self.rest.len());
            };
            let mut line = std::mem::take(&mut self.rest);
            line.extend_from_slice(&bytes[..end]);
            self.line(&line, edges)?;
            line.clear();
            self.rest = line;
            bytes = &bytes[end + 1..];
        }
        while !bytes.is_empty() {
            if self.format == EdgeFormat::Text && !self.weighted {
                bytes = self.plain(bytes, edges);
            }
            let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
                self.check_length(bytes.len())?;
                self.rest.extend_from_slice(bytes);
                break;
            };
            self.line(&bytes[..end], edges)?;
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// Ends the input.
    pub fn finish(&mut self, edges: &mut Edges) -> Result<(), EdgeError> {
        let rest = std::mem::take(&mut self.rest);
        match (self.format, self.matrix) {
            (EdgeFormat::Binary, _) if !rest.is_empty() => {
                self.number += 1;
                let why = format!("{} bytes, cut short; allowed: 8 for each edge", rest.len());
                return Err(self.error(why));
            }
            (EdgeFormat::Binary, _) => return Ok(()),
            _ if !rest.is_empty() => self.line(&rest, edges)?,
            _ => {}
        }
        match (self.format, self.matrix) {
            (EdgeFormat::MatrixMarket, Matrix::Entries { left: 0, .. }) | (EdgeFormat::Text, _) => Ok(()),
            (EdgeFormat::MatrixMarket, Matrix::Entries { left, .. }) => {
                Err(self
                    .error(format!("the file ends, {left} entries before the last that its sizes promise")))
            }
            _ => Err(self.error("the file ends before its line of sizes".into())),
        }
    }

    fn check_length(&self, bytes: usize) -> Result<(), EdgeError> {
        if bytes <= LINE_MAX {
            return Ok(());
        }
        let number = self.number + 1;
        let why = format!("longer than {LINE_MAX} bytes; is this an edge list? (--format says what it is)");
        Err(EdgeError { place: "line", number, why })
    }

    fn error(&self, why: String) -> EdgeError {
        let place = if self.format == EdgeFormat::Binary { "record" } else { "line" };
        EdgeError { place, number: self.number, why }
    }

    fn feed_binary(&mut self, mut bytes: &[u8], edges: &mut Edges) -> Result<(), EdgeError> {
        if !self.rest.is_empty() {
            let missing = (8 - self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if let Ok(record) = <[u8; 8]>::try_from(self.rest.as_slice()) {
                self.rest.clear();
                self.record(record, edges)?;
            }
        }
        let (records, rest) = bytes.as_chunks::<8>();
        edges.ends.reserve(records.len());
        for &record in records {
            self.record(record, edges)?;
        }
        self.rest.extend_from_slice(rest);
        Ok(())
    }

    #[inline]
    fn record(&mut self, record: [u8; 8], edges: &mut Edges) -> Result<(), EdgeError> {
        self.number += 1;
        let [a, b, c, d, e, f, g, h] = record;
        let (from, to) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        if from > VERTEX_MAX || to > VERTEX_MAX {
            return Err(self.error(too_large(u32::MAX)));
        }
        edges.push(Edge::new(from, to));
        Ok(())
    }

    /// Fast path: lines of two numbers with one byte between them, almost all lines of almost all files.
    fn plain<'a>(&mut self, mut bytes: &'a [u8], edges: &mut Edges) -> &'a [u8] {
        while let Some((from, rest)) = digits(bytes)
            && let Some((&(b' ' | b'\t' | b','), rest)) = rest.split_first()
            && let Some((to, rest)) = digits(rest)
            && let Some((b'\n', rest)) = rest.split_first()
        {
            if from > u64::from(VERTEX_MAX) || to > u64::from(VERTEX_MAX) {
                break;
            }
            edges.push(Edge::new(from as u32, to as u32));
            self.number += 1;
            bytes = rest;
        }
        bytes
    }

    fn line(&mut self, line: &[u8], edges: &mut Edges) -> Result<(), EdgeError> {
        self.check_length(line.len())?;
        self.number += 1;
        if self.format == EdgeFormat::MatrixMarket && self.matrix == Matrix::Banner {
            let remark = plain(line);
            if banner_of(remark).is_none() && (remark.is_empty() || matches!(remark[0], b'#' | b'%')) {
                return Ok(());
            }
            self.matrix = banner(remark).map_err(|why| self.error(why))?;
            return Ok(());
        }
        // A line may end with two bytes. A lone carriage return is no line end: it would hide the lines behind it.
        let plain = line.strip_suffix(b"\r").unwrap_or(line);
        let mut fields =
            plain.split(|&byte| matches!(byte, b' ' | b'\t' | b',')).filter(|field| !field.is_empty());
        let Some(first) = fields.next() else { return Ok(()) };
        if matches!(first[0], b'#' | b'%') {
            return Ok(());
        }
        let (second, third, more) = (fields.next(), fields.next(), fields.next());
        let Some(second) = second else {
            return Err(
                self.error(format!("{:?}: one field; allowed: two vertices, and a weight", text(line)))
            );
        };
        match (self.format, self.matrix) {
            (EdgeFormat::MatrixMarket, Matrix::Sizes { pattern, both }) => {
                self.matrix = sizes(first, second, third, pattern, both).map_err(|why| self.error(why))?;
                Ok(())
            }
            (EdgeFormat::MatrixMarket, Matrix::Entries { pattern, both, vertices, left }) => {
                let weight = if pattern { None } else { third };
                if self.weighted && !pattern && weight.is_none() {
                    return Err(self.error(format!("{:?}: no value; its banner promises one", text(line))));
                }
                let edge = self.edge(first, second, weight)?;
                let inside = |vertex: u32| (1..=vertices).contains(&u64::from(vertex));
                if !inside(edge.from) || !inside(edge.to) {
                    let why = format!("{:?}: rows and columns are from 1 to {vertices}", text(line));
                    return Err(self.error(why));
                }
                if left == 0 {
                    return Err(self.error("one entry more than its sizes promise".into()));
                }
                self.matrix = Matrix::Entries { pattern, both, vertices, left: left - 1 };
                let edge = Edge { from: edge.from - 1, to: edge.to - 1, ..edge };
                edges.push(edge);
                if both && edge.from != edge.to {
                    edges.push(Edge { from: edge.to, to: edge.from, ..edge });
                }
                Ok(())
            }
            _ => {
                if self.weighted && more.is_some() {
                    let why = format!(
                        "{:?}: more than three fields; allowed: two vertices, and a weight",
                        text(line)
                    );
                    return Err(self.error(why));
                }
                let edge = self.edge(first, second, third)?;
                edges.push(edge);
                Ok(())
            }
        }
    }

    fn edge(&self, from: &[u8], to: &[u8], weight: Option<&[u8]>) -> Result<Edge, EdgeError> {
        let vertex = |field: &[u8]| match digits(field) {
            Some((value, [])) if value <= u64::from(VERTEX_MAX) => Ok(value as u32),
            Some((_, [])) => Err(self.error(too_large(text(field)))),
            _ => Err(self.error(format!(
                "{:?} is no vertex; allowed: whole numbers from 0 to {VERTEX_MAX}",
                text(field)
            ))),
        };
        let (from, to) = (vertex(from)?, vertex(to)?);
        let weight = match weight.filter(|_| self.weighted) {
            None => 1.0,
            Some(field) => match text(field).parse::<f32>() {
                Ok(weight) if weight >= 0.0 && weight.is_finite() => weight,
                _ => {
                    let why = format!("{:?} is no weight; allowed: numbers from 0 on", text(field));
                    return Err(self.error(why));
                }
            },
        };
        Ok(Edge { from, to, weight })
    }
}

fn too_large(vertex: impl std::fmt::Display) -> String {
    format!("vertex {vertex} is too large; allowed: up to {VERTEX_MAX}")
}

fn text(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(60)];
    String::from_utf8_lossy(shown).into_owned()
}

/// Parses leading digits, saturating; returns the number and the rest.
#[inline]
fn digits(bytes: &[u8]) -> Option<(u64, &[u8])> {
    if let Some(word) = bytes.first_chunk::<8>() {
        // Tests eight bytes at once: the highest bit of a byte is set unless it is a digit.
        let digits = u64::from_le_bytes(*word) ^ 0x3030_3030_3030_3030;
        let other = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
        let count = other.trailing_zeros() / 8;
        match count {
            0 => return None,
            1..8 => return Some((eight(digits << (64 - 8 * count)), &bytes[count as usize..])),
            _ => {}
        }
    }
    let (mut value, mut at) = (0_u64, 0);
    while let Some(digit) = bytes.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        value = value.saturating_mul(10).saturating_add(u64::from(digit));
        at += 1;
    }
    (at > 0).then(|| (value, &bytes[at..]))
}

/// Converts eight decimal digits, the first in the lowest byte, by joining them to pairs, fours and eight.
#[inline]
fn eight(digits: u64) -> u64 {
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = (pairs >> 16 & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    low.wrapping_add(high) >> 32
}

/// Trims blanks around a line, and the byte-order mark that some programs write.
fn plain(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii()
}

/// The words of a banner, lowercased, without its `%`; `None`: the line is not a banner.
fn banner_of(line: &[u8]) -> Option<String> {
    let words = String::from_utf8_lossy(line).to_lowercase();
    let words = words.strip_prefix('%')?.trim_start_matches('%').trim_start();
    words.starts_with(BANNER).then(|| words.into())
}

fn banner(line: &[u8]) -> Result<Matrix, String> {
    let line = banner_of(line).unwrap_or_default();
    let mut words = line.split_whitespace();
    let mut next = || words.next().unwrap_or("");
    let (magic, object, form, field, symmetry) = (next(), next(), next(), next(), next());
    if magic != BANNER || object != "matrix" || form != "coordinate" {
        return Err(
            "no banner of a matrix in coordinate format; allowed: %%MatrixMarket matrix coordinate ..."
                .into(),
        );
    }
    let pattern = match field {
        "pattern" => true,
        "real" | "integer" | "double" => false,
        _ => return Err(format!("entries are {field:?}; allowed: pattern, integer, real")),
    };
    match symmetry {
        "general" => Ok(Matrix::Sizes { pattern, both: false }),
        "symmetric" => Ok(Matrix::Sizes { pattern, both: true }),
        _ => Err(format!("the matrix is {symmetry:?}; allowed: general, symmetric")),
    }
}

fn sizes(
    rows: &[u8],
    columns: &[u8],
    entries: Option<&[u8]>,
    pattern: bool,
    both: bool,
) -> Result<Matrix, String> {
    let number = |field: &[u8]| digits(field).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value);
    let all = (number(rows), number(columns), entries.and_then(number));
    let (Some(rows), Some(columns), Some(left)) = all else {
        return Err("no sizes; allowed: numbers of rows, columns and entries".into());
    };
    let vertices = rows.max(columns);
    if vertices > u64::from(VERTEX_MAX) {
        return Err(too_large(vertices));
    }
    Ok(Matrix::Entries { pattern, both, vertices, left })
}
