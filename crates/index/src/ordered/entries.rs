//! What a scan of an index of any system found.

use crate::radix::tree;
use crate::sherman;

/// What a scan found, and room to find it in. Used again, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Entries(Found);

/// The systems keep what they find as suits them: keys of one length need no table of where they end.
#[derive(Clone, Debug)]
enum Found {
    Sherman(sherman::Entries),
    Radix(tree::Entries),
}

impl Default for Found {
    fn default() -> Self {
        Self::Sherman(sherman::Entries::new())
    }
}

macro_rules! each {
    ($entries:expr, $found:ident => $what:expr) => {
        match &$entries.0 {
            Found::Sherman($found) => $what,
            Found::Radix($found) => $what,
        }
    };
}

impl Entries {
    /// No entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        each!(self, found => found.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        each!(self, found => found.bytes())
    }

    /// Key and value number `at`, in the order of the scan.
    #[inline]
    pub fn get(&self, at: usize) -> Option<(&[u8], &[u8])> {
        each!(self, found => found.get(at))
    }

    /// Keys and values, in the order of the scan.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + DoubleEndedIterator {
        (0..self.len()).map(|at| self.get(at).expect("it is one of them"))
    }

    /// As room for what a [`Sherman`](crate::sherman::Sherman) finds.
    pub(super) fn of_sherman(&mut self) -> &mut sherman::Entries {
        if !matches!(self.0, Found::Sherman(_)) {
            self.0 = Found::default();
        }
        match &mut self.0 {
            Found::Sherman(found) => found,
            Found::Radix(_) => unreachable!("it was made one"),
        }
    }

    /// As room for what a radix tree finds.
    pub(super) fn of_radix(&mut self) -> &mut tree::Entries {
        if !matches!(self.0, Found::Radix(_)) {
            self.0 = Found::Radix(tree::Entries::new());
        }
        match &mut self.0 {
            Found::Radix(found) => found,
            Found::Sherman(_) => unreachable!("it was made one"),
        }
    }
}
