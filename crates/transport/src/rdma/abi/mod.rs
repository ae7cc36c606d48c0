//! The memory layouts of libibverbs' objects. The layouts contain C function pointers, whose calls are unsafe, so they
//! are in a file named `sys.rs`, although that file calls nothing.

pub(super) mod sys;
#[cfg(test)]
mod tests;
