//! A memory node without threads and connections, for tests of its log.

use super::log::Origin;
use super::spec::NodeSpec;
use super::store::{FrameRecord, Store, WriteFence};
use crate::error::TcpError;
use crate::wire::{Code, Formation, WireVerb};
use farwood_fabric::PoolShape;

/// The memory of a stopped memory node, as its start restores it from its files. The caller executes verbs in it; it
/// syncs no change.
#[derive(Debug)]
pub(crate) struct RestoredNode(Store);

impl RestoredNode {
    /// Restores the memory. The files are in use until it is dropped, as after a start.
    ///
    /// # Errors
    /// As [`MemoryNode::start`](super::MemoryNode::start).
    ///
    /// # Panics
    /// If there is no file.
    pub(crate) fn restore(spec: &NodeSpec) -> Result<Self, TcpError> {
        let sizes = spec.sizes().map_err(TcpError::BadShape)?;
        Store::in_file(spec.file.as_ref().expect("the memory node has a file"), sizes).map(Self)
    }

    /// The pool, as this memory node knows it, and its own state in it.
    pub(crate) fn pool(&self) -> (PoolShape, Formation) {
        let (store, is) = (&self.0, self.0.membership());
        let (host_bytes, device_bytes) = (store.host_bytes(), store.device_bytes());
        (PoolShape { pool: is.pool, nodes: is.nodes, host_bytes, device_bytes }, is.formed)
    }

    /// The oldest and the newest cut to which it can return, and the cut of its last return.
    pub(crate) fn cuts(&self) -> Result<[u64; 3], String> {
        let span = self.0.cut_span()?;
        Ok([span.oldest, span.newest, self.0.returned_cut()])
    }

    /// Returns to `cut`; later cuts have higher numbers than `number`.
    pub(crate) fn return_to(&self, cut: u64, number: u64) -> Result<(), String> {
        self.0.prepare_return([cut, number], self.0.incarnation())?;
        self.0.return_to_cut(cut, number)
    }

    /// Records that all memory nodes of the pool have returned.
    pub(crate) fn finish_return(&self) -> Result<(), String> {
        self.0.finish_forming()
    }

    /// Executes one verb as the frame of a client, and appends its answer to `out`.
    pub(crate) fn execute(&self, verb: &WireVerb<'_>, out: &mut Vec<u64>) -> Result<(), Code> {
        let mut record = FrameRecord::default();
        let done = self.0.execute(verb, &mut WriteFence::default(), &mut record, out);
        record.end(Origin { client: None, connection: 0, tag: 0 });
        done
    }
}
