//! The farwood command.
fn main() {}
