//! The trait by which tests obtain clients of a fabric and run them concurrently, and memory that tests allocate.

use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, ChunkOwner, TakenChunk};
use farwood_fabric::{
    Address, Client, Fabric, FabricError, Memory, NodeId, Object, PoolShape, Remote, Server, Torn,
    read_bytes, write,
};
use std::cell::Cell;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// A pool of memory nodes that only one test uses.
pub trait Harness {
    /// The fabric under test.
    type Fabric: Fabric;

    /// A new client for the calling thread. All these clients may belong to one compute node and share its identity.
    fn client(&self) -> Client<Self::Fabric>;

    /// A new client for the calling thread, on a new compute node with its own identity.
    fn separate_client(&self) -> Client<Self::Fabric>;

    /// Runs one client's work on the calling thread until it ends.
    fn block_on<T>(&self, work: impl Future<Output = T>) -> T;

    /// Runs `work` for `count` clients at the same time; yields the results in the order of the clients' numbers.
    /// Clients with odd numbers are [separate](Self::separate_client). Fabrics of threads use [`on_threads`], fabrics
    /// of one thread use [`round_robin`]. With `round_robin`, a client that waits for another client must await an
    /// operation of the fabric, because otherwise the other client never runs.
    fn run_clients<T: Send>(
        &self,
        count: usize,
        work: impl AsyncFn(usize, Client<Self::Fabric>) -> T + Sync,
    ) -> Vec<T>;

    /// The shape with which the pool was created, and which every client must find.
    fn shape(&self) -> PoolShape;
}

/// A harness whose memory nodes have servers.
pub trait ServerHarness: Harness {
    /// A memory node's server.
    type Server: Server;

    /// The server of memory node `node` for the calling thread.
    fn server(&self, node: NodeId) -> Self::Server;

    /// Runs the server of memory node 0 and one client at the same time.
    fn serve<S: Send, C: Send>(
        &self,
        server: impl AsyncFnOnce(Self::Server) -> S + Send,
        client: impl AsyncFnOnce(Client<Self::Fabric>) -> C + Send,
    ) -> (S, C);
}

/// [`Harness::run_clients`] for a fabric of threads: one thread for each client.
pub fn on_threads<H: Harness + Sync, T: Send>(
    harness: &H,
    count: usize,
    work: impl AsyncFn(usize, Client<H::Fabric>) -> T + Sync,
) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let run = |number| scope.spawn(move || harness.block_on(work(number, numbered(harness, number))));
        let threads: Vec<_> = (0..count).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

fn numbered<H: Harness>(harness: &H, number: usize) -> Client<H::Fabric> {
    if number.is_multiple_of(2) { harness.client() } else { harness.separate_client() }
}

/// [`ServerHarness::serve`] for a fabric of threads.
pub fn serve_on_threads<H: ServerHarness + Sync, S: Send, C: Send>(
    harness: &H,
    server: impl AsyncFnOnce(H::Server) -> S + Send,
    client: impl AsyncFnOnce(Client<H::Fabric>) -> C + Send,
) -> (S, C) {
    std::thread::scope(|scope| {
        let server = scope.spawn(move || harness.block_on(server(harness.server(NodeId(0)))));
        let client = harness.block_on(client(harness.client()));
        (server.join().unwrap_or_else(|panic| resume_unwind(panic)), client)
    })
}

/// [`Harness::run_clients`] for a fabric of one thread: polls the clients in turn until all end.
pub fn round_robin<H: Harness, T>(
    harness: &H,
    count: usize,
    work: impl AsyncFn(usize, Client<H::Fabric>) -> T,
) -> Vec<T> {
    let mut running: Vec<_> =
        (0..count).map(|number| Some(Box::pin(work(number, numbered(harness, number))))).collect();
    let mut done: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut context = Context::from_waker(Waker::noop());
    while done.iter().any(Option::is_none) {
        for (slot, result) in running.iter_mut().zip(&mut done) {
            let Some(future) = slot else { continue };
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                *result = Some(value);
                *slot = None;
            }
        }
    }
    done.into_iter().flatten().collect()
}

/// Polls `future` until it is ready; yields to other threads between polls.
pub fn poll_until_ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

/// An object without a format: its check accepts any copy, torn or not.
#[derive(Debug)]
pub struct Raw;

impl Object for Raw {
    type Format = ();

    fn check(_: &[u8], (): &()) -> Result<(), Torn> {
        Ok(())
    }
}

/// The address of raw bytes in far memory.
pub type RawAddress = Remote<Raw>;

/// The address of raw bytes at `offset` of `memory` on `node`; host offset 0 is invalid.
///
/// # Panics
/// If the address is invalid.
pub fn raw_address(node: NodeId, memory: Memory, offset: u64) -> RawAddress {
    Remote::at(Address::new(node, memory, offset).expect("a valid address"))
}

/// Reads raw bytes. [1 RT]
pub async fn read_raw<F: Fabric>(
    client: &Client<F>,
    at: RawAddress,
    bytes: usize,
) -> Result<Vec<u8>, FabricError> {
    Ok(to_bytes(client.post(read_bytes(at, bytes)).await?))
}

/// Reads a word. [1 RT]
pub async fn read_word<F: Fabric>(client: &Client<F>, at: Remote<u64>) -> Result<u64, FabricError> {
    let Ok(word) = client.post(farwood_fabric::read(at)).await?.check(&()) else {
        unreachable!("no fabric tears eight aligned bytes")
    };
    Ok(word.word())
}

/// Writes a word. [1 RT]
pub async fn write_word<F: Fabric>(
    client: &Client<F>,
    at: Remote<u64>,
    word: u64,
) -> Result<(), FabricError> {
    client.post(write(at, &word.to_le_bytes())).await
}

/// The bytes of a raw copy.
pub fn to_bytes(copy: farwood_fabric::Fetched<Raw>) -> Vec<u8> {
    let Ok(bytes) = copy.check(&()) else { unreachable!("the check of raw bytes refuses none") };
    bytes.to_vec()
}

/// The words of raw bytes.
pub fn words(bytes: &[u8]) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + '_ {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
}

/// A chunk of host memory from which a test allocates zeroed bytes.
#[derive(Debug)]
pub struct Scratch {
    chunk: Chunk,
    next: Cell<u64>,
}

impl Scratch {
    /// Takes a chunk of memory node `node`.
    ///
    /// # Panics
    /// If the pool is full or the fabric fails.
    pub async fn take<F: Fabric>(client: &Client<F>, node: NodeId) -> Self {
        let owner = ChunkOwner { client: client.fabric().identity(), entry: SCRATCH_ENTRY };
        let chunk = chunks::take(client, node, owner, CHUNK_BYTES).await.expect("a chunk can be taken");
        let TakenChunk { chunk, used, .. } = chunk.expect("the pool under test has a free chunk");
        assert_eq!(used, 0, "the chunk is unused");
        Self { chunk, next: Cell::new(0) }
    }

    /// Allocates `bytes` zeroed bytes at the beginning of a 64-byte line.
    ///
    /// # Panics
    /// If the chunk is used up or the fabric fails.
    pub async fn zeroed<F: Fabric>(&self, client: &Client<F>, bytes: usize) -> RawAddress {
        let start = self.next.get();
        let end = start + (bytes as u64).next_multiple_of(LINE_BYTES);
        assert!(end <= CHUNK_BYTES, "a test needs at most a chunk");
        self.next.set(end);
        let address = self.chunk.start().part(start);
        client.post(write(address, &vec![0; (end - start) as usize])).await.expect("a WRITE");
        address
    }

    /// Allocates a zeroed word at the beginning of a line.
    pub async fn word<F: Fabric>(&self, client: &Client<F>) -> Remote<u64> {
        self.zeroed(client, 8).await.part(0)
    }

    /// Returns the chunk to the pool.
    ///
    /// # Panics
    /// If the fabric fails.
    pub async fn release<F: Fabric>(self, client: &Client<F>) {
        chunks::give_back(client, self.chunk).await.expect("a chunk is returned");
    }
}

/// The directory entry that owns the chunks of tests; no test fills the directory.
pub const SCRATCH_ENTRY: u8 = 63;
const LINE_BYTES: u64 = 64;

/// A sequence of pseudo-random numbers from a seed, so that tests repeat exactly.
#[derive(Clone, Debug)]
pub struct TestRng(u64);

impl TestRng {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number (SplitMix64).
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number below `limit`; `limit` must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// True with probability 1 / `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
