//! CPU pinning: servers and clients of all systems in a comparison get the same CPUs.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs of servers and of clients, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuPinning {
    pub(crate) servers: Vec<usize>,
    pub(crate) clients: Vec<usize>,
}

impl CpuPinning {
    /// One CPU for servers, because Redis uses one, and all others for clients. On a machine with one CPU both use it.
    pub(crate) fn of_this_machine() -> Self {
        let mut all = allowed();
        let servers = all.drain(..1.min(all.len())).collect::<Vec<_>>();
        let clients = if all.is_empty() { servers.clone() } else { all };
        Self { servers, clients }
    }
}

impl std::fmt::Display for CpuPinning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "servers on {:?}, clients on {:?}", self.servers, self.clients)
    }
}

fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Pins the calling thread, and the threads that it starts later, to `cpus`; if that is empty, changes nothing.
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
    fn servers_get_one_cpu_and_clients_the_others() {
        let pinning = CpuPinning::of_this_machine();
        assert_eq!(pinning.servers.len(), 1);
        assert!(!pinning.clients.is_empty());
        let cpus = pinning.clients.clone();
        std::thread::spawn(move || {
            pin(&cpus[..1]).unwrap();
            assert_eq!(allowed(), cpus[..1]);
        })
        .join()
        .unwrap();
    }
}
