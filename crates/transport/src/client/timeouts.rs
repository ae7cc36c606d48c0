//! How long a compute node waits for memory nodes.

use std::time::Duration;

/// A memory node that was asked and says nothing for this long is lost.
pub const REPLY_MAX: Duration = Duration::from_secs(10);
/// How long a line that ends waits for what was posted: longer than a link takes to find that its memory node is lost.
/// An unlock that never lands would leave its lock to a compute node that lives, and so for ever.
pub(crate) const FAREWELL_MAX: Duration = Duration::from_secs(2 * REPLY_MAX.as_secs());
