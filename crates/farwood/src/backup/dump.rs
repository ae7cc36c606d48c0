//! Writing a backup.

use super::block::{BLOCK_BYTES, BlockKind, BlockWriter};
use super::dump_snapshot::DumpSnapshot;
use super::error::{BackupError, BackupResult};
use super::header::{
    BackupHeader, ColumnHeader, Consistency, EntryTypes, FileEnd, IndexEnd, IndexHeader, now, to_json,
};
use super::parts::push_entry;
#[cfg(feature = "spatial")]
use super::parts::{push_item, push_record};
use super::progress::{BackupSummary, IndexProgress, IndexSummary, unless_interrupted};
use super::whole_file::write_whole;
use crate::error::{Error, ErrorKind, Result};
use crate::kind::write_hex;
use crate::patience::Interrupt;
use crate::pool::Pool;
#[cfg(feature = "spatial")]
use crate::spatial::{SearchMode, SearchOptions, Spatial};
use crate::typed_index::Index;
use farwood_fabric::directory::{self, Entry, TypedEntry};
use farwood_index::IndexError;
use farwood_index::catfish;
use farwood_index::ordered::System;
use farwood_transport::runtime::block_on;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::path::Path;

/// Writes a backup of a pool: its indexes with their options and contents. Other processes may change the indexes
/// meanwhile; [`Consistency`] states what the backup then contains. [as a scan of each index]
///
/// The memory of a dump is bounded, except that a spatial index is read as it is at one moment, and so is in memory
/// as a whole.
///
/// ```
/// use farwood::backup::{Dump, Restore};
/// use farwood::{BTree, Pool, Radix};
///
/// let pool = Pool::anonymous(64 << 20)?;
/// pool.create_index::<u64, u64>("numbers", &BTree::new())?.put(1, 10)?;
/// let mut file = Vec::new();
/// let written = Dump::of(&pool).to_writer(&mut file)?;
/// assert_eq!(written.indexes[0].entries, 1);
///
/// let other = Pool::anonymous(64 << 20)?;
/// Restore::into(&other).structure(Radix::new()).from_reader(file.as_slice())?;
/// assert_eq!(other.open_index::<u64, u64>("numbers")?.get(1)?, Some(10));
/// # Ok::<(), farwood::Error>(())
/// ```
#[must_use = "a dump does nothing before `to_writer`"]
pub struct Dump<'p> {
    pool: &'p Pool,
    only: BTreeSet<String>,
    consistency: Consistency,
    interrupt: Option<Interrupt>,
    progress: Box<dyn FnMut(IndexProgress<'_>) + 'p>,
}

impl<'p> Dump<'p> {
    /// A dump of all indexes of the pool.
    pub fn of(pool: &'p Pool) -> Self {
        let (only, progress) = (BTreeSet::new(), Box::new(|_: IndexProgress<'_>| ()));
        Self { pool, only, consistency: Consistency::EachIndex, interrupt: None, progress }
    }

    /// Dumps this index, and others that are named in the same way, instead of all.
    pub fn index(mut self, name: impl Into<String>) -> Self {
        self.only.insert(name.into());
        self
    }

    /// Dumps all indexes as they were at one cut ([`Consistency::OneCut`]), of a pool over TCP: each memory node
    /// keeps the state of that moment until the dump has ended, and copies the pages that clients change meanwhile
    /// (`NodeSpec::snapshot_bytes_max` limits the copies). Changes that clients had begun and not finished are
    /// completed or undone in the dump, as after a crash of these clients.
    ///
    /// One such dump of a pool runs at a time. It needs a token for reading and writing.
    pub fn consistent(mut self) -> Self {
        self.consistency = Consistency::OneCut;
        self
    }

    /// Calls `progress` after each block.
    pub fn progress(mut self, progress: impl FnMut(IndexProgress<'_>) + 'p) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Asks `interrupt` at intervals whether the call is to end, which is then [`BackupError::Interrupted`].
    pub fn interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = Some(interrupt);
        self
    }

    /// Writes the backup. It is complete when the call has returned, and `out` has stored what was written to it.
    ///
    /// # Errors
    /// [`Error::Backup`]: `out` fails; [`Error::Index`], [`Error::Fabric`]. With [`consistent`](Self::consistent):
    /// [`Error::Backup`] if the pool is not one over TCP; `Error::Tcp` of kind [`Busy`](ErrorKind::Busy) if another
    /// such dump runs, [`Full`](ErrorKind::Full) if clients have changed too much meanwhile,
    /// [`ReadOnly`](ErrorKind::ReadOnly) if the token permits only reads.
    pub fn to_writer(self, out: impl Write) -> Result<BackupSummary> {
        if self.consistency == Consistency::EachIndex {
            return self.write(out);
        }
        let mut snapshot = DumpSnapshot::of(self.pool)?;
        let written = Dump { pool: snapshot.pool(), ..self.shortened() }.write(out);
        written.map_err(|error| snapshot.explain(error))
    }

    /// The same dump for a shorter lifetime.
    fn shortened<'s>(self) -> Dump<'s>
    where
        'p: 's,
    {
        self
    }

    fn write(mut self, out: impl Write) -> Result<BackupSummary> {
        let sources = self.open(self.entries()?)?;
        let header = self.header(&sources);
        let begun = || {
            let mut blocks = BlockWriter::begin(out)?;
            blocks.write(BlockKind::Pool, &to_json(&header))?;
            BackupResult::Ok(blocks)
        };
        let mut blocks = begun().map_err(failed)?;
        let mut indexes = Vec::new();
        for source in sources {
            let name = source.entry.entry.name.clone();
            let entries = self.index_of(&source, &mut blocks)?;
            indexes.push(IndexSummary { name, entries });
        }
        let end = || {
            blocks.write(BlockKind::End, &to_json(&FileEnd { indexes: indexes.len() }))?;
            let bytes = blocks.written();
            blocks.end()?;
            BackupResult::Ok(bytes)
        };
        let bytes = end().map_err(failed)?;
        Ok(BackupSummary { indexes, bytes })
    }

    /// Writes the backup to a file, which replaces one of that name when the backup is complete and on the disk. After
    /// an error, the file of that name is as it was.
    ///
    /// # Errors
    /// As [`to_writer`](Self::to_writer), with the path.
    pub fn to_file(self, path: impl AsRef<Path>) -> Result<BackupSummary> {
        write_whole(path.as_ref(), "dump", |out| self.to_writer(out))
    }

    /// The directory entries of the indexes, in the order of their names.
    fn entries(&self) -> Result<Vec<TypedEntry>> {
        let client = self.pool.client("list the indexes of")?;
        let listed = block_on(directory::list(&*client));
        let mut entries = listed.map_err(|error| self.pool.fabric_failed("list the indexes of", error))?;
        entries.sort_by(|a, b| a.entry.name.cmp(&b.entry.name));
        for name in &self.only {
            if !entries.iter().any(|entry| entry.entry.name == *name) {
                let source = IndexError::NoSuchIndex(name.clone());
                return Err(self.pool.failed("open", name, source));
            }
        }
        entries.retain(|entry| self.only.is_empty() || self.only.contains(&entry.entry.name));
        Ok(entries)
    }

    /// Opens the indexes, so that no process drops them during the dump. Those that were dropped since they were listed
    /// are left out.
    fn open(&self, entries: Vec<TypedEntry>) -> Result<Vec<DumpSource>> {
        let mut sources = Vec::new();
        for entry in entries {
            let (contents, number) = match SourceContents::open(self.pool, &entry.entry, self.consistency) {
                Ok(opened) => opened,
                Err(error) if self.only.is_empty() && error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // A process may have dropped the index and created another one of the same name.
            if number == entry.entry.number {
                sources.push(DumpSource { entry, contents });
            } else if !self.only.is_empty() {
                let name = &entry.entry.name;
                return Err(self.pool.failed("open", name, IndexError::NoSuchIndex(name.clone())));
            }
        }
        Ok(sources)
    }

    fn header(&self, sources: &[DumpSource]) -> BackupHeader {
        let url = self.pool.url();
        BackupHeader {
            farwood: env!("CARGO_PKG_VERSION").to_owned(),
            // The parameters of a URL name files of this machine.
            source: url.split('?').next().unwrap_or_default().to_owned(),
            created: now(),
            consistency: self.consistency,
            indexes: sources.iter().map(|source| source.entry.entry.name.clone()).collect(),
        }
    }

    /// Writes an index; returns the number of its parts.
    fn index_of<W: Write>(&mut self, source: &DumpSource, blocks: &mut BlockWriter<W>) -> Result<u64> {
        let mut contents = Contents {
            name: &source.entry.entry.name,
            blocks,
            count: 0,
            interrupt: self.interrupt.as_ref(),
            progress: &mut *self.progress,
        };
        match &source.contents {
            SourceContents::Ordered(system, index) => ordered(*system, index, &source.entry, &mut contents)?,
            #[cfg(feature = "spatial")]
            SourceContents::Spatial(index) => spatial(index, &source.entry, &mut contents)?,
        }
        let entries = contents.count;
        contents.write(BlockKind::IndexEnd, &to_json(&IndexEnd { entries }))?;
        Ok(entries)
    }
}

/// An index that is open.
struct DumpSource {
    entry: TypedEntry,
    contents: SourceContents,
}

enum SourceContents {
    Ordered(System, Index<Vec<u8>, Vec<u8>>),
    #[cfg(feature = "spatial")]
    Spatial(Box<Spatial>),
}

impl SourceContents {
    /// Opens the index; returns its number, too.
    fn open(pool: &Pool, entry: &Entry, consistency: Consistency) -> Result<(Self, u64)> {
        let _ = consistency;
        let name = &entry.name;
        if let Some(system) = System::ALL.into_iter().find(|system| system.kind() == entry.kind) {
            let tree = pool.open_tree(name, None)?;
            let number = tree.ordered().entry().number;
            return Ok((Self::Ordered(system, Index::of(tree)), number));
        }
        if entry.kind != catfish::KIND {
            let refused = farwood_index::ordered::describe(entry).map(drop);
            return Err(pool.failed("open", name, refused.expect_err("the kind of index is unknown")));
        }
        #[cfg(feature = "spatial")]
        return spatial_of(pool, name, consistency);
        #[cfg(not(feature = "spatial"))]
        Err(Error::Feature { url: pool.attached().index_url(name), feature: "spatial".to_owned() })
    }
}

/// Opens a spatial index; returns its number, too.
#[cfg(feature = "spatial")]
fn spatial_of(pool: &Pool, name: &str, consistency: Consistency) -> Result<(SourceContents, u64)> {
    let mut index = pool.open_spatial(name)?;
    if consistency == Consistency::OneCut {
        // The server of the index knows the live memory only.
        index = index.with_search(SearchOptions { mode: SearchMode::Reads, ..SearchOptions::default() })?;
    }
    let number = index.number();
    Ok((SourceContents::Spatial(Box::new(index)), number))
}

/// The blocks of an index.
struct Contents<'a, W> {
    name: &'a str,
    blocks: &'a mut BlockWriter<W>,
    /// Parts of all blocks so far.
    count: u64,
    interrupt: Option<&'a Interrupt>,
    progress: &'a mut dyn FnMut(IndexProgress<'_>),
}

impl<W: Write> Contents<'_, W> {
    fn write(&mut self, kind: BlockKind, block: &[u8]) -> Result<()> {
        let written = self.blocks.write(kind, block);
        written.map_err(|error| failed(BackupError::Io(error)))?;
        (self.progress)(IndexProgress {
            index: self.name,
            entries: self.count,
            bytes: self.blocks.written(),
        });
        unless_interrupted(self.interrupt).map_err(failed)
    }

    /// Writes the block if it is complete.
    fn write_full(&mut self, kind: BlockKind, block: &mut Vec<u8>) -> Result<()> {
        if block.len() >= BLOCK_BYTES {
            self.write(kind, block)?;
            block.clear();
        }
        Ok(())
    }
}

fn index_header(entry: &TypedEntry, system: &str) -> IndexHeader {
    let parameters = write_hex(&entry.entry.parameters);
    IndexHeader {
        name: entry.entry.name.clone(),
        system: system.to_owned(),
        types: None,
        ids: None,
        coordinates: None,
        format: entry.entry.format,
        parameters,
    }
}

fn ordered<W: Write>(
    system: System,
    index: &Index<Vec<u8>, Vec<u8>>,
    entry: &TypedEntry,
    contents: &mut Contents<'_, W>,
) -> Result<()> {
    let [keys, values] = index.kinds().map(crate::kind::Kind::number);
    let types = EntryTypes {
        keys: ColumnHeader::new(keys, index.key_width(), entry.types[0]),
        values: ColumnHeader::new(values, index.value_width(), entry.types[1]),
    };
    let header = IndexHeader { types: Some(types), ..index_header(entry, system.name()) };
    contents.write(BlockKind::Index, &to_json(&header))?;
    let (mut block, mut before) = (Vec::with_capacity(2 * BLOCK_BYTES), Vec::new());
    let mut scan = index.iter();
    while let Some(entries) = scan.next_batch()? {
        for (key, value) in entries.iter() {
            push_entry(&mut block, &before, (key, value));
            contents.count += 1;
            before.clear();
            before.extend_from_slice(key);
            if block.len() >= BLOCK_BYTES {
                contents.write_full(BlockKind::Entries, &mut block)?;
                before.clear();
            }
        }
    }
    contents.write(BlockKind::Entries, &block)
}

#[cfg(feature = "spatial")]
fn spatial<W: Write>(index: &Spatial, entry: &TypedEntry, contents: &mut Contents<'_, W>) -> Result<()> {
    let ids = index.ids();
    let header = IndexHeader {
        ids: Some(ids.name().to_owned()),
        coordinates: index.coordinates().name().map(str::to_owned),
        ..index_header(entry, "catfish")
    };
    contents.write(BlockKind::Index, &to_json(&header))?;
    let mut block = Vec::with_capacity(2 * BLOCK_BYTES);
    if ids.is_unique() {
        for record in index.all_records()? {
            push_record(&mut block, &record);
            contents.count += 1;
            contents.write_full(BlockKind::Records, &mut block)?;
        }
        return contents.write(BlockKind::Records, &block);
    }
    for item in index.all_items()? {
        push_item(&mut block, &item);
        contents.count += 1;
        contents.write_full(BlockKind::Items, &mut block)?;
    }
    contents.write(BlockKind::Items, &block)
}

fn failed(source: BackupError) -> Error {
    Error::Backup { operation: "dump", path: None, source }
}

impl fmt::Debug for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dump").field("pool", &self.pool).field("only", &self.only).finish_non_exhaustive()
    }
}
