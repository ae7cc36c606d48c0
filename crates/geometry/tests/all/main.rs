//! Tests of the crate.

mod bounds;
mod collections;
mod formats;
mod invalid;
mod shapely;
