//! Clients of shared memory in several processes, some of which are killed.
//!
//! A child process runs this test program again; environment variables make [`child`] its work.

use farwood_fabric::{Client, ClientId, Fabric as _, Remote, Revocation, write};
use farwood_proof::children::rerun;
use farwood_proof::shm::{Shm, attach};
use farwood_testkit::harness::{Harness as _, RawAddress, Scratch, TestRng, read_raw, read_word, write_word};
use farwood_testkit::history::{Action, Answer, History, Recorder, tick};
use farwood_testkit::litmus::is_whole;
use farwood_transport::runtime::block_on;
use farwood_transport::shm::ShmFabric;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The path of the pool, for a child.
const POOL: &str = "FARWOOD_PROOF_POOL";
/// The number of a child.
const NUMBER: &str = "FARWOOD_PROOF_NUMBER";
/// The address of the shared memory, as a word, for a child.
const BASE: &str = "FARWOOD_PROOF_BASE";

const CHILDREN: u64 = 3;
const REGION_BYTES: usize = 256 << 10;
/// Offsets in the shared memory: the clock, the identities of the children, a register, the region.
const CLOCK: u64 = 0;
const IDENTITIES: u64 = 64;
const REGISTER: u64 = 128;
const REGION: u64 = 4096;

/// A child process, killed on drop.
struct Process(Child);

impl Process {
    fn start(shm: &Shm, base: RawAddress, number: u64) -> Self {
        let mut command = rerun(module_path!(), "child");
        command.env(POOL, shm.path());
        command.env(NUMBER, number.to_string()).env(BASE, base.word().to_string());
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("a process can be started"))
    }

    /// Kills the process with SIGKILL.
    fn kill(&mut self) {
        self.0.kill().expect("a child");
        self.0.wait().expect("a child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The work of a child until it is killed. Without the environment variables the test does nothing.
#[test]
fn child() {
    let Ok(path) = std::env::var(POOL) else { return };
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (number, base) = (number(NUMBER).expect("a number"), number(BASE).expect("a word"));
    let base: RawAddress = Remote::from_word(base).expect("a pointer");
    let client = attach(Path::new(&path)).client();
    let journal = File::create(Path::new(&path).join(format!("journal.{number}"))).expect("a file");
    block_on(work(&client, base, number, Recorder::new(number, journal))).expect("a journal can be written");
}

async fn work(
    client: &Client<ShmFabric>,
    base: RawAddress,
    number: u64,
    mut journal: Recorder<File>,
) -> io::Result<()> {
    let (clock, register) = (base.part(CLOCK), base.part::<u64>(REGISTER));
    let ClientId { slot, epoch } = client.fabric().identity();
    let identity = u64::from(epoch) << 32 | u64::from(slot) << 8 | 1;
    write_word(client, base.part(IDENTITIES + 8 * number), identity).await.expect("a WRITE");
    let mut random = TestRng::new(number);
    for round in 1.. {
        let word = number << 32 | round;
        let action = if random.once_in(2) { Action::Get } else { Action::Put(word.to_be_bytes().to_vec()) };
        let begun = tick(client, clock).await.expect("an FAA");
        let pending = journal.call(begun, b"register", &action)?;
        let answer = if action == Action::Get {
            let found = read_word(client, register).await.expect("a READ");
            Answer::Found((found != 0).then(|| found.to_be_bytes().to_vec()))
        } else {
            write_word(client, register, word).await.expect("a WRITE");
            Answer::Done(true)
        };
        journal.answer(pending, tick(client, clock).await.expect("an FAA"), &answer)?;
        if number == 0 {
            let region = vec![round as u8; REGION_BYTES];
            client.post(write(base.part::<u8>(REGION), &region)).await.expect("a WRITE");
        }
    }
    Ok(())
}

/// Waits for the identity of a child.
async fn identity(client: &Client<ShmFabric>, base: RawAddress, number: u64) -> ClientId {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        let word = read_word(client, base.part(IDENTITIES + 8 * number)).await.expect("a READ");
        if word != 0 {
            return ClientId { slot: (word >> 8) as u16, epoch: (word >> 32) as u32 };
        }
        client.fabric().sleep(1_000_000).await;
    }
    panic!("child {number} did not start")
}

/// A pool with memory for the children.
fn pool() -> (Shm, Client<ShmFabric>, RawAddress) {
    let shm = Shm::new();
    let client = shm.client();
    let base = shm.block_on(async {
        let scratch = Scratch::take(&client, farwood_fabric::NodeId(0)).await;
        scratch.zeroed(&client, REGION as usize + REGION_BYTES).await
    });
    (shm, client, base)
}

/// Reads the journals of all children.
fn journals(shm: &Shm) -> History {
    let mut history = History::default();
    for number in 0..CHILDREN {
        let journal = File::open(shm.path().join(format!("journal.{number}"))).expect("a journal");
        history.merge(History::read(BufReader::new(journal)).expect("a journal can be read"));
    }
    history
}

#[test]
fn killed_processes_leave_an_explained_history_and_are_revoked() {
    let (shm, client, base) = pool();
    let mut children: Vec<_> = (0..CHILDREN).map(|number| Process::start(&shm, base, number)).collect();
    let mut random = TestRng::new(7);
    for (number, child) in (0..).zip(&mut children) {
        let id = block_on(identity(&client, base, number));
        assert_eq!(block_on(client.fabric().revoke(id)), Ok(Revocation::Alive), "child {number} is alive");
        std::thread::sleep(Duration::from_millis(50 + random.below(50)));
        child.kill();
        assert_eq!(block_on(client.fabric().revoke(id)), Ok(Revocation::Gone), "child {number} has ended");
    }
    let history = journals(&shm);
    let verdict = history.check(Duration::from_mins(1));
    verdict.expect_right();
    assert!(verdict.operations > 100, "only {} operations", verdict.operations);
    // Their slots are free, under new epochs.
    let next = attach(shm.path()).identity();
    assert!(next.epoch > 0, "{next}");
}

#[test]
fn the_write_of_a_killed_process_is_complete_after_it_is_revoked() {
    let mut torn = 0;
    for round in 0..20 {
        let (shm, client, base) = pool();
        let mut child = Process::start(&shm, base, 0);
        let id = block_on(identity(&client, base, 0));
        std::thread::sleep(Duration::from_millis(20 + round));
        child.kill();
        let region = block_on(read_raw(&client, base.part(REGION), REGION_BYTES)).expect("a READ");
        torn += usize::from(!is_whole(&region));
        assert_eq!(block_on(client.fabric().revoke(id)), Ok(Revocation::Gone));
        let region = block_on(read_raw(&client, base.part(REGION), REGION_BYTES)).expect("a READ");
        assert!(is_whole(&region), "a WRITE of a killed process is executed completely or not at all");
    }
    let text = format!(
        "a WRITE survives its writer: promised; {torn} of 20 WRITEs were half done before the revocation\n"
    );
    let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
}
