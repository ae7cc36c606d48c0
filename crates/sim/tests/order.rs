//! The order of verbs, observed in the trace.

use farwood_fabric::{Chain, Memory, NodeId, Remote, Words, read_bytes, write};
use farwood_sim::{NicModel, SimFabric, TraceEvent, Tracing, World, WorldSpec};

/// Posts a READ and then a WRITE of the same client to the same memory node. Yields the times at which the READ was
/// answered and the WRITE was served.
fn answered_and_served(post: impl AsyncFnOnce(&farwood_fabric::Client<SimFabric>)) -> (u64, u64) {
    let spec = WorldSpec { tracing: Tracing::Full, ..WorldSpec::small(NicModel::named("cx5-100g").unwrap()) };
    let world = World::new(spec).unwrap();
    let client = world.client(0);
    let before = world.trace().events().len();
    world.block_on(post(&client));
    let trace = world.trace();
    let time = |verb: &str, stage| {
        let is_it = |event: &&TraceEvent| event.what.starts_with(verb) && event.stage == stage;
        trace.events()[before..].iter().find(is_it).expect("it was posted").time
    };
    (time("READ", "complete"), time("WRITE", "serve"))
}

fn address(number: u64) -> Remote<Words> {
    Remote::new(NodeId(0), Memory::Host, (16 << 20) + 4096 * number).unwrap()
}

#[test]
fn a_fenced_write_is_served_after_the_read_before_it_is_answered() {
    let (answered, served) = answered_and_served(async |client| {
        let read_then_write = read_bytes(address(0), 1024).fenced(write(address(1), &[7; 64]));
        let _ = client.post(read_then_write).await.unwrap();
    });
    assert!(served > answered, "the WRITE is served at {served} ns, the READ answered at {answered}");
}

/// Without a fence the WRITE is served while the READ is in progress, so the fence causes the wait.
#[test]
fn an_unfenced_write_does_not_wait() {
    let (answered, served) = answered_and_served(async |client| {
        let read = client.post(read_bytes(address(0), 1024));
        client.post_detached(write(address(1), &[7; 64]));
        let _ = read.await.unwrap();
    });
    assert!(served < answered, "the WRITE is served at {served} ns, the READ answered at {answered}");
}
