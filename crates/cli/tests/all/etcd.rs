//! Memory nodes that are found through a real etcd: Debian's package `etcd-server`.
//!
//! The tests need the program `etcd` (`farwood_testkit::need`).

use crate::machine::{Machine, free_port};
use crate::serve::{Certified, Served};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use farwood_testkit::need;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A private etcd process; killed when dropped.
struct Etcd {
    process: Child,
    address: String,
}

impl Etcd {
    fn start(machine: &Machine) -> Option<Self> {
        Self::start_with(machine, "http", &[])
    }

    /// Starts it with further options, for clients that use `scheme`.
    fn start_with(machine: &Machine, scheme: &str, options: &[&str]) -> Option<Self> {
        let program = need::program("etcd")?;
        let client = format!("{scheme}://127.0.0.1:{}", free_port());
        let peer = format!("http://127.0.0.1:{}", free_port());
        let folder = machine.path().join("etcd");
        let process = Command::new(program)
            .args(["--data-dir", folder.to_str().unwrap(), "--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client, "--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("default={peer}")])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let etcd = Self { process, address: client.split_once("://").unwrap().1.to_owned() };
        let since = Instant::now();
        while TcpStream::connect(&etcd.address).is_err() {
            assert!(since.elapsed() < Duration::from_secs(20), "etcd does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(etcd)
    }

    fn url(&self, pool: &str) -> String {
        format!("etcd://{}/{pool}", self.address)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn serve(machine: &Machine, url: &str, node: &str) -> Served {
    Served::start_at(machine, "tcp://127.0.0.1:0", &["--etcd", url, "--node", node, "--nodes", "2"])
}

#[test]
fn memory_nodes_register_and_compute_nodes_find_them() {
    let machine = Machine::new();
    let Some(etcd) = Etcd::start(&machine) else { return };
    let url = etcd.url("words");
    // Started in the wrong order: only the node number matters.
    let second = serve(&machine, &url, "1");
    machine.refused(
        3,
        &["stat", &url],
        &["it has 2 memory nodes, and node 0 has not registered", "farwood serve --etcd"],
    );
    let first = serve(&machine, &url, "0");
    let index = format!("{url}/i");
    machine.ok(&["create", &index]);
    machine.ok(&["put", &index, "1", "2"]);
    assert_eq!(machine.ok(&["get", &index, "1"]), "2\n");
    let direct = format!("tcp://{},{}/i", first.at(), second.at());
    assert_eq!(machine.ok(&["get", &direct, "1"]), "2\n", "it is the same pool");
    let taken = ["serve", "--listen", "tcp://127.0.0.1:0", "--etcd", &url, "--node", "1", "--nodes", "2"];
    machine.refused(9, &taken, &["memory node 1", second.at()]);
    machine.refused(3, &["stat", &etcd.url("nothing")], &["no memory node has registered"]);
    assert!(second.stop().0.success());
    machine.refused(3, &["get", &index, "1"], &["node 1 has not registered"]);
}

#[test]
fn the_entry_of_a_killed_memory_node_expires_and_is_replaced_at_once_after_a_restart() {
    let machine = Machine::new();
    let Some(etcd) = Etcd::start(&machine) else { return };
    let url = etcd.url("p");
    let port = free_port();
    let listen = format!("tcp://127.0.0.1:{port}");
    let start = || Served::start_at(&machine, &listen, &["--etcd", &url, "--node", "0"]);
    // The memory node is killed, and started again at the same address while its first lease is still valid.
    drop(start());
    let again = start();
    machine.ok(&["create", &format!("{url}/i")]);
    drop(again);
    let since = Instant::now();
    loop {
        let ran = machine.run(&["stat", &url]);
        assert_eq!(ran.code, 3, "{ran:?}");
        if ran.err.contains("no memory node has registered") {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "the lease does not end: {ran:?}");
    }
}

#[test]
fn a_memory_node_renews_its_lease_and_continues_without_etcd() {
    let machine = Machine::new();
    let Some(etcd) = Etcd::start(&machine) else { return };
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--etcd", &etcd.url("p"), "--node", "0"]);
    std::thread::sleep(Duration::from_secs(13));
    machine.ok(&["create", &etcd.url("p/i")]);
    let gone = etcd.url("p");
    drop(etcd);
    machine.refused(3, &["stat", &gone], &["etcd does not answer"]);
    machine.ok(&["stat", &node.url]);
    std::thread::sleep(Duration::from_secs(4));
    let (status, words) = node.stop();
    assert!(status.success() && words.contains("etcd does not answer"), "{words}");
}

#[test]
fn an_invalid_registration_is_reported() {
    let machine = Machine::new();
    let serve = |rest: &[&'static str]| [&["serve", "--listen", "tcp://127.0.0.1:0"], rest].concat();
    for (rest, words) in [
        (&["--etcd", "http://x", "--node", "0"][..], "etcd://HOST:PORT/POOL"),
        (&["--etcd", "etcd://127.0.0.1:1", "--node", "0"], "name is missing"),
        (&["--etcd", "etcd://127.0.0.1:1/p"], "--node"),
        (&["--etcd", "etcd://127.0.0.1:1/p", "--node", "2", "--nodes", "2"], "--node 2 is out of range"),
    ] {
        let ran = machine.run(&serve(rest));
        assert_eq!(ran.code, 2, "{rest:?}: {ran:?}");
        assert!(ran.err.contains(words), "{words}: {ran:?}");
    }
    let open = [
        "serve",
        "--listen",
        "tcp://0.0.0.0:0",
        "--insecure",
        "--etcd",
        "etcd://127.0.0.1:1/p",
        "--node",
        "0",
    ];
    machine.refused(2, &open, &["--advertise"]);
    let nobody = serve(&["--etcd", "etcd://127.0.0.1:1/p", "--node", "0", "--memory", "64MiB"]);
    machine.refused(3, &nobody, &["etcd does not answer", "127.0.0.1:1"]);
}

/// An HTTP server that answers every request with `body`, until the test ends.
fn answering(status: &'static str, body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    address
}

/// etcd names a listener as memory node, with parameters that would send a file of the user there without TLS.
#[test]
fn etcd_supplies_addresses_and_nothing_else() {
    let machine = Machine::new();
    let secret = machine.file("private.txt", "a-secret-of-this-user\n");
    let thief = TcpListener::bind("127.0.0.1:0").unwrap();
    thief.set_nonblocking(true).unwrap();
    let at = thief.local_addr().unwrap();
    let value = format!("{{\"address\":\"{at}?token-file={secret}&tls-name=x\",\"nodes\":1}}");
    let [key, value] = ["/farwood/p/0", &value].map(|text| BASE64.encode(text));
    let etcd = answering("200 OK", format!("{{\"kvs\":[{{\"key\":\"{key}\",\"value\":\"{value}\"}}]}}"));
    let url = format!("etcd://{etcd}/p?tls-ca={}", machine.file("ca.pem", ""));
    machine.refused(3, &["stat", &url], &["/farwood/p/0 holds", "is not a port number"]);
    assert!(thief.accept().is_err(), "the command connected to the address");
}

#[test]
fn an_advertised_address_is_a_host_and_a_port() {
    let machine = Machine::new();
    for advertise in ["h:1?environment=no", "h", "h:1,g:2", "::1:5"] {
        let options =
            ["serve", "--listen", "tcp://127.0.0.1:0", "--etcd", "etcd://127.0.0.1:1/p", "--node", "0"];
        machine.refused(
            2,
            &[&options[..], &["--advertise", advertise]].concat(),
            &["--advertise", "HOST:PORT"],
        );
    }
}

#[test]
fn the_answer_of_another_program_is_one_line() {
    let machine = Machine::new();
    for (status, words) in
        [("404 Not Found", "404 Not Found"), ("200 OK", "200 OK"), ("302 Found", "302 Found")]
    {
        let page = "<html>\n<h1>\u{1b}[2J</h1>\n".to_owned() + &"<p>long</p>\n".repeat(500);
        let ran = machine.run(&["stat", &format!("etcd://{}/p", answering(status, page))]);
        assert_eq!(ran.code, 3, "{ran:?}");
        ran.says(&["not an etcd", words, "client port"]);
        assert!(ran.err.lines().count() == 1 && ran.err.len() < 500 && !ran.err.contains("html"), "{ran:?}");
    }
    let refusal = r#"{"message":"lost\ntcp://x: stopped\u001b[2J"}"#.to_owned();
    let ran = machine.run(&["stat", &format!("etcd://{}/p", answering("503 Service Unavailable", refusal))]);
    assert_eq!((ran.code, ran.err.lines().count()), (3, 1), "{ran:?}");
    ran.says(&["lost\\ntcp://x", "\\u{1b}[2J"]);
}

#[test]
fn etcd_over_https_proves_its_identity() {
    let machine = Machine::new();
    let files = Certified::make(&machine);
    let own = ["--cert-file", &files.cert, "--key-file", &files.key, "--trusted-ca-file", &files.ca];
    let Some(etcd) = Etcd::start_with(&machine, "https", &[&own[..], &["--client-cert-auth"]].concat())
    else {
        return;
    };
    let url = |index: &str, ca: &str| {
        let cert = format!("etcd-cert={}&etcd-key={}", files.cert, files.key);
        format!("{}{index}?etcd-ca={ca}&{cert}", etcd.url("p"))
    };
    let _node =
        Served::start_at(&machine, "tcp://127.0.0.1:0", &["--etcd", &url("", &files.ca), "--node", "0"]);
    machine.ok(&["create", &url("/i", &files.ca)]);
    machine.refused(3, &["stat", &etcd.url("p")], &["etcd does not answer", "etcd-ca"]);
    machine.refused(3, &["stat", &format!("{}?etcd-ca={}", etcd.url("p"), files.ca)], &["does not answer"]);
    let others = Machine::new();
    let other = Certified::make(&others);
    machine.refused(3, &["stat", &url("", &other.ca)], &["etcd does not answer", "certificate"]);
    let half = format!("{}?etcd-cert={}", etcd.url("p"), files.cert);
    machine.refused(2, &["stat", &half], &["etcd-key"]);
    machine.refused(2, &["stat", &etcd.url("p").replace("etcd:", "etcds:")], &["?etcd-ca=FILE"]);
}

/// Sends etcd a request, and yields its answer.
fn ask(etcd: &Etcd, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(&etcd.address).unwrap();
    let head = format!("POST /v3/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n", body.len());
    stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_user_of_etcd_is_named_in_a_file() {
    let machine = Machine::new();
    let Some(etcd) = Etcd::start(&machine) else { return };
    for (path, body) in [
        ("auth/user/add", "{\"name\":\"root\",\"password\":\"far:wood\"}"),
        ("auth/role/add", "{\"name\":\"root\"}"),
        ("auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}"),
        ("auth/enable", "{}"),
    ] {
        let answer = ask(&etcd, path, body);
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    drop(etcd);
    let files = Certified::make(&machine);
    let own = ["--cert-file", &files.cert, "--key-file", &files.key];
    let Some(etcd) = Etcd::start_with(&machine, "https", &own) else { return };
    let plain = format!("{}?etcd-ca={}", etcd.url("p"), files.ca);
    let url = |file: &str, line: &str| format!("{plain}&etcd-user-file={}", machine.file(file, line));
    let right = url("right", "root:far:wood\n");
    let _node = Served::start_at(&machine, "tcp://127.0.0.1:0", &["--etcd", &right, "--node", "0"]);
    machine.ok(&["create", &right.replace("/p?", "/p/i?")]);
    machine.refused(6, &["stat", &plain], &["etcd refuses access", "etcd-user-file"]);
    let clear = right.replace(&format!("etcd-ca={}&", files.ca), "");
    machine.refused(2, &["stat", &clear], &["unencrypted", "etcd-ca"]);
    machine.refused(6, &["stat", &url("wrong", "root:wood\n")], &["etcd refuses access", "etcd-user-file"]);
    machine.refused(2, &["stat", &url("bad", "root\n")], &["USER:PASSWORD"]);
}
