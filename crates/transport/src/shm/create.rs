//! Creating a pool of shared-memory nodes.

use super::error::ShmError;
use super::journal::Journal;
use super::name::PoolName;
use super::on_disk::DiskPool;
use super::ownership::FileRights;
use super::presence::Presence;
use super::segment::{Backing, Segment, SegmentDir, SegmentSpec};
use farwood_fabric::superblock::HEADER_OFFSET;
use farwood_fabric::{ByteCount, NodeId, PoolShape, chunk_limit};
use std::sync::Arc;

/// The configuration of a pool to create.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// The name.
    pub name: PoolName,
    /// The number of memory nodes.
    pub nodes: u16,
    /// Host memory of each, bytes.
    pub host_bytes: u64,
    /// Host memory to which each can grow, bytes; `None`: `host_bytes`. Memory in huge pages, or that is allocated at
    /// once, does not grow.
    pub host_bytes_max: Option<u64>,
    /// Device memory of each, bytes.
    pub device_bytes: u64,
    /// Whether all memory is allocated at once.
    pub backing: Backing,
    /// The number of the group that shares the pool.
    pub group: Option<u32>,
    /// The permissions of its files; `None`: 0660 with a group, and 0600 without one.
    pub mode: Option<u32>,
}

impl PoolSpec {
    /// Returns the permissions and the group of the files.
    fn rights(&self) -> Result<FileRights, ShmError> {
        let refused = |why| ShmError::BadShape { pool: self.name.to_string(), why };
        FileRights::new(self.group, self.mode).map_err(refused)
    }

    /// Returns the shape of the pool, with a new identity.
    pub(super) fn shape(&self) -> Result<PoolShape, ShmError> {
        let shape = PoolShape {
            pool: crate::random_number(),
            nodes: self.nodes,
            host_bytes: self.host_bytes,
            device_bytes: self.device_bytes,
        };
        let host_bytes = match self.backing {
            Backing::Growable => self.host_bytes_max.unwrap_or(self.host_bytes),
            Backing::Reserved => self.host_bytes,
        };
        let grown = PoolShape { host_bytes, ..shape };
        let too_little = || {
            let less = host_bytes < self.host_bytes;
            less.then(|| {
                let (most, memory) = (ByteCount(host_bytes), ByteCount(self.host_bytes));
                format!("it can grow to {most} (--memory-max), which is less than its memory, {memory}")
            })
        };
        match shape.refuse().or_else(too_little).or_else(|| grown.refuse()) {
            Some(why) => Err(ShmError::BadShape { pool: self.name.to_string(), why }),
            None => Ok(grown),
        }
    }

    /// The same pool in `dir`, where huge pages are reserved for a whole file.
    fn fitted_to(&self, dir: &SegmentDir) -> Self {
        let is_huge = dir.huge_for(self.host_bytes.saturating_add(self.device_bytes)).is_some();
        Self { host_bytes_max: self.host_bytes_max.filter(|_| !is_huge), ..self.clone() }
    }
}

/// Creates the pool's segments, node 0 last: no process can open the pool before it is complete.
///
/// # Errors
/// [`ShmError::Exists`], [`ShmError::NoSpace`], [`ShmError::BadShape`] and the errors of the operating system.
pub fn create(dir: &SegmentDir, spec: &PoolSpec) -> Result<(), ShmError> {
    create_by(dir, spec, |segment, shape, node| initialise(segment, shape, node, spec.host_bytes))
}

/// As [`create`], with contents of the caller: `initialise` writes those of each memory node, from the last to node 0,
/// before its segment has its name, and at last its superblock ([`write_identity`]).
///
/// # Errors
/// As [`create`], and those of `initialise`. Nothing of the pool is left, unless a complete pool on a disk cannot be
/// made durable: it stays, because other processes may use it.
pub fn create_by<E: From<ShmError>>(
    dir: &SegmentDir,
    spec: &PoolSpec,
    mut initialise: impl FnMut(&Segment, &PoolShape, u16) -> Result<(), E>,
) -> Result<(), E> {
    let spec = &spec.fitted_to(dir);
    let (shape, rights) = (spec.shape()?, spec.rights()?);
    // The creation of node 0, the last, checks this reliably; the early check saves the other nodes.
    dir.refuse_existing(&spec.name, 0)?;
    let (mut made, mut has_journal) = (Vec::new(), false);
    for node in (0..spec.nodes).rev() {
        let segment = SegmentSpec {
            backing: spec.backing,
            rights,
            ..SegmentSpec::new(spec.name.clone(), node, shape.host_bytes + shape.device_bytes)
        };
        let created = dir.create(&segment, |segment| {
            if node == 0 {
                Journal::create(dir, &spec.name, shape.pool, rights)?;
                has_journal = true;
            }
            initialise(segment, &shape, node)
        });
        match created {
            Ok(segment) => made.insert(0, Arc::new(segment)),
            Err(error) => {
                // If the removal fails as well, the first error has the cause.
                for segment in made {
                    let _ = dir.remove_segment(&spec.name, segment.node());
                }
                // Only the creator of node 0 has one: the journal of the name may belong to another creator.
                if has_journal {
                    let _ = dir.remove_journal(&spec.name, shape.pool);
                }
                return Err(error);
            }
        }
    }
    // Other processes may use the pool by now, so it stays after an error here.
    Ok(save(dir, &spec.name, shape.pool, &made)?)
}

/// Makes the files of a new pool durable, if they are on a disk.
fn save(dir: &SegmentDir, name: &PoolName, pool: u64, segments: &[Arc<Segment>]) -> Result<(), ShmError> {
    if !segments[0].is_on_disk()? {
        return Ok(());
    }
    let journal = Journal::open(dir, name, pool)?;
    let presence = Presence::new(Arc::clone(&segments[0]));
    let pool = DiskPool { journal: &journal, segments };
    pool.leave(&presence, || true).map(drop)
}

/// Writes the superblock of a new memory node with `host_bytes` of memory. Its chunk and the device memory get their
/// pages.
pub(super) fn initialise(
    segment: &Segment,
    shape: &PoolShape,
    node: u16,
    host_bytes: u64,
) -> Result<(), ShmError> {
    segment.provision(0, farwood_fabric::chunks::CHUNK_BYTES)?;
    segment.provision(shape.host_bytes, shape.device_bytes)?;
    let limit = (host_bytes < shape.host_bytes).then(|| chunk_limit::word_of(host_bytes));
    for (offset, word) in PoolShape::first_words().chain(limit) {
        let written = segment.mapping().write_up(offset, &word.to_le_bytes());
        written.expect("the superblock lies within its segment");
    }
    write_identity(segment, shape, node);
    Ok(())
}

/// Writes the header of the superblock: the shape of the pool and its identity. The page exists.
pub fn write_identity(segment: &Segment, shape: &PoolShape, node: u16) {
    let written = segment.mapping().write_up(HEADER_OFFSET, &shape.header(NodeId(node)));
    written.expect("the superblock lies within its segment");
}
