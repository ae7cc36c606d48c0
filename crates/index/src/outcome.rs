//! Outcomes of the operations that change one key of an ordered index.

/// Whether a key was in the index before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyBefore {
    Present,
    Absent,
}

/// The outcome of `put`, which always stores its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The key was absent.
    Inserted,
    /// The key was present; its value is replaced.
    Replaced,
}

/// The outcome of `insert`, which stores its value under an absent key only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertOutcome {
    /// The key was absent; the value is stored.
    Inserted,
    /// The key was present; nothing has changed.
    Exists,
}

/// The outcome of `update`, which stores its value under a present key only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The key was present; its value is replaced.
    Updated,
    /// The key was absent; nothing has changed.
    Absent,
}

/// The outcome of `remove`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveOutcome {
    /// The key was present; it is removed.
    Removed,
    /// The key was absent; nothing has changed.
    Absent,
}

impl From<KeyBefore> for PutOutcome {
    fn from(before: KeyBefore) -> Self {
        match before {
            KeyBefore::Present => Self::Replaced,
            KeyBefore::Absent => Self::Inserted,
        }
    }
}

impl From<KeyBefore> for InsertOutcome {
    fn from(before: KeyBefore) -> Self {
        match before {
            KeyBefore::Present => Self::Exists,
            KeyBefore::Absent => Self::Inserted,
        }
    }
}

impl From<KeyBefore> for UpdateOutcome {
    fn from(before: KeyBefore) -> Self {
        match before {
            KeyBefore::Present => Self::Updated,
            KeyBefore::Absent => Self::Absent,
        }
    }
}

impl From<KeyBefore> for RemoveOutcome {
    fn from(before: KeyBefore) -> Self {
        match before {
            KeyBefore::Present => Self::Removed,
            KeyBefore::Absent => Self::Absent,
        }
    }
}

impl PutOutcome {
    /// Whether the key was present before.
    pub const fn replaced(self) -> bool {
        matches!(self, Self::Replaced)
    }
}

impl InsertOutcome {
    /// Whether the value is stored.
    pub const fn inserted(self) -> bool {
        matches!(self, Self::Inserted)
    }
}

impl UpdateOutcome {
    /// Whether the value is replaced.
    pub const fn updated(self) -> bool {
        matches!(self, Self::Updated)
    }
}

impl RemoveOutcome {
    /// Whether the key was present before.
    pub const fn removed(self) -> bool {
        matches!(self, Self::Removed)
    }
}
