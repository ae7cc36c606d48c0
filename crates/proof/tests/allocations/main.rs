//! Warm operations allocate nothing. These tests are a separate program, because the counting allocator applies to the
//! whole process.

mod radix;
mod sherman;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Blocks that `work` allocates in the second of two rounds.
fn blocks(mut work: impl FnMut()) -> u64 {
    work();
    let before = dhat::HeapStats::get().total_blocks;
    work();
    dhat::HeapStats::get().total_blocks - before
}

/// There is one test for all systems: the counts are those of the whole process, so no other test may run at the same
/// time.
#[test]
fn warm_operations_allocate_nothing() {
    let _profiler = dhat::Profiler::builder().testing().build();
    sherman::warm_operations_allocate_nothing();
    radix::warm_operations_allocate_nothing();
}
