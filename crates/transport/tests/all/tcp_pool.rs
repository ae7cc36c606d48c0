//! Compute nodes of a pool over TCP: formation, large posts, many clients, losses, reconnecting.

use farwood_fabric::client_table::SlotState;
use farwood_fabric::{
    Access, Chain as _, Client, ClientId, Fabric as _, FabricError, Memory, NodeId, Parallel as _, Remote,
    Revocation, Server as _, Swapped, all, cas, client_table, faa, read, read_bytes, write, write_imm,
};
use farwood_testkit::harness::{Raw, raw_address, read_raw, read_word, write_word};
use farwood_testkit::need;
use farwood_transport::runtime::{block_on, run_all};
use farwood_transport::tcp::{
    Credentials, MemoryNode, NodeFile, NodeSpec, PoolAddress, REPLY_MAX, TcpError, TcpFabric, TcpPool, Token,
};
use farwood_transport::wire::{FrameKind, HEADER_BYTES, put_frame};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::pin::Pin;
use std::time::{Duration, Instant};

const HOST_BYTES: u64 = 32 << 20;
/// An offset beyond all tables.
const DATA_OFFSET: u64 = 9 << 20;

fn start() -> MemoryNode {
    start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

fn start_at(listen: SocketAddr) -> MemoryNode {
    MemoryNode::start(&NodeSpec::new(listen, HOST_BYTES)).unwrap()
}

fn address(nodes: &[&MemoryNode]) -> PoolAddress {
    let nodes: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    nodes.join(",").parse().unwrap()
}

fn word(node: u16, offset: u64) -> Remote<u64> {
    raw_address(NodeId(node), Memory::Host, DATA_OFFSET + offset).part(0)
}

#[test]
fn concurrent_openers_of_fresh_nodes_open_one_pool() {
    let nodes = [start(), start(), start()];
    let address = address(&[&nodes[0], &nodes[1], &nodes[2]]);
    let open = || TcpPool::open(&address, Credentials::default()).unwrap();
    let pools: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for pool in &pools {
        assert_eq!((pool.shape().nodes, pool.shape()), (3, pools[0].shape()));
    }
    let mut identities: Vec<_> = pools.iter().map(TcpPool::identity).collect();
    identities.sort_unstable();
    identities.dedup();
    assert_eq!(identities.len(), 8, "each is a separate compute node");
}

#[test]
fn an_address_of_another_pool_is_refused_with_its_reason() {
    let nodes = [start(), start(), start()];
    let both = address(&[&nodes[0], &nodes[1]]);
    TcpPool::open(&both, Credentials::default()).unwrap();
    for (wrong, words) in [
        (address(&[&nodes[0]]), "node 0 of 2"),
        (address(&[&nodes[1], &nodes[0]]), "node 1 of 2"),
        (address(&[&nodes[0], &nodes[1], &nodes[2]]), "fresh memory"),
        (address(&[&nodes[2], &nodes[0], &nodes[1]]), "fresh memory"),
    ] {
        let error = TcpPool::open(&wrong, Credentials::default()).unwrap_err();
        assert!(matches!(error, TcpError::NotThisPool { .. }), "{wrong}: {error}");
        assert!(error.to_string().contains(words), "{wrong}: {error}");
    }
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let error =
        TcpPool::open(&free.to_string().parse().unwrap(), Credentials::default()).unwrap_err().to_string();
    assert!(error.contains("farwood serve"), "{error}");
}

#[test]
fn a_post_beyond_one_frame_is_sent_in_several() {
    const BYTES: usize = 5 << 20;
    let nodes = [start(), start()];
    let pool = TcpPool::open(&address(&[&nodes[0], &nodes[1]]), Credentials::default()).unwrap();
    let client = pool.client();
    let data: Vec<u8> = (0..BYTES).map(|at| ((at * 31) >> 3) as u8).collect();
    block_on(async {
        let at = |node| raw_address(NodeId(node), Memory::Host, DATA_OFFSET);
        client.post(write(at(0), &data).and(write(at(1), &data[8..]))).await.unwrap();
        let (both, counted) =
            client.post(read_bytes(at(0), BYTES).then(faa(word(0, 6 << 20), 3))).await.unwrap();
        assert!(*both.check(&()).unwrap() == data[..], "the written bytes are read");
        assert_eq!(counted, 0);
        assert!(read_raw(&client, at(1), BYTES - 8).await.unwrap() == data[8..], "on the other node, too");
        let many: Vec<_> =
            (0..80_000_u64).map(|number| read(word((number % 2) as u16, number / 2 * 8))).collect();
        let words = client.post(all(many)).await.unwrap();
        for (number, word) in (0..).zip(words) {
            let from = number / 2 * 8 + number % 2 * 8;
            let expected = u64::from_le_bytes(data[from..from + 8].try_into().unwrap());
            assert_eq!(word.check(&()).unwrap().word(), expected, "word {number}");
        }
        // A large chain with an invalid verb executes nothing.
        let beyond = raw_address(NodeId(0), Memory::Host, HOST_BYTES - 8);
        let zeroes = vec![0; BYTES];
        let chain = write(at(0), &zeroes).then(write(beyond, &[0; 16]));
        assert!(matches!(client.post(chain).await, Err(FabricError::OutOfRange { bytes: 16, .. })));
        assert!(read_raw(&client, at(0), 4096).await.unwrap() == data[..4096]);
    });
}

#[test]
fn many_clients_of_a_thread_share_its_connections_and_few_system_calls() {
    const CLIENTS: usize = 32;
    const ROUNDS: u64 = 200;
    let nodes = [start(), start()];
    let pool = TcpPool::open(&address(&[&nodes[0], &nodes[1]]), Credentials::default()).unwrap();
    let before: Vec<_> = nodes.iter().map(|node| node.counts().connections).collect();
    let work = |number: usize| {
        let client = pool.client();
        Box::pin(async move {
            for round in 0..ROUNDS {
                let node = (number % 2) as u16;
                assert_eq!(client.post(faa(word(node, 8 * number as u64), 1)).await, Ok(round));
                client.post(faa(word(0, 4096), 1).and(faa(word(1, 4096), 1))).await.unwrap();
            }
        }) as Pin<Box<dyn Future<Output = ()>>>
    };
    run_all((0..CLIENTS).map(work).collect());
    let client = pool.client();
    for node in 0..2 {
        let sum = block_on(read_word(&client, word(node, 4096)));
        assert_eq!(sum, Ok(ROUNDS * CLIENTS as u64));
    }
    for (node, before) in nodes.iter().zip(before) {
        assert!(node.counts().connections <= before + 1, "one connection for the thread");
    }
}

#[test]
fn threads_of_one_compute_node_have_separate_connections() {
    let node = start();
    let pool = TcpPool::open(&address(&[&node]), Credentials::default()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let client = pool.client();
                for _ in 0..500 {
                    block_on(client.post(faa(word(0, 0), 1))).unwrap();
                }
            });
        }
    });
    assert_eq!(block_on(read_word(&pool.client(), word(0, 0))), Ok(2000));
}

/// Posts until a post succeeds; returns the errors of the others.
fn errors_until_it_works(client: &Client<TcpFabric>) -> Vec<FabricError> {
    let end = Instant::now() + Duration::from_secs(10);
    let mut errors = Vec::new();
    loop {
        match block_on(read_word(client, word(0, 0))) {
            Ok(_) => return errors,
            Err(error) => errors.push(error),
        }
        assert!(Instant::now() < end, "{:?}", errors.last());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_lost_memory_node_is_reported_at_once_and_fresh_memory_is_not_used() {
    let node = start();
    let (at, address) = (node.address(), address(&[&node]));
    let pool = TcpPool::open(&address, Credentials::default()).unwrap();
    let client = pool.client();
    block_on(write_word(&client, word(0, 0), 7)).unwrap();
    node.stop().unwrap();
    for _ in 0..3 {
        let start = Instant::now();
        let error = block_on(read_word(&client, word(0, 0))).unwrap_err();
        assert!(matches!(error, FabricError::NodeLost { .. }), "{error}");
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }
    let again = start_at(at);
    let end = Instant::now() + Duration::from_secs(10);
    let error = loop {
        match block_on(read_word(&client, word(0, 0))) {
            Err(FabricError::NodeLost { .. }) if Instant::now() < end => {}
            other => break other.unwrap_err(),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(matches!(error, FabricError::NotAPool { .. }) && error.to_string().contains("fresh"), "{error}");
    // After reopening it is a new pool, and the old attachment rejects it.
    let new = TcpPool::open(&address, Credentials::default()).unwrap();
    assert_eq!(block_on(read_word(&new.client(), word(0, 0))), Ok(0));
    std::thread::sleep(Duration::from_millis(60));
    let error = block_on(read_word(&client, word(0, 0))).unwrap_err();
    assert!(matches!(error, FabricError::NotAPool { .. }), "{error}");
    drop(again);
}

#[test]
fn a_broken_connection_is_reported_and_restored() {
    let node = start();
    let (relay, cut) = relay(node.address());
    let pool = TcpPool::open(&relay.to_string().parse().unwrap(), Credentials::default()).unwrap();
    let client = pool.client();
    block_on(write_word(&client, word(0, 0), 7)).unwrap();
    for _ in 0..3 {
        cut();
        let errors = errors_until_it_works(&client);
        assert!(errors.len() <= 1, "{errors:?}");
        assert!(errors.iter().all(|error| matches!(error, FabricError::NodeLost { .. })), "{errors:?}");
        assert_eq!(block_on(read_word(&client, word(0, 0))), Ok(7), "the same memory");
        let me = pool.identity();
        let other = TcpPool::open(&address(&[&node]), Credentials::default()).unwrap();
        assert_eq!(
            block_on(other.client().fabric().revoke(me)),
            Ok(Revocation::Alive),
            "the memory node answers again"
        );
    }
}

/// An idle client does not count as crashed: after its network failed, it restores its presence.
#[test]
fn an_idle_compute_node_reconnects() {
    let node = start();
    let (relay, cut) = relay(node.address());
    let idle = TcpPool::open(&relay.to_string().parse().unwrap(), Credentials::default()).unwrap();
    let other = TcpPool::open(&address(&[&node]), Credentials::default()).unwrap();
    // The calling client has its connection already.
    let _client = other.client();
    other.is_alive(idle.identity()).unwrap();
    for _ in 0..3 {
        let before = node.counts().accepted;
        cut();
        let end = Instant::now() + Duration::from_secs(10);
        while node.counts().accepted == before || !other.is_alive(idle.identity()).unwrap() {
            assert!(Instant::now() < end, "it stayed away");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let (gone, accepted) = (idle.identity(), node.counts().accepted);
    drop(idle);
    std::thread::sleep(Duration::from_secs(1));
    assert!(
        !other.is_alive(gone).unwrap() && node.counts().accepted <= accepted + 1,
        "a client that left does not reconnect"
    );
}

/// Relays connections to `to`; returns the address, and a function that cuts all of them.
fn relay(to: SocketAddr) -> (SocketAddr, impl Fn()) {
    use std::net::{Shutdown, TcpStream};
    use std::sync::{Arc, Mutex};
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let all = Arc::clone(&open);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let one = stream.unwrap();
            // A cut that follows the node's acceptance of the connection includes it.
            let mut open = open.lock().unwrap();
            let other = TcpStream::connect(to).unwrap();
            open.extend([one.try_clone().unwrap(), other.try_clone().unwrap()]);
            drop(open);
            let pairs = [(one.try_clone(), other.try_clone()), (other.try_clone(), one.try_clone())];
            for (from, into) in pairs {
                let (mut from, mut into) = (from.unwrap(), into.unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut into);
                    let _ = into.shutdown(Shutdown::Both);
                });
            }
        }
    });
    (at, move || {
        for stream in all.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    })
}

#[test]
fn a_silent_memory_node_is_lost_after_the_limit() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address: PoolAddress = listener.local_addr().unwrap().to_string().parse().unwrap();
    let real = start();
    let behind = real.address();
    std::thread::spawn(move || silent_after(&listener, behind));
    let pool = TcpPool::open(&address, Credentials::default()).unwrap();
    let clients = [pool.client(), pool.client(), pool.client()];
    let start = Instant::now();
    let posts = clients
        .iter()
        .map(|client| Box::pin(read_word(client, word(0, 0))) as Pin<Box<dyn Future<Output = _>>>);
    for reply in run_all(posts.collect()) {
        assert!(matches!(reply, Err(FabricError::NodeLost { .. })), "{reply:?}");
    }
    assert!(
        (REPLY_MAX..REPLY_MAX + Duration::from_secs(6)).contains(&start.elapsed()),
        "{:?}",
        start.elapsed()
    );
}

/// The two connections of the attachment work; all others receive a welcome and no answer.
fn silent_after(listener: &TcpListener, to: SocketAddr) {
    use std::net::TcpStream;
    let mut start_on_file = Vec::new();
    for (number, stream) in (0..).zip(listener.incoming()) {
        let mut stream = stream.unwrap();
        if number < 2 {
            let other = TcpStream::connect(to).unwrap();
            for (from, into) in
                [(stream.try_clone(), other.try_clone()), (other.try_clone(), stream.try_clone())]
            {
                let (mut from, mut into) = (from.unwrap(), into.unwrap());
                std::thread::spawn(move || std::io::copy(&mut from, &mut into));
            }
        } else {
            let (mut hello, mut welcome) = ([0; HEADER_BYTES + 80], [0; HEADER_BYTES + 88]);
            stream.read_exact(&mut hello).unwrap();
            let mut other = TcpStream::connect(to).unwrap();
            other.write_all(&hello).unwrap();
            other.read_exact(&mut welcome).unwrap();
            let _ = stream.write_all(&welcome);
            start_on_file.push(other);
        }
        start_on_file.push(stream);
    }
}

#[test]
fn invalid_answers_break_only_their_connection() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address: PoolAddress = listener.local_addr().unwrap().to_string().parse().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut bytes = Vec::new();
            put_frame(&mut bytes, FrameKind::Reply, 0, 0, 77, &[1; 64]);
            let _ = stream.unwrap().write_all(&bytes);
        }
    });
    let error = TcpPool::open(&address, Credentials::default()).unwrap_err();
    assert!(matches!(error, TcpError::NotThere { .. }), "{error}");
}

#[test]
fn a_live_client_that_was_revoked_gets_an_error() {
    let nodes = [start(), start()];
    let address = address(&[&nodes[0], &nodes[1]]);
    let (judge, victim) = (
        TcpPool::open(&address, Credentials::default()).unwrap(),
        TcpPool::open(&address, Credentials::default()).unwrap(),
    );
    let (client, me) = (victim.client(), victim.identity());
    block_on(write_word(&client, word(1, 0), 1)).unwrap();
    assert_eq!(block_on(judge.client().fabric().revoke(me)), Ok(Revocation::Alive));
    // The state of a client whose connections are all lost at the same time.
    for node in &nodes {
        fence(node, me.slot, me.epoch);
    }
    assert_eq!(block_on(judge.client().fabric().revoke(me)), Ok(Revocation::Gone));
    for node in [0, 1] {
        for _ in 0..2 {
            assert_eq!(block_on(read_word(&client, word(node, 0))), Err(FabricError::Revoked(me)));
        }
    }
    let table = judge.client();
    assert!(!block_on(client_table::slot_state(&table, me.slot)).unwrap().live);
    let next = TcpPool::open(&address, Credentials::default()).unwrap();
    assert_eq!((next.identity().slot, next.identity().epoch), (me.slot, me.epoch + 1));
}

/// Stores the state of a slot.
fn set_slot(client: &Client<TcpFabric>, state: SlotState) {
    let at = raw_address(NodeId(0), Memory::Host, client_table::state_offset(state.client.slot)).part(0);
    block_on(write_word(client, at, state.word())).unwrap();
}

/// Stores the state of a free slot whose last owner had `epoch`.
fn give_epoch(client: &Client<TcpFabric>, slot: u16, epoch: u32) {
    set_slot(client, SlotState { client: ClientId { slot, epoch }, live: false });
}

/// Stores the state of an attached client that crashed in epoch `epoch` of `slot`.
fn leave_crashed(client: &Client<TcpFabric>, slot: u16, epoch: u32) {
    set_slot(client, SlotState { client: ClientId { slot, epoch }, live: true });
}

/// A fence of an epoch that no client had would exclude all later owners of the slot.
#[test]
fn a_fence_of_a_client_that_does_not_exist_is_refused() {
    let nodes = [start(), start()];
    let address = address(&[&nodes[0], &nodes[1]]);
    let open = || TcpPool::open(&address, Credentials::default());
    drop(open().unwrap());
    for slot in 0..64 {
        fence(&nodes[1], slot, 0);
    }
    let first = open().unwrap();
    for node in &nodes {
        for slot in 0..64 {
            fence(node, slot, u32::MAX);
        }
    }
    let me = first.identity();
    assert_eq!(block_on(first.client().fabric().revoke(me)), Ok(Revocation::Alive), "it is not fenced");
    block_on(write_word(&first.client(), word(1, 0), 1)).unwrap();
    block_on(write_word(&open().unwrap().client(), word(1, 0), 2)).unwrap();
}

/// A slot that is fenced beyond its epoch at some memory node is skipped, and a memory node can clear its fences.
#[test]
fn a_fenced_slot_is_skipped() {
    let nodes = [start(), start()];
    let address = address(&[&nodes[0], &nodes[1]]);
    let open = || TcpPool::open(&address, Credentials::default()).unwrap();
    let first = open();
    for slot in 1..4 {
        fence(&nodes[1], slot, 7);
    }
    let next = open();
    assert_eq!((first.identity().slot, next.identity().slot), (0, 4));
    block_on(write_word(&next.client(), word(1, 0), 2)).unwrap();
}

/// Fences an identity at one memory node.
fn fence(node: &MemoryNode, slot: u16, epoch: u32) {
    use farwood_transport::wire::{ANY_NODE, Control, Hello, put_words};
    let mut stream = std::net::TcpStream::connect(node.address()).unwrap();
    let mut bytes = Vec::new();
    Hello { pool: 0, node: ANY_NODE, client: None, connection_number: 0, nonce: None }.put(&mut bytes);
    put_words(&mut bytes, FrameKind::Control, Control::Fence as u8, 0, [slot.into(), epoch.into(), 0, 0]);
    stream.write_all(&bytes).unwrap();
    stream.read_exact(&mut [0; 2 * HEADER_BYTES + 88 + 32]).unwrap();
}

#[test]
fn a_client_that_leaves_has_ended_at_every_node() {
    let node = start();
    let address = address(&[&node]);
    let (stays, leaves) = (
        TcpPool::open(&address, Credentials::default()).unwrap(),
        TcpPool::open(&address, Credentials::default()).unwrap(),
    );
    let (client, me) = (leaves.client(), leaves.identity());
    client.post_detached(write(word(0, 0), &[1; 8]));
    leaves.leave();
    assert_eq!(block_on(read_word(&client, word(0, 8))), Err(FabricError::Revoked(me)));
    assert_eq!(block_on(stays.client().fabric().revoke(me)), Ok(Revocation::Gone));
    assert_eq!(
        block_on(read_word(&stays.client(), word(0, 0))),
        Ok(0x0101_0101_0101_0101),
        "it landed before"
    );
    assert_eq!(stays.is_alive(me), Ok(false));
    drop((client, leaves));
    let next = TcpPool::open(&address, Credentials::default()).unwrap();
    assert_eq!(next.identity().slot, me.slot);
}

#[test]
fn a_full_queue_of_immediates_delays_only_its_sender() {
    const MESSAGES: u32 = 6000;
    let node = start();
    let pool = TcpPool::open(&address(&[&node]), Credentials::default()).unwrap();
    let (sender, other, server) = (pool.client(), pool.client(), node.server());
    let sends = async {
        for message in 0..MESSAGES {
            let (old, ()) = sender
                .post(faa(word(0, 64), 1).fenced(write_imm(word(0, 0), &[1; 8], message)))
                .await
                .unwrap();
            assert_eq!(old, u64::from(message), "executed verbs are not executed again");
        }
    };
    let others = async {
        for round in 1..=2000 {
            let before = Instant::now();
            assert_eq!(other.post(cas(word(0, 128), round - 1, round)).await, Ok(Swapped::Won));
            assert!(before.elapsed() < Duration::from_secs(2), "the other client does not wait");
        }
        // Enough time for the queue to fill.
        other.fabric().sleep(300_000_000).await;
        for message in 0..MESSAGES {
            assert_eq!(server.receive().await, Ok(message), "in order, none lost");
        }
    };
    run_all(vec![Box::pin(sends) as Pin<Box<dyn Future<Output = ()>>>, Box::pin(others)]);
}

#[test]
fn an_empty_read_and_an_empty_post_are_answered() {
    let node = start();
    let pool = TcpPool::open(&address(&[&node]), Credentials::default()).unwrap();
    let client = pool.client();
    block_on(async {
        assert!(client.post(all(Vec::<farwood_fabric::Read<u64>>::new())).await.unwrap().len() == 0);
        let nothing = read_bytes::<Raw>(word(0, 0).part(0), 0);
        assert!(client.post(nothing).await.unwrap().check(&()).unwrap().is_empty());
    });
}

/// Starts a memory node on the file `path`, at `listen`.
fn start_on_file(
    path: &std::path::Path,
    listen: SocketAddr,
    accept_unclean: bool,
) -> Result<MemoryNode, TcpError> {
    let file = Some(NodeFile { accept_unclean, ..NodeFile::new(path) });
    MemoryNode::start(&NodeSpec { file, ..NodeSpec::new(listen, HOST_BYTES) })
}

#[test]
fn a_memory_node_with_a_file_continues_where_it_stopped() {
    let path = std::env::temp_dir().join(format!("farwood-test-node-{}", std::process::id()));
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let node = start_on_file(&path, any, false).unwrap();
    let (at, address) = (node.address(), address(&[&node]));
    let pool = TcpPool::open(&address, Credentials::default()).unwrap();
    let client = pool.client();
    block_on(write_word(&client, word(0, 0), 7)).unwrap();
    give_epoch(&client, 9, 4);
    fence(&node, 9, 4);
    let twice = start_on_file(&path, any, true).unwrap_err();
    assert!(twice.to_string().contains("another memory node uses it"), "{twice}");
    node.stop().unwrap();
    let other = NodeSpec { host_bytes: 2 * HOST_BYTES, ..NodeSpec::new(any, HOST_BYTES) };
    let file = Some(NodeFile { accept_unclean: true, ..NodeFile::new(&path) });
    let error = MemoryNode::start(&NodeSpec { file, ..other }).unwrap_err();
    assert!(matches!(error, TcpError::File { .. }), "{error}");
    let node = start_on_file(&path, at, false).unwrap();
    let errors = errors_until_it_works(&client);
    assert!(errors.iter().all(|error| matches!(error, FabricError::NodeLost { .. })), "{errors:?}");
    assert_eq!(block_on(read_word(&client, word(0, 0))), Ok(7), "the same memory for the old client");
    let again = TcpPool::open(&address, Credentials::default()).unwrap();
    assert_eq!(again.shape(), pool.shape(), "the same pool for a new client");
    let mut stream = std::net::TcpStream::connect(node.address()).unwrap();
    let mut hello = Vec::new();
    let client = Some(farwood_fabric::ClientId { slot: 9, epoch: 4 });
    let (pool_number, connection_number) = (pool.shape().pool, 1);
    farwood_transport::wire::Hello { pool: pool_number, node: 0, client, connection_number, nonce: None }
        .put(&mut hello);
    stream.write_all(&hello).unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[4], FrameKind::Refused as u8, "a fence outlives its memory node");
    drop((again, pool));
    drop(node);
    std::fs::remove_file(&path).unwrap();
}

/// A client that was attached before a memory node crashed must not continue on the memory after the crash.
#[test]
fn a_client_does_not_continue_on_the_memory_of_a_crash() {
    let path = std::env::temp_dir().join(format!("farwood-test-crash-{}", std::process::id()));
    let node = start_on_file(&path, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), false).unwrap();
    let (at, address) = (node.address(), address(&[&node]));
    let pool = TcpPool::open(&address, Credentials::default()).unwrap();
    let client = pool.client();
    block_on(write_word(&client, word(0, 0), 7)).unwrap();
    // The state after a crash.
    let left = std::fs::read(&path).unwrap();
    drop(node);
    std::fs::write(&path, left).unwrap();
    assert!(matches!(start_on_file(&path, at, false), Err(TcpError::Unclean { .. })));
    let node = start_on_file(&path, at, true).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    let why = loop {
        match block_on(read_word(&client, word(0, 0))) {
            Err(FabricError::NotAPool { why, .. }) => break why,
            Err(FabricError::NodeLost { .. }) => assert!(Instant::now() < end, "the error is reported"),
            other => panic!("{other:?}"),
        }
    };
    assert!(why.contains("farwood check") && why.contains("open the pool again"), "{why}");
    let again = TcpPool::open(&address, Credentials::default()).unwrap();
    assert_eq!(block_on(read_word(&again.client(), word(0, 0))), Ok(7));
    drop((again, pool, client, node));
    std::fs::remove_file(&path).unwrap();
}

/// After fences were cleared, no client that was attached before continues: one of them could be revoked.
#[test]
fn a_memory_node_clears_its_fences_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node");
    let node = start_on_file(&path, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), false).unwrap();
    let (at, address) = (node.address(), address(&[&node]));
    let pool = TcpPool::open(&address, Credentials::default()).unwrap();
    let client = pool.client();
    give_epoch(&client, 1, 9);
    fence(&node, 1, 9);
    give_epoch(&client, 1, 3);
    node.stop().unwrap();
    let open = || TcpPool::open(&address, Credentials::default()).unwrap();
    let node = start_on_file(&path, at, false).unwrap();
    // Slot 0 belongs to the first client, which is still attached.
    errors_until_it_works(&client);
    assert_eq!(open().identity().slot, 2, "slot 1 is fenced beyond its epoch");
    node.stop().unwrap();
    let file = Some(NodeFile { clear_fences: true, ..NodeFile::new(path) });
    let _node = MemoryNode::start(&NodeSpec { file, ..NodeSpec::new(at, HOST_BYTES) }).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    let why = loop {
        match block_on(read_word(&client, word(0, 0))) {
            Err(FabricError::NotAPool { why, .. }) => break why,
            Err(FabricError::NodeLost { .. }) => assert!(Instant::now() < end, "the error is reported"),
            other => panic!("{other:?}"),
        }
    };
    assert!(why.contains("fences were cleared"), "{why}");
    let slots = [(); 2].map(|()| open()).map(|pool| pool.identity().slot);
    assert!(slots.iter().all(|slot| *slot <= 1), "{slots:?}");
}

/// A memory node whose fences were cleared, or that never had one, accepts the fence of any client that crashed.
#[test]
fn a_slot_of_a_late_epoch_without_fences_is_used_again() {
    let nodes = [start(), start()];
    let address = address(&[&nodes[0], &nodes[1]]);
    let open = || TcpPool::open(&address, Credentials::default()).unwrap();
    let first = open();
    leave_crashed(&first.client(), 1, 3 << 20);
    let second = open().identity();
    assert_eq!((second.slot, second.epoch), (1, (3 << 20) + 1));
}

#[test]
fn a_slot_that_cannot_be_fenced_or_read_excludes_no_other_client() {
    let nodes = [start(), start()];
    let address = address(&[&nodes[0], &nodes[1]]);
    let open = || TcpPool::open(&address, Credentials::default()).unwrap();
    let first = open();
    fence(&nodes[1], 1, 1);
    leave_crashed(&first.client(), 1, 3 << 20);
    let damaged = raw_address(NodeId(0), Memory::Host, client_table::state_offset(2)).part(0);
    block_on(write_word(&first.client(), damaged, 0xdead)).unwrap();
    assert_eq!(open().identity().slot, 3, "slot 1 cannot be fenced, slot 2 is damaged");
}

/// Otherwise data that clients store from then on would be lost at the end, without an error.
#[test]
fn a_memory_node_whose_file_is_removed_ends_with_an_error() {
    let path = std::env::temp_dir().join(format!("farwood-test-vanish-{}", std::process::id()));
    let elsewhere = path.with_extension("elsewhere");
    let remove = || std::fs::remove_file(&path).unwrap();
    let replace = || {
        std::fs::rename(&path, &elsewhere).unwrap();
        std::fs::write(&path, "another").unwrap();
    };
    for (what, lose) in [("removed", &remove as &dyn Fn()), ("replaced", &replace)] {
        let node = start_on_file(&path, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), false).unwrap();
        lose();
        let end = Instant::now() + Duration::from_secs(20);
        while node.is_running() {
            assert!(Instant::now() < end, "it does not notice that its file was {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
        let error = node.stop().unwrap_err().to_string();
        for part in [path.to_str().unwrap(), &format!("was {what}"), "start it again"] {
            assert!(error.contains(part), "{part:?} is missing in: {error}");
        }
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&elsewhere).unwrap();
}

#[test]
fn a_memory_node_runs_on_a_file_that_a_link_names() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("node"), folder.path().join("link"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let node = start_on_file(&link, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), false).unwrap();
    // Memory nodes examine their files every second.
    std::thread::sleep(Duration::from_millis(2500));
    assert!(node.is_running(), "{:?}", node.stop());
    std::fs::remove_file(&link).unwrap();
    std::fs::write(&link, "another").unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while node.is_running() {
        assert!(Instant::now() < end, "it does not notice that its file was replaced");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(node.stop().unwrap_err().to_string().contains("was replaced"));
}

#[test]
fn a_memory_node_does_not_use_a_file_of_another_user() {
    let path = std::env::temp_dir().join(format!("farwood-test-foreign-{}", std::process::id()));
    std::fs::write(&path, "").unwrap();
    let given = std::os::unix::fs::chown(&path, Some(4242), None);
    if let Some(()) = need::met(need::ROOT, given) {
        let refused = start_on_file(&path, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), true).unwrap_err();
        assert!(refused.to_string().contains("it belongs to user 4242"), "{refused}");
    }
    std::fs::remove_file(&path).unwrap();
}

/// Nothing wakes the log after an atomic that changes nothing, so its answer must not wait for a record of its own.
#[test]
fn an_atomic_without_an_effect_is_answered_at_every_level() {
    for durability in ["orderly", "interval=10", "always"] {
        let folder = tempfile::tempdir().unwrap();
        let file =
            NodeFile { durability: durability.parse().unwrap(), ..NodeFile::new(folder.path().join("node")) };
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let node =
            MemoryNode::start(&NodeSpec { file: Some(file), ..NodeSpec::new(any, HOST_BYTES) }).unwrap();
        let pool = TcpPool::open(&address(&[&node]), Credentials::default()).unwrap();
        let client = pool.client();
        block_on(write_word(&client, word(0, 128), 5)).unwrap();
        let begun = std::time::Instant::now();
        for _ in 0..50 {
            assert_eq!(block_on(client.post(cas(word(0, 128), 1, 2))), Ok(Swapped::Lost(5)));
            assert_eq!(block_on(client.post(faa(word(0, 128), 0))), Ok(5));
            assert_eq!(block_on(read_word(&client, word(0, 128))), Ok(5));
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{durability}: {:?}", begun.elapsed());
    }
}

/// Memory nodes with a token for everything and one for reading, and the credentials.
fn start_with_rights(nodes: usize) -> (Vec<MemoryNode>, [Credentials; 2]) {
    let tokens = ["a-token-for-everything", "a-token-for-reading-only"].map(|text| Token::new(text).unwrap());
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let [token, read_token] = tokens.clone().map(|token| Some(token.into()));
    let spec = NodeSpec { token, read_token, ..NodeSpec::new(listen, HOST_BYTES) };
    let nodes = (0..nodes).map(|_| MemoryNode::start(&spec).unwrap()).collect();
    (nodes, tokens.map(Credentials::from))
}

#[test]
fn a_reader_takes_no_slot_and_changes_nothing() {
    let (nodes, [all, reads]) = start_with_rights(2);
    let address = address(&nodes.iter().collect::<Vec<_>>());
    for credentials in [&all, &reads] {
        let fresh = TcpPool::open_read_only(&address, credentials.clone()).unwrap_err();
        assert!(matches!(fresh, TcpError::NoPool { .. }), "{fresh}");
    }
    let writer = TcpPool::open(&address, all.clone()).unwrap();
    block_on(write_word(&writer.client(), word(1, 0), 42)).unwrap();
    let attached = || block_on(client_table::load(&writer.client())).unwrap().attached.len();
    assert_eq!(attached(), 1);
    for credentials in [all, reads.clone()] {
        let reader = TcpPool::open_read_only(&address, credentials).unwrap();
        assert_eq!((reader.identity(), reader.shape()), (ClientId::NONE, writer.shape()));
        let client = reader.client();
        assert_eq!(client.fabric().access(), Access::ReadOnly);
        assert_eq!(block_on(read_word(&client, word(1, 0))), Ok(42));
        for refused in [
            block_on(client.post(write(word(1, 0), &[1; 8]))).map(drop),
            block_on(client.post(cas(word(1, 0), 42, 1))).map(drop),
            block_on(client.post(read(word(1, 0)).and(faa(word(0, 0), 1)))).map(drop),
            block_on(client.fabric().provision(word(0, 0).address(), 4096)),
            block_on(client_table::enter(&client, 7, 1)).map(drop),
        ] {
            assert_eq!(refused, Err(FabricError::ReadOnly));
        }
        assert!(!client.post_detached(faa(word(1, 0), 1)), "it would help another client");
        assert_eq!(block_on(read_word(&client, word(1, 0))), Ok(42), "and the next post does not fail");
        let alive = block_on(client.fabric().revoke(writer.identity()));
        assert_eq!(alive, Ok(Revocation::Alive));
        assert_eq!(reader.reports().unwrap().len(), 2);
        assert!(reader.is_alive(writer.identity()).unwrap());
        assert_eq!(attached(), 1, "the client table has the writer only");
        reader.leave();
        assert!(block_on(client.post(read(word(1, 0)))).is_err(), "it has left");
    }
    let wrong = TcpPool::open_read_only(&address, Token::new("a-token-of-someone-else").unwrap().into());
    assert!(matches!(wrong, Err(TcpError::BadToken { .. })), "{wrong:?}");
    let writes = TcpPool::open(&address, reads).unwrap_err();
    assert!(matches!(writes, TcpError::ReadOnlyToken { .. }), "{writes}");
    assert!(writes.to_string().contains("--read-only"), "{writes}");
    assert_eq!(attached(), 1);
}

#[test]
fn a_reader_names_all_memory_nodes_in_order_and_survives_their_restart() {
    let (nodes, [all, reads]) = start_with_rights(2);
    let of = |nodes: &[&MemoryNode]| address(nodes);
    drop(TcpPool::open(&of(&[&nodes[0], &nodes[1]]), all).unwrap());
    for wrong in [of(&[&nodes[0]]), of(&[&nodes[1], &nodes[0]])] {
        let error = TcpPool::open_read_only(&wrong, reads.clone()).unwrap_err();
        assert!(matches!(error, TcpError::NotThisPool { .. }), "{error}");
        assert!(error.to_string().contains("in order"), "{error}");
    }
    let reader = TcpPool::open_read_only(&of(&[&nodes[0], &nodes[1]]), reads).unwrap();
    drop(nodes);
    let lost = block_on(reader.client().post(read(word(0, 0)))).map(drop).unwrap_err();
    assert!(matches!(lost, FabricError::NodeLost { .. }), "{lost}");
}
