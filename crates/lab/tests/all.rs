//! The laboratory finds deliberate defects of a hash table, and nothing in the table without them.

use farwood_lab::fabric::{Client, Fabric, Remote, Swapped, Words, cas, read_bytes, write};
use farwood_lab::{FarIndex, LabError, LabResult, Space, testing};

const BUCKET_BYTES: u64 = 64;

/// The hash table of the template, with one of three defects.
struct Table {
    space: Space,
    defect: String,
}

/// The key of a free entry.
const NO_KEY: u64 = 0;

impl Table {
    /// The bucket of a key, of one memory node.
    fn bucket(&self, key: u64) -> Remote<Words> {
        let buckets = self.space.bytes / BUCKET_BYTES;
        self.space.at(0, key % buckets * BUCKET_BYTES)
    }

    /// The entry of a key, and its value.
    async fn entry<F: Fabric>(
        &self,
        client: &Client<F>,
        key: u64,
        value: u64,
    ) -> LabResult<Option<(Remote<Words>, u64)>> {
        let at = self.bucket(key);
        loop {
            let words = client.post(read_bytes(at, BUCKET_BYTES as usize)).await?.whole_words();
            let word = |number: usize| number_of(&words[8 * number..8 * number + 8]);
            if let Some(entry) = (0..4).find(|entry| word(2 * entry) == key) {
                return Ok(Some((at.part(16 * entry as u64), word(2 * entry + 1))));
            }
            if value == 0 {
                return Ok(None);
            }
            let free = (0..4).find(|entry| word(2 * entry) == NO_KEY);
            let Some(entry) = free else { return Err(LabError::index("the table is full")) };
            if client.post(cas(at.part(16 * entry as u64), NO_KEY, key)).await? == Swapped::Won {
                return Ok(Some((at.part(16 * entry as u64), 0)));
            }
        }
    }

    async fn replace<F: Fabric>(&self, client: &Client<F>, key: u64, value: u64) -> LabResult<u64> {
        let Some((entry, mut before)) = self.entry(client, key, value).await? else { return Ok(0) };
        let at = entry.part::<u64>(8);
        if self.defect == "an operation fails" && value == 0 {
            return Err(LabError::index("no reason"));
        }
        if self.defect == "an operation waits forever" && value == 0 {
            loop {
                client.fabric().sleep(1_000).await;
            }
        }
        if self.defect == "look, then write" {
            client.post(write(at, &value.to_le_bytes())).await?;
            return Ok(before);
        }
        while let Swapped::Lost(found) = client.post(cas(at, before, value)).await? {
            if self.defect == "a lost CAS counts as done" {
                break;
            }
            before = found;
        }
        if self.defect == "a removed entry is reused" && value == 0 && before != 0 {
            let _ = client.post(cas(entry.part(0), key, NO_KEY)).await?;
        }
        Ok(before)
    }
}

fn number_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

impl FarIndex for Table {
    const NAME: &'static str = "table";
    const MUTANTS: &'static [&'static str] = &[
        "look, then write",
        "a lost CAS counts as done",
        "a removed entry is reused",
        "an operation fails",
        "an operation waits forever",
    ];

    fn node_bytes(keys: u64, _: u16) -> u64 {
        (keys + 1) * BUCKET_BYTES
    }

    async fn open<F: Fabric>(_: &Client<F>, space: Space) -> LabResult<Self> {
        Ok(Self { space, defect: String::new() })
    }

    async fn get<F: Fabric>(&self, client: &Client<F>, key: &[u8]) -> LabResult<Option<Vec<u8>>> {
        let entry = self.entry(client, number_of(key), 0).await?;
        Ok(entry.filter(|(_, value)| *value != 0).map(|(_, value)| value.to_le_bytes().to_vec()))
    }

    async fn put<F: Fabric>(&self, client: &Client<F>, key: &[u8], value: &[u8]) -> LabResult<bool> {
        Ok(self.replace(client, number_of(key), number_of(value)).await? != 0)
    }

    async fn remove<F: Fabric>(&self, client: &Client<F>, key: &[u8]) -> LabResult<bool> {
        Ok(self.replace(client, number_of(key), 0).await? != 0)
    }

    fn mutate(&mut self, name: &str) {
        name.clone_into(&mut self.defect);
    }
}

#[test]
fn a_correct_table_passes() {
    testing::check::<Table>(100);
    testing::crashes::<Table>();
}

#[test]
fn each_defect_is_found_and_explained() {
    testing::canaries::<Table>();
    for (number, defect) in Table::MUTANTS.iter().enumerate() {
        let text = testing::find::<Table>(50, Some(defect)).expect("a finding");
        let shown = match number {
            0..3 => "No order of these operations",
            3 => "failed: no reason\n\nThe operation that failed:",
            _ => "Operations without an answer:",
        };
        assert!(text.contains(shown), "{text}");
        assert!(number < 3 || text.contains("remove key"), "{text}");
        assert!(text.contains("READ 64 B at"), "the verbs: {text}");
        assert!(text.contains("repeat: cargo run --release -- check --seeds"), "{text}");
        assert!(text.contains(&format!("--mutant '{defect}'")), "{text}");
    }
}

#[test]
fn the_trace_of_a_finding_has_its_operations_verbs_and_clients() {
    let trace = testing::find_trace::<Table>(50, Some("look, then write")).expect("a finding");
    for part in ["\"cat\":\"operation\"", "under key 1 -> stored", "READ 64 B at", "\"tid\":0"] {
        assert!(trace.contains(part), "{part} in {trace}");
    }
}

#[test]
fn costs_are_a_table() {
    let costs = testing::costs::<Table>();
    assert!(costs.lines().any(|line| line.starts_with("put, new key") && line.contains(" 3 ")), "{costs}");
}
