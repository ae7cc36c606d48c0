//! The mappings and descriptors that a forked child gives up, before `fork` returns there.
//!
//! A copy of them would keep the parent's locks: the kernel releases a presence lock with the last mapping and
//! descriptor of its file, and reports the end of a connection with the last descriptor of its socket. So the handler
//! in the child maps private memory over each mapping, and puts an empty file at each descriptor. Addresses and numbers
//! of descriptors stay in use, so the handles that the child inherited can be dropped as usual.

use super::sys::{self, FileIdentity};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a forked child of this process gives up.
struct Inheritance {
    /// The lengths of mappings, by address.
    mappings: BTreeMap<usize, usize>,
    /// The open files and sockets, by the numbers of their descriptors.
    descriptors: BTreeMap<RawFd, FileIdentity>,
}

static INHERITANCE: Mutex<Inheritance> =
    Mutex::new(Inheritance { mappings: BTreeMap::new(), descriptors: BTreeMap::new() });

type Locked = MutexGuard<'static, Inheritance>;

thread_local! {
    /// The lock of [`INHERITANCE`], while this thread forks. It has no destructor, so it exists as long as its thread.
    static HELD: RefCell<ManuallyDrop<Option<Locked>>> = const { RefCell::new(ManuallyDrop::new(None)) };
}

fn lock() -> Locked {
    INHERITANCE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Before a fork: no other thread may be changing the set. The handler may be registered twice.
pub(super) fn lock_for_fork() {
    HELD.with_borrow_mut(|held| {
        if held.is_none() {
            **held = Some(lock());
        }
    });
}

/// After a fork, in the parent.
pub(super) fn unlock_in_parent() {
    drop(HELD.with_borrow_mut(|held| held.take()));
}

/// After a fork, in the child: gives everything up. It allocates nothing.
pub(super) fn give_up_in_child() {
    let Some(inherited) = HELD.with_borrow_mut(|held| held.take()) else { return };
    for (&address, &bytes) in &inherited.mappings {
        sys::replace_mapping(address, bytes);
    }
    // A program may have closed a number that it does not know, as daemons do, and opened another file at it.
    let own =
        inherited.descriptors.iter().filter(|&(&number, own)| sys::identity(number).as_ref() == Some(own));
    sys::replace_descriptors(own.map(|(&number, _)| number));
}

/// Runs `work` while no thread of this process can fork. It must be short, and must not map or open anything.
pub fn without_fork<T>(work: impl FnOnce() -> T) -> T {
    let _locked = lock();
    work()
}

/// A mapping of this process, which a forked child gives up. The owner unmaps it after this object is dropped.
#[derive(Debug)]
pub(crate) struct OwnMapping {
    address: usize,
    /// Whether the set has it: another mapping may get the address of one that a child does not have.
    is_listed: AtomicBool,
}

impl OwnMapping {
    pub(crate) fn new(address: usize, bytes: usize) -> Self {
        sys::count_forks();
        lock().mappings.insert(address, bytes);
        Self { address, is_listed: AtomicBool::new(true) }
    }

    /// A forked child has no copy of the mapping any longer.
    #[cfg(feature = "rdma")]
    pub(crate) fn exclude(&self) {
        self.leave();
    }

    fn leave(&self) {
        let mut inheritance = lock();
        if self.is_listed.swap(false, Ordering::Relaxed) {
            inheritance.mappings.remove(&self.address);
        }
    }
}

impl Drop for OwnMapping {
    fn drop(&mut self) {
        self.leave();
    }
}

/// An open file or socket of this process, which a forked child gives up.
#[derive(Debug)]
pub(crate) struct OwnDescriptor<T: AsFd> {
    // Dropped, and so closed, after its number has left the set.
    open: T,
}

impl<T: AsFd> OwnDescriptor<T> {
    pub(crate) fn new(open: T) -> Self {
        sys::count_forks();
        let number = open.as_fd().as_raw_fd();
        if let Some(identity) = sys::identity(number) {
            lock().descriptors.insert(number, identity);
        }
        Self { open }
    }
}

impl<T: AsFd> Drop for OwnDescriptor<T> {
    fn drop(&mut self) {
        lock().descriptors.remove(&self.open.as_fd().as_raw_fd());
    }
}

impl<T: AsFd> Deref for OwnDescriptor<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.open
    }
}

impl<T: AsFd> DerefMut for OwnDescriptor<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.open
    }
}

impl<T: AsFd> AsFd for OwnDescriptor<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.open.as_fd()
    }
}
