//! The machine, the commit and the build profile that a record names.

use std::fmt;
use std::fs;

use serde::{Deserialize, Serialize};

/// The properties of a machine that affect measurements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The CPU model as the kernel names it, or `unknown`.
    pub cpu: String,
    /// Number of CPUs that this process may use.
    pub cores: u64,
    /// Memory of the machine in bytes; 0 if unknown.
    pub memory_bytes: u64,
    /// The kernel's name and release.
    pub kernel: String,
    /// The kind of pages of the run's pool; empty if unknown.
    #[serde(default)]
    pub pages: String,
}

impl Machine {
    /// Describes the machine that this process runs on.
    pub fn here() -> Machine {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let release = read("/proc/sys/kernel/osrelease");
        Machine {
            cpu: cpu_model(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            kernel: format!("{} {}", std::env::consts::OS, release.trim()).trim_end().to_owned(),
            pages: String::new(),
        }
    }
}

/// Bytes of available memory, if the kernel reports them.
pub(crate) fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = field(&text, "MemAvailable")?.split(' ').next()?.parse().ok()?;
    Some(kib << 10)
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = self.memory_bytes as f64 / (1u64 << 30) as f64;
        write!(f, "{}, {} cores, {gib:.0} GiB, {}", self.cpu, self.cores, self.kernel)?;
        if self.pages.is_empty() { Ok(()) } else { write!(f, ", {}", self.pages) }
    }
}

/// The name of the commit if the code was not built in a git repository.
const COMMIT_UNKNOWN: &str = "unknown";
/// The mark behind a commit from which the sources differed. `build.rs` writes it.
const COMMIT_CHANGED: char = '+';

/// The commit that this code was built from: the environment variable `FARWOOD_COMMIT` at build time, otherwise the
/// commit of the git repository, with a `+` if the sources differed from it, otherwise `unknown`.
pub fn commit() -> String {
    option_env!("FARWOOD_COMMIT").unwrap_or(COMMIT_UNKNOWN).to_owned()
}

/// Whether `commit` names exactly one version of the code.
pub fn is_exact(commit: &str) -> bool {
    !commit.is_empty() && commit != COMMIT_UNKNOWN && !commit.ends_with(COMMIT_CHANGED)
}

/// The build profile of this code: `release`, `dev`, or the name of another profile.
pub fn profile() -> String {
    option_env!("FARWOOD_PROFILE").unwrap_or("unknown").to_owned()
}

/// The value of the first line `name : value` of a file in /proc.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

fn cpu_model(cpuinfo: &str) -> String {
    // On Arm the kernel reports a part number instead of a model name.
    let model = field(cpuinfo, "model name").or_else(|| field(cpuinfo, "CPU part"));
    model.filter(|model| !model.is_empty()).unwrap_or("unknown").to_owned()
}

fn memory_bytes(meminfo: &str) -> u64 {
    let total = field(meminfo, "MemTotal").and_then(|value| value.strip_suffix(" kB"));
    total.and_then(|kibibytes| kibibytes.trim().parse::<u64>().ok()).map_or(0, |kibibytes| kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_parsed() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.2GHz\nflags\t\t: a b\n";
        assert_eq!(cpu_model(cpuinfo), "Some CPU @ 2.2GHz");
        assert_eq!(cpu_model("CPU part\t: 0xd0c\n"), "0xd0c");
        assert_eq!(cpu_model(""), "unknown");
        assert_eq!(memory_bytes("MemTotal:       16 kB\nMemFree: 1 kB\n"), 16 << 10);
        assert_eq!(memory_bytes("nothing"), 0);
    }

    #[test]
    fn a_machine_is_displayed_as_one_line() {
        let machine = Machine {
            cpu: "X".to_owned(),
            cores: 2,
            memory_bytes: 16 << 30,
            kernel: "linux 6.1".to_owned(),
            ..Machine::default()
        };
        assert_eq!(machine.to_string(), "X, 2 cores, 16 GiB, linux 6.1");
        let machine = Machine { pages: "4 KiB pages".to_owned(), ..machine };
        assert!(machine.to_string().ends_with("linux 6.1, 4 KiB pages"));
        assert!(Machine::here().cores >= 1);
        assert!(!commit().is_empty());
    }

    #[test]
    fn a_changed_or_unknown_commit_names_no_version() {
        for (commit, exact) in [("abc123", true), ("abc123+", false), ("unknown", false), ("", false)] {
            assert_eq!(is_exact(commit), exact, "{commit}");
        }
    }
}
