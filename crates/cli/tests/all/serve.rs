//! Memory nodes as separate processes, and commands that use them over TCP.

use crate::machine::{Machine, eventually, lines};
use farwood_testkit::need;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// A running `farwood serve`; killed when dropped.
pub(crate) struct Served {
    process: Child,
    pub(crate) url: String,
    metrics: Option<String>,
    /// The object that it printed at its start.
    pub(crate) told: serde_json::Value,
}

/// An address whose port the system gives to no client. Otherwise a client that reconnects to a memory node that was
/// killed could connect to itself, and take the port.
pub(crate) fn unused_address() -> String {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let first = 12_000 + (std::process::id() % 10_000) as u16;
    loop {
        let port = first + TAKEN.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return format!("tcp://127.0.0.1:{port}");
        }
    }
}

impl Served {
    pub(crate) fn start(machine: &Machine) -> Self {
        Self::start_at(machine, "tcp://127.0.0.1:0", &[])
    }

    pub(crate) fn start_at(machine: &Machine, listen: &str, options: &[&str]) -> Self {
        Self::run(machine, &[&["--listen", listen, "--memory", "64MiB"], options].concat())
    }

    /// Starts a memory node with this much memory.
    pub(crate) fn start_of(machine: &Machine, memory: &str) -> Self {
        Self::run(machine, &["--listen", "tcp://127.0.0.1:0", "--memory", memory])
    }

    fn run(machine: &Machine, options: &[&str]) -> Self {
        Self::spawn(&mut machine.command(&[&["serve", "--json"], options].concat()))
    }

    /// Starts a command that runs `farwood serve --json`.
    fn spawn(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        let metrics = told["metrics"].as_str().map(str::to_owned);
        Self { process, url: told["listen"].as_str().unwrap().to_owned(), metrics, told }
    }

    /// `host:port`.
    pub(crate) fn at(&self) -> &str {
        self.url.strip_prefix("tcp://").unwrap()
    }

    /// The next line of the log that contains these words.
    pub(crate) fn hear(&mut self, words: &str) -> String {
        let mut lines = BufReader::new(self.process.stderr.as_mut().unwrap()).lines();
        lines.find_map(|line| line.ok().filter(|line| line.contains(words))).unwrap()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// The number of the process.
    pub(crate) fn process_number(&self) -> u32 {
        self.process.id()
    }

    /// Stops it with a signal; yields its exit status and its output.
    pub(crate) fn stop(mut self) -> (ExitStatus, String) {
        self.signal("-TERM");
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
fn operations_that_tcp_does_not_support_name_an_alternative() {
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
fn a_memory_node_that_other_machines_can_reach_requires_a_token() {
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

/// Files of a certificate authority, and of a certificate for `127.0.0.1` that it issued.
pub(crate) struct Certified {
    pub(crate) ca: String,
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Certified {
    pub(crate) fn make(machine: &Machine) -> Self {
        use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let cert =
            CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        Self {
            ca: machine.file("ca.pem", issuer.pem()),
            cert: machine.file("node.pem", cert.pem()),
            key: machine.file("node.key", key.serialize_pem()),
        }
    }

    /// The parameters that a compute node adds to a URL.
    fn parameters(&self) -> String {
        format!("?tls-ca={}&tls-cert={}&tls-key={}", self.ca, self.cert, self.key)
    }
}

#[test]
fn client_certificates_replace_a_token_and_are_given_in_urls_or_the_environment() {
    let machine = Machine::new();
    let files = Certified::make(&machine);
    let mine = ["--tls-cert", &files.cert, "--tls-key", &files.key];
    machine.refused(2, &["serve", "--tls-cert", &files.cert], &["--tls-key"]);
    machine.refused(2, &["serve", "--client-ca", &files.ca], &["--tls-cert"]);
    let named = format!("tcp://127.0.0.1:1/i{}&tls-name=bad name", files.parameters());
    machine.refused(2, &["get", &named, "1"], &["'bad name' is not a valid name", "correct tls-name"]);
    machine.refused(
        2,
        &["serve", "--tls-cert", &files.key, "--tls-key", &files.key],
        &["node.key", "certificate"],
    );
    let beyond = [&["serve", "--listen", "tcp://0.0.0.0:0"], &mine[..]].concat();
    machine.refused(2, &beyond, &["--client-ca", "--insecure"]);
    let options = [&mine[..], &["--client-ca", &files.ca]].concat();
    let node = Served::start_at(&machine, "tcp://0.0.0.0:0", &options);
    let url = node.url.replace("0.0.0.0", "127.0.0.1");
    let with = |index: &str| format!("{url}{index}{}", files.parameters());
    machine.ok(&["create", &with("/i")]);
    machine.ok(&["put", &with("/i"), "1", "2"]);
    let created = machine.json(&["stat", &with("/i")]);
    assert_eq!(created[0]["index"].as_str(), Some(&*with("/i")), "a URL is shown as it was given");
    let plain = machine.run(&["get", &format!("{url}/i"), "1"]);
    assert_eq!(plain.code, 3, "{plain:?}");
    plain.says(&["does not answer as a memory node", "FARWOOD_TLS_CA"]);
    assert!(!plain.err.contains("farwood serve"), "it runs: {plain:?}");
    machine.refused(6, &["get", &format!("{url}/i?tls-ca={}", files.ca), "1"], &["no TLS", "tls-cert"]);
    let variables = [("CA", &files.ca), ("CERT", &files.cert), ("KEY", &files.key)];
    let mut command = machine.command(&["get", &format!("{url}/i"), "1"]);
    command.envs(variables.map(|(name, file)| (format!("FARWOOD_TLS_{name}"), file)));
    assert_eq!(command.output().unwrap().stdout, b"2\n");
    machine.file("farwood.toml", format!("[pools]\nsafe = \"{}\"\n", with("")));
    assert_eq!(machine.ok(&["get", "pool://safe/i", "1"]), "2\n");
    let (status, words) = node.stop();
    assert!(status.success() && words.contains("a connection was refused"), "{words}");
}

#[test]
fn pools_have_short_names_in_the_configuration() {
    let machine = Machine::new();
    let node = Served::start(&machine);
    machine.file("farwood.toml", format!("[pools]\nmine = \"{}\"\n", node.url));
    machine.ok(&["create", "pool://mine/i"]);
    machine.ok(&["put", "pool://mine/i", "1", "2"]);
    assert_eq!(machine.ok(&["get", &format!("{}/i", node.url), "1"]), "2\n");
    machine.refused(2, &["get", "pool://yours/i", "1"], &["no pool 'yours'", "[pools]"]);
    for (line, words) in [
        ("mine = 5", "must be a string"),
        ("mine = \"tcp://host\"", "no port"),
        ("mine = \"shm://demo/words\"", "is an index"),
    ] {
        machine.file("farwood.toml", format!("[pools]\n{line}\n"));
        machine.refused(2, &["get", "pool://mine/i", "1"], &["farwood.toml", "'mine'", words]);
    }
    machine.file("farwood.toml", format!("[pools]\nbad = \"tcp://host\"\nmine = \"{}\"\n", node.url));
    assert_eq!(machine.ok(&["get", "pool://mine/i", "1"]), "2\n", "an error in another entry has no effect");
    machine.ok(&["doctor"]);
    machine.file("farwood.toml", "pools = 5\n");
    machine.refused(2, &["doctor"], &["'pools' must be a table"]);
}

#[test]
fn top_shows_the_activity_of_a_memory_node() {
    let machine = Machine::new();
    let node = Served::start(&machine);
    machine.ok(&["create", &format!("{}/i", node.url)]);
    let looks = machine.json(&["top", &node.url, "--interval", "0.1", "--count", "2"]);
    assert_eq!(looks.len(), 2);
    let seen = &looks[1]["nodes"][0];
    // The look itself is what the memory node does.
    assert!(seen["per_second"]["verbs"].as_f64().unwrap() > 0.0, "{seen}");
    assert!(seen["report"]["latency_us_below"]["max"].as_u64().unwrap() > 0, "{seen}");
    assert_eq!(looks[1]["indexes"][0], "i");
    let stat = machine.json(&["stat", &node.url]).remove(0);
    for field in stat["nodes"][0].as_object().unwrap().keys() {
        assert!(seen.get(field).is_some(), "stat says {field} of a memory node, and top does not: {seen}");
    }
    let text = machine.ok(&["top", &node.url, "--interval", "0.1", "--count", "1"]);
    assert!(text.contains("verbs/s") && text.contains("1 index"), "{text}");
    machine.refused(2, &["top", &format!("{}/i", node.url)], &["the URL of its pool"]);
    machine.refused(2, &["top", &node.url, "--interval", "0"], &["0.01"]);
}

#[test]
fn problems_are_logged_as_text_or_as_json() {
    let machine = Machine::new();
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--log", "json"]);
    let mut stream = TcpStream::connect(node.at()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    let at = node.url.clone();
    let (_, words) = node.stop();
    let lines: Vec<serde_json::Value> =
        words.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["event"], &lines[0]["node"]), (&"bad_frame".into(), &at.into()));
    assert_eq!(lines[lines.len() - 1]["event"], "stopped");
}

/// Starts a command that stays attached to the pool, and waits until it is.
fn attach(machine: &Machine, pool: &str) -> Child {
    let mut command = machine.command(&["top", pool, "--interval", "600"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while machine.json(&["stat", pool])[0]["clients"].as_array().unwrap().len() < 2 {
        assert!(Instant::now() < deadline, "it does not attach");
    }
    child
}

#[test]
fn the_log_names_lost_and_revoked_clients_and_none_that_leaves() {
    let machine = Machine::new();
    let mut node = Served::start(&machine);
    let index = format!("{}/i", node.url);
    machine.ok(&["create", &index]);
    machine.ok(&["put", &index, "1", "2"]);
    let mut lost = attach(&machine, &node.url);
    lost.kill().unwrap();
    lost.wait().unwrap();
    let line = node.hear("client ");
    assert!(line.contains("is lost: its connections ended") && line.contains("(127.0.0.1:"), "{line}");
    let mut revoked = attach(&machine, &node.url);
    revoked.kill().unwrap();
    revoked.wait().unwrap();
    // Takes the slots of the crashed clients.
    machine.ok(&["doctor", &node.url, "--sweep"]);
    machine.ok(&["get", &index, "1"]);
    let (_, words) = node.stop();
    let lines: Vec<_> = words.lines().filter(|line| line.contains("client ")).collect();
    // On a machine that is busy for two seconds it is lost before it is revoked.
    let [line] = lines[..] else { panic!("{words}") };
    assert!(
        (line.contains("was revoked") || line.contains("is lost")) && line.contains("(127.0.0.1:"),
        "{line}"
    );
}

#[test]
fn a_refused_index_does_not_make_memory_nodes_a_pool() {
    let machine = Machine::new();
    let nodes = [Served::start(&machine), Served::start(&machine)];
    let first = format!("{}/i", nodes[0].url);
    for (options, words) in [
        (&["--keys", "text"][..], "--key-bytes N"),
        (&["--key-bytes", "7"], "has 8 bytes, not 7"),
        (&["--node-bytes", "100"], "multiple of 64"),
        (&["--memory", "64MiB"], "--memory is an option of a pool in shared memory"),
        (&["--index", "catfish", "--ids", "text", "--node-bytes", "384"], "at least 1664 bytes"),
    ] {
        machine.refused(2, &[&["create", &first], options].concat(), &[words]);
    }
    machine.ok(&["create", &format!("tcp://{},{}/i", nodes[0].at(), nodes[1].at())]);
}

#[test]
fn a_killed_memory_node_and_its_fresh_memory_are_reported_at_once() {
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
fn a_file_keeps_the_memory_and_shows_whether_the_memory_node_was_killed() {
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
    machine.refused(8, &serve, &["crashed", "--accept-unclean", "farwood check"]);
    let _node = Served::start_at(&machine, &url, &["--file", &file, "--accept-unclean"]);
    assert_eq!(machine.ok(&["get", &index, "1"]), "3\n");
    assert_eq!(machine.run(&["check", &index]).code, 0);
}

#[test]
fn a_memory_node_has_metrics_and_statistics() {
    let machine = Machine::new();
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--metrics", "127.0.0.1:0"]);
    machine.ok(&["create", &format!("{}/i", node.url)]);
    let ask = |path: &str| metrics_of(&node, path);
    assert!(ask("/healthz").starts_with("HTTP/1.1 200 OK\r\n"));
    let metrics = ask("/metrics");
    let verbs = metrics.lines().find_map(|line| line.strip_prefix("farwood_verbs_total ")).unwrap();
    assert!(verbs.parse::<u64>().unwrap() > 100, "{metrics}");
    assert!(metrics.contains("farwood_request_seconds_bucket{le=\"+Inf\"}"), "{metrics}");
    let silent: Vec<_> =
        (0..100).map(|_| TcpStream::connect(node.metrics.as_deref().unwrap()).unwrap()).collect();
    assert!(
        ask("/healthz").starts_with("HTTP/1.1 200 OK\r\n"),
        "silent clients do not hold the health check"
    );
    assert!(node.stop().0.success(), "a silent client does not hold the memory node");
    drop(silent);
    let beyond = ["serve", "--listen", "tcp://127.0.0.1:0", "--metrics", "0.0.0.0:0"];
    machine.refused(2, &beyond, &["--metrics 0.0.0.0:0", "--insecure", "127.0.0.1"]);
}

#[test]
fn the_metrics_have_the_lookups_of_a_served_spatial_index() {
    let machine = Machine::new();
    let options = ["--metrics", "127.0.0.1:0", "--spatial", "s"];
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &options);
    let read = || metrics_of(&node, "/metrics");
    assert!(!read().contains("farwood_spatial"), "the index does not exist");
    let index = format!("{}/s", node.url);
    machine.ok(&["create", &index, "--index", "catfish"]);
    let by_message = format!("{index}?search=message");
    eventually("a search by message", || {
        machine.run(&["search", &by_message, "--at", "1,2", "--count"]).out == "0\n"
    });
    let lookups = r#"farwood_spatial_lookups_total{index="s",path="message"} "#;
    eventually("the metrics have the search", || {
        let metrics = read();
        let executed = metrics.lines().find_map(|line| line.strip_prefix(lookups));
        metrics.contains(r#"farwood_spatial_utilisation_ratio{index="s"} 0"#)
            && executed.is_some_and(|executed| executed != "0")
    });
}

/// The response of a memory node's port of metrics.
pub(crate) fn metrics_of(node: &Served, path: &str) -> String {
    let mut stream = TcpStream::connect(node.metrics.as_deref().unwrap()).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A rotation without an outage: the file has both tokens while clients change to the new one.
#[test]
fn tokens_and_certificates_are_read_again_on_sighup() {
    let machine = Machine::new();
    let files = Certified::make(&machine);
    let [old, new] = ["an-old-token-of-24-chars\n", "a-new-token-of-24-chars!\n"];
    let token = machine.file("token", old);
    let options = ["--token-file", &token, "--tls-cert", &files.cert, "--tls-key", &files.key];
    let mut node = Served::start_at(&machine, "tcp://127.0.0.1:0", &options);
    let url = format!("{}/i?tls-ca={}", node.url, files.ca);
    let with = |token: &str, arguments: &[&str]| {
        let file = machine.file("mine", token);
        machine.command(arguments).env("FARWOOD_TOKEN_FILE", file).output().unwrap().status.code()
    };
    assert_eq!(with(old, &["create", &url]), Some(0));
    assert_eq!(with(new, &["put", &url, "1", "2"]), Some(6));
    for (text, expected) in [(format!("{old}{new}"), [0, 0]), (new.to_owned(), [6, 0])] {
        machine.file("token", text);
        node.signal("-HUP");
        node.hear("read the files of the tokens and the certificates again");
        assert_eq!([old, new].map(|token| with(token, &["put", &url, "1", "2"]).unwrap()), expected);
    }
    machine.file("token", "short");
    node.signal("-HUP");
    assert!(node.hear("remain as they were").contains("5 characters"));
    assert_eq!(with(new, &["put", &url, "1", "2"]), Some(0));
    // A certificate of another authority.
    let others = Machine::new();
    let other = Certified::make(&others);
    std::fs::copy(&other.cert, &files.cert).unwrap();
    std::fs::copy(&other.key, &files.key).unwrap();
    machine.file("token", new);
    node.signal("-HUP");
    node.hear("read the files of the tokens and the certificates again");
    assert_eq!(with(new, &["put", &url, "1", "2"]), Some(6), "the old authority did not issue it");
    let url = format!("{}/i?tls-ca={}", node.url, other.ca);
    assert_eq!(with(new, &["put", &url, "1", "2"]), Some(0));
}

#[test]
fn a_secret_that_others_can_read_is_refused() {
    let machine = Machine::new();
    let files = Certified::make(&machine);
    let token = machine.file("token", "a-token-of-24-characters\n");
    for path in [&token, &files.key] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o664)).unwrap();
    }
    machine.refused(2, &["serve", "--token-file", &token], &["chmod 600", &token]);
    let tls = ["serve", "--tls-cert", &files.cert, "--tls-key", &files.key];
    machine.refused(2, &tls, &["chmod 600", &files.key]);
    let get = format!("tcp://127.0.0.1:1/i?token-file={token}");
    machine.refused(2, &["get", &get, "1"], &["chmod 600"]);
}

#[test]
fn a_file_of_tls_that_cannot_be_used_is_named_with_its_option() {
    let machine = Machine::new();
    let files = Certified::make(&machine);
    let empty = machine.file("empty.pem", "no certificate\n");
    let certified = ["serve", "--tls-cert", &files.cert, "--tls-key", &files.key];
    for (arguments, words) in [
        (&["serve", "--tls-cert", "nope", "--tls-key", "nope"][..], "nope (tls-cert): No such file"),
        (&["serve", "--tls-cert", &empty, "--tls-key", &files.key], "(tls-cert): it contains no certificate"),
        (
            &["serve", "--tls-cert", &files.cert, "--tls-key", &empty],
            "(tls-key): it has no private key in PEM",
        ),
        (&[&certified[..], &["--client-ca", "nope"]].concat(), "nope (client-ca): No such file"),
        (&["get", "tcp://127.0.0.1:1/i?tls-ca=nope", "1"], "nope (tls-ca): No such file"),
    ] {
        machine.refused(2, arguments, &[words, "; name "]);
    }
}

/// The files belong to root, so that they are accepted.
#[test]
fn a_client_warns_of_a_token_of_root_that_all_users_can_read() {
    let machine = Machine::new();
    let token = machine.file("token", "a-token-of-24-characters\n");
    let given = std::os::unix::fs::chown(&token, Some(0), Some(0));
    let Some(()) = need::met(need::ROOT, given) else { return };
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--token-file", &token]);
    let index = format!("{}/i", node.url);
    let with_file = format!("{index}?token-file={token}");
    let warning = format!("warning: {token}: every user of this machine can read this secret");
    for (mode, warns) in [(0o600, false), (0o644, true)] {
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(mode)).unwrap();
        let by_url = machine.run(&["create", &with_file]);
        let by_variable =
            machine.command(&["put", &index, "1", "1"]).env("FARWOOD_TOKEN_FILE", &token).output();
        let by_variable = by_variable.unwrap();
        let words = String::from_utf8(by_variable.stderr).unwrap();
        assert!(by_variable.status.success(), "{words}");
        assert_eq!(
            [by_url.err.contains(&warning), words.contains(&warning)],
            [warns; 2],
            "{mode:o}: {words}"
        );
    }
}

/// Silent connections that use all descriptors but for their share do not keep clients out.
#[test]
fn silent_connections_leave_descriptors_for_others() {
    let machine = Machine::new();
    let token = machine.file("token", "a-token-of-24-characters\n");
    let serve =
        ["serve", "--json", "--listen", "tcp://127.0.0.1:0", "--memory", "64MiB", "--token-file", &token];
    let program = machine.command(&[]).get_program().to_owned();
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 256; exec \"$0\" \"$@\""]).arg(program).args(serve);
    limited.current_dir(machine.path()).stdin(Stdio::null());
    let node = Served::spawn(&mut limited);
    let mut silent = Vec::new();
    for round in 0..5 {
        silent.drain(..silent.len().min(40));
        while silent.len() < 250 {
            silent.push(TcpStream::connect(node.at()).unwrap());
        }
        machine.ok(&["create", &format!("{}/i{round}?token-file={token}", node.url)]);
    }
}

/// A memory node whose spatial index is damaged serves the next index of its name without a restart.
#[test]
fn a_damaged_spatial_index_is_replaced_while_the_memory_node_runs() {
    let machine = Machine::new();
    let path = machine.path().join("node.mn");
    let file = path.to_str().unwrap();
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--file", file, "--spatial", "s"]);
    let (at, index) = (node.url.clone(), format!("{}/s", node.url));
    machine.ok(&["create", &index, "--index", "catfish"]);
    machine.ok(&["put", &index, "1", "1,1"]);
    assert!(node.stop().0.success());
    // The head and the first nodes of the index are the first bytes of the second chunk.
    let mut bytes = std::fs::read(&path).unwrap();
    let begin = (8 << 20) + bytes[8 << 20..].iter().position(|byte| *byte != 0).unwrap();
    bytes[begin..begin + 16384].iter_mut().for_each(|byte| *byte ^= 0xA5);
    std::fs::write(&path, bytes).unwrap();
    let mut node = Served::start_at(&machine, &at, &["--file", file, "--spatial", "s"]);
    let why = node.hear("no longer served");
    assert!(why.contains("damaged") && why.contains("drop it and create it again"), "{why}");
    machine.ok(&["drop", &index]);
    machine.ok(&["create", &index, "--index", "catfish"]);
    machine.ok(&["put", &index, "2", "2,2"]);
    assert_eq!(machine.ok(&["search", &format!("{index}?search=message"), "--at", "2,2"]), "2 2,2,2,2\n");
}

#[test]
fn a_memory_node_without_file_descriptors_names_the_limit() {
    let machine = Machine::new();
    let serve = "ulimit -n 6; exec \"$0\" serve --listen tcp://127.0.0.1:0 --memory 16MiB";
    let mut command = Command::new("sh");
    command.args(["-c", serve, env!("CARGO_BIN_EXE_farwood")]).env("FARWOOD_SHM_DIR", machine.path());
    let output = command.env("HOME", machine.path()).current_dir(machine.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(10), "{said}");
    assert!(said.contains("`ulimit -n`") && !said.contains("--memory"), "{said}");
}

/// A supervisor restarts a memory node that ends, but not one that waits for itself.
#[test]
fn a_memory_node_that_loses_its_file_ends_beside_a_spatial_server_too() {
    let machine = Machine::new();
    let file = machine.file("node.mn", "");
    std::fs::remove_file(&file).unwrap();
    let mut node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--file", &file, "--spatial", "s"]);
    let index = format!("{}/s", node.url);
    machine.ok(&["create", &index, "--index", "catfish"]);
    machine.ok(&["put", &index, "1", "1,1"]);
    std::fs::remove_file(&file).unwrap();
    let begun = Instant::now();
    let status = loop {
        match node.process.try_wait().unwrap() {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(50)),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "the memory node does not end");
    };
    assert_eq!(status.code(), Some(10), "{status}");
}

/// More memory than the machine has is a warning: pages are allocated when they are used.
#[test]
fn memory_that_the_machine_does_not_have_is_a_warning() {
    let machine = Machine::new();
    let all = &machine.json(&["doctor"])[0]["memory_bytes"];
    let more = format!("{}MiB", (all.as_u64().unwrap() >> 20).next_multiple_of(8) + 8);
    let mut node = Served::start_of(&machine, &more);
    node.hear("of memory, and the machine has");
    let created = machine.run(&["create", "shm://more", "--memory", &more]);
    assert_eq!(created.code, 0, "{created:?}");
    created.says(&["warning: shm://more: it may use", "and the machine has", "give less --memory"]);
    let created = machine.run(&["create", "shm://less", "--memory", "16MiB"]);
    assert!(!created.err.contains("the machine has"), "{created:?}");
}

#[test]
fn an_existing_file_keeps_its_memory_without_the_option() {
    for level in ["orderly", "always"] {
        let machine = Machine::new();
        let options = ["--file", "node", "--memory-max", "64MiB", "--durability", level];
        let served = Served::start_at(&machine, "tcp://127.0.0.1:0", &options);
        machine.ok(&["create", &format!("{}/i", served.url)]);
        served.stop();
        // The default of new memory, 1GiB, would be more than the memory can grow to.
        let kept = ["--listen", "tcp://127.0.0.1:0", "--file", "node", "--durability", level];
        let again = Served::run(&machine, &kept);
        assert_eq!(again.told["memory_bytes"], 64 << 20, "{level}");
        again.stop();
        let more = ["serve", "--listen", "tcp://127.0.0.1:0", "--memory", "128MiB", "--file", "node"];
        machine.refused(7, &[&more[..], &["--durability", level]].concat(), &["can grow to 64 MiB"]);
    }
}
