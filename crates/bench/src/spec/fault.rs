//! Faults at moments of a simulated run, as the option `--fault` gives them.
//!
//! ```text
//! KIND[:PARAMETER]…@TIME      crash@5ms     freeze:2ms:compute=1@10ms     slow:10x@3ms
//! ```

use std::fmt;
use std::str::FromStr;

use farwood_fabric::NodeId;
use farwood_sim::fault::{CrashPoint, Fault, FaultRule, FaultTrigger};

use super::SECONDS_MAX;
use crate::{Error, Result};

/// The forms of the option's value, for error messages.
const FORMS: &str = "give crash@5ms, freeze:2ms@10ms, down:3ms@8ms, partition:3ms@8ms or slow:10x@8ms, and for a \
                     machine of your choice :compute=N or :memory=N before the @";

/// A fault, and its time since the start of the measured phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedFault {
    /// Nanoseconds since the start of the measured phase.
    pub time_ns: u64,
    kind: FaultKind,
    /// Nanoseconds of a fault that ends, and the factor of a slow NIC.
    extent: u64,
    compute_node: Option<usize>,
    memory_node: Option<u16>,
    text: String,
}

/// The kinds of faults that can happen at a time. Their names are those of the simulator's faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultKind {
    Crash,
    Freeze,
    Down,
    Slow,
    Partition,
}

/// The kind of number that a fault needs besides its machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExtentKind {
    None,
    Duration,
    Factor,
}

impl FaultKind {
    const ALL: [(&str, FaultKind); 5] = [
        ("crash", FaultKind::Crash),
        ("freeze", FaultKind::Freeze),
        ("down", FaultKind::Down),
        ("slow", FaultKind::Slow),
        ("partition", FaultKind::Partition),
    ];

    fn extent_kind(self) -> ExtentKind {
        match self {
            FaultKind::Crash => ExtentKind::None,
            FaultKind::Slow => ExtentKind::Factor,
            FaultKind::Freeze | FaultKind::Down | FaultKind::Partition => ExtentKind::Duration,
        }
    }

    fn has_compute_node(self) -> bool {
        matches!(self, FaultKind::Crash | FaultKind::Freeze | FaultKind::Partition)
    }

    fn has_memory_node(self) -> bool {
        matches!(self, FaultKind::Down | FaultKind::Slow | FaultKind::Partition)
    }
}

/// The machines of a run on which faults happen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultMachines {
    pub(crate) compute_nodes: usize,
    pub(crate) memory_nodes: u16,
}

impl TimedFault {
    /// The rule of the simulator, with its time since the start of the measured phase.
    pub(crate) fn rule(&self, machines: FaultMachines) -> FaultRule {
        let compute_node = self.compute_node_of(machines);
        let node = NodeId(self.memory_node.unwrap_or(0));
        let nanoseconds = self.extent;
        let fault = match self.kind {
            FaultKind::Crash => Fault::Crash { compute_node, point: CrashPoint::At },
            FaultKind::Freeze => Fault::Freeze { compute_node, nanoseconds },
            FaultKind::Down => Fault::Down { node, nanoseconds },
            FaultKind::Slow => Fault::Slow { node, times: self.extent },
            FaultKind::Partition => Fault::Partition { compute_node, node, nanoseconds },
        };
        FaultRule { when: FaultTrigger::Time(self.time_ns), fault }
    }

    /// The compute node of the fault: by default the last one.
    fn compute_node_of(&self, machines: FaultMachines) -> usize {
        self.compute_node.unwrap_or(machines.compute_nodes.saturating_sub(1))
    }

    fn refuse(&self, problem: &str, remedy: &str) -> Error {
        Error::parameter("--fault", format!("{}: {problem}", self.text), remedy)
    }

    /// Refuses machines that the run does not have.
    fn check_machines(&self, machines: FaultMachines) -> Result<()> {
        if self.compute_node_of(machines) >= machines.compute_nodes {
            let problem = format!("the run has {} compute nodes, from 0 on", machines.compute_nodes);
            return Err(self.refuse(&problem, "give a smaller number, or more --compute-nodes"));
        }
        if self.memory_node.is_some_and(|node| node >= machines.memory_nodes) {
            let problem = format!("the run has {} memory nodes, from 0 on", machines.memory_nodes);
            return Err(self.refuse(&problem, "give a smaller number, or more --memory-nodes"));
        }
        Ok(())
    }
}

/// Checks the faults of a run whose measured phase ends after `end_ns`, if its end is a time.
///
/// # Errors
/// A fault after the end, or at a machine that the run does not have; crashes that leave no compute node.
pub(crate) fn check(faults: &[TimedFault], machines: FaultMachines, end_ns: Option<u64>) -> Result<()> {
    let mut crashed = Vec::new();
    for fault in faults {
        fault.check_machines(machines)?;
        if let Some(end_ns) = end_ns.filter(|end_ns| fault.time_ns >= *end_ns) {
            let problem = format!("the measured phase ends after {} ms", end_ns as f64 / 1e6);
            return Err(fault.refuse(&problem, "give an earlier time, or more --seconds"));
        }
        if fault.kind != FaultKind::Crash {
            continue;
        }
        let compute_node = fault.compute_node_of(machines);
        if crashed.contains(&compute_node) {
            let problem = format!("compute node {compute_node} crashes twice");
            return Err(fault.refuse(&problem, "name another one, for example crash:compute=0@5ms"));
        }
        crashed.push(compute_node);
        if crashed.len() == machines.compute_nodes {
            let problem = "no compute node continues, because each one crashes";
            return Err(fault.refuse(problem, "give more --compute-nodes (and --clients), or fewer crashes"));
        }
    }
    Ok(())
}

/// Largest factor by which a NIC is slowed down.
const FACTOR_MAX: u64 = 1_000_000;

impl FromStr for TimedFault {
    type Err = Error;

    fn from_str(text: &str) -> Result<TimedFault> {
        let refuse = |problem: &str| Error::parameter("--fault", format!("'{text}': {problem}"), FORMS);
        let (fault, time) = text.split_once('@').ok_or_else(|| refuse("there is no time after an @"))?;
        let time_ns =
            nanoseconds(time).ok_or_else(|| refuse("the time is no number with ns, us, ms or s"))?;
        let mut parts = fault.split(':');
        let name = parts.next().unwrap_or_default();
        if name == "delay" {
            return Err(refuse("a delay concerns one verb and not a time"));
        }
        let kind = FaultKind::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        let kind = kind.ok_or_else(|| refuse(&format!("there is no fault '{name}'")))?;
        let mut parsed = TimedFault {
            time_ns,
            kind,
            extent: 0,
            compute_node: None,
            memory_node: None,
            text: text.to_owned(),
        };
        for part in parts {
            parsed.add(part).map_err(|problem| refuse(&problem))?;
        }
        match (kind.extent_kind(), parsed.extent) {
            (ExtentKind::Duration, 0) => Err(refuse("the fault needs a duration above 0")),
            (ExtentKind::Factor, 0) => Err(refuse("the fault needs a factor above 0")),
            _ => Ok(parsed),
        }
    }
}

impl TimedFault {
    /// Adds a parameter.
    fn add(&mut self, part: &str) -> Result<(), String> {
        let kind = self.kind;
        let wrong = || format!("'{part}' is no parameter of this fault");
        let first =
            |is_first: bool| is_first.then_some(()).ok_or_else(|| format!("'{part}' is a second value"));
        if let Some(number) = part.strip_prefix("compute=").filter(|_| kind.has_compute_node()) {
            first(self.compute_node.is_none())?;
            self.compute_node = Some(number.parse().map_err(|_| wrong())?);
        } else if let Some(number) = part.strip_prefix("memory=").filter(|_| kind.has_memory_node()) {
            first(self.memory_node.is_none())?;
            self.memory_node = Some(number.parse().map_err(|_| wrong())?);
        } else {
            first(self.extent == 0)?;
            self.extent = match kind.extent_kind() {
                ExtentKind::Duration => nanoseconds(part),
                ExtentKind::Factor => part
                    .strip_suffix('x')
                    .and_then(|factor| factor.parse().ok())
                    .filter(|factor| *factor <= FACTOR_MAX),
                ExtentKind::None => None,
            }
            .ok_or_else(wrong)?;
        }
        Ok(())
    }
}

/// The text of the option.
impl fmt::Display for TimedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A duration with its unit, in nanoseconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let number = digits.parse::<f64>().ok()? * unit;
    (0.0..=SECONDS_MAX * 1e9).contains(&number).then(|| number.round() as u64)
}

/// The name of an injected fault in records, with its machine.
pub(crate) fn describe(fault: Fault) -> String {
    match fault {
        Fault::Crash { compute_node, .. } => format!("crash:compute={compute_node}"),
        Fault::Freeze { compute_node, nanoseconds } => {
            format!("freeze:{}:compute={compute_node}", with_unit(nanoseconds))
        }
        Fault::Delay { nanoseconds } => format!("delay:{}", with_unit(nanoseconds)),
        Fault::Down { node, nanoseconds } => format!("down:{}:memory={}", with_unit(nanoseconds), node.0),
        Fault::Slow { node, times } => format!("slow:{times}x:memory={}", node.0),
        Fault::Partition { compute_node, node, nanoseconds } => {
            format!("partition:{}:compute={compute_node}:memory={}", with_unit(nanoseconds), node.0)
        }
    }
}

/// A duration in the largest unit in which it is a whole number.
fn with_unit(nanoseconds: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    let largest = units.into_iter().find(|(unit, _)| nanoseconds.is_multiple_of(*unit));
    let (unit, name) = largest.unwrap_or((1, "ns"));
    format!("{}{name}", nanoseconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINES: FaultMachines = FaultMachines { compute_nodes: 3, memory_nodes: 2 };

    fn fault(text: &str) -> TimedFault {
        text.parse().unwrap()
    }

    fn refused(texts: &[&str]) -> String {
        let faults: Vec<_> = texts.iter().map(|text| fault(text)).collect();
        check(&faults, MACHINES, Some(20_000_000)).unwrap_err().to_string()
    }

    #[test]
    fn each_fault_becomes_a_rule_of_the_simulator() {
        for (text, name, time) in [
            ("crash@5ms", "crash:compute=2", 5_000_000),
            ("crash:compute=0@0s", "crash:compute=0", 0),
            ("freeze:2ms:compute=1@1.5ms", "freeze:2ms:compute=1", 1_500_000),
            ("down:3ms@800us", "down:3ms:memory=0", 800_000),
            ("slow:10x:memory=1@7ns", "slow:10x:memory=1", 7),
            ("partition:memory=1:3us@8ms", "partition:3us:compute=2:memory=1", 8_000_000),
        ] {
            let rule = fault(text).rule(MACHINES);
            assert_eq!(
                (describe(rule.fault).as_str(), rule.when),
                (name, FaultTrigger::Time(time)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_value_of_another_form_is_refused_with_the_forms() {
        for text in [
            "crash",
            "crash@5",
            "crash@-5ms",
            "crash:2ms@5ms",
            "crash:memory=0@5ms",
            "freeze@5ms",
            "freeze:0ms@5ms",
            "down:3ms:compute=0@5ms",
            "slow:3ms@5ms",
            "delay:2ms@5ms",
            "flood@5ms",
            "crash:compute=x@5ms",
            "crash:compute=0:compute=1@5ms",
            "down:1ms:2ms@5ms",
            "slow:1000001x@5ms",
        ] {
            let refused = text.parse::<TimedFault>().unwrap_err().to_string();
            assert!(refused.starts_with("--fault: ") && refused.contains("crash@5ms"), "{text}: {refused}");
        }
    }

    #[test]
    fn faults_fit_the_machines_and_the_measured_phase() {
        let all = ["crash@19ms", "crash:compute=1@1ms", "down:9ms:memory=1@1ms"].map(fault);
        assert!(check(&all, MACHINES, Some(20_000_000)).is_ok());
        assert!(check(&[fault("crash@1s")], MACHINES, None).is_ok(), "the end is not known");
        assert!(refused(&["crash@20ms"]).contains("--seconds"));
        assert!(refused(&["crash:compute=3@1ms"]).contains("--compute-nodes"));
        assert!(refused(&["slow:2x:memory=2@1ms"]).contains("--memory-nodes"));
        assert!(refused(&["crash@1ms", "crash@2ms"]).contains("compute node 2 crashes twice"));
        let all = ["crash@1ms", "crash:compute=0@1ms", "crash:compute=1@1ms"];
        assert!(refused(&all).contains("no compute node continues"));
    }
}
