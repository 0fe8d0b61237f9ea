//! Tables as Arrow: columns of a result, handed to pandas, Polars or pyarrow without a copy.

use arrow_array::builder::{Float64Builder, UInt64Builder};
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::UInt8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt8Array,
    UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;
use pellucid_device::Device;
use pellucid_flash::BlockId;
use pellucid_media::Health;
use pellucid_report::{Column, Report, RequestColumns, WordColumn};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::sync::Arc;

use crate::errors::Refusal;

/// A table of a result, for anything that takes Arrow: `pyarrow.table(t)`, `polars.DataFrame(t)`, `t.to_pandas()`.
#[pyclass(frozen, module = "pellucid")]
pub struct Table {
    batch: RecordBatch,
}

impl Table {
    /// A table of these columns, which are equally long.
    pub fn of(columns: Vec<(String, ArrayRef)>) -> Result<Table, Refusal> {
        let batch = RecordBatch::try_from_iter(columns);
        batch.map(|batch| Table { batch }).map_err(broken)
    }

    /// Another table of these columns, shared.
    pub fn share(&self) -> Table {
        Table { batch: self.batch.clone() }
    }
}

#[pymethods]
impl Table {
    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<pellucid.Table of {} rows: {}>", self.batch.num_rows(), self.column_names().join(", "))
    }

    /// The types of the columns, as the Arrow PyCapsule interface has it.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(broken)?;
        PyCapsule::new(py, schema, Some(c"arrow_schema".into()))
    }

    /// The columns, as the Arrow PyCapsule interface has it. A schema may be requested; the table's own is what comes.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let reader = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new(py, stream, Some(c"arrow_array_stream".into()))
    }

    /// A data frame of pandas. Needs pandas and pyarrow.
    fn to_pandas<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("table", (slf,))?.call_method0("to_pandas")
    }

    /// A data frame of Polars. Needs Polars.
    fn to_polars<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import("polars")?.call_method1("DataFrame", PyTuple::new(py, [slf])?)
    }
}

fn broken(error: ArrowError) -> Refusal {
    Refusal::new(format!("table: {error}"))
}

fn whole(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<UInt64Array>())
}

fn words(column: WordColumn) -> Result<ArrayRef, Refusal> {
    let words = Arc::new(StringArray::from(column.words));
    let indices = UInt8Array::from(column.indices);
    Ok(Arc::new(DictionaryArray::<UInt8Type>::try_new(indices, words).map_err(broken)?))
}

/// The requests of a run. The columns of the log become those of the table, without a copy.
pub fn requests(log: RequestColumns) -> Result<Table, Refusal> {
    let long = |values: Vec<u64>| -> ArrayRef { Arc::new(UInt64Array::from(values)) };
    let short = |values: Vec<u32>| -> ArrayRef { Arc::new(UInt32Array::from(values)) };
    let mut columns = vec![
        ("at_ns".to_string(), long(log.at_ns)),
        ("completed_ns".into(), long(log.completed_ns)),
        ("op".into(), words(log.op)?),
        ("lba".into(), long(log.lba)),
        ("sectors".into(), short(log.sectors)),
        ("status".into(), words(log.status)?),
        ("latency_ns".into(), long(log.latency_ns)),
    ];
    let stages = RequestColumns::stage_names().into_iter().zip(log.stages_ns);
    columns.extend(stages.map(|(name, times)| (name, long(times))));
    columns.push(("unmapped_sectors".into(), short(log.unmapped_sectors)));
    columns.push(("job".into(), short(log.job)));
    Table::of(columns)
}

/// The run over time, one row per interval: the columns of `series.csv`.
pub fn series(report: &Report) -> Result<Table, Refusal> {
    of_columns(report.series_columns())
}

/// Flash operations by cause: programs with their bytes, reads, and erases of blocks.
pub fn operations(report: &Report) -> Result<Table, Refusal> {
    of_columns(report.operation_columns())
}

fn of_columns(columns: Vec<(String, Column)>) -> Result<Table, Refusal> {
    let array = |column: Column| -> ArrayRef {
        match column {
            Column::Whole(values) => Arc::new(UInt64Array::from(values)),
            Column::MaybeWhole(values) => Arc::new(UInt64Array::from(values)),
            Column::Real(values) => Arc::new(Float64Array::from(values)),
            Column::MaybeReal(values) => Arc::new(Float64Array::from(values)),
            Column::Words(words) => Arc::new(StringArray::from(words)),
        }
    };
    Table::of(columns.into_iter().map(|(name, column)| (name, array(column))).collect())
}

/// The dies: where each is, and the share of the measurement that it was busy.
pub fn dies(report: &Report) -> Result<Table, Refusal> {
    let (mut channels, mut ways) = (UInt64Builder::new(), UInt64Builder::new());
    let mut busy = Float64Builder::new();
    for (channel, shares) in (0..).zip(&report.utilisation.dies) {
        for (way, &share) in (0..).zip(shares) {
            channels.append_value(channel);
            ways.append_value(way);
            busy.append_value(share);
        }
    }
    let count = busy.values_slice().len() as u64;
    Table::of(vec![
        ("die".into(), whole(0..count)),
        ("channel".into(), Arc::new(channels.finish())),
        ("way".into(), Arc::new(ways.finish())),
        ("busy_share".into(), Arc::new(busy.finish())),
    ])
}

/// The blocks of a drive as they stand: where each is, its health and how often it was erased.
pub fn blocks(device: &Device) -> Result<Table, Refusal> {
    let (layout, media) = (device.layout(), device.media());
    let all = || (0..layout.blocks).map(BlockId);
    let short = |values: Vec<u32>| -> ArrayRef { Arc::new(UInt32Array::from(values)) };
    let mut health = WordColumn::default();
    for block in all() {
        health.push(match media.array().health(block) {
            Health::Good => "good",
            Health::FactoryBad => "factory_bad",
            Health::GrownBad => "grown_bad",
        });
    }
    Table::of(vec![
        ("block".into(), short(all().map(|block| block.0).collect())),
        ("die".into(), short(all().map(|block| layout.die_of_block(block).0).collect())),
        ("health".into(), words(health)?),
        ("erases".into(), short(all().map(|block| media.array().erase_count(block)).collect())),
    ])
}
