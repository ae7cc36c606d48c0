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
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The test program of `crates/proof` that the guests run.
const PROGRAM: &str = "all";

/// The tests that run in a guest with one processor: filters of [`PROGRAM`].
const TESTS: [Test; 2] = ["fabric::rdma::", "catfish::threads::over_rdma"];

/// And in one with two: processes that are killed while they post. Linux 6.1 waits for a killed process's requests by
/// looking again and again, which on one processor that is not preempted can keep out what it waits for.
const TESTS_OF_TWO: [Test; 2] = ["fabric::rdma::rdma_keeps", "sherman::processes::over_rdma"];

type Test = &'static str;

/// What a filter calls the demo.
const DEMO: &str = "demo";

/// Runs it; yields the guest's exit status. `filter`: only tests whose filters hold it, or the demo.
///
/// # Errors
/// In words, where something is missing or does not start.
pub fn run(root: &Path, filter: Option<&str>) -> Result<u8, String> {
    require_tools()?;
    let work = root.join("target/rxe");
    std::fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    let kernel = kernel::fetch(&work)?;
    let modules = kernel.modules()?;
    let built = build(root)?;
    let mut jobs = Vec::new();
    for (processors, tests) in [(Processors::One, &TESTS[..]), (Processors::Two, &TESTS_OF_TWO[..])] {
        let is_wanted = |name: &&Test| filter.is_none_or(|filter| name.contains(filter));
        let wanted: Vec<Test> = tests.iter().filter(is_wanted).copied().collect();
        let has_demo = processors == Processors::Two && filter.is_none_or(|filter| filter == DEMO);
        if wanted.is_empty() && !has_demo {
            continue;
        }
        let initramfs = work.join(format!("initramfs-{}", processors.count()));
        let archive = initramfs::build(&modules, &job(root, &built, &wanted, has_demo)?)?;
        std::fs::write(&initramfs, archive).map_err(|error| format!("{}: {error}", initramfs.display()))?;
        jobs.push((processors, initramfs));
    }
    run_guests(&kernel.image, &jobs)
}

/// Runs guests at the same time; the first says what it has to say at once, the others when they have come to their
/// ends.
fn run_guests(image: &Path, jobs: &[(Processors, PathBuf)]) -> Result<u8, String> {
    let Some(((processors, initramfs), others)) = jobs.split_first() else {
        return Err("no test is called that".to_owned());
    };
    std::thread::scope(|scope| {
        let quietly = |(processors, initramfs): &(Processors, PathBuf)| {
            let mut said = Vec::new();
            let status = machine::boot(image, initramfs, *processors, &mut said);
            (status, said)
        };
        let others: Vec<_> = others.iter().map(|job| scope.spawn(move || quietly(job))).collect();
        let mut status = machine::boot(image, initramfs, *processors, &mut std::io::stdout());
        for other in others {
            let (of_other, said) = other.join().expect("a guest's thread does not panic");
            // Nobody may read it.
            let _ = std::io::stdout().write_all(&said);
            status = status.and_then(|status| Ok(status.max(of_other?)));
        }
        status
    })
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

/// Builds the tests and the command, in one go: what they need is built once. Only what the tests spend
/// their time in is optimised. Yields the programs.
fn build(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--locked", "--profile", "guest", "--message-format=json"]);
    command.args(["--package", "farwood-cli", "--bin", COMMAND, "--package", "farwood-proof"]);
    command.args(["--test", PROGRAM]);
    command.current_dir(root).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
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

/// The command's program.
const COMMAND: &str = "farwood";

/// Writes down what the guest does with what was built.
fn job(root: &Path, built: &[PathBuf], wanted: &[Test], has_demo: bool) -> Result<String, String> {
    let find = |is_it: &dyn Fn(&str) -> bool, what: &str| {
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let found = built.iter().find(|path| is_it(&name(path)));
        found.ok_or_else(|| format!("cargo built no {what}")).map(|path| path.display().to_string())
    };
    let command = find(&|file| file == COMMAND, COMMAND)?;
    let mut job = format!("FARWOOD={command}\ncd {}\n", root.join("crates/proof").display());
    let stem = format!("{PROGRAM}-");
    let program = find(&|file| file.starts_with(&stem), PROGRAM)?;
    for filter in wanted {
        writeln!(job, "run_tests '{filter}' {program}").map_err(|error| error.to_string())?;
    }
    if has_demo {
        job.push_str("demo\n");
    }
    Ok(format!("{}\n{job}finish\n", include_str!("guest.sh")))
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
