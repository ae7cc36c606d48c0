//! Words as keys: all that begin with some letters, and the last ones.
//!
//! `cargo run --example text_keys_scan`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::{BTree, Pool, PoolOptions};

const WORDS: &str = "ant bee beetle bear bat cat cattle caterpillar dog donkey eagle";

fn main() -> farwood::Result<()> {
    let url = format!("shm://example-text-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    let done = use_it(&url);
    Pool::remove_by_force(&url)?;
    done
}

fn use_it(url: &str) -> farwood::Result<()> {
    let options = BTree::new().key_bytes(24);
    let words = Pool::open(url)?.create_index::<String, u64>("words", &options)?;
    for word in WORDS.split(' ') {
        words.put(word, word.len() as u64)?;
    }
    let mut found = Vec::new();
    // All keys that begin with "be": from "be" on, and below the smallest string above all of them.
    for entry in words.scan("be".."bf") {
        let (word, letters) = entry?;
        println!("{word} has {letters} letters");
        found.push(word);
    }
    assert_eq!(found, ["bear", "bee", "beetle"]);
    let last: Vec<_> = words.range(..).rev().limit(2).into_iter().collect::<farwood::Result<_>>()?;
    println!("the last two: {last:?}");
    assert_eq!(last[0].0, "eagle");
    let error = words.put("a word that is too long for the index", 0).unwrap_err();
    println!("refused: {error}");
    Ok(())
}
