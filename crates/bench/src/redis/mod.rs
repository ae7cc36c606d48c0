//! Redis as what Farwood over TCP is measured against: the same streams of operations, one connection for each thread,
//! and as many requests outstanding on it as the thread has clients.
//!
//! A batch goes as `redis-benchmark -P` sends it: one command for each client of the thread, in one write; the next
//! batch when all replies are in. Keys and values are strings; where a workload scans, they are the members of one
//! sorted set, key and value behind each other, which `ZRANGEBYLEX` yields in the order of the keys.

mod resp;

use std::io::Write;
use std::net::SocketAddr;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::keys::Keys;
use crate::measure::{CostTotals, Measurement, OperationKind};
use crate::run::Amount;
use crate::run::node::{Pair, streams_by_thread, until};
use crate::run::protocol::ClientsJob;
use crate::run::seat::{Buffers, First, subject_of};
use crate::run::team::{self, Hand};
use crate::run::worker::Parent;
use crate::values::fill_value;
use crate::workload::{Operation, OperationStream, Workload};
use crate::{Error, Result};
use resp::{Line, Reply, failure};

/// The name on the command line and in records.
pub(crate) const NAME: &str = "redis";
/// The sorted set.
const SET: &[u8] = b"farwood";
/// Entries that a load sends before it waits for replies.
const LOAD_STEP: usize = 1000;

/// A process of clients of Redis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RedisJob {
    /// Where the server listens.
    pub(crate) address: SocketAddr,
    /// Whether this process loads the keys.
    pub(crate) loads: bool,
    pub(crate) clients: ClientsJob,
}

/// How entries lie in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Strings,
    SortedSet,
}

/// Refuses workloads that Redis has no single command for.
pub(crate) fn check(workload: Workload) -> Result<()> {
    form(workload).map(drop)
}

fn form(workload: Workload) -> Result<Form> {
    let refuse = |why: &str| {
        Err(Error::parameter(
            "--peer",
            format!("redis does not run {}: {why}", workload.name()),
            "leave it out",
        ))
    };
    match workload {
        Workload::YcsbE | Workload::RangeOnly => Ok(Form::SortedSet),
        Workload::RangeWrite => refuse("what can be scanned there cannot be updated by one command"),
        Workload::YcsbF => refuse("a read-modify-write is two batches there"),
        _ => Ok(Form::Strings),
    }
}

/// The life of a process of clients.
pub(crate) fn serve<W: Write>(job: &RedisJob, parent: &mut Parent<W>) -> Result<()> {
    let keys = job.clients.keys.keys()?;
    let (workload, value_bytes) = (&job.clients.workload, job.clients.value_bytes);
    let form = form(workload.workload)?;
    if job.loads && workload.workload != Workload::Load {
        load(&mut Line::connect(job.address)?, form, &keys, workload.keys, value_bytes)?;
    }
    let streams = streams_by_thread(&job.clients)?;
    let make = |thread: usize| {
        let client = |(stream, rehearsal): Pair| Client { stream, rehearsal, done: 0, over: false };
        Ok(Desk {
            line: Line::connect(job.address)?,
            form,
            clients: streams[thread].iter().cloned().map(client).collect(),
            buffers: Buffers::new(&keys, value_bytes, workload.workload.may_miss()),
            asked: Vec::new(),
            member: Vec::new(),
        })
    };
    team::serve(parent, streams.len(), workload.clients, make, || used_bytes(job.address))
}

fn load(line: &mut Line, form: Form, keys: &Keys, count: u64, value_bytes: usize) -> Result<()> {
    let (mut key, mut value) = (Vec::new(), vec![0; value_bytes]);
    for ranks in keys.ranks_in_key_order(count).chunks(LOAD_STEP) {
        if form == Form::SortedSet {
            line.begin(2 + 2 * ranks.len());
            line.part(b"ZADD");
            line.part(SET);
        }
        for rank in ranks {
            keys.write_key(*rank, &mut key);
            fill_value(&mut value, *rank, 0);
            match form {
                Form::Strings => line.command(&[b"SET", &key, &value]),
                Form::SortedSet => {
                    line.part(b"0");
                    line.part(&[&key[..], &value].concat());
                }
            }
        }
        line.send()?;
        for _ in 0..if form == Form::Strings { ranks.len() } else { 1 } {
            line.reply()?;
        }
    }
    Ok(())
}

/// What Redis says that it uses.
fn used_bytes(address: SocketAddr) -> Option<u64> {
    let mut line = Line::connect(address).ok()?;
    line.command(&[b"INFO", b"memory"]);
    line.send().ok()?;
    let Ok(Reply::Bulk(Some(text))) = line.reply() else { return None };
    let text = String::from_utf8_lossy(text);
    text.lines().find_map(|line| line.strip_prefix("used_memory:"))?.trim().parse().ok()
}

/// Whether a server answers there.
pub(crate) fn answers(address: SocketAddr) -> bool {
    let ping = || {
        let mut line = Line::connect(address)?;
        line.command(&[b"PING"]);
        line.send()?;
        line.reply().map(|reply| reply == Reply::Simple)
    };
    ping().unwrap_or(false)
}

/// One client. It is out of work when its stream ends.
struct Client {
    stream: OperationStream,
    rehearsal: OperationStream,
    done: u64,
    over: bool,
}

/// The clients of one thread, and its connection.
struct Desk<'a> {
    line: Line,
    form: Form,
    clients: Vec<Client>,
    buffers: Buffers<'a>,
    /// The operations of the batch under way, with their clients.
    asked: Vec<(usize, Operation)>,
    member: Vec<u8>,
}

impl Desk<'_> {
    /// Puts the command of an operation among those of its batch.
    fn ask(&mut self, client: usize, operation: Operation) {
        let (rank, _) = subject_of(operation);
        let Desk { line, buffers, member, .. } = self;
        buffers.take_key(rank);
        match operation {
            Operation::Get { .. } => line.command(&[b"GET", &buffers.key]),
            Operation::Put { version, .. } => {
                buffers.take_value(rank, version);
                line.command(&[b"SET", &buffers.key, &buffers.value]);
            }
            Operation::Insert { version, .. } => {
                buffers.take_value(rank, version);
                if self.form == Form::Strings {
                    line.command(&[b"SET", &buffers.key, &buffers.value, b"NX"]);
                } else {
                    joined(member, &buffers.key, &buffers.value);
                    line.command(&[b"ZADD", SET, b"0", member]);
                }
            }
            Operation::Remove { .. } => line.command(&[b"DEL", &buffers.key]),
            Operation::Scan { length, .. } => {
                joined(member, b"[", &buffers.key);
                let length = length.to_string();
                line.command(&[b"ZRANGEBYLEX", SET, member, b"+", b"LIMIT", b"0", length.as_bytes()]);
            }
            Operation::ReadModifyWrite { .. } => unreachable!("such workloads are refused"),
        }
        self.asked.push((client, operation));
    }

    /// Takes the reply to an operation, and checks it.
    fn hear(&mut self, operation: Operation) -> Result<OperationKind> {
        let (rank, kind) = subject_of(operation);
        let Desk { line, buffers, .. } = self;
        match (operation, line.reply()?) {
            (Operation::Get { .. }, Reply::Bulk(found)) => {
                match found {
                    Some(value) if value.len() == buffers.value.len() => buffers.value.copy_from_slice(value),
                    Some(_) => return Err(Error::WrongAnswer("a value of another length".to_owned())),
                    None => {}
                }
                buffers.check_get(rank, found.is_some())?;
            }
            (Operation::Scan { length, .. }, Reply::Array(count)) if count <= length as usize => {
                self.hear_scan(rank, count)?;
            }
            (
                Operation::Put { .. } | Operation::Insert { .. } | Operation::Remove { .. },
                Reply::Simple | Reply::Number(_) | Reply::Bulk(None),
            ) => {}
            (_, other) => return Err(failure(format!("it answers with {other:?}"))),
        }
        Ok(kind)
    }

    fn hear_scan(&mut self, rank: u64, count: usize) -> Result<()> {
        let Desk { line, buffers, .. } = self;
        buffers.take_key(rank);
        let key_bytes = buffers.key.len();
        let mut first = First::Yes;
        for _ in 0..count {
            let Reply::Bulk(Some(member)) = line.reply()? else {
                return Err(failure("a member is no string"));
            };
            let (key, value) = member
                .split_at_checked(key_bytes)
                .ok_or_else(|| Error::WrongAnswer("a member is too short".to_owned()))?;
            buffers.check_entry(first, key, value)?;
            first = First::No;
        }
        Ok(())
    }

    /// Sends the batch; for each operation calls `done`, when its reply is in.
    fn exchange(&mut self, mut done: impl FnMut(&mut Client, OperationKind)) -> Result<()> {
        self.line.send()?;
        for at in 0..self.asked.len() {
            let (client, operation) = self.asked[at];
            let kind = self.hear(operation)?;
            done(&mut self.clients[client], kind);
        }
        self.asked.clear();
        Ok(())
    }
}

fn joined(into: &mut Vec<u8>, first: &[u8], second: &[u8]) {
    into.clear();
    into.extend_from_slice(first);
    into.extend_from_slice(second);
}

impl Hand for Desk<'_> {
    /// Nothing of Redis is cached at its clients.
    fn pass(&mut self) -> Result<()> {
        Ok(())
    }

    fn warm_up(&mut self, seconds: f64) -> Result<()> {
        let clock = Clock::new();
        let end = until(&clock, Amount::Seconds(seconds));
        while self.form == Form::Strings && !end.is_over(clock.now(), 0) {
            for client in 0..self.clients.len() {
                if let Some(operation) = self.clients[client].rehearsal.next() {
                    self.ask(client, Operation::Get { rank: subject_of(operation).0 });
                }
            }
            self.line.send()?;
            // What is asked for is not all there yet, so nothing is checked.
            for _ in self.asked.drain(..) {
                self.line.reply()?;
            }
        }
        Ok(())
    }

    fn work(&mut self, amount: Amount) -> Result<Measurement> {
        let mut measurement = Measurement::new();
        let clock = Clock::new();
        let end = until(&clock, amount);
        for client in &mut self.clients {
            (client.done, client.over) = (0, false);
        }
        loop {
            let start = clock.now();
            let all: Range<usize> = 0..self.clients.len();
            for number in all {
                if self.clients[number].over {
                    continue;
                }
                match self.clients[number].stream.next() {
                    Some(operation) => self.ask(number, operation),
                    None => self.clients[number].over = true,
                }
            }
            if self.asked.is_empty() {
                return Ok(measurement);
            }
            self.exchange(|client, kind| {
                let now = clock.now();
                measurement.record(kind, now - start, &CostTotals::default());
                client.done += 1;
                client.over = end.is_over(now, client.done);
            })?;
        }
    }
}
