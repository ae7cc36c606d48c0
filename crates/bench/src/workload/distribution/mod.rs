//! The popularity of keys: uniform, Zipf, and Zipf over recency.
//!
//! The Zipf sampler is rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", TOMACS 6(3), 1996): exact for every exponent, without tables, and with a constant
//! cost per sample for any number of ranks. The published crate omits the rejection step, which shifts the share of the
//! second and third rank, so this is a separate implementation.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::workload::random::{Generator, below, mix};
use crate::{Error, Result};

/// The skew of YCSB and of the papers.
pub const THETA_DEFAULT: f64 = 0.99;
/// Largest skew accepted; above it almost every draw is the first rank.
pub const THETA_MAX: f64 = 20.0;

/// Seed of the hash that maps popularity ranks onto keys if their numbers differ.
const SPREAD_SEED: u64 = 0x7A69_7066_5F72_616E;

/// The distribution of popularity over the keys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Distribution {
    /// All keys are equally likely.
    Uniform,
    /// The key of popularity rank `r` (from 1) has a share proportional to `1 / r^theta`.
    Zipf {
        /// The skew, from 0 (uniform) to [`THETA_MAX`].
        theta: f64,
    },
    /// Zipf over recency: the newest key is the most popular one, and follows the inserts.
    Latest {
        /// The skew, from 0 (uniform) to [`THETA_MAX`].
        theta: f64,
    },
}

impl Distribution {
    /// The names that `--distribution` takes.
    pub const NAMES: [&'static str; 3] = ["uniform", "zipf", "latest"];

    /// The distribution by its name, with the skew `theta`.
    ///
    /// # Errors
    /// An unknown name, or an invalid skew.
    pub fn new(name: &str, theta: f64) -> Result<Distribution> {
        let distribution: Distribution = name.parse()?;
        let distribution = distribution.with_theta(theta);
        distribution.check()?;
        Ok(distribution)
    }

    /// Returns this distribution with another skew. A uniform distribution has no skew and is returned unchanged.
    #[must_use]
    pub fn with_theta(self, theta: f64) -> Distribution {
        match self {
            Distribution::Uniform => Distribution::Uniform,
            Distribution::Zipf { .. } => Distribution::Zipf { theta },
            Distribution::Latest { .. } => Distribution::Latest { theta },
        }
    }

    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipf { .. } => "zipf",
            Distribution::Latest { .. } => "latest",
        }
    }

    /// The skew; 0 for uniform, because Zipf of skew 0 is uniform.
    pub fn theta(self) -> f64 {
        match self {
            Distribution::Uniform => 0.0,
            Distribution::Zipf { theta } | Distribution::Latest { theta } => theta,
        }
    }

    /// The share of the hottest of `ranks` ranks in all draws.
    pub fn share_of_hottest(self, ranks: u64) -> f64 {
        1.0 / harmonic(ranks.max(1), self.theta())
    }

    /// Refuses a skew that is not a number from 0 to [`THETA_MAX`].
    pub fn check(self) -> Result<()> {
        check_theta(self.theta())
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => f.write_str(self.name()),
            _ => write!(f, "{} {}", self.name(), self.theta()),
        }
    }
}

impl FromStr for Distribution {
    type Err = Error;

    fn from_str(name: &str) -> Result<Distribution> {
        match name {
            "uniform" => Ok(Distribution::Uniform),
            "zipf" => Ok(Distribution::Zipf { theta: THETA_DEFAULT }),
            "latest" => Ok(Distribution::Latest { theta: THETA_DEFAULT }),
            _ => {
                let names = Distribution::NAMES.join(", ");
                Err(Error::parameter("--distribution", format!("no such distribution: {name}"), names))
            }
        }
    }
}

/// The sum of `k^-theta` for `k` from 1 to `ranks`: the first terms one by one, the rest by Euler and Maclaurin.
fn harmonic(ranks: u64, theta: f64) -> f64 {
    const TERMS: u64 = 1000;
    let mass = |x: f64| x.powf(-theta);
    let sum: f64 = (1..=ranks.min(TERMS)).map(|k| mass(k as f64)).sum();
    if ranks <= TERMS {
        return sum;
    }
    let (from, to) = (TERMS as f64, ranks as f64);
    let power = 1.0 - theta;
    let log = (to / from).ln();
    let integral = if power.abs() < 1e-12 { log } else { from.powf(power) * (power * log).exp_m1() / power };
    let slope = |x: f64| -theta * mass(x) / x;
    sum + integral + (mass(to) - mass(from)) / 2.0 + (slope(to) - slope(from)) / 12.0
}

fn check_theta(theta: f64) -> Result<()> {
    if (0.0..=THETA_MAX).contains(&theta) {
        return Ok(());
    }
    let remedy = format!("give 0 (uniform) to {THETA_MAX}; the papers use {THETA_DEFAULT}");
    Err(Error::parameter("--theta", format!("{theta} is not a valid skew"), remedy))
}

/// A sampler of popularity ranks, most popular first.
#[derive(Clone, Debug)]
pub enum Popularity {
    /// Uniform over `0..ranks`.
    Uniform {
        /// Number of ranks.
        ranks: u64,
    },
    /// Zipf over `0..ranks`.
    Zipf(Zipf),
}

impl Popularity {
    /// A sampler over `ranks` popularity ranks with skew `theta`; refuses 0 ranks and an unusable skew.
    pub fn new(ranks: u64, theta: f64) -> Result<Popularity> {
        check_theta(theta)?;
        if ranks == 0 {
            return Err(Error::parameter("--zipf-ranks", "0 ranks", "give at least 1"));
        }
        if theta == 0.0 || ranks == 1 {
            return Ok(Popularity::Uniform { ranks });
        }
        Ok(Popularity::Zipf(Zipf::new(ranks, theta)))
    }

    /// Draws a popularity rank, from 0 (the most popular).
    #[inline]
    pub fn draw(&self, generator: &mut Generator) -> u64 {
        match self {
            Popularity::Uniform { ranks } => generator.below(*ranks),
            Popularity::Zipf(zipf) => zipf.draw(generator),
        }
    }
}

/// The constants of rejection-inversion for one number of ranks and skew.
///
/// With `h(x) = x^-theta` and `H` its integral, `H^-1` of a uniform number is almost always a correct rank; a
/// comparison with the exact mass rejects the others.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: f64,
    theta: f64,
    /// `H(1.5) - h(1)`: the lower end of the uniform numbers, so that the first rank gets exactly `h(1)`.
    low: f64,
    /// `H(ranks + 0.5)`: their upper end.
    high: f64,
    /// If `rank - x` is at most this, the draw is accepted without computing the mass.
    shortcut: f64,
}

impl Zipf {
    fn new(ranks: u64, theta: f64) -> Zipf {
        let mut zipf = Zipf { ranks: ranks as f64, theta, low: 0.0, high: 0.0, shortcut: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.ranks + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.mass(2.0));
        zipf
    }

    #[inline]
    fn draw(&self, generator: &mut Generator) -> u64 {
        loop {
            let u = self.high + generator.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let rank = (x + 0.5).floor().clamp(1.0, self.ranks);
            if rank - x <= self.shortcut || u >= self.integral(rank + 0.5) - self.mass(rank) {
                return rank as u64 - 1;
            }
        }
    }

    /// `h(x) = x^-theta`.
    #[inline]
    fn mass(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// `H(x) = (x^(1-theta) - 1) / (1-theta)`, and `ln x` where theta is 1.
    #[inline]
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.theta) * log;
        if power.abs() < 1e-12 { log } else { power.exp_m1() / (1.0 - self.theta) }
    }

    /// The inverse of [`Zipf::integral`].
    #[inline]
    fn inverse(&self, y: f64) -> f64 {
        let scaled = (1.0 - self.theta) * y;
        if scaled.abs() < 1e-12 {
            return y.exp();
        }
        // Rounding may yield -1 at the end of a steep distribution; the logarithm is then minus infinity, the result
        // infinite, and the caller's clamp makes it the last rank.
        (scaled.max(-1.0).ln_1p() / (1.0 - self.theta)).exp()
    }
}

/// Draws ranks of keys: popularity mapped onto `0..keys`.
#[derive(Clone, Debug)]
pub struct KeyChooser {
    popularity: Popularity,
    keys: u64,
    spread: bool,
}

impl KeyChooser {
    /// Draws `0..keys` with the popularity of `distribution` over `popularity_ranks` ranks.
    ///
    /// Where the two numbers differ, a fixed hash maps popularity ranks onto keys, so that the hottest key
    /// keeps the share it has among `popularity_ranks`. `Latest` is drawn like Zipf here: by
    /// [`KeyChooser::recency`].
    pub fn new(distribution: Distribution, popularity_ranks: u64, keys: u64) -> Result<KeyChooser> {
        if keys == 0 {
            return Err(Error::parameter("--keys", "there is no key to draw", "load at least one"));
        }
        let theta = distribution.theta();
        let ranks = if theta == 0.0 { keys } else { popularity_ranks };
        Ok(KeyChooser { popularity: Popularity::new(ranks, theta)?, keys, spread: ranks != keys })
    }

    /// The rank of a key, in `0..keys`.
    #[inline]
    pub fn choose(&self, generator: &mut Generator) -> u64 {
        let popularity = self.popularity.draw(generator);
        if self.spread { below(mix(popularity ^ SPREAD_SEED), self.keys) } else { popularity }
    }

    /// The number of keys that were added after a key, in `0..count`: 0 is the newest of `count` keys.
    #[inline]
    pub fn recency(&self, generator: &mut Generator, count: u64) -> u64 {
        let age = self.popularity.draw(generator);
        if age < count { age } else { below(mix(age ^ SPREAD_SEED), count) }
    }
}

#[cfg(test)]
mod tests;
