//! A memory node's processor: time slices, immediates, and networks through the kernel.

use farwood_fabric::{Chain, Memory, NodeId, Remote, Server, Words, read_bytes, write, write_imm};
use farwood_sim::{NicModel, Tracing, World, WorldSpec};
use std::cell::RefCell;

fn world(change: impl FnOnce(&mut NicModel)) -> World {
    let mut card = NicModel::named("cx5-100g").unwrap();
    change(&mut card);
    World::new(WorldSpec { threads: 8, ..WorldSpec::small(card) }).unwrap()
}

fn address(offset: u64) -> Remote<Words> {
    Remote::new(NodeId(0), Memory::Host, (8 << 20) + offset).unwrap()
}

/// Yields the end times of `jobs` jobs of 10 us that begin together.
fn ends_of(jobs: usize, cores: u32, quantum_ns: f64, switch_ns: f64) -> Vec<u64> {
    let world = world(|card| {
        (card.server.cores, card.server.quantum_ns, card.server.switch_ns) = (cores, quantum_ns, switch_ns);
    });
    let ends = RefCell::new(Vec::new());
    let mut group = world.task_group();
    for _ in 0..jobs {
        let (server, world, ends) = (world.server(NodeId(0)), &world, &ends);
        group.spawn_server(async move {
            server.compute(10_000).await;
            ends.borrow_mut().push(world.now());
        });
    }
    group.run().unwrap();
    drop(group);
    ends.into_inner()
}

#[test]
fn jobs_on_their_own_cores_do_not_delay_each_other() {
    assert_eq!(ends_of(3, 4, 1_000.0, 500.0), [10_000; 3]);
}

#[test]
fn more_jobs_than_cores_share_them_in_slices() {
    let ends = ends_of(4, 2, 1_000.0, 0.0);
    assert_eq!(ends, [19_000, 19_000, 20_000, 20_000], "all advance together");
    let alone = ends_of(4, 2, 100_000.0, 0.0);
    assert_eq!(alone, [10_000, 10_000, 20_000, 20_000], "a long slice is a queue");
    let switching = ends_of(4, 2, 1_000.0, 500.0);
    assert!(switching[3] > 28_000, "switching costs: {switching:?}");
}

#[test]
fn a_polling_thread_keeps_its_core_until_its_slice_ends() {
    let world = world(|card| {
        (card.server.cores, card.server.quantum_ns, card.server.switch_ns) = (1, 10_000.0, 0.0);
    });
    let (looks, done) = (RefCell::new(Vec::new()), RefCell::new(0));
    let (looking, other) = (world.server(NodeId(0)), world.server(NodeId(0)));
    let mut group = world.task_group();
    group.spawn_server(async {
        for _ in 0..30 {
            looking.busy_wait(1_000).await;
            looks.borrow_mut().push(world.now());
        }
    });
    group.spawn_server(async {
        other.compute(500).await;
        *done.borrow_mut() = world.now();
    });
    group.run().unwrap();
    drop(group);
    assert_eq!(*done.borrow(), 10_500, "the other thread waits for the end of the slice");
    let looks = looks.into_inner();
    assert_eq!((looks[9], looks[10], looks[29]), (10_000, 11_500, 30_500), "{looks:?}");
}

#[test]
fn an_immediate_wakes_the_server_after_the_wake_up_time() {
    let world = world(|_| {});
    let client = world.client(0);
    let (server, seen) = (world.server(NodeId(0)), RefCell::new(None));
    let mut group = world.task_group();
    group.spawn(&client, async {
        client.post(write_imm(address(0), b"12345678", 7)).await.unwrap();
    });
    group.spawn_server(async {
        let immediate = server.receive().await.unwrap();
        *seen.borrow_mut() = Some((immediate, world.now()));
    });
    group.run().unwrap();
    drop(group);
    let (immediate, time) = seen.into_inner().unwrap();
    assert_eq!(immediate, 7);
    // 120 post, 650 wire, 150 until it is placed, 7,000 until the task runs.
    assert!((7_900..8_100).contains(&time), "{time}");
}

#[test]
fn each_immediate_of_a_long_write_reaches_one_waiting_task() {
    let world = world(|_| {});
    let client = world.client(0);
    let seen = RefCell::new(Vec::new());
    let servers = [world.server(NodeId(0)), world.server(NodeId(0))];
    let mut group = world.task_group();
    group.spawn(&client, async {
        for immediate in [7, 8] {
            client.post(write_imm(address(0), &[3; 16 << 10], immediate)).await.unwrap();
        }
    });
    for server in &servers {
        let seen = &seen;
        group.spawn_server(async move {
            let immediate = server.receive().await.unwrap();
            seen.borrow_mut().push(immediate);
        });
    }
    group.run().unwrap();
    drop(group);
    let mut seen = seen.into_inner();
    seen.sort_unstable();
    assert_eq!(seen, [7, 8]);
}

#[test]
fn a_connection_through_the_kernel_keeps_its_order() {
    let spec = WorldSpec { tracing: Tracing::Full, ..WorldSpec::small(NicModel::named("tcp-40g").unwrap()) };
    let world = World::new(spec).unwrap();
    let client = world.client(0);
    let mut group = world.task_group();
    group.spawn(&client, async {
        client.post(write(address(0), &[1; 1024]).then(write(address(4096), &[2; 8]))).await.unwrap();
    });
    group.run().unwrap();
    drop(group);
    let trace = world.trace();
    let served: Vec<_> = trace.events().iter().filter(|event| event.stage == "serve").collect();
    assert_eq!(served.len(), 2);
    assert!(served[0].what.starts_with("WRITE 1024"), "{}", trace.to_sequence(20));
}

/// Measures one READ of `bytes` bytes on a NIC model.
fn latency(card: &str, bytes: usize) -> u64 {
    let world = World::new(WorldSpec::small(NicModel::named(card).unwrap())).unwrap();
    let client = world.client(0);
    let mut group = world.task_group();
    group.spawn(&client, async {
        drop(client.post(read_bytes(address(0), bytes)).await.unwrap());
    });
    group.run().unwrap();
    drop(group);
    world.now()
}

#[test]
fn messages_through_the_kernel_are_slow_and_large_ones_wait_for_the_link() {
    for card in ["tcp-1g", "tcp-40g"] {
        let (small, medium) = (latency(card, 64), latency(card, 1_024));
        assert!(small > 10 * latency("cx5-100g", 64), "{card}: {small}");
        assert!((medium - small) * 4 < small, "{card}: flat below 2 KB: {small} and {medium}");
    }
    let (half, whole) = (latency("tcp-1g", 32 << 10), latency("tcp-1g", 64 << 10));
    assert!(whole - half > 32 * 1024 * 8, "1 Gb/s: {half} and {whole}");
}
