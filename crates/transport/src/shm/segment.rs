//! Segments: the memory nodes of shared-memory pools. Each is a file that processes find by name and map.
//!
//! Memory node `I` of pool `NAME` is `farwood.NAME.I` in `/dev/shm` (or `$FARWOOD_SHM_DIR`), or in a file
//! system of huge pages, if one is mounted and the whole segment fits into its free pages. A segment appears
//! under its name in one step, initialised by its creator; it is never truncated afterwards. It is opened only if it
//! belongs to this user, to root or to the user that `$FARWOOD_SHM_OWNER` names, and only its owner may write it; or if
//! it is shared with the group that `$FARWOOD_SHM_GROUP` names.
//!
//! A segment of an anonymous pool has no file: it is a memfd, which its process alone maps.
//!
//! A pool of several nodes becomes visible node by node. Opening a pool starts at node 0, so node 0 is created last;
//! [`SegmentDir::remove`] removes it first.

use super::draft::{self, Draft};
use super::error::ShmError;
use super::name::PoolName;
use super::ownership::{self, FileRights, PERMISSIONS, Trust};
use super::pages::{self, Pages};
use super::sys::{self, HUGE_PAGE_BYTES, Mapping};
use crate::fork::OwnDescriptor;
use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::superblock::{HEADER_BYTES, HEADER_OFFSET};
use farwood_fabric::{Access, NodeId, PoolShape, chunk_limit};
use rustix::fs::{MemfdFlags, SealFlags, SeekFrom, fcntl_add_seals, memfd_create, seek};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const DIRECTORY: &str = "/dev/shm";
const DIRECTORY_VARIABLE: &str = "FARWOOD_SHM_DIR";
const GROUP_VARIABLE: &str = "FARWOOD_SHM_GROUP";
const OWNER_VARIABLE: &str = "FARWOOD_SHM_OWNER";
/// The unit of `st_blocks` on every file system.
const BLOCK_BYTES: u64 = 512;
/// Maximum replacements of a pool during one `open`; more indicate an error.
const OPEN_ATTEMPTS_MAX: u32 = 64;

/// The allocation of a segment's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A limit, not a reservation: pages are allocated when they are provisioned or touched.
    Growable,
    /// All pages are allocated and mapped at creation: the segment cannot run out of memory later.
    Reserved,
}

/// The configuration of a segment to create.
#[derive(Clone, Debug)]
pub struct SegmentSpec {
    /// The pool.
    pub name: PoolName,
    /// The memory node within it.
    pub node: u16,
    /// The size, rounded up to whole pages.
    pub bytes: u64,
    /// The allocation of its memory.
    pub backing: Backing,
    /// The permissions and the group of the file.
    pub rights: FileRights,
}

impl SegmentSpec {
    /// A growable segment for the processes of one user.
    pub fn new(name: PoolName, node: u16, bytes: u64) -> Self {
        Self { name, node, bytes, backing: Backing::Growable, rights: FileRights::OWNER }
    }
}

/// A segment that this process has mapped.
///
/// The memory of a segment exists as long as a process has it mapped, even after its name is removed.
#[derive(Debug)]
pub struct Segment {
    name: PoolName,
    node: u16,
    path: PathBuf,
    pages: Pages,
    /// Whether the kernel has collapsed provisioned pages into huge ones.
    has_collapsed: AtomicBool,
    mapping: Mapping,
    /// The mapped file description: locks that are acquired through it last as long as the mapping.
    file: OwnDescriptor<File>,
    /// A second description of the same file, which sees the locks of the first. `None`: no other process can open
    /// the segment.
    probe: Option<OwnDescriptor<File>>,
}

impl Segment {
    /// Creates and maps a segment without a name. It is sealed: no process can truncate it. The name of `spec` appears
    /// in errors and in `/proc/PID/maps`.
    pub(super) fn anonymous(spec: &SegmentSpec) -> Result<Self, ShmError> {
        let name = spec.name.segment_file(spec.node);
        let path = PathBuf::from(format!("/memfd:{name}"));
        let pages = Pages::Ordinary(sys::page_bytes());
        let file = create_memfd(&name).map_err(ShmError::on("create", &path))?;
        let bytes = enlarge(&file, &path, pages, spec.bytes)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(|error| ShmError::from_io("seal", &path, 0, error.into()))?;
        let segment = attach(
            &spec.name,
            spec.node,
            path,
            pages,
            OpenFiles { file, probe: None },
            bytes,
            Access::ReadWrite,
        )?;
        segment.reserve(spec.backing)?;
        Ok(segment)
    }

    /// Allocates all pages, if `backing` demands it.
    fn reserve(&self, backing: Backing) -> Result<(), ShmError> {
        match backing {
            Backing::Growable => Ok(()),
            Backing::Reserved => self.provision(0, self.mapping.bytes()),
        }
    }

    /// Returns the pool.
    pub fn name(&self) -> &PoolName {
        &self.name
    }

    /// Returns the memory node within the pool.
    pub fn node(&self) -> u16 {
        self.node
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its pages.
    pub fn pages(&self) -> Pages {
        if self.has_collapsed.load(Relaxed) { Pages::Transparent } else { self.pages }
    }

    /// Returns its mapped words.
    #[inline]
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Returns whether the file is on a disk.
    pub(super) fn is_on_disk(&self) -> Result<bool, ShmError> {
        let in_memory = || sys::is_in_memory(&self.file).map_err(ShmError::on("examine", &self.path));
        Ok(self.pages != Pages::Huge && !in_memory()?)
    }

    /// Makes the bytes of the file durable.
    pub(super) fn sync(&self) -> Result<(), ShmError> {
        self.file.sync_all().map_err(ShmError::on("sync", &self.path))
    }

    /// Returns the number of its resident bytes.
    pub fn bytes_resident(&self) -> Result<u64, ShmError> {
        let data = self.file.metadata().map_err(ShmError::on("examine", &self.path))?;
        Ok(data.blocks() * BLOCK_BYTES)
    }

    /// The next range at or after `from` that the file system stores; bytes outside such ranges are zero. `None`: there
    /// is none before `to`.
    pub fn stored_range(&self, from: u64, to: u64) -> Result<Option<Range<u64>>, ShmError> {
        stored_range(&self.file, from, to).map_err(ShmError::on("read", &self.path))
    }

    /// Reads bytes of the file, without mapping its pages. Bytes that processes change at the same time are of no
    /// certain moment.
    pub fn read_file(&self, offset: u64, into: &mut [u8]) -> Result<(), ShmError> {
        self.file.read_exact_at(into, offset).map_err(ShmError::on("read", &self.path))
    }

    /// Allocates the pages of a range, zeroed if they are new, and maps them: afterwards no access to it can
    /// fail. Costs microseconds for existing pages, and about a second per GiB for new ones.
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

    /// Maps a range with existing pages into this process, so that its first accesses do not fault.
    pub fn prefault(&self, offset: u64, bytes: u64) -> Result<(), ShmError> {
        let fail = |error| ShmError::from_io("prefault", &self.path, bytes, error);
        if bytes == 0 { Ok(()) } else { self.mapping.prefault(offset, bytes).map_err(fail) }
    }

    /// Refuses more bytes than are available. A file system in memory is often as large as the memory itself, so it
    /// would not report "full", and the kernel would kill processes.
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

    /// Returns the mapped description.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the other description; `None` for a segment without a name.
    pub(super) fn probe(&self) -> Option<&File> {
        self.probe.as_deref()
    }
}

/// As [`Segment::stored_range`], in any file.
pub(crate) fn stored_range(file: &File, from: u64, to: u64) -> io::Result<Option<Range<u64>>> {
    let start = match seek(file, SeekFrom::Data(from)) {
        Ok(start) if start < to => start,
        Ok(_) | Err(Errno::NXIO) => return Ok(None),
        // This file system does not tell: all bytes may be other than zero.
        Err(Errno::INVAL) => return Ok((from < to).then_some(from..to)),
        Err(error) => return Err(error.into()),
    };
    let end = seek(file, SeekFrom::Hole(start))?;
    Ok(Some(start..end.min(to)))
}

/// One segment's file, as found by [`SegmentDir::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFile {
    /// The memory node.
    pub node: u16,
    /// The file.
    pub path: PathBuf,
    /// The bytes that clients use; the file may be longer, so that they can become more.
    pub bytes: u64,
    /// The number of its resident bytes.
    pub bytes_resident: u64,
    /// The number of the user that it belongs to.
    pub owner: u32,
    /// The number of the group that it belongs to.
    pub group: u32,
    /// Its permissions.
    pub mode: u32,
}

/// One pool's files, as found by [`SegmentDir::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolFiles {
    /// The pool.
    pub name: PoolName,
    /// Its segments, by memory node. A gap means that a process is creating or removing the pool, or crashed
    /// while doing so.
    pub segments: Vec<SegmentFile>,
}

/// A draft that a crashed process left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The pool to create.
    pub name: PoolName,
    /// The memory node.
    pub node: u16,
    /// The file.
    pub path: PathBuf,
    /// The number of its resident bytes.
    pub bytes_resident: u64,
}

/// The directories of this machine's segments.
#[derive(Clone, Debug)]
pub struct SegmentDir {
    /// The directory of ordinary pages.
    ordinary: PathBuf,
    /// The directory of huge pages, if there is one.
    huge: Option<PathBuf>,
    /// The group whose shared files this process uses: its name or number.
    trusted: Option<String>,
    /// The user whose files this process uses: its name or number.
    trusted_owner: Option<String>,
}

impl Default for SegmentDir {
    fn default() -> Self {
        Self::from_env()
    }
}

impl SegmentDir {
    /// Returns the directory of `FARWOOD_SHM_DIR`, or the machine's default. It trusts the group of `FARWOOD_SHM_GROUP`
    /// and the user of `FARWOOD_SHM_OWNER`.
    pub fn from_env() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let directory = match variable(DIRECTORY_VARIABLE) {
            Some(path) => Self::at(path),
            None => Self { huge: pages::huge_mount(), ..Self::at(DIRECTORY) },
        };
        let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
        Self { trusted: text(GROUP_VARIABLE), trusted_owner: text(OWNER_VARIABLE), ..directory }
    }

    /// Returns one directory, without huge pages. It trusts no group and no other user.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { ordinary: path.into(), huge: None, trusted: None, trusted_owner: None }
    }

    /// Returns the directory, whose new segments are not in huge pages.
    #[must_use]
    pub fn in_ordinary_pages(self) -> Self {
        Self { huge: None, ..self }
    }

    /// Returns the directory, whose files are also used if they belong to `owner`, a name or a number.
    #[must_use]
    pub fn trusting_owner(self, owner: &str) -> Self {
        Self { trusted_owner: Some(owner.to_owned()), ..self }
    }

    /// Returns the directory, whose files are also used if they are shared with `group`, a name or a number.
    #[must_use]
    pub fn trusting(self, group: &str) -> Self {
        Self { trusted: Some(group.to_owned()), ..self }
    }

    /// Returns the numbers of the trusted group and of the trusted user.
    pub(super) fn trust(&self) -> Result<Trust, ShmError> {
        let group = self.trusted.as_deref().map(ownership::group_number).transpose()?;
        let owner = self.trusted_owner.as_deref().map(ownership::user_number).transpose()?;
        Ok(Trust { group, owner })
    }

    /// Returns the directory of new segments in ordinary pages.
    pub fn path(&self) -> &Path {
        &self.ordinary
    }

    /// Creates a segment and maps it. It appears under its name in one step, after `initialise` has
    /// succeeded; after a failure nothing is left.
    pub fn create<E: From<ShmError>>(
        &self,
        spec: &SegmentSpec,
        initialise: impl FnOnce(&Segment) -> Result<(), E>,
    ) -> Result<Segment, E> {
        let draft = Draft::begin(&self.ordinary, &spec.name, spec.node, spec.rights.first_mode())?;
        // The draft's lock excludes other creators of this name, so an absent segment stays absent until it is
        // published here.
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
        self.open_for(name, node, bytes_min, Access::ReadWrite)
    }

    /// As [`open`](Self::open). A segment that is opened for reading needs only the permission to read its file.
    pub(super) fn open_for(
        &self,
        name: &PoolName,
        node: u16,
        bytes_min: u64,
        access: Access,
    ) -> Result<Segment, ShmError> {
        for _ in 0..OPEN_ATTEMPTS_MAX {
            let Some((path, pages)) = self.find(name, node)? else { break };
            let found = (open_file(&path, access), open_file(&path, access));
            match found {
                // Both must be the same pool: it may have been replaced between the two calls.
                (Ok(file), Ok(probe)) if same_file(&file, &probe) => {
                    let data = file.metadata().map_err(ShmError::on("examine", &path))?;
                    ownership::check_file(&path, &data, self.trust()?)?;
                    let files = OpenFiles { file, probe: Some(probe) };
                    return attach(name, node, path, pages, files, bytes_min, access);
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

    /// Removes a pool: its segments' names, node 0 first, and the drafts of crashed processes. Attached processes
    /// detect it, and keep the memory until they leave. Returns the number of segments. If one of the names is a
    /// directory, the function removes nothing and fails.
    pub fn remove(&self, name: &PoolName) -> Result<usize, ShmError> {
        let mut found: Vec<_> = self.list()?.into_iter().filter(|pool| pool.name == *name).collect();
        let pool = found.pop().ok_or_else(|| self.not_found(name, 0))?;
        // A directory stays, because it may hold other files; then the whole pool stays.
        for segment in &pool.segments {
            refuse_directory(&segment.path)?;
        }
        // The journals are listed before the name is free, because the next pool of the name has its own.
        let journals = self.journals(name)?;
        journals.iter().try_for_each(|path| refuse_directory(path))?;
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

    /// Returns the journals of pools of this name: that of the existing pool, and those whose creators
    /// crashed. It skips files of other users, which this user can neither use nor remove.
    pub(super) fn journals(&self, name: &PoolName) -> Result<Vec<PathBuf>, ShmError> {
        let fail = ShmError::on("list", &self.ordinary);
        let mut entries: Vec<_> = fs::read_dir(&self.ordinary).and_then(Iterator::collect).map_err(fail)?;
        entries.retain(|entry: &fs::DirEntry| {
            let is_own = || entry.metadata().is_ok_and(|data| ownership::is_trusted(&data));
            entry.file_name().to_str().is_some_and(|file| name.is_journal(file)) && is_own()
        });
        Ok(entries.iter().map(fs::DirEntry::path).collect())
    }

    /// Removes one segment's name, for a creator that cannot finish a pool of several nodes.
    pub fn remove_segment(&self, name: &PoolName, node: u16) -> Result<(), ShmError> {
        let (path, _) = self.find(name, node)?.ok_or_else(|| self.not_found(name, node))?;
        remove_file(&path)
    }

    /// Returns all pools, by name. Objects at the path of a segment that are not files are listed as well.
    pub fn list(&self) -> Result<Vec<PoolFiles>, ShmError> {
        let mut pools: Vec<PoolFiles> = Vec::new();
        let mut found = self.scan(PoolName::of_segment)?;
        found.sort_by(|a, b| (&a.name, a.node).cmp(&(&b.name, b.node)));
        for FoundFile { name, node, path, data } in found {
            let bytes_resident = data.blocks() * BLOCK_BYTES;
            let bytes = bytes_that_clients_use(&path, node, &data);
            let (owner, group, mode) = (data.uid(), data.gid(), data.mode() & PERMISSIONS);
            let segment = SegmentFile { node, path, bytes, bytes_resident, owner, group, mode };
            match pools.last_mut() {
                Some(pool) if pool.name == name => pool.segments.push(segment),
                _ => pools.push(PoolFiles { name, segments: vec![segment] }),
            }
        }
        Ok(pools)
    }

    /// Returns the drafts of processes that crashed while creating a segment. It skips drafts of live
    /// processes, and files that this process may not open.
    pub fn leftovers(&self) -> Result<Vec<Leftover>, ShmError> {
        let found = self.scan(PoolName::of_draft)?;
        let files = found.into_iter().filter(|found| found.data.is_file());
        let dead = files.filter(|found| draft::is_dead(&found.path).unwrap_or(false));
        let leftover = |found: FoundFile| Leftover {
            name: found.name,
            node: found.node,
            path: found.path,
            bytes_resident: found.data.blocks() * BLOCK_BYTES,
        };
        Ok(dead.map(leftover).collect())
    }

    /// Removes a draft of a crashed process. False: a live process uses it again.
    pub fn sweep(leftover: &Leftover) -> Result<bool, ShmError> {
        draft::remove_if_dead(&leftover.path)
    }

    /// Returns the directories that may hold a segment, in search order.
    fn directories(&self) -> impl Iterator<Item = (&Path, Pages)> {
        let ordinary = (self.ordinary.as_path(), Pages::Ordinary(sys::page_bytes()));
        std::iter::once(ordinary).chain(self.huge.as_deref().map(|path| (path, Pages::Huge)))
    }

    /// Finds the file of a published segment. Fails if its path names something else than a regular file.
    fn find(&self, name: &PoolName, node: u16) -> Result<Option<(PathBuf, Pages)>, ShmError> {
        for (directory, pages) in self.directories() {
            let path = directory.join(name.segment_file(node));
            match fs::symlink_metadata(&path) {
                Ok(data) => {
                    ownership::check_regular(&path, &data)?;
                    return Ok(Some((path, pages)));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(ShmError::from_io("find", &path, 0, error)),
            }
        }
        Ok(None)
    }

    pub(super) fn not_found(&self, name: &PoolName, node: u16) -> ShmError {
        ShmError::NotFound { pool: name.to_string(), path: self.ordinary.join(name.segment_file(node)) }
    }

    /// Refuses the name of an existing pool.
    pub(super) fn refuse_existing(&self, name: &PoolName, node: u16) -> Result<(), ShmError> {
        match self.find(name, node)? {
            Some((path, _)) => Err(ShmError::Exists { pool: name.to_string(), path }),
            None => Ok(()),
        }
    }

    /// Builds the segment in huge pages, if enough are free and permitted. Only an attempt shows that;
    /// ordinary pages are the fallback.
    fn build_huge(&self, spec: &SegmentSpec) -> Option<(HugeDraft, Segment)> {
        let draft = HugeDraft::begin(self.huge_for(spec.bytes)?, spec).ok()?;
        let segment = draft.build(spec).ok()?;
        Some((draft, segment))
    }

    /// Returns the directory of huge pages, if `bytes` fit into the free ones.
    pub(super) fn huge_for(&self, bytes: u64) -> Option<&Path> {
        let directory = self.huge.as_deref()?;
        let needed = bytes.checked_next_multiple_of(HUGE_PAGE_BYTES)?;
        (needed <= pages::huge_bytes_free()).then_some(directory)
    }

    /// Returns all files that `parse` accepts.
    fn scan(&self, parse: impl Fn(&str) -> Option<(PoolName, u16)>) -> Result<Vec<FoundFile>, ShmError> {
        let mut found = Vec::new();
        for (directory, _) in self.directories() {
            let entries = fs::read_dir(directory).map_err(ShmError::on("list", directory))?;
            for entry in entries {
                let entry = entry.map_err(ShmError::on("list", directory))?;
                let Some((name, node)) = entry.file_name().to_str().and_then(&parse) else { continue };
                // A file that vanishes in the meantime is skipped.
                if let Ok(data) = entry.metadata() {
                    found.push(FoundFile { name, node, path: entry.path(), data });
                }
            }
        }
        Ok(found)
    }
}

/// A file that belongs to a pool, or another object at the path of one.
struct FoundFile {
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
    /// The caller holds the ordinary draft, so an existing huge one belongs to a crashed process.
    fn begin(directory: &Path, spec: &SegmentSpec) -> io::Result<Self> {
        let path = directory.join(spec.name.draft_file(spec.node));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = draft::create_exclusively(&path, spec.rights.first_mode())?;
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
    let bytes = enlarge(&file, &path, pages, spec.bytes)?;
    let probe = open_file(draft, Access::ReadWrite).map_err(ShmError::on("open", draft))?;
    spec.rights.give(&file).map_err(ShmError::on("share", draft))?;
    let files = OpenFiles { file, probe: Some(probe) };
    let segment = attach(&spec.name, spec.node, path, pages, files, bytes, Access::ReadWrite)?;
    segment.reserve(spec.backing)?;
    Ok(segment)
}

/// Gives a new file its size, in whole pages; returns the size.
fn enlarge(file: &File, path: &Path, pages: Pages, bytes_min: u64) -> Result<u64, ShmError> {
    let bytes = bytes_min.max(1).checked_next_multiple_of(pages.bytes()).unwrap_or(u64::MAX);
    file.set_len(bytes).map_err(|error| match error.kind() {
        // The size exceeds the largest file.
        ErrorKind::InvalidInput => ShmError::NoSpace { operation: "reserve", path: path.to_owned(), bytes },
        _ => ShmError::from_io("reserve", path, bytes, error),
    })?;
    Ok(bytes)
}

/// Creates an empty file in memory without a name, which can be sealed and not executed.
fn create_memfd(name: &str) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 does not have the flag.
        Err(Errno::INVAL) => Ok(memfd_create(name, flags)?.into()),
        created => Ok(created?.into()),
    }
}

/// The descriptions of a segment's file.
struct OpenFiles {
    file: File,
    /// A second description, if other processes can open the file.
    probe: Option<File>,
}

/// Maps an open segment of the right size.
fn attach(
    name: &PoolName,
    node: u16,
    path: PathBuf,
    mut pages: Pages,
    OpenFiles { file, probe }: OpenFiles,
    bytes_min: u64,
    access: Access,
) -> Result<Segment, ShmError> {
    // First of all: a child that is forked before keeps the locks of this process.
    let (file, probe) = (OwnDescriptor::new(file), probe.map(OwnDescriptor::new));
    let data = file.metadata().map_err(ShmError::on("examine", &path))?;
    ownership::check_regular(&path, &data)?;
    let bytes = data.len() / pages.bytes() * pages.bytes();
    let needed = bytes_min.max(pages.bytes());
    if bytes < needed {
        return Err(ShmError::TooSmall { path, bytes: data.len(), needed });
    }
    let mapping = Mapping::with_access(&file, bytes, access)
        .map_err(|error| ShmError::from_io("map", &path, bytes, error))?;
    if pages != Pages::Huge && pages::transparent_allowed() && mapping.advise_huge_pages().is_ok() {
        pages = Pages::Transparent;
    }
    // If the creator of the pool has huge pages, this process has them too.
    let has_collapsed = pages != Pages::Huge
        && access == Access::ReadWrite
        && mapping.collapse(0, bytes.min(CHUNK_BYTES)).is_ok();
    let has_collapsed = AtomicBool::new(has_collapsed);
    Ok(Segment { name: name.clone(), node, path, pages, has_collapsed, mapping, file, probe })
}

/// The bytes of a segment that clients use, according to its superblock; its length, if that cannot be read.
fn bytes_that_clients_use(path: &Path, node: u16, data: &fs::Metadata) -> u64 {
    let limited = || {
        let file = data.is_file().then(|| open_file(path, Access::ReadOnly).ok()).flatten()?;
        let (mut header, mut limit) = ([0; HEADER_BYTES], [0; 8]);
        file.read_exact_at(&mut header, HEADER_OFFSET).ok()?;
        file.read_exact_at(&mut limit, chunk_limit::OFFSET).ok()?;
        let shape = PoolShape::from_header(NodeId(node), &header).ok()?;
        let host_bytes = chunk_limit::bytes_in(&shape, NodeId(node), u64::from_le_bytes(limit)).ok()?;
        (host_bytes < shape.host_bytes).then_some(host_bytes + shape.device_bytes)
    };
    limited().unwrap_or(data.len())
}

/// Opens a segment's file; never follows a link, which another user may have put into a world-writable
/// directory.
fn open_file(path: &Path, access: Access) -> io::Result<File> {
    let writes = access == Access::ReadWrite;
    File::options().read(true).write(writes).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Returns whether both are open on the same file.
fn same_file(a: &File, b: &File) -> bool {
    let identity = |file: &File| file.metadata().map(|data| (data.dev(), data.ino())).ok();
    identity(a).is_some() && identity(a) == identity(b)
}

/// Returns whether the segment still has its name: no other process has removed or replaced its pool.
pub(super) fn is_current(dir: &SegmentDir, segment: &Segment) -> bool {
    let now = dir.open_for(&segment.name, segment.node, segment.mapping.bytes(), Access::ReadOnly);
    now.is_ok_and(|now| same_file(&now.file, &segment.file))
}

fn refuse_directory(path: &Path) -> Result<(), ShmError> {
    match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => ownership::check_regular(path, &data),
        _ => Ok(()),
    }
}

pub(super) fn remove_file(path: &Path) -> Result<(), ShmError> {
    match fs::remove_file(path) {
        // Another process has removed the file, which is the wanted result.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map_err(ShmError::on("remove", path)),
    }
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
