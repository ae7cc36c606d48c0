//! The option `--read-only` of the commands that only read.

use farwood::{Access, Error, Pool, Url};

/// The option `--read-only`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct AccessArgs {
    /// Open the pool for reading only: the permission to read its files is enough, or the token for reading; the
    /// command takes no client slot of the pool. Not over RDMA
    #[arg(long)]
    read_only: bool,
}

impl AccessArgs {
    /// What the command may do in the pool.
    pub(crate) fn access(self) -> Access {
        if self.read_only { Access::ReadOnly } else { Access::ReadWrite }
    }

    /// Attaches to an existing pool.
    pub(crate) fn find(self, url: Url) -> Result<Pool, Error> {
        find(url, self.access())
    }
}

/// Attaches to an existing pool.
pub(crate) fn find(url: Url, access: Access) -> Result<Pool, Error> {
    match access {
        Access::ReadWrite => Pool::find(url),
        Access::ReadOnly => Pool::open_read_only(url),
    }
}
