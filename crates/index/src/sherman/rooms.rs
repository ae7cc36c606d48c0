//! Emptied rooms that the compute nodes give each other: lists in the pool, each in an emptied room itself.
//!
//! ```text
//! a list is an inner node that is marked as freed, so that a stale pointer to it harms nobody
//! sibling          the next list; the directory entry points to the first
//! leftmost child   the list itself
//! child            a room; its separator: its version (4 bytes), its size (3 bytes), its kind (1 byte), and zeros
//! ```
//!
//! A list is put in front of the others by CAS. All of them are taken at once, by a CAS that leaves 0: who has taken
//! them owns them, and no list that is pointed at ever changes. So it does not matter whether the pointer was
//! something else in between.

use super::Sherman;
use super::node::{Fences, Freed, Node, RawNode};
use crate::error::IndexError;
use crate::marks;
use crate::memory::free_list::Give;
use crate::memory::slot::{Room, RoomKind};
use farwood_fabric::{Client, Fabric, Remote, Swapped, cas, read, write};
use std::ops::Deref;

/// Lists that are taken over at once, at most.
const LISTS_MAX: u32 = 1 << 20;
/// Attempts to put a list in front of the others.
const TRIES_MAX: u32 = 1000;

impl Sherman {
    /// A room of that kind. [0 RT; before a chunk is taken, 1 to see whether others have given rooms, and as in
    /// [`Allocator::allocate`](crate::memory::chunks::Allocator::allocate)]
    pub(super) async fn allocate<F: Fabric>(
        &self,
        client: &Client<F>,
        kind: RoomKind,
    ) -> Result<Room<()>, IndexError> {
        if !self.allocator.is_dry(kind) || !self.receive_rooms(client).await? {
            return self.allocator.allocate(client, kind).await;
        }
        // What came is for this room first, and only then for others.
        let room = self.allocator.allocate(client, kind).await?;
        if let Err(error) = self.share_rooms(client).await {
            self.allocator.take_back(room);
            return Err(error);
        }
        Ok(room)
    }

    /// A room for a new node. [as [`allocate`](Self::allocate)]
    pub(super) async fn node_room<F: Fabric>(&self, client: &Client<F>) -> Result<Room<RawNode>, IndexError> {
        Ok(self.allocate(client, self.layout.room_kind()).await?.cast())
    }

    /// A room for a new node, in which nothing that was linked ever lay. [0 RT; as
    /// [`Allocator::allocate`](crate::memory::chunks::Allocator::allocate)]
    pub(super) async fn new_node_room<F: Fabric>(
        &self,
        client: &Client<F>,
    ) -> Result<Room<RawNode>, IndexError> {
        self.allocator.allocate_new(client, self.layout.room_kind()).await
    }

    /// The room of a node that was taken out of the tree.
    pub(super) fn emptied(&self, at: Remote<RawNode>, version: u32) -> Room<RawNode> {
        Room { at, version: Some(version), kind: self.layout.room_kind() }
    }

    /// Lists rooms for all where this compute node has many. [3 RT for each list]
    pub(super) async fn share_rooms<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        self.give_rooms(client, Give::Surplus).await
    }

    /// Lists rooms for all.
    pub(super) async fn give_rooms<F: Fabric>(
        &self,
        client: &Client<F>,
        give: Give,
    ) -> Result<(), IndexError> {
        loop {
            let mut rooms = self.allocator.give(give, self.layout.inner_capacity);
            if rooms.is_empty() {
                return Ok(());
            }
            // Lists lie in rooms of nodes.
            let of_nodes = self.layout.room_kind();
            let place = match rooms.iter().rposition(|room| room.kind == of_nodes) {
                Some(place) => rooms.swap_remove(place),
                None => match self.allocator.allocate(client, of_nodes).await {
                    Ok(place) => {
                        self.allocator.give_away();
                        place
                    }
                    Err(error) => {
                        self.allocator.receive(rooms);
                        return Err(error);
                    }
                },
            };
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
            separator[4..7].copy_from_slice(&room.kind.bytes.to_le_bytes()[..3]);
            separator[7] = room.kind.of;
            list.push_child(&separator, room.at.part(0));
        }
        list.set_freed(Freed::Yes);
        list
    }

    /// Takes all rooms that others have listed; whether there were any. [1 RT; 1 more and 1 for each list]
    async fn receive_rooms<F: Fabric>(&self, client: &Client<F>) -> Result<bool, IndexError> {
        let first = self.first_list(client).await?;
        if first == 0 || client.post(cas(self.entry.rooms(), first, 0)).await? != Swapped::Won {
            return Ok(false);
        }
        client.fabric().mark(marks::ROOMS_RECEIVED);
        let mut next = Remote::from_word(first);
        for _ in 0..LISTS_MAX {
            let Some(at) = next else { return Ok(true) };
            let list = self.read_node(client, at, "split").await?;
            self.allocator.receive(listed(&list));
            self.allocator.receive([self.emptied(at, list.version()).cast()]);
            next = list.sibling();
        }
        Err(IndexError::Exhausted { operation: "split", tries: LISTS_MAX })
    }

    /// How many emptied rooms are listed, the lists' own included. [1 RT, and 1 for each list]
    pub(super) async fn rooms_listed<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        let mut next = Remote::from_word(self.first_list(client).await?);
        let mut rooms = 0;
        for _ in 0..LISTS_MAX {
            let Some(at) = next else { return Ok(rooms) };
            let list = self.read_node(client, at, "check").await?;
            rooms += 1 + list.count() as u64;
            next = list.sibling();
        }
        Err(IndexError::Exhausted { operation: "check", tries: LISTS_MAX })
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
        let number_at = |at: usize| u32::from_le_bytes(separator[at..at + 4].try_into().expect("four bytes"));
        let kind = RoomKind { bytes: number_at(4) & 0xFF_FFFF, of: separator[7] };
        Room { at: list.child(number + 1).part(0), version: Some(number_at(0)), kind }
    })
}
