//! The log of single requests as Parquet, with the columns of the CSV log; and other tables of a report.
//!
//! This is a separate crate because its dependency is heavy. Requests are buffered and written in row groups, so memory stays bounded for any length
//! of run.

mod table;

pub use table::write_table;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use pellucid_flash::{Completion, Lba};
use pellucid_report::{RequestColumns, RequestSink, WordColumn};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Name of the writer in the footer of a log.
const CREATED_BY: &str = "pellucid log";
/// Bytes at the end of a Parquet file that name its writer.
const END_BYTES: u64 = 16 << 10;
/// Requests per row group: some 30 MB in memory.
const GROUP: usize = 1 << 18;

/// Reports whether the footer of a Parquet file names this writer.
pub fn is_log(file: &File) -> bool {
    let Ok(bytes) = file.metadata().map(|data| data.len()) else { return false };
    let mut end = vec![0; bytes.min(END_BYTES) as usize];
    let at = bytes - end.len() as u64;
    file.read_exact_at(&mut end, at).is_ok()
        && end.windows(CREATED_BY.len()).any(|part| part == CREATED_BY.as_bytes())
}

/// Unwraps an error of the file itself, with its own text and kind.
fn system(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => {
            inner.downcast::<io::Error>().map_or_else(io::Error::other, |refused| *refused)
        }
        other => io::Error::other(other),
    }
}

/// Writes the log. Without [`finish`](RequestSink::finish) the file has no footer and cannot be read.
pub struct ParquetLog {
    writer: SerializedFileWriter<File>,
    columns: RequestColumns,
}

impl ParquetLog {
    /// Starts a log in an empty file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(file: File) -> io::Result<ParquetLog> {
        let mut fields = Vec::new();
        for (name, kind) in columns() {
            let column = Type::primitive_type_builder(&name, kind.physical())
                .with_logical_type(Some(kind.logical()))
                .with_repetition(Repetition::REQUIRED);
            fields.push(Arc::new(column.build().map_err(system)?));
        }
        let schema = Type::group_type_builder("requests").with_fields(fields).build();
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(CREATED_BY.into())
            .build();
        let schema = Arc::new(schema.map_err(system)?);
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(system)?;
        Ok(ParquetLog { writer, columns: RequestColumns::default() })
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        let log = std::mem::take(&mut self.columns);
        let mut group = self.writer.next_row_group()?;
        long(&mut group, &log.at_ns)?;
        long(&mut group, &log.completed_ns)?;
        words(&mut group, &log.op)?;
        long(&mut group, &log.lba)?;
        short(&mut group, &log.sectors)?;
        words(&mut group, &log.status)?;
        long(&mut group, &log.latency_ns)?;
        for stage in &log.stages_ns {
            long(&mut group, stage)?;
        }
        short(&mut group, &log.unmapped_sectors)?;
        short(&mut group, &log.job)?;
        group.close().map(drop)
    }
}

impl RequestSink for ParquetLog {
    fn write(&mut self, lba: Lba, sectors: u32, job: u32, completion: &Completion) -> io::Result<()> {
        self.columns.push(lba, sectors, job, completion);
        if self.columns.len() < GROUP {
            return Ok(());
        }
        self.flush().map_err(system)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if !self.columns.is_empty() {
            self.flush().map_err(system)?;
        }
        self.writer.close().map(drop).map_err(system)
    }
}

/// Kind of a column.
#[derive(Clone, Copy)]
enum Kind {
    /// 64-bit integers.
    Long,
    /// 32-bit integers.
    Short,
    /// Text.
    Words,
}

impl Kind {
    fn physical(self) -> Physical {
        match self {
            Kind::Long => Physical::INT64,
            Kind::Short => Physical::INT32,
            Kind::Words => Physical::BYTE_ARRAY,
        }
    }

    fn logical(self) -> LogicalType {
        match self {
            Kind::Long => LogicalType::integer(64, false),
            Kind::Short => LogicalType::integer(32, false),
            Kind::Words => LogicalType::String,
        }
    }
}

/// The columns, in the order of the CSV log.
fn columns() -> Vec<(String, Kind)> {
    let first = [
        ("at_ns", Kind::Long),
        ("completed_ns", Kind::Long),
        ("op", Kind::Words),
        ("lba", Kind::Long),
        ("sectors", Kind::Short),
        ("status", Kind::Words),
        ("latency_ns", Kind::Long),
    ];
    let stages = RequestColumns::stage_names().map(|name| (name, Kind::Long));
    let last = [("unmapped_sectors", Kind::Short), ("job", Kind::Short)];
    let named = |(name, kind): (&str, Kind)| (name.to_string(), kind);
    first.map(named).into_iter().chain(stages).chain(last.map(named)).collect()
}

type Group<'a> = SerializedRowGroupWriter<'a, File>;

fn long(group: &mut Group<'_>, values: &[u64]) -> Result<(), ParquetError> {
    let values: Vec<i64> = values.iter().map(|value| value.cast_signed()).collect();
    column::<Int64Type>(group, &values)
}

fn short(group: &mut Group<'_>, values: &[u32]) -> Result<(), ParquetError> {
    let values: Vec<i32> = values.iter().map(|value| value.cast_signed()).collect();
    column::<Int32Type>(group, &values)
}

fn words(group: &mut Group<'_>, words: &WordColumn) -> Result<(), ParquetError> {
    let each: Vec<ByteArray> = words.words.iter().map(|word| ByteArray::from(*word)).collect();
    let values: Vec<ByteArray> =
        words.indices.iter().map(|&index| each[usize::from(index)].clone()).collect();
    column::<ByteArrayType>(group, &values)
}

fn column<T: DataType>(group: &mut Group<'_>, values: &[T::T]) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the log has more columns than its schema".into()));
    };
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}
