//! Iterators over entries.

use crate::column_array::FoundBatch;
use crate::errors::closed;
use crate::ordered::{OrderedHandle, RawScan};
use crate::wait::without_gil;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

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

/// A scan, until it is exhausted or its index is closed.
pub(crate) struct OpenScan(Mutex<ScanState>);

enum ScanState {
    Open(Box<Progress>),
    Exhausted,
    /// The index was closed.
    Closed,
}

struct Progress {
    scan: RawScan,
    fetched: VecDeque<Entry>,
    fetch: usize,
    failed: Option<farwood::Error>,
}

impl Progress {
    /// The next entry. Entries are fetched several at a time, and an error after the entries before it.
    fn take(&mut self) -> farwood::Result<Option<Entry>> {
        if self.fetched.is_empty() {
            self.failed.take().map_or(Ok(()), Err)?;
            let count = self.fetch;
            self.fetch = (4 * count).min(FETCH_MAX);
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
        } else {
            // A forked child must not get entries that its parent has fetched.
            self.scan.check()?;
        }
        Ok(self.fetched.pop_front())
    }

    /// Up to `chunk` keys and values.
    fn take_batch(&mut self, chunk: usize) -> farwood::Result<Option<[FoundBatch; 2]>> {
        let [mut keys, mut values] = [FoundBatch::default(), FoundBatch::default()];
        for entry in self.scan.by_ref().take(chunk) {
            let (key, value) = entry?;
            keys.push(Some(&key));
            values.push(Some(&value));
        }
        Ok((keys.len() > 0).then_some([keys, values]))
    }
}

impl OpenScan {
    pub(crate) fn new(scan: RawScan) -> Self {
        let progress = Progress { scan, fetched: VecDeque::new(), fetch: FETCH_FIRST, failed: None };
        Self(Mutex::new(ScanState::Open(Box::new(progress))))
    }

    /// Ends the scan, because its index is closed. A scan that another thread is using ends when it is dropped.
    pub(crate) fn end(&self) {
        if let Ok(mut state) = self.lock() {
            *state = ScanState::Closed;
        }
    }

    /// The state. Two threads cannot use one iterator at the same time, as with generators.
    fn lock(&self) -> PyResult<MutexGuard<'_, ScanState>> {
        match self.0.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(PyValueError::new_err("another thread is using this iterator; give each thread its own"))
            }
        }
    }

    /// Takes entries without the GIL. An exhausted scan is released at once: it would keep the index open.
    fn take<T: Send>(
        &self,
        py: Python<'_>,
        take: impl FnOnce(&mut Progress) -> farwood::Result<Option<T>> + Send,
    ) -> PyResult<Option<T>> {
        let mut state = self.lock()?;
        let progress = match &mut *state {
            ScanState::Open(progress) => progress,
            ScanState::Exhausted => return Ok(None),
            ScanState::Closed => return Err(closed("index")),
        };
        let taken = without_gil(py, || take(progress))?;
        if taken.is_none() {
            *state = ScanState::Exhausted;
        }
        Ok(taken)
    }
}

/// An iterator over keys, values or entries.
#[pyclass(frozen, name = "Scan", module = "farwood._farwood")]
pub(crate) struct EntryScan {
    scan: Arc<OpenScan>,
    index: Py<OrderedHandle>,
    part: Part,
}

impl EntryScan {
    pub(crate) fn new(scan: Arc<OpenScan>, index: Py<OrderedHandle>, part: Part) -> Self {
        Self { scan, index, part }
    }
}

#[pymethods]
impl EntryScan {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((key, value)) = self.scan.take(py, Progress::take)? else { return Ok(None) };
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
    scan: Arc<OpenScan>,
    index: Py<OrderedHandle>,
    chunk: usize,
}

impl ArrayScan {
    pub(crate) fn new(scan: Arc<OpenScan>, index: Py<OrderedHandle>, chunk: usize) -> Self {
        Self { scan, index, chunk }
    }
}

#[pymethods]
impl ArrayScan {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let found = self.scan.take(py, |progress| progress.take_batch(self.chunk))?;
        let Some([keys, values]) = found else { return Ok(None) };
        let [key_column, value_column] = self.index.get().columns();
        Ok(Some((key_column.decode_batch(py, &keys)?, value_column.decode_batch(py, &values)?)))
    }
}
