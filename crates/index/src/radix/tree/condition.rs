//! Conditions on the value of a leaf, checked under its lock.

use super::RadixTree;
use super::copy::LeafCopy;
use super::policy::Policy;
use crate::error::IndexError;
use crate::modify::{Accept, LockedValue};
use crate::op::Op;
use crate::radix::leaf::{LeafRef, LeafValue};
use farwood_fabric::Fabric;

/// A condition on the value of a leaf.
pub(super) enum Condition<'c> {
    /// Any value.
    Any,
    /// The value with which the caller has decided. A link identifies an overflow value.
    Unchanged(LeafValue<'c>),
    /// A value that the function accepts.
    Accepted(&'c mut Accept<'c>),
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Whether the value of a leaf whose lock this client holds meets `condition`. [0 RT; 1 to show an overflow value
    /// to a function, 2 above 2 MiB]
    pub(super) async fn meets(
        self,
        leaf: &LeafCopy,
        at: LeafRef,
        condition: Condition<'_>,
    ) -> Result<bool, IndexError> {
        match condition {
            Condition::Any => Ok(true),
            Condition::Unchanged(value) => Ok(leaf.value() == value),
            Condition::Accepted(accept) => Ok(accept(Some(&*self.locked_value(leaf, at).await?))),
        }
    }

    /// The value of a leaf whose lock this client holds. [0 RT; 1 for an overflow value, 2 above 2 MiB]
    pub(super) async fn locked_value(
        self,
        leaf: &LeafCopy,
        LeafRef { at, .. }: LeafRef,
    ) -> Result<LockedValue<'_>, IndexError> {
        match leaf.value() {
            LeafValue::Inline(value) => Ok(LockedValue::Inline(value)),
            LeafValue::Overflow(link) => match self.read_overflow(link).await? {
                Some(value) => Ok(LockedValue::Overflow(value)),
                None => Err(link.missing(self.name, at)),
            },
        }
    }
}
