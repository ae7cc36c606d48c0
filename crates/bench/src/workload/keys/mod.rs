//! Keys: the bytes of the key of each rank.
//!
//! A *rank* numbers the keys of a run from 0. Ranks `0..keys` are loaded before measuring; clients insert ranks from
//! `keys` on. Distributions draw ranks, so the keys of neighbouring ranks are spread over the tree: popular keys are
//! not neighbours in it.
//!
//! - Integer keys: a fixed bijection of the rank onto all 64 bits, big-endian, so that byte order is integer
//!   order. Wider keys continue with bytes that are a function of the rank.
//! - Keys from a file: one per line, unchanged or padded with zeros to one length, shuffled by a fixed seed.

mod emails;
mod letters;
mod source;

pub use emails::emails;
pub use letters::letters;
pub use source::{KeySource, words};

use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use farwood::internal::small_file;
use serde::{Deserialize, Serialize};

use crate::workload::random::{Generator, mix, unmix};
use crate::{Error, Result};

/// Shortest key of an index, in bytes.
pub const KEY_BYTES_MIN: usize = 8;
/// Longest key of an index with keys of one length, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// Longest key of an index with keys of any length, in bytes.
const ANY_BYTES_MAX: usize = farwood_index::radix::key::KEY_BYTES_MAX;

/// Longest file of keys, in bytes: the ends of keys of any length have 32 bits.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// Seed of the bijection from ranks to integer keys; the same in every run of every version.
const SCATTER_SEED: u64 = 0x4661_7277_6F6F_6421;
/// Seed of the assignment of ranks to the keys of a file.
const SHUFFLE_SEED: u64 = SCATTER_SEED;

/// The integer key of a rank: a bijection on 64 bits that spreads neighbouring ranks.
#[inline]
pub const fn scatter(rank: u64) -> u64 {
    mix(rank ^ SCATTER_SEED)
}

/// The rank of an integer key: the inverse of [`scatter`].
#[inline]
pub const fn gather(key: u64) -> u64 {
    unmix(key) ^ SCATTER_SEED
}

/// The keys of a run.
#[derive(Clone, Debug)]
pub enum Keys {
    /// Integers spread over 64 bits.
    Integers(IntegerKeys),
    /// The lines of a file.
    File(FileKeys),
}

impl Keys {
    /// Integer keys of `key_bytes` bytes (8 to 1024).
    pub fn integers(key_bytes: usize) -> Result<Keys> {
        check_key_bytes(key_bytes)?;
        Ok(Keys::Integers(IntegerKeys { key_bytes }))
    }

    /// The keys in `file`, each of its own length or all of one.
    ///
    /// One key per line; of a TSV or CSV file (by its extension) the first column. Empty lines, keys that are too long
    /// and duplicates are errors that name the line. The file is a regular file of at most 4 GiB.
    pub fn from_file(file: &Path, length: KeyLength) -> Result<Keys> {
        let text = read(file).map_err(|source| Error::Read {
            option: "--key-file",
            file: file.to_owned(),
            source,
        })?;
        Ok(Keys::File(FileKeys::parse(file, &text, length)?))
    }

    /// Length of every key in bytes; of keys of any length, that of the longest.
    pub fn key_bytes(&self) -> usize {
        match self {
            Keys::Integers(keys) => keys.key_bytes,
            Keys::File(keys) => keys.key_bytes,
        }
    }

    /// Mean length of a key in bytes; `None` if all keys have one length.
    pub fn key_bytes_mean(&self) -> Option<f64> {
        match self {
            Keys::File(FileKeys { ends: Ends::At(ends), sorted, .. }) => {
                Some(sorted.len() as f64 / ends.len() as f64)
            }
            Keys::Integers(_) | Keys::File(_) => None,
        }
    }

    /// Number of ranks with a key: the lines of the file, or for integers 2^36, the ranks that a value can name.
    pub fn ranks(&self) -> u64 {
        match self {
            Keys::Integers(_) => crate::workload::values::RANKS_MAX,
            Keys::File(keys) => keys.line_of_rank.len() as u64,
        }
    }

    /// Writes the key of `rank`, which is below [`Keys::ranks`], to `key`. Reuses the memory of `key`.
    #[inline]
    pub fn write_key(&self, rank: u64, key: &mut Vec<u8>) {
        match self {
            Keys::Integers(keys) => {
                key.resize(keys.key_bytes, 0);
                write_integer_key(rank, key);
            }
            Keys::File(keys) => {
                key.clear();
                key.extend_from_slice(keys.key_of(rank));
            }
        }
    }

    /// The key of `rank` as a new vector. For loading and tests; hot paths use [`Keys::write_key`].
    pub fn key(&self, rank: u64) -> Vec<u8> {
        let mut key = Vec::new();
        self.write_key(rank, &mut key);
        key
    }

    /// The ranks `0..count` in the order of their keys: the order of a bulk load. `count` is at most
    /// [`Keys::ranks`]; takes 8 B of memory per rank.
    pub fn ranks_in_key_order(&self, count: u64) -> Vec<u64> {
        match self {
            Keys::Integers(_) => {
                let mut order: Vec<u64> = (0..count).map(scatter).collect();
                order.sort_unstable();
                for word in &mut order {
                    *word = gather(*word);
                }
                order
            }
            Keys::File(keys) => {
                keys.rank_of_line.iter().copied().map(u64::from).filter(|rank| *rank < count).collect()
            }
        }
    }

    /// The rank whose key is `key`, or `None` if no rank has it.
    ///
    /// Constant time for integers, a binary search for keys of a file.
    pub fn rank_of(&self, key: &[u8]) -> Option<u64> {
        match self {
            Keys::Integers(keys) => keys.rank_of(key),
            Keys::File(keys) => keys.rank_of(key),
        }
    }
}

/// Integer keys; see [`Keys::integers`].
#[derive(Clone, Debug)]
pub struct IntegerKeys {
    key_bytes: usize,
}

impl IntegerKeys {
    fn rank_of(&self, key: &[u8]) -> Option<u64> {
        if key.len() != self.key_bytes {
            return None;
        }
        let (first, rest) = key.split_first_chunk::<8>()?;
        let integer = u64::from_be_bytes(*first);
        let rank = gather(integer);
        let matches = (1..)
            .zip(rest.chunks(8))
            .all(|(number, word)| *word == padding_of(integer, number).to_be_bytes()[..word.len()]);
        (matches && rank < crate::workload::values::RANKS_MAX).then_some(rank)
    }
}

#[inline]
fn write_integer_key(rank: u64, key: &mut [u8]) {
    let integer = scatter(rank);
    let (first, rest) = key.split_at_mut(8);
    first.copy_from_slice(&integer.to_be_bytes());
    let (words, tail) = rest.as_chunks_mut::<8>();
    let tail_number = words.len() as u64 + 1;
    for (number, word) in (1..).zip(words) {
        *word = padding_of(integer, number).to_be_bytes();
    }
    if !tail.is_empty() {
        tail.copy_from_slice(&padding_of(integer, tail_number).to_be_bytes()[..tail.len()]);
    }
}

/// Word `number` of a key wider than 8 bytes.
#[inline]
const fn padding_of(integer: u64, number: u64) -> u64 {
    mix(integer.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// The length of the keys of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyLength {
    /// Each key keeps its own length.
    Any,
    /// All keys are padded with zeros to the length of the longest, in whole words.
    Longest,
    /// All keys are padded with zeros to this number of bytes, 8 to 1024.
    Padded(usize),
}

impl KeyLength {
    /// The common length of all keys of `text`, if there is one.
    fn of(self, text: &[u8]) -> Result<Option<usize>> {
        let key_bytes = match self {
            KeyLength::Any => return Ok(None),
            KeyLength::Padded(key_bytes) => key_bytes,
            KeyLength::Longest => {
                let longest = text.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap_or(0);
                longest.next_multiple_of(8).max(KEY_BYTES_MIN)
            }
        };
        check_key_bytes(key_bytes).map(|()| Some(key_bytes))
    }
}

/// Reads a regular file of at most [`FILE_BYTES_MAX`].
fn read(file: &Path) -> io::Result<Vec<u8>> {
    let (opened, metadata) = small_file::open(file)?;
    if metadata.len() > FILE_BYTES_MAX {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is longer than 4 GiB"));
    }
    let mut text = Vec::new();
    opened.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    Ok(text)
}

/// Keys of a file; see [`Keys::from_file`].
#[derive(Clone, Debug)]
pub struct FileKeys {
    /// Length of the longest.
    key_bytes: usize,
    /// The keys, one after the other, in byte order.
    sorted: Vec<u8>,
    ends: Ends,
    /// Rank to position in `sorted`.
    line_of_rank: Vec<u32>,
    /// Position in `sorted` to rank.
    rank_of_line: Vec<u32>,
}

/// The ends of consecutive keys.
#[derive(Clone, Debug)]
enum Ends {
    /// Each key has this many bytes.
    Every(usize),
    /// The end of each key.
    At(Vec<u32>),
}

impl FileKeys {
    /// Parses the keys in `text`; `file` is named in errors, and its extension selects the format.
    ///
    /// # Errors
    /// A line that cannot be a key, and duplicate keys.
    pub fn parse(file: &Path, text: &[u8], length: KeyLength) -> Result<FileKeys> {
        let padded = length.of(text)?;
        let reader = LineReader { file, most: padded.unwrap_or(ANY_BYTES_MAX), column: Column::of(file) };
        let mut lines = reader.keys(text)?;
        lines.sort_unstable();
        if let Some(pair) = lines.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let problem = format!("the key is the same as in line {}", pair[0].1);
            return Err(reader.error(pair[1].1, problem, "remove one of the two lines"));
        }
        let mut sorted = Vec::new();
        let (mut ends, mut longest) = (Vec::new(), 0);
        for (key, line) in &lines {
            sorted.extend_from_slice(key);
            sorted.resize(sorted.len() + padded.map_or(0, |bytes| bytes - key.len()), 0);
            longest = longest.max(key.len());
            if padded.is_none() {
                ends.push(u32::try_from(sorted.len()).map_err(|_| {
                    reader.error(*line, "too many bytes of keys".to_owned(), "give less than 4 GiB")
                })?);
            }
        }
        let ends = padded.map_or(Ends::At(ends), Ends::Every);
        let line_of_rank = shuffled(lines.len() as u32);
        let mut rank_of_line = vec![0; lines.len()];
        for (rank, line) in (0..).zip(&line_of_rank) {
            rank_of_line[*line as usize] = rank;
        }
        let key_bytes = padded.unwrap_or(longest);
        Ok(FileKeys { key_bytes, sorted, ends, line_of_rank, rank_of_line })
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.line_of_rank.len()
    }

    /// Whether there are no keys; never true, because a file without keys is refused.
    pub fn is_empty(&self) -> bool {
        self.line_of_rank.is_empty()
    }

    /// The key at a position of the sorted keys.
    #[inline]
    pub fn key_at(&self, position: usize) -> &[u8] {
        self.key(position as u32)
    }

    /// The rank of the key at a position of the sorted keys.
    #[inline]
    pub fn rank_at(&self, position: usize) -> u64 {
        u64::from(self.rank_of_line[position])
    }

    /// The key of a rank.
    #[inline]
    pub fn key_of(&self, rank: u64) -> &[u8] {
        self.key(self.line_of_rank[rank as usize])
    }

    #[inline]
    fn key(&self, line: u32) -> &[u8] {
        let line = line as usize;
        match &self.ends {
            Ends::Every(bytes) => &self.sorted[line * bytes..][..*bytes],
            Ends::At(ends) => {
                let start = if line == 0 { 0 } else { ends[line - 1] };
                &self.sorted[start as usize..ends[line] as usize]
            }
        }
    }

    fn rank_of(&self, key: &[u8]) -> Option<u64> {
        let (mut low, mut high) = (0, self.line_of_rank.len() as u32);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key(middle).cmp(key) {
                std::cmp::Ordering::Equal => return Some(u64::from(self.rank_of_line[middle as usize])),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

/// The position of the key in a line.
enum Column {
    /// The whole line of the file is the key.
    Line,
    /// Up to the first tab.
    Tab,
    /// Up to the first comma, or inside double quotes.
    Comma,
}

impl Column {
    fn of(file: &Path) -> Column {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some(extension) if extension.eq_ignore_ascii_case("tsv") => Column::Tab,
            Some(extension) if extension.eq_ignore_ascii_case("csv") => Column::Comma,
            _ => Column::Line,
        }
    }

    /// The key in `line`, or the problem with the line.
    fn key<'a>(&self, line: &'a [u8]) -> Result<&'a [u8], &'static str> {
        let until = |line: &'a [u8], end: u8| line.split(|byte| *byte == end).next().unwrap_or(line);
        match (self, line) {
            (Column::Line, _) => Ok(line),
            (Column::Tab, _) => Ok(until(line, b'\t')),
            (Column::Comma, [b'"', rest @ ..]) => match rest.iter().position(|byte| *byte == b'"') {
                None => Err("the quoted first column does not end on this line"),
                Some(end) if rest.get(end + 1) == Some(&b'"') => {
                    Err("the first column has a doubled quote, which keys cannot have")
                }
                Some(end) => Ok(&rest[..end]),
            },
            (Column::Comma, _) => Ok(until(line, b',')),
        }
    }
}

/// Splits a file into keys.
struct LineReader<'a> {
    file: &'a Path,
    /// Bytes of the longest allowed key.
    most: usize,
    column: Column,
}

impl LineReader<'_> {
    /// Every key with the number of its line, trailing zero bytes removed (padding makes them equal anyway).
    fn keys<'t>(&self, text: &'t [u8]) -> Result<Vec<(&'t [u8], u64)>> {
        let body = text.strip_suffix(b"\n").unwrap_or(text);
        if body.is_empty() {
            return Err(self.error(0, "the file has no keys".to_owned(), "give one key per line"));
        }
        let mut keys = Vec::new();
        for (number, line) in (1..).zip(body.split(|byte| *byte == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            keys.push((self.key(number, line)?, number));
        }
        if u32::try_from(keys.len()).is_err() {
            return Err(self.error(0, format!("{} keys are too many", keys.len()), "give fewer than 2^32"));
        }
        Ok(keys)
    }

    fn key<'t>(&self, number: u64, line: &'t [u8]) -> Result<&'t [u8]> {
        let key = self
            .column
            .key(line)
            .map_err(|problem| self.error(number, problem.to_owned(), "use a tab-separated file"))?;
        if key.is_empty() {
            return Err(self.error(number, "the key is empty".to_owned(), "remove the line"));
        }
        if key.len() > self.most {
            let problem = format!("the key has {} B, more than {}", key.len(), self.most);
            return Err(self.error(number, problem, "give a larger --key-bytes or shorten the key"));
        }
        let end = key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Ok(&key[..end])
    }

    fn error(&self, line: u64, problem: String, remedy: &str) -> Error {
        Error::KeyFile { file: PathBuf::from(self.file), line, problem, remedy: remedy.to_owned() }
    }
}

/// The numbers `0..count` in an order fixed by [`SHUFFLE_SEED`] (Fisher and Yates).
fn shuffled(count: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count).collect();
    Generator::for_client(SHUFFLE_SEED, 0).shuffle(&mut order);
    order
}

fn check_key_bytes(key_bytes: usize) -> Result<()> {
    if (KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&key_bytes) {
        return Ok(());
    }
    let problem = format!("keys of {key_bytes} B are not supported");
    Err(Error::parameter("--key-bytes", problem, format!("give {KEY_BYTES_MIN} to {KEY_BYTES_MAX}")))
}

#[cfg(test)]
mod tests;
