//! The directory of named indexes, and its lock.

use crate::harness::Harness;
use farwood_fabric::client_table;
use farwood_fabric::directory::{
    self, DIRECTORY_ENTRIES, Entry, NAME_BYTES_MAX, NewDirectoryEntry, PARAMETER_BYTES, TypedEntry,
};
use farwood_fabric::{Client, Fabric, FabricError, Memory, NodeId, Remote};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The root pointer of all indexes here; no test follows it.
const ROOT: Remote<u64> = match Remote::new(NodeId(0), Memory::Host, 0xF000) {
    Some(root) => root,
    None => panic!("offset 0xF000 is a legal one"),
};

fn new(name: &str) -> NewDirectoryEntry<'_> {
    NewDirectoryEntry { name, kind: 7, format: 3, parameters: [0x5A; PARAMETER_BYTES] }
}

/// Creates an index that has only its directory entry.
async fn create<F: Fabric>(client: &Client<F>, name: &str) -> Entry {
    let lock = directory::lock(client).await.expect("the lock is acquired");
    let entry = lock.reserve(&new(name)).await.expect("the directory has space");
    lock.publish(&entry, ROOT).await.expect("a post");
    lock.unlock().await.expect("a post");
    entry
}

/// Drops an index that no other client has open.
async fn remove<F: Fabric>(client: &Client<F>, entry: &Entry) {
    let lock = directory::lock(client).await.expect("the lock is acquired");
    assert_eq!(lock.retire(entry).await, Ok(Ok(())), "no client has {} open", entry.name);
    lock.erase(entry).await.expect("a post");
    lock.unlock().await.expect("a post");
}

pub(super) fn an_index_is_found_from_publication_to_retirement<H: Harness>(harness: &H) {
    harness.block_on(async {
        let client = harness.client();
        let longest = "ü".repeat(NAME_BYTES_MAX / 2) + "x";
        let mut numbers = Vec::new();
        for name in ["contract", "contract", &longest, ""] {
            assert_eq!(directory::find(&client, name).await, Ok(None), "{name:?} is not there yet");
            let lock = directory::lock(&client).await.expect("the lock is acquired");
            let entry = lock.reserve(&new(name)).await.expect("the directory has space");
            assert_eq!(directory::find(&client, name).await, Ok(None), "{name:?} is only reserved");
            lock.publish(&entry, ROOT).await.expect("a post");
            lock.unlock().await.expect("a post");
            let found = directory::find(&client, name).await.expect("READs").expect("the entry is published");
            assert_eq!(found, entry, "what is found is what was reserved");
            let expected = (name, 7, 3, [0x5A; PARAMETER_BYTES]);
            assert_eq!((found.name.as_str(), found.kind, found.format, found.parameters), expected);
            let root = crate::harness::read_word(&client, entry.root().at()).await.expect("a READ");
            assert_eq!(entry.root().open_pointer(root), Ok(Some(ROOT)), "the root");
            let list = crate::harness::read_word(&client, entry.free_list().at()).await.expect("a READ");
            assert_eq!(entry.free_list().open_pointer::<u64>(list), Ok(None), "no free memory");
            let listed = directory::list(&client).await.expect("READs");
            let untyped = TypedEntry { entry: entry.clone(), types: [None; 2] };
            assert!(listed.contains(&untyped), "{name:?} is listed");
            assert_eq!(
                directory::types(&client, &entry).await,
                Ok([None, None]),
                "{name:?} has no names yet"
            );
            let hashes = [Some(directory::type_hash(name)), None];
            directory::record_types(&client, &entry, hashes).await.expect("a post");
            assert_eq!(
                directory::types(&client, &entry).await,
                Ok(hashes),
                "the names of types are recorded"
            );
            let listed = directory::list(&client).await.expect("READs");
            let typed = TypedEntry { entry: entry.clone(), types: hashes };
            assert!(listed.contains(&typed), "{name:?} is listed with the names of types");
            assert_eq!(directory::find(&client, name).await, Ok(Some(found)), "the entry is intact");
            assert_eq!(directory::still(&client, &entry).await, Ok(true));
            remove(&client, &entry).await;
            assert_eq!(directory::find(&client, name).await, Ok(None), "{name:?} is removed");
            assert_eq!(directory::still(&client, &entry).await, Ok(false));
            assert_eq!(directory::types(&client, &entry).await, Ok([None, None]), "{name:?} is removed");
            let listed = directory::list(&client).await.expect("READs");
            assert!(listed.iter().all(|listed| listed.entry != entry), "{name:?} is removed");
            assert!(!numbers.contains(&entry.number), "two indexes have the number {}", entry.number);
            numbers.push(entry.number);
        }
    });
}

pub(super) fn the_directory_lock_excludes<H: Harness>(harness: &H) {
    const ROUNDS: u64 = 50;
    let (inside, entered) = (AtomicU64::new(0), AtomicU64::new(0));
    harness.run_clients(4, async |_, client| {
        for _ in 0..ROUNDS {
            let lock = directory::lock(&client).await.expect("the lock is acquired");
            assert_eq!(inside.fetch_add(1, SeqCst), 0, "two clients hold the directory's lock");
            client.fabric().sleep(0).await;
            entered.fetch_add(1, SeqCst);
            assert_eq!(inside.fetch_sub(1, SeqCst), 1, "two clients hold the directory's lock");
            lock.unlock().await.expect("a post");
        }
    });
    assert_eq!(entered.into_inner(), 4 * ROUNDS, "every client acquired the lock in every round");
}

pub(super) fn a_name_is_given_once<H: Harness>(harness: &H) {
    for round in 0..10 {
        let created = harness.run_clients(4, async |_, client| {
            let lock = directory::lock(&client).await.expect("the lock is acquired");
            let mut created = None;
            if directory::find(&client, "wanted").await.expect("READs").is_none() {
                let entry = lock.reserve(&new("wanted")).await.expect("the directory has space");
                lock.publish(&entry, ROOT).await.expect("a post");
                created = Some(entry);
            }
            lock.unlock().await.expect("a post");
            created
        });
        let created: Vec<Entry> = created.into_iter().flatten().collect();
        assert_eq!(created.len(), 1, "round {round}: one client creates, the others find: {created:?}");
        harness.block_on(async {
            let client = harness.client();
            let listed = directory::list(&client).await.expect("READs");
            let named = listed.iter().filter(|listed| listed.entry.name == "wanted").count();
            assert_eq!(named, 1, "one index of that name");
            remove(&client, &created[0]).await;
        });
    }
}

pub(super) fn an_index_in_use_is_not_retired<H: Harness>(harness: &H) {
    harness.block_on(async {
        let (client, user) = (harness.client(), harness.separate_client());
        let entry = create(&client, "in use").await;
        client_table::mark_open(&user, entry.open_bit()).await.expect("posts");
        let lock = directory::lock(&client).await.expect("the lock is acquired");
        let refused = lock.retire(&entry).await;
        assert_eq!(refused, Ok(Err(user.fabric().identity())), "the error names the client that has it open");
        lock.unlock().await.expect("a post");
        assert_eq!(
            directory::find(&client, "in use").await,
            Ok(Some(entry.clone())),
            "the index is still in the directory"
        );
        // A client that has left has no index open.
        drop(user);
        // A client can drop an index that it has open itself.
        client_table::mark_open(&client, entry.open_bit()).await.expect("posts");
        remove(&client, &entry).await;
    });
}

pub(super) fn a_full_directory_is_an_error<H: Harness>(harness: &H) {
    harness.block_on(async {
        let client = harness.client();
        let mut entries = Vec::new();
        for number in 0..DIRECTORY_ENTRIES {
            entries.push(create(&client, &format!("index {number}")).await);
        }
        let lock = directory::lock(&client).await.expect("the lock is acquired");
        let full = lock.reserve(&new("one too many")).await;
        let expected = FabricError::NoDirectoryEntry { entries: DIRECTORY_ENTRIES };
        assert_eq!(full.err(), Some(expected), "all entries are taken");
        lock.unlock().await.expect("a post");
        assert_eq!(directory::list(&client).await.map(|all| all.len()), Ok(DIRECTORY_ENTRIES));
        for entry in &entries {
            remove(&client, entry).await;
        }
        assert_eq!(directory::list(&client).await.map(|all| all.len()), Ok(0), "all are removed");
    });
}
