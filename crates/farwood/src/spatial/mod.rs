//! Spatial indexes: rectangles that many processes share (Catfish).

mod async_spatial;
mod blocking_lookup;
mod caller;
mod connection;
mod contents;
mod editor;
#[cfg(feature = "geometry")]
mod exact;
mod idle_rings;
#[cfg(feature = "tcp")]
mod idle_sockets;
mod index;
mod lookup;
mod lookup_kinds;
mod many;
mod path_choice;
mod records;
mod rtree;
mod search_options;
mod server;
mod server_lease;
mod session;
#[cfg(feature = "tcp")]
mod socket;
#[cfg(feature = "tcp")]
mod socket_server;
mod utilisation;

pub use async_spatial::AsyncSpatial;
#[doc(hidden)]
pub use connection::{Connection, ServerLocation};
pub use contents::{Contents, InvalidContents};
pub use editor::Editor;
#[cfg(feature = "geometry")]
pub use exact::NearestOptions;
#[cfg(feature = "geometry")]
#[doc(inline)]
pub use farwood_geometry as geometry;
pub use farwood_index::catfish::adaptive::{BackOffRule, BackOffSettings};
pub use farwood_index::catfish::{
    CHANGES_MAX, CatfishConfig, CatfishProblem, CatfishReport, Change, CoordinateSystem, IdKind,
    InvalidRectangle, InvalidWindow, Item, Near, NotificationMode, OutsideDegrees, Query, Record, RecordId,
    Rectangle, Relation, SearchSink, ServerStats, TEXT_MAX,
};
pub use index::Spatial;
#[doc(hidden)]
pub use index::parts;
pub use lookup::SearchStats;
pub use rtree::RTree;
pub use search_options::{SearchMode, SearchOptions};
pub use server::{ServeOptions, ServerMonitor};
pub use session::SpatialSession;
#[cfg(feature = "tcp")]
#[doc(hidden)]
pub use socket::Socket;
