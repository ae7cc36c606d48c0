//! The container of a backup file: blocks with a length and a checksum, each of which may be compressed.
//!
//! ```text
//! file:   + 0  8  "FARWBKUP"        + 8  4  version of the format, 1    + 12  4  zero        then blocks
//! block:  + 0  1  kind              + 1  1  codec: 0 stored, 1 LZ4      + 2  2  zero
//!         + 4  4  bytes that follow the head                           + 8  4  bytes after decompression
//!         + 12 4  zero              + 16 8  checksum                    then     contents
//! ```
//!
//! Numbers are little-endian. The checksum is the XXH3-64 of the first 16 bytes of the head and of the contents as they
//! are stored; its seed is the checksum of the block before, and for the first block that of the first 16 bytes of the
//! file. So no block can be removed, repeated or moved. The last block has the kind `end`; a file without one was cut
//! off.

use super::error::{BackupError, BackupResult};
use farwood_fabric::u32_at;
use std::io::{self, Read, Write};
use xxhash_rust::xxh3::Xxh3;

const MAGIC: &[u8; 8] = b"FARWBKUP";
const VERSION: u32 = 1;
const FILE_HEAD_BYTES: usize = 16;
const BLOCK_HEAD_BYTES: usize = 24;
/// The part of a head that the checksum covers.
const SUMMED_BYTES: usize = 16;
/// The largest block after decompression: the longest entry has a value of 16 MiB.
const BLOCK_BYTES_MAX: usize = 32 << 20;
/// The size at which a block of many parts is complete.
pub(super) const BLOCK_BYTES: usize = 256 << 10;

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// JSON: the pool whose indexes follow. The first block of a dump.
    Pool,
    /// JSON: an index. Blocks of its contents follow.
    Index,
    /// Keys and values.
    Entries,
    /// Rectangles with numbers.
    Items,
    /// Records: ids, rectangles, payloads.
    Records,
    /// JSON: the number of the parts of the index.
    IndexEnd,
    /// JSON: the number of indexes, or of memory nodes. The last block.
    End,
    /// JSON: the shape of a pool whose memory follows. The first block of the image of a pool.
    Image,
    /// Bytes of a memory node.
    Memory,
}

impl BlockKind {
    const ALL: [Self; 9] = [
        Self::Pool,
        Self::Index,
        Self::Entries,
        Self::Items,
        Self::Records,
        Self::IndexEnd,
        Self::End,
        Self::Image,
        Self::Memory,
    ];

    /// The number in the file, from 1.
    fn number(self) -> u8 {
        self as u8 + 1
    }

    fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// The contents of a backup file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackupContents {
    /// A dump of indexes.
    Dump,
    /// The image of a pool.
    Image,
}

impl BackupContents {
    /// The bytes of the start of a file that [`of_start`](Self::of_start) needs.
    pub const START_BYTES: usize = FILE_HEAD_BYTES + 1;

    /// The contents of the file that begins with these bytes; `None`: it is not a backup, or of a later version.
    pub fn of_start(start: &[u8]) -> Option<Self> {
        let kind = start.get(FILE_HEAD_BYTES).and_then(|&number| BlockKind::of_number(number))?;
        match kind {
            BlockKind::Pool if start.starts_with(MAGIC) => Some(Self::Dump),
            BlockKind::Image if start.starts_with(MAGIC) => Some(Self::Image),
            _ => None,
        }
    }
}

fn checksum(head: &[u8], contents: &[u8], before: u64) -> u64 {
    let mut hash = Xxh3::with_seed(before);
    hash.update(head);
    hash.update(contents);
    hash.digest()
}

/// Writes the blocks of a file.
#[derive(Debug)]
pub(super) struct BlockWriter<W> {
    out: W,
    /// The checksum of the last block.
    chain: u64,
    written: u64,
    compressed: Vec<u8>,
}

impl<W: Write> BlockWriter<W> {
    /// Writes the head of the file.
    pub(super) fn begin(mut out: W) -> io::Result<Self> {
        let mut head = [0; FILE_HEAD_BYTES];
        head[..8].copy_from_slice(MAGIC);
        head[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out.write_all(&head)?;
        let (chain, written) = (checksum(&head, &[], 0), FILE_HEAD_BYTES as u64);
        Ok(Self { out, chain, written, compressed: Vec::new() })
    }

    /// Writes a block, compressed if that makes it smaller.
    pub(super) fn write(&mut self, kind: BlockKind, contents: &[u8]) -> io::Result<()> {
        assert!(contents.len() <= BLOCK_BYTES_MAX, "the caller ends a block in time");
        self.compressed.resize(lz4_flex::block::get_maximum_output_size(contents.len()), 0);
        let compressed = lz4_flex::block::compress_into(contents, &mut self.compressed);
        let (codec, stored) = match compressed {
            Ok(bytes) if bytes < contents.len() => (1, &self.compressed[..bytes]),
            _ => (0, contents),
        };
        let mut head = [0; BLOCK_HEAD_BYTES];
        head[0] = kind.number();
        head[1] = codec;
        head[4..8].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        head[8..12].copy_from_slice(&(contents.len() as u32).to_le_bytes());
        self.chain = checksum(&head[..SUMMED_BYTES], stored, self.chain);
        head[SUMMED_BYTES..].copy_from_slice(&self.chain.to_le_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(stored)?;
        self.written += (BLOCK_HEAD_BYTES + stored.len()) as u64;
        Ok(())
    }

    /// Bytes of the file so far.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Flushes the writer, and returns it.
    pub(super) fn end(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Reads the blocks of a file, and checks each before it returns it.
#[derive(Debug)]
pub(super) struct BlockReader<R> {
    input: R,
    chain: u64,
    /// The offset of the next byte.
    at: u64,
    /// The offset of the block that was read last.
    block_at: u64,
    stored: Vec<u8>,
    contents: Vec<u8>,
}

impl<R: Read> BlockReader<R> {
    /// Reads the head of the file.
    ///
    /// # Errors
    /// [`BackupError::NotABackup`], [`BackupError::Version`], [`BackupError::Io`].
    pub(super) fn begin(mut input: R) -> BackupResult<Self> {
        let mut head = [0; FILE_HEAD_BYTES];
        let found = read_up_to(&mut input, &mut head)?;
        if found < FILE_HEAD_BYTES && MAGIC.starts_with(&head[..found.min(8)]) {
            return Err(BackupError::CutOff { at: found as u64 });
        }
        if head[..8] != *MAGIC {
            return Err(BackupError::NotABackup);
        }
        let version = u32_at(&head, 8);
        if version != VERSION {
            return Err(BackupError::Version { found: version, known: VERSION });
        }
        let (chain, at) = (checksum(&head, &[], 0), FILE_HEAD_BYTES as u64);
        Ok(Self { input, chain, at, block_at: at, stored: Vec::new(), contents: Vec::new() })
    }

    /// Reads the next block. After the last one, [`expect_end`](Self::expect_end).
    ///
    /// # Errors
    /// [`BackupError::CutOff`], [`BackupError::Damaged`], [`BackupError::Io`].
    pub(super) fn next(&mut self) -> BackupResult<(BlockKind, &[u8])> {
        self.block_at = self.at;
        let mut head = [0; BLOCK_HEAD_BYTES];
        self.fill(&mut head)?;
        let [stored_bytes, bytes] = [4, 8].map(|at| u32_at(&head, at) as usize);
        if stored_bytes > bytes || bytes > BLOCK_BYTES_MAX {
            return Err(self.damaged("the lengths in its head are impossible"));
        }
        let mut stored = std::mem::take(&mut self.stored);
        stored.resize(stored_bytes, 0);
        let filled = self.fill(&mut stored);
        self.stored = stored;
        filled?;
        let chain = checksum(&head[..SUMMED_BYTES], &self.stored, self.chain);
        if head[SUMMED_BYTES..] != chain.to_le_bytes() {
            return Err(self.damaged("its checksum does not match"));
        }
        self.chain = chain;
        let Some(kind) = BlockKind::of_number(head[0]) else {
            return Err(self.damaged(&format!("this version does not know the kind {} of blocks", head[0])));
        };
        match head[1] {
            0 if stored_bytes == bytes => Ok((kind, &self.stored)),
            1 => {
                self.contents.resize(bytes, 0);
                match lz4_flex::block::decompress_into(&self.stored, &mut self.contents) {
                    Ok(found) if found == bytes => Ok((kind, &self.contents)),
                    _ => Err(self.damaged("it cannot be decompressed")),
                }
            }
            codec => Err(self.damaged(&format!("this version does not know the codec {codec}"))),
        }
    }

    /// Checks that no bytes follow.
    ///
    /// # Errors
    /// [`BackupError::Damaged`], [`BackupError::Io`].
    pub(super) fn expect_end(&mut self) -> BackupResult<()> {
        self.block_at = self.at;
        match read_up_to(&mut self.input, &mut [0])? {
            0 => Ok(()),
            _ => Err(self.damaged("bytes follow the end")),
        }
    }

    /// The error for the block that was read last.
    pub(super) fn damaged(&self, why: &str) -> BackupError {
        BackupError::Damaged { at: self.block_at, why: why.to_owned() }
    }

    /// Bytes of the file so far.
    pub(super) fn read_bytes(&self) -> u64 {
        self.at
    }

    fn fill(&mut self, bytes: &mut [u8]) -> BackupResult<()> {
        let found = read_up_to(&mut self.input, bytes)?;
        self.at += found as u64;
        if found < bytes.len() { Err(BackupError::CutOff { at: self.at }) } else { Ok(()) }
    }
}

/// Fills `bytes` as far as the input goes; returns the number of bytes.
fn read_up_to(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match input.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
