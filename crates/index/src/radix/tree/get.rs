//! Lookup of one key.

use super::RadixTree;
use super::copy::LeafCopy;
use super::find::{LeafVerdict, SlotTarget};
use super::policy::Policy;
use super::traversal::Traversal;
use crate::error::IndexError;
use crate::memory::overflow::{MissedLink, OverflowValue};
use crate::op::Op;
use crate::radix::leaf::LeafValue;
use farwood_fabric::Fabric;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A value that a lookup found.
pub struct FoundValue(Source);

enum Source {
    /// A value in the leaf that was read.
    Leaf(LeafCopy),
    /// An overflow value.
    Overflow(OverflowValue),
    /// A value that another client has read and shares.
    Shared(Arc<[u8]>),
}

impl FoundValue {
    /// A value that another client has read.
    pub(crate) fn shared(value: Arc<[u8]>) -> Self {
        Self(Source::Shared(value))
    }
}

impl Deref for FoundValue {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::Leaf(leaf) => match leaf.value() {
                LeafValue::Inline(value) => value,
                LeafValue::Overflow(_) => unreachable!("a lookup follows the link of a leaf"),
            },
            Source::Overflow(value) => value,
            Source::Shared(value) => value,
        }
    }
}

impl fmt::Debug for FoundValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Looks up `key`. [as the system's `get`]
    pub(crate) async fn get(self, key: &[u8]) -> Result<Option<FoundValue>, IndexError> {
        let mut traversal = Traversal::new(&self.index.scratch, "get", key);
        let mut missed = MissedLink::default();
        loop {
            let location = self.locate(&mut traversal).await?;
            let SlotTarget::Leaf(at) = location.target else {
                if self.is_absent(&location, &mut traversal).await? {
                    return Ok(None);
                }
                continue;
            };
            let leaf = self.read_leaf(at.leaf).await?;
            match self.judge(&leaf, &location, &traversal) {
                LeafVerdict::Match => match leaf.link() {
                    None => return Ok(Some(FoundValue(Source::Leaf(leaf)))),
                    Some(link) => match self.read_overflow(link).await? {
                        Some(value) => return Ok(Some(FoundValue(Source::Overflow(value)))),
                        None if missed.is_damage(link) => return Err(link.missing("get", at.leaf.at)),
                        // Another client has replaced the value.
                        None => traversal.retry(self.client).await?,
                    },
                },
                LeafVerdict::Absent => return Ok(None),
                LeafVerdict::Ambiguous => self.resolve(&location.node, at.number, &mut traversal).await?,
            }
        }
    }
}
