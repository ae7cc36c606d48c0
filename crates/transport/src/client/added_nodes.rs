//! The table of memory nodes that were added to a pool, on memory node 0: their addresses.
//!
//! ```text
//! the memory that is reserved for the transport, 512 bytes for each number of a memory node
//! +  0   8   bytes of the address       + 8   8   XXH3-64 of the address, with the number of the memory node as seed
//! + 16 496   the address, `host:port`, and zeros
//! ```
//!
//! The URL with which a process opened the pool names the memory nodes of that time. A process writes the entry of a
//! memory node, and then increases the number of memory nodes at node 0 (`Control::Extend`), which is the moment of the
//! addition. Other processes ask for that number when they take memory, meet a pointer to an unknown memory node, or
//! fence a client; they read the entries of the memory nodes that they do not know.

use super::dial::{AcceptedConnection, control};
use super::endpoints::Endpoints;
use super::error::ConnectError;
use super::host_port::{ADDRESS_BYTES_MAX, HostPort};
use super::transport::VerbTransport;
use crate::wire::Control;
use farwood_fabric::superblock::{TRANSPORT_BYTES, TRANSPORT_OFFSET};
use farwood_fabric::{FabricError, Memory, NodeId, Packed, Remote, u64_at};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: usize = 512;
/// The offset of the address in an entry.
const TEXT: usize = 16;
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

/// The entry of a memory node.
pub(super) fn encode(node: NodeId, address: &HostPort) -> [u8; ENTRY_BYTES] {
    let text = address.as_str().as_bytes();
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..8].copy_from_slice(&(text.len() as u64).to_le_bytes());
    bytes[8..TEXT].copy_from_slice(&xxh3_64_with_seed(text, node.0.into()).to_le_bytes());
    bytes[TEXT..TEXT + text.len()].copy_from_slice(text);
    bytes
}

/// The number of pages that contain the entry with this first page; `None`: its length is impossible.
fn pages_of(first: &[u64; 4]) -> Option<u64> {
    let text_bytes = usize::try_from(u64::from_le(first[0])).ok()?;
    let bytes = text_bytes.checked_add(TEXT).filter(|bytes| *bytes <= ENTRY_BYTES)?;
    Some(bytes.div_ceil(PAGE_BYTES) as u64)
}

/// The address in the pages of an entry.
fn decode(node: NodeId, pages: &[[u64; 4]]) -> Option<HostPort> {
    let bytes: Vec<u8> = pages.iter().flatten().flat_map(|word| word.to_ne_bytes()).collect();
    let text = bytes.get(TEXT..)?.get(..usize::try_from(u64_at(&bytes, 0)).ok()?)?;
    let is_intact = u64_at(&bytes, 8) == xxh3_64_with_seed(text, node.0.into());
    std::str::from_utf8(text).ok().filter(|_| is_intact)?.parse().ok()
}

fn damaged(node: NodeId) -> String {
    format!("the address of memory node {node} in its table of added memory nodes is damaged")
}

/// Reads the address of a memory node over a connection without an identity; `None`: it was not added, but is one of
/// the first. [1 RT per 32 bytes]
pub(super) fn address_of(
    first: &mut AcceptedConnection,
    node: NodeId,
) -> Result<Option<HostPort>, ConnectError> {
    let mut page = |number| control(&mut first.stream, Control::NodeAddress, [node.0.into(), number, 0, 0]);
    let mut pages = vec![page(0)?];
    if pages[0] == [0; 4] {
        return Ok(None);
    }
    let damaged = || ConnectError::Lost(damaged(node));
    for number in 1..pages_of(&pages[0]).ok_or_else(damaged)? {
        pages.push(page(number)?);
    }
    decode(node, &pages).map(Some).ok_or_else(damaged)
}

/// As [`address_of`], over the connections of a client.
async fn read_address<W: VerbTransport>(connections: &W, node: NodeId) -> Result<HostPort, FabricError> {
    let page = |number| connections.control(NodeId(0), Control::NodeAddress, [node.0.into(), number, 0, 0]);
    let damaged = || FabricError::Damaged { node: NodeId(0), what: damaged(node) };
    let mut pages = vec![page(0).await?];
    for number in 1..pages_of(&pages[0]).ok_or_else(damaged)? {
        pages.push(page(number).await?);
    }
    decode(node, &pages).ok_or_else(damaged)
}

/// Adds the memory nodes to `endpoints` that the pool has and this process does not know. [1 RT, and 1 per 32 bytes of
/// the address of each]
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
        endpoints.add(node, read_address(connections, node).await?);
    }
    Ok(())
}

const _: () = assert!(Packed::<u64>::NODES_MAX as u64 * ENTRY_BYTES as u64 <= TRANSPORT_BYTES);
const _: () = assert!(TEXT + ADDRESS_BYTES_MAX <= ENTRY_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(bytes: &[u8]) -> Vec<[u64; 4]> {
        let page =
            |page: &[u8]| [0, 8, 16, 24].map(|at| u64::from_ne_bytes(page[at..at + 8].try_into().unwrap()));
        bytes.chunks(PAGE_BYTES).map(page).collect()
    }

    #[test]
    fn an_address_is_read_back_and_damage_is_refused() {
        let address: HostPort = "[fe80::1:2:3:4]:7470".parse().unwrap();
        let bytes = encode(NodeId(3), &address);
        let needed = pages_of(&pages(&bytes)[0]).unwrap() as usize;
        let read = |node, bytes: &[u8]| decode(NodeId(node), &pages(bytes)[..needed]);
        assert_eq!((needed, read(3, &bytes)), (2, Some(address.clone())));
        assert_eq!(read(4, &bytes), None);
        for at in 0..TEXT + address.as_str().len() {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert_eq!(read(3, &damaged), None, "{at}");
        }
        assert_eq!(decode(NodeId(3), &[[0; 4]]), None);
        for length in [497, u64::MAX] {
            assert_eq!(pages_of(&[length.to_le(), 0, 0, 0]), None);
        }
    }

    #[test]
    fn the_longest_address_fits() {
        let address: HostPort = format!("{}:65535", "h".repeat(253)).parse().unwrap();
        assert_eq!(decode(NodeId(255), &pages(&encode(NodeId(255), &address))), Some(address));
    }

    #[test]
    fn pages_lie_in_the_table() {
        assert_eq!(page(0, 0), Some(TRANSPORT_OFFSET));
        assert_eq!(page(1, 15), Some(TRANSPORT_OFFSET + 1024 - 32));
        assert_eq!([page(0, 16), page(256, 0), page(u64::MAX, 0)], [None; 3]);
    }
}
