//! Spatial indexes: rectangles that many processes share (Catfish).

mod connection;
mod editor;
mod index;
mod server;
#[cfg(feature = "tcp")]
mod socket;
#[cfg(feature = "tcp")]
mod socket_server;

#[doc(hidden)]
pub use connection::{Connection, ServerLocation};
pub use editor::Editor;
pub use farwood_index::catfish::{
    CHANGES_MAX, CatfishConfig, CatfishProblem, CatfishReport, Change, InvalidRectangle, Item, Near,
    NotificationMode, Query, Rectangle, Relation,
};
pub use index::Spatial;
#[doc(hidden)]
pub use index::parts;
pub use server::ServeOptions;
#[cfg(feature = "tcp")]
#[doc(hidden)]
pub use socket::Socket;
