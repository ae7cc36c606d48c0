//! The addition of memory nodes to a pool while clients work.

/// The addition of memory nodes to a simulated pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAddition {
    /// Memory nodes before.
    pub nodes_before: u16,
    /// Virtual time of the addition, nanoseconds. Each client learns of it when it looks for added memory nodes, or
    /// meets a pointer to one.
    pub at_ns: u64,
}
