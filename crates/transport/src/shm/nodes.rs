//! The memory nodes of a pool, mapped into this process, and the execution of verbs in them.

use super::error::ShmError;
use super::immediates::ImmediateRing;
use super::journal::{WRITE_BYTES_MAX, WriteRefused, WriteTarget};
use super::name::PoolName;
use super::segment::{Segment, SegmentDir, is_current};
use super::sys::{AccessFault, Mapping};
use farwood_fabric::superblock::{HEADER_BYTES, HEADER_OFFSET};
use farwood_fabric::{Access, Address, Capabilities, Doorbell, FabricError, Memory, NodeId, Op, PoolShape};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// The capabilities of processors that copy through shared memory.
///
/// READs copy downward and WRITEs upward, so that a pair of versions proves that a copy of any size is not torn
/// ([`copying`](super::copying)); nothing above a word is atomic by itself. The operating system may stop a process in
/// the middle of a READ. If a process is killed during a WRITE of up
/// to 256 KiB, the WRITE is completed before the process counts as ended.
pub const CAPABILITIES: Capabilities = Capabilities {
    version_pair_bytes_max: usize::MAX,
    brief_reads: false,
    whole_bytes: 8,
    write_upward: true,
    atomic_then_read: true,
    arrival_sees_write: true,
    write_beside_cas: true,
    masked_cas: true,
    write_survives_writer_bytes_max: WRITE_BYTES_MAX,
    cpu_sees_write: true,
};

/// The memory nodes of a pool, mapped into this process.
pub(super) struct MappedNodes {
    pub(super) shape: PoolShape,
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) capabilities: Capabilities,
}

impl MappedNodes {
    pub(super) fn open(
        dir: &SegmentDir,
        name: &PoolName,
        capabilities: Capabilities,
        access: Access,
    ) -> Result<Self, ShmError> {
        let first = dir.open_for(name, 0, HEADER_OFFSET + HEADER_BYTES as u64, access)?;
        let refuse = |error| ShmError::Pool { pool: name.to_string(), error };
        let mut header = [0; HEADER_BYTES / 8];
        first.mapping().read_down(HEADER_OFFSET, &mut header).expect("the segment has a superblock's size");
        let header: Vec<u8> = header.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let shape = PoolShape::from_header(NodeId(0), &header).map_err(refuse)?;
        let bytes = shape.host_bytes + shape.device_bytes;
        let mut segments = Vec::new();
        for node in 0..shape.nodes {
            let segment = dir.open_for(name, node, bytes, access).map_err(|error| match error {
                ShmError::NotFound { pool, path } if node > 0 && is_current(dir, &first) => {
                    ShmError::SegmentLost { pool, path, node, nodes: shape.nodes }
                }
                other => other,
            })?;
            let mut header = [0; HEADER_BYTES / 8];
            segment.mapping().read_down(HEADER_OFFSET, &mut header).expect("its size was checked");
            let header: Vec<u8> = header.iter().flat_map(|word| word.to_ne_bytes()).collect();
            if PoolShape::from_header(NodeId(node), &header).map_err(refuse)? != shape {
                let why = "it belongs to another pool of the same name".to_owned();
                return Err(refuse(FabricError::NotAPool { node: NodeId(node), why }));
            }
            // Every operation accesses the superblock and the locks, so their pages are mapped now.
            segment.prefault(0, farwood_fabric::chunks::CHUNK_BYTES)?;
            segment.prefault(shape.host_bytes, shape.device_bytes)?;
            segments.push(Arc::new(segment));
        }
        Ok(Self { shape, segments, capabilities })
    }

    pub(super) fn refuse(&self, error: FabricError) -> ShmError {
        ShmError::Pool { pool: self.segments[0].name().to_string(), error }
    }

    /// Returns the mapping and the offset of `bytes` bytes at `at`.
    #[inline]
    fn locate(&self, at: Address, bytes: usize) -> Result<(&Mapping, u64), FabricError> {
        let (start, limit) = match at.memory() {
            Memory::Host => (0, self.shape.host_bytes),
            Memory::Device => (self.shape.host_bytes, self.shape.device_bytes),
        };
        let segment = self.segments.get(usize::from(at.node().0));
        match segment {
            Some(segment) if at.offset() + bytes as u64 <= limit => {
                Ok((segment.mapping(), start + at.offset()))
            }
            _ => Err(FabricError::OutOfRange { at, bytes }),
        }
    }

    /// Executes a doorbell, verb after verb.
    #[inline]
    pub(super) fn execute(
        &self,
        doorbell: &mut Doorbell,
        write: impl Fn(WriteTarget<'_>, &[u8]) -> Result<(), WriteRefused>,
    ) -> Result<(), FabricError> {
        let (requests, payload) = doorbell.parts_mut();
        if requests.len() > 1 {
            // The cache misses of several READs overlap.
            for request in &*requests {
                if let Op::Read { into } = &request.op
                    && let Ok((mapping, offset)) = self.locate(request.at, into.len())
                {
                    mapping.prefetch(offset, into.len() as u64);
                }
            }
        }
        // A store may wait in the store buffer while a later load executes. A client that arrives after a WRITE was
        // executed must see it, and a WRITE counts as executed when a READ chained after it, or the post, completes.
        let mut unseen = false;
        for request in requests {
            if unseen && matches!(request.op, Op::Read { .. }) {
                fence(Ordering::SeqCst);
                unseen = false;
            }
            self.execute_one(request.at, &mut request.op, payload, &write)?;
            unseen |= matches!(request.op, Op::Write { .. });
        }
        if unseen {
            fence(Ordering::SeqCst);
        }
        Ok(())
    }

    #[inline]
    fn execute_one(
        &self,
        at: Address,
        op: &mut Op,
        payload: &[u8],
        write: &impl Fn(WriteTarget<'_>, &[u8]) -> Result<(), WriteRefused>,
    ) -> Result<(), FabricError> {
        let fault = |bytes: usize| {
            move |access| match access {
                AccessFault::OutOfRange => FabricError::OutOfRange { at, bytes },
                AccessFault::Misaligned => FabricError::Misaligned { at },
            }
        };
        match op {
            Op::Read { into } => {
                let bytes = into.len();
                let (mapping, offset) = self.locate(at, bytes)?;
                mapping.read_down(offset, into.words_mut()).map_err(fault(bytes))
            }
            Op::Write { data, immediate } => {
                let (mapping, offset) = self.locate(at, data.len())?;
                let to = WriteTarget { node: at.node().0, mapping, offset };
                write(to, &payload[data.clone()]).map_err(|refused| match refused {
                    WriteRefused::AccessFault(access) => fault(data.len())(access),
                    WriteRefused::Memory(error) => {
                        FabricError::NoMemory { node: at.node(), why: error.to_string() }
                    }
                })?;
                match immediate {
                    Some(immediate) if !ImmediateRing::of(mapping).send(*immediate).map_err(fault(8))? => {
                        let why = "its server does not receive messages".to_owned();
                        Err(FabricError::NodeLost { node: at.node(), why })
                    }
                    _ => Ok(()),
                }
            }
            Op::Cas { compare, swap, old } => {
                let (mapping, offset) = self.locate(at, 8)?;
                *old = mapping.compare_exchange(offset, *compare, *swap).map_err(fault(8))?;
                Ok(())
            }
            Op::MaskedCas { compare, compare_mask, swap, swap_mask, old } => {
                let (mapping, offset) = self.locate(at, 8)?;
                let swapped =
                    mapping.masked_compare_exchange(offset, *compare, *compare_mask, *swap, *swap_mask);
                *old = swapped.map_err(fault(8))?;
                Ok(())
            }
            Op::Faa { add, old } => {
                let (mapping, offset) = self.locate(at, 8)?;
                *old = mapping.fetch_add(offset, *add).map_err(fault(8))?;
                Ok(())
            }
        }
    }

    pub(super) fn provision(&self, at: Address, bytes: u64) -> Result<(), FabricError> {
        let (_, offset) = self.locate(at, bytes as usize)?;
        let segment = &self.segments[usize::from(at.node().0)];
        let no_memory = |error: ShmError| FabricError::NoMemory { node: at.node(), why: error.to_string() };
        segment.provision(offset, bytes).map_err(no_memory)
    }
}
