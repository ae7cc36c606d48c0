//! Removal of the pools, indexes and folders that a run has created, even if the run is killed.

use std::os::unix::process::CommandExt as _;

use super::processes::{WorkerCommand, WorkerProcess};
use super::worker::{Job, ParentConnection, message};
use crate::{Error, Result};

/// A job that removes the objects that a run has created, when the run ends.
pub(crate) trait CleanupJob: Job {
    /// Removes everything that still exists. Errors are ignored, because nothing is left that could report them.
    fn clean_up(&self);

    /// Waits until the parent closes the pipe, on purpose or because it was killed, and cleans up.
    fn run_at_close(&self, parent: &mut ParentConnection<'_>) {
        parent.wait_for_close();
        self.clean_up();
    }
}

/// A process that cleans up when this guard is dropped, or when this process dies. The cleanup process is the leader of
/// its own process group, so that an interrupt from the terminal does not reach it.
pub(crate) struct CleanupGuard(WorkerProcess);

impl CleanupGuard {
    /// Starts the cleanup process. The caller must have created the objects of `job`, or have drawn random names for
    /// them, so that they cannot belong to another run. If the process cannot be started, the objects are removed
    /// immediately.
    pub(crate) fn start(command: &WorkerCommand, job: &impl CleanupJob) -> Result<CleanupGuard> {
        let started = Self::start_process(command, job);
        if started.is_err() {
            job.clean_up();
        }
        started
    }

    fn start_process(command: &WorkerCommand, job: &impl CleanupJob) -> Result<CleanupGuard> {
        let mut command = command.command();
        command.process_group(0);
        let (worker, output) = WorkerProcess::start(command, 0)?;
        drop(output);
        let mut guard = CleanupGuard(worker);
        let sent = guard.0.send(&message(job));
        sent.map_err(|source| Error::Processes { doing: "start the cleanup process".to_owned(), source })?;
        Ok(guard)
    }
}

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        self.0.close();
    }
}
