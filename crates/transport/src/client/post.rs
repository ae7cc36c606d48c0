//! Posts: their content, the future that waits for them, and the checks before they are sent.

use farwood_fabric::{Capabilities, Capability, Doorbell, FabricError, Memory, Op, PoolShape, Request};
use std::cell::RefCell;
use std::rc::Rc;

/// The error of a detached post, which the client's next post returns.
pub(super) type DetachedError = Rc<RefCell<Option<FabricError>>>;

/// The waiter of a post.
#[derive(Debug)]
pub enum Waiter {
    /// A future of the client awaits the answers.
    Future,
    /// No future; the client's next post reports the error.
    Detached(DetachedError),
    /// None: the future was dropped.
    Gone,
}

/// The content of a post.
pub(crate) enum PostBody {
    /// Verbs.
    Verbs(Doorbell),
    /// A control, and the words of its answer.
    Control([u64; 4]),
}

/// Bytes that a verb accesses.
pub(super) fn bytes_of(op: &Op) -> usize {
    match op {
        Op::Read { into } => into.len(),
        Op::Write { data, .. } => data.len(),
        Op::Cas { .. } | Op::MaskedCas { .. } | Op::Faa { .. } => 8,
    }
}

/// Returns the error of a verb that exceeds the pool's memory, is misaligned, or is not supported.
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
