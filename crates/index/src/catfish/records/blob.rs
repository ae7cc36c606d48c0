//! Blobs: payloads that do not fit into a page, in nodes of their own.
//!
//! ```text
//! node of level 0: bytes of the payload; of level 1 or more: references to nodes of the level below, 8 bytes each
//! head and lines as those of a page (`page.rs`), but bit 62 of the number of the index is set, and the count is 1
//! ```
//!
//! All nodes but the last of each level are full, so the number of bytes determines the levels and the nodes of each.

use super::super::tree::layout::{Layout, NodeRef};
use super::page::{blobs_layout, body_image, body_of, page_bytes};

/// Bytes of a reference.
const REFERENCE_BYTES: usize = 8;

/// References that a node holds.
fn references_max(layout: &Layout) -> usize {
    page_bytes(layout) / REFERENCE_BYTES
}

/// The number of nodes of each level of a blob of `bytes` bytes, from level 0 on. The last number is 1.
pub(in crate::catfish) fn nodes_of_levels(layout: &Layout, bytes: usize) -> Vec<usize> {
    let mut counts = vec![bytes.div_ceil(page_bytes(layout)).max(1)];
    while let Some(&last) = counts.last()
        && last > 1
    {
        counts.push(last.div_ceil(references_max(layout)));
    }
    counts
}

/// The words of a node of a blob.
pub(super) fn blob_image(layout: &Layout, at: NodeRef, level: u8, body: &[u8]) -> Vec<u64> {
    body_image(&blobs_layout(layout), at, (level, 1), body)
}

/// Divides a payload into the bodies of the nodes of level 0.
pub(super) fn parts<'p>(layout: &Layout, payload: &'p [u8]) -> impl Iterator<Item = &'p [u8]> {
    payload.chunks(page_bytes(layout))
}

/// Divides the references to nodes of a level among the nodes of the level above.
pub(super) fn groups<'r>(layout: &Layout, references: &'r [u64]) -> impl Iterator<Item = &'r [u64]> {
    references.chunks(references_max(layout))
}

/// A traversal of a blob, level by level from the root.
#[derive(Debug)]
pub(in crate::catfish) struct BlobWalk {
    /// The nodes of each level that is left, from level 0 on.
    counts: Vec<usize>,
    wanted: Vec<NodeRef>,
    payload: Vec<u8>,
    bytes: usize,
}

impl BlobWalk {
    /// A traversal of the blob of `bytes` bytes whose root `root` names.
    ///
    /// # Errors
    /// Describes the damage.
    pub(in crate::catfish) fn new(layout: &Layout, root: u64, bytes: u32) -> Result<Self, String> {
        let root = NodeRef::from_word(root).ok_or_else(|| format!("its payload is at {root:#x}"))?;
        let bytes = bytes as usize;
        Ok(Self { counts: nodes_of_levels(layout, bytes), wanted: vec![root], payload: Vec::new(), bytes })
    }

    /// The nodes to read next, all of them of one level; none at the end.
    pub(in crate::catfish) fn wanted(&self) -> &[NodeRef] {
        &self.wanted
    }

    /// The level of the wanted nodes.
    pub(in crate::catfish) fn level(&self) -> u8 {
        // A payload has fewer levels than its length has bits.
        self.counts.len().saturating_sub(1) as u8
    }

    /// Checks the number of wanted nodes.
    ///
    /// # Errors
    /// Describes the damage.
    pub(in crate::catfish) fn check_level(&self) -> Result<(), String> {
        let (count, found) = (self.counts.last().copied().unwrap_or_default(), self.wanted.len());
        (count == found)
            .then_some(())
            .ok_or_else(|| format!("a level of its payload has {found} nodes, not {count}"))
    }

    /// Adds the wanted nodes, in their order.
    ///
    /// # Errors
    /// Describes the damage.
    pub(in crate::catfish) fn add<'n>(
        &mut self,
        nodes: impl Iterator<Item = &'n [u8]>,
    ) -> Result<(), String> {
        self.check_level()?;
        self.counts.pop();
        self.wanted.clear();
        for node in nodes {
            let body = body_of(node).ok_or("it states more bytes than a node holds")?;
            if self.counts.is_empty() {
                self.payload.extend(body);
            } else {
                self.wanted.extend(references_in(&body).ok_or("it has bytes that are not references")?);
            }
        }
        Ok(())
    }

    /// The payload, after the last level.
    ///
    /// # Errors
    /// Describes the damage.
    pub(in crate::catfish) fn payload(self) -> Result<Vec<u8>, String> {
        let (found, bytes) = (self.payload.len(), self.bytes);
        (found == bytes)
            .then_some(self.payload)
            .ok_or_else(|| format!("its payload has {found} bytes, not {bytes}"))
    }
}

fn references_in(body: &[u8]) -> Option<Vec<NodeRef>> {
    let (words, rest) = body.as_chunks::<REFERENCE_BYTES>();
    let references = words.iter().map(|word| NodeRef::from_word(u64::from_le_bytes(*word)));
    references.collect::<Option<_>>().filter(|_| rest.is_empty())
}
