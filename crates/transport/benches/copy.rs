//! The time of a READ of one node, in ns, in cache and out of cache, compared with the time of `memcpy`.
//!
//! Run with `cargo bench -p farwood-transport --bench copy`. One thread; every line is the best of seven
//! rounds.

use farwood_transport::shm::{Backing, SegmentDir, SegmentSpec, ShmError};
use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

const NODE_BYTES: usize = 1024;
const REGION_BYTES: u64 = 1 << 30;
const OPERATIONS: u64 = 1 << 18;
const ROUNDS: u32 = 7;

/// A step of a full-period generator over the nodes of a region: it visits each node once, in no predictable
/// order.
fn next(at: u64, nodes: u64) -> u64 {
    (at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)) % nodes
}

/// Returns the least time of one operation, in ns, over random nodes of the first `bytes`. Each address
/// depends on the result of the operation before, as in a tree.
fn measure(bytes: u64, mut operation: impl FnMut(u64) -> u64) -> f64 {
    let nodes = bytes / NODE_BYTES as u64;
    let mut best = f64::INFINITY;
    let mut at = 1;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..OPERATIONS {
            at = next(at + black_box(operation(at * NODE_BYTES as u64)), nodes);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / OPERATIONS as f64);
    }
    best
}

fn main() -> Result<(), ShmError> {
    let name = format!("bench-copy-{}", std::process::id()).parse()?;
    let dir = SegmentDir::from_env();
    let mut spec = SegmentSpec::new(name, 0, REGION_BYTES);
    spec.backing = Backing::Reserved;
    let segment = dir.create::<ShmError>(&spec, |_| Ok(()))?;
    dir.remove(&spec.name)?;
    let map = segment.mapping();
    // Not zero, so that every page has its own memory.
    let plain = vec![5_u64; (REGION_BYTES / 8) as usize];
    let mut node = [0_u64; NODE_BYTES / 8];
    let zeroes = [0_u8; NODE_BYTES];
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "segment: {}", segment.pages());
    let mut print = |what: &str, ns: f64| {
        let _ = writeln!(out, "{what:<44} {ns:>8.1} ns");
    };
    for (place, bytes) in [("L1", 16 << 10), ("L2", 512 << 10), ("1 GiB", REGION_BYTES)] {
        let read = |at| {
            map.read_down(at, &mut node).expect("in range");
            node[0] ^ node[127]
        };
        print(&format!("read_down 1 KiB, {place}"), measure(bytes, read));
        let copy = |at| {
            let at = at as usize / 8;
            node.copy_from_slice(black_box(&plain[at..at + NODE_BYTES / 8]));
            black_box(&mut node)[0] ^ node[127]
        };
        print(&format!("memcpy 1 KiB (private memory), {place}"), measure(bytes, copy));
        let one = |at| map.load(at).expect("in range");
        print(&format!("load 8 B, {place}"), measure(bytes, one));
        let write = |at| {
            map.write_up(at, &zeroes).expect("in range");
            0
        };
        print(&format!("write_up 1 KiB, {place}"), measure(bytes, write));
        let entry = |at| {
            map.write_up(at + 64, &zeroes[..24]).expect("in range");
            0
        };
        print(&format!("write_up 24 B aligned, {place}"), measure(bytes, entry));
        let edges = |at| {
            map.write_up(at + 67, &zeroes[..17]).expect("in range");
            0
        };
        print(&format!("write_up 17 B, two partial words, {place}"), measure(bytes, edges));
    }
    Ok(())
}
