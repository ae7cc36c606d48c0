//! Bounded retries: the number of attempts, the pauses between them, and the error at the limit.

use crate::error::IndexError;
use farwood_fabric::{Client, Fabric, client_table};

/// The bound of a retry loop. Every attempt but the first yields to other tasks before it; later ones sleep.
#[derive(Debug)]
pub struct Retry {
    operation: &'static str,
    tries: u32,
    tries_max: u32,
}

/// Attempts that follow each other without sleep.
const EAGER: u32 = 32;
/// First pause after them, nanoseconds; it grows up to [`PAUSE_NS_MAX`].
const PAUSE_NS: u64 = 1_000;
/// Longest pause, nanoseconds.
const PAUSE_NS_MAX: u64 = 1_000_000;

impl Retry {
    /// A bound of `tries_max` attempts of `operation`.
    pub const fn new(operation: &'static str, tries_max: u32) -> Self {
        Self { operation, tries: 0, tries_max }
    }

    /// The operation.
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// The number of failed attempts.
    pub const fn tries(&self) -> u32 {
        self.tries
    }

    /// Counts a failed attempt and pauses before the next one.
    ///
    /// # Errors
    /// [`IndexError::Exhausted`] after the last attempt.
    pub async fn again<F: Fabric>(&mut self, client: &Client<F>) -> Result<(), IndexError> {
        self.tries += 1;
        if self.tries >= self.tries_max {
            return Err(IndexError::Exhausted { operation: self.operation, tries: self.tries });
        }
        let pause = match self.tries.checked_sub(EAGER) {
            None => 0,
            Some(late) => (PAUSE_NS << late.min(10)).min(PAUSE_NS_MAX),
        };
        client.fabric().sleep(jittered(pause, client.fabric().now())).await;
        Ok(())
    }
}

/// Returns a pause between half of `pause` and all of it, derived from the clock: two clients with equal pauses would
/// conflict again and again, each with a lock that the other one needs for a moment.
fn jittered(pause: u64, now: u64) -> u64 {
    let part = now.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    pause / 2 + ((pause / 2 * part) >> 32)
}

/// Revokes the identities of all crashed clients; the last WRITE of each is whole then.
pub(crate) async fn reap_crashed_clients<F: Fabric>(client: &Client<F>) -> Result<(), IndexError> {
    for resident in client_table::attached_clients(client).await? {
        if resident.client != client.fabric().identity() {
            client.fabric().revoke(resident.client).await?;
        }
    }
    Ok(())
}
