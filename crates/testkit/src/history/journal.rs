//! Journals: a history as lines, written as operations run.
//!
//! ```text
//! = KEY VALUE                               an initial entry
//! > CLIENT NUMBER TIME ACTION KEY [VALUE]   an operation begins; ACTION is put, insert, update, remove or get
//! > CLIENT NUMBER TIME exchange KEY EXPECTED VALUE   EXPECTED is a value, - (absent) or * (any); VALUE may be -
//! < CLIENT NUMBER TIME ANSWER [VALUE]       its answer: yes, no, replaced, added, found VALUE or none
//! s CLIENT TIME TIME DIRECTION FROM TO LIMIT KEY=VALUE KEY=VALUE ...
//! ```
//!
//! Bytes are hexadecimal after an `x`, so that an empty string is visible. FROM and TO are `[` or `(` and a key, or
//! `*`. The line of a call is written before the operation begins, so an operation of a killed process has a call and
//! no answer. A line without a newline was cut off when its writer was killed, and is ignored.

use super::{Action, Answer, ByteString, Direction, Exchange, Expected, History, Operation, Scan};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, Write};
use std::ops::Bound;

/// Writes one client's journal. Each line is one write: lines that were written before a kill stay, unless the writer
/// buffers.
#[derive(Debug)]
pub struct Recorder<W> {
    client: u64,
    next: u64,
    line: String,
    to: W,
}

/// An operation that has begun.
#[derive(Debug)]
#[must_use = "an operation without an answer is one of a killed client"]
pub struct Pending(u64);

impl<W: Write> Recorder<W> {
    /// The journal of `client`, whose number no other client of the history has.
    pub fn new(client: u64, to: W) -> Self {
        Self { client, next: 0, line: String::new(), to }
    }

    /// Records an initial entry. Only one client does this.
    pub fn initial(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.line.push('=');
        self.bytes(key);
        self.bytes(value);
        self.end_line()
    }

    /// Records the call of an operation at `now`.
    pub fn call(&mut self, now: u64, key: &[u8], action: &Action) -> io::Result<Pending> {
        let number = self.next;
        self.next += 1;
        let (name, value) = match action {
            Action::Put(value) => ("put", Some(value)),
            Action::Insert(value) => ("insert", Some(value)),
            Action::Update(value) => ("update", Some(value)),
            Action::Remove => ("remove", None),
            Action::Exchange(_) => ("exchange", None),
            Action::Get => ("get", None),
        };
        let client = self.client;
        self.text(format_args!("> {client} {number} {now} {name}"));
        self.bytes(key);
        if let Some(value) = value {
            self.bytes(value);
        }
        if let Action::Exchange(Exchange { expected, new }) = action {
            match expected {
                Expected::Any => self.line.push_str(" *"),
                Expected::Value(expected) => self.value_or_absent(expected.as_deref()),
            }
            self.value_or_absent(new.as_deref());
        }
        self.end_line()?;
        Ok(Pending(number))
    }

    /// Records the answer to an operation at `now`.
    #[expect(clippy::needless_pass_by_value, reason = "an operation is answered once")]
    pub fn answer(&mut self, operation: Pending, now: u64, answer: &Answer) -> io::Result<()> {
        let name = match answer {
            Answer::Done(true) => "yes",
            Answer::Done(false) => "no",
            Answer::Stored { existed: true } => "replaced",
            Answer::Stored { existed: false } => "added",
            Answer::Found(Some(_)) => "found",
            Answer::Found(None) => "none",
        };
        let (client, number) = (self.client, operation.0);
        self.text(format_args!("< {client} {number} {now} {name}"));
        if let Answer::Found(Some(value)) = answer {
            self.bytes(value);
        }
        self.end_line()
    }

    /// Records a complete scan of this client; `scan.client` is ignored.
    pub fn scan(&mut self, scan: &Scan) -> io::Result<()> {
        let direction = match scan.direction {
            Direction::Forward => "forward",
            Direction::Backward => "backward",
        };
        let client = self.client;
        self.text(format_args!("s {client} {} {} {direction}", scan.call, scan.end));
        self.bound(&scan.from);
        self.bound(&scan.to);
        self.text(format_args!(" {}", scan.limit));
        for (key, value) in &scan.entries {
            self.bytes(key);
            self.line.push('=');
            hex(&mut self.line, value);
        }
        self.end_line()
    }

    /// The writer of the journal.
    pub fn into_inner(self) -> W {
        self.to
    }

    fn text(&mut self, text: std::fmt::Arguments<'_>) {
        self.line.write_fmt(text).expect("a string takes everything");
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.line.push(' ');
        hex(&mut self.line, bytes);
    }

    fn value_or_absent(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.line.push_str(" -"),
            Some(value) => self.bytes(value),
        }
    }

    fn bound(&mut self, bound: &Bound<ByteString>) {
        self.line.push(' ');
        match bound {
            Bound::Unbounded => self.line.push('*'),
            Bound::Included(key) => {
                self.line.push('[');
                hex(&mut self.line, key);
            }
            Bound::Excluded(key) => {
                self.line.push('(');
                hex(&mut self.line, key);
            }
        }
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.line.push('\n');
        let written = self.to.write_all(self.line.as_bytes());
        self.line.clear();
        written
    }
}

fn hex(line: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    line.push('x');
    for byte in bytes {
        line.push(DIGITS[usize::from(byte >> 4)] as char);
        line.push(DIGITS[usize::from(byte & 15)] as char);
    }
}

fn unhex(text: &str) -> Option<ByteString> {
    let digits = text.strip_prefix('x')?.as_bytes();
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

impl History {
    /// Reads a journal, or several one after the other.
    ///
    /// # Errors
    /// If a line is invalid or an answer has no operation, and the errors of the reader.
    pub fn read(mut journal: impl BufRead) -> io::Result<Self> {
        let mut history = Self::default();
        let mut pending = HashMap::new();
        let mut line = String::new();
        let mut number = 0;
        loop {
            line.clear();
            journal.read_line(&mut line)?;
            number += 1;
            // The end, or a line that a kill cut off.
            let Some(whole) = line.strip_suffix('\n') else { return Ok(history) };
            let refuse = || io::Error::new(io::ErrorKind::InvalidData, format!("line {number}: {whole}"));
            history.take_line(whole, &mut pending).ok_or_else(refuse)?;
        }
    }

    fn take_line(&mut self, line: &str, pending: &mut HashMap<(u64, u64), usize>) -> Option<()> {
        let mut words = line.split(' ');
        match words.next()? {
            "=" => {
                self.initial.insert(unhex(words.next()?)?, unhex(words.next()?)?);
            }
            ">" => {
                let (client, number) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                let call = words.next()?.parse().ok()?;
                let (name, key) = (words.next()?, unhex(words.next()?)?);
                let mut value = || unhex(words.next()?);
                let action = match name {
                    "put" => Action::Put(value()?),
                    "insert" => Action::Insert(value()?),
                    "update" => Action::Update(value()?),
                    "remove" => Action::Remove,
                    "exchange" => {
                        let expected = match words.next()? {
                            "*" => Expected::Any,
                            word => Expected::Value(read_value(word).ok()?),
                        };
                        Action::Exchange(Exchange { expected, new: read_value(words.next()?).ok()? })
                    }
                    "get" => Action::Get,
                    _ => return None,
                };
                pending.insert((client, number), self.operations.len());
                self.operations.push(Operation { client, key, action, call, answer: None });
            }
            "<" => {
                let asked = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                let end = words.next()?.parse().ok()?;
                let answer = match words.next()? {
                    "yes" => Answer::Done(true),
                    "no" => Answer::Done(false),
                    "replaced" => Answer::Stored { existed: true },
                    "added" => Answer::Stored { existed: false },
                    "found" => Answer::Found(Some(unhex(words.next()?)?)),
                    "none" => Answer::Found(None),
                    _ => return None,
                };
                self.operations[pending.remove(&asked)?].answer = Some((end, answer));
            }
            "s" => self.scans.push(read_scan(words)?),
            _ => return None,
        }
        Some(())
    }
}

fn read_scan<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Scan> {
    let client = words.next()?.parse().ok()?;
    let (call, end) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let direction = match words.next()? {
        "forward" => Direction::Forward,
        "backward" => Direction::Backward,
        _ => return None,
    };
    let (from, to) = (read_bound(words.next()?)?, read_bound(words.next()?)?);
    let limit = words.next()?.parse().ok()?;
    let entry = |word: &str| {
        let (key, value) = word.split_once('=')?;
        Some((unhex(key)?, unhex(value)?))
    };
    let entries = words.map(entry).collect::<Option<_>>()?;
    Some(Scan { client, call, end, direction, from, to, limit, entries })
}

/// A value, or `None` for an absent key.
fn read_value(word: &str) -> Result<Option<ByteString>, ()> {
    if word == "-" { Ok(None) } else { unhex(word).map(Some).ok_or(()) }
}

fn read_bound(word: &str) -> Option<Bound<ByteString>> {
    match word.split_at_checked(1)? {
        ("*", "") => Some(Bound::Unbounded),
        ("[", key) => Some(Bound::Included(unhex(key)?)),
        ("(", key) => Some(Bound::Excluded(unhex(key)?)),
        _ => None,
    }
}
