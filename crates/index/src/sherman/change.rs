//! Changes of one entry: put, insert, update, remove (Sherman Figure 7).

use super::descend::{Copy, HALF_WRITTEN, Source, Whereabouts, believed, damaged, whereabouts};
use super::layout::Values;
use super::leaf::{Change, Placed};
use super::node::RawNode;
use super::options::{LockRead, WriteBack};
use super::{Sherman, Way};
use crate::error::IndexError;
use crate::lock::{Held, LocalRelease};
use crate::marks;
use crate::memory::overflow::Link;
use crate::op::Op;
use crate::sabotage::Sabotage;
use farwood_fabric::{Chain, Client, Fabric, FabricError, Fetched, Remote, write};

/// What became of a change.
pub(super) struct Exchanged {
    /// Whether the key was there before.
    pub(super) answer: bool,
    /// Whether the entry has changed.
    pub(super) placed: bool,
    /// The value out of line that nothing links any more.
    pub(super) replaced: Option<Link>,
}

/// A node whose lock this client holds, as it was read under it.
pub(super) struct Locked<'a, F: Fabric> {
    pub(super) held: Held<'a, F>,
    /// Where it is.
    pub(super) at: Remote<RawNode>,
    pub(super) node: Copy<'a>,
    /// The other node that was to be read.
    pub(super) beside: Option<Copy<'a>>,
}

impl Sherman {
    /// Stores `value` under `key`; yields whether the key was there before.
    /// [3 RT when the cache knows the leaf: lock, read, write back with the unlock; 2 when the lock is handed
    /// over, or read with the node in one doorbell; 1 when both are handed over; 4 without command combination; a
    /// split adds 3 per level, 1 where the sibling lies on another memory node, and 5 where it fills a used room]
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
        match self.layout.values {
            Values::Fixed => Ok(self.exchange(client, key, change, operation).await?.answer),
            Values::AnyLength => self.change_any_length(client, key, change, operation).await,
        }
    }

    /// Makes a change of an entry, whose value has the length that entries have for it.
    pub(super) async fn exchange<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        change: Change<'_>,
        operation: &'static str,
    ) -> Result<Exchanged, IndexError> {
        let from = self.leaf_for(client, key).await?;
        let Locked { held, at, node: mut leaf, .. } = self.lock_leaf(client, from, key, operation).await?;
        let replaced = leaf.link_of(key);
        match leaf.place(key, change) {
            Ok(Placed::Entry { bytes, existed }) => {
                let to = at.part(bytes.start as u64);
                let whole = self.options.lock_read == LockRead::Together;
                let whole = whole.then(|| (at.word(), leaf.bytes()));
                self.write_back(client, held, (to, &leaf.bytes[bytes]), whole).await?;
                if change == Change::Remove && leaf.looks_for_neighbour() {
                    Box::pin(self.relieve(client, key)).await;
                }
                Ok(Exchanged { answer: existed, placed: true, replaced })
            }
            Ok(Placed::Unchanged) => {
                held.give_up().await?;
                let existed = !matches!(change, Change::Update(_) | Change::Remove);
                Ok(Exchanged { answer: existed, placed: false, replaced: None })
            }
            Ok(Placed::Full) => {
                let Some(value) = change.value() else { unreachable!("a removal needs no room") };
                self.split_leaf(client, held, at, leaf, (key, value)).await?;
                Ok(Exchanged { answer: false, placed: true, replaced: None })
            }
            Err(_) => {
                held.give_up().await?;
                Err(damaged(operation, at, HALF_WRITTEN.to_owned()))
            }
        }
    }

    /// Locks and reads the leaf that covers `key`, as [`lock_covering`](Self::lock_covering) does.
    pub(super) async fn lock_leaf<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        from: (Remote<RawNode>, Source),
        key: &[u8],
        operation: &'static str,
    ) -> Result<Locked<'a, F>, IndexError> {
        match self.lock_covering(client, from, (0, key), None, operation).await? {
            Some(locked) => Ok(locked),
            None => unreachable!("every tree has leaves"),
        }
    }

    /// Locks and reads the node of `level` that covers `key`, at `at` or right of it, and reads the node at `beside`,
    /// if one is given, under the same lock. Between two nodes no lock is held: they may share one. `None`: the tree
    /// is not that high any more. [2 RT, 1 where lock and READ go together; as much, and 1, for each step]
    pub(super) async fn lock_covering<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        (mut at, source): (Remote<RawNode>, Source),
        (level, key): (u8, &[u8]),
        beside: Option<Remote<RawNode>>,
        operation: &'static str,
    ) -> Result<Option<Locked<'a, F>>, IndexError> {
        let mut way = Way::new(operation, source);
        loop {
            let locked = self.lock_and_read(client, at, beside, operation).await?;
            let seen = believed(whereabouts(&locked.node, level, key), &locked.node, way.source);
            if seen == Whereabouts::Here {
                return Ok(Some(locked));
            }
            client.fabric().mark(marks::LOCKED_ASTRAY);
            let Locked { held, node, .. } = locked;
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

    /// Takes the lock of the node at `at`, and reads the node, with the lock where that is wanted and safe, or else
    /// with the node at `beside`. [2 RT; 1 for both together, or where the lock is handed over; 0 where the node comes
    /// with it]
    async fn lock_and_read<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        at: Remote<RawNode>,
        beside: Option<Remote<RawNode>>,
        operation: &'static str,
    ) -> Result<Locked<'a, F>, IndexError> {
        let in_order = client.fabric().capabilities().atomic_then_read;
        let (held, copy) = if self.options.lock_read == LockRead::Together && in_order && beside.is_none() {
            Op::new(&self.locks, client, operation).acquire_and_read(at, self.layout.node_bytes).await?
        } else {
            (self.locks.acquire(client, at, operation).await?, None)
        };
        match self.read_under_lock(client, (at, copy), beside, operation).await {
            Ok((node, beside)) => Ok(Locked { held, at, node, beside }),
            Err(error) => {
                held.give_up().await?;
                Err(error)
            }
        }
    }

    /// The node at `at`, whose lock this client holds, from the copy that came with the lock, if one did, and the node
    /// at `beside`. [1 RT; 0 with a copy]
    async fn read_under_lock<F: Fabric>(
        &self,
        client: &Client<F>,
        (at, copy): (Remote<RawNode>, Option<Fetched<RawNode>>),
        beside: Option<Remote<RawNode>>,
        operation: &'static str,
    ) -> Result<(Copy<'_>, Option<Copy<'_>>), IndexError> {
        if let Some(beside) = beside {
            let (node, beside) = self.read_both(client, at, beside, operation).await?;
            return Ok((node, Some(beside)));
        }
        let node = match copy.map(|copy| copy.check(&self.layout)) {
            Some(Ok(copy)) => self.decode(at, copy, operation),
            Some(Err(_)) | None => self.read_locked(client, at, operation).await,
        };
        Ok((node?, None))
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

    /// Writes back part of a node, and releases its lock. Where that is handed over, the next holder gets `whole` with
    /// it, the node as it is then. [1 RT; 2 without command combination, 1 if then the lock is handed over]
    pub(super) async fn write_back<F: Fabric>(
        &self,
        client: &Client<F>,
        held: Held<'_, F>,
        (to, bytes): (Remote<[u8]>, &[u8]),
        whole: Option<(u64, &[u8])>,
    ) -> Result<(), IndexError> {
        match self.options.write_back {
            _ if self.layout.sabotage == Some(Sabotage::UnlockFirst) => {
                held.give_up().await?;
                Ok(client.post(write(to, bytes)).await?)
            }
            WriteBack::Combined => {
                let (unlock, local) = held.release();
                let written = client.post(write(to, bytes).then_maybe(unlock)).await;
                self.released(local, written.map(drop), whole).await
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
        whole: Option<(u64, &[u8])>,
    ) -> Result<(), IndexError> {
        match written {
            Ok(()) => local.complete_with(whole),
            Err(_) => local.failed().await,
        }
        Ok(written?)
    }
}
