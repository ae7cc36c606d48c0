//! Superblock, client table, chunks, time, and revocation.

use super::somewhere;
use crate::harness::{Harness, SCRATCH_ENTRY, raw_address, read_raw, write_word};
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, ChunkOwner, InUse, TakenChunk};
use farwood_fabric::client_table::{self, CLIENTS_MAX};
use farwood_fabric::superblock::{HEADER_BYTES, HEADER_OFFSET};
use farwood_fabric::{Client, ClientId, Fabric, Memory, NodeId, PoolShape, Revocation};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

pub(super) fn every_node_has_a_superblock<H: Harness>(harness: &H) {
    harness.block_on(async {
        let client = harness.client();
        assert_eq!(client.fabric().shape(), harness.shape(), "the client's description of the pool");
        assert_eq!(harness.shape().refuse(), None, "the pool can be used");
        for node in (0..harness.shape().nodes).map(NodeId) {
            let at = raw_address(node, Memory::Host, HEADER_OFFSET);
            let header = read_raw(&client, at, HEADER_BYTES).await.expect("a READ");
            assert_eq!(
                PoolShape::from_header(node, &header),
                Ok(harness.shape()),
                "the header of node {node}"
            );
            let taken = chunks::taken(&client, node).await.expect("a READ");
            assert!(taken >= 1, "chunk 0 of node {node} is the superblock's");
        }
    });
}

pub(super) fn compute_nodes_have_identities_of_their_own<H: Harness>(harness: &H) {
    const CLIENTS: usize = 8;
    let arrived = AtomicUsize::new(0);
    let seen = harness.run_clients(CLIENTS, async |_, client| {
        let mine = client.fabric().identity();
        // No client leaves before all have entered.
        arrived.fetch_add(1, SeqCst);
        while arrived.load(SeqCst) < CLIENTS {
            client.fabric().sleep(0).await;
        }
        let state = client_table::slot_state(&client, mine.slot).await.expect("a READ");
        assert!(state.is(mine), "{mine} is not live in its own slot: {state:?}");
        let table = client_table::load(&client).await.expect("READs");
        let times = table.attached.iter().filter(|resident| resident.client == mine).count();
        assert_eq!(times, 1, "{mine} is in the table");
        mine
    });
    let strangers: BTreeSet<ClientId> = seen.iter().skip(1).step_by(2).copied().collect();
    let others: BTreeSet<ClientId> = seen.iter().step_by(2).copied().collect();
    assert_eq!(strangers.len(), CLIENTS / 2, "no two compute nodes have one identity: {seen:?}");
    assert!(strangers.is_disjoint(&others), "no two compute nodes have one identity: {seen:?}");
    let held: Vec<_> = (0..4).map(|_| harness.separate_client()).collect();
    let slots: BTreeSet<u16> = held.iter().map(|client| client.fabric().identity().slot).collect();
    assert_eq!(slots.len(), held.len(), "live compute nodes have different slots");
}

/// An unused slot, near the end of the table.
async fn free_slot<F: Fabric>(client: &Client<F>) -> u16 {
    for slot in (0..CLIENTS_MAX as u16).rev() {
        if !client_table::slot_state(client, slot).await.expect("a READ").live {
            return slot;
        }
    }
    panic!("the table of the pool under test is full")
}

pub(super) fn a_slot_is_reused_under_the_next_epoch<H: Harness>(harness: &H) {
    harness.block_on(async {
        let client = harness.client();
        let slot = free_slot(&client).await;
        let mut last = client_table::slot_state(&client, slot).await.expect("a READ").client;
        for process in 1..=3 {
            let entered = client_table::enter(&client, slot, process).await.expect("posts");
            let entered = entered.expect("no other client enters");
            let next = ClientId { slot, epoch: last.epoch.wrapping_add(1) };
            assert_eq!(entered, next, "the next epoch of the slot");
            assert!(client_table::slot_state(&client, slot).await.expect("a READ").is(entered));
            let table = client_table::load(&client).await.expect("READs");
            let found = table.attached.iter().find(|resident| resident.client == entered);
            assert_eq!(found.map(|resident| (resident.process, resident.open)), Some((process, 0)));
            // Expiring an identity that the slot no longer has changes nothing.
            client_table::expire(&client, last).await.expect("a post");
            assert!(client_table::slot_state(&client, slot).await.expect("a READ").is(entered));
            client_table::expire(&client, entered).await.expect("a post");
            assert!(
                !client_table::slot_state(&client, slot).await.expect("a READ").live,
                "{entered} has left"
            );
            last = entered;
        }
    });
}

pub(super) fn one_of_several_clients_enters_a_slot<H: Harness>(harness: &H) {
    for _ in 0..10 {
        let slot = harness.block_on(async { free_slot(&harness.client()).await });
        let before = harness
            .block_on(async { client_table::slot_state(&harness.client(), slot).await.expect("a READ") });
        let entered = harness.run_clients(4, async |number, client| {
            client_table::enter(&client, slot, number as u64).await.expect("posts")
        });
        let entered: Vec<ClientId> = entered.into_iter().flatten().collect();
        let distinct: BTreeSet<ClientId> = entered.iter().copied().collect();
        assert_eq!(distinct.len(), entered.len(), "two clients entered slot {slot} under one identity");
        assert!(!entered.is_empty(), "no client entered slot {slot} of {before:?}");
        harness.block_on(async {
            let client = harness.client();
            for entered in entered {
                client_table::expire(&client, entered).await.expect("a post");
            }
        });
    }
}

pub(super) fn a_live_client_is_not_revoked<H: Harness>(harness: &H) {
    somewhere(harness, async |client, memory| {
        let other = harness.separate_client();
        for (by, whom) in [(client, &other), (client, client), (&other, client)] {
            let revoked = by.fabric().revoke(whom.fabric().identity()).await;
            assert_eq!(revoked, Ok(Revocation::Alive), "{} lives", whom.fabric().identity());
        }
        write_word(&other, memory.part(0), 1).await.expect("a client that was not revoked continues");
    });
}

pub(super) fn time_advances_and_sleeping_takes_time<H: Harness>(harness: &H) {
    harness.run_clients(2, async |_, client| {
        let fabric = client.fabric();
        let mut last = fabric.now();
        for round in 0..1_000u64 {
            let now = fabric.now();
            assert!(now >= last, "time went back from {last} to {now}");
            last = now;
            if round.is_multiple_of(10) {
                fabric.sleep(0).await;
            }
        }
        for nanoseconds in [0, 1, 1_000, 50_000, 3_000_000] {
            let before = fabric.now();
            fabric.sleep(nanoseconds).await;
            let slept = fabric.now() - before;
            assert!(slept >= nanoseconds, "a sleep of {nanoseconds} ns took {slept} ns");
        }
    });
}

fn owner<F: Fabric>(client: &Client<F>) -> ChunkOwner {
    ChunkOwner { client: client.fabric().identity(), entry: SCRATCH_ENTRY }
}

/// Takes all free chunks of `node`.
async fn take_all<F: Fabric>(client: &Client<F>, node: NodeId) -> Vec<Chunk> {
    let mut mine = Vec::new();
    while let Some(taken) = chunks::take(client, node, owner(client), 64).await.expect("posts") {
        assert_eq!(taken.used, 0, "the chunk is unused");
        let chunk = taken.chunk;
        mine.push(chunk);
        assert!(mine.len() as u64 <= client.fabric().shape().chunks(), "more chunks than node {node} has");
    }
    mine
}

pub(super) fn no_chunk_is_taken_twice<H: Harness>(harness: &H) {
    const CLIENTS: usize = 4;
    // The first round takes chunks from the counter, if it is not used up yet, and the others take them from the table.
    for _ in 0..3 {
        for node in (0..harness.shape().nodes).map(NodeId) {
            let taken = harness.run_clients(CLIENTS, async |_, client| take_all(&client, node).await);
            let distinct: BTreeSet<u64> = taken.iter().flatten().map(|chunk| chunk.number).collect();
            let total: usize = taken.iter().map(Vec::len).sum();
            assert_eq!(distinct.len(), total, "a chunk of node {node} was taken twice: {taken:?}");
            let within = 1..harness.shape().chunks();
            assert!(distinct.iter().all(|number| within.contains(number)), "no such chunks: {distinct:?}");
            assert!(total > 0, "the pool under test has free chunks");
            harness.block_on(async {
                let client = harness.client();
                for chunk in taken.into_iter().flatten() {
                    chunks::give_back(&client, chunk).await.expect("a post");
                }
            });
        }
    }
}

pub(super) fn freed_chunks_are_taken_before_new_ones<H: Harness>(harness: &H) {
    harness.block_on(async {
        let client = harness.client();
        for node in (0..harness.shape().nodes).map(NodeId) {
            let take = || chunks::take(&client, node, owner(&client), 64);
            let first = take().await.expect("posts").expect("the pool under test has free chunks").chunk;
            let counted = chunks::taken(&client, node).await.expect("a READ");
            chunks::give_back(&client, first).await.expect("a post");
            let second = take().await.expect("posts").expect("a freed chunk");
            assert_eq!((second.used, second.is_new), (0, false), "the chunk was freed");
            assert_eq!(
                chunks::taken(&client, node).await.expect("a READ"),
                counted,
                "a new chunk of node {node} was taken while another was free"
            );
            chunks::give_back(&client, second.chunk).await.expect("a post");
        }
    });
}

pub(super) fn a_full_node_has_no_chunk_until_one_is_given_back<H: Harness>(harness: &H) {
    harness.block_on(async {
        let client = harness.client();
        let node = NodeId(harness.shape().nodes - 1);
        let mut taken = take_all(&client, node).await;
        let nothing = chunks::take(&client, node, owner(&client), 64).await;
        assert_eq!(nothing, Ok(None), "all chunks of node {node} are taken");
        let in_use = chunks::in_use(&client, node).await.expect("READs");
        for &chunk in &taken {
            let mine = InUse { chunk, entry: SCRATCH_ENTRY, client: Some(client.fabric().identity()) };
            assert!(in_use.contains(&mine), "{chunk:?} does not name its owner");
        }
        let middle = taken.swap_remove(taken.len() / 2);
        chunks::give_back(&client, middle).await.expect("a post");
        let in_use = chunks::in_use(&client, node).await.expect("READs");
        assert!(!in_use.iter().any(|used| used.chunk == middle), "{middle:?} has no owner");
        let again = chunks::take(&client, node, owner(&client), 64).await;
        assert_eq!(
            again,
            Ok(Some(TakenChunk { chunk: middle, used: 0, is_new: false })),
            "the only free chunk is taken again"
        );
        for word in [middle.start().part(0), middle.start().part(CHUNK_BYTES - 8)] {
            write_word(&client, word, 0xFEED).await.expect("a taken chunk is real memory");
        }
        chunks::leave_rest(&client, middle, SCRATCH_ENTRY, 4096 - 7).await.expect("a post");
        let other = ChunkOwner { entry: SCRATCH_ENTRY - 1, ..owner(&client) };
        assert_eq!(
            chunks::take(&client, node, other, 64).await,
            Ok(None),
            "only the index that left a rest of a chunk uses it"
        );
        let rest = chunks::take(&client, node, owner(&client), 64).await;
        assert_eq!(
            rest,
            Ok(Some(TakenChunk { chunk: middle, used: 4096, is_new: false })),
            "a rest begins at the next line"
        );
        taken.push(middle);
        for chunk in taken {
            chunks::give_back(&client, chunk).await.expect("a post");
        }
    });
}
