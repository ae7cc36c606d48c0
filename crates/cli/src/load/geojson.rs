//! Rectangles of GeoJSON texts (RFC 7946), read as a stream: memory holds the members of one feature, without its
//! coordinates and properties, and the rectangles. For an index with records it holds the geometries and properties.

mod coordinates;
mod feature;
mod object;
mod underflow;

use self::object::{Document, FeatureSink};
use self::underflow::UnderflowFilter;
use super::found::{Found, Placed};
use super::lines::{self, Appended, Lines};
use super::trouble::{Place, Trouble};
use crate::{Failure, size};
use serde::de::DeserializeSeed as _;
use serde_json::Deserializer;
use std::io::{BufRead, BufReader, Read};

/// The byte before each text of a sequence (RFC 8142).
const RECORD_SEPARATOR: u8 = 0x1E;

/// Bytes of the buffer from which the parser takes single bytes.
const BUFFER_BYTES: usize = 1 << 16;

/// Adds the features of a text to the rectangles.
struct Sink<'s, 'a> {
    found: &'s mut Found<'a>,
    /// The number of features so far.
    position: u64,
    /// The line on which the text begins, if the file is a sequence.
    line: Option<u64>,
    /// The reason for the end of the load.
    failure: Option<Failure>,
}

impl Sink<'_, '_> {
    /// The place of the feature with that position.
    fn place(&self, feature: u64) -> Place {
        match self.line {
            Some(line) => Place::FeatureOnLine { feature, line },
            None => Place::Feature(feature),
        }
    }
}

impl FeatureSink for Sink<'_, '_> {
    fn keeps_contents(&self) -> bool {
        self.found.wants_contents()
    }

    fn add(&mut self, placed: Placed) -> Result<(), object::LoadEnded> {
        self.position += 1;
        let place = self.place(self.position);
        self.found.add(place, self.position, placed).map_err(|failure| {
            self.failure = Some(failure);
            object::LoadEnded
        })
    }
}

/// Reads a file that is one text.
pub(super) fn read(reader: impl BufRead, found: &mut Found<'_>) -> Result<(), Failure> {
    let mut sink = Sink { found, position: 0, line: None, failure: None };
    // Properties that are stored are not filtered: their numbers stay as they are.
    let reader: Box<dyn Read> =
        if sink.found.wants_contents() { Box::new(reader) } else { Box::new(UnderflowFilter::new(reader)) };
    let mut parser = Deserializer::from_reader(BufReader::with_capacity(BUFFER_BYTES, reader));
    let parsed = Document(&mut sink).deserialize(&mut parser);
    if let Some(failure) = sink.failure {
        return Err(failure);
    }
    let whole = parsed.and_then(|document| parser.end().map(|()| document));
    match whole {
        Ok(Ok(())) => Ok(()),
        Ok(Err(why)) => Err(found.failure(Trouble::rest(Place::File, why))),
        Err(error) if error.is_io() => Err(found.failure(Trouble::Read(error.into()))),
        Err(error) if error.is_data() => {
            let place = Place::Feature(sink.position + 1);
            Err(found.failure(Trouble::rest(place, format!("it is not GeoJSON: {error}"))))
        }
        Err(error) if error.is_eof() => {
            let (line, column) = (error.line(), error.column());
            let why = format!("the file ends too early, at line {line}, column {column}");
            Err(found.failure(Trouble::damaged(why)))
        }
        Err(error) => {
            let hint = "if the file has several texts, one per line or after record separators, give --format \
                        geojson-seq";
            Err(found.failure(Trouble::rest(Place::File, format!("the file is not JSON: {error}; {hint}"))))
        }
    }
}

/// Reads a file that is a sequence of texts: after record separators if it begins with one, otherwise one per line.
pub(super) fn read_sequence(mut reader: impl BufRead, found: &mut Found<'_>) -> Result<(), Failure> {
    let separated = match reader.fill_buf() {
        Ok(bytes) => bytes.first() == Some(&RECORD_SEPARATOR),
        Err(error) => return Err(found.failure(error.into())),
    };
    let end = if separated { RECORD_SEPARATOR } else { b'\n' };
    let mut records = Lines::ending_with(reader, end);
    let mut sink = Sink { found, position: 0, line: Some(1), failure: None };
    let (mut record, mut line) = (Vec::new(), 1);
    loop {
        record.clear();
        match records.append(&mut record) {
            Ok(Appended::End) => return Ok(()),
            Ok(Appended::TooLong) if separated => {
                // The lines of the rest of the text are not counted.
                return Err(sink.found.failure(Trouble::rest(Place::Line(line), lines::too_long())));
            }
            Ok(Appended::TooLong) => {
                sink.position += 1;
                sink.found.bad(Trouble::record(Place::Line(line), lines::too_long()))?;
            }
            Ok(Appended::Whole) => read_record(&record, line, &mut sink)?,
            Err(error) => return Err(sink.found.failure(error.into())),
        }
        line += if separated { line_feeds(&record) } else { 1 };
    }
}

fn line_feeds(text: &[u8]) -> u64 {
    text.iter().map(|&byte| u64::from(byte == b'\n')).sum()
}

/// Reads one text of a sequence, with the byte that ends it.
fn read_record(record: &[u8], line: u64, sink: &mut Sink<'_, '_>) -> Result<(), Failure> {
    let text = record.strip_suffix(&[RECORD_SEPARATOR]).unwrap_or(record);
    if text.trim_ascii().is_empty() {
        return Ok(());
    }
    sink.line = Some(line);
    let before = sink.position;
    let filtered = (!sink.found.wants_contents()).then(|| underflow::filtered(text));
    let mut parser = Deserializer::from_slice(filtered.as_deref().unwrap_or(text));
    let parsed = Document(sink).deserialize(&mut parser);
    if let Some(failure) = sink.failure.take() {
        return Err(failure);
    }
    let why = match parsed.and_then(|document| parser.end().map(|()| document)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(why)) => why,
        Err(error) if error.is_eof() => "the text ends too early".to_owned(),
        Err(error) => {
            format!("the text is not JSON: {}, at column {}", without_place(&error), error.column())
        }
    };
    let why = match sink.position - before {
        0 => why,
        earlier => {
            let earlier = size::count(earlier, "feature", "features");
            format!("{why}; --skip-bad loads the {earlier} of the text before the error")
        }
    };
    // A text that yields no feature has a position as well, so that later features keep theirs under --skip-bad.
    sink.position = sink.position.max(before + 1);
    sink.found.bad(Trouble::record(Place::Line(line), why))
}

/// The error without the line, which is counted within the text.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}
