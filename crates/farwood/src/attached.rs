//! This process's attachment to a pool and its open indexes, shared by all handles.

use crate::attached_place::AttachedPlace;
use crate::attachment::Attachment;
use crate::error::Error;
use crate::heir::Heir;
use crate::observe::{CallRegistry, MeteredClient};
use crate::thread_client;
use crate::tree::Tree;
use farwood_fabric::FabricError;
use farwood_index::IndexError;
use farwood_index::ordered::Ordered;
use farwood_transport::fork::ForkCount;
use farwood_transport::runtime::TaskThread;
use std::collections::BTreeMap;
use std::io;
#[cfg(feature = "spatial")]
use std::sync::Condvar;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
#[cfg(feature = "spatial")]
use std::thread::ThreadId;
#[cfg(feature = "spatial")]
use std::time::Duration;

/// The attachment, shared by all handles of this process.
pub(crate) struct Attached {
    place: AttachedPlace,
    attachment: Attachment,
    /// The fork count of the process that opened the attachment. A forked child fails with an error before it waits for
    /// one of the mutexes here and in the indexes, which other threads of its parent may have held.
    forks: ForkCount,
    open: Mutex<OpenIndexes>,
    /// The thread that executes the calls of async handles, while there are any.
    task_thread: Mutex<Weak<TaskThread>>,
    /// The thread that executes the blocking calls of threads without a client, from the first one on.
    shared_thread: OnceLock<Option<Arc<TaskThread>>>,
    /// Threads with a client of their own, if the pool has connections.
    own_clients: AtomicUsize,
    calls: Arc<CallRegistry>,
    /// The attachment of a forked child to the same pool.
    heir: Heir<Arc<Self>>,
    /// The thread that has the [`ServerPermit`].
    #[cfg(feature = "spatial")]
    server_thread: Mutex<Option<ThreadId>>,
    #[cfg(feature = "spatial")]
    permit_returned: Condvar,
}

/// The longest time that a thread waits for the permit.
#[cfg(feature = "spatial")]
const PERMIT_WAIT_MAX: Duration = Duration::from_mins(1);

/// The thread that has the permit, and does not return it.
#[cfg(feature = "spatial")]
pub(crate) enum PermitBusy {
    /// The calling thread.
    OwnThread,
    /// Another thread of this process, for a minute.
    OtherThread,
}

/// The permit to become the server of a spatial index: one thread of the process has it at a time.
#[cfg(feature = "spatial")]
pub(crate) struct ServerPermit<'p>(&'p Attached);

#[cfg(feature = "spatial")]
impl Drop for ServerPermit<'_> {
    fn drop(&mut self) {
        if !self.0.forks.is_current() {
            return;
        }
        *self.0.server_thread.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.0.permit_returned.notify_one();
    }
}

/// The indexes that this process has open, by name.
#[derive(Default)]
pub(crate) struct OpenIndexes(BTreeMap<String, OpenIndex>);

impl OpenIndexes {
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The open tree that new handles of the index share.
    pub(crate) fn tree(&self, name: &str) -> Option<Arc<Tree>> {
        self.0.get(name)?.tree.upgrade()
    }

    /// Adds a tree that was just opened, with the hashes of the names of its types.
    pub(crate) fn add(
        &mut self,
        name: &str,
        index: Ordered,
        types: [Option<u64>; 2],
        pool: &Arc<Attached>,
    ) -> Arc<Tree> {
        let tree = Arc::new(Tree::new(index, types, Arc::clone(pool)));
        let open = self.0.entry(name.to_owned()).or_default();
        open.tree = Arc::downgrade(&tree);
        open.trees += 1;
        tree
    }
}

#[derive(Default)]
struct OpenIndex {
    /// The tree that new handles share.
    tree: Weak<Tree>,
    /// Trees that are not closed: more than one if the index was opened again while its last handle was being dropped.
    /// The client table of the pool has one bit for all of them.
    trees: usize,
}

impl Attached {
    pub(crate) fn new(place: AttachedPlace, attachment: Attachment) -> Self {
        let forks = ForkCount::now();
        Self {
            place,
            attachment,
            forks,
            open: Mutex::default(),
            task_thread: Mutex::default(),
            shared_thread: OnceLock::new(),
            own_clients: AtomicUsize::new(0),
            calls: Arc::new(CallRegistry::new(forks)),
            heir: Heir::default(),
            #[cfg(feature = "spatial")]
            server_thread: Mutex::default(),
            #[cfg(feature = "spatial")]
            permit_returned: Condvar::new(),
        }
    }

    /// The attachment that a forked child opens.
    #[inline]
    pub(crate) fn heir(&self) -> &Heir<Arc<Self>> {
        &self.heir
    }

    /// The place of the pool.
    pub(crate) fn place(&self) -> &AttachedPlace {
        &self.place
    }

    /// The fork count of the process that opened the attachment.
    #[inline]
    pub(crate) fn forks(&self) -> ForkCount {
        self.forks
    }

    pub(crate) fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// The counters of the calls of this process.
    pub(crate) fn calls(&self) -> &CallRegistry {
        &self.calls
    }

    /// A new client, which counts its calls.
    pub(crate) fn client(&self) -> MeteredClient {
        MeteredClient::new(self.attachment.client(), Arc::clone(&self.calls))
    }

    /// The thread that executes calls for other threads; it is started if it does not run.
    pub(crate) fn task_thread(&self) -> io::Result<Arc<TaskThread>> {
        let mut running = self.task_thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = running.upgrade() {
            return Ok(thread);
        }
        let thread = Arc::new(TaskThread::start("farwood-tasks")?);
        *running = Arc::downgrade(&thread);
        Ok(thread)
    }

    /// The thread that executes the blocking calls of threads without a client; `None`: it cannot be started.
    pub(crate) fn shared_thread(&self) -> Option<Arc<TaskThread>> {
        self.shared_thread.get_or_init(|| self.task_thread().ok()).clone()
    }

    pub(crate) fn own_clients(&self) -> &AtomicUsize {
        &self.own_clients
    }

    /// Waits until no other thread of this process has the permit.
    #[cfg(feature = "spatial")]
    pub(crate) fn server_permit(&self) -> std::result::Result<ServerPermit<'_>, PermitBusy> {
        let me = std::thread::current().id();
        let holder = self.server_thread.lock().unwrap_or_else(PoisonError::into_inner);
        if *holder == Some(me) {
            return Err(PermitBusy::OwnThread);
        }
        let waited =
            self.permit_returned.wait_timeout_while(holder, PERMIT_WAIT_MAX, |holder| holder.is_some());
        let (mut holder, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if holder.is_some() {
            return Err(PermitBusy::OtherThread);
        }
        *holder = Some(me);
        Ok(ServerPermit(self))
    }

    pub(crate) fn index_url(&self, index: &str) -> String {
        self.place.index_url(index)
    }

    /// Adds the address of the memory node to an error.
    #[cold]
    pub(crate) fn located(&self, error: FabricError) -> FabricError {
        let located = |node, why: String| match self.attachment.address_of(node) {
            Some(address) if !why.contains(address) => format!("{address}: {why}"),
            _ => why,
        };
        match error {
            FabricError::NodeLost { node, why } => FabricError::NodeLost { node, why: located(node, why) },
            FabricError::CannotPost { node, why } => {
                FabricError::CannotPost { node, why: located(node, why) }
            }
            other => other,
        }
    }

    /// The error of an operation on the index `name`.
    #[cold]
    pub(crate) fn failed(&self, operation: &'static str, name: &str, source: IndexError) -> Error {
        let source = match source {
            IndexError::Fabric(error) => IndexError::Fabric(self.located(error)),
            other => other,
        };
        Error::Index { operation, url: self.index_url(name), source }
    }

    /// Removes one tree of the index `name`, and calls `close` if it was the last.
    pub(crate) fn close(&self, name: &str, close: impl FnOnce()) {
        let mut open = self.open_indexes();
        let Some(index) = open.0.get_mut(name) else {
            unreachable!("a tree is in the table until it is closed");
        };
        index.trees -= 1;
        if index.trees == 0 {
            open.0.remove(name);
            // The lock of the table is held, so that another thread that opens the index sets the bit in the client
            // table only after this call has cleared it.
            close();
        }
    }

    /// The indexes that this process has open.
    ///
    /// # Errors
    /// [`FabricError::Forked`].
    pub(crate) fn open(&self) -> Result<MutexGuard<'_, OpenIndexes>, FabricError> {
        self.forks.check().map(|()| self.open_indexes())
    }

    fn open_indexes(&self) -> MutexGuard<'_, OpenIndexes> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Attached {
    /// Every operation borrows a handle, so no operation is running. Clients of other threads can no longer post.
    fn drop(&mut self) {
        self.attachment.leave();
        thread_client::leave(self);
    }
}
