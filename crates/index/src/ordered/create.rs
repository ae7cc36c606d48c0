//! Creates and opens an index of any system, and reads its directory entry.

use super::{Ordered, System};
use crate::error::IndexError;
use crate::lifecycle;
use crate::params::kind_name;
use crate::sherman::{self, Sherman};
use crate::smart::{self, Smart};
use crate::sphinx::{self, Sphinx};
use farwood_fabric::directory::Entry;
use farwood_fabric::{Client, Fabric};

/// The configuration of an index of any system.
#[derive(Clone, Copy, Debug)]
pub enum OrderedConfig {
    /// A [`Sherman`].
    Sherman(sherman::ShermanConfig),
    /// A [`Smart`].
    Smart(smart::SmartConfig),
    /// A [`Sphinx`].
    Sphinx(sphinx::SphinxConfig),
}

impl OrderedConfig {
    /// Checks the sizes, as [`Ordered::create`] does, without a pool.
    ///
    /// # Errors
    /// [`IndexError::BadSizes`].
    pub fn check(&self) -> Result<(), IndexError> {
        match self {
            Self::Sherman(config) => config.check(),
            // Radix trees have objects of fixed sizes.
            Self::Smart(_) | Self::Sphinx(_) => Ok(()),
        }
    }

    /// The system.
    pub fn system(&self) -> System {
        match self {
            Self::Sherman(_) => System::Sherman,
            Self::Smart(_) => System::Smart,
            Self::Sphinx(_) => System::Sphinx,
        }
    }
}

/// The directory entry of an index of any system, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderedDescription {
    /// A [`Sherman`].
    Sherman(sherman::ShermanDescription),
    /// A [`Smart`].
    Smart(smart::SmartConfig),
    /// A [`Sphinx`].
    Sphinx(sphinx::SphinxConfig),
}

impl Ordered {
    /// Creates the index `name` and opens it with a cache of `cache_bytes`.
    ///
    /// # Errors
    /// [`IndexError::IndexExists`], [`IndexError::BadName`], [`IndexError::BadSizes`], [`IndexError::Unsafe`]; a full
    /// pool or directory.
    pub async fn create<F: Fabric>(
        client: &Client<F>,
        name: &str,
        config: OrderedConfig,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        Ok(match config {
            OrderedConfig::Sherman(config) => {
                Self::Sherman(Box::new(Sherman::create(client, name, config, cache_bytes).await?))
            }
            OrderedConfig::Smart(config) => {
                Self::Smart(Box::new(Smart::create(client, name, config, cache_bytes).await?))
            }
            OrderedConfig::Sphinx(config) => {
                Self::Sphinx(Box::new(Sphinx::create(client, name, config, cache_bytes).await?))
            }
        })
    }

    /// Opens the index `name` of any system, with a cache of `cache_bytes`; `None`: the default size.
    ///
    /// # Errors
    /// [`IndexError::NoSuchIndex`], [`IndexError::WrongFormat`], [`IndexError::Unsafe`].
    pub async fn open<F: Fabric>(
        client: &Client<F>,
        name: &str,
        cache_bytes: impl Into<Option<usize>>,
    ) -> Result<Self, IndexError> {
        let entry = lifecycle::find(client, name).await?;
        let system = system_of(&entry)?;
        let cache_bytes = cache_bytes.into().unwrap_or(system.cache_bytes_default());
        Ok(match system {
            System::Sherman => Self::Sherman(Box::new(Sherman::assemble(client, entry, cache_bytes).await?)),
            System::Smart => Self::Smart(Box::new(Smart::assemble(client, entry, cache_bytes).await?)),
            System::Sphinx => Self::Sphinx(Box::new(Sphinx::assemble(client, entry, cache_bytes).await?)),
        })
    }
}

/// Decodes the directory entry of an ordered index. [0 RT]
///
/// # Errors
/// [`IndexError::WrongFormat`] if the entry does not describe an ordered index of this version.
pub fn describe(entry: &Entry) -> Result<OrderedDescription, IndexError> {
    Ok(match system_of(entry)? {
        System::Sherman => OrderedDescription::Sherman(sherman::describe(entry)?),
        System::Smart => OrderedDescription::Smart(smart::describe(entry)?),
        System::Sphinx => OrderedDescription::Sphinx(sphinx::describe(entry)?),
    })
}

fn system_of(entry: &Entry) -> Result<System, IndexError> {
    System::ALL.into_iter().find(|system| system.kind() == entry.kind).ok_or_else(|| {
        let kind = kind_name(entry.kind);
        IndexError::WrongFormat(format!("index '{}': it is {kind}, and has no keys", entry.name))
    })
}
