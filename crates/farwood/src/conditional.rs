//! Changes that depend on the value of a key, in one atomic step.
//!
//! The function of a change runs while the client holds the lock of the leaf: no other client changes the entry between
//! the function and the change.

use crate::codec::{Encode, Key, Value};
use crate::error::Result;
use crate::index::Index;
use crate::tree::Tree;
use farwood_fabric::Client;
use farwood_index::Decision;
use farwood_transport::any::AnyFabric;

/// Integers that [`Index::fetch_add`] adds.
pub trait Counter: Value + Copy {
    /// The value of an absent key.
    const ZERO: Self;

    /// The sum, modulo the number of values of the type.
    #[must_use]
    fn wrapping_sum(self, other: Self) -> Self;
}

macro_rules! counters {
    ($($integer:ty),+) => {
        $(impl Counter for $integer {
            const ZERO: Self = 0;

            fn wrapping_sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        })+
    };
}

counters!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

/// What a change finds and does.
pub(crate) struct Found<V> {
    /// The value before the change.
    pub(crate) value: Option<V>,
    /// Whether the condition was met.
    pub(crate) is_met: bool,
}

/// A decision, and whether the condition was met.
pub(crate) struct Decided {
    decision: Decision,
    is_met: bool,
}

/// The operation that the change needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Intent {
    /// It stores or removes an entry.
    Modify,
    /// It removes an entry, or changes nothing.
    Remove,
}

/// A change of one key, and what it has found.
pub(crate) struct Conditional<V, D> {
    pub(crate) operation: &'static str,
    intent: Intent,
    decide: D,
    pub(crate) found: Result<Found<V>>,
}

impl<V: Value, D: FnMut(&Tree, Option<(&[u8], &V)>) -> Result<Decided>> Conditional<V, D> {
    fn new(operation: &'static str, intent: Intent, decide: D) -> Self {
        Self { operation, intent, decide, found: Ok(Found { value: None, is_met: false }) }
    }

    /// Makes the change with a client.
    pub(crate) async fn run(&mut self, tree: &Tree, client: &Client<AnyFabric>, key: &[u8]) -> Result<()> {
        let (operation, index) = (self.operation, tree.ordered());
        match self.intent {
            Intent::Modify => {
                let mut decide = |value: Option<&[u8]>| self.decide(tree, value);
                Box::pin(tree.run(operation, index.modify(client, key, &mut decide))).await.map(drop)
            }
            Intent::Remove => {
                let mut accept = |value: Option<&[u8]>| self.decide(tree, value) == Decision::Remove;
                Box::pin(tree.run(operation, index.remove_if(client, key, &mut accept))).await.map(drop)
            }
        }
    }

    /// Decides about an entry with these bytes as its value. The entry stays if it would not change, and after an error.
    pub(crate) fn decide(&mut self, tree: &Tree, bytes: Option<&[u8]>) -> Decision {
        let mut decided = || {
            let value = bytes.map(|bytes| tree.decode::<V>(self.operation, "value", bytes)).transpose()?;
            let decided = (self.decide)(tree, bytes.zip(value.as_ref()))?;
            Ok((value, decided))
        };
        match decided() {
            Ok((value, Decided { decision, is_met })) => {
                self.found = Ok(Found { value, is_met });
                match decision {
                    Decision::Store(new) if bytes == Some(&new) => Decision::Keep,
                    decision => decision,
                }
            }
            Err(error) => {
                self.found = Err(error);
                Decision::Keep
            }
        }
    }
}

/// Declares a function that yields a [`Conditional`].
macro_rules! conditional {
    ($value:ty) => { Conditional<$value, impl FnMut(&Tree, Option<(&[u8], &$value)>) -> Result<Decided>> };
}

const fn met(decision: Decision) -> Decided {
    Decided { decision, is_met: true }
}

/// Stores an encoded value.
pub(crate) fn swap<V: Value>(value: Vec<u8>) -> conditional!(V) {
    Conditional::new("swap", Intent::Modify, move |_: &Tree, _: Option<(&[u8], &V)>| {
        Ok(met(Decision::Store(value.clone())))
    })
}

/// Removes the entry.
pub(crate) fn take<V: Value>() -> conditional!(V) {
    Conditional::new("take", Intent::Remove, |_: &Tree, _: Option<(&[u8], &V)>| Ok(met(Decision::Remove)))
}

/// Replaces the encoded value `expected` by `new`; `None` is the value of an absent key.
pub(crate) fn compare_exchange<V: Value>(expected: Option<Vec<u8>>, new: Option<Vec<u8>>) -> conditional!(V) {
    let intent = if new.is_none() && expected.is_some() { Intent::Remove } else { Intent::Modify };
    let decide = move |_: &Tree, current: Option<(&[u8], &V)>| {
        if current.map(|(bytes, _)| bytes) != expected.as_deref() {
            return Ok(Decided { decision: Decision::Keep, is_met: false });
        }
        Ok(met(new.clone().map_or(Decision::Remove, Decision::Store)))
    };
    Conditional::new("compare exchange", intent, decide)
}

/// Stores what `f` yields, or removes the entry.
pub(crate) fn fetch_update<V: Value>(mut f: impl FnMut(Option<&V>) -> Option<V>) -> conditional!(V) {
    const OPERATION: &str = "fetch update";
    let decide = move |tree: &Tree, current: Option<(&[u8], &V)>| match f(current.map(|(_, value)| value)) {
        Some(new) => {
            let new = tree.encode_within::<V, _>(OPERATION, ("value", tree.value_width()), &new)?;
            Ok(met(Decision::Store(new.as_ref().to_vec())))
        }
        None => Ok(met(Decision::Remove)),
    };
    Conditional::new(OPERATION, Intent::Modify, decide)
}

/// Adds to the value.
pub(crate) fn fetch_add<V: Counter>(by: V) -> conditional!(V) {
    let mut change =
        fetch_update(move |value: Option<&V>| Some(value.copied().unwrap_or(V::ZERO).wrapping_sum(by)));
    change.operation = "fetch add";
    change
}

/// Removes the entry if `f` accepts its value.
pub(crate) fn remove_if<V: Value>(mut f: impl FnMut(&V) -> bool) -> conditional!(V) {
    let decide = move |_: &Tree, current: Option<(&[u8], &V)>| {
        let is_met = current.is_some_and(|(_, value)| f(value));
        Ok(Decided { decision: if is_met { Decision::Remove } else { Decision::Keep }, is_met })
    };
    Conditional::new("remove", Intent::Remove, decide)
}

/// The encoded bytes of a value.
pub(crate) fn encoded<V: Value>(
    tree: &Tree,
    operation: &'static str,
    value: &impl Encode<V>,
) -> Result<Vec<u8>> {
    Ok(tree.value::<V, _>(operation, value)?.as_ref().to_vec())
}

impl<V> Found<V> {
    /// The result of a compare-exchange.
    pub(crate) fn exchanged(self) -> std::result::Result<(), Option<V>> {
        if self.is_met { Ok(()) } else { Err(self.value) }
    }

    /// The value, if the condition was met.
    pub(crate) fn if_met(self) -> Option<V> {
        self.value.filter(|_| self.is_met)
    }
}

/// Changes that depend on the value of the key. Each is one atomic step: no other client changes the entry between the
/// moment at which it is read and the change. They cost as [`put`](Self::put), or as [`remove`](Self::remove), and 1 RT
/// more to read a value that is stored outside its leaf.
///
/// A function that is given to one of them runs while the client holds the lock of the leaf, and again if the tree
/// changes before its result can be applied; the last run counts. It must be short, and must not use the pool: a call on
/// the same leaf would wait for the lock, and fail after 20 s.
///
/// ```
/// # use farwood::{IndexOptions, Pool, PoolOptions};
/// # let url = format!("shm://doc-conditional-{}", std::process::id());
/// # Pool::create(&url, &PoolOptions { memory_bytes: 64 << 20, ..Default::default() })?;
/// # let pool = Pool::open(&url)?;
/// let visits = pool.create_index::<u64, u64>("visits", &IndexOptions::default())?;
/// assert_eq!((visits.fetch_add(7, 1)?, visits.fetch_add(7, 1)?), (0, 1));
/// assert_eq!(visits.swap(7, 10)?, Some(2));
/// assert_eq!(visits.compare_exchange(7, Some(&10), Some(&11))?, Ok(()));
/// assert_eq!(visits.compare_exchange(7, None, Some(&0))?, Err(Some(11)));
/// assert_eq!(visits.fetch_update(7, |value| value.map(|value| value * 2))?, Some(11));
/// assert_eq!(visits.remove_if(7, |&value| value < 20)?, None);
/// assert_eq!(visits.take(7)?, Some(22));
/// # drop((visits, pool));
/// # Pool::remove(&url)?;
/// # Ok::<(), farwood::Error>(())
/// ```
impl<K: Key, V: Value> Index<K, V> {
    /// Stores `value` under `key`; returns the value before. Costs and errors as [`put`](Self::put).
    pub fn swap(&self, key: impl Encode<K>, value: impl Encode<V>) -> Result<Option<V>> {
        let value = encoded(self.handle(), "swap", &value)?;
        Ok(self.change(&key, swap(value))?.value)
    }

    /// Removes `key`; returns its value. Costs and errors as [`remove`](Self::remove).
    pub fn take(&self, key: impl Encode<K>) -> Result<Option<V>> {
        Ok(self.change(&key, take())?.value)
    }

    /// Replaces the value `expected` of `key` by `new`, where `None` is the value of an absent key. Returns
    /// `Err(current)` inside of `Ok` if the key has another value, which then stays. Values are equal if their encoded
    /// bytes are. Costs and errors as [`put`](Self::put), or as [`remove`](Self::remove) if `new` is `None`.
    pub fn compare_exchange(
        &self,
        key: impl Encode<K>,
        expected: Option<&V>,
        new: Option<&V>,
    ) -> Result<std::result::Result<(), Option<V>>> {
        let bytes = |value: Option<&V>| {
            value.map(|value| encoded(self.handle(), "compare exchange", value)).transpose()
        };
        Ok(self.change(&key, compare_exchange(bytes(expected)?, bytes(new)?))?.exchanged())
    }

    /// Stores what `f` makes of the value of `key`, or removes the key if `f` returns `None`; returns the value before.
    /// `f` gets `None` if the key is absent. An unchanged value is not written. Costs and errors as
    /// [`put`](Self::put); in a radix tree, 2 RT more than [`remove`](Self::remove) if `f` removes the key.
    pub fn fetch_update(
        &self,
        key: impl Encode<K>,
        f: impl FnMut(Option<&V>) -> Option<V> + Send,
    ) -> Result<Option<V>> {
        Ok(self.change(&key, fetch_update(f))?.value)
    }

    /// Adds `by` to the value of `key`, which is 0 if the key is absent; returns the value before. The sum wraps around
    /// at the limits of the type. Costs and errors as [`put`](Self::put).
    pub fn fetch_add(&self, key: impl Encode<K>, by: V) -> Result<V>
    where
        V: Counter,
    {
        Ok(self.change(&key, fetch_add(by))?.value.unwrap_or(V::ZERO))
    }

    /// Removes `key` if `f` accepts its value; returns the value that was removed. Costs and errors as
    /// [`remove`](Self::remove).
    pub fn remove_if(&self, key: impl Encode<K>, f: impl FnMut(&V) -> bool + Send) -> Result<Option<V>> {
        Ok(self.change(&key, remove_if(f))?.if_met())
    }

    fn change<D>(&self, key: &impl Encode<K>, mut change: Conditional<V, D>) -> Result<Found<V>>
    where
        D: FnMut(&Tree, Option<(&[u8], &V)>) -> Result<Decided> + Send,
    {
        let tree = self.handle();
        let operation = change.operation;
        let key = tree.key::<K, _>(operation, key)?;
        match change.intent {
            Intent::Modify => {
                tree.modify(operation, key.as_ref(), &mut |value| change.decide(tree, value))?;
            }
            Intent::Remove => {
                let accept = &mut |value: Option<&[u8]>| change.decide(tree, value) == Decision::Remove;
                tree.remove_if(operation, key.as_ref(), accept)?;
            }
        }
        change.found
    }
}
