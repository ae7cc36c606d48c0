//! Model tests of the whole tree over a loopback fabric live in the proof room.
