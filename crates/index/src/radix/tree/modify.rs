//! Changes of one key that depend on its value.
//!
//! ```text
//! modify(key, decide):
//!     repeat until a change is made, or none is wanted:
//!         find the slot of the key
//!         no leaf: decide without a value; add a leaf
//!         a leaf: lock and read it; decide with its value
//!             a value that fits: write it and release the lock
//!             otherwise: release the lock; move or remove the leaf if its value is still the same
//! ```

use super::change::Removal;
use super::condition::Condition;
use super::copy::LeafCopy;
use super::find::{LeafAt, LeafVerdict, Location};
use super::traversal::Traversal;
use super::{Policy, RadixTree};
use crate::error::IndexError;
use crate::lock::HeldLock;
use crate::modify::{Accept, Decide, Decision};
use crate::mutant::Mutant;
use crate::op::Op;
use crate::radix::key::check_key;
use crate::radix::leaf::LeafEntry;
use farwood_fabric::{Client, Fabric};

/// A requested modification.
pub(super) struct Modification<'k, 'd, 'f> {
    pub(super) key: &'k [u8],
    pub(super) decide: &'d mut Decide<'f>,
}

/// The leaf of the key, whose lock this client holds.
struct LockedLeaf<'a, F: Fabric> {
    held: HeldLock<'a, F>,
    copy: LeafCopy,
    at: LeafAt,
}

impl<P: Policy> RadixTree<P> {
    /// Calls `decide` with the value of `key`, and changes the entry as it decides, in one atomic step.
    /// [as the system's `put`, without combining; to remove the entry, 2 RT more than [`remove`](Self::remove); 1 RT
    /// more for a present overflow value, 2 above 2 MiB, and 1 for a new one]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] if the key is too long; [`IndexError::TooLong`] if the value is;
    /// [`IndexError::LockHeld`]; the fabric's errors.
    pub async fn modify<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError> {
        Op::new(self, client, "modify").modify(key, decide).await
    }

    /// Removes `key` if `accept` accepts its value, in one atomic step.
    /// [as [`remove`](Self::remove); 1 RT more for an overflow value, 2 above 2 MiB]
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub async fn remove_if<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        accept: &mut Accept<'_>,
    ) -> Result<(), IndexError> {
        Op::new(self, client, "remove").remove_if(key, accept).await
    }
}

impl<'a, F: Fabric, P: Policy> Op<'a, F, RadixTree<P>> {
    async fn remove_if(self, key: &[u8], accept: &mut Accept<'_>) -> Result<(), IndexError> {
        check_key(key)?;
        let mut traversal = Traversal::new(&self.index.scratch, self.name, key);
        loop {
            let location = self.locate(&mut traversal).await?;
            let Some(leaf) = location.leaf() else {
                if self.is_absent(&location, &mut traversal).await? {
                    accept(None);
                    return Ok(());
                }
                continue;
            };
            let condition = Condition::Accepted(accept);
            match self.remove_leaf(&location, leaf, condition, &mut traversal).await? {
                Some(Removal::Removed | Removal::Kept) => return Ok(()),
                Some(Removal::Absent) => {
                    accept(None);
                    return Ok(());
                }
                None => {}
            }
        }
    }

    async fn modify(self, key: &[u8], decide: &mut Decide<'_>) -> Result<(), IndexError> {
        check_key(key)?;
        let mut wanted = Modification { key, decide };
        let mut traversal = Traversal::new(&self.index.scratch, self.name, key);
        loop {
            let location = self.locate(&mut traversal).await?;
            let is_done = match location.leaf() {
                None => self.modify_absent(&location, None, &mut wanted, &mut traversal).await?,
                Some(at) => self.modify_at_leaf(&location, at, &mut wanted, &mut traversal).await?,
            };
            if is_done {
                return Ok(());
            }
        }
    }

    /// Modifies a key that is absent, unless the location does not prove its absence; `at` is a leaf that has proven
    /// the absence. `false`: the caller tries again.
    pub(super) async fn modify_absent(
        self,
        location: &Location,
        at: Option<LeafAt>,
        wanted: &mut Modification<'_, '_, '_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        let Decision::Store(value) = (wanted.decide)(None) else {
            return Ok(at.is_some() || self.is_absent(location, traversal).await?);
        };
        let new = self.new_value(wanted.key, &value).await?;
        let entry = new.entry(wanted.key);
        let added = match at {
            None => self.add(location, entry, traversal).await.map(|added| added.is_some()),
            Some(at) => self.split_leaf(location, at, entry, traversal).await,
        };
        self.linked(new, added, |&added| added)
    }

    /// Modifies the key at a location that has a leaf of this key or of another. `false`: the caller tries again.
    async fn modify_at_leaf(
        self,
        location: &Location,
        at: LeafAt,
        wanted: &mut Modification<'_, '_, '_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        if self.index.options.swaps_leaves() {
            return self.modify_by_swap(location, at, wanted, traversal).await;
        }
        let (held, copy) = self.lock_leaf(at.leaf, wanted.key).await?;
        match self.judge(&copy, location, traversal) {
            LeafVerdict::Match => {
                self.modify_leaf(location, LockedLeaf { held, copy, at }, wanted, traversal).await
            }
            LeafVerdict::Absent => {
                held.give_up().await?;
                self.modify_absent(location, Some(at), wanted, traversal).await
            }
            LeafVerdict::Ambiguous => {
                held.give_up().await?;
                self.resolve(&location.node, at.number, traversal).await?;
                Ok(false)
            }
        }
    }

    /// Modifies the key of a locked leaf. `false`: the caller tries again. [1 RT to write the value in place, or to
    /// keep it; 7 to move it to another leaf; 5 to remove it]
    async fn modify_leaf(
        self,
        location: &Location,
        leaf: LockedLeaf<'a, F>,
        wanted: &mut Modification<'_, '_, '_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        let decision = match self.locked_value(&leaf.copy, leaf.at.leaf).await {
            Ok(value) => (wanted.decide)(Some(&value)),
            Err(error) => {
                leaf.held.give_up().await?;
                return Err(error);
            }
        };
        match decision {
            Decision::Keep => {
                leaf.held.give_up().await?;
                Ok(true)
            }
            Decision::Remove => {
                leaf.held.give_up().await?;
                let unchanged = Condition::Unchanged(leaf.copy.value());
                match self.remove_leaf(location, leaf.at, unchanged, traversal).await? {
                    Some(Removal::Removed) => return Ok(true),
                    Some(Removal::Kept) => traversal.retry_after_change(self.client).await?,
                    Some(Removal::Absent) | None => {}
                }
                Ok(false)
            }
            Decision::Store(value) => {
                let leaf = match self.index.mutant {
                    Some(Mutant::DecidesUnlocked) => self.lock_again(leaf).await?,
                    _ => leaf,
                };
                self.store_in_leaf(location, leaf, (wanted.key, &value), traversal).await
            }
        }
    }

    /// Releases the lock of a leaf and acquires it again, for a mutant.
    async fn lock_again(self, leaf: LockedLeaf<'_, F>) -> Result<LockedLeaf<'a, F>, IndexError> {
        leaf.held.give_up().await?;
        let (held, copy) = self.lock_leaf(leaf.at.leaf, leaf.copy.key()).await?;
        Ok(LockedLeaf { held, copy, at: leaf.at })
    }

    /// Stores a value in a locked leaf, or in another leaf that takes its place. `false`: the leaf has changed.
    async fn store_in_leaf(
        self,
        location: &Location,
        leaf: LockedLeaf<'_, F>,
        (key, value): (&[u8], &[u8]),
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        let new = match self.new_value(key, value).await {
            Ok(new) => new,
            Err(error) => {
                leaf.held.give_up().await?;
                return Err(error);
            }
        };
        let stored = self.store_entry(location, leaf, new.entry(key), traversal).await;
        self.linked(new, stored, |&stored| stored)
    }

    /// As [`store_in_leaf`](Self::store_in_leaf), with an entry whose value fits a leaf.
    async fn store_entry(
        self,
        location: &Location,
        LockedLeaf { held, mut copy, at }: LockedLeaf<'_, F>,
        entry: LeafEntry<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        if self.is_written_in_place(&copy, &entry.value) {
            self.write_in_place(held, at.leaf, &mut copy, &entry.value).await?;
            return Ok(true);
        }
        held.give_up().await?;
        self.move_leaf(location, at, entry, Condition::Unchanged(copy.value()), traversal).await
    }
}
