//! Tree indexes for far memory, generic over the fabric.
#![forbid(unsafe_code)]

pub mod alloc;
pub mod cache;
pub mod catfish;
pub mod consistency;
mod error;
pub mod extent;
mod key;
pub mod lock;
mod marks;
pub mod reclaim;
pub mod retry;
#[doc(hidden)]
pub mod sabotage;
pub mod sherman;

pub use error::IndexError;
pub use marks::MARKS;
