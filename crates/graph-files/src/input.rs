//! Input of edges: bytes that threads read, decompress and parse, or columns of a Parquet file.
//!
//! ```text
//!   reader: pieces of whole lines ─┬─► parser 0 ─┐
//!                                  ├─► parser 1 ─┼─► Input: chunks in the order of the pieces
//!                                  └─► ...      ─┘
//! ```
//! Piece n goes to parser n modulo the number of parsers, and its chunk is taken from that parser, so pieces
//! need no sequence numbers. Each parser has at most one piece and one chunk waiting, so the memory in flight
//! is bounded.

use crate::tables;
use pellucid_graph::edges::Edges;
use pellucid_graph::prepare::{Chunk, Shape};
use pellucid_graph::text::{EdgeError, EdgeFormat, EdgeReader};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use thiserror::Error;

/// Reason that edges could not be read.
#[derive(Debug, Error)]
pub enum InputError {
    /// A line or record is malformed.
    #[error(transparent)]
    Edge(#[from] EdgeError),
    /// The bytes could not be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// A table is malformed or unsupported.
    #[error("{0}")]
    Table(String),
    /// A parser panicked on unexpected foreign bytes. The edges read so far are incomplete.
    #[error("it cannot be read to its end: it is damaged, or its reader is")]
    Panic,
}

/// Options for reading edges.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Edges to keep, and their orientation.
    pub shape: Shape,
    /// Edges keep their weights.
    pub weighted: bool,
    /// Maximum number of parser threads.
    pub threads: usize,
    /// Memory for edges in flight, in bytes.
    pub memory_bytes: u64,
}

/// Edges parsed from one piece.
struct Parsed {
    chunk: Chunk,
    /// Number of lines or records in the piece.
    lines: u64,
    /// Number of vertices that the list declares.
    vertices: u32,
}

/// Reader of edges, chunk by chunk.
pub struct Input {
    parsers: Vec<Receiver<Result<Parsed, InputError>>>,
    threads: Vec<JoinHandle<()>>,
    next: usize,
    /// Number of lines or records before the next piece, for parsers that do not count them.
    lines: u64,
    vertices: u32,
    first: u32,
}

/// Bytes of a piece; longer pieces save nothing.
const PIECE_MAX: u64 = 1 << 20;
/// Minimum bytes of a piece: the longest line fits.
const PIECE_MIN: u64 = 16 << 10;
/// Maximum number of parsers; more would wait for the reader.
const PARSERS_MAX: usize = 8;
/// Factor from the bytes of a piece to the bytes of the piece, its edges and their chunks, if all its lines
/// are as short as possible.
const GROWTH: u64 = 12;

impl Input {
    /// Reads edges from bytes. The format is detected from the first bytes unless it is given.
    pub fn bytes(
        bytes: Box<dyn Read + Send>,
        format: Option<EdgeFormat>,
        wanted: Wanted,
    ) -> io::Result<Input> {
        let threads = wanted.threads.clamp(1, PARSERS_MAX);
        let piece_bytes = wanted.memory_bytes / (GROWTH * (threads as u64 + 1));
        let piece_bytes = piece_bytes.clamp(PIECE_MIN, PIECE_MAX) as usize;
        let mut pieces = Pieces { bytes, piece_bytes, rest: Vec::new(), format: EdgeFormat::Text };
        let first = pieces.next()?;
        let format = format.unwrap_or_else(|| EdgeFormat::recognise(&first));
        // The first piece was cut at the end of a line; binary records need another cut.
        let first = pieces.recut(first, format);
        // A matrix counts its entries, so one parser reads all of them.
        let count = if format == EdgeFormat::MatrixMarket { 1 } else { threads };
        let (mut senders, mut parsers, mut handles) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            let (piece_sender, piece_receiver) = sync_channel(1);
            let (sender, receiver) = sync_channel(1);
            handles.push(std::thread::spawn(move || parse(format, wanted, &piece_receiver, &sender)));
            senders.push(piece_sender);
            parsers.push(receiver);
        }
        handles.push(std::thread::spawn(move || {
            let mut next = Ok(first);
            for sender in senders.iter().cycle() {
                let last = next.as_ref().map_or(true, |piece: &Vec<u8>| piece.is_empty());
                // An error is the last piece; an empty piece carries nothing.
                if next.as_ref().is_ok_and(Vec::is_empty) || sender.send(next).is_err() || last {
                    return;
                }
                next = pieces.next();
            }
        }));
        Ok(Input { parsers, threads: handles, next: 0, lines: 0, vertices: 0, first: format.first() })
    }

    /// Reads edges from the columns of a Parquet file.
    pub fn table(file: File, columns: Vec<String>, wanted: Wanted) -> Input {
        let (sender, receiver) = sync_channel(1);
        // The thread opens the file too: a damaged header may cause a panic.
        let thread = std::thread::spawn(move || {
            let mut edges = Edges::new(wanted.weighted);
            let mut table = None;
            let mut next = || {
                edges.clear();
                let table = match &mut table {
                    Some(table) => table,
                    None => table.insert(tables::Edges::new(file.try_clone()?, &columns, wanted)?),
                };
                let more = table.next(&mut edges)?;
                let parsed = || Parsed { chunk: Chunk::new(&edges, wanted.shape), lines: 0, vertices: 0 };
                Ok(more.then(parsed))
            };
            while let Some(parsed) = next().transpose() {
                let last = parsed.is_err();
                if sender.send(parsed).is_err() || last {
                    return;
                }
            }
        });
        Input { parsers: vec![receiver], threads: vec![thread], next: 0, lines: 0, vertices: 0, first: 0 }
    }

    /// Returns the next edges; `None` at the end.
    pub fn take(&mut self) -> Result<Option<Chunk>, InputError> {
        // A parser ends after its last piece, so the first parser without a piece marks the end of all.
        let Some(Ok(parsed)) = self.parsers.get(self.next).map(Receiver::recv) else { return self.end() };
        self.next = (self.next + 1) % self.parsers.len();
        match parsed {
            Ok(Parsed { chunk, lines, vertices }) => {
                self.lines += lines;
                self.vertices = vertices;
                Ok(Some(chunk))
            }
            Err(InputError::Edge(error)) => {
                Err(InputError::Edge(EdgeError { number: self.lines + error.number, ..error }))
            }
            Err(error) => Err(error),
        }
    }

    /// Joins every thread after the last chunk; a panic in any of them is an error.
    fn end(&mut self) -> Result<Option<Chunk>, InputError> {
        // Dropping the receivers releases parsers that wait to send a chunk.
        self.parsers.clear();
        let ended: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        if ended.iter().any(Result::is_err) { Err(InputError::Panic) } else { Ok(None) }
    }

    /// Returns the number that the input gives to the vertex that edges call 0.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Returns the number of vertices that the input declares; 0 if it declares none.
    pub fn vertices(&self) -> u32 {
        self.vertices
    }
}

/// Parses pieces until the last one, or until one is malformed.
fn parse(
    format: EdgeFormat,
    wanted: Wanted,
    pieces: &Receiver<io::Result<Vec<u8>>>,
    chunks: &SyncSender<Result<Parsed, InputError>>,
) {
    let counts = format == EdgeFormat::MatrixMarket;
    let mut reader = EdgeReader::new(format, wanted.weighted);
    let mut edges = Edges::new(wanted.weighted);
    let mut turn = |reader: &mut EdgeReader, piece: Option<&[u8]>| {
        edges.clear();
        if let Some(piece) = piece {
            reader.feed(piece, &mut edges)?;
        }
        if !counts || piece.is_none() {
            reader.finish(&mut edges)?;
        }
        let lines = if counts { 0 } else { reader.number() };
        Ok(Parsed { chunk: Chunk::new(&edges, wanted.shape), lines, vertices: reader.vertices() })
    };
    for piece in pieces {
        if !counts {
            reader = EdgeReader::new(format, wanted.weighted);
        }
        let parsed = piece.map_err(InputError::Read).and_then(|piece| turn(&mut reader, Some(&piece)));
        let last = parsed.is_err();
        if chunks.send(parsed).is_err() || last {
            return;
        }
    }
    if counts {
        // Nothing receives the chunk after the run was cancelled.
        let _ = chunks.send(turn(&mut reader, None));
    }
}

/// Byte stream that is cut at the ends of lines or records.
struct Pieces {
    bytes: Box<dyn Read + Send>,
    piece_bytes: usize,
    rest: Vec<u8>,
    format: EdgeFormat,
}

impl Pieces {
    /// Returns the next piece; it is empty after the last one.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut piece = Vec::with_capacity(self.piece_bytes);
        piece.append(&mut self.rest);
        let mut length = piece.len();
        piece.resize(self.piece_bytes.max(length), 0);
        while length < piece.len() {
            match self.bytes.read(&mut piece[length..]) {
                Ok(0) => {
                    piece.truncate(length);
                    return Ok(piece);
                }
                Ok(count) => length += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let cut = self.cut(&piece);
        self.rest.extend_from_slice(&piece[cut..]);
        piece.truncate(cut);
        Ok(piece)
    }

    fn cut(&self, piece: &[u8]) -> usize {
        match self.format {
            EdgeFormat::Binary => piece.len() / 8 * 8,
            // A piece without a line end holds a line that is too long; the parser reports it.
            _ => piece.iter().rposition(|&byte| byte == b'\n').map_or(piece.len(), |end| end + 1),
        }
    }

    /// Cuts the first piece again: it was cut before the format was known.
    fn recut(&mut self, mut piece: Vec<u8>, format: EdgeFormat) -> Vec<u8> {
        self.format = format;
        piece.append(&mut self.rest);
        let whole = piece.len() == self.piece_bytes;
        let cut = if whole { self.cut(&piece) } else { piece.len() };
        self.rest = piece.split_off(cut);
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_graph::edges::Key;

    /// Reader that returns bytes as slowly as possible.
    struct Slow<'a>(&'a [u8]);
    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(into.len()).min(7919);
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn wanted(threads: usize) -> Wanted {
        Wanted { shape: Shape::All(Key::From), weighted: false, threads, memory_bytes: 1 << 16 }
    }

    #[test]
    fn a_wrong_line_far_behind_is_named_with_any_number_of_threads() {
        let good: String = (0..50_000).map(|at| format!("{at} {}\n", at / 3)).collect();
        let text: &'static [u8] = format!("{good}7 x\n{good}").leak().as_bytes();
        for threads in 1..5 {
            let mut input = Input::bytes(Box::new(Slow(text)), None, wanted(threads)).unwrap();
            let error = loop {
                match input.take() {
                    Ok(chunk) => assert!(chunk.is_some(), "the wrong line was not seen"),
                    Err(error) => break error.to_string(),
                }
            };
            assert!(error.contains("line 50001: \"x\""), "{error}");
        }
    }

    /// Reader that panics.
    struct Broken(usize);
    impl Read for Broken {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).expect("a bug of the reader");
            into.fill(b'\n');
            Ok(into.len())
        }
    }

    #[test]
    fn a_reader_that_panics_is_no_end_of_the_edges() {
        for threads in 1..4 {
            let mut input = Input::bytes(Box::new(Broken(9)), None, wanted(threads)).unwrap();
            let error = loop {
                match input.take() {
                    Ok(chunk) => assert!(chunk.is_some(), "the edges end where the reader panicked"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, InputError::Panic), "{error}");
        }
    }

    #[test]
    fn batches_are_the_same_edges_with_any_number_of_threads() {
        let text: &'static [u8] =
            (0..50_000).map(|at| format!("{} {at}\n", at % 77)).collect::<String>().leak().as_bytes();
        let binary: &'static [u8] = (0..100_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>().leak();
        for (bytes, format) in [(text, None), (binary, Some(EdgeFormat::Binary))] {
            let chunks = |threads| {
                let mut input = Input::bytes(Box::new(Slow(bytes)), format, wanted(threads)).unwrap();
                let mut chunks = Vec::new();
                while let Some(chunk) = input.take().unwrap() {
                    chunks.push(chunk);
                }
                chunks
            };
            assert!(chunks(1).len() > 3);
            assert!(chunks(1) == chunks(1));
            let edges = |chunks: &[Chunk]| chunks.iter().map(Chunk::len).sum::<usize>();
            assert_eq!((edges(&chunks(1)), edges(&chunks(3))), (50_000, 50_000));
        }
    }
}
