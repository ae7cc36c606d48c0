//! Anonymous pools: memory nodes that no other process can find, for tests and for programs of one process.
//!
//! Each memory node is a memfd: memory with a descriptor and without a name. The kernel frees it with its last mapping
//! and descriptor, also when the process is killed. So nothing has to be removed, and the three parts of a pool that
//! have files, or depend on them, work as follows:
//!
//! - *Presence*: the pool has one attachment, whose slots are the held ones ([`Presence`](super::Presence)).
//! - *Journal*: there is none. It completes the WRITEs of a killed process for the others, and no other process
//!   exists.
//! - *Watch*: there is none. No process can remove or replace memory without a name, and a seal prevents that a
//!   process truncates it through `/proc/PID/fd`.
//!
//! A forked child inherits the memory, and is refused as with other pools ([`ForkCount`](crate::fork::ForkCount)). The
//! memory then lasts until the child has dropped its handles, has called `exec` or has ended.

use super::create::{PoolSpec, initialise};
use super::error::ShmError;
use super::nodes::{CAPABILITIES, MappedNodes};
use super::segment::{Segment, SegmentSpec};
use std::sync::Arc;

/// Creates the memory nodes of an anonymous pool. Errors contain the name of `spec`.
///
/// # Errors
/// [`ShmError::NoSpace`], [`ShmError::BadShape`] and the errors of the operating system.
pub(super) fn create_anonymous(spec: &PoolSpec) -> Result<MappedNodes, ShmError> {
    let shape = spec.shape()?;
    if spec.group.is_some() || spec.mode.is_some() {
        let why = "an anonymous pool has no files to share; omit the group and the mode".to_owned();
        return Err(ShmError::BadShape { pool: spec.name.to_string(), why });
    }
    let node = |node| {
        let bytes = shape.host_bytes + shape.device_bytes;
        let segment =
            SegmentSpec { backing: spec.backing, ..SegmentSpec::new(spec.name.clone(), node, bytes) };
        let segment = Segment::anonymous(&segment)?;
        initialise(&segment, &shape, node, spec.host_bytes)?;
        Ok(Arc::new(segment))
    };
    let segments = (0..shape.nodes).map(node).collect::<Result<_, ShmError>>()?;
    Ok(MappedNodes { shape, segments, capabilities: CAPABILITIES })
}

#[cfg(test)]
mod tests {
    use super::super::name::PoolName;
    use super::super::pool::ShmPool;
    use super::super::segment::Backing;
    use super::*;
    use farwood_fabric::ClientId;
    use std::fs::File;
    use std::os::fd::AsRawFd as _;

    fn spec() -> PoolSpec {
        PoolSpec {
            name: PoolName::anonymous(1),
            nodes: 2,
            host_bytes: 16 << 20,
            host_bytes_max: None,
            device_bytes: 64 << 10,
            backing: Backing::Growable,
            group: None,
            mode: None,
        }
    }

    #[test]
    fn no_process_can_change_the_length_of_the_memory() {
        let nodes = create_anonymous(&spec()).unwrap();
        let descriptor = nodes.segments[1].file().as_raw_fd();
        let other = File::options().write(true).open(format!("/proc/self/fd/{descriptor}")).unwrap();
        let bytes = other.metadata().unwrap().len();
        assert_eq!(bytes, (16 << 20) + (64 << 10));
        for changed in [0, bytes - 4096, bytes + 4096] {
            other.set_len(changed).unwrap_err();
        }
    }

    #[test]
    fn only_the_own_client_is_alive() {
        let pool = ShmPool::anonymous(&spec()).unwrap();
        let own = pool.identity();
        assert!(pool.is_alive(own).unwrap());
        assert!(!pool.is_alive(ClientId { slot: own.slot + 1, ..own }).unwrap());
        pool.leave();
        assert!(!pool.is_alive(own).unwrap(), "the client has left");
    }

    #[test]
    fn the_superblock_has_its_pages_before_its_first_use() {
        let pool = ShmPool::anonymous(&spec()).unwrap();
        let resident: Vec<u64> = pool.memory().unwrap().into_iter().map(|(_, bytes)| bytes).collect();
        assert!(resident.iter().all(|bytes| (8 << 20..16 << 20).contains(bytes)), "{resident:?}");
    }
}
