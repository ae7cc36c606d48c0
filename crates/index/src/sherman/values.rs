//! Values of any length in entries of one size: short values in the entry, others as overflow values
//! ([`overflow`](crate::memory::overflow)).
//!
//! ```text
//! field of an entry for a value of any length; V bytes, little endian
//! +  0   4      length of the value; for an overflow value, the bits above hold the number of its parts
//! +  4   V-4    a value of at most V-4 bytes, followed by zeros; for a longer value:
//! +  4   4      version of its overflow object
//! +  8   8      remote pointer to its overflow object
//! ```

use super::Sherman;
use super::change::Exchanged;
use super::layout::{Layout, VALUE_SLOT_BYTES, Values};
use super::leaf::Change;
use crate::error::IndexError;
use crate::memory::adopt::SLOT_BYTES_MAX;
use crate::memory::overflow::{self, Link, OverflowValue, RawOverflow, VALUE_BYTES_MAX};
use crate::memory::overflow_store::{self, OverflowMemory, UnlinkedValue};
use crate::memory::slot::{MemorySlot, SlotKind};
use crate::mutant::Mutant;
use crate::op::Op;
use crate::outcome::KeyBefore;
use farwood_fabric::{Client, Fabric, Remote, Words, read_bytes, u32_at, u64_at};
use std::ops::Range;

/// Bytes in front of a value in its entry.
const LENGTH_BYTES: usize = 4;
const VERSION: usize = 4;
const POINTER: usize = 8;

/// The field of an entry for a value, before it is written.
pub(super) struct ValueField {
    bytes: [u8; VALUE_SLOT_BYTES.end - 1],
    length: usize,
}

impl ValueField {
    fn new(layout: &Layout, length: usize) -> Self {
        let mut field = Self { bytes: [0; VALUE_SLOT_BYTES.end - 1], length: layout.value_bytes };
        field.bytes[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
        field
    }

    fn inline(layout: &Layout, value: &[u8]) -> Self {
        assert!(value.len() <= layout.inline_bytes_max(), "longer values are overflow values");
        let mut field = Self::new(layout, value.len());
        field.bytes[LENGTH_BYTES..LENGTH_BYTES + value.len()].copy_from_slice(value);
        field
    }

    fn linked(layout: &Layout, link: Link) -> Self {
        let length = link.length as usize;
        assert!(length > layout.inline_bytes_max() && length <= VALUE_BYTES_MAX, "shorter values are inline");
        let mut field = Self::new(layout, length);
        field.bytes[..LENGTH_BYTES].copy_from_slice(&link.length_word().to_le_bytes());
        field.bytes[VERSION..POINTER].copy_from_slice(&link.version.to_le_bytes());
        field.bytes[POINTER..POINTER + 8].copy_from_slice(&link.at.word().to_le_bytes());
        field
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A value that is ready to be written to its entry.
pub(super) enum NewValue {
    /// A value of the length that all values have.
    Fixed(Vec<u8>),
    Field(ValueField),
    /// The link to an overflow value, which is written.
    Overflow(ValueField, UnlinkedValue),
}

impl NewValue {
    /// The bytes of its entry.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Fixed(value) => value,
            Self::Field(field) | Self::Overflow(field, _) => field.bytes(),
        }
    }
}

/// A value in its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredValue<'s> {
    Inline(&'s [u8]),
    Overflow(Link),
    /// The field is corrupt.
    Invalid,
}

impl Layout {
    /// Bytes of the longest value that is stored in its entry, in a tree with values of any length.
    pub fn inline_bytes_max(&self) -> usize {
        self.value_bytes - LENGTH_BYTES
    }

    /// Decodes the value field of an entry.
    pub(super) fn stored<'s>(&self, field: &'s [u8]) -> StoredValue<'s> {
        debug_assert_eq!(field.len(), self.value_bytes, "every entry has a field of this length");
        if self.values == Values::Fixed {
            return StoredValue::Inline(field);
        }
        let number = |at: usize| u32_at(field, at);
        let length = number(0);
        if length as usize <= self.inline_bytes_max() {
            return StoredValue::Inline(&field[LENGTH_BYTES..LENGTH_BYTES + length as usize]);
        }
        let word = u64_at(field, POINTER);
        let link = Remote::from_word(word).and_then(|at| Link::new(at, number(VERSION), length));
        link.map_or(StoredValue::Invalid, StoredValue::Overflow)
    }

    /// The bytes of the inline value of leaf entry `slot`, which has `length` bytes.
    pub(super) fn inline_value(&self, slot: usize, length: usize) -> Range<usize> {
        let start = self.entry_value(slot).start + LENGTH_BYTES;
        start..start + length
    }

    /// The link in a value field, if the value is an overflow value.
    pub(super) fn link(&self, field: &[u8]) -> Option<Link> {
        match self.stored(field) {
            StoredValue::Overflow(link) => Some(link),
            StoredValue::Inline(_) | StoredValue::Invalid => None,
        }
    }
}

impl<F: Fabric> OverflowMemory for Op<'_, F, Sherman> {
    fn index(&self) -> u64 {
        self.index.layout.index
    }

    async fn allocate(&self, kind: SlotKind) -> Result<MemorySlot<RawOverflow>, IndexError> {
        Ok(Op::allocate(*self, kind).await?.cast())
    }

    fn take_at_most(&self, kind: SlotKind) -> Option<MemorySlot<RawOverflow>> {
        self.index.allocator.take_free(|free| free.take_at_most(kind))
    }

    fn take_larger(&self, kind: SlotKind) -> Option<MemorySlot<RawOverflow>> {
        self.index.allocator.take_free(|free| free.take_larger(kind, SLOT_BYTES_MAX as u32))
    }

    fn add_rests(&self, rests: Vec<MemorySlot<RawOverflow>>) {
        self.index.allocator.receive(rests.into_iter().map(MemorySlot::cast));
    }

    fn take_back(&self, slot: MemorySlot<RawOverflow>) {
        self.index.allocator.take_back(slot);
    }
}

impl<F: Fabric> Op<'_, F, Sherman> {
    /// As [`exchange`](Self::exchange), for values of any length. [0 RT more; 1 for an overflow value; 1 to replace an
    /// overflow value of several parts]
    pub(super) async fn change_any_length(
        self,
        key: &[u8],
        change: Change<'_>,
    ) -> Result<KeyBefore, IndexError> {
        let Some(value) = change.value() else {
            let removed = self.exchange(key, change).await?;
            return Ok(self.free_replaced(removed).await);
        };
        let new = self.value_field(value).await?;
        let exchanged = self.exchange(key, change.of(new.bytes())).await;
        Ok(self.free_replaced(self.linked(new, exchanged)?).await)
    }

    /// Prepares a value of any length for its entry. [0 RT; 1 for an overflow value]
    async fn value_field(self, value: &[u8]) -> Result<NewValue, IndexError> {
        let layout = &self.index.layout;
        if value.len() <= layout.inline_bytes_max() {
            return Ok(NewValue::Field(ValueField::inline(layout, value)));
        }
        let stored = overflow_store::store(self.client, &self, value).await?;
        Ok(NewValue::Overflow(ValueField::linked(layout, stored.link), stored))
    }

    /// Prepares a value for its entry. [0 RT; 1 for an overflow value]
    pub(super) async fn new_value(self, value: Vec<u8>) -> Result<NewValue, IndexError> {
        match self.index.layout.values {
            Values::Fixed => Ok(NewValue::Fixed(value)),
            Values::AnyLength => self.value_field(&value).await,
        }
    }

    /// Frees a new overflow value that its change has not linked. Returns the result of the change.
    pub(super) fn linked(
        self,
        new: NewValue,
        exchanged: Result<Exchanged, IndexError>,
    ) -> Result<Exchanged, IndexError> {
        let is_unused = match &exchanged {
            Ok(exchanged) => !exchanged.placed,
            Err(error) => !error.may_be_written(),
        };
        if let NewValue::Overflow(_, stored) = new
            && is_unused
        {
            UnlinkedValue::free(stored, &self);
        }
        exchanged
    }

    /// Frees the overflow value that a change replaced.
    pub(super) async fn free_replaced(self, exchanged: Exchanged) -> KeyBefore {
        if overflow_store::free(self.client, &self, exchanged.replaced).await {
            let _ = self.share_free_slots().await;
        }
        exchanged.before
    }

    /// Reads the value that `link` points to; returns `None` if it was replaced or removed after the link was read. [1
    /// RT; 2 for a value of several parts]
    pub(super) async fn read_overflow(self, link: Link) -> Result<Option<OverflowValue>, IndexError> {
        if self.index.layout.mutant == Some(Mutant::OverflowUnchecked) {
            let (at, length) = (link.at.part::<Words>(overflow::HEADER_BYTES as u64), link.length as usize);
            let read = read_bytes(at, length.next_multiple_of(8));
            let bytes = self.client.post(read).await?.whole_words();
            return Ok(Some(OverflowValue::Joined(bytes[..length].to_vec())));
        }
        overflow_store::read(self.client, self.index.layout.index, link).await
    }
}

impl Sherman {
    /// Builds the value field of a bulk-loaded entry, and the overflow objects that the loader writes before it links
    /// the entry. They are stored in slots that never held an object, which are added to `slots`.
    pub(super) async fn bulk_value_field<F: Fabric>(
        &self,
        client: &Client<F>,
        value: &[u8],
        slots: &mut Vec<MemorySlot<RawOverflow>>,
    ) -> Result<(ValueField, Vec<overflow::Image>), IndexError> {
        if value.len() <= self.layout.inline_bytes_max() {
            return Ok((ValueField::inline(&self.layout, value), Vec::new()));
        }
        let first = slots.len();
        for length in overflow::lengths(value.len()) {
            slots.push(self.allocator.allocate_new(client, overflow::slot_kind(length)).await?);
        }
        let (link, images) = overflow::lay_out(self.layout.index, value, &mut slots[first..]);
        Ok((ValueField::linked(&self.layout, link), images))
    }
}

const _: () = assert!(LENGTH_BYTES == VERSION && POINTER + 8 == VALUE_SLOT_BYTES.start);
