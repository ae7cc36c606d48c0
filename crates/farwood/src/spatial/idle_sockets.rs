//! Sockets that stay open between calls, each with the back-off of Algorithm 1. A socket belongs to its thread, whose
//! operations share it: requests on the way at the same time use the same connection.

use super::idle_rings::IdleRings;
use super::socket::Socket;
use farwood_index::catfish::SocketRpc;
use farwood_index::catfish::adaptive::BackOff;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// A thread's socket of a handle.
struct ThreadSocket {
    /// Identifies the handle. It cannot be upgraded after the handle was dropped.
    handle: Weak<IdleRings>,
    socket: Socket,
    /// The buffers of the operation that ended last; `None` while another one uses them.
    idle: Option<SocketRpc<Socket>>,
    /// The number of the last heartbeat that an operation has taken.
    taken: u64,
    /// The back-off, which operations that run at the same time share.
    back_off: Rc<RefCell<BackOff>>,
}

impl ThreadSocket {
    fn is_of(&self, handle: &Arc<IdleRings>) -> bool {
        self.handle.as_ptr() == Arc::as_ptr(handle)
    }
}

thread_local! {
    static SOCKETS: RefCell<Vec<ThreadSocket>> = const { RefCell::new(Vec::new()) };
}

/// Removes sockets from the list, and drops them when the list is not borrowed.
fn remove_where(leaves: impl Fn(&ThreadSocket) -> bool) {
    // While the thread ends, its list no longer exists; its sockets are closed then.
    let _ = SOCKETS.try_with(|sockets| {
        let gone: Vec<_> = sockets.borrow_mut().extract_if(.., |socket| leaves(socket)).collect();
        drop(gone);
    });
}

/// A connection over this thread's socket of a handle.
pub(super) fn take_socket(handle: &Arc<IdleRings>) -> Option<(SocketRpc<Socket>, Rc<RefCell<BackOff>>)> {
    let taken = SOCKETS.try_with(|sockets| {
        let mut sockets = sockets.borrow_mut();
        let kept = sockets.iter_mut().find(|kept| kept.is_of(handle))?;
        let mut rpc = kept.idle.take().unwrap_or_else(|| SocketRpc::new(kept.socket.clone()));
        rpc.continue_after(kept.taken);
        Some((rpc, Rc::clone(&kept.back_off)))
    });
    taken.ok().flatten()
}

/// Adds this thread's socket of a handle, and closes those of handles that no longer exist.
pub(super) fn add_socket(handle: &Arc<IdleRings>, socket: Socket, back_off: Rc<RefCell<BackOff>>) {
    remove_where(|kept| kept.handle.strong_count() == 0);
    let kept = ThreadSocket { handle: Arc::downgrade(handle), socket, idle: None, taken: 0, back_off };
    let _ = SOCKETS.try_with(|sockets| sockets.borrow_mut().push(kept));
}

/// Keeps a connection over this thread's socket of a handle, unless that is another socket meanwhile.
pub(super) fn keep_socket(handle: &Arc<IdleRings>, rpc: SocketRpc<Socket>) {
    let _ = SOCKETS.try_with(|sockets| {
        let mut sockets = sockets.borrow_mut();
        let is_its = |kept: &&mut ThreadSocket| kept.is_of(handle) && kept.socket.is_same(rpc.transport());
        if let Some(kept) = sockets.iter_mut().find(is_its) {
            kept.taken = kept.taken.max(rpc.taken());
            kept.idle = Some(rpc);
        }
    });
}

/// Removes a socket of this thread and of a handle. It is closed when no operation uses it.
pub(super) fn remove_socket(handle: &Arc<IdleRings>, socket: &Socket) {
    remove_where(|kept| kept.is_of(handle) && kept.socket.is_same(socket));
}
