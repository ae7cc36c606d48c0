//! Tests of mapped words: bounds, edges against a naive oracle, concurrent neighbours.

use super::super::testing::{Scratch, anonymous, report};
use super::*;
use proptest::prelude::*;

const BYTES: u64 = 4096;

/// Returns the whole mapping, byte by byte.
fn contents(map: &Mapping) -> Vec<u8> {
    let mut words = vec![0; (map.bytes() / WORD_BYTES) as usize];
    map.read_down(0, &mut words).unwrap();
    words.into_iter().flat_map(u64::to_ne_bytes).collect()
}

#[test]
fn a_mapping_needs_a_length_that_the_file_has() {
    let scratch = Scratch::new();
    let file = scratch.file("any", BYTES);
    for bytes in [0, 7, 4095, BYTES + 8, 1 << 63] {
        assert!(Mapping::new(&file, bytes).is_err(), "{bytes}");
    }
    assert_eq!(Mapping::new(&file, 8).unwrap().bytes(), 8);
    let read_only = File::open(scratch.path().join("any")).unwrap();
    assert_eq!(Mapping::new(&read_only, BYTES).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn no_access_beyond_the_end_is_executed() {
    let map = anonymous(BYTES);
    let word = &mut [0];
    for offset in [BYTES, BYTES + 8, u64::MAX - 7, 1 << 63] {
        assert_eq!(map.read_down(offset, word), Err(AccessFault::OutOfRange), "{offset}");
        assert_eq!(map.write_up(offset, &[1]), Err(AccessFault::OutOfRange), "{offset}");
        assert_eq!(map.load(offset), Err(AccessFault::OutOfRange), "{offset}");
        assert_eq!(map.compare_exchange(offset, 0, 1), Err(AccessFault::OutOfRange), "{offset}");
        assert_eq!(map.masked_compare_exchange(offset, 0, 0, 1, 1), Err(AccessFault::OutOfRange), "{offset}");
        assert_eq!(map.fetch_add(offset, 1), Err(AccessFault::OutOfRange), "{offset}");
        assert!(map.prefault(offset, 8).is_err(), "{offset}");
        map.prefetch(offset, 64);
    }
    assert_eq!(map.read_down(BYTES - 8, &mut [0; 2]), Err(AccessFault::OutOfRange));
    assert_eq!(map.write_up(BYTES - 3, &[1; 4]), Err(AccessFault::OutOfRange));
    assert_eq!(map.write_up(u64::MAX, &[1; 4]), Err(AccessFault::OutOfRange));
    assert!(contents(&map).iter().all(|byte| *byte == 0), "a refused access stored something");
    assert_eq!(map.read_down(BYTES - 8, word), Ok(()));
    assert_eq!(map.write_up(BYTES - 1, &[1]), Ok(()));
    assert_eq!(map.read_down(BYTES, &mut []), Ok(()));
    assert_eq!(map.write_up(BYTES, &[]), Ok(()));
}

#[test]
fn collapsed_pages_keep_their_contents() {
    let scratch = Scratch::new();
    let bytes = 4 * HUGE_PAGE_BYTES;
    let file = scratch.file("huge", bytes);
    let [one, other] = [(); 2].map(|()| Mapping::new(&file, bytes).unwrap());
    assert!([&one, &other].iter().all(|map| map.address().is_multiple_of(HUGE_PAGE_BYTES)), "aligned");
    provision(&file, 0, bytes).unwrap();
    let number = |at: u64| at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for at in (0..bytes).step_by(1000 * 8) {
        one.write_up(at, &number(at).to_ne_bytes()).unwrap();
    }
    // A kernel without the call, or without such pages, reports an error and changes nothing.
    let collapsed = one.collapse(HUGE_PAGE_BYTES - 8, 2 * HUGE_PAGE_BYTES + 16);
    if let Err(error) = &collapsed {
        report(&format!("no huge pages here: {error}\n"));
    }
    for at in (0..bytes).step_by(1000 * 8) {
        assert_eq!([one.load(at), other.load(at)], [Ok(number(at)); 2]);
    }
    for (offset, bytes) in [(0, HUGE_PAGE_BYTES - 8), (8, 2 * HUGE_PAGE_BYTES - 16), (bytes, 8)] {
        assert!(one.collapse(offset, bytes).is_err(), "{offset} {bytes}");
    }
}

#[test]
fn words_are_aligned() {
    let map = anonymous(BYTES);
    for offset in [1, 4, 7, 4081] {
        assert_eq!(map.read_down(offset, &mut [0]), Err(AccessFault::Misaligned), "{offset}");
        assert_eq!(map.load(offset), Err(AccessFault::Misaligned), "{offset}");
        assert_eq!(map.compare_exchange(offset, 0, 1), Err(AccessFault::Misaligned), "{offset}");
        assert_eq!(map.masked_compare_exchange(offset, 0, 0, 1, 1), Err(AccessFault::Misaligned), "{offset}");
        assert_eq!(map.fetch_add(offset, 1), Err(AccessFault::Misaligned), "{offset}");
    }
    assert!(contents(&map).iter().all(|byte| *byte == 0));
}

#[test]
fn atomics_return_the_old_word() {
    let map = anonymous(BYTES);
    assert_eq!(map.compare_exchange(8, 0, 5), Ok(0));
    assert_eq!(map.compare_exchange(8, 0, 6), Ok(5));
    assert_eq!(map.fetch_add(8, u64::MAX), Ok(5));
    assert_eq!(map.load(8), Ok(4));
    // Only the bits of the masks count: low byte compared, next byte swapped.
    assert_eq!(map.masked_compare_exchange(8, 0xee04, 0xff, 0x12ab, 0xff00), Ok(4));
    assert_eq!(map.load(8), Ok(0x1204));
    assert_eq!(map.masked_compare_exchange(8, 0xee05, 0xff, 0, u64::MAX), Ok(0x1204));
    assert_eq!(map.load(8), Ok(0x1204));
    assert_eq!((map.load(0), map.load(16)), (Ok(0), Ok(0)));
}

proptest! {
    #[test]
    fn a_masked_cas_agrees_with_its_definition(
        word: u64, compare: u64, compare_mask: u64, swap: u64, swap_mask: u64, equal: bool,
    ) {
        let compare = if equal { (word & compare_mask) | (compare & !compare_mask) } else { compare };
        let map = anonymous(BYTES);
        map.write_up(64, &word.to_ne_bytes()).unwrap();
        prop_assert_eq!(map.masked_compare_exchange(64, compare, compare_mask, swap, swap_mask), Ok(word));
        let matches = (word ^ compare) & compare_mask == 0;
        let expected = if matches { (word & !swap_mask) | (swap & swap_mask) } else { word };
        prop_assert_eq!(map.load(64), Ok(expected));
    }

    /// WRITE against the naive oracle: a copy of bytes. Overlapping, unaligned, of any length.
    #[test]
    fn a_write_stores_its_bytes_and_no_others(
        writes in prop::collection::vec((0..BYTES, prop::collection::vec(any::<u8>(), 0..100)), 1..20),
    ) {
        let map = anonymous(BYTES);
        let mut oracle = vec![0; BYTES as usize];
        for (offset, bytes) in &writes {
            let at = *offset as usize;
            let fits = at + bytes.len() <= oracle.len();
            prop_assert_eq!(map.write_up(*offset, bytes).is_ok(), fits);
            if fits {
                oracle[at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
        prop_assert_eq!(contents(&map), oracle);
    }

    #[test]
    fn a_read_fetches_its_words_and_no_others(first in 0_usize..512, count in 0_usize..512) {
        let map = anonymous(BYTES);
        let all: Vec<u64> = (1..=512).collect();
        let bytes: Vec<u8> = all.iter().flat_map(|word| word.to_ne_bytes()).collect();
        map.write_up(0, &bytes).unwrap();
        let mut words = vec![0; count];
        let answer = map.read_down(8 * first as u64, &mut words);
        let expected = all.get(first..first + count);
        prop_assert_eq!(answer, if expected.is_some() { Ok(()) } else { Err(AccessFault::OutOfRange) });
        let untouched = vec![0; count];
        prop_assert_eq!(words.as_slice(), expected.unwrap_or(&untouched));
    }
}

/// Eight threads own one byte of a word each (and the edges of its neighbours), and write it repeatedly.
#[test]
fn writers_of_neighbouring_bytes_lose_no_byte() {
    const ROUNDS: u32 = 100_000;
    let map = anonymous(BYTES);
    std::thread::scope(|scope| {
        for owner in 0..8_u64 {
            let map = &map;
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    map.write_up(64 + owner, &[round as u8]).unwrap();
                    let word = map.load(64).unwrap().to_ne_bytes();
                    assert_eq!(word[owner as usize], round as u8, "byte {owner} was lost");
                }
            });
        }
    });
}

/// Two writers whose ranges meet inside a word: 13 bytes each, back to back.
#[test]
fn writes_that_share_a_word_lose_no_byte() {
    const ROUNDS: u32 = 200_000;
    let map = anonymous(BYTES);
    std::thread::scope(|scope| {
        for side in 0..2_u64 {
            let map = &map;
            scope.spawn(move || {
                let at = 64 + 3 + 13 * side;
                for round in 1..=ROUNDS {
                    let mine = [round as u8; 13];
                    map.write_up(at, &mine).unwrap();
                    let mut words = [0; 4];
                    map.read_down(64, &mut words).unwrap();
                    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
                    assert_eq!(bytes[at as usize - 64..][..13], mine, "side {side}");
                }
            });
        }
    });
}

/// A partial WRITE merges with an atomic on the same word: neither loses the other.
#[test]
fn partial_writes_and_atomics_on_one_word_lose_no_update() {
    const ROUNDS: u32 = 200_000;
    let map = anonymous(BYTES);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                map.write_up(64, &[round as u8; 2]).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            map.fetch_add(64, u64::from_ne_bytes([0, 0, 0, 0, 1, 0, 0, 0])).unwrap();
        }
    });
    let word = map.load(64).unwrap().to_ne_bytes();
    let counted = u32::from_ne_bytes([word[4], word[5], word[6], word[7]]);
    assert_eq!(&word[..2], [(ROUNDS - 1) as u8; 2]);
    assert_eq!(if cfg!(target_endian = "little") { counted } else { ROUNDS }, ROUNDS);
}

#[test]
fn eight_aligned_bytes_are_atomic() {
    const ROUNDS: u64 = 500_000;
    let map = anonymous(BYTES);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                map.write_up(64, &[round as u8; 8]).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            let mut word = [0];
            map.read_down(64, &mut word).unwrap();
            let bytes = word[0].to_ne_bytes();
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{bytes:?}");
        }
    });
}

#[test]
fn counters_count_every_thread() {
    let map = anonymous(BYTES);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50_000 {
                    map.fetch_add(0, 1).unwrap();
                    let mut was = map.load(8).unwrap();
                    loop {
                        let now = map.compare_exchange(8, was, was + 1).unwrap();
                        if now == was {
                            break;
                        }
                        was = now;
                    }
                }
            });
        }
    });
    assert_eq!((map.load(0), map.load(8)), (Ok(200_000), Ok(200_000)));
}

#[test]
fn two_mappings_of_a_file_are_one_memory() {
    let scratch = Scratch::new();
    let file = scratch.file("any", BYTES);
    let (a, b) = (Mapping::new(&file, BYTES).unwrap(), Mapping::new(&file, BYTES).unwrap());
    a.write_up(123, b"far memory").unwrap();
    assert_eq!(&contents(&b)[123..133], b"far memory");
    drop(a);
    assert_eq!(&contents(&b)[123..133], b"far memory");
}

#[test]
fn provisioning_and_prefaulting_keep_the_contents() {
    let scratch = Scratch::new();
    let file = scratch.file("any", 16 * BYTES);
    let map = Mapping::new(&file, 16 * BYTES).unwrap();
    map.write_up(5000, &[42]).unwrap();
    provision(&file, 0, 16 * BYTES).unwrap();
    map.prefault(1, 16 * BYTES - 1).unwrap();
    map.touch(0, 16 * BYTES).unwrap();
    let bytes = contents(&map);
    assert_eq!((bytes[4999], bytes[5000], bytes[5001]), (0, 42, 0));
    assert!(provision(&file, u64::MAX, 1).is_err());
    assert!(provision(&file, 0, 0).is_err());
}
