//! Locking the node that covers a key, and writing it back with its lock (Sherman Figure 7).

use super::Sherman;
use super::node::RawNode;
use super::options::{LockRead, WriteBack};
use super::position::{KeyPosition, LeafPointer, SearchTarget, Source, Traversal, locate, trust_fences};
use super::read::NodeCopy;
use crate::coverage;
use crate::error::IndexError;
use crate::lock::{HeldLock, PendingRelease};
use crate::mutant::Mutant;
use crate::op::Op;
use farwood_fabric::{Chain, Fabric, FabricError, Fetched, Remote, write};

/// A node whose lock this client holds, as it was read under the lock.
pub(super) struct LockedNode<'a, F: Fabric> {
    pub(super) held: HeldLock<'a, F>,
    pub(super) at: Remote<RawNode>,
    pub(super) node: NodeCopy<'a>,
    /// The second node that was read under the lock.
    pub(super) beside: Option<NodeCopy<'a>>,
}

/// A node to lock.
#[derive(Clone, Copy)]
pub(super) struct ToLock {
    pub(super) at: Remote<RawNode>,
    /// The origin of the pointer.
    pub(super) source: Source,
    /// A second node to read under the same lock.
    pub(super) beside: Option<Remote<RawNode>>,
}

/// Bytes to write back, and their address.
pub(super) struct Write<'n> {
    pub(super) to: Remote<[u8]>,
    pub(super) bytes: &'n [u8],
}

/// The address of a node and its bytes after a write-back, for a lock that is handed over.
pub(super) type WholeNode<'n> = Option<(u64, &'n [u8])>;

impl<'a, F: Fabric> Op<'a, F, Sherman> {
    /// Finds, locks and reads the leaf that covers `key`, to search it. [as [`leaf_for`](Self::leaf_for) and
    /// [`lock_covering`](Self::lock_covering)]
    pub(super) async fn lock_leaf_of(self, key: &[u8]) -> Result<LockedNode<'a, F>, IndexError> {
        let from = self.leaf_for(key).await?;
        let locked = self.lock_leaf(from, key).await?;
        self.charge_search();
        Ok(locked)
    }

    /// Locks and reads the leaf that covers `key`, as [`lock_covering`](Self::lock_covering) does.
    pub(super) async fn lock_leaf(
        self,
        from: LeafPointer,
        key: &[u8],
    ) -> Result<LockedNode<'a, F>, IndexError> {
        let node = ToLock { at: from.at, source: from.source, beside: None };
        match self.lock_covering(node, SearchTarget { level: 0, key }).await? {
            Some(locked) => Ok(locked),
            None => unreachable!("every tree has leaves"),
        }
    }

    /// Locks and reads the node that covers `target`, starting at `first` and moving right. Between two nodes the
    /// client holds no lock: they may share one. Returns `None` if the tree no longer has that level. [2 RT, 1 if lock
    /// and READ share a doorbell; for each step to the right the same, and 1 more]
    pub(super) async fn lock_covering(
        self,
        first: ToLock,
        target: SearchTarget<'_>,
    ) -> Result<Option<LockedNode<'a, F>>, IndexError> {
        let mut at = first.at;
        let mut traversal = Traversal::new(self.restarts(), first.source);
        loop {
            let locked = self.lock_and_read(at, first.beside).await?;
            let position = locate(&locked.node, target.level, target.key);
            let position = trust_fences(position, &locked.node, traversal.source);
            if position == KeyPosition::Here {
                return Ok(Some(locked));
            }
            self.hit(coverage::LOCKED_SPLIT_NODE);
            let LockedNode { held, node, .. } = locked;
            held.give_up().await?;
            at = match target.level {
                0 => self.next_leaf(at, &node, position, target.key, &mut traversal).await?,
                _ => match self.next_inner(at, &node, position, target, &mut traversal).await? {
                    Some(at) => at,
                    None => return Ok(None),
                },
            };
        }
    }

    /// Acquires the lock of the node at `at` and reads the node: in the doorbell of the lock if the variant requires it
    /// and the fabric allows it, otherwise after the lock and together with the node at `beside`. [2 RT; 1 for both in
    /// one doorbell, or if the lock is handed over; 0 if the node is handed over with the lock]
    async fn lock_and_read(
        self,
        at: Remote<RawNode>,
        beside: Option<Remote<RawNode>>,
    ) -> Result<LockedNode<'a, F>, IndexError> {
        let tree = self.index;
        let locks = self.on(&tree.locks);
        let in_order = self.fabric().capabilities().atomic_then_read;
        let (held, copy) = if tree.options.lock_read == LockRead::Together && in_order && beside.is_none() {
            locks.acquire_and_read(at, at, tree.layout.node_bytes).await?
        } else {
            (locks.acquire(at).await?, None)
        };
        match self.read_under_lock(at, copy, beside).await {
            Ok((node, beside)) => Ok(LockedNode { held, at, node, beside }),
            Err(error) => {
                held.give_up().await?;
                Err(error)
            }
        }
    }

    /// Returns the node at `at`, whose lock this client holds, from the `copy` that was read with the lock if there is
    /// one, and the node at `beside`. [1 RT; 0 with a copy]
    async fn read_under_lock(
        self,
        at: Remote<RawNode>,
        copy: Option<Fetched<RawNode>>,
        beside: Option<Remote<RawNode>>,
    ) -> Result<(NodeCopy<'a>, Option<NodeCopy<'a>>), IndexError> {
        if let Some(beside) = beside {
            let (node, beside) = self.read_both(at, beside).await?;
            return Ok((node, Some(beside)));
        }
        let node = match copy.map(|copy| copy.check(&self.index.layout)) {
            Some(Ok(copy)) => self.decode(at, copy),
            Some(Err(_)) | None => self.read_locked(at).await,
        };
        Ok((node?, None))
    }

    /// Writes back part of a node and releases its lock. If the lock is handed over, the next holder receives `whole`
    /// with it. [1 RT; 2 without command combination, 1 if the lock is then handed over]
    pub(super) async fn write_back(
        self,
        held: HeldLock<'_, F>,
        part: Write<'_>,
        whole: WholeNode<'_>,
    ) -> Result<(), IndexError> {
        let Write { to, bytes } = part;
        match self.index.options.write_back {
            _ if self.index.layout.mutant == Some(Mutant::UnlockFirst) => {
                held.give_up().await?;
                Ok(self.client.post(write(to, bytes)).await?)
            }
            WriteBack::Combined => {
                let (unlock, local) = held.release();
                let written = self.client.post(write(to, bytes).then_maybe(unlock)).await;
                self.finish_release(local, written.map(drop), whole).await
            }
            WriteBack::Alone => {
                let written = self.client.post(write(to, bytes)).await;
                held.give_up().await?;
                Ok(written?)
            }
        }
    }

    /// Completes a release whose post was answered, or failed.
    pub(super) async fn finish_release(
        self,
        local: PendingRelease<'_, F>,
        written: Result<(), FabricError>,
        whole: WholeNode<'_>,
    ) -> Result<(), IndexError> {
        match written {
            Ok(()) => local.complete_with(whole),
            Err(_) => local.failed().await,
        }
        Ok(written?)
    }
}
