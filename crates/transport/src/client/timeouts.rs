//! How long a compute node waits for memory nodes.

use std::time::Duration;

/// A memory node with pending requests that is silent for this long is lost.
pub const REPLY_MAX: Duration = Duration::from_secs(10);
/// How long connections that close wait for pending posts: longer than they take to detect a lost memory node. An
/// unlock that is never executed would leave its lock held by a live compute node forever.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(2 * REPLY_MAX.as_secs());
