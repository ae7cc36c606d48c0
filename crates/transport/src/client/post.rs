//! Posts: what a client hands over, who waits for it, and what is checked before it leaves.

use farwood_fabric::{Capabilities, Capability, Doorbell, FabricError, Memory, Op, PoolShape, Request};
use std::cell::RefCell;
use std::rc::Rc;

/// What became of a detached post, for its client to be told.
pub(super) type Complaint = Rc<RefCell<Option<FabricError>>>;

/// Who waits for a post.
#[derive(Debug)]
pub enum Waits {
    /// A future.
    Somebody,
    /// Nobody; but what goes wrong is told to the client's next post.
    Detached(Complaint),
    /// Nobody any more.
    Nobody,
}

/// What was posted.
pub(crate) enum Cargo {
    /// Verbs.
    Verbs(Doorbell),
    /// A control, and the words of its answer.
    Control([u64; 4]),
}

/// Bytes that a verb touches.
pub(super) fn bytes_of(op: &Op) -> usize {
    match op {
        Op::Read { into } => into.len(),
        Op::Write { data, .. } => data.len(),
        Op::Cas { .. } | Op::MaskedCas { .. } | Op::Faa { .. } => 8,
    }
}

/// The error of a verb that leaves the pool's memory, that is not where such a verb can be, or that there is none of.
pub(crate) fn refuse(shape: &PoolShape, promised: &Capabilities, request: &Request) -> Option<FabricError> {
    if matches!(request.op, Op::MaskedCas { .. }) && !promised.masked_cas {
        return Some(FabricError::Missing(Capability::MaskedCas));
    }
    let (at, bytes) = (request.at, bytes_of(&request.op));
    let limit = match at.memory() {
        Memory::Host => shape.host_bytes,
        Memory::Device => shape.device_bytes,
    };
    if at.node().0 >= shape.nodes || at.offset() + bytes as u64 > limit {
        return Some(FabricError::OutOfRange { at, bytes });
    }
    let any_place = matches!(request.op, Op::Write { .. });
    (!any_place && !at.offset().is_multiple_of(8)).then_some(FabricError::Misaligned { at })
}
