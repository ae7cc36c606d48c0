//! Reading the records of a segment. The memory for it is that of one record, not that of the file.

use super::files;
use super::record::{HEAD_BYTES, LogRecord, WORD_BYTES};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Bytes of a read.
const READ_BYTES: usize = 1 << 20;

/// A segment that is read from its beginning to its end.
#[derive(Debug)]
pub(super) struct SegmentReader {
    file: File,
    /// Bytes of the file. Those before `start` are passed.
    buffer: Vec<u8>,
    start: usize,
    /// The offset of `start` in the file.
    offset: u64,
    has_ended: bool,
}

impl SegmentReader {
    /// Opens the segment that begins with `record`.
    pub(super) fn open(path: &Path, record: u64) -> io::Result<Self> {
        let file = File::open(files::segment_path(path, record))?;
        Ok(Self { file, buffer: Vec::new(), start: 0, offset: 0, has_ended: false })
    }

    /// The bytes from here on: at least `bytes`, if the file has them.
    pub(super) fn fill(&mut self, bytes: usize) -> io::Result<&[u8]> {
        let missing = bytes.saturating_sub(self.buffer.len() - self.start);
        if missing > 0 && !self.has_ended {
            self.buffer.drain(..self.start);
            self.start = 0;
            let wanted = missing.max(READ_BYTES);
            let read = (&self.file).take(wanted as u64).read_to_end(&mut self.buffer)?;
            self.has_ended = read < wanted;
        }
        Ok(&self.buffer[self.start..])
    }

    /// As [`fill`](Self::fill), with at least the bytes of the record that begins here, if one begins here.
    pub(super) fn fill_record(&mut self) -> io::Result<&[u8]> {
        let length = LogRecord::length(self.fill(HEAD_BYTES)?);
        self.fill(length.unwrap_or(HEAD_BYTES))
    }

    /// Passes over bytes that were filled.
    pub(super) fn skip(&mut self, bytes: usize) {
        let bytes = bytes.min(self.buffer.len() - self.start);
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// The offset in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of its memory.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Reads the rest; returns the last record that an intact record of it calls durable. `None`: it has no intact
    /// record.
    pub(super) fn last_durable(&mut self, salt: u64) -> io::Result<Option<u64>> {
        let mut durable = None;
        loop {
            let bytes = self.fill(HEAD_BYTES)?;
            if bytes.len() < HEAD_BYTES {
                return Ok(durable);
            }
            // A record does not begin with zeros.
            let zeros = bytes.chunks_exact(WORD_BYTES).take_while(|word| **word == [0; WORD_BYTES]).count();
            if zeros > 0 {
                self.skip(zeros * WORD_BYTES);
                continue;
            }
            let record = LogRecord::first(self.fill_record()?, salt);
            let (bytes, found) =
                record.map_or((WORD_BYTES, None), |record| (record.bytes, Some(record.durable)));
            durable = durable.max(found);
            self.skip(bytes);
        }
    }
}
