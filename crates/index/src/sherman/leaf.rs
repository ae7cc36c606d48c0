//! Leaves: sorted, with a WRITE of the whole leaf, or unsorted with two-level guards.

use super::layout::{Layout, Values};
use super::node::{Fences, Node, RawNode};
use super::options::Leaves;
use crate::consistency::{Consistency, EntryUse, byte_versions, checksum, versions};
use crate::key::{compare, prefix};
use crate::memory::overflow::Link;
use crate::mutant::Mutant;
use farwood_fabric::{Remote, Torn};
use std::cmp::Ordering;
use std::ops::{Deref, DerefMut, Range};

/// A change of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Insert or update.
    Put(&'a [u8]),
    /// Insert, if the key is absent.
    Insert(&'a [u8]),
    /// Update, if the key is present.
    Update(&'a [u8]),
    /// Remove, if the key is present.
    Remove,
}

impl<'a> Change<'a> {
    /// Returns this change with another value.
    pub(super) fn of(self, value: &'a [u8]) -> Self {
        match self {
            Self::Put(_) => Self::Put(value),
            Self::Insert(_) => Self::Insert(value),
            Self::Update(_) => Self::Update(value),
            Self::Remove => Self::Remove,
        }
    }

    /// The value that the change stores.
    pub fn value(self) -> Option<&'a [u8]> {
        match self {
            Self::Put(value) | Self::Insert(value) | Self::Update(value) => Some(value),
            Self::Remove => None,
        }
    }
}

/// The outcome of a [`Change`] of the local copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placed {
    /// The caller writes back these bytes of the leaf.
    Entry {
        /// The bytes: one entry, or the whole node.
        bytes: Range<usize>,
        /// Whether the key was present before.
        existed: bool,
    },
    /// Nothing changes: the key is present (insert), or absent (update, remove).
    Unchanged,
    /// The leaf has no free entry.
    Full,
}

impl<B: Deref<Target = [u8]>> Node<'_, B> {
    /// The key of leaf entry `slot`.
    #[inline]
    pub fn key(&self, slot: usize) -> &[u8] {
        &self.bytes[self.layout.entry_key(slot)]
    }

    /// The value of leaf entry `slot`.
    #[inline]
    pub fn value(&self, slot: usize) -> &[u8] {
        &self.bytes[self.layout.entry_value(slot)]
    }

    /// The key of leaf entry `slot` and its value directly after it.
    #[inline]
    pub fn key_and_value(&self, slot: usize) -> &[u8] {
        &self.bytes[self.layout.entry_key(slot).start..self.layout.entry_value(slot).end]
    }

    /// Whether entry `slot` is in use.
    ///
    /// # Errors
    /// [`Torn`] where the copy of the entry mixes two versions.
    #[inline]
    pub fn in_use(&self, slot: usize) -> Result<bool, Torn> {
        if self.layout.leaves == Leaves::Sorted {
            return Ok(slot < self.count());
        }
        let entry = &self.bytes[self.layout.entry(slot)];
        if self.layout.mutant == Some(Mutant::NoRearVersion) {
            return Ok(entry[0] & 1 != 0);
        }
        match self.layout.consistency {
            Consistency::Versions => versions::check_entry(entry),
            Consistency::ByteVersions => byte_versions::check_entry(entry),
            Consistency::Checksum => checksum::check_entry(entry, self.salt(slot)),
        }
    }

    /// The link to the value of `key`, if that is an overflow value.
    #[inline]
    pub(super) fn link_of(&self, key: &[u8]) -> Option<Link> {
        if self.layout.values == Values::Fixed {
            return None;
        }
        self.layout.link(self.value(self.find(key).ok()??))
    }

    /// The bytes of all entries with their guards, including entries that are not in use.
    #[inline]
    fn entries(&self) -> impl Iterator<Item = &[u8]> {
        let first = self.layout.entry(0).start;
        self.bytes[first..].chunks_exact(self.layout.entry_bytes).take(self.layout.leaf_capacity)
    }

    /// The seed of an entry's hash.
    #[inline]
    fn salt(&self, slot: usize) -> u64 {
        u64::from(self.version()) << 16 | slot as u64
    }

    /// Finds the entry of `key`. `None` proves its absence: no entry of the copy was torn, and none had that key.
    ///
    /// # Errors
    /// [`Torn`] where the entry of the key, or on a miss any entry, mixes two versions.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Result<Option<usize>, Torn> {
        match self.layout.leaves {
            Leaves::Sorted => Ok(self.find_sorted(key).ok()),
            Leaves::TwoLevel => self.find_unsorted(key),
        }
    }

    /// The slot of `key` in a sorted leaf, or the slot where it belongs.
    fn find_sorted(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut from, mut to) = (0, self.count());
        while from < to {
            let middle = usize::midpoint(from, to);
            match compare(self.key(middle), key) {
                Ordering::Equal => return Ok(middle),
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }

    #[inline]
    fn find_unsorted(&self, key: &[u8]) -> Result<Option<usize>, Torn> {
        let wanted = prefix(key);
        let body = &self.bytes[self.layout.entry_key(0).start..];
        for (slot, entry) in body.chunks(self.layout.entry_bytes).take(self.layout.leaf_capacity).enumerate()
        {
            if prefix(entry) == wanted && self.key(slot) == key {
                match self.in_use(slot) {
                    Ok(true) => return Ok(Some(slot)),
                    Err(Torn) if self.layout.mutant != Some(Mutant::TornIsAbsent) => return Err(Torn),
                    _ => {}
                }
            }
        }
        if self.layout.mutant == Some(Mutant::TornIsAbsent) {
            return Ok(None);
        }
        // A torn entry may have this key: only a copy without torn entries proves a miss.
        for slot in 0..self.layout.leaf_capacity {
            self.in_use(slot)?;
        }
        Ok(None)
    }

    /// Stores the slots in use in `slots`, by increasing key. A key that was removed and inserted again during the READ
    /// may be in two slots; one of them is kept.
    ///
    /// # Errors
    /// [`Torn`] where any entry mixes two versions.
    pub fn sorted_slots(&self, slots: &mut Vec<u16>) -> Result<(), Torn> {
        slots.clear();
        let mut last: Option<&[u8]> = None;
        let mut in_order = true;
        let mut take = |slot: usize| {
            let key = self.key(slot);
            in_order &= last.is_none_or(|last| compare(last, key) == Ordering::Less);
            last = Some(key);
            slots.push(slot as u16);
        };
        match (self.layout.leaves, self.layout.consistency) {
            (Leaves::Sorted, _) => (0..self.count()).for_each(take),
            (Leaves::TwoLevel, Consistency::Versions) => {
                for (slot, entry) in self.entries().enumerate() {
                    if versions::check_entry(entry)? {
                        take(slot);
                    }
                }
            }
            (Leaves::TwoLevel, Consistency::ByteVersions | Consistency::Checksum) => {
                for slot in 0..self.layout.leaf_capacity {
                    if self.in_use(slot)? {
                        take(slot);
                    }
                }
            }
        }
        if !in_order {
            slots.sort_unstable_by(|&a, &b| compare(self.key(usize::from(a)), self.key(usize::from(b))));
            slots.dedup_by(|&mut a, &mut b| self.key(usize::from(a)) == self.key(usize::from(b)));
        }
        Ok(())
    }

    /// The number of slots in use.
    ///
    /// # Errors
    /// [`Torn`] where any entry mixes two versions.
    pub fn used(&self) -> Result<usize, Torn> {
        if self.layout.leaves == Leaves::Sorted {
            return Ok(self.count());
        }
        (0..self.layout.leaf_capacity).try_fold(0, |used, slot| Ok(used + usize::from(self.in_use(slot)?)))
    }

    /// The first slot from `from` on that is not in use.
    fn free_slot_from(&self, from: usize) -> Result<Option<usize>, Torn> {
        for slot in from..self.layout.leaf_capacity {
            if !self.in_use(slot)? {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }
}

impl<'l, B: DerefMut<Target = [u8]>> Node<'l, B> {
    /// Makes `change` at `key` in the local copy of a leaf whose lock is held.
    ///
    /// # Errors
    /// [`Torn`] where an entry mixes two versions: under the lock that means damage.
    pub fn place(&mut self, key: &[u8], change: Change<'_>) -> Result<Placed, Torn> {
        let found = self.find(key)?;
        match (found, change) {
            (Some(_), Change::Insert(_)) | (None, Change::Update(_) | Change::Remove) => {
                Ok(Placed::Unchanged)
            }
            (Some(slot), Change::Put(value) | Change::Update(value)) => {
                self.set_entry(slot, key, value);
                Ok(Placed::Entry { bytes: self.finish_entry(slot), existed: true })
            }
            (Some(slot), Change::Remove) => {
                self.clear_entry(slot);
                Ok(Placed::Entry { bytes: self.finish_entry(slot), existed: true })
            }
            (None, Change::Put(value) | Change::Insert(value)) => self.add(key, value),
        }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<Placed, Torn> {
        let slot = match self.layout.leaves {
            Leaves::TwoLevel => self.free_slot_from(0)?,
            Leaves::Sorted if self.count() == self.layout.leaf_capacity => None,
            Leaves::Sorted => Some(self.shift_entries(key)),
        };
        let Some(slot) = slot else { return Ok(Placed::Full) };
        self.set_entry(slot, key, value);
        Ok(Placed::Entry { bytes: self.finish_entry(slot), existed: false })
    }

    /// Shifts the entries after the slot where `key` belongs in a sorted leaf that is not full.
    fn shift_entries(&mut self, key: &[u8]) -> usize {
        let (Ok(slot) | Err(slot)) = self.find_sorted(key);
        let (start, end) = (self.layout.entry(slot).start, self.layout.entry(self.count()).start);
        self.bytes.copy_within(start..end, start + self.layout.entry_bytes);
        self.set_count(self.count() + 1);
        slot
    }

    fn set_entry(&mut self, slot: usize, key: &[u8], value: &[u8]) {
        let (key_at, value_at) = (self.layout.entry_key(slot), self.layout.entry_value(slot));
        self.bytes[key_at].copy_from_slice(key);
        self.bytes[value_at].copy_from_slice(value);
        self.seal_entry(slot, EntryUse::InUse);
    }

    fn clear_entry(&mut self, slot: usize) {
        match self.layout.leaves {
            Leaves::TwoLevel => self.seal_entry(slot, EntryUse::Free),
            Leaves::Sorted => {
                let (next, end) = (self.layout.entry(slot + 1).start, self.layout.entry(self.count()).start);
                self.bytes.copy_within(next..end, self.layout.entry(slot).start);
                self.set_count(self.count() - 1);
            }
        }
    }

    fn seal_entry(&mut self, slot: usize, state: EntryUse) {
        if self.layout.leaves == Leaves::Sorted {
            return;
        }
        let salt = self.salt(slot);
        let entry = &mut self.bytes[self.layout.entry(slot)];
        match self.layout.consistency {
            Consistency::Versions => versions::seal_entry(entry, state),
            Consistency::ByteVersions => byte_versions::seal_entry(entry, state),
            Consistency::Checksum => checksum::seal_entry(entry, salt, state),
        }
    }

    /// Recomputes the hashes of the entries, which include the version of the node.
    pub(super) fn reseal_entries(&mut self) {
        let two_level = self.level() == 0 && self.layout.leaves == Leaves::TwoLevel;
        if two_level && self.layout.consistency == Consistency::Checksum {
            for slot in 0..self.layout.leaf_capacity {
                let state = checksum::claimed_use(&self.bytes[self.layout.entry(slot)]);
                self.seal_entry(slot, state);
            }
        }
    }

    /// Sets the versions of the entries of a new leaf just below the wrap-around.
    pub(super) fn raise_entries(&mut self) {
        let raise: fn(&mut [u8]) = match self.layout.consistency {
            Consistency::Versions => versions::raise_entry,
            Consistency::ByteVersions => byte_versions::raise_entry,
            Consistency::Checksum => return,
        };
        if self.level() == 0 && self.layout.leaves == Leaves::TwoLevel {
            for slot in 0..self.layout.leaf_capacity {
                raise(&mut self.bytes[self.layout.entry(slot)]);
            }
        }
    }

    /// Seals a sorted leaf after a change of one entry, and returns the bytes to write back.
    fn finish_entry(&mut self, slot: usize) -> Range<usize> {
        match self.layout.leaves {
            Leaves::TwoLevel => self.layout.entry(slot),
            Leaves::Sorted => {
                self.seal();
                0..self.layout.node_bytes
            }
        }
    }

    /// Moves the upper half of a full leaf to a new right sibling, whose address is `at`, and places `key` in the half
    /// that covers it. Neither is sealed yet.
    ///
    /// # Errors
    /// [`Torn`] where an entry mixes two versions: under the lock that means damage.
    pub fn split_leaf(
        &mut self,
        at: Remote<RawNode>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Node<'l, Vec<u8>>, Torn> {
        let mut slots = Vec::with_capacity(self.layout.leaf_capacity);
        self.sorted_slots(&mut slots)?;
        let middle = slots.len() / 2;
        let fence = self.key(usize::from(slots[middle])).to_vec();
        let right_fences = Fences { lower: &fence, upper: self.upper() };
        let mut right = Node::empty(self.layout, 0, right_fences, self.sibling());
        for (to, &slot) in slots[middle..].iter().enumerate() {
            right.push_entry(to, self.key(usize::from(slot)), self.value(usize::from(slot)));
        }
        self.drop_slots(&slots[middle..]);
        self.set_upper(Some(&fence));
        self.set_sibling(Some(at));
        let placed = if compare(key, &fence) == Ordering::Less {
            self.add(key, value)?
        } else {
            right.add(key, value)?
        };
        assert!(matches!(placed, Placed::Entry { existed: false, .. }), "half a leaf has free entries");
        Ok(right)
    }

    /// Moves all entries of the right sibling `right` to this leaf, which has space for them. Neither is sealed.
    ///
    /// # Errors
    /// [`Torn`] where an entry of either mixes two versions: under the locks that means damage.
    pub fn absorb_leaf<R: Deref<Target = [u8]>>(&mut self, right: &Node<'_, R>) -> Result<(), Torn> {
        let mut slots = Vec::with_capacity(self.layout.leaf_capacity);
        // The leaf is sealed as a whole afterwards, so a damaged entry would get a valid guard.
        self.sorted_slots(&mut slots)?;
        right.sorted_slots(&mut slots)?;
        let mut from = 0;
        for slot in slots.into_iter().map(usize::from) {
            let to = match self.layout.leaves {
                Leaves::Sorted => self.count(),
                Leaves::TwoLevel => self.free_slot_from(from)?.ok_or(Torn)?,
            };
            self.push_entry(to, right.key(slot), right.value(slot));
            from = to + 1;
        }
        self.set_upper(right.upper());
        self.set_sibling(right.sibling());
        Ok(())
    }

    /// Removes the entries `gone`, the upper part of the leaf.
    fn drop_slots(&mut self, gone: &[u16]) {
        match self.layout.leaves {
            Leaves::Sorted => self.set_count(self.count() - gone.len()),
            Leaves::TwoLevel => {
                for &slot in gone {
                    self.seal_entry(usize::from(slot), EntryUse::Free);
                }
            }
        }
    }

    /// Fills `slot` of a new leaf. The caller fills the slots in order.
    pub fn push_entry(&mut self, slot: usize, key: &[u8], value: &[u8]) {
        if self.layout.leaves == Leaves::Sorted {
            self.set_count(slot + 1);
        }
        self.set_entry(slot, key, value);
    }
}

impl Layout {
    /// Entries that a bulk loader stores in a leaf at the fill factor `fill` (0 to 1).
    pub fn leaf_fill(&self, fill: f64) -> usize {
        ((self.leaf_capacity as f64 * fill) as usize).clamp(1, self.leaf_capacity)
    }

    /// Separators that a bulk loader stores in an inner node at the fill factor `fill`.
    pub fn inner_fill(&self, fill: f64) -> usize {
        ((self.inner_capacity as f64 * fill) as usize).clamp(1, self.inner_capacity)
    }
}
