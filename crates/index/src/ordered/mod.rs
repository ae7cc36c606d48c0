//! An ordered index whose system is chosen at run time, for callers that open indexes by name.
//!
//! A new system needs a variant of [`Ordered`], [`OrderedConfig`], [`OrderedValue`] and [`OrderedReport`], and the
//! match arms that the compiler then requires. Operations that all systems provide are dispatched by `dispatch!`.

mod create;
mod entries;
mod report;

pub use create::{OrderedConfig, OrderedDescription, describe};
pub use entries::Entries;
pub use report::OrderedReport;

use crate::error::IndexError;
use crate::lock::{LockMemory, LockWidth};
use crate::memory::overflow::VALUE_BYTES_MAX;
use crate::modify::{Accept, Decide};
use crate::mutant::Mutant;
use crate::outcome::{InsertOutcome, PutOutcome, RemoveOutcome, UpdateOutcome};
use crate::radix::key::KEY_BYTES_MAX;
use crate::radix::tree;
use crate::radix::tree::options::NODE_LOCKS;
use crate::range::{Direction, Range};
use crate::sherman::layout::Values;
use crate::sherman::{self, Sherman};
use crate::smart::{self, Smart};
use crate::sphinx::{self, Sphinx};
use farwood_fabric::directory::Entry;
use farwood_fabric::{Client, Fabric};
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

/// An open ordered index of any system. Every operation takes the client that executes it. Costs and errors of the
/// operations are documented at the systems: [`Sherman`], [`Smart`], [`Sphinx`].
#[derive(Debug)]
pub enum Ordered {
    /// A B-link tree.
    Sherman(Box<Sherman>),
    /// The radix tree of SMART.
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
    /// A radix tree with hash tables, for keys of any length and small caches.
    Sphinx,
}

impl System {
    /// All systems, the recommended one first.
    pub const ALL: [Self; 3] = [Self::Sherman, Self::Smart, Self::Sphinx];

    /// The name of the system in commands and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sherman => "sherman",
            Self::Smart => "smart",
            Self::Sphinx => "sphinx",
        }
    }

    /// Default budget of a compute node's index cache, bytes. A Sphinx tree has a filter, of less than two bytes for
    /// each inner node: the default holds a million nodes, enough for about twenty million integers or three million
    /// names.
    pub const fn cache_bytes_default(self) -> usize {
        match self {
            Self::Sherman | Self::Smart => 64 << 20,
            Self::Sphinx => 2 << 20,
        }
    }

    /// The number of the system in the directory.
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
            format!("no ordered index '{name}'; choose one of {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The legal lengths of the keys, or the values, of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// This many bytes.
    Exactly(usize),
    /// At most this many bytes.
    UpTo(usize),
}

impl Length {
    /// The maximum, bytes.
    pub const fn most(self) -> usize {
        let (Self::Exactly(most) | Self::UpTo(most)) = self;
        most
    }
}

/// A value, in the fetched copy that contains it.
pub enum OrderedValue {
    /// A value of a [`Sherman`].
    Sherman(sherman::ShermanValue),
    /// A value of a radix tree.
    Radix(tree::FoundValue),
    /// A copy, which may move to another thread.
    Copy(Vec<u8>),
}

impl Deref for OrderedValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Sherman(value) => value,
            Self::Radix(value) => value,
            Self::Copy(value) => value,
        }
    }
}

impl fmt::Debug for OrderedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Calls the same method on the index of any system.
macro_rules! dispatch {
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
        dispatch!(self, index => index.entry())
    }

    /// The types of keys and values, as numbers that the creator of the index chose.
    pub fn kinds(&self) -> [u8; 2] {
        dispatch!(self, index => index.kinds())
    }

    /// Legal lengths of keys.
    #[inline]
    pub fn key_length(&self) -> Length {
        match self {
            Self::Sherman(index) => Length::Exactly(index.layout().key_bytes),
            Self::Smart(_) | Self::Sphinx(_) => Length::UpTo(KEY_BYTES_MAX),
        }
    }

    /// Legal lengths of values.
    #[inline]
    pub fn value_length(&self) -> Length {
        match self {
            Self::Sherman(index) if index.layout().values == Values::Fixed => {
                Length::Exactly(index.layout().value_bytes)
            }
            Self::Sherman(_) | Self::Smart(_) | Self::Sphinx(_) => Length::UpTo(VALUE_BYTES_MAX),
        }
    }

    /// The memory and the width of the locks of nodes.
    pub fn locks(&self) -> (LockMemory, LockWidth) {
        let lock = match self {
            Self::Sherman(index) => index.options().lock,
            Self::Smart(_) | Self::Sphinx(_) => NODE_LOCKS,
        };
        (lock.memory, lock.width)
    }

    /// The options of the index, as pairs of names and values, for records.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        dispatch!(self, index => index.options().describe())
    }

    /// The name of the scheme by which readers detect torn copies.
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

    /// Replaces the cache by a copy of that of another compute node, as if this one had executed the same reads.
    /// `false`: the system does not support it, and nothing has changed. [0 RT]
    #[doc(hidden)]
    pub fn copy_cache(&mut self, other: &Self) -> bool {
        match (self, other) {
            (Self::Smart(index), Self::Smart(other)) => index.cache = other.cache.copy(),
            _ => return false,
        }
        true
    }

    /// Bytes that this compute node has allocated for a radix tree, less those that it has freed; 0 for others.
    pub fn bytes_allocated(&self) -> i64 {
        match self {
            Self::Sherman(_) => 0,
            Self::Smart(index) => index.bytes_allocated(),
            Self::Sphinx(index) => index.bytes_allocated(),
        }
    }

    /// The number of locks that were dropped instead of released; 0 unless operations were cancelled.
    pub fn locks_dropped(&self) -> u64 {
        dispatch!(self, index => index.locks_dropped())
    }

    /// The number of locks that this compute node may still hold because a memory node was lost.
    pub fn locks_uncertain(&self) -> usize {
        dispatch!(self, index => index.locks_uncertain())
    }

    /// Turns on a fault of this handle, for tests.
    #[doc(hidden)]
    pub fn mutant(&mut self, mutant: Mutant) {
        dispatch!(self, index => index.mutant(mutant));
    }

    /// Finds the value of `key`.
    ///
    /// # Errors
    /// The errors of the same operation of the selected system.
    #[inline]
    pub async fn get<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
    ) -> Result<Option<OrderedValue>, IndexError> {
        Ok(match self {
            Self::Sherman(index) => index.get(client, key).await?.map(OrderedValue::Sherman),
            Self::Smart(index) => index.get(client, key).await?.map(OrderedValue::Radix),
            Self::Sphinx(index) => index.get(client, key).await?.map(OrderedValue::Radix),
        })
    }

    /// Stores `value` under `key`.
    ///
    /// # Errors
    /// The errors of the same operation of the selected system.
    #[inline]
    pub async fn put<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<PutOutcome, IndexError> {
        client.check_write()?;
        dispatch!(self, index => index.put(client, key, value).await)
    }

    /// Stores `value` under `key` if the key is absent.
    ///
    /// # Errors
    /// The errors of the same operation of the selected system.
    #[inline]
    pub async fn insert<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<InsertOutcome, IndexError> {
        client.check_write()?;
        dispatch!(self, index => index.insert(client, key, value).await)
    }

    /// Stores `value` under `key` if the key is present.
    ///
    /// # Errors
    /// The errors of the same operation of the selected system.
    #[inline]
    pub async fn update<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<UpdateOutcome, IndexError> {
        client.check_write()?;
        dispatch!(self, index => index.update(client, key, value).await)
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// The errors of the same operation of the selected system.
    #[inline]
    pub async fn remove<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
    ) -> Result<RemoveOutcome, IndexError> {
        client.check_write()?;
        dispatch!(self, index => index.remove(client, key).await)
    }

    /// Calls `decide` with the value of `key`, and changes the entry as it decides, in one atomic step.
    ///
    /// # Errors
    /// The errors of the same operation of the selected system.
    #[inline]
    pub async fn modify<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError> {
        client.check_write()?;
        dispatch!(self, index => index.modify(client, key, decide).await)
    }

    /// Removes `key` if `accept` accepts its value, in one atomic step.
    ///
    /// # Errors
    /// The errors of the same operation of the selected system.
    #[inline]
    pub async fn remove_if<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        accept: &mut Accept<'_>,
    ) -> Result<(), IndexError> {
        client.check_write()?;
        dispatch!(self, index => index.remove_if(client, key, accept).await)
    }

    /// Finds up to `limit` entries of `range`, in `direction`. Clears `found` first.
    ///
    /// # Errors
    /// The errors of the same operation of the selected system.
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

    /// As [`scan`](Self::scan), with all entries as of one moment, where the system supports it.
    ///
    /// # Errors
    /// [`IndexError::NoSnapshot`]; the errors of Sherman's `scan_snapshot`.
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
                "a radix tree keeps no versions of a range; use scan, or a sherman index",
            )),
        }
    }

    /// Counts the entries; not atomic, like a scan.
    ///
    /// # Errors
    /// The errors of the same operation of the selected system.
    pub async fn count<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        dispatch!(self, index => index.count(client).await)
    }

    /// Loads `entries`, whose keys increase strictly, into the empty index, and fills Sherman's nodes to the share
    /// `fill`. Calls `progress` repeatedly with the number of entries loaded so far.
    ///
    /// # Errors
    /// [`IndexError::NotEmpty`]; [`IndexError::NotSorted`]; the errors of the selected system's bulk load.
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
        client.check_write()?;
        match self {
            Self::Sherman(index) => index.bulk_load(client, entries, fill, progress).await,
            Self::Smart(index) => index.bulk_load(client, entries, progress).await,
            Self::Sphinx(index) => index.bulk_load(client, entries, progress).await,
        }
    }

    /// Checks every invariant of the index, which no client may change meanwhile.
    ///
    /// # Errors
    /// The errors of the fabric. Violations are in the [`OrderedReport`].
    pub async fn walk<F: Fabric>(&self, client: &Client<F>) -> Result<OrderedReport, IndexError> {
        Ok(match self {
            Self::Sherman(index) => OrderedReport::Sherman(index.walk(client).await?),
            Self::Smart(index) => OrderedReport::Radix(index.walk(client).await?),
            Self::Sphinx(index) => OrderedReport::Radix(index.walk(client).await?),
        })
    }

    /// Frees the locks of crashed clients in the tables of the pool; returns their number.
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn sweep_locks<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        client.check_write()?;
        dispatch!(self, index => index.sweep_locks(client).await)
    }

    /// Completes what this compute node has postponed: changes of Sphinx's tables that would have had to wait. Answers
    /// do not depend on them. [0 RT; 2 for each change]
    pub async fn complete_changes<F: Fabric>(&self, client: &Client<F>) {
        match self {
            Self::Sherman(_) => {}
            Self::Smart(index) => index.complete_changes(client).await,
            Self::Sphinx(index) => index.complete_changes(client).await,
        }
    }

    /// Returns the unused memory of this compute node to the index.
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn leave<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        // A client that may only read has allocated nothing.
        if !client.may_write() {
            return Ok(());
        }
        dispatch!(self, index => index.leave(client).await)
    }

    /// Marks the index as closed by this compute node, so that other clients may drop it. The handle must not be used
    /// any more.
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn close<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        dispatch!(self, index => index.close(client).await)
    }
}
