//! Errors that report damaged objects.

use crate::error::IndexError;
use std::fmt;

/// An object that `operation` read at `at` is damaged.
pub(crate) fn damaged(operation: &'static str, at: impl fmt::Display, what: String) -> IndexError {
    IndexError::Damaged { operation, at: at.to_string(), what }
}

/// Slot `number` of the node at `node` holds an invalid word.
pub(crate) fn damaged_slot(operation: &'static str, node: impl fmt::Display, number: usize) -> IndexError {
    damaged(operation, node, format!("slot {number} holds an invalid word"))
}
