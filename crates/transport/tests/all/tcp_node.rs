//! A memory node over TCP with correct and incorrect clients: refusals, counters, bounds.

use farwood_fabric::{Access, Address, Memory, NodeId, Remote, client_table};
use farwood_transport::tcp::{
    Credentials, Durability, MemoryNode, NONCE_BYTES, NodeCounts, NodeFile, NodeSpec, Nonces, PoolAddress,
    Prover, TcpError, TcpPool, Token,
};
use farwood_transport::wire::{
    ANY_NODE, Code, Control, FRAME_BYTES_MAX, Frame, FrameKind, HEADER_BYTES, Hello, LogKind, RequestFrame,
    VERSION, WireOp, WireVerb, put_frame, put_words,
};
use proptest::prelude::*;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const HOST_BYTES: u64 = 16 << 20;
const POOL: u64 = 77;
/// An offset beyond all tables.
const DATA_OFFSET: u64 = 9 << 20;

fn spec() -> NodeSpec {
    NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), HOST_BYTES)
}

fn hello() -> Hello {
    Hello { pool: 0, node: ANY_NODE, client: None, connection_number: 0, nonce: None }
}

/// A raw connection to a memory node.
struct Caller(TcpStream);

impl Caller {
    fn connect(node: &MemoryNode) -> Self {
        let stream = TcpStream::connect(node.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// An authenticated connection to a node that is node 0 of pool [`POOL`].
    fn greeted(node: &MemoryNode) -> Self {
        let mut caller = Self::connect(node);
        assert_eq!(caller.say_hello(&hello()).0, FrameKind::Welcome);
        assert_eq!(caller.control(Control::Form, [POOL, 0, 1, 0]), Ok([0; 4]));
        caller
    }

    fn send(&mut self, bytes: &[u8]) {
        // If the memory node closes during a write, the next read reports it.
        let _ = self.0.write_all(bytes);
    }

    /// Returns the next frame; `None`: the connection was closed.
    fn frame(&mut self) -> Option<(FrameKind, u8, u16, u64, Vec<u8>)> {
        let mut bytes = vec![0; HEADER_BYTES];
        match self.0.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                return None;
            }
            Err(error) => panic!("neither a frame nor the end: {error}"),
        }
        bytes.resize(Frame::announced(&bytes), 0);
        self.0.read_exact(&mut bytes[HEADER_BYTES..]).ok()?;
        let frame = Frame::first(&bytes).unwrap().unwrap();
        Some((frame.kind, frame.code, frame.count, frame.tag, frame.body.to_vec()))
    }

    fn say_hello(&mut self, hello: &Hello) -> (FrameKind, u8) {
        let mut bytes = Vec::new();
        hello.put(&mut bytes);
        self.send(&bytes);
        self.frame().map_or((FrameKind::Goodbye, 0), |(kind, code, ..)| (kind, code))
    }

    /// Greets with a token; returns the kind and the code of the last frame, and whether the memory node proved the
    /// token.
    fn prove(&mut self, token: &Token, hello: &Hello) -> (FrameKind, u8, bool) {
        let compute_node = [9; NONCE_BYTES];
        let hello = Hello { nonce: Some(compute_node), ..hello.clone() };
        let mut bytes = Vec::new();
        hello.put(&mut bytes);
        self.send(&bytes);
        let (kind, code, .., body) = self.frame().unwrap();
        if kind != FrameKind::Challenge {
            return (kind, code, false);
        }
        let nonces = Nonces { compute_node, memory_node: body.try_into().unwrap() };
        bytes.clear();
        put_frame(&mut bytes, FrameKind::Proof, 0, 0, 0, &token.prove(Prover::ComputeNode, &nonces));
        self.send(&bytes);
        let (kind, code, .., body) = self.frame().unwrap();
        let proof = body.get(56..).unwrap_or_default();
        (kind, code, token.verifies(Prover::MemoryNode, &nonces, proof))
    }

    fn control(&mut self, control: Control, words: [u64; 4]) -> Result<[u64; 4], u8> {
        let mut bytes = Vec::new();
        put_words(&mut bytes, FrameKind::Control, control as u8, 9, words);
        self.send(&bytes);
        let (kind, code, _, tag, body) = self.frame().ok_or(0)?;
        assert_eq!((kind, tag), (FrameKind::Answer, 9));
        if code != 0 {
            return Err(code);
        }
        let words: Vec<_> =
            body.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        Ok(words.try_into().unwrap())
    }

    fn post(&mut self, verbs: &[WireVerb<'_>]) -> Option<(FrameKind, u8, u16, u64, Vec<u8>)> {
        self.send(&request(verbs, 5));
        self.frame()
    }

    fn read_word(&mut self, offset: u64) -> Option<u64> {
        let (kind, _, _, _, body) = self.post(&[WireVerb { at: host(offset), op: WireOp::Read(8) }])?;
        assert_eq!(kind, FrameKind::Reply);
        Some(u64::from_le_bytes(body.try_into().unwrap()))
    }
}

fn request(verbs: &[WireVerb<'_>], tag: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut frame = RequestFrame::begin(&mut bytes);
    for verb in verbs {
        frame.push(*verb);
    }
    frame.end(tag, 0);
    bytes
}

fn at(node: u16, memory: Memory, offset: u64) -> u64 {
    Remote::<u8>::at(Address::new(NodeId(node), memory, offset).unwrap()).word()
}

fn host(offset: u64) -> u64 {
    at(0, Memory::Host, offset)
}

/// Waits until the counts satisfy a condition.
fn eventually(node: &MemoryNode, what: &str, holds: impl Fn(&NodeCounts) -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds(&node.counts()) {
        assert!(Instant::now() < end, "never happened: {what}: {:?}", node.counts());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn bad_frames_close_only_their_connection_and_are_counted() {
    let node = MemoryNode::start(&spec()).unwrap();
    let mut good = Caller::greeted(&node);
    let unfinished = |bytes: u32, kind: u8| [&bytes.to_le_bytes()[..], &[kind], &[0; 11], &[0; 8]].concat();
    let mut wrong_count = request(&[WireVerb { at: host(64), op: WireOp::Faa(1) }], 1);
    wrong_count[6] = 2;
    let bad = [
        unfinished(12, 4),
        unfinished(20, 4),
        unfinished(FRAME_BYTES_MAX as u32 + 8, 4),
        unfinished(u32::MAX, 4),
        unfinished(24, 0),
        unfinished(24, 77),
        unfinished(24, FrameKind::Welcome as u8),
        unfinished(24, FrameKind::Control as u8),
        wrong_count,
    ];
    for (number, bytes) in (1..).zip(&bad) {
        let mut caller = Caller::greeted(&node);
        caller.send(bytes);
        let (kind, code, ..) = caller.frame().expect("the refusal has a reason");
        assert_eq!((kind, code), (FrameKind::Refused, Code::Malformed as u8), "bad frame {number}");
        assert_eq!(caller.frame(), None, "bad frame {number} ends its connection");
        eventually(&node, "the bad frame is counted", |counts| counts.bad_frames == number);
        assert!(good.read_word(64).is_some(), "others go on");
    }
    // An unauthenticated connection may send only a short hello.
    for bytes in [request(&[WireVerb { at: host(64), op: WireOp::Read(8) }], 1), unfinished(1 << 16, 1)] {
        let mut caller = Caller::connect(&node);
        caller.send(&bytes);
        assert_eq!(caller.frame().map(|frame| frame.0), Some(FrameKind::Refused));
    }
    eventually(&node, "only the valid connection is left", |counts| counts.connections == 1);
}

/// A cut far ahead of the clock would leave no numbers for later cuts: it ends its connection before a verb executes.
#[test]
fn a_cut_that_is_not_a_time_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let durability = Durability::Interval(Duration::from_millis(20));
    let file = Some(NodeFile { durability, ..NodeFile::new(folder.path().join("node")) });
    let node = MemoryNode::start(&NodeSpec { file, ..spec() }).unwrap();
    let connect = || {
        let mut caller = Caller::connect(&node);
        assert_eq!(caller.say_hello(&hello()).0, FrameKind::Welcome);
        caller
    };
    let mut good = connect();
    assert_eq!(good.control(Control::Form, [POOL, 0, 2, 0]), Ok([0; 4]));
    assert_eq!(good.control(Control::FinishForming, [0; 4]), Ok([0; 4]));
    for cut in [u64::MAX, 1 << 62, 1 << 50] {
        let mut write = Vec::new();
        let mut frame = RequestFrame::begin(&mut write);
        frame.push(WireVerb { at: host(DATA_OFFSET), op: WireOp::Write(&[7; 8], None) });
        frame.end(1, cut);
        let mut control = Vec::new();
        put_words(&mut control, FrameKind::Control, Control::Stat as u8, 0, [0; 4]);
        control[16..24].copy_from_slice(&cut.to_le_bytes());
        for bytes in [write, control] {
            let mut bad = connect();
            bad.send(&bytes);
            let (kind, code, _, _, why) = bad.frame().expect("the refusal has a reason");
            let why = String::from_utf8(why).unwrap();
            assert_eq!((kind, code), (FrameKind::Refused, Code::Malformed as u8), "{why}");
            assert!(why.contains("ahead of the clock"), "{why}");
            assert_eq!(bad.frame(), None, "it ends its connection");
        }
    }
    assert_eq!(good.read_word(DATA_OFFSET), Some(0));
    let [oldest, newest, ..] = good.control(Control::Cuts, [0; 4]).unwrap();
    assert!((1..newest).contains(&oldest) && newest < 1 << 50, "{oldest}..{newest}");
}

#[test]
fn a_refused_client_gets_the_reason() {
    let token = Token::new("0123456789abcdef").unwrap();
    let node = MemoryNode::start(&NodeSpec { token: Some(token.clone().into()), ..spec() }).unwrap();
    let mut version = Vec::new();
    hello().put(&mut version);
    version[HEADER_BYTES + 8] = 9;
    let mut caller = Caller::connect(&node);
    caller.send(&version);
    let (kind, code, count, _, body) = caller.frame().unwrap();
    assert_eq!((kind, code), (FrameKind::Refused, Code::BadVersion as u8));
    let text = String::from_utf8(body[..usize::from(count)].to_vec()).unwrap();
    assert!(text.contains(&format!("version {VERSION}")) && text.contains('9'), "{text}");
    let refused = (FrameKind::Refused, Code::BadToken as u8);
    assert_eq!(Caller::connect(&node).say_hello(&hello()), refused);
    for wrong in ["0123456789abcdeg", "0123456789abcdef0"] {
        let (kind, code, is_proven) = Caller::connect(&node).prove(&Token::new(wrong).unwrap(), &hello());
        assert_eq!(((kind, code), is_proven), (refused, false), "{wrong}");
    }
    let mut right = Caller::connect(&node);
    assert_eq!(right.prove(&token, &hello()), (FrameKind::Welcome, 0, true));
    assert_eq!(right.control(Control::Form, [POOL, 0, 1, 0]), Ok([0; 4]));
    let other = Caller::connect(&node).prove(&token, &Hello { pool: POOL + 1, node: 0, ..hello() });
    assert_eq!(other, (FrameKind::Refused, Code::WrongPool as u8, false));
    assert_eq!(node.counts().refused, 5);
}

#[test]
fn connections_beyond_the_limit_are_refused() {
    let node = MemoryNode::start(&NodeSpec { connections_max: 3, ..spec() }).unwrap();
    let mut callers: Vec<_> = (0..3).map(|_| Caller::greeted(&node)).collect();
    let mut late = Caller::connect(&node);
    assert_eq!(late.frame().map(|frame| frame.1), Some(Code::TooManyConnections as u8));
    callers.pop();
    eventually(&node, "one has left", |counts| counts.connections == 2);
    Caller::greeted(&node);
}

#[test]
fn silent_connections_do_not_block_others() {
    let node = MemoryNode::start(&NodeSpec { connections_max: 16, threads: 1, ..spec() }).unwrap();
    let mut first = Caller::greeted(&node);
    let mut silent: Vec<_> = (0..40).map(|_| Caller::connect(&node)).collect();
    // The memory node may have no free connection for a moment.
    let mut second = loop {
        let mut second = Caller::connect(&node);
        if second.say_hello(&hello()).0 == FrameKind::Welcome {
            break second;
        }
    };
    assert!(first.read_word(64).is_some() && second.read_word(64).is_some());
    eventually(&node, "a quarter of its connections may be unauthenticated", |counts| {
        counts.connections <= 2 + 4
    });
    let reply = silent.iter_mut().filter(|caller| is_over(&caller.0)).filter_map(Caller::frame);
    assert!(reply.count() >= 36 - 4, "the oldest are refused");
}

/// A thread of this memory node may have one unauthenticated connection: the next one rejects it only until its hello.
#[test]
fn a_greeted_connection_costs_the_next_one_nothing() {
    let node = MemoryNode::start(&NodeSpec { connections_max: 16, threads: 4, ..spec() }).unwrap();
    let mut greeted: Vec<_> = (0..4).map(|_| Caller::greeted(&node)).collect();
    let mut late: Vec<_> = (0..4).map(|_| Caller::connect(&node)).collect();
    // The memory node has accepted them, and has limited the unauthenticated ones.
    eventually(&node, "they are connected", |counts| counts.accepted == 8);
    std::thread::sleep(Duration::from_millis(200));
    for caller in &mut late {
        assert_eq!(caller.say_hello(&hello()).0, FrameKind::Welcome);
    }
    assert!(greeted.iter_mut().all(|caller| caller.read_word(64).is_some()));
    assert_eq!(node.counts().refused, 0);
}

/// Returns whether a read of the stream would return at once, with bytes or the end.
fn is_over(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    peeked.is_ok()
}

/// A connection whose hello is complete when the memory node serves it is accepted, however many arrive at
/// once.
#[test]
fn clients_with_a_complete_hello_are_accepted_under_load() {
    let node = MemoryNode::start(&NodeSpec { connections_max: 64, threads: 2, ..spec() }).unwrap();
    for _ in 0..10 {
        let mut callers: Vec<_> = (0..50).map(|_| Caller::connect(&node)).collect();
        let mut bytes = Vec::new();
        hello().put(&mut bytes);
        for caller in &mut callers {
            caller.send(&bytes);
        }
        let welcomed =
            |caller: &mut Caller| caller.frame().is_some_and(|frame| frame.0 == FrameKind::Welcome);
        // Connections before their hello may exceed the limit for a moment; most must not.
        let accepted = callers.iter_mut().filter_map(|caller| welcomed(caller).then_some(())).count();
        assert!(accepted >= 16, "{accepted}");
        drop(callers);
        eventually(&node, "they have gone", |counts| counts.connections == 0);
    }
}

#[test]
fn invalid_verbs_fail_and_the_connection_continues() {
    let node = MemoryNode::start(&spec()).unwrap();
    let mut caller = Caller::greeted(&node);
    let read = |at, bytes| WireVerb { at, op: WireOp::Read(bytes) };
    for (at, op, code) in [
        (0, WireOp::Read(8), Code::OutOfRange),
        (host(HOST_BYTES), WireOp::Read(8), Code::OutOfRange),
        (host(HOST_BYTES - 8), WireOp::Read(16), Code::OutOfRange),
        (at(1, Memory::Host, 64), WireOp::Read(8), Code::OutOfRange),
        (at(0, Memory::Device, 256 << 10), WireOp::Faa(1), Code::OutOfRange),
        (host((1 << 47) - 8), WireOp::Write(&[1; 16], None), Code::OutOfRange),
        (host(68), WireOp::Read(8), Code::Misaligned),
        (host(68), WireOp::Cas { compare: 0, swap: 1 }, Code::Misaligned),
        (host(65), WireOp::MaskedCas { words: [0; 4] }, Code::Misaligned),
    ] {
        let chain = [
            WireVerb { at: host(DATA_OFFSET), op: WireOp::Faa(1) },
            WireVerb { at, op },
            read(host(DATA_OFFSET), 8),
        ];
        let (kind, got, count, tag, body) = caller.post(&chain).expect("the connection continues");
        assert_eq!((kind, got, count, tag), (FrameKind::Failed, code as u8, 1, 5), "{op:?}");
        assert_eq!(body.len(), 8, "the reply has the executed verbs");
    }
    assert_eq!(caller.read_word(DATA_OFFSET), Some(9), "the verb before the failed one was executed once");
}

#[test]
fn a_client_that_does_not_read_its_answers_is_not_read_from() {
    const READS: u64 = 400;
    let node = MemoryNode::start(&NodeSpec { threads: 1, ..spec() }).unwrap();
    let mut greedy = Caller::greeted(&node);
    let mut other = Caller::greeted(&node);
    let read = |tag| request(&[WireVerb { at: host(0x1000), op: WireOp::Read(200 << 10) }], tag);
    for tag in 0..READS {
        greedy.send(&read(tag));
    }
    // 80 MB of answers that no client reads: sockets hold a few of them, and the node hardly more.
    let executed = || node.counts().requests;
    let mut last = executed();
    loop {
        std::thread::sleep(Duration::from_millis(50));
        assert!(other.read_word(64).is_some(), "others go on");
        if executed() == last + 1 {
            break;
        }
        last = executed();
    }
    assert!(executed() < READS / 2, "{} of {READS} were executed ahead", executed());
    for tag in 0..READS {
        let (kind, _, _, got, body) = greedy.frame().expect("an answer");
        assert_eq!((kind, got, body.len()), (FrameKind::Reply, tag, 200 << 10));
    }
}

#[test]
fn no_verb_of_a_fenced_client_executes_and_it_cannot_reconnect() {
    let node = MemoryNode::start(&spec()).unwrap();
    let mut judge = Caller::greeted(&node);
    let named = |slot: u16, epoch: u32, connection_number| {
        let client = Some(farwood_fabric::ClientId { slot, epoch });
        Hello { pool: POOL, node: 0, client, connection_number, nonce: None }
    };
    // The client table lists epoch 8 of the slot.
    let client = farwood_fabric::ClientId { slot: 4, epoch: 8 };
    let state = client_table::SlotState { client, live: true }.word().to_le_bytes();
    let write = WireOp::Write(&state, None);
    assert!(judge.post(&[WireVerb { at: host(client_table::state_offset(4)), op: write }]).is_some());
    assert_eq!(judge.control(Control::Fence, [4, 9, 0, 0]), Err(Code::OutOfRange as u8));
    let mut callers: Vec<_> = (1..=3).map(|_| Caller::connect(&node)).collect();
    for (connection_number, caller) in (1..).zip(&mut callers) {
        assert_eq!(caller.say_hello(&named(4, 7, connection_number)).0, FrameKind::Welcome);
    }
    let mut next = Caller::connect(&node);
    assert_eq!(next.say_hello(&named(4, 8, 1)).0, FrameKind::Welcome);
    assert_eq!(judge.control(Control::CountConnections, [4, 7, 0, 0]), Ok([3, 0, 0, 0]));
    assert_eq!(judge.control(Control::Claim, [4, 0, 0, 0]), Err(Code::SlotTaken as u8));
    assert_eq!(judge.control(Control::Fence, [4, 7, 0, 0]), Ok([0; 4]));
    let add = [WireVerb { at: host(DATA_OFFSET), op: WireOp::Faa(1) }];
    for caller in &mut callers {
        assert_eq!(caller.post(&add), None, "its connections are closed");
    }
    assert_eq!(judge.control(Control::CountConnections, [4, 7, 0, 0]), Ok([0; 4]));
    assert_eq!(judge.read_word(DATA_OFFSET), Some(0), "no verb was executed");
    for epoch in [7, 6] {
        let again = Caller::connect(&node).say_hello(&named(4, epoch, 9));
        assert_eq!(again, (FrameKind::Refused, Code::Revoked as u8), "epoch {epoch}");
    }
    assert!(next.post(&add).is_some(), "the next owner of the slot continues");
    assert_eq!(Caller::connect(&node).say_hello(&named(4, 9, 1)).0, FrameKind::Welcome);
}

#[test]
fn the_newest_connection_of_a_number_replaces_the_others() {
    let node = MemoryNode::start(&spec()).unwrap();
    let mut judge = Caller::greeted(&node);
    let client = Some(farwood_fabric::ClientId { slot: 1, epoch: 1 });
    let hello = |connection_number| Hello { pool: POOL, node: 0, client, connection_number, nonce: None };
    let (mut old, mut new, mut other) =
        (Caller::connect(&node), Caller::connect(&node), Caller::connect(&node));
    assert_eq!(old.say_hello(&hello(3)).0, FrameKind::Welcome);
    assert_eq!(other.say_hello(&hello(4)).0, FrameKind::Welcome);
    assert_eq!(new.say_hello(&hello(3)).0, FrameKind::Welcome);
    let add = [WireVerb { at: host(DATA_OFFSET), op: WireOp::Faa(1) }];
    assert_eq!(
        old.post(&add),
        None,
        "no verb of the old connection executes after the welcome of the new one"
    );
    assert!(new.post(&add).is_some() && other.post(&add).is_some());
    assert_eq!(judge.read_word(DATA_OFFSET), Some(2));
}

#[test]
fn a_full_queue_of_immediates_refuses_verb_and_immediate_together() {
    let node = MemoryNode::start(&spec()).unwrap();
    let mut caller = Caller::greeted(&node);
    let send =
        |word: &'static [u8; 8]| [WireVerb { at: host(DATA_OFFSET), op: WireOp::Write(word, Some(1)) }];
    for _ in 0..4096 {
        assert_eq!(caller.post(&send(&[1; 8])).unwrap().0, FrameKind::Reply);
    }
    let (kind, code, count, ..) = caller.post(&send(&[2; 8])).unwrap();
    assert_eq!((kind, code, count), (FrameKind::Failed, Code::QueueFull as u8, 0));
    assert_eq!(
        caller.read_word(DATA_OFFSET),
        Some(0x0101_0101_0101_0101),
        "a refused WRITE was not executed"
    );
}

#[test]
fn a_memory_node_that_stops_answers_pending_requests_and_sends_a_goodbye() {
    // More than its buffers hold: answers of 4 KiB that no client reads before it stops.
    const REQUESTS: u64 = 2_000;
    let node = MemoryNode::start(&spec()).unwrap();
    let mut caller = Caller::greeted(&node);
    let mut bytes = Vec::new();
    for tag in 0..REQUESTS {
        bytes.extend(request(&[WireVerb { at: host(DATA_OFFSET), op: WireOp::Read(4096) }], tag));
    }
    caller.send(&bytes);
    std::thread::sleep(Duration::from_millis(50));
    std::thread::scope(|scope| {
        let stopped = scope.spawn(|| node.stop().unwrap());
        // A client that continues to send may get answers or not, and loses no answered request.
        let mut asker = caller.0.try_clone().unwrap();
        scope.spawn(move || {
            for tag in REQUESTS.. {
                let more = request(&[WireVerb { at: host(DATA_OFFSET), op: WireOp::Read(4096) }], tag);
                if asker.write_all(&more).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for tag in 0..REQUESTS {
            let (kind, _, _, got, _) = caller.frame().expect("accepted requests are answered");
            assert_eq!((kind, got), (FrameKind::Reply, tag));
        }
        let last = std::iter::from_fn(|| caller.frame()).find(|frame| frame.0 != FrameKind::Reply);
        assert_eq!(last.map(|frame| frame.0), Some(FrameKind::Goodbye));
        assert_eq!(caller.frame(), None);
        stopped.join().unwrap();
        caller.0.shutdown(std::net::Shutdown::Both).unwrap_or(());
    });
}

/// Raises this process's limit of descriptors.
fn allow_descriptors(wanted: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        setrlimit(Resource::Nofile, limit).expect("a process may have a few thousand descriptors");
    }
}

#[test]
fn a_thousand_idle_and_two_hundred_busy_connections_are_served() {
    const IDLE: usize = 1000;
    const BUSY: usize = 200;
    const ROUNDS: u64 = 20;
    // Both ends of all connections are in this process.
    allow_descriptors(2 * (IDLE + BUSY) as u64 + 400);
    let node = MemoryNode::start(&spec()).unwrap();
    let idle: Vec<_> = (0..IDLE).map(|_| Caller::greeted(&node)).collect();
    let mut busy: Vec<_> = (0..BUSY).map(|_| Caller::greeted(&node)).collect();
    assert_eq!(node.counts().connections, (IDLE + BUSY) as u64);
    for _ in 0..ROUNDS {
        let add = WireVerb { at: host(DATA_OFFSET), op: WireOp::Faa(1) };
        let add = [add, WireVerb { at: host(1024), op: WireOp::Read(1024) }];
        for caller in &mut busy {
            caller.send(&request(&add, 3));
        }
        for caller in &mut busy {
            let (kind, _, _, tag, body) = caller.frame().expect("an answer");
            assert_eq!((kind, tag, body.len()), (FrameKind::Reply, 3, 1032));
        }
    }
    assert_eq!(busy[0].read_word(DATA_OFFSET), Some(ROUNDS * BUSY as u64));
    drop(idle);
    eventually(&node, "the idle ones have left", |counts| counts.connections == BUSY as u64);
    assert_eq!(busy[1].read_word(DATA_OFFSET), Some(ROUNDS * BUSY as u64), "the busy ones have not");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Arbitrary streams, some with a valid beginning.
    #[test]
    fn arbitrary_bytes_do_not_affect_other_connections(
        greeted: bool, kind in 0..=10_u8, bytes in prop::collection::vec(any::<u8>(), 0..4000),
    ) {
        let node = MemoryNode::start(&NodeSpec { threads: 1, ..spec() }).unwrap();
        let mut good = Caller::greeted(&node);
        let mut bad = if greeted { Caller::greeted(&node) } else { Caller::connect(&node) };
        let mut frame = Vec::new();
        put_frame(&mut frame, FrameKind::Request, 0, bytes.len() as u16, 0, &bytes);
        frame[4] = kind;
        bad.send(if bytes.len() % 2 == 0 { &bytes } else { &frame });
        drop(bad);
        prop_assert!(good.read_word(64).is_some());
        eventually(&node, "the invalid connection is closed", |counts| counts.connections == 1);
    }
}

/// A proof is valid for one connection: a program that repeats the frames of a client is refused.
#[test]
fn a_recorded_greeting_does_not_open_a_connection() {
    let token = Token::new("0123456789abcdef").unwrap();
    let node = MemoryNode::start(&NodeSpec { token: Some(token.clone().into()), ..spec() }).unwrap();
    let nonces = Nonces { compute_node: [9; NONCE_BYTES], memory_node: [0; NONCE_BYTES] };
    let mut bytes = Vec::new();
    Hello { nonce: Some(nonces.compute_node), ..hello() }.put(&mut bytes);
    put_frame(&mut bytes, FrameKind::Proof, 0, 0, 0, &token.prove(Prover::ComputeNode, &nonces));
    let mut caller = Caller::connect(&node);
    caller.send(&bytes);
    assert_eq!(caller.frame().map(|frame| frame.0), Some(FrameKind::Challenge));
    assert_eq!(
        caller.frame().map(|frame| (frame.0, frame.1)),
        Some((FrameKind::Refused, Code::BadToken as u8))
    );
    let mut caller = Caller::connect(&node);
    put_words(&mut bytes, FrameKind::Control, Control::Stat as u8, 0, [0; 4]);
    caller.send(&bytes[bytes.len() - 48..]);
    assert_eq!(
        caller.frame().map(|frame| frame.0),
        Some(FrameKind::Refused),
        "a control comes after the welcome"
    );
}

/// Connects to a listener that answers with `answer`, with a token, and returns the error and what the listener
/// received.
fn open_at_an_impostor(answer: Vec<u8>) -> (TcpError, Vec<u8>) {
    let liar = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address: PoolAddress = liar.local_addr().unwrap().to_string().parse().unwrap();
    let listens = std::thread::spawn(move || {
        let (mut stream, _) = liar.accept().unwrap();
        let _ = stream.write_all(&answer);
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received);
        received
    });
    let token = Token::new("a-token-of-24-characters").unwrap();
    let error = TcpPool::open(&address, Credentials::from(token)).unwrap_err();
    (error, listens.join().unwrap())
}

#[test]
fn a_memory_node_that_does_not_know_the_token_learns_nothing() {
    use farwood_transport::wire::{Formation, Welcome};
    let mut welcome = Vec::new();
    Welcome {
        access: Access::ReadWrite,
        formed: Formation::Blank,
        log: LogKind::Absent,
        pool: 0,
        node: 0,
        nodes: 0,
        host_bytes: HOST_BYTES,
        device_bytes: 0,
        incarnation: 1,
        proof: [7; NONCE_BYTES],
    }
    .put(&mut welcome);
    let mut challenge = Vec::new();
    put_frame(&mut challenge, FrameKind::Challenge, 0, 0, 0, &[3; NONCE_BYTES]);
    for (answer, words) in
        [(welcome.clone(), "requires no token"), ([challenge, welcome].concat(), "its proof is wrong")]
    {
        let (error, received) = open_at_an_impostor(answer);
        assert!(matches!(&error, TcpError::Unproven { why, .. } if why.contains(words)), "{error}");
        assert!(!received.windows(7).any(|part| part == b"a-token"), "the token is not sent");
    }
}

/// A memory node that sends single bytes at intervals does not extend the time limit of the greeting.
#[test]
fn a_memory_node_that_answers_too_slowly_is_lost() {
    let drips = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address: PoolAddress = drips.local_addr().unwrap().to_string().parse().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = drips.accept().unwrap();
        // The length of a small frame, and then its bytes.
        let mut frame = [64, 0, 0, 0].into_iter().chain(std::iter::repeat(1));
        while stream.write_all(&[frame.next().unwrap()]).is_ok() {
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let error = TcpPool::open(&address, Credentials::default()).unwrap_err();
    assert!(matches!(&error, TcpError::NotThere { why, .. } if why.contains("in time")), "{error}");
}

/// A client that tries tokens gets a prompt answer to the first ones only, and the log one line and one sum each
/// second.
#[test]
fn wrong_tokens_are_slowed_and_summed() {
    let (sender, events) = std::sync::mpsc::sync_channel(1000);
    let token = Some(Token::new("0123456789abcdef").unwrap().into());
    let node = MemoryNode::start(&NodeSpec { token, events: Some(sender), ..spec() }).unwrap();
    let wrong = Token::new("0123456789abcdeg").unwrap();
    let begun = Instant::now();
    for _ in 0..12 {
        assert_eq!(Caller::connect(&node).prove(&wrong, &hello()).1, Code::BadToken as u8);
    }
    // Three refusals are immediate, and each other one waits for a sweep; sweeps are a second apart.
    assert!(begun.elapsed() > Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(node.counts().refused, 12, "the counter is exact");
    let lines: Vec<_> = events.try_iter().map(|event| event.to_string()).collect();
    assert!(lines[0].contains("requires another token"), "{lines:?}");
    node.stop().unwrap();
    let lines = lines.len() + events.try_iter().count();
    assert!(lines < 12 + 12 / 2, "a failure alone in its second has one line: {lines}");
}

#[test]
fn a_flood_of_invalid_frames_writes_few_lines() {
    let (sender, events) = std::sync::mpsc::sync_channel(10_000);
    let node = MemoryNode::start(&NodeSpec { events: Some(sender), ..spec() }).unwrap();
    let begun = Instant::now();
    for _ in 0..300 {
        let mut caller = Caller::connect(&node);
        caller.send(b"GET / HTTP/1.1\r\n\r\n");
        caller.frame();
    }
    let seconds = begun.elapsed().as_secs() as usize + 1;
    assert_eq!(node.counts().bad_frames, 300);
    node.stop().unwrap();
    let lines: Vec<_> = events.try_iter().map(|event| event.to_string()).collect();
    assert!(lines.len() <= 2 * (seconds + 1), "{seconds} s: {lines:?}");
    assert!(lines.iter().any(|line| line.contains("more connections were closed")), "{lines:?}");
}

const TOKEN: &str = "a-token-for-everything";
const READ_TOKEN: &str = "a-token-for-reading-only";

/// A memory node with both tokens, as node 0 of pool [`POOL`], and a client with the token for everything.
fn with_rights() -> (MemoryNode, Caller) {
    let accepted = |text: &str| Some(Token::new(text).unwrap().into());
    let spec = NodeSpec { token: accepted(TOKEN), read_token: accepted(READ_TOKEN), ..spec() };
    let node = MemoryNode::start(&spec).unwrap();
    let mut writer = Caller::connect(&node);
    assert_eq!(writer.prove(&Token::new(TOKEN).unwrap(), &hello()), (FrameKind::Welcome, 0, true));
    assert_eq!(writer.control(Control::Form, [POOL, 0, 1, 0]), Ok([0; 4]));
    (node, writer)
}

fn reader(node: &MemoryNode) -> Caller {
    let mut reader = Caller::connect(node);
    assert_eq!(reader.prove(&Token::new(READ_TOKEN).unwrap(), &hello()), (FrameKind::Welcome, 0, true));
    reader
}

#[test]
fn a_token_for_reading_executes_no_other_verb() {
    let (node, mut writer) = with_rights();
    let at = host(DATA_OFFSET);
    writer.post(&[WireVerb { at, op: WireOp::Write(&7_u64.to_le_bytes(), None) }]).unwrap();
    let changes = [
        (WireOp::Write(&[1; 8], None), "a WRITE:"),
        (WireOp::Write(&[1; 8], Some(3)), "a WRITE_WITH_IMM:"),
        (WireOp::Cas { compare: 7, swap: 8 }, "a CAS:"),
        (WireOp::MaskedCas { words: [7, u64::MAX, 8, u64::MAX] }, "a masked CAS:"),
        (WireOp::Faa(1), "a FAA:"),
    ];
    for (refused, (op, name)) in (1..).zip(changes) {
        // Alone, and after a READ, which is not executed either.
        for verbs in [vec![op], vec![WireOp::Read(8), op, WireOp::Read(8)]] {
            let mut reader = reader(&node);
            assert_eq!(reader.read_word(DATA_OFFSET), Some(7));
            let verbs: Vec<_> = verbs.into_iter().map(|op| WireVerb { at, op }).collect();
            let (kind, code, count, _, body) = reader.post(&verbs).unwrap();
            assert_eq!((kind, code), (FrameKind::Refused, Code::ReadOnly as u8), "{name}");
            let text = String::from_utf8(body[..usize::from(count)].to_vec()).unwrap();
            assert!(text.contains(name) && text.contains("open the pool read-only"), "{text}");
            assert_eq!(reader.frame(), None, "the connection ends");
        }
        assert_eq!(writer.read_word(DATA_OFFSET), Some(7), "{name}");
        assert_eq!(node.counts().refused, 2 * refused);
    }
}

#[test]
fn a_token_for_reading_permits_no_control_that_changes_something() {
    let (node, mut writer) = with_rights();
    assert_eq!(writer.control(Control::Identify, [5, 1, 0, 0]), Ok([0; 4]));
    let mut reader = reader(&node);
    for (control, words) in [
        (Control::Claim, [6, 0, 0, 0]),
        (Control::Identify, [5, 1, 0, 0]),
        (Control::Fence, [5, 1, 0, 0]),
        (Control::Form, [POOL, 0, 1, 0]),
        (Control::FinishForming, [0; 4]),
        (Control::Provision, [host(8 << 20), 8 << 20, 0, 0]),
        (Control::Region, [0; 4]),
        (Control::ConnectQueuePair, [0; 4]),
    ] {
        assert_eq!(reader.control(control, words), Err(Code::ReadOnly as u8), "{control:?}");
        assert!(reader.read_word(DATA_OFFSET).is_some(), "the connection continues after {control:?}");
    }
    assert_eq!(reader.control(Control::CountConnections, [5, 1, 0, 0]), Ok([1, 0, 0, 0]));
    assert_eq!(reader.control(Control::Stat, [0; 4]).map(|page| page[1]), Ok(2));
    assert!(reader.control(Control::Stat, [9, 0, 0, 0]).is_err());
    // The client that it could not fence goes on, and the slot that it could not claim is free.
    assert!(writer.read_word(DATA_OFFSET).is_some());
    assert_eq!(writer.control(Control::Claim, [6, 0, 0, 0]), Ok([0; 4]));
}

#[test]
fn a_token_for_reading_gives_no_identity() {
    let (node, _writer) = with_rights();
    let client = Some(farwood_fabric::ClientId { slot: 5, epoch: 1 });
    let named = Hello { pool: POOL, node: 0, client, ..hello() };
    let token = Token::new(READ_TOKEN).unwrap();
    let answer = Caller::connect(&node).prove(&token, &named);
    assert_eq!(answer, (FrameKind::Refused, Code::ReadOnly as u8, false));
    let other = Token::new("another-token-of-someone").unwrap();
    let answer = Caller::connect(&node).prove(&other, &hello());
    assert_eq!(answer, (FrameKind::Refused, Code::BadToken as u8, false));
    assert_eq!(Caller::connect(&node).say_hello(&hello()), (FrameKind::Refused, Code::BadToken as u8));
}

#[test]
fn a_token_for_reading_needs_another_token_for_writing() {
    let accepted = |text: &str| Some(Token::new(text).unwrap().into());
    for (token, read_token, words) in [
        (None, READ_TOKEN, "restricts nobody"),
        (Some(TOKEN), TOKEN, "is also the token for reading and writing"),
    ] {
        let spec = NodeSpec { token: token.and_then(accepted), read_token: accepted(read_token), ..spec() };
        let error = MemoryNode::start(&spec).unwrap_err();
        assert!(matches!(error, TcpError::BadShape(_)) && error.to_string().contains(words), "{error}");
    }
}
