//! One program per promise about order and tearing.
//!
//! A violation of a promise is a failure. A program also runs if the fabric does not make its promise, and reports the
//! violations that it sees: no violation proves nothing, and a violation shows why the promise is not made.
//!
//! Clients write increasing numbers, so a reader knows which values it must not see. The report counts how often a
//! reader met a concurrent change, because a run without concurrent changes is no evidence for the promise.

mod order;
mod tearing;

use crate::harness::{Harness, RawAddress, Scratch, ServerHarness};
use farwood_fabric::{Capability, Client, Fabric, NodeId};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// The result of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LitmusReport {
    /// The name of the capability that the program tests.
    pub name: String,
    /// Whether the fabric promises it.
    pub promised: bool,
    /// Number of tries.
    pub iterations: u64,
    /// Tries in which a value had changed since the previous try: the others prove nothing.
    pub met: u64,
    /// Number of violations.
    pub violations: u64,
    /// The first violation, or the reason why the program could not run.
    pub remark: Option<String>,
}

impl LitmusReport {
    /// Whether a promise was broken.
    pub fn failed(&self) -> bool {
        self.promised && self.violations > 0
    }
}

impl fmt::Display for LitmusReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, iterations, met, violations, .. } = self;
        let seen = match (self.promised, violations) {
            (true, 0) => format!("promised; kept in {iterations}, of which {met} met a change"),
            (true, _) => format!("PROMISED AND VIOLATED {violations} of {iterations}"),
            (false, 0) => {
                format!("not promised; not seen violated here in {iterations}, of which {met} met a change")
            }
            (false, _) => format!("not promised; violated {violations} of {iterations}"),
        };
        write!(f, "{name}: {seen}")?;
        self.remark.as_ref().map_or(Ok(()), |remark| write!(f, " ({remark})"))
    }
}

/// A program: a function of the harness and the minimum number of tries.
pub type Program<H> = fn(&H, u64) -> LitmusReport;

/// The programs for the harness `H`.
pub struct Litmus<H>(std::marker::PhantomData<H>);

impl<H: Harness + 'static> Litmus<H> {
    /// The programs and their names.
    pub const PROGRAMS: &'static [(&'static str, Program<H>)] = &[
        ("whole 8", tearing::whole::<H, 8>),
        ("whole 8 device", tearing::whole_device::<H>),
        ("whole 16", tearing::whole::<H, 16>),
        ("whole 32", tearing::whole::<H, 32>),
        ("whole 64", tearing::whole::<H, 64>),
        ("whole 128", tearing::whole::<H, 128>),
        ("version pair 64", tearing::version_pair::<H, 64>),
        ("version pair 256", tearing::version_pair::<H, 256>),
        ("version pair 1024", tearing::version_pair::<H, 1024>),
        ("version pair 4096", tearing::version_pair::<H, 4096>),
        ("version pair 16384", tearing::version_pair::<H, 16384>),
        ("brief read", tearing::brief_read::<H>),
        ("write upward", tearing::write_upward::<H>),
        ("write then write", order::write_then_write::<H>),
        ("atomic then read", order::atomic_then_read::<H>),
        ("device atomic then read", order::device_atomic_then_read::<H>),
        ("read then read", order::read_then_read::<H>),
        ("arrival sees write, handed over", order::lock_handed_over::<H>),
        ("arrival sees write, handed over by device memory", order::device_lock_handed_over::<H>),
        ("arrival sees write, crossed", order::crossed::<H>),
        ("arrival sees write, crossed chains", order::crossed_chains::<H>),
        ("arrival sees write, crossed after chains", order::crossed_after_chains::<H>),
        ("unlock by WRITE", order::unlock_by_write::<H>),
        ("masked CAS of neighbours", order::masked_neighbours::<H>),
        ("WRITE beside an atomic", order::write_beside_atomic::<H>),
    ];
}

/// Runs every program.
pub fn litmus<H: Harness + 'static>(harness: &H, iterations: u64) -> Vec<LitmusReport> {
    Litmus::<H>::PROGRAMS.iter().map(|(_, program)| program(harness, iterations)).collect()
}

/// Runs the program for memory nodes with servers: the server's CPU sees a completed WRITE.
pub fn server_litmus<H: ServerHarness>(harness: &H, iterations: u64) -> LitmusReport {
    order::cpu_sees_write(harness, iterations)
}

/// Runs the other program for memory nodes with servers: when a server that polls the last byte of a WRITE sees it, the
/// other bytes are complete.
pub fn server_upward<H: ServerHarness>(harness: &H, iterations: u64) -> LitmusReport {
    tearing::server_upward(harness, iterations)
}

/// Runs the programs for bytes that a server stores while clients read them, as in nodes of spatial indexes: lines with
/// versions, and a pair of versions around all lines.
pub fn server_stores<H: ServerHarness>(harness: &H, iterations: u64) -> [LitmusReport; 2] {
    [tearing::server_lines(harness, iterations), tearing::server_pair(harness, iterations)]
}

/// Whether a WRITE whose writer crashed is complete: `bytes` is a region that the writer filled repeatedly, each WRITE
/// with one byte value. It tests `write_survives_writer_bytes_max` of [`Capabilities`](farwood_fabric::Capabilities);
/// the caller kills the writer.
pub fn is_whole(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == bytes[0])
}

/// Checks that no promise was broken.
///
/// # Panics
/// With every broken promise.
pub fn expect_kept(reports: &[LitmusReport]) {
    let broken: Vec<String> =
        reports.iter().filter(|report| report.failed()).map(LitmusReport::to_string).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Whether the fabric makes the promise that a program tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    Made,
    Withheld,
}

/// Counts the tries and violations of several clients.
#[derive(Debug, Default)]
struct Tally {
    iterations: AtomicU64,
    met: AtomicU64,
    violations: AtomicU64,
    first: Mutex<Option<String>>,
}

impl Tally {
    /// Counts one try.
    fn tried(&self) {
        self.iterations.fetch_add(1, Relaxed);
    }

    /// Counts the current try as one that met a change.
    fn met_change(&self) {
        self.met.fetch_add(1, Relaxed);
    }

    /// Whether a client continues after `tries` tries: until `iterations / 10` tries have met a change, or
    /// [`PATIENCE`] is used up. On a busy machine the clients may run one after the other for long.
    fn continues(&self, tries: u64, iterations: u64) -> bool {
        let met_enough = self.met.load(Relaxed) >= iterations / 10;
        tries < iterations || !met_enough && tries < iterations * PATIENCE
    }

    /// Counts a violation, and describes the first one.
    fn violated(&self, describe: impl FnOnce() -> String) {
        if self.violations.fetch_add(1, Relaxed) == 0 {
            *self.first.lock().expect("no thread panics while it holds the lock") = Some(describe());
        }
    }

    fn report(self, name: impl Into<String>, promise: Promise) -> LitmusReport {
        LitmusReport {
            name: name.into(),
            promised: promise == Promise::Made,
            iterations: self.iterations.into_inner(),
            met: self.met.into_inner(),
            violations: self.violations.into_inner(),
            remark: self.first.into_inner().expect("no thread panicked while it held the lock"),
        }
    }
}

/// The maximum number of tries by which a program meets enough changes, as a multiple of the requested number.
const PATIENCE: u64 = 30;

/// A barrier at which two clients wait for each other before they start, or in every round.
#[derive(Debug)]
struct RoundBarrier([AtomicU64; 2]);

impl RoundBarrier {
    /// Spins before a client yields.
    const SPINS: u32 = 2_000;

    fn new() -> Self {
        Self([AtomicU64::new(0), AtomicU64::new(0)])
    }

    /// Waits until the other client is in round `round` too, or has left.
    async fn wait<F: Fabric>(&self, client: &Client<F>, mine: usize, round: u64) {
        self.0[mine].store(round, SeqCst);
        loop {
            for _ in 0..Self::SPINS {
                if self.0[1 - mine].load(SeqCst) >= round {
                    return;
                }
                std::hint::spin_loop();
            }
            client.fabric().sleep(0).await;
        }
    }

    /// Makes the client leave the barrier when it ends or panics.
    fn leave_at_end(&self, mine: usize) -> impl Drop + '_ {
        struct Leaves<'a>(&'a AtomicU64);
        impl Drop for Leaves<'_> {
            fn drop(&mut self) {
                self.0.store(u64::MAX, SeqCst);
            }
        }
        Leaves(&self.0[mine])
    }
}

/// Stops the other clients when its client ends or panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Runs a writer, which is called with 1, 2, 3…, concurrently with a reader, which is called at least `iterations`
/// times.
fn race<H: Harness>(
    harness: &H,
    iterations: u64,
    tally: &Tally,
    write: impl AsyncFn(&Client<H::Fabric>, u64) + Sync,
    read: impl AsyncFn(&Client<H::Fabric>, u64) + Sync,
) {
    let (stop, barrier) = (AtomicBool::new(false), RoundBarrier::new());
    harness.run_clients(2, async |role, client| {
        let _leaves = barrier.leave_at_end(role);
        barrier.wait(&client, role, 1).await;
        if role == 0 {
            let mut round = 0;
            while !stop.load(SeqCst) {
                round += 1;
                write(&client, round).await;
            }
        } else {
            let _stop = Stop(&stop);
            let mut iteration = 0;
            while tally.continues(iteration, iterations) {
                read(&client, iteration).await;
                iteration += 1;
            }
        }
    });
}

/// Runs a program on zeroed host memory of node 0.
fn with_memory<H: Harness, T>(harness: &H, bytes: usize, program: impl FnOnce(RawAddress) -> T) -> T {
    let client = harness.client();
    let (scratch, address) = harness.block_on(async {
        let scratch = Scratch::take(&client, NodeId(0)).await;
        let address = scratch.zeroed(&client, bytes).await;
        (scratch, address)
    });
    let result = program(address);
    harness.block_on(scratch.release(&client));
    result
}

fn promises<H: Harness>(harness: &H, capability: Capability) -> bool {
    harness.client().fabric().capabilities().has(capability)
}

/// The fabric's promise of a capability.
fn promise_of<H: Harness>(harness: &H, capability: Capability) -> Promise {
    if promises(harness, capability) { Promise::Made } else { Promise::Withheld }
}

/// The fabric's promise that it does not tear blocks of `bytes` bytes.
fn promise_of_whole<H: Harness>(harness: &H, bytes: usize) -> Promise {
    let whole_bytes = harness.client().fabric().capabilities().whole_bytes;
    if whole_bytes >= bytes { Promise::Made } else { Promise::Withheld }
}
