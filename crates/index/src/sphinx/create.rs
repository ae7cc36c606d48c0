//! Creates and opens Sphinx trees: the directory entry and its parameters.
//!
//! # Map
//!
//! ```text
//! parameters of a Sphinx tree in its directory entry (128 bytes, little endian)
//! +  0  1  traversals start: 0 at the root, 1 by the hash table, 2 by the filter
//! +  1  1  scans: 0 one by one, 1 batched           +  2 1  groups of a subtable, as a power of two
//! +  3  1  a search reads: 0 whole nodes, 1 one slot of a node with a slot for each byte
//! +  4  1  the clients of a compute node compete for a leaf's lock: 0 in a queue, 1 in a queue
//!          with hand-over, 2 each with all others
//! +  5  1  scans start: 0 at the root, 1 by filter and hash table
//! +  6  1  a new entry of a full filter replaces: 0 one without a second chance, 1 a random one
//! +  7     zero
//! +  8  2  memory nodes with a table; 0: all of the pool    + 10    zero
//! + 14  1  locks in: 0 host memory                  + 15 1  lock width: 0 word
//! + 20  1  kind of the keys                         + 21 1  kind of the values: numbers that the caller chooses
//! + 22     zero
//! ```

use super::options::{
    Eviction, Groups, LeafLocks, NodeReads, ScanStarts, Scans, SphinxFeatures, TraversalStart,
};
use super::postponed::PostponedChanges;
use super::table::layout::GROUPS_LOG2_MAX;
use super::table::{self, HashTable};
use super::{Sphinx, SphinxState};
use crate::cache::filter::Filter;
use crate::error::IndexError;
use crate::lifecycle;
use crate::params::{self, Codec, Parameters};
use crate::radix::cache::depth_set::DepthSet;
use crate::radix::inner::NodeSize;
use crate::radix::tree::create::{check_capabilities, create_root, open_root};
use farwood_fabric::directory::{Entry, PARAMETER_BYTES};
use farwood_fabric::{Client, Fabric};

/// Kind of Sphinx trees in the directory.
pub const KIND: u32 = params::KIND_SPHINX;
/// Version of the format of nodes, leaves and tables.
const FORMAT: u32 = 3;
/// Offset of the number of tables in the parameters.
const TABLES: usize = 8;

/// Configuration of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SphinxConfig {
    /// The features of the tree.
    pub options: SphinxFeatures,
    /// Types of keys and values, as the caller numbers them. They are stored with the tree; [`Sphinx::kinds`] yields
    /// them.
    pub kinds: [u8; 2],
}

impl Sphinx {
    /// Creates the tree `name` and opens it with a filter of `filter_bytes`.
    ///
    /// # Errors
    /// [`IndexError::IndexExists`], [`IndexError::BadName`], [`IndexError::Unsafe`]; a full pool or directory.
    pub async fn create<F: Fabric>(
        client: &Client<F>,
        name: &str,
        config: SphinxConfig,
        filter_bytes: usize,
    ) -> Result<Self, IndexError> {
        check_capabilities(client)?;
        client.fabric().find_added_nodes().await?;
        let mut new = params::new_entry(name, &config);
        let nodes = client.fabric().shape().nodes;
        new.parameters[TABLES..TABLES + 2].copy_from_slice(&nodes.to_le_bytes());
        let create_objects = async |entry: &Entry| {
            let words = if config.options.has_tables() {
                table::create(client, entry, config.options.groups.log2(), nodes).await?
            } else {
                Vec::new()
            };
            create_root(client, entry, &words).await
        };
        let entry = lifecycle::create(client, &new, create_objects).await?;
        Self::assemble(client, entry, filter_bytes).await
    }

    /// Opens the tree `name` with a filter of `filter_bytes`.
    ///
    /// # Errors
    /// [`IndexError::NoSuchIndex`], [`IndexError::WrongFormat`], [`IndexError::Unsafe`].
    pub async fn open<F: Fabric>(
        client: &Client<F>,
        name: &str,
        filter_bytes: usize,
    ) -> Result<Self, IndexError> {
        let entry = lifecycle::find(client, name).await?;
        Self::assemble(client, entry, filter_bytes).await
    }

    pub(crate) async fn assemble<F: Fabric>(
        client: &Client<F>,
        entry: Entry,
        filter_bytes: usize,
    ) -> Result<Self, IndexError> {
        let SphinxConfig { options, .. } = describe(&entry)?;
        let root = open_root(client, &entry).await?;
        let words = root.part(NodeSize::All.bytes() as u64);
        let (number, groups) = (entry.number as u32, options.groups.log2());
        let filter_bytes = if options.begins == TraversalStart::Filter { filter_bytes } else { 0 };
        let nodes = table_nodes(&entry).unwrap_or(client.fabric().shape().nodes);
        let policy = SphinxState {
            options,
            table: HashTable::new(number, groups, words, nodes),
            filter: Filter::new(filter_bytes, options.eviction),
            depths: DepthSet::new(),
            postponed: PostponedChanges::default(),
            mutant: None,
        };
        Ok(Self::new(client, entry, root, options.tree(), policy, 0))
    }
}

/// The number of memory nodes that have a table of a Sphinx tree: those of the pool when the tree was created. `None`:
/// an earlier version created it, in a pool that cannot have more memory nodes.
pub fn table_nodes(entry: &Entry) -> Option<u16> {
    let nodes = u16::from_le_bytes([entry.parameters[TABLES], entry.parameters[TABLES + 1]]);
    (nodes > 0).then_some(nodes)
}

/// Reads the configuration of a Sphinx tree from its directory entry. [0 RT]
///
/// # Errors
/// [`IndexError::WrongFormat`] if the entry does not describe a Sphinx tree of this version.
pub fn describe(entry: &Entry) -> Result<SphinxConfig, IndexError> {
    params::decode(entry)
}

impl Parameters for SphinxConfig {
    const KIND: u32 = KIND;
    const FORMAT: u32 = FORMAT;
    const NAME: &'static str = "a Sphinx tree";

    fn fields(&mut self, codec: &mut Codec) {
        let SphinxFeatures { begins, scans, node_reads, leaf_locks, scan_starts, eviction, groups } =
            &mut self.options;
        codec.choice(0, begins, [TraversalStart::Root, TraversalStart::Table, TraversalStart::Filter]);
        codec.choice(1, scans, [Scans::OneByOne, Scans::Batched]);
        let mut groups_log2 = groups.log2();
        codec.u8(2, &mut groups_log2, 0..=GROUPS_LOG2_MAX);
        *groups = Groups::new(groups_log2).expect("the codec has checked the range");
        codec.choice(3, node_reads, [NodeReads::Whole, NodeReads::OneSlot]);
        codec.choice(4, leaf_locks, [LeafLocks::Queued, LeafLocks::HandedOver, LeafLocks::Contended]);
        codec.choice(5, scan_starts, [ScanStarts::Root, ScanStarts::Table]);
        codec.choice(6, eviction, [Eviction::SecondChance, Eviction::Random]);
        codec.kinds(&mut self.kinds);
    }
}

const _: () = assert!(22 <= PARAMETER_BYTES);

#[cfg(test)]
mod tests {
    use super::super::options::SphinxVariant;
    use super::*;
    use crate::params::tests::check_codec;

    #[test]
    fn parameters_are_read_back_and_unknown_values_are_refused() {
        for (variant, _) in SphinxVariant::ALL {
            let groups = Groups::new(variant as u8).expect("a variant's number is a legal logarithm");
            let options = SphinxFeatures { groups, ..variant.features() };
            check_codec(
                &SphinxConfig { options, kinds: [3, 4] },
                &[(0, 3), (1, 2), (2, 12), (3, 2), (4, 3), (5, 2), (6, 2)],
            );
        }
    }
}
