//! The changes of the writers.

use farwood_testkit::harness::TestRng;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(super) const WRITERS: usize = 3;
/// Keys of each writer.
const KEYS: u64 = 96;

/// A change of a key: the key, and its value after the change, which is the number of the change. Without a value the
/// key is removed.
pub(super) type KeyChange = (u64, Option<u64>);

/// The changes of all writers.
#[derive(Debug, Default)]
pub(super) struct History {
    writers: [WriterHistory; WRITERS],
    /// Held for writing while the clients pause, so that the restarts have the processors.
    pause: RwLock<()>,
}

#[derive(Debug, Default)]
struct WriterHistory {
    changes: Mutex<Vec<KeyChange>>,
    /// Changes that were answered.
    answered: AtomicUsize,
    /// The last change that a reader has seen.
    seen: AtomicUsize,
}

/// A key; keys of different writers are neighbours, and share prefixes.
pub(super) fn key(writer: usize, number: u64) -> [u8; 8] {
    let spread = [1, 1 << 8, 1 << 24, 1 << 40][number as usize % 4];
    (number * spread * WRITERS as u64 + writer as u64).to_be_bytes()
}

/// The numbers of a writer's keys.
pub(super) fn numbers() -> impl Iterator<Item = u64> {
    0..KEYS
}

pub(super) fn keys() -> impl Iterator<Item = (usize, u64)> {
    (0..WRITERS).flat_map(|writer| numbers().map(move |number| (writer, number)))
}

pub(super) fn draw_key(random: &mut TestRng) -> (usize, u64) {
    (random.below(WRITERS as u64) as usize, random.below(KEYS))
}

impl History {
    /// Lets the clients wait before their next operation until the guard is dropped.
    pub(super) fn pause(&self) -> RwLockWriteGuard<'_, ()> {
        self.pause.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of a pause; the next one waits for the end of the operation.
    pub(super) fn operate(&self) -> RwLockReadGuard<'_, ()> {
        self.pause.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws the next change of a writer, and records that it begins: a key, and its value afterwards, if it has one.
    pub(super) fn begin(&self, writer: usize, random: &mut TestRng) -> KeyChange {
        let mut changes = self.writers[writer].changes.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, number) = (random.below(KEYS), changes.len() as u64 + 1);
        let change = (key, (!random.once_in(3)).then_some(number));
        changes.push(change);
        change
    }

    /// Records the answer of the last change of a writer.
    pub(super) fn end(&self, writer: usize) {
        self.writers[writer].answered.fetch_add(1, Ordering::SeqCst);
    }

    /// Records a value that a reader has got.
    pub(super) fn has_seen(&self, writer: usize, value: u64) {
        self.writers[writer].seen.fetch_max(value as usize, Ordering::SeqCst);
    }

    pub(super) fn answered(&self) -> [usize; WRITERS] {
        self.writers.each_ref().map(|writer| writer.answered.load(Ordering::SeqCst))
    }

    /// The number of changes of each writer of which somebody has had an answer.
    pub(super) fn known(&self) -> [usize; WRITERS] {
        self.writers
            .each_ref()
            .map(|writer| writer.answered.load(Ordering::SeqCst).max(writer.seen.load(Ordering::SeqCst)))
    }

    /// The number of changes of each writer that have begun.
    pub(super) fn begun(&self) -> [usize; WRITERS] {
        self.writers
            .each_ref()
            .map(|writer| writer.changes.lock().unwrap_or_else(PoisonError::into_inner).len())
    }

    /// The number of changes after which a writer's keys are as they were found.
    ///
    /// # Errors
    /// There is none among `numbers`.
    pub(super) fn explain(
        &self,
        writer: usize,
        found: &[Option<u64>],
        numbers: RangeInclusive<usize>,
    ) -> Result<usize, String> {
        let changes = self.writers[writer].changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = vec![None; found.len()];
        let mut differences = found.iter().filter(|value| value.is_some()).count();
        let mut explained = None;
        for number in 0..=*numbers.end() {
            if number > 0 {
                let (key, value) = changes[number - 1];
                let key = key as usize;
                differences -= usize::from(state[key] != found[key]);
                state[key] = value;
                differences += usize::from(state[key] != found[key]);
            }
            if differences == 0 && numbers.contains(&number) {
                explained = Some(number);
            }
        }
        explained.ok_or_else(|| {
            let last = found.iter().flatten().max();
            format!(
                "the keys of writer {writer} are in no state after {numbers:?} changes; the last change among them is \
                 {last:?}: {found:?}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_explained_by_a_number_of_changes() {
        let history = History::default();
        *history.writers[0].changes.lock().unwrap() =
            vec![(0, Some(1)), (1, Some(2)), (0, None), (1, Some(4))];
        assert_eq!(history.explain(0, &[None, Some(2)], 0..=4), Ok(3));
        assert_eq!(history.explain(0, &[None, None], 0..=4), Ok(0));
        assert!(history.explain(0, &[None, None], 1..=4).is_err(), "all changes are lost");
        assert!(history.explain(0, &[None, Some(2)], 4..=4).is_err(), "the last one is lost");
        assert!(history.explain(0, &[Some(1), Some(4)], 0..=4).is_err(), "the third one is missing");
    }
}
