//! `farwood serve --spatial`: the server of a spatial index. In shared memory the process runs only this server; over
//! TCP it also runs the memory node.

use super::super::{Context, Failure, Format, Outcome};
use super::{Args, LOOK, system};
use farwood::error::{FabricError, IndexError, TcpError};
use farwood::internal::printable;
use farwood::node::{AcceptedTokens, MemoryNode};
use farwood::spatial::{NotificationMode, ServeOptions, ServerMonitor, Spatial};
use farwood::{Error, Pool, Url};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The error for a pool without --spatial: only a spatial index needs a server.
pub(super) fn nothing_to_serve(url: &Url) -> Failure {
    if url.to_string().starts_with("tcp://") {
        return Failure::Usage(format!(
            "serve {url}: --listen is missing; to run a memory node at this address, write `farwood serve --listen {}`",
            url.pool_url().to_shell_word()
        ));
    }
    Failure::Usage(format!(
        "serve {url}: the pool exists already and needs no server; to serve a spatial index in it, give --spatial INDEX"
    ))
}

impl Args {
    fn options(
        &self,
        listen: Option<IpAddr>,
        token: Option<AcceptedTokens>,
    ) -> Result<ServeOptions, Failure> {
        let failed = |source| Failure::Farwood(Error::Tcp { operation: "serve", source });
        let bind = |address: IpAddr| {
            let refused = |error| failed(TcpError::Listen { address: address.to_string(), error });
            TcpListener::bind((address, 0)).map_err(refused)
        };
        let default = ServeOptions::default();
        Ok(ServeOptions {
            threads: self.threads.unwrap_or(default.threads),
            notice: if self.polling { NotificationMode::Polling } else { NotificationMode::Event },
            heartbeat: Duration::from_millis(self.heartbeat),
            listener: listen.map(bind).transpose()?,
            token,
            ..default
        })
    }
}

/// The pause between two checks whether a damaged index was replaced; each attaches to the pool.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Serves a spatial index in shared memory.
pub(super) fn serve(url: &Url, args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let Some(name) = args.spatial.as_deref() else { return Err(nothing_to_serve(url)) };
    if let Some(other) = url.index().filter(|index| *index != name) {
        return Err(Failure::Usage(format!(
            "serve {url}: this URL names the index '{other}', and --spatial names '{name}'; give the URL of the pool"
        )));
    }
    if args.requests && args.token_file.is_none() && !args.insecure {
        return Err(Failure::Usage(format!(
            "serve {url}: with --requests every user of this machine could change the index, also users who may not \
             open the pool; give --token-file, or --insecure if you trust all of them"
        )));
    }
    args.warn_of_secrets(context)?;
    let stop = flag_of(&[SIGTERM, SIGINT])?;
    let index = Pool::find(url.pool_url())?.open_spatial(name)?;
    let listen = args.requests.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let tokens = super::tokens_of(args.token_file.as_deref())?;
    let hangup = flag_of(&[SIGHUP])?;
    let mut options = args.options(listen, tokens.clone())?;
    if context.is_given("connections") {
        options.connections = args.connections;
    }
    let at = index.url();
    let mut told = Ok(());
    std::thread::scope(|scope| {
        scope.spawn(|| reload_until(&stop, &hangup, args, tokens.as_ref()));
        let _stop = StopOnDrop(&stop);
        index.serve(&options, &stop, || {
            told = tell(&at, context);
            // Scripts would wait for the line forever.
            stop.fetch_or(told.is_err(), Ordering::AcqRel);
        })
    })?;
    told?;
    writeln!(context.messages, "{at}: stopped")?;
    Ok(Outcome::Done)
}

/// Stops the thread that waits for signals, also if the server panics.
struct StopOnDrop<'s>(&'s AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Returns a flag that these signals set.
fn flag_of(signals: &[i32]) -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(*signal, Arc::clone(&flag)).map_err(system("wait for signals"))?;
    }
    Ok(flag)
}

/// Reads the tokens again whenever `hangup` is set, until `stop` is set.
fn reload_until(stop: &AtomicBool, hangup: &AtomicBool, args: &Args, tokens: Option<&AcceptedTokens>) {
    while !stop.load(Ordering::Acquire) {
        if hangup.swap(false, Ordering::AcqRel) {
            let (words, _) = args.reload([tokens, None], None);
            // If stderr is closed, the server continues without messages.
            let _ = writeln!(std::io::stderr(), "{}", printable(&words));
        }
        std::thread::sleep(LOOK);
    }
}

/// Prints the line that reports readiness. Scripts wait for it.
fn tell(at: &str, context: &mut Context<'_>) -> Result<(), Failure> {
    match context.format {
        Format::Json => context.json(&json!({ "serving": at }))?,
        Format::Text => writeln!(context.out, "{at}: serving")?,
    }
    Ok(context.out.flush()?)
}

/// The server of an index, in a thread of the memory node's process.
pub(super) struct Beside {
    stop: Arc<AtomicBool>,
    /// Whether the server is ready and the command has not printed that yet.
    ready: Arc<AtomicBool>,
    /// The damage of the index, if the command has not printed it yet.
    damage: Arc<Mutex<Option<Error>>>,
    at: String,
    /// The thread; `None` after it was joined.
    thread: Option<JoinHandle<Result<(), Error>>>,
    /// The result, if the server ended without a signal.
    ended: Option<std::thread::Result<Result<(), Error>>>,
}

impl Beside {
    /// Starts the thread. The server starts as soon as the index exists.
    pub(super) fn start(
        args: &Args,
        name: &str,
        listen: &str,
        (node, token): (&MemoryNode, Option<AcceptedTokens>),
        monitor: ServerMonitor,
    ) -> Result<Self, Failure> {
        if args.tls_cert.is_some() {
            return Err(Failure::Usage(
                "serve: a spatial index cannot be served over TLS; omit --spatial or --tls-cert".to_owned(),
            ));
        }
        let pool = pool_of(args, listen)?;
        let mut options = args.options(Some(node.address().ip()), token)?;
        options.memory_node = Some(node.server());
        options.monitor = Some(monitor);
        let (stop, ready) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (thread_stop, thread_ready, index) = (Arc::clone(&stop), Arc::clone(&ready), name.to_owned());
        let at = format!("{listen}/{name}");
        let damage = Arc::new(Mutex::new(None));
        let thread_damage = Arc::clone(&damage);
        let thread = std::thread::spawn(move || {
            loop {
                let served = wait_for(&pool, &index, &thread_stop).and_then(|found| match found {
                    Some(found) => {
                        found.serve(&options, &thread_stop, || thread_ready.store(true, Ordering::Release))
                    }
                    None => Ok(()),
                });
                match served {
                    Err(error) if is_damage(&error) => {
                        let number = number_of(&pool, &index);
                        *thread_damage.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        wait_for_another(number, &pool, &index, &thread_stop);
                    }
                    served => return served,
                }
            }
        });
        Ok(Self { stop, ready, damage, at, thread: Some(thread), ended: None })
    }

    /// Prints that the server is ready, or reports why it ended.
    pub(super) fn tell(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        if self.ready.swap(false, Ordering::AcqRel) {
            tell(&self.at, context)?;
        }
        let damage = self.damage.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(error) = damage {
            writeln!(
                context.messages,
                "{}: no longer served: {}; drop it and create it again: the memory node continues, and serves the new \
                 index",
                self.at,
                error.message_of_command()
            )?;
        }
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            let why = match self.ended.insert(thread.join()) {
                Ok(Ok(())) => String::new(),
                Ok(Err(error)) => format!(": {}", error.message_of_command()),
                Err(_) => ": its thread panicked".to_owned(),
            };
            writeln!(context.messages, "{}: no longer served{why}; the memory node continues", self.at)?;
        }
        Ok(())
    }

    /// Stops the server and returns its result, also if it had ended earlier.
    pub(super) fn stop(self) -> std::thread::Result<Result<(), Error>> {
        self.stop.store(true, Ordering::Release);
        self.thread.map(JoinHandle::join).or(self.ended).unwrap_or(Ok(Ok(())))
    }
}

/// The URL of the pool that contains the index. If that is this memory node alone, the environment has no effect.
fn pool_of(args: &Args, listen: &str) -> Result<Url, Error> {
    let url = if let Some(url) = &args.url {
        url.pool_url()
    } else {
        // The device that executes the verbs also connects this process to itself.
        let device = args.rdma.as_ref().map(|device| format!("?device={device}")).unwrap_or_default();
        format!("{listen}{device}").parse::<Url>()?.ignoring_environment()
    };
    Ok(match &args.token_file {
        Some(file) => url.or_token_file(file),
        None => url,
    })
}

/// Whether the index is damaged, and its memory node is not.
fn is_damage(error: &Error) -> bool {
    let Error::Index { source, .. } = error else { return false };
    matches!(source, IndexError::Damaged { .. } | IndexError::Fabric(FabricError::Damaged { .. }))
}

/// The number of the index of that name, which no other index of the pool ever has.
fn number_of(pool: &Url, name: &str) -> Option<u64> {
    Pool::find(pool).and_then(|pool| pool.index_use(name)).ok().map(|index| index.entry.number)
}

/// Waits until the index of that name is another one than the damaged index of that number, or the memory node stops.
fn wait_for_another(damaged: Option<u64>, pool: &Url, name: &str, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        std::thread::sleep(LOOK_AGAIN);
        let number = number_of(pool, name);
        if number.is_some() && number != damaged {
            return;
        }
    }
}

/// Waits until the index exists and opens it. Returns `None` if the memory node stops first.
fn wait_for(pool: &Url, name: &str, stop: &AtomicBool) -> Result<Option<Spatial>, Error> {
    let mut open = None;
    while !stop.load(Ordering::Acquire) {
        // Another memory node of the pool may not have started yet.
        if open.is_none() {
            open = Pool::find(pool).ok();
        }
        // An index of keys with this name may be dropped, and created again for rectangles.
        let found = open
            .as_ref()
            .map(|pool| if pool.is_spatial(name)? { pool.open_spatial(name).map(Some) } else { Ok(None) });
        match found {
            Some(Ok(Some(index))) => return Ok(Some(index)),
            Some(Ok(None) | Err(Error::Index { source: IndexError::NoSuchIndex(_), .. })) | None => {}
            Some(Err(error)) => return Err(error),
        }
        std::thread::sleep(LOOK);
    }
    Ok(None)
}
