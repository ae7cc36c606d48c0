//! Detection of forks: a handle that a child process inherited must not be used there.
//!
//! After `fork`, parent and child have the same client slot, lock table, journal buffers, free memory and sockets, and
//! neither can detect the other: both would write as one compute node, and damage the index
//! (`docs/decisions/0058-fork.md`). So every attachment records the [`ForkCount`] of the process that opened it, and
//! compares it before each post, before each lock, and in each destructor. In the child
//!
//! - mappings of files and descriptors are replaced before `fork` returns (`inheritance.rs`), so that no child keeps
//!   the locks and connections of a parent that was killed;
//! - an operation of the attachment fails with [`FabricError::Forked`] before it posts, and before it waits for a lock
//!   that another thread of the parent may have held; the library's handles then open the pool again;
//! - a destructor does nothing that the parent or a memory node could observe.
//!
//! A comparison costs one relaxed load of a static variable.

mod inheritance;
#[allow(unsafe_code)]
mod sys;

use farwood_fabric::FabricError;
pub use inheritance::without_fork;
pub(crate) use inheritance::{OwnDescriptor, OwnMapping};
use std::sync::atomic::Ordering::Relaxed;
pub use sys::OneProcess;

/// The number of forks between the first process that used this crate and the present one.
///
/// `_Fork` and raw `clone` calls do not count, because they run no handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkCount(u64);

impl ForkCount {
    /// Returns the count of this process, and counts its forks from now on.
    pub fn now() -> Self {
        sys::count_forks();
        Self(sys::FORKS.load(Relaxed))
    }

    /// Returns whether this is the process that called [`now`](Self::now), and not a forked child of it.
    #[inline]
    pub fn is_current(self) -> bool {
        sys::FORKS.load(Relaxed) == self.0
    }

    /// Returns whether this process is a forked child of the one that called [`now`](Self::now), and updates the count
    /// to that of this process.
    #[inline]
    pub(crate) fn has_changed(&mut self) -> bool {
        let changed = !self.is_current();
        if changed {
            *self = Self::now();
        }
        changed
    }

    /// Refuses a forked child.
    ///
    /// # Errors
    /// [`FabricError::Forked`].
    #[inline]
    pub fn check(self) -> Result<(), FabricError> {
        if self.is_current() { Ok(()) } else { Err(FabricError::Forked) }
    }

    /// Binds an operation to this process: a forked child neither polls nor drops it, because it may wait for another
    /// thread of the parent, or need a mutex that such a thread held. There it fails with [`FabricError::Forked`].
    #[inline]
    pub fn guard<F>(self, operation: F) -> OneProcess<F> {
        OneProcess::new(self, operation)
    }
}

/// Runs `work` in a forked child. Returns whether it returned true.
#[cfg(test)]
pub(crate) fn is_true_in_child(work: impl FnOnce() -> bool) -> bool {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    match sys::fork() {
        Some(child) => sys::succeeded(child),
        None => sys::end_child(catch_unwind(AssertUnwindSafe(work)).unwrap_or(false)),
    }
}

#[cfg(test)]
mod tests {
    use super::sys::{end_child, fork, succeeded};
    use super::*;
    use crate::runtime::{block_on, run_all, yield_now};
    use std::future::{pending, poll_fn};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::Poll;

    type Done = Result<(), FabricError>;

    #[test]
    fn a_child_and_its_child_have_other_counts() {
        let parent = ForkCount::now();
        assert!(is_true_in_child(|| {
            let child = ForkCount::now();
            let differ = !parent.is_current() && child.is_current();
            differ && is_true_in_child(|| !child.is_current() && !parent.is_current()) && child.is_current()
        }));
        assert!(parent.is_current(), "a fork changed the count of the parent");
    }

    /// As a daemon that closes all numbers does, which then opens its log.
    #[test]
    fn a_child_keeps_the_file_that_the_program_has_put_at_a_number() {
        use std::os::fd::{AsRawFd as _, OwnedFd};
        let mut own = OwnDescriptor::new(OwnedFd::from(tempfile::tempfile().unwrap()));
        let log = tempfile::tempfile().unwrap();
        rustix::io::dup2(&log, &mut own).unwrap();
        let number = own.as_raw_fd();
        assert!(is_true_in_child(|| sys::identity(number) == sys::identity(log.as_raw_fd())));
    }

    #[test]
    fn a_child_has_neither_the_descriptor_nor_the_mapping() {
        use std::io::{Read as _, Seek as _, Write as _};
        let mut file = OwnDescriptor::new(tempfile::tempfile().unwrap());
        file.write_all(&[7; 4096]).unwrap();
        let mapping = crate::shm::Mapping::new(&file, 4096).unwrap();
        let word = |mapping: &crate::shm::Mapping| {
            let mut word = [0];
            mapping.read_down(8, &mut word).unwrap();
            word[0]
        };
        assert_eq!(word(&mapping), 0x0707_0707_0707_0707);
        let inherited = (&mut *file, &mapping);
        assert!(is_true_in_child(|| {
            let (file, mapping) = inherited;
            mapping.write_up(8, &[1; 8]).unwrap();
            let is_private = word(mapping) == 0x0101_0101_0101_0101;
            file.rewind().unwrap();
            let bytes = file.read(&mut [0; 8]).unwrap();
            file.write_all(&[2; 8]).unwrap();
            is_private && bytes == 0
        }));
        assert_eq!(word(&mapping), 0x0707_0707_0707_0707, "a child changed the memory of its parent");
        assert_eq!(file.stream_position().unwrap(), 4096, "a child has used the file of its parent");
        drop((file, mapping));
        assert!(is_true_in_child(|| true), "released objects are no longer in the set");
    }

    #[test]
    fn a_future_of_the_parent_ends_in_the_child_and_is_not_dropped_there() {
        let held = Arc::new(());
        let inner = Arc::clone(&held);
        let never = async move {
            let ended = pending::<Done>().await;
            drop(inner);
            ended
        };
        let mut waiting = Box::pin(ForkCount::now().guard(never));
        assert_eq!(poll_once(waiting.as_mut()), Poll::Pending);
        assert!(is_true_in_child(|| {
            let ended = poll_once(waiting.as_mut()) == Poll::Ready(Err(FabricError::Forked));
            drop(waiting);
            ended && Arc::strong_count(&held) == 2
        }));
    }

    fn poll_once<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        block_on(poll_fn(|context| Poll::Ready(future.as_mut().poll(context))))
    }

    /// Without the second poll, the child would wait for ever for a thread that it does not have.
    #[test]
    fn an_executor_polls_futures_again_in_the_child() {
        assert!(is_true_in_child(|| {
            let waits = ForkCount::now().guard(pending::<Done>());
            let forks = async {
                // The other future waits already.
                yield_now().await;
                fork().map_or(Ok(()), |child| end_child(succeeded(child)))
            };
            let futures: Vec<Pin<Box<dyn Future<Output = Done>>>> = vec![Box::pin(waits), Box::pin(forks)];
            // Only the child of this child arrives here.
            run_all(futures) == [Err(FabricError::Forked), Ok(())]
        }));
    }
}
