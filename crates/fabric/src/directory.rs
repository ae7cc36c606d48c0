//! The directory of named indexes, on memory node 0.
//!
//! ```text
//! entry i lies at directory + 256 i
//! +   0    8   state, a sealed word: 0 free, 1 reserved, 2 live, 3 being dropped
//! +   8    8   root: a packed pointer in a sealed word, changed by CAS
//! +  16    8   seal: hash of the 224 bytes from + 32, with zeros from + 240
//! +  24    8   free list: a packed pointer in a sealed word, 0 = none, changed by CAS
//! +  32    8   number of the index: never reused in the pool
//! +  40    4   kind of index           + 44   4   version of the index's format
//! +  48    1   bytes of the name       + 49  63   the name, UTF-8
//! + 112  128   parameters of the index, fixed at its creation
//! + 240    8   hash of the name of the key type, a sealed word; 0 = not recorded
//! + 248    8   hash of the name of the value type, a sealed word; 0 = not recorded
//! ```
//!
//! Entries change only under the directory lock, except for the words from + 240 on. A reader detects a concurrent
//! change by the seal and reads again. A state that is not sealed is damage, and not a free entry: otherwise one
//! flipped bit would lose the index, and the next client would create an empty one of its name.
//!
//! The creator stores the hashes of the names of types after the publication, once. Each is a sealed word of its own,
//! and the seal of the entry does not cover them, so a creator that crashes leaves an intact entry without names.

use crate::chain::Chain;
use crate::client::Client;
use crate::client_table;
use crate::error::FabricError;
use crate::fabric::{Fabric, Revocation};
use crate::fetched::{Object, Torn};
use crate::ids::ClientId;
use crate::lock_word::LockWord;
use crate::pointer::{NodeId, Remote};
use crate::pool_layout::{DIRECTORY_FREE, DIRECTORY_LOCK_OFFSET, DIRECTORY_OFFSET, NEXT_INDEX_OFFSET, word};
use crate::printable::printable;
use crate::sealed_word::SealedWord;
use crate::verb::{Cas, Swapped, cas, read, read_bytes, write};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use crate::pool_layout::{DIRECTORY_ENTRIES, DIRECTORY_ENTRY_BYTES};

/// Longest name of an index, bytes.
pub const NAME_BYTES_MAX: usize = 63;
/// Bytes of an index's parameters.
pub const PARAMETER_BYTES: usize = 128;

/// Numbers of indexes are below this.
const NUMBERS_MAX: u64 = 1 << 48;

const FREE: u64 = DIRECTORY_FREE;
const RESERVED: u64 = 1;
const LIVE: u64 = 2;
const DROPPING: u64 = 3;

/// Time for which a client waits for the directory lock while its holder is alive, nanoseconds.
const LOCK_PATIENCE: u64 = 5_000_000_000;
/// Pause between two attempts at the directory lock, nanoseconds.
const LOCK_PAUSE: u64 = 20_000;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    state: u64,
    root: u64,
    seal: u64,
    free_list: u64,
    number: u64,
    kind: u32,
    format: u32,
    name_bytes: u8,
    name: [u8; NAME_BYTES_MAX],
    parameters: [u8; PARAMETER_BYTES],
    types: [u64; 2],
}

/// Offset of the first byte that the seal covers.
const SEALED: usize = 32;
/// Offset of the hashes of the names of types, up to the end of an entry. The seal covers zeros in their place.
const TYPES: usize = 240;
/// Bits of the hash of the name of a type: those of the value of a sealed word.
const TYPE_HASH_BITS: u32 = 52;

/// The hash of the name of a type: the upper 52 bits of its XXH3-64.
pub fn type_hash(name: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(name.as_bytes()) >> (u64::BITS - TYPE_HASH_BITS)
}

impl Raw {
    fn seal_of(bytes: &[u8]) -> u64 {
        let mut sealed = [0; DIRECTORY_ENTRY_BYTES - SEALED];
        sealed[..TYPES - SEALED].copy_from_slice(&bytes[SEALED..TYPES]);
        xxhash_rust::xxh3::xxh3_64(&sealed)
    }

    /// The hashes of the names of the types of keys and values, as far as they are recorded. Checked by
    /// [`refuse`](Self::refuse).
    fn types(&self, slot: usize) -> [Option<u64>; 2] {
        [0, 1].map(|column| type_of(slot, column).open(u64::from_le(self.types[column])).ok())
    }

    /// The state, as entry `slot`.
    fn state(&self, slot: usize) -> Result<u64, FabricError> {
        open_state(slot, u64::from_le(self.state))
    }

    /// Decodes an entry whose seal was checked, with its state.
    fn decode(slot: usize, bytes: &[u8]) -> Result<(u64, Self), FabricError> {
        let Ok(raw) = Self::read_from_bytes(bytes) else { return damaged(slot, "has another length") };
        let state = raw.state(slot)?;
        raw.refuse(slot, state).map_or(Ok((state, raw)), |why| damaged(slot, why))
    }

    /// Describes why no client can have written this entry; returns `None` if one can have. An entry that is free or
    /// reserved may hold any bytes.
    fn refuse(&self, slot: usize, state: u64) -> Option<&'static str> {
        let misnamed = || (0..2).any(|column| self.types[column] != 0 && self.types(slot)[column].is_none());
        match state {
            LIVE | DROPPING if self.checked_name().is_none() => Some("has a malformed name"),
            LIVE | DROPPING if self.number == 0 => Some("has no index number"),
            LIVE | DROPPING if misnamed() => Some("has a damaged hash of the name of a type"),
            _ => None,
        }
    }

    fn checked_name(&self) -> Option<&str> {
        let name = std::str::from_utf8(self.name.get(..usize::from(self.name_bytes))?).ok()?;
        // Names are shown on terminals and in logs.
        (printable(name) == name).then_some(name)
    }

    fn name(&self) -> &str {
        self.checked_name().unwrap_or_default()
    }
}

impl Object for Raw {
    /// The number of the entry.
    type Format = usize;
    fn check(bytes: &[u8], slot: &usize) -> Result<(), Torn> {
        let Ok(raw) = Self::read_from_bytes(bytes) else { return Err(Torn) };
        // A reserved entry stays half-written if its writer crashes. No reader uses its contents, nor those of an
        // entry whose state is damaged.
        let unread = !matches!(raw.state(*slot), Ok(LIVE | DROPPING));
        let whole = unread || u64::from_le(raw.seal) == Self::seal_of(bytes);
        whole.then_some(()).ok_or(Torn)
    }
}

/// Decodes the word of the state of entry `slot`.
fn open_state(slot: usize, word: u64) -> Result<u64, FabricError> {
    match state_of(slot).open(word) {
        Ok(state @ (FREE | RESERVED | LIVE | DROPPING)) => Ok(state),
        _ => damaged(slot, &format!("has the impossible state {word:#x}")),
    }
}

/// A named index, as recorded in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the directory entry, 0 to 63.
    pub slot: u8,
    /// Number of the index, never reused in the pool.
    pub number: u64,
    /// The name.
    pub name: String,
    /// The kind of index, a number that the index crate defines.
    pub kind: u32,
    /// Version of the index's format.
    pub format: u32,
    /// The parameters of the index.
    pub parameters: [u8; PARAMETER_BYTES],
}

impl Entry {
    /// Decodes the bytes of the directory entry `slot`: the index, if the entry has a live one.
    ///
    /// # Errors
    /// [`FabricError::Damaged`].
    pub fn decode(slot: u8, bytes: &[u8; DIRECTORY_ENTRY_BYTES]) -> Result<Option<Self>, FabricError> {
        let slot = usize::from(slot);
        if Raw::check(bytes, &slot).is_err() {
            return damaged(slot, SEAL_MISMATCH);
        }
        let (state, raw) = Raw::decode(slot, bytes)?;
        Ok((state == LIVE).then(|| entry_of(slot, &raw)))
    }

    /// The seal of the bytes of an entry.
    pub fn seal_of(bytes: &[u8; DIRECTORY_ENTRY_BYTES]) -> u64 {
        Raw::seal_of(bytes)
    }

    /// The word that holds the index's root pointer; changed by CAS.
    pub fn root(&self) -> SealedWord {
        root_of(usize::from(self.slot))
    }

    /// The word that points to free memory of the index, which compute nodes exchange; none at first; changed by CAS.
    pub fn free_list(&self) -> SealedWord {
        free_list_of(usize::from(self.slot))
    }

    /// The bit of this entry in a client's set of open indexes.
    pub fn open_bit(&self) -> u64 {
        1 << self.slot
    }
}

/// The contents of a new entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDirectoryEntry<'a> {
    /// The name, at most [`NAME_BYTES_MAX`] bytes.
    pub name: &'a str,
    /// The kind of index.
    pub kind: u32,
    /// Version of the index's format.
    pub format: u32,
    /// The parameters of the index.
    pub parameters: [u8; PARAMETER_BYTES],
}

fn at(slot: usize) -> Remote<Raw> {
    word(NodeId(0), DIRECTORY_OFFSET + (slot * DIRECTORY_ENTRY_BYTES) as u64).part(0)
}

/// Reads one entry and its state, repeatedly while a client is changing it. [1 RT]
async fn load<F: Fabric>(client: &Client<F>, slot: usize) -> Result<(u64, Raw), FabricError> {
    for _ in 0..TORN_RETRIES_MAX {
        let entry = client.post(read_bytes(at(slot), DIRECTORY_ENTRY_BYTES)).await?;
        if let Ok(entry) = entry.check(&slot) {
            return Raw::decode(slot, &entry);
        }
        client.fabric().sleep(LOCK_PAUSE).await;
    }
    damaged(slot, SEAL_MISMATCH)
}

const SEAL_MISMATCH: &str = "does not match its seal";

fn damaged<T>(slot: usize, why: &str) -> Result<T, FabricError> {
    Err(FabricError::Damaged { node: NodeId(0), what: format!("directory entry {slot} {why}") })
}

/// Maximum READs of an entry whose seal does not match. Together they take longer than any change of an entry.
const TORN_RETRIES_MAX: usize = 1000;

fn entry_of(slot: usize, raw: &Raw) -> Entry {
    Entry {
        slot: slot as u8,
        number: u64::from_le(raw.number),
        name: raw.name().to_owned(),
        kind: u32::from_le(raw.kind),
        format: u32::from_le(raw.format),
        parameters: raw.parameters,
    }
}

/// A live index, and the [hashes](type_hash) of the names of the types of its keys and values, as far as they are
/// recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedEntry {
    /// The index.
    pub entry: Entry,
    /// The hashes for keys and values.
    pub types: [Option<u64>; 2],
}

/// A directory entry that no client can have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedEntry {
    /// The number of the entry.
    pub slot: u8,
    /// The damage.
    pub error: FabricError,
}

/// The intact and the damaged entries of the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The live indexes.
    pub entries: Vec<TypedEntry>,
    /// The damaged entries: whether they have indexes is unknown.
    pub damaged: Vec<DamagedEntry>,
}

/// Reads all live indexes, and reports damaged entries. [64 RT]
///
/// # Errors
/// If the fabric fails.
pub async fn survey<F: Fabric>(client: &Client<F>) -> Result<Survey, FabricError> {
    let mut survey = Survey::default();
    for slot in 0..DIRECTORY_ENTRIES {
        match load(client, slot).await {
            Ok((LIVE, raw)) => {
                survey.entries.push(TypedEntry { entry: entry_of(slot, &raw), types: raw.types(slot) });
            }
            Ok(_) => {}
            Err(error @ FabricError::Damaged { .. }) => {
                survey.damaged.push(DamagedEntry { slot: slot as u8, error });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(survey)
}

/// Reads all live indexes. [64 RT]
///
/// # Errors
/// If the fabric fails or an entry is damaged.
pub async fn list<F: Fabric>(client: &Client<F>) -> Result<Vec<TypedEntry>, FabricError> {
    let Survey { entries, damaged } = survey(client).await?;
    damaged.into_iter().next().map_or(Ok(entries), |damaged| Err(damaged.error))
}

/// Finds the live index of that name. [at most 64 RT]
///
/// # Errors
/// If the fabric fails; if no intact entry has the name, and one is damaged: the damaged entry may have the name.
pub async fn find<F: Fabric>(client: &Client<F>, name: &str) -> Result<Option<Entry>, FabricError> {
    Ok(find_typed(client, name).await?.map(|found| found.entry))
}

/// As [`find`], with the types of the index. [at most 64 RT]
///
/// # Errors
/// As [`find`].
pub async fn find_typed<F: Fabric>(
    client: &Client<F>,
    name: &str,
) -> Result<Option<TypedEntry>, FabricError> {
    let mut absent = Ok(None);
    for slot in 0..DIRECTORY_ENTRIES {
        match load(client, slot).await {
            Ok((LIVE, raw)) if raw.name() == name => {
                return Ok(Some(TypedEntry { entry: entry_of(slot, &raw), types: raw.types(slot) }));
            }
            Ok(_) => {}
            Err(damaged @ FabricError::Damaged { .. }) => absent = absent.and(Err(damaged)),
            Err(error) => return Err(error),
        }
    }
    absent
}

/// Waits while a client drops the index `name`, for a client that cannot take the lock of the directory. After an
/// interrupted drop, the index counts as dropped until a client that may write decides. [at most 64 RT; 65 for each
/// repetition]
///
/// # Errors
/// [`FabricError::DirectoryBusy`] if a client drops it for five seconds; the errors of the fabric.
pub async fn wait_for_drop<F: Fabric>(client: &Client<F>, name: &str) -> Result<(), FabricError> {
    let deadline = client.fabric().now() + LOCK_PATIENCE;
    while is_being_dropped(client, name).await? {
        let found = LockWord::from_word(client.post(read(lock_word())).await?.whole_word());
        if client.fabric().now() > deadline {
            return found.holder().map_or(Ok(()), |holder| Err(FabricError::DirectoryBusy(Some(holder))));
        }
        client.fabric().sleep(LOCK_PAUSE).await;
    }
    Ok(())
}

/// Whether an index of that name is being dropped. [at most 64 RT]
async fn is_being_dropped<F: Fabric>(client: &Client<F>, name: &str) -> Result<bool, FabricError> {
    for slot in 0..DIRECTORY_ENTRIES {
        match load(client, slot).await {
            Ok((DROPPING, raw)) if raw.name() == name => return Ok(true),
            Ok(_) | Err(FabricError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// The held directory lock. Release it with [`unlock`](Self::unlock).
#[must_use = "a held lock must be released"]
pub struct Locked<'c, F: Fabric> {
    client: &'c Client<F>,
    mine: LockWord,
    held: bool,
}

fn lock_word() -> Remote<u64> {
    word(NodeId(0), DIRECTORY_LOCK_OFFSET)
}

/// Acquires the directory lock, also from a crashed holder. [1 RT when it is free]
///
/// # Errors
/// [`FabricError::DirectoryBusy`] if a live client holds it for five seconds; [`FabricError::ReadOnly`].
pub async fn lock<F: Fabric>(client: &Client<F>) -> Result<Locked<'_, F>, FabricError> {
    client.check_write()?;
    let mine = LockWord::held_by(client.fabric().identity()).tagged(client.fabric().lock_tag());
    let deadline = client.fabric().now() + LOCK_PATIENCE;
    let mut expected = LockWord::FREE;
    loop {
        // If the future is dropped, the destructor posts a CAS after this one.
        let mut locked = Locked { client, mine, held: true };
        let swapped = client.post(cas(lock_word(), expected.word(), mine.word())).await;
        locked.held = matches!(swapped, Ok(Swapped::Won));
        let Swapped::Lost(found) = swapped? else { return Ok(locked) };
        let found = LockWord::from_word(found);
        expected = LockWord::FREE;
        let holder = found.holder();
        if let Some(holder) = holder
            && client.fabric().revoke(holder).await? == Revocation::Gone
        {
            expected = found;
        } else if found != LockWord::FREE && client.fabric().now() > deadline {
            return Err(FabricError::DirectoryBusy(holder));
        }
        client.fabric().sleep(LOCK_PAUSE).await;
    }
}

impl<F: Fabric> Locked<'_, F> {
    /// Releases the lock. [1 RT]
    pub async fn unlock(mut self) -> Result<(), FabricError> {
        self.held = false;
        let _ = self.client.post(self.release()).await?;
        Ok(())
    }

    /// Releases by CAS, because the lock may have been taken from this client after a revocation.
    fn release(&self) -> Cas {
        cas(lock_word(), self.mine.word(), LockWord::FREE.word())
    }

    /// Reserves an entry for a new index, which readers find when it is [published](Self::publish). The caller has
    /// checked that the name is unused. [67 RT]
    ///
    /// # Errors
    /// [`FabricError::NoDirectoryEntry`] if no entry is free; [`FabricError::Damaged`].
    ///
    /// # Panics
    /// If the name is too long.
    pub async fn reserve(&self, new: &NewDirectoryEntry<'_>) -> Result<Entry, FabricError> {
        assert!(new.name.len() <= NAME_BYTES_MAX, "the caller checks the length of the name");
        let (free, number_max) = self.find_free().await?;
        let Some(slot) = free else {
            return Err(FabricError::NoDirectoryEntry { entries: DIRECTORY_ENTRIES });
        };
        let number = self.take_number(number_max).await?;
        let mut name = [0; NAME_BYTES_MAX];
        name[..new.name.len()].copy_from_slice(new.name.as_bytes());
        let mut raw = Raw {
            state: state_of(slot).seal(RESERVED).to_le(),
            root: root_of(slot).seal(0).to_le(),
            seal: 0,
            free_list: free_list_of(slot).seal(0).to_le(),
            number: number.to_le(),
            kind: new.kind.to_le(),
            format: new.format.to_le(),
            name_bytes: new.name.len() as u8,
            name,
            parameters: new.parameters,
            types: [0; 2],
        };
        raw.seal = Raw::seal_of(raw.as_bytes()).to_le();
        self.client.post(write(at(slot), raw.as_bytes())).await?;
        Ok(entry_of(slot, &raw))
    }

    /// Finishes drops that were interrupted by the loss of the lock: an index that another client has open becomes
    /// live again, any other is removed. A damaged entry stays as it is, and a damaged slot of the client table may
    /// belong to a client that has the index open. [64 RT, +a READ of the client table for each unfinished drop]
    pub async fn settle(&self) -> Result<(), FabricError> {
        for slot in 0..DIRECTORY_ENTRIES {
            let word = self.client.post(read(state_of(slot).at())).await?.whole_word();
            if open_state(slot, word) == Ok(DROPPING) {
                let settled = match self.find_opener(slot).await {
                    Ok(None) => RESERVED,
                    Ok(Some(_)) | Err(FabricError::Damaged { .. }) => LIVE,
                    Err(error) => return Err(error),
                };
                self.set_state(slot, settled).await?;
            }
        }
        Ok(())
    }

    /// Finds a free entry, or one that a client reserved and did not publish before it lost the lock; also yields the
    /// largest number of an index. [64 RT]
    async fn find_free(&self) -> Result<(Option<usize>, u64), FabricError> {
        let (mut free, mut number_max) = (None, 0);
        for slot in 0..DIRECTORY_ENTRIES {
            match load(self.client, slot).await? {
                (FREE | RESERVED, _) => free = free.or(Some(slot)),
                (_, raw) => number_max = number_max.max(u64::from_le(raw.number)),
            }
        }
        Ok((free, number_max))
    }

    /// Takes the next number of an index, which is above those of all indexes: nodes of two indexes with the same
    /// number could not be distinguished. [2 RT]
    async fn take_number(&self, number_max: u64) -> Result<u64, FabricError> {
        let counter = SealedWord::new(word(NodeId(0), NEXT_INDEX_OFFSET));
        let found = self.client.post(read(counter.at())).await?.whole_word();
        let number = counter.open(found)?;
        if number <= number_max || number >= NUMBERS_MAX {
            return Err(counter.damaged(found));
        }
        match self.client.post(cas(counter.at(), found, counter.seal(number + 1))).await? {
            Swapped::Won => Ok(number),
            // Only the holder of the lock changes the counter.
            Swapped::Lost(_) => Err(FabricError::Revoked(self.client.fabric().identity())),
        }
    }

    /// Stores the state of an entry. [1 RT]
    async fn set_state(&self, slot: usize, state: u64) -> Result<(), FabricError> {
        let word = state_of(slot).seal(state);
        self.client.post(write(state_of(slot).at(), &word.to_le_bytes())).await
    }

    /// Finds another live client that has the entry open.
    async fn find_opener(&self, slot: usize) -> Result<Option<ClientId>, FabricError> {
        let table = client_table::load(self.client).await?;
        for resident in table.all("whether its client has the index open")? {
            let other = resident.client != self.client.fabric().identity();
            if other
                && resident.open & (1 << slot) != 0
                && self.client.fabric().revoke(resident.client).await? == Revocation::Alive
            {
                return Ok(Some(resident.client));
            }
        }
        Ok(None)
    }

    /// Publishes a reserved index with its root. [1 RT]
    pub async fn publish<T: ?Sized>(&self, entry: &Entry, root: Remote<T>) -> Result<(), FabricError> {
        let state = state_of(usize::from(entry.slot));
        let root = entry.root().seal_pointer(Some(root))?.to_le_bytes();
        let live = state.seal(LIVE).to_le_bytes();
        let post = write(entry.root().at(), &root).then(write(state.at(), &live));
        self.client.post(post).await.map(|_| ())
    }

    /// Removes the name from the directory, unless another live client has the index open: `Err(client)` is that
    /// client. The entry stays in use until [`erase`](Self::erase). [2 RT, +a READ of the client table]
    pub async fn retire(&self, entry: &Entry) -> Result<Result<(), ClientId>, FabricError> {
        let slot = usize::from(entry.slot);
        self.set_state(slot, DROPPING).await?;
        let opener = self.find_opener(slot).await;
        if opener != Ok(None) {
            self.set_state(slot, LIVE).await?;
        }
        Ok(opener?.map_or(Ok(()), Err))
    }

    /// Frees the entry of a removed index whose chunks are freed. [1 RT]
    pub async fn erase(&self, entry: &Entry) -> Result<(), FabricError> {
        self.set_state(usize::from(entry.slot), FREE).await
    }
}

impl<F: Fabric> Drop for Locked<'_, F> {
    /// Releases the lock after an operation that failed or was cancelled.
    fn drop(&mut self) {
        if self.held {
            self.client.post_detached(self.release());
        }
    }
}

impl<F: Fabric> std::fmt::Debug for Locked<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locked").field("mine", &self.mine).finish_non_exhaustive()
    }
}

/// The state of an entry.
fn state_of(slot: usize) -> SealedWord {
    SealedWord::new(at(slot).part(0))
}

/// The root pointer of an entry.
fn root_of(slot: usize) -> SealedWord {
    SealedWord::new(at(slot).part(8))
}

/// The pointer of an entry to free memory of its index.
fn free_list_of(slot: usize) -> SealedWord {
    SealedWord::new(at(slot).part(24))
}

/// The hash of the name of the key type (`column` 0) or the value type of an entry.
fn type_of(slot: usize, column: usize) -> SealedWord {
    SealedWord::new(at(slot).part((TYPES + 8 * column) as u64))
}

/// Records the [hashes](type_hash) of the names of the types of keys and values, where they are known. The caller has
/// created the index and has it open, so the entry belongs to it. [1 RT]
///
/// # Errors
/// If the fabric fails.
pub async fn record_types<F: Fabric>(
    client: &Client<F>,
    entry: &Entry,
    hashes: [Option<u64>; 2],
) -> Result<(), FabricError> {
    let slot = usize::from(entry.slot);
    let word =
        |column: usize| hashes[column].map_or(0, |hash| type_of(slot, column).seal(hash)).to_le_bytes();
    let (keys, values) = (word(0), word(1));
    let post = write(type_of(slot, 0).at(), &keys).then(write(type_of(slot, 1).at(), &values));
    client.post(post).await.map(|_| ())
}

/// The [hashes](type_hash) of the names of the types of keys and values of an index, as far as they are recorded. [1
/// RT]
///
/// # Errors
/// If the fabric fails or the entry is damaged.
pub async fn types<F: Fabric>(client: &Client<F>, entry: &Entry) -> Result<[Option<u64>; 2], FabricError> {
    let slot = usize::from(entry.slot);
    let (state, raw) = load(client, slot).await?;
    let is_same = state == LIVE && u64::from_le(raw.number) == entry.number;
    Ok(if is_same { raw.types(slot) } else { [None; 2] })
}

/// Whether the directory entry still belongs to the index of `entry`. [1 RT]
pub async fn still<F: Fabric>(client: &Client<F>, entry: &Entry) -> Result<bool, FabricError> {
    let (state, raw) = load(client, usize::from(entry.slot)).await?;
    Ok(state == LIVE && u64::from_le(raw.number) == entry.number)
}

const _: () = assert!(size_of::<Raw>() == DIRECTORY_ENTRY_BYTES);
const _: () = assert!(std::mem::offset_of!(Raw, root) == 8 && std::mem::offset_of!(Raw, free_list) == 24);
const _: () = assert!(std::mem::offset_of!(Raw, number) == SEALED);
const _: () = assert!(std::mem::offset_of!(Raw, parameters) == 112);
const _: () = assert!(std::mem::offset_of!(Raw, types) == TYPES);

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros as _;

    const SLOT: usize = 5;

    fn entry(change: impl FnOnce(&mut Raw)) -> Raw {
        let mut raw = Raw::new_zeroed();
        (raw.state, raw.number, raw.name_bytes) = (state_of(SLOT).seal(LIVE).to_le(), 1_u64.to_le(), 2);
        raw.name[..2].copy_from_slice("é".as_bytes());
        change(&mut raw);
        raw
    }

    #[test]
    fn entries_that_no_client_writes_are_refused() {
        assert_eq!(entry(|_| {}).refuse(SLOT, LIVE), None);
        assert_eq!(entry(|raw| raw.number = 0).refuse(SLOT, FREE), None);
        let damages: [fn(&mut Raw); 5] = [
            |raw| raw.name_bytes = 64,
            |raw| raw.name_bytes = 1,
            |raw| raw.name[..2].copy_from_slice(b"\x1b["),
            |raw| raw.number = 0,
            |raw| raw.types[1] = 1,
        ];
        for damage in damages {
            assert!(entry(damage).refuse(SLOT, LIVE).is_some());
        }
    }

    #[test]
    fn the_seal_does_not_cover_the_hashes_of_types() {
        let hash = type_hash("u64");
        let named = entry(|raw| raw.types[0] = type_of(SLOT, 0).seal(hash).to_le());
        assert_eq!(named.refuse(SLOT, LIVE), None);
        assert_eq!(named.types(SLOT), [Some(hash), None]);
        assert_eq!(Raw::seal_of(named.as_bytes()), Raw::seal_of(entry(|_| {}).as_bytes()));
        let moved = entry(|raw| raw.types[1] = type_of(SLOT, 0).seal(hash).to_le());
        assert!(moved.refuse(SLOT, LIVE).is_some(), "the word of another column");
    }

    #[test]
    fn an_impossible_state_is_damage_and_not_a_free_entry() {
        let live = state_of(SLOT).seal(LIVE);
        assert_eq!(entry(|_| {}).state(SLOT), Ok(LIVE));
        let flipped = (0..64).map(|bit| live ^ 1 << bit);
        for word in flipped.chain([0, LIVE, u64::MAX, state_of(SLOT).seal(4), state_of(SLOT + 1).seal(FREE)])
        {
            let state = entry(|raw| raw.state = word.to_le()).state(SLOT);
            assert!(matches!(state, Err(FabricError::Damaged { .. })), "{word:#x}: {state:?}");
        }
    }
}
