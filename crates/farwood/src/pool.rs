//! Pools: creating, opening and removing them, and the indexes in them by name.

use crate::argument::Call;
use crate::attached::Attached;
use crate::attached_place::AttachedPlace;
use crate::attachment::{Attachment, FreshNodes};
use crate::codec::{Codec, KEY_BYTES_MIN, Key, Value};
use crate::entry::IndexEntry;
use crate::error::{Error, Result};
use crate::kind::{Kind, Type};
use crate::observe::{MeteredClient, Metrics, MetricsLevel, Observer};
use crate::pool_options::PoolOptions;
use crate::structure::{Column, Contradiction, Structure};
use crate::thread_client;
use crate::tree::Tree;
use crate::typed_index::Index;
use crate::url::Url;
use farwood_fabric::directory;
use farwood_fabric::{Access, FabricError, Packed, Revocation, client_table};
use farwood_index::IndexError;
use farwood_index::drop_index;
use farwood_index::ordered::{Ordered, describe};
use farwood_transport::any::PoolLocation;
use farwood_transport::runtime::block_on;
use farwood_transport::shm::{PoolName, SegmentDir, ShmError, ShmPool};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// This process's attachment to a pool of memory nodes. Clones share the attachment, which ends when the last handle of
/// the pool and of its indexes is dropped. Other threads that have used the pool keep its memory mapped until they use
/// another pool, or end; this does not prevent the removal of the pool.
///
/// ```
/// use farwood::{BTree, Pool, PoolOptions};
///
/// # let url = format!("shm://doc-pool-{}", std::process::id());
/// # let url = url.as_str();
/// // In the first process:
/// Pool::create(url, &PoolOptions::new().memory_bytes(64 << 20).nodes(2))?;
/// // In every process:
/// let pool = Pool::open(url)?;
/// let prices = pool.open_or_create::<u64, u64>("prices", &BTree::new())?;
/// prices.put(&4711, &1999)?;
/// assert_eq!(prices.get(&4711)?, Some(1999));
/// # drop((prices, pool));
/// // When no process uses the pool any longer:
/// Pool::remove(url)?;
/// # Ok::<(), farwood::Error>(())
/// ```
#[derive(Clone)]
pub struct Pool(Arc<Attached>);

impl Pool {
    /// Maximum memory nodes of a pool.
    pub const MEMORY_NODES_MAX: u16 = Packed::<u64>::NODES_MAX as u16;

    /// Creates the pool. With [`PoolOptions::reserve_memory`], this takes about a second per GiB.
    ///
    /// # Errors
    /// [`Error::Pool`]: the pool exists, or the machine has too little memory; [`Error::Url`]; [`Error::Served`]: a
    /// pool over TCP is created by starting its memory nodes.
    pub fn create<U>(url: U, options: &PoolOptions) -> Result<()>
    where
        U: TryInto<Url>,
        Error: From<U::Error>,
    {
        let name = expect_shm(url.try_into()?, "create")?;
        let spec = options.spec(name);
        let created = spec.and_then(|spec| farwood_transport::shm::create(&SegmentDir::from_env(), &spec));
        created.map_err(|source| Error::Pool { operation: "create", source })
    }

    /// Attaches this process to the pool. New memory nodes over TCP or RDMA become a pool. Their credentials are in
    /// files that the URL names (`?token-file=FILE&tls-ca=FILE&tls-cert=FILE&tls-key=FILE&tls-name=NAME`) or the
    /// environment (`FARWOOD_TOKEN_FILE`, `FARWOOD_TLS_CA` and so on).
    ///
    /// # Errors
    /// [`Error::Pool`], `Error::Tcp`: the pool does not exist, belongs to another program or version, or has no free
    /// client slot.
    pub fn open<U>(url: U) -> Result<Self>
    where
        U: TryInto<Url>,
        Error: From<U::Error>,
    {
        Self::open_with(url.try_into()?, FreshNodes::FormPool)
    }

    /// Attaches this process to an existing pool, as [`open`](Self::open), but does not make new memory nodes a pool.
    ///
    /// # Errors
    /// As [`open`](Self::open); `Error::Tcp` also if the memory nodes are new.
    pub fn find<U>(url: U) -> Result<Self>
    where
        U: TryInto<Url>,
        Error: From<U::Error>,
    {
        Self::open_with(url.try_into()?, FreshNodes::Refused)
    }

    /// Attaches this process to an existing pool for reading only. The process takes no slot of the client table and no
    /// lock, so it leaves nothing to clean up, and other processes do not see it: they may drop an index that it reads,
    /// or remove the pool. Calls that change something fail with
    /// [`ErrorKind::ReadOnly`](crate::error::ErrorKind::ReadOnly) without a round trip. The permission to read the
    /// files of the pool is enough, or the token for reading (`NodeSpec::read_token`).
    ///
    /// Answers are those of a process that may write. A read fails with [`ErrorKind::Busy`](crate::error::ErrorKind)
    /// if a client has crashed, or is stopped, in the middle of a change that the read would have to complete.
    ///
    /// ```
    /// use farwood::error::ErrorKind;
    /// use farwood::{Access, BTree, Pool, PoolOptions};
    ///
    /// # let url = format!("shm://doc-read-only-{}", std::process::id());
    /// # let url = url.as_str();
    /// # Pool::create(url, &PoolOptions::new().memory_bytes(64 << 20))?;
    /// let pool = Pool::open(url)?;
    /// let prices = pool.create_index::<u64, u64>("prices", &BTree::new())?;
    /// prices.put(4711, 1999)?;
    ///
    /// let reader = Pool::open_read_only(url)?;
    /// assert_eq!(reader.access(), Access::ReadOnly);
    /// let read = reader.open_index::<u64, u64>("prices")?;
    /// assert_eq!(read.get(4711)?, Some(1999));
    /// assert_eq!(read.put(4711, 0).unwrap_err().kind(), ErrorKind::ReadOnly);
    /// # drop((prices, pool, read, reader));
    /// # Pool::remove(url)?;
    /// # Ok::<(), farwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`find`](Self::find), without those of client slots; [`Error::Feature`] and others of the URL;
    /// [`ErrorKind::Unsupported`](crate::error::ErrorKind::Unsupported) over RDMA, where a device executes every verb.
    pub fn open_read_only<U>(url: U) -> Result<Self>
    where
        U: TryInto<Url>,
        Error: From<U::Error>,
    {
        let place = url.try_into()?.expect_pool()?;
        let attachment = Attachment::open_read_only(&place)?;
        Ok(Self::of(AttachedPlace::Located(place), attachment))
    }

    /// What this process may do in the pool. [0 RT]
    pub fn access(&self) -> Access {
        self.attached().attachment().access()
    }

    fn open_with(url: Url, fresh: FreshNodes) -> Result<Self> {
        let place = url.expect_pool()?;
        let attachment = Attachment::open(&place, fresh)?;
        Ok(Self::of(AttachedPlace::Located(place), attachment))
    }

    /// A handle of an attachment.
    pub(crate) fn attached_by(attached: Arc<Attached>) -> Self {
        Self(attached)
    }

    pub(crate) fn of(place: AttachedPlace, attachment: Attachment) -> Self {
        Self(Arc::new(Attached::new(place, attachment)))
    }

    /// Removes a pool. No live process may be attached to it, including the calling one.
    ///
    /// # Errors
    /// [`Error::Attached`]; [`Error::Unusable`] if the pool is damaged; [`Error::Pool`] if there is none;
    /// [`Error::Served`].
    pub fn remove<U>(url: U) -> Result<()>
    where
        U: TryInto<Url>,
        Error: From<U::Error>,
    {
        let name = expect_shm(url.try_into()?, "remove")?;
        let dir = SegmentDir::from_env();
        let attachment = match ShmPool::open(&dir, &name) {
            Ok(attachment) => attachment,
            Err(
                source @ (ShmError::Permission { .. }
                | ShmError::ReadOnly { .. }
                | ShmError::ForeignOwner { .. }
                | ShmError::UntrustedGroup { .. }
                | ShmError::UnknownGroup { .. }
                | ShmError::UnknownUser { .. }
                | ShmError::NotAFile { .. }
                | ShmError::BadName { .. }),
            ) => {
                return Err(Error::Pool { operation: "remove", source });
            }
            // If only the first segment is missing, a crash has left the others: the pool is damaged, not missing.
            Err(source @ ShmError::NotFound { .. }) if !has_segments(&dir, &name) => {
                return Err(Error::Pool { operation: "remove", source });
            }
            Err(source) => return Err(Error::Unusable { pool: name.to_string(), source }),
        };
        let processes = others(&attachment).map_err(|source| removal_failed(&name, source))?;
        if !processes.is_empty() {
            return Err(Error::Attached { pool: name.to_string(), processes });
        }
        remove_files(&dir, &name)
    }

    /// Removes a pool in any state. Operations of attached processes fail within half a second with
    /// [`FabricError::MemoryLost`]; the memory is free when they have ended.
    ///
    /// # Errors
    /// [`Error::Pool`] if there is none, or the operating system refuses; [`Error::Served`].
    pub fn remove_by_force<U>(url: U) -> Result<()>
    where
        U: TryInto<Url>,
        Error: From<U::Error>,
    {
        remove_files(&SegmentDir::from_env(), &expect_shm(url.try_into()?, "remove")?)
    }

    /// The pool's URL. That of an [anonymous pool](Self::anonymous) is `anonymous://NUMBER`, which only identifies the
    /// pool in errors: no pool can be opened by it.
    pub fn url(&self) -> String {
        self.0.place().to_string()
    }

    /// Creates an index with keys of type `K` and values of type `V`, and opens it. The options select the
    /// structure: [`BTree`](crate::BTree), [`Radix`](crate::Radix) or [`Hashed`](crate::Hashed). [about 140 RT]
    ///
    /// # Errors
    /// [`Error::Index`]: the index exists, the name or the sizes are invalid, the pool or its directory is full, or
    /// another index of the pool has locks of another size in the same memory; [`Error::Options`]: a length is missing,
    /// a length contradicts the type, or the options combine sorted leaves with versions; [`Error::Argument`]: the
    /// cache has more than 1 TiB.
    pub fn create_index<K: Key, V: Value>(
        &self,
        name: &str,
        options: &impl Structure,
    ) -> Result<Index<K, V>> {
        let columns = [Column::of::<K>(), Column::of::<V>()];
        Ok(Index::of(self.create_tree(name, columns, columns.map(Column::type_hash), options)?))
    }

    /// Creates an index as [`create_index`](Self::create_index), with types that are known only at run time. The handle
    /// takes and returns encoded bytes.
    ///
    /// # Errors
    /// As [`create_index`](Self::create_index).
    pub fn create_untyped(
        &self,
        name: &str,
        kinds: [Kind; 2],
        options: &impl Structure,
    ) -> Result<Index<Vec<u8>, Vec<u8>>> {
        let columns = kinds.map(Column::of_kind);
        Ok(Index::of(self.create_tree(name, columns, columns.map(Column::type_hash), options)?))
    }

    /// Creates an index as [`create_untyped`](Self::create_untyped), and records `value_type` as the name of the type
    /// of the values, which [`Index::has_value_type`] compares. Bindings of other languages have types that the library
    /// does not know.
    ///
    /// # Errors
    /// As [`create_index`](Self::create_index).
    pub fn create_untyped_of(
        &self,
        name: &str,
        kinds: [Kind; 2],
        value_type: &str,
        options: &impl Structure,
    ) -> Result<Index<Vec<u8>, Vec<u8>>> {
        let columns = kinds.map(Column::of_kind);
        let types = [columns[0].type_hash(), Some(directory::type_hash(value_type))];
        Ok(Index::of(self.create_tree(name, columns, types, options)?))
    }

    /// Checks the options of an index that [`create_untyped`](Self::create_untyped) would create at `url`, without a
    /// pool. An invalid option then does not make new memory nodes a pool. [0 RT]
    ///
    /// # Errors
    /// [`Error::Options`]; [`Error::Index`]: the sizes are invalid; [`Error::Argument`]: the cache is too large.
    pub fn check_untyped(url: &Url, kinds: [Kind; 2], options: &impl Structure) -> Result<()> {
        let refused = |why| Error::Options { url: url.to_string(), why };
        let columns = kinds.map(Column::of_kind);
        columns.iter().try_for_each(|column| column.check()).map_err(refused)?;
        let config = options.config(columns).map_err(refused)?;
        Call { operation: "create", url: url.to_string() }.check_cache(options.cache_budget())?;
        config.check().map_err(|source| Error::Index { operation: "create", url: url.to_string(), source })
    }

    /// Opens an index, with an index cache of [`BTree::CACHE_BYTES`](crate::BTree::CACHE_BYTES), or a filter of
    /// [`Hashed::FILTER_BYTES`](crate::Hashed::FILTER_BYTES). Handles of one index share its cache and its local
    /// locks. [at most 71 RT]
    ///
    /// # Errors
    /// [`Error::Index`]: the index does not exist, or has an unknown format; [`Error::Type`]: its keys or values have
    /// another kind, length, or name of the type. An index that was created without names is checked by kind and
    /// length.
    pub fn open_index<K: Key, V: Value>(&self, name: &str) -> Result<Index<K, V>> {
        self.open_typed(name, None)
    }

    /// Opens an index as [`open_index`](Self::open_index), with an index cache of `cache_bytes` unless this process has
    /// it open already.
    ///
    /// # Errors
    /// As [`open_index`](Self::open_index).
    pub fn open_index_with_cache<K: Key, V: Value>(
        &self,
        name: &str,
        cache_bytes: usize,
    ) -> Result<Index<K, V>> {
        self.open_typed(name, Some(cache_bytes))
    }

    fn open_typed<K: Key, V: Value>(&self, name: &str, cache_bytes: Option<usize>) -> Result<Index<K, V>> {
        typed(self.open_tree(name, cache_bytes)?)
    }

    /// Opens an index of any types. The handle takes and returns encoded bytes; [`Index::kinds`] returns their types.
    ///
    /// # Errors
    /// [`Error::Index`]: the index does not exist, or has an unknown format.
    pub fn open_untyped(&self, name: &str) -> Result<Index<Vec<u8>, Vec<u8>>> {
        Ok(Index::of(self.open_tree(name, None)?))
    }

    /// Opens the index, or creates it if it does not exist. If several processes do this at once, one of them creates
    /// it. The options must not contradict an existing index: those that differ from their defaults must be the ones
    /// with which it was created, except for the budget of the cache. [`open_index`](Self::open_index) takes no
    /// options.
    ///
    /// # Errors
    /// As [`open_index`](Self::open_index) and [`create_index`](Self::create_index); [`Error::Argument`]: an option
    /// contradicts the existing index.
    pub fn open_or_create<K: Key, V: Value>(
        &self,
        name: &str,
        options: &impl Structure,
    ) -> Result<Index<K, V>> {
        match self.open_agreeing(name, options) {
            Err(Error::Index { source: IndexError::NoSuchIndex(_), .. }) => {}
            opened => return opened,
        }
        match self.create_index(name, options) {
            // Another process has created it.
            Err(Error::Index { source: IndexError::IndexExists(_), .. }) => self.open_agreeing(name, options),
            created => created,
        }
    }

    /// Opens an index that `options` do not contradict.
    fn open_agreeing<K: Key, V: Value>(&self, name: &str, options: &impl Structure) -> Result<Index<K, V>> {
        let tree = self.open_tree(name, Some(options.cache_budget()))?;
        let stored = describe(tree.ordered().entry()).map_err(|error| self.failed("open", name, error))?;
        if let Some(Contradiction { what, given, stored }) = options.contradiction(&stored) {
            let call = Call { operation: "open", url: tree.url() };
            let remedy =
                format!("the index was created with {stored}; omit the option, or use another index");
            return Err(call.refused(what, given, remedy));
        }
        typed(tree)
    }

    /// Drops an index and frees its memory.
    ///
    /// # Errors
    /// [`Error::OpenHere`] if this process has it open; [`Error::Index`]: it does not exist, or another process has it
    /// open.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        let open = self.attached().open().map_err(|error| self.failed("drop", name, error.into()))?;
        if open.contains(name) {
            return Err(Error::OpenHere { url: self.attached().index_url(name) });
        }
        block_on(drop_index(&*self.client("drop an index of")?, name))
            .map_err(|error| self.failed("drop", name, error))
    }

    /// Lists the indexes of the pool by name, with their sizes and types, without opening them. [64 RT]
    ///
    /// # Errors
    /// [`Error::Fabric`].
    pub fn indexes(&self) -> Result<Vec<IndexEntry>> {
        let client = self.client("list the indexes of")?;
        let failed = |source| self.fabric_failed("list the indexes of", source);
        let entries = block_on(directory::list(&*client)).map_err(failed)?;
        Ok(IndexEntry::by_name(entries))
    }

    /// The calls on the indexes of this pool by this process, with their costs and durations, since
    /// [`set_metrics_level`](Self::set_metrics_level) has switched the counters on. [0 RT]
    ///
    /// A snapshot contains all calls that have ended before it began. A forked child counts its own calls.
    ///
    /// ```
    /// # use farwood::stats::MetricsLevel;
    /// # use farwood::{BTree, Pool, PoolOptions};
    /// # let url = format!("shm://doc-metrics-{}", std::process::id());
    /// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    /// # let pool = Pool::open(&url)?;
    /// pool.set_metrics_level(MetricsLevel::Sampled);
    /// let index = pool.create_index::<u64, u64>("numbers", &BTree::new())?;
    /// index.put(1, 10)?;
    /// let before = pool.metrics();
    /// assert_eq!((index.get(1)?, index.get(2)?), (Some(10), None));
    /// let metrics = pool.metrics().since(&before);
    /// let gets = metrics.of("numbers", "get").unwrap();
    /// assert_eq!((gets.calls, gets.costs.round_trips, gets.errors_total()), (2, 2, 0));
    /// assert_eq!(metrics.of("numbers", "put"), None);
    /// # drop((index, pool));
    /// # Pool::remove(&url)?;
    /// # Ok::<(), farwood::Error>(())
    /// ```
    pub fn metrics(&self) -> Metrics {
        self.attached().calls().metrics()
    }

    /// Sets what the calls on the indexes of this pool count in this process. The level of a pool that was just opened
    /// is [`Off`](MetricsLevel::Off), because counting makes a lookup in shared memory about 4 % slower. [0 RT]
    pub fn set_metrics_level(&self, level: MetricsLevel) {
        self.attached().calls().set_level(level);
    }

    /// Sets the observer of all calls on the indexes of this pool by this process, in the place of the one before. The
    /// durations of all calls are measured from then on. [0 RT]
    pub fn set_observer(&self, observer: Arc<dyn Observer>) {
        self.attached().calls().set_observer(Some(observer));
    }

    /// Removes the observer. [0 RT]
    pub fn remove_observer(&self) {
        self.attached().calls().set_observer(None);
    }

    /// The attachment of this process.
    pub(crate) fn attached(&self) -> &Arc<Attached> {
        self.0.here()
    }

    pub(crate) fn client(&self, operation: &'static str) -> Result<Rc<MeteredClient>> {
        thread_client::client(self.attached()).map_err(|source| self.fabric_failed(operation, source))
    }

    pub(crate) fn fabric_failed(&self, operation: &'static str, source: FabricError) -> Error {
        Error::Fabric { operation, pool: self.url(), source: self.attached().located(source) }
    }

    pub(crate) fn failed(&self, operation: &'static str, name: &str, source: IndexError) -> Error {
        self.attached().failed(operation, name, source)
    }

    pub(crate) fn create_tree(
        &self,
        name: &str,
        columns: [Column; 2],
        types: [Option<u64>; 2],
        options: &impl Structure,
    ) -> Result<Arc<Tree>> {
        let refused = |why| Error::Options { url: self.attached().index_url(name), why };
        columns.iter().try_for_each(|column| column.check()).map_err(refused)?;
        let (config, cache_bytes) = (options.config(columns).map_err(refused)?, options.cache_budget());
        Call { operation: "create", url: self.attached().index_url(name) }.check_cache(cache_bytes)?;
        let mut open = self.attached().open().map_err(|error| self.failed("create", name, error.into()))?;
        let client = self.client("create an index in")?;
        let created = block_on(Ordered::create(&*client, name, config, cache_bytes));
        let index = created.map_err(|error| self.failed("create", name, error))?;
        let tree = open.add(name, index, types, self.attached());
        // After an error below, the destructor of the tree acquires this lock.
        drop(open);
        let recorded = block_on(directory::record_types(&*client, tree.ordered().entry(), types));
        recorded.map_err(|error| self.failed("create", name, error.into()))?;
        Ok(tree)
    }

    pub(crate) fn open_tree(&self, name: &str, cache_bytes: Option<usize>) -> Result<Arc<Tree>> {
        Call { operation: "open", url: self.attached().index_url(name) }
            .check_cache(cache_bytes.unwrap_or(0))?;
        let mut open = self.attached().open().map_err(|error| self.failed("open", name, error.into()))?;
        if let Some(tree) = open.tree(name) {
            return Ok(tree);
        }
        let client = self.client("open an index of")?;
        let opened = block_on(Ordered::open(&*client, name, cache_bytes));
        let index = opened.map_err(|error| self.failed("open", name, error))?;
        let types = block_on(directory::types(&*client, index.entry()));
        let tree = open.add(name, index, types.clone().unwrap_or_default(), self.attached());
        // After an error below, the destructor of the tree acquires this lock.
        drop(open);
        types.map_err(|error| self.failed("open", name, error.into()))?;
        Ok(tree)
    }
}

/// The name of a pool in shared memory. Other pools cannot be created or removed with a URL.
pub(crate) fn expect_shm(url: Url, operation: &'static str) -> Result<PoolName> {
    // Every pool of a build without `tcp` is in shared memory.
    let _ = operation;
    match url.expect_pool()? {
        PoolLocation::Shm(name) => Ok(name),
        #[cfg(feature = "tcp")]
        place => Err(Error::Served { operation, pool: place.to_string() }),
    }
}

/// The handle of an index, if it has keys of type `K` and values of type `V`.
fn typed<K: Key, V: Value>(tree: Arc<Tree>) -> Result<Index<K, V>> {
    check_type::<K>(&tree, "keys", 0, KEY_BYTES_MIN)?;
    check_type::<V>(&tree, "values", 1, 0)?;
    Ok(Index::of(tree))
}

/// Checks kind, length and name of a type. Shorter types are padded to `bytes_min`.
fn check_type<T: Codec>(tree: &Tree, what: &'static str, at: usize, bytes_min: usize) -> Result<()> {
    let found = tree.type_of(at, &T::NAME);
    let same_length =
        |own: usize| found.bytes.is_none_or(|bytes| bytes == own || bytes == own.max(bytes_min));
    let fits = found.kind == T::KIND
        && T::WIDTH.is_none_or(same_length)
        && found.name.is_none_or(|name| *name == T::NAME);
    if fits {
        return Ok(());
    }
    let expected = Type { kind: T::KIND, bytes: T::WIDTH, name: Some(&T::NAME) };
    Err(Error::Type { url: tree.url(), what, expected, found })
}

/// Returns the processes of the live clients of a pool, without this attachment. Crashed clients lose their slots.
pub(crate) fn others(pool: &ShmPool) -> Result<Vec<u64>, FabricError> {
    use farwood_fabric::Fabric as _;
    let client = pool.client();
    let mut processes = Vec::new();
    let table = block_on(client_table::load(&client))?;
    for resident in table.all("whether a live process is attached there")? {
        if resident.client != pool.identity()
            && block_on(client.fabric().revoke(resident.client))? == Revocation::Alive
        {
            processes.push(resident.process);
        }
    }
    processes.dedup();
    Ok(processes)
}

fn removal_failed(name: &PoolName, source: FabricError) -> Error {
    match source {
        FabricError::Damaged { .. } => {
            let pool = name.to_string();
            Error::Unusable { pool: pool.clone(), source: ShmError::Pool { pool, error: source } }
        }
        _ => Error::Fabric { operation: "remove", pool: format!("shm://{name}"), source },
    }
}

fn has_segments(dir: &SegmentDir, name: &PoolName) -> bool {
    dir.list().is_ok_and(|pools| pools.iter().any(|pool| pool.name == *name))
}

fn remove_files(dir: &SegmentDir, name: &PoolName) -> Result<()> {
    dir.remove(name).map(|_| ()).map_err(|source| Error::Pool { operation: "remove", source })
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.url()).finish()
    }
}
