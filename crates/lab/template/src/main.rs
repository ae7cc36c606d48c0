//! A hash table in far memory: one READ per lookup.
//!
//! A bucket is a line of 64 bytes: four entries of two words, key and value. A key claims the first entry whose key is
//! 0, by CAS, and keeps it forever; the value 0 means that the key is absent. So two clients that insert one key claim
//! the same entry, and an entry without a key proves that the keys behind it are absent.

use farwood_lab::fabric::{Client, Fabric, Remote, Swapped, Words, cas, read_bytes};
use farwood_lab::{FarIndex, LabError, LabResult, Space};

const BUCKET_BYTES: u64 = 64;

struct HashTable(Space);

/// An entry: the address of its value, and its value. `None`: no entry of the bucket can hold the key.
type Entry = Option<(Remote<u64>, u64)>;

impl HashTable {
    fn buckets(space: Space) -> u64 {
        space.bytes / BUCKET_BYTES
    }

    /// Reads the entry of a key; claims one for a value other than 0. [1 RT for each bucket; 1 to claim]
    async fn entry<F: Fabric>(&self, client: &Client<F>, key: u64, value: u64) -> LabResult<Entry> {
        let (nodes, buckets) = (u64::from(self.0.memory_nodes), Self::buckets(self.0));
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        for bucket in hash..hash + buckets {
            let bucket = bucket % (nodes * buckets);
            let at = self.0.at::<Words>((bucket % nodes) as u16, bucket / nodes * BUCKET_BYTES);
            loop {
                let words = client.post(read_bytes(at, BUCKET_BYTES as usize)).await?.whole_words();
                let word = |number: usize| word(&words[8 * number..8 * number + 8]);
                let Some(entry) = (0..4).find(|entry| [0, key].contains(&word(2 * entry))) else { break };
                let value_at = at.part(16 * entry as u64 + 8);
                if word(2 * entry) == key {
                    return Ok(Some((value_at, word(2 * entry + 1))));
                }
                if value == 0 {
                    return Ok(None);
                }
                if client.post(cas(at.part(16 * entry as u64), 0, key)).await? == Swapped::Won {
                    return Ok(Some((value_at, 0)));
                }
            }
        }
        if value != 0 { Err(LabError::index("the table is full")) } else { Ok(None) }
    }

    /// Replaces the value of a key; returns the one before. [2 RT; 3 for a new key; more beside other changes]
    async fn replace<F: Fabric>(&self, client: &Client<F>, key: u64, value: u64) -> LabResult<u64> {
        let Some((at, mut before)) = self.entry(client, key, value).await? else { return Ok(0) };
        while let Swapped::Lost(found) = client.post(cas(at, before, value)).await? {
            before = found;
        }
        Ok(before)
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

impl FarIndex for HashTable {
    const NAME: &'static str = "hash-table";

    /// Twice as many entries as keys.
    fn node_bytes(keys: u64, memory_nodes: u16) -> u64 {
        (keys / u64::from(memory_nodes) / 2 + 1) * BUCKET_BYTES
    }

    async fn open<F: Fabric>(_: &Client<F>, space: Space) -> LabResult<Self> {
        Ok(Self(space))
    }

    async fn get<F: Fabric>(&self, client: &Client<F>, key: &[u8]) -> LabResult<Option<Vec<u8>>> {
        let entry = self.entry(client, word(key), 0).await?;
        Ok(entry.filter(|(_, value)| *value != 0).map(|(_, value)| value.to_le_bytes().to_vec()))
    }

    async fn put<F: Fabric>(&self, client: &Client<F>, key: &[u8], value: &[u8]) -> LabResult<bool> {
        Ok(self.replace(client, word(key), word(value)).await? != 0)
    }

    async fn remove<F: Fabric>(&self, client: &Client<F>, key: &[u8]) -> LabResult<bool> {
        Ok(self.replace(client, word(key), 0).await? != 0)
    }
}

fn main() -> std::process::ExitCode {
    farwood_lab::run::<HashTable>()
}
