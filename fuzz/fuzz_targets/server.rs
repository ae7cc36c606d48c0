//! A memory node with arbitrary streams of bytes: raw, after a valid greeting, in well-formed frames, and as verbs. It
//! survives, and serves other connections. `fuzz/run 60 server`
#![no_main]

use farwood_transport::tcp::{Credentials, MemoryNode, NodeSpec, TcpPool};
use farwood_transport::wire::{ANY_NODE, FrameKind, Hello, RequestFrame, WireOp, WireVerb, put_frame};
use libfuzzer_sys::fuzz_target;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

fn node() -> &'static MemoryNode {
    static NODE: OnceLock<MemoryNode> = OnceLock::new();
    NODE.get_or_init(|| {
        let spec = NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 16 << 20);
        let node = MemoryNode::start(&NodeSpec { threads: 1, ..spec }).expect("a memory node starts");
        // Verbs reach the memory of a node that belongs to a pool.
        let address = node.address().to_string().parse().expect("it is an address");
        TcpPool::open(&address, Credentials::default()).expect("it becomes a pool");
        node
    })
}

fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    Hello { pool: 0, node: ANY_NODE, client: None, connection_number: 0, nonce: None }.put(&mut bytes);
    bytes
}

fn connect() -> TcpStream {
    let stream = TcpStream::connect(node().address()).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a stream has a timeout");
    stream
}

/// Returns the bytes as frames with valid headers: each piece has a kind, a code, a count and a length.
fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let kinds =
        [FrameKind::Hello, FrameKind::Request, FrameKind::Control, FrameKind::Reply, FrameKind::Proof];
    let mut frames = Vec::new();
    while let [kind, code, count, words, rest @ ..] = bytes {
        let (body, behind) = rest.split_at((8 * usize::from(words % 64)).min(rest.len()) / 8 * 8);
        let kind = kinds[usize::from(*kind) % kinds.len()];
        let tag = behind.len() as u64;
        put_frame(&mut frames, kind, *code, (*count).into(), tag, body);
        bytes = behind;
    }
    frames
}

/// Returns the bytes as verbs, most of them at valid addresses.
fn verbs(mut bytes: &[u8]) -> Vec<u8> {
    const ADDRESSES: u64 = 1 << 20;
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let mut frame = RequestFrame::begin(&mut frames);
        for _ in 0..4 {
            let [op, low, middle, high, length, rest @ ..] = bytes else { break };
            let offset = u64::from_le_bytes([*low, *middle, *high, 0, 0, 0, 0, 0]) % ADDRESSES;
            let word = u64::from(*length);
            let (data, behind) = rest.split_at(usize::from(*length).min(rest.len()));
            let takes_data = op % 6 == 1;
            let op = match op % 6 {
                0 => WireOp::Read(16 * usize::from(*length)),
                1 => WireOp::Write(data, (length % 5 == 0).then_some(7)),
                2 => WireOp::Cas { compare: 0, swap: word },
                3 => WireOp::MaskedCas { words: [0, word, word, 1] },
                4 => WireOp::Faa(word),
                _ => WireOp::Read(1 << 17),
            };
            if !frame.fits(&op) {
                break;
            }
            frame.push(WireVerb { at: offset + 64, op });
            bytes = if takes_data { behind } else { rest };
        }
        let cut = bytes.first().filter(|byte| **byte >= 192).map_or(0, |byte| 1 << (byte % 64));
        frame.end(bytes.len() as u64, cut);
        if bytes.len() < 5 {
            break;
        }
    }
    frames
}

fuzz_target!(|bytes: &[u8]| {
    let (mode, rest) = bytes.split_first().map_or((0, bytes), |(mode, rest)| (mode % 4, rest));
    let mut bad = connect();
    if mode > 0 {
        bad.write_all(&hello()).expect("it accepts a greeting");
    }
    let sent = match mode {
        2 => framed(rest),
        3 => verbs(rest),
        _ => rest.to_vec(),
    };
    let reader = bad.try_clone().expect("a stream has two ends");
    // Answers are read during the write: the memory node stops reading from a client that does not read them.
    let answers = std::thread::spawn(move || {
        let mut all = Vec::new();
        let _ = (&reader).read_to_end(&mut all);
        all
    });
    // The memory node may close the connection midway.
    let _ = bad.write_all(&sent);
    let _ = bad.shutdown(Shutdown::Write);
    answers.join().expect("reading does not fail");
    // Another connection is served.
    let mut good = connect();
    good.write_all(&hello()).expect("it accepts a greeting");
    let mut welcome = [0; 16 + 56];
    good.read_exact(&mut welcome).expect("it welcomes others");
    assert_eq!(welcome[4], 2, "it is a welcome");
});
