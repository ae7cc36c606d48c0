//! Messages of many packets: their latency alone, and the bandwidth of a shared link.

use farwood_fabric::{Client, Memory, NodeId, Remote, Words, read_bytes, write};
use farwood_sim::{NicModel, SimFabric, World, WorldSpec};

const BYTES: usize = 64 << 10;
/// Nanoseconds of `BYTES` bytes on a link of 12.5 bytes per nanosecond.
const SERIALISATION: u64 = 5_243;
/// Nanoseconds of a packet of 4 KiB.
const PACKET: u64 = 328;

fn world() -> World {
    World::new(WorldSpec::small(NicModel::named("cx5-100g").unwrap())).unwrap()
}

fn address(node: u16, number: u64) -> Remote<Words> {
    Remote::new(NodeId(node), Memory::Host, (8 << 20) + number * BYTES as u64).unwrap()
}

/// Virtual time of a post on an idle network, nanoseconds.
fn latency(post: impl AsyncFnOnce(&Client<SimFabric>)) -> u64 {
    let world = world();
    let client = world.client(0);
    let begin = world.now();
    world.block_on(post(&client));
    world.now() - begin
}

#[track_caller]
fn near(value: u64, expected: u64) {
    assert!(value.abs_diff(expected) <= expected / 50, "{value} ns, expected {expected}");
}

#[test]
fn a_large_read_alone_is_serialised_once() {
    let read = |bytes| {
        latency(async move |client| drop(client.post(read_bytes(address(0, 0), bytes)).await.unwrap()))
    };
    near(read(BYTES) - read(8), SERIALISATION + PACKET);
    near(read(4096) - read(8), 2 * PACKET - 1);
}

#[test]
fn a_large_write_alone_is_serialised_once() {
    let write = |bytes| {
        let data = vec![7; bytes];
        latency(async move |client| client.post(write(address(0, 0), &data)).await.unwrap())
    };
    near(write(BYTES) - write(8), SERIALISATION);
}

/// Bytes per nanosecond of READs of `BYTES` bytes: 8 in flight of each reader, a compute node and a memory node.
fn bandwidth(readers: &[(usize, u16)]) -> f64 {
    const READS: u64 = 20;
    let world = world();
    let clients: Vec<_> = readers.iter().map(|&(compute, _)| world.client(compute)).collect();
    let begin = world.now();
    let mut group = world.task_group();
    for (client, &(_, node)) in clients.iter().zip(readers) {
        for lane in 0..8 {
            group.spawn(client, async move {
                for _ in 0..READS {
                    drop(client.post(read_bytes(address(node, lane), BYTES)).await.unwrap());
                }
            });
        }
    }
    group.run().unwrap();
    (readers.len() as u64 * 8 * READS * BYTES as u64) as f64 / (world.now() - begin) as f64
}

#[test]
fn flows_that_share_a_link_have_its_bandwidth() {
    let of_a_memory_node = bandwidth(&[(0, 0), (1, 0)]);
    assert!((12.2..=12.5).contains(&of_a_memory_node), "{of_a_memory_node}");
    let of_a_compute_node = bandwidth(&[(0, 0), (0, 1)]);
    assert!((12.2..=12.5).contains(&of_a_compute_node), "{of_a_compute_node}");
    let separate = bandwidth(&[(0, 0), (1, 1)]);
    assert!((24.4..=25.0).contains(&separate), "{separate}");
}

/// The acknowledgement follows the last byte, and a READ after it finds all bytes.
#[test]
fn a_large_write_is_visible_after_its_acknowledgement() {
    let world = world();
    let (writer, reader) = (world.client(0), world.client(1));
    world.block_on(async {
        writer.post(write(address(0, 0), &vec![7; BYTES])).await.unwrap();
        let last = address(0, 0).part(BYTES as u64 - 64);
        let copy = reader.post(read_bytes(last, 64)).await.unwrap().whole_words();
        assert!(copy.iter().all(|byte| *byte == 7));
    });
}
