//! Overflow values: values that are stored outside of their leaves, in objects that never change while a link leads to
//! them.
//!
//! ```text
//! an overflow object, at a multiple of 64 bytes; little endian
//! +  0   8   hash of the bytes, seeded with the version and the index's number
//! +  8   1   255: neither an inner node nor a leaf
//! +  9   3   zero
//! + 12   4   version: one more than that of the previous object in this slot
//! + 16   4   length of the bytes
//! + 20   4   bytes of the slot
//! + 24   8   number of the index
//! + 32       the bytes: a value, or a part of one, or a list of parts
//!
//! a list of parts, for a value that is longer than a part, or for which a full pool has no slot; in the order of the
//! value
//! +  0   8   remote pointer to the object of the part
//! +  8   4   its version
//! + 12   4   its length
//!
//! length of a value where it is linked: 25 bits; the 7 bits above are the number of its parts if these have other
//! lengths than those of every value of this length, and otherwise 0
//! ```
//!
//! A full pool has free slots of other sizes than a value needs. A larger one is divided ([`divide`]): its front serves
//! the value, and the rest becomes free slots. No link ever led into the middle of a slot, so no stale link leads to a
//! rest. Slots are never joined. Several smaller slots serve a value in parts that fill them.
//!
//! A [`Link`] holds the address of an object, its version and its length. A client that follows a link, however late,
//! accepts the object only if it has that version, length and index, and the hash of its bytes: then these are the
//! bytes that were linked. Otherwise the value was replaced or removed after the link was read, and the client looks
//! the key up again. So slots are reused at once, under the rules of [`slot`](super::slot): a slot keeps its size and
//! its kind, and its versions continue. A 32-bit version repeats only if one slot is filled 2^32 times before a client
//! follows its link, and even then the length and the hash must agree as well.
//!
//! A writer writes an object completely, and waits for the answer, before an entry links it; so a linked object is
//! complete on every fabric, even if its writer crashes. Its slot is freed after the answer to the WRITE that unlinks
//! it.

use crate::error::IndexError;
use crate::memory::adopt::SLOT_BYTES_MAX;
use crate::memory::slot::{MemorySlot, SlotKind};
use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::{
    Checked, Client, Fabric, FabricError, Object, Remote, Torn, all, read_bytes, u32_at, u64_at, write,
};
use std::fmt;
use std::ops::Deref;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Longest value, bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 20;
/// Bytes of the header of an overflow object.
pub const HEADER_BYTES: usize = 32;
/// Offset of the index's number in every object of an index, nodes included.
pub const INDEX: usize = 24;
/// Longest part of a value, bytes.
pub const PART_BYTES_MAX: usize = SLOT_BYTES_MAX - HEADER_BYTES;
/// Slots begin at multiples of this, bytes.
pub const UNIT_BYTES: usize = 64;

const KIND: usize = 8;
const VERSION: usize = 12;
const LENGTH: usize = 16;
const SLOT_BYTES: usize = 20;
/// The byte of an overflow object at the offset of a node's level.
const IS_OVERFLOW: u8 = 255;
const ITEM_BYTES: usize = 16;

/// An overflow object in far memory.
#[derive(Debug)]
pub enum RawOverflow {}

/// The address of an overflow value, and the fields that identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The object of the value, or of the list of its parts.
    pub at: Remote<RawOverflow>,
    /// The version of that object.
    pub version: u32,
    /// Length of the value, bytes.
    pub length: u32,
    /// The number of parts if their lengths do not follow from that of the value ([`lengths`]); otherwise 0.
    pub parts: u8,
}

/// Bits of the length in a link; the bits above hold the number of parts.
const LENGTH_BITS: u32 = 25;
/// Maximum number of parts of a value whose lengths do not follow from the length of the value.
pub const PARTS_MAX: usize = (1 << (u32::BITS - LENGTH_BITS)) - 1;

/// The last link that an operation followed without finding the value.
///
/// A value is in its slot as long as an entry links it. So if a READ did not find the value and the entry still has the
/// link afterwards, the index is damaged, and the operation need not wait for another client.
#[derive(Debug, Default)]
pub(crate) struct MissedLink {
    link: Option<Link>,
    times: u32,
}

/// Number of times that an operation follows one link before it reports damage. Two would prove it, and more cost only
/// microseconds.
const MISSES_MAX: u32 = 8;

impl MissedLink {
    /// Records that the slot did not contain the value of `link`; returns whether that proves damage.
    pub(crate) fn is_damage(&mut self, link: Link) -> bool {
        self.times = if self.link == Some(link) { self.times + 1 } else { 1 };
        self.link = Some(link);
        self.times >= MISSES_MAX
    }
}

/// The fields that identify the object of a link.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    index: u64,
    version: u32,
    length: u32,
}

impl Object for RawOverflow {
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
            && header[KIND] == IS_OVERFLOW;
        let same = same && bytes.len() >= HEADER_BYTES + expected.length as usize;
        if same && word(header, 0) == hash(body(bytes), found) { Ok(()) } else { Err(Torn) }
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32_at(bytes, at)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64_at(bytes, at)
}

fn hash(bytes: &[u8], of: Expected) -> u64 {
    xxh3_64_with_seed(bytes, of.index ^ u64::from(of.version) << 32)
}

/// The kind of slots that hold overflow objects, in every index.
pub(crate) const OVERFLOW_KIND: u8 = 1;

/// Returns the kind of slots for an overflow object of `length` bytes: at most a quarter larger than necessary, so that
/// there are few sizes, and a free slot fits other values.
pub fn slot_kind(length: usize) -> SlotKind {
    let units = (HEADER_BYTES + length).div_ceil(UNIT_BYTES);
    slots_of_units(units.next_multiple_of(units_apart(units)))
}

/// Slots of a number of units that is one of the sizes of slots.
fn slots_of_units(units: usize) -> SlotKind {
    SlotKind { bytes: (units * UNIT_BYTES) as u32, of: OVERFLOW_KIND }
}

/// The difference of the sizes of slots next to `units`, units.
fn units_apart(units: usize) -> usize {
    (units.next_power_of_two() / 8).max(1)
}

/// Divides a slot: yields a slot of `kind` at its front, and free slots in the rest. Their objects are empty and must
/// be written before the front is used: after a crash, objects show which memory is in use.
pub fn divide(
    index: u64,
    slot: MemorySlot<RawOverflow>,
    kind: SlotKind,
) -> (MemorySlot<RawOverflow>, Vec<MemorySlot<RawOverflow>>, Vec<Image>) {
    let (mut rests, mut images) = (Vec::new(), Vec::new());
    let mut start = kind.bytes as usize;
    while start < slot.kind.bytes as usize {
        let units = (slot.kind.bytes as usize - start) / UNIT_BYTES;
        let step = units_apart(units);
        let kind = slots_of_units(units / step * step);
        let mut rest = MemorySlot { at: slot.at.part(start as u64), version: None, is_zero: false, kind };
        seal(index, &[], &mut rest, &mut images);
        start += kind.bytes as usize;
        rests.push(rest);
    }
    let mut front = slot;
    front.kind = kind;
    (front, rests, images)
}

/// The length of a part that fills a slot of that kind.
pub fn part_bytes(kind: SlotKind) -> usize {
    kind.bytes as usize - HEADER_BYTES
}

/// Returns the bytes of the slot of the overflow object that begins with `unit`; `None` where no object does.
pub fn stored_slot_bytes(unit: &[u8]) -> Option<u64> {
    (unit[KIND] == IS_OVERFLOW).then(|| u64::from(number(unit, SLOT_BYTES)))
}

/// Returns the lengths of the objects for a value of `length` bytes: its parts, then their list if there are several.
pub fn lengths(length: usize) -> impl Iterator<Item = usize> {
    let parts = length.div_ceil(PART_BYTES_MAX).max(1);
    let part = move |part: usize| (length - part * PART_BYTES_MAX).min(PART_BYTES_MAX);
    (0..parts).map(part).chain((parts > 1).then_some(parts * ITEM_BYTES))
}

/// Length of a list of that many parts, bytes.
pub fn list_bytes(parts: usize) -> usize {
    parts * ITEM_BYTES
}

/// An overflow object before it is written: its address and its bytes.
pub type Image = (Remote<RawOverflow>, Vec<u8>);

/// Builds the objects of `value` for `slots`, one for each of its [`lengths`], and the link to it. Sets the versions of
/// the slots to those of the objects.
pub fn lay_out(index: u64, value: &[u8], slots: &mut [MemorySlot<RawOverflow>]) -> (Link, Vec<Image>) {
    let parts: Vec<&[u8]> =
        if value.is_empty() { vec![value] } else { value.chunks(PART_BYTES_MAX).collect() };
    let (link, images) = lay_out_parts(index, &parts, slots);
    (Link { length: value.len() as u32, ..link }, images)
}

/// As [`lay_out`], for a value in parts of any length: one slot for each, and one for their list.
pub fn lay_out_pieces(
    index: u64,
    value: &[u8],
    lengths: &[usize],
    slots: &mut [MemorySlot<RawOverflow>],
) -> (Link, Vec<Image>) {
    assert!((2..=PARTS_MAX).contains(&lengths.len()), "a link has few bits for the number of parts");
    let mut rest = value;
    let part = |&length: &usize| {
        let (part, behind) = rest.split_at(length);
        rest = behind;
        part
    };
    let parts: Vec<&[u8]> = lengths.iter().map(part).collect();
    assert!(rest.is_empty(), "the parts make up the value");
    let (link, images) = lay_out_parts(index, &parts, slots);
    (Link { length: value.len() as u32, parts: parts.len() as u8, ..link }, images)
}

/// Builds the objects of the parts of a value, and of their list if there are several; yields the link to the last one.
fn lay_out_parts(index: u64, parts: &[&[u8]], slots: &mut [MemorySlot<RawOverflow>]) -> (Link, Vec<Image>) {
    let mut images = Vec::with_capacity(slots.len());
    let mut list = Vec::new();
    for (part, slot) in parts.iter().zip(&mut *slots) {
        let link = seal(index, part, slot, &mut images);
        list.extend_from_slice(&link.to_bytes());
    }
    // Cannot fail: the callers allocate a slot for each of one or more parts.
    let last = slots.last_mut().expect("a value has an object");
    if parts.len() > 1 {
        seal(index, &list, last, &mut images);
    }
    // Cannot fail: `seal` sets the version of each slot that it fills.
    let version = last.version.expect("the slot was filled");
    (Link { at: last.at, version, length: 0, parts: 0 }, images)
}

/// Builds the object of `bytes` for `slot`.
fn seal(index: u64, bytes: &[u8], slot: &mut MemorySlot<RawOverflow>, images: &mut Vec<Image>) -> Link {
    assert!(HEADER_BYTES + bytes.len() <= slot.kind.bytes as usize, "the slot was allocated for this length");
    let version = slot.version.map_or(0, |version| version.wrapping_add(1));
    let expected = Expected { index, version, length: bytes.len() as u32 };
    let mut image = vec![0; HEADER_BYTES];
    image[..8].copy_from_slice(&hash(bytes, expected).to_le_bytes());
    image[KIND] = IS_OVERFLOW;
    image[VERSION..VERSION + 4].copy_from_slice(&version.to_le_bytes());
    image[LENGTH..LENGTH + 4].copy_from_slice(&expected.length.to_le_bytes());
    image[SLOT_BYTES..SLOT_BYTES + 4].copy_from_slice(&slot.kind.bytes.to_le_bytes());
    image[INDEX..INDEX + 8].copy_from_slice(&index.to_le_bytes());
    image.extend_from_slice(bytes);
    debug_assert!(RawOverflow::check(&image, &expected).is_ok(), "readers accept a new object");
    images.push((slot.at, image));
    slot.version = Some(version);
    Link { at: slot.at, version, length: expected.length, parts: 0 }
}

/// Writes overflow objects that no entry links yet. [1 RT]
///
/// # Errors
/// The errors of the fabric.
pub async fn write_all<F: Fabric>(client: &Client<F>, images: &[Image]) -> Result<(), FabricError> {
    client.post(all(images.iter().map(|(at, bytes)| write(*at, bytes)))).await?.for_each(drop);
    Ok(())
}

/// Reads the value that `link` points to; returns `None` if its slot holds another object now. [1 RT; 2 for a value of
/// several parts]
///
/// # Errors
/// The errors of the fabric.
pub async fn follow<F: Fabric>(
    client: &Client<F>,
    index: u64,
    link: Link,
) -> Result<Option<OverflowValue>, FabricError> {
    if link.is_one_object() {
        return Ok(read_one(client, index, link).await?.map(OverflowValue::One));
    }
    let Some(parts) = parts_of(client, index, link).await? else { return Ok(None) };
    let copies = client.post(all(parts.iter().map(|part| read_bytes(part.at, image_bytes(*part))))).await?;
    let mut value = Vec::with_capacity(link.length as usize);
    for (part, copy) in parts.iter().zip(copies) {
        let Ok(copy) = copy.check(&part.expected(index)) else { return Ok(None) };
        value.extend_from_slice(body(&copy));
    }
    Ok(Some(OverflowValue::Joined(value)))
}

/// Reads several values of one part each in one doorbell, and passes each to `found`. [1 RT]
///
/// # Errors
/// The errors of the fabric.
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

/// Returns the slots of the value that `link` points to, which this client has just unlinked. [0 RT; 1 for a value of
/// several parts]
///
/// # Errors
/// The errors of the fabric.
pub async fn slots_of<F: Fabric>(
    client: &Client<F>,
    index: u64,
    link: Link,
) -> Result<Vec<MemorySlot<RawOverflow>>, FabricError> {
    let slot = |link: Link| {
        let kind = slot_kind(link.length as usize);
        MemorySlot { at: link.at, version: Some(link.version), is_zero: false, kind }
    };
    if link.is_one_object() {
        return Ok(vec![slot(link)]);
    }
    let parts = parts_of(client, index, link).await?.unwrap_or_default();
    Ok(parts.into_iter().chain([link.list()]).map(slot).collect())
}

async fn read_one<F: Fabric>(
    client: &Client<F>,
    index: u64,
    link: Link,
) -> Result<Option<Checked<RawOverflow>>, FabricError> {
    Ok(client.post(read_bytes(link.at, image_bytes(link))).await?.check(&link.expected(index)).ok())
}

/// Reads the links to the parts of a value that has several.
async fn parts_of<F: Fabric>(
    client: &Client<F>,
    index: u64,
    link: Link,
) -> Result<Option<Vec<Link>>, FabricError> {
    let Some(list) = read_one(client, index, link.list()).await? else { return Ok(None) };
    Ok(listed(body(&list), link.length))
}

/// Decodes a list of the parts of a value of `length` bytes; returns `None` where no writer writes such a list. The
/// caller allocates memory according to the list, and the hash of the list proves only that the list is not torn.
fn listed(list: &[u8], length: u32) -> Option<Vec<Link>> {
    let parts: Option<Vec<Link>> = list.chunks_exact(ITEM_BYTES).map(Link::from_bytes).collect();
    let whole = |parts: &Vec<Link>| {
        let lengths = parts.iter().map(|part| part.length as usize);
        parts.iter().all(|part| part.parts == 0)
            && lengths.clone().all(|part| part <= PART_BYTES_MAX)
            && lengths.sum::<usize>() == length as usize
    };
    parts.filter(whole)
}

/// Bytes of an object that a READ fetches: whole words.
fn image_bytes(link: Link) -> usize {
    (HEADER_BYTES + link.length as usize).next_multiple_of(8)
}

/// The bytes of an object, according to its length field.
fn body(object: &[u8]) -> &[u8] {
    &object[HEADER_BYTES..HEADER_BYTES + number(object, LENGTH) as usize]
}

impl Link {
    /// Bytes of a link.
    pub const BYTES: usize = ITEM_BYTES;

    /// Encodes the link as in a list of parts, and in a leaf.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.at.word().to_le_bytes());
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..].copy_from_slice(&self.length_word().to_le_bytes());
        debug_assert_eq!(Self::from_bytes(&bytes), Some(self), "readers find the link that was written");
        bytes
    }

    /// Decodes a link; returns `None` if the bytes are not a link, or the length exceeds the limit.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::new(Remote::from_word(word(bytes, 0))?, number(bytes, 8), number(bytes, 12))
    }

    /// The link with this address, version and length word; returns `None` where no value is that long.
    pub(crate) fn new(at: Remote<RawOverflow>, version: u32, length_word: u32) -> Option<Self> {
        let (length, parts) = (length_word & ((1 << LENGTH_BITS) - 1), (length_word >> LENGTH_BITS) as u8);
        (length as usize <= VALUE_BYTES_MAX).then_some(Self { at, version, length, parts })
    }

    /// The length of the value, and the number of its parts above.
    pub(crate) fn length_word(self) -> u32 {
        u32::from(self.parts) << LENGTH_BITS | self.length
    }

    /// Whether the value is one object.
    pub(crate) fn is_one_object(self) -> bool {
        self.parts == 0 && self.length as usize <= PART_BYTES_MAX
    }

    /// The error for an object that its slot does not contain although `at` links it.
    pub(crate) fn missing(self, operation: &'static str, at: impl fmt::Display) -> IndexError {
        let what = format!("the value that it links is not at {}", self.at);
        IndexError::Damaged { operation, at: at.to_string(), what }
    }

    fn expected(self, index: u64) -> Expected {
        Expected { index, version: self.version, length: self.length }
    }

    /// Returns the link to the list of parts, for a value of several parts.
    fn list(self) -> Self {
        let parts = match self.parts {
            0 => (self.length as usize).div_ceil(PART_BYTES_MAX),
            parts => usize::from(parts),
        };
        Self { length: list_bytes(parts) as u32, parts: 0, ..self }
    }
}

/// A copy of an overflow value.
pub enum OverflowValue {
    /// From one object.
    One(Checked<RawOverflow>),
    /// Joined from several objects.
    Joined(Vec<u8>),
}

impl Deref for OverflowValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::One(object) => body(object),
            Self::Joined(bytes) => bytes,
        }
    }
}

impl fmt::Debug for OverflowValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

const _: () = assert!(VALUE_BYTES_MAX < 1 << LENGTH_BITS && PARTS_MAX <= u8::MAX as usize);
const _: () = assert!(SLOT_BYTES + 4 == INDEX && INDEX + 8 == HEADER_BYTES && VERSION + 4 == LENGTH);
const _: () = assert!(CHUNK_BYTES.is_multiple_of(UNIT_BYTES as u64) && HEADER_BYTES <= UNIT_BYTES);
const _: () = assert!(VALUE_BYTES_MAX.div_ceil(PART_BYTES_MAX) * ITEM_BYTES <= PART_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::{Memory, NodeId};

    const INDEX_NUMBER: u64 = 7;

    fn slots(length: usize) -> Vec<MemorySlot<RawOverflow>> {
        let slot = |(at, length): (usize, usize)| {
            let at = Remote::new(NodeId(0), Memory::Host, (at as u64 + 1) << 22).expect("it is not 0");
            MemorySlot { at, version: Some(4), is_zero: false, kind: slot_kind(length) }
        };
        lengths(length).enumerate().map(slot).collect()
    }

    #[test]
    fn slots_have_few_sizes_and_little_is_wasted() {
        let mut sizes: Vec<u32> =
            (0..=PART_BYTES_MAX).step_by(31).map(|length| slot_kind(length).bytes).collect();
        for (length, &bytes) in (0..=PART_BYTES_MAX).step_by(31).zip(&sizes) {
            let needed = HEADER_BYTES + length;
            assert!(bytes as usize >= needed && bytes as usize <= needed + needed / 4 + UNIT_BYTES);
            assert!(bytes as usize <= SLOT_BYTES_MAX && bytes.is_multiple_of(UNIT_BYTES as u32));
        }
        sizes.dedup();
        assert!(sizes.len() < 80, "{} sizes", sizes.len());
    }

    #[test]
    fn an_object_matches_its_own_link_only() {
        for length in [0, 1, 31, 4000, PART_BYTES_MAX] {
            let mut slots = slots(length);
            let value: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (link, images) = lay_out(INDEX_NUMBER, &value, &mut slots);
            let expected = link.expected(INDEX_NUMBER);
            let (at, image) = &images[0];
            assert_eq!((images.len(), *at, link.version), (1, slots[0].at, 5));
            assert!(image.len() <= slots[0].kind.bytes as usize && image[HEADER_BYTES..] == value);
            assert_eq!(RawOverflow::check(image, &expected), Ok(()));
            assert_eq!(stored_slot_bytes(image), Some(u64::from(slots[0].kind.bytes)));
            let others = [
                Expected { version: 6, ..expected },
                Expected { index: 8, ..expected },
                Expected { length: expected.length + 1, ..expected },
            ];
            assert!(others.iter().all(|other| RawOverflow::check(image, other) == Err(Torn)));
        }
    }

    #[test]
    fn the_slots_of_a_divided_slot_cover_it() {
        for whole in [128, 200, 4000, 70_000, PART_BYTES_MAX] {
            for length in [0, 33, 90, 3900, whole / 2]
                .into_iter()
                .filter(|&length| slot_kind(length) < slot_kind(whole))
            {
                let at = Remote::new(NodeId(0), Memory::Host, 1 << 22).expect("it is not 0");
                let slot = MemorySlot { at, version: Some(4), is_zero: false, kind: slot_kind(whole) };
                let (front, rests, images) = divide(INDEX_NUMBER, slot, slot_kind(length));
                assert_eq!((front.at, front.version, front.kind), (at, Some(4), slot_kind(length)));
                let mut end = front.kind.bytes;
                for (rest, (image_at, image)) in rests.iter().zip(&images) {
                    assert_eq!((rest.at, *image_at), (at.part(u64::from(end)), rest.at));
                    assert_eq!((rest.kind, rest.version), (slot_kind(part_bytes(rest.kind)), Some(0)));
                    assert_eq!(stored_slot_bytes(image), Some(u64::from(rest.kind.bytes)));
                    end += rest.kind.bytes;
                }
                assert_eq!(end, slot_kind(whole).bytes);
            }
        }
    }

    #[test]
    fn a_value_in_several_parts_has_its_own_link() {
        let value: Vec<u8> = (0..100).collect();
        let slot = |(number, length): (u64, usize)| {
            let at = Remote::new(NodeId(0), Memory::Host, (number + 1) << 22).expect("it is not 0");
            MemorySlot { at, version: Some(4), is_zero: false, kind: slot_kind(length) }
        };
        let mut slots: Vec<_> = (0..).zip([32, 68, list_bytes(2)]).map(slot).collect();
        let (link, images) = lay_out_pieces(INDEX_NUMBER, &value, &[32, 68], &mut slots);
        assert_eq!((link.at, link.length, link.parts, images.len()), (slots[2].at, 100, 2, 3));
        assert_eq!(Link::from_bytes(&link.to_bytes()), Some(link));
        assert!(!link.is_one_object());
        assert_eq!(RawOverflow::check(&images[2].1, &link.list().expected(INDEX_NUMBER)), Ok(()));
        assert_eq!(listed(&images[2].1[HEADER_BYTES..], 100).map(|parts| parts.len()), Some(2));
    }

    #[test]
    fn a_flipped_bit_is_detected() {
        let (link, images) = lay_out(INDEX_NUMBER, &[3; 100], &mut slots(100));
        let image = &images[0].1;
        for bit in (0..8 * image.len()).filter(|bit| !(9 * 8..12 * 8).contains(bit)) {
            let mut image = image.clone();
            image[bit / 8] ^= 1 << (bit % 8);
            let in_slot_bytes = (SLOT_BYTES * 8..SLOT_BYTES * 8 + 32).contains(&bit);
            assert_eq!(
                RawOverflow::check(&image, &link.expected(INDEX_NUMBER)).is_ok(),
                in_slot_bytes,
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_list_of_parts_that_no_writer_writes_is_refused() {
        let at = |part: u64| Remote::from_word((part + 1) << 22).expect("it is not null");
        let list = |lengths: &[u32]| -> Vec<u8> {
            let link = |(part, &length): (usize, &u32)| {
                [&at(part as u64).word().to_le_bytes()[..], &[0; 4], &length.to_le_bytes()].concat()
            };
            lengths.iter().enumerate().flat_map(link).collect()
        };
        let part = PART_BYTES_MAX as u32;
        assert_eq!(listed(&list(&[part, 5]), part + 5).map(|parts| parts.len()), Some(2));
        for (lengths, length) in [
            (&[0xFFFF_FFF8; 3][..], part + 5),
            (&[part + 1, 4], part + 5),
            (&[part, 6], part + 5),
            (&[part], part + 5),
            (&[], part + 5),
        ] {
            assert_eq!(listed(&list(lengths), length), None, "{lengths:?}");
        }
        assert_eq!(Link::new(at(0), 1, VALUE_BYTES_MAX as u32 + 1), None);
    }

    #[test]
    fn long_values_have_parts_and_a_list() {
        let length = 2 * PART_BYTES_MAX + 5;
        assert_eq!(lengths(length).collect::<Vec<_>>(), [PART_BYTES_MAX, PART_BYTES_MAX, 5, 48]);
        assert_eq!(lengths(PART_BYTES_MAX).count(), 1);
        let mut slots = slots(length);
        let (link, images) = lay_out(INDEX_NUMBER, &vec![1; length], &mut slots);
        assert_eq!((images.len(), link.at, link.length as usize), (4, slots[3].at, length));
        assert_eq!(RawOverflow::check(&images[3].1, &link.list().expected(INDEX_NUMBER)), Ok(()));
    }
}
