//! Changes that depend on the value of a key, in one atomic step, as the handles of an index make them.
//!
//! The function of a change runs while the client holds the lock of the leaf: no other client changes the entry between
//! the function and the change.

use crate::codec::{Encode, Value};
use crate::error::Result;
use crate::tree::Tree;
use farwood_fabric::Client;
use farwood_index::Decision;
use farwood_transport::any::AnyFabric;

/// Integers that [`Index::fetch_add`](crate::Index::fetch_add) adds.
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

/// The value that a change has found, and the result of its condition.
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
pub(crate) enum Intent {
    /// It stores or removes an entry.
    Modify,
    /// It removes an entry, or changes nothing.
    Remove,
}

/// A change of one key, and what it has found.
pub(crate) struct Conditional<V, D> {
    pub(crate) operation: &'static str,
    pub(crate) intent: Intent,
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
                Box::pin(tree.run(operation, index.modify(client, key, &mut decide))).await
            }
            Intent::Remove => {
                let mut accept = |value: Option<&[u8]>| self.decide(tree, value) == Decision::Remove;
                Box::pin(tree.run(operation, index.remove_if(client, key, &mut accept))).await
            }
        }
    }

    /// Decides about an entry with these bytes as its value. The entry stays if it would not change, and after an
    /// error.
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

/// Stores the value that `f` returns, or removes the entry if it returns none.
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
