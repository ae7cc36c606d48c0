//! The torn copies that a READ may see during a WRITE.

use super::{LitmusReport, Promise, Tally, promise_of, promise_of_whole, promises, race, with_memory};
use crate::harness::{Harness, RawAddress, ServerHarness, TestRng, raw_address, read_raw, read_word, words};
use farwood_fabric::{Capability, Fabric as _, Memory, NodeId, Server as _, ServerMemory as _, write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Aligned blocks of `BYTES` bytes are never seen half-written.
pub(super) fn whole<H: Harness, const BYTES: usize>(harness: &H, iterations: u64) -> LitmusReport {
    with_memory(harness, BYTES, |at| whole_at(harness, iterations, at, BYTES))
        .named(format!("{BYTES} aligned bytes are never torn"))
}

/// Words of device memory are never seen half-written.
pub(super) fn whole_device<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    let at = raw_address(NodeId(0), Memory::Device, 0);
    whole_at(harness, iterations, at, 8).named("8 aligned bytes of device memory are never torn".to_owned())
}

impl LitmusReport {
    fn named(self, name: String) -> Self {
        Self { name, ..self }
    }
}

fn whole_at<H: Harness>(harness: &H, iterations: u64, at: RawAddress, bytes: usize) -> LitmusReport {
    let (tally, last) = (Tally::default(), AtomicU64::new(0));
    race(
        harness,
        iterations,
        &tally,
        async |client, round| {
            // Every byte changes with every WRITE.
            client.post(write(at, &vec![round as u8; bytes])).await.expect("a WRITE");
        },
        async |client, _| {
            let seen = read_raw(client, at, bytes).await.expect("a READ");
            tally.tried();
            if last.swap(u64::from(seen[0]), Relaxed) != u64::from(seen[0]) {
                tally.met_change();
            }
            if seen.iter().any(|byte| *byte != seen[0]) {
                tally.violated(|| format!("read {:x?}", runs(&seen)));
            }
        },
    );
    // No fabric tears words.
    let promise = if bytes <= 8 { Promise::Made } else { promise_of_whole(harness, bytes) };
    tally.report("", promise)
}

/// Equal versions in the first and the last word prove that a READ of `BYTES` bytes met no WRITE.
pub(super) fn version_pair<H: Harness, const BYTES: usize>(harness: &H, iterations: u64) -> LitmusReport {
    let (tally, last) = (Tally::default(), AtomicU64::new(0));
    with_memory(harness, BYTES, |at| {
        race(
            harness,
            iterations,
            &tally,
            async |client, version| {
                let node = version.to_le_bytes().repeat(BYTES / 8);
                client.post(write(at, &node)).await.expect("a WRITE");
            },
            async |client, _| {
                let node = read_raw(client, at, BYTES).await.expect("a READ");
                let front = words(&node).next().expect("at least a word");
                let rear = words(&node).next_back().expect("at least a word");
                tally.tried();
                if front != rear || last.swap(front, Relaxed) != front {
                    tally.met_change();
                }
                let mixed = front == rear && words(&node).any(|word| word != front);
                if mixed {
                    tally.violated(|| format!("versions {front} around {:?}", runs(&node)));
                }
            },
        );
    });
    let capability = Capability::VersionPair(BYTES);
    tally.report(capability.to_string(), promise_of(harness, capability))
}

/// While a READ samples a node, a client that awaits each of its WRITEs executes few of them.
pub(super) fn brief_read<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    const BYTES: usize = 1024;
    // A sixteenth of the writes after which the shortest version wraps around.
    const WRITES_MAX: u64 = 8;
    let (tally, last) = (Tally::default(), AtomicU64::new(0));
    with_memory(harness, BYTES, |at| {
        let ends = [at.part::<[u8]>(0), at.part::<[u8]>(BYTES as u64 - 8)];
        race(
            harness,
            iterations,
            &tally,
            async |client, round| {
                let end = ends[(round % 2) as usize];
                client.post(write(end, &round.to_le_bytes())).await.expect("a WRITE");
            },
            async |client, _| {
                let node = read_raw(client, at, BYTES).await.expect("a READ");
                let first = words(&node).next().expect("at least a word");
                let rear = words(&node).next_back().expect("at least a word");
                tally.tried();
                if last.swap(first, Relaxed) != first {
                    tally.met_change();
                }
                let writes = first.abs_diff(rear);
                if writes > WRITES_MAX {
                    tally.violated(|| {
                        format!("{writes} WRITEs between the first and the last word of a READ")
                    });
                }
            },
        );
    });
    tally.report(Capability::BriefReads.to_string(), promise_of(harness, Capability::BriefReads))
}

/// The words of a node, with runs of equal words merged: (words, value).
fn runs(node: &[u8]) -> Vec<(usize, u64)> {
    let mut runs: Vec<(usize, u64)> = Vec::new();
    for word in words(node) {
        match runs.last_mut() {
            Some((count, value)) if *value == word => *count += 1,
            _ => runs.push((1, word)),
        }
    }
    runs
}

/// A READ that sees a later byte of a WRITE also sees every earlier byte.
pub(super) fn write_upward<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    const WORDS: u64 = 64;
    let (tally, last) = (Tally::default(), AtomicU64::new(0));
    with_memory(harness, 8 * WORDS as usize, |at| {
        race(
            harness,
            iterations,
            &tally,
            async |client, round| {
                let data = round.to_le_bytes().repeat(WORDS as usize);
                client.post(write(at, &data)).await.expect("a WRITE");
            },
            async |client, iteration| {
                let mut random = TestRng::new(iteration);
                let later = 1 + random.below(WORDS - 1);
                let earlier = random.below(later);
                let (earlier_at, later_at) = (at.part(8 * earlier), at.part(8 * later));
                let new = read_word(client, later_at).await.expect("a READ");
                let old = read_word(client, earlier_at).await.expect("a READ");
                tally.tried();
                if last.swap(new, Relaxed) != new {
                    tally.met_change();
                }
                if old < new {
                    tally.violated(|| format!("word {later} was {new}, then word {earlier} was {old}"));
                }
            },
        );
    });
    tally.report(Capability::WriteUpward.to_string(), promise_of(harness, Capability::WriteUpward))
}

/// Offset of the WRITEs that a server watches, and their words.
const WATCHED: u64 = farwood_fabric::chunks::CHUNK_BYTES - 4096;
const WATCHED_WORDS: u64 = 64;

/// A server that sees a later byte of a WRITE finds every earlier one there, as ring buffers need it.
pub(super) fn server_upward<H: ServerHarness>(harness: &H, iterations: u64) -> LitmusReport {
    let (tally, stop) = (Tally::default(), AtomicBool::new(false));
    let address = raw_address(NodeId(0), Memory::Host, WATCHED);
    harness.serve(
        async |server| {
            let mut last = 0;
            let load = |word: u64| server.local().load(WATCHED + 8 * word).expect("local memory");
            while !stop.load(SeqCst) {
                let new = load(WATCHED_WORDS - 1);
                let old = (0..WATCHED_WORDS - 1).map(load).min().unwrap_or(new);
                tally.tried();
                if std::mem::replace(&mut last, new) != new {
                    tally.met_change();
                }
                if old < new {
                    tally.violated(|| format!("the last word was {new}, an earlier one {old}"));
                }
                server.compute(30).await;
            }
        },
        async |client| {
            let _stop = super::Stop(&stop);
            for round in 1..=iterations {
                let data = round.to_le_bytes().repeat(WATCHED_WORDS as usize);
                client.post(write(address, &data)).await.expect("a WRITE");
                if round.is_multiple_of(4) {
                    // Yields to the server, which then reads the word.
                    client.fabric().sleep(0).await;
                }
            }
        },
    );
    let nothing = [0; 8 * WATCHED_WORDS as usize];
    harness.block_on(async { harness.client().post(write(address, &nothing)).await.expect("a WRITE") });
    let name = format!("{}, as a server sees it", Capability::WriteUpward);
    tally.report(name, promise_of(harness, Capability::WriteUpward))
}

/// Runs a program in which a client READs `LINES` lines while a server stores them word by word, in the order that
/// `stores` gives for a round. `violation` checks each copy.
fn server_stores<H: ServerHarness>(
    harness: &H,
    iterations: u64,
    stores: impl Fn(u64) -> Vec<(u64, u64)> + Sync,
    violation: impl Fn(&[u64]) -> bool + Sync,
) -> Tally {
    let (tally, stop) = (Tally::default(), AtomicBool::new(false));
    let at = raw_address(NodeId(0), Memory::Host, WATCHED);
    harness.serve(
        async |server| {
            let mut round = 0;
            while !stop.load(SeqCst) {
                round += 1;
                for (word, value) in stores(round) {
                    server.local().store(WATCHED + 8 * word, value).expect("local memory");
                    server.compute(10).await;
                }
            }
        },
        async |client| {
            let _stop = super::Stop(&stop);
            let mut last = 0;
            for _ in 0..iterations {
                let seen: Vec<u64> =
                    words(&read_raw(&client, at, 64 * LINES).await.expect("a READ")).collect();
                let number = seen[seen.len() - 1];
                tally.tried();
                if std::mem::replace(&mut last, number) != number {
                    tally.met_change();
                }
                if violation(&seen) {
                    tally.violated(|| format!("read {seen:?}"));
                }
            }
        },
    );
    let nothing = [0; 64 * LINES];
    harness.block_on(async { harness.client().post(write(at, &nothing)).await.expect("a WRITE") });
    tally
}

/// Lines that a server stores, and words of a line.
const LINES: usize = 16;
const LINE_WORDS: u64 = 8;

/// A server clears the last word of a line before it changes the line, and stores it last: a copy of the line that has
/// the last word is not torn.
pub(super) fn server_lines<H: ServerHarness>(harness: &H, iterations: u64) -> LitmusReport {
    let stores = |round| {
        let line = |line: u64| {
            let first = LINE_WORDS * line;
            let words = (first..first + LINE_WORDS).map(move |word| (word, round));
            [(first + LINE_WORDS - 1, 0)].into_iter().chain(words)
        };
        (0..LINES as u64).flat_map(line).collect()
    };
    let violation = |seen: &[u64]| {
        seen.chunks(LINE_WORDS as usize).any(|line| {
            let version = line[line.len() - 1];
            version != 0 && line.iter().any(|&word| word != version)
        })
    };
    let tally = server_stores(harness, iterations, stores, violation);
    let promise = promise_of_whole(harness, 8 * LINE_WORDS as usize);
    tally.report("lines that a server withdraws before it changes them", promise)
}

/// A server stores words upward: a copy of them whose first word equals the last is not torn.
pub(super) fn server_pair<H: ServerHarness>(harness: &H, iterations: u64) -> LitmusReport {
    let stores = |round| (0..LINES as u64 * LINE_WORDS).map(|word| (word, round)).collect();
    let violation =
        |seen: &[u64]| seen[0] == seen[seen.len() - 1] && seen.iter().any(|&word| word != seen[0]);
    let tally = server_stores(harness, iterations, stores, violation);
    let promise = if promises(harness, Capability::CpuSeesWrite) {
        promise_of(harness, Capability::VersionPair(64 * LINES))
    } else {
        Promise::Withheld
    };
    tally.report("front and rear versions of words that a server stores upward", promise)
}
