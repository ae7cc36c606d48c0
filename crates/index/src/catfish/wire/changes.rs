//! Requests of several changes, and their responses (kind 8 of [`message`](super::message)). All functions are pure.

use super::super::tree::change::{CHANGES_MAX, Change};
use super::message::{ITEM_WORDS, Request};
use super::records::{encode_record_change, record_change_words, take_record_change};

/// The kind of a request to make several changes.
const CHANGES: u64 = 8;
/// Bits of a word of a response, one for each change.
const BITS: usize = u64::BITS as usize;

/// Words of a change in a request of several changes.
fn change_words(change: &Change) -> usize {
    match change {
        Change::Insert(_) | Change::Remove(_) => 1 + ITEM_WORDS,
        Change::Update(..) => 1 + ITEM_WORDS + 4,
        of_record => record_change_words(of_record).unwrap_or_default(),
    }
}

/// Appends the words of a change.
fn encode_change(change: &Change, words: &mut Vec<u64>) {
    match change {
        Change::Insert(item) => Request::Insert(*item).encode(words),
        Change::Remove(item) => Request::Remove(*item).encode(words),
        Change::Update(item, bounds) => Request::Update(*item, *bounds).encode(words),
        of_record => encode_record_change(of_record, words),
    }
}

/// Takes a change off the front of `words`; `None`: they are not one.
fn take_change(words: &mut &[u64]) -> Option<Change> {
    let change = match Request::decode(words) {
        Some(Request::Insert(item)) => Change::Insert(item),
        Some(Request::Remove(item)) => Change::Remove(item),
        Some(Request::Update(item, bounds)) => Change::Update(item, bounds),
        Some(_) => return None,
        None => return take_record_change(words),
    };
    *words = words.get(change_words(&change)..)?;
    Some(change)
}

/// The number of the first changes that one request of `words_max` words can carry; at least 1.
pub(in crate::catfish) fn changes_that_fit(changes: &[Change], words_max: usize) -> usize {
    let mut words = 1;
    let fits = |change: &&Change| {
        words += change_words(change);
        words <= words_max
    };
    changes.iter().take(CHANGES_MAX).take_while(fits).count().max(1)
}

/// Appends the words of a request to make `changes`.
pub(in crate::catfish) fn encode_changes(changes: &[Change], words: &mut Vec<u64>) {
    debug_assert!((1..=CHANGES_MAX).contains(&changes.len()), "{} changes", changes.len());
    words.push(CHANGES);
    for change in changes {
        encode_change(change, words);
    }
}

/// Decodes a request to make changes; `None`: it is another request, or the words are no request.
pub(in crate::catfish) fn decode_changes(words: &[u64]) -> Option<Vec<Change>> {
    let [CHANGES, rest @ ..] = words else { return None };
    let (mut rest, mut changes) = (rest, Vec::new());
    while !rest.is_empty() && changes.len() < CHANGES_MAX {
        changes.push(take_change(&mut rest)?);
    }
    (rest.is_empty() && !changes.is_empty()).then_some(changes)
}

/// The words of a response that state which changes found their items.
pub(in crate::catfish) fn found_words(found: &[bool]) -> Vec<u64> {
    let word = |bits: &[bool]| bits.iter().rev().fold(0, |word, bit| word << 1 | u64::from(*bit));
    found.chunks(BITS).map(word).collect()
}

/// Decodes which of `changes` changes found their items; `None`: the words do not state that.
pub(in crate::catfish) fn found_of(words: &[u64], changes: usize) -> Option<Vec<bool>> {
    let bits = |word: &u64| {
        (0..BITS)
            .map({
                let word = *word;
                move |bit| word >> bit & 1 == 1
            })
            .collect::<Vec<_>>()
    };
    let mut found: Vec<_> = words.iter().flat_map(bits).collect();
    let rest = found.split_off(changes.min(found.len()));
    (words.len() == changes.div_ceil(BITS) && !rest.contains(&true)).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::super::super::records::{Record, RecordId};
    use super::super::super::tree::rectangle::{Item, Rectangle};
    use super::super::message::{decode_load, item_of};
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn change() -> impl Strategy<Value = Change> {
        let bounds = (0..9i32, 0..9i32).prop_map(|(x, y)| Rectangle::point([x.into(), y.into()]).unwrap());
        let item = (bounds.clone(), any::<u64>()).prop_map(|(bounds, id)| Item { bounds, id });
        prop_oneof![
            item.clone().prop_map(Change::Insert),
            item.clone().prop_map(Change::Remove),
            (item, bounds.clone()).prop_map(|(item, bounds)| Change::Update(item, bounds)),
            (bounds.clone(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..20)).prop_map(
                |(bounds, id, payload)| Change::Put(Arc::new(Record { id: id.into(), bounds, payload }))
            ),
            "[a-z]{1,9}".prop_map(|text| Change::Delete(RecordId::from(&*text))),
            ("[a-z]{1,9}", bounds).prop_map(|(text, bounds)| Change::Move(RecordId::from(&*text), bounds)),
        ]
    }

    proptest! {
        /// A client splits changes into requests that fit, and the server decodes all of them and nothing else.
        #[test]
        fn changes_are_split_into_requests_and_read_back(
            changes in prop::collection::vec(change(), 1..90),
            words_max in 12..200usize,
        ) {
            let (mut rest, mut decoded) = (&changes[..], Vec::new());
            while !rest.is_empty() {
                let (request, after) = rest.split_at(changes_that_fit(rest, words_max));
                let mut words = Vec::new();
                encode_changes(request, &mut words);
                prop_assert!(words.len() <= words_max);
                prop_assert!(after.first().is_none_or(|next| words.len() + change_words(next) > words_max));
                prop_assert_eq!(decode_changes(&words), Some(request.to_vec()));
                prop_assert_eq!((Request::decode(&words), decode_load(&words)), (None, None));
                words.push(0);
                prop_assert_eq!(decode_changes(&words), None, "a word too many");
                decoded.extend_from_slice(request);
                rest = after;
            }
            prop_assert_eq!(decoded, changes);
        }

        #[test]
        fn which_changes_found_their_items_is_read_back(found in prop::collection::vec(any::<bool>(), 1..200)) {
            let mut words = found_words(&found);
            prop_assert_eq!(found_of(&words, found.len()), Some(found.clone()));
            prop_assert_eq!(found_of(&words, found.len() + 64), None);
            if found.len() % 64 > 0 {
                *words.last_mut().unwrap() |= 1 << 63;
                prop_assert_eq!(found_of(&words, found.len()), None, "a bit without a change");
            }
        }

        /// Neither damaged nor arbitrary words make a decoder panic, and what they decode to is encoded in that way.
        #[test]
        fn arbitrary_words_are_decoded_without_panic(
            mut words in prop::collection::vec(prop_oneof![0..10u64, any::<u64>(), Just(1.5f64.to_bits())], 0..40),
            kind in 0..10u64,
        ) {
            words.insert(0, kind);
            let _ = (Request::decode(&words), decode_load(&words), found_of(&words, 70), item_of(&words));
            if let Some(changes) = decode_changes(&words) {
                let mut again = Vec::new();
                encode_changes(&changes, &mut again);
                prop_assert_eq!(again, words);
            }
        }
    }

    #[test]
    fn a_request_has_at_least_one_change_and_at_most_the_limit() {
        assert_eq!(decode_changes(&[CHANGES]), None);
        let item = Item { bounds: Rectangle::point([1.0, 2.0]).unwrap(), id: 3 };
        let changes = vec![Change::Remove(item); CHANGES_MAX + 1];
        assert_eq!(changes_that_fit(&changes, usize::MAX), CHANGES_MAX);
        let mut words = vec![CHANGES];
        for change in &changes {
            encode_change(change, &mut words);
        }
        assert_eq!(decode_changes(&words), None);
        assert!(decode_changes(&words[..words.len() - 6]).is_some());
    }
}
