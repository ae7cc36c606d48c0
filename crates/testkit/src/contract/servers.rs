//! Memory nodes with servers: immediates, and memory that both sides use.

use crate::harness::{ServerHarness, raw_address, read_word, write_word};
use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::{Chain, Fabric, Memory, NodeId, Remote, Server, ServerMemory, write, write_imm};

/// The words that server and client share: the last words of the first chunk, which hold no table in pools of tests.
const SHARED_OFFSET: u64 = CHUNK_BYTES - 4096;

fn shared() -> Remote<u64> {
    raw_address(NodeId(0), Memory::Host, SHARED_OFFSET).part(0)
}

pub(super) fn immediates_arrive_in_order_after_their_bytes<H: ServerHarness>(harness: &H) {
    const MESSAGES: u64 = 500;
    // A message is a word by WRITE and a word by the WRITE_WITH_IMM chained to it.
    let part = |message: u64, half: u64| 64 + message % 64 * 16 + half * 8;
    harness.serve(
        async |server| {
            for message in 0..MESSAGES {
                let immediate = server.receive().await.expect("an immediate");
                assert_eq!(u64::from(immediate), message, "immediates arrive in order, none is lost");
                for half in 0..2 {
                    let offset = SHARED_OFFSET + part(message, half);
                    let word = server.local().load(offset).expect("local memory");
                    assert!(word > message, "immediate {message} arrived before its bytes: {word}");
                }
                server.compute(100).await;
                server.local().store(SHARED_OFFSET, message + 1).expect("local memory");
            }
        },
        async |client| {
            for message in 0..MESSAGES {
                // No more than the slots ahead of the server.
                while message >= 64 + read_word(&client, shared()).await.expect("a READ") {
                    client.fabric().sleep(0).await;
                }
                let word = (message + 1).to_le_bytes();
                let half = |half| shared().part::<u64>(part(message, half));
                let post = write(half(0), &word).then(write_imm(half(1), &word, message as u32));
                client.post(post).await.expect("a WRITE_WITH_IMM");
            }
            let costs = client.take_costs();
            assert_eq!((costs.write_imm, costs.writes), (MESSAGES, MESSAGES), "WRITE_WITH_IMM is counted");
        },
    );
    harness.block_on(async { write_word(&harness.client(), shared(), 0).await.expect("a WRITE") });
}

pub(super) fn clients_read_what_the_server_stored<H: ServerHarness>(harness: &H) {
    let server = harness.server(NodeId(0));
    harness.block_on(async {
        let client = harness.client();
        server.local().store(SHARED_OFFSET, 0xABCD).expect("local memory");
        assert_eq!(read_word(&client, shared()).await, Ok(0xABCD), "a client reads what the server stored");
        write_word(&client, shared(), 0).await.expect("a WRITE");
        let beyond = server.local().load(harness.shape().host_bytes);
        assert!(beyond.is_err(), "the server's memory ends where the node's does");
    });
}
