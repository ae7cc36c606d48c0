//! Scans as Arrow streams, which pyarrow, polars and duckdb read without copies (the Arrow PyCapsule interface).

use crate::column::Column;
use crate::ordered::{OrderedHandle, RawScan};
use arrow_array::builder::{BinaryBuilder, FixedSizeBinaryBuilder, StringBuilder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchReader,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use farwood::types::{Codec, Kind, Width};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::{Arc, Mutex, PoisonError};

/// The name of a capsule with a stream, as the interface defines it.
const STREAM: &std::ffi::CStr = c"arrow_array_stream";
/// The time zone of stored moments.
const ZONE: &str = "UTC";

/// The entries of a range as a table with the columns `key` and `value`, which a consumer reads once.
#[pyclass(frozen, module = "farwood._farwood")]
pub(crate) struct ArrowScan(Mutex<Option<EntryReader>>);

#[pymethods]
impl ArrowScan {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface permits a producer to ignore the request.
        let _ = requested_schema;
        let reader = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let reader =
            reader.ok_or_else(|| PyValueError::new_err("the entries were read already; scan again"))?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
    }
}

impl ArrowScan {
    pub(crate) fn new(scan: RawScan, index: &OrderedHandle, chunk: usize) -> Self {
        let types = index.columns().map(stored_type);
        let fields = ["key", "value"].iter().zip(&types);
        let fields: Vec<Field> =
            fields.map(|(name, stored)| Field::new(*name, stored.clone(), false)).collect();
        let schema = Arc::new(Schema::new(fields));
        Self(Mutex::new(Some(EntryReader { scan, schema, chunk })))
    }
}

/// The Arrow type of a column.
fn stored_type(column: &Column) -> DataType {
    match (column.kind, column.width) {
        (Kind::I64, _) if column.convert.is_some() => {
            DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into()))
        }
        (Kind::I64, _) => DataType::Int64,
        (Kind::U64, _) => DataType::UInt64,
        (Kind::F64, _) => DataType::Float64,
        (Kind::Bool, _) => DataType::Boolean,
        (Kind::Text, _) => DataType::Utf8,
        (_, Width::Exactly(bytes)) => {
            i32::try_from(bytes).map_or(DataType::Binary, DataType::FixedSizeBinary)
        }
        (_, Width::UpTo(_)) => DataType::Binary,
    }
}

/// Reads the entries of a scan in batches.
struct EntryReader {
    scan: RawScan,
    schema: SchemaRef,
    chunk: usize,
}

impl EntryReader {
    fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for entry in self.scan.by_ref().take(self.chunk) {
            let (key, value) = entry.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
            keys.push(key);
            values.push(value);
        }
        if keys.is_empty() {
            return Ok(None);
        }
        let columns = [keys, values].into_iter().zip(self.schema.fields());
        let columns = columns.map(|(items, field)| array(&items, field.data_type()));
        RecordBatch::try_new(Arc::clone(&self.schema), columns.collect::<Result<_, _>>()?).map(Some)
    }
}

impl Iterator for EntryReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().transpose()
    }
}

impl RecordBatchReader for EntryReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// An array of encoded items.
fn array(items: &[Vec<u8>], stored: &DataType) -> Result<ArrayRef, ArrowError> {
    fn decoded<T: Codec>(items: &[Vec<u8>]) -> Result<Vec<T>, ArrowError> {
        let decoded = items.iter().map(|item| T::decode(item));
        decoded.collect::<Result<_, _>>().map_err(|why| ArrowError::InvalidArgumentError(why.to_string()))
    }
    Ok(match stored {
        DataType::Int64 => Arc::new(Int64Array::from(decoded::<i64>(items)?)),
        DataType::UInt64 => Arc::new(UInt64Array::from(decoded::<u64>(items)?)),
        DataType::Float64 => Arc::new(Float64Array::from(decoded::<f64>(items)?)),
        DataType::Boolean => Arc::new(BooleanArray::from(decoded::<bool>(items)?)),
        DataType::Timestamp(..) => {
            Arc::new(TimestampMicrosecondArray::from(decoded::<i64>(items)?).with_timezone(ZONE))
        }
        DataType::Utf8 => {
            let mut texts = StringBuilder::new();
            decoded::<String>(items)?.iter().for_each(|text| texts.append_value(text));
            Arc::new(texts.finish())
        }
        DataType::FixedSizeBinary(bytes) => {
            let mut rows = FixedSizeBinaryBuilder::with_capacity(items.len(), *bytes);
            items.iter().try_for_each(|item| rows.append_value(item))?;
            Arc::new(rows.finish())
        }
        _ => {
            let mut strings = BinaryBuilder::new();
            for item in items {
                strings.append_value(item);
            }
            Arc::new(strings.finish())
        }
    })
}
