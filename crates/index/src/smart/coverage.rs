//! Marks on the rare paths that are SMART's own ([`radix::tree::MARKS`](crate::radix::tree::MARKS) has the tree's, and
//! [`crate::MARKS`] those that all indexes share).

/// A READ was another client's, too.
pub(super) const READ_SHARED: &str = "smart: a READ shared";
/// A search began where the way of its key had ended before.
pub(super) const SHORTCUT: &str = "smart: a search begun at a shortcut";
/// A WRITE was another client's, too.
pub(super) const WRITE_SHARED: &str = "smart: a WRITE shared";
/// All of them, by the words under which a fabric counts them.
pub const MARKS: &[&str] = &[SHORTCUT, READ_SHARED, WRITE_SHARED];
