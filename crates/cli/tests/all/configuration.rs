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
    let words = ["--config: cannot read nowhere.toml", "name an existing file"];
    machine.refused(2, &["--config", "nowhere.toml", "doctor"], &words);
}

#[test]
fn files_that_are_not_configurations_are_refused() {
    let machine = Machine::new();
    let binary = machine.file("binary.toml", b"json = \"\xff\"\n");
    machine.refused(2, &["--config", &binary, "doctor"], &["binary.toml", "not UTF-8", "convert it"]);
    machine.refused(2, &["--config", "/dev/zero", "doctor"], &["--config: /dev/zero", "not a regular file"]);
    machine.refused(2, &["--config", "/", "doctor"], &["cannot read /", "instead of the directory"]);
    let long = machine.file("long.toml", vec![b'#'; (1 << 20) + 1]);
    machine.refused(2, &["--config", &long, "doctor"], &["long.toml", "longer than 1 MiB"]);
}

#[test]
fn devices_in_place_of_credentials_are_refused() {
    let machine = Machine::new();
    for parameter in ["token-file", "tls-ca"] {
        let url = format!("tcp://127.0.0.1:1/i?{parameter}=/dev/zero");
        machine.refused(2, &["get", &url, "1"], &["/dev/zero", "not a regular file"]);
    }
}

#[test]
fn a_name_of_certificates_needs_tls() {
    let machine = Machine::new();
    machine.refused(2, &["get", "tcp://127.0.0.1:1/i?tls-name=x", "1"], &["tls-name", "give tls-ca"]);
    let mut command = machine.command(&["get", "tcp://127.0.0.1:1/i", "1"]);
    let output = command.env("FARWOOD_TLS_NAME", "x").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
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
fn an_option_overrides_a_conflicting_option_of_the_file() {
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
fn unknown_options_and_tables_are_refused() {
    let machine = Machine::with_index();
    for (contents, words) in [
        ("[create]\nnoodles = 2\n", "unknown key 'noodles' in [create]"),
        ("[frobnicate]\nnodes = 2\n", "no command 'frobnicate'"),
        ("nodes = 2\n", "unknown key 'nodes' at the top"),
        ("[create]\nnodes = \"many\"\n", "many"),
        (
            "[create]\nnodes = { a = 1 }\n",
            "farwood.toml: 'nodes' in [create] must be a string, a number, or true or false, and is a table",
        ),
        (
            "[create]\nnodes = []\n",
            "'nodes' in [create] must be a string, a number, or true or false, and is an array",
        ),
        ("[create]\nnodes = [2]\n", "and is an array"),
        (
            "json = [true]\n",
            "farwood.toml: 'json' must be a string, a number, or true or false, and is an array",
        ),
        (
            "[bench]\npeer = [[]]\n",
            "'peer' in [bench] must be a string, a number, or true or false, or an array of these",
        ),
        ("[create\n", "farwood.toml: line 1, column 8: it is not TOML: unclosed table"),
        ("json = true\n[scan]\nlimit = one\n", "farwood.toml: line 3, column 9: it is not TOML: "),
    ] {
        machine.file("farwood.toml", contents);
        machine.refused(2, &["create", "shm://q", "--memory", "16MiB"], &[words]);
    }
}

/// The message of a command that is refused because of a variable.
fn refused_with(machine: &Machine, arguments: &[&str], variable: [&str; 2]) -> String {
    let mut command = machine.command(arguments);
    let output = command.env(variable[0], variable[1]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_bad_value_names_its_source() {
    let machine = Machine::with_index();
    let text = refused_with(&machine, &["create", "shm://q"], ["FARWOOD_CREATE_MEMORY", "lots"]);
    assert!(text.contains("invalid value 'lots' for 'FARWOOD_CREATE_MEMORY': give a number"), "{text}");
    let text = refused_with(&machine, &["create", "shm://q"], ["FARWOOD_CREATE_INDEX", "oak"]);
    assert!(text.contains("'oak' for 'FARWOOD_CREATE_INDEX'") && text.contains("sherman"), "{text}");
    let text = refused_with(&machine, &["stat", "shm://p"], ["FARWOOD_JSON", "maybe"]);
    assert!(text.contains("'maybe' for 'FARWOOD_JSON'"), "{text}");
    let put = ["put", "shm://p/i", "1", "2", "--if-absent"];
    let text = refused_with(&machine, &put, ["FARWOOD_PUT_IF_PRESENT", "true"]);
    assert!(text.contains("'FARWOOD_PUT_IF_PRESENT'") && text.contains("'--if-absent'"), "{text}");
    let text = refused_with(&machine, &["top", "shm://p", "--count", "1"], ["FARWOOD_TOP_INTERVAL", "0"]);
    assert!(
        text.contains("--interval 0") && text.contains("(FARWOOD_TOP_INTERVAL sets --interval)"),
        "{text}"
    );
    let text = refused_with(&machine, &["demo"], ["FARWOOD_DEMO_FABRIC", "sim"]);
    assert!(text.contains("(FARWOOD_DEMO_FABRIC sets --fabric)"), "{text}");
    let text = refused_with(&machine, &["demo", "--fabric", "sim"], ["FARWOOD_DEMO_FABRIC", "shm"]);
    assert!(!text.contains("FARWOOD_DEMO_FABRIC"), "{text}");
    let text = refused_with(&machine, &["stat", "shm://p"], ["FARWOOD_CONFIG", "nowhere.toml"]);
    assert!(text.contains("FARWOOD_CONFIG: cannot read nowhere.toml"), "{text}");
    machine.file("farwood.toml", "[create]\nvariant = \"oak\"\n");
    let words = ["--variant: there is no variant 'oak'", "([create] variant in farwood.toml sets --variant)"];
    machine.refused(2, &["create", "shm://p/x"], &words);
    machine.file("farwood.toml", "json = \"perhaps\"\n");
    machine.refused(2, &["stat", "shm://p"], &["'perhaps' for 'json in farwood.toml'"]);
    let file = machine.file("other.toml", "[create]\nmemory = \"lots\"\n[scan]\nlimit = \"many\"\n");
    let words = format!("'lots' for '[create] memory in {file}': give a number");
    machine.refused(2, &["--config", &file, "create", "shm://q"], &[&words]);
    let words = format!("'many' for '[scan] limit in {file}'");
    machine.refused(2, &["--config", &file, "scan", "shm://p/i"], &[&words, "give a whole number"]);
    let by_flag = ["--config", &file, "create", "shm://q", "--memory", "few"];
    machine.refused(2, &by_flag, &["'few' for '--memory <SIZE>'"]);
}

#[test]
fn negative_numbers_reach_the_option_that_refuses_them() {
    let machine = Machine::with_index();
    for (arguments, words) in [
        (&["scan", "shm://p/i", "--limit", "-1"][..], "'-1' for '--limit <N>'"),
        (&["create", "shm://q", "--memory", "-5"], "'-5' for '--memory <SIZE>': give a number"),
        (&["create", "shm://q", "--nodes", "-1"], "'-1' for '--nodes <N>'"),
        (&["load", "shm://p/i", "-", "--fill", "-1"], "0.5 to 1"),
    ] {
        let ran = machine.run(arguments);
        assert_eq!(ran.code, 2, "{ran:?}");
        ran.says(&[words]);
        assert!(!ran.err.contains("-- -"), "{ran:?}");
    }
    machine.refused(2, &["scan", "shm://p/i", "--limit", "99999999999999999999"], &["give a smaller number"]);
}

#[test]
fn an_unknown_short_name_has_a_remedy() {
    let machine = Machine::new();
    let get = ["get", "pool://nix/i", "1"];
    machine.refused(2, &get, &["no configuration file", "write farwood.toml", "nix = \"shm://NAME\""]);
    machine.file("farwood.toml", "json = false\n");
    machine.refused(2, &get, &["farwood.toml has no table [pools]", "nix = "]);
    machine.file("farwood.toml", "[pools]\nants = \"shm://a\"\nbees = \"shm://b\"\n");
    machine.refused(2, &get, &["of farwood.toml", "choose one of ants, bees"]);
}

#[test]
fn an_option_that_may_repeat_has_an_array() {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    machine.file("farwood.toml", "[load]\ncolumns = [\"2\", \"1\"]\n");
    machine.ok(&["load", "shm://p/s", &machine.file("points.csv", "1,2\n")]);
    assert_eq!(machine.ok(&["search", "shm://p/s", "--at", "2,1"]), "1 2,1,2,1\n");
}
