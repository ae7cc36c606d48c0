//! One program per promise about order and tearing.
//!
//! A promise that is seen broken fails. A promise that is not made is tried as well, and what was seen is
//! reported: that nothing happened here proves nothing, that something did shows why it is not promised.
//!
//! Clients here write numbers that only grow, so a reader can tell what it must not see. How often a reader met
//! a change is part of the report: a promise kept while nobody was in the way is no evidence.

mod order;
mod tearing;

use crate::harness::{Harness, Place, Scratch, ServerHarness};
use farwood_fabric::{Capability, Client, Fabric, NodeId};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// What one program saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What is at stake.
    pub name: String,
    /// Whether the fabric promises it.
    pub promised: bool,
    /// How often it was tried.
    pub iterations: u64,
    /// In how many of these something had changed since the time before: the others prove nothing.
    pub met: u64,
    /// How often it was broken.
    pub violations: u64,
    /// The first violation, or why it could not be tried.
    pub remark: Option<String>,
}

impl Report {
    /// Whether a promise was broken.
    pub fn failed(&self) -> bool {
        self.promised && self.violations > 0
    }
}

impl fmt::Display for Report {
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

/// A program: how often to try at least, and what it saw.
pub type Program<H> = fn(&H, u64) -> Report;

/// The programs for the harness `H`.
pub struct Litmus<H>(std::marker::PhantomData<H>);

impl<H: Harness + 'static> Litmus<H> {
    /// The programs, by what they try.
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
pub fn litmus<H: Harness + 'static>(harness: &H, iterations: u64) -> Vec<Report> {
    Litmus::<H>::PROGRAMS.iter().map(|(_, program)| program(harness, iterations)).collect()
}

/// Runs the program for memory nodes with servers: the server's own CPU sees a completed WRITE.
pub fn server_litmus<H: ServerHarness>(harness: &H, iterations: u64) -> Report {
    order::cpu_sees_write(harness, iterations)
}

/// Runs the other program for memory nodes with servers: who polls for the last byte of a WRITE finds the others
/// there.
pub fn server_upward<H: ServerHarness>(harness: &H, iterations: u64) -> Report {
    tearing::server_upward(harness, iterations)
}

/// Runs the programs for what a server stores and clients read meanwhile, as nodes of spatial indexes are: lines with
/// versions, and a pair of versions around all of it.
pub fn server_stores<H: ServerHarness>(harness: &H, iterations: u64) -> [Report; 2] {
    [tearing::server_lines(harness, iterations), tearing::server_pair(harness, iterations)]
}

/// Judges what is left of a WRITE whose writer died: `bytes` of a region that it kept filling, each WRITE with one
/// byte. For `write_survives_writer_bytes_max` of [`Capabilities`](farwood_fabric::Capabilities); killing the writer
/// is the caller's business.
pub fn is_whole(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == bytes[0])
}

/// # Panics
/// With every broken promise, if there is any.
pub fn expect_kept(reports: &[Report]) {
    let broken: Vec<String> =
        reports.iter().filter(|report| report.failed()).map(Report::to_string).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Counts what several clients see.
#[derive(Debug, Default)]
struct Tally {
    iterations: AtomicU64,
    met: AtomicU64,
    violations: AtomicU64,
    first: Mutex<Option<String>>,
}

impl Tally {
    /// Counts one try.
    fn tried(&self, met: bool) {
        self.iterations.fetch_add(1, Relaxed);
        self.met.fetch_add(u64::from(met), Relaxed);
    }

    /// Whether to go on after `tries` of a client: until a tenth of `iterations` tries have met a change, within
    /// reason. Clients may find themselves alone for long: on a busy machine they run one after the other.
    fn goes_on(&self, tries: u64, iterations: u64) -> bool {
        let met_enough = self.met.load(Relaxed) >= iterations / 10;
        tries < iterations || !met_enough && tries < iterations * PATIENCE
    }

    /// Counts a violation if `broken`.
    fn judge(&self, broken: bool, describe: impl FnOnce() -> String) {
        if broken && self.violations.fetch_add(1, Relaxed) == 0 {
            *self.first.lock().expect("nobody panics with it") = Some(describe());
        }
    }

    fn report(self, name: impl Into<String>, promised: bool) -> Report {
        Report {
            name: name.into(),
            promised,
            iterations: self.iterations.into_inner(),
            met: self.met.into_inner(),
            violations: self.violations.into_inner(),
            remark: self.first.into_inner().expect("nobody panicked with it"),
        }
    }
}

/// How many times the iterations asked for a program takes to meet enough changes.
const PATIENCE: u64 = 30;

/// Clients that wait for each other before they start, and perhaps every round.
#[derive(Debug)]
struct Meeting([AtomicU64; 2]);

impl Meeting {
    /// Looks at the other before giving way.
    const GLANCES: u32 = 2_000;

    fn new() -> Self {
        Self([AtomicU64::new(0), AtomicU64::new(0)])
    }

    /// Waits until the other is in round `round` too, or gone.
    async fn meet<F: Fabric>(&self, client: &Client<F>, mine: usize, round: u64) {
        self.0[mine].store(round, SeqCst);
        loop {
            for _ in 0..Self::GLANCES {
                if self.0[1 - mine].load(SeqCst) >= round {
                    return;
                }
                std::hint::spin_loop();
            }
            client.fabric().sleep(0).await;
        }
    }

    /// Lets nobody wait for this client any more, however it ends.
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

/// Stops the others when its client is done, or panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Runs a writer, which is called with 1, 2, 3…, against a reader that is called `iterations` times or more.
fn race<H: Harness>(
    harness: &H,
    iterations: u64,
    tally: &Tally,
    write: impl AsyncFn(&Client<H::Fabric>, u64) + Sync,
    read: impl AsyncFn(&Client<H::Fabric>, u64) + Sync,
) {
    let (stop, meeting) = (AtomicBool::new(false), Meeting::new());
    harness.together(2, async |role, client| {
        let _leaves = meeting.leave_at_end(role);
        meeting.meet(&client, role, 1).await;
        if role == 0 {
            let mut round = 0;
            while !stop.load(SeqCst) {
                round += 1;
                write(&client, round).await;
            }
        } else {
            let _stop = Stop(&stop);
            let mut iteration = 0;
            while tally.goes_on(iteration, iterations) {
                read(&client, iteration).await;
                iteration += 1;
            }
        }
    });
}

/// Zeroed host memory of node 0 for one program.
fn ground<H: Harness, T>(harness: &H, bytes: usize, program: impl FnOnce(Place) -> T) -> T {
    let client = harness.client();
    let (scratch, place) = harness.block_on(async {
        let scratch = Scratch::take(&client, NodeId(0)).await;
        let place = scratch.zeroed(&client, bytes).await;
        (scratch, place)
    });
    let result = program(place);
    harness.block_on(scratch.give_back(&client));
    result
}

fn promises<H: Harness>(harness: &H, capability: Capability) -> bool {
    harness.client().fabric().capabilities().has(capability)
}
