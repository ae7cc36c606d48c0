//! Features of a FlatGeobuf file, numbered by their position in the file or by a column that the command line names. An
//! index with records stores the geometry in x and y, and the columns as attributes. The reader keeps one feature in
//! memory, and skips the index in the file, so the file may come through a pipe.

mod geometry;
mod properties;

use self::properties::Columns;
use super::args::Args;
use super::found::Found;
use super::trouble::{Place, Trouble};
use crate::Failure;
use flatgeobuf::packed_r_tree::PackedRTree;
use flatgeobuf::{Error, Feature, FgbReader, GeometryType, size_prefixed_root_as_feature};
use std::io::{self, BufRead, ErrorKind, Read};

/// Largest number of features that the header may state: the size of the file's index must fit into 64 bits.
const FEATURES_MAX: u64 = 1 << 48;
/// Bytes of the size of a feature.
const SIZE_BYTES: usize = 4;

/// The contents of the header.
struct Header {
    kind: GeometryType,
    /// The number of features; 0: the writer did not know it.
    promised: u64,
    columns: Columns,
}

pub(super) fn read(args: &Args, mut reader: impl BufRead, found: &mut Found<'_>) -> Result<(), Failure> {
    let header = read_header(args, &mut reader, found).map_err(|why| found.failure(why))?;
    let (mut bytes, mut number) = (Vec::new(), 0);
    while header.promised == 0 || number < header.promised {
        let feature = next_feature(&mut reader, &mut bytes).map_err(|why| found.failure(why))?;
        let Some(feature) = feature else { break };
        number += 1;
        let (id, attributes) = header.columns.values(&feature);
        let placed = found.feature(id, geometry::shaped(header.kind, &feature, found), attributes);
        found.add(Place::Feature(number), number, placed)?;
    }
    if header.promised > number {
        let why = format!("it ends too early, after {number} of {} features", header.promised);
        return Err(found.failure(damaged(&why)));
    }
    match reader.fill_buf() {
        Ok([]) => Ok(()),
        Ok(_) => Err(found.failure(damaged("bytes follow the last feature"))),
        Err(error) => Err(found.failure(error.into())),
    }
}

/// Reads the header, and skips the index of the file.
fn read_header(args: &Args, mut reader: impl Read, found: &mut Found<'_>) -> Result<Header, Trouble> {
    let file = FgbReader::open(&mut reader).map_err(trouble)?;
    let header = file.header();
    let (kind, promised, node_size) =
        (header.geometry_type(), header.features_count(), header.index_node_size());
    if node_size == 1 || promised > FEATURES_MAX {
        return Err(damaged("its header is not valid"));
    }
    let columns = Columns::of(&header, args, found).map_err(|why| Trouble::rest(Place::File, why))?;
    let index_bytes = match (node_size, promised) {
        (0, _) | (_, 0) => 0,
        _ => PackedRTree::index_size(promised as usize, node_size) as u64,
    };
    if io::copy(&mut reader.take(index_bytes), &mut io::sink())? < index_bytes {
        return Err(damaged("it ends too early"));
    }
    Ok(Header { kind, promised, columns })
}

/// Reads the next feature; `None` at the end of the file.
fn next_feature(mut reader: impl Read, bytes: &mut Vec<u8>) -> Result<Option<Feature<'_>>, Trouble> {
    bytes.clear();
    reader.by_ref().take(SIZE_BYTES as u64).read_to_end(bytes)?;
    let size = match bytes[..] {
        [] => return Ok(None),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        _ => return Err(damaged("it ends within the size of a feature")),
    };
    // The size may be wrong: the buffer grows with what the file has.
    if reader.take(size).read_to_end(bytes)? as u64 != size {
        return Err(damaged("it ends too early"));
    }
    size_prefixed_root_as_feature(bytes).map(Some).map_err(|error| trouble(error.into()))
}

fn damaged(why: &str) -> Trouble {
    Trouble::damaged(format_args!("the FlatGeobuf file is damaged: {why}"))
}

fn trouble(error: Error) -> Trouble {
    match error {
        Error::MissingMagicBytes => Trouble::rest(Place::File, "the file is not in FlatGeobuf format"),
        Error::IO(source) if source.kind() == ErrorKind::UnexpectedEof => damaged("it ends too early"),
        Error::IO(source) => source.into(),
        Error::IllegalHeaderSize(bytes) => damaged(&format!("it states a header of {bytes} bytes")),
        // The library describes the position in the header in several lines.
        Error::InvalidFlatbuffer(_) => damaged("its header or a feature is not valid"),
        error => damaged(&error.to_string()),
    }
}
