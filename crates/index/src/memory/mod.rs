//! Memory of an index: chunks of the memory nodes, slots for objects in them, and overflow values.
//!
//! [`slot`] states why a slot may be reused at once. [`chunks`] obtains chunks, [`adopt`] those of crashed clients.
//! [`allocator`] takes slots from one chunk at a time, the [heap](crate::radix::heap) of a radix tree from one chunk
//! per memory node; both reuse the slots in their [`free_list`]. [`overflow`] is the format of values that are stored
//! outside of their leaves. The module `owned` checks that the pool's chunk table gives an index the chunks that it
//! uses.

pub mod adopt;
pub mod allocator;
pub mod chunks;
pub mod free_list;
pub mod overflow;
pub(crate) mod overflow_store;
pub(crate) mod owned;
pub mod slot;
