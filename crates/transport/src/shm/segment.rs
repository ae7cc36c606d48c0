//! Segments: the memory nodes of shared-memory pools, each a file that processes find by name and map.
//!
//! Memory node `I` of pool `NAME` is `farwood.NAME.I` in `/dev/shm` (or `$FARWOOD_SHM_DIR`), or in a file system
//! of huge pages, where one is mounted and the whole segment fits into its free pages. A segment appears under
//! its name in one step, initialised by its creator; nobody truncates it afterwards.
//!
//! A pool of several nodes becomes visible node by node. Who opens a pool starts at node 0, so create node 0
//! last; [`SegmentDir::remove`] takes it away first.

use super::draft::{self, Draft};
use super::error::ShmError;
use super::name::PoolName;
use super::pages::{self, Pages};
use super::sys::{self, HUGE_PAGE_BYTES, Mapping};
use farwood_fabric::chunks::CHUNK_BYTES;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const DIRECTORY: &str = "/dev/shm";
const DIRECTORY_VARIABLE: &str = "FARWOOD_SHM_DIR";
/// Only the owner's processes.
const MODE: u32 = 0o600;
/// The unit of `st_blocks`, whatever the file system.
const BLOCK_BYTES: u64 = 512;
/// Pools replaced between two calls of one `open` more often than this are somebody's mistake.
const OPEN_ATTEMPTS_MAX: u32 = 64;

/// Where a segment's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A limit, not a promise: pages are taken when they are provisioned (or touched).
    Growable,
    /// All pages are taken and mapped when the segment is created: nothing can run out later.
    Reserved,
}

/// A segment to be created.
#[derive(Clone, Debug)]
pub struct SegmentSpec {
    /// The pool.
    pub name: PoolName,
    /// The memory node within it.
    pub node: u16,
    /// The size, rounded up to whole pages.
    pub bytes: u64,
    /// Where its memory comes from.
    pub backing: Backing,
    /// Who may attach, as file permissions.
    pub mode: u32,
}

impl SegmentSpec {
    /// A growable segment for the processes of one user.
    pub fn new(name: PoolName, node: u16, bytes: u64) -> Self {
        Self { name, node, bytes, backing: Backing::Growable, mode: MODE }
    }
}

/// A segment that this process has mapped.
///
/// Its memory stays as long as anybody has it mapped, also when its name is removed.
#[derive(Debug)]
pub struct Segment {
    name: PoolName,
    node: u16,
    path: PathBuf,
    pages: Pages,
    /// Whether the kernel has put some of what was provisioned into huge pages.
    has_collapsed: AtomicBool,
    mapping: Mapping,
    /// The file description that is mapped: locks taken through it last as long as the mapping.
    file: File,
    /// A second description of the same file, which sees the locks of the first.
    probe: File,
}

impl Segment {
    /// The pool.
    pub fn name(&self) -> &PoolName {
        &self.name
    }

    /// The memory node within the pool.
    pub fn node(&self) -> u16 {
        self.node
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The pages it lies in.
    pub fn pages(&self) -> Pages {
        if self.has_collapsed.load(Relaxed) { Pages::Transparent } else { self.pages }
    }

    /// Its words.
    #[inline]
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// How many bytes of it have pages.
    pub fn bytes_resident(&self) -> Result<u64, ShmError> {
        let data = self.file.metadata().map_err(ShmError::on("examine", &self.path))?;
        Ok(data.blocks() * BLOCK_BYTES)
    }

    /// Takes the pages of a range, zeroed unless they were there, and maps them: afterwards no access to it can
    /// fail. Costs microseconds when they were there already, and about a second per GiB when not.
    pub fn provision(&self, offset: u64, bytes: u64) -> Result<(), ShmError> {
        let fail = |error| ShmError::from_io("provision", &self.path, bytes, error);
        if bytes == 0 {
            return Ok(());
        }
        // An allocation beyond the end would make the file longer.
        if offset.saturating_add(bytes) > self.mapping.bytes() {
            return Err(fail(io::Error::new(ErrorKind::InvalidInput, "the range leaves the segment")));
        }
        self.leave_memory_to_others(bytes)?;
        sys::provision(&self.file, offset, bytes).map_err(fail)?;
        self.mapping.prefault(offset, bytes).map_err(fail)?;
        if self.pages != Pages::Huge && self.mapping.collapse(offset, bytes).is_ok() {
            self.has_collapsed.store(true, Relaxed);
        }
        Ok(())
    }

    /// Maps a range that has its pages already into this process, so that its first accesses do not fault.
    pub fn prefault(&self, offset: u64, bytes: u64) -> Result<(), ShmError> {
        let fail = |error| ShmError::from_io("prefault", &self.path, bytes, error);
        if bytes == 0 { Ok(()) } else { self.mapping.prefault(offset, bytes).map_err(fail) }
    }

    /// Refuses what memory has no room for. A file system in memory is often as large as the memory itself: then
    /// it would not say "full", and the kernel would start to kill processes instead.
    fn leave_memory_to_others(&self, bytes: u64) -> Result<(), ShmError> {
        let in_memory = sys::is_in_memory(&self.file).map_err(ShmError::on("examine", &self.path))?;
        let available = if in_memory { pages::memory_bytes_available() } else { None };
        match available {
            Some(available) if bytes > available => {
                Err(ShmError::NoSpace { operation: "provision", path: self.path.clone(), bytes })
            }
            _ => Ok(()),
        }
    }

    /// The description that is mapped.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// The description that is not.
    pub(super) fn probe(&self) -> &File {
        &self.probe
    }
}

/// One segment's file, as found by [`SegmentDir::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFile {
    /// The memory node.
    pub node: u16,
    /// The file.
    pub path: PathBuf,
    /// Its size, in bytes.
    pub bytes: u64,
    /// How many bytes of it have pages.
    pub bytes_resident: u64,
}

/// One pool's files, as found by [`SegmentDir::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolFiles {
    /// The pool.
    pub name: PoolName,
    /// Its segments, by memory node. Gaps mean that somebody is creating or removing it, or died doing so.
    pub segments: Vec<SegmentFile>,
}

/// A draft that a dead process left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The pool that was to be created.
    pub name: PoolName,
    /// The memory node.
    pub node: u16,
    /// The file.
    pub path: PathBuf,
    /// How many bytes it occupies.
    pub bytes_resident: u64,
}

/// Where the segments of this machine are.
#[derive(Clone, Debug)]
pub struct SegmentDir {
    /// In ordinary pages.
    ordinary: PathBuf,
    /// In huge pages, if there are any.
    huge: Option<PathBuf>,
}

impl Default for SegmentDir {
    fn default() -> Self {
        Self::from_env()
    }
}

impl SegmentDir {
    /// The directory named by `FARWOOD_SHM_DIR`, else the machine's.
    pub fn from_env() -> Self {
        match std::env::var_os(DIRECTORY_VARIABLE) {
            Some(path) if !path.is_empty() => Self::at(path),
            _ => Self { ordinary: DIRECTORY.into(), huge: pages::huge_mount() },
        }
    }

    /// One directory, without huge pages.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { ordinary: path.into(), huge: None }
    }

    /// The directory that new segments of ordinary pages go to.
    pub fn path(&self) -> &Path {
        &self.ordinary
    }

    /// Creates a segment and maps it. It appears under its name, all at once, after `initialise` has succeeded; if
    /// anything fails, nothing is left.
    pub fn create<E: From<ShmError>>(
        &self,
        spec: &SegmentSpec,
        initialise: impl FnOnce(&Segment) -> Result<(), E>,
    ) -> Result<Segment, E> {
        let draft = Draft::begin(&self.ordinary, &spec.name, spec.node, spec.mode)?;
        // Creators of this name take turns now, so what is found absent here stays absent until we publish.
        self.refuse_existing(&spec.name, spec.node)?;
        if let Some((huge, segment)) = self.build_huge(spec) {
            initialise(&segment)?;
            draft::publish(&huge.path, &segment.path, &spec.name)?;
            return Ok(segment);
        }
        let segment = build_ordinary(&self.ordinary, &draft, spec)?;
        initialise(&segment)?;
        draft::publish(draft.path(), &segment.path, &spec.name)?;
        Ok(segment)
    }

    /// Maps memory node `node` of pool `name`, which must have at least `bytes_min` bytes.
    pub fn open(&self, name: &PoolName, node: u16, bytes_min: u64) -> Result<Segment, ShmError> {
        for _ in 0..OPEN_ATTEMPTS_MAX {
            let Some((path, pages)) = self.find(name, node)? else { break };
            let found = (open_file(&path), open_file(&path));
            match found {
                // A pool that was replaced between the two is not the same pool.
                (Ok(file), Ok(probe)) if same_file(&file, &probe) => {
                    return attach(name, node, path, pages, file, probe, bytes_min);
                }
                (Ok(_), Ok(_)) => {}
                (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::NotFound => {}
                (Err(error), _) | (_, Err(error)) => {
                    return Err(ShmError::from_io("open", &path, 0, error));
                }
            }
        }
        Err(self.not_found(name, node))
    }

    /// Removes a pool: its segments' names, node 0 first, and drafts that dead processes left. Processes that are
    /// attached keep the memory until they leave. Returns how many segments there were.
    pub fn remove(&self, name: &PoolName) -> Result<usize, ShmError> {
        let mut found: Vec<_> = self.list()?.into_iter().filter(|pool| pool.name == *name).collect();
        let pool = found.pop().ok_or_else(|| self.not_found(name, 0))?;
        // Before the name is free: then come those of the next pool.
        let journals = self.journals(name)?;
        for segment in &pool.segments {
            remove_file(&segment.path)?;
        }
        journals.iter().try_for_each(|path| remove_file(path))?;
        for leftover in self.leftovers()?.iter().filter(|leftover| leftover.name == *name) {
            Self::sweep(leftover)?;
        }
        Ok(pool.segments.len())
    }

    /// Removes the journal of a pool that could not be created.
    pub(super) fn remove_journal(&self, name: &PoolName, pool: u64) -> Result<(), ShmError> {
        remove_file(&self.ordinary.join(name.journal_file(pool)))
    }

    /// The journals of pools of this name: of the one that there is, and of those whose creators died.
    pub(super) fn journals(&self, name: &PoolName) -> Result<Vec<PathBuf>, ShmError> {
        let fail = ShmError::on("list", &self.ordinary);
        let mut entries: Vec<_> = fs::read_dir(&self.ordinary).and_then(Iterator::collect).map_err(fail)?;
        entries.retain(|entry: &fs::DirEntry| {
            entry.file_name().to_str().is_some_and(|file| name.is_journal(file))
        });
        Ok(entries.iter().map(fs::DirEntry::path).collect())
    }

    /// Removes one segment's name. For a creator who cannot finish a pool of several nodes.
    pub fn remove_segment(&self, name: &PoolName, node: u16) -> Result<(), ShmError> {
        let (path, _) = self.find(name, node)?.ok_or_else(|| self.not_found(name, node))?;
        remove_file(&path)
    }

    /// All pools, by name.
    pub fn list(&self) -> Result<Vec<PoolFiles>, ShmError> {
        let mut pools: Vec<PoolFiles> = Vec::new();
        let mut found = self.scan(PoolName::of_segment)?;
        found.sort_by(|a, b| (&a.name, a.node).cmp(&(&b.name, b.node)));
        for Found { name, node, path, data } in found {
            let bytes_resident = data.blocks() * BLOCK_BYTES;
            let segment = SegmentFile { node, path, bytes: data.len(), bytes_resident };
            match pools.last_mut() {
                Some(pool) if pool.name == name => pool.segments.push(segment),
                _ => pools.push(PoolFiles { name, segments: vec![segment] }),
            }
        }
        Ok(pools)
    }

    /// What processes that died while creating a segment have left. Drafts of living processes, and of users
    /// whose files we may not open, are not in it.
    pub fn leftovers(&self) -> Result<Vec<Leftover>, ShmError> {
        let found = self.scan(PoolName::of_draft)?;
        let dead = found.into_iter().filter(|found| draft::is_dead(&found.path).unwrap_or(false));
        let leftover = |found: Found| Leftover {
            name: found.name,
            node: found.node,
            path: found.path,
            bytes_resident: found.data.blocks() * BLOCK_BYTES,
        };
        Ok(dead.map(leftover).collect())
    }

    /// Removes what a dead process left. False: somebody is at work there again.
    pub fn sweep(leftover: &Leftover) -> Result<bool, ShmError> {
        draft::remove_if_dead(&leftover.path)
    }

    /// The places where a segment may be, in the order in which they are searched.
    fn places(&self) -> impl Iterator<Item = (&Path, Pages)> {
        let ordinary = (self.ordinary.as_path(), Pages::Ordinary(sys::page_bytes()));
        std::iter::once(ordinary).chain(self.huge.as_deref().map(|path| (path, Pages::Huge)))
    }

    /// The file of a published segment.
    fn find(&self, name: &PoolName, node: u16) -> Result<Option<(PathBuf, Pages)>, ShmError> {
        for (directory, pages) in self.places() {
            let path = directory.join(name.segment_file(node));
            match fs::symlink_metadata(&path) {
                Ok(_) => return Ok(Some((path, pages))),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(ShmError::from_io("find", &path, 0, error)),
            }
        }
        Ok(None)
    }

    fn not_found(&self, name: &PoolName, node: u16) -> ShmError {
        ShmError::NotFound { pool: name.to_string(), path: self.ordinary.join(name.segment_file(node)) }
    }

    /// Refuses a name that a pool has.
    pub(super) fn refuse_existing(&self, name: &PoolName, node: u16) -> Result<(), ShmError> {
        match self.find(name, node)? {
            Some((path, _)) => Err(ShmError::Exists { pool: name.to_string(), path }),
            None => Ok(()),
        }
    }

    /// The segment in huge pages, where there are enough and we may have them. There is no other way to find out
    /// than to try, and ordinary pages will do.
    fn build_huge(&self, spec: &SegmentSpec) -> Option<(HugeDraft, Segment)> {
        let draft = HugeDraft::begin(self.huge_for(spec.bytes)?, spec).ok()?;
        let segment = draft.build(spec).ok()?;
        Some((draft, segment))
    }

    /// The directory of huge pages, if `bytes` fit into those that are free.
    fn huge_for(&self, bytes: u64) -> Option<&Path> {
        let directory = self.huge.as_deref()?;
        let needed = bytes.checked_next_multiple_of(HUGE_PAGE_BYTES)?;
        (needed <= pages::huge_bytes_free()).then_some(directory)
    }

    /// All files that `parse` takes for a pool's.
    fn scan(&self, parse: impl Fn(&str) -> Option<(PoolName, u16)>) -> Result<Vec<Found>, ShmError> {
        let mut found = Vec::new();
        for (directory, _) in self.places() {
            let entries = fs::read_dir(directory).map_err(ShmError::on("list", directory))?;
            for entry in entries {
                let entry = entry.map_err(ShmError::on("list", directory))?;
                let Some((name, node)) = entry.file_name().to_str().and_then(&parse) else { continue };
                // A file that vanishes meanwhile is none.
                match entry.metadata() {
                    Ok(data) if data.is_file() => found.push(Found { name, node, path: entry.path(), data }),
                    _ => {}
                }
            }
        }
        Ok(found)
    }
}

/// A file that belongs to a pool.
struct Found {
    name: PoolName,
    node: u16,
    path: PathBuf,
    data: fs::Metadata,
}

/// The draft of a segment in huge pages, unlinked on drop.
struct HugeDraft {
    directory: PathBuf,
    path: PathBuf,
    file: File,
}

impl HugeDraft {
    /// The caller holds the ordinary draft, so a huge one that is here already is a dead process's.
    fn begin(directory: &Path, spec: &SegmentSpec) -> io::Result<Self> {
        let path = directory.join(spec.name.draft_file(spec.node));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = draft::create_exclusively(&path, spec.mode)?;
        Ok(Self { directory: directory.to_owned(), path, file })
    }

    fn build(&self, spec: &SegmentSpec) -> Result<Segment, ShmError> {
        let file = self.file.try_clone().map_err(ShmError::on("use", &self.path))?;
        build(&self.directory, &self.path, file, Pages::Huge, spec)
    }
}

impl Drop for HugeDraft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn build_ordinary(directory: &Path, draft: &Draft, spec: &SegmentSpec) -> Result<Segment, ShmError> {
    build(directory, draft.path(), draft.file()?, Pages::Ordinary(sys::page_bytes()), spec)
}

/// Gives the draft its size and pages, and maps it.
fn build(
    directory: &Path,
    draft: &Path,
    file: File,
    pages: Pages,
    spec: &SegmentSpec,
) -> Result<Segment, ShmError> {
    let path = directory.join(spec.name.segment_file(spec.node));
    let bytes = spec.bytes.max(1).checked_next_multiple_of(pages.bytes()).unwrap_or(u64::MAX);
    file.set_len(bytes).map_err(|error| match error.kind() {
        // More than a file can have.
        ErrorKind::InvalidInput => ShmError::NoSpace { operation: "reserve", path: path.clone(), bytes },
        _ => ShmError::from_io("reserve", &path, bytes, error),
    })?;
    let probe = open_file(draft).map_err(ShmError::on("open", draft))?;
    let segment = attach(&spec.name, spec.node, path, pages, file, probe, bytes)?;
    if spec.backing == Backing::Reserved {
        segment.provision(0, bytes)?;
    }
    Ok(segment)
}

/// Maps an open segment of the right size.
fn attach(
    name: &PoolName,
    node: u16,
    path: PathBuf,
    mut pages: Pages,
    file: File,
    probe: File,
    bytes_min: u64,
) -> Result<Segment, ShmError> {
    let data = file.metadata().map_err(ShmError::on("examine", &path))?;
    if !data.is_file() {
        let error = io::Error::new(ErrorKind::InvalidData, "it is no regular file");
        return Err(ShmError::from_io("open", &path, 0, error));
    }
    let bytes = data.len() / pages.bytes() * pages.bytes();
    let needed = bytes_min.max(pages.bytes());
    if bytes < needed {
        return Err(ShmError::TooSmall { path, bytes: data.len(), needed });
    }
    let mapping =
        Mapping::new(&file, bytes).map_err(|error| ShmError::from_io("map", &path, bytes, error))?;
    if pages != Pages::Huge && pages::transparent_allowed() && mapping.advise_huge_pages().is_ok() {
        pages = Pages::Transparent;
    }
    // Where whoever made the pool has huge pages, this process has them too.
    let has_collapsed = pages != Pages::Huge && mapping.collapse(0, bytes.min(CHUNK_BYTES)).is_ok();
    let has_collapsed = AtomicBool::new(has_collapsed);
    Ok(Segment { name: name.clone(), node, path, pages, has_collapsed, mapping, file, probe })
}

/// Opens a segment's file; never follows a link that somebody may have put into a directory that all can write.
fn open_file(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

fn same_file(a: &File, b: &File) -> bool {
    let identity = |file: &File| file.metadata().map(|data| (data.dev(), data.ino())).ok();
    identity(a).is_some() && identity(a) == identity(b)
}

pub(super) fn remove_file(path: &Path) -> Result<(), ShmError> {
    match fs::remove_file(path) {
        // Somebody else has removed it: what was wanted.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map_err(ShmError::on("remove", path)),
    }
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
