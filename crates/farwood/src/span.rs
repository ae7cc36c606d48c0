//! The remaining range of a scan.

use crate::codec::{Key, KeyRange};
use crate::error::{Error, Result};
use crate::tree::Tree;
use crate::width::Width;
use farwood_index::sherman::{Direction, Range};
use std::ops::Bound;

/// The remaining range of a scan: keys at or above `from` and below `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    /// The range is empty because it begins after the largest possible key.
    void: bool,
    /// The permitted length of keys.
    keys: Width,
}

impl Span {
    /// All keys.
    pub(crate) fn all(keys: Width) -> Self {
        Self { from: None, to: None, void: false, keys }
    }

    pub(crate) fn new<K: Key, R: KeyRange<K>>(tree: &Tree, range: &R) -> Result<Self> {
        let bytes = |key: &R::End| Ok::<_, Error>(tree.key::<K, _>("scan", key)?.as_ref().to_vec());
        let [start, end] = range.bounds();
        let mut span = Self::all(tree.key_width());
        match start {
            Bound::Unbounded => {}
            Bound::Included(key) => span.from = Some(bytes(key)?),
            Bound::Excluded(key) => span.begin_after(bytes(key)?),
        }
        match end {
            Bound::Unbounded => {}
            Bound::Excluded(key) => span.to = Some(bytes(key)?),
            // The largest possible key has no successor: the range is then unbounded.
            Bound::Included(key) => span.to = successor(bytes(key)?, span.keys),
        }
        Ok(span)
    }

    /// The keys that begin with `prefix`.
    pub(crate) fn of_prefix(keys: Width, prefix: &[u8]) -> Self {
        let void = prefix.len() > keys.most();
        let bound = |mut bytes: Vec<u8>| {
            if let Width::Exactly(length) = keys {
                bytes.resize(length, 0);
            }
            bytes
        };
        let from = (!void).then(|| bound(prefix.to_vec()));
        let to = raised(prefix.to_vec()).filter(|_| !void).map(bound);
        Self { from, to, void, keys }
    }

    pub(crate) fn range(&self) -> Range<'_> {
        Range { from: self.from.as_deref(), to: self.to.as_deref() }
    }

    pub(crate) fn is_void(&self) -> bool {
        self.void
    }

    fn begin_after(&mut self, key: Vec<u8>) {
        self.from = successor(key, self.keys);
        self.void = self.from.is_none();
    }

    /// Removes all keys up to `last` from the range, in the scan's direction; `last` need not be in the range.
    pub(crate) fn narrow(&mut self, last: &[u8], direction: Direction) {
        match direction {
            Direction::Forward => match successor(last.to_vec(), self.keys) {
                None => self.void = true,
                next => self.from = self.from.take().max(next),
            },
            Direction::Backward => {
                if self.to.as_deref().is_none_or(|to| last < to) {
                    self.to = Some(last.to_vec());
                }
            }
        }
        if let (Some(from), Some(to)) = (&self.from, &self.to) {
            self.void |= from >= to;
        }
    }

    /// Removes all keys up to `last`, the last one that was read, from the range, in the scan's direction.
    pub(crate) fn pass(&mut self, last: &[u8], direction: Direction) {
        match direction {
            Direction::Forward => self.begin_after(last.to_vec()),
            Direction::Backward => self.to = Some(last.to_vec()),
        }
    }
}

/// The smallest key above `key`.
fn successor(mut key: Vec<u8>, keys: Width) -> Option<Vec<u8>> {
    match keys {
        Width::UpTo(most) if key.len() < most => {
            key.push(0);
            Some(key)
        }
        // A key of maximum length has no extension.
        Width::UpTo(_) => raised(key),
        Width::Exactly(_) => farwood_index::successor(key),
    }
}

/// The smallest string that is greater than all strings with this prefix; `None`: there is none.
fn raised(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while bytes.last() == Some(&u8::MAX) {
        bytes.pop();
    }
    *bytes.last_mut()? += 1;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_after_a_key() {
        let exactly = |key: &[u8]| successor(key.to_vec(), Width::Exactly(key.len()));
        assert_eq!(exactly(&[1, 0, 255]), Some(vec![1, 1, 0]));
        assert_eq!(exactly(&[255, 255]), None);
        let up_to = |key: &[u8]| successor(key.to_vec(), Width::UpTo(3));
        assert_eq!(up_to(&[1, 255]), Some(vec![1, 255, 0]));
        assert_eq!(up_to(&[]), Some(vec![0]));
        assert_eq!(up_to(&[1, 2, 255]), Some(vec![1, 3]));
        assert_eq!(up_to(&[255, 255, 255]), None);
    }

    #[test]
    fn a_span_shrinks_in_the_direction_of_the_scan() {
        let keys = Width::Exactly(1);
        let mut span = Span { from: Some(vec![1]), to: Some(vec![9]), ..Span::all(keys) };
        span.pass(&[3], Direction::Forward);
        span.pass(&[7], Direction::Backward);
        assert_eq!(span, Span { from: Some(vec![4]), to: Some(vec![7]), ..Span::all(keys) });
        span.pass(&[255], Direction::Forward);
        assert!(span.is_void());
    }

    #[test]
    fn a_span_begins_after_any_key() {
        let keys = Width::Exactly(1);
        let span = || Span { from: Some(vec![3]), to: Some(vec![9]), ..Span::all(keys) };
        let narrowed = |last: u8, direction| {
            let mut span = span();
            span.narrow(&[last], direction);
            (!span.is_void()).then(|| (span.from.unwrap()[0], span.to.unwrap()[0]))
        };
        let forward = [1, 3, 7, 8, 20, 255].map(|last| narrowed(last, Direction::Forward));
        assert_eq!(forward, [Some((3, 9)), Some((4, 9)), Some((8, 9)), None, None, None]);
        let backward = [20, 9, 5, 3, 0].map(|last| narrowed(last, Direction::Backward));
        assert_eq!(backward, [Some((3, 9)), Some((3, 9)), Some((3, 5)), None, None]);
    }

    #[test]
    fn a_prefix_is_a_span() {
        let bounds = |keys, prefix: &[u8]| {
            let span = Span::of_prefix(keys, prefix);
            (span.from.clone(), span.to.clone(), span.is_void())
        };
        assert_eq!(bounds(Width::UpTo(9), b"ab"), (Some(b"ab".to_vec()), Some(b"ac".to_vec()), false));
        assert_eq!(bounds(Width::UpTo(9), &[7, 255]), (Some(vec![7, 255]), Some(vec![8]), false));
        assert_eq!(bounds(Width::UpTo(9), &[]), (Some(vec![]), None, false));
        assert_eq!(
            bounds(Width::Exactly(3), b"a"),
            (Some(b"a\0\0".to_vec()), Some(b"b\0\0".to_vec()), false)
        );
        assert_eq!(bounds(Width::Exactly(1), b"ab"), (None, None, true));
    }
}
