//! Which processors a run's processes may use, so that those who are compared have the same.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// Processors by number, of those who serve and those who ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pins {
    pub(crate) servers: Vec<usize>,
    pub(crate) clients: Vec<usize>,
}

impl Pins {
    /// One processor for servers, for Redis uses one, and all others for clients. Where there is only one, it is
    /// everybody's.
    pub(crate) fn of_this_machine() -> Self {
        let mut all = allowed();
        let servers = all.drain(..1.min(all.len())).collect::<Vec<_>>();
        let clients = if all.is_empty() { servers.clone() } else { all };
        Self { servers, clients }
    }
}

impl std::fmt::Display for Pins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "servers on {:?}, clients on {:?}", self.servers, self.clients)
    }
}

fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Keeps this thread, and those that it starts, on some processors; on all, if there are none.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_clients_share_the_machine() {
        let pins = Pins::of_this_machine();
        assert_eq!(pins.servers.len(), 1);
        assert!(!pins.clients.is_empty());
        let cpus = pins.clients.clone();
        std::thread::spawn(move || {
            pin(&cpus[..1]).unwrap();
            assert_eq!(allowed(), cpus[..1]);
        })
        .join()
        .unwrap();
    }
}
