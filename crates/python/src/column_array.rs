//! NumPy arrays of keys and values: encoded bytes and back, without an object for each item.

use crate::column::{Column, kind_name, unfit};
use farwood::types::{Codec, Encode, InlineBytes, Kind, Width};
use numpy::{PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Encoded keys or values of a batch.
pub(crate) enum Batch {
    /// Numbers.
    Words(Vec<[u8; 8]>),
    /// Byte strings of one length, one after the other.
    Rows { bytes: Vec<u8>, length: usize },
    /// Objects of a list.
    Items(Vec<InlineBytes>),
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Words(words) => words.len(),
            Self::Rows { bytes, length } => bytes.len() / length,
            Self::Items(items) => items.len(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> &[u8] {
        match self {
            Self::Words(words) => &words[at],
            Self::Rows { bytes, length } => &bytes[at * length..(at + 1) * length],
            Self::Items(items) => items[at].as_ref(),
        }
    }
}

impl Column {
    /// Encodes an array of numbers, an array of bytes with a row for each item, or a sequence of objects.
    pub(crate) fn encode_batch(&self, items: &Bound<'_, PyAny>) -> PyResult<Batch> {
        if let Ok(rows) = items.extract::<PyReadonlyArray2<'_, u8>>() {
            return self.encode_rows(&rows);
        }
        if let Ok(numbers) = items.extract::<PyReadonlyArray1<'_, u64>>() {
            return self.encode_unsigned(&numbers);
        }
        if let Ok(numbers) = items.extract::<PyReadonlyArray1<'_, i64>>() {
            return self.encode_signed(&numbers);
        }
        if let Ok(numbers) = items.extract::<PyReadonlyArray1<'_, f64>>() {
            return self.encode_floats(&numbers);
        }
        let mut encoded = Vec::new();
        for item in items.try_iter()? {
            encoded.push(self.encode(&item?)?);
        }
        Ok(Batch::Items(encoded))
    }

    fn encode_rows(&self, rows: &PyReadonlyArray2<'_, u8>) -> PyResult<Batch> {
        let rows = rows.as_array();
        let length = rows.ncols();
        if self.kind != Kind::Bytes || length == 0 {
            return Err(self.wrong_array("bytes"));
        }
        self.width.check(length).map_err(unfit)?;
        Ok(Batch::Rows { bytes: rows.iter().copied().collect(), length })
    }

    fn encode_unsigned(&self, numbers: &PyReadonlyArray1<'_, u64>) -> PyResult<Batch> {
        let numbers = numbers.as_array();
        match self.kind {
            Kind::U64 => words(numbers.iter().copied(), self.width),
            Kind::I64 => {
                let signed =
                    numbers.iter().map(|&number| i64::try_from(number).map_err(|_| self.overflow(number)));
                words(signed.collect::<PyResult<Vec<_>>>()?.into_iter(), self.width)
            }
            _ => Err(self.wrong_array("uint64")),
        }
    }

    fn encode_signed(&self, numbers: &PyReadonlyArray1<'_, i64>) -> PyResult<Batch> {
        let numbers = numbers.as_array();
        match self.kind {
            Kind::I64 => words(numbers.iter().copied(), self.width),
            Kind::U64 => {
                let unsigned =
                    numbers.iter().map(|&number| u64::try_from(number).map_err(|_| self.overflow(number)));
                words(unsigned.collect::<PyResult<Vec<_>>>()?.into_iter(), self.width)
            }
            _ => Err(self.wrong_array("int64")),
        }
    }

    fn encode_floats(&self, numbers: &PyReadonlyArray1<'_, f64>) -> PyResult<Batch> {
        match self.kind {
            Kind::F64 => words(numbers.as_array().iter().map(|&number| self.float(number)), self.width),
            _ => Err(self.wrong_array("float64")),
        }
    }

    fn wrong_array(&self, found: &str) -> PyErr {
        let text = format!(
            "the {}s of this index are {}; give an array of that type, not {found}",
            self.what,
            kind_name(self.kind)
        );
        PyTypeError::new_err(text)
    }

    /// An array of decoded items; where `present` is false, zero. `None`: the items have objects only.
    pub(crate) fn decode_batch<'py>(
        &self,
        py: Python<'py>,
        items: &FoundBatch,
    ) -> PyResult<Bound<'py, PyAny>> {
        match (self.kind, self.width) {
            // The package converts rows of bytes to structures.
            (kind, _) if self.convert.is_some() && kind != Kind::Bytes => self.decode_objects(py, items),
            (Kind::U64, _) => Ok(PyArray1::from_vec(py, items.numbers::<u64>()?).into_any()),
            (Kind::I64, _) => Ok(PyArray1::from_vec(py, items.numbers::<i64>()?).into_any()),
            (Kind::F64, _) => Ok(PyArray1::from_vec(py, items.numbers::<f64>()?).into_any()),
            (Kind::Bytes, Width::Exactly(length)) => {
                let rows = PyArray1::from_vec(py, items.rows(length));
                let shaped: Bound<'py, PyArray2<u8>> =
                    numpy::PyArrayMethods::reshape(&rows, [items.len(), length])?;
                Ok(shaped.into_any())
            }
            _ => self.decode_objects(py, items),
        }
    }

    fn decode_objects<'py>(&self, py: Python<'py>, items: &FoundBatch) -> PyResult<Bound<'py, PyAny>> {
        let list = PyList::empty(py);
        for item in items.iter() {
            match item {
                Some(bytes) => list.append(self.decode(py, bytes)?)?,
                None => list.append(py.None())?,
            }
        }
        Ok(list.into_any())
    }
}

fn words<N>(numbers: impl Iterator<Item = N>, width: Width) -> PyResult<Batch>
where
    N: for<'a> Encode<N, Encoded<'a> = [u8; 8]> + 'static,
{
    let encoded = numbers.map(|number| number.encode(width));
    encoded.collect::<Result<_, _>>().map(Batch::Words).map_err(unfit)
}

/// Encoded items that a call has found, in one buffer.
#[derive(Default)]
pub(crate) struct FoundBatch {
    bytes: Vec<u8>,
    /// The end of each item in `bytes`; `None`: it is absent.
    ends: Vec<Option<usize>>,
}

impl FoundBatch {
    pub(crate) fn with_capacity(items: usize) -> Self {
        Self { bytes: Vec::with_capacity(8 * items), ends: Vec::with_capacity(items) }
    }

    #[inline]
    pub(crate) fn push(&mut self, item: Option<&[u8]>) {
        let end = item.map(|item| {
            self.bytes.extend_from_slice(item);
            self.bytes.len()
        });
        self.ends.push(end);
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn present(&self) -> Vec<bool> {
        self.ends.iter().map(Option::is_some).collect()
    }

    /// The items in order; `None`: absent.
    fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let item = end.map(|end| &self.bytes[start..end]);
            start = end.unwrap_or(start);
            item
        })
    }

    fn numbers<N: Codec + Default>(&self) -> PyResult<Vec<N>> {
        let decoded = self.iter().map(|item| item.map_or(Ok(N::default()), N::decode));
        decoded.collect::<Result<_, _>>().map_err(unfit)
    }

    fn rows(&self, length: usize) -> Vec<u8> {
        let mut rows = Vec::with_capacity(self.len() * length);
        for item in self.iter() {
            let start = rows.len();
            rows.extend_from_slice(item.unwrap_or(&[]));
            rows.resize(start + length, 0);
        }
        rows
    }
}

/// Refuses batches of different lengths.
pub(crate) fn check_lengths(keys: &Batch, values: &Batch) -> PyResult<()> {
    if keys.len() == values.len() {
        return Ok(());
    }
    let text = format!("{} keys have {} values; give as many values as keys", keys.len(), values.len());
    Err(PyValueError::new_err(text))
}
