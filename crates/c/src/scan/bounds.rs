//! The keys of a scan, from the range of the caller.

use super::FwRange;
use crate::code::{FW_LOWER_EXCLUSIVE, FW_REVERSE, FW_SNAPSHOT, FW_UPPER_INCLUSIVE};
use crate::failure::{CallResult, Failure};
use crate::index::FwIndex;
use farwood::index::Direction;
use farwood::types::Width;
use std::ops::Bound;

/// The range of the caller, with its byte strings.
#[derive(Default)]
pub(crate) struct GivenRange<'a> {
    pub(super) lower: Option<&'a [u8]>,
    pub(super) upper: Option<&'a [u8]>,
    pub(super) prefix: Option<&'a [u8]>,
    pub(super) after: Option<&'a [u8]>,
    pub(super) limit: u64,
    pub(super) flags: u32,
}

/// The keys of a scan as the index stores them, its direction and its limit.
#[derive(Debug)]
pub(crate) struct ScanBounds {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    pub(crate) direction: Direction,
    pub(crate) limit: usize,
}

impl GivenRange<'_> {
    /// Whether the entries are as of one moment.
    pub(crate) fn is_snapshot(&self) -> bool {
        self.flags & FW_SNAPSHOT != 0
    }

    fn check(&self) -> CallResult<()> {
        const KNOWN: u32 = FW_LOWER_EXCLUSIVE | FW_UPPER_INCLUSIVE | FW_REVERSE | FW_SNAPSHOT;
        if self.flags & !KNOWN != 0 {
            return Err(Failure::argument("fw_range.flags has unknown bits"));
        }
        if self.prefix.is_some() && (self.lower.is_some() || self.upper.is_some()) {
            return Err(Failure::argument("fw_range has a prefix and a bound; give one of them"));
        }
        Ok(())
    }
}

impl ScanBounds {
    /// The bounds of a range; `None`: the range contains no key.
    pub(crate) fn of(index: &FwIndex, given: &GivenRange<'_>) -> CallResult<Option<Self>> {
        given.check()?;
        let key = |key: &[u8]| -> CallResult<Vec<u8>> { Ok(index.key("scan", key)?.into_owned()) };
        let bound = |bound: Option<&[u8]>, is_excluded: bool| -> CallResult<Bound<Vec<u8>>> {
            Ok(match bound {
                None => Bound::Unbounded,
                Some(bytes) if is_excluded => Bound::Excluded(key(bytes)?),
                Some(bytes) => Bound::Included(key(bytes)?),
            })
        };
        let mut lower = bound(given.lower, given.flags & FW_LOWER_EXCLUSIVE != 0)?;
        let mut upper = bound(given.upper, given.flags & FW_UPPER_INCLUSIVE == 0)?;
        if let Some(prefix) = given.prefix {
            let Some((from, to)) = of_prefix(index.keys.width, prefix) else { return Ok(None) };
            (lower, upper) = (Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded));
        }
        let is_reverse = given.flags & FW_REVERSE != 0;
        let direction = if is_reverse { Direction::Backward } else { Direction::Forward };
        if let Some(after) = given.after {
            let after = key(after)?;
            match direction {
                Direction::Forward if key_of(&lower).is_none_or(|bound| *bound <= after) => {
                    lower = Bound::Excluded(after);
                }
                Direction::Backward if key_of(&upper).is_none_or(|bound| *bound >= after) => {
                    upper = Bound::Excluded(after);
                }
                Direction::Forward | Direction::Backward => {}
            }
        }
        let limit = if given.limit == 0 { usize::MAX } else { given.limit as usize };
        Ok(Some(Self { lower, upper, direction, limit }))
    }

    /// The keys of the scan.
    pub(crate) fn keys(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.lower.as_ref().map(Vec::as_slice), self.upper.as_ref().map(Vec::as_slice))
    }
}

fn key_of(bound: &Bound<Vec<u8>>) -> Option<&Vec<u8>> {
    match bound {
        Bound::Unbounded => None,
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
    }
}

/// The keys that begin with `prefix`: the least of them, and the least key above them if there is one.
fn of_prefix(width: Width, prefix: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    if prefix.len() > width.most() {
        return None;
    }
    let bound = |mut bytes: Vec<u8>| {
        if let Width::Exactly(length) = width {
            bytes.resize(length, 0);
        }
        bytes
    };
    let end = prefix.iter().rposition(|&byte| byte != u8::MAX);
    let above = end.map(|last| {
        let mut above = prefix[..=last].to_vec();
        above[last] += 1;
        bound(above)
    });
    Some((bound(prefix.to_vec()), above))
}

impl FwRange {
    /// Refuses fields that this version does not know.
    pub(super) fn check(&self) -> CallResult<()> {
        if self.reserved == 0 { Ok(()) } else { Err(Failure::argument("fw_range.reserved must be 0")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_prefix() {
        let any = |prefix: &[u8]| of_prefix(Width::UpTo(8), prefix);
        assert_eq!(any(b"ab"), Some((b"ab".to_vec(), Some(b"ac".to_vec()))));
        assert_eq!(any(b"a\xff"), Some((b"a\xff".to_vec(), Some(b"b".to_vec()))));
        assert_eq!(any(b"\xff"), Some((b"\xff".to_vec(), None)));
        assert_eq!(any(b""), Some((Vec::new(), None)));
        assert_eq!(any(b"longer than"), None);
        let fixed = of_prefix(Width::Exactly(3), b"a");
        assert_eq!(fixed, Some((b"a\0\0".to_vec(), Some(b"b\0\0".to_vec()))));
    }
}
