//! The communication between clients and the server of a spatial index: messages, the rings that carry them, and
//! heartbeats.

pub(super) mod changes;
pub(super) mod heartbeat;
pub(super) mod message;
pub(super) mod records;
pub(super) mod ring;

/// The way in which a server detects requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotificationMode {
    /// The server polls the rings (Catfish §III-A).
    Polling,
    /// Each request comes with an immediate that wakes the connection's flow (Catfish §IV-B, event mode).
    #[default]
    Event,
}
