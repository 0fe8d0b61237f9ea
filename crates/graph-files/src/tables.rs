//! Parquet: edges from two or three columns, and results as columns.

use crate::input::{InputError, Wanted};
use crate::output::{OutputError, Row};
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnDescriptor, Type};
use pellucid_graph::edges::{Edge, Edges as Found, VERTEX_MAX};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Reader of the edges of a Parquet file, row group by row group.
pub struct Edges {
    file: SerializedFileReader<File>,
    /// Column numbers: from, to, weight.
    columns: Vec<usize>,
    /// Signedness of each column.
    signed: Vec<bool>,
    /// Rows read at a time.
    batch: usize,
    group: usize,
    rows: u64,
    readers: Vec<ColumnReader>,
}

/// Maximum number of rows read at a time, and the memory of a row in flight.
const ROWS_MAX: u64 = 1 << 16;
const ROW_BYTES: u64 = 64;

/// Returns the number of rows that may be in memory at a time.
fn rows_in(memory_bytes: u64, most: u64) -> usize {
    (memory_bytes / ROW_BYTES).clamp(1 << 10, most) as usize
}

impl Edges {
    /// Opens the columns of the given names; without names, the first two columns, and the third as weight.
    pub fn new(file: File, names: &[String], wanted: Wanted) -> Result<Edges, InputError> {
        let file = SerializedFileReader::new(file).map_err(table)?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let all: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
        let columns = if names.is_empty() {
            let count = if wanted.weighted { 3 } else { 2 };
            if all.len() < 2 {
                return Err(InputError::Table(format!(
                    "the file has {} columns; allowed: two at least",
                    all.len()
                )));
            }
            (0..count.min(all.len())).collect()
        } else {
            let find = |name: &String| {
                let found = all.iter().position(|column| column == name);
                let why = || InputError::Table(format!("no column {name}; allowed: {}", all.join(", ")));
                found.ok_or_else(why)
            };
            names.iter().map(find).collect::<Result<Vec<_>, _>>()?
        };
        let mut signed = Vec::new();
        for &column in &columns {
            let described = schema.column(column);
            let (name, physical) = (described.name(), described.physical_type());
            let sign = match physical {
                Physical::INT32 | Physical::INT64 => is_signed(&described),
                Physical::FLOAT | Physical::DOUBLE => Some(true),
                _ => None,
            };
            let weight = column == *columns.get(2).unwrap_or(&usize::MAX);
            let allowed = weight || matches!(physical, Physical::INT32 | Physical::INT64);
            let (Some(sign), true, 0) = (sign, allowed, described.max_rep_level()) else {
                let what = if weight { "numbers" } else { "whole numbers" };
                let kind = match described.converted_type() {
                    ConvertedType::NONE => physical.to_string(),
                    converted => converted.to_string(),
                };
                return Err(InputError::Table(format!("column {name} is {kind}; allowed: {what}")));
            };
            signed.push(sign);
        }
        for group in file.metadata().row_groups() {
            for &column in &columns {
                use Compression::{GZIP, SNAPPY, UNCOMPRESSED};
                let compression = group.column(column).compression();
                if !matches!(compression, UNCOMPRESSED | SNAPPY | GZIP(_)) {
                    let name = group.column(column).column_descr().name();
                    // The message names the codec without its level.
                    let debug = compression.to_string();
                    let kind = debug.split('(').next().unwrap_or(&debug);
                    return Err(InputError::Table(format!(
                        "column {name} is compressed with {kind}; allowed: SNAPPY, GZIP, UNCOMPRESSED"
                    )));
                }
            }
        }
        let batch = rows_in(wanted.memory_bytes, ROWS_MAX);
        Ok(Edges { file, columns, signed, batch, group: 0, rows: 0, readers: Vec::new() })
    }

    /// Reads the next rows; returns `false` at the end.
    pub fn next(&mut self, edges: &mut Found) -> Result<bool, InputError> {
        loop {
            if self.readers.is_empty() {
                if self.group == self.file.num_row_groups() {
                    return Ok(false);
                }
                let group = self.file.get_row_group(self.group).map_err(table)?;
                let readers = self.columns.iter().map(|&column| group.get_column_reader(column));
                self.readers = readers.collect::<Result<_, _>>().map_err(table)?;
                self.group += 1;
            }
            let columns: Vec<Vec<f64>> = self
                .readers
                .iter_mut()
                .zip(&self.signed)
                .map(|(reader, &signed)| read(reader, signed, self.rows, self.batch))
                .collect::<Result<_, _>>()?;
            if columns[0].is_empty() {
                self.readers.clear();
                continue;
            }
            if columns.iter().any(|column| column.len() != columns[0].len()) {
                return Err(InputError::Table("its columns are not equally long".into()));
            }
            for row in 0..columns[0].len() {
                self.rows += 1;
                let vertex = |value: f64| match value >= 0.0 && value <= f64::from(VERTEX_MAX) {
                    true => Ok(value as u32),
                    false => {
                        let place = format!("row {}: vertex {value}", self.rows);
                        Err(InputError::Table(format!("{place}; allowed: from 0 to {VERTEX_MAX}")))
                    }
                };
                let weight = columns.get(2).map_or(1.0, |column| column[row] as f32);
                if !(weight >= 0.0 && weight.is_finite()) {
                    let place = format!("row {}: weight {weight}", self.rows);
                    return Err(InputError::Table(format!("{place}; allowed: numbers from 0 on")));
                }
                edges.push(Edge { from: vertex(columns[0][row])?, to: vertex(columns[1][row])?, weight });
            }
            return Ok(true);
        }
    }
}

fn table(error: ParquetError) -> InputError {
    InputError::Table(words(&error))
}

/// The text of an error; for an error about the file itself, only its own words.
fn words(error: &ParquetError) -> String {
    match error {
        ParquetError::External(inner) => inner.to_string(),
        other => other.to_string(),
    }
}

/// Reports whether whole numbers have a sign; `None` if they represent another type, such as a date or a
/// decimal.
fn is_signed(column: &ColumnDescriptor) -> Option<bool> {
    use ConvertedType::{INT_8, INT_16, INT_32, INT_64, NONE, UINT_8, UINT_16, UINT_32, UINT_64};
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Integer(integer)), _) => Some(integer.is_signed),
        (Some(_), _) => None,
        (None, NONE | INT_8 | INT_16 | INT_32 | INT_64) => Some(true),
        (None, UINT_8 | UINT_16 | UINT_32 | UINT_64) => Some(false),
        _ => None,
    }
}

/// Reads the next values of a column. Numbers up to 2^53 are exact; larger numbers are not vertices.
fn read(reader: &mut ColumnReader, signed: bool, rows: u64, batch: usize) -> Result<Vec<f64>, InputError> {
    match reader {
        ColumnReader::Int32ColumnReader(reader) if signed => values(reader, rows, batch, f64::from),
        ColumnReader::Int32ColumnReader(reader) => {
            values(reader, rows, batch, |value| f64::from(value.cast_unsigned()))
        }
        ColumnReader::Int64ColumnReader(reader) if signed => {
            values(reader, rows, batch, |value| value as f64)
        }
        ColumnReader::Int64ColumnReader(reader) => {
            values(reader, rows, batch, |value| value.cast_unsigned() as f64)
        }
        ColumnReader::FloatColumnReader(reader) => values(reader, rows, batch, f64::from),
        ColumnReader::DoubleColumnReader(reader) => values(reader, rows, batch, |value| value),
        _ => unreachable!("types were checked"),
    }
}

fn values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: u64,
    batch: usize,
    number: impl Fn(T::T) -> f64,
) -> Result<Vec<f64>, InputError> {
    let (mut found, mut levels) = (Vec::with_capacity(batch), Vec::new());
    let (records, ..) = reader.read_records(batch, Some(&mut levels), None, &mut found).map_err(table)?;
    if records != found.len() {
        return Err(InputError::Table(format!(
            "an empty cell between rows {} and {}",
            rows + 1,
            rows + records as u64
        )));
    }
    Ok(found.into_iter().map(number).collect())
}

/// Writer of results: a column of vertices and one of values.
pub struct Writer {
    writer: SerializedFileWriter<File>,
    vertices: Vec<i64>,
    doubles: Vec<f64>,
    whole: Vec<i64>,
    /// Number of rows in a row group.
    group: usize,
}

/// Writer that the footer of a table of results names.
const CREATED_BY: &str = "pellucid graph";
/// Bytes at the end of a Parquet file that name its writer.
const END_BYTES: u64 = 4 << 10;

/// Reports whether the footer of a Parquet file names this writer.
pub fn is_result(file: &File) -> bool {
    let Ok(bytes) = file.metadata().map(|data| data.len()) else { return false };
    let mut end = vec![0; bytes.min(END_BYTES) as usize];
    let at = bytes - end.len() as u64;
    let read = file.read_exact_at(&mut end, at);
    read.is_ok() && end.windows(CREATED_BY.len()).any(|part| part == CREATED_BY.as_bytes())
}

/// Maximum number of rows in a row group.
const GROUP_MAX: u64 = 1 << 20;

impl Writer {
    /// Creates a table whose second column is named `value`; its numbers are whole if `whole` is set.
    /// `memory_bytes` bounds the memory of rows in flight.
    pub fn new(file: File, value: &str, whole: bool, memory_bytes: u64) -> Result<Writer, OutputError> {
        let column = |name: &str, physical, repetition| {
            Type::primitive_type_builder(name, physical).with_repetition(repetition).build().map(Arc::new)
        };
        let physical = if whole { Physical::INT64 } else { Physical::DOUBLE };
        let vertex = column("vertex", Physical::INT64, Repetition::REQUIRED).map_err(broken)?;
        // Unreachable vertices have no distance.
        let value = column(value, physical, Repetition::OPTIONAL).map_err(broken)?;
        let schema =
            Type::group_type_builder("schema").with_fields(vec![vertex, value]).build().map_err(broken)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(CREATED_BY.into())
            .build();
        let writer =
            SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(broken)?;
        let group = rows_in(memory_bytes, GROUP_MAX);
        Ok(Writer { writer, vertices: Vec::new(), doubles: Vec::new(), whole: Vec::new(), group })
    }

    /// Writes a row.
    pub fn row(&mut self, vertex: u32, row: Row) -> Result<(), OutputError> {
        self.vertices.push(i64::from(vertex));
        match row {
            Row::Real(value) => self.doubles.push(value),
            Row::Whole(value) => self.whole.push(i64::from(value)),
            Row::None => {
                // The flush recognises a gap by these placeholder values.
                self.doubles.push(f64::NAN);
                self.whole.push(-1);
            }
        }
        if self.vertices.len() == self.group { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        let mut group = self.writer.next_row_group().map_err(broken)?;
        let mut column = group.next_column().map_err(broken)?.expect("two columns");
        column.typed::<Int64Type>().write_batch(&self.vertices, None, None).map_err(broken)?;
        column.close().map_err(broken)?;
        let mut column = group.next_column().map_err(broken)?.expect("two columns");
        if self.whole.len() == self.vertices.len() {
            let levels: Vec<i16> = self.whole.iter().map(|&value| i16::from(value >= 0)).collect();
            let values: Vec<i64> = self.whole.iter().copied().filter(|&value| value >= 0).collect();
            column.typed::<Int64Type>().write_batch(&values, Some(&levels), None).map_err(broken)?;
        } else {
            let levels: Vec<i16> = self.doubles.iter().map(|value| i16::from(!value.is_nan())).collect();
            let values: Vec<f64> = self.doubles.iter().copied().filter(|value| !value.is_nan()).collect();
            column.typed::<DoubleType>().write_batch(&values, Some(&levels), None).map_err(broken)?;
        }
        column.close().map_err(broken)?;
        group.close().map_err(broken)?;
        self.vertices.clear();
        self.doubles.clear();
        self.whole.clear();
        Ok(())
    }

    /// Writes the remaining rows and the footer.
    pub fn finish(mut self) -> Result<(), OutputError> {
        if !self.vertices.is_empty() {
            self.flush()?;
        }
        self.writer.into_inner().map(drop).map_err(broken)
    }
}

fn broken(error: ParquetError) -> OutputError {
    OutputError::Table(words(&error))
}
