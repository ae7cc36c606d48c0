//! A memory node with arbitrary streams of bytes, half of them behind a good greeting: it lives, and serves others.
//! `fuzz/run 60 server`
#![no_main]

use farwood_transport::tcp::wire::{ANY_NODE, Hello};
use farwood_transport::tcp::{MemoryNode, NodeSpec};
use libfuzzer_sys::fuzz_target;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

fn node() -> &'static MemoryNode {
    static NODE: OnceLock<MemoryNode> = OnceLock::new();
    NODE.get_or_init(|| {
        let spec = NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 16 << 20);
        MemoryNode::start(&NodeSpec { threads: 1, ..spec }).expect("a memory node starts")
    })
}

fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    Hello { pool: 0, node: ANY_NODE, client: None, line: 0, token: Vec::new() }.put(&mut bytes);
    bytes
}

fn connect() -> TcpStream {
    let stream = TcpStream::connect(node().address()).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a stream has a timeout");
    stream
}

fuzz_target!(|bytes: &[u8]| {
    let mut bad = connect();
    if bytes.first().is_some_and(|byte| byte % 2 == 1) {
        bad.write_all(&hello()).expect("it takes a greeting");
    }
    // It may hang up in the middle.
    let _ = bad.write_all(bytes.get(1..).unwrap_or_default());
    let _ = bad.shutdown(Shutdown::Write);
    let _ = bad.read_to_end(&mut Vec::new());
    // Another is served all the same.
    let mut good = connect();
    good.write_all(&hello()).expect("it takes a greeting");
    let mut welcome = [0; 16 + 56];
    good.read_exact(&mut welcome).expect("it welcomes others");
    assert_eq!(welcome[4], 2, "it is a welcome");
});
