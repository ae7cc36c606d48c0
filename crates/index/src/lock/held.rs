//! A held lock, and its release: first the global lock, by a verb chained after the write-back, then the local lock.

use super::acquire::NodeLocks;
use super::local::{GrantedLock, LocalGuard};
use super::{GlobalLock, LockWidth, Unlock};
use crate::coverage;
use crate::error::IndexError;
use farwood_fabric::{Client, Fabric, FabricError, LockWord, NodeId, Post};

/// A lock that this client holds.
#[must_use = "a held lock must be released"]
pub struct HeldLock<'a, F: Fabric> {
    pub(super) locks: &'a NodeLocks,
    pub(super) client: &'a Client<F>,
    pub(super) lock: GlobalLock,
    /// The word of the global lock while this client holds it.
    pub(super) word: LockWord,
    pub(super) local: LocalGuard<'a>,
    /// Whether the global lock is held. False during the acquisition and after the release.
    pub(super) global_held: bool,
}

impl<'a, F: Fabric> HeldLock<'a, F> {
    /// Records that the global lock is held.
    pub(super) fn with_global(mut self) -> Self {
        self.global_held = true;
        self
    }

    /// Releases the lock. The caller chains the verb, if there is one, after the write-back; there is none if the lock
    /// is handed over to the next client of this compute node. The caller completes the [`PendingRelease`] after the
    /// answer to the post.
    pub fn release(mut self) -> (Option<Unlock>, PendingRelease<'a, F>) {
        self.global_held = false;
        let hand_over = self.local.should_hand_over();
        let unlock = (!hand_over).then(|| self.unlock());
        let state = if hand_over { ReleaseState::HandOver } else { ReleaseState::Posted };
        (unlock, PendingRelease { held: self, state })
    }

    /// The memory node of the lock.
    pub fn node(&self) -> NodeId {
        self.lock.node()
    }

    /// Whether the previous holder handed the lock over.
    pub fn is_handed_over(&self) -> bool {
        self.local.handed_over().is_some()
    }

    /// Releases the lock as part of a WRITE whose last word frees it, or hands it over; then the WRITE leaves the lock
    /// word alone. The caller completes the [`PendingRelease`] after the answer to that WRITE.
    pub fn release_within(mut self) -> (WriteBackLock, PendingRelease<'a, F>) {
        self.global_held = false;
        let (lock, state) = if self.local.should_hand_over() {
            (WriteBackLock::Kept, ReleaseState::HandOver)
        } else {
            (WriteBackLock::Freed, ReleaseState::Posted)
        };
        (lock, PendingRelease { held: self, state })
    }

    /// Releases the lock without writing anything. [1 RT; 0 when it is handed over]
    pub async fn give_up(self) -> Result<(), IndexError> {
        self.give_up_with(None).await
    }

    /// As [`give_up`](Self::give_up). If the lock is handed over, its next holder also receives `node`: the address of
    /// the guarded node, and its bytes in memory.
    pub async fn give_up_with(self, node: Option<(u64, &[u8])>) -> Result<(), IndexError> {
        let client = self.client;
        let (unlock, local) = self.release();
        if let Some(unlock) = unlock
            && let Err(error) = client.post(unlock).await
        {
            local.failed().await;
            return Err(error.into());
        }
        local.complete_with(node);
        Ok(())
    }

    /// Releases the global lock without waiting for the answer.
    fn release_dropped(&self) {
        self.locks.release_dropped(self.client, self.lock, self.word);
    }

    /// The lock, to be handed over.
    fn granted(&self) -> GrantedLock {
        GrantedLock { lock: self.lock, word: self.word }
    }

    fn unlock(&self) -> Unlock {
        self.lock.release(self.locks.options.release, self.word)
    }
}

impl<F: Fabric> Drop for HeldLock<'_, F> {
    /// Frees the global lock of an operation that failed or was cancelled. The operation has no other verb in flight
    /// than those posted before this one, so the lock is free once this verb has been executed.
    fn drop(&mut self) {
        if self.global_held {
            self.release_dropped();
        }
    }
}

/// The effect of a write-back on the lock word at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBackLock {
    /// The WRITE includes the lock word, and frees the lock.
    Freed,
    /// The WRITE ends before the lock word, because the lock will be handed over.
    Kept,
}

/// A verb in flight that may acquire or free a global lock. Its client holds the local lock.
struct UnansweredVerb<'a, F: Fabric> {
    locks: &'a NodeLocks,
    client: &'a Client<F>,
    lock: GlobalLock,
    /// The word that the verb stores or expects.
    word: LockWord,
}

impl NodeLocks {
    /// Posts verbs of which one may acquire `lock` with the word `word`, or free it, and waits for the answer.
    #[inline]
    pub(super) async fn post_on_lock<F: Fabric, P: Post>(
        &self,
        client: &Client<F>,
        (lock, word): (GlobalLock, LockWord),
        post: P,
    ) -> Result<P::Output, FabricError> {
        let unanswered = UnansweredVerb { locks: self, client, lock, word };
        let answer = client.post(post).await;
        std::mem::forget(unanswered);
        answer
    }
}

impl<F: Fabric> Drop for UnansweredVerb<'_, F> {
    /// Frees the global lock of a cancelled operation, if it is held after the verb. A packed lock has no tag, so it
    /// stays held.
    fn drop(&mut self) {
        if self.locks.options.width == LockWidth::Word {
            self.locks.free_dropped(self.client, self.lock, self.word);
        }
    }
}

/// A lock whose unlock is in flight, or that is handed over when the write-back has been answered.
#[must_use = "complete it when the unlock has been answered"]
pub struct PendingRelease<'a, F: Fabric> {
    held: HeldLock<'a, F>,
    state: ReleaseState,
}

/// The progress of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReleaseState {
    /// The write-back is in flight; the lock will be handed over.
    HandOver,
    /// The unlock is in flight.
    Posted,
    /// The post has been answered, or has failed.
    Ended,
}

impl<F: Fabric> PendingRelease<'_, F> {
    /// Passes the local lock to the next client of the compute node: the write-back has been answered.
    pub fn complete(self) {
        self.complete_with(None);
    }

    /// As [`complete`](Self::complete). If the lock is handed over, its next holder also receives `node`: the address
    /// of the guarded node, and its bytes after the write-back.
    pub fn complete_with(mut self, node: Option<(u64, &[u8])>) {
        let state = std::mem::replace(&mut self.state, ReleaseState::Ended);
        if state == ReleaseState::HandOver && !self.held.local.hand_over(self.held.granted(), node) {
            // The operation of the next client was cancelled, and no other client waits.
            self.held.release_dropped();
        }
    }

    /// Frees the lock after a failed post that contained the unlock; the memory node may have executed the unlock or
    /// not. If the clients of this compute node share no local lock, and the fabric does not number the acquisitions,
    /// another of them may have taken the global lock since then, so this function leaves it held until this compute
    /// node leaves the pool. If the memory node is unreachable, a later operation frees the lock. [1 RT]
    pub async fn failed(mut self) {
        self.state = ReleaseState::Ended;
        self.held.client.fabric().record_coverage(coverage::RELEASE_FAILED);
        let HeldLock { locks, client, lock, word, .. } = self.held;
        if let Some(free) = locks.free_own(lock, word)
            && locks.post_on_lock(client, (lock, word), free).await.is_err()
        {
            // The caller reports the first error of the fabric, not this one.
            locks.record_uncertain(client, lock, word);
        }
    }
}

impl<F: Fabric> Drop for PendingRelease<'_, F> {
    /// Frees the global lock of a cancelled operation after its write-back. A posted unlock is in flight already, but
    /// may be lost with its connection.
    fn drop(&mut self) {
        let is_packed = self.held.locks.options.width == LockWidth::Packed;
        match self.state {
            ReleaseState::Posted if is_packed => {}
            ReleaseState::HandOver | ReleaseState::Posted => self.held.release_dropped(),
            ReleaseState::Ended => {}
        }
    }
}
