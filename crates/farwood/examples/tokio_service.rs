//! A store of sessions in a tokio service: log-ins, renewals and counters with time limits, a sweep of expired
//! sessions, and an end at Ctrl-C or the end of the input that loses no call.
//!
//! `cargo run --example tokio_service`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::{AsyncIndex, BTree, Index, Pool, PoolOptions, Radix};
use std::io::{Read as _, stdin};
use std::time::{Duration, SystemTime};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

const USERS: u64 = 20;
/// A session expires after this time without a renewal.
const LIFETIME: Duration = Duration::from_millis(50);
/// The service reports a failure to its user after this time. The call ends nevertheless.
const ANSWER_MAX: Duration = Duration::from_secs(2);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Sessions by number: the user, and the time at which the session expires.
type Session = (u64, SystemTime);

#[derive(Clone)]
struct Store {
    sessions: AsyncIndex<u64, Session>,
    counters: AsyncIndex<String, u64>,
}

impl Store {
    async fn log_in(&self, number: u64, user: u64) -> Result<(), Failure> {
        timeout(ANSWER_MAX, self.sessions.insert(number, (user, SystemTime::now() + LIFETIME))).await??;
        // Nobody waits for the count; the call is executed all the same.
        drop(self.counters.fetch_add("log-ins", 1));
        Ok(())
    }

    /// Renews a session; returns whether it had not expired.
    async fn renew(&self, number: u64) -> Result<bool, Failure> {
        let now = SystemTime::now();
        let renewed = self.sessions.fetch_update(number, move |session| {
            let (user, expires) = *session?;
            // `None` would remove the session; the sweep removes an expired one.
            Some((user, if expires < now { expires } else { now + LIFETIME }))
        });
        Ok(timeout(ANSWER_MAX, renewed).await??.is_some_and(|(_, expires)| expires >= now))
    }
}

/// A user who logs in, and logs in again when the session has expired because the visits are rare.
async fn use_service(store: Store, user: u64, stop: watch::Receiver<bool>) -> Result<(), Failure> {
    for number in (user..).step_by(USERS as usize) {
        store.log_in(number, user).await?;
        while store.renew(number).await? {
            if *stop.borrow() {
                return Ok(());
            }
            sleep(Duration::from_millis(4 * user + 1)).await;
        }
    }
    Ok(())
}

/// Removes expired sessions every 20 ms. A renewal during the sweep is not lost.
async fn sweep(sessions: Index<u64, Session>, mut stop: watch::Receiver<bool>) -> Result<u64, Failure> {
    let mut removed = 0;
    // A change of `stop` ends the pause.
    while timeout(Duration::from_millis(20), stop.changed()).await.is_err() {
        let sessions = sessions.clone();
        // A range blocks its thread.
        let is_expired = |_: &u64, (_, expires): &Session| *expires < SystemTime::now();
        removed += spawn_blocking(move || sessions.range(..).remove_if(is_expired)).await??;
    }
    Ok(removed)
}

/// Waits for Ctrl-C or the end of the input.
async fn end_of_service() -> Result<(), Failure> {
    let (sender, input_ended) = oneshot::channel();
    std::thread::spawn(move || sender.send(stdin().read_to_end(&mut Vec::new())));
    tokio::select! {
        ended = tokio::signal::ctrl_c() => Ok(ended?),
        ended = input_ended => Ok(ended?.map(drop)?),
    }
}

#[tokio::main]
async fn serve(sessions: Index<u64, Session>, counters: &Index<String, u64>) -> Result<(), Failure> {
    let store = Store { sessions: sessions.to_async()?, counters: counters.to_async()? };
    let (stop, stopped) = watch::channel(false);
    let users: JoinSet<_> =
        (0..USERS).map(|user| use_service(store.clone(), user, stopped.clone())).collect();
    let sweeping = tokio::spawn(sweep(sessions, stopped));
    end_of_service().await?;
    stop.send_replace(true);
    users.join_all().await.into_iter().collect::<Result<(), _>>()?;
    let removed = sweeping.await??;
    // The forgotten calls have ended as well.
    store.counters.finished().await;
    let log_ins = store.counters.get("log-ins").await?.unwrap_or_default();
    assert_eq!(store.sessions.count().await?, log_ins - removed);
    println!("{log_ins} log-ins, {removed} expired sessions removed");
    Ok(())
}

fn main() -> Result<(), Failure> {
    let url = format!("shm://example-tokio-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    let pool = Pool::open(&url)?;
    let sessions = pool.create_index("sessions", &BTree::new())?;
    let counters = pool.create_index("counters", &Radix::new())?;
    let done = serve(sessions, &counters);
    drop((counters, pool));
    Pool::remove_by_force(&url)?;
    done
}
