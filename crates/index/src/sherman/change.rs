//! Changes of one entry: put, insert, update, remove (Sherman Figure 7).

use super::descend::{Copy, Source, Whereabouts, believed, damaged, whereabouts};
use super::leaf::{Change, Placed};
use super::node::RawNode;
use super::options::{LockRead, WriteBack};
use super::{Sherman, Way};
use crate::error::IndexError;
use crate::lock::{Held, LocalRelease};
use crate::marks;
use crate::sabotage::Sabotage;
use farwood_fabric::{Chain, Client, Fabric, FabricError, Fetched, Remote, write};
use std::ops::Range;

impl Sherman {
    /// Stores `value` under `key`; yields whether the key was there before.
    /// [3 RT when the cache knows the leaf: lock, read, write back with the unlock; 2 when the lock is handed
    /// over, or read with the node in one doorbell; 1 when both are handed over; 4 without command combination; a
    /// split adds 3 per level, and 1 where the sibling lies on another memory node]
    ///
    /// # Errors
    /// [`IndexError::WrongLength`]; [`IndexError::Damaged`]; [`IndexError::LockHeld`]; a full pool and other errors
    /// of the fabric. The entry then is not stored; only when the fabric itself fails is that unknown.
    pub async fn put<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, IndexError> {
        self.change(client, key, Change::Put(value), "put").await
    }

    /// Stores `value` under `key` unless the key is there; yields whether it was stored. Costs and errors as
    /// [`put`](Self::put).
    pub async fn insert<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, IndexError> {
        self.change(client, key, Change::Insert(value), "insert").await.map(|existed| !existed)
    }

    /// Replaces the value of `key` if the key is there; yields whether it was. Costs and errors as
    /// [`put`](Self::put), without splits.
    pub async fn update<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, IndexError> {
        self.change(client, key, Change::Update(value), "update").await
    }

    /// Removes `key`; yields whether it was there. Costs and errors as [`put`](Self::put), without splits. A leaf that
    /// is at most half full is merged with a neighbour where together they leave a tenth of a leaf free.
    /// [at every tenth of its entries such a leaf looks at its neighbours: 1 RT more; a merge is 10 to 12 more]
    pub async fn remove<F: Fabric>(&self, client: &Client<F>, key: &[u8]) -> Result<bool, IndexError> {
        self.change(client, key, Change::Remove, "remove").await
    }

    /// Makes a change; yields whether the key was there before.
    async fn change<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        change: Change<'_>,
        operation: &'static str,
    ) -> Result<bool, IndexError> {
        self.check_key(key)?;
        if let Some(value) = change.value() {
            self.check_value(value)?;
        }
        let from = self.leaf_for(client, key).await?;
        let (held, at, mut leaf) = self.lock_leaf(client, from, key, operation).await?;
        match leaf.place(key, change) {
            Ok(Placed::Entry { bytes, existed }) => {
                self.write_entry(client, held, (at, &leaf), bytes).await?;
                if change == Change::Remove && leaf.looks_for_neighbour() {
                    Box::pin(self.relieve(client, key)).await;
                }
                Ok(existed)
            }
            Ok(Placed::Unchanged) => {
                held.give_up().await?;
                Ok(!matches!(change, Change::Update(_) | Change::Remove))
            }
            Ok(Placed::Full) => {
                let Some(value) = change.value() else { unreachable!("a removal needs no room") };
                self.split_leaf(client, held, at, leaf, (key, value)).await?;
                Ok(false)
            }
            Err(_) => {
                held.give_up().await?;
                let what = "an entry is half-written: its writer died in the middle of a WRITE";
                Err(damaged(operation, at, what.to_owned()))
            }
        }
    }

    /// Locks and reads the leaf that covers `key`, at `at` or right of it, as
    /// [`lock_covering`](Self::lock_covering) does.
    pub(super) async fn lock_leaf<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        from: (Remote<RawNode>, Source),
        key: &[u8],
        operation: &'static str,
    ) -> Result<(Held<'a, F>, Remote<RawNode>, Copy<'a>), IndexError> {
        match self.lock_covering(client, from, 0, key, operation).await? {
            Some(locked) => Ok(locked),
            None => unreachable!("every tree has leaves"),
        }
    }

    /// Locks and reads the node of `level` that covers `key`, at `at` or right of it. Between two nodes no lock
    /// is held: they may share one. `None`: the tree is not that high any more. [2 RT; 3 per step]
    pub(super) async fn lock_covering<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        (mut at, source): (Remote<RawNode>, Source),
        level: u8,
        key: &[u8],
        operation: &'static str,
    ) -> Result<Option<(Held<'a, F>, Remote<RawNode>, Copy<'a>)>, IndexError> {
        let mut way = Way::new(operation, source);
        loop {
            let (held, copy) = self.lock_and_read(client, at, operation).await?;
            let node = match self.locked_copy(client, at, copy, operation).await {
                Ok(node) => node,
                Err(error) => {
                    held.give_up().await?;
                    return Err(error);
                }
            };
            let seen = believed(whereabouts(&node, level, key), &node, way.source);
            if seen == Whereabouts::Here {
                return Ok(Some((held, at, node)));
            }
            client.fabric().mark(marks::LOCKED_ASTRAY);
            held.give_up().await?;
            at = match level {
                0 => self.next_leaf(client, (at, &node), seen, key, &mut way).await?,
                _ => match self.next_inner(client, (at, &node), seen, (level, key), &mut way).await? {
                    Some(at) => at,
                    None => return Ok(None),
                },
            };
        }
    }

    /// As [`lock_covering`](Self::lock_covering), for a parent, with a copy of the node at `child`, read under the
    /// lock in the same doorbell.
    pub(super) async fn lock_with<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        (mut at, source): (Remote<RawNode>, Source),
        level: u8,
        key: &[u8],
        child: Remote<RawNode>,
    ) -> Result<Option<(Held<'a, F>, Remote<RawNode>, Copy<'a>, Copy<'a>)>, IndexError> {
        let mut way = Way::new("split", source);
        loop {
            let held = self.locks.acquire(client, at, "split").await?;
            let (node, child) = match self.read_both(client, at, child, "split").await {
                Ok(both) => both,
                Err(error) => {
                    held.give_up().await?;
                    return Err(error);
                }
            };
            let seen = whereabouts(&node, level, key);
            if seen == Whereabouts::Here {
                return Ok(Some((held, at, node, child)));
            }
            client.fabric().mark(marks::LOCKED_ASTRAY);
            held.give_up().await?;
            match self.next_inner(client, (at, &node), seen, (level, key), &mut way).await? {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
    }

    /// Takes the lock of the node at `at`, and reads the node with it where that is wanted and safe.
    /// [1 RT, for both or for the lock]
    async fn lock_and_read<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        at: Remote<RawNode>,
        operation: &'static str,
    ) -> Result<(Held<'a, F>, Option<Fetched<RawNode>>), IndexError> {
        if self.options.lock_read == LockRead::Together && client.fabric().capabilities().atomic_then_read {
            return self.locks.acquire_and_read(client, at, self.layout.node_bytes, operation).await;
        }
        Ok((self.locks.acquire(client, at, operation).await?, None))
    }

    /// The node at `at`, whose lock this client holds, from the copy that came with the lock, if one did.
    /// [0 RT; 1 without a copy]
    async fn locked_copy<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
        copy: Option<Fetched<RawNode>>,
        operation: &'static str,
    ) -> Result<Copy<'_>, IndexError> {
        match copy.map(|copy| copy.check(&self.layout)) {
            Some(Ok(copy)) => self.decode(at, copy, operation),
            Some(Err(_)) | None => self.read_locked(client, at, operation).await,
        }
    }

    /// As [`next_leaf`](Self::next_leaf), for inner nodes. `None`: the tree is not that high any more.
    async fn next_inner<F: Fabric>(
        &self,
        client: &Client<F>,
        (at, node): (Remote<RawNode>, &Copy<'_>),
        whereabouts: Whereabouts,
        (level, key): (u8, &[u8]),
        way: &mut Way,
    ) -> Result<Option<Remote<RawNode>>, IndexError> {
        if let Whereabouts::Right(sibling) = whereabouts
            && way.may_step_right_from(at)
        {
            client.fabric().mark(marks::STEPPED_RIGHT_INNER);
            client.note(|costs| costs.moved += 1);
            // The cached top has led here: it is older than the last split of this level.
            self.top.store(None);
            return Ok(Some(sibling));
        }
        self.forget(client, key);
        if let Some(left) = way.left.take().filter(|_| node.freed()) {
            self.revive(client, left, at).await?;
        }
        way.restart(client).await?;
        self.descend(client, key, level).await
    }

    /// Writes back part of a leaf, and releases its lock, with the leaf if it is handed over.
    /// [1 RT; 2 without command combination, 1 if then the lock is handed over]
    async fn write_entry<F: Fabric>(
        &self,
        client: &Client<F>,
        held: Held<'_, F>,
        (at, leaf): (Remote<RawNode>, &Copy<'_>),
        bytes: Range<usize>,
    ) -> Result<(), IndexError> {
        let to = at.part(bytes.start as u64);
        if self.options.lock_read == LockRead::Apart || self.options.write_back == WriteBack::Alone {
            return self.write_back(client, held, to, &leaf.bytes[bytes]).await;
        }
        let (unlock, local) = held.release();
        match client.post(write(to, &leaf.bytes[bytes]).then_maybe(unlock)).await {
            Ok(_) => local.complete_with(Some((at.word(), leaf.bytes()))),
            Err(error) => {
                local.failed().await;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Writes back part of a node, and releases its lock.
    /// [1 RT; 2 without command combination, 1 if then the lock is handed over]
    pub(super) async fn write_back<F: Fabric>(
        &self,
        client: &Client<F>,
        held: Held<'_, F>,
        to: Remote<[u8]>,
        bytes: &[u8],
    ) -> Result<(), IndexError> {
        match self.options.write_back {
            _ if self.layout.sabotage == Some(Sabotage::UnlockFirst) => {
                held.give_up().await?;
                Ok(client.post(write(to, bytes)).await?)
            }
            WriteBack::Combined => {
                let (unlock, local) = held.release();
                let written = client.post(write(to, bytes).then_maybe(unlock)).await;
                self.released(local, written.map(drop)).await
            }
            WriteBack::Alone => {
                let written = client.post(write(to, bytes)).await;
                held.give_up().await?;
                Ok(written?)
            }
        }
    }

    /// Ends a release whose post was answered, or failed.
    pub(super) async fn released<F: Fabric>(
        &self,
        local: LocalRelease<'_, F>,
        written: Result<(), FabricError>,
    ) -> Result<(), IndexError> {
        match written {
            Ok(()) => local.complete(),
            Err(_) => local.failed().await,
        }
        Ok(written?)
    }
}
