//! Tables of a report as Parquet: the run over time, and flash operations by cause.

use crate::{CREATED_BY, system};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use pellucid_report::{Column, Named};
use std::fs::File;
use std::io;
use std::sync::Arc;

type Group<'a> = SerializedRowGroupWriter<'a, File>;

/// Writes a table into an empty file.
///
/// # Errors
/// The file cannot be written.
pub fn write_table(file: File, columns: &[Named]) -> io::Result<()> {
    write(file, columns).map_err(system)
}

fn write(file: File, columns: &[Named]) -> Result<(), ParquetError> {
    let fields = columns.iter().map(|(name, column)| field(name, column).map(Arc::new));
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder("table").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(CREATED_BY.into())
        .build();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (_, values) in columns {
        put(&mut group, values)?;
    }
    group.close()?;
    writer.close().map(drop)
}

fn field(name: &str, column: &Column) -> Result<Type, ParquetError> {
    let whole = LogicalType::integer(64, false);
    let (physical, logical, repetition) = match column {
        Column::Whole(_) => (Physical::INT64, Some(whole), Repetition::REQUIRED),
        Column::MaybeWhole(_) => (Physical::INT64, Some(whole), Repetition::OPTIONAL),
        Column::Real(_) => (Physical::DOUBLE, None, Repetition::REQUIRED),
        Column::MaybeReal(_) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
        Column::Words(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
    };
    Type::primitive_type_builder(name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

fn put(group: &mut Group<'_>, column: &Column) -> Result<(), ParquetError> {
    match column {
        Column::Whole(values) => {
            let values: Vec<i64> = values.iter().map(|value| value.cast_signed()).collect();
            all::<Int64Type>(group, &values)
        }
        Column::MaybeWhole(values) => {
            let values: Vec<Option<i64>> = values.iter().map(|value| value.map(u64::cast_signed)).collect();
            some::<Int64Type>(group, &values)
        }
        Column::Real(values) => all::<DoubleType>(group, values),
        Column::MaybeReal(values) => some::<DoubleType>(group, values),
        Column::Words(words) => {
            let values: Vec<ByteArray> = words.iter().map(|word| ByteArray::from(word.as_str())).collect();
            all::<ByteArrayType>(group, &values)
        }
    }
}

fn all<T: DataType>(group: &mut Group<'_>, values: &[T::T]) -> Result<(), ParquetError> {
    batch::<T>(group, values, None)
}

/// Absent values are stored only as level 0.
fn some<T: DataType>(group: &mut Group<'_>, values: &[Option<T::T>]) -> Result<(), ParquetError> {
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let there: Vec<T::T> = values.iter().flatten().cloned().collect();
    batch::<T>(group, &there, Some(&levels))
}

fn batch<T: DataType>(
    group: &mut Group<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the table has more columns than its schema".into()));
    };
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
