//! Processing units of a memory node's NIC: the rate of independent atomics, and verbs that wait for atomics of others.

use farwood_fabric::{Memory, NodeId, Remote, faa, read};
use farwood_sim::{NicModel, World, WorldSpec};
use std::cell::Cell;

/// Atomics per microsecond of 176 clients with 4 in flight each, all on separate words.
fn rate(seed: u64) -> f64 {
    let card = NicModel::named("cx5-100g").unwrap();
    let spec = WorldSpec { memory_nodes: 1, compute_nodes: 8, threads: 22, seed, ..WorldSpec::small(card) };
    let world = World::new(spec).unwrap();
    let clients: Vec<_> = (0..176).map(|number| world.client(number / 22)).collect();
    let ends = Cell::new(0);
    let mut group = world.task_group();
    for (number, client) in clients.iter().enumerate() {
        for lane in 0..4 {
            let word =
                Remote::<u64>::new(NodeId(0), Memory::Host, (8 << 20) + 8 * (4 * number as u64 + lane));
            let (word, world, ends) = (word.unwrap(), &world, &ends);
            group.spawn(client, async move {
                while world.now() < 30_000 {
                    client.post(faa(word, 1)).await.unwrap();
                    if (10_000..30_000).contains(&world.now()) {
                        ends.set(ends.get() + 1);
                    }
                }
            });
        }
    }
    group.run().unwrap();
    f64::from(ends.get()) / 20.0
}

#[test]
fn every_seed_reaches_the_maximum_rate_of_independent_atomics() {
    for seed in 1..=5 {
        let rate = rate(seed);
        assert!((45.0..=52.0).contains(&rate), "seed {seed}: {rate} per us");
    }
}

/// Clients of even number post atomics on one word, clients of odd number read another one.
#[test]
fn readers_of_odd_number_share_units_with_writers_of_even_number() {
    let spec =
        WorldSpec { compute_nodes: 1, threads: 64, ..WorldSpec::small(NicModel::named("cx5-100g").unwrap()) };
    let world = World::new(spec).unwrap();
    let clients: Vec<_> = (0..64).map(|_| world.client(0)).collect();
    let word = |number: u64| Remote::<u64>::new(NodeId(0), Memory::Host, (8 << 20) + 8 * number).unwrap();
    let slowest = Cell::new(0);
    let mut group = world.task_group();
    for (number, client) in clients.iter().enumerate() {
        let (world, slowest) = (&world, &slowest);
        group.spawn(client, async move {
            for _ in 0..4 {
                let begin = world.now();
                if number % 2 == 0 {
                    client.post(faa(word(0), 1)).await.unwrap();
                } else {
                    drop(client.post(read(word(1))).await.unwrap());
                    slowest.set(slowest.get().max(world.now() - begin));
                }
            }
        });
    }
    group.run().unwrap();
    assert!(slowest.get() > 5_000, "the slowest READ takes {} ns, 2 us alone", slowest.get());
}
