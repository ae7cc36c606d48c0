//! Sockets that stay open between calls, each with the back-off of Algorithm 1. A socket belongs to its thread.

use super::idle_rings::IdleRings;
use super::socket::Socket;
use farwood_index::catfish::SocketRpc;
use farwood_index::catfish::adaptive::BackOff;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// A thread's idle socket of a handle.
struct IdleSocket {
    /// Identifies the handle. It cannot be upgraded after the handle was dropped.
    handle: Weak<IdleRings>,
    rpc: SocketRpc<Socket>,
    back_off: BackOff,
}

thread_local! {
    static SOCKETS: RefCell<Vec<IdleSocket>> = const { RefCell::new(Vec::new()) };
}

/// Takes this thread's socket of a handle.
pub(super) fn take_socket(handle: &Arc<IdleRings>) -> Option<(SocketRpc<Socket>, BackOff)> {
    let taken = SOCKETS.try_with(|sockets| {
        let mut sockets = sockets.borrow_mut();
        let position = sockets.iter().position(|idle| idle.handle.as_ptr() == Arc::as_ptr(handle))?;
        Some(sockets.swap_remove(position))
    });
    let idle = taken.ok().flatten()?;
    Some((idle.rpc, idle.back_off))
}

/// Keeps this thread's socket of a handle, and closes those of handles that no longer exist.
pub(super) fn keep_socket(handle: &Arc<IdleRings>, rpc: SocketRpc<Socket>, back_off: BackOff) {
    let idle = IdleSocket { handle: Arc::downgrade(handle), rpc, back_off };
    // While the thread ends, its list no longer exists; the socket is closed then.
    let _ = SOCKETS.try_with(|sockets| {
        let gone: Vec<_> =
            sockets.borrow_mut().extract_if(.., |idle| idle.handle.strong_count() == 0).collect();
        sockets.borrow_mut().push(idle);
        drop(gone);
    });
}
