//! Iterators over entries.

use crate::column_array::FoundBatch;
use crate::ordered::{OrderedHandle, RawScan};
use crate::wait::without_gil;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Entries that an iterator fetches at a time: the first ones, and at most.
const FETCH_FIRST: usize = 16;
const FETCH_MAX: usize = 512;

/// The part of each entry that an iterator returns.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Key,
    Value,
    Both,
}

impl Part {
    pub(crate) fn of(number: u8) -> Self {
        match number {
            0 => Self::Key,
            1 => Self::Value,
            _ => Self::Both,
        }
    }
}

type Entry = (Vec<u8>, Vec<u8>);

struct ScanState {
    scan: RawScan,
    fetched: VecDeque<Entry>,
    fetch: usize,
    failed: Option<farwood::Error>,
}

impl ScanState {
    /// Takes up to `count` entries from the scan. An error is kept for the call after them.
    fn fetch(&mut self, count: usize) -> farwood::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        for entry in self.scan.by_ref().take(count) {
            match entry {
                Ok(entry) => self.fetched.push_back(entry),
                Err(error) if self.fetched.is_empty() => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        Ok(())
    }
}

/// An iterator over keys, values or entries.
#[pyclass(frozen, name = "Scan", module = "farwood._farwood")]
pub(crate) struct EntryScan {
    state: Mutex<ScanState>,
    index: Py<OrderedHandle>,
    part: Part,
}

impl EntryScan {
    pub(crate) fn new(scan: RawScan, index: Py<OrderedHandle>, part: Part) -> Self {
        let state = ScanState { scan, fetched: VecDeque::new(), fetch: FETCH_FIRST, failed: None };
        Self { state: Mutex::new(state), index, part }
    }

    /// The next entry. The mutex is never held while the GIL is awaited.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Entry>> {
        without_gil(py, || {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.fetched.is_empty() {
                let count = state.fetch;
                state.fetch = (4 * count).min(FETCH_MAX);
                state.fetch(count)?;
            }
            Ok(state.fetched.pop_front())
        })
    }
}

#[pymethods]
impl EntryScan {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((key, value)) = self.take(py)? else { return Ok(None) };
        let [keys, values] = self.index.get().columns();
        Ok(Some(match self.part {
            Part::Key => keys.decode(py, &key)?,
            Part::Value => values.decode(py, &value)?,
            Part::Both => (keys.decode(py, &key)?, values.decode(py, &value)?).into_pyobject(py)?.into_any(),
        }))
    }
}

/// An iterator over arrays of keys and values.
#[pyclass(frozen, module = "farwood._farwood")]
pub(crate) struct ArrayScan {
    scan: Mutex<RawScan>,
    index: Py<OrderedHandle>,
    chunk: usize,
}

impl ArrayScan {
    pub(crate) fn new(scan: RawScan, index: Py<OrderedHandle>, chunk: usize) -> Self {
        Self { scan: Mutex::new(scan), index, chunk }
    }

    fn fetch(&self) -> farwood::Result<[FoundBatch; 2]> {
        let mut scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner);
        let [mut keys, mut values] = [FoundBatch::default(), FoundBatch::default()];
        for entry in scan.by_ref().take(self.chunk) {
            let (key, value) = entry?;
            keys.push(Some(&key));
            values.push(Some(&value));
        }
        Ok([keys, values])
    }
}

#[pymethods]
impl ArrayScan {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let [keys, values] = without_gil(py, || self.fetch())?;
        if keys.len() == 0 {
            return Ok(None);
        }
        let [key_column, value_column] = self.index.get().columns();
        Ok(Some((key_column.decode_batch(py, &keys)?, value_column.decode_batch(py, &values)?)))
    }
}
