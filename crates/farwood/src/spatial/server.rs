//! The server of a spatial index: threads that answer messages in rings and over sockets.

use super::index::Spatial;
use super::server_lease::ServerLease;
use super::utilisation::ServerThreads;
use crate::argument::Call;
use crate::error::Result;
use farwood_fabric::Client;
#[cfg(feature = "tcp")]
use farwood_fabric::{NodeId, Server as _, chunk_limit, superblock};
use farwood_index::IndexError;
use farwood_index::catfish::{
    CONNECTIONS_MAX, NotificationMode, ServerSettings, ServerStats, Service, ServiceSettings,
};
use farwood_transport::any::{AnyFabric, AnyServer};
use farwood_transport::runtime::{block_on, run_all};
#[cfg(feature = "tcp")]
use farwood_transport::tcp::{AcceptedTokens, TcpServer};
use std::future::Future;
#[cfg(feature = "tcp")]
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The options of a server.
#[derive(Debug)]
pub struct ServeOptions {
    /// Threads that answer messages in rings, at least 1.
    pub threads: usize,
    /// The maximum number of connections through rings, 1 to 512.
    pub connections: usize,
    /// The way in which the server detects requests in rings.
    pub notice: NotificationMode,
    /// The interval of heartbeats, which report the utilisation to the clients: 1 ms to 10 s.
    pub heartbeat: Duration,
    /// Receives the statistics of the server while it runs.
    pub monitor: Option<ServerMonitor>,
    /// A listener for requests over sockets, each served by its own thread.
    #[cfg(feature = "tcp")]
    pub listener: Option<TcpListener>,
    /// The accepted tokens: a client of the socket must know one of them.
    #[cfg(feature = "tcp")]
    pub token: Option<AcceptedTokens>,
    /// Over TCP: the memory node of the index, which must be in this process.
    #[cfg(feature = "tcp")]
    pub memory_node: Option<TcpServer>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            connections: 64,
            notice: NotificationMode::Event,
            heartbeat: HEARTBEAT_DEFAULT,
            monitor: None,
            #[cfg(feature = "tcp")]
            listener: None,
            #[cfg(feature = "tcp")]
            token: None,
            #[cfg(feature = "tcp")]
            memory_node: None,
        }
    }
}

impl ServeOptions {
    /// Whether clients connect through rings: over TCP they use the socket only.
    fn has_rings(&self) -> bool {
        #[cfg(feature = "tcp")]
        return self.memory_node.is_none();
        #[cfg(not(feature = "tcp"))]
        true
    }
}

/// The statistics of a server, which other threads of its process read. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ServerMonitor(Arc<Mutex<Option<ServerStats>>>);

impl ServerMonitor {
    /// The statistics, at most 20 ms old; `None`: the server does not run.
    pub fn stats(&self) -> Option<ServerStats> {
        *self.stored()
    }

    fn stored(&self) -> MutexGuard<'_, Option<ServerStats>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The interval of heartbeats (Catfish §IV-A).
const HEARTBEAT_DEFAULT: Duration = Duration::from_millis(10);
/// The limits of that interval.
const HEARTBEATS: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);

/// Maximum threads of a server: each needs at least one connection.
const THREADS_MAX: usize = CONNECTIONS_MAX;

/// The pause between two checks whether the server must stop.
const LOOK: Duration = Duration::from_millis(20);

/// The longest time that a server waits for a client that changes the index itself.
const OTHER_SERVER_MAX: Duration = Duration::from_secs(2);

/// One task of a server.
type Flow<'f> = Pin<Box<dyn Future<Output = std::result::Result<(), IndexError>> + 'f>>;

/// The state that the threads of a server share.
pub(super) struct Serving<'s> {
    pub(super) spatial: &'s Spatial,
    #[cfg(feature = "tcp")]
    pub(super) tree: &'s farwood_index::catfish::TreeServer,
    pub(super) service: &'s Service<'s>,
    pub(super) options: &'s ServeOptions,
    pub(super) threads: ServerThreads,
}

impl Spatial {
    /// Serves the index until `stop` is set: answers messages and applies the changes that they request. Calls `ready`
    /// when the server is ready.
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index): another process serves the index, or the pool is full; over TCP, this
    /// process is not its memory node. [`Error::Argument`](crate::Error::Argument): the number of threads or
    /// connections, or the interval of heartbeats is out of range.
    pub fn serve(&self, options: &ServeOptions, stop: &AtomicBool, ready: impl FnOnce()) -> Result<()> {
        self.here().serve_by_own(options, stop, ready)
    }

    /// As [`serve`](Self::serve), with a handle that this process has opened.
    fn serve_by_own(&self, options: &ServeOptions, stop: &AtomicBool, ready: impl FnOnce()) -> Result<()> {
        self.check_writer("serve")?;
        let call = || Call { operation: "serve", url: self.url() };
        call().check_count("number of threads", options.threads, THREADS_MAX)?;
        if options.has_rings() {
            call().check_count("number of connections", options.connections, CONNECTIONS_MAX)?;
        }
        if !HEARTBEATS.contains(&options.heartbeat) {
            let given = format!("{:?}", options.heartbeat);
            return Err(call().refused("heartbeat interval", given, "give 1 ms to 10 s"));
        }
        let client = self.client();
        let server = self.server_role(options)?;
        let failed = |error| self.failed("serve", error);
        let tree = {
            let _permit = self.pool.server_permit();
            // As clients that read the nodes: over a network they verify hashes, in shared memory they do not.
            let settings =
                ServerSettings { verifies_searches: !options.has_rings(), ..ServerSettings::default() };
            let tree = self.begin_to_serve(&client, &server, settings, stop).map_err(failed)?;
            ServerLease::of(tree, &client)
        };
        let heartbeat_ns = options.heartbeat.as_nanos() as u64;
        let settings = ServiceSettings { notice: options.notice, heartbeat_ns, ..ServiceSettings::default() };
        let service = Service::new(&tree, settings);
        let serving = Serving {
            spatial: self,
            #[cfg(feature = "tcp")]
            tree: &tree,
            service: &service,
            options,
            threads: ServerThreads::default(),
        };
        tree.publish_connections(&server, options.connections).map_err(failed)?;
        #[cfg(feature = "tcp")]
        if let Some(Ok(address)) = options.listener.as_ref().map(TcpListener::local_addr) {
            tree.announce(&server, address.port()).map_err(failed)?;
        }
        ready();
        let served = serving.run(stop);
        tree.release().map_err(|error| self.failed("serve", error))?;
        served.map_err(failed)
    }

    /// Becomes the server; waits for a client that is the server for the duration of one change or load.
    fn begin_to_serve(
        &self,
        client: &Client<AnyFabric>,
        server: &AnyServer,
        settings: ServerSettings,
        stop: &AtomicBool,
    ) -> std::result::Result<farwood_index::catfish::TreeServer, IndexError> {
        let until = Instant::now() + OTHER_SERVER_MAX;
        loop {
            match block_on(self.index.serve(client, server, settings)) {
                Err(IndexError::Served { .. } | IndexError::BeingChanged { .. })
                    if Instant::now() < until && !stop.load(Ordering::Acquire) =>
                {
                    std::thread::sleep(LOOK);
                }
                begun => return begun,
            }
        }
    }

    /// Bytes of host memory of memory node 0, which are like those of the others.
    #[cfg(feature = "tcp")]
    pub(super) fn memory_bytes(&self) -> u64 {
        let read = block_on(chunk_limit::memory_bytes(&self.client(), NodeId(0)));
        // The other calls of a server whose memory node is lost fail as well.
        read.unwrap_or(self.pool.attachment().shape().host_bytes)
    }

    pub(super) fn client(&self) -> Client<AnyFabric> {
        self.pool.attachment().client()
    }

    /// The server of the memory node: over TCP, the memory node itself.
    pub(super) fn server_role(&self, options: &ServeOptions) -> Result<AnyServer> {
        #[cfg(feature = "tcp")]
        if let Some(node) = &options.memory_node {
            let home = self.index.layout().node;
            let pool = self.pool.attachment().shape().pool;
            if superblock::shape_in(node.local(), home).is_ok_and(|shape| shape.pool == pool) {
                return Ok(node.clone().into());
            }
            let name = self.index.entry().name.clone();
            return Err(self.failed("serve", IndexError::Elsewhere { name, node: home }));
        }
        let _ = options;
        self.server("serve")
    }
}

impl Serving<'_> {
    /// Runs all threads until `stop` is set or one of them fails.
    fn run(&self, stop: &AtomicBool) -> std::result::Result<(), IndexError> {
        let threads = self.options.threads;
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..threads).map(|thread| scope.spawn(move || self.rings(thread, threads))).collect();
            let ended = &ended;
            #[cfg(feature = "tcp")]
            let sockets = scope.spawn(move || self.serve_sockets(ended));
            let watch = scope.spawn(|| {
                let watched = self.watch(stop);
                self.service.end();
                watched
            });
            let mut done = self.rings(0, threads);
            // A failed thread ends the others.
            self.service.end();
            ended.store(true, Ordering::Release);
            for other in others {
                done = done.and(joined(other));
            }
            done = done.and(joined(watch));
            #[cfg(feature = "tcp")]
            joined(sockets);
            done
        })
    }

    /// Waits until `stop` is set, the service has ended, or the files of the pool are lost. Reports the statistics
    /// meanwhile.
    fn watch(&self, stop: &AtomicBool) -> std::result::Result<(), IndexError> {
        let report = |stats| {
            if let Some(monitor) = &self.options.monitor {
                *monitor.stored() = stats;
            }
        };
        let mut watched = Ok(());
        while watched.is_ok() && !stop.load(Ordering::Acquire) && !self.service.has_ended() {
            report(Some(self.service.stats()));
            watched = self.spatial.pool.attachment().check_files();
            std::thread::sleep(LOOK);
        }
        report(None);
        Ok(watched?)
    }

    /// Serves one thread's share of the rings; thread 0 also receives immediates and sends heartbeats. Over TCP there
    /// are no rings: clients use the socket.
    fn rings(&self, thread: usize, threads: usize) -> std::result::Result<(), IndexError> {
        let (service, options) = (self.service, self.options);
        let _membership = self.threads.rings.join();
        let Ok(server) = self.spatial.server_role(options) else {
            unreachable!("the server role was found when the server started")
        };
        let has_rings = options.has_rings();
        let connections = if has_rings { options.connections } else { 0 };
        let numbers = (thread..connections).step_by(threads);
        let clients: Vec<_> = numbers.map(|number| (number, self.spatial.client())).collect();
        let own = self.spatial.client();
        let mut flows: Vec<Flow<'_>> = Vec::new();
        for (number, client) in &clients {
            flows.push(Box::pin(service.connection(*number, client, &server)));
        }
        if thread == 0 {
            flows.push(Box::pin(service.heartbeats(&own, &server, self.threads.utilisation(service))));
            // Clients send immediates to a polling server, too. If it did not receive them, their queue would fill up.
            if has_rings {
                flows.push(Box::pin(service.dispatch_until_end(&server, &own)));
            }
        }
        let flows = flows.into_iter().map(|flow| {
            Box::pin(async move {
                let done = flow.await;
                if done.is_err() {
                    service.end();
                }
                done
            }) as Flow<'_>
        });
        run_all(flows.collect()).into_iter().collect()
    }
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
