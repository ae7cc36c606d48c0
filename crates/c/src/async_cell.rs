//! A handle for sessions that an object creates when the first session needs it, once in each process.
//!
//! An async handle of the parent does not work in a forked child, so the child creates another one. A thread that the
//! child does not have may have held the mutex during the fork: the child then fails instead of waiting.

use crate::code::FW_ERR_FORKED;
use crate::failure::{CallResult, Failure};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The longest time that a child waits for the mutex, which no thread holds for longer than it copies a pointer.
const CHILD_WAIT_MAX: Duration = Duration::from_secs(1);

/// A handle that is created at its first use in a process.
pub(crate) struct AsyncCell<H> {
    /// The process that created the cell.
    process: u32,
    /// The handle, and the process that created it.
    held: Mutex<Option<(u32, H)>>,
}

impl<H: Clone> AsyncCell<H> {
    /// A cell without a handle.
    pub(crate) fn new() -> Self {
        Self { process: std::process::id(), held: Mutex::new(None) }
    }

    /// The handle of this process, which `create` creates if there is none.
    pub(crate) fn get(&self, create: impl FnOnce() -> CallResult<H>) -> CallResult<H> {
        if let Some(handle) = self.present()? {
            return Ok(handle);
        }
        let created = create()?;
        let process = std::process::id();
        let mut held = self.lock()?;
        match &*held {
            // Another thread was faster.
            Some((owner, handle)) if *owner == process => Ok(handle.clone()),
            _ => {
                let before = held.replace((process, created.clone()));
                drop(held);
                drop(before);
                Ok(created)
            }
        }
    }

    fn present(&self) -> CallResult<Option<H>> {
        let held = self.lock()?;
        let own = held.as_ref().filter(|(owner, _)| *owner == std::process::id());
        Ok(own.map(|(_, handle)| handle.clone()))
    }

    /// The handle, if there is one. It may be that of a parent process.
    pub(crate) fn into_inner(self) -> Option<H> {
        let held = self.held.into_inner().unwrap_or_else(PoisonError::into_inner);
        held.map(|(_, handle)| handle)
    }

    fn lock(&self) -> CallResult<MutexGuard<'_, Option<(u32, H)>>> {
        if self.process == std::process::id() {
            return Ok(self.held.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let begun = Instant::now();
        loop {
            match self.held.try_lock() {
                Ok(held) => return Ok(held),
                Err(TryLockError::Poisoned(held)) => return Ok(held.into_inner()),
                Err(TryLockError::WouldBlock) if begun.elapsed() < CHILD_WAIT_MAX => std::thread::yield_now(),
                Err(TryLockError::WouldBlock) => {
                    let text = "the parent was forked while it began to use sessions; open the index in this process";
                    return Err(Failure::Refused(FW_ERR_FORKED, text.to_owned()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_creates_the_handle_once() {
        let cell = AsyncCell::new();
        assert_eq!(cell.get(|| Ok(1)).unwrap(), 1);
        assert_eq!(cell.get(|| Ok(2)).unwrap(), 1);
        assert_eq!(cell.into_inner(), Some(1));
    }

    #[test]
    fn a_child_replaces_the_handle_of_its_parent() {
        let other = std::process::id() + 1;
        let cell = AsyncCell { process: other, held: Mutex::new(Some((other, 1))) };
        assert_eq!(cell.get(|| Ok(2)).unwrap(), 2);
        assert_eq!(cell.get(|| Ok(3)).unwrap(), 2);
    }

    #[test]
    fn a_child_does_not_wait_for_a_thread_of_its_parent() {
        let cell = AsyncCell { process: std::process::id() + 1, held: Mutex::new(Some((0, 1))) };
        let _held = cell.held.lock().unwrap();
        assert!(cell.get(|| Ok(2)).is_err());
    }
}
