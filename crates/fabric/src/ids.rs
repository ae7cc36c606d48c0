//! Identities of clients.

use std::fmt;

/// Slots of the client table.
pub const CLIENTS_MAX: usize = 4096;

/// The identity of one attachment to a pool: a slot of the client table, under one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId {
    /// Slot of the client table.
    pub slot: u16,
    /// Number of earlier attachments that used the slot.
    pub epoch: u32,
}

impl ClientId {
    /// The identity of a process that only reads: it has no slot of the client table, and no lock names it.
    pub const NONE: Self = Self { slot: u16::MAX, epoch: 0 };
}

const _: () = assert!(ClientId::NONE.slot as usize >= CLIENTS_MAX);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.epoch)
    }
}
