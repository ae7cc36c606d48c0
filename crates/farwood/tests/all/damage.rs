//! Damage at rest: the files of a pool change while no process has it open. Every read of an ordered index then returns
//! the stored data or an error, `check` reports every damage that a read finds, and nothing panics or hangs. Searches
//! in shared memory do not verify the hashes of nodes, so there only `check` must report the damage; the same holds for
//! a slot of a radix tree's inner node that hides an entry.
//!
//! `FARWOOD_DAMAGES` sets the number of trials for each kind of index, `FARWOOD_DAMAGE_SEED` the first trial;
//! `cargo xtask campaign damage` runs thousands.

use crate::random::Random;
use farwood::spatial::{Item, Query, RTree, Rectangle};
use farwood::{BTree, Hashed, Index, Pool, PoolOptions, Radix};
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const MEMORY_BYTES: u64 = 48 << 20;
const ENTRIES: u64 = 1200;
/// Bytes of a memory node that belong to no index: the superblock and its tables.
const SUPERBLOCK_BYTES: usize = 8 << 20;
/// Parts of the superblock that no read needs while the index allocates nothing; `check` must report their loss. The
/// offsets are those of docs/formats.md.
const TABLES_OF_CHUNKS: [(&str, u64, usize); 2] =
    [("the counter of chunks", 128, 8), ("the chunk table", 294_912, 64)];
/// Longest time for one operation.
const LIMIT: Duration = Duration::from_secs(20);
/// Maximum failed reads before a trial continues with the scan: a failed read can take a second.
const FAILURES_MAX: usize = 1;

/// A copy of the file of a pool with one memory node, made after the last process left.
struct Image {
    path: PathBuf,
    bytes: Vec<u8>,
    file_bytes: u64,
    /// Offsets of the lines that are not zero: of the superblock, and of the index.
    lines: [Vec<usize>; 2],
}

impl Image {
    fn of(pool: &str) -> Image {
        let found = farwood::doctor::examine().unwrap().pools.into_iter().find(|found| found.url == pool);
        let path = found.unwrap().segments.remove(0).path;
        let mut bytes = Vec::new();
        File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
        let file_bytes = bytes.len() as u64;
        let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
        bytes.truncate(used.next_multiple_of(4096));
        let is_used = |line: &usize| bytes[*line..*line + 64].iter().any(|&byte| byte != 0);
        let used: Vec<_> = (0..bytes.len()).step_by(64).filter(is_used).collect();
        let (superblock, index) = used.into_iter().partition(|&line| line < SUPERBLOCK_BYTES);
        Image { path, bytes, file_bytes, lines: [superblock, index] }
    }

    fn restore(&self) -> File {
        let file = OpenOptions::new().write(true).open(&self.path).unwrap();
        file.set_len(0).unwrap();
        file.set_len(self.file_bytes).unwrap();
        file.write_all_at(&self.bytes, 0).unwrap();
        file
    }

    /// Restores the file with zeros in one place.
    fn clear(&self, at: u64, count: usize) {
        self.restore().write_all_at(&vec![0; count], at).unwrap();
    }

    /// Restores the file with one random change, and describes it.
    fn damage(&self, random: &mut Random) -> String {
        let file = self.restore();
        let lines = &self.lines[usize::from(random.below(4) > 0)];
        let line = lines[random.below(lines.len())];
        let byte = line + random.below(64);
        let word = byte & !7;
        let mut noise = |count: usize| (0..count).map(|_| random.next() as u8).collect::<Vec<_>>();
        let noise = noise(64);
        let (name, at, bytes) = match random.below(7) {
            0 => ("bit", byte, vec![self.bytes[byte] ^ 1 << random.below(8)]),
            1 => ("byte", byte, noise[..1].to_vec()),
            2 => ("word", word, noise[..8].to_vec()),
            3 => {
                let other = lines[random.below(lines.len())] + 8 * random.below(8);
                ("foreign word", word, self.bytes[other..other + 8].to_vec())
            }
            4 => ("16 bytes", byte & !15, noise[..16].to_vec()),
            5 => ("line", line, noise),
            _ => ("page", line & !4095, vec![0; 4096]),
        };
        file.write_all_at(&bytes, at as u64).unwrap();
        format!("{name} at {at:#x}")
    }
}

/// The outcome of the reads of one trial.
#[derive(Default)]
struct Outcome {
    errors: Vec<String>,
    /// Whether `check` found a problem, or failed.
    is_reported: bool,
}

impl Outcome {
    /// Runs one operation, within the time limit.
    fn run<T, E: std::fmt::Display>(
        &mut self,
        name: &str,
        operation: impl FnOnce() -> Result<T, E>,
    ) -> Option<T> {
        let start = Instant::now();
        let done = operation();
        assert!(start.elapsed() < LIMIT, "{name} took {:?}", start.elapsed());
        done.map_err(|error| self.errors.push(format!("{name}: {error}"))).ok()
    }

    /// Counts a wrong answer as an error, which `check` must explain.
    fn expect(&mut self, is_right: bool, wrong: &str) {
        if !is_right {
            self.errors.push(wrong.to_owned());
        }
    }
}

/// One kind of index.
trait Subject {
    fn build(&self, pool: &Pool);
    /// Reads everything, checks the index, and changes an entry; panics if an answer is wrong.
    fn read(&self, pool: &Pool, outcome: &mut Outcome);
}

fn value_of(key: u64, longest: usize) -> Vec<u8> {
    let mut random = Random(key);
    let length = if longest == 8 { 8 } else { random.below(longest) };
    (0..length).map(|_| random.next() as u8).collect()
}

/// An ordered index of values of at most `longest` bytes.
struct OrderedSubject<O> {
    options: O,
    longest: usize,
    lost: LostEntries,
}

/// The effect of damage that hides an entry from a read.
#[derive(Clone, Copy, PartialEq)]
enum LostEntries {
    /// The read fails.
    Fail,
    /// The read can miss the entry, and `check` must report damage: the slots of a radix tree's inner nodes have no
    /// checksum.
    Reported,
}

impl<O: farwood::index::Structure> Subject for OrderedSubject<O> {
    fn build(&self, pool: &Pool) {
        let index: Index<u64, Vec<u8>> = pool.create_index("x", &self.options).unwrap();
        for key in 0..ENTRIES {
            index.put(key * 3, value_of(key * 3, self.longest)).unwrap();
        }
    }

    fn read(&self, pool: &Pool, outcome: &mut Outcome) {
        let opened = outcome.run("open", || pool.open_index::<u64, Vec<u8>>("x"));
        let Some(index) = opened else {
            outcome.is_reported = true;
            return;
        };
        for key in 0..ENTRIES {
            let found = outcome.run("get", || index.get(key * 3));
            match found {
                Some(None) if self.lost == LostEntries::Reported => {
                    outcome.expect(false, &format!("get {} finds nothing", key * 3));
                }
                Some(found) => assert_eq!(found, Some(value_of(key * 3, self.longest)), "get {}", key * 3),
                None => {}
            }
            if outcome.errors.len() >= FAILURES_MAX {
                break;
            }
        }
        if let Some(found) = outcome.run("get", || index.get(1)) {
            assert_eq!(found, None, "an absent key");
        }
        let scanned = outcome.run("scan", || index.iter().collect::<Result<Vec<_>, _>>());
        if let Some(scanned) = scanned {
            let stored = (0..ENTRIES).map(|key| (key * 3, value_of(key * 3, self.longest)));
            if self.lost == LostEntries::Reported && scanned.len() < ENTRIES as usize {
                outcome.expect(false, "the scan misses entries");
                let mut stored = stored;
                assert!(scanned.iter().all(|entry| stored.any(|other| other == *entry)), "a changed entry");
            } else {
                assert!(scanned.into_iter().eq(stored), "the scan has other entries");
            }
        }
        let reported = outcome.run("check", || index.check());
        outcome.is_reported = reported.is_none_or(|report| !report.problems().is_empty());
        let new = value_of(1, self.longest);
        if outcome.run("put", || index.put(1, &new)).is_some()
            && let Some(found) = outcome.run("get", || index.get(1))
        {
            assert_eq!(found, Some(new), "the entry that was put");
        }
    }
}

/// An index of rectangles.
struct SpatialSubject;

fn item(id: u64) -> Item {
    let mut random = Random(id);
    let mut edge = || random.below(1000) as f64;
    let min = [edge(), edge()];
    Item { bounds: Rectangle::new(min, [min[0] + edge() / 50.0, min[1] + edge() / 50.0]).unwrap(), id }
}

fn everything() -> Query {
    Query::intersecting(Rectangle::new([-1.0; 2], [2000.0; 2]).unwrap())
}

impl Subject for SpatialSubject {
    fn build(&self, pool: &Pool) {
        let index = pool.create_spatial("x", &RTree::new()).unwrap();
        index.bulk_load(&(0..ENTRIES).map(item).collect::<Vec<_>>(), 0.7).unwrap();
        for id in ENTRIES..ENTRIES + 100 {
            index.insert(&item(id)).unwrap();
        }
    }

    fn read(&self, pool: &Pool, outcome: &mut Outcome) {
        let Some(index) = outcome.run("open", || pool.open_spatial("x")) else {
            outcome.is_reported = true;
            return;
        };
        let sorted = |mut items: Vec<Item>| {
            items.sort_unstable_by_key(|item| item.id);
            items
        };
        let stored: Vec<_> = (0..ENTRIES + 100).map(item).collect();
        if let Some(found) = outcome.run("search", || index.search(&everything())) {
            outcome.expect(sorted(found) == stored, "the search has other items");
        }
        for corner in 0..40u32 {
            let min = [f64::from(corner % 8) * 125.0, f64::from(corner / 8) * 200.0];
            let window = Rectangle::new(min, [min[0] + 60.0, min[1] + 90.0]).unwrap();
            let found = outcome.run("search", || index.search(&Query::intersecting(window)));
            if let Some(found) = found {
                let expected: Vec<_> =
                    stored.iter().filter(|item| item.bounds.intersects(&window)).copied().collect();
                outcome.expect(sorted(found) == expected, "the search of a window has other items");
            }
            if outcome.errors.len() >= FAILURES_MAX {
                break;
            }
        }
        let reported = outcome.run("check", || index.check());
        outcome.is_reported = reported.is_none_or(|report| !report.problems.is_empty());
        let new = item(1 << 20);
        if outcome.run("insert", || index.insert(&new)).is_some()
            && let Some(found) = outcome.run("search", || index.search(&Query::intersecting(new.bounds)))
        {
            outcome.expect(found.contains(&new), "the search lacks the item that was inserted");
        }
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
}

/// Opens the damaged pool and reads the index.
fn read_all(subject: &dyn Subject, url: &str, outcome: &mut Outcome) {
    match outcome.run("open the pool", || Pool::open(url)) {
        Some(pool) => subject.read(&pool, outcome),
        None => outcome.is_reported = true,
    }
}

#[expect(clippy::print_stdout, reason = "a campaign reports the number of trials")]
fn campaign(name: &str, subject: &dyn Subject) {
    let url = format!("shm://damage-{name}-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(MEMORY_BYTES)).unwrap();
    subject.build(&Pool::open(&url).unwrap());
    let image = Image::of(&url);
    for (name, at, count) in TABLES_OF_CHUNKS {
        image.clear(at, count);
        let mut outcome = Outcome::default();
        read_all(subject, &url, &mut outcome);
        assert!(outcome.is_reported, "{name} is lost, and check is clean: {:?}", outcome.errors);
    }
    let first = number("FARWOOD_DAMAGE_SEED", 0);
    let (mut noticed, mut failures) = (0, Vec::new());
    let trials = number("FARWOOD_DAMAGES", 10);
    for seed in first..first + trials {
        let damage = image.damage(&mut Random(seed));
        let mut outcome = Outcome::default();
        let read = || read_all(subject, &url, &mut outcome);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(read)) {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            failures.push(format!("seed {seed}, {damage}: {}", text.unwrap_or_default()));
        } else if !outcome.errors.is_empty() && !outcome.is_reported {
            failures.push(format!("seed {seed}, {damage}: check is clean, but {:?}", outcome.errors));
        }
        noticed += u64::from(outcome.is_reported);
    }
    image.restore();
    Pool::remove_by_force(&url).unwrap();
    println!("{name}: {trials} trials, {noticed} noticed, {} failed", failures.len());
    assert!(failures.is_empty(), "{name}:\n{}", failures.join("\n"));
    assert!(trials < 10 || noticed > 0, "the damage of no trial was noticed");
}

#[test]
fn damage_to_sherman_is_noticed() {
    let options = BTree::new().value_bytes(8);
    campaign("sherman", &OrderedSubject { options, longest: 8, lost: LostEntries::Fail });
}

#[test]
fn damage_to_sherman_with_values_of_any_length_is_noticed() {
    let options = BTree::new().any_length_values();
    campaign("any-length", &OrderedSubject { options, longest: 300, lost: LostEntries::Fail });
}

#[test]
fn damage_to_smart_is_noticed() {
    let lost = LostEntries::Reported;
    campaign("smart", &OrderedSubject { options: Radix::new(), longest: 300, lost });
}

#[test]
fn damage_to_sphinx_is_noticed() {
    let lost = LostEntries::Reported;
    campaign("sphinx", &OrderedSubject { options: Hashed::new(), longest: 300, lost });
}

#[test]
fn damage_to_catfish_is_noticed() {
    campaign("catfish", &SpatialSubject);
}
