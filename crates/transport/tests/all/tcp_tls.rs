//! TLS between compute nodes and memory nodes: the trust in certificates, and the error of each side.

use farwood_fabric::{Client, Memory, NodeId, Remote, faa, read_bytes, write};
use farwood_testkit::harness::raw_address;
use farwood_transport::runtime::{block_on, run_all};
use farwood_transport::tcp::{
    AcceptedTokens, ClientTls, Credentials, Identity, MemoryNode, NodeEvent, NodeSpec, PoolAddress,
    ServerTls, TcpError, TcpFabric, TcpPool, Token,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;
use tempfile::TempDir;

const HOST_BYTES: u64 = 32 << 20;
/// An offset beyond all tables.
const DATA_OFFSET: u64 = 9 << 20;

/// An authority, and files of the certificates that it issued.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// The files of a certificate and its key.
struct Files {
    cert: PathBuf,
    key: PathBuf,
}

impl Files {
    fn identity(&self) -> Identity<'_> {
        Identity { cert: &self.cert, key: &self.key }
    }
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn certify(&self, name: &str) -> Files {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let at = |kind: &str| self.folder.path().join(format!("{name}.{kind}"));
        std::fs::write(at("pem"), cert.pem()).unwrap();
        std::fs::write(at("key"), key.serialize_pem()).unwrap();
        std::fs::set_permissions(at("key"), Permissions::from_mode(0o600)).unwrap();
        Files { cert: at("pem"), key: at("key") }
    }
}

fn start(tls: ServerTls, token: Option<Token>) -> (MemoryNode, Receiver<NodeEvent>) {
    let (sender, events) = sync_channel(64);
    let spec = NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), HOST_BYTES);
    let node = MemoryNode::start(&NodeSpec {
        tls: Some(tls),
        token: token.map(AcceptedTokens::from),
        events: Some(sender),
        ..spec
    })
    .unwrap();
    (node, events)
}

fn address(node: &MemoryNode) -> PoolAddress {
    node.address().to_string().parse().unwrap()
}

fn client(ca: &Path, identity: Option<Identity<'_>>) -> Credentials {
    Credentials { token: None, tls: Some(ClientTls::from_files(ca, identity, None).unwrap()) }
}

fn refused(node: &MemoryNode, credentials: Credentials) -> TcpError {
    TcpPool::open(&address(node), credentials).unwrap_err()
}

fn word(offset: u64) -> Remote<u64> {
    raw_address(NodeId(0), Memory::Host, DATA_OFFSET + offset).part(0)
}

/// Adds to a word in far memory; returns the old value.
async fn add(client: &Client<TcpFabric>, offset: u64, more: u64) -> u64 {
    client.post(faa(word(offset), more)).await.unwrap()
}

#[test]
fn both_sides_authenticate_and_large_posts_pass() {
    let authority = Authority::new();
    let (server, user) = (authority.certify("127.0.0.1"), authority.certify("user"));
    let tls = ServerTls::from_files(server.identity(), Some(&authority.file())).unwrap();
    let (node, _) = start(tls, None);
    let pool = TcpPool::open(&address(&node), client(&authority.file(), Some(user.identity()))).unwrap();
    let client = pool.client();
    block_on(add(&client, 0, 42));
    assert_eq!(block_on(add(&client, 0, 1)), 42);
    // Larger than a frame, and than the buffer of TLS.
    let bytes: Vec<u8> = (0..3 << 20).map(|at: u32| (at % 251) as u8).collect();
    let at = raw_address(NodeId(0), Memory::Host, DATA_OFFSET + 64);
    block_on(client.post(write(at, &bytes))).unwrap();
    let read = block_on(client.post(read_bytes(at, bytes.len()))).unwrap();
    assert!(*read.check(&()).unwrap() == bytes[..], "the written bytes are read");
    let counts = node.counts();
    assert_eq!((counts.bad_frames, counts.refused), (0, 0));
}

#[test]
fn many_clients_of_a_thread_share_a_tls_connection() {
    let authority = Authority::new();
    let server = authority.certify("127.0.0.1");
    let (node, _) = start(ServerTls::from_files(server.identity(), None).unwrap(), None);
    let pool = TcpPool::open(&address(&node), client(&authority.file(), None)).unwrap();
    let work = |number: u64| {
        let client = pool.client();
        Box::pin(async move {
            for round in 0..200 {
                assert_eq!(add(&client, 8 * number, 1).await, round);
            }
        }) as Pin<Box<dyn Future<Output = ()>>>
    };
    run_all((0..32).map(work).collect());
    assert_eq!(node.counts().bad_frames, 0);
}

#[test]
fn an_untrusted_client_gets_an_error_and_is_counted() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = authority.certify("127.0.0.1");
    let tls = ServerTls::from_files(server.identity(), Some(&authority.file())).unwrap();
    let (node, events) = start(tls, None);
    let untrusted = |credentials: Credentials, words: &str| {
        let error = refused(&node, credentials);
        assert!(matches!(error, TcpError::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains(words), "{words}: {error}");
    };
    // Without a certificate, with one of another authority, and trusting another authority.
    untrusted(client(&authority.file(), None), "CertificateRequired");
    untrusted(client(&authority.file(), Some(other.certify("user").identity())), "alert");
    untrusted(client(&other.file(), None), "invalid peer certificate");
    let error = refused(&node, Credentials::default());
    assert!(error.to_string().contains("FARWOOD_TLS_CA"), "{error}");
    let mut logged = 0;
    while logged < 4 {
        logged += match events.recv_timeout(Duration::from_secs(5)).unwrap() {
            NodeEvent::Refused { from: Some(_), .. } => 1,
            NodeEvent::Repeated { more, .. } => more,
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(node.counts().refused, 4);
    let user = authority.certify("user");
    TcpPool::open(&address(&node), client(&authority.file(), Some(user.identity()))).unwrap();
}

#[test]
fn a_certificate_is_valid_for_its_name_only() {
    let authority = Authority::new();
    let server = authority.certify("memory-0");
    let (node, _) = start(ServerTls::from_files(server.identity(), None).unwrap(), None);
    let error = refused(&node, client(&authority.file(), None));
    assert!(error.to_string().contains("not valid for"), "{error}");
    let named = |name: &str| {
        let tls = ClientTls::from_files(&authority.file(), None, Some(name.to_owned())).unwrap();
        TcpPool::open(&address(&node), Credentials { token: None, tls: Some(tls) })
    };
    assert!(named("memory-1").is_err());
    named("memory-0").unwrap();
}

#[test]
fn a_token_is_required_through_tls_as_well() {
    let authority = Authority::new();
    let server = authority.certify("127.0.0.1");
    let token = || Token::new("0123456789abcdef").unwrap();
    let (node, _) = start(ServerTls::from_files(server.identity(), None).unwrap(), Some(token()));
    let without = client(&authority.file(), None);
    assert!(matches!(refused(&node, without.clone()), TcpError::BadToken { .. }));
    TcpPool::open(&address(&node), Credentials { token: Some(token()), ..without }).unwrap();
}

#[test]
fn a_memory_node_without_tls_is_distinguished_from_one_with_tls() {
    let authority = Authority::new();
    let spec = NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), HOST_BYTES);
    let node = MemoryNode::start(&spec).unwrap();
    let error = refused(&node, client(&authority.file(), None));
    assert!(matches!(error, TcpError::Untrusted { .. }), "{error}");
    TcpPool::open(&address(&node), Credentials::default()).unwrap();
}

#[test]
fn bytes_that_are_not_tls_close_only_their_connection() {
    let authority = Authority::new();
    let server = authority.certify("127.0.0.1");
    let (node, _) = start(ServerTls::from_files(server.identity(), None).unwrap(), None);
    let pool = TcpPool::open(&address(&node), client(&authority.file(), None)).unwrap();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0xFF, 0xFF], &[0; 4096]] {
        let mut stream = TcpStream::connect(node.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        stream.write_all(bytes).unwrap();
        // The memory node may send an alert, but no frame, and then closes; it waits for the rest of an
        // incomplete record.
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        assert!(all.len() < 64, "{all:?}");
    }
    let client = pool.client();
    block_on(add(&client, 0, 7));
    assert_eq!(block_on(add(&client, 0, 0)), 7);
}
