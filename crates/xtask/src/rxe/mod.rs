//! `cargo xtask rxe`: the verbs fabric on Soft-RoCE, in a small virtual machine under software emulation.
//!
//! Neither a card nor KVM nor the host's kernel is needed: Debian's kernel, unpacked and not installed, boots under
//! QEMU with `rdma_rxe`. The guest sees this machine's files read-only, so that what was built here runs there as it
//! is. Its exit status is the tests'.
//!
//! | file | what it knows |
//! |---|---|
//! | `kernel.rs` | Debian's kernel and the modules that it takes |
//! | `initramfs.rs` | the archive that the kernel starts from |
//! | `guest.sh`, `init.sh` | what runs in the guest |
//! | `machine.rs` | QEMU, and what the guest says |

mod initramfs;
mod kernel;
mod machine;

use machine::Processors;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The tests that run in a guest with one processor: binaries of `crates/proof/tests`, and which of their tests.
const TESTS: [Test; 8] = [
    ("rdma", "rdma"),
    ("sherman_model", "over_rdma"),
    ("smart_model", "over_rdma"),
    ("sphinx_model", "over_rdma"),
    ("catfish_shm", "over_rdma"),
    ("costs", "over_rdma"),
    ("smart_costs", "over_rdma"),
    ("sphinx_costs", "over_rdma"),
];

/// And in one with two: processes that are killed while they post. Linux 6.1 waits for a killed process's requests by
/// looking again and again, which on one processor that is not preempted can keep out what it waits for.
const TESTS_OF_TWO: [Test; 2] = [("rdma", "contract"), ("sherman_processes", "over_rdma")];

type Test = (&'static str, &'static str);

/// Runs it; yields the guest's exit status. `filter`: only test binaries whose names hold it.
///
/// # Errors
/// In words, where something is missing or does not start.
pub fn run(root: &Path, filter: Option<&str>) -> Result<u8, String> {
    require_tools()?;
    let work = root.join("target/rxe");
    std::fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    let kernel = kernel::fetch(&work)?;
    let modules = kernel.modules()?;
    let mut status = 0;
    let guests = [(Processors::One, &TESTS[..]), (Processors::Two, &TESTS_OF_TWO[..])];
    for (processors, tests) in guests {
        let wanted: Vec<Test> = tests
            .iter()
            .copied()
            .filter(|(name, _)| filter.is_none_or(|filter| name.contains(filter)))
            .collect();
        if wanted.is_empty() {
            continue;
        }
        let job = job(root, &wanted, filter.is_none() && processors == Processors::One)?;
        let archive = initramfs::build(&modules, &job)?;
        let initramfs = work.join("initramfs");
        std::fs::write(&initramfs, archive).map_err(|error| format!("{}: {error}", initramfs.display()))?;
        status = status.max(machine::boot(&kernel.image, &initramfs, processors)?);
    }
    Ok(status)
}

/// What must be installed, and the Debian packages that have it.
const TOOLS: [(&str, &str); 6] = [
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ("/bin/busybox", "busybox-static"),
    ("/sbin/modprobe", "kmod"),
    ("/bin/ip", "iproute2"),
    ("/usr/lib/x86_64-linux-gnu/libibverbs.so.1", "libibverbs1"),
    ("/usr/lib/x86_64-linux-gnu/libibverbs", "ibverbs-providers"),
];

fn require_tools() -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the guest is an x86-64 machine, and runs what is built here: build on x86-64".to_owned());
    }
    let missing = TOOLS.iter().filter(|(path, _)| !Path::new(path).exists() && !on_path(path));
    let packages: Vec<_> = missing.map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    Err(format!(
        "install what the guest needs: apt-get install --no-install-recommends {}",
        packages.join(" ")
    ))
}

/// Whether the program of that path is elsewhere: Debian moves them about.
fn on_path(path: &str) -> bool {
    let name = Path::new(path).file_name().unwrap_or_default();
    ["/bin", "/sbin", "/usr/bin", "/usr/sbin"].iter().any(|place| Path::new(place).join(name).exists())
}

/// Builds the tests and the command, and writes down what the guest does with them.
fn job(root: &Path, wanted: &[Test], has_demo: bool) -> Result<String, String> {
    let mut arguments = vec!["test", "--locked", "--package", "farwood-proof", "--no-run"];
    for (name, _) in wanted {
        arguments.extend(["--test", name]);
    }
    let tests = build(root, &arguments)?;
    let command = build(root, &["build", "--locked", "--package", "farwood", "--bin", "farwood"])?;
    let command = command.first().ok_or("cargo built no command")?;
    let mut job = format!("FARWOOD={}\ncd {}\n", command.display(), root.join("crates/proof").display());
    for (name, tests_of_it) in wanted {
        let stem = format!("{name}-");
        let is_it =
            |path: &&PathBuf| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&stem));
        let binary = tests.iter().find(is_it).ok_or_else(|| format!("cargo built no test {name}"))?;
        writeln!(job, "run_tests {name} {} {tests_of_it}", binary.display())
            .map_err(|error| error.to_string())?;
    }
    if has_demo {
        job.push_str("demo\n");
    }
    Ok(format!("{}\n{job}finish\n", include_str!("guest.sh")))
}

/// Runs cargo; yields the programs that it built.
fn build(root: &Path, arguments: &[&str]) -> Result<Vec<PathBuf>, String> {
    let mut command = Command::new(env!("CARGO"));
    // Without tables for debuggers the guest has less to read.
    command
        .args(arguments)
        .arg("--message-format=json")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .current_dir(root);
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err("what the guest is to run does not build".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    };
    Ok(messages.lines().filter_map(executable).collect())
}

/// Runs a program to its end; its output, or what went wrong in words.
fn output_of(program: &str, arguments: &[&str], at: &Path) -> Result<String, String> {
    let output = Command::new(program).args(arguments).current_dir(at).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} {}: {}", arguments.join(" "), why.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
