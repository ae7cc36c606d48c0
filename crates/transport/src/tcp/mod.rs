//! TCP as far memory: memory nodes are daemons, anywhere that TCP reaches.
//!
//! | file | what it knows |
//! |---|---|
//! | `wire.rs` | the frames, and nothing else |
pub mod wire;
