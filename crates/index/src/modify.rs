//! Changes of one key that depend on its value.
//!
//! The client locks the leaf of the key and reads it, as every change does. The caller's function then sees the value
//! and decides; the client writes the result back and releases the lock. No other client changes the entry in between,
//! so that the function and the change are one atomic step.

use crate::memory::overflow::OverflowValue;
use std::ops::Deref;

/// The entry that a key will have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The entry that it has, or none.
    Keep,
    /// An entry with this value.
    Store(Vec<u8>),
    /// None.
    Remove,
}

/// Decides about the entry of a key; `None`: the key is absent.
///
/// It is called at least once, and again if the tree has changed before the decision could be applied. The last call
/// counts. It must not use the index: the client holds the lock of the leaf.
pub type Decide<'d> = dyn FnMut(Option<&[u8]>) -> Decision + 'd;

/// Decides whether the entry of a key is removed; `None`: the key is absent, and the decision does not matter. It is
/// called as [`Decide`] is.
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
