//! What a client asks of the server, whatever carries it: rings, or an ordinary socket.

use super::heartbeat::{PARTS, beat_of};
use super::message::{ITEM_WORDS, Request, Status, encode_load, item_of};
use super::rectangle::{Item, Query, Rectangle};
use super::{Answer, Count, Near, adaptive};
use crate::error::IndexError;

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// `false`: there was no such item.
    pub done: bool,
    /// How many items were found.
    pub count: u64,
}

/// A connection to the server of an index.
pub trait Talk {
    /// Sends a request, and adds to `found` what its response has.
    ///
    /// # Errors
    /// [`IndexError::ServerLost`], after which nobody knows whether a change was made; a full pool; the fabric's.
    fn call(
        &mut self,
        request: &Request,
        found: &mut impl Answer,
    ) -> impl Future<Output = Result<Reply, IndexError>>;

    /// The newest heartbeat, if one has come since the last that was taken. [0 RT]
    ///
    /// # Errors
    /// The fabric's.
    fn take_heartbeat(&mut self) -> Result<Option<f64>, IndexError>;

    /// Adds to `found` what the query is for, of the tree at one moment during the call. [1 RT, and the server's work]
    ///
    /// # Errors
    /// As [`call`](Self::call).
    fn search(
        &mut self,
        query: &Query,
        found: &mut impl Answer,
    ) -> impl Future<Output = Result<(), IndexError>> {
        async { self.call(&Request::Search(*query), found).await.map(|_| ()) }
    }

    /// How much matches. Costs and errors as [`search`](Self::search).
    ///
    /// # Errors
    /// As [`call`](Self::call).
    fn count(&mut self, query: &Query) -> impl Future<Output = Result<u64, IndexError>> {
        async { Ok(self.call(&Request::Count(*query), &mut Count::default()).await?.count) }
    }

    /// The `count` items nearest to `point`, nearest first. Costs and errors as [`search`](Self::search).
    ///
    /// # Errors
    /// As [`call`](Self::call).
    fn nearest(
        &mut self,
        point: [f64; 2],
        count: usize,
    ) -> impl Future<Output = Result<Vec<Near>, IndexError>> {
        async move {
            let mut items: Vec<Item> = Vec::new();
            self.call(&Request::Nearest(point, count as u64), &mut items).await?;
            let near = |item: Item| Near { item, distance_squared: item.bounds.distance_squared(point) };
            Ok(items.into_iter().map(near).collect())
        }
    }

    /// Adds an item. [1 RT, and the server's work]
    ///
    /// # Errors
    /// As [`call`](Self::call).
    fn insert(&mut self, item: &Item) -> impl Future<Output = Result<(), IndexError>> {
        async { self.call(&Request::Insert(*item), &mut Count::default()).await.map(|_| ()) }
    }

    /// Takes out an item; `false`: there is none like it. Costs and errors as [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`call`](Self::call).
    fn remove(&mut self, item: &Item) -> impl Future<Output = Result<bool, IndexError>> {
        async { Ok(self.call(&Request::Remove(*item), &mut Count::default()).await?.done) }
    }

    /// Puts an item at another place; `false`: it was not there. Costs and errors as [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`call`](Self::call).
    fn update(&mut self, item: &Item, bounds: Rectangle) -> impl Future<Output = Result<bool, IndexError>> {
        async move { Ok(self.call(&Request::Update(*item, bounds), &mut Count::default()).await?.done) }
    }
}

/// Carries the words of a request to the server and those of its response back, over an ordinary socket: the first word
/// of a response is the server's [pulse](super::Service::pulse), behind it is what [`Worker::answer`](super::Worker)
/// says.
pub trait Carrier {
    /// Carries one request; appends the response.
    ///
    /// # Errors
    /// [`IndexError::ServerLost`].
    fn carry(
        &mut self,
        request: &[u64],
        response: &mut Vec<u64>,
    ) -> impl Future<Output = Result<(), IndexError>>;
}

/// Talks to the server by a [`Carrier`].
#[derive(Debug)]
pub struct Correspondent<C> {
    carrier: C,
    request: Vec<u64>,
    response: Vec<u64>,
    /// The number of the last heartbeat that was taken, and the newest that came.
    taken: u64,
    pulse: u64,
}

/// Words of a response that are no items: pulse, status, count.
const HEAD_WORDS: usize = 3;

impl<C: Carrier> Correspondent<C> {
    /// A client whose words `carrier` carries.
    pub const fn new(carrier: C) -> Self {
        Self { carrier, request: Vec::new(), response: Vec::new(), taken: 0, pulse: 0 }
    }
}

impl<C: Carrier> Correspondent<C> {
    /// Loads items into the empty tree, filling nodes to the share `fill` (0 to 1), in one commit.
    ///
    /// # Errors
    /// [`IndexError::NotEmpty`]; otherwise as [`Talk::call`].
    pub async fn load(&mut self, items: &[Item], fill: f64) -> Result<(), IndexError> {
        self.request.clear();
        encode_load(items, fill, &mut self.request);
        self.exchange(&mut Count::default()).await.map(|_| ())
    }

    /// Sends the request, and takes the response.
    async fn exchange(&mut self, found: &mut impl Answer) -> Result<Reply, IndexError> {
        self.response.clear();
        self.carrier.carry(&self.request, &mut self.response).await?;
        let garbled = |word: u64| IndexError::Damaged {
            operation: "message",
            at: "the server's socket".to_owned(),
            what: format!("{word:#x} is no message"),
        };
        let [pulse, status, count, items @ ..] = self.response.as_slice() else {
            return Err(garbled(self.response.len() as u64));
        };
        if !items.len().is_multiple_of(ITEM_WORDS) {
            return Err(garbled((items.len() + HEAD_WORDS) as u64));
        }
        self.pulse = *pulse;
        for item in items.chunks_exact(ITEM_WORDS) {
            found.item(item_of(item).ok_or_else(|| garbled(item[0]))?);
        }
        Status::from_word(*status).ok_or_else(|| garbled(*status))?.reply(*count)
    }
}

impl<C: Carrier> Talk for Correspondent<C> {
    async fn call(&mut self, request: &Request, found: &mut impl Answer) -> Result<Reply, IndexError> {
        self.request.clear();
        request.encode(&mut self.request);
        self.exchange(found).await
    }

    fn take_heartbeat(&mut self) -> Result<Option<f64>, IndexError> {
        let (number, beat) = beat_of(self.pulse);
        // One in an interval, as by rings.
        if self.taken > 0 && number < self.taken + PARTS as u64 {
            return Ok(None);
        }
        self.taken = number;
        Ok(adaptive::utilisation(beat))
    }
}
