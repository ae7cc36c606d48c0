//! A memory node: start, state, stop.

use super::counters::NodeCounts;
use super::log::{FrozenLog, Log, LogObserver, LogReport, LogTuning};
use super::registry::{RETURNS_MAX, Registry, RightTokens};
use super::shared::Shared;
use super::spec::{NodeSpec, THREADS_DEFAULT_MAX};
use super::store::Store;
use super::verb_executor::Attach;
use super::worker::{Worker, WorkerHandle};
use crate::error::TcpError;
use crate::runtime::{poll_until, sleep};
use farwood_fabric::{Address, FabricError, LINE_BYTES, LINE_WORDS, Memory, NodeId, Server, ServerMemory};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;

/// A running memory node. Stops when dropped.
#[derive(Debug)]
pub struct MemoryNode {
    shared: Arc<Shared>,
    handles: Vec<WorkerHandle>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// The thread that syncs the log, if there is one.
    syncing: Option<JoinHandle<()>>,
    address: SocketAddr,
}

impl MemoryNode {
    /// Starts a memory node, with fresh memory or that of a file.
    ///
    /// # Errors
    /// [`TcpError::BadShape`], [`TcpError::Memory`], [`TcpError::File`], [`TcpError::Unclean`],
    /// [`TcpError::Listen`],
    /// [`TcpError::System`].
    pub fn start(spec: &NodeSpec) -> Result<Self, TcpError> {
        Self::start_with(spec, None)
    }

    /// Starts a memory node, with a device that executes the verbs.
    pub(crate) fn start_with(spec: &NodeSpec, attach: Option<Attach<'_>>) -> Result<Self, TcpError> {
        let listen = spec.listen;
        let sizes = spec.sizes().map_err(TcpError::BadShape)?;
        let of_device = || attach.as_ref().and_then(|_| spec.refuse_for_executor());
        if let Some(why) = spec.refuse().or_else(of_device) {
            return Err(TcpError::BadShape(why));
        }
        let refuse = |error| TcpError::Listen { address: listen.to_string(), error };
        let listener = TcpListener::bind(listen).map_err(refuse)?;
        let address = listener.local_addr().map_err(refuse)?;
        let memory = |error| TcpError::Memory { bytes: sizes.memory_max + sizes.device, error };
        let store = match &spec.file {
            None if attach.is_some() => Store::in_huge_pages(sizes).map_err(memory)?,
            None => Store::anonymous(sizes).map_err(memory)?,
            Some(file) => {
                if attach.is_some() {
                    file.check_durability_for_executor()?;
                    file.check_for_executor()?;
                }
                Store::in_file(file, sizes)?
            }
        };
        let store = store.with_snapshots(spec.snapshot_bytes_max, spec.snapshot_mutant);
        let executor = attach.map(|attach| attach(store.memory())).transpose()?;
        let tokens = RightTokens { all: spec.token.clone(), read: spec.read_token.clone() };
        let registry = Registry::new(tokens, spec.connections_max.min(connections_by_descriptors()));
        if store.has_returning_clients() {
            let tuning = spec.file.as_ref().map_or_else(LogTuning::default, |file| file.log_tuning);
            registry.expect_returns(tuning.returns_max.unwrap_or(RETURNS_MAX));
        }
        let threads = threads(spec.threads);
        let shared = Arc::new(Shared::new(store, registry, executor, threads, spec));
        let system = |operation| move |error| TcpError::System { operation, error };
        let (mut workers, mut handles) = (Vec::new(), Vec::new());
        for number in 0..threads {
            let (worker, handle) =
                Worker::new(Arc::clone(&shared), number).map_err(system("wait for streams"))?;
            workers.push(worker);
            handles.push(handle);
        }
        workers[0].listen(listener, handles.clone()).map_err(system("wait for connections"))?;
        let mut node = Self { shared, handles, threads: Vec::new(), syncing: None, address };
        if node.shared.store.log().is_some() {
            let (shared, handles) = (Arc::clone(&node.shared), node.handles.clone());
            let sync = move || {
                let wake = || handles.iter().for_each(WorkerHandle::wake);
                let report = |event| shared.log(|| event);
                shared.store.run_log(LogObserver { wake: &wake, report: &report });
            };
            let thread = std::thread::Builder::new().name("farwood-log".to_owned());
            node.syncing = Some(thread.spawn(sync).map_err(system("start a thread"))?);
        }
        for worker in workers {
            let thread = std::thread::Builder::new().name("farwood-node".to_owned());
            let all = StopOnDrop { shared: Arc::clone(&node.shared), handles: node.handles.clone() };
            let work = move || {
                // If one thread ends, for any reason, all end, because a memory node needs all its threads.
                let _all = all;
                worker.run()
            };
            node.threads.push(thread.spawn(work).map_err(system("start a thread"))?);
        }
        Ok(node)
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the host memory that clients use, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.shared.store.memory_bytes()
    }

    /// Returns the host memory to which it can grow, bytes.
    pub fn memory_max_bytes(&self) -> u64 {
        self.shared.store.host_bytes()
    }

    /// Returns the size of device memory, bytes.
    pub fn device_bytes(&self) -> u64 {
        self.shared.store.device_bytes()
    }

    /// Returns its server role: its memory, and the immediates that clients send.
    pub fn server(&self) -> TcpServer {
        TcpServer { memory: TcpMemory(Arc::clone(&self.shared)) }
    }

    /// Returns access to its counters for another thread, also beyond its end.
    pub fn monitor(&self) -> NodeMonitor {
        NodeMonitor(Arc::clone(&self.shared))
    }

    /// Stops all changes of its memory and of its log until the guard is dropped; `None`: it has no log. For tests.
    #[doc(hidden)]
    pub fn freeze_log(&self) -> Option<FrozenLog<'_>> {
        self.shared.store.log().map(Log::freeze)
    }

    /// Returns the restart of its log; `None`: it has no log.
    pub fn log_report(&self) -> Option<LogReport> {
        self.shared.store.log_report()
    }

    /// Returns its counters.
    pub fn counts(&self) -> NodeCounts {
        self.shared.counts()
    }

    /// Returns whether it is running: a failed thread ends it.
    pub fn is_running(&self) -> bool {
        self.shared.forks.is_current() && !self.shared.stopping.load(SeqCst)
    }

    /// Answers the requests that the node has accepted, sends goodbye to its clients, and ends the node.
    ///
    /// # Errors
    /// If one of its threads had failed.
    pub fn stop(mut self) -> Result<(), TcpError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), TcpError> {
        let failed = |error| TcpError::System { operation: "serve", error };
        if let Err(error) = self.shared.forks.check() {
            // A forked child has none of the threads, and the thread handles that it inherited may name other threads.
            std::mem::forget(std::mem::take(&mut self.threads));
            std::mem::forget(self.syncing.take());
            return Err(failed(io::Error::other(error)));
        }
        stop_all(&self.shared, &self.handles);
        let (mut ended, all) = (Ok(()), self.threads.len());
        for thread in self.threads.drain(..) {
            let done = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
            ended = ended.and(done);
        }
        if let Some(executor) = &self.shared.executor {
            executor.end();
        }
        // The workers have waited for it to send their last answers.
        if let (Some(log), Some(syncing)) = (self.shared.store.log(), self.syncing.take()) {
            log.stop();
            ended = ended.and(syncing.join().map_err(|_| io::Error::other("the thread of the log panicked")));
        }
        // The file is closed once, and only if every thread ended normally.
        if all > 0 && ended.is_ok() {
            ended = self.shared.store.close(&|event| self.shared.log(|| event));
        }
        ended.map_err(failed)
    }
}

impl Drop for MemoryNode {
    fn drop(&mut self) {
        // A caller that needs the result calls `stop`.
        let _ = self.end();
    }
}

/// The counters of a memory node. Keeps its memory until it is dropped.
#[derive(Clone, Debug)]
pub struct NodeMonitor(Arc<Shared>);

impl NodeMonitor {
    /// Returns the counters.
    pub fn counts(&self) -> NodeCounts {
        self.0.counts()
    }
}

/// Stops all threads of a memory node when it is dropped.
struct StopOnDrop {
    shared: Arc<Shared>,
    handles: Vec<WorkerHandle>,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        stop_all(&self.shared, &self.handles);
    }
}

fn stop_all(shared: &Shared, handles: &[WorkerHandle]) {
    shared.stopping.store(true, SeqCst);
    for handle in handles {
        handle.wake();
    }
}

/// Returns the connections for which this process has descriptors, beside those that it needs for everything else.
fn connections_by_descriptors() -> usize {
    const OTHERS: u64 = 64;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit.saturating_sub(OTHERS).max(limit / 2)).unwrap_or(usize::MAX)
}

fn threads(asked: usize) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if asked == 0 { processors.min(THREADS_DEFAULT_MAX) } else { asked }
}

/// A memory node's own view of its memory.
#[derive(Clone, Debug)]
pub struct TcpMemory(Arc<Shared>);

impl TcpMemory {
    #[inline]
    fn check(&self, offset: u64, bytes: u64) -> Result<(), FabricError> {
        self.0.forks.check()?;
        let fits = offset.is_multiple_of(8) && offset.saturating_add(bytes) <= self.0.store.host_bytes();
        if fits { Ok(()) } else { self.refuse(offset, bytes as usize) }
    }

    #[cold]
    fn refuse(&self, offset: u64, bytes: usize) -> Result<(), FabricError> {
        let store = &self.0.store;
        let address = |offset| Address::new(NodeId(store.membership().node), Memory::Host, offset);
        // An offset beyond all addresses is reported as the last word.
        let at = address(offset).or_else(|| address(store.host_bytes() & !7)).expect("memory has addresses");
        let is_aligned = offset.is_multiple_of(8);
        Err(if is_aligned { FabricError::OutOfRange { at, bytes } } else { FabricError::Misaligned { at } })
    }
}

impl ServerMemory for TcpMemory {
    #[inline]
    fn load(&self, offset: u64) -> Result<u64, FabricError> {
        self.check(offset, 8)?;
        Ok(self.0.store.load(offset))
    }

    fn store(&self, offset: u64, word: u64) -> Result<(), FabricError> {
        self.check(offset, 8)?;
        self.0.store.store(offset, word);
        Ok(())
    }

    fn store_line(&self, offset: u64, words: &[u64; LINE_WORDS]) -> Result<(), FabricError> {
        self.check(offset, LINE_BYTES as u64)?;
        self.0.store.store_line(offset, words);
        Ok(())
    }

    #[inline]
    fn load_line(&self, offset: u64) -> Result<[u64; LINE_WORDS], FabricError> {
        self.check(offset, LINE_BYTES as u64)?;
        Ok(self.0.store.load_line(offset))
    }

    #[inline]
    fn load_lines(&self, offset: u64, lines: &mut [[u8; LINE_BYTES]]) -> Result<(), FabricError> {
        self.check(offset, size_of_val(lines) as u64)?;
        self.0.store.load_lines(offset, lines);
        Ok(())
    }

    #[inline]
    fn fetch_ahead(&self, offset: u64, bytes: u64) {
        self.0.store.fetch_ahead(offset, bytes);
    }
}

/// The server role of one memory node, in its own process.
#[derive(Clone, Debug)]
pub struct TcpServer {
    memory: TcpMemory,
}

impl Server for TcpServer {
    type Local = TcpMemory;

    fn local(&self) -> &TcpMemory {
        &self.memory
    }

    async fn receive(&self) -> Result<u32, FabricError> {
        let shared = &self.memory.0;
        let receive = || match shared.forks.check() {
            Ok(()) => shared.store.receive().map(Ok),
            Err(error) => Some(Err(error)),
        };
        poll_until(receive).await
    }

    async fn settle(&self) -> Result<(), FabricError> {
        let shared = &self.memory.0;
        let Some(log) = shared.store.log() else { return Ok(()) };
        let waits = log.all();
        let lost = |error: io::Error| FabricError::NodeLost {
            node: NodeId(shared.store.membership().node),
            why: error.to_string(),
        };
        log.before_answers(waits).map_err(lost)?;
        log.begin_sync();
        let settled = || match log.failure() {
            Some(error) => Some(Err(lost(error))),
            None => log.is_durable(waits.durable).then_some(Ok(())),
        };
        poll_until(settled).await
    }

    async fn compute(&self, _: u64) {}

    fn busy_wait(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        sleep(nanoseconds)
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::NodeEvent;
    use super::super::store::NodeFile;
    use super::super::verb_executor::{ExecutorQueuePair, VerbExecutor};
    use super::*;
    use std::net::Ipv4Addr;
    use std::sync::mpsc::sync_channel;
    use std::sync::{Mutex, atomic::AtomicBool};
    use std::time::Duration;

    /// A device that makes no queue pairs, and fails on request.
    #[derive(Clone, Debug, Default)]
    struct Idle {
        why: Arc<Mutex<Option<String>>>,
        ended: Arc<AtomicBool>,
    }

    impl VerbExecutor for Idle {
        fn region(&self) -> [u64; 4] {
            [0; 4]
        }

        fn connect(&self, _: [u64; 4]) -> Result<(Box<dyn ExecutorQueuePair>, [u64; 4]), String> {
            Err("it makes none".to_owned())
        }

        fn failed(&self) -> Option<String> {
            self.why.lock().unwrap().take()
        }

        fn end(&self) {
            self.ended.store(true, SeqCst);
        }
    }

    fn start(executor: &Idle, spec: &NodeSpec) -> Result<MemoryNode, TcpError> {
        MemoryNode::start_with(spec, Some(&|_| Ok(Box::new(executor.clone()) as Box<dyn VerbExecutor>)))
    }

    fn spec() -> NodeSpec {
        NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 16 << 20)
    }

    #[test]
    fn a_memory_node_ends_when_its_device_fails() {
        let (events, told) = sync_channel(8);
        let executor = Idle::default();
        let node = start(&executor, &NodeSpec { events: Some(events), ..spec() }).unwrap();
        assert!(node.is_running());
        *executor.why.lock().unwrap() = Some("it was pulled out".to_owned());
        let event = told.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(matches!(&event, NodeEvent::Card(why) if why.contains("pulled out")), "{event}");
        let why = node.stop().unwrap_err().to_string();
        assert!(why.contains("pulled out"), "{why}");
        assert!(executor.ended.load(SeqCst), "it releases the memory");
    }

    #[test]
    fn a_device_refuses_a_file_on_a_disk() {
        let path = std::path::PathBuf::from("/proc/self/farwood");
        let file = Some(NodeFile::new(path));
        let why = start(&Idle::default(), &NodeSpec { file, ..spec() }).unwrap_err().to_string();
        assert!(why.contains("tmpfs"), "{why}");
    }
}
