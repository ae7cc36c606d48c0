//! The remaining part of a scan: its bounds, its limit, and the children of a node that overlap with it.

use crate::memory::overflow::Link;
use crate::radix::inner::{NodeSize, slot_of_all};
use crate::radix::key::{Step, step_at};
use crate::radix::leaf::{Leaf, LeafValue};
use crate::range::Direction;
use std::ops::Deref;

/// A scan in progress.
pub(super) struct ScanCursor<'s> {
    pub(super) direction: Direction,
    /// First key of the remaining range, inclusive.
    pub(super) from: Option<Vec<u8>>,
    /// End of the remaining range, exclusive.
    pub(super) to: Option<Vec<u8>>,
    /// Number of entries that the scan may still yield.
    pub(super) left: usize,
    /// Whether the scan yields values, so that overflow values are read.
    pub(super) values: Values,
    pub(super) sink: &'s mut dyn FnMut(&[u8], &[u8]),
}

/// Whether a scan yields values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    Read,
    Skip,
}

/// Keys with a common prefix that are in the remaining range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    None,
    Partial,
    Full,
}

impl ScanCursor<'_> {
    /// The first slot of a node in the order of the scan.
    pub(super) fn first_slot(&self, size: NodeSize) -> u16 {
        match self.direction {
            Direction::Forward => 0,
            Direction::Backward => size.slots() as u16,
        }
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_none_or(|from| key >= from) && self.to.as_deref().is_none_or(|to| key < to)
    }

    /// Returns which keys with this prefix are in the remaining range.
    pub(super) fn overlap(&self, prefix: &[u8]) -> Overlap {
        let from = self.from.as_deref().filter(|from| prefix < *from);
        let to = self.to.as_deref().filter(|to| prefix >= *to || to.starts_with(prefix));
        let outside = from.is_some_and(|from| !from.starts_with(prefix)) || to.is_some_and(|to| prefix >= to);
        match (from, to) {
            _ if outside => Overlap::None,
            (None, None) => Overlap::Full,
            _ => Overlap::Partial,
        }
    }

    /// The next steps after `prefix` of those bounds that have this prefix.
    fn bound_steps(&self, prefix: &[u8]) -> [Option<Step>; 2] {
        let step = |bound: &Option<Vec<u8>>| {
            let bound = bound.as_deref().filter(|bound| bound.starts_with(prefix))?;
            Some(step_at(bound, prefix.len()))
        };
        [step(&self.from), step(&self.to)]
    }

    /// The bound at which the scan continues.
    pub(super) fn next(&self) -> Option<&[u8]> {
        match self.direction {
            Direction::Forward => self.from.as_deref(),
            Direction::Backward => self.to.as_deref(),
        }
    }

    /// Continues after all keys with `prefix`. `false`: the scan is complete.
    pub(super) fn skip_prefix(&mut self, prefix: &[u8]) -> bool {
        let (bound, next) = match self.direction {
            Direction::Forward => (&mut self.from, prefix_end(prefix)),
            Direction::Backward => (&mut self.to, (!prefix.is_empty()).then(|| prefix.to_vec())),
        };
        let Some(next) = next else { return false };
        let is_ahead = |bound: &Vec<u8>| match self.direction {
            Direction::Forward => next >= *bound,
            Direction::Backward => next <= *bound,
        };
        debug_assert!(bound.as_ref().is_none_or(is_ahead), "a scan does not move back");
        *bound = Some(next);
        !self.is_done()
    }

    /// Whether the scan is complete: the limit is reached, or no key is between the bounds.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0 || self.from.as_deref().zip(self.to.as_deref()).is_some_and(|(from, to)| from >= to)
    }

    /// Yields the entry of a leaf if it is in the remaining range; `overlap` is that of its slot. Returns the link if
    /// the value must be read first.
    #[inline]
    pub(super) fn visit<B: Deref<Target = [u8]>>(
        &mut self,
        leaf: &Leaf<B>,
        overlap: Overlap,
    ) -> Option<Link> {
        if self.left == 0 || overlap == Overlap::Partial && !self.contains(leaf.key()) {
            return None;
        }
        debug_assert!(self.contains(leaf.key()), "the slot is within the range");
        match leaf.value() {
            LeafValue::Inline(value) => self.emit(leaf.key(), value),
            LeafValue::Overflow(_) if self.values == Values::Skip => self.emit(leaf.key(), &[]),
            LeafValue::Overflow(link) => return Some(link),
        }
        None
    }

    /// Yields an entry, and continues after it.
    pub(super) fn emit(&mut self, key: &[u8], value: &[u8]) {
        (self.sink)(key, value);
        self.left -= 1;
        let bound = match self.direction {
            Direction::Forward => &mut self.from,
            Direction::Backward => &mut self.to,
        };
        let bound = bound.get_or_insert_default();
        bound.clear();
        bound.extend_from_slice(key);
        if self.direction == Direction::Forward {
            bound.push(0);
        }
    }
}

/// The first key after all keys with `prefix`; `None` if there is none.
pub(super) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The bounds of a scan within one node.
pub(super) struct ScanBounds {
    /// The next steps of those bounds that lead below the node.
    steps: [Option<Step>; 2],
    /// The prefix of the node, if some keys below it may be outside of the range.
    prefix: Option<Vec<u8>>,
}

impl ScanBounds {
    pub(super) fn of(partial_prefix: Option<&[u8]>, cursor: &ScanCursor<'_>) -> Self {
        let steps = partial_prefix.map_or([None; 2], |prefix| cursor.bound_steps(prefix));
        Self { steps, prefix: partial_prefix.map(<[u8]>::to_vec) }
    }

    /// The first slot, in the order of the scan, that may be in the range, of a node with a slot for every byte.
    pub(super) fn first_of_all(&self, direction: Direction) -> u16 {
        let [low, high] = self.steps;
        let slot = match direction {
            Direction::Forward => low.map_or(0, slot_of_all),
            Direction::Backward => high.map_or(NodeSize::All.slots(), slot_of_all),
        };
        slot as u16
    }

    /// Returns which keys with this step are in the range.
    #[inline]
    pub(super) fn overlap(&mut self, step: Step, cursor: &ScanCursor<'_>) -> Overlap {
        let [low, high] = self.steps;
        if low.is_some_and(|low| step < low) || high.is_some_and(|high| step > high) {
            return Overlap::None;
        }
        let Some(prefix) = &mut self.prefix else { return Overlap::Full };
        match step {
            Step::End if cursor.contains(prefix) => Overlap::Full,
            Step::End => Overlap::None,
            Step::Byte(byte) if low == Some(step) || high == Some(step) => {
                prefix.push(byte);
                let overlap = cursor.overlap(prefix);
                prefix.pop();
                overlap
            }
            Step::Byte(_) => Overlap::Full,
        }
    }
}
