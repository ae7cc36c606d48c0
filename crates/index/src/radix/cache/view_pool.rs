//! Memory for the views of cached nodes that searches return, so that a search allocates nothing.

use super::cached_node::CachedNode;
use std::sync::{Arc, Mutex};

/// Number of lists; threads beyond that share them.
const LISTS: usize = 8;
/// Maximum length of a list, which is the number of concurrent operations of a thread that need not allocate.
const VIEWS_MAX: usize = 64;
/// Views of a list that a search tries.
const TRIES: usize = 4;

/// Lists of views, one per thread. A view that no operation uses is overwritten.
#[derive(Debug, Default)]
pub(super) struct ViewPool([ViewList; LISTS]);

#[derive(Debug, Default)]
#[repr(align(64))]
struct ViewList(Mutex<(usize, Vec<Arc<CachedNode>>)>);

impl ViewPool {
    /// Moves `node` to a view of `thread`.
    #[inline]
    pub(super) fn share(&self, thread: usize, node: CachedNode) -> Arc<CachedNode> {
        let Ok(mut list) = self.0[thread % LISTS].0.try_lock() else { return Arc::new(node) };
        let (next, views) = &mut *list;
        for _ in 0..TRIES.min(views.len()) {
            *next = if *next + 1 < views.len() { *next + 1 } else { 0 };
            let view = &mut views[*next];
            if let Some(unused) = Arc::get_mut(view) {
                *unused = node;
                return Arc::clone(view);
            }
        }
        let view = Arc::new(node);
        if views.len() < VIEWS_MAX {
            views.push(Arc::clone(&view));
        }
        view
    }
}
