//! Creates, opens, closes and drops an index by its entry in the directory of the pool, for every system.

use crate::error::IndexError;
use crate::params;
use farwood_fabric::directory::{self, Entry, Locked, NAME_BYTES_MAX, NewDirectoryEntry, TypedEntry};
use farwood_fabric::{Client, Fabric, NodeId, Remote, chunks, client_table};

/// Creates the entry of a new index. `write_root` writes the object that the entry points to, and yields its
/// address. [about 200 RT]
///
/// # Errors
/// [`IndexError::IndexExists`], [`IndexError::BadName`]; a full pool or directory; the errors of `write_root`. If it
/// fails, the index does not exist.
pub(crate) async fn create<F: Fabric, T: ?Sized>(
    client: &Client<F>,
    new: &NewDirectoryEntry<'_>,
    write_root: impl AsyncFnOnce(&Entry) -> Result<Remote<T>, IndexError>,
) -> Result<Entry, IndexError> {
    check_index_name(new.name)?;
    let directory = directory::lock(client).await?;
    let created = create_locked(client, &directory, new, write_root).await;
    directory.unlock().await?;
    created
}

async fn create_locked<F: Fabric, T: ?Sized>(
    client: &Client<F>,
    directory: &Locked<'_, F>,
    new: &NewDirectoryEntry<'_>,
    write_root: impl AsyncFnOnce(&Entry) -> Result<Remote<T>, IndexError>,
) -> Result<Entry, IndexError> {
    directory.settle().await?;
    let others = directory::list(client).await?;
    if others.iter().any(|other| other.entry.name == new.name) {
        return Err(IndexError::IndexExists(new.name.to_owned()));
    }
    refuse_mixed_locks(&others, new)?;
    let entry = directory.reserve(new).await?;
    // A client that crashed while it created or dropped an index of this slot may have left chunks.
    free_chunks(client, entry.slot).await?;
    let root = write_root(&entry).await?;
    directory.publish(&entry, root).await?;
    Ok(entry)
}

/// Refuses an index whose locks have another width than those of an index in the same table.
fn refuse_mixed_locks(others: &[TypedEntry], new: &NewDirectoryEntry<'_>) -> Result<(), IndexError> {
    let conflicts =
        |other: &&Entry| params::locks_conflict((new.kind, &new.parameters), (other.kind, &other.parameters));
    match others.iter().map(|other| &other.entry).find(conflicts) {
        Some(other) => Err(IndexError::MixedLocks { other: other.name.clone() }),
        None => Ok(()),
    }
}

/// Finds the entry of the index `name`. [as [`directory::find`]; about 140 RT more if the first search fails]
///
/// # Errors
/// [`IndexError::NoSuchIndex`].
pub(crate) async fn find<F: Fabric>(client: &Client<F>, name: &str) -> Result<Entry, IndexError> {
    match directory::find(client, name).await? {
        Some(entry) => Ok(entry),
        None if client.may_write() => find_settled(client, name).await,
        None => {
            directory::wait_for_drop(client, name).await?;
            let found = directory::find(client, name).await?;
            found.ok_or_else(|| IndexError::NoSuchIndex(name.to_owned()))
        }
    }
}

/// Finds the entry under the lock of the directory, because an index is hidden for a moment while a client tries to
/// drop it.
async fn find_settled<F: Fabric>(client: &Client<F>, name: &str) -> Result<Entry, IndexError> {
    let directory = directory::lock(client).await?;
    let entry = match directory.settle().await {
        Ok(()) => directory::find(client, name).await,
        Err(error) => Err(error),
    };
    directory.unlock().await?;
    entry?.ok_or_else(|| IndexError::NoSuchIndex(name.to_owned()))
}

/// Marks an index as open by this compute node, so that no client drops it. [3 RT; more while it is being dropped] A
/// client that may only read marks nothing [0 RT]: the number of the index in every node shows it that another index
/// has reused the memory of a dropped one.
///
/// # Errors
/// [`IndexError::NoSuchIndex`] if it was dropped in the meantime.
pub(crate) async fn mark_open<F: Fabric>(client: &Client<F>, entry: &Entry) -> Result<(), IndexError> {
    if !client.may_write() {
        return Ok(());
    }
    let newly = client_table::mark_open(client, entry.open_bit()).await?;
    if directory::still(client, entry).await? {
        return Ok(());
    }
    let settled = find_settled(client, &entry.name).await;
    if settled.as_ref().is_ok_and(|settled| settled == entry) {
        return Ok(());
    }
    if newly {
        client_table::mark_closed(client, entry.open_bit()).await?;
    }
    settled.and(Err(IndexError::NoSuchIndex(entry.name.clone())))
}

/// Marks an index as closed by this compute node, so that other clients may drop it. [at most 2 RT]
///
/// # Errors
/// The errors of the fabric.
pub(crate) async fn mark_closed<F: Fabric>(client: &Client<F>, entry: &Entry) -> Result<(), IndexError> {
    if !client.may_write() {
        return Ok(());
    }
    Ok(client_table::mark_closed(client, entry.open_bit()).await?)
}

/// Drops the index `name` of any system, and frees its memory. No other compute node may have it open, and this one
/// must not use it again.
///
/// # Errors
/// [`IndexError::NoSuchIndex`]; [`IndexError::InUse`].
pub async fn drop_index<F: Fabric>(client: &Client<F>, name: &str) -> Result<(), IndexError> {
    let directory = directory::lock(client).await?;
    let dropped = drop_locked(client, &directory, name).await;
    directory.unlock().await?;
    dropped
}

async fn drop_locked<F: Fabric>(
    client: &Client<F>,
    directory: &Locked<'_, F>,
    name: &str,
) -> Result<(), IndexError> {
    directory.settle().await?;
    let Some(entry) = directory::find(client, name).await? else {
        return Err(IndexError::NoSuchIndex(name.to_owned()));
    };
    if let Err(other) = directory.retire(&entry).await? {
        return Err(IndexError::InUse { name: name.to_owned(), client: other });
    }
    free_chunks(client, entry.slot).await?;
    directory.erase(&entry).await?;
    Ok(())
}

/// Frees all chunks of a directory entry that has no index. A chunk whose word is damaged stays unused.
async fn free_chunks<F: Fabric>(client: &Client<F>, slot: u8) -> Result<(), IndexError> {
    client.fabric().find_added_nodes().await?;
    for node in 0..client.fabric().shape().nodes {
        for chunk in chunks::of_entry(client, NodeId(node), slot).await? {
            chunks::give_back(client, chunk).await?;
        }
    }
    Ok(())
}

/// Checks the name of an index.
///
/// # Errors
/// [`IndexError::BadName`].
pub fn check_index_name(name: &str) -> Result<(), IndexError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(legal) {
        return Err(IndexError::BadName(format!(
            "'{name}' cannot name an index: use 1 to {NAME_BYTES_MAX} letters, digits, '.', '_' or '-'"
        )));
    }
    Ok(())
}
