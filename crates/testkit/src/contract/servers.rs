//! Memory nodes with servers: immediates, and memory that both sides use.

use crate::harness::{ServerHarness, peek_word, place, poke_word};
use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::{Chain, Fabric, LocalMemory, Memory, NodeId, Remote, Server, write, write_imm};

/// Where server and client meet: the last words of the first chunk, which hold no table in pools that tests make.
const MEETING_OFFSET: u64 = CHUNK_BYTES - 4096;

fn meeting() -> Remote<u64> {
    place(NodeId(0), Memory::Host, MEETING_OFFSET).part(0)
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
                    let offset = MEETING_OFFSET + part(message, half);
                    let word = server.local().load(offset).expect("its own memory");
                    assert!(word > message, "immediate {message} arrived before its bytes: {word}");
                }
                server.compute(100).await;
                server.local().store(MEETING_OFFSET, message + 1).expect("its own memory");
            }
        },
        async |client| {
            for message in 0..MESSAGES {
                // No more than the slots ahead of the server.
                while message >= 64 + peek_word(&client, meeting()).await.expect("a READ") {
                    client.fabric().sleep(0).await;
                }
                let word = (message + 1).to_le_bytes();
                let half = |half| meeting().part::<u64>(part(message, half));
                let post = write(half(0), &word).then(write_imm(half(1), &word, message as u32));
                client.post(post).await.expect("a WRITE_WITH_IMM");
            }
            let costs = client.take_costs();
            assert_eq!((costs.write_imm, costs.writes), (MESSAGES, MESSAGES), "WRITE_WITH_IMM is counted");
        },
    );
    harness.block_on(async { poke_word(&harness.client(), meeting(), 0).await.expect("a WRITE") });
}

pub(super) fn clients_read_what_the_server_stored<H: ServerHarness>(harness: &H) {
    let server = harness.server(NodeId(0));
    harness.block_on(async {
        let client = harness.client();
        server.local().store(MEETING_OFFSET, 0xABCD).expect("its own memory");
        assert_eq!(peek_word(&client, meeting()).await, Ok(0xABCD), "a client reads what the server stored");
        poke_word(&client, meeting(), 0).await.expect("a WRITE");
        let beyond = server.local().load(harness.shape().host_bytes);
        assert!(beyond.is_err(), "the server's memory ends where the node's does");
    });
}
