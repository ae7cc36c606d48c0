//! Values of any length, in entries of one size: short ones in the entry, others out of line
//! ([`overflow`](crate::memory::overflow)).
//!
//! ```text
//! what an entry has for a value in a tree whose values have any length; V bytes, little endian
//! +  0   4      length of the value
//! +  4   V-4    the value, and zeros behind it, if it has at most V-4 bytes; if it has more:
//! +  4   4      version of its extent
//! +  8   8      remote pointer to its extent
//! ```
//!
//! An update writes the new value's extent before it takes the leaf's lock, and gives back the old one's room when the
//! entry has been written. One that finds nothing to update gives back the room that it has filled.

use super::Sherman;
use super::layout::{Layout, VALUE_SLOT_BYTES, Values};
use super::leaf::Change;
use crate::error::IndexError;
use crate::marks;
use crate::memory::overflow::{self, Link, RawExtent, VALUE_BYTES_MAX};
use crate::memory::slot::Room;
use crate::sabotage::Sabotage;
use farwood_fabric::{Client, Fabric, Remote, Words, read_bytes};
use std::ops::Range;

/// Bytes in front of a value in its entry.
const LENGTH_BYTES: usize = 4;
const VERSION: usize = 4;
const POINTER: usize = 8;

/// What an entry has for a value, on its way there.
pub(super) struct Slot {
    bytes: [u8; VALUE_SLOT_BYTES.end - 1],
    length: usize,
}

impl Slot {
    fn new(layout: &Layout, length: usize) -> Self {
        let mut slot = Self { bytes: [0; VALUE_SLOT_BYTES.end - 1], length: layout.value_bytes };
        slot.bytes[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
        slot
    }

    fn inline(layout: &Layout, value: &[u8]) -> Self {
        let mut slot = Self::new(layout, value.len());
        slot.bytes[LENGTH_BYTES..LENGTH_BYTES + value.len()].copy_from_slice(value);
        slot
    }

    pub(super) fn linked(layout: &Layout, link: Link) -> Self {
        let mut slot = Self::new(layout, link.length as usize);
        slot.bytes[VERSION..POINTER].copy_from_slice(&link.version.to_le_bytes());
        slot.bytes[POINTER..POINTER + 8].copy_from_slice(&link.at.word().to_le_bytes());
        slot
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored<'s> {
    Here(&'s [u8]),
    Far(Link),
    /// Its entry makes no sense.
    Nowhere,
}

impl Layout {
    /// Bytes of the longest value that lies in its entry, in a tree whose values have any length.
    pub fn inline_bytes_max(&self) -> usize {
        self.value_bytes - LENGTH_BYTES
    }

    /// Where the value is, of which an entry has `slot`.
    pub(super) fn stored<'s>(&self, slot: &'s [u8]) -> Stored<'s> {
        if self.values == Values::Fixed {
            return Stored::Here(slot);
        }
        let number = |at: usize| u32::from_le_bytes(slot[at..at + 4].try_into().expect("four bytes"));
        let length = number(0);
        if length as usize <= self.inline_bytes_max() {
            return Stored::Here(&slot[LENGTH_BYTES..LENGTH_BYTES + length as usize]);
        }
        let word = u64::from_le_bytes(slot[POINTER..POINTER + 8].try_into().expect("eight bytes"));
        match Remote::from_word(word) {
            Some(at) if length as usize <= VALUE_BYTES_MAX => {
                Stored::Far(Link { at, version: number(VERSION), length })
            }
            _ => Stored::Nowhere,
        }
    }

    /// The bytes of the value of leaf entry `slot`, which has `length` bytes there.
    pub(super) fn inline_value(&self, slot: usize, length: usize) -> Range<usize> {
        let start = self.entry_value(slot).start + LENGTH_BYTES;
        start..start + length
    }

    /// The link in `slot`, if its value lies out of line.
    pub(super) fn link(&self, slot: &[u8]) -> Option<Link> {
        match self.stored(slot) {
            Stored::Far(link) => Some(link),
            Stored::Here(_) | Stored::Nowhere => None,
        }
    }
}

/// A value that is stored, and that no entry has yet.
struct Prepared {
    slot: Slot,
    rooms: Vec<Room<RawExtent>>,
}

impl Sherman {
    /// As [`exchange`](Self::exchange), where values have any length; yields its answer. [0 RT more; 1 for a value out
    /// of line; 1 to replace one of several parts]
    pub(super) async fn change_any_length<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        change: Change<'_>,
        operation: &'static str,
    ) -> Result<bool, IndexError> {
        let Some(value) = change.value() else {
            let removed = self.exchange(client, key, change, operation).await?;
            self.unlink(client, removed.replaced).await;
            return Ok(removed.answer);
        };
        let Prepared { slot, rooms } = self.prepare(client, value).await?;
        match self.exchange(client, key, change.of(slot.bytes()), operation).await {
            Ok(exchanged) => {
                if !exchanged.placed {
                    self.give_back(rooms);
                }
                self.unlink(client, exchanged.replaced).await;
                Ok(exchanged.answer)
            }
            Err(error) => {
                if !error.may_be_written() {
                    self.give_back(rooms);
                }
                Err(error)
            }
        }
    }

    /// Stores a value where it fits. [0 RT; 1 out of line]
    async fn prepare<F: Fabric>(&self, client: &Client<F>, value: &[u8]) -> Result<Prepared, IndexError> {
        if value.len() <= self.layout.inline_bytes_max() {
            return Ok(Prepared { slot: Slot::inline(&self.layout, value), rooms: Vec::new() });
        }
        let mut rooms = self.rooms_for(client, value.len()).await?;
        let (link, images) = overflow::lay_out(self.layout.index, value, &mut rooms);
        overflow::write_all(client, &images).await?;
        Ok(Prepared { slot: Slot::linked(&self.layout, link), rooms })
    }

    /// Rooms for the extents of a value of `length` bytes. [0 RT; else as [`allocate`](Self::allocate)]
    pub(super) async fn rooms_for<F: Fabric>(
        &self,
        client: &Client<F>,
        length: usize,
    ) -> Result<Vec<Room<RawExtent>>, IndexError> {
        let mut rooms = Vec::new();
        for length in overflow::lengths(length) {
            match self.allocate(client, overflow::room_kind(length)).await {
                Ok(room) => rooms.push(room.cast()),
                Err(error) => {
                    self.give_back(rooms);
                    return Err(error);
                }
            }
        }
        Ok(rooms)
    }

    /// What a bulk loader puts into an entry for `value`, and the extents that it is to write before it links the
    /// entry. They are in rooms that nothing ever lay in, which are added to `rooms`.
    pub(super) async fn slot_of<F: Fabric>(
        &self,
        client: &Client<F>,
        value: &[u8],
        rooms: &mut Vec<Room<RawExtent>>,
    ) -> Result<(Slot, Vec<overflow::Image>), IndexError> {
        if value.len() <= self.layout.inline_bytes_max() {
            return Ok((Slot::inline(&self.layout, value), Vec::new()));
        }
        let first = rooms.len();
        for length in overflow::lengths(value.len()) {
            rooms.push(self.allocator.allocate_new(client, overflow::room_kind(length)).await?);
        }
        let (link, images) = overflow::lay_out(self.layout.index, value, &mut rooms[first..]);
        Ok((Slot::linked(&self.layout, link), images))
    }

    pub(super) fn give_back(&self, rooms: Vec<Room<RawExtent>>) {
        for room in rooms {
            self.allocator.take_back(room);
        }
    }

    /// Gives back the rooms of a value that nothing links any more. What cannot be given back is lost until the index
    /// is dropped; the change was made all the same.
    async fn unlink<F: Fabric>(&self, client: &Client<F>, replaced: Option<Link>) {
        let Some(link) = replaced else { return };
        if let Ok(rooms) = overflow::rooms_of(client, self.layout.index, link).await {
            self.give_back(rooms);
            let _ = self.share_rooms(client).await;
        }
    }

    /// The value behind `link`; `None`: it was replaced or removed since the link was read. [1 RT; 2 for a value of
    /// several parts]
    pub(super) async fn far_value<F: Fabric>(
        &self,
        client: &Client<F>,
        link: Link,
    ) -> Result<Option<overflow::Far>, IndexError> {
        if self.layout.sabotage == Some(Sabotage::ExtentBelieved) {
            let (at, length) = (link.at.part::<Words>(overflow::HEADER_BYTES as u64), link.length as usize);
            let Ok(bytes) = client.post(read_bytes(at, length.next_multiple_of(8))).await?.check(&()) else {
                unreachable!("words are whole")
            };
            return Ok(Some(overflow::Far::Joined(bytes[..length].to_vec())));
        }
        let found = overflow::follow(client, self.layout.index, link).await?;
        if found.is_none() {
            client.fabric().mark(marks::VALUE_MOVED);
        }
        Ok(found)
    }
}

const _: () = assert!(LENGTH_BYTES == VERSION && POINTER + 8 == VALUE_SLOT_BYTES.start);
