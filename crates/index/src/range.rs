//! Ranges of keys, and the direction of a scan.

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// By increasing key.
    Forward,
    /// By decreasing key.
    Backward,
}

/// The keys of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range<'a> {
    /// The smallest key, inclusive; `None`: the first key of the index.
    pub from: Option<&'a [u8]>,
    /// The end, exclusive; `None`: the range ends after the last key of the index.
    pub to: Option<&'a [u8]>,
}
