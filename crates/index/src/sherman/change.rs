//! Changes of one entry: put, insert, update, remove (Sherman Figure 7).
//!
//! ```text
//! change(key, value):
//!     leaf = the leaf of key, from the cache or a descent
//!     lock(leaf); read(leaf)                       one doorbell if the fabric keeps the order
//!     while leaf does not cover key:               fences and level, Sherman §4.2.3
//!         unlock(leaf); leaf = its sibling, or another descent; lock(leaf); read(leaf)
//!     place the entry in the copy
//!     if there is no free entry: split the leaf    split.rs
//!     write(entry); unlock(leaf)                   one doorbell, in order (command combination)
//! ```

use super::Sherman;
use super::layout::Values;
use super::leaf::{Change, Placed};
use super::lock_node::{LockedNode, Write};
use super::options::LockRead;
use super::read::HALF_WRITTEN;
use crate::error::IndexError;
use crate::memory::overflow::Link;
use crate::op::Op;
use crate::outcome::{InsertOutcome, KeyBefore, PutOutcome, RemoveOutcome, UpdateOutcome};
use farwood_fabric::{Client, Fabric};

/// The outcome of a change of one entry.
pub(super) struct Exchanged {
    /// Whether the key was in the leaf before.
    pub(super) before: KeyBefore,
    /// Whether the entry has changed.
    pub(super) placed: bool,
    /// The overflow value that no entry links any longer.
    pub(super) replaced: Option<Link>,
}

/// An entry as the leaf stores it.
#[derive(Clone, Copy)]
pub(super) struct Entry<'e> {
    pub(super) key: &'e [u8],
    pub(super) value: &'e [u8],
}

impl Sherman {
    /// Stores `value` under `key`.
    /// [3 RT when the leaf's address is cached: lock, read, write back with the unlock; 2 when the lock is handed over,
    /// or read with the node in one doorbell; 1 when both are handed over; 4 without command combination; a split adds
    /// 3 per level, 1 if the sibling is on another memory node, and 5 if it reuses a slot]
    ///
    /// # Errors
    /// [`IndexError::WrongLength`]; [`IndexError::TooLong`]; [`IndexError::Damaged`]; [`IndexError::LockHeld`]; a full
    /// pool and other errors of the fabric. The entry is not stored in these cases, except that after a failure of the
    /// fabric the client does not know whether it was.
    pub async fn put<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<PutOutcome, IndexError> {
        Op::new(self, client, "put").change(key, Change::Put(value)).await.map(PutOutcome::from)
    }

    /// Stores `value` under `key` if the key is absent. Costs and errors as [`put`](Self::put).
    pub async fn insert<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<InsertOutcome, IndexError> {
        Op::new(self, client, "insert").change(key, Change::Insert(value)).await.map(InsertOutcome::from)
    }

    /// Replaces the value of `key` if the key is present. Costs and errors as [`put`](Self::put), without splits.
    pub async fn update<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<UpdateOutcome, IndexError> {
        Op::new(self, client, "update").change(key, Change::Update(value)).await.map(UpdateOutcome::from)
    }

    /// Removes `key`. Costs and errors as [`put`](Self::put), without splits. A leaf that is at most half full is
    /// merged with a neighbour if a tenth of the merged leaf stays free. [1 RT more, to read the neighbours, whenever
    /// the entries of such a leaf have decreased by a tenth of its capacity; 10 to 12 more for a merge]
    pub async fn remove<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
    ) -> Result<RemoveOutcome, IndexError> {
        Op::new(self, client, "remove").change(key, Change::Remove).await.map(RemoveOutcome::from)
    }
}

impl<F: Fabric> Op<'_, F, Sherman> {
    /// Makes a change; returns whether the key was present before.
    async fn change(self, key: &[u8], change: Change<'_>) -> Result<KeyBefore, IndexError> {
        self.index.check_key(key)?;
        if let Some(value) = change.value() {
            self.index.check_value(value)?;
        }
        match self.index.layout.values {
            Values::Fixed => Ok(self.exchange(key, change).await?.before),
            Values::AnyLength => self.change_any_length(key, change).await,
        }
    }

    /// Makes a change of an entry, whose value has the length that the layout gives it.
    pub(super) async fn exchange(self, key: &[u8], change: Change<'_>) -> Result<Exchanged, IndexError> {
        let locked = self.lock_leaf_of(key).await?;
        self.exchange_locked(locked, key, change).await
    }

    /// Makes a change of an entry in a leaf whose lock this client holds, and releases the lock.
    pub(super) async fn exchange_locked(
        self,
        LockedNode { held, at, node: mut leaf, .. }: LockedNode<'_, F>,
        key: &[u8],
        change: Change<'_>,
    ) -> Result<Exchanged, IndexError> {
        let replaced = leaf.link_of(key);
        match leaf.place(key, change) {
            Ok(Placed::Entry { bytes, existed }) => {
                let to = at.part(bytes.start as u64);
                let whole = self.index.options.lock_read == LockRead::Together;
                let whole = whole.then(|| (at.word(), leaf.bytes()));
                self.write_back(held, Write { to, bytes: &leaf.bytes[bytes] }, whole).await?;
                if change == Change::Remove && leaf.looks_for_neighbour() {
                    Box::pin(self.try_merge(key)).await;
                }
                let before = if existed { KeyBefore::Present } else { KeyBefore::Absent };
                Ok(Exchanged { before, placed: true, replaced })
            }
            Ok(Placed::Unchanged) => {
                held.give_up().await?;
                let before = match change {
                    Change::Update(_) | Change::Remove => KeyBefore::Absent,
                    Change::Put(_) | Change::Insert(_) => KeyBefore::Present,
                };
                Ok(Exchanged { before, placed: false, replaced: None })
            }
            Ok(Placed::Full) => {
                let Some(value) = change.value() else { unreachable!("a removal adds no entry") };
                self.split_leaf(held, at, leaf, Entry { key, value }).await?;
                Ok(Exchanged { before: KeyBefore::Absent, placed: true, replaced: None })
            }
            Err(_) => {
                held.give_up().await?;
                Err(self.damaged(at, HALF_WRITTEN.to_owned()))
            }
        }
    }
}
