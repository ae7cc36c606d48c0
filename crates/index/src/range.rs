//! What a scan is asked for, whatever it scans.

/// Which way a scan goes.
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
    /// The smallest key, itself in the range; `None`: from the first.
    pub from: Option<&'a [u8]>,
    /// The end, itself not in the range; `None`: to the last.
    pub to: Option<&'a [u8]>,
}
