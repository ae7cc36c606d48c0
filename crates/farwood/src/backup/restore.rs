//! Creating and loading the indexes of a backup.

use super::error::BackupError;
use super::header::{BackupHeader, EntryTypes, IndexHeader};
use super::progress::{BackupSummary, IndexProgress, IndexSummary, unless_interrupted};
use super::reader::{BackupReader, IndexReader};
use super::refit::Refit;
use super::target::{RestoreTarget, RestoredStructure};
#[cfg(feature = "spatial")]
use super::target::{entry_of, no_options};
use super::whole_file::read_whole;
use crate::entry::IndexEntry;
use crate::error::{Error, Result};
use crate::patience::Interrupt;
use crate::pool::Pool;
#[cfg(feature = "spatial")]
use crate::spatial::Spatial;
use crate::structure::Column;
use crate::tree::Tree;
use crate::typed_index::Index;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Entries, rectangles or records between two reports of the progress.
const PARTS_PER_REPORT: u64 = 4096;
/// Bytes of the file between two reports.
const BYTES_PER_REPORT: u64 = 4 << 20;

/// Creates the indexes of a backup in a pool, and loads them: with the options that they had, or in another structure.
/// The pool may be on another fabric than the pool of the dump. [as a bulk load of each index]
///
/// An index of rectangles in a pool over TCP needs its server (`farwood serve`), as any change of it does.
///
/// An error removes the indexes that the call has created, so the pool has either all indexes of the backup or none of
/// them. Other processes cannot drop an index before the call ends. If the process is killed, the indexes stay, and the
/// one that was being loaded is empty, or has a part of the entries.
///
/// [`Dump`](super::Dump) has an example.
#[must_use = "a restore does nothing before `from_reader`"]
pub struct Restore<'p> {
    pool: &'p Pool,
    only: BTreeSet<String>,
    renamed: BTreeMap<String, String>,
    structure: Option<RestoredStructure>,
    /// Whether an index of keys was among those restored.
    applies_structure: bool,
    interrupt: Option<Interrupt>,
    /// Bytes of the file at the last report.
    reported: u64,
    progress: Box<dyn FnMut(IndexProgress<'_>) + 'p>,
}

impl<'p> Restore<'p> {
    /// A restore of all indexes of a backup into the pool.
    pub fn into(pool: &'p Pool) -> Self {
        Self {
            pool,
            only: BTreeSet::new(),
            renamed: BTreeMap::new(),
            structure: None,
            applies_structure: false,
            interrupt: None,
            reported: 0,
            progress: Box::new(|_| ()),
        }
    }

    /// Restores this index, and others that are named in the same way, instead of all.
    pub fn index(mut self, name: impl Into<String>) -> Self {
        self.only.insert(name.into());
        self
    }

    /// Gives the index `name` of the backup another name in the pool.
    pub fn rename(mut self, name: impl Into<String>, to: impl Into<String>) -> Self {
        self.renamed.insert(name.into(), to.into());
        self
    }

    /// Creates the indexes of keys with this structure, [`BTree`](crate::BTree), [`Radix`](crate::Radix) or
    /// [`Hashed`](crate::Hashed), instead of the options that they had. Spatial indexes keep theirs; it is an error if
    /// one of them is [chosen](Self::index), or if there are no others. A B-link tree takes lengths that its options do
    /// not state from the backup, or from the types. Keys of a radix tree that are texts, byte strings or tuples need
    /// [`key_bytes`](crate::BTree::key_bytes).
    pub fn structure(mut self, options: impl Into<RestoredStructure>) -> Self {
        self.structure = Some(options.into());
        self
    }

    /// Calls `progress` at intervals.
    pub fn progress(mut self, progress: impl FnMut(IndexProgress<'_>) + 'p) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Asks `interrupt` at intervals whether the call is to end, which is then [`BackupError::Interrupted`].
    pub fn interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = Some(interrupt);
        self
    }

    /// Restores the indexes of a backup. The input should be buffered.
    ///
    /// # Errors
    /// [`Error::Backup`]: the backup is damaged, cut off, or of a later version; it lacks an index that was named; an
    /// index exists in the pool already; a key or value does not fit the structure. [`Error::Index`]: the pool is full,
    /// say. The pool then has none of the indexes.
    pub fn from_reader(self, input: impl Read) -> Result<BackupSummary> {
        self.from_backup(BackupReader::new(input).map_err(failed)?)
    }

    /// Restores the indexes of a backup whose header was read, and none of whose indexes.
    ///
    /// # Errors
    /// As [`from_reader`](Self::from_reader).
    pub fn from_backup<R: Read>(mut self, mut backup: BackupReader<R>) -> Result<BackupSummary> {
        let mut created = Vec::new();
        let restored = self.restore_all(&mut backup, &mut created);
        restored.map_err(|error| self.remove(created, error))
    }

    /// Removes the indexes of a failed restore.
    fn remove(&self, created: Vec<Created>, error: Error) -> Error {
        let mut left = Vec::new();
        for Created { name, number, handle } in created {
            drop(handle);
            let is_there = |indexes: Vec<IndexEntry>| indexes.iter().any(|index| index.number == number);
            let there = self.pool.indexes().map(is_there);
            // Another process may have dropped it, and created another one of that name.
            if there.unwrap_or(true) && self.pool.drop_index(&name).is_err() {
                left.push(name);
            }
        }
        if left.is_empty() {
            return error;
        }
        failed(BackupError::NotRemoved { indexes: left, cause: error.to_string() })
    }

    /// Restores the indexes of a backup in a file.
    ///
    /// # Errors
    /// As [`from_reader`](Self::from_reader), with the path.
    pub fn from_file(self, path: impl AsRef<Path>) -> Result<BackupSummary> {
        read_whole(path.as_ref(), |input| self.from_reader(input))
    }

    fn restore_all<R: Read>(
        &mut self,
        backup: &mut BackupReader<R>,
        created: &mut Vec<Created>,
    ) -> Result<BackupSummary> {
        self.check(backup.header())?;
        let mut indexes = Vec::new();
        while let Some(mut index) = backup.next_index().map_err(failed)? {
            let name = index.header().name.clone();
            if self.takes(&name) {
                let name = self.renamed.get(&name).cloned().unwrap_or(name);
                let entries = self.restore(&mut index, &name, created)?;
                indexes.push(IndexSummary { name, entries });
            }
        }
        match indexes.first() {
            Some(index) if self.structure.is_some() && !self.applies_structure => {
                Err(without_structure(&index.name))
            }
            _ => Ok(BackupSummary { indexes, bytes: backup.bytes() }),
        }
    }

    fn takes(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.contains(name)
    }

    /// Checks names before anything is created.
    fn check(&self, header: &BackupHeader) -> Result<()> {
        for name in self.only.iter().chain(self.renamed.keys()) {
            if !header.indexes.contains(name) {
                let (name, has) = (name.clone(), header.indexes.clone());
                return Err(failed(BackupError::NoSuchIndex { name, has }));
            }
        }
        let mut taken: BTreeSet<_> = self.pool.indexes()?.into_iter().map(|index| index.name).collect();
        for name in header.indexes.iter().filter(|name| self.takes(name)) {
            let name = self.renamed.get(name).unwrap_or(name);
            if !taken.insert(name.clone()) {
                return Err(failed(BackupError::IndexExists { name: name.clone() }));
            }
        }
        Ok(())
    }

    fn restore<R: Read>(
        &mut self,
        index: &mut IndexReader<'_, R>,
        name: &str,
        created: &mut Vec<Created>,
    ) -> Result<u64> {
        let header = index.header().clone();
        match header.types {
            Some(types) => {
                self.applies_structure = true;
                self.restore_entries(index, (&header, &types), name, created)
            }
            None if self.structure.is_some() && self.only.contains(&header.name) => {
                Err(without_structure(&header.name))
            }
            None => self.restore_spatial(index, &header, name, created),
        }
    }

    /// Reports the progress, and ends the call if the program wants it: once for many parts, or many bytes.
    fn report<R: Read>(&mut self, name: &str, index: &IndexReader<'_, R>) -> Result<()> {
        let (entries, bytes) = (index.count(), index.bytes());
        if !entries.is_multiple_of(PARTS_PER_REPORT) && bytes < self.reported + BYTES_PER_REPORT {
            return Ok(());
        }
        self.report_end(name, index);
        unless_interrupted(self.interrupt.as_ref()).map_err(failed)
    }

    fn report_end<R: Read>(&mut self, name: &str, index: &IndexReader<'_, R>) {
        self.reported = index.bytes();
        (self.progress)(IndexProgress { index: name, entries: index.count(), bytes: self.reported });
    }

    fn restore_entries<R: Read>(
        &mut self,
        index: &mut IndexReader<'_, R>,
        (header, types): (&IndexHeader, &EntryTypes),
        name: &str,
        created: &mut Vec<Created>,
    ) -> Result<u64> {
        let target = RestoreTarget::new(self.structure.as_ref(), header, types).map_err(failed)?;
        let columns = [types.keys, types.values].map(|column| Column::of_kind(column.kind()));
        let hashes = [types.keys.type_hash, types.values.type_hash];
        let tree = self.pool.create_tree(name, columns, hashes, &target)?;
        let number = tree.ordered().entry().number;
        let handle = CreatedHandle::Ordered(Arc::clone(&tree));
        created.push(Created { name: name.to_owned(), number, handle });
        let restored: Index<Vec<u8>, Vec<u8>> = Index::of(tree);
        let refused = |why| failed(BackupError::Options { name: name.to_owned(), why });
        let keys = Refit::new("key", &types.keys, restored.key_width()).map_err(refused)?;
        let values = Refit::new("value", &types.values, restored.value_width()).map_err(refused)?;
        let entries = std::iter::from_fn(|| {
            let entry = index.count();
            if let Err(error) = self.report(name, index) {
                return Some(Err(error));
            }
            let refused_entry = |what: &str, why: String| {
                failed(BackupError::Unfit { name: name.to_owned(), entry, why: format!("the {what} {why}") })
            };
            let (key, value) = match index.next_entry().map_err(failed).transpose()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            let fitted = || {
                let key = keys.apply(key).map_err(|why| refused_entry("key", why))?;
                Ok((key, values.apply(value).map_err(|why| refused_entry("value", why))?))
            };
            Some(fitted())
        });
        let entries = restored.bulk_load().try_run_encoded(entries)?;
        self.report_end(name, index);
        Ok(entries)
    }

    #[cfg(feature = "spatial")]
    fn restore_spatial<R: Read>(
        &mut self,
        index: &mut IndexReader<'_, R>,
        header: &IndexHeader,
        name: &str,
        created: &mut Vec<Created>,
    ) -> Result<u64> {
        use crate::spatial::RTree;
        use farwood_fabric::Fabric as _;
        use farwood_index::catfish;
        use farwood_transport::runtime::block_on;

        /// The fill factor of nodes that leaves space for inserts.
        const FILL: f64 = 0.8;

        let described = catfish::describe(&entry_of(header).map_err(failed)?);
        // Another version has other parameters; the header has those that programs depend on.
        let config = described.or_else(|error| spatial_config(header).ok_or(error));
        let mut config = config.map_err(|error| failed(no_options(header, &error)))?;
        let found = block_on(self.pool.client("restore")?.fabric().find_added_nodes());
        found.map_err(|source| self.pool.fabric_failed("restore", source))?;
        if config.node.0 >= self.pool.attached().attachment().shape().nodes {
            config.node = farwood_fabric::NodeId(0);
        }
        let restored = Arc::new(self.pool.create_spatial(name, &RTree::of(config))?);
        let handle = CreatedHandle::Spatial(Arc::clone(&restored));
        created.push(Created { name: name.to_owned(), number: restored.number(), handle });
        if restored.ids().is_unique() {
            let mut records = Vec::new();
            while let Some(record) = index.next_record().map_err(failed)? {
                records.push(record);
                self.report(name, index)?;
            }
            let count = records.len() as u64;
            restored.bulk_load_records(records, FILL)?;
            self.report_end(name, index);
            return Ok(count);
        }
        let mut items = Vec::new();
        while let Some(item) = index.next_item().map_err(failed)? {
            items.push(item);
            self.report(name, index)?;
        }
        restored.bulk_load(&items, FILL)?;
        self.report_end(name, index);
        Ok(items.len() as u64)
    }

    #[cfg(not(feature = "spatial"))]
    fn restore_spatial<R: Read>(
        &mut self,
        _: &mut IndexReader<'_, R>,
        _: &IndexHeader,
        name: &str,
        _: &mut Vec<Created>,
    ) -> Result<u64> {
        Err(Error::Feature { url: self.pool.attached().index_url(name), feature: "spatial".to_owned() })
    }
}

/// An index that the restore has created, and keeps open until its end.
struct Created {
    name: String,
    number: u64,
    handle: CreatedHandle,
}

#[expect(dead_code, reason = "the handles keep the indexes open")]
enum CreatedHandle {
    Ordered(Arc<Tree>),
    #[cfg(feature = "spatial")]
    Spatial(Arc<Spatial>),
}

/// The options of a spatial index that its header has in words.
#[cfg(feature = "spatial")]
fn spatial_config(header: &IndexHeader) -> Option<farwood_index::catfish::CatfishConfig> {
    use farwood_index::catfish::{CatfishConfig, CoordinateSystem, IdKind};

    let ids = [IdKind::Repeated, IdKind::Number, IdKind::Text];
    let ids = ids.into_iter().find(|ids| Some(ids.name()) == header.ids.as_deref())?;
    let mut systems = CoordinateSystem::ALL.into_iter();
    let coordinates = systems.find(|system| system.name() == header.coordinates.as_deref())?;
    Some(CatfishConfig { ids, coordinates, ..CatfishConfig::default() })
}

/// The error for a structure that has no effect.
fn without_structure(name: &str) -> Error {
    let why =
        "it is spatial, and keeps its structure; omit the structure, or name indexes of keys".to_owned();
    failed(BackupError::Options { name: name.to_owned(), why })
}

fn failed(source: BackupError) -> Error {
    Error::Backup { operation: "restore", path: None, source }
}

impl fmt::Debug for Restore<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restore")
            .field("pool", &self.pool)
            .field("only", &self.only)
            .field("renamed", &self.renamed)
            .field("structure", &self.structure)
            .finish_non_exhaustive()
    }
}
