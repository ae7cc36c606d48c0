//! The order in which verbs take effect, in a chain and between clients.

use super::{LitmusReport, Promise, RoundBarrier, Tally, promise_of, promises, race, with_memory};
use crate::harness::{
    Harness, RawAddress, ServerHarness, TestRng, raw_address, read_raw, read_word, words, write_word,
};
use farwood_fabric::{
    Bits, Capability, Chain, Client, Fabric, FabricError, Memory, NodeId, Remote, Server, ServerMemory,
    Swapped, cas, faa, masked_cas, read, read_bytes, write,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Distance between data and flag, bytes: they lie on different pages.
const APART: u64 = 8192;
const MEMORY_BYTES: usize = 2 * APART as usize;

/// Two WRITEs of a chain take effect in order. Every fabric promises it.
pub(super) fn write_then_write<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    let tally = flagged(harness, iterations, None, async |client, flag, data| {
        let flagged = read_word(client, flag).await.expect("a READ");
        (flagged, read_word(client, data).await.expect("a READ"))
    });
    tally.report("WRITE then WRITE in order", Promise::Made)
}

/// An atomic and a READ chained after it take effect in order.
pub(super) fn atomic_then_read<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    let tally = flagged(harness, iterations, None, ask_in_a_chain);
    let capability = Capability::AtomicThenRead;
    tally.report(capability.to_string(), promise_of(harness, capability))
}

/// An atomic in device memory takes effect before a READ that follows it in its chain. Sherman takes a lock in such a
/// chain with the READ of the lock's node.
pub(super) fn device_atomic_then_read<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    let flag = raw_address(NodeId(0), Memory::Device, 0).part(0);
    let tally = flagged(harness, iterations, Some(flag), ask_in_a_chain);
    let name = format!("{}, the atomic in device memory", Capability::AtomicThenRead);
    tally.report(name, promise_of(harness, Capability::AtomicThenRead))
}

async fn ask_in_a_chain<F: Fabric>(client: &Client<F>, flag: Remote<u64>, data: Remote<u64>) -> (u64, u64) {
    let (flagged, data) = client.post(faa(flag, 0).then(read(data))).await.expect("a chain");
    (flagged, data.check(&()).expect("a word").word())
}

/// Two READs of a chain take effect in order; part of the promise of [`atomic_then_read`].
pub(super) fn read_then_read<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    let tally = flagged(harness, iterations, None, async |client, flag, data| {
        let (flagged, data) = client.post(read(flag).then(read(data))).await.expect("a chain");
        (flagged.check(&()).expect("a word").word(), data.check(&()).expect("a word").word())
    });
    tally.report("READ then READ in order", promise_of(harness, Capability::AtomicThenRead))
}

/// A writer chains WRITEs of data and flag; a client that reads the flag and then the data must not find older data.
fn flagged<H: Harness>(
    harness: &H,
    iterations: u64,
    flag: Option<Remote<u64>>,
    read: impl AsyncFn(&Client<H::Fabric>, Remote<u64>, Remote<u64>) -> (u64, u64) + Sync,
) -> Tally {
    let (tally, last) = (Tally::default(), AtomicU64::new(0));
    with_memory(harness, MEMORY_BYTES, |at| {
        let (data, flag) = (at.part::<u64>(0), flag.unwrap_or(at.part(APART)));
        harness.block_on(async { write_word(&harness.client(), flag, 0).await.expect("a WRITE") });
        race(
            harness,
            iterations,
            &tally,
            async |client, round| {
                let word = round.to_le_bytes();
                client.post(write(data, &word).then(write(flag, &word))).await.expect("a chain");
            },
            async |client, _| {
                let (flagged, data) = read(client, flag, data).await;
                tally.tried();
                if last.swap(flagged, Relaxed) != flagged {
                    tally.met_change();
                }
                if data < flagged {
                    tally.violated(|| format!("the flag was {flagged}, the data were {data}"));
                }
            },
        );
    });
    tally
}

/// A client that takes a lock sees the WRITEs of the previous holder.
pub(super) fn lock_handed_over<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    handed_over(harness, iterations, None)
}

/// A client that takes a lock in device memory, where Sherman keeps locks, sees the WRITEs of the previous holder.
pub(super) fn device_lock_handed_over<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    handed_over(harness, iterations, Some(raw_address(NodeId(0), Memory::Device, 0).part(0)))
}

/// Failed attempts at a lock before a client yields.
const FAILURES_PER_YIELD: u32 = 1_000;

fn handed_over<H: Harness>(harness: &H, iterations: u64, lock: Option<Remote<u64>>) -> LitmusReport {
    const NODE_BYTES: usize = 1024;
    let device = lock.is_some();
    let (tally, newest) = (Tally::default(), AtomicU64::new(0));
    // As in Sherman: an unlock by WRITE may be lost if a failed compare-and-swap stores something.
    let by_write = promises(harness, Capability::WriteBesideCas);
    with_memory(harness, MEMORY_BYTES, |at| {
        let lock = lock.unwrap_or(at.part(APART));
        harness.block_on(async { write_word(&harness.client(), lock, 0).await.expect("a WRITE") });
        let barrier = RoundBarrier::new();
        harness.run_clients(2, async |number, client| {
            let _leaves = barrier.leave_at_end(number);
            barrier.wait(&client, number, 1).await;
            let (mut mine, mut tries) = (0, 0);
            while tally.continues(tries, iterations / 2) {
                tries += 1;
                let mut losses = 0_u32;
                let me = number as u64 + 1;
                while client.post(cas(lock, 0, me)).await.expect("a CAS") != Swapped::Won {
                    losses += 1;
                    // The client does not yield after each failure: if it did, the previous holder would always acquire
                    // the lock again first.
                    if losses.is_multiple_of(FAILURES_PER_YIELD) {
                        client.fabric().sleep(0).await;
                    }
                }
                let node = read_raw(&client, at, NODE_BYTES).await.expect("a READ");
                let (oldest, expected) = (words(&node).min().unwrap_or(0), newest.load(SeqCst));
                tally.tried();
                if expected != mine {
                    tally.met_change();
                }
                if oldest != expected {
                    tally.violated(|| format!("holder {expected} of the lock found {oldest}"));
                }
                mine = expected + 1;
                newest.store(mine, SeqCst);
                let node = mine.to_le_bytes().repeat(NODE_BYTES / 8);
                let update = write(at, &node);
                if by_write {
                    client.post(update.then(write(lock, &[0; 8]))).await.expect("a chain");
                } else {
                    client.post(update.then(faa(lock, me.wrapping_neg()))).await.expect("a chain");
                }
            }
        });
    });
    let memory = if device { "device" } else { "host" };
    let name = format!("{}: handed over by a lock in {memory} memory", Capability::ArrivalSeesWrite);
    tally.report(name, promise_of(harness, Capability::ArrivalSeesWrite))
}

/// A client that waits for a lock never reads its own number in the lock: no compare-and-swap is executed twice, and a
/// failed compare-and-swap undoes no unlock by WRITE.
pub(super) fn unlock_by_write<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    const CLIENTS: u64 = 4;
    const NODE_BYTES: usize = 256;
    // One bit for each client that has released the lock for the last time.
    let (tally, ended) = (Tally::default(), AtomicU64::new(0));
    with_memory(harness, MEMORY_BYTES, |at| {
        let lock = at.part::<u64>(APART);
        harness.run_clients(CLIENTS as usize, async |number, client| {
            let (mut tries, mut losses) = (0, 0_u32);
            while tally.continues(tries, iterations / CLIENTS) {
                tries += 1;
                let mine = tries * CLIENTS + number as u64;
                let before = losses;
                loop {
                    let gone = ended.load(SeqCst);
                    let taking = cas(lock, 0, mine).then(read_bytes(at, NODE_BYTES));
                    let Swapped::Lost(found) = client.post(taking).await.expect("a chain").0 else { break };
                    let holder = found % CLIENTS;
                    if holder == number as u64 || gone & 1 << holder != 0 {
                        tally.violated(|| {
                            let which = if found == mine {
                                "a successful CAS reported a failure"
                            } else {
                                "an unlock was lost"
                            };
                            format!("client {holder} does not hold the lock for which client {number} waits: {which}")
                        });
                        break;
                    }
                    losses += 1;
                    // As in `handed_over`.
                    if losses.is_multiple_of(FAILURES_PER_YIELD) {
                        client.fabric().sleep(0).await;
                    }
                }
                tally.tried();
                if losses > before {
                    tally.met_change();
                }
                let node = mine.to_le_bytes().repeat(NODE_BYTES / 8);
                client.post(write(at, &node).then(write(lock, &[0; 8]))).await.expect("a chain");
            }
            ended.fetch_or(1 << number, SeqCst);
        });
    });
    let capability = Capability::WriteBesideCas;
    tally.report(capability.to_string(), promise_of(harness, capability))
}

/// Two clients each write a word and then read the other's word: one of them sees the other's WRITE.
pub(super) fn crossed<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    let one_by_one = async |client: &Client<H::Fabric>, mine, other, round| {
        write_word(client, mine, round).await.expect("a WRITE");
        read_word(client, other).await.expect("a READ")
    };
    crossing(harness, iterations, "crossed WRITEs and READs", one_by_one)
}

/// Repeats the crossed test with WRITE and READ in one chain.
pub(super) fn crossed_chains<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    let chained = async |client: &Client<H::Fabric>, mine, other, round: u64| {
        let ((), seen) =
            client.post(write(mine, &round.to_le_bytes()).then(read(other))).await.expect("a chain");
        seen.check(&()).expect("a word").word()
    };
    crossing(harness, iterations, "crossed chains of WRITE and READ", chained)
}

/// Repeats the crossed test with a READ in the chain of the WRITE, and the READ of the other client's word in the next
/// post.
pub(super) fn crossed_after_chains<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    let chained = async |client: &Client<H::Fabric>, mine, other, round: u64| {
        let _ = client.post(write(mine, &round.to_le_bytes()).then(read(mine))).await.expect("a chain");
        read_word(client, other).await.expect("a READ")
    };
    crossing(harness, iterations, "crossed READs after chains of WRITE and READ", chained)
}

/// Maximum number of spins by which one client starts later than the other.
const SKEW_MAX: u64 = 16;

fn crossing<H: Harness>(
    harness: &H,
    iterations: u64,
    what: &str,
    cross: impl AsyncFn(&Client<H::Fabric>, Remote<u64>, Remote<u64>, u64) -> u64 + Sync,
) -> LitmusReport {
    let barrier = RoundBarrier::new();
    let seen = with_memory(harness, MEMORY_BYTES, |at| {
        let words = [at.part::<u64>(0), at.part::<u64>(APART)];
        harness.run_clients(2, async |mine, client| {
            let _leaves = barrier.leave_at_end(mine);
            let mut random = TestRng::new(mine as u64);
            let mut seen = Vec::with_capacity(iterations as usize);
            for round in 1..=iterations {
                // Nearly at the same time: only clients in the same round can interfere.
                barrier.wait(&client, mine, round).await;
                for _ in 0..random.below(SKEW_MAX) {
                    std::hint::spin_loop();
                }
                seen.push(cross(&client, words[mine], words[1 - mine], round).await);
            }
            seen
        })
    });
    let tally = Tally::default();
    for (round, (one, other)) in (1..).zip(seen[0].iter().zip(&seen[1])) {
        // Neither client was a round ahead when the other read.
        tally.tried();
        if *one <= round && *other <= round {
            tally.met_change();
        }
        let missed = *one < round && *other < round;
        if missed {
            tally.violated(|| format!("in round {round} the two saw {one} and {other}"));
        }
    }
    let name = format!("{}: {what}", Capability::ArrivalSeesWrite);
    tally.report(name, promise_of(harness, Capability::ArrivalSeesWrite))
}

/// Masked CAS on neighbouring fields of one word do not change each other's field.
pub(super) fn masked_neighbours<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    let promise = promise_of(harness, Capability::MaskedCas);
    let (tally, there) = (Tally::default(), AtomicBool::new(true));
    with_memory(harness, 64, |at| {
        let word = at.part::<u64>(0);
        let barrier = RoundBarrier::new();
        harness.run_clients(2, async |field, client| {
            let _leaves = barrier.leave_at_end(field);
            barrier.wait(&client, field, 1).await;
            for count in 0..iterations / 2 {
                match count_up(&client, word, 16 * field as u32, count).await {
                    Err(FabricError::Missing(Capability::MaskedCas)) => return there.store(false, SeqCst),
                    Err(error) => panic!("a masked CAS: {error}"),
                    Ok(found) => {
                        let (mine, other) = (found >> (16 * field), found >> (16 * (1 - field)));
                        tally.tried();
                        if other != 0 {
                            tally.met_change();
                        }
                        let lost = mine & 0xFFFF != count & 0xFFFF;
                        if lost {
                            tally.violated(|| format!("field {field} was {mine:#x} after {count} changes"));
                        }
                    }
                }
            }
        });
    });
    let remark = (!there.load(SeqCst)).then(|| "the fabric has no masked CAS".to_owned());
    let report = tally.report("masked CAS of neighbouring fields", promise);
    LitmusReport { remark: report.remark.clone().or(remark), ..report }
}

/// Increments a 16-bit field of a word; yields the word that it found.
async fn count_up<F: Fabric>(
    client: &Client<F>,
    word: Remote<u64>,
    shift: u32,
    count: u64,
) -> Result<u64, FabricError> {
    let mask = 0xFFFF << shift;
    let field = |count: u64| Bits { mask, value: (count & 0xFFFF) << shift };
    match client.post(masked_cas(word, field(count), field(count + 1))).await? {
        Swapped::Won => Ok((count & 0xFFFF) << shift),
        Swapped::Lost(found) => {
            // The CAS fails only if a change of this field was lost. Repair the field and continue.
            let all = Bits { mask: 0, value: 0 };
            let _ = client.post(masked_cas(word, all, field(count + 1))).await?;
            Ok(found)
        }
    }
}

/// A WRITE to a part of a word that other clients change by atomics: no fabric promises that it lasts.
pub(super) fn write_beside_atomic<H: Harness>(harness: &H, iterations: u64) -> LitmusReport {
    let tally = Tally::default();
    with_memory(harness, 64, |at: RawAddress| {
        let (word, upper) = (at.part::<u64>(0), at.part::<u32>(4));
        race(
            harness,
            iterations,
            &tally,
            async |client, _| {
                // Adds to the lower half only; 2^32 rounds would carry.
                client.post(faa(word, 1)).await.expect("an FAA");
            },
            async |client, iteration| {
                let mine = iteration as u32 + 1;
                client.post(write(upper, &mine.to_le_bytes())).await.expect("a WRITE");
                let found = read_word(client, word).await.expect("a READ");
                tally.tried();
                if found as u32 != 0 {
                    tally.met_change();
                }
                let kept = (found >> 32) as u32;
                if kept != mine {
                    tally.violated(|| format!("wrote {mine} beside a counter and found {kept}"));
                }
            },
        );
    });
    tally.report("a WRITE beside an atomic in one word stays", Promise::Withheld)
}

/// The memory node's CPU sees a completed WRITE.
pub(super) fn cpu_sees_write<H: ServerHarness>(harness: &H, iterations: u64) -> LitmusReport {
    const OFFSET: u64 = farwood_fabric::chunks::CHUNK_BYTES - 4096;
    let (tally, completed, stop) = (Tally::default(), AtomicU64::new(0), AtomicBool::new(false));
    harness.serve(
        async |server| {
            let mut last = 0;
            while !stop.load(SeqCst) {
                let known = completed.load(SeqCst);
                let seen = server.local().load(OFFSET).expect("local memory");
                tally.tried();
                if known != last {
                    tally.met_change();
                }
                if seen < known {
                    tally.violated(|| format!("WRITE {known} was complete, the CPU read {seen}"));
                }
                last = known;
                server.compute(100).await;
            }
        },
        async |client| {
            let _stop = super::Stop(&stop);
            let word = raw_address(NodeId(0), Memory::Host, OFFSET).part(0);
            for round in 1..=iterations {
                write_word(&client, word, round).await.expect("a WRITE");
                completed.store(round, SeqCst);
                if round.is_multiple_of(4) {
                    // Yields to the server.
                    client.fabric().sleep(0).await;
                }
            }
        },
    );
    let word = raw_address(NodeId(0), Memory::Host, OFFSET).part(0);
    harness.block_on(async { write_word(&harness.client(), word, 0).await.expect("a WRITE") });
    let name = Capability::CpuSeesWrite.to_string();
    tally.report(name, promise_of(harness, Capability::CpuSeesWrite))
}
