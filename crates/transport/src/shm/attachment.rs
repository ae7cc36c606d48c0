//! One process's attachment to a pool: its client slot, its journal buffers and the watch over the files.

use super::error::ShmError;
use super::journal::{Journal, JournalBuffers, WriteRefused, WriteTarget};
use super::nodes::MappedNodes;
use super::on_disk::{DiskPool, Saving};
use super::presence::Presence;
use super::sys;
use super::watch::FileWatch;
use crate::fork::ForkCount;
use crate::runtime::{block_on, sleep};
use farwood_fabric::{
    Access, Address, Capabilities, Client, ClientId, Doorbell, Fabric, FabricError, PoolShape, Revocation,
    client_table,
};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One process's attachment to a pool.
pub(super) struct ShmAttachment {
    pub(super) nodes: MappedNodes,
    pub(super) presence: Presence,
    /// `None` for an anonymous pool, which has no files.
    pub(super) watch: Option<FileWatch>,
    /// `None` for an anonymous pool, and for a process that only reads.
    pub(super) journal: Option<AttachedJournal>,
    /// The identity; `None`: this process only reads.
    pub(super) client: Option<ClientId>,
    /// Set once, when this compute node has left the pool; afterwards none of its clients may post.
    pub(super) left: AtomicBool,
    /// The fork count of the process that opened the attachment.
    pub(super) forks: ForkCount,
}

/// The use of a pool's journal by one attachment.
pub(super) struct AttachedJournal {
    pub(super) journal: Arc<Journal>,
    pub(super) buffers: JournalBuffers,
}

/// Takes a slot of the client table whose presence lock is free, which proves that it has no owner, or that its owner
/// has ended. Replays the journal of that owner first.
pub(super) fn enter(
    nodes: &MappedNodes,
    presence: &Presence,
    journal: Option<&Journal>,
) -> Result<ClientId, ShmError> {
    let client = Client::new(Unregistered(nodes));
    let process = u64::from(std::process::id());
    // The reason why a slot cannot be used; other slots are tried.
    let mut refused = None;
    for slot in 0..client_table::CLIENTS_MAX as u16 {
        if !presence.claim(u32::from(slot))? {
            continue;
        }
        if let Some(Err(error)) = journal.map(|journal| journal.replay(slot, &nodes.segments)) {
            // The journal of the crashed owner cannot be replayed: its slot keeps its state.
            refused = Some(error);
            presence.release(u32::from(slot))?;
            continue;
        }
        match block_on(client_table::enter(&client, slot, process)) {
            Ok(Some(identity)) => return Ok(identity),
            Ok(None) => {}
            Err(damaged @ FabricError::Damaged { .. }) => refused = Some(nodes.refuse(damaged)),
            Err(error) => return Err(nodes.refuse(error)),
        }
        presence.release(u32::from(slot))?;
    }
    let full = nodes.refuse(FabricError::NoClientSlot { slots: client_table::CLIENTS_MAX });
    Err(refused.unwrap_or(full))
}

impl ShmAttachment {
    #[inline]
    pub(super) fn identity(&self) -> ClientId {
        self.client.unwrap_or(ClientId::NONE)
    }

    #[inline]
    pub(super) fn access(&self) -> Access {
        Access::of(self.client)
    }

    /// Leaves the client table; the last process that leaves a pool on a disk saves it. Later calls do nothing. If
    /// leaving fails, the end of the process has the same effect. In a forked child it does nothing: the client is the
    /// parent, and the presence lock belongs to both.
    pub(super) fn leave(&self) -> Result<Saving, ShmError> {
        if !self.forks.is_current() || self.left.swap(true, Ordering::SeqCst) {
            return Ok(Saving::InUse);
        }
        let (Some(identity), Some(attached)) = (self.client, &self.journal) else {
            self.client.map(|identity| self.detach(identity));
            return Ok(Saving::InMemory);
        };
        match DiskPool::of(&attached.journal, &self.nodes.segments) {
            Ok(Some(pool)) => pool.leave(&self.presence, || self.detach(identity)),
            in_memory => {
                self.detach(identity);
                in_memory.map(|_| Saving::InMemory)
            }
        }
    }

    /// Ends the identity; yields whether the files are those of the pool.
    fn detach(&self, identity: ClientId) -> bool {
        // Memory beyond the end of a truncated file must not be accessed.
        let is_intact = self.examine_files().is_ok();
        if is_intact {
            let client = Client::new(Unregistered(&self.nodes));
            let _ = block_on(client_table::expire(&client, identity));
        }
        let _ = self.presence.release(u32::from(identity.slot));
        is_intact
    }

    /// Allocates memory, but fails if the file was truncated, because the allocation would extend it.
    pub(super) fn provision(&self, at: Address, bytes: u64) -> Result<(), FabricError> {
        self.forks.check()?;
        self.check_write()?;
        self.examine_files()?;
        self.nodes.provision(at, bytes)
    }

    /// Refuses a process that only reads.
    #[inline]
    fn check_write(&self) -> Result<(), FabricError> {
        if self.client.is_some() { Ok(()) } else { Err(FabricError::ReadOnly) }
    }

    #[inline]
    pub(super) fn execute(&self, buffer: usize, doorbell: &mut Doorbell) -> Result<(), FabricError> {
        self.forks.check()?;
        if self.left.load(Ordering::Relaxed) {
            return Err(FabricError::Revoked(self.identity()));
        }
        if self.access() == Access::ReadOnly && !doorbell.only_reads() {
            return Err(FabricError::ReadOnly);
        }
        self.check_files()?;
        self.nodes.execute(doorbell, |to, bytes| match &self.journal {
            Some(journal) => journal.buffers.write(buffer, to, bytes),
            None => write_unjournaled(to, bytes),
        })
    }

    /// Returns the error of a pool whose files were found to be lost.
    #[inline]
    pub(super) fn check_files(&self) -> Result<(), FabricError> {
        self.watch.as_ref().map_or(Ok(()), FileWatch::check)
    }

    /// Examines the files now.
    fn examine_files(&self) -> Result<(), FabricError> {
        self.watch.as_ref().map_or(Ok(()), FileWatch::examine)
    }

    /// Repeats the WRITEs that the crashed last owner of `slot` may not have completed.
    pub(super) fn replay(&self, slot: u16) -> Result<(), ShmError> {
        let journal = self.journal.as_ref();
        journal.map_or(Ok(()), |attached| attached.journal.replay(slot, &self.nodes.segments))
    }
}

impl Drop for ShmAttachment {
    fn drop(&mut self) {
        // A caller that needs the result calls `ShmPool::save`.
        let _ = self.leave();
    }
}

/// Executes a WRITE without a journal: in an anonymous pool, or of a process that enters or leaves the client table,
/// which writes only single words.
fn write_unjournaled(to: WriteTarget<'_>, bytes: &[u8]) -> Result<(), WriteRefused> {
    to.mapping.write_up(to.offset, bytes).map_err(WriteRefused::AccessFault)
}

/// The connection of a process that is not in the client table: while it enters, and while it leaves.
struct Unregistered<'a>(&'a MappedNodes);

impl Fabric for Unregistered<'_> {
    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn shape(&self) -> PoolShape {
        self.0.shape
    }

    fn find_added_nodes(&self) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(Ok(()))
    }

    fn identity(&self) -> ClientId {
        unreachable!("entering and leaving the client table needs no identity")
    }

    fn submit(&self, mut doorbell: Doorbell) -> impl Future<Output = Result<Doorbell, FabricError>> {
        std::future::ready(self.0.execute(&mut doorbell, write_unjournaled).map(|()| doorbell))
    }

    fn submit_detached(&self, mut doorbell: Doorbell) -> Option<Doorbell> {
        // No caller posts detached verbs here, so nothing can report their errors.
        let _ = self.0.execute(&mut doorbell, write_unjournaled);
        Some(doorbell)
    }

    fn lock_tag(&self) -> u16 {
        unreachable!("entering and leaving the client table needs no lock")
    }

    fn now(&self) -> u64 {
        sys::monotonic_nanoseconds()
    }

    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        sleep(nanoseconds)
    }

    fn revoke(&self, _: ClientId) -> impl Future<Output = Result<Revocation, FabricError>> {
        std::future::ready(Ok(Revocation::Alive))
    }

    fn provision(&self, at: Address, bytes: u64) -> impl Future<Output = Result<(), FabricError>> {
        std::future::ready(self.0.provision(at, bytes))
    }
}
