//! The HTTP port of a memory node: `/metrics` in Prometheus' text format, and `/healthz`.

mod http;

use farwood::node::{NodeCounts, NodeMonitor};
use farwood::spatial::{ServerMonitor, ServerStats};
use http::HttpListener;
pub(super) use http::HttpServer;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

/// The port, before its memory node runs.
pub(super) struct Watch(HttpListener);

impl Watch {
    pub(super) fn listen(at: SocketAddr) -> io::Result<Self> {
        HttpListener::bind(at).map(Self)
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.0.address()
    }

    /// Answers requests on a separate thread until the result is dropped. `served` is the spatial index of --spatial.
    pub(super) fn start(
        self,
        node: NodeMonitor,
        served: Option<(String, ServerMonitor)>,
    ) -> io::Result<HttpServer> {
        let spatial = move || {
            let (index, monitor) = served.as_ref()?;
            Some((index.clone(), monitor.stats()?))
        };
        self.0.start(move |request| reply(request, || Counts { node: node.counts(), spatial: spatial() }))
    }
}

/// The content of a page of metrics.
struct Counts {
    node: NodeCounts,
    /// The spatial index whose server runs, and its statistics.
    spatial: Option<(String, ServerStats)>,
}

/// The response to a request: the head, and for GET the body.
fn reply(request: &[u8], counts: impl Fn() -> Counts) -> String {
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

/// Status, content type and body of the page at a path.
fn page(path: &[u8], counts: impl Fn() -> Counts) -> (&'static str, &'static str, String) {
    match path {
        b"/metrics" => ("200 OK", "text/plain; version=0.0.4", text(&counts())),
        b"/healthz" => ("200 OK", TEXT, "ok\n".to_owned()),
        _ => ("404 Not Found", TEXT, "this server has /metrics and /healthz\n".to_owned()),
    }
}

/// The counts in Prometheus' text format.
fn text(counts: &Counts) -> String {
    let spatial =
        counts.spatial.as_ref().map_or_else(String::new, |(index, stats)| spatial_text(index, *stats));
    let counts = &counts.node;
    let rows = [
        ("requests_total", "counter", "Executed request frames.", counts.requests),
        ("verbs_total", "counter", "Executed verbs.", counts.verbs),
        ("received_bytes_total", "counter", "Bytes received in requests.", counts.bytes_in),
        ("sent_bytes_total", "counter", "Bytes sent in replies.", counts.bytes_out),
        ("accepted_total", "counter", "Accepted connections.", counts.accepted),
        ("refused_total", "counter", "Refused connections.", counts.refused),
        (
            "bad_frames_total",
            "counter",
            "Connections closed because of malformed requests.",
            counts.bad_frames,
        ),
        ("connections", "gauge", "Open connections.", counts.connections),
        ("memory_bytes", "gauge", "Bytes of host and device memory.", counts.memory_bytes),
        (
            "memory_resident_bytes",
            "gauge",
            "Bytes of memory that are backed by pages.",
            counts.resident_bytes,
        ),
        (
            "checkpoint_failures_total",
            "counter",
            "Checkpoints that could not be written; the log grows meanwhile.",
            counts.checkpoint_failures,
        ),
        (
            "snapshot_bytes",
            "gauge",
            "Bytes of pages that a running dump --consistent has let the memory node copy.",
            counts.snapshot_bytes,
        ),
    ];
    let text = rows.into_iter().fold(String::new(), |mut text, (name, kind, help, value)| {
        let name = format!("farwood_{name}");
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}")
            .expect("writing to a string cannot fail");
        text
    });
    text + &histogram(counts) + &spatial
}

/// The statistics of the server of a spatial index.
fn spatial_text(index: &str, stats: ServerStats) -> String {
    const LOOKUPS: &str = "farwood_spatial_lookups_total";
    const UTILISATION: &str = "farwood_spatial_utilisation_ratio";
    let index = label(index);
    format!(
        "# HELP {LOOKUPS} Lookups that the server executed, and those by READs that clients have reported.\n\
         # TYPE {LOOKUPS} counter\n\
         {LOOKUPS}{{index=\"{index}\",path=\"message\"}} {}\n\
         {LOOKUPS}{{index=\"{index}\",path=\"reads\"}} {}\n\
         # HELP {UTILISATION} Busy share of the server's threads in the last heartbeat interval, 0 to 1.\n\
         # TYPE {UTILISATION} gauge\n\
         {UTILISATION}{{index=\"{index}\"}} {}\n",
        stats.by_message, stats.offloaded, stats.utilisation
    )
}

/// A text as the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The latency of requests, from reading the request to sending its answer.
fn histogram(counts: &NodeCounts) -> String {
    const NAME: &str = "farwood_request_seconds";
    let mut text = format!(
        "# HELP {NAME} Time from reading a request to sending its answer.\n# TYPE {NAME} histogram\n"
    );
    let mut write =
        |line: std::fmt::Arguments<'_>| text.write_fmt(line).expect("writing to a string cannot fail");
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
    use farwood::node::LATENCY_BUCKETS;

    /// Status, head and body.
    fn answered(request: &[u8]) -> (String, String, String) {
        let mut latency = [0; LATENCY_BUCKETS];
        (latency[0], latency[3], latency[LATENCY_BUCKETS - 1]) = (5, 2, 1);
        let node = || NodeCounts { verbs: 42, latency, latency_ns: 1500, ..NodeCounts::default() };
        let reply = reply(request, || Counts { node: node(), spatial: None });
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head[9..12].to_owned(), head.to_owned(), body.to_owned())
    }

    fn status_and_body(request: &[u8]) -> (String, String) {
        let (status, _, body) = answered(request);
        (status, body)
    }

    #[test]
    fn each_page_has_its_contents() {
        let (status, body) = status_and_body(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(status == "200" && body.contains("\nfarwood_verbs_total 42\n"), "{body}");
        assert_eq!(
            body.lines().count(),
            3 * 12 + 2 + LATENCY_BUCKETS + 2,
            "three lines for each, and the histogram"
        );
        for line in
            ["le=\"0.000001\"} 5", "le=\"0.000008\"} 7", "le=\"+Inf\"} 8", "_sum 0.0000015", "_count 8"]
        {
            assert!(body.contains(line), "{line}: {body}");
        }
        assert_eq!(status_and_body(b"GET /healthz HTTP/1.0\n"), ("200".to_owned(), "ok\n".to_owned()));
        assert_eq!(status_and_body(b"GET / HTTP/1.1\r\n").0, "404");
        for request in [&b""[..], b"\r\n", b"\xFF\xFE /", b"GET", b"post /metrics"] {
            assert_eq!(status_and_body(request).0, "400", "{request:?}");
        }
    }

    #[test]
    fn a_served_spatial_index_has_its_lookups_and_utilisation() {
        let stats = ServerStats { utilisation: 0.25, by_message: 7, offloaded: 3 };
        let text = text(&Counts { node: NodeCounts::default(), spatial: Some(("a\"b\\".to_owned(), stats)) });
        for line in [
            r#"farwood_spatial_lookups_total{index="a\"b\\",path="message"} 7"#,
            r#"farwood_spatial_lookups_total{index="a\"b\\",path="reads"} 3"#,
            r#"farwood_spatial_utilisation_ratio{index="a\"b\\"} 0.25"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }

    #[test]
    fn head_matches_get_and_other_methods_are_refused() {
        let head = |request: &[u8]| answered(request).1;
        for path in ["/metrics", "/healthz", "/"] {
            let request = format!("HEAD {path} HTTP/1.1\r\n\r\n");
            assert_eq!(status_and_body(request.as_bytes()).1, "", "{path}");
            assert_eq!(head(request.as_bytes()), head(request.replace("HEAD", "GET").as_bytes()), "{path}");
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let (status, head, _) = answered(format!("{method} /metrics HTTP/1.1\r\n\r\n").as_bytes());
            assert!(status == "405" && head.contains("\r\nAllow: GET, HEAD\r\n"), "{head}");
        }
    }
}
