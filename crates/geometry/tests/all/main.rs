//! Tests of the crate.

mod bounds;
mod collections;
mod formats;
mod shapely;
