//! Creating and opening trees: the directory entry and its parameters.
//!
//! # Map
//!
//! ```text
//! parameters of a Sphinx tree in its directory entry (128 bytes, little endian)
//! +  0  1  searches begin: 0 at the root, 1 by the hash table, 2 by the filter
//! +  1  1  scans: 0 one by one, 1 batched           +  2 1  groups of a subtable, as a power of two
//! +  3     zero
//! + 14  1  locks in: 0 host memory                  + 15 1  lock width: 0 word
//! + 20  1  kind of the keys                         + 21 1  kind of the values: numbers of the caller's own
//! + 22     zero
//! ```

use super::options::{Begins, Groups, Options, Scans};
use super::table::{self, HashTable};
use super::{Signs, Sphinx};
use crate::cache::filter::Filter;
use crate::error::IndexError;
use crate::lifecycle;
use crate::radix::inner::Size;
use crate::radix::tree::create as open;
use farwood_fabric::directory::{Entry, NewEntry, PARAMETER_BYTES};
use farwood_fabric::{Client, Fabric};

/// The number by which the directory knows Sphinx trees.
pub const KIND: u32 = 3;
/// Version of the format of nodes, leaves and tables.
const FORMAT: u32 = 2;

/// What a tree is created with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The variant.
    pub options: Options,
    /// What keys and values mean to the caller, kept with the tree and read back by [`Sphinx::kinds`].
    pub kinds: [u8; 2],
}

/// What the directory says of a tree, without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The variant's options.
    pub options: Options,
    /// What keys and values mean to whoever created the tree.
    pub kinds: [u8; 2],
}

impl Sphinx {
    /// Creates the tree `name` and opens it with a filter of `filter_bytes`.
    ///
    /// # Errors
    /// [`IndexError::IndexExists`], [`IndexError::BadName`], [`IndexError::Unsafe`]; a full pool or directory.
    pub async fn create<F: Fabric>(
        client: &Client<F>,
        name: &str,
        config: Config,
        filter_bytes: usize,
    ) -> Result<Self, IndexError> {
        open::check_capabilities(client)?;
        let new = NewEntry { name, kind: KIND, format: FORMAT, parameters: encode(config) };
        let plant = async |entry: &Entry| {
            let words = if config.options.has_tables() {
                table::plant(client, entry, config.options.groups.log2()).await?
            } else {
                Vec::new()
            };
            open::plant(client, entry, &words).await
        };
        let entry = lifecycle::create(client, &new, plant).await?;
        Self::assemble(client, entry, filter_bytes).await
    }

    /// Opens the tree `name` with a filter of `filter_bytes`.
    ///
    /// # Errors
    /// [`IndexError::NoSuchIndex`], [`IndexError::WrongFormat`], [`IndexError::Unsafe`].
    pub async fn open<F: Fabric>(
        client: &Client<F>,
        name: &str,
        filter_bytes: usize,
    ) -> Result<Self, IndexError> {
        let entry = lifecycle::find(client, name).await?;
        Self::assemble(client, entry, filter_bytes).await
    }

    pub(crate) async fn assemble<F: Fabric>(
        client: &Client<F>,
        entry: Entry,
        filter_bytes: usize,
    ) -> Result<Self, IndexError> {
        let Description { options, .. } = describe(&entry)?;
        let root = open::enter(client, &entry).await?;
        let words = root.part(Size::All.bytes() as u64);
        let (number, groups) = (entry.number as u32, options.groups.log2());
        let guide = Signs {
            options,
            table: HashTable::new(number, groups, words, client.fabric().shape().nodes),
            filter: Filter::new(if options.begins == Begins::Filter { filter_bytes } else { 0 }),
            sabotage: None,
        };
        Ok(Self::new(client, entry, root, (options.tree(), guide), 0))
    }
}

/// Reads a directory entry as a tree's. [0 RT]
///
/// # Errors
/// [`IndexError::WrongFormat`] where it is no tree of this version.
pub fn describe(entry: &Entry) -> Result<Description, IndexError> {
    lifecycle::check_kind(entry, KIND, FORMAT, "a Sphinx tree")?;
    let bytes = &entry.parameters;
    let refuse = |at: usize| {
        let (name, found) = (&entry.name, bytes[at]);
        IndexError::WrongFormat(format!("index '{name}': parameter {at} is {found}"))
    };
    let begins = match bytes[0] {
        0 => Begins::Root,
        1 => Begins::Table,
        2 => Begins::Filter,
        _ => return Err(refuse(0)),
    };
    let scans = match bytes[1] {
        0 => Scans::OneByOne,
        1 => Scans::Batched,
        _ => return Err(refuse(1)),
    };
    let groups = Groups::new(bytes[2]).ok_or_else(|| refuse(2))?;
    Ok(Description { options: Options { begins, scans, groups }, kinds: [bytes[20], bytes[21]] })
}

fn encode(config: Config) -> [u8; PARAMETER_BYTES] {
    let mut bytes = [0; PARAMETER_BYTES];
    let Options { begins, scans, groups } = config.options;
    bytes[0] = match begins {
        Begins::Root => 0,
        Begins::Table => 1,
        Begins::Filter => 2,
    };
    bytes[1] = u8::from(scans == Scans::Batched);
    bytes[2] = groups.log2();
    bytes[20..22].copy_from_slice(&config.kinds);
    bytes
}

const _: () = assert!(22 <= PARAMETER_BYTES);

#[cfg(test)]
mod tests {
    use super::super::options::Variant;
    use super::*;

    fn entry(parameters: [u8; PARAMETER_BYTES]) -> Entry {
        Entry { slot: 3, number: 9, name: "t".to_owned(), kind: KIND, format: FORMAT, parameters }
    }

    #[test]
    fn parameters_are_read_back() {
        for (variant, _) in Variant::ALL {
            let groups = Groups::new(variant as u8).expect("it is few");
            let config = Config { options: Options { groups, ..variant.options() }, kinds: [3, 4] };
            let read = describe(&entry(encode(config))).expect("it is a tree");
            assert_eq!((read.options, read.kinds), (config.options, [3, 4]));
        }
    }

    #[test]
    fn unknown_parameters_are_refused() {
        let good = encode(Config::default());
        for (at, value) in [(0, 3), (1, 2), (2, 12)] {
            let mut bad = good;
            bad[at] = value;
            assert!(describe(&entry(bad)).is_err(), "byte {at}");
        }
        assert!(describe(&Entry { kind: 4, ..entry(good) }).is_err());
        assert!(describe(&Entry { format: FORMAT + 1, ..entry(good) }).is_err());
    }
}
