//! Records the operations of concurrent clients on an ordered index and their answers, and checks whether some order of
//! the operations explains the answers.
//!
//! Each client writes a [journal](Recorder), in memory or to its own file. A parent [reads](History::read) all journals
//! into one [`History`] and [checks](History::check) it. For each key, there must be an order of the operations that
//! respects real time and in which every answer is right (linearizability). A [scan](Scan) must show every entry that
//! was present throughout the scan, and no entry that was not present during it.
//!
//! A client that was killed leaves operations without an answer: they may have taken effect at any time since, or
//! never.
//!
//! Times come from one clock that all clients share: the fabric's clock if all processes have the same one, or
//! otherwise a counter in far memory ([`tick`]). An operation that ended at the very time at which another began counts
//! as concurrent.

mod journal;
mod linear;
mod scans;

pub use journal::{Pending, Recorder};

use farwood_fabric::{Client, Fabric, FabricError, Remote, faa};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::time::Duration;

/// The bytes of a key or a value.
pub type ByteString = Vec<u8>;

/// The action of an operation on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Stores a value, whether the key is present or not.
    Put(ByteString),
    /// Stores a value if the key is absent.
    Insert(ByteString),
    /// Stores a value if the key is present.
    Update(ByteString),
    /// Removes the key.
    Remove,
    /// Reads the key, and changes it if it has an expected value, in one step.
    Exchange(Exchange),
    /// Reads the key.
    Get,
}

/// A change of one key that depends on its value; `None` is the value of an absent key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The value that the key must have.
    pub expected: Expected,
    /// Its new value.
    pub new: Option<ByteString>,
}

/// The value that a key must have for a change; `None` is the value of an absent key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any value, or none.
    Any,
    /// This value.
    Value(Option<ByteString>),
}

impl Exchange {
    /// Whether the change is made if the key has the value `found`.
    pub fn applies(&self, found: Option<&[u8]>) -> bool {
        match &self.expected {
            Expected::Any => true,
            Expected::Value(expected) => expected.as_deref() == found,
        }
    }

    /// Whether the exchange may have changed the key, with that answer.
    fn may_change(&self, answer: Option<&(u64, Answer)>) -> bool {
        match answer {
            Some((_, Answer::Found(found))) => *found != self.new && self.applies(found.as_deref()),
            _ => true,
        }
    }
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Whether the operation took effect; a put always does.
    Done(bool),
    /// A put took effect.
    Stored {
        /// Whether the key was present.
        existed: bool,
    },
    /// The value that a get or an exchange found.
    Found(Option<ByteString>),
}

/// One operation on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The client.
    pub client: u64,
    /// The key.
    pub key: ByteString,
    /// The action.
    pub action: Action,
    /// The time of the call.
    pub call: u64,
    /// The answer and its time; `None` if the client was killed before.
    pub answer: Option<(u64, Answer)>,
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the least key.
    Forward,
    /// From the greatest key.
    Backward,
}

/// One scan with its answer. It need not be atomic, but each entry must have been present at some time during the
/// scan, and no key that was present throughout may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The client.
    pub client: u64,
    /// The time of the call.
    pub call: u64,
    /// The time of the complete answer.
    pub end: u64,
    /// The direction.
    pub direction: Direction,
    /// Least key.
    pub from: Bound<ByteString>,
    /// Greatest key.
    pub to: Bound<ByteString>,
    /// Maximum number of entries.
    pub limit: usize,
    /// Keys and values.
    pub entries: Vec<(ByteString, ByteString)>,
}

/// All operations of some clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The entries before all operations.
    pub initial: BTreeMap<ByteString, ByteString>,
    /// Operations on single keys, in no order.
    pub operations: Vec<Operation>,
    /// Scans, in no order.
    pub scans: Vec<Scan>,
}

/// An answer that no order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The key.
    pub key: ByteString,
    /// A description of the violation.
    pub what: String,
    /// The time of the answer that no order explains. Operations that were answered later were still running.
    pub until: u64,
    /// The last operations on the key that began before it, with their answers.
    pub operations: Vec<Operation>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {:02x?}: {}", self.key, self.what)?;
        for operation in &self.operations {
            let Operation { client, action, call, answer, .. } = operation;
            write!(f, "\n  {call}: client {client} {action:02x?}")?;
            match answer {
                Some((end, _)) if *end > self.until => write!(f, " -> still running, until {end}")?,
                Some((end, answer)) => write!(f, " -> {end}: {answer:02x?}")?,
                None => write!(f, " -> never answered")?,
            }
        }
        Ok(())
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Number of keys that were checked.
    pub keys: usize,
    /// Number of operations on these keys.
    pub operations: usize,
    /// Number of scans that were checked.
    pub scans: usize,
    /// The violations.
    pub violations: Vec<Violation>,
    /// Keys whose operations have too many possible orders to be decided in time.
    pub undecided: Vec<ByteString>,
}

impl Verdict {
    /// Checks that nothing is wrong or undecided.
    ///
    /// # Panics
    /// If a violation was found, or a key is undecided.
    pub fn expect_right(&self) {
        let wrong: Vec<String> = self.violations.iter().take(3).map(Violation::to_string).collect();
        let count = self.violations.len();
        assert!(wrong.is_empty(), "{count} violations:\n{}", wrong.join("\n"));
        assert!(self.undecided.is_empty(), "undecided keys: {:02x?}", self.undecided);
    }
}

impl History {
    /// Adds another history of the same index and clock.
    pub fn merge(&mut self, other: Self) {
        self.initial.extend(other.initial);
        self.operations.extend(other.operations);
        self.scans.extend(other.scans);
    }

    /// Checks every key and every scan. The search for a key stops as undecided after `patience`.
    pub fn check(&self, patience: Duration) -> Verdict {
        let keys = self.by_key();
        let mut verdict = Verdict {
            keys: keys.len(),
            operations: self.operations.len(),
            scans: self.scans.len(),
            ..Verdict::default()
        };
        linear::check(&keys, patience, &mut verdict);
        scans::check(self, &keys, &mut verdict);
        verdict
    }

    /// The operations of each key in the order of their calls, with its initial value.
    fn by_key(&self) -> BTreeMap<&[u8], KeyHistory<'_>> {
        let mut keys: BTreeMap<&[u8], KeyHistory<'_>> = BTreeMap::new();
        for (key, value) in &self.initial {
            keys.entry(key).or_default().initial = Some(value);
        }
        for operation in &self.operations {
            keys.entry(&operation.key).or_default().operations.push(operation);
        }
        for key in keys.values_mut() {
            key.operations.sort_by_key(|operation| operation.call);
        }
        keys
    }
}

/// The history of one key.
#[derive(Default)]
struct KeyHistory<'a> {
    initial: Option<&'a [u8]>,
    operations: Vec<&'a Operation>,
}

/// Increments `clock`, a word of far memory that all clients of a pool share; yields its previous value. [1 RT]
pub async fn tick<F: Fabric>(client: &Client<F>, clock: Remote<u64>) -> Result<u64, FabricError> {
    client.post(faa(clock, 1)).await
}
