//! Reading a backup, part by part.

use super::block::{BlockKind, BlockReader};
use super::error::{BackupError, BackupResult};
use super::header::{BackupHeader, FileEnd, IndexEnd, IndexHeader, of_json};
use super::parts::Parts;
#[cfg(feature = "spatial")]
use farwood_index::catfish::{Item, Record};
use std::io::Read;

/// Reads a backup from a file or a stream, and checks every block before it returns contents of it.
///
/// ```
/// use farwood::backup::{BackupReader, Dump};
/// use farwood::{BTree, Pool};
///
/// let pool = Pool::anonymous(64 << 20)?;
/// let index = pool.create_index::<u64, u64>("squares", &BTree::new())?;
/// for number in 0..100 {
///     index.put(number, number * number)?;
/// }
/// let mut file = Vec::new();
/// Dump::of(&pool).to_writer(&mut file)?;
///
/// let mut backup = BackupReader::new(file.as_slice())?;
/// assert_eq!(backup.header().indexes, ["squares"]);
/// while let Some(mut index) = backup.next_index()? {
///     let mut count = 0;
///     while let Some((key, value)) = index.next_entry()? {
///         let (key, value) = (u64::from_be_bytes(key.try_into()?), u64::from_be_bytes(value.try_into()?));
///         assert_eq!(value, key * key);
///         count += 1;
///     }
///     assert_eq!(count, 100);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BackupReader<R> {
    blocks: BlockReader<R>,
    header: BackupHeader,
    /// Whether the contents of an index are being read.
    in_index: bool,
    indexes: usize,
    current: Current,
}

/// The progress within an index.
#[derive(Debug)]
struct Current {
    /// The last block of contents, its kind, and the position of the next part in it.
    block: Vec<u8>,
    kind: BlockKind,
    at: usize,
    /// The key of the last entry.
    key: Vec<u8>,
    parts: u64,
}

/// An index of a backup, whose contents are read in the order of the file.
#[derive(Debug)]
pub struct IndexReader<'b, R> {
    header: IndexHeader,
    backup: &'b mut BackupReader<R>,
}

impl<R: Read> BackupReader<R> {
    /// Reads the header. The input should be buffered: a block is read with two calls.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn new(input: R) -> BackupResult<Self> {
        let mut blocks = BlockReader::begin(input)?;
        let contents = match blocks.next()? {
            (BlockKind::Pool, contents) => contents.to_vec(),
            (BlockKind::Image, _) => return Err(BackupError::OtherContents { found: "the image of a pool" }),
            (kind, _) => return Err(unexpected(&blocks, kind)),
        };
        let header = of_json(&contents, &blocks)?;
        let current =
            Current { block: Vec::new(), kind: BlockKind::Entries, at: 0, key: Vec::new(), parts: 0 };
        Ok(Self { blocks, header, in_index: false, indexes: 0, current })
    }

    /// The header.
    pub fn header(&self) -> &BackupHeader {
        &self.header
    }

    /// Bytes of the file that have been read.
    pub fn bytes(&self) -> u64 {
        self.blocks.read_bytes()
    }

    /// The next index, after the unread contents of the one before. `None`: the file has ended as its writer ended it.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn next_index(&mut self) -> BackupResult<Option<IndexReader<'_, R>>> {
        self.skip()?;
        let (kind, contents) = self.blocks.next()?;
        let contents = contents.to_vec();
        match kind {
            BlockKind::Index => {
                let header: IndexHeader = of_json(&contents, &self.blocks)?;
                if self.header.indexes.get(self.indexes) != Some(&header.name) {
                    let why =
                        format!("the header of the file does not list the index '{}' here", header.name);
                    return Err(self.blocks.damaged(&why));
                }
                self.in_index = true;
                self.indexes += 1;
                self.current.parts = 0;
                Ok(Some(IndexReader { header, backup: self }))
            }
            BlockKind::End => {
                let end: FileEnd = of_json(&contents, &self.blocks)?;
                if end.indexes != self.indexes || self.indexes != self.header.indexes.len() {
                    return Err(self.blocks.damaged("it counts other indexes than the file has"));
                }
                self.blocks.expect_end()?;
                Ok(None)
            }
            kind => Err(unexpected(&self.blocks, kind)),
        }
    }

    /// Reads the rest of the index.
    fn skip(&mut self) -> BackupResult<()> {
        while let Some(kind) = self.next_part()? {
            self.parse(kind, |parts, key| match kind {
                BlockKind::Entries => parts.entry(key).map(drop),
                BlockKind::Items => parts.skip_item(),
                BlockKind::Records => parts.skip_record(),
                _ => None,
            })?;
        }
        Ok(())
    }

    /// As [`next_part`](Self::next_part), with a block of the kind `wanted`.
    fn expect_part(&mut self, wanted: BlockKind) -> BackupResult<Option<()>> {
        match self.next_part()? {
            Some(kind) if kind != wanted => Err(unexpected(&self.blocks, kind)),
            part => Ok(part.map(drop)),
        }
    }

    /// Reads blocks until there is a part, and returns the kind of the block; `None`: the index has ended.
    fn next_part(&mut self) -> BackupResult<Option<BlockKind>> {
        while self.in_index && self.current.at == self.current.block.len() {
            let (kind, contents) = self.blocks.next()?;
            let current = &mut self.current;
            match kind {
                BlockKind::Entries | BlockKind::Items | BlockKind::Records => {
                    current.block.clear();
                    current.block.extend_from_slice(contents);
                    (current.kind, current.at) = (kind, 0);
                    current.key.clear();
                }
                BlockKind::IndexEnd => {
                    let contents = contents.to_vec();
                    let end: IndexEnd = of_json(&contents, &self.blocks)?;
                    let found = current.parts;
                    if end.entries != found {
                        let why = format!("it counts {} entries, and the file has {found}", end.entries);
                        return Err(self.blocks.damaged(&why));
                    }
                    self.in_index = false;
                }
                kind => return Err(unexpected(&self.blocks, kind)),
            }
        }
        Ok(self.in_index.then_some(self.current.kind))
    }

    /// Parses the next part, whose block has the kind `found`.
    fn parse<'b, T>(
        &'b mut self,
        found: BlockKind,
        part: impl FnOnce(&mut Parts<'b>, &mut Vec<u8>) -> Option<T>,
    ) -> BackupResult<T> {
        let Current { block, at, key, parts: count, .. } = &mut self.current;
        let mut parts = Parts(&block[*at..]);
        let Some(part) = part(&mut parts, key) else {
            return Err(self.blocks.damaged(&format!("its bytes do not have the format of {found:?}")));
        };
        *at = block.len() - parts.0.len();
        *count += 1;
        Ok(part)
    }
}

impl<R: Read> IndexReader<'_, R> {
    /// The description of the index.
    pub fn header(&self) -> &IndexHeader {
        &self.header
    }

    /// Bytes of the file that have been read.
    pub fn bytes(&self) -> u64 {
        self.backup.bytes()
    }

    /// The number of entries, rectangles or records that have been read.
    pub fn count(&self) -> u64 {
        self.backup.current.parts
    }

    /// Reads and checks the rest of the index; returns the number of its entries, rectangles or records.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn skip(&mut self) -> BackupResult<u64> {
        self.backup.skip()?;
        Ok(self.count())
    }

    /// The next key and value of an index of keys, in the order of the keys. `None`: there are no more.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn next_entry(&mut self) -> BackupResult<Option<(&[u8], &[u8])>> {
        if self.backup.expect_part(BlockKind::Entries)?.is_none() {
            return Ok(None);
        }
        let value = self.backup.parse(BlockKind::Entries, |parts, key| parts.entry(key).map(<[u8]>::len))?;
        let Current { block, at, key, .. } = &self.backup.current;
        Ok(Some((key, &block[at - value..*at])))
    }

    /// The next rectangle of an index without records. `None`: there are no more.
    ///
    /// # Errors
    /// [`BackupError`].
    #[cfg(feature = "spatial")]
    pub fn next_item(&mut self) -> BackupResult<Option<Item>> {
        if self.backup.expect_part(BlockKind::Items)?.is_none() {
            return Ok(None);
        }
        self.backup.parse(BlockKind::Items, |parts, _| parts.item()).map(Some)
    }

    /// The next record of an index of unique ids. `None`: there are no more.
    ///
    /// # Errors
    /// [`BackupError`].
    #[cfg(feature = "spatial")]
    pub fn next_record(&mut self) -> BackupResult<Option<Record>> {
        if self.backup.expect_part(BlockKind::Records)?.is_none() {
            return Ok(None);
        }
        self.backup.parse(BlockKind::Records, |parts, _| parts.record()).map(Some)
    }
}

fn unexpected<R: Read>(blocks: &BlockReader<R>, kind: BlockKind) -> BackupError {
    blocks.damaged(&format!("a block of kind {kind:?} cannot be here"))
}
