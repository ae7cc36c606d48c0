//! Programs in C and C++ with the installed library: they compile without warnings, and run with AddressSanitizer and
//! under valgrind, where there are any.

use farwood::testing::ScratchPool;
use farwood::types::Text;
use farwood::{BTree, Radix};
use farwood_testkit::need;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// The programs that need no argument, in the folder of the package.
const PROGRAMS: [&str; 7] = [
    "tests/programs/ordered.c",
    "tests/programs/session.c",
    "tests/programs/threads.c",
    "tests/programs/fork.c",
    "tests/programs/objects.cpp",
    "examples/words.c",
    "examples/rectangles.cpp",
];

/// Options of both compilers.
const WARNINGS: [&str; 5] = ["-g", "-Wall", "-Wextra", "-Werror", "-pedantic"];

/// The library, installed by the Makefile into a temporary folder. Programs of all tests are in it, too.
struct Installed(TempDir);

/// How a program is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linkage {
    Shared,
    SharedWithAddressSanitizer,
    Static,
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The archive that Cargo has built for this test.
fn archive() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.with_file_name("libfarwood_c.a")
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// The installed library, or nothing if the machine lacks a program that its installation needs.
#[track_caller]
fn installed() -> Option<&'static Installed> {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    need::program("make")?;
    need::program("cc")?;
    need::program("c++")?;
    Some(INSTALLED.get_or_init(|| {
        let into = TempDir::new().unwrap();
        let variable = |name: &str, value: &Path| format!("{name}={}", value.display());
        run(Command::new("make").current_dir(folder()).env_remove("MAKEFLAGS").args([
            "install",
            "PREFIX=/usr",
            &variable("ARCHIVE", &archive()),
            &variable("BUILD", &into.path().join("build")),
            &variable("DESTDIR", into.path()),
        ]));
        Installed(into)
    }))
}

impl Installed {
    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    /// The value of a key in farwood.pc.
    fn package_value(&self, key: &str) -> String {
        let package = std::fs::read_to_string(self.path("usr/lib/pkgconfig/farwood.pc")).unwrap();
        let value = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        value.unwrap_or_else(|| panic!("farwood.pc has no {key}")).to_owned()
    }

    /// Compiles a program of the package; returns its path, which no other call returns.
    fn compile(&self, source: &str, linkage: Linkage) -> PathBuf {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = Path::new(source).file_name().unwrap().to_string_lossy();
        let program = self.path(&format!("{}-{name}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let (compiler, standard) =
            if Path::new(source).extension().is_some_and(|extension| extension == "cpp") {
                ("c++", "-std=c++17")
            } else {
                ("cc", "-std=c99")
            };
        let mut command = Command::new(compiler);
        command.current_dir(folder()).arg(standard).args(WARNINGS).arg(source).arg("-o").arg(&program);
        command.arg("-pthread").arg("-I").arg(self.path("usr/include"));
        if linkage == Linkage::SharedWithAddressSanitizer {
            command.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
        }
        let libraries = self.path("usr/lib");
        if linkage == Linkage::Static {
            command.arg(libraries.join("libfarwood.a"));
            command.args(self.package_value("Libs.private").split(' '));
        } else {
            command.arg("-L").arg(&libraries).arg("-lfarwood");
            command.arg(format!("-Wl,-rpath,{}", libraries.display()));
        }
        run(&mut command);
        program
    }
}

/// Whether the compilers have AddressSanitizer.
#[track_caller]
fn has_address_sanitizer(installed: &Installed) -> Option<()> {
    let (source, program) = (installed.path("empty.c"), installed.path("empty"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let compiled =
        Command::new("cc").arg("-fsanitize=address,undefined").arg(source).arg("-o").arg(&program).output();
    let runs = compiled.is_ok_and(|output| output.status.success())
        && Command::new(program).output().is_ok_and(|output| output.status.success());
    need::met(
        need::ADDRESS_SANITIZER,
        if runs { Ok(()) } else { Err("cc cannot link with -fsanitize=address") },
    )
}

#[test]
fn programs_run_with_the_shared_library() {
    let Some(installed) = installed() else { return };
    for source in PROGRAMS {
        run(&mut Command::new(installed.compile(source, Linkage::Shared)));
    }
}

#[test]
fn programs_run_with_the_static_library() {
    let Some(installed) = installed() else { return };
    for source in ["tests/programs/session.c", "tests/programs/objects.cpp"] {
        run(&mut Command::new(installed.compile(source, Linkage::Static)));
    }
}

#[test]
fn address_sanitizer_finds_no_error_and_no_leak() {
    let Some(installed) = installed() else { return };
    let Some(()) = has_address_sanitizer(installed) else { return };
    for source in PROGRAMS {
        let program = installed.compile(source, Linkage::SharedWithAddressSanitizer);
        run(Command::new(program).env("ASAN_OPTIONS", "detect_leaks=1"));
    }
}

#[test]
fn valgrind_finds_no_error_and_no_leak() {
    let Some(installed) = installed() else { return };
    let Some(valgrind) = need::program("valgrind") else { return };
    for source in PROGRAMS {
        let program = installed.compile(source, Linkage::Shared);
        let leaks =
            ["--leak-check=full", "--show-leak-kinds=definite,indirect", "--errors-for-leak-kinds=definite"];
        run(Command::new(&valgrind).args(["--quiet", "--error-exitcode=99"]).args(leaks).arg(program));
    }
}

/// The words of a text that begin with `fw_` and are followed by `(`.
fn functions_of(header: &str) -> BTreeSet<&str> {
    let starts = header.match_indices("fw_").map(|(at, _)| &header[at..]);
    let name = |text: &str| text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named = starts.filter_map(|text| Some(text.split_at(name(text)?)));
    named
        .filter(|(name, rest)| rest.starts_with('(') && !name.ends_with("_default"))
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn the_shared_library_exports_the_functions_of_the_header_with_their_version() {
    let Some(installed) = installed() else { return };
    let Some(nm) = need::program("nm") else { return };
    let library = installed.path("usr/lib/libfarwood.so.0");
    let output = run(Command::new(nm).args(["--dynamic", "--defined-only", "--format=posix"]).arg(library));
    let symbols = String::from_utf8(output.stdout).unwrap();
    let exported: BTreeSet<&str> = symbols.lines().filter_map(|line| line.split(' ').next()).collect();
    let header = std::fs::read_to_string(installed.path("usr/include/farwood.h")).unwrap();
    let versioned: Vec<String> = functions_of(&header)
        .iter()
        .map(|name| format!("{name}@@FARWOOD_0"))
        .chain(["FARWOOD_0".to_owned()])
        .collect();
    let expected: BTreeSet<&str> = versioned.iter().map(String::as_str).collect();
    assert_eq!(exported, expected);
}

#[test]
fn the_installation_is_complete() {
    let Some(installed) = installed() else { return };
    for path in
        ["lib/libfarwood.so", "lib/libfarwood.so.0.1.0", "include/farwood.hpp", "share/man/man3/farwood.3"]
    {
        assert!(installed.path("usr").join(path).exists(), "{path}");
    }
    assert_eq!(installed.package_value("Libs"), "-L${libdir} -lfarwood");
    assert_eq!(installed.package_value("Version"), env!("CARGO_PKG_VERSION"));
}

#[cfg(feature = "tcp")]
#[test]
fn sessions_and_threads_work_over_tcp() {
    use farwood::node::{MemoryNode, NodeSpec};

    let Some(installed) = installed() else { return };
    let node = MemoryNode::start(&NodeSpec::new(([127, 0, 0, 1], 0).into(), 64 << 20)).unwrap();
    let url = format!("tcp://{}", node.address());
    for source in ["tests/programs/session.c", "tests/programs/threads.c"] {
        run(Command::new(installed.compile(source, Linkage::Shared)).arg(&url));
    }
}

/// The first program of the guide.
#[test]
fn the_program_of_the_guide_compiles() {
    let Some(installed) = installed() else { return };
    let guide = std::fs::read_to_string(folder().join("../../docs/c.md")).unwrap();
    let program = guide.split("```c\n").nth(1).and_then(|text| text.split("```").next()).unwrap();
    let source = installed.path("guide.c");
    std::fs::write(&source, program).unwrap();
    installed.compile(source.to_str().unwrap(), Linkage::Shared);
}

#[test]
fn c_and_rust_share_indexes() {
    let Some(installed) = installed() else { return };
    let pool = ScratchPool::new(64 << 20).unwrap();
    let opened = pool.open().unwrap();
    let of_rust = opened.create_index::<String, u64>("of-rust", &Radix::new()).unwrap();
    of_rust.put("key", 7).unwrap();
    run(Command::new(installed.compile("tests/programs/shared.c", Linkage::Shared)).arg(pool.url()));
    let numbers = opened.open_index::<i64, f64>("numbers").unwrap();
    let found: Vec<_> = numbers.iter().collect::<Result<_, _>>().unwrap();
    assert_eq!((found.len(), found[0], found[6]), (7, (-3, -1.5), (3, 1.5)));
    let options = BTree::new().key_bytes(16).any_length_values();
    let texts = opened.open_or_create::<Text, Text>("texts", &options).unwrap();
    assert_eq!(texts.get("ant").unwrap().as_deref(), Some("Ameise"));
}
