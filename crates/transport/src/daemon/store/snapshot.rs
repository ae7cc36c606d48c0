//! Snapshots of the memory: changes of the live memory while there is one, and verbs in it.

use super::Store;
use crate::daemon::log::{CutPhase, Log, cut_max};
use crate::daemon::snapshot::{SnapshotChange, SnapshotMemory, Snapshots};
use crate::shm::AccessFault;
use crate::wire::{Code, Malformed, WireOp, WireVerb};

/// The reason why a verb was not executed in a snapshot.
#[derive(Debug)]
pub(in crate::daemon) enum SnapshotFault {
    /// The verb is invalid.
    Verb(Code),
    /// The snapshot has ended.
    Ended(Code, String),
}

impl From<AccessFault> for SnapshotFault {
    fn from(fault: AccessFault) -> Self {
        Self::Verb(match fault {
            AccessFault::OutOfRange => Code::OutOfRange,
            AccessFault::Misaligned => Code::Misaligned,
        })
    }
}

impl Store {
    /// Sets the limit of the pages of a snapshot. `None`: a quarter of host memory.
    pub(in crate::daemon) fn with_snapshots(
        mut self,
        bytes_max: Option<u64>,
        mutant: Option<super::SnapshotMutant>,
    ) -> Self {
        self.snapshots = Snapshots::new(bytes_max.unwrap_or(self.memory_bytes() / 4), mutant);
        self
    }

    pub(in crate::daemon) fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// The live memory, as snapshots see it.
    pub(super) fn snapshot_memory(&self) -> SnapshotMemory<'_> {
        let log_cut = self.log().filter(|log| log.is_in(CutPhase::Active)).map_or(0, Log::cut);
        SnapshotMemory { mapping: &self.mapping, log_cut }
    }

    /// Must be called before the live memory changes, with the lock of the log, if there is one. The result is dropped
    /// after the change.
    #[inline]
    pub(super) fn before_change(&self, offset: u64, bytes: usize) -> Option<SnapshotChange<'_>> {
        self.snapshots.before_change(|| self.snapshot_memory(), (offset, bytes as u64))
    }

    /// Records the cut of a request, before the request is executed.
    ///
    /// # Errors
    /// The cut is too far ahead of the clock to be one of the pool.
    #[inline]
    pub(in crate::daemon) fn enter_cut(&self, cut: u64) -> Result<(), Malformed> {
        match self.log() {
            Some(log) => log.begin_cut(cut)?,
            None if self.snapshots.is_present() && cut > cut_max() => return Err(Malformed::Cut(cut)),
            None => {}
        }
        self.snapshots.enter_cut(cut);
        Ok(())
    }

    /// The cut for an answer with bytes that the caller has read before.
    #[inline]
    pub(in crate::daemon) fn cut_after_reads(&self) -> u64 {
        let cut = self.snapshots.cut_after_reads();
        self.log().map_or(cut, |log| log.cut_after_reads().max(cut))
    }

    /// Lets the snapshot be taken at `cut`; returns whether the memory node has not entered such a cut, and its cut.
    pub(in crate::daemon) fn aim_snapshot(
        &self,
        number: u64,
        owner: u64,
        cut: u64,
    ) -> Result<(bool, u64), (Code, String)> {
        if cut > cut_max() {
            return Err((Code::WrongPool, Malformed::Cut(cut).to_string()));
        }
        let is_ahead = self.snapshots.aim((number, owner), cut, || self.snapshot_memory())?;
        Ok((is_ahead, self.current_cut()))
    }

    /// Enters the cut of the snapshot, and takes it.
    pub(in crate::daemon) fn take_snapshot(&self, number: u64) -> Result<(), (Code, String)> {
        let cut = self.snapshots.aim_of(number)?;
        if let Some(log) = self.log() {
            let refused = |why: Malformed| (Code::WrongPool, why.to_string());
            log.begin_cut(cut).map_err(refused)?;
        }
        self.snapshots.raise_cut(cut);
        self.snapshots.with_pages(number, self.snapshot_memory(), |_| ())
    }

    /// Bytes of the pages of a snapshot that is taken.
    pub(in crate::daemon) fn snapshot_bytes(&self, number: u64) -> Result<u64, (Code, String)> {
        self.snapshots.with_pages(number, self.snapshot_memory(), |pages| pages.bytes())
    }

    /// The cut that the memory node has entered.
    pub(in crate::daemon) fn current_cut(&self) -> u64 {
        self.snapshots.current_cut(self.snapshot_memory())
    }

    /// Executes one verb in a snapshot, and appends its answer to `out`. The live memory and its server do not notice
    /// it.
    pub(in crate::daemon) fn execute_in_snapshot(
        &self,
        number: u64,
        verb: &WireVerb<'_>,
        out: &mut Vec<u64>,
    ) -> Result<(), SnapshotFault> {
        let bytes = match verb.op {
            WireOp::Read(bytes) => bytes,
            WireOp::Write(data, _) => data.len(),
            WireOp::Cas { .. } | WireOp::MaskedCas { .. } | WireOp::Faa(_) => 8,
        };
        let offset = self.locate(verb.at, bytes).map_err(SnapshotFault::Verb)?;
        let live = &*self.mapping;
        let executed = self.snapshots.with_pages(number, self.snapshot_memory(), |pages| match verb.op {
            WireOp::Read(bytes) => {
                let start = out.len();
                out.resize(start + bytes.div_ceil(8), 0);
                pages.read(live, offset, &mut out[start..])
            }
            WireOp::Write(data, _) => {
                pages.write(live, offset, data);
                Ok(())
            }
            WireOp::Cas { .. } | WireOp::MaskedCas { .. } | WireOp::Faa(_) => {
                out.push(pages.atomic(live, offset, &verb.op)?.to_le());
                Ok(())
            }
        });
        executed.map_err(|(code, why)| SnapshotFault::Ended(code, why))?.map_err(Into::into)
    }
}
