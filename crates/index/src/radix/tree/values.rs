//! Values that are too long for their leaves: out of line, behind a link ([`overflow`]).
//!
//! A change writes the new value's extents before it looks for the key's leaf, and gives back the old ones' rooms when
//! the leaf has been written, or taken out. One that stores nothing gives back the rooms that it has filled. What
//! operations that were cut off had in their hands is lost until the index is dropped.

use super::{Policy, Tree};
use crate::error::IndexError;
use crate::marks;
use crate::memory::heap::Kind;
use crate::memory::overflow::{self, Far, Link, RawExtent, VALUE_BYTES_MAX};
use crate::memory::slot::{Room, RoomKind};
use farwood_fabric::{Client, Fabric, NodeId};
use xxhash_rust::xxh3::xxh3_64;

/// A value out of line that no leaf has yet.
pub(super) struct OutOfLine {
    pub(super) link: Link,
    pub(super) rooms: Vec<Room<RawExtent>>,
}

impl<P: Policy> Tree<P> {
    /// Stores a value out of line if it is too long for a leaf. [0 RT; 1 where it is]
    pub(super) async fn stow<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<OutOfLine>, IndexError> {
        if key.len() + value.len() <= self.options.inline_bytes {
            return Ok(None);
        }
        let nodes = u64::from(client.fabric().shape().nodes);
        let near = NodeId((xxh3_64(key) % nodes) as u16);
        let mut rooms = Vec::new();
        for length in overflow::lengths(value.len()) {
            match self.heap.allocate(client, near, overflow::room_kind(length)).await {
                Ok(room) => rooms.push(room),
                Err(error) => {
                    self.give_back(rooms);
                    return Err(error);
                }
            }
        }
        let (link, images) = overflow::lay_out(self.entry.number, value, &mut rooms);
        overflow::write_all(client, &images).await?;
        Ok(Some(OutOfLine { link, rooms }))
    }

    pub(super) fn give_back(&self, rooms: Vec<Room<RawExtent>>) {
        for room in rooms {
            self.heap.take_back(room);
        }
    }

    /// Gives back the rooms of a value that its leaf does not link any more. What cannot be given back is lost until
    /// the index is dropped; the change was made all the same. [0 RT; 1 for a value of several parts]
    pub(super) async fn unlink<F: Fabric>(&self, client: &Client<F>, replaced: Option<Link>) {
        let Some(link) = replaced else { return };
        if let Ok(rooms) = overflow::rooms_of(client, self.entry.number, link).await {
            self.give_back(rooms);
        }
    }

    /// The value behind `link`; `None`: it was replaced or removed since the link was read. [1 RT; 2 for a value of
    /// several parts]
    pub(crate) async fn far_value<F: Fabric>(
        &self,
        client: &Client<F>,
        link: Link,
    ) -> Result<Option<Far>, IndexError> {
        let found = overflow::follow(client, self.entry.number, link).await?;
        if found.is_none() {
            client.fabric().mark(marks::VALUE_MOVED);
        }
        Ok(found)
    }
}

pub(super) fn check_value(value: &[u8]) -> Result<(), IndexError> {
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(IndexError::TooLong { most: VALUE_BYTES_MAX, found: value.len() })
}

/// Rooms of extents are of a kind of their own, beside those of nodes and leaves.
const _: () = {
    const ROOM: RoomKind = RoomKind { bytes: 64, of: overflow::OF_EXTENTS };
    assert!(ROOM.of == Kind::Extent as u8 && Kind::Leaf as u8 != ROOM.of && Kind::Inner as u8 != ROOM.of);
};
