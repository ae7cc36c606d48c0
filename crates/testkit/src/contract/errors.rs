//! Corrupt pointers become errors that name the address, and change no memory.

use super::{everywhere, somewhere};
use crate::harness::{Harness, Raw, raw_address, read_raw, read_word, write_word};
use farwood_fabric::{
    Bits, Capability, Chain, Client, Fabric, FabricError, Memory, NodeId, Parallel, Remote, cas, faa,
    masked_cas, read, read_bytes, write,
};
use std::fmt::Debug;

fn refused<T: Debug>(answer: Result<T, FabricError>, expected: FabricError) {
    let what = expected.to_string();
    assert_eq!(answer.map(|_| "an answer"), Err(expected), "{what}");
}

/// Posts verbs of all kinds at `at`. Only their first `inside` bytes are within the memory.
async fn all_refused<F: Fabric>(client: &Client<F>, at: Remote<Raw>, inside: usize) {
    let address = at.address();
    let outside = |bytes| FabricError::OutOfRange { at: address, bytes };
    if address.offset().is_multiple_of(8) {
        let bytes = (inside + 1).next_multiple_of(8);
        refused(client.post(read_bytes(at, bytes)).await, outside(bytes));
        refused(client.post(read_bytes(at, bytes + 4096)).await, outside(bytes + 4096));
    }
    refused(client.post(write(at, &vec![0xFF; inside + 1])).await, outside(inside + 1));
    refused(client.post(write(at, &vec![0xFF; inside + 4096])).await, outside(inside + 4096));
    if address.offset().is_multiple_of(8) && inside == 0 {
        let word: Remote<u64> = at.part(0);
        refused(client.post(cas(word, 0, 1)).await, outside(8));
        refused(client.post(faa(word, 1)).await, outside(8));
    }
}

pub(super) fn verbs_out_of_range_are_refused_with_their_address<H: Harness>(harness: &H) {
    harness.block_on(async {
        let client = harness.client();
        let shape = harness.shape();
        for node in (0..shape.nodes).map(NodeId) {
            for (memory, size) in [(Memory::Host, shape.host_bytes), (Memory::Device, shape.device_bytes)] {
                let last: Remote<u64> = raw_address(node, memory, size - 8).part(0);
                write_word(&client, last, 0x00C0_FFEE).await.expect("the last word is there");
                for inside in [16, 8, 3, 1] {
                    all_refused(&client, raw_address(node, memory, size - inside), inside as usize).await;
                }
                for beyond in [0, 8, 4096, 1 << 30, (1 << 47) - 8 - size] {
                    all_refused(&client, raw_address(node, memory, size + beyond), 0).await;
                }
                let kept = read_word(&client, last).await;
                assert_eq!(kept, Ok(0x00C0_FFEE), "a refused verb changes nothing in {memory:?} memory");
                write_word(&client, last, 0).await.expect("the last word is there");
            }
        }
    });
}

pub(super) fn corrupt_node_numbers_are_refused_with_their_address<H: Harness>(harness: &H) {
    harness.block_on(async {
        let client = harness.client();
        for node in [harness.shape().nodes, harness.shape().nodes + 1, 0x7FFF, u16::MAX] {
            for memory in [Memory::Host, Memory::Device] {
                all_refused(&client, raw_address(NodeId(node), memory, 4096), 0).await;
            }
        }
    });
}

pub(super) fn misaligned_atomics_are_refused_with_their_address<H: Harness>(harness: &H) {
    everywhere(harness, async |client, memory| {
        for offset in 1..8 {
            let word: Remote<u64> = memory.part(64 + offset);
            let misaligned = FabricError::Misaligned { at: word.address() };
            refused(client.post(cas(word, 0, 1)).await, misaligned.clone());
            refused(client.post(faa(word, 1)).await, misaligned.clone());
            if client.fabric().capabilities().has(Capability::MaskedCas) {
                let bit = |value| Bits { mask: 1, value };
                refused(client.post(masked_cas(word, bit(0), bit(1))).await, misaligned);
            }
        }
        let around = read_raw(client, memory.part(56), 32).await.expect("a READ");
        assert_eq!(around, [0; 32], "a refused atomic changes nothing");
    });
}

pub(super) fn a_client_works_after_an_error<H: Harness>(harness: &H) {
    somewhere(harness, async |client, memory| {
        let (word, beyond) = (memory.part::<u64>(0), harness.shape().host_bytes);
        let outside: Remote<u64> = raw_address(NodeId(0), Memory::Host, beyond).part(0);
        for round in 1..=20u64 {
            let failed = client.post(read(word).and(faa(outside, 1))).await;
            assert!(failed.is_err(), "a doorbell with a verb out of range fails");
            let failed = client.post(write(memory.part::<u64>(512), &[0; 8]).then(read(outside))).await;
            assert!(failed.is_err(), "a chain with a verb out of range fails");
            write_word(client, word, round).await.expect("the client continues");
            assert_eq!(read_word(client, word).await, Ok(round), "the client continues");
        }
    });
}

pub(super) fn a_detached_failure_shows_at_the_next_post<H: Harness>(harness: &H) {
    harness.block_on(async {
        let client = harness.client();
        let outside = raw_address(NodeId(0), Memory::Host, harness.shape().host_bytes);
        client.post_detached(write(outside, &[1; 8]));
        let word = raw_address(NodeId(0), Memory::Device, 0).part(0);
        let shown = read_word(&client, word).await;
        let expected = FabricError::OutOfRange { at: outside.address(), bytes: 8 };
        assert_eq!(shown, Err(expected), "the next post reports the failure of the detached WRITE");
        let again = harness.client();
        assert!(read_word(&again, word).await.is_ok(), "verbs of another client do not fail");
    });
}
