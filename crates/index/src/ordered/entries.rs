//! The result of a scan of an index of any system.

use crate::radix::tree;
use crate::sherman;

/// The entries that a scan found. A scan that reuses it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Entries(FoundEntries);

/// The entries in the form of a system: keys of one length need no table of their ends.
#[derive(Clone, Debug)]
enum FoundEntries {
    Sherman(sherman::ShermanEntries),
    Radix(tree::RadixEntries),
}

impl Default for FoundEntries {
    fn default() -> Self {
        Self::Sherman(sherman::ShermanEntries::new())
    }
}

macro_rules! dispatch {
    ($entries:expr, $found:ident => $what:expr) => {
        match &$entries.0 {
            FoundEntries::Sherman($found) => $what,
            FoundEntries::Radix($found) => $what,
        }
    };
}

impl Entries {
    /// No entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        dispatch!(self, found => found.len())
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        dispatch!(self, found => found.bytes())
    }

    /// Key and value number `at`, in the order of the scan.
    #[inline]
    pub fn get(&self, at: usize) -> Option<(&[u8], &[u8])> {
        dispatch!(self, found => found.get(at))
    }

    /// Keys and values, in the order of the scan.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + DoubleEndedIterator {
        (0..self.len()).map(|at| self.get(at).expect("the position is below the length"))
    }

    /// The buffer for a scan of a [`Sherman`](crate::sherman::Sherman).
    pub(super) fn of_sherman(&mut self) -> &mut sherman::ShermanEntries {
        if !matches!(self.0, FoundEntries::Sherman(_)) {
            self.0 = FoundEntries::default();
        }
        match &mut self.0 {
            FoundEntries::Sherman(found) => found,
            FoundEntries::Radix(_) => unreachable!("the variant was just set"),
        }
    }

    /// The buffer for a scan of a radix tree.
    pub(super) fn of_radix(&mut self) -> &mut tree::RadixEntries {
        if !matches!(self.0, FoundEntries::Radix(_)) {
            self.0 = FoundEntries::Radix(tree::RadixEntries::new());
        }
        match &mut self.0 {
            FoundEntries::Radix(found) => found,
            FoundEntries::Sherman(_) => unreachable!("the variant was just set"),
        }
    }
}
