//! Full pools: if entries are removed from an index that fills its pool, as many can be inserted again. Each case fills
//! a pool until an insert fails, removes half of the entries, and fills the pool again, for several rounds. An insert
//! that fails reports a full pool and loses nothing.
//!
//! `FARWOOD_FULL=10` runs ten rounds in pools of 32 MiB, and prints every round. The short form has one round. If
//! entries are small, permanent entries fill most of the pool.

use crate::random::Random;
use farwood::spatial::{Item, Query, RTree, Rectangle};
use farwood::testing::ScratchPool;
use farwood::{BTree, Error, Hashed, Index, Pool, Radix};

/// Minimum share of the removed bytes that the index must accept again, percent.
const TAKEN_BACK_MIN: u64 = 95;
/// The same for the short form of Catfish, whose amounts vary: a fill ends with the first rectangle whose leaf is full
/// while no node is free, and where that leaf is depends on the order of reinsertions.
const TAKEN_BACK_MIN_FEW: u64 = 75;

/// The keys of the inserted and of the removed entries.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// Consecutive numbers; the oldest half is removed.
    Sequential,
    /// Random numbers; a random half is removed.
    Random,
}

/// The lengths of values.
#[derive(Clone, Copy, Debug)]
enum Lengths {
    /// All values have this length.
    Fixed(usize),
    /// 0 to 300 bytes.
    Varying,
    /// 0 to 300 bytes; each tenth value 2 to 60 kB.
    Long,
}

impl Lengths {
    fn next(self, random: &mut Random) -> usize {
        match self {
            Self::Fixed(length) => length,
            Self::Long if random.below(10) == 0 => 2_000 + random.below(58_001),
            Self::Varying | Self::Long => random.below(301),
        }
    }
}

/// The pool size and the number of rounds.
struct Form {
    memory_bytes: u64,
    rounds: usize,
    length: FormLength,
}

#[derive(PartialEq)]
enum FormLength {
    Short,
    Long,
}

impl Form {
    fn of_environment() -> Form {
        match std::env::var("FARWOOD_FULL") {
            Ok(rounds) => {
                let rounds = rounds.parse().expect("FARWOOD_FULL is a number of rounds");
                Form { memory_bytes: 32 << 20, rounds, length: FormLength::Long }
            }
            Err(_) => Form { memory_bytes: 16 << 20, rounds: 1, length: FormLength::Short },
        }
    }
}

/// Entries of one step of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    entries: u64,
    bytes: u64,
}

impl Amount {
    fn add(&mut self, length: usize) {
        self.entries += 1;
        self.bytes += 8 + length as u64;
    }
}

/// Runs the rounds of one case; returns a line for each round in which the index accepts too little.
#[expect(clippy::print_stdout, reason = "the long form is a measurement")]
fn judge(case: &str, form: &Form, least: u64, mut round: impl FnMut() -> [Amount; 2]) -> Vec<String> {
    let mut poor = Vec::new();
    for number in 1..=form.rounds {
        let [removed, taken] = round();
        let percent = 100 * taken.bytes / removed.bytes.max(1);
        let line = format!(
            "{case}, round {number}: removed {} ({} B), took back {} ({} B), {percent} %",
            removed.entries, removed.bytes, taken.entries, taken.bytes
        );
        if form.length == FormLength::Long {
            println!("{line}");
        }
        if percent < least {
            poor.push(line);
        }
    }
    poor
}

fn assert_none_poor(poor: &[String]) {
    assert!(poor.is_empty(), "a refilled pool accepts too little:\n{}", poor.join("\n"));
}

/// An index, the entries that it holds, and the next ones.
struct Churn {
    index: Index<u64, Vec<u8>>,
    keys: Keys,
    lengths: Lengths,
    random: Random,
    next_key: u64,
    /// Keys and lengths of values, the oldest first.
    live: Vec<(u64, usize)>,
    /// Permanent entries.
    ballast: u64,
}

impl Churn {
    fn new(index: Index<u64, Vec<u8>>, keys: Keys, lengths: Lengths) -> Self {
        Self { index, keys, lengths, random: Random(7), next_key: 0, live: Vec::new(), ballast: 0 }
    }

    fn value(key: u64, length: usize) -> Vec<u8> {
        key.to_le_bytes().into_iter().cycle().take(length).collect()
    }

    /// Inserts permanent entries, with long values, which fill three quarters of a chunk.
    fn insert_ballast(&mut self) {
        for number in 0..100 {
            self.index.put(u64::MAX - number, vec![7; 60_000]).unwrap();
        }
        self.ballast = 100;
    }

    /// Inserts entries until the pool is full.
    fn fill(&mut self) -> Amount {
        let mut amount = Amount::default();
        loop {
            self.next_key += 1;
            let key = match self.keys {
                Keys::Sequential => self.next_key,
                Keys::Random => self.random.next(),
            };
            let length = self.lengths.next(&mut self.random);
            match self.index.put(key, Self::value(key, length)) {
                Ok(_) => {
                    amount.add(length);
                    self.live.push((key, length));
                }
                Err(error) => {
                    assert_full(&error);
                    return amount;
                }
            }
        }
    }

    /// Removes half of the entries.
    fn halve(&mut self) -> Amount {
        let count = self.live.len() / 2;
        if matches!(self.keys, Keys::Random) {
            for last in (1..self.live.len()).rev() {
                self.live.swap(last, self.random.below(last + 1));
            }
        }
        let mut amount = Amount::default();
        for (key, length) in self.live.drain(..count) {
            assert!(self.index.remove(key).unwrap(), "{key} is present");
            amount.add(length);
        }
        amount
    }

    /// Asserts that the index holds the acknowledged entries and no others.
    fn assert_nothing_lost(&self) {
        assert_eq!(self.index.count().unwrap(), self.live.len() as u64 + self.ballast);
        for &(key, length) in &self.live {
            assert_eq!(self.index.get(key).unwrap(), Some(Self::value(key, length)), "{key}");
        }
        let report = self.index.check().unwrap();
        assert!(report.problems().is_empty(), "{:?}", report.problems());
    }
}

fn assert_full(error: &Error) {
    assert_eq!(error.exit_code(), 5, "{error}");
}

/// Fills and halves an ordered index, with both kinds of keys.
fn churn(system: &str, lengths: Lengths, create: impl Fn(&Pool) -> Index<u64, Vec<u8>>) {
    let form = Form::of_environment();
    let mut poor = Vec::new();
    for keys in [Keys::Sequential, Keys::Random] {
        let pool = Pool::anonymous(form.memory_bytes).unwrap();
        let mut churn = Churn::new(create(&pool), keys, lengths);
        if form.length == FormLength::Short && matches!(lengths, Lengths::Fixed(8)) {
            churn.insert_ballast();
        }
        churn.fill();
        poor.extend(judge(&format!("{system}, {keys:?}, {lengths:?}"), &form, TAKEN_BACK_MIN, || {
            let removed = churn.halve();
            [removed, churn.fill()]
        }));
        churn.assert_nothing_lost();
    }
    assert_none_poor(&poor);
}

fn sherman(pool: &Pool) -> Index<u64, Vec<u8>> {
    let options = BTree::new().value_bytes(100);
    pool.create_index("full", &options).unwrap()
}

fn sherman_of_any_length(pool: &Pool) -> Index<u64, Vec<u8>> {
    let options = BTree::new().any_length_values();
    pool.create_index("full", &options).unwrap()
}

fn smart(pool: &Pool) -> Index<u64, Vec<u8>> {
    pool.create_index("full", &Radix::new()).unwrap()
}

fn sphinx(pool: &Pool) -> Index<u64, Vec<u8>> {
    pool.create_index("full", &Hashed::new()).unwrap()
}

#[test]
fn sherman_takes_back_fixed_values() {
    churn("Sherman", Lengths::Fixed(100), sherman);
}

#[test]
fn sherman_takes_back_short_values_of_any_length() {
    churn("Sherman of any length", Lengths::Fixed(8), sherman_of_any_length);
}

#[test]
fn sherman_takes_back_varying_values() {
    churn("Sherman of any length", Lengths::Varying, sherman_of_any_length);
}

#[test]
fn sherman_takes_back_long_values() {
    churn("Sherman of any length", Lengths::Long, sherman_of_any_length);
}

#[test]
fn smart_takes_back_fixed_values() {
    churn("SMART", Lengths::Fixed(8), smart);
}

#[test]
fn smart_takes_back_varying_values() {
    churn("SMART", Lengths::Varying, smart);
}

#[test]
fn smart_takes_back_long_values() {
    churn("SMART", Lengths::Long, smart);
}

#[test]
fn sphinx_takes_back_fixed_values() {
    churn("Sphinx", Lengths::Fixed(8), sphinx);
}

#[test]
fn sphinx_takes_back_varying_values() {
    churn("Sphinx", Lengths::Varying, sphinx);
}

#[test]
fn sphinx_takes_back_long_values() {
    churn("Sphinx", Lengths::Long, sphinx);
}

/// Each round is a user of the pool of its own, as a short process is: what one frees, the next one uses.
#[test]
fn sherman_uses_the_memory_that_earlier_processes_freed() {
    const VALUES: u64 = 1500;
    let scratch = ScratchPool::new(32 << 20).unwrap();
    sherman_of_any_length(&scratch.open().unwrap());
    for round in 0..24 {
        let pool = scratch.open().unwrap();
        let index: Index<u64, Vec<u8>> = pool.open_index("full").unwrap();
        let length = if round % 2 == 0 { 5_000 } else { 1 };
        for key in 0..VALUES {
            index
                .put(key, Churn::value(key, length))
                .unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
    }
}

/// A process that shortens values in a full pool has no free node for the list that passes their memory on.
#[test]
fn sherman_passes_memory_on_from_a_full_pool() {
    const LONG: usize = 5_000;
    let scratch = ScratchPool::new(16 << 20).unwrap();
    sherman_of_any_length(&scratch.open().unwrap());
    // Each handle of the pool is another client, like that of another process.
    let open = || scratch.open().and_then(|pool| pool.open_index::<u64, Vec<u8>>("full")).unwrap();
    let fits = |index: &Index<u64, Vec<u8>>, key: u64| index.put(key, Churn::value(key, LONG)).is_ok();

    let index = open();
    let stored = (0..1 << 20).take_while(|key| fits(&index, *key)).count() as u64;
    drop(index);

    let half = stored / 2;
    let index = open();
    for key in 0..half {
        index.put(key, Churn::value(key, 1)).unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    drop(index);

    let index = open();
    let longer = (0..half).take_while(|key| fits(&index, *key)).count() as u64;
    let percent = 100 * longer / half;
    assert!(percent >= 90, "{percent} % of {half} values fit again");
}

/// Each removal is a process of its own: it frees one value, and has no free node for the list that passes it on.
#[test]
fn sherman_passes_on_the_values_that_short_processes_remove_from_a_full_pool() {
    const LENGTH: usize = 100;
    const REMOVED: u64 = 600;
    let scratch = ScratchPool::new(16 << 20).unwrap();
    sherman_of_any_length(&scratch.open().unwrap());
    let open = || scratch.open().and_then(|pool| pool.open_index::<u64, Vec<u8>>("full")).unwrap();
    let index = open();
    let fits = |index: &Index<u64, Vec<u8>>, key: u64| index.put(key, Churn::value(key, LENGTH)).is_ok();
    let stored = (0..1 << 20).take_while(|key| fits(&index, *key)).count() as u64;
    drop(index);
    for key in 1_000..1_000 + REMOVED {
        assert!(open().remove(key).unwrap(), "{key} of {stored}");
    }
    let taken = (1_000..1_000 + REMOVED).filter(|key| fits(&open(), *key)).count() as u64;
    let percent = 100 * taken / REMOVED;
    assert!(percent >= TAKEN_BACK_MIN, "{percent} % of {REMOVED} values fit again");
}

#[test]
fn catfish_removes_all_rectangles_from_a_full_pool() {
    let pool = Pool::anonymous(16 << 20).unwrap();
    let places = pool.create_spatial("full", &RTree::new()).unwrap();
    let mut random = Random(3);
    let mut point = |id: u64| Item {
        bounds: Rectangle::point([random.below(1_000) as f64, random.below(1_000) as f64]).unwrap(),
        id,
    };
    let mut live: Vec<_> = (0..130_000).map(&mut point).collect();
    places.bulk_load(&live, 0.8).unwrap();
    let full: Result<(), Error> = places.change(|editor| {
        loop {
            let item = point(live.len() as u64);
            editor.insert(&item)?;
            live.push(item);
        }
    });
    assert_full(&full.unwrap_err());
    // Neighbours leave first, so their leaves become underfull while no slot is free.
    live.sort_by(|one, other| one.bounds.min()[0].total_cmp(&other.bounds.min()[0]));
    let (gone, stay) = live.split_at(2_000);
    places
        .change(|editor| {
            for item in gone {
                assert!(editor.remove(item)?, "{item:?}");
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(places.count_all().unwrap(), stay.len() as u64);
    assert_eq!(places.check().unwrap().problems, []);
}

#[test]
fn catfish_takes_back_rectangles() {
    let form = Form::of_environment();
    let pool = Pool::anonymous(form.memory_bytes).unwrap();
    let places = pool.create_spatial("full", &RTree::new()).unwrap();
    let (mut random, mut live, mut next) = (Random(7), Vec::new(), 0);
    let mut fill = |random: &mut Random, live: &mut Vec<Item>| {
        let mut amount = Amount::default();
        let full: Result<(), Error> = places.change(|editor| {
            loop {
                next += 1;
                let point = [random.below(1_000_000) as f64, random.below(1_000_000) as f64];
                let item = Item { bounds: Rectangle::point(point).unwrap(), id: next };
                editor.insert(&item)?;
                live.push(item);
                amount.add(32);
            }
        });
        assert_full(&full.unwrap_err());
        amount
    };
    let ballast: Vec<_> = (0..124_000)
        .map(|number| Item {
            bounds: Rectangle::point([-1.0, number as f64]).unwrap(),
            id: u64::MAX - number,
        })
        .collect();
    places.bulk_load(&ballast, 0.8).unwrap();
    fill(&mut random, &mut live);
    let least = if form.length == FormLength::Long { TAKEN_BACK_MIN } else { TAKEN_BACK_MIN_FEW };
    let poor = judge("Catfish", &form, least, || {
        for last in (1..live.len()).rev() {
            live.swap(last, random.below(last + 1));
        }
        let mut removed = Amount::default();
        let half = live.split_off(live.len() / 2);
        places
            .change(|editor| {
                for item in &half {
                    assert!(editor.remove(item)?);
                    removed.add(32);
                }
                Ok(())
            })
            .unwrap();
        [removed, fill(&mut random, &mut live)]
    });
    assert_none_poor(&poor);
    assert_eq!(places.count_all().unwrap(), (ballast.len() + live.len()) as u64);
    for item in live.iter().step_by(100) {
        let found = places.search(&Query::intersecting(item.bounds)).unwrap();
        assert!(found.contains(item));
    }
}
