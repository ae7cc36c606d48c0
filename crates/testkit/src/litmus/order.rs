//! In which order verbs take effect, in a chain and between clients.

use super::{Meeting, Report, Tally, ground, promises, race};
use crate::harness::{Chance, Harness, Place, ServerHarness, peek, peek_word, place, poke_word, words};
use farwood_fabric::{
    Bits, Capability, Chain, Client, Fabric, FabricError, LocalMemory, Memory, NodeId, Remote, Server,
    Swapped, cas, faa, masked_cas, read, read_bytes, write,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Data and flag lie this far apart, bytes: on different pages.
const APART: u64 = 8192;
const GROUND_BYTES: usize = 2 * APART as usize;

/// Two WRITEs of a chain take effect in order. Every fabric promises it.
pub(super) fn write_then_write<H: Harness>(harness: &H, iterations: u64) -> Report {
    let tally = flagged(harness, iterations, None, async |client, flag, data| {
        let flagged = peek_word(client, flag).await.expect("a READ");
        (flagged, peek_word(client, data).await.expect("a READ"))
    });
    tally.report("WRITE then WRITE in order", true)
}

/// An atomic and a READ chained behind it take effect in order.
pub(super) fn atomic_then_read<H: Harness>(harness: &H, iterations: u64) -> Report {
    let tally = flagged(harness, iterations, None, ask_in_a_chain);
    let capability = Capability::AtomicThenRead;
    tally.report(capability.to_string(), promises(harness, capability))
}

/// The same with the atomic in device memory, as a lock is that is taken together with the READ of its node.
pub(super) fn device_atomic_then_read<H: Harness>(harness: &H, iterations: u64) -> Report {
    let flag = place(NodeId(0), Memory::Device, 0).part(0);
    let tally = flagged(harness, iterations, Some(flag), ask_in_a_chain);
    let name = format!("{}, the atomic in device memory", Capability::AtomicThenRead);
    tally.report(name, promises(harness, Capability::AtomicThenRead))
}

async fn ask_in_a_chain<F: Fabric>(client: &Client<F>, flag: Remote<u64>, data: Remote<u64>) -> (u64, u64) {
    let (flagged, data) = client.post(faa(flag, 0).then(read(data))).await.expect("a chain");
    (flagged, data.check(&()).expect("a word").word())
}

/// Two READs of a chain take effect in order; goes with [`atomic_then_read`].
pub(super) fn read_then_read<H: Harness>(harness: &H, iterations: u64) -> Report {
    let tally = flagged(harness, iterations, None, async |client, flag, data| {
        let (flagged, data) = client.post(read(flag).then(read(data))).await.expect("a chain");
        (flagged.check(&()).expect("a word").word(), data.check(&()).expect("a word").word())
    });
    tally.report("READ then READ in order", promises(harness, Capability::AtomicThenRead))
}

/// A writer chains data and flag; who looks at the flag and then at the data must not find older data.
fn flagged<H: Harness>(
    harness: &H,
    iterations: u64,
    flag: Option<Remote<u64>>,
    look: impl AsyncFn(&Client<H::Fabric>, Remote<u64>, Remote<u64>) -> (u64, u64) + Sync,
) -> Tally {
    let (tally, last) = (Tally::default(), AtomicU64::new(0));
    ground(harness, GROUND_BYTES, |at| {
        let (data, flag) = (at.part::<u64>(0), flag.unwrap_or(at.part(APART)));
        harness.block_on(async { poke_word(&harness.client(), flag, 0).await.expect("a WRITE") });
        race(
            harness,
            iterations,
            &tally,
            async |client, round| {
                let word = round.to_le_bytes();
                client.post(write(data, &word).then(write(flag, &word))).await.expect("a chain");
            },
            async |client, _| {
                let (flagged, data) = look(client, flag, data).await;
                tally.tried(last.swap(flagged, Relaxed) != flagged);
                tally.judge(data < flagged, || format!("the flag said {flagged}, the data were {data}"));
            },
        );
    });
    tally
}

/// Who takes a lock sees what its last holder wrote before releasing it.
pub(super) fn lock_handed_over<H: Harness>(harness: &H, iterations: u64) -> Report {
    handed_over(harness, iterations, None)
}

/// The same with the lock in device memory, where Sherman keeps it.
pub(super) fn device_lock_handed_over<H: Harness>(harness: &H, iterations: u64) -> Report {
    handed_over(harness, iterations, Some(place(NodeId(0), Memory::Device, 0).part(0)))
}

/// Lost attempts at a lock before a client gives way.
const LOSSES_PATIENT: u32 = 1_000;

fn handed_over<H: Harness>(harness: &H, iterations: u64, lock: Option<Remote<u64>>) -> Report {
    const NODE_BYTES: usize = 1024;
    let device = lock.is_some();
    let (tally, newest) = (Tally::default(), AtomicU64::new(0));
    // As Sherman does: an unlock by WRITE may be lost where a compare-and-swap that fails stores something.
    let by_write = promises(harness, Capability::WriteBesideCas);
    ground(harness, GROUND_BYTES, |at| {
        let lock = lock.unwrap_or(at.part(APART));
        harness.block_on(async { poke_word(&harness.client(), lock, 0).await.expect("a WRITE") });
        let meeting = Meeting::new();
        harness.together(2, async |number, client| {
            let _leaves = meeting.leave_at_end(number);
            meeting.meet(&client, number, 1).await;
            let (mut mine, mut tries) = (0, 0);
            while tally.goes_on(tries, iterations / 2) {
                tries += 1;
                let mut losses = 0_u32;
                let me = number as u64 + 1;
                while client.post(cas(lock, 0, me)).await.expect("a CAS") != Swapped::Won {
                    losses += 1;
                    // Who gives way at once never gets a lock that its holder takes again at once.
                    if losses.is_multiple_of(LOSSES_PATIENT) {
                        client.fabric().sleep(0).await;
                    }
                }
                let node = peek(&client, at, NODE_BYTES).await.expect("a READ");
                let (oldest, expected) = (words(&node).min().unwrap_or(0), newest.load(SeqCst));
                tally.tried(expected != mine);
                tally.judge(oldest != expected, || format!("the lock's {expected}th holder found {oldest}"));
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
    let place = if device { "device" } else { "host" };
    let name = format!("{}: handed over by a lock in {place} memory", Capability::ArrivalSeesWrite);
    tally.report(name, promises(harness, Capability::ArrivalSeesWrite))
}

/// Who waits for a lock never finds that it has it: no compare-and-swap is executed twice, and no unlock by WRITE is
/// lost to one that fails.
pub(super) fn unlock_by_write<H: Harness>(harness: &H, iterations: u64) -> Report {
    const CLIENTS: u64 = 4;
    const NODE_BYTES: usize = 256;
    let tally = Tally::default();
    ground(harness, GROUND_BYTES, |at| {
        let lock = at.part::<u64>(APART);
        harness.together(CLIENTS as usize, async |number, client| {
            let (mut tries, mut losses) = (0, 0_u32);
            while tally.goes_on(tries, iterations / CLIENTS) {
                tries += 1;
                let mine = tries * CLIENTS + number as u64;
                let before = losses;
                loop {
                    let taking = cas(lock, 0, mine).then(read_bytes(at, NODE_BYTES));
                    let Swapped::Lost(found) = client.post(taking).await.expect("a chain").0 else { break };
                    if found % CLIENTS == number as u64 {
                        tally.judge(true, || {
                            let which = if found == mine {
                                "a CAS said that it failed"
                            } else {
                                "an unlock was lost"
                            };
                            format!("client {number} has the lock that it waits for: {which}")
                        });
                        break;
                    }
                    losses += 1;
                    // As in `handed_over`.
                    if losses.is_multiple_of(LOSSES_PATIENT) {
                        client.fabric().sleep(0).await;
                    }
                }
                tally.tried(losses > before);
                let node = mine.to_le_bytes().repeat(NODE_BYTES / 8);
                client.post(write(at, &node).then(write(lock, &[0; 8]))).await.expect("a chain");
            }
        });
    });
    let capability = Capability::WriteBesideCas;
    tally.report(capability.to_string(), promises(harness, capability))
}

/// Two clients each write a word and then read the other's: one of them sees the other's WRITE.
pub(super) fn crossed<H: Harness>(harness: &H, iterations: u64) -> Report {
    let one_by_one = async |client: &Client<H::Fabric>, mine, other, round| {
        poke_word(client, mine, round).await.expect("a WRITE");
        peek_word(client, other).await.expect("a READ")
    };
    crossing(harness, iterations, "crossed WRITEs and READs", one_by_one)
}

/// The same with WRITE and READ in one chain.
pub(super) fn crossed_chains<H: Harness>(harness: &H, iterations: u64) -> Report {
    let chained = async |client: &Client<H::Fabric>, mine, other, round: u64| {
        let ((), seen) =
            client.post(write(mine, &round.to_le_bytes()).then(read(other))).await.expect("a chain");
        seen.check(&()).expect("a word").word()
    };
    crossing(harness, iterations, "crossed chains of WRITE and READ", chained)
}

/// The same with something read in the WRITE's chain, and the other's word in the next post.
pub(super) fn crossed_after_chains<H: Harness>(harness: &H, iterations: u64) -> Report {
    let chained = async |client: &Client<H::Fabric>, mine, other, round: u64| {
        let _ = client.post(write(mine, &round.to_le_bytes()).then(read(mine))).await.expect("a chain");
        peek_word(client, other).await.expect("a READ")
    };
    crossing(harness, iterations, "crossed READs behind chains of WRITE and READ", chained)
}

/// Spins by which one of two clients that cross is late.
const SKEW_MAX: u64 = 16;

fn crossing<H: Harness>(
    harness: &H,
    iterations: u64,
    what: &str,
    cross: impl AsyncFn(&Client<H::Fabric>, Remote<u64>, Remote<u64>, u64) -> u64 + Sync,
) -> Report {
    let meeting = Meeting::new();
    let seen = ground(harness, GROUND_BYTES, |at| {
        let words = [at.part::<u64>(0), at.part::<u64>(APART)];
        harness.together(2, async |mine, client| {
            let _leaves = meeting.leave_at_end(mine);
            let mut chance = Chance::new(mine as u64);
            let mut seen = Vec::with_capacity(iterations as usize);
            for round in 1..=iterations {
                // Side by side, give or take a little: the two must be in the same round to be in each other's way.
                meeting.meet(&client, mine, round).await;
                for _ in 0..chance.below(SKEW_MAX) {
                    std::hint::spin_loop();
                }
                seen.push(cross(&client, words[mine], words[1 - mine], round).await);
            }
            seen
        })
    });
    let tally = Tally::default();
    for (round, (one, other)) in (1..).zip(seen[0].iter().zip(&seen[1])) {
        // Neither was a round ahead when the other looked.
        tally.tried(*one <= round && *other <= round);
        let missed = *one < round && *other < round;
        tally.judge(missed, || format!("in round {round} the two saw {one} and {other}"));
    }
    let name = format!("{}: {what}", Capability::ArrivalSeesWrite);
    tally.report(name, promises(harness, Capability::ArrivalSeesWrite))
}

/// Masked CAS on neighbouring fields of one word lose nothing of each other.
pub(super) fn masked_neighbours<H: Harness>(harness: &H, iterations: u64) -> Report {
    let promised = promises(harness, Capability::MaskedCas);
    let (tally, there) = (Tally::default(), AtomicBool::new(true));
    ground(harness, 64, |at| {
        let word = at.part::<u64>(0);
        let meeting = Meeting::new();
        harness.together(2, async |field, client| {
            let _leaves = meeting.leave_at_end(field);
            meeting.meet(&client, field, 1).await;
            for count in 0..iterations / 2 {
                match count_up(&client, word, 16 * field as u32, count).await {
                    Err(FabricError::Missing(Capability::MaskedCas)) => return there.store(false, SeqCst),
                    Err(error) => panic!("a masked CAS: {error}"),
                    Ok(found) => {
                        let (mine, other) = (found >> (16 * field), found >> (16 * (1 - field)));
                        tally.tried(other != 0);
                        let lost = mine & 0xFFFF != count & 0xFFFF;
                        tally.judge(lost, || format!("field {field} was {mine:#x} after {count} changes"));
                    }
                }
            }
        });
    });
    let remark = (!there.load(SeqCst)).then(|| "the fabric has no masked CAS".to_owned());
    let report = tally.report("masked CAS of neighbouring fields", promised);
    Report { remark: report.remark.clone().or(remark), ..report }
}

/// Counts a 16-bit field of a word up, whatever it holds; the word that it found.
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
            // Lost only if something of this field was swallowed: mend it and go on.
            let all = Bits { mask: 0, value: 0 };
            let _ = client.post(masked_cas(word, all, field(count + 1))).await?;
            Ok(found)
        }
    }
}

/// A WRITE to a part of a word that others change by atomics: no fabric promises that it stays.
pub(super) fn write_beside_atomic<H: Harness>(harness: &H, iterations: u64) -> Report {
    let tally = Tally::default();
    ground(harness, 64, |at: Place| {
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
                let found = peek_word(client, word).await.expect("a READ");
                tally.tried(found as u32 != 0);
                let kept = (found >> 32) as u32;
                tally.judge(kept != mine, || format!("wrote {mine} beside a counter and found {kept}"));
            },
        );
    });
    tally.report("a WRITE beside an atomic in one word stays", false)
}

/// The memory node's CPU sees a WRITE that is known to be complete.
pub(super) fn cpu_sees_write<H: ServerHarness>(harness: &H, iterations: u64) -> Report {
    const OFFSET: u64 = farwood_fabric::chunks::CHUNK_BYTES - 4096;
    let (tally, completed, stop) = (Tally::default(), AtomicU64::new(0), AtomicBool::new(false));
    harness.serve(
        async |server| {
            let mut last = 0;
            while !stop.load(SeqCst) {
                let known = completed.load(SeqCst);
                let seen = server.local().load(OFFSET).expect("its own memory");
                tally.tried(known != last);
                tally.judge(seen < known, || format!("WRITE {known} was complete, the CPU read {seen}"));
                last = known;
                server.compute(100).await;
            }
        },
        async |client| {
            let _stop = super::Stop(&stop);
            let word = place(NodeId(0), Memory::Host, OFFSET).part(0);
            for round in 1..=iterations {
                poke_word(&client, word, round).await.expect("a WRITE");
                completed.store(round, SeqCst);
                if round.is_multiple_of(4) {
                    // Now the server has the word.
                    client.fabric().sleep(0).await;
                }
            }
        },
    );
    let word = place(NodeId(0), Memory::Host, OFFSET).part(0);
    harness.block_on(async { poke_word(&harness.client(), word, 0).await.expect("a WRITE") });
    let name = Capability::CpuSeesWrite.to_string();
    tally.report(name, promises(harness, Capability::CpuSeesWrite))
}
