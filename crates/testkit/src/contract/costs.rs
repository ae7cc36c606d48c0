//! Cost counters are exact: round trips, verbs by kind, bytes, failures.

use super::somewhere;
use crate::harness::{Harness, RawAddress, read_word};
use farwood_fabric::{
    Bits, Capability, Chain, Client, Costs, Fabric, Parallel, Post, all, cas, faa, masked_cas, read,
    read_bytes, write,
};

/// Posts one chain and returns the costs that the client counted for it.
async fn cost<F: Fabric, P: Post>(client: &Client<F>, post: P) -> Costs {
    let _ = client.take_costs();
    drop(client.post(post).await.expect("a post"));
    client.take_costs()
}

pub(super) fn every_verb_is_counted_once<H: Harness>(harness: &H) {
    somewhere(harness, async |client, memory| {
        let (word, far) = (memory.part::<u64>(0), memory.part::<u64>(64));
        let one = Costs { round_trips: 1, ..Costs::default() };
        let counted = cost(client, read_bytes(memory, 1024)).await;
        assert_eq!(counted, Costs { reads: 1, bytes_read: 1024, ..one }, "a READ");
        let counted = cost(client, write(memory, &[1; 13])).await;
        assert_eq!(counted, Costs { writes: 1, bytes_written: 13, ..one }, "a WRITE");
        let counted = cost(client, cas(far, 0, 1)).await;
        assert_eq!(counted, Costs { cas: 1, ..one }, "a CAS that wins");
        let counted = cost(client, cas(far, 0, 1)).await;
        assert_eq!(counted, Costs { cas: 1, cas_failures: 1, ..one }, "a CAS that loses");
        assert_eq!(cost(client, faa(far, 1)).await, Costs { faa: 1, ..one }, "an FAA");
        let counted = cost(client, write(memory, &[0; 8]).then(write(word, &[0; 64])).then(read(far))).await;
        let expected = Costs { writes: 2, bytes_written: 72, reads: 1, bytes_read: 8, ..one };
        assert_eq!(counted, expected, "a chain is one round trip");
        let counted = cost(client, read(far).and(read(far)).and(cas(far, 9, 9).then(faa(far, 0)))).await;
        let expected = Costs { reads: 2, bytes_read: 16, cas: 1, cas_failures: 1, faa: 1, ..one };
        assert_eq!(counted, expected, "a doorbell is one round trip");
        let counted = cost(client, all((0..10).map(|index| read(memory.part::<u64>(index * 8))))).await;
        assert_eq!(counted, Costs { reads: 10, bytes_read: 80, ..one }, "many READs are one round trip");
        if client.fabric().capabilities().has(Capability::MaskedCas) {
            masked(client, memory, one).await;
        }
        assert_eq!(client.take_costs(), Costs::default(), "taking the costs resets them");
    });
}

async fn masked<F: Fabric>(client: &Client<F>, memory: RawAddress, one: Costs) {
    let word = memory.part(128);
    let bit = |value| Bits { mask: 1, value };
    let won = cost(client, masked_cas(word, bit(0), bit(1))).await;
    assert_eq!(won, Costs { masked_cas: 1, ..one }, "a masked CAS that succeeds");
    let lost = cost(client, masked_cas(word, bit(0), bit(1))).await;
    assert_eq!(lost, Costs { masked_cas: 1, cas_failures: 1, ..one }, "a masked CAS that fails");
}

pub(super) fn detached_posts_cost_no_round_trip<H: Harness>(harness: &H) {
    somewhere(harness, async |client, memory| {
        let _ = client.take_costs();
        let word = memory.part::<u64>(256);
        client.post_detached(write(memory, &[0; 24]).then(cas(word, 1, 2)));
        let expected = Costs { writes: 1, bytes_written: 24, cas: 1, ..Costs::default() };
        assert_eq!(
            client.take_costs(),
            expected,
            "verbs and bytes are counted, but no round trip and no failure"
        );
        read_word(client, word).await.expect("a READ");
        assert_eq!(
            client.take_costs(),
            Costs { round_trips: 1, reads: 1, bytes_read: 8, ..Costs::default() }
        );
    });
}
