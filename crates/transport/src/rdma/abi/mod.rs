//! libibverbs' objects as they lie in memory. The layouts name C functions, and calling these is unsafe: so they are
//! in a file of that name, although nothing is called there.

pub(super) mod sys;
#[cfg(test)]
mod tests;
