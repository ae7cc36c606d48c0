//! Precedence of settings: a flag, the environment, the configuration file, the default.

use crate::machine::Machine;

/// Memory nodes of the pool that `farwood create` makes.
fn nodes(machine: &Machine, arguments: &[&str], variable: Option<&str>) -> u64 {
    let mut command = machine.command(&[&["create", "shm://p", "--memory", "16MiB"], arguments].concat());
    if let Some(value) = variable {
        command.env("FARWOOD_CREATE_NODES", value);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let nodes = machine.json(&["stat", "shm://p"])[0]["nodes"].as_array().unwrap().len();
    machine.ok(&["drop", "shm://p"]);
    nodes as u64
}

#[test]
fn flag_over_environment_over_file_over_default() {
    let machine = Machine::new();
    assert_eq!(nodes(&machine, &[], None), 1);
    machine.file("farwood.toml", "[create]\nnodes = 2\n");
    assert_eq!(nodes(&machine, &[], None), 2);
    assert_eq!(nodes(&machine, &[], Some("3")), 3);
    assert_eq!(nodes(&machine, &["--nodes", "4"], Some("3")), 4);
}

#[test]
fn files_are_found_and_named() {
    let machine = Machine::new();
    std::fs::create_dir_all(machine.path().join(".config/farwood")).unwrap();
    machine.file(".config/farwood/farwood.toml", "[create]\nnodes = 2\n");
    assert_eq!(nodes(&machine, &[], None), 2);
    machine.file("farwood.toml", "[create]\nnodes = 3\n");
    assert_eq!(nodes(&machine, &[], None), 3, "the folder's file comes first");
    let other = machine.file("other.toml", "[create]\nnodes = 4\n");
    assert_eq!(nodes(&machine, &["--config", &other], None), 4);
    machine.refused(10, &["--config", "nowhere.toml", "doctor"], &["cannot read nowhere.toml"]);
}

#[test]
fn options_without_values_are_true_or_false() {
    let machine = Machine::with_index();
    machine.ok(&["put", "shm://p/i", "1", "2"]);
    machine.file("farwood.toml", "json = true\n[scan]\nlimit = 1\n");
    assert_eq!(machine.ok(&["scan", "shm://p/i"]), "{\"key\":1,\"value\":2}\n");
    let output = machine.command(&["get", "shm://p/i", "1"]).env("FARWOOD_JSON", "false").output().unwrap();
    assert_eq!(output.stdout, b"2\n");
}

#[test]
fn what_excludes_an_option_of_the_file_takes_its_place() {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    machine.ok(&["put", "shm://p/s", "1", "0,0,9,9"]);
    machine.ok(&["put", "shm://p/s", "2", "4,4,5,5"]);
    machine.file("farwood.toml", "[search]\nwithin = true\nbbox = \"3,3,6,6\"\n");
    assert_eq!(machine.ok(&["search", "shm://p/s"]), "2 4,4,5,5\n");
    assert_eq!(machine.ok(&["search", "shm://p/s", "--contains"]), "1 0,0,9,9\n");
    assert_eq!(machine.ok(&["search", "shm://p/s", "--at", "1,1", "--contains"]), "1 0,0,9,9\n");
    let output = machine.command(&["search", "shm://p/s"]).env("FARWOOD_SEARCH_CONTAINS", "true").output();
    assert_eq!(output.unwrap().stdout, b"1 0,0,9,9\n", "the environment, too");
    machine.file("farwood.toml", "[search]\nwithin = true\nnearest = 3\n");
    machine.refused(2, &["search", "shm://p/s"], &["'within' and 'nearest' in [search] conflict"]);
    machine.file("farwood.toml", "[put]\nif-absent = true\n");
    machine.ok(&["put", "shm://p/s", "3", "7,7"]);
    machine.ok(&["create", "shm://p/i"]);
    machine.refused(1, &["put", "shm://p/i", "1", "2", "--if-present"], &["does not exist"]);
}

#[test]
fn what_is_unknown_is_refused() {
    let machine = Machine::with_index();
    for (contents, words) in [
        ("[create]\nnoodles = 2\n", "unknown key 'noodles' in [create]"),
        ("[frobnicate]\nnodes = 2\n", "no command 'frobnicate'"),
        ("nodes = 2\n", "unknown key 'nodes' at the top"),
        ("[create]\nnodes = \"many\"\n", "many"),
        ("[create]\nnodes = { a = 1 }\n", "must be a string"),
        ("[create\n", "farwood.toml"),
    ] {
        machine.file("farwood.toml", contents);
        machine.refused(2, &["create", "shm://q", "--memory", "16MiB"], &[words]);
    }
    let mut command = machine.command(&["create", "shm://q"]);
    let output = command.env("FARWOOD_CREATE_MEMORY", "lots").env("FARWOOD_CONFIG", "").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
