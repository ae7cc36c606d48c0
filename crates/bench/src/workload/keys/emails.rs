//! Generated keys that resemble e-mail addresses: 2 to 32 bytes, 18.9 on average.
//!
//! The part before the `@` is a word, mostly a popular one, often with a number or a second word; the part after it is
//! one of the most frequent domains, or another one. One in a thousand is truncated, as in real lists.

use std::collections::BTreeSet;
use std::path::Path;

use super::{FileKeys, KeyLength, Keys};
use crate::workload::random::Generator;

/// Seed of the addresses; the same in every run of every version.
const SEED: u64 = 0x6D61_696C;
/// Bytes of the longest address.
const BYTES_MAX: usize = 32;
/// Number of words that are popular names.
const NAMES: u64 = 2_000;
/// Domains, and their share of the addresses in percent; the rest have other domains.
const DOMAINS: [(&str, u64); 9] = [
    ("yahoo.com", 28),
    ("aol.com", 18),
    ("gmail.com", 16),
    ("hotmail.com", 12),
    ("msn.com", 4),
    ("mail.ru", 4),
    ("comcast.net", 3),
    ("web.de", 3),
    ("live.com", 2),
];
const ENDINGS: [&str; 4] = [".com", ".net", ".org", ".de"];

/// Generates `count` keys that resemble e-mail addresses, each of its own length or padded.
pub fn emails(count: u32, length: KeyLength) -> Keys {
    let words = include_str!("../../../../../data/english-words.txt");
    let words: Vec<&str> = words.lines().filter(|word| (3..=7).contains(&word.len())).collect();
    let mut maker = Maker { words, generator: Generator::for_client(SEED, 0) };
    let mut all = BTreeSet::new();
    while all.len() < count as usize {
        let address = maker.address();
        if address.len() <= BYTES_MAX {
            all.insert(address);
        }
    }
    let text = all.into_iter().collect::<Vec<_>>().join("\n");
    let parsed = FileKeys::parse(Path::new("e-mail addresses"), text.as_bytes(), length);
    Keys::File(parsed.expect("the generated addresses are unique keys"))
}

struct Maker {
    words: Vec<&'static str>,
    generator: Generator,
}

impl Maker {
    fn word(&mut self) -> &'static str {
        self.words[self.generator.below(self.words.len() as u64) as usize]
    }

    /// One of the popular names: the lower of two draws, so that some names are more popular than others.
    fn name(&mut self) -> &'static str {
        let drawn = self.generator.below(NAMES).min(self.generator.below(NAMES));
        self.words[(drawn * 7919 % self.words.len() as u64) as usize]
    }

    fn local(&mut self) -> String {
        match self.generator.below(10) {
            0..4 => {
                let digits = 1 + self.generator.below(3) as u32;
                format!("{}{}", self.name(), self.generator.below(10_u64.pow(digits)))
            }
            4..6 => format!("{}.{}", self.name(), self.name()),
            6..8 => format!("{}{}", self.word(), self.generator.below(100)),
            _ => format!("{}{}", &self.name()[..1], self.word()),
        }
    }

    fn domain(&mut self) -> String {
        let mut drawn = self.generator.below(100);
        for (domain, share) in DOMAINS {
            if drawn < share {
                return domain.to_owned();
            }
            drawn -= share;
        }
        let second = if self.generator.below(2) == 0 { self.word() } else { "" };
        format!("{}{second}{}", self.word(), ENDINGS[self.generator.below(4) as usize])
    }

    fn address(&mut self) -> String {
        let mut address = format!("{}@{}", self.local(), self.domain());
        if self.generator.below(1_000) == 0 {
            address.truncate(2 + self.generator.below(address.len() as u64 - 2) as usize);
        }
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_long_as_those_of_the_paper() {
        let keys = emails(50_000, KeyLength::Any);
        let lengths: Vec<_> = (0..keys.ranks()).map(|rank| keys.key(rank).len()).collect();
        let mean = keys.key_bytes_mean().unwrap();
        assert!((mean - 18.93).abs() < 0.1, "{mean}");
        assert_eq!(keys.ranks(), 50_000);
        assert!(lengths.iter().all(|length| (2..=BYTES_MAX).contains(length)));
        let again = emails(50_000, KeyLength::Any);
        assert!(
            (0..100).all(|rank| again.key(rank) == keys.key(rank)),
            "the addresses are the same each time"
        );
    }
}
