//! The return of a memory node to a cut.

use super::appender::Log;
use super::checkpoint::{self, CheckpointFault, EarlierCheckpoint};
use super::cuts::{CutPhase, cut_max};
use super::files;
use super::recovery::{ReplayEnd, refused, replay};
use crate::error::FileFault;
use crate::shm::Mapping;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;

/// The cuts to which a memory node can return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon) struct CutSpan {
    pub(in crate::daemon) oldest: u64,
    /// The newest one, which is durable.
    pub(in crate::daemon) newest: u64,
}

impl Log {
    /// Whether a memory node may continue with cuts after `resume`.
    pub(in crate::daemon) fn can_resume_after(&self, resume: u64) -> bool {
        resume <= self.cuts.number().max(cut_max())
    }

    pub(in crate::daemon) fn enter_cut_phase(&self, phase: CutPhase) {
        self.cuts.enter(phase);
    }

    /// The cuts to which the memory can return. A memory node that takes part in cuts begins the newest one here.
    ///
    /// # Errors
    /// The log cannot be synced.
    pub(in crate::daemon) fn cut_span(&self) -> io::Result<CutSpan> {
        self.begin_next_cut();
        self.sync()?;
        Ok(CutSpan { oldest: self.cuts.bases().oldest().cut + 1, newest: self.cuts.number() })
    }

    /// Restores the memory as it was before `cut`, lets `finish` change it, and writes it as the only checkpoint; the
    /// next cut has a higher number than `resume`. The caller ensures that nobody else changes the memory. If the
    /// process ends before the return, a restart gives the memory of before.
    ///
    /// # Errors
    /// The files are damaged, or do not have the cut ([`cut_span`](Self::cut_span) says which they have), or the system
    /// fails. The contents of the memory are unknown then, and the log has failed.
    pub(in crate::daemon) fn return_to(
        &self,
        [cut, resume]: [u64; 2],
        mapping: &Mapping,
        memory: &File,
        finish: impl FnOnce(&Mapping),
    ) -> Result<(), FileFault> {
        let _excluded = self.exclude_checkpoints();
        self.sync().map_err(FileFault::System)?;
        let tail = self.lock_tail();
        let last = self.cuts.bases().last;
        let base = if last.cut < cut { self.path().to_owned() } else { files::before_path(self.path()) };
        let segments = files::segments(self.path()).map_err(FileFault::System)?;
        clear(mapping, memory)
            .map_err(|error| FileFault::System(self.fail("clear the memory for", &error)))?;
        let restored = checkpoint::load(&base, mapping).map_err(refused).and_then(|head| {
            if head.cut >= cut {
                let why = format!("{} has changes after the cut {cut}", base.display());
                return Err(FileFault::Damaged(why));
            }
            replay(self.path(), &segments, &head, (mapping, self.settings()), ReplayEnd::Cut(cut))
        });
        if let Err(fault) = restored {
            let _ = self.fail("return to a cut of", &io::Error::other(fault.to_string()));
            return Err(fault);
        }
        finish(mapping);
        self.cuts.set(resume.max(self.cuts.number()));
        drop(tail);
        self.copy_memory(mapping, memory, Some(EarlierCheckpoint::Remove)).map_err(|fault| {
            FileFault::System(match fault {
                // The log does not have the changes of the return.
                CheckpointFault::Copy(error) => self.fail("make a checkpoint of", &error),
                CheckpointFault::Log(error) => error,
            })
        })?;
        self.cuts.enter(CutPhase::Active);
        self.begin_next_cut();
        self.sync().map_err(FileFault::System)
    }
}

/// Fills the memory with zeros.
fn clear(mapping: &Mapping, memory: &File) -> io::Result<()> {
    fallocate(memory, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, mapping.bytes())
        .map_err(io::Error::from)
}
