//! The contents of an index in blocks: entries, rectangles, records. No part continues in the next block.
//!
//! ```text
//! entry:     + 0  2  bytes of the key that are those of the entry before it in the block
//!            + 2  2  other bytes of the key     + 4  4  bytes of the value     then both
//! rectangle: + 0 32  least x, least y, greatest x, greatest y, each an f64     + 32  8  the number
//! record:    + 0 32  the rectangle              + 32  2  bytes of the id's text; 0: it is a number
//!            + 34 2  zero                       + 36  4  bytes of the payload
//!            then     the id: a number of 8 bytes or a text; the payload
//! ```

#[cfg(feature = "spatial")]
use farwood_index::catfish::{Item, Record, RecordId, Rectangle};

const RECTANGLE_BYTES: usize = 32;
const ITEM_BYTES: usize = 40;

/// Appends an entry to a block, whose entry before has the key `before`.
pub(super) fn push_entry(block: &mut Vec<u8>, before: &[u8], (key, value): (&[u8], &[u8])) {
    let shared = before.iter().zip(key).take_while(|(a, b)| a == b).count();
    block.extend((shared as u16).to_le_bytes());
    block.extend(((key.len() - shared) as u16).to_le_bytes());
    block.extend((value.len() as u32).to_le_bytes());
    block.extend(&key[shared..]);
    block.extend(value);
}

/// The parts of a block that are left. A method returns `None` if the bytes are not a part.
#[derive(Debug)]
pub(super) struct Parts<'b>(pub(super) &'b [u8]);

impl<'b> Parts<'b> {
    fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let (front, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    /// Replaces the key of the entry before by that of the next one; returns the value.
    pub(super) fn entry(&mut self, key: &mut Vec<u8>) -> Option<&'b [u8]> {
        let [a, b, c, d, value @ ..] = self.array::<8>()?;
        let shared = usize::from(u16::from_le_bytes([a, b]));
        if shared > key.len() {
            return None;
        }
        let rest = self.take(u16::from_le_bytes([c, d]).into())?;
        key.truncate(shared);
        key.extend(rest);
        self.take(u32::from_le_bytes(value) as usize)
    }

    /// Passes over a rectangle with its number.
    pub(super) fn skip_item(&mut self) -> Option<()> {
        self.take(ITEM_BYTES).map(drop)
    }

    /// Passes over a record.
    pub(super) fn skip_record(&mut self) -> Option<()> {
        self.take(RECTANGLE_BYTES)?;
        let lengths = self.record_lengths()?;
        self.take(lengths.id() + lengths.payload).map(drop)
    }

    fn record_lengths(&mut self) -> Option<RecordLengths> {
        let [a, b, 0, 0, payload @ ..] = self.array::<8>()? else { return None };
        let text = usize::from(u16::from_le_bytes([a, b]));
        Some(RecordLengths { text, payload: u32::from_le_bytes(payload) as usize })
    }
}

/// The lengths within a record.
struct RecordLengths {
    /// 0: the id is a number.
    text: usize,
    payload: usize,
}

impl RecordLengths {
    fn id(&self) -> usize {
        if self.text == 0 { size_of::<u64>() } else { self.text }
    }
}

#[cfg(feature = "spatial")]
fn push_rectangle(block: &mut Vec<u8>, bounds: &Rectangle) {
    block.extend(bounds.edges().iter().flat_map(|edge| edge.to_le_bytes()));
}

/// Appends a rectangle with its number.
#[cfg(feature = "spatial")]
pub(super) fn push_item(block: &mut Vec<u8>, item: &Item) {
    push_rectangle(block, &item.bounds);
    block.extend(item.id.to_le_bytes());
}

/// Appends a record.
#[cfg(feature = "spatial")]
pub(super) fn push_record(block: &mut Vec<u8>, record: &Record) {
    push_rectangle(block, &record.bounds);
    let text = match &record.id {
        RecordId::Number(_) => "",
        RecordId::Text(text) => text,
    };
    block.extend((text.len() as u16).to_le_bytes());
    block.extend([0, 0]);
    block.extend((record.payload.len() as u32).to_le_bytes());
    match &record.id {
        RecordId::Number(number) => block.extend(number.to_le_bytes()),
        RecordId::Text(text) => block.extend(text.as_bytes()),
    }
    block.extend(&record.payload);
}

#[cfg(feature = "spatial")]
impl Parts<'_> {
    fn rectangle(&mut self) -> Option<Rectangle> {
        let mut edges = [0.0; 4];
        for edge in &mut edges {
            *edge = f64::from_le_bytes(self.array()?);
        }
        Rectangle::new([edges[0], edges[1]], [edges[2], edges[3]]).ok()
    }

    pub(super) fn item(&mut self) -> Option<Item> {
        Some(Item { bounds: self.rectangle()?, id: u64::from_le_bytes(self.array()?) })
    }

    pub(super) fn record(&mut self) -> Option<Record> {
        let bounds = self.rectangle()?;
        let lengths = self.record_lengths()?;
        let id = match lengths.text {
            0 => RecordId::Number(u64::from_le_bytes(self.array()?)),
            bytes => RecordId::Text(std::str::from_utf8(self.take(bytes)?).ok()?.into()),
        };
        Some(Record { id, bounds, payload: self.take(lengths.payload)?.to_vec() })
    }
}
