//! The options of a spatial index.

use farwood_fabric::NodeId;
use farwood_index::IndexError;
use farwood_index::catfish::{CatfishConfig, CoordinateSystem, IdKind};

/// An R*-tree (Catfish): rectangles, or records with ids, rectangles, geometries and attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct RTree {
    config: CatfishConfig,
    node_bytes: Option<usize>,
}

impl RTree {
    /// The default options: rectangles with numbers that may repeat, nodes of up to 42 entries on memory node 0, and
    /// coordinates that are not stated.
    pub fn new() -> Self {
        Self::default()
    }

    /// The preset of the paper's Catfish, which is the default.
    pub fn catfish() -> Self {
        Self::new()
    }

    /// The options of an index that exists.
    #[cfg(feature = "backup")]
    pub(crate) fn of(config: CatfishConfig) -> Self {
        Self { config, node_bytes: None }
    }

    /// Sets the ids, and thereby whether the index has records. The default is [`IdKind::Repeated`]: rectangles only.
    pub fn ids(mut self, ids: IdKind) -> Self {
        self.config.ids = ids;
        self
    }

    /// Sets the meaning of the coordinates. The default is [`CoordinateSystem::Unstated`].
    pub fn coordinates(mut self, coordinates: CoordinateSystem) -> Self {
        self.config.coordinates = coordinates;
        self
    }

    /// Sets the largest size of a node, 384 to 20,544 bytes; at least 1,664 bytes for unique ids. The default is
    /// 1,984 bytes, which hold 42 entries.
    pub fn node_bytes(mut self, bytes: usize) -> Self {
        self.node_bytes = Some(bytes);
        self
    }

    /// Sets the memory node of the tree, whose server may change it. The default is memory node 0.
    pub fn memory_node(mut self, number: u16) -> Self {
        self.config.node = NodeId(number);
        self
    }

    /// Sets the bytes of a ring of messages, in one direction. A payload has at most a quarter of them, less 512 bytes.
    pub fn ring_bytes(mut self, bytes: u64) -> Self {
        self.config.ring_bytes = bytes;
        self
    }

    /// The configuration, or the reason why there is none.
    pub(crate) fn config(&self) -> Result<CatfishConfig, IndexError> {
        let config = match self.node_bytes {
            Some(bytes) => self.config.with_node_bytes(bytes)?,
            None => self.config,
        };
        config.check().map(|()| config)
    }
}
