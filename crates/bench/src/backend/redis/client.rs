//! The clients of Redis: the same streams of operations, one connection for each thread, and as many requests
//! outstanding on it as the thread has clients.
//!
//! Clients send batches as `redis-benchmark -P` does: one command for each client of the thread in one write, and the
//! next batch when all replies have arrived. Keys and values are strings. If the workload scans, they are the members
//! of one sorted set, the value appended to the key, which `ZRANGEBYLEX` returns in the order of the keys.

use std::net::SocketAddr;
use std::ops::Range;

use super::super::checked::{CheckedBuffers, First, rank_and_kind};
use super::super::clients::ClientStreams;
use super::RedisJob;
use super::resp::{RedisConnection, Reply, failure};
use crate::driver::clock::Clock;
use crate::driver::protocol::Amount;
use crate::driver::threads::{self, ThreadDriver};
use crate::driver::worker::ParentConnection;
use crate::record::measurement::{CostTotals, Measurement, OperationKind};
use crate::workload::keys::Keys;
use crate::workload::values::fill_value;
use crate::workload::{Operation, Workload};
use crate::{Error, Result};

/// The name of the sorted set.
const SET: &[u8] = b"farwood";
/// Entries that a load sends in one batch.
const LOAD_STEP: usize = 1000;

/// The data type in which Redis stores the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataType {
    Strings,
    SortedSet,
}

/// Refuses workloads whose operations need more than one command of Redis.
pub(super) fn check(workload: Workload) -> Result<()> {
    data_type(workload).map(drop)
}

fn data_type(workload: Workload) -> Result<DataType> {
    let refuse = |why: &str| {
        Err(Error::parameter(
            "--peer",
            format!("redis does not run {}: {why}", workload.name()),
            "omit --peer redis",
        ))
    };
    match workload {
        Workload::YcsbE | Workload::RangeOnly => Ok(DataType::SortedSet),
        Workload::RangeWrite => {
            refuse("in Redis, an entry that can be scanned cannot be updated with one command")
        }
        Workload::YcsbF => refuse("in Redis, a read-modify-write needs two batches"),
        _ => Ok(DataType::Strings),
    }
}

/// Executes the orders of the parent in a process of clients.
pub(super) fn serve(job: &RedisJob, parent: &mut ParentConnection<'_>) -> Result<()> {
    let keys = job.clients.keys.keys()?;
    let (workload, value_bytes) = (&job.clients.workload, job.clients.value_bytes);
    let data_type = data_type(workload.workload)?;
    if job.loads && workload.workload != Workload::Load {
        load(&mut RedisConnection::connect(job.address)?, data_type, &keys, workload.keys, value_bytes)?;
    }
    let streams = job.clients.streams_by_thread()?;
    let make = |thread: usize| {
        let client = |streams: ClientStreams| RedisClient { streams, done: 0, over: false };
        Ok(RedisDriver {
            connection: RedisConnection::connect(job.address)?,
            data_type,
            clients: streams[thread].iter().cloned().map(client).collect(),
            buffers: CheckedBuffers::new(&keys, value_bytes, workload.workload),
            batch: Vec::new(),
            member: Vec::new(),
        })
    };
    threads::serve(parent, streams.len(), workload.clients, make, || used_bytes(job.address))
}

fn load(
    line: &mut RedisConnection,
    data_type: DataType,
    keys: &Keys,
    count: u64,
    value_bytes: usize,
) -> Result<()> {
    let (mut key, mut value) = (Vec::new(), vec![0; value_bytes]);
    for ranks in keys.ranks_in_key_order(count).chunks(LOAD_STEP) {
        if data_type == DataType::SortedSet {
            line.begin(2 + 2 * ranks.len());
            line.part(b"ZADD");
            line.part(SET);
        }
        for rank in ranks {
            keys.write_key(*rank, &mut key);
            fill_value(&mut value, *rank, 0);
            match data_type {
                DataType::Strings => line.command(&[b"SET", &key, &value]),
                DataType::SortedSet => {
                    line.part(b"0");
                    line.part(&[&key[..], &value].concat());
                }
            }
        }
        line.send()?;
        for _ in 0..if data_type == DataType::Strings { ranks.len() } else { 1 } {
            line.reply()?;
        }
    }
    Ok(())
}

/// The memory that Redis uses, as it reports it.
fn used_bytes(address: SocketAddr) -> Option<u64> {
    let mut line = RedisConnection::connect(address).ok()?;
    line.command(&[b"INFO", b"memory"]);
    line.send().ok()?;
    let Ok(Reply::Bulk(Some(text))) = line.reply() else { return None };
    let text = String::from_utf8_lossy(text);
    text.lines().find_map(|line| line.strip_prefix("used_memory:"))?.trim().parse().ok()
}

/// Whether a server answers at `address`.
pub(super) fn answers(address: SocketAddr) -> bool {
    let ping = || {
        let mut line = RedisConnection::connect(address)?;
        line.command(&[b"PING"]);
        line.send()?;
        line.reply().map(|reply| reply == Reply::Simple)
    };
    ping().unwrap_or(false)
}

/// One client. It is finished when its stream ends.
struct RedisClient {
    streams: ClientStreams,
    done: u64,
    over: bool,
}

/// The clients of one thread, and its connection.
struct RedisDriver<'a> {
    connection: RedisConnection,
    data_type: DataType,
    clients: Vec<RedisClient>,
    buffers: CheckedBuffers<'a>,
    /// The operations of the current batch, with their clients.
    batch: Vec<(usize, Operation)>,
    member: Vec<u8>,
}

impl RedisDriver<'_> {
    /// Adds the command of an operation to the batch.
    fn push(&mut self, client: usize, operation: Operation) {
        let (rank, _) = rank_and_kind(operation);
        let RedisDriver { connection, buffers, member, .. } = self;
        buffers.fill_key(rank);
        match operation {
            Operation::Get { .. } => connection.command(&[b"GET", &buffers.key]),
            Operation::Put { version, .. } => {
                buffers.fill_value(rank, version);
                connection.command(&[b"SET", &buffers.key, &buffers.value]);
            }
            Operation::Insert { version, .. } => {
                buffers.fill_value(rank, version);
                if self.data_type == DataType::Strings {
                    connection.command(&[b"SET", &buffers.key, &buffers.value, b"NX"]);
                } else {
                    concatenate(member, &buffers.key, &buffers.value);
                    connection.command(&[b"ZADD", SET, b"0", member]);
                }
            }
            Operation::Remove { .. } => connection.command(&[b"DEL", &buffers.key]),
            Operation::Scan { length, .. } => {
                concatenate(member, b"[", &buffers.key);
                let length = length.to_string();
                connection.command(&[b"ZRANGEBYLEX", SET, member, b"+", b"LIMIT", b"0", length.as_bytes()]);
            }
            Operation::ReadModifyWrite { .. } => unreachable!("such workloads are refused"),
        }
        self.batch.push((client, operation));
    }

    /// Receives the reply to an operation, and checks it.
    fn receive(&mut self, operation: Operation) -> Result<OperationKind> {
        let (rank, kind) = rank_and_kind(operation);
        let RedisDriver { connection, buffers, .. } = self;
        match (operation, connection.reply()?) {
            (Operation::Get { .. }, Reply::Bulk(found)) => match found {
                Some(value) if value.len() == buffers.value.len() => {
                    buffers.value.copy_from_slice(value);
                    buffers.check_found(rank)?;
                }
                Some(_) => return Err(Error::WrongAnswer("a value of another length".to_owned())),
                None => buffers.check_absent(rank)?,
            },
            (Operation::Scan { length, .. }, Reply::Array(count)) if count <= length as usize => {
                self.receive_scan(rank, count)?;
            }
            (
                Operation::Put { .. } | Operation::Insert { .. } | Operation::Remove { .. },
                Reply::Simple | Reply::Number(_) | Reply::Bulk(None),
            ) => {}
            (_, other) => return Err(failure(format!("unexpected reply {other:?}"))),
        }
        Ok(kind)
    }

    fn receive_scan(&mut self, rank: u64, count: usize) -> Result<()> {
        let RedisDriver { connection, buffers, .. } = self;
        buffers.fill_key(rank);
        let key_bytes = buffers.key.len();
        let mut first = First::Yes;
        for _ in 0..count {
            let Reply::Bulk(Some(member)) = connection.reply()? else {
                return Err(failure("a member is not a string"));
            };
            let (key, value) = member
                .split_at_checked(key_bytes)
                .ok_or_else(|| Error::WrongAnswer("a member is too short".to_owned()))?;
            buffers.check_entry(first, key, value)?;
            first = First::No;
        }
        Ok(())
    }

    /// Sends the batch, and calls `done` for each operation when its reply has arrived.
    fn exchange(&mut self, mut done: impl FnMut(&mut RedisClient, OperationKind)) -> Result<()> {
        self.connection.send()?;
        for at in 0..self.batch.len() {
            let (client, operation) = self.batch[at];
            let kind = self.receive(operation)?;
            done(&mut self.clients[client], kind);
        }
        self.batch.clear();
        Ok(())
    }
}

fn concatenate(into: &mut Vec<u8>, first: &[u8], second: &[u8]) {
    into.clear();
    into.extend_from_slice(first);
    into.extend_from_slice(second);
}

impl ThreadDriver for RedisDriver<'_> {
    /// Does nothing, because clients of Redis have no caches.
    fn scan_all(&mut self) -> Result<()> {
        Ok(())
    }

    fn warm_up(&mut self, seconds: f64) -> Result<()> {
        let clock = Clock::new();
        let deadline = clock.deadline(Amount::Seconds(seconds));
        while self.data_type == DataType::Strings && !deadline.is_over(clock.now(), 0) {
            for client in 0..self.clients.len() {
                if let Some(operation) = self.clients[client].streams.warm_up.next() {
                    self.push(client, Operation::Get { rank: rank_and_kind(operation).0 });
                }
            }
            self.connection.send()?;
            // Not all keys exist yet, so the answers are not checked.
            for _ in self.batch.drain(..) {
                self.connection.reply()?;
            }
        }
        Ok(())
    }

    fn measure(&mut self, amount: Amount) -> Result<Measurement> {
        let mut measurement = Measurement::new();
        let clock = Clock::new();
        let deadline = clock.deadline(amount);
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
                match self.clients[number].streams.measured.next() {
                    Some(operation) => self.push(number, operation),
                    None => self.clients[number].over = true,
                }
            }
            if self.batch.is_empty() {
                return Ok(measurement);
            }
            self.exchange(|client, kind| {
                let now = clock.now();
                measurement.record(kind, now - start, &CostTotals::default());
                client.done += 1;
                client.over = deadline.is_over(now, client.done);
            })?;
        }
    }
}
