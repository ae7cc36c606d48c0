//! What an operation has read on its way, in room that is used again: an operation whose nodes are not cached would
//! allocate for each of them.
//!
//! A tree keeps the notebooks. An operation that notes something takes one, and gives it back when it ends. Where
//! another client is just taking one, it makes its own rather than wait.

use super::fetch::InnerCopy;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::RawInner;
use crate::radix::prefix::PrefixHash;
use farwood_fabric::Remote;
use std::sync::{Arc, Mutex};

/// Notebooks that are kept, for as many operations at once.
const BOOKS_MAX: usize = 64;
/// Copies that a notebook keeps to be filled again.
const SPARES_MAX: usize = 16;

/// The notebooks of a tree that nobody uses.
#[derive(Debug, Default)]
pub(crate) struct Notebooks(Mutex<Vec<Notebook>>);

/// Room for what an operation reads.
#[derive(Debug, Default)]
pub(crate) struct Notebook {
    /// The nodes that the operation has read: copies of its own, which nobody else brings out of date.
    fresh: Vec<Arc<CachedNode>>,
    /// Depths at which the guide thought that there is a node, and found none.
    pub(crate) missed: Vec<usize>,
    /// Of the beginnings of the key.
    pub(crate) hashes: Vec<PrefixHash>,
    /// Copies of which nobody needs the contents any more.
    spare: Vec<Arc<CachedNode>>,
}

/// An operation's notebook, if it has noted something.
pub(crate) struct Lent<'t> {
    from: &'t Notebooks,
    book: Option<Notebook>,
}

impl Notebooks {
    /// A notebook, once there is something to note.
    #[inline]
    pub(crate) fn lend(&self) -> Lent<'_> {
        Lent { from: self, book: None }
    }
}

impl Lent<'_> {
    pub(crate) fn book(&mut self) -> &mut Notebook {
        let from = self.from;
        self.book.get_or_insert_with(|| {
            let kept = from.0.try_lock().ok().and_then(|mut books| books.pop());
            kept.unwrap_or_default()
        })
    }

    /// The nodes that were read, in that order.
    #[inline]
    pub(crate) fn fresh(&self) -> &[Arc<CachedNode>] {
        self.book.as_ref().map_or(&[], |book| &book.fresh)
    }

    /// The depths that were missed.
    #[inline]
    pub(crate) fn missed(&self) -> &[usize] {
        self.book.as_ref().map_or(&[], |book| &book.missed)
    }

    /// Notes a node that was just read.
    pub(crate) fn note(&mut self, at: Remote<RawInner>, node: &InnerCopy) -> Arc<CachedNode> {
        let book = self.book();
        let fits = book
            .spare
            .iter_mut()
            .position(|spare| Arc::get_mut(spare).is_some_and(|room| room.fill(at, node)));
        let copy = match fits {
            Some(place) => book.spare.swap_remove(place),
            None => CachedNode::copy(at, node),
        };
        book.fresh.push(Arc::clone(&copy));
        copy
    }

    /// Strikes out what was read at `at`.
    pub(crate) fn strike(&mut self, at: Remote<RawInner>) {
        if let Some(book) = &mut self.book {
            book.fresh.retain(|fresh| fresh.at != at);
        }
    }

    /// Strikes out everything.
    pub(crate) fn forget(&mut self) {
        if let Some(book) = &mut self.book {
            book.clear();
        }
    }
}

impl Notebook {
    fn clear(&mut self) {
        self.missed.clear();
        self.spare.append(&mut self.fresh);
        self.spare.truncate(SPARES_MAX);
    }
}

impl Drop for Lent<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(mut book) = self.book.take() else { return };
        book.clear();
        if let Ok(mut books) = self.from.0.try_lock()
            && books.len() < BOOKS_MAX
        {
            books.push(book);
        }
    }
}
