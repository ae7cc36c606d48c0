//! How an index comes to be, is opened, closed and dropped: the same for every kind, by its entry in the pool's
//! directory.

use crate::error::IndexError;
use crate::params;
use farwood_fabric::directory::{self, Entry, Locked, NAME_BYTES_MAX, NewEntry};
use farwood_fabric::{Client, Fabric, NodeId, chunks, client_table};

/// Makes the entry of a new index. `plant` writes what it points to, and yields the pointer's word. [about 140 RT]
///
/// # Errors
/// [`IndexError::IndexExists`], [`IndexError::BadName`]; a full pool or directory; what `plant` fails with. There is
/// then no such index.
pub(crate) async fn create<F: Fabric>(
    client: &Client<F>,
    new: &NewEntry<'_>,
    plant: impl AsyncFnOnce(&Entry) -> Result<u64, IndexError>,
) -> Result<Entry, IndexError> {
    check_name(new.name)?;
    let directory = directory::lock(client).await?;
    let created = create_locked(client, &directory, new, plant).await;
    directory.unlock().await?;
    created
}

async fn create_locked<F: Fabric>(
    client: &Client<F>,
    directory: &Locked<'_, F>,
    new: &NewEntry<'_>,
    plant: impl AsyncFnOnce(&Entry) -> Result<u64, IndexError>,
) -> Result<Entry, IndexError> {
    directory.settle().await?;
    if directory::find(client, new.name).await?.is_some() {
        return Err(IndexError::IndexExists(new.name.to_owned()));
    }
    refuse_mixed_locks(client, new).await?;
    let entry = directory.reserve(new).await?;
    // What a client that died while it created or dropped an index here may have left.
    free_chunks(client, entry.slot).await?;
    let root = plant(&entry).await?;
    directory.publish(&entry, root).await?;
    Ok(entry)
}

/// Systems with locks in the tables of the pool.
const LOCKING_KINDS: [u32; 3] =
    [crate::sherman::KIND, crate::smart::options::KIND, crate::sphinx::options::KIND];

/// Refuses an index whose locks have another width than those of an index in the same table. A word of a table holds
/// one 64-bit lock or four of 16 bits, and the release of one would erase the others.
async fn refuse_mixed_locks<F: Fabric>(client: &Client<F>, new: &NewEntry<'_>) -> Result<(), IndexError> {
    if !LOCKING_KINDS.contains(&new.kind) {
        return Ok(());
    }
    for other in directory::list(client).await? {
        if LOCKING_KINDS.contains(&other.kind) && params::locks_conflict(&new.parameters, &other.parameters) {
            return Err(IndexError::MixedLocks { other: other.name });
        }
    }
    Ok(())
}

/// The entry of the index `name`. [as [`directory::find`]; about 140 RT more where it is not there at first]
///
/// # Errors
/// [`IndexError::NoSuchIndex`].
pub(crate) async fn find<F: Fabric>(client: &Client<F>, name: &str) -> Result<Entry, IndexError> {
    match directory::find(client, name).await? {
        Some(entry) => Ok(entry),
        None => find_settled(client, name).await,
    }
}

/// The same under the directory's lock: a drop that was begun and refused hides an index for a moment.
async fn find_settled<F: Fabric>(client: &Client<F>, name: &str) -> Result<Entry, IndexError> {
    let directory = directory::lock(client).await?;
    let entry = match directory.settle().await {
        Ok(()) => directory::find(client, name).await,
        Err(error) => Err(error),
    };
    directory.unlock().await?;
    entry?.ok_or_else(|| IndexError::NoSuchIndex(name.to_owned()))
}

/// Marks an index as open by this compute node, so that nobody drops it. [3 RT; more where it is being dropped]
///
/// # Errors
/// [`IndexError::NoSuchIndex`] where it was dropped meanwhile.
pub(crate) async fn mark_open<F: Fabric>(client: &Client<F>, entry: &Entry) -> Result<(), IndexError> {
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

/// Marks an index as closed by this compute node, so that others may drop it. [at most 2 RT]
///
/// # Errors
/// The fabric's.
pub(crate) async fn mark_closed<F: Fabric>(client: &Client<F>, entry: &Entry) -> Result<(), IndexError> {
    Ok(client_table::mark_closed(client, entry.open_bit()).await?)
}

/// Drops the index `name`, whatever its kind, and frees its memory. No other compute node may have it open, and
/// this one must not use it again.
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

/// Gives back all chunks of a directory entry that has no index.
async fn free_chunks<F: Fabric>(client: &Client<F>, slot: u8) -> Result<(), IndexError> {
    for node in 0..client.fabric().shape().nodes {
        for used in chunks::in_use(client, NodeId(node)).await? {
            if used.entry == slot {
                chunks::give_back(client, used.chunk).await?;
            }
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), IndexError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(legal) {
        return Err(IndexError::BadName(format!(
            "'{name}' cannot name an index: use 1 to {NAME_BYTES_MAX} letters, digits, '.', '_' or '-'"
        )));
    }
    Ok(())
}
