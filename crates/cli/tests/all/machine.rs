//! The separate machine of each test: a directory of segments, and a home directory without configuration.

use farwood_testkit::need;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A directory, in shared memory if the machine has it, which is removed when the test ends.
pub(crate) struct Machine(TempDir);

/// A text of one line for each item.
pub(crate) fn lines<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().fold(String::new(), |mut text, item| {
        writeln!(text, "{item}").unwrap();
        text
    })
}

/// The result of a command: exit code, stdout and stderr.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let shm = Path::new("/dev/shm");
        let root = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        Self(TempDir::with_prefix_in("farwood-cli-", root).unwrap())
    }

    /// A machine whose segments are on a disk, if the build is.
    pub(crate) fn on_disk() -> Self {
        Self(TempDir::with_prefix_in("farwood-cli-", env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    /// A machine with the pool `shm://p`, of one small memory node.
    pub(crate) fn with_pool() -> Self {
        let machine = Self::new();
        machine.ok(&["create", "shm://p", "--memory", "64MiB"]);
        machine
    }

    /// A machine with the index `shm://p/i` from u64 to u64.
    pub(crate) fn with_index() -> Self {
        let machine = Self::with_pool();
        machine.ok(&["create", "shm://p/i"]);
        machine
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The file of memory node 0 of `shm://p`.
    pub(crate) fn segment(&self) -> PathBuf {
        self.path().join("farwood.p.0")
    }

    /// Overwrites bytes of memory node 0 of `shm://p`.
    pub(crate) fn overwrite(&self, at: u64, bytes: &[u8]) {
        let file = File::options().write(true).open(self.segment()).unwrap();
        file.write_all_at(bytes, at).unwrap();
    }

    /// Writes a file that only its owner may access, and yields its path.
    pub(crate) fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        let path = self.path().join(name);
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
        file.unwrap().write_all(contents.as_ref()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A command that is not run yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farwood"));
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("FARWOOD_") || name == "XDG_CONFIG_HOME") {
                command.env_remove(name);
            }
        }
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        command.env("FARWOOD_SHM_DIR", self.path()).env("HOME", self.path());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Runs a command as a user of a group, who trusts the group. `None`: this machine does not permit it.
    #[track_caller]
    pub(crate) fn run_as(&self, user: u32, group: u32, arguments: &[&str]) -> Option<Ran> {
        let mut command = self.command(arguments);
        command.env("FARWOOD_SHM_GROUP", group.to_string());
        need::met(need::ROOT, command.uid(user).gid(group).output()).map(Ran::of)
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        match child.stdin.take().unwrap().write_all(input.as_bytes()) {
            // A command that refuses its options may end before it reads.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written.unwrap(),
        }
        Ran::of(child.wait_with_output().unwrap())
    }

    /// Runs a command that must succeed; yields its stdout.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran.out
    }

    /// Runs a command that must exit with `code` and print all of `words` on stderr and nothing on stdout.
    pub(crate) fn refused(&self, code: i32, arguments: &[&str], words: &[&str]) {
        let ran = self.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        assert_eq!(ran.out, "", "{arguments:?}");
        ran.says(words);
    }

    /// Runs a command that must succeed with `--json`; yields its lines.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<serde_json::Value> {
        let out = self.ok(&[arguments, &["--json"]].concat());
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts that stderr contains all of `words`.
    pub(crate) fn says(&self, words: &[&str]) {
        for word in words {
            assert!(self.err.contains(word), "{word:?} is missing in: {}", self.err);
        }
    }
}

/// Waits until `holds` returns true, at most half a minute.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A port of this machine on which no process listens at the moment.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
