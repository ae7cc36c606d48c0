//! The structure of a restored index.

use super::error::{BackupError, BackupResult};
use super::header::{ColumnHeader, EntryTypes, IndexHeader};
use super::refit::own_bytes;
use crate::codec::KEY_BYTES_MIN;
use crate::kind::read_hex;
use crate::structure::{BTree, Column, Contradiction, Hashed, Radix, sealed};
use farwood_fabric::directory::Entry;
use farwood_index::IndexError;
use farwood_index::ordered::{OrderedConfig, OrderedDescription, System, describe};
use farwood_index::sherman::ShermanConfig;
use farwood_index::sherman::layout::Sizes;

/// The structure of a restored index of keys: [`BTree`], [`Radix`] or [`Hashed`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RestoredStructure {
    /// A B-link tree. Without lengths of its own, it has those of the backup.
    BTree(BTree),
    /// A radix tree.
    Radix(Radix),
    /// A radix tree with hash tables.
    Hashed(Hashed),
}

impl From<BTree> for RestoredStructure {
    fn from(options: BTree) -> Self {
        Self::BTree(options)
    }
}

impl From<Radix> for RestoredStructure {
    fn from(options: Radix) -> Self {
        Self::Radix(options)
    }
}

impl From<Hashed> for RestoredStructure {
    fn from(options: Hashed) -> Self {
        Self::Hashed(options)
    }
}

/// The options of the index to create: given ones, or those of the backup.
#[derive(Debug)]
pub(super) enum RestoreTarget {
    Given(RestoredStructure),
    Same(Box<OrderedDescription>),
}

impl RestoreTarget {
    /// The options for an index of keys.
    pub(super) fn new(
        given: Option<&RestoredStructure>,
        header: &IndexHeader,
        types: &EntryTypes,
    ) -> BackupResult<Self> {
        Ok(match given {
            Some(RestoredStructure::BTree(options)) => {
                let bytes = |column: &ColumnHeader| column.bytes.or_else(|| own_bytes(column));
                let (keys, values) =
                    (bytes(&types.keys).map(|own| own.max(KEY_BYTES_MIN)), bytes(&types.values));
                Self::Given(RestoredStructure::BTree(options.clone().or_lengths(keys, values)))
            }
            Some(given) => Self::Given(given.clone()),
            None => {
                let described = describe(&entry_of(header)?).map_err(|error| no_options(header, &error))?;
                Self::Same(Box::new(described))
            }
        })
    }
}

/// The directory entry that the index had.
pub(super) fn entry_of(header: &IndexHeader) -> BackupResult<Entry> {
    let kind = match System::ALL.into_iter().find(|system| system.name() == header.system) {
        Some(system) => system.kind(),
        None => farwood_index::catfish::KIND,
    };
    let parameters = read_hex(&header.parameters).and_then(|bytes| bytes.try_into().ok());
    let parameters = parameters.ok_or_else(|| BackupError::Options {
        name: header.name.clone(),
        why: "its parameters are not those of an index".to_owned(),
    })?;
    Ok(Entry { slot: 0, number: 0, name: header.name.clone(), kind, format: header.format, parameters })
}

/// The error for options that this version does not know.
pub(super) fn no_options(header: &IndexHeader, error: &IndexError) -> BackupError {
    let IndexHeader { name, system, format, .. } = header;
    let why = format!(
        "its options are those of format {format} of {system}, which this version does not read ({error}); choose a \
         structure, which is then created with its default options"
    );
    BackupError::Options { name: name.clone(), why }
}

impl sealed::Structure for RestoreTarget {
    fn config(&self, columns: [Column; 2]) -> Result<OrderedConfig, String> {
        match self {
            Self::Given(RestoredStructure::BTree(options)) => options.config(columns),
            Self::Given(RestoredStructure::Radix(options)) => options.config(columns),
            Self::Given(RestoredStructure::Hashed(options)) => options.config(columns),
            Self::Same(described) => Ok(config_of(described)),
        }
    }

    /// The index is created, so there is none to contradict.
    fn contradiction(&self, _: &OrderedDescription) -> Option<Contradiction> {
        None
    }

    fn cache_budget(&self) -> usize {
        match self {
            Self::Given(RestoredStructure::BTree(options)) => options.cache_budget(),
            Self::Given(RestoredStructure::Radix(options)) => options.cache_budget(),
            Self::Given(RestoredStructure::Hashed(options)) => options.cache_budget(),
            Self::Same(described) => system_of(described).cache_bytes_default(),
        }
    }
}

fn system_of(described: &OrderedDescription) -> System {
    match described {
        OrderedDescription::Sherman(_) => System::Sherman,
        OrderedDescription::Smart(_) => System::Smart,
        OrderedDescription::Sphinx(_) => System::Sphinx,
    }
}

fn config_of(described: &OrderedDescription) -> OrderedConfig {
    match described {
        OrderedDescription::Sherman(tree) => OrderedConfig::Sherman(ShermanConfig {
            sizes: Sizes {
                key_bytes: tree.layout.key_bytes,
                value_bytes: tree.layout.value_bytes,
                node_bytes: tree.layout.slot_bytes,
            },
            values: tree.layout.values,
            options: tree.options,
            consistency: Some(tree.layout.consistency),
            kinds: tree.kinds,
        }),
        OrderedDescription::Smart(config) => OrderedConfig::Smart(*config),
        OrderedDescription::Sphinx(config) => OrderedConfig::Sphinx(*config),
    }
}
