//! The calls that start, end and await forked children. All unsafe code of these tests.

use std::io::Write as _;
use std::time::{Duration, Instant};

/// The longest time that a child may take.
const CHILD_MAX: Duration = Duration::from_mins(1);

/// Forks this process. Returns the child's number in the parent, and `None` in the child. A panic of the child ends it
/// with exit code 101: otherwise it would end with 0, because the thread that panics is its only one.
pub(super) fn fork() -> Option<libc::pid_t> {
    // SAFETY: the child calls what the documentation permits in a forked child; the C library's allocator works there.
    match unsafe { libc::fork() } {
        -1 => panic!("{}", std::io::Error::last_os_error()),
        0 => {
            std::panic::set_hook(Box::new(|panic| {
                let _ = writeln!(std::io::stderr(), "child: {panic}");
                // SAFETY: ends the process.
                unsafe { libc::_exit(101) }
            }));
            None
        }
        child => Some(child),
    }
}

/// Ends this process without any destructor.
pub(super) fn end_at_once() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

/// Waits for the end of a child, and fails unless it ends with exit code 0.
pub(super) fn expect_success(child: libc::pid_t) {
    let end = Instant::now() + CHILD_MAX;
    loop {
        let mut status = 0;
        // SAFETY: the pointer is valid for the result.
        let waited = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        assert!(waited == 0 || waited == child, "{}", std::io::Error::last_os_error());
        if waited == child {
            assert_eq!(status, 0, "the wait status of the child");
            return;
        }
        if Instant::now() > end {
            // SAFETY: the child is a child of this process that has not been waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills this process, as `kill -9` does.
pub(super) fn kill_self() -> ! {
    let own = std::process::id().cast_signed();
    // SAFETY: takes two numbers.
    unsafe { libc::kill(own, libc::SIGKILL) };
    unreachable!("the process is killed")
}

/// Waits for a child that has called [`kill_self`].
#[track_caller]
pub(super) fn expect_killed(child: libc::pid_t) {
    let mut status = 0;
    // SAFETY: the pointer is valid for the result.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(waited == child && libc::WIFSIGNALED(status), "{status}");
}
