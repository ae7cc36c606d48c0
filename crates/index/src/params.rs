//! The parameters of an index in its directory entry. A system lists its fields once, in
//! [`Parameters::fields`]; the list encodes a configuration, decodes it, and refuses values that are not in the
//! format.

use crate::error::IndexError;
use crate::lock::{LockMemory, LockWidth};
use farwood_fabric::directory::{Entry, NewDirectoryEntry, PARAMETER_BYTES};
use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;

/// Number of Sherman in the directory.
pub(crate) const KIND_SHERMAN: u32 = 1;
/// Number of SMART in the directory.
pub(crate) const KIND_SMART: u32 = 2;
/// Number of Sphinx in the directory.
pub(crate) const KIND_SPHINX: u32 = 3;
/// Number of Catfish in the directory.
pub(crate) const KIND_CATFISH: u32 = 4;

/// Systems with locks in the tables of the pool.
const LOCKING_KINDS: [u32; 3] = [KIND_SHERMAN, KIND_SMART, KIND_SPHINX];

/// Offset of the memory of the locks, in every system with locks in the pool's tables.
const LOCK_MEMORY: usize = 14;
/// Offset of the width of those locks.
const LOCK_WIDTH: usize = 15;
/// Offset of the locks of leaves in a SMART tree, and its value if they are in device memory, with 64 bits each
/// (`smart/create.rs`). The locks of inner nodes are in host memory.
const SMART_LEAF_LOCKS: usize = 2;
const SMART_LEAF_LOCKS_IN_DEVICE: u8 = 2;
/// Offset of the kinds of keys and values, in every ordered index.
const KINDS: usize = 20;

/// The configuration of a system, as its directory entries hold it.
pub(crate) trait Parameters: Clone + Default {
    /// The number of the system in the directory.
    const KIND: u32;
    /// Version of the format of its nodes.
    const FORMAT: u32;
    /// The name of the kind in errors, such as "a Sphinx tree".
    const NAME: &'static str;

    /// Passes each field to the codec, with its offset and its legal values. Other bytes are zero.
    fn fields(&mut self, codec: &mut Codec);
}

/// Writes fields into parameters, or reads them from there.
#[derive(Debug)]
pub(crate) struct Codec {
    bytes: [u8; PARAMETER_BYTES],
    action: Action,
    /// The reason why the parameters are refused: the first illegal value.
    refusal: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Encode,
    Decode,
}

impl Codec {
    fn new(bytes: [u8; PARAMETER_BYTES], action: Action) -> Self {
        Self { bytes, action, refusal: None }
    }

    /// One of several values, in a byte: its position among them.
    pub(crate) fn choice<T: Copy + PartialEq + Debug, const N: usize>(
        &mut self,
        at: usize,
        value: &mut T,
        values: [T; N],
    ) {
        let mut position = values.iter().position(|legal| legal == value).unwrap_or(0) as u8;
        debug_assert!(self.action == Action::Decode || values[usize::from(position)] == *value, "{value:?}");
        self.u8(at, &mut position, 0..=N as u8 - 1);
        *value = values[usize::from(position)];
    }

    /// A number in a byte.
    pub(crate) fn u8(&mut self, at: usize, value: &mut u8, legal: RangeInclusive<u8>) {
        self.number::<1, _>(at, value, &legal);
    }

    /// A number in two bytes.
    pub(crate) fn u16(&mut self, at: usize, value: &mut usize, legal: RangeInclusive<usize>) {
        self.number::<2, _>(at, value, &legal);
    }

    /// A number in four bytes.
    pub(crate) fn u32(&mut self, at: usize, value: &mut usize, legal: RangeInclusive<usize>) {
        self.number::<4, _>(at, value, &legal);
    }

    /// The location of the locks of nodes, and their width.
    pub(crate) fn locks(&mut self, memory: &mut LockMemory, width: &mut LockWidth) {
        self.choice(LOCK_MEMORY, memory, [LockMemory::Host, LockMemory::Device, LockMemory::Node]);
        self.choice(LOCK_WIDTH, width, [LockWidth::Word, LockWidth::Packed]);
    }

    /// The types of keys and values, as the caller numbers them.
    pub(crate) fn kinds(&mut self, kinds: &mut [u8; 2]) {
        let [keys, values] = kinds;
        self.u8(KINDS, keys, 0..=u8::MAX);
        self.u8(KINDS + 1, values, 0..=u8::MAX);
    }

    /// A number in `N` bytes, little endian. A value that is read and refused leaves `value` as it is.
    fn number<const N: usize, T>(&mut self, at: usize, value: &mut T, legal: &RangeInclusive<T>)
    where
        T: Copy + Display + PartialOrd + TryFrom<u64> + TryInto<u64>,
    {
        let field = &mut self.bytes[at..at + N];
        match self.action {
            Action::Encode => {
                let Ok(number) = (*value).try_into() else { unreachable!("a field has at most 64 bits") };
                assert!(
                    legal.contains(value),
                    "the parameter at {at} is {value}, which is not in the format"
                );
                assert!(number >> (8 * N) == 0, "the parameter at {at} has {N} bytes");
                field.copy_from_slice(&number.to_le_bytes()[..N]);
            }
            Action::Decode => {
                let mut number = [0; 8];
                number[..N].copy_from_slice(field);
                let number = u64::from_le_bytes(number);
                match T::try_from(number) {
                    Ok(read) if legal.contains(&read) => *value = read,
                    _ => self.refuse(format!("the parameter at byte {at} is {number}")),
                }
            }
        }
    }

    /// Refuses the parameters.
    pub(crate) fn refuse(&mut self, why: String) {
        self.refusal.get_or_insert(why);
    }
}

/// The directory entry of a new index.
pub(crate) fn new_entry<'n, P: Parameters>(name: &'n str, config: &P) -> NewDirectoryEntry<'n> {
    NewDirectoryEntry { name, kind: P::KIND, format: P::FORMAT, parameters: encode(config) }
}

/// The parameters of a configuration.
///
/// # Panics
/// Panics if a value is not in the format: the caller has checked the configuration.
pub(crate) fn encode<P: Parameters>(config: &P) -> [u8; PARAMETER_BYTES] {
    let mut codec = Codec::new([0; PARAMETER_BYTES], Action::Encode);
    config.clone().fields(&mut codec);
    assert!(codec.refusal.is_none(), "the configuration is legal: {:?}", codec.refusal);
    codec.bytes
}

/// The name of a kind of index, for messages.
pub(crate) fn kind_name(kind: u32) -> String {
    match kind {
        KIND_SHERMAN => "a Sherman tree".to_owned(),
        KIND_SMART => "a SMART tree".to_owned(),
        KIND_SPHINX => "a Sphinx tree".to_owned(),
        KIND_CATFISH => "a spatial index (Catfish)".to_owned(),
        unknown => format!("of the unknown kind {unknown}"),
    }
}

/// Reads the configuration of an index from its directory entry.
///
/// # Errors
/// [`IndexError::WrongFormat`] where the entry is of another system or version, or has an unknown value.
pub(crate) fn decode<P: Parameters>(entry: &Entry) -> Result<P, IndexError> {
    let refuse = |why: String| Err(IndexError::WrongFormat(format!("index '{}': {why}", entry.name)));
    if entry.kind != P::KIND {
        return refuse(format!(
            "it is {}, not {}; use the operations of its kind",
            kind_name(entry.kind),
            P::NAME
        ));
    }
    if entry.format != P::FORMAT {
        let (found, known) = (entry.format, P::FORMAT);
        return refuse(format!(
            "format {found}, and this program knows {known}; load it again with this program"
        ));
    }
    let mut codec = Codec::new(entry.parameters, Action::Decode);
    let mut config = P::default();
    config.fields(&mut codec);
    match codec.refusal {
        None => Ok(config),
        Some(why) => refuse(why),
    }
}

/// The types of keys and values of an ordered index, as numbers that its creator chose.
pub(crate) fn kinds(entry: &Entry) -> [u8; 2] {
    [entry.parameters[KINDS], entry.parameters[KINDS + 1]]
}

/// Whether two indexes, each with its kind and parameters, have locks of different widths in one table. A word of a
/// table holds one lock of 64 bits or four of 16 bits, and the release of a 64-bit lock would erase the others.
pub(crate) fn locks_conflict(
    (kind, one): (u32, &[u8; PARAMETER_BYTES]),
    (other_kind, other): (u32, &[u8; PARAMETER_BYTES]),
) -> bool {
    if !LOCKING_KINDS.contains(&kind) || !LOCKING_KINDS.contains(&other_kind) {
        return false;
    }
    let tables = table_widths(kind, one).into_iter().zip(table_widths(other_kind, other));
    tables.into_iter().any(|widths| matches!(widths, (Some(one), Some(other)) if one != other))
}

/// The widths of an index's locks in the tables in host memory and in device memory. Locks in nodes are in no table.
fn table_widths(kind: u32, parameters: &[u8; PARAMETER_BYTES]) -> [Option<u8>; 2] {
    let mut widths = [None; 2];
    if let Some(table) = widths.get_mut(usize::from(parameters[LOCK_MEMORY])) {
        *table = Some(parameters[LOCK_WIDTH]);
    }
    if kind == KIND_SMART && parameters[SMART_LEAF_LOCKS] == SMART_LEAF_LOCKS_IN_DEVICE {
        widths[1] = Some(0);
    }
    widths
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A directory entry with these parameters.
    pub(crate) fn entry<P: Parameters>(parameters: [u8; PARAMETER_BYTES]) -> Entry {
        Entry { slot: 3, number: 9, name: "t".to_owned(), kind: P::KIND, format: P::FORMAT, parameters }
    }

    /// Checks that a configuration is read back, and that each changed byte of `bad`, other kinds and other formats are
    /// refused.
    pub(crate) fn check_codec<P: Parameters + PartialEq + Debug>(config: &P, bad: &[(usize, u8)]) {
        let good = encode(config);
        assert_eq!(decode::<P>(&entry::<P>(good)).as_ref(), Ok(config));
        for &(at, value) in bad {
            let mut bytes = good;
            bytes[at] = value;
            assert!(decode::<P>(&entry::<P>(bytes)).is_err(), "byte {at} is {value}");
        }
        let other = Entry { kind: P::KIND + 1, ..entry::<P>(good) };
        assert!(decode::<P>(&other).is_err());
        let later = Entry { format: P::FORMAT + 1, ..entry::<P>(good) };
        assert!(decode::<P>(&later).is_err());
    }

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Example {
        letter: char,
        size: usize,
        kinds: [u8; 2],
    }

    impl Parameters for Example {
        const KIND: u32 = 99;
        const FORMAT: u32 = 1;
        const NAME: &'static str = "an example";

        fn fields(&mut self, codec: &mut Codec) {
            codec.choice(3, &mut self.letter, ['\0', 'a', 'b']);
            codec.u32(4, &mut self.size, 0..=70_000);
            codec.kinds(&mut self.kinds);
        }
    }

    #[test]
    fn locks_of_leaves_in_device_memory_conflict_with_locks_of_16_bits_there() {
        let mut sherman = [0; PARAMETER_BYTES];
        sherman[LOCK_MEMORY] = 1;
        let mut smart = [0; PARAMETER_BYTES];
        smart[SMART_LEAF_LOCKS] = SMART_LEAF_LOCKS_IN_DEVICE;
        let conflict = |sherman: &[u8; PARAMETER_BYTES], smart: &[u8; PARAMETER_BYTES]| {
            let (sherman, smart) = ((KIND_SHERMAN, sherman), (KIND_SMART, smart));
            assert_eq!(locks_conflict(sherman, smart), locks_conflict(smart, sherman));
            locks_conflict(sherman, smart)
        };
        assert!(!conflict(&sherman, &smart), "all locks have 64 bits");
        sherman[LOCK_WIDTH] = 1;
        assert!(conflict(&sherman, &smart) && !conflict(&sherman, &[0; PARAMETER_BYTES]));
    }

    #[test]
    fn fields_are_little_endian_at_their_offsets() {
        let example = Example { letter: 'b', size: 65_537, kinds: [7, 8] };
        let bytes = encode(&example);
        assert_eq!(bytes[..8], [0, 0, 0, 2, 1, 0, 1, 0]);
        assert_eq!((&bytes[20..22], bytes[22..].iter().all(|&byte| byte == 0)), (&[7, 8][..], true));
        check_codec(&example, &[(3, 3), (6, 2)]);
    }
}
