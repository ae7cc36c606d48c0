//! Handles in a forked child: the child opens the pool and the index again.

use crate::attached::Attached;
use crate::attachment::{Attachment, FreshNodes};
use crate::pool::Pool;
use crate::tree::Tree;
use farwood_fabric::Access;
use std::sync::Arc;

impl Attached {
    /// This attachment or, in a forked child, another one to the same pool if there can be one.
    #[inline]
    pub(crate) fn here(self: &Arc<Self>) -> &Arc<Self> {
        let heir = self.heir().get_or_open(self.forks(), || self.open_again());
        // The child may have forked again.
        heir.map_or(self, Self::here)
    }

    /// Attaches a forked child. `None`: the pool has no URL, is gone, or has no free client slot.
    fn open_again(&self) -> Option<Arc<Self>> {
        let place = self.place().location()?;
        let attachment = match self.attachment().access() {
            Access::ReadWrite => Attachment::open(place, FreshNodes::Refused),
            Access::ReadOnly => Attachment::open_read_only(place),
        };
        let attachment = attachment.ok()?;
        Some(Arc::new(Self::new(self.place().clone(), attachment)))
    }
}

impl Tree {
    /// This tree or, in a forked child, the same index opened again if that is possible.
    #[inline]
    pub(crate) fn here(self: &Arc<Self>) -> &Arc<Self> {
        let heir = self.heir().get_or_open(self.pool().forks(), || self.open_again());
        // The child may have forked again.
        heir.map_or(self, Self::here)
    }

    /// Opens the index in a forked child. `None`: it is gone, or has become another index.
    fn open_again(&self) -> Option<Arc<Self>> {
        let pool = Pool::attached_by(Arc::clone(self.pool().here()));
        let (_, budget) = self.ordered().cache_bytes();
        let tree = pool.open_tree(&self.ordered().entry().name, Some(budget)).ok()?;
        let is_same = tree.kinds() == self.kinds()
            && tree.types() == self.types()
            && [tree.key_width(), tree.value_width()] == [self.key_width(), self.value_width()];
        is_same.then_some(tree)
    }
}
