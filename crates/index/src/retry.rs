//! Bounded retries: the number of attempts, the pauses between them, and the error at the limit.
//!
//! An operation makes no progress if other clients change the objects faster, if it waits for a stopped client, or if
//! memory is damaged. A client that makes other operations wait holds a lock during that time. So a retry loop that
//! [watches](Retry::watching) the lock tables reads them at intervals: if the operation still fails and none of
//! `LOOKS_MAX` consecutive reads found a held lock, no client is responsible, and the memory is damaged.

use crate::error::IndexError;
use crate::lock::{LockMemory, LockOptions, is_any_held};
use farwood_fabric::{Client, Fabric, client_table};

/// The bound of a retry loop. Before every attempt except the first, the client yields to other tasks; before later
/// ones, it sleeps.
#[derive(Debug)]
pub struct Retry {
    operation: &'static str,
    tries: u32,
    tries_max: u32,
    /// The locks of the index, if an operation that fails while none is held proves damage.
    locks: Option<LockOptions>,
    /// Consecutive reads of the lock tables that found no held lock.
    looks: u32,
}

/// Failed attempts between two reads of the lock tables: a tenth of a second with their pauses.
const TRIES_PER_LOOK: u32 = 128;
/// Consecutive reads without a held lock that prove damage: about a second, longer than a running client needs between
/// two verbs.
const LOOKS_MAX: u32 = 8;

/// Attempts that follow each other without sleep.
const EAGER: u32 = 32;
/// First pause after them, nanoseconds; it grows up to [`PAUSE_NS_MAX`].
const PAUSE_NS: u64 = 1_000;
/// Longest pause, nanoseconds.
const PAUSE_NS_MAX: u64 = 1_000_000;

impl Retry {
    /// A bound of `tries_max` attempts of `operation`.
    pub const fn new(operation: &'static str, tries_max: u32) -> Self {
        Self { operation, tries: 0, tries_max, locks: None, looks: 0 }
    }

    /// Distinguishes damage from contention by the lock tables of the index. Locks inside nodes are in no table.
    #[must_use]
    pub fn watching(self, locks: LockOptions) -> Self {
        let locks = (locks.memory != LockMemory::Node).then_some(locks);
        Self { locks, ..self }
    }

    /// The operation.
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// The number of failed attempts.
    pub const fn tries(&self) -> u32 {
        self.tries
    }

    /// Reads the lock tables; returns whether the reads so far prove damage. [1 RT per 64 KiB of lock table]
    async fn is_damage<F: Fabric>(&mut self, client: &Client<F>) -> Result<bool, IndexError> {
        let Some(locks) = self.locks else { return Ok(false) };
        self.looks = if is_any_held(client, locks).await? { 0 } else { self.looks + 1 };
        Ok(self.looks >= LOOKS_MAX)
    }

    /// Counts a failed attempt and pauses before the next one. [0 RT; after many attempts, a read of the lock tables]
    ///
    /// # Errors
    /// [`IndexError::Exhausted`] after the last attempt; [`IndexError::Damaged`] if no client is responsible;
    /// [`IndexError::Unfinished`] in both cases if the client may only read.
    pub async fn again<F: Fabric>(&mut self, client: &Client<F>) -> Result<(), IndexError> {
        self.count().map_err(|error| self.unfinished(client).unwrap_or(error))?;
        if self.tries.is_multiple_of(TRIES_PER_LOOK) && self.is_damage(client).await? {
            if let Some(unfinished) = self.unfinished(client) {
                return Err(unfinished);
            }
            let what = format!("{} attempts failed, and no client holds a lock", self.tries);
            return Err(IndexError::Damaged {
                operation: self.operation,
                at: "an unknown address".to_owned(),
                what,
            });
        }
        self.pause(client).await;
        Ok(())
    }

    /// The error of a client that may only read, if a client that may write would have completed or undone the change
    /// that stops this operation.
    fn unfinished<F: Fabric>(&self, client: &Client<F>) -> Option<IndexError> {
        let stops = !client.may_write() && self.locks.is_some();
        stops.then_some(IndexError::Unfinished { operation: self.operation, by: None })
    }

    /// Counts an attempt that failed because another client changed the object in between, and pauses before the next
    /// one. The change proves that the memory is not damaged. [0 RT]
    ///
    /// # Errors
    /// [`IndexError::Exhausted`] after the last attempt.
    pub async fn again_after_change<F: Fabric>(&mut self, client: &Client<F>) -> Result<(), IndexError> {
        self.looks = 0;
        self.count()?;
        self.pause(client).await;
        Ok(())
    }

    fn count(&mut self) -> Result<(), IndexError> {
        self.tries += 1;
        if self.tries >= self.tries_max {
            return Err(IndexError::Exhausted { operation: self.operation, tries: self.tries });
        }
        Ok(())
    }

    async fn pause<F: Fabric>(&self, client: &Client<F>) {
        let pause = match self.tries.checked_sub(EAGER) {
            None => 0,
            Some(late) => (PAUSE_NS << late.min(10)).min(PAUSE_NS_MAX),
        };
        client.fabric().sleep(jittered(pause, client.fabric().now())).await;
    }
}

/// Returns a pause between half of `pause` and all of it, derived from the clock: two clients with equal pauses would
/// conflict repeatedly, each with a lock that the other one needs for a moment.
fn jittered(pause: u64, now: u64) -> u64 {
    let part = now.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    pause / 2 + ((pause / 2 * part) >> 32)
}

/// Revokes the identities of all crashed clients; the last WRITE of each is complete then. A client whose slot is
/// damaged cannot be identified, and keeps its slot.
pub(crate) async fn reap_crashed_clients<F: Fabric>(client: &Client<F>) -> Result<(), IndexError> {
    for resident in client_table::load(client).await?.attached {
        if resident.client != client.fabric().identity() {
            client.fabric().revoke(resident.client).await?;
        }
    }
    Ok(())
}
