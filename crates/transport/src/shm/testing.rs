//! Helpers of this fabric's tests: temporary directories, anonymous mappings, child processes.

#![cfg(test)]

use super::segment::SegmentDir;
use super::sys::{self, Mapping};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A temporary directory in shared memory, removed on drop.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        let shm = Path::new("/dev/shm");
        Self::below(&if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() })
    }

    fn below(root: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("farwood-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = root.join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// A temporary directory on a disk; `None`: the file system of the build is in memory.
    pub(super) fn on_disk() -> Option<Self> {
        let program = std::env::current_exe().unwrap();
        let scratch = Self::below(program.parent().unwrap());
        let is_on_disk = !sys::is_in_memory(&File::open(scratch.path()).unwrap()).unwrap();
        is_on_disk.then_some(scratch)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn dir(&self) -> SegmentDir {
        SegmentDir::at(&self.0)
    }

    /// Creates a file of `bytes` zeroes.
    pub(super) fn file(&self, name: &str, bytes: u64) -> File {
        let mut options = File::options();
        let file =
            options.read(true).write(true).create_new(true).mode(0o600).open(self.0.join(name)).unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    pub(super) fn entries(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Maps zeroes that no other process can find.
pub(super) fn anonymous(bytes: u64) -> Mapping {
    let scratch = Scratch::new();
    Mapping::new(&scratch.file("anonymous", bytes), bytes).unwrap()
}

/// Prints a measurement to the test's output.
pub(super) fn report(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The variable that gives a test in a child process its directory.
const CHILD: &str = "FARWOOD_TEST_CHILD";

/// Returns the directory of the test if [`Process::run`] started it.
pub(super) fn as_child_in() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// One test of this binary in its own process, killed on drop.
pub(super) struct Process(pub(super) Child);

impl Process {
    /// Runs the test with that full name, which calls [`as_child_in`].
    pub(super) fn run(test: &str, directory: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--nocapture", test]).env(CHILD, directory);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    pub(super) fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.0.id());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
    }

    /// Returns the process's state in `/proc`: `T` is stopped.
    pub(super) fn state(&self) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let (_, after_name) = stat.rsplit_once(')').unwrap();
        after_name.trim_start().chars().next().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a condition holds, and fails if it never does.
pub(super) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
