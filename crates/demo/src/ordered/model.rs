//! A client's model of the index, and the check of answers against it.

use super::word;
use crate::CheckedAnswers;
use farwood_bench::workload::keys::FileKeys;
use farwood_bench::workload::values::verify;

/// The number of keys, of every four loaded keys of a client, that are never removed.
const PERMANENT_OF_FOUR: u64 = 2;

/// One client's model. Versions are stored plus one; 0 means absent, or not seen.
#[derive(Clone, Debug)]
pub(super) struct ClientModel {
    client: u64,
    clients: u64,
    loaded: u64,
    /// The versions of the client's own keys, by `rank / clients`.
    own: Vec<u64>,
    /// The newest version of each key that the client has seen, by rank.
    seen: Vec<u64>,
    writes: u64,
}

impl ClientModel {
    /// The model of one of `clients` clients of an index that holds the first `loaded` of `ranks` ranks.
    pub(super) fn new(client: u64, clients: u64, ranks: u64, loaded: u64) -> ClientModel {
        let own = (client..ranks).step_by(clients as usize).map(|rank| u64::from(rank < loaded)).collect();
        ClientModel { client, clients, loaded, own, seen: vec![0; ranks as usize], writes: 0 }
    }

    /// Returns the versions of the client's own keys.
    pub(super) fn into_own(self) -> Vec<u64> {
        self.own
    }

    /// The rank of one of the client's own keys, near `rank`.
    pub(super) fn own_near(&self, rank: u64) -> u64 {
        let own = rank - rank % self.clients + self.client;
        if own < self.seen.len() as u64 { own } else { own - self.clients }
    }

    fn owns(&self, rank: u64) -> bool {
        rank % self.clients == self.client
    }

    /// Whether a key is present throughout the demo.
    pub(super) fn is_permanent(&self, rank: u64) -> bool {
        rank < self.loaded && rank / self.clients % 4 < PERMANENT_OF_FOUR
    }

    /// Whether one of the client's own keys is present.
    pub(super) fn has(&self, rank: u64) -> bool {
        self.own[(rank / self.clients) as usize] > 0
    }

    /// The version of its next write.
    pub(super) fn next_version(&mut self) -> u64 {
        self.writes += 1;
        self.writes
    }

    /// Records a write to one of the client's own keys; `None`: a removal.
    pub(super) fn wrote(&mut self, rank: u64, version: Option<u64>) {
        debug_assert!(self.owns(rank), "a client writes its own keys only");
        self.own[(rank / self.clients) as usize] = version.map_or(0, |version| version + 1);
    }

    /// Checks a read that found `value` under the key of `rank`.
    pub(super) fn check(&mut self, rank: u64, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        let version = match value {
            None => 0,
            Some(value) => match verify(value) {
                Ok((found, version)) if found == rank => version + 1,
                Ok((found, _)) => return Err(format!("{} has the value of rank {found}", word(key))),
                Err(error) => return Err(format!("{}: {error}", word(key))),
            },
        };
        if self.owns(rank) {
            let expected = self.own[(rank / self.clients) as usize];
            if version == expected {
                return Ok(());
            }
            return Err(format!("{} has version {version}, but its owner wrote {expected}", word(key)));
        }
        if version == 0 {
            return if self.is_permanent(rank) { Err(format!("{} is missing", word(key))) } else { Ok(()) };
        }
        let seen = &mut self.seen[rank as usize];
        if version < *seen {
            return Err(format!("{} went back from version {seen} to {version}", word(key)));
        }
        *seen = version;
        Ok(())
    }

    /// Whether a scan must find a key in its range.
    fn must_be_found(&self, rank: u64) -> bool {
        if self.owns(rank) { self.has(rank) } else { self.is_permanent(rank) }
    }

    /// Compares the entries of a scan over `positions` (in the scan's order), of at most `limit`, with the sorted list
    /// of all keys: order, bounds, values, and completeness.
    pub(super) fn check_scan<'e>(
        &mut self,
        keys: &FileKeys,
        positions: impl Iterator<Item = usize>,
        limit: usize,
        entries: impl Iterator<Item = (&'e [u8], &'e [u8])>,
        checked: &mut CheckedAnswers,
    ) {
        let mut entries = entries.peekable();
        let mut found = 0;
        for position in positions {
            if found == limit {
                break;
            }
            let (key, rank) = (keys.key_at(position), keys.rank_at(position));
            if let Some((_, value)) = entries.next_if(|(found, _)| *found == key) {
                found += 1;
                checked.count(self.check(rank, key, Some(value)));
            } else if self.must_be_found(rank) {
                checked.count(Err(format!("a scan missed {}", word(key))));
            }
        }
        if let Some((key, _)) = entries.next() {
            checked.count(Err(format!("a scan found {} out of order or out of bounds", word(key))));
        }
    }
}

/// The models of all clients.
pub(super) struct AllModels {
    clients: u64,
    models: Vec<Vec<u64>>,
}

impl AllModels {
    /// The models of `clients` clients, which are added in order.
    pub(super) fn new(clients: u64) -> AllModels {
        AllModels { clients, models: Vec::new() }
    }

    pub(super) fn add(&mut self, models: Vec<Vec<u64>>) {
        self.models.extend(models);
    }

    /// The version that the owner of `rank` wrote last; `None`: absent.
    pub(super) fn version(&self, rank: u64) -> Option<u64> {
        let model = &self.models[(rank % self.clients) as usize];
        model[(rank / self.clients) as usize].checked_sub(1)
    }
}
