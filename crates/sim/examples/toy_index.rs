//! A toy index, built and measured in the simulator: a hash table in far memory that uses one-sided verbs only.
//!
//! A bucket has two words, key and value. An insert claims a free bucket with a CAS and then writes the value; a get
//! reads the buckets one at a time. A get that runs during an insert may find the value 0, which means no value yet.
//!
//! Run it with `cargo run --release -p farwood-sim --example toy_index`.
#![expect(clippy::print_stdout, reason = "an example that reports")]

use farwood_fabric::{
    Client, Fabric, FabricError, Memory, NodeId, Remote, Swapped, Words, cas, read_bytes, write,
};
use farwood_sim::{NicModel, World, WorldSpec};
use std::cell::Cell;

/// The table: its buckets are distributed over the memory nodes round robin.
#[derive(Clone, Copy)]
struct Table {
    buckets: u64,
    nodes: u64,
}

const BUCKET_BYTES: u64 = 16;
/// Offset of the table on every memory node: directly after the superblock's chunk.
const START: u64 = 8 << 20;

impl Table {
    fn bucket(self, number: u64) -> Remote<Words> {
        let number = number % self.buckets;
        let node = NodeId((number % self.nodes) as u16);
        let offset = START + number / self.nodes * BUCKET_BYTES;
        Remote::new(node, Memory::Host, offset).expect("the table is within the pool")
    }

    fn first(key: u64) -> u64 {
        key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
    }

    /// Stores `value` under `key`; neither may be 0. [2 RT without collisions]
    async fn insert<F: Fabric>(self, client: &Client<F>, key: u64, value: u64) -> Result<bool, FabricError> {
        for step in 0..self.buckets {
            let bucket = self.bucket(Self::first(key) + step);
            match client.post(cas(bucket.part(0), 0, key)).await? {
                Swapped::Won => {
                    client.post(write(bucket.part::<u64>(8), &value.to_le_bytes())).await?;
                    return Ok(true);
                }
                Swapped::Lost(found) if found == key => return Ok(false),
                Swapped::Lost(_) => {}
            }
        }
        Ok(false)
    }

    /// Yields the value of `key`. [1 RT without collisions]
    async fn get<F: Fabric>(self, client: &Client<F>, key: u64) -> Result<Option<u64>, FabricError> {
        for step in 0..self.buckets {
            let copy = client.post(read_bytes(self.bucket(Self::first(key) + step), 16)).await?;
            let words = copy.whole_words();
            let word = |at: usize| u64::from_le_bytes(words[at..at + 8].try_into().expect("eight bytes"));
            match (word(0), word(8)) {
                (found, value) if found == key => return Ok((value != 0).then_some(value)),
                (0, _) => return Ok(None),
                _ => {}
            }
        }
        Ok(None)
    }
}

const CLIENTS: u64 = 64;
const KEYS_EACH: u64 = 1_000;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let card = NicModel::named("cx5-100g")?;
    let world = World::new(WorldSpec { compute_nodes: 4, threads: 16, ..WorldSpec::small(card) })?;
    let table = Table { buckets: 2 * CLIENTS * KEYS_EACH, nodes: 2 };
    let clients: Vec<_> = (0..CLIENTS as usize).map(|number| world.client(number % 4)).collect();
    let (inserted, wrong) = (Cell::new(0), Cell::new(0));
    let mut group = world.task_group();
    for (me, client) in (0..).zip(&clients) {
        let (inserted, wrong) = (&inserted, &wrong);
        group.spawn(client, async move {
            for number in 0..KEYS_EACH {
                // Neighbours want the same keys: each is inserted once.
                let key = 1 + (me / 2) * KEYS_EACH + number;
                // What an operation costs the thread besides posts and completions, as `farwood bench` charges it.
                client.fabric().spend_operation();
                let won = table.insert(client, key, key + 7).await.expect("the network works");
                inserted.set(inserted.get() + u64::from(won));
                let found = table.get(client, key).await.expect("the network works");
                // The client that lost may read before the winner's value is written.
                wrong.set(
                    wrong.get() + u64::from(found.unwrap_or(key + 7) != key + 7 || won && found.is_none()),
                );
            }
        });
    }
    group.run()?;
    drop(group);
    let seconds = world.now() as f64 / 1e9;
    for key in 1..=CLIENTS / 2 * KEYS_EACH {
        let found = world.block_on(table.get(&clients[0], key))?;
        wrong.set(wrong.get() + u64::from(found != Some(key + 7)));
    }
    let operations = 2 * CLIENTS * KEYS_EACH;
    println!("{} keys, {} wrong answers", inserted.get(), wrong.get());
    println!("{:.2} M operations/s of virtual time", operations as f64 / seconds / 1e6);
    println!("{:?}", world.counts());
    assert_eq!((inserted.get(), wrong.get()), (CLIENTS / 2 * KEYS_EACH, 0));
    Ok(())
}
