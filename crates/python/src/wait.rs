//! Calls of the library without the GIL.

use crate::errors::{exception, panicked};
use farwood::index::Interrupt;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

thread_local! {
    /// The exception of a signal handler that has interrupted the present call of this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Runs the handlers of signals that have arrived; true: one of them has raised an exception, as Ctrl-C does.
pub(crate) fn interrupt() -> Interrupt {
    Arc::new(|| {
        let raised = Python::attach(|py| py.check_signals().err());
        let is_raised = raised.is_some();
        RAISED.set(raised);
        is_raised
    })
}

/// Runs a call of the library without the GIL. A panic becomes an exception.
#[inline]
pub(crate) fn without_gil<T: Send>(
    py: Python<'_>,
    call: impl FnOnce() -> farwood::Result<T> + Send,
) -> PyResult<T> {
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(call)));
    checked(py, done)
}

/// Runs a call of the library that does not wait. A panic becomes an exception.
#[inline]
pub(crate) fn with_gil<T>(py: Python<'_>, call: impl FnOnce() -> farwood::Result<T>) -> PyResult<T> {
    checked(py, catch_unwind(AssertUnwindSafe(call)))
}

#[inline]
fn checked<T>(py: Python<'_>, done: thread::Result<farwood::Result<T>>) -> PyResult<T> {
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(RAISED.take().unwrap_or_else(|| exception(py, &error))),
        Err(payload) => Err(panicked(&*payload)),
    }
}
