//! Output of results: a file of rows, and the largest of them.

use crate::tables::{self, Writer};
use pellucid_graph::program::Program;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use thiserror::Error;

/// Value of a vertex.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Row {
    /// A rank or a distance.
    Real(f64),
    /// The name of a component, or a number of edges.
    Whole(u32),
    /// The vertex is unreachable.
    None,
}

/// Reason that results could not be written.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The file system refused a write.
    #[error("{0}")]
    Write(#[from] io::Error),
    /// The table writer failed.
    #[error("{0}")]
    Table(String),
    /// [`Target::complete`] failed.
    #[error(transparent)]
    Complete(Box<dyn std::error::Error + Send + Sync>),
}

/// Format of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// Lines; the character separates their two cells.
    Text(char),
    /// Parquet.
    Table,
}

/// Destination of the rows.
pub struct Target {
    /// Output file, initially empty.
    pub file: File,
    /// Format of the rows.
    pub format: RowFormat,
    /// Action after the last row: it gives the file its name. It is dropped if the run fails before.
    pub complete: Complete,
}

/// Action that completes a file of results after its last row.
pub type Complete = Box<dyn FnOnce() -> Result<(), Box<dyn std::error::Error + Send + Sync>>>;

enum Sink {
    Nothing,
    Text(BufWriter<File>, char),
    Table(Box<Writer>),
}

/// Receiver of the rows of all vertices, in order.
pub struct Output {
    sink: Sink,
    complete: Option<Complete>,
    wanted: usize,
    top: BinaryHeap<Reverse<Top>>,
    /// Number that the input gives to vertex 0.
    first: u32,
}

/// Vertex ordered by its value; among equal values, the smaller vertex number is larger.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Top(f64, u32);
impl Eq for Top {}
impl Ord for Top {
    fn cmp(&self, other: &Top) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(other.1.cmp(&self.1))
    }
}
impl PartialOrd for Top {
    fn partial_cmp(&self, other: &Top) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Output {
    /// Creates an output. Rows go to `target`, if there is one; their second column is named `column`, and
    /// has whole numbers if `whole` is set. The `top` largest values are kept. `memory_bytes` bounds the
    /// memory of rows in flight.
    pub fn new(
        target: Option<Target>,
        (column, whole): (&str, bool),
        top: usize,
        memory_bytes: u64,
    ) -> Result<Output, OutputError> {
        let Some(Target { file, format, complete }) = target else {
            return Ok(Output::to(Sink::Nothing, None, top));
        };
        let sink = match format {
            RowFormat::Table => Sink::Table(Box::new(Writer::new(file, column, whole, memory_bytes)?)),
            RowFormat::Text(between) => {
                let mut file = BufWriter::with_capacity(1 << 18, file);
                writeln!(file, "vertex{between}{column}")?;
                Sink::Text(file, between)
            }
        };
        Ok(Output::to(sink, Some(complete), top))
    }

    fn to(sink: Sink, complete: Option<Complete>, wanted: usize) -> Output {
        Output { sink, complete, wanted, top: BinaryHeap::new(), first: 0 }
    }

    /// Sets the number that the input gives to its first vertex; rows use the input's numbers.
    pub fn number_from(&mut self, first: u32) {
        self.first = first;
    }

    /// Writes the row of the next vertex, and ranks its value.
    pub fn row(&mut self, vertex: u32, row: Row) -> Result<(), OutputError> {
        if let Some(value) = value(row) {
            self.rank(vertex, value);
        }
        self.write(vertex, row)
    }

    /// Ranks a value: keeps it if it is among the largest.
    pub fn rank(&mut self, vertex: u32, value: f64) {
        let own = Reverse(Top(value, vertex));
        if self.top.len() < self.wanted {
            self.top.push(own);
        } else if self.top.peek().is_some_and(|least| own.0 > least.0) {
            self.top.pop();
            self.top.push(own);
        }
    }

    /// Writes the row of the next vertex without ranking its value.
    pub fn write(&mut self, vertex: u32, row: Row) -> Result<(), OutputError> {
        let vertex = self.first + vertex;
        match &mut self.sink {
            Sink::Nothing => {}
            Sink::Table(writer) => writer.row(vertex, row)?,
            Sink::Text(file, between) => match row {
                Row::Real(value) => writeln!(file, "{vertex}{between}{value}")?,
                Row::Whole(value) => writeln!(file, "{vertex}{between}{value}")?,
                Row::None => writeln!(file, "{vertex}{between}")?,
            },
        }
        Ok(())
    }

    /// Completes the output after the last row. Returns the largest values in descending order.
    pub fn finish(self) -> Result<Vec<(u32, f64)>, OutputError> {
        match self.sink {
            Sink::Nothing => {}
            Sink::Text(mut file, _) => file.flush()?,
            Sink::Table(writer) => writer.finish()?,
        }
        if let Some(complete) = self.complete {
            complete().map_err(OutputError::Complete)?;
        }
        let top = self.top.into_sorted_vec();
        Ok(top.into_iter().map(|Reverse(Top(value, vertex))| (self.first + vertex, value)).collect())
    }
}

/// Reports whether a file holds results of one of our programs: a line of their names, or a Parquet file that
/// names its writer.
pub fn is_result(file: &File) -> bool {
    let mut first = [0; 64];
    let length = file.read_at(&mut first, 0).unwrap_or(0);
    let first = &first[..length];
    let is_head = |between, column| first.starts_with(format!("vertex{between}{column}\n").as_bytes());
    let is_text = Program::COLUMNS.into_iter().any(|column| is_head(',', column) || is_head('\t', column));
    is_text || (first.starts_with(b"PAR1") && tables::is_result(file))
}

fn value(row: Row) -> Option<f64> {
    match row {
        Row::Real(value) => Some(value),
        Row::Whole(value) => Some(f64::from(value)),
        Row::None => None,
    }
}
