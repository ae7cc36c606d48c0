//! The table of memory nodes that were added to a pool, on memory node 0: their addresses.
//!
//! ```text
//! the memory that is reserved for the transport, 512 bytes for each number of a memory node
//! +  0   8   bytes of the address                + 8   496   the address, `host:port`, and zeros
//! +504   8   XXH3-64 of the bytes before, with the number of the memory node as seed
//! ```
//!
//! The URL with which a process opened the pool names the memory nodes of that time. A process writes the entry of a
//! memory node, and then increases the number of memory nodes at node 0 (`Control::Extend`), which is the moment of the
//! addition. Other processes ask for that number when they take memory, meet a pointer to an unknown memory node, or
//! fence a client; they read the entries of the memory nodes that they do not know.

use super::dial::{AcceptedConnection, control};
use super::endpoints::Endpoints;
use super::error::ConnectError;
use super::host_port::HostPort;
use super::transport::VerbTransport;
use crate::wire::Control;
use farwood_fabric::superblock::{TRANSPORT_BYTES, TRANSPORT_OFFSET};
use farwood_fabric::{FabricError, Memory, NodeId, Packed, Remote, u64_at};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: usize = 512;
const CHECKSUM: usize = ENTRY_BYTES - 8;
/// Bytes of the longest address.
const TEXT_BYTES_MAX: usize = CHECKSUM - 8;
/// Bytes that one control returns.
const PAGE_BYTES: usize = 32;
const PAGES: u64 = (ENTRY_BYTES / PAGE_BYTES) as u64;

/// The offset in host memory of a page of the entry of memory node `node`; `None`: there is none.
pub(crate) fn page(node: u64, page: u64) -> Option<u64> {
    let exists = node < Packed::<u64>::NODES_MAX.into() && page < PAGES;
    exists.then(|| TRANSPORT_OFFSET + node * ENTRY_BYTES as u64 + page * PAGE_BYTES as u64)
}

/// The place of an entry.
pub(super) fn entry(node: NodeId) -> Remote<[u8]> {
    let offset = TRANSPORT_OFFSET + u64::from(node.0) * ENTRY_BYTES as u64;
    let Some(at) = Remote::new(NodeId(0), Memory::Host, offset) else {
        unreachable!("the table does not begin at offset 0")
    };
    at
}

/// The entry of a memory node; `None`: the address is too long.
pub(super) fn encode(node: NodeId, address: &HostPort) -> Option<[u8; ENTRY_BYTES]> {
    let text = address.as_str().as_bytes();
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..8].copy_from_slice(&(text.len() as u64).to_le_bytes());
    bytes[8..CHECKSUM].get_mut(..text.len())?.copy_from_slice(text);
    let checksum = xxh3_64_with_seed(&bytes[..CHECKSUM], node.0.into());
    bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
    Some(bytes)
}

/// The address in an entry, or the reason why there is none.
fn decode(node: NodeId, bytes: &[u8]) -> Result<HostPort, String> {
    let damaged =
        || format!("the address of memory node {node} in its table of added memory nodes is damaged");
    let is_intact = u64_at(bytes, CHECKSUM) == xxh3_64_with_seed(&bytes[..CHECKSUM], node.0.into());
    let length =
        usize::try_from(u64_at(bytes, 0)).ok().filter(|length| is_intact && *length <= TEXT_BYTES_MAX);
    let text = length.and_then(|length| std::str::from_utf8(&bytes[8..8 + length]).ok());
    text.and_then(|text| text.parse().ok()).ok_or_else(damaged)
}

fn append(bytes: &mut Vec<u8>, words: [u64; 4]) {
    bytes.extend(words.into_iter().flat_map(u64::to_ne_bytes));
}

/// Reads the address of a memory node over a connection without an identity; `None`: it was not added, but is one of
/// the first. [16 RT]
pub(super) fn address_of(
    first: &mut AcceptedConnection,
    node: NodeId,
) -> Result<Option<HostPort>, ConnectError> {
    let mut bytes = Vec::new();
    for page in 0..PAGES {
        let words = [node.0.into(), page, 0, 0];
        append(&mut bytes, control(&mut first.stream, Control::NodeAddress, words)?);
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    decode(node, &bytes).map(Some).map_err(ConnectError::Lost)
}

/// Adds the memory nodes to `endpoints` that the pool has and this process does not know. [1 RT, 16 more for each]
pub(super) async fn find<W: VerbTransport>(
    connections: &W,
    endpoints: &Endpoints,
) -> Result<(), FabricError> {
    if endpoints.is_snapshot() {
        // It has the memory nodes of its cut.
        return Ok(());
    }
    let [nodes, ..] = connections.control(NodeId(0), Control::CountNodes, [0; 4]).await?;
    for node in u64::from(endpoints.shape().nodes)..nodes {
        let node = NodeId(u16::try_from(node).unwrap_or(u16::MAX));
        let mut bytes = Vec::new();
        for page in 0..PAGES {
            let words = [node.0.into(), page, 0, 0];
            append(&mut bytes, connections.control(NodeId(0), Control::NodeAddress, words).await?);
        }
        let damaged = |what| FabricError::Damaged { node: NodeId(0), what };
        endpoints.add(node, decode(node, &bytes).map_err(damaged)?);
    }
    Ok(())
}

const _: () = assert!(Packed::<u64>::NODES_MAX as u64 * ENTRY_BYTES as u64 <= TRANSPORT_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_back_and_damage_is_refused() {
        let address: HostPort = "[fe80::1]:7470".parse().unwrap();
        let bytes = encode(NodeId(3), &address).unwrap();
        assert_eq!(decode(NodeId(3), &bytes), Ok(address));
        assert!(decode(NodeId(4), &bytes).is_err());
        for at in 0..ENTRY_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert!(decode(NodeId(3), &damaged).is_err(), "{at}");
        }
        assert!(decode(NodeId(3), &[0; ENTRY_BYTES]).is_err());
    }

    #[test]
    fn pages_lie_in_the_table() {
        assert_eq!(page(0, 0), Some(TRANSPORT_OFFSET));
        assert_eq!(page(1, 15), Some(TRANSPORT_OFFSET + 1024 - 32));
        assert_eq!([page(0, 16), page(256, 0), page(u64::MAX, 0)], [None; 3]);
    }
}
