//! Calls of the library without the GIL.

use crate::errors::{exception, panicked};
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a call of the library without the GIL. A panic becomes an exception.
#[inline]
pub(crate) fn without_gil<T: Send>(
    py: Python<'_>,
    call: impl FnOnce() -> farwood::Result<T> + Send,
) -> PyResult<T> {
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(call)));
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(exception(py, &error)),
        Err(payload) => Err(panicked(&*payload)),
    }
}
