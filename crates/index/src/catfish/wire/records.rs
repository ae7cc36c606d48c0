//! Records in messages. All functions are pure.
//!
//! ```text
//! id:      bytes of the text, 0 for a number | number | text, padded to words
//! record:  id | rectangle, 4 | bytes of the payload | payload, padded to words
//!
//! request, words from the kind on          (numbers of kinds continue those of `message.rs`)
//! 10 put: record      11 delete: id      12 move: id, rectangle      in requests of several changes (kind 8)
//! 13 get: id          14 search: relation, window                    15 nearest: x, y, count
//!
//! response to 13, 14 and 15: the records, one after the other, divided among the segments at any word
//! ```

use super::super::records::{Record, RecordId, TEXT_MAX};
use super::super::tree::change::Change;
use super::super::tree::rectangle::{Query, Rectangle};
use super::message::{Request, edges, rectangle};
use std::sync::Arc;

const PUT: u64 = 10;
const DELETE: u64 = 11;
const MOVE: u64 = 12;
const GET: u64 = 13;
const SEARCH: u64 = 14;
const NEAREST: u64 = 15;

/// A request for records.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordLookup {
    /// The record of an id.
    Get(RecordId),
    /// The records that match.
    Search(Query),
    /// The records nearest to a point, up to a number.
    Nearest([f64; 2], u64),
}

/// Words of that many bytes.
const fn words_of(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

fn push_bytes(bytes: &[u8], words: &mut Vec<u64>) {
    let padded = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    words.extend(bytes.chunks(8).map(padded));
}

/// Takes `bytes` bytes, padded with zeros to words, off the front of `words`.
fn take_bytes(words: &mut &[u64], bytes: u64) -> Option<Vec<u8>> {
    let bytes = usize::try_from(bytes).ok()?;
    let (front, rest) = words.split_at_checked(words_of(bytes))?;
    let mut found: Vec<u8> = front.iter().flat_map(|word| word.to_le_bytes()).collect();
    let padding = found.split_off(bytes);
    *words = rest;
    padding.iter().all(|byte| *byte == 0).then_some(found)
}

fn take_word(words: &mut &[u64]) -> Option<u64> {
    let (&word, rest) = words.split_first()?;
    *words = rest;
    Some(word)
}

fn take_rectangle(words: &mut &[u64]) -> Option<Rectangle> {
    let bounds = rectangle(words)?;
    *words = &words[4..];
    Some(bounds)
}

fn push_id(id: &RecordId, words: &mut Vec<u64>) {
    let number = if let RecordId::Number(number) = id { *number } else { 0 };
    words.extend([id.text().len() as u64, number]);
    push_bytes(id.text().as_bytes(), words);
}

fn take_id(words: &mut &[u64]) -> Option<RecordId> {
    let (bytes, number) = (take_word(words)?, take_word(words)?);
    if bytes == 0 {
        return Some(RecordId::Number(number));
    }
    let text = String::from_utf8(take_bytes(words, bytes)?).ok()?;
    (text.len() <= TEXT_MAX && number == 0).then(|| RecordId::Text(text.into()))
}

fn id_words(id: &RecordId) -> usize {
    2 + words_of(id.text().len())
}

/// Appends the words of a record.
pub(in crate::catfish) fn push_record(record: &Record, words: &mut Vec<u64>) {
    push_id(&record.id, words);
    words.extend(edges(&record.bounds));
    words.push(record.payload.len() as u64);
    push_bytes(&record.payload, words);
}

fn take_record(words: &mut &[u64]) -> Option<Record> {
    let (id, bounds) = (take_id(words)?, take_rectangle(words)?);
    let bytes = take_word(words)?;
    Some(Record { id, bounds, payload: take_bytes(words, bytes)? })
}

/// Decodes the records of a response, of which there are `count`; `None`: the words are not that.
pub(in crate::catfish) fn decode_records(mut words: &[u64], count: u64) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    while !words.is_empty() {
        records.push(take_record(&mut words)?);
    }
    (records.len() as u64 == count).then_some(records)
}

/// Words of a change of a record in a request; `None`: it is a change of an item.
pub(super) fn record_change_words(change: &Change) -> Option<usize> {
    match change {
        Change::Put(record) => Some(1 + id_words(&record.id) + 4 + 1 + words_of(record.payload.len())),
        Change::Delete(id) => Some(1 + id_words(id)),
        Change::Move(id, _) => Some(1 + id_words(id) + 4),
        Change::Insert(_) | Change::Remove(_) | Change::Update(..) => None,
    }
}

/// Appends the words of a change of a record.
pub(super) fn encode_record_change(change: &Change, words: &mut Vec<u64>) {
    match change {
        Change::Put(record) => {
            words.push(PUT);
            push_record(record, words);
        }
        Change::Delete(id) => {
            words.push(DELETE);
            push_id(id, words);
        }
        Change::Move(id, bounds) => {
            words.push(MOVE);
            push_id(id, words);
            words.extend(edges(bounds));
        }
        Change::Insert(_) | Change::Remove(_) | Change::Update(..) => {}
    }
}

/// Takes a change of a record off the front of `words`; `None`: they are not one.
pub(super) fn take_record_change(words: &mut &[u64]) -> Option<Change> {
    match take_word(words)? {
        PUT => Some(Change::Put(Arc::new(take_record(words)?))),
        DELETE => Some(Change::Delete(take_id(words)?)),
        MOVE => Some(Change::Move(take_id(words)?, take_rectangle(words)?)),
        _ => None,
    }
}

impl RecordLookup {
    /// Appends the words of the request.
    pub(in crate::catfish) fn encode(&self, words: &mut Vec<u64>) {
        let kind_at = words.len();
        match self {
            Self::Get(id) => {
                words.push(GET);
                push_id(id, words);
            }
            Self::Search(query) => {
                Request::Search(*query).encode(words);
                words[kind_at] = SEARCH;
            }
            Self::Nearest(point, count) => {
                Request::Nearest(*point, *count).encode(words);
                words[kind_at] = NEAREST;
            }
        }
    }

    /// Decodes a request; `None`: the words are not a request for records.
    pub(in crate::catfish) fn decode(words: &[u64]) -> Option<Self> {
        let (&kind, mut rest) = words.split_first()?;
        let as_items = |kind: u64| {
            let mut words = words.to_vec();
            words[0] = kind;
            Request::decode(&words)
        };
        match kind {
            GET => take_id(&mut rest).filter(|_| rest.is_empty()).map(Self::Get),
            SEARCH => match as_items(1)? {
                Request::Search(query) => Some(Self::Search(query)),
                _ => None,
            },
            NEAREST => match as_items(3)? {
                Request::Nearest(point, count) => Some(Self::Nearest(point, count)),
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catfish::Relation;
    use proptest::prelude::*;

    fn id() -> impl Strategy<Value = RecordId> {
        prop_oneof![
            any::<u64>().prop_map(RecordId::Number),
            "[a-zä]{1,20}".prop_map(|text| RecordId::from(&*text))
        ]
    }

    proptest! {
        #[test]
        fn records_are_read_back(
            records in prop::collection::vec((id(), prop::collection::vec(any::<u8>(), 0..50)), 0..9),
        ) {
            let bounds = Rectangle::new([-1.5, 2.0], [3.0, 4.25]).unwrap();
            let record = |(id, payload)| Record { id, bounds, payload };
            let records: Vec<_> = records.into_iter().map(record).collect();
            let mut words = Vec::new();
            for record in &records {
                push_record(record, &mut words);
            }
            prop_assert_eq!(decode_records(&words, records.len() as u64), Some(records.clone()));
            prop_assert_eq!(decode_records(&words, records.len() as u64 + 1), None);
            words.push(7);
            prop_assert_eq!(decode_records(&words, records.len() as u64), None);
        }

        #[test]
        fn arbitrary_words_are_decoded_without_panic(
            mut words in prop::collection::vec(prop_oneof![0..10u64, any::<u64>()], 0..40),
            kind in 9..17u64,
        ) {
            words.insert(0, kind);
            let _ = (decode_records(&words, 1), take_record_change(&mut words.as_slice()));
            if let Some(lookup) = RecordLookup::decode(&words) {
                let mut again = Vec::new();
                lookup.encode(&mut again);
                prop_assert!(words.starts_with(&again));
            }
        }
    }

    #[test]
    fn lookups_are_read_back() {
        let window = Rectangle::new([-1.5, 2.0], [3.0, 4.25]).unwrap();
        let lookups = [
            RecordLookup::Get(RecordId::Number(7)),
            RecordLookup::Get(RecordId::from("oak")),
            RecordLookup::Search(Query { window, relation: Relation::Within }),
            RecordLookup::Nearest([0.5, 1.0], 9),
        ];
        for lookup in lookups {
            let mut words = Vec::new();
            lookup.encode(&mut words);
            assert_eq!(RecordLookup::decode(&words), Some(lookup));
            assert_eq!(Request::decode(&words), None);
        }
    }
}
