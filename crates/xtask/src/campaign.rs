//! `cargo xtask campaign`: long searches for bugs, outside the checks of a change.

use std::path::Path;

use crate::steps::{CheckStep, Output, run};

/// The help text.
pub(crate) const HELP: &str = "\
Runs the long searches for bugs: fuzzing, random and recorded seeds in the simulator, many seeds on the loopback fabric,
threads and killed processes on shared memory, killed memory nodes with a log, power failures of three of them; from 30
minutes on, also every test of an index in its long size. A failed seed prints the command that repeats it.

Usage: cargo xtask campaign [--minutes N]
       cargo xtask campaign damage [--trials N]

  --minutes N   how long all steps together take, once they are built [default: 120]
  damage        damage the files of pools at random, and require that every kind of index notices
  --trials N    how often, for each kind of index [default: 5000]

Examples:
  cargo xtask campaign
  cargo xtask campaign --minutes 2      # the longest of .ci/run
  cargo xtask campaign --minutes 600    # overnight
  cargo xtask campaign damage --trials 500
";

/// Minutes of a campaign, unless the command line says otherwise.
pub(crate) const MINUTES: u64 = 120;

/// Trials of a damage campaign for each kind of index, unless the command line says otherwise.
pub(crate) const TRIALS: u64 = 5_000;

/// Length of the shortest campaign that is built in release mode, minutes. Shorter ones run the binaries that `cargo
/// test` built.
const OPTIMISED_MINUTES: u64 = 30;
/// The profiles of cargo for short and for long campaigns.
const PROFILES: [&str; 2] = ["dev", "release"];

/// Targets of the fuzzer, which run one after the other.
const FUZZ_TARGETS: u64 = 3;
/// Indexes of the swarm.
const INDEXES: [(&str, &str); 4] =
    [("sherman", "swarm-1"), ("smart", "swarm-2"), ("sphinx", "swarm-3"), ("catfish", "swarm-4")];

/// The share of each minute of the campaign, in seconds, for fuzzing, and for fresh seeds in the simulator of all
/// indexes together.
const FUZZ_SECONDS: u64 = 12;
const SWARM_SECONDS: u64 = 20;
/// The number of corpus seeds that run in the rest of a minute, by measurements on two cores.
const CORPUS_SEEDS: u64 = 100;
/// Seeds after which the swarm requires that every coverage mark was hit.
const CORPUS_SEEDS_MIN: u64 = 1_000;
const LOOPBACK_SEEDS: u64 = 60;
const KILLS: u64 = 4;
/// Power failures of each test, of which there are eight.
const CUTS: u64 = 300;
/// Fewest power failures of each test: 20,000 together, which take about six minutes.
const CUTS_MIN: u64 = 2_500;
const THREAD_STEPS: u64 = 3_000;

/// Runs the campaign on the tree at `root`, for about `minutes` minutes; yields the number of failures.
pub(crate) fn campaign(root: &Path, minutes: u64) -> usize {
    run(root, &steps(minutes.max(1)), Output::Shown)
}

/// Damages pools at rest, `trials` times for each kind of index; yields the number of failures.
pub(crate) fn damage(root: &Path, trials: u64) -> usize {
    let step =
        CheckStep::tests("damage", &["--release", "--package", "farwood", "--test", "all", "--", "damage::"]);
    run(root, &[step.with("FARWOOD_DAMAGES", trials)], Output::Shown)
}

fn steps(minutes: u64) -> Vec<CheckStep> {
    let profile = PROFILES[usize::from(minutes >= OPTIMISED_MINUTES)];
    let fuzz_seconds = (FUZZ_SECONDS * minutes / FUZZ_TARGETS).to_string();
    let swarm_seconds = (SWARM_SECONDS * minutes / INDEXES.len() as u64).to_string();
    let corpus = format!("0..{}", (CORPUS_SEEDS * minutes).max(CORPUS_SEEDS_MIN));
    let mut steps = vec![CheckStep::program("fuzz", "fuzz/run", &[&fuzz_seconds])];
    steps.push(swarm(profile, "corpus", &["--seed", &corpus]));
    for (index, name) in INDEXES {
        steps.push(swarm(profile, name, &["--index", index, "--seconds", &swarm_seconds]));
    }
    steps.push(
        proofs(profile, "loopback", &["::interleavings::"]).with("FARWOOD_SEEDS", LOOPBACK_SEEDS * minutes),
    );
    let kills = proofs(profile, "kills", &["killed_"]);
    steps.push(kills.with("FARWOOD_KILLS", KILLS * minutes));
    let nodes =
        ["--profile", profile, "--package", "farwood-cli", "--test", "all", "--", "durability::a_killed"];
    steps.push(CheckStep::tests("memory nodes", &nodes).with("FARWOOD_KILLS", KILLS * minutes));
    let power = proofs(profile, "power", &["power_loss::failures"]);
    steps.push(power.with("FARWOOD_CUTS", CUTS_MIN.max(CUTS * minutes)));
    steps.push(
        proofs(profile, "threads", &["sherman::threads"]).with("FARWOOD_STEPS", THREAD_STEPS * minutes),
    );
    if minutes >= OPTIMISED_MINUTES {
        steps.push(proofs(profile, "long tests", &[]).with("FARWOOD_CAMPAIGN", 1));
    }
    steps
}

fn swarm(profile: &str, name: &'static str, arguments: &[&str]) -> CheckStep {
    let swarm = ["run", "--quiet", "--locked", "--profile", profile, "--package", "farwood-proof"];
    CheckStep::cargo(name, &[&swarm[..], &["--example", "swarm", "--"], arguments].concat())
}

fn proofs(profile: &str, name: &'static str, filters: &[&str]) -> CheckStep {
    let proofs = ["--profile", profile, "--package", "farwood-proof", "--test", "all", "--"];
    CheckStep::tests(name, &[&proofs[..], filters].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_campaign_runs_more() {
        let shown = |minutes| steps(minutes).iter().map(CheckStep::shown).collect::<Vec<_>>().join("\n");
        assert!(shown(6).contains("--profile dev") && shown(6).contains("--seed 0..1000"), "{}", shown(6));
        assert!(
            shown(60).contains("--profile release")
                && shown(60).contains("fuzz/run 240")
                && shown(60).contains("FARWOOD_CAMPAIGN=1"),
            "{}",
            shown(60)
        );
    }
}
