//! Changes of one entry that depend on its value: the client decides while it holds the lock of the leaf.

use super::Sherman;
use super::leaf::Change;
use super::lock_node::LockedNode;
use super::read::{HALF_WRITTEN, NO_LINK};
use super::values::{NewValue, StoredValue};
use crate::error::IndexError;
use crate::modify::{Accept, Decide, Decision, LockedValue};
use crate::mutant::Mutant;
use crate::op::Op;
use farwood_fabric::{Client, Fabric};

/// A decision with the new value ready to be written.
enum Decided {
    Keep,
    Store(Box<NewValue>),
    Remove,
}

impl Sherman {
    /// Calls `decide` with the value of `key`, and changes the entry as it decides, in one atomic step. Costs as
    /// [`put`](Self::put). [1 RT more for a present overflow value, 1 for a new one; 2 for one above 2 MiB]
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn modify<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError> {
        Op::new(self, client, "modify").modify(key, decide).await
    }

    /// Removes `key` if `accept` accepts its value, in one atomic step.
    /// Costs as [`remove`](Self::remove). [1 RT more for an overflow value, 2 above 2 MiB]
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub async fn remove_if<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        accept: &mut Accept<'_>,
    ) -> Result<(), IndexError> {
        let mut decide = |value: Option<&[u8]>| if accept(value) { Decision::Remove } else { Decision::Keep };
        Op::new(self, client, "remove").modify(key, &mut decide).await
    }
}

impl<F: Fabric> Op<'_, F, Sherman> {
    async fn modify(self, key: &[u8], decide: &mut Decide<'_>) -> Result<(), IndexError> {
        self.index.check_key(key)?;
        let locked = self.lock_leaf_of(key).await?;
        self.modify_locked(locked, key, decide).await
    }

    async fn modify_locked(
        self,
        locked: LockedNode<'_, F>,
        key: &[u8],
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError> {
        let decided = match self.locked_value(&locked, key).await {
            Ok(value) => self.decided(value.as_deref(), decide).await,
            Err(error) => Err(error),
        };
        let locked = match self.index.layout.mutant {
            Some(Mutant::DecidesUnlocked) => self.lock_again(locked, key).await?,
            _ => locked,
        };
        let exchanged = match decided {
            Ok(Decided::Keep) => return locked.held.give_up().await,
            Ok(Decided::Remove) => self.exchange_locked(locked, key, Change::Remove).await?,
            Ok(Decided::Store(new)) => {
                let exchanged = self.exchange_locked(locked, key, Change::Put(new.bytes())).await;
                self.linked(*new, exchanged)?
            }
            Err(error) => {
                locked.held.give_up().await?;
                return Err(error);
            }
        };
        self.free_replaced(exchanged).await;
        Ok(())
    }

    /// Releases the lock of a leaf and acquires it again, for a mutant.
    async fn lock_again<'n>(
        self,
        LockedNode { held, .. }: LockedNode<'n, F>,
        key: &[u8],
    ) -> Result<LockedNode<'n, F>, IndexError>
    where
        Self: 'n,
    {
        held.give_up().await?;
        self.lock_leaf_of(key).await
    }

    /// The value of `key` in a leaf whose lock this client holds. [0 RT; 1 for an overflow value, 2 above 2 MiB]
    async fn locked_value<'n>(
        self,
        LockedNode { node, at, .. }: &'n LockedNode<'_, F>,
        key: &[u8],
    ) -> Result<Option<LockedValue<'n>>, IndexError> {
        let found = node.find(key).map_err(|_| self.damaged(*at, HALF_WRITTEN.to_owned()))?;
        let Some(slot) = found else { return Ok(None) };
        match self.index.layout.stored(node.value(slot)) {
            StoredValue::Inline(value) => Ok(Some(LockedValue::Inline(value))),
            StoredValue::Overflow(link) => match self.read_overflow(link).await? {
                Some(value) => Ok(Some(LockedValue::Overflow(value))),
                None => Err(link.missing(self.name, at)),
            },
            StoredValue::Invalid => Err(self.damaged(*at, NO_LINK.to_owned())),
        }
    }

    /// Calls `decide`, and prepares the new value.
    async fn decided(self, value: Option<&[u8]>, decide: &mut Decide<'_>) -> Result<Decided, IndexError> {
        match decide(value) {
            Decision::Remove if value.is_some() => Ok(Decided::Remove),
            Decision::Keep | Decision::Remove => Ok(Decided::Keep),
            Decision::Store(new) => {
                self.index.check_value(&new)?;
                Ok(Decided::Store(Box::new(self.new_value(new).await?)))
            }
        }
    }
}
