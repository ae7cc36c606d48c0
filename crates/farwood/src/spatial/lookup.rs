//! Lookups in a spatial index: by message or by READs.

use super::caller::Caller;
use super::connection::{Connection, ServerLocation};
use super::idle_rings::IdleRings;
#[cfg(feature = "tcp")]
use super::idle_sockets::{add_socket, keep_socket, remove_socket, take_socket};
use super::index::Spatial;
use super::lookup_kinds::{Lookup, LookupKind, TreeReader};
use super::path_choice::{Choice, PathChoice, Trial};
use super::search_options::{SearchMode, SearchOptions};
#[cfg(feature = "tcp")]
use super::socket::Socket;
#[cfg(feature = "tcp")]
use crate::attachment::Attachment;
use crate::error::Result;
use farwood_fabric::{Access, Client, Server as _};
use farwood_index::IndexError;
#[cfg(feature = "tcp")]
use farwood_index::catfish::SocketRpc;
use farwood_index::catfish::adaptive::{BackOff, SearchPath};
use farwood_index::catfish::{Count, Issue, Request, RingConnection, RingRpc, SpatialRpc as _};
use farwood_transport::any::{AnyFabric, AnyMemory};
use farwood_transport::runtime::block_on;
#[cfg(feature = "tcp")]
use farwood_transport::tcp::{PoolAddress, Token};
#[cfg(feature = "tcp")]
use std::cell::RefCell;
#[cfg(feature = "tcp")]
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest time that a search waits for a response before it uses READs.
const RESPONSE_MAX: Duration = Duration::from_secs(1);
/// Trials for each report of the lookups by READs.
const TRIALS_PER_REPORT: u64 = 8;
/// Pause after a failed attempt to reach the server, before the next one; doubled with each failure in a row.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// A connection to the server of an index in a pool of any kind.
pub(super) type ServerConnection<'c> = Connection<'c, AnyFabric, AnyMemory>;

/// The result of one path.
pub(super) type Done<T> = std::result::Result<T, IndexError>;

/// The choice between the paths of a kind of lookup.
#[derive(Debug)]
pub(super) struct Choices {
    /// While the server is idle.
    idle: PathChoice,
    /// While Algorithm 1 offloads.
    busy: PathChoice,
}

impl Choices {
    fn new() -> Self {
        Self { idle: PathChoice::new(), busy: PathChoice::new() }
    }
}

/// The state of a handle's lookups, which its threads share.
#[derive(Debug)]
pub(super) struct Lookups {
    options: SearchOptions,
    choices: [Choices; LookupKind::COUNT],
    rings: Arc<IdleRings>,
    /// Lookups that the server has executed.
    by_message: AtomicU64,
    by_reads: AtomicU64,
    /// Lookups by READs that the server knows of.
    reported: AtomicU64,
    trials: AtomicU64,
    /// The utilisation in the newest heartbeat, as the bits of a double.
    utilisation: AtomicU64,
    created: Instant,
    /// Milliseconds after `created` before which no lookup tries to reach the server.
    paused_until: AtomicU64,
    /// Failed attempts in a row.
    failures: AtomicU64,
    seeds: AtomicU64,
}

/// Statistics of a handle's lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SearchStats {
    /// Lookups that the server executed.
    pub by_message: u64,
    /// Lookups that this process executed by READs.
    pub by_reads: u64,
    /// The utilisation of the server according to the newest heartbeat; `None`: none has arrived.
    pub server_utilisation: Option<f64>,
    /// The median time of a search by message divided by that by READs, with an idle server; `None`: unknown.
    pub message_to_reads: Option<f64>,
}

impl SearchStats {
    /// The share of lookups by READs.
    pub fn share_offloaded(&self) -> f64 {
        self.by_reads as f64 / (self.by_message + self.by_reads).max(1) as f64
    }
}

/// The back-off of a connection.
enum LentBackOff {
    /// Of rings, which one operation uses.
    Own(BackOff),
    /// Of a socket, which the operations of a thread share.
    #[cfg(feature = "tcp")]
    Shared(Rc<RefCell<BackOff>>),
}

impl LentBackOff {
    fn next(&mut self, heartbeat: Option<f64>) -> SearchPath {
        match self {
            Self::Own(back_off) => back_off.next(heartbeat),
            #[cfg(feature = "tcp")]
            Self::Shared(back_off) => back_off.borrow_mut().next(heartbeat),
        }
    }
}

/// A connection that a call uses. When this is dropped, the connection is kept for the next call. The next call over
/// rings first receives the response of a call that was dropped before its response arrived.
pub(super) struct Lent<'c> {
    lookups: &'c Lookups,
    /// `None` after it was closed.
    held: Option<(ServerConnection<'c>, LentBackOff)>,
}

impl<'c> Lent<'c> {
    fn new(lookups: &'c Lookups, connection: ServerConnection<'c>, back_off: LentBackOff) -> Self {
        Self { lookups, held: Some((connection, back_off)) }
    }

    fn held(&mut self) -> &mut (ServerConnection<'c>, LentBackOff) {
        self.held.as_mut().expect("only the methods that consume it take the connection")
    }

    pub(super) fn connection(&mut self) -> &mut ServerConnection<'c> {
        &mut self.held().0
    }

    /// Closes the connection. If that fails, its rings stay taken until this process detaches from the pool.
    async fn discard(mut self) {
        #[cfg(feature = "tcp")]
        if let Some((Connection::Socket(rpc), _)) = &self.held {
            remove_socket(&self.lookups.rings, rpc.transport());
        }
        // If this is dropped meanwhile, the connection is kept.
        let _ = self.connection().end().await;
        self.held = None;
    }

    /// The server's process may be alive and not answer.
    fn with_response_limit(mut self) -> Self {
        self.held = self.held.take().map(|(connection, back_off)| match connection {
            Connection::Rings(rpc) => {
                let limited = rpc.with_response_limit(RESPONSE_MAX.as_nanos() as u64);
                (Connection::Rings(limited), back_off)
            }
            #[cfg(feature = "tcp")]
            Connection::Socket(_) => (connection, back_off),
        });
        self
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        match self.held.take() {
            Some((Connection::Rings(rpc), LentBackOff::Own(back_off))) => {
                self.lookups.rings.keep(rpc.pause(), back_off);
            }
            #[cfg(feature = "tcp")]
            Some((Connection::Socket(rpc), _)) => keep_socket(&self.lookups.rings, rpc),
            #[cfg(feature = "tcp")]
            Some((Connection::Rings(_), LentBackOff::Shared(_))) => {
                unreachable!("rings have a back-off of their own")
            }
            None => {}
        }
    }
}

impl Lookups {
    pub(super) fn new(options: SearchOptions) -> Self {
        Self {
            options,
            choices: std::array::from_fn(|_| Choices::new()),
            rings: Arc::default(),
            by_message: AtomicU64::new(0),
            by_reads: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            trials: AtomicU64::new(0),
            utilisation: AtomicU64::new(f64::NAN.to_bits()),
            created: Instant::now(),
            paused_until: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            seeds: AtomicU64::new(u64::from(std::process::id()) << 32),
        }
    }

    pub(super) fn options(&self) -> SearchOptions {
        self.options
    }

    pub(super) fn stats(&self) -> SearchStats {
        let utilisation = f64::from_bits(self.utilisation.load(Ordering::Relaxed));
        SearchStats {
            by_message: self.by_message.load(Ordering::Relaxed),
            by_reads: self.by_reads.load(Ordering::Relaxed),
            server_utilisation: Some(utilisation).filter(|utilisation| !utilisation.is_nan()),
            message_to_reads: self.choices[LookupKind::Search as usize].idle.message_to_reads(),
        }
    }

    fn back_off(&self) -> BackOff {
        BackOff::new(self.options.back_off, self.seeds.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn count_by_reads(&self) {
        self.by_reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether lookups do not try to reach the server now.
    fn is_paused(&self) -> bool {
        let until = self.paused_until.load(Ordering::Relaxed);
        until != 0 && (self.created.elapsed().as_millis() as u64) < until
    }

    fn pause_for(&self, pause: Duration) {
        let until = self.created.elapsed() + pause;
        self.paused_until.store(until.as_millis() as u64, Ordering::Relaxed);
    }

    /// Pauses for longer after each failure in a row. Calls that fail together are one failure.
    fn pause_after_failure(&self) {
        if self.is_paused() {
            return;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).min(16) as u32;
        self.pause_for(PAUSE_MIN.saturating_mul(1 << failures).min(PAUSE_MAX));
    }

    fn note_heartbeat(&self, heartbeat: Option<f64>) {
        if let Some(utilisation) = heartbeat {
            self.utilisation.store(utilisation.to_bits(), Ordering::Relaxed);
        }
    }

    /// Whether the newest heartbeat says that the server is busy.
    fn is_busy(&self) -> bool {
        f64::from_bits(self.utilisation.load(Ordering::Relaxed)) > self.options.back_off.threshold
    }
}

/// How a lookup begins.
pub(super) enum Route<'l> {
    Reads,
    Message,
    /// Asks the server, unless it does not answer or Algorithm 1 offloads. With a trial, executes both paths to compare
    /// them.
    Server(&'l Choices, Option<Trial<'l>>),
}

impl Spatial {
    /// Executes a lookup by the path that the options determine.
    pub(super) async fn look_up<L: Lookup>(&self, caller: Caller<'_>, lookup: &L) -> Result<L::Found> {
        let Caller { client, begun, connection_wait } = caller;
        let work = || self.by_route(self.route(L::KIND), (client, connection_wait), lookup);
        let done = client.shared_call(&self.metered, L::OPERATION, begun, work).await;
        done.map_err(|error| self.failed(L::OPERATION, error))
    }

    /// Determines how the next lookup begins.
    pub(super) fn route(&self, kind: LookupKind) -> Route<'_> {
        let choices = &self.lookups.choices[kind as usize];
        match self.lookups.options.mode {
            SearchMode::Reads => Route::Reads,
            SearchMode::Message => Route::Message,
            // Rings are in the memory of the server, and its socket accepts the token for reading and writing.
            SearchMode::Auto if self.pool.attachment().access() == Access::ReadOnly => Route::Reads,
            SearchMode::Auto => match choices.idle.next() {
                Choice::Path(SearchPath::Offload) => Route::Reads,
                Choice::Path(SearchPath::Message) => Route::Server(choices, None),
                // The trial ends when the call is dropped.
                Choice::Trial => Route::Server(choices, Some(choices.idle.trial())),
            },
        }
    }

    pub(super) async fn by_route<L: Lookup>(
        &self,
        route: Route<'_>,
        (client, connection_wait): (&Client<AnyFabric>, Duration),
        lookup: &L,
    ) -> Done<L::Found> {
        // Boxed, because the future of a lookup by READs would otherwise have many kilobytes.
        match route {
            Route::Reads => self.by_reads(client, lookup).await,
            Route::Message => Box::pin(self.by_message((client, connection_wait), lookup)).await,
            Route::Server(choices, trial) => {
                Box::pin(self.with_server((choices, trial), client, lookup)).await
            }
        }
    }

    async fn by_reads<L: Lookup>(&self, client: &Client<AnyFabric>, lookup: &L) -> Done<L::Found> {
        self.lookups.count_by_reads();
        lookup.by_reads(self.tree_reader(client)).await
    }

    /// Sends the lookup to the server; once more, over a new connection, if the server of the first one has ended.
    async fn by_message<L: Lookup>(
        &self,
        (client, connection_wait): (&Client<AnyFabric>, Duration),
        lookup: &L,
    ) -> Done<L::Found> {
        client.check_write()?;
        // Another call of this handle may give a connection back meanwhile.
        let open = || {
            self.when_served(client, connection_wait, async || match self.idle_connection(client) {
                Some(lent) => Ok(lent),
                None => self.new_connection(client).await,
            })
        };
        let mut lent = match self.idle_connection(client) {
            Some(lent) => lent,
            None => open().await?,
        };
        let mut asked = self.ask(&mut lent, lookup).await;
        if matches!(asked, Err(IndexError::ServerLost { .. })) {
            lent.discard().await;
            self.close_idle_rings(client).await;
            lent = open().await?;
            asked = self.ask(&mut lent, lookup).await;
        }
        self.end(lent, client, asked).await
    }

    /// Sends the lookup over `lent`.
    async fn ask<L: Lookup>(&self, lent: &mut Lent<'_>, lookup: &L) -> Done<L::Found> {
        self.lookups.by_message.fetch_add(1, Ordering::Relaxed);
        lookup.by_message(lent.connection()).await
    }

    /// Uses the faster path to an idle server, and offloads from a busy one. Uses READs if no server answers.
    async fn with_server<L: Lookup>(
        &self,
        (choices, trial): (&Choices, Option<Trial<'_>>),
        client: &Client<AnyFabric>,
        lookup: &L,
    ) -> Done<L::Found> {
        let Some(mut lent) = self.reach_server(client).await else {
            drop(trial);
            choices.idle.fail();
            return self.by_reads(client, lookup).await;
        };
        let done = self.by_algorithm_1((choices, trial), &mut lent, client, lookup).await;
        match self.end(lent, client, done).await {
            Err(error) if is_unanswered(&error) => {
                // The other connections may be those of the same server.
                self.close_idle_rings(client).await;
                self.lookups.pause_after_failure();
                choices.idle.fail();
                self.by_reads(client, lookup).await
            }
            done => done,
        }
    }

    /// Catfish §IV-A, Algorithm 1; but a search is not offloaded if READs are slower than a busy server. `trial`
    /// compares the paths while the server is idle.
    async fn by_algorithm_1<L: Lookup>(
        &self,
        (choices, trial): (&Choices, Option<Trial<'_>>),
        lent: &mut Lent<'_>,
        client: &Client<AnyFabric>,
        lookup: &L,
    ) -> Done<L::Found> {
        let heartbeat = lent.connection().take_heartbeat()?;
        self.lookups.note_heartbeat(heartbeat);
        if lent.held().1.next(heartbeat) == SearchPath::Message {
            return match trial.filter(|_| !self.lookups.is_busy()) {
                Some(trial) => self.try_both(trial, lent, client, lookup).await,
                None => self.ask(lent, lookup).await,
            };
        }
        match choices.busy.next() {
            Choice::Trial => self.try_both(choices.busy.trial(), lent, client, lookup).await,
            Choice::Path(SearchPath::Message) => self.ask(lent, lookup).await,
            Choice::Path(SearchPath::Offload) => self.by_reads(client, lookup).await,
        }
    }

    /// Executes the lookup by both paths, and compares the times.
    async fn try_both<L: Lookup>(
        &self,
        trial: Trial<'_>,
        lent: &mut Lent<'_>,
        client: &Client<AnyFabric>,
        lookup: &L,
    ) -> Done<L::Found> {
        let mut message = async || timed(self.ask(lent, lookup)).await;
        let reads = async || timed(self.by_reads(client, lookup)).await;
        // The second path finds the nodes in the processor's cache if the server shares it.
        let ((by_message, message_ns), (by_reads, reads_ns)) = if trial.is_even() {
            (message().await, reads().await)
        } else {
            let by_reads = reads().await;
            (message().await, by_reads)
        };
        let _ = by_message?;
        let done = by_reads?;
        trial.compare(message_ns, reads_ns);
        self.report_offloaded(lent).await?;
        Ok(done)
    }

    /// Reports the lookups by READs since the last report in one trial of several. The server counts them. [1 RT then]
    async fn report_offloaded(&self, lent: &mut Lent<'_>) -> Done<()> {
        if !self.lookups.trials.fetch_add(1, Ordering::Relaxed).is_multiple_of(TRIALS_PER_REPORT) {
            return Ok(());
        }
        let by_reads = self.lookups.by_reads.load(Ordering::Relaxed);
        let reported = self.lookups.reported.load(Ordering::Relaxed);
        let report = Request::Offloaded(by_reads.saturating_sub(reported));
        lent.connection().call(&report, &mut Count::default()).await?;
        self.lookups.reported.fetch_max(by_reads, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn tree_reader<'c>(&'c self, client: &'c Client<AnyFabric>) -> TreeReader<'c> {
        TreeReader::new(&self.index, client, Issue::Many)
    }

    /// Returns the connection after a call, or closes it after a failed one.
    pub(super) async fn end<T>(&self, lent: Lent<'_>, client: &Client<AnyFabric>, done: Done<T>) -> Done<T> {
        match done {
            Ok(_) => self.give_back(lent, client).await,
            Err(_) => lent.discard().await,
        }
        done
    }

    /// A connection to a server that answers messages, unless there was none a moment ago.
    async fn reach_server<'c>(&'c self, client: &'c Client<AnyFabric>) -> Option<Lent<'c>> {
        if let Some(lent) = self.idle_connection(client) {
            return Some(lent.with_response_limit());
        }
        if self.lookups.is_paused() {
            return None;
        }
        if self.index.answers_messages(client).await != Ok(true) {
            self.lookups.pause_for(PAUSE_MIN);
            return None;
        }
        let Ok(lent) = self.new_connection(client).await else {
            self.lookups.pause_after_failure();
            return None;
        };
        self.lookups.failures.store(0, Ordering::Relaxed);
        Some(lent.with_response_limit())
    }

    /// An idle connection to the present server, or a new one.
    pub(super) async fn connection_for_changes<'c>(
        &'c self,
        client: &'c Client<AnyFabric>,
    ) -> Done<Lent<'c>> {
        match self.open_connection(client).await? {
            Some(lent) => Ok(lent),
            None => self.new_connection(client).await,
        }
    }

    /// An idle connection to the present server, if there is one. Closes those whose server has ended.
    pub(super) async fn open_connection<'c>(
        &'c self,
        client: &'c Client<AnyFabric>,
    ) -> Done<Option<Lent<'c>>> {
        while let Some(mut lent) = self.idle_connection(client) {
            let is_open = lent.connection().is_open().await;
            if is_open == Ok(true) {
                return Ok(Some(lent));
            }
            lent.discard().await;
            is_open?;
        }
        Ok(None)
    }

    async fn new_connection<'c>(&'c self, client: &'c Client<AnyFabric>) -> Done<Lent<'c>> {
        if let Some(server) = &self.memory {
            let rings = Connection::open(&self.index, client, ServerLocation::Memory(server)).await?;
            return Ok(Lent::new(&self.lookups, rings, LentBackOff::Own(self.lookups.back_off())));
        }
        #[cfg(feature = "tcp")]
        return self.new_socket(client).await;
        #[cfg(not(feature = "tcp"))]
        Err(IndexError::NotServed { name: self.index.entry().name.clone() })
    }

    /// A connection over this thread's socket to the server. The operations of a thread share it.
    #[cfg(feature = "tcp")]
    async fn new_socket<'c>(&'c self, client: &'c Client<AnyFabric>) -> Done<Lent<'c>> {
        let token = self.server_token()?;
        let port = self.index.port(client).await?;
        // Another operation of this thread may have connected meanwhile.
        match self.idle_connection(client) {
            Some(lent) => Ok(lent),
            None => self.connect_socket(client, (port, token)).await,
        }
    }

    /// The token that the server on another machine expects.
    #[cfg(feature = "tcp")]
    pub(super) fn server_token(&self) -> Done<Option<Token>> {
        Socket::token(&self.index, self.machine()?)
    }

    /// Opens this thread's socket to the server.
    #[cfg(feature = "tcp")]
    pub(super) async fn connect_socket<'c>(
        &'c self,
        client: &'c Client<AnyFabric>,
        (port, token): (u16, Option<Token>),
    ) -> Done<Lent<'c>> {
        let at = (self.machine()?, port);
        let socket = Socket::connect(&self.index, client, at, token.as_ref()).await?;
        let back_off = Rc::new(RefCell::new(self.lookups.back_off()));
        add_socket(&self.lookups.rings, socket.clone(), Rc::clone(&back_off));
        let connection = Connection::Socket(SocketRpc::new(socket));
        Ok(Lent::new(&self.lookups, connection, LentBackOff::Shared(back_off)))
    }

    /// The location of a server on another machine.
    #[cfg(feature = "tcp")]
    fn machine(&self) -> Done<&PoolAddress> {
        match self.pool.attachment() {
            Attachment::Tcp(pool) => Ok(pool.address()),
            #[cfg(feature = "rdma")]
            Attachment::Rdma(pool) => Ok(pool.address()),
            _ => Err(IndexError::NotServed { name: self.index.entry().name.clone() }),
        }
    }

    fn idle_connection<'c>(&'c self, client: &'c Client<AnyFabric>) -> Option<Lent<'c>> {
        if self.memory.is_some() {
            return self.lookups.rings.take().and_then(|idle| self.through_rings(idle, client));
        }
        #[cfg(feature = "tcp")]
        if let Some((rpc, back_off)) = take_socket(&self.lookups.rings) {
            return Some(Lent::new(&self.lookups, Connection::Socket(rpc), LentBackOff::Shared(back_off)));
        }
        None
    }

    /// Keeps a connection for the next call, and closes one that no call has used for a while.
    pub(super) async fn give_back(&self, lent: Lent<'_>, client: &Client<AnyFabric>) {
        drop(lent);
        if let Some(unused) =
            self.lookups.rings.take_unused().and_then(|idle| self.through_rings(idle, client))
        {
            unused.discard().await;
        }
    }

    /// Continues an idle connection through rings.
    fn through_rings<'c>(
        &'c self,
        (rings, back_off): (Box<RingConnection>, BackOff),
        client: &'c Client<AnyFabric>,
    ) -> Option<Lent<'c>> {
        let rpc = RingRpc::resume(&self.index, client, self.memory.as_ref()?.local(), rings);
        Some(Lent::new(&self.lookups, Connection::Rings(rpc), LentBackOff::Own(back_off)))
    }

    /// Closes all idle connections of this handle through rings.
    async fn close_idle_rings(&self, client: &Client<AnyFabric>) {
        while let Some(idle) = self.lookups.rings.take().and_then(|idle| self.through_rings(idle, client)) {
            idle.discard().await;
        }
    }

    /// Closes all idle connections of this handle through rings. In a forked child they belong to the parent, and stay
    /// open.
    pub(super) fn close_idle_connections(&self) {
        if self.pool.forks().is_current() && self.lookups.rings.has_some() {
            block_on(self.close_idle_rings(&self.pool.attachment().client()));
        }
    }
}

/// Whether a lookup by message failed because no server answered it, so that READs can execute it.
fn is_unanswered(error: &IndexError) -> bool {
    matches!(
        error,
        IndexError::ServerLost { .. }
            | IndexError::NoAnswer { .. }
            | IndexError::NoConnection { .. }
            | IndexError::NotServed { .. }
            | IndexError::Crowded { .. }
            | IndexError::NoAccess { .. }
    )
}

/// The result of `run` and the nanoseconds that it took.
async fn timed<T>(run: impl Future<Output = T>) -> (T, u64) {
    let begun = Instant::now();
    let done = run.await;
    (done, begun.elapsed().as_nanos() as u64)
}
