//! Workloads: keys, values, the mixes of operations by name, and one stream of operations per client.
//!
//! | name | get | put | insert | scan | read-modify-write |
//! |---|---|---|---|---|---|
//! | `load` | | | 100 % | | |
//! | `ycsb-a` | 50 | 50 | | | |
//! | `ycsb-b` | 95 | 5 | | | |
//! | `ycsb-c` | 100 | | | | |
//! | `ycsb-d` (always `latest`) | 95 | | 5 | | |
//! | `ycsb-d-update` (always `latest`) | 95 | 5 | | | |
//! | `ycsb-e` (lengths uniform from 1) | | | 5 | 95 | |
//! | `ycsb-f` | 50 | | | | 50 |
//! | `write-only` | | 100 | | | |
//! | `write-intensive` | 50 | 50 | | | |
//! | `read-intensive` | 95 | 5 | | | |
//! | `range-only` | | | | 100 | |
//! | `range-write` | | 100, clients of even number | | 100, clients of odd number | |
//!
//! `ycsb-d-update` is Sphinx's D, whose writes update the latest keys.
//!
//! The last five are Sherman's (Table 3 there). Its insert is a put, and draws from 1.5 times the loaded keys,
//! so that at first two thirds of the drawn keys exist. All its operations draw from that space, so some gets find no
//! key.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};
use distribution::{Distribution, KeyChooser};

pub mod distribution;
pub mod keys;
pub mod random;
pub mod rectangles;
mod stream;
pub mod values;

pub use stream::{InsertBoard, InsertCounter, Operation, OperationStream};

/// A mix of operations by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Workload {
    /// Insert every key once.
    Load,
    /// Half reads, half updates.
    YcsbA,
    /// 95 % reads, 5 % updates.
    YcsbB,
    /// Only reads.
    YcsbC,
    /// 95 % reads of the latest keys, 5 % inserts.
    YcsbD,
    /// Sphinx: 95 % reads of the latest keys, 5 % updates of them.
    YcsbDUpdate,
    /// 95 % short scans, 5 % inserts.
    YcsbE,
    /// Half reads, half read-modify-writes.
    YcsbF,
    /// Sherman: only puts.
    WriteOnly,
    /// Sherman: half puts, half gets.
    WriteIntensive,
    /// Sherman: 5 % puts, 95 % gets.
    ReadIntensive,
    /// Sherman: only scans.
    RangeOnly,
    /// Sherman: half of the clients put, half scan.
    RangeWrite,
}

/// Percentages of the operations of one client; they add up to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Reads of one key.
    pub get: u8,
    /// Inserts or updates of a drawn key.
    pub put: u8,
    /// Inserts of a key that no client has inserted.
    pub insert: u8,
    /// Range scans.
    pub scan: u8,
    /// Reads, each followed by an update of the same key.
    pub read_modify_write: u8,
}

impl Workload {
    /// All workloads, in the order of the table above.
    pub const ALL: [Workload; 13] = [
        Workload::Load,
        Workload::YcsbA,
        Workload::YcsbB,
        Workload::YcsbC,
        Workload::YcsbD,
        Workload::YcsbDUpdate,
        Workload::YcsbE,
        Workload::YcsbF,
        Workload::WriteOnly,
        Workload::WriteIntensive,
        Workload::ReadIntensive,
        Workload::RangeOnly,
        Workload::RangeWrite,
    ];

    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Load => "load",
            Workload::YcsbA => "ycsb-a",
            Workload::YcsbB => "ycsb-b",
            Workload::YcsbC => "ycsb-c",
            Workload::YcsbD => "ycsb-d",
            Workload::YcsbDUpdate => "ycsb-d-update",
            Workload::YcsbE => "ycsb-e",
            Workload::YcsbF => "ycsb-f",
            Workload::WriteOnly => "write-only",
            Workload::WriteIntensive => "write-intensive",
            Workload::ReadIntensive => "read-intensive",
            Workload::RangeOnly => "range-only",
            Workload::RangeWrite => "range-write",
        }
    }

    /// The mix of client number `client`.
    pub fn mix(self, client: u64) -> Mix {
        let none = Mix::default();
        match self {
            Workload::Load => Mix { insert: 100, ..none },
            Workload::YcsbA | Workload::WriteIntensive => Mix { get: 50, put: 50, ..none },
            Workload::YcsbB | Workload::YcsbDUpdate | Workload::ReadIntensive => {
                Mix { get: 95, put: 5, ..none }
            }
            Workload::YcsbC => Mix { get: 100, ..none },
            Workload::YcsbD => Mix { get: 95, insert: 5, ..none },
            Workload::YcsbE => Mix { scan: 95, insert: 5, ..none },
            Workload::YcsbF => Mix { get: 50, read_modify_write: 50, ..none },
            Workload::WriteOnly => Mix { put: 100, ..none },
            Workload::RangeWrite if client.is_multiple_of(2) => Mix { put: 100, ..none },
            Workload::RangeWrite | Workload::RangeOnly => Mix { scan: 100, ..none },
        }
    }

    /// Whether it is one of Sherman's workloads, which draw from more keys than are loaded.
    pub fn is_shermans(self) -> bool {
        use Workload::{RangeOnly, RangeWrite, ReadIntensive, WriteIntensive, WriteOnly};
        matches!(self, WriteOnly | WriteIntensive | ReadIntensive | RangeOnly | RangeWrite)
    }

    /// Whether a drawn key can be absent.
    pub fn may_miss(self) -> bool {
        self.is_shermans()
    }

    /// The number of ranks to draw from if `keys` are loaded: the loaded ones, or 1.5 times as many.
    pub fn key_space(self, keys: u64) -> u64 {
        if self.is_shermans() { keys + keys / 2 } else { keys }
    }

    /// Whether new keys are inserted beyond the [`Workload::key_space`].
    pub fn adds_keys(self) -> bool {
        matches!(self, Workload::YcsbD | Workload::YcsbE)
    }

    /// The distribution that the mix requires, if any.
    pub fn implied_distribution(self, theta: f64) -> Option<Distribution> {
        matches!(self, Workload::YcsbD | Workload::YcsbDUpdate).then_some(Distribution::Latest { theta })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(name: &str) -> Result<Workload> {
        Workload::ALL.into_iter().find(|workload| workload.name() == name).ok_or_else(|| {
            let names = Workload::ALL.map(Workload::name).join(", ");
            Error::parameter("--workload", format!("no such workload: {name}"), names)
        })
    }
}

/// The parameters that determine the operations of a run's clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// The mix of operations.
    pub workload: Workload,
    /// The popularity of the keys; `ycsb-d` replaces it by `latest` with the same skew.
    pub distribution: Distribution,
    /// The number of ranks over which popularity is drawn; 0 stands for `keys`.
    pub zipf_ranks: u64,
    /// Keys loaded before measuring; for `load`, the keys at the end.
    pub keys: u64,
    /// For `load`: the first of [`WorkloadSpec::keys`], which are bulk-loaded and not inserted.
    pub preloaded_keys: u64,
    /// Ranks that have a key ([`crate::workload::keys::Keys::ranks`]).
    pub ranks: u64,
    /// Length of scans in keys; for `ycsb-e`, the longest.
    pub range_size: u32,
    /// Clients of the whole run, over all compute nodes.
    pub clients: u64,
    /// Seed of the run.
    pub seed: u64,
}

impl WorkloadSpec {
    /// Checks the parameters.
    ///
    /// # Errors
    /// No keys, too few keys to insert, too few clients, an invalid skew.
    pub fn check(&self) -> Result<()> {
        self.effective_distribution().check()?;
        if self.clients == 0 {
            return Err(Error::parameter("--clients", "0 clients", "give at least 1"));
        }
        if self.workload == Workload::RangeWrite && self.clients < 2 {
            let problem = "range-write needs one client that puts and one that scans";
            return Err(Error::parameter("--clients", problem, "give at least 2"));
        }
        if self.range_size == 0 {
            return Err(Error::parameter("--range-size", "0 keys per scan", "give at least 1"));
        }
        self.check_keys()
    }

    fn check_keys(&self) -> Result<()> {
        if self.keys == 0 {
            return Err(Error::parameter("--keys", "0 keys", "give at least 1"));
        }
        let needed = self.workload.key_space(self.keys) + u64::from(self.workload.adds_keys());
        if needed > self.ranks {
            let problem = format!(
                "{} with {} keys uses {needed}, but only {} exist",
                self.workload, self.keys, self.ranks
            );
            return Err(Error::parameter(
                "--keys",
                problem,
                "load fewer keys, so that some are left to insert",
            ));
        }
        Ok(())
    }

    /// The distribution that is drawn, which the mix can determine.
    pub fn effective_distribution(&self) -> Distribution {
        let theta = match self.distribution {
            // D needs a skew even with a uniform distribution.
            Distribution::Uniform => crate::workload::distribution::THETA_DEFAULT,
            other => other.theta(),
        };
        self.workload.implied_distribution(theta).unwrap_or(self.distribution)
    }

    /// The number of popularity ranks that are drawn from.
    pub fn effective_zipf_ranks(&self) -> u64 {
        if self.zipf_ranks == 0 { self.keys } else { self.zipf_ranks }
    }

    /// The operations of client number `client` (from 0).
    ///
    /// # Errors
    /// The errors of [`WorkloadSpec::check`].
    pub fn stream(&self, client: u64) -> Result<OperationStream> {
        self.check()?;
        let space = self.workload.key_space(self.keys);
        let distribution = self.effective_distribution();
        let chooser = KeyChooser::new(distribution, self.effective_zipf_ranks(), space)?;
        Ok(OperationStream::new(self, client, distribution, chooser))
    }
}

#[cfg(test)]
mod tests;
