//! The clients of a spatial index: searches by READ, requests to the server, and the switch between the two.

pub mod adaptive;
mod path_comparison;
pub(super) mod reader;
mod records;
pub(super) mod ring_rpc;
pub(super) mod rpc;
pub(super) mod switch;
