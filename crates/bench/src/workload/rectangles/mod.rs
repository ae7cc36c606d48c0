//! Rectangles and the requests for them: Catfish's workloads (its §V-B).
//!
//! - *Data*: rectangles with corners uniform in the unit square and edges uniform in (0, 1e-4]; or the rows of a file.
//! - *Search*: a window whose corner is uniform and whose edges are uniform in (0, s], for a scale s. With the power
//!   law, s is drawn for each window from a density proportional to t^-0.99 on (1e-5, 0.01].
//! - *Search of a file*: a window around one of its rectangles with 50 to 150 results, about 100 on average.
//! - *Insert*: edges like those of a search; x and y each from a density proportional to t^-0.99 on (0.5, 1], mirrored
//!   into one of four quadrants.

mod file;
pub(crate) mod regions;
mod stream;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use farwood_index::catfish::{Item, Rectangle};
use serde::{Deserialize, Serialize};

use crate::workload::random::Generator;
use crate::{Error, Result};

pub use file::read_file;
pub use stream::{RectangleRequest, RequestStream};

/// Longest edge of a rectangle of the data (Catfish §V-B).
const EDGE_MAX: f64 = 1e-4;
/// Scales of the power law: above the first, up to the second (Catfish §V-B).
const POWER_LAW_SCALES: [f64; 2] = [1e-5, 1e-2];
/// The range of inserts along an axis, before they are mirrored (Catfish §V-B).
const INSERT_RANGE: [f64; 2] = [0.5, 1.0];
/// The exponent of both laws.
pub const POWER: f64 = 0.99;
/// A constant that is combined with the seed for the data, so that the data differ from the clients' streams.
const DATA_SEED: u64 = 0x7265_6374_616E_676C;

/// The source of the rectangles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RectangleSource {
    /// This number of uniform rectangles.
    Uniform(u64),
    /// The rows of a file, at most this number.
    File(PathBuf, u64),
}

impl RectangleSource {
    /// The rectangles, numbered from 0.
    ///
    /// # Errors
    /// A file that cannot be read, or that has a row that is not a rectangle; too little memory.
    pub fn items(&self, seed: u64) -> Result<Vec<Item>> {
        match self {
            RectangleSource::Uniform(count) => uniform(*count, seed),
            RectangleSource::File(file, most) => read_file(file, *most),
        }
    }
}

fn uniform(count: u64, seed: u64) -> Result<Vec<Item>> {
    let mut generator = Generator::for_client(seed ^ DATA_SEED, 0);
    let mut items = Vec::new();
    items.try_reserve_exact(count as usize).map_err(|_| {
        let problem = format!("this machine has too little memory for {count} rectangles");
        Error::parameter("--keys", problem, "give fewer")
    })?;
    items.extend((0..count).map(|id| Item { bounds: window(&mut generator, EDGE_MAX), id }));
    Ok(items)
}

/// A number in [0, 1).
fn unit(generator: &mut Generator) -> f64 {
    (generator.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A rectangle with edges in (0, edge_max] and its lower corner uniform in the unit square.
fn window(generator: &mut Generator, edge_max: f64) -> Rectangle {
    let corner = [unit(generator), unit(generator)];
    at(generator, corner, edge_max)
}

/// A rectangle with edges in (0, edge_max] and this lower corner.
fn at(generator: &mut Generator, corner: [f64; 2], edge_max: f64) -> Rectangle {
    let edge = [0, 1].map(|_| edge_max * (1.0 - unit(generator)));
    let max = [corner[0] + edge[0], corner[1] + edge[1]];
    Rectangle::new(corner, max).expect("edges are positive and finite")
}

/// A number in (from, to] with a density proportional to its power -0.99.
fn by_power_law(generator: &mut Generator, [from, to]: [f64; 2]) -> f64 {
    let flat = 1.0 - POWER;
    let (low, high) = (from.powf(flat), to.powf(flat));
    (low + (high - low) * (1.0 - unit(generator))).powf(1.0 / flat)
}

/// The size of the windows of searches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Scale {
    /// Window edges up to this length.
    Edge(f64),
    /// Window edges up to a length that is drawn for each window from a power law.
    PowerLaw,
    /// Windows around rectangles of the data that have about 100 results.
    Hundred,
}

impl Scale {
    /// The longest edge of one window.
    fn draw(self, generator: &mut Generator) -> f64 {
        match self {
            Scale::Edge(edge) => edge,
            Scale::PowerLaw | Scale::Hundred => by_power_law(generator, POWER_LAW_SCALES),
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scale::Edge(edge) => write!(f, "{edge}"),
            Scale::PowerLaw => f.write_str("power-law"),
            Scale::Hundred => f.write_str("hundred"),
        }
    }
}

impl FromStr for Scale {
    type Err = Error;

    fn from_str(text: &str) -> Result<Scale> {
        match text {
            "power-law" => return Ok(Scale::PowerLaw),
            "hundred" => return Ok(Scale::Hundred),
            _ => {}
        }
        match text.parse::<f64>() {
            Ok(edge) if edge.is_finite() && 0.0 < edge && edge <= 1.0 => Ok(Scale::Edge(edge)),
            _ => {
                let problem = format!("'{text}' is not a scale");
                let remedy = "give the longest edge of a window, above 0 and at most 1, such as 0.00001 or 0.01; \
                              power-law; or hundred, for windows with about a hundred results";
                Err(Error::parameter("--scale", problem, remedy))
            }
        }
    }
}

/// The mix of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpatialMix {
    /// Searches only.
    Search,
    /// 90 % searches, 10 % inserts.
    Mixed,
}

impl SpatialMix {
    /// Whether the mix has inserts.
    pub fn inserts(self) -> bool {
        self == SpatialMix::Mixed
    }

    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            SpatialMix::Search => "search",
            SpatialMix::Mixed => "mixed",
        }
    }
}

impl FromStr for SpatialMix {
    type Err = Error;

    fn from_str(name: &str) -> Result<SpatialMix> {
        match name {
            "search" => Ok(SpatialMix::Search),
            "mixed" => Ok(SpatialMix::Mixed),
            _ => {
                let problem = format!("no such workload of rectangles: {name}");
                Err(Error::parameter("--workload", problem, "give search or mixed"))
            }
        }
    }
}

#[cfg(test)]
mod tests;
