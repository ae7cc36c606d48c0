//! Rectangles, and what is asked of them: Catfish's workloads (its §V-B).
//!
//! - *The data*: so many squares' worth of rectangles, corners uniform in the unit square, edges uniform in (0, 1e-4];
//!   or the rows of a file.
//! - *A search*: a window whose corner is uniform and whose edges are uniform in (0, s], for a scale s; by the power
//!   law s itself is drawn for each, from a density in proportion to t^-0.99 on (1e-5, 0.01].
//! - *A search of a file*: a window around one of its rectangles that has about 100 results, 50 to 150.
//! - *An insert*: edges as a search's; x and y each from a density in proportion to t^-0.99 on (0.5, 1], mirrored into
//!   one of four quadrants.

mod file;
mod stream;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use farwood_index::catfish::{Item, Rectangle};
use serde::{Deserialize, Serialize};

use crate::random::Generator;
use crate::{Error, Result};

pub use file::read_file;
pub use stream::{Asked, RequestStream};

/// Longest edge of a rectangle of the data (Catfish §V-B).
const EDGE_MAX: f64 = 1e-4;
/// Scales of the power law: above the first, up to the second (Catfish §V-B).
const POWER_LAW_SCALES: [f64; 2] = [1e-5, 1e-2];
/// Where inserts go along an axis, before they are mirrored (Catfish §V-B).
const INSERT_PLACES: [f64; 2] = [0.5, 1.0];
/// The power of both laws.
pub const POWER: f64 = 0.99;
/// Mixed into the seed for the data, of which no client's stream knows.
const DATA: u64 = 0x7265_6374_616E_676C;

/// Where rectangles come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// So many uniform ones.
    Uniform(u64),
    /// The rows of a file, at most so many of them.
    File(PathBuf, u64),
}

impl Source {
    /// The rectangles, numbered from 0.
    ///
    /// # Errors
    /// A file that cannot be read, or has a row that is no rectangle.
    pub fn items(&self, seed: u64) -> Result<Vec<Item>> {
        match self {
            Source::Uniform(count) => Ok(uniform(*count, seed)),
            Source::File(file, most) => read_file(file, *most),
        }
    }
}

fn uniform(count: u64, seed: u64) -> Vec<Item> {
    let mut chance = Generator::for_client(seed ^ DATA, 0);
    (0..count).map(|id| Item { bounds: window(&mut chance, EDGE_MAX), id }).collect()
}

/// A number in [0, 1).
fn unit(chance: &mut Generator) -> f64 {
    (chance.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A rectangle with edges in (0, edge_max], its lower corner somewhere in the unit square.
fn window(chance: &mut Generator, edge_max: f64) -> Rectangle {
    let corner = [unit(chance), unit(chance)];
    at(chance, corner, edge_max)
}

/// A rectangle with edges in (0, edge_max], at a place.
fn at(chance: &mut Generator, corner: [f64; 2], edge_max: f64) -> Rectangle {
    let edge = [0, 1].map(|_| edge_max * (1.0 - unit(chance)));
    let max = [corner[0] + edge[0], corner[1] + edge[1]];
    Rectangle::new(corner, max).expect("edges are positive, and all of it is near the unit square")
}

/// A number in (from, to] whose density is in proportion to its power -0.99.
fn by_power_law(chance: &mut Generator, [from, to]: [f64; 2]) -> f64 {
    let flat = 1.0 - POWER;
    let (low, high) = (from.powf(flat), to.powf(flat));
    (low + (high - low) * (1.0 - unit(chance))).powf(1.0 / flat)
}

/// How large the windows of searches are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Scale {
    /// Edges up to this.
    Edge(f64),
    /// Edges up to what the power law says.
    PowerLaw,
    /// Windows around rectangles of the data that have about 100 results.
    Hundred,
}

impl Scale {
    /// The longest edge of one window.
    fn draw(self, chance: &mut Generator) -> f64 {
        match self {
            Scale::Edge(edge) => edge,
            Scale::PowerLaw | Scale::Hundred => by_power_law(chance, POWER_LAW_SCALES),
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
                let problem = format!("{text} is no scale");
                let remedy = "give the longest edge of a window, above 0 and at most 1, such as 0.00001 or 0.01; \
                              or power-law; or hundred, windows that have about a hundred results";
                Err(Error::parameter("--scale", problem, remedy))
            }
        }
    }
}

/// The mix of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mix {
    /// Searches only.
    Search,
    /// 90 % searches, 10 % inserts.
    Mixed,
}

impl Mix {
    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Search => "search",
            Mix::Mixed => "mixed",
        }
    }
}

impl FromStr for Mix {
    type Err = Error;

    fn from_str(name: &str) -> Result<Mix> {
        match name {
            "search" => Ok(Mix::Search),
            "mixed" => Ok(Mix::Mixed),
            _ => {
                let problem = format!("no such workload of rectangles: {name}");
                Err(Error::parameter("--workload", problem, "give search or mixed"))
            }
        }
    }
}

#[cfg(test)]
mod tests;
