//! Sphinx: a radix tree on far memory whose nodes are found through a hash table and a succinct filter (Sphinx,
//! DATE'25), and ART on far memory.
//!
//! The tree, and the argument why its answers are right, is in [`radix::tree`](crate::radix::tree). What is Sphinx's
//! own: every inner node has an entry in a hash table of the memory node where it belongs ([`table`]); the compute
//! node remembers in a filter for which prefixes there are nodes ([`cache::filter`](crate::cache::filter)); and a
//! search begins at the deepest node that both lead to (`descend.rs`).
//!
//! # What an answer rests on
//!
//! Nothing that the filter or a table says. They lead to a node, which is read, and which says that it is live, linked,
//! and of the very prefix: then it is the node of that prefix, whatever led there, for there is never a second one
//! (rule 1 of the tree's argument). From there on the search goes down as from the root. So whatever is wrong with a
//! filter or a table, an entry of the dead, a forgotten prefix, a hash that two prefixes share, costs round trips and
//! never an answer: the next shorter prefix is tried, and the root in the end.
//!
//! # Departures from the paper
//!
//! 1. A new key in a free slot takes one CAS and no lock, as in SMART's tree; where a child is replaced, the lock is a
//!    word in a table, which names its holder, and not a status in the header, which could not be taken from the dead.
//! 2. The header says *live* or *dead* (the paper's *invalid*); beside it lie 64 bits of hash of the full prefix (the
//!    paper has 42), and a reverse pointer, by which a miss is believed.
//! 3. Leaves lie on the memory node of the inner node that they are put into, so that a leaf and the CAS that links it
//!    are one round trip; only inner nodes are spread by their prefixes.
//! 4. Who follows an entry to a node that is gone does not try again, but goes on with a shorter prefix and takes the
//!    entry out; who then comes upon a node that has no entry enters it. So nobody waits for the dead.
//! 5. After the first prefix that misled, several are tried at once.
//! 6. An update locks and reads its leaf by one doorbell, where the fabric keeps them in order: 4 round trips for the
//!    paper's 5.

mod coverage;
mod create;
mod lookup;
pub mod options;
pub mod table;

pub use crate::radix::tree::{Change, Direction, Entries, Problem, Range, Value, Walk};
pub use coverage::MARKS;
pub use create::{KIND, SphinxConfig, SphinxConfig as Config, describe};
pub use options::{Begins, Groups, Options, Variant};

use crate::cache::filter::Filter;
use crate::error::IndexError;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::RawInner;
use crate::radix::key::check_key;
use crate::radix::prefix::PrefixHash;
use crate::radix::tree::find::Way;
use crate::radix::tree::{Event, Guide, Sign, Tree, problem_of};
use crate::sabotage::Sabotage;
use farwood_fabric::{Client, Fabric, NodeId, PoolShape, Remote};
use std::sync::Arc;
use table::{Hands, HashTable};

/// A Sphinx tree, as a compute node sees it.
pub type Sphinx = Tree<Signs>;

/// What is Sphinx's own of a tree: what leads to its nodes.
#[derive(Debug)]
pub struct Signs {
    options: Options,
    table: HashTable,
    filter: Filter,
    sabotage: Option<Sabotage>,
}

/// What a compute node keeps to find its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Bytes of the filter.
    pub filter_bytes: usize,
    /// Prefixes in the filter, and how many it has room for.
    pub prefixes: (u64, u64),
    /// Bytes of the directories.
    pub directory_bytes: usize,
}

impl Guide for Signs {
    const SYSTEM: &'static str = "Sphinx";

    /// Where the prefix belongs.
    fn home(&self, shape: &PoolShape, _: (NodeId, u8), prefix: PrefixHash) -> NodeId {
        NodeId(prefix.place(shape.nodes))
    }

    async fn begin<F: Fabric>(
        tree: &Sphinx,
        client: &Client<F>,
        way: &mut Way<'_>,
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        match tree.guide.options.begins {
            Begins::Root => Ok(None),
            Begins::Table | Begins::Filter => tree.deepest(client, way).await,
        }
    }

    async fn arrived<F: Fabric>(
        tree: &Sphinx,
        client: &Client<F>,
        way: &Way<'_>,
        _: (Remote<RawInner>, usize),
    ) {
        if tree.guide.options.has_tables() {
            tree.remember(client, way).await;
        }
    }

    async fn changed<F: Fabric>(tree: &Sphinx, client: &Client<F>, event: Event) {
        if tree.guide.options.has_tables() {
            tree.record(client, event).await;
        }
    }

    async fn check<F: Fabric>(
        tree: &Sphinx,
        client: &Client<F>,
        signs: &[Sign],
        walk: &mut Walk,
    ) -> Result<(), IndexError> {
        if tree.guide.options.has_tables() {
            match tree.guide.table.check(client, signs, walk).await {
                Ok(census) => walk.census = census,
                Err(error) => walk.problem(tree.root, format!("its hash tables: {}", problem_of(error)?)),
            }
        }
        Ok(())
    }

    fn sabotage(&mut self, sabotage: Sabotage) {
        self.sabotage = Some(sabotage);
        self.table.sabotage(sabotage);
    }
}

impl Sphinx {
    /// The variant's options.
    pub fn options(&self) -> &Options {
        &self.guide.options
    }

    /// What this compute node keeps to find its way.
    pub fn kept(&self) -> Kept {
        let Signs { filter, table, .. } = &self.guide;
        let (filter_bytes, prefixes) = (filter.bytes(), filter.load());
        Kept { filter_bytes, prefixes, directory_bytes: table.directory_bytes() }
    }

    fn hands(&self) -> Hands<'_> {
        Hands { locks: &self.nodes, heap: &self.heap }
    }

    /// The value of `key`, if it has one.
    /// [3 RT where the filter knows the key's deepest node, there or not: entry, node, leaf; 2 for a key that is not
    /// there where its slot is empty]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] where the key is too long; [`IndexError::Damaged`]; the fabric's errors.
    pub async fn get<F: Fabric>(&self, client: &Client<F>, key: &[u8]) -> Result<Option<Value>, IndexError> {
        check_key(key)?;
        self.get_alone(client, key).await
    }

    /// Stores `value` under `key`; yields whether the key was there. [4 RT for a key that is there: entry, node, lock
    /// with leaf, write-back with unlock; 3 for a new key in a slot of its own; 12 where a leaf is split and its
    /// node entered]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] where key or value are too long; [`IndexError::LockHeld`]; the fabric's errors.
    pub async fn put<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, IndexError> {
        self.change(client, key, Change::Put(value), "put").await
    }

    /// Stores `value` if `key` is present; yields whether it was. [as [`put`](Self::put)]
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn update<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, IndexError> {
        self.change(client, key, Change::Update(value), "update").await
    }
}
