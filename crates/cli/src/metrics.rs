//! What a memory node tells those who watch it: `/metrics` in Prometheus' text format, and `/healthz`.
//!
//! One request at a time, each within a second, and nothing of it is taken but its first line.

use farwood::NodeCounts;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Who takes longer is hung up on.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a request that are looked at.
const REQUEST_BYTES_MAX: usize = 4096;

/// Where a memory node can be watched.
pub(super) struct Watch(TcpListener);

impl Watch {
    pub(super) fn listen(at: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Answers who has come meanwhile, for a while: the memory node looks for signals in between.
    pub(super) fn answer(&self, counts: impl Fn() -> NodeCounts) {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE
            && let Ok((stream, _)) = self.0.accept()
        {
            // Who hangs up or says nothing gets nothing.
            let _ = answer(stream, &counts);
        }
    }
}

fn answer(mut stream: TcpStream, counts: impl Fn() -> NodeCounts) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = [0; REQUEST_BYTES_MAX];
    let bytes = stream.read(&mut request)?;
    stream.write_all(reply(&request[..bytes], counts).as_bytes())
}

/// The answer to a request: head, and body unless only the head is asked for.
fn reply(request: &[u8], counts: impl Fn() -> NodeCounts) -> String {
    let line = request.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let is_method = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_uppercase);
    let (method, (status, kind, body)) = match (words.next(), words.next()) {
        (Some(method @ (b"GET" | b"HEAD")), Some(path)) => (method, page(path, counts)),
        (Some(method), Some(_)) if is_method(method) => {
            (method, ("405 Method Not Allowed\r\nAllow: GET, HEAD", TEXT, "GET /metrics\n".to_owned()))
        }
        _ => (&b""[..], ("400 Bad Request", TEXT, "GET /metrics\n".to_owned())),
    };
    let bytes = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\n");
    let body = if method == b"HEAD" { "" } else { &body[..] };
    format!("{head}Connection: close\r\n\r\n{body}")
}

const TEXT: &str = "text/plain; charset=utf-8";

/// Status, kind and body of what there is under a path.
fn page(path: &[u8], counts: impl Fn() -> NodeCounts) -> (&'static str, &'static str, String) {
    match path {
        b"/metrics" => ("200 OK", "text/plain; version=0.0.4", text(&counts())),
        b"/healthz" => ("200 OK", TEXT, "ok\n".to_owned()),
        _ => ("404 Not Found", TEXT, "there are /metrics and /healthz\n".to_owned()),
    }
}

/// The counts in Prometheus' text format.
fn text(counts: &NodeCounts) -> String {
    let rows = [
        ("requests_total", "counter", "Frames of verbs that were executed.", counts.requests),
        ("verbs_total", "counter", "Verbs that were executed.", counts.verbs),
        ("received_bytes_total", "counter", "Bytes of requests.", counts.bytes_in),
        ("sent_bytes_total", "counter", "Bytes of replies.", counts.bytes_out),
        ("accepted_total", "counter", "Connections that were accepted.", counts.accepted),
        ("refused_total", "counter", "Connections that were not let in.", counts.refused),
        ("bad_frames_total", "counter", "Connections closed for what they sent.", counts.bad_frames),
        ("connections", "gauge", "Connections now.", counts.connections),
        ("memory_bytes", "gauge", "Bytes of host and device memory.", counts.memory_bytes),
        ("memory_resident_bytes", "gauge", "Bytes of memory that have pages.", counts.resident_bytes),
    ];
    let text = rows.into_iter().fold(String::new(), |mut text, (name, kind, help, value)| {
        let name = format!("farwood_{name}");
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}")
            .expect("a string takes all");
        text
    });
    text + &histogram(counts)
}

/// How long requests took, from when they were read until their answers were sent.
fn histogram(counts: &NodeCounts) -> String {
    const NAME: &str = "farwood_request_seconds";
    let mut text = format!(
        "# HELP {NAME} From when a request was read until its answer was sent.\n# TYPE {NAME} histogram\n"
    );
    let mut write = |line: std::fmt::Arguments<'_>| text.write_fmt(line).expect("a string takes all");
    let mut all = 0;
    for (at, count) in counts.latency.iter().enumerate() {
        all += count;
        if at + 1 < counts.latency.len() {
            let seconds = (1_u64 << at) as f64 / 1e6;
            write(format_args!("{NAME}_bucket{{le=\"{seconds}\"}} {all}\n"));
        }
    }
    write(format_args!("{NAME}_bucket{{le=\"+Inf\"}} {all}\n"));
    write(format_args!("{NAME}_sum {}\n{NAME}_count {all}\n", counts.latency_ns as f64 / 1e9));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use farwood::LATENCY_BUCKETS;

    /// Status, head and body.
    fn answered(request: &[u8]) -> (String, String, String) {
        let mut latency = [0; LATENCY_BUCKETS];
        (latency[0], latency[3], latency[LATENCY_BUCKETS - 1]) = (5, 2, 1);
        let counts = || NodeCounts { verbs: 42, latency, latency_ns: 1500, ..NodeCounts::default() };
        let reply = reply(request, counts);
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head[9..12].to_owned(), head.to_owned(), body.to_owned())
    }

    fn told(request: &[u8]) -> (String, String) {
        let (status, _, body) = answered(request);
        (status, body)
    }

    #[test]
    fn what_is_asked_for_is_told_and_nothing_else() {
        let (status, body) = told(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(status == "200" && body.contains("\nfarwood_verbs_total 42\n"), "{body}");
        assert_eq!(
            body.lines().count(),
            3 * 10 + 2 + LATENCY_BUCKETS + 2,
            "three lines for each, and the histogram"
        );
        for line in
            ["le=\"0.000001\"} 5", "le=\"0.000008\"} 7", "le=\"+Inf\"} 8", "_sum 0.0000015", "_count 8"]
        {
            assert!(body.contains(line), "{line}: {body}");
        }
        assert_eq!(told(b"GET /healthz HTTP/1.0\n"), ("200".to_owned(), "ok\n".to_owned()));
        assert_eq!(told(b"GET / HTTP/1.1\r\n").0, "404");
        for request in [&b""[..], b"\r\n", b"\xFF\xFE /", b"GET", b"post /metrics"] {
            assert_eq!(told(request).0, "400", "{request:?}");
        }
    }

    #[test]
    fn a_head_is_that_of_the_page_and_other_methods_are_not_allowed() {
        let head = |request: &[u8]| answered(request).1;
        for path in ["/metrics", "/healthz", "/"] {
            let request = format!("HEAD {path} HTTP/1.1\r\n\r\n");
            assert_eq!(told(request.as_bytes()).1, "", "{path}");
            assert_eq!(head(request.as_bytes()), head(request.replace("HEAD", "GET").as_bytes()), "{path}");
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let (status, head, _) = answered(format!("{method} /metrics HTTP/1.1\r\n\r\n").as_bytes());
            assert!(status == "405" && head.contains("\r\nAllow: GET, HEAD\r\n"), "{head}");
        }
    }
}
