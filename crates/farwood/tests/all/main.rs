//! The library as programs use it.

mod examples;
mod fork;
mod library;
mod smart;
