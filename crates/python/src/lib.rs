//! The extension module of the Python package `farwood`: thin layers over the handles of the library.
//!
//! | file | contents |
//! |---|---|
//! | `errors.rs` | exceptions from errors of the library |
//! | `column.rs` | the type of keys or values: Python objects to encoded bytes and back |
//! | `column_array.rs` | the same for NumPy arrays |
//! | `arrow.rs` | scans as Arrow streams |
//! | `backup.rs` | dumps of indexes and images of pools |
//! | `wait.rs` | calls without the GIL |
//! | `pool.rs`, `ordered.rs`, `scan.rs`, `spatial.rs` | the classes |
//!
//! The package's Python files add the parts that need no speed: the interfaces of `MutableMapping` and of `STRtree`,
//! JSON, dates, geometries.

#![forbid(unsafe_code)]
#![expect(clippy::needless_pass_by_value, reason = "functions for Python own their arguments")]

mod arrow;
mod backup;
mod column;
mod column_array;
mod errors;
mod flags;
mod ordered;
mod pool;
mod query_order;
mod scan;
mod spatial;
mod wait;

use pyo3::prelude::*;

/// The classes and functions that the package's Python files use.
#[pymodule(gil_used = false)]
mod _farwood {
    #[pymodule_export]
    use crate::arrow::ArrowScan;
    #[pymodule_export]
    use crate::backup::{dump, restore, restore_pool, save};
    #[pymodule_export]
    use crate::ordered::OrderedHandle;
    #[pymodule_export]
    use crate::pool::{PoolHandle, create_pool, open_pool, remove_pool};
    #[pymodule_export]
    use crate::scan::{ArrayScan, EntryScan};
    #[pymodule_export]
    use crate::spatial::SpatialHandle;

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
