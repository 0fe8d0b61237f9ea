//! Where results go: a file of rows, and the largest of them.

use crate::tables::Writer;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
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
}

enum Sink {
    Nothing,
    Text(BufWriter<File>, char),
    Table(Box<Writer>),
}

/// The file under its unfinished name, which is removed with this unless it got its own.
struct Part {
    part: PathBuf,
    path: PathBuf,
    complete: bool,
}

impl Part {
    fn new(path: &Path) -> Part {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        Part { part: PathBuf::from(part), path: path.to_path_buf(), complete: false }
    }

    fn finish(mut self, file: &File) -> io::Result<()> {
        file.sync_all()?;
        std::fs::rename(&self.part, &self.path)?;
        self.complete = true;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.complete {
            // If it cannot be removed, its name says what it is.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// Takes the rows of all vertices in order. The file has its name when it is complete; without [`Output::finish`] it is removed.
pub struct Output {
    sink: Sink,
    part: Option<Part>,
    wanted: usize,
    top: BinaryHeap<Reverse<Top>>,
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
    /// Rows go to `path`, as its ending says: `parquet`, `csv`, or `tsv` and others with tabs. The `top` largest are kept.
    /// `memory_bytes`: what rows on their way may take.
    pub fn new(
        path: Option<&Path>,
        column: &str,
        whole: bool,
        top: usize,
        memory_bytes: u64,
    ) -> Result<Output, OutputError> {
        let Some(path) = path else {
            return Ok(Output { sink: Sink::Nothing, part: None, wanted: top, top: BinaryHeap::new() });
        };
        let part = Part::new(path);
        let file = File::create(&part.part)?;
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        let sink = match ending {
            "parquet" => Sink::Table(Box::new(Writer::new(file, column, whole, memory_bytes)?)),
            _ => {
                let between = if ending == "csv" { ',' } else { '\t' };
                let mut file = BufWriter::with_capacity(1 << 18, file);
                writeln!(file, "vertex{between}{column}")?;
                Sink::Text(file, between)
            }
        };
        Ok(Output { sink, part: Some(part), wanted: top, top: BinaryHeap::new() })
    }

    /// The row of the next vertex.
    pub fn row(&mut self, vertex: u32, row: Row) -> Result<(), OutputError> {
        if self.wanted > 0
            && let Some(value) = value(row)
        {
            let own = Reverse(Top(value, vertex));
            if self.top.len() < self.wanted {
                self.top.push(own);
            } else if self.top.peek().is_some_and(|least| own.0 > least.0) {
                self.top.pop();
                self.top.push(own);
            }
        }
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
        let file = match self.sink {
            Sink::Nothing => None,
            Sink::Text(file, _) => Some(file.into_inner().map_err(|error| error.into_error())?),
            Sink::Table(writer) => Some(writer.finish()?),
        };
        if let (Some(file), Some(part)) = (file, self.part) {
            part.finish(&file)?;
        }
        let top = self.top.into_sorted_vec();
        Ok(top.into_iter().map(|Reverse(Top(value, vertex))| (vertex, value)).collect())
    }
}

fn value(row: Row) -> Option<f64> {
    match row {
        Row::Real(value) => Some(value),
        Row::Whole(value) => Some(f64::from(value)),
        Row::None => None,
    }
}
