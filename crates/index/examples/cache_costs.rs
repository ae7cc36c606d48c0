//! Measures the CPU time of changes of Sherman's index cache, which `docs/nic-model.md` cites. Run it with `--release`.
//!
//! The nodes have the size of an inner node of 1 KiB at a fill of 70 %: 42 children with keys of 8 bytes.
#![expect(clippy::print_stdout, reason = "an example that reports")]

use farwood_index::cache::{OrderedCache, Prefixes, Ranged};

const CHILDREN: u64 = 42;
const NODES: u64 = 100_000;
const STEPS: u64 = 200_000;
/// Bytes of a node besides its list of children.
const FIXED_BYTES: usize = 160;

struct Node {
    lower: Box<[u8]>,
    children: Prefixes<u64>,
}

impl Node {
    /// Node number `number`, as a client makes it from the bytes that it read.
    fn new(number: u64) -> Self {
        let first = number * CHILDREN;
        Self {
            lower: first.to_be_bytes().into(),
            children: Prefixes::new((0..CHILDREN as usize).map(|child| (first + child as u64, first))),
        }
    }
}

impl Ranged for Node {
    fn lower(&self) -> &[u8] {
        &self.lower
    }

    fn bytes(&self) -> usize {
        FIXED_BYTES + self.children.bytes()
    }
}

/// A permutation of the numbers below `NODES`.
fn shuffled(number: u64) -> u64 {
    number.wrapping_mul(61_843) % NODES
}

/// CPU time of this thread, nanoseconds: other processes of the machine do not count.
fn cpu_ns() -> u64 {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the CPU time of threads");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("the first number is the CPU time")
}

/// Mean CPU time of a step, nanoseconds.
fn mean(steps: u64, step: impl FnMut(u64)) -> f64 {
    let begin = cpu_ns();
    (0..steps).for_each(step);
    (cpu_ns() - begin) as f64 / steps as f64
}

fn main() {
    let cache = OrderedCache::new(usize::MAX);
    (0..NODES).step_by(2).for_each(|number| drop(cache.insert(Node::new(shuffled(number)))));
    let admission = mean(NODES / 2, |number| drop(cache.insert(Node::new(shuffled(2 * number + 1)))));
    println!(
        "admission: {admission:.0} ns (copy of the node, and its insertion among 50,000 to 100,000 nodes)"
    );

    let bytes = Node::new(0).bytes();
    let full = OrderedCache::new(bytes * NODES as usize / 2);
    (0..NODES).for_each(|number| drop(full.insert(Node::new(shuffled(number)))));
    let both = mean(STEPS, |number| drop(full.insert(Node::new(shuffled(number % NODES)))));
    println!(
        "removal: {:.0} ns ({both:.0} ns with an admission, in a full cache of 50,000 nodes)",
        both - admission
    );
}
