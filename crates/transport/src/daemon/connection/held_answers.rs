//! The answers of a connection that wait until the log is on the disk.

use crate::daemon::log::LogWaits;
use std::collections::VecDeque;

/// The request that an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerKind {
    /// Verbs.
    Verbs,
    /// Anything else, also the last frame of a connection: it changes what later requests may do, so later answers
    /// do not overtake it.
    Control,
}

#[derive(Debug)]
struct Held {
    /// The length of the answer, words.
    words: usize,
    waits: LogWaits,
    kind: AnswerKind,
}

/// Answers that wait. They leave in their order; other answers overtake them, unless one of a control waits.
#[derive(Debug, Default)]
pub(super) struct HeldAnswers {
    words: VecDeque<u64>,
    answers: VecDeque<Held>,
    controls: usize,
    /// The last record for which one of them waits, or has waited since there was none.
    durable: u64,
    /// Answers since the last [`take_count`](Self::take_count).
    count: u64,
}

impl HeldAnswers {
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// The length of all answers, words.
    pub(super) fn words(&self) -> usize {
        self.words.len()
    }

    /// The record that the disk must have before all of them may leave; 0: none waits for the disk. An answer may wait
    /// for an earlier record than one before it.
    pub(super) fn last_durable(&self) -> u64 {
        if self.is_empty() { 0 } else { self.durable }
    }

    /// Takes the number of answers that had to wait.
    pub(super) fn take_count(&mut self) -> u64 {
        std::mem::take(&mut self.count)
    }

    /// Whether no answer may overtake those that wait.
    pub(super) fn has_control(&self) -> bool {
        self.controls > 0
    }

    /// Takes the answer from word `start` of `out` on.
    pub(super) fn push(&mut self, out: &mut Vec<u64>, start: usize, waits: LogWaits, kind: AnswerKind) {
        let words = out.len() - start;
        self.durable = waits.durable.max(self.last_durable());
        self.count += 1;
        self.words.extend(out.drain(start..));
        self.controls += usize::from(kind == AnswerKind::Control);
        self.answers.push_back(Held { words, waits, kind });
    }

    /// Moves the first answer to `out`, if the record that it waits for is durable; returns the record that the kernel
    /// must have before it leaves.
    pub(super) fn pop(&mut self, out: &mut Vec<u64>, is_durable: impl FnOnce(u64) -> bool) -> Option<u64> {
        if !is_durable(self.answers.front()?.waits.durable) {
            return None;
        }
        let first = self.answers.pop_front()?;
        out.extend(self.words.drain(..first.words));
        self.controls -= usize::from(first.kind == AnswerKind::Control);
        Some(first.waits.written)
    }

    /// Frees the memory of answers that have left, if it is more than `bytes`.
    pub(super) fn shrink(&mut self, bytes: usize) {
        if self.is_empty() && 8 * self.words.capacity() > bytes {
            self.words = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: LogWaits = LogWaits { durable: 7, written: 3 };

    #[test]
    fn answers_leave_in_their_order_when_their_records_are_durable() {
        let (mut held, mut out) = (HeldAnswers::default(), vec![0, 1, 2]);
        held.push(&mut out, 1, WAITS, AnswerKind::Verbs);
        assert_eq!((out.as_slice(), held.words()), (&[0][..], 2));
        out.push(3);
        held.push(&mut out, 1, LogWaits::default(), AnswerKind::Verbs);
        assert_eq!(held.pop(&mut out, |record| record < 7), None, "the first one waits");
        assert_eq!(held.pop(&mut out, |record| record <= 7), Some(3));
        assert_eq!(held.pop(&mut out, |record| record <= 7), Some(0));
        assert_eq!((out.as_slice(), held.is_empty()), (&[0, 1, 2, 3][..], true));
    }

    #[test]
    fn all_may_leave_after_the_last_record_of_any() {
        let (mut held, mut out) = (HeldAnswers::default(), vec![0, 1]);
        held.push(&mut out, 1, LogWaits { durable: 9, written: 0 }, AnswerKind::Verbs);
        held.push(&mut out, 0, WAITS, AnswerKind::Verbs);
        assert_eq!((held.last_durable(), held.take_count(), held.take_count()), (9, 2, 0));
        held.pop(&mut out, |_| true);
        held.pop(&mut out, |_| true);
        assert_eq!(held.last_durable(), 0);
        held.push(&mut out, 0, WAITS, AnswerKind::Verbs);
        assert_eq!(held.last_durable(), 7);
    }

    #[test]
    fn no_answer_overtakes_that_of_a_control() {
        let (mut held, mut out) = (HeldAnswers::default(), vec![0]);
        assert!(!held.has_control());
        held.push(&mut out, 0, WAITS, AnswerKind::Control);
        assert!(held.has_control());
        held.pop(&mut out, |_| true);
        assert!(!held.has_control());
    }
}
