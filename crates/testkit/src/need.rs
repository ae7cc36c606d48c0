//! The requirements of a test on its machine: a program, a header, a device, a privilege.
//!
//! A test states its need and returns early if the machine does not meet it:
//!
//! ```no_run
//! use farwood_testkit::need;
//!
//! let Some(redis) = need::program("redis-server") else { return };
//! # drop(redis);
//! ```
//!
//! A skipped test prints one line to the real stderr, which libtest does not capture, and appends one line to a file
//! in the target directory: the test, the need and the cause, separated by tabs. `cargo xtask test` counts these
//! lines.
//!
//! | variable | meaning |
//! |---|---|
//! | `FARWOOD_STRICT=1` | an unmet need fails its test |
//! | `FARWOOD_STRICT_EXCEPT=netns,etcd` | needs that this machine cannot meet: their tests are skipped nevertheless |
//! | `FARWOOD_SKIPS=PATH` | the file of skipped tests, instead of `farwood-skips.tsv` in the target directory |

use std::fmt::Display;
use std::io::Write as _;
use std::panic::Location;
use std::path::{Path, PathBuf};

/// Network namespaces, and the right to create them.
pub const NETNS: &str = "netns";
/// The right to give files to another user.
pub const ROOT: &str = "root";
/// The headers of libibverbs and libmlx5.
pub const VERBS_HEADER: &str = "verbs-header";
/// The library libmlx5.
pub const MLX5_LIBRARY: &str = "mlx5-library";
/// An RDMA device.
pub const RDMA_DEVICE: &str = "rdma-device";
/// A C compiler with AddressSanitizer.
pub const ADDRESS_SANITIZER: &str = "asan";

/// Needs, each with its remedy: what to do on a machine that does not meet it. The need for a program that is not
/// listed here has the program's name.
const REMEDIES: [(&str, &str); 13] = [
    ("redis-server", "apt-get install redis-server"),
    ("etcd", "apt-get install etcd-server"),
    ("systemd-analyze", "apt-get install systemd"),
    ("cc", "apt-get install gcc libc6-dev"),
    ("c++", "apt-get install g++"),
    ("make", "apt-get install make"),
    ("valgrind", "apt-get install valgrind libc6-dbg"),
    (ADDRESS_SANITIZER, "apt-get install gcc g++"),
    (NETNS, "apt-get install iproute2, and run the test as root"),
    (ROOT, "run the test as root"),
    (VERBS_HEADER, "apt-get install libibverbs-dev"),
    (MLX5_LIBRARY, "apt-get install ibverbs-providers"),
    (RDMA_DEVICE, "install an RDMA NIC, or run `cargo xtask rxe`"),
];

/// The file of skipped tests, by its name in the target directory.
const SKIPS_FILE: &str = "farwood-skips.tsv";

/// Finds a program in `PATH`.
#[track_caller]
pub fn program(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file());
    met(name, found.ok_or_else(|| format!("there is no program '{name}' in PATH")))
}

/// Finds a file, as evidence that the machine meets `need`.
#[track_caller]
pub fn file<'a>(need: &str, path: &'a Path) -> Option<&'a Path> {
    met(need, if path.exists() { Ok(path) } else { Err(format!("there is no {}", path.display())) })
}

/// Yields what meets `need`, or reports that the test is skipped.
///
/// # Panics
///
/// If the need is unmet, `FARWOOD_STRICT` is 1 and `FARWOOD_STRICT_EXCEPT` does not list the need.
#[track_caller]
pub fn met<T, E: Display>(need: &str, attempt: Result<T, E>) -> Option<T> {
    let why = match attempt {
        Ok(found) => return Some(found),
        Err(why) => why.to_string(),
    };
    let remedy = REMEDIES.iter().find(|(name, _)| *name == need).map_or("", |(_, remedy)| remedy);
    let variable = |name| std::env::var(name).unwrap_or_default();
    assert!(
        !is_required(need, &variable("FARWOOD_STRICT"), &variable("FARWOOD_STRICT_EXCEPT")),
        "FARWOOD_STRICT=1, and this machine does not meet the need '{need}': {why}. Remedy: {remedy}; or list \
         '{need}' in FARWOOD_STRICT_EXCEPT"
    );
    let test = current_test(Location::caller());
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: needs {need}: {why} ({remedy})");
    if let Some(path) = skips_file() {
        let line = format!("{test}\t{need}\t{}\n", why.replace(['\t', '\n'], " "));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // If the target directory is read-only, the line is still printed to stderr.
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
    None
}

/// Whether an unmet need fails its test, with these values of `FARWOOD_STRICT` and `FARWOOD_STRICT_EXCEPT`.
fn is_required(need: &str, strict: &str, except: &str) -> bool {
    strict == "1" && !except.split(',').any(|name| name.trim() == need)
}

/// The running test: libtest names its thread after it, or, with one test thread, the place that states the need.
fn current_test(caller: &Location<'_>) -> String {
    let thread = std::thread::current();
    match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{}:{}", caller.file(), caller.line()),
    }
}

/// The path of the file of skipped tests. Cargo marks the target directory with `CACHEDIR.TAG`.
fn skips_file() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("FARWOOD_SKIPS") {
        return Some(path.into());
    }
    let program = std::env::current_exe().ok()?;
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists())?;
    Some(target.join(SKIPS_FILE))
}

#[cfg(test)]
mod tests {
    use super::{is_required, met, program, skips_file};

    #[test]
    fn a_need_that_is_met_yields_its_evidence() {
        assert_eq!(met("anything", Ok::<_, String>(7)), Some(7));
        assert!(program("sh").is_some_and(|path| path.is_file()));
    }

    #[test]
    fn strict_fails_every_need_but_the_excepted() {
        assert!(!is_required("netns", "", ""));
        assert!(!is_required("netns", "0", ""));
        assert!(is_required("netns", "1", ""));
        assert!(is_required("netns", "1", "etcd,net"));
        assert!(!is_required("netns", "1", "etcd, netns"));
    }

    #[test]
    fn skips_are_written_into_the_target_directory() {
        let path = skips_file().unwrap();
        assert!(
            std::env::var_os("FARWOOD_SKIPS").is_some()
                || path.parent().unwrap().join("CACHEDIR.TAG").exists()
        );
    }
}
