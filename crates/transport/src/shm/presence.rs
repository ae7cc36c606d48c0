//! Presence: the kernel, and not a clock, proves which clients' processes are alive.
//!
//! Another client may take a client's locks over only when that client can never store again. A lease cannot
//! distinguish a crashed process from a slow one, and a process id means nothing in another PID namespace (containers
//! that share `/dev/shm`). So the owner of client slot `i` holds a write lock on byte `2^62 + i` of the file of its
//! pool's memory node 0, far after its end: those bytes serve only as names of locks.
//!
//! # Why a released lock proves that the process cannot store
//!
//! It is an *open file description* lock (`F_OFD_SETLK`). The kernel releases it with the last reference to the
//! description. The segment is mapped through the same description, so each mapping is a reference, as each descriptor
//! is. So as long as a process can store through this attachment, the lock is held:
//!
//! - *A process that ends*, for any reason: its threads stop first, each releases its share of the address
//!   space, and only the last release unmaps the segment and the description.
//! - *A process that is stopped*, swapped out or merely slow keeps its mapping, and counts as alive.
//! - *A forked child* gives mappings and descriptors up before it returns from `fork` ([`fork`](crate::fork)). A child
//!   that was created without the handlers of forks (`_Fork`, `clone`) has a copy of the mapping: the slot counts as
//!   alive, which is safe. `exec` replaces the mapping, and descriptors are close-on-exec.
//! - *A program that closes unknown descriptors* (as daemons do) keeps its mapping, and its lock.
//!
//! A lock on a separate file would depend on descriptors only, and would need a proof that it belongs to the same
//! incarnation of the pool. When a pool is removed and created again under its name, the new one is another file with
//! other locks.
//!
//! An anonymous pool has one attachment: its own slots are held, and no other slot is.
//!
//! The locks say nothing about the memory nodes 1, 2…: a process that leaves a pool unmaps node 0 last.

use super::error::ShmError;
use super::segment::Segment;
use super::sys;
use farwood_fabric::client_table::CLIENTS_MAX;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The offset of the lock bytes of client slots: after all data, and far below the largest offset.
const SLOTS_AT: i64 = 1 << 62;

/// The client slots of one attachment, and checks of the slots of others. All methods may be called from any thread.
///
/// Slots are released by [`Presence::release`], and at the end of the attachment; dropping this object alone does not
/// release them, because the process can still store.
#[derive(Debug)]
pub struct Presence {
    segment: Arc<Segment>,
    /// The slots of this attachment: locks do not exclude threads that share a file description.
    held: Mutex<BTreeSet<u32>>,
}

impl Presence {
    /// The presence of the clients of a pool, on its memory node 0. One per attachment.
    pub fn new(segment: Arc<Segment>) -> Self {
        debug_assert_eq!(segment.node(), 0);
        Self { segment, held: Mutex::default() }
    }

    /// Claims a client slot. False: a live process has it (also this one). True: it had no owner, or its owner can
    /// never store again, so exactly one process completes the writes of that owner.
    pub fn claim(&self, slot: u32) -> Result<bool, ShmError> {
        let mut held = self.held();
        if held.contains(&slot) {
            return Ok(false);
        }
        let claimed = sys::lock_byte(self.segment.file(), byte_of(slot)).map_err(self.on("lock"))?;
        if claimed {
            held.insert(slot);
        }
        Ok(claimed)
    }

    /// Releases a client slot. The caller has stopped using it: from now on others may take over its locks.
    pub fn release(&self, slot: u32) -> Result<(), ShmError> {
        let mut held = self.held();
        if held.contains(&slot) {
            sys::unlock_byte(self.segment.file(), byte_of(slot)).map_err(self.on("unlock"))?;
            held.remove(&slot);
        }
        Ok(())
    }

    /// Returns whether no process holds the slot, including this one: its last owner has released it, or can
    /// never store again. Also true of an unclaimed slot, so claim first and announce the slot afterwards.
    pub fn is_gone(&self, slot: u32) -> Result<bool, ShmError> {
        let Some(probe) = self.segment.probe() else {
            // No other process can hold a slot of a segment without a name.
            return Ok(!self.held().contains(&slot));
        };
        let locked = sys::is_byte_locked(probe, byte_of(slot)).map_err(self.on("probe"))?;
        Ok(!locked)
    }

    /// Returns whether no process holds any slot, including this one.
    pub(super) fn is_unused(&self) -> Result<bool, ShmError> {
        let Some(probe) = self.segment.probe() else { return Ok(self.held().is_empty()) };
        let locked =
            sys::are_bytes_locked(probe, SLOTS_AT..byte_of(CLIENTS_MAX as u32)).map_err(self.on("probe"))?;
        Ok(!locked)
    }

    /// Locks the set of held slots, which stays usable if a thread panics: an entry is added only after its lock was
    /// taken.
    fn held(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on(&self, operation: &'static str) -> impl FnOnce(std::io::Error) -> ShmError {
        ShmError::on(operation, self.segment.path())
    }
}

fn byte_of(slot: u32) -> i64 {
    SLOTS_AT + i64::from(slot)
}

#[cfg(test)]
mod tests {
    use super::super::segment::{SegmentDir, SegmentSpec};
    use super::super::testing::{Process, Scratch, as_child_in, eventually};
    use super::*;
    use std::fs::File;
    use std::path::PathBuf;
    use std::time::Duration;

    fn spec() -> SegmentSpec {
        SegmentSpec::new("demo".parse().unwrap(), 0, 4096)
    }

    fn create(scratch: &Scratch) -> Presence {
        let segment = scratch.dir().create::<ShmError>(&spec(), |_| Ok(())).unwrap();
        Presence::new(Arc::new(segment))
    }

    fn attach(dir: &SegmentDir) -> Presence {
        Presence::new(Arc::new(dir.open(&spec().name, 0, 0).unwrap()))
    }

    #[test]
    fn a_slot_has_one_owner() {
        let scratch = Scratch::new();
        let (a, b) = (create(&scratch), attach(&scratch.dir()));
        assert!(a.is_gone(3).unwrap());
        assert!(a.claim(3).unwrap());
        assert!(!a.claim(3).unwrap(), "claimed twice by the same attachment");
        assert!(!b.claim(3).unwrap(), "claimed twice");
        assert!(!a.is_gone(3).unwrap(), "reports its own slot as held");
        assert!(!b.is_gone(3).unwrap());
        assert!(b.claim(4).unwrap() && !a.is_gone(4).unwrap());
        b.release(3).unwrap();
        assert!(!b.is_gone(3).unwrap(), "released by a process that did not hold it");
        a.release(3).unwrap();
        assert!(a.is_gone(3).unwrap() && b.is_gone(3).unwrap());
        assert!(b.claim(3).unwrap());
    }

    #[test]
    fn slots_are_independent_up_to_the_last() {
        let scratch = Scratch::new();
        let (a, b) = (create(&scratch), attach(&scratch.dir()));
        for slot in [0, 1, u32::MAX] {
            assert!(a.claim(slot).unwrap());
            assert!(!b.is_gone(slot).unwrap());
        }
        assert!(b.is_gone(2).unwrap() && b.is_gone(u32::MAX - 1).unwrap());
    }

    #[test]
    fn an_attachment_that_ends_releases_its_slots() {
        let scratch = Scratch::new();
        let (a, b) = (create(&scratch), attach(&scratch.dir()));
        assert!(a.claim(1).unwrap());
        let segment = Arc::clone(&a.segment);
        drop(a);
        assert!(!b.is_gone(1).unwrap(), "the segment is still mapped");
        drop(segment);
        // Not at once: a test that starts a process in the meantime gives it copies of all descriptors until
        // exec.
        eventually("the slot is released", || b.is_gone(1).unwrap());
    }

    #[test]
    fn the_lock_lasts_as_long_as_the_mapping() {
        let scratch = Scratch::new();
        let file = scratch.file("any", 4096);
        let probe = File::open(scratch.path().join("any")).unwrap();
        let mapping = sys::Mapping::new(&file, 4096).unwrap();
        assert!(sys::lock_byte(&file, byte_of(1)).unwrap());
        drop(file);
        assert!(sys::is_byte_locked(&probe, byte_of(1)).unwrap(), "dropped while still able to store");
        drop(mapping);
        eventually("the lock is released", || !sys::is_byte_locked(&probe, byte_of(1)).unwrap());
    }

    #[test]
    fn a_new_pool_of_the_same_name_has_its_own_slots() {
        let scratch = Scratch::new();
        let old = create(&scratch);
        assert!(old.claim(1).unwrap());
        scratch.dir().remove(&spec().name).unwrap();
        let new = create(&scratch);
        assert!(new.is_gone(1).unwrap() && !old.is_gone(1).unwrap());
    }

    #[test]
    fn one_of_many_threads_claims_a_slot() {
        let scratch = Scratch::new();
        let presence = create(&scratch);
        let claims = || (0..200).filter(|slot| presence.claim(*slot).unwrap()).count();
        let total: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(claims)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(total, 200);
    }

    /// The work of the child processes of the tests below: claim slot 5, and wait for the kill.
    fn hold_slot_5(directory: PathBuf) {
        let presence = attach(&SegmentDir::at(directory));
        assert!(presence.claim(5).unwrap());
        std::thread::sleep(Duration::from_mins(1));
    }

    fn child_with_slot_5(scratch: &Scratch, presence: &Presence) -> Process {
        let child = Process::run("shm::presence::tests::a_killed_process_is_gone", scratch.path());
        eventually("the child claims slot 5", || !presence.is_gone(5).unwrap());
        child
    }

    #[test]
    fn a_killed_process_is_gone() {
        if let Some(directory) = as_child_in() {
            return hold_slot_5(directory);
        }
        let scratch = Scratch::new();
        let presence = create(&scratch);
        let mut child = child_with_slot_5(&scratch, &presence);
        assert!(!presence.claim(5).unwrap());
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        assert!(presence.is_gone(5).unwrap(), "a process that has been waited for still holds its lock");
        assert!(presence.claim(5).unwrap());
    }

    #[test]
    fn a_stopped_process_is_alive() {
        let scratch = Scratch::new();
        let presence = create(&scratch);
        let child = child_with_slot_5(&scratch, &presence);
        child.signal("STOP");
        eventually("the child stops", || child.state() == 'T');
        assert!(!presence.is_gone(5).unwrap());
        assert!(!presence.claim(5).unwrap());
        child.signal("CONT");
        assert!(!presence.is_gone(5).unwrap());
    }

    #[test]
    fn a_process_killed_while_stopped_is_gone() {
        let scratch = Scratch::new();
        let presence = create(&scratch);
        let mut child = child_with_slot_5(&scratch, &presence);
        child.signal("STOP");
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        assert!(presence.is_gone(5).unwrap());
    }
}
