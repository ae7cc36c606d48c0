//! Bounded loops: how often an operation tries again, how long it pauses, and what it says when it gives up.

use crate::error::IndexError;
use farwood_fabric::{Client, Fabric, client_table};

/// A loop's bound. Every try but the first lets others run; later ones sleep.
#[derive(Debug)]
pub struct Retry {
    operation: &'static str,
    tries: u32,
    tries_max: u32,
}

/// Tries that follow each other without sleeping.
const EAGER: u32 = 32;
/// Pause after that, nanoseconds; it grows up to [`PAUSE_MAX`].
const PAUSE: u64 = 1_000;
/// Longest pause, nanoseconds.
const PAUSE_MAX: u64 = 1_000_000;

impl Retry {
    /// At most `tries_max` tries of `operation`.
    pub const fn new(operation: &'static str, tries_max: u32) -> Self {
        Self { operation, tries: 0, tries_max }
    }

    /// The operation that is tried.
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// How many tries there were.
    pub const fn tries(&self) -> u32 {
        self.tries
    }

    /// Before another try.
    ///
    /// # Errors
    /// [`IndexError::Exhausted`] after the last.
    pub async fn again<F: Fabric>(&mut self, client: &Client<F>) -> Result<(), IndexError> {
        self.tries += 1;
        if self.tries >= self.tries_max {
            return Err(IndexError::Exhausted { operation: self.operation, tries: self.tries });
        }
        let pause = match self.tries.checked_sub(EAGER) {
            None => 0,
            Some(late) => (PAUSE << late.min(10)).min(PAUSE_MAX),
        };
        client.fabric().sleep(out_of_step(pause, client.fabric().now())).await;
        Ok(())
    }
}

/// Between half of `pause` and all of it, by what the clock shows: two clients that pause for as long as each other
/// come into each other's way again and again, each with a lock that the other wants for a moment.
fn out_of_step(pause: u64, now: u64) -> u64 {
    let part = now.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    pause / 2 + ((pause / 2 * part) >> 32)
}

/// Ends the identities of all clients that are gone: what one was writing is whole then.
pub(crate) async fn bury_the_dead<F: Fabric>(client: &Client<F>) -> Result<(), IndexError> {
    for resident in client_table::residents(client).await? {
        if resident.client != client.fabric().identity() {
            client.fabric().revoke(resident.client).await?;
        }
    }
    Ok(())
}
