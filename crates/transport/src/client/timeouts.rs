//! The time limits of a compute node's waits for memory nodes.

use std::time::Duration;

/// A memory node with pending requests that sends nothing for this time is lost. The client reconnects then, and the
/// requests fail when the new connection is established or has failed.
pub const REPLY_MAX: Duration = Duration::from_secs(10);
/// The time that a closing connection waits for its pending posts. One of them can be an unlock; if it were dropped,
/// the lock would stay held, because its compute node is still alive. Longer than [`REPLY_MAX`], so a lost memory node
/// is detected first.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(2 * REPLY_MAX.as_secs());
