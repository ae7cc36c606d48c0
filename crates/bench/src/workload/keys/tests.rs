//! Tests of the keys: bijections, widths, files and their errors.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;

fn parse(name: &str, text: &str, key_bytes: usize) -> Result<FileKeys> {
    FileKeys::parse(Path::new(name), text.as_bytes(), KeyLength::Padded(key_bytes))
}

fn refusal(name: &str, text: &str) -> String {
    parse(name, text, 8).unwrap_err().to_string()
}

#[test]
fn integer_keys_are_a_bijection_at_every_width() {
    for key_bytes in [8, 9, 16, 31, 1024] {
        let keys = Keys::integers(key_bytes).unwrap();
        let ranks = (0..500).chain([keys.ranks() - 1]);
        let distinct: BTreeSet<Vec<u8>> = ranks.clone().map(|rank| keys.key(rank)).collect();
        assert_eq!(distinct.len(), 501);
        for rank in ranks {
            let key = keys.key(rank);
            assert_eq!(key.len(), key_bytes);
            assert_eq!(keys.rank_of(&key), Some(rank));
        }
    }
}

#[test]
fn integer_keys_spread_over_all_bits_and_never_change() {
    let all = (0..1000).map(scatter).fold((0u64, u64::MAX), |(or, and), key| (or | key, and & key));
    assert_eq!(all, (u64::MAX, 0));
    assert!((0..1000).all(|rank| gather(scatter(rank)) == rank));
    // The expected numbers are constants, because records of different versions must use the same keys.
    assert_eq!(scatter(0), 0x4BE9_3ECA_0C92_15E5);
}

#[test]
fn every_byte_of_a_wide_key_is_significant() {
    let keys = Keys::integers(40).unwrap();
    let mut key = keys.key(3);
    for position in 0..40 {
        key[position] ^= 1;
        assert_ne!(keys.rank_of(&key), Some(3), "byte {position}");
        key[position] ^= 1;
    }
    assert_eq!(keys.rank_of(&key[..39]), None);
}

#[test]
fn key_lengths_outside_the_limits_are_refused() {
    for key_bytes in [0, 7, 1025] {
        let error = Keys::integers(key_bytes).unwrap_err().to_string();
        assert!(error.contains("--key-bytes") && error.contains("8 to 1024"), "{error}");
    }
}

#[test]
fn keys_of_a_file_are_padded_and_found_again() {
    let keys = Keys::File(parse("words.txt", "zebra\nant\r\nbee\n", 8).unwrap());
    assert_eq!(keys.ranks(), 3);
    let all: BTreeSet<Vec<u8>> = (0..3).map(|rank| keys.key(rank)).collect();
    let expected = [b"ant\0\0\0\0\0".to_vec(), b"bee\0\0\0\0\0".to_vec(), b"zebra\0\0\0".to_vec()];
    assert_eq!(all, BTreeSet::from(expected));
    for rank in 0..3 {
        assert_eq!(keys.rank_of(&keys.key(rank)), Some(rank));
    }
    assert_eq!(keys.rank_of(b"cat\0\0\0\0\0"), None);
}

#[test]
fn tables_give_their_first_column() {
    let tsv = parse("a.tsv", "one,two\t3\nthree\t4\n", 8).unwrap();
    assert_eq!(&tsv.sorted, b"one,two\0three\0\0\0");
    let csv = parse("a.csv", "one,1\n\"two, b\",2\n", 8).unwrap();
    assert_eq!(&csv.sorted, b"one\0\0\0\0\0two, b\0\0");
    assert!(
        refusal("a.csv", "x,1\n\"y\"\"z\",2\n").contains("a.csv:2: the first column has a doubled quote")
    );
    assert!(refusal("a.csv", "\"x,1\n").contains("does not end on this line"));
}

#[test]
fn bad_files_name_the_line_and_the_remedy() {
    let duplicate = refusal("k", "a\nb\na\n");
    assert!(duplicate.contains("k:3: the key is the same as in line 1; remove"), "{duplicate}");
    let long = refusal("k", "a\nninebytes\n");
    assert!(long.contains("k:2: the key has 9 B, more than 8; give a larger --key-bytes"), "{long}");
    assert!(refusal("k", "a\n\nb\n").contains("k:2: the key is empty"));
    assert!(refusal("k", "").contains("no keys"));
    // Two keys that zero padding makes equal must be refused.
    assert!(refusal("k", "a\na\0\n").contains("same as in line 1"));
    let missing = Keys::from_file(Path::new("/nonexistent/keys"), KeyLength::Any).unwrap_err();
    assert!(missing.to_string().contains("/nonexistent/keys"));
}

#[test]
fn the_words_have_the_size_in_their_readme() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/english-words.txt");
    let keys = Keys::from_file(&file, KeyLength::Padded(28)).unwrap();
    assert_eq!(keys.ranks(), 274_937);
    assert!(Keys::from_file(&file, KeyLength::Padded(27)).is_err());
    // Popular ranks are scattered over the alphabet.
    let initials: BTreeSet<u8> = (0..100).map(|rank| keys.key(rank)[0]).collect();
    assert!(initials.len() > 10, "{initials:?}");
}

#[test]
fn ranks_in_key_order_give_ascending_keys() {
    let words = Keys::File(parse("words.txt", "zebra\nant\nbee\ncat\ndog\n", 8).unwrap());
    for (keys, count) in [(Keys::integers(16).unwrap(), 1000), (words.clone(), 5), (words, 3)] {
        let order = keys.ranks_in_key_order(count);
        assert!(order.windows(2).all(|pair| keys.key(pair[0]) < keys.key(pair[1])));
        assert!(order.iter().copied().collect::<BTreeSet<u64>>().into_iter().eq(0..count));
    }
}

#[test]
fn keys_of_a_file_may_have_any_length() {
    let names = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/npm-names.txt");
    let keys = Keys::from_file(&names, KeyLength::Any).unwrap();
    assert_eq!((keys.ranks(), keys.key_bytes()), (22_497, 118));
    assert!(keys.key_bytes_mean().is_some_and(|mean| (20.0..20.1).contains(&mean)));
    let padded = Keys::from_file(&names, KeyLength::Longest).unwrap();
    let mut key = Vec::new();
    for rank in 0..1000 {
        keys.write_key(rank, &mut key);
        assert_eq!(keys.rank_of(&key), Some(rank));
        let long = padded.key(rank);
        assert!(
            long.len() == 120 && long.starts_with(&key) && long[key.len()..].iter().all(|byte| *byte == 0)
        );
    }
    assert_eq!(keys.ranks_in_key_order(500), padded.ranks_in_key_order(500));
}
