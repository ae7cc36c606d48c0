//! Emptied rooms that the compute nodes give each other: lists in the pool, each in an emptied room itself.
//!
//! ```text
//! a list is an inner node that is marked as freed, so that a stale pointer to it harms nobody
//! sibling          the next list; the directory entry points to the first
//! leftmost child   the list itself
//! child            a room; its separator: the 4 bytes of its version, and zeros
//! ```
//!
//! A list is put in front of the others by CAS. All of them are taken at once, by a CAS that leaves 0: who has taken
//! them owns them, and no list that is pointed at ever changes. So it does not matter whether the pointer was
//! something else in between.

use super::Sherman;
use super::node::{Fences, Freed, Node, RawNode};
use crate::error::IndexError;
use crate::marks;
use crate::reclaim::Room;
use farwood_fabric::{Client, Fabric, Remote, Swapped, cas, read, write};
use std::ops::Deref;

/// Rooms that a compute node keeps; those above it are for all.
const KEPT_MAX: usize = 256;
/// Lists that are taken over at once, at most.
const LISTS_MAX: u32 = 1 << 20;
/// Attempts to put a list in front of the others.
const TRIES_MAX: u32 = 1000;

impl Sherman {
    /// A room for a new node. [0 RT; before a chunk is taken, 1 to see whether others have given rooms, and as in
    /// [`Allocator::allocate`](crate::alloc::Allocator::allocate)]
    pub(super) async fn allocate<F: Fabric>(&self, client: &Client<F>) -> Result<Room<RawNode>, IndexError> {
        if self.allocator.is_dry() {
            self.receive_rooms(client).await?;
        }
        self.allocator.allocate(client).await
    }

    /// Lists rooms for all where this compute node has many. [3 RT for each list]
    pub(super) async fn share_rooms<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        self.give_rooms(client, KEPT_MAX).await
    }

    /// Lists all rooms but `keep` for all.
    pub(super) async fn give_rooms<F: Fabric>(
        &self,
        client: &Client<F>,
        keep: usize,
    ) -> Result<(), IndexError> {
        loop {
            let mut rooms = self.allocator.give(keep, self.layout.inner_capacity + 1);
            let Some(place) = rooms.pop() else { return Ok(()) };
            self.give_list(client, place.cast(), &rooms).await?;
        }
    }

    /// Lists `rooms` in the room `place`. [3 RT]
    async fn give_list<F: Fabric>(
        &self,
        client: &Client<F>,
        place: Room<RawNode>,
        rooms: &[Room<()>],
    ) -> Result<(), IndexError> {
        client.fabric().mark(marks::ROOMS_GIVEN);
        let mut place = place;
        for _ in 0..TRIES_MAX {
            let first = self.first_list(client).await?;
            let mut list = self.list(&place, rooms, Remote::from_word(first));
            client.post(write(place.at, &list.seal_in(&place))).await?;
            if client.post(cas(self.entry.rooms(), first, place.at.word())).await? == Swapped::Won {
                return Ok(());
            }
            place.version = Some(list.version());
        }
        Err(IndexError::Exhausted { operation: "leave", tries: TRIES_MAX })
    }

    /// The node that lists `rooms` and lies in `place`.
    fn list(
        &self,
        place: &Room<RawNode>,
        rooms: &[Room<()>],
        next: Option<Remote<RawNode>>,
    ) -> Node<'_, Vec<u8>> {
        let lowest = vec![0; self.layout.key_bytes];
        let mut list = Node::empty(&self.layout, 1, Fences { lower: &lowest, upper: None }, next);
        list.set_leftmost(place.at);
        for room in rooms {
            let mut separator = lowest.clone();
            let version = room.version.expect("only rooms are given in which something lay");
            separator[..4].copy_from_slice(&version.to_le_bytes());
            list.push_child(&separator, room.at.part(0));
        }
        list.set_freed(Freed::Yes);
        list
    }

    /// Takes all rooms that others have listed. [1 RT; 1 more and 1 for each list]
    async fn receive_rooms<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        let first = self.first_list(client).await?;
        if first == 0 || client.post(cas(self.entry.rooms(), first, 0)).await? != Swapped::Won {
            return Ok(());
        }
        client.fabric().mark(marks::ROOMS_RECEIVED);
        let mut next = Remote::from_word(first);
        for _ in 0..LISTS_MAX {
            let Some(at) = next else { return self.share_rooms(client).await };
            let list = self.read_node(client, at, "split").await?;
            self.allocator.receive(listed(&list));
            self.allocator.receive([Room { at: at.part(0), version: Some(list.version()) }]);
            next = list.sibling();
        }
        Err(IndexError::Exhausted { operation: "split", tries: LISTS_MAX })
    }

    /// The word of the pointer to the first list; 0: there is none. [1 RT]
    async fn first_list<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        let Ok(first) = client.post(read(self.entry.rooms())).await?.check(&()) else {
            unreachable!("words are whole")
        };
        Ok(first.word())
    }
}

/// The rooms of a list.
fn listed<B: Deref<Target = [u8]>>(list: &Node<'_, B>) -> impl Iterator<Item = Room<()>> {
    (0..list.count()).map(|number| {
        let separator = list.separator(number);
        let version = u32::from_le_bytes(separator[..4].try_into().expect("four bytes"));
        Room { at: list.child(number + 1).part(0), version: Some(version) }
    })
}
