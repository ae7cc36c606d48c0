//! Types of keys and values: a type of one field, a struct that serde serialises, a struct whose bytes are its contents
//! and that is read without a copy, and a key with an encoding of its own.
//!
//! `cargo run --example own_types --features serde,zerocopy`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::types::{Codec, Encode, Kind, Plain, Serde, TypeName, Unfit, Width};
use farwood::{BTree, Key, Pool, Radix};
use serde::{Deserialize, Serialize};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Stored as its number. The index cannot be opened with other numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct UserId(u32);
farwood::key_type!(UserId(u32), "user id");

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Profile {
    name: String,
    languages: Vec<String>,
}

/// Its numbers have the same bytes on every machine.
#[derive(Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Quote {
    bid: U32,
    ask: U32,
}

/// A version of a package, whose order is that of its numbers.
#[derive(Debug, PartialEq)]
struct Version([u16; 4]);

impl Encode<Version> for Version {
    type Encoded<'a> = [u8; 8];

    fn encode(&self, _: Width) -> Result<[u8; 8], Unfit> {
        let word = self.0.iter().fold(0, |word, &number| word << 16 | u64::from(number));
        Ok(word.to_be_bytes())
    }
}

impl Codec for Version {
    const KIND: Kind = Kind::Other(128);
    const NAME: TypeName = TypeName::new("version");
    const WIDTH: Option<usize> = Some(8);

    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        let word = u64::decode(bytes)?;
        Ok(Self([48, 32, 16, 0].map(|bits| (word >> bits) as u16)))
    }
}

impl Key for Version {}

fn main() -> farwood::Result<()> {
    let pool = Pool::anonymous(128 << 20)?;

    let profiles = pool.create_index::<UserId, Serde<Profile>>("profiles", &Radix::new())?;
    let ada = Profile { name: "Ada".into(), languages: vec!["English".into(), "French".into()] };
    profiles.put(UserId(7), Serde(&ada))?;
    assert_eq!(profiles.get(UserId(7))?.as_ref(), Some(&Serde(ada)));
    let refused = pool.open_index::<u32, Serde<Profile>>("profiles").expect_err("the keys are user ids");
    println!("{refused}");

    let quotes = pool.create_index::<[u8; 8], Plain<Quote>>("quotes", &BTree::new())?;
    quotes.put(*b"FARWOOD ", Plain(&Quote { bid: 1999.into(), ask: 2001.into() }))?;
    let spread = quotes.get_with(*b"FARWOOD ", |quote| quote.ask.get() - quote.bid.get())?;
    println!("the spread is {spread:?}");
    assert_eq!(spread, Some(2));

    let releases = pool.create_index::<Version, (u16, Option<String>)>("releases", &Radix::new())?;
    releases.put(Version([1, 10, 0, 0]), (2026, Some("stable")))?;
    releases.put(Version([1, 9, 0, 0]), (2025, None::<&str>))?;
    for release in &releases {
        println!("{:?}", release?);
    }
    let last = releases.scan(..).next_back().transpose()?;
    assert_eq!(last.map(|(version, _)| version), Some(Version([1, 10, 0, 0])));
    Ok(())
}
