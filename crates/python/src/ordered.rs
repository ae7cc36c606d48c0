//! Handles of ordered indexes.

use crate::arrow::ArrowScan;
use crate::column::Column;
use crate::column_array::{Batch, FoundBatch, check_lengths};
use crate::errors::{closed, missing};
use crate::flags::Reverse;
use crate::scan::{ArrayScan, EntryScan, OpenScan, Part};
use crate::wait::{Caught, checked, interrupt, without_gil};
use farwood::types::{Codec, Encode, InlineBytes, Kind, Width};
use numpy::PyArray1;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::ops::Bound as RangeBound;
use std::ops::Range as Positions;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::task::Poll;

/// An index of encoded keys and values.
pub(crate) type RawIndex = farwood::Index<Vec<u8>, Vec<u8>>;
pub(crate) type RawScan = farwood::index::Scan<Vec<u8>, Vec<u8>>;

/// Keys of a batch between two calls of the program's progress function.
const CHUNK: usize = 1 << 14;

/// The handles of an open index.
#[derive(Clone)]
struct OpenIndex {
    /// The handle of calls that may wait: Ctrl-C ends them.
    patient: RawIndex,
    /// The handle of calls that Ctrl-C does not end: lookups that do not wait, and scans of other programs.
    at_once: RawIndex,
}

/// An ordered index.
#[pyclass(frozen, subclass, name = "Ordered", module = "farwood._farwood")]
pub(crate) struct OrderedHandle {
    index: RwLock<Option<OpenIndex>>,
    keys: Arc<Column>,
    values: Arc<Column>,
    url: String,
    /// The scans that may be open: `close` ends them.
    scans: Mutex<Vec<Weak<OpenScan>>>,
}

impl OrderedHandle {
    pub(crate) fn new(index: RawIndex, keys: Column, values: Column) -> Self {
        let url = index.url();
        let patient = index.with_interrupt(interrupt());
        let index = OpenIndex { patient, at_once: index };
        Self {
            index: RwLock::new(Some(index)),
            keys: Arc::new(keys),
            values: Arc::new(values),
            url,
            scans: Mutex::default(),
        }
    }

    pub(crate) fn columns(&self) -> [&Column; 2] {
        [&self.keys, &self.values]
    }

    fn open_index(&self) -> PyResult<OpenIndex> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.clone().ok_or_else(|| closed("index"))
    }

    fn handle(&self) -> PyResult<RawIndex> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.as_ref().map(|index| index.patient.clone()).ok_or_else(|| closed("index"))
    }

    /// Looks a key up, and calls `read` with its value. The GIL is released if the lookup waits.
    #[inline]
    fn find<'py, T>(
        &self,
        key: &Bound<'py, PyAny>,
        read: impl Fn(Python<'py>, &[u8]) -> PyResult<T>,
    ) -> PyResult<Option<T>> {
        let (py, encoded) = (key.py(), self.keys.encode(key)?);
        if let Poll::Ready(found) = checked(py, self.find_at_once(encoded.as_ref(), |value| read(py, value)))?
        {
            return found.transpose();
        }
        let patient = self.handle()?;
        let found = without_gil(py, || patient.get_with(encoded.as_ref(), InlineBytes::copy))?;
        found.map(|value| read(py, value.as_ref())).transpose()
    }

    /// Looks a key up if that needs no wait. Python code must not run meanwhile, because it could call `close`, which
    /// waits until the lock of the handles is free.
    #[inline]
    fn find_at_once<T>(&self, encoded: &[u8], read: impl Fn(&[u8]) -> T) -> Caught<Poll<Option<T>>> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = index.as_ref() else { return Ok(Ok(Poll::Pending)) };
        catch_unwind(AssertUnwindSafe(|| open.at_once.try_get_with(encoded, read)))
    }

    #[inline]
    fn find_value<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let stored = self.find(key, |py, value| self.values.decode_stored(py, value))?;
        stored.map(|stored| self.values.converted(stored)).transpose()
    }

    fn decoded<'py>(&self, py: Python<'py>, value: Option<Vec<u8>>) -> PyResult<Option<Bound<'py, PyAny>>> {
        value.map(|value| self.values.decode(py, &value)).transpose()
    }

    fn bound(
        &self,
        key: Option<Bound<'_, PyAny>>,
        bound: fn(Vec<u8>) -> RangeBound<Vec<u8>>,
    ) -> PyResult<RangeBound<Vec<u8>>> {
        let Some(key) = key else { return Ok(RangeBound::Unbounded) };
        Ok(bound(self.keys.encode(&key)?.as_ref().to_vec()))
    }

    fn scan_of(&self, index: &RawIndex, span: Span<'_>) -> PyResult<RawScan> {
        let Span(minimum, maximum, inclusive, prefix, reverse, limit) = span;
        let bound = |inclusive| if inclusive { RangeBound::Included } else { RangeBound::Excluded };
        let mut range = if let Some(prefix) = prefix {
            index.prefix(self.keys.encode_prefix(&prefix)?)
        } else {
            let least = self.bound(minimum, bound(inclusive.0))?;
            index.range((least, self.bound(maximum, bound(inclusive.1))?))
        };
        if reverse.0 {
            range = range.rev();
        }
        if let Some(limit) = limit {
            range = range.limit(limit);
        }
        Ok(range.into_iter())
    }

    fn open_scan(&self, span: Span<'_>) -> PyResult<Arc<OpenScan>> {
        let scan = Arc::new(OpenScan::new(self.scan_of(&self.handle()?, span)?));
        let mut scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        if scans.len() == scans.capacity() {
            scans.retain(|scan| scan.strong_count() > 0);
        }
        scans.push(Arc::downgrade(&scan));
        Ok(scan)
    }

    /// Runs `work` for the parts of a batch without the GIL, and calls `progress` with the items of each.
    fn in_chunks<T: Send>(
        py: Python<'_>,
        items: usize,
        progress: Option<&Bound<'_, PyAny>>,
        mut work: impl FnMut(Positions<usize>) -> farwood::Result<T> + Send,
        mut take: impl FnMut(T),
    ) -> PyResult<()> {
        for start in (0..items).step_by(CHUNK) {
            let part = start..items.min(start + CHUNK);
            let count = part.len();
            take(without_gil(py, || work(part))?);
            py.check_signals()?;
            if let Some(progress) = progress {
                progress.call1((count,))?;
            }
        }
        Ok(())
    }

    /// The encoded sum of a stored number and `by`.
    fn sum(&self, value: Option<&Vec<u8>>, by: &Step) -> Option<Vec<u8>> {
        let width = self.values.width;
        let stored = value.map(Vec::as_slice);
        match by {
            Step::Float(by) => {
                let old = stored.map_or(Ok(0.0), f64::decode).ok()?;
                Some((old + by).encode(width).ok()?.to_vec())
            }
            Step::Int(by) if self.values.kind == Kind::U64 => {
                let old = stored.map_or(Ok(0), u64::decode).ok()?;
                let new = u64::try_from(i128::from(old) + i128::from(*by)).ok()?;
                Some(new.encode(width).ok()?.to_vec())
            }
            Step::Int(by) => {
                let old = stored.map_or(Ok(0), i64::decode).ok()?;
                Some(old.checked_add(*by)?.encode(width).ok()?.to_vec())
            }
        }
    }
}

fn check_chunk(chunk: usize) -> PyResult<()> {
    if chunk == 0 { Err(PyValueError::new_err("chunk: give at least 1")) } else { Ok(()) }
}

/// The summand of a counter.
enum Step {
    Int(i64),
    Float(f64),
}

/// The keys of a scan, a tuple: the least and the greatest key, whether each is included, or a prefix; whether the
/// order is reversed; and the maximum number of entries.
#[derive(FromPyObject)]
struct Span<'py>(
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
    (bool, bool),
    Option<Bound<'py, PyAny>>,
    Reverse,
    Option<usize>,
);

#[pymethods]
impl OrderedHandle {
    /// Another object of the same index: the package's class derives from it.
    #[new]
    fn of(opened: &Bound<'_, Self>) -> PyResult<Self> {
        let opened = opened.get();
        let (keys, values) = (Arc::clone(&opened.keys), Arc::clone(&opened.values));
        Ok(Self {
            index: RwLock::new(Some(opened.open_index()?)),
            keys,
            values,
            url: opened.url.clone(),
            scans: Mutex::default(),
        })
    }

    /// The URL of the pool and the name of the index.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.index.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Ends all scans, and closes the index in this process. May be called twice.
    fn close(&self, py: Python<'_>) {
        let scans = std::mem::take(&mut *self.scans.lock().unwrap_or_else(PoisonError::into_inner));
        py.detach(|| {
            scans.iter().filter_map(Weak::upgrade).for_each(|scan| scan.end());
            let index = self.index.write().unwrap_or_else(PoisonError::into_inner).take();
            drop(index);
        });
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.find_value(key)?.ok_or_else(|| missing(key))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.find(key, |_, _| Ok(()))?.is_some())
    }

    /// Returns the value of a key, or the default.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find_value(key)?.or(default))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(key, value).map(drop)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.discard(key)? { Ok(()) } else { Err(missing(key)) }
    }

    /// Stores a value; returns whether the key existed.
    fn put(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (index, key_bytes) = (self.handle()?, self.keys.encode(key)?);
        let value = self.values.encode(value)?;
        without_gil(key.py(), || index.put(key_bytes.as_ref(), value.as_ref()))
    }

    /// Stores a value if the key is absent; returns whether it was.
    fn insert(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (index, key_bytes) = (self.handle()?, self.keys.encode(key)?);
        let value = self.values.encode(value)?;
        without_gil(key.py(), || index.insert(key_bytes.as_ref(), value.as_ref()))
    }

    /// Replaces a value if the key is present; returns whether it was.
    fn replace(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (index, key_bytes) = (self.handle()?, self.keys.encode(key)?);
        let value = self.values.encode(value)?;
        without_gil(key.py(), || index.update(key_bytes.as_ref(), value.as_ref()))
    }

    /// Removes a key; returns whether it was present.
    fn discard(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (index, key_bytes) = (self.handle()?, self.keys.encode(key)?);
        without_gil(key.py(), || index.remove(key_bytes.as_ref()))
    }

    /// Stores a value; returns the one before, or the default.
    #[pyo3(signature = (key, value, default = None))]
    fn swap<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        value: &Bound<'_, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (index, key_bytes) = (self.handle()?, self.keys.encode(key)?);
        let value = self.values.encode(value)?;
        let old = without_gil(key.py(), || index.swap(key_bytes.as_ref(), value.as_ref()))?;
        Ok(self.decoded(key.py(), old)?.or(default))
    }

    /// Removes a key; returns its value, or the default.
    #[pyo3(signature = (key, default = None))]
    fn take<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (index, key_bytes) = (self.handle()?, self.keys.encode(key)?);
        let old = without_gil(key.py(), || index.take(key_bytes.as_ref()))?;
        Ok(self.decoded(key.py(), old)?.or(default))
    }

    /// Replaces `expected` by `new`, where `None` is an absent key; returns whether the value was `expected`, and the
    /// value if not.
    #[pyo3(name = "_exchange")]
    fn exchange<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        expected: Option<Bound<'_, PyAny>>,
        new: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(bool, Option<Bound<'py, PyAny>>)> {
        let (index, key_bytes) = (self.handle()?, self.keys.encode(key)?);
        let encoded = |value: Option<Bound<'_, PyAny>>| {
            value.map(|value| Ok::<_, PyErr>(self.values.encode(&value)?.as_ref().to_vec())).transpose()
        };
        let (expected, new) = (encoded(expected)?, encoded(new)?);
        let exchange = || index.compare_exchange(key_bytes.as_ref(), expected.as_ref(), new.as_ref());
        match without_gil(key.py(), exchange)? {
            Ok(()) => Ok((true, None)),
            Err(found) => Ok((false, self.decoded(key.py(), found)?)),
        }
    }

    /// Adds a number to a stored one, or to zero; returns the sum.
    #[pyo3(signature = (key, by = None))]
    fn incr<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        by: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !self.values.is_number() || self.values.convert.is_some() {
            return Err(PyTypeError::new_err("incr: the values of this index are no numbers"));
        }
        let by = match (self.values.kind, by) {
            (Kind::F64, by) => Step::Float(by.map_or(Ok(1.0), |by| by.extract())?),
            (_, by) => Step::Int(by.map_or(Ok(1), |by| by.extract())?),
        };
        let (index, key_bytes) = (self.handle()?, self.keys.encode(key)?);
        let mut new = None;
        let add = |value: Option<&Vec<u8>>| {
            new = self.sum(value, &by);
            new.clone().or_else(|| value.cloned())
        };
        without_gil(key.py(), || index.fetch_update(key_bytes.as_ref(), add))?;
        let new = new
            .ok_or_else(|| PyOverflowError::new_err("incr: the sum does not fit; the value is unchanged"))?;
        self.values.decode(key.py(), &new)
    }

    /// Iterates over the entries of a range: `part` selects keys (0), values (1) or both (2).
    #[pyo3(name = "_entries")]
    fn scan(slf: &Bound<'_, Self>, span: Span<'_>, part: u8) -> PyResult<EntryScan> {
        let scan = slf.get().open_scan(span)?;
        Ok(EntryScan::new(scan, slf.clone().unbind(), Part::of(part)))
    }

    /// Iterates over the entries of a range in arrays of up to `chunk` keys and values.
    #[pyo3(name = "_arrays")]
    fn scan_in_arrays(slf: &Bound<'_, Self>, span: Span<'_>, chunk: usize) -> PyResult<ArrayScan> {
        check_chunk(chunk)?;
        let scan = slf.get().open_scan(span)?;
        Ok(ArrayScan::new(scan, slf.clone().unbind(), chunk))
    }

    /// The entries of a range as an Arrow stream, in batches of up to `chunk` rows.
    #[pyo3(name = "_arrow")]
    fn scan_arrow(&self, span: Span<'_>, chunk: usize) -> PyResult<ArrowScan> {
        check_chunk(chunk)?;
        // The reader of the stream may be any program, which does not expect an exception of Python.
        let index = self.open_index()?.at_once;
        Ok(ArrowScan::new(self.scan_of(&index, span)?, self, chunk))
    }

    /// Counts all entries.
    #[pyo3(name = "_count_entries")]
    fn count_all(&self, py: Python<'_>) -> PyResult<u64> {
        let index = self.handle()?;
        without_gil(py, || index.count())
    }

    /// Looks many keys up: an array or list of values, and an array that is true where the key is present.
    #[pyo3(signature = (keys, progress = None))]
    fn get_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<bool>>)> {
        let (index, py, keys) = (self.handle()?, keys.py(), self.keys.encode_batch(keys)?);
        let mut found = FoundBatch::with_capacity(keys.len());
        let get = |part: Positions<usize>| {
            index.get_many_with(part.map(|at| keys.get(at)), |value| found.push(value))
        };
        Self::in_chunks(py, keys.len(), progress.as_ref(), get, |()| ())?;
        Ok((self.values.decode_batch(py, &found)?, PyArray1::from_vec(py, found.present())))
    }

    /// Stores many entries; returns an array that is true where the key existed.
    #[pyo3(signature = (keys, values, progress = None))]
    fn put_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'_, PyAny>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let (index, py, keys) = (self.handle()?, keys.py(), self.keys.encode_batch(keys)?);
        let values = self.values.encode_batch(values)?;
        check_lengths(&keys, &values)?;
        let mut existed = Vec::with_capacity(keys.len());
        let put = |part: Positions<usize>| index.put_many(part.map(|at| (keys.get(at), values.get(at))));
        Self::in_chunks(py, keys.len(), progress.as_ref(), put, |found| existed.extend(found))?;
        Ok(PyArray1::from_vec(py, existed))
    }

    /// Removes many keys; returns an array that is true where the key was present.
    #[pyo3(signature = (keys, progress = None))]
    fn delete_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let (index, py, keys) = (self.handle()?, keys.py(), self.keys.encode_batch(keys)?);
        let mut existed = Vec::with_capacity(keys.len());
        let remove = |part: Positions<usize>| index.remove_many(part.map(|at| keys.get(at)));
        Self::in_chunks(py, keys.len(), progress.as_ref(), remove, |found| existed.extend(found))?;
        Ok(PyArray1::from_vec(py, existed))
    }

    /// Loads sorted entries into the empty index; returns their number.
    #[pyo3(signature = (keys, values, fill = 0.8))]
    fn load_sorted(&self, keys: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>, fill: f64) -> PyResult<u64> {
        let (index, py, keys) = (self.handle()?, keys.py(), self.keys.encode_batch(keys)?);
        let values: Batch = self.values.encode_batch(values)?;
        check_lengths(&keys, &values)?;
        let entries = (0..keys.len()).map(|at| (keys.get(at), values.get(at)));
        without_gil(py, || index.bulk_load().fill(fill).run(entries))
    }

    /// The bytes of a stored value; `None`: any length.
    #[getter(_value_bytes)]
    fn value_bytes(&self) -> Option<usize> {
        match self.values.width {
            Width::Exactly(bytes) => Some(bytes),
            Width::UpTo(_) => None,
        }
    }
}
