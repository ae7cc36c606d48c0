//! Values out of line: each in an extent of its own behind a pointer, never changed while anything links it.
//!
//! ```text
//! an extent, at a multiple of 64 bytes; little endian
//! +  0   8   hash of the bytes, under the version and the index's number
//! +  8   1   255: neither an inner node nor a leaf
//! +  9   3   zero
//! + 12   4   version: one more than that of the extent that was in this room before
//! + 16   4   length of the bytes
//! + 20   4   bytes of the room
//! + 24   8   number of the index
//! + 32       the bytes: a value, or a part of one, or a list of parts
//!
//! a list of parts, for values that are longer than a part may be; in the order of the value
//! +  0   8   remote pointer to the part's extent
//! +  8   4   its version
//! + 12   4   its length
//! ```
//!
//! A [`Link`] says where an extent is, its version and its length. Whoever follows it, however late, believes what it
//! finds only if the extent has that version, length and index, and the hash of its bytes: then these are the bytes
//! that were linked. If not, the value was replaced or removed since the link was read, and is looked up anew. So rooms
//! are used again at once, under the rules of [`slot`](super::slot): a room keeps its size and its kind, and its
//! versions go on. A 32-bit version comes again when one room has been filled 2^32 times while somebody slept, and then
//! the length and the hash must agree as well.
//!
//! Writers: an extent is written whole, and answered, before an entry links it; so what is linked is whole on any
//! fabric, whenever its writer dies. It is given back when the WRITE that unlinks it was answered.

use crate::memory::adopt::ROOM_BYTES_MAX;
use crate::memory::slot::{Room, RoomKind};
use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::{Checked, Client, Fabric, FabricError, Object, Remote, Torn, all, read_bytes, write};
use std::fmt;
use std::ops::Deref;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Longest value, bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 20;
/// Bytes in front of an extent's bytes.
pub const HEADER_BYTES: usize = 32;
/// Where every object of an index has the index's number: nodes, too.
pub const INDEX: usize = 24;
/// Longest part of a value, bytes.
pub const PART_BYTES_MAX: usize = ROOM_BYTES_MAX - HEADER_BYTES;
/// Rooms begin at multiples of this, bytes.
pub const UNIT_BYTES: usize = 64;

const KIND: usize = 8;
const VERSION: usize = 12;
const LENGTH: usize = 16;
const ROOM: usize = 20;
/// What an extent has where a node has its level.
const IS_EXTENT: u8 = 255;
const ITEM_BYTES: usize = 16;

/// An extent's bytes.
#[derive(Debug)]
pub enum RawExtent {}

/// Where a value is, and how it is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its extent, or that of the list of its parts.
    pub at: Remote<RawExtent>,
    /// The version of that extent.
    pub version: u32,
    /// Length of the value, bytes.
    pub length: u32,
}

/// What must be found behind a link.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    index: u64,
    version: u32,
    length: u32,
}

impl Object for RawExtent {
    type Format = Expected;

    fn check(bytes: &[u8], expected: &Expected) -> Result<(), Torn> {
        let header = &bytes[..HEADER_BYTES];
        let found = Expected {
            index: word(header, INDEX),
            version: number(header, VERSION),
            length: number(header, LENGTH),
        };
        let same = (found.index, found.version, found.length)
            == (expected.index, expected.version, expected.length)
            && header[KIND] == IS_EXTENT;
        let same = same && bytes.len() >= HEADER_BYTES + expected.length as usize;
        if same && word(header, 0) == hash(body(bytes), found) { Ok(()) } else { Err(Torn) }
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn hash(bytes: &[u8], of: Expected) -> u64 {
    xxh3_64_with_seed(bytes, of.index ^ u64::from(of.version) << 32)
}

/// The kind of rooms that hold extents: by no other number.
pub(crate) const OF_EXTENTS: u8 = 1;

/// The room for an extent of `length` bytes: at most a quarter more than it needs, so that rooms are of few
/// sizes and one that was emptied serves another value.
pub fn room_kind(length: usize) -> RoomKind {
    let units = (HEADER_BYTES + length).div_ceil(UNIT_BYTES);
    let step = (units.next_power_of_two() / 8).max(1);
    RoomKind { bytes: (units.next_multiple_of(step) * UNIT_BYTES) as u32, of: OF_EXTENTS }
}

/// The bytes of the room of the extent that begins with `unit`; `None` where none does.
pub fn room_of(unit: &[u8]) -> Option<u64> {
    (unit[KIND] == IS_EXTENT).then(|| u64::from(number(unit, ROOM)))
}

/// The lengths of the extents that a value of `length` bytes needs: its parts, then the list of them where there are
/// several.
pub fn lengths(length: usize) -> impl Iterator<Item = usize> {
    let parts = length.div_ceil(PART_BYTES_MAX).max(1);
    let part = move |part: usize| (length - part * PART_BYTES_MAX).min(PART_BYTES_MAX);
    (0..parts).map(part).chain((parts > 1).then_some(parts * ITEM_BYTES))
}

/// An extent on its way: where it is to lie, and its bytes.
pub type Image = (Remote<RawExtent>, Vec<u8>);

/// The extents of `value` in `rooms`, of which there is one for each of its [`lengths`], and the link to it. The rooms
/// get the versions of what will be in them.
pub fn lay_out(index: u64, value: &[u8], rooms: &mut [Room<RawExtent>]) -> (Link, Vec<Image>) {
    let parts: Vec<&[u8]> =
        if value.is_empty() { vec![value] } else { value.chunks(PART_BYTES_MAX).collect() };
    let mut images = Vec::with_capacity(rooms.len());
    let mut list = Vec::new();
    for (part, room) in parts.iter().zip(&mut *rooms) {
        let link = seal(index, part, room, &mut images);
        list.extend_from_slice(&link.to_bytes());
    }
    let last = rooms.last_mut().expect("a value has an extent");
    if parts.len() > 1 {
        seal(index, &list, last, &mut images);
    }
    let version = last.version.expect("the room was filled");
    (Link { at: last.at, version, length: value.len() as u32 }, images)
}

/// Makes the extent of `bytes` in `room`.
fn seal(index: u64, bytes: &[u8], room: &mut Room<RawExtent>, images: &mut Vec<Image>) -> Link {
    let version = room.version.map_or(0, |version| version.wrapping_add(1));
    let expected = Expected { index, version, length: bytes.len() as u32 };
    let mut image = vec![0; HEADER_BYTES];
    image[..8].copy_from_slice(&hash(bytes, expected).to_le_bytes());
    image[KIND] = IS_EXTENT;
    image[VERSION..VERSION + 4].copy_from_slice(&version.to_le_bytes());
    image[LENGTH..LENGTH + 4].copy_from_slice(&expected.length.to_le_bytes());
    image[ROOM..ROOM + 4].copy_from_slice(&room.kind.bytes.to_le_bytes());
    image[INDEX..INDEX + 8].copy_from_slice(&index.to_le_bytes());
    image.extend_from_slice(bytes);
    images.push((room.at, image));
    room.version = Some(version);
    Link { at: room.at, version, length: expected.length }
}

/// Writes extents that nothing links yet. [1 RT]
///
/// # Errors
/// The fabric's.
pub async fn write_all<F: Fabric>(client: &Client<F>, images: &[Image]) -> Result<(), FabricError> {
    client.post(all(images.iter().map(|(at, bytes)| write(*at, bytes)))).await?.for_each(drop);
    Ok(())
}

/// The value behind `link`; `None` where something else is there now. [1 RT; 2 for a value of several parts]
///
/// # Errors
/// The fabric's.
pub async fn follow<F: Fabric>(
    client: &Client<F>,
    index: u64,
    link: Link,
) -> Result<Option<Far>, FabricError> {
    if link.length as usize <= PART_BYTES_MAX {
        return Ok(read_one(client, index, link).await?.map(Far::One));
    }
    let Some(parts) = parts_of(client, index, link).await? else { return Ok(None) };
    let copies = client.post(all(parts.iter().map(|part| read_bytes(part.at, image_bytes(*part))))).await?;
    let mut value = Vec::with_capacity(link.length as usize);
    for (part, copy) in parts.iter().zip(copies) {
        let Ok(copy) = copy.check(&part.expected(index)) else { return Ok(None) };
        value.extend_from_slice(body(&copy));
    }
    Ok((value.len() == link.length as usize).then_some(Far::Joined(value)))
}

/// The links of several values that are of one part each, all at once. [1 RT]
///
/// # Errors
/// The fabric's.
pub async fn follow_all<F: Fabric>(
    client: &Client<F>,
    index: u64,
    links: &[Link],
    mut found: impl FnMut(usize, Option<&[u8]>),
) -> Result<(), FabricError> {
    let copies = client.post(all(links.iter().map(|link| read_bytes(link.at, image_bytes(*link))))).await?;
    for (at, (link, copy)) in links.iter().zip(copies).enumerate() {
        let copy = copy.check(&link.expected(index)).ok();
        found(at, copy.as_ref().map(|copy| body(copy)));
    }
    Ok(())
}

/// The rooms that the value behind `link`, which this client has just unlinked, leaves empty. [0 RT; 1 for a value of
/// several parts]
///
/// # Errors
/// The fabric's.
pub async fn rooms_of<F: Fabric>(
    client: &Client<F>,
    index: u64,
    link: Link,
) -> Result<Vec<Room<RawExtent>>, FabricError> {
    let room = |link: Link| {
        let kind = room_kind(link.length as usize);
        Room { at: link.at, version: Some(link.version), kind }
    };
    if link.length as usize <= PART_BYTES_MAX {
        return Ok(vec![room(link)]);
    }
    let parts = parts_of(client, index, link).await?.unwrap_or_default();
    Ok(parts.into_iter().chain([link.list()]).map(room).collect())
}

async fn read_one<F: Fabric>(
    client: &Client<F>,
    index: u64,
    link: Link,
) -> Result<Option<Checked<RawExtent>>, FabricError> {
    Ok(client.post(read_bytes(link.at, image_bytes(link))).await?.check(&link.expected(index)).ok())
}

/// The links to the parts of a value that has several.
async fn parts_of<F: Fabric>(
    client: &Client<F>,
    index: u64,
    link: Link,
) -> Result<Option<Vec<Link>>, FabricError> {
    let Some(list) = read_one(client, index, link.list()).await? else { return Ok(None) };
    Ok(body(&list).chunks_exact(ITEM_BYTES).map(Link::from_bytes).collect())
}

/// Bytes that a READ of an extent fetches: whole words.
fn image_bytes(link: Link) -> usize {
    (HEADER_BYTES + link.length as usize).next_multiple_of(8)
}

/// The bytes that an extent holds, by its own length.
fn body(extent: &[u8]) -> &[u8] {
    &extent[HEADER_BYTES..HEADER_BYTES + number(extent, LENGTH) as usize]
}

impl Link {
    /// Bytes of a link.
    pub const BYTES: usize = ITEM_BYTES;

    /// The link as it lies in a list of parts, and in a leaf.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.at.word().to_le_bytes());
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// The link in these bytes; `None` where there is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let at = Remote::from_word(word(bytes, 0))?;
        Some(Self { at, version: number(bytes, 8), length: number(bytes, 12) })
    }

    fn expected(self, index: u64) -> Expected {
        Expected { index, version: self.version, length: self.length }
    }

    /// The link of a value of several parts, as that of its list.
    fn list(self) -> Self {
        let parts = (self.length as usize).div_ceil(PART_BYTES_MAX);
        Self { length: (parts * ITEM_BYTES) as u32, ..self }
    }
}

/// A value that lay out of line.
pub enum Far {
    /// In one extent.
    One(Checked<RawExtent>),
    /// In several, put together.
    Joined(Vec<u8>),
}

impl Deref for Far {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::One(extent) => body(extent),
            Self::Joined(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

const _: () = assert!(ROOM + 4 == INDEX && INDEX + 8 == HEADER_BYTES && VERSION + 4 == LENGTH);
const _: () = assert!(CHUNK_BYTES.is_multiple_of(UNIT_BYTES as u64) && HEADER_BYTES <= UNIT_BYTES);
const _: () = assert!(VALUE_BYTES_MAX.div_ceil(PART_BYTES_MAX) * ITEM_BYTES <= PART_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::{Memory, NodeId};

    const INDEX_NUMBER: u64 = 7;

    fn rooms(length: usize) -> Vec<Room<RawExtent>> {
        let room = |(at, length): (usize, usize)| {
            let at = Remote::new(NodeId(0), Memory::Host, (at as u64 + 1) << 22).expect("it is not 0");
            Room { at, version: Some(4), kind: room_kind(length) }
        };
        lengths(length).enumerate().map(room).collect()
    }

    #[test]
    fn rooms_are_of_few_sizes_and_little_is_wasted() {
        let mut sizes: Vec<u32> =
            (0..=PART_BYTES_MAX).step_by(31).map(|length| room_kind(length).bytes).collect();
        for (length, &bytes) in (0..=PART_BYTES_MAX).step_by(31).zip(&sizes) {
            let needed = HEADER_BYTES + length;
            assert!(bytes as usize >= needed && bytes as usize <= needed + needed / 4 + UNIT_BYTES);
            assert!(bytes as usize <= ROOM_BYTES_MAX && bytes.is_multiple_of(UNIT_BYTES as u32));
        }
        sizes.dedup();
        assert!(sizes.len() < 80, "{} sizes", sizes.len());
    }

    #[test]
    fn an_extent_is_known_again() {
        for length in [0, 1, 31, 4000, PART_BYTES_MAX] {
            let mut rooms = rooms(length);
            let value: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (link, images) = lay_out(INDEX_NUMBER, &value, &mut rooms);
            let expected = link.expected(INDEX_NUMBER);
            let (at, image) = &images[0];
            assert_eq!((images.len(), *at, link.version), (1, rooms[0].at, 5));
            assert!(image.len() <= rooms[0].kind.bytes as usize && image[HEADER_BYTES..] == value);
            assert_eq!(RawExtent::check(image, &expected), Ok(()));
            assert_eq!(room_of(image), Some(u64::from(rooms[0].kind.bytes)));
            let others = [
                Expected { version: 6, ..expected },
                Expected { index: 8, ..expected },
                Expected { length: expected.length + 1, ..expected },
            ];
            assert!(others.iter().all(|other| RawExtent::check(image, other) == Err(Torn)));
        }
    }

    #[test]
    fn one_wrong_bit_is_noticed() {
        let (link, images) = lay_out(INDEX_NUMBER, &[3; 100], &mut rooms(100));
        let image = &images[0].1;
        for bit in (0..8 * image.len()).filter(|bit| !(9 * 8..12 * 8).contains(bit)) {
            let mut image = image.clone();
            image[bit / 8] ^= 1 << (bit % 8);
            let in_room = (ROOM * 8..ROOM * 8 + 32).contains(&bit);
            assert_eq!(RawExtent::check(&image, &link.expected(INDEX_NUMBER)).is_ok(), in_room, "bit {bit}");
        }
    }

    #[test]
    fn long_values_have_parts_and_a_list() {
        let length = 2 * PART_BYTES_MAX + 5;
        assert_eq!(lengths(length).collect::<Vec<_>>(), [PART_BYTES_MAX, PART_BYTES_MAX, 5, 48]);
        assert_eq!(lengths(PART_BYTES_MAX).count(), 1);
        let mut rooms = rooms(length);
        let (link, images) = lay_out(INDEX_NUMBER, &vec![1; length], &mut rooms);
        assert_eq!((images.len(), link.at, link.length as usize), (4, rooms[3].at, length));
        assert_eq!(RawExtent::check(&images[3].1, &link.list().expected(INDEX_NUMBER)), Ok(()));
    }
}
