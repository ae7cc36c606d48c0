//! Exceptions from errors of the library.

use farwood::error::ErrorKind;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The Python file that defines the exceptions.
const MODULE: &str = "farwood.errors";

/// The name of the exception of a kind.
fn class_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "NoSuchIndex",
        ErrorKind::Exists => "Exists",
        ErrorKind::Full => "PoolFull",
        ErrorKind::Busy => "Busy",
        ErrorKind::Unreachable => "Unreachable",
        ErrorKind::TimedOut => "Timeout",
        ErrorKind::Revoked => "Revoked",
        ErrorKind::Forked => "ForkedError",
        ErrorKind::PermissionDenied => "PermissionDenied",
        ErrorKind::TypeMismatch => "TypeMismatch",
        ErrorKind::InvalidArgument => "InvalidArgument",
        ErrorKind::Unsupported => "Unsupported",
        ErrorKind::Damaged => "Damaged",
        ErrorKind::System => "SystemFailure",
        ErrorKind::ReadOnly => "ReadOnly",
        _ => "Error",
    }
}

/// The exception of an error, with the remedy in its text.
pub(crate) fn exception(py: Python<'_>, error: &farwood::Error) -> PyErr {
    let mut text = error.to_string();
    if let Some(help) = error.help() {
        text.push_str("; ");
        text.push_str(help);
    }
    let made = py
        .import(MODULE)
        .and_then(|module| module.call_method1("of_library", (class_of(error.kind()), text)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// An exception of the package by its name.
pub(crate) fn raise<'py>(py: Python<'py>, class: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made = py.import(MODULE).and_then(|module| module.getattr(class)?.call1(arguments));
    match made {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error,
    }
}

/// The exception of a missing key.
#[cold]
pub(crate) fn missing(key: &Bound<'_, PyAny>) -> PyErr {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = key.py();
    let class =
        CLASS.get_or_try_init(py, || Ok::<_, PyErr>(py.import(MODULE)?.getattr("NotFound")?.unbind()));
    match class.and_then(|class| class.bind(py).call1((key,))) {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error,
    }
}

/// The exception of a handle that was closed.
#[cold]
pub(crate) fn closed(what: &str) -> PyErr {
    PyValueError::new_err(format!("the {what} is closed; open it again"))
}

/// The exception of an object of another type than the column has.
#[cold]
pub(crate) fn wrong_type(what: &str, expected: &str, found: &Bound<'_, PyAny>) -> PyErr {
    let found = found.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("a {what} of this index is {expected}, not {found}"))
}

/// A panic of the library, which must not pass through Python.
#[cold]
pub(crate) fn panicked(payload: &(dyn std::any::Any + Send)) -> PyErr {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no text");
    PyRuntimeError::new_err(format!("a defect of farwood: {text}; report it with the traceback"))
}
