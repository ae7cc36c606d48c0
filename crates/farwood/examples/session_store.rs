//! A store of sessions with expiry, counters and a lock, which three processes use at the same time.
//!
//! `cargo run --example session_store`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::testing::ScratchPool;
use farwood::{BTree, Index, Pool, Radix};
use std::process::Command;
use std::time::{Duration, SystemTime};

const PROCESSES: u64 = 3;
const LOG_INS: u64 = 300;
const LIFETIME: Duration = Duration::from_millis(20);

type Failure = Box<dyn std::error::Error>;

/// The user of a session, and the time at which the session expires.
type Session = (u64, SystemTime);

struct Store {
    /// Texts of any length to sessions.
    sessions: Index<String, Session>,
    counters: Index<String, u64>,
    /// Names of tasks to the process that does the task, and the time until which it may.
    locks: Index<[u8; 8], (u64, SystemTime)>,
}

impl Store {
    fn open(pool: &Pool) -> farwood::Result<Self> {
        Ok(Self {
            sessions: pool.open_or_create("sessions", &Radix::new())?,
            counters: pool.open_or_create("counters", &Radix::new())?,
            locks: pool.open_or_create("locks", &BTree::new())?,
        })
    }

    /// Starts a session, unless its token is in use.
    fn log_in(&self, token: &str, user: u64) -> farwood::Result<bool> {
        let is_new = self.sessions.insert(token, (user, SystemTime::now() + LIFETIME))?;
        if is_new {
            self.counters.fetch_add("log-ins", 1)?;
        }
        Ok(is_new)
    }

    /// Renews a session; returns its user, or `None` if the session has expired.
    fn renew(&self, token: &str) -> farwood::Result<Option<u64>> {
        let now = SystemTime::now();
        let before = self.sessions.fetch_update(token, |session| {
            // `None` would remove the session.
            session.map(|&(user, expires)| (user, if expires > now { now + LIFETIME } else { expires }))
        })?;
        Ok(before.and_then(|(user, expires)| (expires > now).then_some(user)))
    }

    /// Removes expired sessions. A session that is renewed meanwhile stays.
    fn sweep(&self) -> farwood::Result<u64> {
        let now = SystemTime::now();
        let removed = self.sessions.range(..).remove_if(|_, (_, expires)| *expires <= now)?;
        self.counters.fetch_add("expired", removed)?;
        Ok(removed)
    }

    /// Acquires a lock for a second; returns whether this process has it. The lock of a killed process expires.
    fn try_lock(&self, task: [u8; 8], process: u64) -> farwood::Result<bool> {
        let (now, holder) = (SystemTime::now(), self.locks.get(task)?);
        if holder.is_some_and(|(_, until)| until > now) {
            return Ok(false);
        }
        let taken = self.locks.compare_exchange(
            task,
            holder.as_ref(),
            Some(&(process, now + Duration::from_secs(1))),
        )?;
        Ok(taken.is_ok())
    }

    fn unlock(&self, task: [u8; 8], process: u64) -> farwood::Result<()> {
        self.locks.remove_if(task, |&(holder, _)| holder == process)?;
        Ok(())
    }
}

/// One process of the service.
fn serve(store: &Store, process: u64) -> farwood::Result<()> {
    for number in 0..LOG_INS {
        assert!(store.log_in(&format!("{process}/{number}"), process)?);
        // The last ten sessions are renewed, so they do not expire.
        for recent in number.saturating_sub(9)..=number {
            store.renew(&format!("{process}/{recent}"))?;
        }
        if store.try_lock(*b"sweeping", process)? {
            store.sweep()?;
            store.unlock(*b"sweeping", process)?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, url, process] = &arguments[..] {
        return Ok(serve(&Store::open(&Pool::open(url)?)?, process.parse()?)?);
    }
    let scratch = ScratchPool::new(128 << 20)?;
    let store = Store::open(&scratch.open()?)?;
    let start = |process: u64| {
        Command::new(std::env::current_exe()?).args([scratch.url(), &process.to_string()]).spawn()
    };
    let children: Vec<_> = (1..=PROCESSES).map(start).collect::<Result<_, _>>()?;
    for mut child in children {
        assert!(child.wait()?.success());
    }
    std::thread::sleep(2 * LIFETIME);
    store.sweep()?;
    let counted = |name: &str| store.counters.get(name).map(Option::unwrap_or_default);
    println!("{} log-ins, {} sessions expired", counted("log-ins")?, counted("expired")?);
    assert_eq!(counted("log-ins")?, PROCESSES * LOG_INS);
    assert_eq!((counted("expired")?, store.sessions.count()?), (PROCESSES * LOG_INS, 0));
    Ok(())
}
