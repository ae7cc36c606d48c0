//! Error messages for pools over TCP that cannot be opened: each message names the cause, and the remedy that it names
//! works.

use crate::machine::{Machine, Ran, lines};
use crate::serve::Served;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Runs the `farwood` command that the text has in backticks, as a shell would.
fn follow(machine: &Machine, advice: &str, begins: &str) -> Ran {
    let command =
        advice.split('`').find(|part| part.starts_with(begins)).unwrap_or_else(|| panic!("{advice}"));
    let words: Vec<_> = command.split(' ').skip(1).map(|word| word.trim_matches('\'')).collect();
    machine.run(&words)
}

#[test]
fn urls_with_parameters_are_shown_as_commands_accept_them() {
    let machine = Machine::new();
    let token = machine.file("token", "a-token-of-24-characters\n");
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--token-file", &token]);
    let at = |index: &str| format!("{}{index}?token-file={token}", node.url);
    machine.ok(&["create", &at("/i")]);
    for arguments in
        [&["get", &at(""), "1"][..], &["search", &at(""), "--at", "1,2"], &["stat", &at(""), "--count"]]
    {
        machine.refused(2, arguments, &[&at("/INDEX")]);
    }
    machine.refused(2, &["create", &at(""), "--keys", "u64"], &[&at("/INDEX")]);
    let missing = machine.run(&["get", &at("/j"), "1"]);
    missing.says(&[&format!("open {}", at("/j"))]);
    assert!(follow(&machine, &missing.err, "farwood stat").out.contains("index i"), "{missing:?}");
    assert_eq!(follow(&machine, &missing.err, "farwood create").code, 0, "{missing:?}");
    machine.ok(&["drop", &at("/j")]);
    let dropped = machine.run(&["drop", &at("/j")]);
    assert_eq!((dropped.code, follow(&machine, &dropped.err, "farwood stat").code), (3, 0), "{dropped:?}");
    let forced = machine.run(&["drop", &at("/i"), "--force"]);
    assert_eq!((forced.code, follow(&machine, &forced.err, "farwood stat").code), (2, 0), "{forced:?}");
    machine.refused(2, &["put", &at("/i"), "x", "1"], &[&format!("put {}", at("/i"))]);
}

#[test]
fn commands_that_only_inspect_fresh_memory_nodes_form_no_pool() {
    let machine = Machine::new();
    let nodes = [(); 2].map(|()| Served::start_at(&machine, "tcp://127.0.0.1:0", &[]));
    let [one, two] = [&nodes[0].url, &nodes[1].url];
    let index = format!("{one}/i");
    for arguments in [
        &["stat", one][..],
        &["top", one, "--count", "1"],
        &["get", &index, "1"],
        &["scan", &index],
        &["search", &index, "--at", "1,2"],
        &["check", &index],
        &["put", &index, "1", "2"],
        &["drop", &index],
    ] {
        machine.refused(3, arguments, &["no pool yet", "all its memory nodes", "`farwood create tcp://"]);
    }
    let doctor = machine.ok(&["doctor", one]);
    assert!(
        doctor.contains("no pool yet") && doctor.contains(&format!("farwood create {one}/INDEX")),
        "{doctor}"
    );
    // The refused commands changed nothing: the nodes can still form one pool, also in the other order.
    let pool = format!("{two},{}", nodes[0].at());
    machine.ok(&["create", &format!("{pool}/i")]);
    assert_eq!(machine.json(&["stat", &pool])[0]["nodes"].as_array().unwrap().len(), 2);
    machine.refused(7, &["stat", one], &["node 1 of 2", "all memory nodes of the pool, in order"]);
}

#[test]
fn a_pool_that_refuses_this_user_is_a_finding() {
    let machine = Machine::new();
    let token = machine.file("token", "a-token-of-24-characters\n");
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--token-file", &token]);
    machine.ok(&["create", &format!("{}/i?token-file={token}", node.url)]);
    for (url, words) in [
        (node.url.clone(), "FARWOOD_TOKEN_FILE=FILE farwood doctor tcp://"),
        (format!("{}?token-file=/nowhere", node.url), "?token-file=FILE'"),
        (format!("{}?tls-ca=/nowhere&token-file={token}", node.url), "&tls-ca=FILE'"),
        ("tcp://127.0.0.1:1".to_owned(), "\n    farwood serve --listen tcp://127.0.0.1:1, with"),
    ] {
        let said = machine.ok(&["doctor", &url]);
        assert!(said.matches("farwood serve").count() < 2, "{said}");
        assert_eq!(said.matches("cannot be used: ").count(), 1, "{said}");
        assert_eq!(machine.run(&["doctor", &url, "--strict"]).code, 1, "{url}");
        assert!(said.contains(words) && !said.contains("no problems found"), "{said}");
        assert_eq!(machine.json(&["doctor", &url])[0]["findings"].as_array().unwrap().len(), 1, "{url}");
    }
    let with_it = machine.ok(&["doctor", &format!("{}?token-file={token}", node.url)]);
    assert!(with_it.contains("no problems found"), "{with_it}");
    machine.ok(&["doctor", &format!("{}?token-file={token}", node.url), "--strict"]);
}

#[test]
fn a_full_pool_over_tcp_gets_more_memory_where_it_is_served() {
    let machine = Machine::new();
    let small = Served::start_of(&machine, "16MiB");
    let index = format!("{}/i", small.url);
    machine.ok(&["create", &index]);
    let many = machine.file("many.txt", lines((0..400_000_u64).map(|key| key * 7919)));
    let ran = machine.run(&["load", &index, &many, "--sort-memory", "0"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    ran.says(&["load tcp://", "full", "`farwood grow`", "entries are loaded"]);
    assert!(!ran.err.contains("farwood create"), "{ran:?}");
}

#[test]
fn a_load_that_loses_a_memory_node_names_it_and_the_remedy() {
    let machine = Machine::new();
    let file = machine.path().join("node").to_str().unwrap().to_owned();
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--file", &file]);
    let (url, index) = (node.url.clone(), format!("{}/i", node.url));
    machine.ok(&["create", &index]);
    let mut load = machine.command(&["load", &index, "-", "--sort-memory", "0"]);
    let mut load = load.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = load.stdin.take().unwrap();
    stdin.write_all(b"1\n2\n").unwrap();
    stdin.flush().unwrap();
    let begun = Instant::now();
    while machine.run(&["get", &index, "2"]).code != 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing is loaded");
    }
    let at = node.at().to_owned();
    assert!(node.stop().0.success());
    stdin.write_all(b"3\n").unwrap();
    drop(stdin);
    let output = load.wait_with_output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(10), "{words}");
    for part in ["memory node 0 cannot be reached", &at, "2 entries are loaded", "load the file again"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let _node = Served::start_at(&machine, &url, &["--file", &file]);
    machine.ok(&["load", &index, &machine.file("keys.txt", "1\n2\n3\n")]);
    assert_eq!(machine.ok(&["scan", &index]), "1\t1\n2\t2\n3\t3\n");
}

#[test]
fn top_continues_when_a_memory_node_restarts() {
    let machine = Machine::new();
    let file = machine.path().join("node").to_str().unwrap().to_owned();
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--file", &file]);
    let (url, at) = (node.url.clone(), node.at().to_owned());
    machine.ok(&["create", &format!("{url}/i")]);
    let mut top = machine.command(&["top", &url, "--interval", "0.1", "--json"]);
    let mut top = top.stdout(Stdio::piped()).spawn().unwrap();
    let mut looks = BufReader::new(top.stdout.take().unwrap()).lines().map(|line| {
        let look: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        look
    });
    assert!(looks.next().unwrap()["nodes"][0]["per_second"]["verbs"].is_number());
    assert!(node.stop().0.success());
    let lost = looks.find(|look| look["lost"].is_string()).unwrap();
    assert!(lost["lost"].as_str().unwrap().contains(&at), "{lost}");
    let _node = Served::start_at(&machine, &url, &["--file", &file]);
    let back = looks.find(|look| look["lost"].is_null()).unwrap();
    assert!(back["nodes"][0]["per_second"].is_null(), "there is nothing to compare with yet: {back}");
    assert!(looks.next().unwrap()["nodes"][0]["per_second"]["verbs"].is_number());
    top.kill().unwrap();
    top.wait().unwrap();
}

#[test]
fn a_memory_node_needs_a_thread_and_a_connection() {
    let machine = Machine::new();
    for (option, range) in [("--threads", "give 1 to 1024"), ("--connections", "at least 1")] {
        machine.refused(2, &["serve", option, "0"], &[option, range]);
        machine.refused(2, &["serve", option, "many"], &[option, "not a number"]);
    }
}

#[test]
fn every_error_of_a_memory_nodes_file_has_its_exit_code() {
    let machine = Machine::new();
    let path = machine.path().join("node");
    let file = path.to_str().unwrap();
    let serve = |file: &str| {
        machine.run(&["serve", "--listen", "tcp://127.0.0.1:0", "--memory", "64MiB", "--file", file])
    };
    let fails = |file: &str, code: i32, words: &[&str]| {
        let ran = serve(file);
        assert_eq!(ran.code, code, "{ran:?}");
        ran.says(words);
    };
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--file", file]);
    machine.ok(&["create", &format!("{}/i", node.url)]);
    fails(file, 9, &["another memory node uses it", "another file"]);
    assert!(node.stop().0.success());
    fails(machine.path().to_str().unwrap(), 2, &["directory", "name a file"]);
    fails("/nowhere/at/all", 2, &["/nowhere/at/all", "name a file"]);
    fails("/dev/null", 7, &["not a regular file"]);
    fails(&machine.file("other", "no memory node's"), 7, &["not a memory node's file", "--device-memory"]);
    // Its header is after all host memory to which it can grow, and device memory.
    let header = 16 * (64 << 20) + (256 << 10);
    let spoil = |at: u64, word: u64| {
        let opened = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let mut before = [0; 8];
        opened.read_exact_at(&mut before, header + at).unwrap();
        opened.write_all_at(&word.to_le_bytes(), header + at).unwrap();
        u64::from_le_bytes(before)
    };
    let version = spoil(8, 99);
    fails(file, 7, &["version 99", "reads 1"]);
    spoil(8, version);
    let formed = spoil(48, 7);
    fails(file, 8, &["damaged", "7 is not a state"]);
    spoil(48, formed);
    drop(Served::start_at(&machine, "tcp://127.0.0.1:0", &["--file", file]));
    fails(file, 8, &["--accept-unclean"]);
}
