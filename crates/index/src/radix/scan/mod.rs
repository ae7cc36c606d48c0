//! Range scans in both directions.

mod batch;
mod cursor;
mod start;

pub use batch::Entries;
