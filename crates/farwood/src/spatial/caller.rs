//! The caller of an asynchronous operation: a session, or an async handle.

use crate::observe::MeteredClient;
use std::time::{Duration, Instant};

/// The longest time that a call of an async handle waits for a connection while other clients use all of them.
const CONNECTION_WAIT_MAX: Duration = Duration::from_mins(1);

/// A session or an async handle during one call.
#[derive(Clone, Copy)]
pub(super) struct Caller<'c> {
    pub(super) client: &'c MeteredClient,
    /// The start of the call; `None`: its first poll.
    pub(super) begun: Option<Instant>,
    /// The longest time that the call waits for a connection while other clients use all of them.
    pub(super) connection_wait: Duration,
}

impl<'c> Caller<'c> {
    pub(super) fn session(client: &'c MeteredClient) -> Self {
        Self { client, begun: None, connection_wait: Duration::ZERO }
    }

    /// A call of an async handle, which began before this thread executes it.
    pub(super) fn handle(client: &'c MeteredClient, begun: Instant) -> Self {
        Self { client, begun: Some(begun), connection_wait: CONNECTION_WAIT_MAX }
    }
}
