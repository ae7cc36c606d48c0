//! The R*-tree's decisions (Beckmann, Kriegel, Schneider, Seeger, SIGMOD 1990): which subtree takes a rectangle, how
//! an overfull node is split, what is inserted again. Pure: they look at rectangles and yield positions.

mod choose;
mod reinsert;
mod split;

pub(super) use choose::choose_subtree;
pub(super) use reinsert::farthest;
pub(super) use split::split;
