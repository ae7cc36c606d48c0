//! The requirements of a run of each ordered index: its configuration, its variant and its memory.
//!
//! A new index adds one arm to each function.

use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::superblock::HOST_BYTES_MIN;
use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::ordered::{OrderedConfig, System};
use farwood_index::radix::inner::NodeSize;
use farwood_index::radix::leaf::{LeafClass, LeafGrain};
use farwood_index::radix::tree::options::Scans;
use farwood_index::sherman::layout::{NODE_BYTES_DEFAULT, Sizes};
use farwood_index::sherman::{self, ShermanVariant};
use farwood_index::smart::NodeSizing;
use farwood_index::{smart, sphinx};

use super::CACHE_BYTES_MAX;
use super::fabric::FabricKind;
use super::ordered::RunSpec;
use crate::workload::Workload;
use crate::workload::keys::Keys;
use crate::{Error, Result};

impl RunSpec {
    /// The name of the variant.
    pub fn variant_name(&self) -> Result<&'static str> {
        Ok(match self.index {
            System::Sherman => self.variant_of(ShermanVariant::RECOMMENDED)?.name(),
            System::Smart => self.variant_of(smart::SmartVariant::RECOMMENDED)?.name(),
            System::Sphinx => self.variant_of(sphinx::SphinxVariant::RECOMMENDED)?.name(),
        })
    }

    /// The variant by its name, or the recommended one.
    fn variant_of<V: std::str::FromStr<Err = String>>(&self, recommended: V) -> Result<V> {
        let Some(name) = self.variant.as_deref() else { return Ok(recommended) };
        name.parse().map_err(|problem: String| {
            Error::parameter("--variant", problem, "omit --variant for the recommended one")
        })
    }

    /// The configuration with which the index is created.
    pub fn config(&self, keys: &Keys) -> Result<OrderedConfig> {
        Ok(match self.index {
            System::Sherman => {
                let mut options = self.variant_of(ShermanVariant::RECOMMENDED)?.features();
                // On a real fabric, a run measures the recommended variant as the library creates it.
                let of_library = self.variant_of(ShermanVariant::RECOMMENDED)? == ShermanVariant::RECOMMENDED
                    && self.fabric != FabricKind::Sim;
                options.lock.width = self.lock_width;
                OrderedConfig::Sherman(sherman::ShermanConfig {
                    sizes: self.sizes(keys),
                    options,
                    consistency: self.consistency.or(of_library.then_some(Consistency::Checksum)),
                    ..Default::default()
                })
            }
            System::Sphinx => {
                let options = self.variant_of(sphinx::SphinxVariant::RECOMMENDED)?.features();
                let scans = self.scans(options.scans);
                let options = self.sphinx.apply(sphinx::SphinxFeatures { scans, ..options });
                OrderedConfig::Sphinx(sphinx::SphinxConfig { options, ..Default::default() })
            }
            System::Smart => OrderedConfig::Smart(smart::SmartConfig {
                options: self.smart_options()?,
                ..Default::default()
            }),
        })
    }

    fn smart_options(&self) -> Result<smart::SmartFeatures> {
        let options = self.variant_of(smart::SmartVariant::RECOMMENDED)?.features();
        let scans = self.scans(options.scans);
        Ok(self.smart.apply(smart::SmartFeatures { scans, ..options }))
    }

    /// The READs of a scan of a radix tree, if the variant's are `of_variant`.
    fn scans(&self, of_variant: Scans) -> Scans {
        if self.batched_scans { of_variant } else { Scans::OneByOne }
    }

    /// Sizes of keys, values and nodes of an index whose nodes have one size.
    pub(crate) fn sizes(&self, keys: &Keys) -> Sizes {
        let node_bytes = self.node_bytes.unwrap_or(NODE_BYTES_DEFAULT);
        Sizes { key_bytes: keys.key_bytes(), value_bytes: self.value_bytes, node_bytes }
    }

    /// Refuses parameters that the system does not have.
    pub(super) fn check_system(&self) -> Result<()> {
        self.variant_name()?;
        if let Some(bytes) = self.cache_bytes.filter(|bytes| *bytes > CACHE_BYTES_MAX) {
            let problem = format!("a cache of {bytes} B");
            return Err(Error::parameter("--cache-bytes", problem, "give at most 1TiB"));
        }
        let refuse = |flag, problem: &str| Err(Error::parameter(flag, problem, format!("omit {flag}")));
        if self.index != System::Sphinx
            && let Some(flag) = self.sphinx.first_flag()
        {
            return refuse(flag, "it is an option of sphinx");
        }
        if self.index == System::Sphinx {
            let variant = self.variant_of(sphinx::SphinxVariant::RECOMMENDED)?;
            if let Some(flag) = self.sphinx.first_without_effect(variant) {
                return refuse(flag, "it has no effect in this variant");
            }
        }
        if self.index != System::Smart
            && let Some(flag) = self.smart.first_flag()
        {
            return refuse(flag, "it is an option of smart");
        }
        match self.index {
            System::Sherman if !self.batched_scans => {
                refuse("--batched-scans", "only radix trees have scans in batches")
            }
            System::Smart | System::Sphinx if self.node_bytes.is_some() => {
                refuse("--node-bytes", "the size of a radix tree's node follows from its children")
            }
            System::Smart | System::Sphinx if self.lock_width == LockWidth::Packed => {
                refuse("--lock-width", "a radix tree's locks have 64 bits")
            }
            System::Sherman | System::Smart | System::Sphinx => Ok(()),
        }
    }

    /// Upper bound on the bytes of an entry with its share of the nodes, from which the memory of a run follows.
    pub(crate) fn entry_bytes(&self, keys: &Keys) -> u64 {
        match self.index {
            // Versions and checksums, and eight bytes for the order in which keys are loaded.
            System::Sherman => (keys.key_bytes() + self.value_bytes + 16) as u64 * 3 / 2,
            System::Smart | System::Sphinx => radix_entry_bytes(self, keys),
        }
    }

    /// Host memory in bytes that each memory node of the run needs for `entries`.
    pub fn host_bytes(&self, keys: &Keys, entries: u64) -> u64 {
        match self.index {
            System::Sherman => host_bytes(self.sizes(keys), entries, self.memory_nodes, self.compute_nodes),
            System::Smart | System::Sphinx => {
                // Each compute node has allocated a chunk at each memory node.
                let bytes = entries * radix_entry_bytes(self, keys) + self.replaced_bytes(keys);
                let chunks = bytes.div_ceil(CHUNK_BYTES) * 5 / 4;
                let each = chunks.div_ceil(u64::from(self.memory_nodes)) + self.compute_nodes as u64;
                (each + 8) * CHUNK_BYTES
            }
        }
    }
}

impl RunSpec {
    /// Upper bound on the bytes of replaced leaves whose memory the index does not reuse: at most half of the
    /// operations of the simulated clients update a key, and a twentieth of what any machine could do.
    fn replaced_bytes(&self, keys: &Keys) -> u64 {
        let swaps = self.index == System::Smart
            && self.smart_options().is_ok_and(|options| options.updates == smart::options::Updates::Swapped);
        if !swaps || matches!(self.workload, Workload::Load | Workload::YcsbC) {
            return 0;
        }
        let share = if self.fabric == FabricKind::Sim { 2 } else { 20 };
        self.operations_max() / share * leaf_bytes(self, keys) as u64
    }
}

/// Bytes of a leaf.
fn leaf_bytes(spec: &RunSpec, keys: &Keys) -> usize {
    let key_bytes = keys.key_bytes_mean().map_or(keys.key_bytes(), |mean| mean.ceil() as usize);
    let grain = if spec.index == System::Sphinx { LeafGrain::Lines } else { LeafGrain::Words };
    LeafClass::for_entry(grain, key_bytes, spec.value_bytes).map_or(0, LeafClass::bytes)
}

/// Bytes of a leaf and half an inner node: a tree has at most one inner node per key.
fn radix_entry_bytes(spec: &RunSpec, keys: &Keys) -> u64 {
    let leaf = leaf_bytes(spec, keys);
    let node = match spec.smart.node_sizing {
        None | Some(NodeSizing::Fitting) => NodeSize::Sixteen,
        Some(NodeSizing::Typed | NodeSizing::Preallocated) => NodeSize::All,
    };
    let is_rounded = spec.smart.allocation == Some(smart::Allocation::Steps256);
    let rounded = |bytes: usize| if is_rounded { bytes.next_multiple_of(256) } else { bytes };
    (rounded(leaf) + rounded(node.bytes()) / 2) as u64
}

/// Host memory in bytes that each of `memory_nodes` needs for `entries` entries of a B-link tree: half-full leaves,
/// inner nodes, and the chunks that each compute node has allocated.
fn host_bytes(sizes: Sizes, entries: u64, memory_nodes: u16, compute_nodes: usize) -> u64 {
    let Sizes { key_bytes, value_bytes, node_bytes } = sizes;
    let capacity =
        (node_bytes.saturating_sub(44 + 2 * key_bytes) / (key_bytes + value_bytes + 16)).max(1) as u64;
    let leaves = entries.div_ceil(capacity) * 2;
    let children = (node_bytes.saturating_sub(44 + 2 * key_bytes) / (key_bytes + 8)).max(2) as u64;
    let nodes = leaves + leaves * 3 / children + 64;
    let chunks = (nodes * node_bytes as u64).div_ceil(CHUNK_BYTES) * 5 / 4 + 2 * compute_nodes as u64 + 4;
    (chunks.div_ceil(u64::from(memory_nodes)) + 2) * CHUNK_BYTES.max(HOST_BYTES_MIN / 2)
}

/// The serialised form of a [`System`]: its name.
pub mod by_name {
    use super::System;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    /// Writes the name.
    ///
    /// # Errors
    /// The errors of the serializer.
    pub fn serialize<S: Serializer>(system: &System, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(system.name())
    }

    /// Reads a name.
    ///
    /// # Errors
    /// The errors of the deserializer, and an unknown name.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<System, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
