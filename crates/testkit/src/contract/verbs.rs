//! Every verb does what its documentation says, alone and with other verbs.

use super::{everywhere, somewhere};
use crate::harness::{Harness, RawAddress, raw_address, read_raw, read_word, to_bytes, words, write_word};
use farwood_fabric::{
    Bits, Capability, Chain, Client, Fabric, FabricError, Memory, NodeId, Parallel, Remote, Swapped, all,
    cas, faa, masked_cas, read, read_bytes, write,
};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Bytes that differ from their neighbours.
fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index * 7 + index / 251 + seed * 13 + 1) as u8).collect()
}

pub(super) fn a_read_returns_what_was_written<H: Harness>(harness: &H) {
    everywhere(harness, async |client, memory| {
        for (seed, bytes) in [8, 16, 64, 1024, 4096, 8192].into_iter().enumerate() {
            let data = pattern(bytes, seed);
            client.post(write(memory, &data)).await.expect("a WRITE");
            assert_eq!(
                read_raw(client, memory, bytes).await.expect("a READ"),
                data,
                "{bytes} bytes at {memory}"
            );
        }
        let data = pattern(64, 9);
        client.post(write(memory.part::<u8>(8), &data)).await.expect("a WRITE");
        let back = read_raw(client, memory.part(8), 64).await.expect("a READ");
        assert_eq!(back, data, "a READ that does not begin at a line, at {memory}");
    });
}

pub(super) fn a_write_of_any_length_and_offset_leaves_its_neighbours_alone<H: Harness>(harness: &H) {
    everywhere(harness, async |client, memory| {
        const FRAME: usize = 64;
        for length in 0..=40 {
            for offset in 0..8 {
                let mut expected = vec![0xEE; FRAME];
                client.post(write(memory, &expected)).await.expect("a WRITE");
                let data = pattern(length, offset);
                client.post(write(memory.part::<u8>(8 + offset as u64), &data)).await.expect("a WRITE");
                expected[8 + offset..][..length].copy_from_slice(&data);
                let found = read_raw(client, memory, FRAME).await.expect("a READ");
                assert_eq!(found, expected, "{length} bytes, {offset} into the word after {memory}");
            }
        }
    });
}

pub(super) fn the_last_bytes_of_a_memory_can_be_used<H: Harness>(harness: &H) {
    harness.block_on(async {
        let client = harness.client();
        let shape = harness.shape();
        for node in (0..shape.nodes).map(NodeId) {
            for (memory, size) in [(Memory::Host, shape.host_bytes), (Memory::Device, shape.device_bytes)] {
                let word: Remote<u64> = raw_address(node, memory, size - 8).part(0);
                client.fabric().provision(word.address(), 8).await.expect("the last word can be provided");
                write_word(&client, word, 0x0102_0304_0506_0708).await.expect("the last word is there");
                client.post(write(word.part::<u8>(7), &[0xAA])).await.expect("the last byte is there");
                let before = client.post(faa(word, 1)).await.expect("the last word can be added to");
                assert_eq!(before, 0xAA02_0304_0506_0708, "the last word of {memory:?} memory");
                let after = read_word(&client, word).await.expect("the last word can be read");
                assert_eq!(after, 0xAA02_0304_0506_0709, "the last word of {memory:?} memory");
                write_word(&client, word, 0).await.expect("the last word is there");
            }
        }
    });
}

pub(super) fn compare_and_swap_wins_and_loses<H: Harness>(harness: &H) {
    everywhere(harness, async |client, memory| {
        let word: Remote<u64> = memory.part(16);
        let won = client.post(cas(word, 0, u64::MAX)).await.expect("a CAS");
        assert_eq!(won, Swapped::Won, "the word at {word} was 0");
        let lost = client.post(cas(word, 0, 5)).await.expect("a CAS");
        assert_eq!(lost, Swapped::Lost(u64::MAX), "a failed CAS returns the word that it found");
        assert_eq!(read_word(client, word).await, Ok(u64::MAX), "a failed CAS changes nothing");
        let same = client.post(cas(word, u64::MAX, u64::MAX)).await.expect("a CAS");
        assert_eq!(same, Swapped::Won, "a CAS that stores the same word succeeds");
        assert_eq!(read_word(client, memory.part(8)).await, Ok(0), "the word before is unchanged");
        assert_eq!(read_word(client, memory.part(24)).await, Ok(0), "the word after is unchanged");
    });
}

pub(super) fn masked_compare_and_swap_keeps_to_its_masks<H: Harness>(harness: &H) {
    everywhere(harness, async |client, memory| {
        let word: Remote<u64> = memory.part(8);
        let bits = |mask, value| Bits { mask, value };
        if !client.fabric().capabilities().has(Capability::MaskedCas) {
            let refused = client.post(masked_cas(word, bits(1, 0), bits(1, 1))).await;
            assert_eq!(refused, Err(FabricError::Missing(Capability::MaskedCas)), "it is not promised");
            return;
        }
        // (word, compare, swap, word after or none)
        let cases = [
            (0x1111_2222_3333_4444, bits(0xFFFF, 0x4444), bits(0xFFFF, 0x5555), Some(0x1111_2222_3333_5555)),
            (0x1111_2222_3333_4444, bits(0xFFFF, 0x4445), bits(0xFFFF, 0x5555), None),
            // Bits outside the masks are neither compared nor placed.
            (
                0x1111_2222_3333_4444,
                bits(0xFFFF, u64::MAX ^ 0xBBBB),
                bits(0xFF, u64::MAX),
                Some(0x1111_2222_3333_44FF),
            ),
            // The swapped bits may differ from the compared bits.
            (
                0x1111_2222_3333_4444,
                bits(0xFFFF << 48, 0x1111 << 48),
                bits(1, 1),
                Some(0x1111_2222_3333_4445),
            ),
            // An empty comparison always holds; an empty swap changes nothing.
            (7, bits(0, 99), bits(u64::MAX, 1 << 63), Some(1 << 63)),
            (7, bits(u64::MAX, 7), bits(0, u64::MAX), Some(7)),
            // Single bits, and masks across bytes.
            (0, bits(1 << 63, 0), bits(1 << 63, u64::MAX), Some(1 << 63)),
            (0x00FF_F000, bits(0x000F_F000, 0x000F_F000), bits(0x00FF_0000, 0x0012_0000), Some(0x0012_F000)),
        ];
        for (before, compare, swap, after) in cases {
            write_word(client, word, before).await.expect("a WRITE");
            let found = client.post(masked_cas(word, compare, swap)).await.expect("a masked CAS");
            let expected = if after.is_some() { Swapped::Won } else { Swapped::Lost(before) };
            assert_eq!(found, expected, "{before:#x} compare {compare:x?} swap {swap:x?}");
            let now = read_word(client, word).await;
            assert_eq!(now, Ok(after.unwrap_or(before)), "{before:#x} compare {compare:x?} swap {swap:x?}");
        }
    });
}

pub(super) fn fetch_and_add_wraps<H: Harness>(harness: &H) {
    everywhere(harness, async |client, memory| {
        let word: Remote<u64> = memory.part(8);
        write_word(client, word, u64::MAX - 1).await.expect("a WRITE");
        assert_eq!(client.post(faa(word, 5)).await, Ok(u64::MAX - 1), "FAA yields the previous word");
        assert_eq!(client.post(faa(word, u64::MAX)).await, Ok(3), "FAA wraps");
        assert_eq!(client.post(faa(word, 0)).await, Ok(2), "adding the largest number takes one away");
        assert_eq!(read_word(client, memory.part(16)).await, Ok(0), "no carry into the word after");
    });
}

pub(super) fn a_chain_executes_in_order<H: Harness>(harness: &H) {
    everywhere(harness, async |client, memory| {
        let (a, b): (Remote<u64>, Remote<u64>) = (memory.part(0), memory.part(1024));
        let word = |word: u64| word.to_le_bytes();
        for round in 1..200u64 {
            let (first, second) = (word(round), word(round + 1000));
            let ((), seen) = client.post(write(a, &first).then(read(a))).await.expect("a chain");
            assert_eq!(seen.check(&()).map(|seen| seen.word()), Ok(round), "WRITE then READ");
            let chain = write(b, &first).then(write(b, &second)).then(read(b));
            let (((), ()), seen) = client.post(chain).await.expect("a chain");
            assert_eq!(seen.check(&()).map(|seen| seen.word()), Ok(round + 1000), "WRITE then WRITE");
            let chain = write(a, &second).then(cas(a, round + 1000, 1)).then(faa(a, 7));
            let (((), won), found) = client.post(chain).await.expect("a chain");
            assert_eq!((won, found), (Swapped::Won, 1), "WRITE then CAS then FAA");
            let seen = client.post(faa(a, 1).fenced(write(a, &first)).then(read(a))).await.expect("a chain");
            let ((found, ()), seen) = seen;
            assert_eq!(found, 8, "FAA before a fenced WRITE");
            assert_eq!(seen.check(&()).map(|seen| seen.word()), Ok(round), "a fenced WRITE comes last");
        }
    });
}

pub(super) fn answers_come_in_the_order_of_the_verbs<H: Harness>(harness: &H) {
    everywhere(harness, async |client, memory| {
        let slot = |index: u64| memory.part::<u64>(index * 64);
        for index in 0..64 {
            write_word(client, slot(index), index + 100).await.expect("a WRITE");
        }
        let seen = client.post(read(slot(3)).and(faa(slot(4), 0)).and(cas(slot(5), 0, 0))).await;
        let ((three, four), five) = seen.expect("a doorbell");
        assert_eq!(three.check(&()).map(|word| word.word()), Ok(103), "the first of three");
        assert_eq!((four, five), (104, Swapped::Lost(105)), "the others of three");
        let order = |index: u64| index * 37 % 64;
        let answers =
            client.post(all((0..64).map(|index| read(slot(order(index)))))).await.expect("64 READs");
        assert_eq!(answers.len(), 64, "as many answers as verbs");
        for (index, answer) in (0..).zip(answers) {
            let word = answer.check(&()).map(|word| word.word());
            assert_eq!(word, Ok(order(index) + 100), "answer {index}");
        }
        let answers = client.post(all((0..16).map(|index| faa(slot(index), index)))).await.expect("16 FAAs");
        assert!(answers.eq((0..16).map(|index| index + 100)), "the answers of 16 FAAs in their order");
    });
    across_nodes(harness);
}

/// Verbs for all memory nodes in one doorbell.
fn across_nodes<H: Harness>(harness: &H) {
    harness.block_on(async {
        let client = harness.client();
        let nodes = u64::from(harness.shape().nodes);
        let word = |index: u64| {
            let node = NodeId((index % nodes) as u16);
            raw_address(node, Memory::Device, 8 * (index / nodes)).part::<u64>(0)
        };
        for index in 0..4 * nodes {
            write_word(&client, word(index), index).await.expect("a WRITE");
        }
        let answers = client.post(all((0..4 * nodes).map(|index| faa(word(index), 0)))).await;
        assert!(answers.expect("a doorbell").eq(0..4 * nodes), "answers from all nodes in the verbs' order");
    });
}

pub(super) fn posts_in_flight_together_keep_their_answers<H: Harness>(harness: &H) {
    somewhere(harness, async |client, memory| {
        for index in 0..8 {
            write_word(client, memory.part(index * 8), index + 1).await.expect("a WRITE");
        }
        for _ in 0..100 {
            let mut flights: Vec<_> =
                (0..8).map(|index| Some(Box::pin(read_word(client, memory.part(index * 8))))).collect();
            let mut context = Context::from_waker(Waker::noop());
            let mut landed = 0;
            while landed < 8 {
                for (index, flight) in flights.iter_mut().enumerate() {
                    let Some(post) = flight else { continue };
                    let Poll::Ready(word) = post.as_mut().poll(&mut context) else { continue };
                    assert_eq!(word, Ok(index as u64 + 1), "the answer of post {index}");
                    *flight = None;
                    landed += 1;
                }
                client.fabric().sleep(0).await;
            }
        }
    });
}

/// Waits until the word at `at` is `word`; yields false if that does not happen.
async fn becomes<F: Fabric>(client: &Client<F>, at: Remote<u64>, word: u64) -> bool {
    for _ in 0..10_000 {
        if read_word(client, at).await == Ok(word) {
            return true;
        }
        client.fabric().sleep(1_000).await;
    }
    false
}

pub(super) fn a_cancelled_post_still_lands<H: Harness>(harness: &H) {
    somewhere(harness, async |client, memory| {
        for round in 1..=20u64 {
            let (first, last) = (memory.part::<u64>(0), memory.part::<u64>(4096));
            let word = round.to_le_bytes();
            {
                let mut post = pin!(client.post(write(first, &word).then(write(last, &word))));
                let _ = post.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            // Later posts must use other buffers.
            let _ = read_raw(client, memory, 64).await.expect("a READ");
            assert!(becomes(client, last, round).await, "the last verb of a cancelled post took no effect");
            assert_eq!(
                read_word(client, first).await,
                Ok(round),
                "the first verb took no effect, but the last did"
            );
        }
    });
}

pub(super) fn detached_posts_land<H: Harness>(harness: &H) {
    everywhere(harness, async |client, memory| {
        for round in 1..=20u64 {
            let (a, b, c): (Remote<u64>, Remote<u64>, Remote<u64>) =
                (memory.part(0), memory.part(512), memory.part(1024));
            let word = round.to_le_bytes();
            client.post_detached(write(a, &word).then(write(b, &word)));
            client.post_detached(all([faa(c, 1)]));
            assert!(becomes(client, b, round).await, "a detached WRITE took no effect at {b}");
            assert_eq!(read_word(client, a).await, Ok(round), "the first verb of a detached chain");
            assert!(becomes(client, c, round).await, "a detached FAA took no effect at {c}");
        }
    });
}

pub(super) fn buffers_bring_no_old_bytes<H: Harness>(harness: &H) {
    somewhere(harness, async |client, memory| {
        let (dirty, clean) = (memory, memory.part(4096));
        client.post(write(dirty, &[0xAA; 4096])).await.expect("a WRITE");
        for bytes in [8, 16, 24, 40, 64, 72, 1000, 1024, 1032, 2048, 4096] {
            let _ = read_raw(client, dirty, 4096).await.expect("a READ");
            drop(
                client
                    .post(all(
                        (0..8).map(|index| read_bytes(dirty.part::<crate::harness::Raw>(index * 512), 512))
                    ))
                    .await,
            );
            let found = read_raw(client, clean, bytes).await.expect("a READ");
            assert_eq!(found, vec![0; bytes], "a READ of {bytes} bytes in a used buffer");
        }
        // Two copies that are held at the same time are different buffers.
        let (one, other) =
            client.post(read_bytes(dirty, 64).and(read_bytes(clean, 64))).await.expect("READs");
        let (one, other) = (to_bytes(one), to_bytes(other));
        assert!(words(&one).all(|word| word == 0xAAAA_AAAA_AAAA_AAAA) && words(&other).all(|word| word == 0));
    });
}

pub(super) fn atomics_of_several_clients_lose_nothing<H: Harness>(harness: &H) {
    const CLIENTS: usize = 4;
    const ROUNDS: u64 = 500;
    everywhere(harness, async |client, memory| {
        harness.run_clients(CLIENTS, async |_, client| add_up(&client, memory, ROUNDS).await);
        let expected = Ok(ROUNDS * CLIENTS as u64);
        assert_eq!(
            read_word(client, memory.part(0)).await,
            expected,
            "FAAs of {CLIENTS} clients at {memory}"
        );
        assert_eq!(
            read_word(client, memory.part(8)).await,
            expected,
            "CASs of {CLIENTS} clients at {memory}"
        );
    });
}

/// Adds to one word by FAA and to the next by CAS.
async fn add_up<F: Fabric>(client: &Client<F>, memory: RawAddress, rounds: u64) {
    const ATTEMPTS_MAX: u64 = 100_000;
    let (added, swapped): (Remote<u64>, Remote<u64>) = (memory.part(0), memory.part(8));
    let mut expected = 0;
    let mut attempts = 0;
    for _ in 0..rounds {
        client.post(faa(added, 1)).await.expect("an FAA");
        while let Swapped::Lost(found) =
            client.post(cas(swapped, expected, expected + 1)).await.expect("a CAS")
        {
            attempts += 1;
            assert!(attempts < ATTEMPTS_MAX, "a CAS keeps failing at {swapped}");
            expected = found;
        }
        expected += 1;
    }
}
