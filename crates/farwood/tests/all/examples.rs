//! Every example runs to its end without input or set-up, and removes the pool that it creates.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// The directory of the examples, next to the directory of the test's own binary.
fn directory() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join("examples")
}

fn run(example: &str) {
    run_with_input(example, Duration::ZERO);
}

/// Runs an example, whose input ends after this time; returns its output.
fn run_with_input(example: &str, input_for: Duration) -> String {
    let shm = Path::new("/dev/shm");
    let root = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
    let machine = tempfile::TempDir::with_prefix_in("farwood-example-", root).unwrap();
    let binary = directory().join(example);
    assert!(binary.exists(), "{} is not built; run `cargo test` for the whole package", binary.display());
    let mut command = Command::new(binary);
    command.env("FARWOOD_SHM_DIR", machine.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    thread::sleep(input_for);
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!output.stdout.is_empty(), "it shows nothing");
    assert_eq!(std::fs::read_dir(machine.path()).unwrap().count(), 0, "the example did not remove its pool");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn embedded_u64() {
    run("embedded_u64");
}

#[test]
fn shared_by_processes() {
    run("shared_by_processes");
}

#[test]
fn text_keys_scan() {
    run("text_keys_scan");
}

#[test]
fn composite_keys() {
    run("composite_keys");
}

#[test]
fn async_many_clients() {
    run("async_many_clients");
}

#[test]
fn bulk_load() {
    run("bulk_load");
}

#[test]
fn metrics() {
    run("metrics");
}

#[test]
fn adaptive_server() {
    run("adaptive_server");
}

#[test]
fn session_store() {
    run("session_store");
}

#[test]
fn errors() {
    run("errors");
}

#[test]
fn own_types() {
    run("own_types");
}

#[test]
fn spatial_updates() {
    run("spatial_updates");
}

#[test]
fn tokio_service() {
    let shown = run_with_input("tokio_service", Duration::from_millis(800));
    assert!(shown.contains("expired sessions removed") && !shown.contains(" 0 expired"), "{shown}");
}

#[test]
fn spatial_async() {
    run("spatial_async");
}

#[test]
fn every_example_is_run() {
    let examples = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).unwrap();
    let tests = include_str!("examples.rs");
    for example in examples {
        let name = example.unwrap().file_name().into_string().unwrap();
        let (run, name) = (["run(", "run_with_input("], name.trim_end_matches(".rs"));
        let is_run = run.iter().any(|run| tests.contains(&format!("{run}\"{name}\"")));
        assert!(is_run, "{name} is not run");
    }
}
