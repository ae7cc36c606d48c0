//! Clients of shared memory in processes of their own, some of which are killed.
//!
//! A child is this very test program, told by the environment to be one: it runs [`child`] only.

use farwood_fabric::{Client, ClientId, Fabric as _, Remote, Revocation, write};
use farwood_proof::children::rerun;
use farwood_proof::shm::{Shm, attach};
use farwood_testkit::harness::{Chance, Harness as _, Place, Scratch, peek, peek_word, poke_word};
use farwood_testkit::history::{Action, Answer, History, Recorder, tick};
use farwood_testkit::litmus::is_whole;
use farwood_transport::runtime::block_on;
use farwood_transport::shm::ShmFabric;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Tells a child where the pool is.
const POOL: &str = "FARWOOD_PROOF_POOL";
/// Tells a child its number.
const NUMBER: &str = "FARWOOD_PROOF_NUMBER";
/// Tells a child where in far memory to work, as a word.
const GROUND: &str = "FARWOOD_PROOF_GROUND";

const CHILDREN: u64 = 3;
const REGION_BYTES: usize = 256 << 10;
/// Where things are in the ground: the clock, the identities of the children, a register, the region.
const CLOCK: u64 = 0;
const IDENTITIES: u64 = 64;
const REGISTER: u64 = 128;
const REGION: u64 = 4096;

/// A child process; killed at the latest when dropped.
struct Process(Child);

impl Process {
    fn start(shm: &Shm, ground: Place, number: u64) -> Self {
        let mut command = rerun(module_path!(), "child");
        command.env(POOL, shm.path());
        command.env(NUMBER, number.to_string()).env(GROUND, ground.word().to_string());
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("a process can be started"))
    }

    /// Ends the process with SIGKILL, at whatever it does.
    fn kill(&mut self) {
        self.0.kill().expect("it is our child");
        self.0.wait().expect("it is our child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a child does until it is killed. No test for itself.
#[test]
fn child() {
    let Ok(path) = std::env::var(POOL) else { return };
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (number, ground) = (number(NUMBER).expect("a number"), number(GROUND).expect("a word"));
    let ground: Place = Remote::from_word(ground).expect("a pointer");
    let client = attach(Path::new(&path)).client();
    let journal = File::create(Path::new(&path).join(format!("journal.{number}"))).expect("a file");
    block_on(work(&client, ground, number, Recorder::new(number, journal)))
        .expect("a journal can be written");
}

async fn work(
    client: &Client<ShmFabric>,
    ground: Place,
    number: u64,
    mut journal: Recorder<File>,
) -> io::Result<()> {
    let (clock, register) = (ground.part(CLOCK), ground.part::<u64>(REGISTER));
    let ClientId { slot, epoch } = client.fabric().identity();
    let identity = u64::from(epoch) << 32 | u64::from(slot) << 8 | 1;
    poke_word(client, ground.part(IDENTITIES + 8 * number), identity).await.expect("a WRITE");
    let mut chance = Chance::new(number);
    for round in 1.. {
        let word = number << 32 | round;
        let action = if chance.once_in(2) { Action::Get } else { Action::Put(word.to_be_bytes().to_vec()) };
        let begun = tick(client, clock).await.expect("an FAA");
        let pending = journal.call(begun, b"register", &action)?;
        let answer = if action == Action::Get {
            let found = peek_word(client, register).await.expect("a READ");
            Answer::Found((found != 0).then(|| found.to_be_bytes().to_vec()))
        } else {
            poke_word(client, register, word).await.expect("a WRITE");
            Answer::Done(true)
        };
        journal.answer(pending, tick(client, clock).await.expect("an FAA"), &answer)?;
        if number == 0 {
            let region = vec![round as u8; REGION_BYTES];
            client.post(write(ground.part::<u8>(REGION), &region)).await.expect("a WRITE");
        }
    }
    Ok(())
}

/// The identity of a child, once it has told it.
async fn identity(client: &Client<ShmFabric>, ground: Place, number: u64) -> ClientId {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        let word = peek_word(client, ground.part(IDENTITIES + 8 * number)).await.expect("a READ");
        if word != 0 {
            return ClientId { slot: (word >> 8) as u16, epoch: (word >> 32) as u32 };
        }
        client.fabric().sleep(1_000_000).await;
    }
    panic!("child {number} never began")
}

/// A pool with a ground for the children.
fn playground() -> (Shm, Client<ShmFabric>, Place) {
    let shm = Shm::new();
    let client = shm.client();
    let ground = shm.block_on(async {
        let scratch = Scratch::take(&client, farwood_fabric::NodeId(0)).await;
        scratch.zeroed(&client, REGION as usize + REGION_BYTES).await
    });
    (shm, client, ground)
}

/// The journals of all children, as far as they came.
fn journals(shm: &Shm) -> History {
    let mut history = History::default();
    for number in 0..CHILDREN {
        let journal = File::open(shm.path().join(format!("journal.{number}"))).expect("a journal");
        history.merge(History::read(BufReader::new(journal)).expect("a journal can be read"));
    }
    history
}

#[test]
fn killed_processes_leave_a_right_history_and_can_be_revoked() {
    let (shm, client, ground) = playground();
    let mut children: Vec<_> = (0..CHILDREN).map(|number| Process::start(&shm, ground, number)).collect();
    let mut chance = Chance::new(7);
    for (number, child) in (0..).zip(&mut children) {
        let whom = block_on(identity(&client, ground, number));
        assert_eq!(block_on(client.fabric().revoke(whom)), Ok(Revocation::Alive), "child {number} works");
        std::thread::sleep(Duration::from_millis(50 + chance.below(50)));
        child.kill();
        assert_eq!(block_on(client.fabric().revoke(whom)), Ok(Revocation::Gone), "child {number} is dead");
    }
    let history = journals(&shm);
    let verdict = history.check(Duration::from_mins(1));
    verdict.expect_right();
    assert!(verdict.operations > 100, "the children did something: {} operations", verdict.operations);
    // Their slots are free for others, under new epochs.
    let next = attach(shm.path()).identity();
    assert!(next.epoch > 0, "{next}");
}

#[test]
fn what_a_killed_writer_leaves_is_whole_once_it_is_gone() {
    let mut torn = 0;
    for round in 0..20 {
        let (shm, client, ground) = playground();
        let mut child = Process::start(&shm, ground, 0);
        let whom = block_on(identity(&client, ground, 0));
        std::thread::sleep(Duration::from_millis(20 + round));
        child.kill();
        let region = block_on(peek(&client, ground.part(REGION), REGION_BYTES)).expect("a READ");
        torn += usize::from(!is_whole(&region));
        assert_eq!(block_on(client.fabric().revoke(whom)), Ok(Revocation::Gone));
        let region = block_on(peek(&client, ground.part(REGION), REGION_BYTES)).expect("a READ");
        assert!(is_whole(&region), "a WRITE survives its writer whole or not at all");
    }
    let text = format!(
        "a WRITE survives its writer: promised; {torn} of 20 WRITEs were half done before the revocation\n"
    );
    let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
}
