//! The library as programs use it.

mod damage;
mod dropped;
mod examples;
mod fork;
mod full;
mod library;
mod random;
mod smart;
