//! `cargo xtask rxe`: tests of the RDMA fabric on Soft-RoCE, in emulated virtual machines.
//!
//! No NIC, no KVM and no module of the host's kernel is needed: QEMU boots Debian's kernel, which is unpacked and not
//! installed, with `rdma_rxe`. The guest mounts this machine's files read-only and runs the programs that were built
//! here. Its exit status is that of the tests.
//!
//! | file | content |
//! |---|---|
//! | `kernel.rs` | Debian's kernel and its modules |
//! | `initramfs.rs` | the archive that the kernel boots from |
//! | `guest.sh`, `init.sh` | the scripts of the guest |
//! | `machine.rs` | QEMU and the output of the guest |

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

/// The tests that run in a guest with two processors: processes that are killed while they post. Linux 6.1 polls for
/// the end of a killed process's requests, which can block these requests on one processor without preemption.
const TESTS_OF_TWO: [Test; 2] = ["fabric::rdma::rdma_keeps", "sherman::processes::over_rdma"];

type Test = &'static str;

/// The name of the demos in a filter.
const DEMO: &str = "demo";

/// The demo of a guest, a function of its script. Soft-RoCE places the stores of a spatial server in order for the
/// READs of its clients only with one processor.
const fn demo_of(processors: Processors) -> &'static str {
    match processors {
        Processors::One => "demo_places",
        Processors::Two => "demo",
    }
}

/// Runs the guests; yields their exit status. `filter` selects the tests whose names contain it, or the demo.
///
/// # Errors
/// A message, if a tool is missing or a guest does not start.
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
        let has_demo = filter.is_none_or(|filter| filter == DEMO);
        if wanted.is_empty() && !has_demo {
            continue;
        }
        let initramfs = work.join(format!("initramfs-{}", processors.count()));
        let archive = initramfs::build(
            &modules,
            &job(root, &built, &wanted, if has_demo { demo_of(processors) } else { "" })?,
        )?;
        std::fs::write(&initramfs, archive).map_err(|error| format!("{}: {error}", initramfs.display()))?;
        jobs.push((processors, initramfs));
    }
    run_guests(&kernel.image, &jobs)
}

/// Runs guests concurrently. The output of the first is printed immediately, that of the others when they end.
fn run_guests(image: &Path, jobs: &[(Processors, PathBuf)]) -> Result<u8, String> {
    let Some(((processors, initramfs), others)) = jobs.split_first() else {
        return Err("no test has such a name".to_owned());
    };
    std::thread::scope(|scope| {
        let boot_silently = |(processors, initramfs): &(Processors, PathBuf)| {
            let mut said = Vec::new();
            let status = machine::boot(image, initramfs, *processors, &mut said);
            (status, said)
        };
        let others: Vec<_> = others.iter().map(|job| scope.spawn(move || boot_silently(job))).collect();
        let mut status = machine::boot(image, initramfs, *processors, &mut std::io::stdout());
        for other in others {
            let (of_other, said) = other.join().expect("a guest's thread does not panic");
            // A closed stdout is not an error.
            let _ = std::io::stdout().write_all(&said);
            status = status.and_then(|status| Ok(status.max(of_other?)));
        }
        status
    })
}

/// Files that must be installed, with their Debian packages.
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
        return Err(
            "the guest is an x86-64 machine and runs the programs of this one: run this command on x86-64"
                .to_owned(),
        );
    }
    let missing = TOOLS.iter().filter(|(path, _)| !Path::new(path).exists() && !on_path(path));
    let packages: Vec<_> = missing.map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    Err(format!(
        "install the packages that the guest needs: apt-get install --no-install-recommends {}",
        packages.join(" ")
    ))
}

/// Whether the program of that path is in another folder, because Debian releases differ.
fn on_path(path: &str) -> bool {
    let name = Path::new(path).file_name().unwrap_or_default();
    ["/bin", "/sbin", "/usr/bin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join(name).exists())
}

/// A program that cargo has built.
struct Built {
    /// The manifest of its package.
    manifest: PathBuf,
    program: PathBuf,
}

/// Builds the tests and the command, in the profile of `cargo test`; yields the programs.
fn build(root: &Path) -> Result<Vec<Built>, String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--locked", "--message-format=json"]);
    command.args(["--package", "farwood-cli", "--bin", COMMAND, "--package", "farwood-proof"]);
    command.args(["--test", PROGRAM]);
    command.current_dir(root).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err("the programs of the guest do not build".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let path = |key: &str| message[key].as_str().map(PathBuf::from);
        Some(Built { manifest: path("manifest_path")?, program: path("executable")? })
    };
    Ok(messages.lines().filter_map(executable).collect())
}

/// The command's program.
const COMMAND: &str = "farwood";

/// The script that the guest runs.
fn job(root: &Path, built: &[Built], wanted: &[Test], last: &str) -> Result<String, String> {
    // Test programs of several packages have the same name.
    let find = |package: &str, is_it: &dyn Fn(&str) -> bool, what: &str| {
        let manifest = root.join("crates").join(package).join("Cargo.toml");
        let name =
            |built: &Built| built.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let found = built.iter().find(|built| built.manifest == manifest && is_it(&name(built)));
        found.ok_or_else(|| format!("cargo built no {what}")).map(|built| built.program.display().to_string())
    };
    let command = find("cli", &|file| file == COMMAND, COMMAND)?;
    let mut job = format!("FARWOOD={command}\ncd {}\n", root.join("crates/proof").display());
    let stem = format!("{PROGRAM}-");
    let program = find("proof", &|file| file.starts_with(&stem), PROGRAM)?;
    for filter in wanted {
        writeln!(job, "run_tests '{filter}' {program}").map_err(|error| error.to_string())?;
    }
    Ok(format!("{}\n{job}{last}\nfinish\n", include_str!("guest.sh")))
}

/// Runs a program to its end; yields its output, or a message about its failure.
fn output_of(program: &str, arguments: &[&str], at: &Path) -> Result<String, String> {
    let output = Command::new(program).args(arguments).current_dir(at).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} {}: {}", arguments.join(" "), why.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
