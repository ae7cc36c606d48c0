//! The files in `deploy/`, as far as they can be checked without a cluster: `farwood serve` accepts every option that
//! they pass, the YAML files parse, and systemd accepts the unit.

use crate::machine::Machine;
use farwood_testkit::need;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The long options of `farwood serve`.
fn options() -> BTreeSet<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_farwood")).args(["serve", "--help"]).output().unwrap();
    words(&String::from_utf8(help.stdout).unwrap())
}

/// The words of a text that begin with two dashes, without their values.
fn words(text: &str) -> BTreeSet<String> {
    let word = |word: &str| {
        let name = word.strip_prefix("--")?;
        let end = name.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(name.len());
        (end > 0 && !name.starts_with('-')).then(|| name[..end].to_owned())
    };
    text.split(|c: char| c.is_whitespace() || "\"'[,`".contains(c)).filter_map(word).collect()
}

/// The lines of a file that are not comments.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_option_is_one_that_serve_takes() {
    let known = options();
    for name in ["farwood.service", "compose.yaml", "kubernetes.yaml", "Dockerfile"] {
        let text = code(&file(name));
        let serve = text.lines().filter(|line| !line.contains("cargo ") && !line.contains("apt-get"));
        let used = words(&serve.collect::<Vec<_>>().join("\n"));
        let used: Vec<_> = used
            .iter()
            .filter(|word| !["system", "uid", "home-dir", "create-home", "from"].contains(&&word[..]))
            .collect();
        assert!(used.iter().any(|option| *option == "tls-cert"), "{name}: it has no TLS: {used:?}");
        assert!(
            used.iter().any(|option| *option == "token-file"),
            "{name}: it is open to everybody: {used:?}"
        );
        for option in used {
            assert!(known.contains(option), "{name}: serve has no --{option}");
        }
    }
}

/// The images of a file: what follows `FROM` or `image:`.
fn images(name: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines = code(&file(name)).lines().map(words).collect::<Vec<_>>();
    let is_image =
        |words: &&Vec<String>| words.first().is_some_and(|word| word == "FROM" || word == "image:");
    lines.iter().filter(is_image).map(|words| words[1].clone()).collect()
}

#[test]
fn images_have_versions_and_a_pod_has_no_more_rights_than_it_needs() {
    for name in ["Dockerfile", "compose.yaml", "kubernetes.yaml"] {
        let images = images(name);
        assert!(!images.is_empty(), "{name}");
        for image in images {
            let tag = image.split_once(':').map_or("", |(_, tag)| tag);
            assert!(tag.matches('.').count() >= 1, "{name}: {image} has no version");
        }
    }
    let pods = code(&file("kubernetes.yaml"));
    for line in ["automountServiceAccountToken: false", "defaultMode: 0440", "readOnlyRootFilesystem: true"] {
        assert!(pods.contains(line), "{line}");
    }
    assert!(code(&file("farwood.service")).contains("LimitCORE=0"));
}

#[test]
fn metrics_that_other_machines_can_reach_have_a_network_policy() {
    for name in ["Dockerfile", "compose.yaml", "farwood.service"] {
        let text = code(&file(name));
        assert!(!text.contains("--metrics") || text.contains("--metrics 127.0.0.1:"), "{name}");
    }
    assert!(code(&file("kubernetes.yaml")).contains("kind: NetworkPolicy"));
}

#[test]
fn a_memory_node_is_stopped_by_sigterm_and_has_time_to_end() {
    assert!(file("farwood.service").contains("KillSignal=SIGTERM"));
    assert!(file("Dockerfile").contains("STOPSIGNAL SIGTERM"));
    assert!(file("compose.yaml").contains("stop_grace_period"));
    assert!(file("kubernetes.yaml").contains("terminationGracePeriodSeconds"));
}

#[test]
fn yaml_is_yaml() {
    for name in ["compose.yaml", "kubernetes.yaml"] {
        let text = file(name);
        let documents = serde_norway::Deserializer::from_str(&text);
        let mut kinds = Vec::new();
        for document in documents {
            let value: serde_norway::Value =
                serde::Deserialize::deserialize(document).unwrap_or_else(|error| panic!("{name}: {error}"));
            kinds.push(value.get("kind").and_then(|kind| kind.as_str()).unwrap_or_default().to_owned());
            if name == "compose.yaml" {
                let services = value.get("services").and_then(|services| services.as_mapping()).unwrap();
                assert_eq!(services.len(), 3);
            }
        }
        let expected: &[&str] =
            if name == "compose.yaml" { &[""] } else { &["Service", "NetworkPolicy", "StatefulSet"] };
        assert_eq!(kinds, expected, "{name}");
    }
}

#[test]
fn systemd_understands_the_units() {
    let Some(analyzer) = need::program("systemd-analyze") else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, installed) in [
        ("farwood.service", "farwood.service"),
        ("farwood-pool@.service", "farwood-pool@demo.service"),
        ("farwood-disk-pool@.service", "farwood-disk-pool@demo.service"),
    ] {
        let unit = folder.path().join(installed);
        // The program is where it is built, and the check does not care where it would be installed. Users of the
        // machine that runs the check have other names.
        let text = file(name).replace("/usr/local/bin/farwood", env!("CARGO_BIN_EXE_farwood"));
        std::fs::write(&unit, text.replace("User=farwood", "User=root")).unwrap();
        let mut command = Command::new(&analyzer);
        command.args(["verify", "--man=no", unit.to_str().unwrap()]).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let about = said.lines().filter(|line| line.contains(installed)).collect::<Vec<_>>();
        assert!(about.is_empty(), "{said}");
    }
}

/// The unit saves the pool at the end, restores it at the next start, and creates one if there is no file.
#[test]
fn the_unit_of_a_pool_restores_what_it_saved() {
    let machine = Machine::new();
    let folder = machine.path().join("saved");
    std::fs::create_dir(&folder).unwrap();
    let run = |key: &str| run(&machine, "farwood-pool@.service", &folder, key);
    run("ExecStart=");
    machine.ok(&["create", "shm://demo/numbers"]);
    machine.ok(&["put", "shm://demo/numbers", "1", "10"]);
    // A restart of the unit alone keeps the pool.
    run("ExecStart=");
    run("ExecStop=");
    machine.ok(&["drop", "shm://demo"]);
    run("ExecStart=");
    assert_eq!(machine.ok(&["get", "shm://demo/numbers", "1"]).trim(), "10");
}

/// The unit creates the pool once, and its end leaves the pool complete on the disk.
#[test]
fn the_unit_of_a_pool_on_a_disk_saves_it_in_place() {
    let machine = Machine::on_disk();
    let run = |key: &str| run(&machine, "farwood-disk-pool@.service", machine.path(), key);
    run("ExecStart=");
    machine.ok(&["create", "shm://demo/numbers"]);
    machine.ok(&["put", "shm://demo/numbers", "1", "10"]);
    run("ExecStop=");
    run("ExecStart=");
    assert_eq!(machine.ok(&["get", "shm://demo/numbers", "1"]).trim(), "10");
}

/// Runs a command of a unit for the pool `demo`, whose files are saved in `folder`.
fn run(machine: &Machine, name: &str, folder: &Path, key: &str) {
    let unit = code(&file(name));
    let line = unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    let line = line
        .replace("/usr/local/bin/farwood", env!("CARGO_BIN_EXE_farwood"))
        .replace("/var/lib/farwood-pools", folder.to_str().unwrap())
        .replace("%i", "demo");
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", &line]).env("FARWOOD_CREATE_MEMORY", "64MiB");
    let output = shell.env("FARWOOD_SHM_DIR", machine.path()).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
}
