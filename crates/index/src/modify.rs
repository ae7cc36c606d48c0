//! Changes of one key that depend on its value.
//!
//! The client locks the leaf of the key and reads it, as every change does. The caller's function then sees the value
//! and decides. The client writes the result back and releases the lock. If it has to release the lock before the
//! change, to remove the entry or to store the value in another leaf, it makes the change only if the value is still
//! the same, and otherwise the function decides again. So the last decision and the change are one atomic step.

use crate::memory::overflow::OverflowValue;
use std::ops::Deref;

/// A decision about the entry of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The key keeps its entry, or stays absent.
    Keep,
    /// The key gets an entry with this value, or its entry gets this value.
    Store(Vec<u8>),
    /// The key loses its entry, or stays absent.
    Remove,
}

/// Decides about the entry of a key; `None`: the key is absent.
///
/// The function is called at least once, and again if the value was out of date, or has changed before the decision
/// was applied. Only the last call counts. The function must not use the index, because the client may hold the lock of
/// the leaf.
pub type Decide<'d> = dyn FnMut(Option<&[u8]>) -> Decision + 'd;

/// Decides whether the entry of a key is removed; `None`: the key is absent, and the decision has no effect. The
/// function is called as [`Decide`] is.
pub type Accept<'a> = dyn FnMut(Option<&[u8]>) -> bool + 'a;

/// The value of an entry whose lock this client holds.
pub(crate) enum LockedValue<'v> {
    Inline(&'v [u8]),
    Overflow(OverflowValue),
}

impl Deref for LockedValue<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Inline(value) => value,
            Self::Overflow(value) => value,
        }
    }
}
