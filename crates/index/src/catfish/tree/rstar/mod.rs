//! The decisions of the R*-tree (Beckmann, Kriegel, Schneider, Seeger, SIGMOD 1990): which subtree takes a rectangle,
//! how an overfull node is split, which entries are reinserted. Pure: the functions take rectangles and yield
//! positions.

mod choose;
mod reinsert;
mod split;

pub(super) use choose::{Children, choose_subtree};
pub(super) use reinsert::farthest;
pub(super) use split::split;
