//! Scans in both directions. The files are used in this order: `range` starts a scan (`start`) and reads it batch
//! by batch (`batch`); both expand nodes (`expand`) to items (`items`) within the bounds of a cursor
//! (`cursor`).

mod batch;
mod cursor;
mod entries;
mod expand;
mod items;
mod range;
mod start;

pub use entries::RadixEntries;
