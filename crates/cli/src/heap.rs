//! Huge pages for the heap of a simulation: random accesses to hundreds of megabytes are a tenth faster with pages of 2
//! MiB. glibc's allocator requests such pages if an environment variable says so when the program starts.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

const TUNABLES: &str = "GLIBC_TUNABLES";

/// Restarts this program with a heap on huge pages, unless the user has set the allocator's tunables. Returns if the
/// restart fails or is not needed.
pub(super) fn on_huge_pages() {
    if cfg!(not(target_env = "gnu")) || std::env::var_os(TUNABLES).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    // `exec` returns only if it fails; the program then continues with its present heap.
    let _ = Command::new(program).arg0(name).args(arguments).env(TUNABLES, "glibc.malloc.hugetlb=1").exec();
}
