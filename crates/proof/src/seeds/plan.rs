//! The plan of a run: the configuration of the index, the keys and the operations.

use crate::workload::{Mix, ValueLengths, Workload};
use farwood_index::ordered::OrderedConfig;
use farwood_index::sherman::layout::{Sizes, Values};
use farwood_index::{sherman, smart, sphinx};
use farwood_testkit::harness::TestRng;
use farwood_testkit::history::ByteString;

/// Which of eight seeds of Sphinx has wide nodes; its variant has a filter.
const WIDE_SEED: u64 = 5;
/// Number of keys with which nodes of 256 slots come and go.
const WIDE_KEYS: u64 = 240;

/// The configuration of the index, the keys and the operations of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Seed of all random draws.
    pub seed: u64,
    /// The configuration of the index.
    pub index: OrderedConfig,
    /// The unit of the lengths of values in a radix tree, bytes.
    pub radix_value_bytes: usize,
    /// Keys of the run.
    pub keys: u64,
    /// Kinds of operations.
    pub mix: Mix,
    /// Bytes of each compute node's cache.
    pub cache_bytes: usize,
    /// Whether scans with a limit are snapshots.
    pub snapshots: bool,
}

/// Sizes that make small nodes, and so high trees, in different ways.
pub(crate) const SIZES: [Sizes; 4] = [
    Sizes { key_bytes: 8, value_bytes: 16, node_bytes: 256 },
    Sizes { key_bytes: 24, value_bytes: 8, node_bytes: 256 },
    Sizes { key_bytes: 13, value_bytes: 21, node_bytes: 256 },
    Sizes { key_bytes: 8, value_bytes: 0, node_bytes: 256 },
];

/// Sizes of device memory: many locks, or so few that nodes share them.
pub(crate) const DEVICE_BYTES: [u64; 3] = [4 << 10, 256, 64];

impl Plan {
    /// The configuration of the Sherman tree.
    ///
    /// # Panics
    /// If the index is of another system.
    pub fn sherman(&mut self) -> &mut sherman::ShermanConfig {
        match &mut self.index {
            OrderedConfig::Sherman(config) => config,
            other => unreachable!("a plan for Sherman: {other:?}"),
        }
    }

    /// Replaces the configuration by that of a SMART tree.
    pub fn use_smart(&mut self, config: smart::SmartConfig) {
        self.index = OrderedConfig::Smart(config);
    }

    /// Replaces the configuration by that of a Sphinx tree.
    pub fn use_sphinx(&mut self, config: sphinx::SphinxConfig) {
        self.index = OrderedConfig::Sphinx(config);
    }

    /// Gives values of the Sherman tree any length.
    pub fn use_any_length(&mut self) {
        let config = self.sherman();
        config.values = Values::AnyLength;
        (config.sizes.value_bytes, config.sizes.node_bytes) = (16, 320);
    }

    /// Whether the index is a radix tree.
    pub(crate) fn is_radix(&self) -> bool {
        !matches!(self.index, OrderedConfig::Sherman(_))
    }

    /// Bytes of a value that the index accepts.
    pub(crate) fn value_bytes(&self) -> usize {
        match &self.index {
            OrderedConfig::Sherman(config) => config.sizes.value_bytes,
            OrderedConfig::Smart(_) | OrderedConfig::Sphinx(_) => self.radix_value_bytes,
        }
    }

    /// The requests of client number `client`.
    pub(crate) fn workload<'k>(&self, keys: &'k [ByteString], client: u64) -> Workload<'k> {
        let lengths = match &self.index {
            OrderedConfig::Sherman(config) => ValueLengths::of(config),
            OrderedConfig::Smart(_) | OrderedConfig::Sphinx(_) => {
                ValueLengths::UpTo { bytes: self.radix_value_bytes, times: 5 }
            }
        };
        let mut workload = Workload::new(keys, lengths, self.mix, client, self.seed);
        if self.snapshots {
            workload.use_snapshots();
        }
        workload
    }

    /// Whether the nodes of the index grow in place.
    fn is_typed(&self) -> bool {
        let OrderedConfig::Smart(config) = &self.index else { return false };
        config.options.node_sizing == smart::NodeSizing::Typed
    }

    /// Whether the tree has nodes with 256 slots below its root: in one of eight seeds of Sphinx with many keys.
    fn has_wide_nodes(&self) -> bool {
        matches!(self.index, OrderedConfig::Sphinx(_)) && self.seed % 8 == WIDE_SEED && self.keys >= WIDE_KEYS
    }

    /// Gives every eighth seed of Sphinx enough keys for nodes with 256 slots below the root.
    pub(crate) fn widen(&mut self) {
        if self.seed % 8 == WIDE_SEED {
            self.keys = WIDE_KEYS;
        }
    }

    /// Takes back the options of radix trees that were added after the runs that once failed: nodes that grow in place,
    /// a cache that evicts first in, first out, READs of one slot, leaf locks that are handed over or for which all
    /// clients compete, scans that start at a node of the table, and random eviction.
    pub fn use_earlier_options(&mut self) {
        let is_typed = self.is_typed();
        match &mut self.index {
            OrderedConfig::Smart(config) => {
                if is_typed {
                    config.options.node_sizing = smart::NodeSizing::Fitting;
                }
                config.options.cache_policy = smart::CachePolicy::RecentlyUsed;
            }
            OrderedConfig::Sphinx(config) => {
                config.options.node_reads = sphinx::NodeReads::Whole;
                config.options.leaf_locks = sphinx::LeafLocks::Queued;
                config.options.scan_starts = sphinx::ScanStarts::Root;
                config.options.eviction = sphinx::Eviction::SecondChance;
            }
            OrderedConfig::Sherman(_) => {}
        }
    }

    /// Gives a SMART tree nodes that grow in place.
    pub fn use_typed_nodes(&mut self) {
        if let OrderedConfig::Smart(config) = &mut self.index {
            config.options.node_sizing = smart::NodeSizing::Typed;
        }
    }

    /// Keys of many lengths. Each begins with a prefix of an earlier key, and continues with a few bytes: any bytes,
    /// one of three, or one byte repeated. For nodes that grow in place, many keys differ in one of 48 bytes; for wide
    /// nodes in one of 88, below one of two prefixes, so that nodes of 256 slots come and go.
    fn draw_radix_keys(&self) -> Vec<ByteString> {
        let mut random = TestRng::new(self.seed ^ 0x7061_7468);
        let mut keys = vec![ByteString::new()];
        while keys.len() < self.keys as usize {
            let mut key = keys[random.below(keys.len() as u64) as usize].clone();
            key.truncate(random.below(key.len() as u64 + 1) as usize);
            let more = random.below(4);
            match random.below(4) {
                0 => key.extend((0..more).map(|_| random.next_u64() as u8)),
                1 => key.extend(std::iter::repeat_n(7, more as usize * 17)),
                _ if self.is_typed() => key.push(random.below(48) as u8),
                _ if self.has_wide_nodes() => {
                    key = vec![9; 1 + 2 * random.below(2) as usize];
                    key.push(random.below(88) as u8);
                }
                _ => key.extend((0..=more).map(|_| [0, 1, 255][random.below(3) as usize])),
            }
            if key.len() <= 300 && !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys.sort();
        keys.rotate_left(random.below(self.keys) as usize);
        keys
    }

    /// The keys of the run. For Sherman: the least and the greatest key, and keys that differ in all bytes or in the
    /// last ones.
    pub(crate) fn draw_keys(&self) -> Vec<ByteString> {
        let OrderedConfig::Sherman(config) = &self.index else { return self.draw_radix_keys() };
        let bytes = config.sizes.key_bytes;
        let mut keys = vec![vec![0; bytes], vec![u8::MAX; bytes]];
        let mut random = TestRng::new(self.seed ^ 0x6B65_7973);
        while keys.len() < self.keys as usize {
            let number = keys.len() as u64;
            let mut key = vec![7; bytes];
            match random.below(2) {
                0 => key.fill_with(|| random.next_u64() as u8),
                _ => key[bytes - 8..].copy_from_slice(&number.to_be_bytes()),
            }
            keys.push(key);
        }
        // The workload prefers the first few keys: after the rotation they are neighbours, anywhere in the tree.
        keys.sort();
        keys.rotate_left(random.below(self.keys) as usize);
        keys
    }
}
