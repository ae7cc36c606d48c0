//! The same index on memory nodes without a log, as a peer: the ratio is the cost of durability.

use super::OrderedBackend;
use crate::backend::interface::{Backend, Running};
use crate::driver::processes::WorkerCommand;
use crate::driver::protocol::Round;
use crate::record::Record;
use crate::spec::NO_LOG;
use crate::spec::ordered::RunSpec;
use crate::{Error, Result};

/// Refuses runs whose memory nodes have no files.
pub(in crate::backend) fn check(spec: &RunSpec) -> Result<()> {
    if spec.files.is_some() {
        return Ok(());
    }
    let problem = "no-log is compared with memory nodes that have files";
    Err(Error::parameter("--peer", problem, "add --durability LEVEL"))
}

/// The index on memory nodes without a log.
pub(in crate::backend) struct WithoutLog(OrderedBackend);

impl WithoutLog {
    pub(in crate::backend) fn open(
        spec: &RunSpec,
        ours: &OrderedBackend,
        worker: &WorkerCommand,
        loading: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let mut backend =
            OrderedBackend::open_on(ours.pinning.clone(), &spec.without_log(), worker, loading)?;
        backend.record.peer = Some(NO_LOG.to_owned());
        Ok(Self(backend))
    }
}

impl Backend for WithoutLog {
    fn label(&self) -> String {
        self.0.label()
    }

    fn start(&self, worker: &WorkerCommand) -> Result<Running> {
        self.0.start(worker)
    }

    fn finish(&self, record: Record, round: &Round) -> Record {
        self.0.finish(record, round)
    }
}
