//! Where edges come from: bytes that another thread reads and decompresses, or columns of a Parquet file.

use crate::tables;
use pellucid_apps::graph::edges::Edge;
use pellucid_apps::graph::text::{EdgeError, EdgeFormat, EdgeReader};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::sync::mpsc::{Receiver, sync_channel};
use thiserror::Error;

/// Why edges could not be read.
#[derive(Debug, Error)]
pub enum InputError {
    /// A line or record is wrong.
    #[error(transparent)]
    Edge(#[from] EdgeError),
    /// The bytes could not be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// A table is not as it should be.
    #[error("{0}")]
    Table(String),
}

/// Edges that are read one part after the other.
pub enum Input {
    /// From bytes.
    Bytes(EdgeReader, Receiver<io::Result<Vec<u8>>>),
    /// From columns of a table.
    Table(Box<tables::Edges>),
}

const PIECE_BYTES: usize = 1 << 20;

impl Input {
    /// Edges in these bytes, which a thread of its own reads ahead. The format is told from the first bytes if it is not given.
    pub fn bytes(
        mut bytes: Box<dyn Read + Send>,
        format: Option<EdgeFormat>,
        weighted: bool,
    ) -> io::Result<Input> {
        let first = piece(&mut *bytes)?;
        let banner = pellucid_apps::graph::text::BANNER;
        let told = if first.starts_with(banner) { EdgeFormat::MatrixMarket } else { EdgeFormat::Text };
        let reader = EdgeReader::new(format.unwrap_or(told), weighted);
        let (sender, receiver) = sync_channel(4);
        std::thread::spawn(move || {
            let mut next = Ok(first);
            loop {
                let last = next.as_ref().map_or(true, |piece: &Vec<u8>| piece.is_empty());
                if sender.send(next).is_err() || last {
                    return;
                }
                next = piece(&mut *bytes);
            }
        });
        Ok(Input::Bytes(reader, receiver))
    }

    /// Edges in the columns of a Parquet file.
    pub fn table(file: File, columns: &[String], weighted: bool) -> Result<Input, InputError> {
        tables::Edges::new(file, columns, weighted).map(|edges| Input::Table(Box::new(edges)))
    }

    /// Reads the next edges into `edges`, which are replaced; `false`: there are none.
    pub fn next(&mut self, edges: &mut Vec<Edge>) -> Result<bool, InputError> {
        edges.clear();
        match self {
            Input::Table(table) => table.next(edges),
            Input::Bytes(reader, pieces) => {
                // The thread ends behind an empty piece or an error.
                let Ok(piece) = pieces.recv() else { return Ok(false) };
                let piece = piece?;
                if piece.is_empty() {
                    reader.finish(edges)?;
                    return Ok(!edges.is_empty());
                }
                reader.feed(&piece, edges)?;
                Ok(true)
            }
        }
    }

    /// Vertices that the input says it has; 0 where it does not say.
    pub fn vertices(&self) -> u32 {
        match self {
            Input::Bytes(reader, _) => reader.vertices(),
            Input::Table(_) => 0,
        }
    }
}

fn piece(bytes: &mut (dyn Read + Send)) -> io::Result<Vec<u8>> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut length = 0;
    while length < piece.len() {
        match bytes.read(&mut piece[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    piece.truncate(length);
    Ok(piece)
}
