//! Chains and doorbells: the verbs of one post, and their order.
//!
//! | expression | execution |
//! |---|---|
//! | `a.then(b)` | one list for one memory node, executed in this order |
//! | `a.then_yield(b)` | the same; the post yields the output of `b` |
//! | `a.then_quiet(b)` | the same; the post yields the output of `a` |
//! | `a.fenced(b)` | the same, for pairs that need a fence to stay in order |
//! | `a.and(b)` | one doorbell per memory node, without order between `a` and `b` |
//! | `all(verbs)` | the same for a run-time number of verbs |
//! | `each(verbs)` | the same, as a part of a doorbell that `and` joins with others |
//!
//! `and` joins chains to a doorbell, which is not a chain:
//!
//! ```compile_fail,E0599
//! use farwood_fabric::{read, write, Chain, Parallel, Remote};
//! fn unordered(p: Remote<u64>, q: Remote<u64>) {
//!     let _ = read(p).and(read(q)).then(read(p));
//! }
//! ```
//!
//! A WRITE after a READ or an atomic may overtake it, and therefore requires a fence:
//!
//! ```compile_fail,E0277
//! use farwood_fabric::{read, write, Chain, Remote};
//! fn overtaken(p: Remote<u64>) {
//!     let _ = read(p).then(write(p, &[0; 8]));
//! }
//! ```
//!
//! ```
//! use farwood_fabric::{read, write, Chain, Parallel, Remote};
//! fn ordered(p: Remote<u64>, q: Remote<u64>) {
//!     let _ = write(p, &[0; 8]).then(write(q, &[0; 8])).then(read(p));
//!     let _ = read(p).fenced(write(p, &[0; 8]));
//!     let _ = read(p).then(read(q)).and(read(q));
//! }
//! ```

use crate::buffers::Buffers;
use crate::doorbell::{ChainFlag, Doorbell, DoorbellPool};
use crate::verb::{FetchClass, InOrderBefore, Verb, VerbClass};
use std::marker::PhantomData;

/// Verbs for one memory node, executed in order.
pub trait Chain: Sized {
    /// The results of its completion: nested pairs, in order.
    type Output;
    /// The class of the first verb.
    type First: VerbClass;
    /// The class of the last verb.
    type Last: VerbClass;
    /// The position of the answers in the doorbell.
    #[doc(hidden)]
    type Ticket;

    /// Executes `next` after this chain, on the same memory node.
    ///
    /// # Panics
    /// At the post, if the two are for different memory nodes.
    #[inline]
    fn then<Next: Chain>(self, next: Next) -> Then<Self, Next>
    where
        Self::Last: InOrderBefore<Next::First>,
    {
        Then { before: self, next, link: ChainFlag::Then }
    }

    /// As [`then`](Self::then), for pairs that a NIC does not order: `next` is sent when this chain's answers have
    /// arrived. It is one post, with one more round trip on the network.
    #[inline]
    fn fenced<Next: Chain>(self, next: Next) -> Then<Self, Next> {
        Then { before: self, next, link: ChainFlag::Fenced }
    }

    /// As [`then`](Self::then) if there is a `next`; as this chain alone otherwise.
    #[inline]
    fn then_maybe<Next: Chain>(self, next: Option<Next>) -> ThenMaybe<Self, Next>
    where
        Self::Last: InOrderBefore<Next::First>,
    {
        ThenMaybe { before: self, next }
    }

    /// As [`then`](Self::then), but the completion yields the output of `next` alone.
    ///
    /// ```
    /// use farwood_fabric::{Chain, Client, Fabric, FabricError, Remote, Swapped, cas, write};
    /// async fn publish<F: Fabric>(client: &Client<F>, object: Remote<u64>, slot: Remote<u64>)
    /// -> Result<Swapped, FabricError> {
    ///     client.post(write(object, &[0; 8]).then_yield(cas(slot, 0, object.word()))).await
    /// }
    /// ```
    #[inline]
    fn then_yield<Next: Chain>(self, next: Next) -> Second<Then<Self, Next>>
    where
        Self::Last: InOrderBefore<Next::First>,
    {
        Second(self.then(next))
    }

    /// As [`then`](Self::then), but the completion yields the output of this chain alone.
    ///
    /// ```
    /// use farwood_fabric::{Chain, Client, Fabric, FabricError, Remote, Swapped, cas, write};
    /// async fn replace<F: Fabric>(client: &Client<F>, object: Remote<u64>, slot: Remote<u64>, back: Remote<u64>)
    /// -> Result<Swapped, FabricError> {
    ///     let swap = cas(slot, 0, object.word());
    ///     client.post(write(object, &[0; 8]).then_yield(swap).then_quiet(cas(back, 0, slot.word()))).await
    /// }
    /// ```
    #[inline]
    fn then_quiet<Next: Chain>(self, next: Next) -> First<Then<Self, Next>>
    where
        Self::Last: InOrderBefore<Next::First>,
    {
        First(self.then(next))
    }

    /// As [`then_maybe`](Self::then_maybe), but the completion yields the output of this chain alone.
    #[inline]
    fn then_maybe_quiet<Next: Chain>(self, next: Option<Next>) -> First<ThenMaybe<Self, Next>>
    where
        Self::Last: InOrderBefore<Next::First>,
    {
        First(self.then_maybe(next))
    }

    #[doc(hidden)]
    fn ring(self, doorbell: &mut Doorbell, link: ChainFlag, buffers: &Buffers) -> Self::Ticket;
    #[doc(hidden)]
    fn answer(ticket: Self::Ticket, doorbell: &mut Doorbell) -> Self::Output;
}

impl<V: Verb> Chain for V {
    type Output = V::Output;
    type First = V::VerbClass;
    type Last = V::VerbClass;
    type Ticket = usize;

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, link: ChainFlag, buffers: &Buffers) -> usize {
        Verb::ring(self, doorbell, link, buffers)
    }

    #[inline]
    fn answer(ticket: usize, doorbell: &mut Doorbell) -> V::Output {
        V::answer(ticket, doorbell)
    }
}

/// Two chains in order; made by [`Chain::then`] and [`Chain::fenced`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a chain does nothing until it is posted"]
pub struct Then<A, B> {
    before: A,
    next: B,
    link: ChainFlag,
}

impl<A: Chain, B: Chain> Chain for Then<A, B> {
    type Output = (A::Output, B::Output);
    type First = A::First;
    type Last = B::Last;
    type Ticket = (A::Ticket, B::Ticket);

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, link: ChainFlag, buffers: &Buffers) -> Self::Ticket {
        let before = self.before.ring(doorbell, link, buffers);
        (before, self.next.ring(doorbell, self.link, buffers))
    }

    #[inline]
    fn answer(ticket: Self::Ticket, doorbell: &mut Doorbell) -> Self::Output {
        let before = A::answer(ticket.0, doorbell);
        (before, B::answer(ticket.1, doorbell))
    }
}

/// A chain with an optional second one; made by [`Chain::then_maybe`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a chain does nothing until it is posted"]
pub struct ThenMaybe<A, B> {
    before: A,
    next: Option<B>,
}

impl<A: Chain, B: Chain> Chain for ThenMaybe<A, B> {
    type Output = (A::Output, Option<B::Output>);
    type First = A::First;
    type Last = FetchClass;
    type Ticket = (A::Ticket, Option<B::Ticket>);

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, link: ChainFlag, buffers: &Buffers) -> Self::Ticket {
        let before = self.before.ring(doorbell, link, buffers);
        (before, self.next.map(|next| next.ring(doorbell, ChainFlag::Then, buffers)))
    }

    #[inline]
    fn answer(ticket: Self::Ticket, doorbell: &mut Doorbell) -> Self::Output {
        let before = A::answer(ticket.0, doorbell);
        (before, ticket.1.map(|ticket| B::answer(ticket, doorbell)))
    }
}

/// A chain that yields the first half of its output; made by [`Chain::then_quiet`] and [`Chain::then_maybe_quiet`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a chain does nothing until it is posted"]
pub struct First<C>(C);

impl<A, B, C: Chain<Output = (A, B)>> Chain for First<C> {
    type Output = A;
    type First = C::First;
    type Last = C::Last;
    type Ticket = C::Ticket;

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, link: ChainFlag, buffers: &Buffers) -> Self::Ticket {
        self.0.ring(doorbell, link, buffers)
    }

    #[inline]
    fn answer(ticket: Self::Ticket, doorbell: &mut Doorbell) -> A {
        C::answer(ticket, doorbell).0
    }
}

/// A chain that yields the second half of its output; made by [`Chain::then_yield`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a chain does nothing until it is posted"]
pub struct Second<C>(C);

impl<A, B, C: Chain<Output = (A, B)>> Chain for Second<C> {
    type Output = B;
    type First = C::First;
    type Last = C::Last;
    type Ticket = C::Ticket;

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, link: ChainFlag, buffers: &Buffers) -> Self::Ticket {
        self.0.ring(doorbell, link, buffers)
    }

    #[inline]
    fn answer(ticket: Self::Ticket, doorbell: &mut Doorbell) -> B {
        C::answer(ticket, doorbell).1
    }
}

/// One of two chains, chosen at run time, or its answer. It has the weaker ordering class, that of READs.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Either<A, B> {
    One(A),
    Other(B),
}

impl<T> Either<T, T> {
    /// The value of either variant.
    #[inline]
    pub fn value(self) -> T {
        match self {
            Self::One(value) | Self::Other(value) => value,
        }
    }
}

impl<A: Chain, B: Chain> Chain for Either<A, B> {
    type Output = Either<A::Output, B::Output>;
    type First = FetchClass;
    type Last = FetchClass;
    type Ticket = Either<A::Ticket, B::Ticket>;

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, link: ChainFlag, buffers: &Buffers) -> Self::Ticket {
        match self {
            Self::One(chain) => Either::One(chain.ring(doorbell, link, buffers)),
            Self::Other(chain) => Either::Other(chain.ring(doorbell, link, buffers)),
        }
    }

    #[inline]
    fn answer(ticket: Self::Ticket, doorbell: &mut Doorbell) -> Self::Output {
        match ticket {
            Either::One(ticket) => Either::One(A::answer(ticket, doorbell)),
            Either::Other(ticket) => Either::Other(B::answer(ticket, doorbell)),
        }
    }
}

/// Chains in one doorbell, without order between them.
pub trait Parallel: Sized {
    /// The results of all completions: nested pairs.
    type Output;
    #[doc(hidden)]
    type Ticket;

    /// Posts `other` in the same doorbell, without order.
    #[inline]
    fn and<Other: Parallel>(self, other: Other) -> And<Self, Other> {
        And { one: self, other }
    }

    #[doc(hidden)]
    fn ring(self, doorbell: &mut Doorbell, buffers: &Buffers) -> Self::Ticket;
    #[doc(hidden)]
    fn answer(ticket: Self::Ticket, doorbell: &mut Doorbell) -> Self::Output;
}

impl<C: Chain> Parallel for C {
    type Output = C::Output;
    type Ticket = C::Ticket;

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, buffers: &Buffers) -> C::Ticket {
        Chain::ring(self, doorbell, ChainFlag::First, buffers)
    }

    #[inline]
    fn answer(ticket: C::Ticket, doorbell: &mut Doorbell) -> C::Output {
        C::answer(ticket, doorbell)
    }
}

/// Two unordered parts of a doorbell; made by [`Parallel::and`].
#[derive(Clone, Copy, Debug)]
#[must_use = "verbs do nothing until they are posted"]
pub struct And<A, B> {
    one: A,
    other: B,
}

impl<A: Parallel, B: Parallel> Parallel for And<A, B> {
    type Output = (A::Output, B::Output);
    type Ticket = (A::Ticket, B::Ticket);

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, buffers: &Buffers) -> Self::Ticket {
        let one = self.one.ring(doorbell, buffers);
        (one, self.other.ring(doorbell, buffers))
    }

    #[inline]
    fn answer(ticket: Self::Ticket, doorbell: &mut Doorbell) -> Self::Output {
        let one = A::answer(ticket.0, doorbell);
        (one, B::answer(ticket.1, doorbell))
    }
}

/// A run-time number of unordered chains, as a part of a doorbell; made by [`each`].
#[derive(Clone, Debug)]
#[must_use = "verbs do nothing until they are posted"]
pub struct Each<C>(Vec<C>);

/// A run-time number of chains for a doorbell that [`Parallel::and`] joins with others. Yields their answers in the
/// order of `chains`. If the doorbell has no other verbs, [`all`] needs no memory for the answers.
#[inline]
pub fn each<C: Chain>(chains: impl IntoIterator<Item = C>) -> Each<C> {
    Each(chains.into_iter().collect())
}

impl<C: Chain> Parallel for Each<C> {
    type Output = Vec<C::Output>;
    type Ticket = Vec<C::Ticket>;

    fn ring(self, doorbell: &mut Doorbell, buffers: &Buffers) -> Self::Ticket {
        self.0.into_iter().map(|chain| Chain::ring(chain, doorbell, ChainFlag::First, buffers)).collect()
    }

    fn answer(ticket: Self::Ticket, doorbell: &mut Doorbell) -> Self::Output {
        ticket.into_iter().map(|ticket| C::answer(ticket, doorbell)).collect()
    }
}

/// An argument of [`Client::post`](crate::Client::post): a verb, a chain, unordered chains, or [`all`] of an
/// iterator.
pub trait Post {
    /// The result of its completion.
    type Output;
    #[doc(hidden)]
    type Ticket;

    #[doc(hidden)]
    fn ring(self, doorbell: &mut Doorbell, buffers: &Buffers) -> Self::Ticket;
    #[doc(hidden)]
    fn answer(ticket: Self::Ticket, doorbell: Doorbell, pool: &DoorbellPool) -> Self::Output;
}

impl<P: Parallel> Post for P {
    type Output = P::Output;
    type Ticket = P::Ticket;

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, buffers: &Buffers) -> P::Ticket {
        Parallel::ring(self, doorbell, buffers)
    }

    #[inline]
    fn answer(ticket: P::Ticket, mut doorbell: Doorbell, pool: &DoorbellPool) -> P::Output {
        let output = P::answer(ticket, &mut doorbell);
        pool.put(doorbell);
        output
    }
}

/// A run-time number of unordered verbs in one doorbell; see [`all`].
#[derive(Clone, Copy, Debug)]
#[must_use = "verbs do nothing until they are posted"]
pub struct All<I>(I);

/// Posts all of `verbs` in one doorbell, without order: one round trip. Yields their answers in the order of `verbs`.
#[inline]
pub fn all<I>(verbs: I) -> All<I::IntoIter>
where
    I: IntoIterator<Item: Verb>,
{
    All(verbs.into_iter())
}

impl<I> Post for All<I>
where
    I: Iterator<Item: Verb>,
{
    type Output = Answers<I::Item>;
    type Ticket = usize;

    #[inline]
    fn ring(self, doorbell: &mut Doorbell, buffers: &Buffers) -> usize {
        self.0.fold(0, |count, verb| {
            Verb::ring(verb, doorbell, ChainFlag::First, buffers);
            count + 1
        })
    }

    #[inline]
    fn answer(count: usize, doorbell: Doorbell, pool: &DoorbellPool) -> Answers<I::Item> {
        Answers { doorbell: Some(doorbell), pool: pool.clone(), next: 0, count, of: PhantomData }
    }
}

/// The answers to [`all`], in the order of the verbs.
#[must_use = "the answers to the verbs"]
pub struct Answers<V> {
    doorbell: Option<Doorbell>,
    pool: DoorbellPool,
    next: usize,
    count: usize,
    of: PhantomData<fn(V)>,
}

impl<V: Verb> Iterator for Answers<V> {
    type Item = V::Output;

    #[inline]
    fn next(&mut self) -> Option<V::Output> {
        if self.next == self.count {
            return None;
        }
        self.next += 1;
        self.doorbell.as_mut().map(|doorbell| V::answer(self.next - 1, doorbell))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count - self.next, Some(self.count - self.next))
    }
}

impl<V: Verb> ExactSizeIterator for Answers<V> {}

impl<V> Drop for Answers<V> {
    fn drop(&mut self) {
        if let Some(doorbell) = self.doorbell.take() {
            self.pool.put(doorbell);
        }
    }
}

impl<V> std::fmt::Debug for Answers<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Answers({} of {} taken)", self.next, self.count)
    }
}
