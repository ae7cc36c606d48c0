//! An ordered index whose system is chosen at run time: what those use who open indexes by name.
//!
//! Another system is one more variant of [`Ordered`], [`Config`], [`Value`] and [`Walk`], and the arms that the
//! compiler then asks for; what all systems do alike is written once, under `each!`.

mod entries;
mod open;
mod walk;

pub use entries::Entries;
pub use open::{
    OrderedConfig, OrderedConfig as Config, OrderedDescription, OrderedDescription as Description, describe,
};
pub use walk::Walk;

use crate::error::IndexError;
use crate::lock::{LockMemory, LockWidth};
use crate::memory::overflow::VALUE_BYTES_MAX;
use crate::radix::key::KEY_BYTES_MAX;
use crate::radix::tree;
use crate::radix::tree::options::NODE_LOCKS;
use crate::range::{Direction, Range};
use crate::sabotage::Sabotage;
use crate::sherman::layout::Values;
use crate::sherman::{self, Sherman};
use crate::smart::{self, Smart};
use crate::sphinx::{self, Sphinx};
use farwood_fabric::directory::Entry;
use farwood_fabric::{Client, Fabric};
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

/// An ordered index of one system or another, as a compute node has it open. Every operation takes the client that
/// performs it. What operations cost and how they fail is said where the systems are: [`Sherman`], [`Smart`],
/// [`Sphinx`].
#[derive(Debug)]
pub enum Ordered {
    /// A B-link tree.
    Sherman(Box<Sherman>),
    /// A radix tree.
    Smart(Box<Smart>),
    /// A radix tree with hash tables.
    Sphinx(Box<Sphinx>),
}

/// The systems of ordered indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// A B-link tree, for keys of one length.
    Sherman,
    /// A radix tree, for keys of any length.
    Smart,
    /// A radix tree with hash tables, for keys of any length and little cache.
    Sphinx,
}

impl System {
    /// All systems, the recommended first.
    pub const ALL: [Self; 3] = [Self::Sherman, Self::Smart, Self::Sphinx];

    /// The name that people use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sherman => "sherman",
            Self::Smart => "smart",
            Self::Sphinx => "sphinx",
        }
    }

    /// Budget of a compute node's index cache where nothing is said, bytes. A Sphinx tree has a filter, of less than
    /// two bytes for each inner node: this one holds a million, which are those of some twenty million integers, or of
    /// three million names.
    pub const fn cache_bytes_default(self) -> usize {
        match self {
            Self::Sherman | Self::Smart => 64 << 20,
            Self::Sphinx => 2 << 20,
        }
    }

    /// The number by which the directory knows its indexes.
    pub const fn kind(self) -> u32 {
        match self {
            Self::Sherman => sherman::KIND,
            Self::Smart => smart::KIND,
            Self::Sphinx => sphinx::KIND,
        }
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|system| system.name() == name).ok_or_else(|| {
            format!("no ordered index '{name}'; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How long keys, or values, of an index are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// So many bytes each.
    Exactly(usize),
    /// Up to so many.
    UpTo(usize),
}

impl Length {
    /// The most bytes that there can be.
    pub const fn most(self) -> usize {
        let (Self::Exactly(most) | Self::UpTo(most)) = self;
        most
    }
}

/// A value, in the copy that it was found in.
pub enum Value {
    /// Of a [`Sherman`].
    Sherman(sherman::Value),
    /// Of a radix tree.
    Radix(tree::Value),
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Sherman(value) => value,
            Self::Radix(value) => value,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Does the same with an index of any system.
macro_rules! each {
    ($ordered:expr, $index:ident => $what:expr) => {
        match $ordered {
            Ordered::Sherman($index) => $what,
            Ordered::Smart($index) => $what,
            Ordered::Sphinx($index) => $what,
        }
    };
}

impl Ordered {
    /// The system.
    pub fn system(&self) -> System {
        match self {
            Self::Sherman(_) => System::Sherman,
            Self::Smart(_) => System::Smart,
            Self::Sphinx(_) => System::Sphinx,
        }
    }

    /// The index's entry in the pool's directory.
    pub fn entry(&self) -> &Entry {
        each!(self, index => index.entry())
    }

    /// What keys and values mean to whoever created the index.
    pub fn kinds(&self) -> [u8; 2] {
        each!(self, index => index.kinds())
    }

    /// How long keys may be.
    #[inline]
    pub fn key_length(&self) -> Length {
        match self {
            Self::Sherman(index) => Length::Exactly(index.layout().key_bytes),
            Self::Smart(_) | Self::Sphinx(_) => Length::UpTo(KEY_BYTES_MAX),
        }
    }

    /// How long values may be.
    #[inline]
    pub fn value_length(&self) -> Length {
        match self {
            Self::Sherman(index) if index.layout().values == Values::Fixed => {
                Length::Exactly(index.layout().value_bytes)
            }
            Self::Sherman(_) | Self::Smart(_) | Self::Sphinx(_) => Length::UpTo(VALUE_BYTES_MAX),
        }
    }

    /// In which memory the locks of nodes lie, and how large they are.
    pub fn locks(&self) -> (LockMemory, LockWidth) {
        let lock = match self {
            Self::Sherman(index) => index.options().lock,
            Self::Smart(_) | Self::Sphinx(_) => NODE_LOCKS,
        };
        (lock.memory, lock.width)
    }

    /// What the index was created with, as pairs of names and values, for records.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        each!(self, index => index.options().describe())
    }

    /// The name of the scheme by which readers tell a whole copy.
    pub fn consistency(&self) -> &'static str {
        match self {
            Self::Sherman(index) => index.layout().consistency.name(),
            Self::Smart(_) | Self::Sphinx(_) => tree::CONSISTENCY,
        }
    }

    /// Bytes of the cache in use, and its budget.
    pub fn cache_bytes(&self) -> (usize, usize) {
        match self {
            Self::Sherman(index) => index.cache_bytes(),
            Self::Smart(index) => index.cache_bytes(),
            Self::Sphinx(index) => {
                let kept = index.memory_use();
                (kept.filter_bytes + kept.directory_bytes, kept.filter_bytes)
            }
        }
    }

    /// Bytes that this compute node has taken for a radix tree, less those that it took out of it; 0 for others.
    pub fn bytes_allocated(&self) -> i64 {
        match self {
            Self::Sherman(_) => 0,
            Self::Smart(index) => index.bytes_allocated(),
            Self::Sphinx(index) => index.bytes_allocated(),
        }
    }

    /// How many locks were dropped instead of released: 0, unless operations were cancelled.
    pub fn locks_dropped(&self) -> u64 {
        each!(self, index => index.locks_dropped())
    }

    /// How many locks this compute node may have left held when a memory node was lost.
    pub fn locks_in_doubt(&self) -> usize {
        each!(self, index => index.locks_in_doubt())
    }

    /// Breaks the index, as this compute node sees it: for tests that want to notice.
    #[doc(hidden)]
    pub fn sabotage(&mut self, sabotage: Sabotage) {
        each!(self, index => index.sabotage(sabotage));
    }

    /// The value of `key`, if it has one.
    ///
    /// # Errors
    /// The system's.
    #[inline]
    pub async fn get<F: Fabric>(&self, client: &Client<F>, key: &[u8]) -> Result<Option<Value>, IndexError> {
        Ok(match self {
            Self::Sherman(index) => index.get(client, key).await?.map(Value::Sherman),
            Self::Smart(index) => index.get(client, key).await?.map(Value::Radix),
            Self::Sphinx(index) => index.get(client, key).await?.map(Value::Radix),
        })
    }

    /// Stores `value` under `key`; yields whether the key was there before.
    ///
    /// # Errors
    /// The system's.
    #[inline]
    pub async fn put<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, IndexError> {
        each!(self, index => index.put(client, key, value).await)
    }

    /// Stores `value` if `key` is absent; yields whether it was.
    ///
    /// # Errors
    /// The system's.
    #[inline]
    pub async fn insert<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, IndexError> {
        each!(self, index => index.insert(client, key, value).await)
    }

    /// Stores `value` if `key` is present; yields whether it was.
    ///
    /// # Errors
    /// The system's.
    #[inline]
    pub async fn update<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, IndexError> {
        each!(self, index => index.update(client, key, value).await)
    }

    /// Takes `key` out; yields whether it was there.
    ///
    /// # Errors
    /// The system's.
    #[inline]
    pub async fn remove<F: Fabric>(&self, client: &Client<F>, key: &[u8]) -> Result<bool, IndexError> {
        each!(self, index => index.remove(client, key).await)
    }

    /// Finds up to `limit` entries of `range`, in `direction`. `found` is emptied first.
    ///
    /// # Errors
    /// The system's.
    #[inline]
    pub async fn scan<F: Fabric>(
        &self,
        client: &Client<F>,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        found: &mut Entries,
    ) -> Result<(), IndexError> {
        match self {
            Self::Sherman(index) => index.scan(client, range, direction, limit, found.of_sherman()).await,
            Self::Smart(index) => index.scan(client, range, direction, limit, found.of_radix()).await,
            Self::Sphinx(index) => index.scan(client, range, direction, limit, found.of_radix()).await,
        }
    }

    /// As [`scan`](Self::scan), all entries as they were at one moment, where the system can.
    ///
    /// # Errors
    /// [`IndexError::NoSnapshot`]; the system's.
    pub async fn scan_snapshot<F: Fabric>(
        &self,
        client: &Client<F>,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        found: &mut Entries,
    ) -> Result<(), IndexError> {
        match self {
            Self::Sherman(index) => {
                index.scan_snapshot(client, range, direction, limit, found.of_sherman()).await
            }
            Self::Smart(_) | Self::Sphinx(_) => Err(IndexError::NoSnapshot(
                "a radix tree has no versions of what a range holds; scan it, or use a sherman index",
            )),
        }
    }

    /// How many entries there are; not atomic, as a scan is not.
    ///
    /// # Errors
    /// The system's.
    pub async fn count<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        each!(self, index => index.count(client).await)
    }

    /// Loads `entries`, whose keys are strictly increasing, into the empty index; nodes that can be fuller or emptier
    /// are filled to the share `fill`. `progress` is called with the number of entries so far, now and then.
    ///
    /// # Errors
    /// [`IndexError::NotEmpty`]; [`IndexError::NotSorted`]; the system's.
    pub async fn bulk_load<F, K, V>(
        &self,
        client: &Client<F>,
        entries: impl IntoIterator<Item = (K, V)>,
        fill: f64,
        progress: impl FnMut(u64),
    ) -> Result<u64, IndexError>
    where
        F: Fabric,
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        match self {
            Self::Sherman(index) => index.bulk_load(client, entries, fill, progress).await,
            Self::Smart(index) => index.bulk_load(client, entries, progress).await,
            Self::Sphinx(index) => index.bulk_load(client, entries, progress).await,
        }
    }

    /// Walks the index, which nobody changes meanwhile, and reports every violated invariant.
    ///
    /// # Errors
    /// The fabric's. What is wrong with the index is in the [`Walk`].
    pub async fn walk<F: Fabric>(&self, client: &Client<F>) -> Result<Walk, IndexError> {
        Ok(match self {
            Self::Sherman(index) => Walk::Sherman(index.walk(client).await?),
            Self::Smart(index) => Walk::Radix(index.walk(client).await?),
            Self::Sphinx(index) => Walk::Radix(index.walk(client).await?),
        })
    }

    /// Frees the locks in the pool's tables that clients left who are gone; yields how many there were.
    ///
    /// # Errors
    /// The fabric's.
    pub async fn sweep_locks<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        each!(self, index => index.sweep_locks(client).await)
    }

    /// Gives back what this compute node has of the index's memory and does not use.
    ///
    /// # Errors
    /// The fabric's.
    pub async fn leave<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        each!(self, index => index.leave(client).await)
    }

    /// Marks the index as closed by this compute node, so that others may drop it. Nobody here may use it any more.
    ///
    /// # Errors
    /// The fabric's.
    pub async fn close<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        each!(self, index => index.close(client).await)
    }
}
