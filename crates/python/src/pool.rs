//! Pools.

use crate::column::{Column, Convert, kind_name};
use crate::errors::{closed, raise};
use crate::flags::{CreateAbsent, Force, ReadOnly, Reserve};
use crate::ordered::{OrderedHandle, RawIndex};
use crate::spatial::SpatialHandle;
use crate::wait::without_gil;
use farwood::error::ErrorKind;
use farwood::index::Structure;
use farwood::spatial::RTree;
use farwood::types::Kind;
use farwood::{BTree, Hashed, PoolOptions, Radix};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// A type of keys or values as the package gives it: the stored type, and functions from and to stored objects.
type ColumnSpec = (String, Option<Py<PyAny>>, Option<Py<PyAny>>);

/// An attachment of this process to a pool.
#[pyclass(frozen, name = "Pool", module = "farwood._farwood")]
pub(crate) struct PoolHandle {
    pool: Mutex<Option<farwood::Pool>>,
    url: String,
    read_only: ReadOnly,
}

/// Creates a pool in shared memory.
#[pyfunction]
#[pyo3(signature = (url, memory_bytes, nodes, reserve))]
pub(crate) fn create_pool(
    py: Python<'_>,
    url: String,
    memory_bytes: u64,
    nodes: u16,
    reserve: Reserve,
) -> PyResult<()> {
    let options = PoolOptions::new().memory_bytes(memory_bytes).nodes(nodes);
    let options = if reserve.0 { options.reserve_memory() } else { options };
    without_gil(py, || farwood::Pool::create(url.as_str(), &options))
}

/// Attaches to a pool.
#[pyfunction]
pub(crate) fn open_pool(py: Python<'_>, url: String, read_only: ReadOnly) -> PyResult<PoolHandle> {
    let open = || {
        let url = url.as_str();
        if read_only.0 { farwood::Pool::open_read_only(url) } else { farwood::Pool::open(url) }
    };
    let pool = without_gil(py, open)?;
    let url = pool.url();
    Ok(PoolHandle { pool: Mutex::new(Some(pool)), url, read_only })
}

/// Removes a pool in shared memory.
#[pyfunction]
pub(crate) fn remove_pool(py: Python<'_>, url: String, force: Force) -> PyResult<()> {
    let url = url.as_str();
    without_gil(py, || if force.0 { farwood::Pool::remove_by_force(url) } else { farwood::Pool::remove(url) })
}

#[pymethods]
impl PoolHandle {
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// Whether the pool was opened for reading only.
    #[getter]
    fn read_only(&self) -> bool {
        self.read_only.0
    }

    #[getter]
    fn closed(&self) -> bool {
        self.lock().is_none()
    }

    /// Detaches, once the indexes are closed, too.
    fn close(&self, py: Python<'_>) {
        let pool = self.lock().take();
        py.detach(|| drop(pool));
    }

    /// The names of the indexes with their kinds: `btree`, `radix` and so on.
    fn indexes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let pool = self.handle()?;
        let entries = without_gil(py, || pool.indexes())?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    fn grow_memory(&self, py: Python<'_>, bytes: u64) -> PyResult<()> {
        let pool = self.handle()?;
        without_gil(py, || pool.grow_memory(bytes))
    }

    fn drop_index(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let pool = self.handle()?;
        without_gil(py, || pool.drop_index(name))
    }

    #[pyo3(signature = (name, key, value, value_type, structure, key_bytes, value_bytes, cache_bytes, create))]
    #[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn open_ordered(
        &self,
        py: Python<'_>,
        name: &str,
        key: ColumnSpec,
        value: ColumnSpec,
        value_type: Option<&str>,
        structure: &str,
        key_bytes: Option<usize>,
        value_bytes: Option<usize>,
        cache_bytes: Option<usize>,
        create: CreateAbsent,
    ) -> PyResult<OrderedHandle> {
        let pool = self.handle()?;
        let kinds = [kind_of(&key.0)?, kind_of(&value.0)?];
        let index = match without_gil(py, || or_absent(pool.open_untyped(name)))? {
            Some(index) => index,
            None if create.0 => {
                let sizes = Sizes { key: key_bytes, value: value_bytes, cache: cache_bytes };
                let made = create_index(&pool, name, (kinds, value_type), structure, &sizes)?;
                match without_gil(py, || or_existing(made()))? {
                    Some(index) => index,
                    // Another process was faster.
                    None => without_gil(py, || pool.open_untyped(name))?,
                }
            }
            None => without_gil(py, || pool.open_untyped(name))?,
        };
        let stored = index.kinds();
        check_kinds(py, &index, kinds, stored)?;
        check_value_type(py, &index, value_type)?;
        let keys = column("key", stored[0], index.key_width(), key);
        let values = column("value", stored[1], index.value_width(), value);
        Ok(OrderedHandle::new(index, keys, values))
    }

    fn open_spatial(&self, py: Python<'_>, name: &str, create: CreateAbsent) -> PyResult<SpatialHandle> {
        let pool = self.handle()?;
        let index = match without_gil(py, || or_absent(pool.open_spatial(name)))? {
            Some(index) => index,
            None if create.0 => {
                let made = without_gil(py, || or_existing(pool.create_spatial(name, &RTree::new())))?;
                match made {
                    Some(index) => index,
                    None => without_gil(py, || pool.open_spatial(name))?,
                }
            }
            None => without_gil(py, || pool.open_spatial(name))?,
        };
        Ok(SpatialHandle::new(index))
    }
}

impl PoolHandle {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<farwood::Pool>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn handle(&self) -> PyResult<farwood::Pool> {
        self.lock().clone().ok_or_else(|| closed("pool"))
    }
}

/// Makes the error of an index that does not exist a `None`.
fn or_absent<T>(opened: farwood::Result<T>) -> farwood::Result<Option<T>> {
    match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Makes the error of an index that exists already a `None`.
fn or_existing<T>(created: farwood::Result<T>) -> farwood::Result<Option<T>> {
    match created {
        Err(error) if error.kind() == ErrorKind::Exists => Ok(None),
        created => created.map(Some),
    }
}

/// Lengths of an index in bytes, and the budget of its cache.
struct Sizes {
    key: Option<usize>,
    value: Option<usize>,
    cache: Option<usize>,
}

/// Returns a function that creates an index of the structure.
fn create_index<'p>(
    pool: &'p farwood::Pool,
    name: &'p str,
    types: ([Kind; 2], Option<&'p str>),
    structure: &str,
    sizes: &Sizes,
) -> PyResult<Box<dyn FnOnce() -> farwood::Result<RawIndex> + Send + 'p>> {
    fn made<'p>(
        pool: &'p farwood::Pool,
        name: &'p str,
        (kinds, value_type): ([Kind; 2], Option<&'p str>),
        options: impl Structure + Send + 'p,
    ) -> Box<dyn FnOnce() -> farwood::Result<RawIndex> + Send + 'p> {
        Box::new(move || match value_type {
            Some(value_type) => pool.create_untyped_of(name, kinds, value_type, &options),
            None => pool.create_untyped(name, kinds, &options),
        })
    }
    if structure != "btree" && (sizes.key.is_some() || sizes.value.is_some()) {
        let text = format!("key_bytes and value_bytes are options of a btree; a {structure} has any length");
        return Err(PyValueError::new_err(text));
    }
    match structure {
        "btree" => {
            let mut options = BTree::new();
            if let Some(bytes) = sizes.key {
                options = options.key_bytes(bytes);
            }
            options = match (sizes.value, types.0[1]) {
                (Some(bytes), _) => options.value_bytes(bytes),
                (None, Kind::Text | Kind::Bytes) => options.any_length_values(),
                (None, _) => options,
            };
            if let Some(bytes) = sizes.cache {
                options = options.cache_bytes(bytes);
            }
            Ok(made(pool, name, types, options))
        }
        "radix" => {
            let options = Radix::new();
            let options = sizes.cache.map_or(options, |bytes| Radix::new().cache_bytes(bytes));
            Ok(made(pool, name, types, options))
        }
        "hashed" => {
            let options = Hashed::new();
            let options = sizes.cache.map_or(options, |bytes| Hashed::new().filter_bytes(bytes));
            Ok(made(pool, name, types, options))
        }
        other => {
            let text = format!("there is no structure '{other}'; give 'btree', 'radix' or 'hashed'");
            Err(PyValueError::new_err(text))
        }
    }
}

fn kind_of(name: &str) -> PyResult<Kind> {
    Ok(match name {
        "str" => Kind::Text,
        "bytes" => Kind::Bytes,
        "int" => Kind::I64,
        "uint" => Kind::U64,
        "float" => Kind::F64,
        "bool" => Kind::Bool,
        other => return Err(PyValueError::new_err(format!("there is no stored type '{other}'"))),
    })
}

/// Refuses an index of other types. Integers may be stored with or without a sign.
fn check_kinds(py: Python<'_>, index: &RawIndex, asked: [Kind; 2], stored: [Kind; 2]) -> PyResult<()> {
    for ((asked, stored), what) in asked.into_iter().zip(stored).zip(["keys", "values"]) {
        let are_integers = [asked, stored].iter().all(|kind| matches!(kind, Kind::I64 | Kind::U64));
        if asked != stored && !are_integers {
            let url = index.url();
            let [stored, asked] = [stored, asked].map(kind_name);
            let text = format!("{url}: its {what} are {stored}, not {asked}; open it with that type");
            return Err(raise(py, "TypeMismatch", (text,)));
        }
    }
    Ok(())
}

/// Refuses an index whose values have another dtype. An index that another language has created has none.
fn check_value_type(py: Python<'_>, index: &RawIndex, value_type: Option<&str>) -> PyResult<()> {
    // Bytes of any program have the name of the library.
    let is_of_library = index.has_value_type("bytes") != Some(false);
    match value_type {
        Some(name) if index.has_value_type(name) == Some(false) && !is_of_library => {
            let text = format!(
                "{}: its values are not {name}; open it with the dtype with which it was created",
                index.url()
            );
            Err(raise(py, "TypeMismatch", (text,)))
        }
        None if index.kinds()[1] == Kind::Bytes && !is_of_library => {
            let text = format!(
                "{}: its values have a type that a program has defined, such as a NumPy dtype, and are not bytes; open \
                 it with that dtype",
                index.url()
            );
            Err(raise(py, "TypeMismatch", (text,)))
        }
        _ => Ok(()),
    }
}

fn column(what: &'static str, kind: Kind, width: farwood::types::Width, spec: ColumnSpec) -> Column {
    let convert = match (spec.1, spec.2) {
        (Some(to_stored), Some(from_stored)) => Some(Convert { to_stored, from_stored }),
        _ => None,
    };
    Column { what, kind, width, convert }
}
