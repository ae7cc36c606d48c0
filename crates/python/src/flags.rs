//! The boolean arguments of Python's calls, a type for each.

use pyo3::prelude::*;

/// Whether a scan goes from the greatest key to the least.
#[derive(Clone, Copy, FromPyObject)]
#[pyo3(transparent)]
pub(crate) struct Reverse(pub(crate) bool);

/// Whether an absent index is created.
#[derive(Clone, Copy, FromPyObject)]
#[pyo3(transparent)]
pub(crate) struct CreateAbsent(pub(crate) bool);

/// Whether a pool takes its memory at once.
#[derive(Clone, Copy, FromPyObject)]
#[pyo3(transparent)]
pub(crate) struct Reserve(pub(crate) bool);

/// Whether a pool is opened for reading only.
#[derive(Clone, Copy, FromPyObject)]
#[pyo3(transparent)]
pub(crate) struct ReadOnly(pub(crate) bool);

/// Whether all indexes of a dump are as they were at one cut.
#[derive(Clone, Copy, FromPyObject)]
#[pyo3(transparent)]
pub(crate) struct Consistent(pub(crate) bool);

/// Whether a pool is removed although processes have it open.
#[derive(Clone, Copy, FromPyObject)]
#[pyo3(transparent)]
pub(crate) struct Force(pub(crate) bool);
