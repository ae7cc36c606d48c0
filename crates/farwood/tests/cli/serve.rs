//! Memory nodes as processes of their own, and commands that use them over TCP.

use crate::machine::{Machine, lines};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running `farwood serve`; killed when dropped.
struct Served {
    process: Child,
    url: String,
    metrics: Option<String>,
}

impl Served {
    fn start(machine: &Machine) -> Self {
        Self::start_at(machine, "tcp://127.0.0.1:0", &[])
    }

    fn start_at(machine: &Machine, listen: &str, options: &[&str]) -> Self {
        let fixed = ["serve", "--listen", listen, "--memory", "64MiB", "--json"];
        let mut command = machine.command(&[&fixed, options].concat());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        let metrics = told["metrics"].as_str().map(str::to_owned);
        Self { process, url: told["listen"].as_str().unwrap().to_owned(), metrics }
    }

    /// `host:port`.
    fn at(&self) -> &str {
        self.url.strip_prefix("tcp://").unwrap()
    }

    /// Asks it to stop; yields how it ended, and what it said.
    fn stop(mut self) -> (ExitStatus, String) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let (status, mut words) = (self.process.wait().unwrap(), String::new());
        self.process.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        (status, words)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn every_command_works_over_tcp() {
    let machine = Machine::new();
    let nodes = [Served::start(&machine), Served::start(&machine)];
    let pool = format!("tcp://{},{}", nodes[0].at(), nodes[1].at());
    let (index, words) = (format!("{pool}/i"), format!("{pool}/words"));
    machine.ok(&["create", &index]);
    machine.refused(4, &["create", &index], &["create tcp://", "already"]);
    machine.ok(&["put", &index, "5", "50"]);
    assert_eq!(machine.ok(&["get", &index, "5"]), "50\n");
    assert_eq!(machine.run(&["get", &index, "6"]).code, 1);
    assert_eq!(machine.run(&["del", &index, "5"]).code, 0);
    machine.ok(&["create", &words, "--keys", "text", "--key-bytes", "16"]);
    let text = lines((0..5000).map(|number| format!("word{number:05}")));
    let loaded = machine.json(&["load", &words, &machine.file("words.txt", text)]);
    assert_eq!(loaded[0]["loaded"], 5000);
    let out = machine.ok(&["scan", &words, "--from", "word00010", "--limit", "2"]);
    assert_eq!(out, "word00010\t11\nword00011\t12\n");
    assert_eq!(machine.json(&["check", &words])[0]["problems"].as_array().unwrap().len(), 0);
    let stat = &machine.json(&["stat", &pool])[0];
    assert_eq!((&stat["pool"], stat["nodes"].as_array().unwrap().len()), (&pool.as_str().into(), 2));
    assert!(stat["nodes"][0]["connections"].as_u64().unwrap() > 0, "{stat}");
    assert_eq!(stat["clients"].as_array().unwrap().len(), 1, "those before it have left: {stat}");
    assert!(machine.ok(&["stat", &pool]).contains("connections"));
    let doctor = &machine.json(&["doctor", &pool])[0];
    assert_eq!(
        (doctor["pools"][0]["pool"].as_str(), doctor["findings"].as_array().unwrap().len()),
        (Some(&*pool), 0)
    );
    machine.ok(&["drop", &words]);
    machine.refused(3, &["get", &words, "word00010"], &["farwood create"]);
    for node in nodes {
        let (status, words) = node.stop();
        assert!(status.success(), "{status}: {words}");
        assert!(words.contains("stopped after") && words.contains("0 closed"), "{words}");
    }
}

#[test]
fn what_cannot_be_over_tcp_says_what_can() {
    let machine = Machine::new();
    let node = Served::start(&machine);
    machine.refused(2, &["create", &node.url], &["create tcp://", "farwood serve"]);
    machine.refused(2, &["drop", &node.url, "--force"], &["SIGTERM"]);
    machine.refused(3, &["get", "tcp://127.0.0.1:1/i", "1"], &["127.0.0.1:1", "farwood serve --listen"]);
    machine.refused(2, &["get", "tcp://127.0.0.1/i", "1"], &["no port"]);
    machine.refused(2, &["serve", "--listen", "shm://x"], &["tcp://HOST:PORT"]);
    machine.refused(
        2,
        &["serve", "--listen", "tcp://127.0.0.1:0", "--memory", "1MiB"],
        &["multiple of 8 MiB"],
    );
    machine.refused(10, &["serve", "--listen", &node.url], &["cannot listen", "another port"]);
    machine.ok(&["create", &format!("{}/i", node.url)]);
    let twice = format!("tcp://{},127.0.0.1:1/i", node.at());
    machine.refused(3, &["get", &twice, "1"], &["127.0.0.1:1"]);
}

#[test]
fn beyond_this_machine_a_memory_node_wants_a_token() {
    let machine = Machine::new();
    machine.refused(2, &["serve", "--listen", "tcp://0.0.0.0:0"], &["--token-file", "--insecure"]);
    machine.refused(2, &["serve", "--token-file", "/nowhere"], &["/nowhere"]);
    let short = machine.file("short", "secret\n");
    machine.refused(2, &["serve", "--token-file", &short], &["6 characters", "16 to 1024"]);
    let file = machine.file("token", "a-token-of-24-characters\n");
    let node = Served::start_at(&machine, "tcp://0.0.0.0:0", &["--token-file", &file]);
    let url = node.url.replace("0.0.0.0", "127.0.0.1") + "/i";
    machine.refused(6, &["create", &url], &["token", "FARWOOD_TOKEN_FILE"]);
    let with = |token: &str, arguments: &[&str]| {
        machine.command(arguments).env("FARWOOD_TOKEN_FILE", token).output().unwrap().status.code()
    };
    assert_eq!(with(&machine.file("wrong", "a-token-of-24-characterz\n"), &["create", &url]), Some(6));
    assert_eq!(with(&file, &["create", &url]), Some(0));
    assert_eq!(with(&file, &["put", &url, "1", "2"]), Some(0));
    assert_eq!(with("/nowhere", &["get", &url, "1"]), Some(2));
}

#[test]
fn a_memory_node_that_is_killed_is_told_at_once_and_its_fresh_memory_too() {
    let machine = Machine::new();
    let nodes = [Served::start(&machine), Served::start(&machine)];
    let pool = format!("tcp://{},{}", nodes[0].at(), nodes[1].at());
    let index = format!("{pool}/i");
    machine.ok(&["create", &index]);
    let at = nodes[1].url.clone();
    let [first, second] = nodes;
    drop(second);
    let start = Instant::now();
    machine.refused(3, &["get", &index, "1"], &["no memory node answers"]);
    assert!(start.elapsed() < Duration::from_secs(5));
    let _again = Served::start_at(&machine, &at, &[]);
    machine.refused(7, &["get", &index, "1"], &["fresh memory", "lost"]);
    let doctor = &machine.json(&["doctor", &pool])[0];
    assert!(doctor["findings"][0]["what"].as_str().unwrap().contains("fresh memory"), "{doctor}");
    drop(first);
}

#[test]
fn a_file_outlives_its_memory_node_and_says_if_it_was_killed() {
    let machine = Machine::new();
    let file = machine.path().join("node").to_str().unwrap().to_owned();
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--file", &file]);
    let (url, index) = (node.url.clone(), format!("{}/i", node.url));
    machine.ok(&["create", &index]);
    machine.ok(&["put", &index, "1", "2"]);
    assert!(node.stop().0.success());
    let node = Served::start_at(&machine, &url, &["--file", &file]);
    assert_eq!(machine.ok(&["get", &index, "1"]), "2\n");
    machine.ok(&["put", &index, "1", "3"]);
    drop(node);
    let serve = ["serve", "--listen", &url, "--memory", "64MiB", "--file", &file];
    machine.refused(8, &serve, &["not stopped", "--accept-unclean", "farwood check"]);
    let _node = Served::start_at(&machine, &url, &["--file", &file, "--accept-unclean"]);
    assert_eq!(machine.ok(&["get", &index, "1"]), "3\n");
    assert_eq!(machine.run(&["check", &index]).code, 0);
    machine.refused(
        7,
        &["serve", "--listen", "tcp://127.0.0.1:0", "--memory", "64MiB", "--file", &file],
        &["another"],
    );
}

#[test]
fn a_memory_node_can_be_watched() {
    let machine = Machine::new();
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--metrics", "127.0.0.1:0"]);
    machine.ok(&["create", &format!("{}/i", node.url)]);
    let ask = |what: &str| {
        let mut stream = TcpStream::connect(node.metrics.as_deref().unwrap()).unwrap();
        stream.write_all(format!("GET {what} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(ask("/healthz").starts_with("HTTP/1.1 200 OK\r\n"));
    let metrics = ask("/metrics");
    let verbs = metrics.lines().find_map(|line| line.strip_prefix("farwood_verbs_total ")).unwrap();
    assert!(verbs.parse::<u64>().unwrap() > 100, "{metrics}");
    let silent = TcpStream::connect(node.metrics.as_deref().unwrap()).unwrap();
    assert!(node.stop().0.success(), "who says nothing does not keep it");
    drop(silent);
}
