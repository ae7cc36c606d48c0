//! The chunks that hold the objects of an index, compared with the chunk table of the pool.
//!
//! The table must say that the index owns them: a client would take a chunk that has no owner, and overwrite it.

use crate::error::IndexError;
use farwood_fabric::chunks::{CHUNK_BYTES, Chunk, audit};
use farwood_fabric::{Client, Fabric, Memory, NodeId, Remote};
use std::collections::BTreeSet;

/// The chunks in which a verification found objects of an index.
#[derive(Debug, Default)]
pub struct ReachedChunks(BTreeSet<(u16, u64)>);

impl ReachedChunks {
    /// Notes an object of the index.
    pub(crate) fn add<T: ?Sized>(&mut self, object: Remote<T>) {
        let address = object.address();
        if address.memory() == Memory::Host {
            self.0.insert((address.node().0, address.offset() / CHUNK_BYTES));
        }
    }

    /// Returns the damaged words of the pool's chunk tables, and the noted chunks that the tables do not give to the
    /// index at directory entry `entry`: for each a location and a description. [2 RT per memory node, and 1 per 128
    /// chunks]
    pub(crate) async fn problems<F: Fabric>(
        &self,
        client: &Client<F>,
        entry: u8,
    ) -> Result<Vec<(String, String)>, IndexError> {
        let mut problems = Vec::new();
        client.fabric().find_added_nodes().await?;
        for node in (0..client.fabric().shape().nodes).map(NodeId) {
            let audit = audit(client, node, entry).await?;
            problems.extend(audit.damage.into_iter().map(|what| (format!("memory node {node}"), what)));
            for &(_, number) in self.0.range((node.0, 0)..=(node.0, u64::MAX)) {
                let chunk = Chunk { node, number };
                if !audit.of_entry.contains(&chunk) {
                    let what =
                        "the chunk table does not give this chunk to the index, which has objects in it";
                    problems.push((format!("{node}:{:#x}", number * CHUNK_BYTES), what.to_owned()));
                }
            }
        }
        Ok(problems)
    }
}
