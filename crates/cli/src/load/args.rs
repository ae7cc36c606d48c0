//! The options of `farwood load`.

use super::file_kind::FileKind;
use super::ids::IdSource;
use crate::size;
use farwood::Url;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  farwood load shm://demo/words data/english-words.txt
  farwood load shm://demo/prices prices.csv --header --key-column id --value-column price
  farwood scan shm://demo/words --json | farwood load shm://copy/words - --format jsonl
  zcat words.gz | farwood load shm://demo/words - --value 1
  farwood load shm://demo/places streets.geojson                         into a spatial index
  farwood load shm://demo/places buildings.fgb                           FlatGeobuf
  farwood load shm://demo/records buildings.fgb --id-column osm_id       with ids, geometries and attributes
  farwood load shm://demo/places boxes.csv                               x1,y1,x2,y2[,number] or x,y[,number]
  farwood load shm://demo/places cities.csv --header --columns lon,lat,id
  farwood load shm://demo/places parcels.csv --header --wkt geom --id-column id
  farwood load shm://demo/places roads.shp                               a Shapefile
  farwood load shm://demo/records roads.shp --id-column road_id          the same, with the columns of roads.dbf
  farwood load shm://demo/places towns.gpkg --layer towns                a GeoPackage, in a build with its feature
  farwood load shm://demo/places sites.parquet --id-column site          GeoParquet, in a build with its feature
  farwood load shm://demo/places data/coastlines.csv --corners           the ends of segments";

/// Load an index from a text, TSV, CSV, JSON Lines, GeoJSON, FlatGeobuf or Shapefile file, or from stdin
///
/// A text file has one key per line; the value is the line number, or --value. Input that cannot be parsed stops the
/// load, and the error names the line or feature and the reason; with --skip-bad, the command counts and skips bad
/// lines and features. Exit code 1 if all are bad. Empty lines, and a byte order mark of UTF-8 at the start, are not
/// data. The command prints the format of the file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// shm://POOL/INDEX
    pub(super) url: Url,
    /// The file, or `-` for stdin
    pub(super) file: PathBuf,
    /// Format of the file. auto decides by the extension, in upper or lower case: .txt, .tsv, .csv, .jsonl, .ndjson;
    /// for a spatial index also .json, .geojson, .fgb, .shp, .gpkg, .parquet, and .geojsonl, .geojsons, .ndjson, .jsonl
    /// (geojson-seq). For a spatial index, the first bytes of a file that is not a text decide, whatever its extension.
    /// Files without an extension, and stdin, are text, or CSV for a spatial index. Other extensions need this option
    #[arg(long, value_enum, default_value_t = FileKind::Auto)]
    pub(super) format: FileKind,
    /// The first line of a TSV or CSV file holds the column names
    #[arg(long)]
    pub(super) header: bool,
    /// The column of the keys: its number, from 1, or its name in the header [default: 1]; in JSON lines, the name of
    /// the member [default: key]
    #[arg(long, value_name = "COLUMN")]
    pub(super) key_column: Option<String>,
    /// The column of the values: its number, from 1, or its name in the header [default: 2]; in JSON lines, the name of
    /// the member [default: value]
    #[arg(long, value_name = "COLUMN")]
    pub(super) value_column: Option<String>,
    /// The value of every key, instead of a column or the line number
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(super) value: Option<String>,
    /// The columns of rectangles in a TSV or CSV file: x,y or x1,y1,x2,y2, and optionally the number, each by its
    /// number, from 1, or its name in the header. Without this option, every column must be one of these, in this
    /// order, or named x, y, x1, y1, x2, y2, lon, lat, min_x, west, .., id or number in the header
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(super) columns: Option<Vec<String>>,
    /// The column with the geometry as WKT, such as POINT(1 2), in a TSV or CSV file: its number, from 1, or its name
    /// in the header
    #[arg(long, value_name = "COLUMN")]
    pub(super) wkt: Option<String>,
    /// The column with the ids, which are integers, or texts for an index of texts. In a file with --wkt: its number,
    /// from 1, or its name in the header; in GeoPackage, GeoParquet, FlatGeobuf and the .dbf file of a Shapefile: its
    /// name
    /// [default: the primary key of a GeoPackage; otherwise the position of the row]
    #[arg(long, value_name = "COLUMN")]
    pub(super) id_column: Option<String>,
    /// The layer of a GeoPackage that has several
    #[arg(long, value_name = "NAME")]
    pub(super) layer: Option<String>,
    /// A row of a TSV or CSV file has two opposite corners of a rectangle in any order, such as the ends of a segment,
    /// instead of its least and greatest x and y
    #[arg(long)]
    pub(super) corners: bool,
    /// The ids of rectangles and records
    #[arg(long, value_enum, default_value_t = IdSource::File)]
    pub(super) ids: IdSource,
    /// Skip bad lines and features, and report their number and the first of them
    #[arg(long)]
    pub(super) skip_bad: bool,
    /// Fill factor of the nodes in a bulk load, 0.5 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, value_parser = share)]
    pub(super) fill: f64,
    /// Maximum memory for sorting the entries of a bulk load; 0 disables bulk loading
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1GiB")]
    pub(super) sort_memory: u64,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.5..=1.0).contains(&share) => Ok(share),
        _ => Err("give a number from 0.5 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_outside_the_permitted_range_are_refused() {
        assert_eq!(share("0.8"), Ok(0.8));
        assert!(
            share("0.4").is_err() && share("1.1").is_err() && share("NaN").is_err() && share("x").is_err()
        );
    }
}
