//! Backups whose checksums are right and whose contents are not: an error, and neither a panic nor a partial restore.

use super::{dumped, pool, varied};
use farwood::backup::{BackupReader, Restore, RestoredPool, SavedPool, check_image};
use farwood::spatial::{IdKind, RTree};
use farwood::testing::ScratchPool;
use farwood::types::{Bytes, Text};
use farwood::{BTree, Error, Hashed, Pool, PoolOptions, Radix};
use proptest::prelude::*;
use std::sync::OnceLock;
use xxhash_rust::xxh3::Xxh3;

const FILE_HEAD_BYTES: usize = 16;
const BLOCK_HEAD_BYTES: usize = 24;

/// A block: its kind, and its contents without compression.
type Block = (u8, Vec<u8>);

fn blocks_of(file: &[u8]) -> Vec<Block> {
    let (mut blocks, mut at) = (Vec::new(), FILE_HEAD_BYTES);
    while at < file.len() {
        let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        let (stored, bytes) = (number(at + 4), number(at + 8));
        let contents = &file[at + BLOCK_HEAD_BYTES..at + BLOCK_HEAD_BYTES + stored];
        let contents = match file[at + 1] {
            0 => contents.to_vec(),
            _ => lz4_flex::block::decompress(contents, bytes).unwrap(),
        };
        blocks.push((file[at], contents));
        at += BLOCK_HEAD_BYTES + stored;
    }
    blocks
}

/// A file of these blocks, without compression, with right checksums.
fn file_of(blocks: &[Block]) -> Vec<u8> {
    let mut file = [&b"FARWBKUP"[..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat();
    let mut chain = Xxh3::new();
    chain.update(&file);
    let mut chain = chain.digest();
    for (kind, contents) in blocks {
        let mut head = vec![*kind, 0, 0, 0];
        head.extend((contents.len() as u32).to_le_bytes());
        head.extend((contents.len() as u32).to_le_bytes());
        head.extend([0; 4]);
        let mut hash = Xxh3::with_seed(chain);
        hash.update(&head);
        hash.update(contents);
        chain = hash.digest();
        file.extend(head);
        file.extend(chain.to_le_bytes());
        file.extend(contents);
    }
    file
}

/// A change of a block.
#[derive(Clone, Debug)]
enum Forgery {
    Kind(u8),
    Bytes(usize, Vec<u8>),
    Cut(usize),
    Longer(Vec<u8>),
    /// Replaces the digits from a position on, which JSON has as a number or in the parameters of an index.
    Digits(usize, String),
    Repeated,
    Removed,
}

impl Forgery {
    fn apply(&self, blocks: &mut Vec<Block>, index: usize) {
        let index = index % blocks.len();
        let (kind, contents) = &mut blocks[index];
        match self {
            Self::Kind(other) => *kind = *other,
            Self::Bytes(at, bytes) if !contents.is_empty() => {
                let at = at % contents.len();
                let length = bytes.len().min(contents.len() - at);
                contents[at..at + length].copy_from_slice(&bytes[..length]);
            }
            Self::Bytes(..) => {}
            Self::Cut(at) => contents.truncate(at % (contents.len() + 1)),
            Self::Longer(bytes) => contents.extend(bytes),
            Self::Digits(from, digits) => {
                let from = from % (contents.len() + 1);
                let Some(at) = contents[from..].iter().position(u8::is_ascii_digit) else { return };
                let start = from + at;
                let length = contents[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                contents.splice(start..start + length, digits.bytes());
            }
            Self::Repeated => {
                let block = blocks[index].clone();
                blocks.insert(index, block);
            }
            Self::Removed => drop(blocks.remove(index)),
        }
    }
}

fn forgery() -> impl Strategy<Value = Forgery> {
    let words = [0, 1, 255, 65_535, (1 << 31) - 1, (1 << 32) - 1, 1 << 40, u64::MAX];
    let word = prop_oneof![prop::sample::select(words.to_vec()), any::<u64>()];
    let bytes = (word, 1..=8_usize).prop_map(|(word, length)| word.to_le_bytes()[..length].to_vec());
    let numbers = [
        "0",
        "1",
        "7",
        "65535",
        "65536",
        "4294967295",
        "9223372036854775807",
        "18446744073709551615",
        "-1",
        "1e9",
    ];
    prop_oneof![
        (0..16_u8).prop_map(Forgery::Kind),
        (any::<usize>(), bytes).prop_map(|(at, bytes)| Forgery::Bytes(at, bytes)),
        // The heads of the first parts.
        (0..80_usize, prop::collection::vec(any::<u8>(), 1..4))
            .prop_map(|(at, bytes)| Forgery::Bytes(at, bytes)),
        any::<usize>().prop_map(Forgery::Cut),
        prop::collection::vec(any::<u8>(), 1..60).prop_map(Forgery::Longer),
        (any::<usize>(), prop::sample::select(numbers.to_vec()))
            .prop_map(|(at, digits)| Forgery::Digits(at, digits.to_owned())),
        Just(Forgery::Repeated),
        Just(Forgery::Removed),
    ]
}

/// Reads all contents of a dump; returns the number of its parts.
fn read(file: &[u8]) -> Result<u64, String> {
    let mut backup = BackupReader::new(file).map_err(|error| error.to_string())?;
    let mut parts = 0;
    while let Some(mut index) = backup.next_index().map_err(|error| error.to_string())? {
        parts += index.skip().map_err(|error| error.to_string())?;
    }
    Ok(parts)
}

/// The blocks of a dump of each kind of index.
fn dump() -> &'static [Block] {
    static BLOCKS: OnceLock<Vec<Block>> = OnceLock::new();
    BLOCKS.get_or_init(|| blocks_of(&dumped(&varied())))
}

/// The blocks of the image of a small pool.
fn image() -> &'static [Block] {
    static BLOCKS: OnceLock<Vec<Block>> = OnceLock::new();
    BLOCKS.get_or_init(|| {
        let scratch = ScratchPool::with(&PoolOptions::new().memory_bytes(16 << 20).nodes(2)).unwrap();
        scratch.open().unwrap().create_index::<u64, u64>("tree", &BTree::new()).unwrap().put(1, 2).unwrap();
        let mut file = Vec::new();
        SavedPool::at(scratch.url()).to_writer(&mut file).unwrap();
        blocks_of(&file)
    })
}

#[test]
fn blocks_without_changes_are_a_backup() {
    assert!(read(&file_of(dump())).unwrap() > 3000);
    check_image(file_of(image()).as_slice()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_forged_dump_is_an_error_or_read(changes in prop::collection::vec((any::<usize>(), forgery()), 1..4)) {
        let mut blocks = dump().to_vec();
        for (index, change) in &changes {
            change.apply(&mut blocks, *index);
            prop_assume!(!blocks.is_empty());
        }
        let _ = read(&file_of(&blocks));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The pool has all of its indexes or none.
    #[test]
    fn a_forged_dump_is_restored_or_leaves_no_index(index in any::<usize>(), change in forgery()) {
        let mut blocks = dump().to_vec();
        change.apply(&mut blocks, index);
        let pool = Pool::anonymous(128 << 20).unwrap();
        match Restore::into(&pool).from_reader(file_of(&blocks).as_slice()) {
            Ok(summary) => prop_assert_eq!(pool.indexes().unwrap().len(), summary.indexes.len()),
            Err(error) => {
                prop_assert_eq!(pool.indexes().unwrap(), [], "{}", error);
            }
        }
    }

    #[test]
    fn a_forged_image_is_an_error_or_read(index in any::<usize>(), change in forgery(), number in 0..1000_u32) {
        let mut blocks = image().to_vec();
        change.apply(&mut blocks, index);
        let file = file_of(&blocks);
        let checked = check_image(file.as_slice());
        // A restore of a huge pool takes the time of its pages, so only files with errors are restored.
        if checked.is_err() {
            let name = format!("shm://test-hostile-{number}-{}", std::process::id());
            let error = RestoredPool::at(&name).from_reader(file.as_slice()).unwrap_err();
            prop_assert!(matches!(error, Error::Backup { .. } | Error::Pool { .. }), "{}", error);
            prop_assert!(Pool::open(name.as_str()).is_err());
        }
    }
}

/// A dump of one entry in an index of each kind.
fn small_dump() -> &'static [Block] {
    static BLOCKS: OnceLock<Vec<Block>> = OnceLock::new();
    BLOCKS.get_or_init(|| {
        let pool = pool();
        pool.create_index::<u64, u64>("a", &BTree::new()).unwrap().put(1, 2).unwrap();
        let words = BTree::new().key_bytes(24).slot_bytes(64);
        pool.create_index::<Text, Bytes>("b", &words).unwrap().put("word".to_owned(), vec![7; 90]).unwrap();
        pool.create_index::<Text, Text>("c", &Radix::smart())
            .unwrap()
            .put("x".to_owned(), "y".to_owned())
            .unwrap();
        pool.create_index::<Text, u64>("d", &Hashed::sphinx()).unwrap().put("x".to_owned(), 1).unwrap();
        for ids in [IdKind::Repeated, IdKind::Number, IdKind::Text] {
            pool.create_spatial(ids.name(), &RTree::new().ids(ids)).unwrap();
        }
        blocks_of(&dumped(&pool))
    })
}

/// Changes a member of the JSON of a block: the digits of `value` replace those from `from` on.
fn replace_digits(contents: &mut [u8], member: &str, from: usize, digits: &str) {
    let start = format!("\"{member}\":\"");
    let Some(at) = contents.windows(start.len()).position(|part| part == start.as_bytes()) else { return };
    let at = at + start.len();
    let length = contents[at..].iter().position(|byte| *byte == b'"').unwrap();
    let from = from.min(length - digits.len().min(length));
    let count = digits.len().min(length - from);
    contents[at + from..at + from + count].copy_from_slice(&digits.as_bytes()[..count]);
}

/// A restore of the index with each changed parameter: an error, or an index that can be used.
fn restore_with_parameters(pool: &Pool, index: usize, word: usize, value: u64, bytes: usize) {
    let mut blocks = small_dump().to_vec();
    let headers: Vec<_> = (0..blocks.len()).filter(|at| blocks[*at].0 == 2).collect();
    let block = headers[index % headers.len()];
    // Little-endian.
    let digits = format!("{:016x}", value.swap_bytes());
    let digits = &digits[..2 * bytes];
    replace_digits(&mut blocks[block].1, "parameters", 2 * word, digits);
    match Restore::into(pool).from_reader(file_of(&blocks).as_slice()) {
        Ok(summary) => {
            for index in summary.indexes {
                pool.drop_index(&index.name).unwrap();
            }
        }
        Err(_) => assert_eq!(pool.indexes().unwrap(), []),
    }
}

/// The parameters of an index are bytes of the directory, which decide the sizes of its nodes.
#[test]
fn forged_parameters_are_an_error_or_an_index() {
    let pool = pool();
    for index in 0..7 {
        for word in (0..64).step_by(2) {
            for (value, bytes) in [(255, 1), (65_535, 2), (u64::MAX, 8)] {
                restore_with_parameters(&pool, index, word, value, bytes);
            }
        }
    }
}

/// Blocks of memory beyond their memory node, and of memory nodes that the pool does not have.
#[test]
fn memory_outside_of_the_pool_is_refused() {
    let place = |node: u16, offset: u64| {
        [&node.to_le_bytes()[..], &[0; 6], &offset.to_le_bytes(), &[1; 4096]].concat()
    };
    for (node, offset) in
        [(2, 0), (u16::MAX, 0), (1, u64::MAX), (1, u64::MAX - 4095), (1, 1 << 40), (0, 17 << 24)]
    {
        let mut blocks = image().to_vec();
        let memory = blocks.iter().position(|(kind, _)| *kind == 9).unwrap();
        blocks[memory].1 = place(node, offset);
        let error = check_image(file_of(&blocks).as_slice()).unwrap_err().to_string();
        assert!(error.contains("not in a memory node of the pool"), "{node} {offset}: {error}");
    }
}
