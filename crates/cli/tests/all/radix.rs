//! Radix trees on the command line: keys of any length, prefixes, and refused keys and values.

use crate::machine::{Machine, lines};

const SYSTEMS: [&str; 2] = ["smart", "sphinx"];

fn with_packages(system: &str) -> Machine {
    let machine = Machine::new();
    machine.ok(&["create", "shm://p/n", "--memory", "64MiB", "--index", system, "--keys", "text"]);
    let names = ["left", "left-pad", "left-pads", "leftpad", "right", "@scope/a", "@scope/b"];
    machine.ok(&["load", "shm://p/n", &machine.file("names.txt", lines(names))]);
    machine
}

#[test]
fn keys_have_any_length() {
    for system in SYSTEMS {
        let machine = with_packages(system);
        assert_eq!(machine.ok(&["get", "shm://p/n", "left-pad"]), "2\n");
        let long = "k".repeat(4096);
        machine.ok(&["put", "shm://p/n", &long, "9"]);
        assert_eq!(machine.ok(&["get", "shm://p/n", &long]), "9\n");
        machine.refused(
            2,
            &["put", "shm://p/n", &"k".repeat(4097), "9"],
            &["the limit of this index is 4 KiB"],
        );
        machine.ok(&["del", "shm://p/n", "left"]);
        machine.refused(1, &["get", "shm://p/n", "left"], &["'left' does not exist"]);
        assert_eq!(machine.ok(&["get", "shm://p/n", "leftpad"]), "4\n");
    }
}

#[test]
fn scans_are_of_ranges_and_prefixes() {
    for system in SYSTEMS {
        let machine = with_packages(system);
        assert_eq!(machine.ok(&["scan", "shm://p/n", "--prefix", "left-"]), "left-pad\t2\nleft-pads\t3\n");
        assert_eq!(
            machine.ok(&["scan", "shm://p/n", "--prefix", "@scope/", "--reverse", "--limit", "1"]),
            "@scope/b\t7\n"
        );
        assert_eq!(
            machine.ok(&["scan", "shm://p/n", "--from", "leftp", "--to", "s"]),
            "leftpad\t4\nright\t5\n"
        );
        machine.refused(2, &["scan", "shm://p/n", "--snapshot"], &["radix tree"]);
        machine.refused(2, &["scan", "shm://p/n", "--prefix", "a", "--from", "b"], &["cannot be used"]);
        machine.ok(&["create", "shm://p/i"]);
        machine.refused(2, &["scan", "shm://p/i", "--prefix", "1"], &["--from and --to"]);
    }
}

#[test]
fn stat_shows_the_system_and_the_variant() {
    for system in SYSTEMS {
        let machine = with_packages(system);
        let stat = machine.json(&["stat", "shm://p/n", "--count"]);
        assert_eq!(
            (&stat[0]["system"], &stat[0]["variant"], &stat[0]["entries"], &stat[0]["node_bytes"]),
            (&system.into(), &system.into(), &7.into(), &serde_json::Value::Null)
        );
        assert!(machine.ok(&["stat", "shm://p/n"]).contains("text of any length"));
        let check = machine.json(&["check", "shm://p/n"]);
        assert_eq!((&check[0]["entries"], &check[0]["unfinished_changes"]), (&7.into(), &0.into()));
        let words = machine.ok(&["check", "shm://p/n"]);
        let tables = (check[0]["table_bytes"] != 0, words.contains("hash tables of "));
        assert_eq!(tables, (system == "sphinx", system == "sphinx"), "{words}");
        assert!(words.contains("every invariant holds"));
    }
}

#[test]
fn variants_have_names_and_other_options_are_refused() {
    let machine = Machine::with_pool();
    for (number, variant) in
        ["art", "+lock-free", "+in-place", "+rear-lock", "+read-delegation", "+write-combining"]
            .iter()
            .enumerate()
    {
        let url = format!("shm://p/v{number}");
        let sizes = ["fitting", "typed", "256"][number % 3];
        machine.ok(&["create", &url, "--index", "smart", "--variant", variant, "--node-sizes", sizes]);
        machine.ok(&["put", &url, "1", "2"]);
        assert_eq!(machine.ok(&["get", &url, "1"]), "2\n");
        machine.ok(&["drop", &url]);
    }
    let of_sphinx = [("slot", "queued"), ("whole", "handed-over"), ("slot", "contended")];
    for (number, (reads, locks)) in of_sphinx.into_iter().enumerate() {
        let url = format!("shm://p/s{number}");
        machine.ok(&["create", &url, "--index", "sphinx", "--node-reads", reads, "--leaf-locks", locks]);
        machine.ok(&["put", &url, "1", "2"]);
        assert_eq!(machine.ok(&["get", &url, "1"]), "2\n");
        machine.ok(&["drop", &url]);
    }
    for (options, words) in [
        (&["--index", "smart", "--key-bytes", "8"][..], "any length"),
        (&["--index", "smart", "--node-reads", "whole"], "an option of sphinx"),
        (&["--leaf-locks", "contended"], "--index sphinx"),
        (&["--index", "catfish", "--leaf-locks", "contended"], "an option of sphinx"),
        (&["--index", "smart", "--lock-width", "16"], "64-bit locks"),
        (&["--index", "smart", "--variant", "fg+"], "+rear-lock"),
        (&["--variant", "art"], "+hierarchical"),
        (&["--node-sizes", "256"], "--index smart"),
        (&["--index", "sphinx", "--node-sizes", "typed"], "an option of smart"),
        (&["--index", "catfish", "--node-sizes", "256"], "an option of smart"),
    ] {
        let command = [&["create", "shm://p/x"], options].concat();
        machine.refused(2, &command, &["create shm://p/x", words]);
    }
    machine.refused(
        2,
        &["bench", "--index", "smart", "--node-bytes", "512"],
        &["--node-bytes", "radix tree"],
    );
    machine.refused(2, &["bench", "--index", "smart", "--leaf-locks", "queued"], &["--leaf-locks", "sphinx"]);
    machine.refused(2, &["bench", "--node-reads", "slot"], &["--node-reads", "sphinx"]);
    for option in [
        &["--node-sizes", "typed"][..],
        &["--leaf-locks", "queued"],
        &["--round-allocations"],
        &["--batched-scans", "off"],
    ] {
        let command = [&["bench", "--index", "catfish"], option].concat();
        machine.refused(2, &command, &[option[0], "spatial indexes do not have this option"]);
    }
    for option in ["--scale", "--think", "--rectangles-file"] {
        machine.refused(2, &["bench", "--index", "sphinx", option, "5"], &[option, "an option of catfish"]);
    }
    machine.refused(2, &["bench", "--batched-scans", "off"], &["--batched-scans", "only radix trees"]);
    machine.refused(2, &["bench", "--index", "art"], &["there is no kind of index 'art'"]);
}
