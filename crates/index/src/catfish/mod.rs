//! Catfish.
pub mod layout;
pub mod rectangle;
mod draft;
mod rstar;
mod scan;
