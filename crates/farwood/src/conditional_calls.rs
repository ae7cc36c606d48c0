//! The calls of an [`Index`] that change a key depending on its value.

use crate::codec::{Encode, Key, Value};
use crate::conditional::{
    Conditional, Counter, Decided, Found, Intent, compare_exchange, encoded, fetch_add, fetch_update,
    remove_if, swap, take,
};
use crate::error::Result;
use crate::tree::Tree;
use crate::typed_index::Index;
use farwood_index::Decision;

/// Changes that depend on the value of the key. Each is one atomic step: no other client changes the entry between the
/// moment at which it is read and the change. They cost as [`put`](Self::put), or as [`remove`](Self::remove), and 1 RT
/// more to read a value that is stored outside its leaf.
///
/// A function that is given to one of them runs while the client holds the lock of the leaf, and again if the tree
/// changes before its result can be applied; the last run counts. It must be short, and must not use the pool: a call
/// on the same leaf would wait for the lock, and fail after 20 s.
///
/// ```
/// # use farwood::{BTree, Pool, PoolOptions};
/// # let url = format!("shm://doc-conditional-{}", std::process::id());
/// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
/// # let pool = Pool::open(&url)?;
/// let visits = pool.create_index::<u64, u64>("visits", &BTree::new())?;
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

    /// Stores the value that `f` returns, or removes the key if `f` returns `None`; returns the value before. `f` gets
    /// the value of `key`, or `None` if the key is absent. An unchanged value is not written. Costs and errors as
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
