//! The objects that replace inherited ones in a forked child.
//!
//! A child must not use what its parent has opened ([`ForkCount`]). So the first call on an inherited handle opens the
//! pool and the index again, and the inherited object keeps the new one for later calls. If that fails, the inherited
//! object is used, which refuses the call with [`FabricError::Forked`](farwood_fabric::FabricError::Forked).

use farwood_transport::fork::{ForkCount, without_fork};
use std::sync::OnceLock;

/// The object that replaces another one in a forked child, once it is needed.
pub(crate) struct Heir<T>(OnceLock<T>);

impl<T> Default for Heir<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> Heir<T> {
    /// The object that replaces the one of the process with `forks`. In a forked child, the first call creates it by
    /// `open`. `None`: the process has not forked, or the object cannot be created.
    #[inline]
    pub(crate) fn get_or_open(&self, forks: ForkCount, open: impl FnOnce() -> Option<T>) -> Option<&T> {
        if forks.is_current() { None } else { self.open(open) }
    }

    #[cold]
    fn open(&self, open: impl FnOnce() -> Option<T>) -> Option<&T> {
        if self.0.get().is_none() {
            let opened = open()?;
            // A child of this child must not inherit the cell while a thread is storing to it: it would wait for ever.
            let lost = without_fork(|| self.0.set(opened));
            // Another thread was faster: this one detaches again, after the lock is free.
            drop(lost);
        }
        self.0.get()
    }
}
