//! Where results go: a file of rows, and the largest of them.

use crate::job::Program;
use crate::tables::{self, Writer};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use thiserror::Error;

/// What a vertex has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Row {
    /// A rank or a distance.
    Real(f64),
    /// The name of a component, or a number of edges.
    Whole(u32),
    /// It cannot be reached.
    None,
}

/// Why results could not be written.
#[derive(Debug, Error)]
pub enum OutputError {
    /// By the file system.
    #[error("{0}")]
    Write(#[from] io::Error),
    /// By the writer of the table.
    #[error("{0}")]
    Table(String),
    /// By [`Target::complete`].
    #[error(transparent)]
    Complete(Box<dyn std::error::Error + Send + Sync>),
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// Lines, with this between their two cells.
    Text(char),
    /// Parquet.
    Table,
}

/// Where rows go.
pub struct Target {
    /// The file, which is empty.
    pub file: File,
    /// How they are written.
    pub format: RowFormat,
    /// Called once all rows are in the file: gives it its name. It is dropped if that does not come to pass.
    pub complete: Complete,
}

/// What is done when all rows are written.
pub type Complete = Box<dyn FnOnce() -> Result<(), Box<dyn std::error::Error + Send + Sync>>>;

enum Sink {
    Nothing,
    Text(BufWriter<File>, char),
    Table(Box<Writer>),
}

/// Takes the rows of all vertices in order.
pub struct Output {
    sink: Sink,
    complete: Option<Complete>,
    wanted: usize,
    top: BinaryHeap<Reverse<Top>>,
    /// What the input calls vertex 0.
    first: u32,
}

/// A vertex in the order of its value; of equal ones, the smaller number is larger.
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
    /// Rows go to `target`, if there is one; their second column is `column`, of whole numbers if it is `whole`. The `top` largest are kept.
    /// `memory_bytes`: what rows on their way may take.
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

    /// Vertices are told by the numbers that the input gives them, of which `first` is the smallest.
    pub fn number_from(&mut self, first: u32) {
        self.first = first;
    }

    /// The row of the next vertex, whose value may be among the largest.
    pub fn row(&mut self, vertex: u32, row: Row) -> Result<(), OutputError> {
        if let Some(value) = value(row) {
            self.rank(vertex, value);
        }
        self.write(vertex, row)
    }

    /// A value that may be among the largest.
    pub fn rank(&mut self, vertex: u32, value: f64) {
        let own = Reverse(Top(value, vertex));
        if self.top.len() < self.wanted {
            self.top.push(own);
        } else if self.top.peek().is_some_and(|least| own.0 > least.0) {
            self.top.pop();
            self.top.push(own);
        }
    }

    /// The row of the next vertex, whose value is not among the largest, whatever it is.
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

    /// All rows are there. Returns the largest, the largest first.
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

/// Reports whether a file holds results of one of our programs: a line of their names, or a Parquet file that names its writer.
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
