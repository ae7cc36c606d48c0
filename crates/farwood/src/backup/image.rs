//! The memory of a pool in shared memory as a file, so that the pool survives a reboot.
//!
//! A block of memory has the number of the memory node (2 bytes), 6 zeros, the offset (8 bytes), and the bytes. Memory
//! nodes are in the order in which they are created again: from the last to node 0. Bytes of a memory node that no
//! block has are zero. The restored pool has an identity of its own, so a pool can be restored beside the one that was
//! saved.

use super::block::{BLOCK_BYTES, BlockKind, BlockReader, BlockWriter};
use super::error::{BackupError, BackupResult};
use super::header::{ImageEnd, ImageHeader, now, of_json, to_json};
use super::progress::unless_interrupted;
use super::whole_file::{read_whole, write_whole};
use crate::error::{Error, Result};
use crate::patience::Interrupt;
use crate::pool::{expect_shm, others};
use crate::pool_options::PoolOptions;
use crate::url::Url;
use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::superblock::{HEADER_BYTES, HEADER_OFFSET, LAYOUT_VERSION};
use farwood_fabric::{NodeId, PoolShape, chunk_limit, u64_at};
use farwood_transport::shm::{self, PoolName, Segment, SegmentDir, ShmError, ShmPool};
use std::fmt;
use std::io::{Read, Write};
use std::path::Path;

/// Bytes of a block before those of the memory.
const PLACE_BYTES: usize = 16;
/// The granularity in which zeros are left out.
const PAGE_BYTES: usize = 4096;

/// The progress of saving or restoring the memory of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageProgress {
    /// Bytes of memory so far.
    pub memory_bytes: u64,
    /// Bytes of the file so far.
    pub file_bytes: u64,
}

/// The functions of the caller that a call asks after each block.
struct Watch<'p> {
    progress: Box<dyn FnMut(ImageProgress) + 'p>,
    interrupt: Option<Interrupt>,
}

impl Default for Watch<'_> {
    fn default() -> Self {
        Self { progress: Box::new(|_| ()), interrupt: None }
    }
}

impl Watch<'_> {
    fn report(&mut self, figures: ImageProgress) -> BackupResult<()> {
        (self.progress)(figures);
        unless_interrupted(self.interrupt.as_ref())
    }
}

/// Saves the memory of a pool in shared memory, as it is while no process uses it: before a reboot, say.
///
/// ```
/// use farwood::backup::{RestoredPool, SavedPool};
/// use farwood::{BTree, Pool, PoolOptions};
///
/// # let url = format!("shm://doc-save-{}", std::process::id());
/// # let url = url.as_str();
/// # let folder = std::env::temp_dir();
/// # let path = folder.join(format!("doc-save-{}", std::process::id()));
/// Pool::create(url, &PoolOptions::new().memory_bytes(64 << 20))?;
/// let pool = Pool::open(url)?;
/// pool.create_index::<u64, u64>("numbers", &BTree::new())?.put(1, 10)?;
/// drop(pool);
/// SavedPool::at(url).to_file(&path)?;
/// Pool::remove(url)?;
///
/// // After the reboot:
/// RestoredPool::at(url).from_file(&path)?;
/// assert_eq!(Pool::open(url)?.open_index::<u64, u64>("numbers")?.get(1)?, Some(10));
/// # Pool::remove(url)?;
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), farwood::Error>(())
/// ```
#[must_use = "nothing is saved before `to_file`"]
pub struct SavedPool<'p> {
    url: String,
    watch: Watch<'p>,
}

impl<'p> SavedPool<'p> {
    /// The pool with this URL.
    pub fn at(url: impl fmt::Display) -> Self {
        Self { url: url.to_string(), watch: Watch::default() }
    }

    /// Calls `progress` after each block.
    pub fn progress(mut self, progress: impl FnMut(ImageProgress) + 'p) -> Self {
        self.watch.progress = Box::new(progress);
        self
    }

    /// Asks `interrupt` after each block whether the call is to end, which is then [`BackupError::Interrupted`].
    pub fn interrupt(mut self, interrupt: Interrupt) -> Self {
        self.watch.interrupt = Some(interrupt);
        self
    }

    /// Writes the memory to a file, which replaces one of that name when it is complete and on the disk. After an
    /// error, the file of that name is as it was.
    ///
    /// # Errors
    /// [`Error::Backup`]: a process uses the pool, or the file cannot be written; [`Error::Pool`]: there is no such
    /// pool; [`Error::Served`]: the memory of a pool over TCP is in its memory nodes.
    pub fn to_file(self, path: impl AsRef<Path>) -> Result<ImageProgress> {
        write_whole(path.as_ref(), "save", |out| self.to_writer(out))
    }

    /// Writes the memory to `out`.
    ///
    /// # Errors
    /// As [`to_file`](Self::to_file). The image is incomplete.
    pub fn to_writer(mut self, out: impl Write) -> Result<ImageProgress> {
        let name = expect_shm(self.url.parse::<Url>()?, "save")?;
        let dir = SegmentDir::from_env();
        let shape = idle_shape(&dir, &name)?;
        let pool = |source| Error::Pool { operation: "save", source };
        let bytes = shape.host_bytes + shape.device_bytes;
        let segment = |node| dir.open(&name, node, bytes).map_err(pool);
        let node_0 = segment(0)?;
        let tables = tables(&node_0).map_err(pool)?;
        let used = || in_use(&name, Vec::new());
        let limit = u64_at(&tables, chunk_limit::OFFSET as usize);
        let memory_bytes = chunk_limit::bytes_in(&shape, NodeId(0), limit).ok();
        let header = self.header(&shape, memory_bytes, rights(&dir, &name).map_err(pool)?);
        let mut image = ImageWriter::begin(out, &header, &mut self.watch)?;
        for node in (0..shape.nodes).rev() {
            let segment = segment(node)?;
            if !is_of(&segment, &shape, node).map_err(pool)? {
                return Err(used());
            }
            image.node(&segment, node, bytes)?;
        }
        // The tables of node 0 have all clients. A process that has left meanwhile has changed them, and one that has
        // attached before the first copy of the tables is still there.
        if self::tables(&node_0).map_err(pool)? != tables || idle_shape(&dir, &name)? != shape {
            return Err(used());
        }
        image.end()
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    fn header(
        &self,
        shape: &PoolShape,
        memory_bytes: Option<u64>,
        (mode, group): (Option<String>, Option<u32>),
    ) -> ImageHeader {
        ImageHeader {
            farwood: env!("CARGO_PKG_VERSION").to_owned(),
            source: self.url.clone(),
            created: now(),
            layout: LAYOUT_VERSION,
            nodes: shape.nodes,
            host_bytes: shape.host_bytes,
            memory_bytes,
            device_bytes: shape.device_bytes,
            mode,
            group,
        }
    }
}

/// The permissions of the files of a pool, and their group if it has some.
fn rights(dir: &SegmentDir, name: &PoolName) -> Result<(Option<String>, Option<u32>), ShmError> {
    const OF_GROUP: u32 = 0o070;
    let pool = dir.list()?.into_iter().find(|pool| pool.name == *name);
    let file = pool.and_then(|pool| pool.segments.into_iter().next());
    let mode = file.as_ref().map(|file| format!("{:04o}", file.mode));
    Ok((mode, file.filter(|file| file.mode & OF_GROUP != 0).map(|file| file.group)))
}

/// The error of a pool that processes use; none: a process has used it meanwhile.
pub(super) fn in_use(name: &PoolName, processes: Vec<u64>) -> Error {
    failed("save", BackupError::InUse { pool: name.to_string(), processes })
}

/// The shape of a pool that no process uses. WRITEs of killed processes are completed.
fn idle_shape(dir: &SegmentDir, name: &PoolName) -> Result<PoolShape> {
    let attached = attach_alone(dir, name)?;
    let shape = attached.shape();
    attached.leave();
    Ok(shape)
}

/// Attaches this process to a pool that no other process uses.
pub(super) fn attach_alone(dir: &SegmentDir, name: &PoolName) -> Result<ShmPool> {
    let attached = ShmPool::open(dir, name).map_err(|source| Error::Pool { operation: "save", source })?;
    let processes = others(&attached).map_err(|source| Error::Fabric {
        operation: "save",
        pool: format!("shm://{name}"),
        source,
    })?;
    if processes.is_empty() { Ok(attached) } else { Err(in_use(name, processes)) }
}

/// Whether a segment belongs to the pool: another one of the same name may have taken its place.
fn is_of(segment: &Segment, shape: &PoolShape, node: u16) -> Result<bool, ShmError> {
    let mut header = [0; HEADER_BYTES];
    segment.read_file(HEADER_OFFSET, &mut header)?;
    Ok(header == shape.header(NodeId(node)))
}

/// The bytes of the directory, the client table and the chunk table.
fn tables(node_0: &Segment) -> Result<Vec<u8>, ShmError> {
    let mut bytes = vec![0; CHUNK_BYTES as usize];
    node_0.read_file(0, &mut bytes)?;
    Ok(bytes)
}

struct ImageWriter<'a, 'p, W> {
    blocks: BlockWriter<W>,
    memory_bytes: u64,
    watch: &'a mut Watch<'p>,
}

impl<'a, 'p, W: Write> ImageWriter<'a, 'p, W> {
    fn begin(out: W, header: &ImageHeader, watch: &'a mut Watch<'p>) -> Result<Self> {
        let begun = || {
            let mut blocks = BlockWriter::begin(out)?;
            blocks.write(BlockKind::Image, &to_json(header))?;
            Ok(blocks)
        };
        let blocks = begun().map_err(|error| failed("save", BackupError::Io(error)))?;
        Ok(Self { blocks, memory_bytes: 0, watch })
    }

    /// Writes the bytes of a memory node that are not zero.
    fn node(&mut self, segment: &Segment, node: u16, bytes: u64) -> Result<()> {
        let pool = |source| Error::Pool { operation: "save", source };
        let mut block = vec![0; PLACE_BYTES + BLOCK_BYTES];
        let mut at = 0;
        while let Some(range) = segment.stored_range(at, bytes).map_err(pool)? {
            at = range.start;
            while at < range.end {
                let length = (range.end - at).min(BLOCK_BYTES as u64) as usize;
                segment.read_file(at, &mut block[PLACE_BYTES..PLACE_BYTES + length]).map_err(pool)?;
                self.range(&mut block[..PLACE_BYTES + length], node, at)?;
                at += length as u64;
            }
        }
        Ok(())
    }

    /// Writes the bytes after the place of `block`, which are at `offset`, from the first page that is not zero to the
    /// last one.
    fn range(&mut self, block: &mut [u8], node: u16, offset: u64) -> Result<()> {
        let pages = block[PLACE_BYTES..].chunks(PAGE_BYTES);
        let used = |page: &[u8]| page.iter().any(|&byte| byte != 0);
        let Some(first) = pages.clone().position(used) else { return Ok(()) };
        let last = pages.clone().rposition(used).unwrap_or(first);
        let start = first * PAGE_BYTES;
        let end = PLACE_BYTES + ((last + 1) * PAGE_BYTES).min(block.len() - PLACE_BYTES);
        let block = &mut block[start..end];
        block[..2].copy_from_slice(&node.to_le_bytes());
        block[2..8].fill(0);
        block[8..PLACE_BYTES].copy_from_slice(&(offset + start as u64).to_le_bytes());
        self.blocks
            .write(BlockKind::Memory, block)
            .map_err(|error| failed("save", BackupError::Io(error)))?;
        self.memory_bytes += (block.len() - PLACE_BYTES) as u64;
        let figures = self.figures();
        self.watch.report(figures).map_err(|error| failed("save", error))
    }

    fn figures(&self) -> ImageProgress {
        ImageProgress { memory_bytes: self.memory_bytes, file_bytes: self.blocks.written() }
    }

    fn end(mut self) -> Result<ImageProgress> {
        let end = to_json(&ImageEnd { bytes: self.memory_bytes });
        let written = self.blocks.write(BlockKind::End, &end);
        let figures = self.figures();
        let ended = written.and_then(|()| self.blocks.end().map(drop));
        ended.map_err(|error| failed("save", BackupError::Io(error)))?;
        Ok(figures)
    }
}

/// Creates a pool in shared memory with the memory of one that was saved. Processes can open it when it is complete.
///
/// [`SavedPool`] has an example.
#[must_use = "nothing is restored before `from_file`"]
pub struct RestoredPool<'p> {
    url: String,
    group: Option<String>,
    mode: Option<u32>,
    watch: Watch<'p>,
}

impl<'p> RestoredPool<'p> {
    /// The new pool gets this URL, which need not be that of the saved one.
    pub fn at(url: impl fmt::Display) -> Self {
        Self { url: url.to_string(), group: None, mode: None, watch: Watch::default() }
    }

    /// Shares the pool with a group of users, as [`PoolOptions::group`] does. Without a group and a
    /// [`mode`](Self::mode), the files have the permissions and the group of the saved pool.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Gives the files these permissions, as [`PoolOptions::mode`] does.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Calls `progress` after each block.
    pub fn progress(mut self, progress: impl FnMut(ImageProgress) + 'p) -> Self {
        self.watch.progress = Box::new(progress);
        self
    }

    /// Asks `interrupt` after each block whether the call is to end, which is then [`BackupError::Interrupted`].
    pub fn interrupt(mut self, interrupt: Interrupt) -> Self {
        self.watch.interrupt = Some(interrupt);
        self
    }

    /// Creates the pool from a file.
    ///
    /// # Errors
    /// [`Error::Backup`]: the file is damaged, cut off, or has another layout; [`Error::Pool`]: the pool exists, or the
    /// machine has too little memory; [`Error::Served`]. After an error there is no pool.
    pub fn from_file(self, path: impl AsRef<Path>) -> Result<ImageProgress> {
        read_whole(path.as_ref(), |input| self.from_reader(input))
    }

    /// Creates the pool from a stream, which should be buffered.
    ///
    /// # Errors
    /// As [`from_file`](Self::from_file).
    pub fn from_reader(mut self, input: impl Read) -> Result<ImageProgress> {
        let backup = |source| failed("restore", source);
        let name = expect_shm(self.url.parse::<Url>()?, "restore")?;
        let mut image = ImageReader::begin(input).map_err(backup)?;
        let options = self.options(&image.header).map_err(|why| backup(image.blocks.damaged(&why)))?;
        let spec = options.spec(name).map_err(|source| Error::Pool { operation: "restore", source })?;
        // Huge pages are reserved for all memory to which the pool can grow.
        let can_grow = image.header.memory_bytes.is_some_and(|bytes| bytes < image.header.host_bytes);
        let dir = SegmentDir::from_env();
        let dir = if can_grow { dir.in_ordinary_pages() } else { dir };
        let created = shm::create_by(&dir, &spec, |segment, shape, node| {
            image.node(segment, node, &mut self.watch)?;
            shm::write_identity(segment, shape, node);
            Ok(())
        });
        created.map_err(|error| match error {
            Failure::Backup(source) => backup(source),
            Failure::Pool(source) => Error::Pool { operation: "restore", source },
        })?;
        Ok(image.figures())
    }

    /// The options of the new pool, or the contradiction of the header.
    fn options(&self, header: &ImageHeader) -> std::result::Result<PoolOptions, String> {
        let mut options = PoolOptions::new()
            .memory_bytes(header.host_bytes)
            // The image has the limit of the memory.
            .memory_max_bytes(header.host_bytes)
            .device_bytes(header.device_bytes)
            .nodes(header.nodes);
        if self.group.is_none() && self.mode.is_none() {
            if let Some(mode) = &header.mode {
                let mode = u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o777);
                options = options.mode(mode.ok_or("its mode is not one of a file")?);
            }
            return Ok(header
                .group
                .into_iter()
                .fold(options, |options, group| options.group(group.to_string())));
        }
        options = self.mode.into_iter().fold(options, PoolOptions::mode);
        Ok(self.group.iter().fold(options, PoolOptions::group))
    }
}

/// An error while a memory node is created.
enum Failure {
    Backup(BackupError),
    Pool(ShmError),
}

impl From<ShmError> for Failure {
    fn from(error: ShmError) -> Self {
        Self::Pool(error)
    }
}

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Self {
        Self::Backup(error)
    }
}

struct ImageReader<R> {
    blocks: BlockReader<R>,
    header: ImageHeader,
    memory_bytes: u64,
    /// A block of the next memory node.
    next: Option<Place>,
    /// The block before.
    last: Place,
    contents: Vec<u8>,
}

/// The place of a block of memory.
#[derive(Clone, Copy)]
struct Place {
    node: u16,
    offset: u64,
}

impl<R: Read> ImageReader<R> {
    fn begin(input: R) -> BackupResult<Self> {
        let mut blocks = BlockReader::begin(input)?;
        let contents = match blocks.next()? {
            (BlockKind::Image, contents) => contents.to_vec(),
            (BlockKind::Pool, _) => return Err(BackupError::OtherContents { found: "a dump of indexes" }),
            _ => return Err(blocks.damaged("it cannot be the first one")),
        };
        let header: ImageHeader = of_json(&contents, &blocks)?;
        if header.layout != LAYOUT_VERSION {
            let (farwood, found) = (header.farwood, header.layout);
            return Err(BackupError::Layout { farwood, found, known: LAYOUT_VERSION });
        }
        let ImageHeader { nodes, host_bytes, device_bytes, .. } = header;
        if let Some(why) = (PoolShape { pool: 1, nodes, host_bytes, device_bytes }).refuse() {
            return Err(blocks.damaged(&why));
        }
        let last = Place { node: nodes - 1, offset: 0 };
        Ok(Self { blocks, header, memory_bytes: 0, next: None, last, contents: Vec::new() })
    }

    /// Copies the blocks of memory node `node` into its segment. Node 0 is the last one.
    fn node(&mut self, segment: &Segment, node: u16, watch: &mut Watch<'_>) -> Result<(), Failure> {
        let mut provisioned = 0;
        loop {
            let place = match self.next.take() {
                Some(place) => place,
                None => match self.block()? {
                    Some(place) => place,
                    None if node == 0 => return Ok(()),
                    None => return Err(self.blocks.damaged("memory nodes are missing").into()),
                },
            };
            if place.node != node {
                self.next = Some(place);
                return Ok(());
            }
            let bytes = &self.contents[PLACE_BYTES..];
            let end = place.offset + bytes.len() as u64;
            if end > provisioned {
                // Whole chunks, as their owners had them: no later access can fail for lack of memory.
                let to = end.next_multiple_of(CHUNK_BYTES).min(self.limit());
                segment.provision(provisioned, to - provisioned)?;
                provisioned = to;
            }
            let written = segment.mapping().write_up(place.offset, bytes);
            written.map_err(|_| self.blocks.damaged("its offset is not that of a page"))?;
            self.memory_bytes += bytes.len() as u64;
            watch.report(self.figures())?;
        }
    }

    /// Reads the next block of memory; `None`: the image has ended as its writer ended it.
    fn block(&mut self) -> BackupResult<Option<Place>> {
        let (kind, contents) = self.blocks.next()?;
        self.contents.clear();
        self.contents.extend_from_slice(contents);
        match kind {
            BlockKind::Memory => match self.contents.first_chunk::<PLACE_BYTES>() {
                Some(&[a, b, _, _, _, _, _, _, ref offset @ ..]) => {
                    let place =
                        Place { node: u16::from_le_bytes([a, b]), offset: u64::from_le_bytes(*offset) };
                    self.check(place)?;
                    self.last = place;
                    Ok(Some(place))
                }
                None => Err(self.blocks.damaged("it has no place")),
            },
            BlockKind::End => {
                let end: ImageEnd = of_json(&self.contents, &self.blocks)?;
                if end.bytes != self.memory_bytes {
                    return Err(self.blocks.damaged("it counts other bytes than the file has"));
                }
                self.blocks.expect_end()?;
                Ok(None)
            }
            _ => Err(self.blocks.damaged("a block of this kind cannot be here")),
        }
    }

    /// Bytes of a memory node.
    fn limit(&self) -> u64 {
        self.header.host_bytes + self.header.device_bytes
    }

    /// Refuses a block that is not in its memory node, or not after the block before.
    fn check(&self, place: Place) -> BackupResult<()> {
        let end = place.offset.checked_add((self.contents.len() - PLACE_BYTES) as u64);
        if end.is_none_or(|end| end > self.limit()) || place.node >= self.header.nodes {
            return Err(self.blocks.damaged("it is not in a memory node of the pool"));
        }
        let order = |place: Place| (std::cmp::Reverse(place.node), place.offset);
        if order(place) < order(self.last) {
            return Err(self.blocks.damaged("memory nodes, or the blocks of one, are not in order"));
        }
        Ok(())
    }

    fn figures(&self) -> ImageProgress {
        ImageProgress { memory_bytes: self.memory_bytes, file_bytes: self.blocks.read_bytes() }
    }
}

/// Checks every block of an image without creating a pool; returns the header and the size. The input should be
/// buffered.
///
/// # Errors
/// [`BackupError`].
pub fn check_image(input: impl Read) -> BackupResult<(ImageHeader, ImageProgress)> {
    let mut image = ImageReader::begin(input)?;
    while image.block()?.is_some() {
        image.memory_bytes += (image.contents.len() - PLACE_BYTES) as u64;
    }
    Ok((image.header.clone(), image.figures()))
}

pub(super) fn failed(operation: &'static str, source: BackupError) -> Error {
    Error::Backup { operation, path: None, source }
}

impl fmt::Debug for SavedPool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedPool").field("url", &self.url).finish_non_exhaustive()
    }
}

impl fmt::Debug for RestoredPool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestoredPool")
            .field("url", &self.url)
            .field("group", &self.group)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
