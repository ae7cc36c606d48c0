//! The reason why a READ copies downward and a WRITE upward. This file has documentation and litmus tests; the code
//! that copies is in `sys.rs`.
//!
//! # What is promised
//!
//! A node carries the same *version* in its first word (front) and in its last (rear). Writers of one node
//! exclude each other with a lock, and each write gives the node a version that it did not have before. Then
//!
//! > a READ that finds `front == rear` returns the node exactly as one write stored it.
//!
//! The proof uses two rules, the only promises of this fabric above eight bytes:
//!
//! - **WRITE goes up**: words are stored in increasing address order, each with Release.
//! - **READ goes down**: words are loaded in decreasing address order, each with Acquire.
//!
//! Eight aligned bytes are atomic: a word is one 8-byte atomic, never anything smaller or larger.
//!
//! # Proof, in the memory model of Rust (and C++20)
//!
//! Write *k* stores `front = k`, then the body, then `rear = k`. Because of the lock, everything write *k* stores
//! happens before everything write *k+1* stores, so the modification order of each word is the order of
//! the writes. The reader loads `rear`, then the body from its end to its beginning, then `front`.
//!
//! 1. *Nothing older than the rear.* Let the load of `rear` return *r*. It is an Acquire load that reads a
//!    Release store, so it synchronises with it: all that write *r* stored before its rear, and all earlier
//!    writes, happen before the loads that follow. By coherence each later load returns what write *r*
//!    left or something newer.
//! 2. *Nothing newer than the front.* Let the load of some body word return what write *m > r* stored. Again
//!    Acquire reads Release: the store `front = m`, sequenced before that body store, happens before the
//!    load of `front`, which is sequenced after the body load. By coherence the front is then *m* or newer,
//!    so not *r*.
//! 3. If `front == r` as well, no body word is newer than *r* (2), and none is older (1). ∎
//!
//! Step 2 needs Acquire on *every* body load (it orders the later loads) and Release on *every* body store (it orders
//! the front store). Relaxed body copies between two fences would also be correct and compile to the same instructions
//! on x86; per-word orderings keep the rule local to one word. Edge words that a WRITE fills only in part are stored by
//! a compare-exchange with Release and fit the same proof.
//!
//! A write may store less than the node (one entry, with its own versions): the proof then covers the words between
//! that pair of versions. The proof does not cover three cases:
//!
//! - **Versions that wrap around.** If exactly 2^bits writes happen during a READ, the reader sees an equal pair. The
//!   width of a version therefore limits the duration of a READ, and a process can be stopped for minutes: 4 bits are
//!   not safe here, 8 bits hardly, 32 bits are.
//! - **A writer that crashed midway** leaves `front != rear` permanently: the node stays torn.
//! - **Atomics by other processes** are not covered by the memory model of any language, which describes one program.
//!   Lock-free atomics are address-free on the machines we run on; C++ says that they should be.
//!
//! # Proof, for x86 (TSO)
//!
//! Acquire loads and Release stores are plain `mov`s; the compiler may not reorder or merge them. TSO makes all
//! stores visible in one order that agrees with each core's program order, and executes loads in program order.
//! If a body load sees write *m*, the earlier store `front = m` is in memory already, and the later load of
//! `front` sees it. The rear is the same argument in the other direction.
//!
//! # Why upward reads are not enough here
//!
//! On a NIC a READ that starts before a WRITE stays ahead of it (a capability that published systems rely on). Two CPUs
//! have no such rule. Suppose that an *upward* reader loads `front = r` and the first part of the body, and that write
//! *r+1* then stores its body but not yet its rear. The reader then loads the rest of the body from *r+1* and `rear =
//! r`: equal versions around a mixed body. The litmus test below counts such reads.
//!
//! # Order between verbs, which this module does not give
//!
//! The last words of a copied WRITE may still be in the store buffer of the core. A later READ *by the same client* of
//! other words can execute before they become visible (store-load reordering, the one that TSO allows): two clients
//! that each write one word and then read the other's may both see the old value. On a NIC an executed WRITE is visible
//! to every verb that arrives afterwards. So the fabric puts a `fence(SeqCst)` between a WRITE and the next READ of its
//! doorbell, and at the end of a doorbell that holds a WRITE and no READ after it.

#[cfg(test)]
mod tests {
    use super::super::sys::Mapping;
    use super::super::testing::anonymous;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::{Duration, Instant};

    const WORDS: usize = 128;

    /// One reader's counts: READs with equal versions, and those of them with a mixed body.
    #[derive(Debug, Default)]
    struct Tally {
        whole: u64,
        torn: u64,
        missed: u64,
    }

    impl Tally {
        fn judge(&mut self, node: &[u64; WORDS]) {
            if node[0] != node[WORDS - 1] {
                self.torn += 1;
            } else if node.iter().all(|word| *word == node[0]) {
                self.whole += 1;
            } else {
                self.missed += 1;
            }
        }
    }

    /// A writer stores nodes full of one version, and a reader copies them with `read`, until a read does not detect a
    /// torn node, `wanted` reads are done, or the time limit is reached.
    fn race(wanted: u64, read: impl Fn(&Mapping, &mut [u64; WORDS]) + Sync) -> Tally {
        let map = anonymous(4096);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut node = [0_u64.to_ne_bytes(); WORDS];
                for version in 1_u64.. {
                    node.fill(version.to_ne_bytes());
                    map.write_up(512, node.as_flattened()).unwrap();
                    if done.load(Relaxed) {
                        break;
                    }
                }
            });
            let mut tally = Tally::default();
            let end = Instant::now() + Duration::from_secs(3);
            while tally.missed == 0 && tally.whole + tally.torn < wanted && Instant::now() < end {
                let mut node = [0; WORDS];
                read(&map, &mut node);
                tally.judge(&node);
            }
            done.store(true, Relaxed);
            tally
        })
    }

    #[test]
    fn equal_versions_mean_a_whole_body_when_reading_down() {
        let tally = race(2_000_000, |map, node| map.read_down(512, node).unwrap());
        assert_eq!(tally.missed, 0, "{tally:?}");
        assert!(tally.whole > 0, "the reader never saw a whole node: {tally:?}");
    }

    /// Shows why a READ must copy downward. Whether an upward copy misses a torn node in the given time depends on the
    /// machine, so the test reports it and does not assert it.
    #[test]
    fn reading_upward_can_miss_a_torn_node() {
        let tally = race(2_000_000, |map, node| {
            for (index, word) in node.iter_mut().enumerate() {
                *word = map.load(512 + 8 * index as u64).unwrap();
            }
        });
        let words = if tally.missed > 0 { "missed a torn node" } else { "missed no torn node in this run" };
        super::super::testing::report(&format!("an upward reader {words}: {tally:?}"));
    }

    /// The function `judge`, which the race test relies on, counts a copy with one byte of another version as missed.
    #[test]
    fn the_judge_catches_a_mixed_body() {
        let mut tally = Tally::default();
        let mut node = [7; WORDS];
        node[50] = 8;
        tally.judge(&node);
        assert_eq!((tally.whole, tally.torn, tally.missed), (0, 0, 1));
    }

    /// Runs `write(version)` repeatedly beside `ends`, which returns (first word, last word), last word
    /// loaded first: so the first is at least as new, if `write` stores and `ends` loads in the right order.
    /// Ends when `ends` has seen many versions, or after a second: on one processor each version takes a
    /// thread switch.
    fn first_is_never_behind_last(write: impl Fn(u64) + Sync, mut ends: impl FnMut() -> (u64, u64)) {
        const VERSIONS_SEEN: u32 = 20_000;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut version = 1;
                while !done.load(Relaxed) {
                    write(version);
                    version += 1;
                }
            });
            let (mut behind, mut seen, mut before) = (None, 0, 0);
            let end = Instant::now() + Duration::from_secs(1);
            while behind.is_none() && seen < VERSIONS_SEEN && Instant::now() < end {
                let (first, last) = ends();
                seen += u32::from(last != before);
                before = last;
                behind = (first < last).then_some((first, last));
            }
            done.store(true, Relaxed);
            assert_eq!(behind, None);
        });
    }

    #[test]
    fn a_write_stores_its_last_word_last() {
        let map = anonymous(4096);
        let write = |version: u64| {
            let node = [version.to_ne_bytes(); WORDS];
            map.write_up(512, node.as_flattened()).unwrap();
        };
        first_is_never_behind_last(write, || {
            let last = map.load(512 + 8 * (WORDS as u64 - 1)).unwrap();
            (map.load(512).unwrap(), last)
        });
    }

    #[test]
    fn a_read_loads_its_last_word_first() {
        let map = anonymous(4096);
        for words in [2, 7, 8, 9, 100, WORDS] {
            let last = 512 + 8 * (words as u64 - 1);
            let write = |version: u64| {
                map.write_up(512, &version.to_ne_bytes()).unwrap();
                map.write_up(last, &version.to_ne_bytes()).unwrap();
            };
            write(0);
            first_is_never_behind_last(write, || {
                let mut node = [0; WORDS];
                map.read_down(512, &mut node[..words]).unwrap();
                (node[0], node[words - 1])
            });
        }
    }

    /// Message passing: a reader that sees a flag also sees the data written before it.
    #[test]
    fn a_reader_of_a_flag_sees_the_data_before_it() {
        const ROUNDS: u64 = 200_000;
        let map = anonymous(4096);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    map.write_up(1024, &round.to_ne_bytes()).unwrap();
                    map.write_up(64, &round.to_ne_bytes()).unwrap();
                }
            });
            let mut flag = [0];
            while flag[0] < ROUNDS {
                let mut data = [0];
                map.read_down(64, &mut flag).unwrap();
                map.read_down(1024, &mut data).unwrap();
                assert!(data[0] >= flag[0], "flag {} but data {}", flag[0], data[0]);
            }
        });
    }
}
