//! What is left of a scan: between which keys, how many, and which children of a node may have some of them.

use crate::memory::overflow::Link;
use crate::radix::inner::{Size, slot_of_all};
use crate::radix::key::{Step, step_at};
use crate::radix::leaf::{Content, Leaf};
use crate::range::Direction;
use std::ops::Deref;

/// A scan under way.
pub(crate) struct Course<'s> {
    pub(crate) direction: Direction,
    /// The first key of what is left, itself in it.
    pub(crate) from: Option<Vec<u8>>,
    /// The key behind what is left.
    pub(crate) to: Option<Vec<u8>>,
    /// Entries still wanted.
    pub(crate) left: usize,
    /// Whether values are wanted, so that those out of line are fetched.
    pub(crate) values: bool,
    pub(crate) sink: &'s mut dyn FnMut(&[u8], &[u8]),
}

impl Course<'_> {
    /// The slot of a node at which it begins.
    pub(crate) fn first_slot(&self, size: Size) -> u16 {
        match self.direction {
            Direction::Forward => 0,
            Direction::Backward => size.slots() as u16,
        }
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_none_or(|from| key >= from) && self.to.as_deref().is_none_or(|to| key < to)
    }

    /// Whether the keys that begin with `path` are wanted.
    pub(crate) fn wants(&self, path: &[u8]) -> Wanted {
        let from = self.from.as_deref().filter(|from| path < *from);
        let to = self.to.as_deref().filter(|to| path >= *to || to.starts_with(path));
        let outside = from.is_some_and(|from| !from.starts_with(path)) || to.is_some_and(|to| path >= to);
        match (from, to) {
            _ if outside => Wanted::None,
            (None, None) => Wanted::All,
            _ => Wanted::Some,
        }
    }

    /// How keys go on behind `prefix` at the two ends of what is left, where these begin so.
    fn steps(&self, prefix: &[u8]) -> [Option<Step>; 2] {
        let step = |end: &Option<Vec<u8>>| {
            let end = end.as_deref().filter(|end| end.starts_with(prefix))?;
            Some(step_at(end, prefix.len()))
        };
        [step(&self.from), step(&self.to)]
    }

    /// The end at which the scan goes on.
    pub(crate) fn next(&self) -> Option<&[u8]> {
        match self.direction {
            Direction::Forward => self.from.as_deref(),
            Direction::Backward => self.to.as_deref(),
        }
    }

    /// What begins with `prefix` is found: the scan goes on behind it. `false`: nothing is left.
    pub(crate) fn leave(&mut self, prefix: &[u8]) -> bool {
        let (end, next) = match self.direction {
            Direction::Forward => (&mut self.from, behind(prefix)),
            Direction::Backward => (&mut self.to, (!prefix.is_empty()).then(|| prefix.to_vec())),
        };
        let Some(next) = next else { return false };
        let ahead = |end: &Vec<u8>| match self.direction {
            Direction::Forward => next >= *end,
            Direction::Backward => next <= *end,
        };
        debug_assert!(end.as_ref().is_none_or(ahead), "a scan does not go back");
        *end = Some(next);
        !self.is_over()
    }

    /// Whether nothing is left: no entries are wanted, or there is no key between the ends.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0 || self.from.as_deref().zip(self.to.as_deref()).is_some_and(|(from, to)| from >= to)
    }

    /// Takes an entry if it is wanted, as it is for sure where it is at no edge. Yields where its value is that has to
    /// be fetched first.
    #[inline]
    pub(crate) fn take<B: Deref<Target = [u8]>>(&mut self, leaf: &Leaf<B>, edge: bool) -> Option<Link> {
        if self.left == 0 || edge && !self.contains(leaf.key()) {
            return None;
        }
        debug_assert!(self.contains(leaf.key()), "it is within the range");
        match leaf.content() {
            Content::Here(value) => self.found(leaf.key(), value),
            Content::Far(_) if !self.values => self.found(leaf.key(), &[]),
            Content::Far(link) => return Some(link),
        }
        None
    }

    /// Hands over an entry, and goes on behind it.
    pub(crate) fn found(&mut self, key: &[u8], value: &[u8]) {
        (self.sink)(key, value);
        self.left -= 1;
        let end = match self.direction {
            Direction::Forward => &mut self.from,
            Direction::Backward => &mut self.to,
        };
        let end = end.get_or_insert_default();
        end.clear();
        end.extend_from_slice(key);
        if self.direction == Direction::Forward {
            end.push(0);
        }
    }
}

/// Which keys of some that begin alike are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    None,
    Some,
    All,
}

/// The first key behind all that begin with `prefix`; `None`: there is none.
pub(crate) fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

/// What is known of a node's children before a scan looks at them.
pub(crate) struct Edges {
    /// The steps at the two ends of what is left, where these lead below the node.
    ends: [Option<Step>; 2],
    /// What all keys below the node begin with, where some of them may not be wanted.
    path: Option<Vec<u8>>,
}

impl Edges {
    pub(crate) fn of(edge: Option<&[u8]>, course: &Course<'_>) -> Self {
        let ends = edge.map_or([None; 2], |prefix| course.steps(prefix));
        Self { ends, path: edge.map(<[u8]>::to_vec) }
    }

    /// The first slot that may be wanted of a node with a slot for every byte.
    pub(crate) fn first_of_all(&self, direction: Direction) -> u16 {
        let [low, high] = self.ends;
        let slot = match direction {
            Direction::Forward => low.map_or(0, slot_of_all),
            Direction::Backward => high.map_or(Size::All.slots(), slot_of_all),
        };
        slot as u16
    }

    /// Which keys are wanted that go on with that step.
    #[inline]
    pub(crate) fn wanted(&mut self, step: Step, course: &Course<'_>) -> Wanted {
        let [low, high] = self.ends;
        if low.is_some_and(|low| step < low) || high.is_some_and(|high| step > high) {
            return Wanted::None;
        }
        let Some(path) = &mut self.path else { return Wanted::All };
        match step {
            Step::End if course.contains(path) => Wanted::All,
            Step::End => Wanted::None,
            Step::Byte(byte) if low == Some(step) || high == Some(step) => {
                path.push(byte);
                let wanted = course.wants(path);
                path.pop();
                wanted
            }
            Step::Byte(_) => Wanted::All,
        }
    }
}
