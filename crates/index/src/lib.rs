//! Tree indexes for far memory, generic over the fabric.
#![forbid(unsafe_code)]

pub mod cache;
pub mod catfish;
pub mod combine;
#[cfg(test)]
mod combine_tests;
pub mod consistency;
mod error;
mod key;
mod lifecycle;
pub mod lock;
mod marks;
pub mod memory;
mod op;
pub mod ordered;
mod params;
mod queue;
pub mod radix;
mod range;
pub mod retry;
#[doc(hidden)]
pub mod sabotage;
pub mod sherman;
pub mod smart;
pub mod sphinx;
mod sync;
mod variant;

pub use error::IndexError;
pub use key::successor;
pub use lifecycle::drop_index;
pub use marks::MARKS;
