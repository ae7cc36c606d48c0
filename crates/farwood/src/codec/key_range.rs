//! The ranges of keys that scans take.

use super::encode::{Encode, Key};
use std::ops::{
    Bound, Range, RangeBounds as _, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// The argument of a scan for a range of keys of type `K`: `a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..`, or two
/// [`Bound`]s, with ends that the calls take for keys.
///
/// [`RangeBounds`](std::ops::RangeBounds) does not serve: `(Excluded(&last), Unbounded)` is a range of `u64` and of
/// `&u64` there, and `..` is a range of every type, so the compiler could not infer the type of the ends.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a range of keys of type `{K}`",
    note = "give a range such as `a..b`, or a pair of `std::ops::Bound`, with ends of type `{K}`"
)]
pub trait KeyRange<K> {
    /// The type of the ends.
    type End: Encode<K>;

    /// The start and the end of the range.
    fn bounds(&self) -> [Bound<&Self::End>; 2];
}

impl<K, R: KeyRange<K>> KeyRange<K> for &R {
    type End = R::End;

    #[inline]
    fn bounds(&self) -> [Bound<&R::End>; 2] {
        (**self).bounds()
    }
}

macro_rules! range {
    ($($range:ty),+) => {
        $(impl<K, Q: Encode<K>> KeyRange<K> for $range {
            type End = Q;

            #[inline]
            fn bounds(&self) -> [Bound<&Q>; 2] {
                [self.start_bound(), self.end_bound()]
            }
        })+
    };
}

range!(Range<Q>, RangeInclusive<Q>, RangeFrom<Q>, RangeTo<Q>, RangeToInclusive<Q>);

impl<K, Q: Encode<K>> KeyRange<K> for (Bound<Q>, Bound<Q>) {
    type End = Q;

    #[inline]
    fn bounds(&self) -> [Bound<&Q>; 2] {
        [self.0.as_ref(), self.1.as_ref()]
    }
}

impl<K: Key> KeyRange<K> for RangeFull {
    type End = K;

    #[inline]
    fn bounds(&self) -> [Bound<&K>; 2] {
        [Bound::Unbounded; 2]
    }
}
