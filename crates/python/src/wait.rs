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

/// Keeps an exception of a function of the program, which the present call raises when it has ended.
pub(crate) fn keep_exception(error: PyErr) {
    RAISED.set(Some(error));
}

/// Runs a call of the library without the GIL. A panic becomes an exception. An exception that has interrupted the call
/// is raised also if the call has a result: a scan that was interrupted after its first entries returns these.
#[inline]
pub(crate) fn without_gil<T: Send>(
    py: Python<'_>,
    call: impl FnOnce() -> farwood::Result<T> + Send,
) -> PyResult<T> {
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(call)));
    RAISED.take().map_or(Ok(()), Err)?;
    checked(py, done)
}

/// The result of a call of the library, or its panic.
pub(crate) type Caught<T> = thread::Result<farwood::Result<T>>;

/// The result of a call for Python, with errors and panics as exceptions.
#[inline]
pub(crate) fn checked<T>(py: Python<'_>, done: Caught<T>) -> PyResult<T> {
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(exception(py, &error)),
        Err(payload) => Err(panicked(&*payload)),
    }
}
