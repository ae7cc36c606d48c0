//! A pool of shared-memory nodes, and this process's attachment to it.

use super::anonymous::create_anonymous;
use super::attachment::{AttachedJournal, ShmAttachment, enter};
use super::create::PoolSpec;
use super::error::ShmError;
use super::fabric::ShmFabric;
use super::journal::{Journal, JournalBuffers};
use super::name::PoolName;
use super::nodes::{CAPABILITIES, MappedNodes};
use super::on_disk::{DiskPool, Saving};
use super::pages::Pages;
use super::presence::Presence;
use super::segment::{SegmentDir, is_current};
use super::server::{ShmMemory, ShmServer};
use super::watch::FileWatch;
use crate::fork::ForkCount;
use farwood_fabric::{Access, Capabilities, Client, ClientId, FabricError, NodeId, PoolShape};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// This process's attachment to a pool: a compute node. Clones share it.
#[derive(Clone)]
pub struct ShmPool(Arc<ShmAttachment>);

impl ShmPool {
    /// Attaches this process to a pool, as a new compute node.
    ///
    /// # Errors
    /// [`ShmError::NotFound`], [`ShmError::Permission`], [`ShmError::TooSmall`], [`ShmError::JournalLost`];
    /// [`ShmError::Pool`] if the segments are not a pool of this version, or all client slots are taken.
    pub fn open(dir: &SegmentDir, name: &PoolName) -> Result<Self, ShmError> {
        Self::open_promising(dir, name, CAPABILITIES)
    }

    /// Like [`open`](Self::open), with weaker promises than the true ones, for tests of indexes without these promises.
    pub fn open_promising(
        dir: &SegmentDir,
        name: &PoolName,
        capabilities: Capabilities,
    ) -> Result<Self, ShmError> {
        let forks = ForkCount::now();
        let nodes = MappedNodes::open(dir, name, capabilities, Access::ReadWrite)?;
        let presence = Presence::new(Arc::clone(&nodes.segments[0]));
        let journal = Arc::new(open_journal(dir, &nodes, Access::ReadWrite)?);
        let attach = || {
            let identity = enter(&nodes, &presence, Some(&journal))?;
            let watched = JournalBuffers::open(Arc::clone(&journal), identity.slot).and_then(|buffers| {
                Ok((identity, buffers, FileWatch::start(&nodes.segments, Some(&journal))?))
            });
            // The slot is that of a crashed client then.
            watched.inspect_err(|_| drop(presence.release(u32::from(identity.slot))))
        };
        let (identity, buffers, watch) = match DiskPool::of(&journal, &nodes.segments)? {
            Some(pool) => pool.enter(&presence, attach)?,
            None => attach()?,
        };
        let journal = Some(AttachedJournal { journal, buffers });
        let (watch, client, left) = (Some(watch), Some(identity), AtomicBool::new(false));
        Ok(Self(Arc::new(ShmAttachment { nodes, presence, watch, journal, client, left, forks })))
    }

    /// Attaches this process to a pool for reading only, which needs only the permission to read its files. The process
    /// takes no slot of the client table and no lock, so nothing shows other processes that it is attached.
    ///
    /// # Errors
    /// As [`open`](Self::open), except those of client slots, and of the journal unless it is on a disk.
    pub fn open_read_only(dir: &SegmentDir, name: &PoolName) -> Result<Self, ShmError> {
        let forks = ForkCount::now();
        let nodes = MappedNodes::open(dir, name, CAPABILITIES, Access::ReadOnly)?;
        if nodes.segments[0].is_on_disk()? {
            let journal = open_journal(dir, &nodes, Access::ReadOnly)?;
            DiskPool { journal: &journal, segments: &nodes.segments }.check()?;
        }
        let presence = Presence::new(Arc::clone(&nodes.segments[0]));
        let watch = Some(FileWatch::start(&nodes.segments, None)?);
        let (journal, client, left) = (None, None, AtomicBool::new(false));
        Ok(Self(Arc::new(ShmAttachment { nodes, presence, watch, journal, client, left, forks })))
    }

    /// Creates an anonymous pool and attaches this process to it. Only this attachment can use the pool, and its memory
    /// is freed with it. Errors contain the name of `spec`.
    ///
    /// # Errors
    /// [`ShmError::NoSpace`], [`ShmError::BadShape`] (also for a group) and the errors of the operating system.
    pub fn anonymous(spec: &PoolSpec) -> Result<Self, ShmError> {
        let forks = ForkCount::now();
        let nodes = create_anonymous(spec)?;
        let presence = Presence::new(Arc::clone(&nodes.segments[0]));
        let identity = enter(&nodes, &presence, None)?;
        let (watch, journal, client, left) = (None, None, Some(identity), AtomicBool::new(false));
        Ok(Self(Arc::new(ShmAttachment { nodes, presence, watch, journal, client, left, forks })))
    }

    /// Returns a new client of this compute node for the calling thread.
    pub fn client(&self) -> Client<ShmFabric> {
        Client::new(self.fabric())
    }

    /// Returns the fabric of a new client.
    pub fn fabric(&self) -> ShmFabric {
        let buffer = self.0.journal.as_ref().map_or(0, |journal| journal.buffers.assign());
        ShmFabric { buffer, pool: Arc::clone(&self.0), failed: RefCell::new(None) }
    }

    /// Leaves the pool before the last handle is dropped: the identity ends, and every later post of this
    /// compute node's clients fails with `FabricError::Revoked`. No operation may be in progress. The last process that
    /// leaves a pool on a disk waits until its files are complete there; [`save`](Self::save) reports errors of that.
    pub fn leave(&self) {
        let _ = self.0.leave();
    }

    /// Leaves the pool as [`leave`](Self::leave) does, and returns whether its files are complete on a disk.
    ///
    /// # Errors
    /// The files cannot be made durable. The pool is refused from then on, as after a failure of the machine
    /// ([`ShmError::Unsaved`]), because the kernel may have dropped pages that it could not write.
    pub fn save(self) -> Result<Saving, ShmError> {
        self.0.leave()
    }

    /// Accepts the files of a pool on a disk that was in use when the machine stopped ([`ShmError::Unsaved`]). Each of
    /// their pages may be old or new, unless the processes had ended before the machine was shut down in order. Changes
    /// nothing if the pool can be opened.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn accept_unsaved(dir: &SegmentDir, name: &PoolName) -> Result<(), ShmError> {
        let nodes = MappedNodes::open(dir, name, CAPABILITIES, Access::ReadWrite)?;
        let journal = open_journal(dir, &nodes, Access::ReadWrite)?;
        DiskPool::of(&journal, &nodes.segments)?.map_or(Ok(()), |pool| pool.accept())
    }

    /// Refuses a forked child, and a pool whose files were removed, truncated or replaced. Operations do so themselves;
    /// servers call it at intervals, because they wait most of the time.
    ///
    /// # Errors
    /// [`FabricError::Forked`], [`FabricError::MemoryLost`].
    pub fn check_files(&self) -> Result<(), FabricError> {
        self.0.forks.check()?;
        self.0.check_files()
    }

    /// Returns the memory nodes and their sizes.
    pub fn shape(&self) -> PoolShape {
        self.0.nodes.shape
    }

    /// Returns the identity of this compute node; [`ClientId::NONE`] if it only reads.
    pub fn identity(&self) -> ClientId {
        self.0.identity()
    }

    /// Returns whether a process uses the client slot of `client`.
    ///
    /// # Errors
    /// [`ShmError::Pool`] in a forked child, and the error of the operating system.
    pub fn is_alive(&self, client: ClientId) -> Result<bool, ShmError> {
        self.0.forks.check().map_err(|error| self.0.nodes.refuse(error))?;
        Ok(!self.0.presence.is_gone(u32::from(client.slot))?)
    }

    /// Returns the pages of each memory node, and its number of resident bytes.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn memory(&self) -> Result<Vec<(Pages, u64)>, ShmError> {
        self.0.nodes.segments.iter().map(|segment| Ok((segment.pages(), segment.bytes_resident()?))).collect()
    }

    /// Returns the server role of memory node `node`. At most one process may take it. `None`: there is no such node,
    /// or this process only reads.
    pub fn server(&self, node: NodeId) -> Option<ShmServer> {
        self.0.client?;
        let segment = self.0.nodes.segments.get(usize::from(node.0))?;
        let memory = ShmMemory {
            segment: Arc::clone(segment),
            node,
            host_bytes: self.shape().host_bytes,
            forks: self.0.forks,
        };
        Some(ShmServer { memory })
    }
}

/// Opens the journal of mapped memory nodes.
fn open_journal(dir: &SegmentDir, nodes: &MappedNodes, access: Access) -> Result<Journal, ShmError> {
    let name = nodes.segments[0].name();
    match Journal::open_for(dir, name, nodes.shape.pool, access) {
        // Another process removed the pool in the meantime, or created it again.
        Err(ShmError::JournalLost { .. }) if !is_current(dir, &nodes.segments[0]) => {
            Err(dir.not_found(name, 0))
        }
        opened => opened,
    }
}

impl std::fmt::Debug for ShmPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShmPool").field("shape", &self.shape()).field("identity", &self.identity()).finish()
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
