//! Requests to the server, over rings or an ordinary socket.

use super::super::tree::rectangle::{Item, Query, Rectangle};
use super::super::wire::changes::{changes_that_fit, encode_changes, found_of};
use super::super::wire::heartbeat::{PARTS, number_and_beat, utilisation};
use super::super::wire::message::{ITEM_WORDS, Reply, Request, Status, encode_load, item_of};
use super::super::wire::records::{RecordLookup, decode_records};
use super::super::{Change, Count, Near, Record, SearchSink};
use crate::error::IndexError;

/// Receives the words of a response that follow its head.
pub(in crate::catfish) trait ResponseSink {
    /// The words of one element of the response. No element is divided between two segments.
    const ELEMENT_WORDS: usize;

    /// Receives an element; `None`: the words are not an element.
    fn element(&mut self, words: &[u64]) -> Option<()>;
}

/// Receives items.
pub(in crate::catfish) struct ItemSink<'s, S>(pub(in crate::catfish) &'s mut S);

impl<S: SearchSink> ResponseSink for ItemSink<'_, S> {
    const ELEMENT_WORDS: usize = ITEM_WORDS;

    fn element(&mut self, words: &[u64]) -> Option<()> {
        self.0.item(item_of(words)?);
        Some(())
    }
}

/// Discards the response.
impl ResponseSink for () {
    const ELEMENT_WORDS: usize = 1;

    fn element(&mut self, _: &[u64]) -> Option<()> {
        Some(())
    }
}

/// Receives words.
impl ResponseSink for Vec<u64> {
    const ELEMENT_WORDS: usize = 1;

    fn element(&mut self, words: &[u64]) -> Option<()> {
        self.extend(words);
        Some(())
    }
}

/// A connection to the server of an index.
pub trait SpatialRpc {
    /// Sends a request, and adds the items of the response to `found`.
    ///
    /// # Errors
    /// [`IndexError::ServerLost`], after which the client does not know whether its change was executed; the error of a
    /// full pool; the errors of the fabric.
    fn call(
        &mut self,
        request: &Request,
        found: &mut impl SearchSink,
    ) -> impl Future<Output = Result<Reply, IndexError>>;

    /// Makes changes in their order, all of them in one commit; yields for each whether it found its item. There must
    /// be at most as many as [`changes_that_fit`](Self::changes_that_fit). [1 RT, and the server's work]
    ///
    /// # Errors
    /// As [`call`](Self::call). None of the changes is made if the pool is full.
    fn apply(&mut self, changes: &[Change]) -> impl Future<Output = Result<Vec<bool>, IndexError>>;

    /// Finds records. They are those of one version of the trees, which was current at some moment during the call. [1
    /// RT, and the server's work]
    ///
    /// # Errors
    /// As [`call`](Self::call).
    fn find_records(
        &mut self,
        lookup: &RecordLookup,
    ) -> impl Future<Output = Result<Vec<Record>, IndexError>>;

    /// The number of the first changes that one request can carry, at most
    /// [`CHANGES_MAX`](super::super::CHANGES_MAX). [0 RT]
    fn changes_that_fit(&self, changes: &[Change]) -> usize;

    /// The utilisation of the server by the newest heartbeat; `None`: none has arrived since the last call. [0 RT]
    ///
    /// # Errors
    /// The errors of the fabric.
    fn take_heartbeat(&mut self) -> Result<Option<f64>, IndexError>;

    /// Adds the items that match to `found`. They are those of one version of the tree, which was current at some
    /// moment during the call. [1 RT, and the server's work]
    ///
    /// # Errors
    /// As [`call`](Self::call).
    fn search(
        &mut self,
        query: &Query,
        found: &mut impl SearchSink,
    ) -> impl Future<Output = Result<(), IndexError>> {
        async { self.call(&Request::Search(*query), found).await.map(|_| ()) }
    }

    /// Counts the items that match. Costs and errors as [`search`](Self::search).
    ///
    /// # Errors
    /// As [`call`](Self::call).
    fn count(&mut self, query: &Query) -> impl Future<Output = Result<u64, IndexError>> {
        async { Ok(self.call(&Request::Count(*query), &mut Count::default()).await?.count) }
    }

    /// Finds the `count` items nearest to `point`, nearest first. Costs and errors as [`search`](Self::search).
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

    /// Removes an item; `false`: there is none that is equal. Costs and errors as [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`call`](Self::call).
    fn remove(&mut self, item: &Item) -> impl Future<Output = Result<bool, IndexError>> {
        async { Ok(self.call(&Request::Remove(*item), &mut Count::default()).await?.done) }
    }

    /// Gives an item other bounds; `false`: there is no such item. Costs and errors as [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`call`](Self::call).
    fn update(&mut self, item: &Item, bounds: Rectangle) -> impl Future<Output = Result<bool, IndexError>> {
        async move { Ok(self.call(&Request::Update(*item, bounds), &mut Count::default()).await?.done) }
    }
}

/// Transports the words of requests and responses over an ordinary socket. The first word of a response is the
/// server's [pulse](super::super::Service::pulse), followed by the words that
/// [`Worker::answer`](super::super::Worker::answer) appends.
pub trait RequestTransport {
    /// Sends one request, and appends its response.
    ///
    /// # Errors
    /// [`IndexError::ServerLost`].
    fn carry(
        &mut self,
        request: &[u64],
        response: &mut Vec<u64>,
    ) -> impl Future<Output = Result<(), IndexError>>;
}

/// A connection to the server by a [`RequestTransport`].
#[derive(Debug)]
pub struct SocketRpc<C> {
    transport: C,
    request: Vec<u64>,
    response: Vec<u64>,
    /// Number of the last heartbeat that was taken.
    taken: u64,
    /// The [pulse](super::super::Service::pulse) in the last response: the number of a heartbeat and the utilisation.
    pulse: u64,
}

/// Maximum words of a request with several changes: the server limits the bytes of requests that arrive at the same
/// time.
const SOCKET_REQUEST_WORDS_MAX: usize = 1 << 17;

/// Words of a response before its items: pulse, status, count.
const HEAD_WORDS: usize = 3;

impl<C: RequestTransport> SocketRpc<C> {
    /// A connection over `transport`.
    pub const fn new(transport: C) -> Self {
        Self { transport, request: Vec::new(), response: Vec::new(), taken: 0, pulse: 0 }
    }

    /// Regards the heartbeats up to the last one that another connection has taken as taken.
    pub fn continue_after(&mut self, taken: u64) {
        self.taken = self.taken.max(taken);
    }

    /// The number of the last heartbeat that was taken; 0: none.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// The transport.
    pub const fn transport(&self) -> &C {
        &self.transport
    }

    /// Loads items into the empty tree, filling nodes to the share `fill` (0 to 1), in one commit.
    ///
    /// # Errors
    /// [`IndexError::NotEmpty`]; otherwise as [`SpatialRpc::call`].
    pub async fn load(&mut self, items: &[Item], fill: f64) -> Result<(), IndexError> {
        self.request.clear();
        encode_load(items, fill, &mut self.request);
        self.exchange(&mut ItemSink(&mut Count::default())).await.map(|_| ())
    }

    /// Sends the request in the buffer, and decodes the response.
    async fn exchange<R: ResponseSink>(&mut self, found: &mut R) -> Result<Reply, IndexError> {
        self.response.clear();
        self.transport.carry(&self.request, &mut self.response).await?;
        let [pulse, status, count, items @ ..] = self.response.as_slice() else {
            return Err(garbled(self.response.len() as u64));
        };
        if !items.len().is_multiple_of(R::ELEMENT_WORDS) {
            return Err(garbled((items.len() + HEAD_WORDS) as u64));
        }
        self.pulse = *pulse;
        for element in items.chunks_exact(R::ELEMENT_WORDS) {
            found.element(element).ok_or_else(|| garbled(element[0]))?;
        }
        Status::from_word(*status).ok_or_else(|| garbled(*status))?.reply(*count)
    }
}

/// The error for a response that is not one.
fn garbled(word: u64) -> IndexError {
    IndexError::Damaged {
        operation: "message",
        at: "the server's socket".to_owned(),
        what: format!("{word:#x} is not part of a message"),
    }
}

impl<C: RequestTransport> SpatialRpc for SocketRpc<C> {
    async fn call(&mut self, request: &Request, found: &mut impl SearchSink) -> Result<Reply, IndexError> {
        self.request.clear();
        request.encode(&mut self.request);
        self.exchange(&mut ItemSink(found)).await
    }

    async fn apply(&mut self, changes: &[Change]) -> Result<Vec<bool>, IndexError> {
        self.request.clear();
        encode_changes(changes, &mut self.request);
        let mut words = Vec::new();
        self.exchange(&mut words).await?;
        found_of(&words, changes.len()).ok_or_else(|| garbled(words.len() as u64))
    }

    async fn find_records(&mut self, lookup: &RecordLookup) -> Result<Vec<Record>, IndexError> {
        self.request.clear();
        lookup.encode(&mut self.request);
        let mut words = Vec::new();
        let count = self.exchange(&mut words).await?.count;
        decode_records(&words, count).ok_or_else(|| garbled(words.len() as u64))
    }

    fn changes_that_fit(&self, changes: &[Change]) -> usize {
        changes_that_fit(changes, SOCKET_REQUEST_WORDS_MAX)
    }

    fn take_heartbeat(&mut self) -> Result<Option<f64>, IndexError> {
        let (number, beat) = number_and_beat(self.pulse);
        // The server counts one heartbeat in an interval, as over rings.
        if self.taken > 0 && number < self.taken + PARTS as u64 {
            return Ok(None);
        }
        self.taken = number;
        Ok(utilisation(beat))
    }
}
