//! Measures the memory of a SMART tree in shared memory, and the speed of one client: `smart_speed [KEYS]`.

use farwood_index::smart::{Direction, RadixEntries, Range, Smart, SmartConfig, SmartVariant};
use farwood_proof::shm::Shm;
use farwood_testkit::Harness as _;
use std::time::Instant;

/// Maps a number to a pseudo-random key; different numbers give different keys.
fn scrambled(number: u64) -> [u8; 8] {
    let mut word = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (word ^ word >> 31).to_be_bytes()
}

#[expect(clippy::print_stdout, reason = "the program prints its measurements")]
fn print(what: &str, count: u64, since: Instant) {
    let seconds = since.elapsed().as_secs_f64();
    println!("{what}: {count} in {seconds:.2} s, {:.0} a second", count as f64 / seconds);
}

#[expect(clippy::print_stdout, reason = "the program prints its measurements")]
fn main() {
    let keys: u64 = std::env::args().nth(1).and_then(|keys| keys.parse().ok()).unwrap_or(1_000_000);
    let shm = Shm::of_bytes((keys * 80).next_multiple_of(8 << 20) + (64 << 20));
    let client = shm.client();
    shm.block_on(async {
        let config = SmartConfig { options: SmartVariant::RECOMMENDED.features(), ..SmartConfig::default() };
        let tree = Smart::create(&client, "speed", config, 2 << 30).await.expect("a new tree");
        let since = Instant::now();
        for number in 0..keys {
            tree.put(&client, &scrambled(number), &number.to_le_bytes()).await.expect("a put");
        }
        print("put, new keys", keys, since);
        println!("bytes per key as allocated: {:.1}", tree.bytes_allocated() as f64 / keys as f64);
        println!("cache: {:?}", tree.cache_bytes());
        for round in 0..2 {
            let since = Instant::now();
            for number in 0..keys {
                let key = scrambled(number.wrapping_mul(7919) % keys);
                let value = tree.get(&client, &key).await.expect("a get");
                assert!(value.is_some());
            }
            print(if round == 0 { "get, cache warming" } else { "get" }, keys, since);
        }
        client.take_costs();
        let new = keys / 10;
        for number in keys..keys + new {
            tree.put(&client, &scrambled(number), &number.to_le_bytes()).await.expect("a put");
        }
        let costs = client.take_costs();
        println!("round trips of a new key, cache warm: {:.3}", costs.round_trips as f64 / new as f64);
        let (since, scans) = (Instant::now(), 20_000);
        let mut entries = RadixEntries::new();
        for number in 0..scans {
            let from = scrambled(number * 31);
            let range = Range { from: Some(&from), to: None };
            tree.scan(&client, range, Direction::Forward, 100, &mut entries).await.expect("a scan");
        }
        print("scan of 100", scans, since);
        let costs = client.take_costs();
        println!("round trips of a scan: {:.2}", costs.round_trips as f64 / scans as f64);
        if keys <= 2_000_000 {
            let walk = tree.walk(&client).await.expect("a walk");
            assert_eq!((walk.entries, &walk.problems[..], walk.unfinished_changes), (keys + new, &[][..], 0));
            println!("{walk:?}");
        }
    });
}
