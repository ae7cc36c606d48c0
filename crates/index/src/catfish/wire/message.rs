//! Messages between clients and the server of a spatial index: the encoding of requests and responses. All functions
//! are pure.
//!
//! ```text
//! request, words after the header          response, words after the header
//! + 0  responses consumed, bytes           + 0  requests consumed, bytes
//! + 1  kind, below                         + 1  status: 0 done, 1 there was no such item, 2 refused,
//! + 2  operands                                 3 the pool is full, 4 not empty, 5 damaged,
//!                                                6 too many ids have the same hash
//!                                          + 2  number of items in all; if the pool is full, its chunks
//! 1 search: relation, window               + 3  items of this segment, 5 words each: edges, number
//! 2 count: relation, window
//! 3 nearest: x, y, count                a window and a rectangle: least x, least y, greatest x, greatest y
//! 4 insert: rectangle, number              relation: 0 intersects, 1 within, 2 contains
//! 5 remove: rectangle, number
//! 6 update: rectangle, number, rectangle
//! 7 load: share of a node to fill, items; over a socket only, because it does not fit into a ring
//! 8 changes, 1 to 1,024: requests of the kinds 4 to 6 and 10 to 12, one after the other, made in one commit
//! 9 offloaded: lookups that the client has executed by READs since its last report
//! 10 to 15: records (`records.rs`)
//! ```
//!
//! Coordinates are doubles. A request has one segment, a response as many as it needs. The response to kind 8 has words
//! of bits in the place of items, one bit for each change, from the lowest bit of the first word on: 1 if the change
//! found its item. Its number of items is that of the bits that are 1.

use super::super::tree::rectangle::{Item, Query, Rectangle, Relation};
use crate::error::IndexError;

/// A request to the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request {
    /// Finds the items that match.
    Search(Query),
    /// Counts the items that match.
    Count(Query),
    /// Finds the items nearest to a point, up to a number.
    Nearest([f64; 2], u64),
    /// Adds an item.
    Insert(Item),
    /// Removes an item.
    Remove(Item),
    /// Gives an item other bounds.
    Update(Item, Rectangle),
    /// Reports the number of lookups that the client has executed by READs since its last report.
    Offloaded(u64),
}

/// Words of a response before its items.
pub(in crate::catfish) const RESPONSE_HEAD_WORDS: usize = 3;
/// Words of an item.
pub(in crate::catfish) const ITEM_WORDS: usize = 5;

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// `false`: there was no such item.
    pub done: bool,
    /// The number of items found.
    pub count: u64,
}

/// The status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::catfish) enum Status {
    Done,
    NoSuchItem,
    Refused,
    PoolFull,
    NotEmpty,
    Damaged,
    SameHash,
}

impl Status {
    /// The result that a client returns for this status.
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] for a request that the server does not know, [`IndexError::NotEmpty`],
    /// [`IndexError::Damaged`], [`IndexError::SameHash`], a full pool.
    pub(in crate::catfish) fn reply(self, count: u64) -> Result<Reply, IndexError> {
        match self {
            Self::Done | Self::NoSuchItem => Ok(Reply { done: self == Self::Done, count }),
            Self::Refused => Err(IndexError::BadSizes("the server does not know this request".to_owned())),
            Self::NotEmpty => Err(IndexError::NotEmpty),
            Self::SameHash => Err(IndexError::SameHash),
            Self::Damaged => Err(IndexError::Damaged {
                operation: "message",
                at: "the tree".to_owned(),
                what: "the server found a damaged node, which a check names".to_owned(),
            }),
            Self::PoolFull => {
                let chunk_bytes = farwood_fabric::chunks::CHUNK_BYTES;
                Err(farwood_fabric::FabricError::PoolFull { chunks: count, chunk_bytes }.into())
            }
        }
    }

    pub(in crate::catfish) const fn word(self) -> u64 {
        self as u64
    }

    pub(in crate::catfish) const fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => Some(Self::Done),
            1 => Some(Self::NoSuchItem),
            2 => Some(Self::Refused),
            3 => Some(Self::PoolFull),
            4 => Some(Self::NotEmpty),
            5 => Some(Self::Damaged),
            6 => Some(Self::SameHash),
            _ => None,
        }
    }
}

pub(super) fn edges(bounds: &Rectangle) -> [u64; 4] {
    [bounds.min()[0], bounds.min()[1], bounds.max()[0], bounds.max()[1]].map(f64::to_bits)
}

pub(super) fn rectangle(words: &[u64]) -> Option<Rectangle> {
    let [min_x, min_y, max_x, max_y] = <[u64; 4]>::try_from(words.get(..4)?).ok()?.map(f64::from_bits);
    Rectangle::new([min_x, min_y], [max_x, max_y]).ok()
}

/// The words of an item.
pub(in crate::catfish) fn item_words(item: &Item) -> [u64; ITEM_WORDS] {
    let [min_x, min_y, max_x, max_y] = edges(&item.bounds);
    [min_x, min_y, max_x, max_y, item.id]
}

/// Decodes an item; `None`: the words are not an item.
pub(in crate::catfish) fn item_of(words: &[u64]) -> Option<Item> {
    Some(Item { bounds: rectangle(words)?, id: *words.get(4)? })
}

impl Request {
    /// Appends the words of the request.
    pub(in crate::catfish) fn encode(&self, words: &mut Vec<u64>) {
        let begin = words.len();
        let query = |words: &mut Vec<u64>, kind, query: &Query| {
            words.extend([kind, query.relation as u64]);
            words.extend(edges(&query.window));
        };
        match self {
            Self::Search(asked) => query(words, 1, asked),
            Self::Count(asked) => query(words, 2, asked),
            Self::Nearest(point, count) => words.extend([3, point[0].to_bits(), point[1].to_bits(), *count]),
            Self::Insert(item) => {
                words.push(4);
                words.extend(item_words(item));
            }
            Self::Remove(item) => {
                words.push(5);
                words.extend(item_words(item));
            }
            Self::Update(item, bounds) => {
                words.push(6);
                words.extend(item_words(item));
                words.extend(edges(bounds));
            }
            Self::Offloaded(count) => words.extend([9, *count]),
        }
        debug_assert!(
            matches!(self, Self::Nearest(point, _) if !point.iter().all(|at| at.is_finite()))
                || Self::decode(&words[begin..]) == Some(*self),
            "the server decodes what the client encodes, except a point that is not finite"
        );
    }

    /// Decodes a request; `None`: the words are not a request.
    pub(in crate::catfish) fn decode(words: &[u64]) -> Option<Self> {
        let (&kind, rest) = words.split_first()?;
        let query = || {
            let relation = match rest.first()? {
                0 => Relation::Intersects,
                1 => Relation::Within,
                2 => Relation::Contains,
                _ => return None,
            };
            Some(Query { window: rectangle(&rest[1..])?, relation })
        };
        match kind {
            1 => Some(Self::Search(query()?)),
            2 => Some(Self::Count(query()?)),
            3 => {
                let &[x, y, count] = rest else { return None };
                let point = [f64::from_bits(x), f64::from_bits(y)];
                point.iter().all(|at| at.is_finite()).then_some(Self::Nearest(point, count))
            }
            4 => Some(Self::Insert(item_of(rest)?)),
            5 => Some(Self::Remove(item_of(rest)?)),
            6 => Some(Self::Update(item_of(rest)?, rectangle(rest.get(5..)?)?)),
            9 => Some(Self::Offloaded(*rest.first()?)),
            _ => None,
        }
    }
}

/// The kind of a request to load items into the empty tree.
const LOAD: u64 = 7;

/// Appends the words of a request to load `items`, filling nodes to the share `fill`.
pub(in crate::catfish) fn encode_load(items: &[Item], fill: f64, words: &mut Vec<u64>) {
    words.extend([LOAD, fill.to_bits()]);
    words.extend(items.iter().flat_map(item_words));
}

/// Decodes a request to load items: the items, and the share to which nodes are filled; `None`: it is another request.
pub(in crate::catfish) fn decode_load(words: &[u64]) -> Option<(Vec<Item>, f64)> {
    let [LOAD, fill, items @ ..] = words else { return None };
    let (fill, whole) = (f64::from_bits(*fill), items.len().is_multiple_of(ITEM_WORDS));
    let items = items.chunks_exact(ITEM_WORDS).map(item_of).collect::<Option<_>>()?;
    (whole && (0.0..=1.0).contains(&fill)).then_some((items, fill))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_back_and_other_words_are_refused() {
        let bounds = Rectangle::new([-1.5, 2.0], [3.0, 4.25]).unwrap();
        let (item, window) = (Item { bounds, id: u64::MAX }, bounds);
        let requests = [
            Request::Search(Query { window, relation: Relation::Within }),
            Request::Count(Query { window, relation: Relation::Contains }),
            Request::Nearest([0.5, -0.5], 9),
            Request::Insert(item),
            Request::Remove(item),
            Request::Update(item, Rectangle::point([7.0, 8.0]).unwrap()),
            Request::Offloaded(12),
        ];
        for request in requests {
            let mut words = Vec::new();
            request.encode(&mut words);
            assert_eq!(Request::decode(&words), Some(request));
            for cut in 0..words.len() {
                assert_eq!(Request::decode(&words[..cut]), None, "{request:?} cut at {cut}");
            }
        }
        assert_eq!(Request::decode(&[1, 0, f64::NAN.to_bits(), 0, 0, 0]), None);
        assert_eq!(Request::decode(&[16, 0]), None);
        let mut words = Vec::new();
        encode_load(&[item, item], 0.7, &mut words);
        assert_eq!(decode_load(&words), Some((vec![item, item], 0.7)));
        assert_eq!((decode_load(&words[..11]), Request::decode(&words)), (None, None));
    }
}
