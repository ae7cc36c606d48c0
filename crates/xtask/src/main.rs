//! The house checks.
fn main() {}
